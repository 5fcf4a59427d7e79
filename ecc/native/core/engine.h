/*
 * The packet engine: links, routers and flows on an integer clock. This is its whole interface.
 *
 * Its exact behavior is specified in docs/engine_specification.md, in numbered clauses; "S-42" in the code cites one of
 * them. ecc/packet/twin/ is a second engine written from that page, and both agree event by event.
 *
 * The engine knows no protocol: protocols are hooks, C functions that routers and flows call. It reads no clock, file
 * or environment, and allocates memory only through one allocator. Its functions are called in this order:
 *
 *   ecc_engine_new        a configuration becomes an engine, or is refused with a report
 *   ecc_engine_add        hands over transfers, whenever a run stops with ECC_STOP_TRANSFERS
 *   ecc_engine_advance    runs events up to a time
 *   ecc_engine_stats and the functions after it   return results, between calls of ecc_engine_advance
 *   ecc_engine_free
 *
 * Times are integer picoseconds, sizes integer bytes, rates bit/s, and times that hooks see are seconds. Functions that
 * can fail return 0 or a negative code (errors.h); ecc_engine_report then names what failed, and where.
 *
 * The declarations between the marks "cdef" are parsed by cffi (binding.py): no preprocessor there but plain #define.
 */
#ifndef ECC_ENGINE_H
#define ECC_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ECC_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ECC_MUST_CHECK
#endif

/* cdef: begin */

typedef int64_t ecc_ps_t;
typedef int64_t ecc_bytes_t;

#define ECC_NEVER 4000000000000000000
#define ECC_N_BINS 4352           /* bins of a histogram of queues up to 2^40 bytes */
#define ECC_MAX_SAMPLED_QUEUES 64 /* maximum number of queues of a link that samples show; more are not shown */
#define ECC_MAX_TIMERS 4          /* timers that the hooks of a flow can set */
#define ECC_N_PRIORITIES 8        /* priorities of flows, 0 to 7 */

/* Kinds of events, in the order in which they happen at one instant (S-10); those from DROP on are in traces only. */
enum ecc_event_kind {
    ECC_EVENT_DEPARTURE, /* link: the last bit of the packet in service leaves the queue */
    ECC_EVENT_HOP,       /* link: the first packet on the wire reaches its end */
    ECC_EVENT_ACCESS,    /* flow: the first packet on the access line reaches the first link */
    ECC_EVENT_ACK,       /* flow: the first ACK in transit reaches the sender */
    ECC_EVENT_SEND,      /* flow: the pacer releases a packet */
    ECC_EVENT_INTERVAL,  /* router: a tick of its clock */
    ECC_EVENT_START,     /* flow */
    ECC_EVENT_STOP,      /* flow */
    ECC_EVENT_TIMER,     /* flow: a timer that its hooks set */
    ECC_EVENT_TIMEOUT,   /* flow: the retransmission timer is examined */
    ECC_EVENT_FLUSH,     /* flow: its receiver sends the ACK that it has delayed */
    ECC_EVENT_DROP,      /* link: a packet is dropped */
    ECC_EVENT_LOSS,      /* link: a packet is lost on the wire */
    ECC_EVENT_ACK_LOSS,  /* flow: an ACK is lost on its pure delay */
    ECC_EVENT_MARK,      /* link: a hook has marked a packet */
    ECC_EVENT_TRIM,      /* link: a hook has trimmed a packet */
    ECC_EVENT_PAUSE,     /* link: a PAUSE frame is sent to it */
    ECC_EVENT_RESUME     /* link: it is sent a frame that ends the pause */
};

/* env.kind of hooks of routers. */
enum ecc_packet_kind { ECC_PACKET_DATA, ECC_PACKET_ACK, ECC_PACKET_TRIMMED };

/* env.kind of on_loss. */
enum ecc_loss_kind { ECC_LOSS_GAP, ECC_LOSS_TIMEOUT };

/* env.kind of on_send. */
enum ecc_segment_kind { ECC_SEGMENT_NEW, ECC_SEGMENT_RETRANSMITTED };

/* How a flow recovers lost data: not at all, by RFC 6582, RFC 6675 or RFC 8985. */
enum ecc_transport_kind { ECC_TRANSPORT_NONE, ECC_TRANSPORT_CUMULATIVE, ECC_TRANSPORT_SACK, ECC_TRANSPORT_RACK };

