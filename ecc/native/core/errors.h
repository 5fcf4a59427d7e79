#ifndef ECC_ERRORS_H
#define ECC_ERRORS_H

/* The codes of the engine: -1, -2, ... in this order, each with its text, which names what is allowed. */
#define ECC_ERRORS(X)                                                                                                  \
    X(NO_MEMORY, "out of memory")                                                                                      \
    X(TOO_LARGE, "too many links, flows or packets in flight (at most 2^28 links, 2^28 flows, 2^32 - 1 packets)")      \
    X(HEADER_SIZE, "header size must be a multiple of 8 bytes from 0 to 4096")                                         \
    X(HEADER_OFFSET, "header offset must be a multiple of 8 bytes from 0 to the header size")                          \
    X(HEADER_BYTES, "header bytes must be from 0 to 65535")                                                            \
    X(SAMPLES, "samples need a period > 0 ps, arrays, and at most as many flows as there are")                         \
    X(RECORDED,                                                                                                        \
        "what samples record must be 8 bytes at multiples of 8, of a record or of the env of a flow in samples")       \
    X(LINK_CAPACITY, "capacity must be finite and > 0 bit/s")                                                          \
    X(LINK_DELAY, "delay of a link must be from 0 to 1e18 ps")                                                         \
    X(LINK_BUFFER, "buffer must be >= 0 bytes, or -1 for unlimited, and >= 0 packets, 0 for unlimited")                \
    X(LINK_INTERVAL, "first interval must be below 4e18 ps")                                                           \
    X(QUEUES, "a link must have at most 65536 queues, with quanta from 1 to 2^30 bytes, and a scheduler that exists")  \
    X(ROUTER, "an additional router must be at a link that exists")                                                    \
    X(FLOW_ROUTE, "a route must name at least one link, and only links that exist")                                    \
    X(FLOW_DELAY, "delays of a flow must be from 0 to 1e18 ps")                                                        \
    X(FLOW_TIMES, "start must be from 0 to 4e18 ps, and stop later than start, or -1 for never")                       \
    X(FLOW_SIZE, "size must be > 0 bytes, or -1 for unlimited")                                                        \
    X(PACKET_SIZE, "packets and ACKs must be from 1 to 2^30 bytes")                                                    \
    X(ACKS, "ACKs must be sent every >= 0 packets and wait for them from 0 to 1e18 ps")                                \
    X(ECN, "ecn of a flow must be 0, 1, 2 or 3")                                                                       \
    X(TIMERS, "a flow must have from 0 to 4 timers")                                                                   \
    X(TRANSPORT,                                                                                                       \
        "transport must be from 0 to 3, its receiver window >= 0 bytes, its timeouts and granularity from 0 to 1e18 "  \
        "ps")                                                                                                          \
    X(TRIMMING,                                                                                                        \
        "a flow whose packets can be trimmed has none of 2^30 bytes, a trimmed size below that, and no transport")     \
    X(SPRAYING,                                                                                                        \
        "a flow may have up to 65535 other routes, taken in turn (0) or at random (1), and a reordering threshold "    \
        "from 0 to 255 packets; transfers have one route, and so have flows whose bytes in queues a router wants")     \
    X(WRITES, "an application must write > 0 bytes every > 0 to 1e18 ps, or 0 every 0: all at once")                   \
    X(PAUSE,                                                                                                           \
        "xoff, xon and headroom must be from 0 to 2^50 bytes, xon at most xoff, priorities from 0 to 7; a network "    \
        "with links that are paused is in one part")                                                                   \
    X(CHANGES,                                                                                                         \
        "changes of capacity must be finite and >= 0 bit/s, at growing times from 0 to below 4e18 ps, and there")      \
    X(IMPAIRMENT,                                                                                                      \
        "impairments are numbered from 1, and need probabilities from 0 to 1, spikes every 1 to 2^53 packets, "        \
        "delays from 0 to 1e18 ps, slots of >= 0 packets and bytes, and no upper end below the lower one")             \
    X(SERVER,                                                                                                          \
        "servers are numbered from 1, and need a rate >= 0 bit/s with a burst from 1 to 2^50 bytes, opportunities of " \
        "1 to 2^30 bytes at times from 0 ps on that do not decrease, the last of them > 0 ps, and slots as "           \
        "impairments have them")                                                                                       \
    X(UNDER_WAY,                                                                                                       \
        "packets under way must be in the order of their times, from -4e18 to 0 ps, and have places, each once, on "   \
        "the routes of flows that begin at 0 ps; such a network is in one part, and has one route a flow")             \
    X(RATE, "rate must be finite and >= 0 bit/s")                                                                      \
    X(WINDOW, "window must be finite and >= 0 bytes")                                                                  \
    X(TIMER, "timer must not be NaN s")                                                                                \
    X(CONTROL, "a control packet must have at most 2^30 bytes and a kind from 0 to 2^31 - 1")                          \
    X(QUEUE_INDEX, "queue index must be that of a queue of the link")                                                  \
    X(INTERVAL, "next interval must not be NaN s")                                                                     \
    X(TIMER_STUCK, "timer must be >= 5e-13 s, or negative for none, after 100 smaller ones in calls of on_timer")      \
    X(INTERVAL_STUCK, "next interval must be >= 5e-13 s, or 0 for none, after 100 consecutive smaller ones")           \
    X(HOOK_FAILED, "a hook failed")                                                                                    \
    X(RECORD_SIZE, "the record size of transfers must be a multiple of 8 bytes from 0 to 4096")                        \
    X(TRANSFER, "transfers must come in the order of their starts, none before the present, of templates that exist")  \
    X(SUBSEQUENT,                                                                                                      \
        "a transfer may be subsequent to one of finite size, added in the same call, of a template that enables it, "  \
        "and has no stop")                                                                                             \
    X(CHECKPOINT, "a checkpoint must be that of an engine of the same make, configuration and part, and whole")        \
    X(PARTITION,                                                                                                       \
        "a network may be cut into at most 1024 parts, numbered from 0, where there is a delay; "                      \
        "receivers with on_receive, or without events of their own, are with their senders, and others that have "     \
        "reverse links with the first of these; of transfers both are with the first links")                           \
    X(CROSSING, "what enters a part must be whole, and a packet that this part awaits, in time and in order")          \
    X(FRAMES,                                                                                                          \
        "frames need flows, at most 2^23 and no transfers, with formats whose fields are words of their headers, "     \
        "each once, "                                                                                                  \
        "an MTU from 1 to 65535 bytes, at most 2048 bytes of headers, and no marks where a header is in the ECN bits") \
    X(UNTIL, "the time to advance to must be from 0 to 4e18 ps")                                                       \
    X(DEADLOCK, "links must not be paused forever, each with packets that wait for another of them (PFC deadlock)")    \
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
