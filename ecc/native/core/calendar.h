#ifndef ECC_CALENDAR_H
#define ECC_CALENDAR_H

/*
 * A calendar queue (Brown 1988) of numbered nodes, each with at most one time. They are ordered by time, and at equal
 * times by number or by a second list.
 *
 * A bucket holds the nodes of a day, which is 2^shift ps long; days that are n_buckets apart share a bucket. The first
 * node of a bucket is known. The others are sorted only when it leaves, because many may have one time and may be
 * inserted in any order. Two levels of bits mark occupied buckets. The width follows the mean time between events. All
 * memory is allocated at the start, so that no later call can fail.
 */

#include <assert.h>
#include <stdbool.h>

#include "core/memory.h"

#define ECC_NO_NODE UINT32_MAX
#define ECC_CALENDAR_EMPTY (UINT32_MAX - 1)
#define ECC_LARGEST_NODE (UINT32_MAX >> 1)
#define ECC_NOT_PENDING INT64_C(-1)

typedef struct {
    ecc_ps_t time; /* ECC_NOT_PENDING: not in the calendar */
    uint32_t next;
    uint32_t prev;
} ecc_node_t;

typedef struct {
    ecc_ps_t time; /* time of the head */
    uint32_t head; /* first node of the bucket */
    uint32_t tail : 31;
    uint32_t is_unsorted : 1; /* the nodes behind the head are unsorted */
} ecc_bucket_t;

typedef struct {
    ecc_ps_t first_time; /* time of `first`, ECC_NEVER without one */
    uint32_t first;      /* next node; ECC_NO_NODE: not known, ECC_CALENDAR_EMPTY: known to be missing */
    int shift;
    ecc_node_t *nodes;
    uint64_t *order; /* order of nodes at equal times, by node; NULL: by number */
    ecc_bucket_t *buckets;
    uint64_t *occupied; /* one bit per bucket */
    uint64_t *summary;  /* one bit per word of `occupied` */
    ecc_ps_t clock;     /* time of the last node popped */
    ecc_ps_t epoch;     /* clock when the width was last adapted */
    uint32_t n_buckets; /* number of buckets, a power of two */
    uint32_t n_nodes;
    uint32_t n_popped; /* nodes popped since the epoch */
    uint32_t work;     /* nodes walked over and buckets searched in vain since the epoch */
    uint32_t budget;
} ecc_calendar_t;

/* Length of a year, at least n_days days: a node further ahead is visited more than once. */
ECC_MUST_CHECK int ecc_calendar_init(ecc_calendar_t *self, ecc_memory_t *memory, uint32_t n_nodes, uint32_t n_days);
void ecc_calendar_free(ecc_calendar_t *self, ecc_memory_t *memory);

/*
 * Room for more nodes, numbered anew: those from old[g] up to the next group's are now those from new[g] on, for
 * n_groups groups; both lists grow. `order`, or NULL, is of the new numbers, in memory of ecc_calendar_order_size, and
 * is the calendar's from now on. On failure nothing else has changed. Legal on zeroed memory.
 */
ECC_MUST_CHECK int ecc_calendar_renumber(ecc_calendar_t *self, ecc_memory_t *memory, uint32_t n_nodes, uint32_t n_days,
    uint32_t n_groups, const uint32_t *old, const uint32_t *new, uint64_t *order);

static inline size_t
ecc_calendar_order_size(uint32_t n_nodes)
{
    return (n_nodes + (size_t) 1) * sizeof(uint64_t);
}

ECC_MUST_CHECK int ecc_calendar_verify(const ecc_calendar_t *self);

void ecc_calendar_remove(ecc_calendar_t *self, uint32_t node);

/* Rare cases of the functions below. */
void ecc_calendar_insert_into(ecc_calendar_t *self, ecc_bucket_t *bucket, uint32_t node, ecc_ps_t time);
void ecc_calendar_search(ecc_calendar_t *self);
void ecc_calendar_sort(ecc_calendar_t *self, ecc_bucket_t *bucket);

static inline uint32_t
ecc_calendar_bucket(const ecc_calendar_t *self, ecc_ps_t time)
{
    return (uint32_t) (time >> self->shift) & (self->n_buckets - 1);
}

static inline bool
ecc_calendar_before(const ecc_calendar_t *self, ecc_ps_t time, uint32_t node, ecc_ps_t other_time, uint32_t other)
{
    if (time != other_time) {
        return time < other_time;
    }
    return self->order == NULL || other == ECC_CALENDAR_EMPTY ? node < other : self->order[node] < self->order[other];
}

