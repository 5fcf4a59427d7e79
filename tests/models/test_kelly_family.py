"""Kelly, MKC, EMKC, EMKC-AVQ: equilibria, published bounds, stability for all delays."""

from math import pi, sin

import numpy as np
import pytest

from ecc.errors import ConvergenceError
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, EMKCAVQ, MKC, Kelly
from ecc.network.network import Flow, Link, Network
from ecc.stability import critical_gain

THREE = Network.dumbbell("10 Mb/s", rtts=[0.2, 0.3, 0.7])


def test_laws_by_hand():
    p = EMKC(alpha="2 Mb/s", beta=0.5).namespace()
    assert EMKC.router_law(y=12.0, C=10.0) == pytest.approx(2 / 12)
    assert EMKC.source_law(x_rtt=4e6, R=0.1, p=p) == pytest.approx(4e6 + 2e6 - 0.5 * 0.1 * 4e6)
    avq = EMKCAVQ(tau=0.2, gamma=0.9).namespace()
    assert EMKCAVQ.router_law(R=80.0, y=100.0, C=100.0, d=2.0, T=0.1, p=avq) == pytest.approx(80 - 0.2 * 0.1 * 10 / 2)
    assert EMKCAVQ.router_law(R=90.0, y=0.0, C=100.0, d=2.0, T=0.1, p=avq) == 90.0  # at most gamma C
    assert EMKCAVQ.announce_law(R=80.0, y=100.0) == pytest.approx(0.2)
    assert MKC.router_law(y=5.0, C=10.0, p=MKC(steepness=3.0).namespace()) == pytest.approx(1 / 8)
    kelly = Kelly(kappa=0.1, omega=2e6).namespace()
    assert Kelly.source_law(x=1e6, x_rtt=3e6, R=0.5, p=kelly) == pytest.approx(1e6 + 0.1 * (2e6 - 1.5e6))


@pytest.mark.claim
@pytest.mark.parametrize("count", [1, 2, 50])
def test_emkc_2_overshoot_grows_with_the_number_of_flows(count):
    """JETMAX 3.8: C + N alpha/beta; two flows on 10 Mb/s are 8 % above (fig. 1d)."""
    point = EMKC().equilibrium(Network.dumbbell("10 Mb/s", rtts=[0.2] * count))
    assert point.rates.sum() == pytest.approx(10e6 + count * 0.2e6 / 0.5, rel=1e-12)


def test_emkc_on_two_links():
    """At the second link u + N alpha/(beta p) = C/(1 - p), with the flows of the first as u."""
    net = Network([Link("10 Mb/s"), Link("40 Mb/s")], [Flow([0, 1]), Flow([0]), Flow([1])])
    point = EMKC().equilibrium(net)
    assert point.bottleneck.tolist() == [0, 0, 1]
    assert point.rates[:2].sum() == pytest.approx(10.8e6)
    loss = point.fair_rate[1]
    assert loss < point.fair_rate[0]
    assert point.rates[0] + 0.4e6 / loss == pytest.approx(40e6 / (1 - loss), rel=1e-12)


def test_an_assignment_moves_the_equilibrium():
    net = Network([Link("10 Mb/s"), Link("40 Mb/s")], [Flow([0, 1]), Flow([0]), Flow([1])])
    point = EMKC().equilibrium(net, np.array([1, 0, 1]))
    assert point.rates[0] == point.rates[2] == pytest.approx(20.4e6)
    y = point.rates[:2].sum()
    assert (y - 10e6) / y == pytest.approx(0.4e6 / point.rates[1], rel=1e-12)


@pytest.mark.claim
def test_emkc_1_holds_for_random_directional_delays():
    """Stable at beta = 1.998 whatever the delays."""
    rng = np.random.default_rng(6)
    for _ in range(12):
        one_way = float(rng.uniform(0.0, 0.05))
        net = Network.dumbbell("10 Mb/s", rng.uniform(0.1, 2.0, rng.integers(1, 7)).tolist(), delay=one_way)
        assert linearize(EMKC(beta=1.998), net, "discrete").is_stable


@pytest.mark.claim
@pytest.mark.parametrize("rtt", [0.0, 0.1, 0.7])
def test_emkc_1_is_exact_for_equal_rtts_split_in_any_way(rtt):
    links = [Link("1 Gb/s", 0.0), Link("10 Mb/s", 0.0)]
    flows = [Flow([0, 1]), Flow([1]), Flow([1])]
    net = Network(links, flows, (rtt,) * 3)
    for beta in (1.998, 2.002):
        assert linearize(EMKC(beta=beta), net, "discrete").is_stable == (beta < 2.0)


def test_undelayed_eigenvalue_is_1_minus_beta():
    net = Network.dumbbell("10 Mb/s", rtts=[0.0] * 3)
    for beta in (0.3, 1.7):
        assert linearize(EMKC(beta=beta), net, "discrete").spectral_radius == pytest.approx(abs(1 - beta))


@pytest.mark.parametrize("steepness", [1.0, 3.0])
def test_mkc_bound(steepness):
    net = Network.dumbbell("10 Mb/s", rtts=[0.3] * 3)
    (bound,) = MKC(alpha="1 Mb/s", steepness=steepness).published_bounds(net)
    for factor in (0.999, 1.001):
        protocol = MKC(alpha="1 Mb/s", beta=factor * bound.value, steepness=steepness)
        assert linearize(protocol, net, "discrete").is_stable == (factor < 1.0)
    y = protocol.equilibrium(net).rates.sum()
    assert (y / 10e6) ** (1 + steepness) == pytest.approx(3e6 / protocol.beta / 10e6)


