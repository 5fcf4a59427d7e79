/*
 * Packets that enter this part of a network from another (S-123 to S-127).
 *
 * A packet enters by joining the list of the wire, access line or pure delay on which it left the other part; its
 * event is the one that it has in an engine of the whole network. The order of events depends only on time, kind and
 * entity, and everything that hooks draw and count belongs to one entity: so the parts compute what the whole
 * computes.
 *
 * Packets are checked as input from anywhere. They cannot be compared with the state of the other part, so a forgery
 * may report something that did not happen; but no count overflows, and no list is out of order.
 *
 * Not here: how packets leave (crossing.c), threads, and how far a part may run ahead (team.c).
 */

#include "parts/enter.h"

#include <string.h>

#include "core/config.h"
#include "core/crossing.h"
#include "core/cut.h"
#include "core/finish.h"
#include "host/ecn.h"
#include "host/transfer_slots.h"

/* Position of an entering packet in the table of hops; on the pure delay, that of the last link before it. */
static uint32_t
position_of(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    const ecc_flow_state_t *flow = &self->flows[crossing->flow];

    if (ecc_cut_is_wire(self, (uint32_t) crossing->flow, crossing->hop)) {
        return flow->position + ecc_cut_relative(flow->spec, crossing->hop);
    }
    return flow->position + (uint32_t) (crossing->hop == ECC_CUT_ON_ACCESS ? 0 : ecc_cut_n_hops(flow->spec) - 1);
}

/* Whether a crossing is an ACK with a report; an immediate ACK is data until it reaches the sender (S-33). */
static bool
is_ack(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    const ecc_flow_t *spec = self->flows[crossing->flow].spec;

    return crossing->hop >= spec->n_forward && crossing->hop <= ecc_cut_n_hops(spec)
        && !self->flows[crossing->flow].immediate_ack;
}

/* A control packet of a receiver (S-129). */
static bool
is_control(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    return crossing->size < 0 && crossing->size >= -ECC_MAX_PACKET_SIZE && crossing->offset >= 0
        && crossing->offset <= ECC_MAX_CONTROL_KIND && is_ack(self, crossing)
        && self->flows[crossing->flow].spec->on_control != NULL;
}

/* A trimmed packet, or its ACK (S-134). */
static bool
is_trimmed(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    return crossing->hop != ECC_CUT_ON_ACCESS && crossing->size > INT32_MIN && ecc_packets_is_trimmed(crossing->size)
        && self->flows[crossing->flow].spec->trimmed_size > 0;
}

/* S-123: whether the numbers of a crossing are valid, and it comes over a cut; its flow is the index here. */
static bool
is_crossing(const ecc_engine_t *self, const ecc_crossing_t *crossing)
{
    ecc_ps_t earliest = self->stop == ECC_STOP_NOT_YET ? 0 : self->now + 1;
    const ecc_flow_state_t *flow = &self->flows[crossing->flow];
    /* time of emission by the clock of its sender, which another machine may have */
    ecc_ps_t last_sent = ecc_cut_has_sender(self, (uint32_t) crossing->flow) ? crossing->time : ECC_NEVER;

    bool on_wire = ecc_cut_is_wire(self, (uint32_t) crossing->flow, crossing->hop);

    return (on_wire || crossing->hop == ECC_CUT_ON_ACCESS || crossing->hop == ecc_cut_n_hops(flow->spec))
        && !(on_wire && ecc_cut_ends_with_ack(self, flow->position + ecc_cut_relative(flow->spec, crossing->hop)))
        && ecc_cut_part_before(self, (uint32_t) crossing->flow, crossing->hop) != self->cut->part
        && ecc_cut_part_after(self, (uint32_t) crossing->flow, crossing->hop) == self->cut->part
        && crossing->time >= earliest && crossing->time <= ECC_NEVER && crossing->sent >= 0
        && crossing->sent <= last_sent
        && (is_control(self, crossing)
            || (((crossing->size >= 1 && crossing->size <= ECC_MAX_PACKET_SIZE) || is_trimmed(self, crossing))
                && crossing->offset >= 0
                && crossing->offset <= ecc_cut_most_sent(self, (uint32_t) crossing->flow)
                        - ecc_packets_data((int32_t) crossing->size)));
}

