#ifndef ECC_CONTROLLER_H
#define ECC_CONTROLLER_H

/*
 * A congestion controller in a shared object. ecc.models.controller.load returns a protocol that calls it.
 *
 * The controller implements the functions below; those under "optional functions" can be left out. The host (ecc) sends
 * and retransmits packets, takes samples, and reads the window and the rate after each call that can change them. The
 * calls for a flow follow the order of its events. Several threads may call for different flows, so a controller must
 * keep all its variables in the state of the flow. The host copies and saves this state as bytes, so it must not contain
 * pointers, and the controller must not allocate memory.
 *
 * Volumes are in bytes of data, rates in bit/s, and times in s, all of type double.
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

/* The inputs of a call. New fields are added at the end, and raise the version. */
typedef struct {
    double now;         /* time of the call */
    double packet_size; /* size of a full packet; in on_send, of the packet that is sent */
    double rtt;         /* last sample, 0 before any sample */
    double srtt;        /* RFC 6298, 0 before any sample */
    double min_rtt;     /* minimum so far, 0 before any sample */
    double in_flight;   /* bytes sent and neither acknowledged nor lost */
    double acked;       /* bytes newly acknowledged by the cumulative ACK; on_ack only, else 0 */
    double delivered;   /* bytes acknowledged cumulatively since the start */
    double recovering;  /* 1: the flow is in recovery from losses */
    double recovered;   /* 1: this ACK has ended the recovery */
    double undone;      /* 1: this ACK shows that the last loss was spurious (transport "rack"): undo on_loss */
    double kind;        /* in on_loss, 1: timeout, 0: fast recovery; in on_send, 1: retransmission, 0: new data */
    double marked;      /* bytes that this ACK newly reports as marked CE */
    double ece;         /* 1: this ACK carries ECE (classic ECN) */
    double size;        /* bytes that the flow delivers in total, -1: unlimited */
    double random;      /* uniform in [0, 1), drawn for each call */

    /* The delivery-rate sample of an ACK (draft-ietf-ccwg-bbr); in other calls, the last sample. */
    double newly_acked;      /* bytes newly delivered by this ACK; 0: there is no sample */
    double newly_lost;       /* bytes newly declared lost since the last ACK */
    double rate;             /* delivery rate */
    double interval;         /* duration of the sample */
    double sample_delivered; /* bytes delivered in this interval */
    double sample_lost;      /* bytes declared lost since the acknowledged packet was sent */
    double tx_in_flight;     /* bytes in flight when that packet was sent, including it */
    double app_limited;      /* 1: the sample was limited by the application */
    double prior_delivered;  /* total_delivered when that packet was sent */
    double total_delivered;  /* bytes counted by the receiver, including duplicates */
    double total_lost;       /* bytes declared lost since the start */
    double round_count;      /* round trips since the start */
    double round_start;      /* 1: this ACK begins a round trip */
} ecc_controller_event_t;

typedef struct {
    const char *name;
    double value; /* default value, which the user can replace */
} ecc_controller_parameter_t;

/* Returns ECC_CONTROLLER_VERSION of the header that the controller was compiled with. */
ECC_CONTROLLER_EXPORT unsigned ecc_controller_version(void);

/* Returns the size of the state of a flow, bytes. The state is aligned to 8 bytes, and zero before init. */
ECC_CONTROLLER_EXPORT size_t ecc_controller_size(void);

/* Called when the flow starts. */
ECC_CONTROLLER_EXPORT void ecc_controller_init(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* Called when an ACK arrives. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_ack(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* Called when a loss is detected: once per recovery, and once per timeout. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_loss(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* Returns the congestion window; 0: unlimited, only the rate paces the flow. */
ECC_CONTROLLER_EXPORT double ecc_controller_window(
    const void *state, const double *parameters, const ecc_controller_event_t *event);

/* ---- optional functions ---- */

/* Returns the names and default values of `parameters`, in order; a NULL name ends the list. */
ECC_CONTROLLER_EXPORT const ecc_controller_parameter_t *ecc_controller_parameters(void);

/* Returns the names of the variables that ecc_controller_read writes, in order; NULL ends the list. */
ECC_CONTROLLER_EXPORT const char *const *ecc_controller_variables(void);

/* Writes the variables of a state that a run can record. */
ECC_CONTROLLER_EXPORT void ecc_controller_read(const void *state, double *values);

/* Called for each packet that is sent, including retransmissions. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_send(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* Called when the timer that ecc_controller_timer has set expires. */
ECC_CONTROLLER_EXPORT void ecc_controller_on_timer(
    void *state, const double *parameters, const ecc_controller_event_t *event);

/* Returns the pacing rate; 0: not paced, packets are sent as soon as the window allows. */
ECC_CONTROLLER_EXPORT double ecc_controller_pacing_rate(
    const void *state, const double *parameters, const ecc_controller_event_t *event);

/* Returns the time from now until on_timer, negative: no timer. Each call replaces the timer set before. */
ECC_CONTROLLER_EXPORT double ecc_controller_timer(
    const void *state, const double *parameters, const ecc_controller_event_t *event);

#ifdef __cplusplus
}
#endif

#endif
