#ifndef ECC_SACKS_H
#define ECC_SACKS_H

/*
 * What ACKs report of data beyond a gap, up to three ranges each: few ACKs have any, so that packets only name theirs.
 */

#include "core/memory.h"
#include "core/ranges.h"

#define ECC_MAX_SACK_BLOCKS 3
#define ECC_NO_SACK UINT32_MAX

typedef struct {
    ecc_range_t blocks[ECC_MAX_SACK_BLOCKS]; /* those that it has not: empty */
} ecc_sack_t;

typedef struct {
    ecc_sack_t *items;
    uint32_t room;
    uint32_t n_used;
    uint32_t n_touched; /* the rest has never been used */
    uint32_t
        first_free; /* list of released entries, each with the next in `begin` of its first block, from 1; 0: none */
} ecc_sacks_t;

void ecc_sacks_free(ecc_sacks_t *self, ecc_memory_t *memory);

/* Pointers to others are valid until the next call. */
ECC_MUST_CHECK int ecc_sacks_allocate(ecc_sacks_t *self, ecc_memory_t *memory, uint32_t *sack);

/* A copy of one, ECC_NO_SACK if that is all zeros. */
ECC_MUST_CHECK int ecc_sacks_keep(ecc_sacks_t *self, ecc_memory_t *memory, const ecc_sack_t *from, uint32_t *sack);

/* Legal on ECC_NO_SACK. */
void ecc_sacks_release(ecc_sacks_t *self, uint32_t sack);

extern const ecc_sack_t ecc_sacks_none;

static inline const ecc_sack_t *
ecc_sacks_at(const ecc_sacks_t *self, uint32_t sack)
{
    return sack == ECC_NO_SACK ? &ecc_sacks_none : &self->items[sack];
}

#endif
