"""The switched loop of RCP and XCP at an empty queue: proofs, growth, and runs of other engines."""

from math import e, factorial, inf, pi

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from ecc.errors import ConvergenceError
from ecc.fluid import solve_dde
from ecc.linear.empty_queue import _residual, _step_response, empty_queue_proves
from ecc.loops.closed_loop import linearize
from ecc.models import RCP
from ecc.network.network import Network
from ecc.stability import empty_queue_bound, empty_queue_boundary, empty_queue_cycle, empty_queue_growth, perturbed_run
from ecc.stability.empty_queue import _StepResponse


def test_no_beta_is_too_large_where_the_answer_falls():
    assert empty_queue_bound(1.0 / e * (1 - 1e-9)) == inf
    assert empty_queue_bound(1.0 / e * (1 + 1e-2)) < inf
    # two RTTs: alpha mean exp(z D) <= z has a solution up to the alpha that touches
    z = np.linspace(0.01, 5.0, 100_000)
    touching = float(np.max(z / np.mean(np.exp(np.outer([0.5, 1.5], z)), axis=0)))
    assert empty_queue_bound(touching * (1 - 1e-6), [1.0, 3.0]) == inf
    assert empty_queue_bound(touching * (1 + 1e-2), [1.0, 3.0]) < inf
    assert empty_queue_bound(pi / 2 * (1 + 1e-9)) == 0.0


def integral_of_rises(alpha, h=0.01, until=30):
    """alpha G of equal RTTs over the lags of a grid, X in closed form: sum of (-alpha)^k (t - k)^k/k! over k <= t."""
    t = np.arange(0.0, until, h)
    answer = np.zeros_like(t)
    for k in range(until):
        answer += np.where(t >= k, (-alpha) ** k * np.maximum(t - k, 0.0) ** k / float(factorial(k)), 0.0)
    rises = [np.trapezoid(np.maximum(answer[v:] - answer[:-v], 0.0), dx=h) for v in range(1, round(6.0 / h))]
    return max(rises) + np.trapezoid(np.maximum(answer - 1.0, 0.0), dx=h)


@pytest.mark.parametrize("alpha", [0.45, 0.6, 0.8])
def test_bound_is_below_and_near_the_gain_of_the_step_response(alpha):
    exact = alpha / integral_of_rises(alpha)
    assert 0.996 * exact < empty_queue_bound(alpha) < exact * (1.0 + 1e-5)  # of the grid's lags
    assert empty_queue_bound(alpha, [7.0, 7.0]) == pytest.approx(empty_queue_bound(alpha), rel=1e-12)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.floats(0.38, 1.3), st.lists(st.floats(0.1, 1.0), min_size=1, max_size=4))
@example(1.0, [0.5, 0.9375, 0.375, 0.34375])  # its shortest delay is as long as the shortest block
def test_finer_enclosures_are_tighter_and_contained(alpha, rtts):
    coarse, fine = (empty_queue_bound(alpha, rtts, steps=steps) for steps in (100, 1600))
    assert coarse <= fine * (1.0 + 1.1e-3)  # to which the maximum over lags is enclosed


def test_growth_without_return_is_that_of_one_mode():
    n = 40
    falling = -np.ones((n + 1, 1))  # the queue stays empty: s + alpha exp(-s) = 0
    alone = empty_queue_growth(0.3, 5.0, n, 60.0, history=falling, queue=[0.0])
    assert alone[0] == pytest.approx(lambertw(-0.3).real, abs=1e-4)
    full = np.full((n + 1, 1), -0.03)  # the queue stays busy: the slowest root of the unconstrained queue
    busy = empty_queue_growth(0.3, 0.01, n, 60.0, history=full, queue=[1.0])
    free = linearize(RCP(alpha=0.3, beta=0.01), Network.dumbbell("1 Gb/s", [1.0])).spectral_abscissa
    assert busy[0] == pytest.approx(free, abs=1e-5)


