#ifndef ECC_STATE_H
#define ECC_STATE_H

/*
 * The life of a packet, with the events in which it moves:
 *
 *   sender                      each link of the route                   receiver
 *
 *   TRY-SEND, EMIT  --ACCESS->  arrive, queue  --DEPARTURE->  wire  --HOP->  receive: ACK
 *      ^    (SEND)   access        |                           |                |
 *      |              line         +--> dropped: discarded     +--> lost        |
 *      |                                                                        |
 *      +--ACK--  pure delay  <--HOP--  wire  <--DEPARTURE--  reverse links  <---+
 *
 * In TRY-SEND a flow sends if its window and its data allow it: at once without a rate, else at the SEND that its
 * pacer sets (S-52). EMIT makes the packet, calls on_send, and puts it on the access line, at whose end is ACCESS
 * (S-54).
 *
 * At a link the packet arrives (S-23): hooks may mark, trim or drop it, a full buffer drops it, else it joins the
 * queue. The time of its departure is known then (S-25), unless the link schedules (S-112). DEPARTURE is an event only
 * if a hook or an impairment can observe it (S-29); otherwise the packet is put on the wire when it arrives, for the
 * time at which it will reach the end. There, HOP is its arrival at the next link or the receiver (S-31, S-32).
 *
 * At the receiver the packet becomes an ACK, in the same memory (S-32). It returns over reverse links, if the flow has
 * any, and then through a pure delay. If nothing can be observed between the last wire and the sender, ACK is the only
 * event (S-33, S-34). At ACK the sender measures the RTT, counts acknowledged and lost bytes, calls its hooks,
 * releases the packet, and tries to send again (S-46). A packet that is dropped or lost is released at once: its
 * sender infers the loss from later ACKs or from a TIMEOUT (S-48, S-50).
 *
 * Here are the record of the engine, which all its files share, and the few functions that all of them need: traces
 * and reports. The records of links and flows are in link_state.h and flow_state.h, the moves of packets in path.h.
 */

#include <stdatomic.h>

#include "core/calendar.h"
#include "core/channel.h"
#include "core/clock.h"
#include "core/engine.h"
#include "core/errors.h"
#include "core/exact.h"
#include "core/flow_state.h"
#include "core/link_state.h"
#include "core/memory.h"
#include "core/packets.h"
#include "core/random.h"
#include "core/ranges.h"
#include "core/ring.h"
#include "core/sacks.h"
#include "core/slots.h"

#define ECC_N_EVENT_KINDS (ECC_EVENT_FLUSH + 1) /* kinds that are events; the others are in traces only */
#define ECC_FIRST_SLOW_EVENT ECC_EVENT_INTERVAL /* first kind of the slow calendar, after the fast ones */

#define ECC_MAX_ENTITIES (INT64_C(1) << 28) /* maximum number of links, and of flows and slots */

#define ECC_MAX_BURST 65536 /* packets that one TRY-SEND emits at most (S-53) */
#define ECC_MAX_ZERO_WAITS \
    100 /* times in a row that a hook may ask to be called again in less than 1 ps (S-36, S-49) */

/* Return value of a step of the loop that stops it without an error. */
#define ECC_NEEDS_TRANSFERS 1

/* The end of the wire of a link on a route: the lowest bits of an entry in the table of hops. */
enum ecc_wire_end {
    ECC_END_LINK,          /* another link */
    ECC_END_HOST,          /* a receiver that needs an event; for ACKs, a pure delay that needs one */
    ECC_END_IMMEDIATE_ACK, /* a receiver that needs no event: the event is that of the ACK */
    ECC_END_SENDER         /* the sender, for ACKs on reverse links */
};
#define ECC_HOP_END 3u
#define ECC_HOP_IS_ACK 4u
#define ECC_HOP_HEADER 8u /* its flow has header_bytes, and it is not on the way of ACKs */
#define ECC_HOP_LINK 4    /* lowest bit of the link */

