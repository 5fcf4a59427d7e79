#ifndef ECC_RACK_ACKS_H
#define ECC_RACK_ACKS_H

/* RACK-TLP at an ACK (S-148 to S-152). */

#include "host/rack.h"

/* S-148 to S-152: an ACK has reached the sender of a flow with a transport of type 3. */
ECC_MUST_CHECK int ecc_rack_acks_receive(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect);

#endif
