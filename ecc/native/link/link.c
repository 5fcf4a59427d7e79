/*
 * Links (S-20, S-23 to S-34): a queue with one packet in service, and a wire. A packet arrives, is dropped or queued,
 * departs, and reaches the end of the wire, where the next link, the receiver or the sender takes over.
 *
 * Only what a hook or an impairment can observe is an event. Without them a packet is put on the wire when it arrives,
 * for the time at which it will be there, and ecc_link_catch_up lets it leave the queue before the next look at that.
 *
 * Not here: the hooks of routers (router.c), what impairments do (channel.c), and which packet is served next where
 * that is chosen when the one before has left (scheduler.c).
 */

#include "link/link.h"

#include <assert.h>

#include "core/bins.h"
#include "parts/cut.h"
#include "host/flow.h"
#include "link/pause.h"
#include "host/phase.h"
#include "host/receiver.h"
#include "link/router.h"
#include "link/scheduler.h"
#include "link/server.h"

void
ecc_link_init(ecc_engine_t *self, uint32_t index, const ecc_link_t *spec, uint64_t seed)
{
    ecc_link_state_t *link = &self->links[index];

    ecc_ring_init(&link->ring);
    link->wire = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    link->random = ecc_random_stream(seed, index);
    link->spec = *spec;
    link->has_departure_events = spec->on_departure != NULL || spec->on_dequeue != NULL;
    if (index >= self->n_links) { /* an additional router: the last of its link */
        ecc_link_state_t *last = &self->links[spec->at];
        last->has_departure_events = last->has_departure_events || link->has_departure_events;
        while (last->next != 0) {
            last = &self->links[last->next];
        }
        last->next = index;
    } else {
        link->spec.at = index;
        link->has_departure_events = link->has_departure_events || spec->impairment > 0;
    }
    link->advertised_capacity = spec->capacity;
    link->max_bytes = spec->buffer >= 0 ? spec->buffer : INT64_MAX;
    link->buffer = spec->buffer >= 0 ? spec->buffer : -1;
    link->max_packets
        = spec->buffer_packets > 0 && spec->buffer_packets < UINT32_MAX ? (uint32_t) spec->buffer_packets : UINT32_MAX;
    link->delay = spec->delay;
    link->capacity = spec->capacity;
    link->state = spec->state;
    link->params = spec->params;
    link->on_arrival = spec->on_arrival;
    link->header_offset = (uint16_t) spec->header_offset;
    link->wants_flow_queue = spec->wants_flow_queue != 0;
    link->wants_random = spec->wants_random != 0;
}

void
ecc_link_set_plain(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        link->is_plain = link->next == 0 && link->queues == NULL && !link->schedules && link->channel == NULL
            && !link->has_changes && !link->wants_random && self->flow_queues == NULL && !self->wants_ecn;
    }
}

static uint32_t
node(const ecc_engine_t *self, enum ecc_event_kind kind, uint32_t link)
{
    return self->base[kind] + link;
}

ECC_COLD double
ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link)
{
    while (link->next_change < link->n_changes && link->changes[link->next_change].time <= self->now) {
        double capacity = link->changes[link->next_change].capacity;
        link->advertised_capacity = capacity > 0.0 ? capacity : link->advertised_capacity;
        link->next_change++;
    }
    return link->advertised_capacity;
}

/* S-26. */
static ecc_ps_t
serve_changing(ecc_link_state_t *link, ecc_ps_t from, int64_t size)
{
    double bits = (double) size * 8.0;

    for (;;) {
        double capacity;
        ecc_ps_t end;
        while (link->next_served < link->n_changes && link->changes[link->next_served].time <= from) {
            link->next_served++;
        }
        capacity = link->next_served == 0 ? link->capacity : link->changes[link->next_served - 1].capacity;
        end = link->next_served == link->n_changes ? ECC_NEVER : link->changes[link->next_served].time;
        if (capacity > 0.0) {
            ecc_ps_t wait = ecc_state_round(bits / capacity * 1e12);
            wait = wait < 1 ? 1 : wait;
            if (wait <= end - from) {
                return from + wait;
            }
            bits -= capacity * ecc_state_seconds(end - from);
            bits = bits > 0.0 ? bits : 0.0;
        }
        if (end == ECC_NEVER) {
            return ECC_NEVER;
        }
        from = end;
    }
}

