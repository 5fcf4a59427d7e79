/*
 * Engines in threads: they share nothing, so that each has the result that it has alone. For ThreadSanitizer above all.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "core/engine.h"

#define MS INT64_C(1000000000)
#define SECOND INT64_C(1000000000000)
#define N_THREADS 4
#define N_FLOWS 6
#define N_SAMPLES 20

/* A record for each thread: hooks count in it. */
typedef struct {
    double wanted;
    int64_t n_calls;
} record_t;

typedef struct {
    uint64_t seed;
    int64_t max_events;
    record_t record;
    int64_t queue[N_SAMPLES];
    int64_t cells[6][N_SAMPLES * N_FLOWS];
    ecc_stats_t stats;
} work_t;

static const ecc_impairment_t impairment = { .data_loss = 0.01, .jitter_hi = MS };

static int32_t
follow_the_queue(void *state, void *header, void *params, void *env)
{
    ecc_link_env_t *link = env;
    record_t *record = state;

    (void) params;
    if (header != NULL && link->queue < 20000) {
        record->wanted += 1.0;
    }
    record->n_calls++;
    return 0;
}

static int32_t
grow(void *state, void *header, void *params, void *env)
{
    ecc_flow_env_t *flow = env;
    record_t *record = state;

    (void) header;
    flow->window = flow->window + *(const double *) params * (double) flow->acked / flow->window;
    record->n_calls++;
    return 0;
}

static int32_t
shrink(void *state, void *header, void *params, void *env)
{
    ecc_flow_env_t *flow = env;

    (void) state;
    (void) header;
    (void) params;
    flow->window = flow->window > 4000.0 ? 0.5 * flow->window : 2000.0;
    return 0;
}

static ecc_engine_t *
new_engine(work_t *work)
{
    static double gain = 1000.0;
    ecc_link_t link = { .capacity = 1e7,
        .delay = 5 * MS,
        .buffer = 30000,
        .first_interval = -1,
        .impairment = 1,
        .state = &work->record,
        .on_arrival = follow_the_queue };
    ecc_flow_t flows[N_FLOWS];
    int64_t routes[N_FLOWS] = { 0 };
    ecc_config_t config = { .seed = work->seed,
        .n_links = 1,
        .n_flows = N_FLOWS,
        .n_routes = N_FLOWS,
        .header_size = 16,
        .links = &link,
        .flows = flows,
        .routes = routes,
        .n_impairments = 1,
        .impairments = &impairment };
    ecc_engine_t *engine;
    ecc_report_t report;

    for (int64_t i = 0; i < N_FLOWS; i++) {
        flows[i] = (ecc_flow_t) { .window = 2000.0,
            .start = i * 10 * MS,
            .stop = -1,
            .size = -1,
            .packet_size = 1000,
            .ack_size = 40,
            .ack_delay = 5 * MS * (i + 1),
            .n_forward = 1,
            .bottleneck = -1,
            .transport = (int8_t) (i % 5),
            .min_rto = SECOND / 5,
            .state = &work->record,
            .params = &gain,
            .on_ack = grow,
            .on_loss = shrink };
    }
    config.samples = (ecc_samples_t) { .period = SECOND / 10,
        .n_samples = N_SAMPLES,
        .n_flows = N_FLOWS,
        .sent = work->cells[0],
        .received = work->cells[1],
        .bottleneck = work->cells[2],
        .queue = work->queue,
        .queue_peak = work->cells[3],
        .arrived = work->cells[4],
        .dropped = work->cells[5] };
    CHECK_EQUAL(ecc_engine_new(&config, &engine, &report), 0);
    return engine;
}

static void *
run(void *context)
{
    work_t *work = context;
    ecc_engine_t *engine = new_engine(work);

    do {
        CHECK_EQUAL(ecc_engine_advance(engine, 2 * SECOND, work->max_events), 0);
        ecc_engine_stats(engine, &work->stats);
    } while (work->stats.stop == ECC_STOP_MAX_EVENTS);
    CHECK_EQUAL(ecc_engine_verify(engine), 0);
    ecc_engine_free(engine);
    return NULL;
}

