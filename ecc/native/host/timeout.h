#ifndef ECC_TIMEOUT_H
#define ECC_TIMEOUT_H

/* TIMEOUT of a flow (S-50, S-154). */

#include "core/state.h"

/* TIMEOUT: the timer of a flow has expired, or was started again meanwhile, or a wait of its transport ends. */
ECC_MUST_CHECK int ecc_timeout_expire(ecc_engine_t *self, uint32_t flow);

#endif
