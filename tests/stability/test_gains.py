"""Critical gains of protocols against the papers' numbers."""

from dataclasses import dataclass, replace
from math import inf, isnan, pi

import numpy as np
import pytest

from ecc.errors import LinearizationError
from ecc.linear.characteristic import Characteristic
from ecc.loops.closed_loop import linearize
from ecc.models import DCQCN, PIQIRCP, QIRCP, RCP, NewReno, PowerTCP
from ecc.network.network import Network
from ecc.queues import DRR
from ecc.stability import critical_gain


def boundary(protocol, rtts, time, **options):
    return critical_gain(protocol, Network.dumbbell("1 Gb/s", rtts=rtts), "alpha", time, **options)


def test_numbers_of_the_thesis():
    assert boundary(QIRCP(), [0.1], "discrete").value == pytest.approx(1.651587, abs=5e-7)
    assert boundary(QIRCP(), [0.1, 0.2], "discrete").value == pytest.approx(1.895494, abs=5e-7)
    assert boundary(QIRCP(), [0.01], "discrete").value == pytest.approx(2.0, rel=1e-12)
    assert boundary(QIRCP(), [0.01], "discrete").frequency == pytest.approx(pi)
    assert boundary(QIRCP(), [0.3, 0.3], "continuous").value == pytest.approx(pi / 2, rel=1e-12)


def test_proof_from_both_sides():
    loss = boundary(PIQIRCP(), [0.12, 0.12], "hybrid", certify=True)
    low, high = loss.certified
    assert low < loss.value < high and high / low - 1 <= 1e-9


@pytest.mark.slow
def test_fast_filter_tends_to_the_published_limit():
    """T -> 0 with tau1 fixed: (4.75), also where the filter is 10^7 times faster than the path."""
    rtts = [0.7626, 0.3592, 1.1259]
    limit = boundary(PIQIRCP(), rtts, "continuous", approximation="4.75").value
    for interval in (1e-5, 1e-7):
        assert boundary(PIQIRCP(interval=interval), rtts, "continuous").value == pytest.approx(limit, rel=1e-2)


def test_free_queue_of_rcp_is_unstable_at_the_papers_beta():
    network = Network.dumbbell("1 Gb/s", rtts=[0.1, 0.1])
    largest = critical_gain(RCP(alpha=0.4), network, "beta").value
    assert largest < 1.0
    assert critical_gain(RCP(beta=1.0), network, "alpha").value == 0.0
    assert critical_gain(RCP(alpha=0.86, beta=0.5), network, "beta").value == pytest.approx(0.5498, abs=0.01)


def test_a_loss_that_never_comes():
    loss = critical_gain(QIRCP(alpha=0.5), Network.dumbbell("1 Gb/s", rtts=[0.1]), "gamma", maximum=1e3)
    assert loss.value == inf and isnan(loss.frequency)


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_parameter_is_searched_as_far_as_the_protocol_takes_it(time):
    """tau1 must be below 2; at tau1 = 1 the filter, and a state of the model with it, is gone."""
    network = Network.dumbbell("1 Gb/s", rtts=[0.1, 0.2])
    loss = critical_gain(PIQIRCP(), network, "tau1", time)
    if loss.value == inf:
        assert 1.999 < loss.complete_to <= 2.0
    for low, high in loss.stable_ranges:
        for share in (0.01, 0.5, 0.99):
            assert linearize(PIQIRCP(tau1=low + share * (high - low)), network, time).is_stable
    assert loss.stable_ranges


