/*
 * Sets of bytes as ordered ranges: a doubly linked list, and a treap (Seidel and Aragon 1996) over the same nodes, so
 * that a search, an insertion or a removal visits O(log n) of n nodes on average. The priority of a node is a hash of
 * its number; results do not depend on it. The last few ranges and the first one are tried before the tree, because
 * most ACKs and holes are there.
 *
 * Not here: the meaning of a set (transport.c, reassembly.c).
 *
 * Invariant (ecc_ranges_verify): no range is empty, each begins beyond the end of the one before it, and the tree has
 * the nodes of the list in the same order, with no node below one of lower priority.
 */

#include "core/ranges.h"

#include <string.h>

#include "core/errors.h"

#define FIRST_ROOM 8u
#define NEAR 4u /* number of ranges at the end that are looked at one by one */

#ifdef ECC_COUNT_VISITS
uint64_t ecc_ranges_n_visits;
#define VISIT() (ecc_ranges_n_visits++)
#else
#define VISIT() ((void) 0)
#endif

void
ecc_ranges_free(ecc_ranges_t *self, ecc_memory_t *memory)
{
    void *block = self->nodes;

    ecc_memory_release(memory, self->room * sizeof(*self->nodes), &block);
    memset(self, 0, sizeof(*self));
}

void
ecc_ranges_clear(ecc_ranges_t *self)
{
    if (self->nodes != NULL) {
        self->nodes[ECC_NO_RANGE] = (ecc_range_node_t) { 0 };
    }
    self->count = 0;
}

uint32_t
ecc_ranges_find(const ecc_ranges_t *self, int64_t number)
{
    const ecc_range_node_t *nodes = self->nodes;
    uint32_t range = ECC_NO_RANGE;
    uint32_t before = ecc_ranges_last(self);
    uint32_t node;

    for (uint32_t k = 0; k < NEAR && before != ECC_NO_RANGE && nodes[before].range.end > number; k++) {
        VISIT();
        range = before;
        before = nodes[before].prev;
    }
    if (before == ECC_NO_RANGE || nodes[before].range.end <= number) {
        return range;
    }
    if (nodes[ecc_ranges_first(self)].range.end > number) {
        return ecc_ranges_first(self);
    }
    node = nodes[ECC_NO_RANGE].left;
    while (node != ECC_NO_RANGE) {
        VISIT();
        if (nodes[node].range.end > number) {
            range = node;
            node = nodes[node].left;
        } else {
            node = nodes[node].right;
        }
    }
    return range;
}

int64_t
ecc_ranges_skip(const ecc_ranges_t *self, int64_t number)
{
    uint32_t range = ecc_ranges_find(self, number);

    return range != ECC_NO_RANGE && ecc_ranges_at(self, range)->begin <= number ? ecc_ranges_at(self, range)->end
                                                                                : number;
}

int64_t
ecc_ranges_until(const ecc_ranges_t *self, int64_t number, int64_t limit)
{
    uint32_t range = ecc_ranges_find(self, number);

    return range != ECC_NO_RANGE && ecc_ranges_at(self, range)->begin < limit ? ecc_ranges_at(self, range)->begin
                                                                              : limit;
}

int64_t
ecc_ranges_within(const ecc_ranges_t *self, int64_t begin, int64_t end)
{
    int64_t bytes = 0;
    uint32_t id = ecc_ranges_find(self, begin);

    for (; id != ECC_NO_RANGE && ecc_ranges_at(self, id)->begin < end; id = ecc_ranges_next(self, id)) {
        const ecc_range_t *range = ecc_ranges_at(self, id);
        VISIT();
        bytes += (range->end < end ? range->end : end) - (range->begin > begin ? range->begin : begin);
    }
    return bytes;
}

/* ---- nodes ---- */

static int
grow(ecc_ranges_t *self, ecc_memory_t *memory)
{
    void *block = self->nodes;
    uint32_t room = self->room == 0 ? FIRST_ROOM : 2 * self->room;
    int ret = room <= self->room
        ? ECC_ERR_TOO_LARGE
        : ecc_memory_extend(memory, self->room * sizeof(*self->nodes), room * sizeof(*self->nodes), &block);

    if (ret == 0) {
        self->nodes = block;
        if (self->room == 0) {
            self->nodes[ECC_NO_RANGE] = (ecc_range_node_t) { 0 };
        }
        self->room = room;
    }
    return ret;
}

