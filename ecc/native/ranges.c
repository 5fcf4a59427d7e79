/*
 * Sets of bytes as ordered ranges, searched by bisection. The last few are looked at first: ACKs and holes are near the
 * end of a stream.
 *
 * Invariant (ecc_ranges_verify): no range is empty, and each begins beyond the end of the one before it.
 */

#include "ranges.h"

#include <string.h>

#include "errors.h"

#define FIRST_ROOM 8u
#define NEAR 4u /* of the ranges, the last of these are looked at one by one */

void
ecc_ranges_free(ecc_ranges_t *self, ecc_memory_t *memory)
{
    void *block = self->items;

    ecc_memory_release(memory, self->room * sizeof(*self->items), &block);
    memset(self, 0, sizeof(*self));
}

uint32_t
ecc_ranges_find(const ecc_ranges_t *self, int64_t number)
{
    uint32_t low = 0;
    uint32_t high = self->count;

    for (uint32_t k = 0; k < NEAR && high > 0 && ecc_ranges_at(self, high - 1)->end > number; k++) {
        high--;
    }
    if (high > 0 && ecc_ranges_at(self, high - 1)->end <= number) {
        return high;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ecc_ranges_at(self, middle)->end > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

int64_t
ecc_ranges_skip(const ecc_ranges_t *self, int64_t number)
{
    uint32_t k = ecc_ranges_find(self, number);

    return k < self->count && ecc_ranges_at(self, k)->begin <= number ? ecc_ranges_at(self, k)->end : number;
}

int64_t
ecc_ranges_until(const ecc_ranges_t *self, int64_t number, int64_t limit)
{
    uint32_t k = ecc_ranges_find(self, number);

    return k < self->count && ecc_ranges_at(self, k)->begin < limit ? ecc_ranges_at(self, k)->begin : limit;
}

int64_t
ecc_ranges_within(const ecc_ranges_t *self, int64_t begin, int64_t end)
{
    int64_t bytes = 0;

    for (uint32_t k = ecc_ranges_find(self, begin); k < self->count && ecc_ranges_at(self, k)->begin < end; k++) {
        const ecc_range_t *range = ecc_ranges_at(self, k);
        bytes += (range->end < end ? range->end : end) - (range->begin > begin ? range->begin : begin);
    }
    return bytes;
}

/* Room for one more after the last. */
static int
make_room(ecc_ranges_t *self, ecc_memory_t *memory)
{
    void *block = self->items;
    uint32_t room = self->room == 0 ? FIRST_ROOM : 2 * self->room;
    int ret;

    if (self->count < self->room) {
        return 0;
    }
    ret = room <= self->room
        ? ECC_ERR_TOO_LARGE
        : ecc_memory_resize(memory, self->room * sizeof(*self->items), room * sizeof(*self->items), &block);
    if (ret == 0) {
        self->items = block;
        self->room = room;
    }
    return ret;
}

int
ecc_ranges_add(ecc_ranges_t *self, ecc_memory_t *memory, int64_t begin, int64_t end)
{
    uint32_t k = ecc_ranges_find(self, begin - 1); /* the first that overlaps, touches or follows */
    uint32_t n = 0;
    ecc_range_t *range;

    if (begin >= end) {
        return 0;
    }
    while (k + n < self->count && ecc_ranges_at(self, k + n)->begin <= end) {
        n++;
    }
    if (n == 0) {
        int ret = make_room(self, memory);
        if (ret != 0) {
            return ret;
        }
        range = &self->items[k];
        memmove(range + 1, range, (self->count - k) * sizeof(*range));
        *range = (ecc_range_t) { begin, end };
        self->count++;
        return 0;
    }
    range = &self->items[k];
    range->begin = range->begin < begin ? range->begin : begin;
    range->end = range[n - 1].end > end ? range[n - 1].end : end;
    memmove(range + 1, range + n, (self->count - k - n) * sizeof(*range));
    self->count -= n - 1;
    return 0;
}

void
ecc_ranges_drop(ecc_ranges_t *self, int64_t number)
{
    uint32_t k = ecc_ranges_find(self, number);

    self->count -= k;
    if (k > 0 && self->count > 0) {
        memmove(self->items, self->items + k, self->count * sizeof(*self->items));
    }
    if (self->count > 0 && self->items[0].begin < number) {
        self->items[0].begin = number;
    }
}

int
ecc_ranges_verify(const ecc_ranges_t *self)
{
    bool valid = self->count <= self->room;

    for (uint32_t k = 0; k < self->count && valid; k++) {
        const ecc_range_t *range = ecc_ranges_at(self, k);
        valid = range->begin < range->end && (k == 0 || range[-1].end < range->begin);
    }
    return valid ? 0 : ECC_ERR_BROKEN;
}
