#include "tape.h"

#include <math.h>
#include <string.h>

void
ecc_tape_move(ecc_tape_t *self, void *data, size_t size)
{
    ecc_tape_require(self, size <= self->size - self->at);
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
ecc_tape_whole(ecc_tape_t *self, int64_t *value, int64_t lo, int64_t hi)
{
    ECC_TAPE_MOVE(self, *value);
    ecc_tape_require(self, lo <= *value && *value <= hi);
}

void
ecc_tape_int(ecc_tape_t *self, int32_t *value, int64_t lo, int64_t hi)
{
    ECC_TAPE_MOVE(self, *value);
    ecc_tape_require(self, lo <= *value && *value <= hi);
}

void
ecc_tape_byte(ecc_tape_t *self, uint8_t *value, uint8_t hi)
{
    ECC_TAPE_MOVE(self, *value);
    ecc_tape_require(self, *value <= hi);
}

void
ecc_tape_index(ecc_tape_t *self, uint32_t *value, uint32_t bound)
{
    ECC_TAPE_MOVE(self, *value);
    ecc_tape_require(self, *value < bound);
}

bool
ecc_tape_flag(ecc_tape_t *self, bool value)
{
    uint8_t byte = value;

    ecc_tape_byte(self, &byte, 1);
    return byte != 0;
}

void
ecc_tape_real(ecc_tape_t *self, double *value)
{
    ECC_TAPE_MOVE(self, *value);
    ecc_tape_require(self, isfinite(*value) && *value >= 0.0);
}

uint32_t
ecc_tape_count(ecc_tape_t *self, size_t count, size_t bytes)
{
    uint32_t n = (uint32_t) count;

    ecc_tape_require(self, count < UINT32_MAX);
    ECC_TAPE_MOVE(self, n);
    ecc_tape_require(self, n <= (self->size - self->at) / bytes);
    return self->ret == 0 ? n : 0;
}

void
ecc_tape_make_room(ecc_tape_t *self, ecc_memory_t *memory, size_t item, size_t n, size_t *room, void **block)
{
    if (ecc_tape_reads(self) && n > *room) {
        self->ret = ecc_memory_resize(memory, *room * item, n * item, block);
        *room = self->ret == 0 ? n : *room;
    }
}

void
ecc_tape_node(ecc_tape_t *self, ecc_ps_t now, ecc_calendar_t *calendar, uint32_t node, bool may)
{
    ecc_ps_t time = calendar->nodes[node].time;

    ECC_TAPE_MOVE(self, time);
    ecc_tape_require(self, time == ECC_IDLE || (may && time >= now && time <= ECC_NEVER));
    if (ecc_tape_reads(self)) {
        ecc_calendar_cancel(calendar, node);
        if (time != ECC_IDLE) {
            ecc_calendar_insert(calendar, node, time);
        }
    }
}
