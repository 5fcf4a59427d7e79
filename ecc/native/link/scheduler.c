/*
 * Links that schedule (S-112 to S-120): packets wait in one or more queues, with their arrival times, until the server
 * is free. Then the first packet of a queue is taken. on_dequeue may mark it, or drop it, and then the next packet is
 * taken in the same event; otherwise it is served.
 *
 * The ring of such a link holds only the packet in service. Waiting packets are in lists, which need no memory.
 *
 * Not here: links that do not schedule (transit.c), and the counts of all links (link.c).
 */

#include "link/scheduler.h"

#include "link/ack_filter.h"
#include "link/link.h"
#include "link/pause.h"
#include "link/router.h"
#include "link/selection.h"
#include "link/service.h"

static const ecc_fifo_t EMPTY = { ECC_NO_PACKET, ECC_NO_PACKET };

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
ecc_scheduler_init(ecc_engine_t *self, const ecc_config_t *config)
{
    const ecc_bytes_t *quanta = config->quanta;
    ecc_queue_t *queues;
    size_t n_queues = 0;
    void *block = NULL;
    int ret;

    for (uint32_t i = 0; i < self->n_links; i++) {
        uint32_t given = (uint32_t) self->links[i].spec.n_queues;
        self->links[i].n_queues = given > 0 ? given : schedules(self, i) || self->pauses != NULL;
        n_queues += self->links[i].n_queues;
    }
    if (n_queues == 0) {
        return 0;
    }
    ret = ecc_memory_resize(&self->memory, 0, n_queues * sizeof(*self->queues), &block);
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) n_queues);
    }
    self->queues = queues = block;
    self->n_queues = n_queues;
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        if (link->n_queues > 0) {
            link->queues = queues;
            link->schedules = true;
            link->has_departure_events = true;
            link->rounds[ECC_ROUND_NEW] = link->rounds[ECC_ROUND_OLD] = EMPTY;
        }
        for (uint32_t k = 0; k < link->n_queues; k++, queues++) {
            queues->packets = EMPTY;
            queues->quantum = link->spec.n_queues > 0 ? *quanta++ : 0;
        }
    }
    return 0;
}

int64_t
ecc_scheduler_n_sampled(const ecc_engine_t *self)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < self->n_links; i++) {
        n += ecc_scheduler_is_sampled(&self->links[i]) ? self->links[i].n_queues : 0;
    }
    return n;
}

/* ---- turns (S-117, S-118) ---- */

void
ecc_scheduler_activate(ecc_link_state_t *link, uint32_t number, enum ecc_round round)
{
    ecc_fifo_t *fifo = &link->rounds[round];

    link->queues[number].is_active = true;
    link->queues[number].next = ECC_NO_PACKET;
    if (fifo->head == ECC_NO_PACKET) {
        fifo->head = number;
    } else {
        link->queues[fifo->tail].next = number;
    }
    fifo->tail = number;
}

/* Removes the first queue of a round. */
static ecc_queue_t *
deactivate_first(ecc_link_state_t *link, enum ecc_round round)
{
    ecc_queue_t *queue = &link->queues[link->rounds[round].head];

    link->rounds[round].head = queue->next;
    queue->is_active = false;
    return queue;
}

static int64_t
size_of_first(const ecc_engine_t *self, const ecc_queue_t *queue)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, queue->packets.head);

    return ecc_link_size(self, packet, self->hops[packet->position]);
}

/* Whether a queue must wait for another turn before it sends a packet. */
static bool
has_sent_enough(const ecc_engine_t *self, const ecc_link_state_t *link, const ecc_queue_t *queue)
{
    if (link->spec.scheduler == ECC_SCHEDULER_FQ) {
        return queue->deficit <= 0;
    }
    return queue->packets.head != ECC_NO_PACKET && queue->deficit < size_of_first(self, queue);
}

/* Whether a packet waits in a queue, and may be served (S-141). */
static bool
may_serve(const ecc_engine_t *self, const ecc_link_state_t *link, const ecc_queue_t *queue)
{
    return queue->packets.head != ECC_NO_PACKET
        && (self->pauses == NULL
            || ecc_pause_lets_pass(self, link, ecc_packets_at(&self->packets, queue->packets.head)));
}

