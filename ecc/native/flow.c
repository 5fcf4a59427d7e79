#include "flow.h"

#include <math.h>
#include <string.h>

#include "link.h"
#include "pool.h"
#include "receiver.h"
#include "transport.h"

#define LEAST_TIMEOUT (INT64_C(1000000000000))
#define MOST_TIMEOUT (INT64_C(64000000000000)) /* by doubling */
#define MOST_DOUBLINGS 6

/* A size for packets once the opening is over. */
static int32_t
full_size(ecc_flow_state_t *flow)
{
    const ecc_flow_t *is = flow->is;

    return (int32_t) (flow->draws_sizes ? ecc_random_between(&flow->random_sizes, is->packet_size, is->packet_size_max)
                                        : is->packet_size);
}

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
    flow->full_size = full_size(flow);
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

static int64_t
in_flight(const ecc_flow_state_t *flow)
{
    return flow->sent - flow->expected;
}

/* What counts against the window. */
static inline int64_t
outstanding(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return flow->repairs ? ecc_transport_in_flight(&self->transports[index]) : in_flight(flow);
}

/* rto of the text. */
static ecc_ps_t
timeout(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t wait;

    if (flow->repairs) {
        wait = ecc_transport_rto(&self->transports[index], flow);
    } else {
        wait = ecc_state_ps(3.0 * flow->srtt);
        wait = wait > LEAST_TIMEOUT ? wait : LEAST_TIMEOUT;
    }
    if (wait >= MOST_TIMEOUT) {
        return wait;
    }
    wait <<= flow->n_timeouts;
    return wait < MOST_TIMEOUT ? wait : MOST_TIMEOUT;
}

/* What hooks without a packet see as its size. */
static int64_t
largest_size(const ecc_flow_state_t *flow)
{
    bool opening = flow->srtt == 0.0 && flow->is->opening_size > 0;

    return flow->draws_sizes && !opening ? flow->is->packet_size_max : flow->packet_size;
}

/* What hooks see of a transport beside what they see of all flows. */
static void
show_transport(ecc_engine_t *self, uint32_t index, int hook_number, int64_t kind)
{
    const ecc_transport_t *transport = &self->transports[index];
    ecc_flow_env_t *env = &self->flow_env;

    env->in_flight = hook_number != ECC_FLOW_ON_LOSS ? ecc_transport_in_flight(transport)
                                                     : (kind == 0 ? transport->before : transport->top) - transport->una;
    env->recovering = transport->recovering;
    env->recovered = hook_number == ECC_FLOW_ON_ACK && transport->recovered;
}

/* Calls a hook; header: the whole of a packet's. */
static int
call(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook, unsigned char *header, int64_t packet_size,
    int64_t kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_flow_env_t *env = &self->flow_env;
    int32_t ret;

    env->now = ecc_state_seconds(self->now);
    env->packet_size = packet_size;
    env->rtt = flow->rtt;
    env->srtt = flow->srtt;
    env->min_rtt = flow->min_rtt;
    env->in_flight = in_flight(flow);
    env->delivered = flow->expected - flow->lost;
    env->lost = flow->lost;
    env->rate = flow->rate;
    env->window = flow->window;
    env->timer = -1.0;
    env->kind = kind;
    env->flow = index;
    env->random = flow->wants_random ? ecc_random_next(&flow->random) : 0.0;
    env->size = flow->size;
    env->header_bytes = flow->has_header_bytes ? flow->is->header_bytes : 0;
    env->acked = self->acked;
    env->recovering = 0;
    env->recovered = 0;
    if (flow->repairs) {
        show_transport(self, index, hook_number, kind);
    }
    ret = hook(flow->state, header + flow->header_offset, flow->params, env);
    if (ret != 0) {
        (void) ecc_flow_fail(self, ECC_ERR_HOOK_FAILED, index, hook_number, ret);
        self->report.failed = 1;
        return ECC_ERR_HOOK_FAILED;
    }
    return 0;
}

