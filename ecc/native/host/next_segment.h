#ifndef ECC_NEXT_SEGMENT_H
#define ECC_NEXT_SEGMENT_H

/*
 * The segment that a flow sends next, and the time from which on it exists (S-52, S-77, S-162). Code that each packet
 * runs is compiled for kinds of flows.
 *
 * Not here: whether window and rate allow it (sender.c).
 */

#include "core/state.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/transport.h"

/* S-52, S-77: the next segment, if `written` bytes are written; of size 0 without one. */
static inline ecc_segment_t
ecc_next_segment_of(const ecc_engine_t *self, uint32_t index, int64_t written)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_segment_t segment = { flow->sent, flow->packet_size, ECC_RULE_NONE };

    if (flow->has_quic) {
        return ecc_quic_next(self, index, written);
    }
    if (flow->has_rack) {
        return ecc_rack_next(self, index, written);
    }
    if (flow->reliable) {
        return ecc_transport_next(&self->transports[index], flow, written);
    }
    if (flow->size >= 0 || flow->has_writes) {
        int64_t owed = written - ecc_state_taken(flow);
        segment.size = owed < flow->packet_size ? (int32_t) owed : flow->packet_size;
    }
    return segment;
}

/* S-162: time of the next write; ECC_NEVER if there is none. */
static inline ecc_ps_t
ecc_next_segment_write(const ecc_engine_t *self, const ecc_flow_state_t *flow)
{
    ecc_ps_t period = flow->spec->write_period;
    int64_t n;

    if (flow->spec->n_writes == 0) {
        return ecc_clock_add(flow->start, ((self->now - flow->start) / period + 1) * period);
    }
    n = ecc_state_n_writes(self, flow, self->now);
    return n == flow->spec->n_writes ? ECC_NEVER
                                     : ecc_clock_add(flow->start, self->writes[flow->spec->first_write + n].time);
}

/* S-162: the next segment, or that of the next write; `due` is the time from which on it exists. */
static ECC_HOT ecc_segment_t
ecc_next_segment(const ecc_engine_t *self, uint32_t index, ecc_ps_t *due, enum ecc_flow_kind kind)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_segment_t segment;

    *due = self->now;
    if (kind == ECC_PLAIN) {
        return (ecc_segment_t) { flow->sent, flow->packet_size, ECC_RULE_NONE };
    }
    if (kind == ECC_BASIC) {
        return ecc_transport_next(&self->transports[index], flow, flow->size < 0 ? ECC_NO_END : flow->size);
    }
    if (kind == ECC_RACK) {
        return ecc_rack_next(self, index, flow->size < 0 ? ECC_NO_END : flow->size);
    }
    segment = ecc_next_segment_of(self, index, ecc_state_written(self, flow, self->now));
    if (segment.size <= 0 && flow->has_writes) {
        *due = ecc_next_segment_write(self, flow);
        segment = ecc_next_segment_of(self, index, ecc_state_written(self, flow, *due));
    }
    return segment;
}

#endif
