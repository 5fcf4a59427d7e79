/*
 * Parts of a network (S-121 to S-126): packets that leave this one for another, and those that enter it.
 *
 * A packet leaves when it is put on a wire, an access line or a pure delay at whose end something is that another part
 * has: it is copied to an outbox, with the time at which it is there, and its memory is released. It enters by joining
 * the list of the same wire, line or delay in the engine of the other part, whose event is the one that it has in an
 * engine of the whole network. As the order of events depends on nothing but time, kind and entity, and as all that
 * hooks draw and count belongs to one entity, the parts compute what the whole does.
 *
 * What enters is checked as if anybody had written it. It cannot be held against the state of the other side, so a
 * forgery may report what did not happen; but no count overflows, and no list is out of order.
 *
 * Not here: threads, and how far a part may run ahead (team.c).
 */

#include "cut.h"

#include <string.h>

#include "archive.h"
#include "channel.h"
#include "config.h"
#include "ecn.h"
#include "transport.h"

#define ON_ACCESS (-1) /* `hop` of a crossing: else a link of the route, by number, or behind these the pure delay */
#define FIRST_ROOM 4096u

static size_t
body_size(const ecc_engine_t *self)
{
    return self->packets.stride - sizeof(ecc_packet_t);
}

static int64_t
n_hops(const ecc_flow_t *spec)
{
    return spec->n_forward + spec->n_reverse;
}

/* Whether the end of the wire at a position is that of the pure delay behind it: the ACK is the only event (S-33, S-34). */
static bool
ends_with_ack(const ecc_engine_t *self, uint32_t position)
{
    uint32_t end = self->hops[position] & ECC_HOP_END;

    return end == ECC_END_IMMEDIATE_ACK || end == ECC_END_SENDER;
}

/* ---- the partition ---- */

/* The part that has what is behind a wire. */
static int64_t
part_behind_wire(const ecc_engine_t *self, uint32_t flow, uint32_t position)
{
    uint32_t hop = self->hops[position];

    if ((hop & ECC_HOP_END) == ECC_END_LINK) {
        return self->cut->links[self->hops[position + 1] >> ECC_HOP_LINK];
    }
    return (hop & ECC_HOP_END) == ECC_END_HOST && (hop & ECC_HOP_IS_ACK) == 0 ? self->cut->receivers[flow]
                                                                              : self->cut->senders[flow];
}

/* The part that puts packets on a list: an access line, the wire of a link of the route, or the pure delay. */
static int64_t
part_before(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    uint32_t position = self->flows[flow].position;

    if (hop == ON_ACCESS) {
        return self->cut->senders[flow];
    }
    if (hop < n_hops(spec)) {
        return self->cut->links[self->hops[position + hop] >> ECC_HOP_LINK];
    }
    if (ends_with_ack(self, position + (uint32_t) n_hops(spec) - 1)) {
        return self->cut->links[self->hops[position + n_hops(spec) - 1] >> ECC_HOP_LINK];
    }
    return spec->n_reverse > 0 ? self->cut->senders[flow] : self->cut->receivers[flow];
}

/* The part that has what is at its end. */
static int64_t
part_after(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    uint32_t position = self->flows[flow].position;

    if (hop == ON_ACCESS) {
        return self->cut->links[self->hops[position] >> ECC_HOP_LINK];
    }
    return hop < n_hops(self->flows[flow].spec) ? part_behind_wire(self, flow, position + (uint32_t) hop)
                                                : self->cut->senders[flow];
}

/* A packet on its way to another part takes so long at least (S-124). */
static ecc_ps_t
delay_before(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    uint32_t last = self->flows[flow].position + (uint32_t) n_hops(spec) - 1;

    if (hop == ON_ACCESS) {
        return spec->access_delay;
    }
    if (hop < n_hops(spec)) {
        return self->links[self->hops[self->flows[flow].position + hop] >> ECC_HOP_LINK].spec.delay;
    }
    if (!ends_with_ack(self, last)) {
        return spec->ack_delay;
    }
    /* what is received silently is counted ack_delay before the ACK */
    return self->links[self->hops[last] >> ECC_HOP_LINK].spec.delay + (spec->n_reverse > 0 ? spec->ack_delay : 0);
}

