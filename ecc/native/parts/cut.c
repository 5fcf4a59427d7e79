/*
 * Parts of a network (S-121 to S-127): packets that leave this one for another, and those that enter it.
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

#include "parts/cut.h"

#include <string.h>

#include "core/archive.h"
#include "core/channel.h"
#include "core/config.h"
#include "host/ecn.h"
#include "host/flow.h"
#include "link/link.h"
#include "host/spray.h"
#include "host/transfers.h"
#include "host/transport.h"

/* `hop` of a crossing: else a link of the route, by number, or behind these the pure delay; or, from AFTER_ACKS behind
   that on, a link of another route, by its position */
#define ON_ACCESS (-1)
#define AFTER_ACKS 2
#define FIRST_ROOM 4096u

/* Of a transfer, what a part needs to know where it only passes; of a flow -1 and 0. */
typedef struct {
    int64_t template_index;
    ecc_ps_t ack_delay;
} passing_t;

/* What follows a crossing: the header, then, where they exist, ecc_ecn_t, front and missing of an ACK, and its SACK. */
size_t
ecc_cut_body_size(const ecc_engine_t *self)
{
    return self->ecn_offset + (self->wants_ecn ? sizeof(ecc_ecn_t) : 0) + (self->wants_acks ? 2 * sizeof(int64_t) : 0)
        + (self->wants_sack ? sizeof(ecc_sack_t) : 0);
}

/* Of a crossing and what follows it. */
static size_t
crossing_size(const ecc_engine_t *self)
{
    return sizeof(ecc_crossing_t) + ecc_cut_body_size(self) + (self->transfers.n_templates > 0 ? sizeof(passing_t) : 0);
}

static int64_t
n_hops(const ecc_flow_t *spec)
{
    return spec->n_forward + spec->n_reverse;
}

/* The position of a wire that a crossing is on, relative to that of its flow. */
static uint32_t
relative(const ecc_flow_t *spec, int64_t hop)
{
    return (uint32_t) (hop < n_hops(spec) ? hop : hop - AFTER_ACKS);
}

/* Whether a crossing is on a wire. */
static bool
is_wire(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;

    return (hop >= 0 && hop < n_hops(spec))
        || (hop >= n_hops(spec) + AFTER_ACKS && hop <= (int64_t) self->n_hops
            && ecc_spray_has(self, flow, self->flows[flow].position + relative(spec, hop)));
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
    return (hop & ECC_HOP_END) == ECC_END_HOST && (hop & ECC_HOP_IS_ACK) == 0 ? ecc_cut_receiver(self, flow)
                                                                              : ecc_cut_sender(self, flow);
}

/* The part that puts packets on a list: an access line, the wire of a link of the route, or the pure delay. */
static int64_t
part_before(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    uint32_t position = self->flows[flow].position;

    if (hop == ON_ACCESS) {
        return ecc_cut_sender(self, flow);
    }
    if (is_wire(self, flow, hop)) {
        return self->cut->links[self->hops[position + relative(spec, hop)] >> ECC_HOP_LINK];
    }
    if (ends_with_ack(self, position + (uint32_t) n_hops(spec) - 1)) {
        return self->cut->links[self->hops[position + n_hops(spec) - 1] >> ECC_HOP_LINK];
    }
    return spec->n_reverse > 0 ? ecc_cut_sender(self, flow) : ecc_cut_receiver(self, flow);
}

/* The part that has what is at its end. */
static int64_t
part_after(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    uint32_t position = self->flows[flow].position;

    if (hop == ON_ACCESS) {
        return self->cut->links[self->hops[position] >> ECC_HOP_LINK];
    }
    return is_wire(self, flow, hop) ? part_behind_wire(self, flow, position + relative(self->flows[flow].spec, hop))
                                    : ecc_cut_sender(self, flow);
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
    if (is_wire(self, flow, hop)) {
        return self->links[self->hops[self->flows[flow].position + relative(spec, hop)] >> ECC_HOP_LINK].delay;
    }
    if (!ends_with_ack(self, last)) {
        return spec->ack_delay;
    }
    /* what is received silently is counted ack_delay before the ACK */
    return self->links[self->hops[last] >> ECC_HOP_LINK].delay + (spec->n_reverse > 0 ? spec->ack_delay : 0);
}

