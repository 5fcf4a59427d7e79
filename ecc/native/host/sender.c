/*
 * The sender of a flow: TRY-SEND and EMIT (S-52 to S-54), ACKs (S-46 to S-48) and the retransmission timer (S-42,
 * S-50). A reliable flow takes from transport.c what is next and what an ACK means; all else is the same.
 *
 * Not here: the state of loss recovery (transport.c), what ACKs carry (receiver.c).
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
#include "host/flow.h"
#include "host/flow_hooks.h"
#include "host/rack.h"
#include "host/receiver.h"
#include "host/transport.h"

#define MAX_TIMEOUT (INT64_C(64000000000000)) /* by doubling */

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

/* S-42, S-88. */
static ecc_ps_t
timeout(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_measured = flow->srtt > 0.0;
    ecc_ps_t least = flow->spec->min_rto;
    ecc_ps_t wait;

    if (flow->reliable && is_measured) {
        wait = ecc_transport_rto(&self->transports[index], flow);
    } else {
        wait = ecc_clock_ps(3.0 * (is_measured ? flow->srtt : ecc_clock_seconds(ecc_flow_first_rtt(self, index))));
        if (flow->reliable && flow->spec->initial_rto > least) {
            least = flow->spec->initial_rto;
        }
        wait = wait > least ? wait : least;
    }
    if (wait >= MAX_TIMEOUT) {
        return wait;
    }
    wait <<= flow->n_timeouts;
    return wait < MAX_TIMEOUT ? wait : MAX_TIMEOUT;
}

/* The next segment (S-52, S-77), where so much has been written; of size 0 if there is none. */
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

/* S-162: where there is none now, that of the next write; `due` is then when that is. */
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

/* S-87. */
static void
start_timer(ecc_engine_t *self, uint32_t index)
{
    uint32_t node = self->base[ECC_EVENT_TIMEOUT] + index;
    ecc_ps_t deadline = ecc_clock_add(self->now, timeout(self, index));

    self->flows[index].timer_start = self->now;
    self->flows[index].timeout_pending = true;
    if (!ecc_calendar_pending(&self->slow, node) || self->slow.nodes[node].time > deadline) {
        ecc_calendar_move(&self->slow, node, deadline);
    }
}

/* S-153: TIMEOUT is pending when the wait of a transport of type 3 ends, or before that. */
static void
await(ecc_engine_t *self, uint32_t index)
{
    uint32_t node = self->base[ECC_EVENT_TIMEOUT] + index;
    ecc_ps_t time = self->racks[index].wait_until;

    if (self->racks[index].awaits != ECC_AWAITS_NOTHING
        && (!ecc_calendar_pending(&self->slow, node) || self->slow.nodes[node].time > time)) {
        self->flows[index].timeout_pending = true;
        ecc_calendar_move(&self->slow, node, time);
    }
}

/* S-153: a probe is waited for, unless something else is. */
static void
await_probe(ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    ecc_ps_t time;
    ecc_ps_t latest;

    if (rack->awaits == ECC_AWAITS_REORDERING) {
        return;
    }
    rack->awaits = ecc_rack_may_probe(self, index) ? ECC_AWAITS_PROBE : ECC_AWAITS_NOTHING;
    if (rack->awaits == ECC_AWAITS_PROBE) {
        time = ecc_clock_add(self->now, ecc_rack_probe_timeout(self, index));
        latest = ecc_clock_add(self->flows[index].timer_start, timeout(self, index));
        time = time < latest ? time : latest;
        rack->wait_until = time > self->now ? time : self->now;
        await(self, index);
    }
}

/* S-79, S-80, S-147. */
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
            start_timer(self, index);
        }
        if (ret == 0 && segment.rule == ECC_RULE_NEW) {
            await_probe(self, index);
        }
        return ret;
    }
    if (was_idle
        || (transport->uses_sack && transport->recovering && segment.rule != ECC_RULE_NEW
            && segment.begin < transport->recovery_point)) {
        start_timer(self, index);
    }
    return ret;
}

/* A packet of a segment, with a header of zeros; it counts as in the network. */
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

/* S-52.2: when the pacer may release the next packet follows from the time and the size of this one. */
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

ECC_COLD static void
await_timeout(ecc_engine_t *self, uint32_t index)
{
    self->flows[index].timeout_pending = true;
    ecc_calendar_insert(
        &self->slow, self->base[ECC_EVENT_TIMEOUT] + index, ecc_clock_add(self->now, timeout(self, index)));
}

