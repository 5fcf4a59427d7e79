/*
 * Routers (S-20 to S-22, S-35, S-36): they run at a link, and their hooks are called here, HOOKS of the specification.
 *
 * Not here: the way of a packet through the link (transit.c), the hooks of flows (flow_hooks.c).
 */

#include "link/router.h"

#include <math.h>
#include <string.h>

#include "link/link.h"

ECC_COLD static int
fail(ecc_engine_t *self, uint32_t index, enum ecc_link_hook number, int32_t returned)
{
    (void) ecc_state_fail(self, ECC_ERR_HOOK_FAILED, ECC_ENTITY_LINK, index, number, returned);
    self->report.failed = 1;
    return ECC_ERR_HOOK_FAILED;
}

ECC_COLD static int
adopt_interval(ecc_engine_t *self, uint32_t index, enum ecc_link_hook number)
{
    double interval = self->link_env.next_interval;

    if (isnan(interval)) {
        return ecc_state_fail(self, ECC_ERR_INTERVAL, ECC_ENTITY_LINK, index, number, interval);
    }
    self->links[index].next_interval = interval;
    return 0;
}

/* S-107: marks a packet, unless it is marked or cannot be; returns whether it did. */
static bool
mark_packet(const ecc_engine_t *self, unsigned char *header)
{
    ecc_ecn_t ecn = ecc_state_ecn(self, header);
    bool can_be = ecn.codepoint == ECC_ECT_0 || ecn.codepoint == ECC_ECT_1;

    if (can_be) {
        ecc_state_set_ecn(self, header, (ecc_ecn_t) { ECC_CE, ecn.word });
    }
    return can_be;
}

/* Bytes of the flow of a packet in the queue of this link. */
static int64_t
flow_queue_of(const ecc_engine_t *self, ecc_hook_packet_t packet)
{
    return self->flow_queues == NULL || packet.flow < 0 ? 0 : self->flow_queues[packet.position];
}

/* Calls a hook of a router: env is filled (S-102), and what the hook wrote is adopted (S-103). */
static ECC_HOT int
call(ecc_engine_t *self, uint32_t index, uint32_t at, enum ecc_link_hook number, ecc_hook_t hook,
    ecc_hook_packet_t packet, bool plain)
{
    ecc_link_state_t *router = &self->links[index];
    ecc_link_state_t *link = &self->links[at];
    ecc_link_env_t *restrict env = &self->link_env;
    int32_t ret;

    env->now = ecc_clock_seconds(self->now);
    env->capacity = plain || !link->has_changes ? link->capacity : ecc_link_capacity(self, link);
    env->buffer = link->buffer;
    env->queue = link->queue;
    env->backlog = link->queue;
    env->queue_index = 0;
    if (!plain && link->schedules && packet.flow >= 0) {
        env->queue = link->queues[link->queue_index].bytes;
        env->queue_index = link->queue_index;
    }
    env->queue_low = router->queue_low;
    env->packet_size = packet.size;
    env->kind = packet.kind;
    env->flow = packet.flow < (int64_t) self->n_flows ? packet.flow : self->flows[packet.flow].number;
    env->link = at;
    env->flow_queue = !plain && router->wants_flow_queue ? flow_queue_of(self, packet) : 0;
    env->sojourn = plain ? 0.0 : ecc_clock_seconds(link->sojourn);
    env->random = !plain && router->wants_random ? ecc_random_next(&router->random) : 0.0; /* S-8: once a call */
    env->ecn = !plain && self->wants_ecn ? ecc_state_ecn(self, packet.header).codepoint : ECC_NOT_ECT;
    env->drop = 0;
    env->mark = 0;
    env->trim = 0;
    env->next_interval = router->next_interval;
    env->wait = 0.0;
    env->filter = link->filters;
    ret = hook(router->state, packet.header + router->header_offset, router->params, &self->link_env);
    if (ret != 0) {
        return fail(self, index, number, ret);
    }
    if (self->link_env.mark != 0) {
        self->link_env.mark = !plain && self->wants_ecn && mark_packet(self, packet.header);
    }
    return self->link_env.next_interval != router->next_interval ? adopt_interval(self, index, number) : 0;
}

int
ecc_router_call_plain(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t hook,
    const ecc_packet_t *packet, int64_t size, enum ecc_packet_kind kind)
{
    return call(self, link, link, number, hook, ecc_router_packet(packet, size, kind), true);
}

int
ecc_router_call_first(
    ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t hook, ecc_hook_packet_t packet)
{
    return call(self, link, link, number, hook, packet, false);
}

