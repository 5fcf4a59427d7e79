#include "receiver.h"

#include <string.h>

#include "flow.h"
#include "link.h"
#include "transport.h"

#define PATIENCE_IN_ORDER 1u
#define PATIENCE ((uint32_t) ECC_MOST_HOLES)

static bool
is_reordered(const ecc_engine_t *self, const ecc_flow_t *is, const uint32_t *hops)
{
    bool found = false;

    for (int64_t k = 0; k < is->n_forward; k++) {
        found = found || ecc_link_reorders(self, hops[k] >> ECC_HOP_LINK);
    }
    return found;
}

bool
ecc_receiver_is_needed(const ecc_engine_t *self, const ecc_flow_t *is, const uint32_t *hops)
{
    return is->n_reverse > 0 || is->impairment > 0 || is->ack_every > 1 || is_reordered(self, is, hops);
}

void
ecc_receiver_init(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_receiver_t *receiver = &self->receivers[index];
    ecc_impaired_t impaired = receiver->impaired;

    *receiver = (ecc_receiver_t) { .kept = ECC_NO_PACKET, .impaired = impaired };
    receiver->patience = is_reordered(self, flow->is, &self->hops[flow->position]) ? PATIENCE : PATIENCE_IN_ORDER;
    if (flow->is->impairment > 0) {
        const ecc_impairment_t *is = &self->impairments[flow->is->impairment - 1];
        ecc_impairment_init(&receiver->impaired, is, self->seed, (UINT64_C(1) << 35) + (uint64_t) flow->number);
        flow->late = is->reorders != 0;
    }
}

/* RECEIVERS of the text: a packet from offset `begin` on. */
static void
note(ecc_receiver_t *self, int64_t begin, int64_t size)
{
    ecc_hole_t *holes = self->holes;

    if (begin >= self->base && self->next <= self->base) {
        self->next = self->base;
        self->missing = 0;
        self->n_holes = 0;
    }
    for (uint32_t k = 0; k < self->n_holes; k++) {
        holes[k].passed += holes[k].end <= begin;
        holes[k].missing -= holes[k].begin <= begin && begin < holes[k].end ? size : 0;
    }
    if (begin >= self->next) {
        if (begin > self->next) {
            holes[self->n_holes++] = (ecc_hole_t) { self->next, begin, begin - self->next, 1 };
        }
        self->next = begin + size;
    }
    while (self->n_holes > 0 && (holes[0].missing == 0 || holes[0].passed >= self->patience)) {
        self->missing += holes[0].missing;
        self->n_holes--;
        memmove(holes, holes + 1, self->n_holes * sizeof(*holes));
    }
    self->front = self->n_holes > 0 ? holes[0].begin : self->next;
}

int
ecc_receiver_return(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    ecc_impaired_t *impaired = &receiver->impaired;
    ecc_ps_t time;
    int ret;

    if (flow->is->impairment == 0) {
        ecc_flow_return(self, id, self->now);
        return 0;
    }
    if (ecc_impairment_loses(impaired, 1)) {
        receiver->acks_lost++;
        ecc_state_trace(self, ECC_ACK_LOSS, packet->flow, packet->offset);
        ecc_flow_forget(self, id);
        return 0;
    }
    time = ecc_impairment_passes(impaired, self->now, flow->ack_delay);
    ret = ecc_impairment_append(impaired, &self->memory, &self->packets, &flow->acks, &self->fast,
        self->base[ECC_ACK] + packet->flow, id, time);
    return ret == 0 ? 0 : ecc_flow_fail(self, ret, packet->flow, ECC_NO_HOOK, impaired->n_late);
}

static int
acknowledge(ecc_engine_t *self, uint32_t id)
{
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    const ecc_receiver_t *receiver = &self->receivers[packet->flow];

    if (flow->repairs) {
        ecc_transport_say(self, packet);
    } else {
        *ecc_state_news(self, packet) = (ecc_news_t) { receiver->front, receiver->missing };
    }
    if (flow->is->n_reverse > 0) {
        packet->position++;
        return ecc_link_arrive(self, id);
    }
    return ecc_receiver_return(self, id);
}

/* What has been kept becomes the ACK. */
static int
let_go(ecc_engine_t *self, uint32_t index)
{
    ecc_receiver_t *receiver = &self->receivers[index];
    uint32_t id = receiver->kept;

    receiver->kept = ECC_NO_PACKET;
    receiver->n_kept = 0;
    return acknowledge(self, id);
}

int
ecc_receiver_take(ecc_engine_t *self, uint32_t id, bool may_wait)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    uint32_t node = self->base[ECC_FLUSH] + packet->flow;

    if (!flow->repairs) {
        note(receiver, packet->offset, packet->size);
    }
    if (flow->is->ack_every <= 1) {
        return acknowledge(self, id);
    }
    if (receiver->kept != ECC_NO_PACKET) {
        ecc_flow_forget(self, receiver->kept);
    } else {
        ecc_calendar_insert(&self->slow, node, ecc_state_add(self->now, flow->is->ack_wait));
    }
    receiver->kept = id;
    if (++receiver->n_kept < flow->is->ack_every && may_wait) {
        return 0;
    }
    ecc_calendar_cancel(&self->slow, node);
    return let_go(self, packet->flow);
}

int
ecc_receiver_flush(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    ecc_state_trace(self, ECC_FLUSH, index, flow->sent - flow->expected);
    return let_go(self, index);
}

ecc_news_t
ecc_receiver_hear(ecc_engine_t *self, const ecc_packet_t *packet)
{
    ecc_news_t news = *ecc_state_news(self, packet);
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    int64_t known = receiver->known;

    if (news.front > self->flows[packet->flow].expected) {
        receiver->known = news.missing;
    }
    news.missing -= known;
    return news;
}

int
ecc_receiver_verify(const ecc_receiver_t *self)
{
    int64_t end = 0;
    uint32_t passed = self->patience;
    bool fine = self->n_holes < self->patience && self->n_holes < ECC_MOST_HOLES
        && self->front == (self->n_holes > 0 ? self->holes[0].begin : self->next);

    for (uint32_t k = 0; k < self->n_holes && fine; k++) {
        const ecc_hole_t *hole = &self->holes[k];
        fine = hole->begin >= end && hole->end > hole->begin && hole->end <= self->next && hole->passed > 0
            && hole->passed < passed && hole->missing <= hole->end - hole->begin;
        end = hole->end;
        passed = hole->passed;
    }
    return fine ? 0 : ECC_ERR_BROKEN;
}
