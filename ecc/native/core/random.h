#ifndef ECC_RANDOM_H
#define ECC_RANDOM_H

/* Uniform random numbers: SplitMix64, streams of its own for each entity (S-6 to S-9). */

#include <stdint.h>

/* First streams (S-7); those of routers begin at 0. */
#define ECC_RANDOM_OF_FLOWS (UINT64_C(1) << 32)
#define ECC_RANDOM_OF_SIZES (UINT64_C(1) << 33)
#define ECC_RANDOM_OF_WIRES (UINT64_C(1) << 34)
#define ECC_RANDOM_OF_ACKS (UINT64_C(1) << 35)
#define ECC_RANDOM_OF_ROUTES (UINT64_C(1) << 36)
#define ECC_RANDOM_OF_SERVERS (UINT64_C(1) << 37)
#define ECC_RANDOM_OF_PHASES (UINT64_C(1) << 38)
#define ECC_RANDOM_OF_LINK_PHASES (UINT64_C(1) << 39)

#define ECC_RANDOM_STEP UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t
ecc_random_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t
ecc_random_stream(uint64_t seed, uint64_t stream)
{
    return ecc_random_mix(seed ^ ecc_random_mix(stream + ECC_RANDOM_STEP));
}

/* The next number of a stream, in [0, 1). */
static inline double
ecc_random_next(uint64_t *state)
{
    *state += ECC_RANDOM_STEP;
    return (double) (ecc_random_mix(*state) >> 11) * 0x1p-53;
}

/* S-9: a whole number from lo to hi. */
static inline int64_t
ecc_random_between(uint64_t *state, int64_t lo, int64_t hi)
{
    int64_t above = (int64_t) (ecc_random_next(state) * (double) (hi - lo + 1));
    return lo + (above < hi - lo ? above : hi - lo);
}

#endif
