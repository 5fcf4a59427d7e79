/*
 * libFuzzer on the frames of packets: a network, formats of headers and frames, all read from arbitrary bytes. Formats
 * are refused or taken. What is written is taken once, as it was; it is then altered, cut, and signed again as one who
 * knows the token would: each is refused, or gives a crossing that the engine refuses or takes, and runs with.
 *
 * The bytes: formats (48 bytes), parts of links, senders and receivers (a bit each, two bytes), an allocation that fails
 * (one), a quarter of the length of what follows (one), what happens to frames, and last the network (fuzz_input.h).
 */

#include "fuzz_input.h"

#include <float.h>

#include "core/errors.h"
#include "wire/frame.h"
#include "wire/tag.h"

#define MAX_FORMATS 3
#define MAX_FIELDS 32
#define MAX_FRAME 4096
#define SHIM 52u
#define ROOM 48u /* bytes of formats */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static input_t input;

typedef struct {
    ecc_frames_config_t config;
    ecc_frame_format_t formats[MAX_FORMATS];
    ecc_frame_field_t fields[MAX_FIELDS];
    int64_t format_of[MAX_FLOWS];
} tables_t;

typedef struct {
    ecc_engine_t *engine;
    ecc_frames_t *frames;
    ecc_frame_port_t sender;
    ecc_frame_port_t receiver;
    unsigned char frame[MAX_FRAME]; /* the last one that was written */
    size_t size;
} fixture_t;

/* ---- tables ---- */

static void
add_field(reader_t *self, tables_t *tables, int64_t kind, int64_t width, int64_t *word)
{
    static const double factors[] = { 1.0, 1e3, 1e6, 1.0 / 8000.0 };
    uint64_t drawn = read_bytes(self, 1);
    ecc_frame_field_t *field = &tables->fields[tables->config.n_fields];
    double most = kind == ECC_FRAME_SINGLE ? (double) FLT_MAX : (double) ((UINT64_C(1) << width % 64) - 1);

    if (tables->config.n_fields == MAX_FIELDS) {
        return;
    }
    tables->config.n_fields++;
    *field = (ecc_frame_field_t) { .kind = kind, .width = width, .word = -1 };
    if (kind == ECC_FRAME_WORD || drawn & 1) {
        field->word = --*word; /* below 0: none, which a whole word is refused for */
        field->word = field->word < -1 ? -1 : field->word;
    }
    field->is_real = kind == ECC_FRAME_SINGLE || drawn & 4;
    field->factor = field->is_real != 0 ? factors[drawn >> 3 & 3] : 1.0;
    field->low = kind == ECC_FRAME_SINGLE && drawn & 32 ? -most / field->factor : 0.0;
    field->high = most / field->factor;
    field->shift = field->is_real != 0 ? 0 : (int64_t) (drawn >> 6);
    field->bits = drawn >> 3 & 1;
    if (drawn == 255) {
        spoil(self, field, sizeof(*field) / 8, 0);
    }
}

static void
add_header(reader_t *self, tables_t *tables, int64_t place)
{
    int64_t word = 2; /* index of a word of a header */

    if (place == ECC_FRAME_SERVICE) {
        add_field(self, tables, ECC_FRAME_INTEGER, 6, &word);
        add_field(self, tables, ECC_FRAME_INTEGER, 2, &word);
    } else if (place == ECC_FRAME_FRAGMENT) {
        add_field(self, tables, ECC_FRAME_INTEGER, 2, &word);
        add_field(self, tables, ECC_FRAME_INTEGER, 7, &word);
        add_field(self, tables, ECC_FRAME_INTEGER, 7, &word);
    } else {
        for (uint64_t n = read_bytes(self, 1) % 5; n > 0; n--) {
            int64_t kind = (int64_t) (read_bytes(self, 1) % 3);
            int64_t width = kind == ECC_FRAME_WORD ? 64
                : kind == ECC_FRAME_SINGLE         ? 32
                                                   : 8 * (int64_t) (1 + read_bytes(self, 1) % 4);
            add_field(self, tables, kind, width, &word);
        }
    }
}

