/*
 * The state of a flow (S-37 to S-43, S-51): set up from its spec, and ended.
 *
 * Not here: its events (host.c), what is sent and acknowledged (sender.c), and when a flow is a transfer (transfers.c).
 */

#include "host/flow.h"

#include <string.h>

#include "core/config.h"
#include "core/finish.h"
#include "core/spray.h"
#include "link/link.h"
#include "link/phase.h"
#include "host/alarms.h"
#include "host/flow_hooks.h"
#include "host/quic.h"
#include "host/rack.h"
#include "host/receiver.h"
#include "host/transport.h"

/* The kind of a flow. A flow with a feature that few flows have is of the general kind. */
static enum ecc_flow_kind
kind_of(const ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    bool is_special = flow->has_quic || flow->paces || flow->has_writes || flow->has_alarms || flow->sprays
        || flow->draws_sizes || flow->has_header_bytes || flow->needs_receiver || flow->can_be_marked;

    if (is_special) {
        return ECC_ANY;
    }
    if (!flow->reliable) {
        bool is_endless = index < self->n_flows && flow->size < 0;
        return is_endless && !flow->wants_random && !flow->has_restart ? ECC_PLAIN : ECC_ANY;
    }
    if (flow->jitters || (flow->uses_prr && !flow->has_rack)) {
        return ECC_ANY;
    }
    return flow->has_rack ? ECC_RACK : ECC_BASIC;
}

void
ecc_flow_init(ecc_engine_t *self, uint32_t index, const ecc_flow_t *spec, uint32_t position, int64_t number)
{
    ecc_flow_state_t *flow = &self->flows[index];

    memset(flow, 0, sizeof(*flow));
    flow->spec = spec;
    flow->position = position;
    flow->number = number;
    flow->start = spec->start;
    flow->acks = (ecc_fifo_t) { ECC_NO_PACKET, ECC_NO_PACKET };
    flow->access = flow->acks;
    flow->last_counted = ECC_NO_PACKET;
    flow->subsequent = ECC_NO_SUBSEQUENT;
    flow->needs_receiver = ecc_config_needs_receiver(self, spec, &self->hops[position]);
    flow->reliable = spec->transport != ECC_TRANSPORT_NONE;
    flow->can_be_marked = spec->ecn != ECC_ECN_NONE;
    flow->has_alarms = ecc_alarms_are_needed(spec);
    flow->immediate_ack
        = spec->on_receive == NULL && spec->enables_subsequent == 0 && !flow->needs_receiver && !flow->reliable;
    flow->rate = spec->rate;
    flow->window = spec->window;
    flow->state = spec->state;
    flow->params = spec->params;
    flow->on_send = spec->on_send;
    flow->on_ack = spec->on_ack;
    flow->access_delay = spec->access_delay;
    flow->ack_delay = spec->ack_delay;
    flow->size = spec->size;
    flow->sprays = spec->n_alternatives > 0;
    flow->uses_sack = spec->transport >= ECC_TRANSPORT_SACK;
    flow->has_writes = spec->write_size > 0 || spec->n_writes > 0;
    flow->has_restart = spec->on_restart != NULL;
    flow->has_receive = spec->on_receive != NULL;
    flow->reduces_as_linux = spec->lost_retransmission == ECC_LOST_LINUX;
    flow->jitters = spec->phase_jitter != 0;
    flow->draws_sizes = spec->packet_size_max > spec->packet_size;
    flow->random_sizes = ecc_random_stream(self->seed, ECC_RANDOM_OF_SIZES + (uint64_t) number);
    flow->full_size = ecc_state_full_size(flow);
    flow->packet_size = spec->opening_size > 0 ? (int32_t) spec->opening_size : flow->full_size;
    flow->wants_random = spec->wants_random != 0;
    flow->has_header_bytes = spec->header_bytes > 0;
    flow->header_offset = (uint16_t) spec->header_offset;
    flow->finish = -1;
    flow->random = ecc_random_stream(self->seed, ECC_RANDOM_OF_FLOWS + (uint64_t) number);
    if (flow->needs_receiver) {
        ecc_receiver_init(self, index);
    }
    if (flow->sprays) {
        ecc_spray_init(self, index);
    }
    if (flow->reliable) {
        ecc_transport_init(self, index);
        flow->has_rack = spec->transport == ECC_TRANSPORT_RACK;
        flow->paces = spec->pacing_gain > 0.0;
        flow->uses_prr = spec->uses_prr != ECC_PRR_NEVER;
        flow->uses_prr_for_marks = spec->uses_prr == ECC_PRR_LOSSES_AND_MARKS;
        flow->has_quic = spec->transport == ECC_TRANSPORT_QUIC;
        if (flow->has_rack) {
            ecc_rack_init(self, index);
        }
        if (flow->has_quic) {
            ecc_quic_init(self, index);
        }
        if (flow->paces) {
            self->pacers[index] = (ecc_pacer_t) { .credit = (double) spec->pacing_burst };
        }
        if (flow->uses_prr) {
            self->prrs[index] = (ecc_prr_t) { 0 };
        }
    }
    flow->kind = (uint8_t) kind_of(self, index) & 3u;
    if (flow->has_alarms) {
        ecc_alarms_init(self, index);
    }
    if (flow->jitters) {
        ecc_phase_init_flow(self, index);
    }
}

