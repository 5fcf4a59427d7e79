#include "transport.h"

#include <string.h>

#include "errors.h"

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static ecc_range_t *
sacks_of(ecc_news_t *news)
{
    return (ecc_range_t *) (void *) (news + 1);
}

void
ecc_transport_init(ecc_engine_t *self, uint32_t index)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_ranges_t sacked = transport->sacked;
    ecc_ranges_t held = transport->held;

    *transport = (ecc_transport_t) { .sacks = self->flows[index].is->transport == ECC_TRANSPORT_SACK,
        .window = self->flows[index].is->receiver_window,
        .sacked = sacked,
        .held = held };
    ecc_ranges_clear(&transport->sacked);
    ecc_ranges_clear(&transport->held);
}

void
ecc_transport_free(ecc_transport_t *self, ecc_memory_t *memory)
{
    ecc_ranges_free(&self->sacked, memory);
    ecc_ranges_free(&self->held, memory);
}

/* ---- the sender ---- */

int64_t
ecc_transport_in_flight(const ecc_transport_t *self)
{
    int64_t out = 0;

    for (uint32_t k = self->sacked.count; k > 0; k--) { /* few: beyond `gone` there are less than three */
        const ecc_range_t *range = ecc_ranges_at(&self->sacked, k - 1);
        if (range->end <= self->gone) {
            break;
        }
        out += range->end - most(range->begin, self->gone);
    }
    return most(0, self->top - self->gone - out + self->again - self->una - self->left);
}

void
ecc_transport_measure(ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    double off = flow->srtt > flow->rtt ? flow->srtt - flow->rtt : flow->rtt - flow->srtt;

    self->rttvar = flow->srtt == 0.0 ? flow->rtt / 2.0 : self->rttvar + (off - self->rttvar) / 4.0;
}

ecc_ps_t
ecc_transport_rto(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    double margin = ecc_state_seconds(flow->is->rto_granularity);
    double spread = 4.0 * self->rttvar;

    return most(flow->is->least_rto, ecc_state_ps(flow->srtt + (margin > spread ? margin : spread)));
}

/* From the first byte at or after `place` that is not sacked, below `end`. */
static ecc_segment_t
hole(const ecc_transport_t *self, int64_t place, int64_t end, int64_t size, uint32_t rule)
{
    int64_t begin = ecc_ranges_skip(&self->sacked, place);

    if (begin >= end) {
        return (ecc_segment_t) { 0 };
    }
    return (ecc_segment_t) { begin, (int32_t) least(size, ecc_ranges_until(&self->sacked, begin, end) - begin), rule };
}

/* What is sent again, though it is not held for lost, where nothing new can go. */
static ecc_segment_t
rescue(const ecc_transport_t *self, int64_t size)
{
    int64_t highest = self->una;
    ecc_segment_t segment;

    if (self->sacked.count > 0) {
        highest = ecc_ranges_at(&self->sacked, self->sacked.count - 1)->end;
    }
    segment = hole(self, self->again, highest, size, 4);
    if (segment.size == 0 && self->una > self->rescue && highest < self->top) {
        int64_t begin = most(highest, self->top - size);
        segment = (ecc_segment_t) { begin, (int32_t) (self->top - begin), 5 };
    }
    return segment;
}

ecc_segment_t
ecc_transport_next(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    ecc_segment_t segment = { 0 };
    int64_t size = flow->packet_size;

    if (self->urgent) {
        return hole(self, self->una, self->top, size, 1);
    }
    if (self->again < self->gone) {
        segment = hole(self, self->again, self->gone, size, 2);
    }
    if (segment.size == 0) {
        int64_t left = flow->size < 0 ? size : least(size, flow->size - self->top);
        segment = (ecc_segment_t) { self->top, (int32_t) left, 3 };
        if (self->window > 0 && segment.begin + segment.size - self->una > self->window) {
            segment.size = 0;
        }
    }
    return segment.size == 0 && self->sacks && self->recovering ? rescue(self, size) : segment;
}

/* All below a place that was to be sent again has been. */
static void
advance(ecc_transport_t *self, int64_t again)
{
    self->left += ecc_ranges_within(&self->sacked, self->again, again);
    self->again = again;
}

void
ecc_transport_sent(ecc_transport_t *self, ecc_segment_t segment)
{
    int64_t end = segment.begin + segment.size;

    if (segment.rule == 3) {
        self->top = end;
    } else if (segment.rule == 5) {
        self->rescue = self->recover;
    } else {
        if (self->sacks || !self->recovering) {
            advance(self, end);
        }
        if (segment.rule == 1 && self->recovering) {
            self->rescue = end;
        }
        self->urgent = false;
    }
}

