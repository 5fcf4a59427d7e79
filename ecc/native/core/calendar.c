/*
 * The calendar queue: the search of buckets, and their width, which follows the mean time between events.
 *
 * Not here: kinds and entities of nodes (tables.c).
 *
 * Invariants (ecc_calendar_verify): a bucket starts with its first node and is sorted unless it is marked as unsorted,
 * its bit is set if and only if it has a node, no pending node is before the clock, and every pending node is in the
 * bucket of its day.
 */

#include "core/calendar.h"

#include <string.h>

#include "core/errors.h"

#define FIRST_SHIFT 20
#define LAST_SHIFT 56
#define MIN_BUCKETS 256u
#define MAX_BUCKETS (1u << 28)
#define MOST_PASSED 8 /* nodes walked over before a bucket is sorted later instead */

static unsigned
lowest_bit(uint64_t word)
{
    return (unsigned) __builtin_ctzll(word);
}

/* The first occupied bucket at or after this one, without wrapping around; n_buckets without one. */
static uint32_t
next_occupied(const ecc_calendar_t *self, uint32_t bucket)
{
    uint32_t word = bucket >> 6;
    uint32_t group;
    uint64_t bits;

    if (bucket >= self->n_buckets) {
        return self->n_buckets;
    }
    bits = self->occupied[word] & (UINT64_MAX << (bucket & 63));
    if (bits != 0) {
        return (word << 6) + lowest_bit(bits);
    }
    word++;
    if (word >= self->n_buckets >> 6) {
        return self->n_buckets;
    }
    group = word >> 6;
    bits = self->summary[group] & (UINT64_MAX << (word & 63));
    while (bits == 0) {
        group++;
        if (group > (self->n_buckets - 1) >> 12) {
            return self->n_buckets;
        }
        bits = self->summary[group];
    }
    word = (group << 6) + lowest_bit(bits);
    return (word << 6) + lowest_bit(self->occupied[word]);
}

static size_t
n_words(uint32_t n_bits)
{
    return ((size_t) n_bits + 63) / 64;
}

int
ecc_calendar_init(ecc_calendar_t *self, ecc_memory_t *memory, uint32_t n_nodes, uint32_t n_days)
{
    uint32_t n_buckets = MIN_BUCKETS;
    void *block = NULL;
    int ret;

    memset(self, 0, sizeof(*self));
    while (n_buckets < n_days && n_buckets < MAX_BUCKETS) {
        n_buckets *= 2;
    }
    self->shift = FIRST_SHIFT;
    self->budget = MIN_BUCKETS;
    self->first = ECC_NO_NODE;
    self->first_time = ECC_NEVER;
    ret = ecc_memory_resize(memory, 0, (n_nodes + (size_t) 1) * sizeof(*self->nodes), &block);
    if (ret != 0) {
        goto out;
    }
    self->nodes = block;
    self->n_nodes = n_nodes;
    block = NULL;
    ret = ecc_memory_resize(memory, 0, n_buckets * sizeof(*self->buckets), &block);
    if (ret != 0) {
        goto out;
    }
    self->buckets = block;
    self->n_buckets = n_buckets;
    block = NULL;
    ret = ecc_memory_resize(memory, 0, n_words(n_buckets) * sizeof(*self->occupied), &block);
    if (ret != 0) {
        goto out;
    }
    self->occupied = block;
    block = NULL;
    ret = ecc_memory_resize(memory, 0, n_words((uint32_t) n_words(n_buckets)) * sizeof(*self->summary), &block);
    if (ret != 0) {
        goto out;
    }
    self->summary = block;
    for (uint32_t node = 0; node < n_nodes; node++) {
        self->nodes[node].time = ECC_NOT_PENDING;
    }
    for (uint32_t bucket = 0; bucket < n_buckets; bucket++) {
        self->buckets[bucket].head = ECC_NO_NODE;
    }
out:
    return ret;
}

