#include <math.h>
#include <string.h>

#include "config.h"
#include "lists.h"
#include "pool.h"
#include "receiver.h"
#include "sender.h"
#include "tape.h"
#include "transport.h"

/*
 * The state of an engine as bytes, and back into a new engine of the same configuration. One pass does either, so that
 * both agree. Only what cannot be derived is there: no pointer, no number of a packet, no link of a list, nothing that
 * follows from the configuration. So most that could be wrong with it cannot be said; the rest is checked. Records and
 * arrays of the caller are the caller's to keep.
 */

/* ---- links ---- */

static void
move_link(ecc_tape_t *tape, ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];

    ecc_lists_queue(tape, self, index);
    ecc_lists_way(tape, self, ECC_LISTS_WIRE, index, &link->wire, link->impaired);
    ecc_tape_whole(tape, &link->queue_peak, link->queue, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &link->arrived, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &link->dropped, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &link->dropped_bytes, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &link->lost, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &link->lost_bytes, 0, ECC_TAPE_MOST);
    ECC_TAPE_MOVE(tape, link->area);
    ecc_tape_require(tape, link->area >= 0 && link->area <= (ecc_wide_t) ECC_TAPE_MOST * ECC_NEVER);
    if (ecc_tape_reads(tape)) {
        link->measured = link->measures ? self->now : 0;
        ECC_DEBUG(link->count.departed_bytes = link->arrived - link->dropped_bytes - link->queue);
        ECC_DEBUG(link->count.arrived = link->dropped + (int64_t) link->ring.count);
    }
}

static void
move_routers(ecc_tape_t *tape, ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_routers && tape->ret == 0; i++) {
        ecc_link_state_t *router = &self->links[i];
        if (i < self->n_links) {
            move_link(tape, self, i);
        }
        ecc_tape_whole(tape, &router->queue_low, 0, self->links[router->is.at].queue);
        ECC_TAPE_MOVE(tape, router->random);
        ECC_TAPE_MOVE(tape, router->next_interval);
        ecc_tape_require(tape, !isnan(router->next_interval));
        ecc_tape_index(tape, &router->n_hasty, ECC_MOST_HASTY);
        ecc_tape_node(tape, self->now, &self->slow, self->base[ECC_INTERVAL] + i, self->stop != ECC_STOP_NOT_YET);
    }
}

/* ---- flows ---- */

static void
move_ranges(ecc_tape_t *tape, ecc_engine_t *self, ecc_ranges_t *ranges)
{
    size_t room = ranges->room;
    void *block = ranges->items;
    uint32_t count = ecc_tape_count(tape, ranges->count, sizeof(*ranges->items));

    ecc_tape_make_room(tape, &self->memory, sizeof(*ranges->items), count, &room, &block);
    ranges->items = block;
    ranges->room = (uint32_t) room;
    if (tape->ret == 0) {
        ranges->count = count;
        ecc_tape_move(tape, ranges->items, count * sizeof(*ranges->items));
        ecc_tape_require(tape, ecc_ranges_verify(ranges) == 0);
    }
}

static void
move_transport(ecc_tape_t *tape, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_transport_t *transport = &self->transports[index];

    transport->una = flow->expected - flow->lost;
    transport->top = flow->sent - flow->lost;
    ecc_tape_whole(tape, &transport->gone, transport->una, transport->top);
    ecc_tape_whole(tape, &transport->again, transport->una, transport->top);
    ecc_tape_whole(tape, &transport->recover, 0, transport->top + 1);
    ecc_tape_whole(tape, &transport->rescue, 0, transport->top + 1);
    ecc_tape_whole(tape, &transport->before, 0, transport->top);
    ecc_tape_whole(tape, &transport->left, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &transport->window, 0, INT64_MAX);
    ecc_tape_real(tape, &transport->rttvar);
    move_ranges(tape, self, &transport->sacked);
    move_ranges(tape, self, &transport->held);
    ecc_tape_byte(tape, &transport->n_places, ECC_MOST_SACKS);
    ecc_tape_byte(tape, &transport->n_duplicates, ECC_MOST_DUPLICATES);
    transport->is_partial = ecc_tape_flag(tape, transport->is_partial);
    transport->recovering = ecc_tape_flag(tape, transport->recovering);
    transport->urgent = ecc_tape_flag(tape, transport->urgent);
    for (uint32_t k = 0; k < ECC_MOST_SACKS; k++) {
        ECC_TAPE_MOVE(tape, transport->places[k]);
    }
    ecc_tape_require(tape, tape->ret == 0 && ecc_transport_verify(transport, flow) == 0);
}

