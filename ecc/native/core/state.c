/* The functions on the state of an engine that are too long, or too rarely called, for state.h. */

#include "core/state.h"

int
ecc_state_fail_flow(ecc_engine_t *self, int code, uint32_t index, int hook, double value)
{
    int64_t entity = index < self->n_flows ? ECC_ENTITY_FLOW : ECC_ENTITY_TRANSFER;

    return ecc_state_fail(self, code, entity, self->flows[index].number, hook, value);
}

void
ecc_state_release(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    if (self->flows[packet->flow].uses_sack) {
        ecc_sacks_release(&self->sacks, ecc_state_ack_info(self, packet)->sack);
    }
    ecc_packets_release(&self->packets, id);
}
