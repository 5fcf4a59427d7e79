#include "pool.h"

#include <string.h>

#include "config.h"
#include "flow.h"
#include "link.h"
#include "transport.h"

#define FIRST_SLOTS 16u
#define FIRST_WAITING 64u

static int
fail(ecc_engine_t *self, int code)
{
    return code == 0 ? 0 : ecc_state_fail(self, code, ECC_OF_NOBODY, 0, ECC_NO_HOOK, self->room);
}

/* ---- life ---- */

int
ecc_pool_init(ecc_engine_t *self, const ecc_config_t *config)
{
    ecc_pool_t *pool = &self->pool;
    void *block = NULL;
    bool wants_sacks = false;
    int ret;

    self->wants_stops = config->n_templates > 0;
    for (int64_t i = 0; i < config->n_flows + config->n_templates; i++) {
        const ecc_flow_t *is = i < config->n_flows ? &config->flows[i] : &config->templates[i - config->n_flows];
        self->wants_transports = self->wants_transports || is->transport != ECC_TRANSPORT_NONE;
        self->wants_stops = self->wants_stops || is->stop >= 0;
        self->wants_timers = self->wants_timers || is->on_timer != NULL;
        wants_sacks = wants_sacks || is->transport == ECC_TRANSPORT_SACK;
        self->wants_receivers = self->wants_receivers || is->n_reverse > 0 || is->impairment > 0 || is->ack_every > 1;
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        self->wants_receivers = self->wants_receivers || ecc_link_reorders(self, i);
    }
    if (self->wants_receivers || self->wants_transports) {
        self->packets.stride += sizeof(ecc_news_t) + (wants_sacks ? ECC_MOST_SACKS * sizeof(ecc_range_t) : 0);
    }
    pool->unused = ECC_NO_SLOT;
    pool->unused_follower = ECC_NO_FOLLOWER;
    pool->record_size = (size_t) config->record_size;
    pool->first_hop = (uint32_t) config->n_routes;
    if (config->n_templates == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, 0, (size_t) config->n_templates * sizeof(*pool->templates), &block);
    if (ret != 0) {
        return fail(self, ret);
    }
    pool->templates = block;
    pool->n_templates = (uint32_t) config->n_templates;
    pool->more = true;
    for (uint32_t i = 0; i < pool->n_templates; i++) {
        const ecc_flow_t *is = &config->templates[i];
        pool->templates[i].is = *is;
        pool->templates[i].length = (uint32_t) (is->n_forward + is->n_reverse);
        if (pool->templates[i].length > pool->longest) {
            pool->longest = pool->templates[i].length;
        }
    }
    return 0;
}

static void
release(ecc_engine_t *self, size_t size, void *block)
{
    ecc_memory_release(&self->memory, size, &block);
}

static size_t
flows_size(uint32_t room)
{
    return room * sizeof(ecc_flow_state_t) + ECC_CACHE_LINE;
}

void
ecc_pool_free(ecc_engine_t *self)
{
    ecc_pool_t *pool = &self->pool;

    release(self, pool->n_templates * sizeof(*pool->templates), pool->templates);
    release(self, pool->room_waiting * sizeof(*pool->waiting), pool->waiting);
    release(self, pool->room_followers * sizeof(*pool->followers), pool->followers);
    release(self, pool->room_over * sizeof(*pool->over), pool->over);
    release(self, pool->room_records * pool->record_size, pool->records);
    release(self, flows_size(self->room), self->flows_block);
    for (size_t i = 0; i < self->n_receivers; i++) {
        ecc_impairment_free(&self->receivers[i].impaired, &self->memory);
    }
    release(self, self->n_receivers * sizeof(*self->receivers), self->receivers);
    for (size_t i = 0; i < self->n_transports; i++) {
        ecc_transport_free(&self->transports[i], &self->memory);
    }
    release(self, self->n_transports * sizeof(*self->transports), self->transports);
    release(self, self->n_hops * sizeof(*self->hops), self->hops);
    release(self, self->n_flow_queues * sizeof(*self->flow_queues), self->flow_queues);
    ecc_calendar_free(&self->fast, &self->memory);
    ecc_calendar_free(&self->slow, &self->memory);
}

