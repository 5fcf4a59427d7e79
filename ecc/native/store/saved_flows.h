#ifndef ECC_SAVED_FLOWS_H
#define ECC_SAVED_FLOWS_H

/* Flows in a checkpoint. */

#include "core/archive.h"

/* A flow, or the transfer in its slot: counters, receiver, transport, then its packets outside of links. */
void ecc_saved_flows_move(ecc_archive_t *archive, ecc_engine_t *self, uint32_t flow);

/* The interval of a monitored flow, after the flow. */
void ecc_saved_flows_move_monitor(ecc_archive_t *archive, ecc_engine_t *self, ecc_monitor_t *monitor);

#endif
