#ifndef ECC_SAMPLES_H
#define ECC_SAMPLES_H

/* Samples of flows, links and recorded fields (S-15 to S-18). */

#include "core/state.h"

/* Takes the sample that is due, and moves the clock to its time; a failure if links wait for each other (S-143). */
ECC_MUST_CHECK int ecc_samples_take(ecc_engine_t *self);

#endif
