"""JetMax: laws, equilibrium, bounds, stability for all delays."""

import numpy as np
import pytest

from ecc.loops.closed_loop import linearize
from ecc.models import JetMax
from ecc.network.allocation import max_min
from ecc.network.network import Flow, Link, Network


def test_laws_by_hand():
    p = JetMax(tau=0.6, gamma=0.9).namespace()
    assert JetMax.router_law(u=20.0, N=4.0, C=100.0, p=p) == pytest.approx(17.5)  # (8)
    assert JetMax.source_law(x_rtt=10.0, R=17.5, p=p) == pytest.approx(0.4 * 10.0 + 0.6 * 17.5)  # (9)


def test_stationary_rate_is_lemma_3_and_max_min_fair():
    net = Network([Link("100 Mb/s"), Link("10 Mb/s")], [Flow([0]), Flow([0]), Flow([0, 1])])
    point = JetMax(gamma=0.9).equilibrium(net)
    assert point.rates == pytest.approx([40.5e6, 40.5e6, 9e6])
    assert point.rates == pytest.approx(max_min(net, 0.9 * net.capacities))
    assert point.fair_rate == pytest.approx([40.5e6, 9e6])


@pytest.mark.claim
def test_jm_th2_holds_for_random_delays_forward_and_backward():
    """JETMAX Theorem 2 with tau 0.1 % inside and outside 2, delays of every flow and link drawn."""
    rng = np.random.default_rng(2)
    for _ in range(3):
        links = [Link(float(c) * 1e6, float(rng.uniform(0.0, 0.1))) for c in rng.uniform(5, 50, 3)]
        flows = [
            Flow(rng.permutation(3)[: rng.integers(1, 4)].tolist(), access_delay=float(rng.uniform(0.0, 0.1)))
            for _ in range(4)
        ]
        net = Network(links, flows)
        assert linearize(JetMax(tau=1.998), net, "discrete").is_stable
        assert not linearize(JetMax(tau=2.002), net, "discrete").is_stable


@pytest.mark.parametrize("tau", [0.3, 0.6, 1.5, 1.9])
def test_a_flow_moves_by_1_minus_tau_each_rtt(tau):
    net = Network.dumbbell("10 Mb/s", rtts=[0.3, 0.5])
    assert linearize(JetMax(tau=tau), net, "discrete").spectral_radius == pytest.approx(abs(1 - tau) ** (1 / 5))


@pytest.mark.claim
def test_jm_mono_rates_rise_without_overshoot_up_to_tau_1():
    for tau, monotone in ((0.999, True), (1.001, False)):
        x, p = 0.0, JetMax(tau=tau).namespace()
        path = []
        for _ in range(20):
            x = JetMax.source_law(x, 1.0, p)
            path.append(x)
        assert (max(path) <= 1.0 and path == sorted(path)) is monotone


def test_published_bounds():
    theorem, monotone = JetMax().published_bounds(Network.T_u())
    assert (theorem.parameter, theorem.value, theorem.kind) == ("tau", 2.0, "necessary and sufficient")
    assert monotone.value == 1.0


@pytest.mark.parametrize("bad", [{"tau": 0.0}, {"interval": -1.0}, {"gamma": 0.0}, {"floor": 0.0}, {"basic_rate": 0.0}])
def test_bad_parameters_get_one_line(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be > 0.*, got"):
        JetMax(**bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"tolerance": -0.1}, "tolerance must be >= 0.*, got -0.1"),
        ({"mouse_size": 0}, "mouse_size must be .*, got 0"),
        ({"switching": "eager"}, "switching must be one of 'naive', 'managed', got 'eager'"),
        ({"proposed_rate": None}, "proposed_rate must be one of True, False, got None"),
        ({"bottleneck": "queue"}, "bottleneck must be one of 'loss', 'rate', got 'queue'"),
        ({"mice": "ignored"}, "mice must be one of 'responsive', 'unresponsive', 'desired_rate', got 'ignored'"),
    ],
)
def test_unknown_variants_get_one_line(bad, message):
    with pytest.raises(ValueError, match=message):
        JetMax(**bad)
