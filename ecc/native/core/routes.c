/*
 * The table of hops: for every position of every route, its link, its direction, and what follows its wire.
 *
 * Not here: the checks of links and flows (config.c).
 */

#include "core/routes.h"

#include "core/config.h"

/* S-32 to S-34: sets the ends of the last wires in both directions. */
static void
set_route_ends(ecc_engine_t *self, const ecc_flow_t *flow, uint32_t *hops)
{
    uint32_t *last = &hops[flow->n_forward + flow->n_reverse - 1];
    bool is_explicit = flow->impairment > 0 || ecc_config_reorders(self, *last >> ECC_HOP_LINK);

    if (flow->n_reverse > 0) {
        *last |= is_explicit ? ECC_END_HOST : ECC_END_SENDER;
    }
    is_explicit = flow->on_receive != NULL || flow->enables_subsequent != 0 || flow->transport != ECC_TRANSPORT_NONE
        || ecc_config_needs_receiver(self, flow, hops);
    hops[flow->n_forward - 1] |= is_explicit ? ECC_END_HOST : ECC_END_IMMEDIATE_ACK;
}

/* Installs one direction of a route at a position of the table of hops. */
static int
install_links(
    ecc_engine_t *self, const ecc_config_t *config, uint32_t flow, uint32_t position, int64_t n, uint32_t flags)
{
    for (int64_t k = 0; k < n; k++, position++) {
        int64_t link = config->routes[position];
        if (link < 0 || link >= config->n_links) {
            return ecc_state_fail(self, ECC_ERR_FLOW_ROUTE, ECC_ENTITY_FLOW, flow, ECC_NO_HOOK, (double) link);
        }
        self->hops[position] = (uint32_t) link << ECC_HOP_LINK | flags | ECC_END_LINK;
    }
    return 0;
}

/*
 * S-130: installs the other routes of a flow whose first route begins at `first`: their relative positions, then
 * links.
 */
static int
install_alternatives(
    ecc_engine_t *self, const ecc_config_t *config, uint32_t index, uint32_t first, uint32_t flags, uint32_t *position)
{
    int64_t n = config->flows[index].n_alternatives;
    uint32_t offsets = *position;

    if (n > config->n_routes - offsets) {
        return ecc_state_fail(self, ECC_ERR_FLOW_ROUTE, ECC_ENTITY_FLOW, index, ECC_NO_HOOK, (double) n);
    }
    *position += (uint32_t) n;
    for (int64_t k = 0; k < n; k++) {
        int64_t length = config->routes[offsets + k];
        int ret;
        if (length < 1 || length > config->n_routes - *position) {
            return ecc_state_fail(self, ECC_ERR_FLOW_ROUTE, ECC_ENTITY_FLOW, index, ECC_NO_HOOK, (double) length);
        }
        ret = install_links(self, config, index, *position, length, flags);
        if (ret != 0) {
            return ret;
        }
        self->hops[offsets + k] = *position - first;
        *position += (uint32_t) length;
        self->hops[*position - 1] |= ECC_END_HOST; /* S-132: alternatives end at the receiver */
    }
    return 0;
}

int
ecc_routes_install(ecc_engine_t *self, const ecc_config_t *config)
{
    uint32_t position = 0;

    for (uint32_t i = 0; i < self->n_flows + self->transfers.n_templates; i++) {
        ecc_template_t *template = i < self->n_flows ? NULL : &self->transfers.templates[i - self->n_flows];
        const ecc_flow_t *flow = template == NULL ? &config->flows[i] : &template->spec;
        uint32_t flags;
        uint32_t first;
        int ret;
        if (flow->n_forward > config->n_routes - position
            || flow->n_reverse > config->n_routes - position - flow->n_forward) {
            return ecc_state_fail(self, ECC_ERR_FLOW_ROUTE, ECC_ENTITY_FLOW, i, ECC_NO_HOOK,
                (double) flow->n_forward + (double) flow->n_reverse);
        }
        flags = flow->header_bytes > 0 ? ECC_HOP_HEADER : 0u;
        first = position;
        *(template == NULL ? &self->flows[i].position : &template->position) = first;
        ret = install_links(self, config, i, first, flow->n_forward, flags);
        if (ret == 0) {
            position += (uint32_t) flow->n_forward;
            ret = install_links(self, config, i, position, flow->n_reverse, ECC_HOP_IS_ACK);
        }
        if (ret == 0) {
            position += (uint32_t) flow->n_reverse;
            set_route_ends(self, flow, &self->hops[first]);
            ret = flow->n_alternatives > 0 ? install_alternatives(self, config, i, first, flags, &position) : 0;
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}
