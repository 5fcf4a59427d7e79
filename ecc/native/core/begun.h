#ifndef ECC_BEGUN_H
#define ECC_BEGUN_H

/* Checks of flows that have begun before time 0, and of their packets in the network (S-206, S-207). */

#include "core/state.h"

/* Checks all of them: 0, or ECC_ERR_UNDER_WAY, and the report of the engine names the first invalid one. */
ECC_MUST_CHECK int ecc_begun_check(ecc_engine_t *self, const ecc_config_t *config);

#endif
