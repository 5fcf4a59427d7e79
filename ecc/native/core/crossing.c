/*
 * Packets that leave this part of a network for another (S-123).
 *
 * A packet leaves when it is put on a wire, an access line or a pure delay whose end is in another part: it is copied
 * to an outbox with the time at which it reaches that end, and its memory is released. With a trace, every packet that
 * is put on a wire is recorded, so that the traces of all parts can be merged (S-126).
 *
 * Not here: which part has the end (cut.c), and how a packet enters (enter.c).
 */

#include "core/crossing.h"

#include <string.h>

#include "core/archive.h"

#define FIRST_ROOM 4096u

/* S-123: bytes of the header, and, if they exist, of ecc_ecn_t, front and missing of an ACK, and its SACK blocks. */
size_t
ecc_crossing_body_size(const ecc_engine_t *self)
{
    return self->ecn_offset + (self->wants_ecn ? sizeof(ecc_ecn_t) : 0) + (self->wants_acks ? 2 * sizeof(int64_t) : 0)
        + (self->wants_sack ? sizeof(ecc_sack_t) : 0);
}

/* S-123: bytes of a crossing and of all that follows it. */
size_t
ecc_crossing_size(const ecc_engine_t *self)
{
    return sizeof(ecc_crossing_t) + ecc_crossing_body_size(self)
        + (self->transfers.n_templates > 0 ? sizeof(ecc_passing_t) : 0);
}

/* Writes the content of a packet into a body of zeros. */
static void
write_body(const ecc_engine_t *self, const ecc_packet_t *packet, unsigned char *to)
{
    const ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];

    memcpy(to, ecc_packets_header(packet), self->ecn_offset);
    to += self->ecn_offset;
    if (self->wants_ecn) {
        ecc_ecn_t ecn = ecc_state_ecn(self, ecc_packets_header(packet));
        memcpy(to, &ecn, sizeof(ecn));
        to += sizeof(ecn);
    }
    if (flow->needs_receiver || flow->reliable) {
        int64_t words[] = { info->front, flow->has_quic ? info->ack_delay : flow->reliable ? 0 : info->missing };
        memcpy(to, words, sizeof(words));
        if (flow->uses_sack) {
            memcpy(to + sizeof(words), ecc_sacks_at(&self->sacks, info->sack), sizeof(ecc_sack_t));
        }
    }
}

/* Reads the content of a packet from a body; has_sack: it may have SACK blocks. */
int
ecc_crossing_read_body(ecc_engine_t *self, const ecc_packet_t *packet, const unsigned char *from, bool has_sack)
{
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    const ecc_flow_state_t *flow = &self->flows[packet->flow];

    memcpy(ecc_packets_header(packet), from, self->ecn_offset);
    from += self->ecn_offset;
    if (self->wants_ecn) {
        ecc_ecn_t ecn;
        memcpy(&ecn, from, sizeof(ecn));
        from += sizeof(ecn);
        if (ecn.codepoint < ECC_NOT_ECT || ecn.codepoint > ECC_CE || ecn.word < 0 || ecn.word > ECC_ARCHIVE_MAX) {
            return ECC_ERR_CROSSING;
        }
        ecc_state_set_ecn(self, ecc_packets_header(packet), ecn);
    }
    if (self->wants_acks) {
        int64_t words[2];
        memcpy(words, from, sizeof(words));
        info->front = words[0];
        info->missing = words[1];
        if (flow->uses_sack) {
            ecc_sack_t sack = { 0 };
            info->ack_delay = flow->has_quic ? (uint32_t) words[1] : 0;
            if (has_sack) {
                memcpy(&sack, from + sizeof(words), sizeof(sack));
            }
            return ecc_sacks_keep(&self->sacks, &self->memory, &sack, &info->sack);
        }
    }
    return 0;
}

/* Appends a crossing to the outbox for a part; without a packet, its body is zeros. */
static int
append(ecc_engine_t *self, int64_t part, const ecc_crossing_t *crossing, uint32_t index, const ecc_packet_t *packet)
{
    ecc_outbox_t *outbox = ecc_cut_outbox(self, part);
    size_t size = ecc_crossing_size(self);
    unsigned char *to;

    if (outbox->size + size > outbox->room) {
        size_t room = 2 * outbox->room + FIRST_ROOM + size;
        void *bytes = outbox->bytes;
        int ret = ecc_memory_resize(&self->memory, outbox->room, room, &bytes);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_FLOW, crossing->flow, ECC_NO_HOOK, (double) room);
        }
        outbox->bytes = bytes;
        outbox->room = room;
    }
    to = outbox->bytes + outbox->size;
    outbox->size += size;
    memset(to, 0, size);
    memcpy(to, crossing, sizeof(*crossing));
    if (packet != NULL) {
        write_body(self, packet, to + sizeof(*crossing));
    }
    if (self->transfers.n_templates > 0) {
        const ecc_flow_state_t *flow = &self->flows[index];
        ecc_passing_t passing = { -1, 0 };
        if (index >= self->n_flows) {
            passing = (ecc_passing_t) { flow->template_index, flow->ack_delay };
        }
        memcpy(to + sizeof(*crossing) + ecc_crossing_body_size(self), &passing, sizeof(passing));
    }
    return 0;
}

