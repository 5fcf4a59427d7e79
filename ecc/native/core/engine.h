/*
 * The packet engine: links, routers and flows on an integer clock. These are its functions; their arguments are declared
 * in inputs.h (the configuration), env.h (what hooks see) and results.h, with the kinds and units of kinds.h.
 *
 * Its exact behavior is specified in docs/engine_specification.md, in numbered clauses; "S-42" in the code cites one of
 * them. ecc/packet/twin/ is a second engine written from that page, and both agree event by event.
 *
 * The engine knows no protocol: protocols are hooks, C functions that routers and flows call. It reads no clock, file
 * or environment, and allocates memory only through one allocator. Its functions are called in this order:
 *
 *   ecc_engine_new        a configuration becomes an engine, or is refused with a report
 *   ecc_engine_add        hands over transfers, whenever a run stops with ECC_STOP_TRANSFERS
 *   ecc_engine_advance    runs events up to a time
 *   ecc_engine_stats and the functions after it   return results, between calls of ecc_engine_advance
 *   ecc_engine_free
 *
 * Times are integer picoseconds, sizes integer bytes, rates bit/s, and times that hooks see are seconds. Functions that
 * can fail return 0 or a negative code (errors.h); ecc_engine_report then reports the cause and the place.
 *
 * The declarations between the marks "cdef" are parsed by cffi (binding.py): no preprocessor there but plain #define.
 */
#ifndef ECC_ENGINE_H
#define ECC_ENGINE_H

#include <stdint.h>

#include "core/inputs.h"
#include "core/kinds.h"
#include "core/results.h"

#if defined(__GNUC__)
#define ECC_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ECC_MUST_CHECK
#endif

/* cdef: begin */

/*
 * A packet that moves to another part. Its header and its data for the receiver or the sender follow and, if the network
 * has templates, two words: the template of a transfer, or -1, and its ack_delay. The place `hop` is -1 on the access
 * line, from 0 on the wire of a link of the route, which reverse links continue, and the number of all these links in
 * the pure delay of ACKs. The next number reports that a packet of a transfer was discarded at `time`.
 */
typedef struct {
    ecc_ps_t time; /* arrival at the end of the wire, line or delay */
    ecc_ps_t sent; /* departure from the sender */
    int64_t offset;
    int64_t size; /* bytes of data, also of an ACK */
    int64_t flow; /* number */
    int64_t hop;  /* place of the packet */
} ecc_crossing_t;

typedef struct ecc_engine ecc_engine_t;

/*
 * Creates an engine, NULL on failure. Arrays of the configuration are copied, except for records, samples and trace.
 * Engines share nothing, so that each may run in its own thread. Only one thread at a time may use an engine, also for
 * reading.
 */
ECC_MUST_CHECK int ecc_engine_new(const ecc_config_t *config, ecc_engine_t **engine, ecc_report_t *report);
void ecc_engine_free(ecc_engine_t *self);

/*
 * Runs all events up to and at `until`, but at most max_events of them (< 0: no limit). Each packet that TRY-SEND
 * emits counts as an event as well, so that the work of a call is bounded, except for hooks. Slices never change the
 * result. A time before now is taken as now. Returns 0 or a code; after a failure every later call returns that code.
 * A debug build ends each call with ecc_engine_verify.
 */
ECC_MUST_CHECK int ecc_engine_advance(ecc_engine_t *self, ecc_ps_t until, int64_t max_events);

/*
 * Performs n actions now, between two calls of ecc_engine_advance: all of them, or none if one is refused (S-223). An
 * action whose value is NaN does nothing. Returns 0 or a code; the run has failed only if `stop` of the stats tells so.
 */
ECC_MUST_CHECK int ecc_engine_act(ecc_engine_t *self, const ecc_action_t *actions, const double *values, int64_t n);

/* Writes the monitor intervals of all monitored flows, in their order, and begins the next ones now (S-225). */
void ecc_engine_observe(ecc_engine_t *self, ecc_observation_t *observations);

/*
 * Ends a call of ecc_engine_advance in another thread after its current event, as if max_events were reached. It is
 * the only function that may be called during such a call. It may be missed, and can be repeated.
 */
void ecc_engine_stop(ecc_engine_t *self);

/*
 * Adds n transfers, which are copied. A transfer must not start before now or before its predecessor. more = 0: no
 * transfers will follow. Subsequent transfers are added in the same call as the transfer to which they are subsequent.
 * An engine with templates stops (ECC_STOP_TRANSFERS) if no transfer is pending and more may come. Returns 0, or a
 * code if no transfer was added; the report then has the number of the invalid one. All parts are given all transfers,
 * and each keeps its own. A part stops before the start of the last transfer added, if more may come.
 */
