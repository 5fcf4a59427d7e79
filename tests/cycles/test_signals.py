"""Periods, sections and return maps of signals that are known in closed form."""

import numpy as np
import pytest

from ecc.cycles.signals import (
    ReturnMap,
    bin_means,
    dead_beat,
    decay_text,
    decays,
    fitted_map,
    memory_maps,
    multipliers_of,
    period_of,
    profiles,
    remembered_map,
    sections_of,
)

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


def test_each_quantity_of_a_memory_has_its_own_multipliers():
    """A bound with small deviations that last, next to a rate with large ones that do not."""
    rng = np.random.default_rng(6)
    bound = np.zeros((2000, 2))
    for k in range(1, len(bound)):
        bound[k] = 0.9 * bound[k - 1] + 0.01 * rng.normal(size=2)
    memories = {
        "rate": 5.0 + rng.normal(size=(2000, 2)),
        "bound": 3.0 + bound,
        "unset bound": np.full((2000, 2), 1e300),
    }
    maps = memory_maps(memories)
    assert list(maps) == [f"{name}, {mode} of flows" for name in ("rate", "bound") for mode in ("sum", "differences")]
    assert maps["rate, sum of flows"].multipliers.tolist() == [0.0]
    slow = maps["bound, differences of flows"]
    assert abs(slow.multipliers[0] - 0.9) < 4.0 * slow.error
    assert multipliers_of(maps)[0].real == pytest.approx(0.9, abs=0.05)
    assert decays(maps)
    assert list(memory_maps({"rate": memories["rate"][:, :1]})) == ["rate, sum of flows"]


def test_uncertain_multipliers_are_left_out_next_to_certain_ones():
    certain, uncertain = (ReturnMap(np.array([value + 0j]), error, 40) for value, error in ((0.5, 0.05), (0.9, 0.3)))
    assert multipliers_of({"a": certain, "b": uncertain, "c": None}).tolist() == [0.5]
    assert multipliers_of({"b": uncertain}).tolist() == [0.9]
    assert multipliers_of({}).tolist() == []
    assert decays({"b": uncertain}) is None
    assert decays({"a": certain})
    assert decays({"a": ReturnMap(np.array([1.5 + 0j]), 0.1, 40)}) is False
    assert decay_text("sum of flows", certain) == "sum of flows: 0.500, standard error 0.05 from 40 pairs of periods"
    assert decay_text("sum of flows", None) == "sum of flows: no deviation above the noise, so no multiplier"
