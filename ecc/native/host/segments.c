/*
 * The segments that a transport of type 3 has sent and that are not yet acknowledged (S-144).
 *
 * Segments are in a ring, in the order of the stream. Outstanding segments are also in a list, in the order of their
 * last transmission, so that an ACK visits only the segments that it makes overdue. Lost segments are in a heap with
 * the first of the stream at its top. A sacked segment leads to a later one, with none between them that is not sacked:
 * a search follows and shortens these paths (union-find; Tarjan and van Leeuwen 1984). The number of a segment stays the
 * same while it is in the ring, and counts modulo 2^31.
 *
 * Not here: which segments are lost (rack.c).
 *
 * Invariants: ecc_segments_are_valid.
 */

#include "host/segments.h"

#include <assert.h>
#include <string.h>

#define FIRST_ROOM 16u
#define MAX_ROOM (UINT32_C(1) << 30)

/* Bytes of a block with the ring, and the heap of lost segments behind it. */
static size_t
size_of(uint32_t room)
{
    return room * (sizeof(ecc_sent_t) + sizeof(uint32_t));
}

void
ecc_segments_free(ecc_rack_t *self, ecc_memory_t *memory)
{
    void *block = self->items;

    ecc_memory_release(memory, size_of(self->room), &block);
}

/* Puts a segment before another one, or at the end of the list (ECC_NO_SEGMENT). */
void
ecc_segments_insert(ecc_rack_t *self, uint32_t number, uint32_t after)
{
    ecc_sent_t *segment = ecc_segments_at(self, number);

    segment->after = after;
    segment->before = after == ECC_NO_SEGMENT ? self->newest : ecc_segments_at(self, after)->before;
    if (segment->before == ECC_NO_SEGMENT) {
        self->oldest = number;
    } else {
        ecc_segments_at(self, segment->before)->after = number;
    }
    if (after == ECC_NO_SEGMENT) {
        self->newest = number;
    } else {
        ecc_segments_at(self, after)->before = number;
    }
    segment->state = ECC_SENT_OUTSTANDING;
    self->in_flight += (int64_t) segment->size * (1 + segment->probes);
    self->repairs += segment->is_repair ? segment->size : 0;
}

void
ecc_segments_remove(ecc_rack_t *self, uint32_t number)
{
    ecc_sent_t *segment = ecc_segments_at(self, number);

    self->earlier = self->earlier == number ? segment->before : self->earlier;
    if (segment->before == ECC_NO_SEGMENT) {
        self->oldest = segment->after;
    } else {
        ecc_segments_at(self, segment->before)->after = segment->after;
    }
    if (segment->after == ECC_NO_SEGMENT) {
        self->newest = segment->before;
    } else {
        ecc_segments_at(self, segment->after)->before = segment->before;
    }
    self->in_flight -= (int64_t) segment->size * (1 + segment->probes);
    self->repairs -= segment->is_repair ? segment->size : 0;
    segment->probes = 0;
    segment->is_repair = false;
}

/* Whether entry i of the heap is before entry j in the stream. */
static bool
is_first(const ecc_rack_t *self, uint32_t i, uint32_t j)
{
    return ecc_segments_place(self, self->lost[i]) < ecc_segments_place(self, self->lost[j]);
}

static void
swap(ecc_rack_t *self, uint32_t i, uint32_t j)
{
    uint32_t number = self->lost[i];

    self->lost[i] = self->lost[j];
    self->lost[j] = number;
}

static void
push_lost(ecc_rack_t *self, uint32_t number)
{
    uint32_t i = self->n_lost++;

    assert(i < self->room);
    self->lost[i] = number;
    for (; i > 0 && is_first(self, i, (i - 1) / 2); i = (i - 1) / 2) {
        swap(self, i, (i - 1) / 2);
    }
}

static void
pop_lost(ecc_rack_t *self)
{
    uint32_t i = 0;

    self->lost[0] = self->lost[--self->n_lost];
    for (uint32_t child = 1; child < self->n_lost; child = 2 * i + 1) {
        child += child + 1 < self->n_lost && is_first(self, child + 1, child);
        if (!is_first(self, child, i)) {
            break;
        }
        swap(self, i, child);
        i = child;
    }
}

void
ecc_segments_mark_lost(ecc_rack_t *self, uint32_t number)
{
    ecc_segments_remove(self, number);
    ecc_segments_at(self, number)->state = ECC_SENT_LOST;
    self->lost_bytes += ecc_segments_at(self, number)->size;
    push_lost(self, number);
}