static void
engines_in_threads_share_nothing(void)
{
    static work_t alone[N_THREADS];
    static work_t together[N_THREADS];
    pthread_t threads[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        together[i].seed = alone[i].seed = (uint64_t) i / 2; /* two each do the same at the same time */
        alone[i].max_events = -1;
        together[i].max_events = 100 + i;
        CHECK(run(&alone[i]) == NULL);
        CHECK(alone[i].stats.events > 2000 && alone[i].record.n_calls > 1000);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run, &together[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        CHECK(together[i].stats.digest == alone[i].stats.digest);
        CHECK_EQUAL(together[i].record.n_calls, alone[i].record.n_calls);
        CHECK(memcmp(together[i].cells, alone[i].cells, sizeof(alone[i].cells)) == 0);
    }
    CHECK(alone[0].stats.digest == alone[1].stats.digest && alone[0].stats.digest != alone[2].stats.digest);
}

typedef struct {
    pthread_mutex_t lock;
    ecc_engine_t *engine;
    atomic_bool is_over;
} shared_t;

/* One slice after the other, each by whoever comes. */
static void *
take_turns(void *context)
{
    shared_t *shared = context;
    ecc_stats_t stats = { 0 };

    while (stats.stop != ECC_STOP_UNTIL) {
        CHECK_EQUAL(pthread_mutex_lock(&shared->lock), 0);
        CHECK_EQUAL(ecc_engine_advance(shared->engine, 2 * SECOND, 50), 0);
        ecc_engine_stats(shared->engine, &stats);
        CHECK_EQUAL(pthread_mutex_unlock(&shared->lock), 0);
    }
    return NULL;
}

static void
an_engine_may_go_from_thread_to_thread(void)
{
    static work_t alone = { .max_events = -1 };
    static work_t shared_work;
    shared_t shared = { .lock = PTHREAD_MUTEX_INITIALIZER };
    pthread_t threads[N_THREADS];
    ecc_stats_t stats;

    run(&alone);
    shared.engine = new_engine(&shared_work);
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, take_turns, &shared), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    }
    ecc_engine_stats(shared.engine, &stats);
    CHECK(stats.digest == alone.stats.digest);
    ecc_engine_free(shared.engine);
}

/* Asks for an end until there is one. */
static void *
stop(void *context)
{
    shared_t *shared = context;

    while (!atomic_load(&shared->is_over)) {
        ecc_engine_stop(shared->engine);
    }
    return NULL;
}

static void
another_thread_may_stop_a_call(void)
{
    static work_t work;
    shared_t shared = { .engine = new_engine(&work) };
    pthread_t thread;
    ecc_stats_t stats;

    CHECK_EQUAL(pthread_create(&thread, NULL, stop, &shared), 0);
    CHECK_EQUAL(ecc_engine_advance(shared.engine, ECC_NEVER - 1, -1), 0); /* 46 days, without that */
    ecc_engine_stats(shared.engine, &stats);
    CHECK_EQUAL(stats.stop, ECC_STOP_MAX_EVENTS);
    atomic_store(&shared.is_over, true);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    ecc_engine_free(shared.engine);
}

#define N_PARTS 3

/* What the parts of one network write to: a record each, and samples together. */
typedef struct {
    record_t records[N_PARTS];
    int64_t cells[7][N_SAMPLES * N_FLOWS];
} parts_t;

/*
 * Two links, one after the other. The first and all senders are in the first part, the second is in the second, and
 * receivers are in the third, which is as near to the first as the first is to the second, and nearer to the second.
 */
static ecc_engine_t *
new_part(parts_t *parts, int64_t n_parts, int64_t part)
{
    static double gain = 1000.0;
    static const int64_t links_in[2] = { 0, 1 };
    static const int64_t senders_in[N_FLOWS] = { 0 };
    static const int64_t receivers_in[N_FLOWS] = { 2, 2, 2, 2, 2, 2 };
    ecc_link_t links[2];
    ecc_flow_t flows[N_FLOWS];
    int64_t routes[2 * N_FLOWS];
    ecc_config_t config = { .seed = 1,
        .n_links = 2,
        .n_flows = N_FLOWS,
        .n_routes = 2 * N_FLOWS,
        .header_size = 16,
        .links = links,
        .flows = flows,
        .routes = routes,
        .n_impairments = 1,
        .impairments = &impairment };
    ecc_engine_t *engine;
    ecc_report_t report;

    for (int64_t i = 0; i < 2; i++) {
        links[i] = (ecc_link_t) { .capacity = i == 0 ? 2e7 : 1e7,
            .delay = i == 0 ? 5 * MS : MS,
            .buffer = 30000,
            .first_interval = -1,
            .impairment = i,
            .state = &parts->records[i],
            .on_arrival = follow_the_queue };
    }
    for (int64_t i = 0; i < N_FLOWS; i++) {
        routes[2 * i] = 0;
        routes[2 * i + 1] = 1;
        flows[i] = (ecc_flow_t) { .window = 2000.0,
            .start = i * 10 * MS,
            .stop = -1,
            .size = -1,
            .packet_size = 1000,
            .ack_size = 40,
            .ack_delay = 5 * MS * (i + 1),
            .n_forward = 2,
            .bottleneck = -1,
            .transport = (int8_t) (1 + i % 4), /* without one ACKs may be immediate, and both ends in one part */
            .min_rto = SECOND / 5,
            .state = &parts->records[0],
            .params = &gain,
            .on_ack = grow,
            .on_loss = shrink };
    }
    config.samples = (ecc_samples_t) { .period = SECOND / 10,
        .n_samples = N_SAMPLES,
        .n_flows = N_FLOWS,
        .sent = parts->cells[0],
        .received = parts->cells[1],
        .bottleneck = parts->cells[2],
        .queue = parts->cells[3],
        .queue_peak = parts->cells[4],
        .arrived = parts->cells[5],
        .dropped = parts->cells[6] };
    if (n_parts > 1) {
        config.partition = (ecc_partition_t) {
            .n_parts = n_parts, .part = part, .links = links_in, .senders = senders_in, .receivers = receivers_in
        };
    }
    CHECK_EQUAL(ecc_engine_new(&config, &engine, &report), 0);
    return engine;
}

