/*
 * Flows from START to their end (S-37 to S-45, S-49, S-51), what they have in transit outside of links, and their
 * receivers' side of a packet (S-32, S-33).
 *
 * Not here: what is sent and acknowledged (sender.c), what receivers find missing (receiver.c, transport.c), and when a
 * flow is a transfer (transfers.c).
 */

#include "host/flow.h"

#include <string.h>

#include "host/alarms.h"
#include "core/config.h"
#include "parts/cut.h"
#include "host/ecn.h"
#include "host/flow_hooks.h"
#include "link/link.h"
#include "host/phase.h"
#include "host/receiver.h"
#include "host/sender.h"
#include "host/spray.h"
#include "host/transfers.h"
#include "host/rack.h"
#include "host/transport.h"

/*
 * Whether a flow has none of what costs every packet a question: its packets are sent and acknowledged by code of their
 * own, without these questions.
 */
static bool
is_plain(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return index < self->n_flows && flow->size < 0 && !flow->reliable && !flow->has_writes && !flow->has_alarms
        && !flow->sprays && !flow->draws_sizes && !flow->wants_random && !flow->has_header_bytes
        && !flow->needs_receiver && !flow->can_be_marked && !flow->has_restart;
}

void
ecc_flow_init(ecc_engine_t *self, uint32_t index, const ecc_flow_t *spec, uint32_t position, int64_t number)
{
    ecc_flow_state_t *flow = &self->flows[index];

    memset(flow, 0, sizeof(*flow));
    flow->spec = spec;
    flow->position = position;
    flow->number = number;
    flow->start = spec->start;
    flow->acks = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    flow->access = flow->acks;
    flow->last_counted = ECC_NO_PACKET;
    flow->subsequent = ECC_NO_SUBSEQUENT;
    flow->needs_receiver = ecc_receiver_is_needed(self, spec, &self->hops[position]);
    flow->reliable = spec->transport != ECC_TRANSPORT_NONE;
    flow->can_be_marked = spec->ecn != ECC_ECN_NONE;
    flow->has_alarms = ecc_alarms_are_needed(spec);
    flow->immediate_ack
        = spec->on_receive == NULL && spec->enables_subsequent == 0 && !flow->needs_receiver && !flow->reliable;
    flow->rate = spec->rate;
    flow->window = spec->window;
    flow->state = spec->state;
    flow->params = spec->params;
    flow->on_send = spec->on_send;
    flow->on_ack = spec->on_ack;
    flow->access_delay = spec->access_delay;
    flow->ack_delay = spec->ack_delay;
    flow->size = spec->size;
    flow->sprays = spec->n_alternatives > 0;
    flow->uses_sack = spec->transport >= ECC_TRANSPORT_SACK;
    flow->has_writes = spec->write_size > 0;
    flow->has_restart = spec->on_restart != NULL;
    flow->jitters = spec->phase_jitter != 0;
    flow->draws_sizes = spec->packet_size_max > spec->packet_size;
    flow->random_sizes = ecc_random_stream(self->seed, ECC_RANDOM_OF_SIZES + (uint64_t) number);
    flow->full_size = ecc_flow_full_size(flow);
    flow->packet_size = spec->opening_size > 0 ? (int32_t) spec->opening_size : flow->full_size;
    flow->wants_random = spec->wants_random != 0;
    flow->has_header_bytes = spec->header_bytes > 0;
    flow->header_offset = (uint16_t) spec->header_offset;
    flow->is_plain = is_plain(self, index);
    flow->finish = -1;
    flow->random = ecc_random_stream(self->seed, ECC_RANDOM_OF_FLOWS + (uint64_t) number);
    if (flow->needs_receiver) {
        ecc_receiver_init(self, index);
    }
    if (flow->sprays) {
        ecc_spray_init(self, index);
    }
    if (flow->reliable) {
        ecc_transport_init(self, index);
        flow->has_rack = spec->transport == ECC_TRANSPORT_RACK;
        flow->uses_prr = spec->uses_prr != ECC_PRR_NEVER;
        flow->uses_prr_for_marks = spec->uses_prr == ECC_PRR_LOSSES_AND_MARKS;
        if (flow->has_rack) {
            ecc_rack_init(self, index);
        }
        if (flow->uses_prr) {
            self->prrs[index] = (ecc_prr_t) { 0 };
        }
    }
    if (flow->has_alarms) {
        ecc_alarms_init(self, index);
    }
    if (flow->jitters) {
        ecc_phase_init_flow(self, index);
    }
}

