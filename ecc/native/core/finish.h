#ifndef ECC_FINISH_H
#define ECC_FINISH_H

/* Results of flows and transfers, and the end of a transfer (S-59, S-61). */

#include "core/state.h"

ecc_flow_result_t ecc_finish_result(const ecc_engine_t *self, uint32_t flow);
ecc_transfer_result_t ecc_finish_transfer_result(const ecc_engine_t *self, uint32_t flow);

/* Whether the delay of the transfer that is subsequent to another has begun. */
static inline bool
ecc_finish_subsequent_is_due(const ecc_engine_t *self, uint32_t flow)
{
    return self->flows[flow].subsequent != ECC_NO_SUBSEQUENT
        && ecc_calendar_pending(&self->slow, self->base[ECC_EVENT_START] + flow + 1);
}

/*
 * S-59, S-61: a transfer finishes if it is not active, has no packet in the network and awaits no subsequent transfer.
 * Does nothing for a flow of the network.
 */
void ecc_finish_if_done(ecc_engine_t *self, uint32_t flow, ecc_ps_t now);

/* A slot becomes free. */
void ecc_finish_free_slot(ecc_engine_t *self, uint32_t slot);

/* An entry of `linked` becomes unused; returns the entry linked after it. */
uint32_t ecc_finish_free_entry(ecc_transfers_t *transfers, uint32_t entry);

#endif
