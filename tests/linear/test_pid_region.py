"""Stabilizing regions and tuning of PI and PID controllers: closed forms, counts of roots, brute force."""

from __future__ import annotations

from math import cos, pi, sin, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq

from ecc.errors import ConvergenceError
from ecc.linear import DelayModel, distributed_delay, pid, pid_region, transfer_function, tune_pid

LAG = transfer_function([1.0], [1.0, 1.0], 1.0)
INTEGRATOR = transfer_function([1.0], [1.0, 0.0], 1.0)


def lag_limit(gain: float, lag: float, dead_time: float) -> float:
    """Upper end of kp for k exp(-L s)/(T s + 1): (T/(k L)) sqrt(z^2 + (L/T)^2), tan z = -(T/L) z, pi/2 < z < pi.

    A root at s = j z/L without integral action: 1 + j z T/L = -k kp exp(-j z), of which the phase gives tan z = -z T/L.
    `kp_range` holds for all ki, so that the tests also show that no ki > 0 exceeds the limit.
    """
    ratio = lag / dead_time
    z = brentq(lambda z: sin(z) + ratio * z * cos(z), pi / 2, pi, xtol=1e-15)
    return ratio / gain * sqrt(z**2 + 1.0 / ratio**2)


@pytest.mark.parametrize(("gain", "lag", "dead_time"), [(1.0, 1.0, 1.0), (2.0, 10.0, 1.0), (0.5, 1.0, 5.0)])
def test_range_of_kp_for_a_lag_with_dead_time(gain, lag, dead_time):
    """The range of kp is (-1/k, limit), for plants with any ratio of lag and dead time."""
    region = pid_region(transfer_function([gain], [lag, 1.0], dead_time))
    low, high = region.kp_range
    assert low == pytest.approx(-1.0 / gain, rel=1e-9)
    assert high == pytest.approx(lag_limit(gain, lag, dead_time), rel=1e-12)
    assert [cell.unstable for cell in region.stable_cells] == [0]


def test_range_of_ki_for_a_lag_with_dead_time():
    """At fixed kp, ki is stable up to the first crossing; 0.1 % inside and outside the curve."""
    region = pid_region(LAG)
    z = brentq(lambda z: cos(z) - z * sin(z) + 0.5, 0.1, 2.0)  # kp = -cos z + z sin z = 0.5
    limit = z * (sin(z) + z * cos(z))
    assert region.certify(0.5, 0.999 * limit).stable is True
    assert region.certify(0.5, 1.001 * limit).unstable == 2
    assert region.is_stable_in(0.5, (0.001 * limit, 0.999 * limit)) is True
    assert region.is_stable_in(0.5, (0.9 * limit, 1.001 * limit)) is False


def test_integrator_with_dead_time():
    """exp(-s)/s: kp between 0 and pi/2; on the boundary kp = w sin w, ki = w^2 cos w."""
    region = pid_region(INTEGRATOR)
    assert region.kp_range == (pytest.approx(0.0, abs=1e-6), pytest.approx(pi / 2, rel=1e-12))
    w = region.omega[1:]
    np.testing.assert_allclose(region.boundary_kp[1:], w * np.sin(w), atol=1e-12)
    np.testing.assert_allclose(region.boundary_ki[1:], w**2 * np.cos(w), atol=1e-11)


def test_polynomials_without_delay():
    """1/(s + 1)^3: kp from -1 to 8, and ki < (8 - kp)(1 + kp)/9 by Hurwitz' criterion; areas of the cells."""
    region = pid_region(transfer_function([1.0], [1.0, 3.0, 3.0, 1.0]))
    assert region.kp_range == (pytest.approx(-1.0), pytest.approx(8.0))
    (cell,) = region.stable_cells
    assert cell.area == pytest.approx(13.5, rel=1e-3)  # the integral of (8 - kp)(1 + kp)/9
    assert region.is_stable_in((1.0, 2.0), (0.1, 1.2)) is True
    assert region.is_stable_in((1.0, 2.0), (0.1, 1.6)) is False


def test_unstable_plant_and_negative_gain():
    """1/(s - 1) needs kp > 1; a plant of negative gain has the mirrored region."""
    assert pid_region(transfer_function([1.0], [1.0, -1.0], 0.3)).kp_range[0] == pytest.approx(1.0)
    mirrored = pid_region(transfer_function([-1.0], [1.0, 1.0], 1.0))
    assert mirrored.kp_range == pytest.approx((-lag_limit(1.0, 1.0, 1.0), 1.0))
    assert mirrored.stable_cells[0].ki < 0.0


