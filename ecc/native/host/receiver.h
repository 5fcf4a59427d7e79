#ifndef ECC_RECEIVER_H
#define ECC_RECEIVER_H

/*
 * The receiver of a flow whose ACKs may be lost, reordered or delayed: it finds missing data itself, and its ACKs
 * report it (S-62 to S-72). For other flows every ACK acknowledges its packet, and the sender sees the gaps.
 */

#include "core/state.h"

void ecc_receiver_init(ecc_engine_t *self, uint32_t flow);

/* Accounts for a packet (S-66; not of a reliable flow), and sends its ACK or, if it may be delayed, keeps it (S-69). */
ECC_MUST_CHECK int ecc_receiver_receive(ecc_engine_t *self, uint32_t packet, bool may_delay);

/* S-136: receives a trimmed packet, whose data is missing; an ACK reports that at once. */
ECC_MUST_CHECK int ecc_receiver_receive_trimmed(ecc_engine_t *self, uint32_t packet);

/* FLUSH: the delayed ACK is sent. */
ECC_MUST_CHECK int ecc_receiver_flush(ecc_engine_t *self, uint32_t flow);

/* Sends the delayed ACK now, if there is one. */
ECC_MUST_CHECK int ecc_receiver_send_delayed(ecc_engine_t *self, uint32_t flow);

/* An ACK enters its pure delay. */
ECC_MUST_CHECK int ecc_receiver_return(ecc_engine_t *self, uint32_t packet);

/* S-48: reads the report of an ACK; missing: bytes that the sender did not know of, if front is beyond expected. */
ecc_ack_info_t ecc_receiver_read_ack(ecc_engine_t *self, const ecc_packet_t *packet);

/* The holes of the receiver of a flow. */
static inline ecc_hole_t *
ecc_receiver_holes(const ecc_engine_t *self, uint32_t flow)
{
    return self->holes + (size_t) flow * self->max_holes;
}

/* Whether holes are in order, and earlier holes have been passed more often. */
ECC_MUST_CHECK int ecc_receiver_verify(const ecc_engine_t *self, uint32_t flow);

#endif