/* Effect of the loss of a retransmission in a recovery of RACK-TLP (S-163). */
enum ecc_lost_retransmission { ECC_LOST_REDUCE, ECC_LOST_LINUX };

/* Uses of proportional rate reduction (S-164, S-166). */
enum ecc_prr_use { ECC_PRR_NEVER, ECC_PRR_LOSSES, ECC_PRR_LOSSES_AND_MARKS };

/* Codepoint of a packet in the IP header (RFC 3168). */
enum ecc_codepoint { ECC_NOT_ECT, ECC_ECT_1, ECC_ECT_0, ECC_CE };

/* Whether the packets of a flow can be marked, and how its receiver reports marks (S-105). */
enum ecc_ecn_kind {
    ECC_ECN_NONE,
    ECC_ECN_CLASSIC,  /* ECT(0); each ACK carries ECE after a mark until the sender has answered: RFC 3168 */
    ECC_ECN_ACCURATE, /* ECT(0); each ACK carries the number of bytes marked so far */
    ECC_ECN_SCALABLE  /* ECT(1), otherwise as accurate: RFC 9331 */
};

/* How a link chooses the queue of its next packet (S-116). */
enum ecc_scheduler_kind {
    ECC_SCHEDULER_PRIORITY, /* the first that is not empty */
    ECC_SCHEDULER_DRR,      /* deficit round robin */
    ECC_SCHEDULER_FQ        /* deficit round robin, queues that were empty first: RFC 8290 */
};

/* Packets of a flow that its random phase delays (S-186, S-187). */
enum ecc_phase_jitter { ECC_PHASE_NEVER, ECC_PHASE_AT_LINE_RATE, ECC_PHASE_ALWAYS };

/* Choice of the route of the next packet, among several (S-131). */
enum ecc_spraying_kind { ECC_SPRAYING_ROUND_ROBIN, ECC_SPRAYING_RANDOM };

/* Kind of the entity of a report. */
enum ecc_entity_kind { ECC_ENTITY_NONE, ECC_ENTITY_LINK, ECC_ENTITY_FLOW, ECC_ENTITY_TRANSFER };

/* The fields that a hook of a link sees; it may write those marked w. */
typedef struct {
    double now;      /* s */
    double capacity; /* bit/s */
    int64_t buffer;  /* bytes, -1 unlimited */
    int64_t queue;   /* bytes in the queue of the packet, including the one in service; without a packet, the backlog */
    int64_t backlog; /* bytes in all queues of the link */
    int64_t queue_index;  /* w: number of the queue of the packet, from 0; on_classify only */
    int64_t queue_low;    /* bytes, lowest since the last on_interval */
    int64_t packet_size;  /* bytes */
    int64_t kind;         /* enum ecc_packet_kind */
    int64_t flow;         /* number: of a flow its index, of a transfer the flows and the transfers before it */
    int64_t link;         /* index */
    int64_t flow_queue;   /* bytes of this flow and kind in the queue, if wanted, else 0 */
    double sojourn;       /* s that the packet has waited; on_dequeue, and on_drop after it; on_interval: the longest */
    double random;        /* uniform [0, 1), if wanted, else 0 */
    int64_t ecn;          /* enum ecc_codepoint of the packet, 0 without one */
    int64_t drop;         /* w: non-zero drops the packet; on_arrival and on_dequeue only */
    int64_t mark;         /* w: non-zero marks the packet if it can be; on_arrival, on_dequeue, on_departure only */
    int64_t trim;         /* w: non-zero trims the packet, or drops it if it cannot be; on_arrival only */
    double next_interval; /* w: s until this router's next on_interval, <= 0: never */
} ecc_link_env_t;

/* Why a TRY-SEND has ended (S-176). */
enum ecc_send_limit {
    ECC_LIMIT_DATA,   /* nothing to send: of the application, or within the receiver's window */
    ECC_LIMIT_WINDOW, /* no room in the window for a full packet */
    ECC_LIMIT_PACER   /* the rate */
};

