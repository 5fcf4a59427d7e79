#ifndef ECC_AHEAD_H
#define ECC_AHEAD_H

/* Memory that the next events will touch is fetched while those before them run: results do not depend on it. */

#include "state.h"

/* Whether the state of a network is too large for the caches closest to a core. */
bool ecc_ahead_is_worth_it(const ecc_engine_t *self);

/* Called after each event of the fast calendar. */
void ecc_ahead_fetch(ecc_engine_t *self);

#endif
