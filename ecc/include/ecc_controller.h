#ifndef ECC_CONTROLLER_H
#define ECC_CONTROLLER_H

/*
 * A congestion controller in a shared object, which ecc.models.controller.load makes a protocol of.
 *
 * The functions below are the controller's; those under "may be absent" need not be there. The host (ecc) sends and
 * retransmits, takes samples, and asks for window and rate after each call that can change them. All calls for a flow
 * come in the order of its events; several threads may call for several flows, so a controller has no variables but
 * its state. The host copies and saves states as bytes: no pointers in them, and no memory allocated.
 *
 * Sizes and volumes are bytes of data, rates bit/s, times s, all of them double.
 */

#include <stddef.h>

#if defined(_WIN32)
#define ECC_CONTROLLER_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define ECC_CONTROLLER_EXPORT __attribute__((visibility("default")))
#else
#define ECC_CONTROLLER_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ECC_CONTROLLER_VERSION 1

/* What the host knows at a call. New fields are added at the end, and raise the version. */
typedef struct {
    double now;
    double packet_size; /* of a full packet; in on_send of this one */
    double rtt;         /* last sample, 0 before any */
    double srtt;        /* RFC 6298, 0 before any sample */
    double min_rtt;     /* least so far, 0 before any */
    double in_flight;
    double acked;      /* newly, by the cumulative ACK; on_ack only, else 0 */
    double delivered;  /* acknowledged so far, cumulatively */
    double recovering; /* 1: losses are being recovered */
    double recovered;  /* 1: this ACK has ended that */
    double undone;     /* 1: it shows that the last loss was none (transport "rack"): take back what on_loss did */
    double kind;       /* of on_loss: 1 a timeout, 0 a fast recovery; of on_send: 1 it is sent again */
    double marked;     /* that this ACK newly reports as marked CE */
    double ece;        /* 1: this ACK carries ECE (classic ECN) */
    double size;       /* that the flow has to deliver, -1: no end */
    double random;     /* uniform in [0, 1), another one at each call */

    /* The delivery-rate sample of an ACK (draft-ietf-ccwg-bbr); of other calls the last one. */
    double newly_acked;      /* 0: this ACK reports nothing new, and there is no sample */
    double newly_lost;       /* since the ACK before */
    double rate;             /* of delivery */
    double interval;         /* over which it was taken */
    double sample_delivered; /* in it */
    double sample_lost;      /* since the packet was sent whose arrival the ACK reports */
    double tx_in_flight;     /* when it was sent, with it */
    double app_limited;      /* 1: the application limited what was sent */
    double prior_delivered;  /* what total_delivered was when it was sent */
    double total_delivered;  /* counted by the receiver, copies too */
    double total_lost;
    double round_count;
    double round_start; /* 1: this ACK begins a round trip */
} ecc_controller_event_t;

typedef struct {
    const char *name;
    double value; /* unless the user gives another one */
} ecc_controller_parameter_t;

/* ECC_CONTROLLER_VERSION of this file, when it was compiled. */
ECC_CONTROLLER_EXPORT unsigned ecc_controller_version(void);

/* Bytes of the state of a flow; it is aligned to 8, and zero before init. */
ECC_CONTROLLER_EXPORT size_t ecc_controller_size(void);

/* The flow starts. */
ECC_CONTROLLER_EXPORT void ecc_controller_init(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* An ACK has come. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_ack(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* A loss is seen: once a recovery, and once a timeout. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_loss(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* The congestion window; 0: none, the rate alone paces the flow. */
ECC_CONTROLLER_EXPORT double ecc_controller_window(
    const void *state, const double *parameters, const ecc_controller_event_t *event);

/* ---- may be absent ---- */

/* Names and values of `parameters`, in order; a NULL name ends them. */
ECC_CONTROLLER_EXPORT const ecc_controller_parameter_t *ecc_controller_parameters(void);

/* Names of what ecc_controller_read writes, in order; NULL ends them. */
ECC_CONTROLLER_EXPORT const char *const *ecc_controller_variables(void);

/* Writes what a run can record of a state. */
ECC_CONTROLLER_EXPORT void ecc_controller_read(const void *state, double *values);

/* A packet is being sent: once for each packet, those sent again too. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_send(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* The time has come that ecc_controller_timer asked for. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_timer(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* The pacing rate; 0: a window's worth leaves at once. */
ECC_CONTROLLER_EXPORT double ecc_controller_pacing_rate(
    const void *state, const double *parameters, const ecc_controller_event_t *event);

/* How long from now until on_timer is to be called, negative: it is not; the last answer counts. */
ECC_CONTROLLER_EXPORT double ecc_controller_timer(
    const void *state, const double *parameters, const ecc_controller_event_t *event);

#ifdef __cplusplus
}
#endif

#endif
