#ifndef ECC_CLOCK_H
#define ECC_CLOCK_H

/* Conversions of time (S-1, S-3 to S-5): the clock counts picoseconds, hooks see seconds. */

#include "core/engine.h"

static inline double
ecc_clock_seconds(ecc_ps_t time)
{
    return (double) time * 1e-12;
}

/* Rounds picoseconds in floating point to the clock (S-4). */
static inline ecc_ps_t
ecc_clock_round(double ps)
{
    ps += 0.5;
    return ps < 4e18 ? (ecc_ps_t) ps : ECC_NEVER; /* truncation is floor: ps > 0 */
}

/* S-4: ps(s), for s >= 0. */
static inline ecc_ps_t
ecc_clock_ps(double seconds)
{
    return ecc_clock_round(seconds * 1e12);
}

/* S-5: tx(size, rate). */
static inline ecc_ps_t
ecc_clock_tx(int64_t size, double rate)
{
    ecc_ps_t time = ecc_clock_round((double) size * 8.0 / rate * 1e12);
    return time < 1 ? 1 : time;
}

/* S-1: a sum of times, at most ECC_NEVER. */
static inline ecc_ps_t
ecc_clock_add(ecc_ps_t a, ecc_ps_t b)
{
    ecc_ps_t sum = a + b;
    return sum < ECC_NEVER ? sum : ECC_NEVER;
}

#endif
