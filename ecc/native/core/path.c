/* The moves of a packet that are too long, or too rare, for path.h. */

#include "core/path.h"

#include "core/cut.h"
#include "core/finish.h"

int
ecc_path_return(ecc_engine_t *self, uint32_t id)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;
    int ret = 0;

    if (self->cut != NULL
        && ecc_crossing_leaves_as_ack(self, id, ecc_clock_add(self->now, self->flows[index].ack_delay), &ret)) {
        return ret;
    }
    ecc_path_return_at(self, id, self->now);
    return 0;
}

int
ecc_path_discard(ecc_engine_t *self, uint32_t id)
{
    uint32_t index = ecc_packets_at(&self->packets, id)->flow;

    ecc_state_release(self, id);
    if (index >= self->n_flows) {
        self->flows[index].n_packets--;
        if (!ecc_cut_has_sender(self, index)) {
            return ecc_crossing_report_discarded(self, index);
        }
        ecc_finish_if_done(self, index, self->now);
    }
    return 0;
}