/* The fields that a hook of a flow sees; it may write those marked w. */
typedef struct {
    double now;           /* s */
    int64_t packet_size;  /* bytes */
    double rtt;           /* s, last sample, 0 before any */
    double srtt;          /* s */
    double min_rtt;       /* s */
    int64_t in_flight;    /* bytes */
    int64_t delivered;    /* bytes, ACKed */
    int64_t lost;         /* bytes */
    double rate;          /* w: bit/s */
    double window;        /* w: bytes, 0 = not window-clocked */
    double timer;         /* w: s from now until on_timer, < 0: not set */
    int64_t kind;         /* kind that on_loss, on_send, on_timer and on_control report (S-102), else 0 */
    int64_t flow;         /* number: of a flow its index, of a transfer the flows and the transfers before it */
    double random;        /* uniform [0, 1), if wanted, else 0 */
    int64_t size;         /* bytes to deliver, -1 unlimited */
    int64_t unsent;       /* bytes that the application has written and that were not sent; 2^62 if there is no end */
    int64_t header_bytes; /* bytes by which a packet is longer on links, and for the pacer, than its data */
    int64_t acked;        /* bytes newly acknowledged by this ACK; on_ack only, else 0 */
    int64_t recovering;   /* 1: a transport is in fast recovery */
    int64_t recovered;    /* 1: this ACK has ended it; on_ack only */
    int64_t undone;       /* 1: this ACK shows that the last on_loss was for nothing; on_ack only */
    int64_t marked;       /* bytes that this ACK newly reports as marked; of on_receive: of this packet, if marked */
    int64_t ece;          /* 1: this ACK carries ECE (S-109); on_ack only, else 0 */
    double timer_1;       /* w: as timer, for timers 1 to 3, if the flow has them */
    double timer_2;       /* w: as timer_1 */
    double timer_3;       /* w: as timer_1 */
    int64_t counter;      /* w: bytes that the flow sends from now until on_count, < 1: not set */
    int64_t control_size; /* w: bytes of a packet that the receiver sends to on_control, < 1: none; on_receive only */
    int64_t control_kind; /* w: >= 0, the kind that on_control receives; on_receive only */
    int64_t limited_by;   /* enum ecc_send_limit: why the last TRY-SEND sent no more (S-176) */
    double idle;          /* s since the last packet was sent; on_restart only, else 0 */
    double rto;           /* s, retransmission timeout; on_restart only, else 0 */
} ecc_flow_env_t;

/* Returns 0, or any other code, which stops the run. */
typedef int32_t (*ecc_hook_t)(void *state, void *header, void *params, void *env);

/* A link and its router as the caller describes them; the hooks last, in the order in which a report numbers them. */
typedef struct {
    double capacity;          /* bit/s */
    ecc_ps_t delay;           /* propagation delay of the wire */
    ecc_bytes_t buffer;       /* -1 unlimited */
    int64_t buffer_packets;   /* packets, 0 unlimited */
    int64_t n_changes;        /* changes of the capacity: the next n_changes of `changes` */
    int64_t impairment;       /* number of the impairment of the wire, from 1; 0: no impairment */
    int64_t server;           /* number of the server of its queue, from 1; 0: served by its capacity */
    ecc_ps_t first_interval;  /* time of the first INTERVAL; negative: set by on_start */
    int64_t wants_flow_queue; /* non-zero: env.flow_queue is kept */
    int64_t wants_random;     /* non-zero: env.random is drawn */
    int64_t n_queues;         /* number of queues, whose quanta are the next n_queues of `quanta`; 0: one queue */
    int64_t scheduler;        /* enum ecc_scheduler_kind */
    int64_t drops_longest;    /* non-zero: a full buffer drops the first packet of the longest queue */
    ecc_bytes_t xoff;         /* bytes of a class, come over it and still queued, above which it is paused; 0: never */
    ecc_bytes_t xon;          /* bytes of a class at or below which it resumes */
    ecc_bytes_t headroom;     /* bytes that may arrive beyond xoff without being dropped */
    int64_t at;               /* link of an additional router */
    int64_t header_offset;    /* bytes from the start of a header to the fields of the hooks, a multiple of 8 */
    int64_t phase_jitter;     /* non-zero: the phase of its departures is drawn (S-189) */
    ecc_bytes_t begun_queue;  /* bytes queued before time 0, in front of the packets under way (S-208) */
    void *begun_state;        /* router: record for hooks with such packets, else NULL */
    void *state;
    void *params;
    ecc_hook_t on_start;
    ecc_hook_t on_classify;
    ecc_hook_t on_arrival;
    ecc_hook_t on_dequeue;
    ecc_hook_t on_departure;
    ecc_hook_t on_drop;
    ecc_hook_t on_interval;
} ecc_link_t;

