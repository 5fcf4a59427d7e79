"""The binding of the packet engine: what goes in, what comes out, and every error in one line."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from waiting import HANG

from ecc.errors import NativeError
from ecc.native import (
    CHANGE,
    DELAY_CHANGE,
    EVENT,
    FLOW,
    FLOW_ENV,
    FLOW_HOOKS,
    IMPAIRMENT,
    LINK,
    LINK_ENV,
    LINK_HOOKS,
    WRITE,
    Engine,
    addresses,
    new_flows,
    new_links,
    picoseconds,
)

HOOK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
STATE = np.dtype([("seen", "f8"), ("bottleneck", "i8")])


def setup(n_flows=2, rate=1e6):
    """One link of 10 Mb/s and 5 ms, n flows of the given rate and an RTT of 10 ms."""
    links = new_links(1)
    links["capacity"] = 1e7
    links["delay"] = picoseconds(0.005)
    flows = new_flows(n_flows)
    flows["rate"] = rate
    flows["n_forward"] = 1
    flows["ack_delay"] = picoseconds(0.005)
    return links, flows, np.zeros(n_flows, int)


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def record_at(pointer, dtype):
    return np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(pointer), dtype)


def test_packets_that_a_window_lets_go_count_in_a_slice():
    """A window without end lets go 65,536 packets an event (S-53): such an event is the last of its slice."""
    links, flows, routes = setup(1, rate=0.0)
    links["buffer"] = 3000  # all but two are dropped at once
    flows["window"] = 1e17
    run = Engine(links, flows, routes)
    assert run.advance(1.0, max_events=20) == "max_events"
    sent = int(run.flow_results["sent"][0])
    assert 65_536 * 1000 <= sent <= 2 * 65_536 * 1000
    assert run.advance(1.0, max_events=20) == "max_events" and run.stats.now == 0.0


def test_environments_are_read_from_the_header():
    assert LINK_ENV.names == (
        "now",
        "capacity",
        "buffer",
        "queue",
        "backlog",
        "queue_index",
        "queue_low",
        "packet_size",
        "kind",
        "flow",
        "link",
        "flow_queue",
        "sojourn",
        "random",
        "ecn",
        "drop",
        "mark",
        "trim",
        "next_interval",
        "wait",
        "filter",
    )
    assert FLOW_ENV.names == (
        "now",
        "packet_size",
        "rtt",
        "srtt",
        "min_rtt",
        "in_flight",
        "delivered",
        "lost",
        "rate",
        "window",
        "timer",
        "kind",
        "flow",
        "random",
        "size",
        "unsent",
        "header_bytes",
        "acked",
        "recovering",
        "recovered",
        "undone",
        "marked",
        "ece",
        "timer_1",
        "timer_2",
        "timer_3",
        "counter",
        "control_size",
        "control_kind",
        "limited_by",
        "idle",
        "rto",
        "transport",
    )
    assert LINK_HOOKS == (
        "on_start",
        "on_classify",
        "on_arrival",
        "on_select",
        "on_dequeue",
        "on_departure",
        "on_drop",
        "on_interval",
    )
    assert FLOW_HOOKS == (
        "on_start",
        "on_send",
        "on_receive",
        "on_ack",
        "on_loss",
        "on_timer",
        "on_stop",
        "on_count",
        "on_control",
        "on_restart",
        "on_report",
    )
    for dtype in (LINK_ENV, FLOW_ENV, LINK, EVENT):
        assert all(dtype[name].itemsize == 8 for name in dtype.names)
    for dtype in (LINK_ENV, FLOW_ENV, LINK, FLOW, EVENT):
        assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)  # without gaps


def test_picoseconds_rounds_to_the_nearest():
    assert picoseconds([0.0, 1e-12, 2.4e-12, 2.6e-12, 1.5]).tolist() == [0, 1, 2, 3, 1_500_000_000_000]


def test_a_run_with_no_hooks():
    run = Engine(*setup(), sample=0.1, n_samples=10, trace=5)
    assert run.stats.stop == "not yet"
    assert run.advance(0.55) == "until"
    assert run.stats.samples == 5
    assert run.advance(2.0, max_events=3) == "max_events"
    assert run.advance(2.0) == "until"
    run.verify()
    samples = run.samples
    assert samples["time"] == pytest.approx(np.arange(1, 11) / 10)
    # 1000 bytes each 8 ms: 12 or 13 packets in 0.1 s, the first at 0
    assert samples["sent"].shape == (10, 2)
    assert samples["sent"].sum(axis=0).tolist() == [126000, 126000]
    assert samples["arrived"][:, 0].tolist() == samples["sent"].sum(axis=1).tolist()
    assert samples["received"].sum() == 2 * 125000  # the two of t = 1.0 s are still on their way
    assert (samples["bottleneck"] == -1).all()
    assert (samples["queue_peak"] >= samples["queue"]).all() and samples["queue_peak"].max() == 2000
    assert run.trace["kind"].tolist() == [6, 4, 6, 4, 4]  # START and the first SEND of each, then a SEND
    assert run.trace["time"].tolist() == [0, 0, 0, 0, 8_000_000_000]
    assert run.trace["entity"].tolist() == [0, 0, 1, 1, 0]
    stats = run.stats
    assert stats.now == 2.0 and stats.trace == stats.events > 900 and stats.peak_bytes >= stats.bytes > 0
    assert stats.data_packets * 1000 == run.flow_results["received"].sum()
    assert run.link_results["arrived"][0] == run.flow_results["sent"].sum()


def test_cpu_time_is_that_of_the_thread_in_the_engine(monkeypatch):
    run = Engine(*setup())
    clock = iter([1.0, 3.5, 10.0, 10.25])
    monkeypatch.setattr("ecc.native.engine.time.thread_time", lambda: next(clock))
    for until in (0.5, 1.0):
        run.advance(until)
    assert run.stats.cpu_seconds == 2.75


def test_same_input_same_digest_and_another_input_another():
    def digest(**changes):
        links, flows, routes = setup()
        for name, value in changes.items():
            flows[name] = value
        run = Engine(links, flows, routes)
        run.advance(1.0)
        return run.stats.digest

    assert digest() == digest()
    assert digest() != digest(packet_size=1001)


def test_hooks_see_records_by_address():
    links, flows, routes = setup(n_flows=3)
    states = np.zeros(3, STATE)
    params = np.array([(2.0,)], [("gain", "f8")])

    @HOOK
    def on_ack(state, header, params, env):
        seen = record_at(env, FLOW_ENV)
        mine = record_at(state, STATE)
        mine["seen"] += record_at(params, np.dtype([("gain", "f8")]))["gain"]
        mine["bottleneck"] = seen["flow"]
        return 0

    flows["state"] = addresses(states)
    flows["params"] = params.ctypes.data
    flows["on_ack"] = address_of(on_ack)
    flows["bottleneck"] = STATE.fields["bottleneck"][1]
    run = Engine(links, flows, routes, sample=0.5, n_samples=2, n_sampled=2, keep=(on_ack, states, params))
    run.advance(1.0)
    acked = run.flow_results["delivered"] // 1000
    assert states["seen"].tolist() == (2.0 * acked).tolist() and acked.min() > 100
    assert run.samples["bottleneck"].tolist() == [[0, 1], [0, 1]]


def test_a_failing_hook_is_named_with_place_and_time():
    links, flows, routes = setup()
    fail = HOOK(lambda state, header, params, env: 7)
    flows["on_ack"][1] = address_of(fail)
    run = Engine(links, flows, routes, keep=(fail,))
    message = r"^a hook failed, got 7 \(flow 1, on_ack, t = 0.0116 s\)$"
    with pytest.raises(NativeError, match=message) as caught:
        run.advance(1.0)
    assert caught.value.code < 0
    assert run.stats.stop == "error"
    with pytest.raises(NativeError, match=message):
        run.advance(2.0)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rate", -1.0, r"rate must be finite and >= 0 bit/s, got -1 \(flow 0\)"),
        ("rate", np.nan, r"rate must be finite and >= 0 bit/s, got nan \(flow 0\)"),
        ("window", np.inf, r"window must be finite and >= 0 bytes, got inf \(flow 0\)"),
        ("start", -1, r"start must be from 0 to 4e18 ps, and stop later than start, .*, got -1 \(flow 0\)"),
        ("size", 0, r"size must be > 0 bytes, or -1 for unlimited, got 0 \(flow 0\)"),
        ("packet_size", 0, r"packets and ACKs must be from 1 to 2\^30 bytes, got 0 \(flow 0\)"),
        ("packet_size_max", 7, r"packets and ACKs must be from 1 to 2\^30 bytes, got 7 \(flow 0\)"),
        ("ack_every", -1, r"packets per ACK must be >= 0, and the maximum wait .*, got -1 \(flow 0\)"),
        ("ack_wait", -7, r"packets per ACK must be >= 0, .* delayed ACK from 0 to 1e18 ps, got -7 \(flow 0\)"),
        ("impairment", 1, r"impairments must be numbered from 1, with .*, got 1 \(flow 0\)"),
        (
            "n_writes",
            1,
            r"write size and write period must be .* totals that increase to 2\^62 bytes, got 1 \(flow 0\)",
        ),
        ("first_write", -1, r"write size and write period must be .*, got 0 \(flow 0\)"),
        ("access_delay", -5, r"delays of a flow must be from 0 to 1e18 ps, got -5 \(flow 0\)"),
        ("trimmed_size", -1, r"a flow with a trimmed size must have .* below 2\^30 bytes, got -1 \(flow 0\)"),
        (
            "reordering_threshold",
            256,
            r"a flow may have up to 65535 alternative routes, taken in turn .* got 256 \(flow 0\)",
        ),
        ("n_forward", 0, r"a route must name at least one link, and only links that exist, got 0 \(flow 0\)"),
    ],
)
def test_bad_flows_are_refused(field, value, message):
    links, flows, routes = setup()
    flows[field][0] = value
    with pytest.raises(NativeError, match=f"^{message}$"):
        Engine(links, flows, routes)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("capacity", 0.0, r"capacity must be finite and > 0 bit/s, got 0 \(link 0\)"),
        ("delay", -1, r"delay of a link must be from 0 to 1e18 ps, got -1 \(link 0\)"),
        ("buffer", -2, r"buffer must be >= 0 bytes, or -1 for unlimited, and .*, got -2 \(link 0\)"),
        ("buffer_packets", -3, r"buffer must be .* and >= 0 packets, 0 for unlimited, got -3 \(link 0\)"),
        ("impairment", -1, r"impairments must be numbered from 1, with .*, got -1 \(link 0\)"),
        ("xoff", -1, r"xoff, xon and headroom must be from 0 to 2\^50 bytes, xon at most .*, got -1 \(link 0\)"),
        ("n_changes", 1, r"changes of capacity must be in the array .* below 4e18 ps, got 1 \(link 0\)"),
        ("first_interval", 2**62, r"first interval must be below 4e18 ps, got 4.61168601843e\+18 \(link 0\)"),
    ],
)
def test_bad_links_are_refused(field, value, message):
    links, flows, routes = setup()
    links[field][0] = value
    with pytest.raises(NativeError, match=f"^{message}$"):
        Engine(links, flows, routes)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("data_loss", 1.5),
        ("ack_loss", np.nan),
        ("spike_lo", -1),
        ("spike_hi", 2 * 10**18),
        ("spike_between", -1),
        ("jitter_lo", 5),
        ("spike_every_hi", 3),
        ("jitter_law", 3),
        ("jitter_scale", np.nan),
        ("jitter_spread", -1.0),
        ("burst_kinds", 1),
        ("burst_ends", 1.5),
        ("first_delay", 1),
        ("n_delays", 1),
    ],
)
def test_bad_impairments_are_refused(field, value):
    links, flows, routes = setup()
    impairments = np.zeros(2, IMPAIRMENT)
    impairments[field][1] = value
    with pytest.raises(NativeError, match="^impairments must be numbered from 1, with .*, got 2$"):
        Engine(links, flows, routes, impairments=impairments)


@pytest.mark.parametrize("bad", [(5, 20), (7, 10), (7, 2**62 + 1), (4 * 10**18, 20), (-1, 20)])
def test_bad_writes_are_refused(bad):
    links, flows, routes = setup()
    flows["n_writes"] = 2
    writes = np.array([(5, 10), bad], WRITE)
    with pytest.raises(NativeError, match=r"^write size and write period must be .*, got 2 \(flow 0\)$"):
        Engine(links, flows, routes, writes=writes)


@pytest.mark.parametrize("bad", [(5, 1), (7, -1), (7, 2 * 10**18), (4 * 10**18, 1), (-1, 1)])
def test_bad_changes_of_delays_are_refused(bad):
    links, flows, routes = setup()
    impairments = np.zeros(1, IMPAIRMENT)
    impairments["n_delays"] = 2
    changes = np.array([(5, 1), bad], DELAY_CHANGE)
    with pytest.raises(NativeError, match="^impairments must be .* at increasing times, .*, got 1$"):
        Engine(links, flows, routes, impairments=impairments, delay_changes=changes)


@pytest.mark.parametrize("bad", [(5, 1e6), (7, -1e6), (7, np.inf), (4 * 10**18, 1e6)])
def test_bad_changes_are_refused(bad):
    links, flows, routes = setup()
    links["n_changes"] = 2
    with pytest.raises(NativeError, match=r"^changes of capacity must be .*, at increasing times .* \(link 0\)$"):
        Engine(links, flows, routes, changes=np.array([(5, 1e6), bad], CHANGE))


def test_bad_calls_are_refused():
    links, flows, routes = setup()
    with pytest.raises(NativeError, match="only links that exist, got 1"):
        Engine(links, flows, routes + 1)
    with pytest.raises(NativeError, match="header size must be a multiple of 8 bytes from 0 to 4096, got 12"):
        Engine(links, flows, routes, header_size=12)
    with pytest.raises(NativeError, match="samples must have a period > 0 ps"):
        Engine(links, flows, routes, n_samples=3)
    with pytest.raises(NativeError, match="the time to advance to must be from 0 to 4e18 ps, got -1e"):
        Engine(links, flows, routes).advance(-1.0)
    with pytest.raises(TypeError, match="flows must be an array of records, got array"):
        Engine(links, np.zeros(2), routes)
    with pytest.raises(ValueError, match=r"records must be one-dimensional and contiguous, got shape \(2,\)"):
        addresses(np.zeros(4, STATE)[::2])


def test_other_threads_run_while_the_engine_does():
    links, flows, routes = setup(rate=4e6)
    ticks = 0
    done = threading.Event()
    entered = threading.Event()
    release = threading.Event()

    @HOOK
    def wait(state, header, params, env):  # blocks inside the engine until the main thread says so
        entered.set()
        return 0 if release.wait(HANG) else 1

    flows["on_start"][0] = address_of(wait)
    run = Engine(links, flows, routes, keep=(wait,))

    def work():
        run.advance(0.1)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(HANG)
    other = Engine(*setup())
    while ticks < 10:
        other.advance(0.1 * (ticks + 1))
        ticks += 1
    assert not done.is_set()
    release.set()
    thread.join(HANG)
    assert done.is_set() and run.stats.stop == "until"
