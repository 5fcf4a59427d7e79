/*
 * Nodes on real frames, for sanitizers above all: a sender, a router and a receiver whose ports are all on the loopback
 * device of a namespace of its own, so that each hears the frames of all others, and those of a stranger. Exit code 77
 * where namespaces are forbidden: skipped.
 */

#define _GNU_SOURCE

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "wire/live.h"

#define MS INT64_C(1000000000)
#define SECOND INT64_C(1000000000000)
#define SIZE 100000
#define N_NODES 3
#define N_PORTS 6
#define SKIPPED 77

static const int64_t pairs[N_PORTS / 2][2] = { { 0, 1 }, { 1, 2 }, { 2, 0 } };

static int
open_socket(void)
{
    struct sockaddr_ll where = { .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE_IP) };
    int fd = socket(AF_PACKET, SOCK_RAW, 0);

    CHECK(fd >= 0);
    where.sll_ifindex = (int) if_nametoindex("lo");
    CHECK_EQUAL(bind(fd, (const struct sockaddr *) &where, sizeof(where)), 0);
    return fd;
}

/* Whether this process now is alone on a loopback device that is up. */
static bool
enter_namespace(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd;

    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return false;
    }
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    request.ifr_flags = IFF_UP;
    CHECK_EQUAL(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    CHECK_EQUAL(close(fd), 0);
    return true;
}

static ecc_engine_t *
new_engine(int64_t part)
{
    static const ecc_impairment_t nothing = { 0 };
    const int64_t parts[N_NODES] = { 0, 1, 2 };
    const int64_t route = 0;
    const ecc_link_t link = { .capacity = 1e7, .delay = 2 * MS, .buffer = 20000, .first_interval = -1 };
    const ecc_flow_t flow = { .window = 10000.0,
        .stop = -1,
        .size = SIZE,
        .packet_size = 1000,
        .ack_size = 40,
        .access_delay = MS,
        .ack_delay = 3 * MS,
        .impairment = 1,
        .n_forward = 1,
        .bottleneck = -1,
        .transport = ECC_TRANSPORT_SACK,
        .min_rto = SECOND };
    ecc_config_t config = { .n_links = 1,
        .n_flows = 1,
        .n_routes = 1,
        .links = &link,
        .flows = &flow,
        .routes = &route,
        .n_impairments = 1,
        .impairments = &nothing,
        .partition
        = { .n_parts = N_NODES, .part = part, .links = &parts[1], .senders = &parts[0], .receivers = &parts[2] } };
    ecc_engine_t *engine;
    ecc_report_t report;

    CHECK_EQUAL(ecc_engine_new(&config, &engine, &report), 0);
    return engine;
}

static ecc_frames_t *
new_frames(const ecc_engine_t *engine)
{
    static const ecc_frame_format_t format = { .place = ECC_FRAME_ABOVE, .is_tcp = 1 };
    static const int64_t format_of = 0;
    ecc_frames_config_t config
        = { .n_formats = 1, .formats = &format, .format_of = &format_of, .mtu = 1500, .exact = 1, .key = "a token" };
    ecc_frames_t *frames;

    CHECK_EQUAL(ecc_frames_new(engine, &config, &frames), 0);
    return frames;
}

/* Bytes that nobody sent, and a frame of ours with a bit that is another one. */
static void
disturb(int fd, uint64_t *state, const unsigned char *addresses)
{
    unsigned char frame[200] = { 0 };

    for (size_t i = 0; i < sizeof(frame); i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        frame[i] = (unsigned char) (*state >> 56);
    }
    memcpy(frame, addresses, 12);
    memcpy(frame + 12, "\x08\x00\x45\x00", 4);
    CHECK(send(fd, frame, 20 + (*state >> 40) % 180, 0) > 0);
}

