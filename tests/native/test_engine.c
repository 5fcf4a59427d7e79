/* The engine through its public header: exact times, losses, failures, slices. */

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "check.h"
#include "core/engine.h"
#include "core/errors.h"

#define MS INT64_C(1000000000)
#define SECOND INT64_C(1000000000000)
#define MAX_FLOWS 8
#define MAX_LINKS 4
#define MAX_EVENTS 100000

typedef struct {
    ecc_config_t config;
    ecc_link_t links[MAX_LINKS];
    ecc_flow_t flows[MAX_FLOWS];
    int64_t routes[64];
    ecc_impairment_t impairments[3];
    ecc_change_t changes[2];
    ecc_event_t trace[MAX_EVENTS];
    int64_t cells[8][4096];
    double rtts[2][4096];
} setup_t;

static setup_t setup;

static ecc_link_t
a_link(double capacity, ecc_ps_t delay, ecc_bytes_t buffer)
{
    return (ecc_link_t) { .capacity = capacity, .delay = delay, .buffer = buffer, .first_interval = -1 };
}

static ecc_flow_t
a_flow(double rate, double window, ecc_ps_t ack_delay)
{
    return (ecc_flow_t) { .rate = rate,
        .window = window,
        .stop = -1,
        .size = -1,
        .packet_size = 1000,
        .ack_size = 40,
        .min_rto = SECOND,
        .ack_delay = ack_delay,
        .n_forward = 1,
        .bottleneck = -1 };
}

/* One link and n copies of one flow over it. */
static void
set_up(ecc_link_t link, int64_t n_flows, ecc_flow_t flow)
{
    memset(&setup, 0, sizeof(setup));
    setup.links[0] = link;
    for (int64_t i = 0; i < n_flows; i++) {
        setup.flows[i] = flow;
    }
    setup.config = (ecc_config_t) { .n_links = 1,
        .n_flows = n_flows,
        .n_routes = n_flows,
        .header_size = 16,
        .links = setup.links,
        .flows = setup.flows,
        .routes = setup.routes,
        .trace = setup.trace,
        .n_trace = MAX_EVENTS };
}

static void
set_samples(ecc_ps_t period, int64_t n)
{
    setup.config.samples = (ecc_samples_t) { .period = period,
        .n_samples = n,
        .n_flows = setup.config.n_flows,
        .sent = setup.cells[0],
        .received = setup.cells[1],
        .bottleneck = setup.cells[2],
        .queue = setup.cells[3],
        .queue_peak = setup.cells[4],
        .arrived = setup.cells[5],
        .dropped = setup.cells[6],
        .rtt = setup.rtts[0],
        .rtt_peak = setup.rtts[1] };
}

static ecc_engine_t *
new_engine(void)
{
    ecc_engine_t *engine;
    ecc_report_t report;

    CHECK_EQUAL(ecc_engine_new(&setup.config, &engine, &report), 0);
    return engine;
}

static ecc_stats_t
run(ecc_engine_t *engine, ecc_ps_t until)
{
    ecc_stats_t stats;

    CHECK_EQUAL(ecc_engine_advance(engine, until, -1), 0);
    CHECK_EQUAL(ecc_engine_verify(engine), 0);
    ecc_engine_stats(engine, &stats);
    return stats;
}

static ecc_flow_result_t
result_of(ecc_engine_t *engine, int flow)
{
    ecc_flow_result_t results[MAX_FLOWS];

    ecc_engine_flow_results(engine, results);
    return results[flow];
}

static ecc_link_result_t
link_result_of(ecc_engine_t *engine, int link)
{
    ecc_link_result_t results[MAX_LINKS];

    ecc_engine_link_results(engine, results);
    return results[link];
}

/* The k-th event of a kind in the trace (k from 0); there must be one. */
static ecc_event_t
event(enum ecc_event_kind kind, int64_t entity, int k)
{
    int64_t i = 0;

    /* times grow, and what was never written is zero */
    while (i < MAX_EVENTS - 1 && setup.trace[i + 1].time >= setup.trace[i].time) {
        if (setup.trace[i].kind == (int64_t) kind && setup.trace[i].entity == entity && k-- == 0) {
            break;
        }
        i++;
    }
    CHECK_EQUAL(k, -1);
    return setup.trace[i];
}

/* ---- exact times ---- */

/* D/D/1: 1000 bytes at 3 Mb/s take 8000/3e6 s; every packet meets an empty queue. */
static void
constant_rate_is_exact(void)
{
    const ecc_ps_t tx = 2666666667; /* 8000 / 3e6 s */
    const ecc_ps_t gap = 8 * MS;    /* 8000 / 1e6 s */
    ecc_engine_t *engine;
    ecc_stats_t stats;

    set_up(a_link(3e6, 10 * MS, -1), 1, a_flow(1e6, 0.0, 7 * MS));
    setup.flows[0].start = 5 * MS;
    engine = new_engine();
    stats = run(engine, SECOND);
    for (int k = 0; k < 100; k++) {
        CHECK_EQUAL(event(ECC_EVENT_SEND, 0, k).time, 5 * MS + k * gap);
        CHECK_EQUAL(event(ECC_EVENT_SEND, 0, k).value, 1000 * k);
        CHECK_EQUAL(event(ECC_EVENT_ACK, 0, k).time, 5 * MS + k * gap + tx + 17 * MS);
        CHECK_EQUAL(event(ECC_EVENT_ACK, 0, k).value, 1000 * k);
    }
    CHECK_EQUAL(result_of(engine, 0).sent, 1000 * ((SECOND - 5 * MS) / gap + 1));
    CHECK_EQUAL(stats.data_packets, (SECOND - 5 * MS - tx - 10 * MS) / gap + 1);
    CHECK_EQUAL(result_of(engine, 0).received, 1000 * stats.data_packets);
    CHECK_EQUAL(link_result_of(engine, 0).dropped, 0);
    CHECK(fabs(result_of(engine, 0).srtt - 0.019666666667) < 1e-12);
    ecc_engine_free(engine);
}

/* D/D/1 above capacity: packet k leaves (k + 1) service times after the start. */
static void
overload_queues_exactly(void)
{
    ecc_engine_t *engine;

    set_up(a_link(1e6, 3 * MS, -1), 1, a_flow(4e6, 0.0, 2 * MS));
    set_samples(10 * MS, 20);
    engine = new_engine();
    run(engine, 200 * MS);
    for (int k = 0; k < 20; k++) {
        CHECK_EQUAL(event(ECC_EVENT_SEND, 0, k).time, 2 * MS * k);
        CHECK_EQUAL(event(ECC_EVENT_ACK, 0, k).time, 8 * MS * (k + 1) + 5 * MS);
    }
    for (int64_t k = 0; k < 20; k++) {
        ecc_ps_t at = 10 * MS * (k + 1);
        CHECK_EQUAL(setup.cells[0][k], 1000 * (at / (2 * MS) + 1));
        CHECK_EQUAL(setup.cells[1][k], at < 11 * MS ? 0 : 1000 * ((at - 3 * MS) / (8 * MS)));
        CHECK_EQUAL(setup.cells[3][k], 1000 * (at / (2 * MS) + 1 - at / (8 * MS)));
        CHECK(setup.cells[4][k] >= setup.cells[3][k]);
        CHECK_EQUAL(setup.cells[5][k], setup.cells[0][k]);
    }
    ecc_engine_free(engine);
}

/* Two links, an access line and ACKs that queue: every stage adds its own delay. */
static void
stages_add_up(void)
{
    ecc_engine_t *engine;
    ecc_flow_t flow = a_flow(1e5, 0.0, 5 * MS);

    flow.access_delay = MS;
    flow.n_forward = 2;
    flow.n_reverse = 1;
    set_up(a_link(1e6, 10 * MS, -1), 1, flow);
    setup.links[1] = a_link(2e6, 20 * MS, -1);
    setup.links[2] = a_link(1e6, 30 * MS, -1);
    setup.routes[1] = 1;
    setup.routes[2] = 2;
    setup.config.n_links = 3;
    setup.config.n_routes = 3;
    engine = new_engine();
    run(engine, SECOND);
    CHECK_EQUAL(event(ECC_EVENT_ACCESS, 0, 0).time, MS);                  /* at the first link */
    CHECK_EQUAL(event(ECC_EVENT_HOP, 0, 0).time, MS + 18 * MS);           /* 8 ms and 10 ms later at the second */
    CHECK_EQUAL(event(ECC_EVENT_HOP, 1, 0).time, MS + 18 * MS + 24 * MS); /* at the receiver */
    CHECK_EQUAL(
        event(ECC_EVENT_ACK, 0, 0).time, MS + 18 * MS + 24 * MS + 35 * MS + 320 * MS / 1000); /* 40 bytes at 1 Mb/s */
    CHECK_EQUAL(link_result_of(engine, 2).arrived, result_of(engine, 0).received * 40 / 1000);
    ecc_engine_free(engine);
}

/* ---- windows, sizes, losses ---- */

static void
window_is_filled_and_clocked_by_acks(void)
{
    ecc_engine_t *engine;

    set_up(a_link(8e6, 0, -1), 1, a_flow(0.0, 5500.0, 99 * MS));
    setup.flows[0].size = 12345;
    engine = new_engine();
    run(engine, 10 * SECOND);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 0, 0).time, 100 * MS);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 0, 4).time, 104 * MS);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 0, 5).time, 200 * MS); /* sent at 100 ms, as the first ACK came */
    CHECK_EQUAL(result_of(engine, 0).completed, 1);
    CHECK_EQUAL(result_of(engine, 0).delivered, 12345);
    CHECK_EQUAL(result_of(engine, 0).sent, 12345);
    CHECK_EQUAL(result_of(engine, 0).retransmitted, 0);
    /* the ACK at 201 ms opens the window for the last whole packet and for the remainder of 345 bytes behind it */
    CHECK_EQUAL(result_of(engine, 0).finish, 301 * MS + 345 * MS / 1000);
    ecc_engine_free(engine);
}

