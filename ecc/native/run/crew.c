/*
 * A crew: threads that sleep until steps of many engines are to be taken. A thread takes the next step that is left,
 * by an atomic count; the caller is one of the threads, so that a crew of one has no other.
 *
 * Not here: a step itself (engine.c, steps.c), the parts of one network (team.c), and the start of threads, which is
 * left to Python: pthread_create of a recent C library would tie the extension to it.
 *
 * Invariant: outside of ecc_crew_run no thread of the crew holds a step.
 */

#include "run/crew.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/clock.h"
#include "core/errors.h"
#include "core/memory.h"

struct ecc_crew {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    pthread_cond_t is_done;
    ecc_step_t *steps;
    int64_t n_steps;
    int64_t max_events;
    _Atomic int64_t next; /* first step that is left */
    int64_t n_calls;      /* number of calls of ecc_crew_run */
    int64_t n_busy;       /* threads that take steps, without the caller */
    bool ends;
    ecc_memory_t memory;
};

/* The time to reach; the rounding of the clock is that of S-4. */
static ecc_ps_t
time_to_reach(const ecc_step_t *step)
{
    ecc_ps_t time = step->until > 0.0 ? ecc_clock_ps(step->until) : 0;

    return time < step->end ? time : step->end;
}

void
ecc_crew_step(ecc_step_t *step, int64_t max_events)
{
    ecc_engine_t *engine = step->engine;
    ecc_stats_t stats;
    int ret = 0;

    if (engine == NULL) {
        return;
    }
    if (step->n_actions > 0) {
        ret = ecc_engine_act(engine, step->actions, step->values, step->n_actions);
        for (int64_t k = 0; k < step->n_actions; k++) {
            step->values[k] = (double) NAN;
        }
    }
    if (ret == 0) {
        ret = ecc_engine_advance(engine, time_to_reach(step), max_events);
    }
    ecc_engine_stats(engine, &stats);
    step->code = ret;
    step->stop = stats.stop;
    step->now = ecc_clock_seconds(stats.now);
    if (ret == 0 && step->observations != NULL && (stats.stop == ECC_STOP_UNTIL || stats.stop == ECC_STOP_IDLE)) {
        ecc_engine_observe(engine, step->observations);
    }
}

static void
take_steps(ecc_crew_t *self)
{
    int64_t k = atomic_fetch_add_explicit(&self->next, 1, memory_order_relaxed);

    while (k < self->n_steps) {
        ecc_crew_step(&self->steps[k], self->max_events);
        k = atomic_fetch_add_explicit(&self->next, 1, memory_order_relaxed);
    }
}

/* A call that is over when the thread wakes has no steps left. */
void
ecc_crew_work(ecc_crew_t *self)
{
    int64_t n_calls = 0;

    (void) pthread_mutex_lock(&self->lock);
    while (!self->ends) {
        if (n_calls == self->n_calls || self->n_steps == 0) {
            (void) pthread_cond_wait(&self->has_work, &self->lock);
            continue;
        }
        n_calls = self->n_calls;
        self->n_busy++;
        (void) pthread_mutex_unlock(&self->lock);
        take_steps(self);
        (void) pthread_mutex_lock(&self->lock);
        self->n_busy--;
        if (self->n_busy == 0) {
            (void) pthread_cond_signal(&self->is_done);
        }
    }
    (void) pthread_mutex_unlock(&self->lock);
}

int
ecc_crew_new(ecc_crew_t **crew)
{
    ecc_memory_t memory;
    ecc_crew_t *self;
    void *block = NULL;
    int ret;

    *crew = NULL;
    ecc_memory_init(&memory, NULL);
    ret = ecc_memory_resize(&memory, 0, sizeof(*self), &block);
    if (ret != 0) {
        return ret;
    }
    self = block;
    self->memory = memory;
    ret = pthread_mutex_init(&self->lock, NULL) == 0 ? 0 : ECC_ERR_NO_MEMORY;
    if (ret != 0) {
        ecc_memory_release(&memory, sizeof(*self), &block);
        return ret;
    }
    (void) pthread_cond_init(&self->has_work, NULL);
    (void) pthread_cond_init(&self->is_done, NULL);
    *crew = self;
    return 0;
}

void
ecc_crew_end(ecc_crew_t *self)
{
    (void) pthread_mutex_lock(&self->lock);
    self->ends = true;
    (void) pthread_cond_broadcast(&self->has_work);
    (void) pthread_mutex_unlock(&self->lock);
}

void
ecc_crew_free(ecc_crew_t *self)
{
    ecc_memory_t memory;
    void *block = self;

    if (self == NULL) {
        return;
    }
    (void) pthread_cond_destroy(&self->is_done);
    (void) pthread_cond_destroy(&self->has_work);
    (void) pthread_mutex_destroy(&self->lock);
    memory = self->memory;
    ecc_memory_release(&memory, sizeof(*self), &block);
}

/* Number of engines that have not reached their times. */
static int64_t
n_behind(const ecc_step_t *steps, int64_t n)
{
    int64_t count = 0;

    for (int64_t k = 0; k < n; k++) {
        count += steps[k].engine != NULL
            && (steps[k].code != 0 || (steps[k].stop != ECC_STOP_UNTIL && steps[k].stop != ECC_STOP_IDLE));
    }
    return count;
}

int64_t
ecc_crew_run(ecc_crew_t *self, ecc_step_t *steps, int64_t n, int64_t max_events)
{
    for (int64_t k = 0; k < n; k++) {
        if (!(steps[k].until >= 0.0)) {
            return -1;
        }
    }
    if (n == 1) {
        ecc_crew_step(steps, max_events);
        return n_behind(steps, n);
    }
    (void) pthread_mutex_lock(&self->lock);
    self->steps = steps;
    self->n_steps = n;
    self->max_events = max_events;
    atomic_store_explicit(&self->next, 0, memory_order_relaxed);
    self->n_calls++;
    (void) pthread_cond_broadcast(&self->has_work);
    (void) pthread_mutex_unlock(&self->lock);
    take_steps(self);
    (void) pthread_mutex_lock(&self->lock);
    while (self->n_busy > 0) {
        (void) pthread_cond_wait(&self->is_done, &self->lock);
    }
    self->n_steps = 0; /* not before: busy threads read it, and would drop a step that they have just counted */
    (void) pthread_mutex_unlock(&self->lock);
    return n_behind(steps, n);
}
