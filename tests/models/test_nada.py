"""NADA against its equations, played by hand; its delay margin; boundaries of linear models, fluid and packets."""

from __future__ import annotations

from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from media_runs import assert_same_on_frames, run_everywhere

import ecc
from ecc.linear import DelaySystem
from ecc.models import NADA
from ecc.models.nada import FlowState, limited, mean_loss_interval, ramped, updated, warped
from ecc.network.impairments import RandomLoss
from ecc.network.network import Network
from ecc.queues import PI
from ecc.scenario import Scenario

C = 1e6


MARGINS = ((1.5, 0.5267), (10.0, 0.5633))
"""RMAX over C, and delay margin [s]."""


def link(rtt: float = 0.1, flows: int = 1, size: int = 200, **options: Any) -> Network:
    return Network.dumbbell(C, rtts=[rtt] * flows, packet_size=size, **options)


def test_the_equations_are_those_of_the_rfc() -> None:
    p = NADA().namespace()
    assert ramped(3e5, 4e5, 0.1, p) == pytest.approx((1.0 + 0.05 / (0.1 + 0.1 + 0.12)) * 4e5)  # (3), (4)
    assert ramped(9e5, 4e5, 0.1, p) == 9e5
    r, x, change = 8e5, 0.03, 0.004
    offset = x - 1.0 * 0.01 * 1.5e6 / r  # (5)
    after = r - 0.5 * (0.1 / 0.5) * (offset / 0.5) * r - 0.5 * 2.0 * (change / 0.5) * r  # (7)
    assert updated(r, x, change, 0.1, p) == pytest.approx(after)
    assert warped(0.04, p) == 0.04 and warped(0.15, p) == pytest.approx(0.05 * exp(-0.5 * 0.1 / 0.05))  # (1)
    assert [limited(value, p) for value in (1e5, 1e6, 2e6)] == [150e3, 1e6, 1.5e6]


class Receiver:
    """A receiver whose packets arrive by hand, 10 ms after they were sent, and later by their queueing delays."""

    def __init__(self, **given: Any) -> None:
        self.protocol = NADA(**given)
        self.hooks, self.p, self.flow = self.protocol.flow_hooks(), self.protocol.namespace(), FlowState()
        for name, value in vars(self.flow).items():
            if isinstance(value, tuple):
                setattr(self.flow, name, list(value))
        self.env = SimpleNamespace(now=0.0, packet_size=1000, marked=0, timer=-1.0, control_size=0)
        self.number = 0

    def packet(self, delay: float = 0.0, lost: int = 0, marked: bool = False) -> None:
        self.number += 1 + lost
        self.env.now += 0.01
        self.env.marked = 1000 if marked else 0
        header = SimpleNamespace(number=self.number, sent=self.env.now - 0.01 - delay, frame=0)
        self.hooks["on_receive"](self.flow, header, self.p, self.env)

    def report(self) -> Any:
        header = SimpleNamespace()
        self.hooks["on_report"](self.flow, header, self.p, self.env)
        return header


def test_a_receiver_reports_minimum_delay_rate_and_mode() -> None:
    receiver = Receiver()
    for delay in (0.0, *[0.002] * 9):
        receiver.packet(delay)
    first = receiver.report()
    assert (first.signal, first.mode) == (0.0, 0) and first.received == pytest.approx(10 * 8000 / 0.1)
    for delay in (*[0.030] * 10, *[0.012] * 5, *[0.020] * 10):
        receiver.packet(delay)
    second = receiver.report()
    assert second.signal == pytest.approx(0.012) and second.mode == 1  # minimum of the last 15
    assert second.received == pytest.approx(35 * 8000 / 0.2)
    modes = []
    for _ in range(5):
        for _ in range(15):
            receiver.packet(0.001)
        modes.append(receiver.report().mode)
    assert modes == [1, 1, 1, 1, 0]  # 0.5 s without delays of 10 ms


def test_losses_and_marks_add_penalties_and_warp_delays() -> None:
    receiver = Receiver(average=1.0, taps=1)
    receiver.packet()
    for _ in range(98):
        receiver.packet(0.15)
    receiver.packet(0.15, marked=True)
    assert receiver.report().signal == pytest.approx(0.15 + 0.002)  # 1 % of marks
    receiver = Receiver(average=1.0, taps=1)
    receiver.packet()
    for _ in range(97):
        receiver.packet(0.15)
    receiver.packet(0.15, lost=1)
    report = receiver.report()
    assert report.signal == pytest.approx(0.05 * exp(-1.0) + 0.01) and report.mode == 1  # 1 % of losses
    assert mean_loss_interval(receiver.flow) == 98.0
    for _ in range(98 * 8):  # seven intervals later the delay is no longer warped
        receiver.packet(0.15)
    report = receiver.report()
    assert report.signal == pytest.approx(0.15 + 0.01 * (100.0 / 884.0) ** 2, rel=1e-6)


def test_the_equilibrium_has_rates_in_proportion_to_the_weights() -> None:
    point = NADA().equilibrium(link(flows=2))
    assert point.rates == pytest.approx([5e5, 5e5]) and point.fair_rate == pytest.approx([0.03])
    alone = NADA(max_rate="800 kb/s").equilibrium(link())
    assert alone.rates == pytest.approx([8e5]) and alone.fair_rate == pytest.approx([0.0])
    network = link(flows=2, size=100)
    hosts = {"flows": {0: NADA(taps=1), 1: NADA(taps=1, priority=3.0)}}
    run = ecc.packet.simulate(Scenario(network, hosts, 120.0), sample=1.0)
    late = run.rate[-20:].mean("time").to_numpy()
    assert late == pytest.approx([2.5e5, 7.5e5], rel=0.05)
    assert 8.0 * float(run.queue[-20:].mean()) / C == pytest.approx(0.06, rel=0.05)


