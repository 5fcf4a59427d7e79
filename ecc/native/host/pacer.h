#ifndef ECC_PACER_H
#define ECC_PACER_H

/* The pacer of a window protocol (S-222). */

#include "core/state.h"

/* S-222: the wait for the next segment, of `size` bytes, of a paced window, after an update of its credit. */
ecc_ps_t ecc_pacer_wait(ecc_engine_t *self, uint32_t flow, int32_t size);

#endif
