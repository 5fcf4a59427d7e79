#ifndef ECC_SCHEDULER_H
#define ECC_SCHEDULER_H

/* Links that choose their next packet when the previous one has left (S-112 to S-120). */

#include "core/state.h"

/* Gives queues to all links that schedule. */
ECC_MUST_CHECK int ecc_scheduler_init(ecc_engine_t *self, const ecc_config_t *config);

/* A packet has arrived at such a link, and was counted there (S-113). */
ECC_MUST_CHECK int ecc_scheduler_arrive(
    ecc_engine_t *self, uint32_t link, uint32_t packet, int64_t size, enum ecc_packet_kind kind);

/* S-114: serves the next waiting packet, if the server is free. */
ECC_MUST_CHECK int ecc_scheduler_serve(ecc_engine_t *self, uint32_t link);

/* Whether samples show the queues of a link, and how many queues they show in all. */
static inline bool
ecc_scheduler_is_sampled(const ecc_link_state_t *link)
{
    return link->n_queues > 1 && link->n_queues <= ECC_MAX_SAMPLED_QUEUES;
}

int64_t ecc_scheduler_n_sampled(const ecc_engine_t *self);

/* Appends a queue to a round. */
void ecc_scheduler_activate(ecc_link_state_t *link, uint32_t queue, enum ecc_round round);

/* Appends a packet that arrived at `time` to a queue. */
void ecc_scheduler_join(ecc_engine_t *self, uint32_t link, uint32_t queue, uint32_t packet, ecc_ps_t time);

/* Adds the bytes that wait in the queues to *bytes; 0, or the code of a broken invariant. */
ECC_MUST_CHECK int ecc_scheduler_verify(const ecc_engine_t *self, const ecc_link_state_t *link, ecc_bytes_t *bytes);

#endif