/* A buffer of three packets, a burst of eight: five are lost, owed again and delivered in the end. */
static void
a_full_buffer_drops_and_what_is_lost_is_sent_again(void)
{
    ecc_engine_t *engine;

    set_up(a_link(8e6, 0, 3000), 1, a_flow(0.0, 8000.0, 99 * MS));
    setup.flows[0].size = 50000;
    engine = new_engine();
    run(engine, 100 * SECOND);
    CHECK_EQUAL(event(ECC_EVENT_DROP, 0, 0).time, 0);
    CHECK_EQUAL(event(ECC_EVENT_DROP, 0, 0).value, 3000);
    CHECK_EQUAL(event(ECC_EVENT_DROP, 0, 4).value, 7000);
    CHECK_EQUAL(result_of(engine, 0).completed, 1);
    CHECK_EQUAL(result_of(engine, 0).delivered, 50000);
    CHECK(result_of(engine, 0).lost >= 5000);
    CHECK_EQUAL(result_of(engine, 0).sent, 50000 + result_of(engine, 0).lost);
    CHECK_EQUAL(result_of(engine, 0).retransmitted, result_of(engine, 0).lost);
    CHECK_EQUAL(link_result_of(engine, 0).dropped_bytes, result_of(engine, 0).lost);
    CHECK_EQUAL(link_result_of(engine, 0).departed, 50000);
    ecc_engine_free(engine);
}

typedef struct {
    int64_t n[8];
    int64_t last_kind;
    int64_t last_lost;
} counts_t;

static int32_t
count_loss(void *state, void *header, void *params, void *env)
{
    counts_t *counts = state;
    const ecc_flow_env_t *seen = env;

    (void) header;
    (void) params;
    counts->n[seen->kind]++;
    counts->last_kind = seen->kind;
    counts->last_lost = seen->lost;
    return 0;
}

/* Drops every packet from the second to the params[0]-th. */
static int32_t
drop_some(void *state, void *header, void *params, void *env)
{
    int64_t *seen = state;
    ecc_link_env_t *link = env;

    (void) header;
    *seen += 1;
    link->drop = *seen > 1 && *seen <= *(const int64_t *) params;
    return 0;
}

static void
silence_is_a_timeout(void)
{
    counts_t counts = { 0 };
    int64_t seen = 0;
    int64_t until = 5;
    ecc_engine_t *engine;

    set_up(a_link(8e6, 0, -1), 1, a_flow(0.0, 4000.0, 99 * MS));
    setup.flows[0].size = 20000;
    setup.flows[0].state = &counts;
    setup.flows[0].on_loss = count_loss;
    setup.links[0].state = &seen;
    setup.links[0].params = &until;
    setup.links[0].on_arrival = drop_some;
    engine = new_engine();
    run(engine, 100 * SECOND);
    /* three of the first window and the fourth, sent on the first ACK at 100 ms, are gone: silence from 100 ms on */
    CHECK_EQUAL(counts.n[ECC_LOSS_GAP], 0);
    CHECK_EQUAL(counts.n[ECC_LOSS_TIMEOUT], 1);
    CHECK_EQUAL(counts.last_lost, 4000);
    CHECK_EQUAL(event(ECC_EVENT_TIMEOUT, 0, 0).time, SECOND);
    CHECK_EQUAL(event(ECC_EVENT_TIMEOUT, 0, 1).time, 1100 * MS);
    CHECK_EQUAL(result_of(engine, 0).completed, 1);
    CHECK_EQUAL(result_of(engine, 0).lost, 4000);
    ecc_engine_free(engine);
}

/*
 * Ahead of a flow 8 s of queue, which its first timer cannot know: its ACKs are not counted twice, and its RTT is
 * learned.
 */
static void
late_acks_teach_the_timeout(void)
{
    ecc_engine_t *engine;

    set_up(a_link(8e6, 0, -1), 2, a_flow(0.0, 4000.0, MS));
    setup.flows[0].size = 8000000;
    setup.flows[0].window = 8e6;
    setup.flows[1].size = 40000;
    setup.flows[1].start = 1;
    engine = new_engine();
    run(engine, 100 * SECOND);
    CHECK_EQUAL(result_of(engine, 0).lost, 0);
    CHECK_EQUAL(result_of(engine, 1).completed, 1);
    CHECK_EQUAL(result_of(engine, 1).delivered, 40000);
    CHECK(result_of(engine, 1).lost > 0 && result_of(engine, 1).lost <= 16000);
    CHECK(result_of(engine, 1).received > 40000);
    ecc_engine_free(engine);
}

/* A path longer than a second: the first timer knows it. */
static void
a_long_path_loses_nothing(void)
{
    ecc_engine_t *engine;

    set_up(a_link(8e6, 0, -1), 1, a_flow(0.0, 4000.0, 2 * SECOND));
    setup.flows[0].size = 40000;
    engine = new_engine();
    run(engine, 100 * SECOND);
    CHECK_EQUAL(result_of(engine, 0).completed, 1);
    CHECK_EQUAL(result_of(engine, 0).lost, 0);
    CHECK_EQUAL(result_of(engine, 0).received, 40000);
    CHECK_EQUAL(event(ECC_EVENT_TIMEOUT, 0, 0).time, 3 * (2 * SECOND + MS));
    ecc_engine_free(engine);
}

static void
a_stopped_flow_drains(void)
{
    ecc_engine_t *engine;
    ecc_stats_t stats;

    set_up(a_link(8e6, 10 * MS, -1), 2, a_flow(1e6, 0.0, 10 * MS));
    setup.flows[0].stop = 100 * MS;
    setup.flows[1].stop = 100 * MS + 1;
    setup.flows[1].packet_size = 500;
    engine = new_engine();
    stats = run(engine, 50 * SECOND);
    CHECK_EQUAL(stats.stop, ECC_STOP_IDLE);
    CHECK_EQUAL(stats.in_flight, 0);
    CHECK_EQUAL(result_of(engine, 0).sent, 13000);    /* at 0, 8, ..., 96 ms */
    CHECK_EQUAL(result_of(engine, 1).sent, 26 * 500); /* at 0, 4, ..., 100 ms */
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(result_of(engine, i).delivered, result_of(engine, i).sent);
        CHECK_EQUAL(result_of(engine, i).finish, setup.flows[i].stop);
        CHECK_EQUAL(result_of(engine, i).completed, 0);
    }
    ecc_engine_free(engine);
}

/* Small packets open the flow, whole ones follow once the first ACK is there. */
static void
opening_packets_are_small(void)
{
    ecc_engine_t *engine;

    set_up(a_link(8e6, 0, -1), 2, a_flow(1e6, 0.0, 5 * MS));
    setup.flows[0].opening_size = 125; /* one each ms; the first ACK after 5.125 ms */
    setup.flows[1].rate = 0.0;
    setup.flows[1].opening_size = 100;
    setup.flows[1].window = 1000.0;
    setup.flows[1].start = SECOND;
    setup.flows[0].stop = SECOND / 2;
    engine = new_engine();
    run(engine, 2 * SECOND);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 0, 0).time, 5 * MS + MS / 8);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 6).time, 6 * MS);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 7).time, 14 * MS); /* the one of 6 ms was whole */
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 7).value, 6 * 125 + 1000);
    /* ten of 100 bytes fill the window, which then waits for all their ACKs: whole packets only, from 1.006 s on */
    CHECK_EQUAL(event(ECC_EVENT_ACK, 1, 9).time, SECOND + 6 * MS);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 1, 9).value, 900);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 1, 10).time, SECOND + 12 * MS);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 1, 11).value, 2000);
    ecc_engine_free(engine);
}

/* ---- hooks ---- */

static int32_t
pick_rate(void *state, void *header, void *params, void *env)
{
    const double *rates = params;
    int64_t *calls = state;
    ecc_flow_env_t *flow = env;

    (void) header;
    flow->rate = rates[(*calls)++ % 4];
    return 0;
}

/* A changed rate moves the pending departure to last_send + size/rate. */
static void
a_changed_rate_reschedules(void)
{
    static double rates[] = { 4e6, 1e6, 1e6, 1e6 };
    int64_t calls = 0;
    ecc_engine_t *engine;

    set_up(a_link(1e9, 0, -1), 1, a_flow(1e5, 0.0, 5 * MS));
    setup.flows[0].state = &calls;
    setup.flows[0].params = rates;
    setup.flows[0].on_ack = pick_rate;
    engine = new_engine();
    run(engine, 100 * MS);
    /* first ACK at 5.008 ms: 4 Mb/s, due at 2 ms, so at once; the next at 2 ms after it; then ACK: 1 Mb/s */
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 1).time, 5 * MS + MS / 125);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 2).time, 7 * MS + MS / 125);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 3).time, 9 * MS + MS / 125);
    CHECK_EQUAL(event(ECC_EVENT_ACK, 0, 1).time, 10 * MS + 2 * MS / 125);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 4).time, 17 * MS + MS / 125);
    ecc_engine_free(engine);
}

static int32_t
tick(void *state, void *header, void *params, void *env)
{
    int64_t *seen = state;
    ecc_link_env_t *link = env;

    (void) header;
    (void) params;
    seen[0]++;
    seen[1] = link->queue_low;
    link->next_interval = 0.02;
    return 0;
}

static int32_t
spread(void *state, void *header, void *params, void *env)
{
    const ecc_link_env_t *link = env;
    double *sums = state;

    (void) header;
    (void) params;
    sums[2] += 1.0;
    sums[3] += link->random;
    sums[4] += (double) link->flow_queue;
    sums[5] += (double) link->queue;
    return 0;
}

static void
clocks_queue_books_and_random_numbers(void)
{
    union {
        int64_t counts[2];
        double sums[6];
    } seen = { .sums = { 0.0 } };
    ecc_engine_t *engine;

    set_up(a_link(1e6, 0, -1), 2, a_flow(1e6, 0.0, 5 * MS));
    setup.links[0].state = &seen;
    setup.links[0].on_interval = tick;
    setup.links[0].on_arrival = spread;
    setup.links[0].on_departure = spread;
    setup.links[0].first_interval = 10 * MS;
    setup.links[0].wants_flow_queue = 1;
    setup.links[0].wants_random = 1;
    engine = new_engine();
    run(engine, 8 * SECOND);
    CHECK_EQUAL(seen.counts[0], 400); /* 10, 30, ..., 7990 ms */
    CHECK_EQUAL(event(ECC_EVENT_INTERVAL, 0, 3).time, 70 * MS);
    CHECK(seen.counts[1] > 900000); /* two flows of 1 Mb/s: the queue grows by 125 kB/s and is never low again */
    CHECK(fabs(seen.sums[3] / seen.sums[2] - 0.5) < 0.02);
    CHECK(fabs(seen.sums[4] / seen.sums[5] - 0.5) < 0.01);
    ecc_engine_free(engine);
}

