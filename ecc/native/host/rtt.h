#ifndef ECC_RTT_H
#define ECC_RTT_H

/* RTTs that ACKs measure (S-47, S-197). */

#include "core/state.h"
#include "host/monitor.h"

/* S-47: the last, the smoothed and the minimum RTT; `sample` updates the smoothed one. */
static ECC_HOT void
ecc_rtt_update(ecc_engine_t *self, uint32_t index, double rtt, double sample)
{
    ecc_flow_state_t *flow = &self->flows[index];

    flow->rtt = rtt;
    if (flow->srtt == 0.0) {
        flow->srtt = rtt;
        flow->min_rtt = rtt;
        flow->packet_size = flow->full_size;
        flow->changed = true; /* the window may have room for an opening packet and not for a full one */
    } else {
        flow->srtt += (sample - flow->srtt) / 8.0;
        flow->min_rtt = rtt < flow->min_rtt ? rtt : flow->min_rtt;
    }
    if (index < self->n_rtts) { /* S-197: RTTs of the next sample */
        ecc_rtts_t *rtts = &self->rtts[index];
        rtts->sum += rtt;
        rtts->peak = rtt > rtts->peak ? rtt : rtts->peak;
        rtts->count++;
        if (self->monitor_of != NULL && self->monitor_of[index] != 0) {
            ecc_monitor_add(self, &self->monitors[self->monitor_of[index] - 1], rtt);
        }
    }
}

#endif