static int
allocate(ecc_ranges_t *self, ecc_memory_t *memory, uint32_t *node)
{
    int ret = self->room == 0 ? grow(self, memory) : 0;
    ecc_range_node_t *head = self->nodes;

    if (ret == 0 && head->right != ECC_NO_RANGE) {
        *node = head->right;
        head->right = self->nodes[*node].next;
        return 0;
    }
    if (ret == 0 && head->range.begin + 1 >= (int64_t) self->room) {
        ret = grow(self, memory);
    }
    if (ret == 0) {
        *node = (uint32_t) ++self->nodes[ECC_NO_RANGE].range.begin;
    }
    return ret;
}

static void
release(ecc_ranges_t *self, uint32_t node)
{
    self->nodes[node].range = (ecc_range_t) { 0, 0 };
    self->nodes[node].next = self->nodes[ECC_NO_RANGE].right;
    self->nodes[ECC_NO_RANGE].right = node;
    self->count--;
}

/* ---- the tree ---- */

/* The finalizer of MurmurHash3. */
static uint32_t
priority(uint32_t node)
{
    node ^= node >> 16;
    node *= 0x85EBCA6Bu;
    node ^= node >> 13;
    node *= 0xC2B2AE35u;
    return node ^ node >> 16;
}

/* Two nodes have different priorities, as the hash is a bijection. */
static void
plant(ecc_ranges_t *self, uint32_t node)
{
    ecc_range_node_t *nodes = self->nodes;
    int64_t begin = nodes[node].range.begin;
    uint32_t own_priority = priority(node);
    uint32_t *link = &nodes[ECC_NO_RANGE].left;
    uint32_t *below = &nodes[node].left;
    uint32_t *above = &nodes[node].right;
    uint32_t rest;

    while (*link != ECC_NO_RANGE && priority(*link) > own_priority) {
        VISIT();
        link = begin < nodes[*link].range.begin ? &nodes[*link].left : &nodes[*link].right;
    }
    rest = *link;
    *link = node;
    while (rest != ECC_NO_RANGE) { /* the subtree is split into the two children */
        VISIT();
        if (nodes[rest].range.begin < begin) {
            *below = rest;
            below = &nodes[rest].right;
            rest = *below;
        } else {
            *above = rest;
            above = &nodes[rest].left;
            rest = *above;
        }
    }
    *below = ECC_NO_RANGE;
    *above = ECC_NO_RANGE;
}

static void
uproot(ecc_ranges_t *self, uint32_t node)
{
    ecc_range_node_t *nodes = self->nodes;
    int64_t begin = nodes[node].range.begin;
    uint32_t below = nodes[node].left;
    uint32_t above = nodes[node].right;
    uint32_t *link = &nodes[ECC_NO_RANGE].left;

    while (*link != node) {
        VISIT();
        link = begin < nodes[*link].range.begin ? &nodes[*link].left : &nodes[*link].right;
    }
    while (below != ECC_NO_RANGE && above != ECC_NO_RANGE) { /* the two children become one subtree */
        VISIT();
        if (priority(below) > priority(above)) {
            *link = below;
            link = &nodes[below].right;
            below = *link;
        } else {
            *link = above;
            link = &nodes[above].left;
            above = *link;
        }
    }
    *link = below != ECC_NO_RANGE ? below : above;
}

/* ---- changes ---- */

/* Puts a new range before another one, or last. */
static int
put_before(ecc_ranges_t *self, ecc_memory_t *memory, ecc_range_t range, uint32_t next, uint32_t *node)
{
    int ret = allocate(self, memory, node);
    uint32_t prev;

    if (ret != 0) {
        return ret;
    }
    prev = self->nodes[next].prev;
    self->nodes[*node] = (ecc_range_node_t) { .range = range, .prev = prev, .next = next };
    self->nodes[prev].next = *node;
    self->nodes[next].prev = *node;
    self->count++;
    plant(self, *node);
    return 0;
}

static void
take_out(ecc_ranges_t *self, uint32_t node)
{
    uint32_t prev = self->nodes[node].prev;
    uint32_t next = self->nodes[node].next;

    uproot(self, node);
    self->nodes[prev].next = next;
    self->nodes[next].prev = prev;
    release(self, node);
}

