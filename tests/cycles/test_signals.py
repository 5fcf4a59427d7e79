"""Periods, sections and return maps of signals that are known in closed form."""

import numpy as np
import pytest

from ecc.cycles.signals import bin_means, dead_beat, fitted_map, period_of, profiles, remembered_map, sections_of

PERIOD = 61.7


def sawtooth(times):
    """Two corners per period: a slow rise, a fall, a short rise."""
    phase = np.mod(times, PERIOD) / PERIOD
    return np.where(phase < 0.7, phase, np.where(phase < 0.8, 0.7 - 6.0 * (phase - 0.7), 0.1 + 0.5 * (phase - 0.8)))


def test_the_period_of_a_sawtooth_with_several_corners():
    signal = sawtooth(np.arange(3000.0))
    assert period_of(signal, 0.9) == pytest.approx(PERIOD, rel=1e-2)
    sections = sections_of(signal, period_of(signal, 0.9))
    assert sections.period == pytest.approx(PERIOD, rel=1e-3)
    assert np.diff(sections.starts) == pytest.approx(PERIOD, abs=0.5)


def test_a_motion_near_an_approximate_period_is_found_next_to_a_shorter_one():
    times = np.arange(4000.0)
    signal = np.sin(2.0 * np.pi * times / 40.0) + 0.2 * np.sin(2.0 * np.pi * times / 200.0)
    assert period_of(signal, 0.5) == pytest.approx(40.0, rel=0.02)
    assert period_of(signal, 0.5, near=180.0) == pytest.approx(200.0, rel=0.01)
    assert np.isnan(period_of(signal, 0.5, near=58.0))
    assert np.isnan(period_of(signal, 0.5, near=1e6))


def test_signals_without_a_period_have_none():
    assert np.isnan(period_of(np.ones(400), 0.5))
    assert np.isnan(period_of(np.linspace(0.0, 1.0, 400), 0.5))
    assert np.isnan(period_of(np.random.default_rng(1).normal(size=2000), 0.5))


def test_bins_and_profiles_of_a_ramp_are_exact():
    series = np.arange(300.0)[:, None]
    starts = np.array([10.3, 71.9])
    rows = profiles(series, starts, 60.0, 4)[:, :, 0]
    assert rows == pytest.approx(starts[:, None] + [0.0, 15.0, 30.0, 45.0])
    # A sample is the mean over the time that ends with it, so that means over bins are those of the ramp plus a half.
    means = bin_means(series, starts, 60.0, 4)[:, :, 0]
    assert means == pytest.approx(rows + 7.5 + 0.5, abs=0.3)


@pytest.mark.parametrize("multiplier", [0.5, -0.6, 0.97, 0.4 + 0.5j])
def test_the_map_of_a_decaying_deviation_has_its_multiplier(multiplier):
    rng = np.random.default_rng(2)
    shape = rng.normal(size=8) + 1j * rng.normal(size=8) * (np.imag(multiplier) != 0.0)
    rows = np.array([0.2 * np.real(multiplier**k * shape) for k in range(14)]) + 1e-5 * rng.normal(size=(14, 8))
    fitted = fitted_map([rows], 5e-5, 2.0)
    assert abs(fitted.multipliers[0]) == pytest.approx(abs(multiplier), abs=0.02)
    assert fitted.multipliers[0].real == pytest.approx(np.real(multiplier), abs=0.02)


def test_a_deviation_that_is_gone_after_a_period_is_dead_beat():
    rng = np.random.default_rng(3)
    rows = 1e-3 * rng.normal(size=(10, 4))
    assert fitted_map([rows], 3e-3, 1.0) is None
    rows[0] += 0.3
    fitted = dead_beat([rows], 3e-3)
    assert fitted.multipliers.tolist() == [0.0]
    assert fitted.error < 0.05
    assert dead_beat([rows[1:]], 3e-3) is None
    assert fitted_map([rows], 3e-3, 1.0).multipliers.tolist() == [0.0]


@pytest.mark.parametrize("multiplier", [0.8, 0.95])
def test_a_memory_with_a_forgotten_part_has_the_multiplier_of_the_other(multiplier):
    rng = np.random.default_rng(4)
    kept = np.zeros(4000)
    for k in range(1, len(kept)):
        kept[k] = multiplier * kept[k - 1] + rng.normal()
    rows = 10.0 + np.column_stack([kept, -kept]) + 0.5 * rng.normal(size=(4000, 2))
    fitted = remembered_map(rows)
    assert abs(fitted.multipliers[0] - multiplier) < 4.0 * fitted.error
    assert fitted.error < 0.03


def test_a_memory_without_correlation_is_dead_beat():
    rng = np.random.default_rng(5)
    fitted = remembered_map(rng.normal(size=(400, 2)))
    assert fitted.multipliers.tolist() == [0.0]
    assert fitted.error == pytest.approx(0.1)
    assert remembered_map(np.ones((400, 2))) is None
    assert remembered_map(rng.normal(size=(10, 2))) is None
