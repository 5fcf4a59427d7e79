"""Means with confidence intervals."""

import numpy as np
import pytest

from ecc._support.intervals import mean_with_interval


def test_an_interval_contains_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(3.0, 2.0, (20_000, 4))
    means, half_widths = mean_with_interval(draws, 1, 0.9)
    assert np.mean(abs(means - 3.0) <= half_widths) == pytest.approx(0.9, abs=0.01)


def test_missing_values_are_left_out():
    nan = np.nan
    values = np.array([[1.0, 2.0, nan, 3.0], [nan, 5.0, nan, nan], [nan] * 4, [7.0] * 4])
    means, half_widths = mean_with_interval(values, 1, 0.95)
    assert np.array_equal(means, [2.0, 5.0, nan, 7.0], equal_nan=True)
    assert half_widths[0] == pytest.approx(4.302652729911275 / np.sqrt(3.0))
    assert np.isnan(half_widths[1:3]).all() and half_widths[3] == 0.0
