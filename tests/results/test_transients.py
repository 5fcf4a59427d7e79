"""Measures of signals that are known in closed form, and of runs."""

import doctest
import re
from importlib import import_module

import numpy as np
import pytest

import ecc
from ecc.results.transients import decay, limit_cycle, overshoot, response, settling_time, why_no_limit_cycle

TIME = np.arange(0.0, 40.0, 0.02)


@pytest.mark.parametrize("damping", [0.2, 0.5])
def test_step_of_a_second_order_system(damping):
    """Overshoot exp(-pi zeta / sqrt(1 - zeta^2)), and between the envelopes of the last extremes outside the band."""
    omega = np.sqrt(1.0 - damping**2)
    step = 1.0 - np.exp(-damping * TIME) * (np.cos(omega * TIME) + damping / omega * np.sin(omega * TIME))
    assert overshoot(step, 1.0) == pytest.approx(np.exp(-np.pi * damping / omega), rel=1e-3)
    settled = settling_time(TIME, step, 1.0, 0.05)
    assert np.abs(step[settled + 0.02 < TIME] - 1.0).max() <= 0.05
    assert np.interp(settled, TIME, np.abs(step - 1.0)) == pytest.approx(0.05, rel=1e-2)
    found = decay(TIME, step - 1.0)
    assert (found.rate, found.frequency) == pytest.approx((-damping, omega), rel=1e-6)
    assert found.period == pytest.approx(2.0 * np.pi / omega, rel=1e-6)
    assert found.share < 1e-9
    assert limit_cycle(TIME, step) is None


def test_settling_times_at_the_edges():
    assert settling_time(TIME, np.ones_like(TIME), 1.0) == 0.0
    assert settling_time(TIME, TIME, 100.0) == np.inf
    assert settling_time(5.0 + TIME, -np.exp(-TIME) - 1.0, -1.0, 0.1) == pytest.approx(np.log(10.0), rel=1e-3)
    assert settling_time(TIME, np.exp(-TIME), 0.0, 0.1, scale=2.0) == pytest.approx(np.log(5.0), rel=1e-3)


def test_overshoot_from_above():
    assert overshoot([2.0, 1.0, 0.7, 1.0], 1.0) == pytest.approx(0.3)
    assert overshoot([2.0, 1.5, 1.0], 1.0) == 0.0


def test_decay_without_oscillation_and_growth():
    found = decay(TIME, 3.0 * np.exp(-0.7 * TIME) - np.exp(-2.0 * TIME))
    assert found.rate == pytest.approx(-0.7, rel=1e-6) and found.frequency == 0.0 and found.period == np.inf
    assert decay(TIME, 1e-6 * np.exp(0.2 * TIME) * np.sin(3.0 * TIME)).rate == pytest.approx(0.2, rel=1e-6)
    assert np.isnan(decay(TIME, np.zeros_like(TIME)).rate)


def test_a_small_slow_mode_counts_only_if_it_is_seen():
    wave = np.exp(-TIME) + 1e-5 * np.exp(-0.1 * TIME)
    assert decay(TIME[:200], wave[:200]).rate == pytest.approx(-1.0, rel=1e-6)
    assert decay(TIME[:200], wave[:200], least=1e-6).rate == pytest.approx(-0.1, rel=1e-4)


@pytest.mark.parametrize("approach", [-0.1, -0.3])
def test_a_cycle_and_the_way_to_it(approach):
    time = np.arange(0.0, 100.0, 0.02)
    wave = 5.0 + (2.0 - np.exp(approach * time)) * np.cos(4.0 * time)
    found = limit_cycle(time, wave)
    assert found.period == pytest.approx(np.pi / 2.0, rel=1e-3)
    assert found.amplitude == pytest.approx(2.0, rel=2e-2)
    assert found.level == pytest.approx(5.0, abs=5e-2)
    assert found.multiplier == pytest.approx(np.exp(approach * np.pi / 2.0), rel=1e-2)


