#ifndef ECC_SPRAY_H
#define ECC_SPRAY_H

/*
 * Flows whose packets take several routes (S-130 to S-133). In the table of hops, behind the links of a flow's route
 * and of its ACKs, are the positions of its other routes, relative to its own, and then their links.
 */

#include "core/state.h"

void ecc_spray_init(ecc_engine_t *self, uint32_t flow);

/* S-131: position of the route of the next packet in the table of hops. */
uint32_t ecc_spray_next(ecc_engine_t *self, uint32_t flow);

/* Position of a route of a flow, from 0 to n_alternatives. */
static inline uint32_t
ecc_spray_route(const ecc_engine_t *self, uint32_t flow, uint32_t route)
{
    const ecc_flow_state_t *state = &self->flows[flow];
    uint32_t offsets = state->position + (uint32_t) (state->spec->n_forward + state->spec->n_reverse);

    return state->position + (route == 0 ? 0 : self->hops[offsets + route - 1]);
}

/* Whether a flow has a link at a position of the table of hops, on any of its routes or on that of its ACKs. */
bool ecc_spray_has(const ecc_engine_t *self, uint32_t flow, uint32_t position);

#endif