static int64_t
retransmitted(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->reliable) {
        return flow->sent - self->transports[index].snd_nxt;
    }
    return flow->size >= 0 && flow->sent > flow->size ? flow->sent - flow->size : 0;
}

static ecc_ps_t
idle_rtt(const ecc_engine_t *self, const ecc_flow_state_t *flow)
{
    ecc_ps_t rtt = ecc_state_add(flow->access_delay, flow->ack_delay);

    for (int64_t k = 0; k < flow->spec->n_forward + flow->spec->n_reverse; k++) {
        rtt = ecc_state_add(rtt, self->links[self->hops[flow->position + k] >> ECC_HOP_LINK].delay);
    }
    return rtt;
}

/* The least time that an impairment adds (S-43). */
static ecc_ps_t
min_delay(const ecc_channel_t *channel)
{
    return ecc_state_add(channel->spec->spike_between, channel->spec->jitter_lo);
}

/* S-43. */
ecc_ps_t
ecc_flow_first_rtt(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_t *spec = self->flows[index].spec;
    int64_t size = ecc_flow_largest_size(&self->flows[index]) + spec->header_bytes;
    ecc_ps_t rtt = ecc_state_add(self->flows[index].access_delay, self->flows[index].ack_delay);

    for (int64_t k = 0; k < spec->n_forward + spec->n_reverse; k++) {
        uint32_t hop = self->hops[self->flows[index].position + k];
        ecc_link_state_t *link = &self->links[hop >> ECC_HOP_LINK];
        double capacity = ecc_link_capacity(self, link);
        rtt = ecc_state_add(rtt, link->delay);
        rtt = ecc_state_add(rtt, ecc_state_tx(k < spec->n_forward ? size : spec->ack_size, capacity));
        rtt = link->channel != NULL ? ecc_state_add(rtt, min_delay(link->channel)) : rtt;
    }
    rtt = spec->impairment > 0 ? ecc_state_add(rtt, min_delay(&self->receivers[index].channel)) : rtt;
    return spec->ack_every > 1 ? ecc_state_add(rtt, spec->ack_wait) : rtt;
}

ecc_flow_result_t
ecc_flow_result(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return (ecc_flow_result_t) {
        .finish = flow->finish,
        .completed = flow->completed,
        .sent = flow->sent,
        .received = flow->received,
        .delivered = flow->expected - flow->lost,
        .lost = flow->lost,
        .retransmitted = retransmitted(self, index),
        .acks_lost = flow->needs_receiver ? self->receivers[index].acks_lost : 0,
        .marked = flow->needs_receiver ? self->receivers[index].marked : 0,
        .rate = flow->rate,
        .window = flow->window,
        .srtt = flow->srtt,
        .min_rtt = flow->min_rtt,
        .idle_rtt = idle_rtt(self, flow),
    };
}

int
ecc_flow_fail(ecc_engine_t *self, int code, uint32_t index, int hook, double value)
{
    int64_t entity = index < self->n_flows ? ECC_ENTITY_FLOW : ECC_ENTITY_TRANSFER;

    return ecc_state_fail(self, code, entity, self->flows[index].number, hook, value);
}

