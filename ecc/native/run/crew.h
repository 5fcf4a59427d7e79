#ifndef ECC_CREW_H
#define ECC_CREW_H

/* A crew: threads that take steps of many independent engines. */

#include "core/engine.h"

/* cdef: begin */

/* A step of an engine: actions, then events up to a time, then an observation. The first seven fields are its input. */
typedef struct {
    ecc_engine_t *engine; /* NULL: no step */
    double until;         /* time to reach [s], >= 0 */
    ecc_ps_t end;         /* maximum of the time to reach */
    const ecc_action_t *actions;
    double *values;                  /* values of the actions, which become NaN when they have been performed */
    ecc_observation_t *observations; /* written when the time is reached; NULL: not observed */
    int64_t n_actions;
    int64_t code; /* 0, or the code of a failure, or of a refused action */
    int64_t stop; /* enum ecc_stop of the engine afterwards; ECC_STOP_ERROR: it has failed */
    double now;   /* time of the engine afterwards [s] */
} ecc_step_t;

/* Takes the step of one engine, with at most max_events events (< 0: no limit). */
void ecc_crew_step(ecc_step_t *step, int64_t max_events);

typedef struct ecc_crew ecc_crew_t;

/* A crew whose only thread is the caller of ecc_crew_run; NULL on failure. */
ECC_MUST_CHECK int ecc_crew_new(ecc_crew_t **crew);

/* Makes the calling thread one of the crew: takes steps of each ecc_crew_run, and returns after ecc_crew_end. */
void ecc_crew_work(ecc_crew_t *self);

/* Makes all calls of ecc_crew_work return, now or at their beginning. */
void ecc_crew_end(ecc_crew_t *self);

/* Frees a crew whose calls of ecc_crew_work have returned. */
void ecc_crew_free(ecc_crew_t *self);

/*
 * Takes n steps, each of another engine, by ecc_crew_step, and returns when all are taken. Every thread takes the next
 * step that is left; as engines share nothing, the results do not depend on the number of threads. Returns the number
 * of engines that have not reached their times; or -1 if a time is not >= 0, and then no step is taken.
 */
int64_t ecc_crew_run(ecc_crew_t *self, ecc_step_t *steps, int64_t n, int64_t max_events);

/* cdef: end */

#endif
