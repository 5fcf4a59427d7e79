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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import exp, inf, log, nan, pi
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import differential_evolution, minimize

from ecc._support.arguments import Seed, check_arguments, shown
from ecc._support.display import Displayed
from ecc.contract.assignment import ProtocolAssignment, parameter_names, read_protocol, with_parameters
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError
from ecc.linear import Certificate, DelaySystem, Margins, SampledSystem
from ecc.linear.box_cover import BoxCover
from ecc.linear.gain_intervals import REFUSED
from ecc.linear.newton_iteration import newton
from ecc.linear.rootfinding import starts
from ecc.loops.closed_loop import law_arguments, linearize
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network
from ecc.stability.network_ranges import NetworkRange, cover_range, linearize_on

__all__ = ["Design", "LeastDecay", "decay_rate", "design", "least_decay"]

_MOST = 20.0  # decays beyond this many e-folds in the largest RTT are equal: of loops that end after some steps
_SLACK = (1e-2, 5e-3, 2e-3, 1e-3, 1e-4, 1e-6, 1e-9)  # relative, by which a proof may fall short of the roots
_SLACK_OF_RANGES = (0.4, 0.2, 0.1, 0.05, 0.02)  # the same, of covers
_REFUSED = 1e3  # the cost where there is no linear model
_SPARE = 1.02  # times the margins requested, of a range: what its search has, which its cover proves
_WORSE, _NEAR = 4, 1e-3  # networks of a grid that may join a search, and by how much more they cost then
_CAPACITY = 1e9  # bit/s; the loops do not depend on it
_RTTS = 25  # of a range
_FREQUENCIES = 300
_FLOWS = 20  # of the distributions that are tried one by one