/* How many places from this one on; more than there are, if they are not in order. */
static uint32_t
count_places(const ecc_pool_t *pool, uint32_t place)
{
    uint32_t n = 0;

    while (place != ECC_NO_FOLLOWER && n <= pool->n_followers) {
        n++;
        place = place < pool->n_followers ? pool->followers[place].follower : place;
    }
    return n;
}

int
ecc_pool_verify(const ecc_engine_t *self)
{
    const ecc_pool_t *pool = &self->pool;
    uint32_t n_free = 0;
    uint64_t n_places = count_places(pool, pool->unused_follower);
    bool fine = pool->n_taken <= pool->n_waiting && pool->n_over + pool->n_alive <= pool->room_over;

    for (uint32_t slot = pool->unused; slot != ECC_NO_SLOT && n_free <= pool->n_slots; n_free++) {
        fine = fine && slot < pool->n_slots && !self->flows[self->n_flows + slot].started;
        slot = fine ? self->flows[self->n_flows + slot].unused : ECC_NO_SLOT;
    }
    for (uint32_t slot = 0; slot < pool->n_slots; slot++) {
        uint32_t index = self->n_flows + slot;
        const ecc_flow_state_t *flow = &self->flows[index];
        fine = fine
            && flow->started
                == (flow->active || flow->n_packets > 0 || (flow->started && ecc_pool_is_followed(self, index)));
        n_places += flow->started ? count_places(pool, flow->follower) : 0;
    }
    for (size_t i = pool->n_taken; i < pool->n_waiting; i++) {
        n_places += count_places(pool, pool->waiting[i].follower);
    }
    return fine && n_places == pool->n_followers && n_free + pool->n_alive == pool->n_slots ? 0 : ECC_ERR_BROKEN;
}

/* ---- room ---- */

uint32_t
ecc_pool_first_room(const ecc_config_t *config)
{
    return (uint32_t) config->n_flows + (config->n_templates > 0 ? FIRST_SLOTS : 0);
}

/* Numbers of the first nodes of each kind, where there is room for so many flows; how many nodes a calendar has. */
static void
number_nodes(const ecc_engine_t *self, uint32_t room, uint32_t base[ECC_N_KINDS + 1], uint32_t *n_fast)
{
    uint32_t next = 0;

    for (uint32_t kind = 0; kind < ECC_N_KINDS; kind++) {
        bool is_unwanted = (kind == ECC_STOP && !self->wants_stops) || (kind == ECC_TIMER && !self->wants_timers)
            || (kind == ECC_FLUSH && !self->wants_receivers);
        uint32_t n = kind == ECC_INTERVAL              ? self->n_routers
            : kind == ECC_DEPARTURE || kind == ECC_HOP ? self->n_links
            : is_unwanted                              ? 0
            : kind == ECC_START                        ? room + 1
                                                       : room;
        if (kind == ECC_FIRST_SLOW) {
            *n_fast = next;
            next = 0;
        }
        base[kind] = next;
        next += n;
    }
    base[ECC_N_KINDS] = next;
}

static int
make_room_for_states(ecc_engine_t *self, uint32_t room)
{
    void *block = NULL;
    void *flows;
    int ret = ecc_memory_resize(&self->memory, 0, flows_size(room), &block);

    if (ret != 0) {
        return ret;
    }
    flows = (void *) (((uintptr_t) block + ECC_CACHE_LINE - 1) / ECC_CACHE_LINE * ECC_CACHE_LINE);
    if (self->flows != NULL) {
        memcpy(flows, self->flows, self->room * sizeof(*self->flows));
    }
    release(self, flows_size(self->room), self->flows_block);
    self->flows = flows;
    self->flows_block = block;
    self->room = room;
    return 0;
}

static int
make_room_for_receivers(ecc_engine_t *self, uint32_t room)
{
    void *block = self->receivers;
    int ret;

    if (!self->wants_receivers || room == 0) {
        return 0;
    }
    ret = ecc_memory_resize(
        &self->memory, self->n_receivers * sizeof(*self->receivers), room * sizeof(*self->receivers), &block);
    if (ret == 0) {
        self->receivers = block;
        self->n_receivers = room;
    }
    return ret;
}

