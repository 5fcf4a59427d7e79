/*
 * The functions of the interface, and the loop that runs events in their order (S-10): the next one of two calendars,
 * one for kinds that packets cause and one for the rest. A node of a calendar is a kind and an entity (S-11). Each
 * event is hashed here and handled in the file of its entity: transit.c, router.c, host.c, sender.c, receiver.c.
 *
 * Not here: what an event does, samples (samples.c), and how an engine is built and freed (build.c).
 */

#include "core/engine.h"

#include <assert.h>

#include "core/crossing.h"
#include "core/cut.h"
#include "core/finish.h"
#include "core/state.h"
#include "link/link.h"
#include "link/router.h"
#include "link/transit.h"
#include "host/acks.h"
#include "host/ahead.h"
#include "host/host.h"
#include "host/monitor.h"
#include "host/receiver.h"
#include "host/sender.h"
#include "host/timeout.h"
#include "host/transfers.h"
#include "parts/enter.h"
#include "parts/partition.h"
#include "store/checkpoint.h"
#include "store/verify.h"
#include "run/run.h"
#include "run/samples.h"
#include "run/under_way.h"

const char *
ecc_engine_error_text(int code)
{
    static const char *const texts[] = {
#define ECC_ERROR_TEXT(name, text) text,
        ECC_ERRORS(ECC_ERROR_TEXT)
#undef ECC_ERROR_TEXT
    };

    if (code == 0) {
        return "no error";
    }
    return code < 0 && code >= -ECC_N_ERRORS ? texts[-1 - code] : "unknown error";
}

/* ---- running ---- */

/* S-29, S-33: all silent departures and receptions up to now happen, and queues are measured up to now. */
static void
catch_up(ecc_engine_t *self)
{
    for (uint32_t i = 0; i < self->n_flows + self->transfers.n_slots; i++) {
        ecc_host_catch_up(self, i);
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        ecc_link_catch_up(self, &self->links[i]);
        if (self->links[i].measures_queue && ecc_cut_has_link(self, i)) {
            ecc_link_measure(&self->links[i], self->now);
        }
    }
}

/* S-12, S-14: counts and hashes an event. */
static void
hash(ecc_engine_t *self, uint64_t kind, uint64_t entity)
{
    uint64_t word = (uint64_t) self->now * 16 + kind + entity * UINT64_C(0xD1B54A32D192ED03);

    word *= UINT64_C(0x9E3779B97F4A7C15);
    self->digest += word ^ word >> 29;
    self->n_events++;
}

static void
hash_flow(ecc_engine_t *self, uint64_t kind, uint32_t flow)
{
    hash(self, kind, (uint64_t) ecc_state_number(self, flow));
}

/* Runs the next event of the kinds from DEPARTURE to SEND; the most frequent kinds are tested first. */
static inline int
run_fast(ecc_engine_t *self)
{
    const uint32_t *base = self->base;
    uint32_t id = ecc_calendar_pop(&self->fast);

    if (self->ahead.is_on) {
        ecc_calendar_find(&self->fast);
        ecc_ahead_fetch(self);
    }

    if (id >= base[ECC_EVENT_SEND]) {
        hash_flow(self, ECC_EVENT_SEND, id - base[ECC_EVENT_SEND]);
        return ecc_sender_send(self, id - base[ECC_EVENT_SEND]);
    }
    if (id >= base[ECC_EVENT_ACK]) {
        hash_flow(self, ECC_EVENT_ACK, id - base[ECC_EVENT_ACK]);
        return ecc_acks_receive(self, id - base[ECC_EVENT_ACK]);
    }
    if (id < base[ECC_EVENT_HOP]) {
        hash(self, ECC_EVENT_DEPARTURE, id);
        return ecc_transit_departure(self, id);
    }
    if (id < base[ECC_EVENT_ACCESS]) {
        hash(self, ECC_EVENT_HOP, id - base[ECC_EVENT_HOP]);
        return ecc_host_hop(self, id - base[ECC_EVENT_HOP]);
    }
    hash_flow(self, ECC_EVENT_ACCESS, id - base[ECC_EVENT_ACCESS]);
    return ecc_host_access(self, id - base[ECC_EVENT_ACCESS]);
}

/*
 * START of a flow, of the next transfer, or of the one subsequent to that in a slot: by node, in this order (S-56,
 * S-60). The event is that of the flow that it becomes.
 */
