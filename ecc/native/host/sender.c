/*
 * The sender of a flow: TRY-SEND and EMIT (S-52 to S-54). A reliable flow takes the next segment from transport.c or
 * rack.c; all else is the same.
 *
 * Not here: the state of loss recovery (transport.c), ACKs (acks.c), and timeouts (timer.c, timeout.c).
 *
 * Invariants (ecc_sender_verify): no more was taken than has been written, and where a SEND is pending, there is
 * something to send.
 */

#include "host/sender.h"

#include <assert.h>
#include <string.h>

#include "core/path.h"
#include "core/spray.h"
#include "link/phase.h"
#include "link/transit.h"
#include "host/alarms.h"
#include "host/ecn.h"
#include "host/flow_hooks.h"
#include "host/rack.h"
#include "host/timer.h"
#include "host/transport.h"

/* in_flight, as TRY-SEND and hooks see it (S-38, S-76). */
static inline int64_t
in_flight(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return flow->reliable ? ecc_transport_in_flight(self, index) : ecc_state_in_flight(flow);
}

/* Whether the window has no room for a packet (S-52.1, S-78). */
static inline bool
is_full(const ecc_engine_t *self, uint32_t index, int64_t size)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t bytes = in_flight(self, index);

    if (flow->uses_prr && ecc_transport_reduces(self, index)) {
        return bytes > 0 && size > self->prrs[index].credit;
    }
    return (bytes > 0 || !flow->reliable) && (double) (bytes + size) > flow->window;
}

/* S-52, S-77: the next segment, if `written` bytes are written; of size 0 without one. */
static inline ecc_segment_t
next_of(const ecc_engine_t *self, uint32_t index, int64_t written)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_segment_t segment = { flow->sent, flow->packet_size, ECC_RULE_NONE };

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

/* S-162: the next segment, or that of the next write; `due` is the time from which on it exists. */
static inline ecc_segment_t
next(const ecc_engine_t *self, uint32_t index, ecc_ps_t *due)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_segment_t segment = next_of(self, index, ecc_state_written(flow, self->now));

    *due = self->now;
    if (segment.size <= 0 && flow->has_writes) {
        ecc_ps_t period = flow->spec->write_period;
        *due = ecc_clock_add(flow->start, ((self->now - flow->start) / period + 1) * period);
        segment = next_of(self, index, ecc_state_written(flow, *due));
    }
    return segment;
}

/* S-79, S-80, S-147: account for a sent segment, and start timers. */
static int
note_sent(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];
    bool was_idle = transport->snd_una == transport->snd_nxt;
    int ret = 0;

    if (flow->has_rack) {
        ret = ecc_rack_note_sent(self, index, segment);
    } else {
        ecc_transport_note_sent(transport, segment);
    }
    if (flow->uses_prr && ecc_transport_reduces(self, index)) {
        self->prrs[index].out += segment.size;
        self->prrs[index].credit -= segment.size;
    }
    if (!ecc_transport_is_new(segment)) {
        flow->lost += segment.size;
        flow->expected += segment.size;
    }
    if (flow->has_rack) {
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

/* Makes a packet of a segment, with a header of zeros, and counts it as in the network. */
static ECC_HOT int
new_packet(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, uint32_t *id, bool plain)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_packet_t *packet;
    int ret = ecc_packets_allocate(&self->packets, &self->memory, id);

    if (ret != 0) {
        return ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, self->packets.n_used);
    }
    packet = ecc_packets_at(&self->packets, *id);
    packet->sent = self->now;
    packet->offset = segment.begin;
    packet->flow = index;
    packet->size = segment.size;
    packet->position = flow->position;
    memset(ecc_packets_header(packet), 0, self->header_size);
    if (plain) {
        return 0;
    }
    if (flow->needs_receiver) {
        ecc_state_ack_info(self, packet)->front = self->receivers[index].sender_base;
    }
    if (flow->uses_sack) {
        ecc_state_ack_info(self, packet)->sack = ECC_NO_SACK;
    }
    if (flow->can_be_marked) {
        ecc_ecn_send(self, packet, ecc_transport_is_new(segment));
    }
    if (index >= self->n_flows) {
        flow->n_packets++;
    }
    return 0;
}

/* S-52.2: the pacer releases the next packet a gap after this one. */
static ECC_HOT void
note_pace(ecc_engine_t *self, ecc_flow_state_t *flow, int32_t size, bool plain)
{
    int32_t paced_size = !plain && flow->has_header_bytes ? size + flow->spec->header_bytes : size;

    flow->last_sent_at = self->now;
    if (flow->last_size != paced_size) {
        flow->last_size = paced_size;
        flow->pacing_gap = flow->rate > 0.0 ? ecc_clock_tx(flow->last_size, flow->rate) : 0;
    }
}

