/* Sets of ranges against a plain map of bytes, under random commands. */

#include <string.h>

#include "check.h"
#include "core/errors.h"
#include "core/random.h"

#define ECC_COUNT_VISITS
#include "core/ranges.c"

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

static void
add(ecc_ranges_t *ranges, ecc_memory_t *memory, int64_t begin, int64_t end)
{
    uint32_t range = ECC_NO_RANGE;
    int64_t missing = end - begin - ecc_ranges_within(ranges, begin, end);
    int64_t added = -1;

    if (begin == end) {
        CHECK_EQUAL(ecc_ranges_add(ranges, memory, begin, end), 0);
        return;
    }
    CHECK_EQUAL(ecc_ranges_insert(ranges, memory, begin, end, &range, &added), 0);
    CHECK_EQUAL(added, missing);
    CHECK(ecc_ranges_contains(ranges, range, begin) && ecc_ranges_contains(ranges, range, end - 1));
}

/* Nodes visited per operation, for n ranges: a receiver fills holes at random places, or from the front. */
static double
visits(uint32_t n, bool at_random)
{
    uint64_t random = ecc_random_stream(1, n);
    ecc_memory_t memory;
    ecc_ranges_t ranges = { 0 };
    uint64_t before = ecc_ranges_n_visits;
    uint64_t n_operations = 0;

    ecc_memory_init(&memory, NULL);
    for (int64_t k = 0; k < n; k++) {
        CHECK_EQUAL(ecc_ranges_add(&ranges, &memory, 2 * k + 1, 2 * k + 2), 0);
    }
    CHECK_EQUAL(ranges.count, n);
    for (int64_t k = 0; k < n; k++, n_operations += 4) {
        int64_t hole = 2 * (at_random ? ecc_random_between(&random, 0, n - 1) : k);
        CHECK_EQUAL(ecc_ranges_within(&ranges, hole, hole + 1) <= 1, true);
        CHECK_EQUAL(ecc_ranges_skip(&ranges, hole) >= hole, true);
        CHECK_EQUAL(ecc_ranges_add(&ranges, &memory, hole, hole + 1), 0);
        ecc_ranges_drop(&ranges, at_random ? k / 8 : hole + 1);
    }
    CHECK_EQUAL(ecc_ranges_verify(&ranges), 0);
    ecc_ranges_free(&ranges, &memory);
    return (double) (ecc_ranges_n_visits - before) / (double) (n_operations + n);
}

/* Work grows with the logarithm of the number of ranges. */
static void
test_work(void)
{
    for (int at_random = 0; at_random <= 1; at_random++) {
        double few = visits(100, at_random != 0);
        double many = visits(100000, at_random != 0);
        CHECK(few > 0.5 && many < 4.0 * few && many < 40.0);
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
            add(&ranges, &memory, begin, end);
            memset(map + begin, 1, (size_t) (end - begin));
        } else {
            agrees(&ranges, begin, ecc_random_between(&random, begin, MOST));
        }
        longest = ranges.count > longest ? ranges.count : longest;
        CHECK_EQUAL(ecc_ranges_verify(&ranges), 0);
    }
    CHECK(longest > 32 && ranges.room >= longest);
    CHECK_EQUAL(ranges.nodes[ecc_ranges_last(&ranges)].next, ECC_NO_RANGE);
    ranges.nodes[ecc_ranges_last(&ranges)].range.begin
        = ecc_ranges_at(&ranges, ecc_ranges_prev(&ranges, ecc_ranges_last(&ranges)))->end;
    CHECK_EQUAL(ecc_ranges_verify(&ranges), ECC_ERR_BROKEN); /* it touches the range before it */
    ecc_ranges_free(&ranges, &memory);
    ecc_ranges_free(&ranges, &memory);
    CHECK_EQUAL(memory.bytes, 0);
    test_work();
    return 0;
}
