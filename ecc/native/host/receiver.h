#ifndef ECC_RECEIVER_H
#define ECC_RECEIVER_H

/*
 * The receiver of a flow whose ACKs may be lost, reordered or delayed: it finds out itself what is missing, and its
 * ACKs report that (S-62 to S-72). Elsewhere every ACK acknowledges its packet, and the sender sees the gaps.
 */

#include "core/state.h"

void ecc_receiver_init(ecc_engine_t *self, uint32_t flow);

/* Accounts for a packet (S-66; not of a reliable flow), and sends its ACK or, if it may be delayed, keeps it (S-69). */
ECC_MUST_CHECK int ecc_receiver_receive(ecc_engine_t *self, uint32_t packet, bool may_delay);

/* S-136: a trimmed packet: its data is missing, and an ACK says so at once. */
ECC_MUST_CHECK int ecc_receiver_receive_trimmed(ecc_engine_t *self, uint32_t packet);

/* FLUSH: the delayed ACK is sent. */
ECC_MUST_CHECK int ecc_receiver_flush(ecc_engine_t *self, uint32_t flow);

/* An ACK that is delayed, if there is one, is sent now. */
ECC_MUST_CHECK int ecc_receiver_send_delayed(ecc_engine_t *self, uint32_t flow);

/* An ACK enters its pure delay. */
ECC_MUST_CHECK int ecc_receiver_return(ecc_engine_t *self, uint32_t packet);

/*
 * S-48: what an ACK reports to its sender; missing: bytes that the sender did not know of, if front is beyond expected.
 */
ecc_ack_info_t ecc_receiver_read_ack(ecc_engine_t *self, const ecc_packet_t *packet);

/* The holes of the receiver of a flow. */
static inline ecc_hole_t *
ecc_receiver_holes(const ecc_engine_t *self, uint32_t flow)
{
    return self->holes + (size_t) flow * self->max_holes;
}

/* Holes are in order, and those before have been passed more often. */
ECC_MUST_CHECK int ecc_receiver_verify(const ecc_engine_t *self, uint32_t flow);

#endif
