/*
 * Buckets of tokens and opportunities (S-156, S-157). The packets of a queue leave in order, and when one does is known
 * as it is served: nothing here is an event.
 *
 * Not here: what a link with a capacity does (link.c), and slots (slots.c).
 */

#include "link/server.h"

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

ecc_ps_t
ecc_server_shape(ecc_server_state_t *self, ecc_ps_t from, int64_t size)
{
    const ecc_server_t *spec = &self->spec;
    ecc_ps_t early = spec->burst > size ? ecc_state_tx(spec->burst - size, spec->rate) : 0;
    ecc_ps_t begins = self->full_at - early > from ? self->full_at - early : from;

    self->full_at = ecc_state_add(self->full_at > begins ? self->full_at : begins, ecc_state_tx(size, spec->rate));
    return begins;
}

static void
take_next(ecc_server_state_t *self)
{
    uint32_t last = (uint32_t) self->spec.n_opportunities - 1;

    self->opportunity = ecc_state_add(self->base, self->opportunities[self->next]);
    self->left = self->spec.opportunity;
    if (self->next == last) {
        self->base = self->opportunity;
    }
    self->next = self->next == last ? 0 : self->next + 1;
}

/* Whole repetitions that end before `time` pass. */
static void
skip(ecc_server_state_t *self, ecc_ps_t time)
{
    ecc_ps_t period = self->opportunities[self->spec.n_opportunities - 1];

    if (time - self->base > period) {
        self->base += (time - self->base - 1) / period * period;
        self->next = 0;
    }
}

/* A packet that needs whole repetitions more than the current opportunity. */
static int64_t
repeat(ecc_server_state_t *self, int64_t size)
{
    int64_t bytes = self->spec.n_opportunities * self->spec.opportunity;
    int64_t n = size > bytes ? (size - 1) / bytes : 0;
    ecc_ps_t period = self->opportunities[self->spec.n_opportunities - 1];
    bool ends = n <= (ECC_NEVER - self->opportunity) / period;

    self->base = ends ? ecc_state_add(self->base, n * period) : ECC_NEVER;
    self->opportunity = ends ? ecc_state_add(self->opportunity, n * period) : ECC_NEVER;
    return size - n * bytes;
}

ecc_ps_t
ecc_server_use(ecc_server_state_t *self, ecc_ps_t from, ecc_ps_t arrived, int64_t size)
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
