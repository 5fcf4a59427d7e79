/*
 * The functions of the interface, and the loop that runs events in their order (S-10): the next one of two calendars,
 * one for kinds that packets cause and one for the rest. A node of a calendar is a kind and an entity (S-11). Each
 * event is hashed here and handled in the file of its entity: transit.c, router.c, host.c, sender.c, receiver.c.
 *
 * Also here: samples (S-15 to S-17), and how an engine is built and freed. Not here: what an event does.
 */

#include "core/engine.h"

#include <assert.h>
#include <string.h>

#include "core/ahead.h"
#include "core/channel.h"
#include "core/config.h"
#include "core/crossing.h"
#include "core/cut.h"
#include "core/finish.h"
#include "core/state.h"
#include "link/link.h"
#include "link/pause.h"
#include "link/phase.h"
#include "link/router.h"
#include "link/scheduler.h"
#include "link/server.h"
#include "link/transit.h"
#include "host/flow.h"
#include "host/flow_hooks.h"
#include "host/host.h"
#include "host/receiver.h"
#include "host/sender.h"
#include "host/tables.h"
#include "host/transfers.h"
#include "parts/enter.h"
#include "parts/partition.h"
#include "store/checkpoint.h"
#include "store/verify.h"
#include "run/run.h"
#include "run/under_way.h"

const char *
ecc_engine_error_text(int code)
{
    static const char *const texts[] = {
#define ECC_ERROR_TEXT(name, text) text,
        ECC_ERRORS(ECC_ERROR_TEXT)
#undef ECC_ERROR_TEXT
    };

    if (code == 0) {
        return "no error";
    }
    return code < 0 && code >= -ECC_N_ERRORS ? texts[-1 - code] : "unknown error";
}

/* ---- life ---- */

static int
allocate(ecc_engine_t *self, size_t size, void **block)
{
    int ret;

    *block = NULL;
    ret = ecc_memory_resize(&self->memory, 0, size, block);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) size);
}

/* A block of n items, which may be none, copied from `items` unless that is NULL. */
static int
allocate_items(ecc_engine_t *self, size_t n, size_t item_size, const void *items, void **block)
{
    int ret = 0;

    *block = NULL;
    if (n > 0) {
        ret = allocate(self, n * item_size, block);
    }
    if (ret == 0 && n > 0 && items != NULL) {
        memcpy(*block, items, n * item_size);
    }
    return ret;
}

static size_t
links_size(const ecc_engine_t *self)
{
    return self->n_routers * sizeof(*self->links) + ECC_CACHE_LINE;
}

static size_t
flow_specs_size(const ecc_engine_t *self)
{
    return (self->n_flows + (size_t) 1) * sizeof(*self->flow_specs);
}

/* Copies what the configuration has of links and flows. */
static int
copy_specs(ecc_engine_t *self, const ecc_config_t *config)
{
    void *block;
    int ret = allocate(self, links_size(self), &block);

    if (ret == 0) {
        self->links_block = block;
        self->links = ecc_memory_align(block);
        ret = allocate(self, flow_specs_size(self), &block);
        self->flow_specs = block;
    }
    if (ret == 0) {
        ret = allocate(self, self->header_size + 8, &block);
        self->scratch = block;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_changes, sizeof(*self->changes), config->changes, &block);
        self->changes = block;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_impairments, sizeof(*self->impairments), config->impairments, &block);
        self->impairments = block;
    }
    if (ret == 0) {
        size_t n_channels = self->n_impairments > 0 ? self->n_links : 0;
        ret = allocate_items(self, n_channels, sizeof(*self->channels), NULL, &block);
        self->channels = block;
    }
    if (ret == 0) {
        size_t n_begun = config->begun != NULL ? self->n_flows : 0;
        ret = allocate_items(self, n_begun, sizeof(*self->begun), config->begun, &block);
        self->begun = block;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_under_way, sizeof(*self->under_way), config->under_way, &block);
        self->under_way = block;
    }
    for (uint32_t i = 0; i < self->n_flows; i++) {
        self->n_sprays = config->flows[i].n_alternatives > 0 ? self->n_flows : self->n_sprays;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_sprays, sizeof(*self->sprays), NULL, &block);
        self->sprays = block;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_rtts, sizeof(*self->rtts), NULL, &block);
        self->rtts = block;
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        self->n_link_phases = config->links[i].phase_jitter != 0 ? self->n_links : self->n_link_phases;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_link_phases, sizeof(*self->link_phases), NULL, &block);
        self->link_phases = block;
    }
    if (ret == 0 && self->n_flows > 0) {
        memcpy(self->flow_specs, config->flows, self->n_flows * sizeof(*self->flow_specs));
    }
    return ret;
}

