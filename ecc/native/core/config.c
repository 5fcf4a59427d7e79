/*
 * Checks of the configuration: every value is checked before anything is built.
 *
 * A check reports the first invalid value; errors.h states the allowed ones. Pointers are not checked, nor are the
 * results of hooks.
 *
 * Not here: the table of hops (routes.c), partitions (partition.c), and flows that have begun before (begun.c).
 */

#include "core/config.h"

#include <math.h>

#include "core/begun.h"

#define MAX_HEADER 4096
#define MAX_RECORD (1 << 20)
#define MAX_QUEUES 65536
#define MAX_ALTERNATIVES 65535
#define MAX_QUANTUM (INT64_C(1) << 30)
#define MAX_BYTES (INT64_C(1) << 50)
#define MAX_PACKETS (INT64_C(1) << 53)
#define MAX_PACING_GAIN 1e6

bool
ecc_config_is_reordered(const ecc_engine_t *self, const ecc_flow_t *spec, const uint32_t *hops)
{
    bool found = spec->n_alternatives > 0;

    for (int64_t k = 0; k < spec->n_forward; k++) {
        found = found || ecc_config_reorders(self, hops[k] >> ECC_HOP_LINK);
    }
    return found;
}

bool
ecc_config_needs_receiver(const ecc_engine_t *self, const ecc_flow_t *spec, const uint32_t *hops)
{
    return spec->n_reverse > 0 || spec->impairment > 0 || spec->ack_every > 1 || spec->ecn != ECC_ECN_NONE
        || spec->reordering_threshold > 1 || spec->trimmed_size > 0 || ecc_config_is_reordered(self, spec, hops);
}

static bool
is_offset(int64_t offset, size_t header_size)
{
    return offset >= 0 && offset <= (int64_t) header_size && offset % 8 == 0;
}

/* Checks the fields of a router, or of the first router of a link. */
static int
check_router(const ecc_link_t *router, size_t header_size, double *value)
{
    if (router->first_interval >= ECC_NEVER) {
        *value = (double) router->first_interval;
        return ECC_ERR_LINK_INTERVAL;
    }
    if (!is_offset(router->header_offset, header_size)) {
        *value = (double) router->header_offset;
        return ECC_ERR_HEADER_OFFSET;
    }
    return 0;
}

static bool
is_delay(ecc_ps_t lo, ecc_ps_t hi)
{
    return lo >= 0 && lo <= hi && hi <= ECC_MAX_DELAY;
}

static bool
is_probability(double value)
{
    return value >= 0.0 && value <= 1.0;
}

/* Whether the laws of jitter and of bursts of losses are valid. */
static bool
are_laws(const ecc_impairment_t *spec)
{
    double max_spread = spec->jitter_law == ECC_JITTER_PARETO ? 1.0 : (double) ECC_MAX_DELAY;

    return spec->jitter_law >= ECC_JITTER_UNIFORM && spec->jitter_law <= ECC_JITTER_PARETO && spec->jitter_scale >= 0.0
        && spec->jitter_scale <= (double) ECC_MAX_DELAY && spec->jitter_spread >= 0.0
        && spec->jitter_spread <= max_spread && spec->burst_kinds >= 0 && spec->burst_kinds <= 3
        && is_probability(spec->burst_begins) && is_probability(spec->burst_ends)
        && is_probability(spec->burst_good_loss) && is_probability(spec->burst_bad_loss)
        && (spec->burst_kinds == 0 || spec->burst_begins + spec->burst_ends > 0.0);
}

static bool
are_delays(const ecc_impairment_t *spec, const ecc_config_t *config)
{
    int64_t n = spec->n_delays;
    bool valid = spec->first_delay >= 0 && n >= 0 && spec->first_delay <= config->n_delay_changes
        && n <= config->n_delay_changes - spec->first_delay;

    for (int64_t k = 0; valid && k < n; k++) {
        const ecc_delay_change_t *change = &config->delay_changes[spec->first_delay + k];
        valid = change->time >= 0 && change->time < ECC_NEVER && is_delay(change->delay, change->delay)
            && (k == 0 || change->time > change[-1].time);
    }
    return valid;
}

