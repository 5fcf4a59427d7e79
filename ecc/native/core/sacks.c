/* Memory of the SACK blocks of ACKs: an array that doubles, with a list of released entries. */

#include "core/sacks.h"

#include <string.h>

#include "core/errors.h"

#define FIRST_ROOM 16u

const ecc_sack_t ecc_sacks_none;

void
ecc_sacks_free(ecc_sacks_t *self, ecc_memory_t *memory)
{
    void *block = self->items;

    ecc_memory_release(memory, self->room * sizeof(*self->items), &block);
    *self = (ecc_sacks_t) { 0 };
}

static int
grow(ecc_sacks_t *self, ecc_memory_t *memory)
{
    uint32_t room = self->room == 0 ? FIRST_ROOM : 2 * self->room;
    void *block = self->items;
    int ret = ECC_ERR_TOO_LARGE;

    if (self->room < UINT32_MAX / 2) {
        ret = ecc_memory_extend(memory, self->room * sizeof(*self->items), room * sizeof(*self->items), &block);
    }
    if (ret == 0) {
        self->items = block;
        self->room = room;
    }
    return ret;
}

int
ecc_sacks_allocate(ecc_sacks_t *self, ecc_memory_t *memory, uint32_t *sack)
{
    int ret = 0;

    if (self->first_free != 0) {
        *sack = self->first_free - 1;
        self->first_free = (uint32_t) self->items[*sack].blocks[0].begin;
    } else {
        ret = self->n_touched == self->room ? grow(self, memory) : 0;
        *sack = ret == 0 ? self->n_touched++ : ECC_NO_SACK;
    }
    self->n_used += ret == 0;
    return ret;
}

int
ecc_sacks_keep(ecc_sacks_t *self, ecc_memory_t *memory, const ecc_sack_t *from, uint32_t *sack)
{
    int ret = 0;

    *sack = ECC_NO_SACK;
    if (memcmp(from, &ecc_sacks_none, sizeof(*from)) != 0) {
        ret = ecc_sacks_allocate(self, memory, sack);
    }
    if (*sack != ECC_NO_SACK) {
        self->items[*sack] = *from;
    }
    return ret;
}

void
ecc_sacks_release(ecc_sacks_t *self, uint32_t sack)
{
    if (sack != ECC_NO_SACK) {
        self->items[sack].blocks[0].begin = self->first_free;
        self->first_free = sack + 1;
        self->n_used--;
    }
}
