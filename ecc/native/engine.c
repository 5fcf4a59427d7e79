#include "engine.h"

#include <assert.h>
#include <string.h>

#include "ask.h"
#include "config.h"
#include "flow.h"
#include "link.h"
#include "pool.h"
#include "receiver.h"
#include "sender.h"
#include "state.h"

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
take(ecc_engine_t *self, size_t size, void **block)
{
    int ret = ecc_memory_resize(&self->memory, 0, size, block);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) size);
}

/* As `take` of n items, which may be none. */
static int
take_copy(ecc_engine_t *self, size_t n, size_t item, const void *items, void **block)
{
    int ret = n == 0 ? 0 : take(self, n * item, block);

    if (ret == 0 && n > 0 && items != NULL) {
        memcpy(*block, items, n * item);
    }
    return ret;
}

/* Hands links the changes of their capacities and their impairments. */
static int
build_rare(ecc_engine_t *self, const ecc_config_t *config)
{
    const ecc_change_t *changes;
    void *blocks[3] = { NULL, NULL, NULL };
    size_t n_impaired = config->n_impairments > 0 ? self->n_links : 0;
    int ret;

    self->n_changes = (size_t) config->n_changes;
    self->n_impairments = (size_t) config->n_impairments;
    ret = take_copy(self, self->n_changes, sizeof(*self->changes), config->changes, &blocks[0]);
    self->changes = blocks[0];
    if (ret == 0) {
        ret = take_copy(self, self->n_impairments, sizeof(*self->impairments), config->impairments, &blocks[1]);
        self->impairments = blocks[1];
    }
    if (ret == 0) {
        ret = take_copy(self, n_impaired, sizeof(*self->impaired), NULL, &blocks[2]);
        self->impaired = blocks[2];
    }
    if (ret != 0) {
        return ret;
    }
    changes = self->changes;
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        if (link->is.n_changes > 0) {
            link->changes = changes;
            link->n_changes = (uint32_t) link->is.n_changes;
            changes += link->is.n_changes;
        }
        if (link->is.impairment > 0) {
            link->impaired = &self->impaired[i];
            ecc_impairment_init(
                link->impaired, &self->impairments[link->is.impairment - 1], config->seed, (UINT64_C(1) << 34) + i);
        }
    }
    return 0;
}

static size_t
links_size(const ecc_engine_t *self)
{
    return (self->n_routers + (size_t) 1) * sizeof(*self->links);
}

static size_t
flow_specs_size(const ecc_engine_t *self)
{
    return (self->n_flows + (size_t) 1) * sizeof(*self->flow_specs);
}

