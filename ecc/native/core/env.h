#ifndef ECC_ENV_H
#define ECC_ENV_H

/* Hooks, and the fields that they see: `env`. */

#include "core/kinds.h"

/* cdef: begin */

/* The fields that a hook of a link sees; it may write those marked w. */
typedef struct {
    double now;      /* s */
    double capacity; /* bit/s */
    int64_t buffer;  /* bytes, -1 unlimited */
    int64_t queue;   /* bytes in the queue of the packet, including the one in service; without a packet, the backlog */
    int64_t backlog; /* bytes in all queues of the link */
    int64_t queue_index;  /* w: number of the queue of the packet, from 0; on_classify and on_select only */
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
    double wait;          /* w: s until the next on_select, which serves no packet now; <= 0: it serves one */
    int64_t filter;       /* w: enum ecc_ack_filter, on_arrival only; on_drop: 1 if an ACK filter drops the packet */
} ecc_link_env_t;

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
    double timer;         /* w: s until on_timer; of on_receive and on_report, until on_report; < 0: not set */
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
    int64_t control_size; /* w: bytes of a packet to on_control, < 1: none; on_receive and on_report only */
    int64_t control_kind; /* w: >= 0, the kind that on_control receives; on_receive and on_report only */
    int64_t limited_by;   /* enum ecc_send_limit: why the last TRY-SEND sent no more (S-176) */
    double idle;          /* s since the last packet was sent; on_restart only, else 0 */
    double rto;           /* s, retransmission timeout; on_restart only, else 0 */
    int64_t transport;    /* enum ecc_transport_kind */
} ecc_flow_env_t;

/* Returns 0, or any other code, which stops the run. */
typedef int32_t (*ecc_hook_t)(void *state, void *header, void *params, void *env);

/* cdef: end */

#endif
