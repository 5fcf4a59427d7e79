#include "state.h"

#include <string.h>

#include "pool.h"

/*
 * All that changes in an engine as bytes, and back into a new engine of the same configuration. Pointers are never taken
 * from there: those of the new engine stay. Arrays and records that belong to the caller are the caller's to keep.
 */

/* Where state is written to or read from; a pass over an engine does either, so that both agree. */
typedef struct {
    unsigned char *to;         /* NULL: bytes are only counted */
    const unsigned char *from; /* NULL: written or counted */
    size_t size;
    size_t at;
    int ret;
} tape_t;

static bool
reads(const tape_t *tape)
{
    return tape->from != NULL;
}

static void
move(tape_t *tape, void *data, size_t size)
{
    if (tape->ret != 0 || size == 0) {
        return;
    }
    if (size > tape->size - tape->at) {
        tape->ret = ECC_ERR_CHECKPOINT;
        return;
    }
    if (tape->from != NULL) {
        memcpy(data, tape->from + tape->at, size);
    } else if (tape->to != NULL) {
        memcpy(tape->to + tape->at, data, size);
    }
    tape->at += size;
}

#define MOVE(tape, field) move(tape, &(field), sizeof(field))

/* A block of n items, made as wide as need be. */
static void
move_block(tape_t *tape, ecc_engine_t *self, size_t item, size_t n, size_t *room, void **block)
{
    if (tape->ret == 0 && reads(tape) && n > *room) {
        tape->ret = n > (tape->size - tape->at) / item
            ? ECC_ERR_CHECKPOINT
            : ecc_memory_resize(&self->memory, *room * item, n * item, block);
        if (tape->ret == 0) {
            *room = n;
        }
    }
    move(tape, *block, n * item);
}

/* What the engine was made of: a checkpoint fits no other. */
static void
move_layout(tape_t *tape, const ecc_engine_t *self)
{
    const uint64_t ours[] = { UINT64_C(0x31706b6363636565), sizeof(*self), sizeof(ecc_link_state_t),
        sizeof(ecc_flow_state_t), sizeof(ecc_receiver_t), sizeof(ecc_transport_t), sizeof(ecc_packet_t),
        sizeof(ecc_transfer_result_t), sizeof(ecc_waiting_t),
        self->packets.stride, self->n_links, self->n_routers, self->n_flows, self->pool.n_templates,
        self->pool.record_size, self->pool.first_hop, self->pool.longest, self->n_impairments, self->n_changes,
        self->wants_flow_queues, self->wants_receivers,
        self->wants_transports, self->wants_stops, self->wants_timers, self->seed, (uint64_t) self->samples.period,
        (uint64_t) self->samples.n_samples };
    uint64_t found[sizeof(ours) / sizeof(*ours)];

    memcpy(found, ours, sizeof(ours));
    move(tape, found, sizeof(found));
    if (tape->ret == 0 && memcmp(found, ours, sizeof(ours)) != 0) {
        tape->ret = ECC_ERR_CHECKPOINT;
    }
}

static void
move_room(tape_t *tape, ecc_engine_t *self)
{
    uint32_t room = self->room;

    MOVE(tape, room);
    if (tape->ret == 0 && room > self->room) {
        tape->ret = room > ECC_MOST_ENTITIES ? ECC_ERR_CHECKPOINT : ecc_pool_make_room(self, room);
    }
}

static void
move_packets(tape_t *tape, ecc_engine_t *self)
{
    ecc_packets_t *packets = &self->packets;
    uint32_t n_touched = packets->n_touched;

    MOVE(tape, n_touched);
    while (tape->ret == 0 && packets->capacity < n_touched) {
        tape->ret = ecc_packets_grow(packets, &self->memory);
    }
    packets->n_touched = tape->ret == 0 ? n_touched : packets->n_touched;
    MOVE(tape, packets->n_used);
    MOVE(tape, packets->unused);
    move(tape, packets->base, packets->stride * packets->n_touched);
}

