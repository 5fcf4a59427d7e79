#ifndef ECC_AHEAD_H
#define ECC_AHEAD_H

/* Memory that the next events will touch is fetched while those before them run: results do not depend on it. */

#include "core/state.h"

/* How much is worth it: that depends on how much of the state of a network the caches closest to a core hold. */
enum ecc_fetches ecc_ahead_fetches(const ecc_engine_t *self);

/* Called after each event of the fast calendar. */
void ecc_ahead_fetch(ecc_engine_t *self);

#endif
