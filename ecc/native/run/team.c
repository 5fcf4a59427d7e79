/*
 * A team: the parts of one network, each run by its own thread (S-125, S-126).
 *
 * Each part promises each other part a time before which nothing more that it causes arrives there. Promises are
 * shared words. A part hands over its outbox before it makes the next promise. It runs up to the earliest arrival that
 * the promises to it allow, and so follows each other part at the delay between them (Chandy and Misra 1979, Bryant
 * 1977, with shared words in place of null messages). No part waits for all others.
 *
 * All parts meet at the end of a call, to count events, after a failure, and if promises grow only by delays because
 * nothing happens. At a meeting all outboxes are emptied, and every part reads the reports of all; so all make the
 * same decision, without a leader. Neither decisions nor the scheduling of threads change a result.
 *
 * Not here: packets between parts (crossing.c, enter.c).
 */

#include <sched.h>
#include <stdatomic.h>

#include "core/crossing.h"
#include "core/cut.h"
#include "core/state.h"
#include "host/transfers.h"
#include "parts/enter.h"
#include "run/run.h"

#define CHUNK 200          /* maximum number of events of a part between its promises */
#define MANY_EVENTS 200000 /* events of a part between meetings, about */
#define MANY_PROMISES 256  /* promises in a row that let a part run no event: then a meeting finds the next one */
#define N_LOOKS 2000       /* looks at other parts before the processor is yielded */

/* The promise of one part to another. */
typedef struct edge {
    _Alignas(ECC_CACHE_LINE) _Atomic ecc_ps_t promise; /* time before which nothing arrives that is not handed over */
    _Atomic uint32_t n_handed_over;                    /* batches handed over, ever */
    _Alignas(ECC_CACHE_LINE) _Atomic uint32_t n_read;  /* batches that were read, ever */
    ecc_ps_t delay;
    int64_t from;
    int64_t to;
    struct edge *next; /* next edge to the same part, or NULL */
} edge_t;

/* The report of a part at a meeting. */
typedef struct {
    _Alignas(ECC_CACHE_LINE) ecc_ps_t next; /* time of its next event */
    ecc_ps_t now;
    int64_t n_events; /* events in this call */
    bool failed;
    bool is_full; /* it has run as many events as allowed */
    bool must_stop;
} word_t;

struct ecc_team {
    _Alignas(ECC_CACHE_LINE) _Atomic uint32_t n_present;
    _Alignas(ECC_CACHE_LINE) _Atomic uint32_t n_meetings;
    _Alignas(ECC_CACHE_LINE) _Atomic bool must_meet;
    _Atomic bool must_stop; /* the call ends at the next meeting */
    _Alignas(ECC_CACHE_LINE) int64_t n;
    int64_t most; /* maximum number of events of a part in a call */
    int64_t n_edges;
    ecc_memory_t memory;
    void *block;   /* memory of the team, not aligned */
    edge_t *edges; /* edges, sorted by the part that promises */
    word_t *words;
    edge_t **first_from; /* first edge from each part, and the end */
    edge_t **first_to;   /* first edge to each part, or NULL */
    ecc_engine_t **engines;
};

/* The reports of all parts. */
typedef struct {
    ecc_ps_t next;
    ecc_ps_t now;       /* latest time of a part */
    ecc_ps_t failed_at; /* earliest failure, ECC_NEVER without one */
    int64_t n_events;
    bool is_full;
    bool must_stop;
} agreed_t;

static size_t
team_size(int64_t n, int64_t n_edges)
{
    return sizeof(ecc_team_t) + (size_t) n_edges * sizeof(edge_t) + (size_t) n * (sizeof(word_t) + 3 * sizeof(void *))
        + sizeof(void *) + ECC_CACHE_LINE;
}

/* Fills in the edges and their indices. */
static void
connect(ecc_team_t *self)
{
    edge_t *edge = self->edges;

    for (int64_t from = 0; from < self->n; from++) {
        self->first_from[from] = edge;
        for (int64_t to = 0; to < self->n; to++) {
            ecc_ps_t delay = self->engines[from]->cut->delays[to];
            if (delay < ECC_NEVER) {
                edge->delay = delay;
                edge->from = from;
                edge->to = to;
                edge->next = self->first_to[to];
                self->first_to[to] = edge++;
            }
        }
    }
    self->first_from[self->n] = edge;
}

