/*
 * Events of hosts (S-44, S-49, S-51), the end of access lines and wires (S-31 to S-34), and the receiver's side of a
 * packet.
 *
 * Not here: what is sent and acknowledged (sender.c), what receivers find missing (receiver.c, transport.c), the state
 * of a flow (flow.c), and when a flow is a transfer (transfers.c).
 */

#include "host/host.h"

#include <string.h>

#include "core/config.h"
#include "core/path.h"
#include "core/spray.h"
#include "link/phase.h"
#include "link/transit.h"
#include "host/ahead.h"
#include "host/alarms.h"
#include "host/ecn.h"
#include "host/flow.h"
#include "host/flow_hooks.h"
#include "host/reassembly.h"
#include "host/receiver.h"
#include "host/sender.h"

int
ecc_host_start(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_START, index, ecc_state_in_flight(flow));
    if (flow->active) { /* S-206: active since before time 0 */
        return ecc_sender_try_send(self, index);
    }
    flow->active = true;
    flow->started = true;
    if (flow->jitters) {
        ecc_phase_start(self, index);
    }
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_START, flow->spec->on_start, 0);
    return ret != 0 ? ret : ecc_sender_try_send(self, index);
}

int
ecc_host_stop(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];

    ecc_state_trace_flow(self, ECC_EVENT_STOP, index, ecc_state_in_flight(flow));
    return flow->active ? ecc_flow_end(self, index) : 0;
}

int
ecc_host_access(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->access.head;
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);

    ecc_state_trace_flow(self, ECC_EVENT_ACCESS, index, packet->offset);
    flow->access.head = packet->next;
    if (flow->access.head != ECC_NO_PACKET) {
        ecc_calendar_insert(&self->fast, self->base[ECC_EVENT_ACCESS] + index, packet->next_time);
    }
    if (flow->sprays) {
        packet->position = ecc_spray_next(self, index);
    }
    return ecc_transit_arrive(self, id);
}

void
ecc_host_catch_up(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    uint32_t id = flow->acks.head;
    ecc_ps_t time = self->fast.nodes[self->base[ECC_EVENT_ACK] + index].time;

    if (!flow->immediate_ack || id == ECC_NO_PACKET) {
        return;
    }
    if (flow->last_counted != ECC_NO_PACKET) {
        id = ecc_packets_at(&self->packets, flow->last_counted)->next;
        time = ecc_packets_at(&self->packets, flow->last_counted)->next_time;
    }
    while (id != ECC_NO_PACKET && time - flow->ack_delay <= self->now) {
        const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
        flow->received += packet->size;
        flow->last_counted = id;
        self->n_received++;
        id = packet->next;
        time = packet->next_time;
    }
}

/* The content of a control packet: that of a packet at its receiver, or, without one, the header of on_report. */
static void
fill_control(ecc_engine_t *self, uint32_t index, uint32_t received, ecc_packet_t *packet)
{
    const ecc_flow_state_t *flow = &self->flows[index];

    if (received != ECC_NO_PACKET) {
        memcpy(packet, ecc_packets_at(&self->packets, received), self->packets.stride);
        return;
    }
    memset(packet, 0, self->packets.stride);
    packet->flow = index;
    packet->position = flow->position + (uint32_t) flow->spec->n_forward - 1;
    memcpy(ecc_packets_header(packet), self->scratch, self->header_size);
    if (flow->uses_sack) {
        ecc_state_ack_info(self, packet)->sack = ECC_NO_SACK;
    }
}

/* S-129, S-210: a receiver sends a control packet, for a packet that it has received or by its report timer. */
static int
send_control(ecc_engine_t *self, uint32_t index, int hook_number, uint32_t received)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int64_t size = self->flow_env.control_size;
    int64_t kind = self->flow_env.control_kind;
    ecc_packet_t *packet;
    uint32_t id;
    int ret;

    if (size > ECC_MAX_PACKET_SIZE) {
        return ecc_state_fail_flow(self, ECC_ERR_CONTROL, index, hook_number, (double) size);
    }
    if (kind < 0 || kind > ECC_MAX_CONTROL_KIND) {
        return ecc_state_fail_flow(self, ECC_ERR_CONTROL, index, hook_number, (double) kind);
    }
    ret = ecc_packets_allocate(&self->packets, &self->memory, &id);
    if (ret != 0) {
        return ecc_state_fail_flow(self, ret, index, ECC_NO_HOOK, self->packets.n_used);
    }
    packet = ecc_packets_at(&self->packets, id);
    fill_control(self, index, received, packet);
    packet->sent = self->now;
    packet->offset = kind;
    packet->size = -(int32_t) size;
    if (self->wants_ecn) {
        ecc_state_set_ecn(self, ecc_packets_header(packet), (ecc_ecn_t) { ECC_NOT_ECT, 0 });
    }
    if (index >= self->n_flows) {
        self->flows[index].n_packets++;
    }
    if (flow->spec->n_reverse > 0) {
        packet->position = flow->position + (uint32_t) flow->spec->n_forward;
        return ecc_transit_arrive(self, id);
    }
    return flow->needs_receiver ? ecc_receiver_return(self, id) : ecc_path_return(self, id);
}

