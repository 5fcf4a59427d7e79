/*
 * Random phases of senders and links (S-186 to S-189). A sender shifts the times at which packets leave, and a link
 * that is busy the times at which it has sent them, by a random share of a packet time that is drawn again every 16
 * packets. Mean rates do not change, and packets are never reordered.
 *
 * Not here: when TRY-SEND asks (sender.c), and the queue of a link (link.c).
 *
 * Invariants: 0 <= offset < 1, 0 <= stretch < 2, and n of a flow is below ECC_PHASE_PACKETS.
 */

#include "link/phase.h"

#include "link/link.h"

/* A share of a duration. */
static ecc_ps_t
scaled(ecc_ps_t time, double share)
{
    return ecc_clock_round((double) time * share);
}

/* Draws a new offset; returns 1 plus its difference to the old one. */
static double
redraw(ecc_phase_t *phase)
{
    double before = phase->offset;

    phase->offset = ecc_random_next(&phase->random);
    return 1.0 + (phase->offset - before);
}

void
ecc_phase_init_flow(ecc_engine_t *self, uint32_t index)
{
    ecc_phase_t *phase = &self->phases[index];
    uint64_t stream = ECC_RANDOM_OF_PHASES + (uint64_t) self->flows[index].number;

    *phase = (ecc_phase_t) { .random = ecc_random_stream(self->seed, stream), .stretch = 1.0 };
    phase->offset = ecc_random_next(&phase->random);
    phase->n = (uint32_t) ecc_random_between(&phase->random, 0, ECC_PHASE_PACKETS - 1);
}

void
ecc_phase_start(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t size = ecc_state_largest_size(flow) + flow->spec->header_bytes;

    for (int64_t k = 0; k < flow->spec->n_forward; k++) {
        ecc_link_state_t *link = &self->links[self->hops[flow->position + k] >> ECC_HOP_LINK];
        ecc_ps_t time = ecc_clock_tx(size, ecc_link_capacity(self, link));
        if (time > self->phases[index].packet_time) {
            self->phases[index].packet_time = time;
        }
    }
}

void
ecc_phase_sent(ecc_engine_t *self, uint32_t index)
{
    ecc_phase_t *phase = &self->phases[index];

    phase->stretch = 1.0;
    if (++phase->n == ECC_PHASE_PACKETS) {
        phase->n = 0;
        phase->stretch = redraw(phase);
    }
}

/* Whether a segment that nothing else delays waits for the phase (S-187.2). */
static bool
waits(const ecc_flow_state_t *flow)
{
    return flow->spec->phase_jitter == ECC_PHASE_ALWAYS || flow->last_size == 0;
}

bool
ecc_phase_is_drawn(const ecc_engine_t *self, uint32_t index, int64_t size)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return waits(flow)
        || (flow->rate > 0.0
            && ecc_clock_tx(size + flow->spec->header_bytes, flow->rate) <= self->phases[index].packet_time);
}

ecc_ps_t
ecc_phase_due(const ecc_engine_t *self, uint32_t index, int64_t size, ecc_ps_t ready)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_phase_t *phase = &self->phases[index];
    uint32_t node = self->base[ECC_EVENT_SEND] + index;
    ecc_ps_t spread = phase->packet_time;
    ecc_ps_t due;

    if (flow->rate > 0.0 && flow->last_size > 0) {
        due = ecc_clock_add(flow->last_sent_at, scaled(flow->pacing_gap, phase->stretch));
        if (due >= ready) {
            return due;
        }
    } else if (flow->rate > 0.0) {
        ecc_ps_t gap = ecc_clock_tx(size + flow->spec->header_bytes, flow->rate);
        spread = gap > spread ? gap : spread;
    }
    due = waits(flow) ? ecc_clock_add(ready, scaled(spread, phase->offset)) : ready;
    if (ecc_calendar_pending(&self->fast, node)) {
        ecc_ps_t pending = self->fast.nodes[node].time;
        due = pending >= ready && pending < due ? pending : due;
    }
    return due;
}

void
ecc_phase_init_link(ecc_engine_t *self, uint32_t index)
{
    self->link_phases[index]
        = (ecc_phase_t) { .random = ecc_random_stream(self->seed, ECC_RANDOM_OF_LINK_PHASES + index), .stretch = 1.0 };
}

ecc_ps_t
ecc_phase_transmission(ecc_engine_t *self, uint32_t index, ecc_ps_t from, int64_t size)
{
    ecc_phase_t *phase = &self->link_phases[index];
    ecc_ps_t time = ecc_clock_tx(size, self->links[index].capacity);

    if (from > self->links[index].free_at) {
        phase->n = 0;
        phase->offset = 0.0;
    } else if (phase->n == ECC_PHASE_PACKETS) {
        phase->n = 0;
        time = scaled(time, redraw(phase));
        time = time < 1 ? 1 : time;
    }
    phase->n++;
    return time;
}
