/*
 * Packets of an engine as frames (frame.h has their layout). Which field of a congestion header is which word of a packet,
 * and how, is in tables that the caller gives: this file knows no protocol.
 *
 * The reader trusts nothing. It looks for its own addresses and shim, then at the tag, then at the number of the frame;
 * and what it has read it writes again, which must give the same bytes: that checks every length, checksum, reserved bit
 * and constant in one place, by the code that the writer is.
 */

#include "frame.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "archive.h"
#include "config.h"
#include "state.h"

#define ETHERNET 14u
#define IP 20u
#define TCP 20u
#define SHIM 52u /* before its words */
#define TAG 8u
#define WORD 8u

#define IPV4 0x0800u
#define EXPERIMENT 253u /* RFC 3692 */
#define TCP_PROTOCOL 6u
#define DONT_FRAGMENT 0x4000u
#define TIME_TO_LIVE 64u
#define SENDERS UINT32_C(0x0a000000)
#define RECEIVERS UINT32_C(0x0a800000)
#define MAX_FLOWS 0x800000u /* as many as have addresses */
#define SENDER_PORT 40000u
#define RECEIVER_PORT 80u
#define TCP_ACK 0x10u
#define MAX_OPTIONS 40u
#define MAGIC UINT32_C(0x65636301) /* "ecc", version 1 */
#define MAX_MTU 65535
#define MAX_HEAD 2048u   /* bytes before the zeros */
#define MAX_FIELDS 65536 /* of all formats */
#define REPLAY_WINDOW 64u

enum direction { DATA, ACKS, N_DIRECTIONS };

/* What all frames of a format in one direction have in common. */
typedef struct {
    size_t first_field;
    size_t n_fields;
    size_t header;     /* bytes of the congestion header */
    size_t shim;       /* where the shim begins */
    size_t size;       /* bytes up to the zeros */
    uint16_t *carried; /* which words of a packet the shim carries */
    size_t n_carried;
} way_t;

typedef struct {
    enum ecc_frame_place place;
    bool is_tcp;
    bool is_used;
    size_t first_word; /* of its region of a packet's header */
    way_t ways[N_DIRECTIONS];
} format_t;

/* Of a flow, what frames show. */
typedef struct {
    int64_t n_forward;
    int64_t n_hops;
    int64_t header_bytes;
    int64_t ack_size;
    size_t format;
} flow_t;

struct ecc_frames {
    ecc_memory_t memory;
    size_t n_flows;
    size_t n_formats;
    size_t n_fields;
    size_t n_words; /* of a packet: header, marks, and what an ACK reports */
    size_t ecn;     /* the word of the codepoint; n_words: none */
    size_t mtu;
    uint64_t key[2];
    flow_t *flows;
    format_t *formats;
    ecc_frame_field_t *fields;
    uint16_t *carried;
};

/* What a frame says. */
typedef struct {
    ecc_crossing_t crossing;
    const unsigned char *words; /* in the order and form of the engine */
    const unsigned char *from;  /* MAC addresses */
    const unsigned char *to;
    uint64_t number;
} content_t;

/* ---- bytes ---- */

static void
put(unsigned char *at, size_t n, uint64_t value)
{
    for (; n > 0; n--, value >>= 8) {
        at[n - 1] = (unsigned char) value;
    }
}

static uint64_t
get(const unsigned char *at, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* A number from 0 to 2^63 - 1; another one, which no engine writes, is -1. */
static int64_t
get_count(const unsigned char *at)
{
    uint64_t value = get(at, 8);

    return value > INT64_MAX ? -1 : (int64_t) value;
}

/* Ors the lowest bits of a number into zeros that begin so many bits from the start. */
static void
put_bits(unsigned char *start, size_t at, size_t width, uint64_t bits)
{
    while (width > 0) {
        size_t room = 8 - at % 8;
        size_t n = room < width ? room : width;
        start[at / 8] |= (unsigned char) ((bits >> (width - n) & ((1u << n) - 1)) << (room - n));
        at += n;
        width -= n;
    }
}

static uint64_t
get_bits(const unsigned char *start, size_t at, size_t width)
{
    uint64_t bits = 0;

    while (width > 0) {
        size_t room = 8 - at % 8;
        size_t n = room < width ? room : width;
        bits = bits << n | ((unsigned) start[at / 8] >> (room - n) & ((1u << n) - 1));
        at += n;
        width -= n;
    }
    return bits;
}

/* RFC 1071, of an IP header whose checksum is 0. */
static uint64_t
checksum(const unsigned char *header)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < IP; i += 2) {
        sum += (uint32_t) get(header + i, 2);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return ~(sum + (sum >> 16)) & 0xffff;
}

