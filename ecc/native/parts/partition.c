/*
 * Partitions of a network (S-122, S-124, S-127): whether one is allowed, and the delays between its parts.
 *
 * Not here: which part has what (cut.c), packets between parts (crossing.c, enter.c), and threads (team.c).
 *
 * Invariant: between any two parts that exchange packets there is a positive delay.
 */

#include "parts/partition.h"

#include "core/cut.h"
#include "core/spray.h"

/* S-124: minimum time that a packet on its way to another part takes. */
static ecc_ps_t
delay_before(const ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    uint32_t last = self->flows[flow].position + (uint32_t) ecc_cut_n_hops(spec) - 1;

    if (hop == ECC_CUT_ON_ACCESS) {
        return spec->access_delay;
    }
    if (ecc_cut_is_wire(self, flow, hop)) {
        return self->links[self->hops[self->flows[flow].position + ecc_cut_relative(spec, hop)] >> ECC_HOP_LINK].delay;
    }
    if (!ecc_cut_ends_with_ack(self, last)) {
        return spec->ack_delay;
    }
    /* packets received silently are counted ack_delay before the ACK */
    return self->links[self->hops[last] >> ECC_HOP_LINK].delay + (spec->n_reverse > 0 ? spec->ack_delay : 0);
}

/* Notes the minimum time from one part to another; returns whether it is positive. */
static bool
note_delay(ecc_engine_t *self, int64_t before, int64_t after, ecc_ps_t delay)
{
    if (before == self->cut->part && delay < self->cut->delays[after]) {
        self->cut->delays[after] = delay;
    }
    return delay > 0;
}

/* Whether an access line, wire or pure delay may cross parts, as it has a positive delay. */
static bool
allows_crossing(ecc_engine_t *self, uint32_t flow, int64_t hop)
{
    const ecc_flow_t *spec = self->flows[flow].spec;
    bool is_silent = ecc_cut_is_wire(self, flow, hop)
        && ecc_cut_ends_with_ack(self, self->flows[flow].position + ecc_cut_relative(spec, hop));
    int64_t before = ecc_cut_part_before(self, flow, hop);
    int64_t after = ecc_cut_part_after(self, flow, hop);

    return is_silent || before == after || note_delay(self, before, after, delay_before(self, flow, hop));
}

/* S-122: whether a flow may be cut as the partition says. */
static bool
allows_partition(ecc_engine_t *self, uint32_t flow)
{
    const ecc_cut_t *cut = self->cut;
    const ecc_flow_t *spec = self->flows[flow].spec;
    bool is_one = spec->on_receive != NULL || self->flows[flow].immediate_ack;
    bool allowed = cut->senders[flow] == cut->receivers[flow] || !is_one;

    if (spec->n_reverse > 0) {
        uint32_t first = self->hops[self->flows[flow].position + spec->n_forward];
        allowed = allowed && cut->receivers[flow] == cut->links[first >> ECC_HOP_LINK];
    }
    for (int64_t hop = ECC_CUT_ON_ACCESS; hop <= ecc_cut_n_hops(spec); hop++) {
        allowed = allows_crossing(self, flow, hop) && allowed;
    }
    for (uint32_t route = 1; route <= (uint32_t) spec->n_alternatives; route++) {
        uint32_t position = ecc_spray_route(self, flow, route);
        int64_t hop = (int64_t) position - self->flows[flow].position + ECC_CUT_AFTER_ACKS;
        allowed = allowed
            && cut->links[self->hops[position] >> ECC_HOP_LINK] == ecc_cut_part_after(self, flow, ECC_CUT_ON_ACCESS);
        do {
            allowed = allows_crossing(self, flow, hop++) && allowed;
        } while ((self->hops[position++] & ECC_HOP_END) == ECC_END_LINK);
    }
    return allowed;
}

/* S-127: whether transfers of a template may be cut as the partition says. */
static bool
allows_template(ecc_engine_t *self, uint32_t index)
{
    const ecc_template_t *template = &self->transfers.templates[index];
    const uint32_t *hops = &self->hops[template->position];
    const int64_t *links = self->cut->links;
    int64_t part = self->cut->templates[index];
    int64_t n_forward = template->spec.n_forward;
    bool allowed = links[hops[0] >> ECC_HOP_LINK] == part
        && (template->length == n_forward || links[hops[n_forward] >> ECC_HOP_LINK] == part);

    for (int64_t hop = 0; hop < template->length; hop++) {
        bool is_last = hop == n_forward - 1 || hop == template->length - 1;
        uint32_t link = hops[hop] >> ECC_HOP_LINK;
        int64_t after = is_last ? part : links[hops[hop + 1] >> ECC_HOP_LINK];
        if (links[link] != after) {
            allowed = note_delay(self, links[link], after, self->links[link].delay) && allowed;
        }
    }
    return allowed;
}

static bool
are_parts(const int64_t *parts, int64_t n, int64_t n_parts)
{
    bool valid = n == 0 || parts != NULL;

    for (int64_t i = 0; i < n && valid; i++) {
        valid = parts[i] >= 0 && parts[i] < n_parts;
    }
    return valid;
}

static int
fail(ecc_engine_t *self, int64_t entity, int64_t index, double value)
{
    return ecc_state_fail(self, ECC_ERR_PARTITION, entity, index, ECC_NO_HOOK, value);
}

int
ecc_partition_install(ecc_engine_t *self, const ecc_partition_t *partition)
{
    int64_t n_parts = partition->n_parts;
    int ret;

    if (n_parts == 0) {
        return 0;
    }
    if (n_parts < 0 || n_parts > ECC_MAX_PARTS || partition->part < 0 || partition->part >= n_parts
        || !are_parts(partition->links, self->n_links, n_parts)
        || !are_parts(partition->templates, self->transfers.n_templates, n_parts)
        || !are_parts(partition->senders, self->n_flows, n_parts)
        || !are_parts(partition->receivers, self->n_flows, n_parts)) {
        return fail(self, ECC_ENTITY_NONE, 0, (double) n_parts);
    }
    ret = ecc_cut_init(self, partition);
    if (ret != 0) {
        return ret;
    }
    for (uint32_t i = 0; i < self->transfers.n_templates; i++) {
        if (!allows_template(self, i)) {
            return fail(self, ECC_ENTITY_TRANSFER, self->n_flows + i, (double) self->cut->templates[i]);
        }
    }
    for (uint32_t flow = 0; flow < self->n_flows; flow++) {
        if (!allows_partition(self, flow)) {
            return fail(self, ECC_ENTITY_FLOW, flow, (double) self->cut->senders[flow]);
        }
    }
    return ecc_cut_reserve(self, self->room - self->n_flows);
}

ecc_ps_t
ecc_partition_lookahead(const ecc_engine_t *self)
{
    ecc_ps_t minimum = ECC_NEVER;

    for (int64_t part = 0; self->cut != NULL && part < self->cut->n_parts; part++) {
        minimum = self->cut->delays[part] < minimum ? self->cut->delays[part] : minimum;
    }
    return minimum;
}
