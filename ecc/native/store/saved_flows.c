/* Flows in a checkpoint: counters first, then the lists of packets, which the counters bound. */

#include "store/saved_flows.h"

#include <math.h>

#include "core/config.h"
#include "core/cut.h"
#include "host/alarms.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/receiver.h"
#include "host/segments.h"
#include "host/sender.h"
#include "host/transport.h"
#include "store/lists.h"
#include "store/saved_links.h"

static void
move_ranges(ecc_archive_t *archive, ecc_engine_t *self, ecc_ranges_t *ranges)
{
    uint32_t count = ecc_archive_count(archive, ranges->count, sizeof(ecc_range_t));
    uint32_t id = ecc_ranges_first(ranges);
    int64_t least = INT64_MIN;

    if (ecc_archive_reads(archive)) {
        ecc_ranges_clear(ranges);
    }
    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_range_t range = ecc_archive_writes(archive) ? *ecc_ranges_at(ranges, id) : (ecc_range_t) { 0 };
        ECC_ARCHIVE_MOVE(archive, range);
        ecc_archive_require(archive, range.begin > least && range.begin < range.end);
        if (ecc_archive_reads(archive)) {
            archive->ret = ecc_ranges_add(ranges, &self->memory, range.begin, range.end);
        } else if (archive->ret == 0) {
            id = ecc_ranges_next(ranges, id);
        }
        least = range.end;
    }
}

static void
move_transport(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];

    transport->snd_una = flow->expected - flow->lost;
    transport->snd_nxt = flow->sent - flow->lost;
    ecc_archive_whole(archive, &transport->lost_below, transport->snd_una, transport->snd_nxt);
    ecc_archive_whole(archive, &transport->high_rxt, transport->snd_una, transport->snd_nxt);
    ecc_archive_whole(archive, &transport->recovery_point, 0, transport->snd_nxt + 1);
    ecc_archive_whole(archive, &transport->rescue_rxt, 0, transport->snd_nxt + 1);
    ecc_archive_whole(archive, &transport->flight_end, 0, transport->snd_nxt);
    ecc_archive_whole(archive, &transport->pipe_credit, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &transport->receiver_window, 0, INT64_MAX);
    ecc_archive_real(archive, &transport->rttvar);
    if (!flow->has_rack) {
        move_ranges(archive, self, &transport->sacked);
    }
    move_ranges(archive, self, &transport->held);
    ecc_archive_byte(archive, &transport->n_recent, ECC_MAX_SACK_BLOCKS);
    ecc_archive_byte(archive, &transport->n_dup_acks, transport->dup_thresh);
    transport->had_partial_ack = ecc_archive_flag(archive, transport->had_partial_ack);
    transport->recovering = ecc_archive_flag(archive, transport->recovering);
    transport->retransmit_first = ecc_archive_flag(archive, transport->retransmit_first);
    for (uint32_t k = 0; k < ECC_MAX_SACK_BLOCKS; k++) {
        ECC_ARCHIVE_MOVE(archive, transport->recent[k]);
        transport->recent_ranges[k] = ecc_ranges_find(&transport->held, transport->recent[k]);
    }
    ecc_archive_require(archive,
        archive->ret == 0
            && ecc_transport_verify(transport, flow, ecc_cut_has_sender(self, index), ecc_cut_has_receiver(self, index))
                == 0);
}

/* The list of outstanding segments and the heap of lost ones follow from the segments. */
static void
move_segments(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    uint32_t count = ecc_archive_count(archive, rack->count, 3 * sizeof(int64_t) + sizeof(int32_t) + 4);
    int64_t begin = self->transports[index].snd_una;

    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_sent_t segment = ecc_archive_writes(archive) ? *ecc_segments_in_place(rack, k) : (ecc_sent_t) { 0 };
        ecc_archive_whole(archive, &segment.begin, begin, begin);
        ecc_archive_whole(archive, &segment.sent, -ECC_NEVER, self->now);
        ecc_archive_whole(archive, &segment.order, 0, rack->n_transmissions - 1);
        ecc_archive_int(archive, &segment.size, 1, ECC_MAX_PACKET_SIZE);
        ecc_archive_byte(archive, &segment.state, ECC_SENT_SACKED);
        ecc_archive_byte(archive, &segment.probes, segment.state == ECC_SENT_OUTSTANDING);
        segment.was_repeated = ecc_archive_flag(archive, segment.was_repeated);
        segment.is_repair = ecc_archive_flag(archive, segment.is_repair);
        begin += segment.size;
        if (ecc_archive_reads(archive)) {
            archive->ret = ecc_segments_append(rack, &self->memory, segment);
        }
    }
    ecc_archive_require(archive, !ecc_archive_reads(archive) || ecc_segments_index(rack) == 0);
}

