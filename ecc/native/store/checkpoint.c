/*
 * The state of an engine as bytes, and back into a new engine of the same configuration. One function does both, so
 * that they agree. State that can be derived is not stored: pointers, indices of packets, links of lists, and the
 * configuration. Therefore most invalid states cannot be expressed; the others are rejected. Records and arrays of the
 * caller are not stored.
 *
 * The order is fixed: layout, partition, clock, flows, transfers, routers, pauses; within a flow counters first, then
 * its lists of packets. Packets on links come after their flows, whose counters bound them.
 *
 * Not here: flows, transfers and links (saved_flows.c, saved_transfers.c, saved_links.c), and lists of packets
 * (lists.c).
 */

#include "store/checkpoint.h"

#include <math.h>
#include <string.h>

#include "core/archive.h"
#include "core/cut.h"
#include "store/saved_flows.h"
#include "store/saved_links.h"
#include "store/saved_transfers.h"
#include "store/verify.h"

/* Moves the layout: a checkpoint fits only an engine of the same configuration. */
static void
move_layout(ecc_archive_t *archive, const ecc_engine_t *self)
{
    const uint64_t ours[] = { UINT64_C(0x3a706b6363636565), sizeof(ecc_transfer_t), sizeof(ecc_transfer_result_t),
        self->packets.stride, self->header_size, self->n_links, self->n_routers, self->n_flows,
        self->transfers.n_templates, self->transfers.record_size, self->transfers.first_hop, self->transfers.max_length,
        self->n_impairments, self->n_delay_changes, self->n_writes, self->n_changes, self->n_servers,
        self->n_opportunities, self->n_queues, self->n_priorities, self->wants_flow_queues, self->wants_receivers,
        self->wants_transports, self->wants_ecn, self->wants_stops, self->wants_timers, self->wants_phases,
        self->n_link_phases, self->seed, (uint64_t) self->samples.period, (uint64_t) self->samples.n_samples,
        self->n_rtts, self->n_monitors };
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

/* Moves the number of samples: all up to now are taken, except for one that may be due. */
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

/* Moves the packets that were put on wires, in runs with a trace (S-126). */
static void
move_wire_entries(ecc_archive_t *archive, ecc_engine_t *self)
{
    ecc_cut_t *cut = self->cut;
    uint32_t count = ecc_archive_count(archive, cut->n_wire_entries, sizeof(*cut->wire_entries));
    void *block = cut->wire_entries;

    ecc_archive_require(archive, count == 0 || self->trace != NULL);
    ecc_archive_make_room(archive, &self->memory, sizeof(*cut->wire_entries), count, &cut->wire_entries_room, &block);
    cut->wire_entries = block;
    for (uint32_t i = 0; i < count && archive->ret == 0; i++) {
        ecc_wire_entry_t *entry = &cut->wire_entries[i];
        ecc_archive_whole(archive, &entry->time, 0, ECC_NEVER);
        ecc_archive_whole(archive, &entry->link, 0, (int64_t) self->n_links - 1);
        ecc_archive_whole(archive, &entry->part, 0, cut->n_parts - 1);
    }
    cut->n_wire_entries = ecc_archive_reads(archive) ? count : cut->n_wire_entries;
}

/* Moves the partition, which must be the same, and the last arrivals; outboxes must be empty. */
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
    move_wire_entries(archive, self);
}

static int
pass(ecc_engine_t *self, ecc_archive_t *archive)
{
    move_layout(archive, self);
    move_cut(archive, self);
    move_clock(archive, self);
    ecc_saved_transfers_make_room(archive, self, self->n_flows);
    for (uint32_t i = 0; i < self->n_flows && archive->ret == 0; i++) {
        ecc_saved_flows_move(archive, self, i);
    }
    for (size_t k = 0; k < self->n_monitors && archive->ret == 0; k++) {
        ecc_saved_flows_move_monitor(archive, self, &self->monitors[k]);
    }
    ecc_saved_transfers_move(archive, self);
    ecc_saved_links_move(archive, self);
    for (uint32_t i = 0; i < self->n_links && self->pauses != NULL && archive->ret == 0; i++) {
        ecc_saved_links_move_pause(archive, self, i);
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