/* A flow as the caller describes it; the hooks last. */
typedef struct {
    double rate;   /* before on_start, bit/s */
    double window; /* before on_start, bytes */
    ecc_ps_t start;
    ecc_ps_t stop;    /* -1 never */
    ecc_bytes_t size; /* -1 unlimited */
    ecc_bytes_t packet_size;
    ecc_bytes_t packet_size_max;  /* sizes are drawn up to this; 0: all are packet_size */
    ecc_bytes_t opening_size;     /* size of packets before the first ACK; 0: packet_size */
    ecc_bytes_t ack_size;         /* on reverse links */
    ecc_ps_t access_delay;        /* before the first link */
    ecc_ps_t ack_delay;           /* after the last reverse link, or after the receiver */
    ecc_ps_t ack_wait;            /* maximum wait of a delayed ACK */
    int32_t ack_every;            /* packets per ACK; 0 and 1: an ACK for each packet */
    int32_t reordering_threshold; /* packets that prove a loss before them; 0: as S-64 and S-84 have it */
    ecc_bytes_t receiver_window;  /* receiver window of a transport; 0: no limit */
    ecc_ps_t min_rto;             /* minimum retransmission timeout */
    ecc_ps_t initial_rto;         /* minimum retransmission timeout of a transport before the first ACK */
    ecc_ps_t rto_granularity;     /* clock granularity G of a transport (RFC 6298) */
    ecc_bytes_t write_size;       /* bytes that the application writes per write_period; 0: all at the start */
    ecc_ps_t write_period;        /* time between two writes */
    int64_t n_forward;            /* links of the route: the next n_forward of `routes` */
    int64_t n_reverse;            /* links that carry the ACKs: the n_reverse of `routes` after the route */
    int32_t n_alternatives;       /* further routes: `routes` continues with their lengths, then with their links */
    int32_t header_bytes;         /* bytes by which packets on links, and for the pacer, exceed their data; < 2^16 */
    ecc_bytes_t trimmed_size;     /* size of a trimmed packet on links; 0: packets cannot be trimmed */
    int32_t priority;             /* class of its packets and ACKs if links are paused, below ECC_N_PRIORITIES */
    int32_t impairment;           /* number of the impairment of ack_delay, from 1; 0: no impairment */
    int32_t bottleneck;           /* offset of an int64 of `state` that samples show, -1 without one */
    int32_t header_offset;        /* as header_offset of a router */
    int32_t ecn;                  /* enum ecc_ecn_kind */
    int32_t transport;            /* enum ecc_transport_kind */
    int32_t lost_retransmission;  /* enum ecc_lost_retransmission, of a transport of type 3 */
    int32_t uses_prr;             /* enum ecc_prr_use, of a transport with SACK */
    int32_t spraying;             /* enum ecc_spraying_kind, of several routes */
    int32_t n_timers;             /* timers that its hooks set, up to ECC_MAX_TIMERS; 0 and 1: one */
    int32_t wants_random;         /* non-zero: env.random is drawn */
    int32_t enables_subsequent;   /* non-zero, in a template: its transfers may have subsequent ones */
    int64_t phase_jitter;         /* enum ecc_phase_jitter */
    void *state;
    void *params;
    ecc_hook_t on_start;
    ecc_hook_t on_send;
    ecc_hook_t on_receive;
    ecc_hook_t on_ack;
    ecc_hook_t on_loss;
    ecc_hook_t on_timer;
    ecc_hook_t on_stop;
    ecc_hook_t on_count;
    ecc_hook_t on_control;
    ecc_hook_t on_restart;
} ecc_flow_t;

/* A transfer as the caller describes it; its template, an ecc_flow_t, has the rest. */
typedef struct {
    ecc_ps_t start;
    ecc_ps_t stop;    /* -1 never */
    ecc_bytes_t size; /* -1 unlimited */
    ecc_ps_t access_delay;
    ecc_ps_t ack_delay;
    int64_t template_index;
    ecc_bytes_t receiver_window; /* receiver window of a transport; 0: that of the template */
    int64_t is_subsequent; /* non-zero: to the transfer before it; start is then its delay after that was received */
} ecc_transfer_t;