static int
build(ecc_engine_t *self, const ecc_config_t *config)
{
    uint32_t n_routers;
    uint32_t n_flows;
    void *block = NULL;
    int ret = ecc_config_check(self, config);

    if (ret != 0) {
        return ret;
    }
    self->n_links = (uint32_t) config->n_links;
    self->n_routers = n_routers = (uint32_t) (config->n_links + config->n_further);
    self->n_flows = n_flows = (uint32_t) config->n_flows;
    self->seed = config->seed;
    self->header_size = (size_t) config->header_size;
    self->trace = config->trace;
    self->trace_room = config->n_trace;
    self->samples = config->samples;
    self->next_sample = self->samples.n_samples > 0 ? self->samples.period : ECC_NEVER;
    ecc_packets_init(&self->packets, self->header_size);

    ret = take(self, links_size(self), &block);
    if (ret != 0) {
        return ret;
    }
    self->links = block;
    block = NULL;
    ret = take(self, flow_specs_size(self), &block);
    if (ret != 0) {
        return ret;
    }
    self->flow_specs = block;
    if (n_flows > 0) {
        memcpy(self->flow_specs, config->flows, n_flows * sizeof(*self->flow_specs));
    }
    block = NULL;
    ret = take(self, self->header_size + 8, &block);
    if (ret != 0) {
        return ret;
    }
    self->scratch = block;
    for (uint32_t i = 0; i < n_routers; i++) {
        ecc_link_init(self, i, &config->links[i], config->seed);
        if (i < self->n_links && config->histogram != NULL) {
            self->links[i].histogram = config->histogram + (size_t) i * 2 * ECC_N_BINS;
        }
        self->links[i].measures
            = config->histogram != NULL || (self->samples.n_samples > 0 && self->samples.queue_mean != NULL);
        self->wants_flow_queues = self->wants_flow_queues || config->links[i].wants_flow_queue != 0;
    }
    ret = build_rare(self, config);
    if (ret == 0) {
        ret = ecc_pool_init(self, config);
    }
    if (ret == 0) {
        ret = ecc_pool_make_room(self, ecc_pool_first_room(config));
    }
    if (ret == 0) {
        ret = ecc_config_lay_routes(self, config);
    }
    for (uint32_t i = 0; i < n_flows && ret == 0; i++) {
        const ecc_flow_t *is = &self->flow_specs[i];
        ecc_flow_init(self, i, is, self->flows[i].position, i);
        ecc_calendar_insert(&self->slow, self->base[ECC_START] + i, is->start);
        if (is->stop >= 0) {
            ecc_calendar_insert(&self->slow, self->base[ECC_STOP] + i, is->stop < ECC_NEVER ? is->stop : ECC_NEVER);
        }
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
    memory.most = config->most_bytes > 0 ? (size_t) config->most_bytes : 0;
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
    if (self->links != NULL) {
        for (uint32_t i = 0; i < self->n_links; i++) {
            ecc_ring_free(&self->links[i].ring, &self->memory);
        }
    }
    if (self->impaired != NULL) {
        for (uint32_t i = 0; i < self->n_links; i++) {
            ecc_impairment_free(&self->impaired[i], &self->memory);
        }
        release(self, self->n_links * sizeof(*self->impaired), self->impaired);
    }
    release(self, self->n_changes * sizeof(*self->changes), self->changes);
    release(self, self->n_impairments * sizeof(*self->impairments), self->impairments);
    ecc_packets_free(&self->packets, &self->memory);
    ecc_pool_free(self);
    release(self, links_size(self), self->links);
    release(self, flow_specs_size(self), self->flow_specs);
    release(self, self->header_size + 8, self->scratch);
    memory = self->memory;
    ecc_memory_release(&memory, sizeof(*self), &block);
}

/* ---- running ---- */

static void
sample(ecc_engine_t *self)
{
    const ecc_samples_t *samples = &self->samples;
    int64_t row = self->n_sampled * samples->n_flows;

    self->now = self->next_sample;
    for (int64_t i = 0; i < samples->n_flows; i++) {
        const ecc_flow_state_t *flow = &self->flows[i];
        ecc_flow_catch_up(self, (uint32_t) i);
        samples->sent[row + i] = flow->sent;
        samples->received[row + i] = flow->received;
        samples->bottleneck[row + i] = -1;
        if (flow->is->bottleneck >= 0 && flow->started) {
            memcpy(&samples->bottleneck[row + i], (const char *) flow->state + flow->is->bottleneck, sizeof(int64_t));
        }
    }
    row = self->n_sampled * self->n_links;
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        ecc_link_catch_up(self, link);
        samples->queue[row + i] = link->queue;
        samples->queue_peak[row + i] = link->queue_peak;
        samples->arrived[row + i] = link->arrived;
        samples->dropped[row + i] = link->dropped;
        link->queue_peak = link->queue;
        if (samples->queue_mean != NULL) {
            ecc_link_measure(link, self->now);
            samples->queue_mean[row + i] = (double) link->area / (double) samples->period;
            link->area = 0;
        }
    }
    row = self->n_sampled * samples->n_recorded;
    for (int64_t i = 0; i < samples->n_recorded; i++) {
        const ecc_recorded_t *one = &samples->recorded[i];
        const void *from = one->record != NULL ? one->record : ecc_ask_nothing(self, (uint32_t) one->flow);
        memcpy(&samples->words[row + i], (const char *) from + one->offset, sizeof(int64_t));
    }
    self->n_sampled++;
    self->next_sample
        = self->n_sampled < samples->n_samples ? ecc_state_add(self->next_sample, samples->period) : ECC_NEVER;
}

