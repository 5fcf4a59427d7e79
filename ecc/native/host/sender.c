/*
 * The sender of a flow: TRY-SEND and EMIT (S-52 to S-54). A reliable flow takes the next segment from transport.c,
 * rack.c or quic.c; all else is the same.
 *
 * Not here: the state of loss recovery (transport.c), the credit of paced windows (pacer.c), ACKs (acks.c), and
 * timeouts (timer.c, timeout.c).
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
#include "host/next_segment.h"
#include "host/pacer.h"
#include "host/sent.h"

/* in_flight, as TRY-SEND and hooks see it (S-38, S-76). */
static ECC_HOT int64_t
in_flight(const ecc_engine_t *self, uint32_t index, enum ecc_flow_kind kind)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (kind == ECC_BASIC) {
        return ecc_transport_in_flight_by_ranges(self, index);
    }
    if (kind == ECC_RACK) {
        return self->racks[index].in_flight;
    }
    return kind == ECC_ANY && flow->reliable ? ecc_transport_in_flight(self, index) : ecc_state_in_flight(flow);
}

/* Whether the window has no room for a packet (S-52.1, S-78). */
static ECC_HOT bool
is_full(const ecc_engine_t *self, uint32_t index, int64_t size, enum ecc_flow_kind kind)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t bytes = in_flight(self, index, kind);

    if ((kind == ECC_ANY || kind == ECC_RACK) && ecc_transport_reduces(self, index)) {
        return bytes > 0 && size > self->prrs[index].credit;
    }
    return (bytes > 0 || kind == ECC_PLAIN || (kind == ECC_ANY && !flow->reliable))
        && (double) (bytes + size) > flow->window;
}

/* Makes a packet of a segment, with a header of zeros, and counts it as in the network. */
static ECC_HOT int
new_packet(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, uint32_t *id, enum ecc_flow_kind kind)
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
    if (self->header_size > 0) {
        memset(ecc_packets_header(packet), 0, self->header_size);
    }
    if (kind == ECC_PLAIN) {
        return 0;
    }
    if (kind == ECC_ANY && flow->has_quic) {
        ecc_state_ack_info(self, packet)->front = self->quics[index].next;
    } else if (kind == ECC_ANY && flow->needs_receiver) {
        ecc_state_ack_info(self, packet)->front = self->receivers[index].sender_base;
    }
    if (flow->uses_sack) {
        ecc_state_ack_info(self, packet)->sack = ECC_NO_SACK;
    }
    if (kind == ECC_ANY && flow->can_be_marked) {
        ecc_ecn_send(self, packet, ecc_transport_is_new(segment));
    }
    if (index >= self->n_flows) {
        flow->n_packets++;
    }
    return 0;
}

/* S-52.2: the pacer releases the next packet a gap after this one. */
static ECC_HOT void
note_pace(ecc_engine_t *self, ecc_flow_state_t *flow, int32_t size, enum ecc_flow_kind kind)
{
    int32_t paced_size = kind == ECC_ANY && flow->has_header_bytes ? size + flow->spec->header_bytes : size;

    flow->last_sent_at = self->now;
    if (flow->last_size != paced_size) {
        flow->last_size = paced_size;
        flow->pacing_gap = flow->rate > 0.0 ? ecc_clock_tx(flow->last_size, flow->rate) : 0;
    }
}

/* Accounts for a sent packet: bytes, the size of the next packet, and the retransmission timer. */
static ECC_HOT int
account(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, enum ecc_flow_kind kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = 0;

    if (ecc_state_in_flight(flow) == 0) {
        flow->timer_start = self->now;
    }
    flow->sent += segment.size;
    if (kind == ECC_ANY && flow->paces) {
        self->pacers[index].credit -= (double) segment.size;
    }
    if (kind == ECC_BASIC) {
        ecc_sent_note_basic(self, index, segment);
    } else if (kind == ECC_RACK || (kind == ECC_ANY && flow->reliable)) {
        ret = ecc_sent_note(self, index, segment, kind);
    }
    if (kind == ECC_ANY && flow->draws_sizes) {
        bool opening = flow->srtt == 0.0 && flow->spec->opening_size > 0;
        flow->full_size = ecc_state_full_size(flow);
        flow->packet_size = opening ? flow->packet_size : flow->full_size;
    }
    if (!flow->timeout_pending) {
        ecc_timer_begin(self, index);
    }
    return ret == 0 ? 0 : ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, (double) flow->sent);
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

