#ifndef ECC_LISTS_H
#define ECC_LISTS_H

/*
 * Packets on a tape, list by list: each is where its list is, so none can be in two, or in none. Numbers of packets and
 * links of lists are not there; packets that are read are numbered anew. Flows come before links.
 */

#include "tape.h"

/* What a packet is where it is. */
enum ecc_lists_stage {
    ECC_LISTS_DATA, /* on its way to the receiver */
    ECC_LISTS_KEPT, /* with a receiver that waits */
    ECC_LISTS_ACK   /* on its way back */
};

/* The lists that a node of the calendar waits for: on a link's wire, a flow's access line, or its ACKs. */
enum ecc_lists_kind { ECC_LISTS_WIRE, ECC_LISTS_ACCESS, ECC_LISTS_ACKS };

/* A packet of a flow; returns its number, which is new when it is read. */
uint32_t ecc_lists_packet(ecc_tape_t *tape, ecc_engine_t *self, uint32_t flow, uint32_t packet, uint32_t position,
    enum ecc_lists_stage stage);

/* The packets of a list, and what the impairment of its way, if it is not NULL, has done so far. */
void ecc_lists_way(ecc_tape_t *tape, ecc_engine_t *self, enum ecc_lists_kind kind, uint32_t index, ecc_fifo_t *fifo,
    ecc_impaired_t *impaired);

/* The queue of a link: packets that depart in an event, or what is left of those that do so silently. */
void ecc_lists_queue(ecc_tape_t *tape, ecc_engine_t *self, uint32_t link);

#endif
