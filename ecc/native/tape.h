#ifndef ECC_TAPE_H
#define ECC_TAPE_H

/*
 * Where state is written to or read from: every function moves a value either way, and checks it both ways, so that what
 * could not be read is not written. After the first failure nothing moves any more; `ret` has its code.
 */

#include "state.h"

#define ECC_TAPE_MOST (INT64_MAX / 4) /* of a counter: whatever a run adds to it fits */

typedef struct {
    unsigned char *to;         /* NULL: bytes are only counted */
    const unsigned char *from; /* NULL: written or counted */
    size_t size;
    size_t at;
    int64_t *arrived; /* when it is read, by flow: bytes at the receiver or on their way to it */
    size_t n_arrived;
    int ret;
} ecc_tape_t;

static inline bool
ecc_tape_reads(const ecc_tape_t *self)
{
    return self->from != NULL && self->ret == 0;
}

static inline void
ecc_tape_require(ecc_tape_t *self, bool holds)
{
    if (self->ret == 0 && !holds) {
        self->ret = ECC_ERR_CHECKPOINT;
    }
}

void ecc_tape_move(ecc_tape_t *self, void *data, size_t size);

#define ECC_TAPE_MOVE(tape, field) ecc_tape_move(tape, &(field), sizeof(field))

/* Whole numbers from lo to hi. */
void ecc_tape_whole(ecc_tape_t *self, int64_t *value, int64_t lo, int64_t hi);
void ecc_tape_int(ecc_tape_t *self, int32_t *value, int64_t lo, int64_t hi);
void ecc_tape_byte(ecc_tape_t *self, uint8_t *value, uint8_t hi);

/* A number below a bound. */
void ecc_tape_index(ecc_tape_t *self, uint32_t *value, uint32_t bound);

/* Returns the value that is there. */
bool ecc_tape_flag(ecc_tape_t *self, bool value);

/* A number that is finite and >= 0. */
void ecc_tape_real(ecc_tape_t *self, double *value);

/*
 * How many items follow, each of at least so many bytes (what is read cannot ask for much more memory than it has
 * itself); 0 after a failure.
 */
uint32_t ecc_tape_count(ecc_tape_t *self, size_t count, size_t bytes);

/* Room for n items to read, where there is room for *room. */
void ecc_tape_make_room(ecc_tape_t *self, ecc_memory_t *memory, size_t item, size_t n, size_t *room, void **block);

/* The time of a node, from `now` on; it may be pending only if `may`. */
void ecc_tape_node(ecc_tape_t *self, ecc_ps_t now, ecc_calendar_t *calendar, uint32_t node, bool may);

#endif
