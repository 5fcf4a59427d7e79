#ifndef ECC_ARCHIVE_H
#define ECC_ARCHIVE_H

/*
 * Bytes that state is written to or read from: every function moves a value in either direction, and checks it in both,
 * so that what could not be read is not written. After the first failure nothing moves any more; `ret` has its code.
 */

#include "core/state.h"

#define ECC_ARCHIVE_MAX (INT64_MAX / 4) /* maximum of a counter: what a run adds to it cannot overflow */

typedef struct {
    unsigned char *to;         /* destination; NULL: bytes are only counted */
    const unsigned char *from; /* source; NULL: bytes are written or counted */
    size_t size;
    size_t at;
    int64_t *arrived; /* in reading, by flow: bytes at the receiver or on their way to it */
    size_t n_arrived;
    int ret;
} ecc_archive_t;

static inline bool
ecc_archive_reads(const ecc_archive_t *self)
{
    return self->from != NULL && self->ret == 0;
}

/* Not the opposite of the function above: after a failure both are false, as there is no value to look at. */
static inline bool
ecc_archive_writes(const ecc_archive_t *self)
{
    return self->from == NULL && self->ret == 0;
}

static inline void
ecc_archive_require(ecc_archive_t *self, bool holds)
{
    if (self->ret == 0 && !holds) {
        self->ret = ECC_ERR_CHECKPOINT;
    }
}

void ecc_archive_move(ecc_archive_t *self, void *data, size_t size);

#define ECC_ARCHIVE_MOVE(archive, field) ecc_archive_move(archive, &(field), sizeof(field))

/* Moves a whole number from lo to hi. */
void ecc_archive_whole(ecc_archive_t *self, int64_t *value, int64_t lo, int64_t hi);
void ecc_archive_int(ecc_archive_t *self, int32_t *value, int64_t lo, int64_t hi);
void ecc_archive_byte(ecc_archive_t *self, uint8_t *value, uint8_t hi);

/* Moves a number below a bound. */
void ecc_archive_index(ecc_archive_t *self, uint32_t *value, uint32_t bound);

/* Returns the value in the archive. */
bool ecc_archive_flag(ecc_archive_t *self, bool value);

/* Moves a finite number >= 0. */
void ecc_archive_real(ecc_archive_t *self, double *value);

/*
 * Number of items that follow, each of at least `bytes` bytes, so that a small file cannot ask for much memory; 0
 * after a failure.
 */
uint32_t ecc_archive_count(ecc_archive_t *self, size_t count, size_t bytes);

/* Makes room for n items that are read, if *room is smaller. */
void ecc_archive_make_room(
    ecc_archive_t *self, ecc_memory_t *memory, size_t item, size_t n, size_t *room, void **block);

/* Moves the time of a node, `now` or later; the node may be pending only if `may_be`. */
void ecc_archive_node(ecc_archive_t *self, ecc_ps_t now, ecc_calendar_t *calendar, uint32_t node, bool may_be);

#endif
