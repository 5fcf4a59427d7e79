/*
 * Priority flow control, hop by hop (IEEE 802.1Qbb; S-138 to S-143). Bytes that came over a link and are still queued
 * behind it are counted by class. Above XOFF the link is sent a PAUSE frame, and at XON or below a RESUME frame; each
 * takes effect there after the delay of the link. If one link has an XOFF, all links schedule.
 *
 * A frame needs no event: a link reads the frames that have arrived when it serves its next packet. Only if packets
 * wait and none is in service, there is a DEPARTURE without a packet when the next frame arrives.
 *
 * Not here: the choice of the next packet (scheduler.c).
 *
 * Invariant (ecc_pause_verify): the bytes held of each link and class are those in the queues behind it.
 */

#include "link/pause.h"

#include "link/link.h"

#define NO_LINK UINT32_MAX

int
ecc_pause_init(ecc_engine_t *self, const ecc_config_t *config)
{
    bool is_wanted = false;
    void *block = NULL;
    int ret;

    for (uint32_t i = 0; i < self->n_links; i++) {
        is_wanted = is_wanted || self->links[i].spec.xoff > 0;
    }
    if (!is_wanted) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, 0, (self->n_links + (size_t) 1) * sizeof(*self->pauses), &block);
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) self->n_links);
    }
    self->pauses = block;
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_ring_init(&self->pauses[i].frames);
    }
    for (int64_t i = 0; i < config->n_flows + config->n_templates; i++) {
        const ecc_flow_t *flow = i < config->n_flows ? &config->flows[i] : &config->templates[i - config->n_flows];
        if ((int64_t) flow->priority >= self->n_priorities) {
            self->n_priorities = (uint32_t) flow->priority + 1;
        }
    }
    return 0;
}

void
ecc_pause_free(ecc_engine_t *self)
{
    void *block = self->pauses;

    if (self->pauses != NULL) {
        for (uint32_t i = 0; i < self->n_links; i++) {
            ecc_ring_free(&self->pauses[i].frames, &self->memory);
        }
        ecc_memory_release(&self->memory, (self->n_links + (size_t) 1) * sizeof(*self->pauses), &block);
    }
}

static uint32_t
class_of(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return (uint32_t) self->flows[packet->flow].spec->priority;
}

/* The link that a packet came over if it can be paused, else NO_LINK, as at the first link of its route. */
static uint32_t
upstream_of(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    const ecc_flow_t *spec = flow->spec;
    uint32_t offsets_end = flow->position + (uint32_t) (spec->n_forward + spec->n_reverse + spec->n_alternatives);
    uint32_t before;

    if (packet->position == flow->position || packet->position == offsets_end) { /* see spray.h */
        return NO_LINK;
    }
    before = self->hops[packet->position - 1];
    if ((before & ECC_HOP_END) != ECC_END_LINK || self->links[before >> ECC_HOP_LINK].spec.xoff == 0) {
        return NO_LINK;
    }
    return before >> ECC_HOP_LINK;
}

/* S-139: whether the link that a packet came over has room for it at the next link. */
bool
ecc_pause_has_room(const ecc_engine_t *self, const ecc_packet_t *packet, int64_t size)
{
    uint32_t upstream = upstream_of(self, packet);
    const ecc_link_t *spec;

    if (upstream == NO_LINK) {
        return true;
    }
    spec = &self->links[upstream].spec;
    return self->pauses[upstream].classes[class_of(self, packet)].held + size <= spec->xoff + spec->headroom;
}

/* ---- frames ---- */

/* S-142: DEPARTURE without a packet when the next frame comes. */
void
ecc_pause_await(ecc_engine_t *self, uint32_t index)
{
    const ecc_link_state_t *link = &self->links[index];
    const ecc_ring_t *frames = &self->pauses[index].frames;
    uint32_t node = self->base[ECC_EVENT_DEPARTURE] + index;

    if (link->ring.count == 0 && link->n_waiting > 0 && frames->count > 0 && !ecc_calendar_pending(&self->fast, node)) {
        ecc_ps_t time = ecc_ring_at(frames, 0)->leaves;
        ecc_calendar_insert(&self->fast, node, time > self->now ? time : self->now);
    }
}

