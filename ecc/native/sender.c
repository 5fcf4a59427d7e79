#include "sender.h"

#include <string.h>

#include "ask.h"
#include "flow.h"
#include "link.h"
#include "receiver.h"
#include "transport.h"

#define LEAST_TIMEOUT (INT64_C(1000000000000))
#define MOST_TIMEOUT (INT64_C(64000000000000)) /* by doubling */

/* What counts against the window. */
static inline int64_t
outstanding(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return flow->repairs ? ecc_transport_in_flight(&self->transports[index]) : ecc_state_in_flight(flow);
}

/* Whether the window keeps a packet back. */
static inline bool
is_full(const ecc_engine_t *self, uint32_t index, int64_t size)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t out = outstanding(self, index);

    return (out > 0 || !flow->repairs) && (double) (out + size) > flow->window;
}

/* rto of the text. */
static ecc_ps_t
timeout(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_measured = flow->srtt > 0.0;
    ecc_ps_t least = LEAST_TIMEOUT;
    ecc_ps_t wait;

    if (flow->repairs && is_measured) {
        wait = ecc_transport_rto(&self->transports[index], flow);
    } else {
        wait = ecc_state_ps(3.0 * (is_measured ? flow->srtt : ecc_state_seconds(ecc_flow_first_rtt(self, index))));
        least = flow->repairs && flow->is->least_rto > least ? flow->is->least_rto : least;
        wait = wait > least ? wait : least;
    }
    if (wait >= MOST_TIMEOUT) {
        return wait;
    }
    wait <<= flow->n_timeouts;
    return wait < MOST_TIMEOUT ? wait : MOST_TIMEOUT;
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
        segment.size = owed < flow->packet_size ? (int32_t) owed : flow->packet_size;
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
    if (was_idle
        || (transport->sacks && transport->recovering && segment.rule != 3 && segment.begin < transport->recover)) {
        start_timer(self, index);
    }
}

