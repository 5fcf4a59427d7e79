/*
 * Hooks of flows (S-98 to S-104): env is filled, the hook is called, and what it wrote is checked and adopted.
 *
 * Not here: when a hook is called (host.c, sender.c); the hooks of routers (router.c).
 */

#include "host/flow_hooks.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "host/alarms.h"
#include "host/transport.h"

/* S-76: fields that differ for a reliable flow. */
static ECC_HOT void
fill_transport(ecc_engine_t *self, uint32_t index, int hook_number, int64_t kind)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_transport_t *transport = &self->transports[index];
    ecc_flow_env_t *env = &self->flow_env;

    env->in_flight = hook_number != ECC_FLOW_ON_LOSS
        ? ecc_transport_in_flight(self, index)
        : (kind == ECC_LOSS_GAP ? transport->flight_end : transport->snd_nxt) - transport->snd_una;
    if (flow->has_quic) {
        env->in_flight = self->quics[index].in_flight;
    }
    env->transport = flow->has_quic ? ECC_TRANSPORT_QUIC
        : flow->has_rack            ? ECC_TRANSPORT_RACK
        : flow->uses_sack           ? ECC_TRANSPORT_SACK
                                    : ECC_TRANSPORT_CUMULATIVE;
    env->recovering = transport->recovering;
    env->recovered = hook_number == ECC_FLOW_ON_ACK && transport->recovered;
    env->undone = hook_number == ECC_FLOW_ON_ACK && flow->has_rack && self->racks[index].undone;
}

/* S-102: fills env, except for the random number. */
static ECC_HOT void
fill_env(ecc_engine_t *self, int hook_number, ecc_hook_packet_t packet, bool plain)
{
    uint32_t index = (uint32_t) packet.flow;
    const ecc_flow_state_t *restrict flow = &self->flows[index];
    ecc_flow_env_t *restrict env = &self->flow_env;

    env->now = ecc_clock_seconds(self->now);
    env->packet_size = packet.size;
    env->rtt = flow->rtt;
    env->srtt = flow->srtt;
    env->min_rtt = flow->min_rtt;
    env->in_flight = ecc_state_in_flight(flow);
    env->delivered = flow->expected - flow->lost;
    env->lost = flow->lost;
    env->rate = flow->rate;
    env->window = flow->window;
    env->timer = -1.0;
    env->kind = packet.kind;
    env->flow = plain ? (int64_t) index : ecc_state_number(self, index);
    env->random = 0.0;
    env->size = flow->size;
    env->unsent = plain || (flow->size < 0 && !flow->has_writes)
        ? ECC_NO_END
        : ecc_state_written(self, flow, self->now) - ecc_state_taken(flow);
    env->header_bytes = !plain && flow->has_header_bytes ? flow->spec->header_bytes : 0;
    env->acked = self->acked;
    env->recovering = 0;
    env->recovered = 0;
    env->undone = 0;
    env->marked = plain ? 0 : self->marked;
    env->ece = plain ? 0 : self->ece;
    env->timer_1 = -1.0;
    env->timer_2 = -1.0;
    env->timer_3 = -1.0;
    env->counter = 0;
    env->control_size = 0;
    env->control_kind = 0;
    env->limited_by = flow->limited_by;
    env->idle = plain ? 0.0 : self->idle;
    env->rto = plain ? 0.0 : self->rto;
    env->transport = ECC_TRANSPORT_NONE;
    if (!plain && flow->reliable) {
        fill_transport(self, index, hook_number, packet.kind);
    }
}

ECC_COLD static int
fail_hook(ecc_engine_t *self, uint32_t index, int hook_number, int32_t returned)
{
    (void) ecc_state_fail_flow(self, ECC_ERR_HOOK_FAILED, index, hook_number, returned);
    self->report.failed = 1;
    return ECC_ERR_HOOK_FAILED;
}

/* Calls a hook of the flow of a packet. */
static ECC_HOT int
call(ecc_engine_t *self, int hook_number, ecc_hook_t hook, ecc_hook_packet_t packet, bool plain)
{
    uint32_t index = (uint32_t) packet.flow;
    ecc_flow_state_t *flow = &self->flows[index];
    int32_t ret;

    fill_env(self, hook_number, packet, plain);
    if (!plain && flow->wants_random) {
        self->flow_env.random = ecc_random_next(&flow->random);
    }
    ret = hook(flow->state, packet.header + flow->header_offset, flow->params, &self->flow_env);
    return ret == 0 ? 0 : fail_hook(self, index, hook_number, ret);
}

