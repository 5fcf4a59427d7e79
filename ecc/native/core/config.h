#ifndef ECC_CONFIG_H
#define ECC_CONFIG_H

/* The configuration: checked, and its routes installed. */

#include "core/state.h"

#define ECC_MAX_DELAY INT64_C(1000000000000000000)
#define ECC_MAX_PACKET_SIZE (INT64_C(1) << 30)
#define ECC_MAX_HEADER_BYTES 65535
#define ECC_MAX_CONTROL_KIND INT64_C(2147483647)

/* 0, or the code of the first bad value, which the engine's report then names. */
ECC_MUST_CHECK int ecc_config_check(ecc_engine_t *self, const ecc_config_t *config);

/* The same of one flow alone. */
ECC_MUST_CHECK int ecc_config_check_flow(const ecc_flow_t *flow, size_t header_size, double *value);

/*
 * Fills the table of hops: for every position of every route, those of templates last, its link, its direction, and
 * what follows its wire.
 */
ECC_MUST_CHECK int ecc_config_install_routes(ecc_engine_t *self, const ecc_config_t *config);

#endif
