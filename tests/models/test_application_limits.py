"""Rules for windows that the application or the receiver leaves unused: examples of the texts, losses, and decay."""

from types import SimpleNamespace

import pytest

import ecc
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.models import BIC, CUBIC, Compound, NewReno
from ecc.models.shared import windows
from ecc.models.shared.application_limits import APPLICATION_LIMITS, always, by_rfc9002
from ecc.network.impairments import RandomLoss

S = 1000  # bytes
RULES = [rule for rule in APPLICATION_LIMITS if rule != "flight"]


def host(kind, rule, **options):
    restart = {"restart": "rfc7661"} if rule == "rfc7661" else {}
    return kind(application_limited=rule, **{**restart, **options})


def simulated(protocol, duration, record=("env.window",), engine="python", sample=0.01, **flow):
    path = ecc.Network([ecc.Link("100 Mb/s", "25 ms")], [ecc.Flow([0], packet_size=S, **flow)])
    return ecc.packet.simulate(ecc.Scenario(path, protocol, duration), sample=sample, record=record, engine=engine)


def last_window(run):
    return float(run["env.window"][-1, 0]) / S


@pytest.mark.parametrize(
    ("rule", "window"),
    [("none", 24.0), ("ratelimited", 20.0), ("linux", 20.0), ("rfc7661", 21.0), ("flight", 14.0), ("rfc9002", 11.0)],
)
def test_ten_packets_a_pause_and_four(rule, window):
    """The example of draft-ietf-ccwg-ratelimited-increase: an initial window of 10 packets, in slow start.

    Ten packets an RTT validate 20, but not 21 (RFC 7661). Rules that look at the flight of each ACK see it decrease:
    with k ACKs, 10 - k packets fill half of 10 + k for k <= 3, and all of it for k = 0 only.
    """
    protocol = host(NewReno, rule, initial=10)
    run = simulated(protocol, 0.6, size=14 * S, writes=(10 * S, 0.3))
    assert run.flows["delivered"][0] == 14 * S
    assert last_window(run) == window


@pytest.mark.parametrize(
    "kind", [NewReno, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (CUBIC, BIC, Compound))]
)
@pytest.mark.parametrize("rule", RULES)
def test_the_twin_has_the_same_events(kind, rule):
    """A loss, idle periods and bursts."""
    path = ecc.Network([ecc.Link("20 Mb/s", "20 ms", buffer="100 kB")], [ecc.Flow([0], writes=("200 kB", "1.5 s"))])
    scenario = ecc.Scenario(path, host(kind, rule), 4.0, impairments=[RandomLoss(0.01, link=0)], seed=1)
    c, twin = (ecc.packet.simulate(scenario, engine=engine).stats["digest"] for engine in ("c", "python"))
    assert c == twin


@pytest.mark.parametrize("rule", APPLICATION_LIMITS)
def test_bulk_flows_are_not_affected(rule):
    """A full window fills its flow, by any rule, until the loss that ends slow start."""
    path = ecc.Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer="125 kB")
    windows_of = [
        ecc.packet.simulate(ecc.Scenario(path, protocol, 0.4), record=["env.window"])["env.window"]
        for protocol in (host(NewReno, rule), NewReno())
    ]
    assert windows_of[0].equals(windows_of[1])


def env_of(**values):
    names = {
        "now": 1.0,
        "packet_size": S,
        "srtt": 0.1,
        "rtt": 0.1,
        "acked": S,
        "recovering": 0,
        "recovered": 0,
        "undone": 0,
        "ece": 0,
        "marked": 0,
        "kind": 0,
        "limited_by": windows.BY_DATA,
        "delivered": 0,
        "in_flight": 0,
        "lost": 0,
        "transport": 0,
    }
    return SimpleNamespace(**{"transport": 0, **names, **values})


def test_rfc_9002_counts_the_pacer_as_the_window():
    flow = NewReno.FlowState()
    assert by_rfc9002(flow, env_of(window=30.0 * S, in_flight=3 * S, limited_by=windows.BY_PACER))
    assert not by_rfc9002(flow, env_of(window=30.0 * S, in_flight=20 * S))  # not in slow start either
    assert by_rfc9002(flow, env_of(window=30.0 * S, in_flight=29 * S))
    assert always(flow, env_of())


class Paced(NewReno):
    """A host that its pacer limits to 4 Mb/s, 25 packets per RTT."""

    def flow_hooks(self):
        return {**super().flow_hooks(), "on_start": begin_paced}


def begin_paced(flow, header, p, env):
    windows.flow_on_start(flow, header, p, env)
    env.rate = 4e6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "grows"), [("rfc9002", True), ("none", True), ("linux", False), ("ratelimited", False)]
)
def test_a_pacer_below_the_window(rule, grows):
    """Bulk data, and a flight that never reaches the window: RFC 9002 counts the pacer, so the window grows on."""
    run = simulated(host(Paced, rule, initial=10), 3.0, engine="c")
    assert (last_window(run) > 100.0) == grows
    assert grows or last_window(run) <= 2.0 * 26.0


