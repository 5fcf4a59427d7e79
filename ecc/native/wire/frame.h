#ifndef ECC_FRAME_H
#define ECC_FRAME_H

/*
 * Packets that leave an engine as frames of a real network, and back: Ethernet, IPv4, the congestion header of the
 * papers, and a shim with further values that the engine needs. Sockets and clocks are elsewhere.
 *
 * A frame is, big end first:
 *
 *   14       Ethernet, without its checksum
 *   20       IPv4: flow f sends from 10.0.0.0 + f to 10.128.0.0 + f, its ACKs the other way; ECN bits; checksum
 *   0 or 20  TCP, if the flow has a transport of TCP or its header is an option, else protocol 253; then options
 *   ...      the congestion header, unless it is an option, or in fields of the IP header itself
 *   52       the shim: "ecc" and its version, flow, hop, bytes of data, number of words (4 bytes each), then number of
 *            the frame, time, sent and offset (8 bytes each) ...
 *   8 each   ... the words of the packet that are in no field, ...
 *   8        ... and the tag: SipHash-2-4 of all before it, with the token of the run as its key
 *   ...      zeros up to the packet's size on its link, or the MTU
 *
 * The engine continues with the values of the congestion header in the precision of the wire, unless `exact` is set:
 * integer milliseconds and single-precision numbers, as in the papers. All other values are carried in full: times,
 * sequence numbers, state that the papers assume at hosts and routers without a field for it (for example, which link
 * gave a rate), and the reports of ACKs. The ECN bits are those of the IP header alone.
 *
 * A frame is taken only if writing its values gives the same bytes again: only its zeros are unchecked.
 */

#include "core/engine.h"

/* cdef: begin */

#define ECC_FRAME_KEY 16 /* bytes of a token */

/* Place of a congestion header. */
enum ecc_frame_place {
    ECC_FRAME_ABOVE,   /* after the headers of IP and TCP */
    ECC_FRAME_OPTION,  /* option of the TCP header */
    ECC_FRAME_SERVICE, /* the byte of the traffic class */
    ECC_FRAME_FRAGMENT /* the flags and the fragment offset */
};

/* Kind of a field of a congestion header. */
enum ecc_frame_kind {
    ECC_FRAME_INTEGER, /* unsigned integer of up to 32 bits */
    ECC_FRAME_SINGLE,  /* IEEE single */
    ECC_FRAME_WORD     /* all 64 bits of a word of the header record */
};

/* A field; its value on the wire is `factor` times that of the record, to the nearest from `low` to `high`. */
typedef struct {
    int64_t kind;     /* enum ecc_frame_kind */
    int64_t width;    /* bits */
    int64_t word;     /* index of the word in the record, from 0; -1: the field is constant */
    int64_t is_real;  /* the word is a double, else an int64 */
    int64_t shift;    /* difference of the field to the word; 0 for doubles */
    uint64_t bits;    /* bits of a constant field */
    double factor;    /* 1 for int64 */
    double low, high; /* in units of the record */
} ecc_frame_field_t;

/* The header of a protocol: its fields in data, then those in ACKs, are the next ones of `fields`. */
typedef struct {
    int64_t place;  /* enum ecc_frame_place */
    int64_t is_tcp; /* non-zero: there is a header of TCP */
    int64_t n_data;
    int64_t n_ack;
} ecc_frame_format_t;

typedef struct {
    int64_t n_formats;
    const ecc_frame_format_t *formats;
    int64_t n_fields;
    const ecc_frame_field_t *fields;
    const int64_t *format_of; /* index of the format of each flow */
    int64_t mtu;              /* maximum size of an IP packet, bytes */
    int64_t exact;            /* non-zero: the engine continues with its own doubles, which the shim carries as well */
    unsigned char key[ECC_FRAME_KEY];
} ecc_frames_config_t;

/* Outcome of reading a frame. */
enum ecc_frame_verdict {
    ECC_FRAME_TAKEN,
    ECC_FRAME_FOREIGN,   /* not a frame of this run: other addresses or protocols, or no shim */
    ECC_FRAME_TRUNCATED, /* shorter than its headers state */
    ECC_FRAME_FORGED,    /* its tag is wrong: the token is unknown to its writer, or it was altered */
    ECC_FRAME_REPLAYED,  /* it was taken before, or its number is too old to tell */
    ECC_FRAME_WRONG,     /* its tag is right, but no engine of this run writes such a frame */
    ECC_FRAME_N_VERDICTS
};

/* One end of a real link. All zero but the addresses at first; one key must not see the same addresses twice. */
typedef struct {
    unsigned char own[8]; /* MAC addresses: the first six bytes */
    unsigned char peer[8];
    uint64_t written;  /* number of the last frame that was written */
    uint64_t newest;   /* highest number of a frame that was taken */
    uint64_t window;   /* bits of the 64 numbers up to `newest` that were taken */
    int64_t reordered; /* frames taken after one with a higher number */
    int64_t verdicts[ECC_FRAME_N_VERDICTS];
} ecc_frame_port_t;

typedef struct ecc_frames ecc_frames_t;

/* Frames of the packets of an engine, which is looked at in this call only; NULL on failure. */
ECC_MUST_CHECK int ecc_frames_new(const ecc_engine_t *engine, const ecc_frames_config_t *config, ecc_frames_t **frames);
void ecc_frames_free(ecc_frames_t *self);

/* Bytes of a crossing, as ecc_engine_take_leaving returns it: ecc_crossing_t and what follows it. */
int64_t ecc_frames_crossing_size(const ecc_frames_t *self);

/* Maximum size of a frame, bytes. */
int64_t ecc_frames_room(const ecc_frames_t *self);

/* Writes the frame of a crossing, and returns its size; 0: this flow has no frames. */
int64_t ecc_frames_write(
    const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *crossing, unsigned char *frame);

/* Reads bytes from anywhere: a verdict, which the port counts. The crossing is written if it is ECC_FRAME_TAKEN. */
int64_t ecc_frames_read(const ecc_frames_t *self, ecc_frame_port_t *port, const unsigned char *frame, int64_t size,
    unsigned char *crossing);

/* cdef: end */

#endif