/* ---- tags: SipHash-2-4 (Aumasson and Bernstein, 2012) ---- */

static uint64_t
rotated(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void
sip_rounds(uint64_t v[4], int n)
{
    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[2] = rotated(v[2], 32);
    }
}

/* Up to 8 bytes, little end first. */
static uint64_t
get_little(const unsigned char *at, size_t n)
{
    uint64_t value = 0;

    for (; n > 0; n--) {
        value = value << 8 | at[n - 1];
    }
    return value;
}

static uint64_t
tag_of(const uint64_t key[2], const unsigned char *bytes, size_t size)
{
    uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573) };
    size_t at = 0;
    bool is_last;

    do {
        uint64_t block;
        is_last = size - at < 8;
        block = get_little(bytes + at, is_last ? size - at : 8) | (is_last ? (uint64_t) size << 56 : 0);
        v[3] ^= block;
        sip_rounds(v, 2);
        v[0] ^= block;
        at += 8;
    } while (!is_last);
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- fields ---- */

/* The bits of a field that is some word: those of the nearest value that it can have. NaN is the least. */
static uint64_t
bits_of(const ecc_frame_field_t *field, const unsigned char *word)
{
    double value;
    int64_t whole;
    uint64_t bits;

    memcpy(&bits, word, sizeof(bits));
    if (field->kind == ECC_FRAME_WORD) {
        return bits;
    }
    memcpy(&value, word, sizeof(value));
    memcpy(&whole, word, sizeof(whole));
    value = (field->is_real != 0 ? value : (double) whole) + (double) field->shift; /* and -0 is 0 */
    value = !(value >= field->low) ? field->low : value > field->high ? field->high : value;
    value *= field->factor;
    if (field->kind == ECC_FRAME_SINGLE) {
        float single = (float) (value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value);
        uint32_t raw;
        memcpy(&raw, &single, sizeof(raw));
        return raw;
    }
    return (uint64_t) rint(value);
}

/* Writes the word that these bits are of; false: the field cannot have them. */
static bool
set_word(const ecc_frame_field_t *field, uint64_t bits, unsigned char *word)
{
    double value = (double) bits;
    int64_t whole = (int64_t) (bits & INT64_MAX) - field->shift;

    if (field->kind == ECC_FRAME_WORD) {
        memcpy(word, &bits, sizeof(bits));
        return true;
    }
    if (field->kind == ECC_FRAME_SINGLE) {
        uint32_t raw = (uint32_t) bits;
        float single;
        memcpy(&single, &raw, sizeof(single));
        value = (double) single;
    }
    value /= field->factor;
    if (field->is_real != 0) {
        memcpy(word, &value, sizeof(value));
    } else {
        memcpy(word, &whole, sizeof(whole));
    }
    return value >= field->low && value <= field->high;
}

/* ---- tables ---- */

/* The most that a field of integers has on the wire. */
static double
most(const ecc_frame_field_t *field)
{
    return (double) ((UINT64_C(1) << field->width) - 1);
}

static bool
is_field(const ecc_frame_field_t *field, int64_t n_words)
{
    if (field->kind == ECC_FRAME_WORD) {
        return field->width == 64 && field->word >= 0 && field->word < n_words;
    }
    if ((field->kind != ECC_FRAME_INTEGER && field->kind != ECC_FRAME_SINGLE) || field->width < 1 || field->width > 32
        || (field->kind == ECC_FRAME_SINGLE && field->width != 32) || field->word < -1 || field->word >= n_words) {
        return false;
    }
    if (field->word < 0) {
        return field->bits >> field->width == 0;
    }
    return isfinite(field->factor) && field->factor > 0.0 && isfinite(field->low) && field->low <= field->high
        && isfinite(field->high) && isfinite(field->low * field->factor) && isfinite(field->high * field->factor)
        && field->shift >= -INT32_MAX && field->shift <= INT32_MAX
        && (field->is_real != 0 ? field->shift == 0
                                : field->kind == ECC_FRAME_INTEGER && field->factor == 1.0 && field->low >= 0.0)
        && (field->kind == ECC_FRAME_SINGLE
            || (rint(field->low * field->factor) >= 0.0 && rint(field->high * field->factor) <= most(field)));
}

