#ifndef ECC_LINK_H
#define ECC_LINK_H

/* A link: a queue with one packet in service, and a wire (S-20, S-23 to S-34). */

#include "state.h"

void ecc_link_init(ecc_engine_t *self, uint32_t link, const ecc_link_t *spec, uint64_t seed);

/* A packet arrives at the link of its position (S-23). */
ECC_MUST_CHECK int ecc_link_arrive(ecc_engine_t *self, uint32_t packet);

/* DEPARTURE and HOP (S-28, S-31, S-32, S-34). */
ECC_MUST_CHECK int ecc_link_departure(ecc_engine_t *self, uint32_t link);
ECC_MUST_CHECK int ecc_link_hop(ecc_engine_t *self, uint32_t link);

/* Removes from the queue what has silently departed by now (S-29). */
void ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link);

/* Adds up, for averages and histograms, the queue since the last time up to this one (S-17, S-18). */
void ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time);

/* S-27: the capacity advertised to routers now. */
double ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link);

/* Whether packets may overtake each other on its wire. */
static inline bool
ecc_link_reorders(const ecc_engine_t *self, uint32_t link)
{
    return self->links[link].channel != NULL && self->links[link].channel->spec.reorders != 0;
}

#endif