@pytest.mark.parametrize(
    ("ratio", "margin"), [(1.0, 0.5246), *(pytest.param(*case, marks=pytest.mark.slow) for case in MARGINS)]
)
def test_the_delay_margin_of_the_law_without_report_clock(ratio: float, margin: float) -> None:
    """The limit of the docstring: its matrices as they are, and the linear models of NADA as delta -> 0."""
    p = NADA()

    def law(delay: float) -> DelaySystem:
        now = np.array([[-p.kappa * p.reference * ratio / p.tau**2, 0.0], [1.0, 0.0]])
        return DelaySystem([now, np.array([[-p.kappa * p.eta / p.tau, -p.kappa / p.tau**2], [0, 0]])], [0.0, delay])

    assert law(0.999 * margin).certify().stable is True and law(1.001 * margin).certify().stable is False
    fast = NADA(interval=1e-3, window=0.02, max_rate=C * ratio * (1.0 + 1e-9))
    for time in ("continuous", "hybrid"):
        network = link(margin - p.reference * ratio - 2e-3)
        assert ecc.linearize(fast, network, time=time).is_stable
        assert not ecc.linearize(fast, link(margin - p.reference * ratio + 1e-3), time=time).is_stable


def growth(engine: Any, protocol: NADA, rtt: float, **options: Any) -> float:
    """Growth of a small deviation of the rate from the equilibrium [1/s]."""
    duration = 40.0
    scenario = Scenario(link(rtt, size=20), protocol, duration)
    run = engine(scenario, sample=0.05, start="equilibrium", perturbation=2e-4, **options)
    rate = (run["flow.x"] if "record" in options else run.rate).to_numpy()[:, 0] - C
    early, late = (np.sqrt(np.mean(part**2)) for part in (rate[160:400], rate[480:720]))
    return float(np.log(late / early) / 16.0)


@pytest.mark.slow
@pytest.mark.parametrize(("max_rate", "limit"), [(1.5e6, 0.457), (10e6, 0.402)])
@pytest.mark.parametrize("share", [0.95, 1.05])
def test_fluid_and_packets_have_the_boundary_of_the_hybrid_model(max_rate: float, limit: float, share: float) -> None:
    protocol = NADA(taps=1, max_rate=max_rate)
    model = ecc.linearize(protocol, link(share * limit), time="hybrid")
    expected = np.log(model.spectral_radius) / protocol.interval
    assert (expected > 0.0) == (share > 1.0)
    fluid = growth(ecc.fluid.simulate, protocol, share * limit, time="discrete")
    packets = growth(ecc.packet.simulate, protocol, share * limit, record=["flow.x"])
    assert fluid == pytest.approx(expected, rel=0.05) and packets == pytest.approx(expected, rel=0.1)


def lossy(**given: Any) -> Scenario:
    """Two flows with frames, losses, marks and lost reports."""
    network = Network.dumbbell(C, rtts=[0.05, 0.09], packet_size=500, buffer="15 kB")
    hosts = NADA(ecn=True, frames=25.0, noise=0.2, key_every=20, key_factor=3.0, pauses=(0.8, 1.2), **given)
    losses = [RandomLoss(0.02, link=0)]
    return Scenario(network, {"flows": hosts, "links": PI(mark=True)}, 3.0, impairments=losses, seed=3)


NAMES = ["flow.x", "flow.complete", "flow.p_loss", "flow.p_mark", "flow.skipped"]


@pytest.mark.slow
def test_engines_checkpoints_and_threads_agree_with_losses_marks_and_frames(tmp_path: Path) -> None:
    run = run_everywhere(lossy(), NAMES, tmp_path)
    assert float(run["flow.p_loss"].max()) > 0.0 and int(run["flow.complete"].min(axis=0).sum()) >= 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"min_rate": 2e6}, r"^min_rate must be <= 1.5e\+06, got 2000000.0"),
        ({"window": 3.0}, "^window must be <= 2.5, got 3.0"),
        ({"taps": 16.0}, "^taps must be <= 15, got 16.0"),
        ({"noise": 0.5}, "^noise must be < 0.5, got 0.5"),
        ({"pauses": (1.0, 2.0, 3.0)}, r"^pauses must have an even number of times \(begin, end, begin, ...\), got 3"),
        ({"pauses": (2.0, 1.0)}, "^pauses must be times >= 0 s that increase, got 1.0 after 2"),
    ],
)
def test_parameters_out_of_range_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        NADA(**given)


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_nada_on_real_frames() -> None:
    assert_same_on_frames(Scenario(link(0.05), NADA(), 4.0), ["flow.x"])


def test_a_note_names_links_whose_buffer_is_too_small_for_the_delay() -> None:
    """At C = 1 Mb/s the queue at equilibrium is XREF RMAX/C = 15 ms, 1875 bytes."""
    for buffer, is_noted in (("1.8 kB", True), ("1.9 kB", False), (None, False)):
        network = ecc.Network.dumbbell("1 Mb/s", rtts=[0.1], packet_size=500, buffer=buffer)
        for engine in ("fluid", "packet"):
            notes = ecc.simulate(ecc.Scenario(network, NADA(), duration=0.2), engine).notes
            said = "its queue at equilibrium, 1.875 kB, exceeds its buffer of 1.8 kB: fluid and linear models have no"
            assert any(said in note for note in notes) is is_noted
    least = ecc.Network.dumbbell("0.1 Mb/s", rtts=[0.1], packet_size=500, buffer="1 kB")
    assert NADA().network_notes(least) == ()  # no equilibrium: the minimum rate exceeds the capacity