/* Where the shim of a way begins; 0: its fields do not fit where they are to be. */
static size_t
shim_of(const format_t *format, const way_t *way, size_t bits)
{
    size_t above = ETHERNET + IP + (format->is_tcp ? TCP : 0);

    if (bits % 8 != 0) {
        return 0;
    }
    switch (format->place) {
    case ECC_FRAME_ABOVE:
        return above + way->header;
    case ECC_FRAME_OPTION:
        return format->is_tcp && way->header <= MAX_OPTIONS ? above + (way->header + 3) / 4 * 4 : 0;
    case ECC_FRAME_SERVICE:
        return way->header == 1 ? above : 0;
    case ECC_FRAME_FRAGMENT:
        return way->header == 2 ? above : 0;
    }
    return 0;
}

/* A way: where its shim is, and which words its fields leave to it. */
static bool
set_way(ecc_frames_t *self, const format_t *format, way_t *way, size_t n_header_words, bool exact)
{
    size_t bits = 0;

    for (size_t i = 0; i < way->n_fields; i++) {
        const ecc_frame_field_t *field = &self->fields[way->first_field + i];
        if (!is_field(field, (int64_t) n_header_words - (int64_t) format->first_word)) {
            return false;
        }
        bits += (size_t) field->width;
    }
    for (size_t word = 0; word < self->n_words; word++) {
        bool is_said = word == self->ecn;
        for (size_t i = 0; i < way->n_fields && !is_said && !exact; i++) {
            int64_t of_field = self->fields[way->first_field + i].word;
            is_said = of_field >= 0 && format->first_word + (size_t) of_field == word;
        }
        if (!is_said) {
            way->carried[way->n_carried++] = (uint16_t) word;
        }
    }
    way->header = bits / 8;
    way->shim = shim_of(format, way, bits);
    way->size = way->shim + SHIM + WORD * way->n_carried + TAG;
    return way->shim > 0 && way->size <= MAX_HEAD && way->size - ETHERNET <= self->mtu;
}

static bool
set_format(ecc_frames_t *self, size_t index, const ecc_frame_format_t *given, size_t *n_fields)
{
    format_t *format = &self->formats[index];
    int64_t n[N_DIRECTIONS] = { given->n_data, given->n_ack };

    if (given->place < ECC_FRAME_ABOVE || given->place > ECC_FRAME_FRAGMENT) {
        return false;
    }
    format->place = (enum ecc_frame_place) given->place;
    format->is_tcp = given->is_tcp != 0;
    for (size_t k = 0; k < N_DIRECTIONS; k++) {
        if (n[k] < 0 || (uint64_t) n[k] > self->n_fields - *n_fields) {
            return false;
        }
        format->ways[k] = (way_t) { .first_field = *n_fields,
            .n_fields = (size_t) n[k],
            .carried = self->carried + (N_DIRECTIONS * index + k) * self->n_words };
        *n_fields += (size_t) n[k];
    }
    return true;
}

/* A flow; the first of a format says where the words of all are. */
static bool
set_flow(ecc_frames_t *self, const ecc_engine_t *engine, size_t index, const ecc_frames_config_t *config)
{
    const ecc_flow_t *spec = engine->flows[index].spec;
    size_t first_word = (size_t) spec->header_offset / WORD;
    int64_t number = config->format_of[index];
    format_t *format;

    if (number < 0 || (uint64_t) number >= self->n_formats) {
        return false;
    }
    format = &self->formats[number];
    self->flows[index] = (flow_t) { .n_forward = spec->n_forward,
        .n_hops = spec->n_forward + spec->n_reverse,
        .header_bytes = spec->header_bytes,
        .ack_size = spec->ack_size,
        .format = (size_t) number };
    if (!format->is_used) {
        format->is_used = true;
        format->first_word = first_word;
        for (size_t k = 0; k < N_DIRECTIONS; k++) {
            if (!set_way(self, format, &format->ways[k], engine->ecn_offset / WORD, config->exact != 0)) {
                return false;
            }
        }
    }
    /* marks would be where that header is */
    return format->first_word == first_word
        && !(format->place == ECC_FRAME_SERVICE && engine->flows[index].can_be_marked);
}

