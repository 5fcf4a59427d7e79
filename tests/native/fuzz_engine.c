/*
 * libFuzzer on the engine's input: networks, transfers and hooks read from arbitrary bytes. Whatever they say, the
 * engine refuses it, stops with a code, or runs the same events in slices as at once, saved and loaded after the first,
 * with every invariant intact (debug builds check them after each slice).
 */

#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Another engine goes on from what the first one saved. */
static void
change_over(const ecc_config_t *config, ecc_engine_t **engine)
{
    ecc_report_t report;
    int64_t size = ecc_engine_save(*engine, NULL);
    unsigned char *bytes = malloc((size_t) size);

    CHECK(bytes != NULL);
    CHECK_EQUAL(ecc_engine_save(*engine, bytes), size);
    ecc_engine_free(*engine);
    CHECK_EQUAL(ecc_engine_new(config, engine, &report), 0);
    CHECK_EQUAL(ecc_engine_load(*engine, bytes, size), 0);
    free(bytes);
}

/* Runs the input in slices of so many events, by two engines if there are several; what it did: digest and code. */
static uint64_t
run(const uint8_t *data, size_t size, int64_t slice, int64_t fails_at)
{
    static input_t input;
    reader_t reader = { data, size };
    memory_t memory = { .fails_at = fails_at };
    const ecc_allocator_t allocator = { resize, &memory };
    ecc_engine_t *engine;
    ecc_report_t report;
    ecc_stats_t stats = { 0 };
    int64_t n_added = 0;
    int64_t left = MAX_EVENTS;
    int ret;

    set_input(&reader, &input);
    input.config.allocator = &allocator;
    ret = ecc_engine_new(&input.config, &engine, &report);
    CHECK_EQUAL(report.code, ret);
    while (ret == 0 && left > 0) {
        int64_t before = stats.events;
        ret = ecc_engine_advance(engine, 2 * SECOND, slice < left ? slice : left);
        ecc_engine_stats(engine, &stats);
        left -= stats.events - before;
        if (ret == 0 && before == 0 && slice < MAX_EVENTS) {
            change_over(&input.config, &engine);
        }
        if (ret == 0 && stats.stop == ECC_STOP_TRANSFERS) {
            ret = hand_over(engine, &input, &n_added);
        } else if (ret == 0 && stats.stop != ECC_STOP_MAX_EVENTS) {
            break;
        }
    }
    if (engine != NULL) {
        ecc_flow_result_t flows[MAX_FLOWS];
        ecc_link_result_t links[MAX_LINKS];
        ecc_transfer_result_t over[MAX_TRANSFERS];
        ecc_engine_report(engine, &report);
        CHECK_EQUAL(report.code, ret);
        ecc_engine_flow_results(engine, flows);
        ecc_engine_link_results(engine, links);
        ecc_engine_alive(engine, over);
        CHECK_EQUAL(ecc_engine_take_finished(engine, over, MAX_TRANSFERS), stats.finished);
        for (int64_t i = 0; i < input.config.n_links; i++) {
            CHECK_EQUAL(links[i].arrived, links[i].departed + links[i].dropped_bytes + links[i].queue);
        }
    }
    CHECK(ret <= 0 && ecc_engine_error_text(ret) != NULL);
    ecc_engine_free(engine);
    CHECK_EQUAL(memory.n_blocks, 0);
    return stats.digest ^ (uint64_t) stats.events ^ (uint64_t) stats.now ^ (uint64_t) -ret << 48;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t at_once;

    if (size < 3) {
        return 0;
    }
    at_once = run(data + 2, size - 2, MAX_EVENTS, -1);
    CHECK_EQUAL(run(data + 2, size - 2, 1 + data[0], -1), at_once);
    (void) run(data + 2, size - 2, MAX_EVENTS, data[1] % 64);
    return 0;
}