static ECC_HOT bool
may_jitter(enum ecc_flow_kind kind)
{
    return kind == ECC_ANY || kind == ECC_PLAIN;
}

/* EMIT (S-54) without the access line. */
static ECC_HOT int
leave(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, uint32_t *id, enum ecc_flow_kind kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    bool is_new = kind == ECC_PLAIN || ecc_transport_is_new(segment);
    int ret = 0;

    if (kind != ECC_PLAIN && ecc_state_in_flight(flow) == 0 && flow->has_restart && is_new) {
        ret = restart(self, index);
    }
    if (ret == 0) {
        ret = new_packet(self, index, segment, id, kind);
    }
    if (ret != 0) {
        return ret;
    }
    assert(segment.size > 0);
    note_pace(self, flow, segment.size, kind);
    if (may_jitter(kind) && flow->jitters) {
        ecc_phase_sent(self, index);
    }
    ret = ecc_flow_hooks_with_packet(self, ECC_FLOW_ON_SEND, flow->on_send, ecc_packets_at(&self->packets, *id),
        is_new ? ECC_SEGMENT_NEW : ECC_SEGMENT_RETRANSMITTED, kind == ECC_PLAIN);
    if (ret != 0) {
        return ret;
    }
    ret = account(self, index, segment, kind);
    if (ret != 0) {
        return ret;
    }
    if (kind == ECC_ANY && flow->has_alarms && ecc_alarms_has_counted(self, index)) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_COUNT, flow->spec->on_count, 0);
    }
    return ret;
}

/* EMIT (S-54). */
static ECC_HOT int
emit(ecc_engine_t *self, uint32_t index, ecc_segment_t segment, enum ecc_flow_kind kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = ECC_NO_PACKET;
    int ret = leave(self, index, segment, &id, kind);

    if (ret != 0) {
        return ret;
    }
    if (flow->access_delay == 0) {
        if (kind == ECC_ANY && flow->sprays) {
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
    ecc_segment_t segment = ecc_next_segment(self, index, &written, ECC_ANY);

    *id = ECC_NO_PACKET;
    return segment.size > 0 && written == self->now ? leave(self, index, segment, id, ECC_ANY) : 0;
}

/* S-52.1: whether a segment exists, and window and rate allow it at some time. */
static ECC_HOT bool
may_leave(const ecc_engine_t *self, uint32_t index, ecc_segment_t segment, enum ecc_flow_kind kind)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_free = kind != ECC_PLAIN && (segment.rule == ECC_RULE_FIRST || ecc_transport_is_probe(segment));

    return segment.size > 0 && !(flow->window > 0.0 && !is_free && is_full(self, index, segment.size, kind))
        && (flow->window > 0.0 || flow->rate > 0.0);
}

/* S-222: whether a paced window would be full without its pacer. */
static bool
fills_window(const ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t unsent = ecc_state_written(self, flow, self->now) - ecc_state_taken(flow);

    unsent += ecc_transport_is_new(segment) ? 0 : segment.size;
    return (double) (in_flight(self, index, ECC_ANY) + unsent + flow->packet_size) > flow->window;
}

/* S-176: the reason that no segment may leave. */
static ECC_HOT uint8_t
limit(const ecc_engine_t *self, uint32_t index, ecc_segment_t segment, enum ecc_flow_kind kind)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->window > 0.0
        && (segment.size > 0 || (double) (in_flight(self, index, kind) + flow->packet_size) > flow->window)) {
        return ECC_LIMIT_WINDOW;
    }
    return segment.size > 0 ? ECC_LIMIT_PACER : ECC_LIMIT_DATA;
}

