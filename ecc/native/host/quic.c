/*
 * QUIC's loss recovery at the sender (RFC 9002; S-211 to S-220): packet numbers are never used again, lost data of the
 * stream is sent in new packets, and losses are found by a packet threshold and a time threshold. A probe timeout does
 * not declare losses: it only asks for ACKs.
 *
 * Not here: what an ACK reports (quic_acks.c, quic_receiver.c), what is common to all transports (transport.c), and
 * when packets leave (sender.c).
 *
 * Invariants (ecc_quic_verify): in_flight is the sum of the packets in flight, of which `first` is the oldest; the
 * first byte of the lost data is not acknowledged.
 */

#include "host/quic.h"

#include <assert.h>
#include <string.h>

#define FIRST_ROOM 16u
#define MAX_ROOM (UINT32_C(1) << 30)
#define GRANULARITY 0.001 /* s, kGranularity */
#define PERSISTENCE 3     /* kPersistentCongestionThreshold */

void
ecc_quic_init(ecc_engine_t *self, uint32_t index)
{
    ecc_quic_t *quic = &self->quics[index];
    ecc_quic_packet_t *items = quic->items;
    uint32_t room = quic->room;
    ecc_ranges_t lost = quic->lost;
    ecc_ranges_t numbers = quic->numbers;

    *quic = (ecc_quic_t) { .items = items,
        .room = room,
        .largest_acked = -1,
        .lost = lost,
        .loss_time = ECC_NEVER,
        .first_sample = ECC_NEVER,
        .lost_since = ECC_NEVER,
        .numbers = numbers };
    ecc_ranges_clear(&quic->lost);
    ecc_ranges_clear(&quic->numbers);
}

void
ecc_quic_free(ecc_quic_t *self, ecc_memory_t *memory)
{
    void *block = self->items;

    ecc_memory_release(memory, self->room * sizeof(*self->items), &block);
    ecc_ranges_free(&self->lost, memory);
    ecc_ranges_free(&self->numbers, memory);
    memset(self, 0, sizeof(*self));
}

int
ecc_quic_append(ecc_quic_t *self, ecc_memory_t *memory, ecc_quic_packet_t packet)
{
    if (self->next - self->first == self->room) {
        uint32_t room = self->room == 0 ? FIRST_ROOM : 2 * self->room;
        void *block = NULL;
        int ret
            = self->room >= MAX_ROOM ? ECC_ERR_TOO_LARGE : ecc_memory_resize(memory, 0, room * sizeof(packet), &block);
        ecc_quic_packet_t *items = block;
        if (ret != 0) {
            return ret;
        }
        for (int64_t number = self->first; number < self->next; number++) {
            items[(uint64_t) number & (room - 1)] = *ecc_quic_packet(self, number);
        }
        block = self->items;
        ecc_memory_release(memory, self->room * sizeof(packet), &block);
        self->items = items;
        self->room = room;
    }
    *ecc_quic_packet(self, self->next++) = packet;
    self->in_flight += packet.state == ECC_QUIC_IN_FLIGHT ? packet.size : 0;
    return 0;
}

/* The packet in flight whose data a probe repeats, or `probe_end` without one. */
static int64_t
repeated(const ecc_quic_t *self)
{
    int64_t number = self->probe > self->first ? self->probe : self->first;

    while (number < self->probe_end && ecc_quic_packet(self, number)->state != ECC_QUIC_IN_FLIGHT) {
        number++;
    }
    return number;
}

ecc_segment_t
ecc_quic_next(const ecc_engine_t *self, uint32_t index, int64_t written)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_transport_t *transport = &self->transports[index];
    const ecc_quic_t *quic = &self->quics[index];
    ecc_segment_t segment;
    int64_t number;

    if (quic->lost.count > 0) {
        const ecc_range_t *lost = ecc_ranges_at(&quic->lost, ecc_ranges_first(&quic->lost));
        int64_t size = ecc_ranges_until(&transport->sacked, lost->begin, lost->end) - lost->begin;
        return (ecc_segment_t) { lost->begin, size < flow->packet_size ? (int32_t) size : flow->packet_size,
            quic->n_probes > 0                ? ECC_RULE_PROBE
                : transport->retransmit_first ? ECC_RULE_FIRST
                                              : ECC_RULE_LOST };
    }
    segment = ecc_transport_new(transport, flow, written);
    if (quic->n_probes > 0) {
        if (segment.size > 0) {
            segment.rule = ECC_RULE_NEW_PROBE;
        } else if ((number = repeated(quic)) < quic->probe_end) {
            const ecc_quic_packet_t *packet = ecc_quic_packet(quic, number);
            segment = (ecc_segment_t) { packet->begin, packet->size, ECC_RULE_PROBE };
        }
    }
    return segment;
}

