#ifndef ECC_STATE_H
#define ECC_STATE_H

/* What an engine holds, shared by the files of the engine. */

#include <stdatomic.h>

#include "calendar.h"
#include "engine.h"
#include "errors.h"
#include "exact.h"
#include "impairment.h"
#include "memory.h"
#include "packets.h"
#include "random.h"
#include "ranges.h"
#include "ring.h"

/* Kinds of events; at equal times in this order. Those up to SEND are in the fast calendar, the rest in the slow one. */
enum ecc_kind {
    ECC_DEPARTURE,
    ECC_HOP,
    ECC_ACCESS,
    ECC_ACK,
    ECC_SEND,
    ECC_INTERVAL,
    ECC_START,
    ECC_STOP,
    ECC_TIMER,
    ECC_TIMEOUT,
    ECC_FLUSH,
    ECC_N_KINDS,
    ECC_FIRST_SLOW = ECC_INTERVAL,
    ECC_DROP = ECC_N_KINDS, /* from here on in traces only */
    ECC_LOSS,
    ECC_ACK_LOSS
};

#define ECC_CACHE_LINE 64
#define ECC_MOST_ENTITIES (INT64_C(1) << 28) /* links, or flows and slots */

#define ECC_MOST_BURST 65536 /* packets that one GO sends */
#define ECC_MOST_HASTY 100   /* times in a row that a hook may ask to be called again in less than 1 ps */

/* What a step of the loop returns to stop it without an error. */
#define ECC_PAUSE 1

/* What awaits a packet at the end of a link's wire; the lowest bits of an entry in the table of hops. */
enum ecc_wire_end {
    ECC_END_LINK,  /* another link */
    ECC_END_HOST,  /* a receiver that has something to do; for ACKs, a pure delay that does something to them */
    ECC_END_ECHO,  /* a receiver that sends the ACK straight back */
    ECC_END_SENDER /* for ACKs on reverse links */
};
#define ECC_HOP_END 3u
#define ECC_HOP_IS_ACK 4u
#define ECC_HOP_HEADER 8u /* its flow has header_bytes, and this is no ACK */
#define ECC_HOP_LINK 4    /* the link is above this bit */

enum ecc_link_hook {
    ECC_LINK_ON_START,
    ECC_LINK_ON_ARRIVAL,
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
    ECC_FLOW_ON_STOP
};

__extension__ typedef __int128 ecc_wide_t;

/* A link and its first router; of a further router, only what is marked so is used. */
typedef struct {
    ecc_ring_t ring; /* the queue, the packet in service first */
    ecc_bytes_t queue;
    ecc_ps_t free_at;       /* when the last bit in the queue leaves it */
    ecc_bytes_t most_bytes; /* that the queue holds */
    int64_t most_packets;
    ecc_bytes_t queue_peak;
    ecc_bytes_t queue_low; /* of a router */
    ecc_fifo_t wire;
    uint32_t next;      /* router at this link, 0: no other */
    bool departs;       /* one of them has on_departure, or there is an impairment */
    bool measures;      /* what follows is kept */
    ecc_wide_t area;    /* sum of queue * ps since the last sample, up to ... */
    ecc_ps_t measured;  /* ... this time */
    int64_t *histogram; /* times by bin, then arrivals; or NULL */
    int64_t arrived;
    int64_t dropped;
    int64_t dropped_bytes;
    int64_t tx_size[2];       /* last size seen of data and of ACKs (0 if the capacity changes) ... */
    ecc_ps_t tx_time[2];      /* ... and what it takes */
    double next_interval;     /* of a router */
    uint32_t n_hasty;         /* of a router: INTERVALs in a row that on_interval wanted in less than 1 ps */
    uint64_t random;          /* of a router */
    ecc_link_t is;            /* of a router: at, header_offset, state, params, hooks and wishes */
    ecc_impaired_t *impaired; /* or NULL */
    int64_t lost;
    int64_t lost_bytes;
    const ecc_change_t *changes; /* of the capacity, or NULL */
    double told;                 /* the last of them that was > 0, up to next_change */
    uint32_t n_changes;
    uint32_t next_change; /* the first after now ... */
    uint32_t next_served; /* ... and the first after free_at */
    struct {
        int64_t arrived;
        int64_t departed;
        int64_t departed_bytes;
    } count; /* packets and bytes, by debug builds, for ecc_engine_verify */
} ecc_link_state_t;

#define ECC_MOST_HOLES 3

/* Offsets between two packets that have come. */
typedef struct {
    int64_t begin;
    int64_t end;
    int64_t missing; /* bytes */
    uint32_t passed; /* by packets from beyond it */
} ecc_hole_t;

/* See receiver.h; names as in the text. */
typedef struct {
    int64_t next;
    int64_t front;
    int64_t missing;
    int64_t base;  /* the sender's */
    int64_t known; /* the sender's */
    int64_t acks_lost;
    int64_t n_kept;
    uint32_t patience;
    uint32_t kept; /* the packet that waits for the next, or ECC_NO_PACKET */
    uint32_t n_holes;
    ecc_hole_t holes[ECC_MOST_HOLES];
    ecc_impaired_t impaired; /* the pure delay of its ACKs, if the flow has an impairment */
} ecc_receiver_t;

