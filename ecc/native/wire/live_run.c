/*
 * Nodes joined by real links, run by one thread on one clock.
 *
 * In each turn the thread reads the clock, lets in the packets that have arrived, at the times that the kernel has
 * stamped on them, runs all engines up to now, and sends the packets that are due. A packet that leaves an engine
 * waits here until it reaches the end of its wire or delay, and then crosses a real link, whose own delay is lateness.
 *
 * Incoming packets are checked as frames (frames.c) and by the engine (enter.c). A packet that either refuses is
 * counted, and changes nothing.
 *
 * Not here: creation (live_build.c), and sockets (live_socket.c).
 */

#define _GNU_SOURCE

#include "wire/live.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/bins.h"
#include "core/crossing.h"
#include "core/state.h"
#include "parts/enter.h"
#include "run/run.h"
#include "wire/live_state.h"

#define SPIN INT64_C(60000)             /* ns before the next event in which the thread does not sleep */
#define LONGEST_SLEEP INT64_C(20000000) /* ns */
#define SETTLING INT64_C(2000000000)    /* ns */
#define ETHERNET 14
#define SMALLEST_FRAME (ETHERNET + 20) /* with a header of IPv4 */

static int64_t
read_clock(clockid_t clock)
{
    struct timespec time;

    (void) clock_gettime(clock, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* ---- the clock ---- */

static ecc_ps_t
time_of(const ecc_live_t *self, int64_t clock)
{
    double time = (double) clock * 1000.0 / self->slow;

    return time < (double) ECC_NEVER ? (ecc_ps_t) time : ECC_NEVER;
}

/* Advances the clock by the time since the last look, at most by longest_step. */
static void
look(ecc_live_t *self, ecc_ps_t until)
{
    int64_t looked = read_clock(CLOCK_MONOTONIC);
    int64_t passed = looked - self->looked;
    int64_t busy = passed - (self->may_sleep < passed ? self->may_sleep : passed);

    self->stamped = read_clock(CLOCK_REALTIME);
    self->stepped = passed;
    if (self->longest_step > 0 && busy > self->longest_step) {
        self->stepped = passed - busy + self->longest_step;
    }
    self->looked = looked;
    self->may_sleep = 0;
    self->clock += self->stepped;
    self->now = time_of(self, self->clock);
    self->now = self->now < until ? self->now : until;
    self->stats.elapsed += passed;
    self->stats.frozen += passed - self->stepped;
    self->stats.longest = busy > self->stats.longest ? busy : self->stats.longest;
    self->stats.looks++;
}

/* Time at which a frame arrived, by its stamp; between the last two looks. */
static ecc_ps_t
arrival_of(const ecc_live_t *self, int64_t stamp)
{
    int64_t age = self->stamped - stamp;

    age = age < 0 ? 0 : age < self->stepped ? age : self->stepped;
    return time_of(self, self->clock - age);
}

/* ---- what comes in ---- */

static void
count_lateness(ecc_live_t *self, ecc_ps_t late)
{
    int64_t ns = late > 0 ? late / 1000 : 0;

    self->stats.late[ecc_bins_of(ns)]++;
    self->stats.latest = ns > self->stats.latest ? ns : self->stats.latest;
}

/* The packet of `crossing` enters a node, which checks it. */
static int
let_in(ecc_live_t *self, ecc_live_connection_t *port)
{
    ecc_engine_t *engine = self->engines[port->face->node];
    int ret = ecc_enter_all(engine, self->crossing, self->crossing_size, engine->now);

    if (ret == ECC_ERR_CROSSING) {
        port->face->refused++;
        engine->report = (ecc_report_t) { .hook = ECC_NO_HOOK }; /* nothing has failed */
        return 0;
    }
    return ret;
}

/* Time at which a packet may enter through a port: not before the packets that came before it. */
static ecc_ps_t
entry_of(ecc_live_connection_t *port, const ecc_engine_t *engine, ecc_ps_t time)
{
    time = time > engine->now ? time : engine->now + 1;
    port->last = time > port->last ? time : port->last;
    return port->last;
}

/* A packet of ours has come. */
static int
enter(ecc_live_t *self, ecc_live_connection_t *port, ecc_ps_t time)
{
    ecc_ps_t due;

    memcpy(&due, self->crossing, sizeof(due));
    time = entry_of(port, self->engines[port->face->node], time);
    memcpy(self->crossing, &time, sizeof(time));
    count_lateness(self, time - due);
    return let_in(self, port);
}

/*
 * A host of the kernel has sent a frame: if it is the sender, a packet for the first link, behind the access line; if
 * it is the receiver, an ACK, which waits for its pure delay here.
 */
static int
enter_foreign(ecc_live_t *self, ecc_live_connection_t *port, const unsigned char *frame, int64_t size, ecc_ps_t time)
{
    const ecc_live_port_t *face = port->face;
    ecc_engine_t *engine = self->engines[face->node];
    const ecc_flow_t *spec = engine->flows[face->flow].spec;
    ecc_live_kernel_flow_t *flow = &self->flows[face->flow];
    int64_t number = size > SMALLEST_FRAME ? ecc_foreign_keep(&flow->frames, frame, (size_t) size) : -1;
    ecc_crossing_t crossing
        = { .offset = number, .size = size - ETHERNET, .flow = face->flow, .hop = ECC_CUT_ON_ACCESS };

    if (number < 0) {
        port->face->refused++;
        return 0;
    }
    memset(self->crossing, 0, self->crossing_size);
    crossing.sent = entry_of(port, engine, time);
    crossing.time
        = ecc_clock_add(crossing.sent, face->host == ECC_LIVE_RECEIVER ? spec->ack_delay : spec->access_delay);
    memcpy(self->crossing, &crossing, sizeof(crossing));
    if (face->host == ECC_LIVE_RECEIVER) {
        return ecc_waiting_push(&self->waiting, &self->memory, crossing.time, flow->sender, self->crossing);
    }
    if (engine->flows[face->flow].can_be_marked) {
        int64_t codepoint = ecc_foreign_codepoint(frame);
        memcpy(self->crossing + sizeof(crossing) + engine->ecn_offset, &codepoint, sizeof(codepoint));
    }
    return let_in(self, port);
}

/* Collects all frames of a port; at most those of a full ring, so that a flood does not stop the rest. */
static int
collect(ecc_live_t *self, ecc_live_connection_t *port, bool enters)
{
    ecc_live_socket_t *socket = &port->socket;
    int ret = 0;

    for (uint32_t i = 0; i < socket->n_slots && ret == 0; i++) {
        int64_t size;
        int64_t stamp;
        const unsigned char *frame = ecc_live_socket_next(socket, &size, &stamp);
        if (frame == NULL) {
            break;
        }
        port->face->received++;
        if (port->face->host != ECC_LIVE_NODE) {
            ret = enters ? enter_foreign(self, port, frame, size, arrival_of(self, stamp)) : 0;
        } else if (ecc_frames_read(self->frames[port->face->node], port->face->frames, frame, size, self->crossing)
                == ECC_FRAME_TAKEN
            && enters) {
            ret = enter(self, port, arrival_of(self, stamp));
        }
        ecc_live_socket_release(socket);
    }
    return ret;
}

/* ---- what goes out ---- */

/* The port by which a packet leaves: that to the next node, or, behind its last link, that to a host of the kernel. */
static uint32_t
way_out(const ecc_live_t *self, uint32_t port, const unsigned char *bytes)
{
    ecc_crossing_t crossing;

    memcpy(&crossing, bytes, sizeof(crossing));
    if (crossing.flow < self->n_flows && self->flows[crossing.flow].receiver != ECC_LIVE_NO_PORT
        && crossing.hop == self->engines[0]->flows[crossing.flow].spec->n_forward - 1) {
        return self->flows[crossing.flow].receiver;
    }
    return port;
}

/* Packets that leave for the far end of a port wait until they are due. */
static int
take_leaving(ecc_live_t *self, uint32_t index)
{
    const ecc_live_port_t *face = self->ports[index].face;
    ecc_engine_t *engine = self->engines[face->node];
    size_t size = (size_t) ecc_crossing_take_leaving(engine, face->peer, NULL);
    int ret = 0;

    if (size > self->leaving_room) {
        void *block = self->leaving;
        ecc_live_state_release(self, self->leaving_room, 1, block);
        self->leaving_room = 0;
        self->leaving = ecc_live_state_allocate(self, 2 * size, 1);
        if (self->leaving == NULL) {
            return ECC_ERR_NO_MEMORY;
        }
        self->leaving_room = 2 * size;
    }
    (void) ecc_crossing_take_leaving(engine, face->peer, self->leaving);
    for (size_t at = 0; at < size && ret == 0; at += self->crossing_size) {
        ecc_ps_t time;
        memcpy(&time, self->leaving + at, sizeof(time));
        ret = ecc_waiting_push(
            &self->waiting, &self->memory, time, way_out(self, index, self->leaving + at), self->leaving + at);
    }
    return ret;
}

static void
send_port(ecc_live_connection_t *port)
{
    int64_t n = port->socket.n_waiting;
    int64_t n_lost = n > 0 ? ecc_live_socket_send(&port->socket) : 0;

    port->face->sent += n;
    port->face->not_sent += n_lost;
}

/* The frame of a host of the kernel goes on as it came, but for a mark; its length, 0 if it is no longer kept. */
static int64_t
write_foreign(ecc_live_t *self, ecc_live_connection_t *port, const unsigned char *bytes, unsigned char *frame)
{
    ecc_live_port_t *face = port->face;
    const ecc_engine_t *engine = self->engines[face->node];
    size_t size = 0;
    ecc_crossing_t crossing;
    const unsigned char *kept;

    memcpy(&crossing, bytes, sizeof(crossing));
    kept = ecc_foreign_find(&self->flows[face->flow].frames, crossing.offset, &size);
    if (kept == NULL) {
        face->not_sent++;
        return 0;
    }
    memcpy(frame, kept, size);
    if (face->host == ECC_LIVE_RECEIVER && engine->flows[face->flow].can_be_marked) {
        ecc_ecn_t ecn;
        memcpy(&ecn, bytes + sizeof(crossing) + engine->ecn_offset, sizeof(ecn));
        ecc_foreign_set_codepoint(frame, ecn.codepoint);
    }
    count_lateness(self, self->now - crossing.time);
    return (int64_t) size;
}

/*
 * What is due goes out; whether there was anything. At most half of what a ring holds, as the rings of the others fill
 * until they are looked at again: the rest of a burst is for the next turn.
 */
static bool
send_due(ecc_live_t *self)
{
    bool any = false;
    int n_left = ECC_LIVE_SLOTS / 2;

    while (ecc_waiting_first(&self->waiting) <= self->now && n_left-- > 0) {
        uint32_t index;
        const unsigned char *crossing = ecc_waiting_pop(&self->waiting, &index);
        ecc_live_connection_t *port = &self->ports[index];
        unsigned char *space;
        int64_t size;
        if (port->socket.n_waiting == ECC_LIVE_BATCH) {
            send_port(port);
        }
        space = ecc_live_socket_space(&port->socket);
        size = port->face->host != ECC_LIVE_NODE
            ? write_foreign(self, port, crossing, space)
            : ecc_frames_write(self->frames[port->face->node], port->face->frames, crossing, space);
        if (size > 0) {
            ecc_live_socket_append(&port->socket, (size_t) size);
        }
        any = true;
    }
    for (int64_t i = 0; i < self->n_ports && any; i++) {
        send_port(&self->ports[i]);
    }
    return any;
}

/* ---- running ---- */

/* One turn; `any`: whether anything has happened. */
static int
turn(ecc_live_t *self, bool *any)
{
    int ret = 0;

    for (int64_t i = 0; i < self->n_ports && ret == 0; i++) {
        self->failed = self->ports[i].face->node;
        ret = collect(self, &self->ports[i], true);
    }
    for (int64_t i = 0; i < self->n_nodes && ret == 0; i++) {
        int64_t n_before = self->engines[i]->n_events;
        self->failed = i;
        ret = ecc_run_until(self->engines[i], self->now);
        *any = *any || self->engines[i]->n_events > n_before;
    }
    for (int64_t i = 0; i < self->n_ports && ret == 0; i++) {
        self->failed = self->ports[i].face->node;
        ret = self->ports[i].face->host == ECC_LIVE_NODE ? take_leaving(self, (uint32_t) i) : 0;
    }
    *any = send_due(self) || *any;
    return ret;
}

/* Nothing is to be done before the next event: the thread sleeps until shortly before it, or until a frame comes. */
static void
rest(ecc_live_t *self, ecc_ps_t until)
{
    ecc_ps_t next = ecc_waiting_first(&self->waiting);
    double wait;
    int64_t ns;
    struct timespec time;

    next = until < next ? until : next;
    for (int64_t i = 0; i < self->n_nodes; i++) {
        ecc_ps_t of_node = ecc_run_next_event(self->engines[i]);
        next = of_node < next ? of_node : next;
    }
    wait = (double) (next - self->now) * 1e-3 * self->slow - (double) (read_clock(CLOCK_MONOTONIC) - self->looked);
    ns = wait < (double) LONGEST_SLEEP ? (int64_t) wait : LONGEST_SLEEP;
    if (ns > SPIN) {
        time = (struct timespec) { .tv_nsec = ns - SPIN };
        self->may_sleep = ns - SPIN;
        (void) ppoll(self->polled, (nfds_t) self->n_ports, &time, NULL);
    }
}

static int
begin(ecc_live_t *self, ecc_ps_t until)
{
    int ret = 0;

    for (int64_t i = 0; i < self->n_nodes && ret == 0; i++) {
        self->failed = i;
        ret = ecc_run_begin(self->engines[i], until, -1);
    }
    if (self->longest_step > 0 || self->looked == 0) { /* time between calls does not count */
        self->looked = read_clock(CLOCK_MONOTONIC);
    }
    return ret;
}

/* Asks the kernel for the number of frames that found no room. */
static void
count_overruns(ecc_live_t *self)
{
    for (int64_t i = 0; i < self->n_ports; i++) {
        self->ports[i].face->overrun += ecc_live_socket_overrun(&self->ports[i].socket);
    }
}

int
ecc_live_advance(ecc_live_t *self, ecc_ps_t until, int64_t real_time)
{
    int ret = begin(self, until);
    int64_t end = self->looked + real_time;

    while (ret == 0) {
        bool any = false;
        look(self, until);
        ret = turn(self, &any);
        if (ret != 0 || self->now >= until || self->looked >= end) {
            break;
        }
        if (!any) {
            rest(self, until);
        }
    }
    for (int64_t i = 0; i < self->n_nodes; i++) {
        int of_node = ecc_run_end(self->engines[i], i == self->failed ? ret : 0);
        ret = ret == 0 ? of_node : ret;
    }
    count_overruns(self);
    self->stats.now = self->now;
    return ret != 0 ? ECC_STOP_ERROR : self->now >= until ? ECC_STOP_UNTIL : ECC_STOP_MAX_EVENTS;
}

static bool
has_first(const ecc_live_t *self)
{
    for (int64_t i = 0; i < self->n_ports; i++) {
        if (self->ports[i].face->host == ECC_LIVE_NODE && self->ports[i].face->frames->verdicts[ECC_FRAME_TAKEN] > 0) {
            return true;
        }
    }
    return false;
}

int
ecc_live_await(ecc_live_t *self, int64_t real_time)
{
    int64_t end = read_clock(CLOCK_MONOTONIC) + real_time;
    int64_t left = real_time;
    int ret = 0;

    while (ret == 0 && left > 0 && !has_first(self)) {
        struct timespec time = { .tv_nsec = left < LONGEST_SLEEP ? left : LONGEST_SLEEP };
        (void) ppoll(self->polled, (nfds_t) self->n_ports, &time, NULL);
        for (int64_t i = 0; i < self->n_ports && ret == 0; i++) {
            self->failed = self->ports[i].face->node;
            ret = collect(self, &self->ports[i], true);
        }
        left = end - read_clock(CLOCK_MONOTONIC);
    }
    count_overruns(self);
    return ret != 0 ? ECC_STOP_ERROR : has_first(self) ? ECC_STOP_UNTIL : ECC_STOP_MAX_EVENTS;
}

int64_t
ecc_live_settle(ecc_live_t *self)
{
    int64_t begun = read_clock(CLOCK_MONOTONIC);
    int64_t n_missing;

    do {
        n_missing = 0;
        for (int64_t i = 0; i < self->n_ports; i++) {
            const ecc_live_port_t *face = self->ports[i].face;
            (void) collect(self, &self->ports[i], false);
            if (face->host != ECC_LIVE_NODE) { /* what the kernel has got it does not say */
                continue;
            }
            n_missing += face->sent - face->not_sent - face->frames->verdicts[ECC_FRAME_TAKEN];
        }
    } while (n_missing > 0 && read_clock(CLOCK_MONOTONIC) - begun < SETTLING);
    for (int64_t i = 0; i < self->n_ports; i++) {
        n_missing += self->ports[i].face->not_sent;
    }
    return n_missing;
}

void
ecc_live_stats(const ecc_live_t *self, ecc_live_stats_t *stats)
{
    *stats = self->stats;
}