static void
move_receiver(ecc_tape_t *tape, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_receiver_t *receiver = &self->receivers[index];
    bool has_kept = ecc_tape_flag(tape, receiver->kept != ECC_NO_PACKET);

    ecc_tape_whole(tape, &receiver->next, 0, flow->sent);
    ecc_tape_whole(tape, &receiver->front, 0, receiver->next);
    ecc_tape_whole(tape, &receiver->missing, 0, receiver->front);
    ecc_tape_whole(tape, &receiver->base, 0, flow->sent);
    ecc_tape_whole(tape, &receiver->known, 0, flow->sent);
    ecc_tape_whole(tape, &receiver->acks_lost, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &receiver->n_kept, has_kept, has_kept ? flow->is->ack_every - 1 : 0);
    ECC_TAPE_MOVE(tape, receiver->n_holes);
    ecc_tape_require(tape, receiver->n_holes < receiver->patience);
    for (uint32_t k = 0; k < ECC_MOST_HOLES; k++) {
        ECC_TAPE_MOVE(tape, receiver->holes[k]);
    }
    ecc_tape_require(tape, ecc_receiver_verify(receiver) == 0);
    ecc_tape_node(tape, self->now, &self->slow, self->base[ECC_FLUSH] + index, has_kept);
    if (has_kept && tape->ret == 0) {
        uint32_t position = flow->position + (uint32_t) flow->is->n_forward - 1;
        ecc_tape_require(tape, ecc_calendar_pending(&self->slow, self->base[ECC_FLUSH] + index));
        receiver->kept = ecc_lists_packet(tape, self, index, receiver->kept, position, ECC_LISTS_KEPT);
    }
}

/* What has been sent so far, and what has come of it. */
static void
move_counters(ecc_tape_t *tape, const ecc_engine_t *self, ecc_flow_state_t *flow)
{
    const ecc_flow_t *is = flow->is;
    bool opening;

    ecc_tape_whole(tape, &flow->sent, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &flow->expected, 0, flow->sent);
    ecc_tape_whole(tape, &flow->lost, 0, flow->expected);
    ecc_tape_whole(tape, &flow->received, 0, flow->sent);
    ecc_tape_whole(tape, &flow->last, 0, self->now);
    ecc_tape_whole(tape, &flow->heard, 0, self->now);
    ecc_tape_int(tape, &flow->last_size, 0, ECC_LARGEST_PACKET + ECC_MOST_HEADER_BYTES);
    ecc_tape_int(tape, &flow->full_size, is->packet_size, flow->draws_sizes ? is->packet_size_max : is->packet_size);
    ecc_tape_byte(tape, &flow->n_timeouts, ECC_MOST_DOUBLINGS);
    ecc_tape_byte(tape, &flow->n_hasty, ECC_MOST_HASTY - 1);
    ecc_tape_real(tape, &flow->rate);
    ecc_tape_real(tape, &flow->window);
    ecc_tape_real(tape, &flow->rtt);
    ecc_tape_real(tape, &flow->srtt);
    ecc_tape_real(tape, &flow->min_rtt);
    ECC_TAPE_MOVE(tape, flow->random);
    ECC_TAPE_MOVE(tape, flow->random_sizes);
    if (ecc_tape_reads(tape)) {
        opening = flow->srtt == 0.0 && is->opening_size > 0;
        flow->packet_size = opening ? (int32_t) is->opening_size : flow->full_size;
        flow->gap = flow->last_size > 0 && flow->rate > 0.0 ? ecc_state_tx(flow->last_size, flow->rate) : 0;
    }
}

