#ifndef ECC_AHEAD_H
#define ECC_AHEAD_H

/* Fetches the memory that the next events will touch while earlier events run. Results do not depend on it. */

#include "core/state.h"

/* Called when the calendar has changed its nodes: decides whether memory is fetched, and begins anew. */
void ecc_ahead_init(ecc_engine_t *self);

/* Called after each event of the fast calendar. */
void ecc_ahead_fetch(ecc_engine_t *self);

/* Called when HOP of a wire that is not empty is inserted. */
void ecc_ahead_of_wire(const ecc_engine_t *self, const ecc_link_state_t *link, ecc_ps_t time);

#endif
