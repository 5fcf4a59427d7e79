"""Limit cycles over step marking and RED: closed forms, periodic orbits of delay equations, and packets."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest

import ecc
from ecc.errors import ConvergenceError
from ecc.fluid import periodic_orbit, solve_dde
from ecc.models import DCTCP, QIRCP, NewReno
from ecc.network.network import Network
from ecc.queues import PI, RED, CoDel, StepMarking
from ecc.scenario import Scenario
from ecc.stability import marking_cycle

C, RTT, K = 1.25e6, 1e-3, 200.0  # packets/s, s, packets


def dumbbell(flows, rtt=RTT):
    return Network.dumbbell("10 Gb/s", [rtt] * flows, packet_size=1000)


def over(threshold=K, host=None):
    return {"flows": host or DCTCP(), "links": StepMarking(threshold=threshold)}


@pytest.mark.parametrize("flows", [10, 40, 100])
def test_the_describing_function_is_that_of_a_relay_with_a_bias(flows):
    """A relay, marks for the share d of a period, has the first harmonic 2/pi sin(pi d); hosts answer once an RTT."""
    found = marking_cycle(over(), dumbbell(flows))
    D = RTT + K / C
    w0 = (C * RTT + K) / flows
    alpha = sqrt(2.0 / w0)  # at equilibrium, and the share of RTTs with marks
    s = 2j * pi / found.period
    answer = (0.5 * alpha * w0 + 0.5 * w0 * alpha * (1 / 16) / (s * D + 1 / 16)) / D * np.exp(-s * D)
    G = flows * answer / (s + 1.0 / (w0 * D))
    assert abs(G.imag) < 1e-6 * abs(G) and G.real < 0.0
    amplitude = 2.0 / pi * np.sin(pi * found.probability) * abs(G)
    assert found.amplitude == pytest.approx(1000.0 * amplitude, rel=1e-3)
    still = flows * alpha * w0**2
    assert found.mean == pytest.approx(1000.0 * (K - still * (found.probability - alpha)), rel=1e-3)


def orbit(flows, width=1.0):
    """The averaged equations with a step of some width, written here; times in RTTs."""
    D = RTT + K / C

    def f(t, y, lag):
        w, alpha = y
        queue = flows * lag[0, 0] - C * RTT
        rtt = (RTT + queue / C) / D
        marked = 0.5 + 0.5 * np.tanh(0.5 * (queue - K) / width)
        return np.array([(1.0 - 0.5 * marked * alpha * w) / rtt, (marked - alpha) / 16.0 / rtt])

    w0 = (C * RTT + K) / flows
    start = [0.98 * w0, sqrt(2.0 / w0)]
    run = solve_dde(f, (0.0, 150.0), start, [1.0], rtol=1e-6, atol=1e-8, jit=False, dense_output=True)
    return periodic_orbit(f, [1.0], run.sol, intervals=40, degree=3, rtol=1e-6)


@pytest.mark.parametrize(
    "flows", [pytest.param(20, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.slow), 100]
)
def test_all_harmonics_are_the_periodic_orbit(flows):
    """Within 5 %: what the linear model of small deviations leaves out, and the width of the step."""
    found, seen = marking_cycle(over(), dumbbell(flows), harmonics=64), orbit(flows)
    assert 2.0 * found.amplitude == pytest.approx(2000.0 * flows * seen.amplitude[0], rel=0.05)
    assert found.period / (RTT + K / C) == pytest.approx(seen.period, rel=0.05)


def cycle_of(run, packet=1000.0):
    """Swing (99 % less 1 %) and period of the queue in the second half of a run."""
    t, q = run.queue["time"].to_numpy(), run.queue[:, 0].to_numpy() / packet
    late = q[t > 0.5 * t[-1]]
    strength = np.abs(np.fft.rfft(late - late.mean()))
    return np.subtract(*np.percentile(late, [99, 1])), 1.0 / np.fft.rfftfreq(len(late), t[1] - t[0])[strength.argmax()]


@pytest.mark.slow
@pytest.mark.parametrize("flows", [10, 20, 40, 100])
def test_dctcp_in_packets_swings_as_all_harmonics_say_and_not_as_the_first_does(flows):
    """Alizadeh et al. 2010 have sqrt(2 N (C D + K))/2 for flows that agree, ours has their linear averages."""
    swing, period = cycle_of(ecc.packet.simulate(Scenario(dumbbell(flows), over(), 1.0, seed=1), sample=5e-5))
    first, every = (marking_cycle(over(), dumbbell(flows), harmonics=n) for n in (1, 64))
    assert 2e-3 * every.amplitude == pytest.approx(swing, rel=0.17) and every.notes == ()
    assert every.period == pytest.approx(period, rel=0.17)
    assert 2e-3 * every.amplitude == pytest.approx(0.5 * sqrt(2.0 * flows * (C * RTT + K)), rel=0.05)
    assert 2e-3 * first.amplitude < (0.75 if flows == 100 else 0.6) * swing
    assert first.period == pytest.approx(4.0 * (RTT + K / C), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("flows", [10, 40, 100])
def test_newreno_in_packets_over_a_step_that_is_deep_enough(flows):
    deep = over(1000.0, NewReno(ecn=True))
    network = dumbbell(flows, 2e-4)
    swing, period = cycle_of(ecc.packet.simulate(Scenario(network, deep, 2.0, seed=1), sample=1e-4))
    every = marking_cycle(deep, network, harmonics=64)
    assert 2e-3 * every.amplitude == pytest.approx(swing, rel=0.17) and every.notes == ()
    assert every.period == pytest.approx(period, rel=0.11)
    assert marking_cycle(over(host=NewReno(ecn=True)), dumbbell(flows), harmonics=64).notes == (
        "the queue would empty on this cycle, which the estimate does not model",
    )


def red(k):
    """Unstable, clocked at a rate, from k = 8.6185 on (tests/loops/test_marked_hosts.py)."""
    return RED(mark=True, min_threshold=50.0, max_threshold=400.0, p_max=0.05, weight=2e-5 * k)


@pytest.mark.slow
def test_red_has_a_cycle_beyond_its_boundary_only():
    network = Network.dumbbell("30 Mb/s", [0.2] * 60)
    with pytest.raises(ConvergenceError, match="no cycle begins: the loop over RED is stable"):
        marking_cycle({"flows": NewReno(ecn=True), "links": red(8.5)}, network, clocking="rate")
    found = marking_cycle({"flows": NewReno(ecn=True), "links": red(8.7)}, network, clocking="rate")
    system = ecc.linearize({"flows": NewReno(ecn=True), "links": red(8.7)}, network, clocking="rate")
    assert 2.0 * pi / found.period == pytest.approx(abs(system.roots(1)[0].imag), rel=5e-3)
    assert found.amplitude > found.mean and found.notes


@pytest.mark.slow
@pytest.mark.parametrize("k", [20.0, 50.0, 200.0])
def test_beyond_its_boundary_red_swings_in_the_fluid_as_the_describing_function_says(k):
    """Clocked by ACKs: period within 2 %; swing within 2 % where the queue does not empty, else it is less."""
    network = Network.dumbbell("30 Mb/s", [0.2] * 60)
    pair = {"flows": NewReno(ecn=True), "links": red(k)}
    found = marking_cycle(pair, network)
    swing, period = cycle_of(ecc.fluid.simulate(Scenario(network, pair, 100.0), sample=2e-2))
    assert found.period == pytest.approx(period, rel=0.02)
    assert (1.0 if found.notes else 0.98) < 2e-3 * found.amplitude / swing < (1.09 if found.notes else 1.02)
    assert bool(found.notes) is (k < 100.0)


@pytest.mark.parametrize(
    ("protocol", "network", "options", "message"),
    [
        (QIRCP(), dumbbell(2), {}, "protocol must be a ProtocolAssignment or a mapping, each key a string, got QIRCP"),
        (over(), dumbbell(2), {"harmonics": 10**12}, "harmonics must be <= 1000, got 1000000000000"),
        (over(), Network.parking_lot(["10 Mb/s", "10 Mb/s"]), {}, "network must have one link, got 2"),
        ({"flows": NewReno()}, dumbbell(2), {}, "link 0 must have one discipline with a probability_law, got none"),
        ({"flows": NewReno(), "links": CoDel()}, dumbbell(2), {}, "with a probability_law, got CoDel"),
        (
            {"flows": NewReno(), "links": red(1.0)},
            dumbbell(2),
            {"harmonics": 3},
            "1 unless over StepMarking, got 3 over RED",
        ),
        (
            {"flows": NewReno(), "links": RED(adaptive=True)},
            dumbbell(2),
            {},
            "RED must choose by the queue or by its one state alone, got average, p_max",
        ),
    ],
)
def test_what_has_no_such_cycle_is_refused_in_one_line(protocol, network, options, message):
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        marking_cycle(protocol, network, **options)
    assert "\n" not in str(refused.value)


def test_an_integrator_that_nothing_bends_has_no_cycle():
    network = Network.dumbbell("30 Mb/s", [0.2] * 60)
    wild = PI(mark=True, a=4e-4, b=3.9e-4, reference=200.0)
    with pytest.raises(ConvergenceError, match="the law of PI does not stop an oscillation"):
        marking_cycle({"flows": NewReno(ecn=True), "links": wild}, network)