/*
 * A segment is no longer lost. Only the top of the heap must be lost: other delivered segments stay until they reach
 * it.
 */
void
ecc_segments_unmark(ecc_rack_t *self, uint32_t number)
{
    self->lost_bytes -= ecc_segments_at(self, number)->size;
    ecc_segments_at(self, number)->state = ECC_SENT_SACKED;
    while (self->n_lost > 0 && ecc_segments_at(self, self->lost[0])->state != ECC_SENT_LOST) {
        pop_lost(self);
    }
}

/* Sorts numbers of segments by their last transmission, in place, as a heap with the last one at its top. */
static void
sort_by_order(const ecc_rack_t *self, uint32_t *numbers, uint32_t n)
{
    for (uint32_t built = n / 2, left = n; left > 1;) {
        uint32_t number;
        uint32_t i;
        if (built > 0) {
            i = --built;
            number = numbers[i];
        } else {
            number = numbers[--left];
            numbers[left] = numbers[0];
            i = 0;
        }
        for (uint32_t child = 2 * i + 1; child < left; child = 2 * i + 1) {
            child += child + 1 < left
                && ecc_segments_at(self, numbers[child + 1])->order > ecc_segments_at(self, numbers[child])->order;
            if (ecc_segments_at(self, numbers[child])->order <= ecc_segments_at(self, number)->order) {
                break;
            }
            numbers[i] = numbers[child];
            i = child;
        }
        numbers[i] = number;
    }
}

/*
 * All lost segments are outstanding again. They were sent before the outstanding ones, except for the one that a
 * timeout found lost, so that the walk along the list is short; so is the second walk, over segments sent in the
 * recovery.
 */
void
ecc_segments_restore_lost(ecc_rack_t *self)
{
    uint32_t after = self->oldest;
    uint32_t n = 0;

    for (uint32_t i = 0; i < self->n_lost; i++) {
        if (ecc_segments_at(self, self->lost[i])->state == ECC_SENT_LOST) {
            self->lost[n++] = self->lost[i];
        }
    }
    sort_by_order(self, self->lost, n);
    for (uint32_t i = 0; i < n; i++) {
        while (after != ECC_NO_SEGMENT
            && ecc_segments_at(self, after)->order < ecc_segments_at(self, self->lost[i])->order) {
            after = ecc_segments_at(self, after)->after;
        }
        ecc_segments_insert(self, self->lost[i], after);
    }
    for (uint32_t number = self->newest; self->repairs > 0; number = ecc_segments_at(self, number)->before) {
        ecc_sent_t *segment = ecc_segments_at(self, number);
        self->repairs -= segment->is_repair ? segment->size : 0;
        segment->is_repair = false;
    }
    self->n_lost = 0;
    self->lost_bytes = 0;
}

void
ecc_segments_mark_sacked(ecc_rack_t *self, uint32_t number)
{
    ecc_sent_t *segment = ecc_segments_at(self, number);

    segment->state = ECC_SENT_SACKED;
    segment->after = (number + 1) & ECC_SEGMENTS_NUMBERS;
    self->n_sacked++;
    self->sacked_bytes += segment->size;
}

uint32_t
ecc_segments_skip_sacked(ecc_rack_t *self, uint32_t k)
{
    while (k < self->count) {
        ecc_sent_t *segment = ecc_segments_in_place(self, k);
        uint32_t next;
        if (segment->state != ECC_SENT_SACKED) {
            break;
        }
        next = ecc_segments_place(self, segment->after);
        if (next < self->count && ecc_segments_in_place(self, next)->state == ECC_SENT_SACKED) {
            segment->after = ecc_segments_in_place(self, next)->after;
            next = ecc_segments_place(self, segment->after);
        }
        k = next;
    }
    return k;
}