/* All below `ack` is acknowledged. */
static void
advance_una(ecc_transport_t *self, int64_t ack)
{
    self->left -= ecc_ranges_within(&self->sacked, self->una, least(ack, self->again));
    self->una = ack;
    self->gone = most(self->gone, ack);
    self->again = most(self->again, ack);
    self->urgent = false;
    self->n_duplicates = 0;
    ecc_ranges_drop(&self->sacked, ack);
}

/* Notes the ranges of an ACK: how many bytes were not known. */
static int
note_sacks(ecc_transport_t *self, ecc_memory_t *memory, const ecc_flow_t *is, const ecc_range_t *sacks, int64_t *bytes)
{
    int64_t enough = (ECC_MOST_DUPLICATES - 1) * most(is->packet_size, is->packet_size_max);
    int64_t above = 0;

    *bytes = 0;
    for (uint32_t k = 0; k < ECC_MOST_SACKS; k++) {
        int64_t begin = most(sacks[k].begin, self->una);
        int64_t end = sacks[k].end;
        int ret;
        if (begin >= end) {
            continue;
        }
        *bytes += end - begin - ecc_ranges_within(&self->sacked, begin, end);
        if (begin < self->again) {
            int64_t below = least(end, self->again);
            self->left += below - begin - ecc_ranges_within(&self->sacked, begin, below);
        }
        ret = ecc_ranges_add(&self->sacked, memory, begin, end);
        if (ret != 0) {
            return ret;
        }
    }
    for (uint32_t k = 1; k <= self->sacked.count; k++) {
        const ecc_range_t *range = ecc_ranges_at(&self->sacked, self->sacked.count - k);
        above += range->end - range->begin;
        if (k == ECC_MOST_DUPLICATES || above > enough) {
            self->gone = most(self->gone, range->begin);
            break;
        }
    }
    return 0;
}

/* A duplicate ACK, or what counts as one; whether it is taken for a loss. */
static bool
duplicate(ecc_transport_t *self, int64_t size)
{
    self->before = self->n_duplicates == 0 ? self->top : self->before;
    self->n_duplicates++; /* at most ECC_MOST_DUPLICATES: a recovery ends with new data acknowledged */
    self->left += self->sacks ? 0 : size;
    if (self->n_duplicates < ECC_MOST_DUPLICATES && self->gone == self->una) {
        return false;
    }
    self->recovering = true;
    self->recover = self->top;
    self->again = self->una;
    self->left = self->sacks ? 0 : self->left;
    self->urgent = true;
    self->is_partial = false;
    return true;
}

int
ecc_transport_hear(ecc_engine_t *self, const ecc_packet_t *packet, ecc_heard_t *heard)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_news_t *news = ecc_state_news(self, packet);
    int64_t acked = most(0, news->front - transport->una);
    bool is_repeated = news->front == transport->una;
    int64_t size = packet->size;
    int64_t n_sacked = 0;

    *heard = (ecc_heard_t) { .acked = acked, .starts_timer = acked > 0 };
    transport->recovered = false;
    if (acked > 0) {
        advance_una(transport, news->front);
    }
    if (transport->sacks) {
        int ret = note_sacks(transport, &self->memory, self->flows[packet->flow].is, sacks_of(news), &n_sacked);
        if (ret != 0) {
            return ret;
        }
        if (transport->sacked.count > 0 && ecc_ranges_at(&transport->sacked, 0)->begin <= transport->una) {
            return ECC_ERR_BROKEN; /* ACKs that contradict each other: of a forged checkpoint */
        }
    }
    if (transport->recovering && transport->una >= transport->recover) {
        transport->recovering = false;
        transport->recovered = true;
        transport->left = transport->sacks ? transport->left : 0;
    } else if (transport->recovering) {
        if (!transport->sacks && acked > 0) {
            transport->left = most(0, transport->left - acked + (acked >= size ? size : 0));
            transport->urgent = true;
            heard->starts_timer = !transport->is_partial;
            transport->is_partial = true;
        } else if (!transport->sacks && is_repeated) {
            transport->left += size;
        }
    } else {
        transport->left = acked > 0 && !transport->sacks ? 0 : transport->left;
        if (transport->una >= transport->recover
            && (transport->sacks ? n_sacked > 0 : is_repeated && transport->top > transport->una)) {
            heard->is_loss = duplicate(transport, size);
            heard->starts_timer = heard->starts_timer || heard->is_loss;
        }
    }
    return 0;
}

