#ifndef ECC_CALENDAR_H
#define ECC_CALENDAR_H

/*
 * A calendar queue of nodes that are known by number: one node has at most one time. Order: (time, number).
 *
 * A bucket holds the nodes of a stretch of 2^shift ps (a day), sorted; days that are n_buckets apart share a bucket.
 * Two levels of bits tell which buckets hold anything. The width follows the mean time between events. All memory is
 * taken at the start: nothing can fail later.
 */

#include <stdbool.h>

#include "memory.h"

#define ECC_NO_NODE UINT32_MAX
#define ECC_IDLE INT64_C(-1)

typedef struct {
    ecc_ps_t time; /* ECC_IDLE: not in the calendar */
    uint32_t next;
    uint32_t prev;
} ecc_node_t;

typedef struct {
    ecc_ps_t time; /* of the head */
    uint32_t head;
    uint32_t tail;
} ecc_bucket_t;

typedef struct {
    ecc_ps_t first_time; /* ECC_NEVER if first is ECC_NO_NODE */
    uint32_t first;      /* the next node if known, else ECC_NO_NODE */
    int shift;
    ecc_node_t *nodes;
    ecc_bucket_t *buckets;
    uint64_t *occupied; /* a bit a bucket */
    uint64_t *summary;  /* a bit a word of occupied */
    ecc_ps_t clock;     /* time of the last node taken */
    ecc_ps_t epoch;     /* clock at the last look at the width */
    uint32_t n_buckets; /* a power of two */
    uint32_t n_nodes;
    uint32_t n_pending;
    uint32_t n_taken; /* since the epoch */
    uint32_t effort;  /* nodes walked over and buckets looked at in vain, since the epoch */
    uint32_t patience;
} ecc_calendar_t;

ECC_MUST_CHECK int ecc_calendar_init(ecc_calendar_t *self, ecc_memory_t *memory, uint32_t n_nodes);
void ecc_calendar_free(ecc_calendar_t *self, ecc_memory_t *memory);
ECC_MUST_CHECK int ecc_calendar_verify(const ecc_calendar_t *self);

/* Times are never before the last node taken. */
void ecc_calendar_insert(ecc_calendar_t *self, uint32_t node, ecc_ps_t time);
void ecc_calendar_remove(ecc_calendar_t *self, uint32_t node);

/* Finds the first node: `first` and `first_time` hold it until the next change. */
void ecc_calendar_find(ecc_calendar_t *self);

/* Takes the first node, which must have been found. */
uint32_t ecc_calendar_take(ecc_calendar_t *self);

static inline bool
ecc_calendar_pending(const ecc_calendar_t *self, uint32_t node)
{
    return self->nodes[node].time != ECC_IDLE;
}

static inline void
ecc_calendar_cancel(ecc_calendar_t *self, uint32_t node)
{
    if (ecc_calendar_pending(self, node)) {
        ecc_calendar_remove(self, node);
    }
}

static inline void
ecc_calendar_move(ecc_calendar_t *self, uint32_t node, ecc_ps_t time)
{
    if (self->nodes[node].time != time) {
        ecc_calendar_cancel(self, node);
        ecc_calendar_insert(self, node, time);
    }
}

#endif