/* S-122: 0, or the first flow that does not allow the partition. */
static bool
allows_partition(ecc_engine_t *self, uint32_t flow)
{
    const ecc_cut_t *cut = self->cut;
    const ecc_flow_t *spec = self->flows[flow].spec;
    bool is_one = spec->on_receive != NULL || self->flows[flow].immediate_ack;
    bool allowed = cut->senders[flow] == cut->receivers[flow] || !is_one;

    if (spec->n_reverse > 0) {
        uint32_t first = self->hops[self->flows[flow].position + spec->n_forward];
        allowed = allowed && cut->receivers[flow] == cut->links[first >> ECC_HOP_LINK];
    }
    for (int64_t hop = ON_ACCESS; hop <= n_hops(spec); hop++) {
        bool is_silent
            = hop >= 0 && hop < n_hops(spec) && ends_with_ack(self, self->flows[flow].position + (uint32_t) hop);
        if (!is_silent && part_before(self, flow, hop) != part_after(self, flow, hop)) {
            ecc_ps_t delay = delay_before(self, flow, hop);
            allowed = allowed && delay > 0;
            self->cut->lookahead = delay < cut->lookahead ? delay : cut->lookahead;
        }
    }
    return allowed;
}

static bool
are_parts(const int64_t *parts, int64_t n, int64_t n_parts)
{
    bool valid = n == 0 || parts != NULL;

    for (int64_t i = 0; i < n && valid; i++) {
        valid = parts[i] >= 0 && parts[i] < n_parts;
    }
    return valid;
}

static int
fail(ecc_engine_t *self, int64_t entity, int64_t index, double value)
{
    return ecc_state_fail(self, ECC_ERR_PARTITION, entity, index, ECC_NO_HOOK, value);
}

static int
allocate(ecc_engine_t *self, size_t size, void **block)
{
    int ret = ecc_memory_resize(&self->memory, 0, size, block);

    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) size);
}

static size_t
numbers_size(const ecc_engine_t *self)
{
    return (2 * (size_t) self->n_links + 4 * (size_t) self->n_flows + 1) * sizeof(int64_t);
}

int
ecc_cut_init(ecc_engine_t *self, const ecc_partition_t *partition)
{
    int64_t n_parts = partition->n_parts;
    size_t n_links = self->n_links;
    size_t n_flows = self->n_flows;
    void *block = NULL;
    void *numbers = NULL;
    void *outboxes = NULL;
    int ret;

    if (n_parts == 0) {
        return 0;
    }
    if (n_parts < 0 || n_parts > ECC_MAX_PARTS || partition->part < 0 || partition->part >= n_parts
        || self->transfers.n_templates > 0 || !are_parts(partition->links, self->n_links, n_parts)
        || !are_parts(partition->senders, self->n_flows, n_parts)
        || !are_parts(partition->receivers, self->n_flows, n_parts)) {
        return fail(self, ECC_ENTITY_NONE, 0, (double) n_parts);
    }
    ret = allocate(self, sizeof(*self->cut), &block);
    if (ret != 0) {
        return ret;
    }
    self->cut = block;
    *self->cut = (ecc_cut_t) {
        .part = partition->part, .n_parts = n_parts, .lookahead = ECC_NEVER, .first_arrival = ECC_NEVER
    };
    ret = allocate(self, numbers_size(self), &numbers);
    if (ret != 0) {
        return ret;
    }
    self->cut->links = numbers;
    self->cut->senders = self->cut->links + n_links;
    self->cut->receivers = self->cut->senders + n_flows;
    self->cut->last = self->cut->receivers + n_flows;
    ret = allocate(self, 2 * (size_t) n_parts * sizeof(ecc_outbox_t), &outboxes);
    if (ret != 0) {
        return ret;
    }
    self->cut->outboxes = outboxes;
    if (n_links > 0) {
        memcpy(self->cut->links, partition->links, n_links * sizeof(int64_t));
    }
    if (n_flows > 0) {
        memcpy(self->cut->senders, partition->senders, n_flows * sizeof(int64_t));
        memcpy(self->cut->receivers, partition->receivers, n_flows * sizeof(int64_t));
    }
    for (uint32_t flow = 0; flow < self->n_flows; flow++) {
        if (!allows_partition(self, flow)) {
            return fail(self, ECC_ENTITY_FLOW, flow, (double) self->cut->senders[flow]);
        }
    }
    return 0;
}

void
ecc_cut_free(ecc_engine_t *self)
{
    void *block = self->cut;

    if (self->cut == NULL) {
        return;
    }
    for (int64_t i = 0; i < 2 * self->cut->n_parts && self->cut->outboxes != NULL; i++) {
        void *bytes = self->cut->outboxes[i].bytes;
        ecc_memory_release(&self->memory, self->cut->outboxes[i].room, &bytes);
    }
    ecc_memory_release(
        &self->memory, 2 * (size_t) self->cut->n_parts * sizeof(ecc_outbox_t), (void **) &self->cut->outboxes);
    ecc_memory_release(&self->memory, numbers_size(self), (void **) &self->cut->links);
    ecc_memory_release(&self->memory, sizeof(*self->cut), &block);
    self->cut = NULL;
}

/* ---- what leaves ---- */