int
ecc_team_new(ecc_engine_t *const *engines, int64_t n, ecc_team_t **team)
{
    ecc_memory_t memory;
    ecc_team_t *self;
    void *block = NULL;
    int64_t n_edges = 0;
    int ret;

    *team = NULL;
    if (n < 1 || n > ECC_MAX_PARTS) {
        return ECC_ERR_PARTITION;
    }
    for (int64_t i = 0; i < n; i++) {
        const ecc_cut_t *cut = engines[i]->cut;
        if (cut == NULL || cut->part != i || cut->n_parts != n
            || engines[i]->packets.stride != engines[0]->packets.stride || engines[i]->now != engines[0]->now) {
            return ECC_ERR_PARTITION;
        }
        for (int64_t k = 0; k < n; k++) {
            n_edges += cut->delays[k] < ECC_NEVER;
        }
    }
    ecc_memory_init(&memory, &engines[0]->memory.allocator);
    ret = ecc_memory_resize(&memory, 0, team_size(n, n_edges), &block);
    if (ret != 0) {
        return ret;
    }
    self = (void *) (((uintptr_t) block + ECC_CACHE_LINE - 1) / ECC_CACHE_LINE * ECC_CACHE_LINE);
    self->n = n;
    self->n_edges = n_edges;
    self->memory = memory;
    self->block = block;
    self->edges = (void *) (self + 1);
    self->words = (void *) (self->edges + n_edges);
    self->first_from = (void *) (self->words + n);
    self->first_to = self->first_from + n + 1;
    self->engines = (void *) (self->first_to + n);
    self->most = INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        self->engines[i] = engines[i];
    }
    connect(self);
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
        ecc_memory_release(&memory, team_size(self->n, self->n_edges), &block);
    }
}

/* ---- between meetings ---- */

static void
look_again(int *n_looks)
{
    if (++*n_looks >= N_LOOKS) {
        (void) sched_yield();
    }
}

/* Batches handed over to a part enter it. Returns the time before which nothing more arrives. */
static ecc_ps_t
take_in(ecc_team_t *self, int64_t part, int *ret)
{
    ecc_ps_t earliest = ECC_NEVER;

    for (edge_t *edge = self->first_to[part]; edge != NULL; edge = edge->next) {
        /* the promise is read first: packets that it does not cover have been handed over before */
        ecc_ps_t promise = atomic_load_explicit(&edge->promise, memory_order_acquire);
        uint32_t n = atomic_load_explicit(&edge->n_handed_over, memory_order_acquire);
        uint32_t k = atomic_load_explicit(&edge->n_read, memory_order_relaxed);
        for (; k != n; k++) {
            const ecc_outbox_t *batch = ecc_cut_batch(self->engines[edge->from], part, k);
            *ret = *ret == 0 ? ecc_enter_all(self->engines[part], batch->bytes, batch->size, ECC_NEVER) : *ret;
            atomic_store_explicit(&edge->n_read, k + 1, memory_order_release);
        }
        earliest = promise < earliest ? promise : earliest;
    }
    return earliest;
}

/*
 * A part, whose next event is at `next` or later, hands over its outboxes, and promises. Returns its minimum promise.
 */
static ecc_ps_t
promise(ecc_team_t *self, int64_t part, ecc_ps_t next)
{
    ecc_engine_t *engine = self->engines[part];
    ecc_ps_t least = ECC_NEVER;

    for (edge_t *edge = self->first_from[part]; edge < self->first_from[part + 1]; edge++) {
        const ecc_outbox_t *outbox = ecc_cut_outbox(engine, edge->to);
        ecc_ps_t arrival = ecc_clock_add(next, edge->delay);
        uint32_t n = atomic_load_explicit(&edge->n_handed_over, memory_order_relaxed);
        if (outbox->size > 0 && n - atomic_load_explicit(&edge->n_read, memory_order_acquire) < ECC_N_BATCHES) {
            ecc_crossing_hand_over(engine, edge->to, n);
            atomic_store_explicit(&edge->n_handed_over, n + 1, memory_order_release);
        }
        arrival = outbox->first_arrival < arrival ? outbox->first_arrival : arrival;
        if (arrival != atomic_load_explicit(&edge->promise, memory_order_relaxed)) {
            atomic_store_explicit(&edge->promise, arrival, memory_order_release);
        }
        least = arrival < least ? arrival : least;
    }
    return least;
}

