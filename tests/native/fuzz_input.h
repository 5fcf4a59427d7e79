#ifndef ECC_FUZZ_INPUT_H
#define ECC_FUZZ_INPUT_H

/* What the fuzzers of the engine have in common: networks, transfers and hooks read from arbitrary bytes. */

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/engine.h"

#define MAX_LINKS 4
#define MAX_ROUTERS 7
#define MAX_FLOWS 6
#define MAX_TEMPLATES 2
#define MAX_ROUTES 48
#define MAX_SAMPLES 6
#define MAX_TRANSFERS 24
#define MAX_EVENTS 3000
#define MAX_MEMORY (INT64_C(1) << 22)
#define RECORD 8 /* int64 of state for each hook's owner */
#define MS INT64_C(1000000000)
#define SECOND INT64_C(1000000000000)

typedef struct {
    const uint8_t *data;
    size_t left;
} reader_t;

typedef struct {
    ecc_config_t config;
    ecc_link_t links[MAX_ROUTERS];
    ecc_flow_t flows[MAX_FLOWS];
    ecc_flow_t templates[MAX_TEMPLATES];
    ecc_transfer_t transfers[MAX_TRANSFERS];
    int64_t n_transfers;
    ecc_impairment_t impairments[2];
    ecc_server_t servers[2];
    ecc_ps_t opportunities[4];
    ecc_delay_change_t delay_changes[2];
    ecc_change_t changes[3];
    int64_t routes[MAX_ROUTES];
    ecc_event_t trace[16];
    int64_t cells[8][MAX_SAMPLES * MAX_FLOWS];
    double rtts[2][MAX_SAMPLES * MAX_FLOWS];
    int64_t records[MAX_ROUTERS + MAX_FLOWS + MAX_TEMPLATES][RECORD];
} input_t;

static uint64_t
read_bytes(reader_t *self, size_t n)
{
    uint64_t value = 0;

    for (; n > 0 && self->left > 0; n--, self->left--) {
        value = value << 8 | *self->data++;
    }
    return value;
}

/* Mostly small, now and then anything. */
static int64_t
whole(reader_t *self)
{
    uint64_t selector = read_bytes(self, 1);

    return (int64_t) (selector < 128 ? selector - 2 : read_bytes(self, selector < 176 ? 2 : selector < 224 ? 5 : 8));
}

static double
number(reader_t *self)
{
    uint64_t selector = read_bytes(self, 1);
    uint64_t raw;
    double value;

    if (selector < 224) {
        return (double) selector * 1e5;
    }
    raw = read_bytes(self, 8);
    memcpy(&value, &raw, sizeof(value));
    return value;
}

/* Overwrites some of the n numbers with which a struct begins; the first n_real of them are doubles. */
static void
spoil(reader_t *self, void *start, size_t n, size_t n_real)
{
    for (uint64_t k = read_bytes(self, 1) % 4; k > 0; k--) {
        size_t i = read_bytes(self, 1) % n;
        unsigned char *at = (unsigned char *) start + 8 * i;
        if (i < n_real) {
            double value = number(self);
            memcpy(at, &value, sizeof(value));
        } else {
            int64_t value = whole(self);
            memcpy(at, &value, sizeof(value));
        }
    }
}

/* ---- hooks: what they do follows from their state, which they stir ---- */

static uint64_t
stir(int64_t *state)
{
    uint64_t s;

    memcpy(&s, state, sizeof(s));
    s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    memcpy(state, &s, sizeof(s));
    return s >> 33;
}

static double
odd(uint64_t draw)
{
    static const double values[] = { -1.0, NAN, INFINITY, 0.0, 1e-300, 1e300 };

    return values[draw % (sizeof(values) / sizeof(values[0]))];
}

static bool has_headers; /* room for what the hooks write into them */

