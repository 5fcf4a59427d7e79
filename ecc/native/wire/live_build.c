/*
 * How a live run is built and freed: engines, frames, and a socket for each port.
 *
 * Not here: the run (live_run.c).
 */

#define _GNU_SOURCE

#include "wire/live.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/cut.h"
#include "core/state.h"
#include "wire/live_state.h"

void
ecc_live_free(ecc_live_t *self)
{
    ecc_memory_t memory;
    void *block = self;

    if (self == NULL) {
        return;
    }
    for (int64_t i = 0; i < self->n_ports && self->ports != NULL; i++) {
        ecc_live_socket_free(&self->ports[i].socket);
    }
    for (int64_t i = 0; i < self->n_flows && self->flows != NULL; i++) {
        ecc_foreign_free(&self->flows[i].frames);
    }
    ecc_waiting_free(&self->waiting, &self->memory);
    ecc_live_state_release(self, self->leaving_room, 1, self->leaving);
    ecc_live_state_release(self, self->crossing_size, 1, self->crossing);
    ecc_live_state_release(self, (size_t) self->n_ports, sizeof(*self->polled), self->polled);
    ecc_live_state_release(self, (size_t) self->n_flows, sizeof(*self->flows), self->flows);
    ecc_live_state_release(self, (size_t) self->n_ports, sizeof(*self->ports), self->ports);
    ecc_live_state_release(self, (size_t) self->n_nodes, sizeof(ecc_frames_t *), self->frames);
    ecc_live_state_release(self, (size_t) self->n_nodes, sizeof(ecc_engine_t *), self->engines);
    memory = self->memory;
    ecc_memory_release(&memory, sizeof(*self), &block);
}

/* A port leads to a host of the kernel. */
static int
join_flow(ecc_live_t *self, uint32_t index)
{
    const ecc_live_port_t *face = self->ports[index].face;
    ecc_live_kernel_flow_t *flow;

    if (face->flow < 0 || face->flow >= self->n_flows) {
        return ECC_ERR_PARTITION;
    }
    flow = &self->flows[face->flow];
    if (face->host == ECC_LIVE_RECEIVER) {
        flow->receiver = index;
        return 0;
    }
    flow->sender = index;
    return ecc_foreign_init(&flow->frames, (size_t) ecc_frames_room(self->frames[face->node]), face->room);
}

static int
open_ports(ecc_live_t *self, const ecc_live_config_t *config)
{
    int ret = 0;

    for (int64_t i = 0; i < self->n_ports && ret == 0; i++) {
        ecc_live_port_t *face = &config->ports[i];
        self->ports[i].face = face;
        self->polled[i] = (struct pollfd) { .fd = (int) face->socket, .events = POLLIN };
        if (face->node < 0 || face->node >= self->n_nodes || face->peer < 0
            || face->peer >= config->engines[face->node]->cut->n_parts) {
            return ECC_ERR_PARTITION;
        }
        ret = ecc_live_socket_init(
            &self->ports[i].socket, (int) face->socket, (size_t) ecc_frames_room(self->frames[face->node]));
        ret = ret < 0 ? ECC_LIVE_OF_SYSTEM + ret : 0;
        if (ret == 0 && face->host != ECC_LIVE_NODE) {
            ret = join_flow(self, (uint32_t) i);
        }
    }
    for (int64_t i = 0; i < self->n_flows && ret == 0; i++) {
        if ((self->flows[i].sender == ECC_LIVE_NO_PORT) != (self->flows[i].receiver == ECC_LIVE_NO_PORT)) {
            ret = ECC_ERR_PARTITION;
        }
    }
    return ret;
}

static int
build(ecc_live_t *self, const ecc_live_config_t *config)
{
    self->n_nodes = config->n_nodes;
    self->n_ports = config->n_ports;
    self->n_flows = config->engines[0]->n_flows;
    self->slow = config->slow;
    self->longest_step = config->longest_step;
    self->crossing_size = (size_t) ecc_frames_crossing_size(config->frames[0]);
    ecc_waiting_init(&self->waiting, self->crossing_size);
    self->engines = ecc_live_state_allocate(self, (size_t) self->n_nodes, sizeof(ecc_engine_t *));
    self->frames = ecc_live_state_allocate(self, (size_t) self->n_nodes, sizeof(ecc_frames_t *));
    self->ports = ecc_live_state_allocate(self, (size_t) self->n_ports, sizeof(*self->ports));
    self->flows = ecc_live_state_allocate(self, (size_t) self->n_flows, sizeof(*self->flows));
    self->polled = ecc_live_state_allocate(self, (size_t) self->n_ports, sizeof(*self->polled));
    self->crossing = ecc_live_state_allocate(self, self->crossing_size, 1);
    if (self->engines == NULL || self->frames == NULL || self->ports == NULL || self->flows == NULL
        || self->polled == NULL || self->crossing == NULL) {
        return ECC_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < self->n_flows; i++) {
        self->flows[i].sender = self->flows[i].receiver = ECC_LIVE_NO_PORT;
    }
    for (int64_t i = 0; i < self->n_nodes; i++) {
        const ecc_cut_t *cut = config->engines[i]->cut;
        self->engines[i] = config->engines[i];
        self->frames[i] = config->frames[i];
        if (cut == NULL || cut->n_parts < self->n_nodes) {
            return ECC_ERR_PARTITION;
        }
    }
    return open_ports(self, config);
}

int
ecc_live_new(const ecc_live_config_t *config, ecc_live_t **live)
{
    ecc_memory_t memory;
    ecc_live_t *self;
    void *block = NULL;
    int ret;

    *live = NULL;
    if (config->n_nodes < 1 || config->n_nodes > ECC_MAX_PARTS || config->n_ports < 0 || !(config->slow > 0.0)) {
        return ECC_ERR_PARTITION;
    }
    ecc_memory_init(&memory, NULL);
    ret = ecc_memory_resize(&memory, 0, sizeof(*self), &block);
    if (ret != 0) {
        return ret;
    }
    self = block;
    self->memory = memory;
    ret = build(self, config);
    if (ret != 0) {
        ecc_live_free(self);
        return ret;
    }
    *live = self;
    return 0;
}