/* What the flow counts once a packet is sent: bytes, the size of the next packet, and the retransmission timer. */
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
        await_timeout(self, index);
    }
    return ret == 0 ? 0 : ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, self->racks[index].count);
}

/* S-177: new data is sent with nothing in flight. */
ECC_COLD static int
restart(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    if (flow->last_size == 0 || flow->n_timeouts > 0) {
        return 0;
    }
    self->idle = ecc_clock_seconds(self->now - flow->last_sent_at);
    self->rto = ecc_clock_seconds(timeout(self, index));
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_RESTART, flow->spec->on_restart, 0);
    self->idle = 0.0;
    self->rto = 0.0;
    return ret;
}

/* EMIT (S-54) up to where the packet goes, of a flow that is plain, or of any. */
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

/* S-52.1: whether a segment exists, and window or rate let it leave at some time. */
static inline bool
may_leave(const ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_free = segment.rule == ECC_RULE_FIRST || ecc_transport_is_probe(segment);

    return segment.size > 0 && !(flow->window > 0.0 && !is_free && is_full(self, index, segment.size))
        && (flow->window > 0.0 || flow->rate > 0.0);
}

/* S-176: why no segment may leave. */
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

/* TRY-SEND (S-52), where it is not clear that nothing changes; `released`: in a SEND (S-188). */
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
        if (n_sent == ECC_MAX_BURST) { /* S-53 */
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

/* SEND of a flow that is plain; TRY-SEND is short where it is paced by its rate alone. */
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
    if (flow->has_writes && (due > self->now || !may_leave(self, index, segment))) { /* S-162: it has grown since */
        return try_send(self, index, true);
    }
    ret = emit(self, index, segment, false);
    return ret != 0 ? ret : try_send(self, index, true);
}

/* S-48; acked: bytes that the ACK acknowledges and none did before. */
static ECC_HOT int
acknowledge(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, int64_t *acked, bool plain)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int64_t front = packet->offset + packet->size;
    int64_t lost = packet->offset - flow->expected;
    int ret = 0;

    if (!plain && flow->needs_receiver) {
        ecc_ack_info_t info = ecc_receiver_read_ack(self, packet);
        front = info.front;
        lost = info.missing;
    }
    flow->timer_start = self->now;
    flow->n_timeouts = 0;
    if (front <= flow->expected) {
        return 0;
    }
    if (lost > 0) {
        if (lost > front - flow->expected) { /* a contradiction: of a forged checkpoint */
            return ecc_state_fail_flow(self, ECC_ERR_BROKEN, index, ECC_NO_HOOK, (double) lost);
        }
        flow->lost += lost;
        flow->expected += lost;
        if (flow->active) {
            ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->spec->on_loss, ECC_LOSS_GAP);
        }
    }
    *acked = front - flow->expected;
    flow->expected = front;
    return ret;
}

/* What follows an ACK, or the end of a wait, that finds losses: the hook, and proportional rate reduction. */
static int
respond(ecc_engine_t *self, uint32_t index, const ecc_ack_effect_t *effect)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];
    int ret = 0;

    if (effect->begins_recovery && flow->uses_prr && transport->recovering) {
        ecc_transport_begin_prr(self, index, effect->delivered);
    }
    if (effect->begins_recovery && flow->active) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->spec->on_loss, ECC_LOSS_GAP);
    }
    if (flow->uses_prr && ecc_transport_reduces(self, index)) {
        ecc_transport_update_prr(self, index, effect);
    }
    return ret;
}

/* S-82 to S-86. */
static int
acknowledge_reliable(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, ecc_ack_effect_t *effect)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret
        = flow->has_rack ? ecc_rack_receive_ack(self, packet, effect) : ecc_transport_receive_ack(self, packet, effect);

    if (ret != 0) {
        return ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, (double) packet->offset);
    }
    flow->expected += effect->acked;
    flow->n_timeouts = effect->acked > 0 ? 0 : flow->n_timeouts;
    if (effect->starts_timer && (flow->active || index < self->n_flows)) { /* S-51 */
        start_timer(self, index);
    }
    if (flow->has_rack && flow->active) {
        await_probe(self, index);
        await(self, index);
    }
    return respond(self, index, effect);
}

