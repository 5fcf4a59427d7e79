#ifndef ECC_TAG_H
#define ECC_TAG_H

/* Tags that only a holder of the key can make: SipHash-2-4 (Aumasson and Bernstein, 2012). */

#include <stddef.h>
#include <stdint.h>

#define ECC_TAG_KEY 16 /* bytes */

uint64_t ecc_tag_of(const unsigned char key[ECC_TAG_KEY], const unsigned char *bytes, size_t size);

#endif
