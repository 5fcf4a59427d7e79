#ifndef ECC_QUIC_H
#define ECC_QUIC_H

/*
 * QUIC's loss recovery (RFC 9002): the state of a sender with a transport of type 4 in addition to its ecc_transport_t
 * (S-211 to S-220). State only: sender.c sends and sets the timer.
 */

#include "host/transport.h"

#define ECC_QUIC_PROBES 2 /* packets sent at a probe timeout (RFC 9002, 6.2.4) */

/* The packet with a number from `first` to below `next`. */
static inline ecc_quic_packet_t *
ecc_quic_packet(const ecc_quic_t *self, int64_t number)
{
    return &self->items[(uint64_t) number & (self->room - 1)];
}

void ecc_quic_init(ecc_engine_t *self, uint32_t flow);
void ecc_quic_free(ecc_quic_t *self, ecc_memory_t *memory);

/* Appends the packet with the number `next`. */
ECC_MUST_CHECK int ecc_quic_append(ecc_quic_t *self, ecc_memory_t *memory, ecc_quic_packet_t packet);

/* S-213, S-214: the next segment, and the record of one that was sent. */
ecc_segment_t ecc_quic_next(const ecc_engine_t *self, uint32_t flow, int64_t written);
ECC_MUST_CHECK int ecc_quic_note_sent(ecc_engine_t *self, uint32_t flow, ecc_segment_t segment);

/* Removes acknowledged data from the beginning of the lost data. */
void ecc_quic_trim_lost(ecc_quic_t *self, const ecc_transport_t *transport);

/* S-218, S-220: finds the packets that are lost by now, and whether a recovery begins or congestion is persistent. */
ECC_MUST_CHECK int ecc_quic_find_losses(ecc_engine_t *self, uint32_t flow, ecc_ack_effect_t *effect);

/* S-217: a congestion event begins a recovery. */
void ecc_quic_begin_recovery(ecc_engine_t *self, uint32_t flow);

/* S-219: the probe timeout after the first RTT sample, without backoff; and probes are requested. */
ecc_ps_t ecc_quic_probe_timeout(const ecc_engine_t *self, uint32_t flow);
void ecc_quic_request_probes(ecc_quic_t *self);

/* sends, receives: the halves that this engine has. */
ECC_MUST_CHECK int ecc_quic_verify(
    const ecc_quic_t *self, const ecc_transport_t *transport, ecc_ps_t now, bool sends, bool receives);

#endif
