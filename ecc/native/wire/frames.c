/*
 * Packets of an engine as frames, whose layout is in frame.h. Tables of the caller map the fields of a congestion
 * header to the words of a packet: this file knows no protocol.
 *
 * The reader trusts nothing. It checks the addresses and the shim, then the tag, then the number of the frame. Then it
 * writes the frame again from the values that it has read, which must give the same bytes. Thus the code of the writer
 * checks every length, checksum, reserved bit and constant.
 *
 * Not here: the fields (frame_fields.c), the tables (frame_tables.c), and sockets (live_socket.c).
 */

#include "wire/frame.h"

#include <stdbool.h>
#include <string.h>

#include "core/archive.h"
#include "core/config.h"
#include "core/state.h"
#include "wire/frame_fields.h"
#include "wire/frame_tables.h"
#include "wire/tag.h"

#define IPV4 0x0800u
#define EXPERIMENT 253u /* RFC 3692 */
#define TCP_PROTOCOL 6u
#define DONT_FRAGMENT 0x4000u
#define TIME_TO_LIVE 64u
#define SENDERS UINT32_C(0x0a000000)
#define RECEIVERS UINT32_C(0x0a800000)
#define SENDER_PORT 50000u
#define RECEIVER_PORT 50001u
#define TCP_ACK 0x10u
#define MAGIC UINT32_C(0x65636301) /* "ecc", version 1 */
#define REPLAY_WINDOW 64u

/* Content of a frame. */
typedef struct {
    ecc_crossing_t crossing;
    const unsigned char *words; /* in the order and form of the engine */
    const unsigned char *from;  /* MAC addresses */
    const unsigned char *to;
    uint64_t number;
} content_t;

/* A number from 0 to 2^63 - 1; another one, which no engine writes, is -1. */
static int64_t
get_count(const unsigned char *at)
{
    uint64_t value = ecc_frame_fields_get(at, 8);

    return value > INT64_MAX ? -1 : (int64_t) value;
}

/* RFC 1071, of an IP header whose checksum is 0. */
static uint64_t
checksum(const unsigned char *header)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < ECC_FRAME_IP; i += 2) {
        sum += (uint32_t) ecc_frame_fields_get(header + i, 2);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return ~(sum + (sum >> 16)) & 0xffff;
}

/* ---- creation and sizes ---- */

int
ecc_frames_new(const ecc_engine_t *engine, const ecc_frames_config_t *config, ecc_frames_t **frames)
{
    ecc_memory_t memory;
    ecc_frames_t *self;
    void *block = NULL;
    int ret;

    *frames = NULL;
    ecc_memory_init(&memory, &engine->memory.allocator);
    ret = ecc_memory_resize(&memory, 0, sizeof(*self), &block);
    if (ret != 0) {
        return ret;
    }
    self = block;
    self->memory = memory;
    ret = ecc_frame_tables_init(self, engine, config);
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
    ecc_frame_tables_free(self);
    memory = self->memory;
    ecc_memory_release(&memory, sizeof(*self), &block);
}

int64_t
ecc_frames_crossing_size(const ecc_frames_t *self)
{
    return (int64_t) (sizeof(ecc_crossing_t) + ECC_FRAME_WORD_SIZE * self->n_words);
}

int64_t
ecc_frames_room(const ecc_frames_t *self)
{
    return (int64_t) (ECC_FRAME_ETHERNET + self->mtu);
}

/* ---- writing ---- */

static enum ecc_frame_direction
direction_of(const ecc_frame_flow_t *flow, const ecc_crossing_t *crossing)
{
    return crossing->hop >= flow->n_forward ? ECC_FRAME_ACKS : ECC_FRAME_DATA;
}