/* What an ACK of such a receiver says; it follows the header, and in runs with SACK so many ranges follow it. */
typedef struct {
    int64_t front; /* of a transport: ack */
    int64_t missing;
} ecc_news_t;

#define ECC_MOST_SACKS 3

enum ecc_transport_kind { ECC_TRANSPORT_NONE, ECC_TRANSPORT_CUMULATIVE, ECC_TRANSPORT_SACK };

/* See transport.h; names as in the text. */
typedef struct {
    int64_t una;
    int64_t top;
    int64_t gone;
    int64_t again;
    int64_t recover;
    int64_t rescue;
    int64_t before;
    int64_t left;   /* SACK: sacked(una, again) */
    int64_t window; /* of the receiver */
    double rttvar;
    ecc_ranges_t sacked;
    ecc_ranges_t held;              /* by the receiver, whose `next` is the flow's `received` ... */
    int64_t places[ECC_MOST_SACKS]; /* ... and these places too */
    uint8_t n_places;
    uint8_t n_duplicates; /* as far as they matter */
    bool is_partial;      /* there was a partial ACK in this recovery */
    bool sacks;
    bool recovering;
    bool recovered;
    bool urgent;
} ecc_transport_t;

/* Four cache lines; a packet touches the first three. */
typedef struct {
    _Alignas(ECC_CACHE_LINE) ecc_fifo_t acks;
    ecc_fifo_t access;
    int64_t sent;
    int64_t expected;
    int64_t lost;
    ecc_ps_t last;
    ecc_ps_t gap;
    uint32_t counted; /* last packet among `acks` that is counted as received; ECC_NO_PACKET: none of them is */
    bool active;
    bool changed;    /* rate or window, since the last look at what may be sent */
    bool timed : 1;  /* a TIMEOUT is pending */
    bool echoes : 1; /* the receiver silently sends ACKs straight back */
    uint8_t n_hasty; /* TIMERs in a row that on_timer wanted in less than 1 ps */

    _Alignas(ECC_CACHE_LINE) double rate;
    double window;
    double rtt;
    double srtt;
    double min_rtt;
    ecc_ps_t heard;
    int64_t received;
    int32_t last_size; /* header_bytes included; 0 before any */
    uint32_t position; /* of the first link, in the table of hops */

    _Alignas(ECC_CACHE_LINE) void *state;
    void *params;
    ecc_hook_t on_send;
    ecc_hook_t on_ack;
    ecc_ps_t access_delay;
    ecc_ps_t ack_delay;
    int64_t size;
    int32_t packet_size;
    bool wants_random : 1;
    bool started : 1; /* of a transfer: it is not over */
    bool completed : 1;
    bool draws_sizes : 1;
    bool has_header_bytes : 1;
    bool counts : 1;    /* the receiver does, see receiver.h */
    bool late : 1;      /* its ACKs are in the heap of its impairment */
    bool repairs : 1;   /* it has a transport, see transport.h */
    uint8_t n_timeouts; /* since the last ACK, as far as they matter */
    uint16_t header_offset;

    _Alignas(ECC_CACHE_LINE) const ecc_flow_t *is;
    ecc_ps_t start;
    ecc_ps_t finish;
    uint64_t random;
    uint64_t random_sizes;
    int64_t number;     /* of the flow; of a transfer n_flows and those before it */
    int32_t full_size;  /* of packets once the opening is over */
    uint32_t n_packets; /* in the network; kept for transfers only */
    union {
        uint32_t follower; /* of a transfer: place of the one that follows it, or ECC_NO_FOLLOWER */
        uint32_t unused;   /* of a free slot: the one that was freed before it */
    };
    uint32_t kind; /* template of a transfer */
} ecc_flow_state_t;

typedef struct {
    ecc_flow_t is;
    uint32_t position; /* of its links, in the table of hops */
    uint32_t length;
} ecc_template_t;

#define ECC_NO_FOLLOWER UINT32_MAX

/* A transfer that waits for its start, or for the one that it follows. */
typedef struct {
    ecc_transfer_t is;
    int64_t number;
    uint32_t follower; /* place of the one that follows it, or ECC_NO_FOLLOWER; of an unused place: the next such */
} ecc_waiting_t;

/* Transfers: those that wait, slots for those alive, results of those that are over. */
typedef struct {
    ecc_template_t *templates;
    ecc_waiting_t *waiting;
    ecc_waiting_t *followers;
    ecc_transfer_result_t *over;
    unsigned char *records; /* of the slots */
    size_t record_size;
    uint32_t n_templates;
    uint32_t longest;   /* links of a template's routes */
    uint32_t first_hop; /* of the first slot */
    uint32_t n_slots;   /* in use or used before */
    uint32_t n_alive;
    uint32_t unused;      /* slot freed last */
    uint32_t n_followers; /* places in use or used before */
    uint32_t unused_follower;
    size_t room_followers;
    size_t n_waiting;
    size_t n_taken; /* of those waiting that have started */
    size_t room_waiting;
    size_t n_over;
    size_t room_over;
    size_t room_records;
    int64_t n_handed;
    int64_t n_started;
    ecc_ps_t last_start;
    bool more;
} ecc_pool_t;

