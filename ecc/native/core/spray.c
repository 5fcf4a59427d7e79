/*
 * The choice of the route of each packet (S-130 to S-133).
 *
 * Not here: receivers of reordered packets (receiver.c, reassembly.c), and the table of hops (routes.c).
 */

#include "core/spray.h"

void
ecc_spray_init(ecc_engine_t *self, uint32_t index)
{
    uint64_t stream = ECC_RANDOM_OF_ROUTES + (uint64_t) self->flows[index].number;

    self->sprays[index] = (ecc_spray_t) { .random = ecc_random_stream(self->seed, stream) };
}

uint32_t
ecc_spray_next(ecc_engine_t *self, uint32_t index)
{
    ecc_spray_t *spray = &self->sprays[index];
    const ecc_flow_t *spec = self->flows[index].spec;
    uint32_t route = spray->next;

    if (spec->spraying == ECC_SPRAYING_RANDOM) {
        route = (uint32_t) ecc_random_between(&spray->random, 0, spec->n_alternatives);
    } else {
        spray->next = route == (uint32_t) spec->n_alternatives ? 0 : route + 1;
    }
    return ecc_spray_route(self, index, route);
}

bool
ecc_spray_has(const ecc_engine_t *self, uint32_t index, uint32_t position)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool found
        = position >= flow->position && position - flow->position < flow->spec->n_forward + flow->spec->n_reverse;

    for (uint32_t route = 1; !found && route <= (uint32_t) flow->spec->n_alternatives; route++) {
        uint32_t at = ecc_spray_route(self, index, route);
        while (at < position && (self->hops[at] & ECC_HOP_END) == ECC_END_LINK) {
            at++;
        }
        found = at == position;
    }
    return found;
}