static bool
is_impairment(const ecc_impairment_t *spec)
{
    return is_probability(spec->data_loss) && is_probability(spec->ack_loss) && are_laws(spec)
        && (spec->spike_every_hi == 0
            || (spec->spike_every_lo >= 1 && spec->spike_every_lo <= spec->spike_every_hi
                && spec->spike_every_hi <= MAX_PACKETS))
        && is_delay(spec->spike_lo, spec->spike_hi) && is_delay(spec->spike_between, spec->spike_between)
        && is_delay(spec->jitter_lo, spec->jitter_hi) && is_delay(spec->slot_lo, spec->slot_hi)
        && spec->slot_packets >= 0 && spec->slot_bytes >= 0;
}

/* Whether a server is valid; its opportunities come after n_opportunities others. */
static bool
is_server(const ecc_server_t *spec, const ecc_config_t *config, int64_t n_opportunities)
{
    const ecc_ps_t *times = config->opportunities + n_opportunities;
    int64_t n = spec->n_opportunities;
    bool valid = spec->rate >= 0.0 && isfinite(spec->rate)
        && (spec->rate == 0.0 || (spec->burst >= 1 && spec->burst <= MAX_BYTES)) && n >= 0 && n < UINT32_MAX
        && n <= config->n_opportunities - n_opportunities
        && (n == 0 || (spec->opportunity >= 1 && spec->opportunity <= ECC_MAX_PACKET_SIZE))
        && is_delay(spec->slot_lo, spec->slot_hi) && spec->slot_packets >= 0 && spec->slot_bytes >= 0;

    for (int64_t k = 0; valid && k < n; k++) {
        valid = times[k] >= 0 && times[k] < ECC_NEVER && (k == 0 || times[k] >= times[k - 1]);
    }
    return valid && (n == 0 || times[n - 1] > 0);
}

/* Whether the writes of a flow at their own times are valid. */
static bool
are_writes(const ecc_flow_t *flow, const ecc_config_t *config)
{
    int64_t n = flow->n_writes;
    bool valid = flow->first_write >= 0 && n >= 0 && flow->first_write <= config->n_writes
        && n <= config->n_writes - flow->first_write && (n == 0 || flow->write_size == 0);

    for (int64_t k = 0; valid && k < n; k++) {
        const ecc_write_t *write = &config->writes[flow->first_write + k];
        valid = write->time >= 0 && write->time < ECC_NEVER && write->total > 0 && write->total <= ECC_NO_END
            && (k == 0 || (write->time > write[-1].time && write->total > write[-1].total));
    }
    return valid;
}

/* Index of the first invalid change of a link's capacity, or n_changes. */
static int64_t
check_changes(const ecc_change_t *changes, int64_t n_changes)
{
    int64_t k = 0;

    while (k < n_changes && changes[k].time >= 0 && changes[k].time < ECC_NEVER
        && (k == 0 || changes[k].time > changes[k - 1].time) && changes[k].capacity >= 0.0
        && isfinite(changes[k].capacity)) {
        k++;
    }
    return k;
}

/* Whether the queues of a link are valid; their quanta come after n_quanta others. */
static bool
are_queues(const ecc_link_t *link, const ecc_config_t *config, int64_t n_quanta)
{
    bool valid = link->n_queues >= 0 && link->n_queues <= MAX_QUEUES && link->n_queues <= config->n_quanta - n_quanta
        && link->scheduler >= ECC_SCHEDULER_PRIORITY && link->scheduler <= ECC_SCHEDULER_SELECT
        && (link->scheduler == ECC_SCHEDULER_PRIORITY || link->n_queues > 0);

    for (int64_t k = 0; valid && k < link->n_queues; k++) {
        valid = config->quanta[n_quanta + k] >= 1 && config->quanta[n_quanta + k] <= MAX_QUANTUM;
    }
    return valid;
}