static int32_t
by_flow(void *state, void *header, void *params, void *env)
{
    ecc_link_env_t *link = env;

    (void) state;
    (void) header;
    (void) params;
    link->queue_index = link->flow % 3;
    return 0;
}

/* Packets of three flows over three queues, as a scheduler orders them: the k-th departure is of flow order[k]. */
static void
depart_in_order(int64_t scheduler, const ecc_bytes_t *quanta, const int *order, int n)
{
    ecc_engine_t *engine;

    set_up(a_link(1e6, 0, -1), 3, a_flow(0.0, 4000.0, SECOND));
    setup.links[0].on_classify = by_flow;
    setup.links[0].scheduler = scheduler;
    setup.links[0].n_queues = setup.config.n_quanta = 3;
    setup.config.quanta = quanta;
    for (int i = 0; i < 3; i++) {
        setup.flows[i].start = (2 - i) * MS; /* flow 2 begins: its first packet is in service when the others come */
        setup.flows[i].packet_size = 500 * (i + 1);
        setup.flows[i].window = 2000.0 * (i + 1);
    }
    engine = new_engine();
    run(engine, 500 * MS);
    for (int k = 0; k < n; k++) {
        ecc_event_t hop = event(ECC_EVENT_DEPARTURE, 0, k);
        ecc_ps_t before = k > 0 ? event(ECC_EVENT_DEPARTURE, 0, k - 1).time : 0;
        CHECK_EQUAL(hop.time - before, 4 * MS * (order[k] + 1)); /* its size tells the flow */
    }
    CHECK_EQUAL(link_result_of(engine, 0).queue, 0);
    ecc_engine_free(engine);
}

/*
 * Four packets each, of 500, 1000 and 1500 bytes, while the first of flow 2 is sent. In turns of 1500 bytes: one packet of
 * flow 2; one of flow 1, which keeps 500 bytes; three of flow 0; one of flow 2; two of flow 1, ... With new queues first,
 * flow 2 has sent what it may before the others come, and turns are overdrawn by a packet.
 */
static void
schedulers_order_packets_by_hand(void)
{
    static const ecc_bytes_t quanta[] = { 1500, 1500, 1500 };
    static const int by_priority[] = { 2, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2 };
    static const int by_turns[] = { 2, 2, 1, 0, 0, 0, 2, 1, 1, 0, 2 };
    static const int new_first[] = { 2, 1, 1, 0, 0, 0, 2, 1, 0, 2, 1 };

    depart_in_order(ECC_SCHEDULER_PRIORITY, quanta, by_priority, 11);
    depart_in_order(ECC_SCHEDULER_DRR, quanta, by_turns, 11);
    depart_in_order(ECC_SCHEDULER_FQ, quanta, new_first, 11);
}

static int32_t
drop_old(void *state, void *header, void *params, void *env)
{
    const double *limit = params;
    ecc_link_env_t *link = env;

    (void) state;
    (void) header;
    link->drop = link->sojourn > *limit;
    return 0;
}

/*
 * One packet every 2 ms, 8 ms to send each: packet k arrives at 2 k ms. At the heads of 8, 16 and 24 ms there are the
 * packets 1, 2 and 3 (6, 12 and 18 ms old); at 32 ms packets 4, 5 and 6 have waited for 24, 22 and 20 ms, and 7 for 18.
 */
static void
old_packets_are_dropped_at_the_head_of_the_queue(void)
{
    static const int64_t offsets[] = { 0, 1000, 2000, 3000, 7000, 11000, 15000 };
    double limit = 0.019;
    ecc_engine_t *engine;

    set_up(a_link(1e6, 3 * MS, -1), 1, a_flow(4e6, 0.0, 2 * MS));
    setup.links[0].on_dequeue = drop_old;
    setup.links[0].params = &limit;
    engine = new_engine();
    run(engine, 61 * MS);
    for (int k = 0; k < 7; k++) {
        CHECK_EQUAL(event(ECC_EVENT_DEPARTURE, 0, k).time, 8 * MS * (k + 1));
        CHECK_EQUAL(event(ECC_EVENT_DEPARTURE, 0, k).value, offsets[k]);
    }
    for (int k = 0; k < 9; k++) { /* 4, 5, 6; 8, 9, 10; 12, 13, 14 */
        CHECK_EQUAL(event(ECC_EVENT_DROP, 0, k).time, 32 * MS + 8 * MS * (k / 3));
        CHECK_EQUAL(event(ECC_EVENT_DROP, 0, k).value, 1000 * (4 + k % 3 + 4 * (k / 3)));
    }
    CHECK_EQUAL(link_result_of(engine, 0).dropped, 12); /* and 16 to 18, at 56 ms */
    CHECK_EQUAL(link_result_of(engine, 0).queue, 1000 * (31 - 7 - 12));
    ecc_engine_free(engine);
}

static int32_t
fail_late(void *state, void *header, void *params, void *env)
{
    const ecc_flow_env_t *flow = env;

    (void) state;
    (void) header;
    (void) params;
    return flow->now > 0.5 ? 17 : 0;
}

static int32_t
write_rate(void *state, void *header, void *params, void *env)
{
    ecc_flow_env_t *flow = env;

    (void) state;
    (void) header;
    flow->rate = *(const double *) params;
    return 0;
}

static int32_t
write_window(void *state, void *header, void *params, void *env)
{
    ecc_flow_env_t *flow = env;

    (void) state;
    (void) header;
    flow->window = *(const double *) params;
    return 0;
}

static int32_t
write_timer(void *state, void *header, void *params, void *env)
{
    ecc_flow_env_t *flow = env;

    (void) state;
    (void) header;
    flow->timer = *(const double *) params;
    return 0;
}

static int32_t
write_interval(void *state, void *header, void *params, void *env)
{
    ecc_link_env_t *link = env;

    (void) state;
    (void) header;
    link->next_interval = *(const double *) params;
    return 0;
}

static int32_t
write_nothing(void *state, void *header, void *params, void *env)
{
    (void) state;
    (void) header;
    (void) params;
    (void) env;
    return 0;
}

static void
expect_failure(int code, int64_t of, int64_t hook, ecc_ps_t after)
{
    ecc_engine_t *engine = new_engine();
    ecc_report_t report;
    ecc_stats_t stats;

    CHECK_EQUAL(ecc_engine_advance(engine, SECOND, -1), code);
    ecc_engine_report(engine, &report);
    CHECK_EQUAL(report.code, code);
    CHECK_EQUAL(report.entity, of);
    CHECK_EQUAL(report.index, 0);
    CHECK_EQUAL(report.hook, hook);
    CHECK(report.time >= after && report.time < SECOND);
    ecc_engine_stats(engine, &stats);
    CHECK_EQUAL(stats.stop, ECC_STOP_ERROR);
    CHECK_EQUAL(ecc_engine_advance(engine, 2 * SECOND, -1), code);
    ecc_engine_free(engine);
}

static void
bad_hooks_stop_the_run(void)
{
    double bad = NAN;

    set_up(a_link(1e6, 0, -1), 1, a_flow(1e5, 0.0, 5 * MS));
    setup.flows[0].params = &bad;
    setup.links[0].params = &bad;
    setup.flows[0].on_ack = fail_late;
    expect_failure(ECC_ERR_HOOK_FAILED, 2, 3, SECOND / 2);
    setup.flows[0].on_ack = NULL;
    setup.flows[0].on_send = write_rate;
    expect_failure(ECC_ERR_RATE, 2, 1, 0);
    bad = -1.0;
    expect_failure(ECC_ERR_RATE, 2, 1, 0);
    bad = INFINITY;
    expect_failure(ECC_ERR_RATE, 2, 1, 0);
    setup.flows[0].on_send = write_window;
    expect_failure(ECC_ERR_WINDOW, 2, 1, 0);
    bad = NAN;
    setup.flows[0].on_send = NULL;
    setup.flows[0].on_start = write_timer;
    expect_failure(ECC_ERR_TIMER, 2, 0, 0);
    setup.flows[0].on_start = NULL;
    setup.links[0].on_start = write_interval;
    expect_failure(ECC_ERR_INTERVAL, 1, 0, 0);
}

/* A clock that never moves by as much as a picosecond would tick for ever; a hundred ticks may be an accident. */
static void
clocks_that_stand_stop_the_run(void)
{
    double wanted = 0.0;
    ecc_engine_t *engine;

    set_up(a_link(1e6, 0, -1), 1, a_flow(1e5, 0.0, 5 * MS));
    setup.flows[0].params = &wanted;
    setup.links[0].params = &wanted;
    setup.flows[0].on_ack = write_timer; /* at once after each ACK, and no more, is fine */
    setup.flows[0].on_timer = write_nothing;
    engine = new_engine();
    CHECK(run(engine, 10 * SECOND).events > 200);
    ecc_engine_free(engine);
    setup.flows[0].on_timer = write_timer;
    expect_failure(ECC_ERR_TIMER_STUCK, 2, 5, 100);
    wanted = 4.9e-13;
    expect_failure(ECC_ERR_TIMER_STUCK, 2, 5, 100);
    setup.flows[0].on_ack = NULL;
    setup.links[0].on_start = write_interval;
    expect_failure(ECC_ERR_INTERVAL_STUCK, 1, 7, 99);
}

/* ---- slices end ---- */