typedef struct {
    ecc_team_t *team;
    int64_t part;
    int64_t max_events;
} member_t;

static void *
advance_part(void *context)
{
    member_t *member = context;
    int64_t n_calls = 0;
    int stop;

    for (int64_t i = 1; i <= N_SAMPLES; i += stop != ECC_STOP_MAX_EVENTS) {
        stop = ecc_team_advance(member->team, member->part, i * SECOND / 10, member->max_events);
        CHECK(stop == ECC_STOP_UNTIL || (stop == ECC_STOP_MAX_EVENTS && member->max_events > 0));
        n_calls++;
    }
    CHECK(member->max_events < 0 || n_calls > N_SAMPLES);
    return NULL;
}

/* The parts, in calls of so many events, do what the whole has done. */
static void
check_parts(const parts_t *whole, const ecc_stats_t *alone, int64_t max_events)
{
    static parts_t cut;
    ecc_engine_t *engines[N_PARTS];
    member_t members[N_PARTS];
    pthread_t threads[N_PARTS];
    ecc_stats_t all = { 0 };
    ecc_team_t *team;

    memset(&cut, 0, sizeof(cut));
    for (int64_t i = 0; i < N_PARTS; i++) {
        engines[i] = new_part(&cut, N_PARTS, i);
    }
    CHECK_EQUAL(ecc_team_new(engines, N_PARTS, &team), 0);
    for (int64_t i = 0; i < N_PARTS; i++) {
        members[i] = (member_t) { team, i, max_events };
        CHECK_EQUAL(pthread_create(&threads[i], NULL, advance_part, &members[i]), 0);
    }
    for (int64_t i = 0; i < N_PARTS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    }
    ecc_team_free(team);
    for (int64_t i = 0; i < N_PARTS; i++) {
        ecc_stats_t stats;
        CHECK_EQUAL(ecc_engine_verify(engines[i]), 0);
        ecc_engine_stats(engines[i], &stats);
        CHECK_EQUAL(stats.now, alone->now);
        CHECK(stats.events > 500);
        all.events += stats.events;
        all.digest += stats.digest;
        ecc_engine_free(engines[i]);
        CHECK_EQUAL(cut.records[i].n_calls, whole->records[i].n_calls);
    }
    CHECK_EQUAL(all.events, alone->events);
    CHECK(all.digest == alone->digest);
    CHECK(memcmp(cut.cells, whole->cells, sizeof(whole->cells)) == 0);
}

static void
parts_of_a_network_share_what_they_hand_over(void)
{
    static parts_t whole;
    ecc_engine_t *engine = new_part(&whole, 1, 0);
    ecc_stats_t alone;

    CHECK_EQUAL(ecc_engine_advance(engine, 2 * SECOND, -1), 0);
    ecc_engine_stats(engine, &alone);
    ecc_engine_free(engine);
    CHECK(alone.events > 2000);
    check_parts(&whole, &alone, -1);
    check_parts(&whole, &alone, 150);
}

int
main(void)
{
    parts_of_a_network_share_what_they_hand_over();
    another_thread_may_stop_a_call();
    engines_in_threads_share_nothing();
    an_engine_may_go_from_thread_to_thread();
    return 0;
}
