/*
 * Loss recovery of reliable flows: RFC 6582 for cumulative ACKs, RFC 6675 for SACK (S-73 to S-92). Lost packets are
 * found by duplicate ACKs (count_duplicate) and SACKs (raise_lost_below). Sequence numbers are in bytes from 0; ranges
 * are from begin to end, the end excluded.
 *
 * Here is the sender's half: what may be in flight, what is next, and what an ACK and a timeout change.
 *
 * Not here: the receiver's half (reassembly.c), and when packets and ACKs are sent (sender.c, receiver.c), the
 * response to a loss (acks.c), and losses found by time (rack.c).
 *
 * Invariants (ecc_transport_verify): snd_una <= high_rxt, lost_below <= snd_nxt; sacked ranges lie beyond snd_una, and
 * all of them has been received; with SACK, pipe_credit = sacked(snd_una, high_rxt).
 */

#include "host/transport.h"

#include <assert.h>
#include <math.h>

#include "core/config.h"

static int64_t
min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void
ecc_transport_init(ecc_engine_t *self, uint32_t index)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_ranges_t sacked = transport->sacked;
    ecc_ranges_t held = transport->held;

    *transport = (ecc_transport_t) { .uses_sack = self->flows[index].spec->transport >= ECC_TRANSPORT_SACK,
        .receiver_window = self->flows[index].spec->receiver_window,
        .min_rto = self->flows[index].spec->min_rto,
        .dup_thresh = (uint8_t) ecc_config_threshold(self->flows[index].spec, ECC_DUP_THRESH),
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

void
ecc_transport_measure(ecc_transport_t *self, const ecc_flow_state_t *flow, double rtt)
{
    double deviation = flow->srtt > rtt ? flow->srtt - rtt : rtt - flow->srtt;

    self->rttvar = flow->srtt == 0.0 ? rtt / 2.0 : self->rttvar + (deviation - self->rttvar) / 4.0;
}

ecc_ps_t
ecc_transport_rto(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    double margin = ecc_clock_seconds(flow->spec->rto_granularity);
    double spread = 4.0 * self->rttvar;

    return max(self->min_rto, ecc_clock_ps(flow->srtt + (margin > spread ? margin : spread)));
}

/* The segment from the first byte at or after `from` that is not sacked, below `end`. */
static ecc_segment_t
hole(const ecc_transport_t *self, int64_t from, int64_t end, int64_t size, enum ecc_segment_rule rule)
{
    int64_t begin = ecc_ranges_skip(&self->sacked, from);

    if (begin >= end) {
        return (ecc_segment_t) { 0 };
    }
    return (ecc_segment_t) { begin, (int32_t) min(size, ecc_ranges_until(&self->sacked, begin, end) - begin), rule };
}

/* S-77.4 and 5: retransmissions of data that is not considered lost, if no new data can be sent. */
static ecc_segment_t
rescue(const ecc_transport_t *self, int64_t size)
{
    int64_t highest = self->snd_una;
    ecc_segment_t segment;

    if (self->sacked.count > 0) {
        highest = ecc_ranges_at(&self->sacked, ecc_ranges_last(&self->sacked))->end;
    }
    segment = hole(self, self->high_rxt, highest, size, ECC_RULE_UNSACKED);
    if (segment.size == 0 && self->snd_una > self->rescue_rxt && highest < self->snd_nxt) {
        int64_t begin = max(highest, self->snd_nxt - size);
        segment = (ecc_segment_t) { begin, (int32_t) (self->snd_nxt - begin), ECC_RULE_RESCUE };
    }
    return segment;
}

ecc_segment_t
ecc_transport_next_in_recovery(const ecc_transport_t *self, const ecc_flow_state_t *flow, int64_t written)
{
    ecc_segment_t segment = { 0 };
    int64_t size = flow->packet_size;

    if (self->retransmit_first) {
        return hole(self, self->snd_una, self->snd_nxt, size, ECC_RULE_FIRST);
    }
    if (self->high_rxt < self->lost_below) {
        segment = hole(self, self->high_rxt, self->lost_below, size, ECC_RULE_LOST);
    }
    if (segment.size == 0) {
        segment = ecc_transport_new(self, flow, written);
    }
    return segment.size == 0 && self->uses_sack && self->recovering ? rescue(self, size) : segment;
}

/* Lost data below `end` has been retransmitted. */
static void
raise_high_rxt(ecc_transport_t *self, int64_t end)
{
    self->pipe_credit += ecc_ranges_within(&self->sacked, self->high_rxt, end);
    self->high_rxt = end;
}

void
ecc_transport_note_sent(ecc_transport_t *self, ecc_segment_t segment)
{
    int64_t end = segment.begin + segment.size;

    if (segment.rule == ECC_RULE_NEW) {
        self->snd_nxt = end;
    } else if (segment.rule == ECC_RULE_RESCUE) {
        self->rescue_rxt = self->recovery_point;
    } else {
        if (self->uses_sack || !self->recovering) {
            raise_high_rxt(self, end);
        }
        if (segment.rule == ECC_RULE_FIRST && self->recovering) {
            self->rescue_rxt = end;
        }
        self->retransmit_first = false;
    }
}

/* S-82: all below `ack` is acknowledged; returns how many of these bytes were sacked before. */
static int64_t
acknowledge_below(ecc_transport_t *self, int64_t ack)
{
    int64_t sacked = 0;

    if (self->sacked.count > 0) {
        sacked = ecc_ranges_within(&self->sacked, self->snd_una, ack);
        self->pipe_credit -= ecc_ranges_within(&self->sacked, self->snd_una, min(ack, self->high_rxt));
        ecc_ranges_drop(&self->sacked, ack);
    }
    self->snd_una = ack;
    self->lost_below = max(self->lost_below, ack);
    self->high_rxt = max(self->high_rxt, ack);
    self->retransmit_first = false;
    self->n_dup_acks = 0;
    return sacked;
}

/* S-82: data is lost below dup_thresh sacked ranges, or below more sacked bytes than `enough`. */
static void
raise_lost_below(ecc_transport_t *self, int64_t enough)
{
    uint32_t id = ecc_ranges_last(&self->sacked);
    int64_t above = 0;

    for (uint32_t k = 1; id != ECC_NO_RANGE && ecc_ranges_at(&self->sacked, id)->begin > self->lost_below; k++) {
        const ecc_range_t *range = ecc_ranges_at(&self->sacked, id);
        above += range->end - range->begin;
        if (k == self->dup_thresh || above > enough) {
            self->lost_below = range->begin;
            break;
        }
        id = ecc_ranges_prev(&self->sacked, id);
    }
}

/* S-82: the blocks of an ACK are sacked; bytes: the number of bytes that were not sacked before. */
static int
add_sack_blocks(
    ecc_transport_t *self, ecc_memory_t *memory, const ecc_flow_t *spec, const ecc_range_t *sacks, int64_t *bytes)
{
    *bytes = 0;
    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        int64_t begin = max(sacks[k].begin, self->snd_una);
        int64_t end = sacks[k].end;
        bool is_split = begin < self->high_rxt && self->high_rxt < end;
        int64_t known = is_split ? ecc_ranges_within(&self->sacked, begin, self->high_rxt) : 0;
        int64_t added;
        uint32_t id;
        int ret;
        if (begin >= end) {
            continue;
        }
        ret = ecc_ranges_insert(&self->sacked, memory, begin, end, &id, &added);
        if (ret != 0) {
            return ret;
        }
        *bytes += added;
        if (is_split) {
            self->pipe_credit += self->high_rxt - begin - known;
        } else if (begin < self->high_rxt) {
            self->pipe_credit += added;
        }
    }
    raise_lost_below(self, (self->dup_thresh - 1) * max(spec->packet_size, spec->packet_size_max));
    return 0;
}

