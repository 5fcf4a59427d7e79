/*
 * The receiver's half of a transport (S-73 to S-92): the data that it holds out of order, and the blocks that an ACK
 * reports.
 *
 * Not here: the sender's half and the invariants of both (transport.c), and when ACKs are sent (receiver.c).
 */

#include "host/reassembly.h"

#include <string.h>

#include "host/quic_receiver.h"

/* S-90: keeps the first of these sequence numbers in each range beyond rcv_nxt, as many as an ACK can report. */
static void
keep_recent(ecc_transport_t *self, const int64_t *numbers, const uint32_t *ranges, uint32_t n, int64_t rcv_nxt)
{
    self->n_recent = 0;
    for (uint32_t k = 0; k < n && self->n_recent < ECC_MAX_SACK_BLOCKS; k++) {
        uint32_t range = ranges[k];
        bool is_first = numbers[k] >= rcv_nxt;
        if (is_first && !ecc_ranges_contains(&self->held, range, numbers[k])) { /* it has been joined */
            range = ecc_ranges_find(&self->held, numbers[k]);
        }
        for (uint32_t j = 0; j < self->n_recent; j++) {
            is_first = is_first && self->recent_ranges[j] != range;
        }
        if (is_first) {
            self->recent_ranges[self->n_recent] = range;
            self->recent[self->n_recent++] = numbers[k];
        }
    }
}

/* The data of a packet is stored; QUIC and RACK-TLP report more than that in an ACK. */
static inline int
note_received(ecc_engine_t *self, const ecc_packet_t *packet, bool is_duplicate, bool *may_delay)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];

    if (flow->has_quic) {
        return ecc_quic_receiver_receive(self, packet, may_delay);
    }
    if (flow->has_rack) { /* S-148: an ACK reports duplicates */
        self->racks[packet->flow].has_duplicate = is_duplicate;
    }
    return 0;
}

int
ecc_reassembly_receive(ecc_engine_t *self, const ecc_packet_t *packet, bool *may_delay)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    int64_t rcv_nxt = flow->received;
    int64_t begin = packet->offset;
    int64_t end = begin + packet->size;
    int64_t added = end > rcv_nxt;
    int64_t numbers[ECC_MAX_SACK_BLOCKS + 1];
    uint32_t ranges[ECC_MAX_SACK_BLOCKS + 1];
    uint32_t n = transport->n_recent;

    *may_delay = begin == rcv_nxt && transport->held.count == 0;
    if (transport->held.count == 0 && begin <= rcv_nxt) { /* in order: nothing to join, nothing to report */
        flow->received = end > rcv_nxt ? end : rcv_nxt;
        transport->n_recent = end > rcv_nxt ? 0 : transport->n_recent;
        return note_received(self, packet, added == 0, may_delay);
    }
    numbers[0] = begin;
    memcpy(numbers + 1, transport->recent, sizeof(transport->recent));
    memcpy(ranges + 1, transport->recent_ranges, sizeof(transport->recent_ranges));
    if (begin > rcv_nxt) {
        int ret = ecc_ranges_insert(&transport->held, &self->memory, begin, end, &ranges[0], &added);
        if (ret != 0) {
            return ret;
        }
        keep_recent(transport, numbers, ranges, n + 1, rcv_nxt);
    } else if (end > rcv_nxt) {
        flow->received = ecc_ranges_skip(&transport->held, end);
        ecc_ranges_drop(&transport->held, flow->received);
        keep_recent(transport, numbers + 1, ranges + 1, n, flow->received);
    }
    return note_received(self, packet, added == 0, may_delay);
}

int
ecc_reassembly_write_ack(ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    bool is_duplicate = self->flows[packet->flow].has_rack && self->racks[packet->flow].has_duplicate;
    uint32_t n = 0;
    ecc_range_t *blocks;
    int ret;

    if (self->flows[packet->flow].has_quic) {
        return ecc_quic_receiver_write_ack(self, packet);
    }
    info->front = self->flows[packet->flow].received;
    info->sack = ECC_NO_SACK;
    if (!transport->uses_sack || (transport->n_recent == 0 && !is_duplicate)) {
        return 0;
    }
    ret = ecc_sacks_allocate(&self->sacks, &self->memory, &info->sack);
    if (ret != 0) {
        return ret;
    }
    blocks = self->sacks.items[info->sack].blocks;
    if (is_duplicate) {
        blocks[n++] = (ecc_range_t) { packet->offset, packet->offset + packet->size };
    }
    for (uint32_t k = 0; k < transport->n_recent && n < ECC_MAX_SACK_BLOCKS; k++) {
        blocks[n++] = *ecc_ranges_at(&transport->held, transport->recent_ranges[k]);
    }
    while (n < ECC_MAX_SACK_BLOCKS) {
        blocks[n++] = (ecc_range_t) { 0, 0 };
    }
    return 0;
}