def test_motions_scale():
    history = np.random.default_rng(3).standard_normal((21, 4))
    one, ten = (
        empty_queue_growth([0.6, 0.9, 1.1, 1.5], 0.8, 20, 80.0, history=c * history, queue=c * np.ones(4))
        for c in (1.0, 10.0)
    )
    assert one == pytest.approx(ten, abs=1e-9)
    assert (one > 0.0).tolist() == [False, False, True, True]


@pytest.mark.slow
@settings(max_examples=8)
@given(st.floats(0.4, 1.4), st.floats(0.05, 0.95), st.integers(0, 99))
def test_what_is_proven_stable_dies_out(alpha, share, seed):
    beta = share * min(empty_queue_bound(alpha), 20.0)
    assert empty_queue_growth(alpha, np.full(20, beta), 20, 60.0, seed).max() < 0.0


def test_neither_region_holds_the_other():
    net = Network.dumbbell("20 Mb/s", [1.0] * 4, packet_size=1000)
    assert not linearize(RCP(alpha=1.0, beta=0.7), net).is_stable and empty_queue_bound(1.0) > 0.7
    assert linearize(RCP(alpha=1.5, beta=0.15), net).certify().stable is True
    assert empty_queue_growth(1.5, 0.15)[0] == pytest.approx(0.00175, abs=1e-5)
    calm = perturbed_run(
        RCP(alpha=1.0, beta=0.7), net, 5.0, 60.0, "fluid", perturbation=3e-4, floor=1e-6, rtol=1e-8
    ).stability
    assert calm.growth_rate == pytest.approx(empty_queue_growth(1.0, 0.7)[0], rel=0.02)


@pytest.mark.slow
def test_runs_grow_where_only_the_switched_loop_does():
    net = Network.dumbbell("20 Mb/s", [1.0] * 4, packet_size=1000)
    loud, calm = (
        perturbed_run(
            RCP(alpha=1.5, beta=b), net, 4.2, 100.0, "fluid", perturbation=1e-4, floor=1e-6, rtol=1e-8
        ).stability
        for b in (0.15, 0.135)
    )
    assert loud.status == "unstable" and calm.status == "stable"
    assert loud.growth_rate == pytest.approx(empty_queue_growth(1.5, 0.15)[0], rel=0.06)


