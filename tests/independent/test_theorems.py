"""Second methods for claims of the five papers: eigenvalues of polynomials, Lambert's W, plain recurrences."""

import numpy as np
import pytest
from scipy.special import lambertw
from second_methods import bisect, zeros_right_of_axis


def integral_loop(gain):
    """The rightmost root of s + gain exp(-s) = 0."""
    return complex(lambertw(-gain + 0j, 0))


@pytest.mark.second_method("qi-3")
def test_equal_rtts_of_qi_rcp_lose_stability_at_half_pi():
    assert integral_loop(0.999 * np.pi / 2).real < 0.0 < integral_loop(1.001 * np.pi / 2).real


@pytest.mark.second_method("piqi-9")
def test_two_terms_of_the_router_halve_the_limit_of_piqi_rcp():
    """For T/D -> 0 the router's two terms act at once, and the loop is s + 2 alpha exp(-s)."""
    assert integral_loop(2.0 * 0.999 * np.pi / 4).real < 0.0 < integral_loop(2.0 * 1.001 * np.pi / 4).real


def spectral_radius(numerator, delays, gain, denominator):
    """Of denominator(1/z) + gain numerator(1/z) mean(z^-D) = 0, polynomials in 1/z, the constant term first."""
    size = max(len(denominator), len(numerator) + max(delays))
    total = np.zeros(size)
    total[: len(denominator)] += denominator
    for delay in delays:
        total[delay : delay + len(numerator)] += gain * np.asarray(numerator) / len(delays)
    return np.abs(np.roots(total)).max()


@pytest.mark.second_method("qi-7")
@pytest.mark.parametrize("D", [1, 2, 3, 5, 10, 30, 100])
def test_equal_delays_of_discrete_qi_rcp(D):
    limit = 2.0 * np.sin(np.pi / (2.0 * (2 * D - 1)))
    assert spectral_radius([1.0], [D], 0.999 * limit, [1.0, -1.0]) < 1.0
    assert spectral_radius([1.0], [D], 1.001 * limit, [1.0, -1.0]) > 1.0


@pytest.mark.second_method("qi-8")
def test_two_delays_of_discrete_qi_rcp_lose_stability_at_1_896():
    limit = bisect(lambda alpha: spectral_radius([1.0], [10, 20], alpha / 15.0, [1.0, -1.0]) < 1.0, 1.0, 3.0)
    assert limit == pytest.approx(1.896, abs=1e-3)
    assert 15.0 * 2.0 * np.sin(np.pi / 78.0) == pytest.approx(1.2080, abs=5e-5)


def piqi_rcp(alpha, D, tau1=0.01, tau2=0.1):
    """1 - 1/z + (alpha/D)(1 + 1/z) F(z) z^-D = 0 with F = (tau1 + tau2 (1 - 1/z))/(1 - (1 - tau1)/z)."""
    loop = np.convolve([1.0, 1.0], [tau1 + tau2, -tau2])
    return spectral_radius(loop, [D], alpha / D, np.convolve([1.0, -1.0], [1.0, -(1.0 - tau1)]))


@pytest.mark.second_method("piqi-12")
@pytest.mark.parametrize("D", [100, 300])
def test_the_limit_of_discrete_piqi_rcp_is_too_large_at_every_interval(D):
    stated = D * np.sin(np.pi / (2.0 * (2 * D - 1)))
    corrected = D * np.sin(np.pi / (2.0 * (2 * (D + 89.5) - 1)))
    assert piqi_rcp(0.99 * stated, D) > 1.0
    assert piqi_rcp(0.99 * corrected, D) < 1.0


@pytest.mark.second_method("piqi-11")
@pytest.mark.parametrize(("flows", "capacity"), [(1, 1e6), (7, 1e9), (100, 1e11)])
def test_undelayed_eigenvalues_of_piqi_rcp_depend_on_neither_flows_nor_capacity(flows, capacity):
    """R+ = R + (a/N)(e + e_before), y = N x, with e = gamma C - y: eigenvalues of the recurrence in R, x, e_before."""
    a, tau1, tau2 = 0.3, 0.01, 0.1
    step = np.array(
        [  # R, y, y before: deviations
            [1.0, -a / flows, -a / flows],
            [flows * (tau1 + tau2) - flows * tau2, 1.0 - tau1, 0.0],
            [0.0, 1.0, 0.0],
        ]
    )
    step[1] += flows * tau2 * (step[0] - np.array([1.0, 0.0, 0.0]))
    scale = np.diag([capacity / flows, capacity, capacity])
    own = np.sort_complex(np.linalg.eigvals(np.linalg.solve(scale, step @ scale)))
    one = np.array([[1.0, -a, -a], [tau1, 1.0 - tau1, 0.0], [0.0, 1.0, 0.0]])
    one[1] += tau2 * (one[0] - np.array([1.0, 0.0, 0.0]))
    assert own == pytest.approx(np.sort_complex(np.linalg.eigvals(one)), abs=1e-9)