static void
set_tables(reader_t *self, tables_t *tables)
{
    uint64_t drawn = read_bytes(self, 1);

    memset(tables, 0, sizeof(*tables));
    tables->config = (ecc_frames_config_t) { .n_formats = 1 + (int64_t) (drawn % MAX_FORMATS),
        .formats = tables->formats,
        .fields = tables->fields,
        .format_of = tables->format_of,
        .mtu = drawn & 64 ? 1500
            : drawn & 128 ? 400
                          : (int64_t) read_bytes(self, 2) % (MAX_FRAME - 14),
        .exact = drawn & 32 };
    for (size_t i = 0; i < ECC_FRAME_KEY; i++) {
        tables->config.key[i] = (unsigned char) (drawn + i);
    }
    for (int64_t i = 0; i < tables->config.n_formats; i++) {
        ecc_frame_format_t *format = &tables->formats[i];
        uint64_t what = read_bytes(self, 1);
        int64_t before = tables->config.n_fields;
        format->place = (int64_t) (what & 3);
        format->is_tcp = format->place == ECC_FRAME_OPTION || what & 4;
        add_header(self, tables, format->place);
        format->n_data = tables->config.n_fields - before;
        before = tables->config.n_fields;
        add_header(self, tables, format->place);
        format->n_ack = tables->config.n_fields - before;
        if (what == 255) {
            spoil(self, format, sizeof(*format) / 8, 0);
        }
    }
    for (size_t i = 0; i < MAX_FLOWS; i++) {
        tables->format_of[i] = (int64_t) (read_bytes(self, 1) % ((uint64_t) tables->config.n_formats + (drawn == 31)));
    }
}

/* ---- frames ---- */

/* Where the tag of a frame is, if it says; else 0. */
static size_t
find_tag(const unsigned char *frame, size_t size)
{
    for (size_t at = 34; at + SHIM <= size; at++) {
        if (memcmp(frame + at, "ecc\1", 4) == 0) {
            size_t n_words = (size_t) frame[at + 18] << 8 | frame[at + 19];
            size_t tag = at + SHIM + 8 * n_words;
            return tag + 8 <= size ? tag : 0;
        }
    }
    return 0;
}

/* Reads bytes that are no longer than they are said to be, and lets the packet in. */
static int64_t
read_frame(fixture_t *self, const unsigned char *frame, size_t size, unsigned char *crossing)
{
    unsigned char *copy = malloc(size + (size == 0));
    int64_t verdict;

    CHECK(copy != NULL);
    memcpy(copy, frame, size);
    verdict = ecc_frames_read(self->frames, &self->receiver, copy, (int64_t) size, crossing);
    free(copy);
    CHECK(verdict >= ECC_FRAME_TAKEN && verdict < ECC_FRAME_N_VERDICTS);
    if (verdict == ECC_FRAME_TAKEN) {
        int ret = ecc_engine_enter(self->engine, crossing, ecc_frames_crossing_size(self->frames));
        CHECK(ret <= 0);
    }
    return verdict;
}

/* Writes a packet, which must be taken once, and is the same again when it is written again. */
static void
write_frame(fixture_t *self, reader_t *reader, unsigned char *crossing, unsigned char *back)
{
    size_t n = (size_t) ecc_frames_crossing_size(self->frames) / 8;
    ecc_frame_port_t twin = self->sender;
    unsigned char again[MAX_FRAME];
    int64_t numbers[6];
    int64_t size;

    for (size_t i = 0; i < n; i++) {
        int64_t word = whole(reader);
        memcpy(crossing + 8 * i, &word, sizeof(word));
    }
    memcpy(numbers, crossing, sizeof(numbers));
    if (read_bytes(reader, 1) % 8 != 0) { /* mostly what an engine says */
        for (size_t i = 0; i < 3; i++) {
            numbers[i] = (numbers[i] & INT64_MAX) % (INT64_MAX / 4);
        }
        numbers[3] = 1 + (numbers[3] & INT64_MAX) % 3000;
        numbers[4] = (numbers[4] & INT64_MAX) % (1 + input.config.n_flows);
        numbers[5] = (numbers[5] & INT64_MAX) % 4 - 1;
    }
    memcpy(crossing, numbers, sizeof(numbers));
    self->receiver.newest = 0; /* who knows the token may have used up all numbers */
    self->receiver.window = 0;
    size = ecc_frames_write(self->frames, &self->sender, crossing, self->frame);
    CHECK(size >= 0 && size <= ecc_frames_room(self->frames));
    self->size = (size_t) size;
    if (size == 0) {
        return;
    }
    CHECK_EQUAL(read_frame(self, self->frame, self->size, back), ECC_FRAME_TAKEN);
    CHECK(memcmp(back, crossing, sizeof(numbers)) == 0);
    CHECK_EQUAL(ecc_frames_write(self->frames, &twin, back, again), size);
    CHECK(memcmp(self->frame, again, self->size) == 0);
    CHECK_EQUAL(read_frame(self, self->frame, self->size, back), ECC_FRAME_REPLAYED);
}

static void
alter_frame(fixture_t *self, reader_t *reader, const tables_t *tables, unsigned char *back)
{
    unsigned char altered[MAX_FRAME];
    uint64_t n = 1 + read_bytes(reader, 1) % 4;
    bool is_signed = read_bytes(reader, 1) % 4 != 0;
    size_t tag = find_tag(self->frame, self->size);

    memcpy(altered, self->frame, self->size);
    for (; n > 0 && tag > 0; n--) {
        size_t at = (size_t) read_bytes(reader, 2) % (tag + 8);
        altered[at] = (unsigned char) read_bytes(reader, 1);
    }
    if (is_signed && tag > 0) {
        uint64_t value = ecc_tag_of(tables->config.key, altered, tag);
        for (size_t i = 0; i < 8; i++) {
            altered[tag + i] = (unsigned char) (value >> (56 - 8 * i));
        }
    }
    (void) read_frame(self, altered, self->size, back);
}

