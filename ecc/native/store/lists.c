/*
 * The packets of a checkpoint. Every value is bounded by values of flows and links that were read before: an offset by
 * the bytes sent, a time by the clock, an ACK by the state of its receiver.
 *
 * Not here: the counters of flows and links (saved_flows.c, saved_links.c).
 */

#include "store/lists.h"

#include "core/config.h"
#include "core/cut.h"
#include "core/spray.h"
#include "link/link.h"
#include "link/scheduler.h"
#include "host/ecn.h"

static bool
is_known(const ecc_transport_t *transport, int64_t received, const ecc_range_t *range)
{
    int64_t begin = range->begin > received ? range->begin : received;

    return range->begin >= 0
        && (begin >= range->end || ecc_ranges_within(&transport->held, begin, range->end) == range->end - begin);
}

/* Moves the report of an ACK of a transport of type 4, whose packet numbers the receiver has received. */
static void
move_packet_numbers(ecc_archive_t *archive, ecc_engine_t *self, const ecc_packet_t *packet)
{
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    ecc_sack_t sack = *(ecc_archive_writes(archive) ? ecc_sacks_at(&self->sacks, info->sack) : &ecc_sacks_none);
    int64_t delay = info->ack_delay;

    ecc_archive_whole(archive, &delay, 0, UINT32_MAX);
    info->ack_delay = (uint32_t) delay;
    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        ECC_ARCHIVE_MOVE(archive, sack.blocks[k]);
        ecc_archive_require(archive,
            sack.blocks[k].begin >= 0 && sack.blocks[k].begin <= sack.blocks[k].end
                && sack.blocks[k].end <= ecc_cut_most_numbers(self, packet->flow));
    }
    if (ecc_archive_reads(archive)) {
        archive->ret = ecc_sacks_keep(&self->sacks, &self->memory, &sack, &info->sack);
    }
}

/* Moves the report of an ACK, which must agree with its receiver. */
static void
move_ack_info(ecc_archive_t *archive, ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    bool is_here = ecc_cut_has_receiver(self, packet->flow);
    int64_t most = flow->reliable && is_here ? flow->received : ecc_cut_most_sent(self, packet->flow);

    ecc_archive_whole(archive, &info->front, 0, most);
    if (!flow->reliable) {
        ecc_archive_whole(archive, &info->missing, 0, info->front);
    }
    if (flow->uses_sack) {
        ecc_sack_t sack = *(ecc_archive_writes(archive) ? ecc_sacks_at(&self->sacks, info->sack) : &ecc_sacks_none);
        for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
            ECC_ARCHIVE_MOVE(archive, sack.blocks[k]);
            ecc_archive_require(
                archive, !is_here || is_known(&self->transports[packet->flow], flow->received, &sack.blocks[k]));
        }
        if (ecc_archive_reads(archive)) {
            archive->ret = ecc_sacks_keep(&self->sacks, &self->memory, &sack, &info->sack);
        }
    }
    ecc_archive_require(archive, is_here || archive->ret != 0 || ecc_cut_is_report(self, packet));
}

static void
move_ecn(ecc_archive_t *archive, const ecc_engine_t *self, const ecc_packet_t *packet, bool is_ack)
{
    unsigned char *header = ecc_packets_header(packet);
    ecc_ecn_t ecn = ecc_archive_writes(archive) ? ecc_state_ecn(self, header) : (ecc_ecn_t) { 0 };

    ECC_ARCHIVE_MOVE(archive, ecn);
    ecc_archive_require(archive, ecc_ecn_verify(self, packet->flow, &ecn, is_ack) == 0);
    if (ecc_archive_reads(archive)) {
        ecc_state_set_ecn(self, header, ecn);
    }
}

uint32_t
ecc_lists_packet(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index, uint32_t id, uint32_t position,
    enum ecc_lists_stage stage)
{
    ecc_flow_state_t *flow = &self->flows[index];
    bool may_be_trimmed = stage != ECC_LISTS_DELAYED && flow->spec->trimmed_size > 0;
    bool may_be_control = stage == ECC_LISTS_ACK && flow->spec->on_control != NULL && flow->spec->on_receive != NULL;
    ecc_packet_t *packet;
    bool is_control;
    bool is_trimmed;

