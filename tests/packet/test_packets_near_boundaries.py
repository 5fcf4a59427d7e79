"""Packets on both sides of the boundaries of linear models: what is due to marks that halve one window each.

Sixty flows of NewReno with marks on 30 Mb/s with RTTs of 200 ms, or m times as many flows on m times the capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from population import MeanWindow, Windows
from scipy.optimize import brentq, fsolve, least_squares

import ecc
from ecc.loops.closed_loop import linearize
from ecc.models import NewReno
from ecc.models.shared import windows
from ecc.network.network import Network
from ecc.queues import PI, PI2, RED, pi, pi2, red
from ecc.scenario import Scenario

C, N, BASE = 3750.0, 60, 0.2  # packets/s, flows, s
A, B, REFERENCE = 1.822e-5, 1.816e-5, 200.0
LOW, HIGH, P_MAX, WEIGHT = 50.0, 400.0, 0.05, 2e-5
ALPHA, BETA, TARGET = 0.3125, 3.125, 0.02
TICK = {PI: 1.0 / 170.0, PI2: 0.032}
LINEAR = {PI: 11.268, RED: 15.818, PI2: 0.91699}
"""The boundaries of linear models, where ACKs clock windows: test_equilibria_of_disciplines finds them as fluid."""
AT_ONCE = {PI: (0.8496, 6.045), RED: (0.5773, 2.358), PI2: (0.8956, 4.814)}
PACKETS = {PI: (0.7304, 4.895), RED: (0.2796, 1.706), PI2: (0.6177, 3.458)}
"""Those of many windows, cut at once or as packets are: parts of LINEAR, and frequencies [rad/s]."""


def network(m=1, wide=1):
    """m times the flows, and `wide` times the capacity for each."""
    return Network.dumbbell(f"{30 * m * wide} Mb/s", rtts=[BASE] * (N * m), packet_size=1000)


def discipline(kind, gain, m=1, wide=1, own=None, **more):
    """With gains that do the same to a longer queue; `own`: a class of that kind."""
    long = m * wide
    settings = {
        PI: {"a": A * gain / long, "b": B * gain / long, "reference": REFERENCE * long},
        RED: {
            "min_threshold": LOW * long,
            "max_threshold": HIGH * long,
            "p_max": P_MAX / wide**2,
            "weight": WEIGHT * gain / long,
        },
        PI2: {"alpha": ALPHA * gain, "beta": BETA * gain, "interval": TICK[PI2], "target": TARGET},
    }[kind]
    return (own or kind)(mark=True, **settings, **more)


# ---- the linear model of windows that are halved one at a time ---------------------------------------------


class Loop:
    """Windows of some model over a discipline: 1 = N response(s D) controller(s) exp(-s D)."""

    def __init__(self, kind, model, wide=1):
        self.kind, self.wide, self.C = kind, wide, C * wide
        self.slope = P_MAX / wide**2 / ((HIGH - LOW) * wide)

        def excess(p):
            return model(p).mean - (self.queue(p) + self.C * BASE) / N

        self.p = brentq(excess, 2e-3 / wide**2, 2e-2 / wide**2, rtol=1e-6)
        self.q = self.queue(self.p)
        self.D = BASE + self.q / self.C
        self.windows = model(self.p)

    def queue(self, p):
        """In packets, where the discipline chooses with the probability p."""
        chosen = p / (2.0 - p)  # of marks that RED spreads
        return {PI: REFERENCE * self.wide, PI2: TARGET * self.C, RED: LOW * self.wide + chosen / self.slope}[self.kind]

    def controller(self, s, gain):
        """From the queue to the probability."""
        if self.kind is RED:
            return 0.5 * (2.0 - self.p) ** 2 * self.slope / (1.0 + s * self.wide / (WEIGHT * gain * self.C))
        T = TICK[self.kind]
        before = np.exp(-s * T)
        pi2_step = 2.0 * np.sqrt(self.p) / self.C * (ALPHA + BETA * (1.0 - before))
        step = (A - B * before) / self.wide if self.kind is PI else pi2_step
        return gain * step / (s * T)

    def characteristic(self, s, gain):
        return 1.0 - N * self.windows.response(s * self.D) * self.controller(s, gain) * np.exp(-s * self.D)

    def boundary(self, gain, frequency):
        """Gain and frequency [rad/s] where the loop begins to oscillate, from about there."""
        return zero(lambda x: self.characteristic(1j * x[1], x[0]), gain, frequency)

    def root(self, gain, near):
        return complex(*zero(lambda x: self.characteristic(complex(*x), gain), near.real, near.imag))


def zero(function, *start):
    """The two arguments where a complex function is 0."""

    def both(x):
        found = function(x)
        return [found.real, found.imag]

    return fsolve(both, start, xtol=1e-8)


@pytest.mark.parametrize("kind", LINEAR)
def test_with_one_mean_window_the_loop_is_that_of_linearize(kind):
    loop, limit = Loop(kind, MeanWindow), LINEAR[kind]
    for gain in (0.3 * limit, limit):
        model = linearize({"flows": NewReno(ecn=True), "links": discipline(kind, gain)}, network())
        expected = next(root for root in model.roots(6) if root.imag > 0.0)
        assert loop.root(gain, expected) == pytest.approx(expected, rel=1e-4)


def test_windows_cut_at_once_have_the_mean_and_the_moments_of_aimd():
    """1.3098/sqrt(p): Ott, Kemperman, Mathis 1996; as growth is 1 an RTT, p E[w w]/2 = 1."""
    p = 0.01
    many = Windows(p, packet=0.0, dead=0.0, late=0.0)
    assert many.mean * np.sqrt(p) == pytest.approx(1.3098, rel=1e-4)
    assert many.h * np.sum(many.on_the_way**2 * many.f) == pytest.approx(2.0 / p, rel=1e-3)
    slope = (Windows(1.001 * p, 0.0, 0.0, 0.0).mean - Windows(0.999 * p, 0.0, 0.0, 0.0).mean) / (2e-3 * p)
    assert many.response(1e-4) == pytest.approx(slope, rel=1e-2)


@pytest.mark.parametrize("kind", LINEAR)
def test_many_windows_lose_stability_sooner_than_their_mean(kind):
    for model, (part, frequency) in (
        (partial(Windows, packet=0.0, dead=0.0, late=0.0), AT_ONCE[kind]),
        (Windows, PACKETS[kind]),
    ):
        loop = Loop(kind, model)
        assert loop.boundary(1.05 * part * LINEAR[kind], 0.95 * frequency) == pytest.approx(
            [part * LINEAR[kind], frequency], rel=1e-3
        )
        assert loop.root(0.98 * part * LINEAR[kind], 1j * frequency).real < 0.0


# ---- packets -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Grown(NewReno):
    """A host that begins in congestion avoidance."""

    @dataclass
    class FlowState(windows.FlowState):
        ssthresh: float = 0.0


@dataclass(frozen=True)
class Kicked:
    """It begins at a state, with gains `gentle` times as large until `since`; there `kick` multiplies that state."""

    first: float = 0.0
    gentle: float = 1.0
    since: float = 0.0
    kick: float = 1.0


@dataclass(frozen=True)
class KickedPI(Kicked, PI):
    @dataclass
    class LinkState(PI.LinkState):
        kicked: int = 0

    def link_record(self):
        return self.LinkState(prob=self.first, q_prev=self.reference)

    def link_hooks(self):
        return {**super().link_hooks(), "on_interval": on_pi_tick}


@dataclass(frozen=True)
class KickedPI2(Kicked, PI2):
    @dataclass
    class LinkState(PI2.LinkState):
        kicked: int = 0

    def link_record(self):
        return self.LinkState(root=self.first, d_prev=self.target)

    def link_hooks(self):
        return {**super().link_hooks(), "on_interval": on_pi2_tick}


@dataclass(frozen=True)
class KickedRED(Kicked, RED):
    @dataclass
    class LinkState(RED.LinkState):
        kicked: int = 0

    def link_record(self):
        return self.LinkState(average=self.first, p_max=self.p_max)

    def link_hooks(self):
        return {"on_arrival": on_red_arrival}


def moved(before, after, link, p, env):
    if env.now < p.since:
        return before + p.gentle * (after - before)
    if link.kicked == 0:
        link.kicked = 1
        return p.kick * after
    return after


def on_pi_tick(link, header, p, env):
    before = link.prob
    pi.on_interval(link, header, p, env)
    link.prob = moved(before, link.prob, link, p, env)


def on_pi2_tick(link, header, p, env):
    before = link.root
    pi2.on_interval(link, header, p, env)
    link.root = moved(before, link.root, link, p, env)


def on_red_arrival(link, header, p, env):
    before = link.average
    red.on_arrival(link, header, p, env)
    link.average = moved(before, link.average, link, p, env)


KICKED = {PI: KickedPI, RED: KickedRED, PI2: KickedPI2}
CALM = 8.0  # s, with a third of the gains
PERIODS = 2.5  # looked at, a quarter of one after the kick


def kicked(loop, gain, period, kick, m, seed):
    """Times after the kick, and the queue [packets, for 60 flows], in steps of 1/32 of a period."""
    first = {PI: loop.p, PI2: np.sqrt(loop.p), RED: loop.q * m}[loop.kind]
    probe = {"own": KICKED[loop.kind], "first": first, "gentle": 1.0 / 3.0, "since": CALM, "kick": kick}
    link = discipline(loop.kind, gain, m, loop.wide, **probe)
    host = Grown(ecn=True, transport="sack", initial=round(loop.windows.mean))
    scenario = Scenario(
        network(m, loop.wide), {"flows": host, "links": link}, CALM + (PERIODS + 1.0) * period, seed=seed
    )
    run = ecc.packet.simulate(scenario, sample=period / 32.0)
    return run.queue["time"].to_numpy() - CALM, run.queue.to_numpy()[:, 0] / (1000.0 * m * loop.wide), run


def mode(time, signal, near, slow):
    """The root of an oscillation, beside one exponential of a known rate."""

    def parts(s):
        turned = np.exp(s * time)
        return np.column_stack([turned.real, turned.imag, np.exp(slow * time)])

    def left(x):
        shapes = parts(complex(*x))
        return signal - shapes @ np.linalg.lstsq(shapes, signal, rcond=None)[0]

    return complex(*least_squares(left, [near.real, near.imag]).x)


def measured(loop, gain, near, kick, m, seeds):
    """The root that packets show, and the standard error of its parts (jackknife over seeds).

    The two runs of a seed are equal until the kick, and half of their difference is free of what is even in it.
    """
    period = 2.0 * np.pi / near.imag
    found = []
    for seed in range(seeds):
        time, up, _ = kicked(loop, gain, period, 1.0 + kick, m, seed)
        _, down, _ = kicked(loop, gain, period, 1.0 - kick, m, seed)
        late = (time > loop.D + 0.25 * period) & (time < loop.D + (0.25 + PERIODS) * period)
        found.append(0.5 * (up - down)[late])
    time = time[late]
    model = linearize(
        {"flows": NewReno(ecn=True), "links": discipline(loop.kind, gain, 1, loop.wide)}, network(1, loop.wide)
    )
    slow = max((root.real for root in model.roots(8) if root.imag == 0.0), default=-near.imag)
    found = np.array(found)
    without = [mode(time, np.delete(found, k, axis=0).mean(axis=0), near, slow) for k in range(seeds)]
    error = np.sqrt((seeds - 1.0) * np.var(without))
    return mode(time, found.mean(axis=0), near, slow), error


SIDES = {PI: [0.85, 1.15], RED: [0.6, 1.3], PI2: [0.8, 1.2]}
"""Gains over those at the boundary: growth of RED varies slowly."""
KICKS = {PI: [0.4, 0.3], RED: [0.1, 0.1], PI2: [0.15, 0.08]}
"""Of the state, on both sides: then queues move by a tenth to a half."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINEAR)
def test_packets_are_on_both_sides_of_the_boundary_of_windows_that_are_halved_one_at_a_time(kind):
    """Roots within half a packet of a window and three standard errors; the boundary too, and p and the queue."""
    loop = Loop(kind, Windows)
    part, frequency = PACKETS[kind]
    boundary, at = loop.boundary(part * LINEAR[kind], frequency)
    half_a_packet = 0.5 / loop.windows.mean
    growth, errors, sides = [], [], np.array(SIDES[kind])
    for side, kick in zip(sides, KICKS[kind], strict=True):
        expected = loop.root(side * boundary, 1j * at)
        found, error = measured(loop, side * boundary, expected, kick, 32, 4)
        assert abs(found - expected) < half_a_packet * abs(expected) + 3.0 * error
        assert found.real * (side - 1.0) > 2.0 * error * abs(side - 1.0), "it decays below, and grows above"
        growth.append(found.real)
        errors.append(error)
    rise = (growth[1] - growth[0]) / np.ptp(sides)
    crossing = sides[0] - growth[0] / rise
    shares = np.array([sides[1] - crossing, crossing - sides[0]]) / np.ptp(sides)
    assert crossing == pytest.approx(1.0, abs=half_a_packet + 3.0 * np.hypot(*(shares * errors)) / rise)
    model = linearize({"flows": NewReno(ecn=True), "links": discipline(kind, sides[1] * boundary)}, network())
    assert model.spectral_abscissa < 0.0, "the mean window is stable where packets grow"