static void
run(fixture_t *self, reader_t *reader, const tables_t *tables)
{
    size_t n = (size_t) ecc_frames_crossing_size(self->frames);
    unsigned char *crossing = malloc(n);
    unsigned char *back = malloc(n);
    ecc_ps_t until = 0;

    CHECK(crossing != NULL && back != NULL);
    while (reader->left > 0) {
        switch (read_bytes(reader, 1) % 8) {
        case 0:
            (void) read_frame(self, reader->data, reader->left, back);
            reader->left = 0;
            break;
        case 1:
            (void) read_frame(self, self->frame, (size_t) read_bytes(reader, 2) % (self->size + 1), back);
            break;
        case 2:
        case 3:
        case 4:
            alter_frame(self, reader, tables, back);
            break;
        case 5:
            until += (ecc_ps_t) read_bytes(reader, 1) * MS;
            (void) (ecc_engine_advance(self->engine, until, MAX_EVENTS) == 0);
            break;
        default:
            write_frame(self, reader, crossing, back);
        }
    }
    free(crossing);
    free(back);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n_formats = size < ROOM ? size : ROOM;
    reader_t formats = { data, n_formats };
    reader_t reader = { data + n_formats, size - n_formats };
    int64_t parts[2 * MAX_FLOWS + MAX_LINKS];
    uint64_t chosen = read_bytes(&reader, 2);
    int64_t fails_at = (int64_t) read_bytes(&reader, 1);
    memory_t memory = { .fails_at = -1 };
    const ecc_allocator_t allocator = { resize, &memory };
    static fixture_t self;
    static tables_t tables;
    reader_t actions;
    ecc_report_t report;
    int ret;

    (void) hand_over; /* there are no transfers */
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        parts[i] = (int64_t) (chosen >> i & 1);
    }
    set_tables(&formats, &tables);
    actions.left = 4 * (size_t) read_bytes(&reader, 1);
    actions.left = actions.left < reader.left ? actions.left : reader.left;
    actions.data = reader.data;
    reader = (reader_t) { reader.data + actions.left, reader.left - actions.left };
    set_input(&reader, &input);
    input.config.allocator = &allocator;
    input.config.n_templates = 0;
    input.config.n_trace = 0;
    input.config.trace = NULL;
    input.config.samples.n_samples = 0;
    /* networks are the business of other fuzzers: most should be some */
    input.config.header_size = 16;
    has_headers = true;
    for (int64_t i = 0; i < input.config.n_links + input.config.n_additional; i++) {
        input.links[i].header_offset = 0;
        input.links[i].at = i % input.config.n_links;
    }
    for (int64_t i = 0; i < input.config.n_flows; i++) {
        input.flows[i].header_offset = 0;
    }
    for (size_t i = 0; i < MAX_ROUTES; i++) {
        input.routes[i] = (input.routes[i] & INT32_MAX) % input.config.n_links;
    }
    if (chosen & 0x8000) {
        input.config.partition = (ecc_partition_t) {
            .n_parts = 2, .links = parts, .senders = parts + MAX_LINKS, .receivers = parts + MAX_LINKS + MAX_FLOWS
        };
    }
    memset(&self, 0, sizeof(self));
    memcpy(self.sender.own, "sender", 6);
    memcpy(self.sender.peer, "reader", 6);
    memcpy(self.receiver.own, "reader", 6);
    memcpy(self.receiver.peer, "sender", 6);
    ret = ecc_engine_new(&input.config, &self.engine, &report);
    if (ret == 0) {
        memory.fails_at = fails_at < 8 ? memory.n_calls + fails_at : -1;
        ret = ecc_frames_new(self.engine, &tables.config, &self.frames);
        memory.fails_at = -1;
        CHECK((ret == 0) == (self.frames != NULL));
        CHECK(ret == 0 || ret == ECC_ERR_FRAMES || ret == ECC_ERR_NO_MEMORY);
    }
    if (ret == 0) {
        ecc_stats_t stats;
        run(&self, &actions, &tables);
        ecc_engine_stats(self.engine, &stats);
        CHECK(stats.stop == ECC_STOP_ERROR || ecc_engine_verify(self.engine) == 0);
    }
    ecc_frames_free(self.frames);
    ecc_engine_free(self.engine);
    CHECK_EQUAL(memory.n_blocks, 0);
    return 0;
}