void
ecc_calendar_free(ecc_calendar_t *self, ecc_memory_t *memory)
{
    void *block = self->nodes;

    ecc_memory_release(memory, (self->n_nodes + (size_t) 1) * sizeof(*self->nodes), &block);
    block = self->order;
    ecc_memory_release(memory, ecc_calendar_order_size(self->n_nodes), &block);
    block = self->buckets;
    ecc_memory_release(memory, self->n_buckets * sizeof(*self->buckets), &block);
    block = self->occupied;
    ecc_memory_release(memory, n_words(self->n_buckets) * sizeof(*self->occupied), &block);
    block = self->summary;
    ecc_memory_release(memory, n_words((uint32_t) n_words(self->n_buckets)) * sizeof(*self->summary), &block);
    memset(self, 0, sizeof(*self));
}

int
ecc_calendar_renumber(ecc_calendar_t *self, ecc_memory_t *memory, uint32_t n_nodes, uint32_t n_days, uint32_t n_groups,
    const uint32_t *old, const uint32_t *new, uint64_t *order)
{
    ecc_calendar_t wider;
    uint32_t group = 0;
    int ret = ecc_calendar_init(&wider, memory, n_nodes, n_days);

    if (ret != 0) {
        void *block = order;
        ecc_memory_release(memory, ecc_calendar_order_size(n_nodes), &block);
        ecc_calendar_free(&wider, memory);
        return ret;
    }
    wider.order = order;
    if (self->nodes != NULL) {
        wider.shift = self->shift;
        wider.clock = self->clock;
        wider.epoch = self->clock;
    }
    for (uint32_t node = 0; node < self->n_nodes; node++) {
        while (group + 1 < n_groups && node >= old[group + 1]) {
            group++;
        }
        if (ecc_calendar_pending(self, node)) {
            ecc_calendar_insert(&wider, node - old[group] + new[group], self->nodes[node].time);
        }
    }
    ecc_calendar_free(self, memory);
    *self = wider;
    return 0;
}

void
ecc_calendar_insert_into(ecc_calendar_t *self, ecc_bucket_t *bucket, uint32_t id, ecc_ps_t time)
{
    ecc_node_t *nodes = self->nodes;
    ecc_node_t *node = &nodes[id];

    node->time = time;
    if (ecc_calendar_before(self, time, id, bucket->time, bucket->head)) {
        node->next = bucket->head;
        node->prev = ECC_NO_NODE;
        nodes[bucket->head].prev = id;
        bucket->head = id;
        bucket->time = time;
    } else {
        /* from the tail: events set for the same distant time come in order, or in no order at all */
        uint32_t prev = bucket->tail;
        int n_passed = 0;
        while (!bucket->is_unsorted && ecc_calendar_before(self, time, id, nodes[prev].time, prev)) {
            prev = nodes[prev].prev;
            if (++n_passed == MOST_PASSED) {
                prev = bucket->tail;
                bucket->is_unsorted = 1;
            }
        }
        self->work += (uint32_t) n_passed;
        node->prev = prev;
        node->next = nodes[prev].next;
        nodes[prev].next = id;
        if (node->next == ECC_NO_NODE) {
            bucket->tail = id & ECC_LARGEST_NODE;
        } else {
            nodes[node->next].prev = id;
        }
    }
}

/* Merges two sorted chains, linked by `next`. */
static uint32_t
merge(ecc_calendar_t *self, uint32_t a, uint32_t b)
{
    ecc_node_t *nodes = self->nodes;
    uint32_t head = ECC_NO_NODE;
    uint32_t *end = &head;

    while (a != ECC_NO_NODE && b != ECC_NO_NODE) {
        uint32_t *first = ecc_calendar_before(self, nodes[a].time, a, nodes[b].time, b) ? &a : &b;
        *end = *first;
        end = &nodes[*first].next;
        *first = *end;
    }
    *end = a != ECC_NO_NODE ? a : b;
    return head;
}

