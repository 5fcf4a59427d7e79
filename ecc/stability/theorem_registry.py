"""Registry of stability theorems, and a search for counterexamples.

A theorem states: if hypotheses hold, the loop is stable while a gain is below a bound (sufficient), or if and only if
it is (necessary and sufficient). Here it is data: a bound (None if its hypotheses fail), a space of loops to
search, and, as oracle, the exact critical gain of `ecc.linear`. The search minimizes critical gain / bound over that
space, and also maximizes it if the bound is stated to be necessary; the worst loops are decided by ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, e, inf, pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Seed, check_arguments, shown
from ecc._support.display import Displayed
from ecc._support.reports import ProgressCallback, Reporter
from ecc.contract.protocol import Protocol
from ecc.linear import StabilityLimit, stability_limit
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, Kelly
from ecc.network.network import Flow, Link, Network
from ecc.stability.gains import critical_gain

__all__ = ["THEOREMS", "Case", "Search", "Theorem", "search"]

Loop = tuple[Protocol, Network]
Unit = NDArray[np.float64]  # coordinates in [0, 1]
EXACT, SUFFICIENT = "necessary and sufficient", "sufficient"
TOLERANCE = 1e-7  # maximum relative difference between a bound and a critical gain that are stated to be equal


@check_arguments
@dataclass(frozen=True)
class Theorem:
    """A published or derived stability theorem.

    Attributes
    ----------
    id, source, statement : str
        Its name, source and statement. D is the RTT of one flow or of equal ones, d and D_max are the mean and the
        maximum of RTTs, in steps if time is discrete; "stable" is asymptotic stability of the linear model.
    kind : str
        "necessary and sufficient" or "sufficient".
    time : str
        "continuous" or "discrete".
    parameter : str
        Name of the gain.
    hypotheses : str
        Hypotheses in words; `bound` returns None if they fail.
    bound : callable
        (protocol, network) -> the value below which the gain must stay.
    draw : callable
        Point of the unit cube -> a loop to which the theorem applies.
    dimensions : int
        Dimensions of that cube.
    vary : callable or None
        (protocol, gain) -> protocol, if more than `parameter` changes with the gain.
    known : tuple of float
        A point of the cube for a known bad loop, from which a search also starts; or ().
    """

    id: str
    source: str
    statement: str
    kind: str
    time: str
    parameter: str
    hypotheses: str
    bound: Callable[[Protocol, Network], float | None]
    draw: Callable[[Unit], Loop]
    dimensions: int
    vary: Callable[[Any, float], Protocol] | None = None
    known: tuple[float, ...] = ()

    def at(self, protocol: Protocol, gain: float) -> Protocol:
        """Return the protocol at a gain.

        Parameters
        ----------
        protocol : Protocol
        gain : float
        """
        return self.vary(protocol, gain) if self.vary else replace(protocol, **{self.parameter: gain})

    def critical(self, protocol: Protocol, network: Network, certify: bool = False) -> StabilityLimit:
        """Return the stability limit as the gain grows.

        Parameters
        ----------
        protocol, network : Protocol, Network
            The loop.
        certify : bool, optional
            Whether to prove both sides.
        """
        if self.vary is None:
            return critical_gain(protocol, network, self.parameter, self.time, certify)
        return stability_limit(lambda gain: linearize(self.at(protocol, gain), network, self.time), certify=certify)

    def evaluate(self, protocol: Protocol, network: Network, certify: bool = False) -> Case:
        """Return the theorem's bound and the exact boundary of a loop.

        Parameters
        ----------
        protocol, network : Protocol, Network
            The loop.
        certify : bool, optional
            Whether to decide the loop by ball arithmetic too.

        Raises
        ------
        ValueError
            The hypotheses fail.
        """
        bound = self.bound(protocol, network)
        if bound is None:
            raise ValueError(f"hypotheses of {self.id} must hold ({self.hypotheses}), got {shown(protocol)}")
        limit = self.critical(protocol, network, certify)
        proof: tuple[float, bool | None] | None = None
        if certify:
            below = limit.value < bound * (1.0 - TOLERANCE)
            gain = 0.5 * (limit.value + bound) if below else bound * (1.0 - TOLERANCE)
            proof = gain, linearize(self.at(protocol, gain), network, self.time).certify().stable
        return Case(protocol, network, bound, limit, proof)


@dataclass(frozen=True, repr=False)
class Case(Displayed):
    """A loop with a theorem's `bound`, its critical gain `found`, and `proof` = (gain, stable there) if requested.

    The gain of the proof lies between the two if stability is lost below the bound, and otherwise just below the bound.
    """

    protocol: Protocol
    network: Network
    bound: float
    found: StabilityLimit
    proof: tuple[float, bool | None] | None

    @property
    def ratio(self) -> float:
        """Critical gain / bound: if below 1 the theorem is contradicted, if above 1 the bound is not sharp."""
        return self.found.value / self.bound

    @property
    def contradicts(self) -> bool:
        """True if stability is lost below the bound, proven if a proof was requested."""
        return self.ratio < 1.0 - TOLERANCE and (self.proof is None or self.proof[1] is False)


@dataclass(frozen=True, repr=False)
class Search(Displayed):
    """The loops with the smallest and the largest critical gain / bound of a search, and the number of loops tried."""

    theorem: Theorem
    least: Case
    largest: Case
    loops: int

    @property
    def holds(self) -> bool:
        """True if no loop found contradicts the theorem."""
        sharp = self.theorem.kind == SUFFICIENT or self.largest.ratio <= 1.0 + TOLERANCE
        return not self.least.contradicts and sharp


@check_arguments
def search(theorem: Theorem, loops: int = 12, seed: Seed = 1, *, progress: ProgressCallback | None = None) -> Search:
    """Search for the worst loops that a theorem covers: differential evolution over its space, then certificates.

    Parameters
    ----------
    theorem : Theorem
    loops : int, optional
        Approximate number of loops, with the same number for the largest ratio if a bound is stated to be necessary
        (otherwise the largest ratio is the largest encountered).
    seed : int, optional
        Seed of the search.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the number of loops analyzed so far, as `text`.

    Returns
    -------
    Search

    Notes
    -----
    Counterexamples that are found are proven by `Case.proof`; if none are found, nothing is proven. A critical gain
    takes about 0.1 s, or several seconds if the model is not affine in it (EMKC, Kelly's control).

    Examples
    --------
    >>> found = search(ecc.stability.THEOREMS["qi-3"], loops=3)
    >>> found.holds
    True
    """
    from scipy.optimize import differential_evolution

    ratios: dict[bytes, tuple[float, Unit]] = {}
    report = Reporter(progress)

    def ratio(at: Unit, sign: float) -> float:
        key = np.asarray(at).tobytes()
        if key not in ratios:
            report(lambda: f"loop {len(ratios) + 1}")
            ratios[key] = theorem.evaluate(*theorem.draw(at)).ratio, np.array(at)
        return sign * min(ratios[key][0], 1e6)

    size = max(5, loops // 5)
    first = np.random.default_rng(seed).random((size, theorem.dimensions))
    if theorem.known:
        first[0] = theorem.known
    for sign in (1.0, -1.0) if theorem.kind == EXACT else (1.0,):
        differential_evolution(
            ratio,
            [(0.0, 1.0)] * theorem.dimensions,
            args=(sign,),
            maxiter=max(1, loops // size - 1),
            seed=seed,
            init=first,
            polish=False,
            tol=0.0,
        )
    ranked = sorted(ratios.values(), key=lambda pair: pair[0])
    smallest, largest = (theorem.evaluate(*theorem.draw(at), certify=True) for _, at in (ranked[0], ranked[-1]))
    return Search(theorem, smallest, largest, len(ranked))


# ---- spaces ------------------------------------------------------------------------------------------------


def _between(low: float, high: float, at: float) -> float:
    """Return a value from low to high on a logarithmic scale."""
    return float(low * (high / low) ** at)


def _equal(rtt: float, flows: int = 2) -> Network:
    return Network.dumbbell("1 Gb/s", [rtt] * flows)


def _heterogeneous(at: Unit, low: float = 0.02, high: float = 4.0) -> Network:
    """Return a dumbbell with a flow for each coordinate: the minimum RTT, and up to 30 times that for the others."""
    base = _between(low, high, at[0])
    return Network.dumbbell("1 Gb/s", [base] + [base * 30.0 ** float(x) for x in at[1:]])


def _whole(low: int, high: int, at: float) -> int:
    return min(high, low + int(at * (high - low + 1)))


def _piqi(at: Unit, share: float = 0.01) -> tuple[PIQIRCP, float]:
    """Return tau1, tau2 with tau1 + 2 tau2 < 2 (THESIS (4.73)), and the minimum RTT for which T/D <= share."""
    tau1 = _between(1e-3, 1.0, at[0])
    tau2 = 0.99 * 0.5 * (2.0 - tau1) * float(at[1])
    return PIQIRCP(tau1=tau1, tau2=tau2, interval=0.01), 0.01 / share


def _links(at: Unit) -> Network:
    """Return three links of different capacity, with five flows over one to three of them and RTTs up to 30 steps."""
    capacities = [_between(1e7, 1e9, x) for x in at[:3]]
    routes = [(0,), (1,), (2,), (0, 1), (0, 1, 2), (1, 2), (0, 2)]
    flows = [
        Flow(route=list(routes[i] if i < 3 else routes[_whole(3, 6, at[3 + i])]), access_delay=_between(5e-3, 0.15, x))
        for i, x in enumerate(at[8:13])
    ]
    return Network(links=[Link(c, 0.0) for c in capacities], flows=flows)


# ---- bounds ------------------------------------------------------------------------------------------------


def _published(*names: str) -> Callable[[Protocol, Network], float | None]:
    """Return a bound from the model's own list, or None if the list has none of these theorems.

    A theorem on any RTTs covers equal ones, for which models list only the exact theorem: its value is the same.
    """

    def bound(protocol: Protocol, network: Network) -> float | None:
        return next((b.value for b in protocol.published_bounds(network) if b.theorem in names), None)

    return bound


def _one_interval(protocol: Any, network: Network) -> float | None:
    alone = network.n_links == 1 and bool(np.all(network.rtts <= protocol.interval * (1.0 + 1e-9)))
    return 2.0 if alone else None


def _short_intervals(*names: str) -> Callable[[Any, Network], float | None]:
    published = _published(*names)
    return lambda protocol, network: (
        published(protocol, network)
        if protocol.tau1 + 2.0 * protocol.tau2 < 2.0 and protocol.interval <= 0.01 * network.rtts.min() * (1.0 + 1e-9)
        else None
    )


def _reference(protocol: Any, network: Network) -> float | None:
    """Return the critical alpha of one flow on 1 Mb/s without delays except the interval."""
    if network.n_links != 1 or np.any(network.rtts > protocol.interval * (1.0 + 1e-9)):
        return None
    return _critical_of_one_flow(protocol, protocol.interval, "alpha", "discrete")


@lru_cache(maxsize=256)
def _critical_of_one_flow(protocol: Protocol, rtt: float, parameter: str, time: str) -> float:
    return critical_gain(protocol, Network.dumbbell("1 Mb/s", [rtt]), parameter, time).value


def _mean_steps(protocol: Any, network: Network) -> float:
    return float(np.mean([max(1, ceil(rtt / protocol.interval - 1e-9)) for rtt in network.rtts]))


def _integral_at_mean(protocol: Any, network: Network) -> float | None:
    d = _mean_steps(protocol, network)
    return 2.0 * d * sin(pi / (2.0 * (2.0 * d - 1.0))) if network.n_links == 1 else None


def _averaging_at_mean(protocol: Any, network: Network) -> float | None:
    d = _mean_steps(protocol, network)
    return d / (2.0 * d - 1.0) if network.n_links == 1 and protocol.tau1 + protocol.tau2 <= 1.0 + 1e-12 else None


def _averaging_lag(protocol: Any) -> float:
    """Return the delay that the router's average and the source's filter add to PIQI-RCP's loop, in intervals."""
    return 0.5 + float((1.0 - protocol.tau1 - protocol.tau2) / protocol.tau1)


def _max_tau2(tau1: float) -> float:
    """Return the largest tau2 for which the continuous source (THESIS (4.60)) averages its received values."""
    from scipy.special import lambertw

    return float(tau1 / np.expm1(-lambertw(-tau1).real))


def _lag_added(protocol: Any, network: Network) -> float | None:
    """Return the bound of docs/short_intervals.md, Theorem 1."""
    if network.n_links != 1 or protocol.tau1 > 1.0 / e or protocol.tau2 > _max_tau2(protocol.tau1):
        return None
    d = float(network.rtts.mean())
    return pi / 4.0 * d / (d + _averaging_lag(protocol) * float(protocol.interval))


def _lag_added_in_steps(protocol: Any, network: Network) -> float | None:
    """Return the bound of docs/short_intervals.md, Theorem 2."""
    if network.n_links != 1 or protocol.tau1 + protocol.tau2 > 1.0:
        return None
    d = _mean_steps(protocol, network)
    return d * sin(pi / (2.0 * (2.0 * (d + _averaging_lag(protocol)) - 1.0)))


def _on_one_link(value: float) -> Callable[[Protocol, Network], float | None]:
    return lambda protocol, network: value if network.n_links == 1 else None


def _on_curve(protocol: Any, gain: float) -> Protocol:
    moved: Protocol = replace(protocol, alpha=gain, beta=sqrt(2.0) * gain * gain)
    return moved


def _at_mean_rtt(protocol: Any, network: Network) -> float | None:
    if network.n_links != 1:
        return None
    value = _critical_of_one_flow(protocol, 1.0, "beta", "continuous")  # for any mean RTT d: only s d matters
    return value if 0.0 < value < inf else None


def _rcp_on_boundary(at: Unit) -> Loop:
    omega = 0.05 + 1.45 * float(at[0])
    return RCP(alpha=omega * sin(omega)), _heterogeneous(at[1:], 0.001, 0.01)


# ---- the registry ------------------------------------------------------------------------------------------

_ANY_RTTS = "one link, any RTTs"
_LIMIT = "one link, T/D -> 0, read as T <= D_min/100, and tau1 + 2 tau2 < 2"
_ALL = [
    Theorem(
        "qi-3",
        "THESIS Theorem 3",
        "Continuous QI-RCP with equal RTTs is stable iff 0 < alpha < pi/2.",
        EXACT,
        "continuous",
        "alpha",
        "one link, equal RTTs",
        _published("THESIS Theorem 3"),
        lambda u: (QIRCP(), _equal(_between(0.001, 10.0, u[0]), _whole(1, 5, u[1]))),
        2,
    ),
    Theorem(
        "qi-4",
        "THESIS Theorem 4",
        "Continuous QI-RCP is stable if 0 < alpha < pi d/(2 D_max).",
        SUFFICIENT,
        "continuous",
        "alpha",
        _ANY_RTTS,
        _published("THESIS Theorem 4", "THESIS Theorem 3"),
        lambda u: (QIRCP(), _heterogeneous(u)),
        5,
    ),
    Theorem(
        "qi-5",
        "THESIS Theorem 5",
        "Discrete QI-RCP without delay is stable iff 0 < alpha < 2.",
        EXACT,
        "discrete",
        "alpha",
        "one link, RTTs of one interval",
        _one_interval,
        lambda u: (QIRCP(interval=_between(1e-3, 1.0, u[0])), _equal(_between(1e-3, 1.0, u[0]), _whole(1, 5, u[1]))),
        2,
    ),
    Theorem(
        "qi-7",
        "THESIS Theorem 7",
        "Discrete QI-RCP with equal delays is stable iff 0 < alpha/D < 2 sin(pi/(2(2D - 1))).",
        EXACT,
        "discrete",
        "alpha",
        "one link, equal RTTs",
        _published("THESIS Theorem 7"),
        lambda u: (QIRCP(), _equal(_between(0.01, 3.0, u[0]))),
        1,
    ),
    Theorem(
        "qi-8",
        "THESIS Theorem 8",
        "Discrete QI-RCP is stable if 0 < alpha/d < 2 sin(pi/(2(2 D_max - 1))).",
        SUFFICIENT,
        "discrete",
        "alpha",
        _ANY_RTTS,
        _published("THESIS Theorem 8", "THESIS Theorem 7"),
        lambda u: (QIRCP(), _heterogeneous(u, 0.01, 0.3)),
        4,
    ),
    Theorem(
        "piqi-9",
        "THESIS Theorem 9",
        "Continuous PIQI-RCP with equal RTTs is stable iff 0 < alpha < pi/4.",
        EXACT,
        "continuous",
        "alpha",
        _LIMIT + ", equal RTTs",
        _short_intervals("THESIS Theorem 9"),
        lambda u: ((p := _piqi(u))[0], _equal(_between(p[1], 100.0, u[2]))),
        3,
        None,
        (0.0, 0.0, 0.0),
    ),
    Theorem(
        "piqi-10",
        "THESIS Theorem 10",
        "Continuous PIQI-RCP is stable if 0 < alpha < pi d/(4 D_max).",
        SUFFICIENT,
        "continuous",
        "alpha",
        _LIMIT,
        _short_intervals("THESIS Theorem 10", "THESIS Theorem 9"),
        lambda u: ((p := _piqi(u))[0], _heterogeneous(u[2:], p[1], 10.0)),
        5,
        None,
        (0.0, 0.0, 0.0, 0.0, 0.0),
    ),
    Theorem(
        "piqi-11",
        "THESIS Theorem 11",
        "The eigenvalues of undelayed discrete PIQI-RCP, and with them its "
        "critical alpha, depend neither on C nor on N.",
        EXACT,
        "discrete",
        "alpha",
        "one link, RTTs of one interval",
        _reference,
        lambda u: (_piqi(u)[0], Network.dumbbell(_between(1e5, 1e12, u[2]), [0.01] * _whole(1, 50, u[3]))),
        4,
    ),
    Theorem(
        "piqi-12",
        "THESIS Theorem 12",
        "Discrete PIQI-RCP with equal delays is stable iff 0 < alpha/D < sin(pi/(2(2D - 1))).",
        EXACT,
        "discrete",
        "alpha",
        _LIMIT + ", equal RTTs",
        _short_intervals("THESIS Theorem 12"),
        lambda u: ((p := _piqi(u))[0], _equal(_between(p[1], 4.0, u[2]))),
        3,
        None,
        (0.0, 0.0, 0.0),
    ),
    Theorem(
        "piqi-13",
        "THESIS Theorem 13",
        "Discrete PIQI-RCP is stable if 0 < alpha/d < sin(pi/(2(2 D_max - 1))).",
        SUFFICIENT,
        "discrete",
        "alpha",
        _LIMIT,
        _short_intervals("THESIS Theorem 13", "THESIS Theorem 12"),
        lambda u: ((p := _piqi(u))[0], _heterogeneous(u[2:], p[1], 2.0)),
        5,
        None,
        (0.0, 0.0, 0.0, 0.0, 0.0),
    ),
    Theorem(
        "xcp-1",
        "EVAL sec. 2, JETMAX sec. 2, THESIS II.E.1, of Katabi et al. 2002",
        "XCP with equal RTTs is stable if 0 < alpha < pi/(4 sqrt 2) and beta = sqrt(2) alpha^2.",
        SUFFICIENT,
        "continuous",
        "alpha",
        "one link, equal RTTs, unconstrained queue",
        _published("EVAL sec. 2"),
        lambda u: (XCP(), _equal(_between(0.001, 10.0, u[0]), _whole(1, 5, u[1]))),
        2,
        _on_curve,
    ),
    Theorem(
        "emkc-1",
        "JETMAX sec. 2",
        "EMKC on one link is stable for all constant delays if 0 < beta < 2 "
        "(JETMAX also claims varying delays, which is false: docs/varying_delays.md).",
        SUFFICIENT,
        "discrete",
        "beta",
        "one link, constant delays",
        _published("JETMAX sec. 2"),
        lambda u: (EMKC(alpha=_between(1e3, 1e6, u[0])), _heterogeneous(u[1:], 0.01, 0.1)),
        4,
    ),
    Theorem(
        "mm-1",
        "JETMAX Theorem 1",
        "A network of EMKC with a consistent assignment is stable if each link is "
        "(JETMAX states it for MKC and any constant assignment, as an equivalence).",
        SUFFICIENT,
        "discrete",
        "beta",
        "max-min bottlenecks that do not change, constant delays",
        _published("JETMAX sec. 2"),
        lambda u: (EMKC(alpha=2e4, interval=0.05), _links(u)),
        13,
    ),
    Theorem(
        "jm-th2",
        "JETMAX Theorem 2",
        "JetMax is stable for all constant delays iff 0 < tau < 2.",
        EXACT,
        "discrete",
        "tau",
        "max-min bottlenecks that do not change, constant delays",
        _published("JETMAX Theorem 2"),
        lambda u: (JetMax(interval=0.05), _links(u)),
        13,
    ),
    Theorem(
        "kelly-1",
        "THESIS II.D.2, of Johari and Tan 2001",
        "Kelly's control with equal RTTs on one link is stable iff kappa (p + y p') < 2 sin(pi/(2(2D - 1))).",
        EXACT,
        "discrete",
        "kappa",
        "one link, equal RTTs",
        _published("Johari and Tan 2001 (THESIS II.D.2)"),
        lambda u: (Kelly(steepness=_between(0.2, 5.0, u[0])), _equal(_between(0.01, 1.0, u[1]))),
        2,
    ),
    Theorem(
        "kelly-2",
        "THESIS II.D.2: conjecture of Johari and Tan 2001, proof in Tian and Yang 2004",
        "Kelly's control is stable if kappa sum(p_l + y_l p_l') < 2 sin(pi/(2(2 D_i - 1))) for every flow.",
        SUFFICIENT,
        "discrete",
        "kappa",
        "any network, any RTTs",
        _published("Johari and Tan 2001 (THESIS II.D.2)"),
        lambda u: (Kelly(interval=0.05), _links(u)),
        13,
    ),
    Theorem(
        "mean-1",
        "Bernard and Crauste 2015 (arXiv:1405.7333), for x' = -(alpha/d) mean x(t - D_i)",
        "An integral loop is stable for every distribution of delays if it is stable with all equal to their mean: "
        "continuous QI-RCP, and RCP without queue term, if 0 < alpha < pi/2.",
        SUFFICIENT,
        "continuous",
        "alpha",
        _ANY_RTTS,
        _on_one_link(pi / 2.0),
        lambda u: (QIRCP(), _heterogeneous(u, 0.002, 1.0)),
        4,
    ),
    Theorem(
        "mean-2",
        "derived: docs/rtt_distributions.md",
        "Discrete QI-RCP is stable if 0 < alpha/d < 2 sin(pi/(2(2d - 1))), with the mean delay d on both sides.",
        SUFFICIENT,
        "discrete",
        "alpha",
        _ANY_RTTS,
        _integral_at_mean,
        lambda u: (QIRCP(), _heterogeneous(u, 0.01, 0.3)),
        4,
    ),
    Theorem(
        "mean-3",
        "refuted: docs/rtt_distributions.md",
        "RCP, and XCP with gamma = 0, with an unconstrained "
        "queue is stable for every RTT distribution if it is stable with all RTTs equal to their mean.",
        SUFFICIENT,
        "continuous",
        "beta",
        "one link, any RTTs, unconstrained queue",
        _at_mean_rtt,
        _rcp_on_boundary,
        5,
        None,
        (0.35, 0.0, 1.0, 1.0, 1.0),
    ),
    Theorem(
        "mean-4",
        "derived: docs/rtt_distributions.md",
        "Discrete PIQI-RCP with tau1 + tau2 <= 1 is stable if "
        "0 < alpha < d/(2d - 1), with the mean delay d: so for every RTT distribution if alpha <= 1/2.",
        SUFFICIENT,
        "discrete",
        "alpha",
        "one link, any RTTs, tau1 + tau2 <= 1",
        _averaging_at_mean,
        lambda u: (
            PIQIRCP(tau1=(tau1 := _between(1e-3, 1.0, u[0])), tau2=(1.0 - tau1) * float(u[1])),
            _heterogeneous(u[2:], 0.01, 0.3),
        ),
        6,
        None,
        (0.0, 0.0, 0.3, 0.0, 0.0, 0.0),
    ),
    Theorem(
        "mean-5",
        "derived: docs/short_intervals.md",
        "Continuous PIQI-RCP with averaging sources is stable if "
        "0 < alpha < (pi/4) d/(d + k T), with the mean RTT d and k = (1 - tau2)/tau1 - 1/2.",
        SUFFICIENT,
        "continuous",
        "alpha",
        "one link, any RTTs, tau1 <= 1/e, tau2 (exp(z) - 1) <= tau1 for the smaller z with z exp(-z) = tau1",
        _lag_added,
        lambda u: (
            PIQIRCP(tau1=(tau1 := _between(1e-3, 0.36, u[0])), tau2=_max_tau2(tau1) * 0.999 * float(u[1])),
            _heterogeneous(u[2:], 0.001, 4.0),
        ),
        6,
    ),
    Theorem(
        "mean-6",
        "derived: docs/short_intervals.md",
        "Discrete PIQI-RCP with tau1 + tau2 <= 1 is stable if "
        "0 < alpha/d < sin(pi/(2(2(d + k) - 1))), with the mean delay d and k = (1 - tau2)/tau1 - 1/2.",
        SUFFICIENT,
        "discrete",
        "alpha",
        "one link, any RTTs, tau1 + tau2 <= 1",
        _lag_added_in_steps,
        lambda u: (
            PIQIRCP(tau1=(tau1 := _between(1e-3, 1.0, u[0])), tau2=(1.0 - tau1) * 0.999 * float(u[1])),
            _heterogeneous(u[2:], 0.01, 2.0),
        ),
        6,
    ),
]
THEOREMS: Mapping[str, Theorem] = {theorem.id: theorem for theorem in _ALL}
"""Theorems by id; those in the ledger have its ids."""
