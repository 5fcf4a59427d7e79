/*
 * The arrays of an engine with an entry for each flow and slot: states, receivers, transports, records, hops, and the
 * nodes of both calendars. An array exists only if some flow needs it. They grow together, to twice as many slots.
 *
 * Not here: the entries themselves (flow.c, receiver.c, transport.c, transfers.c).
 *
 * Invariant, after each successful call: each array has room for self->room flows and slots, and every pending node
 * keeps its time.
 */

#include "host/tables.h"

#include <string.h>

#include "core/config.h"
#include "core/cut.h"
#include "host/ahead.h"
#include "host/alarms.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/transport.h"

#define INITIAL_SLOTS 16u
#define ORDER_KIND 56 /* lowest bit of the kind in an order */

static void
release(ecc_engine_t *self, size_t size, void *block)
{
    ecc_memory_release(&self->memory, size, &block);
}

void
ecc_tables_init(ecc_engine_t *self, const ecc_config_t *config)
{
    self->wants_stops = config->n_templates > 0;
    for (int64_t i = 0; i < config->n_flows + config->n_templates; i++) {
        const ecc_flow_t *spec = i < config->n_flows ? &config->flows[i] : &config->templates[i - config->n_flows];
        self->wants_transports = self->wants_transports || spec->transport != ECC_TRANSPORT_NONE;
        self->wants_stops = self->wants_stops || spec->stop >= 0;
        self->wants_timers = self->wants_timers || spec->on_timer != NULL || spec->on_report != NULL;
        self->wants_alarms = self->wants_alarms || ecc_alarms_are_needed(spec);
        self->wants_phases = self->wants_phases || spec->phase_jitter != 0;
        self->wants_sack = self->wants_sack || spec->transport >= ECC_TRANSPORT_SACK;
        self->wants_racks = self->wants_racks || spec->transport == ECC_TRANSPORT_RACK;
        self->wants_quics = self->wants_quics || spec->transport == ECC_TRANSPORT_QUIC;
        self->wants_pacers = self->wants_pacers || spec->pacing_gain > 0.0;
        self->wants_prrs = self->wants_prrs || spec->uses_prr != 0;
        self->wants_receivers = self->wants_receivers || spec->n_reverse > 0 || spec->impairment > 0
            || spec->ack_every > 1 || spec->ecn != ECC_ECN_NONE || spec->n_alternatives > 0
            || spec->reordering_threshold > 1 || spec->trimmed_size > 0;
        if (ecc_config_threshold(spec, ECC_DUP_THRESH) > self->max_holes) {
            self->max_holes = ecc_config_threshold(spec, ECC_DUP_THRESH);
        }
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        self->wants_receivers = self->wants_receivers || ecc_config_reorders(self, i);
    }
    self->wants_acks = self->wants_receivers || self->wants_transports;
    if (self->wants_acks) {
        self->packets.stride += sizeof(ecc_ack_info_t);
    }
}

static size_t
flows_size(uint32_t room)
{
    return room * sizeof(ecc_flow_state_t) + ECC_CACHE_LINE;
}

void
ecc_tables_free(ecc_engine_t *self)
{
    release(self, flows_size(self->room), self->flows_block);
    for (size_t i = 0; i < self->n_receivers; i++) {
        ecc_channel_free(&self->receivers[i].channel, &self->memory);
    }
    release(self, self->n_receivers * sizeof(*self->receivers), self->receivers);
    release(self, self->n_holes * self->max_holes * sizeof(*self->holes), self->holes);
    for (size_t i = 0; i < self->n_transports; i++) {
        ecc_transport_free(&self->transports[i], &self->memory);
    }
    release(self, self->n_transports * sizeof(*self->transports), self->transports);
    for (size_t i = 0; i < self->n_racks; i++) {
        ecc_rack_free(&self->racks[i], &self->memory);
    }
    release(self, self->n_racks * sizeof(*self->racks), self->racks);
    for (size_t i = 0; i < self->n_quics; i++) {
        ecc_quic_free(&self->quics[i], &self->memory);
    }
    release(self, self->n_quics * sizeof(*self->quics), self->quics);
    release(self, self->n_pacers * sizeof(*self->pacers), self->pacers);
    release(self, self->n_prrs * sizeof(*self->prrs), self->prrs);
    release(self, self->n_alarms * sizeof(*self->alarms), self->alarms);
    release(self, self->n_phases * sizeof(*self->phases), self->phases);
    release(self, self->n_hops * sizeof(*self->hops), self->hops);
    release(self, self->n_flow_queues * sizeof(*self->flow_queues), self->flow_queues);
    ecc_calendar_free(&self->fast, &self->memory);
    ecc_calendar_free(&self->slow, &self->memory);
}