static int
make_room_for_transports(ecc_engine_t *self, uint32_t room)
{
    void *block = self->transports;
    int ret;

    if (!self->wants_transports || room == 0) {
        return 0;
    }
    ret = ecc_memory_resize(
        &self->memory, self->n_transports * sizeof(*self->transports), room * sizeof(*self->transports), &block);
    if (ret == 0) {
        self->transports = block;
        self->n_transports = room;
    }
    return ret;
}

static int
make_room_for_records(ecc_engine_t *self, uint32_t n_slots)
{
    ecc_pool_t *pool = &self->pool;
    void *block = pool->records;
    int ret;

    if (pool->record_size == 0 || n_slots == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, pool->room_records * pool->record_size, n_slots * pool->record_size, &block);
    if (ret != 0) {
        return ret;
    }
    pool->records = block;
    pool->room_records = n_slots;
    for (uint32_t slot = 0; slot < pool->n_slots; slot++) {
        self->flows[self->n_flows + slot].state = pool->records + slot * pool->record_size;
    }
    return 0;
}

static int
make_room_for_hops(ecc_engine_t *self, uint32_t n_slots)
{
    size_t n_hops = self->pool.first_hop + (size_t) n_slots * self->pool.longest + 1;
    void *block = self->hops;
    int ret;

    if (n_hops > UINT32_MAX) {
        return ECC_ERR_TOO_LARGE;
    }
    ret = ecc_memory_resize(&self->memory, self->n_hops * sizeof(*self->hops), n_hops * sizeof(*self->hops), &block);
    if (ret != 0) {
        return ret;
    }
    self->hops = block;
    self->n_hops = n_hops;
    if (!self->wants_flow_queues) {
        return 0;
    }
    block = self->flow_queues;
    ret = ecc_memory_resize(
        &self->memory, self->n_flow_queues * sizeof(*self->flow_queues), n_hops * sizeof(*self->flow_queues), &block);
    if (ret != 0) {
        return ret;
    }
    self->flow_queues = block;
    self->n_flow_queues = n_hops;
    return 0;
}

static int
make_room_for_nodes(ecc_engine_t *self, uint32_t room)
{
    const uint32_t n_fast_kinds = ECC_FIRST_SLOW;
    uint32_t base[ECC_N_KINDS + 1];
    uint32_t n_fast = 0;
    uint32_t n_slow;
    int ret;

    number_nodes(self, room, base, &n_fast);
    n_slow = base[ECC_N_KINDS];
    ret = ecc_calendar_renumber(&self->fast, &self->memory, n_fast, 2 * n_fast, n_fast_kinds, self->base, base);
    if (ret != 0) {
        return ret;
    }
    memcpy(self->base, base, n_fast_kinds * sizeof(*base));
    ret = ecc_calendar_renumber(&self->slow, &self->memory, n_slow, n_slow, ECC_N_KINDS - n_fast_kinds,
        self->base + n_fast_kinds, base + n_fast_kinds);
    if (ret != 0) {
        return ret;
    }
    memcpy(self->base + n_fast_kinds, base + n_fast_kinds, (ECC_N_KINDS - n_fast_kinds) * sizeof(*base));
    return 0;
}

int
ecc_pool_make_room(ecc_engine_t *self, uint32_t room)
{
    uint32_t n_slots = room - self->n_flows;
    int ret = make_room_for_states(self, room);

    if (ret == 0) {
        ret = make_room_for_receivers(self, room);
    }
    if (ret == 0) {
        ret = make_room_for_transports(self, room);
    }
    if (ret == 0) {
        ret = make_room_for_records(self, n_slots);
    }
    if (ret == 0) {
        ret = make_room_for_hops(self, n_slots);
    }
    if (ret == 0) {
        ret = make_room_for_nodes(self, room);
    }
    return fail(self, ret);
}

/* ---- transfers ---- */

/* Room for n items of a size, at least doubled. */
static int
widen(ecc_engine_t *self, size_t item_size, size_t n, size_t *room, void **block)
{
    size_t wider = *room == 0 ? FIRST_WAITING : *room;
    int ret;

    if (n <= *room) {
        return 0;
    }
    while (wider < n) {
        wider *= 2;
    }
    ret = ecc_memory_resize(&self->memory, *room * item_size, wider * item_size, block);
    if (ret == 0) {
        *room = wider;
    }
    return ret;
}