static void
a_window_without_end_ends_no_call(void)
{
    ecc_stats_t stats;
    ecc_stats_t sliced;
    ecc_engine_t *engine;

    set_up(a_link(1e9, MS, 50000), 1, a_flow(0.0, 1e300, 5 * MS));
    engine = new_engine();
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(ecc_engine_advance(engine, SECOND, 1000), 0);
        ecc_engine_stats(engine, &stats);
        CHECK_EQUAL(stats.stop, ECC_STOP_MAX_EVENTS);
        CHECK_EQUAL(stats.now, 0);
    }
    CHECK_EQUAL(stats.events, 1 + 20 - 1); /* START, then a SEND of 65536 packets a call */
    CHECK_EQUAL(ecc_engine_verify(engine), 0);
    ecc_engine_free(engine);

    set_up(a_link(1e9, MS, -1), 1, a_flow(0.0, 1e300, 5 * MS));
    setup.flows[0].size = 200000 * 1000;
    engine = new_engine();
    stats = run(engine, 3 * SECOND);
    ecc_engine_free(engine);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 0).value, 65536 * 1000);
    CHECK_EQUAL(event(ECC_EVENT_SEND, 0, 2).value, (65536 + 2 * 65537) * 1000);
    engine = new_engine();
    do {
        CHECK_EQUAL(ecc_engine_advance(engine, 3 * SECOND, 70000), 0);
        ecc_engine_stats(engine, &sliced);
    } while (sliced.stop == ECC_STOP_MAX_EVENTS);
    CHECK(sliced.digest == stats.digest);
    CHECK_EQUAL(sliced.events, stats.events);
    CHECK_EQUAL(result_of(engine, 0).sent, 1000 * 200000);
    ecc_engine_free(engine);
}

/* ---- bad input ---- */

static void
expect_refusal(int code)
{
    ecc_engine_t *engine = NULL;
    ecc_report_t report;

    CHECK_EQUAL(ecc_engine_new(&setup.config, &engine, &report), code);
    CHECK_EQUAL(report.code, code);
    CHECK(engine == NULL);
}

static void
fine_again(void)
{
    set_up(a_link(1e6, MS, -1), 1, a_flow(1e5, 0.0, 5 * MS));
}

#define REFUSED(code, field, bad) \
    do {                          \
        fine_again();             \
        setup.field = (bad);      \
        expect_refusal(code);     \
    } while (0)

/* ---- packets under way at time 0 ---- */

#define N_UNDER_WAY 14

static ecc_under_way_t under_way[N_UNDER_WAY];
static ecc_begun_t begun;

/* A flow that fills a link of 8 Mb/s, with a queue of 3 ms, and has sent a packet each ms: the last 0.5 ms ago. */
static void
set_up_under_way(void)
{
    set_up(a_link(8e6, 5 * MS, -1), 1, a_flow(8e6, 0.0, 5 * MS));
    begun = (ecc_begun_t) { .rtt = 14 * MS };
    setup.config.begun = &begun;
    setup.links[0].begun_queue = 3000;
    for (int i = 0; i < N_UNDER_WAY; i++) {
        ecc_ps_t age = (N_UNDER_WAY - 1 - i) * MS + MS / 2;
        int64_t hop = age >= 4 * MS;
        under_way[i] = (ecc_under_way_t) { .sent = -age, .hop = hop, .at = (hop ? 9 * MS : 0) - age, .placed = i };
    }
    setup.config.under_way = under_way;
    setup.config.n_under_way = N_UNDER_WAY;
}

/* S-206 to S-209: runs that begin with packets in the network. */
static void
a_run_begins_with_packets_under_way(void)
{
    ecc_link_result_t link;
    ecc_stats_t stats;
    ecc_engine_t *engine;

    set_up_under_way();
    engine = new_engine();
    stats = run(engine, 0);
    CHECK_EQUAL(stats.in_flight, N_UNDER_WAY);
    CHECK_EQUAL(result_of(engine, 0).sent, N_UNDER_WAY * 1000);
    CHECK(result_of(engine, 0).srtt == 0.014 && result_of(engine, 0).min_rtt == 0.011);
    ecc_engine_link_results(engine, &link);
    CHECK_EQUAL(link.queue, 4000);
    for (int ms = 1; ms < 100; ms++) {
        stats = run(engine, ms * MS);
        ecc_engine_link_results(engine, &link);
        CHECK(link.queue >= 3000 && link.queue <= 5000 && stats.in_flight >= 13 && stats.in_flight <= 15);
        CHECK_EQUAL(ecc_engine_verify(engine), 0);
    }
    CHECK_EQUAL(result_of(engine, 0).lost, 0);
    ecc_engine_free(engine);
}

static void
bad_packets_under_way_are_refused(void)
{
    const ecc_under_way_t fine = { .sent = -MS / 2, .at = -MS / 2, .placed = N_UNDER_WAY - 1 };
    ecc_under_way_t bad[] = { fine, fine, fine, fine, fine, fine };

    bad[0].flow = 1;
    bad[1].sent = 1;
    bad[2].sent = -2 * MS; /* before the packet before it */
    bad[3].hop = 2;
    bad[4].at = 1; /* on an access line without delay */
    bad[5].placed = N_UNDER_WAY;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set_up_under_way();
        under_way[N_UNDER_WAY - 1] = bad[i];
        expect_refusal(ECC_ERR_UNDER_WAY);
    }
    set_up_under_way();
    begun.rtt = 0;
    expect_refusal(ECC_ERR_UNDER_WAY);
    set_up_under_way();
    setup.flows[0].start = 1;
    expect_refusal(ECC_ERR_UNDER_WAY);
    set_up_under_way();
    setup.config.begun = NULL;
    expect_refusal(ECC_ERR_UNDER_WAY);
    set_up_under_way();
    setup.config.n_under_way = -1;
    expect_refusal(ECC_ERR_UNDER_WAY);
}

static void
bad_input_is_refused(void)
{
    ecc_engine_t *engine;

    REFUSED(ECC_ERR_LINK_CAPACITY, links[0].capacity, 0.0);
    REFUSED(ECC_ERR_LINK_CAPACITY, links[0].capacity, (double) NAN);
    REFUSED(ECC_ERR_LINK_CAPACITY, links[0].capacity, (double) INFINITY);
    REFUSED(ECC_ERR_LINK_DELAY, links[0].delay, -1);
    REFUSED(ECC_ERR_LINK_BUFFER, links[0].buffer, -2);
    REFUSED(ECC_ERR_LINK_INTERVAL, links[0].first_interval, ECC_NEVER);
    REFUSED(ECC_ERR_FLOW_ROUTE, flows[0].n_forward, 0);
    REFUSED(ECC_ERR_FLOW_ROUTE, flows[0].n_forward, 2);
    REFUSED(ECC_ERR_FLOW_ROUTE, flows[0].n_reverse, 1);
    REFUSED(ECC_ERR_FLOW_ROUTE, flows[0].n_alternatives, 1);
    REFUSED(ECC_ERR_TRIMMING, flows[0].trimmed_size, -1);
    REFUSED(ECC_ERR_TRIMMING, flows[0].trimmed_size, INT64_C(1) << 30);
    REFUSED(ECC_ERR_PAUSE, links[0].xoff, -1);
    REFUSED(ECC_ERR_PAUSE, links[0].xon, 1);
    REFUSED(ECC_ERR_PAUSE, links[0].headroom, -1);
    REFUSED(ECC_ERR_PAUSE, flows[0].priority, 8);
    REFUSED(ECC_ERR_PAUSE, flows[0].priority, -1);
    REFUSED(ECC_ERR_SERVER, links[0].server, -1);
    REFUSED(ECC_ERR_SERVER, links[0].server, 1);
    REFUSED(ECC_ERR_SPRAYING, flows[0].n_alternatives, -1);
    REFUSED(ECC_ERR_SPRAYING, flows[0].n_alternatives, 65536);
    REFUSED(ECC_ERR_SPRAYING, flows[0].spraying, 2);
    REFUSED(ECC_ERR_SPRAYING, flows[0].reordering_threshold, -1);
    REFUSED(ECC_ERR_SPRAYING, flows[0].reordering_threshold, 256);
    REFUSED(ECC_ERR_FLOW_ROUTE, routes[0], 1);
    REFUSED(ECC_ERR_FLOW_ROUTE, routes[0], -1);
    REFUSED(ECC_ERR_FLOW_DELAY, flows[0].access_delay, -1);
    REFUSED(ECC_ERR_FLOW_DELAY, flows[0].ack_delay, INT64_MAX);
    REFUSED(ECC_ERR_FLOW_TIMES, flows[0].start, -1);
    REFUSED(ECC_ERR_FLOW_TIMES, flows[0].stop, 0);
    REFUSED(ECC_ERR_FLOW_SIZE, flows[0].size, 0);
    REFUSED(ECC_ERR_PACKET_SIZE, flows[0].packet_size, 0);
    REFUSED(ECC_ERR_PACKET_SIZE, flows[0].opening_size, -1);
    REFUSED(ECC_ERR_PACKET_SIZE, flows[0].ack_size, INT64_MAX);
    REFUSED(ECC_ERR_RATE, flows[0].rate, -1.0);
    REFUSED(ECC_ERR_WINDOW, flows[0].window, (double) INFINITY);
    REFUSED(ECC_ERR_ECN, flows[0].ecn, 4);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].transport, 5);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].receiver_window, -1);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].pacing_gain, 1.0);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].pacing_burst, -1);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].min_rto, -1);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].initial_rto, -1);
    REFUSED(ECC_ERR_TRANSPORT, flows[0].rto_granularity, INT64_MAX);
    REFUSED(ECC_ERR_HEADER_SIZE, config.header_size, 12);
    REFUSED(ECC_ERR_TOO_LARGE, config.n_flows, INT64_C(1) << 40);
    REFUSED(ECC_ERR_SAMPLES, config.samples.n_samples, 1);
    fine_again();
    engine = new_engine();
    CHECK_EQUAL(ecc_engine_advance(engine, -1, -1), ECC_ERR_UNTIL);
    CHECK_EQUAL(ecc_engine_advance(engine, ECC_NEVER, -1), ECC_ERR_UNTIL);
    CHECK_EQUAL(ecc_engine_advance(engine, SECOND, -1), 0);
    ecc_engine_free(engine);
    ecc_engine_free(NULL);
    for (int code = 1; code >= -ECC_N_ERRORS - 1; code--) {
        CHECK((strcmp(ecc_engine_error_text(code), "unknown error") == 0) == (code > 0 || code < -ECC_N_ERRORS));
    }
}

/* ---- what samples record ---- */