@pytest.mark.second_method("xcp-1")
def test_the_gains_of_xcp_lose_stability_at_pi_over_four_root_two():
    """s^2 + (a s + b) exp(-s), b = sqrt(2) a^2, times of the RTT, the queue unconstrained."""

    def is_stable(a):
        return zeros_right_of_axis(lambda s: s * s + (a * s + np.sqrt(2.0) * a * a) * np.exp(-s), 20.0, 1e-7) == 0

    assert bisect(is_stable, 0.2, 1.0, 24) == pytest.approx(np.pi / (4.0 * np.sqrt(2.0)), abs=1e-5)


@pytest.mark.second_method("open-regions")
def test_paced_xcp_loses_stability_where_one_rtt_is_15_17_times_the_mean():
    """A share 1/m of flows has the RTT m d, all others 0: E[P/Q] = 0 has a root on the axis at m = 15.172."""
    alpha, beta, gamma = 0.4, 0.226, 0.1

    def mean(s, m):
        total = 0.0
        for share, D in ((1.0 / m, m), (1.0 - 1.0 / m, 0.0)):
            late = np.exp(-s * D)
            total += share * (s * s + (alpha * s + beta) * late) / (s + gamma * late)
        return total

    crossings = []
    for m in (14.0, 15.0, 15.16, 15.185, 15.4):
        w = np.linspace(0.02, 0.4, 200_001)
        phase = np.unwrap(np.angle(mean(1j * w, m)))
        crossings.append(round((phase[-1] - phase[0]) / np.pi))
    assert crossings[:3] == [crossings[0]] * 3 and crossings[3:] == [crossings[3]] * 2 and crossings[0] != crossings[3]


@pytest.mark.second_method("emkc-1")
@pytest.mark.parametrize(("beta", "stable"), [(0.5, True), (1.99, True), (2.01, False)])
def test_undelayed_emkc_is_stable_for_beta_below_2(beta, stable):
    """x <- x + alpha - beta p x, p = (y - C)/y, from 0.1 % beside the equilibrium."""
    alpha, capacity, flows = 0.01, 10.0, 4
    x = np.full(flows, (capacity + flows * alpha / beta) / flows)
    x[:2] *= 1.001
    first = np.abs(x - x.mean()).max() + abs(x.sum() - capacity - flows * alpha / beta)
    for _ in range(3000):
        y = x.sum()
        x = x + alpha - beta * x * (y - capacity) / y
    last = np.abs(x - x.mean()).max() + abs(x.sum() - capacity - flows * alpha / beta)
    assert bool(last < 0.5 * first) is stable


@pytest.mark.second_method("jm-th4")
@pytest.mark.parametrize("tau", [0.3, 0.6, 0.9, 1.5])
@pytest.mark.parametrize(("flows", "capacity"), [(2, 1e7), (50, 1e9), (500, 1e11)])
def test_jetmax_converges_in_steps_that_depend_on_tau_alone(tau, flows, capacity):
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 2.0, flows) * capacity / flows
    fair, eps = 0.95 * capacity / flows, 0.01
    steps = int(np.ceil(np.log(eps) / np.log(abs(1.0 - tau))))
    away = np.abs(x - fair).max()
    for _ in range(steps):
        x = (1.0 - tau) * x + tau * fair
    assert np.abs(x - fair).max() <= eps * away * (1.0 + 1e-9)
    assert np.abs((x - fair) / (1.0 - tau)).max() > eps * away


@pytest.mark.second_method("open-empty-queue")
@pytest.mark.parametrize(("alpha", "rises"), [(0.36, False), (1.0 / np.e - 1e-3, False), (0.40, True)])
def test_the_response_of_rcp_without_queue_never_rises_up_to_1_over_e(alpha, rises):
    """X' = -alpha X(t - 1), X = 1 from 0 to 1 before: method of steps on a fine grid."""
    n, steps = 500, 12 * 500
    x = np.concatenate([np.zeros(n), np.ones(steps)])
    for k in range(n, n + steps - 1):
        x[k + 1] = x[k] - alpha / n * 0.5 * (x[k - n] + x[k - n + 1])
    assert bool((np.diff(x[n:]) > 1e-12).any()) is rises


@pytest.mark.second_method("erratum-pi")
def test_bounds_that_were_computed_with_22_over_7():
    assert 22 / 7 / 4 == pytest.approx(0.78571, abs=5e-6) and np.pi / 4 == pytest.approx(0.78540, abs=5e-6)
    assert 10 * 2 * np.sin(22 / 7 / 38) == pytest.approx(1.6523, abs=5e-5)
    assert 10 * 2 * np.sin(np.pi / 38) == pytest.approx(1.6516, abs=5e-5)