struct ecc_engine {
    ecc_ps_t now;
    ecc_calendar_t fast;
    ecc_calendar_t slow;
    uint32_t
        base[ECC_N_KINDS]; /* number of the first node of a kind, in its calendar; after the STARTs of the flows there
                                   is that of the next transfer, then, by slot, those of what follows */
    ecc_packets_t packets;
    ecc_pool_t pool;
    ecc_link_state_t *links;
    ecc_flow_state_t *flows;
    void *flows_block; /* the memory of flows, not aligned */
    ecc_flow_t *flow_specs;
    uint32_t *hops;                /* link, direction and end of the wire of every position of every route */
    int64_t *flow_queues;          /* bytes queued at every position, NULL if nobody asked */
    ecc_change_t *changes;         /* of the capacities of all links */
    ecc_impairment_t *impairments; /* as the caller described them */
    ecc_impaired_t *impaired;      /* wires, by link; NULL if none is */
    ecc_receiver_t *receivers;     /* by flow; NULL if none counts */
    ecc_transport_t *transports;   /* by flow; NULL if none has one */
    size_t n_changes;
    size_t n_impairments;
    size_t n_receivers;
    size_t n_transports;
    int64_t acked; /* by the ACK that on_ack hears of */
    bool wants_receivers;
    bool wants_transports;
    bool wants_stops;       /* there are nodes for STOPs ... */
    bool wants_timers;      /* ... and TIMERs */
    unsigned char *scratch; /* header for hooks that have no packet */
    size_t header_size;
    uint64_t digest;
    int64_t n_events;
    _Atomic int64_t last_event; /* of this slice; packets sent by GO bring it nearer */
    int64_t n_received;
    ecc_link_env_t link_env;
    ecc_flow_env_t flow_env;
    ecc_event_t *trace;
    int64_t trace_room;
    int64_t n_traced;
    ecc_samples_t samples;
    int64_t n_sampled;
    ecc_ps_t next_sample;
    uint32_t n_links;
    uint32_t n_routers; /* the first of each link included */
    uint32_t n_flows;
    uint32_t room; /* flows and slots that there is memory for */
    bool wants_flow_queues;
    uint64_t seed;
    size_t n_hops;
    size_t n_flow_queues;
    int64_t stop;
    ecc_report_t report;
    ecc_memory_t memory;
};

/* What debug builds do for ecc_engine_verify. */
#ifdef NDEBUG
#define ECC_DEBUG(statement) ((void) 0)
#else
#define ECC_DEBUG(statement) statement
#endif

static inline double
ecc_state_seconds(ecc_ps_t time)
{
    return (double) time * 1e-12;
}

/* Rounds picoseconds in floating point to the clock. */
static inline ecc_ps_t
ecc_state_round(double ps)
{
    ps += 0.5;
    return ps < 4e18 ? (ecc_ps_t) ps : ECC_NEVER; /* truncation is floor: ps > 0 */
}

/* ps(s) of the text, for s >= 0. */
static inline ecc_ps_t
ecc_state_ps(double seconds)
{
    return ecc_state_round(seconds * 1e12);
}

/* tx(size, rate) of the text. */
static inline ecc_ps_t
ecc_state_tx(int64_t size, double rate)
{
    ecc_ps_t time = ecc_state_round((double) size * 8.0 / rate * 1e12);
    return time < 1 ? 1 : time;
}

/* A sum of times, none above ECC_NEVER. */
static inline ecc_ps_t
ecc_state_add(ecc_ps_t a, ecc_ps_t b)
{
    ecc_ps_t sum = a + b;
    return sum < ECC_NEVER ? sum : ECC_NEVER;
}

static inline void
ecc_state_trace(ecc_engine_t *self, int64_t kind, uint32_t entity, int64_t value)
{
    if (self->trace != NULL) {
        if (self->n_traced < self->trace_room) {
            self->trace[self->n_traced] = (ecc_event_t) { self->now, kind, entity, value };
        }
        self->n_traced++;
    }
}

static inline int64_t
ecc_state_in_flight(const ecc_flow_state_t *flow)
{
    return flow->sent - flow->expected;
}

/* What an ACK says; the ranges of SACK are behind it. */
static inline ecc_news_t *
ecc_state_news(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return (ecc_news_t *) (void *) ((unsigned char *) ecc_packets_header(packet) + self->header_size);
}

/* Notes what went wrong and hands the code on. */
static inline int
ecc_state_fail(ecc_engine_t *self, int code, int64_t of, int64_t index, int64_t hook, double value)
{
    self->report = (ecc_report_t) { code, of, index, hook, self->now, value, 0 };
    return code;
}

#define ECC_OF_NOBODY 0
#define ECC_OF_LINK 1
#define ECC_OF_FLOW 2
#define ECC_OF_TRANSFER 3
#define ECC_NO_HOOK (-1)

#endif
