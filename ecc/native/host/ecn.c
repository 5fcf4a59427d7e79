/*
 * Explicit congestion notification (S-105 to S-111): which packets can be marked, what a receiver remembers of marks,
 * and what its ACKs report. What a sender does about them is a hook's.
 *
 * Not here: how a hook marks a packet (router.c), and how marks are counted and traced (link.c).
 */

#include "host/ecn.h"

#include "core/archive.h"
#include "core/cut.h"

static ecc_ecn_t
ecn_of(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    return ecc_state_ecn(self, ecc_packets_header(packet));
}

/* Whether the reports of marks are those of RFC 3168; those of QUIC are counts (S-221). */
static bool
is_classic(const ecc_engine_t *self, uint32_t index)
{
    return self->flows[index].spec->ecn == ECC_ECN_CLASSIC && !self->flows[index].has_quic;
}

/* S-106: the codepoint of packets that can be marked. */
static int64_t
ect_of(const ecc_engine_t *self, uint32_t index)
{
    return self->flows[index].spec->ecn == ECC_ECN_SCALABLE ? ECC_ECT_1 : ECC_ECT_0;
}

/* S-106, S-110: codepoint and CWR of a packet in EMIT. */
void
ecc_ecn_send(ecc_engine_t *self, const ecc_packet_t *packet, bool is_new)
{
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    ecc_ecn_t ecn = { ECC_NOT_ECT, 0 };

    if (is_new || !is_classic(self, packet->flow)) {
        ecn.codepoint = ect_of(self, packet->flow);
    }
    if (is_new && receiver->owes_answer) {
        receiver->owes_answer = false;
        receiver->answered = packet->offset;
        ecn.word = 1;
    }
    ecc_state_set_ecn(self, ecc_packets_header(packet), ecn);
}

/* S-108: a scalable receiver sends the delayed ACK before the first packet with another mark. */
bool
ecc_ecn_ends_delay(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    bool is_marked = ecn_of(self, packet).codepoint == ECC_CE;

    return is_marked != self->receivers[packet->flow].was_marked && !is_classic(self, packet->flow)
        && !self->flows[packet->flow].has_quic;
}

/* S-108, S-109: count marked bytes, and set or clear ECE. */
void
ecc_ecn_receive(ecc_engine_t *self, const ecc_packet_t *packet)
{
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    const ecc_ecn_t ecn = ecn_of(self, packet);
    bool is_marked = ecn.codepoint == ECC_CE;

    receiver->was_marked = is_marked;
    receiver->has_marks = is_marked || (receiver->has_marks && ecn.word == 0);
    receiver->marked += is_marked ? packet->size : 0;
}

/* S-106, S-108, S-109: codepoint and report of an ACK. */
void
ecc_ecn_write_ack(const ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_receiver_t *receiver = &self->receivers[packet->flow];

    ecc_state_set_ecn(self, ecc_packets_header(packet),
        is_classic(self, packet->flow) ? (ecc_ecn_t) { ECC_NOT_ECT, receiver->has_marks }
                                       : (ecc_ecn_t) { ect_of(self, packet->flow), receiver->marked });
}

/* S-108 to S-111: marked bytes and ECE that on_ack sees. */
void
ecc_ecn_read_ack(ecc_engine_t *self, const ecc_packet_t *packet, int64_t acked, bool is_persistent)
{
    const ecc_flow_state_t *flow = &self->flows[packet->flow];
    ecc_receiver_t *receiver = &self->receivers[packet->flow];
    int64_t word = ecn_of(self, packet).word;
    int64_t front = flow->reliable ? flow->expected - flow->lost : flow->expected;

    if (!is_classic(self, packet->flow)) {
        self->marked = word > receiver->sender_marked ? word - receiver->sender_marked : 0;
        receiver->sender_marked += self->marked;
        if (flow->has_quic && flow->spec->ecn == ECC_ECN_CLASSIC) { /* S-221: at most one event in a recovery */
            self->ece = self->marked > 0 && !self->transports[packet->flow].recovering && !is_persistent;
            self->marked = self->ece != 0 ? self->marked : 0;
        }
        return;
    }
    self->ece = word;
    if (word != 0 && acked > 0 && !receiver->owes_answer && front > receiver->answered) {
        receiver->owes_answer = true;
        self->marked = acked;
    }
}

int
ecc_ecn_verify(const ecc_engine_t *self, uint32_t index, const ecc_ecn_t *ecn, bool is_ack)
{
    bool can_be_marked = self->flows[index].can_be_marked;
    bool is_never_ect = !can_be_marked || (is_ack && is_classic(self, index));
    int64_t most = !is_ack || is_classic(self, index) ? 1
        : !ecc_cut_has_receiver(self, index)          ? ECC_ARCHIVE_MAX
        : can_be_marked                               ? self->receivers[index].marked
                                                      : 0;

    return ecn->codepoint >= ECC_NOT_ECT && ecn->codepoint <= (is_never_ect ? ECC_NOT_ECT : ECC_CE) && ecn->word >= 0
            && ecn->word <= (can_be_marked ? most : 0)
        ? 0
        : ECC_ERR_BROKEN;
}
