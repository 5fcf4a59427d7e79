#ifndef ECC_ECN_H
#define ECC_ECN_H

/* Explicit congestion notification (S-105 to S-111): marks in packets, and what ACKs report of them. */

#include "core/state.h"

/* The following are of flows whose packets can be marked. */

/* A packet leaves the sender. */
void ecc_ecn_send(ecc_engine_t *self, const ecc_packet_t *packet, bool is_new);

/* Whether a packet at its receiver ends the wait of a delayed ACK, which is then sent before the packet is received. */
bool ecc_ecn_ends_delay(const ecc_engine_t *self, const ecc_packet_t *packet);

/* The receiver notes the mark of a packet, before all else. */
void ecc_ecn_receive(ecc_engine_t *self, const ecc_packet_t *packet);

/* A packet becomes an ACK. */
void ecc_ecn_write_ack(const ecc_engine_t *self, const ecc_packet_t *packet);

/* An ACK reaches the sender, and acknowledges so many bytes: writes what on_ack sees of marks. */
void ecc_ecn_read_ack(ecc_engine_t *self, const ecc_packet_t *packet, int64_t acked);

/* What a packet of a checkpoint says of marks is possible. */
ECC_MUST_CHECK int ecc_ecn_verify(const ecc_engine_t *self, uint32_t flow, const ecc_ecn_t *ecn, bool is_ack);

#endif