uint32_t
ecc_tables_initial_room(const ecc_config_t *config)
{
    return (uint32_t) config->n_flows + (config->n_templates > 0 ? INITIAL_SLOTS : 0);
}

/* Number of nodes of a kind with room for so many flows; see base of ecc_engine. */
static uint32_t
nodes_of(const ecc_engine_t *self, enum ecc_event_kind kind, uint32_t room)
{
    switch (kind) {
    case ECC_EVENT_DEPARTURE:
    case ECC_EVENT_HOP:
        return self->n_links;
    case ECC_EVENT_INTERVAL:
        return self->n_routers;
    case ECC_EVENT_START:
        return room + 1;
    case ECC_EVENT_STOP:
        return self->wants_stops ? room : 0;
    case ECC_EVENT_TIMER:
        return self->wants_timers ? room : 0;
    case ECC_EVENT_FLUSH:
        return self->wants_receivers ? room : 0;
    default:
        return room;
    }
}

/* Numbers of the first nodes of each kind, and of all nodes of each calendar, with room for so many flows. */
static void
number_nodes(
    const ecc_engine_t *self, uint32_t room, uint32_t base[ECC_N_EVENT_KINDS], uint32_t *n_fast, uint32_t *n_slow)
{
    *n_fast = 0;
    *n_slow = 0;
    for (uint32_t kind = 0; kind < ECC_N_EVENT_KINDS; kind++) {
        uint32_t *n = kind < ECC_FIRST_SLOW_EVENT ? n_fast : n_slow;
        base[kind] = *n;
        *n += nodes_of(self, kind, room);
    }
}

static int
reserve_states(ecc_engine_t *self, uint32_t room)
{
    void *block = NULL;
    void *flows;
    int ret = ecc_memory_resize(&self->memory, 0, flows_size(room), &block);

    if (ret != 0) {
        return ret;
    }
    flows = ecc_memory_align(block);
    if (self->flows != NULL) {
        memcpy(flows, self->flows, self->room * sizeof(*self->flows));
    }
    release(self, flows_size(self->room), self->flows_block);
    self->flows = flows;
    self->flows_block = block;
    self->room = room;
    return 0;
}

/* Grows an array of `*n` items to `room` items, if it is wanted. */
static int
reserve_items(ecc_engine_t *self, bool is_wanted, size_t item_size, uint32_t room, size_t *n, void **items)
{
    int ret;

    if (!is_wanted || room == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, *n * item_size, room * item_size, items);
    if (ret == 0) {
        *n = room;
    }
    return ret;
}

static int
reserve_receivers(ecc_engine_t *self, uint32_t room)
{
    void *block = self->receivers;
    int ret = reserve_items(self, self->wants_receivers, sizeof(*self->receivers), room, &self->n_receivers, &block);

    self->receivers = block;
    block = self->holes;
    if (ret == 0) {
        ret = reserve_items(
            self, self->wants_receivers, self->max_holes * sizeof(*self->holes), room, &self->n_holes, &block);
    }
    self->holes = block;
    return ret;
}

