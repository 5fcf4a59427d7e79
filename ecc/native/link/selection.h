#ifndef ECC_SELECTION_H
#define ECC_SELECTION_H

/* Links whose discipline chooses the queue of the next packet (S-226). */

#include "core/state.h"

/* Sets *number to the queue of the next packet, or to n_queues if the server waits. */
ECC_MUST_CHECK int ecc_selection_next(ecc_engine_t *self, uint32_t link, uint32_t *number);

#endif
