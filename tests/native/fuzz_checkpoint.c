/*
 * libFuzzer on ecc_engine_load: the state that a run has saved is altered here and there, and loaded. Whatever that
 * makes of it, a new engine refuses it, or takes it with every invariant intact, saves the same bytes again and runs on
 * to an end.
 *
 * The bytes are those of fuzz_input.h behind how far the run comes and whether memory fails then (two bytes), how many
 * alterations there are (one), and these: where (two bytes), how (one), and a number.
 */

#include "fuzz_input.h"

#define MAX_EDITS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    unsigned char *bytes;
    int64_t size;
} saved_t;

/* Runs at most so many events, and hands over transfers when they are wanted; the code it ended with. */
static int
go(ecc_engine_t *engine, const input_t *input, int64_t n_events, int64_t *n_added)
{
    ecc_stats_t stats;
    int ret = 0;

    ecc_engine_stats(engine, &stats);
    for (int64_t end = stats.events + n_events; ret == 0 && stats.events < end;) {
        ret = ecc_engine_advance(engine, 2 * SECOND, end - stats.events);
        ecc_engine_stats(engine, &stats);
        if (ret == 0 && stats.stop == ECC_STOP_TRANSFERS) {
            ret = hand_over(engine, input, n_added);
        } else if (stats.stop != ECC_STOP_MAX_EVENTS) {
            break;
        }
    }
    return ret;
}

static saved_t
save(ecc_engine_t *engine)
{
    saved_t saved = { .size = ecc_engine_save(engine, NULL) };

    CHECK(saved.size > 0);
    saved.bytes = malloc((size_t) saved.size);
    CHECK(saved.bytes != NULL);
    CHECK_EQUAL(ecc_engine_save(engine, saved.bytes), saved.size);
    return saved;
}

/* Alters as many bytes as a number has, or fewer; of a state that was cut to less than one number, none. */
static void
alter(reader_t *self, saved_t *saved)
{
    size_t at;
    uint64_t how;
    size_t width;
    int64_t value;
    uint64_t was = 0;

    if (saved->size < 8) {
        return;
    }
    at = (size_t) read_bytes(self, 2) % (size_t) saved->size;
    how = read_bytes(self, 1);
    width = how & 1 ? 8 : how & 2 ? 4 : 1;
    value = whole(self);
    width = width < (size_t) saved->size - at ? width : (size_t) saved->size - at;
    memcpy(&was, saved->bytes + at, width);
    if ((how & 12) == 4) {
        was += (uint64_t) value;
    } else if ((how & 12) == 8) {
        memcpy(&was, saved->bytes + (uint64_t) value % (uint64_t) (saved->size - 7), sizeof(was));
    } else {
        was = (uint64_t) value;
    }
    memcpy(saved->bytes + at, &was, width);
    if (how == 255) {
        saved->size = (int64_t) at;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static input_t input;
    reader_t edits = { data, size < 3 ? 0 : size };
    int64_t drawn = (int64_t) read_bytes(&edits, 2);
    int64_t n_events = drawn % MAX_EVENTS;
    int64_t fails_at = drawn / MAX_EVENTS; /* 0 to 21 */
    uint64_t n_edits = read_bytes(&edits, 1) % (MAX_EDITS + 1);
    size_t most = n_edits * 12 < edits.left ? n_edits * 12 : edits.left;
    reader_t reader = { edits.data + most, edits.left - most };
    memory_t memory = { .fails_at = -1 };
    const ecc_allocator_t allocator = { resize, &memory };
    ecc_engine_t *engine;
    ecc_report_t report;
    int64_t n_added = 0;

    edits.left = most;
    set_input(&reader, &input);
    input.config.allocator = &allocator;
    if (ecc_engine_new(&input.config, &engine, &report) != 0) {
        return 0;
    }
    if (n_events == 0 || go(engine, &input, n_events, &n_added) == 0) {
        saved_t saved = save(engine);
        ecc_engine_free(engine);
        while (n_edits-- > 0) {
            alter(&edits, &saved);
        }
        CHECK_EQUAL(ecc_engine_new(&input.config, &engine, &report), 0);
        memory.fails_at = fails_at < 8 ? memory.n_calls + fails_at : -1;
        if (ecc_engine_load(engine, saved.bytes, saved.size) == 0) {
            saved_t again = save(engine);
            CHECK_EQUAL(ecc_engine_verify(engine), 0);
            CHECK_EQUAL(again.size, saved.size);
            CHECK_EQUAL(memcmp(again.bytes, saved.bytes, (size_t) saved.size), 0);
            free(again.bytes);
            (void) go(engine, &input, MAX_EVENTS, &n_added);
        }
        free(saved.bytes);
    }
    ecc_engine_free(engine);
    CHECK_EQUAL(memory.n_blocks, 0);
    return 0;
}