/* From a time on a link has another capacity. */
typedef struct {
    ecc_ps_t time;
    double capacity; /* bit/s, may be 0 */
} ecc_change_t;

/* A flow that has begun before time 0 (S-206). */
typedef struct {
    ecc_ps_t rtt; /* RTT that the flow has measured before */
    void *state;  /* record for its on_start; NULL without on_start */
} ecc_begun_t;

/* A packet in the network at time 0, of a flow that has begun before (S-207); all times are relative to time 0. */
typedef struct {
    int64_t flow;
    ecc_ps_t sent;  /* emission, at or before time 0; entries are sorted by it */
    int64_t hop;    /* the link of the route that it reaches, from 0, or n_forward for the receiver */
    ecc_ps_t at;    /* arrival there; at or before time 0: the packet is in that queue, or its ACK is returning */
    int64_t placed; /* index of the entry that is placed in this turn */
} ecc_under_way_t;

/* Losses and delays of packets on a channel: a wire, or the pure delay of ACKs. All zero: no impairment. */
typedef struct {
    double data_loss;       /* probability */
    double ack_loss;        /* probability */
    int64_t spike_every_lo; /* minimum number of packets between two spikes */
    int64_t spike_every_hi; /* maximum number of packets between two spikes; 0: no spikes */
    ecc_ps_t spike_lo;
    ecc_ps_t spike_hi;
    ecc_ps_t spike_between; /* additional delay of the packets between spikes */
    ecc_ps_t jitter_lo;
    ecc_ps_t jitter_hi;     /* 0: no jitter */
    int64_t reorders;       /* non-zero: packets may overtake each other */
    ecc_ps_t slot_lo;       /* minimum wait of the first packet for its slot */
    ecc_ps_t slot_hi;       /* maximum wait of the first packet for its slot; 0: no slots */
    int64_t slot_packets;   /* maximum number of packets in a slot; 0: no limit */
    ecc_bytes_t slot_bytes; /* maximum number of bytes in a slot, unless it holds a single packet; 0: no limit */
} ecc_impairment_t;

/* A server of the queue of a link, in addition to its capacity. All zero: no server. */
typedef struct {
    double rate;             /* rate of the token bucket, bit/s; 0: no bucket */
    ecc_bytes_t burst;       /* size of the token bucket */
    int64_t n_opportunities; /* they replace the capacity: the next entries of `opportunities`, repeated; 0: none */
    ecc_bytes_t opportunity; /* bytes that may leave at each opportunity */
    ecc_ps_t slot_lo;        /* slot_lo to slot_bytes: as of an impairment */
    ecc_ps_t slot_hi;
    int64_t slot_packets;
    ecc_bytes_t slot_bytes;
} ecc_server_t;

/* Eight bytes that samples copy: of a record, or, if `record` is NULL, of the env of a flow. */
typedef struct {
    const void *record; /* record of a link or a flow */
    int64_t offset;     /* bytes from there, or into ecc_flow_env_t; a multiple of 8 */
    int64_t flow;       /* index of the flow, without a record */
} ecc_recorded_t;

/* One row a sample: of the first n_flows flows, and of all links. Counts are totals since the start. */
typedef struct {
    ecc_ps_t period;
    int64_t n_samples;
    int64_t n_flows;
    int64_t *sent;       /* (sample, flow) bytes */
    int64_t *received;   /* (sample, flow) bytes of data at the receiver */
    int64_t *bottleneck; /* (sample, flow), -1 before START */
    double
        *rtt; /* (sample, flow) s, mean of the RTTs measured since the last sample, 0 without any; NULL: not wanted */
    double *rtt_peak;       /* (sample, flow) s, largest of these RTTs; with rtt */
    int64_t *queue;         /* (sample, link) bytes */
    int64_t *queue_peak;    /* (sample, link) bytes, highest since the last sample */
    double *queue_mean;     /* (sample, link) bytes, average over the time since the last sample; NULL: not wanted */
    int64_t *arrived;       /* (sample, link) bytes, dropped ones included */
    int64_t *dropped;       /* (sample, link) packets */
    int64_t *dropped_bytes; /* (sample, link) bytes, those removed by trimming included; NULL: not wanted */
    int64_t *marked;        /* (sample, link) packets; NULL: not wanted */
    int64_t *queues;        /* (sample, queue) bytes, of links with 2 to ECC_MAX_SAMPLED_QUEUES; NULL: not wanted */
    int64_t *queue_dropped; /* (sample, queue) packets; with queues */
    int64_t *queue_marked;  /* (sample, queue) packets; with queues */
    int64_t *paused; /* (sample, link, priority) ps, of the priorities up to the highest of a flow; NULL: not wanted */
    int64_t *pauses; /* (sample, link, priority) PAUSE frames; with paused */
    int64_t n_recorded; /* entries of `recorded`, which belong to the caller */
    const ecc_recorded_t *recorded;
    int64_t *words; /* (sample, recorded) */
} ecc_samples_t;

