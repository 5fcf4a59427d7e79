"""Cycles of windows that respond to delays and marks, against fluid runs."""

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import read_protocol
from ecc.cycles.delayed_windows import delayed_window_cycle
from ecc.cycles.reference_cases import cycle_case
from ecc.errors import LinearizationError
from ecc.models import DCTCP, NSCC

BDP = 150e3  # 100 Gb/s, 12 us


def case(n):
    loop, _ = cycle_case(NSCC())
    return loop, ecc.Network.dumbbell("100 Gb/s", ["12 us"] * n, packet_size=4096)


@pytest.mark.slow
def test_cycle_is_that_of_the_fluid():
    loop, network = case(4)
    cycle = delayed_window_cycle(loop, network, "continuous")
    run = ecc.fluid.simulate(ecc.Scenario(network, loop, 0.012), sample=1e-6)
    queue = run.queue[6000:, 0].to_numpy()
    assert 2.0 * cycle.amplitude == pytest.approx(float(np.ptp(queue)), rel=0.03)
    assert cycle.mean == pytest.approx(float(queue.mean()), rel=0.01)
    rises = np.flatnonzero((queue[:-1] <= cycle.mean) & (queue[1:] > cycle.mean))
    assert cycle.period == pytest.approx(float(np.diff(rises).mean()) * 1e-6, rel=0.01)
    assert cycle.stable
    assert abs(cycle.dominant) == pytest.approx(0.889, abs=0.01)  # of differences between windows
    assert np.sum(np.abs(np.abs(cycle.multipliers) - 0.889) < 0.01) == 3


def test_rounds_come_to_rest_with_all_packets_marked():
    loop, network = case(4)
    cycle = delayed_window_cycle(loop, network, "discrete")
    run = ecc.fluid.simulate(ecc.Scenario(network, loop, 0.012), sample=1e-6, time="discrete")
    assert cycle.mean == pytest.approx(float(run.queue[-1, 0]), rel=0.003)
    assert cycle.amplitude < 1e-3 * cycle.mean
    assert cycle.stable
    assert "at its point of rest" in cycle.method
    assert cycle.dominant.real == pytest.approx(0.982, abs=0.001)
    (alone,) = {delayed_window_cycle(*case(1), "discrete").mean}
    assert alone == pytest.approx(0.5 * BDP, rel=1e-6)  # at the maximum window


@pytest.mark.slow
def test_one_flow_comes_to_rest_at_its_maximum_window():
    with pytest.raises(LinearizationError, match="comes to rest"):
        delayed_window_cycle(*case(1), "continuous")


def test_loops_of_another_form_are_declined():
    loop, network = case(2)
    with pytest.raises(LinearizationError, match="no queue discipline"):
        delayed_window_cycle(NSCC(), network, "discrete")
    with pytest.raises(LinearizationError, match="takes no delay"):
        pair = read_protocol({"flows": DCTCP(), "links": loop.links["default"]})
        delayed_window_cycle(pair, network, "discrete")
    spread = ecc.Network.dumbbell("100 Gb/s", ["12 us", "10 us"], packet_size=4096)
    with pytest.raises(LinearizationError, match="one protocol and equal RTTs"):
        delayed_window_cycle(loop, spread, "discrete")
