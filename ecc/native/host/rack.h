#ifndef ECC_RACK_H
#define ECC_RACK_H

/*
 * RACK-TLP (RFC 8985), what transports of type 3 know beside their transport (S-144 to S-154): each segment that is
 * not yet acknowledged, when it was sent last, and what the sender waits for. State only: sender.c sends and sets the
 * timer.
 */

#include "host/transport.h"

/* Recoveries without a duplicate after which the reordering window is at its minimum again. */
#define ECC_RACK_PERSISTENCE 16

static inline bool
ecc_rack_is_repairing(const ecc_rack_t *self, const ecc_transport_t *transport)
{
    return transport->recovering || self->timed_out;
}

void ecc_rack_init(ecc_engine_t *self, uint32_t flow);
void ecc_rack_free(ecc_rack_t *self, ecc_memory_t *memory);

/* S-147: the next segment if one is lost, or if it is a probe. */
ecc_segment_t ecc_rack_next_special(const ecc_engine_t *self, uint32_t flow, int64_t written);

/* S-147: the next segment, and the record of one that was sent. */
static inline ecc_segment_t
ecc_rack_next(const ecc_engine_t *self, uint32_t flow, int64_t written)
{
    const ecc_rack_t *rack = &self->racks[flow];

    return rack->lost_bytes > 0 || rack->wants_probe
        ? ecc_rack_next_special(self, flow, written)
        : ecc_transport_new(&self->transports[flow], &self->flows[flow], written);
}

ECC_MUST_CHECK int ecc_rack_note_sent(ecc_engine_t *self, uint32_t flow, ecc_segment_t segment);

/* S-150, S-163: finds the segments that are lost by now; returns whether a recovery or a further response begins. */
bool ecc_rack_find_losses(ecc_engine_t *self, uint32_t flow);
void ecc_rack_time_out(ecc_engine_t *self, uint32_t flow);

/* S-153: whether a flow may wait to send a probe, and for how long. */
bool ecc_rack_may_probe(const ecc_engine_t *self, uint32_t flow);
ecc_ps_t ecc_rack_probe_timeout(const ecc_engine_t *self, uint32_t flow);

/*
 * Segments tile the stream from snd_una to snd_nxt; list, heap and sums agree with their states; and the receiver has
 * what is sacked, if it is in this engine (`receives`).
 */
ECC_MUST_CHECK int ecc_rack_verify(const ecc_engine_t *self, uint32_t flow, bool receives);

#endif