static int
allocate(ecc_frames_t *self, size_t n, size_t size, void **block)
{
    return n == 0 ? 0 : ecc_memory_resize(&self->memory, 0, n * size, block);
}

static int
build(ecc_frames_t *self, const ecc_engine_t *engine, const ecc_frames_config_t *config)
{
    void *blocks[4] = { NULL, NULL, NULL, NULL };
    size_t n_fields = 0;
    int ret;

    ret = allocate(self, self->n_flows, sizeof(flow_t), &blocks[0]);
    self->flows = blocks[0];
    if (ret == 0) {
        ret = allocate(self, self->n_formats, sizeof(format_t), &blocks[1]);
        self->formats = blocks[1];
    }
    if (ret == 0) {
        ret = allocate(self, self->n_fields, sizeof(ecc_frame_field_t), &blocks[2]);
        self->fields = blocks[2];
    }
    if (ret == 0) {
        ret = allocate(self, N_DIRECTIONS * self->n_formats * self->n_words, sizeof(uint16_t), &blocks[3]);
        self->carried = blocks[3];
    }
    if (ret != 0) {
        return ret;
    }
    if (self->n_fields > 0) {
        memcpy(self->fields, config->fields, self->n_fields * sizeof(*self->fields));
    }
    for (size_t i = 0; i < self->n_formats; i++) {
        if (!set_format(self, i, &config->formats[i], &n_fields)) {
            return ECC_ERR_FRAMES;
        }
    }
    for (size_t i = 0; i < self->n_flows; i++) {
        if (!set_flow(self, engine, i, config)) {
            return ECC_ERR_FRAMES;
        }
    }
    return 0;
}

int
ecc_frames_new(const ecc_engine_t *engine, const ecc_frames_config_t *config, ecc_frames_t **frames)
{
    ecc_memory_t memory;
    ecc_frames_t *self;
    void *block = NULL;
    int ret;

    *frames = NULL;
    if (config->n_formats < 0 || config->n_formats > (int64_t) MAX_FLOWS || config->n_fields < 0
        || config->n_fields > MAX_FIELDS || (config->n_formats > 0 && config->formats == NULL)
        || (config->n_fields > 0 && config->fields == NULL) || (engine->n_flows > 0 && config->format_of == NULL)
        || engine->n_flows > MAX_FLOWS || config->mtu < 1 || config->mtu > MAX_MTU
        || engine->packets.stride - sizeof(ecc_packet_t) > MAX_HEAD) {
        return ECC_ERR_FRAMES;
    }
    ecc_memory_init(&memory, &engine->memory.allocator);
    ret = ecc_memory_resize(&memory, 0, sizeof(*self), &block);
    if (ret != 0) {
        return ret;
    }
    self = block;
    self->memory = memory;
    self->n_flows = engine->n_flows;
    self->n_formats = (size_t) config->n_formats;
    self->n_fields = (size_t) config->n_fields;
    self->n_words = (engine->packets.stride - sizeof(ecc_packet_t)) / WORD;
    self->ecn = engine->wants_ecn ? (engine->ecn_offset + offsetof(ecc_ecn_t, codepoint)) / WORD : self->n_words;
    self->mtu = (size_t) config->mtu;
    self->key[0] = get_little(config->key, 8);
    self->key[1] = get_little(config->key + 8, 8);
    ret = build(self, engine, config);
    if (ret != 0) {
        ecc_frames_free(self);
        return ret;
    }
    *frames = self;
    return 0;
}

void
ecc_frames_free(ecc_frames_t *self)
{
    ecc_memory_t memory;
    void *block = self;

    if (self == NULL) {
        return;
    }
    memory = self->memory;
    ecc_memory_release(&memory, self->n_flows * sizeof(flow_t), (void **) &self->flows);
    ecc_memory_release(&memory, self->n_formats * sizeof(format_t), (void **) &self->formats);
    ecc_memory_release(&memory, self->n_fields * sizeof(ecc_frame_field_t), (void **) &self->fields);
    ecc_memory_release(
        &memory, N_DIRECTIONS * self->n_formats * self->n_words * sizeof(uint16_t), (void **) &self->carried);
    ecc_memory_release(&memory, sizeof(*self), &block);
}

