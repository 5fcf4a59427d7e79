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
    ecc_ps_t wait;

    if (flow->has_quic && is_measured) {
        wait = ecc_quic_probe_timeout(self, index);
    } else if (flow->reliable && is_measured) {
        wait = ecc_transport_rto(&self->transports[index], flow);
    } else {
        ecc_ps_t least = flow->spec->min_rto;
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

/*
 * A lower bound of ecc_timer_wait of a reliable flow. It takes no calculation, and often suffices to see that nothing
 * changes.
 */
static ecc_ps_t
least_wait(const ecc_engine_t *self, uint32_t index)
{
    return self->flows[index].has_quic ? 0 : self->transports[index].min_rto;
}

/* Whether TIMEOUT is pending at a time, or before it. */
static bool
is_pending_by(const ecc_engine_t *self, uint32_t index, ecc_ps_t time)
{
    uint32_t node = self->base[ECC_EVENT_TIMEOUT] + index;

    return ecc_calendar_pending(&self->slow, node) && self->slow.nodes[node].time <= time;
}

/* TIMEOUT is pending at a time, or before it, from now on. */
static inline void
expire_by(ecc_engine_t *self, uint32_t index, ecc_ps_t time)
{
    if (!is_pending_by(self, index, time)) {
        self->flows[index].timeout_pending = true;
        ecc_calendar_move(&self->slow, self->base[ECC_EVENT_TIMEOUT] + index, time);
    }
}

/* S-87: restart the retransmission timer. */
void
ecc_timer_start(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->timer_start = self->now;
    flow->timeout_pending = true;
    if (!is_pending_by(self, index, ecc_clock_add(self->now, least_wait(self, index)))) {
        expire_by(self, index, ecc_clock_add(self->now, ecc_timer_wait(self, index)));
    }
}

/* S-153: TIMEOUT is pending when the wait of a transport of type 3 ends, or before that. */
void
ecc_timer_await(ecc_engine_t *self, uint32_t index)
{
    if (self->racks[index].awaits != ECC_AWAITS_NOTHING) {
        expire_by(self, index, self->racks[index].wait_until);
    }
}

/* S-153: waits to send a probe, unless the flow waits for reordered packets. */
void
ecc_timer_await_probe(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_rack_t *rack = &self->racks[index];
    ecc_ps_t time;

    if (rack->awaits == ECC_AWAITS_REORDERING) {
        return;
    }
    rack->awaits = ecc_rack_may_probe(self, index) ? ECC_AWAITS_PROBE : ECC_AWAITS_NOTHING;
    if (rack->awaits == ECC_AWAITS_PROBE) {
        time = ecc_clock_add(self->now, ecc_rack_probe_timeout(self, index));
        if (time > ecc_clock_add(flow->timer_start, least_wait(self, index))) {
            ecc_ps_t latest = ecc_clock_add(flow->timer_start, ecc_timer_wait(self, index));
            time = time < latest ? time : latest;
        }
        rack->wait_until = time > self->now ? time : self->now;
        expire_by(self, index, rack->wait_until);
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
    ecc_ps_t deadline = ecc_timer_deadline(self, index);

    if (deadline < ECC_NEVER) {
        expire_by(self, index, deadline > self->now ? deadline : self->now);
    }
}

ECC_COLD void
ecc_timer_begin(ecc_engine_t *self, uint32_t index)
{
    self->flows[index].timeout_pending = true;
    ecc_calendar_insert(
        &self->slow, self->base[ECC_EVENT_TIMEOUT] + index, ecc_clock_add(self->now, ecc_timer_wait(self, index)));
}