/* Whether the content of a packet is valid for receiver and sender. */
static bool
is_body(const ecc_engine_t *self, const ecc_crossing_t *crossing, const ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    bool valid = true;

    if (self->wants_ecn) {
        ecc_ecn_t ecn = ecc_state_ecn(self, ecc_packets_header(packet));
        valid = ecc_ecn_verify(self, packet->flow, &ecn, is_ack(self, crossing)) == 0;
    }
    if (is_ack(self, crossing)) {
        return valid
            && (is_control(self, crossing) || (!flow->needs_receiver && !flow->reliable)
                || ecc_cut_is_report(self, packet));
    }
    if (flow->needs_receiver) {
        int64_t base = ecc_state_ack_info(self, packet)->front;
        int64_t most = flow->has_quic ? ecc_cut_most_numbers(self, packet->flow) : packet->offset;
        valid = valid && base >= 0 && base <= most;
    }
    return valid;
}

/* The list that a packet joins, its channel or NULL, and the node of the event at its end. */
static ecc_fifo_t *
list_of(ecc_engine_t *self, const ecc_crossing_t *crossing, ecc_channel_t **channel, uint32_t *node, ecc_ps_t **last)
{
    uint32_t index = (uint32_t) crossing->flow;
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t link;

    *channel = NULL;
    if (crossing->hop == ECC_CUT_ON_ACCESS) {
        *node = self->base[ECC_EVENT_ACCESS] + index;
        *last = &self->cut->last[self->n_links + index];
        return &flow->access;
    }
    if (crossing->hop == ecc_cut_n_hops(flow->spec)) {
        *channel = flow->spec->impairment > 0 ? &self->receivers[index].channel : NULL;
        *node = self->base[ECC_EVENT_ACK] + index;
        *last = index < self->n_flows ? &self->cut->last[self->n_links + self->n_flows + index]
                                      : &self->cut->slots[index - self->n_flows].last;
        return &flow->acks;
    }
    link = self->hops[position_of(self, crossing)] >> ECC_HOP_LINK;
    *channel = self->links[link].channel;
    *node = self->base[ECC_EVENT_HOP] + link;
    *last = &self->cut->last[link];
    return &self->links[link].wire;
}

/* Finds the index of the flow of a crossing; a transfer that passes takes a slot. */
static int
find_flow(ecc_engine_t *self, const ecc_crossing_t *crossing, ecc_passing_t passing, uint32_t *index)
{
    ecc_transfers_t *transfers = &self->transfers;
    const ecc_flow_state_t *flow;
    bool is_here;
    uint32_t slot;
    int ret = 0;

    *index = (uint32_t) crossing->flow;
    if (crossing->flow >= 0 && crossing->flow < self->n_flows) {
        return passing.template_index == -1 ? 0 : ECC_ERR_CROSSING;
    }
    if (crossing->flow < 0 || crossing->flow >= self->n_flows + transfers->n_added || passing.template_index < 0
        || passing.template_index >= transfers->n_templates || passing.ack_delay < 0
        || passing.ack_delay > ECC_MAX_DELAY) {
        return ECC_ERR_CROSSING;
    }
    is_here = ecc_cut_has_template(self, passing.template_index);
    slot = ecc_cut_find_slot(self, crossing->flow);
    if (slot == ECC_NO_SLOT) {
        ret = is_here ? ECC_ERR_CROSSING
                      : ecc_transfer_slots_let_pass(
                          self, (uint32_t) passing.template_index, crossing->flow, passing.ack_delay, &slot);
    }
    if (ret != 0) {
        return ret;
    }
    *index = self->n_flows + slot;
    flow = &self->flows[*index];
    return flow->template_index == passing.template_index && flow->ack_delay == passing.ack_delay
            && (!is_here || self->cut->slots[slot].n_away > 0)
        ? 0
        : ECC_ERR_CROSSING;
}

