/*
 * RACK-TLP (RFC 8985): losses are found by time. A segment is lost if one that was sent after it has been delivered and
 * more than an RTT and a reordering window have passed since it was sent, also if it was sent again. Where no ACK would
 * tell, a probe asks for one; and a recovery that was for nothing is found out (RFC 3522, RFC 3708).
 *
 * Segments are in a ring, in the order of the stream; those outstanding are in a list too, in the order in which they
 * were sent, so that an ACK looks at those that it makes overdue, and at no others. A number of a segment stays the same
 * while it is in the ring, and counts modulo 2^31.
 *
 * Not here: what is common to all transports (transport.c), and when packets leave and timers expire (sender.c).
 */

#include "rack.h"

#include <assert.h>
#include <string.h>

#include "errors.h"
#include "receiver.h"

#define FIRST_ROOM 16u
#define MAX_ROOM (UINT32_C(1) << 30)
#define NUMBERS ((uint32_t) INT32_MAX)
#define FIRST_PROBE (INT64_C(1000000000000)) /* before any RTT is known */
#define PERSISTENCE 16                       /* recoveries without a duplicate, after which the window is the least */

static int64_t
end_of(const ecc_sent_t *segment)
{
    return segment->begin + segment->size;
}

static ecc_sent_t *
at_number(const ecc_rack_t *self, uint32_t number)
{
    return &self->items[number & (self->room - 1)];
}

/* How many are before it in the ring. */
static uint32_t
place(const ecc_rack_t *self, uint32_t number)
{
    return (number - self->first) & NUMBERS;
}

static uint32_t
number_at(const ecc_rack_t *self, uint32_t k)
{
    return (self->first + k) & NUMBERS;
}

/* Whether what ends at `end` was sent later than the other (RACK_sent_after). */
static bool
is_after(ecc_ps_t sent, int64_t end, ecc_ps_t other_sent, int64_t other_end)
{
    return sent > other_sent || (sent == other_sent && end > other_end);
}

void
ecc_rack_init(ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    ecc_sent_t *items = rack->items;
    uint32_t room = rack->room;

    *rack = (ecc_rack_t) { .items = items,
        .room = room,
        .oldest = ECC_NO_SEGMENT,
        .newest = ECC_NO_SEGMENT,
        .sent = -1,
        .dsack_round = -1,
        .multiplier = 1,
        .persists = PERSISTENCE,
        .probe_end = -1,
        .first_retransmission = ECC_NEVER };
}

void
ecc_rack_free(ecc_rack_t *self, ecc_memory_t *memory)
{
    void *block = self->items;

    ecc_memory_release(memory, self->room * sizeof(*self->items), &block);
    memset(self, 0, sizeof(*self));
}

/* ---- the list of what is outstanding ---- */

static void
join(ecc_rack_t *self, uint32_t number)
{
    ecc_sent_t *segment = at_number(self, number);
    uint32_t before = self->newest;

    while (before != ECC_NO_SEGMENT) {
        const ecc_sent_t *other = at_number(self, before);
        if (!is_after(other->sent, end_of(other), segment->sent, end_of(segment))) {
            break;
        }
        before = other->before;
    }
    segment->before = before;
    if (before == ECC_NO_SEGMENT) {
        segment->after = self->oldest;
        self->oldest = number;
    } else {
        segment->after = at_number(self, before)->after;
        at_number(self, before)->after = number;
    }
    if (segment->after == ECC_NO_SEGMENT) {
        self->newest = number;
    } else {
        at_number(self, segment->after)->before = number;
    }
    segment->state = ECC_SENT_OUTSTANDING;
    self->in_flight += segment->size;
}

static void
leave(ecc_rack_t *self, uint32_t number)
{
    ecc_sent_t *segment = at_number(self, number);

    if (segment->before == ECC_NO_SEGMENT) {
        self->oldest = segment->after;
    } else {
        at_number(self, segment->before)->after = segment->after;
    }
    if (segment->after == ECC_NO_SEGMENT) {
        self->newest = segment->before;
    } else {
        at_number(self, segment->after)->before = segment->before;
    }
    self->in_flight -= (int64_t) segment->size * (1 + segment->probes);
    segment->probes = 0;
}