static int
start(ecc_engine_t *self, uint32_t node)
{
    bool is_next = node == self->n_flows;
    bool is_subsequent = node > self->n_flows;
    uint32_t index = node;
    int ret = 0;

    if (is_next) {
        ret = ecc_transfers_start_next(self, &index);
    } else if (is_subsequent) {
        ret = ecc_transfers_start_subsequent(self, node - 1, &index);
    }
    if (ret != 0) {
        return ret;
    }
    hash_flow(self, ECC_EVENT_START, index);
    ret = ecc_host_start(self, index);
    if (ret == 0 && is_subsequent) {
        ecc_finish_if_done(self, node - 1, self->now); /* S-61: the earlier transfer may finish now */
    }
    return ret == 0 && is_next && ecc_transfers_needs_input(self) ? ECC_NEEDS_TRANSFERS : ret;
}

/* Runs the next event of the kinds from INTERVAL to FLUSH. */
ECC_COLD static int
run_slow(ecc_engine_t *self)
{
    const uint32_t *base = self->base;
    uint32_t id = ecc_calendar_pop(&self->slow);

    if (id < base[ECC_EVENT_START]) {
        hash(self, ECC_EVENT_INTERVAL, id);
        return ecc_router_interval(self, id);
    }
    if (id < base[ECC_EVENT_STOP]) {
        return start(self, id - base[ECC_EVENT_START]);
    }
    if (id < base[ECC_EVENT_TIMER]) {
        hash_flow(self, ECC_EVENT_STOP, id - base[ECC_EVENT_STOP]);
        return ecc_host_stop(self, id - base[ECC_EVENT_STOP]);
    }
    if (id < base[ECC_EVENT_TIMEOUT]) {
        hash_flow(self, ECC_EVENT_TIMER, id - base[ECC_EVENT_TIMER]);
        return ecc_host_timer(self, id - base[ECC_EVENT_TIMER]);
    }
    if (id < base[ECC_EVENT_FLUSH]) {
        hash_flow(self, ECC_EVENT_TIMEOUT, id - base[ECC_EVENT_TIMEOUT]);
        return ecc_timeout_expire(self, id - base[ECC_EVENT_TIMEOUT]);
    }
    hash_flow(self, ECC_EVENT_FLUSH, id - base[ECC_EVENT_FLUSH]);
    return ecc_receiver_flush(self, id - base[ECC_EVENT_FLUSH]);
}

/* S-22: every router starts before the first event. */
static int
start_routers(ecc_engine_t *self)
{
    int ret = 0;

    for (uint32_t i = 0; i < self->n_routers && ret == 0; i++) {
        ret = ecc_cut_has_link(self, (uint32_t) self->links[i].spec.at) ? ecc_router_start(self, i) : 0;
    }
    return ret;
}

int
ecc_run_until(ecc_engine_t *self, ecc_ps_t until)
{
    ecc_ps_t limit = self->next_sample < until ? self->next_sample : until;
    int ret = 0;

    while (ret == 0) {
        ecc_ps_t fast;
        ecc_ps_t slow;
        ecc_ps_t next;
        ecc_calendar_find(&self->fast);
        ecc_calendar_find(&self->slow);
        fast = self->fast.first_time;
        slow = self->slow.first_time;
        next = fast <= slow ? fast : slow;
        if (next > limit) {
            if (limit < until || self->next_sample == until) {
                ret = ecc_samples_take(self);
                limit = self->next_sample < until ? self->next_sample : until;
                continue;
            }
            self->now = until;
            self->stop = next >= ECC_NEVER ? ECC_STOP_IDLE : ECC_STOP_UNTIL;
            break;
        }
        if (self->n_events >= atomic_load_explicit(&self->last_event, memory_order_relaxed)) {
            self->stop = ECC_STOP_MAX_EVENTS;
            break;
        }
        assert(next >= self->now);
        self->now = next;
        ret = fast <= slow ? run_fast(self) : run_slow(self);
    }
    return ret;
}

ecc_ps_t
ecc_run_next_event(ecc_engine_t *self)
{
    ecc_calendar_find(&self->fast);
    ecc_calendar_find(&self->slow);
    return self->fast.first_time < self->slow.first_time ? self->fast.first_time : self->slow.first_time;
}

int
ecc_run_begin(ecc_engine_t *self, ecc_ps_t until, int64_t max_events)
{
    bool limited = max_events >= 0 && max_events < INT64_MAX - self->n_events;
    int ret = 0;

    if (self->stop == ECC_STOP_ERROR) {
        return (int) self->report.code;
    }
    if (until < 0 || until >= ECC_NEVER) {
        return ecc_state_fail(self, ECC_ERR_UNTIL, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) until);
    }
    atomic_store_explicit(&self->last_event, limited ? self->n_events + max_events : INT64_MAX, memory_order_relaxed);
    if (self->stop == ECC_STOP_NOT_YET) {
        ret = start_routers(self);
        ret = ret == 0 ? ecc_under_way_place(self) : ret;
        ecc_monitor_begin(self);
        self->stop = ret == 0 ? ECC_STOP_UNTIL : ECC_STOP_ERROR;
    }
    return ret;
}

