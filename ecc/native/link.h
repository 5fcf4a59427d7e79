#ifndef ECC_LINK_H
#define ECC_LINK_H

/* A link: a queue with one packet in service, and a wire. */

#include "state.h"

/* Adds up, for averages and histograms, the queue since the last time up to this one. */
void ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time);

void ecc_link_init(ecc_engine_t *self, uint32_t link, const ecc_link_t *is, uint64_t seed);
ECC_MUST_CHECK int ecc_link_start(ecc_engine_t *self, uint32_t link);

/* A packet reaches the link of its position. */
ECC_MUST_CHECK int ecc_link_arrive(ecc_engine_t *self, uint32_t packet);

ECC_MUST_CHECK int ecc_link_departure(ecc_engine_t *self, uint32_t link);
ECC_MUST_CHECK int ecc_link_hop(ecc_engine_t *self, uint32_t link);
ECC_MUST_CHECK int ecc_link_interval(ecc_engine_t *self, uint32_t link);

/* The capacity that routers are told now. */
double ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link);

/* Whether packets may overtake each other on its wire. */
static inline bool
ecc_link_reorders(const ecc_engine_t *self, uint32_t link)
{
    return self->links[link].impaired != NULL && self->links[link].impaired->is.reorders != 0;
}

/* Lets go what has silently left the queue by now. */
void ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link);

#endif