static void
mark_lost(ecc_rack_t *self, uint32_t number)
{
    ecc_sent_t *segment = at_number(self, number);

    leave(self, number);
    if (self->lost_bytes == 0 || place(self, number) < place(self, self->lost)) {
        self->lost = number;
    }
    segment->state = ECC_SENT_LOST;
    self->lost_bytes += segment->size;
}

/* A lost segment is no longer; `lost` is the first of the others. */
static void
unmark(ecc_rack_t *self, uint32_t number)
{
    self->lost_bytes -= at_number(self, number)->size;
    at_number(self, number)->state = ECC_SENT_SACKED;
    while (self->lost_bytes > 0 && at_number(self, self->lost)->state != ECC_SENT_LOST) {
        self->lost = (self->lost + 1) & NUMBERS;
    }
}

/* The number of the segment that contains a byte. */
static uint32_t
find(const ecc_rack_t *self, int64_t byte)
{
    uint32_t low = 0;
    uint32_t high = self->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (end_of(ecc_rack_at(self, middle)) > byte) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* ---- what is sent ---- */

static bool
is_repairing(const ecc_rack_t *self, const ecc_transport_t *transport)
{
    return transport->recovering || self->timed_out;
}

ecc_segment_t
ecc_rack_next(const ecc_engine_t *self, uint32_t index, int64_t written)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_transport_t *transport = &self->transports[index];
    const ecc_rack_t *rack = &self->racks[index];
    ecc_segment_t segment;

    if (rack->lost_bytes > 0) {
        const ecc_sent_t *lost = at_number(rack, rack->lost);
        return (
            ecc_segment_t) { lost->begin, lost->size, transport->retransmit_first ? ECC_RULE_FIRST : ECC_RULE_LOST };
    }
    segment = ecc_transport_new(transport, flow, written);
    if (rack->wants_probe) {
        if (segment.size > 0) {
            segment.rule = ECC_RULE_NEW_PROBE;
        } else if (rack->count > 0) {
            const ecc_sent_t *last = ecc_rack_at(rack, rack->count - 1);
            segment = (ecc_segment_t) { last->begin, last->size, ECC_RULE_PROBE };
        }
    }
    return segment;
}

static int
make_room(ecc_rack_t *self, ecc_memory_t *memory)
{
    uint32_t room = self->room == 0 ? FIRST_ROOM : 2 * self->room;
    void *block = NULL;
    ecc_sent_t *items;
    int ret;

    if (self->count < self->room) {
        return 0;
    }
    ret = self->room >= MAX_ROOM ? ECC_ERR_TOO_LARGE
                                 : ecc_memory_resize(memory, 0, room * sizeof(*self->items), &block);
    if (ret != 0) {
        return ret;
    }
    items = block;
    for (uint32_t k = 0; k < self->count; k++) {
        items[(self->first + k) & (room - 1)] = *ecc_rack_at(self, k);
    }
    block = self->items;
    ecc_memory_release(memory, self->room * sizeof(*self->items), &block);
    self->items = items;
    self->room = room;
    return 0;
}

int
ecc_rack_append(ecc_rack_t *self, ecc_memory_t *memory, ecc_sent_t segment)
{
    uint32_t number;
    int ret = make_room(self, memory);

    if (ret != 0) {
        return ret;
    }
    number = number_at(self, self->count++);
    *at_number(self, number) = segment;
    if (segment.state == ECC_SENT_OUTSTANDING) {
        join(self, number);
        self->in_flight += (int64_t) segment.size * segment.probes;
    } else if (segment.state == ECC_SENT_LOST) {
        self->lost = self->lost_bytes == 0 ? number : self->lost;
        self->lost_bytes += segment.size;
    } else {
        self->n_sacked++;
    }
    return 0;
}