ECC_MUST_CHECK int ecc_engine_add(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n, int64_t more);

/* Removes the results of up to n finished transfers, in the order of their ends; returns how many these were. */
int64_t ecc_engine_take_finished(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n);

/*
 * The state at the end of the last call of ecc_engine_advance. These functions change nothing. Stats take constant
 * time, results the time of a copy.
 */
void ecc_engine_report(const ecc_engine_t *self, ecc_report_t *report);
void ecc_engine_stats(const ecc_engine_t *self, ecc_stats_t *stats);
void ecc_engine_flow_results(const ecc_engine_t *self, ecc_flow_result_t *results);
void ecc_engine_link_results(const ecc_engine_t *self, ecc_link_result_t *results);

/* Results of the transfers that have started and not finished, by slot: stats.alive of them. */
void ecc_engine_alive(const ecc_engine_t *self, ecc_transfer_result_t *results);

/*
 * Writes the state of the engine into a buffer, which must be large enough; NULL: only counts. Returns the size in
 * bytes, or a code. Records, samples, trace and histogram belong to the caller and are not included. All crossings
 * that have left a part must have been taken.
 */
int64_t ecc_engine_save(ecc_engine_t *self, unsigned char *buffer);

/*
 * Loads the state of another engine of the same configuration into a new engine, which then continues as that one
 * would have. After a failure the engine is unusable.
 */
ECC_MUST_CHECK int ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size);

/*
 * Parts of one network, each run by an engine: packets that leave one part enter another (S-123).
 * ecc_engine_take_leaving moves the crossings for a part since the last call into a buffer, which must be large
 * enough; NULL: moves nothing. It returns their size in bytes. ecc_engine_enter lets crossings in, which must happen
 * before the time of the first of them. They may come from anywhere: an invalid crossing is refused with a code, the
 * report has its number, and those before it have entered. Any other failure, for example of memory, ends the run:
 * every later call returns its code.
 */
int64_t ecc_engine_take_leaving(ecc_engine_t *self, int64_t part, unsigned char *buffer);
ECC_MUST_CHECK int ecc_engine_enter(ecc_engine_t *self, const unsigned char *crossings, int64_t size);

/*
 * The packets that a part with a trace has put on wires, in this order; NULL: only counts them. Returns their number.
 * With them the traces of all parts are merged: packets of one wire that arrive at one instant do so in this order
 * (S-126).
 */
int64_t ecc_engine_wire_entries(const ecc_engine_t *self, ecc_wire_entry_t *entries);

/* The minimum time from an event in this part to any effect in another; ECC_NEVER: no effect (S-124). */
ecc_ps_t ecc_engine_lookahead(const ecc_engine_t *self);

/* A team runs the parts of one network in as many threads. */
typedef struct ecc_team ecc_team_t;

/* A team of the engines of all parts, in their order, reserved for it until it is freed; NULL on failure. */
ECC_MUST_CHECK int ecc_team_new(ecc_engine_t *const *engines, int64_t n, ecc_team_t **team);
void ecc_team_free(ecc_team_t *self);

/*
 * Runs all events up to and at `until`, or ends after at least max_events of them (< 0: no limit). It is called for
 * every part at once, in as many threads, with the same times and counts. Afterwards all engines are at the same time,
 * and together in the state of the engine of the whole network at the end of that instant. Returns, in each thread,
 * the reason for the end; ECC_STOP_ERROR if a part has failed: the reports of the engines tell which.
 */
ECC_MUST_CHECK int ecc_team_advance(ecc_team_t *self, int64_t part, ecc_ps_t until, int64_t max_events);

/* From any thread: lets a call of ecc_team_advance end soon, as if max_events had been reached. It may be missed. */
void ecc_team_stop(ecc_team_t *self);

/*
 * From now on a part runs at most `most` events in a call: if it would run more, the call ends with ECC_STOP_NOT_YET,
 * and parts may be at different times until a later call ends otherwise.
 */
void ecc_team_set_most(ecc_team_t *self, int64_t most);

/* Checks every invariant: 0 or the code of a broken one. */
ECC_MUST_CHECK int ecc_engine_verify(const ecc_engine_t *self);

/* Text of a code: the invalid value, and the allowed ones. */
const char *ecc_engine_error_text(int code);

/* cdef: end */

#endif
