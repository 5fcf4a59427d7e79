/*
 * The state of an engine as bytes, and back into a new engine of the same configuration. One pass does either, so that
 * both agree. Only what cannot be derived is stored: no pointer, no index of a packet, no link of a list, nothing that
 * follows from the configuration. Most wrong states can therefore not be expressed; the rest is checked. Records and
 * arrays of the caller are the caller's to keep.
 *
 * The order is fixed: layout, clock, flows, transfers, routers; within a flow its counters, then its lists of packets.
 * Packets on links come after their flows, whose counters bound them.
 */

#include "store/checkpoint.h"

#include <math.h>
#include <string.h>

#include "core/archive.h"
#include "core/config.h"
#include "core/cut.h"
#include "link/pause.h"
#include "link/phase.h"
#include "link/scheduler.h"
#include "link/server.h"
#include "host/alarms.h"
#include "host/rack.h"
#include "host/receiver.h"
#include "host/sender.h"
#include "host/tables.h"
#include "host/transfers.h"
#include "host/transport.h"
#include "store/lists.h"
#include "store/verify.h"

#define MAX_SIZE (ECC_MAX_PACKET_SIZE + ECC_MAX_HEADER_BYTES) /* of a packet on a link */

/* ---- links ---- */

/* What queues have dropped and marked, which of them will have a turn, and what they may send in it. */
static void
move_queues(ecc_archive_t *archive, ecc_link_state_t *link)
{
    for (uint32_t k = 0; k < link->n_queues; k++) {
        ecc_queue_t *queue = &link->queues[k];
        ecc_archive_whole(archive, &queue->deficit, -MAX_SIZE, queue->quantum + MAX_SIZE);
        ecc_archive_whole(archive, &queue->dropped, 0, ECC_ARCHIVE_MAX);
        ecc_archive_whole(archive, &queue->marked, 0, ECC_ARCHIVE_MAX);
        queue->is_active = queue->is_active && !ecc_archive_reads(archive);
    }
    for (int round = 0; round < ECC_N_ROUNDS; round++) {
        uint32_t k = link->n_queues > 0 ? link->rounds[round].head : ECC_NO_PACKET;
        uint32_t count = 0;
        for (uint32_t each = k; each != ECC_NO_PACKET; each = link->queues[each].next) {
            count++;
        }
        count = link->n_queues > 0 ? ecc_archive_count(archive, count, sizeof(k)) : 0;
        ecc_archive_require(archive,
            count == 0 || link->spec.scheduler == ECC_SCHEDULER_FQ
                || (link->spec.scheduler == ECC_SCHEDULER_DRR && round == ECC_ROUND_OLD));
        if (ecc_archive_reads(archive)) {
            link->rounds[round] = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
        }
        for (; count > 0 && archive->ret == 0; count--) {
            ecc_archive_index(archive, &k, link->n_queues);
            if (ecc_archive_reads(archive)) {
                ecc_archive_require(archive, !link->queues[k].is_active);
                ecc_scheduler_activate(link, k, (enum ecc_round) round);
            } else if (archive->ret == 0) {
                k = link->queues[k].next;
            }
        }
    }
}

static void
move_server(ecc_archive_t *archive, ecc_server_state_t *server)
{
    uint32_t n = (uint32_t) server->spec.n_opportunities;

    ecc_archive_whole(archive, &server->done, 0, ECC_NEVER);
    ecc_archive_whole(archive, &server->full_at, 0, ECC_NEVER);
    ecc_archive_whole(archive, &server->base, 0, ECC_NEVER);
    ecc_archive_index(archive, &server->next, n > 0 ? n : 1);
    ecc_archive_whole(archive, &server->opportunity, 0, ECC_NEVER);
    ecc_archive_whole(archive, &server->left, 0, n > 0 ? server->spec.opportunity : 0);
    ECC_ARCHIVE_MOVE(archive, server->random);
    ecc_lists_slots(archive, &server->slots);
}