int
ecc_rack_note_sent(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    uint32_t number;

    if (ecc_segment_is_probe(segment)) {
        rack->wants_probe = false;
        rack->probe_is_copy = segment.rule == ECC_RULE_PROBE;
        rack->probe_end = rack->probe_is_copy ? transport->snd_nxt : segment.begin + segment.size;
    }
    if (ecc_segment_is_new(segment)) {
        transport->snd_nxt = segment.begin + segment.size;
        return ecc_rack_append(
            rack, &self->memory, (ecc_sent_t) { .begin = segment.begin, .sent = self->now, .size = segment.size });
    }
    if (segment.rule == ECC_RULE_PROBE) {
        ecc_sent_t *last;
        number = number_at(rack, rack->count - 1);
        last = at_number(rack, number);
        leave(rack, number);
        last->probes = 1;
        rack->in_flight += last->size;
    } else {
        number = rack->lost;
        unmark(rack, number);
        transport->retransmit_first = false;
        if (rack->may_undo) {
            rack->first_retransmission
                = rack->first_retransmission < self->now ? rack->first_retransmission : self->now;
            rack->not_duplicated += segment.size;
        }
    }
    at_number(rack, number)->sent = self->now;
    at_number(rack, number)->was_repeated = true;
    join(rack, number);
    return 0;
}

/* ---- what is lost ---- */

/* S-149, with the window that an ACK leaves. */
static ecc_ps_t
reordering_window(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_transport_t *transport = &self->transports[index];
    const ecc_rack_t *rack = &self->racks[index];
    double window = rack->multiplier * flow->min_rtt / 4.0;

    if (!rack->has_reordering && (is_repairing(rack, transport) || rack->n_sacked >= transport->dup_thresh)) {
        return 0;
    }
    return ecc_state_ps(window < flow->srtt ? window : flow->srtt);
}

/* S-150: from when on a segment is lost that was sent before one that has been delivered. */
static ecc_ps_t
overdue_at(const ecc_rack_t *self, const ecc_sent_t *segment)
{
    return ecc_state_add(ecc_state_add(segment->sent, self->rtt), self->window);
}

/* S-151: from here on it can turn out that what is done was for nothing. */
static void
begin_episode(ecc_rack_t *self, const ecc_transport_t *transport, bool by_timeout)
{
    self->may_undo = true;
    self->by_timeout = by_timeout;
    self->undo_from = transport->snd_una;
    self->first_retransmission = ECC_NEVER;
    self->not_duplicated = 0;
}

bool
ecc_rack_find_losses(ecc_engine_t *self, uint32_t index)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    uint32_t number = rack->oldest;
    ecc_ps_t wait = 0;
    bool found = false;

    rack->window = reordering_window(self, index);
    while (number != ECC_NO_SEGMENT) {
        const ecc_sent_t *segment = at_number(rack, number);
        uint32_t after = segment->after;
        ecc_ps_t left = overdue_at(rack, segment) - self->now;
        if (!is_after(rack->sent, rack->end, segment->sent, end_of(segment))) {
            break;
        }
        if (left <= 0) {
            mark_lost(rack, number);
            found = true;
        } else {
            wait = left > wait ? left : wait;
        }
        number = after;
    }
    rack->awaits = wait > 0 ? ECC_AWAITS_REORDERING : ECC_AWAITS_NOTHING;
    rack->wait_until = ecc_state_add(self->now, wait);
    if (!found || transport->recovering || transport->snd_una < transport->recovery_point) {
        return false;
    }
    begin_episode(rack, transport, false);
    transport->recovering = true;
    transport->recovery_point = transport->snd_nxt;
    transport->flight_end = transport->snd_nxt;
    transport->retransmit_first = true;
    rack->probe_end = -1;
    rack->wants_probe = false;
    return true;
}

void
ecc_rack_time_out(ecc_engine_t *self, uint32_t index)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    uint32_t number = rack->oldest;

    if (transport->snd_una >= transport->recovery_point) {
        begin_episode(rack, transport, true);
    }
    while (number != ECC_NO_SEGMENT) {
        const ecc_sent_t *segment = at_number(rack, number);
        uint32_t after = segment->after;
        if (segment->begin == transport->snd_una || overdue_at(rack, segment) <= self->now) {
            mark_lost(rack, number);
        }
        number = after;
    }
    transport->recovering = false;
    transport->recovery_point = transport->snd_nxt;
    transport->retransmit_first = true;
    rack->timed_out = true;
    rack->awaits = ECC_AWAITS_NOTHING;
    rack->probe_end = -1;
    rack->wants_probe = false;
}

