#ifndef ECC_FLOW_H
#define ECC_FLOW_H

/* The state of a flow: set up from its spec, and ended. Its events are in host.h, its sender in sender.h. */

#include "core/state.h"

/* Sets up a flow from its spec; its links are at this position of the table of hops. */
void ecc_flow_init(ecc_engine_t *self, uint32_t flow, const ecc_flow_t *spec, uint32_t position, int64_t number);

/* An active flow stops (S-51). */
ECC_MUST_CHECK int ecc_flow_end(ecc_engine_t *self, uint32_t flow);

/* S-43: the minimum time in which the first answer can come. */
ecc_ps_t ecc_flow_first_rtt(ecc_engine_t *self, uint32_t flow);

#endif
