#ifndef ECC_LISTS_H
#define ECC_LISTS_H

/*
 * The packets of a checkpoint, list by list. Each packet is stored with its list, so that it is in exactly one.
 * Indices of packets and links of lists are not stored; packets that are read get new indices. Flows come before
 * links.
 */

#include "core/archive.h"

/* The stage of a packet in a list. */
enum ecc_lists_stage {
    ECC_LISTS_DATA,    /* not yet at the receiver */
    ECC_LISTS_DELAYED, /* at a receiver that delays its ACK */
    ECC_LISTS_ACK      /* an ACK */
};

/* Lists with a node in the calendar: on a link's wire, a flow's access line, or its ACKs. */
enum ecc_lists_list { ECC_LISTS_WIRE, ECC_LISTS_ACCESS, ECC_LISTS_ACKS };

/* Moves a packet of a flow; returns its index, which is new in reading. */
uint32_t ecc_lists_packet(ecc_archive_t *archive, ecc_engine_t *self, uint32_t flow, uint32_t packet, uint32_t position,
    enum ecc_lists_stage stage);

/* Moves the state of slots. */
void ecc_lists_slots(ecc_archive_t *archive, ecc_slots_t *slots);

/* Moves the packets of a list, and the state of its channel, unless that is NULL. */
void ecc_lists_channel(ecc_archive_t *archive, ecc_engine_t *self, enum ecc_lists_list list, uint32_t index,
    ecc_fifo_t *fifo, ecc_channel_t *channel);

/* Moves the packets that wait in one of the queues of a link that schedules. */
void ecc_lists_waiting(ecc_archive_t *archive, ecc_engine_t *self, uint32_t link, uint32_t queue);

/* Moves the queue of a link: packets that depart in an event, or the records of those that depart silently. */
void ecc_lists_queue(ecc_archive_t *archive, ecc_engine_t *self, uint32_t link);

#endif
