/*
 * The timers of a flow that has several (S-49) or that of its receiver (S-210), and what it counts of what it sends
 * (S-128).
 *
 * The calendar holds one TIMER a flow, that of the timer which expires first; of several at one instant each has an
 * event of its own, in the order of their numbers. Invariant (ecc_alarms_verify): TIMER is pending where a timer is
 * set.
 *
 * Not here: what hooks ask for, and their calls (flow_hooks.c, host.c, sender.c).
 */

#include "host/alarms.h"

#include <assert.h>

bool
ecc_alarms_are_needed(const ecc_flow_t *spec)
{
    return spec->on_count != NULL || spec->n_timers > 1 || spec->on_report != NULL;
}

void
ecc_alarms_init(ecc_engine_t *self, uint32_t index)
{
    ecc_alarms_t *alarms = &self->alarms[index];

    for (int k = 0; k < ECC_N_ALARMS; k++) {
        alarms->timers[k] = ECC_NEVER;
    }
    alarms->count = INT64_MAX;
}

static int
first(const ecc_alarms_t *alarms)
{
    int found = 0;

    for (int k = 1; k < ECC_N_ALARMS; k++) {
        found = alarms->timers[k] < alarms->timers[found] ? k : found;
    }
    return found;
}

void
ecc_alarms_schedule(ecc_engine_t *self, uint32_t index)
{
    const ecc_alarms_t *alarms = &self->alarms[index];
    uint32_t node = self->base[ECC_EVENT_TIMER] + index;
    ecc_ps_t time = alarms->timers[first(alarms)];

    if (time < ECC_NEVER) {
        ecc_calendar_move(&self->slow, node, time);
    } else {
        ecc_calendar_cancel(&self->slow, node);
    }
}

void
ecc_alarms_set(ecc_engine_t *self, uint32_t index, int timer, ecc_ps_t time)
{
    self->alarms[index].timers[timer] = time;
    ecc_alarms_schedule(self, index);
}

int
ecc_alarms_expire(ecc_engine_t *self, uint32_t index)
{
    ecc_alarms_t *alarms = &self->alarms[index];
    int timer = first(alarms);

    assert(alarms->timers[timer] == self->now);
    alarms->timers[timer] = ECC_NEVER;
    ecc_alarms_schedule(self, index);
    return timer;
}

bool
ecc_alarms_has_counted(ecc_engine_t *self, uint32_t index)
{
    ecc_alarms_t *alarms = &self->alarms[index];

    if (self->flows[index].sent < alarms->count) {
        return false;
    }
    alarms->count = INT64_MAX;
    return true;
}

int
ecc_alarms_verify(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_t *spec = self->flows[index].spec;
    const ecc_alarms_t *alarms = &self->alarms[index];
    ecc_ps_t time = alarms->timers[first(alarms)];
    bool valid = !ecc_alarms_has_timers(spec)
        || self->slow.nodes[self->base[ECC_EVENT_TIMER] + index].time == (time < ECC_NEVER ? time : ECC_NOT_PENDING);

    return valid ? 0 : ECC_ERR_BROKEN;
}
