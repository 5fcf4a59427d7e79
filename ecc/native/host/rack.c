/*
 * RACK-TLP (RFC 8985): losses are found by time. A segment is lost if one that was sent after it has been delivered
 * and more than an RTT and a reordering window have passed since it was sent, also if it was sent again. Where no ACK
 * would tell, a probe asks for one; and a recovery that was for nothing is found out (RFC 3522, RFC 3708).
 *
 * Called by rack_acks.c when an ACK arrives, and by timeout.c when a wait ends. Not here: how segments are kept
 * (segments.c), what is common to all transports (transport.c), and when packets leave (sender.c).
 */

#include "host/rack.h"

#include <string.h>

#include "host/segments.h"

#define FIRST_PROBE (INT64_C(1000000000000)) /* wait before the first RTT is known */

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
        .persists = ECC_RACK_PERSISTENCE,
        .probe_end = -1,
        .first_retransmission = ECC_NEVER };
}

void
ecc_rack_free(ecc_rack_t *self, ecc_memory_t *memory)
{
    ecc_segments_free(self, memory);
    memset(self, 0, sizeof(*self));
}

/* Notes that a segment is sent now. */
static void
transmit(ecc_engine_t *self, ecc_rack_t *rack, uint32_t number)
{
    ecc_sent_t *segment = ecc_segments_at(rack, number);

    segment->sent = self->now;
    segment->order = rack->n_transmissions++;
    ecc_segments_insert(rack, number, ECC_NO_SEGMENT);
}

ecc_segment_t
ecc_rack_next_special(const ecc_engine_t *self, uint32_t index, int64_t written)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_transport_t *transport = &self->transports[index];
    const ecc_rack_t *rack = &self->racks[index];
    ecc_segment_t segment;

    if (rack->lost_bytes > 0) {
        const ecc_sent_t *lost = ecc_segments_at(rack, rack->lost[0]);
        return (
            ecc_segment_t) { lost->begin, lost->size, transport->retransmit_first ? ECC_RULE_FIRST : ECC_RULE_LOST };
    }
    segment = ecc_transport_new(transport, flow, written);
    if (segment.size > 0) {
        segment.rule = ECC_RULE_NEW_PROBE;
    } else if (rack->count > 0) {
        const ecc_sent_t *last = ecc_segments_in_place(rack, rack->count - 1);
        segment = (ecc_segment_t) { last->begin, last->size, ECC_RULE_PROBE };
    }
    return segment;
}

int
ecc_rack_note_sent(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_rack_t *rack = &self->racks[index];
    uint32_t number = ecc_segments_number(rack, rack->count);

    if (ecc_transport_is_probe(segment)) {
        rack->wants_probe = false;
        rack->probe_is_copy = segment.rule == ECC_RULE_PROBE;
        rack->probe_end = rack->probe_is_copy ? transport->snd_nxt : segment.begin + segment.size;
    }
    if (ecc_transport_is_new(segment)) {
        ecc_sent_t sent = { .begin = segment.begin, .size = segment.size };
        int ret = ecc_segments_append(rack, &self->memory, sent);
        transport->snd_nxt = segment.begin + segment.size;
        if (ret == 0) {
            transmit(self, rack, number);
        }
        return ret;
    }
    if (segment.rule == ECC_RULE_PROBE) {
        number = ecc_segments_number(rack, rack->count - 1);
        ecc_segments_remove(rack, number);
        ecc_segments_at(rack, number)->probes = 1;
    } else {
        number = rack->lost[0];
        ecc_segments_unmark(rack, number);
        ecc_segments_at(rack, number)->is_repair = true;
        transport->retransmit_first = false;
        if (rack->may_undo) {
            rack->first_retransmission
                = rack->first_retransmission < self->now ? rack->first_retransmission : self->now;
            rack->not_duplicated += segment.size;
        }
    }
    ecc_segments_at(rack, number)->was_repeated = true;
    transmit(self, rack, number);
    return 0;
}

/* S-149: the reordering window. */
static ecc_ps_t
reordering_window(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_transport_t *transport = &self->transports[index];
    const ecc_rack_t *rack = &self->racks[index];
    double window = rack->multiplier * flow->min_rtt / 4.0;

    if (!rack->has_reordering && (ecc_rack_is_repairing(rack, transport) || rack->n_sacked >= transport->dup_thresh)) {
        return 0;
    }
    return ecc_clock_ps(window < flow->srtt ? window : flow->srtt);
}

/* S-150: time at which a segment is lost that was sent before a delivered one. */
static ecc_ps_t
overdue_at(const ecc_rack_t *self, const ecc_sent_t *segment)
{
    return ecc_clock_add(ecc_clock_add(segment->sent, self->rtt), self->window);
}

/* S-151: an episode begins, which later ACKs may show to be spurious. */
static void
begin_episode(ecc_rack_t *self, const ecc_transport_t *transport, bool by_timeout)
{
    self->may_undo = true;
    self->by_timeout = by_timeout;
    self->undo_from = transport->snd_una;
    self->first_retransmission = ECC_NEVER;
    self->not_duplicated = 0;
}

/* Begins a congestion response: a recovery, or a further reduction in one. */
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

