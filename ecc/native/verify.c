#include "pool.h"
#include "receiver.h"
#include "sender.h"
#include "state.h"
#include "transport.h"

/* Packets on a way where they may overtake each other, whose first arrives at `time`. */
static uint32_t
heap_size(const ecc_engine_t *self, const ecc_impaired_t *impaired, ecc_ps_t time, bool *in_order)
{
    *in_order = *in_order && (impaired->n_late == 0) == (time == ECC_IDLE) && ecc_impairment_verify(impaired) == 0
        && (impaired->n_late == 0 || (impaired->late[0].time == time && time >= self->now));
    return impaired->n_late;
}

/*
 * Packets in a list whose first leaves at `time`; clears in_order where one leaves before its predecessor, or the last
 * after `latest`, when the next one may.
 */
static uint32_t
length(const ecc_engine_t *self, const ecc_fifo_t *fifo, ecc_ps_t time, ecc_ps_t latest, bool *in_order)
{
    uint32_t n = 0;

    *in_order = *in_order && (fifo->head == ECC_NO_PACKET) == (time == ECC_IDLE);
    for (uint32_t id = fifo->head; id != ECC_NO_PACKET; n++) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        *in_order = *in_order && time >= self->now && time <= latest
            && (packet->next == ECC_NO_PACKET || packet->next_time >= time);
        time = packet->next_time;
        id = packet->next;
    }
    return n;
}

/* When the last packet that was put on the wire of a link leaves it, at the latest. */
static ecc_ps_t
latest_of_wire(const ecc_engine_t *self, const ecc_link_state_t *link)
{
    bool is_silent = !link->departs && link->free_at > self->now;

    return link->impaired != NULL ? link->impaired->last_out
                                  : ecc_state_add(is_silent ? link->free_at : self->now, link->is.delay);
}

/* When the last ACK of a flow arrives, at the latest. */
static ecc_ps_t
latest_of_acks(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    uint32_t hop = self->hops[flow->position + flow->is->n_forward + flow->is->n_reverse - 1];

    if (flow->is->impairment > 0) {
        return self->receivers[index].impaired.last_out;
    }
    return ecc_state_add(
        (hop & ECC_HOP_END) == ECC_END_HOST ? self->now : latest_of_wire(self, &self->links[hop >> ECC_HOP_LINK]),
        flow->ack_delay);
}

/* Nothing is lost or made at a link: what came in has gone, was dropped, or waits in its order and within the buffer. */
static bool
link_is_fine(const ecc_engine_t *self, const ecc_link_state_t *link)
{
    const ecc_ring_t *ring = &link->ring;
    bool fine = ecc_ring_verify(ring) == 0;
    ecc_bytes_t queue = 0;
    ecc_ps_t last = 0;

    for (uint32_t k = 0; k < ring->count; k++) {
        const ecc_queued_t *item = ecc_ring_at(ring, k);
        fine = fine && item->size > 0 && item->leaves >= last;
        last = item->leaves;
        queue += item->size;
    }
    fine = fine && queue == link->queue && queue <= link->queue_peak && queue <= link->most_bytes
        && (int64_t) ring->count <= link->most_packets && (ring->count == 0 || last == link->free_at)
        && link->lost_bytes <= link->arrived - link->dropped_bytes - queue && link->queue_low <= queue;
    for (uint32_t i = link->next; i != 0; i = self->links[i].next) {
        fine = fine && self->links[i].queue_low <= queue;
    }
    ECC_DEBUG(fine = fine && link->arrived == link->count.departed_bytes + link->dropped_bytes + queue
            && link->count.arrived == link->count.departed + link->dropped + (int64_t) ring->count);
    return fine;
}

int
ecc_engine_verify(const ecc_engine_t *self)
{
    const ecc_node_t *nodes = self->fast.nodes;
    uint32_t n_packets = 0;
    bool fine
        = ecc_calendar_verify(&self->fast) == 0 && ecc_calendar_verify(&self->slow) == 0 && ecc_pool_verify(self) == 0;

    for (uint32_t i = 0; i < self->n_links; i++) {
        const ecc_link_state_t *link = &self->links[i];
        ecc_ps_t time = nodes[self->base[ECC_HOP] + i].time;
        fine = fine && link_is_fine(self, link);
        n_packets += link->impaired != NULL && link->impaired->is.reorders != 0
            ? heap_size(self, link->impaired, time, &fine)
            : length(self, &link->wire, time, latest_of_wire(self, link), &fine);
        n_packets += link->departs ? link->ring.count : 0;
    }
    for (uint32_t i = 0; i < self->n_flows + self->pool.n_slots; i++) {
        const ecc_flow_state_t *flow = &self->flows[i];
        ecc_ps_t time = nodes[self->base[ECC_ACK] + i].time;
        n_packets += flow->late ? heap_size(self, &self->receivers[i].impaired, time, &fine)
                                : length(self, &flow->acks, time, latest_of_acks(self, i), &fine);
        n_packets += flow->counts && self->receivers[i].kept != ECC_NO_PACKET;
        n_packets += length(self, &flow->access, nodes[self->base[ECC_ACCESS] + i].time,
            ecc_state_add(self->now, flow->access_delay), &fine);
        fine = fine && flow->lost >= 0 && flow->lost <= flow->expected && flow->expected <= flow->sent;
        fine = fine && flow->received <= flow->sent && ecc_sender_verify(self, i) == 0;
        fine = fine && (!flow->counts || ecc_receiver_verify(&self->receivers[i]) == 0);
        if (flow->repairs && (i < self->n_flows || flow->active || flow->n_packets > 0)) {
            fine = fine && ecc_transport_verify(&self->transports[i], flow) == 0;
        }
    }
    return fine && n_packets == self->packets.n_used ? 0 : ECC_ERR_BROKEN;
}