typedef struct {
    ecc_ps_t time;
    int64_t kind;
    int64_t entity;
    int64_t value;
} ecc_event_t;

#define ECC_MAX_PARTS 1024

/* The part of the network that an engine runs (S-121); all zero: the whole network. */
typedef struct {
    int64_t n_parts;
    int64_t part;             /* number of the part of this engine, from 0 */
    const int64_t *links;     /* part of each link */
    const int64_t *senders;   /* part of the sender of each flow */
    const int64_t *receivers; /* part of the receiver of each flow */
    const int64_t *templates; /* the part of sender and receiver of the transfers of each template */
} ecc_partition_t;

/* A packet on its way to another part; its header and what it carries for its receiver or its sender follow, and, where
   there are templates, two words: the template of a transfer, or -1, and its ack_delay. */
typedef struct {
    ecc_ps_t time; /* arrival at the end of the wire, line or delay */
    ecc_ps_t sent; /* departure from the sender */
    int64_t offset;
    int64_t size; /* bytes of data, also once it is an ACK */
    int64_t flow; /* number */
    int64_t hop;  /* what it is on: -1 the access line; the wire of a link of the route, from 0; behind these the pure
                     delay of ACKs; and then, of a transfer: nothing, as it was discarded at `time` */
} ecc_crossing_t;

/* resize(context, block, size): as realloc; size 0 releases. NULL on failure, and the block is as it was. */
typedef struct {
    void *(*resize)(void *context, void *block, size_t size);
    void *context;
} ecc_allocator_t;

typedef struct {
    uint64_t seed;
    int64_t n_links;
    int64_t n_additional; /* entries of `links` after those of the links: additional routers */
    int64_t n_flows;
    int64_t n_templates; /* 0: no transfers will come */
    int64_t n_routes;    /* entries of `routes` */
    int64_t header_size; /* bytes, a multiple of 8 */
    int64_t n_trace;     /* room in `trace` */
    int64_t record_size; /* bytes at `state` of every template, a multiple of 8 */
    int64_t max_bytes;   /* limit of all memory; 0: no limit */
    const ecc_link_t *links;
    const ecc_flow_t *flows;
    const ecc_flow_t *templates; /* templates of transfers; fields that a transfer has itself are ignored */
    const int64_t *routes;       /* routes of the flows, then of the templates */
    int64_t n_changes;           /* entries of `changes`: the sum of all n_changes of links */
    const ecc_change_t *changes;
    int64_t n_quanta; /* entries of `quanta`: the sum of all n_queues of links */
    const ecc_bytes_t *quanta;
    int64_t n_impairments;
    const ecc_impairment_t *impairments;
    int64_t n_servers;
    const ecc_server_t *servers;
    int64_t n_opportunities; /* entries of `opportunities`: the sum of all n_opportunities of servers */
    const ecc_ps_t *opportunities;
    const ecc_begun_t *begun; /* by flow; NULL: no flow has begun before time 0 */
    int64_t n_under_way;      /* entries of `under_way` */
    const ecc_under_way_t *under_way;
    ecc_event_t *trace;        /* or NULL */
    ecc_samples_t samples;     /* n_samples = 0: none */
    int64_t *histogram;        /* (link, 2, ECC_N_BINS): time, then arrivals, by queue; or NULL */
    ecc_partition_t partition; /* copied; engines may share samples and histogram, as each writes its own entries */
    const ecc_allocator_t *allocator; /* or NULL */
} ecc_config_t;

