/*
 * Actions and observations between calls (S-223 to S-225), and crews that take steps of many engines. A flow sends 1000
 * bytes each 10 ms over a link of 1.6 Mb/s and 10 ms; with 10 ms for the ACK an RTT is 25 ms.
 */

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/engine.h"
#include "core/errors.h"
#include "run/crew.h"

#define MS INT64_C(1000000000)
#define N_ENGINES 7
#define N_STEPS 20
#define N_SHORT_STEPS 20000

/* An allocator that fails from its k-th call on. */
typedef struct {
    int64_t left;
    int64_t n_blocks;
} failing_t;

static void *
resize_or_fail(void *context, void *block, size_t size)
{
    failing_t *self = context;

    if (size == 0) {
        self->n_blocks -= block != NULL;
        free(block);
        return NULL;
    }
    if (self->left == 0) {
        return NULL;
    }
    self->left--;
    self->n_blocks += block == NULL;
    return realloc(block, size);
}

static ecc_config_t
configured(const ecc_allocator_t *allocator)
{
    static const ecc_link_t link = { .capacity = 1.6e6, .delay = 10 * MS, .buffer = -1, .first_interval = -1 };
    static const ecc_flow_t flow = { .rate = 8e5,
        .stop = -1,
        .size = -1,
        .packet_size = 1000,
        .ack_size = 40,
        .ack_delay = 10 * MS,
        .n_forward = 1,
        .bottleneck = -1 };
    static const int64_t route = 0;
    static const int64_t monitor = 0;

    return (ecc_config_t) { .seed = 1,
        .n_links = 1,
        .n_flows = 1,
        .n_routes = 1,
        .links = &link,
        .flows = &flow,
        .routes = &route,
        .n_monitors = 1,
        .monitors = &monitor,
        .allocator = allocator };
}

static ecc_engine_t *
new_engine(void)
{
    ecc_config_t config = configured(NULL);
    ecc_engine_t *engine;
    ecc_report_t report;

    CHECK_EQUAL(ecc_engine_new(&config, &engine, &report), 0);
    return engine;
}

static int64_t
us(double seconds)
{
    return (int64_t) floor(seconds * 1e6 + 0.5);
}

/* The same numbers as in tests/packet/test_steps.py, which derives them. */
static void
an_interval_by_hand(void)
{
    static const ecc_action_t action = { .flow = 0, .kind = ECC_ACTION_RATE };
    const double rate = 3.2e6;
    ecc_engine_t *engine = new_engine();
    ecc_observation_t seen;

    CHECK_EQUAL(ecc_engine_advance(engine, 0, -1), 0);
    ecc_engine_observe(engine, &seen);
    CHECK_EQUAL(seen.active, 1);
    CHECK_EQUAL(ecc_engine_advance(engine, 451 * MS / 10, -1), 0);
    ecc_engine_observe(engine, &seen);
    CHECK_EQUAL(seen.sent, 4000);
    CHECK_EQUAL(seen.delivered, 3000);
    CHECK_EQUAL(seen.n_rtts, 3);
    CHECK_EQUAL(us(seen.rtt), 25000);
    CHECK_EQUAL(ecc_engine_act(engine, &action, &rate, 1), 0);
    CHECK_EQUAL(ecc_engine_advance(engine, 852 * MS / 10, -1), 0);
    ecc_engine_observe(engine, &seen);
    CHECK_EQUAL(us(seen.duration), 40100);
    CHECK_EQUAL(seen.rate, 3200000);
    CHECK_EQUAL(seen.sent, 17000);
    CHECK_EQUAL(seen.n_rtts, 6);
    CHECK_EQUAL(us(seen.rtt), 27500);
    CHECK_EQUAL(us(seen.rtt_first), 25000);
    CHECK_EQUAL(us(seen.rtt_second), 30000);
    CHECK_EQUAL(us(seen.min_rtt), 25000);
    CHECK_EQUAL(seen.in_flight, 13000);
    ecc_engine_observe(engine, &seen);
    CHECK(seen.duration == 0.0 && seen.sent == 0.0 && seen.n_rtts == 0.0 && seen.rtt == 0.0 && seen.path_rtt > 0.0);
    CHECK_EQUAL(ecc_engine_verify(engine), 0);
    ecc_engine_free(engine);
}