static int
leave(ecc_engine_t *self, int64_t part, uint32_t id, int64_t hop, ecc_ps_t time)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = packet->flow;
    ecc_crossing_t crossing = { time, packet->sent, packet->offset, packet->size, ecc_state_number(self, index), hop };
    ecc_outbox_t *outbox = ecc_cut_outbox(self, part);
    int ret = append(self, part, &crossing, index, packet);

    if (ret != 0) {
        return ret;
    }
    if (index >= self->n_flows) {
        self->flows[index].n_packets--;
        self->cut->slots[index - self->n_flows].n_away += ecc_cut_has_sender(self, index);
    }
    outbox->first_arrival = time < outbox->first_arrival ? time : outbox->first_arrival;
    ecc_state_release(self, id);
    return 0;
}

int
ecc_crossing_report_discarded(ecc_engine_t *self, uint32_t index)
{
    const ecc_flow_state_t *flow = &self->flows[index];
    ecc_crossing_t crossing = { .time = self->now, .flow = flow->number, .hop = ecc_cut_n_hops(flow->spec) + 1 };

    return append(self, ecc_cut_sender(self, index), &crossing, index, NULL);
}

/*
 * S-126: records a packet on a wire whose HOP is in a part, until the trace is full: what enters a wire later reaches
 * another part after all events of a full trace.
 */
static ECC_COLD int
record_wire_entry(ecc_engine_t *self, uint32_t position, int64_t part, ecc_ps_t time)
{
    ecc_cut_t *cut = self->cut;
    uint32_t link = self->hops[position] >> ECC_HOP_LINK;

    if (self->n_traced >= self->trace_room || ecc_cut_ends_with_ack(self, position)) {
        return 0;
    }
    if (cut->n_wire_entries == cut->wire_entries_room) {
        size_t size = sizeof(*cut->wire_entries);
        size_t room = 2 * cut->wire_entries_room + FIRST_ROOM / size;
        void *block = cut->wire_entries;
        int ret = ecc_memory_extend(&self->memory, cut->wire_entries_room * size, room * size, &block);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_ENTITY_LINK, link, ECC_NO_HOOK, (double) room);
        }
        cut->wire_entries = block;
        cut->wire_entries_room = room;
    }
    cut->wire_entries[cut->n_wire_entries++] = (ecc_wire_entry_t) { time, link, part };
    return 0;
}

bool
ecc_crossing_leaves_by_wire(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    const ecc_packet_t *packet = ecc_packets_at(&self->packets, id);
    uint32_t index = packet->flow;
    int64_t part = ecc_cut_part_behind_wire(self, index, packet->position);
    int64_t hop = packet->position - self->flows[index].position;

    if (self->trace != NULL) {
        *ret = record_wire_entry(self, packet->position, part, time);
        if (*ret != 0) {
            return true;
        }
    }
    hop += hop < ecc_cut_n_hops(self->flows[index].spec) ? 0 : ECC_CUT_AFTER_ACKS;
    if (part == self->cut->part) {
        return false;
    }
    if (ecc_cut_ends_with_ack(self, packet->position)) {
        hop = ecc_cut_n_hops(self->flows[index].spec);
        time = ecc_clock_add(time, self->flows[index].ack_delay);
    }
    *ret = leave(self, part, id, hop, time);
    return true;
}

bool
ecc_crossing_leaves_by_access(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int64_t part = ecc_cut_part_after(self, index, ECC_CUT_ON_ACCESS);

    if (part == self->cut->part) {
        return false;
    }
    *ret = leave(self, part, id, ECC_CUT_ON_ACCESS, time);
    return true;
}

bool
ecc_crossing_leaves_as_ack(ecc_engine_t *self, uint32_t id, ecc_ps_t time, int *ret)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int64_t part = ecc_cut_sender(self, index);

    if (part == self->cut->part) {
        return false;
    }
    *ret = leave(self, part, id, ecc_cut_n_hops(self->flows[index].spec), time);
    return true;
}

int64_t
ecc_crossing_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer)
{
    ecc_outbox_t *outbox;
    size_t size;

    if (self->cut == NULL || part < 0 || part >= self->cut->n_parts) {
        return 0;
    }
    outbox = ecc_cut_outbox(self, part);
    size = outbox->size;
    if (buffer != NULL && size > 0) {
        memcpy(buffer, outbox->bytes, size);
        ecc_cut_empty(outbox);
    }
    return (int64_t) size;
}

int64_t
ecc_crossing_wire_entries(const ecc_engine_t *self, ecc_wire_entry_t *entries)
{
    size_t n = self->cut != NULL ? self->cut->n_wire_entries : 0;

    if (entries != NULL && n > 0) {
        memcpy(entries, self->cut->wire_entries, n * sizeof(*entries));
    }
    return (int64_t) n;
}

void
ecc_crossing_hand_over(ecc_engine_t *self, int64_t part, uint32_t number)
{
    ecc_outbox_t *outbox = ecc_cut_outbox(self, part);
    ecc_outbox_t *batch = ecc_cut_batch(self, part, number);
    ecc_outbox_t read = *batch;

    *batch = *outbox;
    *outbox = read;
    ecc_cut_empty(outbox);
}
