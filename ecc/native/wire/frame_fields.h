#ifndef ECC_FRAME_FIELDS_H
#define ECC_FRAME_FIELDS_H

/* Fields of congestion headers: words of a packet as bits on the wire, and back. */

#include <stdbool.h>

#include "wire/frame.h"

#define ECC_FRAME_WORD_SIZE ((size_t) 8)

/* A number as n bytes, big end first, and back. */
static inline void
ecc_frame_fields_put(unsigned char *at, size_t n, uint64_t value)
{
    for (; n > 0; n--, value >>= 8) {
        at[n - 1] = (unsigned char) value;
    }
}

static inline uint64_t
ecc_frame_fields_get(const unsigned char *at, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* Whether a field is valid in a record of so many words. */
bool ecc_frame_fields_allow(const ecc_frame_field_t *field, int64_t n_words);

/* Writes n fields one after the other, into zeros; `words` is where their record begins. */
void ecc_frame_fields_write(
    const ecc_frame_field_t *fields, size_t n, const unsigned char *words, unsigned char *header);

/*
 * Reads what they say into these words. Constant fields are not looked at, and what a field cannot have is taken for
 * the nearest that it can: written again, these are other bits.
 */
void ecc_frame_fields_read(
    const ecc_frame_field_t *fields, size_t n, const unsigned char *header, unsigned char *words);

#endif
