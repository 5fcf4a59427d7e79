"""DCQCN as printed in ECN-DELAY: fixed point, exact linearization, the paper's formula, nonlinear fluid, packets."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc import packet
from ecc.claims.checks.data_centers.margins import smallest_margin
from ecc.claims.ledger import Measurement
from ecc.fluid import solve_dde
from ecc.laws.arguments import arguments_from
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem
from ecc.models import DCQCN
from ecc.models.dcqcn import alpha_law, target_law
from ecc.network.network import Network
from ecc.scenario import Scenario

__all__ = [
    "CAPACITY",
    "PACKET",
    "PRINTED",
    "critical",
    "last_with_fixed_point",
    "marks_at_rest",
    "packets_of",
    "printed",
    "run_of",
    "slope_of_ramp",
    "swings",
    "their_margin",
    "their_marks",
]

FloatArray = NDArray[np.float64]

CAPACITY, PACKET = 40e9, 8000.0
"""Capacity [bit/s] and packet size [bit] of ECN-DELAY. Functions here take the capacity from the hosts' line rate."""
PRINTED = (
    "The paper's fluid as printed, (3) to (7), with equal flows, a constant delay of marks and their rates, and a "
    "single "
    "queue; it is linearized exactly, and each verdict is proven by a certificate."
)


def marks_at_rest(p: DCQCN, flows: int) -> float:
    """Return p* at the equilibrium of equal flows without the upper limit of the ramp: (11) of the paper."""
    x, laws = p.line_rate / flows, p.namespace()

    def growth(log_marks: float) -> float:
        marks = exp(log_marks)
        return target_law(x, x, marks, PACKET, p.resting(x, marks, PACKET)[1], laws)

    return exp(float(brentq(growth, log(1e-9), log(0.9), xtol=1e-14)))


def slope_of_ramp(p: DCQCN) -> float:
    """Return the slope of the marking ramp [1/bit]."""
    return p.p_max / (8.0 * (p.max_threshold - p.min_threshold))


def printed(p: DCQCN, flows: int, delay: float) -> DelaySystem:
    """Return the paper's loop at the fixed point on the (extended) ramp; states x, alpha, target, queue."""
    x, marks = p.line_rate / flows, marks_at_rest(p, flows)
    alpha, target = p.resting(x, marks, PACKET)
    at: dict[str, Any] = {
        "x": x,
        "x_rtt": x,
        "R": marks,
        "s": PACKET,
        "alpha": alpha,
        "target": target,
        "p": p.namespace(),
    }
    now, late = np.zeros((4, 4)), np.zeros((4, 4))
    laws: tuple[Callable[..., float], ...] = (p.source_law, alpha_law, target_law)
    for row, law in enumerate(laws):
        known = arguments_from(law, at)
        g = gradient(law, known, [name for name in known if name not in ("s", "p")])
        now[row, :3] = g.get("x", 0.0), g["alpha"] if "alpha" in g else 0.0, g.get("target", 0.0)
        late[row, 0], late[row, 3] = g["x_rtt"], g["R"] * slope_of_ramp(p)
    now[3, 0] = flows
    scale = np.array([x, 1.0, x, 1e6])
    return DelaySystem([matrix * scale / scale[:, None] for matrix in (now, late)], [0.0, delay])


def critical(p: DCQCN, flows: int) -> float:
    """Return the delay at which the loop loses stability, to 1e-6 [s]; all shorter delays tried are stable."""
    low, high = 0.0, 10e-6
    while printed(p, flows, high).is_stable:
        low, high = high, 1.25 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if printed(p, flows, middle).is_stable else (low, middle)
    return low


def their_margin(p: DCQCN, flows: int, delay: float) -> float:
    """Return the phase margin of the paper's appendix A: p* by (14), and slopes to first order in p [degrees]."""
    C, R_AI = p.line_rate / PACKET, p.rate_ai / PACKET
    B, T, F, tau, g, N = 8.0 * p.byte_counter / PACKET, p.increase_interval, p.fast_recovery, p.interval, p.g, flows
    R = C / N
    A = 1.0 / B + 1.0 / (T * R)
    marks = their_marks(p, flows)
    ends = [marks * (1 - marks) ** ((F + 1) * n) / (1 - (1 - marks) ** n) for n in (B, T * R)]
    R_T = R * (1.0 + sum(ends) * tau * R_AI / (1.0 - (1.0 - marks) ** (tau * R)))
    alpha = 1.0 - (1.0 - marks) ** (p.alpha_interval * R)
    ramp, h = N * slope_of_ramp(p) * PACKET, 0.5 + 0.25 * A
    k = 0.5 * A * R - h * marks * R

    def loop(w: Any) -> Any:
        s = 1j * w
        low, lag = N * s + g * C, s + marks * R
        late = (
            low
            * lag
            * (
                (-0.5 * R * R * alpha - h * R * (R_T - R)) * ramp
                + (-0.5 * marks * R * alpha - 0.5 * A * R + h * marks * R) * s
            )
            - lag * 0.5 * marks * R * R * g * C * ramp
            + low
            * k
            * (
                s * (marks * (R - R_T) + A * R_AI - (1 + 2 * F + 0.5 * A) * R_AI * marks)
                + (R * (R - R_T) - (1 + 2 * F + 0.5 * A) * R_AI * R) * ramp
            )
        )
        damping = -0.5 * marks * R * alpha + 0.5 * A * (R_T - R) + h * marks * (R - R_T)
        now = s * low * (-lag * s + lag * damping + k * (marks * R + A * R_AI))
        return late / now * np.exp(-s * delay)

    return smallest_margin(loop)


