#ifndef ECC_STATE_H
#define ECC_STATE_H

/*
 * What an engine holds, shared by all its files: links, receivers, transports, flows, transfers, and the engine itself.
 *
 * Only records, and the few functions that all files need: conversions of time (S-3 to S-5), traces, and reports. What
 * happens to the records is in the file of each: link.c, scheduler.c, router.c, channel.c, flow.c, sender.c, transport.c,
 * rack.c, receiver.c, alarms.c, transfers.c, server.c; tables.c grows the arrays by flow.
 */

#include <stdatomic.h>

#include "core/calendar.h"
#include "core/channel.h"
#include "core/clock.h"
#include "core/engine.h"
#include "core/errors.h"
#include "core/exact.h"
#include "core/memory.h"
#include "core/packets.h"
#include "core/random.h"
#include "core/ranges.h"
#include "core/ring.h"
#include "core/sacks.h"
#include "core/slots.h"

#define ECC_N_EVENT_KINDS (ECC_EVENT_FLUSH + 1) /* that are events; the rest is in traces only */
#define ECC_FIRST_SLOW_EVENT ECC_EVENT_INTERVAL /* kinds before it are in the fast calendar, the rest in the slow one */

#define ECC_MAX_ENTITIES (INT64_C(1) << 28) /* links, or flows and slots */

#define ECC_MAX_BURST 65536 /* packets that one TRY-SEND emits (S-53) */
#define ECC_MAX_ZERO_WAITS \
    100 /* times in a row that a hook may ask to be called again in less than 1 ps (S-36, S-49) */

/* What a step of the loop returns to stop it without an error. */
#define ECC_NEEDS_TRANSFERS 1

/* What follows the wire of a link on a route; the lowest bits of an entry in the table of hops. */
enum ecc_wire_end {
    ECC_END_LINK,          /* another link */
    ECC_END_HOST,          /* a receiver that needs an event; for ACKs, a pure delay that needs one */
    ECC_END_IMMEDIATE_ACK, /* a receiver that needs none: the event is that of the ACK */
    ECC_END_SENDER         /* for ACKs on reverse links */
};
#define ECC_HOP_END 3u
#define ECC_HOP_IS_ACK 4u
#define ECC_HOP_HEADER 8u /* its flow has header_bytes, and this is no ACK */
#define ECC_HOP_LINK 4    /* the link is above this bit */