static int
emit(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_packet_t *packet;
    int32_t size = segment.size;
    int32_t paced_size;
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
    packet->size = size;
    packet->position = flow->position;
    memset(ecc_packets_header(packet), 0, self->header_size);
    flow->last = self->now;
    paced_size = flow->has_header_bytes ? size + (int32_t) flow->is->header_bytes : size;
    if (flow->last_size != paced_size) {
        flow->last_size = paced_size;
        flow->gap = flow->rate > 0.0 ? ecc_state_tx(flow->last_size, flow->rate) : 0;
    }
    ret = ecc_ask_packet(self, ECC_FLOW_ON_SEND, flow->on_send, packet, segment.rule != 0 && segment.rule != 3);
    if (ret != 0) {
        return ret;
    }
    if (ecc_state_in_flight(flow) == 0) {
        flow->heard = self->now;
    }
    flow->sent += size;
    if (flow->repairs) {
        note_sent(self, index, segment);
    }
    if (flow->draws_sizes) {
        bool opening = flow->srtt == 0.0 && flow->is->opening_size > 0;
        flow->full_size = ecc_flow_full_size(flow);
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

    for (int n_sent = 0;; n_sent++) {
        ecc_segment_t segment = next(self, index);
        int32_t size = segment.size;
        int ret;
        flow->changed = false;
        if (size <= 0 || (flow->window > 0.0 && segment.rule != 1 && is_full(self, index, size))
            || (flow->window == 0.0 && flow->rate == 0.0)) {
            ecc_calendar_cancel(&self->fast, send_node);
            return 0;
        }
        if (flow->rate > 0.0) {
            ecc_ps_t due = flow->last_size == 0 ? self->now : ecc_state_add(flow->last, flow->gap);
            ecc_calendar_move(&self->fast, send_node, due > self->now ? due : self->now);
            return 0;
        }
        if (n_sent == ECC_MOST_BURST) { /* an event ends, whatever the window */
            ecc_calendar_move(&self->fast, send_node, self->now);
            return 0;
        }
        ecc_calendar_cancel(&self->fast, send_node);
        atomic_store_explicit(
            &self->last_event, atomic_load_explicit(&self->last_event, memory_order_relaxed) - 1, memory_order_relaxed);
        ret = emit(self, index, segment);
        if (ret != 0) {
            return ret;
        }
    }
}

int
ecc_sender_go(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (!flow->active
        || (!flow->changed && !flow->repairs && ecc_calendar_pending(&self->fast, self->base[ECC_SEND] + index))) {
        return 0;
    }
    return go_on(self, index);
}

int
ecc_sender_send(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace(self, ECC_SEND, index, flow->sent);
    ret = emit(self, index, next(self, index));
    if (ret != 0) {
        return ret;
    }
    if (flow->size < 0 && flow->window == 0.0 && flow->rate > 0.0
        && !flow->repairs) { /* GO, made short for the commonest flows */
        flow->changed = false;
        ecc_calendar_insert(&self->fast, self->base[ECC_SEND] + index, ecc_state_add(flow->last, flow->gap));
        return 0;
    }
    return go_on(self, index);
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
        if (lost > front - flow->expected) { /* a receiver that contradicts itself: of a forged checkpoint */
            return ecc_flow_fail(self, ECC_ERR_BROKEN, index, ECC_NO_HOOK, (double) lost);
        }
        flow->lost += lost;
        flow->expected += lost;
        if (flow->active) {
            ret = ecc_ask_alone(self, index, ECC_FLOW_ON_LOSS, flow->is->on_loss, 0);
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
    return heard.is_loss && flow->active ? ecc_ask_alone(self, index, ECC_FLOW_ON_LOSS, flow->is->on_loss, 0) : 0;
}

int
ecc_sender_ack(ecc_engine_t *self, uint32_t index)
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
        ret = ecc_ask_packet(self, ECC_FLOW_ON_ACK, flow->on_ack, packet, 0);
        self->acked = 0;
    }
    ecc_flow_forget(self, id);
    if (ret != 0) {
        return ret;
    }
    if (flow->active && flow->size >= 0 && flow->expected - flow->lost >= flow->size) {
        flow->completed = true;
        return ecc_flow_end(self, index);
    }
    return ecc_sender_go(self, index);
}

/* Without a transport, what is in flight is held for lost, and the receiver is told. */
static void
give_up(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->lost += ecc_state_in_flight(flow);
    flow->expected = flow->sent;
    flow->heard = self->now;
    if (flow->counts) {
        self->receivers[index].base = flow->sent;
        self->receivers[index].known = 0;
    }
}

int
ecc_sender_timeout(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t deadline = ecc_state_add(flow->heard, timeout(self, index));
    int ret = 0;

    ecc_state_trace(self, ECC_TIMEOUT, index, ecc_state_in_flight(flow));
    flow->timed = false;
    if (ecc_state_in_flight(flow) == 0 || (flow->repairs && !flow->active)) {
        return 0;
    }
    if (deadline > self->now) {
        flow->timed = true;
        ecc_calendar_insert(&self->slow, self->base[ECC_TIMEOUT] + index, deadline);
        return 0;
    }
    flow->n_timeouts = (uint8_t) (flow->n_timeouts + (flow->n_timeouts < ECC_MOST_DOUBLINGS));
    if (flow->repairs) {
        ecc_transport_time_out(&self->transports[index]);
        start_timer(self, index);
    } else {
        give_up(self, index);
    }
    if (flow->active) {
        ret = ecc_ask_alone(self, index, ECC_FLOW_ON_LOSS, flow->is->on_loss, 1);
    }
    return ret != 0 ? ret : ecc_sender_go(self, index);
}

int
ecc_sender_verify(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool fine = !ecc_calendar_pending(&self->fast, self->base[ECC_SEND] + index)
        || (flow->active && next(self, index).size > 0);

    return fine ? 0 : ECC_ERR_BROKEN;
}