/* S-43: the minimum delay that an impairment adds now. */
static ecc_ps_t
min_delay(const ecc_channel_t *channel, ecc_ps_t now)
{
    const ecc_impairment_t *spec = channel->spec;
    ecc_ps_t delay = ecc_clock_add(spec->spike_between, spec->jitter_lo);

    if (spec->jitter_law == ECC_JITTER_PARETO) {
        delay = ecc_clock_add(delay, ecc_clock_round(spec->jitter_scale));
    }
    return ecc_clock_add(delay, ecc_channel_additional(channel, now));
}

/* S-43: minimum time before the first answer. */
ecc_ps_t
ecc_flow_first_rtt(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_t *spec = self->flows[index].spec;
    int64_t size = ecc_state_largest_size(&self->flows[index]) + spec->header_bytes;
    ecc_ps_t rtt = ecc_clock_add(self->flows[index].access_delay, self->flows[index].ack_delay);

    for (int64_t k = 0; k < spec->n_forward + spec->n_reverse; k++) {
        uint32_t hop = self->hops[self->flows[index].position + k];
        ecc_link_state_t *link = &self->links[hop >> ECC_HOP_LINK];
        double capacity = ecc_link_capacity(self, link);
        rtt = ecc_clock_add(rtt, link->delay);
        rtt = ecc_clock_add(rtt, ecc_clock_tx(k < spec->n_forward ? size : spec->ack_size, capacity));
        rtt = link->channel != NULL ? ecc_clock_add(rtt, min_delay(link->channel, self->now)) : rtt;
    }
    rtt = spec->impairment > 0 ? ecc_clock_add(rtt, min_delay(&self->receivers[index].channel, self->now)) : rtt;
    return spec->ack_every > 1 ? ecc_clock_add(rtt, spec->ack_wait) : rtt;
}

int
ecc_flow_end(ecc_engine_t *self, uint32_t index)
{
    ecc_flow_state_t *flow = &self->flows[index];
    int ret;

    flow->active = false;
    flow->finish = self->now;
    ecc_calendar_cancel(&self->fast, self->base[ECC_EVENT_SEND] + index);
    if (self->wants_timers) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_TIMER] + index);
    }
    if (flow->has_alarms) {
        ecc_alarms_init(self, index);
    }
    if (self->wants_stops) {
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_STOP] + index);
    }
    if (index >= self->n_flows) {
        flow->timeout_pending = false;
        ecc_calendar_cancel(&self->slow, self->base[ECC_EVENT_TIMEOUT] + index);
    }
    ret = ecc_flow_hooks_stop(self, index);
    ecc_finish_if_done(self, index, self->now);
    return ret;
}
