/* Crossings that wait until they are due. */

#include "wire/waiting.h"

#include <stdbool.h>
#include <string.h>

#include "core/errors.h"

#define FIRST_ROOM 256u

void
ecc_waiting_init(ecc_waiting_t *self, size_t crossing_size)
{
    *self = (ecc_waiting_t) { .size = crossing_size };
}

void
ecc_waiting_free(ecc_waiting_t *self, ecc_memory_t *memory)
{
    void *heap = self->heap;
    void *slots = self->slots;

    ecc_memory_release(memory, self->room * sizeof(*self->heap), &heap);
    ecc_memory_release(memory, self->room * self->size, &slots);
    ecc_waiting_init(self, self->size);
}

static int
grow(ecc_waiting_t *self, ecc_memory_t *memory)
{
    uint32_t room = self->room > 0 ? 2 * self->room : FIRST_ROOM;
    void *heap = self->heap;
    void *slots = self->slots;
    int ret;

    if (room < self->room) {
        return ECC_ERR_TOO_LARGE;
    }
    ret = ecc_memory_resize(memory, self->room * self->size, room * self->size, &slots);
    if (ret != 0) {
        return ret;
    }
    self->slots = slots;
    ret = ecc_memory_resize(memory, self->room * sizeof(*self->heap), room * sizeof(*self->heap), &heap);
    if (ret != 0) { /* back to what `room` says */
        ecc_memory_release(memory, room * self->size, &slots);
        self->slots = NULL;
        ecc_memory_release(memory, self->room * sizeof(*self->heap), &heap);
        ecc_waiting_init(self, self->size);
        return ret;
    }
    self->heap = heap;
    for (uint32_t i = self->room; i < room; i++) {
        self->heap[i].slot = i;
    }
    self->room = room;
    return 0;
}

static bool
is_before(const ecc_due_t *a, const ecc_due_t *b)
{
    return a->time < b->time || (a->time == b->time && a->number < b->number);
}

int
ecc_waiting_push(ecc_waiting_t *self, ecc_memory_t *memory, ecc_ps_t time, uint32_t port, const unsigned char *crossing)
{
    ecc_due_t due;
    uint32_t at;

    if (self->n == self->room) {
        int ret = grow(self, memory);
        if (ret != 0) {
            return ret;
        }
    }
    at = self->n++;
    due = (ecc_due_t) { time, self->n_pushed++, self->heap[at].slot, port };
    memcpy(self->slots + due.slot * self->size, crossing, self->size);
    while (at > 0 && is_before(&due, &self->heap[(at - 1) / 2])) {
        self->heap[at] = self->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    self->heap[at] = due;
    return 0;
}

const unsigned char *
ecc_waiting_pop(ecc_waiting_t *self, uint32_t *port)
{
    ecc_due_t first = self->heap[0];
    ecc_due_t last = self->heap[self->n - 1];
    uint32_t at = 0;
    uint32_t n = --self->n;

    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) {
            break;
        }
        child += child + 1 < n && is_before(&self->heap[child + 1], &self->heap[child]);
        if (!is_before(&self->heap[child], &last)) {
            break;
        }
        self->heap[at] = self->heap[child];
        at = child;
    }
    self->heap[at] = last;
    self->heap[n].slot = first.slot; /* free again */
    *port = first.port;
    return self->slots + first.slot * self->size;
}
