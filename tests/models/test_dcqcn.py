"""DCQCN in packets: its three points by hand, a run played by hand, and runs against the fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.contract.env import Hook
from ecc.errors import LinearizationError
from ecc.models import DCQCN
from ecc.queues import PI, RED, StepMarking

P = DCQCN()
HOOKS = P.flow_hooks()


def called(flow: Any, name: str, **values: Any) -> Any:
    """Call a hook of a flow; returns its env."""
    env = SimpleNamespace(
        **(
            {
                "now": 0.0,
                "packet_size": 1000,
                "rtt": 1e-5,
                "kind": 0,
                "marked": 0,
                "rate": flow.x,
                "timer": -1.0,
                "timer_1": -1.0,
                "counter": 0,
                "control_size": 0,
            }
            | values
        )
    )
    HOOKS[name](flow, None, P.namespace(), env)
    return env


def test_a_sender_by_hand() -> None:
    """2015, sec. 3.1 and figure 7: cut, five fast recoveries, additive and hyper increase."""
    flow = DCQCN.FlowState()
    env = called(flow, "on_start")
    assert env.rate == flow.target == 40e9 and env.timer < 0.0 and env.timer_1 < 0.0 and env.counter == 0
    env = called(flow, "on_control")
    assert (flow.target, flow.x, flow.alpha) == (40e9, 20e9, 1.0)  # alpha was 1, and stays it
    assert (env.rate, env.timer, env.timer_1, env.counter) == (20e9, 55e-6, 55e-6, 10_000_000)
    env = called(flow, "on_timer", kind=0)
    assert flow.alpha == 255 / 256 and env.timer == 55e-6 and env.timer_1 < 0.0 and env.rate == 20e9
    env = called(flow, "on_timer", kind=1)
    assert flow.x == env.rate == 30e9 and env.timer_1 == 55e-6 and env.timer < 0.0 and env.counter == 0
    called(flow, "on_control")
    cut = 30e9 * (1.0 - 255 / 512)
    assert (flow.target, flow.x) == (30e9, cut) and flow.alpha == pytest.approx(1.0 - 255 / 256 / 256)
    for k in range(1, 6):
        called(flow, "on_timer", kind=1)
        assert flow.x == pytest.approx(30e9 - (30e9 - cut) / 2**k) and flow.target == 30e9
    before = flow.x
    called(flow, "on_timer", kind=1)  # the sixth
    assert flow.target == 30.04e9 and flow.x == pytest.approx((before + 30.04e9) / 2)
    for _ in range(5):
        env = called(flow, "on_count")
        assert env.counter == 10_000_000 and env.timer < 0.0
    assert flow.target == pytest.approx(30.24e9)  # the timer has come beyond fast recovery, the counter has not
    called(flow, "on_count")
    assert flow.target == pytest.approx(30.28e9)
    called(flow, "on_count")
    assert flow.target == pytest.approx(30.68e9)  # both have
    for _ in range(100):
        called(flow, "on_timer", kind=1)
    assert flow.target == 40e9 and flow.x == pytest.approx(40e9)  # the line's


def test_a_cut_leaves_a_packet_in_100_rtts() -> None:
    flow = DCQCN.FlowState(x=1e6, target=1e6)
    called(flow, "on_control")
    assert flow.x == 0.01 * 8000 / 1e-5
    early = DCQCN.FlowState(x=1e6, target=1e6)
    called(early, "on_control", rtt=0.0)  # before the first ACK
    assert early.x == 0.5e6


def test_a_receiver_by_hand() -> None:
    """2015, sec. 3.1: at once, and then one in 50 us at most, for what was marked meanwhile."""
    flow = DCQCN.FlowState()
    arrivals = {0: 0, 1: 1000, 2: 1000, 30: 0, 50: 0, 51: 0, 101: 0, 102: 0, 130: 1000, 150: 1000, 170: 1000, 181: 0}
    sent = [
        at for at, marked in arrivals.items() if called(flow, "on_receive", now=at * 1e-6, marked=marked).control_size
    ]
    assert sent == [1, 51, 130, 181]
    assert called(flow, "on_receive", now=0.01, marked=1000).control_size == 64


@pytest.mark.parametrize(("queue", "share"), [(5000, 0.0), (102_500, 0.005), (200_000, 0.01), (200_001, 1.0)])
def test_a_queue_by_hand(queue: int, share: float) -> None:
    hook = P.link_hooks()["on_departure"]
    for random, marks in ((0.999 * share, int(share > 0.0)), (min(1.001 * share, 0.9999999), int(share == 1.0))):
        env = SimpleNamespace(queue=queue, random=random, mark=0)
        hook(None, None, P.namespace(), env)
        assert env.mark == marks


# Runs ----------------------------------------------------------------------------------------------------------------


@dataclass
class Counted:
    packets: int = 0


@dataclass(frozen=True)
class Marked(DCQCN):
    """Links mark the packets 21 and 26, counted from 1."""

    LinkState = Counted

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": mark_two}


def mark_two(link: Any, header: Any, p: Any, env: Any) -> None:
    link.packets += 1
    if link.packets == 21 or link.packets == 26:
        env.mark = 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["c", "python"])
def test_a_run_by_hand(engine: str) -> None:
    """8 Gb/s, packets of 1000 bytes that a link takes half a us for, 5 us there and 5 us back; times in us below."""
    net = ecc.Network([ecc.Link("16 Gb/s", "5 us")], [ecc.Flow([0])])
    protocol = Marked("8 Gb/s", interval="49.5 us", byte_counter=40_000)
    run = ecc.packet.simulate(
        ecc.Scenario(net, protocol, 250e-6, phase_jitter=False),
        sample=0.25e-6,
        record=["flow.x", "flow.alpha"],
        engine=engine,
    )
    x = run["flow.x"][:, 0].to_numpy()
    changed = np.flatnonzero(np.diff(x)) + 1
    found = [(round(float(run.data.time[k]) * 1e6, 9), float(x[k]) / 1e9) for k in changed]
    assert found == [
        (30.5, 4.0),  # packet 21 sets out at 20 and comes to the receiver at 25.5; packet 32 will set out at 32, not 31
        (80.5, 2.0),  # 26 came at 30.5, too soon; of those each 2 us from 37.5 on that at 75.5 comes 49.5 after the CNP
        (135.5, 3.0),  # 55 later; alpha has decayed at the same time, before
        (190.5, 3.5),
        (202.75, 3.75),  # 40,000 bytes after packet 56, which was sent at 80: 96, at 202.548
        (245.5, 3.875),
    ]
    alpha = run["flow.alpha"][:, 0].to_numpy()
    assert alpha[[changed[2] - 1, changed[2], changed[3], changed[5]]].tolist() == [(255 / 256) ** k for k in range(4)]


def test_both_engines_run_the_same() -> None:
    net = ecc.Network.parking_lot(["1 Gb/s"] * 2, delay="10 us")
    protocol = DCQCN("1 Gb/s", rate_ai=1e7, byte_counter=100_000, min_threshold=2000, max_threshold=50_000)
    runs = [
        ecc.packet.simulate(ecc.Scenario(net, protocol, 0.01), record=["flow.x", "flow.alpha"], engine=engine)
        for engine in ("c", "python")
    ]
    assert runs[0].stats["digest"] == runs[1].stats["digest"]
    for name in ("flow.x", "flow.alpha"):
        assert np.array_equal(runs[0][name], runs[1][name])


def late(network: ecc.Network, protocol: Any, duration: float, **options: Any) -> Any:
    """Mean queues [bit], rates [bit/s] and alpha in the later half."""
    run = ecc.packet.simulate(
        ecc.Scenario(network, protocol, duration, **options), sample=duration / 500, record=["flow.alpha"]
    )
    return [run[name][250:].mean("time").to_numpy() for name in ("queue_mean", "rate", "flow.alpha")]


def at_the_fixed_point(network: ecc.Network, duration: float) -> None:
    """Thresholds ten times the paper's, of the same slope: queues do not empty, and not all packets are marked."""
    protocol = DCQCN(max_threshold="2 MB", p_max=0.1)
    queue, rates, alpha = late(network, protocol, duration)
    point = protocol.equilibrium(network)
    assert point.queue is not None
    full = point.queue > 0.0
    assert 8.0 * queue[full] == pytest.approx(point.queue[full], rel=0.05)
    assert rates == pytest.approx(point.rates, rel=0.15)
    routes = [tuple(flow.route) for flow in network.flows]
    for kind in set(routes):
        same = [k for k, route in enumerate(routes) if route == kind]
        if len(same) > 1:
            assert rates[same].mean() == pytest.approx(point.rates[same].mean(), rel=0.05)
    assert alpha.mean() == pytest.approx(point.states["alpha"].mean(), rel=0.05)


