#include "config.h"

#include <math.h>

#define LARGEST_DELAY INT64_C(1000000000000000000)
#define LARGEST_PACKET (INT64_C(1) << 30)
#define LARGEST_HEADER 4096
#define LARGEST_RECORD 4096
#define MOST_HEADER_BYTES 65535

static bool
is_offset(int64_t offset, size_t header_size)
{
    return offset >= 0 && offset <= (int64_t) header_size && offset % 8 == 0;
}

/* What a router is, also the first of a link. */
static int
check_router(const ecc_link_t *router, size_t header_size, double *value)
{
    if (router->first_interval >= ECC_NEVER) {
        *value = (double) router->first_interval;
        return ECC_ERR_LINK_INTERVAL;
    }
    if (!is_offset(router->header_offset, header_size)) {
        *value = (double) router->header_offset;
        return ECC_ERR_HEADER_OFFSET;
    }
    return 0;
}

static int
check_link(const ecc_link_t *link, double *value)
{
    if (!(link->capacity > 0.0 && isfinite(link->capacity))) {
        *value = link->capacity;
        return ECC_ERR_LINK_CAPACITY;
    }
    if (link->delay < 0 || link->delay > LARGEST_DELAY) {
        *value = (double) link->delay;
        return ECC_ERR_LINK_DELAY;
    }
    if (link->buffer < -1) {
        *value = (double) link->buffer;
        return ECC_ERR_LINK_BUFFER;
    }
    if (link->buffer_packets < 0) {
        *value = (double) link->buffer_packets;
        return ECC_ERR_LINK_BUFFER;
    }
    return 0;
}

int
ecc_config_check_flow(const ecc_flow_t *flow, size_t header_size, double *value)
{
    const struct {
        int code;
        bool fine;
        double value;
    } checks[] = {
        { ECC_ERR_RATE, flow->rate >= 0.0 && isfinite(flow->rate), flow->rate },
        { ECC_ERR_WINDOW, flow->window >= 0.0 && isfinite(flow->window), flow->window },
        { ECC_ERR_FLOW_TIMES, flow->start >= 0 && flow->start < ECC_NEVER, (double) flow->start },
        { ECC_ERR_FLOW_TIMES, flow->stop == -1 || flow->stop > flow->start, (double) flow->stop },
        { ECC_ERR_FLOW_SIZE, flow->size == -1 || flow->size > 0, (double) flow->size },
        { ECC_ERR_PACKET_SIZE, flow->packet_size > 0 && flow->packet_size <= LARGEST_PACKET,
            (double) flow->packet_size },
        { ECC_ERR_PACKET_SIZE,
            flow->packet_size_max == 0
                || (flow->packet_size_max >= flow->packet_size && flow->packet_size_max <= LARGEST_PACKET),
            (double) flow->packet_size_max },
        { ECC_ERR_PACKET_SIZE, flow->opening_size >= 0 && flow->opening_size <= LARGEST_PACKET,
            (double) flow->opening_size },
        { ECC_ERR_HEADER_BYTES, flow->header_bytes >= 0 && flow->header_bytes <= MOST_HEADER_BYTES,
            (double) flow->header_bytes },
        { ECC_ERR_HEADER_OFFSET, is_offset(flow->header_offset, header_size), (double) flow->header_offset },
        { ECC_ERR_PACKET_SIZE, flow->ack_size > 0 && flow->ack_size <= LARGEST_PACKET, (double) flow->ack_size },
        { ECC_ERR_FLOW_DELAY, flow->access_delay >= 0 && flow->access_delay <= LARGEST_DELAY,
            (double) flow->access_delay },
        { ECC_ERR_FLOW_DELAY, flow->ack_delay >= 0 && flow->ack_delay <= LARGEST_DELAY, (double) flow->ack_delay },
        { ECC_ERR_FLOW_ROUTE, flow->n_forward >= 1, (double) flow->n_forward },
        { ECC_ERR_FLOW_ROUTE, flow->n_reverse >= 0, (double) flow->n_reverse },
    };

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (!checks[i].fine) {
            *value = checks[i].value;
            return checks[i].code;
        }
    }
    return 0;
}

