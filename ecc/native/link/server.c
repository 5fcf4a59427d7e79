/*
 * When a packet leaves the queue of a link: by its capacity, which may change (S-26), by a bucket of tokens (S-156),
 * or at opportunities (S-157). Packets leave in order, and the time is known as soon as one is served: nothing here is
 * an event.
 *
 * Not here: slots (slots.c), and what follows when the packet leaves (transit.c).
 */

#include "link/server.h"

#include "link/phase.h"

int
ecc_server_init(ecc_engine_t *self, const ecc_config_t *config)
{
    const ecc_ps_t *opportunities;
    void *block = NULL;
    int ret = 0;

    for (uint32_t i = 0; i < self->n_links; i++) {
        self->n_servers = self->links[i].spec.server > 0 ? self->n_links : self->n_servers;
    }
    if (self->n_servers == 0) {
        return 0;
    }
    self->n_opportunities = (size_t) config->n_opportunities;
    ret = ecc_memory_resize(&self->memory, 0, self->n_servers * sizeof(*self->servers), &block);
    self->servers = block;
    if (ret == 0 && self->n_opportunities > 0) {
        block = NULL;
        ret = ecc_memory_resize(&self->memory, 0, self->n_opportunities * sizeof(*self->opportunities), &block);
        self->opportunities = block;
    }
    if (ret != 0) {
        return ecc_state_fail(self, ret, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) self->n_servers);
    }
    for (size_t k = 0; k < self->n_opportunities; k++) {
        self->opportunities[k] = config->opportunities[k];
    }
    for (uint32_t i = 0; i < self->n_links; i++) {
        int64_t number = self->links[i].spec.server;
        opportunities = self->opportunities;
        for (int64_t k = 1; k < number; k++) {
            opportunities += config->servers[k - 1].n_opportunities;
        }
        if (number > 0) {
            self->servers[i].spec = config->servers[number - 1];
            self->servers[i].opportunities = opportunities;
            self->servers[i].random = ecc_random_stream(self->seed, ECC_RANDOM_OF_SERVERS + i);
        }
    }
    return 0;
}

void
ecc_server_free(ecc_engine_t *self)
{
    void *block = self->servers;

    ecc_memory_release(&self->memory, self->n_servers * sizeof(*self->servers), &block);
    block = self->opportunities;
    ecc_memory_release(&self->memory, self->n_opportunities * sizeof(*self->opportunities), &block);
}

static ecc_ps_t
shape(ecc_server_state_t *self, ecc_ps_t from, int64_t size)
{
    const ecc_server_t *spec = &self->spec;
    ecc_ps_t early = spec->burst > size ? ecc_clock_tx(spec->burst - size, spec->rate) : 0;
    ecc_ps_t begins = self->full_at - early > from ? self->full_at - early : from;

    self->full_at = ecc_clock_add(self->full_at > begins ? self->full_at : begins, ecc_clock_tx(size, spec->rate));
    return begins;
}

static void
take_next(ecc_server_state_t *self)
{
    uint32_t last = (uint32_t) self->spec.n_opportunities - 1;

    self->opportunity = ecc_clock_add(self->base, self->opportunities[self->next]);
    self->left = self->spec.opportunity;
    if (self->next == last) {
        self->base = self->opportunity;
    }
    self->next = self->next == last ? 0 : self->next + 1;
}

/* Skips whole repetitions that end before `time`. */
static void
skip(ecc_server_state_t *self, ecc_ps_t time)
{
    ecc_ps_t period = self->opportunities[self->spec.n_opportunities - 1];

    if (time - self->base > period) {
        self->base += (time - self->base - 1) / period * period;
        self->next = 0;
    }
}

/* Skips the whole repetitions that a large packet needs; returns the bytes that remain. */
static int64_t
repeat(ecc_server_state_t *self, int64_t size)
{
    int64_t bytes = self->spec.n_opportunities * self->spec.opportunity;
    int64_t n = size > bytes ? (size - 1) / bytes : 0;
    ecc_ps_t period = self->opportunities[self->spec.n_opportunities - 1];
    bool ends = n <= (ECC_NEVER - self->opportunity) / period;

    self->base = ends ? ecc_clock_add(self->base, n * period) : ECC_NEVER;
    self->opportunity = ends ? ecc_clock_add(self->opportunity, n * period) : ECC_NEVER;
    return size - n * bytes;
}

