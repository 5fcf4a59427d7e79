#ifndef ECC_LINK_H
#define ECC_LINK_H

/* A link: a queue with one packet in service, and a wire (S-20, S-23 to S-34). Where it schedules, see scheduler.h. */

#include "core/state.h"

void ecc_link_init(ecc_engine_t *self, uint32_t link, const ecc_link_t *spec, uint64_t seed);

/* A packet arrives at the link of its position (S-23). */
ECC_MUST_CHECK int ecc_link_arrive(ecc_engine_t *self, uint32_t packet);

/* A packet of data that has arrived before time 0 is in the queue of the link of its position (S-208). */
ECC_MUST_CHECK int ecc_link_queue(ecc_engine_t *self, uint32_t packet);

/* A packet is on the wire of the link of its position, and reaches its end at `time`. */
ECC_MUST_CHECK int ecc_link_put_on_wire(ecc_engine_t *self, uint32_t packet, ecc_ps_t time);

/* DEPARTURE and HOP (S-28, S-31, S-32, S-34). */
ECC_MUST_CHECK int ecc_link_departure(ecc_engine_t *self, uint32_t link);
ECC_MUST_CHECK int ecc_link_hop(ecc_engine_t *self, uint32_t link);

/* Removes from the queue what has silently departed by now (S-29). */
void ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link);

/* Adds up, for averages and histograms, the queue since the last time up to this one (S-17, S-18). */
void ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time);

/* S-27: the capacity advertised to routers now. */
double ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link);

/* S-135: a packet that a hook wants trimmed: its new size, or 0 if it cannot be; unless it shrinks it is as it was. */
int64_t ecc_link_trim(ecc_engine_t *self, uint32_t link, uint32_t packet, int64_t size, enum ecc_packet_kind kind);

/* The engine is built: links that need nothing else have code of their own, without what others ask for every packet. */
void ecc_link_set_plain(ecc_engine_t *self);

/* What a packet is for hooks. */
static inline enum ecc_packet_kind
ecc_link_kind(const ecc_packet_t *packet, uint32_t hop)
{
    return (hop & ECC_HOP_IS_ACK) != 0         ? ECC_PACKET_ACK
        : ecc_packets_is_trimmed(packet->size) ? ECC_PACKET_TRIMMED
                                               : ECC_PACKET_DATA;
}

/* S-24: the size of a packet at a position of the table of hops. */
int64_t ecc_link_size(const ecc_engine_t *self, const ecc_packet_t *packet, uint32_t hop);

/* A packet that is not in the queue is dropped there (S-23.3). */
ECC_MUST_CHECK int ecc_link_drop(
    ecc_engine_t *self, uint32_t link, uint32_t packet, int64_t size, enum ecc_packet_kind kind);

/* A hook has marked a packet (S-107). */
void ecc_link_count_mark(ecc_engine_t *self, uint32_t link, const ecc_packet_t *packet);

/* The queue grows by a packet, or has lost it: what is counted of it, by time and by flow (S-23, S-28). */
void ecc_link_grow(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position);
void ecc_link_shrink(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position);

/* The next packet is served when the last one has left (S-25, S-26). */
ECC_MUST_CHECK int ecc_link_transmit(ecc_engine_t *self, uint32_t link, ecc_queued_t packet, enum ecc_packet_kind kind);

/* Whether packets may overtake each other on its wire. */
static inline bool
ecc_link_reorders(const ecc_engine_t *self, uint32_t link)
{
    return self->links[link].channel != NULL && self->links[link].channel->spec->reorders != 0;
}

#endif
