#include "link.h"

#include <math.h>
#include <string.h>

#include "flow.h"
#include "receiver.h"

void
ecc_link_init(ecc_engine_t *self, uint32_t index, const ecc_link_t *is, uint64_t seed)
{
    ecc_link_state_t *link = &self->links[index];

    ecc_ring_init(&link->ring);
    link->wire = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    link->random = ecc_random_stream(seed, index);
    link->is = *is;
    link->departs = is->on_departure != NULL;
    if (index >= self->n_links) { /* a further router: the last of its link */
        ecc_link_state_t *last = &self->links[is->at];
        last->departs = last->departs || link->departs;
        while (last->next != 0) {
            last = &self->links[last->next];
        }
        last->next = index;
    } else {
        link->is.at = index;
        link->departs = link->departs || is->impairment > 0;
    }
    link->told = is->capacity;
    link->most_bytes = is->buffer >= 0 ? is->buffer : INT64_MAX;
    link->most_packets = is->buffer_packets > 0 ? is->buffer_packets : INT64_MAX;
}

static uint32_t
node(const ecc_engine_t *self, enum ecc_kind kind, uint32_t link)
{
    return self->base[kind] + link;
}

ECC_RARE double
ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link)
{
    while (link->next_change < link->n_changes && link->changes[link->next_change].time <= self->now) {
        double capacity = link->changes[link->next_change].capacity;
        link->told = capacity > 0.0 ? capacity : link->told;
        link->next_change++;
    }
    return link->told;
}

/* serve(from, size) of the text, where capacity changes. */
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
        capacity = link->next_served == 0 ? link->is.capacity : link->changes[link->next_served - 1].capacity;
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

/* When the last bit of a packet leaves, whose first is served at `from`; what packets of this size take is noted. */
static ECC_RARE ecc_ps_t
serve(ecc_link_state_t *link, ecc_ps_t from, int64_t size, int kind)
{
    if (link->changes != NULL) {
        return serve_changing(link, from, size);
    }
    link->tx_size[kind] = size;
    link->tx_time[kind] = ecc_state_tx(size, link->is.capacity);
    return ecc_state_add(from, link->tx_time[kind]);
}

/* Calls a hook of a router at a link; header: the whole of a packet's. */
static inline int
call(ecc_engine_t *self, uint32_t index, uint32_t at, int hook_number, ecc_hook_t hook, unsigned char *header,
    int64_t packet_size, int64_t kind, int64_t flow, int64_t flow_queue)
{
    ecc_link_state_t *router = &self->links[index];
    ecc_link_state_t *link = &self->links[at];
    ecc_link_env_t *env = &self->link_env;
    int32_t ret;

    env->now = ecc_state_seconds(self->now);
    env->capacity = link->changes == NULL ? link->is.capacity : ecc_link_capacity(self, link);
    env->buffer = link->is.buffer;
    env->queue = link->queue;
    env->queue_low = router->queue_low;
    env->packet_size = packet_size;
    env->kind = kind;
    env->flow = flow;
    env->link = at;
    env->flow_queue = router->is.wants_flow_queue ? flow_queue : 0;
    env->random = router->is.wants_random ? ecc_random_next(&router->random) : 0.0;
    env->drop = 0;
    env->next_interval = router->next_interval;
    ret = hook(router->is.state, header + router->is.header_offset, router->is.params, env);
    if (ret != 0) {
        (void) ecc_state_fail(self, ECC_ERR_HOOK_FAILED, ECC_OF_LINK, index, hook_number, ret);
        self->report.failed = 1;
        return ECC_ERR_HOOK_FAILED;
    }
    if (env->next_interval != router->next_interval) {
        if (isnan(env->next_interval)) {
            return ecc_state_fail(self, ECC_ERR_INTERVAL, ECC_OF_LINK, index, hook_number, env->next_interval);
        }
        router->next_interval = env->next_interval;
    }
    return 0;
}

/* Calls a hook of the further routers of a link, after its first; env.drop: whether any of them all has set it. */
static int
call_further(ecc_engine_t *self, uint32_t index, int hook_number, unsigned char *header, int64_t packet_size,
    int64_t kind, int64_t flow, int64_t flow_queue)
{
    int64_t drop = self->link_env.drop;

    for (uint32_t i = self->links[index].next; i != 0; i = self->links[i].next) {
        const ecc_link_t *router = &self->links[i].is;
        ecc_hook_t hook = hook_number == ECC_LINK_ON_ARRIVAL ? router->on_arrival
            : hook_number == ECC_LINK_ON_DEPARTURE           ? router->on_departure
                                                             : router->on_drop;
        if (hook != NULL) {
            int ret = call(self, i, index, hook_number, hook, header, packet_size, kind, flow, flow_queue);
            if (ret != 0) {
                return ret;
            }
            drop |= self->link_env.drop;
        }
    }
    self->link_env.drop = drop;
    return 0;
}

