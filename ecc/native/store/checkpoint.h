#ifndef ECC_CHECKPOINT_H
#define ECC_CHECKPOINT_H

/* The state of an engine as bytes, and back into a new engine of the same configuration. */

#include "core/state.h"

/* As ecc_engine_save and ecc_engine_load. */
int64_t ecc_checkpoint_save(ecc_engine_t *self, unsigned char *buffer);
ECC_MUST_CHECK int ecc_checkpoint_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size);

#endif