/* Index of the first queue with a packet that may be served, or n_queues. */
static uint32_t
first_queue(const ecc_engine_t *self, const ecc_link_state_t *link)
{
    uint32_t number = 0;

    while (number < link->n_queues && !may_serve(self, link, &link->queues[number])) {
        number++;
    }
    return number;
}

/* Index of the queue that has its turn; some packet may be served. */
static uint32_t
next_by_turns(const ecc_engine_t *self, ecc_link_state_t *link)
{
    for (;;) {
        enum ecc_round round = link->rounds[ECC_ROUND_NEW].head != ECC_NO_PACKET ? ECC_ROUND_NEW : ECC_ROUND_OLD;
        uint32_t number = link->rounds[round].head;
        ecc_queue_t *queue = &link->queues[number];
        if (queue->packets.head != ECC_NO_PACKET && !may_serve(self, link, queue)) {
            deactivate_first(link, round);
            ecc_scheduler_activate(link, number, ECC_ROUND_OLD);
        } else if (has_sent_enough(self, link, queue)) {
            queue->deficit += queue->quantum;
            deactivate_first(link, round);
            ecc_scheduler_activate(link, number, ECC_ROUND_OLD);
        } else if (queue->packets.head != ECC_NO_PACKET) {
            return number;
        } else {
            deactivate_first(link, round);
            if (round == ECC_ROUND_NEW) { /* it is not new again before the others had a turn */
                ecc_scheduler_activate(link, number, ECC_ROUND_OLD);
            }
        }
    }
}

/* Whether queues take turns (S-117, S-118). */
static bool
takes_turns(const ecc_link_state_t *link)
{
    return link->spec.scheduler == ECC_SCHEDULER_DRR || link->spec.scheduler == ECC_SCHEDULER_FQ;
}

/* S-116: the queue of the next packet, or n_queues if none may be served. */
static int
next_queue(ecc_engine_t *self, uint32_t index, uint32_t *number)
{
    ecc_link_state_t *link = &self->links[index];
    bool by_turns = takes_turns(link);

    if (link->spec.scheduler == ECC_SCHEDULER_SELECT) {
        return ecc_selection_next(self, index, number);
    }
    *number = by_turns && self->pauses == NULL ? 0 : first_queue(self, link);
    if (by_turns && *number < link->n_queues) {
        *number = next_by_turns(self, link);
    }
    if (*number == link->n_queues) {
        ecc_pause_await(self, index);
    }
    return 0;
}

/* ---- packets ---- */

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
    if (takes_turns(link) && !queue->is_active) {
        bool is_new = link->spec.scheduler == ECC_SCHEDULER_FQ;
        queue->deficit = queue->quantum;
        ecc_scheduler_activate(link, number, is_new ? ECC_ROUND_NEW : ECC_ROUND_OLD);
    }
    queue->bytes += size;
    link->n_waiting++;
    ecc_link_grow(self, link, size, packet->position);
}

/* S-113: chooses the queue of a packet. */
static int
classify(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    int64_t found;
    int ret;

    link->queue_index = 0;
    self->link_env.queue_index = 0;
    ret = ecc_router_call(
        self, index, ECC_LINK_ON_CLASSIFY, link->spec.on_classify, ecc_router_packet(packet, size, kind));
    found = self->link_env.queue_index;
    if (ret == 0 && (found < 0 || found >= link->n_queues)) {
        return ecc_state_fail(self, ECC_ERR_QUEUE_INDEX, ECC_ENTITY_LINK, index, ECC_LINK_ON_CLASSIFY, (double) found);
    }
    link->queue_index = (uint32_t) found;
    return ret;
}

static bool
has_room(const ecc_link_state_t *link, int64_t size, int64_t n_packets)
{
    return link->queue + size <= link->max_bytes
        && (int64_t) link->ring.count + link->n_waiting + n_packets <= link->max_packets;
}

