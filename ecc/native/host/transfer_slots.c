/*
 * The slots in which transfers live, after the flows (S-57, S-58, S-127): a free one is found, and becomes a flow.
 *
 * Not here: which transfer takes a slot (transfers.c), and when it is free again (finish.c).
 */

#include "host/transfer_slots.h"

#include <string.h>

#include "core/cut.h"
#include "core/finish.h"
#include "link/link.h"
#include "host/flow.h"
#include "host/tables.h"

static int
fail(ecc_engine_t *self, int code)
{
    return ecc_state_fail(self, code, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, self->room);
}

/* Whether packets of a transfer that passed are still in queues, from which they depart silently. */
static bool
is_queued(ecc_engine_t *self, const ecc_flow_state_t *flow)
{
    uint32_t n = self->transfers.templates[flow->template_index].length;
    bool found = false;

    for (uint32_t k = flow->position; k < flow->position + n && self->flow_queues != NULL; k++) {
        ecc_link_catch_up(self, &self->links[self->hops[k] >> ECC_HOP_LINK]);
        found = found || self->flow_queues[k] != 0;
    }
    return found;
}

/* Frees slots of transfers that have passed; returns whether these were more than a quarter of all slots. */
static bool
free_slots(ecc_engine_t *self)
{
    uint32_t n_freed = 0;

    for (uint32_t slot = 0; slot < self->transfers.n_slots; slot++) {
        ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];
        if (flow->started && !ecc_cut_has_sender(self, self->n_flows + slot) && flow->n_packets == 0
            && !is_queued(self, flow)) {
            ecc_cut_leave(self, slot);
            ecc_finish_free_slot(self, slot);
            n_freed++;
        }
    }
    return n_freed > self->transfers.n_slots / 4;
}

/* The slot freed last, if there is one. */
static bool
take_free_slot(ecc_engine_t *self, uint32_t *slot)
{
    *slot = self->transfers.free_slot;
    if (*slot == ECC_NO_SLOT) {
        return false;
    }
    self->transfers.free_slot = self->flows[self->n_flows + *slot].next_free;
    return true;
}

/* A free slot, or a new one. */
int
ecc_transfer_slots_find(ecc_engine_t *self, uint32_t *slot)
{
    ecc_transfers_t *transfers = &self->transfers;

    if (take_free_slot(self, slot)) {
        return 0;
    }
    if (self->n_flows + transfers->n_slots == self->room && (self->cut == NULL || !free_slots(self))) {
        int ret;
        if (transfers->n_slots > ECC_MAX_ENTITIES) {
            return fail(self, ECC_ERR_TOO_LARGE);
        }
        ret = ecc_tables_reserve(self, self->n_flows + 2 * transfers->n_slots);
        if (ret != 0) {
            return ret;
        }
    }
    if (!take_free_slot(self, slot)) {
        *slot = transfers->n_slots++;
    }
    return 0;
}

/* Copies the route of a template to a slot, after silent departures from its queues. */
static uint32_t
install_route(ecc_engine_t *self, uint32_t slot, const ecc_template_t *template)
{
    uint32_t position = self->transfers.first_hop + slot * self->transfers.max_length;

    if (self->flow_queues != NULL) {
        for (uint32_t k = 0; k < self->transfers.max_length; k++) {
            ecc_link_catch_up(self, &self->links[self->hops[position + k] >> ECC_HOP_LINK]);
        }
    }
    memcpy(&self->hops[position], &self->hops[template->position], template->length * sizeof(*self->hops));
    return position;
}

void
ecc_transfer_slots_occupy(ecc_engine_t *self, uint32_t slot, uint32_t template_index, int64_t number)
{
    ecc_transfers_t *transfers = &self->transfers;
    const ecc_template_t *template = &transfers->templates[template_index];
    ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];

    ecc_flow_init(self, self->n_flows + slot, &template->spec, install_route(self, slot, template), number);
    ecc_tables_order_slot(self, slot);
    flow->template_index = template_index;
    if (transfers->record_size > 0 && template->spec.state != NULL) {
        flow->state
            = memcpy(transfers->records + slot * transfers->record_size, template->spec.state, transfers->record_size);
    }
}

int
ecc_transfer_slots_let_pass(
    ecc_engine_t *self, uint32_t template_index, int64_t number, ecc_ps_t ack_delay, uint32_t *slot)
{
    ecc_flow_state_t *flow;
    int ret = ecc_transfer_slots_find(self, slot);

    if (ret != 0) {
        return fail(self, ret);
    }
    ecc_transfer_slots_occupy(self, *slot, template_index, number);
    flow = &self->flows[self->n_flows + *slot];
    flow->started = true;
    flow->start = 0;
    flow->size = -1;
    flow->ack_delay = ack_delay;
    ecc_cut_join(self, *slot);
    return 0;
}
