#ifndef ECC_REASSEMBLY_H
#define ECC_REASSEMBLY_H

/* The receiver's half of a transport: the data that it holds out of order, and the blocks that an ACK reports. */

#include "core/state.h"

/* S-90: receives a packet; may_delay: whether its ACK may be delayed (S-92). */
ECC_MUST_CHECK int ecc_reassembly_receive(ecc_engine_t *self, const ecc_packet_t *packet, bool *may_delay);

/* S-91: writes the report of an ACK. */
ECC_MUST_CHECK int ecc_reassembly_write_ack(ecc_engine_t *self, const ecc_packet_t *packet);

#endif