int
ecc_quic_note_sent(ecc_engine_t *self, uint32_t index, ecc_segment_t segment)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_quic_t *quic = &self->quics[index];
    int64_t end = segment.begin + segment.size;

    if (ecc_transport_is_probe(segment)) {
        quic->n_probes--;
    }
    if (ecc_transport_is_new(segment)) {
        transport->snd_nxt = end;
    } else if (quic->lost.count > 0) {
        transport->retransmit_first = false;
        ecc_ranges_drop(&quic->lost, end);
        ecc_quic_trim_lost(quic, transport);
    } else {
        quic->probe = repeated(quic) + 1;
    }
    return ecc_quic_append(quic, &self->memory, (ecc_quic_packet_t) { segment.begin, self->now, segment.size, 0 });
}

void
ecc_quic_trim_lost(ecc_quic_t *self, const ecc_transport_t *transport)
{
    while (self->lost.count > 0) {
        const ecc_range_t *lost = ecc_ranges_at(&self->lost, ecc_ranges_first(&self->lost));
        int64_t end = lost->end;
        int64_t begin
            = ecc_ranges_skip(&transport->sacked, lost->begin > transport->snd_una ? lost->begin : transport->snd_una);
        if (begin < end) {
            ecc_ranges_drop(&self->lost, begin);
            return;
        }
        ecc_ranges_drop(&self->lost, end);
    }
}

/* 9/8 of the larger of the last and the smoothed RTT (kTimeThreshold; RFC 9002, 6.1.2). */
static ecc_ps_t
loss_delay(const ecc_flow_state_t *flow)
{
    double delay = 1.125 * (flow->rtt > flow->srtt ? flow->rtt : flow->srtt);

    return ecc_clock_ps(delay > GRANULARITY ? delay : GRANULARITY);
}

ecc_ps_t
ecc_quic_probe_timeout(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    double spread = 4.0 * self->transports[index].rttvar;

    return ecc_clock_add(
        ecc_clock_ps(flow->srtt + (spread > GRANULARITY ? spread : GRANULARITY)), flow->spec->ack_wait);
}

void
ecc_quic_begin_recovery(ecc_engine_t *self, uint32_t index)
{
    self->transports[index].recovering = true;
    self->quics[index].recovery_from = self->quics[index].next;
}

/* S-218, S-220: the oldest packet in flight is lost; span: maximum time between the first and last EMIT of a run. */
static int
lose(ecc_engine_t *self, uint32_t index, ecc_ps_t *span)
{
    ecc_quic_t *quic = &self->quics[index];
    const ecc_quic_packet_t *packet = ecc_quic_packet(quic, quic->first);

    quic->in_flight -= packet->size;
    if (packet->sent > quic->first_sample) {
        quic->lost_since = quic->lost_since < ECC_NEVER ? quic->lost_since : packet->sent;
        *span = packet->sent - quic->lost_since > *span ? packet->sent - quic->lost_since : *span;
    }
    return ecc_ranges_add(&quic->lost, &self->memory, packet->begin, packet->begin + packet->size);
}

