/*
 * Receivers that find missing data (S-62 to S-72), and ACKs up to the first reverse link or into their pure delay.
 *
 * Not here: the data that the receiver of a reliable flow holds (reassembly.c), which shares only delayed ACKs.
 */

#include "host/receiver.h"

#include <string.h>

#include "core/config.h"
#include "core/crossing.h"
#include "core/path.h"
#include "link/link.h"
#include "link/transit.h"
#include "host/ecn.h"
#include "host/reassembly.h"

void
ecc_receiver_init(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_receiver_t *receiver = &self->receivers[index];
    ecc_channel_t channel = receiver->channel;

    *receiver = (ecc_receiver_t) { .delayed = ECC_NO_PACKET, .channel = channel };
    receiver->reordering_threshold = ecc_config_threshold(
        flow->spec, ecc_config_is_reordered(self, flow->spec, &self->hops[flow->position]) ? ECC_DUP_THRESH : 1);
    if (flow->spec->impairment > 0) {
        const ecc_impairment_t *spec = &self->impairments[flow->spec->impairment - 1];
        ecc_channel_init(
            &receiver->channel, spec, self->delay_changes, self->seed, ECC_RANDOM_OF_ACKS + (uint64_t) flow->number);
        flow->reorders_acks = spec->reorders != 0;
    }
}

/* Bytes received or given up. */
static int64_t
accounted(const ecc_receiver_t *self, const ecc_hole_t *holes)
{
    int64_t bytes = self->next;

    for (uint32_t k = 0; k < self->n_holes; k++) {
        bytes -= holes[k].missing;
    }
    return bytes;
}

/* Data before a packet is missing. Holes have been passed a different number of times each, so that there are few. */
static void
leave_hole(ecc_receiver_t *self, ecc_hole_t *holes, int64_t begin, uint32_t n_passed)
{
    ecc_hole_t *last = self->n_holes > 0 ? &holes[self->n_holes - 1] : NULL;

    if (last != NULL && last->n_passed == n_passed) { /* headers have passed it */
        last->missing += begin - self->next;
        last->end = begin;
    } else {
        holes[self->n_holes++] = (ecc_hole_t) { self->next, begin, begin - self->next, n_passed };
    }
}

/* S-66, S-67, S-136: accounts for a packet. */
static void
account(const ecc_engine_t *engine, const ecc_packet_t *packet)
{
    ecc_receiver_t *self = &engine->receivers[packet->flow];
    ecc_hole_t *holes = ecc_receiver_holes(engine, packet->flow);
    bool is_trimmed = ecc_packets_is_trimmed(packet->size);
    int64_t base = ecc_state_ack_info(engine, packet)->front; /* bytes below it were abandoned by the sender */
    int64_t begin = packet->offset;
    int64_t size = ecc_packets_data(packet->size);

    if (self->next <= base) {
        self->next = base;
        self->missing = 0;
        self->n_holes = 0;
    }
    for (uint32_t k = 0; k < self->n_holes; k++) {
        holes[k].n_passed += !is_trimmed && holes[k].end <= begin;
        if (holes[k].begin <= begin && begin < holes[k].end) {
            int64_t filled = size < holes[k].missing ? size : holes[k].missing;
            holes[k].missing -= filled;
            self->missing += is_trimmed ? filled : 0;
        }
    }
    if (begin >= self->next) {
        if (begin > self->next) {
            leave_hole(self, holes, begin, !is_trimmed);
        }
        self->next = begin + size;
        self->missing += is_trimmed ? size : 0;
    }
    while (self->n_holes > 0 && (holes[0].missing == 0 || holes[0].n_passed >= self->reordering_threshold)) {
        self->missing += holes[0].missing;
        self->n_holes--;
        memmove(holes, holes + 1, self->n_holes * sizeof(*holes));
    }
    self->front = accounted(self, holes);
}

int
ecc_receiver_return(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    ecc_channel_t *channel = &receiver->channel;
    ecc_ps_t time;
    int ret = 0;

    if (flow->spec->impairment == 0) {
        return ecc_path_return(self, id);
    }
    if (ecc_channel_loses(channel, 1)) {
        receiver->acks_lost++;
        ecc_state_trace_flow(self, ECC_EVENT_ACK_LOSS, packet->flow, packet->offset);
        return ecc_path_discard(self, id);
    }
    time = ecc_channel_arrival(channel, self->now, flow->ack_delay, ecc_link_size(self, packet, ECC_HOP_IS_ACK));
    if (self->cut != NULL && ecc_crossing_leaves_as_ack(self, id, time, &ret)) {
        return ret;
    }
    ret = ecc_channel_append(channel, &self->memory, &self->packets, &flow->acks, &self->fast,
        self->base[ECC_EVENT_ACK] + packet->flow, id, time);
    return ret == 0 ? 0 : ecc_state_fail_flow(self, ret, packet->flow, ECC_NO_HOOK, channel->n_reordered);
}

