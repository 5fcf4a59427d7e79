"""Gains with the fastest decay: a search over roots, bounded by margins, and a proof that no root lies right of a line.

The decay of a loop is minus the real part of its rightmost root [1/s]; for several networks, their minimum. Roots tend
to meet at its maximum, which is therefore a kink: the search uses values only. It relies on the roots that Newton's
method finds; only its result is proven.

Over one link 1 + G_d(s) mean(exp(-s D_i)) = 0 has a root at s for some RTT distribution of mean d in [a, b] if and only
if -1/G_d(s) lies in the slice at d of the convex hull of the curve (exp(-s D), D), a <= D <= b. The extreme points of
that slice are distributions on two RTTs. The set of distributions is connected, and roots move continuously: if one
distribution has no root right of a line, and none has a root on it, no distribution has a root right of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import exp, inf, log, nan, pi
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Seed, check_arguments, shown
from ecc._support.display import Displayed
from ecc._support.reports import ProgressCallback, Reporter
from ecc.contract.assignment import ProtocolAssignment, parameter_names, read_protocol, with_parameters
from ecc.contract.kinds import router_takes
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError
from ecc.linear import Certificate, DelaySystem, Margins, SampledSystem
from ecc.linear.box_cover import BoxCover
from ecc.linear.gain_intervals import REFUSED
from ecc.linear.newton_iteration import newton
from ecc.linear.rootfinding import starts
from ecc.loops.closed_loop import linearize
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network
from ecc.stability.network_ranges import NetworkRange, cover_range, linearize_on

__all__ = ["Design", "LeastDecay", "decay_rate", "design", "least_decay"]

_MAX_FOLDS = 20.0  # e-folds in the largest RTT beyond which decays count as equal: loops that end after some steps
_SLACK = (1e-2, 5e-3, 2e-3, 1e-3, 1e-4, 1e-6, 1e-9)  # relative amounts by which a proof may fall short of the roots
_SLACK_OF_RANGES = (0.4, 0.2, 0.1, 0.05, 0.02)  # the same for covers of ranges
_REFUSED = 1e3  # cost of a point without a linear model
_SPARE = 1.02  # factor on the requested margins in the search over a range, so that its cover can prove them
_WORSE, _NEAR = 4, 1e-3  # maximum number of grid networks that join a search; minimum excess of their cost
_CAPACITY = 1e9  # bit/s; the loops do not depend on it
_RTTS = 25  # number of RTTs on the grid of a range
_FREQUENCIES = 300  # number of frequencies on the grid
_FLOWS = 20  # number of flows in the distributions that are tried individually


@dataclass(frozen=True, repr=False)
class Design(Displayed):
    """A protocol with the fastest gains that a search found.

    Attributes
    ----------
    protocol : Protocol or ProtocolAssignment
        The protocol with its gains; `gains` has them by name.
    decay : float
        Proven decay [1/s]: on every network all roots have Re s < -decay, or |z| < exp(-decay dt). Not more than 20 in
        the largest RTT is proven.
    before : float
        Decay with the initial gains [1/s]; nan if the protocol was given as a callable.
    margins, proofs : tuple of Margins, tuple of Certificate
        One for each network; for a range, one for each corner.
    covers : tuple of BoxCover
        Proofs of the requested margins and of the decay on all networks of a range; empty without a range.
    notes : tuple of str
        Assumptions of the covers on the models.
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
    """The minimum decay over all RTT distributions in a range: two estimates, neither a proven bound.

    Attributes
    ----------
    value : float
        Estimate by the hull of a grid of RTTs, on a grid of frequencies [1/s].
    found : float
        Decay of the worst distribution found [1/s], on up to three RTTs.
    rtts : tuple of float
        RTTs of the twenty flows of that distribution [s].
    """

    value: float
    found: float
    rtts: tuple[float, ...]
    _units = {"value": "1/s", "found": "1/s", "rtts": "s"}


def _step(system: DelaySystem | SampledSystem) -> float:
    return 1.0 if isinstance(system, DelaySystem) else float(system.dt or 1.0)


def _estimate(system: DelaySystem | SampledSystem) -> float:
    """Return the decay by Newton's method only [1/s]; a root may be missing, which a proof would show."""
    growth_rates = [-inf]
    for part, _ in system.blocks:
        ch = part.characteristic_matrix
        if not ch.sampled or len(ch.delays):
            growth_rates += newton(ch, next(iter(starts(ch, 1))))[:1].real.tolist()
    rightmost: float = max(growth_rates)
    return -rightmost / _step(system)