void
ecc_flow_finish_if_done(ecc_engine_t *self, uint32_t index, ecc_ps_t now)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (index < self->n_flows) {
        return;
    }
    if (self->cut != NULL) { /* another part may be ahead, and report what the sender comes to later */
        ecc_cut_slot_t *slot = &self->cut->slots[index - self->n_flows];
        slot->end = now > slot->end ? now : slot->end;
        now = slot->end;
    }
    if (!flow->active && flow->n_packets == 0 && !ecc_cut_is_away(self, index)
        && !ecc_transfers_subsequent_is_due(self, index)) {
        ecc_transfers_finish(self, index, now);
    }
}

void
ecc_flow_release(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    if (self->flows[packet->flow].uses_sack) {
        ecc_sacks_release(&self->sacks, ecc_state_ack_info(self, packet)->sack);
    }
    ecc_packets_release(&self->packets, id);
}

int
ecc_flow_discard(ecc_engine_t *self, uint32_t id)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;

    ecc_flow_release(self, id);
    if (index >= self->n_flows) {
        self->flows[index].n_packets--;
        if (!ecc_cut_has_sender(self, index)) {
            return ecc_cut_report_discarded(self, index);
        }
        ecc_flow_finish_if_done(self, index, self->now);
    }
    return 0;
}

int
ecc_flow_end(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    flow->active = false;
    flow->finish = self->now;
    ecc_calendar_cancel(&self->fast, self->base[ECC_EVENT_SEND] + index);
    if (self->wants_timers) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_TIMER] + index);
    }
    if (flow->has_alarms) {
        ecc_alarms_init(self, index);
    }
    if (self->wants_stops) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_STOP] + index);
    }
    if (index >= self->n_flows) {
        flow->timeout_pending = false;
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_TIMEOUT] + index);
    }
    ret = ecc_flow_hooks_stop(self, index);
    ecc_flow_finish_if_done(self, index, self->now);
    return ret;
}

int
ecc_flow_start(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_START, index, ecc_state_in_flight(flow));
    if (flow->active) { /* S-206: since before time 0 */
        return ecc_sender_try_send(self, index);
    }
    flow->active = true;
    flow->started = true;
    if (flow->jitters) {
        ecc_phase_start(self, index);
    }
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_START, flow->spec->on_start, 0);
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}

int
ecc_flow_stop(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    ecc_state_trace_flow(self, ECC_EVENT_STOP, index, ecc_state_in_flight(flow));
    return flow->active ? ecc_flow_end(self, index) : 0;
}

int
ecc_flow_timer(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int number = 0;
    double timer;
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_TIMER, index, ecc_state_in_flight(flow));
    if (ecc_alarms_has_timers(flow->spec)) {
        number = ecc_alarms_expire(self, index);
    }
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_TIMER, flow->spec->on_timer, number);
    if (ret != 0) {
        return ret;
    }
    timer = ecc_flow_hooks_least_timer(self, index);
    if (timer < 0.0 || ecc_state_ps(timer) >= 1) {
        flow->n_zero_waits = 0;
    } else if (++flow->n_zero_waits == ECC_MAX_ZERO_WAITS) {
        return ecc_flow_fail(self, ECC_ERR_TIMER_STUCK, index, ECC_FLOW_ON_TIMER, timer);
    }
    return ecc_sender_try_send(self, index);
}

int
ecc_flow_access(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->access.head;
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    ecc_state_trace_flow(self, ECC_EVENT_ACCESS, index, packet->offset);
    flow->access.head = packet->next;
    if (flow->access.head != ECC_NO_PACKET) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_ACCESS] + index, packet->next_time);
    }
    if (flow->sprays) {
        packet->position = ecc_spray_next(self, index);
    }
    return ecc_link_arrive(self, id);
}

int
ecc_flow_send_ack(ecc_engine_t *self, uint32_t id)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int ret = 0;

    if (self->cut != NULL
        && ecc_cut_leaves_as_ack(self, id, ecc_state_add(self->now, self->flows[index].ack_delay), &ret)) {
        return ret;
    }
    ecc_flow_return_ack(self, id, self->now);
    return 0;
}