static void
move_link(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_server_state_t *server = ecc_server_of(self, index);

    ecc_lists_queue(archive, self, index);
    for (uint32_t k = 0; k < link->n_queues; k++) {
        ecc_lists_waiting(archive, self, index, k);
    }
    move_queues(archive, link);
    ecc_lists_channel(archive, self, ECC_LISTS_WIRE, index, &link->wire, link->channel);
    if (server != NULL) {
        move_server(archive, server);
    }
    ecc_archive_whole(archive, &link->queue_peak, link->queue, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &link->arrived, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &link->dropped, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &link->dropped_bytes, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &link->marked, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &link->lost, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &link->lost_bytes, 0, ECC_ARCHIVE_MAX);
    ECC_ARCHIVE_MOVE(archive, link->area);
    ecc_archive_require(archive, link->area >= 0 && link->area <= (ecc_wide_t) ECC_ARCHIVE_MAX * ECC_NEVER);
    if (ecc_archive_reads(archive)) {
        link->measured_until = link->measures_queue ? self->now : 0;
        ECC_DEBUG(link->count.departed_bytes = link->arrived - link->dropped_bytes - link->queue);
        ECC_DEBUG(link->count.arrived = link->dropped + (int64_t) link->ring.count + link->n_waiting);
    }
}

/* What PFC knows of a link, after the queues of all: frames that have come, but were not looked at, included. */
static void
move_pause(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_pause_t *pause = &self->pauses[index];
    uint32_t count = ecc_archive_count(archive, pause->frames.count, sizeof(ecc_queued_t) / 2);
    ecc_ps_t last = 0;

    for (uint32_t priority = 0; priority < ECC_N_PRIORITIES; priority++) {
        ecc_pause_class_t *class = &pause->classes[priority];
        ecc_archive_whole(archive, &class->held, 0, ECC_ARCHIVE_MAX);
        ecc_archive_whole(archive, &class->since, 0, self->now);
        ecc_archive_whole(archive, &class->time, 0, self->now);
        ecc_archive_whole(archive, &class->count, 0, ECC_ARCHIVE_MAX);
        class->asked = ecc_archive_flag(archive, class->asked);
        class->is_paused = ecc_archive_flag(archive, class->is_paused);
    }
    for (uint32_t k = 0; k < count && archive->ret == 0; k++) {
        ecc_queued_t frame = ecc_archive_writes(archive) ? *ecc_ring_at(&pause->frames, k) : (ecc_queued_t) { 0 };
        ecc_archive_whole(archive, &frame.leaves, last, ECC_NEVER);
        ecc_archive_index(archive, &frame.of, ECC_N_PRIORITIES);
        ecc_archive_int(archive, &frame.size, 0, 1);
        last = frame.leaves;
        if (ecc_archive_reads(archive)) {
            archive->ret = ecc_ring_append(&pause->frames, &self->memory, frame);
        }
    }
    if (ecc_archive_reads(archive)) {
        ecc_pause_await(self, index);
    }
}

static void
move_phase(ecc_archive_t *archive, ecc_phase_t *phase)
{
    ECC_ARCHIVE_MOVE(archive, phase->random);
    ecc_archive_real(archive, &phase->offset);
    ecc_archive_real(archive, &phase->stretch);
    ecc_archive_whole(archive, &phase->packet_time, 0, ECC_NEVER);
    ecc_archive_index(archive, &phase->n, ECC_PHASE_PACKETS + 1);
    ecc_archive_require(archive, phase->offset < 1.0 && phase->stretch < 2.0);
}

static void
move_routers(ecc_archive_t *archive, ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_routers && archive->ret == 0; i++) {
        ecc_link_state_t *router = &self->links[i];
        if (i < self->n_links) {
            move_link(archive, self, i);
            if (router->spec.phase_jitter != 0) {
                move_phase(archive, &self->link_phases[i]);
            }
        }
        ecc_archive_whole(archive, &router->queue_low, 0, self->links[router->spec.at].queue);
        ECC_ARCHIVE_MOVE(archive, router->random);
        ECC_ARCHIVE_MOVE(archive, router->next_interval);
        ecc_archive_require(archive, !isnan(router->next_interval));
        ecc_archive_index(archive, &router->n_zero_waits, ECC_MAX_ZERO_WAITS);
        ecc_archive_node(
            archive, self->now, &self->slow, self->base[ECC_EVENT_INTERVAL] + i, self->stop != ECC_STOP_NOT_YET);
    }
}

/* ---- flows ---- */

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
    move_ranges(archive, self, &transport->sacked);
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
        ecc_sent_t segment = ecc_archive_writes(archive) ? *ecc_rack_at(rack, k) : (ecc_sent_t) { 0 };
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
            archive->ret = ecc_rack_append(rack, &self->memory, segment);
        }
    }
    ecc_archive_require(archive, !ecc_archive_reads(archive) || ecc_rack_index(rack) == 0);
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
    ecc_archive_require(archive, archive->ret == 0 && (most == 0 || ecc_rack_verify(rack, transport, self->now) == 0));
}