/* Why a call failed, and where. */
typedef struct {
    int64_t code;
    int64_t entity; /* enum ecc_entity_kind */
    int64_t index;  /* index of the link (routers count on) or flow (templates count on), or number of the transfer */
    int64_t hook;   /* number of the hook of a link or flow, -1 without one */
    ecc_ps_t time;
    double value;   /* the invalid value, or the return value of the hook */
    int64_t failed; /* non-zero: `value` is the return value of the hook */
} ecc_report_t;

enum ecc_stop {
    ECC_STOP_NOT_YET,    /* never advanced */
    ECC_STOP_UNTIL,      /* the given time was reached */
    ECC_STOP_MAX_EVENTS, /* the given number of events was reached */
    ECC_STOP_IDLE,       /* the time was reached and nothing is left to happen */
    ECC_STOP_TRANSFERS,  /* the next transfers must be handed over, or their end announced */
    ECC_STOP_ERROR       /* see the report */
};

typedef struct {
    ecc_ps_t now;
    int64_t events;
    int64_t data_packets; /* data packets that reached their receivers */
    int64_t in_flight;    /* packets and ACKs in the network */
    int64_t samples;      /* rows filled */
    int64_t trace;        /* events seen by the trace; those beyond its room are not in it */
    int64_t transfers;    /* transfers that have started */
    int64_t alive;        /* transfers that have started and not finished */
    int64_t waiting;      /* transfers that have not started */
    int64_t finished;     /* transfers whose results were not taken yet */
    int64_t bytes;        /* bytes of memory held */
    int64_t peak_bytes;
    uint64_t digest;
    int64_t stop; /* enum ecc_stop */
} ecc_stats_t;

typedef struct {
    ecc_ps_t finish;       /* time at which it stopped or completed, -1 before */
    int64_t completed;     /* 1: all of its size was ACKed */
    int64_t sent;          /* bytes, retransmitted ones included */
    int64_t received;      /* bytes at the receiver */
    int64_t delivered;     /* bytes ACKed */
    int64_t lost;          /* bytes */
    int64_t retransmitted; /* bytes sent again; without transport: bytes sent beyond a finite size */
    int64_t acks_lost;     /* on their pure delay */
    int64_t marked;        /* bytes at the receiver that came marked */
    double rate;
    double window;
    double srtt;
    double min_rtt;    /* s, 0 before any */
    ecc_ps_t idle_rtt; /* propagation delays only */
} ecc_flow_result_t;

typedef struct {
    int64_t number;
    int64_t template_index;
    ecc_ps_t start;
    ecc_bytes_t size;
    ecc_ps_t end; /* time from which on it sent nothing and had no packet in the network, -1 before */
    ecc_flow_result_t flow;
} ecc_transfer_result_t;

typedef struct {
    int64_t arrived;  /* bytes, dropped ones included */
    int64_t departed; /* bytes */
    int64_t dropped;  /* packets */
    int64_t dropped_bytes;
    int64_t marked; /* packets */
    int64_t queue;  /* bytes */
    int64_t lost;   /* packets, of those departed */
    int64_t lost_bytes;
} ecc_link_result_t;

typedef struct ecc_engine ecc_engine_t;

/*
 * Creates an engine, NULL on failure. Arrays of the configuration are copied, except for records, samples and trace.
 * Engines share nothing, so that each may run in its own thread. Only one thread at a time may use an engine, also for
 * reading.
 */
ECC_MUST_CHECK int ecc_engine_new(const ecc_config_t *config, ecc_engine_t **engine, ecc_report_t *report);
void ecc_engine_free(ecc_engine_t *self);

/*
 * Runs all events up to and at `until`, but at most max_events of them (< 0: no limit). Each packet that TRY-SEND
 * emits counts as an event as well, so that the work of a call is bounded, except for hooks. Slices never change the
 * result. A time before now is taken as now. Returns 0 or a code; after a failure every later call returns that code.
 * A debug build ends each call with ecc_engine_verify.
 */
ECC_MUST_CHECK int ecc_engine_advance(ecc_engine_t *self, ecc_ps_t until, int64_t max_events);

/*
 * Ends a call of ecc_engine_advance in another thread after its current event, as if max_events were reached. It is
 * the only function that may be called during such a call. It may be missed, and can be repeated.
 */
void ecc_engine_stop(ecc_engine_t *self);