@pytest.mark.slow
def test_jumps_of_delays_in_steps_hide_no_range_of_intervals():
    """Discrete models over their interval, against eigenvalues of companion matrices in every range between jumps."""
    protocol, rtts = PIQIRCP(alpha=0.715, tau1=1.2025, tau2=2.8278), [0.1, 0.1, 0.3003, 0.3003]
    network = Network.dumbbell("1 Gb/s", rtts)
    jumps = np.unique([rtt / k for rtt in rtts for k in range(1, 25)])
    jumps = jumps[jumps > 0.012]

    def grows(interval: float) -> bool:
        """Whether the companion matrix over all delays has an eigenvalue outside the unit circle."""
        system = linearize(replace(protocol, interval=interval), network, "discrete")
        n, steps = system.size, int(system.delays.max()) + 1
        whole = np.eye(n * steps, k=-n)
        for delay, matrix in zip(system.delays.astype(int), system.matrices, strict=True):
            whole[:n, n * delay : n * (delay + 1)] += matrix
        return bool(np.abs(np.linalg.eigvals(whole)).max() > 1.0)

    found = critical_gain(protocol, network, "interval", "discrete")
    assert found.value == pytest.approx(0.1, rel=1e-8)
    assert found.stable_ranges[1] == pytest.approx((0.1001, 0.15015), rel=1e-8)
    assert "every range between jumps from 0.004003 s on was searched" in found.notes[-1]
    inside = np.sqrt(jumps[1:] * jumps[:-1])
    for interval in inside[inside < found.complete_to]:
        assert grows(interval) is not any(low < interval < high for low, high in found.stable_ranges), interval


@pytest.mark.slow
@pytest.mark.parametrize(
    ("time", "value", "most"),
    [
        ("continuous", 2.385357049421317, 2_000),  # 13,204 points before crossings were polished by Newton's method
        ("hybrid", 2.1466666666666665, 2_000),  # 39,278
        ("discrete", inf, 20_000),  # 66,291
    ],
)
def test_gains_over_the_control_interval_take_little_work(monkeypatch, time, value, most):
    """What is not affine in its parameter is followed by counts: points at which characteristic matrices are taken."""
    points, evaluate = [], Characteristic.evaluate
    monkeypatch.setattr(Characteristic, "evaluate", lambda ch, s: [points.append(len(s)), evaluate(ch, s)][1])
    network = Network.dumbbell("1 Gb/s", [0.12, 0.12])
    found = critical_gain(PIQIRCP(), network, "interval", time)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert 0 < sum(points) < most


@pytest.mark.slow
def test_values_without_a_linear_model_are_not_called_stable():
    """Windows of PowerTCP meet no queue below an RTT of half the real one; a narrow range above is unstable."""
    network = Network.dumbbell("100 Gb/s", ["20 us"] * 2)
    found = critical_gain(PowerTCP(), network, "base_rtt")
    assert found.begins == pytest.approx(1e-5, rel=1e-6)
    assert [end for both in found.stable_ranges for end in both] == pytest.approx(
        [1e-5, 1.004032e-5, 1.043260e-5, 2.016128e-5], rel=1e-6
    )
    with pytest.raises(LinearizationError, match="no ACK-clocked linear model"):
        linearize(PowerTCP(base_rtt=0.999e-5), network)
    for base_rtt, stable in ((1.002e-5, True), (1.02e-5, False), (1.3e-5, True)):
        assert linearize(PowerTCP(base_rtt=base_rtt), network).certify().stable is stable


@pytest.mark.slow
def test_a_parameter_in_bit_s_is_searched_around_its_value():
    """It was, up to 1 Mb/s, where DCQCN adds 40 Mb/s."""
    network = Network.dumbbell("40 Gb/s", ["20 us"] * 2)
    found = critical_gain(DCQCN(), network, "rate_ai")
    assert found.value == pytest.approx(3.5525e8, rel=1e-4)
    for share, stable in ((0.99, True), (1.01, False)):
        assert linearize(DCQCN(rate_ai=share * found.value), network).is_stable is stable


def test_a_parameter_that_is_an_array_has_no_limit():
    @dataclass(frozen=True)
    class Weighted(RCP):
        weights: tuple[float, ...] = (0.4, 1.0)

    network = Network.dumbbell("1 Gb/s", rtts=[0.1])
    numbers = "alpha, beta, interval, initial, floor, rtt_gain"
    message = rf"^parameter must be a number \({numbers}\), got weights, an array of 2 numbers$"
    with pytest.raises(ValueError, match=message):
        critical_gain(Weighted(), network, "weights")
    halves = {"flows": NewReno(ecn=True), "links": DRR(weights=(1, 2, 3))}
    with pytest.raises(
        ValueError, match=r"^parameter must be a number \(.*\), got links.weights, an array of 3 numbers"
    ):
        critical_gain(halves, network, "links.weights")
    with pytest.raises(ValueError, match=r"^parameter must be one of alpha, .*, got 'flows.weights'"):
        critical_gain(Weighted(), network, "flows.weights")