def their_marks(p: DCQCN, flows: int) -> float:
    """Return p* by (14) of the paper, with rates in packets."""
    x, B = p.line_rate / (flows * PACKET), 8.0 * p.byte_counter / PACKET
    first = p.rate_ai / PACKET / (p.alpha_interval * x**2)
    return float(np.cbrt(first * (1.0 / B + 1.0 / (p.increase_interval * x)) ** 2))


@lru_cache
def swings(
    p: DCQCN, flows: int, delay: float, end: float = 0.05, on_arrival: bool = False
) -> tuple[float, float, float]:
    """Run the paper's nonlinear fluid from a queue 1 % off its equilibrium.

    Returns maximum relative deviations early and late, and the minimum queue late [kB]. If `on_arrival` is true, marks
    wait in the queue, too.
    """
    laws, x = p.namespace(), p.line_rate / flows
    marks = marks_at_rest(p, flows)
    alpha, target = p.resting(x, marks, PACKET)
    rest = 8.0 * p.min_threshold + marks / slope_of_ramp(p)

    def slope(t: float, y: FloatArray, lag: FloatArray) -> FloatArray:
        x, alpha, target, queue = y
        r, R = lag[0][0], p.router_law(lag[0][3], laws)
        fills = flows * x - p.line_rate
        return np.array(
            [
                p.source_law(x, r, R, PACKET, alpha, target, laws),
                alpha_law(r, R, PACKET, alpha, laws),
                target_law(x, r, R, PACKET, target, laws),
                0.0 if queue <= 0.0 and fills < 0.0 else fills,
            ]
        )

    def waits(t: float, y: FloatArray) -> list[float]:
        return [delay + max(y[3], 0.0) / p.line_rate]

    solution = solve_dde(
        slope,
        (0.0, end),
        np.array([x, alpha, target, 1.01 * rest]),
        waits if on_arrival else [delay],
        t_eval=np.arange(0.0, end, 1e-5),
        rtol=1e-6,
        atol=np.array([1e3, 1e-9, 1e3, 1.0]),
        jit=False,
    )
    queue = solution.y[3]
    off = np.abs(queue / rest - 1.0)
    fifth = len(off) // 5
    return float(off[:fifth].max()), float(off[-fifth:].max()), float(max(0.0, queue[-fifth:].min())) / 8000.0


def run_of(p: DCQCN, flows: int, delay: float, expected: str) -> Measurement:
    early, late, _ = swings(p, flows, delay)
    trend = "grows" if late > early else "decays"
    return Measurement(
        f"nonlinear fluid, {flows} flows, {1e6 * delay:g} us",
        trend,
        met=trend == expected,
        note=f"a queue 1 % off is {early:.2%} off in the first fifth of 50 ms, {late:.2%} in the last",
    )


def packets_of(p: DCQCN, flows: int, rtt: float) -> Measurement:
    """Return the queue of a packet run from 0.1 s to 0.2 s."""
    network = Network.dumbbell(p.line_rate, [rtt] * flows, packet_size=1000)
    run = packet.simulate(Scenario(network, p, 0.2), sample=1e-5)
    queue = run.queue[len(run.queue) // 2 :, 0].to_numpy() / 1e3
    return Measurement(
        f"packets, {flows} flows, {1e6 * rtt:g} us: standard deviation of the queue",
        float(queue.std()),
        "kB",
        note=f"mean {queue.mean():.0f} kB, from {queue.min():.0f} to {queue.max():.0f} kB",
    )


def last_with_fixed_point(p: DCQCN) -> int:
    """Return the maximum number of flows with a fixed point; more flows would need marks between p_max and 1."""
    flows = 1
    while marks_at_rest(p, flows + 1) <= p.p_max:
        flows += 1
    return flows
