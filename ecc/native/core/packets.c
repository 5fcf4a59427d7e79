/*
 * Memory of packets: an array that grows by an eighth once it is large, with a list of the packets released; see
 * packets.h for the lists they are in.
 */

#include "core/packets.h"

#include <string.h>

#include "core/errors.h"

#define FIRST_CAPACITY 64u
#define LARGE 4096u /* number of packets below which the array grows by a half */

static size_t
size_of(const ecc_packets_t *self, uint32_t capacity)
{
    return capacity == 0 ? 0 : self->stride * capacity + ECC_CACHE_LINE;
}

void
ecc_packets_init(ecc_packets_t *self, size_t header_size)
{
    memset(self, 0, sizeof(*self));
    self->stride = sizeof(ecc_packet_t) + header_size;
    self->first_free = ECC_NO_PACKET;
}

void
ecc_packets_free(ecc_packets_t *self, ecc_memory_t *memory)
{
    void *block = self->block;

    ecc_memory_release(memory, size_of(self, self->capacity), &block);
    memset(self, 0, sizeof(*self));
}

int
ecc_packets_grow(ecc_packets_t *self, ecc_memory_t *memory)
{
    uint32_t old = self->capacity;
    uint32_t new = old == 0 ? FIRST_CAPACITY : old + old / (old < LARGE ? 2 : 8);
    size_t shift = (size_t) (self->base - (unsigned char *) self->block);
    void *block = self->block;
    unsigned char *base;
    int ret;

    if (new < old) {
        return ECC_ERR_TOO_LARGE;
    }
    ret = ecc_memory_extend(memory, size_of(self, old), size_of(self, new), &block);
    if (ret != 0) {
        return ret;
    }
    base = ecc_memory_align(block);
    if (old > 0 && base != (unsigned char *) block + shift) {
        memmove(base, (unsigned char *) block + shift, self->stride * old);
    }
    self->base = base;
    self->block = block;
    self->capacity = new;
    return 0;
}
