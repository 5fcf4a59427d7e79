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

#include "host/rack.h"

#include <assert.h>
#include <string.h>

#include "core/errors.h"

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

/* Bytes of a block with the ring, and the heap of lost segments behind it. */
static size_t
size_of(uint32_t room)
{
    return room * (sizeof(ecc_sent_t) + sizeof(uint32_t));
}

void
ecc_rack_init(ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    ecc_sent_t *items = rack->items;
    uint32_t *lost = rack->lost;
    uint32_t room = rack->room;

    *rack = (ecc_rack_t) { .items = items,
        .room = room,
        .oldest = ECC_NO_SEGMENT,
        .newest = ECC_NO_SEGMENT,
        .earlier = ECC_NO_SEGMENT,
        .lost = lost,
        .order = -1,
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

    ecc_memory_release(memory, size_of(self->room), &block);
    memset(self, 0, sizeof(*self));
}

/* ---- outstanding segments, in the order of their last transmission ---- */

/* Puts a segment before another one, or at the end of the list (ECC_NO_SEGMENT). */
static void
insert_before(ecc_rack_t *self, uint32_t number, uint32_t after)
{
    ecc_sent_t *segment = at_number(self, number);

    segment->after = after;
    segment->before = after == ECC_NO_SEGMENT ? self->newest : at_number(self, after)->before;
    if (segment->before == ECC_NO_SEGMENT) {
        self->oldest = number;
    } else {
        at_number(self, segment->before)->after = number;
    }
    if (after == ECC_NO_SEGMENT) {
        self->newest = number;
    } else {
        at_number(self, after)->before = number;
    }
    segment->state = ECC_SENT_OUTSTANDING;
    self->in_flight += (int64_t) segment->size * (1 + segment->probes);
    self->repairs += segment->is_repair ? segment->size : 0;
}

static void
leave(ecc_rack_t *self, uint32_t number)
{
    ecc_sent_t *segment = at_number(self, number);

    self->earlier = self->earlier == number ? segment->before : self->earlier;
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
    self->repairs -= segment->is_repair ? segment->size : 0;
    segment->probes = 0;
    segment->is_repair = false;
}

/* A segment is sent now. */
static void
transmit(ecc_engine_t *self, ecc_rack_t *rack, uint32_t number)
{
    ecc_sent_t *segment = at_number(rack, number);

    segment->sent = self->now;
    segment->order = rack->n_transmissions++;
    insert_before(rack, number, ECC_NO_SEGMENT);
}

/* ---- lost segments ---- */

/* Whether entry i of the heap is before entry j in the stream. */
static bool
is_first(const ecc_rack_t *self, uint32_t i, uint32_t j)
{
    return place(self, self->lost[i]) < place(self, self->lost[j]);
}

static void
swap(ecc_rack_t *self, uint32_t i, uint32_t j)
{
    uint32_t number = self->lost[i];

    self->lost[i] = self->lost[j];
    self->lost[j] = number;
}

static void
push_lost(ecc_rack_t *self, uint32_t number)
{
    uint32_t i = self->n_lost++;

    assert(i < self->room);
    self->lost[i] = number;
    for (; i > 0 && is_first(self, i, (i - 1) / 2); i = (i - 1) / 2) {
        swap(self, i, (i - 1) / 2);
    }
}

static void
pop_lost(ecc_rack_t *self)
{
    uint32_t i = 0;

    self->lost[0] = self->lost[--self->n_lost];
    for (uint32_t child = 1; child < self->n_lost; child = 2 * i + 1) {
        child += child + 1 < self->n_lost && is_first(self, child + 1, child);
        if (!is_first(self, child, i)) {
            break;
        }
        swap(self, i, child);
        i = child;
    }
}

static void
mark_lost(ecc_rack_t *self, uint32_t number)
{
    leave(self, number);
    at_number(self, number)->state = ECC_SENT_LOST;
    self->lost_bytes += at_number(self, number)->size;
    push_lost(self, number);
}

/* A segment is no longer lost. Only the top of the heap must be lost: others that are not wait until they are there. */
static void
unmark(ecc_rack_t *self, uint32_t number)
{
    self->lost_bytes -= at_number(self, number)->size;
    at_number(self, number)->state = ECC_SENT_SACKED;
    while (self->n_lost > 0 && at_number(self, self->lost[0])->state != ECC_SENT_LOST) {
        pop_lost(self);
    }
}

/* ---- both ---- */

/* Sorts numbers of segments by their last transmission, in place, as a heap with the last one at its top. */
static void
sort_by_order(const ecc_rack_t *self, uint32_t *numbers, uint32_t n)
{
    for (uint32_t built = n / 2, left = n; left > 1;) {
        uint32_t number;
        uint32_t i;
        if (built > 0) {
            i = --built;
            number = numbers[i];
        } else {
            number = numbers[--left];
            numbers[left] = numbers[0];
            i = 0;
        }
        for (uint32_t child = 2 * i + 1; child < left; child = 2 * i + 1) {
            child += child + 1 < left
                && at_number(self, numbers[child + 1])->order > at_number(self, numbers[child])->order;
            if (at_number(self, numbers[child])->order <= at_number(self, number)->order) {
                break;
            }
            numbers[i] = numbers[child];
            i = child;
        }
        numbers[i] = number;
    }
}

/*
 * All lost segments are outstanding again. They were sent before those that are outstanding, but for the one that a
 * timeout found lost: the walk along the list is short. So is the other one, over segments sent in the recovery.
 */
static void
restore_lost(ecc_rack_t *self)
{
    uint32_t after = self->oldest;
    uint32_t n = 0;

    for (uint32_t i = 0; i < self->n_lost; i++) {
        if (at_number(self, self->lost[i])->state == ECC_SENT_LOST) {
            self->lost[n++] = self->lost[i];
        }
    }
    sort_by_order(self, self->lost, n);
    for (uint32_t i = 0; i < n; i++) {
        while (after != ECC_NO_SEGMENT && at_number(self, after)->order < at_number(self, self->lost[i])->order) {
            after = at_number(self, after)->after;
        }
        insert_before(self, self->lost[i], after);
    }
    for (uint32_t number = self->newest; self->repairs > 0; number = at_number(self, number)->before) {
        ecc_sent_t *segment = at_number(self, number);
        self->repairs -= segment->is_repair ? segment->size : 0;
        segment->is_repair = false;
    }
    self->n_lost = 0;
    self->lost_bytes = 0;
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
        const ecc_sent_t *lost = at_number(rack, rack->lost[0]);
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
    ret = self->room >= MAX_ROOM ? ECC_ERR_TOO_LARGE : ecc_memory_resize(memory, 0, size_of(room), &block);
    if (ret != 0) {
        return ret;
    }
    items = block;
    for (uint32_t k = 0; k < self->count; k++) {
        items[(self->first + k) & (room - 1)] = *ecc_rack_at(self, k);
    }
    if (self->n_lost > 0) {
        memcpy(items + room, self->lost, self->n_lost * sizeof(*self->lost));
    }
    block = self->items;
    ecc_memory_release(memory, size_of(self->room), &block);
    self->items = items;
    self->lost = (uint32_t *) (void *) (items + room);
    self->room = room;
    return 0;
}

int
ecc_rack_append(ecc_rack_t *self, ecc_memory_t *memory, ecc_sent_t segment)
{
    int ret = make_room(self, memory);

    if (ret != 0) {
        return ret;
    }
    *at_number(self, number_at(self, self->count++)) = segment;
    return 0;
}

int
ecc_rack_index(ecc_rack_t *self)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < self->count; k++) {
        if (ecc_rack_at(self, k)->state != ECC_SENT_SACKED) {
            self->lost[n++] = number_at(self, k);
        }
    }
    sort_by_order(self, self->lost, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && at_number(self, self->lost[i])->order <= at_number(self, self->lost[i - 1])->order) {
            return ECC_ERR_BROKEN;
        }
        if (at_number(self, self->lost[i])->state == ECC_SENT_OUTSTANDING) {
            insert_before(self, self->lost[i], ECC_NO_SEGMENT);
        }
    }
    for (uint32_t k = 0; k < self->count; k++) {
        const ecc_sent_t *segment = ecc_rack_at(self, k);
        if (segment->state == ECC_SENT_LOST) {
            push_lost(self, number_at(self, k));
            self->lost_bytes += segment->size;
        }
        self->n_sacked += segment->state == ECC_SENT_SACKED;
    }
    return 0;
}

