#ifndef ECC_TRANSPORT_H
#define ECC_TRANSPORT_H

/*
 * Loss recovery (S-73 to S-92): what a reliable flow's sender knows and sends next, and what its receiver holds. State
 * only: sender.c sends packets, receiver.c sends ACKs.
 */

#include "core/state.h"

/* Rules that choose the next segment (S-77), in the order in which they are tried. */
enum ecc_segment_rule {
    ECC_RULE_NONE, /* new data of a flow without a transport */
    ECC_RULE_FIRST,
    ECC_RULE_LOST,
    ECC_RULE_NEW,
    ECC_RULE_UNSACKED,
    ECC_RULE_RESCUE,
    ECC_RULE_NEW_PROBE, /* a probe with new data (S-147) */
    ECC_RULE_PROBE
};

/* The next segment; small enough for registers. */
typedef struct {
    int64_t begin;
    int32_t size; /* bytes, 0 without a segment */
    enum ecc_segment_rule rule;
} ecc_segment_t;

static inline bool
ecc_transport_is_new(ecc_segment_t self)
{
    return self.rule == ECC_RULE_NONE || self.rule == ECC_RULE_NEW || self.rule == ECC_RULE_NEW_PROBE;
}

static inline bool
ecc_transport_is_probe(ecc_segment_t self)
{
    return self.rule == ECC_RULE_NEW_PROBE || self.rule == ECC_RULE_PROBE;
}

/* Effects of an ACK. */
typedef struct {
    int64_t acked;
    int64_t delivered; /* bytes newly acknowledged or sacked, with SACK */
    int64_t reported;  /* type 4: bytes newly acknowledged that on_ack counts (S-217) */
    bool finds_loss;
    bool begins_recovery;
    bool is_persistent; /* type 4: persistent congestion (RFC 9002, 7.6) */
    bool starts_timer;
} ecc_ack_effect_t;

void ecc_transport_init(ecc_engine_t *self, uint32_t flow);
void ecc_transport_free(ecc_transport_t *self, ecc_memory_t *memory);

/* S-76: bytes that may still be in the network, of a transport of type 1 or 2. */
static inline int64_t
ecc_transport_in_flight_by_ranges(const ecc_engine_t *self, uint32_t flow)
{
    const ecc_transport_t *transport = &self->transports[flow];
    int64_t below = transport->lost_below;
    int64_t bytes = transport->snd_nxt - below + transport->high_rxt - transport->snd_una - transport->pipe_credit;

    /* above lost_below there are fewer ranges than the reordering threshold */
    for (uint32_t id = ecc_ranges_last(&transport->sacked); id != ECC_NO_RANGE;
         id = ecc_ranges_prev(&transport->sacked, id)) {
        const ecc_range_t *range = ecc_ranges_at(&transport->sacked, id);
        if (range->end <= below) {
            break;
        }
        bytes -= range->end - (range->begin > below ? range->begin : below);
    }
    return bytes > 0 ? bytes : 0;
}

/* S-76: bytes that may still be in the network. */
static inline int64_t
ecc_transport_in_flight(const ecc_engine_t *self, uint32_t flow)
{
    if (self->flows[flow].has_rack || self->flows[flow].has_quic) {
        return self->flows[flow].has_rack ? self->racks[flow].in_flight : self->quics[flow].in_flight;
    }
    return ecc_transport_in_flight_by_ranges(self, flow);
}

/* S-81: updates the mean deviation with an RTT [s] that is not yet smoothed. */
void ecc_transport_measure(ecc_transport_t *self, const ecc_flow_state_t *flow, double rtt);

/* S-88: the timeout after the first ACK, without backoff. */
ecc_ps_t ecc_transport_rto(const ecc_transport_t *self, const ecc_flow_state_t *flow);

/* S-77.3: the next new data, as far as written; of size 0 without any. */
static inline ecc_segment_t
ecc_transport_new(const ecc_transport_t *self, const ecc_flow_state_t *flow, int64_t written)
{
    int64_t unsent = written - self->snd_nxt;
    int64_t size = unsent < flow->packet_size ? unsent : flow->packet_size;

    if (self->receiver_window > 0 && self->snd_nxt + size - self->snd_una > self->receiver_window) {
        size = 0;
    }
    return (ecc_segment_t) { self->snd_nxt, (int32_t) size, ECC_RULE_NEW };
}

/* S-77: the next segment, also if data is lost or was retransmitted. */
ecc_segment_t ecc_transport_next_in_recovery(
    const ecc_transport_t *self, const ecc_flow_state_t *flow, int64_t written);

/* S-77: the next segment; without losses it is new data. */
static inline ecc_segment_t
ecc_transport_next(const ecc_transport_t *self, const ecc_flow_state_t *flow, int64_t written)
{
    bool has_losses = self->retransmit_first || self->recovering || self->high_rxt < self->lost_below;

    return has_losses ? ecc_transport_next_in_recovery(self, flow, written) : ecc_transport_new(self, flow, written);
}

/* S-79: the record of a segment that was sent. */
void ecc_transport_note_sent(ecc_transport_t *self, ecc_segment_t segment);

/* S-82 to S-86, S-89: the effects of an ACK and of a timeout. */
ECC_MUST_CHECK int ecc_transport_receive_ack(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect);
void ecc_transport_time_out(ecc_transport_t *self);

/* S-164: begins a reduction for a recovery, or a further response, at an ACK that delivers so many bytes. */
void ecc_transport_begin_prr(ecc_engine_t *self, uint32_t flow, int64_t delivered);

/* S-166: begins a reduction for marks, which lasts until all outstanding data is acknowledged. */
void ecc_transport_begin_prr_for_marks(ecc_engine_t *self, uint32_t flow, int64_t delivered);

/* Whether the reduction limits what a flow sends (S-165, S-166). */
static inline bool
ecc_transport_reduces(const ecc_engine_t *self, uint32_t flow)
{
    return self->flows[flow].uses_prr /* otherwise there may be no transport */
        && (self->transports[flow].recovering || self->transports[flow].snd_una < self->prrs[flow].until);
}

/* S-165: bytes that may be sent until the next ACK, with the window that hooks have set. */
void ecc_transport_update_prr(ecc_engine_t *self, uint32_t flow, const ecc_ack_effect_t *effect);

/* sends, receives: the halves that this engine has; their agreement is checked if it has both. */
ECC_MUST_CHECK int ecc_transport_verify(
    const ecc_transport_t *self, const ecc_flow_state_t *flow, bool sends, bool receives);

#endif
