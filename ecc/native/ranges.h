#ifndef ECC_RANGES_H
#define ECC_RANGES_H

/* Sets of bytes of a stream: ranges that neither overlap nor touch, in order, in an array that grows by doubling. */

#include <stdbool.h>

#include "memory.h"

typedef struct {
    int64_t begin;
    int64_t end;
} ecc_range_t;

typedef struct {
    ecc_range_t *items;
    uint32_t count;
    uint32_t room;
} ecc_ranges_t;

void ecc_ranges_free(ecc_ranges_t *self, ecc_memory_t *memory);

static inline const ecc_range_t *
ecc_ranges_at(const ecc_ranges_t *self, uint32_t k)
{
    return &self->items[k];
}

static inline void
ecc_ranges_clear(ecc_ranges_t *self)
{
    self->count = 0;
}

/* Index of the first range that ends beyond a sequence number; count if there is none. */
uint32_t ecc_ranges_find(const ecc_ranges_t *self, int64_t number);

/* The first byte at or after a sequence number that is not in the set. */
int64_t ecc_ranges_skip(const ecc_ranges_t *self, int64_t number);

/* Where the first range after a sequence number that is in none begins, but at most `limit`. */
int64_t ecc_ranges_until(const ecc_ranges_t *self, int64_t number, int64_t limit);

/* How many of the bytes from begin to end are in the set. */
int64_t ecc_ranges_within(const ecc_ranges_t *self, int64_t begin, int64_t end);

ECC_MUST_CHECK int ecc_ranges_add(ecc_ranges_t *self, ecc_memory_t *memory, int64_t begin, int64_t end);

/* Removes all below a sequence number. */
void ecc_ranges_drop(ecc_ranges_t *self, int64_t number);

ECC_MUST_CHECK int ecc_ranges_verify(const ecc_ranges_t *self);

#endif
