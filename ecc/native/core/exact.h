#ifndef ECC_EXACT_H
#define ECC_EXACT_H

/*
 * Refuses compiler flags with which floating point is not that of the specification (S-2): results would be those of
 * one compiler, and checks for NaN would be removed.
 */

#include <float.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__) \
    || defined(__RECIPROCAL_MATH__) || FLT_EVAL_METHOD != 0
#error \
    "the packet engine needs IEEE arithmetic: build it without -Ofast, -ffast-math or any part of that, and without x87"
#endif

#endif
