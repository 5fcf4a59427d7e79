"""Gains that decay fastest: searched over roots, bound by margins, and proven right of which line no root lies.

The decay of a loop is minus the real part of its rightmost root [1/s]; of several networks, the least. Roots tend to
meet where it is largest, so that it has a kink there: the search uses values only. It takes roots as Newton's
method finds them, and proves only what it ends with.

Over one link 1 + G_d(s) mean(exp(-s D_i)) = 0 has a root at s for some RTT distribution of mean d in [a, b] exactly if
-1/G_d(s) lies in the slice at d of the convex hull of the curve (exp(-s D), D), a <= D <= b. The extreme points of
that slice are distributions on two RTTs. The distributions are connected, and no root comes from afar: if one of them
has no root right of a line, and none has one on it, no distribution has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import differential_evolution, minimize

from ecc.arguments import Seed, check_arguments, shown
from ecc.closed_loop import law_arguments, linearize
from ecc.display import Displayed
from ecc.errors import ConvergenceError
from ecc.linear import Certificate, DelaySystem, Margins, SampledSystem
from ecc.linear.newton_iteration import newton
from ecc.linear.rootfinding import starts
from ecc.models.base import Protocol
from ecc.models.protocol_assignment import parameter_names
from ecc.network import Network

__all__ = ["Design", "LeastDecay", "decay_rate", "design", "least_decay"]

_MOST = 20.0  # decays beyond this many e-folds in the largest RTT are equal: of loops that end after some steps
_SLACK = (1e-2, 5e-3, 2e-3, 1e-3, 1e-4, 1e-6, 1e-9)  # relative, by which a proof may fall short of the roots
_CAPACITY = 1e9  # bit/s; the loops do not depend on it
_RTTS = 25  # of a range
_FREQUENCIES = 300
_FLOWS = 20  # of the distributions that are tried one by one


@dataclass(frozen=True, repr=False)
class Design(Displayed):
    """A protocol with the gains that a search found fastest.

    Attributes
    ----------
    protocol : Protocol
        With its gains; `gains` by name.
    decay : float
        Proven [1/s]: on every network all roots have Re s < -decay, or |z| < exp(-decay dt); no more than 20 in the
        largest RTT is proven.
    before : float
        Decay with the gains that the search was given [1/s].
    margins, proofs : tuple of Margins, tuple of Certificate
        One a network.
    """

    protocol: Protocol
    gains: Mapping[str, float]
    decay: float
    before: float
    margins: tuple[Margins, ...]
    proofs: tuple[Certificate, ...]
    _units = {"decay": "1/s", "before": "1/s"}


@dataclass(frozen=True, repr=False)
class LeastDecay(Displayed):
    """The least decay over all RTT distributions in a range: two estimates, neither a proven bound.

    Attributes
    ----------
    value : float
        By the hull of a grid of RTTs, on a grid of frequencies [1/s].
    found : float
        That of the worst distribution found [1/s], on up to three RTTs.
    rtts : tuple of float
        Of its twenty flows [s].
    """

    value: float
    found: float
    rtts: tuple[float, ...]
    _units = {"value": "1/s", "found": "1/s", "rtts": "s"}


def _step(system: DelaySystem | SampledSystem) -> float:
    return 1.0 if isinstance(system, DelaySystem) else float(system.dt or 1.0)


def _estimate(system: DelaySystem | SampledSystem) -> float:
    """Decay by Newton's method only [1/s]: a root may be missing, which a proof would show."""
    found = [-inf]
    for part, _ in system.blocks:
        ch = part.characteristic_matrix
        if not ch.sampled or len(ch.delays):
            found += newton(ch, next(iter(starts(ch, 1))))[:1].real.tolist()
    rightmost: float = max(found)
    return -rightmost / _step(system)


