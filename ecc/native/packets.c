/*
 * Memory of packets: an array that grows by a half, with a list of the packets released; see packets.h for the lists they are
 * in.
 */

#include "packets.h"

#include <string.h>

#include "errors.h"

#define FIRST_CAPACITY 64u

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
    void *base = self->base;

    ecc_memory_release(memory, self->stride * self->capacity, &base);
    memset(self, 0, sizeof(*self));
}

int
ecc_packets_grow(ecc_packets_t *self, ecc_memory_t *memory)
{
    uint32_t old = self->capacity;
    uint32_t new = old == 0 ? FIRST_CAPACITY : old >= UINT32_MAX / 2 ? UINT32_MAX : old + old / 2;
    void *base = self->base;
    int ret;

    if (new == old) {
        return ECC_ERR_TOO_LARGE;
    }
    ret = ecc_memory_resize(memory, self->stride * old, self->stride * new, &base);
    if (ret != 0) {
        return ret;
    }
    self->base = base;
    self->capacity = new;
    return 0;
}