/* Whether the numbers of a packet fit into a frame; the engine checks them against the network. */
static bool
is_crossing(const ecc_frames_t *self, const ecc_crossing_t *crossing)
{
    return crossing->flow >= 0 && (uint64_t) crossing->flow < self->n_flows && crossing->hop >= -1
        && crossing->hop <= self->flows[crossing->flow].n_hops && crossing->size != 0
        && crossing->size >= (crossing->hop < self->flows[crossing->flow].n_forward ? 1 : -ECC_MAX_PACKET_SIZE)
        && crossing->size <= ECC_MAX_PACKET_SIZE && crossing->time >= 0 && crossing->time <= ECC_NEVER
        && crossing->sent >= 0 && crossing->sent <= ECC_NEVER && crossing->offset >= 0
        && crossing->offset <= ECC_ARCHIVE_MAX;
}

/* Size of the IP packet: that of the packet on its link, as far as frames allow. */
static size_t
length_of(
    const ecc_frames_t *self, const ecc_frame_flow_t *flow, const ecc_frame_way_t *way, const ecc_crossing_t *crossing)
{
    int64_t size = crossing->size < 0      ? -crossing->size
        : crossing->hop >= flow->n_forward ? flow->ack_size
                                           : crossing->size + flow->header_bytes;
    size_t length = size < (int64_t) self->mtu ? (size_t) size : self->mtu;

    return length > way->size - ECC_FRAME_ETHERNET ? length : way->size - ECC_FRAME_ETHERNET;
}

static void
write_ip(const ecc_frames_t *self, const ecc_frame_flow_t *flow, enum ecc_frame_direction direction,
    const content_t *content, const unsigned char *header, unsigned char *ip)
{
    const ecc_frame_layout_t *format = &self->formats[flow->format];
    const ecc_frame_way_t *way = &format->ways[direction];
    uint32_t number = (uint32_t) content->crossing.flow;
    uint64_t sequence = direction == ECC_FRAME_DATA ? (uint64_t) content->crossing.offset : 0;
    int64_t codepoint = 0;

    if (self->ecn < self->n_words) {
        memcpy(&codepoint, content->words + ECC_FRAME_WORD_SIZE * self->ecn, sizeof(codepoint));
    }
    ip[0] = 0x45;
    ip[1] = format->place == ECC_FRAME_SERVICE ? header[0] : (unsigned char) (codepoint & 3);
    ecc_frame_fields_put(ip + 2, 2, length_of(self, flow, way, &content->crossing));
    ecc_frame_fields_put(ip + 4, 2, sequence);
    ecc_frame_fields_put(
        ip + 6, 2, format->place == ECC_FRAME_FRAGMENT ? ecc_frame_fields_get(header, 2) : DONT_FRAGMENT);
    ip[8] = TIME_TO_LIVE;
    ip[9] = format->is_tcp ? TCP_PROTOCOL : EXPERIMENT;
    ecc_frame_fields_put(ip + 12, 4, (direction == ECC_FRAME_DATA ? SENDERS : RECEIVERS) + number);
    ecc_frame_fields_put(ip + 16, 4, (direction == ECC_FRAME_DATA ? RECEIVERS : SENDERS) + number);
    ecc_frame_fields_put(ip + 10, 2, checksum(ip));
    if (format->is_tcp) {
        ecc_frame_fields_put(ip + ECC_FRAME_IP, 2, direction == ECC_FRAME_DATA ? SENDER_PORT : RECEIVER_PORT);
        ecc_frame_fields_put(ip + ECC_FRAME_IP + 2, 2, direction == ECC_FRAME_DATA ? RECEIVER_PORT : SENDER_PORT);
        ecc_frame_fields_put(ip + ECC_FRAME_IP + 4, 4, sequence);
        ip[ECC_FRAME_IP + 12] = (unsigned char) (ecc_frame_tables_tcp(format, way) / 4 << 4);
        ip[ECC_FRAME_IP + 13] = TCP_ACK;
        ecc_frame_fields_put(ip + ECC_FRAME_IP + 14, 2, 0xffff);
    }
}