def test_packets_of_a_dumbbell_are_at_the_fixed_point() -> None:
    at_the_fixed_point(ecc.Network.dumbbell("40 Gb/s", rtts=["20 us"] * 10), 0.4)


@pytest.mark.slow
def test_packets_of_a_parking_lot_and_of_a_fat_tree_are_at_the_fixed_point() -> None:
    links = [ecc.Link("40 Gb/s", "2 us")] * 2
    routes = [[0, 1]] * 4 + [[0]] * 6 + [[1]] * 6
    at_the_fixed_point(ecc.Network(links, [ecc.Flow(route) for route in routes]), 0.4)
    at_the_fixed_point(ecc.Network.fat_tree(4, ecc.demands.incast(range(10), 15), "40 Gb/s"), 0.3)


@pytest.mark.slow
def test_packets_oscillate_as_the_lightest_damped_root_of_the_linear_model() -> None:
    """It is stable: random marks keep it going."""
    protocol = DCQCN(max_threshold="2 MB", p_max=0.1)
    network = ecc.Network.dumbbell("40 Gb/s", rtts=["20 us"] * 10)
    linear = ecc.linearize(protocol, network)
    assert linear.is_stable
    roots = [root for root in linear.roots(10) if root.imag > 0.0]
    width = 50e-6
    queue = ecc.packet.simulate(ecc.Scenario(network, protocol, 0.4), sample=width).queue[4000:, 0].to_numpy()
    power = np.abs(np.fft.rfft(queue - queue.mean())) ** 2
    rate = float(np.fft.rfftfreq(len(queue), width)[power.argmax()])
    assert rate == pytest.approx(max(roots, key=lambda root: root.real).imag / (2.0 * np.pi), rel=0.1)
    assert 0.5 < queue.std() / queue.mean() < 1.0


