/* Sets of ranges against a plain map of bytes, under random commands. */

#include <string.h>

#include "check.h"
#include "errors.h"
#include "random.h"
#include "ranges.h"

#define MOST 400

static bool map[MOST + 1];

static void
agrees(const ecc_ranges_t *ranges, int64_t begin, int64_t end)
{
    int64_t bytes = 0;
    int64_t skip = begin;
    int64_t until = begin;

    for (int64_t k = begin; k < end; k++) {
        bytes += map[k];
    }
    CHECK_EQUAL(ecc_ranges_within(ranges, begin, end), bytes);
    while (map[skip]) {
        skip++;
    }
    CHECK_EQUAL(ecc_ranges_skip(ranges, begin), skip);
    if (!map[begin]) {
        while (until < end && !map[until]) {
            until++;
        }
        CHECK_EQUAL(ecc_ranges_until(ranges, begin, end), until);
    }
}

int
main(void)
{
    uint64_t random = ecc_random_stream(1, 3);
    ecc_memory_t memory;
    ecc_ranges_t ranges = { 0 };
    uint32_t longest = 0;

    ecc_memory_init(&memory, NULL);
    CHECK_EQUAL(ecc_ranges_verify(&ranges), 0);
    for (int round = 0; round < 20000; round++) {
        int64_t begin = ecc_random_between(&random, 0, MOST - 1);
        int64_t end = ecc_random_between(&random, begin, begin + 4 < MOST ? begin + 4 : MOST);
        double command = ecc_random_next(&random);
        if (command < 0.01) {
            ecc_ranges_drop(&ranges, begin);
            memset(map, 0, (size_t) begin);
        } else if (command < 0.011) {
            ecc_ranges_clear(&ranges);
            memset(map, 0, sizeof(map));
        } else if (command < 0.6) {
            CHECK_EQUAL(ecc_ranges_add(&ranges, &memory, begin, end), 0);
            memset(map + begin, 1, (size_t) (end - begin));
        } else {
            agrees(&ranges, begin, ecc_random_between(&random, begin, MOST));
        }
        longest = ranges.count > longest ? ranges.count : longest;
        CHECK_EQUAL(ecc_ranges_verify(&ranges), 0);
    }
    CHECK(longest > 32 && ranges.room >= longest);
    for (uint32_t k = 1; k < ranges.count; k++) { /* one that touches the one before it is none of its own */
        ranges.items[k].begin = ecc_ranges_at(&ranges, k - 1)->end;
        CHECK_EQUAL(ecc_ranges_verify(&ranges), ECC_ERR_BROKEN);
    }
    ecc_ranges_free(&ranges, &memory);
    ecc_ranges_free(&ranges, &memory);
    CHECK_EQUAL(memory.bytes, 0);
    return 0;
}
