#ifndef ECC_BINS_H
#define ECC_BINS_H

#include "core/engine.h"

/*
 * Bin of a number >= 0 in a histogram (S-19): one for each number below 256, then 128 for each power of two,
 * ECC_N_BINS in all. Larger numbers are in the last bin.
 */
static inline uint32_t
ecc_bins_of(int64_t value)
{
    uint32_t index = (uint32_t) value;

    if (value >= 256) {
        uint32_t shift = 56u - (uint32_t) __builtin_clzll((uint64_t) value);
        index = shift * 128 + (uint32_t) ((uint64_t) value >> shift);
    }
    return index < ECC_N_BINS ? index : ECC_N_BINS - 1;
}

#endif
