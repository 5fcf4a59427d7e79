#ifndef ECC_VERIFY_H
#define ECC_VERIFY_H

/* The invariants of a whole engine; those of its parts are checked by the functions ..._verify of their files. */

#include "core/state.h"

/* As ecc_engine_verify. */
ECC_MUST_CHECK int ecc_verify_engine(const ecc_engine_t *self);

#endif