/* S-155 to S-159: when a packet leaves that may be served from `from` on. */
static ecc_ps_t
serve_by(const ecc_engine_t *self, ecc_server_state_t *server, ecc_link_state_t *link, ecc_ps_t from, int64_t size)
{
    const ecc_server_t *spec = &server->spec;
    ecc_ps_t arrived = self->now - link->sojourn;
    ecc_ps_t begins = from;

    if (from >= ECC_NEVER) {
        return ECC_NEVER;
    }
    if (spec->slot_hi > 0) { /* the one before it may await its slot */
        begins = server->done > arrived ? server->done : arrived;
    }
    if (spec->rate > 0.0) {
        begins = ecc_server_shape(server, begins, size);
    }
    server->done = spec->n_opportunities > 0 ? ecc_server_use(server, begins, arrived, size)
        : link->has_changes                  ? serve_changing(link, begins, size)
                                             : ecc_state_add(begins, ecc_state_tx(size, link->capacity));
    if (spec->slot_hi > 0) {
        const ecc_slots_spec_t slots = { spec->slot_lo, spec->slot_hi, spec->slot_packets, spec->slot_bytes };
        ecc_ps_t ready = server->done > from ? server->done : from;
        return ecc_slots_out(&server->slots, &slots, &server->random, ready, size);
    }
    return server->done;
}

/* When the last bit of a packet leaves, whose first is served at `from`; the transmission time of its size is kept. */
static ECC_COLD ecc_ps_t
serve(ecc_engine_t *self, uint32_t index, ecc_ps_t from, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_server_state_t *server = ecc_server_of(self, index);

    if (server != NULL) {
        return serve_by(self, server, link, from, size);
    }
    if (link->has_changes) {
        return serve_changing(link, from, size);
    }
    if (link->spec.phase_jitter != 0) {
        return ecc_state_add(from, ecc_phase_transmission(self, index, from, size));
    }
    link->tx_size[kind] = (int32_t) size;
    link->tx_time[kind] = ecc_state_tx(size, link->capacity);
    return ecc_state_add(from, link->tx_time[kind]);
}

ECC_COLD void
ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time)
{
    ecc_ps_t span = time - link->measured_until;

    link->area += (ecc_wide_t) link->queue * span;
    link->measured_until = time;
    if (link->histogram != NULL) {
        link->histogram[ecc_bin(link->queue)] += span;
    }
}

static ECC_HOT void
grow(ecc_link_state_t *link, int64_t size)
{
    link->queue += size;
    if (link->queue > link->queue_peak) {
        link->queue_peak = link->queue;
    }
}

static ECC_HOT void
shrink(ecc_link_state_t *link, int64_t size)
{
    link->queue -= size;
    if (link->queue < link->queue_low) {
        link->queue_low = link->queue;
    }
}

void
ecc_link_grow(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position)
{
    grow(link, size);
    if (self->flow_queues != NULL) {
        self->flow_queues[position] += size;
    }
}

void
ecc_link_shrink(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position)
{
    shrink(link, size);
    for (uint32_t i = link->next; i != 0; i = self->links[i].next) {
        if (link->queue < self->links[i].queue_low) {
            self->links[i].queue_low = link->queue;
        }
    }
    if (self->flow_queues != NULL) {
        self->flow_queues[position] -= size;
    }
}

static uint32_t
position_of(const ecc_engine_t *self, const ecc_link_state_t *link, const ecc_queued_t *item)
{
    return link->has_departure_events ? ecc_packets_at(&self->packets, item->of)->position : item->of;
}

/* S-28: the first packet leaves the queue. */
static ECC_HOT void
leave(ecc_engine_t *self, ecc_link_state_t *link, bool plain)
{
    const ecc_queued_t *first = ecc_ring_at(&link->ring, 0);

    if (link->measures_queue) {
        ecc_link_measure(link, first->leaves);
    }
    ECC_DEBUG(link->count.departed++);
    ECC_DEBUG(link->count.departed_bytes += first->size);
    if (plain) {
        shrink(link, first->size);
    } else {
        ecc_link_shrink(self, link, first->size, self->flow_queues == NULL ? 0 : position_of(self, link, first));
    }
    ecc_ring_drop_first(&link->ring);
}

