#ifndef ECC_QUIC_ACKS_H
#define ECC_QUIC_ACKS_H

/* ACKs at a sender with a transport of type 4 (S-216, S-217). */

#include "host/transport.h"

/* S-216, S-217: the effects of an ACK. */
ECC_MUST_CHECK int ecc_quic_acks_receive(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect);

#endif
