/*
 * Transfers (S-55 to S-61): a transfer is pending until its start, lives in a slot after the flows, and leaves a
 * result. Transfers that are subsequent to another are linked after it until they start.
 *
 * Not here: what a transfer does while it lives is that of a flow (flow.c, host.c); the arrays that slots are in
 * (tables.c).
 *
 * Invariants (ecc_transfers_verify): a slot is free or alive; every entry of `subsequent` is linked after exactly one
 * transfer or is unused; there is room for a result of each alive transfer, so that finishing cannot fail.
 */

#include "host/transfers.h"

#include <string.h>

#include "core/config.h"
#include "core/cut.h"
#include "core/finish.h"
#include "host/transfer_slots.h"

#define INITIAL_ROOM 64u

static int
fail(ecc_engine_t *self, int code)
{
    return code == 0 ? 0 : ecc_state_fail(self, code, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, self->room);
}

/* ---- life ---- */

int
ecc_transfers_init(ecc_engine_t *self, const ecc_config_t *config)
{
    ecc_transfers_t *transfers = &self->transfers;
    void *block = NULL;
    int ret;

    transfers->free_slot = ECC_NO_SLOT;
    transfers->free_linked = ECC_NO_SUBSEQUENT;
    transfers->record_size = (size_t) config->record_size;
    transfers->first_hop = (uint32_t) config->n_routes;
    if (config->n_templates == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, 0, (size_t) config->n_templates * sizeof(*transfers->templates), &block);
    if (ret != 0) {
        return fail(self, ret);
    }
    transfers->templates = block;
    transfers->n_templates = (uint32_t) config->n_templates;
    transfers->more = true;
    for (uint32_t i = 0; i < transfers->n_templates; i++) {
        const ecc_flow_t *spec = &config->templates[i];
        transfers->templates[i].spec = *spec;
        transfers->templates[i].length = (uint32_t) (spec->n_forward + spec->n_reverse);
        if (transfers->templates[i].length > transfers->max_length) {
            transfers->max_length = transfers->templates[i].length;
        }
    }
    return 0;
}

void
ecc_transfers_free(ecc_engine_t *self)
{
    ecc_transfers_t *transfers = &self->transfers;
    const struct {
        size_t size;
        void *block;
    } blocks[] = {
        { transfers->n_templates * sizeof(*transfers->templates), transfers->templates },
        { transfers->room_pending * sizeof(*transfers->pending), transfers->pending },
        { transfers->room_linked * sizeof(*transfers->linked), transfers->linked },
        { transfers->room_finished * sizeof(*transfers->finished), transfers->finished },
        { transfers->room_records * transfers->record_size, transfers->records },
    };

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        void *block = blocks[i].block;
        ecc_memory_release(&self->memory, blocks[i].size, &block);
    }
}

/* Length of a chain of entries; more than the number of entries if it is a cycle. */
static uint32_t
chain_length(const ecc_transfers_t *transfers, uint32_t entry)
{
    uint32_t n = 0;

    while (entry != ECC_NO_SUBSEQUENT && n <= transfers->n_linked) {
        n++;
        entry = entry < transfers->n_linked ? transfers->linked[entry].subsequent : entry;
    }
    return n;
}

int
ecc_transfers_verify(const ecc_engine_t *self)
{
    const ecc_transfers_t *transfers = &self->transfers;
    uint32_t n_free = 0;
    uint64_t n_entries = chain_length(transfers, transfers->free_linked);
    uint32_t n_passing = self->cut == NULL ? 0 : self->cut->n_passing;
    bool valid = transfers->n_consumed <= transfers->n_pending
        && transfers->n_finished + transfers->n_alive <= transfers->room_finished;

    for (uint32_t slot = transfers->free_slot; slot != ECC_NO_SLOT && n_free <= transfers->n_slots; n_free++) {
        valid = valid && slot < transfers->n_slots && !self->flows[self->n_flows + slot].started;
        slot = valid ? self->flows[self->n_flows + slot].next_free : ECC_NO_SLOT;
    }
    for (uint32_t slot = 0; slot < transfers->n_slots; slot++) {
        uint32_t index = self->n_flows + slot;
        const ecc_flow_state_t *flow = &self->flows[index];
        valid = valid
            && (!ecc_cut_has_sender(self, index)
                || flow->started
                    == (flow->active || flow->n_packets > 0
                        || (flow->started
                            && (ecc_cut_is_away(self, index) || ecc_finish_subsequent_is_due(self, index)))));
        n_entries += flow->started ? chain_length(transfers, flow->subsequent) : 0;
    }
    for (size_t i = transfers->n_consumed; i < transfers->n_pending; i++) {
        n_entries += chain_length(transfers, transfers->pending[i].subsequent);
    }
    return valid && n_entries == transfers->n_linked && n_free + n_passing + transfers->n_alive == transfers->n_slots
        ? 0
        : ECC_ERR_BROKEN;
}

/* ---- transfers ---- */