static void
move_receiver(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_receiver_t *receiver = &self->receivers[index];
    bool has_kept = ecc_archive_flag(archive, receiver->delayed != ECC_NO_PACKET);
    int64_t most = ecc_cut_most_sent(self, index);
    int64_t most_marked = ecc_cut_has_sender(self, index) ? flow->sent : ECC_ARCHIVE_MAX; /* retransmissions are, too */

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
    int64_t n_timers = flow->active && ecc_alarms_has_timers(flow->spec) ? flow->spec->n_timers : 0;

    for (int64_t k = 0; k < n_timers; k++) {
        ecc_archive_whole(archive, &alarms->timers[k], self->now, ECC_NEVER);
    }
    if (flow->active && flow->spec->on_count != NULL) {
        ecc_archive_whole(archive, &alarms->count, 0, INT64_MAX);
    }
    if (n_timers > 0 && ecc_archive_reads(archive)) {
        ecc_alarms_schedule(self, index);
    }
}

/* What has been sent so far, and what has become of it. */
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
    ecc_archive_byte(archive, &flow->n_timeouts, ECC_MAX_BACKOFFS);
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

/* S-33: which packets with immediate ACKs have been received follows from the time. */
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
static void
move_flow(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
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
        move_phase(archive, &self->phases[index]);
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

/* ---- transfers ---- */

/* Subsequent transfers, from this entry on. */
static void
move_chain(ecc_archive_t *archive, const ecc_transfers_t *transfers, uint32_t entry)
{
    for (; entry != ECC_NO_SUBSEQUENT; entry = transfers->linked[entry].subsequent) {
        ECC_ARCHIVE_MOVE(archive, transfers->linked[entry].spec);
    }
}

static uint32_t
chain_length(const ecc_transfers_t *transfers, uint32_t entry)
{
    uint32_t n = 0;

    for (; entry != ECC_NO_SUBSEQUENT; entry = transfers->linked[entry].subsequent) {
        n++;
    }
    return n;
}

/* Reads n transfers after `first` others into memory that is to be released. */
static ecc_transfer_t *
read_specs(ecc_archive_t *archive, ecc_engine_t *self, uint32_t n, uint32_t first)
{
    void *block = NULL;
    ecc_transfer_t *specs;

    archive->ret = ecc_memory_resize(&self->memory, 0, (n + first) * sizeof(*specs), &block);
    specs = block;
    if (specs != NULL) {
        ecc_archive_move(archive, specs + first, n * sizeof(*specs));
    }
    return specs;
}

/* Those subsequent to the transfer in a slot. */
static void
move_subsequent(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    uint32_t n = ecc_archive_count(archive, chain_length(&self->transfers, flow->subsequent), sizeof(ecc_transfer_t));

    ecc_archive_require(archive,
        flow->number + n < self->n_flows + self->transfers.n_added && (n == 0 || ecc_cut_has_sender(self, index)));
    if (n > 0 && ecc_archive_reads(archive)) {
        ecc_transfer_t *specs = read_specs(archive, self, n, 1);
        void *block = specs;
        if (archive->ret == 0) {
            specs[0] = (ecc_transfer_t) {
                .start = self->now, .stop = -1, .size = flow->size, .template_index = flow->template_index
            };
            archive->ret = ecc_transfers_add_subsequent(self, index, specs, (int64_t) n + 1);
        }
        ecc_memory_release(&self->memory, (n + 1) * sizeof(*specs), &block);
    } else if (n > 0) {
        move_chain(archive, &self->transfers, flow->subsequent);
    }
    ecc_archive_node(archive, self->now, &self->slow, self->base[ECC_EVENT_START] + index + 1, n > 0);
}

/* Pending transfers, in the order in which they were added. */
static void
move_pending(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_transfers_t *transfers = &self->transfers;
    size_t count = 0;
    uint32_t n;

    for (size_t i = transfers->n_consumed; i < transfers->n_pending; i++) {
        count += 1 + chain_length(transfers, transfers->pending[i].subsequent);
    }
    n = ecc_archive_count(archive, count, sizeof(ecc_transfer_t));
    ecc_archive_require(archive, archive->ret == 0 && n <= transfers->n_added - transfers->n_started);
    if (n > 0 && ecc_archive_reads(archive)) {
        ecc_transfer_t *specs = read_specs(archive, self, n, 0);
        void *block = specs;
        transfers->n_added -= n;
        if (archive->ret == 0) {
            archive->ret = ecc_transfers_add(self, specs, n, transfers->more);
        }
        ecc_memory_release(&self->memory, n * sizeof(*specs), &block);
    } else {
        for (size_t i = transfers->n_consumed; i < transfers->n_pending; i++) {
            ECC_ARCHIVE_MOVE(archive, transfers->pending[i].spec);
            move_chain(archive, transfers, transfers->pending[i].subsequent);
        }
    }
}

/* Of a part: the numbers of those pending, as others have the rest, and when the last of all that were added starts. */
static void
move_numbers(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_transfers_t *transfers = &self->transfers;
    int64_t end = self->n_flows + transfers->n_added - 1;
    int64_t last = self->n_flows - (int64_t) 1;

    for (size_t i = transfers->n_consumed; i < transfers->n_pending && archive->ret == 0; i++) {
        ecc_archive_whole(archive, &transfers->pending[i].number, last + 1, end);
        last = transfers->pending[i].number;
        for (uint32_t entry = transfers->pending[i].subsequent; entry != ECC_NO_SUBSEQUENT;) {
            transfers->linked[entry].number = ++last;
            entry = transfers->linked[entry].subsequent;
        }
        ecc_archive_require(archive, last <= end);
    }
    ecc_archive_whole(archive, &transfers->last_start, 0, ECC_NEVER);
}

/* Results that were not taken yet; after them is room for one of each alive transfer. */
static void
move_finished(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_transfers_t *transfers = &self->transfers;
    uint32_t n = ecc_archive_count(archive, transfers->n_finished, sizeof(*transfers->finished));
    void *block = transfers->finished;

    ecc_archive_make_room(archive, &self->memory, sizeof(*transfers->finished), (size_t) n + transfers->n_alive,
        &transfers->room_finished, &block);
    transfers->finished = block;
    for (uint32_t k = 0; k < n && archive->ret == 0; k++) {
        ecc_transfer_result_t *result = &transfers->finished[k];
        ECC_ARCHIVE_MOVE(archive, *result);
        ecc_archive_require(archive,
            result->number >= self->n_flows && result->number < self->n_flows + transfers->n_added
                && result->template_index >= 0 && result->template_index < transfers->n_templates);
        transfers->n_finished = ecc_archive_reads(archive) ? k + 1 : transfers->n_finished;
    }
}

static void
make_room_for_arrived(ecc_archive_t *archive, ecc_engine_t *self, size_t n)
{
    void *block = archive->arrived;

    ecc_archive_make_room(archive, &self->memory, sizeof(*archive->arrived), n, &archive->n_arrived, &block);
    archive->arrived = block;
}

/* Room for so many slots, doubled as the engine itself would have. */
static void
make_slots(ecc_archive_t *archive, ecc_engine_t *self, uint32_t n_slots)
{
    uint32_t room = self->room - self->n_flows;

    ecc_archive_require(archive, n_slots == 0 || (room > 0 && n_slots <= ECC_MAX_ENTITIES));
    while (ecc_archive_reads(archive) && room < n_slots) {
        room *= 2;
    }
    if (ecc_archive_reads(archive) && room > self->room - self->n_flows) {
        archive->ret = ecc_tables_reserve(self, self->n_flows + room);
    }
    make_room_for_arrived(archive, self, (size_t) self->n_flows + n_slots);
}

/* A slot with the transfer in it, or a free one, which knows the one that was freed before it. */
static void
move_slot(ecc_archive_t *archive, ecc_engine_t *self, uint32_t slot)
{
    ecc_transfers_t *transfers = &self->transfers;
    ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];
    bool is_alive = ecc_archive_flag(archive, flow->started);
    uint32_t template_index = flow->template_index;
    int64_t number = flow->number;

    ecc_archive_index(archive, &template_index, transfers->n_templates);
    ecc_archive_whole(archive, &number, self->n_flows, self->n_flows + transfers->n_added - 1);
    if (ecc_archive_reads(archive)) {
        ecc_transfers_occupy(self, slot, template_index, number);
    }
    if (!is_alive) {
        ECC_ARCHIVE_MOVE(archive, flow->next_free);
    }
    if (!is_alive || archive->ret != 0) {
        return;
    }
    if (self->cut != NULL) {
        ecc_cut_slot_t *more = &self->cut->slots[slot];
        if (ecc_archive_reads(archive)) {
            ecc_cut_join(self, slot);
        }
        ecc_archive_index(archive, &more->n_away, ecc_cut_has_template(self, template_index) ? UINT32_MAX : 1);
        ecc_archive_whole(archive, &more->last, 0, ECC_NEVER);
        ecc_archive_whole(archive, &more->end, -1, self->now);
    }
    transfers->n_alive += ecc_archive_reads(archive) && ecc_cut_has_template(self, template_index);
    ecc_archive_whole(archive, &flow->size, -1, INT64_MAX);
    ecc_archive_whole(archive, &flow->access_delay, 0, ECC_MAX_DELAY);
    ecc_archive_whole(archive, &flow->ack_delay, 0, ECC_MAX_DELAY);
    ecc_archive_whole(archive, &flow->start, 0, self->now);
    ecc_archive_require(archive, flow->size != 0);
    move_flow(archive, self, self->n_flows + slot);
    if (transfers->record_size > 0 && flow->spec->state != NULL) {
        ecc_archive_move(archive, flow->state, transfers->record_size);
    }
    move_subsequent(archive, self, self->n_flows + slot);
}