/* A refused action changes nothing, also not those before it in its call. */
static void
bad_actions_are_refused(void)
{
    double word = 0.5;
    const ecc_action_t actions[]
        = { { .flow = 0, .kind = ECC_ACTION_WORD, .word = &word }, { .flow = 0, .kind = ECC_ACTION_RATE },
              { .flow = 0, .kind = ECC_ACTION_WINDOW }, { .flow = 1, .kind = ECC_ACTION_RATE } };
    const double values[][4] = { { 1.0, -1.0, NAN, NAN }, { 1.0, INFINITY, NAN, NAN }, { 1.0, NAN, -1.0, NAN },
        { INFINITY, NAN, NAN, NAN }, { 1.0, NAN, NAN, 1.0 } };
    const int codes[] = { ECC_ERR_RATE, ECC_ERR_RATE, ECC_ERR_WINDOW, ECC_ERR_WORD, ECC_ERR_ACTION };
    const double good[] = { 2.0, NAN, 3000.0, NAN };
    ecc_engine_t *engine = new_engine();
    ecc_engine_t *other = new_engine();
    ecc_stats_t stats[2];

    CHECK_EQUAL(ecc_engine_act(engine, actions, good, 4), ECC_ERR_ACTION); /* the flow has not started */
    CHECK_EQUAL(ecc_engine_advance(engine, 100 * MS, -1), 0);
    for (int k = 0; k < 5; k++) {
        CHECK_EQUAL(ecc_engine_act(engine, actions, values[k], 4), codes[k]);
    }
    CHECK(word == 0.5);
    CHECK_EQUAL(ecc_engine_advance(engine, 200 * MS, -1), 0);
    CHECK_EQUAL(ecc_engine_advance(other, 200 * MS, -1), 0);
    ecc_engine_stats(engine, &stats[0]);
    ecc_engine_stats(other, &stats[1]);
    CHECK(stats[0].digest == stats[1].digest);
    CHECK_EQUAL(ecc_engine_act(engine, actions, good, 4), 0);
    CHECK(word == 2.0);
    ecc_engine_free(other);
    ecc_engine_free(engine);
}

/* A crew with its threads, the caller not counted. */
typedef struct {
    ecc_crew_t *crew;
    pthread_t threads[N_ENGINES];
    int n_threads;
} crew_t;

static void *
work(void *crew)
{
    ecc_crew_work(crew);
    return NULL;
}

static void
begin_crew(crew_t *self, int n_threads)
{
    CHECK_EQUAL(ecc_crew_new(&self->crew), 0);
    self->n_threads = n_threads;
    for (int k = 0; k < n_threads; k++) {
        CHECK_EQUAL(pthread_create(&self->threads[k], NULL, work, self->crew), 0);
    }
}

static void
end_crew(crew_t *self)
{
    ecc_crew_end(self->crew);
    for (int k = 0; k < self->n_threads; k++) {
        CHECK_EQUAL(pthread_join(self->threads[k], NULL), 0);
    }
    ecc_crew_free(self->crew);
}

/* Steps of engines with rates that differ, by a crew; returns the sum of their digests. */
static uint64_t
digest_by(int n_threads, double *sent)
{
    static const ecc_action_t action = { .flow = 0, .kind = ECC_ACTION_RATE };
    ecc_step_t steps[N_ENGINES] = { 0 };
    double values[N_ENGINES];
    ecc_observation_t seen[N_ENGINES];
    crew_t crew;
    uint64_t digest = 0;

    begin_crew(&crew, n_threads - 1);
    for (int i = 0; i < N_ENGINES; i++) {
        steps[i] = (ecc_step_t) { .engine = i == 2 ? NULL : new_engine(),
            .actions = &action,
            .values = &values[i],
            .observations = &seen[i],
            .end = ECC_NEVER,
            .n_actions = 1 };
        values[i] = NAN;
    }
    CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, -1), 0);
    for (int k = 0; k < N_STEPS; k++) {
        for (int i = 0; i < N_ENGINES; i++) {
            steps[i].until = ecc_clock_seconds((k + 1) * 10 * (i + 1) * MS);
            values[i] = 1e5 * (1 + (3 * k + i) % 11);
        }
        CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, -1), 0);
        for (int i = 0; i < N_ENGINES; i++) {
            CHECK(i == 2 || (isnan(values[i]) && steps[i].now == steps[i].until && steps[i].code == 0));
        }
    }
    *sent = 0.0;
    values[0] = -1.0; /* refused, for this engine alone */
    for (int i = 0; i < N_ENGINES; i++) {
        steps[i].until = ecc_clock_seconds((10 * N_STEPS * (i + 1) + 10) * MS);
    }
    CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, -1), 1);
    CHECK_EQUAL(steps[0].code, ECC_ERR_RATE);
    CHECK(steps[0].stop != ECC_STOP_ERROR && steps[0].now < steps[0].until && steps[1].now == steps[1].until);
    CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, 1), 1); /* slices of one event */
    while (ecc_crew_run(crew.crew, steps, N_ENGINES, 1) > 0) { }
    for (int i = 0; i < N_ENGINES; i++) {
        ecc_stats_t stats;
        if (steps[i].engine != NULL) {
            ecc_engine_stats(steps[i].engine, &stats);
            digest += stats.digest;
            *sent += seen[i].sent;
            ecc_engine_free(steps[i].engine);
        }
    }
    end_crew(&crew);
    return digest;
}

