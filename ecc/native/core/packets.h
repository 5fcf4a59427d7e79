#ifndef ECC_PACKETS_H
#define ECC_PACKETS_H

/*
 * The packets in the network, and first-in-first-out lists of them: each packet is in one list at most.
 *
 * A packet has the time at which the next one leaves the list, so that removing the first does not touch the second.
 * The time of the first is that of the pending node in the calendar.
 */

#include <stdbool.h>

#include "core/memory.h"

#define ECC_NO_PACKET UINT32_MAX
#define ECC_PACKETS_MAX_SIZE (INT32_C(1) << 30)

typedef struct {
    ecc_ps_t sent;      /* departure from the sender */
    int64_t offset;     /* bytes that its flow had sent before it; of a control packet: its kind */
    ecc_ps_t next_time; /* time at which the next packet leaves their list */
    uint32_t next;      /* next packet in their list */
    uint32_t flow;
    int32_t size;      /* bytes of data, also once it is an ACK; of a control packet: -bytes on links */
    uint32_t position; /* position in the table of hops */
} ecc_packet_t;        /* the header follows, then what an ACK carries */

typedef struct {
    unsigned char *base; /* first packet, at a cache line: packets of 64 bytes have one line each */
    void *block;         /* the memory, not aligned */
    size_t stride;
    uint32_t capacity;
    uint32_t n_touched; /* packets ever used; the rest is untouched */
    uint32_t n_used;
    uint32_t first_free; /* list of packets released */
} ecc_packets_t;

typedef struct {
    uint32_t head;
    uint32_t tail;
} ecc_fifo_t;

void ecc_packets_init(ecc_packets_t *self, size_t header_size);
void ecc_packets_free(ecc_packets_t *self, ecc_memory_t *memory);
ECC_MUST_CHECK int ecc_packets_grow(ecc_packets_t *self, ecc_memory_t *memory);

static inline ecc_packet_t *
ecc_packets_at(const ecc_packets_t *self, uint32_t packet)
{
    return (ecc_packet_t *) (void *) (self->base + self->stride * packet);
}

/* Whether a packet has lost its data on the way (S-134). */
static inline bool
ecc_packets_is_trimmed(int64_t size)
{
    return size < -ECC_PACKETS_MAX_SIZE;
}

/* Bytes of data that a packet has or had; not for control packets. */
static inline int32_t
ecc_packets_data(int32_t size)
{
    return size & INT32_MAX;
}

static inline unsigned char *
ecc_packets_header(const ecc_packet_t *packet)
{
    return (unsigned char *) (packet + 1);
}

/* Pointers to packets are valid until the next call. */
ECC_MUST_CHECK static inline int
ecc_packets_allocate(ecc_packets_t *self, ecc_memory_t *memory, uint32_t *packet)
{
    if (self->first_free != ECC_NO_PACKET) {
        *packet = self->first_free;
        self->first_free = ecc_packets_at(self, *packet)->next;
    } else {
        if (self->n_touched == self->capacity) {
            int ret = ecc_packets_grow(self, memory);
            if (ret != 0) {
                return ret;
            }
        }
        *packet = self->n_touched++;
    }
    self->n_used++;
    return 0;
}

static inline void
ecc_packets_release(ecc_packets_t *self, uint32_t packet)
{
    ecc_packets_at(self, packet)->next = self->first_free;
    self->first_free = packet;
    self->n_used--;
}

/* The packet leaves the list at `time`; true if it is the first. */
static inline bool
ecc_packets_append(ecc_packets_t *self, ecc_fifo_t *fifo, uint32_t packet, ecc_ps_t time)
{
    bool first = fifo->head == ECC_NO_PACKET;

    ecc_packets_at(self, packet)->next = ECC_NO_PACKET;
    if (first) {
        fifo->head = packet;
    } else {
        ecc_packet_t *tail = ecc_packets_at(self, fifo->tail);
        tail->next = packet;
        tail->next_time = time;
    }
    fifo->tail = packet;
    return first;
}

#endif