static void
move_pacer(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_pacer_t *pacer = &self->pacers[index];

    ECC_ARCHIVE_MOVE(archive, pacer->credit);
    ecc_archive_require(
        archive, isfinite(pacer->credit) && pacer->credit <= (double) self->flows[index].spec->pacing_burst);
    ecc_archive_whole(archive, &pacer->at, 0, self->now);
}

static void
move_prr(ecc_archive_t *archive, ecc_prr_t *prr, const ecc_transport_t *transport)
{
    bool reduces;

    ecc_archive_whole(archive, &prr->until, 0, ECC_ARCHIVE_MAX);
    reduces = transport->recovering || transport->snd_una < prr->until;
    ecc_archive_whole(archive, &prr->delivered, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &prr->out, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &prr->recover_fs, reduces, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &prr->credit, -ECC_ARCHIVE_MAX, ECC_ARCHIVE_MAX);
}

static void
move_rack(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    const ecc_transport_t *transport = &self->transports[index];
    int64_t most = ecc_cut_has_sender(self, index) ? transport->snd_nxt : 0;

    ecc_archive_whole(archive, &rack->n_transmissions, 0, ECC_ARCHIVE_MAX);
    move_segments(archive, self, index);
    ecc_archive_int(archive, &rack->multiplier, 1, INT32_MAX);
    ecc_archive_int(archive, &rack->persists, 0, INT32_MAX);
    ecc_archive_whole(archive, &rack->dsack_round, -1, most);
    ecc_archive_whole(archive, &rack->order, -1, rack->n_transmissions - 1);
    ecc_archive_whole(archive, &rack->responded, 0, rack->n_transmissions);
    ecc_archive_whole(archive, &rack->rtt, 0, ECC_NEVER);
    ecc_archive_whole(archive, &rack->window, 0, ECC_NEVER);
    ecc_archive_whole(archive, &rack->fack, 0, most);
    ecc_archive_whole(archive, &rack->probe_end, -1, most);
    ecc_archive_byte(archive, &rack->awaits, ECC_AWAITS_PROBE);
    ecc_archive_whole(archive, &rack->wait_until, 0, ECC_NEVER);
    ecc_archive_require(
        archive, rack->awaits == ECC_AWAITS_NOTHING || rack->wait_until >= self->now || !self->flows[index].active);
    ecc_archive_whole(archive, &rack->undo_from, 0, most);
    ecc_archive_whole(archive, &rack->first_retransmission, 0, ECC_NEVER);
    ecc_archive_whole(archive, &rack->not_duplicated, -ECC_ARCHIVE_MAX, ECC_ARCHIVE_MAX);
    rack->has_reordering = ecc_archive_flag(archive, rack->has_reordering);
    rack->timed_out = ecc_archive_flag(archive, rack->timed_out);
    rack->probe_is_copy = ecc_archive_flag(archive, rack->probe_is_copy);
    rack->wants_probe = ecc_archive_flag(archive, rack->wants_probe);
    rack->may_undo = ecc_archive_flag(archive, rack->may_undo);
    rack->by_timeout = ecc_archive_flag(archive, rack->by_timeout);
    ecc_archive_require(archive,
        archive->ret == 0 && (most == 0 || ecc_rack_verify(self, index, ecc_cut_has_receiver(self, index)) == 0));
}

/* Moves the packets that are not yet acknowledged or lost; bytes in flight follow from them. */
static void
move_quic_packets(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_quic_t *quic = &self->quics[index];
    uint32_t count = ecc_archive_count(archive, (size_t) (quic->next - quic->first), 2 * sizeof(int64_t) + 5);

    ecc_archive_whole(archive, &quic->first, 0, ECC_ARCHIVE_MAX);
    if (ecc_archive_reads(archive)) {
        quic->next = quic->first;
        quic->in_flight = 0;
    }
    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_quic_packet_t packet
            = ecc_archive_writes(archive) ? *ecc_quic_packet(quic, quic->first + k) : (ecc_quic_packet_t) { 0 };
        ecc_archive_whole(archive, &packet.begin, 0, ECC_ARCHIVE_MAX);
        ecc_archive_whole(archive, &packet.sent, -ECC_NEVER, self->now);
        ecc_archive_int(archive, &packet.size, 1, ECC_MAX_PACKET_SIZE);
        ecc_archive_byte(archive, &packet.state, ECC_QUIC_ACKED);
        if (ecc_archive_reads(archive) && archive->ret == 0) {
            archive->ret = ecc_quic_append(quic, &self->memory, packet);
        }
    }
}

