/*
 * Links, routers and pauses in a checkpoint: counters first, then the packets, which the counters of their flows
 * bound.
 */

#include "store/saved_links.h"

#include <math.h>

#include "core/config.h"
#include "link/pause.h"
#include "link/phase.h"
#include "link/scheduler.h"
#include "link/server.h"
#include "store/lists.h"

#define MAX_SIZE (ECC_MAX_PACKET_SIZE + ECC_MAX_HEADER_BYTES) /* maximum size of a packet on a link */

void
ecc_saved_links_move_phase(ecc_archive_t *archive, ecc_phase_t *phase)
{
    ECC_ARCHIVE_MOVE(archive, phase->random);
    ecc_archive_real(archive, &phase->offset);
    ecc_archive_real(archive, &phase->stretch);
    ecc_archive_whole(archive, &phase->packet_time, 0, ECC_NEVER);
    ecc_archive_index(archive, &phase->n, ECC_PHASE_PACKETS + 1);
    ecc_archive_require(archive, phase->offset < 1.0 && phase->stretch < 2.0);
}

/* Moves drops and marks of queues, and the rounds of turns. */
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

/* Moves the DEPARTURE without a packet of a server that waits (S-226). */
static void
move_wait(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t node = self->base[ECC_EVENT_DEPARTURE] + index;

    if (link->spec.scheduler == ECC_SCHEDULER_SELECT && link->ring.count == 0
        && ecc_archive_flag(archive, ecc_calendar_pending(&self->fast, node))) {
        ecc_archive_whole(archive, &link->wakes_at, self->now, ECC_NEVER);
        if (ecc_archive_reads(archive)) {
            ecc_calendar_move(&self->fast, node, link->wakes_at);
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
    move_wait(archive, self, index);
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

/* Moves PFC of a link, after the queues of all links, including frames that have arrived but were not read. */
void
ecc_saved_links_move_pause(ecc_archive_t *archive, ecc_engine_t *self, uint32_t index)
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

void
ecc_saved_links_move(ecc_archive_t *archive, ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_routers && archive->ret == 0; i++) {
        ecc_link_state_t *router = &self->links[i];
        if (i < self->n_links) {
            move_link(archive, self, i);
            if (router->spec.phase_jitter != 0) {
                ecc_saved_links_move_phase(archive, &self->link_phases[i]);
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
