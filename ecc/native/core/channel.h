#ifndef ECC_CHANNEL_H
#define ECC_CHANNEL_H

/* Impairments (S-93 to S-97): losses and delays of packets on the wire of a link, or on the pure delay of ACKs. */

#include <stdbool.h>

#include "core/calendar.h"
#include "core/engine.h"
#include "core/memory.h"
#include "core/packets.h"
#include "core/slots.h"

/* A packet that others may overtake. */
typedef struct {
    ecc_ps_t time;  /* time at which it reaches the end of the channel */
    uint64_t order; /* number of the packet in the order of entering */
    uint32_t packet;
} ecc_reordered_t;

typedef struct {
    const ecc_impairment_t *spec; /* spec in the configuration; NULL: no impairment */
    uint64_t random;
    ecc_slots_t slots;
    int64_t until_spike; /* packets up to the next spike, including the packet with the spike */
    ecc_ps_t free_at;    /* time at which the server of the spikes is free */
    ecc_ps_t last_out;
    int64_t is_bad;                   /* 1: bursts of losses are in their bad state */
    const ecc_delay_change_t *delays; /* changes of the delay: n_delays of the spec */
    uint64_t n_joined;
    ecc_reordered_t *reordered; /* packets in the channel if it reorders: a binary heap, first to arrive first */
    uint32_t n_reordered;
    uint32_t room;
} ecc_channel_t;

/* Sets up a channel. Keeps the room of its heap, which is zeroed or from before. `spec` and `delays`, the changes of
   all channels, must stay in place. */
void ecc_channel_init(ecc_channel_t *self, const ecc_impairment_t *spec, const ecc_delay_change_t *delays,
    uint64_t seed, uint64_t stream);
void ecc_channel_free(ecc_channel_t *self, ecc_memory_t *memory);

/* S-96: delay that the changes add for packets that enter the channel now. */
ecc_ps_t ecc_channel_additional(const ecc_channel_t *self, ecc_ps_t now);

/* S-94: whether a packet is lost. */
bool ecc_channel_loses(ecc_channel_t *self, enum ecc_packet_kind kind);

/* S-95 to S-97, S-160: arrival time of a packet that enters a channel with this delay now. */
ecc_ps_t ecc_channel_arrival(ecc_channel_t *self, ecc_ps_t now, ecc_ps_t delay, int64_t size);

/* Adds a packet to the fifo, or to the heap if the channel reorders, and keeps the node of the calendar pending. */
ECC_MUST_CHECK int ecc_channel_append(ecc_channel_t *self, ecc_memory_t *memory, ecc_packets_t *packets,
    ecc_fifo_t *fifo, ecc_calendar_t *calendar, uint32_t node, uint32_t packet, ecc_ps_t time);
ECC_MUST_CHECK int ecc_channel_verify(const ecc_channel_t *self);

/* Removes the first packet of the heap. Its node has just been popped, and is pending for the next packet. */
uint32_t ecc_channel_pop(ecc_channel_t *self, ecc_calendar_t *calendar, uint32_t node);

#endif