int64_t
ecc_frames_crossing_size(const ecc_frames_t *self)
{
    return (int64_t) (sizeof(ecc_crossing_t) + WORD * self->n_words);
}

int64_t
ecc_frames_room(const ecc_frames_t *self)
{
    return (int64_t) (ETHERNET + self->mtu);
}

/* ---- writing ---- */

static enum direction
direction_of(const flow_t *flow, const ecc_crossing_t *crossing)
{
    return crossing->hop >= flow->n_forward ? ACKS : DATA;
}

/* Whether its numbers are some that frames can say; the engine holds them against the network. */
static bool
is_crossing(const ecc_frames_t *self, const ecc_crossing_t *crossing)
{
    return crossing->flow >= 0 && (uint64_t) crossing->flow < self->n_flows && crossing->hop >= -1
        && crossing->hop <= self->flows[crossing->flow].n_hops && crossing->size >= 1
        && crossing->size <= ECC_MAX_PACKET_SIZE && crossing->time >= 0 && crossing->time <= ECC_NEVER
        && crossing->sent >= 0 && crossing->sent <= ECC_NEVER && crossing->offset >= 0
        && crossing->offset <= ECC_ARCHIVE_MAX;
}

/* Bytes of the IP packet: those of the packet on its link, as far as frames go. */
static size_t
length_of(const ecc_frames_t *self, const flow_t *flow, const way_t *way, const ecc_crossing_t *crossing)
{
    int64_t size = crossing->hop >= flow->n_forward ? flow->ack_size : crossing->size + flow->header_bytes;
    size_t length = size < (int64_t) self->mtu ? (size_t) size : self->mtu;

    return length > way->size - ETHERNET ? length : way->size - ETHERNET;
}

/* The congestion header, into zeros. */
static void
write_header(
    const ecc_frames_t *self, size_t first_word, const way_t *way, const unsigned char *words, unsigned char *out)
{
    size_t at = 0;

    for (size_t i = 0; i < way->n_fields; i++) {
        const ecc_frame_field_t *field = &self->fields[way->first_field + i];
        const unsigned char *word = words + WORD * (first_word + (size_t) field->word);
        put_bits(out, at, (size_t) field->width, field->word < 0 ? field->bits : bits_of(field, word));
        at += (size_t) field->width;
    }
}

static void
write_ip(const ecc_frames_t *self, const flow_t *flow, enum direction direction, const content_t *content,
    const unsigned char *header, unsigned char *ip)
{
    const format_t *format = &self->formats[flow->format];
    const way_t *way = &format->ways[direction];
    uint32_t number = (uint32_t) content->crossing.flow;
    uint64_t sequence = direction == DATA ? (uint64_t) content->crossing.offset : 0;
    int64_t codepoint = 0;

    if (self->ecn < self->n_words) {
        memcpy(&codepoint, content->words + WORD * self->ecn, sizeof(codepoint));
    }
    ip[0] = 0x45;
    ip[1] = (unsigned char) ((format->place == ECC_FRAME_SERVICE ? header[0] : 0) | (codepoint & 3));
    put(ip + 2, 2, length_of(self, flow, way, &content->crossing));
    put(ip + 4, 2, sequence);
    put(ip + 6, 2, format->place == ECC_FRAME_FRAGMENT ? get(header, 2) : DONT_FRAGMENT);
    ip[8] = TIME_TO_LIVE;
    ip[9] = format->is_tcp ? TCP_PROTOCOL : EXPERIMENT;
    put(ip + 12, 4, (direction == DATA ? SENDERS : RECEIVERS) + number);
    put(ip + 16, 4, (direction == DATA ? RECEIVERS : SENDERS) + number);
    put(ip + 10, 2, checksum(ip));
    if (format->is_tcp) {
        put(ip + IP, 2, direction == DATA ? SENDER_PORT : RECEIVER_PORT);
        put(ip + IP + 2, 2, direction == DATA ? RECEIVER_PORT : SENDER_PORT);
        put(ip + IP + 4, 4, sequence);
        ip[IP + 12]
            = (unsigned char) ((TCP + (format->place == ECC_FRAME_OPTION ? (way->header + 3) / 4 * 4 : 0)) / 4 << 4);
        ip[IP + 13] = TCP_ACK;
        put(ip + IP + 14, 2, 0xffff);
    }
}

