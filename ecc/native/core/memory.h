#ifndef ECC_MEMORY_H
#define ECC_MEMORY_H

/* All memory of an engine: one allocator, which a test may replace, and counters of its bytes. */

#include <stddef.h>

#include "core/engine.h"

/* Code that seldom runs, kept out of the hot path. */
#if defined(__GNUC__)
#define ECC_COLD __attribute__((noinline, cold))
#define ECC_HOT inline __attribute__((always_inline)) /* specialized by kind of flow, or called very often */
#else
#define ECC_COLD
#define ECC_HOT inline
#endif

#define ECC_CACHE_LINE 64

typedef struct {
    ecc_allocator_t allocator;
    size_t bytes;
    size_t peak;
    size_t limit; /* maximum number of bytes; 0: no limit */
} ecc_memory_t;

void ecc_memory_init(ecc_memory_t *self, const ecc_allocator_t *allocator);

/* *block of old_size bytes becomes one of new_size, the rest of it zeroed; on failure it stays as it was. */
ECC_MUST_CHECK int ecc_memory_resize(ecc_memory_t *self, size_t old_size, size_t new_size, void **block);

/*
 * As ecc_memory_resize, but new memory is not zeroed. For arrays that grow in a run: zeroing a gigabyte takes too long
 * for a run that should stop soon.
 */
ECC_MUST_CHECK int ecc_memory_extend(ecc_memory_t *self, size_t old_size, size_t new_size, void **block);

/* The first cache line of a block, which has ECC_CACHE_LINE bytes more than are needed from there. */
static inline void *
ecc_memory_align(void *block)
{
    return (unsigned char *) block + (-(uintptr_t) block & (ECC_CACHE_LINE - 1));
}

/* Releases *block of size bytes and clears it; legal on NULL. */
void ecc_memory_release(ecc_memory_t *self, size_t size, void **block);

#endif