/* S-49: a hook that sets its timer again and again without a wait stops the run. */
static int
check_wait(ecc_engine_t *self, uint32_t index, int hook_number, double timer)
{
    ecc_flow_state_t *flow = &self->flows[index];

    if (timer < 0.0 || ecc_clock_ps(timer) >= 1) {
        flow->n_zero_waits = 0;
    } else if (++flow->n_zero_waits == ECC_MAX_ZERO_WAITS) {
        return ecc_state_fail_flow(self, ECC_ERR_TIMER_STUCK, index, hook_number, timer);
    }
    return 0;
}

/* S-210: the report timer of a receiver expires. */
static int
report(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_t *spec = self->flows[index].spec;
    int ret = ecc_flow_hooks_report(self, index);

    if (ret == 0 && self->flow_env.control_size >= 1 && spec->on_control != NULL) {
        ret = send_control(self, index, ECC_FLOW_ON_REPORT, ECC_NO_PACKET);
    }
    return ret == 0 ? check_wait(self, index, ECC_FLOW_ON_REPORT, self->flow_env.timer) : ret;
}

int
ecc_host_timer(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    int number = 0;
    int ret;

    ecc_state_trace_flow(self, ECC_EVENT_TIMER, index, ecc_state_in_flight(flow));
    if (ecc_alarms_has_timers(flow->spec)) {
        number = ecc_alarms_expire(self, index);
    }
    if (number == ECC_REPORT_TIMER) {
        return report(self, index);
    }
    ret = ecc_flow_hooks_without_packet(self, index, ECC_FLOW_ON_TIMER, flow->spec->on_timer, number);
    if (ret == 0) {
        ret = check_wait(self, index, ECC_FLOW_ON_TIMER, ecc_flow_hooks_least_timer(self, index));
    }
    return ret == 0 ? ecc_sender_try_send(self, index) : ret;
}

/* S-60: once all data of a transfer is received, the delay of its subsequent transfer begins. */
static void
note_received(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    uint32_t node = self->base[ECC_EVENT_START] + index + 1;
    ecc_ps_t time = ecc_clock_add(self->now, self->transfers.linked[flow->subsequent].spec.start);

    if (flow->received >= flow->size && time < ECC_NEVER && !ecc_calendar_pending(&self->slow, node)) {
        ecc_calendar_insert(&self->slow, node, time);
    }
}

int
ecc_host_receive(ecc_engine_t *self, uint32_t id)
{
    ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    ecc_flow_state_t *flow = &self->flows[packet->flow];
    bool may_wait = true;
    int ret;

    if (ecc_packets_is_trimmed(packet->size)) {
        return ecc_receiver_receive_trimmed(self, id);
    }
    self->n_received++;
    if (flow->can_be_marked) {
        ret = ecc_ecn_ends_delay(self, packet) ? ecc_receiver_send_delayed(self, packet->flow) : 0;
        ecc_ecn_receive(self, packet);
        if (ret != 0) {
            return ret;
        }
    }
    if (flow->reliable) {
        ret = ecc_reassembly_receive(self, packet, &may_wait);
        if (ret != 0) {
            return ecc_state_fail_flow(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
        if (flow->has_quic && flow->can_be_marked) { /* S-215: marks are reported at once */
            may_wait = may_wait && !self->receivers[packet->flow].was_marked;
        }
    } else {
        flow->received += packet->size;
    }
    if (flow->subsequent != ECC_NO_SUBSEQUENT) {
        note_received(self, packet->flow);
    }
    ret = ecc_flow_hooks_receive(self, packet);
    if (ret == 0 && self->flow_env.control_size >= 1 && flow->spec->on_control != NULL) {
        ret = send_control(self, packet->flow, ECC_FLOW_ON_RECEIVE, id);
    }
    if (ret != 0) {
        return ret;
    }
    if (flow->needs_receiver) {
        return ecc_receiver_receive(self, id, may_wait);
    }
    if (flow->reliable) {
        ret = ecc_reassembly_write_ack(self, ecc_packets_at(&self->packets, id));
        if (ret != 0) {
            return ecc_state_fail_flow(self, ret, packet->flow, ECC_NO_HOOK, (double) packet->offset);
        }
    }
    return ecc_path_return(self, id);
}

int
ecc_host_hop(ecc_engine_t *self, uint32_t index)
{
    ecc_link_state_t *link = &self->links[index];
    uint32_t id = link->wire.head;
    uint32_t node = self->base[ECC_EVENT_HOP] + index;
    ecc_packet_t *packet;
    uint32_t hop;

    if (link->wire.head != ECC_NO_PACKET) {
        packet = ecc_packets_at(&self->packets, id);
        link->wire.head = packet->next;
        if (link->wire.head != ECC_NO_PACKET) {
            ecc_calendar_insert(&self->fast, node, packet->next_time);
            if (self->ahead.is_on) {
                ecc_ahead_of_wire(self, link, packet->next_time);
            }
        }
    } else { /* the wire reorders */
        id = ecc_channel_pop(link->channel, &self->fast, node);
        packet = ecc_packets_at(&self->packets, id);
    }
    ecc_state_trace(self, ECC_EVENT_HOP, index, packet->offset);
    hop = self->hops[packet->position];
    if ((hop & ECC_HOP_END) == ECC_END_HOST) {
        return (hop & ECC_HOP_IS_ACK) != 0 ? ecc_receiver_return(self, id) : ecc_host_receive(self, id);
    }
    packet->position++;
    return ecc_transit_arrive(self, id);
}
