#include "impairment.h"

#include <string.h>

#include "errors.h"
#include "random.h"
#include "state.h"

#define FIRST_ROOM 16u
#define MOST_ROOM (1u << 31)

static void
await_spike(ecc_impaired_t *self)
{
    self->until_spike = ecc_random_between(&self->random, self->is.spike_every_lo, self->is.spike_every_hi);
}

void
ecc_impairment_init(ecc_impaired_t *self, const ecc_impairment_t *is, uint64_t seed, uint64_t stream)
{
    ecc_late_t *late = self->late;
    uint32_t room = self->room;

    memset(self, 0, sizeof(*self));
    self->late = late;
    self->room = room;
    self->is = *is;
    self->random = ecc_random_stream(seed, stream);
    if (is->spike_every_hi > 0) {
        await_spike(self);
    }
}

void
ecc_impairment_free(ecc_impaired_t *self, ecc_memory_t *memory)
{
    void *block = self->late;

    ecc_memory_release(memory, self->room * sizeof(*self->late), &block);
    self->late = NULL;
    self->room = 0;
}

bool
ecc_impairment_loses(ecc_impaired_t *self, int kind)
{
    double probability = kind == 0 ? self->is.data_loss : self->is.ack_loss;
    return probability > 0.0 && ecc_random_next(&self->random) < probability;
}

ecc_ps_t
ecc_impairment_passes(ecc_impaired_t *self, ecc_ps_t now, ecc_ps_t delay)
{
    const ecc_impairment_t *is = &self->is;
    ecc_ps_t out = now;

    if (is->spike_every_hi > 0) {
        ecc_ps_t takes = is->spike_between;
        if (--self->until_spike == 0) {
            takes = ecc_random_between(&self->random, is->spike_lo, is->spike_hi);
            await_spike(self);
        }
        out = self->free_at = ecc_state_add(now > self->free_at ? now : self->free_at, takes);
    }
    out = ecc_state_add(out, delay);
    if (is->jitter_hi > 0) {
        out = ecc_state_add(out, ecc_random_between(&self->random, is->jitter_lo, is->jitter_hi));
    }
    if (is->reorders == 0 && out < self->last_out) {
        out = self->last_out;
    }
    self->last_out = out;
    return out;
}

static bool
before(const ecc_late_t *a, const ecc_late_t *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static int
append_late(ecc_impaired_t *self, ecc_memory_t *memory, ecc_late_t item)
{
    uint32_t k = self->n_late;

    if (k == self->room) {
        uint32_t room = k == 0 ? FIRST_ROOM : k * 2;
        void *block = self->late;
        int ret = k == MOST_ROOM
            ? ECC_ERR_TOO_LARGE
            : ecc_memory_resize(memory, k * sizeof(*self->late), room * sizeof(*self->late), &block);
        if (ret != 0) {
            return ret;
        }
        self->late = block;
        self->room = room;
    }
    self->n_late++;
    for (; k > 0 && before(&item, &self->late[(k - 1) / 2]); k = (k - 1) / 2) {
        self->late[k] = self->late[(k - 1) / 2];
    }
    self->late[k] = item;
    return 0;
}

int
ecc_impairment_append(ecc_impaired_t *self, ecc_memory_t *memory, ecc_packets_t *packets, ecc_fifo_t *fifo,
    ecc_calendar_t *calendar, uint32_t node, uint32_t packet, ecc_ps_t time)
{
    if (self->is.reorders == 0) {
        if (ecc_packets_append(packets, fifo, packet, time)) {
            ecc_calendar_insert(calendar, node, time);
        }
        return 0;
    }
    int ret = append_late(self, memory, (ecc_late_t) { time, self->n_joined++, packet });
    if (ret == 0 && self->late[0].packet == packet) {
        ecc_calendar_move(calendar, node, time);
    }
    return ret;
}

uint32_t
ecc_impairment_take_late(ecc_impaired_t *self, ecc_calendar_t *calendar, uint32_t node)
{
    uint32_t packet = self->late[0].packet;
    ecc_late_t last = self->late[--self->n_late];
    uint32_t k = 0;

    for (uint32_t child = 1; child < self->n_late; child = 2 * k + 1) {
        if (child + 1 < self->n_late && before(&self->late[child + 1], &self->late[child])) {
            child++;
        }
        if (!before(&self->late[child], &last)) {
            break;
        }
        self->late[k] = self->late[child];
        k = child;
    }
    if (self->n_late > 0) {
        self->late[k] = last;
        ecc_calendar_insert(calendar, node, self->late[0].time);
    }
    return packet;
}

int
ecc_impairment_verify(const ecc_impaired_t *self)
{
    bool fine = self->n_late <= self->room;

    for (uint32_t k = 1; k < self->n_late && fine; k++) {
        fine = !before(&self->late[k], &self->late[(k - 1) / 2]);
    }
    return fine ? 0 : ECC_ERR_BROKEN;
}
