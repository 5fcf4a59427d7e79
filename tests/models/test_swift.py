"""Swift against its algorithm, by hand and in packets, and against the point where every delay is at its target."""

from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.models import Swift
from ecc.models.shared.equilibria import full_links
from ecc.network.network import Network
from ecc.scenario import Scenario

S = 1000.0  # bytes


def env(**fields):
    defaults = {
        "now": 1.0,
        "window": 10 * S,
        "rate": 0.0,
        "packet_size": 1000,
        "acked": 1000,
        "rtt": 20e-6,
        "srtt": 20e-6,
        "recovering": 0,
        "recovered": 0,
        "ece": 0,
        "limited_by": 1,
        "in_flight": 0,
        "kind": 0,
    }
    return SimpleNamespace(**{**defaults, **fields})


def aim(packets, links=1):
    """The paper's numbers of the default: 20 us, 3 us a link, and up to 100 us from 100 to 0.1 packets."""
    a = 100e-6 / (1 / sqrt(0.1) - 1 / sqrt(100.0))
    return 20e-6 + 3e-6 * links + min(max(a / sqrt(packets) - a / 10.0, 0.0), 100e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_target": 0}, "base_target must be > 0"),
        ({"fs_range": -1e-6}, "fs_range must be >= 0"),
        ({"fs_max_cwnd": 0.1}, r"fs_max_cwnd must be > fs_min_cwnd \(0.1 packets\), got 0.1"),
        ({"beta": 1.1}, "beta must be <= 1, got 1.1"),
        ({"max_mdf": 1.0}, "max_mdf must be < 1, got 1"),
        ({"min_cwnd": 0.2}, r"min_cwnd must be <= fs_min_cwnd \(0.1 packets\), got 0.2"),
    ],
)
def test_bad_parameters_get_one_line(fields, message):
    with pytest.raises(ValueError, match=message):
        Swift(**fields)


def test_the_target_scales_with_the_window_and_the_links():
    p = Swift().namespace()
    for packets in (0.01, 0.1, 0.5, 1.0, 9.0, 100.0, 1e4):
        assert ecc.models.swift.target(packets * S, 3 * 3e-6, S, p) == pytest.approx(aim(packets, 3), rel=1e-12)
    assert aim(0.05) == aim(0.1) and aim(100.0) == aim(1e9) == pytest.approx(23e-6)


def test_an_ack_below_the_target_adds_and_one_above_cuts_once_an_rtt():
    hooks, p, flow, header = Swift().flow_hooks(), Swift().namespace(), Swift.FlowState(), SimpleNamespace(links=2)
    at = env(acked=2000)
    hooks["on_ack"](flow, header, p, at)
    assert at.window == pytest.approx(10.2 * S) and at.rate == 0.0
    target = aim(10.2, 2)
    at.rtt = 1.25 * target
    hooks["on_ack"](flow, header, p, at)
    assert at.window == pytest.approx(10.2 * S * (1 - 0.8 * 0.2))
    before, at.now = at.window, 1.0 + 0.99 * at.rtt
    hooks["on_ack"](flow, header, p, at)
    assert at.window == before
    at.now, at.rtt = 1.1, 1e-3  # far beyond: half at most
    hooks["on_ack"](flow, header, p, at)
    assert at.window == 0.5 * before


def test_windows_below_a_packet_are_paced():
    hooks, p, flow, header = Swift().flow_hooks(), Swift().namespace(), Swift.FlowState(), SimpleNamespace(links=1)
    at = env(window=0.8 * S, rtt=1e-3, srtt=1e-3)
    hooks["on_ack"](flow, header, p, at)
    assert at.window == 0.4 * S and 8 * S / at.rate == pytest.approx(1e-3 / 0.4)  # a packet each D s/W
    at.rtt = 1e-6
    hooks["on_ack"](flow, header, p, at)
    assert at.window == pytest.approx(1.4 * S) and at.rate == 0.0
    for _ in range(20):
        at.now, at.rtt = at.now + 1.0, 1.0
        hooks["on_ack"](flow, header, p, at)
    assert at.window == 0.01 * S