/* S-84, S-85: counts a duplicate ACK; returns whether a recovery begins. */
static bool
count_duplicate(ecc_transport_t *self, int64_t size)
{
    self->flight_end = self->n_dup_acks == 0 ? self->snd_nxt : self->flight_end;
    assert(!self->recovering && self->n_dup_acks < self->dup_thresh);
    self->n_dup_acks++; /* no more than dup_thresh, as a recovery ends only when new data is acknowledged */
    self->pipe_credit += self->uses_sack ? 0 : size;
    if (self->n_dup_acks < self->dup_thresh && self->lost_below == self->snd_una) {
        return false;
    }
    self->recovering = true;
    self->recovery_point = self->snd_nxt;
    self->high_rxt = self->snd_una;
    self->pipe_credit = self->uses_sack ? 0 : self->pipe_credit;
    self->retransmit_first = true;
    self->had_partial_ack = false;
    return true;
}

/* S-83: an ACK in a recovery, which it may end. */
static void
continue_recovery(ecc_transport_t *self, int64_t size, bool is_repeated, ecc_ack_effect_t *effect)
{
    if (self->snd_una >= self->recovery_point) {
        self->recovering = false;
        self->recovered = true;
        self->pipe_credit = self->uses_sack ? self->pipe_credit : 0;
    } else if (!self->uses_sack && effect->acked > 0) {
        int64_t resent = effect->acked >= size ? size : 0;
        self->pipe_credit = max(0, self->pipe_credit - effect->acked + resent);
        self->retransmit_first = true;
        effect->starts_timer = !self->had_partial_ack; /* S-86: only the first partial ACK restarts the timer */
        self->had_partial_ack = true;
    } else if (!self->uses_sack && is_repeated) {
        self->pipe_credit += size;
    }
}