static void
move_quic(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_quic_t *quic = &self->quics[index];
    int64_t most;

    move_quic_packets(archive, self, index);
    most = quic->next;
    ecc_archive_whole(archive, &quic->largest_acked, -1, most - 1);
    ecc_archive_whole(archive, &quic->recovery_from, 0, most);
    ecc_archive_whole(archive, &quic->probe, 0, most);
    ecc_archive_whole(archive, &quic->probe_end, 0, most);
    ecc_archive_whole(archive, &quic->loss_time, 0, ECC_NEVER);
    ecc_archive_whole(archive, &quic->first_sample, 0, ECC_NEVER);
    ecc_archive_whole(archive, &quic->lost_since, 0, ECC_NEVER);
    ecc_archive_byte(archive, &quic->n_probes, ECC_QUIC_PROBES);
    move_ranges(archive, self, &quic->lost);
    move_ranges(archive, self, &quic->numbers);
    ecc_archive_whole(archive, &quic->largest_at, 0, self->now);
    ecc_archive_byte(archive, &quic->n_recent, ECC_MAX_SACK_BLOCKS);
    for (uint32_t k = 0; k < quic->n_recent && archive->ret == 0; k++) {
        ECC_ARCHIVE_MOVE(archive, quic->recent[k]);
    }
    ecc_archive_require(archive,
        archive->ret == 0
            && ecc_quic_verify(quic, &self->transports[index], self->now, ecc_cut_has_sender(self, index),
                   ecc_cut_has_receiver(self, index))
                == 0);
}

static void
move_receiver(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_receiver_t *receiver = &self->receivers[index];
    bool has_kept = ecc_archive_flag(archive, receiver->delayed != ECC_NO_PACKET);
    int64_t most = ecc_cut_most_sent(self, index);
    /* Retransmissions may be marked, too. */
    int64_t most_marked = ecc_cut_has_sender(self, index) ? flow->sent : ECC_ARCHIVE_MAX;

    ecc_archive_whole(archive, &receiver->next, 0, most);
    ecc_archive_whole(archive, &receiver->front, 0, receiver->next);
    ecc_archive_whole(archive, &receiver->missing, 0, receiver->front);
    ecc_archive_whole(archive, &receiver->sender_base, 0, flow->sent);
    ecc_archive_whole(archive, &receiver->sender_missing, 0, flow->sent);
    ecc_archive_whole(archive, &receiver->acks_lost, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &receiver->n_delayed, has_kept, has_kept ? flow->spec->ack_every - 1 : 0);
    ecc_archive_whole(archive, &receiver->marked, 0, flow->can_be_marked ? most_marked : 0);
    ecc_archive_whole(
        archive, &receiver->sender_marked, 0, ecc_cut_has_receiver(self, index) ? receiver->marked : ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &receiver->answered, 0, most);
    receiver->has_marks = ecc_archive_flag(archive, receiver->has_marks);
    receiver->was_marked = ecc_archive_flag(archive, receiver->was_marked);
    receiver->owes_answer = ecc_archive_flag(archive, receiver->owes_answer);
    ECC_ARCHIVE_MOVE(archive, receiver->n_holes);
    ecc_archive_require(archive, receiver->n_holes <= receiver->reordering_threshold);
    for (uint32_t k = 0; k < receiver->n_holes && archive->ret == 0; k++) {
        ECC_ARCHIVE_MOVE(archive, ecc_receiver_holes(self, index)[k]);
    }
    ecc_archive_require(archive, archive->ret == 0 && ecc_receiver_verify(self, index) == 0);
    ecc_archive_node(archive, self->now, &self->slow, self->base[ECC_EVENT_FLUSH] + index, has_kept);
    if (has_kept && archive->ret == 0) {
        uint32_t position = flow->position + (uint32_t) flow->spec->n_forward - 1;
        ecc_archive_require(archive, ecc_calendar_pending(&self->slow, self->base[ECC_EVENT_FLUSH] + index));
        receiver->delayed = ecc_lists_packet(archive, self, index, receiver->delayed, position, ECC_LISTS_DELAYED);
    }
}

