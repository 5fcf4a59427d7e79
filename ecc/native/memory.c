/*
 * All memory comes from here: blocks are allocated, grown and released, counted, and held to a limit.
 */

#define _DEFAULT_SOURCE

#include "memory.h"

#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "errors.h"

#define HUGE_PAGE ((size_t) 1 << 21)

/* Asks for huge pages in a large block: an event touches memory at random, and would miss the TLB at most accesses. */
static void
advise(void *block, size_t size)
{
#if defined(MADV_HUGEPAGE)
    uintptr_t begin = ((uintptr_t) block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t) block + size) / HUGE_PAGE * HUGE_PAGE;

    if (begin < end) {
        (void) madvise((void *) begin, end - begin, MADV_HUGEPAGE); /* without them the run is only slower */
    }
#else
    (void) block;
    (void) size;
#endif
}

static void *
resize_with_libc(void *context, void *block, size_t size)
{
    (void) context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    block = realloc(block, size);
    if (block != NULL) {
        advise(block, size);
    }
    return block;
}

void
ecc_memory_init(ecc_memory_t *self, const ecc_allocator_t *allocator)
{
    memset(self, 0, sizeof(*self));
    if (allocator != NULL) {
        self->allocator = *allocator;
    } else {
        self->allocator.resize = resize_with_libc;
    }
}

int
ecc_memory_resize(ecc_memory_t *self, size_t old_size, size_t new_size, void **block)
{
    void *grown = NULL;

    if (self->limit == 0 || self->bytes - old_size + new_size <= self->limit) {
        grown = self->allocator.resize(self->allocator.context, *block, new_size);
    }
    if (grown == NULL) {
        return ECC_ERR_NO_MEMORY;
    }
    if (new_size > old_size) {
        memset((unsigned char *) grown + old_size, 0, new_size - old_size);
    }
    *block = grown;
    self->bytes += new_size - old_size;
    if (self->bytes > self->peak) {
        self->peak = self->bytes;
    }
    return 0;
}

void
ecc_memory_release(ecc_memory_t *self, size_t size, void **block)
{
    if (*block != NULL) {
        (void) self->allocator.resize(self->allocator.context, *block, 0);
        self->bytes -= size;
        *block = NULL;
    }
}
