/*
 * Packet sockets of Linux (packet(7)): TPACKET_V2, whose frames are handed over one by one; in the next version, whole
 * blocks are, some milliseconds late.
 */

#define _GNU_SOURCE

#include "wire/live_socket.h"

#include <assert.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define FIRST_SLOT_SIZE 2048u
#define BLOCK_SIZE (256u * 1024u)
/* bytes of a frame in its slot: the header of the kernel, and room to align it */
#define IN_FRONT (sizeof(struct tpacket2_hdr) + sizeof(struct sockaddr_ll) + 64)
#define N_TRIES 1000 /* to send a frame for which the kernel has no room */

struct ecc_live_batch {
    struct mmsghdr messages[ECC_LIVE_BATCH];
    struct iovec vectors[ECC_LIVE_BATCH];
};

static int
set_option(int fd, int name, const void *value, size_t size)
{
    return setsockopt(fd, SOL_PACKET, name, value, (socklen_t) size) == 0 ? 0 : -errno;
}

static int
open_ring(ecc_live_socket_t *self)
{
    int version = TPACKET_V2;
    int yes = 1;
    struct tpacket_req request;
    void *ring;
    int ret = set_option(self->fd, PACKET_VERSION, &version, sizeof(version));

    if (ret == 0) {
        ret = set_option(self->fd, PACKET_QDISC_BYPASS, &yes, sizeof(yes));
    }
    if (ret != 0) {
        return ret;
    }
    self->slot_size = FIRST_SLOT_SIZE;
    while (self->slot_size < IN_FRONT + self->room) {
        self->slot_size *= 2;
    }
    self->n_slots = ECC_LIVE_SLOTS;
    self->ring_size = ECC_LIVE_SLOTS * self->slot_size;
    request = (struct tpacket_req) { .tp_block_size = BLOCK_SIZE,
        .tp_block_nr = (unsigned) (self->ring_size / BLOCK_SIZE),
        .tp_frame_size = (unsigned) self->slot_size,
        .tp_frame_nr = ECC_LIVE_SLOTS };
    ret = set_option(self->fd, PACKET_RX_RING, &request, sizeof(request));
    if (ret != 0) {
        return ret;
    }
    ring = mmap(NULL, self->ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
    if (ring == MAP_FAILED) {
        return -errno;
    }
    self->ring = ring;
    return 0;
}

int
ecc_live_socket_init(ecc_live_socket_t *self, int fd, size_t room)
{
    *self = (ecc_live_socket_t) { .fd = fd, .room = room };
    if (room > BLOCK_SIZE / 2) {
        return -EMSGSIZE;
    }
    self->batch = calloc(1, sizeof(*self->batch));
    self->frames = calloc(ECC_LIVE_BATCH, room);
    if (self->batch == NULL || self->frames == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < ECC_LIVE_BATCH; i++) {
        self->batch->vectors[i].iov_base = self->frames + i * room;
        self->batch->messages[i].msg_hdr.msg_iov = &self->batch->vectors[i];
        self->batch->messages[i].msg_hdr.msg_iovlen = 1;
    }
    return open_ring(self);
}

void
ecc_live_socket_free(ecc_live_socket_t *self)
{
    if (self->ring != NULL) {
        (void) munmap(self->ring, self->ring_size);
    }
    free(self->frames);
    free(self->batch);
    *self = (ecc_live_socket_t) { .fd = -1 };
}

static struct tpacket2_hdr *
slot(const ecc_live_socket_t *self)
{
    return (struct tpacket2_hdr *) (void *) (self->ring + self->next * self->slot_size);
}

const unsigned char *
ecc_live_socket_next(const ecc_live_socket_t *self, int64_t *size, int64_t *stamp)
{
    const struct tpacket2_hdr *header = slot(self);

    if ((__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) {
        return NULL;
    }
    *size = header->tp_snaplen;
    *stamp = (int64_t) header->tp_sec * 1000000000 + header->tp_nsec;
    return (const unsigned char *) header + header->tp_mac;
}

void
ecc_live_socket_release(ecc_live_socket_t *self)
{
    __atomic_store_n(&slot(self)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    self->next = self->next + 1 == self->n_slots ? 0 : self->next + 1;
}

int64_t
ecc_live_socket_overrun(const ecc_live_socket_t *self)
{
    struct tpacket_stats stats = { 0 };
    socklen_t size = sizeof(stats);

    return getsockopt(self->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0 ? stats.tp_drops : 0;
}

void
ecc_live_socket_append(ecc_live_socket_t *self, size_t size)
{
    assert(self->n_waiting < ECC_LIVE_BATCH && size <= self->room);
    self->batch->vectors[self->n_waiting++].iov_len = size;
}

int64_t
ecc_live_socket_send(ecc_live_socket_t *self)
{
    uint32_t done = 0;
    int64_t n_lost = 0;
    int n_tries = 0;

    while (done < self->n_waiting) {
        int n = sendmmsg(self->fd, self->batch->messages + done, self->n_waiting - done, MSG_DONTWAIT);
        if (n > 0) {
            done += (uint32_t) n;
            n_tries = 0;
        } else if (++n_tries > N_TRIES || (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)) {
            done++;
            n_lost++;
        }
    }
    self->n_waiting = 0;
    return n_lost;
}
