/*
 * ACKs at the sender of a flow (S-46 to S-48, S-82 to S-86): RTTs, data acknowledged and lost, and the hooks.
 *
 * Not here: what an ACK means to a reliable flow (transport.c, rack.c, quic_acks.c), and what is sent then (sender.c).
 */

#include "host/acks.h"

#include "core/path.h"
#include "host/ecn.h"
#include "host/flow.h"
#include "host/flow_hooks.h"
#include "host/quic.h"
#include "host/quic_acks.h"
#include "host/rack_acks.h"
#include "host/receiver.h"
#include "host/rtt.h"
#include "host/sender.h"
#include "host/timer.h"

/* S-48: accounts for an ACK; acked: bytes newly acknowledged. */
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
        if (lost > front - flow->expected) { /* a contradiction, from a forged checkpoint */
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

/* S-220: persistent congestion; env.recovering is 1 if the recovery has already reduced the threshold. */
static int
collapse(ecc_engine_t *self, uint32_t index, const ecc_ack_effect_t *effect)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = 0;

    flow->min_rtt = flow->rtt; /* RFC 9002, 5.2: the path may have changed */
    self->transports[index].recovering = !effect->begins_recovery;
    if (flow->active) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->spec->on_loss, ECC_LOSS_TIMEOUT);
    }
    self->transports[index].recovering = false;
    return ret;
}

/* Responds to the losses that an ACK, or the end of a wait, finds: on_loss, and proportional rate reduction. */
int
ecc_acks_respond(ecc_engine_t *self, uint32_t index, const ecc_ack_effect_t *effect)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];
    int ret = 0;

    if (effect->begins_recovery && flow->uses_prr && transport->recovering) {
        ecc_transport_begin_prr(self, index, effect->delivered);
    }
    if (effect->is_persistent) {
        return collapse(self, index, effect);
    }
    if (effect->begins_recovery && flow->active) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->spec->on_loss, ECC_LOSS_GAP);
    }
    if (ecc_transport_reduces(self, index)) {
        ecc_transport_update_prr(self, index, effect);
    }
    return ret;
}

/* S-82 to S-86: an ACK of a reliable flow. */
static int
acknowledge_reliable(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, ecc_ack_effect_t *effect)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = flow->has_quic ? ecc_quic_acks_receive(self, packet, effect)
        : flow->has_rack     ? ecc_rack_acks_receive(self, packet, effect)
                             : ecc_transport_receive_ack(self, packet, effect);

    if (ret != 0) {
        return ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, (double) packet->offset);
    }
    flow->expected += effect->acked;
    flow->n_timeouts = (flow->has_quic ? effect->delivered : effect->acked) > 0 ? 0 : flow->n_timeouts;
    if (flow->has_quic && (flow->active || index < self->n_flows)) {
        ecc_timer_await_packets(self, index);
    }
    if (effect->starts_timer && (flow->active || index < self->n_flows)) { /* S-51: not for ended transfers */
        ecc_timer_start(self, index);
    }
    if (flow->has_rack && flow->active) {
        ecc_timer_await_probe(self, index);
        ecc_timer_await(self, index);
    }
    return effect->begins_recovery || effect->is_persistent || ecc_transport_reduces(self, index)
        ? ecc_acks_respond(self, index, effect)
        : 0;
}

/* S-166: begins a reduction if the hook has reduced the window, from `before`, at an ACK that reports marks. */
static void
reduce_for_marks(ecc_engine_t *self, uint32_t index, double before, const ecc_ack_effect_t *effect)
{
    if (self->flows[index].window < before && !self->transports[index].recovering) {
        ecc_transport_begin_prr_for_marks(self, index, effect->delivered);
        ecc_transport_update_prr(self, index, effect);
    }
}

/* Takes the ACK that has arrived; its successor is pending. */
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

/* S-33: counts the packet of an immediate ACK as received, unless it is counted already. */
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

/* S-47, S-81: an ACK measures the RTT of its packet. */
static ECC_HOT void
measure_rtt(ecc_engine_t *self, uint32_t index, ecc_ps_t sent, bool plain)
{
    double rtt = ecc_clock_seconds(self->now - sent);

    if (!plain && self->flows[index].reliable) {
        ecc_transport_measure(&self->transports[index], &self->flows[index], rtt);
    }
    ecc_rtt_update(self, index, rtt, rtt);
}

/* S-129: a control packet reaches the sender. */
static int
receive_control(ecc_engine_t *self, uint32_t index, uint32_t id)
{
    int ret = 0;

    if (self->flows[index].active) {
        ret = ecc_flow_hooks_control(self, ecc_packets_at(&self->packets, id));
    }
    if (ecc_path_discard(self, id) != 0 || ret != 0) { /* at its sender a packet is discarded without failure */
        return ret;
    }
    return ecc_sender_try_send(self, index);
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
    return ret != 0 ? ret : ecc_sender_try_send_plain(self, index);
}

int
ecc_acks_receive(ecc_engine_t *self, uint32_t index)
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
    if (flow->kind == ECC_PLAIN) {
        return receive_plain(self, index, id);
    }
    if (!is_trimmed && !flow->has_quic) {
        measure_rtt(self, index, packet->sent, false);
    }
    ret = flow->reliable ? acknowledge_reliable(self, index, packet, &effect)
                         : acknowledge(self, index, packet, &effect.acked, false);
    if (ret == 0 && flow->active && !is_trimmed) { /* S-137: ACKs of trimmed packets skip on_ack */
        self->acked = flow->has_quic ? effect.reported : effect.acked;
        window = flow->window;
        if (flow->can_be_marked) {
            ecc_ecn_read_ack(self, packet, effect.acked, effect.is_persistent);
        }
        ret = ecc_flow_hooks_with_packet(self, ECC_FLOW_ON_ACK, flow->on_ack, packet, 0, false);
        if (flow->uses_prr_for_marks && self->marked > 0 && ret == 0) {
            reduce_for_marks(self, index, window, &effect);
        }
        if (self->ece != 0 && flow->has_quic) {
            ecc_quic_begin_recovery(self, index);
        }
        self->acked = 0;
        self->marked = 0;
        self->ece = 0;
    }
    if (ecc_path_discard(self, id) != 0 || ret != 0) { /* at its sender an ACK is discarded without failure */
        return ret;
    }
    if (flow->active && flow->size >= 0 && flow->expected - flow->lost >= flow->size) {
        flow->completed = true;
        return ecc_flow_end(self, index);
    }
    return ecc_sender_try_send(self, index);
}
