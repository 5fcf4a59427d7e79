"""Applications that write in time: when packets leave, what samples and windows make of it, and who refuses it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from test_transport import Window, run

import ecc
from ecc.models import BBR, CUBIC, RCP, NewReno
from ecc.network.network import Flow, Link, Network
from ecc.packet.twin import Kind
from ecc.scenario import Scenario


def offsets(engine: Any) -> list[tuple[float, int]]:
    """When [ms] which byte left first: it gets to the link 5 ms later."""
    rows = engine.trace[engine.trace["kind"] == Kind.ACCESS]
    return [(time / 10**9 - 5.0, value) for time, value in zip(rows["time"], rows["value"], strict=True)]


@pytest.mark.parametrize("transport", [None, "newreno", "sack", "rack"])
def test_bursts_leave_as_they_are_written(transport: str | None) -> None:
    engine, _ = run(Window(transport, first=10), duration=0.25, writes=(2500, "100 ms"))
    assert offsets(engine) == [
        (100.0 * k, 2500 * k + at) for k in range(3) for at in (0, 1000, 2000)
    ]  # of 1000, 1000 and 500 bytes
    assert engine.flow_results[0]["sent"] == 7500


@pytest.mark.parametrize("transport", [None, "rack"])
def test_the_last_write_is_what_is_left(transport: str | None) -> None:
    engine, _ = run(Window(transport, first=10), duration=1.0, size=4200, writes=(2500, "100 ms"))
    assert offsets(engine) == [(0.0, 0), (0.0, 1000), (0.0, 2000), (100.0, 2500), (100.0, 3500)]
    assert engine.flow_results[0]["completed"] == 1


def test_a_burst_beyond_the_window_leaves_with_acks() -> None:
    engine, _ = run(Window("rack", first=2, grows=False), duration=0.1, writes=(3000, "50 ms"))
    assert offsets(engine) == [(0.0, 0), (0.0, 1000), (31.0, 2000), (50.0, 3000), (62.0, 4000), (81.0, 5000)]


def test_a_pacer_waits_for_what_is_written() -> None:
    engine, _ = run(Window("rack", first=0, rate=4e6), duration=0.021, writes=(2000, "10 ms"))
    assert offsets(engine) == [(10.0 * k + at, 1000 * (2 * k + at // 2)) for k in (0, 1) for at in (0, 2)]


@pytest.mark.parametrize("transport", ["newreno", "sack", "rack"])
def test_what_grows_beyond_the_receivers_window_before_its_time_waits(transport: str) -> None:
    """The last 500 of 2,500 bytes fit, and are due at 4 ms; at 3 ms they are a whole packet, which does not."""
    window = Window(transport, first=0, rate=4e6, receiver_window=2500)
    engine, _ = run(window, duration=0.05, writes=(2500, "3 ms"))
    sent = offsets(engine)
    assert sent[:3] == [(0.0, 0), (2.0, 1000), (31.0, 2000)]
    assert all(b > a for (_, a), (_, b) in pairwise(sent))


@pytest.mark.parametrize("protocol", [BBR(), NewReno(), CUBIC(), RCP()], ids=lambda p: type(p).__name__)
def test_an_application_with_a_rate_sends_at_it(protocol: Any) -> None:
    network = Network([Link("20 Mb/s", "10 ms")], [Flow([0], access_delay=0.01, writes="2 Mb/s")])
    found = ecc.packet.simulate(Scenario(network, protocol, 4.0), sample=0.5)
    assert found.goodput[2:].mean() == pytest.approx(2e6, rel=0.01)
    assert found.drops.sum() == 0


def test_samples_that_the_application_limited_are_marked_and_bandwidth_stays() -> None:
    network = Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer="250 kB")
    bursts = network.with_flows([Flow([0], access_delay=network.flows[0].access_delay, writes=("100 kB", "200 ms"))])
    names = ["flow.sample_app_limited", "flow.max_bw", "flow.state"]
    found = ecc.packet.simulate(Scenario(bursts, BBR(), 6.0), sample=0.02, record=names).data
    marked = found["flow.sample_app_limited"][50:, 0]
    assert marked.mean() > 0.9  # a burst of 100 kB is less than the bandwidth-delay product of 125 kB
    greedy = ecc.packet.simulate(Scenario(network, BBR(), 6.0), sample=0.02, record=names).data
    assert greedy["flow.sample_app_limited"][50:, 0].mean() < 0.1  # of ProbeRTT


@pytest.mark.parametrize("protocol", [NewReno(initial=10), CUBIC(initial=10)], ids=lambda p: type(p).__name__)
def test_a_window_that_is_not_used_does_not_grow(protocol: Any) -> None:
    network = Network([Link("100 Mb/s", "20 ms")], [Flow([0], access_delay=0.005, writes="4 Mb/s")])
    found = ecc.packet.simulate(Scenario(network, protocol, 20.0), sample=0.5, record=["env.window"]).data
    used = 4e6 * 0.05008 / 8.0
    assert found["env.window"][:, 0].max() <= 3.0 * used  # with what it catches up after the first window


@pytest.mark.parametrize(
    ("writes", "message"),
    [
        ((0, 0.1), "writes must be >= 1 bytes, got 0"),
        ((1000, 0.0), "writes must be > 0 s, got 0.0"),
        ((1000,), r"writes must be \(bytes, period\) or a rate, got \(1000,\)"),
        ("-1 Mb/s", "writes must be > 0"),
    ],
)
def test_bad_writes_get_one_line(writes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Flow([0], writes=writes)


def test_other_engines_refuse_them() -> None:
    network = Network([Link("20 Mb/s", "10 ms")], [Flow([0], writes="1 Mb/s")])
    with pytest.raises(ValueError, match=r"writes must be None except in packet runs, got 1000000.0 \(flow 0\)"):
        ecc.fluid.simulate(Scenario(network, RCP(), 1.0))
    with pytest.raises(ValueError, match=r"writes must be None except in packet runs"):
        ecc.linearize(RCP(), network)
