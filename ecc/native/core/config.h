#ifndef ECC_CONFIG_H
#define ECC_CONFIG_H

/* Checks of the configuration, and questions about it. */

#include "core/state.h"

#define ECC_MAX_DELAY INT64_C(1000000000000000000)
#define ECC_MAX_PACKET_SIZE (INT64_C(1) << 30)
#define ECC_MAX_HEADER_BYTES 65535
#define ECC_MAX_CONTROL_KIND INT64_C(2147483647)

#define ECC_DUP_THRESH 3u /* packets or duplicate ACKs that prove a loss on a path that reorders packets */
#define ECC_MAX_REORDERING_THRESHOLD 255

/* The reordering threshold of a flow, or `other` if the flow has none. */
static inline uint32_t
ecc_config_threshold(const ecc_flow_t *spec, uint32_t other)
{
    return spec->reordering_threshold > 0 ? (uint32_t) spec->reordering_threshold : other;
}

/* Whether packets may overtake each other on the wire of a link. */
static inline bool
ecc_config_reorders(const ecc_engine_t *self, uint32_t link)
{
    return self->links[link].channel != NULL && self->links[link].channel->spec->reorders != 0;
}

/* Whether packets of a flow, whose route is installed at `hops`, may overtake each other. */
bool ecc_config_is_reordered(const ecc_engine_t *self, const ecc_flow_t *spec, const uint32_t *hops);

/* S-71: whether a flow, whose route is installed at `hops`, needs a receiver that finds missing data. */
bool ecc_config_needs_receiver(const ecc_engine_t *self, const ecc_flow_t *spec, const uint32_t *hops);

/* Checks a configuration: 0, or the code of the first invalid value, which the report of the engine names. */
ECC_MUST_CHECK int ecc_config_check(ecc_engine_t *self, const ecc_config_t *config);

/* Checks one flow. */
ECC_MUST_CHECK int ecc_config_check_flow(const ecc_flow_t *flow, size_t header_size, double *value);

/* Whether recoveries of a flow can use proportional rate reduction (S-164). */
static inline bool
ecc_config_may_use_prr(const ecc_flow_t *spec)
{
    return spec->transport == ECC_TRANSPORT_SACK || spec->transport == ECC_TRANSPORT_RACK;
}

#endif
