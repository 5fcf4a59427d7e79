#ifndef ECC_HOST_H
#define ECC_HOST_H

/* Events of hosts: flows start and stop, and packets reach links and receivers. */

#include "core/state.h"

/* START, STOP and TIMER of a flow (S-44, S-51, S-49). */
ECC_MUST_CHECK int ecc_host_start(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_host_stop(ecc_engine_t *self, uint32_t flow);
ECC_MUST_CHECK int ecc_host_timer(ecc_engine_t *self, uint32_t flow);

/* ACCESS: a packet of a flow reaches the end of the access line, and arrives at its first link. */
ECC_MUST_CHECK int ecc_host_access(ecc_engine_t *self, uint32_t flow);

/*
 * HOP (S-31, S-32, S-34): a packet reaches the end of the wire of a link: the next link, its receiver or a pure delay.
 */
ECC_MUST_CHECK int ecc_host_hop(ecc_engine_t *self, uint32_t link);

/* A packet has reached its receiver, in an event (S-32). */
ECC_MUST_CHECK int ecc_host_receive(ecc_engine_t *self, uint32_t packet);

/* Counts the packets that have silently reached the receiver of a flow by now (S-33). */
void ecc_host_catch_up(ecc_engine_t *self, uint32_t flow);

#endif