int
ecc_rack_note_sent(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    uint32_t number = number_at(rack, rack->count);

    if (ecc_transport_is_probe(segment)) {
        rack->wants_probe = false;
        rack->probe_is_copy = segment.rule == ECC_RULE_PROBE;
        rack->probe_end = rack->probe_is_copy ? transport->snd_nxt : segment.begin + segment.size;
    }
    if (ecc_transport_is_new(segment)) {
        ecc_sent_t sent = { .begin = segment.begin, .size = segment.size };
        int ret = ecc_rack_append(rack, &self->memory, sent);
        transport->snd_nxt = segment.begin + segment.size;
        if (ret == 0) {
            transmit(self, rack, number);
        }
        return ret;
    }
    if (segment.rule == ECC_RULE_PROBE) {
        number = number_at(rack, rack->count - 1);
        leave(rack, number);
        at_number(rack, number)->probes = 1;
    } else {
        number = rack->lost[0];
        unmark(rack, number);
        at_number(rack, number)->is_repair = true;
        transport->retransmit_first = false;
        if (rack->may_undo) {
            rack->first_retransmission
                = rack->first_retransmission < self->now ? rack->first_retransmission : self->now;
            rack->not_duplicated += segment.size;
        }
    }
    at_number(rack, number)->was_repeated = true;
    transmit(self, rack, number);
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
    return ecc_clock_ps(window < flow->srtt ? window : flow->srtt);
}