static void
build_links(ecc_engine_t *self, const ecc_config_t *config)
{
    const ecc_change_t *changes = self->changes;
    bool wants_means = self->samples.n_samples > 0 && self->samples.queue_mean != NULL;

    for (uint32_t i = 0; i < self->n_routers; i++) {
        ecc_link_init(self, i, &config->links[i], config->seed);
        self->links[i].measures_queue = config->histogram != NULL || wants_means;
        self->wants_flow_queues = self->wants_flow_queues || config->links[i].wants_flow_queue != 0;
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        if (config->histogram != NULL) {
            link->histogram = config->histogram + (size_t) i * 2 * ECC_N_BINS;
        }
        if (link->spec.n_changes > 0) {
            link->changes = changes;
            link->has_changes = true;
            link->n_changes = (uint32_t) link->spec.n_changes;
            changes += link->spec.n_changes;
        }
        if (link->spec.phase_jitter != 0) {
            ecc_phase_init_link(self, i);
        }
        if (link->spec.impairment > 0) {
            link->channel = &self->channels[i];
            ecc_channel_init(
                link->channel, &self->impairments[link->spec.impairment - 1], config->seed, ECC_RANDOM_OF_WIRES + i);
        }
    }
}

static void
build_flows(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_flows; i++) {
        const ecc_flow_t *spec = &self->flow_specs[i];
        ecc_flow_init(self, i, spec, self->flows[i].position, i);
    }
}

static void
await_starts(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_flows; i++) {
        const ecc_flow_t *spec = &self->flow_specs[i];
        if (!ecc_cut_has_sender(self, i)) {
            continue;
        }
        ecc_calendar_insert(&self->slow, self->base[ECC_EVENT_START] + i, spec->start);
        if (spec->stop >= 0) {
            ecc_calendar_insert(
                &self->slow, self->base[ECC_EVENT_STOP] + i, spec->stop < ECC_NEVER ? spec->stop : ECC_NEVER);
        }
    }
}

/* Whether packets of some flow can be marked. */
static bool
wants_ecn(const ecc_config_t *config)
{
    bool found = false;

    for (int64_t i = 0; i < config->n_flows; i++) {
        found = found || config->flows[i].ecn != ECC_ECN_NONE;
    }
    for (int64_t i = 0; i < config->n_templates; i++) {
        found = found || config->templates[i].ecn != ECC_ECN_NONE;
    }
    return found;
}

static int
build(ecc_engine_t *self, const ecc_config_t *config)
{
    int ret = ecc_config_check(self, config);

    if (ret != 0) {
        return ret;
    }
    self->n_links = (uint32_t) config->n_links;
    self->n_routers = (uint32_t) (config->n_links + config->n_additional);
    self->n_flows = (uint32_t) config->n_flows;
    self->n_changes = (size_t) config->n_changes;
    self->n_under_way = (size_t) config->n_under_way;
    self->n_impairments = (size_t) config->n_impairments;
    self->seed = config->seed;
    self->wants_ecn = wants_ecn(config);
    self->ecn_offset = (size_t) config->header_size;
    self->header_size = self->ecn_offset + (self->wants_ecn ? sizeof(uint64_t) : 0);
    self->trace = config->trace;
    self->trace_room = config->n_trace;
    self->samples = config->samples;
    self->n_rtts
        = config->samples.n_samples > 0 && config->samples.rtt != NULL ? (uint32_t) config->samples.n_flows : 0;
    self->next_sample = self->samples.n_samples > 0 ? self->samples.period : ECC_NEVER;
    ecc_packets_init(&self->packets, self->header_size);
    ret = copy_specs(self, config);
    if (ret != 0) {
        return ret;
    }
    build_links(self, config);
    ret = ecc_pause_init(self, config);
    if (ret == 0) {
        ret = ecc_scheduler_init(self, config);
    }
    if (ret == 0) {
        ret = ecc_server_init(self, config);
    }
    if (ret != 0) {
        return ret;
    }
    ecc_tables_init(self, config);
    ret = ecc_transfers_init(self, config);
    if (ret == 0) {
        ret = ecc_tables_reserve(self, ecc_tables_initial_room(config));
    }
    if (ret == 0) {
        ret = ecc_config_install_routes(self, config);
    }
    if (ret == 0) {
        build_flows(self);
        ret = ecc_partition_install(self, &config->partition);
    }
    if (ret == 0) {
        ecc_link_set_plain(self);
        await_starts(self);
    }
    return ret;
}