/* Of an echo, which packets among the ACKs have come is known by the time. */
static void
count_echoes(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_ps_t time = self->fast.nodes[self->base[ECC_ACK] + index].time;

    for (uint32_t id = flow->acks.head; id != ECC_NO_PACKET && time - flow->ack_delay <= self->now;) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        flow->counted = id;
        id = packet->next;
        time = packet->next_time;
    }
}

/* A flow of the network, or a transfer in its slot. */
static void
move_flow(ecc_tape_t *tape, ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    bool is_transfer = index >= self->n_flows;
    bool started = ecc_tape_flag(tape, flow->started);

    ecc_tape_require(tape, started || (!is_transfer && flow->is->start >= self->now));
    if (!started || tape->ret != 0) {
        return;
    }
    if (ecc_tape_reads(tape) && !is_transfer) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_START] + index);
    }
    flow->started = true;
    flow->active = ecc_tape_flag(tape, flow->active);
    flow->completed = ecc_tape_flag(tape, flow->completed);
    ecc_tape_whole(tape, &flow->finish, -1, self->now);
    ecc_tape_require(tape, flow->active == (flow->finish == -1) && !(flow->active && flow->completed));
    move_counters(tape, self, flow);
    ecc_tape_node(tape, self->now, &self->fast, self->base[ECC_SEND] + index, flow->active);
    ecc_tape_node(tape, self->now, &self->slow, self->base[ECC_TIMEOUT] + index, true);
    if (self->wants_stops) {
        ecc_tape_node(tape, self->now, &self->slow, self->base[ECC_STOP] + index, flow->active);
    }
    if (self->wants_timers) {
        ecc_tape_node(
            tape, self->now, &self->slow, self->base[ECC_TIMER] + index, flow->active && flow->is->on_timer != NULL);
    }
    flow->timed = ecc_calendar_pending(&self->slow, self->base[ECC_TIMEOUT] + index);
    if (ecc_tape_reads(tape)) {
        tape->arrived[index] = flow->received;
    }
    if (flow->repairs && tape->ret == 0) {
        move_transport(tape, self, index);
    }
    if (flow->counts && tape->ret == 0) {
        move_receiver(tape, self, index);
    }
    ecc_lists_way(tape, self, ECC_LISTS_ACCESS, index, &flow->access, NULL);
    ecc_lists_way(tape, self, ECC_LISTS_ACKS, index, &flow->acks,
        flow->is->impairment > 0 ? &self->receivers[index].impaired : NULL);
    if (ecc_tape_reads(tape) && flow->echoes) {
        count_echoes(self, index);
    }
}

/* ---- transfers ---- */

/* Those that follow one another, from this place on. */
static void
move_chain(ecc_tape_t *tape, const ecc_pool_t *pool, uint32_t place)
{
    for (; place != ECC_NO_FOLLOWER; place = pool->followers[place].follower) {
        ECC_TAPE_MOVE(tape, pool->followers[place].is);
    }
}

static uint32_t
chain_length(const ecc_pool_t *pool, uint32_t place)
{
    uint32_t n = 0;

    for (; place != ECC_NO_FOLLOWER; place = pool->followers[place].follower) {
        n++;
    }
    return n;
}

/* Reads n transfers behind `first` others into memory that is to be released. */
static ecc_transfer_t *
read_transfers(ecc_tape_t *tape, ecc_engine_t *self, uint32_t n, uint32_t first)
{
    void *block = NULL;
    ecc_transfer_t *transfers;

    tape->ret = ecc_memory_resize(&self->memory, 0, (n + first) * sizeof(*transfers), &block);
    transfers = block;
    if (transfers != NULL) {
        ecc_tape_move(tape, transfers + first, n * sizeof(*transfers));
    }
    return transfers;
}