def test_derivative_action_stabilizes_a_double_integrator():
    """No PI controller stabilizes exp(-0.1 s)/s^2; a PID controller does."""
    plant = transfer_function([1.0], [1.0, 0.0, 0.0], 0.1)
    assert pid_region(plant).kp_range is None
    region = pid_region(plant, kd=3.0, tf=0.02)
    assert region.kp_range is not None
    cell = region.stable_cells[0]
    assert (plant * pid(cell.kp, cell.ki, 3.0, 0.02)).feedback().is_stable


def unstable_by_nyquist(plant: DelayModel, controller: DelayModel, poles: int) -> int:
    """Count by the argument of 1 + L along a fine mesh of the axis, with an integrator indented to the right."""
    w = np.union1d(np.geomspace(1e-5, 400.0, 60_000), np.linspace(1e-3, 60.0, 60_000))
    s = 1j * w
    angle = np.unwrap(np.angle(1.0 + plant(s) * controller(s)))
    arc = 1e-5 * np.exp(1j * np.linspace(0.0, pi / 2, 200))
    small = np.unwrap(np.angle(1.0 + plant(arc) * controller(arc)))
    turns = (angle[-1] - angle[0] + small[-1] - small[0]) / pi
    return poles - round(float(turns))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_cells_agree_with_nyquist_on_random_plants(seed):
    rng = np.random.default_rng(seed)
    poles = -rng.uniform(0.2, 3.0, size=rng.integers(1, 4))
    plant = transfer_function(rng.uniform(0.5, 2.0, 1), np.poly(poles), float(rng.uniform(0.1, 1.0)))
    region = pid_region(plant)
    assert sum(cell.area for cell in region.cells) == pytest.approx(
        (region.kp[1] - region.kp[0]) * (region.ki[1] - region.ki[0]), rel=1e-2
    )
    for cell in region.cells:
        if cell.area > 1e-3 * region.cells[0].area:
            assert cell.unstable == unstable_by_nyquist(plant, region.controller(cell.kp, cell.ki), 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_points_and_boxes_agree_with_certificates(seed):
    """Points of polygons of stable cells are stable; boxes around the boundary are never called stable."""
    rng = np.random.default_rng(100 + seed)
    order = int(rng.integers(1, 5))
    poles = -rng.uniform(0.1, 4.0, size=order).astype(complex)
    if order >= 2 and rng.random() < 0.5:
        poles[:2] = rng.uniform(-1.0, -0.05) + 1j * rng.uniform(0.5, 3.0) * np.array([1.0, -1.0])
    if rng.random() < 0.3:
        poles[-1] = 0.0 if rng.random() < 0.5 or poles[-1].imag else 0.3
    plant = transfer_function([1.0], np.real(np.poly(poles)), float(rng.uniform(0.05, 0.5)))
    kd = float(rng.choice([0.0, 0.1]))
    region = pid_region(plant, kd, 0.02 if kd else 0.0)
    for cell in region.stable_cells[:2]:
        for _ in range(3):
            kp, ki = cell.polygons[int(rng.integers(len(cell.polygons)))]
            k = int(rng.integers(5, 30))
            at = kp[k], 0.5 * (ki[k] + ki[len(ki) - 1 - k])
            if min(abs(ki[k] - at[1]), abs(at[1])) > 1e-3 * (region.ki[1] - region.ki[0]):
                assert region.certify(*at).unstable == 0
    inside = np.flatnonzero(
        (region.boundary_kp > region.kp[0])
        & (region.boundary_kp < region.kp[1])
        & (region.boundary_ki > region.ki[0])
        & (region.boundary_ki < region.ki[1])
    )
    for k in rng.choice(inside, 3).tolist():
        kp, ki = float(region.boundary_kp[k]), float(region.boundary_ki[k])
        r_p, r_i = 1e-3 * (region.kp[1] - region.kp[0]), 1e-3 * (region.ki[1] - region.ki[0])
        assert region.is_stable_in((kp - r_p, kp + r_p), (ki - r_i, ki + r_i)) is not True


@pytest.mark.slow
def test_boxes_of_plants():
    """k = 0.5, ki = 0.4 for intervals of gain and dead time; refuted beyond the gain margin and the delay margin."""
    region = pid_region(LAG)
    margins = region.loop(0.5, 0.4).margins()
    assert region.is_stable_in(0.5, 0.4, gain=(0.5, 0.99 * margins.gain_margin)) is True
    assert region.is_stable_in(0.5, 0.4, gain=(0.5, 1.01 * margins.gain_margin)) is False
    assert region.is_stable_in(0.5, 0.4, delay=(-1.0, 0.99 * margins.delay_margin)) is True
    assert region.is_stable_in(0.5, 0.4, delay=(0.0, 1.01 * margins.delay_margin)) is False
    sensitivity = 1.0 / margins.modulus_margin
    assert region.is_stable_in(0.5, 0.4, max_sensitivity=1.001 * sensitivity) is True
    assert region.is_stable_in(0.5, 0.4, max_sensitivity=0.999 * sensitivity) is False
    assert region.is_stable_in((0.4, 0.6), (0.0, 0.3)) is not True  # ki = 0 is a boundary


@pytest.mark.parametrize(
    ("plant", "kd"),
    [
        (LAG, 0.0),
        (INTEGRATOR, 0.0),
        (transfer_function([-2.0], [6.0, 5.0, 1.0], 0.5), 0.0),
        (LAG, 0.2),
    ],
)
def test_tuning_is_the_maximum_of_a_grid(plant, kd):
    """No gains of a grid around the optimum have a larger ki and a smaller maximum sensitivity."""
    tuned = tune_pid(plant, 1.6, kd if plant is LAG else 0.0, 0.05 if kd else 0.0)
    assert tuned.certificate.stable is True
    assert tuned.max_sensitivity <= 1.6 * (1.0 + 1e-7)
    assert tuned.max_sensitivity == pytest.approx(1.6, rel=1e-3)
    w = np.geomspace(1e-3, 100.0, 4000)
    response = plant(1j * w)
    for kp in tuned.kp * np.linspace(0.5, 1.5, 201):
        ki = tuned.ki * 1.002
        controller = kp + ki / (1j * w) + tuned.kd * 1j * w / (tuned.tf * 1j * w + 1.0)
        assert np.abs(1.0 + response * controller).min() < 1.0 / 1.6


def test_tuning_for_intervals_of_gain_and_dead_time():
    """The bound holds at corners, and the box is proven stable."""
    tuned = tune_pid(LAG, 1.6, gain=(0.8, 1.25), delay=(-0.2, 0.2))
    assert tuned.is_stable is True
    assert tuned.max_sensitivity < 1.6
    worst = transfer_function([1.25], [1.0, 1.0], 1.2)
    assert 1.0 / (worst * tuned.controller).loop().margins().modulus_margin == pytest.approx(1.6, rel=1e-3)
    assert "proven stable for gain x 0.8 to 1.25" in repr(tuned)


@pytest.mark.slow
def test_tuning_keeps_the_bound_between_the_ends_of_the_intervals():
    """With this resonant plant the largest sensitivity occurs between the ends and the middle of the dead times."""
    plant = transfer_function([1.0], [1.0, 0.4, 1.0], 0.5)
    tuned = tune_pid(plant, 1.6, gain=(0.5, 1.0), delay=(0.0, 0.5))
    s = 1j * np.geomspace(0.01, 30.0, 5000)
    response = tuned.controller(s) * plant(s)
    worst = max(
        1.0 / np.abs(1.0 + gain * response * np.exp(-s * late)).min()
        for gain in np.linspace(0.5, 1.0, 9)
        for late in np.linspace(0.0, 0.5, 26)
    )
    assert worst == pytest.approx(1.6, rel=2e-3)
    assert worst <= 1.6
    region = pid_region(plant)
    assert region.is_stable_in(tuned.kp, tuned.ki, (0.5, 1.0), (0.0, 0.5), max_sensitivity=1.6) is True
    assert region.is_stable_in(tuned.kp, 1.01 * tuned.ki, (0.5, 1.0), (0.0, 0.5), max_sensitivity=1.6) is False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_bound_for_all_plants_of_intervals_against_a_grid(seed):
    """The proof for the sector of all plants agrees with the largest sensitivity on a fine grid of plants."""
    rng = np.random.default_rng(seed)
    plant = transfer_function([1.0], [1.0, rng.uniform(0.3, 3.0), rng.uniform(0.5, 2.0)], rng.uniform(0.1, 1.0))
    region = pid_region(plant)
    cell = region.stable_cells[0]
    kp, ki, gain, delay = 0.4 * cell.kp, 0.4 * cell.ki, (0.8, rng.uniform(0.9, 1.4)), (0.0, rng.uniform(0.0, 0.4))
    s = 1j * np.geomspace(1e-3, 60.0, 4000)
    response = plant(s) * (kp + ki / s)
    worst = max(
        1.0 / float(np.abs(1.0 + factor * response * np.exp(-s * late)).min())
        for factor in np.linspace(*gain, 21)
        for late in np.linspace(*delay, 21)
    )
    stable = region.is_stable_in(kp, ki, gain, delay)
    assert region.is_stable_in(kp, ki, gain, delay, max_sensitivity=1.02 * worst) is stable
    assert region.is_stable_in(kp, ki, gain, delay, max_sensitivity=max(1.0001, 0.999 * worst)) is False


def test_figure_of_a_region():
    region = pid_region(LAG)
    figure = region.plot({"SIMC": (0.5, 0.5)})
    assert {trace.name for trace in figure.data if trace.showlegend is not False} == {
        "roots at ± jω",
        "root at 0",
        "SIMC",
    }
    assert {note.text for note in figure.layout.annotations} == {"0", "1", "2", "3"}


def test_bad_input():
    with pytest.raises(ValueError, match="plant must have one input and one output, got 2 and 1"):
        pid_region(transfer_function([[[1.0], [1.0]]], [[[1.0, 1.0], [1.0, 2.0]]]))
    with pytest.raises(ValueError, match="plant must fall to 0 at high frequencies"):
        pid_region(transfer_function([1.0, 2.0], [1.0, 1.0], 1.0))
    with pytest.raises(ValueError, match="plant must have no zero at s = 0"):
        pid_region(transfer_function([1.0, 0.0], [1.0, 2.0, 1.0], 1.0))
    with pytest.raises(ValueError, match="plant must have no distributed delays"):
        pid_region(INTEGRATOR * distributed_delay(1.0, [1.0]))
    with pytest.raises(ValueError, match="tf must be >= 0 s, and > 0 s if kd is not 0, got 0.0 with kd = 1.0"):
        pid_region(LAG, kd=1.0)
    with pytest.raises(ValueError, match="kp must be an interval .low, high., got .2.0, 1.0."):
        pid_region(LAG, kp=(2.0, 1.0))
    with pytest.raises(ValueError, match="max_sensitivity must be > 1, got 1.0"):
        tune_pid(LAG, 1.0)
    region = pid_region(LAG)
    with pytest.raises(ValueError, match="gain must be > 0, got .0.0, 1.0."):
        region.is_stable_in(0.5, 0.4, gain=(0.0, 1.0))
    with pytest.raises(ValueError, match="delay must not shorten the plant's dead time below 0 s"):
        region.is_stable_in(0.5, 0.4, delay=(-1.5, 0.0))
    with pytest.raises(
        ConvergenceError, match="no gains found next to ki = 0 with max_sensitivity = 1.5; try a larger"
    ):
        tune_pid(transfer_function([1.0], [1.0, -1.0], 0.5), 1.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numerator", "denominator", "stable"),
    [
        ([1.0], [1.0, 1.0], lambda kp, ki: kp > -1.0 and ki > 0.0),
        ([2.0], [1.0, 0.0], lambda kp, ki: kp > 0.0 and ki > 0.0),
        ([1.0], [1.0, -1.0], lambda kp, ki: kp > 1.0 and ki > 0.0),
        ([1.0], [1.0, 1.0, 1.0], lambda kp, ki: kp > -1.0 and 0.0 < ki < 1.0 + kp),
        ([1.0], [1.0, 0.0, 0.0], lambda kp, ki: False),
        ([1.0, 1.0], [1.0, 0.0, 0.0], lambda kp, ki: kp > 0.0 and 0.0 < ki < kp * (kp + ki)),
    ],
)
def test_plants_without_delay_have_unbounded_regions(numerator, denominator, stable):
    """By Hurwitz; the curve of plants of order 1 is a vertical line."""
    plant = transfer_function(numerator, denominator)
    region = pid_region(plant, kp=(-3.0, 3.0), ki=(-1.0, 4.0))
    area = sum(cell.area for cell in region.cells if cell.unstable == 0)
    kp, ki = np.meshgrid(np.linspace(-3.0, 3.0, 1201), np.linspace(-1.0, 4.0, 1001))
    assert area == pytest.approx(30.0 * np.mean(np.vectorize(stable)(kp, ki)), abs=0.1)
    for cell in region.cells:
        roots = np.roots(np.polyadd([*denominator, 0.0], np.polymul(numerator, [cell.kp, cell.ki])))
        assert cell.unstable == np.count_nonzero(roots.real > 0.0)
    assert len(pid_region(plant).cells) >= 2  # the window is chosen
