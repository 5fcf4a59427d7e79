#ifndef ECC_ASK_H
#define ECC_ASK_H

/* Calls the hooks of flows, HOOKS of the text; one that is missing is not called. */

#include "state.h"

/* on_send and on_ack, about a packet. What the hook writes is taken over. */
ECC_MUST_CHECK int ecc_ask_packet(
    ecc_engine_t *self, int hook_number, ecc_hook_t hook, const ecc_packet_t *packet, int64_t kind);

/* on_start, on_loss and on_timer, which have no packet. What the hook writes is taken over. */
ECC_MUST_CHECK int ecc_ask_alone(ecc_engine_t *self, uint32_t flow, int hook_number, ecc_hook_t hook, int64_t kind);

/* What a hook without a packet would see now, until the next call; none is called. */
const ecc_flow_env_t *ecc_ask_nothing(ecc_engine_t *self, uint32_t flow);

/* The two of which only the record and the header count. */
ECC_MUST_CHECK int ecc_ask_receive(ecc_engine_t *self, const ecc_packet_t *packet);
ECC_MUST_CHECK int ecc_ask_stop(ecc_engine_t *self, uint32_t flow);

#endif
