"""Conditions of stability, derived here from the papers' equations: linear models, fluid and packets agree with them.

Hypothesis draws a network in the operating range of a protocol, and its other gains. A condition gives the critical
value of a gain from the characteristic equation of the paper, without calls of the code under test: the smallest gain
for which a root lies on the boundary of stability, where the equation is solved for the gain.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf, pi, sin
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import ecc
from ecc.linear.empty_queue import empty_queue_bound
from ecc.models import ABC, EMKC, EMKCAVQ, FAST, HPCC, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, Kelly
from ecc.network.network import Network
from ecc.stability import check_boundary
from ecc.stability.gains import critical_gain
from ecc.testing.strategies import networks, parameters

# ---- gains for which a root lies on the boundary of stability ---------------------------------------------


def smallest(gain: Callable[[Any], Any], points: Callable[[Any], Any], grid: np.ndarray) -> float:
    """Return the smallest positive gain(points(x)) that is real, for x within a grid or at its end."""

    def imaginary(x: float) -> float:
        return float(np.imag(gain(points(x))))

    with np.errstate(divide="ignore", invalid="ignore"):
        sides = np.sign(np.imag(gain(points(grid))))
    values = [complex(gain(points(grid[-1])))]
    for k in np.flatnonzero(sides[:-1] * sides[1:] < 0):
        values.append(complex(gain(points(brentq(imaginary, grid[k], grid[k + 1], xtol=1e-15)))))
    real = [value.real for value in values if abs(value.imag) < 1e-6 * abs(value) and value.real > 1e-9]
    return min(real, default=inf)


def in_steps(gain: Callable[[Any], Any]) -> float:
    """Return the smallest gain with a root z on the unit circle."""
    return smallest(gain, lambda angle: np.exp(1j * angle), np.linspace(1e-4, pi, 20001))


def in_time(gain: Callable[[Any], Any], rtts: np.ndarray) -> float:
    """Return the smallest gain with a root s on the imaginary axis, up to five turns in the shortest RTT."""
    return smallest(gain, lambda speed: 1j * speed, np.linspace(1e-4, 10.0 * pi, 20001) / rtts.min())


def steps(protocol, network):
    """Return RTTs in control intervals, rounded up."""
    return np.array([max(1, ceil(rtt / protocol.interval - 1e-9)) for rtt in network.rtts])


def delayed(z, delays):
    """Return the mean of z^-D over flows."""
    return np.mean([z ** -int(delay) for delay in delays], axis=0)


# ---- conditions --------------------------------------------------------------------------------------------


def integral(protocol, network):
    """THESIS (4.4), continuous: R' = -(alpha/d) mean R(t - D_i)."""
    rtts = network.rtts
    return in_time(lambda s: -s * rtts.mean() / np.mean([np.exp(-s * rtt) for rtt in rtts], axis=0), rtts)


def integral_in_steps(protocol, network):
    """THESIS (4.4), in whole steps: R(n) = R(n - 1) - (alpha/d) mean R(n - D_i), d = mean D_i."""
    delays = steps(protocol, network)
    share = 1.0 / delays.mean()
    return in_steps(lambda z: -(1.0 - 1.0 / z) / (share * delayed(z, delays)))


def integral_at_ticks(protocol, network):
    """THESIS (4.4), routers that average over [n T, (n + 1) T]: rates of two intervals, with exact delays."""
    share = protocol.interval / network.rtts.mean()
    complete, rest = np.divmod(network.rtts / protocol.interval + 1e-9, 1.0)

    def averaged(z):
        parts = zip(complete, rest, strict=True)
        return np.mean([(1.0 - f) * z ** -(m + 1.0) + f * z ** -(m + 2.0) for m, f in parts], axis=0)

    return in_steps(lambda z: -(1.0 - 1.0 / z) / (share * averaged(z)))


def proportional_integral(protocol, network):
    """THESIS (4.14) and (4.19): the router adds the last error, the source averages."""
    delays = steps(protocol, network)
    share = 1.0 / delays.mean()
    tau1, tau2 = protocol.tau1, protocol.tau2

    def gain(z):
        source = (tau1 + tau2 * (1.0 - 1.0 / z)) / (1.0 - (1.0 - tau1) / z)
        return -(1.0 - 1.0 / z) / (share * (1.0 + 1.0 / z) * source * delayed(z, delays))

    return in_steps(gain)


def with_queue(protocol, network):
    """THESIS (2.16), EVAL (1), equal RTTs: u^2 + (alpha u + beta) e^-u = 0 with u = s D, so alpha = w sin w."""
    speed = brentq(lambda w: w * sin(w) - protocol.alpha, 0.0, 1.5)
    return speed**2 * np.cos(speed)


