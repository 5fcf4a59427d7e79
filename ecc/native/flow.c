#include "flow.h"

#include <string.h>

#include "ask.h"
#include "link.h"
#include "pool.h"
#include "receiver.h"
#include "sender.h"
#include "transport.h"

void
ecc_flow_init(ecc_engine_t *self, uint32_t index, const ecc_flow_t *is, uint32_t position, int64_t number)
{
    ecc_flow_state_t *flow = &self->flows[index];

    memset(flow, 0, sizeof(*flow));
    flow->is = is;
    flow->position = position;
    flow->number = number;
    flow->start = is->start;
    flow->acks = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    flow->access = flow->acks;
    flow->counted = ECC_NO_PACKET;
    flow->follower = ECC_NO_FOLLOWER;
    flow->counts = ecc_receiver_is_needed(self, is, &self->hops[position]);
    flow->repairs = is->transport != ECC_TRANSPORT_NONE;
    flow->echoes = is->on_receive == NULL && is->followed == 0 && !flow->counts && !flow->repairs;
    flow->rate = is->rate;
    flow->window = is->window;
    flow->state = is->state;
    flow->params = is->params;
    flow->on_send = is->on_send;
    flow->on_ack = is->on_ack;
    flow->access_delay = is->access_delay;
    flow->ack_delay = is->ack_delay;
    flow->size = is->size;
    flow->draws_sizes = is->packet_size_max > is->packet_size;
    flow->random_sizes = ecc_random_stream(self->seed, (UINT64_C(1) << 33) + (uint64_t) number);
    flow->full_size = ecc_flow_full_size(flow);
    flow->packet_size = is->opening_size > 0 ? (int32_t) is->opening_size : flow->full_size;
    flow->wants_random = is->wants_random != 0;
    flow->has_header_bytes = is->header_bytes > 0;
    flow->header_offset = (uint16_t) is->header_offset;
    flow->finish = -1;
    flow->random = ecc_random_stream(self->seed, (UINT64_C(1) << 32) + (uint64_t) number);
    if (flow->counts) {
        ecc_receiver_init(self, index);
    }
    if (flow->repairs) {
        ecc_transport_init(self, index);
    }
}

static int64_t
retransmitted(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->repairs) {
        return flow->sent - self->transports[index].top;
    }
    return flow->size >= 0 && flow->sent > flow->size ? flow->sent - flow->size : 0;
}

static ecc_ps_t
idle_rtt(const ecc_engine_t *self, const ecc_flow_state_t *flow)
{
    ecc_ps_t rtt = flow->access_delay + flow->ack_delay;

    for (int64_t k = 0; k < flow->is->n_forward + flow->is->n_reverse; k++) {
        rtt += self->links[self->hops[flow->position + k] >> ECC_HOP_LINK].is.delay;
    }
    return rtt;
}

static ecc_ps_t
least_of(const ecc_impaired_t *impaired)
{
    return ecc_state_add(impaired->is.spike_between, impaired->is.jitter_lo);
}

ecc_ps_t
ecc_flow_first_rtt(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_t *is = self->flows[index].is;
    int64_t size = ecc_flow_largest_size(&self->flows[index]) + is->header_bytes;
    ecc_ps_t rtt = ecc_state_add(self->flows[index].access_delay, self->flows[index].ack_delay);

    for (int64_t k = 0; k < is->n_forward + is->n_reverse; k++) {
        uint32_t hop = self->hops[self->flows[index].position + k];
        ecc_link_state_t *link = &self->links[hop >> ECC_HOP_LINK];
        double capacity = ecc_link_capacity(self, link);
        rtt = ecc_state_add(rtt, link->is.delay);
        rtt = ecc_state_add(rtt, ecc_state_tx(k < is->n_forward ? size : is->ack_size, capacity));
        rtt = link->impaired != NULL ? ecc_state_add(rtt, least_of(link->impaired)) : rtt;
    }
    rtt = is->impairment > 0 ? ecc_state_add(rtt, least_of(&self->receivers[index].impaired)) : rtt;
    return is->ack_every > 1 ? ecc_state_add(rtt, is->ack_wait) : rtt;
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
        .acks_lost = flow->counts ? self->receivers[index].acks_lost : 0,
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
    int64_t of = index < self->n_flows ? ECC_OF_FLOW : ECC_OF_TRANSFER;

    return ecc_state_fail(self, code, of, self->flows[index].number, hook, value);
}

