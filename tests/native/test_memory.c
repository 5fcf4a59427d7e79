/* Blocks that grow and shrink across the size from which they are mappings. */

#include <string.h>

#include "check.h"
#include "core/memory.h"

#define MEGABYTE ((size_t) 1 << 20)

int
main(void)
{
    static const size_t sizes[] = { 1, 100, 40, 70, 200, 33, 32, 31, 5, 64 };
    ecc_memory_t memory;
    unsigned char *bytes;
    void *block = NULL;
    size_t size = 0;

    ecc_memory_init(&memory, NULL);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t grown = sizes[k] * MEGABYTE + 100 * k;
        size_t kept = size < grown ? size : grown;
        CHECK_EQUAL(ecc_memory_extend(&memory, size, grown, &block), 0);
        bytes = block;
        if (kept > 0) {
            CHECK(bytes[0] == (unsigned char) k && bytes[kept / 2] == (unsigned char) k);
            CHECK(kept < size || bytes[kept - 1] == (unsigned char) k);
        }
        memset(bytes, (int) k + 1, grown);
        CHECK_EQUAL(memory.bytes, grown);
        size = grown;
    }
    CHECK_EQUAL(memory.peak, 200 * MEGABYTE + 400);
    CHECK_EQUAL(ecc_memory_resize(&memory, size, 2 * size, &block), 0); /* the new half is zero */
    bytes = block;
    CHECK(bytes[size - 1] == 10 && bytes[size] == 0 && bytes[2 * size - 1] == 0);
    ecc_memory_release(&memory, 2 * size, &block);
    CHECK(block == NULL && memory.bytes == 0);
    ecc_memory_release(&memory, 0, &block);
    memory.limit = 40 * MEGABYTE;
    CHECK_EQUAL(ecc_memory_extend(&memory, 0, 39 * MEGABYTE, &block), 0);
    CHECK(ecc_memory_extend(&memory, 39 * MEGABYTE, 41 * MEGABYTE, &block) != 0 && block != NULL);
    ecc_memory_release(&memory, 39 * MEGABYTE, &block);
    return 0;
}