/* S-166: the hook has reduced the window, from `before`, at an ACK that reports marks. */
static void
reduce_for_marks(ecc_engine_t *self, uint32_t index, double before, const ecc_ack_effect_t *effect)
{
    if (self->flows[index].window < before && !self->transports[index].recovering) {
        ecc_transport_begin_prr_for_marks(self, index, effect->delivered);
        ecc_transport_update_prr(self, index, effect);
    }
}

/* The ACK that has arrived; its successor is pending. */
static uint32_t
pop_ack(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t node = self->base[ECC_EVENT_ACK] + index;
    uint32_t id = flow->acks.head;
    const ecc_packet_t *packet;

    if (id == ECC_NO_PACKET) { /* the pure delay reorders */
        return ecc_channel_pop(&self->receivers[index].channel, &self->fast, node);
    }
    packet = ecc_packets_at(&self->packets, id);
    flow->acks.head = packet->next;
    if (flow->acks.head != ECC_NO_PACKET) {
        ecc_calendar_insert(&self->fast, node, packet->next_time);
    }
    return id;
}

/* S-33: the packet of an immediate ACK has been received, and may have been counted already. */
static void
count_received(ecc_engine_t *self, ecc_flow_state_t *flow, uint32_t id, int32_t size)
{
    if (flow->last_counted == id) {
        flow->last_counted = ECC_NO_PACKET;
    } else if (flow->immediate_ack && flow->last_counted == ECC_NO_PACKET) {
        flow->received += size;
        self->n_received++;
    }
}

/* S-47, S-81. */
static ECC_HOT void
measure_rtt(ecc_engine_t *self, uint32_t index, ecc_ps_t sent, bool plain)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->rtt = ecc_clock_seconds(self->now - sent);
    if (!plain && flow->reliable) {
        ecc_transport_measure(&self->transports[index], flow);
    }
    if (flow->srtt == 0.0) {
        flow->srtt = flow->rtt;
        flow->min_rtt = flow->rtt;
        flow->packet_size = flow->full_size;
        flow->changed = true; /* the window may have room for an opening packet and not for a full one */
    } else {
        flow->srtt += (flow->rtt - flow->srtt) / 8.0;
        flow->min_rtt = flow->rtt < flow->min_rtt ? flow->rtt : flow->min_rtt;
    }
    if (index < self->n_rtts) { /* S-197 */
        ecc_rtts_t *rtts = &self->rtts[index];
        rtts->sum += flow->rtt;
        rtts->peak = flow->rtt > rtts->peak ? flow->rtt : rtts->peak;
        rtts->count++;
    }
}

/* S-129. */
static int
receive_control(ecc_engine_t *self, uint32_t index, uint32_t id)
{
    int ret = 0;

    if (self->flows[index].active) {
        ret = ecc_flow_hooks_control(self, ecc_packets_at(&self->packets, id));
    }
    if (ecc_path_discard(self, id) != 0 || ret != 0) { /* at its sender it is discarded without fail */
        return ret;
    }
    return ecc_sender_try_send(self, index);
}

/* TRY-SEND of a flow that is plain. */
static ECC_HOT int
try_send_plain(ecc_engine_t *self, uint32_t index)
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

/* An ACK of a flow that is plain. */
static int
receive_plain(ecc_engine_t *self, uint32_t index, uint32_t id)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int64_t acked = 0;
    int ret;

    measure_rtt(self, index, packet->sent, true);
    ret = acknowledge(self, index, packet, &acked, true);
    if (ret == 0 && flow->active) {
        self->acked = acked;
        ret = ecc_flow_hooks_with_packet(self, ECC_FLOW_ON_ACK, flow->on_ack, packet, 0, true);
        self->acked = 0;
    }
    ecc_packets_release(&self->packets, id);
    return ret != 0 ? ret : try_send_plain(self, index);
}