/* S-150: from when on a segment is lost that was sent before one that has been delivered. */
static ecc_ps_t
overdue_at(const ecc_rack_t *self, const ecc_sent_t *segment)
{
    return ecc_clock_add(ecc_clock_add(segment->sent, self->rtt), self->window);
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

/* A congestion response begins: a recovery, or a further reduction in one. */
static void
begin_response(ecc_rack_t *self, ecc_transport_t *transport)
{
    self->responded = self->n_transmissions;
    self->probe_end = -1;
    self->wants_probe = false;
    transport->recovery_point = transport->snd_nxt;
    transport->flight_end = transport->snd_nxt;
    transport->retransmit_first = true;
}

/* S-150: segments that were sent before the newest delivered and are overdue; whether there are any. */
static bool
mark_overdue(ecc_rack_t *self, ecc_ps_t now, int64_t before, bool *is_repeated)
{
    bool found = false;

    while (self->oldest != ECC_NO_SEGMENT) {
        const ecc_sent_t *segment = at_number(self, self->oldest);
        if (segment->order >= before || overdue_at(self, segment) > now) {
            break; /* as are all that were sent after it */
        }
        found = true;
        *is_repeated = *is_repeated || segment->order >= self->responded;
        mark_lost(self, self->oldest);
    }
    return found;
}

/*
 * S-163: whether a recovery begins, or a further response in one. Linux does not reduce the window again in a recovery,
 * and begins the next one at its end if a loss is not repaired by then.
 */
static bool
begins_response(ecc_rack_t *self, const ecc_transport_t *transport, bool as_linux, bool found, bool is_repeated)
{
    if (!transport->recovering && transport->snd_una >= transport->recovery_point) {
        if (found || (as_linux && self->lost_bytes + self->repairs > 0)) {
            begin_episode(self, transport, false);
            return true;
        }
    } else if (is_repeated && !(as_linux && transport->recovering)) {
        self->may_undo = false;
        return true;
    }
    return false;
}

bool
ecc_rack_find_losses(ecc_engine_t *self, uint32_t index)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    bool is_repeated = false;
    bool found;
    uint32_t next;

    rack->window = reordering_window(self, index);
    found = mark_overdue(rack, self->now, rack->order, &is_repeated);
    next = rack->earlier == ECC_NO_SEGMENT ? rack->oldest : at_number(rack, rack->earlier)->after;
    while (next != ECC_NO_SEGMENT && at_number(rack, next)->order < rack->order) {
        rack->earlier = next;
        next = at_number(rack, next)->after;
    }
    rack->awaits = rack->earlier == ECC_NO_SEGMENT ? ECC_AWAITS_NOTHING : ECC_AWAITS_REORDERING;
    rack->wait_until = rack->earlier == ECC_NO_SEGMENT ? self->now : overdue_at(rack, at_number(rack, rack->earlier));
    if (!begins_response(
            rack, transport, self->flows[index].spec->lost_retransmission == ECC_LOST_LINUX, found, is_repeated)) {
        return false;
    }
    begin_response(rack, transport);
    transport->recovering = true;
    return true;
}

