"""TIMELY and patched TIMELY: their algorithms by hand, Zhu et al.'s fixed point, and one law in every engine."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.models import TIMELY, PatchedTIMELY
from ecc.network.network import Network
from ecc.scenario import Scenario


def link(flows, packet_size=1000, rtt=10e-6):
    return Network.dumbbell("10 Gb/s", [rtt] * flows, packet_size=packet_size, starts=list(np.arange(flows) * 1e-6))


def env(**fields):
    return SimpleNamespace(**{"now": 0.0, "rtt": 0.0, "rate": 0.0, "packet_size": 16_000} | fields)


def played(protocol, rtts, x=1e9):
    """Rates after ACKs 25 us apart, with these RTTs; the first one only tells the RTT."""
    hooks, p, flow, at, found = protocol.flow_hooks(), protocol.namespace(), protocol.FlowState(), env(), []
    hooks["on_start"](flow, None, p, at)
    assert at.rate == protocol.delta
    flow.x = x
    for k, rtt in enumerate(rtts):
        at.now, at.rtt = 25e-6 * (k + 1), rtt
        hooks["on_ack"](flow, None, p, at)
        found.append(flow.x)
        assert k == 0 or at.rate == flow.x
    return found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"alpha": 1.5}, "alpha must be <= 1, got 1.5"),
        ({"beta": 0}, "beta must be > 0"),
        ({"delta": "0 Mb/s"}, "delta must be > 0"),
        ({"high": 40e-6}, r"high must be > low \(5e-05 s\), got 4e-05"),
        ({"floor": 0.0}, "floor must be > 0"),
    ],
)
@pytest.mark.parametrize("kind", [TIMELY, PatchedTIMELY])
def test_bad_parameters_get_one_line(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        kind(**fields)


def test_timely_by_hand():
    """Low; rising RTT; high; then falling ones, the fifth of which adds five times as much."""
    x = played(TIMELY(), [30e-6, 40e-6, 60e-6, 600e-6, *np.linspace(200e-6, 100e-6, 6)])
    g = 0.0
    for new in (10e-6, 20e-6):
        g = 0.125 * g + 0.875 * new / 20e-6
    assert x[:2] == [1e9, 1.01e9]
    assert x[2] == pytest.approx(1.01e9 * (1 - 0.8 * g))
    assert x[3] == pytest.approx(x[2] * (1 - 0.8 * (1 - 500 / 600)))
    assert np.diff(x[3:]) == pytest.approx([1e7] * 4 + [5e7] * 2)


def test_patched_by_hand():
    x = played(PatchedTIMELY(), [60e-6, 60e-6, 62e-6, 75e-6, 40e-6, 55e-6, 700e-6])
    g, expected = 0.0, [1e9]
    for old, new in ((60, 60), (60, 62), (62, 75), (75, 40), (40, 55), (55, 700)):
        g = 0.125 * g + 0.875 * (new - old) / 20
        w = min(max(2 * g + 0.5, 0.0), 1.0)
        now = expected[-1]
        middle = (1 - w) * 1e7 + now * (1 - 0.008 * w * (new - 50) / 50)
        expected.append(now + 1e7 if new < 50 else now * (1 - 0.008 * (1 - 500 / 700)) if new > 500 else middle)
    assert x == pytest.approx(expected, rel=1e-12)


def test_updates_are_an_interval_apart_at_least():
    hooks, p, flow, at = TIMELY().flow_hooks(), TIMELY().namespace(), TIMELY.FlowState(), env(packet_size=100)
    hooks["on_start"](flow, None, p, at)
    for k in range(100):
        at.now, at.rtt = 1e-6 * k, 10e-6
        hooks["on_ack"](flow, None, p, at)
    assert flow.x == pytest.approx(1e7 * (1 + 4))  # at 20, 40, 60 and 80 us


@pytest.mark.parametrize("flows", [1, 2, 10, 30])
def test_the_fixed_point_of_zhu_et_al(flows):
    """q* = N delta q'/(beta C) + q', where q' = C T_low and no RTT without queues; RTTs are C (T_low - D_prop) less."""
    point = PatchedTIMELY().equilibrium(link(flows))
    reference = 10e9 * 50e-6
    theirs = flows * 10e6 * reference / (0.008 * 10e9) + reference
    assert point.queue[0] == pytest.approx(theirs - 10e9 * 10e-6, rel=1e-9)
    assert point.rates == pytest.approx(10e9 / flows, rel=1e-9)