@check_arguments
def decay_rate(system: DelaySystem | SampledSystem) -> float:
    """Return the rate at which a linear system decays [1/s]: minus its abscissa, or the logarithm of its radius a step.

    Parameters
    ----------
    system : DelaySystem or SampledSystem

    Returns
    -------
    float
        < 0 if it grows; inf if it ends after finitely many steps.

    Raises
    ------
    ConvergenceError
        At a root of multiplicity three or more its roots may not be distinguished (see `roots`).

    Examples
    --------
    >>> round(decay_rate(DelaySystem([-0.2], [1.0])), 6)
    0.259171
    """
    if isinstance(system, DelaySystem):
        return -system.spectral_abscissa
    radius = system.spectral_radius
    return -log(radius) / _step(system) if radius > 0.0 else inf


@check_arguments
def design(
    protocol: Protocol,
    networks: Network | Sequence[Network],
    parameters: Mapping[str, tuple[float, float]],
    time: str = "continuous",
    gain_margin: float = 1.0,
    phase_margin: float = 0.0,
    delay_margin: float = 0.0,
    seed: Seed = 1,
) -> Design:
    """Return the gains of a protocol whose loop decays fastest with the margins requested, and a proof of the decay.

    Parameters
    ----------
    protocol : Protocol
        Protocol; what is not in `parameters` stays as it is.
    networks : Network or sequence of Network
        One, or several that all have to do: the least of their decays is made largest.
    parameters : mapping
        Names -> (lowest, highest), > 0: where each is searched.
    time : str, optional
        "continuous", "discrete" or "hybrid", as in linearize.
    gain_margin : float, optional
        Factor, >= 1.
    phase_margin : float, optional
        Rad, >= 0.
    delay_margin : float, s, >= 0, optional
        Least ones, of every bottleneck of every network.
    seed : int, optional
        Of the search.

    Returns
    -------
    Design

    Raises
    ------
    ValueError
        No network, a parameter that the protocol has not, a range that is none, a margin out of range.
    ConvergenceError
        No gains found that are stable and have the margins, or no proof within a hundredth.

    Notes
    -----
    Differential evolution on logarithms, then Nelder and Mead's simplex: that no gains are faster is not proven; that
    these are as fast is. Cost: about 150 linear models for one parameter and 1500 for three, 2 ms each, and 10 ms where
    margins are requested.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> found = design(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), {"alpha": (0.01, 2.0)})
    >>> round(found.gains["alpha"], 4), round(found.decay * 0.1, 4)  # 1/e, 1 an RTT
    (0.3679, 1.0)
    """
    nets = [networks] if isinstance(networks, Network) else list(networks)
    if not nets:
        raise ValueError("networks must be at least one, got none")
    if not parameters:
        raise ValueError("parameters must name at least one, got {}")
    known = parameter_names(protocol)
    for name, (low, high) in parameters.items():
        if name not in known:
            raise ValueError(f"parameter must be one of {', '.join(known)}, got {shown(name)}")
        if not 0.0 < low < high < inf:
            raise ValueError(f"range of {name} must be 0 < lowest < highest, got {shown((low, high))}")
    if not gain_margin >= 1.0:
        raise ValueError(f"gain_margin must be >= 1, got {shown(gain_margin)}")
    for name, margin in (("phase_margin", phase_margin), ("delay_margin", delay_margin)):
        if not margin >= 0.0:
            raise ValueError(f"{name} must be >= 0, got {shown(margin)}")
    wanted = gain_margin > 1.0 or phase_margin > 0.0 or delay_margin > 0.0
    unit = max(float(network.rtts.max()) for network in nets) or 1.0
    box = [(log(low), log(high)) for low, high in parameters.values()]

    def at(point: NDArray[Any]) -> Protocol:
        values = (exp(min(max(x, low), high)) for x, (low, high) in zip(point, box, strict=True))
        moved: Protocol = replace(protocol, **dict(zip(parameters, values, strict=True)))
        return moved

    def cost(point: NDArray[Any]) -> float:
        outside = float(sum(max(low - x, x - high, 0.0) for x, (low, high) in zip(point, box, strict=True)))
        if outside > 0.0:
            return 1e3 + outside
        systems = [linearize(at(point), network, time) for network in nets]
        decay: float = min(map(_estimate, systems)) * unit
        if decay <= 0.0:
            return 100.0 - decay
        missing = 0.0
        for m in [system.margins() for system in systems] if wanted else ():
            missing += max(0.0, gain_margin / m.gain_margin - 1.0)
            missing += max(0.0, phase_margin - m.phase_margin) + max(0.0, delay_margin - m.delay_margin) / unit
        return float(min(99.0, missing)) if missing > 0.0 else -min(decay, _MOST)

    cost(np.mean(box, axis=1))  # what cannot be linearized is refused here, with its own message instead of SciPy's
    begun = differential_evolution(
        cost, box, maxiter=25 if len(box) > 1 else 8, popsize=8, seed=seed, polish=False, init="sobol", tol=1e-8
    )
    point = begun.x
    rounds = 3 if len(box) > 1 else 1  # a simplex that is flat at a kink is set up anew
    for _ in range(rounds if begun.fun < 99.0 else 0):
        options = {"xatol": 1e-10, "fatol": 1e-12, "maxfev": 80 * len(box)}
        point = minimize(cost, point, method="Nelder-Mead", options=options).x
    if cost(point) > 0.0:
        raise ConvergenceError("no gains found that are stable and have the margins", point, cost(point))
    found = at(point)
    systems = [linearize(found, network, time) for network in nets]
    decay, proofs = _proven(systems, _MOST / unit)
    return Design(
        protocol=found,
        gains={name: getattr(found, name) for name in parameters},
        decay=decay,
        before=min(decay_rate(linearize(protocol, network, time)) for network in nets),
        margins=tuple(system.margins() for system in systems),
        proofs=proofs,
    )


