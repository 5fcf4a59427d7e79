#ifndef ECC_LINK_H
#define ECC_LINK_H

/* The state of a link: its capacity, the size of a packet there, and what is counted of its queue. */

#include "core/state.h"

void ecc_link_init(ecc_engine_t *self, uint32_t link, const ecc_link_t *spec, uint64_t seed);

/* S-29: removes packets that have silently departed by now from the queue. */
void ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link);

/* S-17, S-18: adds the queue from the last time up to this one to averages and histograms. */
void ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time);

/* S-27: the capacity advertised to routers now. */
double ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link);

/* Marks plain links, after the engine is built: functions for them skip tests that cost every packet. */
void ecc_link_set_plain(ecc_engine_t *self);

/* The kind of a packet for hooks. */
static inline enum ecc_packet_kind
ecc_link_kind(const ecc_packet_t *packet, uint32_t hop)
{
    return (hop & ECC_HOP_IS_ACK) != 0         ? ECC_PACKET_ACK
        : ecc_packets_is_trimmed(packet->size) ? ECC_PACKET_TRIMMED
                                               : ECC_PACKET_DATA;
}

/* S-24: the size of a packet at a position of the table of hops. */
int64_t ecc_link_size(const ecc_engine_t *self, const ecc_packet_t *packet, uint32_t hop);

/* S-107: counts and traces a packet that a hook has marked. */
void ecc_link_count_mark(ecc_engine_t *self, uint32_t link, const ecc_packet_t *packet);

/* S-23, S-28: counts a packet that joins or leaves the queue, by time and by flow. */
void ecc_link_grow(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position);
void ecc_link_shrink(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position);

/* ecc_link_grow and ecc_link_shrink of a plain link, which has no counts by flow and no additional router. */
static ECC_HOT void
ecc_link_grow_plain(ecc_link_state_t *link, int64_t size)
{
    link->queue += size;
    if (link->queue > link->queue_peak) {
        link->queue_peak = link->queue;
    }
}

static ECC_HOT void
ecc_link_shrink_plain(ecc_link_state_t *link, int64_t size)
{
    link->queue -= size;
    if (link->queue < link->queue_low) {
        link->queue_low = link->queue;
    }
}

/* The position in the table of hops of a packet in the queue. */
static inline uint32_t
ecc_link_position_of(const ecc_engine_t *self, const ecc_link_state_t *link, const ecc_queued_t *item)
{
    return link->has_departure_events ? ecc_packets_at(&self->packets, item->of)->position : item->of;
}

/* S-28: the first packet leaves the queue. */
static ECC_HOT void
ecc_link_leave(ecc_engine_t *self, ecc_link_state_t *link, bool plain)
{
    const ecc_queued_t *first = ecc_ring_at(&link->ring, 0);

    if (link->measures_queue) {
        ecc_link_measure(link, first->leaves);
    }
    ECC_DEBUG(link->count.departed++);
    ECC_DEBUG(link->count.departed_bytes += first->size);
    if (plain) {
        ecc_link_shrink_plain(link, first->size);
    } else {
        ecc_link_shrink(
            self, link, first->size, self->flow_queues == NULL ? 0 : ecc_link_position_of(self, link, first));
    }
    ecc_ring_drop_first(&link->ring);
}

/* ecc_link_catch_up of a link that is plain, or of any. */
static ECC_HOT void
ecc_link_catch_up_plain(ecc_engine_t *self, ecc_link_state_t *link, bool plain)
{
    if (!link->has_departure_events) {
        /* S-29: silent departures come before every event of their instant. */
        while (link->ring.count > 0 && ecc_ring_at(&link->ring, 0)->leaves <= self->now) {
            ecc_link_leave(self, link, plain);
        }
    }
}

#endif