enum ecc_link_hook {
    ECC_LINK_ON_START,
    ECC_LINK_ON_CLASSIFY,
    ECC_LINK_ON_ARRIVAL,
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
    ECC_FLOW_ON_RESTART
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

__extension__ typedef __int128 ecc_wide_t;

/* One of the queues of a link that schedules (S-112); see scheduler.h. */
typedef struct {
    ecc_fifo_t packets;  /* that wait; each with the time at which the next one arrived ... */
    ecc_ps_t since;      /* ... and this of the first */
    ecc_bytes_t bytes;   /* those of the packet in service included */
    ecc_bytes_t quantum; /* what it may send in a turn ... */
    ecc_bytes_t deficit; /* ... and may still send in this one */
    int64_t dropped;     /* packets */
    int64_t marked;      /* packets */
    uint32_t next;       /* queue that has its turn after this one, or ECC_NO_PACKET */
    bool is_active;      /* it will have a turn */
} ecc_queue_t;

/* Of a link that schedules by turns: queues that were empty (RFC 8290: new), then the others. */
enum ecc_round { ECC_ROUND_NEW, ECC_ROUND_OLD, ECC_N_ROUNDS };

/*
 * A link and its first router; of an additional router, only the fields marked "router" are used. A packet touches the
 * first two cache lines, a hook the third; what is in spec as well is there so that neither needs more.
 */
typedef struct {
    _Alignas(ECC_CACHE_LINE) ecc_ring_t ring; /* the queue, that in service first; if it schedules: only that */
    ecc_bytes_t queue;
    ecc_ps_t free_at; /* when the last bit in the queue leaves it */
    ecc_fifo_t wire;
    ecc_bytes_t max_bytes;     /* that the queue holds; INT64_MAX: any */
    uint32_t next;             /* router at this link, 0: no other */
    bool has_departure_events; /* a router has on_departure, there is an impairment, or it schedules */
    bool measures_queue;       /* area and histogram are kept */
    bool schedules;            /* it has queues */
    bool has_changes : 1;      /* of its capacity */
    bool is_plain : 1;         /* it has nothing that most links lack (ecc_link_set_plain) */

    _Alignas(ECC_CACHE_LINE) ecc_ps_t tx_time[3]; /* by enum ecc_packet_kind: transmission time ... */
    int32_t tx_size[3];                           /* ... of the last size seen (0 if the capacity changes) */
    uint32_t max_packets;                         /* that the queue holds */
    ecc_ps_t delay;                               /* of the wire */
    int64_t arrived;
    ecc_bytes_t queue_peak;

    _Alignas(ECC_CACHE_LINE) ecc_bytes_t queue_low; /* router */
    double next_interval;                           /* router */
    void *state;                                    /* router */
    void *params;                                   /* router */
    ecc_hook_t on_arrival;                          /* router */
    double capacity;                                /* before any change */
    ecc_bytes_t buffer;                             /* as hooks see it: max_bytes, or -1 if that is any */
    uint16_t header_offset;                         /* router */
    bool wants_flow_queue;                          /* router */
    bool wants_random;                              /* router */
    uint32_t queue_index;                           /* of the packet that hooks are called for ... */

    _Alignas(ECC_CACHE_LINE) ecc_ps_t sojourn; /* ... and how long it has waited, where they may know */
    ecc_queue_t *queues;                       /* of a link that schedules, else NULL */
    ecc_fifo_t rounds[ECC_N_ROUNDS];           /* of queues */
    uint32_t n_queues;
    uint32_t n_waiting;      /* packets in them */
    uint32_t in_service;     /* queue of the packet in service */
    uint32_t n_zero_waits;   /* router: INTERVALs in a row that on_interval wanted in less than 1 ps */
    ecc_wide_t area;         /* sum of queue * ps since the last sample, up to ... */
    ecc_ps_t measured_until; /* ... this time */
    int64_t *histogram;      /* times by bin, then arrivals; or NULL */
    int64_t dropped;
    int64_t dropped_bytes;
    int64_t marked;
    uint64_t random;        /* router */
    ecc_link_t spec;        /* router: at and hooks */
    ecc_channel_t *channel; /* impairment of the wire, or NULL */
    int64_t lost;
    int64_t lost_bytes;
    const ecc_change_t *changes; /* of the capacity, or NULL */
    double advertised_capacity;  /* the last of them that was > 0, up to next_change */
    uint32_t n_changes;
    uint32_t next_change; /* the first after now ... */
    uint32_t next_served; /* ... and the first after free_at */
    struct {
        int64_t arrived;
        int64_t departed;
        int64_t departed_bytes;
    } count; /* packets and bytes, by debug builds, for ecc_engine_verify */
} ecc_link_state_t;

/* What PFC knows of a link and a class (S-139); see pause.h. */
typedef struct {
    ecc_bytes_t held;    /* that came over the link, in queues behind it */
    ecc_bytes_t counted; /* the same, for ecc_pause_verify */
    ecc_ps_t since;      /* when it was paused last ... */
    ecc_ps_t time;       /* ... and how long before */
    int64_t count;       /* PAUSE frames that it was sent */
    bool asked;          /* the last frame sent was PAUSE ... */
    bool is_paused;      /* ... and the last that came */
} ecc_pause_class_t;

typedef struct {
    ecc_ring_t frames; /* on their way to the link: `leaves` when they come, `of` the class, `size` 1: PAUSE */
    ecc_pause_class_t classes[ECC_N_PRIORITIES];
    uint32_t next;  /* of a list, while deadlocks are looked for ... */
    bool is_moving; /* ... of links that may yet serve */
} ecc_pause_t;

/* How a link is served (S-155); see server.h. */
typedef struct {
    ecc_server_t spec;
    const ecc_ps_t *opportunities; /* n_opportunities */
    ecc_ps_t done;                 /* when the last packet was transmitted, whose slot may be later */
    ecc_ps_t full_at;              /* when the bucket is full */
    ecc_ps_t base;                 /* when this repetition of the opportunities began ... */
    uint32_t next;                 /* ... of which this is the next */
    ecc_ps_t opportunity;          /* the last one that was reached ... */
    ecc_bytes_t left;              /* ... and what may still leave at it */
    uint64_t random;
    ecc_slots_t slots;
} ecc_server_state_t;

/* A range of offsets of which nothing, or not all, has been received (S-63). */
typedef struct {
    int64_t begin;
    int64_t end;
    int64_t missing;   /* bytes */
    uint32_t n_passed; /* packets from beyond it that have been received since */
} ecc_hole_t;

/* A receiver that finds missing data (S-62); see receiver.h. */
typedef struct {
    int64_t next;
    int64_t front; /* bytes accounted for */
    int64_t missing;
    int64_t sender_base;    /* of the sender: what was sent when it last abandoned all that was in flight */
    int64_t sender_missing; /* known to the sender */
    int64_t acks_lost;
    int64_t n_delayed;
    int64_t marked;        /* bytes of data that came marked */
    int64_t sender_marked; /* known to the sender */
    int64_t answered;      /* offset of the last packet that carried CWR */
    bool has_marks;        /* of data since the last CWR (S-109) */
    bool was_marked;       /* the last packet */
    bool owes_answer;      /* the next new packet carries CWR */
    uint32_t reordering_threshold;
    uint32_t delayed;      /* the packet whose ACK is delayed, or ECC_NO_PACKET */
    uint32_t n_holes;      /* in the table of holes: less than the threshold */
    ecc_channel_t channel; /* the pure delay of its ACKs, if the flow has an impairment */
} ecc_receiver_t;

/*
 * Of each packet, behind the regions of protocols, in runs where packets of some flow can be marked (S-105). In the
 * header of a packet it is one word, with the codepoint in its lowest two bits.
 */
typedef struct {
    int64_t codepoint; /* enum ecc_codepoint */
    int64_t word;      /* of data: 1 with CWR; of an ACK: what it reports of marks (S-108, S-109) */
} ecc_ecn_t;

/*
 * What an ACK of such a receiver carries, after its header. A packet of data to such a receiver has there, in `front`,
 * what the sender had abandoned (S-54).
 */
typedef struct {
    int64_t front; /* of a transport: the cumulative ACK */
    union {
        int64_t missing;
        uint32_t sack; /* of a transport with SACK, also of its data: see sacks.h */
    };
} ecc_ack_info_t;

/* Of a flow with several routes: what the next choice depends on (S-131); see spray.h. */
typedef struct {
    uint64_t random;
    uint32_t next;
} ecc_spray_t;

/* Loss recovery of a flow (S-73); see transport.h. Sender and receiver are one record. */
typedef struct {
    int64_t snd_una;
    int64_t snd_nxt;
    int64_t lost_below;
    int64_t high_rxt;
    int64_t recovery_point;
    int64_t rescue_rxt;
    int64_t flight_end;
    int64_t pipe_credit; /* SACK: sacked(snd_una, high_rxt) */
    int64_t receiver_window;
    double rttvar;
    ecc_ranges_t sacked;
    ecc_ranges_t held;                   /* by the receiver, whose rcv_nxt is the flow's `received` ... */
    int64_t recent[ECC_MAX_SACK_BLOCKS]; /* ... and a sequence number in each range that an ACK reports, newest first */
    uint32_t recent_ranges[ECC_MAX_SACK_BLOCKS]; /* ranges of `held` that contain these numbers */
    uint8_t n_recent;
    uint8_t n_dup_acks;   /* up to dup_thresh */
    uint8_t dup_thresh;   /* duplicate ACKs that prove a loss (DupThresh of RFC 6675) */
    bool had_partial_ack; /* in this recovery */
    bool uses_sack;
    bool recovering;
    bool recovered;
    bool retransmit_first;
} ecc_transport_t;

/* A segment that is not yet acknowledged (S-144). */
enum ecc_sent_state { ECC_SENT_OUTSTANDING, ECC_SENT_LOST, ECC_SENT_SACKED };

#define ECC_NO_SEGMENT UINT32_MAX

typedef struct {
    int64_t begin;
    ecc_ps_t sent; /* last */
    int64_t order; /* number of its last transmission among all of the flow */
    int32_t size;
    uint32_t before; /* of those outstanding, the one sent before it, or ECC_NO_SEGMENT ... */
    uint32_t after;
    uint8_t state;     /* enum ecc_sent_state */
    uint8_t probes;    /* copies in flight beside it */
    bool was_repeated; /* sent more than once */
    bool is_repair;    /* outstanding, and sent again because it was lost */
} ecc_sent_t;

/* What else the timer of a transport of type 3 is for (S-153). */
enum ecc_awaits { ECC_AWAITS_NOTHING, ECC_AWAITS_REORDERING, ECC_AWAITS_PROBE };

/* RACK-TLP: what a transport of type 3 knows beside its transport (S-144); see rack.h. */
typedef struct {
    ecc_sent_t *items; /* a ring, in the order of the stream */
    uint32_t room;     /* a power of two */
    uint32_t first;    /* number of the first */
    uint32_t count;
    uint32_t oldest; /* of those outstanding, or ECC_NO_SEGMENT */
    uint32_t newest;
    uint32_t earlier; /* the last of those outstanding that were sent before `order`, or ECC_NO_SEGMENT */
    uint32_t *lost;   /* numbers of lost segments, a heap with the first of the stream at its top */
    uint32_t n_lost;  /* in the heap, segments that have been delivered meanwhile included */
    uint32_t n_sacked;
    int32_t multiplier; /* of the reordering window ... */
    int32_t persists;
    int64_t dsack_round; /* -1: none */
    int64_t in_flight;
    int64_t lost_bytes;
    int64_t repairs; /* bytes of outstanding segments that were sent again because they were lost */
    int64_t n_transmissions;
    int64_t order;     /* of the segment delivered that was sent last, -1: none */
    int64_t responded; /* transmissions before the last congestion response */
    ecc_ps_t rtt;
    ecc_ps_t window;     /* for reordering */
    int64_t fack;        /* end of the highest segment delivered */
    int64_t probe_end;   /* -1: no probe is out */
    ecc_ps_t wait_until; /* unless it awaits nothing */
    int64_t undo_from;
    ecc_ps_t first_retransmission; /* since `undo_from`, or ECC_NEVER */
    int64_t not_duplicated;        /* bytes retransmitted since, that no ACK has reported as a duplicate */
    uint8_t awaits;                /* enum ecc_awaits */
    bool has_reordering;
    bool timed_out;
    bool probe_is_copy;
    bool wants_probe;
    bool may_undo;
    bool by_timeout;
    bool undone;        /* by the ACK that is being processed */
    bool has_duplicate; /* of the receiver: the last packet was one */
} ecc_rack_t;

/* RTTs that the sender of a flow has measured since the last sample (S-197). */
typedef struct {
    double sum;  /* s */
    double peak; /* s */
    int64_t count;
} ecc_rtts_t;

/* Proportional rate reduction of a flow, in bytes (S-164); see transport.h. */
typedef struct {
    int64_t delivered;  /* since the last congestion response */
    int64_t out;        /* sent since then */
    int64_t recover_fs; /* neither acknowledged nor sacked before it */
    int64_t credit;     /* SndCnt: what may be sent before the next ACK */
    int64_t until;      /* a reduction for marks lasts until all below is acknowledged; 0: there is none (S-166) */
} ecc_prr_t;

/* What the hooks of a flow await (S-49, S-128); see alarms.h. */
typedef struct {
    ecc_ps_t timers[ECC_MAX_TIMERS]; /* when each expires, or ECC_NEVER */
    int64_t count;                   /* on_count is called once so many bytes have been sent, or INT64_MAX */
} ecc_alarms_t;

/* The random phase of a flow (S-186) or of a link (S-189); see phase.h. */
typedef struct {
    uint64_t random;
    double offset;        /* share of a packet time, below 1 */
    double stretch;       /* of a flow: factor of the next pacing gap */
    ecc_ps_t packet_time; /* of a flow: transmission time at the slowest link of its route */
    uint32_t n;           /* packets since the offset was drawn */
} ecc_phase_t;

/* Four cache lines; a packet touches the first three. */
typedef struct {
    _Alignas(ECC_CACHE_LINE) ecc_fifo_t acks;
    ecc_fifo_t access;
    int64_t sent;
    int64_t expected;
    int64_t lost;
    ecc_ps_t last_sent_at;
    ecc_ps_t pacing_gap;
    uint32_t last_counted; /* last packet among `acks` that is counted as received, or ECC_NO_PACKET */
    bool active : 1;
    bool changed : 1;            /* rate or window, since the last TRY-SEND */
    bool is_plain : 1;           /* it has nothing that most flows lack (ecc_flow_is_plain) */
    bool timeout_pending : 1;    /* there is a TIMEOUT */
    bool immediate_ack : 1;      /* the receiver needs no event: S-33 */
    bool reliable : 1;           /* it has a transport, see transport.h */
    bool has_alarms : 1;         /* see alarms.h */
    bool sprays : 1;             /* it has several routes */
    bool has_rack : 1;           /* see rack.h */
    bool uses_sack : 1;          /* of its transport */
    bool has_writes : 1;         /* its application writes in time (S-161) */
    bool uses_prr : 1;           /* proportional rate reduction in recoveries (S-164) */
    bool uses_prr_for_marks : 1; /* ... and after marks (S-166) */
    bool has_restart : 1;        /* it has on_restart (S-177) */
    uint8_t limited_by : 2;      /* enum ecc_send_limit, of the last TRY-SEND (S-176) */
    bool jitters : 1;            /* its phase is drawn, see phase.h */
    uint8_t n_zero_waits;        /* TIMERs in a row that on_timer wanted in less than 1 ps */

    _Alignas(ECC_CACHE_LINE) double rate;
    double window;
    double rtt;
    double srtt;
    double min_rtt;
    ecc_ps_t timer_start;
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
    bool started : 1; /* of a transfer: and not finished */
    bool completed : 1;
    bool draws_sizes : 1;
    bool has_header_bytes : 1;
    bool needs_receiver : 1; /* see receiver.h */
    bool reorders_acks : 1;  /* its ACKs are in the heap of its channel */
    bool can_be_marked : 1;  /* its packets */
    uint8_t n_timeouts;      /* since the last ACK, up to ECC_MAX_BACKOFFS */
    uint16_t header_offset;

    _Alignas(ECC_CACHE_LINE) const ecc_flow_t *spec;
    ecc_ps_t start;
    ecc_ps_t finish;
    uint64_t random;
    uint64_t random_sizes;
    int64_t number;     /* of the flow; of a transfer: the flows and the transfers before it (S-57) */
    int32_t full_size;  /* of packets once the opening has ended */
    uint32_t n_packets; /* in the network; kept for transfers only */
    union {
        uint32_t subsequent; /* of a transfer: index of its subsequent one, or ECC_NO_SUBSEQUENT */
        uint32_t next_free;  /* of a free slot: the one that was freed before it */
    };
    uint32_t template_index; /* of a transfer */
} ecc_flow_state_t;

_Static_assert(sizeof(ecc_flow_state_t) == 4 * ECC_CACHE_LINE, "flows are four cache lines");

typedef struct {
    ecc_flow_t spec;
    uint32_t position; /* of its links, in the table of hops */
    uint32_t length;
} ecc_template_t;

#define ECC_NO_SUBSEQUENT UINT32_MAX
#define ECC_NO_SLOT UINT32_MAX

/* A transfer that has not started. */
typedef struct {
    ecc_transfer_t spec;
    int64_t number;
    uint32_t subsequent; /* index of its subsequent one, or ECC_NO_SUBSEQUENT; of an unused entry: the next such */
} ecc_pending_transfer_t;

/* Transfers: those pending, slots of those alive, results of those finished. */
typedef struct {
    ecc_template_t *templates;
    ecc_pending_transfer_t *pending; /* in the order of their starts */
    ecc_pending_transfer_t *linked;  /* after others, to which they are subsequent */
    ecc_transfer_result_t *finished;
    unsigned char *records; /* of the slots */
    size_t record_size;
    uint32_t n_templates;
    uint32_t max_length; /* links of a template's routes */
    uint32_t first_hop;  /* of the first slot */
    uint32_t n_slots;    /* in use or used before */
    uint32_t n_alive;
    uint32_t free_slot; /* slot freed last */
    uint32_t n_linked;  /* entries in use or used before */
    uint32_t free_linked;
    size_t room_linked;
    size_t n_pending;
    size_t n_consumed; /* of those pending that have started */
    size_t room_pending;
    size_t n_finished;
    size_t room_finished;
    size_t room_records;
    int64_t n_added;
    int64_t n_started;
    ecc_ps_t last_start;
    bool more; /* will be added */
} ecc_transfers_t;

typedef struct ecc_cut ecc_cut_t; /* see cut.h */

#define ECC_N_AHEAD 16u

/* What is fetched into a cache before it is needed: nothing, what the next event touches, or more (ahead.h). */
enum ecc_fetches { ECC_FETCHES_NOTHING, ECC_FETCHES_NEXT, ECC_FETCHES_AHEAD };

/* Which events have been looked at before they happen (ahead.h). */
typedef struct {
    uint64_t day;                /* of the fast calendar, the first not looked at */
    uint32_t nodes[ECC_N_AHEAD]; /* of the last events looked at */
    uint32_t n;
} ecc_ahead_t;

struct ecc_engine {
    ecc_ps_t now;
    ecc_calendar_t fast;
    ecc_calendar_t slow;
    /* number of the first node of a kind, in its calendar; after the STARTs of the flows there is that of the next
       transfer, then, by slot, those of subsequent ones */
    uint32_t base[ECC_N_EVENT_KINDS];
    ecc_ahead_t ahead;
    uint8_t fetches; /* enum ecc_fetches */
    ecc_packets_t packets;
    ecc_sacks_t sacks;
    ecc_transfers_t transfers;
    ecc_link_state_t *links;
    ecc_flow_state_t *flows;
    void *links_block; /* the memory of links ... */
    void *flows_block; /* ... and of flows, not aligned */
    ecc_flow_t *flow_specs;
    uint32_t *hops;                /* link, direction and end of the wire of every position of every route */
    int64_t *flow_queues;          /* bytes queued at every position, NULL if no router needs them */
    ecc_rtts_t *rtts;              /* of the first n_rtts flows */
    ecc_change_t *changes;         /* of the capacities of all links */
    ecc_impairment_t *impairments; /* as the caller described them */
    ecc_queue_t *queues;           /* of all links that schedule; NULL if none does */
    ecc_channel_t *channels;       /* wires, by link; NULL if no impairment exists */
    ecc_receiver_t *receivers;     /* by flow; NULL if no flow needs one */
    ecc_hole_t *holes;             /* max_holes of each receiver */
    ecc_spray_t *sprays;           /* by flow; NULL if none has several routes */
    ecc_pause_t *pauses;           /* by link; NULL if none can be paused */
    ecc_server_state_t *servers;   /* by link; NULL if all are served by their capacities alone */
    ecc_ps_t *opportunities;       /* of all servers */
    ecc_transport_t *transports;   /* by flow; NULL if no flow has one */
    ecc_rack_t *racks;             /* by flow; NULL if no flow has one */
    ecc_prr_t *prrs;               /* by flow; NULL if no flow uses it */
    ecc_alarms_t *alarms;          /* by flow; NULL if no flow has any */
    ecc_phase_t *phases;           /* by flow; NULL if no flow has one */
    ecc_phase_t *link_phases;      /* by link; NULL if no link has one */
    ecc_begun_t *begun;            /* by flow, before the first event; NULL after it, or if no flow has begun */
    ecc_under_way_t *under_way;    /* before the first event; NULL after it, or if there are none */
    size_t n_changes;
    size_t n_under_way;
    size_t n_impairments;
    size_t n_queues;
    size_t n_receivers;
    size_t n_holes;
    size_t n_sprays;
    size_t n_servers;
    size_t n_opportunities;
    size_t n_transports;
    size_t n_racks;
    size_t n_prrs;
    size_t n_alarms;
    size_t n_phases;
    size_t n_link_phases;
    uint32_t max_holes; /* of a receiver: the largest reordering threshold */
    int64_t acked;      /* by the ACK of the on_ack that is called */
    double idle;        /* of the on_restart that is called (S-177) ... */
    double rto;         /* ... likewise; else 0 */
    int64_t marked;     /* as this ACK reports */
    int64_t ece;        /* whether it carries ECE */
    bool wants_receivers;
    bool wants_transports;
    bool wants_racks;
    bool wants_prrs;
    bool wants_alarms;
    bool wants_phases;
    bool wants_stops;       /* there are nodes for STOPs ... */
    bool wants_timers;      /* ... and TIMERs */
    unsigned char *scratch; /* header for hooks that have no packet */
    size_t header_size;     /* with a word for ecc_ecn_t behind it, if some flow has packets that can be marked ... */
    size_t ecn_offset;      /* ... at this offset */
    bool wants_ecn;
    bool wants_acks; /* packets have ecc_ack_info_t ... */
    bool wants_sack; /* ... with SACK */
    uint64_t digest;
    int64_t n_events;
    ecc_cut_t *cut;             /* NULL: this engine runs the whole network */
    _Atomic int64_t last_event; /* of this slice; packets emitted by TRY-SEND bring it nearer */
    int64_t n_received;
    ecc_link_env_t link_env;
    ecc_flow_env_t flow_env;
    ecc_event_t *trace;
    int64_t trace_room;
    int64_t n_traced;
    ecc_samples_t samples;
    int64_t n_sampled;
    ecc_ps_t next_sample;
    uint32_t n_priorities; /* of flows, where links can be paused, else 0 */
    uint32_t n_links;
    uint32_t n_routers; /* the first of each link included */
    uint32_t n_flows;
    uint32_t room; /* flows and slots that there is memory for */
    bool wants_flow_queues;
    uint64_t seed;
    size_t n_hops;
    size_t n_flow_queues;
    uint32_t n_rtts; /* flows whose RTTs samples show */
    int64_t stop;    /* enum ecc_stop */
    ecc_report_t report;
    ecc_memory_t memory;
};

/* A statement of debug builds, for ecc_engine_verify. */
#ifdef NDEBUG
#define ECC_DEBUG(statement) ((void) 0)
#else
#define ECC_DEBUG(statement) statement
#endif

/* The number of a flow, which events and hooks know it by (S-10). */
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

/* Of an event of a flow. */
static inline void
ecc_state_trace_flow(ecc_engine_t *self, int64_t kind, uint32_t flow, int64_t value)
{
    if (self->trace != NULL) {
        ecc_state_trace(self, kind, ecc_state_number(self, flow), value);
    }
}

#define ECC_NO_END (INT64_C(1) << 62) /* bytes of a flow without end */

/* S-161: what the application has written by a time, of a flow that has started. */
static inline int64_t
ecc_state_written(const ecc_flow_state_t *flow, ecc_ps_t now)
{
    int64_t most = flow->size < 0 ? ECC_NO_END : flow->size;
    int64_t n;

    if (!flow->has_writes) {
        return most;
    }
    n = now < flow->start ? 0 : 1 + (now - flow->start) / flow->spec->write_period;
    return n >= most / flow->spec->write_size + 1 ? most : n * flow->spec->write_size;
}

/* S-162: of it, what was sent for the first time; without transport, or rather without end, lost bytes were too. */
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

/* What an ACK carries. */
static inline ecc_ack_info_t *
ecc_state_ack_info(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return (ecc_ack_info_t *) (void *) ((unsigned char *) ecc_packets_header(packet) + self->header_size);
}

/* What a header says of marks, in runs with ECN. */
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