static int32_t
link_hook(void *state, void *header, void *params, void *env)
{
    int64_t *record = state;
    ecc_link_env_t *seen = env;
    uint64_t draw = stir(record);

    (void) params;
    if (has_headers) {
        *(int64_t *) header += 1;
    }
    seen->drop = draw % 16 == 0;
    seen->mark = draw % 16 == 1;
    seen->trim = draw % 16 == 2;
    seen->queue_index = draw % 2;
    if (draw % 4 == 1) {
        seen->next_interval = (double) (draw / 4 % 64) * 1e-3;
    } else if (draw % 512 == 2) {
        seen->next_interval = odd(draw / 512);
    }
    return draw % 4096 == 3 ? 7 : 0;
}

static int32_t
flow_hook(void *state, void *header, void *params, void *env)
{
    int64_t *record = state;
    ecc_flow_env_t *seen = env;
    uint64_t draw = stir(record);

    (void) params;
    if (has_headers) {
        *(int64_t *) header ^= (int64_t) draw;
    }
    if (draw % 4 == 0) {
        seen->rate = (double) (draw / 4 % 100) * 1e5;
    } else if (draw % 4 == 1) {
        seen->window = (double) (draw / 4 % 32) * 500.0;
    } else if (draw % 4 == 2) {
        seen->timer = (double) (draw / 4 % 64) * 1e-3;
    } else if (draw % 16 == 11) {
        seen->timer_1 = (double) (draw / 16 % 16) * 1e-3;
        seen->timer_3 = (double) (draw / 256 % 16) * 1e-3;
        seen->counter = (int64_t) (draw / 4096 % 5000);
        seen->control_size = (int64_t) (draw / 4096 % 100);
        seen->control_kind = (int64_t) (draw / 16 % 3);
    } else if (draw % 1024 == 3) {
        seen->rate = odd(draw / 1024);
        seen->timer = odd(draw / 8192);
        seen->timer_1 = odd(draw / 65536);
        seen->control_size = (int64_t) (draw / 65536);
    }
    return draw % 4096 == 7 ? -3 : 0;
}

/* ---- input ---- */

static void
set_link(reader_t *self, ecc_link_t *link, int64_t *record)
{
    uint64_t hooks = read_bytes(self, 1);

    *link = (ecc_link_t) { .capacity = 1e6 + number(self),
        .delay = (int64_t) read_bytes(self, 1) * MS / 8,
        .buffer = -1,
        .first_interval = (int64_t) (read_bytes(self, 1) % 8) * MS - 1,
        .impairment = (int32_t) (read_bytes(self, 1) % 5),
        .header_offset = (int64_t) (read_bytes(self, 1) % 2) * 8,
        .state = record };
    link->server = hooks & 12 ? 0 : (int64_t) hooks >> 6;
    link->on_start = hooks & 1 ? link_hook : NULL;
    link->on_arrival = hooks & 2 ? link_hook : NULL;
    link->on_departure = hooks & 4 ? link_hook : NULL;
    link->on_drop = hooks & 8 ? link_hook : NULL;
    link->on_dequeue = (hooks & 24) == 24 ? link_hook : NULL;
    link->on_interval = hooks & 16 ? link_hook : NULL;
    link->on_classify = hooks & 128 ? link_hook : NULL;
    link->n_queues = hooks & 128 ? 2 : 0;
    link->scheduler = hooks & 128 ? hooks % 3 : 0;
    link->drops_longest = hooks & 1;
    link->wants_flow_queue = hooks & 32;
    link->wants_random = hooks & 64;
    link->xoff = hooks % 29 == 28 ? 3000 : 0;
    link->xon = link->xoff / 3;
    link->headroom = link->xoff;
    spoil(self, link, offsetof(ecc_link_t, state) / 8, 1);
    record[0] = (int64_t) read_bytes(self, 2);
}