/* Sorts the nodes behind the head: merges sorted runs of about equal length. */
void
ecc_calendar_sort(ecc_calendar_t *self, ecc_bucket_t *bucket)
{
    ecc_node_t *nodes = self->nodes;
    uint32_t chain = nodes[bucket->head].next;
    uint32_t sorted[32]; /* heads of sorted runs of up to 2^k nodes, or none */
    uint32_t prev = bucket->head;

    for (int k = 0; k < 32; k++) {
        sorted[k] = ECC_NO_NODE;
    }
    while (chain != ECC_NO_NODE) {
        uint32_t run = chain;
        uint32_t last = chain;
        int k = 0;
        while (nodes[last].next != ECC_NO_NODE
            && ecc_calendar_before(self, nodes[last].time, last, nodes[nodes[last].next].time, nodes[last].next)) {
            last = nodes[last].next;
        }
        chain = nodes[last].next;
        nodes[last].next = ECC_NO_NODE;
        for (; sorted[k] != ECC_NO_NODE; k++) {
            run = merge(self, sorted[k], run);
            sorted[k] = ECC_NO_NODE;
        }
        sorted[k] = run;
    }
    for (int k = 0; k < 32; k++) {
        chain = merge(self, sorted[k], chain);
    }
    nodes[prev].next = chain;
    for (; chain != ECC_NO_NODE; chain = nodes[chain].next) {
        nodes[chain].prev = prev;
        prev = chain;
    }
    bucket->tail = prev & ECC_LARGEST_NODE;
    bucket->is_unsorted = 0;
}

void
ecc_calendar_remove(ecc_calendar_t *self, uint32_t id)
{
    ecc_node_t *nodes = self->nodes;
    ecc_node_t *node = &nodes[id];
    uint32_t index = ecc_calendar_bucket(self, node->time);
    ecc_bucket_t *bucket = &self->buckets[index];

    if (bucket->head == id && bucket->is_unsorted) {
        ecc_calendar_sort(self, bucket);
    }
    if (node->next != ECC_NO_NODE) {
        nodes[node->next].prev = node->prev;
    } else {
        bucket->tail = node->prev & ECC_LARGEST_NODE; /* if it was the only node, the bucket is empty */
    }
    if (node->prev != ECC_NO_NODE) {
        nodes[node->prev].next = node->next;
    } else if (node->next != ECC_NO_NODE) {
        bucket->head = node->next;
        bucket->time = nodes[node->next].time;
    } else {
        (void) ecc_calendar_unmark(self, index);
    }
    node->time = ECC_NOT_PENDING;
    if (self->first == id) {
        self->first = ECC_NO_NODE;
        self->first_time = ECC_NEVER;
    }
}

/* Moves every node into its bucket at a new width. */
ECC_COLD static void
set_shift(ecc_calendar_t *self, int shift)
{
    uint32_t chain = ECC_NO_NODE;
    uint32_t last = ECC_NO_NODE;
    uint32_t index;

    for (index = next_occupied(self, 0); index < self->n_buckets; index = next_occupied(self, index)) {
        if (chain == ECC_NO_NODE) {
            chain = self->buckets[index].head;
        } else {
            self->nodes[last].next = self->buckets[index].head;
        }
        last = self->buckets[index].tail;
        (void) ecc_calendar_unmark(self, index);
    }
    self->shift = shift;
    self->first = ECC_NO_NODE;
    self->first_time = ECC_NEVER;
    while (chain != ECC_NO_NODE) {
        uint32_t id = chain;
        ecc_ps_t time = self->nodes[id].time;
        chain = self->nodes[id].next;
        self->nodes[id].time = ECC_NOT_PENDING;
        ecc_calendar_insert(self, id, time);
    }
}

/* Adapts the width: a day lasts between half of the mean time between events and all of it. */
ECC_COLD static void
adapt(ecc_calendar_t *self)
{
    ecc_ps_t gap = (self->clock - self->epoch) / (self->n_popped + 1);
    int shift = gap == 0 ? 0 : 63 - __builtin_clzll((uint64_t) gap);

    if (shift > LAST_SHIFT) {
        shift = LAST_SHIFT;
    }
    if (gap > 0 && shift != self->shift) {
        set_shift(self, shift);
    }
    self->epoch = self->clock;
    self->n_popped = 0;
    self->work = 0;
    self->budget = self->n_buckets;
}

