"""The token bucket against what RFC 2697 says of it, hosts over it, and its fluid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ecc
from ecc.models import FAST, XCP, ConstantRate, NewReno
from ecc.queues import DropTail, Policer

RATE, BURST, SIZE = 5e6, 30_000, 1000


def over(host: Any, policer: Any, duration: float = 20.0, **options: Any) -> ecc.Scenario:
    network = ecc.Network.dumbbell("50 Mb/s", rtts=[0.05], packet_size=SIZE, buffer="500 kB", **options)
    return ecc.Scenario(network, {"flows": host, "links": {0: policer}}, duration, phase_jitter=False)


def passed(scenario: ecc.Scenario, sample: float) -> tuple[np.ndarray, ecc.Trajectory]:
    """Bytes that have passed the policer by the end of each sample, seen where they arrive."""
    run = ecc.packet.simulate(scenario, sample=sample, record=["link.policed", "link.policed_bytes", "link.level"])
    return np.cumsum(run.goodput.values[:, 0]) * sample / 8.0, run


def test_no_interval_has_more_than_a_burst_beyond_the_rate_and_a_greedy_sender_has_it():
    policer = Policer(rate=RATE, burst=BURST)
    # 25 ms on the way; then the bucket, of 30 packets, lasts until 30 + 625 t = 2500 t: 16 ms
    bytes_passed, run = passed(over(ConstantRate("20 Mb/s"), policer, 2.0), 0.005)
    times = run.data["time"].values
    for first in range(0, len(times), 7):
        allowed = BURST + RATE / 8.0 * (times[first:] - times[first])
        assert (bytes_passed[first:] - bytes_passed[first] <= allowed + 1e-6).all()
    late = times > 0.1
    greedy = BURST + RATE / 8.0 * (times - 0.025 - 8.0 * SIZE / 50e6)  # what has passed of all that could
    until_the_next = RATE / 20e6 * SIZE
    assert (np.abs(bytes_passed - greedy)[late] <= SIZE + until_the_next + 1e-6).all()
    policed, policed_bytes = (float(run[f"link.{name}"][-1, 0]) for name in ("policed", "policed_bytes"))
    assert policed == float(run.drops.sum()) and policed_bytes == policed * SIZE


def test_what_is_below_the_rate_is_not_touched():
    _, run = passed(over(ConstantRate("4.9 Mb/s"), Policer(rate=RATE, burst=SIZE)), 0.1)
    assert float(run.drops.sum()) == 0.0
    assert float(run["link.policed"][-1, 0]) == 0.0


def test_a_packet_larger_than_the_burst_never_passes():
    _, run = passed(over(ConstantRate("1 Mb/s"), Policer(rate=RATE, burst=SIZE - 1), 1.0), 0.1)
    assert float(run.goodput.sum()) == 0.0 and float(run.drops.sum()) > 100


def test_marks_stand_for_drops_where_packets_can_be_marked():
    """What is marked takes no tokens: marks are the share that drops would be."""
    host = NewReno(ecn=True, transport="sack")
    _, run = passed(over(host, Policer(rate=RATE, burst=BURST, mark=True)), 0.1)
    assert float(run.drops.sum()) == 0.0
    assert float(run.marks.sum()) == float(run["link.policed"][-1, 0]) > 10


@pytest.mark.parametrize("engine", ["c", "python"])
def test_it_may_stand_beside_the_routers_of_a_protocol(engine):
    """XCP does not know of it: it has the link filled, and the policer takes the rest."""
    scenario = over(XCP(), (XCP(), Policer(rate=RATE, burst=BURST)), 1.0)
    run = ecc.packet.simulate(scenario, sample=0.2, engine=engine)
    assert float(run.goodput[3:].mean()) == pytest.approx(RATE, rel=0.05) and float(run.drops.sum()) > 0
    assert ecc.Scenario.from_toml(scenario.to_toml()).protocol == scenario.protocol


@pytest.mark.parametrize("signals", ["rate", "random"])
@pytest.mark.parametrize(("host", "rate", "burst"), [(FAST(), 1e6, 5000), (NewReno(), RATE, BURST)], ids=str)
def test_a_fluid_lets_no_more_pass_than_its_tokens(host, rate, burst, signals):
    """At most burst + rate T in any time T, and what passes in one step: a level below 0, which is paid back."""
    scenario = over(host, Policer(rate=rate, burst=burst), 10.0)
    run = ecc.fluid.simulate(scenario, sample=0.01, signals=signals, record=["link.level"])
    beyond = np.cumsum(run.goodput.values[:, 0] - rate) * 0.01 / 8.0
    level = run["link.level"].values[:, 0]
    assert (beyond - np.minimum.accumulate(beyond)).max() <= burst + SIZE * max(0.0, -level.min()) + 1e-6
    assert -20.0 < level.min() < 1.0 and level.max() <= burst / SIZE
    assert level[-100:].max() > 0.0  # what is owed is not for long


@pytest.mark.parametrize("signals", ["rate", "random"])
def test_a_fluid_has_the_goodput_of_packets_where_the_burst_holds_their_trains(signals):
    """A burst of a fifth of the pipe costs; one beyond it costs nothing in packets."""
    for burst, loss in ((30_000, 0.2), (200_000, 0.02)):
        scenario = over(NewReno(transport="sack"), Policer(rate=RATE, burst=burst), 60.0)
        packets = ecc.packet.simulate(scenario, sample=1.0)
        fluid = ecc.fluid.simulate(scenario, sample=1.0, signals=signals)
        found, expected = (float(run.goodput[20:].mean()) for run in (fluid, packets))
        assert expected == pytest.approx(RATE, rel=loss)
        assert found == pytest.approx(expected, rel=0.06)


def test_a_fluid_loses_most_of_the_rate_to_a_burst_that_is_short_of_windows():
    scenario = over(NewReno(transport="sack"), Policer(rate=RATE, burst=5_000), 40.0)
    for signals in ("rate", "random"):
        run = ecc.fluid.simulate(scenario, sample=1.0, signals=signals)
        assert 0.1 * RATE < float(run.goodput[20:].mean()) < 0.2 * RATE  # packets: 0.12


def test_it_has_no_equilibrium_and_so_no_linear_model():
    scenario = over(NewReno(), Policer(rate=RATE, burst=BURST))
    with pytest.raises(
        ValueError, match="Policer has no linear model: its probability_law takes T; available arguments:"
    ):
        ecc.linearize(scenario.protocol, scenario.network)


def test_without_it_nothing_is_policed():
    plain, wide = (over(NewReno(), one, 5.0) for one in (DropTail(), Policer(rate="1 Gb/s", burst="1 GB")))
    assert ecc.packet.simulate(plain).goodput.equals(ecc.packet.simulate(wide).goodput)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rate": 0.0}, r"rate must be > 0 bit/s, got 0\.0"),
        ({"rate": "5 MB"}, "rate must have one of the units b/s, .*, got '5 MB'"),
        ({"burst": 0}, "burst must be .*, got 0"),
        ({"burst": 0.5}, "burst must be .*, got 0.5"),
    ],
)
def test_bad_parameters_get_one_line(parameters, message):
    with pytest.raises(ValueError, match=message):
        Policer(**parameters)
