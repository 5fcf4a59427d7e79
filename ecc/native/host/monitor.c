/*
 * Monitor intervals (S-224, S-225). Counters of an interval are differences of counters of the flow, so that packets
 * cost nothing; each RTT is kept until the interval is read, as the two halves of an interval are known only then.
 *
 * Not here: the measurement of RTTs (rtt.h), and when an interval ends (run/steps.c).
 *
 * Invariants (ecc_monitor_verify): an interval begins at or before now, with values of counters that the flow has had.
 */

#include "host/monitor.h"

#include "host/flow_hooks.h"

#define FIRST_ROOM 64 /* RTTs */

uint32_t
ecc_monitor_n_rtts(const ecc_config_t *config)
{
    int64_t n = config->samples.n_samples > 0 && config->samples.rtt != NULL ? config->samples.n_flows : 0;
    int64_t last = config->n_monitors > 0 ? config->monitors[config->n_monitors - 1] + 1 : 0;

    return (uint32_t) (last > n ? last : n);
}

int
ecc_monitor_init(ecc_engine_t *self, const ecc_config_t *config)
{
    size_t n = config->n_monitors > 0 ? (size_t) config->n_monitors : 0;
    void *block = NULL;
    int ret;

    if (n == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, 0, n * sizeof(*self->monitors), &block);
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) n);
    }
    self->monitors = block;
    self->n_monitors = n;
    block = NULL;
    ret = ecc_memory_resize(&self->memory, 0, self->n_rtts * sizeof(*self->monitor_of), &block);
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) self->n_rtts);
    }
    self->monitor_of = block;
    for (size_t k = 0; k < n; k++) {
        self->monitors[k].flow = (uint32_t) config->monitors[k];
        self->monitor_of[self->monitors[k].flow] = (uint32_t) k + 1;
    }
    return 0;
}

void
ecc_monitor_free(ecc_engine_t *self)
{
    void *block = self->monitors;

    for (size_t k = 0; k < self->n_monitors; k++) {
        void *rtts = self->monitors[k].rtts;
        ecc_memory_release(&self->memory, self->monitors[k].room * sizeof(double), &rtts);
    }
    ecc_memory_release(&self->memory, self->n_monitors * sizeof(*self->monitors), &block);
    block = self->monitor_of;
    ecc_memory_release(&self->memory, self->n_rtts * sizeof(*self->monitor_of), &block);
    self->monitor_of = NULL;
    self->monitors = NULL;
    self->n_monitors = 0;
}

void
ecc_monitor_begin(ecc_engine_t *self)
{
    for (size_t k = 0; k < self->n_monitors; k++) {
        ecc_monitor_t *monitor = &self->monitors[k];
        const ecc_flow_state_t *flow = &self->flows[monitor->flow];
        monitor->since = self->now;
        monitor->sent = flow->sent;
        monitor->delivered = flow->expected - flow->lost;
        monitor->lost = flow->lost;
        monitor->n_rtts = 0;
    }
}

ECC_COLD bool
ecc_monitor_grow(ecc_engine_t *self, ecc_monitor_t *monitor)
{
    size_t room = monitor->room > 0 ? 2 * monitor->room : FIRST_ROOM;
    void *block = monitor->rtts;
    int ret;

    if (self->lacks_memory) {
        return false;
    }
    ret = ecc_memory_extend(&self->memory, monitor->room * sizeof(double), room * sizeof(double), &block);
    if (ret != 0) {
        self->lacks_memory = true;
        (void) ecc_state_fail_flow(self, ret, monitor->flow, ECC_NO_HOOK, (double) room);
        atomic_store_explicit(&self->last_event, 0, memory_order_relaxed);
        return false;
    }
    monitor->rtts = block;
    monitor->room = room;
    return true;
}

static double
sum_of(const double *values, size_t n)
{
    double sum = 0.0;

    for (size_t k = 0; k < n; k++) {
        sum += values[k];
    }
    return sum;
}

static double
min_of(const double *values, size_t n)
{
    double min = values[0];

    for (size_t k = 1; k < n; k++) {
        min = values[k] < min ? values[k] : min;
    }
    return min;
}

ecc_observation_t
ecc_monitor_read(ecc_engine_t *self, const ecc_monitor_t *monitor)
{
    const ecc_flow_state_t *flow = &self->flows[monitor->flow];
    const ecc_flow_env_t *env = ecc_flow_hooks_env(self, monitor->flow);
    size_t n = monitor->n_rtts;
    ecc_observation_t observation = {
        .now = ecc_clock_seconds(self->now),
        .duration = ecc_clock_seconds(self->now - monitor->since),
        .sent = (double) (flow->sent - monitor->sent),
        .delivered = (double) (env->delivered - monitor->delivered),
        .lost = (double) (env->lost - monitor->lost),
        .n_rtts = (double) n,
        .path_rtt = env->min_rtt,
        .srtt = env->srtt,
        .rate = env->rate,
        .window = env->window,
        .in_flight = (double) env->in_flight,
        .active = flow->active ? 1.0 : 0.0,
    };

    if (n > 0) {
        size_t half = n / 2;
        double first = sum_of(monitor->rtts, half);
        double last = sum_of(monitor->rtts + half, n - half);
        observation.rtt = (first + last) / (double) n;
        observation.rtt_first = half > 0 ? first / (double) half : observation.rtt;
        observation.rtt_second = last / (double) (n - half);
        observation.min_rtt = min_of(monitor->rtts, n);
    }
    return observation;
}

int
ecc_monitor_verify(const ecc_engine_t *self)
{
    bool valid = true;

    for (size_t k = 0; k < self->n_monitors; k++) {
        const ecc_monitor_t *monitor = &self->monitors[k];
        const ecc_flow_state_t *flow = &self->flows[monitor->flow];
        valid = valid && monitor->n_rtts <= monitor->room && monitor->since <= self->now && monitor->sent >= 0
            && monitor->sent <= flow->sent && monitor->delivered >= 0
            && monitor->delivered <= flow->expected - flow->lost && monitor->lost >= 0 && monitor->lost <= flow->lost;
    }
    return valid ? 0 : ECC_ERR_BROKEN;
}
