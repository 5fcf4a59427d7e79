/*
 * In a large network every event waits for memory: the node, the flow or link, its first packet, the next link of that
 * packet or its receiver, and the bucket of the next event of this kind. Each of these holds the address of the next.
 * Therefore an event is looked at several times before it happens, and each look fetches the memory that the look before
 * it has found.
 *
 * Looks change nothing that results depend on. An event that is inserted before one that was looked at is not fetched,
 * as the insertion has just touched the same memory; that of a wire fetches the target of its packet.
 *
 * Not here: the calendar itself (calendar.c).
 */

#include "host/ahead.h"

#include "host/segments.h"

#ifdef NDEBUG
#define MIN_BYTES ((size_t) 1 << 20) /* minimum size of the state for looks: a near cache holds a smaller one */
#else
#define MIN_BYTES ((size_t) 1) /* debug builds test looks in all networks */
#endif
#define LEAD 20u       /* maximum number of events that were looked at and have not happened */
#define DAYS 32u       /* maximum number of days between now and the first look */
#define MOST_LOOKS 3   /* maximum number of first looks in one event */
#define MOST_LINES 12u /* maximum number of lines of a flow's record that are fetched */

/* gcc removes calls of a function that only fetches, as it has no visible effect, unless the call is inlined. */
#define FETCHES static inline __attribute__((always_inline))

enum look { LOOK_AT_ENTITY, LOOK_AT_PACKET, LOOK_AT_NEXT, LOOK_AT_TARGET, LOOK_BEHIND_TARGET };

/* Number of events between the first look at an event and each look. */
static const uint32_t lags[] = { 0, 4, 7, 10, 13 };

FETCHES void
fetch(const void *memory, size_t size)
{
    uintptr_t at = (uintptr_t) memory; /* may be NULL */
    uintptr_t end = at + size;

    for (at -= at % ECC_CACHE_LINE; at < end; at += ECC_CACHE_LINE) {
        __builtin_prefetch((const void *) at);
    }
}

FETCHES void
fetch_packet(const ecc_engine_t *self, uint32_t id)
{
    if (id != ECC_NO_PACKET) {
        fetch(ecc_packets_at(&self->packets, id), self->packets.stride);
    }
}

FETCHES void
fetch_bucket(const ecc_engine_t *self, ecc_ps_t time)
{
    fetch(&self->fast.buckets[ecc_calendar_bucket(&self->fast, time)], sizeof(ecc_bucket_t));
}

FETCHES void
fetch_link(const ecc_engine_t *self, uint32_t index)
{
    fetch(&self->links[index], 3 * ECC_CACHE_LINE);
}

FETCHES void
fetch_flow(const ecc_engine_t *self, uint32_t index)
{
    if (self->transports == NULL) {
        fetch(&self->flows[index], 3 * ECC_CACHE_LINE);
    } else {
        fetch(&self->flows[index], 4 * ECC_CACHE_LINE);
        fetch(&self->transports[index], sizeof(ecc_transport_t));
    }
    if (self->racks != NULL) {
        fetch(&self->racks[index], sizeof(ecc_rack_t));
    }
}

/* Memory to which the record of a flow leads. */
FETCHES void
fetch_behind_flow(const ecc_flow_state_t *flow)
{
    if (flow->reliable && flow->kind == ECC_ANY) {
        fetch(flow->spec, sizeof(ecc_flow_t));
    }
}

/* Where a packet goes from the end of this wire, or from its access line: the next link, or the receiver. */
FETCHES void
fetch_target(const ecc_engine_t *self, const ecc_packet_t *packet, bool is_on_wire)
{
    uint32_t hop = self->hops[packet->position];

    if (is_on_wire && (hop & ECC_HOP_END) == ECC_END_HOST) {
        fetch_flow(self, packet->flow);
    } else {
        fetch_link(self, self->hops[packet->position + is_on_wire] >> ECC_HOP_LINK);
    }
}

FETCHES void
fetch_behind_target(const ecc_engine_t *self, const ecc_packet_t *packet, bool is_on_wire)
{
    uint32_t hop = self->hops[packet->position];

    if (is_on_wire && (hop & ECC_HOP_END) == ECC_END_HOST) {
        const ecc_flow_state_t *flow = &self->flows[packet->flow];
        fetch_behind_flow(flow);
        fetch_packet(self, flow->acks.tail);
    } else {
        const ecc_link_state_t *link = &self->links[self->hops[packet->position + is_on_wire] >> ECC_HOP_LINK];
        if (link->ring.capacity > 0) {
            fetch(ecc_ring_at(&link->ring, 0), 1);
            fetch(ecc_ring_at(&link->ring, link->ring.count), 1);
        }
        if (link->state != NULL) {
            fetch(link->state, 1);
        }
        if (link->wire.head != ECC_NO_PACKET) {
            fetch_packet(self, link->wire.tail);
        }
    }
}

