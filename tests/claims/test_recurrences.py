"""The laws in time against the linear models, against recursions by hand, and against what is known of the maps."""

from math import ceil, log

import numpy as np
import pytest

from ecc.claims.checks.common.recurrences import law_run, random_network, settled
from ecc.claims.checks.theorems import convergence, delays_and_bottlenecks, stationary_rates
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, EMKCAVQ, JetMax
from ecc.network.allocation import max_min
from ecc.network.network import Flow, Link, Network
from ecc.stability import growth_of_rates

TWO = Network([Link("10 Mb/s"), Link("40 Mb/s")], [Flow([0, 1]), Flow([0]), Flow([1])])


@pytest.mark.parametrize("protocol", [EMKC(alpha=1e6), EMKCAVQ(alpha=1e6, gamma=0.9), JetMax(tau=0.8)])
def test_without_delays_the_laws_come_to_the_equilibrium(protocol):
    point = protocol.equilibrium(TWO)
    run = law_run(protocol, TWO, 3000, point.rates * [1.2, 0.7, 0.9])
    assert settled(run)
    assert run.rate.to_numpy()[-1] == pytest.approx(point.rates, rel=1e-6)
    assert run.bottleneck.to_numpy()[-1].tolist() == point.bottleneck.tolist()
    assert run.arrival.to_numpy()[-1] == pytest.approx(run.rate.to_numpy()[-1] @ TWO.incidence)


def test_a_deviation_decays_as_the_linear_model_says():
    """Forward delays of 1 and 2 steps, back 2 and 3."""
    protocol, network = EMKC(alpha=5e5, beta=1.2), Network.dumbbell("10 Mb/s", [0.3, 0.5], delay=0.05)
    ahead, back = np.array([[[1], [2]]]), np.array([[[2], [3]]])
    assert network.forward_delays[:, 0] == pytest.approx([0.1, 0.2])
    rest = protocol.equilibrium(network).rates
    run = law_run(protocol, network, 600, rest * [1 + 1e-6, 1 - 2e-6], ahead, back, [0, 0])
    size = np.abs(run.rate.to_numpy() / rest - 1.0).max(axis=1).reshape(-1, 30).max(axis=1)
    radius = linearize(protocol, network, "discrete").spectral_radius
    assert (size[19] / size[4]) ** (1 / 450) == pytest.approx(radius, abs=1e-4)


def test_delays_that_change_are_those_of_their_step():
    """One JetMax flow: g is C whatever comes, so x[n] = 0.4 x[n - b[n] - f[n - b[n]]] + 0.6 C."""
    ahead, back = [0, 2, 1], [1, 3, 2]
    network = Network.dumbbell("10 Mb/s", [0.1])
    run = law_run(JetMax(), network, 40, [1e6], np.reshape(ahead, (3, 1, 1)), np.reshape(back, (3, 1, 1)), [0])
    past = max(ahead) + max(back) + 1  # steps up to 0
    x = [1e6] * past
    for n in range(1, 41):
        heard = n - back[n % 3]
        x.append(0.4 * x[past - 1 + heard - ahead[heard % 3]] + 0.6 * 10e6)
    assert run.rate.to_numpy()[:, 0] == pytest.approx(x[past:])


def test_what_oscillates_is_not_settled():
    run = law_run(EMKCAVQ(alpha=4e6), Network.dumbbell("10 Mb/s", [0.1] * 6), 500, 10e6 / 6 * np.linspace(0.9, 1.1, 6))
    assert not settled(run, 1e-2)


def test_random_networks_use_every_link():
    rng = np.random.default_rng(1)
    for _ in range(20):
        network = random_network(rng, 4, 3, 2)
        assert network.incidence.any(axis=0).all()
        assert max(len(flow.route) for flow in network.flows) <= 2


@pytest.mark.parametrize("beta", [0.5, 1.9])
def test_growth_under_constant_delays_is_the_spectral_radius(beta):
    own, gain, protocol, _ = delays_and_bottlenecks._loop(beta, 3)
    back, ahead = np.tile([1, 3, 2], (8, 1)), np.tile([2, 0, 1], (8, 1))
    network = Network(
        [Link("100 Mb/s")],
        [Flow([0], access_delay=0.1 * a) for a in ahead[0]],
        tuple(0.1 * (b + a) for b, a in zip(back[0], ahead[0], strict=True)),
    )
    radius = linearize(protocol, network, "discrete").spectral_radius
    assert growth_of_rates(own * np.eye(3) - gain, ahead, back).value == pytest.approx(radius, abs=1e-9)


def test_delays_in_order():
    assert delays_and_bottlenecks._in_order(np.array([[1], [2], [3], [1]]))
    assert not delays_and_bottlenecks._in_order(np.array([[1], [3], [2], [1]]))


@pytest.mark.parametrize("tau", [0.3, 0.6, 1.4])
@pytest.mark.parametrize("flows", [2, 7, 300])
def test_steps_of_the_map(tau, flows):
    """Efficiency: ceil(log eps/log |1 - tau|); fairness: N - 1 times as far to go for the flow that had all."""
    rate = log(abs(1.0 - tau))
    efficient, fair = convergence._map_steps(1e7, flows, tau)
    assert fair == ceil(log(0.01 / (flows - 1)) / rate)
    if tau < 1.0:
        assert efficient == ceil(log(0.01) / rate)


def test_stationary_assignments_by_hand():
    """Flow 1 alone can follow either end of a parking lot with room to spare at one."""
    network = Network.parking_lot(["97 Mb/s", "80 Mb/s"])
    (rates,) = stationary_rates._stationary(JetMax(), network)
    assert rates == pytest.approx(max_min(network))
