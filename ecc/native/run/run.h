#ifndef ECC_RUN_H
#define ECC_RUN_H

/* The steps of ecc_engine_advance, for teams and live runs, which take them one by one. */

#include "core/state.h"

/* Checks the time and starts the routers, once; 0, or a code after which no other step is taken. */
ECC_MUST_CHECK int ecc_run_begin(ecc_engine_t *self, ecc_ps_t until, int64_t max_events);

/*
 * Runs events and takes samples up to and at `until`: 0, ECC_NEEDS_TRANSFERS or a code. Time never goes back, and a
 * sample comes after all events of its instant. Sets `stop`, except for transfers and failures.
 */
ECC_MUST_CHECK int ecc_run_until(ecc_engine_t *self, ecc_ps_t until);

/* Time of the next event; ECC_NEVER without one. */
ecc_ps_t ecc_run_next_event(ecc_engine_t *self);

/* Ends a run with the result `ret`; returns it, or 0 if it is not a failure. */
ECC_MUST_CHECK int ecc_run_end(ecc_engine_t *self, int ret);

#endif