static int
send_ack(ecc_engine_t *self, uint32_t id)
{
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    const ecc_receiver_t *receiver = &self->receivers[packet->flow];

    if (flow->reliable) {
        int ret = ecc_reassembly_write_ack(self, packet);
        if (ret != 0) {
            return ecc_state_fail_flow(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
    } else {
        *ecc_state_ack_info(self, packet) = (ecc_ack_info_t) { receiver->front, { receiver->missing } };
    }
    if (flow->can_be_marked) {
        ecc_ecn_write_ack(self, packet);
    }
    if (flow->spec->n_reverse > 0) {
        packet->position = flow->position + (uint32_t) flow->spec->n_forward;
        return ecc_transit_arrive(self, id);
    }
    return ecc_receiver_return(self, id);
}

/* The delayed packet becomes the ACK (S-69). */
static int
send_delayed(ecc_engine_t *self, uint32_t index)
{
    ecc_receiver_t *receiver = &self->receivers[index];
    uint32_t id = receiver->delayed;

    receiver->delayed = ECC_NO_PACKET;
    receiver->n_delayed = 0;
    return send_ack(self, id);
}

int
ecc_receiver_send_delayed(ecc_engine_t *self, uint32_t index)
{
    if (self->receivers[index].delayed == ECC_NO_PACKET) {
        return 0;
    }
    ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_FLUSH] + index);
    return send_delayed(self, index);
}

int
ecc_receiver_receive_trimmed(ecc_engine_t *self, uint32_t id)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int ret = ecc_receiver_send_delayed(self, index);

    if (ret != 0) {
        return ret;
    }
    account(self, ecc_packets_at(&self->packets, id));
    return send_ack(self, id);
}

int
ecc_receiver_receive(ecc_engine_t *self, uint32_t id, bool may_delay)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    uint32_t node = self->base[ECC_EVENT_FLUSH] + packet->flow;

    if (!flow->reliable) {
        account(self, packet);
    }
    if (flow->spec->ack_every <= 1) {
        return send_ack(self, id);
    }
    if (receiver->delayed != ECC_NO_PACKET) {
        int ret = ecc_path_discard(self, receiver->delayed);
        if (ret != 0) {
            return ret;
        }
    } else {
        ecc_calendar_insert(&self->slow, node, ecc_clock_add(self->now, flow->spec->ack_wait));
    }
    receiver->delayed = id;
    if (++receiver->n_delayed < flow->spec->ack_every && may_delay) {
        return 0;
    }
    ecc_calendar_cancel(&self->slow, node);
    return send_delayed(self, packet->flow);
}

int
ecc_receiver_flush(ecc_engine_t *self, uint32_t index)
{
    uint32_t delayed = self->receivers[index].delayed;

    ecc_state_trace_flow(self, ECC_EVENT_FLUSH, index, ecc_packets_at(&self->packets, delayed)->offset);
    return send_delayed(self, index);
}

ecc_ack_info_t
ecc_receiver_read_ack(ecc_engine_t *self, const ecc_packet_t *packet)
{
    ecc_ack_info_t info = *ecc_state_ack_info(self, packet);
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    int64_t known = receiver->sender_missing;

    if (info.front > self->flows[packet->flow].expected) {
        receiver->sender_missing = info.missing;
    }
    info.missing -= known;
    return info;
}

int
ecc_receiver_verify(const ecc_engine_t *self, uint32_t index)
{
    const ecc_receiver_t *receiver = &self->receivers[index];
    const ecc_hole_t *holes = ecc_receiver_holes(self, index);
    int64_t end = 0;
    uint32_t passed = receiver->reordering_threshold;
    uint32_t least = self->flows[index].spec->trimmed_size > 0 ? 0 : 1;
    bool valid = receiver->n_holes <= receiver->reordering_threshold - least;

    for (uint32_t k = 0; k < receiver->n_holes && valid; k++) {
        const ecc_hole_t *hole = &holes[k];
        valid = hole->begin >= end && hole->end > hole->begin && hole->end <= receiver->next && hole->n_passed >= least
            && hole->n_passed < passed && hole->missing >= 0 && hole->missing <= hole->end - hole->begin;
        end = hole->end;
        passed = hole->n_passed;
    }
    return valid && receiver->front == accounted(receiver, holes) ? 0 : ECC_ERR_BROKEN;
}