/* As `call`, and what the hook wrote is taken over. */
static int
ask(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook, unsigned char *header, int64_t packet_size,
    int64_t kind)
{
    ecc_flow_state_t *flow = &self->flows[index];
    const ecc_flow_env_t *env = &self->flow_env;
    int ret;

    if (hook == NULL) {
        return 0;
    }
    ret = call(self, index, hook_number, hook, header, packet_size, kind);
    if (ret != 0) {
        return ret;
    }
    if (env->rate != flow->rate) {
        if (!(env->rate >= 0.0 && isfinite(env->rate))) {
            return ecc_flow_fail(self, ECC_ERR_RATE, index, hook_number, env->rate);
        }
        flow->rate = env->rate;
        flow->gap = flow->last_size > 0 && flow->rate > 0.0 ? ecc_state_tx(flow->last_size, flow->rate) : 0;
        flow->changed = true;
    }
    if (env->window != flow->window) {
        if (!(env->window >= 0.0 && isfinite(env->window))) {
            return ecc_flow_fail(self, ECC_ERR_WINDOW, index, hook_number, env->window);
        }
        flow->window = env->window;
        flow->changed = true;
    }
    if (!(env->timer < 0.0)) {
        ecc_ps_t wait;
        if (isnan(env->timer)) {
            return ecc_flow_fail(self, ECC_ERR_TIMER, index, hook_number, env->timer);
        }
        wait = ecc_state_ps(env->timer);
        ecc_calendar_move(
            &self->slow, self->base[ECC_TIMER] + index, ecc_state_add(self->now, wait < 1 ? 1 : wait));
    }
    return 0;
}

static int
ask_without_packet(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook, int64_t kind)
{
    memset(self->scratch, 0, self->header_size);
    return ask(self, index, hook_number, hook, self->scratch, largest_size(&self->flows[index]), kind);
}

/* The next packet; its size is 0 if nothing is owed, its rule 0 without transport. */
static inline ecc_segment_t
next(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_segment_t segment = { flow->sent, flow->packet_size, 0 };

    if (flow->repairs) {
        return ecc_transport_next(&self->transports[index], flow);
    }
    if (flow->size >= 0) {
        int64_t owed = flow->size - (flow->sent - flow->lost);
        segment.size = owed < flow->packet_size ? owed : flow->packet_size;
    }
    return segment;
}

/* The timer of a transport starts. */
static void
start_timer(ecc_engine_t *self, uint32_t index)
{
    uint32_t node = self->base[ECC_TIMEOUT] + index;
    ecc_ps_t deadline = ecc_state_add(self->now, timeout(self, index));

    self->flows[index].heard = self->now;
    self->flows[index].timed = true;
    if (!ecc_calendar_pending(&self->slow, node) || self->slow.nodes[node].time > deadline) {
        ecc_calendar_move(&self->slow, node, deadline);
    }
}

/* A transport has sent a packet. */
static void
note_sent(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];
    bool was_idle = transport->una == transport->top;

    ecc_transport_sent(transport, segment);
    if (segment.rule != 3) {
        flow->lost += segment.size;
        flow->expected += segment.size;
    }
    if (was_idle) {
        start_timer(self, index);
    }
}

static int
emit(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_packet_t *packet;
    int64_t size = segment.size;
    int64_t paced_size;
    ecc_ps_t due;
    uint32_t id;
    int ret = ecc_packets_take(&self->packets, &self->memory, &id);

    if (ret != 0) {
        return ecc_flow_fail(self, ret, index, ECC_NO_HOOK, self->packets.n_used);
    }
    packet = ecc_packets_at(&self->packets, id);
    if (index >= self->n_flows) {
        flow->n_packets++;
    }
    packet->sent = self->now;
    packet->offset = segment.begin;
    packet->flow = index;
    packet->size = (int32_t) size;
    packet->position = flow->position;
    memset(ecc_packets_header(packet), 0, self->header_size);
    flow->last = self->now;
    paced_size = flow->has_header_bytes ? size + flow->is->header_bytes : size;
    if (flow->last_size != paced_size) {
        flow->last_size = (int32_t) paced_size;
        flow->gap = flow->rate > 0.0 ? ecc_state_tx(flow->last_size, flow->rate) : 0;
    }
    ret = ask(self, index, ECC_FLOW_ON_SEND, flow->on_send, ecc_packets_header(packet), size,
        segment.rule != 0 && segment.rule != 3);
    if (ret != 0) {
        return ret;
    }
    if (in_flight(flow) == 0) {
        flow->heard = self->now;
    }
    flow->sent += size;
    if (flow->repairs) {
        note_sent(self, index, segment);
    }
    if (flow->draws_sizes) {
        bool opening = flow->srtt == 0.0 && flow->is->opening_size > 0;
        flow->full_size = full_size(flow);
        flow->packet_size = opening ? flow->packet_size : flow->full_size;
    }
    if (!flow->timed) {
        flow->timed = true;
        ecc_calendar_insert(
            &self->slow, self->base[ECC_TIMEOUT] + index, ecc_state_add(self->now, timeout(self, index)));
    }
    if (flow->access_delay == 0) {
        return ecc_link_arrive(self, id);
    }
    due = ecc_state_add(self->now, flow->access_delay);
    if (ecc_packets_append(&self->packets, &flow->access, id, due)) {
        ecc_calendar_insert(&self->fast, self->base[ECC_ACCESS] + index, due);
    }
    return 0;
}

