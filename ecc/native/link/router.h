#ifndef ECC_ROUTER_H
#define ECC_ROUTER_H

/* Routers: the hooks that run at a link, and their clocks (S-20 to S-22). */

#include "core/state.h"

/* S-22, S-35: the first on_start, and INTERVAL. */
ECC_MUST_CHECK int ecc_router_start(ecc_engine_t *self, uint32_t router);
ECC_MUST_CHECK int ecc_router_interval(ecc_engine_t *self, uint32_t router);

/* A packet as the hooks of a link see it, with its size there. */
static inline ecc_hook_packet_t
ecc_router_packet(const ecc_packet_t *packet, int64_t size, enum ecc_packet_kind kind)
{
    return (ecc_hook_packet_t) { ecc_packets_header(packet), size, packet->flow, kind, packet->position };
}

/* As ecc_router_call, of the first router, which has the hook, and of all others, which may have it. */
ECC_MUST_CHECK int ecc_router_call_first(
    ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t hook, ecc_hook_packet_t packet);
ECC_MUST_CHECK int ecc_router_call_additional(
    ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_packet_t packet);

/*
 * As ecc_router_call at a plain link with the hook; the fields are separate, as registers are faster than a struct
 * here.
 */
ECC_MUST_CHECK int ecc_router_call_plain(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t hook,
    const ecc_packet_t *packet, int64_t size, enum ecc_packet_kind kind);

/* Clears the requests of hooks. */
static inline void
ecc_router_clear(ecc_engine_t *self)
{
    self->link_env.drop = 0;
    self->link_env.mark = 0;
    self->link_env.trim = 0;
    self->link_env.filter = 0;
}

/*
 * Calls a hook of a link with a packet (S-21), of each of its routers; first: that of the first router, or NULL. Then
 * link_env.drop says whether any of them has set it, and link_env.mark whether one of them has marked the packet.
 */
ECC_MUST_CHECK static inline int
ecc_router_call(
    ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t first, ecc_hook_packet_t packet)
{
    int ret = 0;

    if (first != NULL) {
        ret = ecc_router_call_first(self, link, number, first, packet);
    } else {
        ecc_router_clear(self);
    }
    if (ret == 0 && self->links[link].next != 0) {
        ret = ecc_router_call_additional(self, link, number, packet);
    }
    return ret;
}

#endif