/* TRY-SEND (S-52), unless it is clear that nothing changes; `released`: in a SEND (S-188). */
static ECC_HOT int
try_send_of(ecc_engine_t *self, uint32_t index, bool released, enum ecc_flow_kind kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t send_node = self->base[ECC_EVENT_SEND] + index;

    for (int n_sent = 0;; n_sent++) {
        ecc_ps_t written;
        ecc_segment_t segment = ecc_next_segment(self, index, &written, kind);
        int ret;
        flow->changed = false;
        if (!may_leave(self, index, segment, kind)) {
            flow->limited_by = limit(self, index, segment, kind) & 3u;
            ecc_calendar_cancel(&self->fast, send_node);
            return 0;
        }
        if (kind == ECC_ANY && flow->paces && flow->rate == 0.0 && written == self->now) {
            ecc_ps_t wait = ecc_pacer_wait(self, index, segment.size);
            if (wait > 0) {
                flow->limited_by = fills_window(self, index, segment) ? ECC_LIMIT_WINDOW : ECC_LIMIT_DATA;
                ecc_calendar_move(&self->fast, send_node, ecc_clock_add(self->now, wait));
                return 0;
            }
        }
        if (may_jitter(kind) && flow->jitters && (flow->rate > 0.0 || !released || written > self->now)
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
        if (kind == ECC_ANY && written > self->now) {
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
        ret = emit(self, index, segment, kind);
        if (ret != 0) {
            return ret;
        }
    }
}

static int
try_send(ecc_engine_t *self, uint32_t index, bool released)
{
    return try_send_of(self, index, released, ECC_ANY);
}

static int
try_send_basic(ecc_engine_t *self, uint32_t index)
{
    return try_send_of(self, index, false, ECC_BASIC);
}

static int
try_send_rack(ecc_engine_t *self, uint32_t index)
{
    return try_send_of(self, index, false, ECC_RACK);
}

int
ecc_sender_try_send(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->active && flow->kind == ECC_BASIC) {
        return try_send_basic(self, index);
    }
    if (flow->active && flow->kind == ECC_RACK) {
        return try_send_rack(self, index);
    }
    if (!flow->active
        || (!flow->changed && !flow->reliable && !flow->has_writes
            && ecc_calendar_pending(&self->fast, self->base[ECC_EVENT_SEND] + index))) {
        return 0;
    }
    return try_send(self, index, false);
}

/* TRY-SEND of a plain flow with a window. */
static int
try_send_plain(ecc_engine_t *self, uint32_t index, bool released)
{
    return try_send_of(self, index, released, ECC_PLAIN);
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
    return try_send_plain(self, index, false);
}

/* SEND of a flow that is plain; TRY-SEND is short if the flow is paced by its rate alone. */
static int
send_plain(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = emit(self, index, (ecc_segment_t) { flow->sent, flow->packet_size, ECC_RULE_NONE }, ECC_PLAIN);

    if (ret != 0) {
        return ret;
    }
    if (flow->window == 0.0 && flow->rate > 0.0 && !flow->jitters) {
        flow->changed = false;
        ecc_calendar_insert(
            &self->fast, self->base[ECC_EVENT_SEND] + index, ecc_clock_add(flow->last_sent_at, flow->pacing_gap));
        return 0;
    }
    return try_send_plain(self, index, true);
}

/* SEND of a flow with a transport of type 3 and a rate. */
static int
send_rack(ecc_engine_t *self, uint32_t index)
{
    ecc_ps_t due;
    int ret = emit(self, index, ecc_next_segment(self, index, &due, ECC_RACK), ECC_RACK);

    return ret != 0 ? ret : try_send_rack(self, index);
}

int
ecc_sender_send(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t due;
    ecc_segment_t segment;
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_SEND, index, flow->sent);
    if (flow->kind == ECC_PLAIN) {
        return send_plain(self, index);
    }
    if (flow->kind == ECC_RACK) {
        return send_rack(self, index);
    }
    segment = ecc_next_segment(self, index, &due, ECC_ANY);
    if (flow->has_writes && (due > self->now || !may_leave(self, index, segment, ECC_ANY))) { /* S-162: it has grown */
        return try_send(self, index, true);
    }
    ret = emit(self, index, segment, ECC_ANY);
    return ret != 0 ? ret : try_send(self, index, true);
}

int
ecc_sender_verify(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t due;
    bool valid = ecc_state_taken(flow) <= ecc_state_written(self, flow, self->now)
        && (flow->limited_by != ECC_LIMIT_WINDOW || flow->window > 0.0);

    /* S-162: a SEND that waits for a write may find the window of the receiver full. */
    valid = valid
        && (!ecc_calendar_pending(&self->fast, self->base[ECC_EVENT_SEND] + index)
            || (flow->active
                && ((flow->has_writes && flow->reliable && self->transports[index].receiver_window > 0)
                    || ecc_next_segment(self, index, &due, ECC_ANY).size > 0)));
    return valid ? 0 : ECC_ERR_BROKEN;
}