static ecc_ps_t
use(ecc_server_state_t *self, ecc_ps_t from, ecc_ps_t arrived, int64_t size)
{
    if (self->opportunity < from || self->opportunity <= arrived) {
        self->left = 0;
        skip(self, from);
    }
    for (;;) {
        int64_t used = self->left < size ? self->left : size;
        self->left -= used;
        size -= used;
        if (size == 0 || self->opportunity >= ECC_NEVER) {
            return self->opportunity;
        }
        do {
            take_next(self);
        } while (self->opportunity < from || self->opportunity <= arrived);
        size = repeat(self, size);
    }
}

/* S-26: service at a capacity that changes. */
static ecc_ps_t
serve_changing(ecc_link_state_t *link, ecc_ps_t from, int64_t size)
{
    double bits = (double) size * 8.0;

    for (;;) {
        double capacity;
        ecc_ps_t end;
        while (link->next_served < link->n_changes && link->changes[link->next_served].time <= from) {
            link->next_served++;
        }
        capacity = link->next_served == 0 ? link->capacity : link->changes[link->next_served - 1].capacity;
        end = link->next_served == link->n_changes ? ECC_NEVER : link->changes[link->next_served].time;
        if (capacity > 0.0) {
            ecc_ps_t wait = ecc_clock_round(bits / capacity * 1e12);
            wait = wait < 1 ? 1 : wait;
            if (wait <= end - from) {
                return from + wait;
            }
            bits -= capacity * ecc_clock_seconds(end - from);
            bits = bits > 0.0 ? bits : 0.0;
        }
        if (end == ECC_NEVER) {
            return ECC_NEVER;
        }
        from = end;
    }
}

/* S-155 to S-159: departure of a packet that may be served from `from` on. */
static ecc_ps_t
serve_by(const ecc_engine_t *self, ecc_server_state_t *server, ecc_link_state_t *link, ecc_ps_t from, int64_t size)
{
    const ecc_server_t *spec = &server->spec;
    ecc_ps_t arrived = self->now - link->sojourn;
    ecc_ps_t begins = from;

    if (from >= ECC_NEVER) {
        return ECC_NEVER;
    }
    if (spec->slot_hi > 0) { /* the packet before it may still wait for its slot */
        begins = server->done > arrived ? server->done : arrived;
    }
    if (spec->rate > 0.0) {
        begins = shape(server, begins, size);
    }
    server->done = spec->n_opportunities > 0 ? use(server, begins, arrived, size)
        : link->has_changes                  ? serve_changing(link, begins, size)
                                             : ecc_clock_add(begins, ecc_clock_tx(size, link->capacity));
    if (spec->slot_hi > 0) {
        const ecc_slots_spec_t slots = { spec->slot_lo, spec->slot_hi, spec->slot_packets, spec->slot_bytes };
        ecc_ps_t ready = server->done > from ? server->done : from;
        return ecc_slots_out(&server->slots, &slots, &server->random, ready, size);
    }
    return server->done;
}

/* When the last bit of a packet leaves, whose first is served at `from`; the transmission time of its size is kept. */
ECC_COLD ecc_ps_t
ecc_server_serve(ecc_engine_t *self, uint32_t index, ecc_ps_t from, int64_t size, enum ecc_packet_kind kind)
{
    ecc_link_state_t *link = &self->links[index];
    ecc_server_state_t *server = ecc_server_of(self, index);

    if (server != NULL) {
        return serve_by(self, server, link, from, size);
    }
    if (link->has_changes) {
        return serve_changing(link, from, size);
    }
    if (link->spec.phase_jitter != 0) {
        return ecc_clock_add(from, ecc_phase_transmission(self, index, from, size));
    }
    link->tx_size[kind] = (int32_t) size;
    link->tx_time[kind] = ecc_clock_tx(size, link->capacity);
    return ecc_clock_add(from, link->tx_time[kind]);
}