/* Calls a hook of all routers of a link; first: that of the first one, or NULL. */
static inline int
call_all(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t first, const ecc_packet_t *packet,
    uint32_t position, int64_t packet_size, int64_t kind)
{
    unsigned char *header = ecc_packets_header(packet);
    int64_t flow_queue = self->flow_queues == NULL ? 0 : self->flow_queues[position];
    int64_t flow = packet->flow;
    int ret = 0;

    if (first != NULL) {
        ret = call(self, index, index, hook_number, first, header, packet_size, kind, flow, flow_queue);
    } else {
        self->link_env.drop = 0;
    }
    if (ret == 0 && self->links[index].next != 0) {
        ret = call_further(self, index, hook_number, header, packet_size, kind, flow, flow_queue);
    }
    return ret;
}

static int
call_without_packet(ecc_engine_t *self, uint32_t index, int hook_number, ecc_hook_t hook)
{
    memset(self->scratch, 0, self->header_size);
    return call(self, index, (uint32_t) self->links[index].is.at, hook_number, hook, self->scratch, 0, 0, -1, 0);
}

static int
set_clock(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *router = &self->links[index];
    double interval = router->next_interval;
    ecc_ps_t wait = interval > 0.0 ? ecc_state_ps(interval) : ECC_NEVER;

    if (wait >= 1) {
        router->n_hasty = 0;
    } else if (++router->n_hasty == ECC_MOST_HASTY) {
        return ecc_state_fail(self, ECC_ERR_INTERVAL_STUCK, ECC_OF_LINK, index, ECC_LINK_ON_INTERVAL, interval);
    }
    if (interval > 0.0) {
        ecc_calendar_insert(
            &self->slow, node(self, ECC_INTERVAL, index), ecc_state_add(self->now, wait < 1 ? 1 : wait));
    }
    return 0;
}

int
ecc_link_start(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];

    if (link->is.on_start != NULL) {
        int ret = call_without_packet(self, index, ECC_LINK_ON_START, link->is.on_start);
        if (ret != 0) {
            return ret;
        }
    }
    if (link->is.first_interval >= 0) {
        ecc_calendar_insert(&self->slow, node(self, ECC_INTERVAL, index), link->is.first_interval);
        return 0;
    }
    return set_clock(self, index);
}

int
ecc_link_interval(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *router = &self->links[index];
    ecc_link_state_t *link = &self->links[router->is.at];

    ecc_link_catch_up(self, link);
    ecc_state_trace(self, ECC_INTERVAL, index, link->queue);
    if (router->is.on_interval != NULL) {
        int ret = call_without_packet(self, index, ECC_LINK_ON_INTERVAL, router->is.on_interval);
        if (ret != 0) {
            return ret;
        }
    }
    router->queue_low = link->queue;
    return set_clock(self, index);
}

static uint32_t
bin(ecc_bytes_t queue)
{
    uint32_t index = (uint32_t) queue;

    if (queue >= 256) {
        uint32_t shift = 56u - (uint32_t) __builtin_clzll((uint64_t) queue);
        index = shift * 128 + (uint32_t) ((uint64_t) queue >> shift);
    }
    return index < ECC_N_BINS ? index : ECC_N_BINS - 1;
}

ECC_RARE void
ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time)
{
    ecc_ps_t held = time - link->measured;

    link->area += (ecc_wide_t) link->queue * held;
    link->measured = time;
    if (link->histogram != NULL) {
        link->histogram[bin(link->queue)] += held;
    }
}

/* The first packet leaves the queue. */
static void
leave(ecc_engine_t *self, ecc_link_state_t *link)
{
    const ecc_queued_t *first = ecc_ring_at(&link->ring, 0);

    if (link->measures) {
        ecc_link_measure(link, first->leaves);
    }
    ECC_DEBUG(link->count.departed++);
    ECC_DEBUG(link->count.departed_bytes += first->size);
    link->queue -= first->size;
    if (link->queue < link->queue_low) {
        link->queue_low = link->queue;
    }
    for (uint32_t i = link->next; i != 0; i = self->links[i].next) {
        if (link->queue < self->links[i].queue_low) {
            self->links[i].queue_low = link->queue;
        }
    }
    if (self->flow_queues != NULL) {
        self->flow_queues[first->position] -= first->size;
    }
    ecc_ring_drop_first(&link->ring);
}

