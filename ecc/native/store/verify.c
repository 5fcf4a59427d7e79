/*
 * The invariants of a whole engine: packets are conserved, every packet is in one list, and each list is in order.
 * Debug builds check them after each call of ecc_engine_advance.
 *
 * Not here: the invariants of each file, in its function ..._verify.
 */

#include "store/verify.h"

#include "core/cut.h"
#include "core/state.h"
#include "link/pause.h"
#include "link/scheduler.h"
#include "host/alarms.h"
#include "host/monitor.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/receiver.h"
#include "host/sender.h"
#include "host/transfers.h"
#include "host/transport.h"

/* Checks packets in a channel that reorders, whose first packet arrives at `time`. */
static uint32_t
heap_size(const ecc_engine_t *self, const ecc_channel_t *channel, ecc_ps_t time, bool *in_order)
{
    *in_order = *in_order && (channel->n_reordered == 0) == (time == ECC_NOT_PENDING)
        && ecc_channel_verify(channel) == 0
        && (channel->n_reordered == 0 || (channel->reordered[0].time == time && time >= self->now));
    return channel->n_reordered;
}

/*
 * Packets in a list whose first leaves at `time`; clears in_order where one leaves before its predecessor, or the last
 * after `latest`, when the next one may.
 */
static uint32_t
length(const ecc_engine_t *self, const ecc_fifo_t *fifo, ecc_ps_t time, ecc_ps_t latest, bool *in_order)
{
    uint32_t n = 0;

    *in_order = *in_order && (fifo->head == ECC_NO_PACKET) == (time == ECC_NOT_PENDING);
    for (uint32_t id = fifo->head; id != ECC_NO_PACKET; n++) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        *in_order = *in_order && time >= self->now && time <= latest
            && (packet->next == ECC_NO_PACKET || packet->next_time >= time);
        time = packet->next_time;
        id = packet->next;
    }
    return n;
}

/* Latest time at which the last packet on the wire of a link leaves it; in another part: any time. */
static ecc_ps_t
latest_of_wire(const ecc_engine_t *self, const ecc_link_state_t *link)
{
    bool is_silent = !link->has_departure_events && link->free_at > self->now;

    if (!ecc_cut_has_link(self, (uint32_t) link->spec.at)) {
        return ECC_NEVER;
    }
    return link->channel != NULL ? link->channel->last_out
                                 : ecc_clock_add(is_silent ? link->free_at : self->now, link->delay);
}

/* Latest arrival of the last ACK of a flow. */
static ecc_ps_t
latest_of_acks(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    uint32_t hop = self->hops[flow->position + flow->spec->n_forward + flow->spec->n_reverse - 1];

    if (!ecc_cut_has_receiver(self, index)) {
        return ECC_NEVER;
    }
    if (flow->spec->impairment > 0) {
        return self->receivers[index].channel.last_out;
    }
    return ecc_clock_add(
        (hop & ECC_HOP_END) == ECC_END_HOST ? self->now : latest_of_wire(self, &self->links[hop >> ECC_HOP_LINK]),
        flow->ack_delay);
}

/* Conservation at a link: each arrived packet departed, was dropped, or is queued, in order and within the buffer. */
static bool
link_is_valid(const ecc_engine_t *self, const ecc_link_state_t *link)
{
    int64_t n_queued = (int64_t) link->ring.count + link->n_waiting;
    const ecc_ring_t *ring = &link->ring;
    bool valid = ecc_ring_verify(ring) == 0;
    ecc_bytes_t queue = 0;
    ecc_ps_t last = 0;

    for (uint32_t k = 0; k < ring->count; k++) {
        const ecc_queued_t *item = ecc_ring_at(ring, k);
        valid = valid && item->size > 0 && item->leaves >= last;
        last = item->leaves;
        queue += item->size;
    }
    valid = valid && (link->queues == NULL || ecc_scheduler_verify(self, link, &queue) == 0);
    valid = valid && queue == link->queue && queue <= link->queue_peak && queue <= link->max_bytes
        && n_queued <= link->max_packets && (ring->count == 0 || last == link->free_at)
        && link->lost_bytes <= link->arrived - link->dropped_bytes - queue && link->queue_low <= queue;
    for (uint32_t i = link->next; i != 0; i = self->links[i].next) {
        valid = valid && self->links[i].queue_low <= queue;
    }
    ECC_DEBUG(valid = valid && link->arrived == link->count.departed_bytes + link->dropped_bytes + queue
            && link->count.arrived == link->count.departed + link->dropped + n_queued);
    return valid;
}

