"""Limit cycles of hosts over a discipline with a probability that is a nonlinear function of the queue or its average.

x, that queue or average, responds with -G(s) to the probability P; G is from the linear model without feedback. The
open loop is the slope of P(x) times G. P(x) is not linear: on x = B + A sin(wt) its mean is m(B, A), its first harmonic
n(B, A) times the sine (the describing function with a bias, Gelb, Vander Velde 1968, ch. 6). The harmonics balance if

    Im G(jw) = 0,   n(B, A) = 1/|G(jw)|,   B = x_0 - G(0) (m(B, A) - p_0)

with x_0, p_0 at equilibrium. A step, P = 1 above K, is balanced in all harmonics: c_k = sin(pi k d)/(pi k) are the
harmonics of a P that is 1 for a share d of the period, and x passes K at the changes of P if (Tsypkin; "Relay Control
Systems")

    sum Im G(jkw) c_k sin(pi k d) = 0,   -G(0) (d - p_0) = 2 sum Re G(jkw) c_k cos(pi k d)

The remaining approximation is that G holds for small deviations: windows change by much less than their size, and the
queue is never empty. Over a step hosts respond once per RTT, in which either all packets are marked or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Positive, check_arguments
from ecc._support.display import Displayed
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError
from ecc.laws.arguments import arguments_except, arguments_from, takes
from ecc.laws.jets import gradient
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import MarkingEquilibrium, equilibrium_of_marks, linearize_marks
from ecc.network.network import Network
from ecc.queues.pi import PI
from ecc.queues.step_marking import StepMarking

__all__ = ["MarkingCycle", "marking_cycle"]

_SLOPE = 1e-6  # 1/packet: slope of the line that replaces a step for linearization; it cancels
_FREQUENCIES, _SHARES, _ANGLES = 600, 60, 240
_MAX_HARMONICS = 1000
_EMPTIES = "the queue would empty on this cycle, which the estimate does not model"

Real = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class MarkingCycle(Displayed):
    """A limit cycle of the queue of a link.

    Attributes
    ----------
    mean, amplitude : float
        Mean of the queue, and half of its peak-to-peak range [bytes].
    period : float
        Period [s].
    probability : float
        Mean share of packets that are marked or dropped.
    harmonics : int
        Number of harmonics in balance; 1: by describing function.
    notes : tuple of str
        Limits of the estimate.
    """

    mean: float
    amplitude: float
    period: float
    probability: float
    harmonics: int
    notes: tuple[str, ...] = ()
    _units = {"mean": "bytes", "amplitude": "bytes", "period": "s"}

    def _title(self) -> str:
        return "Limit cycle of a queue, by harmonic balance"


@dataclass(frozen=True)
class _Line(StepMarking):
    """A line P = slope (q - start) that replaces a step."""

    slope: float = _SLOPE
    start: float = 0.0

    @staticmethod
    def probability_law(q: Any, p: Any) -> Any:
        return p.slope * (q - p.start)

    def params(self) -> dict[str, float]:
        return {**super().params(), "slope": self.slope, "start": self.start}


@check_arguments
def marking_cycle(
    protocol: ProtocolAssignment | Mapping[str, Any], network: Network, harmonics: Positive = 1, clocking: str = "ack"
) -> MarkingCycle:
    """Return the limit cycle of hosts over one queue discipline, by describing function or with more harmonics.

    Parameters
    ----------
    protocol : ProtocolAssignment or mapping
        Hosts with windows over `StepMarking`, or over a discipline with a probability that depends on the queue only,
        or on a single state (RED).
    network : Network
        Network of one link.
    harmonics : int, from 1 to 1000, optional
        Number of harmonics in balance, more than one over `StepMarking` only; 64 are as good as all.
    clocking : str, optional
        As for linearize.

    Returns
    -------
    MarkingCycle

    Raises
    ------
    ValueError
        There are several links, a discipline of another form, or harmonics that are not available for it.
    ConvergenceError
        The harmonics do not balance: no cycle of this form; or, for laws other than a step, the loop is stable.

    Examples
    --------
    >>> from ecc.models import DCTCP
    >>> from ecc.queues import StepMarking
    >>> net = ecc.Network.dumbbell("10 Gb/s", rtts=[1e-3] * 40)
    >>> cycle = marking_cycle({"flows": DCTCP(), "links": StepMarking(threshold=200.0)}, net, harmonics=64)
    >>> cycle.amplitude > 70e3
    True
    """
    halves = read_protocol(protocol)
    if harmonics > _MAX_HARMONICS:
        raise ValueError(f"harmonics must be <= {_MAX_HARMONICS}, got {harmonics}")
    if network.n_links != 1:
        raise ValueError(f"network must have one link, got {network.n_links}")
    assert isinstance(halves, ProtocolAssignment)
    disciplines = [part for part in halves.deploy(network).links[0] if not part.has_hosts()]
    if len(disciplines) != 1 or disciplines[0].probability_law is None:
        names = " and ".join(type(part).__name__ for part in disciplines)
        raise ValueError(f"link 0 must have one discipline with a probability_law, got {names or 'none'}")
    (discipline,) = disciplines
    packet = float(discipline.params()["packet_size"])
    if isinstance(discipline, StepMarking):
        return _of_step(halves, network, discipline, packet, harmonics, clocking)
    if harmonics > 1:
        raise ValueError(
            f"harmonics must be 1 unless over StepMarking, got {harmonics} over {type(discipline).__name__}"
        )
    return _of_law(halves, network, discipline, packet, clocking)


def _over(halves: ProtocolAssignment, discipline: Protocol) -> ProtocolAssignment:
    return ProtocolAssignment(halves.flows, {"default": discipline})


def _frequencies(network: Network, rest: MarkingEquilibrium) -> Real:
    """Return frequencies of possible cycles [rad/s]: periods from two thirds of the longest RTT to a thousand RTTs."""
    longest = float(rest.rtts.max())
    return np.geomspace(0.002 * pi / longest, 3.0 * pi / longest, _FREQUENCIES)


def _result(mean: float, amplitude: float, w: float, probability: float, harmonics: int, packet: float) -> MarkingCycle:
    notes = (_EMPTIES,) if amplitude > mean else ()
    return MarkingCycle(mean * packet, amplitude * packet, 2.0 * pi / w, probability, harmonics, notes)


# ---- a step --------------------------------------------------------------------------------------------------


def _of_step(
    halves: ProtocolAssignment, network: Network, step: StepMarking, packet: float, harmonics: int, clocking: str
) -> MarkingCycle:
    from scipy.optimize import brentq

    K = step.threshold
    integral = PI(mark=step.mark, packet_size=step.packet_size, reference=K)
    rest = equilibrium_of_marks(_over(halves, integral).deploy(network), network, once=True)
    p0 = float(rest.probabilities[0])
    line = _Line(mark=step.mark, packet_size=step.packet_size, start=K - p0 / _SLOPE)
    system = linearize_marks(_over(halves, line).deploy(network), network, clocking, once=True)
    order = np.arange(1, harmonics + 1)
    static_gain = float(system.open_loop(np.array([1e-6j / rest.rtts.max()]))[0].real) / _SLOPE

    def response(w: Real) -> NDArray[np.complex128]:
        flat = system.open_loop(1j * np.multiply.outer(w, order).ravel()) / _SLOPE
        return np.asarray(flat.reshape(*np.shape(w), len(order)))

    def shape(share: Any) -> tuple[Real, Real, Real]:
        turn = pi * np.multiply.outer(share, order)
        return np.sin(turn) / (pi * order), np.cos(turn), np.sin(turn)

    def balance(w: Real, share: float) -> tuple[Real, Real]:
        G, (c, cosine, sine) = response(w), shape(share)
        return (G.imag * c * sine).sum(axis=-1), static_gain * (share - p0) + 2.0 * (G.real * c * cosine).sum(axis=-1)

    grid = _frequencies(network, rest)
    G = response(grid)

    def frequency(share: float) -> float | None:
        c, _, sine = shape(share)
        phase = (G.imag * c * sine).sum(axis=-1)
        crossed = np.flatnonzero((phase[:-1] < 0.0) & (phase[1:] >= 0.0))
        if not len(crossed):
            return None
        k = int(crossed[0])
        return float(brentq(lambda w: float(balance(np.array(w), share)[0]), grid[k], grid[k + 1]))

    def imbalance(share: float) -> float:
        w = frequency(share)
        return np.nan if w is None else float(balance(np.array(w), share)[1])

    shares = (np.arange(_SHARES) + 0.5) / _SHARES
    values = np.array([imbalance(float(share)) for share in shares])
    at = np.flatnonzero((values[:-1] < 0.0) & (values[1:] >= 0.0))
    if not len(at):
        raise ConvergenceError("no balance of harmonics: no cycle of one interval of marks was found", values)
    share = float(brentq(imbalance, shares[at[0]], shares[at[0] + 1]))
    w = frequency(share)
    assert w is not None
    turn = np.multiply.outer(np.linspace(0.0, 2.0 * pi, _ANGLES), order)
    deviation = -2.0 * (response(np.array(w)) * shape(share)[0] * np.exp(1j * turn)).real.sum(axis=-1)
    mean = K - static_gain * (share - p0)
    return _result(mean, 0.5 * float(np.ptp(deviation)), w, share, harmonics, packet)


# ---- any other law -------------------------------------------------------------------------------------------


def _of_law(
    halves: ProtocolAssignment, network: Network, discipline: Protocol, packet: float, clocking: str
) -> MarkingCycle:
    from scipy.optimize import brentq

    name, law, states = type(discipline).__name__, discipline.probability_law, discipline.states
    assert law is not None
    arguments = arguments_except(law, ("p",))
    if len(arguments) != 1 or (arguments[0] != "q" and list(states) != arguments) or (arguments[0] == "q" and states):
        raise ValueError(f"{name} must choose by the queue or by its one state alone, got {', '.join(arguments)}")
    (arg,) = arguments
    constants = {"p": discipline.namespace()} if takes(law, "p") else {}
    rest = equilibrium_of_marks(halves.deploy(network), network)
    q0, p0 = float(rest.queues[0]) / (8.0 * packet), float(rest.probabilities[0])
    x0 = q0 if arg == "q" else rest.states[0][arg]
    slope = gradient(law, {arg: x0, **constants}, [arg])[arg]
    system = linearize(halves, network, clocking=clocking)

    def response(w: float) -> complex:
        return complex(system.open_loop(np.array([1j * w]))[0]) / slope

    grid = _frequencies(network, rest)
    G = system.open_loop(1j * grid) / slope
    crossed = np.flatnonzero((np.diff(np.sign(G.imag)) != 0.0) & (G.real[:-1] < 0.0))
    if not len(crossed):
        raise ConvergenceError("the loop does not cross the negative real axis", G)
    k = int(crossed[0])
    w = float(brentq(lambda w: response(w).imag, grid[k], grid[k + 1]))
    gain, static_gain = abs(response(w)), response(1e-6 / float(rest.rtts.max())).real
    sines = np.sin(2.0 * pi * (np.arange(_ANGLES) + 0.5) / _ANGLES)

    def probabilities(B: float, A: float) -> Real:
        return np.array([law(**{arg: x}, **constants) for x in B + A * sines])

    def bias(A: float) -> float:
        def imbalance(B: float) -> float:
            return B - x0 + static_gain * (float(probabilities(B, A).mean()) - p0)

        return float(brentq(imbalance, x0 - static_gain, x0 + static_gain, xtol=1e-9 * x0))

    def loop_gain(A: float) -> float:
        return 2.0 * float((probabilities(bias(A), A) * sines).mean()) / A * gain

    amplitudes = x0 * np.geomspace(1e-3, 1e2, 120)
    values = np.array([loop_gain(float(A)) for A in amplitudes])
    if slope * gain <= 1.0:
        raise ConvergenceError(f"no cycle begins: the loop over {name} is stable", values)
    at = np.flatnonzero((values[:-1] > 1.0) & (values[1:] <= 1.0))
    if not len(at):
        raise ConvergenceError(f"no cycle: the law of {name} does not stop an oscillation", values)
    A = float(brentq(lambda A: loop_gain(A) - 1.0, amplitudes[at[0]], amplitudes[at[0] + 1]))
    B = bias(A)
    of_queue = 1.0 if arg == "q" else 1.0 / abs(_filter(discipline, arg, x0, q0, network, packet, w))
    return _result(B, A * of_queue, w, float(probabilities(B, A).mean()), 1, packet)


def _filter(discipline: Protocol, arg: str, x0: float, q0: float, network: Network, packet: float, w: float) -> complex:
    """Return the response of the state of a discipline to the queue."""
    state = discipline.states[arg]
    law: Callable[..., float] | None = state.law
    capacity = float(network.capacities[0]) / (8.0 * packet)
    interval = float(discipline.params().get("interval", 0.0))
    known = {arg: x0, "q": q0, "y": capacity, "C": capacity, "T": interval, "p": discipline.namespace()}
    if law is None or arguments_except(law, known):
        raise ValueError(f"{arg} of {type(discipline).__name__} must be an average of the queue")
    at = arguments_from(law, known)
    slopes = gradient(law, at, [name for name in (arg, "q", "y") if name in at])
    rate = capacity if state.clock == "arrival" else 1.0 / interval if interval else 1.0
    response = slopes.get("q", 0.0) + 1j * w * slopes.get("y", 0.0)
    feedback = slopes.get(arg, 0.0) - (state.clock != "continuous")
    return rate * response / (1j * w - rate * feedback)