/* S-150: marks overdue segments that were sent before the newest delivered one; returns whether there are any. */
static bool
mark_overdue(ecc_rack_t *self, ecc_ps_t now, int64_t before, bool *is_repeated)
{
    bool found = false;

    while (self->oldest != ECC_NO_SEGMENT) {
        const ecc_sent_t *segment = ecc_segments_at(self, self->oldest);
        if (segment->order >= before || overdue_at(self, segment) > now) {
            break; /* all segments sent after it are not overdue either */
        }
        found = true;
        *is_repeated = *is_repeated || segment->order >= self->responded;
        ecc_segments_mark_lost(self, self->oldest);
    }
    return found;
}

/*
 * S-163: whether a recovery, or a further response in one, begins. Linux does not reduce the window again in a
 * recovery, and begins the next recovery at its end if a loss is still not repaired.
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
    next = rack->earlier == ECC_NO_SEGMENT ? rack->oldest : ecc_segments_at(rack, rack->earlier)->after;
    while (next != ECC_NO_SEGMENT && ecc_segments_at(rack, next)->order < rack->order) {
        rack->earlier = next;
        next = ecc_segments_at(rack, next)->after;
    }
    rack->awaits = rack->earlier == ECC_NO_SEGMENT ? ECC_AWAITS_NOTHING : ECC_AWAITS_REORDERING;
    rack->wait_until
        = rack->earlier == ECC_NO_SEGMENT ? self->now : overdue_at(rack, ecc_segments_at(rack, rack->earlier));
    if (!begins_response(rack, transport, self->flows[index].reduces_as_linux, found, is_repeated)) {
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
    } else if (self->flows[index].n_timeouts == 1) { /* S-163: not undone after it */
        rack->may_undo = false;
    }
    (void) mark_overdue(rack, self->now, rack->n_transmissions, &is_repeated);
    if (rack->count > 0 && ecc_segments_in_place(rack, 0)->state == ECC_SENT_OUTSTANDING) {
        ecc_segments_mark_lost(rack, rack->first);
    }
    begin_response(rack, transport);
    transport->recovering = false;
    rack->timed_out = true;
    rack->awaits = ECC_AWAITS_NOTHING;
}

bool
ecc_rack_may_probe(const ecc_engine_t *self, uint32_t index)
{
    const ecc_rack_t *rack = &self->racks[index];

    return rack->count > 0 && rack->probe_end < 0 && rack->lost_bytes == 0 && rack->n_sacked == 0
        && !ecc_rack_is_repairing(rack, &self->transports[index]);
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

/* Whether the receiver has all bytes of a segment. */
static bool
is_received(const ecc_transport_t *transport, const ecc_flow_state_t *flow, const ecc_sent_t *segment)
{
    int64_t end = ecc_segments_end(segment);
    int64_t begin = segment->begin > flow->received ? segment->begin : flow->received;

    return begin >= end || ecc_ranges_within(&transport->held, begin, end) == end - begin;
}

int
ecc_rack_verify(const ecc_engine_t *engine, uint32_t index, bool receives)
{
    const ecc_rack_t *self = &engine->racks[index];
    const ecc_transport_t *transport = &engine->transports[index];
    int64_t next = transport->snd_una;
    int64_t in_flight = 0;
    int64_t lost_bytes = 0;
    int64_t sacked_bytes = 0;
    int64_t repairs = 0;
    uint32_t n[ECC_SENT_SACKED + 1] = { 0 };
    bool valid = self->count <= self->room && transport->lost_below == next && transport->high_rxt == next
        && self->fack <= transport->snd_nxt && self->probe_end <= transport->snd_nxt && self->multiplier >= 1
        && self->order < self->n_transmissions && self->responded <= self->n_transmissions
        && transport->sacked.count == 0
        && (self->count == 0 || ecc_segments_in_place(self, 0)->state != ECC_SENT_SACKED)
        && (self->n_sacked == 0 || (!self->wants_probe && self->awaits != ECC_AWAITS_PROBE));

    for (uint32_t k = 0; k < self->count && valid; k++) {
        const ecc_sent_t *segment = ecc_segments_in_place(self, k);
        bool is_sacked = segment->state == ECC_SENT_SACKED;
        valid = segment->begin == next && segment->size > 0 && segment->sent <= engine->now
            && segment->probes + segment->is_repair <= (segment->state == ECC_SENT_OUTSTANDING)
            && (!is_sacked || !receives || is_received(transport, &engine->flows[index], segment));
        next = ecc_segments_end(segment);
        n[segment->state]++;
        in_flight += segment->state == ECC_SENT_OUTSTANDING ? (int64_t) segment->size * (1 + segment->probes) : 0;
        repairs += segment->is_repair ? segment->size : 0;
        lost_bytes += segment->state == ECC_SENT_LOST ? segment->size : 0;
        sacked_bytes += is_sacked ? segment->size : 0;
    }
    valid = valid && next == transport->snd_nxt && in_flight == self->in_flight && lost_bytes == self->lost_bytes
        && repairs == self->repairs && sacked_bytes == self->sacked_bytes && n[ECC_SENT_SACKED] == self->n_sacked
        && ecc_segments_are_valid(self, n[ECC_SENT_OUTSTANDING], n[ECC_SENT_LOST]);
    return valid ? 0 : ECC_ERR_BROKEN;
}
