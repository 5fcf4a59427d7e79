"""Cycles of windows that follow reports of a load: by hand, against the fluid engine and against packets."""

import numpy as np
import pytest

import ecc
from ecc.cycles.load_reports import load_report_cycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.models import ABC, UTIL, VCP, NewReno
from ecc.network.network import Network
from ecc.stability import limit_cycle


def network(n=4, capacity="100 Mb/s", rtt=0.1, size=1500, **options):
    return Network.dumbbell(capacity, rtts=[rtt] * n, packet_size=size, **options)


def loads_of(cycle):
    """Return the minimum and maximum load that the note of a cycle reports."""
    note = next(note for note in cycle.notes if note.startswith("the load"))
    return [float(word) for word in note.split() if word.replace(".", "").isdigit()]


def test_the_cycle_of_vcp_by_hand():
    """AI adds alpha D/T packets per flow in an interval; MD leaves beta of the windows two intervals after 98 %."""
    cycle = limit_cycle(VCP(), network(8))
    growth = 8 * 0.1 / 0.2 * 12_000.0 / (100e6 * 0.1)  # load per interval
    lost = 0.125 * (0.98 + growth)  # MD comes half an interval after a tick at 98 % to 98 % and a growth
    assert cycle.period == pytest.approx(0.2 * (lost / growth + 1.0), rel=0.01)  # windows are constant for T after it
    low, high = loads_of(cycle)
    assert 0.98 < high < 0.98 + growth + 1e-4
    assert low == pytest.approx(0.875 * high, abs=growth)
    assert cycle.mean == cycle.amplitude == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_all_multipliers_of_vcp_are_its_decrease(time):
    cycle = limit_cycle(VCP(beta=0.8), network(10, rtt=0.06), time)
    assert cycle.multipliers == pytest.approx(np.full(10, 0.8), abs=1e-6)
    assert (cycle.along, cycle.stable, cycle.time) == (0, True, time)


@pytest.mark.slow
def test_decreases_make_rates_equal_for_any_rtts():
    """AI in proportion to D^2 per RTT gives the rates of all RTTs the same growth."""
    net = Network.dumbbell("20 Mb/s", rtts=[0.1, 0.2], packet_size=1000)
    cycle = limit_cycle(VCP(), net)
    assert cycle.multipliers == pytest.approx(np.full(2, 0.875), abs=1e-6)
    rates = cycle.orbit["windows"].mean(axis=1) / net.rtts
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def measured(run, capacity):
    """Return the mean period [s] of the load, as means over 200 ms, and its bounds in the second half of a run."""
    load = run.arrival.to_numpy()[len(run.arrival) // 2 :, 0] / capacity
    load = np.convolve(load, [0.5, 0.5], "valid")
    low, high = load.min(), load.max()
    above, falls = False, []
    for k, value in enumerate(load):
        if value > low + 0.8 * (high - low):
            above = True
        elif above and value < low + 0.3 * (high - low):
            above = False
            falls.append(k)
    return 0.1 * float(np.diff(falls).mean()), low, high


CASES = [(network(), 200.0), (network(1, "20 Mb/s", 0.08, 1000), 190.0), (network(10, rtt=0.06), 40.0)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fluid", "packet"])
@pytest.mark.parametrize(("net", "initial"), CASES, ids=["four flows", "one flow", "ten flows"])
def test_period_and_load_are_those_of_runs(net, initial, engine):
    cycle = limit_cycle(VCP(), net)
    run = getattr(ecc, engine).simulate(ecc.Scenario(net, VCP(initial=initial), 240.0), sample=0.1)
    period, low, high = measured(run, net.capacities[0])
    assert period == pytest.approx(cycle.period, rel=0.03)
    assert [low, high] == pytest.approx(loads_of(cycle), rel=0.05)  # samples are not aligned with intervals
    assert high - low == pytest.approx(np.diff(loads_of(cycle))[0], rel=0.3)


@pytest.mark.slow
def test_rounds_are_those_of_the_fluid_in_discrete_time():
    net, initial = CASES[0]
    cycle = limit_cycle(VCP(), net, "discrete")
    run = ecc.fluid.simulate(ecc.Scenario(net, VCP(initial=initial), 240.0), sample=0.1, time="discrete")
    assert measured(run, net.capacities[0])[0] == pytest.approx(cycle.period, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fluid", "packet"])
def test_differences_decay_by_the_decrease(engine):
    """A flow joins after 20 s; rates differ by 7/8 of it after each cycle."""
    net = network(2, "20 Mb/s", size=1000, starts=[0.0, 20.0])
    cycle = limit_cycle(VCP(), net)
    run = getattr(ecc, engine).simulate(ecc.Scenario(net, VCP(initial=120.0), 140.0), sample=0.1)
    rates = run.rate.to_numpy()
    n = round(cycle.period / 0.1)
    means = rates[400 : 400 + 14 * n].reshape(14, n, 2).mean(axis=1)
    gap = np.abs(means[:, 0] - means[:, 1])
    assert gap[0] > 1e6
    last = int(np.flatnonzero(gap > 0.2 * gap[0])[-1])
    assert (gap[last] / gap[0]) ** (1.0 / last) == pytest.approx(0.875, abs=0.03)


def test_util_comes_to_rest_between_its_regions():
    for time in ("continuous", "discrete"):
        with pytest.raises(LinearizationError, match="windows come to rest between the levels of its reports$"):
            limit_cycle(UTIL(), network(), time)


def test_small_windows_of_util_jump_over_the_set_in_rounds():
    """Four packets per window: a packet more is a quarter of the load, and the set is 0.2 wide."""
    cycle = limit_cycle(UTIL(), network(20, "10 Mb/s"), "discrete")
    assert (len(cycle.multipliers), cycle.along, cycle.stable) == (0, 20, True)
    low, high = loads_of(cycle)
    assert low < 0.8 * 0.98 and high > 0.98
    assert cycle.amplitude > 0.0


def test_small_windows_of_util_rest_from_some_starts_only():
    with pytest.raises(ConvergenceError, match="windows come to rest from some starts, and oscillate from others"):
        load_report_cycle(UTIL(), network(20, "10 Mb/s"), "continuous")


def test_refusals():
    with pytest.raises(LinearizationError, match="its routers announce no levels of a load to windows"):
        load_report_cycle(NewReno(), network(), "continuous")
    with pytest.raises(LinearizationError, match="its routers announce levels that depend on q"):
        load_report_cycle(ABC(), network(), "discrete")
    with pytest.raises(LinearizationError, match="its cycle is computed on one link"):
        load_report_cycle(VCP(), Network.parking_lot(["10 Mb/s"] * 2), "continuous")
    with pytest.raises(LinearizationError, match="its windows build a queue, which is modeled for equal RTTs only"):
        load_report_cycle(VCP(gamma=1.1), Network.dumbbell("20 Mb/s", rtts=[0.1, 0.2], packet_size=1000), "continuous")
