#ifndef ECC_ALARMS_H
#define ECC_ALARMS_H

/*
 * What the hooks of a flow await beyond one timer: several timers, which share the one TIMER of the flow (S-49), and a
 * count of the bytes that it sends (S-128). Flows whose hooks ask for neither have no such record.
 */

#include "core/state.h"

/* Whether a flow has several timers, or counts what it sends. */
bool ecc_alarms_are_needed(const ecc_flow_t *spec);

void ecc_alarms_init(ecc_engine_t *self, uint32_t flow);

static inline bool
ecc_alarms_has_timers(const ecc_flow_t *spec)
{
    return spec->n_timers > 1 && spec->on_timer != NULL;
}

/* A timer is set to a time, or to ECC_NEVER. */
void ecc_alarms_set(ecc_engine_t *self, uint32_t flow, int timer, ecc_ps_t time);

/* TIMER: the number of the timer that has expired, which is set no more. */
int ecc_alarms_expire(ecc_engine_t *self, uint32_t flow);

/* Sets TIMER to when the first timer expires. */
void ecc_alarms_schedule(ecc_engine_t *self, uint32_t flow);

/* What has been sent reaches the count, which is then set no more. */
bool ecc_alarms_has_counted(ecc_engine_t *self, uint32_t flow);

/* TIMER is pending when the first timer expires. */
ECC_MUST_CHECK int ecc_alarms_verify(const ecc_engine_t *self, uint32_t flow);

#endif