static int
check_link(const ecc_link_t *link, const ecc_config_t *config, int64_t *n_changes, int64_t *n_quanta, double *value)
{
    int64_t k;

    if (link->n_changes < 0 || link->n_changes > config->n_changes - *n_changes) {
        *value = (double) link->n_changes;
        return ECC_ERR_CHANGES;
    }
    k = link->n_changes == 0 ? 0 : check_changes(config->changes + *n_changes, link->n_changes);
    if (k < link->n_changes) {
        *value = config->changes[*n_changes + k].capacity;
        return ECC_ERR_CHANGES;
    }
    *n_changes += link->n_changes;
    if (!are_queues(link, config, *n_quanta)) {
        *value = (double) link->n_queues;
        return ECC_ERR_QUEUES;
    }
    *n_quanta += link->n_queues;
    if (link->impairment < 0 || link->impairment > config->n_impairments) {
        *value = (double) link->impairment;
        return ECC_ERR_IMPAIRMENT;
    }
    if (link->server < 0 || link->server > config->n_servers) {
        *value = (double) link->server;
        return ECC_ERR_SERVER;
    }
    if (!(link->capacity > 0.0 && isfinite(link->capacity))) {
        *value = link->capacity;
        return ECC_ERR_LINK_CAPACITY;
    }
    if (link->delay < 0 || link->delay > ECC_MAX_DELAY) {
        *value = (double) link->delay;
        return ECC_ERR_LINK_DELAY;
    }
    if (link->buffer < -1) {
        *value = (double) link->buffer;
        return ECC_ERR_LINK_BUFFER;
    }
    if (link->begun_queue < 0 || link->begun_queue > MAX_BYTES
        || (link->begun_queue > 0 && (link->n_queues > 0 || link->on_dequeue != NULL))) {
        *value = (double) link->begun_queue;
        return ECC_ERR_UNDER_WAY;
    }
    if (link->xoff < 0 || link->xoff > MAX_BYTES || link->xon < 0 || link->xon > link->xoff || link->headroom < 0
        || link->headroom > MAX_BYTES || (link->xoff > 0 && config->partition.n_parts > 1)) {
        *value = (double) link->xoff;
        return ECC_ERR_PAUSE;
    }
    if (link->buffer_packets < 0) {
        *value = (double) link->buffer_packets;
        return ECC_ERR_LINK_BUFFER;
    }
    return 0;
}