static void
move_transfers(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_transfers_t *transfers = &self->transfers;
    uint32_t n_slots = ecc_archive_count(archive, transfers->n_slots, sizeof(int64_t) + 2 * sizeof(uint32_t));
    uint32_t n_free = 0;

    ecc_archive_whole(archive, &transfers->n_added, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &transfers->n_started, 0, transfers->n_added);
    transfers->more = ecc_archive_flag(archive, transfers->more);
    ecc_archive_require(archive, !transfers->more || transfers->n_templates > 0);
    make_slots(archive, self, n_slots);
    for (uint32_t slot = 0; slot < n_slots && archive->ret == 0; slot++) {
        transfers->n_slots = ecc_archive_reads(archive) ? slot + 1 : transfers->n_slots;
        move_slot(archive, self, slot);
    }
    /* a walk that ends after as many slots as are free has met each of them once */
    ECC_ARCHIVE_MOVE(archive, transfers->free_slot);
    for (uint32_t slot = transfers->free_slot; archive->ret == 0 && slot != ECC_NO_SLOT; n_free++) {
        ecc_archive_require(archive, slot < n_slots && n_free < n_slots && !self->flows[self->n_flows + slot].started);
        slot = archive->ret == 0 ? self->flows[self->n_flows + slot].next_free : ECC_NO_SLOT;
    }
    ecc_archive_require(
        archive, n_free + transfers->n_alive + (self->cut == NULL ? 0 : self->cut->n_passing) == n_slots);
    move_finished(archive, self);
    move_pending(archive, self);
    if (self->cut != NULL && archive->ret == 0) {
        move_numbers(archive, self);
    }
}