/* Minimum time from an event in another part to its effect in this one. */
static ecc_ps_t
least_delay(const ecc_team_t *self, int64_t part)
{
    ecc_ps_t least = ECC_NEVER;

    for (const edge_t *edge = self->first_to[part]; edge != NULL; edge = edge->next) {
        least = edge->delay < least ? edge->delay : least;
    }
    return least;
}

/* Runs a part up to and at `until`, or to a meeting that it, after n events, or another part calls. */
static int
run(ecc_team_t *self, int64_t part, ecc_ps_t next, ecc_ps_t until, int64_t n, int64_t last_event)
{
    ecc_engine_t *engine = self->engines[part];
    int64_t n_begin = engine->n_events;
    ecc_ps_t least = promise(self, part, next);
    ecc_ps_t share = least_delay(self, part) / 4 * 3; /* fewer events are not worth the traffic between processors */
    ecc_ps_t arrival_before = 0;
    int n_promises = 0;
    int n_looks = 0;
    int ret = 0;

    while (next <= until || least <= until) { /* no part waits for packets that were not handed over */
        int64_t n_before = engine->n_events;
        ecc_ps_t arrival = take_in(self, part, &ret);
        ecc_ps_t end = arrival <= until ? arrival - 1 : until;
        ecc_ps_t found;
        if (ret == 0 && (arrival > until || arrival - next >= share) && ecc_run_next_event(engine) <= end) {
            int64_t last = last_event - n_before < CHUNK ? last_event : n_before + CHUNK;
            atomic_store_explicit(&engine->last_event, last, memory_order_relaxed);
            ret = ecc_run_until(engine, end);
        }
        if (ret != 0) {
            break;
        }
        found = ecc_run_next_event(engine);
        found = found < arrival ? found : arrival;
        next = found > next ? found : next;
        least = promise(self, part, next);
        if (engine->n_events > n_before) {
            n_promises = n_looks = 0;
        } else if (arrival > arrival_before) {
            n_promises++;
            n_looks = 0;
        } else {
            look_again(&n_looks);
        }
        arrival_before = arrival;
        if (engine->n_events - n_begin >= n || engine->n_events >= last_event || n_promises > MANY_PROMISES) {
            break;
        }
        if (atomic_load_explicit(&self->must_meet, memory_order_relaxed)) {
            return 0;
        }
    }
    if (next <= until || least <= until) {
        atomic_store_explicit(&self->must_meet, true, memory_order_relaxed);
    }
    return ret;
}

/* ---- meetings ---- */

/* Returns when all threads of the team have come; what they wrote before is then visible. */
static void
gather(ecc_team_t *self)
{
    uint32_t meeting = atomic_load_explicit(&self->n_meetings, memory_order_relaxed);
    int n_looks = 0;

    if (atomic_fetch_add_explicit(&self->n_present, 1, memory_order_acq_rel) + 1 == (uint32_t) self->n) {
        atomic_store_explicit(&self->n_present, 0, memory_order_relaxed);
        atomic_store_explicit(&self->n_meetings, meeting + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&self->n_meetings, memory_order_acquire) == meeting) {
        look_again(&n_looks);
    }
}

/* All outboxes for a part enter it; their parts run nothing meanwhile. */
static int
take_in_all(ecc_team_t *self, int64_t part, int ret)
{
    ecc_engine_t *engine = self->engines[part];

    (void) take_in(self, part, &ret);
    for (int64_t i = 0; i < self->n; i++) {
        ecc_outbox_t *outbox = ecc_cut_outbox(self->engines[i], part);
        ret = ret == 0 ? ecc_enter_all(engine, outbox->bytes, outbox->size, ECC_NEVER) : ret;
        ecc_cut_empty(outbox);
    }
    return ret;
}