static void
threads_of_a_crew_change_nothing(void)
{
    double sent[3];
    uint64_t alone = digest_by(1, &sent[0]);

    for (int k = 0; k < 20; k++) {
        CHECK(digest_by(2 + k % 3, &sent[1]) == alone);
        CHECK(sent[1] == sent[0]);
    }
}

/* Short steps, many times: a thread may have counted its step just when the caller finds that none are left. */
static void
a_crew_takes_each_step(void)
{
    ecc_step_t steps[N_ENGINES] = { 0 };
    crew_t crew;

    begin_crew(&crew, 3);
    for (int i = 0; i < N_ENGINES; i++) {
        steps[i] = (ecc_step_t) { .engine = new_engine(), .end = ECC_NEVER };
    }
    for (int k = 0; k < N_SHORT_STEPS; k++) {
        for (int i = 0; i < N_ENGINES; i++) {
            steps[i].until = ecc_clock_seconds(k);
        }
        CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, -1), 0);
        for (int i = 0; i < N_ENGINES; i++) {
            CHECK(steps[i].now == steps[i].until);
        }
    }
    steps[N_ENGINES - 1].until = -1.0;
    steps[0].until = 1.0;
    CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, -1), -1);
    CHECK(steps[0].now == ecc_clock_seconds(N_SHORT_STEPS - 1));
    steps[N_ENGINES - 1].until = 1.0;
    steps[1].until = 1.0;
    steps[0].end = 10 * MS;
    CHECK_EQUAL(ecc_crew_run(crew.crew, steps, N_ENGINES, -1), 0);
    CHECK(steps[0].now == ecc_clock_seconds(10 * MS) && steps[1].now == 1.0);
    for (int i = 0; i < N_ENGINES; i++) {
        ecc_engine_free(steps[i].engine);
    }
    end_crew(&crew);
}

/* Without memory for its RTTs, a run ends with a failure. */
static void
every_allocation_may_fail(void)
{
    int ret = ECC_ERR_NO_MEMORY;
    int n_late = 0;
    int64_t k;

    for (k = 0; ret != 0; k++) {
        failing_t failing = { .left = k };
        ecc_allocator_t allocator = { resize_or_fail, &failing };
        ecc_config_t config = configured(&allocator);
        ecc_observation_t seen = { 0 };
        ecc_engine_t *engine;
        ecc_report_t report;
        ret = ecc_engine_new(&config, &engine, &report);
        if (ret == 0) {
            ret = ecc_engine_advance(engine, 5000 * MS, -1);
            n_late += ret != 0;
            ecc_engine_observe(engine, &seen);
            CHECK(ret != 0 || seen.n_rtts == 498.0);
            CHECK(ret == 0 || ecc_engine_advance(engine, 6000 * MS, -1) == ECC_ERR_NO_MEMORY);
            ecc_engine_free(engine);
        }
        CHECK(ret == 0 || ret == ECC_ERR_NO_MEMORY);
        CHECK_EQUAL(failing.n_blocks, 0);
        CHECK(k < 200);
    }
    CHECK(n_late >= 4);
}

/* An engine that continues from a checkpoint has the interval under way. */
static void
an_interval_is_saved(void)
{
    static unsigned char saved[1 << 16];
    ecc_engine_t *engine = new_engine();
    ecc_engine_t *other = new_engine();
    ecc_observation_t seen[2];
    int64_t size;

    memset(seen, 0, sizeof(seen));
    CHECK_EQUAL(ecc_engine_advance(engine, 777 * MS, -1), 0);
    size = ecc_engine_save(engine, saved);
    CHECK(size > 0 && size < (int64_t) sizeof(saved));
    CHECK_EQUAL(ecc_engine_load(other, saved, size), 0);
    CHECK_EQUAL(ecc_engine_advance(engine, 900 * MS, -1), 0);
    CHECK_EQUAL(ecc_engine_advance(other, 900 * MS, -1), 0);
    ecc_engine_observe(engine, &seen[0]);
    ecc_engine_observe(other, &seen[1]);
    CHECK_EQUAL(memcmp(&seen[0], &seen[1], sizeof(seen[0])), 0);
    CHECK_EQUAL(seen[0].n_rtts, 88);
    ecc_engine_free(other);
    ecc_engine_free(engine);
}

int
main(void)
{
    an_interval_by_hand();
    bad_actions_are_refused();
    threads_of_a_crew_change_nothing();
    a_crew_takes_each_step();
    every_allocation_may_fail();
    an_interval_is_saved();
    return 0;
}
