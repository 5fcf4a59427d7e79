#ifndef ECC_KINDS_H
#define ECC_KINDS_H

/* Units of time and size, limits, and the kinds of events, packets, losses and options. */

#include <stdint.h>

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

/* env.kind of on_loss; TIMEOUT of a transport of type 4 is persistent congestion. */
enum ecc_loss_kind { ECC_LOSS_GAP, ECC_LOSS_TIMEOUT };

/* env.kind of on_send. */
enum ecc_segment_kind { ECC_SEGMENT_NEW, ECC_SEGMENT_RETRANSMITTED };

/* How a flow recovers lost data: not at all, by RFC 6582, RFC 6675, RFC 8985 or RFC 9002. */
enum ecc_transport_kind {
    ECC_TRANSPORT_NONE,
    ECC_TRANSPORT_CUMULATIVE,
    ECC_TRANSPORT_SACK,
    ECC_TRANSPORT_RACK,
    ECC_TRANSPORT_QUIC
};

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
    ECC_SCHEDULER_FQ,       /* deficit round robin, queues that were empty first: RFC 8290 */
    ECC_SCHEDULER_SELECT    /* by on_select, which may also let the server wait */
};

/* ACKs that an ACK filter drops when a later ACK of TCP joins their queue (S-227). */
enum ecc_ack_filter {
    ECC_ACK_FILTER_NONE,
    ECC_ACK_FILTER_CONSERVATIVE, /* the first of two */
    ECC_ACK_FILTER_AGGRESSIVE    /* also the last packet of the queue */
};

/* Packets of a flow that its random phase delays (S-186, S-187). */
enum ecc_phase_jitter { ECC_PHASE_NEVER, ECC_PHASE_AT_LINE_RATE, ECC_PHASE_ALWAYS };

/* Choice of the route of the next packet, among several (S-131). */
enum ecc_spraying_kind { ECC_SPRAYING_ROUND_ROBIN, ECC_SPRAYING_RANDOM };

/* Kind of the entity of a report. */
enum ecc_entity_kind { ECC_ENTITY_NONE, ECC_ENTITY_LINK, ECC_ENTITY_FLOW, ECC_ENTITY_TRANSFER };

/* Why a TRY-SEND has ended (S-176). */
enum ecc_send_limit {
    ECC_LIMIT_DATA,   /* nothing to send: of the application, or within the receiver's window */
    ECC_LIMIT_WINDOW, /* no room in the window for a full packet */
    ECC_LIMIT_PACER   /* the rate */
};

/* What an action of the caller sets (S-223). */
enum ecc_action_kind {
    ECC_ACTION_RATE,   /* bit/s */
    ECC_ACTION_WINDOW, /* bytes */
    ECC_ACTION_WORD    /* a word of the record of the flow, which its hooks read */
};

/* cdef: end */

#endif