static void
hash(ecc_engine_t *self, uint64_t kind, uint64_t entity)
{
    uint64_t word = (uint64_t) self->now * 16 + kind + entity * UINT64_C(0xD1B54A32D192ED03);
    uint64_t digest = (self->digest ^ word) * UINT64_C(0x9E3779B97F4A7C15);

    self->digest = digest ^ digest >> 29;
    self->n_events++;
}

/* Starts to fetch what the next event will touch while this one runs. */
static inline void
look_ahead(ecc_engine_t *self)
{
    uint32_t id = self->fast.first;
    const char *flow;

    if (id < self->base[ECC_ACCESS] || id >= ECC_NOTHING_LEFT) {
        return;
    }
    id -= id >= self->base[ECC_SEND] ? self->base[ECC_SEND]
        : id >= self->base[ECC_ACK]  ? self->base[ECC_ACK]
                                     : self->base[ECC_ACCESS];
    flow = (const char *) &self->flows[id];
    __builtin_prefetch(flow);
    __builtin_prefetch(flow + ECC_CACHE_LINE);
    __builtin_prefetch(flow + 2 * ECC_CACHE_LINE);
}

static int
run_fast(ecc_engine_t *self)
{
    const uint32_t *base = self->base;
    uint32_t id = ecc_calendar_take(&self->fast);

    ecc_calendar_find(&self->fast);
    look_ahead(self);

    if (id >= base[ECC_SEND]) {
        hash(self, ECC_SEND, id - base[ECC_SEND]);
        return ecc_sender_send(self, id - base[ECC_SEND]);
    }
    if (id >= base[ECC_ACK]) {
        hash(self, ECC_ACK, id - base[ECC_ACK]);
        return ecc_sender_ack(self, id - base[ECC_ACK]);
    }
    if (id < base[ECC_HOP]) {
        hash(self, ECC_DEPARTURE, id);
        return ecc_link_departure(self, id);
    }
    if (id < base[ECC_ACCESS]) {
        hash(self, ECC_HOP, id - base[ECC_HOP]);
        return ecc_link_hop(self, id - base[ECC_HOP]);
    }
    hash(self, ECC_ACCESS, id - base[ECC_ACCESS]);
    return ecc_flow_access(self, id - base[ECC_ACCESS]);
}

/* START of a flow, of the next transfer, or of what follows the one in a slot. */
static int
start(ecc_engine_t *self, uint32_t place)
{
    uint32_t index = place;
    int ret = place > self->n_flows ? ecc_pool_follow(self, place - 1, &index)
        : place == self->n_flows    ? ecc_pool_take(self, &index)
                                    : 0;

    if (ret != 0) {
        return ret;
    }
    hash(self, ECC_START, index);
    ret = ecc_flow_start(self, index);
    if (ret == 0 && place > self->n_flows) {
        ecc_flow_leave_if_over(self, place - 1);
    }
    return ret == 0 && place == self->n_flows && ecc_pool_is_hungry(&self->pool) ? ECC_PAUSE : ret;
}

static int
run_slow(ecc_engine_t *self)
{
    const uint32_t *base = self->base;
    uint32_t id = ecc_calendar_take(&self->slow);

    if (id < base[ECC_START]) {
        hash(self, ECC_INTERVAL, id);
        return ecc_link_interval(self, id);
    }
    if (id < base[ECC_STOP]) {
        return start(self, id - base[ECC_START]);
    }
    if (id < base[ECC_TIMER]) {
        hash(self, ECC_STOP, id - base[ECC_STOP]);
        return ecc_flow_stop(self, id - base[ECC_STOP]);
    }
    if (id < base[ECC_TIMEOUT]) {
        hash(self, ECC_TIMER, id - base[ECC_TIMER]);
        return ecc_flow_timer(self, id - base[ECC_TIMER]);
    }
    if (id < base[ECC_FLUSH]) {
        hash(self, ECC_TIMEOUT, id - base[ECC_TIMEOUT]);
        return ecc_sender_timeout(self, id - base[ECC_TIMEOUT]);
    }
    hash(self, ECC_FLUSH, id - base[ECC_FLUSH]);
    return ecc_receiver_flush(self, id - base[ECC_FLUSH]);
}

