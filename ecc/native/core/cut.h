#ifndef ECC_CUT_H
#define ECC_CUT_H

/*
 * A network cut into parts, each run by its own engine (S-121 to S-127): which links, senders and receivers this engine
 * has, and which part has the others.
 */

#include "core/archive.h"
#include "core/state.h"

/*
 * `hop` of a crossing: ECC_CUT_ON_ACCESS, or the number of a link of the route, or the number after these for the pure
 * delay; from ECC_CUT_AFTER_ACKS after that on, a link of another route by its position.
 */
#define ECC_CUT_ON_ACCESS (-1)
#define ECC_CUT_AFTER_ACKS 2

#define ECC_N_BATCHES 16 /* batches handed over that the other part may not have read yet: a power of two */

/* Packets that have left for one part, in order. */
typedef struct {
    unsigned char *bytes;
    size_t size;
    size_t room;
    ecc_ps_t first_arrival; /* earliest arrival among them, ECC_NEVER if empty */
} ecc_outbox_t;

/* A transfer in a slot, whose sender is here or which only passes (S-127). */
typedef struct {
    uint32_t next;   /* slot of another transfer whose number has the same remainder, or ECC_NO_SLOT */
    uint32_t n_away; /* packets that have left, and have neither entered again nor been discarded elsewhere */
    ecc_ps_t last;   /* arrival of the last packet that entered the pure delay */
    ecc_ps_t end;    /* time of the last discarded packet or of the stop of the sender, so far */
} ecc_cut_slot_t;

struct ecc_cut {
    int64_t part; /* number of the part of this engine */
    int64_t n_parts;
    int64_t *links;         /* part of each link */
    int64_t *senders;       /* part of the sender of each flow */
    int64_t *receivers;     /* part of the receiver of each flow */
    int64_t *templates;     /* part of the senders and receivers of the transfers of each template */
    ecc_ps_t *last;         /* arrival of the last packet that entered each wire, access line and pure delay */
    ecc_ps_t *delays;       /* by part: minimum time from an event here to any effect there; ECC_NEVER: no effect */
    ecc_outbox_t *outboxes; /* for each part, the outbox that is filled, and batches that the part may read meanwhile */
    ecc_cut_slot_t *slots;
    uint32_t *heads; /* slot by remainder of the number of a transfer, or ECC_NO_SLOT */
    uint32_t n_slots;
    uint32_t n_heads;               /* number of heads, a power of two */
    uint32_t n_passing;             /* slots of transfers whose sender is elsewhere */
    ecc_wire_entry_t *wire_entries; /* packets that were put on wires here, if a trace is kept */
    size_t n_wire_entries;
    size_t wire_entries_room;
};

/* Copies a partition; ecc_partition_install checks it. */
ECC_MUST_CHECK int ecc_cut_init(ecc_engine_t *self, const ecc_partition_t *partition);
void ecc_cut_free(ecc_engine_t *self);

static inline bool
ecc_cut_has_link(const ecc_engine_t *self, uint32_t link)
{
    return self->cut == NULL || self->cut->links[link] == self->cut->part;
}

/* The part of the sender of a flow or transfer; needs a cut. */
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

static inline int64_t
ecc_cut_n_hops(const ecc_flow_t *spec)
{
    return spec->n_forward + spec->n_reverse;
}

/* Position of the wire of a crossing, relative to the first position of its flow. */
static inline uint32_t
ecc_cut_relative(const ecc_flow_t *spec, int64_t hop)
{
    return (uint32_t) (hop < ecc_cut_n_hops(spec) ? hop : hop - ECC_CUT_AFTER_ACKS);
}

/* S-33, S-34: whether the ACK is the only event after the wire at a position. */
static inline bool
ecc_cut_ends_with_ack(const ecc_engine_t *self, uint32_t position)
{
    uint32_t end = self->hops[position] & ECC_HOP_END;

    return end == ECC_END_IMMEDIATE_ACK || end == ECC_END_SENDER;
}

/* Whether a crossing is on a wire. */
bool ecc_cut_is_wire(const ecc_engine_t *self, uint32_t flow, int64_t hop);

/* The part that has the end of a wire. */
int64_t ecc_cut_part_behind_wire(const ecc_engine_t *self, uint32_t flow, uint32_t position);

/* The part that puts packets on an access line, a wire of the route or a pure delay, and the part that has its end. */
int64_t ecc_cut_part_before(const ecc_engine_t *self, uint32_t flow, int64_t hop);
int64_t ecc_cut_part_after(const ecc_engine_t *self, uint32_t flow, int64_t hop);

/* The slot of the transfer with a number, or ECC_NO_SLOT. */
uint32_t ecc_cut_find_slot(const ecc_engine_t *self, int64_t number);

/* Makes room for slots. */
ECC_MUST_CHECK int ecc_cut_reserve(ecc_engine_t *self, uint32_t n_slots);

/* A slot has a transfer, or has it no more. */
void ecc_cut_join(ecc_engine_t *self, uint32_t slot);
void ecc_cut_leave(ecc_engine_t *self, uint32_t slot);

/* Whether packets of the transfer in a slot are in other parts. */
static inline bool
ecc_cut_is_away(const ecc_engine_t *self, uint32_t flow)
{
    return self->cut != NULL && self->cut->slots[flow - self->n_flows].n_away > 0;
}

/*
 * Bytes that a flow has sent without retransmissions, as far as this engine knows: bounds the reports of other parts.
 */
static inline int64_t
ecc_cut_most_sent(const ecc_engine_t *self, uint32_t flow)
{
    const ecc_flow_state_t *state = &self->flows[flow];

    return ecc_cut_has_sender(self, flow) ? state->sent - (state->reliable ? state->lost : 0) : ECC_ARCHIVE_MAX;
}

/* Packet numbers that the sender of a flow with a transport of type 4 has used, as far as this engine knows. */
static inline int64_t
ecc_cut_most_numbers(const ecc_engine_t *self, uint32_t flow)
{
    return ecc_cut_has_sender(self, flow) ? self->quics[flow].next : ECC_ARCHIVE_MAX;
}

/* Whether an ACK reports no more than its sender has sent, as far as this engine knows. */
bool ecc_cut_is_report(const ecc_engine_t *self, const ecc_packet_t *packet);

/* The outbox for a part. */
static inline ecc_outbox_t *
ecc_cut_outbox(const ecc_engine_t *self, int64_t part)
{
    return &self->cut->outboxes[part * (1 + ECC_N_BATCHES)];
}

/* Batch `number`, from 0, handed over to a part. */
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

#endif