def test_the_parameters_of_adapters_go_with_the_line() -> None:
    found = DCQCN.mellanox("100 Gb/s", floor=0.1)
    assert (found.line_rate, found.rate_ai, found.rate_hai) == (100e9, 20e6, 200e6)
    assert (found.min_threshold, found.max_threshold, found.p_max, found.floor) == (400_000, 1_600_000, 0.2, 0.1)
    with pytest.raises(ValueError, match="line_rate must be > 0"):
        DCQCN.mellanox(0)
    network = ecc.Network.dumbbell("25 Gb/s", rtts=["20 us"] * 4)
    queue, rates, _ = late(network, DCQCN.mellanox(), 0.2)
    assert rates.sum() > 0.9 * 25e9 and queue[0] < 400e3
    flow = DCQCN.FlowState(x=1e9, target=2e9, timer_increases=1.0)
    for target in (2.005e9, 2.055e9):  # without a byte counter the timer alone comes to hyper increase
        HOOKS["on_timer"](flow, None, DCQCN.mellanox().namespace(), SimpleNamespace(kind=1, rate=0.0))
        assert flow.target == target


def test_a_link_that_its_flows_never_fill_is_named() -> None:
    with pytest.raises(LinearizationError, match="sum to 40 of 50 Gb/s at link 0"):
        P.equilibrium(ecc.Network.dumbbell("50 Gb/s", ["20 us"]))
    # beside one that they fill, whichever comes first on their path
    links = [ecc.Link("50 Gb/s", 1e-6), ecc.Link("40 Gb/s", 1e-6)]
    found = P.equilibrium(ecc.Network(links, [ecc.Flow([0, 1]), ecc.Flow([1])]))
    assert found.rates == pytest.approx([20e9, 20e9], rel=1e-9) and found.fair_rate[0] == 0.0 < found.fair_rate[1]


@pytest.mark.parametrize("rate_ai", [1e-6, 1.0, 1e3, 1e10])
def test_rates_are_found_for_increases_of_any_size(rate_ai: float) -> None:
    found = DCQCN(rate_ai=rate_ai).equilibrium(ecc.Network.dumbbell("40 Gb/s", ["20 us"] * 2))
    assert found.rates == pytest.approx([20e9, 20e9], rel=1e-6)


def test_a_rate_that_is_not_found_is_no_equilibrium(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = SimpleNamespace(converged=False)
    monkeypatch.setattr("scipy.optimize.brentq", lambda *arguments, **options: (0.0, missed))
    with pytest.raises(LinearizationError, match="^DCQCN has no stationary rate for a share 0.001 of marked packets$"):
        P.resting_rate(0.001, 8000.0)


@pytest.mark.parametrize(
    "discipline",
    [
        PI(mark=True, a=1e-4, b=0.9999e-4, interval="10 us"),
        RED(mark=True, max_threshold=200.0, p_max=0.01, weight=1.0),
        StepMarking(),
    ],
)
def test_hosts_that_set_rates_answer_marks_of_any_discipline(discipline: Any) -> None:
    network = ecc.Network.dumbbell("10 Gb/s", rtts=["20 us"] * 4)
    host = DCQCN("10 Gb/s")
    queue, rates, alpha = late(network, {"flows": host, "links": discipline}, 0.1)
    assert rates.sum() > 0.8 * 10e9 and np.ptp(rates) < 0.5 * rates.mean()
    assert 0.0 < alpha.mean() < 0.5 and queue[0] < 1e6
