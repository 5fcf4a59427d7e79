#include "wire/tag.h"

#include <stdbool.h>

static uint64_t
rotated(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void
sip_rounds(uint64_t v[4], int n)
{
    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[2] = rotated(v[2], 32);
    }
}

/* Up to 8 bytes, little end first. */
static uint64_t
get_little(const unsigned char *at, size_t n)
{
    uint64_t value = 0;

    for (; n > 0; n--) {
        value = value << 8 | at[n - 1];
    }
    return value;
}

uint64_t
ecc_tag_of(const unsigned char key[ECC_TAG_KEY], const unsigned char *bytes, size_t size)
{
    uint64_t k0 = get_little(key, 8);
    uint64_t k1 = get_little(key + 8, 8);
    uint64_t v[4] = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
        k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
    size_t at = 0;
    bool is_last;

    do {
        uint64_t block;
        is_last = size - at < 8;
        block = get_little(bytes + at, is_last ? size - at : 8) | (is_last ? (uint64_t) size << 56 : 0);
        v[3] ^= block;
        sip_rounds(v, 2);
        v[0] ^= block;
        at += 8;
    } while (!is_last);
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
