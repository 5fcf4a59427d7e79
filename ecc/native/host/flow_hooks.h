#ifndef ECC_FLOW_HOOKS_H
#define ECC_FLOW_HOOKS_H

/* Calls of the hooks of flows (S-98 to S-104); a missing hook is skipped. */

#include "core/state.h"

/*
 * on_send and on_ack, which have a packet; not NULL. What the hook writes is adopted (S-104). The second is for flows
 * that are plain.
 */
ECC_MUST_CHECK int ecc_flow_hooks_call(
    ecc_engine_t *self, int hook_number, ecc_hook_t hook, const ecc_packet_t *packet, int64_t kind);
ECC_MUST_CHECK int ecc_flow_hooks_call_plain(
    ecc_engine_t *self, int hook_number, ecc_hook_t hook, const ecc_packet_t *packet);

ECC_MUST_CHECK static inline int
ecc_flow_hooks_with_packet(
    ecc_engine_t *self, int hook_number, ecc_hook_t hook, const ecc_packet_t *packet, int64_t kind, bool plain)
{
    return hook == NULL ? 0
        : plain         ? ecc_flow_hooks_call_plain(self, hook_number, hook, packet)
                        : ecc_flow_hooks_call(self, hook_number, hook, packet, kind);
}

/* Calls on_start, on_loss, on_timer, on_count or on_restart, which have no packet (S-101), and adopts env. */
ECC_MUST_CHECK int ecc_flow_hooks_without_packet(
    ecc_engine_t *self, uint32_t flow, int hook_number, ecc_hook_t hook, int64_t kind);

/* S-223: sets rate and window to valid values, as a hook would. */
void ecc_flow_hooks_set(ecc_engine_t *self, uint32_t flow, double rate, double window);

/* After a hook: the shortest timer that it has set [s], negative without one. */
double ecc_flow_hooks_least_timer(const ecc_engine_t *self, uint32_t flow);

/* S-16: env as a hook without a packet would see it now; valid until the next call of a hook. */
const ecc_flow_env_t *ecc_flow_hooks_env(ecc_engine_t *self, uint32_t flow);

/* Calls on_report at the receiver (S-210), and adopts its timer. */
ECC_MUST_CHECK int ecc_flow_hooks_report(ecc_engine_t *self, uint32_t flow);

/* Calls on_control for a control packet that has arrived, and adopts env. */
ECC_MUST_CHECK int ecc_flow_hooks_control(ecc_engine_t *self, const ecc_packet_t *packet);

/* Calls on_receive or on_stop, and ignores env, except for control packet and timer of on_receive (S-129, S-210). */
ECC_MUST_CHECK int ecc_flow_hooks_receive(ecc_engine_t *self, const ecc_packet_t *packet);
ECC_MUST_CHECK int ecc_flow_hooks_stop(ecc_engine_t *self, uint32_t flow);

#endif