int
ecc_sender_ack(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = pop_ack(self, index);
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_ack_effect_t effect = { 0 };
    double window = flow->window;
    bool is_trimmed;
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_ACK, index, packet->offset);
    is_trimmed = ecc_packets_is_trimmed(packet->size);
    if (packet->size < 0 && !is_trimmed) {
        return receive_control(self, index, id);
    }
    if (!is_trimmed) {
        count_received(self, flow, id, packet->size);
    }
    if (flow->is_plain) {
        return receive_plain(self, index, id);
    }
    if (!is_trimmed) {
        measure_rtt(self, index, packet->sent, false);
    }
    ret = flow->reliable ? acknowledge_reliable(self, index, packet, &effect)
                         : acknowledge(self, index, packet, &effect.acked, false);
    if (ret == 0 && flow->active && !is_trimmed) { /* S-137 */
        self->acked = effect.acked;
        window = flow->window;
        if (flow->can_be_marked) {
            ecc_ecn_read_ack(self, packet, effect.acked);
        }
        ret = ecc_flow_hooks_with_packet(self, ECC_FLOW_ON_ACK, flow->on_ack, packet, 0, false);
        if (flow->uses_prr_for_marks && self->marked > 0 && ret == 0) {
            reduce_for_marks(self, index, window, &effect);
        }
        self->acked = 0;
        self->marked = 0;
        self->ece = 0;
    }
    if (ecc_path_discard(self, id) != 0 || ret != 0) { /* an ACK at its sender is discarded without fail */
        return ret;
    }
    if (flow->active && flow->size >= 0 && flow->expected - flow->lost >= flow->size) {
        flow->completed = true;
        return ecc_flow_end(self, index);
    }
    return ecc_sender_try_send(self, index);
}

/* S-50: what is in flight is abandoned. */
static void
abandon(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->lost += ecc_state_in_flight(flow);
    flow->expected = flow->sent;
    flow->timer_start = self->now;
    if (flow->needs_receiver) {
        self->receivers[index].sender_base = flow->sent;
        self->receivers[index].sender_missing = 0;
    }
}

/* S-154: what a transport of type 3 has waited for. */
static int
end_wait(ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    bool is_probe = rack->awaits == ECC_AWAITS_PROBE;
    ecc_ack_effect_t effect = { 0 };
    int ret;

    if (is_probe) {
        rack->awaits = ECC_AWAITS_NOTHING;
        rack->wants_probe = true;
    } else {
        effect.begins_recovery = ecc_rack_find_losses(self, index);
    }
    if (is_probe || effect.begins_recovery) {
        start_timer(self, index);
    } else {
        ecc_ps_t deadline = ecc_clock_add(self->flows[index].timer_start, timeout(self, index));
        self->flows[index].timeout_pending = true;
        ecc_calendar_move(
            &self->slow, self->base[ECC_EVENT_TIMEOUT] + index, deadline > self->now ? deadline : self->now);
    }
    await(self, index);
    ret = respond(self, index, &effect);
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}

int
ecc_sender_timeout(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t deadline = ecc_clock_add(flow->timer_start, timeout(self, index));
    bool waits = flow->has_rack && self->racks[index].awaits != ECC_AWAITS_NOTHING;
    int ret = 0;

    ecc_state_trace_flow(self, ECC_EVENT_TIMEOUT, index, ecc_state_in_flight(flow));
    flow->timeout_pending = false;
    if (ecc_state_in_flight(flow) == 0 || (flow->reliable && !flow->active)) {
        return 0;
    }
    if (waits && self->racks[index].wait_until <= self->now) {
        return end_wait(self, index);
    }
    if (waits && self->racks[index].wait_until < deadline) {
        deadline = self->racks[index].wait_until;
    }
    if (deadline > self->now) {
        flow->timeout_pending = true;
        ecc_calendar_insert(&self->slow, self->base[ECC_EVENT_TIMEOUT] + index, deadline);
        return 0;
    }
    flow->n_timeouts = (uint8_t) (flow->n_timeouts + (flow->n_timeouts < ECC_MAX_BACKOFFS));
    if (flow->uses_prr) {
        self->prrs[index].until = 0;
    }
    if (flow->has_rack) {
        ecc_rack_time_out(self, index);
        start_timer(self, index);
    } else if (flow->reliable) {
        ecc_transport_time_out(&self->transports[index]);
        start_timer(self, index);
    } else {
        abandon(self, index);
    }
    if (flow->active) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->spec->on_loss, ECC_LOSS_TIMEOUT);
    }
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}

int
ecc_sender_verify(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t due;
    bool valid = ecc_state_taken(flow) <= ecc_state_written(flow, self->now)
        && (flow->limited_by != ECC_LIMIT_WINDOW || flow->window > 0.0);

    valid = valid
        && (!ecc_calendar_pending(&self->fast, self->base[ECC_EVENT_SEND] + index)
            || (flow->active
                && ((flow->has_writes && flow->reliable && self->transports[index].receiver_window > 0) /* S-162 */
                    || next(self, index, &due).size > 0)));
    return valid ? 0 : ECC_ERR_BROKEN;
}
