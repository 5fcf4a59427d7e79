#ifndef ECC_INPUTS_H
#define ECC_INPUTS_H

/* The configuration of an engine: links, flows, transfers, impairments, samples and the part of the network. */

#include <stddef.h>

#include "core/env.h"
#include "core/kinds.h"

/* cdef: begin */

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
    ecc_hook_t on_select;
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
    double pacing_gain;           /* pacing rate of a window, in windows per smoothed RTT (RFC 9002, 7.7); 0: none */
    ecc_bytes_t pacing_burst;     /* maximum burst of a paced window */
    ecc_bytes_t write_size;       /* bytes that the application writes per write_period; 0: all at the start */
    ecc_ps_t write_period;        /* time between two writes */
    int32_t first_write;          /* index in `writes` of the first write at its own time */
    int32_t n_writes;             /* number of writes at their own times; 0: none */
    int64_t n_forward;            /* links of the route: the next n_forward of `routes` */
    int64_t n_reverse;            /* links that carry the ACKs: the n_reverse of `routes` after the route */
    int32_t n_alternatives;       /* further routes: `routes` continues with their lengths, then with their links */
    int32_t header_bytes;         /* bytes by which packets on links, and for the pacer, exceed their data; < 2^16 */
    ecc_bytes_t trimmed_size;     /* size of a trimmed packet on links; 0: packets cannot be trimmed */
    int32_t impairment;           /* number of the impairment of ack_delay, from 1; 0: no impairment */
    int32_t bottleneck;           /* offset of an int64 of `state` that samples show, -1 without one */
    int32_t header_offset;        /* as header_offset of a router */
    int8_t priority;              /* class of its packets and ACKs if links are paused, below ECC_N_PRIORITIES */
    int8_t ecn;                   /* enum ecc_ecn_kind */
    int8_t transport;             /* enum ecc_transport_kind */
    int8_t lost_retransmission;   /* enum ecc_lost_retransmission, of a transport of type 3 */
    int8_t uses_prr;              /* enum ecc_prr_use, of a transport with SACK */
    int8_t spraying;              /* enum ecc_spraying_kind, of several routes */
    int8_t n_timers;              /* timers that its hooks set, up to ECC_MAX_TIMERS; 0 and 1: one */
    int8_t phase_jitter;          /* enum ecc_phase_jitter */
    int16_t wants_random;         /* non-zero: env.random is drawn */
    int16_t enables_subsequent;   /* non-zero, in a template: its transfers may have subsequent ones */
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
    ecc_hook_t on_report;
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
    int64_t jitter_law;     /* enum ecc_jitter_law: jitter in addition to that from jitter_lo to jitter_hi */
    double jitter_scale;    /* normal: mean [ps]; Pareto: minimum [ps] */
    double jitter_spread;   /* normal: standard deviation [ps]; Pareto: 1/shape */
    int64_t burst_kinds;    /* packets that bursts of losses affect: 1 data, 2 ACKs, 3 both; 0: no bursts */
    double burst_begins;    /* probability of a change from the good state to the bad state after a packet */
    double burst_ends;      /* probability of a change from the bad state to the good state after a packet */
    double burst_good_loss; /* loss probability in the good state */
    double burst_bad_loss;  /* loss probability in the bad state */
    int64_t first_delay;    /* index in `delay_changes` of the first change of the delay */
    int64_t n_delays;       /* number of changes of the delay */
} ecc_impairment_t;

enum ecc_jitter_law { ECC_JITTER_UNIFORM, ECC_JITTER_NORMAL, ECC_JITTER_PARETO };

/* A write of an application: the bytes written up to and including it. */
typedef struct {
    ecc_ps_t time; /* after the start of the flow */
    ecc_bytes_t total;
} ecc_write_t;

/* From a time on, packets that enter a channel have this delay in addition to that of the channel. */
typedef struct {
    ecc_ps_t time;
    ecc_ps_t delay;
} ecc_delay_change_t;

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

/* An action of the caller between two calls of ecc_engine_advance, without its value (S-223). */
typedef struct {
    int64_t flow; /* index */
    int64_t kind; /* enum ecc_action_kind */
    double *word; /* ECC_ACTION_WORD: the word, which belongs to the caller; otherwise NULL */
} ecc_action_t;

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
    int64_t n_writes; /* entries of `writes` */
    const ecc_write_t *writes;
    int64_t n_delay_changes; /* entries of `delay_changes` */
    const ecc_delay_change_t *delay_changes;
    int64_t n_servers;
    const ecc_server_t *servers;
    int64_t n_opportunities; /* entries of `opportunities`: the sum of all n_opportunities of servers */
    const ecc_ps_t *opportunities;
    const ecc_begun_t *begun; /* by flow; NULL: no flow has begun before time 0 */
    int64_t n_under_way;      /* entries of `under_way` */
    const ecc_under_way_t *under_way;
    int64_t n_monitors;        /* entries of `monitors`; 0 for a part of a network */
    const int64_t *monitors;   /* indices of the flows that are monitored, increasing (S-224) */
    ecc_event_t *trace;        /* or NULL */
    ecc_samples_t samples;     /* n_samples = 0: none */
    int64_t *histogram;        /* (link, 2, ECC_N_BINS): time, then arrivals, by queue; or NULL */
    ecc_partition_t partition; /* copied; engines may share samples and histogram, as each writes its own entries */
    const ecc_allocator_t *allocator; /* or NULL */
} ecc_config_t;

/* cdef: end */

#endif