static int
leave(ecc_engine_t *self, int64_t part, uint32_t id, int64_t hop, ecc_ps_t time)
{
    ecc_outbox_t *outbox = ecc_cut_outbox(self, self->cut->half, part);
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    size_t size = sizeof(ecc_crossing_t) + body_size(self);
    ecc_crossing_t crossing = { time, packet->sent, packet->offset, packet->size, packet->flow, hop };

    if (outbox->size + size > outbox->room) {
        size_t room = 2 * outbox->room + FIRST_ROOM + size;
        void *bytes = outbox->bytes;
        int ret = ecc_memory_resize(&self->memory, outbox->room, room, &bytes);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_FLOW, packet->flow, ECC_NO_HOOK, (double) room);
        }
        outbox->bytes = bytes;
        outbox->room = room;
    }
    memcpy(outbox->bytes + outbox->size, &crossing, sizeof(crossing));
    memcpy(outbox->bytes + outbox->size + sizeof(crossing), ecc_packets_header(packet), body_size(self));
    outbox->size += size;
    self->cut->first_arrival = time < self->cut->first_arrival ? time : self->cut->first_arrival;
    ecc_packets_release(&self->packets, id);
    return 0;
}

bool
ecc_cut_leaves_by_wire(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = packet->flow;
    int64_t part = part_behind_wire(self, index, packet->position);
    int64_t hop = packet->position - self->flows[index].position;

    if (part == self->cut->part) {
        return false;
    }
    if (ends_with_ack(self, packet->position)) {
        hop = n_hops(self->flows[index].spec);
        time = ecc_state_add(time, self->flows[index].ack_delay);
    }
    *ret = leave(self, part, id, hop, time);
    return true;
}

bool
ecc_cut_leaves_by_access(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int64_t part = part_after(self, index, ON_ACCESS);

    if (part == self->cut->part) {
        return false;
    }
    *ret = leave(self, part, id, ON_ACCESS, time);
    return true;
}

bool
ecc_cut_leaves_as_ack(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int64_t part = self->cut->senders[index];

    if (part == self->cut->part) {
        return false;
    }
    *ret = leave(self, part, id, n_hops(self->flows[index].spec), time);
    return true;
}

int64_t
ecc_cut_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer)
{
    ecc_outbox_t *outbox;
    size_t size;

    if (self->cut == NULL || part < 0 || part >= self->cut->n_parts) {
        return 0;
    }
    outbox = ecc_cut_outbox(self, self->cut->half, part);
    size = outbox->size;
    if (buffer != NULL && size > 0) {
        memcpy(buffer, outbox->bytes, size);
        outbox->size = 0;
    }
    return (int64_t) size;
}

void
ecc_cut_turn(ecc_engine_t *self)
{
    self->cut->half = !self->cut->half;
    self->cut->first_arrival = ECC_NEVER;
    for (int64_t part = 0; part < self->cut->n_parts; part++) {
        ecc_cut_outbox(self, self->cut->half, part)->size = 0;
    }
}

/* ---- what enters ---- */

/* Where a packet is then, in the table of hops; on its pure delay, as the ACK of the last link of its way. */
static uint32_t
position_of(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    const ecc_flow_state_t *flow = &self->flows[crossing->flow];
    int64_t last = n_hops(flow->spec) - 1;

    return flow->position + (uint32_t) (crossing->hop < 0 ? 0 : crossing->hop < last ? crossing->hop : last);
}

/* Whether it is an ACK that says of data what has come; an immediate ACK is data until it is at the sender (S-33). */
static bool
is_ack(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    const ecc_flow_t *spec = self->flows[crossing->flow].spec;

    return crossing->hop >= spec->n_forward && !self->flows[crossing->flow].immediate_ack;
}

/* The numbers of a crossing, and that it comes over a cut (S-123). */
static bool
is_crossing(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    ecc_ps_t earliest = self->stop == ECC_STOP_NOT_YET ? 0 : self->now + 1;
    const ecc_flow_state_t *flow;

    if (crossing->flow < 0 || crossing->flow >= self->n_flows) {
        return false;
    }
    flow = &self->flows[crossing->flow];
    return crossing->hop >= ON_ACCESS && crossing->hop <= n_hops(flow->spec)
        && !(crossing->hop >= 0 && crossing->hop < n_hops(flow->spec)
            && ends_with_ack(self, flow->position + (uint32_t) crossing->hop))
        && part_before(self, (uint32_t) crossing->flow, crossing->hop) != self->cut->part
        && part_after(self, (uint32_t) crossing->flow, crossing->hop) == self->cut->part && crossing->time >= earliest
        && crossing->time <= ECC_NEVER && crossing->sent >= 0 && crossing->sent <= crossing->time && crossing->size >= 1
        && crossing->size <= ECC_MAX_PACKET_SIZE && crossing->offset >= 0
        && crossing->offset <= ecc_cut_most_sent(self, (uint32_t) crossing->flow) - crossing->size;
}

