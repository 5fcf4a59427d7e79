/* Samples of flows, links and recorded fields (S-15 to S-18, S-197): they change nothing that events depend on. */

#include "run/samples.h"

#include <string.h>

#include "core/cut.h"
#include "link/link.h"
#include "link/pause.h"
#include "link/scheduler.h"
#include "host/flow_hooks.h"
#include "host/host.h"

/* S-197: mean and maximum of the RTTs since the last sample. */
static void
sample_rtts(ecc_engine_t *self, int64_t row)
{
    int64_t n = self->samples.rtt != NULL ? self->samples.n_flows : 0;

    for (uint32_t i = 0; i < n; i++) {
        ecc_rtts_t *rtts = &self->rtts[i];
        if (ecc_cut_has_sender(self, i)) {
            self->samples.rtt[row + i] = rtts->count > 0 ? rtts->sum / (double) rtts->count : 0.0;
            self->samples.rtt_peak[row + i] = rtts->peak;
            *rtts = (ecc_rtts_t) { 0 };
        }
    }
}

static void
sample_flows(ecc_engine_t *self)
{
    const ecc_samples_t *samples = &self->samples;
    int64_t row = self->n_sampled * samples->n_flows;

    for (int64_t i = 0; i < samples->n_flows; i++) {
        const ecc_flow_state_t *flow = &self->flows[i];
        if (ecc_cut_has_receiver(self, (uint32_t) i)) {
            ecc_host_catch_up(self, (uint32_t) i);
            samples->received[row + i] = flow->received;
        }
        if (!ecc_cut_has_sender(self, (uint32_t) i)) {
            continue;
        }
        samples->sent[row + i] = flow->sent;
        samples->bottleneck[row + i] = -1;
        if (flow->spec->bottleneck >= 0 && flow->started) {
            memcpy(&samples->bottleneck[row + i], (const char *) flow->state + flow->spec->bottleneck, sizeof(int64_t));
        }
    }
    sample_rtts(self, row);
}

static void
sample_links(ecc_engine_t *self)
{
    const ecc_samples_t *samples = &self->samples;
    int64_t row = self->n_sampled * self->n_links;
    int64_t k = samples->queues == NULL ? 0 : self->n_sampled * ecc_scheduler_n_sampled(self);

    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        if (!ecc_cut_has_link(self, i)) {
            k += ecc_scheduler_is_sampled(link) ? link->n_queues : 0;
            continue;
        }
        ecc_link_catch_up(self, link);
        samples->queue[row + i] = link->queue;
        samples->queue_peak[row + i] = link->queue_peak;
        samples->arrived[row + i] = link->arrived;
        samples->dropped[row + i] = link->dropped;
        if (samples->dropped_bytes != NULL) {
            samples->dropped_bytes[row + i] = link->dropped_bytes; /* S-196: bytes dropped or trimmed */
        }
        if (samples->marked != NULL) {
            samples->marked[row + i] = link->marked;
        }
        if (samples->queues != NULL && ecc_scheduler_is_sampled(link)) {
            for (const ecc_queue_t *queue = link->queues; queue < link->queues + link->n_queues; queue++, k++) {
                samples->queues[k] = queue->bytes;
                samples->queue_dropped[k] = queue->dropped;
                samples->queue_marked[k] = queue->marked;
            }
        }
        link->queue_peak = link->queue;
        if (samples->queue_mean != NULL) {
            ecc_link_measure(link, self->now);
            samples->queue_mean[row + i] = (double) link->area / (double) samples->period; /* S-17: time average */
            link->area = 0;
        }
    }
}

static void
sample_pauses(ecc_engine_t *self)
{
    const ecc_samples_t *samples = &self->samples;
    int64_t k = self->n_sampled * self->n_links * self->n_priorities;

    for (uint32_t i = 0; i < self->n_links && samples->paused != NULL; i++) {
        ecc_pause_catch_up(self, i);
        for (uint32_t priority = 0; priority < self->n_priorities; priority++, k++) {
            samples->paused[k] = ecc_pause_time(self, i, priority);
            samples->pauses[k] = self->pauses[i].classes[priority].count;
        }
    }
}

/* S-15, S-16: one row of samples. */
ECC_COLD int
ecc_samples_take(ecc_engine_t *self)
{
    const ecc_samples_t *samples = &self->samples;
    int64_t row = self->n_sampled * samples->n_recorded;

    self->now = self->next_sample;
    sample_flows(self);
    sample_links(self);
    if (self->pauses != NULL) {
        sample_pauses(self);
    }
    for (int64_t i = 0; i < samples->n_recorded; i++) {
        const ecc_recorded_t *one = &samples->recorded[i];
        const void *from = one->record != NULL ? one->record : ecc_flow_hooks_env(self, (uint32_t) one->flow);
        memcpy(&samples->words[row + i], (const char *) from + one->offset, sizeof(int64_t));
    }
    self->n_sampled++;
    self->next_sample
        = self->n_sampled < samples->n_samples ? ecc_clock_add(self->next_sample, samples->period) : ECC_NEVER;
    return self->pauses == NULL ? 0 : ecc_pause_find_deadlock(self);
}
