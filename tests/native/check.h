#ifndef ECC_CHECK_H
#define ECC_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the test with the place and the expression if it is not true. */
#define CHECK(expression)                                                    \
    do {                                                                     \
        if (!(expression)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expression); \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

/* As CHECK of a == b, both integers, and shows them. */
#define CHECK_EQUAL(a, b)                                                                                \
    do {                                                                                                 \
        int64_t check_a = (int64_t) (a);                                                                 \
        int64_t check_b = (int64_t) (b);                                                                 \
        if (check_a != check_b) {                                                                        \
            fprintf(stderr, "%s:%d: %s = %lld, not %lld\n", __FILE__, __LINE__, #a, (long long) check_a, \
                (long long) check_b);                                                                    \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#endif