@dataclass(frozen=True, repr=False)
class Design(Displayed):
    """A protocol with the gains that a search found fastest.

    Attributes
    ----------
    protocol : Protocol or ProtocolAssignment
        With its gains; `gains` by name.
    decay : float
        Proven [1/s]: on every network all roots have Re s < -decay, or |z| < exp(-decay dt); no more than 20 in the
        largest RTT is proven.
    before : float
        Decay with the gains that the search was given [1/s]; nan where it was given a callable.
    margins, proofs : tuple of Margins, tuple of Certificate
        One a network; of a range, one a corner.
    covers : tuple of BoxCover
        Of a range: what proves the margins requested, and the decay, on all of its networks. Empty of others.
    notes : tuple of str
        What covers take of the models.
    """

    protocol: Any
    gains: Mapping[str, float]
    decay: float
    before: float
    margins: tuple[Margins, ...]
    proofs: tuple[Certificate, ...]
    covers: tuple[BoxCover, ...] = ()
    notes: tuple[str, ...] = ()
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
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any] | Callable[..., Any],
    networks: Network | Sequence[Network] | NetworkRange,
    parameters: Mapping[str, tuple[float, float]],
    time: str = "continuous",
    gain_margin: float = 1.0,
    phase_margin: float = 0.0,
    delay_margin: float = 0.0,
    seed: Seed = 1,
    *,
    options: LinearOptions | None = None,
    **keywords: Unpack[LinearKeywords],
) -> Design:
    """Return the gains of a protocol whose loop decays fastest with the margins requested, and a proof of the decay.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping or callable
        What is not in `parameters` stays as it is. A callable takes the parameters by name and returns any of these.
    networks : Network, sequence of Network or NetworkRange
        One, or several that all have to do: the least of their decays is made largest. Of a range all networks within
        its limits have to.
    parameters : mapping
        Names -> (lowest, highest), > 0: where each is searched. Of hosts and queue disciplines "flows.NAME" and
        "links.NAME".
    time : str, optional
        "continuous", "discrete" or "hybrid", as in linearize; of a range "continuous".
    gain_margin : float, optional
        Factor, >= 1.
    phase_margin : float, optional
        Rad, >= 0.
    delay_margin : float, s, >= 0, optional
        Least ones, of every bottleneck of every network; 0 of a range, whose RTTs say which delays there may be.
    seed : int, optional
        Of the search.
    options : LinearOptions, optional
        Options of the linear models: `clocking`.
    **keywords : optional
        Fields of `LinearOptions`, in place of `options`.

    Returns
    -------
    Design

    Raises
    ------
    ValueError, LinearizationError
        No network, a parameter that the protocol has not, a range that is none, a margin out of range; no linear model
        with any of the parameters that were tried.
    ConvergenceError
        No gains found that are stable and have the margins, or no proof within a hundredth, of a range within four
        tenths.

    Notes
    -----
    Differential evolution on logarithms, then Nelder and Mead's simplex: that no gains are faster is not proven; that
    these are as fast is. Cost: about 150 linear models for one parameter and 1500 for three, 2 ms each, and 10 ms where
    margins are requested. Values that a protocol refuses, as a <= b of PI, are no candidates.

    Of a range the search looks at the networks whose flows have most and least in flight, then at a grid of four values
    of each limit, and once more with the worst of it until there is none worse; margins are wanted 2 % larger. With
    what it ends the whole range is proven (`ecc.stability.cover_range`) to have the margins and the decay. Cost: 300 to
    1000 linear models of each network looked at, 10 ms each.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> found = design(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), {"alpha": (0.01, 2.0)})
    >>> round(found.gains["alpha"], 4), round(found.decay * 0.1, 4)  # 1/e, 1 an RTT
    (0.3679, 1.0)
    """
    chosen = read_options(options, keywords, ("clocking",), "design")
    wide = networks if isinstance(networks, NetworkRange) else None
    nets = [networks] if isinstance(networks, Network) else _extremes(wide) if wide else list(networks)  # type: ignore[arg-type]
    if not nets:
        raise ValueError("networks must be at least one, got none")
    if not parameters:
        raise ValueError("parameters must name at least one, got {}")
    family = _Family(protocol, parameters)
    if not gain_margin >= 1.0:
        raise ValueError(f"gain_margin must be >= 1, got {shown(gain_margin)}")
    for name, margin in (("phase_margin", phase_margin), ("delay_margin", delay_margin)):
        if not margin >= 0.0:
            raise ValueError(f"{name} must be >= 0, got {shown(margin)}")
    if wide and time != "continuous":
        raise ValueError(f"time must be 'continuous' for a range of networks, got {shown(time)}")
    if wide and delay_margin > 0.0:
        raise ValueError(f"delay_margin must be 0 s for a range of networks, got {shown(delay_margin)}")
    wanted = gain_margin > 1.0 or phase_margin > 0.0 or delay_margin > 0.0
    unit = max(float(network.rtts.max()) for network in nets) or 1.0
    box = [(log(low), log(high)) for low, high in parameters.values()]
    refusals: list[Exception] = []

    def loops(one: Any, where: Sequence[Network]) -> list[DelaySystem | SampledSystem]:
        if wide:
            return [linearize_on(one, network, chosen.clocking) for network in where]
        return [linearize(one, network, time, clocking=chosen.clocking) for network in where]

    def missing(system: DelaySystem | SampledSystem) -> float:
        """By how much margins fall short."""
        if wide:
            gain, phase = _seen_margins(system)
            return max(0.0, _SPARE * gain_margin / gain - 1.0) + max(0.0, _SPARE * phase_margin - phase)
        m = system.margins()
        short = max(0.0, gain_margin / m.gain_margin - 1.0)
        return short + (max(0.0, phase_margin - m.phase_margin) + max(0.0, delay_margin - m.delay_margin) / unit)

    def cost(point: NDArray[Any], where: Sequence[Network] = nets) -> float:
        outside = float(sum(max(low - x, x - high, 0.0) for x, (low, high) in zip(point, box, strict=True)))
        if outside > 0.0:
            return _REFUSED + outside
        try:
            systems = loops(family.at(point), where)
        except REFUSED as error:
            refusals.append(error)
            return _REFUSED
        decay: float = min(map(_estimate, systems)) * unit
        if decay <= 0.0:
            return 100.0 - decay
        short = 0.0
        for system in systems if wanted else ():
            short += missing(system)
        return float(min(99.0, short)) if short > 0.0 else -min(decay, _MOST)

    def polished(point: NDArray[Any]) -> NDArray[Any]:
        rounds = 3 if len(box) > 1 else 1  # a simplex that is flat at a kink is set up anew
        fine = {"xatol": 1e-4, "fatol": 1e-4} if wide else {"xatol": 1e-10, "fatol": 1e-12}
        for _ in range(rounds if cost(point) < 99.0 else 0):
            options = fine | {"maxfev": 80 * len(box)}
            point = minimize(cost, point, method="Nelder-Mead", options=options).x
        return point

    rng, (low, high) = np.random.default_rng(seed), np.transpose(box)
    if all(cost(point) == _REFUSED for point in (np.mean(box, axis=1), *rng.uniform(low, high, (8, len(box))))):
        raise refusals[0]  # what cannot be linearized is refused with its own message
    most = 8 if len(box) == 1 else 12 if wide else 25
    begun = differential_evolution(cost, box, maxiter=most, popsize=8, seed=seed, polish=False, init="sobol", tol=1e-8)
    point = polished(begun.x)
    every = [wide.at(*one) for one in wide.grid(4)] if wide else []
    for _ in every[:_WORSE]:
        costs = [cost(point, [network]) for network in every]
        if max(costs) <= cost(point) + _NEAR:
            break
        nets.append(every[int(np.argmax(costs))])
        point = polished(point)
    if cost(point, every or nets) > _NEAR * bool(wide):
        raise ConvergenceError("no gains found that are stable and have the margins", point, cost(point))
    found = family.at(point)
    covers: tuple[BoxCover, ...] = ()
    if wide:
        fastest = min(map(_estimate, loops(found, every)))
        decay, covers = _covered(found, wide, fastest, gain_margin, phase_margin, chosen)
        nets = wide.corners()
        proofs = tuple(system.certify(-decay) for system in loops(found, nets))
    else:
        decay, proofs = _proven(loops(found, nets), _MOST / unit)
    return Design(
        protocol=found,
        gains=family.values(point),
        decay=decay,
        before=nan if family.given is None else min(map(decay_rate, loops(family.given, nets))),
        margins=tuple(system.margins() for system in loops(found, nets)),
        proofs=proofs,
        covers=covers,
        notes=covers[0].notes if covers else (),
    )


