#include "wire/frame_tables.h"

#include <string.h>

#include "core/crossing.h"
#include "core/state.h"

#define MAX_FLOWS 0x800000u /* maximum number of flows: each has an address */
#define MAX_OPTIONS 40u     /* bytes, of TCP */
#define MAX_MTU 65535
#define MAX_FIELDS 65536 /* maximum number of fields of all formats */

size_t
ecc_frame_tables_tcp(const ecc_frame_layout_t *layout, const ecc_frame_way_t *way)
{
    return !layout->is_tcp ? 0 : ECC_FRAME_TCP + (layout->place == ECC_FRAME_OPTION ? (way->header + 3) / 4 * 4 : 0);
}

/* Whether a header of so many bits fits into its place. */
static bool
fits(const ecc_frame_layout_t *layout, size_t bits)
{
    switch (layout->place) {
    case ECC_FRAME_ABOVE:
        return bits % 8 == 0;
    case ECC_FRAME_OPTION:
        return bits % 8 == 0 && bits / 8 <= MAX_OPTIONS && layout->is_tcp;
    case ECC_FRAME_SERVICE:
        return bits == 8;
    case ECC_FRAME_FRAGMENT:
        return bits == 16;
    }
    return false;
}

/* A way: where its shim is, and which words its fields leave to it. */
static bool
set_way(ecc_frames_t *self, const ecc_frame_layout_t *format, ecc_frame_way_t *way, size_t n_header_words, bool exact)
{
    size_t bits = 0;

    for (size_t i = 0; i < way->n_fields; i++) {
        const ecc_frame_field_t *field = &self->fields[way->first_field + i];
        if (!ecc_frame_fields_allow(field, (int64_t) n_header_words - (int64_t) format->first_word)) {
            return false;
        }
        bits += (size_t) field->width;
    }
    for (size_t word = 0; word < self->n_words; word++) {
        size_t n = 0; /* fields that say it: with several, what was written could not be told from what was not */
        for (size_t i = 0; i < way->n_fields; i++) {
            int64_t of_field = self->fields[way->first_field + i].word;
            n += of_field >= 0 && format->first_word + (size_t) of_field == word;
        }
        if (n > 1) {
            return false;
        }
        if ((n == 0 || exact) && word != self->ecn) {
            way->carried[way->n_carried++] = (uint16_t) word;
        }
    }
    way->header = bits / 8;
    way->shim = ECC_FRAME_ETHERNET + ECC_FRAME_IP + ecc_frame_tables_tcp(format, way)
        + (format->place == ECC_FRAME_ABOVE ? way->header : 0);
    way->size = way->shim + ECC_FRAME_SHIM + ECC_FRAME_WORD_SIZE * way->n_carried + ECC_FRAME_TAG;
    return fits(format, bits) && way->size <= ECC_FRAME_MAX_HEAD && way->size - ECC_FRAME_ETHERNET <= self->mtu;
}

static bool
set_format(ecc_frames_t *self, size_t index, const ecc_frame_format_t *given, size_t *n_fields)
{
    ecc_frame_layout_t *format = &self->formats[index];
    int64_t n[ECC_FRAME_N_DIRECTIONS] = { given->n_data, given->n_ack };

    if (given->place < ECC_FRAME_ABOVE || given->place > ECC_FRAME_FRAGMENT) {
        return false;
    }
    format->place = (enum ecc_frame_place) given->place;
    format->is_tcp = given->is_tcp != 0;
    for (size_t k = 0; k < ECC_FRAME_N_DIRECTIONS; k++) {
        if (n[k] < 0 || (uint64_t) n[k] > self->n_fields - *n_fields) {
            return false;
        }
        format->ways[k] = (ecc_frame_way_t) { .first_field = *n_fields,
            .n_fields = (size_t) n[k],
            .carried = self->carried + (ECC_FRAME_N_DIRECTIONS * index + k) * self->n_words };
        *n_fields += (size_t) n[k];
    }
    return true;
}

/* A flow; the first of a format says where the words of all are. */
static bool
set_flow(ecc_frames_t *self, const ecc_engine_t *engine, size_t index, const ecc_frames_config_t *config)
{
    const ecc_flow_t *spec = engine->flows[index].spec;
    size_t first_word = (size_t) spec->header_offset / ECC_FRAME_WORD_SIZE;
    int64_t number = config->format_of[index];
    ecc_frame_layout_t *format;

    if (number < 0 || (uint64_t) number >= self->n_formats) {
        return false;
    }
    format = &self->formats[number];
    self->flows[index] = (ecc_frame_flow_t) { .n_forward = spec->n_forward,
        .n_hops = spec->n_forward + spec->n_reverse,
        .header_bytes = spec->header_bytes,
        .ack_size = spec->ack_size,
        .format = (size_t) number };
    if (!format->is_used) {
        format->is_used = true;
        format->first_word = first_word;
        for (size_t k = 0; k < ECC_FRAME_N_DIRECTIONS; k++) {
            if (!set_way(
                    self, format, &format->ways[k], engine->ecn_offset / ECC_FRAME_WORD_SIZE, config->exact != 0)) {
                return false;
            }
        }
    }
    /* the marks would be in the place of that header */
    return format->first_word == first_word
        && !(format->place == ECC_FRAME_SERVICE && engine->flows[index].can_be_marked);
}