enum ecc_link_hook {
    ECC_LINK_ON_START,
    ECC_LINK_ON_CLASSIFY,
    ECC_LINK_ON_ARRIVAL,
    ECC_LINK_ON_SELECT,
    ECC_LINK_ON_DEQUEUE,
    ECC_LINK_ON_DEPARTURE,
    ECC_LINK_ON_DROP,
    ECC_LINK_ON_INTERVAL
};
enum ecc_flow_hook {
    ECC_FLOW_ON_START,
    ECC_FLOW_ON_SEND,
    ECC_FLOW_ON_RECEIVE,
    ECC_FLOW_ON_ACK,
    ECC_FLOW_ON_LOSS,
    ECC_FLOW_ON_TIMER,
    ECC_FLOW_ON_STOP,
    ECC_FLOW_ON_COUNT,
    ECC_FLOW_ON_CONTROL,
    ECC_FLOW_ON_RESTART,
    ECC_FLOW_ON_REPORT
};
#define ECC_NO_HOOK (-1)

/* A packet as hooks see it; for hooks without a packet (S-101), a header of zeros. */
typedef struct {
    unsigned char *header;
    int64_t size;      /* bytes */
    int64_t flow;      /* index of its flow, or -1 without one */
    int64_t kind;      /* enum ecc_packet_kind, or as the hook defines it */
    uint32_t position; /* position in the table of hops */
} ecc_hook_packet_t;

typedef struct ecc_cut ecc_cut_t; /* see cut.h */

#define ECC_N_AHEAD 32u

/* Events that have been looked at before they happen (ahead.h). */
typedef struct {
    uint32_t nodes[ECC_N_AHEAD]; /* nodes of the last events looked at: those from `first` to `end` modulo its size */
    ecc_ps_t times[ECC_N_AHEAD]; /* times of these events */
    uint64_t day;                /* day of the last event looked at, or a later day without one */
    uint32_t first;
    uint32_t end;
    bool is_on;
    size_t state_size; /* bytes of the record of a flow, as far as they are fetched */
} ecc_ahead_t;

