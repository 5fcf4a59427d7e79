/* Transfers in a checkpoint: pending transfers, results that were not taken, and all slots. */

#include "store/saved_transfers.h"

#include "core/config.h"
#include "core/cut.h"
#include "host/tables.h"
#include "host/transfer_slots.h"
#include "host/transfers.h"
#include "store/saved_flows.h"

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

/* Moves the transfers subsequent to the transfer in a slot. */
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

/* A part stores the numbers of its pending transfers, and the start of the last transfer that was added. */
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

void
ecc_saved_transfers_make_room(ecc_archive_t *archive, ecc_engine_t *self, size_t n)
{
    void *block = archive->arrived;

    ecc_archive_make_room(archive, &self->memory, sizeof(*archive->arrived), n, &archive->n_arrived, &block);
    archive->arrived = block;
}

/* Makes room for slots, doubled as the engine itself would have. */
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
    ecc_saved_transfers_make_room(archive, self, (size_t) self->n_flows + n_slots);
}

/* Moves a slot with its transfer, or a free slot, with the slot freed before it. */
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
        ecc_transfer_slots_occupy(self, slot, template_index, number);
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
    ecc_saved_flows_move(archive, self, self->n_flows + slot);
    if (transfers->record_size > 0 && flow->spec->state != NULL) {
        ecc_archive_move(archive, flow->state, transfers->record_size);
    }
    move_subsequent(archive, self, self->n_flows + slot);
}

void
ecc_saved_transfers_move(ecc_archive_t *archive, ecc_engine_t *self)
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
    /* a walk over as many slots as are free has visited each of them once */
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