int
ecc_config_check_flow(const ecc_flow_t *flow, size_t header_size, double *value)
{
    const struct {
        int code;
        bool holds;
        double value;
    } checks[] = {
        { ECC_ERR_RATE, flow->rate >= 0.0 && isfinite(flow->rate), flow->rate },
        { ECC_ERR_WINDOW, flow->window >= 0.0 && isfinite(flow->window), flow->window },
        { ECC_ERR_FLOW_TIMES, flow->start >= 0 && flow->start < ECC_NEVER, (double) flow->start },
        { ECC_ERR_FLOW_TIMES, flow->stop == -1 || flow->stop > flow->start, (double) flow->stop },
        { ECC_ERR_FLOW_SIZE, flow->size == -1 || flow->size > 0, (double) flow->size },
        { ECC_ERR_PACKET_SIZE, flow->packet_size > 0 && flow->packet_size <= ECC_MAX_PACKET_SIZE,
            (double) flow->packet_size },
        { ECC_ERR_PACKET_SIZE,
            flow->packet_size_max == 0
                || (flow->packet_size_max >= flow->packet_size && flow->packet_size_max <= ECC_MAX_PACKET_SIZE),
            (double) flow->packet_size_max },
        { ECC_ERR_PACKET_SIZE, flow->opening_size >= 0 && flow->opening_size <= ECC_MAX_PACKET_SIZE,
            (double) flow->opening_size },
        { ECC_ERR_HEADER_BYTES, flow->header_bytes >= 0 && flow->header_bytes <= ECC_MAX_HEADER_BYTES,
            (double) flow->header_bytes },
        { ECC_ERR_HEADER_OFFSET, is_offset(flow->header_offset, header_size), (double) flow->header_offset },
        { ECC_ERR_PACKET_SIZE, flow->ack_size > 0 && flow->ack_size <= ECC_MAX_PACKET_SIZE, (double) flow->ack_size },
        { ECC_ERR_FLOW_DELAY, flow->access_delay >= 0 && flow->access_delay <= ECC_MAX_DELAY,
            (double) flow->access_delay },
        { ECC_ERR_FLOW_DELAY, flow->ack_delay >= 0 && flow->ack_delay <= ECC_MAX_DELAY, (double) flow->ack_delay },
        { ECC_ERR_ACKS, flow->ack_every >= 0, (double) flow->ack_every },
        { ECC_ERR_ACKS, is_delay(flow->ack_wait, flow->ack_wait), (double) flow->ack_wait },
        { ECC_ERR_ECN, flow->ecn >= 0 && flow->ecn <= ECC_ECN_SCALABLE, (double) flow->ecn },
        { ECC_ERR_TIMERS, flow->n_timers >= 0 && flow->n_timers <= ECC_MAX_TIMERS, (double) flow->n_timers },
        { ECC_ERR_TRANSPORT, flow->transport >= 0 && flow->transport <= ECC_TRANSPORT_QUIC, (double) flow->transport },
        { ECC_ERR_TRANSPORT, flow->receiver_window >= 0, (double) flow->receiver_window },
        { ECC_ERR_TRANSPORT, flow->lost_retransmission >= 0 && flow->lost_retransmission <= ECC_LOST_LINUX,
            (double) flow->lost_retransmission },
        { ECC_ERR_TRANSPORT,
            flow->uses_prr >= 0
                && flow->uses_prr <= (ecc_config_may_use_prr(flow) ? ECC_PRR_LOSSES_AND_MARKS : ECC_PRR_NEVER),
            (double) flow->uses_prr },
        { ECC_ERR_TRANSPORT, is_delay(flow->min_rto, flow->min_rto), (double) flow->min_rto },
        { ECC_ERR_TRANSPORT, is_delay(flow->initial_rto, flow->initial_rto), (double) flow->initial_rto },
        { ECC_ERR_TRANSPORT, is_delay(flow->rto_granularity, flow->rto_granularity), (double) flow->rto_granularity },
        { ECC_ERR_TRANSPORT, flow->pacing_gain >= 0.0 && flow->pacing_gain <= MAX_PACING_GAIN, flow->pacing_gain },
        { ECC_ERR_TRANSPORT, flow->pacing_gain == 0.0 || flow->transport != ECC_TRANSPORT_NONE, flow->pacing_gain },
        { ECC_ERR_TRANSPORT, flow->pacing_burst >= 0 && flow->pacing_burst <= MAX_BYTES, (double) flow->pacing_burst },
        { ECC_ERR_WRITES, (flow->write_size > 0) == (flow->write_period > 0), (double) flow->write_size },
        { ECC_ERR_WRITES, flow->write_size >= 0, (double) flow->write_size },
        { ECC_ERR_WRITES, is_delay(flow->write_period, flow->write_period), (double) flow->write_period },
        { ECC_ERR_FLOW_ROUTE, flow->n_forward >= 1, (double) flow->n_forward },
        { ECC_ERR_FLOW_ROUTE, flow->n_reverse >= 0, (double) flow->n_reverse },
        { ECC_ERR_TRIMMING,
            flow->trimmed_size == 0
                || (flow->trimmed_size > 0 && flow->trimmed_size < ECC_MAX_PACKET_SIZE
                    && flow->packet_size < ECC_MAX_PACKET_SIZE && flow->packet_size_max < ECC_MAX_PACKET_SIZE
                    && flow->opening_size < ECC_MAX_PACKET_SIZE && flow->transport == ECC_TRANSPORT_NONE),
            (double) flow->trimmed_size },
        { ECC_ERR_PAUSE, flow->priority >= 0 && flow->priority < ECC_N_PRIORITIES, (double) flow->priority },
        { ECC_ERR_SPRAYING, flow->n_alternatives >= 0 && flow->n_alternatives <= MAX_ALTERNATIVES,
            (double) flow->n_alternatives },
        { ECC_ERR_SPRAYING, flow->spraying >= 0 && flow->spraying <= ECC_SPRAYING_RANDOM, (double) flow->spraying },
        { ECC_ERR_SPRAYING,
            flow->reordering_threshold >= 0 && flow->reordering_threshold <= ECC_MAX_REORDERING_THRESHOLD,
            (double) flow->reordering_threshold },
    };

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (!checks[i].holds) {
            *value = checks[i].value;
            return checks[i].code;
        }
    }
    return 0;
}