/* TIMER follows from the timers. */
static void
move_alarms(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_alarms_t *alarms = &self->alarms[index];
    bool has_timers = flow->active && ecc_alarms_has_timers(flow->spec);
    int64_t n_timers = 0;

    if (has_timers && flow->spec->on_timer != NULL) {
        n_timers = flow->spec->n_timers > 1 ? flow->spec->n_timers : 1;
    }
    for (int64_t k = 0; k < n_timers; k++) {
        ecc_archive_whole(archive, &alarms->timers[k], self->now, ECC_NEVER);
    }
    if (has_timers && flow->spec->on_report != NULL) {
        ecc_archive_whole(archive, &alarms->timers[ECC_REPORT_TIMER], self->now, ECC_NEVER);
    }
    if (flow->active && flow->spec->on_count != NULL) {
        ecc_archive_whole(archive, &alarms->count, 0, INT64_MAX);
    }
    if (has_timers && ecc_archive_reads(archive)) {
        ecc_alarms_schedule(self, index);
    }
}

/* Moves the counters of bytes sent, acknowledged and lost. */
static void
move_counters(ecc_archive_t *archive, const ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    const ecc_flow_t *spec = flow->spec;
    uint8_t limited_by = flow->limited_by;
    bool opening;

    ecc_archive_whole(archive, &flow->sent, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &flow->expected, 0, flow->sent);
    ecc_archive_whole(archive, &flow->lost, 0, flow->expected);
    ecc_archive_whole(archive, &flow->received, 0, ecc_cut_has_sender(self, index) ? flow->sent : ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &flow->last_sent_at, -ECC_NEVER, self->now);
    ecc_archive_whole(archive, &flow->timer_start, 0, self->now);
    ecc_archive_int(archive, &flow->last_size, 0, ECC_MAX_PACKET_SIZE + ECC_MAX_HEADER_BYTES);
    ecc_archive_int(
        archive, &flow->full_size, spec->packet_size, flow->draws_sizes ? spec->packet_size_max : spec->packet_size);
    ecc_archive_byte(archive, &flow->n_timeouts, flow->has_quic ? ECC_MAX_PROBE_BACKOFFS : ECC_MAX_BACKOFFS);
    ecc_archive_byte(archive, &limited_by, ECC_LIMIT_PACER);
    flow->limited_by = limited_by & 3u;
    ecc_archive_byte(archive, &flow->n_zero_waits, ECC_MAX_ZERO_WAITS - 1);
    ecc_archive_real(archive, &flow->rate);
    ecc_archive_real(archive, &flow->window);
    ecc_archive_real(archive, &flow->rtt);
    ecc_archive_real(archive, &flow->srtt);
    ecc_archive_real(archive, &flow->min_rtt);
    if (index < self->n_rtts) {
        ecc_archive_real(archive, &self->rtts[index].sum);
        ecc_archive_real(archive, &self->rtts[index].peak);
        ecc_archive_whole(archive, &self->rtts[index].count, 0, ECC_ARCHIVE_MAX);
    }
    ECC_ARCHIVE_MOVE(archive, flow->random);
    ECC_ARCHIVE_MOVE(archive, flow->random_sizes);
    if (ecc_archive_reads(archive)) {
        opening = flow->srtt == 0.0 && spec->opening_size > 0;
        flow->packet_size = opening ? (int32_t) spec->opening_size : flow->full_size;
        flow->pacing_gap = flow->last_size > 0 && flow->rate > 0.0 ? ecc_clock_tx(flow->last_size, flow->rate) : 0;
    }
}

/* S-33: the packets with immediate ACKs that have been received follow from the time. */
static void
count_immediate_acks(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t time = self->fast.nodes[self->base[ECC_EVENT_ACK] + index].time;

    for (uint32_t id = flow->acks.head; id != ECC_NO_PACKET && time - flow->ack_delay <= self->now;) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        flow->last_counted = id;
        id = packet->next;
        time = packet->next_time;
    }
}