bool
ecc_cut_is_report(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_range_t *sacks = (const ecc_range_t *) (const void *) (info + 1);
    int64_t most = ecc_cut_most_sent(self, packet->flow);
    bool valid = info->front >= 0 && info->front <= most && info->missing >= 0
        && info->missing <= (flow->reliable ? 0 : info->front);

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS && flow->reliable && self->transports[packet->flow].uses_sack; k++) {
        valid = valid && sacks[k].begin >= 0 && sacks[k].begin <= sacks[k].end && sacks[k].end <= most;
    }
    return valid;
}

/* What a packet carries for receiver and sender. */
static bool
is_body(const ecc_engine_t *self, const ecc_crossing_t *crossing, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    bool valid = true;

    if (self->wants_ecn) {
        valid = ecc_ecn_verify(
                    self, packet->flow, ecc_state_ecn(self, ecc_packets_header(packet)), is_ack(self, crossing))
            == 0;
    }
    if (is_ack(self, crossing)) {
        return valid && ((!flow->needs_receiver && !flow->reliable) || ecc_cut_is_report(self, packet));
    }
    if (flow->needs_receiver) {
        int64_t base = ecc_state_ack_info(self, packet)->front;
        valid = valid && base >= 0 && base <= packet->offset;
    }
    return valid;
}

/* The list that a packet joins, its channel if it has one, and the node of the event at its end. */
static ecc_fifo_t *
list_of(ecc_engine_t *self, const ecc_crossing_t *crossing, ecc_channel_t **channel, uint32_t *node, ecc_ps_t **last)
{
    uint32_t index = (uint32_t) crossing->flow;
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t link;

    *channel = NULL;
    if (crossing->hop == ON_ACCESS) {
        *node = self->base[ECC_EVENT_ACCESS] + index;
        *last = &self->cut->last[self->n_links + index];
        return &flow->access;
    }
    if (crossing->hop == n_hops(flow->spec)) {
        *channel = flow->spec->impairment > 0 ? &self->receivers[index].channel : NULL;
        *node = self->base[ECC_EVENT_ACK] + index;
        *last = &self->cut->last[self->n_links + self->n_flows + index];
        return &flow->acks;
    }
    link = self->hops[position_of(self, crossing)] >> ECC_HOP_LINK;
    *channel = self->links[link].channel;
    *node = self->base[ECC_EVENT_HOP] + link;
    *last = &self->cut->last[link];
    return &self->links[link].wire;
}

/* One packet enters. */
static int
enter(ecc_engine_t *self, const ecc_crossing_t *crossing, const unsigned char *body)
{
    ecc_channel_t *channel;
    ecc_packet_t *packet;
    ecc_fifo_t *list;
    ecc_ps_t *last;
    uint32_t node;
    uint32_t id;
    int ret;

    if (!is_crossing(self, crossing)) {
        return ECC_ERR_CROSSING;
    }
    list = list_of(self, crossing, &channel, &node, &last);
    if (crossing->time < *last && (channel == NULL || channel->spec.reorders == 0)) {
        return ECC_ERR_CROSSING;
    }
    ret = ecc_packets_allocate(&self->packets, &self->memory, &id);
    if (ret != 0) {
        return ret;
    }
    packet = ecc_packets_at(&self->packets, id);
    packet->sent = crossing->sent;
    packet->offset = crossing->offset;
    packet->flow = (uint32_t) crossing->flow;
    packet->size = (int32_t) crossing->size;
    packet->position = position_of(self, crossing);
    memcpy(ecc_packets_header(packet), body, body_size(self));
    if (!is_body(self, crossing, packet)) {
        ret = ECC_ERR_CROSSING;
    } else if (channel != NULL) {
        ret = ecc_channel_append(channel, &self->memory, &self->packets, list, &self->fast, node, id, crossing->time);
    } else if (ecc_packets_append(&self->packets, list, id, crossing->time)) {
        ecc_calendar_insert(&self->fast, node, crossing->time);
    }
    if (ret != 0) {
        ecc_packets_release(&self->packets, id);
        return ret;
    }
    *last = crossing->time;
    return 0;
}

int
ecc_cut_enter(ecc_engine_t *self, const unsigned char *bytes, size_t size)
{
    size_t each = sizeof(ecc_crossing_t) + body_size(self);
    int ret = self->cut == NULL || size % each != 0 ? ECC_ERR_CROSSING : 0;
    size_t at = 0;

    while (ret == 0 && at < size) {
        ecc_crossing_t crossing;
        memcpy(&crossing, bytes + at, sizeof(crossing));
        ret = enter(self, &crossing, bytes + at + sizeof(crossing));
        at += ret == 0 ? each : 0;
    }
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) (at / each));
}