/* Another part has discarded a packet of a transfer whose sender is here. */
static int
enter_discarded(ecc_engine_t *self, const ecc_crossing_t *crossing, ecc_ps_t latest)
{
    if (!ecc_cut_has_sender(self, (uint32_t) crossing->flow) || crossing->time < 0 || crossing->time > latest) {
        return ECC_ERR_CROSSING;
    }
    self->cut->slots[crossing->flow - self->n_flows].n_away--;
    ecc_finish_if_done(self, (uint32_t) crossing->flow, crossing->time);
    return 0;
}

/* A packet enters; its flow is the index here. */
static int
enter_packet(ecc_engine_t *self, const ecc_crossing_t *crossing, const unsigned char *body)
{
    ecc_flow_state_t *flow = &self->flows[crossing->flow];
    ecc_channel_t *channel;
    ecc_packet_t *packet;
    ecc_fifo_t *list;
    ecc_ps_t *last;
    uint32_t node;
    uint32_t id;
    int ret;

    if (!is_crossing(self, crossing)) {
        return ECC_ERR_CROSSING;
    }
    list = list_of(self, crossing, &channel, &node, &last);
    if (crossing->time < *last && (channel == NULL || channel->spec->reorders == 0)) {
        return ECC_ERR_CROSSING;
    }
    ret = ecc_packets_allocate(&self->packets, &self->memory, &id);
    if (ret != 0) {
        return ret;
    }
    packet = ecc_packets_at(&self->packets, id);
    packet->sent = crossing->sent;
    packet->offset = crossing->offset;
    packet->flow = (uint32_t) crossing->flow;
    packet->size = (int32_t) crossing->size;
    packet->position = position_of(self, crossing);
    ret = ecc_crossing_read_body(self, packet, body, is_ack(self, crossing) && !is_control(self, crossing));
    if (ret != 0) {
        ecc_packets_release(&self->packets, id);
        return ret;
    }
    if (!is_body(self, crossing, packet)) {
        ret = ECC_ERR_CROSSING;
    } else if (channel != NULL) {
        ret = ecc_channel_append(channel, &self->memory, &self->packets, list, &self->fast, node, id, crossing->time);
    } else if (ecc_packets_append(&self->packets, list, id, crossing->time)) {
        ecc_calendar_insert(&self->fast, node, crossing->time);
    }
    if (ret != 0) {
        ecc_state_release(self, id);
        return ret;
    }
    *last = crossing->time;
    if (crossing->flow >= self->n_flows) {
        flow->n_packets++;
        self->cut->slots[crossing->flow - self->n_flows].n_away -= ecc_cut_has_sender(self, (uint32_t) crossing->flow);
    }
    return 0;
}

static int
enter(ecc_engine_t *self, const ecc_crossing_t *crossing, const unsigned char *body, ecc_ps_t latest)
{
    ecc_crossing_t here = *crossing;
    ecc_passing_t passing = { -1, 0 };
    uint32_t index;
    int ret;

    if (self->transfers.n_templates > 0) {
        memcpy(&passing, body + ecc_crossing_body_size(self), sizeof(passing));
    }
    ret = find_flow(self, crossing, passing, &index);
    if (ret != 0) {
        return ret;
    }
    here.flow = index;
    return index >= self->n_flows && crossing->hop == ecc_cut_n_hops(self->flows[index].spec) + 1
        ? enter_discarded(self, &here, latest)
        : enter_packet(self, &here, body);
}

int
ecc_enter_all(ecc_engine_t *self, const unsigned char *bytes, size_t size, ecc_ps_t latest)
{
    size_t each = ecc_crossing_size(self);
    int ret = self->cut == NULL || size % each != 0 ? ECC_ERR_CROSSING : 0;
    size_t at = 0;

    if (self->stop == ECC_STOP_ERROR) { /* after a failure the engine may lack memory for the packet */
        return (int) self->report.code;
    }
    while (ret == 0 && at < size) {
        ecc_crossing_t crossing;
        memcpy(&crossing, bytes + at, sizeof(crossing));
        ret = enter(self, &crossing, bytes + at + sizeof(crossing), latest);
        at += ret == 0 ? each : 0;
    }
    self->stop = ret == 0 || ret == ECC_ERR_CROSSING ? self->stop : ECC_STOP_ERROR;
    return ret == 0 ? 0 : ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) (at / each));
}