int
ecc_transport_receive_ack(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    int64_t acked = max(0, info->front - transport->snd_una);
    bool is_repeated = info->front == transport->snd_una;
    bool is_duplicate;
    int64_t n_sacked = 0;

    *effect = (ecc_ack_effect_t) { .acked = acked, .delivered = acked, .starts_timer = acked > 0 };
    transport->recovered = false;
    if (acked > 0) {
        effect->delivered -= acknowledge_below(transport, info->front);
    }
    if (transport->uses_sack) {
        int64_t lost_below = transport->lost_below;
        const ecc_flow_t *spec = self->flows[packet->flow].spec;
        const ecc_range_t *sacks = ecc_sacks_at(&self->sacks, info->sack)->blocks;
        int ret = add_sack_blocks(transport, &self->memory, spec, sacks, &n_sacked);
        if (ret != 0) {
            return ret;
        }
        if (transport->sacked.count > 0
            && ecc_ranges_at(&transport->sacked, ecc_ranges_first(&transport->sacked))->begin <= transport->snd_una) {
            return ECC_ERR_BROKEN; /* contradicting ACKs, from a forged checkpoint */
        }
        effect->delivered += n_sacked;
        effect->finds_loss = transport->lost_below > lost_below;
    }
    if (transport->recovering) {
        continue_recovery(transport, packet->size, is_repeated, effect);
        return 0;
    }
    if (acked > 0 && !transport->uses_sack) {
        transport->pipe_credit = 0;
    }
    is_duplicate = transport->uses_sack ? n_sacked > 0 : is_repeated && transport->snd_nxt > transport->snd_una;
    if (is_duplicate && transport->snd_una >= transport->recovery_point) { /* S-84: count a duplicate ACK */
        effect->begins_recovery = count_duplicate(transport, packet->size);
        effect->starts_timer = effect->starts_timer || effect->begins_recovery;
    }
    return 0;
}

void
ecc_transport_time_out(ecc_transport_t *self)
{
    self->recovering = false;
    self->recovery_point = self->snd_nxt + !self->uses_sack;
    self->lost_below = self->snd_nxt;
    self->high_rxt = self->snd_una;
    self->n_dup_acks = 0;
    self->pipe_credit = 0;
    self->retransmit_first = true;
    ecc_ranges_clear(&self->sacked);
}

/* ---- proportional rate reduction ---- */

void
ecc_transport_begin_prr(ecc_engine_t *self, uint32_t index, int64_t delivered)
{
    const ecc_transport_t *transport = &self->transports[index];
    int64_t sacked = self->flows[index].has_rack
        ? self->racks[index].sacked_bytes
        : ecc_ranges_within(&transport->sacked, transport->snd_una, transport->snd_nxt);

    self->prrs[index] = (ecc_prr_t) { .recover_fs = transport->snd_nxt - transport->snd_una - sacked + delivered };
}

void
ecc_transport_begin_prr_for_marks(ecc_engine_t *self, uint32_t index, int64_t delivered)
{
    ecc_transport_begin_prr(self, index, delivered);
    self->prrs[index].until = self->transports[index].snd_nxt;
}

/* SndCnt while more is in flight than the window allows: the reduction is spread over the ACKs of an RTT. */
static int64_t
proportional(const ecc_prr_t *self, double window)
{
    double most = ceil((double) self->delivered * window / (double) self->recover_fs);

    return (most < (double) ECC_NO_END ? (int64_t) most : ECC_NO_END) - self->out;
}

