#ifndef ECC_UNDER_WAY_H
#define ECC_UNDER_WAY_H

/* Runs that begin with packets in queues, on wires, and returning as ACKs (S-206 to S-209). */

#include "core/state.h"

/* Places flows that have begun before time 0, and their packets; the routers have started. */
ECC_MUST_CHECK int ecc_under_way_place(ecc_engine_t *self);

void ecc_under_way_free(ecc_engine_t *self);

#endif
