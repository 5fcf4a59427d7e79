/* Crossings that wait: they come out by time and, at one time, as they came in; against a plain search for the first. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "core/errors.h"
#include "wire/waiting.h"

#define N 5000

typedef struct {
    ecc_ps_t time;
    uint32_t number;
} crossing_t;

static uint64_t
draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void
test_order(uint64_t seed)
{
    static crossing_t pushed[N];
    static bool is_in[N];
    ecc_memory_t memory;
    ecc_waiting_t waiting;
    uint32_t n = 0;
    uint32_t n_in = 0;

    memset(is_in, 0, sizeof(is_in));
    ecc_memory_init(&memory, NULL);
    ecc_waiting_init(&waiting, sizeof(crossing_t));
    CHECK(ecc_waiting_first(&waiting) == ECC_NEVER);
    while (n < N || n_in > 0) {
        if (n < N && draw(&seed) % 5 < 3) {
            pushed[n] = (crossing_t) { (ecc_ps_t) (draw(&seed) % 50), n };
            CHECK(ecc_waiting_push(&waiting, &memory, pushed[n].time, n % 7, (const unsigned char *) &pushed[n]) == 0);
            is_in[n++] = true;
            n_in++;
        } else if (n_in > 0) {
            crossing_t found;
            uint32_t port;
            uint32_t first = N;
            for (uint32_t i = 0; i < n; i++) {
                first = is_in[i] && (first == N || pushed[i].time < pushed[first].time) ? i : first;
            }
            CHECK(ecc_waiting_first(&waiting) == pushed[first].time);
            memcpy(&found, ecc_waiting_pop(&waiting, &port), sizeof(found));
            CHECK(found.number == first && found.time == pushed[first].time && port == first % 7);
            is_in[first] = false;
            n_in--;
        }
    }
    CHECK(waiting.n == 0);
    ecc_waiting_free(&waiting, &memory);
    ecc_waiting_free(&waiting, &memory);
    CHECK(memory.bytes == 0);
}

/* What waits is lost with a failed allocation, and no memory is. */
static void
test_no_memory(void)
{
    crossing_t crossing = { 1, 1 };

    for (size_t limit = 1; limit < 200000; limit += 999) {
        ecc_memory_t memory;
        ecc_waiting_t waiting;
        int ret = 0;
        ecc_memory_init(&memory, NULL);
        memory.limit = limit;
        ecc_waiting_init(&waiting, sizeof(crossing));
        for (int i = 0; i < N && ret == 0; i++) {
            ret = ecc_waiting_push(&waiting, &memory, N - i, 0, (const unsigned char *) &crossing);
        }
        CHECK(ret == ECC_ERR_NO_MEMORY);
        ecc_waiting_free(&waiting, &memory);
        CHECK(memory.bytes == 0);
    }
}

int
main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_order(seed);
    }
    test_no_memory();
    return 0;
}