static ecc_hook_t
hook_of(const ecc_link_t *router, enum ecc_link_hook number)
{
    switch (number) {
    case ECC_LINK_ON_CLASSIFY:
        return router->on_classify;
    case ECC_LINK_ON_ARRIVAL:
        return router->on_arrival;
    case ECC_LINK_ON_SELECT:
        return router->on_select;
    case ECC_LINK_ON_DEQUEUE:
        return router->on_dequeue;
    case ECC_LINK_ON_DEPARTURE:
        return router->on_departure;
    default:
        return router->on_drop;
    }
}

int
ecc_router_call_additional(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_packet_t packet)
{
    int64_t drop = self->link_env.drop;
    int64_t mark = self->link_env.mark;
    int64_t trim = self->link_env.trim;
    int64_t filter = self->link_env.filter;

    for (uint32_t i = self->links[link].next; i != 0; i = self->links[i].next) {
        ecc_hook_t hook = hook_of(&self->links[i].spec, number);
        if (hook != NULL) {
            int ret = call(self, i, link, number, hook, packet, false);
            if (ret != 0) {
                return ret;
            }
            drop |= self->link_env.drop;
            mark |= self->link_env.mark;
            trim |= self->link_env.trim;
            filter = self->link_env.filter > filter ? self->link_env.filter : filter;
        }
    }
    self->link_env.drop = drop;
    self->link_env.mark = mark;
    self->link_env.trim = trim;
    self->link_env.filter = filter;
    return 0;
}

/* S-101: a header of zeros, and no flow. */
static int
call_without_packet(ecc_engine_t *self, uint32_t index, enum ecc_link_hook number, ecc_hook_t hook)
{
    if (hook == NULL) {
        return 0;
    }
    memset(self->scratch, 0, self->header_size);
    return call(self, index, (uint32_t) self->links[index].spec.at, number, hook,
        (ecc_hook_packet_t) { .header = self->scratch, .flow = -1, .kind = ECC_PACKET_DATA }, false);
}

/* S-35, S-36: sets the next INTERVAL by next_interval. */
static int
set_clock(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *router = &self->links[index];
    double interval = router->next_interval;
    ecc_ps_t wait = interval > 0.0 ? ecc_clock_ps(interval) : ECC_NEVER;

    if (wait >= 1) {
        router->n_zero_waits = 0;
    } else if (++router->n_zero_waits == ECC_MAX_ZERO_WAITS) {
        return ecc_state_fail(self, ECC_ERR_INTERVAL_STUCK, ECC_ENTITY_LINK, index, ECC_LINK_ON_INTERVAL, interval);
    }
    if (interval > 0.0) {
        ecc_calendar_insert(
            &self->slow, self->base[ECC_EVENT_INTERVAL] + index, ecc_clock_add(self->now, wait < 1 ? 1 : wait));
    }
    return 0;
}

int
ecc_router_start(ecc_engine_t *self, uint32_t index)
{
    const ecc_link_t *spec = &self->links[index].spec;
    int ret = call_without_packet(self, index, ECC_LINK_ON_START, spec->on_start);

    if (ret != 0) {
        return ret;
    }
    if (spec->first_interval >= 0) {
        ecc_calendar_insert(&self->slow, self->base[ECC_EVENT_INTERVAL] + index, spec->first_interval);
        return 0;
    }
    return set_clock(self, index);
}

/* Longest wait of a packet at a link that schedules, else 0. */
static ecc_ps_t
longest_wait(const ecc_engine_t *self, const ecc_link_state_t *link)
{
    ecc_ps_t longest = 0;

    for (uint32_t k = 0; k < link->n_queues; k++) {
        const ecc_queue_t *queue = &link->queues[k];
        if (queue->packets.head != ECC_NO_PACKET && self->now - queue->since > longest) {
            longest = self->now - queue->since;
        }
    }
    return longest;
}

int
ecc_router_interval(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *router = &self->links[index];
    ecc_link_state_t *link = &self->links[router->spec.at];
    int ret;

    ecc_link_catch_up(self, link);
    ecc_state_trace(self, ECC_EVENT_INTERVAL, index, link->queue);
    link->sojourn = longest_wait(self, link);
    ret = call_without_packet(self, index, ECC_LINK_ON_INTERVAL, router->spec.on_interval);
    link->sojourn = 0;
    if (ret != 0) {
        return ret;
    }
    router->queue_low = link->queue;
    return set_clock(self, index);
}
