/*
 * Links whose discipline chooses the queue of the next packet by its hook on_select (S-226). The hook may also let the
 * server wait, as a shaper does: then there is a DEPARTURE without a packet when the wait ends.
 *
 * Not here: turns of queues, and what follows the choice (scheduler.c).
 */

#include "link/selection.h"

#include <string.h>

#include "link/router.h"

int
ecc_selection_next(ecc_engine_t *self, uint32_t index, uint32_t *number)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t node = self->base[ECC_EVENT_DEPARTURE] + index;
    ecc_hook_packet_t none = { .header = self->scratch, .flow = -1, .kind = ECC_PACKET_DATA };
    ecc_ps_t wait;
    int64_t chosen;
    int ret;

    memset(self->scratch, 0, self->header_size);
    self->link_env.queue_index = -1;
    ret = ecc_router_call(self, index, ECC_LINK_ON_SELECT, link->spec.on_select, none);
    chosen = self->link_env.queue_index;
    *number = link->n_queues;
    if (ret == 0 && chosen >= 0 && self->link_env.wait > 0.0) {
        wait = ecc_clock_ps(self->link_env.wait);
        link->wakes_at = ecc_clock_add(self->now, wait < 1 ? 1 : wait);
        ecc_calendar_move(&self->fast, node, link->wakes_at);
    } else if (ret == 0) {
        if (chosen < 0 || chosen >= link->n_queues || link->queues[chosen].packets.head == ECC_NO_PACKET) {
            return ecc_state_fail(self, ECC_ERR_SELECTION, ECC_ENTITY_LINK, index, ECC_LINK_ON_SELECT, (double) chosen);
        }
        *number = (uint32_t) chosen;
    }
    return ret;
}
