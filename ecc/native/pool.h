#ifndef ECC_POOL_H
#define ECC_POOL_H

/*
 * Room for flows, and the transfers that take turns in it: a transfer waits for its start, lives in a slot behind the
 * flows, and leaves a result; others may follow it. Room is doubled when every slot is taken, and with it the calendars' nodes.
 */

#include "state.h"

/* Copies the templates; their routes are laid by ecc_config_lay_routes. */
ECC_MUST_CHECK int ecc_pool_init(ecc_engine_t *self, const ecc_config_t *config);
void ecc_pool_free(ecc_engine_t *self);
ECC_MUST_CHECK int ecc_pool_verify(const ecc_engine_t *self);

/* Memory for this many flows and slots: of their states, records, links, and nodes in the calendars. */
ECC_MUST_CHECK int ecc_pool_make_room(ecc_engine_t *self, uint32_t room);

/* How much room there is at first. */
uint32_t ecc_pool_first_room(const ecc_config_t *config);

#define ECC_NO_SLOT UINT32_MAX

/* A slot becomes a flow of a template. */
void ecc_pool_occupy(ecc_engine_t *self, uint32_t slot, uint32_t kind, int64_t number);

/* The n - 1 transfers after the first, which is the one in a slot, follow it one after the other. */
ECC_MUST_CHECK int ecc_pool_add_followers(
    ecc_engine_t *self, uint32_t flow, const ecc_transfer_t *transfers, int64_t n);

/* The next transfer takes a slot: it becomes this flow. */
ECC_MUST_CHECK int ecc_pool_take(ecc_engine_t *self, uint32_t *flow);

/* As ecc_pool_take, for the one that follows another, which no longer has a follower. */
ECC_MUST_CHECK int ecc_pool_follow(ecc_engine_t *self, uint32_t other, uint32_t *flow);

/* Something of a transfer that has a follower was received: if that is all, the follower's wait begins. */
void ecc_pool_receive(ecc_engine_t *self, uint32_t flow);

/* Whether one that follows a transfer waits for its start. */
static inline bool
ecc_pool_is_followed(const ecc_engine_t *self, uint32_t flow)
{
    return self->flows[flow].follower != ECC_NO_FOLLOWER
        && ecc_calendar_pending(&self->slow, self->base[ECC_START] + flow + 1);
}

/* A transfer that is over leaves its result and its slot. */
void ecc_pool_leave(ecc_engine_t *self, uint32_t flow);

/* Whether more transfers must be handed over before time goes on. */
static inline bool
ecc_pool_is_hungry(const ecc_pool_t *self)
{
    return self->more && self->n_taken == self->n_waiting;
}

#endif