/* The first node of all if a whole year is empty: the minimum of the heads of all buckets. */
ECC_COLD static void
find_beyond_year(ecc_calendar_t *self)
{
    for (uint32_t i = next_occupied(self, 0); i < self->n_buckets; i = next_occupied(self, i + 1)) {
        const ecc_bucket_t *bucket = &self->buckets[i];
        if (self->first == ECC_NO_NODE
            || ecc_calendar_before(self, bucket->time, bucket->head, self->first_time, self->first)) {
            self->first = bucket->head;
            self->first_time = bucket->time;
        }
        self->work++;
    }
}

/* The first node at or after a day of a year, then in the year after it, then anywhere. */
ECC_COLD static void
search_far(ecc_calendar_t *self, uint64_t year, uint32_t start)
{
    for (int turn = 0; turn < 2; turn++, year += self->n_buckets) {
        for (uint32_t i = next_occupied(self, start); i < self->n_buckets; i = next_occupied(self, i + 1)) {
            const ecc_bucket_t *bucket = &self->buckets[i];
            if ((uint64_t) bucket->time >> self->shift == year + i) {
                self->first = bucket->head;
                self->first_time = bucket->time;
                return;
            }
            self->work++;
        }
        start = 0;
    }
    find_beyond_year(self);
    if (self->first == ECC_NO_NODE) {
        self->first = ECC_CALENDAR_EMPTY;
    }
}

void
ecc_calendar_search(ecc_calendar_t *self)
{
    uint64_t day;
    uint32_t start;
    uint64_t bits;

    if (self->work > 4 * self->budget || self->n_popped >= self->budget) {
        adapt(self);
    }
    day = (uint64_t) self->clock >> self->shift;
    start = (uint32_t) day & (self->n_buckets - 1);
    bits = self->occupied[start >> 6] >> (start & 63);
    if (bits != 0) {
        uint32_t wait = lowest_bit(bits);
        const ecc_bucket_t *bucket = &self->buckets[start + wait];
        if ((uint64_t) bucket->time >> self->shift == day + wait) {
            self->first = bucket->head;
            self->first_time = bucket->time;
            return;
        }
    }
    search_far(self, day - start, start);
}

int
ecc_calendar_verify(const ecc_calendar_t *self)
{
    uint32_t n_listed = 0;
    uint32_t n_pending = 0;

    for (uint32_t index = 0; index < self->n_buckets; index++) {
        const ecc_bucket_t *bucket = &self->buckets[index];
        bool marked = (self->occupied[index >> 6] >> (index & 63) & 1) != 0;
        uint32_t prev = ECC_NO_NODE;
        if (marked != (bucket->head != ECC_NO_NODE)) {
            return ECC_ERR_BROKEN;
        }
        for (uint32_t id = bucket->head; id != ECC_NO_NODE; id = self->nodes[id].next) {
            const ecc_node_t *node = &self->nodes[id];
            if (node->prev != prev || ecc_calendar_bucket(self, node->time) != index || node->time < self->clock) {
                return ECC_ERR_BROKEN;
            }
            if (prev != ECC_NO_NODE) {
                uint32_t before = bucket->is_unsorted ? bucket->head : prev;
                if (!ecc_calendar_before(self, self->nodes[before].time, before, node->time, id)) {
                    return ECC_ERR_BROKEN;
                }
            }
            prev = id;
            n_listed++;
        }
        if (marked && (bucket->tail != prev || bucket->time != self->nodes[bucket->head].time)) {
            return ECC_ERR_BROKEN;
        }
    }
    for (uint32_t word = 0; word < self->n_buckets >> 6; word++) {
        bool marked = (self->summary[word >> 6] >> (word & 63) & 1) != 0;
        if (marked != (self->occupied[word] != 0)) {
            return ECC_ERR_BROKEN;
        }
    }
    for (uint32_t id = 0; id < self->n_nodes; id++) {
        n_pending += self->nodes[id].time != ECC_NOT_PENDING;
    }
    return n_listed == n_pending ? 0 : ECC_ERR_BROKEN;
}
