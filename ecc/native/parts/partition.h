#ifndef ECC_PARTITION_H
#define ECC_PARTITION_H

/* Checks and installs the partition of a network, and knows the delays between its parts (S-122, S-124, S-127). */

#include "core/state.h"

/* Checks a partition and copies it, if there is one (S-122); routes are installed. */
ECC_MUST_CHECK int ecc_partition_install(ecc_engine_t *self, const ecc_partition_t *partition);

/* The minimum time from an event here to anything that it causes in another part; ECC_NEVER: it causes nothing. */
ecc_ps_t ecc_partition_lookahead(const ecc_engine_t *self);

#endif