static ECC_HOT void
catch_up(ecc_engine_t *self, ecc_link_state_t *link, bool plain)
{
    if (!link->has_departure_events) {
        while (link->ring.count > 0 && ecc_ring_at(&link->ring, 0)->leaves <= self->now) { /* S-29 */
            leave(self, link, plain);
        }
    }
}

void
ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link)
{
    catch_up(self, link, false);
}

/*
 * A packet reaches the end of the wire at `time`: it joins the list of the event that will find it there (S-31 to
 * S-34).
 */
static inline __attribute__((always_inline)) int
put_on_wire(ecc_engine_t *self, uint32_t index, uint32_t id, ecc_ps_t time)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t end = self->hops[packet->position] & ECC_HOP_END;
    int ret = 0;

    if (self->cut != NULL && ecc_cut_leaves_by_wire(self, id, time, &ret)) {
        return ret;
    }
    if (end == ECC_END_IMMEDIATE_ACK || end == ECC_END_SENDER) {
        ecc_flow_return_ack(self, id, time);
    } else if (ecc_packets_append(&self->packets, &link->wire, id, time)) {
        ecc_calendar_insert(&self->fast, node(self, ECC_EVENT_HOP, index), time);
    }
    return 0;
}

/* A packet enters a wire with an impairment (S-93). */
static ECC_COLD int
impair(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_ps_t time;
    int ret;

    if (ecc_channel_loses(link->channel, kind)) {
        link->lost++;
        link->lost_bytes += size;
        ecc_state_trace(self, ECC_EVENT_LOSS, index, ecc_packets_at(&self->packets, id)->offset);
        return ecc_flow_discard(self, id);
    }
    time = ecc_channel_arrival(link->channel, self->now, link->delay, size);
    if (link->channel->spec->reorders == 0) {
        return put_on_wire(self, index, id, time);
    }
    if (self->cut != NULL && ecc_cut_leaves_by_wire(self, id, time, &ret)) {
        return ret;
    }
    ret = ecc_channel_append(link->channel, &self->memory, &self->packets, &link->wire, &self->fast,
        node(self, ECC_EVENT_HOP, index), id, time);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_LINK, index, ECC_NO_HOOK, link->channel->n_reordered);
}

int
ecc_link_drop(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int ret;
    int gone;

    link->dropped++;
    link->dropped_bytes += size;
    if (link->queues != NULL) {
        link->queues[link->queue_index].dropped++;
    }
    ecc_state_trace(self, ECC_EVENT_DROP, index, packet->offset);
    ret = ecc_router_call(self, index, ECC_LINK_ON_DROP, link->spec.on_drop, packet, packet->position, size, kind);
    gone = ecc_flow_discard(self, id);
    return ret != 0 ? ret : gone;
}

ECC_COLD void
ecc_link_count_mark(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet)
{
    ecc_link_state_t *link = &self->links[index];

    link->marked++;
    if (link->queues != NULL) {
        link->queues[link->queue_index].marked++;
    }
    ecc_state_trace(self, ECC_EVENT_MARK, index, packet->offset);
}

int64_t
ecc_link_size(const ecc_engine_t *self, const ecc_packet_t *packet, uint32_t hop)
{
    const ecc_flow_t *flow = self->flows[packet->flow].spec;

    if (packet->size < 0 && !ecc_packets_is_trimmed(packet->size)) {
        return -packet->size; /* a control packet */
    }
    if ((hop & ECC_HOP_IS_ACK) != 0) {
        return flow->ack_size;
    }
    return packet->size < 0 ? flow->trimmed_size : packet->size + flow->header_bytes;
}

