#ifndef ECC_FLOW_STATE_H
#define ECC_FLOW_STATE_H

/* The records of flows and transfers: receivers, loss recovery, timers, senders, and the transfers that wait. */

#include <stdbool.h>

#include "core/channel.h"
#include "core/engine.h"
#include "core/memory.h"
#include "core/packets.h"
#include "core/ranges.h"
#include "core/sacks.h"

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
    int64_t sender_base;    /* bytes that the sender had sent when it last abandoned all data in flight */
    int64_t sender_missing; /* missing bytes that the sender knows of */
    int64_t acks_lost;
    int64_t n_delayed;
    int64_t marked;        /* bytes of data that came marked */
    int64_t sender_marked; /* marked bytes that the sender knows of */
    int64_t answered;      /* offset of the last packet that carried CWR */
    bool has_marks;        /* a mark since the last CWR (S-109) */
    bool was_marked;       /* mark of the last packet */
    bool owes_answer;      /* the next new packet carries CWR */
    uint32_t reordering_threshold;
    uint32_t delayed;      /* the packet whose ACK is delayed, or ECC_NO_PACKET */
    uint32_t n_holes;      /* number of holes, less than the threshold */
    ecc_channel_t channel; /* the pure delay of its ACKs, if the flow has an impairment */
} ecc_receiver_t;

/*
 * ECN of a packet, behind the regions of protocols, in runs with packets that can be marked (S-105). In a header it is
 * one word, with the codepoint in its lowest two bits.
 */
typedef struct {
    int64_t codepoint; /* enum ecc_codepoint */
    int64_t word;      /* in data: 1 with CWR; in an ACK: its report of marks (S-108, S-109) */
} ecc_ecn_t;

/*
 * The report of an ACK, after its header. A packet of data to a receiver that finds missing data has in `front` the
 * bytes that the sender had abandoned (S-54).
 */
typedef struct {
    int64_t front; /* bytes accounted for; with a transport: the cumulative ACK; of type 4: the packet number */
    union {
        int64_t missing;
        struct {
            uint32_t sack;      /* SACK blocks of a transport with SACK, also in its data: see sacks.h */
            uint32_t ack_delay; /* ACK Delay [us] (RFC 9000, 13.2.5), with a transport of type 4 */
        };
    };
} ecc_ack_info_t;

/* State of the choice of a route for the next packet of a flow (S-131); see spray.h. */
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
    ecc_ps_t min_rto;                    /* as in the configuration, whose lines packets do not touch otherwise */
    ecc_ranges_t sacked;                 /* empty for type 3, whose segments know it */
    ecc_ranges_t held;                   /* ranges at the receiver beyond its rcv_nxt, which is the flow's `received` */
    int64_t recent[ECC_MAX_SACK_BLOCKS]; /* a sequence number in each range that an ACK reports, newest first */
    uint32_t recent_ranges[ECC_MAX_SACK_BLOCKS]; /* ranges of `held` that contain these numbers */
    uint8_t n_recent;
    uint8_t n_dup_acks;       /* duplicate ACKs, up to dup_thresh */
    uint8_t dup_thresh;       /* duplicate ACKs that prove a loss (DupThresh of RFC 6675) */
    bool had_partial_ack : 1; /* a partial ACK has arrived in this recovery */
    bool uses_sack : 1;
    bool recovering : 1;
    bool recovered : 1;
    bool retransmit_first : 1;
} ecc_transport_t;

/* A segment that is not yet acknowledged (S-144). */
enum ecc_sent_state { ECC_SENT_OUTSTANDING, ECC_SENT_LOST, ECC_SENT_SACKED };

#define ECC_NO_SEGMENT UINT32_MAX

typedef struct {
    int64_t begin;
    ecc_ps_t sent; /* last */
    int64_t order; /* number of its last transmission among all of the flow */
    int32_t size;
    uint32_t before;   /* outstanding segment sent before it, or ECC_NO_SEGMENT */
    uint32_t after;    /* outstanding segment sent after it; of a sacked one: a segment up to which all are sacked */
    uint8_t state;     /* enum ecc_sent_state */
    uint8_t probes;    /* additional copies in flight */
    bool was_repeated; /* sent more than once */
    bool is_repair;    /* outstanding, and sent again because it was lost */
} ecc_sent_t;

/* Further purposes of the timer of a transport of type 3 (S-153). */
enum ecc_awaits { ECC_AWAITS_NOTHING, ECC_AWAITS_REORDERING, ECC_AWAITS_PROBE };