/* Takes the first packet out of a queue, and sets link->sojourn to its wait. */
static uint32_t
take_first(const ecc_engine_t *self, ecc_link_state_t *link, uint32_t number)
{
    ecc_queue_t *queue = &link->queues[number];
    uint32_t id = queue->packets.head;
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    link->queue_index = number;
    link->sojourn = self->now - queue->since;
    queue->packets.head = packet->next;
    queue->since = packet->next_time;
    link->n_waiting--;
    return id;
}

/* Drops a packet that has waited. */
static int
drop_taken(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    int ret;

    if (link->measures_queue) {
        ecc_link_measure(link, self->now);
    }
    link->queues[link->queue_index].bytes -= size;
    ecc_link_shrink(self, link, size, ecc_packets_at(&self->packets, id)->position);
    ret = self->pauses == NULL ? 0 : ecc_pause_leave(self, ecc_packets_at(&self->packets, id), size);
    return ret != 0 ? ret : ecc_service_drop(self, index, id, size, kind);
}

static enum ecc_packet_kind
kind_of(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return ecc_link_kind(packet, self->hops[packet->position]);
}

/* S-119: drops packets of the longest queue while the buffer is overfull. */
static int
drop_of_longest(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    int ret = 0;

    while (ret == 0 && link->n_waiting > 0 && !has_room(link, 0, 0)) {
        uint32_t longest = 0;
        int64_t size;
        uint32_t id;
        for (uint32_t k = 0; k < link->n_queues; k++) {
            const ecc_queue_t *queue = &link->queues[k];
            const ecc_queue_t *other = &link->queues[longest];
            if (queue->packets.head != ECC_NO_PACKET
                && (other->packets.head == ECC_NO_PACKET || queue->bytes > other->bytes)) {
                longest = k;
            }
        }
        size = size_of_first(self, &link->queues[longest]);
        id = take_first(self, link, longest);
        ret = drop_taken(self, index, id, size, kind_of(self, ecc_packets_at(&self->packets, id)));
        link->sojourn = 0;
    }
    return ret;
}

/* S-227: drops an ACK that the one which has just joined a queue supersedes. */
static int
filter_acks(ecc_engine_t *self, uint32_t index, uint32_t number, bool aggressive)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t id = ecc_ack_filter_remove(self, &link->queues[number], aggressive);
    const ecc_packet_t *packet;
    int ret;

    if (id == ECC_NO_PACKET) {
        return 0;
    }
    packet = ecc_packets_at(&self->packets, id);
    link->n_waiting--;
    link->filters = true;
    ret = drop_taken(self, index, id, ecc_link_size(self, packet, self->hops[packet->position]), kind_of(self, packet));
    link->filters = false;
    return ret;
}

/* S-113: calls the hooks of an arrival. */
static int
ask(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet, int64_t size, enum ecc_packet_kind kind)
{
    int ret = classify(self, index, packet, size, kind);

    return ret != 0 ? ret
                    : ecc_router_call(self, index, ECC_LINK_ON_ARRIVAL, self->links[index].on_arrival,
                        ecc_router_packet(packet, size, kind));
}

