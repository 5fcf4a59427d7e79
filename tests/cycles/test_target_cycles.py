"""Cycles around a delay target against the method of steps, the switched equation, and packets of Swift."""

import numpy as np
import pytest

import ecc
from ecc.models import Swift
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.stability import target_cycle


def switched(beta, kappa, rtts=60, n=500):
    """Largest and least x of the last third, by Euler steps from far beyond the target."""
    x = np.full((rtts + 1) * n + 1, 3.0)
    for i in range(n, len(x) - 1):
        v = x[i - n] + kappa * x[i]
        x[i + 1] = x[i] + (1.0 if v < 0.0 else -beta * v) / n
    return x[-len(x) // 3 :].max(), x[-len(x) // 3 :].min()


def test_without_steepness_it_is_the_method_of_steps():
    beta = 0.8
    # from 1 + t on: 1 - beta t^2/2, then `second`, then its integral
    second = np.polynomial.Polynomial([1.0 - beta / 2.0, -beta, 0.0, beta**2 / 6.0])
    (zero,) = (root.real for root in second.roots() if abs(root.imag) < 1e-12 and 0.0 < root.real < 1.0)
    least = second(1.0) - beta * second.integ()(zero)
    cycle = target_cycle(beta)
    assert cycle.largest == 1.0 and cycle.least == pytest.approx(least, abs=1e-5)
    assert cycle.period == pytest.approx(2.0 + zero + 1.0 - least, abs=1e-4)


@pytest.mark.parametrize(("beta", "kappa"), [(0.8, 0.122), (1.0, 0.15), (0.772, 0.25), (0.45, 0.0)])
def test_the_switched_equation_comes_to_it(beta, kappa):
    cycle = target_cycle(beta, kappa)
    assert switched(beta, kappa) == pytest.approx((cycle.largest, cycle.least), abs=0.01)


@pytest.mark.parametrize(("beta", "kappa"), [(0.36, 0.0), (0.5, 0.122), (0.8, 0.4)])
def test_elsewhere_it_decays(beta, kappa):
    assert target_cycle(beta, kappa) is None
    assert switched(beta, kappa)[0] < 0.03


def test_bad_arguments():
    with pytest.raises(ValueError, match="beta must be > 0 and <= 1, got 1.1"):
        target_cycle(1.1)
    with pytest.raises(ValueError, match="steepness must be >= 0, got -1"):
        target_cycle(0.8, -1.0)


@pytest.mark.parametrize(("flows", "beta"), [(10, 0.8), (20, 0.8), (10, 0.3), (1, 0.8)])
def test_packets_of_swift_swing_so(flows, beta):
    """Ten packets of 400 bytes take the part of one of 4,000: windows are in tenths of it."""
    C, rtt, per = 100e9, 10e-6, 10
    many = flows if flows > 1 else 10  # one flow of ten times the increase is the same fluid
    scale = per * many / flows
    protocol = Swift(
        base_target="20 us",
        hop_scaling=0.0,
        fs_range="50 us",
        fs_min_cwnd=0.1 * scale,
        fs_max_cwnd=100.0 * scale,
        ai=scale,
        min_cwnd=0.01 * scale,
        beta=beta,
    )
    starts = np.random.default_rng(1).uniform(0.0, 3e-4, flows).tolist()
    network = Network.dumbbell(C, [rtt] * flows, packet_size=4000 // per, starts=starts)
    wait = protocol.equilibrium(network).queue[0] / C
    D, unit = rtt + wait, many * 32_000.0 / C
    steepness = float(protocol.steepness(network)[0])
    run = ecc.packet.simulate(Scenario(network, protocol, 3e-3), sample=1e-6)
    x = (run.queue[-1500:, 0].to_numpy() * 8.0 / C - wait) / unit
    cycle = target_cycle(beta, steepness)
    if flows == 1 or beta == 0.3:
        assert x.std() < 0.12
        assert (cycle is None) == (beta == 0.3)
        return
    assert x.max() == pytest.approx(cycle.largest, abs=0.12) and x.min() == pytest.approx(cycle.least, abs=0.06)
    ups, is_low = [], False  # of cycles that went below the mean by half a deviation, and rise above it by as much
    for k, value in enumerate((x - x.mean()) / x.std()):
        is_low = is_low or value < -0.5
        if is_low and value > 0.5:
            ups.append(k)
            is_low = False
    assert np.diff(ups).mean() * 1e-6 / D == pytest.approx(cycle.period, rel=0.1)