static void
run(int64_t longest_step, bool disturbed)
{
    ecc_live_port_t ports[N_PORTS] = { 0 };
    ecc_frame_port_t of_frames[N_PORTS] = { 0 };
    ecc_engine_t *engines[N_NODES];
    ecc_frames_t *frames[N_NODES];
    ecc_live_config_t config = { .n_nodes = N_NODES,
        .engines = engines,
        .frames = frames,
        .n_ports = N_PORTS,
        .ports = ports,
        .slow = 1.0,
        .longest_step = longest_step };
    ecc_flow_result_t sender;
    ecc_live_stats_t stats;
    ecc_live_t *live;
    uint64_t state = 1;
    int stop = ECC_STOP_MAX_EVENTS;
    int stranger = open_socket();
    int64_t n_taken = 0;
    int64_t n_sent = 0;

    for (int64_t i = 0; i < N_NODES; i++) {
        engines[i] = new_engine(i);
        frames[i] = new_frames(engines[i]);
    }
    for (int64_t i = 0; i < N_PORTS; i++) {
        ports[i] = (ecc_live_port_t) { .socket = open_socket(),
            .node = pairs[i / 2][i % 2],
            .peer = pairs[i / 2][1 - i % 2],
            .frames = &of_frames[i] };
        of_frames[i].own[0] = 2;
        of_frames[i].peer[0] = 2;
        of_frames[i].own[5] = (unsigned char) i;
        of_frames[i].peer[5] = (unsigned char) (i ^ 1);
    }
    CHECK_EQUAL(ecc_live_new(&config, &live), 0);
    while (stop == ECC_STOP_MAX_EVENTS) {
        if (disturbed) {
            unsigned char addresses[12];
            memcpy(addresses, of_frames[state % N_PORTS].own, 6);
            memcpy(addresses + 6, of_frames[state % N_PORTS].peer, 6);
            disturb(stranger, &state, addresses);
        }
        stop = ecc_live_advance(live, SECOND / 2, MS / 1000);
    }
    CHECK_EQUAL(stop, ECC_STOP_UNTIL);
    CHECK_EQUAL(ecc_live_settle(live), 0);
    ecc_live_stats(live, &stats);
    ecc_engine_flow_results(engines[0], &sender);
    CHECK_EQUAL(sender.completed, 1);
    CHECK_EQUAL(sender.delivered, SIZE);
    for (int64_t i = 0; i < N_PORTS; i++) {
        n_sent += ports[i].sent;
        n_taken += of_frames[i].verdicts[ECC_FRAME_TAKEN];
        CHECK_EQUAL(ports[i].refused, 0);
        CHECK_EQUAL(ports[i].not_sent, 0);
    }
    CHECK_EQUAL(n_taken, n_sent);
    CHECK(n_sent >= 3 * SIZE / 1000 && stats.now == SECOND / 2 && stats.latest > 0 && stats.frozen <= stats.elapsed);
    CHECK(longest_step > 0 || stats.frozen == 0);
    ecc_live_free(live);
    for (int64_t i = 0; i < N_PORTS; i++) {
        CHECK_EQUAL(close((int) ports[i].socket), 0);
    }
    for (int64_t i = 0; i < N_NODES; i++) {
        ecc_frames_free(frames[i]);
        ecc_engine_free(engines[i]);
    }
    CHECK_EQUAL(close(stranger), 0);
}

/* What no live run can be made of. */
static void
test_refusals(void)
{
    ecc_engine_t *engine = new_engine(0);
    ecc_frames_t *frames = new_frames(engine);
    ecc_live_port_t port = { .socket = STDIN_FILENO };
    ecc_frame_port_t of_frames = { .own = { 2 } };
    ecc_live_config_t config = { .n_nodes = 1, .engines = &engine, .frames = &frames, .slow = 1.0 };
    ecc_live_t *live;

    CHECK_EQUAL(ecc_live_new(&config, &live), 0); /* a part of three: the others are on other machines */
    ecc_live_free(live);
    config.slow = 0.0;
    CHECK(ecc_live_new(&config, &live) < 0 && live == NULL);
    ecc_live_free(live);
    ecc_frames_free(frames);
    ecc_engine_free(engine);
    {
        ecc_engine_t *engines[N_NODES];
        ecc_frames_t *all[N_NODES];
        for (int64_t i = 0; i < N_NODES; i++) {
            engines[i] = new_engine(i);
            all[i] = new_frames(engines[i]);
        }
        port.frames = &of_frames;
        config = (ecc_live_config_t) {
            .n_nodes = N_NODES, .engines = engines, .frames = all, .n_ports = 1, .ports = &port, .slow = 1.0
        };
        CHECK(ecc_live_new(&config, &live) < -1000 && live == NULL); /* no packet socket */
        port.peer = N_NODES;
        CHECK(ecc_live_new(&config, &live) < 0 && live == NULL);
        for (int64_t i = 0; i < N_NODES; i++) {
            ecc_frames_free(all[i]);
            ecc_engine_free(engines[i]);
        }
    }
}

int
main(void)
{
    test_refusals();
    if (!enter_namespace()) {
        return SKIPPED;
    }
    run(20000, false);
    run(20000, true);
    return 0;
}