/* What leaves one part for another takes so long at least; whether that is any time. */
static bool
note_delay(ecc_engine_t *self, int64_t before, int64_t after, ecc_ps_t delay)
{
    if (before == self->cut->part && delay < self->cut->delays[after]) {
        self->cut->delays[after] = delay;
    }
    return delay > 0;
}

/* Whether what comes before and after a list may be in the parts where they are: there is a delay between these. */
static bool
allows_crossing(ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    bool is_silent = is_wire(self, flow, hop) && ends_with_ack(self, self->flows[flow].position + relative(spec, hop));
    int64_t before = part_before(self, flow, hop);
    int64_t after = part_after(self, flow, hop);

    return is_silent || before == after || note_delay(self, before, after, delay_before(self, flow, hop));
}

/* S-122. */
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
        allowed = allows_crossing(self, flow, hop) && allowed;
    }
    for (uint32_t route = 1; route <= (uint32_t) spec->n_alternatives; route++) {
        uint32_t position = ecc_spray_route(self, flow, route);
        int64_t hop = (int64_t) position - self->flows[flow].position + AFTER_ACKS;
        allowed = allowed && cut->links[self->hops[position] >> ECC_HOP_LINK] == part_after(self, flow, ON_ACCESS);
        do {
            allowed = allows_crossing(self, flow, hop++) && allowed;
        } while ((self->hops[position++] & ECC_HOP_END) == ECC_END_LINK);
    }
    return allowed;
}