def test_emkc_avq_rests_at_gamma_c_without_loss():
    """JETMAX 3.3: both flows of T1 at 5 Mb/s; V = gamma C - N alpha/beta."""
    point = EMKCAVQ().equilibrium(Network.T1())
    assert point.rates == pytest.approx([5e6, 5e6])
    assert point.fair_rate == pytest.approx([10e6 - 2 * 0.4e6])
    assert linearize(EMKCAVQ(), Network.T1(), "discrete").is_stable


def test_linear_model_follows_the_laws_in_time():
    """A recurrence of the laws themselves, disturbed by 1e-7, against the linear system."""
    protocol = EMKCAVQ(alpha="1 Mb/s")
    net = Network.dumbbell("10 Mb/s", rtts=[0.2, 0.5], delay=0.05)
    point, p, T = protocol.equilibrium(net), protocol.namespace(), 0.1
    ahead, around = [1, 2], [2, 5]  # steps: 50 and 200 ms to the link, rounded up
    system = linearize(protocol, net, "discrete")
    n_past, n = 6, 80
    x = np.tile(point.rates, (n, 1))
    V, told = np.full(n, point.fair_rate[0]), np.full(n, 0.4)  # p = alpha/(beta x)
    x[n_past - 1] += 1e-7 * point.rates * [1.0, -2.0]
    start = np.zeros((n, 4))
    for k in range(n_past - 1, n):
        if k >= n_past:
            for i in range(2):
                x[k, i] = protocol.source_law(x[k - around[i], i], told[k - around[i] + ahead[i]], p)
        y = sum(x[k - ahead[i], i] for i in range(2))
        V[k] = protocol.router_law(V[k - 1], y, 10e6, 0.5, T, p)
        told[k] = protocol.announce_law(V[k], y)
        if k < n_past:
            start[k] = [V[k] - point.fair_rate[0], told[k] - 0.4, *(x[k] - point.rates)]
    for k in range(n_past, n):
        start[k] = sum(A @ start[k - 1 - int(m)] for A, m in zip(system.matrices, system.delays, strict=True))
    moved = np.column_stack([V - point.fair_rate[0], x - point.rates])
    assert np.abs(moved[-20:]).max() > 1e-3
    assert start[:, [0, 2, 3]] == pytest.approx(moved, abs=1e-5 * np.abs(moved).max())


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_johari_tan(steps):
    """kappa (p + y p') = 2 sin(pi/(2(2D + 1))), D = steps - 1, for equal RTTs of one link."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.01 * steps] * 3)
    protocol = Kelly()
    price = protocol.equilibrium(net).fair_rate[0]
    value = 2 * sin(pi / (2 * (2 * (steps - 1) + 1))) / (2 * price)
    (bound,) = protocol.published_bounds(net)
    assert (bound.value, bound.kind) == (pytest.approx(value, rel=1e-12), "necessary and sufficient")
    assert critical_gain(protocol, net, "kappa", time="discrete").value == pytest.approx(value, rel=1e-9)
    for factor in (0.999, 1.001):
        assert linearize(Kelly(kappa=factor * value), net, "discrete").is_stable == (factor < 1.0)


def test_johari_tan_is_sufficient_in_networks():
    for net in (Network.dumbbell("100 Mb/s", [0.05, 0.1, 0.2]), Network.parking_lot(["97 Mb/s", "80 Mb/s"], "13 ms")):
        (bound,) = Kelly(steepness=2.0).published_bounds(net)
        assert bound.kind == "sufficient"
        assert linearize(Kelly(steepness=2.0, kappa=bound.value), net, "discrete").is_stable


def test_kelly_is_proportionally_fair():
    """Hard capacities in the limit: on two equal links the long flow gets half of what the short ones get."""
    net = Network.parking_lot(["90 Mb/s", "90 Mb/s"])
    rates = Kelly(omega="30 Mb/s", steepness=200.0).equilibrium(net).rates
    assert rates == pytest.approx([30e6, 60e6, 60e6], rel=0.01)
    assert rates[0] * 2 == pytest.approx(rates[1], rel=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MKC(alpha=0.0), "alpha must be > 0 bit/s, got 0.0"),
        (lambda: EMKC(beta=-1.0), "beta must be > 0, got -1.0"),
        (lambda: EMKCAVQ(tau=0.0), "tau must be > 0, got 0.0"),
        (lambda: Kelly(kappa=0.0), "kappa must be > 0, got 0.0"),
        (lambda: Kelly().equilibrium(THREE, np.array([0, 0, 0])), "flows of Kelly receive the feedback of all links"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_assignments_that_keep_moving_say_so():
    net = Network([Link("10 Mb/s")] * 5, [Flow([k, (k + 1) % 5, (k + 2) % 5]) for k in range(5)])
    with pytest.raises(ConvergenceError, match=r"no equilibrium found for the assignment \[0, 1, 2, 3, 4\]") as info:
        EMKC(alpha="1 kb/s").equilibrium(net, np.arange(5))
    assert info.value.residual > 1e-6