static void
samples_record_words(void)
{
    double kept[2] = { 1.5, -2.5 };
    ecc_recorded_t recorded[] = { { kept, 8, 0 }, { NULL, offsetof(ecc_flow_env_t, rate), 0 },
        { NULL, offsetof(ecc_flow_env_t, in_flight), 0 } };
    const ecc_recorded_t bad[]
        = { { kept, 4, 0 }, { kept, -8, 0 }, { NULL, 0, 1 }, { NULL, 0, -1 }, { NULL, sizeof(ecc_flow_env_t), 0 } };
    int64_t words[2][3];
    double value;
    ecc_engine_t *engine;

    fine_again();
    set_samples(90 * MS, 2);
    setup.config.samples.n_recorded = 3;
    setup.config.samples.recorded = recorded;
    setup.config.samples.words = words[0];
    engine = new_engine();
    CHECK_EQUAL(ecc_engine_advance(engine, 135 * MS, -1), 0);
    kept[1] = 4.0;
    CHECK_EQUAL(ecc_engine_advance(engine, SECOND, -1), 0);
    ecc_engine_free(engine);
    memcpy(&value, &words[0][0], sizeof(value));
    CHECK(value == -2.5);
    memcpy(&value, &words[1][0], sizeof(value));
    CHECK(value == 4.0);
    memcpy(&value, &words[0][1], sizeof(value));
    CHECK(value == 1e5);
    CHECK_EQUAL(words[0][2], 1000);
    CHECK_EQUAL(words[1][2], 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        recorded[1] = bad[i];
        expect_refusal(ECC_ERR_RECORDED);
    }
    setup.config.samples.words = NULL;
    expect_refusal(ECC_ERR_RECORDED);
    setup.config.samples.n_recorded = -1;
    expect_refusal(ECC_ERR_RECORDED);
}

/* ---- a network with a bit of everything ---- */

typedef struct {
    double rate;
    int64_t hops;
} header_t;

static int32_t
stamp(void *state, void *header, void *params, void *env)
{
    header_t *stamped = header;
    int64_t *count = state;

    (void) params;
    (void) env;
    stamped->hops++;
    count[0]++;
    return 0;
}

static int32_t
open_header(void *state, void *header, void *params, void *env)
{
    header_t *opened = header;
    const ecc_flow_env_t *flow = env;

    (void) state;
    (void) params;
    CHECK(opened->rate == 0.0 && opened->hops == 0);
    opened->rate = flow->rate;
    return 0;
}

/* Rates follow the random numbers: a different order of events would soon show. */
static int32_t
wander(void *state, void *header, void *params, void *env)
{
    const header_t *back = header;
    ecc_flow_env_t *flow = env;

    (void) state;
    (void) params;
    CHECK(back->hops >= 1);
    flow->rate = 0.5 * flow->rate + 5e5 * (0.5 + flow->random);
    flow->timer = flow->random < 0.3 ? 0.001 : -1.0;
    return 0;
}

static int64_t stamps[MAX_LINKS];

static void
set_up_a_bit_of_everything(void)
{
    static double limit = 0.5;
    static const ecc_bytes_t quanta[] = { 600, 3000, 100, 1500, 1000, 900 };
    static const ecc_ps_t opportunities[] = { MS, 5 * MS };
    static const ecc_delay_change_t delay_changes[] = { { 700 * MS, 3 * MS }, { 800 * MS, 0 } };
    static const ecc_server_t bursts = {
        .rate = 2e6, .burst = 3000, .n_opportunities = 2, .opportunity = 1504, .slot_hi = 3 * MS, .slot_bytes = 4000
    };

    memset(stamps, 0, sizeof(stamps));
    set_up(a_link(3e6, 4 * MS, 20000), 6, a_flow(1e6, 0.0, 3 * MS));
    setup.links[1] = a_link(2e6, 9 * MS, -1);
    setup.links[2] = a_link(1e5, MS, 100);
    setup.config.n_links = 3;
    setup.config.n_routes = 0;
    setup.config.seed = 11;
    setup.links[1].server = 1;
    setup.config.servers = &bursts;
    setup.config.n_servers = 1;
    setup.config.opportunities = opportunities;
    setup.config.n_opportunities = 2;
    for (int i = 0; i < 3; i++) {
        setup.links[i].state = &stamps[i];
    }
    setup.links[0].on_departure = stamp;
    setup.links[0].on_interval = tick;
    setup.links[0].first_interval = 0;
    setup.links[0].state = setup.cells[7];
    setup.links[1].on_arrival = stamp;
    setup.links[1].wants_flow_queue = 1;
    setup.links[3] = (ecc_link_t) { .at = 1,
        .header_offset = 16,
        .on_drop = stamp,
        .params = &limit,
        .on_dequeue = drop_old,
        .on_departure = stamp,
        .on_interval = tick,
        .first_interval = MS,
        .state = &setup.cells[7][8] };
    setup.config.n_additional = 1;
    setup.config.header_size = 32;
    setup.impairments[0] = (ecc_impairment_t) {
        .data_loss = 0.05, .jitter_hi = 30 * MS, .reorders = 1, .first_delay = 0, .n_delays = 2
    };
    setup.impairments[1] = (ecc_impairment_t) { .ack_loss = 0.3,
        .spike_every_lo = 5,
        .spike_every_hi = 20,
        .spike_lo = MS,
        .spike_hi = 90 * MS,
        .spike_between = MS / 100,
        .burst_kinds = 2,
        .burst_begins = 0.02,
        .burst_ends = 0.5,
        .burst_bad_loss = 0.9 };
    setup.impairments[2] = (ecc_impairment_t) {
        .jitter_law = ECC_JITTER_NORMAL, .jitter_scale = 5.0 * MS, .jitter_spread = 2.0 * MS, .reorders = 1
    };
    setup.changes[0] = (ecc_change_t) { 200 * MS, 0.0 };
    setup.changes[1] = (ecc_change_t) { 300 * MS + 7, 4e6 };
    setup.config.n_impairments = 3;
    setup.config.delay_changes = delay_changes;
    setup.config.n_delay_changes = 2;
    setup.config.impairments = setup.impairments;
    setup.config.n_changes = setup.links[0].n_changes = 2;
    setup.config.changes = setup.changes;
    setup.links[0].impairment = 1;
    setup.config.quanta = quanta;
    setup.config.n_quanta = 6;
    for (int i = 0; i < 3; i += 2) {
        setup.links[i].n_queues = 3;
        setup.links[i].on_classify = by_flow;
        setup.links[i].scheduler = i == 0 ? ECC_SCHEDULER_FQ : ECC_SCHEDULER_DRR;
    }
    setup.links[0].drops_longest = 1;
    setup.flows[2].impairment = 2;
    setup.flows[1].impairment = 3;
    setup.flows[3].ack_every = 3;
    setup.flows[3].ack_wait = 20 * MS;
    setup.flows[3].transport = ECC_TRANSPORT_CUMULATIVE;
    setup.flows[3].initial_rto = setup.flows[4].initial_rto = setup.flows[5].initial_rto = SECOND;
    setup.flows[3].ecn = ECC_ECN_ACCURATE;
    setup.flows[5].ecn = ECC_ECN_CLASSIC;
    setup.flows[4].transport = ECC_TRANSPORT_SACK;
    setup.flows[5].transport = ECC_TRANSPORT_RACK;
    setup.flows[2].transport = ECC_TRANSPORT_QUIC;
    setup.flows[2].initial_rto = SECOND;
    for (int64_t i = 0; i < 6; i++) {
        ecc_flow_t *flow = &setup.flows[i];
        flow->start = i * 7 * MS;
        flow->access_delay = i % 2 * 3 * MS;
        flow->on_send = open_header;
        flow->wants_random = 1;
        flow->on_ack = i < 4 ? wander : NULL;
        flow->on_receive = i == 3 ? stamp : NULL;
        flow->state = &stamps[3];
        flow->n_forward = 1 + i % 2;
        flow->n_reverse = i == 4 || i == 1;
        flow->size = i == 5 ? 33333 : -1;
        flow->header_bytes = i == 1 ? 20 : 0;
        flow->window = i == 2 ? 6000.0 : i == 5 ? 3000.0 : 0.0;
        flow->rate = i == 5 ? 0.0 : 1e6;
        flow->stop = i == 0 ? 700 * MS : -1;
        for (int64_t k = 0; k < flow->n_forward + flow->n_reverse; k++) {
            setup.routes[setup.config.n_routes++] = k < flow->n_forward ? k : 2;
        }
    }
    set_samples(30 * MS, 40);
}

static ecc_stats_t
run_in_slices(ecc_ps_t slice, int64_t max_events)
{
    ecc_engine_t *engine = new_engine();
    ecc_stats_t stats;

    do {
        ecc_engine_stats(engine, &stats);
        ecc_ps_t until = stats.now + slice < SECOND ? stats.now + slice : SECOND;
        CHECK_EQUAL(ecc_engine_advance(engine, until, max_events), 0);
        CHECK_EQUAL(ecc_engine_verify(engine), 0);
        ecc_engine_stats(engine, &stats);
    } while (stats.now < SECOND || stats.stop == ECC_STOP_MAX_EVENTS);
    ecc_engine_free(engine);
    return stats;
}

static void
slices_and_samples_change_nothing(void)
{
    static const struct {
        ecc_ps_t slice;
        int64_t max_events;
    } ways[] = { { SECOND, -1 }, { 13 * MS, -1 }, { 30 * MS, -1 }, { SECOND, 1 }, { 7 * MS, 3 }, { SECOND, 1000 } };
    static int64_t cells[8][4096];
    ecc_stats_t first = { 0 };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        ecc_stats_t stats;
        set_up_a_bit_of_everything();
        stats = run_in_slices(ways[i].slice, ways[i].max_events);
        CHECK_EQUAL(stats.samples, 33);
        if (i == 0) {
            first = stats;
            memcpy(cells, setup.cells, sizeof(cells));
            CHECK(first.events > 1000);
        }
        CHECK(stats.digest == first.digest);
        CHECK_EQUAL(stats.events, first.events);
        CHECK_EQUAL(stats.data_packets, first.data_packets);
        CHECK(memcmp(cells, setup.cells, sizeof(cells)) == 0);
    }
    set_up_a_bit_of_everything();
    setup.config.samples.n_samples = 0;
    CHECK(run_in_slices(SECOND, -1).digest == first.digest);
    set_up_a_bit_of_everything();
    setup.config.seed = 12;
    CHECK(run_in_slices(SECOND, -1).digest != first.digest);
}

