/*
 * A congestion controller in C: the window grows by `increase` packets an RTT, falls to `decrease` of what is in flight
 * at a loss, and is paced.
 *
 *     cc -shared -fPIC -I "$(python -c 'from ecc.models import controller; print(controller.include())')" \
 *        -o aimd.so aimd.c
 */

#include "ecc_controller.h"

enum { INCREASE, DECREASE };

typedef struct {
    double window, threshold; /* bytes */
} aimd_t;

unsigned
ecc_controller_version(void)
{
    return ECC_CONTROLLER_VERSION;
}

size_t
ecc_controller_size(void)
{
    return sizeof(aimd_t);
}

const ecc_controller_parameter_t *
ecc_controller_parameters(void)
{
    static const ecc_controller_parameter_t parameters[] = { { "increase", 1.0 }, { "decrease", 0.5 }, { NULL, 0.0 } };
    return parameters;
}

void
ecc_controller_init(void *state, const double *p, const ecc_controller_event_t *event)
{
    aimd_t *self = state;
    (void) p;
    self->window = 10.0 * event->packet_size;
    self->threshold = 1e300;
}

void
ecc_controller_on_ack(void *state, const double *p, const ecc_controller_event_t *event)
{
    aimd_t *self = state;
    if (event->recovering > 0.0 || event->recovered > 0.0) {
        return;
    }
    self->window += self->window < self->threshold ? event->acked
                                                   : p[INCREASE] * event->packet_size * event->acked / self->window;
}

void
ecc_controller_on_loss(void *state, const double *p, const ecc_controller_event_t *event)
{
    aimd_t *self = state;
    double left = p[DECREASE] * event->in_flight, least = 2.0 * event->packet_size;
    self->threshold = left > least ? left : least;
    self->window = event->kind > 0.0 ? event->packet_size : self->threshold;
}

double
ecc_controller_window(const void *state, const double *p, const ecc_controller_event_t *event)
{
    (void) p, (void) event;
    return ((const aimd_t *) state)->window;
}

double
ecc_controller_pacing_rate(const void *state, const double *p, const ecc_controller_event_t *event)
{
    double gain = ((const aimd_t *) state)->window < ((const aimd_t *) state)->threshold ? 2.0 : 1.2;
    (void) p;
    return event->srtt > 0.0 ? 8.0 * gain * ((const aimd_t *) state)->window / event->srtt : 0.0;
}

const char *const *
ecc_controller_variables(void)
{
    static const char *const names[] = { "window", "threshold", NULL };
    return names;
}

void
ecc_controller_read(const void *state, double *values)
{
    values[0] = ((const aimd_t *) state)->window;
    values[1] = ((const aimd_t *) state)->threshold;
}
