/*
 * A queue as a ring whose capacity is a power of two; it only grows.
 */

#include "core/ring.h"

#include <string.h>

#include "core/errors.h"

#define FIRST_CAPACITY 16u
#define MAX_CAPACITY (1u << 31)

void
ecc_ring_init(ecc_ring_t *self)
{
    memset(self, 0, sizeof(*self));
}

void
ecc_ring_free(ecc_ring_t *self, ecc_memory_t *memory)
{
    void *items = self->items;

    ecc_memory_release(memory, self->capacity * sizeof(*self->items), &items);
    ecc_ring_init(self);
}

int
ecc_ring_grow(ecc_ring_t *self, ecc_memory_t *memory)
{
    uint32_t old = self->capacity;
    uint32_t new = old == 0 ? FIRST_CAPACITY : old * 2;
    void *items = self->items;
    int ret;

    if (old == MAX_CAPACITY) {
        return ECC_ERR_TOO_LARGE;
    }
    ret = ecc_memory_extend(memory, old * sizeof(*self->items), new * sizeof(*self->items), &items);
    if (ret != 0) {
        return ret;
    }
    self->items = items;
    self->capacity = new;
    /* entries that had wrapped around move behind the old end */
    if (self->first + self->count > old) {
        memcpy(self->items + old, self->items, (self->first + self->count - old) * sizeof(*self->items));
    }
    return 0;
}

int
ecc_ring_verify(const ecc_ring_t *self)
{
    if ((self->capacity & (self->capacity - 1)) != 0 || self->count > self->capacity) {
        return ECC_ERR_BROKEN;
    }
    if (self->capacity > 0 && self->first >= self->capacity) {
        return ECC_ERR_BROKEN;
    }
    for (uint32_t k = 1; k < self->count; k++) {
        if (ecc_ring_at(self, k)->leaves < ecc_ring_at(self, k - 1)->leaves) {
            return ECC_ERR_BROKEN;
        }
    }
    return 0;
}