/* Marks a bucket as occupied. */
static inline void
ecc_calendar_mark(ecc_calendar_t *self, uint32_t bucket)
{
    uint64_t *word = &self->occupied[bucket >> 6];

    if (*word == 0) {
        self->summary[bucket >> 12] |= UINT64_C(1) << ((bucket >> 6) & 63);
    }
    *word |= UINT64_C(1) << (bucket & 63);
}

/* Empties a bucket; returns the bits of its word. */
static inline uint64_t
ecc_calendar_unmark(ecc_calendar_t *self, uint32_t bucket)
{
    uint64_t *word = &self->occupied[bucket >> 6];

    self->buckets[bucket].head = ECC_NO_NODE;
    *word &= ~(UINT64_C(1) << (bucket & 63));
    if (*word == 0) {
        self->summary[bucket >> 12] &= ~(UINT64_C(1) << ((bucket >> 6) & 63));
    }
    return *word;
}

/*
 * Inserts a node; its time is not before that of the last node popped. Inlined also where the compiler would not, as
 * each event inserts one or two.
 */
static inline __attribute__((always_inline)) void
ecc_calendar_insert(ecc_calendar_t *self, uint32_t id, ecc_ps_t time)
{
    uint32_t index = ecc_calendar_bucket(self, time);
    ecc_bucket_t *bucket = &self->buckets[index];

    assert(time >= self->clock && self->nodes[id].time == ECC_NOT_PENDING);
    if (bucket->head == ECC_NO_NODE) {
        self->nodes[id] = (ecc_node_t) { time, ECC_NO_NODE, ECC_NO_NODE };
        *bucket = (ecc_bucket_t) { time, id, id & ECC_LARGEST_NODE, 0 };
        ecc_calendar_mark(self, index);
    } else {
        ecc_calendar_insert_into(self, bucket, id, time);
    }
    if (self->first != ECC_NO_NODE && ecc_calendar_before(self, time, id, self->first_time, self->first)) {
        self->first = id;
        self->first_time = time;
    }
}

/* Finds the first node: `first` and `first_time` hold it until the next change. */
static inline void
ecc_calendar_find(ecc_calendar_t *self)
{
    if (self->first == ECC_NO_NODE) {
        ecc_calendar_search(self);
    }
}

/* Removes the first node, which ecc_calendar_search has found. */
static inline uint32_t
ecc_calendar_pop(ecc_calendar_t *self)
{
    uint32_t id = self->first;
    ecc_ps_t time = self->first_time;
    int shift = self->shift;
    uint64_t day = (uint64_t) time >> shift;
    uint32_t index = (uint32_t) day & (self->n_buckets - 1);
    ecc_bucket_t *bucket = &self->buckets[index];
    uint32_t next;

    assert(id == bucket->head && self->nodes[id].time == time);
    if (bucket->is_unsorted) {
        ecc_calendar_sort(self, bucket);
    }
    next = self->nodes[id].next;
    self->nodes[id].time = ECC_NOT_PENDING;
    self->clock = time;
    if (next == ECC_NO_NODE) {
        uint64_t later = ecc_calendar_unmark(self, index) >> (index & 63);
        if (later != 0) {
            uint32_t wait = (uint32_t) __builtin_ctzll(later);
            bucket += wait;
            day += wait;
        }
    } else {
        self->nodes[next].prev = ECC_NO_NODE;
        bucket->head = next;
        bucket->time = self->nodes[next].time;
    }
    /* the next of the same day, or of the next day that has any, is the next of all; but now and then the width must be
       adapted */
    if (++self->n_popped < self->budget && bucket->head != ECC_NO_NODE && (uint64_t) bucket->time >> shift == day) {
        self->first = bucket->head;
        self->first_time = bucket->time;
    } else {
        self->first = ECC_NO_NODE;
        self->first_time = ECC_NEVER;
    }
    return id;
}

static inline bool
ecc_calendar_pending(const ecc_calendar_t *self, uint32_t node)
{
    return self->nodes[node].time != ECC_NOT_PENDING;
}

static inline void
ecc_calendar_cancel(ecc_calendar_t *self, uint32_t node)
{
    if (ecc_calendar_pending(self, node)) {
        ecc_calendar_remove(self, node);
    }
}

static inline void
ecc_calendar_move(ecc_calendar_t *self, uint32_t node, ecc_ps_t time)
{
    if (self->nodes[node].time != time) {
        ecc_calendar_cancel(self, node);
        ecc_calendar_insert(self, node, time);
    }
}

#endif
