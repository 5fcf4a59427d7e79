"""Hosts that set rates at ticks: against maps and simulations written here, and the continuous model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import newton

import ecc
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.loops.closed_loop import linearize
from ecc.models import DCQCN, PatchedTIMELY
from ecc.models.dcqcn import alpha_law, marking, target_law
from ecc.models.timely import averaged
from ecc.network.network import Network
from ecc.results.transients import decay

TIMES = ("continuous", "discrete", "hybrid")


def link(flows, rtt=4e-6, packet=1000, capacity="10 Gb/s"):
    return Network.dumbbell(capacity, rtts=[rtt] * flows, packet_size=packet)


def exponent(system):
    return np.log(complex(system.roots(1)[0])) / system.dt


def near(system, guess):
    """The exponent near a guess; the proof that none is missing costs more."""
    return newton(lambda s: system.characteristic(np.exp(s * system.dt)), guess * (1.0 + 1e-3), tol=1e-10)


def jacobian_of(step, z, scale):
    """Central differences."""
    columns = []
    for h in np.diag(1e-5 * scale):
        columns.append((step(z + h) - step(z - h)) / (2.0 * h.sum()))
    return np.array(columns).T


def same_moduli(system, jacobian, n):
    expected = np.sort(np.abs(np.linalg.eigvals(jacobian)))[::-1][:n]
    assert np.abs(system.roots(n)) == pytest.approx(expected, rel=1e-5)
    return expected[0]


# ---- the discrete model: Jacobians of nonlinear maps, two flows apart ----------------------------------------


@pytest.mark.parametrize(("packet", "rtt"), [(1000, 4e-6), (1000, 90e-6), (64_000, 4e-6)])
def test_the_discrete_model_of_timely_is_the_jacobian_of_its_map(packet, rtt):
    """Rates and gradients of two flows, then the queues of the last ticks, the newest first."""
    protocol, network = PatchedTIMELY(low=20e-6 + rtt, high="1 ms"), link(2, rtt, packet)
    point, p = protocol.equilibrium(network), protocol.namespace()
    C, x0, q0 = network.capacities[0], point.rates[0], point.queue[0]
    wait = q0 / C
    u = max(20e-6, 8.0 * packet / x0)
    around = math.ceil((rtt + wait) / u - 1e-9)  # no forward delay: the queue is at the sender
    q_size = around + 1

    def step(z):
        x, gradient, q = z[:2].copy(), z[2:4].copy(), z[4:].copy()
        for i in (0, 1):
            gradient[i] = averaged(gradient[i], q[around - 1] / C, q[around] / C, p.interval, p)
            x[i] = PatchedTIMELY.source_law(x[i], rtt + q[around - 1] / C, gradient[i], p)
        return np.concatenate([x, gradient, [q[0] + u * (z[:2].sum() - C)], q[:-1]])

    z = np.array([x0, x0, 0.0, 0.0, *[q0] * q_size])
    assert step(z)[:2] == pytest.approx(z[:2]) and step(z)[4:] == pytest.approx(z[4:])
    jacobian = jacobian_of(step, z, np.array([x0, x0, 1.0, 1.0, *[q0] * q_size]))
    system = linearize(protocol, network, "discrete")
    assert system.dt == pytest.approx(u)
    radius = same_moduli(system, jacobian, 4)
    assert system.certify().stable is bool(radius < 1.0)


@pytest.mark.parametrize("rtt", [4e-6, 120e-6])
def test_the_discrete_model_of_dcqcn_is_the_jacobian_of_its_map(rtt):
    """Rates, averages and targets of two flows, their last rates and the last queues. Packets are marked on departure.

    The derivatives of all laws act for an interval of 50 us.
    """
    protocol, network = DCQCN(), link(2, rtt)
    point, p = protocol.equilibrium(network), protocol.namespace()
    C, x0, q0, s, u = network.capacities[0], point.rates[0], point.queue[0], 8000.0, 50e-6
    around = math.ceil((rtt + q0 / C) / u - 1e-9)
    waited = math.floor(q0 / C / u + 1e-9)
    read = max(around - waited, 0)

    def step(z):
        x, alpha, target = z[:2], z[2:4], z[4:6]
        past, q = z[6 : 6 + 2 * around].reshape(around, 2), z[6 + 2 * around :]
        queues = np.concatenate([[q[0] + u * (x.sum() - C)], q])
        R, moved = marking(queues[read], p), np.empty((3, 2))
        rates = np.vstack([x, past])
        for i in (0, 1):
            x_rtt = rates[around - 1, i]
            moved[:, i] = (
                DCQCN.source_law(x[i], x_rtt, R, s, alpha[i], target[i], p),
                alpha_law(x_rtt, R, s, alpha[i], p),
                target_law(x[i], x_rtt, R, s, target[i], p),
            )
        state = z[:6] + u * moved.ravel()
        return np.concatenate([state, rates[:-1].ravel(), queues[:-1]])

    rest = [x0] * 2 + [point.states["alpha"][0]] * 2 + [point.states["target"][0]] * 2
    z = np.array([*rest, *[x0] * (2 * around), *[q0] * (around + 1)])
    assert step(z) == pytest.approx(z, rel=1e-6)
    system = linearize(protocol, network, "discrete")
    radius = same_moduli(system, jacobian_of(step, z, z), 6)
    assert system.dt == u and system.certify().stable is bool(radius < 1.0)


# ---- the hybrid model: simulations with exact delays ---------------------------------------------------------


def simulate_timely(network, protocol, n_ticks, push):
    """The time between updates, and deviations of the rate after each, for equal flows; the queue is exact."""
    point, p = protocol.equilibrium(network), protocol.namespace()
    C, N, x0, q0 = network.capacities[0], network.n_flows, point.rates[0], point.queue[0]
    D = network.rtts[0] + q0 / C
    h = max(protocol.interval, 8.0 * network.flows[0].mean_packet / x0)
    x, gradient, rates, queues = x0 * (1.0 + push), 0.0, [], [q0]
    for n in range(n_ticks):
        waits = [np.interp(t, h * np.arange(n + 1), queues, left=q0) / C for t in (n * h - D, n * h - D - h)]
        if n:
            gradient = averaged(gradient, waits[0], waits[1], p.interval, p)
            x = PatchedTIMELY.source_law(x, network.rtts[0] + waits[0], gradient, p)
        rates.append(x / x0 - 1.0)
        queues.append(queues[-1] + h * (N * x - C))
    return h, np.array(rates)


@pytest.mark.parametrize(
    ("network", "beta", "push", "verdict"),
    [
        (link(10, 4e-6, 16_000), 0.008, 1e-6, "stable"),
        (link(20, 4e-6, 64_000), 0.008, 1e-9, "unstable"),
        (link(4, 4e-6, 16_000), 0.5, 1e-9, "unstable"),
    ],
)
def test_the_hybrid_model_of_timely_has_the_growth_of_a_simulation(network, beta, push, verdict):
    """Equal flows excite the roots of their sum only."""
    protocol = PatchedTIMELY(beta=beta)
    system = linearize(protocol, network, "hybrid")
    assert system.verdict == verdict and system.certify().stable is (verdict == "stable")
    h, rates = simulate_timely(network, protocol, 120 if verdict == "stable" else 40, push)
    mode = decay(h * np.arange(len(rates) - 10), rates[10:])
    expected = np.log(system.roots(2).astype(complex)) / h
    assert system.dt == pytest.approx(h)
    near_by = min(expected, key=lambda s: abs(s - complex(mode.rate, mode.frequency)))
    assert mode.rate == pytest.approx(near_by.real, rel=2e-3)
    assert mode.frequency == pytest.approx(abs(near_by.imag), rel=2e-3, abs=1e-3)


def simulate_dcqcn(network, protocol, n_ticks, push):
    """The rate of equal flows after each tick, its deviation; the queue is linear between ticks."""
    point, p = protocol.equilibrium(network), protocol.namespace()
    C, N, x0, q0, s = network.capacities[0], network.n_flows, point.rates[0], point.queue[0], 8000.0
    u, D = protocol.interval, network.rtts[0] + q0 / C
    x, alpha, target = x0 * (1.0 + push), point.states["alpha"][0], point.states["target"][0]
    rates, queues = [], [q0]
    for n in range(n_ticks):
        if n:
            back = n * u - D
            x_rtt = rates[math.floor(back / u)] if back >= 0.0 else x0
            queue = np.interp(back + q0 / C, u * np.arange(n + 1), queues, left=q0)  # marked as it departs
            R = marking(queue, p)
            moved = (
                DCQCN.source_law(x, x_rtt, R, s, alpha, target, p),
                alpha_law(x_rtt, R, s, alpha, p),
                target_law(x, x_rtt, R, s, target, p),
            )
            x, alpha, target = (value + u * slope for value, slope in zip((x, alpha, target), moved, strict=True))
        rates.append(x)
        queues.append(queues[-1] + u * (N * x - C))
    return np.array(rates) / x0 - 1.0


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [DCQCN(), DCQCN.mellanox("10 Gb/s")], ids=["2015", "adapters"])
def test_the_hybrid_model_of_dcqcn_has_the_growth_of_a_simulation(protocol):
    network = link(2)
    system = linearize(protocol, network, "hybrid")
    expected = np.log(system.roots(6).astype(complex)) / system.dt
    oscillation = next(s for s in expected if s.imag > 100.0)
    period = 2.0 * np.pi / oscillation.imag
    every = max(1, round(period / system.dt / 20.0))
    rates = simulate_dcqcn(network, protocol, round(16.0 * period / system.dt), 1e-6)[::every][40:]
    mode = decay(every * system.dt * np.arange(len(rates)), rates, modes=4)
    near_by = min(expected, key=lambda s: abs(s - complex(mode.rate, mode.frequency)))
    assert mode.rate == pytest.approx(near_by.real, rel=0.01)
    assert mode.frequency == pytest.approx(near_by.imag, rel=2e-3)


# ---- discrete, hybrid and continuous models together ---------------------------------------------------------


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("protocol", [DCQCN(), PatchedTIMELY()], ids=["DCQCN", "PatchedTIMELY"])
def test_all_three_models_exist_and_are_certified(protocol, time):
    system = linearize(protocol, link(2), time)
    assert system.verdict == "stable" and system.certify().stable


def test_delays_of_whole_steps_have_equal_discrete_and_hybrid_models():
    """Two flows of PatchedTIMELY have an RTT of 1.25 low."""
    protocol = PatchedTIMELY(low=48e-6)
    discrete, hybrid = (linearize(protocol, link(2), time) for time in ("discrete", "hybrid"))
    assert discrete.roots(4) == pytest.approx(hybrid.roots(4), rel=1e-6)
    assert linearize(PatchedTIMELY(), link(2), "discrete").roots(4)[-1] != pytest.approx(
        linearize(PatchedTIMELY(), link(2), "hybrid").roots(4)[-1], rel=1e-2
    )


def slow_average(gradient, R, R_prev, T):
    return gradient + T / 50e-6 * ((R - R_prev) / T - gradient)


@dataclass(frozen=True)
class Slow(PatchedTIMELY):
    """A custom host whose steps and averages are in proportion to its interval."""

    @staticmethod
    def source_law(x, D, gradient, T, p):
        weight = min(max(2.0 * gradient + 0.5, 0.0), 1.0)
        return x + T / 20e-6 * ((1.0 - weight) * p.delta - x * p.beta * weight * (D - p.low) / p.low)

    @property
    def states(self):
        return {"gradient": State(slow_average, "update")}


@pytest.mark.parametrize("time", ["discrete", "hybrid"])
def test_short_intervals_are_the_continuous_model(time):
    """The discrete model rounds delays, here whole steps."""

    def apart(T):
        protocol = Slow(beta=0.2, low=48e-6 / 1.01, interval=T)  # the RTT at the equilibrium is 48 us
        continuous = linearize(protocol, link(2), "continuous").roots(4)
        guess = next(s for s in continuous if s.imag > 0.0)
        return abs(near(linearize(protocol, link(2), time), guess) - guess) / abs(guess)

    assert apart(1.5e-6) < 1e-3
    assert apart(3e-6) / apart(1.5e-6) == pytest.approx(2.0, rel=0.15)


@dataclass(frozen=True)
class OncePerRtt(PatchedTIMELY):
    """Hosts that act once per RTT, for example at the first ACK of a round."""

    source_clock = "rtt"


def test_hosts_that_act_once_per_rtt_have_a_map_per_round():
    """x <- g(x, v, q), q <- q + D (N x - C), all with the values of the last round."""
    protocol, network = OncePerRtt(low=48e-6), link(2)
    point, p = protocol.equilibrium(network), protocol.namespace()
    C, x0, q0, D = network.capacities[0], point.rates[0], point.queue[0], 60e-6

    def step(z):
        x, gradient, q, before = z[:2].copy(), z[2:4].copy(), z[4], z[5]
        for i in (0, 1):
            gradient[i] = averaged(gradient[i], q / C, before / C, p.interval, p)
            x[i] = PatchedTIMELY.source_law(x[i], network.rtts[0] + q / C, gradient[i], p)
        return np.array([*x, *gradient, q + D * (z[:2].sum() - C), q])

    z = np.array([x0, x0, 0.0, 0.0, q0, q0])
    system = linearize(protocol, network, "discrete")
    assert system.dt == pytest.approx(D)
    same_moduli(system, jacobian_of(step, z, np.array([x0, x0, 1.0, 1.0, q0, q0])), 5)


def test_many_updates_per_rtt_are_the_continuous_model_to_first_order():
    protocol = OncePerRtt(low=48e-6)
    guess = next(s for s in linearize(protocol, link(2)).roots(4) if s.imag > 0.0)

    def apart(m):
        return abs(near(linearize(protocol, link(2), "discrete", updates_per_rtt=m), guess) - guess)

    assert apart(16) / apart(32) == pytest.approx(2.0, rel=0.1)


# ---- networks and options that are refused -------------------------------------------------------------------


def test_updates_without_a_common_multiple_are_refused_with_their_values():
    network = Network.dumbbell("10 Gb/s", rtts=[4e-6, 2e-5], packet_size=16_000)
    with pytest.raises(LinearizationError, match="repeat together within 1000 updates, got .* and .* us: use time="):
        linearize(PatchedTIMELY(), network, "hybrid")
    assert linearize(PatchedTIMELY(), network).is_stable


@pytest.mark.parametrize(
    ("protocol", "time", "options", "message"),
    [
        (OncePerRtt(), "hybrid", {}, "OncePerRtt has no hybrid model: its hosts have no clock in seconds"),
        (DCQCN(), "hybrid", {"phases": [0.5]}, "phases and intervals must be None for hosts that set rates"),
        (DCQCN(), "discrete", {"updates_per_rtt": 2}, "applies to hosts that act once per RTT, got 2 for DCQCN"),
    ],
)
def test_options_that_hosts_do_not_have_are_refused_in_one_line(protocol, time, options, message):
    with pytest.raises(ValueError, match=message) as error:
        linearize(protocol, link(2), time, **options)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_an_analysis_has_all_models():
    models = ecc.stability.analyze(PatchedTIMELY(), link(2), certify=False).models
    assert [model.time for model in models] == list(TIMES)