/* Makes room for n items, and at least doubles it if it grows. */
static int
reserve(ecc_engine_t *self, size_t item_size, size_t n, size_t *room, void **block)
{
    size_t room_new = *room == 0 ? INITIAL_ROOM : *room;
    int ret;

    if (n <= *room) {
        return 0;
    }
    while (room_new < n) {
        room_new *= 2;
    }
    ret = ecc_memory_resize(&self->memory, *room * item_size, room_new * item_size, block);
    if (ret == 0) {
        *room = room_new;
    }
    return ret;
}

/* Checks added transfers; the report has the number of the first invalid one. */
static int
check(ecc_engine_t *self, const ecc_transfer_t *added, int64_t n)
{
    const ecc_transfers_t *transfers = &self->transfers;
    ecc_ps_t latest = transfers->last_start > self->now ? transfers->last_start : self->now;

    for (int64_t i = 0; i < n; i++) {
        const ecc_transfer_t *transfer = &added[i];
        int64_t number = self->n_flows + transfers->n_added + i;
        ecc_ps_t earliest = transfer->is_subsequent != 0 ? 0 : latest;
        ecc_flow_t flow;
        double value;
        int ret;
        if (transfer->template_index < 0 || transfer->template_index >= transfers->n_templates
            || transfer->start < earliest) {
            value = transfer->start < earliest ? (double) transfer->start : (double) transfer->template_index;
            return ecc_state_fail(self, ECC_ERR_TRANSFER, ECC_ENTITY_TRANSFER, number, ECC_NO_HOOK, value);
        }
        if (transfer->is_subsequent != 0
            && (i == 0 || added[i - 1].size < 0
                || transfers->templates[added[i - 1].template_index].spec.enables_subsequent == 0 || transfer->stop >= 0
                || ecc_cut_has_template(self, transfer->template_index)
                    != ecc_cut_has_template(self, added[i - 1].template_index))) {
            value = i == 0 ? 0.0 : (double) added[i - 1].size;
            return ecc_state_fail(self, ECC_ERR_SUBSEQUENT, ECC_ENTITY_TRANSFER, number, ECC_NO_HOOK, value);
        }
        latest = transfer->is_subsequent != 0 ? latest : transfer->start;
        flow = transfers->templates[transfer->template_index].spec;
        flow.start = transfer->start;
        flow.stop = transfer->stop;
        flow.size = transfer->size;
        flow.access_delay = transfer->access_delay;
        flow.ack_delay = transfer->ack_delay;
        flow.receiver_window = transfer->receiver_window;
        ret = ecc_config_check_flow(&flow, self->header_size, &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_TRANSFER, number, ECC_NO_HOOK, value);
        }
    }
    return 0;
}

/* Takes an unused entry; there is room. */
static uint32_t
new_entry(ecc_transfers_t *transfers)
{
    uint32_t entry = transfers->free_linked;

    if (entry == ECC_NO_SUBSEQUENT) {
        return transfers->n_linked++;
    }
    transfers->free_linked = transfers->linked[entry].subsequent;
    return entry;
}

/* Transfers become pending, or linked to the one before them if they are subsequent to it. There is room. */
static void
append(ecc_engine_t *self, const ecc_transfer_t *added, int64_t n)
{
    ecc_transfers_t *transfers = &self->transfers;
    ecc_pending_transfer_t *last = NULL;

    for (int64_t i = 0; i < n; i++) {
        ecc_pending_transfer_t *this = &transfers->pending[transfers->n_pending];
        if (added[i].is_subsequent == 0) {
            transfers->last_start = added[i].start;
        }
        if (!ecc_cut_has_template(self, added[i].template_index)) { /* another part has it */
            transfers->n_added++;
            continue;
        }
        if (added[i].is_subsequent != 0) {
            last->subsequent = new_entry(transfers);
            this = &transfers->linked[last->subsequent];
        } else {
            transfers->n_pending++;
        }
        *this = (ecc_pending_transfer_t) { added[i], self->n_flows + transfers->n_added++, ECC_NO_SUBSEQUENT };
        last = this;
    }
}

int
ecc_transfers_add(ecc_engine_t *self, const ecc_transfer_t *added, int64_t n, bool more)
{
    ecc_transfers_t *transfers = &self->transfers;
    void *blocks[2] = { transfers->pending, transfers->linked };
    uint32_t node = self->base[ECC_EVENT_START] + self->n_flows;
    size_t n_subsequent = 0;
    int ret = check(self, added, n);

    if (ret != 0) {
        return ret;
    }
    for (int64_t i = 0; i < n; i++) {
        n_subsequent += added[i].is_subsequent != 0;
    }
    if (transfers->n_consumed > 0) {
        transfers->n_pending -= transfers->n_consumed;
        memmove(transfers->pending, transfers->pending + transfers->n_consumed,
            transfers->n_pending * sizeof(*transfers->pending));
        transfers->n_consumed = 0;
    }
    if (transfers->n_linked + n_subsequent >= ECC_NO_SUBSEQUENT) {
        return fail(self, ECC_ERR_TOO_LARGE);
    }
    ret = reserve(self, sizeof(*transfers->pending), transfers->n_pending + (size_t) n - n_subsequent,
        &transfers->room_pending, &blocks[0]);
    transfers->pending = blocks[0];
    if (ret == 0) {
        ret = reserve(
            self, sizeof(*transfers->linked), transfers->n_linked + n_subsequent, &transfers->room_linked, &blocks[1]);
        transfers->linked = blocks[1];
    }
    if (ret != 0) {
        return fail(self, ret);
    }
    transfers->more = more && transfers->n_templates > 0;
    append(self, added, n);
    if (transfers->n_pending > 0 && !ecc_calendar_pending(&self->slow, node)) {
        ecc_calendar_insert(&self->slow, node, transfers->pending[0].spec.start);
    }
    return 0;
}

