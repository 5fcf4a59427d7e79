/*
 * libFuzzer on ecc_engine_enter and on cuts: a network read from arbitrary bytes is cut into two parts, as they say. If
 * the engine allows the cut, the parts run in turns within the lookahead, and have the events of the whole. Then they run
 * again, with crossings altered here and there: each is refused or taken, and the run goes on with every invariant
 * intact (debug builds check them), or ends with a code.
 *
 * The bytes are those of fuzz_input.h behind the parts of links, senders, receivers and templates (a bit each), an
 * allocation that fails where crossings are altered (six bits, with these three bytes), and alterations: how many (one), then for each where (two bytes) and a number.
 */

#include "fuzz_input.h"

#define MAX_CROSSINGS 65536
#define MAX_TURNS 300
#define MAX_EDITS 6
#define N_CHOSEN (MAX_LINKS + 2 * MAX_FLOWS + MAX_TEMPLATES)
#define END (SECOND / 2)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static input_t input;
static unsigned char crossings[MAX_CROSSINGS];

/* The network as it begins; hooks change their records. */
static void
set_network(reader_t reader, const ecc_allocator_t *allocator)
{
    set_input(&reader, &input);
    input.config.allocator = allocator;
    input.config.n_trace = 0;
    input.config.trace = NULL;
}

/* Moves what has left one part for the other; altered, if there are alterations. */
static int
exchange(ecc_engine_t *const engines[2], int64_t from, reader_t *edits, uint64_t *n_edits)
{
    int64_t size = ecc_engine_take_leaving(engines[from], 1 - from, NULL);
    int ret;

    if (size > MAX_CROSSINGS) {
        return 1;
    }
    CHECK_EQUAL(ecc_engine_take_leaving(engines[from], 1 - from, crossings), size);
    for (; size > 0 && *n_edits > 0 && edits->left > 0; --*n_edits) {
        size_t at = (size_t) read_bytes(edits, 2) % (size_t) size / 8 * 8;
        int64_t value = whole(edits);
        memcpy(crossings + at, &value, sizeof(value) < (size_t) size - at ? sizeof(value) : (size_t) size - at);
    }
    ret = ecc_engine_enter(engines[1 - from], crossings, size);
    return edits->left > 0 && ret < 0 ? 0 : ret; /* a forgery is refused, and the run goes on */
}

/* Runs both parts in turns; 1 if that took too long, 0 or a code. */
static int
run_parts(ecc_engine_t *const engines[2], reader_t *edits, uint64_t n_edits)
{
    ecc_ps_t step = ecc_engine_lookahead(engines[0]);
    ecc_ps_t other = ecc_engine_lookahead(engines[1]);
    ecc_ps_t end = 0;
    int64_t n_turns = 0;
    int ret = 0;

    step = other < step ? other : step;
    while (ret == 0 && end < END) {
        end = step < END - end ? end + step : END;
        for (int64_t k = 0; k < 2 && ret == 0; k++) {
            ecc_stats_t stats;
            ret = ecc_engine_advance(engines[k], end - (end < END), MAX_EVENTS);
            ecc_engine_stats(engines[k], &stats);
            ret = ret == 0 && stats.stop == ECC_STOP_MAX_EVENTS ? 1 : ret;
        }
        for (int64_t k = 0; k < 2 && ret == 0; k++) {
            ret = exchange(engines, k, edits, &n_edits);
        }
        ret = ret == 0 && ++n_turns == MAX_TURNS ? 1 : ret;
    }
    return ret;
}

/* Cuts the network and runs it; what its parts did together. */
static int
run(reader_t reader, uint64_t chosen, reader_t edits, uint64_t n_edits, ecc_stats_t *both)
{
    int64_t parts[N_CHOSEN];
    int64_t fails_at = n_edits > 0 ? (int64_t) (chosen >> N_CHOSEN & 63)
                                   : 63; /* edit that is made while parts run and packets enter; above 31: none */
    memory_t memory = { .fails_at = -1 };
    const ecc_allocator_t allocator = { resize, &memory };
    ecc_engine_t *engines[2] = { NULL, NULL };
    ecc_report_t report;
    int ret = 0;

    for (size_t i = 0; i < N_CHOSEN; i++) {
        parts[i] = (int64_t) (chosen >> i & 1);
    }
    set_network(reader, &allocator);
    input.config.samples.n_samples = 0; /* they would have to be of their own */
    for (int64_t k = 0; k < 2 && ret == 0; k++) {
        input.config.partition = (ecc_partition_t) { 2, k, parts, parts + MAX_LINKS, parts + MAX_LINKS + MAX_FLOWS,
            parts + MAX_LINKS + 2 * MAX_FLOWS };
        ret = ecc_engine_new(&input.config, &engines[k], &report);
        CHECK_EQUAL(report.code, ret);
        if (ret == 0) {
            ret = ecc_engine_add(engines[k], input.transfers, input.n_transfers, 0);
        }
    }
    if (ret == 0) {
        memory.fails_at = fails_at < 32 ? memory.n_calls + fails_at : -1;
        ret = run_parts(engines, &edits, n_edits);
        for (int64_t k = 0; k < 2; k++) {
            ecc_stats_t stats;
            ecc_engine_stats(engines[k], &stats);
            CHECK(stats.stop == ECC_STOP_ERROR || ecc_engine_verify(engines[k]) == 0);
            both->digest += stats.digest;
            both->events += stats.events;
            both->data_packets += stats.data_packets;
        }
    } else {
        ret = 1;
    }
    ecc_engine_free(engines[0]);
    ecc_engine_free(engines[1]);
    CHECK_EQUAL(memory.n_blocks, 0);
    return ret;
}

static void
check_whole(reader_t reader, const ecc_stats_t *both)
{
    ecc_engine_t *engine;
    ecc_report_t report;
    ecc_stats_t stats;

    set_network(reader, NULL);
    input.config.samples.n_samples = 0;
    CHECK_EQUAL(ecc_engine_new(&input.config, &engine, &report), 0);
    CHECK_EQUAL(ecc_engine_add(engine, input.transfers, input.n_transfers, 0), 0);
    CHECK_EQUAL(ecc_engine_advance(engine, END, -1), 0);
    ecc_engine_stats(engine, &stats);
    ecc_engine_free(engine);
    CHECK_EQUAL(both->events, stats.events);
    CHECK_EQUAL(both->data_packets, stats.data_packets);
    CHECK_EQUAL(both->digest, stats.digest);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader_t edits = { data, size < 4 ? 0 : size };
    uint64_t chosen = read_bytes(&edits, 3);
    uint64_t n_edits = read_bytes(&edits, 1) % (MAX_EDITS + 1);
    size_t most = n_edits * 11 < edits.left ? n_edits * 11 : edits.left;
    reader_t reader = { edits.data + most, edits.left - most };
    ecc_stats_t both = { 0 };

    (void) hand_over; /* all transfers are added at once */
    edits.left = most;
    if (run(reader, chosen, (reader_t) { data, 0 }, 0, &both) == 0) {
        check_whole(reader, &both);
    }
    if (n_edits > 0) {
        (void) run(reader, chosen, edits, n_edits, &both);
    }
    return 0;
}
