/*
 * The way of a packet through a link (S-23 to S-31): it arrives, is dropped or queued, departs, and is put on the
 * wire.
 *
 * Only what a hook or an impairment can observe is an event. Without them a packet is put on the wire when it arrives,
 * for the time at which it will reach its end, and ecc_link_catch_up removes it from the queue before the next look.
 *
 * Not here: the counts of a queue (link.c), the hooks of routers (router.c), what impairments do (channel.c), which
 * packet a link that schedules serves next (scheduler.c), and the end of the wire (host.c).
 */

#include "link/transit.h"

#include "core/bins.h"
#include "core/crossing.h"
#include "core/path.h"
#include "link/link.h"
#include "link/pause.h"
#include "link/router.h"
#include "link/scheduler.h"
#include "link/service.h"

static uint32_t
node(const ecc_engine_t *self, enum ecc_event_kind kind, uint32_t link)
{
    return self->base[kind] + link;
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
        return ecc_path_discard(self, id);
    }
    time = ecc_channel_arrival(link->channel, self->now, link->delay, size);
    if (link->channel->spec->reorders == 0) {
        return ecc_path_forward(self, index, id, time);
    }
    if (self->cut != NULL && ecc_crossing_leaves_by_wire(self, id, time, &ret)) {
        return ret;
    }
    ret = ecc_channel_append(link->channel, &self->memory, &self->packets, &link->wire, &self->fast,
        node(self, ECC_EVENT_HOP, index), id, time);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_LINK, index, ECC_NO_HOOK, link->channel->n_reordered);
}

static ECC_HOT int
call(ecc_engine_t *self, uint32_t index, enum ecc_link_hook number, ecc_hook_t hook, const ecc_packet_t *packet,
    int64_t size, enum ecc_packet_kind kind, bool plain)
{
    if (!plain) {
        return ecc_router_call(self, index, number, hook, ecc_router_packet(packet, size, kind));
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
    int ret = ecc_service_transmit(self, index, item, kind);

    if (ret != 0) {
        return ret;
    }
    if (plain) {
        ecc_link_grow_plain(link, size);
    } else {
        ecc_link_grow(self, link, size, position);
    }
    if (!link->has_departure_events) {
        return ecc_path_forward(self, index, id, ecc_clock_add(link->free_at, link->delay));
    }
    if (link->ring.count == 1) {
        ecc_calendar_insert(&self->fast, node(self, ECC_EVENT_DEPARTURE, index), link->free_at);
    }
    return 0;
}

/* S-23: arrival at a link that is plain, or at any. */
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
    ecc_link_catch_up_plain(self, link, plain);
    link->arrived += size;
    if (link->measures_queue) {
        ecc_link_measure(link, self->now);
        if (link->histogram != NULL) {
            link->histogram[ECC_N_BINS + ecc_bins_of(link->queue)]++;
        }
    }
    ECC_DEBUG(link->count.arrived++);
    if (!plain && link->schedules) {
        return ecc_scheduler_arrive(self, index, id, size, kind);
    }
    ret = call(self, index, ECC_LINK_ON_ARRIVAL, link->on_arrival, packet, size, kind, plain);
    if (ret == 0 && self->link_env.trim != 0 && self->link_env.drop == 0) {
        trimmed = ecc_service_trim(self, index, id, size, kind);
        if (trimmed == 0) {
            return ecc_service_drop(self, index, id, size, kind);
        }
        size = trimmed;
        kind = ECC_PACKET_TRIMMED;
        ret = call(self, index, ECC_LINK_ON_ARRIVAL, link->on_arrival, packet, size, kind, plain);
    }
    if (ret != 0) {
        return ret;
    }
    if (self->link_env.drop != 0 || link->queue + size > link->max_bytes || link->ring.count >= link->max_packets) {
        return ecc_service_drop(self, index, id, size, kind);
    }
    if (!plain && self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    return join(self, link, index, id, size, kind, plain);
}

int
ecc_transit_arrive(ecc_engine_t *self, uint32_t id)
{
    uint32_t hop = self->hops[ecc_packets_at(&self->packets, id)->position];
    ecc_link_state_t *link = &self->links[hop >> ECC_HOP_LINK];

    return link->is_plain ? arrive(self, link, id, true) : arrive(self, link, id, false);
}

int
ecc_transit_queue(ecc_engine_t *self, uint32_t id)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = self->hops[packet->position] >> ECC_HOP_LINK;
    ecc_link_state_t *link = &self->links[index];
    int64_t size = ecc_link_size(self, packet, self->hops[packet->position]);

    link->arrived += size;
    ECC_DEBUG(link->count.arrived++);
    return join(self, link, index, id, size, ECC_PACKET_DATA, false);
}

/* S-28: the packet in service leaves the queue for the wire, with hooks or impairments. */
static ECC_HOT int
depart(ecc_engine_t *self, ecc_link_state_t *link, uint32_t index, bool plain)
{
    ecc_queued_t first = *ecc_ring_at(&link->ring, 0);
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, first.of);
    enum ecc_packet_kind kind = ecc_link_kind(packet, self->hops[packet->position]);
    int ret = 0;

    ecc_state_trace(self, ECC_EVENT_DEPARTURE, index, packet->offset);
    ecc_link_leave(self, link, plain);
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
    return ecc_path_forward(self, index, first.of, ecc_clock_add(self->now, link->delay));
}

int
ecc_transit_departure(ecc_engine_t *self, uint32_t index)
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
