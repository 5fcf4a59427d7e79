#ifndef ECC_SENDER_H
#define ECC_SENDER_H

/* What a flow sends and when, and what its ACKs and its retransmission timer tell it. */

#include "state.h"

#define ECC_MOST_DOUBLINGS 6 /* of a timeout */

/* GO of the text. */
ECC_MUST_CHECK int ecc_sender_go(ecc_engine_t *self, uint32_t flow);

ECC_MUST_CHECK int ecc_sender_send(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_sender_ack(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_sender_timeout(ecc_engine_t *self, uint32_t flow);

/* A pending SEND has something to send. */
ECC_MUST_CHECK int ecc_sender_verify(const ecc_engine_t *self, uint32_t flow);

#endif