void
ecc_flow_leave_if_over(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (index >= self->n_flows && !flow->active && flow->n_packets == 0 && !ecc_pool_is_followed(self, index)) {
        ecc_pool_leave(self, index);
    }
}

void
ecc_flow_forget(ecc_engine_t *self, uint32_t id)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;

    ecc_packets_give_back(&self->packets, id);
    if (index >= self->n_flows) {
        self->flows[index].n_packets--;
        ecc_flow_leave_if_over(self, index);
    }
}

int
ecc_flow_end(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    flow->active = false;
    flow->finish = self->now;
    ecc_calendar_cancel(&self->fast, self->base[ECC_SEND] + index);
    if (self->wants_timers) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_TIMER] + index);
    }
    if (self->wants_stops) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_STOP] + index);
    }
    ret = ecc_ask_stop(self, index);
    ecc_flow_leave_if_over(self, index);
    return ret;
}

int
ecc_flow_start(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace(self, ECC_START, index, ecc_state_in_flight(flow));
    flow->active = true;
    flow->started = true;
    ret = ecc_ask_alone(self, index, ECC_FLOW_ON_START, flow->is->on_start, 0);
    return ret != 0 ? ret : ecc_sender_go(self, index);
}

int
ecc_flow_stop(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    ecc_state_trace(self, ECC_STOP, index, ecc_state_in_flight(flow));
    return flow->active ? ecc_flow_end(self, index) : 0;
}

int
ecc_flow_timer(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    double timer;
    int ret;

    ecc_state_trace(self, ECC_TIMER, index, ecc_state_in_flight(flow));
    ret = ecc_ask_alone(self, index, ECC_FLOW_ON_TIMER, flow->is->on_timer, 0);
    if (ret != 0) {
        return ret;
    }
    timer = self->flow_env.timer;
    if (timer < 0.0 || ecc_state_ps(timer) >= 1) {
        flow->n_hasty = 0;
    } else if (++flow->n_hasty == ECC_MOST_HASTY) {
        return ecc_flow_fail(self, ECC_ERR_TIMER_STUCK, index, ECC_FLOW_ON_TIMER, timer);
    }
    return ecc_sender_go(self, index);
}

int
ecc_flow_access(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->access.head;
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    ecc_state_trace(self, ECC_ACCESS, index, packet->offset);
    flow->access.head = packet->next;
    if (flow->access.head != ECC_NO_PACKET) {
        ecc_calendar_insert(&self->fast, self->base[ECC_ACCESS] + index, packet->next_time);
    }
    return ecc_link_arrive(self, id);
}

void
ecc_flow_return(ecc_engine_t *self, uint32_t id, ecc_ps_t time)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    ecc_flow_state_t *flow = &self->flows[index];

    time = ecc_state_add(time, flow->ack_delay);
    if (ecc_packets_append(&self->packets, &flow->acks, id, time)) {
        ecc_calendar_insert(&self->fast, self->base[ECC_ACK] + index, time);
    }
}

void
ecc_flow_catch_up(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->acks.head;
    ecc_ps_t time = self->fast.nodes[self->base[ECC_ACK] + index].time;

    if (!flow->echoes || id == ECC_NO_PACKET) {
        return;
    }
    if (flow->counted != ECC_NO_PACKET) {
        id = ecc_packets_at(&self->packets, flow->counted)->next;
        time = ecc_packets_at(&self->packets, flow->counted)->next_time;
    }
    while (id != ECC_NO_PACKET && time - flow->ack_delay <= self->now) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        flow->received += packet->size;
        flow->counted = id;
        self->n_received++;
        id = packet->next;
        time = packet->next_time;
    }
}

int
ecc_flow_receive(ecc_engine_t *self, uint32_t id)
{
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    bool may_wait = true;
    int ret;

    self->n_received++;
    if (flow->repairs) {
        ret = ecc_transport_take(self, packet, &may_wait);
        if (ret != 0) {
            return ecc_flow_fail(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
    } else {
        flow->received += packet->size;
    }
    if (flow->follower != ECC_NO_FOLLOWER) {
        ecc_pool_receive(self, packet->flow);
    }
    ret = ecc_ask_receive(self, packet);
    if (ret != 0) {
        return ret;
    }
    if (flow->counts) {
        return ecc_receiver_take(self, id, may_wait);
    }
    if (flow->repairs) {
        ecc_transport_say(self, packet);
    }
    ecc_flow_return(self, id, self->now);
    return 0;
}
