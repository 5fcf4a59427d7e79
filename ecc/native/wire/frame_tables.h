#ifndef ECC_FRAME_TABLES_H
#define ECC_FRAME_TABLES_H

/* The layout of the frames of an engine, for each protocol and direction. */

#include <stdbool.h>

#include "wire/frame.h"
#include "wire/frame_fields.h"
#include "core/memory.h"

/* Bytes of the headers, in the order of a frame. */
#define ECC_FRAME_ETHERNET ((size_t) 14)
#define ECC_FRAME_IP ((size_t) 20)
#define ECC_FRAME_TCP ((size_t) 20)
#define ECC_FRAME_SHIM ((size_t) 52) /* bytes of the shim before its words */
#define ECC_FRAME_TAG ((size_t) 8)

#define ECC_FRAME_MAX_HEAD ((size_t) 2048) /* maximum size of a frame before its zeros */

enum ecc_frame_direction { ECC_FRAME_DATA, ECC_FRAME_ACKS, ECC_FRAME_N_DIRECTIONS };

/* Layout of all frames of a format in one direction. */
typedef struct {
    size_t first_field;
    size_t n_fields;
    size_t header;     /* bytes of the congestion header */
    size_t shim;       /* offset of the shim */
    size_t size;       /* bytes up to the zeros */
    uint16_t *carried; /* indices of the words of a packet that the shim carries */
    size_t n_carried;
} ecc_frame_way_t;

typedef struct {
    enum ecc_frame_place place;
    bool is_tcp;
    bool is_used;
    size_t first_word; /* first word of its region of a packet's header */
    ecc_frame_way_t ways[ECC_FRAME_N_DIRECTIONS];
} ecc_frame_layout_t;

/* Values of a flow that its frames need. */
typedef struct {
    int64_t n_forward;
    int64_t n_hops;
    int64_t header_bytes;
    int64_t ack_size;
    size_t format;
} ecc_frame_flow_t;

struct ecc_frames {
    ecc_memory_t memory;
    size_t n_flows;
    size_t n_formats;
    size_t n_fields;
    size_t n_words; /* words of a packet: header, marks, and the report of an ACK */
    size_t ecn;     /* index of the word of the codepoint; n_words: no marks */
    size_t mtu;
    unsigned char key[ECC_FRAME_KEY];
    ecc_frame_flow_t *flows;
    ecc_frame_layout_t *formats;
    ecc_frame_field_t *fields;
    uint16_t *carried;
};

/*
 * Checks a configuration and makes tables of it, in a struct of zeros but for `memory`; free them after a failure,
 * too.
 */
ECC_MUST_CHECK int ecc_frame_tables_init(
    ecc_frames_t *self, const ecc_engine_t *engine, const ecc_frames_config_t *config);
void ecc_frame_tables_free(ecc_frames_t *self);

/* Bytes that a header of TCP takes, with its options. */
size_t ecc_frame_tables_tcp(const ecc_frame_layout_t *layout, const ecc_frame_way_t *way);

#endif
