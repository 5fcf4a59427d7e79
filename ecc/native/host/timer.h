#ifndef ECC_TIMER_H
#define ECC_TIMER_H

/* The retransmission timer of a flow, and the other waits of its TIMEOUT (S-42, S-87, S-88, S-153). */

#include "core/state.h"

/* S-42, S-88: duration of the timer, doubled after each timeout. */
ecc_ps_t ecc_timer_wait(ecc_engine_t *self, uint32_t flow);

/* S-87: the timer starts again now. */
void ecc_timer_start(ecc_engine_t *self, uint32_t flow);

/* Sets a TIMEOUT, if none is pending. */
void ecc_timer_begin(ecc_engine_t *self, uint32_t flow);

/* S-153: TIMEOUT is pending when the wait of a transport of type 3 ends, or before that. */
void ecc_timer_await(ecc_engine_t *self, uint32_t flow);

/* S-153: a flow with a transport of type 3 waits to send a probe, unless it waits for reordered packets. */
void ecc_timer_await_probe(ecc_engine_t *self, uint32_t flow);

/* S-219: the loss time or the probe timeout of a transport of type 4, ECC_NEVER without either. */
ecc_ps_t ecc_timer_deadline(ecc_engine_t *self, uint32_t flow);

/* S-219: TIMEOUT is pending at the deadline of a transport of type 4, or before it. */
void ecc_timer_await_packets(ecc_engine_t *self, uint32_t flow);

#endif
