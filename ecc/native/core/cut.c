/*
 * The partition of a network as one engine has it (S-121, S-122): links, senders and receivers by part, the positions
 * of packets on their way to another part, and the slots of transfers that pass.
 *
 * Not here: whether a partition is allowed (partition.c), and packets that leave (crossing.c) and enter (enter.c).
 */

#include "core/cut.h"

#include <string.h>

#include "core/spray.h"

/* Whether a crossing is on a wire. */
bool
ecc_cut_is_wire(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;

    return (hop >= 0 && hop < ecc_cut_n_hops(spec))
        || (hop >= ecc_cut_n_hops(spec) + ECC_CUT_AFTER_ACKS && hop <= (int64_t) self->n_hops
            && ecc_spray_has(self, flow, self->flows[flow].position + ecc_cut_relative(spec, hop)));
}

/* ---- the partition ---- */

/* The part that has the end of a wire. */
int64_t
ecc_cut_part_behind_wire(const ecc_engine_t *self, uint32_t flow, uint32_t position)
{
    uint32_t hop = self->hops[position];

    if ((hop & ECC_HOP_END) == ECC_END_LINK) {
        return self->cut->links[self->hops[position + 1] >> ECC_HOP_LINK];
    }
    return (hop & ECC_HOP_END) == ECC_END_HOST && (hop & ECC_HOP_IS_ACK) == 0 ? ecc_cut_receiver(self, flow)
                                                                              : ecc_cut_sender(self, flow);
}

/* The part that puts packets on an access line, on the wire of a link of the route, or on the pure delay. */
int64_t
ecc_cut_part_before(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    uint32_t position = self->flows[flow].position;

    if (hop == ECC_CUT_ON_ACCESS) {
        return ecc_cut_sender(self, flow);
    }
    if (ecc_cut_is_wire(self, flow, hop)) {
        return self->cut->links[self->hops[position + ecc_cut_relative(spec, hop)] >> ECC_HOP_LINK];
    }
    if (ecc_cut_ends_with_ack(self, position + (uint32_t) ecc_cut_n_hops(spec) - 1)) {
        return self->cut->links[self->hops[position + ecc_cut_n_hops(spec) - 1] >> ECC_HOP_LINK];
    }
    return spec->n_reverse > 0 ? ecc_cut_sender(self, flow) : ecc_cut_receiver(self, flow);
}

/* The part that has the end of an access line, a wire or the pure delay. */
int64_t
ecc_cut_part_after(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    uint32_t position = self->flows[flow].position;

    if (hop == ECC_CUT_ON_ACCESS) {
        return self->cut->links[self->hops[position] >> ECC_HOP_LINK];
    }
    return ecc_cut_is_wire(self, flow, hop)
        ? ecc_cut_part_behind_wire(self, flow, position + ecc_cut_relative(self->flows[flow].spec, hop))
        : ecc_cut_sender(self, flow);
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
    if (self->transfers.n_templates > 0) {
        memcpy(self->cut->templates, partition->templates, self->transfers.n_templates * sizeof(int64_t));
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
    for (size_t i = 0; i < n_outboxes(self->cut) && self->cut->outboxes != NULL; i++) {
        void *bytes = self->cut->outboxes[i].bytes;
        ecc_memory_release(&self->memory, self->cut->outboxes[i].room, &bytes);
    }
    ecc_memory_release(&self->memory, n_outboxes(self->cut) * sizeof(ecc_outbox_t), (void **) &self->cut->outboxes);
    ecc_memory_release(&self->memory, numbers_size(self), (void **) &self->cut->links);
    ecc_memory_release(&self->memory, self->cut->n_slots * sizeof(*self->cut->slots), (void **) &self->cut->slots);
    ecc_memory_release(&self->memory, self->cut->wire_entries_room * sizeof(*self->cut->wire_entries),
        (void **) &self->cut->wire_entries);
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
uint32_t
ecc_cut_find_slot(const ecc_engine_t *self, int64_t number)
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

bool
ecc_cut_is_report(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_range_t *sacks = flow->uses_sack ? ecc_sacks_at(&self->sacks, info->sack)->blocks : ecc_sacks_none.blocks;
    int64_t most = flow->has_quic ? ecc_cut_most_numbers(self, packet->flow) : ecc_cut_most_sent(self, packet->flow);
    bool valid = info->front >= 0 && info->front <= most
        && (flow->reliable || (info->missing >= 0 && info->missing <= info->front));

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        valid = valid && sacks[k].begin >= 0 && sacks[k].begin <= sacks[k].end && sacks[k].end <= most;
    }
    return valid;
}
