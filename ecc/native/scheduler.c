/*
 * Links that schedule (S-112 to S-115): packets wait, with the time at which they arrived, until the server is free. Then
 * one is taken, on_dequeue may drop it, which takes the next one in the same event, or mark it, and it is served.
 *
 * The ring of such a link has the packet in service only. Packets that wait are in lists, which need no memory.
 *
 * Not here: what other links do, and what is counted at all of them (link.c).
 */

#include "scheduler.h"

#include "link.h"
#include "router.h"

static bool
schedules(const ecc_engine_t *self, uint32_t index)
{
    bool found = self->links[index].spec.on_dequeue != NULL;

    for (uint32_t i = self->links[index].next; i != 0; i = self->links[i].next) {
        found = found || self->links[i].spec.on_dequeue != NULL;
    }
    return found;
}

int
ecc_scheduler_init(ecc_engine_t *self)
{
    size_t n_queues = 0;
    void *block = NULL;
    int ret;

    for (uint32_t i = 0; i < self->n_links; i++) {
        self->links[i].n_queues = schedules(self, i);
        n_queues += self->links[i].n_queues;
    }
    if (n_queues == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, 0, n_queues * sizeof(*self->queues), &block);
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) n_queues);
    }
    self->queues = block;
    self->n_queues = n_queues;
    for (size_t k = 0; k < n_queues; k++) {
        self->queues[k].packets = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    }
    n_queues = 0;
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        if (link->n_queues > 0) {
            link->queues = self->queues + n_queues;
            link->has_departure_events = true;
            n_queues += link->n_queues;
        }
    }
    return 0;
}

void
ecc_scheduler_join(ecc_engine_t *self, uint32_t index, uint32_t number, uint32_t id, ecc_ps_t time)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_queue_t *queue = &link->queues[number];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int64_t size = ecc_link_size(self, packet, self->hops[packet->position]);

    if (ecc_packets_append(&self->packets, &queue->packets, id, time)) {
        queue->since = time;
    }
    queue->bytes += size;
    link->n_waiting++;
    ecc_link_grow(self, link, size, packet->position);
}

int
ecc_scheduler_arrive(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int ret = ecc_router_call(
        self, index, ECC_LINK_ON_ARRIVAL, link->spec.on_arrival, packet, packet->position, size, kind);

    if (ret != 0) {
        return ret;
    }
    if (self->link_env.drop != 0 || link->queue + size > link->max_bytes
        || (int64_t) link->ring.count + link->n_waiting >= link->max_packets) {
        return ecc_link_drop(self, index, id, size, kind);
    }
    if (self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    ecc_scheduler_join(self, index, 0, id, self->now);
    return ecc_scheduler_serve(self, index);
}

/* The first packet of a queue no longer waits; link->sojourn says how long it did. */
static uint32_t
take_first(const ecc_engine_t *self, ecc_link_state_t *link, ecc_queue_t *queue)
{
    uint32_t id = queue->packets.head;
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    link->sojourn = self->now - queue->since;
    queue->packets.head = packet->next;
    queue->since = packet->next_time;
    link->n_waiting--;
    return id;
}

/* The first packet of a queue is served, or dropped by on_dequeue. */
static int
dequeue(ecc_engine_t *self, uint32_t index, uint32_t number)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t id = take_first(self, link, &link->queues[number]);
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t position = packet->position;
    uint32_t hop = self->hops[position];
    enum ecc_packet_kind kind = (hop & ECC_HOP_IS_ACK) != 0 ? ECC_PACKET_ACK : ECC_PACKET_DATA;
    int64_t size = ecc_link_size(self, packet, hop);
    int ret = ecc_router_call(self, index, ECC_LINK_ON_DEQUEUE, link->spec.on_dequeue, packet, position, size, kind);

    if (ret == 0 && self->link_env.drop != 0) {
        if (link->measures_queue) {
            ecc_link_measure(link, self->now);
        }
        link->queues[number].bytes -= size;
        ecc_link_shrink(self, link, size, position);
        ret = ecc_link_drop(self, index, id, size, kind);
    } else if (ret == 0) {
        if (self->link_env.mark != 0) {
            ecc_link_count_mark(self, index, packet);
        }
        ret = ecc_link_transmit(self, index, (ecc_queued_t) { 0, id, (int32_t) size, position, number }, kind);
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_DEPARTURE] + index, link->free_at);
    }
    link->sojourn = 0;
    return ret;
}

int
ecc_scheduler_serve(ecc_engine_t *self, uint32_t index)
{
    const ecc_link_state_t *link = &self->links[index];
    int ret = 0;

    while (ret == 0 && link->ring.count == 0 && link->n_waiting > 0) {
        ret = dequeue(self, index, 0);
    }
    return ret;
}

int
ecc_scheduler_verify(const ecc_engine_t *self, const ecc_link_state_t *link, ecc_bytes_t *bytes)
{
    bool valid = link->ring.count <= 1 && (link->ring.count == 1 || link->n_waiting == 0);
    uint32_t n_waiting = 0;

    for (uint32_t k = 0; k < link->n_queues; k++) {
        const ecc_queue_t *queue = &link->queues[k];
        const ecc_queued_t *served = link->ring.count > 0 ? ecc_ring_at(&link->ring, 0) : NULL;
        ecc_bytes_t in_service = served != NULL && served->queue == k ? served->size : 0;
        ecc_bytes_t waiting = 0;
        ecc_ps_t time = queue->since;
        for (uint32_t id = queue->packets.head; id != ECC_NO_PACKET; n_waiting++) {
            const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
            waiting += ecc_link_size(self, packet, self->hops[packet->position]);
            valid = valid && time <= self->now && (packet->next == ECC_NO_PACKET || packet->next_time >= time);
            time = packet->next_time;
            id = packet->next;
        }
        valid = valid && queue->bytes == waiting + in_service;
        *bytes += waiting;
    }
    return valid && n_waiting == link->n_waiting ? 0 : ECC_ERR_BROKEN;
}