static int
send(ecc_engine_t *self, uint32_t index, uint32_t priority, bool pauses)
{
    ecc_pause_t *pause = &self->pauses[index];
    ecc_ps_t time = ecc_clock_add(self->now, self->links[index].delay);
    int ret;

    pause->classes[priority].asked = pauses;
    pause->classes[priority].count += pauses;
    ecc_state_trace(self, pauses ? ECC_EVENT_PAUSE : ECC_EVENT_RESUME, index, priority);
    ret = ecc_ring_append(&pause->frames, &self->memory, (ecc_queued_t) { time, pauses, priority });
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_LINK, index, ECC_NO_HOOK, pause->frames.count);
    }
    ecc_pause_await(self, index);
    return 0;
}

void
ecc_pause_catch_up(const ecc_engine_t *self, uint32_t index)
{
    ecc_pause_t *pause = &self->pauses[index];

    while (pause->frames.count > 0 && ecc_ring_at(&pause->frames, 0)->leaves <= self->now) {
        const ecc_queued_t *frame = ecc_ring_at(&pause->frames, 0);
        ecc_pause_class_t *class = &pause->classes[frame->of];
        class->is_paused = frame->size != 0;
        if (class->is_paused) {
            class->since = frame->leaves;
        } else {
            class->time += frame->leaves - class->since;
        }
        ecc_ring_drop_first(&pause->frames);
    }
}

/* ---- packets ---- */

int
ecc_pause_join(ecc_engine_t *self, const ecc_packet_t *packet, int64_t size)
{
    uint32_t upstream = upstream_of(self, packet);
    ecc_pause_class_t *class;

    if (upstream == NO_LINK) {
        return 0;
    }
    class = &self->pauses[upstream].classes[class_of(self, packet)];
    class->held += size;
    return !class->asked && class->held > self->links[upstream].spec.xoff
        ? send(self, upstream, class_of(self, packet), true)
        : 0;
}

int
ecc_pause_leave(ecc_engine_t *self, const ecc_packet_t *packet, int64_t size)
{
    uint32_t upstream = upstream_of(self, packet);
    ecc_pause_class_t *class;

    if (upstream == NO_LINK) {
        return 0;
    }
    class = &self->pauses[upstream].classes[class_of(self, packet)];
    class->held -= size;
    return class->asked && class->held <= self->links[upstream].spec.xon
        ? send(self, upstream, class_of(self, packet), false)
        : 0;
}

bool
ecc_pause_lets_pass(const ecc_engine_t *self, const ecc_link_state_t *link, const ecc_packet_t *packet)
{
    return !self->pauses[link->spec.at].classes[class_of(self, packet)].is_paused;
}

ecc_ps_t
ecc_pause_time(const ecc_engine_t *self, uint32_t index, uint32_t priority)
{
    const ecc_pause_class_t *class = &self->pauses[index].classes[priority];

    return class->time + (class->is_paused ? self->now - class->since : 0);
}

/* ---- deadlocks (S-143) ---- */

/* Calls `visit` for all packets in the queue of a link. */
static void
visit_packets(
    const ecc_engine_t *self, uint32_t index, void (*visit)(const ecc_engine_t *self, const ecc_packet_t *packet))
{
    const ecc_link_state_t *link = &self->links[index];

    for (uint32_t k = 0; k < link->ring.count; k++) {
        visit(self, ecc_packets_at(&self->packets, ecc_ring_at(&link->ring, k)->of));
    }
    for (uint32_t k = 0; k < link->n_queues; k++) {
        for (uint32_t id = link->queues[k].packets.head; id != ECC_NO_PACKET;) {
            const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
            visit(self, packet);
            id = packet->next;
        }
    }
}

