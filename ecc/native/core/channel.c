/*
 * Impairments at work (S-93 to S-97, S-160): losses, slots, delay spikes, jitter, and packets that overtake each other.
 *
 * Not here: where a packet goes at the end of its channel (path.h, host.c).
 */

#include "core/channel.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/errors.h"
#include "core/random.h"

#define FIRST_ROOM 16u
#define MAX_ROOM (1u << 31)
#define TWO_PI 6.283185307179586

static void
draw_until_spike(ecc_channel_t *self)
{
    self->until_spike = ecc_random_between(&self->random, self->spec->spike_every_lo, self->spec->spike_every_hi);
}

void
ecc_channel_init(
    ecc_channel_t *self, const ecc_impairment_t *spec, const ecc_delay_change_t *delays, uint64_t seed, uint64_t stream)
{
    ecc_reordered_t *reordered = self->reordered;
    uint32_t room = self->room;

    memset(self, 0, sizeof(*self));
    self->reordered = reordered;
    self->room = room;
    self->spec = spec;
    self->delays = spec->n_delays > 0 ? delays + spec->first_delay : NULL;
    self->random = ecc_random_stream(seed, stream);
    if (spec->spike_every_hi > 0) {
        draw_until_spike(self);
    }
    if (spec->burst_kinds != 0) {
        double share = spec->burst_begins / (spec->burst_begins + spec->burst_ends);
        self->is_bad = ecc_random_next(&self->random) < share;
    }
}

void
ecc_channel_free(ecc_channel_t *self, ecc_memory_t *memory)
{
    void *block = self->reordered;

    ecc_memory_release(memory, self->room * sizeof(*self->reordered), &block);
    self->reordered = NULL;
    self->room = 0;
}

ecc_ps_t
ecc_channel_additional(const ecc_channel_t *self, ecc_ps_t now)
{
    int64_t lo = 0;
    int64_t hi = self->spec->n_delays;

    while (lo < hi) {
        int64_t k = lo + (hi - lo) / 2;
        if (self->delays[k].time <= now) {
            lo = k + 1;
        } else {
            hi = k;
        }
    }
    return lo > 0 ? self->delays[lo - 1].delay : 0;
}

/* S-94: whether a burst loses a packet; the state may change after it. */
static bool
is_in_burst(ecc_channel_t *self)
{
    const ecc_impairment_t *spec = self->spec;
    double probability = self->is_bad ? spec->burst_bad_loss : spec->burst_good_loss;
    bool lost = ecc_random_next(&self->random) < probability;

    if (ecc_random_next(&self->random) < (self->is_bad ? spec->burst_ends : spec->burst_begins)) {
        self->is_bad = !self->is_bad;
    }
    return lost;
}

bool
ecc_channel_loses(ecc_channel_t *self, enum ecc_packet_kind kind)
{
    double probability = kind == ECC_PACKET_ACK ? self->spec->ack_loss : self->spec->data_loss;
    bool lost = probability > 0.0 && ecc_random_next(&self->random) < probability;

    if ((self->spec->burst_kinds & (kind == ECC_PACKET_ACK ? 2 : 1)) != 0) {
        lost = is_in_burst(self) || lost;
    }
    return lost;
}

/*
 * S-96: jitter of the normal and the Pareto law. Uses log1p and expm1 because log and pow of a recent C library are not
 * found in older ones, on which a wheel must run.
 */
static ecc_ps_t
drawn_jitter(ecc_channel_t *self)
{
    const ecc_impairment_t *spec = self->spec;
    double logarithm = log1p(-ecc_random_next(&self->random)); /* at most 0 */
    double delay;

    if (spec->jitter_law == ECC_JITTER_PARETO) {
        return ecc_clock_round(spec->jitter_scale * (1.0 + expm1(-spec->jitter_spread * logarithm)));
    }
    delay = sqrt(-2.0 * logarithm) * cos(TWO_PI * ecc_random_next(&self->random));
    delay = spec->jitter_scale + spec->jitter_spread * delay;
    return delay > 0.0 ? ecc_clock_round(delay) : 0;
}

