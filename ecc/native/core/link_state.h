#ifndef ECC_LINK_STATE_H
#define ECC_LINK_STATE_H

/* The records of links and their routers: queues, pauses and servers. */

#include <stdbool.h>

#include "core/channel.h"
#include "core/engine.h"
#include "core/memory.h"
#include "core/packets.h"
#include "core/ring.h"
#include "core/slots.h"

__extension__ typedef __int128 ecc_wide_t;

/* One of the queues of a link that schedules (S-112); see scheduler.h. */
typedef struct {
    ecc_fifo_t packets;  /* waiting packets, each with the arrival time of its successor */
    ecc_ps_t since;      /* arrival time of the first waiting packet */
    ecc_bytes_t bytes;   /* bytes, including the packet in service */
    ecc_bytes_t quantum; /* bytes that it may send in each turn */
    ecc_bytes_t deficit; /* bytes that it may still send in this turn */
    int64_t dropped;     /* packets */
    int64_t marked;      /* packets */
    uint32_t next;       /* queue that has its turn after this one, or ECC_NO_PACKET */
    bool is_active;      /* it will have a turn */
} ecc_queue_t;

/* Rounds of a link that schedules by turns: queues that were empty (RFC 8290: new) go first. */
enum ecc_round { ECC_ROUND_NEW, ECC_ROUND_OLD, ECC_N_ROUNDS };

/*
 * A link and its first router; an additional router uses only the fields marked "router". A packet touches the first
 * two cache lines, a hook the third; fields of spec are repeated there for that reason.
 */
typedef struct {
    _Alignas(ECC_CACHE_LINE) ecc_ring_t ring; /* the queue; if the link schedules: only the packet in service */
    ecc_bytes_t queue;
    ecc_ps_t free_at; /* time at which the last bit in the queue leaves it */
    ecc_fifo_t wire;
    ecc_bytes_t max_bytes;     /* capacity of the queue; INT64_MAX: unlimited */
    uint32_t next;             /* next router at this link, 0: no other */
    bool has_departure_events; /* a router has on_departure, there is an impairment, or it schedules */
    bool measures_queue;       /* area and histogram are kept */
    bool schedules;            /* it has queues */
    bool has_changes : 1;      /* its capacity changes */
    bool is_plain : 1;         /* it needs no code beyond that of most links (ecc_link_set_plain) */

    _Alignas(ECC_CACHE_LINE) ecc_ps_t tx_time[3]; /* transmission time of the last size, by enum ecc_packet_kind */
    int32_t tx_size[3];                           /* last size, by enum ecc_packet_kind; 0 if the capacity changes */
    uint32_t max_packets;                         /* maximum number of packets in the queue */
    ecc_ps_t delay;                               /* propagation delay of the wire */
    int64_t arrived;
    ecc_bytes_t queue_peak;

    _Alignas(ECC_CACHE_LINE) ecc_bytes_t queue_low; /* router */
    double next_interval;                           /* router */
    void *state;                                    /* router */
    void *params;                                   /* router */
    ecc_hook_t on_arrival;                          /* router */
    double capacity;                                /* before any change */
    ecc_bytes_t buffer;                             /* max_bytes as hooks see it, -1 if unlimited */
    uint16_t header_offset;                         /* router */
    bool wants_flow_queue;                          /* router */
    bool wants_random;                              /* router */
    uint32_t queue_index;                           /* queue of the packet for which hooks are called */

    _Alignas(ECC_CACHE_LINE) ecc_ps_t sojourn; /* waiting time of the packet of a hook, if the hook may know it */
    ecc_queue_t *queues;                       /* queues of a link that schedules, else NULL */
    ecc_fifo_t rounds[ECC_N_ROUNDS];           /* lists of queues, by enum ecc_round */
    uint32_t n_queues;
    uint32_t n_waiting;      /* waiting packets in all queues */
    uint32_t in_service;     /* queue of the packet in service */
    ecc_ps_t wakes_at;       /* time of the DEPARTURE without a packet that on_select wants (S-226) */
    bool filters;            /* an ACK filter drops the packet of a hook */
    uint32_t n_zero_waits;   /* router: INTERVALs in a row that on_interval wanted in less than 1 ps */
    ecc_wide_t area;         /* sum of queue * ps since the last sample */
    ecc_ps_t measured_until; /* end of the time that area covers */
    int64_t *histogram;      /* times by bin, then arrivals; or NULL */
    int64_t dropped;
    int64_t dropped_bytes;
    int64_t marked;
    uint64_t random;        /* router */
    ecc_link_t spec;        /* router: at and hooks */
    ecc_channel_t *channel; /* impairment of the wire, or NULL */
    int64_t lost;
    int64_t lost_bytes;
    const ecc_change_t *changes; /* changes of the capacity, or NULL */
    double advertised_capacity;  /* the last capacity > 0 before next_change */
    uint32_t n_changes;
    uint32_t next_change; /* first change after now */
    uint32_t next_served; /* first change after free_at */
    struct {
        int64_t arrived;
        int64_t departed;
        int64_t departed_bytes;
    } count; /* packets and bytes, by debug builds, for ecc_engine_verify */
} ecc_link_state_t;

/* PFC of a link and a class (S-139); see pause.h. */
typedef struct {
    ecc_bytes_t held;    /* bytes that came over the link and are in queues behind it */
    ecc_bytes_t counted; /* `held`, counted again for ecc_pause_verify */
    ecc_ps_t since;      /* start of the last pause */
    ecc_ps_t time;       /* duration of all pauses before it */
    int64_t count;       /* PAUSE frames sent to it */
    bool asked;          /* the last frame sent to it was PAUSE */
    bool is_paused;      /* the last frame that reached it was PAUSE */
} ecc_pause_class_t;

typedef struct {
    ecc_ring_t frames; /* on their way to the link: `leaves` when they come, `of` the class, `size` 1: PAUSE */
    ecc_pause_class_t classes[ECC_N_PRIORITIES];
    uint32_t next;  /* next link of a list in the search for deadlocks */
    bool is_moving; /* it may yet serve a packet, in the search for deadlocks */
} ecc_pause_t;

/* The server of a link (S-155); see server.h. */
typedef struct {
    ecc_server_t spec;
    const ecc_ps_t *opportunities; /* n_opportunities */
    ecc_ps_t done;                 /* time at which the last packet was transmitted; its slot may be later */
    ecc_ps_t full_at;              /* time at which the bucket is full */
    ecc_ps_t base;                 /* start of the current repetition of the opportunities */
    uint32_t next;                 /* index of the next opportunity */
    ecc_ps_t opportunity;          /* time of the last opportunity reached */
    ecc_bytes_t left;              /* bytes that may still leave at it */
    uint64_t random;
    ecc_slots_t slots;
} ecc_server_state_t;

#endif