static void
move_impaired(tape_t *tape, ecc_engine_t *self, ecc_impaired_t *impaired)
{
    ecc_late_t *late = impaired->late;
    uint32_t had = impaired->room;
    size_t room = had;
    void *block = late;

    MOVE(tape, *impaired);
    impaired->late = late;
    impaired->room = had;
    move_block(tape, self, sizeof(*late), impaired->n_late, &room, &block);
    impaired->late = block;
    impaired->room = (uint32_t) room;
}

static void
move_links(tape_t *tape, ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_routers; i++) {
        ecc_link_state_t *link = &self->links[i];
        ecc_link_state_t was = *link;
        uint32_t count = link->ring.count;
        MOVE(tape, count);
        for (uint32_t k = 0; k < count && tape->ret == 0; k++) {
            ecc_queued_t item = reads(tape) ? (ecc_queued_t) { 0 } : *ecc_ring_at(&link->ring, k);
            MOVE(tape, item);
            if (reads(tape) && tape->ret == 0) {
                tape->ret = ecc_ring_append(&link->ring, &self->memory, item);
            }
        }
        was.ring = link->ring;
        MOVE(tape, *link);
        link->ring = was.ring;
        link->histogram = was.histogram;
        link->impaired = was.impaired;
        link->changes = was.changes;
        link->is = was.is;
        if (link->impaired != NULL) {
            move_impaired(tape, self, link->impaired);
        }
    }
}

/* Transfers; slots are there, but what is in them comes with the flows. */
static void
move_pool(tape_t *tape, ecc_engine_t *self)
{
    ecc_pool_t *pool = &self->pool;
    void *block = pool->waiting;
    uint32_t n_slots = pool->n_slots;

    MOVE(tape, n_slots);
    if (tape->ret == 0 && n_slots > self->room - self->n_flows) {
        tape->ret = ECC_ERR_CHECKPOINT;
    }
    if (tape->ret != 0) {
        return;
    }
    pool->n_slots = n_slots;
    MOVE(tape, pool->n_alive);
    MOVE(tape, pool->unused);
    MOVE(tape, pool->n_waiting);
    MOVE(tape, pool->n_taken);
    MOVE(tape, pool->n_over);
    MOVE(tape, pool->n_handed);
    MOVE(tape, pool->n_started);
    MOVE(tape, pool->n_followers);
    MOVE(tape, pool->unused_follower);
    MOVE(tape, pool->last_start);
    MOVE(tape, pool->more);
    move_block(tape, self, sizeof(*pool->waiting), pool->n_waiting, &pool->room_waiting, &block);
    pool->waiting = block;
    block = pool->followers;
    move_block(tape, self, sizeof(*pool->followers), pool->n_followers, &pool->room_followers, &block);
    pool->followers = block;
    block = pool->over;
    /* each of those alive has a place among those over */
    move_block(tape, self, sizeof(*pool->over), pool->n_over + pool->n_alive, &pool->room_over, &block);
    pool->over = block;
    move(tape, pool->records, pool->n_slots * pool->record_size);
    move(tape, self->hops + pool->first_hop, (size_t) pool->n_slots * pool->longest * sizeof(*self->hops));
    move(tape, self->flow_queues, self->n_flow_queues * sizeof(*self->flow_queues));
}

static void
move_flows(tape_t *tape, ecc_engine_t *self)
{
    ecc_pool_t *pool = &self->pool;

    for (uint32_t i = 0; i < self->n_flows + pool->n_slots && tape->ret == 0; i++) {
        ecc_flow_state_t *flow = &self->flows[i];
        ecc_flow_state_t was = *flow;
        MOVE(tape, *flow);
        flow->is = was.is;
        flow->state = was.state;
        if (i >= self->n_flows) {
            flow->is = &pool->templates[flow->kind < pool->n_templates ? flow->kind : 0].is;
            flow->state = pool->record_size > 0 && flow->is->state != NULL
                ? pool->records + (i - self->n_flows) * pool->record_size
                : flow->is->state;
        }
        flow->params = flow->is->params;
        flow->on_send = flow->is->on_send;
        flow->on_ack = flow->is->on_ack;
    }
    for (size_t i = 0; i < self->n_receivers && tape->ret == 0; i++) {
        ecc_receiver_t *receiver = &self->receivers[i];
        ecc_receiver_t was = *receiver;
        MOVE(tape, *receiver);
        receiver->impaired = was.impaired;
        move_impaired(tape, self, &receiver->impaired);
    }
}

