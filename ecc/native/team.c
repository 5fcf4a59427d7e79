/*
 * A team: the parts of one network, each advanced by a thread of its own (S-125, S-126).
 *
 * The threads meet, and then run a window each, without looking at each other: from the earliest event anywhere to just
 * before the earliest that it could cause in another part, a lookahead later. What leaves a part in a window enters
 * the others after the next meeting. Every thread decides alike, from what all have published before they met, so that
 * the windows need no leader. Numbers that are published, and outboxes, have two halves in turns: one is read while the
 * other is filled.
 *
 * Windows never change a result. They are kept so short that a run can be stopped now and then.
 */

#include <sched.h>
#include <stdatomic.h>

#include "cut.h"
#include "engine.h"
#include "run.h"
#include "state.h"
#include "transfers.h"

#define FIRST_WINDOW INT64_C(1000000000) /* 1 ms */
#define MANY_EVENTS 200000               /* in a window: the next one is shorter; in one with less than half, longer */
#define N_LOOKS 2000                     /* at a meeting before the processor is left to others */

/* What a part says when it comes to a meeting. */
typedef struct {
    _Alignas(ECC_CACHE_LINE) ecc_ps_t next; /* its next event, or the arrival of what has left it */
    int64_t n_events;                       /* in this call */
    int64_t n_window;                       /* in this window */
    bool failed;
    bool is_full; /* it has run as many events as it may */
} word_t;

struct ecc_team {
    _Alignas(ECC_CACHE_LINE) _Atomic uint32_t n_present;
    _Alignas(ECC_CACHE_LINE) _Atomic uint32_t n_meetings;
    _Alignas(ECC_CACHE_LINE) int64_t n;
    ecc_ps_t lookahead;
    int64_t most; /* events of a part in a call */
    ecc_memory_t memory;
    void *block; /* the memory of this, not aligned */
    ecc_engine_t **engines;
    word_t *words; /* (half, part) */
};

/* What all parts have said. */
typedef struct {
    ecc_ps_t next;
    int64_t n_events;
    int64_t n_window;
    bool failed;
    bool is_full;
} agreed_t;

static size_t
team_size(int64_t n)
{
    return sizeof(ecc_team_t) + (size_t) n * (2 * sizeof(word_t) + sizeof(ecc_engine_t *)) + ECC_CACHE_LINE;
}

int
ecc_team_new(ecc_engine_t *const *engines, int64_t n, ecc_team_t **team)
{
    ecc_memory_t memory;
    ecc_team_t *self;
    void *block = NULL;
    int ret;

    *team = NULL;
    for (int64_t i = 0; i < n; i++) {
        const ecc_cut_t *cut = engines[i]->cut;
        if (cut == NULL || cut->part != i || cut->n_parts != n
            || engines[i]->packets.stride != engines[0]->packets.stride || engines[i]->now != engines[0]->now) {
            return ECC_ERR_PARTITION;
        }
    }
    if (n < 1 || n > ECC_MAX_PARTS) {
        return ECC_ERR_PARTITION;
    }
    ecc_memory_init(&memory, &engines[0]->memory.allocator);
    ret = ecc_memory_resize(&memory, 0, team_size(n), &block);
    if (ret != 0) {
        return ret;
    }
    self = (void *) (((uintptr_t) block + ECC_CACHE_LINE - 1) / ECC_CACHE_LINE * ECC_CACHE_LINE);
    self->n = n;
    self->memory = memory;
    self->block = block;
    self->words = (void *) (self + 1);
    self->engines = (void *) (self->words + 2 * n);
    self->lookahead = ECC_NEVER;
    self->most = INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        self->engines[i] = engines[i];
        self->lookahead = engines[i]->cut->lookahead < self->lookahead ? engines[i]->cut->lookahead : self->lookahead;
    }
    for (int64_t i = 0; i < n; i++) {
        engines[i]->cut->window = self->lookahead < FIRST_WINDOW ? self->lookahead : FIRST_WINDOW;
    }
    *team = self;
    return 0;
}

void
ecc_team_free(ecc_team_t *self)
{
    ecc_memory_t memory;

    if (self != NULL) {
        void *block = self->block;
        memory = self->memory;
        ecc_memory_release(&memory, team_size(self->n), &block);
    }
}

/* Returns when all threads of the team have come; what they wrote before is then visible. */
static void
meet(ecc_team_t *self)
{
    uint32_t meeting = atomic_load_explicit(&self->n_meetings, memory_order_relaxed);

    if (atomic_fetch_add_explicit(&self->n_present, 1, memory_order_acq_rel) + 1 == (uint32_t) self->n) {
        atomic_store_explicit(&self->n_present, 0, memory_order_relaxed);
        atomic_store_explicit(&self->n_meetings, meeting + 1, memory_order_release);
        return;
    }
    for (int look = 0; atomic_load_explicit(&self->n_meetings, memory_order_acquire) == meeting; look++) {
        if (look >= N_LOOKS) {
            (void) sched_yield();
        }
    }
}

