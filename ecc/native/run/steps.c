/*
 * What a caller does between two calls of ecc_engine_advance: actions on flows, and observations (S-223 to S-225).
 *
 * Not here: what a monitor counts (host/monitor.c), and steps of many engines in threads (crew.c).
 */

#include "core/engine.h"

#include <math.h>

#include "core/state.h"
#include "host/flow_hooks.h"
#include "host/monitor.h"
#include "host/sender.h"
#include "run/run.h"

/* S-223: whether an action is allowed now; otherwise its code, and the report names the flow. */
static int
check(ecc_engine_t *self, const ecc_action_t *action, double value)
{
    bool is_word = action->kind == ECC_ACTION_WORD;
    int code = 0;

    if (isnan(value)) {
        return 0;
    }
    if (action->flow < 0 || action->flow >= self->n_flows || action->kind < ECC_ACTION_RATE
        || action->kind > ECC_ACTION_WORD || (is_word && action->word == NULL)) {
        return ecc_state_fail(self, ECC_ERR_ACTION, ECC_ENTITY_NONE, 0, ECC_NO_HOOK, (double) action->flow);
    }
    if (!self->flows[action->flow].active) {
        code = ECC_ERR_ACTION;
    } else if (!isfinite(value) || (value < 0.0 && !is_word)) {
        code = is_word ? ECC_ERR_WORD : action->kind == ECC_ACTION_RATE ? ECC_ERR_RATE : ECC_ERR_WINDOW;
    }
    return code == 0 ? 0 : ecc_state_fail_flow(self, code, (uint32_t) action->flow, ECC_NO_HOOK, value);
}

/* S-223: performs an allowed action. */
static int
perform(ecc_engine_t *self, const ecc_action_t *action, double value)
{
    uint32_t index = (uint32_t) action->flow;

    if (isnan(value) || !self->flows[index].active) {
        return 0;
    }
    if (action->kind == ECC_ACTION_WORD) {
        *action->word = value;
        return 0;
    }
    if (action->kind == ECC_ACTION_RATE) {
        ecc_flow_hooks_set(self, index, value, self->flows[index].window);
    } else {
        ecc_flow_hooks_set(self, index, self->flows[index].rate, value);
    }
    return ecc_sender_try_send(self, index);
}

int
ecc_engine_act(ecc_engine_t *self, const ecc_action_t *actions, const double *values, int64_t n)
{
    int ret = self->stop == ECC_STOP_ERROR ? (int) self->report.code : 0;

    for (int64_t k = 0; k < n && ret == 0; k++) {
        ret = check(self, &actions[k], values[k]);
    }
    if (ret != 0 || n == 0) {
        return ret;
    }
    for (int64_t k = 0; k < n && ret == 0; k++) {
        ret = perform(self, &actions[k], values[k]);
    }
    return ecc_run_end(self, ret);
}

void
ecc_engine_observe(ecc_engine_t *self, ecc_observation_t *observations)
{
    for (size_t k = 0; k < self->n_monitors; k++) {
        observations[k] = ecc_monitor_read(self, &self->monitors[k]);
    }
    ecc_monitor_begin(self);
}