static int
reserve_transports(ecc_engine_t *self, uint32_t room)
{
    void *block = self->transports;
    int ret = reserve_items(self, self->wants_transports, sizeof(*self->transports), room, &self->n_transports, &block);

    self->transports = block;
    return ret;
}

static int
reserve_racks(ecc_engine_t *self, uint32_t room)
{
    void *block = self->racks;
    int ret = reserve_items(self, self->wants_racks, sizeof(*self->racks), room, &self->n_racks, &block);

    self->racks = block;
    return ret;
}

static int
reserve_quics(ecc_engine_t *self, uint32_t room)
{
    void *block = self->quics;
    int ret = reserve_items(self, self->wants_quics, sizeof(*self->quics), room, &self->n_quics, &block);

    self->quics = block;
    return ret;
}

static int
reserve_pacers(ecc_engine_t *self, uint32_t room)
{
    void *block = self->pacers;
    int ret = reserve_items(self, self->wants_pacers, sizeof(*self->pacers), room, &self->n_pacers, &block);

    self->pacers = block;
    return ret;
}

static int
reserve_prrs(ecc_engine_t *self, uint32_t room)
{
    void *block = self->prrs;
    int ret = reserve_items(self, self->wants_prrs, sizeof(*self->prrs), room, &self->n_prrs, &block);

    self->prrs = block;
    return ret;
}

static int
reserve_alarms(ecc_engine_t *self, uint32_t room)
{
    void *block = self->alarms;
    int ret = reserve_items(self, self->wants_alarms, sizeof(*self->alarms), room, &self->n_alarms, &block);

    self->alarms = block;
    return ret;
}

static int
reserve_phases(ecc_engine_t *self, uint32_t room)
{
    void *block = self->phases;
    int ret = reserve_items(self, self->wants_phases, sizeof(*self->phases), room, &self->n_phases, &block);

    self->phases = block;
    return ret;
}

static int
reserve_records(ecc_engine_t *self, uint32_t n_slots)
{
    ecc_transfers_t *transfers = &self->transfers;
    void *block = transfers->records;
    int ret = reserve_items(
        self, transfers->record_size > 0, transfers->record_size, n_slots, &transfers->room_records, &block);

    transfers->records = block;
    for (uint32_t slot = 0; slot < transfers->n_slots && transfers->record_size > 0; slot++) {
        self->flows[self->n_flows + slot].state = transfers->records + slot * transfers->record_size;
    }
    return ret;
}

static int
reserve_hops(ecc_engine_t *self, uint32_t n_slots)
{
    size_t n_hops = self->transfers.first_hop + (size_t) n_slots * self->transfers.max_length + 1;
    void *hops = self->hops;
    void *flow_queues = self->flow_queues;
    int ret;

    if (n_hops > UINT32_MAX) {
        return ECC_ERR_TOO_LARGE;
    }
    ret = reserve_items(self, true, sizeof(*self->hops), (uint32_t) n_hops, &self->n_hops, &hops);
    self->hops = hops;
    if (ret == 0) {
        ret = reserve_items(self, self->wants_flow_queues, sizeof(*self->flow_queues), (uint32_t) n_hops,
            &self->n_flow_queues, &flow_queues);
        self->flow_queues = flow_queues;
    }
    return ret;
}

/* S-10: order of a node of a kind and of its `entity`th entity, at one instant. */
static uint64_t
order_of(const ecc_engine_t *self, uint32_t kind, uint32_t entity)
{
    bool has_slot = kind != ECC_EVENT_DEPARTURE && kind != ECC_EVENT_HOP && kind != ECC_EVENT_INTERVAL;
    uint32_t before = kind == ECC_EVENT_START; /* the START of the next transfer comes before those of slots */
    uint64_t number = entity;

    if (has_slot && entity >= self->n_flows + before) {
        number = (uint64_t) self->flows[entity - before].number + before;
    }
    return (uint64_t) kind << ORDER_KIND | number;
}

