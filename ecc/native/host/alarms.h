#ifndef ECC_ALARMS_H
#define ECC_ALARMS_H

/*
 * Several timers of the hooks of a flow, which share its one TIMER (S-49), also that of its receiver (S-210), and a
 * count of the bytes that it sends (S-128). Flows whose hooks use none of these have no such record.
 */

#include "core/state.h"

/* Whether a flow has several timers or a report timer, or counts what it sends. */
bool ecc_alarms_are_needed(const ecc_flow_t *spec);

void ecc_alarms_init(ecc_engine_t *self, uint32_t flow);

static inline bool
ecc_alarms_has_timers(const ecc_flow_t *spec)
{
    return (spec->n_timers > 1 && spec->on_timer != NULL) || spec->on_report != NULL;
}

/* A timer is set to a time, or to ECC_NEVER. */
void ecc_alarms_set(ecc_engine_t *self, uint32_t flow, int timer, ecc_ps_t time);

/* TIMER: returns the number of the timer that has expired, and clears it. */
int ecc_alarms_expire(ecc_engine_t *self, uint32_t flow);

/* Sets TIMER to the first expiry. */
void ecc_alarms_schedule(ecc_engine_t *self, uint32_t flow);

/* Whether the bytes sent have reached the count, which is then cleared. */
bool ecc_alarms_has_counted(ecc_engine_t *self, uint32_t flow);

/* TIMER is pending when the first timer expires. */
ECC_MUST_CHECK int ecc_alarms_verify(const ecc_engine_t *self, uint32_t flow);

#endif