@check_arguments
def decay_rate(system: DelaySystem | SampledSystem) -> float:
    """Return the decay rate of a linear system [1/s]: minus its abscissa, or minus the log of its radius a step.

    Parameters
    ----------
    system : DelaySystem or SampledSystem

    Returns
    -------
    float
        Decay rate, < 0 if the system grows; inf if the response ends after finitely many steps.

    Raises
    ------
    ConvergenceError
        Roots cannot be distinguished, which may happen at a root of multiplicity three or more (see `roots`).

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
    progress: ProgressCallback | None = None,
    **keywords: Unpack[LinearKeywords],
) -> Design:
    """Return the gains of a protocol with the fastest decay for the requested margins, and a proof of the decay.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping or callable
        Protocol; parameters that are not in `parameters` do not change. A callable takes the parameters by name and
        returns any of these.
    networks : Network, sequence of Network or NetworkRange
        One network, or several, for which the minimum decay is maximized. For a range this holds for all networks
        within its limits.
    parameters : mapping
        Names -> (lowest, highest), > 0, the limits of the search, for example {"alpha": (0.01, 2.0)}. Parameters of
        hosts and queue disciplines are "flows.NAME" and "links.NAME".
    time : str, optional
        "continuous", "discrete" or "hybrid", as for linearize; for a range "continuous".
    gain_margin : float, optional
        Minimum gain margin, a factor >= 1.
    phase_margin : float, optional
        Minimum phase margin, rad, >= 0.
    delay_margin : float, s, >= 0, optional
        Minimum delay margin. Margins hold for every bottleneck of every network. 0 for a range, since its RTTs already
        define the possible delays.
    seed : int, optional
        Seed of the search.
    options : LinearOptions, optional
        Options of the linear models: `clocking`.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the values that are tried, as `text`.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    Design

    Raises
    ------
    ValueError, LinearizationError
        The list of networks is empty, the protocol lacks a parameter, a range is empty, or a margin is out of range; or
        none of the values tried has a linear model.
    ConvergenceError
        No gains found are stable and have the margins, or the proof falls short by more than a hundredth, for a range
        by more than four tenths.

    Notes
    -----
    Differential evolution on logarithms, then Nelder and Mead's simplex: it is proven that these gains are as fast as
    reported, but not that no gains are faster. Cost: about 150 linear models for one parameter and 1500 for three, 2 ms
    each, and 10 ms if margins are requested. Values that a protocol refuses, for example a <= b of PI, are skipped.

    For a range the search starts with the networks that have the most and the fewest bytes in flight per flow. It then
    checks a grid of four values of each limit, and repeats with the worst network of the grid until no network is
    worse; it requires margins that are 2 % larger. For its result the whole range is proven
    (`ecc.stability.cover_range`) to have the margins and the decay. Cost: 300 to 1000 linear models of each network
    considered, 10 ms each.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> result = design(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), {"alpha": (0.01, 2.0)})
    >>> round(result.gains["alpha"], 4), round(result.decay * 0.1, 4)  # 1/e, 1 per RTT
    (0.3679, 1.0)
    """
    chosen = read_options(options, keywords, ("clocking",), "design")
    wide = networks if isinstance(networks, NetworkRange) else None
    nets = [networks] if isinstance(networks, Network) else _extremes(wide) if wide else list(networks)  # type: ignore[arg-type]
    if not nets:
        raise ValueError("networks must contain at least one network, got none")
    if not parameters:
        raise ValueError("parameters must name at least one parameter, got {}")
    family = _Family(protocol, parameters)
    margins = _Requested(gain_margin, phase_margin, delay_margin)
    _check_request(margins, time, wide)
    search = _Search(family, nets, wide, time, margins, chosen, progress)
    point, every = search.best_point(seed)
    fastest_protocol = family.at(point)
    covers: tuple[BoxCover, ...] = ()
    if wide:
        max_decay = min(map(_estimate, search.loops(fastest_protocol, every)))
        decay, covers = _covered(fastest_protocol, wide, max_decay, gain_margin, phase_margin, chosen)
        nets = wide.corners()
        proofs = tuple(system.certify(-decay) for system in search.loops(fastest_protocol, nets))
    else:
        decay, proofs = _proven(search.loops(fastest_protocol, nets), _MAX_FOLDS / search.unit)
    return Design(
        protocol=fastest_protocol,
        gains=family.values(point),
        decay=decay,
        before=nan if family.initial is None else min(map(decay_rate, search.loops(family.initial, nets))),
        margins=tuple(system.margins() for system in search.loops(fastest_protocol, nets)),
        proofs=proofs,
        covers=covers,
        notes=covers[0].notes if covers else (),
    )


class _Requested(NamedTuple):
    """The requested margins: a factor, an angle [rad] and a delay [s]."""

    gain: float
    phase: float
    delay: float


def _check_request(margins: _Requested, time: str, wide: NetworkRange | None) -> None:
    """Refuse margins out of range, and what a range of networks does not have."""
    if not margins.gain >= 1.0:
        raise ValueError(f"gain_margin must be >= 1, got {shown(margins.gain)}")
    for name, margin in (("phase_margin", margins.phase), ("delay_margin", margins.delay)):
        if not margin >= 0.0:
            raise ValueError(f"{name} must be >= 0, got {shown(margin)}")
    if wide and time != "continuous":
        raise ValueError(f"time must be 'continuous' for a range of networks, got {shown(time)}")
    if wide and margins.delay > 0.0:
        raise ValueError(f"delay_margin must be 0 s for a range of networks, got {shown(margins.delay)}")


class _Search:
    """The search for the gains with the fastest decay, by a cost: minus the decay [1/unit], or a penalty.

    `networks` has those for which the minimum decay is maximized; `box` has the limits of the logarithms of gains.
    """

    def __init__(
        self,
        family: _Family,
        networks: list[Network],
        wide: NetworkRange | None,
        time: str,
        margins: _Requested,
        options: LinearOptions,
        progress: ProgressCallback | None,
    ) -> None:
        self.family, self.networks, self.wide, self.time = family, networks, wide, time
        self.margins, self.options = margins, options
        self.has_margins = margins.gain > 1.0 or margins.phase > 0.0 or margins.delay > 0.0
        self.unit = max(float(network.rtts.max()) for network in networks) or 1.0
        self.box = [(log(low), log(high)) for low, high in family.limits.values()]
        self.refusals: list[Exception] = []
        self.report = Reporter(progress)

    def loops(self, member: Any, networks: Sequence[Network]) -> list[DelaySystem | SampledSystem]:
        """Return the linear models of a protocol on networks."""
        if self.wide:
            return [linearize_on(member, network, self.options.clocking) for network in networks]
        return [linearize(member, network, self.time, clocking=self.options.clocking) for network in networks]

    def shortfall(self, system: DelaySystem | SampledSystem) -> float:
        """Return by how much the margins fall short."""
        requested = self.margins
        if self.wide:
            gain, phase = _estimated_margins(system)
            return max(0.0, _SPARE * requested.gain / gain - 1.0) + max(0.0, _SPARE * requested.phase - phase)
        m = system.margins()
        short = max(0.0, requested.gain / m.gain_margin - 1.0)
        late = max(0.0, requested.delay - m.delay_margin) / self.unit
        return short + (max(0.0, requested.phase - m.phase_margin) + late)

    def cost(self, point: NDArray[Any], networks: Sequence[Network] | None = None) -> float:
        """Return the cost of a point on networks, by default those of the search."""
        outside = float(sum(max(low - x, x - high, 0.0) for x, (low, high) in zip(point, self.box, strict=True)))
        if outside > 0.0:
            return _REFUSED + outside
        values = self.family.values(point)
        self.report(lambda: ", ".join(f"{name} = {value:.5g}" for name, value in values.items()))
        try:
            systems = self.loops(self.family.at(point), self.networks if networks is None else networks)
        except REFUSED as error:
            self.refusals.append(error)
            return _REFUSED
        decay: float = min(map(_estimate, systems)) * self.unit
        if decay <= 0.0:
            return 100.0 - decay
        short = 0.0
        for system in systems if self.has_margins else ():
            short += self.shortfall(system)
        return float(min(99.0, short)) if short > 0.0 else -min(decay, _MAX_FOLDS)

    def polished(self, point: NDArray[Any]) -> NDArray[Any]:
        """Return the point of minimum cost near a point."""
        from scipy.optimize import minimize

        rounds = 3 if len(self.box) > 1 else 1  # restarts, since a simplex may become flat at a kink
        fine = {"xatol": 1e-4, "fatol": 1e-4} if self.wide else {"xatol": 1e-10, "fatol": 1e-12}
        for _ in range(rounds if self.cost(point) < 99.0 else 0):
            options = fine | {"maxfev": 80 * len(self.box)}
            point = minimize(self.cost, point, method="Nelder-Mead", options=options).x
        return point

    def best_point(self, seed: Seed) -> tuple[NDArray[Any], list[Network]]:
        """Return the point of minimum cost, and the grid of networks of a range on which it has been checked."""
        from scipy.optimize import differential_evolution

        box, wide = self.box, self.wide
        rng, (low, high) = np.random.default_rng(seed), np.transpose(box)
        tried = (np.mean(box, axis=1), *rng.uniform(low, high, (8, len(box))))
        if all(self.cost(point) == _REFUSED for point in tried):
            raise self.refusals[0]  # a protocol that cannot be linearized is refused with its own message
        generations = 8 if len(box) == 1 else 12 if wide else 25
        begun = differential_evolution(
            self.cost, box, maxiter=generations, popsize=8, seed=seed, polish=False, init="sobol", tol=1e-8
        )
        point = self.polished(begun.x)
        every = [wide.at(*values) for values in wide.grid(4)] if wide else []
        for _ in every[:_WORSE]:
            costs = [self.cost(point, [network]) for network in every]
            if max(costs) <= self.cost(point) + _NEAR:
                break
            self.networks.append(every[int(np.argmax(costs))])
            point = self.polished(point)
        if self.cost(point, every or self.networks) > _NEAR * bool(wide):
            raise ConvergenceError("no gains found that are stable and have the margins", point, self.cost(point))
        return point, every


class _Family:
    """The protocols of a search, by the logarithms of the parameters."""

    def __init__(self, protocol: Any, parameters: Mapping[str, tuple[float, float]]) -> None:
        self.limits = parameters
        self.make: Callable[..., Any] | None = protocol if callable(protocol) else None
        self.initial = None if self.make else read_protocol(protocol)
        known = list(signature(self.make).parameters) if self.make else parameter_names(self.initial)  # type: ignore[arg-type]
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
        return with_parameters(self.initial, values) if self.make is None else read_protocol(self.make(**values))


def _extremes(networks: NetworkRange) -> list[Network]:
    """Return the networks with the most and the fewest bytes in flight per flow."""
    (min_capacity, capacity), (min_flows, max_flows), (short, long) = networks.capacity, networks.flows, networks.rtt
    corners = [networks.at(capacity, min_flows, long), networks.at(min_capacity, max_flows, short)]
    return corners if corners[0] != corners[1] else corners[:1]


def _estimated_margins(system: DelaySystem | SampledSystem) -> tuple[float, float]:
    """Return estimates of the gain and phase margin of a stable loop, interpolated on a grid of frequencies."""
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
    """Return a decay on all networks of a range [1/s], and the covers that prove it and the margins."""
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


def _proven(systems: Sequence[DelaySystem | SampledSystem], limit: float) -> tuple[float, tuple[Certificate, ...]]:
    """Return a decay of all systems [1/s], as close to the roots as can be proven, and its proofs.

    Near a root of multiplicity m the pieces of the contour shrink with the m-th power of the distance.
    """
    decay = min(*map(_estimate, systems), limit)
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
    """Return the minimum decay of a protocol's continuous loop over all RTT distributions in a range on one link.

    Implements the hull described in this module; not taken from the papers.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a router that uses only the mean of the RTTs.
    least_rtt, largest_rtt : floats, s
        Limits of the range, for example 0.05 and 0.1.
    seed : int, optional
        Seed of the search for the worst distribution.

    Returns
    -------
    LeastDecay
        Both estimates, below 0 if some distribution is unstable.

    Raises
    ------
    ValueError
        The range is empty; the router scales by the largest RTT.

    Notes
    -----
    Nothing here is proven. The hull is that of 25 RTTs, evaluated at 300 frequencies, so `value` is slightly high, by a
    few thousandths in comparisons; `found` is the same or higher. Cost: 10 s.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> least_decay(QIRCP(alpha=0.3), 0.05, 0.1).found > 2.0
    True
    """
    from scipy.optimize import differential_evolution, minimize

    if not 0.0 < least_rtt < largest_rtt < inf:
        raise ValueError(f"range must be 0 < least_rtt < largest_rtt, got {least_rtt:g} and {largest_rtt:g} s")
    if protocol.scaling_rtt != "mean":
        raise ValueError(f"rtt must be 'mean' for all RTT distributions, got {protocol.scaling_rtt!r}")
    if protocol.scaling_rtt_limit < inf:
        raise ValueError(
            f"RTTs must count in full for all RTT distributions, got a limit of {protocol.scaling_rtt_limit:g} s"
        )
    if router_takes(protocol, "x") and protocol.params().get("gamma", 0.0) > 0.0:
        raise ValueError(
            f"gamma must be 0 for all RTT distributions of {type(protocol).__name__}: see critical_rtt_ratio"
        )
    rtts = np.linspace(least_rtt, largest_rtt, _RTTS)
    equal = [linearize(protocol, Network.dumbbell(_CAPACITY, [float(rtt)]), "continuous") for rtt in rtts]

    def rtts_of(point: NDArray[Any]) -> list[float]:
        first_rtt, second_rtt, third_rtt, first_share, second_share = point
        first = round(first_share * _FLOWS)
        second = round(second_share * (_FLOWS - first))
        third = _FLOWS - first - second
        return [float(first_rtt)] * first + [float(second_rtt)] * second + [float(third_rtt)] * third

    def decay(point: NDArray[Any]) -> float:
        return _estimate(linearize(protocol, Network.dumbbell(_CAPACITY, rtts_of(point)), "continuous"))

    box = [(least_rtt, largest_rtt)] * 3 + [(0.0, 1.0)] * 2
    worst = differential_evolution(decay, box, maxiter=12, popsize=8, seed=seed, polish=False, init="sobol").x
    worst[:3] = minimize(
        lambda rtt: decay(np.concatenate([np.clip(rtt, least_rtt, largest_rtt), worst[3:]])),
        worst[:3],
        method="Nelder-Mead",
        options={"maxfev": 120},
    ).x.clip(least_rtt, largest_rtt)
    min_decay = min(decay(worst), *(_estimate(system) for system in equal))
    low, high = min(0.0, 2.0 * min_decay), min_decay
    if not _has_root(equal, rtts, high - 1e-6 * abs(high)):
        low = high
    while high - low > 1e-4 * abs(high):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _has_root(equal, rtts, middle) else (middle, high)
    return LeastDecay(float(low), float(min_decay), tuple(rtts_of(worst)))


def _has_root(equal: Sequence[Any], rtts: NDArray[np.float64], decay: float) -> bool:
    """Return whether some distribution of these RTTs, with a mean among them, has a root on the line Re s = -decay."""
    largest = exp(max(decay, 0.0) * float(rtts[-1]))
    top = 1.0 / float(rtts[-1])

    def moment(k: int, s: NDArray[Any]) -> NDArray[Any]:
        """Return the moment E exp(-s D) of mean rtts[k] for which s is a root."""
        return np.asarray(-np.exp(-s * rtts[k]) / equal[k].open_loop(s))

    line = complex(-decay)
    while min(abs(moment(k, np.array([line + 1j * top]))[0]) for k in range(len(rtts))) < largest:
        top *= 2.0
    s = line + 1j * top * np.linspace(0.0, 1.0, _FREQUENCIES)
    ends = np.exp(-s[:, None] * rtts)
    for k, mean in enumerate(rtts):
        target = moment(k, s)
        below, above = np.arange(k + 1), np.arange(k, len(rtts))
        span = rtts[above][None, :] - rtts[below][:, None]
        with np.errstate(invalid="ignore"):
            share = np.where(span > 0.0, (rtts[above][None, :] - mean) / span, 1.0)  # share of the shorter RTT
        reached = share * ends[:, below, None] + (1.0 - share) * ends[:, None, above]
        directions = reached.reshape(len(s), -1) - target[:, None]
        angles = np.sort(np.angle(directions), axis=1)
        gaps = np.diff(angles, axis=1, append=angles[:, :1] + 2.0 * pi)
        near = np.abs(target) <= largest
        if np.any(near & (gaps.max(axis=1) <= pi)):
            return True
    return False