struct ecc_engine {
    ecc_ps_t now;
    ecc_calendar_t fast;
    ecc_calendar_t slow;
    /* number of the first node of a kind, in its calendar; after the STARTs of the flows there is that of the next
       transfer, then, by slot, those of subsequent ones */
    uint32_t base[ECC_N_EVENT_KINDS];
    ecc_ahead_t ahead;
    ecc_packets_t packets;
    ecc_sacks_t sacks;
    ecc_transfers_t transfers;
    ecc_link_state_t *links;
    ecc_flow_state_t *flows;
    void *links_block; /* memory of links, not aligned */
    void *flows_block; /* memory of flows, not aligned */
    ecc_flow_t *flow_specs;
    uint32_t *hops;                    /* link, direction and end of the wire of every position of every route */
    int64_t *flow_queues;              /* bytes queued at every position; NULL if no router needs them */
    ecc_rtts_t *rtts;                  /* RTTs of the first n_rtts flows */
    ecc_monitor_t *monitors;           /* monitor intervals, in the order of their flows; NULL without any */
    uint32_t *monitor_of;              /* for the first n_rtts flows: number of the monitor, from 1; 0: not monitored */
    ecc_change_t *changes;             /* changes of the capacities of all links */
    ecc_impairment_t *impairments;     /* impairments of the configuration */
    ecc_write_t *writes;               /* writes of all flows at their own times */
    ecc_delay_change_t *delay_changes; /* changes of the delays of all impairments */
    ecc_queue_t *queues;               /* queues of all links that schedule; NULL: no link schedules */
    ecc_channel_t *channels;           /* wires by link; NULL without impairments */
    ecc_receiver_t *receivers;         /* receivers by flow; NULL if no flow needs one */
    ecc_hole_t *holes;                 /* holes: max_holes entries for each receiver */
    ecc_spray_t *sprays;               /* routes by flow; NULL if no flow has several */
    ecc_pause_t *pauses;               /* PFC by link; NULL if no link can be paused */
    ecc_server_state_t *servers;       /* servers by link; NULL if all links are served by their capacities */
    ecc_ps_t *opportunities;           /* opportunities of all servers */
    ecc_transport_t *transports;       /* transports by flow; NULL if no flow has one */
    ecc_rack_t *racks;                 /* RACK-TLP by flow; NULL if no flow has it */
    ecc_quic_t *quics;                 /* QUIC's loss recovery by flow; NULL if no flow has it */
    ecc_pacer_t *pacers;               /* pacers of windows by flow; NULL if no flow has one */
    ecc_prr_t *prrs;                   /* proportional rate reduction by flow; NULL if no flow uses it */
    ecc_alarms_t *alarms;              /* timers and counts by flow; NULL if no flow has any */
    ecc_phase_t *phases;               /* phases by flow; NULL if no flow has one */
    ecc_phase_t *link_phases;          /* phases by link; NULL if no link has one */
    ecc_begun_t *begun;                /* flows that have begun, before the first event; else NULL */
    ecc_under_way_t *under_way;        /* packets under way, before the first event; else NULL */
    size_t n_changes;
    size_t n_under_way;
    size_t n_impairments;
    size_t n_delay_changes;
    size_t n_writes;
    size_t n_queues;
    size_t n_receivers;
    size_t n_holes;
    size_t n_sprays;
    size_t n_servers;
    size_t n_opportunities;
    size_t n_transports;
    size_t n_racks;
    size_t n_quics;
    size_t n_pacers;
    size_t n_prrs;
    size_t n_alarms;
    size_t n_phases;
    size_t n_link_phases;
    uint32_t max_holes; /* maximum number of holes of a receiver: the maximum reordering threshold */
    int64_t acked;      /* bytes newly acknowledged, for the on_ack that is called */
    double idle;        /* idle time, for the on_restart that is called (S-177), else 0 */
    double rto;         /* retransmission timeout, for the on_restart that is called, else 0 */
    int64_t marked;     /* bytes newly reported as marked, for the hook that is called */
    int64_t ece;        /* 1 if the ACK carries ECE, for the on_ack that is called */
    bool wants_receivers;
    bool wants_transports;
    bool wants_racks;
    bool wants_quics;
    bool wants_pacers;
    bool wants_prrs;
    bool wants_alarms;
    bool wants_phases;
    bool wants_stops;       /* STOPs have nodes */
    bool wants_timers;      /* TIMERs have nodes */
    unsigned char *scratch; /* header for hooks that have no packet */
    size_t header_size;     /* bytes of a header, with a word for ecc_ecn_t if packets of some flow can be marked */
    size_t ecn_offset;      /* offset of the word for ecc_ecn_t */
    bool wants_ecn;
    bool wants_acks; /* packets have ecc_ack_info_t */
    bool wants_sack; /* packets have SACK blocks */
    uint64_t digest;
    int64_t n_events;
    ecc_cut_t *cut;             /* NULL: this engine runs the whole network */
    _Atomic int64_t last_event; /* last event of this slice; packets emitted by TRY-SEND bring it nearer */
    int64_t n_received;
    ecc_link_env_t link_env;
    ecc_flow_env_t flow_env;
    ecc_event_t *trace;
    int64_t trace_room;
    int64_t n_traced;
    ecc_samples_t samples;
    int64_t n_sampled;
    ecc_ps_t next_sample;
    uint32_t n_priorities; /* number of priorities of flows if links can be paused, else 0 */
    uint32_t n_links;
    uint32_t n_routers; /* routers, including the first of each link */
    uint32_t n_flows;
    uint32_t room; /* flows and slots for which there is memory */
    bool wants_flow_queues;
    uint64_t seed;
    size_t n_hops;
    size_t n_flow_queues;
    uint32_t n_rtts; /* flows up to the last one whose RTTs are in samples or that is monitored */
    size_t n_monitors;
    bool lacks_memory; /* a monitor could not grow: the run ends with a failure */
    int64_t stop;      /* enum ecc_stop */
    ecc_report_t report;
    ecc_memory_t memory;
};

/* A statement of debug builds, for ecc_engine_verify. */
#ifdef NDEBUG
#define ECC_DEBUG(statement) ((void) 0)
#else
#define ECC_DEBUG(statement) statement
#endif

/* S-10: the number of a flow in events and hooks. */
static inline int64_t
ecc_state_number(const ecc_engine_t *self, uint32_t flow)
{
    return flow < self->n_flows ? (int64_t) flow : self->flows[flow].number;
}

/* S-12, S-13: a record of the trace, if one is kept. */
static inline void
ecc_state_trace(ecc_engine_t *self, int64_t kind, int64_t entity, int64_t value)
{
    if (self->trace != NULL) {
        if (self->n_traced < self->trace_room) {
            self->trace[self->n_traced] = (ecc_event_t) { self->now, kind, entity, value };
        }
        self->n_traced++;
    }
}

