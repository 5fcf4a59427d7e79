#ifndef ECC_SAVED_TRANSFERS_H
#define ECC_SAVED_TRANSFERS_H

/* Transfers in a checkpoint. */

#include "core/archive.h"

/* Room for the counts of received bytes of n flows and slots in the archive. */
void ecc_saved_transfers_make_room(ecc_archive_t *archive, ecc_engine_t *self, size_t n);

/* Pending transfers, results that were not taken, and all slots. */
void ecc_saved_transfers_move(ecc_archive_t *archive, ecc_engine_t *self);

#endif