/* RACK-TLP: the state of a transport of type 3 in addition to its ecc_transport_t (S-144); see rack.h. */
typedef struct {
    ecc_sent_t *items; /* a ring, in the order of the stream */
    uint32_t room;     /* a power of two */
    uint32_t first;    /* number of the first */
    uint32_t count;
    uint32_t oldest; /* outstanding segment sent first, or ECC_NO_SEGMENT */
    uint32_t newest;
    uint32_t earlier; /* last outstanding segment that was sent before `order`, or ECC_NO_SEGMENT */
    uint32_t *lost;   /* numbers of lost segments, a heap with the first of the stream at its top */
    uint32_t n_lost;  /* entries of the heap, including segments delivered meanwhile */
    uint32_t n_sacked;
    int32_t multiplier; /* multiplier of the reordering window */
    int32_t persists;
    int64_t dsack_round; /* end of the round of duplicates (RFC 8985), -1 without one */
    int64_t in_flight;
    int64_t lost_bytes;
    int64_t sacked_bytes;
    int64_t repairs; /* bytes of outstanding segments that were sent again because they were lost */
    int64_t n_transmissions;
    int64_t order;     /* number of the last transmission among delivered segments, -1: none */
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
    bool undone;        /* the current ACK shows that the episode was spurious */
    bool has_duplicate; /* at the receiver: the last packet was a duplicate */
} ecc_rack_t;

/* A packet that a transport of type 4 has sent (S-212). */
enum ecc_quic_state { ECC_QUIC_IN_FLIGHT, ECC_QUIC_ACKED };

typedef struct {
    int64_t begin;
    ecc_ps_t sent;
    int32_t size;
    uint8_t state; /* enum ecc_quic_state */
} ecc_quic_packet_t;

/* QUIC: the state of a transport of type 4 in addition to its ecc_transport_t (S-212); see quic.h. */
typedef struct {
    ecc_quic_packet_t *items; /* a ring, in the order of packet numbers */
    uint32_t room;            /* a power of two */
    int64_t first;            /* packet number of the oldest packet in flight, or `next` */
    int64_t next;             /* packet number of the next packet */
    int64_t largest_acked;    /* packet number, -1: none */
    int64_t in_flight;        /* bytes in flight (RFC 9002, B.2) */
    int64_t recovery_from;    /* packets with lower numbers were sent before the recovery began; 0: no recovery */
    int64_t probe;            /* packet number of the packet whose data the next probe may repeat */
    int64_t probe_end;        /* value of `next` when probes were requested */
    ecc_ranges_t lost;        /* data of lost packets; the first byte of it is not acknowledged */
    ecc_ps_t loss_time;       /* time at which the oldest packet is lost by the time threshold, or ECC_NEVER */
    ecc_ps_t first_sample;    /* time of the first RTT sample, or ECC_NEVER */
    ecc_ps_t lost_since;      /* first packet of the latest run of lost packets: time sent, or ECC_NEVER */
    ecc_ranges_t numbers;     /* at the receiver: packet numbers received */
    ecc_ps_t largest_at;      /* at the receiver: arrival of the largest packet number */
    int64_t recent[ECC_MAX_SACK_BLOCKS]; /* at the receiver: a packet number in each range that has grown last */
    uint8_t n_recent;
    uint8_t n_probes; /* probes requested */
} ecc_quic_t;

/* RTTs that the sender of a flow has measured since the last sample (S-197). */
typedef struct {
    double sum;  /* s */
    double peak; /* s */
    int64_t count;
} ecc_rtts_t;

/* The monitor interval of a flow, and the values of its counters at the start of it (S-224); see monitor.h. */
typedef struct {
    ecc_ps_t since;
    int64_t sent;
    int64_t delivered;
    int64_t lost;
    double *rtts; /* RTTs measured in the interval [s] */
    size_t n_rtts;
    size_t room;
    uint32_t flow;
} ecc_monitor_t;

/* The pacer of a window (S-222); see pacer.h. */
typedef struct {
    double credit; /* bytes that may be sent at once */
    ecc_ps_t at;   /* time of the last update of `credit` */
} ecc_pacer_t;

/* Proportional rate reduction of a flow, in bytes (S-164); see transport.h. */
typedef struct {
    int64_t delivered;  /* bytes delivered since the last congestion response */
    int64_t out;        /* bytes sent since the last congestion response */
    int64_t recover_fs; /* bytes neither acknowledged nor sacked before the response (RecoverFS) */
    int64_t credit;     /* bytes that may be sent before the next ACK (SndCnt) */
    int64_t until;      /* end of a reduction for marks, when all below is acknowledged; 0: no such reduction (S-166) */
} ecc_prr_t;

enum { ECC_REPORT_TIMER = ECC_MAX_TIMERS, ECC_N_ALARMS }; /* the timers of the sender, then that of the receiver */

/* The timers of hooks of a flow, and its count (S-49, S-128, S-210); see alarms.h. */
typedef struct {
    ecc_ps_t timers[ECC_N_ALARMS]; /* expiry of each timer, or ECC_NEVER */
    int64_t count;                 /* value of `sent` at which on_count is called, or INT64_MAX */
} ecc_alarms_t;

/* The random phase of a flow (S-186) or of a link (S-189); see phase.h. */
typedef struct {
    uint64_t random;
    double offset;        /* share of a packet time, below 1 */
    double stretch;       /* factor of the next pacing gap of a flow */
    ecc_ps_t packet_time; /* transmission time at the slowest link of the route of a flow */
    uint32_t n;           /* packets since the offset was drawn */
} ecc_phase_t;

