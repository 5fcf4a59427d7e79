#ifndef ECC_MONITOR_H
#define ECC_MONITOR_H

/* Monitor intervals of flows: what a sender has sent, learned and measured between two observations (S-224, S-225). */

#include "core/state.h"

/* Entries that the table of RTTs needs: up to the last flow that is sampled or monitored. */
uint32_t ecc_monitor_n_rtts(const ecc_config_t *config);

/* Allocates the monitors, which the table of RTTs refers to; free releases them, and is legal without any. */
ECC_MUST_CHECK int ecc_monitor_init(ecc_engine_t *self, const ecc_config_t *config);
void ecc_monitor_free(ecc_engine_t *self);

/* Begins all intervals now. */
void ecc_monitor_begin(ecc_engine_t *self);

/* Makes room for more RTTs; false without memory, and the run ends after its current event. */
bool ecc_monitor_grow(ecc_engine_t *self, ecc_monitor_t *monitor);

/* An ACK has measured an RTT. */
static inline void
ecc_monitor_add(ecc_engine_t *self, ecc_monitor_t *monitor, double rtt)
{
    if (monitor->n_rtts < monitor->room || ecc_monitor_grow(self, monitor)) {
        monitor->rtts[monitor->n_rtts] = rtt;
        monitor->n_rtts++;
    }
}

/* Returns the interval of a monitor so far. */
ecc_observation_t ecc_monitor_read(ecc_engine_t *self, const ecc_monitor_t *monitor);

/* Checks every invariant: 0 or a code. */
ECC_MUST_CHECK int ecc_monitor_verify(const ecc_engine_t *self);

#endif