/* S-197: the peak is one of the terms of the sum. */
static bool
rtts_are_valid(const ecc_rtts_t *rtts)
{
    return rtts->count > 0 ? rtts->peak >= 0.0 && rtts->sum >= rtts->peak
                           : rtts->count == 0 && rtts->sum == 0.0 && rtts->peak == 0.0;
}

int
ecc_verify_engine(const ecc_engine_t *self)
{
    const ecc_node_t *nodes = self->fast.nodes;
    uint32_t n_packets = 0;
    bool valid = ecc_calendar_verify(&self->fast) == 0 && ecc_calendar_verify(&self->slow) == 0
        && ecc_transfers_verify(self) == 0 && (self->pauses == NULL || ecc_pause_verify(self) == 0);

    for (uint32_t i = 0; i < self->n_links; i++) {
        const ecc_link_state_t *link = &self->links[i];
        ecc_ps_t time = nodes[self->base[ECC_EVENT_HOP] + i].time;
        valid = valid && link_is_valid(self, link);
        n_packets += link->channel != NULL && link->channel->spec->reorders != 0
            ? heap_size(self, link->channel, time, &valid)
            : length(self, &link->wire, time, latest_of_wire(self, link), &valid);
        n_packets += link->has_departure_events ? link->ring.count + link->n_waiting : 0;
    }
    for (uint32_t i = 0; i < self->n_flows + self->transfers.n_slots; i++) {
        const ecc_flow_state_t *flow = &self->flows[i];
        ecc_ps_t time = nodes[self->base[ECC_EVENT_ACK] + i].time;
        n_packets += flow->reorders_acks ? heap_size(self, &self->receivers[i].channel, time, &valid)
                                         : length(self, &flow->acks, time, latest_of_acks(self, i), &valid);
        n_packets += flow->needs_receiver && self->receivers[i].delayed != ECC_NO_PACKET;
        n_packets += length(self, &flow->access, nodes[self->base[ECC_EVENT_ACCESS] + i].time,
            ecc_cut_has_sender(self, i) ? ecc_clock_add(self->now, flow->access_delay) : ECC_NEVER, &valid);
        valid = valid && flow->lost >= 0 && flow->lost <= flow->expected && flow->expected <= flow->sent;
        valid = valid && (flow->received <= flow->sent || !ecc_cut_has_sender(self, i))
            && ecc_sender_verify(self, i) == 0;
        valid = valid && (i >= self->n_rtts || rtts_are_valid(&self->rtts[i]));
        valid = valid && (!flow->needs_receiver || ecc_receiver_verify(self, i) == 0);
        valid = valid && (!flow->has_alarms || ecc_alarms_verify(self, i) == 0);
        if (flow->reliable && (i < self->n_flows || flow->active || flow->n_packets > 0)) {
            valid = valid
                && ecc_transport_verify(
                       &self->transports[i], flow, ecc_cut_has_sender(self, i), ecc_cut_has_receiver(self, i))
                    == 0;
            valid = valid
                && (!flow->has_rack || !ecc_cut_has_sender(self, i)
                    || ecc_rack_verify(self, i, ecc_cut_has_receiver(self, i)) == 0);
            valid = valid
                && (!flow->has_quic
                    || ecc_quic_verify(&self->quics[i], &self->transports[i], self->now, ecc_cut_has_sender(self, i),
                           ecc_cut_has_receiver(self, i))
                        == 0);
        }
    }
    valid = valid && ecc_monitor_verify(self) == 0;
    return valid && n_packets == self->packets.n_used && self->sacks.n_used <= n_packets ? 0 : ECC_ERR_BROKEN;
}
