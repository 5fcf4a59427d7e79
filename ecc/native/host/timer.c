/*
 * The retransmission timer of a flow (S-42, S-87, S-88), and the waits of transports of type 3 (S-153), which share its
 * TIMEOUT.
 *
 * Not here: what a TIMEOUT does (timeout.c), and the timers of hooks (alarms.c).
 */

#include "host/timer.h"

#include "host/flow.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/transport.h"

#define MAX_TIMEOUT (INT64_C(64000000000000)) /* maximum by doubling */

/* S-42, S-88, S-219: rto, doubled for each timeout, up to 64 s unless the type is 4. */
ecc_ps_t
ecc_timer_wait(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_measured = flow->srtt > 0.0;
    ecc_ps_t least = flow->spec->min_rto;
    ecc_ps_t wait;

    if (flow->has_quic && is_measured) {
        wait = ecc_quic_probe_timeout(self, index);
    } else if (flow->reliable && is_measured) {
        wait = ecc_transport_rto(&self->transports[index], flow);
    } else {
        wait = ecc_clock_ps(3.0 * (is_measured ? flow->srtt : ecc_clock_seconds(ecc_flow_first_rtt(self, index))));
        if (flow->reliable && flow->spec->initial_rto > least) {
            least = flow->spec->initial_rto;
        }
        wait = wait > least ? wait : least;
    }
    if (flow->has_quic) { /* RFC 9002, 6.2.1: each probe timeout doubles it */
        return wait <= ECC_NEVER >> flow->n_timeouts ? wait << flow->n_timeouts : ECC_NEVER;
    }
    if (wait >= MAX_TIMEOUT) {
        return wait;
    }
    wait <<= flow->n_timeouts;
    return wait < MAX_TIMEOUT ? wait : MAX_TIMEOUT;
}

/* S-87: restart the retransmission timer. */
void
ecc_timer_start(ecc_engine_t *self, uint32_t index)
{
    uint32_t node = self->base[ECC_EVENT_TIMEOUT] + index;
    ecc_ps_t deadline = ecc_clock_add(self->now, ecc_timer_wait(self, index));

    self->flows[index].timer_start = self->now;
    self->flows[index].timeout_pending = true;
    if (!ecc_calendar_pending(&self->slow, node) || self->slow.nodes[node].time > deadline) {
        ecc_calendar_move(&self->slow, node, deadline);
    }
}

/* S-153: TIMEOUT is pending when the wait of a transport of type 3 ends, or before that. */
void
ecc_timer_await(ecc_engine_t *self, uint32_t index)
{
    uint32_t node = self->base[ECC_EVENT_TIMEOUT] + index;
    ecc_ps_t time = self->racks[index].wait_until;

    if (self->racks[index].awaits != ECC_AWAITS_NOTHING
        && (!ecc_calendar_pending(&self->slow, node) || self->slow.nodes[node].time > time)) {
        self->flows[index].timeout_pending = true;
        ecc_calendar_move(&self->slow, node, time);
    }
}

/* S-153: waits to send a probe, unless the flow waits for reordered packets. */
void
ecc_timer_await_probe(ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    ecc_ps_t time;
    ecc_ps_t latest;

    if (rack->awaits == ECC_AWAITS_REORDERING) {
        return;
    }
    rack->awaits = ecc_rack_may_probe(self, index) ? ECC_AWAITS_PROBE : ECC_AWAITS_NOTHING;
    if (rack->awaits == ECC_AWAITS_PROBE) {
        time = ecc_clock_add(self->now, ecc_rack_probe_timeout(self, index));
        latest = ecc_clock_add(self->flows[index].timer_start, ecc_timer_wait(self, index));
        time = time < latest ? time : latest;
        rack->wait_until = time > self->now ? time : self->now;
        ecc_timer_await(self, index);
    }
}

ecc_ps_t
ecc_timer_deadline(ecc_engine_t *self, uint32_t index)
{
    const ecc_quic_t *quic = &self->quics[index];

    if (quic->loss_time < ECC_NEVER || quic->in_flight == 0) {
        return quic->loss_time;
    }
    return ecc_clock_add(self->flows[index].timer_start, ecc_timer_wait(self, index));
}

void
ecc_timer_await_packets(ecc_engine_t *self, uint32_t index)
{
    uint32_t node = self->base[ECC_EVENT_TIMEOUT] + index;
    ecc_ps_t deadline = ecc_timer_deadline(self, index);

    if (deadline < ECC_NEVER && (!ecc_calendar_pending(&self->slow, node) || self->slow.nodes[node].time > deadline)) {
        self->flows[index].timeout_pending = true;
        ecc_calendar_move(&self->slow, node, deadline > self->now ? deadline : self->now);
    }
}

ECC_COLD void
ecc_timer_begin(ecc_engine_t *self, uint32_t index)
{
    self->flows[index].timeout_pending = true;
    ecc_calendar_insert(
        &self->slow, self->base[ECC_EVENT_TIMEOUT] + index, ecc_clock_add(self->now, ecc_timer_wait(self, index)));
}
