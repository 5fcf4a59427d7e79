"""XCP's region of RTT distributions: proofs against sampled distributions, linear programs and certified loops."""

from math import pi

import numpy as np
import pytest
from scipy.optimize import linprog

from ecc.fluid import simulate
from ecc.loops.closed_loop import linearize
from ecc.models import RCP, XCP
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.stability import critical_rtt_ratio, is_stable_up_to_ratio


def net(rtts):
    return Network.dumbbell("1 Gb/s", list(rtts))


def two_classes(protocol, ratio, flows=400):
    """The abscissa with flows of one RTT and others of RTT 0, D_max/d near a ratio: in units of the mean RTT."""
    longer = round(flows / ratio)
    rtts = [flows / longer] * longer + [0.0] * (flows - longer)
    return flows / longer, linearize(protocol, net(rtts))


@pytest.mark.parametrize(
    "alpha, beta, gamma, value", [(0.4, 0.226, 0.1, 15.172), (0.4, 0.226, 0.2, 3.5869), (0.4, 0.226, 0.3, 2.1688)]
)
def test_two_classes_are_lost_at_the_ratio(alpha, beta, gamma, value):
    protocol = XCP(alpha=alpha, beta=beta, gamma=gamma)
    found = critical_rtt_ratio(protocol)
    assert found.value == pytest.approx(value, rel=1e-4) and found.share == pytest.approx(1.0 / found.value)
    for factor in (0.97, 1.03):
        ratio, system = two_classes(protocol, factor * found.value)
        assert (ratio < found.value) is (factor < 1.0)
        assert system.certify().stable is (factor < 1.0)
    near = two_classes(protocol, found.value)[1].roots(1)[0]
    assert abs(near.imag) == pytest.approx(found.frequency, rel=0.02)


def moments(w, m, alpha, beta, gamma, count=2001):
    D = np.linspace(0.0, m, count)
    s, e = 1j * w, np.exp(-1j * w * D)
    return D, (s * s + (alpha * s + beta) * e) / (s + gamma * e)


@pytest.mark.slow
@pytest.mark.parametrize("gamma, share", [(0.1, 0.9), (0.3, 0.97)])
def test_proven_ratio_leaves_no_distribution(gamma, share):
    """Linear programs over distributions on a grid of RTTs: none has a root on the axis below, one has above."""
    protocol = XCP(gamma=gamma)
    found = critical_rtt_ratio(protocol)
    assert is_stable_up_to_ratio(protocol, share * found.value)

    def least(ratio, frequencies):
        best = np.inf
        for w in frequencies:
            D, h = moments(w, ratio, 0.4, 0.226, gamma, 801)
            h = h / np.abs(h).max()
            rows = np.zeros((4, len(D) + 4))
            rows[0, : len(D)], rows[1, : len(D)], rows[2, : len(D)], rows[3, : len(D)] = h.real, h.imag, D, 1.0
            rows[0, -4:-2], rows[1, -2:] = (1.0, -1.0), (1.0, -1.0)
            cost = np.r_[np.zeros(len(D)), np.ones(4)]
            best = min(best, linprog(cost, A_eq=rows, b_eq=[0.0, 0.0, 1.0, 1.0]).fun)
        return best

    around = found.frequency * np.linspace(0.5, 2.0, 40)
    assert least(share * found.value, around) > 1e-5
    assert least(1.02 * found.value, found.frequency * np.linspace(0.95, 1.05, 21)) < 1e-4
    assert not is_stable_up_to_ratio(protocol, 1.02 * found.value)


@pytest.mark.slow
def test_sampled_distributions_inside_a_proven_ratio():
    rng = np.random.default_rng(5)
    protocol = XCP(gamma=0.3)
    assert is_stable_up_to_ratio(protocol, 2.0)
    drawn = 0
    while drawn < 60:
        rtts = rng.choice(rng.uniform(0.0, 1.0, rng.integers(1, 5)), rng.integers(2, 12))
        if rtts.max() <= 2.0 * rtts.mean():
            assert linearize(protocol, net(rtts)).is_stable
            drawn += 1


def test_limits():
    small = critical_rtt_ratio(XCP(gamma=0.02))
    assert 1.56 < 0.02 * small.value < pi / 2  # nearly where shuffling is lost by itself
    assert critical_rtt_ratio(XCP(alpha=0.4, beta=1.0)).value == 1.0  # equal RTTs are lost already
    assert not is_stable_up_to_ratio(XCP(alpha=0.4, beta=1.0), 1.0)
    assert not is_stable_up_to_ratio(XCP(), pi / 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("alpha, beta, gamma", [(0.4, 0.226, 0.1), (0.4, 0.226, 0.2), (0.2, 0.0566, 0.1)])
def test_a_hundredth_below_the_ratio_of_two_classes_every_distribution_is_stable(alpha, beta, gamma):
    protocol = XCP(alpha=alpha, beta=beta, gamma=gamma)
    assert is_stable_up_to_ratio(protocol, 0.99 * critical_rtt_ratio(protocol).value)


def growth(rtts, perturbation=1e-4, duration=25.0, **gains):
    """Growth rate and frequency of the last flow's rate in the fluid whose routers grant all the time, by its peaks."""
    network = Network.dumbbell("100 Mb/s", rtts)
    protocol = XCP(**gains)
    run = simulate(
        Scenario(network, protocol, duration),
        sample=0.02,
        start="equilibrium",
        perturbation=perturbation,
        rtol=1e-9,
        clocking="rate",
    )
    rate, time = run.rate.to_numpy()[:, -1] * len(rtts) / 1e8 - 1.0, run.data["time"].to_numpy()
    late = np.flatnonzero((rate[1:-1] > rate[:-2]) & (rate[1:-1] >= rate[2:]) & (time[1:-1] > duration / 3.0)) + 1
    slope = np.polyfit(time[late], np.log(rate[late]), 1)[0]
    return slope, 2.0 * pi / np.diff(time[late]).mean(), linearize(protocol, network).roots(1)[0]


@pytest.mark.parametrize(
    "rtts", [[0.01] * 29 + [1.0], [0.01] * 25 + [0.8]], ids=["29 short and one long", "25 short and one long"]
)
def test_the_fluid_grows_as_the_model_says(rtts):
    measured, frequency, root = growth(rtts, duration=25.0 * rtts[-1])
    assert root.real > 0.0
    assert measured == pytest.approx(root.real, rel=0.05)
    assert frequency == pytest.approx(root.imag, rel=0.03)


@pytest.mark.parametrize(
    "given, kind, message",
    [
        ((RCP(),), TypeError, "protocol must be XCP, got RCP"),
        ((XCP(gamma=0.0),), ValueError, "gamma must be > 0, got 0.0"),
        ((XCP(beta=0.0),), ValueError, "beta must be > 0, got 0.0"),
        ((XCP(rtt="max"),), ValueError, "rtt must be 'mean' for a ratio to the mean RTT, got 'max'"),
        ((XCP(rtt_limit=1.0),), ValueError, "rtt_limit must be None for a ratio to the mean RTT, got 1 s"),
        ((XCP(), 0.5), ValueError, "ratio must be >= 1, got 0.5"),
    ],
)
def test_refusals(given, kind, message):
    ask = critical_rtt_ratio if len(given) == 1 else is_stable_up_to_ratio
    with pytest.raises(kind, match=message):
        ask(*given)