/* Adopts a timer that a hook has set, if the flow has the hook that it calls. */
static int
set_timer(ecc_engine_t *self, uint32_t index, int hook_number, int timer, double seconds)
{
    const ecc_flow_t *spec = self->flows[index].spec;
    ecc_ps_t wait;
    ecc_ps_t time;

    if (isnan(seconds)) {
        return ecc_state_fail_flow(self, ECC_ERR_TIMER, index, hook_number, seconds);
    }
    if (spec->on_timer == NULL && timer != ECC_REPORT_TIMER) {
        return 0;
    }
    wait = ecc_clock_ps(seconds);
    time = ecc_clock_add(self->now, wait < 1 ? 1 : wait);
    if (ecc_alarms_has_timers(spec)) {
        ecc_alarms_set(self, index, timer, time);
    } else {
        ecc_calendar_move(&self->slow, self->base[ECC_EVENT_TIMER] + index, time);
    }
    return 0;
}

/* Adopts the timers after the first, and the count. */
static int
adopt_alarms(ecc_engine_t *self, uint32_t index, int hook_number)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_flow_env_t *env = &self->flow_env;
    const double timers[ECC_MAX_TIMERS] = { env->timer, env->timer_1, env->timer_2, env->timer_3 };
    int ret = 0;

    for (int k = 1; k < flow->spec->n_timers && ret == 0; k++) {
        ret = timers[k] < 0.0 ? 0 : set_timer(self, index, hook_number, k, timers[k]);
    }
    if (env->counter >= 1) {
        self->alarms[index].count = env->counter < INT64_MAX - flow->sent ? flow->sent + env->counter : INT64_MAX;
    }
    return ret;
}

ECC_COLD static int
adopt_rate(ecc_engine_t *self, uint32_t index, int hook_number)
{
    ecc_flow_state_t *flow = &self->flows[index];
    double rate = self->flow_env.rate;

    if (!(rate >= 0.0 && isfinite(rate))) {
        return ecc_state_fail_flow(self, ECC_ERR_RATE, index, hook_number, rate);
    }
    flow->rate = rate;
    flow->pacing_gap = flow->last_size > 0 && rate > 0.0 ? ecc_clock_tx(flow->last_size, rate) : 0;
    flow->changed = true;
    return 0;
}

static int
adopt_window(ecc_engine_t *self, uint32_t index, int hook_number)
{
    double window = self->flow_env.window;

    if (!(window >= 0.0 && isfinite(window))) {
        return ecc_state_fail_flow(self, ECC_ERR_WINDOW, index, hook_number, window);
    }
    self->flows[index].window = window;
    self->flows[index].changed = true;
    if (window == 0.0 && self->flows[index].limited_by == ECC_LIMIT_WINDOW) {
        self->flows[index].limited_by = ECC_LIMIT_PACER;
    }
    return 0;
}

/* S-104: adopts rate, window and timers; an invalid value stops the run. */
static ECC_HOT int
adopt(ecc_engine_t *self, uint32_t index, int hook_number, bool plain)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_flow_env_t *env = &self->flow_env;
    int ret = 0;

    if (env->rate != flow->rate) {
        ret = adopt_rate(self, index, hook_number);
    }
    if (ret == 0 && env->window != flow->window) {
        ret = adopt_window(self, index, hook_number);
    }
    if (ret == 0 && !(env->timer < 0.0)) {
        ret = set_timer(self, index, hook_number, 0, env->timer);
    }
    return ret == 0 && !plain && flow->has_alarms ? adopt_alarms(self, index, hook_number) : ret;
}

void
ecc_flow_hooks_set(ecc_engine_t *self, uint32_t index, double rate, double window)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int ret = 0;

    self->flow_env.rate = rate;
    self->flow_env.window = window;
    if (rate != flow->rate) {
        ret = adopt_rate(self, index, ECC_NO_HOOK);
    }
    if (window != flow->window) {
        ret = adopt_window(self, index, ECC_NO_HOOK);
    }
    assert(ret == 0);
    (void) ret;
}

