#ifndef ECC_TRANSPORT_H
#define ECC_TRANSPORT_H

/*
 * Loss recovery, TRANSPORT of the text: what its sender knows and sends next, and what its receiver holds. Pure books:
 * sender.c lets packets go, receiver.c lets ACKs go.
 */

#include "state.h"

#define ECC_MOST_DUPLICATES 3 /* that are taken for a loss */

/* What is to be sent next; small enough for registers. */
typedef struct {
    int64_t begin;
    int32_t size;  /* 0: nothing */
    uint32_t rule; /* 1 to 5, of the text */
} ecc_segment_t;

/* What an ACK has brought. */
typedef struct {
    int64_t acked;
    bool is_loss; /* a recovery begins */
    bool starts_timer;
} ecc_heard_t;

void ecc_transport_init(ecc_engine_t *self, uint32_t flow);
void ecc_transport_free(ecc_transport_t *self, ecc_memory_t *memory);

/* What may still be in the network, as hooks see it. */
int64_t ecc_transport_in_flight(const ecc_transport_t *self);

/* Of the RTT sample that the flow has just taken, before its srtt knows of it. */
void ecc_transport_measure(ecc_transport_t *self, const ecc_flow_state_t *flow);

/* Once there is a sample. */
ecc_ps_t ecc_transport_rto(const ecc_transport_t *self, const ecc_flow_state_t *flow);

ecc_segment_t ecc_transport_next(const ecc_transport_t *self, const ecc_flow_state_t *flow);
void ecc_transport_sent(ecc_transport_t *self, ecc_segment_t segment);

ECC_MUST_CHECK int ecc_transport_hear(ecc_engine_t *self, const ecc_packet_t *packet, ecc_heard_t *heard);
void ecc_transport_time_out(ecc_transport_t *self);

/* A packet has come; may_wait: its ACK, for others. */
ECC_MUST_CHECK int ecc_transport_take(ecc_engine_t *self, const ecc_packet_t *packet, bool *may_wait);

/* Writes into an ACK what it says as it sets out. */
void ecc_transport_say(const ecc_engine_t *self, const ecc_packet_t *packet);

ECC_MUST_CHECK int ecc_transport_verify(const ecc_transport_t *self, const ecc_flow_state_t *flow);

#endif
