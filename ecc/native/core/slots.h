#ifndef ECC_SLOTS_H
#define ECC_SLOTS_H

/* Slots in which packets leave together (S-158), as on a channel with contention, or from a sender that aggregates. */

#include "core/engine.h"

typedef struct {
    ecc_ps_t lo;
    ecc_ps_t hi;
    int64_t packets; /* 0: no limit */
    ecc_bytes_t bytes;
} ecc_slots_spec_t;

typedef struct {
    ecc_ps_t opens;    /* opening time of the last slot */
    int64_t packets;   /* packets that may still leave in this slot */
    ecc_bytes_t bytes; /* bytes that may still leave in this slot */
} ecc_slots_t;

/* Departure of a packet that is ready at `ready`, no earlier than that of the packet before it. */
ecc_ps_t ecc_slots_out(ecc_slots_t *self, const ecc_slots_spec_t *spec, uint64_t *random, ecc_ps_t ready, int64_t size);

#endif