static void
set_flow(reader_t *self, input_t *input, ecc_flow_t *flow, int64_t *record)
{
    uint64_t hooks = read_bytes(self, 1);
    uint64_t selector = read_bytes(self, 1);

    *flow = (ecc_flow_t) { .rate = selector & 1 ? 1e6 : 0.0,
        .window = selector & 2 ? 4000.0 : 0.0,
        .start = (int64_t) read_bytes(self, 1) * MS,
        .stop = -1,
        .size = selector & 4 ? (int64_t) read_bytes(self, 2) + 1 : -1,
        .packet_size = 500 + (int64_t) (selector & 24),
        .ack_size = 40,
        .header_bytes = selector & 32,
        .impairment = (int32_t) (read_bytes(self, 1) % 4),
        .ack_every = (int32_t) (read_bytes(self, 1) % 4),
        .ack_wait = 40 * MS,
        .enables_subsequent = (int16_t) (read_bytes(self, 1) % 8),
        .ecn = (int8_t) ((hooks >> 7) * (1 + selector % 3)),
        .transport = (int8_t) (read_bytes(self, 1) % 4),
        .lost_retransmission = (selector & 8) != 0,
        .receiver_window = (int64_t) (read_bytes(self, 1) % 4) * 2000,
        .min_rto = (int64_t) read_bytes(self, 1) * MS,
        .initial_rto = SECOND,
        .rto_granularity = (int64_t) (read_bytes(self, 1) % 16) * MS,
        .access_delay = selector & 64 ? MS : 0,
        .ack_delay = (int64_t) read_bytes(self, 1) * MS / 4,
        .n_forward = 1 + (int64_t) (read_bytes(self, 1) % 3),
        .n_reverse = (int64_t) (read_bytes(self, 1) % 3),
        .n_timers = (int8_t) (selector % 5),
        .bottleneck = selector & 128 ? 8 : -1,
        .header_offset = (int32_t) (read_bytes(self, 1) % 2) * 8,
        .state = record };
    flow->on_start = hooks & 1 ? flow_hook : NULL;
    flow->on_send = hooks & 2 ? flow_hook : NULL;
    flow->on_receive = hooks & 4 ? flow_hook : NULL;
    flow->on_ack = hooks & 8 ? flow_hook : NULL;
    flow->on_loss = hooks & 16 ? flow_hook : NULL;
    flow->on_timer = hooks & 32 ? flow_hook : NULL;
    flow->on_stop = hooks & 64 ? flow_hook : NULL;
    flow->on_count = hooks & 2 ? flow_hook : NULL;
    flow->on_control = hooks & 8 ? flow_hook : NULL;
    flow->on_restart = hooks & 16 ? flow_hook : NULL;
    flow->on_report = hooks & 32 ? flow_hook : NULL;
    flow->trimmed_size = (selector & 20) == 20 && flow->transport == ECC_TRANSPORT_NONE ? 60 : 0;
    flow->pacing_gain = flow->transport != ECC_TRANSPORT_NONE && (selector & 32) != 0 ? 1.25 : 0.0;
    flow->pacing_burst = 2000;
    if ((flow->transport == ECC_TRANSPORT_SACK || flow->transport == ECC_TRANSPORT_RACK) && (selector & 16) != 0) {
        flow->uses_prr = (int8_t) (1 + (selector & 1));
    }
    flow->priority = (int8_t) (selector >> 5);
    flow->write_size = selector % 32 == 5 ? 700 : 0;
    flow->write_period = selector % 32 == 5 ? 3 * MS : 0;
    for (int64_t k = 0; k < flow->n_forward + flow->n_reverse && input->config.n_routes < MAX_ROUTES; k++) {
        input->routes[input->config.n_routes++]
            = (int64_t) read_bytes(self, 1) % (input->config.n_links + (selector == 0));
    }
    spoil(self, flow, offsetof(ecc_flow_t, state) / 8, 2);
    /* what no engine could check, or what takes for ever: memory outside of a record, a window without bounds */
    flow->bottleneck = flow->bottleneck >= 0 ? flow->bottleneck % RECORD * 8 : flow->bottleneck;
    flow->window = flow->window > 1e4 && isfinite(flow->window) ? 1e4 : flow->window;
    record[0] = (int64_t) read_bytes(self, 2);
}

/* One flow in four has other routes, each of one link. */
static void
set_alternatives(reader_t *self, input_t *input, ecc_flow_t *flow)
{
    int64_t n = flow->packet_size == 508 ? 1 + (int64_t) (read_bytes(self, 1) % 3) : 0;

    if (n > 0 && input->config.n_routes + 2 * n <= MAX_ROUTES) {
        flow->n_alternatives = (int32_t) n;
        flow->spraying = (int8_t) (n % 2);
        for (int64_t k = 0; k < 2 * n; k++) { /* first how many links each has */
            input->routes[input->config.n_routes++] = k < n ? 1 : (int64_t) read_bytes(self, 1) % input->config.n_links;
        }
    }
}