FETCHES void
look_at_list(const ecc_engine_t *self, uint32_t head, bool is_on_wire, enum look look)
{
    const ecc_packet_t *packet;

    if (head == ECC_NO_PACKET) {
        return;
    }
    packet = ecc_packets_at(&self->packets, head);
    if (look == LOOK_AT_PACKET) {
        fetch(packet, self->packets.stride);
    } else if (look == LOOK_AT_NEXT) {
        fetch_bucket(self, packet->next_time);
        fetch(&self->hops[packet->position], 2 * sizeof(*self->hops));
    } else if (look == LOOK_AT_TARGET) {
        fetch_target(self, packet, is_on_wire);
    } else {
        fetch_behind_target(self, packet, is_on_wire);
    }
}

FETCHES void
look_at_send(const ecc_engine_t *self, uint32_t index, enum look look)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (look == LOOK_AT_PACKET) {
        fetch(flow->state, self->ahead.state_size);
        fetch_behind_flow(flow);
        fetch_packet(self, flow->access.tail);
        fetch_bucket(self, self->fast.nodes[self->base[ECC_EVENT_SEND] + index].time + flow->pacing_gap);
    } else if (look == LOOK_AT_NEXT && flow->has_rack && self->racks[index].room > 0) {
        const ecc_rack_t *rack = &self->racks[index];
        fetch(&rack->items[(rack->first + rack->count) & (rack->room - 1)], sizeof(*rack->items));
    }
}

FETCHES void
look_at_ack(const ecc_engine_t *self, uint32_t index, enum look look)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    const ecc_packet_t *packet;

    if (look == LOOK_AT_PACKET) {
        fetch(flow->state, self->ahead.state_size);
        fetch_behind_flow(flow);
        fetch_packet(self, flow->acks.head);
        return;
    }
    if (flow->acks.head == ECC_NO_PACKET) {
        return;
    }
    packet = ecc_packets_at(&self->packets, flow->acks.head);
    if (look == LOOK_AT_NEXT) {
        fetch_bucket(self, packet->next_time);
        if (flow->uses_sack) {
            fetch(ecc_sacks_at(&self->sacks, ecc_state_ack_info(self, packet)->sack), sizeof(ecc_sack_t));
        }
        if (flow->has_rack && self->racks[index].room > 0) {
            fetch(ecc_segments_in_place(&self->racks[index], 0), sizeof(ecc_sent_t));
        }
    } else if (look == LOOK_AT_TARGET && flow->has_rack && self->racks[index].count > 0) {
        const ecc_sack_t *sack = ecc_sacks_at(&self->sacks, ecc_state_ack_info(self, packet)->sack);
        const ecc_sent_t *first = ecc_segments_in_place(&self->racks[index], 0);
        if (sack->blocks[0].begin > first->begin) {
            int64_t place = (sack->blocks[0].begin - first->begin) / first->size;
            fetch(ecc_segments_in_place(&self->racks[index], (uint32_t) place), sizeof(ecc_sent_t));
        }
    }
}

FETCHES void
look_at_flow(const ecc_engine_t *self, uint32_t index, uint32_t id, enum look look)
{
    if (look == LOOK_AT_ENTITY) {
        fetch_flow(self, index);
    } else if (id < self->base[ECC_EVENT_ACK]) {
        look_at_list(self, self->flows[index].access.head, false, look);
    } else if (id < self->base[ECC_EVENT_SEND]) {
        look_at_ack(self, index, look);
    } else {
        look_at_send(self, index, look);
    }
}

FETCHES void
look_at(const ecc_engine_t *self, uint32_t id, enum look look)
{
    const uint32_t *base = self->base;

    if (look == LOOK_AT_ENTITY) {
        fetch(&self->fast.nodes[id], sizeof(ecc_node_t));
    }
    if (id < base[ECC_EVENT_ACCESS]) {
        uint32_t link = id < base[ECC_EVENT_HOP] ? id : id - base[ECC_EVENT_HOP];
        if (look == LOOK_AT_ENTITY) {
            fetch_link(self, link);
        } else {
            look_at_list(self, self->links[link].wire.head, true, look);
        }
    } else {
        uint32_t flow = id
            - (id >= base[ECC_EVENT_SEND]       ? base[ECC_EVENT_SEND]
                    : id >= base[ECC_EVENT_ACK] ? base[ECC_EVENT_ACK]
                                                : base[ECC_EVENT_ACCESS]);
        look_at_flow(self, flow, id, look);
    }
}