static int
check(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n)
{
    const ecc_pool_t *pool = &self->pool;
    ecc_ps_t latest = pool->last_start > self->now ? pool->last_start : self->now;

    for (int64_t i = 0; i < n; i++) {
        const ecc_transfer_t *transfer = &transfers[i];
        int64_t number = self->n_flows + pool->n_handed + i;
        ecc_ps_t least = transfer->follows != 0 ? 0 : latest;
        ecc_flow_t flow;
        double value;
        int ret;
        if (transfer->kind < 0 || transfer->kind >= pool->n_templates || transfer->start < least) {
            value = transfer->start < least ? (double) transfer->start : (double) transfer->kind;
            return ecc_state_fail(self, ECC_ERR_TRANSFER, ECC_OF_TRANSFER, number, ECC_NO_HOOK, value);
        }
        if (transfer->follows != 0
            && (i == 0 || transfers[i - 1].size < 0 || pool->templates[transfers[i - 1].kind].is.followed == 0
                || transfer->stop >= 0)) {
            value = i == 0 ? 0.0 : (double) transfers[i - 1].size;
            return ecc_state_fail(self, ECC_ERR_FOLLOWS, ECC_OF_TRANSFER, number, ECC_NO_HOOK, value);
        }
        latest = transfer->follows != 0 ? latest : transfer->start;
        flow = pool->templates[transfer->kind].is;
        flow.start = transfer->start;
        flow.stop = transfer->stop;
        flow.size = transfer->size;
        flow.access_delay = transfer->access_delay;
        flow.ack_delay = transfer->ack_delay;
        flow.receiver_window = transfer->receiver_window;
        ret = ecc_config_check_flow(&flow, self->header_size, &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_OF_TRANSFER, number, ECC_NO_HOOK, value);
        }
    }
    return 0;
}

/* A place among those that follow; there is room. */
static uint32_t
find_place(ecc_pool_t *pool)
{
    uint32_t place = pool->unused_follower;

    if (place == ECC_NO_FOLLOWER) {
        return pool->n_followers++;
    }
    pool->unused_follower = pool->followers[place].follower;
    return place;
}

/* Transfers take their places: those that follow others behind these, the rest in a row. There is room. */
static void
place_all(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n)
{
    ecc_pool_t *pool = &self->pool;
    ecc_waiting_t *last = NULL;

    for (int64_t i = 0; i < n; i++) {
        ecc_waiting_t *this = &pool->waiting[pool->n_waiting];
        if (transfers[i].follows != 0) {
            last->follower = find_place(pool);
            this = &pool->followers[last->follower];
        } else {
            pool->n_waiting++;
            pool->last_start = transfers[i].start;
        }
        *this = (ecc_waiting_t) { transfers[i], self->n_flows + pool->n_handed++, ECC_NO_FOLLOWER };
        last = this;
    }
}

int
ecc_engine_add(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n, int64_t more)
{
    ecc_pool_t *pool = &self->pool;
    void *blocks[2] = { pool->waiting, pool->followers };
    uint32_t node = self->base[ECC_START] + self->n_flows;
    size_t n_following = 0;
    int ret = check(self, transfers, n);

    if (ret != 0) {
        return ret;
    }
    for (int64_t i = 0; i < n; i++) {
        n_following += transfers[i].follows != 0;
    }
    if (pool->n_taken > 0) {
        pool->n_waiting -= pool->n_taken;
        memmove(pool->waiting, pool->waiting + pool->n_taken, pool->n_waiting * sizeof(*pool->waiting));
        pool->n_taken = 0;
    }
    if (pool->n_followers + n_following >= ECC_NO_FOLLOWER) {
        return fail(self, ECC_ERR_TOO_LARGE);
    }
    ret = widen(
        self, sizeof(*pool->waiting), pool->n_waiting + (size_t) n - n_following, &pool->room_waiting, &blocks[0]);
    pool->waiting = blocks[0];
    if (ret == 0) {
        ret = widen(self, sizeof(*pool->followers), pool->n_followers + n_following, &pool->room_followers, &blocks[1]);
        pool->followers = blocks[1];
    }
    if (ret != 0) {
        return fail(self, ret);
    }
    pool->more = more != 0 && pool->n_templates > 0;
    place_all(self, transfers, n);
    if (pool->n_waiting > 0 && !ecc_calendar_pending(&self->slow, node)) {
        ecc_calendar_insert(&self->slow, node, pool->waiting[0].is.start);
    }
    return 0;
}

