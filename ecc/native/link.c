#include "link.h"

#include <math.h>
#include <string.h>

#include "flow.h"

void
ecc_link_init(ecc_engine_t *self, uint32_t index, const ecc_link_t *is, uint64_t seed)
{
    ecc_link_state_t *link = &self->links[index];

    ecc_ring_init(&link->ring);
    link->wire = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    link->random = ecc_random_stream(seed, index);
    link->is = *is;
}

static uint32_t
node(const ecc_engine_t *self, enum ecc_kind kind, uint32_t link)
{
    return self->base[kind] + link;
}

static int
call(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook, void *header, int64_t packet_size,
    int64_t kind, int64_t flow, int64_t flow_queue)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_link_env_t *env = &self->link_env;
    int32_t ret;

    env->now = ecc_state_seconds(self->now);
    env->capacity = link->is.capacity;
    env->buffer = link->is.buffer;
    env->queue = link->queue;
    env->queue_low = link->queue_low;
    env->packet_size = packet_size;
    env->kind = kind;
    env->flow = flow;
    env->link = index;
    env->flow_queue = link->is.wants_flow_queue ? flow_queue : 0;
    env->random = link->is.wants_random ? ecc_random_next(&link->random) : 0.0;
    env->drop = 0;
    env->next_interval = link->next_interval;
    ret = hook(link->is.state, header, link->is.params, env);
    if (ret != 0) {
        return ecc_state_fail(self, ECC_ERR_HOOK_FAILED, ECC_OF_LINK, index, hook_number, ret);
    }
    if (env->next_interval != link->next_interval) {
        if (isnan(env->next_interval)) {
            return ecc_state_fail(self, ECC_ERR_INTERVAL, ECC_OF_LINK, index, hook_number, env->next_interval);
        }
        link->next_interval = env->next_interval;
    }
    return 0;
}

static int
call_without_packet(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook)
{
    memset(self->scratch, 0, self->header_size);
    return call(self, index, hook_number, hook, self->scratch, 0, 0, -1, 0);
}

static void
set_clock(ecc_engine_t *self, uint32_t index)
{
    double interval = self->links[index].next_interval;

    if (interval > 0.0) {
        ecc_ps_t wait = ecc_state_ps(interval);
        ecc_calendar_insert(
            &self->slow, node(self, ECC_INTERVAL, index), ecc_state_add(self->now, wait < 1 ? 1 : wait));
    }
}

int
ecc_link_start(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    int ret = 0;

    if (link->is.on_start != NULL) {
        ret = call_without_packet(self, index, ECC_LINK_ON_START, link->is.on_start);
        if (ret != 0) {
            return ret;
        }
    }
    if (link->is.first_interval >= 0) {
        ecc_calendar_insert(&self->slow, node(self, ECC_INTERVAL, index), link->is.first_interval);
    } else {
        set_clock(self, index);
    }
    return ret;
}

int
ecc_link_interval(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    int ret = 0;

    ecc_link_catch_up(self, link);
    ecc_state_trace(self, ECC_INTERVAL, index, link->queue);
    if (link->is.on_interval != NULL) {
        ret = call_without_packet(self, index, ECC_LINK_ON_INTERVAL, link->is.on_interval);
        if (ret != 0) {
            return ret;
        }
    }
    link->queue_low = link->queue;
    set_clock(self, index);
    return ret;
}

/* The first packet leaves the queue. */
static void
leave(ecc_engine_t *self, ecc_link_state_t *link)
{
    const ecc_queued_t *first = ecc_ring_at(&link->ring, 0);

    link->queue -= first->size;
    if (link->queue < link->queue_low) {
        link->queue_low = link->queue;
    }
    if (self->flow_queues != NULL) {
        self->flow_queues[first->position] -= first->size;
    }
    ecc_ring_drop_first(&link->ring);
}

void
ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link)
{
    if (link->is.on_departure == NULL) {
        while (link->ring.count > 0 && ecc_ring_at(&link->ring, 0)->leaves <= self->now) {
            leave(self, link);
        }
    }
}

/* A packet leaves the wire at `time`: it goes where it will be waited for. */
static void
put_on_wire(ecc_engine_t *self, uint32_t index, uint32_t id, ecc_ps_t time)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t end = self->hops[packet->position] & ECC_HOP_END;

    if (end == ECC_END_ECHO || end == ECC_END_SENDER) {
        ecc_flow_return(self, id, time);
        return;
    }
    if (ecc_packets_append(&self->packets, &link->wire, id, time)) {
        ecc_calendar_insert(&self->fast, node(self, ECC_HOP, index), time);
    }
}