/* Order of all nodes of the kinds from `first` to before `last`; NULL without transfers. */
static int
make_order(ecc_engine_t *self, uint32_t room, uint32_t first, uint32_t last, uint32_t n_nodes, uint64_t **order)
{
    void *block = NULL;
    uint32_t node = 0;
    int ret = 0;

    if (self->transfers.n_templates > 0) {
        ret = ecc_memory_resize(&self->memory, 0, ecc_calendar_order_size(n_nodes), &block);
    }
    *order = block;
    for (uint32_t kind = first; kind < last && block != NULL; kind++) {
        for (uint32_t k = 0; k < nodes_of(self, kind, room); k++) {
            (*order)[node++] = order_of(self, kind, k);
        }
    }
    return ret;
}

void
ecc_tables_order_slot(ecc_engine_t *self, uint32_t slot)
{
    for (uint32_t kind = ECC_EVENT_ACCESS; kind < ECC_N_EVENT_KINDS; kind++) {
        uint32_t entity = self->n_flows + slot + (kind == ECC_EVENT_START);
        ecc_calendar_t *calendar = kind < ECC_FIRST_SLOW_EVENT ? &self->fast : &self->slow;
        if (kind != ECC_EVENT_INTERVAL && entity < nodes_of(self, kind, self->room)) {
            calendar->order[self->base[kind] + entity] = order_of(self, kind, entity);
        }
    }
}

static int
reserve_nodes(ecc_engine_t *self, uint32_t room)
{
    const uint32_t n_fast_kinds = ECC_FIRST_SLOW_EVENT;
    const uint32_t n_slow_kinds = ECC_N_EVENT_KINDS - n_fast_kinds;
    uint32_t base[ECC_N_EVENT_KINDS];
    uint32_t *slow_base = base + n_fast_kinds;
    uint32_t n_fast;
    uint32_t n_slow;
    uint64_t *order;
    int ret;

    number_nodes(self, room, base, &n_fast, &n_slow);
    ret = make_order(self, room, 0, n_fast_kinds, n_fast, &order);
    if (ret == 0) {
        ret = ecc_calendar_renumber(
            &self->fast, &self->memory, n_fast, 2 * n_fast, n_fast_kinds, self->base, base, order);
    }
    if (ret != 0) {
        return ret;
    }
    memcpy(self->base, base, n_fast_kinds * sizeof(*base));
    ecc_ahead_init(self);
    ret = make_order(self, room, n_fast_kinds, ECC_N_EVENT_KINDS, n_slow, &order);
    if (ret == 0) {
        ret = ecc_calendar_renumber(
            &self->slow, &self->memory, n_slow, n_slow, n_slow_kinds, self->base + n_fast_kinds, slow_base, order);
    }
    if (ret != 0) {
        return ret;
    }
    memcpy(self->base + n_fast_kinds, slow_base, n_slow_kinds * sizeof(*base));
    return 0;
}

int
ecc_tables_reserve(ecc_engine_t *self, uint32_t room)
{
    uint32_t n_slots = room - self->n_flows;
    int ret = reserve_states(self, room);

    if (ret == 0) {
        ret = reserve_receivers(self, room);
    }
    if (ret == 0) {
        ret = reserve_transports(self, room);
    }
    if (ret == 0) {
        ret = reserve_racks(self, room);
    }
    if (ret == 0) {
        ret = reserve_quics(self, room);
    }
    if (ret == 0) {
        ret = reserve_pacers(self, room);
    }
    if (ret == 0) {
        ret = reserve_prrs(self, room);
    }
    if (ret == 0) {
        ret = reserve_alarms(self, room);
    }
    if (ret == 0) {
        ret = reserve_phases(self, room);
    }
    if (ret == 0) {
        ret = reserve_records(self, n_slots);
    }
    if (ret == 0) {
        ret = reserve_hops(self, n_slots);
    }
    if (ret == 0) {
        ret = reserve_nodes(self, room);
    }
    if (ret == 0 && self->cut != NULL) {
        ret = ecc_cut_reserve(self, n_slots);
    }
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, self->room);
}
