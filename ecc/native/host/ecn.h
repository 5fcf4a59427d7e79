#ifndef ECC_ECN_H
#define ECC_ECN_H

/* Explicit congestion notification (S-105 to S-111): marks in packets, and reports in ACKs. */

#include "core/state.h"

/* The functions below are for flows whose packets can be marked. */

/* Sets codepoint and CWR of a packet that leaves the sender. */
void ecc_ecn_send(ecc_engine_t *self, const ecc_packet_t *packet, bool is_new);

/* Whether a packet at its receiver ends the wait of a delayed ACK, which is then sent before the packet is received. */
bool ecc_ecn_ends_delay(const ecc_engine_t *self, const ecc_packet_t *packet);

/* Notes the mark of a packet at its receiver, before all else. */
void ecc_ecn_receive(ecc_engine_t *self, const ecc_packet_t *packet);

/* Writes codepoint and report of a packet that becomes an ACK. */
void ecc_ecn_write_ack(const ecc_engine_t *self, const ecc_packet_t *packet);

/* Reads the report of an ACK that acknowledges `acked` bytes, for on_ack; is_persistent: that of ecc_ack_effect_t. */
void ecc_ecn_read_ack(ecc_engine_t *self, const ecc_packet_t *packet, int64_t acked, bool is_persistent);

/* Whether codepoint and report of a packet of a checkpoint are possible. */
ECC_MUST_CHECK int ecc_ecn_verify(const ecc_engine_t *self, uint32_t flow, const ecc_ecn_t *ecn, bool is_ack);

#endif
