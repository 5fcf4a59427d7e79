"""XCP: the law, the free-queue boundary, and the equilibrium that is not max-min fair."""

from math import cos, pi, sin, sqrt

import numpy as np
import pytest

from ecc.allocation import max_min
from ecc.closed_loop import linearize
from ecc.errors import LinearizationError
from ecc.models import RCP, XCP
from ecc.network import Network

EQUAL = Network.dumbbell("1 Gb/s", rtts=[0.1, 0.1])


def test_law_by_hand():
    p = XCP(alpha=0.4, beta=0.2, gamma=0.1).namespace()
    C, d, T = 100.0, 0.5, 0.01
    phi = 0.4 * d * 20.0 - 0.2 * 5.0  # spare 20, queue 5
    h = 0.1 * 80.0 * d - phi
    given = {"y": 80.0, "q": 5.0, "N_all": 4.0, "C": C, "d": d, "T": T, "p": p}
    assert XCP.router_law(x=10.0, **given) == pytest.approx(T * ((h + phi) / 4 - h * 10 / 80) / d**2)
    shares = [XCP.router_law(x=x, **given) for x in (10.0, 20.0, 20.0, 30.0)]
    assert sum(shares) == pytest.approx(T * phi / d**2)  # shuffling moves no sum
    over = {**given, "y": 120.0, "q": 0.0}
    assert sum(XCP.router_law(x=x, **over) for x in (30.0, 50.0, 20.0, 20.0)) == pytest.approx(-T * 0.4 * 20.0 / d)


@pytest.mark.parametrize("rtts", [[0.1], [0.1, 0.1, 0.1], [0.05, 0.17, 0.4, 0.41]])
def test_free_queue_model(rtts):
    s = np.array([0.3 + 1j, 2j, -1 + 5j, 30j])
    d = np.mean(rtts)
    loop = (0.4 * s / d + 0.226 / d**2) * np.exp(-np.outer(s, rtts)).mean(axis=1)
    system = linearize(XCP(), Network.dumbbell("1 Gb/s", rtts))
    assert system.characteristic(s) == pytest.approx(s * s + loop, rel=1e-12)
    assert system.open_loop(s) == pytest.approx(loop / s**2, rel=1e-12)


@pytest.mark.parametrize("protocol", [XCP, RCP])
@pytest.mark.parametrize("omega", [0.2, 0.6, pi / 4, 1.1, 1.4])
def test_boundary_is_omega_sin_omega_and_omega_squared_cos_omega(protocol, omega):
    alpha, beta = omega * sin(omega), omega * omega * cos(omega)
    for factor in (0.999, 1.001):
        system = linearize(protocol(alpha=factor * alpha, beta=factor * beta), EQUAL)
        assert system.is_stable == (factor < 1.0)


@pytest.mark.claim
def test_xcp_1_pi_over_4_sqrt_2():
    (bound,) = XCP().published_bounds(EQUAL)
    assert bound.value == pytest.approx(pi / (4 * sqrt(2)))
    for factor in (0.999, 1.001):
        alpha = factor * bound.value
        assert linearize(XCP(alpha=alpha, beta=sqrt(2) * alpha**2), EQUAL).is_stable == (factor < 1.0)
    assert linearize(XCP(), EQUAL).is_stable
    assert XCP().published_bounds(Network.dumbbell("1 Gb/s", [0.1, 0.2])) == []


def test_one_link_is_shared_equally_and_networks_are_not_max_min_fair():
    """EVAL 4.3, fig. 6: the short flow gets less and less of its max-min rate C/n."""
    assert XCP().equilibrium(EQUAL).rates == pytest.approx([5e8, 5e8])
    ratios = []
    for n in (2, 4, 8, 16):
        net = Network.xcp_unfair(n)
        point = XCP().equilibrium(net)
        fair = max_min(net)
        assert fair[0] == pytest.approx(155e6 / n)
        assert point.rates[1:] == pytest.approx(fair[1:])  # held at the link that only they share
        y = point.rates.sum()
        assert point.rates[0] == pytest.approx(0.1 * y * y / (n * n * (0.5 * y - 0.4 * 155e6)), rel=1e-9)
        ratios.append(point.rates[0] / fair[0])
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 0.5 and ratios[-1] < 0.1
    assert XCP(gamma=0.0).equilibrium(net).rates == pytest.approx(max_min(net))


def test_utilization_stays_above_alpha_over_alpha_plus_gamma():
    point = XCP().equilibrium(Network.T_u())
    load = point.rates.sum() / 155e6
    assert 0.8 < load < 0.9


def test_where_links_are_not_saturated_there_is_no_linear_model():
    with pytest.raises(LinearizationError, match=r"no equilibrium: flow \d+ would move .*; link 0 is not saturated"):
        linearize(XCP(), Network.T_u())
    with pytest.raises(LinearizationError, match="the law switches at the equilibrium"):
        linearize(XCP(gamma=0.0), Network.T_u())  # increases are equal, decreases in proportion to unequal rates
    with pytest.raises(LinearizationError, match="no equilibrium without a standing queue at link 1"):
        XCP().equilibrium(Network.parking_lot(["970 Mb/s", "800 Mb/s"], delay="10 ms"), np.array([0, 0, 1]))


def test_a_router_that_looks_at_the_flows_rate_needs_a_state_for_each():
    class Shuffled(XCP):
        @property
        def linearized(self):
            return self

        @staticmethod
        def router_law(x, y, q, N_all, C, d, T, p):
            return T * ((p.alpha * (C - y) / d - p.beta * q / (d * d)) / N_all - p.gamma * (x - y / N_all) / d)

    with pytest.raises(ValueError, match="Shuffled needs a state for each flow: time must be 'discrete'"):
        linearize(Shuffled(), EQUAL)