void
ecc_flow_catch_up(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->acks.head;
    ecc_ps_t time = self->fast.nodes[self->base[ECC_EVENT_ACK] + index].time;

    if (!flow->immediate_ack || id == ECC_NO_PACKET) {
        return;
    }
    if (flow->last_counted != ECC_NO_PACKET) {
        id = ecc_packets_at(&self->packets, flow->last_counted)->next;
        time = ecc_packets_at(&self->packets, flow->last_counted)->next_time;
    }
    while (id != ECC_NO_PACKET && time - flow->ack_delay <= self->now) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        flow->received += packet->size;
        flow->last_counted = id;
        self->n_received++;
        id = packet->next;
        time = packet->next_time;
    }
}

/* S-129: the receiver of a packet sends a control packet, whose header begins as that of the packet. */
static int
send_control(ecc_engine_t *self, uint32_t received)
{
    uint32_t index = ecc_packets_at(&self->packets, received)->flow;
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t size = self->flow_env.control_size;
    int64_t kind = self->flow_env.control_kind;
    ecc_packet_t *packet;
    uint32_t id;
    int ret;

    if (size > ECC_MAX_PACKET_SIZE) {
        return ecc_flow_fail(self, ECC_ERR_CONTROL, index, ECC_FLOW_ON_RECEIVE, (double) size);
    }
    if (kind < 0 || kind > ECC_MAX_CONTROL_KIND) {
        return ecc_flow_fail(self, ECC_ERR_CONTROL, index, ECC_FLOW_ON_RECEIVE, (double) kind);
    }
    ret = ecc_packets_allocate(&self->packets, &self->memory, &id);
    if (ret != 0) {
        return ecc_flow_fail(self, ret, index, ECC_NO_HOOK, self->packets.n_used);
    }
    packet = ecc_packets_at(&self->packets, id);
    memcpy(packet, ecc_packets_at(&self->packets, received), self->packets.stride);
    packet->sent = self->now;
    packet->offset = kind;
    packet->size = -(int32_t) size;
    if (self->wants_ecn) {
        ecc_state_set_ecn(self, ecc_packets_header(packet), (ecc_ecn_t) { ECC_NOT_ECT, 0 });
    }
    if (index >= self->n_flows) {
        self->flows[index].n_packets++;
    }
    if (flow->spec->n_reverse > 0) {
        packet->position = flow->position + (uint32_t) flow->spec->n_forward;
        return ecc_link_arrive(self, id);
    }
    return flow->needs_receiver ? ecc_receiver_return(self, id) : ecc_flow_send_ack(self, id);
}

int
ecc_flow_receive(ecc_engine_t *self, uint32_t id)
{
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    bool may_wait = true;
    int ret;

    if (ecc_packets_is_trimmed(packet->size)) {
        return ecc_receiver_receive_trimmed(self, id);
    }
    self->n_received++;
    if (flow->can_be_marked) {
        ret = ecc_ecn_receive(self, packet);
        if (ret != 0) {
            return ret;
        }
    }
    if (flow->reliable) {
        ret = ecc_transport_receive_data(self, packet, &may_wait);
        if (ret != 0) {
            return ecc_flow_fail(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
    } else {
        flow->received += packet->size;
    }
    if (flow->subsequent != ECC_NO_SUBSEQUENT) {
        ecc_transfers_received(self, packet->flow);
    }
    ret = ecc_flow_hooks_receive(self, packet);
    if (ret == 0 && self->flow_env.control_size >= 1 && flow->spec->on_control != NULL) {
        ret = send_control(self, id);
    }
    if (ret != 0) {
        return ret;
    }
    if (flow->needs_receiver) {
        return ecc_receiver_receive(self, id, may_wait);
    }
    if (flow->reliable) {
        ret = ecc_transport_write_ack(self, ecc_packets_at(&self->packets, id));
        if (ret != 0) {
            return ecc_flow_fail(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
    }
    return ecc_flow_send_ack(self, id);
}
