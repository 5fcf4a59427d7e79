/*
 * All memory comes from here: blocks are allocated, grown and released, counted, and held to a limit.
 */

#define _GNU_SOURCE /* mremap */

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "core/errors.h"

#define HUGE_PAGE ((size_t) 1 << 21)
#define LARGE ((size_t) 1 << 25) /* bytes: from here on a block is a mapping */

/* Asks for huge pages in a large block: events touch memory at random, and most accesses would miss the TLB. */
static void
advise(void *block, size_t size)
{
#if defined(MADV_HUGEPAGE)
    uintptr_t begin = ((uintptr_t) block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t) block + size) / HUGE_PAGE * HUGE_PAGE;

    if (begin < end) {
        (void) madvise((void *) begin, end - begin, MADV_HUGEPAGE); /* without huge pages the run is only slower */
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

#if defined(__linux__)
static size_t
round_up(size_t size)
{
    return (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* A mapping that begins and ends with a huge page, or NULL. */
static void *
map_aligned(size_t size, int protection)
{
    unsigned char *found
        = mmap(NULL, round_up(size) + HUGE_PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before = -(uintptr_t) found & (HUGE_PAGE - 1);

    if (found == MAP_FAILED) {
        return NULL;
    }
    if (before > 0) {
        (void) munmap(found, before);
    }
    (void) munmap(found + before + round_up(size), HUGE_PAGE - before);
    return found + before;
}

/*
 * Resizes a block that is or becomes large. The C library moves a large block to an address that is not aligned in the
 * same way; the kernel then splits all of its huge pages, which takes half a second for a gigabyte.
 */
static void *
resize_large(void *block, size_t old_size, size_t new_size)
{
    void *resized = NULL;

    if (new_size >= LARGE && old_size >= LARGE) {
        void *area = map_aligned(new_size, PROT_NONE);
        resized = area == NULL
            ? MAP_FAILED
            : mremap(block, round_up(old_size), round_up(new_size), MREMAP_MAYMOVE | MREMAP_FIXED, area);
        if (resized == MAP_FAILED && area != NULL) {
            (void) munmap(area, round_up(new_size));
        }
        resized = resized == MAP_FAILED ? NULL : resized;
    } else if (new_size > 0) {
        resized = new_size >= LARGE ? map_aligned(new_size, PROT_READ | PROT_WRITE) : malloc(new_size);
        if (resized != NULL && block != NULL) {
            memcpy(resized, block, old_size < new_size ? old_size : new_size);
        }
    }
    if (resized != NULL && new_size >= LARGE) {
        advise(resized, round_up(new_size));
    }
    if (block != NULL && (resized != NULL || new_size == 0)) {
        if (old_size < LARGE) {
            free(block);
        } else if (new_size < LARGE) {
            (void) munmap(block, round_up(old_size));
        }
    }
    return resized;
}
#endif

static void *
resize_block(const ecc_memory_t *self, void *block, size_t old_size, size_t new_size)
{
#if defined(__linux__)
    if (self->allocator.resize == resize_with_libc && (old_size >= LARGE || new_size >= LARGE)) {
        return resize_large(block, old_size, new_size);
    }
#endif
    (void) old_size;
    return self->allocator.resize(self->allocator.context, block, new_size);
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
    int ret = ecc_memory_extend(self, old_size, new_size, block);

    if (ret == 0 && new_size > old_size) {
        memset((unsigned char *) *block + old_size, 0, new_size - old_size);
    }
    return ret;
}

int
ecc_memory_extend(ecc_memory_t *self, size_t old_size, size_t new_size, void **block)
{
    void *grown = NULL;

    if (self->limit == 0 || self->bytes - old_size + new_size <= self->limit) {
        grown = resize_block(self, *block, old_size, new_size);
    }
    if (grown == NULL) {
        return ECC_ERR_NO_MEMORY;
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
        (void) resize_block(self, *block, size, 0);
        self->bytes -= size;
        *block = NULL;
    }
}