/* Whether the recorded fields are valid; the caller checks offsets into records. */
static bool
are_recorded(const ecc_samples_t *samples)
{
    if (samples->n_recorded < 0 || samples->recorded == NULL || samples->words == NULL) {
        return false;
    }
    for (int64_t i = 0; i < samples->n_recorded; i++) {
        const ecc_recorded_t *one = &samples->recorded[i];
        if (one->offset < 0 || one->offset % 8 != 0) {
            return false;
        }
        if (one->record == NULL
            && (one->flow < 0 || one->flow >= samples->n_flows
                || one->offset > (int64_t) (sizeof(ecc_flow_env_t) - sizeof(int64_t)))) {
            return false;
        }
    }
    return true;
}

static bool
is_count(int64_t n)
{
    return n >= 0 && n < ECC_MAX_ENTITIES;
}

/* Whether samples have all their arrays, and at most as many flows as the network. */
static bool
are_samples(const ecc_samples_t *samples, int64_t n_flows)
{
    return samples->n_samples > 0 && samples->period > 0 && samples->n_flows >= 0 && samples->n_flows <= n_flows
        && samples->sent != NULL && samples->received != NULL && samples->bottleneck != NULL && samples->queue != NULL
        && samples->queue_peak != NULL && samples->arrived != NULL && samples->dropped != NULL
        && (samples->rtt == NULL || samples->rtt_peak != NULL) && (samples->paused == NULL || samples->pauses != NULL)
        && (samples->queues == NULL || (samples->queue_dropped != NULL && samples->queue_marked != NULL));
}

static int
fail(ecc_engine_t *self, int code, double value)
{
    return ecc_state_fail(self, code, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, value);
}