void
ecc_transport_update_prr(ecc_engine_t *self, uint32_t index, const ecc_ack_effect_t *effect)
{
    const ecc_flow_t *spec = self->flows[index].spec;
    ecc_prr_t *prr = &self->prrs[index];
    double window = self->flows[index].window;
    int64_t bytes = ecc_transport_in_flight(self, index);
    int64_t largest = max(spec->packet_size, spec->packet_size_max);
    int64_t credit;

    if (effect->delivered <= 0) {
        return;
    }
    prr->delivered += effect->delivered;
    if ((double) bytes > window) {
        credit = proportional(prr, window);
    } else {
        bool is_safe = effect->acked > 0 && !effect->finds_loss;
        credit = max(prr->delivered - prr->out, effect->delivered) + (is_safe ? largest : 0);
        credit = (double) credit < window - (double) bytes ? credit : (int64_t) (window - (double) bytes);
    }
    prr->credit = prr->out == 0 && credit <= 0 ? largest : max(credit, 0);
}

/* Whether the state of the sender is consistent. */
static bool
sender_is_valid(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    const ecc_ranges_t *sacked = &self->sacked;

    return self->snd_una <= self->high_rxt && self->snd_una <= self->lost_below && self->high_rxt <= self->snd_nxt
        && self->lost_below <= self->snd_nxt && self->pipe_credit >= 0 && flow->expected - flow->lost == self->snd_una
        && flow->sent - flow->lost == self->snd_nxt && (flow->size < 0 || self->snd_nxt <= flow->size)
        && (sacked->count == 0
            || (ecc_ranges_at(sacked, ecc_ranges_first(sacked))->begin > self->snd_una
                && ecc_ranges_at(sacked, ecc_ranges_last(sacked))->end <= self->snd_nxt))
        && (flow->has_quic
            || (self->recovering ? self->snd_una < self->recovery_point : self->n_dup_acks < self->dup_thresh))
        && (!self->uses_sack
            || (self->pipe_credit == ecc_ranges_within(sacked, self->snd_una, self->high_rxt)
                && (!self->retransmit_first || self->high_rxt == self->snd_una)));
}

/* Whether the state of the receiver is consistent. */
static bool
receiver_is_valid(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    const ecc_ranges_t *held = &self->held;
    bool valid = held->count == 0 || ecc_ranges_at(held, ecc_ranges_first(held))->begin > flow->received;

    for (uint32_t k = 0; k < self->n_recent && valid; k++) {
        uint32_t range = ecc_ranges_find(held, self->recent[k]);
        valid = range != ECC_NO_RANGE && range == self->recent_ranges[k]
            && ecc_ranges_contains(held, range, self->recent[k]);
    }
    return valid;
}

/* Whether the halves agree: only sent data was received, and reported data is held or was delivered. */
static bool
halves_agree(const ecc_transport_t *self, const ecc_flow_state_t *flow)
{
    const ecc_ranges_t *sacked = &self->sacked;
    const ecc_ranges_t *held = &self->held;
    int64_t rcv_nxt = flow->received;
    bool valid = self->snd_una <= rcv_nxt && rcv_nxt <= self->snd_nxt
        && (held->count == 0 || ecc_ranges_at(held, ecc_ranges_last(held))->end <= self->snd_nxt);

    for (uint32_t id = ecc_ranges_first(sacked); id != ECC_NO_RANGE && valid; id = ecc_ranges_next(sacked, id)) {
        const ecc_range_t *range = ecc_ranges_at(sacked, id);
        int64_t begin = max(range->begin, rcv_nxt);
        valid = begin >= range->end || ecc_ranges_within(held, begin, range->end) == range->end - begin;
    }
    return valid;
}

int
ecc_transport_verify(const ecc_transport_t *self, const ecc_flow_state_t *flow, bool sends, bool receives)
{
    bool valid = ecc_ranges_verify(&self->sacked) == 0 && ecc_ranges_verify(&self->held) == 0;

    valid = valid && (!sends || sender_is_valid(self, flow)) && (!receives || receiver_is_valid(self, flow))
        && (!sends || !receives || halves_agree(self, flow));
    return valid ? 0 : ECC_ERR_BROKEN;
}
