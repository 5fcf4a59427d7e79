"""Closed forms of XCP's three linear models, for one flow and an unconstrained queue (docs/xcp_three_models.md)."""

from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ecc
from ecc.models import XCP
from ecc.network.network import Network
from ecc.stability import perturbed_run

NET = Network.dumbbell("100 Mb/s", [0.1])
GAINS = {"alpha": st.floats(0.05, 1.8), "beta": st.floats(0.01, 1.0)}


def model(time, alpha, beta, gamma=0.1):
    return ecc.linearize(XCP(alpha=alpha, beta=beta, gamma=gamma), NET, time=time, clocking="rate")


def dominant(coefficients):
    return abs(np.roots(coefficients)).max()


@settings(max_examples=20, deadline=None)
@given(**GAINS)
def test_the_discrete_model_has_the_roots_of_a_quadratic(alpha, beta):
    """It is stable exactly if 0 < alpha, 0 < beta < 4 - 2 alpha (Jury's criterion)."""
    system = model("discrete", alpha, beta)
    assert system.spectral_radius == pytest.approx(dominant([1.0, alpha + beta - 2.0, 1.0 - alpha]), rel=1e-6)
    if abs(beta - (4.0 - 2.0 * alpha)) > 1e-3:
        assert system.is_stable == (beta < 4.0 - 2.0 * alpha)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(**GAINS)
def test_the_hybrid_model_without_shuffling_has_the_roots_of_a_quartic(alpha, beta):
    """2 z^2 (z - 1)^2 + alpha (z + 1)(z - 1) + beta z (z + 1) = 0."""
    expected = dominant([2.0, -4.0, 2.0 + alpha + beta, beta, -alpha])
    assert model("hybrid", alpha, beta, gamma=0.0).spectral_radius == pytest.approx(expected, rel=1e-8)


@settings(max_examples=10, deadline=None)
@given(**GAINS)
def test_the_continuous_model_has_the_roots_of_its_equation(alpha, beta):
    """s^2 + exp(-s) (alpha s + beta) = 0, in units of RTTs; shuffling between equal flows changes nothing."""
    s = model("continuous", alpha, beta).roots(1)[0] * 0.1
    assert abs(s * s + np.exp(-s) * (alpha * s + beta)) < 1e-8


@pytest.mark.parametrize(
    ("time", "edge"), [("continuous", pi / 2.0), ("discrete", 2.0), ("hybrid", 2.0 * (sqrt(2.0) - 1.0))]
)
def test_limits_of_alpha_without_the_queue_term(time, edge):
    assert model(time, 0.999 * edge, 1e-9, gamma=0.0).is_stable
    assert not model(time, 1.001 * edge, 1e-9, gamma=0.0).is_stable


@pytest.mark.parametrize(("time", "factor"), [("continuous", 1.0), ("hybrid", 1.5)])
def test_small_gains_are_stable_if_alpha_exceeds_the_delay_of_the_queue_term_times_beta(time, factor):
    """The delay is one RTT in continuous time, and half an interval more if a router holds its feedback."""
    beta = 1e-3
    assert model(time, 1.02 * factor * beta, beta, gamma=0.0).is_stable
    assert not model(time, 0.98 * factor * beta, beta, gamma=0.0).is_stable


@pytest.mark.parametrize(("time", "stable"), [("continuous", True), ("discrete", True), ("hybrid", False)])
def test_the_models_differ_at_the_published_gains(time, stable):
    system = model(time, 0.4, 0.226)
    assert system.is_stable == stable
    assert system.certify().stable == stable


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.4])
def test_runs_are_stable_at_gains_at_which_a_linear_model_is_unstable(alpha):
    """Queues of runs are never negative."""
    assert not all(model(time, alpha, 0.226).is_stable for time in ("continuous", "hybrid"))
    for options in ({"time": "continuous"}, {"time": "averaged", "clocking": "rate"}):
        run = perturbed_run(XCP(alpha=alpha, paced=True), NET, 0.6, 60.0, "fluid", floor=1e-6, **options)
        assert run.stability.status == "stable"
    assert perturbed_run(XCP(alpha=alpha, paced=True), NET, 0.6, 60.0, "packet").stability.status == "stable"


@pytest.mark.parametrize(("factor", "status"), [(0.95, "stable"), (1.05, "unstable")])
def test_averaged_runs_with_a_busy_queue_have_the_limit_with_waits(factor, status):
    """y' = -(alpha + 1) y(t - 1) without a queue term: rates are windows divided by RTTs, which include waits."""
    protocol = XCP(alpha=factor * (pi / 2.0 - 1.0), beta=0.0, gamma=0.0, paced=True)
    options = {"perturbation": 1e-3, "floor": 1e-7, "ceiling": 1e-2, "time": "averaged", "clocking": "rate"}
    assert perturbed_run(protocol, NET, 0.6, 100.0, "fluid", **options).stability.status == status