/* GO of the text, where it is not clear that nothing changes. */
static int
go_on(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t send_node = self->base[ECC_SEND] + index;

    for (;;) {
        ecc_segment_t segment = next(self, index);
        int64_t size = segment.size;
        int ret;
        flow->changed = false;
        if (size <= 0
            || (flow->window > 0.0 && segment.rule != 1
                && (double) (outstanding(self, index) + size) > flow->window)
            || (flow->window == 0.0 && flow->rate == 0.0)) {
            ecc_calendar_cancel(&self->fast, send_node);
            return 0;
        }
        if (flow->rate > 0.0) {
            ecc_ps_t due = flow->last_size == 0 ? self->now : ecc_state_add(flow->last, flow->gap);
            ecc_calendar_move(&self->fast, send_node, due > self->now ? due : self->now);
            return 0;
        }
        ecc_calendar_cancel(&self->fast, send_node);
        ret = emit(self, index, segment);
        if (ret != 0) {
            return ret;
        }
    }
}

/* GO of the text. */
static inline int
go(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (!flow->active
        || (!flow->changed && !flow->repairs && ecc_calendar_pending(&self->fast, self->base[ECC_SEND] + index))) {
        return 0;
    }
    return go_on(self, index);
}

static int
end(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret = 0;

    flow->active = false;
    flow->finish = self->now;
    ecc_calendar_cancel(&self->fast, self->base[ECC_SEND] + index);
    ecc_calendar_cancel(&self->slow, self->base[ECC_TIMER] + index);
    ecc_calendar_cancel(&self->slow, self->base[ECC_STOP] + index);
    if (flow->is->on_stop != NULL) {
        memset(self->scratch, 0, self->header_size);
        ret = call(self, index, ECC_FLOW_ON_STOP, flow->is->on_stop, self->scratch, largest_size(flow), 0);
    }
    ecc_flow_leave_if_over(self, index);
    return ret;
}

int
ecc_flow_start(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace(self, ECC_START, index, in_flight(flow));
    flow->active = true;
    flow->started = true;
    ret = ask_without_packet(self, index, ECC_FLOW_ON_START, flow->is->on_start, 0);
    return ret != 0 ? ret : go(self, index);
}

int
ecc_flow_stop(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    ecc_state_trace(self, ECC_STOP, index, in_flight(flow));
    return flow->active ? end(self, index) : 0;
}

int
ecc_flow_send(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace(self, ECC_SEND, index, flow->sent);
    ret = emit(self, index, next(self, index));
    if (ret != 0) {
        return ret;
    }
    if (flow->size < 0 && flow->window == 0.0 && flow->rate > 0.0 && !flow->repairs) { /* GO, made short for the commonest flows */
        flow->changed = false;
        ecc_calendar_insert(&self->fast, self->base[ECC_SEND] + index, ecc_state_add(flow->last, flow->gap));
        return 0;
    }
    return go_on(self, index);
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

    self->n_received++;
    if (flow->repairs) {
        int ret = ecc_transport_take(self, packet, &may_wait);
        if (ret != 0) {
            return ecc_flow_fail(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
    } else {
        flow->received += packet->size;
    }
    if (flow->follower != ECC_NO_FOLLOWER) {
        ecc_pool_receive(self, packet->flow);
    }
    if (flow->is->on_receive != NULL) {
        int ret = call(self, packet->flow, ECC_FLOW_ON_RECEIVE, flow->is->on_receive, ecc_packets_header(packet),
            packet->size, 0);
        if (ret != 0) {
            return ret;
        }
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

/* What an ACK settles without a transport; acked: bytes that it acknowledges and none did before. */
static inline int
settle(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, int64_t *acked)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int64_t front = packet->offset + packet->size;
    int64_t lost = packet->offset - flow->expected;
    int ret = 0;

    if (flow->counts) {
        ecc_news_t news = ecc_receiver_hear(self, packet);
        front = news.front;
        lost = news.missing;
    }
    flow->heard = self->now;
    flow->n_timeouts = 0;
    if (front <= flow->expected) {
        return 0;
    }
    if (lost > 0) {
        flow->lost += lost;
        flow->expected += lost;
        if (flow->active) {
            ret = ask_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->is->on_loss, 0);
        }
    }
    *acked = front - flow->expected;
    flow->expected = front;
    return ret;
}

/* As `settle`, with a transport. */
static int
settle_transport(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, int64_t *acked)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_heard_t heard;
    int ret = ecc_transport_hear(self, packet, &heard);

    if (ret != 0) {
        return ecc_flow_fail(self, ret, index, ECC_NO_HOOK, (double) packet->offset);
    }
    *acked = heard.acked;
    flow->expected += heard.acked;
    flow->n_timeouts = heard.acked > 0 ? 0 : flow->n_timeouts;
    if (heard.starts_timer) {
        start_timer(self, index);
    }
    return heard.is_loss && flow->active
        ? ask_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->is->on_loss, 0) : 0;
}