ECC_COLD int64_t
ecc_link_trim(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int64_t trimmed = self->flows[packet->flow].spec->trimmed_size;

    if (kind != ECC_PACKET_DATA || trimmed == 0 || packet->size >= ECC_PACKETS_MAX_SIZE) {
        return 0;
    }
    if (self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    if (size <= trimmed) {
        return size;
    }
    ecc_state_trace(self, ECC_EVENT_TRIM, index, packet->offset);
    packet->size += INT32_MIN;
    link->dropped_bytes += size - trimmed;
    return trimmed;
}

/* Inlined into arrivals, which are frequent: a call costs 5 % of a run without hooks. */
static inline __attribute__((always_inline)) int
transmit(ecc_engine_t *self, uint32_t index, ecc_queued_t item, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_ps_t begins = link->free_at > self->now ? link->free_at : self->now;
    int ret;

    link->free_at = link->tx_size[kind] == item.size ? ecc_state_add(begins, link->tx_time[kind])
                                                     : serve(self, index, begins, item.size, kind);
    item.leaves = link->free_at;
    ret = ecc_ring_append(&link->ring, &self->memory, item);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_LINK, index, ECC_NO_HOOK, link->ring.count);
}

int
ecc_link_transmit(ecc_engine_t *self, uint32_t index, ecc_queued_t item, enum ecc_packet_kind kind)
{
    return transmit(self, index, item, kind);
}

static ECC_HOT int
call(ecc_engine_t *self, uint32_t index, enum ecc_link_hook number, ecc_hook_t hook, const ecc_packet_t *packet,
    int64_t size, enum ecc_packet_kind kind, bool plain)
{
    if (!plain) {
        return ecc_router_call(self, index, number, hook, packet, packet->position, size, kind);
    }
    if (hook != NULL) {
        return ecc_router_call_plain(self, index, number, hook, packet, size, kind);
    }
    ecc_router_clear(self);
    return 0;
}

/* S-23.4: a packet joins the queue. */
static ECC_HOT int
join(ecc_engine_t *self, ecc_link_state_t *link, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind,
    bool plain)
{
    uint32_t position = ecc_packets_at(&self->packets, id)->position;
    ecc_queued_t item = { 0, (int32_t) size, link->has_departure_events ? id : position };
    int ret = transmit(self, index, item, kind);

    if (ret != 0) {
        return ret;
    }
    if (plain) {
        grow(link, size);
    } else {
        ecc_link_grow(self, link, size, position);
    }
    if (!link->has_departure_events) {
        return put_on_wire(self, index, id, ecc_state_add(link->free_at, link->delay));
    }
    if (link->ring.count == 1) {
        ecc_calendar_insert(&self->fast, node(self, ECC_EVENT_DEPARTURE, index), link->free_at);
    }
    return 0;
}

/* S-23, at a link that is plain, or at any. */
static ECC_HOT int
arrive(ecc_engine_t *self, ecc_link_state_t *link, uint32_t id, bool plain)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t position = packet->position;
    uint32_t hop = self->hops[position];
    uint32_t index = hop >> ECC_HOP_LINK;
    enum ecc_packet_kind kind = ECC_PACKET_DATA;
    int64_t size = packet->size;
    int64_t trimmed = 0;
    int ret;

    if (size <= 0 || (hop & (ECC_HOP_IS_ACK | ECC_HOP_HEADER)) != 0) {
        kind = ecc_link_kind(packet, hop);
        size = ecc_link_size(self, packet, hop);
    }
    catch_up(self, link, plain);
    link->arrived += size;
    if (link->measures_queue) {
        ecc_link_measure(link, self->now);
        if (link->histogram != NULL) {
            link->histogram[ECC_N_BINS + ecc_bin(link->queue)]++;
        }
    }
    ECC_DEBUG(link->count.arrived++);
    if (!plain && link->schedules) {
        return ecc_scheduler_arrive(self, index, id, size, kind);
    }
    ret = call(self, index, ECC_LINK_ON_ARRIVAL, link->on_arrival, packet, size, kind, plain);
    if (ret == 0 && self->link_env.trim != 0 && self->link_env.drop == 0) {
        trimmed = ecc_link_trim(self, index, id, size, kind);
        if (trimmed == 0) {
            return ecc_link_drop(self, index, id, size, kind);
        }
        size = trimmed;
        kind = ECC_PACKET_TRIMMED;
        ret = call(self, index, ECC_LINK_ON_ARRIVAL, link->on_arrival, packet, size, kind, plain);
    }
    if (ret != 0) {
        return ret;
    }
    if (self->link_env.drop != 0 || link->queue + size > link->max_bytes || link->ring.count >= link->max_packets) {
        return ecc_link_drop(self, index, id, size, kind);
    }
    if (!plain && self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    return join(self, link, index, id, size, kind, plain);
}