int
ecc_engine_new(const ecc_config_t *config, ecc_engine_t **engine, ecc_report_t *report)
{
    ecc_memory_t memory;
    void *block = NULL;
    ecc_engine_t *self;
    int ret;

    *engine = NULL;
    *report = (ecc_report_t) { .code = ECC_ERR_NO_MEMORY, .hook = ECC_NO_HOOK };
    ecc_memory_init(&memory, config->allocator);
    memory.limit = config->max_bytes > 0 ? (size_t) config->max_bytes : 0;
    ret = ecc_memory_resize(&memory, 0, sizeof(*self), &block);
    if (ret != 0) {
        return ret;
    }
    self = block;
    self->memory = memory;
    self->report = (ecc_report_t) { .hook = ECC_NO_HOOK };
    ret = build(self, config);
    *report = self->report;
    if (ret != 0) {
        ecc_engine_free(self);
        return ret;
    }
    *engine = self;
    return 0;
}

static void
release(ecc_engine_t *self, size_t size, void *block)
{
    ecc_memory_release(&self->memory, size, &block);
}

void
ecc_engine_free(ecc_engine_t *self)
{
    ecc_memory_t memory;
    void *block = self;

    if (self == NULL) {
        return;
    }
    for (uint32_t i = 0; i < self->n_links && self->links != NULL; i++) {
        ecc_ring_free(&self->links[i].ring, &self->memory);
    }
    for (uint32_t i = 0; i < self->n_links && self->channels != NULL; i++) {
        ecc_channel_free(&self->channels[i], &self->memory);
    }
    ecc_pause_free(self);
    ecc_server_free(self);
    ecc_packets_free(&self->packets, &self->memory);
    ecc_sacks_free(&self->sacks, &self->memory);
    ecc_cut_free(self);
    ecc_transfers_free(self);
    ecc_tables_free(self);
    release(self, self->n_links * sizeof(*self->channels), self->channels);
    release(self, self->n_sprays * sizeof(*self->sprays), self->sprays);
    release(self, self->n_rtts * sizeof(*self->rtts), self->rtts);
    release(self, self->n_link_phases * sizeof(*self->link_phases), self->link_phases);
    release(self, self->n_queues * sizeof(*self->queues), self->queues);
    release(self, self->n_changes * sizeof(*self->changes), self->changes);
    ecc_under_way_free(self);
    release(self, self->n_impairments * sizeof(*self->impairments), self->impairments);
    release(self, links_size(self), self->links_block);
    release(self, flow_specs_size(self), self->flow_specs);
    release(self, self->header_size + 8, self->scratch);
    memory = self->memory;
    ecc_memory_release(&memory, sizeof(*self), &block);
}

/* ---- running ---- */