/* The slot freed last, or a new one. */
static int
find_slot(ecc_engine_t *self, uint32_t *slot)
{
    ecc_pool_t *pool = &self->pool;

    *slot = pool->unused;
    if (*slot != ECC_NO_SLOT) {
        pool->unused = self->flows[self->n_flows + *slot].unused;
        return 0;
    }
    if (self->n_flows + pool->n_slots == self->room) {
        int ret;
        if (pool->n_slots > ECC_MOST_ENTITIES) {
            return fail(self, ECC_ERR_TOO_LARGE);
        }
        ret = ecc_pool_make_room(self, self->n_flows + 2 * pool->n_slots);
        if (ret != 0) {
            return ret;
        }
    }
    *slot = pool->n_slots++;
    return 0;
}

/* The links of a template become those of a slot; what left them silently is no longer counted as queued. */
static uint32_t
lay(ecc_engine_t *self, uint32_t slot, const ecc_template_t *template)
{
    uint32_t position = self->pool.first_hop + slot * self->pool.longest;

    if (self->flow_queues != NULL) {
        for (uint32_t k = 0; k < self->pool.longest; k++) {
            ecc_link_catch_up(self, &self->links[self->hops[position + k] >> ECC_HOP_LINK]);
        }
    }
    memcpy(&self->hops[position], &self->hops[template->position], template->length * sizeof(*self->hops));
    return position;
}

void
ecc_pool_occupy(ecc_engine_t *self, uint32_t slot, uint32_t kind, int64_t number)
{
    ecc_pool_t *pool = &self->pool;
    const ecc_template_t *template = &pool->templates[kind];
    ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];

    ecc_flow_init(self, self->n_flows + slot, &template->is, lay(self, slot, template), number);
    flow->kind = kind;
    if (pool->record_size > 0 && template->is.state != NULL) {
        flow->state = memcpy(pool->records + slot * pool->record_size, template->is.state, pool->record_size);
    }
}

/* A transfer that has waited takes a slot. */
static int
settle(ecc_engine_t *self, const ecc_waiting_t *waited, ecc_ps_t start, uint32_t *index)
{
    ecc_pool_t *pool = &self->pool;
    const ecc_transfer_t *transfer = &waited->is;
    ecc_flow_state_t *flow;
    void *block = pool->over;
    uint32_t slot;
    int ret;

    /* its result has its place before it starts, so that leaving cannot fail */
    ret = widen(self, sizeof(*pool->over), pool->n_over + pool->n_alive + 1, &pool->room_over, &block);
    pool->over = block;
    if (ret == 0) {
        ret = find_slot(self, &slot);
    }
    if (ret != 0) {
        return fail(self, ret);
    }
    *index = self->n_flows + slot;
    flow = &self->flows[*index];
    ecc_pool_occupy(self, slot, (uint32_t) transfer->kind, waited->number);
    flow->start = start;
    flow->size = transfer->size;
    flow->access_delay = transfer->access_delay;
    flow->ack_delay = transfer->ack_delay;
    flow->follower = waited->follower;
    if (flow->repairs && transfer->receiver_window > 0) {
        self->transports[*index].window = transfer->receiver_window;
    }
    if (transfer->stop >= 0) {
        ecc_calendar_insert(
            &self->slow, self->base[ECC_STOP] + *index, transfer->stop < ECC_NEVER ? transfer->stop : ECC_NEVER);
    }
    pool->n_alive++;
    pool->n_started++;
    return 0;
}

