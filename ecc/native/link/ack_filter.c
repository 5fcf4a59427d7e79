/*
 * ACKs that a later ACK of the same connection supersedes, because it acknowledges all that they acknowledge (S-227).
 * Only ACKs of TCP are cumulative and may be dropped: those of QUIC, and packets without a transport, stay.
 *
 * Not here: the drop of the ACK (scheduler.c).
 */

#include "link/ack_filter.h"

#include "link/link.h"

/* SACK blocks of an ACK. */
static const ecc_range_t *
blocks_of(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_sack_t *sack
        = self->wants_sack ? ecc_sacks_at(&self->sacks, ecc_state_ack_info(self, packet)->sack) : &ecc_sacks_none;

    return sack->blocks;
}

/* Bytes in SACK blocks. */
static int64_t
sacked(const ecc_range_t *blocks)
{
    int64_t bytes = 0;

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        bytes += blocks[k].end - blocks[k].begin;
    }
    return bytes;
}

/* Whether a block is within one of some blocks. */
static bool
is_within(const ecc_range_t *block, const ecc_range_t *blocks)
{
    bool within = false;

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        within = within || (blocks[k].begin <= block->begin && block->end <= blocks[k].end);
    }
    return within;
}

/* Whether an ACK reports all that an earlier one reports, and more. */
static bool
supersedes(const ecc_engine_t *self, const ecc_packet_t *later, const ecc_packet_t *earlier)
{
    int64_t ack = ecc_state_ack_info(self, later)->front;
    int64_t earlier_ack = ecc_state_ack_info(self, earlier)->front;
    const ecc_range_t *blocks = blocks_of(self, later);
    const ecc_range_t *earlier_blocks = blocks_of(self, earlier);

    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        const ecc_range_t *block = &earlier_blocks[k];
        bool reports_duplicate = block->begin < earlier_ack; /* only this ACK has it (RFC 2883) */
        if (block->end > block->begin && (reports_duplicate || !is_within(block, blocks))) {
            return false;
        }
    }
    return earlier_ack < ack || (earlier_ack == ack && sacked(blocks) > sacked(earlier_blocks));
}

static int64_t
report_of_marks(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return self->wants_ecn ? ecc_state_ecn(self, ecc_packets_header(packet)).word : 0;
}

static bool
is_ack(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return packet->size > 0 && ecc_link_kind(packet, self->hops[packet->position]) == ECC_PACKET_ACK;
}

/* Takes the packet after `before`, or the first one, out of a queue. */
static void
take(const ecc_engine_t *self, ecc_queue_t *queue, uint32_t id, uint32_t before)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    if (before == ECC_NO_PACKET) {
        queue->packets.head = packet->next;
        queue->since = packet->next_time;
    } else {
        ecc_packet_t *previous = ecc_packets_at(&self->packets, before);
        previous->next = packet->next;
        previous->next_time = packet->next_time;
    }
}

uint32_t
ecc_ack_filter_remove(const ecc_engine_t *self, ecc_queue_t *queue, bool aggressive)
{
    uint32_t last = queue->packets.tail;
    const ecc_packet_t *trigger = ecc_packets_at(&self->packets, last);
    const ecc_flow_state_t *flow = &self->flows[trigger->flow];
    uint32_t candidate = ECC_NO_PACKET;
    uint32_t before_candidate = ECC_NO_PACKET;
    uint32_t before = ECC_NO_PACKET;
    int64_t marks = 0;
    int n_found = 0;

    if (!flow->reliable || flow->spec->transport == ECC_TRANSPORT_QUIC || !is_ack(self, trigger)) {
        return ECC_NO_PACKET;
    }
    for (uint32_t id = queue->packets.head; id != last; id = ecc_packets_at(&self->packets, id)->next) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        if (packet->flow == trigger->flow && is_ack(self, packet)) {
            if (candidate != ECC_NO_PACKET && report_of_marks(self, packet) != marks) {
                candidate = ECC_NO_PACKET; /* the change of the report would be lost */
                n_found--;
            }
            if (supersedes(self, trigger, packet)) {
                if (candidate == ECC_NO_PACKET) {
                    candidate = id;
                    before_candidate = before;
                    marks = report_of_marks(self, packet);
                }
                n_found++;
            }
        }
        if (n_found > 1) {
            break;
        }
        before = id;
    }
    if (n_found < 2
        && (candidate == ECC_NO_PACKET || !aggressive || ecc_packets_at(&self->packets, candidate)->next != last
            || report_of_marks(self, trigger) != marks)) {
        return ECC_NO_PACKET;
    }
    take(self, queue, candidate, before_candidate);
    return candidate;
}