void
ecc_rack_time_out(ecc_engine_t *self, uint32_t index)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    bool is_repeated = false;

    if (transport->snd_una >= transport->recovery_point) {
        begin_episode(rack, transport, true);
    } else if (self->flows[index].n_timeouts == 1) { /* S-163 */
        rack->may_undo = false;
    }
    (void) mark_overdue(rack, self->now, rack->n_transmissions, &is_repeated);
    if (rack->count > 0 && ecc_rack_at(rack, 0)->state == ECC_SENT_OUTSTANDING) {
        mark_lost(rack, rack->first);
    }
    begin_response(rack, transport);
    transport->recovering = false;
    rack->timed_out = true;
    rack->awaits = ECC_AWAITS_NOTHING;
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
    ecc_ps_t wait = flow->srtt > 0.0 ? ecc_clock_ps(2.0 * flow->srtt) : FIRST_PROBE;

    if (flow->srtt > 0.0 && self->racks[index].count == 1 && flow->spec->ack_every > 1) {
        wait = ecc_clock_add(wait, flow->spec->ack_wait);
    }
    return wait;
}

/* ---- what an ACK tells ---- */

/* What one ACK shows to have been delivered, while it is looked through. */
typedef struct {
    ecc_ps_t sent;     /* when the segment among it was sent that was sent last */
    int64_t order;     /* of this transmission, -1: none */
    int64_t fack;      /* before this ACK */
    int64_t delivered; /* bytes */
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
    news->delivered += segment->size;
    rack->has_reordering = rack->has_reordering || (!segment->was_repeated && end < news->fack);
    rack->fack = end > rack->fack ? end : rack->fack;
    if (segment->was_repeated
        && (packet->sent < segment->sent || ecc_clock_seconds(self->now - segment->sent) < flow->min_rtt)) {
        return;
    }
    if (segment->order > news->order) {
        news->sent = segment->sent;
        news->order = segment->order;
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
    restore_lost(self);
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
    ecc_news_t news = { .order = -1, .fack = rack->fack };
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
        || (transport->sacked.count > 0
            && ecc_ranges_at(&transport->sacked, ecc_ranges_first(&transport->sacked))->begin <= transport->snd_una)) {
        return ret != 0 ? ret : ECC_ERR_BROKEN;
    }
    if (news.order >= 0) {
        rack->rtt = self->now - news.sent;
        rack->order = news.order > rack->order ? news.order : rack->order;
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
        int64_t lost_bytes = rack->lost_bytes;
        effect->begins_recovery = ecc_rack_find_losses(self, packet->flow);
        effect->finds_loss = rack->lost_bytes > lost_bytes;
        transport->recovered = transport->recovered && !transport->recovering;
    }
    if (has_repaired && !effect->begins_recovery && !is_repairing(rack, transport) && !rack->undone) {
        transport->flight_end = transport->snd_nxt;
        transport->recovered = true;
        rack->responded = rack->n_transmissions;
        rack->may_undo = false;
        effect->begins_recovery = true;
    }
    effect->delivered = news.delivered;
    effect->starts_timer = effect->starts_timer || effect->begins_recovery;
    return 0;
}