/* ---- the engine ---- */

/* The configuration of the engine: a checkpoint fits no other. */
static void
move_layout(ecc_archive_t *archive, const ecc_engine_t *self)
{
    const uint64_t ours[] = { UINT64_C(0x3a706b6363636565), sizeof(ecc_transfer_t), sizeof(ecc_transfer_result_t),
        self->packets.stride, self->header_size, self->n_links, self->n_routers, self->n_flows,
        self->transfers.n_templates, self->transfers.record_size, self->transfers.first_hop, self->transfers.max_length,
        self->n_impairments, self->n_changes, self->n_servers, self->n_opportunities, self->n_queues,
        self->n_priorities, self->wants_flow_queues, self->wants_receivers, self->wants_transports, self->wants_ecn,
        self->wants_stops, self->wants_timers, self->wants_phases, self->n_link_phases, self->seed,
        (uint64_t) self->samples.period, (uint64_t) self->samples.n_samples, self->n_rtts };
    uint64_t found[sizeof(ours) / sizeof(*ours)];

    memcpy(found, ours, sizeof(ours));
    ecc_archive_move(archive, found, sizeof(found));
    ecc_archive_require(archive, memcmp(found, ours, sizeof(ours)) == 0);
}

static void
set_clock(ecc_calendar_t *calendar, ecc_ps_t clock)
{
    calendar->first = ECC_NO_NODE;
    calendar->first_time = ECC_NEVER;
    calendar->clock = clock;
    calendar->epoch = clock;
}