int
ecc_quic_find_losses(ecc_engine_t *self, uint32_t index, ecc_ack_effect_t *effect)
{
    ecc_transport_t *transport = &self->transports[index];
    ecc_quic_t *quic = &self->quics[index];
    ecc_ps_t delay = loss_delay(&self->flows[index]);
    ecc_ps_t span = 0;
    int64_t newest = -1;

    quic->loss_time = ECC_NEVER;
    for (; quic->first <= quic->largest_acked; quic->first++) {
        const ecc_quic_packet_t *packet = ecc_quic_packet(quic, quic->first);
        ecc_ps_t due = ecc_clock_add(packet->sent, delay);
        int ret;
        if (packet->state == ECC_QUIC_ACKED) {
            quic->lost_since = ECC_NEVER;
            continue;
        }
        if (quic->largest_acked - quic->first < transport->dup_thresh && due > self->now) {
            quic->loss_time = due;
            break; /* all later packets were sent later, too */
        }
        newest = quic->first;
        ret = lose(self, index, &span);
        if (ret != 0) {
            return ret;
        }
    }
    ecc_quic_trim_lost(quic, transport);
    if (newest < 0) {
        return 0;
    }
    effect->finds_loss = true;
    if (newest >= quic->recovery_from) {
        effect->begins_recovery = true;
        transport->recovered = false;
        transport->retransmit_first = quic->lost.count > 0;
        ecc_quic_begin_recovery(self, index);
    }
    if (span / PERSISTENCE > ecc_quic_probe_timeout(self, index)) {
        effect->is_persistent = true;
        quic->lost_since = ECC_NEVER;
        quic->recovery_from = 0;
    }
    return 0;
}

void
ecc_quic_request_probes(ecc_quic_t *self)
{
    self->n_probes = ECC_QUIC_PROBES;
    self->probe = self->first;
    self->probe_end = self->next;
}

/* Whether the packets that are not yet acknowledged or lost are consistent. */
static bool
packets_are_valid(const ecc_quic_t *self, const ecc_transport_t *transport, ecc_ps_t now)
{
    int64_t in_flight = 0;
    ecc_ps_t last = -ECC_NEVER;
    bool valid = self->next - self->first <= self->room;

    for (int64_t number = self->first; number < self->next && valid; number++) {
        const ecc_quic_packet_t *packet = ecc_quic_packet(self, number);
        bool is_in_flight = packet->state == ECC_QUIC_IN_FLIGHT;
        valid = packet->size > 0 && packet->begin >= 0 && packet->begin + packet->size <= transport->snd_nxt
            && packet->sent >= last && packet->sent <= now && (is_in_flight || number > self->first)
            && (is_in_flight || number <= self->largest_acked);
        last = packet->sent;
        in_flight += is_in_flight ? packet->size : 0;
    }
    return valid && in_flight == self->in_flight;
}

static bool
sender_is_valid(const ecc_quic_t *self, const ecc_transport_t *transport, ecc_ps_t now)
{
    const ecc_range_t *lost = self->lost.count > 0 ? ecc_ranges_at(&self->lost, ecc_ranges_first(&self->lost)) : NULL;

    return self->first >= 0 && self->first <= self->next && packets_are_valid(self, transport, now)
        && transport->lost_below == transport->snd_una && transport->high_rxt == transport->snd_una
        && self->largest_acked < self->next && self->recovery_from <= self->next && self->probe_end <= self->next
        && self->n_probes <= ECC_QUIC_PROBES && ecc_ranges_verify(&self->lost) == 0
        && (lost == NULL
            || (lost->begin >= transport->snd_una && ecc_ranges_skip(&transport->sacked, lost->begin) == lost->begin
                && ecc_ranges_at(&self->lost, ecc_ranges_last(&self->lost))->end <= transport->snd_nxt))
        && (!transport->retransmit_first || lost != NULL);
}

static bool
receiver_is_valid(const ecc_quic_t *self)
{
    const ecc_ranges_t *numbers = &self->numbers;
    bool valid = ecc_ranges_verify(numbers) == 0
        && (numbers->count == 0 || ecc_ranges_at(numbers, ecc_ranges_first(numbers))->begin >= 0);

    for (uint32_t k = 0; k < self->n_recent && valid; k++) {
        uint32_t range = ecc_ranges_find(numbers, self->recent[k]);
        valid = range != ECC_NO_RANGE && ecc_ranges_contains(numbers, range, self->recent[k]);
    }
    return valid;
}

int
ecc_quic_verify(const ecc_quic_t *self, const ecc_transport_t *transport, ecc_ps_t now, bool sends, bool receives)
{
    const ecc_ranges_t *numbers = &self->numbers;
    bool valid = (!sends || sender_is_valid(self, transport, now)) && (!receives || receiver_is_valid(self));

    valid = valid
        && (!sends || !receives || numbers->count == 0
            || ecc_ranges_at(numbers, ecc_ranges_last(numbers))->end <= self->next);
    return valid ? 0 : ECC_ERR_BROKEN;
}
