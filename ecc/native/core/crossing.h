#ifndef ECC_CROSSING_H
#define ECC_CROSSING_H

/* Packets that leave this part of a network for another (S-123): their bytes, and the outboxes where they wait. */

#include "core/cut.h"

/* Data of a transfer that a part needs if the transfer only passes; of a flow: -1 and 0. */
typedef struct {
    int64_t template_index;
    ecc_ps_t ack_delay;
} ecc_passing_t;

/* Bytes that follow ecc_crossing_t, without the words of transfers. */
size_t ecc_crossing_body_size(const ecc_engine_t *self);

/* Bytes of a crossing and of all that follows it. */
size_t ecc_crossing_size(const ecc_engine_t *self);

/* Fills a packet from the body of its crossing; has_sack: the body may have SACK blocks. */
ECC_MUST_CHECK int ecc_crossing_read_body(
    ecc_engine_t *self, const ecc_packet_t *packet, const unsigned char *from, bool has_sack);

/*
 * A packet enters a wire, an access line or a pure delay, and reaches its end at `time`. If another part has that end,
 * the packet leaves: true. Then `ret` is 0 or a code, and the packet is no longer in this engine.
 */
bool ecc_crossing_leaves_by_wire(ecc_engine_t *self, uint32_t packet, ecc_ps_t time, int *ret);
bool ecc_crossing_leaves_by_access(ecc_engine_t *self, uint32_t packet, ecc_ps_t time, int *ret);
bool ecc_crossing_leaves_as_ack(ecc_engine_t *self, uint32_t packet, ecc_ps_t time, int *ret);

/* Reports to the part of its sender that a packet of a transfer was discarded here. */
ECC_MUST_CHECK int ecc_crossing_report_discarded(ecc_engine_t *self, uint32_t flow);

/* Copies the packets put on wires, unless `entries` is NULL, and returns their number. */
int64_t ecc_crossing_wire_entries(const ecc_engine_t *self, ecc_wire_entry_t *entries);

/* The outbox for a part becomes a batch; the part has read the batch that had its place. */
void ecc_crossing_hand_over(ecc_engine_t *self, int64_t part, uint32_t number);

/* Moves the outbox for a part to a buffer, unless that is NULL, and returns its size. */
int64_t ecc_crossing_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer);

#endif