/* S-197. */
static void
sample_rtts(ecc_engine_t *self, int64_t row)
{
    for (uint32_t i = 0; i < self->n_rtts; i++) {
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
            samples->dropped_bytes[row + i] = link->dropped_bytes; /* S-196 */
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
            samples->queue_mean[row + i] = (double) link->area / (double) samples->period; /* S-17 */
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

/* S-15, S-16. */
ECC_COLD static int
sample(ecc_engine_t *self)
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

/* All that happens silently by now (S-29, S-33) has happened, and queues are measured up to now. */
static void
catch_up(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_flows + self->transfers.n_slots; i++) {
        ecc_host_catch_up(self, i);
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_catch_up(self, &self->links[i]);
        if (self->links[i].measures_queue && ecc_cut_has_link(self, i)) {
            ecc_link_measure(&self->links[i], self->now);
        }
    }
}

/* S-12, S-14: an event is counted and hashed. */
static void
hash(ecc_engine_t *self, uint64_t kind, uint64_t entity)
{
    uint64_t word = (uint64_t) self->now * 16 + kind + entity * UINT64_C(0xD1B54A32D192ED03);

    word *= UINT64_C(0x9E3779B97F4A7C15);
    self->digest += word ^ word >> 29;
    self->n_events++;
}

static void
hash_flow(ecc_engine_t *self, uint64_t kind, uint32_t flow)
{
    hash(self, kind, (uint64_t) ecc_state_number(self, flow));
}

/* Fetches the memory that the next event will touch while this one runs. */
static inline __attribute__((always_inline)) void
prefetch_next(ecc_engine_t *self)
{
    uint32_t id = self->fast.first;
    const char *flow;

    if (id < self->base[ECC_EVENT_ACCESS] || id >= ECC_CALENDAR_EMPTY) {
        return;
    }
    id -= id >= self->base[ECC_EVENT_SEND] ? self->base[ECC_EVENT_SEND]
        : id >= self->base[ECC_EVENT_ACK]  ? self->base[ECC_EVENT_ACK]
                                           : self->base[ECC_EVENT_ACCESS];
    flow = (const char *) &self->flows[id];
    __builtin_prefetch(flow);
    __builtin_prefetch(flow + ECC_CACHE_LINE);
    __builtin_prefetch(flow + 2 * ECC_CACHE_LINE);
}

/* The next event of the kinds from DEPARTURE to SEND; the most frequent ones are tested first. */
static inline int
run_fast(ecc_engine_t *self)
{
    const uint32_t *base = self->base;
    uint32_t id = ecc_calendar_pop(&self->fast);

    if (self->fetches != ECC_FETCHES_NOTHING) {
        ecc_calendar_find(&self->fast);
        if (self->fetches == ECC_FETCHES_AHEAD) {
            ecc_ahead_fetch(self);
        } else {
            prefetch_next(self);
        }
    }

    if (id >= base[ECC_EVENT_SEND]) {
        hash_flow(self, ECC_EVENT_SEND, id - base[ECC_EVENT_SEND]);
        return ecc_sender_send(self, id - base[ECC_EVENT_SEND]);
    }
    if (id >= base[ECC_EVENT_ACK]) {
        hash_flow(self, ECC_EVENT_ACK, id - base[ECC_EVENT_ACK]);
        return ecc_sender_ack(self, id - base[ECC_EVENT_ACK]);
    }
    if (id < base[ECC_EVENT_HOP]) {
        hash(self, ECC_EVENT_DEPARTURE, id);
        return ecc_transit_departure(self, id);
    }
    if (id < base[ECC_EVENT_ACCESS]) {
        hash(self, ECC_EVENT_HOP, id - base[ECC_EVENT_HOP]);
        return ecc_host_hop(self, id - base[ECC_EVENT_HOP]);
    }
    hash_flow(self, ECC_EVENT_ACCESS, id - base[ECC_EVENT_ACCESS]);
    return ecc_host_access(self, id - base[ECC_EVENT_ACCESS]);
}

/*
 * START of a flow, of the next transfer, or of the one subsequent to that in a slot: by node, in this order (S-56,
 * S-60). The event is that of the flow that it becomes.
 */
static int
start(ecc_engine_t *self, uint32_t node)
{
    bool is_next = node == self->n_flows;
    bool is_subsequent = node > self->n_flows;
    uint32_t index = node;
    int ret = 0;

    if (is_next) {
        ret = ecc_transfers_start_next(self, &index);
    } else if (is_subsequent) {
        ret = ecc_transfers_start_subsequent(self, node - 1, &index);
    }
    if (ret != 0) {
        return ret;
    }
    hash_flow(self, ECC_EVENT_START, index);
    ret = ecc_host_start(self, index);
    if (ret == 0 && is_subsequent) {
        ecc_finish_if_done(self, node - 1, self->now); /* S-61 */
    }
    return ret == 0 && is_next && ecc_transfers_needs_input(self) ? ECC_NEEDS_TRANSFERS : ret;
}

/* The next event of the kinds from INTERVAL to FLUSH. */
ECC_COLD static int
run_slow(ecc_engine_t *self)
{
    const uint32_t *base = self->base;
    uint32_t id = ecc_calendar_pop(&self->slow);

    if (id < base[ECC_EVENT_START]) {
        hash(self, ECC_EVENT_INTERVAL, id);
        return ecc_router_interval(self, id);
    }
    if (id < base[ECC_EVENT_STOP]) {
        return start(self, id - base[ECC_EVENT_START]);
    }
    if (id < base[ECC_EVENT_TIMER]) {
        hash_flow(self, ECC_EVENT_STOP, id - base[ECC_EVENT_STOP]);
        return ecc_host_stop(self, id - base[ECC_EVENT_STOP]);
    }
    if (id < base[ECC_EVENT_TIMEOUT]) {
        hash_flow(self, ECC_EVENT_TIMER, id - base[ECC_EVENT_TIMER]);
        return ecc_host_timer(self, id - base[ECC_EVENT_TIMER]);
    }
    if (id < base[ECC_EVENT_FLUSH]) {
        hash_flow(self, ECC_EVENT_TIMEOUT, id - base[ECC_EVENT_TIMEOUT]);
        return ecc_sender_timeout(self, id - base[ECC_EVENT_TIMEOUT]);
    }
    hash_flow(self, ECC_EVENT_FLUSH, id - base[ECC_EVENT_FLUSH]);
    return ecc_receiver_flush(self, id - base[ECC_EVENT_FLUSH]);
}

/* S-22. */
static int
start_routers(ecc_engine_t *self)
{
    int ret = 0;

    for (uint32_t i = 0; i < self->n_routers && ret == 0; i++) {
        ret = ecc_cut_has_link(self, (uint32_t) self->links[i].spec.at) ? ecc_router_start(self, i) : 0;
    }
    return ret;
}

int
ecc_run_until(ecc_engine_t *self, ecc_ps_t until)
{
    ecc_ps_t limit = self->next_sample < until ? self->next_sample : until;
    int ret = 0;

    while (ret == 0) {
        ecc_ps_t fast;
        ecc_ps_t slow;
        ecc_ps_t next;
        ecc_calendar_find(&self->fast);
        ecc_calendar_find(&self->slow);
        fast = self->fast.first_time;
        slow = self->slow.first_time;
        next = fast <= slow ? fast : slow;
        if (next > limit) {
            if (limit < until || self->next_sample == until) {
                ret = sample(self);
                limit = self->next_sample < until ? self->next_sample : until;
                continue;
            }
            self->now = until;
            self->stop = next >= ECC_NEVER ? ECC_STOP_IDLE : ECC_STOP_UNTIL;
            break;
        }
        if (self->n_events >= atomic_load_explicit(&self->last_event, memory_order_relaxed)) {
            self->stop = ECC_STOP_MAX_EVENTS;
            break;
        }
        assert(next >= self->now);
        self->now = next;
        ret = fast <= slow ? run_fast(self) : run_slow(self);
    }
    return ret;
}

ecc_ps_t
ecc_run_next_event(ecc_engine_t *self)
{
    ecc_calendar_find(&self->fast);
    ecc_calendar_find(&self->slow);
    return self->fast.first_time < self->slow.first_time ? self->fast.first_time : self->slow.first_time;
}

int
ecc_run_begin(ecc_engine_t *self, ecc_ps_t until, int64_t max_events)
{
    bool limited = max_events >= 0 && max_events < INT64_MAX - self->n_events;
    int ret = 0;

    if (self->stop == ECC_STOP_ERROR) {
        return (int) self->report.code;
    }
    if (until < 0 || until >= ECC_NEVER) {
        return ecc_state_fail(self, ECC_ERR_UNTIL, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) until);
    }
    atomic_store_explicit(&self->last_event, limited ? self->n_events + max_events : INT64_MAX, memory_order_relaxed);
    if (self->stop == ECC_STOP_NOT_YET) {
        ret = start_routers(self);
        ret = ret == 0 ? ecc_under_way_place(self) : ret;
        self->stop = ret == 0 ? ECC_STOP_UNTIL : ECC_STOP_ERROR;
    }
    return ret;
}

