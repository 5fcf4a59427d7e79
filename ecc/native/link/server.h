#ifndef ECC_SERVER_H
#define ECC_SERVER_H

/* Departures from the queue of a link, by capacity, tokens, opportunities and slots (S-155 to S-159). */

#include "core/state.h"

/* Sets up servers for all links if one of them has one; links exist. */
ECC_MUST_CHECK int ecc_server_init(ecc_engine_t *self, const ecc_config_t *config);
void ecc_server_free(ecc_engine_t *self);

/* The server of a link, or NULL. */
static inline ecc_server_state_t *
ecc_server_of(const ecc_engine_t *self, uint32_t link)
{
    return self->servers != NULL && self->links[link].spec.server > 0 ? &self->servers[link] : NULL;
}

/*
 * When the last bit of a packet leaves, if its first bit is served at `from` or later. The transmission time of its
 * size is kept, if all packets of this size take as long.
 */
ecc_ps_t ecc_server_serve(ecc_engine_t *self, uint32_t link, ecc_ps_t from, int64_t size, enum ecc_packet_kind kind);

#endif