/* Most segments have the size of the first one, so that the place can be calculated. */
uint32_t
ecc_segments_find(const ecc_rack_t *self, int64_t byte)
{
    uint32_t low = 0;
    uint32_t high = self->count;

    if (self->count > 0) {
        const ecc_sent_t *first = ecc_segments_in_place(self, 0);
        uint64_t k = (uint64_t) (byte - first->begin) / (uint32_t) first->size;
        const ecc_sent_t *segment = k < self->count ? ecc_segments_in_place(self, (uint32_t) k) : first;
        if (segment->begin <= byte && byte < ecc_segments_end(segment)) {
            return (uint32_t) k;
        }
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ecc_segments_end(ecc_segments_in_place(self, middle)) > byte) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

ECC_COLD int
ecc_segments_grow(ecc_rack_t *self, ecc_memory_t *memory)
{
    uint32_t room = self->room == 0 ? FIRST_ROOM : 2 * self->room;
    void *block = NULL;
    ecc_sent_t *items;
    int ret;

    ret = self->room >= MAX_ROOM ? ECC_ERR_TOO_LARGE : ecc_memory_resize(memory, 0, size_of(room), &block);
    if (ret != 0) {
        return ret;
    }
    items = block;
    for (uint32_t k = 0; k < self->count; k++) {
        items[(self->first + k) & (room - 1)] = *ecc_segments_in_place(self, k);
    }
    if (self->n_lost > 0) {
        memcpy(items + room, self->lost, self->n_lost * sizeof(*self->lost));
    }
    block = self->items;
    ecc_memory_release(memory, size_of(self->room), &block);
    self->items = items;
    self->lost = (uint32_t *) (void *) (items + room);
    self->room = room;
    return 0;
}

int
ecc_segments_index(ecc_rack_t *self)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < self->count; k++) {
        if (ecc_segments_in_place(self, k)->state != ECC_SENT_SACKED) {
            self->lost[n++] = ecc_segments_number(self, k);
        }
    }
    sort_by_order(self, self->lost, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && ecc_segments_at(self, self->lost[i])->order <= ecc_segments_at(self, self->lost[i - 1])->order) {
            return ECC_ERR_BROKEN;
        }
        if (ecc_segments_at(self, self->lost[i])->state == ECC_SENT_OUTSTANDING) {
            ecc_segments_insert(self, self->lost[i], ECC_NO_SEGMENT);
        }
    }
    for (uint32_t k = 0; k < self->count; k++) {
        const ecc_sent_t *segment = ecc_segments_in_place(self, k);
        if (segment->state == ECC_SENT_LOST) {
            push_lost(self, ecc_segments_number(self, k));
            self->lost_bytes += segment->size;
        }
        if (segment->state == ECC_SENT_SACKED) {
            ecc_segments_mark_sacked(self, ecc_segments_number(self, k));
        }
    }
    return 0;
}

/* The list of outstanding segments is in the order of their transmissions, and `earlier` is in it. */
static bool
list_is_valid(const ecc_rack_t *self, uint32_t n)
{
    uint32_t before = ECC_NO_SEGMENT;
    uint32_t number = self->oldest;
    bool has_earlier = self->earlier == ECC_NO_SEGMENT;
    bool valid = true;

    for (; number != ECC_NO_SEGMENT && valid && n > 0; n--) {
        const ecc_sent_t *segment = ecc_segments_at(self, number);
        const ecc_sent_t *other = before == ECC_NO_SEGMENT ? NULL : ecc_segments_at(self, before);
        valid = ecc_segments_place(self, number) < self->count && segment->state == ECC_SENT_OUTSTANDING
            && segment->before == before && segment->order < self->n_transmissions
            && (other == NULL || (segment->order > other->order && segment->sent >= other->sent));
        has_earlier = has_earlier || number == self->earlier;
        before = number;
        number = segment->after;
    }
    return valid && n == 0 && number == ECC_NO_SEGMENT && self->newest == before && has_earlier
        && (self->earlier == ECC_NO_SEGMENT || ecc_segments_at(self, self->earlier)->order < self->order);
}

/* The heap has each lost segment once, and the first of them at its top. */
static bool
heap_is_valid(const ecc_rack_t *self, uint32_t n)
{
    bool valid = self->n_lost <= self->room
        && (self->n_lost == 0 || ecc_segments_at(self, self->lost[0])->state == ECC_SENT_LOST);

    for (uint32_t i = 0; i < self->n_lost && valid; i++) {
        valid = ecc_segments_place(self, self->lost[i]) < self->count && (i == 0 || is_first(self, (i - 1) / 2, i));
        n -= ecc_segments_at(self, self->lost[i])->state == ECC_SENT_LOST;
    }
    return valid && n == 0;
}

bool
ecc_segments_are_valid(const ecc_rack_t *self, uint32_t n_outstanding, uint32_t n_lost)
{
    return list_is_valid(self, n_outstanding) && heap_is_valid(self, n_lost);
}
