#ifndef ECC_WAITING_H
#define ECC_WAITING_H

/*
 * Crossings that wait until they are due, each for one port: a heap by time and, at equal times, by order of arrival.
 */

#include <stdint.h>

#include "core/memory.h"

/* An entry of the heap; those behind its end hold the slots that are free. */
typedef struct {
    ecc_ps_t time;
    uint64_t number;
    uint32_t slot;
    uint32_t port;
} ecc_due_t;

typedef struct {
    ecc_due_t *heap;
    unsigned char *slots;
    size_t size; /* bytes of a slot */
    uint32_t n;
    uint32_t room;
    uint64_t n_pushed;
} ecc_waiting_t;

void ecc_waiting_init(ecc_waiting_t *self, size_t crossing_size);
void ecc_waiting_free(ecc_waiting_t *self, ecc_memory_t *memory);

/* A crossing is copied. */
ECC_MUST_CHECK int ecc_waiting_push(
    ecc_waiting_t *self, ecc_memory_t *memory, ecc_ps_t time, uint32_t port, const unsigned char *crossing);

/* Time at which the first is due; ECC_NEVER without any. */
static inline ecc_ps_t
ecc_waiting_first(const ecc_waiting_t *self)
{
    return self->n > 0 ? self->heap[0].time : ECC_NEVER;
}

/* Removes the first: its port, and its bytes, which are there until the next call. */
const unsigned char *ecc_waiting_pop(ecc_waiting_t *self, uint32_t *port);

#endif
