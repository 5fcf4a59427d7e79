/*
 * ACKs at a sender with a transport of type 4 (RFC 9002, A.7 and B.5; S-216, S-217): packets acknowledged, the RTT
 * sample, and the end of a recovery.
 *
 * Not here: which packets are lost (quic.c).
 */

#include "host/quic_acks.h"

#include "host/quic.h"
#include "host/rtt.h"

/* S-216: an RTT sample without the delay of the receiver (RFC 9002, 5.3). */
static void
measure(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ps_t sample)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_quic_t *quic = &self->quics[packet->flow];
    double rtt = ecc_clock_seconds(sample);
    ecc_ps_t min_rtt = ecc_clock_ps(rtt < flow->min_rtt ? rtt : flow->min_rtt);
    ecc_ps_t reported = ecc_state_ack_info(self, packet)->ack_delay * INT64_C(1000000);
    ecc_ps_t delay = reported < flow->spec->ack_wait ? reported : flow->spec->ack_wait;
    bool is_plausible = sample >= ecc_clock_add(min_rtt, delay); /* in ps: both sides are often equal */
    double path_rtt = flow->srtt > 0.0 && is_plausible ? rtt - ecc_clock_seconds(delay) : rtt;

    if (quic->first_sample == ECC_NEVER) {
        quic->first_sample = self->now;
    }
    ecc_transport_measure(&self->transports[packet->flow], flow, path_rtt);
    ecc_rtt_update(self, packet->flow, rtt, path_rtt);
}

/* Acknowledges data of the stream; returns the bytes that snd_una grows by. */
static int
acknowledge(ecc_engine_t *self, uint32_t index, int64_t begin, int64_t end, int64_t *acked)
{
    ecc_transport_t *transport = &self->transports[index];
    int64_t snd_una = transport->snd_una;

    if (begin > snd_una) {
        return ecc_ranges_add(&transport->sacked, &self->memory, begin, end);
    }
    if (end > snd_una) {
        transport->snd_una = ecc_ranges_skip(&transport->sacked, end);
        transport->lost_below = transport->snd_una;
        transport->high_rxt = transport->snd_una;
        ecc_ranges_drop(&transport->sacked, transport->snd_una);
        *acked += transport->snd_una - snd_una;
    }
    return 0;
}

/* Acknowledges the packets of a range that are in flight; after: bytes of those sent after the recovery began. */
static int
acknowledge_packets(ecc_engine_t *self, uint32_t index, ecc_range_t range, ecc_ack_effect_t *effect, int64_t *after)
{
    ecc_quic_t *quic = &self->quics[index];

    if (range.end > quic->next) {
        return ECC_ERR_BROKEN; /* from a forged checkpoint */
    }
    for (int64_t number = range.begin > quic->first ? range.begin : quic->first; number < range.end; number++) {
        ecc_quic_packet_t *packet = ecc_quic_packet(quic, number);
        int ret;
        if (packet->state == ECC_QUIC_ACKED) {
            continue;
        }
        packet->state = ECC_QUIC_ACKED;
        quic->in_flight -= packet->size;
        effect->delivered += packet->size;
        *after += number >= quic->recovery_from ? packet->size : 0;
        ret = acknowledge(self, index, packet->begin, packet->begin + packet->size, &effect->acked);
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

int
ecc_quic_acks_receive(ecc_engine_t *self, const ecc_packet_t *packet, ecc_ack_effect_t *effect)
{
    ecc_transport_t *transport = &self->transports[packet->flow];
    ecc_quic_t *quic = &self->quics[packet->flow];
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    ecc_sack_t sack = *ecc_sacks_at(&self->sacks, info->sack);
    int64_t after = 0;
    int64_t largest;
    bool is_new;
    int ret = 0;

    *effect = (ecc_ack_effect_t) { 0 };
    transport->recovered = false;
    if (info->sack == ECC_NO_SACK) {
        sack.blocks[0] = (ecc_range_t) { 0, info->front + 1 };
    }
    largest = sack.blocks[0].end - 1;
    is_new = largest >= quic->first && largest < quic->next && ecc_quic_packet(quic, largest)->state != ECC_QUIC_ACKED;
    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS && ret == 0; k++) {
        ret = acknowledge_packets(self, packet->flow, sack.blocks[k], effect, &after);
    }
    if (ret != 0) {
        return ret;
    }
    if (effect->delivered == 0) {
        return 0; /* RFC 9002, A.7: all of it is known */
    }
    quic->largest_acked = largest > quic->largest_acked ? largest : quic->largest_acked;
    quic->n_probes = 0;
    if (is_new) {
        measure(self, packet, self->now - ecc_quic_packet(quic, largest)->sent);
    }
    if (transport->recovering && after > 0) {
        transport->recovering = false;
        transport->recovered = true;
    }
    ret = ecc_quic_find_losses(self, packet->flow, effect);
    transport->retransmit_first = transport->retransmit_first && quic->lost.count > 0;
    effect->reported = transport->recovering || effect->is_persistent ? effect->delivered : after;
    return ret;
}
