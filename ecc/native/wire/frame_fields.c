#include "wire/frame_fields.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Writes the lowest bits of a number into zeros, from bit `at` on. */
static void
put_bits(unsigned char *start, size_t at, size_t width, uint64_t bits)
{
    while (width > 0) {
        size_t room = 8 - at % 8;
        size_t n = room < width ? room : width;
        start[at / 8] |= (unsigned char) ((bits >> (width - n) & ((1u << n) - 1)) << (room - n));
        at += n;
        width -= n;
    }
}

static uint64_t
get_bits(const unsigned char *start, size_t at, size_t width)
{
    uint64_t bits = 0;

    while (width > 0) {
        size_t room = 8 - at % 8;
        size_t n = room < width ? room : width;
        bits = bits << n | ((unsigned) start[at / 8] >> (room - n) & ((1u << n) - 1));
        at += n;
        width -= n;
    }
    return bits;
}

/*
 * The nearest value that a field can have; rounding may have moved the value on the wire out of range. NaN is the
 * minimum.
 */
static double
within_range(const ecc_frame_field_t *field, double value)
{
    return !(value >= field->low) ? field->low : value > field->high ? field->high : value;
}

/* Bits of a field with a given word. */
static uint64_t
bits_of(const ecc_frame_field_t *field, const unsigned char *word)
{
    double value;
    int64_t whole;
    uint64_t bits;

    memcpy(&bits, word, sizeof(bits));
    if (field->kind == ECC_FRAME_WORD) {
        return bits;
    }
    memcpy(&value, word, sizeof(value));
    memcpy(&whole, word, sizeof(whole));
    value = within_range(field, field->is_real != 0 ? value : (double) whole + (double) field->shift) * field->factor;
    if (field->kind == ECC_FRAME_SINGLE) {
        float single = (float) (value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value);
        uint32_t raw;
        memcpy(&raw, &single, sizeof(raw));
        return raw;
    }
    return (uint64_t) rint(value);
}

/*
 * Writes the word of a field with these bits. For bits that the field cannot have, writing that word again gives other
 * bits.
 */
static void
set_word(const ecc_frame_field_t *field, uint64_t bits, unsigned char *word)
{
    double value = (double) bits;
    int64_t whole;

    if (field->kind == ECC_FRAME_WORD) {
        memcpy(word, &bits, sizeof(bits));
        return;
    }
    if (field->kind == ECC_FRAME_SINGLE) {
        uint32_t raw = (uint32_t) bits;
        float single;
        memcpy(&single, &raw, sizeof(single));
        value = (double) single;
    }
    value = within_range(field, value / field->factor);
    if (field->is_real != 0) {
        memcpy(word, &value, sizeof(value));
    } else { /* an integer, from 0 */
        whole = (int64_t) value - field->shift;
        memcpy(word, &whole, sizeof(whole));
    }
}

/* Maximum value of an integer field on the wire. */
static double
most(const ecc_frame_field_t *field)
{
    return (double) ((UINT64_C(1) << field->width) - 1);
}

bool
ecc_frame_fields_allow(const ecc_frame_field_t *field, int64_t n_words)
{
    if (field->kind == ECC_FRAME_WORD) {
        return field->width == 64 && field->word >= 0 && field->word < n_words;
    }
    if ((field->kind != ECC_FRAME_INTEGER && field->kind != ECC_FRAME_SINGLE) || field->width < 1 || field->width > 32
        || (field->kind == ECC_FRAME_SINGLE && field->width != 32) || field->word < -1 || field->word >= n_words) {
        return false;
    }
    if (field->word < 0) {
        return field->bits >> field->width == 0;
    }
    return isfinite(field->factor) && field->factor > 0.0 && isfinite(field->low) && field->low <= field->high
        && isfinite(field->high) && isfinite(field->low * field->factor) && isfinite(field->high * field->factor)
        && field->shift >= -INT32_MAX && field->shift <= INT32_MAX
        && (field->is_real != 0 ? field->shift == 0
                                : field->kind == ECC_FRAME_INTEGER && field->factor == 1.0 && field->low >= 0.0)
        && (field->kind == ECC_FRAME_SINGLE
            || (rint(field->low * field->factor) >= 0.0 && rint(field->high * field->factor) <= most(field)));
}

void
ecc_frame_fields_write(const ecc_frame_field_t *fields, size_t n, const unsigned char *words, unsigned char *header)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t width = (size_t) fields[i].width;
        uint64_t bits = fields[i].word < 0 ? fields[i].bits
                                           : bits_of(&fields[i], words + ECC_FRAME_WORD_SIZE * (size_t) fields[i].word);
        put_bits(header, at, width, bits);
        at += width;
    }
}

void
ecc_frame_fields_read(const ecc_frame_field_t *fields, size_t n, const unsigned char *header, unsigned char *words)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t width = (size_t) fields[i].width;
        if (fields[i].word >= 0) {
            set_word(&fields[i], get_bits(header, at, width), words + ECC_FRAME_WORD_SIZE * (size_t) fields[i].word);
        }
        at += width;
    }
}
