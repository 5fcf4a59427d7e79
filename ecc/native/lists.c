#include "lists.h"

#include "config.h"

static bool
is_known(const ecc_transport_t *transport, int64_t received, const ecc_range_t *range)
{
    int64_t begin = range->begin > received ? range->begin : received;

    return range->begin >= 0
        && (begin >= range->end || ecc_ranges_within(&transport->held, begin, range->end) == range->end - begin);
}

/* What an ACK says: nothing that its receiver does not know. */
static void
move_news(ecc_tape_t *tape, const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_news_t *news = ecc_state_news(self, packet);
    ecc_range_t *sacks = (ecc_range_t *) (void *) (news + 1);

    ecc_tape_whole(tape, &news->front, 0, flow->repairs ? flow->received : flow->sent);
    ecc_tape_whole(tape, &news->missing, 0, flow->repairs ? 0 : news->front);
    for (uint32_t k = 0; k < ECC_MOST_SACKS && flow->repairs && self->transports[packet->flow].sacks; k++) {
        ECC_TAPE_MOVE(tape, sacks[k]);
        ecc_tape_require(tape, is_known(&self->transports[packet->flow], flow->received, &sacks[k]));
    }
}

uint32_t
ecc_lists_packet(
    ecc_tape_t *tape, ecc_engine_t *self, uint32_t index, uint32_t id, uint32_t position, enum ecc_lists_stage stage)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_packet_t *packet;

    if (ecc_tape_reads(tape)) {
        tape->ret = ecc_packets_take(&self->packets, &self->memory, &id);
    }
    if (tape->ret != 0) {
        return ECC_NO_PACKET;
    }
    packet = ecc_packets_at(&self->packets, id);
    if (ecc_tape_reads(tape)) {
        packet->flow = index;
        packet->position = position;
        flow->n_packets += index >= self->n_flows;
    }
    ecc_tape_whole(tape, &packet->sent, 0, self->now);
    ecc_tape_int(tape, &packet->size, 1, ECC_LARGEST_PACKET);
    ecc_tape_whole(tape, &packet->offset, 0, flow->sent - (flow->repairs ? flow->lost : 0) - packet->size);
    ecc_tape_move(tape, ecc_packets_header(packet), self->header_size);
    if (stage == ECC_LISTS_ACK && (flow->counts || flow->repairs)) {
        move_news(tape, self, packet);
    }
    if (stage == ECC_LISTS_DATA && ecc_tape_reads(tape)) {
        tape->arrived[index] += packet->size;
        ecc_tape_require(tape, flow->repairs || tape->arrived[index] <= flow->sent);
    }
    return id;
}

/* A packet in the queue or on the wire of a link. */
static uint32_t
move_on_link(ecc_tape_t *tape, ecc_engine_t *self, uint32_t link, uint32_t id, bool is_queued)
{
    const ecc_packet_t *packet = ecc_tape_reads(tape) || tape->ret != 0 ? NULL : ecc_packets_at(&self->packets, id);
    uint32_t index = packet == NULL ? 0 : packet->flow;
    uint32_t position = packet == NULL ? 0 : packet->position;
    const ecc_flow_state_t *flow;
    uint32_t hop;

    ecc_tape_index(tape, &index, self->n_flows + self->pool.n_slots);
    ecc_tape_index(tape, &position, (uint32_t) self->n_hops);
    if (tape->ret != 0) {
        return ECC_NO_PACKET;
    }
    flow = &self->flows[index];
    hop = self->hops[position];
    ecc_tape_require(tape,
        flow->started && hop >> ECC_HOP_LINK == link && position >= flow->position
            && position - flow->position < flow->is->n_forward + flow->is->n_reverse);
    ecc_tape_require(tape, is_queued || (hop & ECC_HOP_END) == ECC_END_LINK || (hop & ECC_HOP_END) == ECC_END_HOST);
    return ecc_lists_packet(
        tape, self, index, id, position, (hop & ECC_HOP_IS_ACK) != 0 ? ECC_LISTS_ACK : ECC_LISTS_DATA);
}

/* A packet that leaves its list at `time`. */
static uint32_t
move_in_list(ecc_tape_t *tape, ecc_engine_t *self, enum ecc_lists_kind kind, uint32_t index, uint32_t id, ecc_ps_t time)
{
    const ecc_flow_state_t *flow;
    bool is_echo;

    if (kind == ECC_LISTS_WIRE) {
        return move_on_link(tape, self, index, id, false);
    }
    /* an ACK that is sent straight back stands for its packet until that has come */
    flow = &self->flows[index];
    is_echo = kind == ECC_LISTS_ACKS && flow->echoes && time - flow->ack_delay > self->now;
    return ecc_lists_packet(
        tape, self, index, id, flow->position, kind == ECC_LISTS_ACKS && !is_echo ? ECC_LISTS_ACK : ECC_LISTS_DATA);
}

static uint32_t
node_of(const ecc_engine_t *self, enum ecc_lists_kind kind, uint32_t index)
{
    return self->base[kind == ECC_LISTS_WIRE ? ECC_HOP : kind == ECC_LISTS_ACCESS ? ECC_ACCESS : ECC_ACK] + index;
}

