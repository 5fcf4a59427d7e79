#ifndef ECC_ACK_FILTER_H
#define ECC_ACK_FILTER_H

/* ACKs that a later ACK in the same queue supersedes (S-227). */

#include "core/state.h"

/*
 * Removes from a queue, whose last packet has just joined it, the ACK that this packet supersedes; returns it, or
 * ECC_NO_PACKET. The caller drops it.
 */
uint32_t ecc_ack_filter_remove(const ecc_engine_t *self, ecc_queue_t *queue, bool aggressive);

#endif