static void
bytes_are_conserved(void)
{
    ecc_engine_t *engine;
    int64_t dropped = 0;

    set_up_a_bit_of_everything();
    engine = new_engine();
    run(engine, 40 * SECOND);
    for (int i = 0; i < 3; i++) {
        ecc_link_result_t link = link_result_of(engine, i);
        CHECK_EQUAL(link.arrived, link.departed + link.dropped_bytes + link.queue);
        CHECK(link.departed > 0 && link.lost_bytes <= link.departed && (link.lost > 0) == (i == 0));
        CHECK(link.queue >= 0 && (setup.links[i].buffer < 0 || link.queue <= setup.links[i].buffer));
        dropped += link.dropped;
    }
    CHECK(dropped > 0 && link_result_of(engine, 2).dropped > 0);
    for (int i = 0; i < 6; i++) {
        ecc_flow_result_t flow = result_of(engine, i);
        CHECK(flow.delivered + flow.lost <= flow.sent && flow.received <= flow.sent && flow.received > 0);
    }
    CHECK_EQUAL(result_of(engine, 5).completed, 1);
    CHECK(result_of(engine, 5).delivered >= 33333);
    CHECK(result_of(engine, 2).acks_lost > 0);
    ecc_engine_free(engine);
}

/* ---- memory ---- */

typedef struct {
    int64_t n_calls;
    int64_t fails_at;
    int64_t n_blocks;
} failing_t;

static void *
resize_or_fail(void *context, void *block, size_t size)
{
    failing_t *self = context;

    if (size == 0) {
        self->n_blocks -= block != NULL;
        free(block);
        return NULL;
    }
    if (self->n_calls++ == self->fails_at) {
        return NULL;
    }
    self->n_blocks += block == NULL;
    return realloc(block, size);
}

/* Transfers, in two lots, so many that room for them grows. */
static void
set_up_transfers(ecc_transfer_t *transfers, int64_t n)
{
    static ecc_flow_t template;

    template = a_flow(1e6, 0.0, 3 * MS);
    template.header_offset = 16;
    template.on_ack = wander;
    template.state = &setup.cells[7][16];
    template.enables_subsequent = 1;
    template.transport = ECC_TRANSPORT_SACK;
    template.min_rto = 0;
    template.initial_rto = SECOND;
    setup.config.templates = &template;
    setup.config.n_templates = 1;
    setup.config.record_size = 16;
    setup.routes[setup.config.n_routes++] = 1;
    for (int64_t i = 0; i < n; i++) {
        int follows = i >= n / 2 + 5; /* a long row in the second lot */
        transfers[i] = (ecc_transfer_t) { .start = follows ? MS : i / 20 * 100 * MS,
            .stop = -1,
            .size = follows ? 10 : 1000 + 100 * i,
            .ack_delay = MS,
            .is_subsequent = follows };
    }
}

static void
every_allocation_may_fail(void)
{
    enum { N_TRANSFERS = 160 };
    static ecc_transfer_t transfers[N_TRANSFERS];
    failing_t failing = { 0 };
    ecc_allocator_t allocator = { resize_or_fail, &failing };
    int64_t k;
    int n_late = 0;
    int ret = ECC_ERR_NO_MEMORY;

    for (k = 0; ret != 0; k++) {
        ecc_engine_t *engine;
        ecc_report_t report;
        failing = (failing_t) { .fails_at = k };
        set_up_a_bit_of_everything();
        set_up_transfers(transfers, N_TRANSFERS);
        setup.config.allocator = &allocator;
        ret = ecc_engine_new(&setup.config, &engine, &report);
        CHECK_EQUAL(report.code, ret);
        if (ret == 0) {
            static ecc_transfer_result_t over[N_TRANSFERS];
            ecc_stats_t stats;
            for (int half = 0; half < 2 && ret == 0; half++) {
                ret = ecc_engine_add(engine, &transfers[half * N_TRANSFERS / 2], N_TRANSFERS / 2, half == 0);
                ret = ret == 0 ? ecc_engine_advance(engine, SECOND, -1) : ret;
            }
            n_late += ret != 0;
            ecc_engine_stats(engine, &stats);
            /* what was written before the failure is still there */
            CHECK_EQUAL(stats.samples, ret == 0 ? 33 : (stats.now - 1) / (30 * MS));
            CHECK(stats.samples == 0 || setup.cells[0][0] > 0);
            CHECK_EQUAL(ecc_engine_take_finished(engine, over, N_TRANSFERS), stats.finished);
            for (int64_t i = 0; i < stats.finished; i++) {
                CHECK(over[i].number >= setup.config.n_flows && over[i].flow.finish > 0);
            }
            CHECK(ret != 0 || stats.finished > 40);
            ecc_engine_free(engine);
        }
        CHECK(ret == 0 || ret == ECC_ERR_NO_MEMORY);
        CHECK_EQUAL(failing.n_blocks, 0);
        CHECK(k < 1000);
    }
    CHECK(k > 12 && n_late > 2);
}

/* S-138 to S-142: packets of 1 ms on the first link, of 2 ms on the second, 10 ms between them; see test_pause.py. */
static void
a_pause_and_its_end_by_hand(void)
{
    static unsigned char saved[1 << 20];
    static const int64_t route[] = { 0, 1 };
    static int64_t paused[64];
    static int64_t pauses[64];
    ecc_engine_t *engine;
    ecc_engine_t *other;
    int64_t size;

    set_up(a_link(8e6, 10 * MS, -1), 1, a_flow(8e6, 0.0, 0));
    setup.links[1] = a_link(4e6, 0, -1);
    setup.config.n_links = 2;
    setup.links[0].xoff = 5000;
    setup.links[0].xon = 2000;
    setup.links[0].headroom = 22000;
    setup.flows[0].n_forward = 2;
    setup.config.routes = route;
    setup.config.n_routes = 2;
    set_samples(10 * MS, 20);
    setup.config.samples.paused = paused;
    setup.config.samples.pauses = pauses;
    engine = new_engine();
    (void) run(engine, 100 * MS);
    CHECK_EQUAL(event(ECC_EVENT_PAUSE, 0, 0).time, 20 * MS);
    CHECK_EQUAL(event(ECC_EVENT_RESUME, 0, 0).time, 67 * MS);
    CHECK_EQUAL(paused[2 * 2], 0);
    CHECK_EQUAL(paused[2 * 4], 20 * MS); /* at 50 ms, since 30 ms */
    CHECK_EQUAL(paused[2 * 8], 47 * MS); /* at 90 ms, until 77 ms */
    CHECK_EQUAL(pauses[2 * 8], 1);
    CHECK_EQUAL(link_result_of(engine, 1).dropped, 0);
    CHECK(ecc_engine_save(engine, NULL) < (int64_t) sizeof(saved));
    size = ecc_engine_save(engine, saved);
    other = new_engine();
    CHECK_EQUAL(ecc_engine_load(other, saved, size), 0);
    CHECK_EQUAL(run(other, 190 * MS).digest, run(engine, 190 * MS).digest);
    ecc_engine_free(other);
    ecc_engine_free(engine);
    setup.links[0].headroom = 5000;
    engine = new_engine();
    (void) run(engine, 190 * MS);
    CHECK(link_result_of(engine, 1).dropped > 0);
    ecc_engine_free(engine);
}

/*
 * S-155 to S-159: a window of four packets of 1000 bytes, and one more for each ACK. Opportunities of 1504 bytes at 3, 3, 5
 * and 8 ms: two carry three packets, the third one and half of the next, the fourth the rest and one. A bucket of 2000
 * tokens, then one packet a millisecond. Slots of two packets, 4 ms after the first is there, or after the last slot.
 */
static void
servers_serve_by_hand(void)
{
    static const ecc_ps_t opportunities[] = { 3 * MS, 3 * MS, 5 * MS, 8 * MS };
    static const ecc_server_t servers[]
        = { { .n_opportunities = 4, .opportunity = 1504 }, { .rate = 8e6, .burst = 2000, .opportunity = -1 },
              { .slot_lo = 4 * MS, .slot_hi = 4 * MS, .slot_packets = 2 } };
    static const ecc_ps_t times[3][6] = { { 3 * MS, 3 * MS, 3 * MS, 5 * MS, 8 * MS, 8 * MS },
        { MS / 10, 2 * MS / 10, MS + MS / 10, 2 * MS + MS / 10, 3 * MS + MS / 10, 4 * MS + MS / 10 },
        { 4 * MS + MS / 10, 4 * MS + MS / 10, 8 * MS + MS / 10, 8 * MS + MS / 10, 12 * MS + MS / 10,
            12 * MS + MS / 10 } };
    static unsigned char saved[1 << 20];

    for (int which = 0; which < 3; which++) {
        ecc_engine_t *engine;
        ecc_engine_t *other;
        int64_t size;
        set_up(a_link(8e7, 0, -1), 1, a_flow(0.0, 4000.0, 0));
        setup.links[0].server = which + 1;
        setup.config.servers = servers;
        setup.config.n_servers = 3;
        setup.config.opportunities = opportunities;
        setup.config.n_opportunities = 4;
        engine = new_engine();
        (void) run(engine, 30 * MS);
        for (int k = 0; k < 6; k++) {
            CHECK_EQUAL(event(ECC_EVENT_ACK, 0, k).time, times[which][k]);
        }
        CHECK(ecc_engine_save(engine, NULL) < (int64_t) sizeof(saved));
        size = ecc_engine_save(engine, saved);
        other = new_engine();
        CHECK_EQUAL(ecc_engine_load(other, saved, size), 0);
        CHECK_EQUAL(run(other, 190 * MS).digest, run(engine, 190 * MS).digest);
        ecc_engine_free(other);
        ecc_engine_free(engine);
    }
}