static void
publish(ecc_team_t *self, int64_t part, int64_t n_before, int64_t n_window, int ret)
{
    ecc_engine_t *engine = self->engines[part];
    ecc_ps_t arrival = engine->cut->first_arrival;
    ecc_ps_t next = ecc_run_next_event(engine);

    self->words[(engine->cut->half ? self->n : 0) + part] = (word_t) { .next = next < arrival ? next : arrival,
        .n_events = engine->n_events - n_before,
        .n_window = n_window,
        .failed = ret != 0,
        .is_full = engine->n_events - n_before >= self->most };
}

static agreed_t
agree(const ecc_team_t *self, bool half)
{
    agreed_t all = { .next = ECC_NEVER };

    for (int64_t i = 0; i < self->n; i++) {
        const word_t *word = &self->words[(half ? self->n : 0) + i];
        all.next = word->next < all.next ? word->next : all.next;
        all.n_events += word->n_events;
        all.n_window += word->n_window;
        all.failed = all.failed || word->failed;
        all.is_full = all.is_full || word->is_full;
    }
    return all;
}

/* What has left the other parts for this one, before the meeting, enters it; they may have turned since. */
static int
enter_all(ecc_team_t *self, int64_t part, bool half)
{
    ecc_engine_t *engine = self->engines[part];
    int ret = 0;

    for (int64_t i = 0; i < self->n && ret == 0; i++) {
        if (i != part) {
            const ecc_outbox_t *outbox = ecc_cut_outbox(self->engines[i], half, part);
            ret = ecc_cut_enter(engine, outbox->bytes, outbox->size);
        }
    }
    return ret;
}

/* S-125: the end of the window that begins with the next event anywhere. */
static ecc_ps_t
window_end(ecc_ps_t next, ecc_ps_t window, ecc_ps_t until)
{
    return next > until || window > until - next ? until : next + window - 1;
}

/* Runs a window, of as many events as there may be; who calls ecc_engine_stop meanwhile does not end it. */
static int
run_window(ecc_engine_t *engine, ecc_ps_t end, int64_t last_event)
{
    int ret = 0;

    do {
        atomic_store_explicit(&engine->last_event, last_event, memory_order_relaxed);
        ret = ecc_run_until(engine, end);
    } while (ret == 0 && engine->stop == ECC_STOP_MAX_EVENTS && engine->n_events < last_event);
    return ret;
}

void
ecc_team_set_most(ecc_team_t *self, int64_t most)
{
    self->most = most;
}

int
ecc_team_advance(ecc_team_t *self, int64_t part, ecc_ps_t until, int64_t max_events)
{
    ecc_engine_t *engine = self->engines[part];
    int64_t n_before = engine->n_events;
    int64_t last_event = self->most < INT64_MAX - n_before ? n_before + self->most : INT64_MAX;
    int64_t n_window = 0;
    ecc_ps_t window = engine->cut->window;
    ecc_ps_t known = ecc_transfers_known_until(engine); /* the same in all parts, as is `now` */
    int stop = ECC_STOP_ERROR;
    int ret = ecc_run_begin(engine, until, -1);
    bool is_known;
    agreed_t all;

    until = until > engine->now ? until : engine->now;
    is_known = until <= known;
    until = is_known ? until : known;
    for (;;) {
        bool half = engine->cut->half;
        publish(self, part, n_before, n_window, ret);
        meet(self);
        all = agree(self, half);
        ret = ret == 0 ? enter_all(self, part, half) : ret;
        ecc_cut_turn(engine);
        if (all.failed || all.is_full || all.next > until || (max_events >= 0 && all.n_events >= max_events)) {
            break;
        }
        if (all.n_window > MANY_EVENTS) {
            window /= 2;
        } else if (all.n_window < MANY_EVENTS / 2) {
            window *= 2;
        }
        window = window < 1 ? 1 : window < self->lookahead ? window : self->lookahead;
        n_window = engine->n_events;
        ret = ret == 0 ? run_window(engine, window_end(all.next, window, until), last_event) : ret;
        n_window = engine->n_events - n_window;
    }
    engine->cut->window = window;
    if (all.is_full && !all.failed && ret == 0) {
        stop = ECC_STOP_NOT_YET;
    } else if (!all.failed && ret == 0) {
        stop = all.next <= until   ? ECC_STOP_MAX_EVENTS
            : !is_known            ? ECC_STOP_TRANSFERS
            : all.next < ECC_NEVER ? ECC_STOP_UNTIL
                                   : ECC_STOP_IDLE;
        ret = all.next > until && until >= engine->now ? run_window(engine, until, last_event) : 0;
    }
    ret = ecc_run_end(engine, ret);
    return ret == 0 ? stop : ECC_STOP_ERROR;
}