/* Packets that come in their order: the first when its node says, any other when the one before it says. */
static void
move_fifo(ecc_tape_t *tape, ecc_engine_t *self, enum ecc_lists_kind kind, uint32_t index, ecc_fifo_t *fifo)
{
    uint32_t node = node_of(self, kind, index);
    ecc_ps_t time = self->fast.nodes[node].time;
    ecc_ps_t last = self->now;
    uint32_t id = fifo->head;
    uint32_t count = 0;

    for (uint32_t each = id; each != ECC_NO_PACKET; each = ecc_packets_at(&self->packets, each)->next) {
        count++;
    }
    count = ecc_tape_count(tape, count, sizeof(ecc_packet_t) / 2);
    for (uint32_t k = 0; k < count && tape->ret == 0; k++) {
        ecc_tape_whole(tape, &time, last, ECC_NEVER);
        last = time;
        id = move_in_list(tape, self, kind, index, id, time);
        if (ecc_tape_reads(tape)) {
            if (ecc_packets_append(&self->packets, fifo, id, time)) {
                ecc_calendar_insert(&self->fast, node, time);
            }
        } else if (tape->ret == 0) {
            time = ecc_packets_at(&self->packets, id)->next_time;
            id = ecc_packets_at(&self->packets, id)->next;
        }
    }
}

/* Packets that may overtake each other. */
static void
move_heap(ecc_tape_t *tape, ecc_engine_t *self, enum ecc_lists_kind kind, uint32_t index, ecc_impaired_t *impaired)
{
    size_t room = impaired->room;
    void *block = impaired->late;
    uint32_t count = ecc_tape_count(tape, impaired->n_late, sizeof(ecc_packet_t) / 2);

    ecc_tape_make_room(tape, &self->memory, sizeof(*impaired->late), count, &room, &block);
    impaired->late = block;
    impaired->room = (uint32_t) room;
    for (uint32_t k = 0; k < count && tape->ret == 0; k++) {
        ecc_late_t *late = &impaired->late[k];
        ecc_tape_whole(tape, &late->time, self->now, ECC_NEVER);
        ECC_TAPE_MOVE(tape, late->order);
        ecc_tape_require(tape, late->order < impaired->n_joined);
        late->packet = move_in_list(tape, self, kind, index, late->packet, late->time);
        impaired->n_late = ecc_tape_reads(tape) ? k + 1 : impaired->n_late;
    }
    if (ecc_tape_reads(tape) && count > 0) {
        ecc_calendar_insert(&self->fast, node_of(self, kind, index), impaired->late[0].time);
    }
}

void
ecc_lists_way(ecc_tape_t *tape, ecc_engine_t *self, enum ecc_lists_kind kind, uint32_t index, ecc_fifo_t *fifo,
    ecc_impaired_t *impaired)
{
    if (impaired != NULL) {
        int64_t most = impaired->is.spike_every_hi;
        ECC_TAPE_MOVE(tape, impaired->random);
        ecc_tape_whole(tape, &impaired->until_spike, most > 0, most);
        ecc_tape_whole(tape, &impaired->free_at, 0, ECC_NEVER);
        ecc_tape_whole(tape, &impaired->last_out, 0, ECC_NEVER);
        ECC_TAPE_MOVE(tape, impaired->n_joined);
    }
    if (impaired != NULL && impaired->is.reorders != 0) {
        move_heap(tape, self, kind, index, impaired);
    } else {
        move_fifo(tape, self, kind, index, fifo);
    }
}

void
ecc_lists_queue(ecc_tape_t *tape, ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_ps_t last = link->departs ? self->now : self->now + 1; /* what leaves silently by now has left */
    uint32_t count = ecc_tape_count(tape, link->ring.count, sizeof(ecc_queued_t) / 2);

    for (uint32_t k = 0; k < count && tape->ret == 0; k++) {
        ecc_queued_t item = ecc_tape_reads(tape) ? (ecc_queued_t) { 0 } : *ecc_ring_at(&link->ring, k);
        ecc_tape_whole(tape, &item.leaves, last, ECC_NEVER);
        last = item.leaves;
        ecc_tape_int(tape, &item.size, 1, ECC_LARGEST_PACKET + ECC_MOST_HEADER_BYTES);
        if (link->departs) {
            item.packet = move_on_link(tape, self, index, item.packet, true);
            item.position = tape->ret == 0 ? ecc_packets_at(&self->packets, item.packet)->position : 0;
        } else {
            ecc_tape_index(tape, &item.position, (uint32_t) self->n_hops);
            ecc_tape_require(tape, tape->ret == 0 && self->hops[item.position] >> ECC_HOP_LINK == index);
        }
        if (ecc_tape_reads(tape)) {
            link->queue += item.size;
            link->free_at = item.leaves;
            if (self->flow_queues != NULL) {
                self->flow_queues[item.position] += item.size;
            }
            tape->ret = ecc_ring_append(&link->ring, &self->memory, item);
        }
    }
    if (ecc_tape_reads(tape) && link->departs && count > 0) {
        ecc_calendar_insert(&self->fast, self->base[ECC_DEPARTURE] + index, ecc_ring_at(&link->ring, 0)->leaves);
    }
}