int
ecc_config_check(ecc_engine_t *self, const ecc_config_t *config)
{
    const ecc_samples_t *samples = &config->samples;
    double value = 0.0;
    int ret;

    if (config->n_links < 0 || config->n_links >= ECC_MOST_ENTITIES || config->n_further < 0
        || config->n_further >= ECC_MOST_ENTITIES - config->n_links || config->n_flows < 0
        || config->n_flows >= ECC_MOST_ENTITIES || config->n_templates < 0 || config->n_templates >= ECC_MOST_ENTITIES
        || config->n_routes < 0 || config->n_routes >= UINT32_MAX) {
        return ecc_state_fail(self, ECC_ERR_TOO_LARGE, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) config->n_flows);
    }
    if (config->header_size < 0 || config->header_size > LARGEST_HEADER || config->header_size % 8 != 0) {
        return ecc_state_fail(
            self, ECC_ERR_HEADER_SIZE, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) config->header_size);
    }
    if (config->record_size < 0 || config->record_size > LARGEST_RECORD || config->record_size % 8 != 0) {
        return ecc_state_fail(
            self, ECC_ERR_RECORD_SIZE, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) config->record_size);
    }
    if (samples->n_samples != 0
        && (samples->n_samples < 0 || samples->period <= 0 || samples->n_flows < 0
            || samples->n_flows > config->n_flows || samples->sent == NULL || samples->received == NULL
            || samples->bottleneck == NULL || samples->queue == NULL || samples->queue_peak == NULL
            || samples->arrived == NULL || samples->dropped == NULL)) {
        return ecc_state_fail(self, ECC_ERR_SAMPLES, ECC_OF_NOBODY, 0, ECC_NO_HOOK, (double) samples->period);
    }
    for (int64_t i = 0; i < config->n_links; i++) {
        ret = check_link(&config->links[i], &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_OF_LINK, i, ECC_NO_HOOK, value);
        }
    }
    for (int64_t i = 0; i < config->n_links + config->n_further; i++) {
        const ecc_link_t *router = &config->links[i];
        if (i >= config->n_links && (router->at < 0 || router->at >= config->n_links)) {
            return ecc_state_fail(self, ECC_ERR_ROUTER, ECC_OF_LINK, i, ECC_NO_HOOK, (double) router->at);
        }
        ret = check_router(router, (size_t) config->header_size, &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_OF_LINK, i, ECC_NO_HOOK, value);
        }
    }
    for (int64_t i = 0; i < config->n_flows + config->n_templates; i++) {
        const ecc_flow_t *flow = i < config->n_flows ? &config->flows[i] : &config->templates[i - config->n_flows];
        ret = ecc_config_check_flow(flow, (size_t) config->header_size, &value);
        if (ret != 0) {
            return ecc_state_fail(self, ret, ECC_OF_FLOW, i, ECC_NO_HOOK, value);
        }
    }
    return 0;
}

int
ecc_config_lay_routes(ecc_engine_t *self, const ecc_config_t *config)
{
    uint32_t position = 0;

    for (uint32_t i = 0; i < self->n_flows + self->pool.n_templates; i++) {
        ecc_template_t *template = i < self->n_flows ? NULL : &self->pool.templates[i - self->n_flows];
        const ecc_flow_t *flow = template == NULL ? &config->flows[i] : &template->is;
        if (flow->n_forward > config->n_routes - position
            || flow->n_reverse > config->n_routes - position - flow->n_forward) {
            return ecc_state_fail(
                self, ECC_ERR_FLOW_ROUTE, ECC_OF_FLOW, i, ECC_NO_HOOK, (double) (flow->n_forward + flow->n_reverse));
        }
        *(template == NULL ? &self->flows[i].position : &template->position) = position;
        for (int64_t k = 0; k < flow->n_forward + flow->n_reverse; k++, position++) {
            int64_t link = config->routes[position];
            uint32_t end = ECC_END_LINK;
            if (link < 0 || link >= config->n_links) {
                return ecc_state_fail(self, ECC_ERR_FLOW_ROUTE, ECC_OF_FLOW, i, ECC_NO_HOOK, (double) link);
            }
            if (k == flow->n_forward - 1) {
                end = flow->on_receive != NULL || flow->n_reverse > 0 ? ECC_END_RECEIVER : ECC_END_ECHO;
            } else if (k == flow->n_forward + flow->n_reverse - 1) {
                end = ECC_END_SENDER;
            }
            self->hops[position]
                = (uint32_t) link << ECC_HOP_LINK
                | (k >= flow->n_forward          ? ECC_HOP_IS_ACK
                        : flow->header_bytes > 0 ? ECC_HOP_HEADER
                                                 : 0u)
                | end;
        }
    }
    return 0;
}