/* Part 1 only has the second link: there transfers pass, so many that room for them grows, if there is memory. */
static void
a_part_without_memory_for_what_enters_has_failed(void)
{
    enum { N_TRANSFERS = 40 };
    static const int64_t links[] = { 0, 1 };
    static const int64_t template_part = 0;
    static const int64_t route[] = { 0, 1 };
    static ecc_transfer_t transfers[N_TRANSFERS];
    static unsigned char crossings[1 << 16];
    static ecc_flow_t template;
    failing_t failing = { .fails_at = -1 };
    const ecc_allocator_t allocator = { resize_or_fail, &failing };
    ecc_engine_t *engines[2];
    ecc_report_t report;
    int64_t size;
    int64_t rest;
    int ret = ECC_ERR_NO_MEMORY;

    template = a_flow(0.0, 1000.0, 0);
    template.n_forward = 2;
    set_up(a_link(8e9, MS, -1), 0, template);
    setup.links[1] = setup.links[0];
    setup.config.n_links = 2;
    setup.config.templates = &template;
    setup.config.n_templates = 1;
    setup.config.routes = route;
    setup.config.n_routes = 2;
    setup.config.n_trace = 0;
    setup.config.partition = (ecc_partition_t) { .n_parts = 2, .links = links, .templates = &template_part };
    for (int64_t i = 0; i < N_TRANSFERS; i++) {
        transfers[i] = (ecc_transfer_t) { .stop = -1, .size = 1000 };
    }
    engines[0] = new_engine();
    CHECK_EQUAL(ecc_engine_add(engines[0], transfers, N_TRANSFERS, 0), 0);
    (void) run(engines[0], MS / 2);
    CHECK(ecc_engine_take_leaving(engines[0], 1, NULL) < (int64_t) sizeof(crossings));
    size = ecc_engine_take_leaving(engines[0], 1, crossings);
    setup.config.partition.part = 1;
    setup.config.allocator = &allocator;
    for (int64_t k = 0; ret != 0; k++) {
        CHECK_EQUAL(ecc_engine_new(&setup.config, &engines[1], &report), 0);
        CHECK_EQUAL(ecc_engine_add(engines[1], transfers, N_TRANSFERS, 0), 0);
        failing.fails_at = failing.n_calls + k;
        ret = ecc_engine_enter(engines[1], crossings, size);
        failing.fails_at = -1;
        if (ret != 0) {
            CHECK_EQUAL(ret, ECC_ERR_NO_MEMORY);
            ecc_engine_report(engines[1], &report);
            rest = (int64_t) report.value * (size / N_TRANSFERS);
            CHECK_EQUAL(ecc_engine_enter(engines[1], crossings + rest, size - rest), ret);
            CHECK_EQUAL(ecc_engine_advance(engines[1], SECOND, -1), ret);
        }
        ecc_engine_free(engines[1]);
        CHECK_EQUAL(failing.n_blocks, 0);
        CHECK(k < 100 && (ret != 0 || k > 10));
    }
    ecc_engine_free(engines[0]);
}

/* Packets of 20 transfers wait for the second link, and leave behind it; 20 others, over the third, have taken their slots. */
static void
a_part_is_saved_while_what_has_passed_departs(void)
{
    enum { N_TRANSFERS = 40 };
    static const int64_t links[] = { 0, 1, 1 };
    static const int64_t template_parts[] = { 0, 0 };
    static const int64_t routes[] = { 0, 1, 0, 2 };
    static ecc_transfer_t transfers[N_TRANSFERS];
    static unsigned char bytes[1 << 16];
    static ecc_flow_t templates[2];
    ecc_engine_t *engines[3];
    int64_t size;

    templates[0] = a_flow(0.0, 1000.0, 0);
    templates[0].n_forward = 2;
    templates[1] = templates[0];
    set_up(a_link(8e9, MS, -1), 0, templates[0]);
    setup.links[1] = setup.links[2] = a_link(8e6, MS, -1);
    setup.config.n_links = 3;
    setup.config.templates = templates;
    setup.config.n_templates = 2;
    setup.config.routes = routes;
    setup.config.n_routes = 4;
    setup.config.n_trace = 0;
    setup.config.partition = (ecc_partition_t) { .n_parts = 2, .links = links, .templates = template_parts };
    for (int64_t i = 0; i < N_TRANSFERS; i++) {
        int64_t half = i / (N_TRANSFERS / 2);
        transfers[i] = (ecc_transfer_t) { .start = half * MS, .stop = -1, .size = 1000, .template_index = half };
    }
    engines[0] = new_engine();
    setup.config.partition.part = 1;
    engines[1] = new_engine();
    CHECK_EQUAL(ecc_engine_add(engines[0], transfers, N_TRANSFERS, 0), 0);
    CHECK_EQUAL(ecc_engine_add(engines[1], transfers, N_TRANSFERS, 0), 0);
    for (int64_t half = 0; half < 2; half++) { /* the first have passed before the others come */
        CHECK_EQUAL(ecc_engine_advance(engines[0], half * MS, -1), 0);
        CHECK(ecc_engine_take_leaving(engines[0], 1, NULL) < (int64_t) sizeof(bytes));
        size = ecc_engine_take_leaving(engines[0], 1, bytes);
        CHECK_EQUAL(ecc_engine_enter(engines[1], bytes, size), 0);
        CHECK_EQUAL(ecc_engine_advance(engines[1], half * MS + 3 * MS / 2, -1), 0);
    }
    CHECK(ecc_engine_take_leaving(engines[1], 0, bytes) > 0);
    CHECK(ecc_engine_save(engines[1], NULL) > 0);
    size = ecc_engine_save(engines[1], bytes);
    engines[2] = new_engine();
    CHECK_EQUAL(ecc_engine_load(engines[2], bytes, size), 0);
    CHECK_EQUAL(run(engines[2], SECOND).digest, run(engines[1], SECOND).digest);
    for (int i = 0; i < 3; i++) {
        ecc_engine_free(engines[i]);
    }
}

/* Flows 0 and 1 share link 0; behind it, link 1 is in the same part, and link 2 in another. */
static void
packets_on_wires_are_recorded_until_the_trace_is_full(void)
{
    static const int64_t links[] = { 0, 0, 1 };
    static const int64_t parts[] = { 0, 0 };
    static unsigned char bytes[1 << 12];
    static const ecc_wire_entry_t expected[]
        = { { 2 * MS, 0, 0 }, { 3 * MS, 0, 1 }, { 4 * MS, 0, 0 }, { 5 * MS, 0, 1 } };
    ecc_wire_entry_t entries[4];
    failing_t failing = { .fails_at = -1 };
    const ecc_allocator_t allocator = { resize_or_fail, &failing };
    ecc_engine_t *engines[2];
    ecc_report_t report;
    int64_t n_refused = 0;
    int64_t size;
    int ret = ECC_ERR_NO_MEMORY;

    set_up(a_link(8e6, MS, -1), 2, a_flow(4e6, 0.0, MS));
    setup.links[1] = setup.links[2] = setup.links[0];
    setup.flows[0].n_forward = setup.flows[1].n_forward = 2;
    memcpy(setup.routes, (const int64_t[]) { 0, 1, 0, 2 }, 4 * sizeof(int64_t));
    setup.config.n_links = 3;
    setup.config.n_routes = 4;
    setup.config.partition = (ecc_partition_t) { .n_parts = 2, .links = links, .senders = parts, .receivers = parts };
    engines[0] = new_engine();
    CHECK_EQUAL(ecc_engine_wire_entries(engines[0], NULL), 0);
    (void) run(engines[0], 5 * MS / 2);
    CHECK_EQUAL(ecc_engine_wire_entries(engines[0], NULL), 4);
    (void) ecc_engine_wire_entries(engines[0], entries);
    for (int i = 0; i < 4; i++) { /* one on link 1 is not recorded, as its end is no HOP */
        CHECK_EQUAL(entries[i].time, expected[i].time);
        CHECK_EQUAL(entries[i].link, expected[i].link);
        CHECK_EQUAL(entries[i].part, expected[i].part);
    }
    CHECK(ecc_engine_take_leaving(engines[0], 1, bytes) > 0);
    CHECK(ecc_engine_save(engines[0], NULL) <= (int64_t) sizeof(bytes));
    size = ecc_engine_save(engines[0], bytes);
    engines[1] = new_engine();
    CHECK_EQUAL(ecc_engine_load(engines[1], bytes, size), 0);
    CHECK_EQUAL(ecc_engine_wire_entries(engines[1], entries), 4);
    CHECK_EQUAL(entries[3].time, 5 * MS);
    ecc_engine_free(engines[1]);
    ecc_engine_free(engines[0]);
    setup.config.n_trace = 3; /* START and SEND of flow 0, START of flow 1 */
    engines[0] = new_engine();
    (void) run(engines[0], SECOND);
    CHECK_EQUAL(ecc_engine_wire_entries(engines[0], NULL), 1);
    ecc_engine_free(engines[0]);
    setup.config.allocator = &allocator;
    for (int64_t k = 0; ret != 0; k++) {
        CHECK_EQUAL(ecc_engine_new(&setup.config, &engines[0], &report), 0);
        failing.fails_at = failing.n_calls + k;
        ret = ecc_engine_advance(engines[0], 5 * MS / 2, -1);
        failing.fails_at = -1;
        CHECK(ret == 0 || ret == ECC_ERR_NO_MEMORY);
        n_refused += ret != 0 && ecc_engine_wire_entries(engines[0], NULL) == 0;
        ecc_engine_free(engines[0]);
        CHECK_EQUAL(failing.n_blocks, 0);
    }
    CHECK(n_refused >= 2); /* memory for packets, and for what is recorded */
}

/* ---- extremes ---- */

/*
 * S-162: 100 bytes are written each ms, and paced at one of these in 20 ms. By the time of the second SEND so much is owed
 * that the window of the transfer, which its template does not have, has no room for it.
 */
static void
what_is_written_may_outgrow_the_window_of_a_transfer(void)
{
    static ecc_flow_t template;
    ecc_transfer_t transfer = { .stop = -1, .size = 5000, .ack_delay = 100 * MS, .receiver_window = 1000 };
    ecc_engine_t *engine;

    template = a_flow(4e4, 0.0, 0);
    template.transport = ECC_TRANSPORT_CUMULATIVE;
    template.initial_rto = SECOND;
    template.write_size = 100;
    template.write_period = MS;
    set_up(a_link(8e6, 0, -1), 0, template);
    setup.config.templates = &template;
    setup.config.n_templates = 1;
    setup.config.n_routes = 1;
    engine = new_engine();
    CHECK_EQUAL(ecc_engine_add(engine, &transfer, 1, 0), 0);
    (void) run(engine, 15 * MS);
    CHECK(ecc_engine_save(engine, NULL) > 0);
    CHECK_EQUAL(run(engine, 100 * SECOND).finished, 1);
    ecc_engine_free(engine);
}

