#ifndef ECC_SAVED_LINKS_H
#define ECC_SAVED_LINKS_H

/* Links, routers and pauses in a checkpoint. */

#include "core/archive.h"

/* All routers with their links, and the packets there. */
void ecc_saved_links_move(ecc_archive_t *archive, ecc_engine_t *self);

/* PFC of a link (S-139). */
void ecc_saved_links_move_pause(ecc_archive_t *archive, ecc_engine_t *self, uint32_t link);

/* The random phase of a flow or a link. */
void ecc_saved_links_move_phase(ecc_archive_t *archive, ecc_phase_t *phase);

#endif