void
ecc_transport_time_out(ecc_transport_t *self)
{
    self->recovering = false;
    self->recover = self->top + !self->sacks;
    self->gone = self->top;
    self->again = self->una;
    self->n_duplicates = 0;
    self->left = 0;
    self->urgent = true;
    ecc_ranges_clear(&self->sacked);
}

/* ---- the receiver ---- */

/* Of these places, the first in each range beyond `next`, and no more than an ACK can say. */
static void
keep_places(ecc_transport_t *self, const int64_t *places, uint32_t n, int64_t next)
{
    uint32_t ranges[ECC_MOST_SACKS];

    self->n_places = 0;
    for (uint32_t k = 0; k < n && self->n_places < ECC_MOST_SACKS; k++) {
        uint32_t range = ecc_ranges_find(&self->held, places[k]);
        bool is_first = places[k] >= next;
        for (uint32_t j = 0; j < self->n_places; j++) {
            is_first = is_first && ranges[j] != range;
        }
        if (is_first) {
            ranges[self->n_places] = range;
            self->places[self->n_places++] = places[k];
        }
    }
}

int
ecc_transport_take(ecc_engine_t *self, const ecc_packet_t *packet, bool *may_wait)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    int64_t next = flow->received;
    int64_t begin = packet->offset;
    int64_t end = begin + packet->size;
    int64_t places[ECC_MOST_SACKS + 1];
    uint32_t n = transport->n_places;

    *may_wait = begin == next && transport->held.count == 0;
    if (begin > next) {
        int ret = ecc_ranges_add(&transport->held, &self->memory, begin, end);
        if (ret != 0) {
            return ret;
        }
        places[0] = begin;
        memcpy(places + 1, transport->places, sizeof(transport->places));
        keep_places(transport, places, n + 1, next);
    } else if (end > next) {
        flow->received = ecc_ranges_skip(&transport->held, end);
        ecc_ranges_drop(&transport->held, flow->received);
        memcpy(places, transport->places, sizeof(transport->places));
        keep_places(transport, places, n, flow->received);
    }
    return 0;
}

void
ecc_transport_say(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_news_t *news = ecc_state_news(self, packet);

    *news = (ecc_news_t) { .front = self->flows[packet->flow].received };
    for (uint32_t k = 0; k < ECC_MOST_SACKS && transport->sacks; k++) {
        sacks_of(news)[k] = k < transport->n_places
            ? *ecc_ranges_at(&transport->held, ecc_ranges_find(&transport->held, transport->places[k]))
            : (ecc_range_t) { 0, 0 };
    }
}

int
ecc_transport_verify(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    const ecc_ranges_t *sacked = &self->sacked;
    const ecc_ranges_t *held = &self->held;
    int64_t next = flow->received;
    bool fine = ecc_ranges_verify(sacked) == 0 && ecc_ranges_verify(held) == 0;

    fine = fine && self->una <= self->again && self->una <= self->gone && self->again <= self->top
        && self->gone <= self->top && self->una <= next && next <= self->top && self->left >= 0;
    fine = fine && flow->expected - flow->lost == self->una && flow->sent - flow->lost == self->top
        && (flow->size < 0 || self->top <= flow->size);
    fine = fine
        && (sacked->count == 0
            || (ecc_ranges_at(sacked, 0)->begin > self->una
                && ecc_ranges_at(sacked, sacked->count - 1)->end <= self->top));
    fine = fine
        && (held->count == 0
            || (ecc_ranges_at(held, 0)->begin > next && ecc_ranges_at(held, held->count - 1)->end <= self->top));
    fine = fine && (!self->sacks || self->left == ecc_ranges_within(sacked, self->una, self->again));
    for (uint32_t k = 0; k < self->n_places && fine; k++) {
        uint32_t range = ecc_ranges_find(held, self->places[k]);
        fine = range < held->count && ecc_ranges_at(held, range)->begin <= self->places[k];
    }
    /* what an ACK said is held, was held or has been handed on */
    for (uint32_t k = 0; k < sacked->count && fine; k++) {
        const ecc_range_t *range = ecc_ranges_at(sacked, k);
        int64_t begin = most(range->begin, next);
        fine = begin >= range->end || ecc_ranges_within(held, begin, range->end) == range->end - begin;
    }
    return fine ? 0 : ECC_ERR_BROKEN;
}