/* ---- probes ---- */

bool
ecc_rack_may_probe(const ecc_engine_t *self, uint32_t index)
{
    const ecc_rack_t *rack = &self->racks[index];

    return rack->count > 0 && rack->probe_end < 0 && rack->lost_bytes == 0 && rack->n_sacked == 0
        && !is_repairing(rack, &self->transports[index]);
}

ecc_ps_t
ecc_rack_probe_timeout(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t wait = flow->srtt > 0.0 ? ecc_state_ps(2.0 * flow->srtt) : FIRST_PROBE;

    if (flow->srtt > 0.0 && self->racks[index].count == 1 && flow->spec->ack_every > 1) {
        wait = ecc_state_add(wait, flow->spec->ack_wait);
    }
    return wait;
}

/* ---- what an ACK tells ---- */

/* What one ACK shows to have been delivered, while it is looked through. */
typedef struct {
    ecc_ps_t sent; /* of the segment among it that was sent last */
    int64_t end;
    int64_t fack; /* before this ACK */
    bool shows_original;
} ecc_news_t;

static void
deliver(ecc_engine_t *self, const ecc_packet_t *packet, uint32_t number, ecc_news_t *news)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];
    ecc_sent_t *segment = at_number(rack, number);
    int64_t end = end_of(segment);

    if (segment->state == ECC_SENT_LOST) {
        unmark(rack, number);
    } else {
        leave(rack, number);
    }
    segment->state = ECC_SENT_SACKED;
    rack->has_reordering = rack->has_reordering || (!segment->was_repeated && end < news->fack);
    rack->fack = end > rack->fack ? end : rack->fack;
    if (segment->was_repeated
        && (packet->sent < segment->sent || ecc_state_seconds(self->now - segment->sent) < flow->min_rtt)) {
        return;
    }
    if (is_after(segment->sent, end, news->sent, news->end)) {
        news->sent = segment->sent;
        news->end = end;
    }
}

/* All below the cumulative ACK. */
static int
deliver_below(ecc_engine_t *self, const ecc_packet_t *packet, int64_t ack, ecc_news_t *news)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];

    while (rack->count > 0 && ecc_rack_at(rack, 0)->begin < ack) {
        ecc_sent_t *segment = ecc_rack_at(rack, 0);
        if (end_of(segment) > ack) {
            return ECC_ERR_BROKEN; /* of a forged checkpoint: receivers get whole segments */
        }
        news->shows_original = news->shows_original
            || (segment->was_repeated && packet->sent < segment->sent && packet->sent < rack->first_retransmission
                && rack->first_retransmission < ECC_NEVER);
        if (segment->state == ECC_SENT_SACKED) {
            rack->n_sacked--;
        } else {
            deliver(self, packet, rack->first, news);
        }
        rack->first = number_at(rack, 1);
        rack->count--;
    }
    transport->snd_una = ack;
    transport->lost_below = ack;
    transport->high_rxt = ack;
    transport->retransmit_first = false;
    ecc_ranges_drop(&transport->sacked, ack);
    return 0;
}

/* What a block reports and none did before. */
static int
deliver_block(ecc_engine_t *self, const ecc_packet_t *packet, int64_t begin, int64_t end, ecc_news_t *news)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];
    int64_t next = ecc_ranges_skip(&transport->sacked, begin);

    while (next < end) {
        int64_t until = ecc_ranges_until(&transport->sacked, next, end);
        for (uint32_t k = find(rack, next); next < until; k++) {
            const ecc_sent_t *segment = k < rack->count ? ecc_rack_at(rack, k) : NULL;
            if (segment == NULL || segment->begin != next || end_of(segment) > until) {
                return ECC_ERR_BROKEN;
            }
            next = end_of(segment);
            deliver(self, packet, number_at(rack, k), news);
            rack->n_sacked++;
        }
        next = ecc_ranges_skip(&transport->sacked, until);
    }
    return ecc_ranges_add(&transport->sacked, &self->memory, begin, end);
}

