#ifndef ECC_TRANSIT_H
#define ECC_TRANSIT_H

/* The way of a packet through a link: it arrives, is dropped or queued, and departs onto the wire (S-23 to S-31). */

#include "core/state.h"

/* A packet arrives at the link of its position (S-23). */
ECC_MUST_CHECK int ecc_transit_arrive(ecc_engine_t *self, uint32_t packet);

/* A packet of data that arrived before time 0 is in the queue of the link of its position (S-208). */
ECC_MUST_CHECK int ecc_transit_queue(ecc_engine_t *self, uint32_t packet);

/* DEPARTURE (S-28): the packet in service leaves the queue of a link. */
ECC_MUST_CHECK int ecc_transit_departure(ecc_engine_t *self, uint32_t link);

#endif