/* What follows the transfer in a slot. */
static void
move_followers(ecc_tape_t *tape, ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    uint32_t n = ecc_tape_count(tape, chain_length(&self->pool, flow->follower), sizeof(ecc_transfer_t));

    ecc_tape_require(tape, flow->number + n < self->n_flows + self->pool.n_handed);
    if (n > 0 && ecc_tape_reads(tape)) {
        ecc_transfer_t *transfers = read_transfers(tape, self, n, 1);
        void *block = transfers;
        if (tape->ret == 0) {
            transfers[0] = (ecc_transfer_t) { .start = self->now, .stop = -1, .size = flow->size, .kind = flow->kind };
            tape->ret = ecc_pool_add_followers(self, index, transfers, (int64_t) n + 1);
        }
        ecc_memory_release(&self->memory, (n + 1) * sizeof(*transfers), &block);
    } else if (n > 0) {
        move_chain(tape, &self->pool, flow->follower);
    }
    ecc_tape_node(tape, self->now, &self->slow, self->base[ECC_START] + index + 1, n > 0);
}

/* Transfers that wait for their start, in the order in which they were handed over. */
static void
move_waiting(ecc_tape_t *tape, ecc_engine_t *self)
{
    ecc_pool_t *pool = &self->pool;
    size_t count = 0;
    uint32_t n;

    for (size_t i = pool->n_taken; i < pool->n_waiting; i++) {
        count += 1 + chain_length(pool, pool->waiting[i].follower);
    }
    n = ecc_tape_count(tape, count, sizeof(ecc_transfer_t));
    ecc_tape_require(tape, n <= pool->n_handed - pool->n_started);
    if (n > 0 && ecc_tape_reads(tape)) {
        ecc_transfer_t *transfers = read_transfers(tape, self, n, 0);
        void *block = transfers;
        pool->n_handed -= n;
        if (tape->ret == 0) {
            tape->ret = ecc_engine_add(self, transfers, n, pool->more);
        }
        ecc_memory_release(&self->memory, n * sizeof(*transfers), &block);
    } else {
        for (size_t i = pool->n_taken; i < pool->n_waiting; i++) {
            ECC_TAPE_MOVE(tape, pool->waiting[i].is);
            move_chain(tape, pool, pool->waiting[i].follower);
        }
    }
}

/* Results that were not taken yet; each of those alive has a place behind them. */
static void
move_over(ecc_tape_t *tape, ecc_engine_t *self)
{
    ecc_pool_t *pool = &self->pool;
    uint32_t n = ecc_tape_count(tape, pool->n_over, sizeof(*pool->over));
    void *block = pool->over;

    ecc_tape_make_room(tape, &self->memory, sizeof(*pool->over), (size_t) n + pool->n_alive, &pool->room_over, &block);
    pool->over = block;
    for (uint32_t k = 0; k < n && tape->ret == 0; k++) {
        ecc_transfer_result_t *result = &pool->over[k];
        ECC_TAPE_MOVE(tape, *result);
        ecc_tape_require(tape,
            result->number >= self->n_flows && result->number < self->n_flows + pool->n_handed && result->kind >= 0
                && result->kind < pool->n_templates);
        pool->n_over = ecc_tape_reads(tape) ? k + 1 : pool->n_over;
    }
}

static void
make_room_for_arrived(ecc_tape_t *tape, ecc_engine_t *self, size_t n)
{
    void *block = tape->arrived;

    ecc_tape_make_room(tape, &self->memory, sizeof(*tape->arrived), n, &tape->n_arrived, &block);
    tape->arrived = block;
}

/* Room for so many slots, doubled as the engine itself would have. */
static void
make_slots(ecc_tape_t *tape, ecc_engine_t *self, uint32_t n_slots)
{
    uint32_t room = self->room - self->n_flows;

    ecc_tape_require(tape, n_slots == 0 || (room > 0 && n_slots <= ECC_MOST_ENTITIES));
    while (ecc_tape_reads(tape) && room < n_slots) {
        room *= 2;
    }
    if (ecc_tape_reads(tape) && room > self->room - self->n_flows) {
        tape->ret = ecc_pool_make_room(self, self->n_flows + room);
    }
    make_room_for_arrived(tape, self, (size_t) self->n_flows + n_slots);
}

