#ifndef ECC_SCHEDULER_H
#define ECC_SCHEDULER_H

/* Links that choose their next packet when the one before has left, and not when it arrives (S-112 to S-115). */

#include "state.h"

/* Gives queues to all links that schedule. */
ECC_MUST_CHECK int ecc_scheduler_init(ecc_engine_t *self);

/* A packet has arrived at such a link, and was counted there (S-113). */
ECC_MUST_CHECK int ecc_scheduler_arrive(
    ecc_engine_t *self, uint32_t link, uint32_t packet, int64_t size, enum ecc_packet_kind kind);

/* The server of such a link may be free: the next packet is served, unless none waits (S-114). */
ECC_MUST_CHECK int ecc_scheduler_serve(ecc_engine_t *self, uint32_t link);

/* A packet that arrived at `time` becomes the last of a queue. */
void ecc_scheduler_join(ecc_engine_t *self, uint32_t link, uint32_t queue, uint32_t packet, ecc_ps_t time);

/* Adds to *bytes what waits in the queues; 0, or the code of a broken invariant. */
ECC_MUST_CHECK int ecc_scheduler_verify(const ecc_engine_t *self, const ecc_link_state_t *link, ecc_bytes_t *bytes);

#endif