/*
 * Kinds of flows for which functions are compiled, without tests for features that such flows do not have (kind_of in
 * flow.c).
 */
enum ecc_flow_kind {
    ECC_ANY,
    ECC_PLAIN, /* no transport */
    ECC_BASIC, /* a transport of type 1 or 2 */
    ECC_RACK   /* a transport of type 3 */
};

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
    bool changed : 1;            /* rate or window have changed since the last TRY-SEND */
    uint8_t kind : 2;            /* enum ecc_flow_kind */
    bool timeout_pending : 1;    /* there is a TIMEOUT */
    bool immediate_ack : 1;      /* the receiver needs no event: S-33 */
    bool reliable : 1;           /* it has a transport, see transport.h */
    bool has_alarms : 1;         /* see alarms.h */
    bool sprays : 1;             /* it has several routes */
    bool has_rack : 1;           /* see rack.h */
    bool has_quic : 1;           /* see quic.h */
    bool uses_sack : 1;          /* its transport uses SACK */
    bool has_writes : 1;         /* its application writes in time (S-161) */
    bool uses_prr : 1;           /* proportional rate reduction in recoveries (S-164) */
    bool uses_prr_for_marks : 1; /* proportional rate reduction after marks (S-166) */
    bool has_restart : 1;        /* it has on_restart (S-177) */
    uint8_t limited_by : 2;      /* enum ecc_send_limit, of the last TRY-SEND (S-176) */
    bool jitters : 1;            /* its phase is drawn, see phase.h */
    bool paces : 1;              /* its window is paced (S-222) */
    bool has_receive : 1;        /* it has on_receive */
    bool reduces_as_linux : 1;   /* a retransmission that is lost again: ECC_LOST_LINUX (S-163) */
    uint8_t n_zero_waits;        /* TIMERs in a row that on_timer wanted in less than 1 ps */

    _Alignas(ECC_CACHE_LINE) double rate;
    double window;
    double rtt;
    double srtt;
    double min_rtt;
    ecc_ps_t timer_start;
    int64_t received;
    int32_t last_size; /* header_bytes included; 0 before any */
    uint32_t position; /* position of its first link in the table of hops */

    _Alignas(ECC_CACHE_LINE) void *state;
    void *params;
    ecc_hook_t on_send;
    ecc_hook_t on_ack;
    ecc_ps_t access_delay;
    ecc_ps_t ack_delay;
    int64_t size;
    int32_t packet_size;
    bool wants_random : 1;
    bool started : 1; /* a transfer has started and has not finished */
    bool completed : 1;
    bool draws_sizes : 1;
    bool has_header_bytes : 1;
    bool needs_receiver : 1; /* see receiver.h */
    bool reorders_acks : 1;  /* its ACKs are in the heap of its channel */
    bool can_be_marked : 1;  /* its packets can be marked */
    uint8_t n_timeouts;      /* timeouts since the last ACK, up to ECC_MAX_(PROBE_)BACKOFFS */
    uint16_t header_offset;

    _Alignas(ECC_CACHE_LINE) const ecc_flow_t *spec;
    ecc_ps_t start;
    ecc_ps_t finish;
    uint64_t random;
    uint64_t random_sizes;
    int64_t number;     /* number of the flow; of a transfer: the number of flows and transfers before it (S-57) */
    int32_t full_size;  /* size of full packets after the opening */
    uint32_t n_packets; /* packets in the network; counted for transfers only */
    union {
        uint32_t subsequent; /* index of the transfer subsequent to this one, or ECC_NO_SUBSEQUENT */
        uint32_t next_free;  /* in a free slot: the slot freed before it */
    };
    uint32_t template_index; /* index of the template of a transfer */
} ecc_flow_state_t;

_Static_assert(sizeof(ecc_flow_state_t) == 4 * ECC_CACHE_LINE, "flows are four cache lines");

typedef struct {
    ecc_flow_t spec;
    uint32_t position; /* position of its links in the table of hops */
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
    ecc_pending_transfer_t *pending; /* pending transfers, in the order of their starts */
    ecc_pending_transfer_t *linked;  /* transfers linked after others, to which they are subsequent */
    ecc_transfer_result_t *finished;
    unsigned char *records; /* records of the slots */
    size_t record_size;
    uint32_t n_templates;
    uint32_t max_length; /* links of a template's routes */
    uint32_t first_hop;  /* position of the links of the first slot in the table of hops */
    uint32_t n_slots;    /* slots in use or used before */
    uint32_t n_alive;
    uint32_t free_slot; /* slot freed last */
    uint32_t n_linked;  /* entries of `linked` in use or used before */
    uint32_t free_linked;
    size_t room_linked;
    size_t n_pending;
    size_t n_consumed; /* pending transfers that have started */
    size_t room_pending;
    size_t n_finished;
    size_t room_finished;
    size_t room_records;
    int64_t n_added;
    int64_t n_started;
    ecc_ps_t last_start;
    bool more; /* more transfers will be added */
} ecc_transfers_t;

#endif
