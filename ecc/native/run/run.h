#ifndef ECC_RUN_H
#define ECC_RUN_H

/*
 * The steps of ecc_engine_advance, for others that take them one by one: a team, between its meetings, and live runs.
 */

#include "core/state.h"

/* Checks the time and starts the routers, once; 0, or a code after which no other step is taken. */
ECC_MUST_CHECK int ecc_run_begin(ecc_engine_t *self, ecc_ps_t until, int64_t max_events);

/*
 * Runs events and takes samples up to and at `until`: 0, ECC_NEEDS_TRANSFERS or a code. Time never goes back, and a
 * sample comes after all events of its instant. Sets `stop`, except for transfers and failures.
 */
ECC_MUST_CHECK int ecc_run_until(ecc_engine_t *self, ecc_ps_t until);

/* When the next event is; ECC_NEVER: none is pending. */
ecc_ps_t ecc_run_next_event(ecc_engine_t *self);

/* Ends a run that has come to `ret`, which it returns, or 0 where that is no failure. */
ECC_MUST_CHECK int ecc_run_end(ecc_engine_t *self, int ret);

#endif
