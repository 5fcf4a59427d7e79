#ifndef ECC_LIVE_H
#define ECC_LIVE_H

/*
 * The nodes of a network, each an engine of one part (S-121), joined by real links. A packet that leaves a node is
 * sent as a frame on a packet socket of Linux when it is due, and enters the next node when it arrives. One thread
 * runs all nodes, on one clock.
 *
 * A port may lead to a host of the kernel instead, which sends or receives for a flow. Its frames are then packets of
 * that flow in the network, and the sender and receiver of the flow here are silent.
 *
 * The clock is real time divided by `slow`. A steady clock advances by at most `longest_step` between two looks,
 * unless no node had anything to do for longer: while the thread is stalled, by other threads or by its own work, time
 * stops for all nodes.
 */

#include "core/engine.h"
#include "wire/frame.h"

/* cdef: begin */

/* At the far end of a real link: another node, or the host of the kernel that sends or receives for a flow. */
enum ecc_live_host { ECC_LIVE_NODE, ECC_LIVE_SENDER, ECC_LIVE_RECEIVER };

/* One end of a real link. */
typedef struct {
    int64_t socket;           /* AF_PACKET, SOCK_RAW, bound to an interface; stays the caller's */
    int64_t node;             /* node of this port */
    int64_t peer;             /* part at the other end, on this machine or another */
    int64_t host;             /* enum ecc_live_host: kind of the far end */
    int64_t flow;             /* flow of the host of the kernel at the far end */
    int64_t room;             /* packets of that flow that the network holds, estimated */
    ecc_frame_port_t *frames; /* with the addresses of both; stays the caller's */
    int64_t sent;             /* frames */
    int64_t not_sent;         /* frames that the kernel refused */
    int64_t received;         /* frames received, including those of others */
    int64_t refused;          /* packets that the node did not expect */
    int64_t overrun;          /* frames that came while the ring was full, including those of others */
} ecc_live_port_t;

typedef struct {
    int64_t n_nodes;
    ecc_engine_t *const *engines; /* engines of some parts; the others are on other machines */
    ecc_frames_t *const *frames;  /* frames by node */
    int64_t n_ports;
    ecc_live_port_t *ports; /* stay the caller's */
    double slow;            /* seconds for one of the engines */
    int64_t longest_step;   /* ns of real time; 0: the clock never stops */
} ecc_live_config_t;

typedef struct {
    int64_t now;     /* ps of the engines */
    int64_t elapsed; /* ns of real time, in calls of ecc_live_advance */
    int64_t frozen;  /* ns of `elapsed` in which the clock stood */
    int64_t longest; /* ns, the longest time between two looks at the clock without sleep */
    int64_t looks;
    int64_t late[ECC_N_BINS]; /* packets by lateness [ns of the engines] */
    int64_t latest;           /* ns */
} ecc_live_stats_t;

typedef struct ecc_live ecc_live_t;

/*
 * NULL on failure: a code of the engine, or, below -1000, that of the system less 1000. The arrays are copied, but
 * `ports`.
 */
ECC_MUST_CHECK int ecc_live_new(const ecc_live_config_t *config, ecc_live_t **live);
void ecc_live_free(ecc_live_t *self);

/*
 * Runs all nodes up to a time of the engines, or for some ns of real time. Returns why it ended: ECC_STOP_UNTIL,
 * ECC_STOP_MAX_EVENTS, or ECC_STOP_ERROR, and then the report of an engine says more.
 */
ECC_MUST_CHECK int ecc_live_advance(ecc_live_t *self, ecc_ps_t until, int64_t real_time);

/*
 * Lets come in what comes, for some ns of real time or until the first frame of the run is there; no time passes.
 * Returns ECC_STOP_UNTIL if one is, ECC_STOP_MAX_EVENTS if none is, or ECC_STOP_ERROR.
 */
ECC_MUST_CHECK int ecc_live_await(ecc_live_t *self, int64_t real_time);

/* Waits, not for long, until all that was sent has come; returns how many frames have not. To be called at the end. */
int64_t ecc_live_settle(ecc_live_t *self);

void ecc_live_stats(const ecc_live_t *self, ecc_live_stats_t *stats);

/* cdef: end */

#endif
