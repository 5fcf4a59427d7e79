#ifndef ECC_SENDER_H
#define ECC_SENDER_H

/* The sender of a flow: what it sends, and when. */

#include "core/state.h"

#define ECC_MAX_BACKOFFS 6        /* doublings of a timeout (S-42) */
#define ECC_MAX_PROBE_BACKOFFS 62 /* doublings of a probe timeout (S-219); 1 ps is then longer than a run */

/* TRY-SEND (S-52). */
ECC_MUST_CHECK int ecc_sender_try_send(ecc_engine_t *self, uint32_t flow);

/* TRY-SEND of a flow that is plain. */
ECC_MUST_CHECK int ecc_sender_try_send_plain(ecc_engine_t *self, uint32_t flow);

/* EMIT (S-54) without the access line (S-207); ECC_NO_PACKET if the flow has nothing to send. */
ECC_MUST_CHECK int ecc_sender_leave(ecc_engine_t *self, uint32_t flow, uint32_t *packet);

/* SEND (S-45). */
ECC_MUST_CHECK int ecc_sender_send(ecc_engine_t *self, uint32_t flow);

/* Whether a pending SEND has something to send. */
ECC_MUST_CHECK int ecc_sender_verify(const ecc_engine_t *self, uint32_t flow);

#endif