/* All of a frame up to its zeros; the content is that of a flow that exists. */
static const way_t *
write_head(const ecc_frames_t *self, const content_t *content, unsigned char *frame)
{
    const flow_t *flow = &self->flows[content->crossing.flow];
    const format_t *format = &self->formats[flow->format];
    enum direction direction = direction_of(flow, &content->crossing);
    const way_t *way = &format->ways[direction];
    unsigned char *ip = frame + ETHERNET;
    unsigned char *shim = frame + way->shim;
    unsigned char in_ip[2] = { 0 };
    bool is_above = format->place == ECC_FRAME_ABOVE || format->place == ECC_FRAME_OPTION;

    memset(frame, 0, way->size);
    memcpy(frame, content->to, 6);
    memcpy(frame + 6, content->from, 6);
    put(frame + 12, 2, IPV4);
    write_header(
        self, format->first_word, way, content->words, is_above ? ip + IP + (format->is_tcp ? TCP : 0) : in_ip);
    write_ip(self, flow, direction, content, in_ip, ip);
    put(shim, 4, MAGIC);
    put(shim + 4, 4, (uint64_t) content->crossing.flow);
    put(shim + 8, 4, (uint64_t) content->crossing.hop);
    put(shim + 12, 4, (uint64_t) content->crossing.size);
    put(shim + 16, 4, way->n_carried);
    put(shim + 20, 8, content->number);
    put(shim + 28, 8, (uint64_t) content->crossing.time);
    put(shim + 36, 8, (uint64_t) content->crossing.sent);
    put(shim + 44, 8, (uint64_t) content->crossing.offset);
    for (size_t i = 0; i < way->n_carried; i++) {
        uint64_t word;
        memcpy(&word, content->words + WORD * way->carried[i], sizeof(word));
        put(shim + SHIM + WORD * i, WORD, word);
    }
    put(frame + way->size - TAG, TAG, tag_of(self->key, frame, way->size - TAG));
    return way;
}

int64_t
ecc_frames_write(const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *crossing, unsigned char *frame)
{
    content_t content = { .words = crossing + sizeof(ecc_crossing_t), .from = port->own, .to = port->peer };
    const way_t *way;
    size_t size;

    memcpy(&content.crossing, crossing, sizeof(content.crossing));
    if (!is_crossing(self, &content.crossing)) {
        return 0;
    }
    content.number = ++port->written;
    way = write_head(self, &content, frame);
    size = ETHERNET + length_of(self, &self->flows[content.crossing.flow], way, &content.crossing);
    memset(frame + way->size, 0, size - way->size);
    return (int64_t) size;
}

/* ---- reading ---- */

/* The flow that a frame to us is of, by its addresses, and the direction; false: it is none of ours. */
static bool
find_flow(const ecc_frames_t *self, const ecc_frame_port_t *port, const unsigned char *frame, size_t size, size_t *flow,
    enum direction *direction)
{
    const unsigned char *ip = frame + ETHERNET;
    uint64_t from;

    if (size < ETHERNET + IP || memcmp(frame, port->own, 6) != 0 || memcmp(frame + 6, port->peer, 6) != 0
        || get(frame + 12, 2) != IPV4 || ip[0] != 0x45) {
        return false;
    }
    from = get(ip + 12, 4);
    *direction = from < RECEIVERS ? DATA : ACKS;
    *flow = (size_t) (from - (*direction == DATA ? SENDERS : RECEIVERS));
    return from >= SENDERS && *flow < self->n_flows;
}

