#ifndef ECC_RANGES_H
#define ECC_RANGES_H

/*
 * Sets of bytes of a stream: ranges that neither overlap nor touch, in order. A range is named by a number that stays
 * the same until the range is removed; zeroed memory is an empty set.
 */

#include <stdbool.h>

#include "core/memory.h"

#define ECC_NO_RANGE 0u

typedef struct {
    int64_t begin;
    int64_t end;
} ecc_range_t;

typedef struct {
    ecc_range_t range; /* the bytes; empty for an unused node */
    uint32_t left;     /* child in the tree, or ECC_NO_RANGE */
    uint32_t right;
    uint32_t prev; /* neighbor in the list, or ECC_NO_RANGE */
    uint32_t next; /* next node of the list, or next unused node */
} ecc_range_node_t;

/*
 * Node ECC_NO_RANGE holds no range. It closes the list to a ring (next: the first range, prev: the last one); `left` is
 * the root of the tree, `right` the list of released nodes, and range.begin the number of nodes that were ever used.
 */
typedef struct {
    ecc_range_node_t *nodes; /* NULL before the first range */
    uint32_t count;
    uint32_t room;
} ecc_ranges_t;

void ecc_ranges_free(ecc_ranges_t *self, ecc_memory_t *memory);
void ecc_ranges_clear(ecc_ranges_t *self);

static inline const ecc_range_t *
ecc_ranges_at(const ecc_ranges_t *self, uint32_t range)
{
    return &self->nodes[range].range;
}

static inline uint32_t
ecc_ranges_prev(const ecc_ranges_t *self, uint32_t range)
{
    return self->nodes[range].prev;
}

static inline uint32_t
ecc_ranges_next(const ecc_ranges_t *self, uint32_t range)
{
    return self->nodes[range].next;
}

/* The first and the last range of a set, or ECC_NO_RANGE. */
static inline uint32_t
ecc_ranges_first(const ecc_ranges_t *self)
{
    return self->count > 0 ? self->nodes[ECC_NO_RANGE].next : ECC_NO_RANGE;
}

static inline uint32_t
ecc_ranges_last(const ecc_ranges_t *self)
{
    return self->count > 0 ? self->nodes[ECC_NO_RANGE].prev : ECC_NO_RANGE;
}

/* Legal on the number of a range that has been removed since, and on ECC_NO_RANGE if the set is not empty. */
static inline bool
ecc_ranges_contains(const ecc_ranges_t *self, uint32_t range, int64_t number)
{
    return self->nodes[range].range.begin <= number && number < self->nodes[range].range.end;
}

/* The first range that ends beyond a sequence number, or ECC_NO_RANGE. */
uint32_t ecc_ranges_find(const ecc_ranges_t *self, int64_t number);

/* The first byte at or after a sequence number that is not in the set. */
int64_t ecc_ranges_skip(const ecc_ranges_t *self, int64_t number);

/* The begin of the first range after a sequence number that is in no range, but at most `limit`. */
int64_t ecc_ranges_until(const ecc_ranges_t *self, int64_t number, int64_t limit);

/* The number of bytes from begin to end that are in the set. */
int64_t ecc_ranges_within(const ecc_ranges_t *self, int64_t begin, int64_t end);

/*
 * Adds the bytes from begin to end, begin < end. range: the one that now contains them; added: the number of bytes that
 * were not in the set.
 */
ECC_MUST_CHECK int ecc_ranges_insert(
    ecc_ranges_t *self, ecc_memory_t *memory, int64_t begin, int64_t end, uint32_t *range, int64_t *added);

/* The same, legal for begin >= end, which adds nothing. */
ECC_MUST_CHECK int ecc_ranges_add(ecc_ranges_t *self, ecc_memory_t *memory, int64_t begin, int64_t end);

/* Removes all bytes below a sequence number. */
void ecc_ranges_drop(ecc_ranges_t *self, int64_t number);

ECC_MUST_CHECK int ecc_ranges_verify(const ecc_ranges_t *self);

#ifdef ECC_COUNT_VISITS
extern uint64_t ecc_ranges_n_visits; /* nodes visited, for tests that bound the work */
#endif

#endif
