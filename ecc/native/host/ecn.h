#ifndef ECC_ECN_H
#define ECC_ECN_H

/* Explicit congestion notification (S-105 to S-111): marks in packets, and what ACKs report of them. */

#include "core/state.h"

/* A hook of a link marks a packet, or it was marked before, or cannot be: whether it did. */
bool ecc_ecn_mark(const ecc_engine_t *self, unsigned char *header);

/* The following are of flows whose packets can be marked. */

/* A packet leaves the sender. */
void ecc_ecn_send(ecc_engine_t *self, const ecc_packet_t *packet, bool is_new);

/* The receiver looks at a packet, before all else. */
ECC_MUST_CHECK int ecc_ecn_receive(ecc_engine_t *self, const ecc_packet_t *packet);

/* A packet becomes an ACK. */
void ecc_ecn_write_ack(const ecc_engine_t *self, const ecc_packet_t *packet);

/* An ACK reaches the sender, and acknowledges so many bytes: writes what on_ack sees of marks. */
void ecc_ecn_read_ack(ecc_engine_t *self, const ecc_packet_t *packet, int64_t acked);

/* What a packet of a checkpoint says of marks is possible. */
ECC_MUST_CHECK int ecc_ecn_verify(const ecc_engine_t *self, uint32_t flow, const ecc_ecn_t *ecn, bool is_ack);

#endif
