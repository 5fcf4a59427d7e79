/*
 * The state of a link (S-20, S-24, S-27): its capacity, the size of a packet there, and what is counted of its queue.
 *
 * Not here: the way of a packet through a link (transit.c, service.c), and when a packet leaves (server.c).
 */

#include "link/link.h"

#include "core/bins.h"

void
ecc_link_init(ecc_engine_t *self, uint32_t index, const ecc_link_t *spec, uint64_t seed)
{
    ecc_link_state_t *link = &self->links[index];

    ecc_ring_init(&link->ring);
    link->wire = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    link->random = ecc_random_stream(seed, index);
    link->spec = *spec;
    link->has_departure_events = spec->on_departure != NULL || spec->on_dequeue != NULL;
    if (index >= self->n_links) { /* an additional router: the last of its link */
        ecc_link_state_t *last = &self->links[spec->at];
        last->has_departure_events = last->has_departure_events || link->has_departure_events;
        while (last->next != 0) {
            last = &self->links[last->next];
        }
        last->next = index;
    } else {
        link->spec.at = index;
        link->has_departure_events = link->has_departure_events || spec->impairment > 0;
    }
    link->advertised_capacity = spec->capacity;
    link->max_bytes = spec->buffer >= 0 ? spec->buffer : INT64_MAX;
    link->buffer = spec->buffer >= 0 ? spec->buffer : -1;
    link->max_packets
        = spec->buffer_packets > 0 && spec->buffer_packets < UINT32_MAX ? (uint32_t) spec->buffer_packets : UINT32_MAX;
    link->delay = spec->delay;
    link->capacity = spec->capacity;
    link->state = spec->state;
    link->params = spec->params;
    link->on_arrival = spec->on_arrival;
    link->header_offset = (uint16_t) spec->header_offset;
    link->wants_flow_queue = spec->wants_flow_queue != 0;
    link->wants_random = spec->wants_random != 0;
}

void
ecc_link_set_plain(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_state_t *link = &self->links[i];
        link->is_plain = link->next == 0 && link->queues == NULL && !link->schedules && link->channel == NULL
            && !link->has_changes && !link->wants_random && self->flow_queues == NULL && !self->wants_ecn;
    }
}

ECC_COLD double
ecc_link_capacity(const ecc_engine_t *self, ecc_link_state_t *link)
{
    while (link->next_change < link->n_changes && link->changes[link->next_change].time <= self->now) {
        double capacity = link->changes[link->next_change].capacity;
        link->advertised_capacity = capacity > 0.0 ? capacity : link->advertised_capacity;
        link->next_change++;
    }
    return link->advertised_capacity;
}

ECC_COLD void
ecc_link_measure(ecc_link_state_t *link, ecc_ps_t time)
{
    ecc_ps_t span = time - link->measured_until;

    link->area += (ecc_wide_t) link->queue * span;
    link->measured_until = time;
    if (link->histogram != NULL) {
        link->histogram[ecc_bins_of(link->queue)] += span;
    }
}

void
ecc_link_grow(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position)
{
    ecc_link_grow_plain(link, size);
    if (self->flow_queues != NULL) {
        self->flow_queues[position] += size;
    }
}

void
ecc_link_shrink(ecc_engine_t *self, ecc_link_state_t *link, int64_t size, uint32_t position)
{
    ecc_link_shrink_plain(link, size);
    for (uint32_t i = link->next; i != 0; i = self->links[i].next) {
        if (link->queue < self->links[i].queue_low) {
            self->links[i].queue_low = link->queue;
        }
    }
    if (self->flow_queues != NULL) {
        self->flow_queues[position] -= size;
    }
}

void
ecc_link_catch_up(ecc_engine_t *self, ecc_link_state_t *link)
{
    ecc_link_catch_up_plain(self, link, false);
}

ECC_COLD void
ecc_link_count_mark(ecc_engine_t *self, uint32_t index, const ecc_packet_t *packet)
{
    ecc_link_state_t *link = &self->links[index];

    link->marked++;
    if (link->queues != NULL) {
        link->queues[link->queue_index].marked++;
    }
    ecc_state_trace(self, ECC_EVENT_MARK, index, packet->offset);
}

int64_t
ecc_link_size(const ecc_engine_t *self, const ecc_packet_t *packet, uint32_t hop)
{
    const ecc_flow_t *flow = self->flows[packet->flow].spec;

    if (packet->size < 0 && !ecc_packets_is_trimmed(packet->size)) {
        return -packet->size; /* a control packet */
    }
    if ((hop & ECC_HOP_IS_ACK) != 0) {
        return flow->ack_size;
    }
    return packet->size < 0 ? flow->trimmed_size : packet->size + flow->header_bytes;
}
