#ifndef ECC_RESULTS_H
#define ECC_RESULTS_H

/* Results of a run: the report of a failure, counters, and results of flows, transfers and links. */

#include "core/kinds.h"

/* cdef: begin */

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

/* A packet that a part has put on a wire with a HOP at its end. */
typedef struct {
    ecc_ps_t time; /* arrival at the end */
    int64_t link;
    int64_t part; /* part that has the HOP */
} ecc_wire_entry_t;

/* The monitor interval of a flow: from the last observation, or from time 0, until now (S-225). */
typedef struct {
    double now;        /* s */
    double duration;   /* s */
    double sent;       /* bytes, retransmitted ones included */
    double delivered;  /* bytes ACKed */
    double lost;       /* bytes */
    double n_rtts;     /* number of RTTs measured */
    double rtt;        /* s, their mean, 0 without any */
    double rtt_first;  /* s, mean of the first floor(n_rtts/2) of them; with fewer than two: rtt */
    double rtt_second; /* s, mean of the others; 0 without any */
    double min_rtt;    /* s, their minimum, 0 without any */
    double path_rtt;   /* s, minimum RTT since the start of the flow, 0 before any */
    double srtt;       /* s */
    double rate;       /* bit/s, now */
    double window;     /* bytes, now; 0: not window-clocked */
    double in_flight;  /* bytes, now */
    double active;     /* 1: the flow has started and has not ended; otherwise 0 */
} ecc_observation_t;

/* cdef: end */

#endif