/* What a frame whose tag is right says of the packet; its words are written behind the crossing. */
static bool
read_content(
    const ecc_frames_t *self, const way_t *way, const unsigned char *frame, unsigned char *words, content_t *content)
{
    const unsigned char *shim = frame + way->shim;
    const unsigned char *ip = frame + ETHERNET;
    uint32_t hop = (uint32_t) get(shim + 8, 4);
    const unsigned char *header;
    const format_t *format;
    bool valid = true;
    size_t at = 0;

    content->words = words;
    content->number = get(shim + 20, 8);
    content->crossing = (ecc_crossing_t) { .time = get_count(shim + 28),
        .sent = get_count(shim + 36),
        .offset = get_count(shim + 44),
        .size = (int64_t) get(shim + 12, 4),
        .flow = (int64_t) get(shim + 4, 4),
        .hop = hop == UINT32_MAX ? -1 : (int64_t) hop };
    if (!is_crossing(self, &content->crossing)) {
        return false;
    }
    format = &self->formats[self->flows[content->crossing.flow].format];
    if (way != &format->ways[direction_of(&self->flows[content->crossing.flow], &content->crossing)]) {
        return false;
    }
    header = format->place == ECC_FRAME_SERVICE ? ip + 1
        : format->place == ECC_FRAME_FRAGMENT   ? ip + 6
                                                : ip + IP + (format->is_tcp ? TCP : 0);
    memset(words, 0, WORD * self->n_words);
    for (size_t i = 0; i < way->n_fields; i++) {
        const ecc_frame_field_t *field = &self->fields[way->first_field + i];
        if (field->word >= 0) {
            uint64_t bits = get_bits(header, at, (size_t) field->width);
            valid = set_word(field, bits, words + WORD * (format->first_word + (size_t) field->word)) && valid;
        }
        at += (size_t) field->width;
    }
    for (size_t i = 0; i < way->n_carried; i++) {
        uint64_t word = get(shim + SHIM + WORD * i, WORD);
        memcpy(words + WORD * way->carried[i], &word, sizeof(word));
    }
    if (self->ecn < self->n_words) {
        int64_t codepoint = format->place == ECC_FRAME_SERVICE ? 0 : ip[1] & 3;
        memcpy(words + WORD * self->ecn, &codepoint, sizeof(codepoint));
    }
    return valid;
}

static bool
is_replay(const ecc_frame_port_t *port, uint64_t number)
{
    uint64_t age = port->newest - number;

    return number == 0 || (number <= port->newest && (age >= REPLAY_WINDOW || (port->window >> age & 1) != 0));
}

static void
note_number(ecc_frame_port_t *port, uint64_t number)
{
    if (number > port->newest) {
        uint64_t step = number - port->newest;
        port->window = (step < REPLAY_WINDOW ? port->window << step : 0) | 1;
        port->newest = number;
    } else {
        port->window |= UINT64_C(1) << (port->newest - number);
    }
}

static enum ecc_frame_verdict
read_frame(
    const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *frame, size_t size, unsigned char *crossing)
{
    unsigned char again[MAX_HEAD];
    unsigned char words[MAX_HEAD];
    content_t content = { .from = port->peer, .to = port->own };
    enum direction direction;
    const format_t *format;
    const way_t *way;
    size_t flow;

    if (!find_flow(self, port, frame, size, &flow, &direction)) {
        return ECC_FRAME_FOREIGN;
    }
    format = &self->formats[self->flows[flow].format];
    way = &format->ways[direction];
    if (frame[ETHERNET + 9] != (format->is_tcp ? TCP_PROTOCOL : EXPERIMENT) || size < way->shim + 4
        || get(frame + way->shim, 4) != MAGIC) {
        return ECC_FRAME_FOREIGN;
    }
    if (size < way->size || size < ETHERNET + get(frame + ETHERNET + 2, 2)) {
        return ECC_FRAME_TRUNCATED;
    }
    if (get(frame + way->size - TAG, TAG) != tag_of(self->key, frame, way->size - TAG)) {
        return ECC_FRAME_FORGED;
    }
    if (is_replay(port, get(frame + way->shim + 20, 8))) {
        return ECC_FRAME_REPLAYED;
    }
    if (!read_content(self, way, frame, words, &content)) {
        return ECC_FRAME_WRONG;
    }
    (void) write_head(self, &content, again);
    if (memcmp(frame, again, way->size) != 0) {
        return ECC_FRAME_WRONG;
    }
    note_number(port, content.number);
    memcpy(crossing, &content.crossing, sizeof(content.crossing));
    memcpy(crossing + sizeof(content.crossing), words, WORD * self->n_words);
    return ECC_FRAME_TAKEN;
}

int64_t
ecc_frames_read(
    const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *frame, int64_t size, unsigned char *crossing)
{
    enum ecc_frame_verdict verdict
        = size < 0 ? ECC_FRAME_FOREIGN : read_frame(self, port, frame, (size_t) size, crossing);

    port->verdicts[verdict]++;
    return (int64_t) verdict;
}
