/* Frames of others: kept until as many newer ones have come as there is room for; marks keep checksums right. */

#include <stdint.h>
#include <string.h>

#include "check.h"
#include "wire/foreign.h"

#define SIZE 1500
#define ROOM ((1 << 25) / SIZE)

static uint32_t
checksum(const unsigned char *frame)
{
    uint32_t sum = 0;

    for (int i = 14; i < 34; i += 2) {
        sum += (uint32_t) frame[i] << 8 | frame[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

static void
test_kept(void)
{
    unsigned char frame[SIZE] = { 0 };
    ecc_foreign_t self;
    size_t size = 0;

    CHECK(ecc_foreign_init(&self, SIZE, 0) == 0);
    CHECK(ecc_foreign_find(&self, 0, &size) == NULL);
    for (int64_t i = 0; i < ROOM + 10; i++) {
        memcpy(frame, &i, sizeof(i));
        CHECK(ecc_foreign_keep(&self, frame, 60 + (size_t) i % 1000) == i);
    }
    CHECK(ecc_foreign_keep(&self, frame, SIZE + 1) == -1);
    for (int64_t i = -1; i < ROOM + 12; i++) {
        int64_t found = -1;
        const unsigned char *kept = ecc_foreign_find(&self, i, &size);
        CHECK((kept != NULL) == (i >= 10 && i < ROOM + 10));
        if (kept != NULL) {
            memcpy(&found, kept, sizeof(found));
            CHECK(found == i && size == 60 + (size_t) i % 1000);
        }
    }
    ecc_foreign_free(&self);
}

static void
test_marks(void)
{
    unsigned char frame[SIZE] = { 0 };
    uint64_t state = 1;

    for (int n = 0; n < 2000; n++) {
        uint32_t sum;
        for (int i = 14; i < 34; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            frame[i] = (unsigned char) (state >> 56);
        }
        frame[14] = 0x45;
        frame[24] = frame[25] = 0;
        sum = ~checksum(frame) & 0xffff;
        frame[24] = (unsigned char) (sum >> 8);
        frame[25] = (unsigned char) sum;
        CHECK(checksum(frame) == 0xffff);
        ecc_foreign_set_codepoint(frame, n % 4);
        CHECK(ecc_foreign_codepoint(frame) == n % 4 && checksum(frame) == 0xffff);
    }
}

int
main(void)
{
    test_kept();
    test_marks();
    return 0;
}
