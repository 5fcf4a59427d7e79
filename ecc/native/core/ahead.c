/*
 * In a large network every event waits for memory: the node, the flow or link, its first packet, and the bucket of its
 * next event of this kind. Each of these holds the address of the next. Therefore an event is looked at three times
 * before it happens, and each look fetches the memory that the look before it has found.
 *
 * Looks read the state and change nothing. An event that is inserted after the look at its day is not fetched, as the
 * insertion has just touched the same memory.
 *
 * Not here: the calendar itself (calendar.c).
 */

#include "core/ahead.h"

#define MIN_NODES 65536u     /* minimum size of the calendar for all looks: below it they cost more than they save */
#define MIN_NODES_NEXT 4096u /* minimum for a look at the next event alone: a near cache holds a smaller calendar */
#define DAYS 24u             /* days between now and the first look; a day has one event or half of one */

/* gcc removes calls of a function that only fetches, as it has no visible effect, unless the call is inlined. */
#define FETCHES static inline __attribute__((always_inline))

enum look { LOOK_AT_ENTITY, LOOK_AT_PACKET, LOOK_AT_NEXT };

/* Number of events between the first look at an event and each look. */
static const uint32_t lags[] = { 0, 5, 9 };

enum ecc_fetches
ecc_ahead_fetches(const ecc_engine_t *self)
{
    return self->fast.n_nodes >= MIN_NODES    ? ECC_FETCHES_AHEAD
        : self->fast.n_nodes < MIN_NODES_NEXT ? ECC_FETCHES_NOTHING
                                              : ECC_FETCHES_NEXT;
}

FETCHES void
fetch(const void *memory, size_t n_lines)
{
    for (size_t line = 0; line < n_lines; line++) {
        __builtin_prefetch((const char *) memory + line * ECC_CACHE_LINE);
    }
}

FETCHES void
fetch_packet(const ecc_engine_t *self, uint32_t id)
{
    if (id != ECC_NO_PACKET) {
        fetch(ecc_packets_at(&self->packets, id), 2);
    }
}

FETCHES void
fetch_bucket(const ecc_engine_t *self, ecc_ps_t time)
{
    fetch(&self->fast.buckets[ecc_calendar_bucket(&self->fast, time)], 1);
}

/* Node of the event of the next packet. */
FETCHES void
fetch_next(const ecc_engine_t *self, uint32_t id)
{
    if (id != ECC_NO_PACKET) {
        fetch_bucket(self, ecc_packets_at(&self->packets, id)->next_time);
    }
}

FETCHES void
look_at_link(const ecc_engine_t *self, const ecc_link_state_t *link, enum look look)
{
    if (look == LOOK_AT_ENTITY) {
        fetch(link, 3);
    } else if (look == LOOK_AT_PACKET) {
        fetch_packet(self, link->wire.head);
    } else {
        fetch_next(self, link->wire.head);
    }
}

FETCHES void
look_at_flow(const ecc_engine_t *self, const ecc_flow_state_t *flow, uint32_t id, enum look look)
{
    const uint32_t *base = self->base;

    if (look == LOOK_AT_ENTITY) {
        fetch(flow, 3);
    } else if (id >= base[ECC_EVENT_SEND]) {
        if (look == LOOK_AT_PACKET) {
            fetch_packet(self, flow->access.tail);
            fetch_bucket(self, self->fast.nodes[id].time + flow->pacing_gap);
        }
    } else if (id >= base[ECC_EVENT_ACK]) {
        if (look == LOOK_AT_PACKET) {
            fetch_packet(self, flow->acks.head);
            fetch(flow->state, 1);
        } else {
            fetch_next(self, flow->acks.head);
        }
    } else if (look == LOOK_AT_PACKET) {
        fetch_packet(self, flow->access.head);
        fetch_packet(self, flow->acks.tail);
    } else {
        fetch_next(self, flow->access.head);
    }
}

FETCHES void
look_at(const ecc_engine_t *self, uint32_t id, enum look look)
{
    const uint32_t *base = self->base;

    if (look == LOOK_AT_ENTITY) {
        fetch(&self->fast.nodes[id], 1);
    }
    if (id < base[ECC_EVENT_ACCESS]) {
        look_at_link(self, &self->links[id < base[ECC_EVENT_HOP] ? id : id - base[ECC_EVENT_HOP]], look);
    } else {
        uint32_t flow = id
            - (id >= base[ECC_EVENT_SEND]       ? base[ECC_EVENT_SEND]
                    : id >= base[ECC_EVENT_ACK] ? base[ECC_EVENT_ACK]
                                                : base[ECC_EVENT_ACCESS]);
        look_at_flow(self, &self->flows[flow], id, look);
    }
}

void
ecc_ahead_fetch(ecc_engine_t *self)
{
    const ecc_calendar_t *fast = &self->fast;
    ecc_ahead_t *ahead = &self->ahead;
    uint64_t end = ((uint64_t) fast->clock >> fast->shift) + DAYS;
    uint64_t day = end - ahead->day <= DAYS ? ahead->day : end - DAYS;

    for (; day < end; day++) {
        uint32_t id = fast->buckets[day & (fast->n_buckets - 1)].head;
        if (id != ECC_NO_NODE) {
            ahead->nodes[ahead->n % ECC_N_AHEAD] = id;
            look_at(self, id, LOOK_AT_ENTITY);
            look_at(self, ahead->nodes[(ahead->n - lags[LOOK_AT_PACKET]) % ECC_N_AHEAD], LOOK_AT_PACKET);
            look_at(self, ahead->nodes[(ahead->n - lags[LOOK_AT_NEXT]) % ECC_N_AHEAD], LOOK_AT_NEXT);
            ahead->n++;
        }
    }
    ahead->day = end;
}