/* All of a frame up to its zeros; the content is that of a flow that exists. */
static const ecc_frame_way_t *
write_head(const ecc_frames_t *self, const content_t *content, unsigned char *frame)
{
    const ecc_frame_flow_t *flow = &self->flows[content->crossing.flow];
    const ecc_frame_layout_t *format = &self->formats[flow->format];
    enum ecc_frame_direction direction = direction_of(flow, &content->crossing);
    const ecc_frame_way_t *way = &format->ways[direction];
    unsigned char *ip = frame + ECC_FRAME_ETHERNET;
    unsigned char *shim = frame + way->shim;
    unsigned char in_ip[2] = { 0 };
    bool is_above = format->place == ECC_FRAME_ABOVE || format->place == ECC_FRAME_OPTION;

    memset(frame, 0, way->size);
    memcpy(frame, content->to, 6);
    memcpy(frame + 6, content->from, 6);
    ecc_frame_fields_put(frame + 12, 2, IPV4);
    ecc_frame_fields_write(self->fields + way->first_field, way->n_fields,
        content->words + ECC_FRAME_WORD_SIZE * format->first_word,
        is_above ? ip + ECC_FRAME_IP + (format->is_tcp ? ECC_FRAME_TCP : 0) : in_ip);
    write_ip(self, flow, direction, content, in_ip, ip);
    ecc_frame_fields_put(shim, 4, MAGIC);
    ecc_frame_fields_put(shim + 4, 4, (uint64_t) content->crossing.flow);
    ecc_frame_fields_put(shim + 8, 4, (uint64_t) content->crossing.hop);
    ecc_frame_fields_put(shim + 12, 4, (uint64_t) content->crossing.size);
    ecc_frame_fields_put(shim + 16, 4, way->n_carried);
    ecc_frame_fields_put(shim + 20, 8, content->number);
    ecc_frame_fields_put(shim + 28, 8, (uint64_t) content->crossing.time);
    ecc_frame_fields_put(shim + 36, 8, (uint64_t) content->crossing.sent);
    ecc_frame_fields_put(shim + 44, 8, (uint64_t) content->crossing.offset);
    for (size_t i = 0; i < way->n_carried; i++) {
        uint64_t word;
        memcpy(&word, content->words + ECC_FRAME_WORD_SIZE * way->carried[i], sizeof(word));
        ecc_frame_fields_put(shim + ECC_FRAME_SHIM + ECC_FRAME_WORD_SIZE * i, ECC_FRAME_WORD_SIZE, word);
    }
    ecc_frame_fields_put(
        frame + way->size - ECC_FRAME_TAG, ECC_FRAME_TAG, ecc_tag_of(self->key, frame, way->size - ECC_FRAME_TAG));
    return way;
}

int64_t
ecc_frames_write(const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *crossing, unsigned char *frame)
{
    content_t content = { .words = crossing + sizeof(ecc_crossing_t), .from = port->own, .to = port->peer };
    const ecc_frame_way_t *way;
    size_t size;

    memcpy(&content.crossing, crossing, sizeof(content.crossing));
    if (!is_crossing(self, &content.crossing)) {
        return 0;
    }
    content.number = ++port->written;
    way = write_head(self, &content, frame);
    size = ECC_FRAME_ETHERNET + length_of(self, &self->flows[content.crossing.flow], way, &content.crossing);
    memset(frame + way->size, 0, size - way->size);
    return (int64_t) size;
}

/* ---- reading ---- */

/* Finds flow and direction of a frame to this port by its addresses; false: not a frame of this run. */
static bool
find_flow(const ecc_frames_t *self, const ecc_frame_port_t *port, const unsigned char *frame, size_t size, size_t *flow,
    enum ecc_frame_direction *direction)
{
    const unsigned char *ip = frame + ECC_FRAME_ETHERNET;
    uint64_t from;

    if (size < ECC_FRAME_ETHERNET + ECC_FRAME_IP || memcmp(frame, port->own, 6) != 0
        || memcmp(frame + 6, port->peer, 6) != 0 || ecc_frame_fields_get(frame + 12, 2) != IPV4 || ip[0] != 0x45) {
        return false;
    }
    from = ecc_frame_fields_get(ip + 12, 4);
    *direction = from < RECEIVERS ? ECC_FRAME_DATA : ECC_FRAME_ACKS;
    *flow = (size_t) (from - (*direction == ECC_FRAME_DATA ? SENDERS : RECEIVERS));
    return from >= SENDERS && *flow < self->n_flows;
}

