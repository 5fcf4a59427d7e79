#ifndef ECC_SEGMENTS_H
#define ECC_SEGMENTS_H

/* The segments that a transport of type 3 has sent and that are not yet acknowledged (S-144). */

#include "core/state.h"

#define ECC_SEGMENTS_NUMBERS ((uint32_t) INT32_MAX) /* numbers of segments count modulo 2^31 */

static inline int64_t
ecc_segments_end(const ecc_sent_t *segment)
{
    return segment->begin + segment->size;
}

/* The segment with a number. */
static inline ecc_sent_t *
ecc_segments_at(const ecc_rack_t *self, uint32_t number)
{
    return &self->items[number & (self->room - 1)];
}

/* Number of segments before it in the ring. */
static inline uint32_t
ecc_segments_place(const ecc_rack_t *self, uint32_t number)
{
    return (number - self->first) & ECC_SEGMENTS_NUMBERS;
}

/* The number of segment k of the ring. */
static inline uint32_t
ecc_segments_number(const ecc_rack_t *self, uint32_t k)
{
    return (self->first + k) & ECC_SEGMENTS_NUMBERS;
}

/* Segment k of the ring. */
static inline ecc_sent_t *
ecc_segments_in_place(const ecc_rack_t *self, uint32_t k)
{
    return &self->items[(self->first + k) & (self->room - 1)];
}

void ecc_segments_free(ecc_rack_t *self, ecc_memory_t *memory);

/* Puts a segment before another one in the list of those outstanding, or at its end (ECC_NO_SEGMENT); or removes it. */
void ecc_segments_insert(ecc_rack_t *self, uint32_t number, uint32_t after);
void ecc_segments_remove(ecc_rack_t *self, uint32_t number);

/* An outstanding segment is lost; or it is no longer lost. */
void ecc_segments_mark_lost(ecc_rack_t *self, uint32_t number);
void ecc_segments_unmark(ecc_rack_t *self, uint32_t number);

/* All lost segments are outstanding again. */
void ecc_segments_restore_lost(ecc_rack_t *self);

/* The place of the segment that contains a byte. */
uint32_t ecc_segments_find(const ecc_rack_t *self, int64_t byte);

/* A segment that is neither lost nor in the list is sacked. */
void ecc_segments_mark_sacked(ecc_rack_t *self, uint32_t number);

/* The first place from `k` on with a segment that is not sacked, or `count`. */
uint32_t ecc_segments_skip_sacked(ecc_rack_t *self, uint32_t k);

/* Removes the first segment of the stream, which is acknowledged. */
static inline void
ecc_segments_drop_first(ecc_rack_t *self)
{
    const ecc_sent_t *segment = ecc_segments_in_place(self, 0);

    self->n_sacked--;
    self->sacked_bytes -= segment->size;
    self->first = ecc_segments_number(self, 1);
    self->count--;
}

/* Doubles the room of the ring. */
ECC_MUST_CHECK int ecc_segments_grow(ecc_rack_t *self, ecc_memory_t *memory);

/* Puts a segment after all others of the stream. A reader appends all segments, then indexes them. */
ECC_MUST_CHECK static inline int
ecc_segments_append(ecc_rack_t *self, ecc_memory_t *memory, ecc_sent_t segment)
{
    if (self->count == self->room) {
        int ret = ecc_segments_grow(self, memory);
        if (ret != 0) {
            return ret;
        }
    }
    *ecc_segments_in_place(self, self->count++) = segment;
    return 0;
}

ECC_MUST_CHECK int ecc_segments_index(ecc_rack_t *self);

/* Whether list and heap agree with the states of segments, and have these lengths. */
bool ecc_segments_are_valid(const ecc_rack_t *self, uint32_t n_outstanding, uint32_t n_lost);

#endif
