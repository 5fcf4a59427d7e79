/*
 * The pacer of a window protocol: a credit that grows at a multiple of the window per RTT (S-222).
 *
 * Not here: the flows that a rate paces, and the bytes that a packet takes from the credit (sender.c).
 */

#include "host/pacer.h"

ecc_ps_t
ecc_pacer_wait(ecc_engine_t *self, uint32_t index, int32_t size)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_pacer_t *pacer = &self->pacers[index];
    double burst = (double) flow->spec->pacing_burst;
    double rate = flow->srtt > 0.0 ? flow->spec->pacing_gain * flow->window / flow->srtt : 0.0; /* bytes/s */
    double credit = pacer->credit + rate * ecc_clock_seconds(self->now - pacer->at);
    ecc_ps_t wait;

    pacer->credit = credit < burst ? credit : burst;
    pacer->at = self->now;
    if (rate == 0.0 || pacer->credit >= (double) size) {
        return 0;
    }
    wait = ecc_clock_ps(((double) size - pacer->credit) / rate);
    return wait > 0 ? wait : 1;
}
