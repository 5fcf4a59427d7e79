#ifndef ECC_IMPAIRMENT_H
#define ECC_IMPAIRMENT_H

/* What a way does to the packets on it: loses, delays and reorders them. A way is a link's wire or ACKs' pure delay. */

#include <stdbool.h>

#include "calendar.h"
#include "engine.h"
#include "memory.h"
#include "packets.h"

/* A packet that others may overtake. */
typedef struct {
    ecc_ps_t time;  /* when it gets there */
    uint64_t order; /* of joining */
    uint32_t packet;
} ecc_late_t;

typedef struct {
    ecc_impairment_t is;
    uint64_t random;
    int64_t until_spike; /* packets, that with the spike included */
    ecc_ps_t free_at;    /* when the spikes let the last packet go */
    ecc_ps_t last_out;
    uint64_t n_joined;
    ecc_late_t *late; /* packets on the way, if it reorders: a binary heap, first to arrive first */
    uint32_t n_late;
    uint32_t room;
} ecc_impaired_t;

/* Room that it had before, or zeros, stays. */
void ecc_impairment_init(ecc_impaired_t *self, const ecc_impairment_t *is, uint64_t seed, uint64_t stream);
void ecc_impairment_free(ecc_impaired_t *self, ecc_memory_t *memory);

/* Decides whether a packet (kind 0: data, 1: ACK) is lost. */
bool ecc_impairment_loses(ecc_impaired_t *self, int kind);

/* When a packet that sets out now on a way of this delay arrives. */
ecc_ps_t ecc_impairment_passes(ecc_impaired_t *self, ecc_ps_t now, ecc_ps_t delay);

/*
 * Lists of packets on a way, which a node of the calendar waits for: in the fifo, or, if packets may overtake each
 * other, in the heap.
 */
ECC_MUST_CHECK int ecc_impairment_append(ecc_impaired_t *self, ecc_memory_t *memory, ecc_packets_t *packets,
    ecc_fifo_t *fifo, ecc_calendar_t *calendar, uint32_t node, uint32_t packet, ecc_ps_t time);
ECC_MUST_CHECK int ecc_impairment_verify(const ecc_impaired_t *self);
uint32_t ecc_impairment_take_late(ecc_impaired_t *self, ecc_calendar_t *calendar, uint32_t node);

#endif