def _proven(systems: Sequence[DelaySystem | SampledSystem], most: float) -> tuple[float, tuple[Certificate, ...]]:
    """A decay of all systems [1/s], and its proofs: as near to the roots as can be shown.

    Beside a root of multiplicity m the pieces of the contour shrink with the m-th power of the distance.
    """
    decay = min(*map(_estimate, systems), most)
    best: tuple[float, tuple[Certificate, ...]] | None = None
    for slack in _SLACK:
        proofs = tuple(system.certify(-decay * (1.0 - slack) * _step(system)) for system in systems)
        if not all(proof.stable for proof in proofs):
            break
        best = decay * (1.0 - slack), proofs
    if best is None:
        raise ConvergenceError(f"a decay of {decay:g} 1/s could not be proven within a hundredth", proofs)
    return best


@check_arguments
def least_decay(protocol: Protocol, least_rtt: float, largest_rtt: float, seed: Seed = 1) -> LeastDecay:
    """Return the least decay of a protocol's continuous loop over all RTT distributions in a range on one link.

    Implements the hull of the module's text; beyond the papers.

    Parameters
    ----------
    protocol : Protocol
        Protocol whose router knows of RTTs only their mean.
    least_rtt, largest_rtt : floats, s
    seed : int, optional
        Of the search for the worst distribution.

    Returns
    -------
    LeastDecay
        Both below 0 where some distribution is unstable.

    Raises
    ------
    ValueError
        A range that is none; a router that scales by the largest RTT.

    Notes
    -----
    Nothing here is proven. The hull is that of 25 RTTs, looked at on 300 frequencies, so `value` is a little high, by a
    few thousandths where it was compared; `found` is higher, or the same. Cost: 10 s.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> least_decay(QIRCP(alpha=0.3), 0.05, 0.1).found > 2.0
    True
    """
    if not 0.0 < least_rtt < largest_rtt < inf:
        raise ValueError(f"range must be 0 < least_rtt < largest_rtt, got {least_rtt:g} and {largest_rtt:g} s")
    if protocol.scaling_rtt != "mean":
        raise ValueError(f"rtt must be 'mean' for all RTT distributions, got {protocol.scaling_rtt!r}")
    if protocol.scaling_rtt_limit < inf:
        raise ValueError(
            f"RTTs must count in full for all RTT distributions, got a limit of {protocol.scaling_rtt_limit:g} s"
        )
    if "x" in law_arguments(protocol.router_law) and protocol.params().get("gamma", 0.0) > 0.0:
        raise ValueError(
            f"gamma must be 0 for all RTT distributions of {type(protocol).__name__}: see critical_rtt_ratio"
        )
    rtts = np.linspace(least_rtt, largest_rtt, _RTTS)
    equal = [linearize(protocol, Network.dumbbell(_CAPACITY, [float(rtt)]), "continuous") for rtt in rtts]

    def rtts_of(point: NDArray[Any]) -> list[float]:
        one, two, three, share, rest = point
        first = round(share * _FLOWS)
        second = round(rest * (_FLOWS - first))
        return [float(one)] * first + [float(two)] * second + [float(three)] * (_FLOWS - first - second)

    def decay(point: NDArray[Any]) -> float:
        return _estimate(linearize(protocol, Network.dumbbell(_CAPACITY, rtts_of(point)), "continuous"))

    box = [(least_rtt, largest_rtt)] * 3 + [(0.0, 1.0)] * 2
    worst = differential_evolution(decay, box, maxiter=12, popsize=8, seed=seed, polish=False, init="sobol").x
    worst[:3] = minimize(
        lambda rtt: decay(np.concatenate([np.clip(rtt, least_rtt, largest_rtt), worst[3:]])), worst[:3],
        method="Nelder-Mead", options={"maxfev": 120},
    ).x.clip(least_rtt, largest_rtt)  # fmt: skip
    found = min(decay(worst), *(_estimate(system) for system in equal))
    low, high = min(0.0, 2.0 * found), found
    if not _has_root(equal, rtts, high - 1e-6 * abs(high)):
        low = high
    while high - low > 1e-4 * abs(high):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _has_root(equal, rtts, middle) else (middle, high)
    return LeastDecay(float(low), float(found), tuple(rtts_of(worst)))


