#ifndef ECC_TRANSFER_SLOTS_H
#define ECC_TRANSFER_SLOTS_H

/* The slots in which transfers live, after the flows (S-57, S-58, S-127). */

#include "core/state.h"

/* A free slot, or a new one. */
ECC_MUST_CHECK int ecc_transfer_slots_find(ecc_engine_t *self, uint32_t *slot);

/* A slot becomes a flow of a template. */
void ecc_transfer_slots_occupy(ecc_engine_t *self, uint32_t slot, uint32_t template_index, int64_t number);

/* A transfer whose sender is in another part takes a slot (S-127). */
ECC_MUST_CHECK int ecc_transfer_slots_let_pass(
    ecc_engine_t *self, uint32_t template_index, int64_t number, ecc_ps_t ack_delay, uint32_t *slot);

#endif