/* A slot with the transfer in it, or a free one, which knows the one that was freed before it. */
static void
move_slot(ecc_tape_t *tape, ecc_engine_t *self, uint32_t slot)
{
    ecc_pool_t *pool = &self->pool;
    ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];
    bool is_alive = ecc_tape_flag(tape, flow->started);
    uint32_t kind = flow->kind;
    int64_t number = flow->number;

    ecc_tape_index(tape, &kind, pool->n_templates);
    ecc_tape_whole(tape, &number, self->n_flows, self->n_flows + pool->n_handed - 1);
    if (ecc_tape_reads(tape)) {
        ecc_pool_occupy(self, slot, kind, number);
    }
    if (!is_alive) {
        ECC_TAPE_MOVE(tape, flow->unused);
    }
    if (!is_alive || tape->ret != 0) {
        return;
    }
    pool->n_alive += ecc_tape_reads(tape);
    ecc_tape_whole(tape, &flow->size, -1, INT64_MAX);
    ecc_tape_whole(tape, &flow->access_delay, 0, ECC_LARGEST_DELAY);
    ecc_tape_whole(tape, &flow->ack_delay, 0, ECC_LARGEST_DELAY);
    ecc_tape_whole(tape, &flow->start, 0, self->now);
    ecc_tape_require(tape, flow->size != 0);
    move_flow(tape, self, self->n_flows + slot);
    if (pool->record_size > 0 && flow->is->state != NULL) {
        ecc_tape_move(tape, flow->state, pool->record_size);
    }
    move_followers(tape, self, self->n_flows + slot);
}

static void
move_pool(ecc_tape_t *tape, ecc_engine_t *self)
{
    ecc_pool_t *pool = &self->pool;
    uint32_t n_slots = ecc_tape_count(tape, pool->n_slots, sizeof(int64_t) + 2 * sizeof(uint32_t));
    uint32_t n_free = 0;

    ecc_tape_whole(tape, &pool->n_handed, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &pool->n_started, 0, pool->n_handed);
    pool->more = ecc_tape_flag(tape, pool->more);
    ecc_tape_require(tape, !pool->more || pool->n_templates > 0);
    make_slots(tape, self, n_slots);
    for (uint32_t slot = 0; slot < n_slots && tape->ret == 0; slot++) {
        pool->n_slots = ecc_tape_reads(tape) ? slot + 1 : pool->n_slots;
        move_slot(tape, self, slot);
    }
    /* a walk over as many free slots as there are, which then ends, has met each of them once */
    ECC_TAPE_MOVE(tape, pool->unused);
    for (uint32_t slot = pool->unused; tape->ret == 0 && slot != ECC_NO_SLOT; n_free++) {
        ecc_tape_require(tape, slot < n_slots && n_free < n_slots && !self->flows[self->n_flows + slot].started);
        slot = tape->ret == 0 ? self->flows[self->n_flows + slot].unused : ECC_NO_SLOT;
    }
    ecc_tape_require(tape, n_free + pool->n_alive == n_slots);
    move_over(tape, self);
    move_waiting(tape, self);
}

/* ---- the engine ---- */

/* What the engine was made of: a checkpoint fits no other. */
static void
move_layout(ecc_tape_t *tape, const ecc_engine_t *self)
{
    const uint64_t ours[] = { UINT64_C(0x32706b6363636565), sizeof(ecc_transfer_t), sizeof(ecc_transfer_result_t),
        self->packets.stride, self->header_size, self->n_links, self->n_routers, self->n_flows, self->pool.n_templates,
        self->pool.record_size, self->pool.first_hop, self->pool.longest, self->n_impairments, self->n_changes,
        self->wants_flow_queues, self->wants_receivers, self->wants_transports, self->wants_stops, self->wants_timers,
        self->seed, (uint64_t) self->samples.period, (uint64_t) self->samples.n_samples };
    uint64_t found[sizeof(ours) / sizeof(*ours)];

    memcpy(found, ours, sizeof(ours));
    ecc_tape_move(tape, found, sizeof(found));
    ecc_tape_require(tape, memcmp(found, ours, sizeof(ours)) == 0);
}

