#ifndef ECC_RING_H
#define ECC_RING_H

/* The packets in a link's queue, first in, first out. */

#include "core/memory.h"

typedef struct {
    ecc_ps_t leaves; /* time at which its last bit leaves the queue */
    int32_t size;    /* bytes on this link */
    uint32_t of;     /* the packet, or, if it is on the wire already, its position here in the table of hops */
} ecc_queued_t;

typedef struct {
    ecc_queued_t *items;
    uint32_t capacity; /* number of entries, 0 or a power of two */
    uint32_t first;
    uint32_t count;
} ecc_ring_t;

void ecc_ring_init(ecc_ring_t *self);
void ecc_ring_free(ecc_ring_t *self, ecc_memory_t *memory);
ECC_MUST_CHECK int ecc_ring_grow(ecc_ring_t *self, ecc_memory_t *memory);
ECC_MUST_CHECK int ecc_ring_verify(const ecc_ring_t *self);

static inline ecc_queued_t *
ecc_ring_at(const ecc_ring_t *self, uint32_t k)
{
    return &self->items[(self->first + k) & (self->capacity - 1)];
}

static inline void
ecc_ring_drop_first(ecc_ring_t *self)
{
    self->first = (self->first + 1) & (self->capacity - 1);
    self->count--;
}

ECC_MUST_CHECK static inline int
ecc_ring_append(ecc_ring_t *self, ecc_memory_t *memory, ecc_queued_t item)
{
    if (self->count == self->capacity) {
        int ret = ecc_ring_grow(self, memory);
        if (ret != 0) {
            return ret;
        }
    }
    *ecc_ring_at(self, self->count) = item;
    self->count++;
    return 0;
}

#endif