int
ecc_run_end(ecc_engine_t *self, int ret)
{
    catch_up(self);
    if (ret == ECC_NEEDS_TRANSFERS) {
        self->stop = ECC_STOP_TRANSFERS;
        ret = 0;
    }
    if (ret != 0) {
        self->stop = ECC_STOP_ERROR;
    }
    assert(ret != 0 || ecc_engine_verify(self) == 0);
    return ret;
}

int
ecc_engine_advance(ecc_engine_t *self, ecc_ps_t until, int64_t max_events)
{
    ecc_ps_t known = ecc_transfers_known_until(self);
    int ret = ecc_run_begin(self, until, max_events);

    if (ret != 0) {
        return ret;
    }
    self->stop = ECC_STOP_UNTIL;
    until = until > self->now ? until : self->now;
    if (ecc_transfers_needs_input(self) || known < self->now) {
        return ecc_run_end(self, ECC_NEEDS_TRANSFERS);
    }
    ret = ecc_run_until(self, until < known ? until : known);
    if (ret == 0 && self->stop != ECC_STOP_MAX_EVENTS && until > known) {
        ret = ECC_NEEDS_TRANSFERS;
    }
    return ecc_run_end(self, ret);
}

void
ecc_engine_stop(ecc_engine_t *self)
{
    atomic_store_explicit(&self->last_event, 0, memory_order_relaxed);
}