/* S-127. */
static bool
allows_template(ecc_engine_t *self, uint32_t index)
{
    const ecc_template_t *template = &self->transfers.templates[index];
    const uint32_t *hops = &self->hops[template->position];
    const int64_t *links = self->cut->links;
    int64_t part = self->cut->templates[index];
    int64_t n_forward = template->spec.n_forward;
    bool allowed = links[hops[0] >> ECC_HOP_LINK] == part
        && (template->length == n_forward || links[hops[n_forward] >> ECC_HOP_LINK] == part);

    for (int64_t hop = 0; hop < template->length; hop++) {
        bool is_last = hop == n_forward - 1 || hop == template->length - 1;
        uint32_t link = hops[hop] >> ECC_HOP_LINK;
        int64_t after = is_last ? part : links[hops[hop + 1] >> ECC_HOP_LINK];
        if (links[link] != after) {
            allowed = note_delay(self, links[link], after, self->links[link].delay) && allowed;
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
    return (2 * (size_t) self->n_links + 4 * (size_t) self->n_flows + self->transfers.n_templates
               + (size_t) self->cut->n_parts)
        * sizeof(int64_t);
}

static size_t
n_outboxes(const ecc_cut_t *cut)
{
    return (size_t) cut->n_parts * (1 + ECC_N_BATCHES);
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
        || !are_parts(partition->links, self->n_links, n_parts)
        || !are_parts(partition->templates, self->transfers.n_templates, n_parts)
        || !are_parts(partition->senders, self->n_flows, n_parts)
        || !are_parts(partition->receivers, self->n_flows, n_parts)) {
        return fail(self, ECC_ENTITY_NONE, 0, (double) n_parts);
    }
    ret = allocate(self, sizeof(*self->cut), &block);
    if (ret != 0) {
        return ret;
    }
    self->cut = block;
    *self->cut = (ecc_cut_t) { .part = partition->part, .n_parts = n_parts };
    ret = allocate(self, numbers_size(self), &numbers);
    if (ret != 0) {
        return ret;
    }
    self->cut->links = numbers;
    self->cut->senders = self->cut->links + n_links;
    self->cut->receivers = self->cut->senders + n_flows;
    self->cut->last = self->cut->receivers + n_flows;
    self->cut->templates = self->cut->last + n_links + 2 * n_flows;
    self->cut->delays = self->cut->templates + self->transfers.n_templates;
    for (int64_t i = 0; i < n_parts; i++) {
        self->cut->delays[i] = ECC_NEVER;
    }
    ret = allocate(self, n_outboxes(self->cut) * sizeof(ecc_outbox_t), &outboxes);
    if (ret != 0) {
        return ret;
    }
    self->cut->outboxes = outboxes;
    for (size_t i = 0; i < n_outboxes(self->cut); i++) {
        ecc_cut_empty(&self->cut->outboxes[i]);
    }
    if (n_links > 0) {
        memcpy(self->cut->links, partition->links, n_links * sizeof(int64_t));
    }
    if (n_flows > 0) {
        memcpy(self->cut->senders, partition->senders, n_flows * sizeof(int64_t));
        memcpy(self->cut->receivers, partition->receivers, n_flows * sizeof(int64_t));
    }
    for (uint32_t i = 0; i < self->transfers.n_templates; i++) {
        self->cut->templates[i] = partition->templates[i];
        if (!allows_template(self, i)) {
            return fail(self, ECC_ENTITY_TRANSFER, self->n_flows + i, (double) self->cut->templates[i]);
        }
    }
    for (uint32_t flow = 0; flow < self->n_flows; flow++) {
        if (!allows_partition(self, flow)) {
            return fail(self, ECC_ENTITY_FLOW, flow, (double) self->cut->senders[flow]);
        }
    }
    return ecc_cut_reserve(self, self->room - self->n_flows);
}

void
ecc_cut_free(ecc_engine_t *self)
{
    void *block = self->cut;

    if (self->cut == NULL) {
        return;
    }
    for (size_t i = 0; i < n_outboxes(self->cut) && self->cut->outboxes != NULL; i++) {
        void *bytes = self->cut->outboxes[i].bytes;
        ecc_memory_release(&self->memory, self->cut->outboxes[i].room, &bytes);
    }
    ecc_memory_release(&self->memory, n_outboxes(self->cut) * sizeof(ecc_outbox_t), (void **) &self->cut->outboxes);
    ecc_memory_release(&self->memory, numbers_size(self), (void **) &self->cut->links);
    ecc_memory_release(&self->memory, self->cut->n_slots * sizeof(*self->cut->slots), (void **) &self->cut->slots);
    ecc_memory_release(&self->memory, self->cut->n_heads * sizeof(*self->cut->heads), (void **) &self->cut->heads);
    ecc_memory_release(&self->memory, sizeof(*self->cut), &block);
    self->cut = NULL;
}

/* ---- slots of transfers ---- */

static uint32_t *
head_of(const ecc_engine_t *self, int64_t number)
{
    return &self->cut->heads[(uint64_t) number & (self->cut->n_heads - 1)];
}

void
ecc_cut_join(ecc_engine_t *self, uint32_t slot)
{
    uint32_t *head = head_of(self, self->flows[self->n_flows + slot].number);

    self->cut->slots[slot] = (ecc_cut_slot_t) { .next = *head, .end = -1 };
    *head = slot;
    self->cut->n_passing += !ecc_cut_has_sender(self, self->n_flows + slot);
}

void
ecc_cut_leave(ecc_engine_t *self, uint32_t slot)
{
    uint32_t *link = head_of(self, self->flows[self->n_flows + slot].number);

    while (*link != slot) {
        link = &self->cut->slots[*link].next;
    }
    *link = self->cut->slots[slot].next;
    self->cut->n_passing -= !ecc_cut_has_sender(self, self->n_flows + slot);
}

/* The slot of the transfer with a number, or ECC_NO_SLOT. */
static uint32_t
find_slot(const ecc_engine_t *self, int64_t number)
{
    uint32_t slot = *head_of(self, number);

    while (slot != ECC_NO_SLOT && self->flows[self->n_flows + slot].number != number) {
        slot = self->cut->slots[slot].next;
    }
    return slot;
}

int
ecc_cut_reserve(ecc_engine_t *self, uint32_t n_slots)
{
    ecc_cut_t *cut = self->cut;
    uint32_t n_heads = 1;
    void *slots = cut->slots;
    void *heads = cut->heads;
    int ret;

    if (n_slots == 0) {
        return 0;
    }
    while (n_heads < n_slots) {
        n_heads *= 2;
    }
    ret = ecc_memory_resize(&self->memory, cut->n_slots * sizeof(*cut->slots), n_slots * sizeof(*cut->slots), &slots);
    cut->slots = slots;
    if (ret == 0) {
        cut->n_slots = n_slots;
        ret = ecc_memory_resize(
            &self->memory, cut->n_heads * sizeof(*cut->heads), n_heads * sizeof(*cut->heads), &heads);
        cut->heads = heads;
    }
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) n_slots);
    }
    cut->n_heads = n_heads;
    for (uint32_t i = 0; i < n_heads; i++) {
        cut->heads[i] = ECC_NO_SLOT;
    }
    for (uint32_t slot = 0; slot < self->transfers.n_slots; slot++) {
        if (self->flows[self->n_flows + slot].started) {
            uint32_t *head = head_of(self, self->flows[self->n_flows + slot].number);
            cut->slots[slot].next = *head;
            *head = slot;
        }
    }
    return 0;
}

