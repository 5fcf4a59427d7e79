#ifndef ECC_QUIC_RECEIVER_H
#define ECC_QUIC_RECEIVER_H

/* Packet numbers at a receiver with a transport of type 4, and what its ACKs report (S-215). */

#include "core/state.h"

/* Receives a packet number; may_delay: whether the ACK may be delayed. */
ECC_MUST_CHECK int ecc_quic_receiver_receive(ecc_engine_t *self, const ecc_packet_t *packet, bool *may_delay);

/* Writes the report of an ACK. */
ECC_MUST_CHECK int ecc_quic_receiver_write_ack(ecc_engine_t *self, const ecc_packet_t *packet);

#endif
