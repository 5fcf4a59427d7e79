#ifndef ECC_ERRORS_H
#define ECC_ERRORS_H

/* The codes of the engine, -1, -2, ... in this order, with their messages, which state the allowed values. */
#define ECC_ERRORS(X)                                                                                                 \
    X(NO_MEMORY, "out of memory")                                                                                     \
    X(TOO_LARGE, "too many links, flows or packets in flight (at most 2^28 links, 2^28 flows, 2^32 - 1 packets)")     \
    X(HEADER_SIZE, "header size must be a multiple of 8 bytes from 0 to 4096")                                        \
    X(HEADER_OFFSET, "header offset must be a multiple of 8 bytes from 0 to the header size")                         \
    X(HEADER_BYTES, "header bytes must be from 0 to 65535")                                                           \
    X(SAMPLES, "samples must have a period > 0 ps, arrays, and at most the number of flows of the network")           \
    X(RECORDED, "a recorded value must be 8 bytes at a multiple of 8, in a record or in the env of a sampled flow")   \
    X(LINK_CAPACITY, "capacity must be finite and > 0 bit/s")                                                         \
    X(LINK_DELAY, "delay of a link must be from 0 to 1e18 ps")                                                        \
    X(LINK_BUFFER, "buffer must be >= 0 bytes, or -1 for unlimited, and >= 0 packets, 0 for unlimited")               \
    X(LINK_INTERVAL, "first interval must be below 4e18 ps")                                                          \
    X(QUEUES, "a link must have at most 65536 queues, with quanta from 1 to 2^30 bytes, and a scheduler that exists") \
    X(ROUTER, "an additional router must be at a link that exists")                                                   \
    X(FLOW_ROUTE, "a route must name at least one link, and only links that exist")                                   \
    X(FLOW_DELAY, "delays of a flow must be from 0 to 1e18 ps")                                                       \
    X(FLOW_TIMES, "start must be from 0 to 4e18 ps, and stop later than start, or -1 for never")                      \
    X(FLOW_SIZE, "size must be > 0 bytes, or -1 for unlimited")                                                       \
    X(PACKET_SIZE, "packets and ACKs must be from 1 to 2^30 bytes")                                                   \
    X(ACKS, "packets per ACK must be >= 0, and the maximum wait of a delayed ACK from 0 to 1e18 ps")                  \
    X(ECN, "ecn of a flow must be 0, 1, 2 or 3")                                                                      \
    X(TIMERS, "a flow must have from 0 to 4 timers")                                                                  \
    X(TRANSPORT,                                                                                                      \
        "transport must be from 0 to 3, its receiver window >= 0 bytes, its timeouts and granularity from 0 to 1e18 " \
        "ps")                                                                                                         \
    X(TRIMMING, "a flow with a trimmed size must have no transport, and packets and a trimmed size below 2^30 bytes") \
    X(SPRAYING,                                                                                                       \
        "a flow may have up to 65535 alternative routes, taken in turn (0) or at random (1), and a reordering "       \
        "threshold from 0 to 255 packets; a transfer, and any flow if a router uses env.flow_queue, must have one "   \
        "route")                                                                                                      \
    X(WRITES,                                                                                                         \
        "write size and write period must be > 0 bytes and > 0 to 1e18 ps, or both 0 to write all at the start or "   \
        "at given times, which must increase from 0 to below 4e18 ps with totals that increase to 2^62 bytes")        \
    X(PAUSE,                                                                                                          \
        "xoff, xon and headroom must be from 0 to 2^50 bytes, xon at most xoff, priorities from 0 to 7; a network "   \
        "with paused links must not be cut into parts")                                                               \
    X(CHANGES,                                                                                                        \
        "changes of capacity must be in the array of changes, finite and >= 0 bit/s, at increasing times from 0 "     \
        "to below 4e18 ps")                                                                                           \
    X(IMPAIRMENT,                                                                                                     \
        "impairments must be numbered from 1, with probabilities from 0 to 1, spikes every 1 to 2^53 packets, "       \
        "delays from 0 to 1e18 ps at increasing times, slots of >= 0 packets and bytes, a jitter_law from 0 to 2, "   \
        "burst_kinds from 0 to 3, and no maximum below its minimum")                                                  \
    X(SERVER,                                                                                                         \
        "servers must be numbered from 1, with a rate >= 0 bit/s, a burst from 1 to 2^50 bytes, opportunities of "    \
        "1 to 2^30 bytes at non-decreasing times >= 0 ps, of which the last is > 0 ps, and slots as for "             \
        "impairments")                                                                                                \
    X(UNDER_WAY,                                                                                                      \
        "packets under way must be sorted by time from -4e18 to 0 ps, each with a different place on the route of "   \
        "a flow that starts at 0 ps; such a network must have one part, and one route per flow")                      \
    X(MONITORS, "monitors must name flows of the network in increasing order; a part of a network must have none")    \
    X(ACTION, "an action must be for a flow that has started and not ended, and set its rate, window or a word")      \
    X(WORD, "a word that an action sets must be finite")                                                              \
    X(RATE, "rate must be finite and >= 0 bit/s")                                                                     \
    X(WINDOW, "window must be finite and >= 0 bytes")                                                                 \
    X(TIMER, "timer must not be NaN s")                                                                               \
    X(CONTROL, "a control packet must have at most 2^30 bytes and a kind from 0 to 2^31 - 1")                         \
    X(QUEUE_INDEX, "queue index must be that of a queue of the link")                                                 \
    X(SELECTION, "queue index must be that of a queue with a waiting packet")                                         \
    X(INTERVAL, "next interval must not be NaN s")                                                                    \
    X(TIMER_STUCK, "timer must be >= 5e-13 s, or negative for none, after 100 smaller ones in calls of its hook")     \
    X(INTERVAL_STUCK, "next interval must be >= 5e-13 s, or 0 for none, after 100 consecutive smaller ones")          \
    X(HOOK_FAILED, "a hook failed")                                                                                   \
    X(RECORD_SIZE, "the record size of transfers must be a multiple of 8 bytes from 0 to 1048576")                    \
    X(TRANSFER,                                                                                                       \
        "transfers must be sorted by start, start at or after the current time, and have an existing template")       \
    X(SUBSEQUENT,                                                                                                     \
        "a subsequent transfer must have no stop, a template that enables it, and a predecessor of finite size in "   \
        "the same call")                                                                                              \
    X(CHECKPOINT, "a checkpoint must be complete, and saved by an engine of the same build, configuration and part")  \
    X(PARTITION,                                                                                                      \
        "a network must be cut into at most 1024 parts, numbered from 0, at places with a delay; a receiver with "    \
        "on_receive, or without events, must be in the part of its sender, any other receiver with reverse links "    \
        "in the part of the first of them, and both ends of a transfer in the part of its first link")                \
    X(CROSSING, "a crossing must be complete, and a packet that this part expects, on time and in order")             \
    X(FRAMES,                                                                                                         \
        "frames must have flows, at most 2^23, and no transfers, formats with different words of their headers as "   \
        "fields, an MTU from 1 to 65535 bytes, at most 2048 bytes of headers, and no marks if a header uses the "     \
        "ECN bits")                                                                                                   \
    X(UNTIL, "the time to advance to must be from 0 to 4e18 ps")                                                      \
    X(DEADLOCK, "links must not be paused forever, each with packets that wait for another of them (PFC deadlock)")   \
    X(BROKEN, "an invariant of the engine does not hold")

enum ecc_error_order {
#define ECC_ERROR_ORDER(name, text) ECC_ORDER_##name,
    ECC_ERRORS(ECC_ERROR_ORDER)
#undef ECC_ERROR_ORDER
        ECC_N_ERRORS
};

enum ecc_error {
#define ECC_ERROR_CODE(name, text) ECC_ERR_##name = -1 - ECC_ORDER_##name,
    ECC_ERRORS(ECC_ERROR_CODE)
#undef ECC_ERROR_CODE
};

#endif