/* Whether packets wait at a link that no RESUME frame on its way can free. */
static bool
is_blocked(const ecc_engine_t *self, uint32_t index)
{
    const ecc_link_state_t *link = &self->links[index];

    return link->ring.count == 0 && link->n_waiting > 0 && self->pauses[index].frames.count == 0
        && link->spec.drops_longest == 0;
}

/* index of the list of links that may yet serve */
static void
set_moving(const ecc_engine_t *self, uint32_t index)
{
    self->pauses[index].is_moving = true;
    self->pauses[index].next = self->pauses[self->n_links].next;
    self->pauses[self->n_links].next = index;
}

/* A packet will leave, so that the link that it came over may resume. */
static void
visit_leaving(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    uint32_t upstream = upstream_of(self, packet);

    if (upstream != NO_LINK && !self->pauses[upstream].is_moving) {
        set_moving(self, upstream);
    }
}

int
ecc_pause_find_deadlock(ecc_engine_t *self)
{
    uint32_t first = NO_LINK;
    uint32_t n = 0;

    self->pauses[self->n_links].next = NO_LINK;
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_pause_catch_up(self, i);
        self->pauses[i].is_moving = false;
        if (!is_blocked(self, i)) {
            set_moving(self, i);
        }
    }
    while (self->pauses[self->n_links].next != NO_LINK) {
        uint32_t link = self->pauses[self->n_links].next;
        self->pauses[self->n_links].next = self->pauses[link].next;
        visit_packets(self, link, visit_leaving);
    }
    for (uint32_t i = self->n_links; i-- > 0;) {
        if (!self->pauses[i].is_moving) {
            first = i;
            n++;
        }
    }
    return n == 0 ? 0 : ecc_state_fail(self, ECC_ERR_DEADLOCK, ECC_ENTITY_LINK, first, ECC_NO_HOOK, n);
}

/* ---- invariants ---- */

/* Whether the frames of a class alternate, and the last one agrees with `asked`. */
static bool
are_frames(const ecc_pause_t *pause, uint32_t priority)
{
    bool is_paused = pause->classes[priority].is_paused;
    bool valid = true;

    for (uint32_t k = 0; k < pause->frames.count; k++) {
        const ecc_queued_t *frame = ecc_ring_at(&pause->frames, k);
        if (frame->of == priority) {
            valid = valid && (frame->size != 0) != is_paused;
            is_paused = frame->size != 0;
        }
    }
    return valid && is_paused == pause->classes[priority].asked;
}

static void
count(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    uint32_t upstream = upstream_of(self, packet);

    if (upstream != NO_LINK) {
        self->pauses[upstream].classes[class_of(self, packet)].counted
            += ecc_link_size(self, packet, self->hops[packet->position]);
    }
}

int
ecc_pause_verify(const ecc_engine_t *self)
{
    bool valid = true;

    for (uint32_t i = 0; i < self->n_links; i++) {
        const ecc_link_state_t *link = &self->links[i];
        const ecc_ring_t *ring = &link->ring;
        valid = valid && ecc_ring_verify(&self->pauses[i].frames) == 0;
        for (uint32_t priority = 0; priority < ECC_N_PRIORITIES; priority++) {
            const ecc_pause_class_t *class = &self->pauses[i].classes[priority];
            valid = valid && are_frames(&self->pauses[i], priority) && class->held >= 0
                && (class->asked ? class->held > link->spec.xon : class->held <= link->spec.xoff);
            self->pauses[i].classes[priority].counted = 0;
        }
        valid = valid
            && (ring->count > 0 || link->n_waiting == 0 || self->pauses[i].frames.count == 0
                || ecc_calendar_pending(&self->fast, self->base[ECC_EVENT_DEPARTURE] + i));
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        visit_packets(self, i, count);
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        for (uint32_t priority = 0; priority < ECC_N_PRIORITIES; priority++) {
            valid = valid && self->pauses[i].classes[priority].counted == self->pauses[i].classes[priority].held;
        }
    }
    return valid ? 0 : ECC_ERR_BROKEN;
}