/* Calls a hook and adopts what it wrote. */
static ECC_HOT int
call_and_adopt(ecc_engine_t *self, int hook_number, ecc_hook_t hook, ecc_hook_packet_t packet, bool plain)
{
    int ret = call(self, hook_number, hook, packet, plain);

    return ret == 0 ? adopt(self, (uint32_t) packet.flow, hook_number, plain) : ret;
}

/* A packet as the hooks of its flow see it. */
static inline ecc_hook_packet_t
seen(const ecc_packet_t *packet, int64_t kind)
{
    return (ecc_hook_packet_t) { ecc_packets_header(packet), packet->size, packet->flow, kind, 0 };
}

/* S-101: hooks without a packet see a header of zeros, and the size of the next packet. */
static ecc_hook_packet_t
without_packet(ecc_engine_t *self, uint32_t index, int64_t kind)
{
    memset(self->scratch, 0, self->header_size);
    return (ecc_hook_packet_t) { self->scratch, ecc_state_largest_size(&self->flows[index]), index, kind, 0 };
}

double
ecc_flow_hooks_least_timer(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_env_t *env = &self->flow_env;
    const double timers[ECC_MAX_TIMERS] = { env->timer, env->timer_1, env->timer_2, env->timer_3 };
    double least = timers[0];

    for (int k = 1; k < self->flows[index].spec->n_timers; k++) {
        least = timers[k] >= 0.0 && (least < 0.0 || timers[k] < least) ? timers[k] : least;
    }
    return least;
}

const ecc_flow_env_t *
ecc_flow_hooks_env(ecc_engine_t *self, uint32_t index)
{
    ecc_hook_packet_t none = { .size = ecc_state_largest_size(&self->flows[index]), .flow = index };

    fill_env(self, ECC_NO_HOOK, none, false);
    return &self->flow_env;
}

int
ecc_flow_hooks_call(ecc_engine_t *self, int hook_number, ecc_hook_t hook, const ecc_packet_t *packet, int64_t kind)
{
    return call_and_adopt(self, hook_number, hook, seen(packet, kind), false);
}

int
ecc_flow_hooks_call_plain(ecc_engine_t *self, int hook_number, ecc_hook_t hook, const ecc_packet_t *packet)
{
    return call_and_adopt(self, hook_number, hook, seen(packet, 0), true);
}

int
ecc_flow_hooks_without_packet(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook, int64_t kind)
{
    if (hook == NULL) {
        return 0;
    }
    return call_and_adopt(self, hook_number, hook, without_packet(self, index, kind), false);
}

/* S-210: a hook of the receiver of an active flow has set the report timer. */
static int
adopt_report_timer(ecc_engine_t *self, uint32_t index, int hook_number)
{
    double timer = self->flow_env.timer;
    bool is_set = self->flows[index].active && !(timer < 0.0);

    return is_set ? set_timer(self, index, hook_number, ECC_REPORT_TIMER, timer) : 0;
}

int
ecc_flow_hooks_report(ecc_engine_t *self, uint32_t index)
{
    int ret = call(self, ECC_FLOW_ON_REPORT, self->flows[index].spec->on_report, without_packet(self, index, 0), false);

    return ret == 0 ? adopt_report_timer(self, index, ECC_FLOW_ON_REPORT) : ret;
}

int
ecc_flow_hooks_receive(ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    int ret;

    if (!flow->has_receive) {
        self->flow_env.control_size = 0;
        return 0;
    }
    if (flow->can_be_marked && self->receivers[packet->flow].was_marked) {
        self->marked = packet->size;
    }
    ret = call(self, ECC_FLOW_ON_RECEIVE, flow->spec->on_receive, seen(packet, 0), false);
    self->marked = 0;
    return ret == 0 && flow->spec->on_report != NULL ? adopt_report_timer(self, packet->flow, ECC_FLOW_ON_RECEIVE)
                                                     : ret;
}

int
ecc_flow_hooks_control(ecc_engine_t *self, const ecc_packet_t *packet)
{
    ecc_hook_t hook = self->flows[packet->flow].spec->on_control;
    ecc_hook_packet_t control = seen(packet, packet->offset);

    control.size = -control.size;
    return call_and_adopt(self, ECC_FLOW_ON_CONTROL, hook, control, false);
}

int
ecc_flow_hooks_stop(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (flow->spec->on_stop == NULL) {
        return 0;
    }
    return call(self, ECC_FLOW_ON_STOP, flow->spec->on_stop, without_packet(self, index, 0), false);
}
