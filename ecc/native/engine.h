#ifndef ECC_ENGINE_H
#define ECC_ENGINE_H

#include <stdint.h>

/* cdef: begin */

/* What a hook of a link sees; it may write the fields marked w. */
typedef struct {
    double now;           /* s */
    double capacity;      /* bit/s */
    int64_t buffer;       /* bytes, -1 unlimited */
    int64_t queue;        /* bytes, the packet in service included */
    int64_t queue_low;    /* bytes, lowest since the last on_interval */
    int64_t packet_size;  /* bytes */
    int64_t kind;         /* 0 data, 1 ACK */
    int64_t flow;         /* index */
    int64_t link;         /* index */
    int64_t flow_queue;   /* bytes of this flow in the queue, if asked for, else 0 */
    double random;        /* uniform [0, 1), if asked for, else 0 */
    int64_t drop;         /* w: non-zero drops the packet; on_arrival only */
    double next_interval; /* w: s until the next on_interval, <= 0: none */
} ecc_link_env_t;

/* What a hook of a flow sees; it may write the fields marked w. */
typedef struct {
    double now;          /* s */
    int64_t packet_size; /* bytes */
    double rtt;          /* s, last sample, 0 before any */
    double srtt;         /* s */
    double min_rtt;      /* s */
    int64_t in_flight;   /* bytes */
    int64_t delivered;   /* bytes, ACKed */
    int64_t lost;        /* bytes */
    double rate;         /* w: bit/s */
    double window;       /* w: bytes, 0 = not window-clocked */
    double timer;        /* w: s from now until on_timer, < 0: none */
    int64_t kind;        /* of a loss: 0 gap in the ACKs, 1 timeout */
    int64_t flow;        /* index */
    double random;       /* uniform [0, 1), if asked for, else 0 */
} ecc_flow_env_t;

/* 0: fine; anything else: the hook failed and the run stops. */
typedef int32_t (*ecc_hook_t)(void *state, void *header, void *params, void *env);

/* One line of text for a code of the engine. */
const char *ecc_engine_error_text(int code);

/* cdef: end */

#endif
