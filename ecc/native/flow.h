#ifndef ECC_FLOW_H
#define ECC_FLOW_H

/* A flow from START to its end, its receiver, and what is on the way outside of links; its sender is in sender.h. */

#include "state.h"

/* Sets up a flow from its specification; its links are at this position of the table of hops. */
void ecc_flow_init(ecc_engine_t *self, uint32_t flow, const ecc_flow_t *is, uint32_t position, int64_t number);

/* A size for packets once the opening is over. */
static inline int32_t
ecc_flow_full_size(ecc_flow_state_t *flow)
{
    const ecc_flow_t *is = flow->is;

    return (int32_t) (flow->draws_sizes ? ecc_random_between(&flow->random_sizes, is->packet_size, is->packet_size_max)
                                        : is->packet_size);
}

/* What hooks without a packet see as its size. */
static inline int64_t
ecc_flow_largest_size(const ecc_flow_state_t *flow)
{
    bool opening = flow->srtt == 0.0 && flow->is->opening_size > 0;

    return flow->draws_sizes && !opening ? flow->is->packet_size_max : flow->packet_size;
}

ECC_MUST_CHECK int ecc_flow_start(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_flow_stop(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_flow_access(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_flow_timer(ecc_engine_t *self, uint32_t flow);

/* An active flow stops, or is complete. */
ECC_MUST_CHECK int ecc_flow_end(ecc_engine_t *self, uint32_t flow);

/* A packet has reached its receiver, where something is to be done. */
ECC_MUST_CHECK int ecc_flow_receive(ecc_engine_t *self, uint32_t packet);

/* A packet will reach its sender, as an ACK, ack_delay after `time`. */
void ecc_flow_return(ecc_engine_t *self, uint32_t packet, ecc_ps_t time);

/* A packet leaves the network: it goes back to the pool, and its flow may be over. */
void ecc_flow_forget(ecc_engine_t *self, uint32_t packet);

/* A transfer that neither sends, nor has anything in the network, nor is followed by one that waits, is over. */
void ecc_flow_leave_if_over(ecc_engine_t *self, uint32_t flow);

/* first of the text: how long the first answer takes at least. */
ecc_ps_t ecc_flow_first_rtt(ecc_engine_t *self, uint32_t flow);

ecc_flow_result_t ecc_flow_result(const ecc_engine_t *self, uint32_t flow);

/* Counts what has silently reached the receiver by now. */
void ecc_flow_catch_up(ecc_engine_t *self, uint32_t flow);

/* Notes what went wrong at a flow, or at a transfer in its slot, and hands the code on. */
int ecc_flow_fail(ecc_engine_t *self, int code, uint32_t flow, int hook, double value);

#endif