def _has_root(equal: Sequence[Any], rtts: NDArray[np.float64], decay: float) -> bool:
    """Whether some distribution of these RTTs, of a mean among them, has a root on the line Re s = -decay."""
    largest = exp(max(decay, 0.0) * float(rtts[-1]))
    top = 1.0 / float(rtts[-1])

    def wanted(k: int, s: NDArray[Any]) -> NDArray[Any]:
        """The moment E exp(-s D) of mean rtts[k] that makes s a root."""
        return np.asarray(-np.exp(-s * rtts[k]) / equal[k].open_loop(s))

    line = complex(-decay)
    while min(abs(wanted(k, np.array([line + 1j * top]))[0]) for k in range(len(rtts))) < largest:
        top *= 2.0
    s = line + 1j * top * np.linspace(0.0, 1.0, _FREQUENCIES)
    ends = np.exp(-s[:, None] * rtts)
    for k, mean in enumerate(rtts):
        target = wanted(k, s)
        below, above = np.arange(k + 1), np.arange(k, len(rtts))
        span = rtts[above][None, :] - rtts[below][:, None]
        with np.errstate(invalid="ignore"):
            share = np.where(span > 0.0, (rtts[above][None, :] - mean) / span, 1.0)  # of the shorter RTT
        reached = share * ends[:, below, None] + (1.0 - share) * ends[:, None, above]
        seen = reached.reshape(len(s), -1) - target[:, None]
        angles = np.sort(np.angle(seen), axis=1)
        gaps = np.diff(angles, axis=1, append=angles[:, :1] + 2.0 * pi)
        near = np.abs(target) <= largest
        if np.any(near & (gaps.max(axis=1) <= pi)):
            return True
    return False
