/*
 * Values to bytes and back: numbers with their bounds, counts, and times of nodes.
 *
 * Not here: what is in a checkpoint and in which order (checkpoint.c, lists.c).
 */

#include "core/archive.h"

#include <math.h>
#include <string.h>

void
ecc_archive_move(ecc_archive_t *self, void *data, size_t size)
{
    ecc_archive_require(self, size <= self->size - self->at);
    if (self->ret != 0 || size == 0) {
        return;
    }
    if (self->from != NULL) {
        memcpy(data, self->from + self->at, size);
    } else if (self->to != NULL) {
        memcpy(self->to + self->at, data, size);
    }
    self->at += size;
}

void
ecc_archive_whole(ecc_archive_t *self, int64_t *value, int64_t lo, int64_t hi)
{
    ECC_ARCHIVE_MOVE(self, *value);
    ecc_archive_require(self, lo <= *value && *value <= hi);
}

void
ecc_archive_int(ecc_archive_t *self, int32_t *value, int64_t lo, int64_t hi)
{
    ECC_ARCHIVE_MOVE(self, *value);
    ecc_archive_require(self, lo <= *value && *value <= hi);
}

void
ecc_archive_byte(ecc_archive_t *self, uint8_t *value, uint8_t hi)
{
    ECC_ARCHIVE_MOVE(self, *value);
    ecc_archive_require(self, *value <= hi);
}

void
ecc_archive_index(ecc_archive_t *self, uint32_t *value, uint32_t bound)
{
    ECC_ARCHIVE_MOVE(self, *value);
    ecc_archive_require(self, *value < bound);
}

bool
ecc_archive_flag(ecc_archive_t *self, bool value)
{
    uint8_t byte = value;

    ecc_archive_byte(self, &byte, 1);
    return byte != 0;
}

void
ecc_archive_real(ecc_archive_t *self, double *value)
{
    ECC_ARCHIVE_MOVE(self, *value);
    ecc_archive_require(self, isfinite(*value) && *value >= 0.0);
}

uint32_t
ecc_archive_count(ecc_archive_t *self, size_t count, size_t bytes)
{
    uint32_t n = (uint32_t) count;

    ecc_archive_require(self, count < UINT32_MAX);
    ECC_ARCHIVE_MOVE(self, n);
    ecc_archive_require(self, n <= (self->size - self->at) / bytes);
    return self->ret == 0 ? n : 0;
}

void
ecc_archive_make_room(ecc_archive_t *self, ecc_memory_t *memory, size_t item, size_t n, size_t *room, void **block)
{
    if (ecc_archive_reads(self) && n > *room) {
        self->ret = ecc_memory_resize(memory, *room * item, n * item, block);
        *room = self->ret == 0 ? n : *room;
    }
}

void
ecc_archive_node(ecc_archive_t *self, ecc_ps_t now, ecc_calendar_t *calendar, uint32_t node, bool may_be)
{
    ecc_ps_t time = calendar->nodes[node].time;

    ECC_ARCHIVE_MOVE(self, time);
    ecc_archive_require(self, time == ECC_NOT_PENDING || (may_be && time >= now && time <= ECC_NEVER));
    if (ecc_archive_reads(self)) {
        ecc_calendar_cancel(calendar, node);
        if (time != ECC_NOT_PENDING) {
            ecc_calendar_insert(calendar, node, time);
        }
    }
}