static void
set_input(reader_t *self, input_t *input)
{
    ecc_config_t *config = &input->config;
    static const ecc_bytes_t quanta[2 * MAX_ROUTERS]
        = { 1500, 500, 1500, 300, 3000, 900, 1500, 500, 1500, 300, 3000, 900, 9, 9 };
    int64_t(*record)[RECORD] = input->records;
    uint64_t selector;

    memset(input, 0, sizeof(*input));
    *config = (ecc_config_t) { .seed = read_bytes(self, 1),
        .n_links = 1 + (int64_t) (read_bytes(self, 1) % MAX_LINKS),
        .n_additional = (int64_t) (read_bytes(self, 1) % (MAX_ROUTERS - MAX_LINKS + 1)),
        .n_flows = (int64_t) (read_bytes(self, 1) % (MAX_FLOWS + 1)),
        .n_templates = (int64_t) (read_bytes(self, 1) % (MAX_TEMPLATES + 1)),
        .header_size = 16,
        .n_trace = (int64_t) (read_bytes(self, 1) % 16),
        .record_size = 8 * RECORD,
        .links = input->links,
        .flows = input->flows,
        .templates = input->templates,
        .routes = input->routes,
        .trace = input->trace };
    for (int64_t i = 0; i < config->n_links + config->n_additional; i++) {
        set_link(self, &input->links[i], *record++);
        input->links[i].at = input->links[i].at == 0 ? i % config->n_links : input->links[i].at;
    }
    for (int64_t i = 0; i < config->n_flows; i++) {
        set_flow(self, input, &input->flows[i], *record++);
        set_alternatives(self, input, &input->flows[i]);
    }
    for (int64_t i = 0; i < config->n_templates; i++) {
        set_flow(self, input, &input->templates[i], *record++);
    }
    config->impairments = input->impairments;
    config->delay_changes = input->delay_changes;
    config->n_delay_changes = 2;
    input->delay_changes[0] = (ecc_delay_change_t) { .time = 0, .delay = 9 * MS };
    input->delay_changes[1] = (ecc_delay_change_t) { .time = 70 * MS, .delay = MS };
    config->n_impairments = (int64_t) (read_bytes(self, 1) % 3);
    for (int64_t i = 0; i < config->n_impairments; i++) {
        input->impairments[i] = (ecc_impairment_t) { .data_loss = i == 0 ? 0.0 : 0.1,
            .spike_every_lo = 3,
            .spike_every_hi = 9,
            .spike_lo = MS,
            .spike_hi = 9 * MS,
            .jitter_hi = i * MS,
            .reorders = i,
            .slot_lo = (1 - i) * MS,
            .slot_hi = (1 - i) * 3 * MS,
            .slot_packets = 4,
            .jitter_law = i,
            .jitter_scale = 2.0 * MS,
            .jitter_spread = i == 2 ? 0.4 : 1.0 * MS,
            .burst_kinds = i,
            .burst_begins = 0.1,
            .burst_ends = 0.5,
            .burst_bad_loss = 0.9,
            .n_delays = 2 };
        spoil(self, &input->impairments[i], sizeof(input->impairments[i]) / 8, 2);
    }
    config->servers = input->servers;
    config->n_servers = 2;
    config->opportunities = input->opportunities;
    config->n_opportunities = 4;
    for (int64_t i = 0; i < 2; i++) {
        input->servers[i] = (ecc_server_t) { .rate = i == 0 ? 1e6 : 0.0,
            .burst = 3000,
            .n_opportunities = 4 * i,
            .opportunity = 1504,
            .slot_hi = i == 0 ? 2 * MS : 0,
            .slot_bytes = 4000 };
        spoil(self, &input->servers[i], sizeof(input->servers[i]) / 8, 1);
    }
    for (int64_t i = 0; i < 4; i++) {
        input->opportunities[i] = (i + 1) / 2 * 3 * MS;
    }
    config->quanta = quanta;
    config->n_quanta = 2 * MAX_ROUTERS;
    config->changes = input->changes;
    for (int64_t i = 0; i < 3; i++) {
        input->changes[i] = (ecc_change_t) { .time = (i + 1) * 50 * MS, .capacity = number(self) };
    }
    selector = read_bytes(self, 1);
    config->n_changes = selector & 4 ? 3 : 0;
    input->links[0].n_changes = selector & 4 ? 3 : input->links[0].n_changes;
    if (selector & 1) {
        config->samples = (ecc_samples_t) { .period = selector & 2 ? (int64_t) read_bytes(self, 1) * MS : whole(self),
            .n_samples = (int64_t) (read_bytes(self, 1) % 8) - 1,
            .n_flows = config->n_flows - (int64_t) (read_bytes(self, 1) % 4) / 3,
            .sent = input->cells[0],
            .received = input->cells[1],
            .bottleneck = input->cells[2],
            .queue = input->cells[3],
            .queue_peak = input->cells[4],
            .arrived = input->cells[5],
            .dropped = input->cells[6],
            .dropped_bytes = input->cells[7],
            .rtt = input->rtts[0],
            .rtt_peak = input->rtts[1] };
    }
    if (read_bytes(self, 1) % 16 == 0) {
        config->header_size = whole(self);
    }
    has_headers = true;
    for (int64_t i = 0; i < config->n_links + config->n_additional; i++) {
        has_headers = has_headers && input->links[i].header_offset < config->header_size;
    }
    for (int64_t i = 0; i < config->n_flows; i++) {
        has_headers = has_headers && input->flows[i].header_offset < config->header_size;
    }
    for (int64_t i = 0; i < config->n_templates; i++) {
        has_headers = has_headers && input->templates[i].header_offset < config->header_size;
    }
    if (config->n_templates > 0) {
        ecc_ps_t start = 0;
        input->n_transfers = (int64_t) (read_bytes(self, 1) % MAX_TRANSFERS);
        for (int64_t i = 0; i < input->n_transfers; i++) {
            ecc_transfer_t *transfer = &input->transfers[i];
            start += (int64_t) read_bytes(self, 1) * MS / 4;
            *transfer = (ecc_transfer_t) { .start = start,
                .stop = -1,
                .size = 1 + (int64_t) read_bytes(self, 2),
                .access_delay = (int64_t) (read_bytes(self, 1) % 2) * MS,
                .ack_delay = MS,
                .template_index = (int64_t) read_bytes(self, 1) % config->n_templates };
            transfer->receiver_window = (int64_t) (read_bytes(self, 1) % 3) * 3000;
            transfer->is_subsequent = i > 0 && read_bytes(self, 1) % 2 == 0; /* refused at times */
            if (read_bytes(self, 1) % 8 == 0) {
                spoil(self, transfer, sizeof(*transfer) / 8, 0);
            }
        }
    }
}

/* ---- memory: limited, and one allocation may fail ---- */

typedef struct {
    int64_t n_calls;
    int64_t fails_at;
    int64_t n_blocks;
} memory_t;

static void *
resize(void *context, void *block, size_t size)
{
    memory_t *self = context;

    if (size == 0) {
        self->n_blocks -= block != NULL;
        free(block);
        return NULL;
    }
    if (self->n_calls++ == self->fails_at || size > (size_t) MAX_MEMORY) {
        return NULL;
    }
    self->n_blocks += block == NULL;
    return realloc(block, size);
}

/* Hands over the next transfer, and those that follow it. */
static int
hand_over(ecc_engine_t *engine, const input_t *input, int64_t *n_added)
{
    int64_t first = *n_added;
    int64_t n = first < input->n_transfers;

    while (first + n < input->n_transfers && input->transfers[first + n].is_subsequent != 0) {
        n++;
    }
    *n_added += n;
    return ecc_engine_add(engine, &input->transfers[first], n, *n_added < input->n_transfers);
}

#endif