int
ecc_link_arrive(ecc_engine_t *self, uint32_t id)
{
    uint32_t hop = self->hops[ecc_packets_at(&self->packets, id)->position];
    ecc_link_state_t *link = &self->links[hop >> ECC_HOP_LINK];

    return link->is_plain ? arrive(self, link, id, true) : arrive(self, link, id, false);
}

int
ecc_link_queue(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = self->hops[packet->position] >> ECC_HOP_LINK;
    ecc_link_state_t *link = &self->links[index];
    int64_t size = ecc_link_size(self, packet, self->hops[packet->position]);

    link->arrived += size;
    ECC_DEBUG(link->count.arrived++);
    return join(self, link, index, id, size, ECC_PACKET_DATA, false);
}

int
ecc_link_put_on_wire(ecc_engine_t *self, uint32_t id, ecc_ps_t time)
{
    uint32_t hop = self->hops[ecc_packets_at(&self->packets, id)->position];

    return put_on_wire(self, hop >> ECC_HOP_LINK, id, time);
}

/* S-28, with hooks or impairments: the packet in service leaves the queue for the wire. */
static ECC_HOT int
depart(ecc_engine_t *self, ecc_link_state_t *link, uint32_t index, bool plain)
{
    ecc_queued_t first = *ecc_ring_at(&link->ring, 0);
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, first.of);
    enum ecc_packet_kind kind = ecc_link_kind(packet, self->hops[packet->position]);
    int ret = 0;

    ecc_state_trace(self, ECC_EVENT_DEPARTURE, index, packet->offset);
    leave(self, link, plain);
    if (!plain && link->queues != NULL) {
        link->queues[link->in_service].bytes -= first.size;
        link->queue_index = link->in_service;
        if (self->pauses != NULL) {
            ret = ecc_pause_leave(self, packet, first.size);
        }
    } else if (link->ring.count > 0) {
        ecc_calendar_insert(&self->fast, node(self, ECC_EVENT_DEPARTURE, index), ecc_ring_at(&link->ring, 0)->leaves);
    }
    if (ret != 0) {
        return ret;
    }
    ret = call(self, index, ECC_LINK_ON_DEPARTURE, link->spec.on_departure, packet, first.size, kind, plain);
    if (ret != 0) {
        return ret;
    }
    if (!plain && self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    if (!plain && link->channel != NULL) {
        return impair(self, index, first.of, first.size, kind);
    }
    return put_on_wire(self, index, first.of, ecc_state_add(self->now, link->delay));
}

int
ecc_link_departure(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    int ret = 0;

    if (link->is_plain && link->ring.count > 0) {
        return depart(self, link, index, true);
    }
    if (link->ring.count > 0) {
        ret = depart(self, link, index, false);
    } else { /* a frame has come (S-141) */
        ecc_state_trace(self, ECC_EVENT_DEPARTURE, index, -1);
    }
    return ret == 0 && link->queues != NULL ? ecc_scheduler_serve(self, index) : ret;
}

int
ecc_link_hop(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t id = link->wire.head;
    ecc_packet_t *packet;
    uint32_t hop;

    if (link->wire.head != ECC_NO_PACKET) {
        packet = ecc_packets_at(&self->packets, id);
        link->wire.head = packet->next;
        if (link->wire.head != ECC_NO_PACKET) {
            ecc_calendar_insert(&self->fast, node(self, ECC_EVENT_HOP, index), packet->next_time);
        }
    } else { /* the wire reorders */
        id = ecc_channel_pop(link->channel, &self->fast, node(self, ECC_EVENT_HOP, index));
        packet = ecc_packets_at(&self->packets, id);
    }
    ecc_state_trace(self, ECC_EVENT_HOP, index, packet->offset);
    hop = self->hops[packet->position];
    if ((hop & ECC_HOP_END) == ECC_END_HOST) {
        return (hop & ECC_HOP_IS_ACK) != 0 ? ecc_receiver_return(self, id) : ecc_flow_receive(self, id);
    }
    packet->position++;
    return ecc_link_arrive(self, id);
}