/* S-148: the first block may report a duplicate (RFC 2883): below the ACK, or in the second block. */
static ecc_range_t
duplicate_of(const ecc_ack_info_t *info, const ecc_range_t *blocks)
{
    bool is_held
        = blocks[1].begin < blocks[1].end && blocks[0].begin >= blocks[1].begin && blocks[0].end <= blocks[1].end;

    return blocks[0].begin < blocks[0].end && (blocks[0].end <= info->front || is_held) ? blocks[0]
                                                                                        : (ecc_range_t) { 0, 0 };
}

/* S-149: the reordering window adapts to duplicates, which show that it was too short. */
static void
adapt_window(ecc_rack_t *self, const ecc_transport_t *transport, bool has_duplicate, bool has_recovered)
{
    if (self->dsack_round >= 0 && transport->snd_una >= self->dsack_round) {
        self->dsack_round = -1;
    }
    if (self->dsack_round < 0 && has_duplicate) {
        self->dsack_round = transport->snd_nxt;
        self->multiplier += self->multiplier < INT32_MAX;
        self->persists = PERSISTENCE;
    } else if (has_recovered) {
        self->persists -= self->persists > 0;
        self->multiplier = self->persists > 0 ? self->multiplier : 1;
    }
}

/* S-151: what was held for lost was not; it is outstanding again, and what it led to has ended. */
static void
undo(ecc_rack_t *self, ecc_transport_t *transport)
{
    for (uint32_t k = 0; self->lost_bytes > 0 && k < self->count; k++) {
        if (ecc_rack_at(self, k)->state == ECC_SENT_LOST) {
            unmark(self, number_at(self, k));
            join(self, number_at(self, k));
        }
    }
    transport->recovered = transport->recovered || transport->recovering;
    transport->recovering = false;
    transport->recovery_point = transport->snd_una;
    transport->retransmit_first = false;
    self->timed_out = false;
    self->may_undo = false;
    self->undone = true;
}

/* S-152: what a probe has told; whether it has repaired a loss. */
static bool
process_probe(ecc_rack_t *self, int64_t ack, const ecc_range_t *duplicate)
{
    bool is_known = !self->probe_is_copy || duplicate->end == self->probe_end;

    if (self->probe_end < 0 || ack < self->probe_end || (ack == self->probe_end && !is_known)) {
        return false;
    }
    self->probe_end = -1;
    return !is_known;
}