/*
 * Adds n transfers, which are copied. A transfer must not start before now or before its predecessor. more = 0: no
 * transfers will follow. Subsequent transfers are added in the same call as the transfer to which they are subsequent.
 * An engine with templates stops (ECC_STOP_TRANSFERS) if no transfer is pending and more may come. Returns 0, or a
 * code if no transfer was added; the report then has the number of the invalid one. All parts are given all transfers,
 * and each keeps its own. A part stops before the start of the last transfer added, if more may come.
 */
ECC_MUST_CHECK int ecc_engine_add(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n, int64_t more);

/* Removes the results of up to n finished transfers, in the order of their ends; returns how many these were. */
int64_t ecc_engine_take_finished(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n);

/*
 * The state at the end of the last call of ecc_engine_advance. These functions change nothing. Stats take constant
 * time, results the time of a copy.
 */
void ecc_engine_report(const ecc_engine_t *self, ecc_report_t *report);
void ecc_engine_stats(const ecc_engine_t *self, ecc_stats_t *stats);
void ecc_engine_flow_results(const ecc_engine_t *self, ecc_flow_result_t *results);
void ecc_engine_link_results(const ecc_engine_t *self, ecc_link_result_t *results);

/* Results of the transfers that have started and not finished, by slot: stats.alive of them. */
void ecc_engine_alive(const ecc_engine_t *self, ecc_transfer_result_t *results);

/*
 * Writes the state of the engine into a buffer, which must be large enough; NULL: only counts. Returns the size in
 * bytes, or a code. Records, samples, trace and histogram belong to the caller and are not included. All crossings
 * that have left a part must have been taken.
 */
int64_t ecc_engine_save(ecc_engine_t *self, unsigned char *buffer);

/*
 * Loads the state of another engine of the same configuration into a new engine, which then continues as that one
 * would have. After a failure the engine is unusable.
 */
ECC_MUST_CHECK int ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size);

/*
 * Parts of one network, each run by an engine: packets that leave one part enter another (S-123).
 * ecc_engine_take_leaving moves the crossings for a part since the last call into a buffer, which must be large
 * enough; NULL: moves nothing. It returns their size in bytes. ecc_engine_enter lets crossings in, which must happen
 * before the time of the first of them. They may come from anywhere: an invalid crossing is refused with a code, the
 * report has its number, and those before it have entered. Any other failure, for example of memory, ends the run:
 * every later call returns its code.
 */
int64_t ecc_engine_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer);
ECC_MUST_CHECK int ecc_engine_enter(ecc_engine_t *self, const unsigned char *crossings, int64_t size);

/* The minimum time from an event in this part to any effect in another; ECC_NEVER: no effect (S-124). */
ecc_ps_t ecc_engine_lookahead(const ecc_engine_t *self);

/* A team runs the parts of one network in as many threads. */
typedef struct ecc_team ecc_team_t;

/* A team of the engines of all parts, in their order, reserved for it until it is freed; NULL on failure. */
ECC_MUST_CHECK int ecc_team_new(ecc_engine_t *const *engines, int64_t n, ecc_team_t **team);
void ecc_team_free(ecc_team_t *self);

/*
 * Runs all events up to and at `until`, or ends after at least max_events of them (< 0: no limit). It is called for
 * every part at once, in as many threads, with the same times and counts. Afterwards all engines are at the same time,
 * and together in the state of the engine of the whole network at the end of that instant. Returns, in each thread,
 * the reason for the end; ECC_STOP_ERROR if a part has failed: the reports of the engines tell which.
 */
ECC_MUST_CHECK int ecc_team_advance(ecc_team_t *self, int64_t part, ecc_ps_t until, int64_t max_events);

/* From any thread: lets a call of ecc_team_advance end soon, as if max_events had been reached. It may be missed. */
void ecc_team_stop(ecc_team_t *self);

/*
 * From now on a part runs at most `most` events in a call: if it would run more, the call ends with ECC_STOP_NOT_YET,
 * and parts may be at different times until a later call ends otherwise.
 */
void ecc_team_set_most(ecc_team_t *self, int64_t most);

/* Checks every invariant: 0 or the code of a broken one. */
ECC_MUST_CHECK int ecc_engine_verify(const ecc_engine_t *self);

/* Text of a code: the invalid value, and the allowed ones. */
const char *ecc_engine_error_text(int code);

/* cdef: end */

#endif
