/*
 * Runs that begin with flows that have sent for a long time, and with their packets in the network (S-206 to S-209).
 * The caller states the place of each packet. Here a packet is sent at its time before 0, put there, and, if it has
 * reached its receiver, turned into its ACK.
 *
 * Not here: the places of packets, which follow from rates and queues that the caller knows, and all that happens from
 * time 0 on.
 *
 * Invariant: every pending event is due at time 0 or later.
 */

#include "run/under_way.h"

#include "core/path.h"
#include "link/link.h"
#include "link/phase.h"
#include "link/router.h"
#include "link/transit.h"
#include "host/flow.h"
#include "host/flow_hooks.h"
#include "host/host.h"
#include "host/sender.h"

void
ecc_under_way_free(ecc_engine_t *self)
{
    void *block = self->under_way;

    ecc_memory_release(&self->memory, self->n_under_way * sizeof(*self->under_way), &block);
    self->under_way = NULL;
    self->n_under_way = 0;
    block = self->begun;
    ecc_memory_release(&self->memory, self->n_flows * sizeof(*self->begun), &block);
    self->begun = NULL;
}

/* S-206: the flow has the RTTs that it would have measured, and its on_start sets timers only. */
static int
begin_flow(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    const ecc_flow_t *spec = flow->spec;
    int ret;

    flow->active = true;
    flow->started = true;
    flow->packet_size = flow->full_size;
    flow->min_rtt = ecc_clock_seconds(ecc_flow_first_rtt(self, index));
    flow->rtt = ecc_clock_seconds(self->begun[index].rtt);
    flow->srtt = flow->rtt;
    if (flow->jitters) {
        ecc_phase_start(self, index);
    }
    if (spec->on_start == NULL) {
        return 0;
    }
    flow->rate = 0.0;
    flow->window = 0.0;
    flow->state = self->begun[index].state;
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_START, spec->on_start, 0);
    flow->state = spec->state;
    if (flow->window > 0.0) {
        /* A rate in addition to a window is a limit, or follows from the window at the next ACK. */
        flow->window = spec->window;
    } else if (flow->rate > 0.0) {
        flow->rate = spec->rate;
    }
    return ret;
}

/* Sets the records of routers and the queues to those before time 0, or to those from now on. */
static void
set_past(ecc_engine_t *self, bool is_past)
{
    for (uint32_t i = 0; i < self->n_routers; i++) {
        ecc_link_state_t *router = &self->links[i];
        router->state = is_past ? router->spec.begun_state : router->spec.state;
        if (i < self->n_links) {
            router->queue = is_past ? router->spec.begun_queue : 0;
        }
    }
}

/* Calls a hook of a link with a packet before time 0; drops and trims are ignored, marks are not. */
static int
call_past(ecc_engine_t *self, uint32_t index, enum ecc_link_hook number, ecc_hook_t hook, const ecc_packet_t *packet,
    ecc_ps_t time)
{
    int64_t size = ecc_link_size(self, packet, self->hops[packet->position]);

    self->now = time;
    return ecc_router_call(self, index, number, hook, ecc_router_packet(packet, size, ECC_PACKET_DATA));
}

/* S-208: the links that a packet has reached before time 0 call their hooks. */
static int
pass(ecc_engine_t *self, const ecc_under_way_t *entry, uint32_t id)
{
    const ecc_flow_state_t *flow = &self->flows[entry->flow];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_ps_t time = entry->sent + flow->access_delay;
    int ret = 0;

    for (int64_t k = 0; k < flow->spec->n_forward && time <= 0 && ret == 0; k++) {
        uint32_t index = self->hops[flow->position + k] >> ECC_HOP_LINK;
        const ecc_link_t *spec = &self->links[index].spec;
        packet->position = flow->position + (uint32_t) k;
        ret = call_past(self, index, ECC_LINK_ON_ARRIVAL, spec->on_arrival, packet, time);
        time += ecc_clock_tx(spec->begun_queue, spec->capacity);
        time += ecc_clock_tx(ecc_link_size(self, packet, self->hops[packet->position]), spec->capacity);
        if (time <= 0 && ret == 0) {
            ret = call_past(self, index, ECC_LINK_ON_DEPARTURE, spec->on_departure, packet, time);
        }
        time += spec->delay;
    }
    return ret;
}

/* S-209: puts a packet at its place at time 0. */
static int
place(ecc_engine_t *self, const ecc_under_way_t *entry, uint32_t id)
{
    uint32_t index = (uint32_t) entry->flow;
    ecc_flow_state_t *flow = &self->flows[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    bool is_past = entry->at <= 0;

    self->now = 0;
    packet->position = flow->position;
    if (entry->hop == 0 && !is_past) {
        if (ecc_packets_append(&self->packets, &flow->access, id, entry->at)) {
            ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_ACCESS] + index, entry->at);
        }
        return 0;
    }
    if (is_past && entry->hop < flow->spec->n_forward) {
        packet->position += (uint32_t) entry->hop;
        return ecc_transit_queue(self, id);
    }
    packet->position += (uint32_t) entry->hop - 1;
    if (!is_past) {
        return ecc_path_forward(self, self->hops[packet->position] >> ECC_HOP_LINK, id, entry->at);
    }
    if (flow->immediate_ack) {
        ecc_path_return_at(self, id, entry->at);
        return 0;
    }
    self->now = entry->at;
    return ecc_host_receive(self, id);
}

typedef int (*ecc_step_t)(ecc_engine_t *self, const ecc_under_way_t *entry, uint32_t id);

/* Takes a step with each packet that was sent, in the order of `placed`. */
static int
for_each(ecc_engine_t *self, const uint32_t *ids, ecc_step_t step)
{
    int ret = 0;

    for (size_t k = 0; k < self->n_under_way && ret == 0; k++) {
        int64_t i = self->under_way[k].placed;
        ret = ids[i] != ECC_NO_PACKET ? step(self, &self->under_way[i], ids[i]) : 0;
    }
    return ret;
}

static int
place_all(ecc_engine_t *self, uint32_t *ids)
{
    int ret = 0;

    for (size_t i = 0; i < self->n_under_way && ret == 0; i++) { /* S-207: EMIT in the order of `sent` */
        self->now = self->under_way[i].sent;
        ret = ecc_sender_leave(self, (uint32_t) self->under_way[i].flow, &ids[i]);
    }
    set_past(self, true);
    ret = ret == 0 ? for_each(self, ids, pass) : ret;
    set_past(self, false);
    ret = ret == 0 ? for_each(self, ids, place) : ret;
    self->now = 0;
    return ret;
}

int
ecc_under_way_place(ecc_engine_t *self)
{
    size_t size = self->n_under_way * sizeof(uint32_t);
    void *ids = NULL;
    int ret = 0;

    if (self->begun == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < self->n_flows && ret == 0; i++) {
        ret = begin_flow(self, i);
    }
    if (ret == 0 && size > 0) {
        ret = ecc_memory_resize(&self->memory, 0, size, &ids);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) size);
        }
        ret = place_all(self, ids);
        ecc_memory_release(&self->memory, size, &ids);
    }
    ecc_under_way_free(self);
    for (uint32_t i = 0; i < self->n_routers; i++) {
        self->links[i].queue_low = self->links[self->links[i].spec.at].queue;
    }
    for (uint32_t i = 0; i < self->n_flows; i++) {
        self->flows[i].timer_start = 0;
    }
    return ret;
}
