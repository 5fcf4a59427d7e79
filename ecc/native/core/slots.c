/* Slots in which packets leave together (S-158). */

#include "core/slots.h"

#include <stdbool.h>

#include "core/clock.h"
#include "core/random.h"

ecc_ps_t
ecc_slots_out(ecc_slots_t *self, const ecc_slots_spec_t *spec, uint64_t *random, ecc_ps_t ready, int64_t size)
{
    bool has_passed = self->opens < ready;

    if (has_passed || self->packets == 0 || size > self->bytes) {
        ecc_ps_t since = has_passed ? ready : self->opens;
        self->opens = ecc_clock_add(since, ecc_random_between(random, spec->lo, spec->hi));
        self->packets = spec->packets > 0 ? spec->packets : INT64_MAX;
        self->bytes = spec->bytes > 0 ? spec->bytes : INT64_MAX;
    }
    self->packets--;
    self->bytes -= size;
    return self->opens;
}
