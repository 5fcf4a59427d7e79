/*
 * RACK-TLP at an ACK (RFC 8985; S-148 to S-152): segments delivered, duplicates, recoveries that are undone, and
 * probes.
 *
 * Not here: which segments are lost (rack.c).
 */

#include "host/rack_acks.h"

#include "host/segments.h"
#include "host/transport.h"

/* Data that one ACK newly shows as delivered. */
typedef struct {
    ecc_ps_t sent;     /* last transmission time among its segments */
    int64_t order;     /* number of this transmission, -1: none */
    int64_t fack;      /* fack before this ACK */
    int64_t delivered; /* bytes delivered */
    bool shows_original;
} ecc_news_t;

static void
deliver(ecc_engine_t *self, const ecc_packet_t *packet, uint32_t number, ecc_news_t *news)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];
    ecc_sent_t *segment = ecc_segments_at(rack, number);
    int64_t end = ecc_segments_end(segment);

    if (segment->state == ECC_SENT_LOST) {
        ecc_segments_unmark(rack, number);
    } else {
        ecc_segments_remove(rack, number);
    }
    ecc_segments_mark_sacked(rack, number);
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

/* Delivers all segments below the cumulative ACK. */
static int
deliver_below(ecc_engine_t *self, const ecc_packet_t *packet, int64_t ack, ecc_news_t *news)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];

    while (rack->count > 0 && ecc_segments_in_place(rack, 0)->begin < ack) {
        ecc_sent_t *segment = ecc_segments_in_place(rack, 0);
        if (ecc_segments_end(segment) > ack) {
            return ECC_ERR_BROKEN; /* the checkpoint is forged: receivers get whole segments */
        }
        news->shows_original = news->shows_original
            || (segment->was_repeated && packet->sent < segment->sent && packet->sent < rack->first_retransmission
                && rack->first_retransmission < ECC_NEVER);
        if (segment->state != ECC_SENT_SACKED) {
            deliver(self, packet, rack->first, news);
        }
        ecc_segments_drop_first(rack);
    }
    transport->snd_una = ack;
    transport->lost_below = ack;
    transport->high_rxt = ack;
    transport->retransmit_first = false;
    return 0;
}

/* Delivers the segments of a SACK block that were not delivered before. */
static int
deliver_block(ecc_engine_t *self, const ecc_packet_t *packet, int64_t begin, int64_t end, ecc_news_t *news)
{
    ecc_rack_t *rack = &self->racks[packet->flow];
    uint32_t k = ecc_segments_skip_sacked(rack, ecc_segments_find(rack, begin));

    if (end > self->transports[packet->flow].snd_nxt) {
        return ECC_ERR_BROKEN;
    }
    while (k < rack->count && ecc_segments_in_place(rack, k)->begin < end) {
        const ecc_sent_t *segment = ecc_segments_in_place(rack, k);
        if (segment->begin < begin || ecc_segments_end(segment) > end) {
            return ECC_ERR_BROKEN; /* as above */
        }
        deliver(self, packet, ecc_segments_number(rack, k), news);
        k = ecc_segments_skip_sacked(rack, k + 1);
    }
    return 0;
}

static int
deliver_blocks(ecc_engine_t *self, const ecc_packet_t *packet, const ecc_range_t *blocks, ecc_news_t *news)
{
    int64_t una = self->transports[packet->flow].snd_una;
    int ret = 0;

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS && ret == 0; k++) {
        int64_t begin = blocks[k].begin > una ? blocks[k].begin : una;
        ret = begin < blocks[k].end ? deliver_block(self, packet, begin, blocks[k].end, news) : 0;
    }
    return ret;
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
        self->persists = ECC_RACK_PERSISTENCE;
    } else if (has_recovered) {
        self->persists -= self->persists > 0;
        self->multiplier = self->persists > 0 ? self->multiplier : 1;
    }
}

/* S-151: a spurious episode is undone: its segments are outstanding again, and the recovery ends. */
static void
undo(ecc_rack_t *self, ecc_transport_t *transport)
{
    ecc_segments_restore_lost(self);
    transport->recovered = transport->recovered || transport->recovering;
    transport->recovering = false;
    transport->recovery_point = transport->snd_una;
    transport->retransmit_first = false;
    self->timed_out = false;
    self->may_undo = false;
    self->undone = true;
}

/* S-152: processes the outcome of a probe; returns whether it has repaired a loss. */
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
ecc_rack_acks_receive(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_rack_t *rack = &self->racks[packet->flow];
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    ecc_range_t duplicate = { 0, 0 };
    ecc_news_t news = { .order = -1, .fack = rack->fack };
    int64_t acked = info->front > transport->snd_una ? info->front - transport->snd_una : 0;
    bool was_repairing = ecc_rack_is_repairing(rack, transport);
    bool is_of_probe;
    bool has_repaired;
    int ret;

    *effect = (ecc_ack_effect_t) { .acked = acked, .starts_timer = acked > 0 };
    transport->recovered = false;
    rack->undone = false;
    rack->wants_probe = false;
    ret = acked > 0 ? deliver_below(self, packet, info->front, &news) : 0;
    if (ret == 0 && info->sack != ECC_NO_SACK) {
        const ecc_range_t *blocks = ecc_sacks_at(&self->sacks, info->sack)->blocks;
        duplicate = duplicate_of(info, blocks);
        ret = deliver_blocks(self, packet, blocks, &news);
    }
    is_of_probe = rack->probe_end >= 0 && rack->probe_is_copy && duplicate.end == rack->probe_end;
    if (ret != 0 || (rack->count > 0 && ecc_segments_in_place(rack, 0)->state == ECC_SENT_SACKED)) {
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
    adapt_window(
        rack, transport, duplicate.begin < duplicate.end, was_repairing && !ecc_rack_is_repairing(rack, transport));
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
    if (has_repaired && !effect->begins_recovery && !ecc_rack_is_repairing(rack, transport) && !rack->undone) {
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