class _Family:
    """Protocols by the logarithms of parameters."""

    def __init__(self, protocol: Any, parameters: Mapping[str, tuple[float, float]]) -> None:
        self.limits = parameters
        self.make: Callable[..., Any] | None = protocol if callable(protocol) else None
        self.given = None if self.make else read_protocol(protocol)
        known = list(signature(self.make).parameters) if self.make else parameter_names(self.given)  # type: ignore[arg-type]
        for name, (low, high) in parameters.items():
            if name not in known:
                raise ValueError(f"parameter must be one of {', '.join(known)}, got {shown(name)}")
            if not 0.0 < low < high < inf:
                raise ValueError(f"range of {name} must be 0 < lowest < highest, got {shown((low, high))}")

    def values(self, point: NDArray[Any]) -> dict[str, float]:
        within = zip(point, self.limits.items(), strict=True)
        return {name: exp(min(max(x, log(low)), log(high))) for x, (name, (low, high)) in within}

    def at(self, point: NDArray[Any]) -> Any:
        values = self.values(point)
        return with_parameters(self.given, values) if self.make is None else read_protocol(self.make(**values))


def _extremes(networks: NetworkRange) -> list[Network]:
    """Those whose flows have most and least in flight."""
    (c, capacity), (few, many), (short, long) = networks.capacity, networks.flows, networks.rtt
    corners = [networks.at(capacity, few, long), networks.at(c, many, short)]
    return corners if corners[0] != corners[1] else corners[:1]


def _seen_margins(system: DelaySystem | SampledSystem) -> tuple[float, float]:
    """Gain and phase margin of a stable loop as they are seen on a grid of frequencies, interpolated."""
    assert isinstance(system, DelaySystem)
    w = np.geomspace(1e-4, 1e3, 700) / (max(map(float, system.delays), default=0.0) or 1.0)
    L = system.open_loop(1j * w)
    k = np.flatnonzero(np.diff(np.sign(L.imag)) != 0.0)
    share = L.imag[k] / (L.imag[k] - L.imag[k + 1])
    crossed = L.real[k] + share * (L.real[k + 1] - L.real[k])
    gains = -1.0 / crossed[(crossed < 0.0) & (crossed > -1.0)]
    size = np.log(np.abs(L))
    k = np.flatnonzero(np.diff(np.sign(size)) != 0.0)
    share = size[k] / (size[k] - size[k + 1])
    angles = np.angle(-(L[k] + share * (L[k + 1] - L[k])))
    return float(min(gains, default=inf)), float(min(np.abs(angles), default=inf))


def _covered(
    protocol: Any,
    networks: NetworkRange,
    fastest: float,
    gain_margin: float,
    phase_margin: float,
    options: LinearOptions,
) -> tuple[float, tuple[BoxCover, ...]]:
    """A decay on all networks of a range [1/s], and the covers that prove it and the margins."""
    covers = [cover_range(protocol, networks, 0.0, gain_margin, phase_margin, options=options)]
    decay = 0.0
    for slack in _SLACK_OF_RANGES:
        try:
            cover = cover_range(protocol, networks, -fastest * (1.0 - slack), options=options)
        except ConvergenceError:
            if decay == 0.0:
                raise
            break
        decay, covers[1:] = -cover.line, [cover]
    return decay, tuple(covers)


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