/* Finds the next event after those looked at, and its time; false if it is too far ahead. */
static inline bool
find_next(ecc_engine_t *self, uint32_t *id, ecc_ps_t *time)
{
    ecc_calendar_t *fast = &self->fast;
    ecc_ahead_t *ahead = &self->ahead;
    uint64_t today = (uint64_t) fast->clock >> fast->shift;

    if (ahead->first == ahead->end) { /* nothing is known of the next event */
        *id = fast->first;
        *time = fast->first_time;
        ahead->day = (uint64_t) *time >> fast->shift;
        return *id < ECC_CALENDAR_EMPTY;
    }
    *id = fast->nodes[ahead->nodes[(ahead->end - 1) % ECC_N_AHEAD]].next;
    if (*id != ECC_NO_NODE) {
        *time = fast->nodes[*id].time;
        if ((uint64_t) *time >> fast->shift == ahead->day) {
            return true;
        }
    }
    ahead->day = ahead->day > today ? ahead->day : today; /* the length of days has changed */
    while (ahead->day < today + DAYS) {
        ecc_bucket_t *bucket = &fast->buckets[++ahead->day & (fast->n_buckets - 1)];
        if (bucket->head != ECC_NO_NODE && (uint64_t) bucket->time >> fast->shift == ahead->day) {
            if (bucket->is_unsorted) {
                ecc_calendar_sort(fast, bucket);
            }
            *id = bucket->head;
            *time = bucket->time;
            return true;
        }
    }
    return false;
}

void
ecc_ahead_fetch(ecc_engine_t *self)
{
    ecc_ahead_t *ahead = &self->ahead;

    while (ahead->first != ahead->end
        && self->fast.nodes[ahead->nodes[ahead->first % ECC_N_AHEAD]].time
            != ahead->times[ahead->first % ECC_N_AHEAD]) {
        ahead->first++;
    }
    for (int k = 0; k < MOST_LOOKS && ahead->end - ahead->first < LEAD; k++) {
        uint32_t id;
        ecc_ps_t time;
        if (!find_next(self, &id, &time)) {
            break;
        }
        ahead->nodes[ahead->end % ECC_N_AHEAD] = id;
        ahead->times[ahead->end % ECC_N_AHEAD] = time;
        look_at(self, id, LOOK_AT_ENTITY);
        look_at(self, ahead->nodes[(ahead->end - lags[LOOK_AT_PACKET]) % ECC_N_AHEAD], LOOK_AT_PACKET);
        look_at(self, ahead->nodes[(ahead->end - lags[LOOK_AT_NEXT]) % ECC_N_AHEAD], LOOK_AT_NEXT);
        look_at(self, ahead->nodes[(ahead->end - lags[LOOK_AT_TARGET]) % ECC_N_AHEAD], LOOK_AT_TARGET);
        look_at(self, ahead->nodes[(ahead->end - lags[LOOK_BEHIND_TARGET]) % ECC_N_AHEAD], LOOK_BEHIND_TARGET);
        ahead->end++;
    }
}

void
ecc_ahead_of_wire(const ecc_engine_t *self, const ecc_link_state_t *link, ecc_ps_t time)
{
    if ((uint64_t) time >> self->fast.shift <= self->ahead.day) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, link->wire.head);
        fetch_packet(self, packet->next);
        fetch_target(self, packet, true);
        __asm__ volatile(""); /* else gcc removes the call */
    }
}

/* Bytes of the record of a flow; records of flows of one kind follow each other. */
static size_t
state_size(const ecc_engine_t *self)
{
    size_t size = MOST_LINES * ECC_CACHE_LINE;

    if (self->transfers.record_size > 0 && self->transfers.record_size < size) {
        size = self->transfers.record_size;
    }
    for (uint32_t i = 1; i < self->n_flows; i++) {
        uintptr_t gap = (uintptr_t) self->flow_specs[i].state - (uintptr_t) self->flow_specs[i - 1].state;
        size = gap > 0 && gap < size ? gap : size;
    }
    return size;
}

void
ecc_ahead_init(ecc_engine_t *self)
{
    size_t record = state_size(self);
    size_t flow = 3 * ECC_CACHE_LINE + record;

    if (self->transports != NULL) {
        flow += ECC_CACHE_LINE + sizeof(ecc_transport_t) + sizeof(ecc_flow_t);
    }
    if (self->racks != NULL) {
        flow += sizeof(ecc_rack_t);
    }
    self->ahead = (ecc_ahead_t) { .state_size = record,
        .is_on = self->room * flow + self->n_links * 3 * ECC_CACHE_LINE >= MIN_BYTES };
}
