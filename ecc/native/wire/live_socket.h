#ifndef ECC_LIVE_SOCKET_H
#define ECC_LIVE_SOCKET_H

/* A packet socket of Linux: frames come in by a ring that is shared with the kernel, and go out in batches. */

#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"

#define ECC_LIVE_BATCH 64
#define ECC_LIVE_SLOTS 1024 /* frames in a ring */

typedef struct ecc_live_batch ecc_live_batch_t;

typedef struct {
    int fd;
    unsigned char *ring;
    size_t ring_size;
    size_t slot_size;
    uint32_t n_slots;
    uint32_t next; /* slot of the next frame */
    ecc_live_batch_t *batch;
    size_t room; /* bytes of a frame that goes out */
    unsigned char *frames;
    uint32_t n_waiting; /* frames that wait to be sent */
} ecc_live_socket_t;

/* The socket stays the caller's; frames are up to `room` bytes. 0, or errno as a negative number. */
ECC_MUST_CHECK int ecc_live_socket_init(ecc_live_socket_t *self, int fd, size_t room);
void ecc_live_socket_free(ecc_live_socket_t *self);

/*
 * The next frame that has come, or NULL; its bytes are there until ecc_live_socket_release. `stamp`: when the kernel
 * had it [ns of CLOCK_REALTIME].
 */
const unsigned char *ecc_live_socket_next(const ecc_live_socket_t *self, int64_t *size, int64_t *stamp);
void ecc_live_socket_release(ecc_live_socket_t *self);

/* Frames that came while the ring was full, since the last call. */
int64_t ecc_live_socket_overrun(const ecc_live_socket_t *self);

/* Place for the next frame to send; there is room unless ECC_LIVE_BATCH frames wait. */
static inline unsigned char *
ecc_live_socket_space(const ecc_live_socket_t *self)
{
    return self->frames + self->n_waiting * self->room;
}

/* Queues the frame that was written there. */
void ecc_live_socket_append(ecc_live_socket_t *self, size_t size);

/* Sends all queued frames; returns how many the kernel refused. */
int64_t ecc_live_socket_send(ecc_live_socket_t *self);

#endif