@pytest.mark.slow
def test_boundary():
    found = empty_queue_boundary([0.36, 0.5, 1.0, 1.6])
    assert found.tolist() == pytest.approx([inf, 25.854, 0.95113, 0.0], rel=1e-3)
    assert empty_queue_boundary([1.0], steps=80, seed=5)[0] == pytest.approx(found[2], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_a_proven_periodic_motion_lies_at_the_boundary_of_direct_stepping(alpha):
    cycle = empty_queue_cycle(alpha)
    low, high = cycle.beta
    assert high - low < 4e-4 * low
    assert low < empty_queue_boundary([alpha], steps=80)[0] < high
    around = empty_queue_growth(alpha, [0.99 * low, 1.01 * high], steps=80)
    assert around[0] < 0.0 < around[1]


def test_step_response_of_the_proof_solves_its_equation():
    response, h = _StepResponse(0.8), 1e-3
    t = np.random.default_rng(0).uniform(1.0, 20.0, 500)
    start, middle, end = (response(t - 1.0 + part * h) for part in (0.0, 0.5, 1.0))
    inside = np.floor(t) == np.floor(t + h)  # no kink between
    rule = -0.8 * h * (start + 4.0 * middle + end) / 6.0  # Simpson's
    assert (response(t + h) - response(t))[inside] == pytest.approx(rule[inside], abs=1e-13)
    for order in (0, 1):
        assert np.all(response.upper_bounds(t, t + 7 * h, order) + 1e-12 >= np.abs(response(t + 3 * h, order)))


@pytest.mark.slow
def test_a_proof_that_does_not_succeed_says_so():
    with pytest.raises(ConvergenceError, match="with 60 cells: use more"):
        empty_queue_cycle(1.0, cells=60)


@pytest.mark.slow
@pytest.mark.parametrize("rtts", [(0.2, 1.8), (0.9, 1.1), (0.05, 0.05, 2.9)])
def test_bound_for_mixes_holds_in_the_solver_of_delay_equations(rtts):
    alpha = 0.8
    beta = 0.95 * empty_queue_bound(alpha, rtts)

    def slope(t, y, past):
        x, queue = past[:, 0].mean(), max(y[1], 0.0)
        return [-alpha * x - beta * queue, x if queue > 0.0 or x > 0.0 else 0.0]

    run = solve_dde(
        slope, (0.0, 120.0), [1.0, 0.0], delays=rtts, t_eval=np.linspace(0, 120, 1201), rtol=1e-6, jit=False
    )
    assert run.success
    size = np.abs(run.y[0])
    assert size[-300:].max() < 0.5 * size[300:600].max()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: empty_queue_bound(0.0), "alpha must be > 0, got 0.0"),
        (lambda: empty_queue_bound(0.4, [1.0, 0.0]), "rtts must be > 0, one or more"),
        (lambda: empty_queue_growth(0.4, -1.0), "alpha must be > 0 and beta >= 0, got minimum values 0.4 and -1"),
        (lambda: empty_queue_growth(0.4, 1.0, history=[[1.0]]), r"history and queue must have shapes \(41, 1\)"),
        (lambda: empty_queue_boundary([0.0]), "alpha must be > 0, got 0.0"),
        (lambda: empty_queue_boundary([0.4], span=7.0), "span must be longer at alpha = 0.4, got 7 RTTs"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_step_response_with_a_delay_below_one_step():
    delays, shares = np.array([0.004, 1.996]), np.array([0.5, 0.5])
    coarse, fine = (_step_response(0.8, delays, shares, h) for h in (0.01, 0.001))
    length = min(len(coarse), len(fine[::10]))
    assert length > 1000
    assert coarse[:length] == pytest.approx(fine[::10][:length], abs=2e-5)
    assert 0.99 < empty_queue_bound(0.8, delays, steps=100) / empty_queue_bound(0.8, delays) <= 1.0


@pytest.mark.parametrize(
    "delays", [[2e-4, 2.0], [0.004, 0.02, 1.5], [0.0131, 0.014, 2.0], [0.006, 0.008], [1e-3, 5e-4]]
)
def test_step_responses_with_short_delays_solve_their_equation(delays):
    h, values, shares = 1e-3, np.array(delays), np.full(len(delays), 1.0 / len(delays))
    x = _step_response(0.9, values, shares, h)
    assert x[0] == 1.0
    assert abs(x[-1]) < 1e-7
    assert _residual(0.9, values, shares, h, x) < 1e-12
    moved = x.copy()
    moved[len(x) // 4] += 1e-6
    assert _residual(0.9, values, shares, h, moved) > 5e-7
    fine = _step_response(0.9, values, shares, 0.25 * h)[::4]
    number = min(len(x), len(fine))
    np.testing.assert_allclose(x[:number], fine[:number], atol=2e-3)


@pytest.mark.parametrize(("alpha", "rtts"), [(0.6, [1.0]), (0.5, [0.02, 0.1, 0.22]), (0.36, [1.0])])
def test_a_coarse_enclosure_decides_as_the_bound_does(alpha, rtts):
    bound = empty_queue_bound(alpha, rtts)
    near = [0.5, 1.0 - 1e-6, 1.0, 1.0 + 1e-6, 2.0]
    betas = [factor * bound for factor in near] if bound < inf else [1.0, 1e9]
    assert [empty_queue_proves(alpha, beta, rtts) for beta in betas] == [beta < bound for beta in betas]
    assert not empty_queue_proves(alpha, 0.0, rtts)
