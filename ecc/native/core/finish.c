/*
 * Results of flows and transfers, and the end of a transfer (S-59, S-61): its result is kept and its slot is free.
 *
 * Not here: the start of a transfer (transfers.c), and when a flow stops (flow.c).
 *
 * Invariant: there is room for a result of each transfer that is alive, so that finishing cannot fail.
 */

#include "core/finish.h"

#include "core/cut.h"

static int64_t
retransmitted(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->reliable) {
        return flow->sent - self->transports[index].snd_nxt;
    }
    return flow->size >= 0 && flow->sent > flow->size ? flow->sent - flow->size : 0;
}

static ecc_ps_t
idle_rtt(const ecc_engine_t *self, const ecc_flow_state_t *flow)
{
    ecc_ps_t rtt = ecc_clock_add(flow->access_delay, flow->ack_delay);

    for (int64_t k = 0; k < flow->spec->n_forward + flow->spec->n_reverse; k++) {
        const ecc_link_state_t *link = &self->links[self->hops[flow->position + k] >> ECC_HOP_LINK];
        rtt = ecc_clock_add(rtt, link->delay);
        rtt = link->channel != NULL ? ecc_clock_add(rtt, ecc_channel_additional(link->channel, 0)) : rtt;
    }
    return rtt;
}

ecc_flow_result_t
ecc_finish_result(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return (ecc_flow_result_t) {
        .finish = flow->finish,
        .completed = flow->completed,
        .sent = flow->sent,
        .received = flow->received,
        .delivered = flow->expected - flow->lost,
        .lost = flow->lost,
        .retransmitted = retransmitted(self, index),
        .acks_lost = flow->needs_receiver ? self->receivers[index].acks_lost : 0,
        .marked = flow->needs_receiver ? self->receivers[index].marked : 0,
        .rate = flow->rate,
        .window = flow->window,
        .srtt = flow->srtt,
        .min_rtt = flow->min_rtt,
        .idle_rtt = idle_rtt(self, flow),
    };
}

ecc_transfer_result_t
ecc_finish_transfer_result(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return (ecc_transfer_result_t) { .number = flow->number,
        .template_index = flow->template_index,
        .start = flow->start,
        .size = flow->size,
        .end = -1,
        .flow = ecc_finish_result(self, index) };
}

/* An entry becomes unused; returns the one linked after it. */
uint32_t
ecc_finish_free_entry(ecc_transfers_t *transfers, uint32_t entry)
{
    uint32_t next = transfers->linked[entry].subsequent;

    transfers->linked[entry].subsequent = transfers->free_linked;
    transfers->free_linked = entry;
    return next;
}

void
ecc_finish_free_slot(ecc_engine_t *self, uint32_t slot)
{
    self->flows[self->n_flows + slot].started = false;
    self->flows[self->n_flows + slot].next_free = self->transfers.free_slot;
    self->transfers.free_slot = slot;
}

/* A transfer finishes (S-59), and has ended at a time: it leaves its result and its slot. */
static void
finish(ecc_engine_t *self, uint32_t index, ecc_ps_t end)
{
    ecc_transfers_t *transfers = &self->transfers;
    ecc_flow_state_t *flow = &self->flows[index];

    flow->lost += flow->sent - flow->expected;
    flow->expected = flow->sent;
    transfers->finished[transfers->n_finished] = ecc_finish_transfer_result(self, index);
    transfers->finished[transfers->n_finished++].end = end;
    transfers->n_alive--;
    for (uint32_t entry = flow->subsequent; entry != ECC_NO_SUBSEQUENT;) {
        entry = ecc_finish_free_entry(transfers, entry);
    }
    if (self->cut != NULL) {
        ecc_cut_leave(self, index - self->n_flows);
    }
    ecc_finish_free_slot(self, index - self->n_flows);
}

void
ecc_finish_if_done(ecc_engine_t *self, uint32_t index, ecc_ps_t now)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (index < self->n_flows) {
        return;
    }
    if (self->cut != NULL) { /* a part that is ahead may have reported a later discard */
        ecc_cut_slot_t *slot = &self->cut->slots[index - self->n_flows];
        slot->end = now > slot->end ? now : slot->end;
        now = slot->end;
    }
    if (!flow->active && flow->n_packets == 0 && !ecc_cut_is_away(self, index)
        && !ecc_finish_subsequent_is_due(self, index)) {
        finish(self, index, now);
    }
}