static void
move_ranges(tape_t *tape, ecc_engine_t *self, ecc_ranges_t *ranges, const ecc_ranges_t *was)
{
    size_t room = was->room;
    void *block = was->items;

    ranges->items = was->items;
    ranges->room = was->room;
    move_block(tape, self, sizeof(*ranges->items), ranges->count, &room, &block);
    ranges->items = block;
    ranges->room = (uint32_t) room;
}

static void
move_transports(tape_t *tape, ecc_engine_t *self)
{
    for (size_t i = 0; i < self->n_transports && tape->ret == 0; i++) {
        ecc_transport_t *transport = &self->transports[i];
        ecc_transport_t was = *transport;
        MOVE(tape, *transport);
        move_ranges(tape, self, &transport->sacked, &was.sacked);
        move_ranges(tape, self, &transport->held, &was.held);
    }
}

/* Times of all nodes: how they lie in buckets is no part of the state. */
static void
move_calendar(tape_t *tape, ecc_calendar_t *calendar)
{
    ecc_ps_t clock = calendar->clock;

    MOVE(tape, clock);
    if (reads(tape) && tape->ret == 0) {
        for (uint32_t node = 0; node < calendar->n_nodes; node++) {
            ecc_calendar_cancel(calendar, node);
        }
        calendar->first = ECC_NO_NODE;
        calendar->first_time = ECC_NEVER;
        calendar->clock = clock;
        calendar->epoch = clock;
    }
    for (uint32_t node = 0; node < calendar->n_nodes && tape->ret == 0; node++) {
        ecc_ps_t time = calendar->nodes[node].time;
        MOVE(tape, time);
        if (reads(tape) && tape->ret == 0 && time != ECC_IDLE) {
            if (time < clock) {
                tape->ret = ECC_ERR_CHECKPOINT;
                return;
            }
            ecc_calendar_insert(calendar, node, time);
        }
    }
}

static int
pass(ecc_engine_t *self, tape_t *tape)
{
    move_layout(tape, self);
    move_room(tape, self);
    MOVE(tape, self->now);
    MOVE(tape, self->digest);
    MOVE(tape, self->n_events);
    MOVE(tape, self->n_received);
    MOVE(tape, self->n_traced);
    MOVE(tape, self->n_sampled);
    MOVE(tape, self->next_sample);
    MOVE(tape, self->stop);
    move_packets(tape, self);
    move_links(tape, self);
    move_pool(tape, self);
    move_flows(tape, self);
    move_transports(tape, self);
    move_calendar(tape, &self->fast);
    move_calendar(tape, &self->slow);
    if (tape->ret == 0 && tape->at != tape->size && tape->size != SIZE_MAX) {
        tape->ret = ECC_ERR_CHECKPOINT;
    }
    return tape->ret;
}

int64_t
ecc_engine_save(ecc_engine_t *self, unsigned char *buffer)
{
    tape_t tape = { .to = buffer, .size = SIZE_MAX };

    return pass(self, &tape) == 0 ? (int64_t) tape.at : tape.ret;
}

int
ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size)
{
    tape_t tape = { .from = buffer, .size = (size_t) size };
    int ret = self->stop == ECC_STOP_NOT_YET ? pass(self, &tape) : ECC_ERR_CHECKPOINT;

    if (ret == 0) {
        ret = ecc_engine_verify(self);
    }
    if (ret != 0) {
        self->stop = ECC_STOP_ERROR;
        return ecc_state_fail(self, ret, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) size);
    }
    return 0;
}
