#ifndef ECC_SERVICE_H
#define ECC_SERVICE_H

/* Packets that are dropped, trimmed or served at a link. */

#include "core/state.h"
#include "link/server.h"

/* A packet that is not in the queue is dropped (S-23.3). */
ECC_MUST_CHECK int ecc_service_drop(
    ecc_engine_t *self, uint32_t link, uint32_t packet, int64_t size, enum ecc_packet_kind kind);

/*
 * S-135: a hook wants a packet trimmed. Returns its new size, or 0 if it cannot be trimmed; a small packet stays as it
 * is.
 */
int64_t ecc_service_trim(ecc_engine_t *self, uint32_t link, uint32_t packet, int64_t size, enum ecc_packet_kind kind);

/*
 * A packet is served when the one before it has left (S-25, S-26). Inlined into arrivals, which are frequent: a call
 * costs 5 % of a run without hooks.
 */
static inline __attribute__((always_inline)) int
ecc_service_transmit(ecc_engine_t *self, uint32_t index, ecc_queued_t item, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_ps_t begins = link->free_at > self->now ? link->free_at : self->now;
    int ret;

    link->free_at = link->tx_size[kind] == item.size ? ecc_clock_add(begins, link->tx_time[kind])
                                                     : ecc_server_serve(self, index, begins, item.size, kind);
    item.leaves = link->free_at;
    ret = ecc_ring_append(&link->ring, &self->memory, item);
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_LINK, index, ECC_NO_HOOK, link->ring.count);
}

#endif