    if (ecc_archive_reads(archive)) {
        archive->ret = ecc_packets_allocate(&self->packets, &self->memory, &id);
    }
    if (archive->ret != 0) {
        return ECC_NO_PACKET;
    }
    packet = ecc_packets_at(&self->packets, id);
    if (ecc_archive_reads(archive)) {
        packet->flow = index;
        packet->position = position;
        flow->n_packets += index >= self->n_flows;
    }
    ecc_archive_whole(archive, &packet->sent, -ECC_NEVER, self->now);
    ecc_archive_int(archive, &packet->size,
        may_be_trimmed       ? INT32_MIN + 1
            : may_be_control ? -ECC_MAX_PACKET_SIZE
                             : 1,
        ECC_MAX_PACKET_SIZE);
    is_trimmed = archive->ret == 0 && ecc_packets_is_trimmed(packet->size);
    is_control = archive->ret == 0 && packet->size < 0 && !is_trimmed;
    ecc_archive_require(archive, packet->size != 0 && (!is_control || may_be_control));
    ecc_archive_whole(archive, &packet->offset, 0,
        is_control ? ECC_MAX_CONTROL_KIND : ecc_cut_most_sent(self, index) - ecc_packets_data(packet->size));
    ecc_archive_move(archive, ecc_packets_header(packet), self->ecn_offset);
    if (self->wants_ecn) {
        move_ecn(archive, self, packet, stage == ECC_LISTS_ACK);
    }
    if (flow->uses_sack && ecc_archive_reads(archive)) {
        ecc_state_ack_info(self, packet)->sack = ECC_NO_SACK;
    }
    if (flow->has_quic && !is_control) {
        ecc_archive_whole(archive, &ecc_state_ack_info(self, packet)->front, 0, ecc_cut_most_numbers(self, index) - 1);
    }
    if (flow->has_quic && !is_control && stage == ECC_LISTS_ACK) {
        move_packet_numbers(archive, self, packet);
    } else if (stage == ECC_LISTS_ACK && !is_control && (flow->needs_receiver || flow->reliable)) {
        move_ack_info(archive, self, packet);
    }
    if (stage == ECC_LISTS_DATA && flow->needs_receiver && !flow->has_quic) {
        ecc_archive_whole(archive, &ecc_state_ack_info(self, packet)->front, 0, packet->offset);
    }
    if (stage == ECC_LISTS_DATA && ecc_archive_reads(archive)) {
        archive->arrived[index] += ecc_packets_data(packet->size);
        ecc_archive_require(archive, flow->reliable || archive->arrived[index] <= ecc_cut_most_sent(self, index));
    }
    return id;
}

/* Moves a packet in the queue or on the wire of a link. */
static uint32_t
move_on_link(ecc_archive_t *archive, ecc_engine_t *self, uint32_t link, uint32_t id, bool is_queued)
{
    const ecc_packet_t *packet = ecc_archive_writes(archive) ? ecc_packets_at(&self->packets, id) : NULL;
    uint32_t index = packet == NULL ? 0 : packet->flow;
    uint32_t position = packet == NULL ? 0 : packet->position;
    const ecc_flow_state_t *flow;
    uint32_t hop;

    ecc_archive_index(archive, &index, self->n_flows + self->transfers.n_slots);
    ecc_archive_index(archive, &position, (uint32_t) self->n_hops);
    if (archive->ret != 0) {
        return ECC_NO_PACKET;
    }
    flow = &self->flows[index];
    hop = self->hops[position];
    ecc_archive_require(archive,
        (flow->started || (index < self->n_flows && !ecc_cut_has_sender(self, index))) && hop >> ECC_HOP_LINK == link
            && ecc_spray_has(self, index, position));
    ecc_archive_require(
        archive, is_queued || (hop & ECC_HOP_END) == ECC_END_LINK || (hop & ECC_HOP_END) == ECC_END_HOST);
    return ecc_lists_packet(
        archive, self, index, id, position, (hop & ECC_HOP_IS_ACK) != 0 ? ECC_LISTS_ACK : ECC_LISTS_DATA);
}

