/*
 * Checks of runs that begin with flows that have begun before time 0 (S-206, S-207), before anything is built.
 *
 * Not here: the checks of these flows as any others (config.c), and the placing of their packets (under_way.c).
 */

#include "core/begun.h"

/* S-207: whether an entry is valid; ecc_under_way_place checks that each entry is placed once. */
static bool
is_under_way(const ecc_config_t *config, int64_t i)
{
    const ecc_under_way_t *packet = &config->under_way[i];
    const ecc_flow_t *flow;

    if (packet->flow < 0 || packet->flow >= config->n_flows || packet->placed < 0
        || packet->placed >= config->n_under_way || packet->sent > 0 || packet->sent <= -ECC_NEVER
        || (i > 0 && packet->sent < packet[-1].sent)) {
        return false;
    }
    flow = &config->flows[packet->flow];
    return flow->n_alternatives == 0 && flow->n_reverse == 0 && packet->hop >= 0
        && packet->sent > -config->begun[packet->flow].rtt && packet->hop <= flow->n_forward
        && packet->at >= packet->sent && packet->at < ECC_NEVER
        && (packet->hop > 0 || packet->at <= 0 || packet->at <= flow->access_delay)
        && (packet->hop < flow->n_forward || packet->at > -flow->ack_delay);
}

int
ecc_begun_check(ecc_engine_t *self, const ecc_config_t *config)
{
    for (int64_t i = 0; i < config->n_flows; i++) {
        const ecc_begun_t *begun = &config->begun[i];
        const ecc_flow_t *flow = &config->flows[i];
        if (begun->rtt <= 0 || begun->rtt >= ECC_NEVER || flow->start != 0
            || (flow->on_start != NULL && begun->state == NULL)) {
            return ecc_state_fail(self, ECC_ERR_UNDER_WAY, ECC_ENTITY_FLOW, i, ECC_NO_HOOK, (double) begun->rtt);
        }
    }
    for (int64_t i = 0; i < config->n_links + config->n_additional; i++) {
        const ecc_link_t *router = &config->links[i];
        if ((router->on_arrival != NULL || router->on_departure != NULL) && router->begun_state == NULL) {
            return ecc_state_fail(self, ECC_ERR_UNDER_WAY, ECC_ENTITY_LINK, i, ECC_NO_HOOK, 0.0);
        }
    }
    for (int64_t i = 0; i < config->n_under_way; i++) {
        if (!is_under_way(config, i)) {
            return ecc_state_fail(self, ECC_ERR_UNDER_WAY, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) i);
        }
    }
    return 0;
}