def kelly(protocol, network):
    """Johari and Tan 2001: x(n) = x(n - 1) + kappa (omega - x(n - D) p(n)), p = (y/C)^k."""
    k, C = protocol.steepness, float(network.capacities[0])
    load = (network.n_flows * protocol.omega / C) ** (1.0 / (k + 1.0))  # y/C: all pay, y p = N omega
    delay = int(steps(protocol, network)[0])
    return 2.0 * sin(pi / (2.0 * (2.0 * delay - 1.0))) / (load**k * (1.0 + k))


def max_min_kelly(protocol, network):
    """JETMAX (6), equal RTTs: a deviation of all is multiplied by 1 - beta (p + y p') in an RTT, y p = N alpha/beta."""
    k = protocol.steepness
    load = network.n_flows * protocol.alpha * (1.0 + k) / (2.0 * float(network.capacities[0]))
    return 2.0 / (1.0 + k) / load**k


def exponential(protocol, network):
    """JETMAX (3)-(4), equal RTTs: p + y p' = (y - C)/y + C/y = 1. With other RTTs, 2 is sufficient only."""
    return 2.0


def virtual_queue(protocol, network):
    """JETMAX (3)-(5), equal RTTs: z^D = 1 - beta - beta c z/(z - 1), c = tau/D."""
    delay = int(steps(protocol, network).max())
    share = protocol.tau / delay
    return in_steps(lambda z: (1.0 - z**delay) / (1.0 + share * z / (z - 1.0)))


def stepped(protocol, network):
    """JETMAX Theorem 2: z^D = 1 - tau."""
    return 2.0


@dataclass(frozen=True)
class Condition:
    """A protocol, the gain that is varied, the time of the model, and its critical value."""

    protocol: Any
    parameter: str
    time: str
    critical: Callable[[Any, Network], float]
    equal: bool = False  # derived for equal RTTs
    runs: tuple[str, ...] = ("fluid",)  # engines that have the clocks of the model


CONDITIONS = {
    "QI-RCP": Condition(QIRCP(gamma=0.8), "alpha", "continuous", integral),
    "QI-RCP in steps": Condition(QIRCP(gamma=0.8), "alpha", "discrete", integral_in_steps),
    "QI-RCP at ticks": Condition(QIRCP(gamma=0.8), "alpha", "hybrid", integral_at_ticks, runs=("packet",)),
    "RCP-1": Condition(RCP(queue_term=False), "alpha", "continuous", integral, runs=()),
    "RCP-1 in steps": Condition(RCP(queue_term=False), "alpha", "discrete", integral_in_steps, runs=()),
    "RCP-1 at ticks": Condition(RCP(queue_term=False), "alpha", "hybrid", integral_at_ticks, runs=()),
    "RCP": Condition(RCP(), "beta", "continuous", with_queue, equal=True, runs=()),
    "XCP": Condition(XCP(), "beta", "continuous", with_queue, equal=True, runs=()),
    "PIQI-RCP": Condition(PIQIRCP(gamma=0.8), "alpha", "discrete", proportional_integral),
    "Kelly": Condition(Kelly(), "kappa", "discrete", kelly, equal=True),
    "MKC": Condition(MKC(), "beta", "discrete", max_min_kelly, equal=True),
    "EMKC": Condition(EMKC(), "beta", "discrete", exponential, equal=True),
    "EMKC-AVQ": Condition(EMKCAVQ(), "beta", "discrete", virtual_queue, equal=True),
    "JetMax": Condition(JetMax(proposed_rate=False), "tau", "discrete", stepped, runs=("fluid",)),
}
PHASES = (Phase.explicit, Phase.generate)  # without shrinking: a draw takes seconds, and is simple
BY_FLUID = [name for name, condition in CONDITIONS.items() if "fluid" in condition.runs]


def draw(data, condition):
    """Return a protocol with other gains, and a network of one link.

    Two flows or more: the rate of a single one would reach the limit of routers, the capacity, at 25 % above its share.
    """
    network = data.draw(
        networks(condition.protocol, links=(1, 1), flows=(2, 3), equal_rtts=condition.equal, buffers=(None,))
    )
    protocol = data.draw(parameters(condition.protocol))
    assume(getattr(protocol, "gamma", 1.0) <= 1.0)  # a target above the capacity has no equilibrium
    return protocol, network


def agrees_with_linear_model(name, data):
    condition = CONDITIONS[name]
    protocol, network = draw(data, condition)
    critical = condition.critical(protocol, network)
    limit = critical_gain(protocol, network, condition.parameter, condition.time)
    assert limit.value == pytest.approx(critical, rel=1e-7)
    for factor, stable in ((0.999, True), (1.001, False)):
        moved = replace(protocol, **{condition.parameter: factor * critical})
        assert ecc.linearize(moved, network, condition.time).is_stable is stable