def test_losses_cut_once_an_rtt_and_five_timeouts_leave_the_least_window():
    hooks, p, flow = Swift().flow_hooks(), Swift().namespace(), Swift.FlowState()
    at = env(acked=0)
    hooks["on_loss"](flow, None, p, at)
    assert at.window == 5 * S
    hooks["on_loss"](flow, None, p, at)
    assert at.window == 5 * S
    for k in range(1, 6):
        at.now, at.kind = 1.0 + k, 1
        hooks["on_loss"](flow, None, p, at)
        assert at.window == (5 * S / 2**k if k < 5 else 0.01 * S)
    at = env(window=S)
    hooks["on_ack"](flow, SimpleNamespace(links=1), p, at)
    assert flow.timeouts == 0


@pytest.mark.parametrize("flows", [1, 4, 64, 256])
def test_at_the_equilibrium_delays_are_at_their_targets_and_links_full(flows):
    network = Network.dumbbell("10 Gb/s", ["10 us"] * flows)
    point = Swift().equilibrium(network)
    D = 10e-6 + point.queue[0] / 10e9
    assert point.rates == pytest.approx(10e9 / flows, rel=1e-9) and not point.notes
    assert aim(10e9 * D / 8000 / flows) == pytest.approx(D, rel=1e-9)


def test_at_the_equilibrium_of_several_links_every_path_is_at_its_target():
    network = Network.parking_lot(["10 Gb/s", "8 Gb/s"], delay="1 us")
    network = network.with_flows([flow for flow in network.flows for _ in range(3)])
    point = Swift().equilibrium(network)
    waits = point.queue / network.capacities
    D = network.rtts + network.incidence @ waits
    for x, delay, links in zip(point.rates, D, network.incidence.sum(axis=1), strict=True):
        assert aim(x * delay / 8000, links) == pytest.approx(delay, rel=1e-9)
    assert point.rates @ network.incidence == pytest.approx(network.capacities, rel=1e-9)


def test_an_equilibrium_that_is_not_one_is_refused():
    network = Network.dumbbell("100 Gb/s", ["20 us"])
    with pytest.raises(LinearizationError, match="Swift has no single equilibrium here: if windows are so large"):
        Swift().equilibrium(network)
    with pytest.raises(LinearizationError, match="Some has no equilibrium here: the minimum rates exceed the capacity"):
        full_links(network, lambda D: np.full(1, 2e11), "Some", "")
    with pytest.raises(ValueError, match="assignment must be None: flows of Swift have the target of their whole path"):
        Swift().equilibrium(network, np.zeros(1, dtype=int))
    late = Swift().equilibrium(Network.dumbbell("100 Mb/s", ["100 ms", "10 us"]))
    assert late.notes == ("the RTT of flow 0 exceeds its target without any queue: its window is the minimum",)
    assert late.rates[0] == pytest.approx(0.01 * 8000 / 0.1, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("flows", [1, 4, 16])
def test_packets_and_fluid_come_to_the_equilibrium(flows):
    """But for the packets that all windows gain in the RTT before they see the target, in the fluid all at once."""
    network = Network.dumbbell("10 Gb/s", ["10 us"] * flows, starts=list(np.arange(flows) * 1e-6))
    point = Swift().equilibrium(network)
    queue, rate = point.queue[0] / 8000, point.rates[0]
    packets, fluid = (
        engine.simulate(Scenario(network, Swift(), 0.01), sample=1e-4) for engine in (ecc.packet, ecc.fluid)
    )
    for run, off in ((packets, 0.05 * queue), (fluid, 0.25 * flows)):
        assert run.queue[50:].mean() / 1000 == pytest.approx(queue, abs=off)
        assert run.rate[50:].mean("time").to_numpy() == pytest.approx(rate, rel=0.02)
    assert packets.drops.sum() == 0


def test_many_flows_share_a_link_with_less_than_a_packet_an_rtt_each():
    flows = 256
    network = Network.dumbbell("10 Gb/s", ["10 us"] * flows, buffer=1_000_000)
    run = ecc.packet.simulate(Scenario(network, Swift(), 0.02), sample=1e-3)
    point = Swift().equilibrium(network)
    D = 10e-6 + point.queue[0] / 10e9
    assert point.rates[0] * D < 0.5 * 8000
    assert run.goodput[10:].sum("flow").mean() > 0.95 * 10e9 and run.drops[10:].sum() == 0
    assert run.queue[10:].mean() < 2.0 * point.queue[0] / 8.0  # where one packet each would be 256
