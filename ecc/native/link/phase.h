#ifndef ECC_PHASE_H
#define ECC_PHASE_H

/*
 * Random phases of senders and links (S-186 to S-189), against phase effects: without them, periodic senders at one
 * full queue keep their order for the whole run, and the last one loses all.
 */

#include "core/state.h"

/* packets between two draws of a phase (S-186, S-189) */
#define ECC_PHASE_PACKETS 16u

/* The phase of a flow before its first packet. */
void ecc_phase_init_flow(ecc_engine_t *self, uint32_t flow);

/* START: notes the transmission time at the slowest link of the route. */
void ecc_phase_start(ecc_engine_t *self, uint32_t flow);

/* EMIT: the phase is drawn again after enough packets (S-186). */
void ecc_phase_sent(ecc_engine_t *self, uint32_t flow);

/* S-187: whether the phase delays a segment of so many bytes. */
bool ecc_phase_is_drawn(const ecc_engine_t *self, uint32_t flow, int64_t size);

/* S-187: time of SEND for a segment that exists from `ready` on. */
ecc_ps_t ecc_phase_due(const ecc_engine_t *self, uint32_t flow, int64_t size, ecc_ps_t ready);

void ecc_phase_init_link(ecc_engine_t *self, uint32_t link);

/* Transmission time of a packet of a link with phases, which is served from `from` on (S-189). */
ecc_ps_t ecc_phase_transmission(ecc_engine_t *self, uint32_t link, ecc_ps_t from, int64_t size);

#endif