int
ecc_pool_take(ecc_engine_t *self, uint32_t *index)
{
    ecc_pool_t *pool = &self->pool;
    const ecc_waiting_t *next = &pool->waiting[pool->n_taken];
    int ret = settle(self, next, next->is.start, index);

    if (ret == 0 && ++pool->n_taken < pool->n_waiting) {
        ecc_calendar_insert(&self->slow, self->base[ECC_START] + self->n_flows, pool->waiting[pool->n_taken].is.start);
    }
    return ret;
}

/* A place among those that follow is free; what came after it. */
static uint32_t
clear_place(ecc_pool_t *pool, uint32_t place)
{
    uint32_t next = pool->followers[place].follower;

    pool->followers[place].follower = pool->unused_follower;
    pool->unused_follower = place;
    return next;
}

int
ecc_pool_follow(ecc_engine_t *self, uint32_t other, uint32_t *index)
{
    ecc_pool_t *pool = &self->pool;
    uint32_t place = self->flows[other].follower;
    int ret = settle(self, &pool->followers[place], self->now, index);

    if (ret == 0) {
        self->flows[other].follower = ECC_NO_FOLLOWER;
        (void) clear_place(pool, place);
    }
    return ret;
}

void
ecc_pool_receive(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    uint32_t node = self->base[ECC_START] + index + 1;
    ecc_ps_t time = ecc_state_add(self->now, self->pool.followers[flow->follower].is.start);

    if (flow->received >= flow->size && time < ECC_NEVER && !ecc_calendar_pending(&self->slow, node)) {
        ecc_calendar_insert(&self->slow, node, time);
    }
}

static ecc_transfer_result_t
result(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    return (ecc_transfer_result_t) { .number = flow->number,
        .kind = flow->kind,
        .start = flow->start,
        .size = flow->size,
        .flow = ecc_flow_result(self, index) };
}

void
ecc_pool_leave(ecc_engine_t *self, uint32_t index)
{
    ecc_pool_t *pool = &self->pool;
    ecc_flow_state_t *flow = &self->flows[index];

    flow->lost += flow->sent - flow->expected;
    flow->expected = flow->sent;
    ecc_calendar_cancel(&self->slow, self->base[ECC_TIMEOUT] + index);
    pool->over[pool->n_over++] = result(self, index);
    pool->n_alive--;
    for (uint32_t place = flow->follower; place != ECC_NO_FOLLOWER;) {
        place = clear_place(pool, place);
    }
    flow->started = false;
    flow->unused = pool->unused;
    pool->unused = index - self->n_flows;
}

int
ecc_pool_add_followers(ecc_engine_t *self, uint32_t index, const ecc_transfer_t *transfers, int64_t n)
{
    ecc_pool_t *pool = &self->pool;
    uint32_t *follower = &self->flows[index].follower;
    void *block = pool->followers;
    int ret = check(self, transfers, n);

    if (ret == 0) {
        ret = widen(self, sizeof(*pool->followers), pool->n_followers + (size_t) n, &pool->room_followers, &block);
        pool->followers = block;
    }
    for (int64_t i = 1; i < n && ret == 0; i++) {
        uint32_t place = find_place(pool);
        pool->followers[place] = (ecc_waiting_t) { transfers[i], self->flows[index].number + i, ECC_NO_FOLLOWER };
        *follower = place;
        follower = &pool->followers[place].follower;
    }
    return ret;
}

int64_t
ecc_engine_take_over(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n)
{
    ecc_pool_t *pool = &self->pool;
    size_t n_taken = (size_t) n < pool->n_over ? (size_t) n : pool->n_over;

    if (n_taken > 0) {
        memcpy(results, pool->over, n_taken * sizeof(*results));
        pool->n_over -= n_taken;
        memmove(pool->over, pool->over + n_taken, pool->n_over * sizeof(*results));
    }
    return (int64_t) n_taken;
}

void
ecc_engine_alive(ecc_engine_t *self, ecc_transfer_result_t *results)
{
    for (uint32_t slot = 0; slot < self->pool.n_slots; slot++) {
        const ecc_flow_state_t *flow = &self->flows[self->n_flows + slot];
        ecc_flow_catch_up(self, self->n_flows + slot);
        if (flow->started) {
            *results++ = result(self, self->n_flows + slot);
        }
    }
}
