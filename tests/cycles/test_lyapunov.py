"""Lyapunov exponents of random maps whose exponents are known in closed form."""

from math import log as ln

import numpy as np
import pytest

from ecc.cycles.lyapunov import batch_intervals, lyapunov_exponents, paired_distances
from ecc.errors import LinearizationError
from ecc.laws.elementary import log, sqrt

DECREASE = 0.7


def losses_by_round(state, draws, p):
    """A window that grows by 1 per round, and is reduced with a constant probability."""
    return [DECREASE * state[0] if draws[0] < p else state[0] + 1.0]


def losses_by_packet(state, draws, p):
    """The window at the next loss, if each packet is lost with the probability p: it grows by 1 per window."""
    packets = -log(1.0 - draws[0]) / p
    return [sqrt(DECREASE * DECREASE * state[0] * state[0] + 2.0 * packets)]


def diagonal(state, draws, p):
    """Two uncoupled random walks with reflection of their logarithms, so that states stay finite."""
    return [
        (0.5 + draws[0]) * state[0] / (abs(state[0]) if abs(state[0]) > 1e100 else 1.0) + 1e-9 * draws[2],
        (0.1 + 0.2 * draws[1]) * state[1] + draws[2],
    ]


def mean_log(low, high):
    """Mean of log u for u uniform between low and high."""
    return (high * ln(high) - low * ln(low)) / (high - low) - 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "p", "state", "expected"),
    [
        (losses_by_round, 0.3, [10.0], 0.3 * ln(DECREASE)),
        (losses_by_packet, 0.001, [10.0], 2.0 * ln(DECREASE)),  # w' dw' = DECREASE^2 w dw, and E log w'/w = 0
    ],
)
def test_windows_with_independent_losses_forget_at_the_known_rate(law, p, state, expected):
    found = lyapunov_exponents(law, state, p, steps=5000, settling=100)
    (low, high), width = found.intervals[0], 0.06 * abs(expected)
    assert low < expected < high and high - low < 2.0 * width
    assert found.exponents[0] == lyapunov_exponents(law, state, p, steps=5000, settling=100).exponents[0]
    assert found.exponents[0] != lyapunov_exponents(law, state, p, steps=5000, settling=100, seed=5).exponents[0]


def test_the_spectrum_of_random_diagonal_matrices_is_the_mean_logarithm_of_their_entries():
    found = lyapunov_exponents(diagonal, [1.0, 1.0], draws=3, count=2, steps=4000, settling=100)
    for expected, (low, high) in zip([mean_log(0.5, 1.5), mean_log(0.1, 0.3)], found.intervals, strict=True):
        assert low < expected < high and high - low < 0.1


def test_intervals_of_95_percent_contain_the_exponent_in_about_95_percent_of_runs():
    values = [lyapunov_exponents(losses_by_round, [10.0], 0.3, steps=200, settling=20, seed=k) for k in range(50)]
    hits = sum(low < 0.3 * ln(DECREASE) < high for low, high in (run.intervals[0] for run in values))
    assert 43 <= hits <= 50


def test_chaos_has_a_positive_exponent_and_two_runs_part():
    def logistic(state, draws, p):
        return [4.0 * state[0] * (1.0 - state[0])]

    found = lyapunov_exponents(logistic, [0.3], draws=0, steps=8000)
    low, high = found.intervals[0]
    assert low < ln(2.0) < high and low > 0.6
    assert paired_distances(logistic, [0.3], [0.3 + 1e-9], draws=0, steps=60).max() > 0.1


def test_two_runs_with_the_same_draws_converge_at_the_exponent():
    distances = paired_distances(losses_by_packet, [20.0], [60.0], 0.001, steps=14)[:, 0]
    mean = np.mean(
        [
            np.log(paired_distances(losses_by_packet, [40.0], [40.001], 0.001, steps=10, seed=k)[[0, 10], 0])
            for k in range(200)
        ],
        axis=0,
    )
    assert distances[-1] < 1e-2
    assert (mean[1] - mean[0]) / 10 == pytest.approx(2.0 * ln(DECREASE), abs=0.1)


def test_states_that_drive_others_may_be_the_same_in_both_runs():
    def driven(state, draws, p):
        return [state[0], 0.5 * state[1] + state[0]]

    assert lyapunov_exponents(driven, [1.0, 1.0], draws=0, steps=50).exponents[0] == pytest.approx(0.0, abs=1e-9)
    found = lyapunov_exponents(driven, [1.0, 1.0], draws=0, steps=50, varied=[1])
    assert found.exponents[0] == pytest.approx(-ln(2.0), rel=1e-12)
    with pytest.raises(ValueError, match=r"^varied must have positions of continuous states, got \[2\]"):
        lyapunov_exponents(driven, [1.0, 1.0], draws=0, steps=50, varied=[2])


def test_a_map_that_forgets_at_once_has_the_exponent_minus_infinity():
    found = lyapunov_exponents(lambda state, draws, p: [draws[0]], [0.5], steps=50, settling=0)
    assert found.exponents[0] == -np.inf and found.intervals[0].tolist() == [-np.inf, -np.inf]


def test_batch_means_of_independent_numbers_have_the_known_width():
    series = np.random.default_rng(1).standard_normal((30_000, 2))
    half = np.diff(batch_intervals(series, 30))[:, 0] / 2.0
    assert half == pytest.approx(2.05 / np.sqrt(30_000), rel=0.35)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lyapunov_exponents(losses_by_round, [1.0], 0.1, count=2), "count must be <= 1, the number of var"),
        (lambda: lyapunov_exponents(losses_by_round, [1.0], 0.1, steps=20), r"batches must be <= steps \(20\), got 30"),
        (lambda: lyapunov_exponents(losses_by_round, [1.0], 0.1, batches=3), "batches must be >= 10, got 3"),
        (lambda: lyapunov_exponents(diagonal, [1.0], draws=3, steps=50), "diagonal .* fails|list index out of range"),
        (lambda: paired_distances(losses_by_round, [1.0], [1.0, 2.0], 0.1), "other must have 1 states, got"),
        (lambda: lyapunov_exponents(lambda s, u, p: [1.0, 2.0], [1.0], steps=50), "law must return 1 states, got 2"),
        (lambda: lyapunov_exponents(lambda s, u, p: [1.0 / (s[0] - s[0])], [1.0], steps=50), ".* fails on the orbit"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, IndexError, LinearizationError), match=message):
        make()
