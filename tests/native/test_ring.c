/* The ring against a plain list, under random commands. */

#include "check.h"
#include "core/errors.h"
#include "core/random.h"
#include "core/ring.h"

#define MOST 20000

int
main(void)
{
    static ecc_ps_t list[MOST];
    uint64_t random = ecc_random_stream(1, 2);
    ecc_memory_t memory;
    ecc_ring_t ring;
    uint32_t first = 0;
    uint32_t end = 0;
    uint32_t longest = 0;

    ecc_memory_init(&memory, NULL);
    ecc_ring_init(&ring);
    CHECK_EQUAL(ecc_ring_verify(&ring), 0);
    while (end < MOST) {
        /* fills on the whole, in the middle it drains */
        double share = end % 4000 < 3000 ? 0.6 : 0.3;
        if (first == end || ecc_random_next(&random) < share) {
            list[end] = (ecc_ps_t) end * 3;
            CHECK_EQUAL(ecc_ring_append(&ring, &memory, (ecc_queued_t) { list[end], 0, end }), 0);
            end++;
        } else {
            CHECK_EQUAL(ecc_ring_at(&ring, 0)->leaves, list[first]);
            ecc_ring_drop_first(&ring);
            first++;
        }
        CHECK_EQUAL(ring.count, end - first);
        longest = ring.count > longest ? ring.count : longest;
        if (end % 50 == 0) {
            CHECK_EQUAL(ecc_ring_verify(&ring), 0);
            for (uint32_t k = 0; k < ring.count; k++) {
                CHECK_EQUAL(ecc_ring_at(&ring, k)->of, first + k);
            }
        }
    }
    CHECK(longest > 64 && ring.capacity >= longest);
    ecc_ring_free(&ring, &memory);
    ecc_ring_free(&ring, &memory);
    CHECK_EQUAL(memory.bytes, 0);
    return 0;
}
