#ifndef ECC_ACKS_H
#define ECC_ACKS_H

/* ACKs at the sender of a flow (S-46 to S-48, S-82 to S-86). */

#include "host/transport.h"

/* ACK: an ACK or a control packet reaches the sender of a flow. */
ECC_MUST_CHECK int ecc_acks_receive(ecc_engine_t *self, uint32_t flow);

/* Responds to an ACK, or to the end of a wait, that finds losses: on_loss, and proportional rate reduction. */
ECC_MUST_CHECK int ecc_acks_respond(ecc_engine_t *self, uint32_t flow, const ecc_ack_effect_t *effect);

#endif