/* S-1: twelve times the longest delay. */
static void
the_longest_path_takes_for_ever(void)
{
    ecc_engine_t *engine;

    set_up(a_link(8e6, 1000000 * SECOND, -1), 1, a_flow(8e6, 0.0, 1000000 * SECOND));
    setup.flows[0].n_forward = 11;
    setup.config.n_routes = 11;
    engine = new_engine();
    (void) run(engine, MS);
    CHECK_EQUAL(result_of(engine, 0).idle_rtt, ECC_NEVER);
    ecc_engine_free(engine);
}

/* The second of two packets of 2^30 bytes is dropped, and sent again as a probe (S-147): both are in flight then. */
static void
a_probe_may_be_of_the_largest_size(void)
{
    const int64_t size = INT64_C(1) << 30;
    ecc_engine_t *engine;

    set_up(a_link(8e12, MS, size), 1, a_flow(0.0, 1e10, MS));
    setup.flows[0].packet_size = size;
    setup.flows[0].size = 2 * size;
    setup.flows[0].transport = ECC_TRANSPORT_RACK;
    setup.flows[0].initial_rto = SECOND;
    engine = new_engine();
    (void) run(engine, SECOND);
    CHECK_EQUAL(link_result_of(engine, 0).dropped, 1);
    CHECK_EQUAL(result_of(engine, 0).completed, 1);
    ecc_engine_free(engine);
}

/* ---- damage ---- */

static int32_t
sort_by_flow(void *state, void *header, void *params, void *env)
{
    ecc_link_env_t *seen = env;

    (void) state;
    (void) header;
    (void) params;
    seen->queue_index = seen->flow % 2;
    return 0;
}

static int32_t
trim_large(void *state, void *header, void *params, void *env)
{
    ecc_link_env_t *seen = env;

    (void) state;
    (void) header;
    (void) params;
    seen->trim = seen->packet_size > 2000;
    return 0;
}

typedef struct {
    int64_t received;
    int64_t reports;
    double last;
} reporter_t;

static int32_t
begin_reports(void *state, void *header, void *params, void *env)
{
    (void) header;
    (void) params;
    if (((reporter_t *) state)->received++ == 0) {
        ((ecc_flow_env_t *) env)->timer = 0.01;
    }
    return 0;
}

static int32_t
send_report(void *state, void *header, void *params, void *env)
{
    (void) params;
    *(int64_t *) header = ((reporter_t *) state)->received;
    ((ecc_flow_env_t *) env)->control_size = 64;
    ((ecc_flow_env_t *) env)->timer = 0.01;
    return 0;
}

static int32_t
note_report(void *state, void *header, void *params, void *env)
{
    reporter_t *reporter = state;

    (void) params;
    reporter->reports++;
    reporter->last = ((ecc_flow_env_t *) env)->now;
    CHECK_EQUAL(*(int64_t *) header, reporter->reports + 1); /* a packet arrives with each report */
    return 0;
}

/* S-210: packets arrive 3 ms after their emission, reports leave each 10 ms from then on, and arrive 5 ms later. */
static void
receivers_report_by_hand(void)
{
    static const char kinds[] = { ECC_TRANSPORT_NONE, ECC_TRANSPORT_SACK };

    for (size_t k = 0; k < sizeof(kinds); k++) {
        reporter_t reporter = { 0 };
        ecc_engine_t *engine;

        set_up(a_link(8e6, 2 * MS, -1), 1, a_flow(8e5, 0.0, 5 * MS));
        setup.flows[0].transport = kinds[k];
        setup.flows[0].initial_rto = SECOND;
        setup.flows[0].state = &reporter;
        setup.flows[0].on_receive = begin_reports;
        setup.flows[0].on_report = send_report;
        setup.flows[0].on_control = note_report;
        engine = new_engine();
        (void) run(engine, 100 * MS);
        CHECK_EQUAL(reporter.reports, 9);
        CHECK(fabs(reporter.last - 0.098) < 1e-12);
        ecc_engine_free(engine);
    }
}

static int32_t
fail_on_control(void *state, void *header, void *params, void *env)
{
    (void) state;
    (void) header;
    (void) params;
    (void) env;
    return 1; /* there is no control packet */
}

/* A link that sorts, one that trims; SACK that recovers, ACKs that cost no event, packets that can be trimmed, and transfers. */
static void
set_up_damage(ecc_flow_t *template)
{
    static const ecc_bytes_t quanta[] = { 1000, 1000 };
    static const int64_t routes[] = { 0, 1, 0, 1, 1, 1 };

    *template = a_flow(0.0, 2000.0, MS);
    template->n_forward = 1;
    set_up(a_link(8e6, 2 * MS, 6000), 3, a_flow(0.0, 9000.0, 5 * MS));
    setup.links[0].n_queues = 2;
    setup.links[0].scheduler = ECC_SCHEDULER_DRR;
    setup.links[0].on_classify = sort_by_flow;
    setup.links[1] = a_link(8e7, 2 * MS, -1);
    setup.links[1].on_arrival = trim_large;
    setup.flows[0].n_forward = setup.flows[1].n_forward = 2;
    setup.flows[0].transport = ECC_TRANSPORT_SACK;
    setup.flows[0].initial_rto = SECOND;
    setup.flows[1].trimmed_size = 60;
    setup.flows[1].window = 4000.0;
    setup.flows[2].on_control = fail_on_control;
    setup.flows[2].rate = 4e6;
    setup.flows[2].window = 0.0;
    setup.flows[2].size = 30000;
    setup.flows[2].header_bytes = 40;
    setup.config.n_links = 2;
    setup.config.n_trace = 0;
    setup.config.quanta = quanta;
    setup.config.n_quanta = 2;
    setup.config.templates = template;
    setup.config.n_templates = 1;
    setup.config.routes = routes;
    setup.config.n_routes = 6;
}

static void
damage(unsigned char *bytes, int64_t at, int how)
{
    const int64_t numbers[] = { INT64_MIN, 30001 + (INT64_C(3) << 31) }; /* the size of a flow, and so much more */
    const int32_t words[] = { 1 << 30, -40 };
    unsigned char word[4];

    if (how == 0) {
        bytes[at]++;
    } else if (how == 1) {
        bytes[at] = 0;
    } else if (how < 4) {
        memcpy(bytes + at, &numbers[how - 2], sizeof(*numbers));
    } else if (how < 6) {
        memcpy(bytes + at, &words[how - 4], sizeof(*words));
    } else { /* two words change places */
        memcpy(word, bytes + at, sizeof(word));
        memmove(bytes + at, bytes + at + sizeof(word), sizeof(word));
        memcpy(bytes + at + sizeof(word), word, sizeof(word));
    }
}

/* Whatever one place of a checkpoint says: it is refused, or the engine runs on, with every invariant of debug builds. */
static void
a_damaged_checkpoint_is_refused_or_runs_on(void)
{
    enum { N_TRANSFERS = 3 };
    static const ecc_transfer_t transfers[N_TRANSFERS] = { { .stop = -1, .size = 9000 },
        { .start = 35 * MS, .stop = -1, .size = 9000 }, { .start = SECOND, .stop = -1, .size = 9000 } };
    static unsigned char saved[4096];
    static unsigned char damaged[4096];
    static ecc_flow_t template;
    int64_t n_taken = 0;

    set_up_damage(&template);
    for (ecc_ps_t until = 15 * MS; until < 60 * MS; until += 11 * MS) {
        ecc_engine_t *engine = new_engine();
        int64_t size;
        CHECK_EQUAL(ecc_engine_add(engine, transfers, N_TRANSFERS, 0), 0);
        (void) run(engine, until);
        CHECK(ecc_engine_save(engine, NULL) < (int64_t) sizeof(saved));
        size = ecc_engine_save(engine, saved);
        ecc_engine_free(engine);
        for (int64_t k = 0; k < 7 * (size - 8); k++) {
            memcpy(damaged, saved, (size_t) size);
            damage(damaged, k / 7, (int) (k % 7));
            engine = new_engine();
            if (ecc_engine_load(engine, damaged, size) == 0) {
                int ret = ecc_engine_advance(engine, 2 * SECOND, 100);
                CHECK(ret == 0 || ret == ECC_ERR_BROKEN);
                n_taken++;
            }
            ecc_engine_free(engine);
        }
    }
    CHECK(n_taken > 1000);
}

int
main(void)
{
    constant_rate_is_exact();
    overload_queues_exactly();
    stages_add_up();
    window_is_filled_and_clocked_by_acks();
    a_full_buffer_drops_and_what_is_lost_is_sent_again();
    silence_is_a_timeout();
    late_acks_teach_the_timeout();
    a_long_path_loses_nothing();
    a_stopped_flow_drains();
    opening_packets_are_small();
    a_changed_rate_reschedules();
    clocks_queue_books_and_random_numbers();
    old_packets_are_dropped_at_the_head_of_the_queue();
    schedulers_order_packets_by_hand();
    a_pause_and_its_end_by_hand();
    servers_serve_by_hand();
    bad_hooks_stop_the_run();
    clocks_that_stand_stop_the_run();
    a_window_without_end_ends_no_call();
    bad_input_is_refused();
    a_run_begins_with_packets_under_way();
    bad_packets_under_way_are_refused();
    samples_record_words();
    slices_and_samples_change_nothing();
    bytes_are_conserved();
    every_allocation_may_fail();
    a_part_without_memory_for_what_enters_has_failed();
    a_part_is_saved_while_what_has_passed_departs();
    packets_on_wires_are_recorded_until_the_trace_is_full();
    what_is_written_may_outgrow_the_window_of_a_transfer();
    the_longest_path_takes_for_ever();
    a_probe_may_be_of_the_largest_size();
    receivers_report_by_hand();
    a_damaged_checkpoint_is_refused_or_runs_on();
    return 0;
}