def agrees_with_runs(name, data, engine):
    condition = CONDITIONS[name]
    protocol, network = draw(data, condition)
    if engine == "packet":  # fine enough for a perturbation of 2 %
        network = Network.dumbbell("200 Mb/s", rtts=network.rtts.tolist(), packet_size=250)
    critical = condition.critical(protocol, network)
    row = check_boundary(protocol, network, condition.parameter, [condition.time], [engine]).iloc[0]
    assert row["limit"] == pytest.approx(critical, rel=1e-7)
    assert (row["status_below"], row["status_above"]) == ("stable", "unstable")


@pytest.mark.slow
@pytest.mark.parametrize("name", CONDITIONS)
@settings(max_examples=1, phases=PHASES)
@given(st.data())
def test_linear_models_lose_stability_at_the_derived_gain(name, data):
    agrees_with_linear_model(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONDITIONS)
@settings(max_examples=8, phases=PHASES)
@given(st.data())
def test_linear_models_lose_stability_at_the_derived_gain_on_many_networks(name, data):
    agrees_with_linear_model(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_FLUID)
@settings(max_examples=1, phases=PHASES)
@given(st.data())
def test_fluid_loses_stability_at_the_derived_gain(name, data):
    agrees_with_runs(name, data, "fluid")


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_FLUID)
@settings(max_examples=4, phases=PHASES)
@given(st.data())
def test_fluid_loses_stability_at_the_derived_gain_on_many_networks(name, data):
    agrees_with_runs(name, data, "fluid")


@pytest.mark.slow
@settings(max_examples=15, phases=PHASES)
@given(st.data())
def test_packets_lose_stability_at_the_gain_derived_for_ticks(data):
    agrees_with_runs("QI-RCP at ticks", data, "packet")


# ---- loops without a limit, or with another one ------------------------------------------------------------


@pytest.mark.parametrize("protocol", [RCP(), XCP()])
@pytest.mark.parametrize("engine", ["fluid", pytest.param("packet", marks=pytest.mark.slow)])
def test_an_empty_queue_keeps_runs_stable_above_the_limit_of_the_signed_queue(protocol, engine):
    """A queue cannot be negative: the switched loop is proven stable up to empty_queue_bound."""
    network = Network.dumbbell("200 Mb/s", rtts=[0.05, 0.05], packet_size=250)
    row = check_boundary(protocol, network, "beta", ["continuous"], [engine]).iloc[0]
    assert row["limit"] == pytest.approx(with_queue(protocol, network), rel=1e-7)
    assert empty_queue_bound(protocol.alpha, network.rtts) > 100.0
    assert row["status_above"] == "stable" and row["measured_limit"] == inf


@settings(max_examples=2, phases=PHASES)
@given(st.integers(1, 4), st.floats(0.05, 1.0), st.floats(0.02, 0.12))
def test_ack_clocked_windows_of_fast_are_stable_for_every_gain(flows, gamma, rtt):
    """Wang, Wei, Low 2005, one link and equal RTTs: the queue tracks windows within an RTT."""
    network = Network.dumbbell("50 Mb/s", rtts=[rtt] * flows)
    protocol = FAST(alpha=50.0, gamma=gamma)
    assert ecc.linearize(protocol, network).is_stable
    assert critical_gain(protocol, network, "gamma").value == inf


def test_hpcc_has_the_dominant_root_of_its_characteristic_equation():
    """Without a queue: s T + e + (1 - e) exp(-s T)/(1 + s T/16) = 0, e = W_AI/W; differences s T + e = 0."""
    protocol = HPCC()
    network = Network.dumbbell(protocol.line_rate, rtts=[protocol.base_rtt] * 2, packet_size=1000)
    point = protocol.equilibrium(network)
    share = 8.0 * protocol.w_ai / (float(point.rates[0]) * protocol.base_rtt)
    slow = complex(ecc.linearize(protocol, network).roots(1)[0])
    assert slow.real * protocol.base_rtt == pytest.approx(-share, rel=1e-3) and slow.imag == 0.0


@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize("flows", [20, 60])
def test_abc_needs_a_delta_above_that_of_its_equation(factor, flows):
    """s + a + exp(-s tau)/delta = 0 with a = (1 - tr/C)/D = 1/(W D): a delta = -cos v and v = w tau."""
    network = Network.dumbbell("20 Mb/s", rtts=[0.1] * flows, packet_size=1000)

    def damping(delta):
        point = ABC(delta=delta).equilibrium(network)
        delay = 0.1 + float(point.queue[0] / network.capacities[0])
        return 8000.0 / (float(point.rates[0]) * delay) / delay

    def excess(delta):
        angle = float(np.arccos(-damping(delta) * delta))
        return angle * delta / 0.1 - np.sin(angle)

    critical = brentq(excess, 0.02, 0.1)
    assert critical < 2.0 / pi * 0.1
    system = ecc.linearize(ABC(delta=factor * critical), network)
    assert system.is_stable is (factor > 1.0)