ecc_ps_t
ecc_channel_arrival(ecc_channel_t *self, ecc_ps_t now, ecc_ps_t delay, int64_t size)
{
    const ecc_impairment_t *spec = self->spec;
    ecc_ps_t out = now;

    if (spec->slot_hi > 0) {
        const ecc_slots_spec_t slots = { spec->slot_lo, spec->slot_hi, spec->slot_packets, spec->slot_bytes };
        out = ecc_slots_out(&self->slots, &slots, &self->random, now, size);
    }
    if (spec->spike_every_hi > 0) {
        ecc_ps_t service = spec->spike_between;
        if (--self->until_spike == 0) {
            service = ecc_random_between(&self->random, spec->spike_lo, spec->spike_hi);
            draw_until_spike(self);
        }
        out = self->free_at = ecc_clock_add(out > self->free_at ? out : self->free_at, service);
    }
    out = ecc_clock_add(out, delay);
    if (spec->n_delays > 0) {
        out = ecc_clock_add(out, ecc_channel_additional(self, now));
    }
    if (spec->jitter_hi > 0) {
        out = ecc_clock_add(out, ecc_random_between(&self->random, spec->jitter_lo, spec->jitter_hi));
    }
    if (spec->jitter_law != ECC_JITTER_UNIFORM) {
        out = ecc_clock_add(out, drawn_jitter(self));
    }
    if (spec->reorders == 0 && out < self->last_out) {
        out = self->last_out;
    }
    self->last_out = out;
    return out;
}

/* S-97: order of packets at the end of a channel. */
static bool
before(const ecc_reordered_t *a, const ecc_reordered_t *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static int
push(ecc_channel_t *self, ecc_memory_t *memory, ecc_reordered_t item)
{
    uint32_t k = self->n_reordered;

    if (k == self->room) {
        uint32_t room = k == 0 ? FIRST_ROOM : k * 2;
        void *block = self->reordered;
        int ret = k == MAX_ROOM
            ? ECC_ERR_TOO_LARGE
            : ecc_memory_extend(memory, k * sizeof(*self->reordered), room * sizeof(*self->reordered), &block);
        if (ret != 0) {
            return ret;
        }
        self->reordered = block;
        self->room = room;
    }
    self->n_reordered++;
    for (; k > 0 && before(&item, &self->reordered[(k - 1) / 2]); k = (k - 1) / 2) {
        self->reordered[k] = self->reordered[(k - 1) / 2];
    }
    self->reordered[k] = item;
    return 0;
}

int
ecc_channel_append(ecc_channel_t *self, ecc_memory_t *memory, ecc_packets_t *packets, ecc_fifo_t *fifo,
    ecc_calendar_t *calendar, uint32_t node, uint32_t packet, ecc_ps_t time)
{
    int ret;

    if (self->spec->reorders == 0) {
        if (ecc_packets_append(packets, fifo, packet, time)) {
            ecc_calendar_insert(calendar, node, time);
        }
        return 0;
    }
    ret = push(self, memory, (ecc_reordered_t) { time, self->n_joined++, packet });
    if (ret == 0 && self->reordered[0].packet == packet) {
        ecc_calendar_move(calendar, node, time);
    }
    return ret;
}

uint32_t
ecc_channel_pop(ecc_channel_t *self, ecc_calendar_t *calendar, uint32_t node)
{
    uint32_t packet = self->reordered[0].packet;
    ecc_reordered_t last = self->reordered[--self->n_reordered];
    uint32_t k = 0;

    for (uint32_t child = 1; child < self->n_reordered; child = 2 * k + 1) {
        if (child + 1 < self->n_reordered && before(&self->reordered[child + 1], &self->reordered[child])) {
            child++;
        }
        if (!before(&self->reordered[child], &last)) {
            break;
        }
        self->reordered[k] = self->reordered[child];
        k = child;
    }
    if (self->n_reordered > 0) {
        self->reordered[k] = last;
        ecc_calendar_insert(calendar, node, self->reordered[0].time);
    }
    return packet;
}

int
ecc_channel_verify(const ecc_channel_t *self)
{
    bool valid = self->n_reordered <= self->room;

    for (uint32_t k = 1; k < self->n_reordered && valid; k++) {
        valid = !before(&self->reordered[k], &self->reordered[(k - 1) / 2]);
    }
    return valid ? 0 : ECC_ERR_BROKEN;
}