/* A pending transfer takes a slot (S-58). */
static int
activate(ecc_engine_t *self, const ecc_pending_transfer_t *pending, ecc_ps_t start, uint32_t *index)
{
    ecc_transfers_t *transfers = &self->transfers;
    const ecc_transfer_t *transfer = &pending->spec;
    ecc_flow_state_t *flow;
    void *block = transfers->finished;
    uint32_t slot;
    int ret;

    /* room for its result first: finishing cannot fail */
    ret = reserve(self, sizeof(*transfers->finished), transfers->n_finished + transfers->n_alive + 1,
        &transfers->room_finished, &block);
    transfers->finished = block;
    if (ret == 0) {
        ret = ecc_transfer_slots_find(self, &slot);
    }
    if (ret != 0) {
        return fail(self, ret);
    }
    *index = self->n_flows + slot;
    flow = &self->flows[*index];
    ecc_transfer_slots_occupy(self, slot, (uint32_t) transfer->template_index, pending->number);
    flow->start = start;
    flow->size = transfer->size;
    flow->access_delay = transfer->access_delay;
    flow->ack_delay = transfer->ack_delay;
    flow->subsequent = pending->subsequent;
    if (self->cut != NULL) {
        ecc_cut_join(self, slot);
    }
    if (flow->reliable && transfer->receiver_window > 0) {
        self->transports[*index].receiver_window = transfer->receiver_window;
    }
    if (transfer->stop >= 0) {
        ecc_calendar_insert(
            &self->slow, self->base[ECC_EVENT_STOP] + *index, transfer->stop < ECC_NEVER ? transfer->stop : ECC_NEVER);
    }
    transfers->n_alive++;
    transfers->n_started++;
    return 0;
}

int
ecc_transfers_start_next(ecc_engine_t *self, uint32_t *index)
{
    ecc_transfers_t *transfers = &self->transfers;
    const ecc_pending_transfer_t *next = &transfers->pending[transfers->n_consumed];
    int ret = activate(self, next, next->spec.start, index);

    if (ret == 0 && ++transfers->n_consumed < transfers->n_pending) {
        ecc_calendar_insert(&self->slow, self->base[ECC_EVENT_START] + self->n_flows,
            transfers->pending[transfers->n_consumed].spec.start);
    }
    return ret;
}

int
ecc_transfers_start_subsequent(ecc_engine_t *self, uint32_t other, uint32_t *index)
{
    ecc_transfers_t *transfers = &self->transfers;
    uint32_t entry = self->flows[other].subsequent;
    int ret = activate(self, &transfers->linked[entry], self->now, index);

    if (ret == 0) {
        self->flows[other].subsequent = ECC_NO_SUBSEQUENT;
        (void) ecc_finish_free_entry(transfers, entry);
    }
    return ret;
}

int
ecc_transfers_add_subsequent(ecc_engine_t *self, uint32_t index, const ecc_transfer_t *added, int64_t n)
{
    ecc_transfers_t *transfers = &self->transfers;
    uint32_t *last = &self->flows[index].subsequent;
    void *block = transfers->linked;
    int ret = check(self, added, n);

    if (ret == 0) {
        ret = reserve(
            self, sizeof(*transfers->linked), transfers->n_linked + (size_t) n, &transfers->room_linked, &block);
        transfers->linked = block;
    }
    for (int64_t i = 1; i < n && ret == 0; i++) {
        uint32_t entry = new_entry(transfers);
        transfers->linked[entry]
            = (ecc_pending_transfer_t) { added[i], self->flows[index].number + i, ECC_NO_SUBSEQUENT };
        *last = entry;
        last = &transfers->linked[entry].subsequent;
    }
    return ret;
}

int64_t
ecc_transfers_take_finished(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n)
{
    ecc_transfers_t *transfers = &self->transfers;
    size_t n_taken = (size_t) n < transfers->n_finished ? (size_t) n : transfers->n_finished;

    if (n_taken > 0) {
        memcpy(results, transfers->finished, n_taken * sizeof(*results));
        transfers->n_finished -= n_taken;
        memmove(transfers->finished, transfers->finished + n_taken, transfers->n_finished * sizeof(*results));
    }
    return (int64_t) n_taken;
}

void
ecc_transfers_alive(const ecc_engine_t *self, ecc_transfer_result_t *results)
{
    for (uint32_t slot = 0; slot < self->transfers.n_slots; slot++) {
        const ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];
        if (flow->started && ecc_cut_has_sender(self, self->n_flows + slot)) {
            *results++ = ecc_finish_transfer_result(self, self->n_flows + slot);
        }
    }
}