/* Whether a transfer that passed left something behind: what departs silently is in a queue until then. */
static bool
is_queued(ecc_engine_t *self, const ecc_flow_state_t *flow)
{
    uint32_t n = self->transfers.templates[flow->template_index].length;
    bool found = false;

    for (uint32_t k = flow->position; k < flow->position + n && self->flow_queues != NULL; k++) {
        ecc_link_catch_up(self, &self->links[self->hops[k] >> ECC_HOP_LINK]);
        found = found || self->flow_queues[k] != 0;
    }
    return found;
}

bool
ecc_cut_free_slots(ecc_engine_t *self)
{
    uint32_t n_freed = 0;

    for (uint32_t slot = 0; slot < self->transfers.n_slots; slot++) {
        ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];
        if (flow->started && !ecc_cut_has_sender(self, self->n_flows + slot) && flow->n_packets == 0
            && !is_queued(self, flow)) {
            ecc_cut_leave(self, slot);
            ecc_transfers_free_slot(self, slot);
            n_freed++;
        }
    }
    return n_freed > self->transfers.n_slots / 4;
}

/* ---- what leaves ---- */

/* What a packet carries, into a body of zeros. */
static void
write_body(const ecc_engine_t *self, const ecc_packet_t *packet, unsigned char *to)
{
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];

    memcpy(to, ecc_packets_header(packet), self->ecn_offset);
    to += self->ecn_offset;
    if (self->wants_ecn) {
        ecc_ecn_t ecn = ecc_state_ecn(self, ecc_packets_header(packet));
        memcpy(to, &ecn, sizeof(ecn));
        to += sizeof(ecn);
    }
    if (flow->needs_receiver || flow->reliable) {
        int64_t words[] = { info->front, flow->reliable ? 0 : info->missing };
        memcpy(to, words, sizeof(words));
        if (flow->uses_sack) {
            memcpy(to + sizeof(words), ecc_sacks_at(&self->sacks, info->sack), sizeof(ecc_sack_t));
        }
    }
}

/* The other way; has_sack: it may have one. */
static int
read_body(ecc_engine_t *self, const ecc_packet_t *packet, const unsigned char *from, bool has_sack)
{
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];

    memcpy(ecc_packets_header(packet), from, self->ecn_offset);
    from += self->ecn_offset;
    if (self->wants_ecn) {
        ecc_ecn_t ecn;
        memcpy(&ecn, from, sizeof(ecn));
        from += sizeof(ecn);
        if (ecn.codepoint < ECC_NOT_ECT || ecn.codepoint > ECC_CE || ecn.word < 0 || ecn.word > ECC_ARCHIVE_MAX) {
            return ECC_ERR_CROSSING;
        }
        ecc_state_set_ecn(self, ecc_packets_header(packet), ecn);
    }
    if (self->wants_acks) {
        int64_t words[2];
        memcpy(words, from, sizeof(words));
        info->front = words[0];
        info->missing = words[1];
        if (flow->uses_sack) {
            ecc_sack_t sack = { 0 };
            if (has_sack) {
                memcpy(&sack, from + sizeof(words), sizeof(sack));
            }
            return ecc_sacks_keep(&self->sacks, &self->memory, &sack, &info->sack);
        }
    }
    return 0;
}