/* Checks counts, sizes, samples, impairments and servers: all that belongs to no link or flow. */
static int
check_run(ecc_engine_t *self, const ecc_config_t *config)
{
    const ecc_samples_t *samples = &config->samples;
    int64_t n_opportunities = 0;

    if (!is_count(config->n_links) || !is_count(config->n_flows) || !is_count(config->n_templates)
        || config->n_additional < 0 || config->n_additional >= ECC_MAX_ENTITIES - config->n_links
        || config->n_routes < 0 || config->n_routes >= UINT32_MAX) {
        return fail(self, ECC_ERR_TOO_LARGE, (double) config->n_flows);
    }
    if (config->header_size < 0 || config->header_size > MAX_HEADER || config->header_size % 8 != 0) {
        return fail(self, ECC_ERR_HEADER_SIZE, (double) config->header_size);
    }
    if (config->record_size < 0 || config->record_size > MAX_RECORD || config->record_size % 8 != 0) {
        return fail(self, ECC_ERR_RECORD_SIZE, (double) config->record_size);
    }
    if (samples->n_samples != 0 && !are_samples(samples, config->n_flows)) {
        return fail(self, ECC_ERR_SAMPLES, (double) samples->period);
    }
    if (samples->n_samples != 0 && samples->n_recorded != 0 && !are_recorded(samples)) {
        return fail(self, ECC_ERR_RECORDED, (double) samples->n_recorded);
    }
    for (int64_t i = 0; i < config->n_impairments; i++) {
        if (!is_impairment(&config->impairments[i]) || !are_delays(&config->impairments[i], config)) {
            return fail(self, ECC_ERR_IMPAIRMENT, (double) i + 1.0);
        }
    }
    for (int64_t i = 0; i < config->n_servers; i++) {
        if (!is_server(&config->servers[i], config, n_opportunities)) {
            return fail(self, ECC_ERR_SERVER, (double) i + 1.0);
        }
        n_opportunities += config->servers[i].n_opportunities;
    }
    if (config->n_under_way < 0 || (config->n_under_way > 0 && config->begun == NULL)
        || (config->begun != NULL && config->partition.n_parts > 1)) {
        return fail(self, ECC_ERR_UNDER_WAY, (double) config->n_under_way);
    }
    for (int64_t i = 0; i < config->n_monitors; i++) {
        int64_t before = i > 0 ? config->monitors[i - 1] : -1;
        if (config->monitors[i] <= before || config->monitors[i] >= config->n_flows || config->partition.n_parts > 1) {
            return fail(self, ECC_ERR_MONITORS, (double) config->monitors[i]);
        }
    }
    return 0;
}

static int
check_links(ecc_engine_t *self, const ecc_config_t *config)
{
    double value = 0.0;
    int64_t n_changes = 0;
    int64_t n_quanta = 0;

    for (int64_t i = 0; i < config->n_links; i++) {
        int ret = check_link(&config->links[i], config, &n_changes, &n_quanta, &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_LINK, i, ECC_NO_HOOK, value);
        }
    }
    for (int64_t i = 0; i < config->n_links + config->n_additional; i++) {
        const ecc_link_t *router = &config->links[i];
        int ret;
        if (i >= config->n_links && (router->at < 0 || router->at >= config->n_links)) {
            return ecc_state_fail(self, ECC_ERR_ROUTER, ECC_ENTITY_LINK, i, ECC_NO_HOOK, (double) router->at);
        }
        ret = check_router(router, (size_t) config->header_size, &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_LINK, i, ECC_NO_HOOK, value);
        }
    }
    return 0;
}

static int
check_flows(ecc_engine_t *self, const ecc_config_t *config)
{
    bool wants_flow_queues = false;
    double value = 0.0;

    for (int64_t i = 0; i < config->n_links + config->n_additional; i++) {
        wants_flow_queues = wants_flow_queues || config->links[i].wants_flow_queue != 0;
    }
    for (int64_t i = 0; i < config->n_flows + config->n_templates; i++) {
        const ecc_flow_t *flow = i < config->n_flows ? &config->flows[i] : &config->templates[i - config->n_flows];
        int ret = ecc_config_check_flow(flow, (size_t) config->header_size, &value);
        if (ret == 0 && (flow->impairment < 0 || flow->impairment > config->n_impairments)) {
            value = (double) flow->impairment;
            ret = ECC_ERR_IMPAIRMENT;
        }
        if (ret == 0 && !are_writes(flow, config)) {
            value = (double) flow->n_writes;
            ret = ECC_ERR_WRITES;
        }
        if (ret == 0 && flow->n_alternatives > 0 && (i >= config->n_flows || wants_flow_queues)) {
            value = (double) flow->n_alternatives;
            ret = ECC_ERR_SPRAYING;
        }
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_FLOW, i, ECC_NO_HOOK, value);
        }
    }
    return 0;
}

int
ecc_config_check(ecc_engine_t *self, const ecc_config_t *config)
{
    int ret = check_run(self, config);

    if (ret == 0) {
        ret = check_links(self, config);
    }
    if (ret == 0) {
        ret = check_flows(self, config);
    }
    return ret == 0 && config->begun != NULL ? ecc_begun_check(self, config) : ret;
}