/* A part reports, and reads the reports of all. */
static agreed_t
meet(ecc_team_t *self, int64_t part, int64_t n_begin, int *ret)
{
    agreed_t all = { .next = ECC_NEVER, .failed_at = ECC_NEVER };
    ecc_engine_t *engine = self->engines[part];

    gather(self);
    *ret = take_in_all(self, part, *ret);
    for (edge_t *edge = self->first_from[part]; edge < self->first_from[part + 1]; edge++) {
        atomic_store_explicit(&edge->promise, 0, memory_order_relaxed); /* earlier events may have been added */
    }
    if (part == 0) {
        atomic_store_explicit(&self->must_meet, false, memory_order_relaxed);
    }
    self->words[part] = (word_t) { .must_stop = atomic_load_explicit(&self->must_stop, memory_order_relaxed),
        .next = *ret == 0 ? ecc_run_next_event(engine) : ECC_NEVER,
        .now = engine->now,
        .n_events = engine->n_events - n_begin,
        .failed = *ret != 0,
        .is_full = engine->n_events - n_begin >= self->most };
    gather(self);
    for (int64_t i = 0; i < self->n; i++) {
        const word_t *word = &self->words[i];
        all.next = word->next < all.next ? word->next : all.next;
        all.n_events += word->n_events;
        all.is_full = all.is_full || word->is_full;
        all.must_stop = all.must_stop || word->must_stop;
        if (word->failed) {
            all.failed_at = word->now < all.failed_at ? word->now : all.failed_at;
        } else {
            all.now = word->now > all.now ? word->now : all.now;
        }
    }
    return all;
}

void
ecc_team_stop(ecc_team_t *self)
{
    atomic_store_explicit(&self->must_stop, true, memory_order_relaxed);
    atomic_store_explicit(&self->must_meet, true, memory_order_relaxed);
}

void
ecc_team_set_most(ecc_team_t *self, int64_t most)
{
    self->most = most;
}

/* Number of events that a part may run until the next meeting, if all may run so many more; 0: parts only catch up. */
static int64_t
until_meeting(const ecc_team_t *self, int64_t n_left)
{
    int64_t n = n_left / self->n;

    return n_left <= 0 || n > MANY_EVENTS ? MANY_EVENTS : n > CHUNK ? n : CHUNK;
}

int
ecc_team_advance(ecc_team_t *self, int64_t part, ecc_ps_t until, int64_t max_events)
{
    ecc_engine_t *engine = self->engines[part];
    int64_t n_begin = engine->n_events;
    int64_t last_event = self->most < INT64_MAX - n_begin ? n_begin + self->most : INT64_MAX;
    ecc_ps_t known = ecc_transfers_known_until(engine); /* equal in all parts, as is `now` */
    int ret = ecc_run_begin(engine, until, -1);
    bool is_known;
    agreed_t all;
    ecc_ps_t end;
    int stop;

    if (part == 0) { /* before the first meeting: no other part has looked at it */
        atomic_store_explicit(&self->must_stop, false, memory_order_relaxed);
    }
    max_events = max_events < 0 ? INT64_MAX : max_events;
    until = until > engine->now ? until : engine->now;
    is_known = until <= known;
    until = end = is_known ? until : known;
    for (;;) {
        all = meet(self, part, n_begin, &ret);
        end = all.failed_at < end ? all.failed_at : end;
        if (all.n_events >= max_events || all.must_stop) {
            end = all.now < end ? all.now : end; /* the others advance to the time of the first part */
        }
        if (all.next > end || all.is_full) {
            break;
        }
        if (ret == 0) {
            ret = run(self, part, all.next, end, until_meeting(self, max_events - all.n_events), last_event);
        } else {
            (void) promise(self, part, ECC_NEVER);
        }
    }
    end = all.next > until && all.failed_at == ECC_NEVER ? until : end;
    if (all.next <= end) {
        stop = ECC_STOP_NOT_YET;
    } else {
        stop = all.failed_at < ECC_NEVER ? ECC_STOP_ERROR
            : all.next <= until          ? ECC_STOP_MAX_EVENTS
            : !is_known                  ? ECC_STOP_TRANSFERS
            : all.next < ECC_NEVER       ? ECC_STOP_UNTIL
                                         : ECC_STOP_IDLE;
        ret = ret == 0 && end >= engine->now ? ecc_run_until(engine, end) : ret; /* time and samples only */
    }
    return ecc_run_end(engine, ret) == 0 ? stop : stop == ECC_STOP_NOT_YET ? stop : ECC_STOP_ERROR;
}
