/* Frames of hosts outside the engine: kept while their packets are in the network. */

#include "wire/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "core/errors.h"

#define MIN_ROOM ((size_t) 1 << 25) /* bytes for the frames of a flow */
#define MAX_ROOM (INT64_C(1) << 22) /* frames */
#define FRAMES_PER_PACKET 4         /* a packet, its ACK, and dropped packets that arrived after it */
#define IP 14                       /* where the header begins in a frame of Ethernet */
#define CHECKSUM (IP + 10)
#define ECN 3 /* bits of its second byte */

int
ecc_foreign_init(ecc_foreign_t *self, size_t largest, int64_t room)
{
    int64_t minimum = (int64_t) (MIN_ROOM / largest);
    int64_t wanted = FRAMES_PER_PACKET * (room < MAX_ROOM ? room : MAX_ROOM);

    *self = (ecc_foreign_t) { .slot_size = largest };
    self->n_slots = wanted > minimum ? wanted : minimum;
    self->frames = calloc((size_t) self->n_slots, largest);
    self->slots = calloc((size_t) self->n_slots, sizeof(*self->slots));
    return self->frames == NULL || self->slots == NULL ? ECC_ERR_NO_MEMORY : 0;
}

void
ecc_foreign_free(ecc_foreign_t *self)
{
    free(self->frames);
    free(self->slots);
    *self = (ecc_foreign_t) { 0 };
}

int64_t
ecc_foreign_keep(ecc_foreign_t *self, const unsigned char *frame, size_t size)
{
    int64_t at = self->n % self->n_slots;

    if (size > self->slot_size) {
        return -1;
    }
    memcpy(self->frames + (size_t) at * self->slot_size, frame, size);
    self->slots[at] = (ecc_foreign_slot_t) { self->n, size };
    return self->n++;
}

unsigned char *
ecc_foreign_find(const ecc_foreign_t *self, int64_t number, size_t *size)
{
    int64_t at;

    if (number < 0 || number >= self->n) {
        return NULL;
    }
    at = number % self->n_slots;
    *size = self->slots[at].size;
    return self->slots[at].number == number ? self->frames + (size_t) at * self->slot_size : NULL;
}

int64_t
ecc_foreign_codepoint(const unsigned char *frame)
{
    return frame[IP + 1] & ECN;
}

/* RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). */
void
ecc_foreign_set_codepoint(unsigned char *frame, int64_t codepoint)
{
    uint32_t before = (uint32_t) frame[IP] << 8 | frame[IP + 1];
    uint32_t after = (before & ~(uint32_t) ECN) | (uint32_t) codepoint;
    uint32_t sum = (uint32_t) frame[CHECKSUM] << 8 | frame[CHECKSUM + 1];

    sum = (~sum & 0xffff) + (~before & 0xffff) + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    frame[IP + 1] = (unsigned char) after;
    frame[CHECKSUM] = (unsigned char) (sum >> 8);
    frame[CHECKSUM + 1] = (unsigned char) sum;
}