int
ecc_rack_receive_ack(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_range_t *blocks = ecc_sacks_at(&self->sacks, info->sack)->blocks;
    ecc_range_t duplicate = duplicate_of(info, blocks);
    ecc_news_t news = { .sent = -1, .fack = rack->fack };
    int64_t acked = info->front > transport->snd_una ? info->front - transport->snd_una : 0;
    bool was_repairing = is_repairing(rack, transport);
    bool is_of_probe = rack->probe_end >= 0 && rack->probe_is_copy && duplicate.end == rack->probe_end;
    bool has_repaired;
    int ret;

    *effect = (ecc_ack_effect_t) { .acked = acked, .starts_timer = acked > 0 };
    transport->recovered = false;
    rack->undone = false;
    rack->wants_probe = false;
    ret = acked > 0 ? deliver_below(self, packet, info->front, &news) : 0;
    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS && ret == 0; k++) {
        int64_t begin = blocks[k].begin > transport->snd_una ? blocks[k].begin : transport->snd_una;
        ret = begin < blocks[k].end ? deliver_block(self, packet, begin, blocks[k].end, &news) : 0;
    }
    if (ret != 0
        || (transport->sacked.count > 0 && ecc_ranges_at(&transport->sacked, 0)->begin <= transport->snd_una)) {
        return ret != 0 ? ret : ECC_ERR_BROKEN;
    }
    if (news.sent >= 0) {
        rack->rtt = self->now - news.sent;
        if (is_after(news.sent, news.end, rack->sent, rack->end)) {
            rack->sent = news.sent;
            rack->end = news.end;
        }
    }
    has_repaired = process_probe(rack, info->front, &duplicate);
    if (transport->snd_una >= transport->recovery_point) {
        transport->recovered = transport->recovering;
        transport->recovering = false;
        rack->timed_out = false;
    }
    if (rack->may_undo && duplicate.begin < duplicate.end && duplicate.begin >= rack->undo_from && !is_of_probe
        && rack->not_duplicated > 0) {
        rack->not_duplicated -= duplicate.end - duplicate.begin;
        news.shows_original = news.shows_original || rack->not_duplicated <= 0;
    }
    adapt_window(rack, transport, duplicate.begin < duplicate.end, was_repairing && !is_repairing(rack, transport));
    if (rack->may_undo && news.shows_original) {
        rack->has_reordering = rack->has_reordering || !rack->by_timeout;
        undo(rack, transport);
        rack->awaits = ECC_AWAITS_NOTHING;
    } else {
        effect->begins_recovery = ecc_rack_find_losses(self, packet->flow);
        transport->recovered = transport->recovered && !transport->recovering;
    }
    if (has_repaired && !effect->begins_recovery && !is_repairing(rack, transport) && !rack->undone) {
        transport->flight_end = transport->snd_nxt;
        transport->recovered = true;
        effect->begins_recovery = true;
    }
    effect->starts_timer = effect->starts_timer || effect->begins_recovery;
    return 0;
}

int
ecc_rack_verify(const ecc_rack_t *self, const ecc_transport_t *transport, ecc_ps_t now)
{
    int64_t next = transport->snd_una;
    int64_t in_flight = 0;
    int64_t lost = 0;
    int64_t first_lost = -1;
    uint32_t n_sacked = 0;
    uint32_t n_outstanding = 0;
    uint32_t number = self->oldest;
    bool valid = self->count <= self->room && transport->lost_below == next && transport->high_rxt == next
        && self->fack <= transport->snd_nxt && self->probe_end <= transport->snd_nxt && self->multiplier >= 1
        && (self->n_sacked == 0 || (!self->wants_probe && self->awaits != ECC_AWAITS_PROBE));

    for (uint32_t k = 0; k < self->count && valid; k++) {
        const ecc_sent_t *segment = ecc_rack_at(self, k);
        bool is_sacked = segment->state == ECC_SENT_SACKED;
        valid = segment->begin == next && segment->size > 0 && segment->sent >= 0 && segment->sent <= now
            && segment->probes <= (segment->state == ECC_SENT_OUTSTANDING)
            && ecc_ranges_within(&transport->sacked, next, end_of(segment)) == (is_sacked ? segment->size : 0);
        next = end_of(segment);
        n_sacked += is_sacked;
        if (segment->state == ECC_SENT_OUTSTANDING) {
            in_flight += (int64_t) segment->size * (1 + segment->probes);
            n_outstanding++;
        } else if (segment->state == ECC_SENT_LOST) {
            first_lost = lost == 0 ? segment->begin : first_lost;
            lost += segment->size;
        }
    }
    for (uint32_t before = ECC_NO_SEGMENT; number != ECC_NO_SEGMENT && valid && n_outstanding > 0; n_outstanding--) {
        const ecc_sent_t *segment = at_number(self, number);
        const ecc_sent_t *other = before == ECC_NO_SEGMENT ? NULL : at_number(self, before);
        valid = place(self, number) < self->count && segment->state == ECC_SENT_OUTSTANDING && segment->before == before
            && (other == NULL || is_after(segment->sent, end_of(segment), other->sent, end_of(other)));
        before = number;
        number = segment->after;
    }
    valid = valid && n_outstanding == 0 && number == ECC_NO_SEGMENT && next == transport->snd_nxt
        && in_flight == self->in_flight && lost == self->lost_bytes && n_sacked == self->n_sacked
        && (lost == 0 || at_number(self, self->lost)->begin == first_lost);
    return valid ? 0 : ECC_ERR_BROKEN;
}