def test_no_cycles():
    assert limit_cycle(TIME, np.exp(0.2 * TIME) * np.cos(4.0 * TIME)) is None
    assert limit_cycle(TIME, np.random.default_rng(1).normal(size=len(TIME))) is None
    assert limit_cycle(TIME, np.ones_like(TIME)) is None


def test_responses_of_runs():
    network = ecc.Network.dumbbell("100 Mb/s", [0.1])
    calm = ecc.fluid.simulate(ecc.Scenario(network, ecc.models.QIRCP(alpha=0.6), 20.0), sample=0.02, time="discrete")
    found = response(calm, 95e6)
    assert found["status"].item() == "settled" and 0.0 < found["settling_time"].item() < 10.0
    assert found["overshoot"].item() == pytest.approx(calm.rate.max().item() / 95e6 - 1.0)
    assert np.isnan(found["period"].item())
    wild = ecc.fluid.simulate(ecc.Scenario(network, ecc.models.QIRCP(alpha=2.5), 40.0), sample=0.01, time="discrete")
    found = response(wild, 95e6)
    assert found["status"].item() == "cycles" and found["settling_time"].item() == np.inf
    assert 0.2 < found["period"].item() < 0.8 and found["amplitude"].item() > 5e6
    links = response(calm, 95e6, "arrival", since=2.0)
    assert links["settling_time"].dims == ("link",)


@pytest.mark.parametrize(
    ("signal", "why"),
    [
        (np.sin(TIME), None),
        (np.ones_like(TIME), "it has converged: its second half is 1, but for rounding"),
        (np.exp(-TIME) * np.sin(TIME), "cycles differ by|times, and 4 are needed"),
        (TIME, "times, and 4 are needed"),
    ],
)
def test_where_there_is_no_cycle_there_is_a_reason(signal, why):
    found = why_no_limit_cycle(TIME, signal)
    assert (limit_cycle(TIME, signal) is None) == (found is not None)
    assert found is None if why is None else re.search(why, found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: settling_time(TIME, TIME[1:], 1.0), "time and signal must have one shape"),
        (lambda: settling_time(-TIME, TIME, 1.0), "time must increase"),
        (lambda: settling_time(TIME, TIME, 0.0), "final must be finite and not 0, got 0.0"),
        (lambda: settling_time(TIME, TIME, 1.0, 0.0), "band must be > 0, got 0.0"),
        (lambda: settling_time(TIME, TIME, 0.0, scale=0.0), "scale must be > 0, got 0.0"),
        (lambda: settling_time(TIME, np.full_like(TIME, np.nan), 1.0), "signal must be an array of finite numbers"),
        (lambda: overshoot([], 1.0), "signal must be of shape"),
        (lambda: overshoot([1.0], 0.0), "final must be finite and not 0"),
        (lambda: decay(TIME**2, TIME), "time must be evenly spaced"),
        (lambda: decay(TIME[:20], TIME[:20]), "modes must be >= 1 and at most a quarter of the 20 samples, got 6"),
    ],
)
def test_bad_signals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_responses():
    network = ecc.Network.dumbbell("100 Mb/s", [0.1])
    run = ecc.fluid.simulate(ecc.Scenario(network, ecc.models.QIRCP(), 1.0), time="discrete")
    with pytest.raises(ValueError, match="series must be one of rate, .*, got 'speed'"):
        response(run, 1.0, "speed")
    with pytest.raises(ValueError, match="since must be before the last two samples, got 3.0 s"):
        response(run, 1.0, since=3.0)
    with pytest.raises(ValueError, match=r"final must be one value or 1, got shape \(2,\)"):
        response(run, [1.0, 2.0])


@pytest.mark.parametrize("module", ["transients", "fluid.ensembles", "fluid.dde.periodic"])
def test_the_examples_are_true(module):
    found = doctest.testmod(import_module(f"ecc.{module}"), extraglobs={"ecc": ecc, "np": np})
    assert found.attempted > 0 and found.failed == 0