static int
drop(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, int64_t kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int ret = 0;

    link->dropped++;
    link->dropped_bytes += size;
    ecc_state_trace(self, ECC_DROP, index, packet->offset);
    if (link->is.on_drop != NULL) {
        int64_t flow_queue = self->flow_queues == NULL ? 0 : self->flow_queues[packet->position];
        ret = call(self, index, ECC_LINK_ON_DROP, link->is.on_drop, ecc_packets_header(packet), size, kind,
            packet->flow, flow_queue);
    }
    ecc_packets_give_back(&self->packets, id);
    return ret;
}

int
ecc_link_arrive(ecc_engine_t *self, uint32_t id)
{
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t position = packet->position;
    uint32_t hop = self->hops[position];
    uint32_t index = hop >> ECC_HOP_LINK;
    int kind = (hop & ECC_HOP_IS_ACK) != 0;
    ecc_link_state_t *link = &self->links[index];
    int64_t size = kind == 0 ? packet->size : self->flows[packet->flow].is->ack_size;
    int ret;

    ecc_link_catch_up(self, link);
    link->arrived += size;
    if (link->is.on_arrival != NULL) {
        int64_t flow_queue = self->flow_queues == NULL ? 0 : self->flow_queues[position];
        ret = call(self, index, ECC_LINK_ON_ARRIVAL, link->is.on_arrival, ecc_packets_header(packet), size, kind,
            packet->flow, flow_queue);
        if (ret != 0) {
            return ret;
        }
        if (self->link_env.drop != 0) {
            return drop(self, index, id, size, kind);
        }
    }
    if (link->is.buffer >= 0 && link->queue + size > link->is.buffer) {
        return drop(self, index, id, size, kind);
    }
    if (link->tx_size[kind] != size) {
        link->tx_size[kind] = size;
        link->tx_time[kind] = ecc_state_tx(size, link->is.capacity);
    }
    link->free_at = ecc_state_add(link->free_at > self->now ? link->free_at : self->now, link->tx_time[kind]);
    ret = ecc_ring_append(
        &link->ring, &self->memory, (ecc_queued_t) { link->free_at, id, (int32_t) size, position, 0 });
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_OF_LINK, index, ECC_NO_HOOK, link->ring.count);
    }
    link->queue += size;
    if (link->queue > link->queue_peak) {
        link->queue_peak = link->queue;
    }
    if (self->flow_queues != NULL) {
        self->flow_queues[position] += size;
    }
    if (link->is.on_departure == NULL) {
        put_on_wire(self, index, id, ecc_state_add(link->free_at, link->is.delay));
    } else if (link->ring.count == 1) {
        ecc_calendar_insert(&self->fast, node(self, ECC_DEPARTURE, index), link->free_at);
    }
    return 0;
}

int
ecc_link_departure(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_queued_t first = *ecc_ring_at(&link->ring, 0);
    ecc_packet_t *packet = ecc_packets_at(&self->packets, first.packet);
    int kind = (self->hops[first.position] & ECC_HOP_IS_ACK) != 0;
    int64_t flow_queue;
    int ret;

    ecc_state_trace(self, ECC_DEPARTURE, index, packet->offset);
    leave(self, link);
    if (link->ring.count > 0) {
        ecc_calendar_insert(&self->fast, node(self, ECC_DEPARTURE, index), ecc_ring_at(&link->ring, 0)->leaves);
    }
    flow_queue = self->flow_queues == NULL ? 0 : self->flow_queues[first.position];
    ret = call(self, index, ECC_LINK_ON_DEPARTURE, link->is.on_departure, ecc_packets_header(packet), first.size, kind,
        packet->flow, flow_queue);
    if (ret != 0) {
        return ret;
    }
    put_on_wire(self, index, first.packet, ecc_state_add(self->now, link->is.delay));
    return 0;
}

int
ecc_link_hop(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t id = link->wire.head;
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t end = self->hops[packet->position] & ECC_HOP_END;

    ecc_state_trace(self, ECC_HOP, index, packet->offset);
    link->wire.head = packet->next;
    if (link->wire.head != ECC_NO_PACKET) {
        ecc_calendar_insert(&self->fast, node(self, ECC_HOP, index), packet->next_time);
    }
    if (end == ECC_END_RECEIVER) {
        return ecc_flow_receive(self, id);
    }
    packet->position++;
    return ecc_link_arrive(self, id);
}