/* The list of outstanding segments is in the order of their transmissions, and `earlier` is in it. */
static bool
list_is_valid(const ecc_rack_t *self, uint32_t n)
{
    uint32_t before = ECC_NO_SEGMENT;
    uint32_t number = self->oldest;
    bool has_earlier = self->earlier == ECC_NO_SEGMENT;
    bool valid = true;

    for (; number != ECC_NO_SEGMENT && valid && n > 0; n--) {
        const ecc_sent_t *segment = at_number(self, number);
        const ecc_sent_t *other = before == ECC_NO_SEGMENT ? NULL : at_number(self, before);
        valid = place(self, number) < self->count && segment->state == ECC_SENT_OUTSTANDING && segment->before == before
            && segment->order < self->n_transmissions
            && (other == NULL || (segment->order > other->order && segment->sent >= other->sent));
        has_earlier = has_earlier || number == self->earlier;
        before = number;
        number = segment->after;
    }
    return valid && n == 0 && number == ECC_NO_SEGMENT && self->newest == before && has_earlier
        && (self->earlier == ECC_NO_SEGMENT || at_number(self, self->earlier)->order < self->order);
}

/* The heap has each lost segment once, and the first of them at its top. */
static bool
heap_is_valid(const ecc_rack_t *self, uint32_t n)
{
    bool valid
        = self->n_lost <= self->room && (self->n_lost == 0 || at_number(self, self->lost[0])->state == ECC_SENT_LOST);

    for (uint32_t i = 0; i < self->n_lost && valid; i++) {
        valid = place(self, self->lost[i]) < self->count && (i == 0 || is_first(self, (i - 1) / 2, i));
        n -= at_number(self, self->lost[i])->state == ECC_SENT_LOST;
    }
    return valid && n == 0;
}

int
ecc_rack_verify(const ecc_rack_t *self, const ecc_transport_t *transport, ecc_ps_t now)
{
    int64_t next = transport->snd_una;
    int64_t in_flight = 0;
    int64_t lost_bytes = 0;
    int64_t repairs = 0;
    uint32_t n[ECC_SENT_SACKED + 1] = { 0 };
    bool valid = self->count <= self->room && transport->lost_below == next && transport->high_rxt == next
        && self->fack <= transport->snd_nxt && self->probe_end <= transport->snd_nxt && self->multiplier >= 1
        && self->order < self->n_transmissions && self->responded <= self->n_transmissions
        && (self->n_sacked == 0 || (!self->wants_probe && self->awaits != ECC_AWAITS_PROBE));

    for (uint32_t k = 0; k < self->count && valid; k++) {
        const ecc_sent_t *segment = ecc_rack_at(self, k);
        bool is_sacked = segment->state == ECC_SENT_SACKED;
        valid = segment->begin == next && segment->size > 0 && segment->sent <= now
            && segment->probes + segment->is_repair <= (segment->state == ECC_SENT_OUTSTANDING)
            && ecc_ranges_within(&transport->sacked, next, end_of(segment)) == (is_sacked ? segment->size : 0);
        next = end_of(segment);
        n[segment->state]++;
        in_flight += segment->state == ECC_SENT_OUTSTANDING ? (int64_t) segment->size * (1 + segment->probes) : 0;
        repairs += segment->is_repair ? segment->size : 0;
        lost_bytes += segment->state == ECC_SENT_LOST ? segment->size : 0;
    }
    valid = valid && next == transport->snd_nxt && in_flight == self->in_flight && lost_bytes == self->lost_bytes
        && repairs == self->repairs && n[ECC_SENT_SACKED] == self->n_sacked
        && list_is_valid(self, n[ECC_SENT_OUTSTANDING]) && heap_is_valid(self, n[ECC_SENT_LOST]);
    return valid ? 0 : ECC_ERR_BROKEN;
}
