#ifndef ECC_TRANSFERS_H
#define ECC_TRANSFERS_H

/* Transfers (S-55 to S-61): pending until their start, alive in a slot after the flows, finished with a result. */

#include "core/state.h"

/* Copies the templates; ecc_routes_install lays out their routes. */
ECC_MUST_CHECK int ecc_transfers_init(ecc_engine_t *self, const ecc_config_t *config);
void ecc_transfers_free(ecc_engine_t *self);
ECC_MUST_CHECK int ecc_transfers_verify(const ecc_engine_t *self);

/* As ecc_engine_add, ecc_engine_take_finished, ecc_engine_alive. */
ECC_MUST_CHECK int ecc_transfers_add(ecc_engine_t *self, const ecc_transfer_t *added, int64_t n, bool more);
int64_t ecc_transfers_take_finished(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n);
void ecc_transfers_alive(const ecc_engine_t *self, ecc_transfer_result_t *results);

/* Links the other n - 1 transfers after the first, which is in a slot. */
ECC_MUST_CHECK int ecc_transfers_add_subsequent(
    ecc_engine_t *self, uint32_t flow, const ecc_transfer_t *added, int64_t n);

/* The next pending transfer takes a slot: it becomes this flow. */
ECC_MUST_CHECK int ecc_transfers_start_next(ecc_engine_t *self, uint32_t *flow);

/* The transfer subsequent to another takes a slot; the other then has none. */
ECC_MUST_CHECK int ecc_transfers_start_subsequent(ecc_engine_t *self, uint32_t other, uint32_t *flow);

/* Whether more transfers must be added before time advances. */
static inline bool
ecc_transfers_needs_input(const ecc_engine_t *self)
{
    return self->transfers.more && self->transfers.n_consumed == self->transfers.n_pending && self->cut == NULL;
}

/* Time up to which a part can advance: another transfer may start with the last one that was added. */
static inline ecc_ps_t
ecc_transfers_known_until(const ecc_engine_t *self)
{
    return self->transfers.more && self->cut != NULL ? self->transfers.last_start - 1 : ECC_NEVER;
}

#endif