/* Accounts for a sent packet: bytes, the size of the next packet, and the retransmission timer. */
static ECC_HOT int
account(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, bool plain)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = 0;

    if (ecc_state_in_flight(flow) == 0) {
        flow->timer_start = self->now;
    }
    flow->sent += segment.size;
    if (!plain && flow->reliable) {
        ret = note_sent(self, index, segment);
    }
    if (!plain && flow->draws_sizes) {
        bool opening = flow->srtt == 0.0 && flow->spec->opening_size > 0;
        flow->full_size = ecc_state_full_size(flow);
        flow->packet_size = opening ? flow->packet_size : flow->full_size;
    }
    if (!flow->timeout_pending) {
        ecc_timer_begin(self, index);
    }
    return ret == 0 ? 0 : ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, self->racks[index].count);
}

/* S-177: calls on_restart before new data with nothing in flight. */
ECC_COLD static int
restart(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    if (flow->last_size == 0 || flow->n_timeouts > 0) {
        return 0;
    }
    self->idle = ecc_clock_seconds(self->now - flow->last_sent_at);
    self->rto = ecc_clock_seconds(ecc_timer_wait(self, index));
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_RESTART, flow->spec->on_restart, 0);
    self->idle = 0.0;
    self->rto = 0.0;
    return ret;
}

/* EMIT (S-54) without the access line, of a flow that is plain, or of any. */
static ECC_HOT int
leave(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, uint32_t *id, bool plain)
{
    ecc_flow_state_t *flow = &self->flows[index];
    bool is_new = plain || ecc_transport_is_new(segment);
    int ret = 0;

    if (!plain && ecc_state_in_flight(flow) == 0 && flow->has_restart && is_new) {
        ret = restart(self, index);
    }
    if (ret == 0) {
        ret = new_packet(self, index, segment, id, plain);
    }
    if (ret != 0) {
        return ret;
    }
    assert(segment.size > 0);
    note_pace(self, flow, segment.size, plain);
    if (flow->jitters) {
        ecc_phase_sent(self, index);
    }
    ret = ecc_flow_hooks_with_packet(self, ECC_FLOW_ON_SEND, flow->on_send, ecc_packets_at(&self->packets, *id),
        is_new ? ECC_SEGMENT_NEW : ECC_SEGMENT_RETRANSMITTED, plain);
    if (ret != 0) {
        return ret;
    }
    ret = account(self, index, segment, plain);
    if (ret != 0) {
        return ret;
    }
    if (!plain && flow->has_alarms && ecc_alarms_has_counted(self, index)) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_COUNT, flow->spec->on_count, 0);
    }
    return ret;
}

/* EMIT (S-54), of a flow that is plain, or of any. */
static ECC_HOT int
emit(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, bool plain)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = ECC_NO_PACKET;
    int ret = leave(self, index, segment, &id, plain);

    if (ret != 0) {
        return ret;
    }
    if (flow->access_delay == 0) {
        if (!plain && flow->sprays) {
            ecc_packets_at(&self->packets, id)->position = ecc_spray_next(self, index);
        }
        return ecc_transit_arrive(self, id);
    }
    return ecc_path_access(self, index, id);
}

int
ecc_sender_leave(ecc_engine_t *self, uint32_t index, uint32_t *id)
{
    ecc_ps_t written;
    ecc_segment_t segment = next(self, index, &written);

    *id = ECC_NO_PACKET;
    return segment.size > 0 && written == self->now ? leave(self, index, segment, id, false) : 0;
}

/* S-52.1: whether a segment exists, and window and rate allow it at some time. */
static inline bool
may_leave(const ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_free = segment.rule == ECC_RULE_FIRST || ecc_transport_is_probe(segment);

    return segment.size > 0 && !(flow->window > 0.0 && !is_free && is_full(self, index, segment.size))
        && (flow->window > 0.0 || flow->rate > 0.0);
}

/* S-176: the reason that no segment may leave. */
static inline uint8_t
limit(const ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->window > 0.0
        && (segment.size > 0 || (double) (in_flight(self, index) + flow->packet_size) > flow->window)) {
        return ECC_LIMIT_WINDOW;
    }
    return segment.size > 0 ? ECC_LIMIT_PACER : ECC_LIMIT_DATA;
}