int
ecc_flow_ack(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->acks.head;
    ecc_packet_t *packet;
    int64_t acked = 0;
    int ret;

    if (id != ECC_NO_PACKET) {
        packet = ecc_packets_at(&self->packets, id);
        flow->acks.head = packet->next;
        if (flow->acks.head != ECC_NO_PACKET) {
            ecc_calendar_insert(&self->fast, self->base[ECC_ACK] + index, packet->next_time);
        }
    } else { /* ACKs overtake each other */
        id = ecc_impairment_take_late(&self->receivers[index].impaired, &self->fast, self->base[ECC_ACK] + index);
        packet = ecc_packets_at(&self->packets, id);
    }
    ecc_state_trace(self, ECC_ACK, index, packet->offset);
    if (flow->counted == id) {
        flow->counted = ECC_NO_PACKET;
    } else if (flow->echoes && flow->counted == ECC_NO_PACKET) {
        flow->received += packet->size;
        self->n_received++;
    }
    flow->rtt = ecc_state_seconds(self->now - packet->sent);
    if (flow->repairs) {
        ecc_transport_measure(&self->transports[index], flow);
    }
    if (flow->srtt == 0.0) {
        flow->srtt = flow->rtt;
        flow->min_rtt = flow->rtt;
        flow->packet_size = flow->full_size;
        flow->changed = true; /* what fits into the window with an opening packet may not with a whole one */
    } else {
        flow->srtt += (flow->rtt - flow->srtt) / 8.0;
        flow->min_rtt = flow->rtt < flow->min_rtt ? flow->rtt : flow->min_rtt;
    }
    ret = flow->repairs ? settle_transport(self, index, packet, &acked) : settle(self, index, packet, &acked);
    if (ret == 0 && flow->active) {
        self->acked = acked;
        ret = ask(self, index, ECC_FLOW_ON_ACK, flow->on_ack, ecc_packets_header(packet), packet->size, 0);
        self->acked = 0;
    }
    ecc_flow_forget(self, id);
    if (ret != 0) {
        return ret;
    }
    if (flow->active && flow->size >= 0 && flow->expected - flow->lost >= flow->size) {
        flow->completed = true;
        return end(self, index);
    }
    return go(self, index);
}

int
ecc_flow_timer(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace(self, ECC_TIMER, index, in_flight(flow));
    ret = ask_without_packet(self, index, ECC_FLOW_ON_TIMER, flow->is->on_timer, 0);
    return ret != 0 ? ret : go(self, index);
}

/* Without a transport, what is in flight is held for lost, and the receiver is told. */
static void
give_up(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->lost += in_flight(flow);
    flow->expected = flow->sent;
    flow->heard = self->now;
    if (flow->counts) {
        self->receivers[index].base = flow->sent;
        self->receivers[index].known = 0;
    }
}

int
ecc_flow_timeout(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t deadline = ecc_state_add(flow->heard, timeout(self, index));
    int ret = 0;

    ecc_state_trace(self, ECC_TIMEOUT, index, in_flight(flow));
    flow->timed = false;
    if (in_flight(flow) == 0 || (flow->repairs && !flow->active)) {
        return 0;
    }
    if (deadline > self->now) {
        flow->timed = true;
        ecc_calendar_insert(&self->slow, self->base[ECC_TIMEOUT] + index, deadline);
        return 0;
    }
    flow->n_timeouts = (uint8_t) (flow->n_timeouts + (flow->n_timeouts < MOST_DOUBLINGS));
    if (flow->repairs) {
        ecc_transport_time_out(&self->transports[index]);
        start_timer(self, index);
    } else {
        give_up(self, index);
    }
    if (flow->active) {
        ret = ask_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->is->on_loss, 1);
    }
    return ret != 0 ? ret : go(self, index);
}