/* S-12, S-13: a record of the trace for an event of a flow. */
static inline void
ecc_state_trace_flow(ecc_engine_t *self, int64_t kind, uint32_t flow, int64_t value)
{
    if (self->trace != NULL) {
        ecc_state_trace(self, kind, ecc_state_number(self, flow), value);
    }
}

#define ECC_NO_END (INT64_C(1) << 62) /* bytes of a flow without end */

/* Number of the writes at their own times that a flow has made by a time. */
static inline int64_t
ecc_state_n_writes(const ecc_engine_t *self, const ecc_flow_state_t *flow, ecc_ps_t now)
{
    int64_t lo = 0;
    int64_t hi = flow->spec->n_writes;

    while (lo < hi) {
        int64_t k = lo + (hi - lo) / 2;
        if (ecc_clock_add(flow->start, self->writes[flow->spec->first_write + k].time) <= now) {
            lo = k + 1;
        } else {
            hi = k;
        }
    }
    return lo;
}

/* S-161: bytes that the application of a started flow has written by a time. */
static inline int64_t
ecc_state_written(const ecc_engine_t *self, const ecc_flow_state_t *flow, ecc_ps_t now)
{
    int64_t most = flow->size < 0 ? ECC_NO_END : flow->size;
    int64_t n;

    if (!flow->has_writes) {
        return most;
    }
    if (flow->spec->n_writes > 0) {
        n = ecc_state_n_writes(self, flow, now);
        n = n > 0 ? self->writes[flow->spec->first_write + n - 1].total : 0;
        return n < most ? n : most;
    }
    n = now < flow->start ? 0 : 1 + (now - flow->start) / flow->spec->write_period;
    return n >= most / flow->spec->write_size + 1 ? most : n * flow->spec->write_size;
}

/*
 * S-162: written bytes that were sent for the first time; an endless flow without transport never repeats lost bytes.
 */
static inline int64_t
ecc_state_taken(const ecc_flow_state_t *flow)
{
    return flow->reliable || flow->size >= 0 ? flow->sent - flow->lost : flow->sent;
}

static inline int64_t
ecc_state_in_flight(const ecc_flow_state_t *flow)
{
    return flow->sent - flow->expected;
}

/* The report of an ACK. */
static inline ecc_ack_info_t *
ecc_state_ack_info(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return (ecc_ack_info_t *) (void *) ((unsigned char *) ecc_packets_header(packet) + self->header_size);
}

/* ECN of a packet, in runs with ECN. */
static inline ecc_ecn_t
ecc_state_ecn(const ecc_engine_t *self, const unsigned char *header)
{
    uint64_t word = *(const uint64_t *) (const void *) (header + self->ecn_offset);

    return (ecc_ecn_t) { (int64_t) (word & 3), (int64_t) (word >> 2) };
}

static inline void
ecc_state_set_ecn(const ecc_engine_t *self, unsigned char *header, ecc_ecn_t ecn)
{
    *(uint64_t *) (void *) (header + self->ecn_offset) = (uint64_t) ecn.word << 2 | (uint64_t) ecn.codepoint;
}

/* S-41: the full size of the next packet of a flow. */
static inline int32_t
ecc_state_full_size(ecc_flow_state_t *flow)
{
    const ecc_flow_t *spec = flow->spec;

    return (int32_t) (flow->draws_sizes
            ? ecc_random_between(&flow->random_sizes, spec->packet_size, spec->packet_size_max)
            : spec->packet_size);
}

/* S-101: packet_size of hooks without a packet. */
static inline int64_t
ecc_state_largest_size(const ecc_flow_state_t *flow)
{
    bool opening = flow->srtt == 0.0 && flow->spec->opening_size > 0;

    return flow->draws_sizes && !opening ? flow->spec->packet_size_max : flow->packet_size;
}

/* Notes what failed and returns the code. */
static inline int
ecc_state_fail(ecc_engine_t *self, int code, int64_t entity, int64_t index, int64_t hook, double value)
{
    self->report = (ecc_report_t) { code, entity, index, hook, self->now, value, 0 };
    return code;
}

/* Notes what failed at a flow, or at the transfer in its slot, and returns the code. */
int ecc_state_fail_flow(ecc_engine_t *self, int code, uint32_t flow, int hook, double value);

/* Releases the memory of a packet and of the SACK blocks that it carries. */
void ecc_state_release(ecc_engine_t *self, uint32_t packet);

#endif
