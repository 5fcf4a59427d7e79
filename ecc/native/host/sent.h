#ifndef ECC_SENT_H
#define ECC_SENT_H

/*
 * The record of a segment that a reliable flow has sent, and the timers that it starts (S-79, S-80, S-147).
 *
 * Not here: which segment is sent (next_segment.h), and when (sender.c).
 */

#include "host/quic.h"
#include "host/rack.h"
#include "host/timer.h"
#include "host/transport.h"

/* S-79, S-80: the same as ecc_sent_note, of a basic flow. */
static ECC_HOT void
ecc_sent_note_basic(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_transport_t *transport = &self->transports[index];
    bool was_idle = transport->snd_una == transport->snd_nxt;

    if (segment.rule == ECC_RULE_NEW) {
        transport->snd_nxt = segment.begin + segment.size;
    } else {
        ecc_transport_note_sent(transport, segment);
        self->flows[index].lost += segment.size;
        self->flows[index].expected += segment.size;
    }
    if (was_idle
        || (segment.rule != ECC_RULE_NEW && transport->uses_sack && transport->recovering
            && segment.begin < transport->recovery_point)) {
        ecc_timer_start(self, index);
    }
}

/* S-79, S-80, S-147: account for a sent segment, and start timers. */
static ECC_HOT int
ecc_sent_note(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, enum ecc_flow_kind kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];
    bool has_rack = kind == ECC_RACK || flow->has_rack;
    bool has_quic = kind == ECC_ANY && flow->has_quic;
    bool was_idle = transport->snd_una == transport->snd_nxt;
    int ret = 0;

    if (has_quic) {
        ret = ecc_quic_note_sent(self, index, segment);
    } else if (has_rack) {
        ret = ecc_rack_note_sent(self, index, segment);
    } else {
        ecc_transport_note_sent(transport, segment);
    }
    if (ecc_transport_reduces(self, index)) {
        self->prrs[index].out += segment.size;
        self->prrs[index].credit -= segment.size;
    }
    if (!ecc_transport_is_new(segment)) {
        flow->lost += segment.size;
        flow->expected += segment.size;
    }
    if (has_quic) {
        flow->timer_start = self->now;
        ecc_timer_await_packets(self, index);
        return ret;
    }
    if (has_rack) {
        if (was_idle || (!ecc_transport_is_new(segment) && segment.begin == transport->snd_una)) {
            ecc_timer_start(self, index);
        }
        if (ret == 0 && segment.rule == ECC_RULE_NEW) {
            ecc_timer_await_probe(self, index);
        }
        return ret;
    }
    if (was_idle
        || (transport->uses_sack && transport->recovering && segment.rule != ECC_RULE_NEW
            && segment.begin < transport->recovery_point)) {
        ecc_timer_start(self, index);
    }
    return ret;
}

#endif