static int
start_links(ecc_engine_t *self)
{
    int ret = 0;

    for (uint32_t i = 0; i < self->n_routers && ret == 0; i++) {
        ret = ecc_link_start(self, i);
    }
    return ret;
}

int
ecc_engine_advance(ecc_engine_t *self, ecc_ps_t until, int64_t max_events)
{
    bool limited = max_events >= 0 && max_events < INT64_MAX - self->n_events;
    ecc_ps_t limit;
    int ret = 0;

    if (self->stop == ECC_STOP_ERROR) {
        return (int) self->report.code;
    }
    if (until < 0 || until >= ECC_NEVER) {
        return ecc_state_fail(self, ECC_ERR_UNTIL, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) until);
    }
    if (until < self->now) {
        until = self->now; /* time does not go back */
    }
    atomic_store_explicit(&self->last_event, limited ? self->n_events + max_events : INT64_MAX, memory_order_relaxed);
    limit = self->next_sample < until ? self->next_sample : until;
    if (self->stop == ECC_STOP_NOT_YET) {
        ret = start_links(self);
    }
    self->stop = ECC_STOP_UNTIL;
    if (ret == 0 && ecc_pool_is_hungry(&self->pool)) {
        ret = ECC_PAUSE;
    }
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
                sample(self);
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
    if (ret == ECC_PAUSE) {
        self->stop = ECC_STOP_TRANSFERS;
        ret = 0;
    }
    if (ret != 0) {
        self->stop = ECC_STOP_ERROR;
    }
    assert(ret != 0 || ecc_engine_verify(self) == 0);
    return ret;
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

static void
catch_up(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_flows + self->pool.n_slots; i++) {
        ecc_flow_catch_up(self, i);
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_catch_up(self, &self->links[i]);
        if (self->links[i].measures) {
            ecc_link_measure(&self->links[i], self->now);
        }
    }
}

void
ecc_engine_stats(ecc_engine_t *self, ecc_stats_t *stats)
{
    catch_up(self);
    *stats = (ecc_stats_t) {
        .now = self->now,
        .events = self->n_events,
        .data_packets = self->n_received,
        .in_flight = self->packets.n_used,
        .samples = self->n_sampled,
        .trace = self->n_traced,
        .transfers = self->pool.n_started,
        .alive = self->pool.n_alive,
        .waiting = (int64_t) (self->pool.n_waiting - self->pool.n_taken),
        .over = (int64_t) self->pool.n_over,
        .bytes = (int64_t) self->memory.bytes,
        .peak_bytes = (int64_t) self->memory.peak,
        .digest = self->digest,
        .stop = self->stop,
    };
}

void
ecc_engine_flow_results(ecc_engine_t *self, ecc_flow_result_t *results)
{
    catch_up(self);
    for (uint32_t i = 0; i < self->n_flows; i++) {
        results[i] = ecc_flow_result(self, i);
    }
}

void
ecc_engine_link_results(ecc_engine_t *self, ecc_link_result_t *results)
{
    catch_up(self);
    for (uint32_t i = 0; i < self->n_links; i++) {
        const ecc_link_state_t *link = &self->links[i];
        results[i] = (ecc_link_result_t) {
            .arrived = link->arrived,
            .departed = link->arrived - link->dropped_bytes - link->queue,
            .dropped = link->dropped,
            .dropped_bytes = link->dropped_bytes,
            .queue = link->queue,
            .lost = link->lost,
            .lost_bytes = link->lost_bytes,
        };
    }
}