int
ecc_ranges_insert(ecc_ranges_t *self, ecc_memory_t *memory, int64_t begin, int64_t end, uint32_t *range, int64_t *added)
{
    uint32_t node = ecc_ranges_find(self, begin - 1); /* first range that overlaps, touches or follows */
    ecc_range_t *joined;
    uint32_t next;
    int64_t known;

    if (node == ECC_NO_RANGE || ecc_ranges_at(self, node)->begin > end) {
        *added = end - begin;
        return put_before(self, memory, (ecc_range_t) { begin, end }, node, range);
    }
    joined = &self->nodes[node].range;
    known = joined->end - joined->begin;
    joined->begin = joined->begin < begin ? joined->begin : begin;
    for (next = ecc_ranges_next(self, node); next != ECC_NO_RANGE && ecc_ranges_at(self, next)->begin <= end;
         next = ecc_ranges_next(self, node)) {
        joined->end = ecc_ranges_at(self, next)->end;
        known += joined->end - ecc_ranges_at(self, next)->begin;
        take_out(self, next);
    }
    joined->end = joined->end > end ? joined->end : end;
    *added = joined->end - joined->begin - known;
    *range = node;
    return 0;
}

int
ecc_ranges_add(ecc_ranges_t *self, ecc_memory_t *memory, int64_t begin, int64_t end)
{
    uint32_t range;
    int64_t added;

    return begin < end ? ecc_ranges_insert(self, memory, begin, end, &range, &added) : 0;
}

void
ecc_ranges_drop(ecc_ranges_t *self, int64_t number)
{
    ecc_range_node_t *nodes = self->nodes;
    uint32_t first = ecc_ranges_first(self);
    uint32_t *link;
    uint32_t node;

    if (first == ECC_NO_RANGE || nodes[first].range.begin >= number) {
        return;
    }
    link = &nodes[ECC_NO_RANGE].left;
    node = *link;
    while (node != ECC_NO_RANGE) { /* nodes of ranges that end beyond the number remain in the tree */
        VISIT();
        if (nodes[node].range.end <= number) {
            node = nodes[node].right;
        } else {
            *link = node;
            link = &nodes[node].left;
            node = *link;
        }
    }
    *link = ECC_NO_RANGE;
    for (node = first; node != ECC_NO_RANGE && nodes[node].range.end <= number; node = first) {
        VISIT();
        first = nodes[node].next;
        release(self, node);
    }
    nodes[ECC_NO_RANGE].next = first;
    nodes[first].prev = ECC_NO_RANGE;
    if (first != ECC_NO_RANGE && nodes[first].range.begin < number) {
        nodes[first].range.begin = number;
    }
}

/* Whether a search in the tree finds a node, and passes no node of lower priority. */
static bool
is_in_tree(const ecc_ranges_t *self, uint32_t node)
{
    uint32_t other = self->nodes[ECC_NO_RANGE].left;
    bool valid = true;

    for (uint32_t k = 0; k < self->count && other != node && other != ECC_NO_RANGE && valid; k++) {
        const ecc_range_node_t *passed = &self->nodes[other];
        uint32_t child = self->nodes[node].range.begin < passed->range.begin ? passed->left : passed->right;
        valid = child != ECC_NO_RANGE && priority(other) > priority(child);
        other = child;
    }
    return valid && other == node;
}

int
ecc_ranges_verify(const ecc_ranges_t *self)
{
    int64_t n_touched = self->nodes == NULL ? 0 : self->nodes[ECC_NO_RANGE].range.begin;
    bool valid = self->count <= n_touched && (n_touched == 0 || n_touched < (int64_t) self->room);
    uint32_t n_listed = 0;
    uint32_t prev = ECC_NO_RANGE;

    for (uint32_t node = ecc_ranges_first(self); node != ECC_NO_RANGE && valid; node = self->nodes[node].next) {
        const ecc_range_t *range = ecc_ranges_at(self, node);
        valid = node <= n_touched && ++n_listed <= self->count && self->nodes[node].prev == prev
            && range->begin < range->end && (prev == ECC_NO_RANGE || ecc_ranges_at(self, prev)->end < range->begin)
            && is_in_tree(self, node);
        prev = node;
    }
    return valid && n_listed == self->count && ecc_ranges_last(self) == prev ? 0 : ECC_ERR_BROKEN;
}
