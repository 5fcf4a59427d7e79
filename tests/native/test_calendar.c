/* The calendar against a plain table of times, under random commands. */

#include "core/calendar.h"
#include "check.h"
#include "core/errors.h"
#include "core/random.h"

#define N_NODES 300u

typedef struct {
    ecc_ps_t times[N_NODES];
} model_t;

static uint32_t
first_of(const model_t *model, uint32_t n_nodes)
{
    uint32_t first = ECC_NO_NODE;

    for (uint32_t id = 0; id < n_nodes; id++) {
        if (model->times[id] != ECC_NOT_PENDING && (first == ECC_NO_NODE || model->times[id] < model->times[first])) {
            first = id;
        }
    }
    return first;
}

static uint64_t
draw(uint64_t *random, uint64_t n)
{
    return (uint64_t) (ecc_random_next(random) * (double) n);
}

/* Steps of very different sizes, ties included, so that widths, years and sorting are all exercised. */
static ecc_ps_t
draw_wait(uint64_t *random, uint64_t phase)
{
    static const uint64_t scales[] = { 1, 50, 100000, 12000000, UINT64_C(1) << 40, UINT64_C(1) << 60 };
    uint64_t scale = scales[(phase + draw(random, 2) * draw(random, 6)) % 6];

    return (ecc_ps_t) (draw(random, 4) * (scale / 4) + (draw(random, 3) == 0 ? 0 : draw(random, scale)));
}

static void
run_random_commands(uint64_t seed, uint32_t n_nodes, int n_commands)
{
    uint64_t random = ecc_random_stream(seed, n_nodes);
    ecc_memory_t memory;
    ecc_calendar_t calendar;
    model_t model;
    ecc_ps_t now = 0;
    int n_taken = 0;

    ecc_memory_init(&memory, NULL);
    CHECK_EQUAL(ecc_calendar_init(&calendar, &memory, n_nodes, (uint32_t) (seed % 3) * n_nodes), 0);
    for (uint32_t id = 0; id < n_nodes; id++) {
        model.times[id] = ECC_NOT_PENDING;
    }
    for (int i = 0; i < n_commands; i++) {
        uint32_t id = (uint32_t) draw(&random, n_nodes);
        uint32_t first = first_of(&model, n_nodes);
        uint64_t command = draw(&random, 10);
        ecc_ps_t time = now + draw_wait(&random, (uint64_t) i / 1000);
        if (time > ECC_NEVER) {
            time = ECC_NEVER;
        }
        CHECK(ecc_calendar_pending(&calendar, id) == (model.times[id] != ECC_NOT_PENDING));
        if (command < 3) {
            ecc_calendar_move(&calendar, id, time);
            model.times[id] = time;
        } else if (command == 3) {
            ecc_calendar_cancel(&calendar, id);
            model.times[id] = ECC_NOT_PENDING;
        } else if (command == 4) {
            ecc_calendar_find(&calendar);
        } else if (first != ECC_NO_NODE && (draw(&random, 3) == 0 || model.times[first] < now + 1000000000)) {
            ecc_calendar_find(&calendar);
            CHECK_EQUAL(calendar.first_time, model.times[first]);
            CHECK_EQUAL(ecc_calendar_pop(&calendar), first);
            now = model.times[first];
            model.times[first] = ECC_NOT_PENDING;
            n_taken++;
        }
        if (i % 97 == 0) {
            CHECK_EQUAL(ecc_calendar_verify(&calendar), 0);
        }
        if (now > ECC_NEVER / 2) {
            break;
        }
    }
    CHECK(n_taken > n_commands / 100 || now > ECC_NEVER / 2);
    for (uint32_t first = first_of(&model, n_nodes); first != ECC_NO_NODE; first = first_of(&model, n_nodes)) {
        ecc_calendar_find(&calendar);
        CHECK_EQUAL(calendar.first_time, model.times[first]);
        CHECK_EQUAL(ecc_calendar_pop(&calendar), first);
        model.times[first] = ECC_NOT_PENDING;
    }
    ecc_calendar_find(&calendar);
    CHECK_EQUAL(calendar.first_time, ECC_NEVER);
    CHECK_EQUAL(ecc_calendar_verify(&calendar), 0);
    ecc_calendar_free(&calendar, &memory);
    ecc_calendar_free(&calendar, &memory);
    CHECK_EQUAL(memory.bytes, 0);
}

/* A steady stream, as from paced senders: the width must follow, and little be walked over. */
static void
adapts_to_a_steady_stream(ecc_ps_t gap)
{
    ecc_memory_t memory;
    ecc_calendar_t calendar;

    ecc_memory_init(&memory, NULL);
    CHECK_EQUAL(ecc_calendar_init(&calendar, &memory, N_NODES, 2 * N_NODES), 0);
    for (uint32_t id = 0; id < N_NODES; id++) {
        ecc_calendar_insert(&calendar, id, gap * id);
    }
    for (int i = 0; i < 20000; i++) {
        ecc_calendar_find(&calendar);
        CHECK_EQUAL(calendar.first_time, gap * i);
        ecc_calendar_insert(&calendar, ecc_calendar_pop(&calendar), gap * (i + (ecc_ps_t) N_NODES));
    }
    CHECK(calendar.work < 2 * calendar.budget);
    CHECK(gap >> calendar.shift < 4 && gap >> calendar.shift << 2 > 0);
    ecc_calendar_free(&calendar, &memory);
}

/* Many events at one time, set in any order: they come in that of their numbers, and little is walked over. */
static void
orders_events_at_one_time(uint64_t seed)
{
    uint64_t random = ecc_random_stream(seed, 0);
    uint32_t ids[N_NODES];
    ecc_memory_t memory;
    ecc_calendar_t calendar;

    ecc_memory_init(&memory, NULL);
    CHECK_EQUAL(ecc_calendar_init(&calendar, &memory, N_NODES, 2 * N_NODES), 0);
    for (uint32_t id = 0; id < N_NODES; id++) {
        uint32_t k = (uint32_t) draw(&random, id + 1);
        ids[id] = id;
        ids[id] = ids[k];
        ids[k] = id;
    }
    for (uint32_t k = 0; k < N_NODES; k++) {
        ecc_calendar_insert(&calendar, ids[k], 1000);
    }
    CHECK(calendar.work < 10 * N_NODES);
    CHECK(calendar.buckets[ecc_calendar_bucket(&calendar, 1000)].is_unsorted);
    CHECK_EQUAL(ecc_calendar_verify(&calendar), 0);
    ecc_calendar_cancel(&calendar, 0);
    for (uint32_t id = 1; id < N_NODES; id++) {
        ecc_calendar_find(&calendar);
        CHECK_EQUAL(ecc_calendar_pop(&calendar), id);
    }
    ecc_calendar_free(&calendar, &memory);
}

int
main(void)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        run_random_commands(seed, 1 + (uint32_t) (seed * 37) % N_NODES, 4000);
    }
    run_random_commands(1, N_NODES, 60000);
    adapts_to_a_steady_stream(3);
    adapts_to_a_steady_stream(12000000);
    adapts_to_a_steady_stream(7000000000000);
    for (uint64_t seed = 0; seed < 20; seed++) {
        orders_events_at_one_time(seed);
    }
    return 0;
}
