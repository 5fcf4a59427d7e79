#ifndef ECC_AHEAD_H
#define ECC_AHEAD_H

/* Fetches the memory that the next events will touch while earlier events run. Results do not depend on it. */

#include "core/state.h"

/* How much to fetch, which depends on how much of the state of a network fits into the caches of a core. */
enum ecc_fetches ecc_ahead_fetches(const ecc_engine_t *self);

/* Called after each event of the fast calendar. */
void ecc_ahead_fetch(ecc_engine_t *self);

#endif