/* Room for one more than there are, so that no table is at NULL. */
static size_t
room(size_t n, size_t size)
{
    return (n + 1) * size;
}

static int
allocate(ecc_frames_t *self, size_t n, size_t size, void **block)
{
    return ecc_memory_resize(&self->memory, 0, room(n, size), block);
}

static int
build(ecc_frames_t *self, const ecc_engine_t *engine, const ecc_frames_config_t *config)
{
    void *blocks[4] = { NULL, NULL, NULL, NULL };
    size_t n_fields = 0;
    int ret;

    ret = allocate(self, self->n_flows, sizeof(ecc_frame_flow_t), &blocks[0]);
    self->flows = blocks[0];
    if (ret == 0) {
        ret = allocate(self, self->n_formats, sizeof(ecc_frame_layout_t), &blocks[1]);
        self->formats = blocks[1];
    }
    if (ret == 0) {
        ret = allocate(self, self->n_fields, sizeof(ecc_frame_field_t), &blocks[2]);
        self->fields = blocks[2];
    }
    if (ret == 0) {
        ret = allocate(self, ECC_FRAME_N_DIRECTIONS * self->n_formats * self->n_words, sizeof(uint16_t), &blocks[3]);
        self->carried = blocks[3];
    }
    if (ret != 0) {
        return ret;
    }
    if (self->n_fields > 0) {
        memcpy(self->fields, config->fields, self->n_fields * sizeof(*self->fields));
    }
    for (size_t i = 0; i < self->n_formats; i++) {
        if (!set_format(self, i, &config->formats[i], &n_fields)) {
            return ECC_ERR_FRAMES;
        }
    }
    for (size_t i = 0; i < self->n_flows; i++) {
        if (!set_flow(self, engine, i, config)) {
            return ECC_ERR_FRAMES;
        }
    }
    return 0;
}

static bool
is_config(const ecc_engine_t *engine, const ecc_frames_config_t *config)
{
    return engine->transfers.n_templates == 0 && config->n_formats >= 0 && config->n_formats <= (int64_t) MAX_FLOWS
        && config->n_fields >= 0 && config->n_fields <= MAX_FIELDS
        && (config->n_formats == 0 || config->formats != NULL) && (config->n_fields == 0 || config->fields != NULL)
        && (engine->n_flows == 0 || config->format_of != NULL) && engine->n_flows <= MAX_FLOWS && config->mtu >= 1
        && config->mtu <= MAX_MTU && engine->packets.stride - sizeof(ecc_packet_t) <= ECC_FRAME_MAX_HEAD;
}

int
ecc_frame_tables_init(ecc_frames_t *self, const ecc_engine_t *engine, const ecc_frames_config_t *config)
{
    if (!is_config(engine, config)) {
        return ECC_ERR_FRAMES;
    }
    self->n_flows = engine->n_flows;
    self->n_formats = (size_t) config->n_formats;
    self->n_fields = (size_t) config->n_fields;
    self->n_words = ecc_crossing_body_size(engine) / ECC_FRAME_WORD_SIZE;
    self->ecn = engine->wants_ecn ? (engine->ecn_offset + offsetof(ecc_ecn_t, codepoint)) / ECC_FRAME_WORD_SIZE
                                  : self->n_words;
    self->mtu = (size_t) config->mtu;
    memcpy(self->key, config->key, sizeof(self->key));
    return build(self, engine, config);
}

void
ecc_frame_tables_free(ecc_frames_t *self)
{
    size_t n_carried = ECC_FRAME_N_DIRECTIONS * self->n_formats * self->n_words;

    ecc_memory_release(&self->memory, room(self->n_flows, sizeof(*self->flows)), (void **) &self->flows);
    ecc_memory_release(&self->memory, room(self->n_formats, sizeof(*self->formats)), (void **) &self->formats);
    ecc_memory_release(&self->memory, room(self->n_fields, sizeof(*self->fields)), (void **) &self->fields);
    ecc_memory_release(&self->memory, room(n_carried, sizeof(*self->carried)), (void **) &self->carried);
}