/* A flow of the network, or a transfer in its slot. */
void
ecc_saved_flows_move(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    bool is_transfer = index >= self->n_flows;
    bool is_here = ecc_cut_has_sender(self, index);
    bool started = ecc_archive_flag(archive, flow->started);

    ecc_archive_require(
        archive, is_here ? started || (!is_transfer && flow->spec->start >= self->now) : started == is_transfer);
    if ((is_here && !started) || archive->ret != 0) {
        return;
    }
    if (ecc_archive_reads(archive) && !is_transfer) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_START] + index);
    }
    flow->started = started;
    flow->active = ecc_archive_flag(archive, flow->active);
    flow->completed = ecc_archive_flag(archive, flow->completed);
    ecc_archive_whole(archive, &flow->finish, -1, self->now);
    ecc_archive_require(archive, flow->active == (is_here && flow->finish == -1) && !(flow->active && flow->completed));
    move_counters(archive, self, index);
    ecc_archive_node(archive, self->now, &self->fast, self->base[ECC_EVENT_SEND] + index, flow->active);
    ecc_archive_node(
        archive, self->now, &self->slow, self->base[ECC_EVENT_TIMEOUT] + index, is_transfer ? flow->active : is_here);
    if (self->wants_stops) {
        ecc_archive_node(archive, self->now, &self->slow, self->base[ECC_EVENT_STOP] + index, flow->active);
    }
    if (self->wants_timers && !ecc_alarms_has_timers(flow->spec)) {
        ecc_archive_node(archive, self->now, &self->slow, self->base[ECC_EVENT_TIMER] + index,
            flow->active && flow->spec->on_timer != NULL);
    }
    if (flow->has_alarms) {
        move_alarms(archive, self, index);
    }
    flow->timeout_pending = ecc_calendar_pending(&self->slow, self->base[ECC_EVENT_TIMEOUT] + index);
    if (ecc_archive_reads(archive)) {
        archive->arrived[index] = flow->received;
    }
    if (flow->jitters) {
        ecc_saved_links_move_phase(archive, &self->phases[index]);
    }
    if (flow->sprays) {
        ECC_ARCHIVE_MOVE(archive, self->sprays[index].random);
        ecc_archive_index(archive, &self->sprays[index].next, (uint32_t) flow->spec->n_alternatives + 1);
    }
    if (flow->reliable && archive->ret == 0) {
        move_transport(archive, self, index);
    }
    if (flow->has_rack && archive->ret == 0) {
        move_rack(archive, self, index);
    }
    if (flow->has_quic && archive->ret == 0) {
        move_quic(archive, self, index);
    }
    if (flow->paces && archive->ret == 0) {
        move_pacer(archive, self, index);
    }
    if (flow->uses_prr && archive->ret == 0) {
        move_prr(archive, &self->prrs[index], &self->transports[index]);
    }
    if (flow->needs_receiver && archive->ret == 0) {
        move_receiver(archive, self, index);
    }
    ecc_lists_channel(archive, self, ECC_LISTS_ACCESS, index, &flow->access, NULL);
    ecc_lists_channel(archive, self, ECC_LISTS_ACKS, index, &flow->acks,
        flow->spec->impairment > 0 ? &self->receivers[index].channel : NULL);
    if (ecc_archive_reads(archive) && flow->immediate_ack) {
        count_immediate_acks(self, index);
    }
}

/* S-224: the flow of a monitor must be the same, and the RTTs are those of the interval so far. */
void
ecc_saved_flows_move_monitor(ecc_archive_t *archive, ecc_engine_t *self, ecc_monitor_t *monitor)
{
    const ecc_flow_state_t *flow = &self->flows[monitor->flow];
    uint32_t index = monitor->flow;
    void *block = monitor->rtts;
    uint32_t n;

    ecc_archive_index(archive, &index, self->n_flows);
    ecc_archive_require(archive, index == monitor->flow);
    ecc_archive_whole(archive, &monitor->since, 0, self->now);
    ecc_archive_whole(archive, &monitor->sent, 0, flow->sent);
    ecc_archive_whole(archive, &monitor->delivered, 0, flow->expected - flow->lost);
    ecc_archive_whole(archive, &monitor->lost, 0, flow->lost);
    n = ecc_archive_count(archive, monitor->n_rtts, sizeof(double));
    ecc_archive_make_room(archive, &self->memory, sizeof(double), n, &monitor->room, &block);
    monitor->rtts = block;
    for (uint32_t k = 0; k < n && archive->ret == 0; k++) {
        ecc_archive_real(archive, &monitor->rtts[k]);
    }
    if (ecc_archive_reads(archive)) {
        monitor->n_rtts = n;
    }
}
