"""Check of a statement on the map of RED's average queue: a period doubling, and then a border collision.

a <- a + g (q(P(a)) - a)        q = n w - C d, w = sqrt(2/P): windows are always those of the probability
g = 1 - (1 - w_q)^(C d + q)     weight of a round, in which C d + q packets arrive
"""

from __future__ import annotations

from functools import lru_cache
from math import pi
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ecc.claims.checks.disciplines.loops import NEWRENO, pair
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.cycles.scalar_maps import BorderCollision, PeriodDoubling, border_collision, period_doubling, scalar_orbit
from ecc.laws.elementary import sqrt
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network
from ecc.queues import RED
from ecc.queues.red import probability, share_chosen

__all__ = ["average_after_round", "doubling", "empty_queue_collision", "linear_limit", "parameters", "weight_of"]

FLOWS, CAPACITY, DELAY, BUFFER = 50, 3750.0, 0.1, 1000.0
"""Flows, capacity [packets/s], RTT without the queue [s], buffer [packets]."""
AFTER = 1.002  # gain over that of the period doubling, at which the orbit of two rounds is followed from
SETTLING = 10_000  # rounds


def discipline(weight: float = 0.002) -> RED:
    """Return the RED of the example.

    Parameters
    ----------
    weight : float, optional
        Weight of a packet in the average.
    """
    return RED(packet_size=1000, min_threshold=50.0, max_threshold=150.0, p_max=0.05, weight=weight)


def parameters(gain: float) -> Any:
    """Return the parameters of `average_after_round`.

    Parameters
    ----------
    gain : float
        Weight of a round in the average, g.
    """
    aqm = discipline().namespace()
    return SimpleNamespace(flows=FLOWS, pipe=CAPACITY * DELAY, buffer=BUFFER, gain=gain, aqm=aqm)


def share_at(a: Any, p: Any) -> Any:
    """Return the share of packets that RED chooses at an average."""
    return share_chosen(probability(a, p.aqm.p_max, p.aqm))


def average_after_round(a: Any, p: Any) -> Any:
    """Return RED's average [packets] after a round."""
    share = share_at(a, p)
    q = p.flows * sqrt(2.0 / share) - p.pipe if share > 0.0 else p.buffer
    return a + p.gain * (max(min(q, p.buffer), 0.0) - a)


def weight_of(gain: float, queue: float) -> float:
    """Return the weight of a packet, for a weight of a round and a queue [packets]."""
    return float(1.0 - (1.0 - gain) ** (1.0 / (CAPACITY * DELAY + queue)))


@lru_cache
def doubling() -> PeriodDoubling:
    """Return the period doubling of the fixed point."""
    return period_doubling(average_after_round, parameters, 0.05, 0.9, 75.0)


@lru_cache
def empty_queue_collision() -> BorderCollision:
    """Return the collision of the orbit of two rounds with the average at which the queue is empty."""
    begin = AFTER * doubling().value
    p, x = parameters(begin), float(doubling().orbit.points[0]) + 1.0
    for _ in range(SETTLING):
        x = average_after_round(x, p)
    orbit = scalar_orbit(average_after_round, x, p, 2)
    border = float(brentq(lambda a: FLOWS * np.sqrt(2.0 / share_at(a, p)) - p.pipe, 60.0, 149.0))
    end = 1.06 * doubling().value
    return border_collision(average_after_round, parameters, border, begin, end, float(orbit.points[0]), period=2)


@lru_cache
def linear_limit(time: str) -> tuple[float, complex]:
    """Return the weight at which the linear model of NewReno over RED loses stability, and its dominant root there."""
    network = Network.dumbbell(8000.0 * CAPACITY, rtts=[DELAY] * FLOWS, packet_size=1000)

    def root(weight: float) -> complex:
        return complex(linearize(pair(NEWRENO, discipline(weight)), network, time).dominant_root)

    def excess(weight: float) -> float:
        return root(weight).real if time == "continuous" else abs(root(weight)) - 1.0

    limit = float(brentq(excess, 1e-4, 2e-3))
    return limit, root(limit)


@check("red-doubling", cost=4, main=False)
def red_doubling(claim: Claim) -> Finding:
    """Compute the bifurcations of the map, and compare them with the linear models of windows, queue and average."""
    double, collision = doubling(), empty_queue_collision()
    of_map = weight_of(double.value, float(double.orbit.points[0]))
    of_model, root = linear_limit("continuous")
    rounds = 2.0 * pi / abs(root.imag) / (DELAY + float(double.orbit.points[0]) / CAPACITY)
    measured = [
        Measurement(
            "weight of a packet at the period doubling of the map",
            of_map,
            note="supercritical" if double.supercritical else "subcritical",
            met=double.supercritical,
        ),
        Measurement(
            "weight at which the orbit of two rounds meets the empty queue",
            weight_of(collision.value, float(double.orbit.points[0])),
            note=f"multipliers {collision.left:.3g} and {collision.right:.3g} on its sides",
            met=collision.value > double.value,
        ),
        Measurement("weight at which the continuous linear model loses stability", of_model),
        Measurement("weight at which the discrete linear model loses stability", linear_limit("discrete")[0]),
        Measurement("period of the linear model's oscillation there", rounds, "rounds", note="2 in the map", met=False),
    ]
    ordered = double.supercritical and collision.value > double.value
    reason = (
        f"The map loses stability by a supercritical period doubling at a weight of {of_map:.3g}, and its orbit then "
        f"meets the empty queue. The linear model of windows, queue and average loses stability at {of_model:.3g}, by "
        f"a pair of complex roots with a period of {rounds:.2g} rounds instead of 2: windows need many rounds to "
        "follow the probability, and the map has no window."
    )
    assumption = (
        "The map is ours: its windows are always those of the probability. 50 flows of NewReno, 30 Mb/s, 100 ms, "
        "packets of 1000 bytes, thresholds of 50 and 150 packets, p_max = 0.05, gentle."
    )
    return Finding(claim, Verdict.CONDITIONAL if ordered else Verdict.REFUTED, reason, measured, [], [assumption])