int
ecc_run_end(ecc_engine_t *self, int ret)
{
    catch_up(self);
    if (ret == ECC_NEEDS_TRANSFERS) {
        self->stop = ECC_STOP_TRANSFERS;
        ret = 0;
    }
    if (ret == 0 && self->lacks_memory) {
        ret = (int) self->report.code;
    }
    if (ret != 0) {
        self->stop = ECC_STOP_ERROR;
    }
    assert(ret != 0 || ecc_engine_verify(self) == 0);
    return ret;
}

int
ecc_engine_advance(ecc_engine_t *self, ecc_ps_t until, int64_t max_events)
{
    ecc_ps_t known = ecc_transfers_known_until(self);
    int ret = ecc_run_begin(self, until, max_events);

    if (ret != 0) {
        return ret;
    }
    self->stop = ECC_STOP_UNTIL;
    until = until > self->now ? until : self->now;
    if (ecc_transfers_needs_input(self) || known < self->now) {
        return ecc_run_end(self, ECC_NEEDS_TRANSFERS);
    }
    ret = ecc_run_until(self, until < known ? until : known);
    if (ret == 0 && self->stop != ECC_STOP_MAX_EVENTS && until > known) {
        ret = ECC_NEEDS_TRANSFERS;
    }
    return ecc_run_end(self, ret);
}

void
ecc_engine_stop(ecc_engine_t *self)
{
    atomic_store_explicit(&self->last_event, 0, memory_order_relaxed);
}

/* ---- results ---- */

void
ecc_engine_report(const ecc_engine_t *self, ecc_report_t *report)
{
    *report = self->report;
}

void
ecc_engine_stats(const ecc_engine_t *self, ecc_stats_t *stats)
{
    *stats = (ecc_stats_t) {
        .now = self->now,
        .events = self->n_events,
        .data_packets = self->n_received,
        .in_flight = self->packets.n_used,
        .samples = self->n_sampled,
        .trace = self->n_traced,
        .transfers = self->transfers.n_started,
        .alive = self->transfers.n_alive,
        .waiting = (int64_t) (self->transfers.n_pending - self->transfers.n_consumed),
        .finished = (int64_t) self->transfers.n_finished,
        .bytes = (int64_t) self->memory.bytes,
        .peak_bytes = (int64_t) self->memory.peak,
        .digest = self->digest,
        .stop = self->stop,
    };
}

void
ecc_engine_flow_results(const ecc_engine_t *self, ecc_flow_result_t *results)
{
    for (uint32_t i = 0; i < self->n_flows; i++) {
        results[i] = ecc_finish_result(self, i);
    }
}

void
ecc_engine_link_results(const ecc_engine_t *self, ecc_link_result_t *results)
{
    for (uint32_t i = 0; i < self->n_links; i++) {
        const ecc_link_state_t *link = &self->links[i];
        results[i] = (ecc_link_result_t) {
            .arrived = link->arrived,
            .departed = link->arrived - link->dropped_bytes - link->queue,
            .dropped = link->dropped,
            .dropped_bytes = link->dropped_bytes,
            .marked = link->marked,
            .queue = link->queue,
            .lost = link->lost,
            .lost_bytes = link->lost_bytes,
        };
    }
}

void
ecc_engine_alive(const ecc_engine_t *self, ecc_transfer_result_t *results)
{
    ecc_transfers_alive(self, results);
}

/* ---- transfers, checkpoints, parts, invariants ---- */

int
ecc_engine_add(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n, int64_t more)
{
    return ecc_transfers_add(self, transfers, n, more != 0);
}

int64_t
ecc_engine_take_finished(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n)
{
    return ecc_transfers_take_finished(self, results, n);
}

int64_t
ecc_engine_save(ecc_engine_t *self, unsigned char *buffer)
{
    return ecc_checkpoint_save(self, buffer);
}

int
ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size)
{
    return ecc_checkpoint_load(self, buffer, size);
}

int64_t
ecc_engine_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer)
{
    return ecc_crossing_take_leaving(self, part, buffer);
}

int
ecc_engine_enter(ecc_engine_t *self, const unsigned char *crossings, int64_t size)
{
    return ecc_enter_all(self, crossings, size > 0 ? (size_t) size : 0, self->now);
}

int64_t
ecc_engine_wire_entries(const ecc_engine_t *self, ecc_wire_entry_t *entries)
{
    return ecc_crossing_wire_entries(self, entries);
}

ecc_ps_t
ecc_engine_lookahead(const ecc_engine_t *self)
{
    return ecc_partition_lookahead(self);
}

int
ecc_engine_verify(const ecc_engine_t *self)
{
    return ecc_verify_engine(self);
}
