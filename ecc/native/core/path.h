#ifndef ECC_PATH_H
#define ECC_PATH_H

/*
 * The moves of a packet between links and hosts: from its sender onto the access line, forward on a wire, back to its
 * sender as an ACK, or out of the network. A move puts the packet on the list of the event that will find it there; it
 * calls neither a link nor a host. So links and hosts depend on this file, and links on no host.
 *
 * If another part of the network has the end of a wire, line or delay, the packet leaves this engine (crossing.h).
 *
 * Not here: what links do with packets (transit.c), and what hosts do with them (host.c).
 */

#include "core/crossing.h"

/* The packet leaves its sender for its first link, over an access line with a delay (S-54). */
ECC_MUST_CHECK static inline int
ecc_path_access(ecc_engine_t *self, uint32_t index, uint32_t id)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t due = ecc_clock_add(self->now, flow->access_delay);
    int ret = 0;

    if (self->cut != NULL && ecc_crossing_leaves_by_access(self, id, due, &ret)) {
        return ret;
    }
    if (ecc_packets_append(&self->packets, &flow->access, id, due)) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_ACCESS] + index, due);
    }
    return 0;
}

/* The packet becomes an ACK, and reaches its sender after ack_delay: an ACK is then pending at `time` + ack_delay. */
static inline void
ecc_path_return_at(ecc_engine_t *self, uint32_t packet, ecc_ps_t time)
{
    uint32_t index = ecc_packets_at(&self->packets, packet)->flow;
    ecc_flow_state_t *flow = &self->flows[index];

    time = ecc_clock_add(time, flow->ack_delay);
    if (ecc_packets_append(&self->packets, &flow->acks, packet, time)) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_ACK] + index, time);
    }
}

/* The same from now on, also to a sender in another part. */
ECC_MUST_CHECK int ecc_path_return(ecc_engine_t *self, uint32_t packet);

/*
 * The packet is on the wire of a link, and reaches its end at `time`. It joins the list of the event that will find it
 * there: HOP, or ACK if nothing happens between the wire and the sender (S-31 to S-34). Inlined into arrivals and
 * departures, which are frequent.
 */
static inline __attribute__((always_inline)) int
ecc_path_forward(ecc_engine_t *self, uint32_t index, uint32_t id, ecc_ps_t time)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t end = self->hops[packet->position] & ECC_HOP_END;
    int ret = 0;

    if (self->cut != NULL && ecc_crossing_leaves_by_wire(self, id, time, &ret)) {
        return ret;
    }
    if (end == ECC_END_IMMEDIATE_ACK || end == ECC_END_SENDER) {
        ecc_path_return_at(self, id, time);
    } else if (ecc_packets_append(&self->packets, &link->wire, id, time)) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_HOP] + index, time);
    }
    return 0;
}

/*
 * The packet leaves the network: its memory is released, and the transfer of which it was the last may finish (S-59).
 */
ECC_MUST_CHECK int ecc_path_discard(ecc_engine_t *self, uint32_t packet);

#endif
