/*
 * TIMEOUT of a flow (S-50, S-154): data in flight is abandoned or sent again, and on_loss is called.
 *
 * Not here: when the timer expires (timer.c).
 */

#include "host/timeout.h"

#include "host/acks.h"
#include "host/flow_hooks.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/sender.h"
#include "host/timer.h"
#include "host/transport.h"

/* S-50: abandons the data in flight. */
static void
abandon(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->lost += ecc_state_in_flight(flow);
    flow->expected = flow->sent;
    flow->timer_start = self->now;
    if (flow->needs_receiver) {
        self->receivers[index].sender_base = flow->sent;
        self->receivers[index].sender_missing = 0;
    }
}

/* S-154: the end of a wait of a transport of type 3. */
static int
end_wait(ecc_engine_t *self, uint32_t index)
{
    ecc_rack_t *rack = &self->racks[index];
    bool is_probe = rack->awaits == ECC_AWAITS_PROBE;
    ecc_ack_effect_t effect = { 0 };
    int ret;

    if (is_probe) {
        rack->awaits = ECC_AWAITS_NOTHING;
        rack->wants_probe = true;
    } else {
        effect.begins_recovery = ecc_rack_find_losses(self, index);
    }
    if (is_probe || effect.begins_recovery) {
        ecc_timer_start(self, index);
    } else {
        ecc_ps_t deadline = ecc_clock_add(self->flows[index].timer_start, ecc_timer_wait(self, index));
        self->flows[index].timeout_pending = true;
        ecc_calendar_move(
            &self->slow, self->base[ECC_EVENT_TIMEOUT] + index, deadline > self->now ? deadline : self->now);
    }
    ecc_timer_await(self, index);
    ret = ecc_acks_respond(self, index, &effect);
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}

/* S-219: TIMEOUT of a transport of type 4. */
static int
expire_packets(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_quic_t *quic = &self->quics[index];
    ecc_ps_t deadline = ecc_timer_deadline(self, index);
    ecc_ack_effect_t effect = { 0 };
    int ret = 0;

    if (!flow->active || deadline == ECC_NEVER) {
        return 0;
    }
    if (deadline <= self->now && quic->loss_time < ECC_NEVER) {
        ret = ecc_quic_find_losses(self, index, &effect);
    } else if (deadline <= self->now) {
        flow->n_timeouts = (uint8_t) (flow->n_timeouts + (flow->n_timeouts < ECC_MAX_PROBE_BACKOFFS));
        ecc_quic_request_probes(quic);
    }
    if (ret != 0) {
        return ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, (double) quic->next);
    }
    ecc_timer_await_packets(self, index);
    if (deadline > self->now) {
        return 0;
    }
    ret = ecc_acks_respond(self, index, &effect);
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}

int
ecc_timeout_expire(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t deadline = ecc_clock_add(flow->timer_start, ecc_timer_wait(self, index));
    bool waits = flow->has_rack && self->racks[index].awaits != ECC_AWAITS_NOTHING;
    int ret = 0;

    ecc_state_trace_flow(self, ECC_EVENT_TIMEOUT, index, ecc_state_in_flight(flow));
    flow->timeout_pending = false;
    if (flow->has_quic) {
        return expire_packets(self, index);
    }
    if (ecc_state_in_flight(flow) == 0 || (flow->reliable && !flow->active)) {
        return 0;
    }
    if (waits && self->racks[index].wait_until <= self->now) {
        return end_wait(self, index);
    }
    if (waits && self->racks[index].wait_until < deadline) {
        deadline = self->racks[index].wait_until;
    }
    if (deadline > self->now) {
        flow->timeout_pending = true;
        ecc_calendar_insert(&self->slow, self->base[ECC_EVENT_TIMEOUT] + index, deadline);
        return 0;
    }
    flow->n_timeouts = (uint8_t) (flow->n_timeouts + (flow->n_timeouts < ECC_MAX_BACKOFFS));
    if (flow->uses_prr) {
        self->prrs[index].until = 0;
    }
    if (flow->has_rack) {
        ecc_rack_time_out(self, index);
        ecc_timer_start(self, index);
    } else if (flow->reliable) {
        ecc_transport_time_out(&self->transports[index]);
        ecc_timer_start(self, index);
    } else {
        abandon(self, index);
    }
    if (flow->active) {
        ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_LOSS, flow->spec->on_loss, ECC_LOSS_TIMEOUT);
    }
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}
