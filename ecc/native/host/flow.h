#ifndef ECC_FLOW_H
#define ECC_FLOW_H

/* A flow from START to its end, its receiver, and what is in transit outside of links; its sender is in sender.h. */

#include "core/state.h"

/* Sets up a flow from its spec; its links are at this position of the table of hops. */
void ecc_flow_init(ecc_engine_t *self, uint32_t flow, const ecc_flow_t *spec, uint32_t position, int64_t number);

/* S-41: the full size of the next packet. */
static inline int32_t
ecc_flow_full_size(ecc_flow_state_t *flow)
{
    const ecc_flow_t *spec = flow->spec;

    return (int32_t) (flow->draws_sizes
            ? ecc_random_between(&flow->random_sizes, spec->packet_size, spec->packet_size_max)
            : spec->packet_size);
}

/* S-101: packet_size of hooks without a packet. */
static inline int64_t
ecc_flow_largest_size(const ecc_flow_state_t *flow)
{
    bool opening = flow->srtt == 0.0 && flow->spec->opening_size > 0;

    return flow->draws_sizes && !opening ? flow->spec->packet_size_max : flow->packet_size;
}

ECC_MUST_CHECK int ecc_flow_start(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_flow_stop(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_flow_access(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_flow_timer(ecc_engine_t *self, uint32_t flow);

/* An active flow stops (S-51). */
ECC_MUST_CHECK int ecc_flow_end(ecc_engine_t *self, uint32_t flow);

/* A packet has reached its receiver, in an event (S-32). */
ECC_MUST_CHECK int ecc_flow_receive(ecc_engine_t *self, uint32_t packet);

/* A packet will reach its sender, as an ACK, ack_delay after `time`. */
static inline void
ecc_flow_return_ack(ecc_engine_t *self, uint32_t packet, ecc_ps_t time)
{
    uint32_t index = ecc_packets_at(&self->packets, packet)->flow;
    ecc_flow_state_t *flow = &self->flows[index];

    time = ecc_state_add(time, flow->ack_delay);
    if (ecc_packets_append(&self->packets, &flow->acks, packet, time)) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_ACK] + index, time);
    }
}

/* A packet is an ACK from now on, and reaches its sender ack_delay later. */
ECC_MUST_CHECK int ecc_flow_send_ack(ecc_engine_t *self, uint32_t packet);

/* The memory of a packet, and of what it carries, is released. */
void ecc_flow_release(ecc_engine_t *self, uint32_t packet);

/* A packet leaves the network: its memory is released, and its flow may finish (S-59). */
ECC_MUST_CHECK int ecc_flow_discard(ecc_engine_t *self, uint32_t packet);

/* S-59, S-61: a transfer finishes that is not active, has nothing in the network and awaits no subsequent one. */
void ecc_flow_finish_if_done(ecc_engine_t *self, uint32_t flow, ecc_ps_t now);

/* S-43: the least time in which the first answer can come. */
ecc_ps_t ecc_flow_first_rtt(ecc_engine_t *self, uint32_t flow);

ecc_flow_result_t ecc_flow_result(const ecc_engine_t *self, uint32_t flow);

/* Counts what has silently reached the receiver by now (S-33). */
void ecc_flow_catch_up(ecc_engine_t *self, uint32_t flow);

/* Notes what failed at a flow, or at a transfer in its slot, and returns the code. */
int ecc_flow_fail(ecc_engine_t *self, int code, uint32_t flow, int hook, double value);

#endif