@pytest.mark.parametrize(
    ("rule", "window"), [("rfc9002", 12.0), ("linux", 12.0), ("ratelimited", 24.0), ("none", 42.0)]
)
def test_three_packets_after_idle_times(rule, window):
    """A paced host with a window of 12 writes 3 packets ten times: RFC 9002 forbids growth, the draft allows 24."""
    run = simulated(host(Paced, rule, initial=12, restart="none"), 3.0, size=30 * S, writes=(3 * S, 0.25))
    assert last_window(run) == window


# ---- rate-limited increase -------------------------------------------------------------------------------------------


def rate_limited(kind=NewReno, **state):
    protocol = host(kind, "ratelimited")
    flow = protocol.flow_record()
    for name, value in state.items():
        setattr(flow, name, value)
    return flow_hooks_of(protocol), flow, protocol.namespace()


def test_in_avoidance_a_window_ends_a_packet_above_the_largest_flight():
    hooks, flow, p = rate_limited(ssthresh=10.0 * S, max_flight=0.0, last_window=40.0 * S)
    env = env_of(window=40.0 * S, in_flight=38 * S)
    for _ in range(200):
        hooks["on_ack"](flow, None, p, env)
    assert env.window == 40.0 * S  # never reduced
    env.window = flow.last_window = 30.0 * S
    flow.max_flight = 39.0 * S
    env.in_flight = 4 * S
    for _ in range(2000):
        hooks["on_ack"](flow, None, p, env)
    assert env.window == pytest.approx(40.0 * S, abs=1.0)


def test_the_largest_flight_is_forgotten_at_a_reduction():
    hooks, flow, p = rate_limited()
    env = env_of(window=50.0 * S, in_flight=49 * S)
    hooks["on_ack"](flow, None, p, env)
    assert flow.max_flight == 50.0 * S
    env.acked, env.in_flight = 0, 50 * S
    hooks["on_loss"](flow, None, p, env)
    env.acked, env.in_flight = S, 7 * S
    hooks["on_ack"](flow, None, p, env)
    assert flow.max_flight == 8.0 * S and env.window == pytest.approx(25.0 * S)


@pytest.mark.slow
def test_frames_keep_the_window_at_the_limit_of_the_largest_flight():
    """Thirty frames a second, half of the capacity."""
    frame = int(50e6 / 30.0 / 8.0)
    run = simulated(host(CUBIC, "ratelimited"), 6.0, ("env.window", "flow.max_flight"), "c", writes=(frame, 1.0 / 30.0))
    largest = float(run["flow.max_flight"].max())
    assert run["env.window"].max() == pytest.approx(2.0 * largest, rel=0.01)
    unlimited = simulated(host(CUBIC, "none"), 6.0, engine="c", writes=(frame, 1.0 / 30.0))
    assert unlimited["env.window"].max() > 5.0 * run["env.window"].max()


# ---- RFC 7661 --------------------------------------------------------------------------------------------------------


def validating(kind=NewReno, options=None, **state):
    protocol = host(kind, "rfc7661", **(options or {}))
    flow = protocol.flow_record()
    flow.pipe_samples, flow.pipe_times = [0.0] * 3, [0.0] * 3
    for name, value in state.items():
        setattr(flow, name, value)
    return flow_hooks_of(protocol), flow, protocol.namespace()


def test_pipe_ack_is_the_maximum_that_an_rtt_acknowledges():
    """Bursts of 10 and 4 packets: the larger one counts for 1 s, as 3 RTTs are shorter."""
    hooks, flow, p = validating()
    env = env_of(window=100.0 * S, now=0.0)

    def burst(at, packets):
        env.now = at
        for k in range(packets):
            env.delivered += S
            env.in_flight = (packets - 1 - k) * S
            hooks["on_ack"](flow, None, p, env)

    assert flow.pipe_ack < 0.0
    burst(1.0, 10)
    assert flow.pipe_ack == 10.0 * S
    for at in (1.3, 1.6, 1.9):
        burst(at, 4)
        assert flow.pipe_ack == 10.0 * S
    burst(2.2, 4)
    assert flow.pipe_ack == 4.0 * S


def test_a_window_grows_if_half_of_it_is_used_or_if_it_is_full():
    for pipe, limit, grows in ((10.0, windows.BY_DATA, True), (9.9, windows.BY_DATA, False), (2.0, 1, True)):
        hooks, flow, p = validating(pipe_ack=pipe * S, sample_end=10**9)
        env = env_of(window=20.0 * S, limited_by=limit, delivered=5 * S)
        hooks["on_ack"](flow, None, p, env)
        assert (env.window > 20.0 * S) == grows