/* Moves a packet that leaves its list at `time`. */
static uint32_t
move_in_list(
    ecc_archive_t *archive, ecc_engine_t *self, enum ecc_lists_list list, uint32_t index, uint32_t id, ecc_ps_t time)
{
    const ecc_flow_state_t *flow;
    bool is_data;

    if (list == ECC_LISTS_WIRE) {
        return move_on_link(archive, self, index, id, false);
    }
    /* an immediate ACK takes the place of its packet until that has been received (S-33) */
    flow = &self->flows[index];
    is_data = list == ECC_LISTS_ACKS && flow->immediate_ack && archive->ret == 0 && time - flow->ack_delay > self->now;
    return ecc_lists_packet(
        archive, self, index, id, flow->position, list == ECC_LISTS_ACKS && !is_data ? ECC_LISTS_ACK : ECC_LISTS_DATA);
}

static uint32_t
node_of(const ecc_engine_t *self, enum ecc_lists_list list, uint32_t index)
{
    return self->base[list == ECC_LISTS_WIRE  ? ECC_EVENT_HOP
                   : list == ECC_LISTS_ACCESS ? ECC_EVENT_ACCESS
                                              : ECC_EVENT_ACK]
        + index;
}

/* Moves packets in order: the time of the first is that of its node, and each has the time of its successor. */
static void
move_fifo(ecc_archive_t *archive, ecc_engine_t *self, enum ecc_lists_list list, uint32_t index, ecc_fifo_t *fifo)
{
    uint32_t node = node_of(self, list, index);
    ecc_ps_t time = self->fast.nodes[node].time;
    ecc_ps_t last = self->now;
    uint32_t id = fifo->head;
    uint32_t count = 0;

    for (uint32_t each = id; each != ECC_NO_PACKET; each = ecc_packets_at(&self->packets, each)->next) {
        count++;
    }
    count = ecc_archive_count(archive, count, sizeof(ecc_packet_t) / 2);
    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_archive_whole(archive, &time, last, ECC_NEVER);
        last = time;
        id = move_in_list(archive, self, list, index, id, time);
        if (ecc_archive_reads(archive)) {
            if (ecc_packets_append(&self->packets, fifo, id, time)) {
                ecc_calendar_insert(&self->fast, node, time);
            }
        } else if (archive->ret == 0) {
            time = ecc_packets_at(&self->packets, id)->next_time;
            id = ecc_packets_at(&self->packets, id)->next;
        }
    }
}

/* Moves packets in a channel that reorders. */
static void
move_heap(ecc_archive_t *archive, ecc_engine_t *self, enum ecc_lists_list list, uint32_t index, ecc_channel_t *channel)
{
    size_t room = channel->room;
    void *block = channel->reordered;
    uint32_t count = ecc_archive_count(archive, channel->n_reordered, sizeof(ecc_packet_t) / 2);

    ecc_archive_make_room(archive, &self->memory, sizeof(*channel->reordered), count, &room, &block);
    channel->reordered = block;
    channel->room = (uint32_t) room;
    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_reordered_t *one = &channel->reordered[k];
        ecc_archive_whole(archive, &one->time, self->now, ECC_NEVER);
        ECC_ARCHIVE_MOVE(archive, one->order);
        ecc_archive_require(archive, one->order < channel->n_joined);
        one->packet = move_in_list(archive, self, list, index, one->packet, one->time);
        channel->n_reordered = ecc_archive_reads(archive) ? k + 1 : channel->n_reordered;
    }
    if (ecc_archive_reads(archive) && count > 0) {
        ecc_calendar_insert(&self->fast, node_of(self, list, index), channel->reordered[0].time);
    }
}

void
ecc_lists_slots(ecc_archive_t *archive, ecc_slots_t *slots)
{
    ecc_archive_whole(archive, &slots->opens, 0, ECC_NEVER);
    ecc_archive_whole(archive, &slots->packets, 0, INT64_MAX);
    ecc_archive_whole(archive, &slots->bytes, -(ECC_MAX_PACKET_SIZE + ECC_MAX_HEADER_BYTES), INT64_MAX);
}