/* TRY-SEND (S-52), unless it is clear that nothing changes; `released`: in a SEND (S-188). */
static int
try_send(ecc_engine_t *self, uint32_t index, bool released)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t send_node = self->base[ECC_EVENT_SEND] + index;

    for (int n_sent = 0;; n_sent++) {
        ecc_ps_t written;
        ecc_segment_t segment = next(self, index, &written);
        int ret;
        flow->changed = false;
        if (!may_leave(self, index, segment)) {
            flow->limited_by = limit(self, index, segment) & 3u;
            ecc_calendar_cancel(&self->fast, send_node);
            return 0;
        }
        if (flow->jitters && (flow->rate > 0.0 || !released || written > self->now)
            && ecc_phase_is_drawn(self, index, segment.size)) {
            flow->limited_by = written > self->now ? ECC_LIMIT_DATA : ECC_LIMIT_PACER;
            ecc_calendar_move(&self->fast, send_node, ecc_phase_due(self, index, segment.size, written));
            return 0;
        }
        if (flow->rate > 0.0) {
            flow->limited_by = written > self->now ? ECC_LIMIT_DATA : ECC_LIMIT_PACER;
            ecc_ps_t due = flow->last_size == 0 ? self->now : ecc_clock_add(flow->last_sent_at, flow->pacing_gap);
            ecc_calendar_move(&self->fast, send_node, due > written ? due : written);
            return 0;
        }
        if (written > self->now) {
            flow->limited_by = ECC_LIMIT_DATA;
            ecc_calendar_move(&self->fast, send_node, written);
            return 0;
        }
        if (n_sent == ECC_MAX_BURST) { /* S-53: bound the work of an event */
            flow->limited_by = ECC_LIMIT_PACER;
            ecc_calendar_move(&self->fast, send_node, self->now);
            return 0;
        }
        ecc_calendar_cancel(&self->fast, send_node);
        atomic_store_explicit(
            &self->last_event, atomic_load_explicit(&self->last_event, memory_order_relaxed) - 1, memory_order_relaxed);
        ret = emit(self, index, segment, false);
        if (ret != 0) {
            return ret;
        }
    }
}

int
ecc_sender_try_send(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (!flow->active
        || (!flow->changed && !flow->reliable && !flow->has_writes
            && ecc_calendar_pending(&self->fast, self->base[ECC_EVENT_SEND] + index))) {
        return 0;
    }
    return try_send(self, index, false);
}

/* TRY-SEND of a flow that is plain. */
int
ecc_sender_try_send_plain(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t node = self->base[ECC_EVENT_SEND] + index;

    if (!flow->active || (!flow->changed && ecc_calendar_pending(&self->fast, node))) {
        return 0;
    }
    if (flow->window == 0.0 && flow->rate > 0.0 && flow->last_size > 0 && !flow->jitters) {
        ecc_ps_t due = ecc_clock_add(flow->last_sent_at, flow->pacing_gap);
        flow->changed = false;
        ecc_calendar_move(&self->fast, node, due > self->now ? due : self->now);
        return 0;
    }
    return try_send(self, index, false);
}

/* SEND of a flow that is plain; TRY-SEND is short if the flow is paced by its rate alone. */
static int
send_plain(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = emit(self, index, (ecc_segment_t) { flow->sent, flow->packet_size, ECC_RULE_NONE }, true);

    if (ret != 0) {
        return ret;
    }
    if (flow->window == 0.0 && flow->rate > 0.0 && !flow->jitters) {
        flow->changed = false;
        ecc_calendar_insert(
            &self->fast, self->base[ECC_EVENT_SEND] + index, ecc_clock_add(flow->last_sent_at, flow->pacing_gap));
        return 0;
    }
    return try_send(self, index, true);
}

int
ecc_sender_send(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t due;
    ecc_segment_t segment;
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_SEND, index, flow->sent);
    if (flow->is_plain) {
        return send_plain(self, index);
    }
    segment = next(self, index, &due);
    if (flow->has_writes && (due > self->now || !may_leave(self, index, segment))) { /* S-162: it has grown */
        return try_send(self, index, true);
    }
    ret = emit(self, index, segment, false);
    return ret != 0 ? ret : try_send(self, index, true);
}

int
ecc_sender_verify(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t due;
    bool valid = ecc_state_taken(flow) <= ecc_state_written(flow, self->now)
        && (flow->limited_by != ECC_LIMIT_WINDOW || flow->window > 0.0);

    /* S-162: a SEND that waits for a write may find the window of the receiver full. */
    valid = valid
        && (!ecc_calendar_pending(&self->fast, self->base[ECC_EVENT_SEND] + index)
            || (flow->active
                && ((flow->has_writes && flow->reliable && self->transports[index].receiver_window > 0)
                    || next(self, index, &due).size > 0)));
    return valid ? 0 : ECC_ERR_BROKEN;
}