@pytest.mark.parametrize(("pipe", "flight", "window"), [(30.0, 20.0, 15.0), (10.0, 40.0, 20.0), (2.0, 1.0, 2.0)])
def test_a_loss_halves_what_the_path_is_known_to_hold(pipe, flight, window):
    """Of a window of 100 packets that is not validated; then the retransmitted packets are taken from it."""
    hooks, flow, p = validating(pipe_ack=pipe * S, sample_end=10**9)
    env = env_of(window=100.0 * S, in_flight=int(flight * S), acked=0, recovering=1)
    hooks["on_loss"](flow, None, p, env)
    assert env.window == window * S == flow.ssthresh
    for kind in (1, 0, 1):
        env.kind = kind
        hooks["on_send"](flow, None, p, env)
    env.kind, env.recovering, env.recovered, env.acked = 0, 0, 1, S
    hooks["on_ack"](flow, None, p, env)
    base = max(pipe, flight)
    assert env.window == pytest.approx(max(window * (base - 2.0) / base, 2.0) * S)
    assert flow.ssthresh == env.window and flow.loss_base == 0.0


@pytest.mark.parametrize("options", [{}, {"version": "linux"}, {"transport": "quic"}])
@pytest.mark.parametrize("flight", [20, 60])
def test_cubic_keeps_its_own_share(options, flight):
    """Its version for Linux and QUIC's rule reduce the window, and not the data in flight."""
    hooks, flow, p = validating(CUBIC, options, pipe_ack=30.0 * S, sample_end=10**9)
    transport = windows.QUIC if options.get("transport") == "quic" else 0
    env = env_of(window=100.0 * S, in_flight=flight * S, acked=0, recovering=1, transport=transport)
    hooks["on_loss"](flow, None, p, env)
    assert env.window == pytest.approx(0.7 * max(30, flight) * S)


def test_a_validated_window_responds_as_usual():
    hooks, flow, p = validating(pipe_ack=60.0 * S, sample_end=10**9)
    env = env_of(window=100.0 * S, in_flight=80 * S, acked=0, recovering=1)
    hooks["on_loss"](flow, None, p, env)
    assert env.window == 40.0 * S and flow.loss_base == 0.0 and flow.pipe_ack < 0.0


def test_unused_windows_halve_each_five_minutes():
    """Down to the initial window; the threshold is 3/4 of the window before."""
    hooks, flow, p = validating(pipe_ack=1.0 * S, sample_end=10**9, ssthresh=20.0 * S, validated_at=10.0)
    env = env_of(window=100.0 * S)
    for now, window in ((310.0, 100.0), (310.1, 50.0), (600.0, 50.0), (620.0, 25.0), (5000.0, 4.0)):
        env.now = now
        hooks["on_ack"](flow, None, p, env)
        assert env.window == window * S
    assert flow.ssthresh == 75.0 * S


def test_idle_periods_count_as_unused():
    for idle, window in ((299.0, 100.0), (300.0, 50.0), (700.0, 25.0), (1e5, 4.0)):
        hooks, flow, p = validating(pipe_ack=50.0 * S, ssthresh=20.0 * S, validated_at=100.0)
        env = env_of(window=100.0 * S, idle=idle, rto=1.0, now=100.0 + idle)
        hooks["on_restart"](flow, None, p, env)
        assert env.window == window * S
        assert env.now - flow.validated_at < windows.NON_VALIDATED_PERIOD


def test_a_flow_resumes_after_idle_minutes():
    run = simulated(host(NewReno, "rfc7661"), 400.2, writes=("600 kB", "400 s"), engine="c", sample=0.1)
    window = run["env.window"][:, 0] / S
    before = float(window.sel(time=399.9, method="nearest"))
    assert float(window.sel(time=400.0, method="nearest")) in (before, 0.5 * before)
    assert window[-1] > 0.45 * before


def test_rfc_7661_needs_its_restart():
    with pytest.raises(ValueError, match="restart must be 'rfc7661' with application_limited 'rfc7661'"):
        NewReno(application_limited="rfc7661")
    with pytest.raises(ValueError, match="application_limited must be one of 'flight', 'linux'"):
        NewReno(application_limited="rfc2861")


def test_a_restart_may_decay_without_the_rule():
    flow, p = NewReno.FlowState(ssthresh=20.0 * S), NewReno(restart="rfc7661").namespace()
    for idle, window in ((5.0, 100.0), (301.0, 50.0), (901.0, 12.5), (1e6, 4.0)):
        env = SimpleNamespace(packet_size=S, idle=idle, rto=1.0)
        assert windows.restart_window(100.0 * S, flow, p, env) == window * S
    assert windows.restart_window(2.0 * S, flow, p, env) == 2.0 * S