static void
set_clock(ecc_calendar_t *calendar, ecc_ps_t clock)
{
    calendar->first = ECC_NO_NODE;
    calendar->first_time = ECC_NEVER;
    calendar->clock = clock;
    calendar->epoch = clock;
}

/* Samples are taken in time: those until now are, but for one that may be due. */
static void
move_clock(ecc_tape_t *tape, ecc_engine_t *self)
{
    ecc_wide_t period = self->samples.period;

    ecc_tape_whole(tape, &self->stop, ECC_STOP_NOT_YET, ECC_STOP_TRANSFERS);
    ecc_tape_whole(tape, &self->now, 0, self->stop == ECC_STOP_NOT_YET ? 0 : ECC_NEVER - 1);
    ecc_tape_whole(tape, &self->n_events, 0, self->stop == ECC_STOP_NOT_YET ? 0 : ECC_TAPE_MOST);
    ecc_tape_whole(tape, &self->n_received, 0, ECC_TAPE_MOST);
    ecc_tape_whole(tape, &self->n_traced, 0, self->trace == NULL ? 0 : ECC_TAPE_MOST);
    ecc_tape_whole(tape, &self->n_sampled, 0, self->samples.n_samples);
    ECC_TAPE_MOVE(tape, self->digest);
    ecc_tape_require(tape, period * self->n_sampled <= self->now);
    if (ecc_tape_reads(tape)) {
        period *= self->n_sampled + 1;
        self->next_sample
            = self->n_sampled < self->samples.n_samples && period < ECC_NEVER ? (ecc_ps_t) period : ECC_NEVER;
        set_clock(&self->fast, self->now);
        set_clock(&self->slow, self->now);
    }
    ecc_tape_require(tape, self->now <= self->next_sample);
}

static int
pass(ecc_engine_t *self, ecc_tape_t *tape)
{
    move_layout(tape, self);
    move_clock(tape, self);
    make_room_for_arrived(tape, self, self->n_flows);
    for (uint32_t i = 0; i < self->n_flows && tape->ret == 0; i++) {
        move_flow(tape, self, i);
    }
    move_pool(tape, self);
    move_routers(tape, self);
    ecc_tape_require(tape, tape->from == NULL || tape->at == tape->size);
    if (tape->ret == 0 && ecc_engine_verify(self) != 0) {
        tape->ret = ECC_ERR_CHECKPOINT;
    }
    return tape->ret;
}

int64_t
ecc_engine_save(ecc_engine_t *self, unsigned char *buffer)
{
    ecc_tape_t tape = { .to = buffer, .size = SIZE_MAX };
    ecc_stats_t stats;

    ecc_engine_stats(self, &stats); /* so that all that happens silently has happened */
    if (pass(self, &tape) != 0) {
        return ecc_state_fail(self, ECC_ERR_BROKEN, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) tape.at);
    }
    return (int64_t) tape.at;
}

int
ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size)
{
    ecc_tape_t tape = { .from = buffer, .size = size > 0 ? (size_t) size : 0 };
    void *block;
    int ret = ECC_ERR_CHECKPOINT;

    if (self->stop == ECC_STOP_NOT_YET && self->pool.n_handed == 0) {
        ret = pass(self, &tape);
    }
    block = tape.arrived;
    ecc_memory_release(&self->memory, tape.n_arrived * sizeof(*tape.arrived), &block);
    if (ret != 0) {
        self->stop = ECC_STOP_ERROR;
        ret = ret == ECC_ERR_NO_MEMORY ? ret : ECC_ERR_CHECKPOINT;
        return ecc_state_fail(self, ret, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) tape.at);
    }
    return 0;
}
