#ifndef ECC_ROUTER_H
#define ECC_ROUTER_H

/* Routers: the hooks that run at a link, and their clocks (S-20 to S-22). */

#include "core/state.h"

/* S-22, S-35. */
ECC_MUST_CHECK int ecc_router_start(ecc_engine_t *self, uint32_t router);
ECC_MUST_CHECK int ecc_router_interval(ecc_engine_t *self, uint32_t router);

/* As ecc_router_call, of the first router, which has the hook, and of all others, which may. */
ECC_MUST_CHECK int ecc_router_call_first(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t hook,
    const ecc_packet_t *packet, uint32_t position, int64_t packet_size, enum ecc_packet_kind kind);
ECC_MUST_CHECK int ecc_router_call_additional(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number,
    const ecc_packet_t *packet, uint32_t position, int64_t packet_size, enum ecc_packet_kind kind);

/* No hook has asked for anything. */
static inline void
ecc_router_clear(ecc_engine_t *self)
{
    self->link_env.drop = 0;
    self->link_env.mark = 0;
    self->link_env.trim = 0;
}

/* As ecc_router_call, at a link that is plain. */
ECC_MUST_CHECK int ecc_router_call_plain(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t hook,
    const ecc_packet_t *packet, int64_t packet_size, enum ecc_packet_kind kind);

/*
 * Calls a hook of a link (S-21), one with a packet, of each of its routers; first: that of the first one, or NULL. Then link_env.drop says whether any of them has set it, and link_env.mark whether one has marked the packet.
 */
ECC_MUST_CHECK static inline int
ecc_router_call(ecc_engine_t *self, uint32_t link, enum ecc_link_hook number, ecc_hook_t first,
    const ecc_packet_t *packet, uint32_t position, int64_t packet_size, enum ecc_packet_kind kind)
{
    int ret = 0;

    if (first != NULL) {
        ret = ecc_router_call_first(self, link, number, first, packet, position, packet_size, kind);
    } else {
        ecc_router_clear(self);
    }
    if (ret == 0 && self->links[link].next != 0) {
        ret = ecc_router_call_additional(self, link, number, packet, position, packet_size, kind);
    }
    return ret;
}

#endif
