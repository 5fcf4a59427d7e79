#ifndef ECC_LIVE_STATE_H
#define ECC_LIVE_STATE_H

/* The records of a live run: its nodes, ports and clock. */

#include <poll.h>

#include "core/memory.h"
#include "wire/foreign.h"
#include "wire/live.h"
#include "wire/live_socket.h"
#include "wire/waiting.h"

#define ECC_LIVE_OF_SYSTEM (-1000) /* errors of the system are below */
#define ECC_LIVE_NO_PORT UINT32_MAX

typedef struct {
    ecc_live_port_t *face; /* port as the caller described it */
    ecc_live_socket_t socket;
    ecc_ps_t last; /* arrival of the last packet */
} ecc_live_connection_t;

/* A flow between hosts of the kernel. */
typedef struct {
    ecc_foreign_t frames;
    uint32_t sender;   /* port of its sender, or ECC_LIVE_NO_PORT */
    uint32_t receiver; /* port of its receiver, or ECC_LIVE_NO_PORT */
} ecc_live_kernel_flow_t;

struct ecc_live {
    ecc_memory_t memory;
    int64_t n_nodes;
    int64_t n_ports;
    ecc_engine_t **engines;
    ecc_frames_t **frames;
    ecc_live_connection_t *ports;
    int64_t n_flows;
    ecc_live_kernel_flow_t *flows; /* flows by number; those of the engine have no ports */
    struct pollfd *polled;
    ecc_waiting_t waiting;
    size_t crossing_size;
    unsigned char *crossing; /* crossing that enters */
    unsigned char *leaving;  /* crossings that leave */
    size_t leaving_room;
    double slow;
    int64_t longest_step;
    int64_t clock;     /* ns: time of the engines, times slow */
    int64_t looked;    /* ns of CLOCK_MONOTONIC at the last look at the clock */
    int64_t stepped;   /* ns by which the clock advanced at that look */
    int64_t stamped;   /* ns of CLOCK_REALTIME at that look */
    int64_t may_sleep; /* ns after the last look in which there is nothing to do */
    ecc_ps_t now;
    int64_t failed; /* index of the failed node */
    ecc_live_stats_t stats;
};

/* Zeroed memory for n items, at least one byte; NULL without memory. */
static inline void *
ecc_live_state_allocate(ecc_live_t *self, size_t n, size_t size)
{
    void *block = NULL;

    return ecc_memory_resize(&self->memory, 0, n * size + 1, &block) == 0 ? block : NULL;
}

static inline void
ecc_live_state_release(ecc_live_t *self, size_t n, size_t size, void *block)
{
    ecc_memory_release(&self->memory, n * size + 1, &block);
}

#endif