/* Appends a crossing for a part; without a packet, zeros follow. */
static int
append(ecc_engine_t *self, int64_t part, const ecc_crossing_t *crossing, uint32_t index, const ecc_packet_t *packet)
{
    ecc_outbox_t *outbox = ecc_cut_outbox(self, part);
    size_t size = crossing_size(self);
    unsigned char *to;

    if (outbox->size + size > outbox->room) {
        size_t room = 2 * outbox->room + FIRST_ROOM + size;
        void *bytes = outbox->bytes;
        int ret = ecc_memory_resize(&self->memory, outbox->room, room, &bytes);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_FLOW, crossing->flow, ECC_NO_HOOK, (double) room);
        }
        outbox->bytes = bytes;
        outbox->room = room;
    }
    to = outbox->bytes + outbox->size;
    outbox->size += size;
    memset(to, 0, size);
    memcpy(to, crossing, sizeof(*crossing));
    if (packet != NULL) {
        write_body(self, packet, to + sizeof(*crossing));
    }
    if (self->transfers.n_templates > 0) {
        const ecc_flow_state_t *flow = &self->flows[index];
        passing_t passing = { -1, 0 };
        if (index >= self->n_flows) {
            passing = (passing_t) { flow->template_index, flow->ack_delay };
        }
        memcpy(to + sizeof(*crossing) + ecc_cut_body_size(self), &passing, sizeof(passing));
    }
    return 0;
}

static int
leave(ecc_engine_t *self, int64_t part, uint32_t id, int64_t hop, ecc_ps_t time)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = packet->flow;
    ecc_crossing_t crossing = { time, packet->sent, packet->offset, packet->size, ecc_state_number(self, index), hop };
    ecc_outbox_t *outbox = ecc_cut_outbox(self, part);
    int ret = append(self, part, &crossing, index, packet);

    if (ret != 0) {
        return ret;
    }
    if (index >= self->n_flows) {
        self->flows[index].n_packets--;
        self->cut->slots[index - self->n_flows].n_away += ecc_cut_has_sender(self, index);
    }
    outbox->first_arrival = time < outbox->first_arrival ? time : outbox->first_arrival;
    ecc_flow_release(self, id);
    return 0;
}

int
ecc_cut_report_discarded(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_crossing_t crossing = { .time = self->now, .flow = flow->number, .hop = n_hops(flow->spec) + 1 };

    return append(self, ecc_cut_sender(self, index), &crossing, index, NULL);
}

bool
ecc_cut_leaves_by_wire(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = packet->flow;
    int64_t part = part_behind_wire(self, index, packet->position);
    int64_t hop = packet->position - self->flows[index].position;

    hop += hop < n_hops(self->flows[index].spec) ? 0 : AFTER_ACKS;
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
    int64_t part = ecc_cut_sender(self, index);

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
    outbox = ecc_cut_outbox(self, part);
    size = outbox->size;
    if (buffer != NULL && size > 0) {
        memcpy(buffer, outbox->bytes, size);
        ecc_cut_empty(outbox);
    }
    return (int64_t) size;
}

void
ecc_cut_hand_over(ecc_engine_t *self, int64_t part, uint32_t number)
{
    ecc_outbox_t *outbox = ecc_cut_outbox(self, part);
    ecc_outbox_t *batch = ecc_cut_batch(self, part, number);
    ecc_outbox_t read = *batch;

    *batch = *outbox;
    *outbox = read;
    ecc_cut_empty(outbox);
}

ecc_ps_t
ecc_cut_lookahead(const ecc_engine_t *self)
{
    ecc_ps_t least = ECC_NEVER;

    for (int64_t part = 0; self->cut != NULL && part < self->cut->n_parts; part++) {
        least = self->cut->delays[part] < least ? self->cut->delays[part] : least;
    }
    return least;
}

/* ---- what enters ---- */

/* Where a packet is then, in the table of hops; on its pure delay, as the ACK of the last link of its way. */
static uint32_t
position_of(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    const ecc_flow_state_t *flow = &self->flows[crossing->flow];

    if (is_wire(self, (uint32_t) crossing->flow, crossing->hop)) {
        return flow->position + relative(flow->spec, crossing->hop);
    }
    return flow->position + (uint32_t) (crossing->hop == ON_ACCESS ? 0 : n_hops(flow->spec) - 1);
}

/* Whether it is an ACK that says of data what has come; an immediate ACK is data until it is at the sender (S-33). */
static bool
is_ack(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    const ecc_flow_t *spec = self->flows[crossing->flow].spec;

    return crossing->hop >= spec->n_forward && crossing->hop <= n_hops(spec)
        && !self->flows[crossing->flow].immediate_ack;
}

