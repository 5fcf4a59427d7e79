/*
 * The receiver's half of a transport of type 4 (S-215; RFC 9000, 13.2): the packet numbers that it has received, which
 * of them an ACK reports, and whether the ACK may be delayed.
 *
 * Not here: the data of the stream (reassembly.c), and when ACKs are sent (receiver.c).
 */

#include "host/quic_receiver.h"

#define MAX_RANGES 32u                /* ranges of packet numbers that a receiver remembers */
#define DELAY_UNIT (INT64_C(8000000)) /* ps: ACK Delay counts units of 8 us (RFC 9000, 18.2) */
#define MAX_DELAY_UNITS (INT64_C(1) << 28)

/* Keeps up to three packet numbers, newest first, each in another range. */
static void
keep_recent(ecc_quic_t *self, int64_t number)
{
    int64_t numbers[ECC_MAX_SACK_BLOCKS + 1] = { number };
    uint32_t ranges[ECC_MAX_SACK_BLOCKS];
    uint32_t n = 1u + self->n_recent;

    for (uint32_t k = 1; k < n; k++) {
        numbers[k] = self->recent[k - 1];
    }
    self->n_recent = 0;
    for (uint32_t k = 0; k < n && self->n_recent < ECC_MAX_SACK_BLOCKS; k++) {
        uint32_t range = ecc_ranges_find(&self->numbers, numbers[k]);
        bool is_first = range != ECC_NO_RANGE && ecc_ranges_contains(&self->numbers, range, numbers[k]);
        for (uint32_t j = 0; j < self->n_recent; j++) {
            is_first = is_first && ranges[j] != range;
        }
        if (is_first) {
            ranges[self->n_recent] = range;
            self->recent[self->n_recent++] = numbers[k];
        }
    }
}

int
ecc_quic_receiver_receive(ecc_engine_t *self, const ecc_packet_t *packet, bool *may_delay)
{
    ecc_quic_t *quic = &self->quics[packet->flow];
    ecc_ranges_t *numbers = &quic->numbers;
    int64_t number = ecc_state_ack_info(self, packet)->front;
    int64_t next = numbers->count > 0 ? ecc_ranges_at(numbers, ecc_ranges_last(numbers))->end : 0;
    int ret = ecc_ranges_add(numbers, &self->memory, number, number + 1);

    *may_delay = number == next;
    if (ret != 0) {
        return ret;
    }
    if (number >= next) {
        quic->largest_at = self->now;
    }
    while (numbers->count > MAX_RANGES) {
        ecc_ranges_drop(numbers, ecc_ranges_at(numbers, ecc_ranges_first(numbers))->end);
    }
    keep_recent(quic, number);
    return 0;
}

int
ecc_quic_receiver_write_ack(ecc_engine_t *self, const ecc_packet_t *packet)
{
    const ecc_quic_t *quic = &self->quics[packet->flow];
    const ecc_ranges_t *numbers = &quic->numbers;
    ecc_ack_info_t *info = ecc_state_ack_info(self, packet);
    uint32_t last = ecc_ranges_last(numbers);
    const ecc_range_t *range = ecc_ranges_at(numbers, last);
    int64_t units = (self->now - quic->largest_at) / DELAY_UNIT;
    ecc_range_t *blocks;
    uint32_t n = 1;
    int ret;

    info->sack = ECC_NO_SACK;
    info->ack_delay = (uint32_t) (8 * (units < MAX_DELAY_UNITS ? units : MAX_DELAY_UNITS));
    if (numbers->count == 1 && range->begin == 0 && range->end == info->front + 1) {
        return 0;
    }
    ret = ecc_sacks_allocate(&self->sacks, &self->memory, &info->sack);
    if (ret != 0) {
        return ret;
    }
    blocks = self->sacks.items[info->sack].blocks;
    blocks[0] = *range;
    for (uint32_t k = 0; k < quic->n_recent && n < ECC_MAX_SACK_BLOCKS; k++) {
        uint32_t id = ecc_ranges_find(numbers, quic->recent[k]);
        if (id != last) {
            blocks[n++] = *ecc_ranges_at(numbers, id);
        }
    }
    while (n < ECC_MAX_SACK_BLOCKS) {
        blocks[n++] = (ecc_range_t) { 0, 0 };
    }
    return 0;
}