void
ecc_lists_channel(ecc_archive_t *archive, ecc_engine_t *self, enum ecc_lists_list list, uint32_t index,
    ecc_fifo_t *fifo, ecc_channel_t *channel)
{
    if (channel != NULL) {
        int64_t longest = channel->spec->spike_every_hi;
        ECC_ARCHIVE_MOVE(archive, channel->random);
        ecc_archive_whole(archive, &channel->until_spike, longest > 0, longest);
        ecc_archive_whole(archive, &channel->free_at, 0, ECC_NEVER);
        ecc_archive_whole(archive, &channel->last_out, 0, ECC_NEVER);
        ecc_archive_whole(archive, &channel->is_bad, 0, channel->spec->burst_kinds != 0);
        ecc_lists_slots(archive, &channel->slots);
        ECC_ARCHIVE_MOVE(archive, channel->n_joined);
    }
    if (channel != NULL && channel->spec->reorders != 0) {
        move_heap(archive, self, list, index, channel);
    } else {
        move_fifo(archive, self, list, index, fifo);
    }
}

void
ecc_lists_queue(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_ps_t last
        = link->has_departure_events ? self->now : self->now + 1; /* packets that departed silently by now are gone */
    uint32_t count = ecc_archive_count(archive, link->ring.count, sizeof(ecc_queued_t) / 2);

    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_queued_t item = ecc_archive_writes(archive) ? *ecc_ring_at(&link->ring, k) : (ecc_queued_t) { 0 };
        uint32_t position;
        ecc_archive_whole(archive, &item.leaves, last, ECC_NEVER);
        last = item.leaves;
        if (link->queues != NULL) {
            ecc_archive_index(archive, &link->in_service, link->n_queues);
        }
        ecc_archive_int(archive, &item.size, 1, ECC_MAX_PACKET_SIZE + ECC_MAX_HEADER_BYTES);
        if (link->has_departure_events) {
            item.of = move_on_link(archive, self, index, item.of, true);
            if (archive->ret != 0) {
                return;
            }
            position = ecc_packets_at(&self->packets, item.of)->position;
            ecc_archive_require(archive,
                item.size == ecc_link_size(self, ecc_packets_at(&self->packets, item.of), self->hops[position]));
        } else if (self->flow_queues != NULL) {
            ecc_archive_index(archive, &item.of, (uint32_t) self->n_hops);
            ecc_archive_require(archive, archive->ret == 0 && self->hops[item.of] >> ECC_HOP_LINK == index);
            position = item.of;
        } else { /* the flow is not needed; a transfer that has passed may have left its slot to another route */
            item.of = 0;
            position = 0;
        }
        if (ecc_archive_reads(archive)) {
            if (link->queues != NULL) {
                link->queues[link->in_service].bytes += item.size;
            }
            link->queue += item.size;
            link->free_at = item.leaves;
            if (self->flow_queues != NULL) {
                self->flow_queues[position] += item.size;
            }
            archive->ret = ecc_ring_append(&link->ring, &self->memory, item);
        }
    }
    if (ecc_archive_reads(archive) && link->has_departure_events && count > 0) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_DEPARTURE] + index, ecc_ring_at(&link->ring, 0)->leaves);
    }
}

void
ecc_lists_waiting(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index, uint32_t number)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_queue_t *queue = &link->queues[number];
    ecc_ps_t time = queue->since;
    ecc_ps_t last = 0;
    uint32_t id = queue->packets.head;
    uint32_t count = 0;

    for (uint32_t each = id; each != ECC_NO_PACKET; each = ecc_packets_at(&self->packets, each)->next) {
        count++;
    }
    count = ecc_archive_count(archive, count, sizeof(ecc_packet_t) / 2);
    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        const ecc_packet_t *packet;
        ecc_archive_whole(archive, &time, last, self->now);
        last = time;
        id = move_on_link(archive, self, index, id, true);
        if (archive->ret != 0) {
            return;
        }
        packet = ecc_packets_at(&self->packets, id);
        if (ecc_archive_reads(archive)) {
            ecc_scheduler_join(self, index, number, id, time);
        } else {
            time = packet->next_time;
            id = packet->next;
        }
    }
}