/* What a frame whose tag is right says of the packet; its words are written behind the crossing. */
static bool
read_content(const ecc_frames_t *self, const ecc_frame_way_t *way, const unsigned char *frame, unsigned char *words,
    content_t *content)
{
    const unsigned char *shim = frame + way->shim;
    const unsigned char *ip = frame + ECC_FRAME_ETHERNET;
    uint32_t hop = (uint32_t) ecc_frame_fields_get(shim + 8, 4);
    const unsigned char *header;
    const ecc_frame_layout_t *format;

    content->words = words;
    content->number = ecc_frame_fields_get(shim + 20, 8);
    content->crossing = (ecc_crossing_t) { .time = get_count(shim + 28),
        .sent = get_count(shim + 36),
        .offset = get_count(shim + 44),
        .size = (int32_t) ecc_frame_fields_get(shim + 12, 4),
        .flow = (int64_t) ecc_frame_fields_get(shim + 4, 4),
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
                                                : ip + ECC_FRAME_IP + (format->is_tcp ? ECC_FRAME_TCP : 0);
    memset(words, 0, ECC_FRAME_WORD_SIZE * self->n_words);
    ecc_frame_fields_read(
        self->fields + way->first_field, way->n_fields, header, words + ECC_FRAME_WORD_SIZE * format->first_word);
    for (size_t i = 0; i < way->n_carried; i++) {
        uint64_t word = ecc_frame_fields_get(shim + ECC_FRAME_SHIM + ECC_FRAME_WORD_SIZE * i, ECC_FRAME_WORD_SIZE);
        memcpy(words + ECC_FRAME_WORD_SIZE * way->carried[i], &word, sizeof(word));
    }
    if (self->ecn < self->n_words) {
        int64_t codepoint = format->place == ECC_FRAME_SERVICE ? 0 : ip[1] & 3;
        memcpy(words + ECC_FRAME_WORD_SIZE * self->ecn, &codepoint, sizeof(codepoint));
    }
    return true;
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
        port->reordered++;
    }
}

static enum ecc_frame_verdict
read_frame(
    const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *frame, size_t size, unsigned char *crossing)
{
    unsigned char again[ECC_FRAME_MAX_HEAD];
    unsigned char words[ECC_FRAME_MAX_HEAD];
    content_t content = { .from = port->peer, .to = port->own };
    enum ecc_frame_direction direction;
    const ecc_frame_layout_t *format;
    const ecc_frame_way_t *way;
    size_t flow;

    if (!find_flow(self, port, frame, size, &flow, &direction)) {
        return ECC_FRAME_FOREIGN;
    }
    format = &self->formats[self->flows[flow].format];
    way = &format->ways[direction];
    if (frame[ECC_FRAME_ETHERNET + 9] != (format->is_tcp ? TCP_PROTOCOL : EXPERIMENT) || size < way->shim + 4
        || ecc_frame_fields_get(frame + way->shim, 4) != MAGIC) {
        return ECC_FRAME_FOREIGN;
    }
    if (size < way->size || size < ECC_FRAME_ETHERNET + ecc_frame_fields_get(frame + ECC_FRAME_ETHERNET + 2, 2)) {
        return ECC_FRAME_TRUNCATED;
    }
    if (ecc_frame_fields_get(frame + way->size - ECC_FRAME_TAG, ECC_FRAME_TAG)
        != ecc_tag_of(self->key, frame, way->size - ECC_FRAME_TAG)) {
        return ECC_FRAME_FORGED;
    }
    if (is_replay(port, ecc_frame_fields_get(frame + way->shim + 20, 8))) {
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
    memcpy(crossing + sizeof(content.crossing), words, ECC_FRAME_WORD_SIZE * self->n_words);
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
