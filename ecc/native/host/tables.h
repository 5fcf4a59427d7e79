#ifndef ECC_TABLES_H
#define ECC_TABLES_H

/* The arrays that have an entry for each flow and slot, and grow together. */

#include "core/state.h"

/* Notes which arrays the flows and templates of a configuration need. */
void ecc_tables_init(ecc_engine_t *self, const ecc_config_t *config);
void ecc_tables_free(ecc_engine_t *self);

/* Room for flows and slots at first. */
uint32_t ecc_tables_initial_room(const ecc_config_t *config);

/* Orders the nodes of a slot by the number of its new transfer (S-10). */
void ecc_tables_order_slot(ecc_engine_t *self, uint32_t slot);

/* Makes room for flows and slots, at least as many as before. */
ECC_MUST_CHECK int ecc_tables_reserve(ecc_engine_t *self, uint32_t room);

#endif