int
ecc_scheduler_arrive(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int ret = ask(self, index, packet, size, kind);
    int64_t filter;

    if (ret == 0 && self->link_env.trim != 0 && self->link_env.drop == 0) {
        int64_t trimmed = ecc_service_trim(self, index, id, size, kind);
        if (trimmed == 0) {
            return ecc_service_drop(self, index, id, size, kind);
        }
        size = trimmed;
        kind = ECC_PACKET_TRIMMED;
        ret = ask(self, index, packet, size, kind);
    }
    if (ret != 0) {
        return ret;
    }
    if (self->link_env.drop != 0 || (link->spec.drops_longest == 0 && !has_room(link, size, 1))
        || (self->pauses != NULL && !ecc_pause_has_room(self, packet, size))) {
        return ecc_service_drop(self, index, id, size, kind);
    }
    if (self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    filter = self->link_env.filter;
    ecc_scheduler_join(self, index, link->queue_index, id, self->now);
    if (self->pauses != NULL) {
        ret = ecc_pause_join(self, packet, size);
    }
    if (ret == 0 && filter != ECC_ACK_FILTER_NONE && kind == ECC_PACKET_ACK) {
        ret = filter_acks(self, index, link->queue_index, filter == ECC_ACK_FILTER_AGGRESSIVE);
    }
    ret = ret == 0 ? drop_of_longest(self, index) : ret;
    return ret == 0 ? ecc_scheduler_serve(self, index) : ret;
}

/* S-114: the first packet of a queue is served, or dropped by on_dequeue. */
static int
dequeue(ecc_engine_t *self, uint32_t index, uint32_t number)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_queue_t *queue = &link->queues[number];
    uint32_t id = take_first(self, link, number);
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t position = packet->position;
    enum ecc_packet_kind kind = kind_of(self, packet);
    int64_t size = ecc_link_size(self, packet, self->hops[position]);
    int ret = ecc_router_call(
        self, index, ECC_LINK_ON_DEQUEUE, link->spec.on_dequeue, ecc_router_packet(packet, size, kind));

    if (ret == 0 && self->link_env.drop != 0) {
        ret = drop_taken(self, index, id, size, kind);
    } else if (ret == 0) {
        if (self->link_env.mark != 0) {
            ecc_link_count_mark(self, index, packet);
        }
        queue->deficit -= takes_turns(link) ? size : 0;
        link->in_service = number;
        ret = ecc_service_transmit(self, index, (ecc_queued_t) { 0, (int32_t) size, id }, kind);
        ecc_calendar_move(&self->fast, self->base[ECC_EVENT_DEPARTURE] + index, link->free_at);
    }
    if (link->spec.scheduler == ECC_SCHEDULER_DRR && queue->packets.head == ECC_NO_PACKET) {
        deactivate_first(link, ECC_ROUND_OLD);
    }
    link->sojourn = 0;
    return ret;
}

int
ecc_scheduler_serve(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    int ret = 0;

    if (self->pauses != NULL) {
        ecc_pause_catch_up(self, index);
    }
    while (ret == 0 && link->ring.count == 0 && link->n_waiting > 0) {
        uint32_t number = 0;
        ret = next_queue(self, index, &number);
        if (ret != 0 || number == link->n_queues) {
            break;
        }
        ret = dequeue(self, index, number);
    }
    return ret;
}

int
ecc_scheduler_verify(const ecc_engine_t *self, const ecc_link_state_t *link, ecc_bytes_t *bytes)
{
    bool by_turns = takes_turns(link);
    bool waits = self->pauses != NULL || link->spec.scheduler == ECC_SCHEDULER_SELECT;
    bool valid = link->ring.count <= 1 && (link->ring.count == 1 || link->n_waiting == 0 || waits);
    int64_t dropped = link->dropped;
    int64_t marked = link->marked;
    uint32_t n_waiting = 0;
    uint32_t n_active = 0;

    for (int round = 0; round < ECC_N_ROUNDS; round++) {
        for (uint32_t k = link->rounds[round].head; k != ECC_NO_PACKET && n_active <= link->n_queues; n_active++) {
            valid = valid && link->queues[k].is_active;
            k = link->queues[k].next;
        }
    }
    for (uint32_t k = 0; k < link->n_queues; k++) {
        const ecc_queue_t *queue = &link->queues[k];
        const ecc_queued_t *served = link->ring.count > 0 ? ecc_ring_at(&link->ring, 0) : NULL;
        ecc_bytes_t in_service = served != NULL && link->in_service == k ? served->size : 0;
        ecc_bytes_t waiting = 0;
        ecc_ps_t time = queue->since;
        for (uint32_t id = queue->packets.head; id != ECC_NO_PACKET; n_waiting++) {
            const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
            waiting += ecc_link_size(self, packet, self->hops[packet->position]);
            valid = valid && time <= self->now && (packet->next == ECC_NO_PACKET || packet->next_time >= time);
            time = packet->next_time;
            id = packet->next;
        }
        valid = valid && queue->bytes == waiting + in_service && (!by_turns || waiting == 0 || queue->is_active);
        n_active -= queue->is_active;
        dropped -= queue->dropped;
        marked -= queue->marked;
        *bytes += waiting;
    }
    valid = valid && dropped == 0 && marked == 0;
    return valid && n_active == 0 && n_waiting == link->n_waiting ? 0 : ECC_ERR_BROKEN;
}
