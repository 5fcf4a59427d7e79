#ifndef ECC_ROUTES_H
#define ECC_ROUTES_H

/* The table of hops: for every position of every route, its link, its direction, and what follows its wire. */

#include "core/state.h"

/* Fills the table of hops with the routes of all flows, then those of all templates. */
ECC_MUST_CHECK int ecc_routes_install(ecc_engine_t *self, const ecc_config_t *config);

#endif
