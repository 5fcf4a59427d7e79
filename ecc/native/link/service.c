/*
 * Packets that are dropped, trimmed or served at a link.
 *
 * Not here: the choice between these (transit.c, scheduler.c).
 */

#include "link/service.h"

#include "core/path.h"
#include "link/link.h"
#include "link/router.h"

int
ecc_service_drop(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int ret;
    int gone;

    link->dropped++;
    link->dropped_bytes += size;
    if (link->queues != NULL) {
        link->queues[link->queue_index].dropped++;
    }
    ecc_state_trace(self, ECC_EVENT_DROP, index, packet->offset);
    ret = ecc_router_call(self, index, ECC_LINK_ON_DROP, link->spec.on_drop, ecc_router_packet(packet, size, kind));
    gone = ecc_path_discard(self, id);
    return ret != 0 ? ret : gone;
}

ECC_COLD int64_t
ecc_service_trim(ecc_engine_t *self, uint32_t index, uint32_t id, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    int64_t trimmed = self->flows[packet->flow].spec->trimmed_size;

    if (kind != ECC_PACKET_DATA || trimmed == 0 || packet->size >= ECC_PACKETS_MAX_SIZE) {
        return 0;
    }
    if (self->link_env.mark != 0) {
        ecc_link_count_mark(self, index, packet);
    }
    if (size <= trimmed) {
        return size;
    }
    ecc_state_trace(self, ECC_EVENT_TRIM, index, packet->offset);
    packet->size += INT32_MIN;
    link->dropped_bytes += size - trimmed;
    return trimmed;
}
