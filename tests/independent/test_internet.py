"""Second methods for claims on TCP, BBR, ABC and DualPI2: closed forms, maps and plain simulations."""

import numpy as np
import pytest
from scipy.optimize import brentq
from second_methods import bisect, zeros_right_of_axis


@pytest.mark.second_method("abc-stable")
def test_the_queue_of_abc_loses_stability_at_2_over_pi():
    """x' = A - (x(t - tau) - d_t)^+/delta near the rest: s + (tau/delta) exp(-s), in units of tau."""

    def is_stable(delta):
        return zeros_right_of_axis(lambda s: s + np.exp(-s) / delta, 20.0) == 0

    assert bisect(lambda delta: not is_stable(delta), 0.3, 1.0, 24) == pytest.approx(2.0 / np.pi, abs=1e-5)


@pytest.mark.second_method("compound-hopf")
def test_reno_without_a_buffer_loses_stability_where_arrivals_are_1_1415_times_the_capacity():
    """w' = [(1 - p)/w - w p/2] w(t - tau)/tau, p(t - tau) = 1 - C tau/w(t - tau): u' = -a u - b u(t - tau)."""

    def distance(rho):
        p = 1.0 - 1.0 / rho
        w = np.sqrt(2.0 * (1.0 - p) / p)
        a, b = w * p, (1.0 / w + 0.5 * w) / rho
        return np.sqrt(b * b - a * a) - np.arccos(-a / b)

    assert brentq(distance, 1.01, 1.3) == pytest.approx(1.1415, abs=5e-5)


@pytest.mark.second_method("bbr-small-fair")
@pytest.mark.parametrize("flows", [1, 2, 5, 20])
def test_flows_of_bbr_in_a_full_small_buffer_come_to_equal_shares(flows):
    """Each measures what it gets of C while it sends 1.25 times its rate and the others once."""
    x = np.random.default_rng(1).uniform(0.1, 1.0, flows)
    for _ in range(10_000):
        x = 1.25 * x / (1.25 * x + x.sum() - x)
    assert x == pytest.approx(np.full(flows, 5.0 / (4.0 * flows + 1.0)), rel=1e-9)


@pytest.mark.second_method("dualpi2-margin")
def test_the_margin_of_dualpi2_for_reno_is_8_2_db():
    """Windows clocked by ACKs: w' = -2 w/(W R) - sqrt(2) W p'(t - R)/R; q = N w; p' by alpha, beta each 16 ms."""
    alpha, beta, T, R = 41.0 / 256.0, 819.0 / 256.0, 16e-3, 0.1
    w = np.geomspace(0.5, 60.0, 50_001)
    s = 1j * w
    controller = (alpha + beta * (1.0 - np.exp(-s * T))) / (s * T)
    least = np.inf
    for window in np.geomspace(3.0, 3000.0, 30):
        loop = np.sqrt(2.0) * controller * np.exp(-s * R) / (s + 2.0 / (window * R))
        phase = np.unwrap(np.angle(loop))
        at = np.flatnonzero((phase[:-1] + np.pi) * (phase[1:] + np.pi) <= 0.0)
        least = min(least, *(1.0 / np.abs(loop[at])))
    assert 20.0 * np.log10(least) == pytest.approx(8.2, abs=0.1)


@pytest.mark.second_method("cubic-decay")
def test_the_window_of_cubic_returns_as_the_root_of_time():
    """Fourth-order steps at 10 packets/s and 1 s, losses held over a step; m is a third at the stated time."""
    C, tau, c, b = 10.0, 1.0, 0.4, 0.3
    W0 = brentq(lambda W: (W / tau - C) * np.cbrt(b * W / c) - 1.0, C * tau * 1.0001, 3.0 * C * tau)
    K, loss = np.cbrt(b * W0 / c), W0 / tau - C
    kappa = 1.0 / (tau * loss**2) + K / (3.0 * W0)
    m0 = 0.02
    end = 8.0 / (2.0 * c * loss * kappa**3 * m0**2)
    h = 0.02
    n, lag = int(end / h), round(tau / h)
    losses = np.full(lag, loss)
    M, s = W0 + m0, K - kappa * m0

    def window(M, s):
        return c * (s - np.cbrt(b * M / c)) ** 3 + M

    for k in range(n):
        at = losses[k % lag]

        def rate(M, s, at=at):
            return (window(M, s) - M) * at, 1.0 - s * at

        k1 = rate(M, s)
        k2 = rate(M + 0.5 * h * k1[0], s + 0.5 * h * k1[1])
        k3 = rate(M + 0.5 * h * k2[0], s + 0.5 * h * k2[1])
        k4 = rate(M + h * k3[0], s + h * k3[1])
        losses[k % lag] = max(window(M, s) / tau - C, 0.0)
        M += h / 6.0 * (k1[0] + 2.0 * k2[0] + 2.0 * k3[0] + k4[0])
        s += h / 6.0 * (k1[1] + 2.0 * k2[1] + 2.0 * k3[1] + k4[1])
    assert (M - W0) / m0 == pytest.approx(1.0 / 3.0, rel=0.03)


@pytest.mark.second_method("reno-rtt")
def test_reno_with_random_losses_has_the_window_of_the_square_root():
    """A loss each 1/p packets halves the window: the mean over cycles is sqrt(3/(2 p)) to a percent."""
    p = 1e-5
    window, packets, rounds = 100.0, 0.0, []
    for _ in range(60_000):
        packets += window
        rounds.append(window)
        if packets > 1.0 / p:
            packets -= 1.0 / p
            window *= 0.5
        else:
            window += 1.0
    assert np.mean(rounds[20_000:]) == pytest.approx(np.sqrt(1.5 / p), rel=0.01)