/* ---- results ---- */

void
ecc_engine_report(const ecc_engine_t *self, ecc_report_t *report)
{
    *report = self->report;
}

void
ecc_engine_stats(const ecc_engine_t *self, ecc_stats_t *stats)
{
    *stats = (ecc_stats_t) {
        .now = self->now,
        .events = self->n_events,
        .data_packets = self->n_received,
        .in_flight = self->packets.n_used,
        .samples = self->n_sampled,
        .trace = self->n_traced,
        .transfers = self->transfers.n_started,
        .alive = self->transfers.n_alive,
        .waiting = (int64_t) (self->transfers.n_pending - self->transfers.n_consumed),
        .finished = (int64_t) self->transfers.n_finished,
        .bytes = (int64_t) self->memory.bytes,
        .peak_bytes = (int64_t) self->memory.peak,
        .digest = self->digest,
        .stop = self->stop,
    };
}

void
ecc_engine_flow_results(const ecc_engine_t *self, ecc_flow_result_t *results)
{
    for (uint32_t i = 0; i < self->n_flows; i++) {
        results[i] = ecc_finish_result(self, i);
    }
}

void
ecc_engine_link_results(const ecc_engine_t *self, ecc_link_result_t *results)
{
    for (uint32_t i = 0; i < self->n_links; i++) {
        const ecc_link_state_t *link = &self->links[i];
        results[i] = (ecc_link_result_t) {
            .arrived = link->arrived,
            .departed = link->arrived - link->dropped_bytes - link->queue,
            .dropped = link->dropped,
            .dropped_bytes = link->dropped_bytes,
            .marked = link->marked,
            .queue = link->queue,
            .lost = link->lost,
            .lost_bytes = link->lost_bytes,
        };
    }
}

void
ecc_engine_alive(const ecc_engine_t *self, ecc_transfer_result_t *results)
{
    ecc_transfers_alive(self, results);
}

/* ---- transfers, checkpoints, parts, invariants ---- */

int
ecc_engine_add(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n, int64_t more)
{
    return ecc_transfers_add(self, transfers, n, more != 0);
}

int64_t
ecc_engine_take_finished(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n)
{
    return ecc_transfers_take_finished(self, results, n);
}

int64_t
ecc_engine_save(ecc_engine_t *self, unsigned char *buffer)
{
    return ecc_checkpoint_save(self, buffer);
}

int
ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size)
{
    return ecc_checkpoint_load(self, buffer, size);
}

int64_t
ecc_engine_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer)
{
    return ecc_crossing_take_leaving(self, part, buffer);
}

int
ecc_engine_enter(ecc_engine_t *self, const unsigned char *crossings, int64_t size)
{
    return ecc_enter_all(self, crossings, size > 0 ? (size_t) size : 0, self->now);
}

ecc_ps_t
ecc_engine_lookahead(const ecc_engine_t *self)
{
    return ecc_partition_lookahead(self);
}

int
ecc_engine_verify(const ecc_engine_t *self)
{
    return ecc_verify_engine(self);
}