/* Samples are taken in time: those until now are, but for one that may be due. */
static void
move_clock(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_wide_t period = self->samples.period;

    ecc_archive_whole(archive, &self->stop, ECC_STOP_NOT_YET, ECC_STOP_TRANSFERS);
    ecc_archive_whole(archive, &self->now, 0, self->stop == ECC_STOP_NOT_YET ? 0 : ECC_NEVER - 1);
    ecc_archive_whole(archive, &self->n_events, 0, self->stop == ECC_STOP_NOT_YET ? 0 : ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &self->n_received, 0, ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &self->n_traced, 0, self->trace == NULL ? 0 : ECC_ARCHIVE_MAX);
    ecc_archive_whole(archive, &self->n_sampled, 0, self->samples.n_samples);
    ECC_ARCHIVE_MOVE(archive, self->digest);
    ecc_archive_require(archive, period * self->n_sampled <= self->now);
    if (ecc_archive_reads(archive)) {
        period *= self->n_sampled + 1;
        self->next_sample
            = self->n_sampled < self->samples.n_samples && period < ECC_NEVER ? (ecc_ps_t) period : ECC_NEVER;
        set_clock(&self->fast, self->now);
        set_clock(&self->slow, self->now);
    }
    ecc_archive_require(archive, self->now <= self->next_sample);
}

/* The partition, which must be the same, and when the last packets entered; nothing waits to leave. */
static void
move_cut(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_cut_t *cut = self->cut;
    size_t n_lists = (size_t) self->n_links + 2 * (size_t) self->n_flows;
    bool has_cut = ecc_archive_flag(archive, cut != NULL);

    ecc_archive_require(archive, has_cut == (cut != NULL));
    if (cut == NULL || archive->ret != 0) {
        return;
    }
    for (int64_t i = 0; i < cut->n_parts; i++) {
        ecc_archive_require(archive, ecc_cut_outbox(self, i)->size == 0);
    }
    for (uint32_t i = 0; i < self->transfers.n_templates && archive->ret == 0; i++) {
        int64_t part = cut->templates[i];
        ECC_ARCHIVE_MOVE(archive, part);
        ecc_archive_require(archive, part == cut->templates[i]);
    }
    for (size_t i = 0; i < n_lists && archive->ret == 0; i++) {
        int64_t part = cut->links[i];
        ECC_ARCHIVE_MOVE(archive, part);
        ecc_archive_require(archive, part == cut->links[i]);
        ecc_archive_whole(archive, &cut->last[i], 0, ECC_NEVER);
    }
}

static int
pass(ecc_engine_t *self, ecc_archive_t *archive)
{
    move_layout(archive, self);
    move_cut(archive, self);
    move_clock(archive, self);
    make_room_for_arrived(archive, self, self->n_flows);
    for (uint32_t i = 0; i < self->n_flows && archive->ret == 0; i++) {
        move_flow(archive, self, i);
    }
    move_transfers(archive, self);
    move_routers(archive, self);
    for (uint32_t i = 0; i < self->n_links && self->pauses != NULL && archive->ret == 0; i++) {
        move_pause(archive, self, i);
    }
    ecc_archive_require(archive, archive->from == NULL || archive->at == archive->size);
    if (archive->ret == 0 && ecc_verify_engine(self) != 0) {
        archive->ret = ECC_ERR_CHECKPOINT;
    }
    return archive->ret;
}

int64_t
ecc_checkpoint_save(ecc_engine_t *self, unsigned char *buffer)
{
    ecc_archive_t archive = { .to = buffer, .size = SIZE_MAX };

    if (pass(self, &archive) != 0) {
        return ecc_state_fail(self, ECC_ERR_BROKEN, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) archive.at);
    }
    return (int64_t) archive.at;
}

int
ecc_checkpoint_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size)
{
    ecc_archive_t archive = { .from = buffer, .size = size > 0 ? (size_t) size : 0 };
    void *block;
    int ret = ECC_ERR_CHECKPOINT;

    if (self->stop == ECC_STOP_NOT_YET && self->transfers.n_added == 0) {
        ret = pass(self, &archive);
    }
    block = archive.arrived;
    ecc_memory_release(&self->memory, archive.n_arrived * sizeof(*archive.arrived), &block);
    if (ret != 0) {
        self->stop = ECC_STOP_ERROR;
        ret = ret == ECC_ERR_NO_MEMORY ? ret : ECC_ERR_CHECKPOINT;
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) archive.at);
    }
    return 0;
}