/* A control packet of a receiver (S-129). */
static bool
is_control(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    return crossing->size < 0 && crossing->size >= -ECC_MAX_PACKET_SIZE && crossing->offset >= 0
        && crossing->offset <= ECC_MAX_CONTROL_KIND && is_ack(self, crossing)
        && self->flows[crossing->flow].spec->on_control != NULL;
}

/* A trimmed packet, or its ACK (S-134). */
static bool
is_trimmed(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    return crossing->hop != ON_ACCESS && crossing->size > INT32_MIN && ecc_packets_is_trimmed(crossing->size)
        && self->flows[crossing->flow].spec->trimmed_size > 0;
}

/* The numbers of a crossing, whose flow is its index here, and that it comes over a cut (S-123). */
static bool
is_crossing(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    ecc_ps_t earliest = self->stop == ECC_STOP_NOT_YET ? 0 : self->now + 1;
    const ecc_flow_state_t *flow = &self->flows[crossing->flow];
    /* by the clock of its sender, which another machine may have */
    ecc_ps_t last_sent = ecc_cut_has_sender(self, (uint32_t) crossing->flow) ? crossing->time : ECC_NEVER;

    bool on_wire = is_wire(self, (uint32_t) crossing->flow, crossing->hop);

    return (on_wire || crossing->hop == ON_ACCESS || crossing->hop == n_hops(flow->spec))
        && !(on_wire && ends_with_ack(self, flow->position + relative(flow->spec, crossing->hop)))
        && part_before(self, (uint32_t) crossing->flow, crossing->hop) != self->cut->part
        && part_after(self, (uint32_t) crossing->flow, crossing->hop) == self->cut->part && crossing->time >= earliest
        && crossing->time <= ECC_NEVER && crossing->sent >= 0 && crossing->sent <= last_sent
        && (is_control(self, crossing)
            || (((crossing->size >= 1 && crossing->size <= ECC_MAX_PACKET_SIZE) || is_trimmed(self, crossing))
                && crossing->offset >= 0
                && crossing->offset <= ecc_cut_most_sent(self, (uint32_t) crossing->flow)
                        - ecc_packets_data((int32_t) crossing->size)));
}

bool
ecc_cut_is_report(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_range_t *sacks = flow->uses_sack ? ecc_sacks_at(&self->sacks, info->sack)->blocks : ecc_sacks_none.blocks;
    int64_t most = ecc_cut_most_sent(self, packet->flow);
    bool valid = info->front >= 0 && info->front <= most
        && (flow->reliable || (info->missing >= 0 && info->missing <= info->front));

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
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
        ecc_ecn_t ecn = ecc_state_ecn(self, ecc_packets_header(packet));
        valid = ecc_ecn_verify(self, packet->flow, &ecn, is_ack(self, crossing)) == 0;
    }
    if (is_ack(self, crossing)) {
        return valid
            && (is_control(self, crossing) || (!flow->needs_receiver && !flow->reliable)
                || ecc_cut_is_report(self, packet));
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
        *last = index < self->n_flows ? &self->cut->last[self->n_links + self->n_flows + index]
                                      : &self->cut->slots[index - self->n_flows].last;
        return &flow->acks;
    }
    link = self->hops[position_of(self, crossing)] >> ECC_HOP_LINK;
    *channel = self->links[link].channel;
    *node = self->base[ECC_EVENT_HOP] + link;
    *last = &self->cut->last[link];
    return &self->links[link].wire;
}

/* Who a crossing is of, here; a transfer that comes to pass takes a slot. */
static int
find_flow(ecc_engine_t *self, const ecc_crossing_t *crossing, passing_t passing, uint32_t *index)
{
    ecc_transfers_t *transfers = &self->transfers;
    const ecc_flow_state_t *flow;
    bool is_here;
    uint32_t slot;
    int ret = 0;

    *index = (uint32_t) crossing->flow;
    if (crossing->flow >= 0 && crossing->flow < self->n_flows) {
        return passing.template_index == -1 ? 0 : ECC_ERR_CROSSING;
    }
    if (crossing->flow < 0 || crossing->flow >= self->n_flows + transfers->n_added || passing.template_index < 0
        || passing.template_index >= transfers->n_templates || passing.ack_delay < 0
        || passing.ack_delay > ECC_MAX_DELAY) {
        return ECC_ERR_CROSSING;
    }
    is_here = ecc_cut_has_template(self, passing.template_index);
    slot = find_slot(self, crossing->flow);
    if (slot == ECC_NO_SLOT) {
        ret = is_here
            ? ECC_ERR_CROSSING
            : ecc_transfers_let_pass(self, (uint32_t) passing.template_index, crossing->flow, passing.ack_delay, &slot);
    }
    if (ret != 0) {
        return ret;
    }
    *index = self->n_flows + slot;
    flow = &self->flows[*index];
    return flow->template_index == passing.template_index && flow->ack_delay == passing.ack_delay
            && (!is_here || self->cut->slots[slot].n_away > 0)
        ? 0
        : ECC_ERR_CROSSING;
}

