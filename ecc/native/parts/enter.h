#ifndef ECC_ENTER_H
#define ECC_ENTER_H

/* Packets that enter this part of a network from another (S-123), checked as input from anywhere. */

#include "core/state.h"

/*
 * Packets enter, in the order in which they left another part: 0, or a code, and the packets before the invalid one
 * have entered. Packets that were discarded elsewhere were so at `latest` or before.
 */
ECC_MUST_CHECK int ecc_enter_all(ecc_engine_t *self, const unsigned char *bytes, size_t size, ecc_ps_t latest);

#endif