void
ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link)
{
    if (!link->departs) {
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

/* A packet sets out on a wire that does something to it. */
static ECC_RARE int
impair(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, int kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_ps_t time;
    int ret;

    if (ecc_impairment_loses(link->impaired, kind)) {
        link->lost++;
        link->lost_bytes += size;
        ecc_state_trace(self, ECC_LOSS, index, ecc_packets_at(&self->packets, id)->offset);
        ecc_flow_forget(self, id);
        return 0;
    }
    time = ecc_impairment_passes(link->impaired, self->now, link->is.delay);
    if (link->impaired->is.reorders == 0) {
        put_on_wire(self, index, id, time);
        return 0;
    }
    ret = ecc_impairment_append(
        link->impaired, &self->memory, &self->packets, &link->wire, &self->fast, node(self, ECC_HOP, index), id, time);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_OF_LINK, index, ECC_NO_HOOK, link->impaired->n_late);
}

static int
drop(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, int64_t kind)
{
    ecc_link_state_t *link = &self->links[index];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int ret;

    link->dropped++;
    link->dropped_bytes += size;
    ecc_state_trace(self, ECC_DROP, index, packet->offset);
    ret = call_all(self, index, ECC_LINK_ON_DROP, link->is.on_drop, packet, packet->position, size, kind);
    ecc_flow_forget(self, id);
    return ret;
}

/* The size of a packet on a link where it is not that of its data. */
static int64_t
size_on_link(const ecc_engine_t *self, const ecc_packet_t *packet, uint32_t hop)
{
    const ecc_flow_t *flow = self->flows[packet->flow].is;

    return (hop & ECC_HOP_IS_ACK) != 0 ? flow->ack_size : packet->size + flow->header_bytes;
}

int
ecc_link_arrive(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t position = packet->position;
    uint32_t hop = self->hops[position];
    uint32_t index = hop >> ECC_HOP_LINK;
    int kind = (hop & ECC_HOP_IS_ACK) != 0;
    ecc_link_state_t *link = &self->links[index];
    int64_t size = (hop & (ECC_HOP_IS_ACK | ECC_HOP_HEADER)) == 0 ? packet->size : size_on_link(self, packet, hop);
    ecc_ps_t begins;
    int ret;

    ecc_link_catch_up(self, link);
    link->arrived += size;
    if (link->measures) {
        ecc_link_measure(link, self->now);
        if (link->histogram != NULL) {
            link->histogram[ECC_N_BINS + bin(link->queue)]++;
        }
    }
    ECC_DEBUG(link->count.arrived++);
    ret = call_all(self, index, ECC_LINK_ON_ARRIVAL, link->is.on_arrival, packet, position, size, kind);
    if (ret != 0) {
        return ret;
    }
    if (self->link_env.drop != 0) {
        return drop(self, index, id, size, kind);
    }
    if (link->queue + size > link->most_bytes || link->ring.count >= link->most_packets) {
        return drop(self, index, id, size, kind);
    }
    begins = link->free_at > self->now ? link->free_at : self->now;
    link->free_at
        = link->tx_size[kind] == size ? ecc_state_add(begins, link->tx_time[kind]) : serve(link, begins, size, kind);
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
    if (!link->departs) {
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
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, first.packet);
    int kind = (self->hops[first.position] & ECC_HOP_IS_ACK) != 0;
    int ret;

    ecc_state_trace(self, ECC_DEPARTURE, index, packet->offset);
    leave(self, link);
    if (link->ring.count > 0) {
        ecc_calendar_insert(&self->fast, node(self, ECC_DEPARTURE, index), ecc_ring_at(&link->ring, 0)->leaves);
    }
    ret = call_all(self, index, ECC_LINK_ON_DEPARTURE, link->is.on_departure, packet, first.position, first.size, kind);
    if (ret != 0) {
        return ret;
    }
    if (link->impaired != NULL) {
        return impair(self, index, first.packet, first.size, kind);
    }
    put_on_wire(self, index, first.packet, ecc_state_add(self->now, link->is.delay));
    return 0;
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
            ecc_calendar_insert(&self->fast, node(self, ECC_HOP, index), packet->next_time);
        }
    } else { /* packets overtake each other */
        id = ecc_impairment_take_late(link->impaired, &self->fast, node(self, ECC_HOP, index));
        packet = ecc_packets_at(&self->packets, id);
    }
    ecc_state_trace(self, ECC_HOP, index, packet->offset);
    hop = self->hops[packet->position];
    if ((hop & ECC_HOP_END) == ECC_END_HOST) {
        return (hop & ECC_HOP_IS_ACK) != 0 ? ecc_receiver_return(self, id) : ecc_flow_receive(self, id);
    }
    packet->position++;
    return ecc_link_arrive(self, id);
}
