#ifndef ECC_RECEIVER_H
#define ECC_RECEIVER_H

/*
 * The receiver of a flow whose ACKs may be lost, late, out of order or few: it finds out itself what is missing, and its
 * ACKs say so. (Elsewhere every ACK stands for its packet, and the sender sees the gaps.)
 */

#include "state.h"

/* Whether a flow needs one, where its links are laid at `hops`. */
bool ecc_receiver_is_needed(const ecc_engine_t *self, const ecc_flow_t *is, const uint32_t *hops);

void ecc_receiver_init(ecc_engine_t *self, uint32_t flow);

/* Settles what a packet that came shows (without a transport), and sends its ACK or, if it may wait, keeps it. */
ECC_MUST_CHECK int ecc_receiver_take(ecc_engine_t *self, uint32_t packet, bool may_wait);

/* The ACK that has been kept sets out. */
ECC_MUST_CHECK int ecc_receiver_flush(ecc_engine_t *self, uint32_t flow);

/* Holes lie in their order, and more packets have passed the ones before. */
ECC_MUST_CHECK int ecc_receiver_verify(const ecc_receiver_t *self);

/* An ACK sets out on its pure delay. */
ECC_MUST_CHECK int ecc_receiver_return(ecc_engine_t *self, uint32_t packet);

/* The sender hears an ACK; missing: bytes that it did not know of, if front is beyond what is settled. */
ecc_news_t ecc_receiver_hear(ecc_engine_t *self, const ecc_packet_t *packet);

#endif