/* Another part has discarded a packet of a transfer whose sender is here. */
static int
enter_discarded(ecc_engine_t *self, const ecc_crossing_t *crossing, ecc_ps_t latest)
{
    if (!ecc_cut_has_sender(self, (uint32_t) crossing->flow) || crossing->time < 0 || crossing->time > latest) {
        return ECC_ERR_CROSSING;
    }
    self->cut->slots[crossing->flow - self->n_flows].n_away--;
    ecc_flow_finish_if_done(self, (uint32_t) crossing->flow, crossing->time);
    return 0;
}

/* One packet enters, its flow being its index here. */
static int
enter_packet(ecc_engine_t *self, const ecc_crossing_t *crossing, const unsigned char *body)
{
    ecc_flow_state_t *flow = &self->flows[crossing->flow];
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
    if (crossing->time < *last && (channel == NULL || channel->spec->reorders == 0)) {
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
    ret = read_body(self, packet, body, is_ack(self, crossing) && !is_control(self, crossing));
    if (ret != 0) {
        ecc_packets_release(&self->packets, id);
        return ret;
    }
    if (!is_body(self, crossing, packet)) {
        ret = ECC_ERR_CROSSING;
    } else if (channel != NULL) {
        ret = ecc_channel_append(channel, &self->memory, &self->packets, list, &self->fast, node, id, crossing->time);
    } else if (ecc_packets_append(&self->packets, list, id, crossing->time)) {
        ecc_calendar_insert(&self->fast, node, crossing->time);
    }
    if (ret != 0) {
        ecc_flow_release(self, id);
        return ret;
    }
    *last = crossing->time;
    if (crossing->flow >= self->n_flows) {
        flow->n_packets++;
        self->cut->slots[crossing->flow - self->n_flows].n_away -= ecc_cut_has_sender(self, (uint32_t) crossing->flow);
    }
    return 0;
}

static int
enter(ecc_engine_t *self, const ecc_crossing_t *crossing, const unsigned char *body, ecc_ps_t latest)
{
    ecc_crossing_t here = *crossing;
    passing_t passing = { -1, 0 };
    uint32_t index;
    int ret;

    if (self->transfers.n_templates > 0) {
        memcpy(&passing, body + ecc_cut_body_size(self), sizeof(passing));
    }
    ret = find_flow(self, crossing, passing, &index);
    if (ret != 0) {
        return ret;
    }
    here.flow = index;
    return index >= self->n_flows && crossing->hop == n_hops(self->flows[index].spec) + 1
        ? enter_discarded(self, &here, latest)
        : enter_packet(self, &here, body);
}

int
ecc_cut_enter(ecc_engine_t *self, const unsigned char *bytes, size_t size, ecc_ps_t latest)
{
    size_t each = crossing_size(self);
    int ret = self->cut == NULL || size % each != 0 ? ECC_ERR_CROSSING : 0;
    size_t at = 0;

    if (self->stop == ECC_STOP_ERROR) { /* what has failed half-way may not have its room */
        return (int) self->report.code;
    }
    while (ret == 0 && at < size) {
        ecc_crossing_t crossing;
        memcpy(&crossing, bytes + at, sizeof(crossing));
        ret = enter(self, &crossing, bytes + at + sizeof(crossing), latest);
        at += ret == 0 ? each : 0;
    }
    self->stop = ret == 0 || ret == ECC_ERR_CROSSING ? self->stop : ECC_STOP_ERROR;
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) (at / each));
}