def test_longer_rtts_get_less_and_several_links_add():
    network = Network.parking_lot(["10 Gb/s", "8 Gb/s"], delay="2 us")
    point = PatchedTIMELY().equilibrium(network)
    D = network.rtts + network.incidence @ (point.queue / network.capacities)
    assert point.rates == pytest.approx(10e6 * 50e-6 / (0.008 * (D - 50e-6)), rel=1e-9)
    assert point.rates @ network.incidence == pytest.approx(network.capacities, rel=1e-9)
    with pytest.raises(
        LinearizationError, match=r"has no equilibrium here: the RTT of flow 0 would be .* high is 0.0005 s"
    ):
        PatchedTIMELY().equilibrium(Network.dumbbell("100 Mb/s", ["100 ms"]))
    with pytest.raises(LinearizationError, match="TIMELY has no equilibrium: at a constant RTT the gradient is 0"):
        TIMELY().equilibrium(network)
    with pytest.raises(LinearizationError, match="PatchedTIMELY has no linear model if a path has several queues"):
        ecc.linearize(PatchedTIMELY(), network)
    with pytest.raises(
        ValueError, match="TIMELY has no equilibrium to linearize at: at a constant RTT the gradient is 0"
    ):
        ecc.linearize(TIMELY(), network)


@pytest.mark.slow
@pytest.mark.parametrize("flows", [2, 10])
def test_patched_packets_and_fluid_come_to_the_fixed_point(flows):
    scenario = Scenario(link(flows), PatchedTIMELY(), 0.1, phase_jitter=False)
    point = PatchedTIMELY().equilibrium(scenario.network)
    for engine in (ecc.packet, ecc.fluid):
        run = engine.simulate(scenario, sample=1e-3)
        assert 8 * run.queue[50:].mean() == pytest.approx(point.queue[0], rel=0.02)
        assert run.rate[50:].mean("time").to_numpy() == pytest.approx(point.rates, rel=1e-3)


@pytest.mark.slow
def test_timely_swings_from_an_empty_queue_in_packets_and_fluid():
    scenario = Scenario(link(2), TIMELY(), 0.1)
    for engine in (ecc.packet, ecc.fluid):
        run = engine.simulate(scenario, sample=1e-3)
        queue = run.queue[50:].to_numpy() / 1000
        assert queue.min() < 1.0 and 40.0 < queue.max() < 70.0  # T_low is 50 kB of queue, with 10 us of path
        assert 0.9 * 10e9 < run.rate[50:].sum("flow").mean() < 0.99 * 10e9


@pytest.mark.parametrize(
    "network",
    [
        link(2, 16_000),
        link(2, 1000),
        link(10, 16_000),
        Network.dumbbell("10 Gb/s", rtts=["10 us", "10 us", "14 us"], packet_size=16_000),
    ],
    ids=["two", "small_packets", "ten", "two_rtts"],
)
def test_the_fluid_moves_by_the_roots_of_the_linear_model(network):
    point = PatchedTIMELY().equilibrium(network)
    run = ecc.fluid.simulate(
        Scenario(network, PatchedTIMELY(), 0.02), sample=1e-5, start="equilibrium", perturbation=1e-5, rtol=1e-10
    )
    off = (run.queue[:, 0].to_numpy() - point.queue[0] / 8)[300:]
    columns = np.column_stack([off[k : len(off) - 4 + k] for k in range(4)])
    steps = np.linalg.lstsq(columns, off[4:], rcond=None)[0]
    found = np.log(np.roots([1.0, *-steps[::-1]]).astype(complex)) / 1e-5
    roots = np.array(ecc.linearize(PatchedTIMELY(), network).roots(6))
    oscillating = roots[roots.imag > 100.0][0]
    assert np.abs(found - oscillating).min() < 1e-3 * abs(oscillating)


@pytest.mark.parametrize(("flows", "grows"), [(10, False), (20, True)])
def test_more_flows_lose_stability_in_the_linear_model_and_in_the_fluid(flows, grows):
    """Of 16 kB segments, with an RTT of 10 us: a longer queue, and updates further apart."""
    network = link(flows, 16_000)
    assert ecc.linearize(PatchedTIMELY(), network).is_stable is not grows
    point = PatchedTIMELY().equilibrium(network)
    scenario = Scenario(network, PatchedTIMELY(), 0.03)
    run = ecc.fluid.simulate(scenario, sample=1e-4, start="equilibrium", perturbation=1e-4)
    off = np.abs(run.queue[:, 0].to_numpy() - point.queue[0] / 8)
    assert (off[-50:].max() > 2.0 * off[50:100].max()) == grows


class Jumping(PatchedTIMELY):
    """Whose state has a clock of windows."""

    @property
    def states(self):
        return {"gradient": super().states["gradient"]._replace(clock="rtt")}


def test_states_of_rates_move_with_the_rate_or_are_refused():
    with pytest.raises(
        ValueError, match="Jumping has no fluid model: its state gradient must have a law, the clock 'upd"
    ):
        ecc.fluid.simulate(Scenario(link(2), Jumping(), 0.001))
    with pytest.raises(
        ValueError, match="Jumping has no linear model: its state gradient must have a law and the clock"
    ):
        ecc.linearize(Jumping(), link(2))
