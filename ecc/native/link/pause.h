#ifndef ECC_PAUSE_H
#define ECC_PAUSE_H

/* Priority flow control, hop by hop (IEEE 802.1Qbb): S-138 to S-143. */

#include "core/state.h"

/* Sets up PFC for all links if one of them has an XOFF; links and flows exist. */
ECC_MUST_CHECK int ecc_pause_init(ecc_engine_t *self, const ecc_config_t *config);
void ecc_pause_free(ecc_engine_t *self);

/* The functions below need self->pauses. Whether the link that a packet came over has room for it at the next link. */
bool ecc_pause_has_room(const ecc_engine_t *self, const ecc_packet_t *packet, int64_t size);

/* It joins the queue of a link, or leaves it (S-140). */
ECC_MUST_CHECK int ecc_pause_join(ecc_engine_t *self, const ecc_packet_t *packet, int64_t size);
ECC_MUST_CHECK int ecc_pause_leave(ecc_engine_t *self, const ecc_packet_t *packet, int64_t size);

/* S-141: frames that have arrived at a link by now take effect. */
void ecc_pause_catch_up(const ecc_engine_t *self, uint32_t link);

/* Whether a link may serve a packet. */
bool ecc_pause_lets_pass(const ecc_engine_t *self, const ecc_link_state_t *link, const ecc_packet_t *packet);

/* S-142: packets wait at a link that may serve none of them; it looks again when the next frame arrives. */
void ecc_pause_await(ecc_engine_t *self, uint32_t link);

/* Duration of all pauses of a link for a class, by now. */
ecc_ps_t ecc_pause_time(const ecc_engine_t *self, uint32_t link, uint32_t priority);

/* A failure if links wait for each other (S-143). */
ECC_MUST_CHECK int ecc_pause_find_deadlock(ecc_engine_t *self);

ECC_MUST_CHECK int ecc_pause_verify(const ecc_engine_t *self);

#endif
