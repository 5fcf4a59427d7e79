#ifndef ECC_SACKS_H
#define ECC_SACKS_H

/* SACK blocks of ACKs, up to three each. Few ACKs have any, so that packets only hold an index. */

#include "core/memory.h"
#include "core/ranges.h"

#define ECC_MAX_SACK_BLOCKS 3
#define ECC_NO_SACK UINT32_MAX

typedef struct {
    ecc_range_t blocks[ECC_MAX_SACK_BLOCKS]; /* blocks; unused ones are empty */
} ecc_sack_t;

typedef struct {
    ecc_sack_t *items;
    uint32_t room;
    uint32_t n_used;
    uint32_t n_touched; /* entries ever used; the rest is untouched */
    uint32_t
        first_free; /* list of released entries, each with the next in `begin` of its first block, from 1; 0: none */
} ecc_sacks_t;

void ecc_sacks_free(ecc_sacks_t *self, ecc_memory_t *memory);

/* Allocates an entry; pointers to entries are valid until the next call. */
ECC_MUST_CHECK int ecc_sacks_allocate(ecc_sacks_t *self, ecc_memory_t *memory, uint32_t *sack);

/* Stores a copy of an entry; ECC_NO_SACK if it is all zeros. */
ECC_MUST_CHECK int ecc_sacks_keep(ecc_sacks_t *self, ecc_memory_t *memory, const ecc_sack_t *from, uint32_t *sack);

/* Releases an entry; legal on ECC_NO_SACK. */
void ecc_sacks_release(ecc_sacks_t *self, uint32_t sack);

extern const ecc_sack_t ecc_sacks_none;

static inline const ecc_sack_t *
ecc_sacks_at(const ecc_sacks_t *self, uint32_t sack)
{
    return sack == ECC_NO_SACK ? &ecc_sacks_none : &self->items[sack];
}

#endif
