/*
 * How an engine is built from its configuration, and freed: ecc_engine_new and ecc_engine_free.
 *
 * Not here: the checks of the configuration (config.c), and the arrays by flow (tables.c).
 */

#include "core/engine.h"

#include <string.h>

#include "core/config.h"
#include "core/cut.h"
#include "core/routes.h"
#include "core/state.h"
#include "link/link.h"
#include "link/pause.h"
#include "link/phase.h"
#include "link/scheduler.h"
#include "link/server.h"
#include "host/flow.h"
#include "host/monitor.h"
#include "host/tables.h"
#include "host/transfers.h"
#include "parts/partition.h"
#include "run/under_way.h"

static int
allocate(ecc_engine_t *self, size_t size, void **block)
{
    int ret;

    *block = NULL;
    ret = ecc_memory_resize(&self->memory, 0, size, block);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) size);
}

/* A block of n >= 0 items, copied from `items` unless that is NULL. */
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

/* Copies links and flows of the configuration. */
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
        ret = allocate_items(self, self->n_delay_changes, sizeof(*self->delay_changes), config->delay_changes, &block);
        self->delay_changes = block;
    }
    if (ret == 0) {
        ret = allocate_items(self, self->n_writes, sizeof(*self->writes), config->writes, &block);
        self->writes = block;
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
    if (ret == 0) {
        ret = ecc_monitor_init(self, config);
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
            ecc_channel_init(link->channel, &self->impairments[link->spec.impairment - 1], self->delay_changes,
                config->seed, ECC_RANDOM_OF_WIRES + i);
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
    self->n_delay_changes = (size_t) config->n_delay_changes;
    self->n_writes = (size_t) config->n_writes;
    self->seed = config->seed;
    self->wants_ecn = wants_ecn(config);
    self->ecn_offset = (size_t) config->header_size;
    self->header_size = self->ecn_offset + (self->wants_ecn ? sizeof(uint64_t) : 0);
    self->trace = config->trace;
    self->trace_room = config->n_trace;
    self->samples = config->samples;
    self->n_rtts = ecc_monitor_n_rtts(config);
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
        ret = ecc_routes_install(self, config);
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
    ecc_monitor_free(self);
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
    release(self, self->n_writes * sizeof(*self->writes), self->writes);
    release(self, self->n_delay_changes * sizeof(*self->delay_changes), self->delay_changes);
    release(self, links_size(self), self->links_block);
    release(self, flow_specs_size(self), self->flow_specs);
    release(self, self->header_size + 8, self->scratch);
    memory = self->memory;
    ecc_memory_release(&memory, sizeof(*self), &block);
}
