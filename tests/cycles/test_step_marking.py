"""Cycles of windows over a marking threshold, against fluid runs, packets and closed forms."""

from math import sqrt

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.contract.assignment import read_protocol
from ecc.cycles.reference_cases import cycle_case
from ecc.cycles.step_marking import step_marking_cycle
from ecc.cycles.sum_and_differences import sum_and_differences
from ecc.cycles.switched_windows import SwitchedWindows, switched_cycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.models import DCTCP, NewReno, Prague
from ecc.queues import RED, DualPI2, StepMarking

SEGMENT, THRESHOLD, PIPE = 1500, 40.0, 10e9 * 100e-6 / 12e3


def dumbbell(n, threshold=THRESHOLD, **options):
    network = ecc.Network.dumbbell(10e9, [100e-6] * n, packet_size=SEGMENT, **options)
    return read_protocol({"flows": DCTCP(), "links": StepMarking(threshold=threshold, packet_size=SEGMENT)}), network


def period_of(queue, interval):
    """Return the lag of the first maximum of the autocorrelation [s]."""
    power = np.abs(np.fft.rfft(queue - queue.mean(), 2 * len(queue))) ** 2
    correlation = np.fft.irfft(power)[: len(queue)]
    negative = int(np.flatnonzero(correlation < 0.0)[0])
    return interval * (negative + int(correlation[negative : len(queue) // 2].argmax()))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 10])
def test_cycle_is_that_of_the_fluid(n):
    loop, network = dumbbell(n)
    cycle = step_marking_cycle(loop, network, "continuous")
    run = ecc.fluid.simulate(ecc.Scenario(network, loop, 0.04), sample=1e-6)
    queue = run.queue[20_000:, 0].to_numpy()
    assert 2.0 * cycle.amplitude == pytest.approx(float(np.ptp(queue)), rel=0.03)
    assert cycle.mean == pytest.approx(float(queue.mean()), rel=0.02)
    assert cycle.period == pytest.approx(period_of(queue, 1e-6), rel=0.03)
    assert cycle.stable
    assert len(cycle.multipliers) == 2 * n


def test_cycle_of_one_flow_follows_from_its_closed_form():
    cycle = step_marking_cycle(*dumbbell(1), "continuous")
    at_threshold = PIPE + THRESHOLD
    largest = sqrt(at_threshold**2 + 2.0 * at_threshold)  # a window of ACKs after the crossing
    assert cycle.orbit["queue"].max() / SEGMENT == pytest.approx(largest - PIPE, rel=1e-9)
    share = brentq(
        lambda a: a * a * (1.0 - 0.25 * a) - (2.0 * at_threshold + 1.0) / (at_threshold + 1.0) ** 2, 0.0, 1.0
    )
    swing = 2.0 * cycle.amplitude / SEGMENT  # alpha at the jump is less than its mean, by up to g in total
    assert 0.5 * largest * (share - 1.0 / 16.0) < swing < 0.5 * largest * share
    assert sorted(map(abs, cycle.multipliers))[0] == 0.0  # the jump begins at the same window in each cycle


def test_differences_shrink_by_the_reduction():
    cycle = step_marking_cycle(*dumbbell(2), "continuous")
    windows = cycle.orbit["windows"][0]
    assert cycle.dominant.real == pytest.approx(windows.min() / windows.max(), abs=0.002)


@pytest.mark.slow
def test_difference_of_two_flows_decays_in_packets_as_the_multiplier():
    starts = [0.0, 0.03]
    loop, network = dumbbell(2, starts=starts)
    cycle = step_marking_cycle(loop, network, "continuous")
    hosts = {"flows": DCTCP(transport="sack", initial=10.0), "links": loop.links["default"]}
    run = ecc.packet.simulate(ecc.Scenario(network, hosts, 0.06), sample=1e-5, record=["env.window"])
    windows, times = run.data["env.window"].to_numpy(), run.data["time"].to_numpy()
    width = round(cycle.period / 1e-5)
    difference = np.convolve(windows[:, 0] - windows[:, 1], np.full(width, 1.0 / width), "same")
    late = (times > 0.035) & (times < 0.055)
    slope = np.polyfit(times[late], np.log(difference[late]), 1)[0]
    assert np.exp(slope * cycle.period) == pytest.approx(cycle.dominant.real, abs=0.03)
    queue = run.queue[:3000, 0].to_numpy()[1000:]
    alone = step_marking_cycle(*dumbbell(1), "continuous")
    assert period_of(queue, 1e-5) == pytest.approx(alone.period, rel=0.03)


def test_rounds_repeat_those_of_the_fluid():
    loop, network = dumbbell(1)
    cycle = step_marking_cycle(loop, network, "discrete")
    run = ecc.fluid.simulate(ecc.Scenario(network, loop, 0.06), sample=1e-6, time="discrete")
    queue = run.queue[30_000:, 0].to_numpy()
    assert cycle.orbit["queue"].max() == pytest.approx(queue.max(), rel=0.002)
    assert cycle.orbit["queue"].min() == pytest.approx(queue.min(), rel=0.01)
    assert cycle.stable
    assert "111 rounds with 11 responses" in cycle.method


@pytest.mark.slow
def test_paced_windows_over_the_step_of_the_low_latency_queue():
    network = ecc.Network.dumbbell("400 Mb/s", ["5 ms"] * 2, packet_size=SEGMENT)
    loop = read_protocol({"flows": Prague(), "links": DualPI2()})
    cycle = step_marking_cycle(loop, network, "continuous")
    assert cycle.stable
    step = 400e6 * 1e-3 / 8.0
    assert cycle.orbit["queue"].min() < step < cycle.orbit["queue"].max() < 1.02 * step
    windows = cycle.orbit["windows"][0]
    assert cycle.dominant.real == pytest.approx(windows.min() / windows.max(), abs=0.01)
    with pytest.raises(LinearizationError, match="no marking threshold"):
        step_marking_cycle(read_protocol({"flows": DCTCP(), "links": DualPI2()}), network, "continuous")


@pytest.mark.slow
def test_the_note_of_a_cycle_of_paced_windows_has_another_cycle_that_smaller_states_reach():
    cycle = step_marking_cycle(*cycle_case(Prague()), "continuous")
    assert cycle.period == pytest.approx(0.2106, rel=1e-3)
    (note,) = [note for note in cycle.notes if "smaller alpha" in note]
    assert "a period of 0.2676 s and an amplitude of 1.342e+04 bytes" in note


@pytest.mark.slow
def test_orbit_of_paced_windows_has_the_multipliers_of_its_differences():
    def slope(values, D, marked):
        return np.array([1.0 - 0.5 * values[0] * values[1] * marked, (marked - values[1]) / 16.0])

    loop = SwitchedWindows(slope, None, lambda D: D, np.array([1.0, 9.0]), PIPE / 1e-4, 1e-4, 65.0)
    cycle = switched_cycle(loop, np.array([[15.0, 0.3]] * 2))
    assert cycle.period == pytest.approx(1.3484e-3, rel=1e-4)
    assert cycle.error < 1e-6
    assert abs(cycle.multipliers[0]) == pytest.approx(0.6116, abs=1e-4)
    assert np.sum(np.abs(np.abs(cycle.multipliers) - 0.3552) < 1e-4) == 1
    with pytest.raises(ConvergenceError, match="does not converge"):
        switched_cycle(loop, np.array([[15.0, 0.3]] * 2), cycles=1)


def test_multipliers_of_sum_and_differences():
    response = np.array([[[0.5]], [[-0.2]]])
    multipliers, error = sum_and_differences(response, np.array([1.0, 2.0]), 1.01 * response)
    np.testing.assert_allclose(multipliers, [0.7, 0.7, 0.1])
    assert error == pytest.approx(0.007)


def test_loops_of_another_form_are_declined():
    loop, network = dumbbell(2)
    with pytest.raises(LinearizationError, match="no queue discipline"):
        step_marking_cycle(DCTCP(), network, "continuous")
    with pytest.raises(LinearizationError, match="no marking threshold"):
        step_marking_cycle(read_protocol({"flows": DCTCP(), "links": RED(mark=True)}), network, "continuous")
    spread = ecc.Network.dumbbell(10e9, [1e-4, 2e-4], packet_size=SEGMENT)
    with pytest.raises(LinearizationError, match="equal RTTs"):
        step_marking_cycle(loop, spread, "continuous")
    pair = read_protocol({"flows": NewReno(ecn=True), "links": loop.links["default"]})
    with pytest.raises(LinearizationError, match="no window with a response to marks"):
        step_marking_cycle(pair, network, "continuous")
    loop, network = dumbbell(70)
    with pytest.raises(LinearizationError, match="two packets or less"):
        step_marking_cycle(loop, network, "continuous")


@pytest.mark.slow
def test_limit_cycle_asks_for_thresholds():
    cycle = ecc.stability.limit_cycle("DCTCP")
    assert "from a marked round to the next" in cycle.method
    assert cycle.period == pytest.approx(480e-6, rel=0.01)
