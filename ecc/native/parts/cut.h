#ifndef ECC_CUT_H
#define ECC_CUT_H

/*
 * Where a network is cut into parts, each run by an engine of its own (S-121 to S-127): which links, senders and
 * receivers this one has, what leaves it, and what enters it, which is checked as input from anywhere.
 */

#include "core/archive.h"
#include "core/state.h"

#define ECC_N_BATCHES 16 /* that one part may have handed over and the other not read: a power of two */

/* Packets that have left for one part, in the order in which they did. */
typedef struct {
    unsigned char *bytes;
    size_t size;
    size_t room;
    ecc_ps_t first_arrival; /* the earliest of them, ECC_NEVER without any */
} ecc_outbox_t;

/* Of the transfer in a slot: its sender is here, or it only passes (S-127). */
typedef struct {
    uint32_t next;   /* slot of another whose number has the same remainder, or ECC_NO_SLOT */
    uint32_t n_away; /* packets that have left, and have neither entered again nor been discarded elsewhere */
    ecc_ps_t last;   /* arrival of the last packet that entered its pure delay */
    ecc_ps_t end;    /* when the last of its packets was discarded or the sender stopped, so far */
} ecc_cut_slot_t;

struct ecc_cut {
    int64_t part; /* that of this engine */
    int64_t n_parts;
    int64_t *links;         /* the part of each ... */
    int64_t *senders;       /* ... by flow */
    int64_t *receivers;     /* by flow */
    int64_t *templates;     /* sender and receiver of its transfers */
    ecc_ps_t *last;         /* arrival of the last packet that entered a wire, an access line, a pure delay */
    ecc_ps_t *delays;       /* by part: the least time from an event here to what it causes there; ECC_NEVER: nothing */
    ecc_outbox_t *outboxes; /* for each part, one that is filled, and batches that the part may read meanwhile */
    ecc_cut_slot_t *slots;
    uint32_t *heads; /* by remainder of the number of a transfer: a slot, or ECC_NO_SLOT */
    uint32_t n_slots;
    uint32_t n_heads;   /* a power of two */
    uint32_t n_passing; /* slots of transfers whose sender is elsewhere */
};

/* Copies the partition and checks it (S-122); routes are installed. */
ECC_MUST_CHECK int ecc_cut_init(ecc_engine_t *self, const ecc_partition_t *partition);
void ecc_cut_free(ecc_engine_t *self);

static inline bool
ecc_cut_has_link(const ecc_engine_t *self, uint32_t link)
{
    return self->cut == NULL || self->cut->links[link] == self->cut->part;
}

/* The part of the sender of a flow, or of the transfer in a slot; there is a cut. */
static inline int64_t
ecc_cut_sender(const ecc_engine_t *self, uint32_t flow)
{
    return flow < self->n_flows ? self->cut->senders[flow] : self->cut->templates[self->flows[flow].template_index];
}

static inline int64_t
ecc_cut_receiver(const ecc_engine_t *self, uint32_t flow)
{
    return flow < self->n_flows ? self->cut->receivers[flow] : self->cut->templates[self->flows[flow].template_index];
}

static inline bool
ecc_cut_has_sender(const ecc_engine_t *self, uint32_t flow)
{
    return self->cut == NULL || ecc_cut_sender(self, flow) == self->cut->part;
}

static inline bool
ecc_cut_has_receiver(const ecc_engine_t *self, uint32_t flow)
{
    return self->cut == NULL || ecc_cut_receiver(self, flow) == self->cut->part;
}

/* Whether transfers of a template have their sender here. */
static inline bool
ecc_cut_has_template(const ecc_engine_t *self, int64_t template_index)
{
    return self->cut == NULL || self->cut->templates[template_index] == self->cut->part;
}

/* Room for so many slots. */
ECC_MUST_CHECK int ecc_cut_reserve(ecc_engine_t *self, uint32_t n_slots);

/* A slot has a transfer, or has it no more. */
void ecc_cut_join(ecc_engine_t *self, uint32_t slot);
void ecc_cut_leave(ecc_engine_t *self, uint32_t slot);

/* Frees slots of transfers that have passed; whether these are many. */
bool ecc_cut_free_slots(ecc_engine_t *self);

/* Whether packets of the transfer in a slot are in other parts. */
static inline bool
ecc_cut_is_away(const ecc_engine_t *self, uint32_t flow)
{
    return self->cut != NULL && self->cut->slots[flow - self->n_flows].n_away > 0;
}

/* A packet of a transfer whose sender is elsewhere was discarded here: its part will know. */
ECC_MUST_CHECK int ecc_cut_report_discarded(ecc_engine_t *self, uint32_t flow);

/* What a flow has sent, retransmissions not counted, as far as this engine knows: bounds what others say of it. */
static inline int64_t
ecc_cut_most_sent(const ecc_engine_t *self, uint32_t flow)
{
    const ecc_flow_state_t *state = &self->flows[flow];

    return ecc_cut_has_sender(self, flow) ? state->sent - (state->reliable ? state->lost : 0) : ECC_ARCHIVE_MAX;
}

/*
 * A packet enters a wire, an access line or a pure delay, at whose end it is at `time`. If another part has what comes
 * then, it leaves: true. Of these, `ret` is 0 or a code, and the packet is no longer in this engine.
 */
bool ecc_cut_leaves_by_wire(ecc_engine_t *self, uint32_t packet, ecc_ps_t time, int *ret);
bool ecc_cut_leaves_by_access(ecc_engine_t *self, uint32_t packet, ecc_ps_t time, int *ret);
bool ecc_cut_leaves_as_ack(ecc_engine_t *self, uint32_t packet, ecc_ps_t time, int *ret);

/*
 * Packets enter, as they left another part: 0, or a code, and those before the one that is wrong have entered. What was
 * discarded elsewhere was so at `latest`, at the latest.
 */
ECC_MUST_CHECK int ecc_cut_enter(ecc_engine_t *self, const unsigned char *bytes, size_t size, ecc_ps_t latest);

/* What an ACK reports is no more than its sender has sent, as far as this engine knows it. */
bool ecc_cut_is_report(const ecc_engine_t *self, const ecc_packet_t *packet);

/* What leaves for a part ... */
static inline ecc_outbox_t *
ecc_cut_outbox(const ecc_engine_t *self, int64_t part)
{
    return &self->cut->outboxes[part * (1 + ECC_N_BATCHES)];
}

/* ... and what has been handed over to it, by number from 0. */
static inline ecc_outbox_t *
ecc_cut_batch(const ecc_engine_t *self, int64_t part, uint32_t number)
{
    return ecc_cut_outbox(self, part) + 1 + number % ECC_N_BATCHES;
}

static inline void
ecc_cut_empty(ecc_outbox_t *outbox)
{
    outbox->size = 0;
    outbox->first_arrival = ECC_NEVER;
}

/* What has left for a part becomes a batch; the part has read the one that had its place. */
void ecc_cut_hand_over(ecc_engine_t *self, int64_t part, uint32_t number);

/* The least of the delays. */
ecc_ps_t ecc_cut_lookahead(const ecc_engine_t *self);

/* Moves what has left for a part to a buffer, unless that is NULL; its size. */
int64_t ecc_cut_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer);

/* Bytes of what follows ecc_crossing_t, but for the words of transfers. */
size_t ecc_cut_body_size(const ecc_engine_t *self);

#endif
