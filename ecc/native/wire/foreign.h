#ifndef ECC_FOREIGN_H
#define ECC_FOREIGN_H

/*
 * Frames of hosts outside the engine, whose packets are in the network. Each frame is kept under a number, which is
 * the offset of its packet. The newest frames are kept, several times as many as the network holds, so that frames of
 * dropped packets need not be released.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"

typedef struct {
    int64_t number;
    size_t size;
} ecc_foreign_slot_t;

typedef struct {
    unsigned char *frames;
    ecc_foreign_slot_t *slots;
    size_t slot_size;
    int64_t n_slots;
    int64_t n; /* frames kept so far */
} ecc_foreign_t;

/* Room for frames up to `largest` bytes in a network that holds `room` of them (0: unknown); 0 or a code. */
ECC_MUST_CHECK int ecc_foreign_init(ecc_foreign_t *self, size_t largest, int64_t room);
void ecc_foreign_free(ecc_foreign_t *self);

/* Keeps a copy of a frame: returns its number, or -1 if it is too large. */
int64_t ecc_foreign_keep(ecc_foreign_t *self, const unsigned char *frame, size_t size);

/* The frame of a number and its bytes, or NULL if it is no longer kept. */
unsigned char *ecc_foreign_find(const ecc_foreign_t *self, int64_t number, size_t *size);

/* The ECN field of a frame of IPv4 (enum ecc_codepoint). */
int64_t ecc_foreign_codepoint(const unsigned char *frame);

/* Sets the ECN field, and updates the checksum of the header. */
void ecc_foreign_set_codepoint(unsigned char *frame, int64_t codepoint);

#endif
