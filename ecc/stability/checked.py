"""`ecc.linearize` and `ecc.stability.critical_gain` with a check beyond the linear model.

Windows have two linear models: one clocked by ACKs, for hosts that do not pace, and one paced, with queues that
integrate the rates. If the two models disagree, or if stability is lost by a subcritical bifurcation, the verdict of
one model for infinitely small perturbations is too optimistic. The notes of these functions report it, with the
perturbations that die out in fluid runs.

The check takes a second model or fluid runs, up to a minute. It is made if `clocking` is not given, and only when notes
are first read or the result is printed. The numbers of the result take no additional time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from math import inf, log
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import frequency_text
from ecc._support.reports import ProgressCallback
from ecc.contract.assignment import ProtocolAssignment, parameter_value, read_protocol, with_parameter
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError, EccError
from ecc.linear import DelaySystem, SampledSystem, StabilityLimit
from ecc.loops import closed_loop
from ecc.loops.closed_loop import has_clockings, has_granted_windows
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network
from ecc.stability import gains
from ecc.stability.bifurcations import Bifurcation, bifurcation_at
from ecc.stability.safe_perturbations import SafePerturbation, safe_perturbation

__all__ = ["CriticalGain", "OtherClocking", "critical_gain", "linearize", "other_clocking", "perturbation_text"]

CLOCKED = {"ack": "ACK-clocked", "rate": "paced"}
_SHARE = 0.01  # relative difference of the limits of two clockings above which it is reported
_BELOW = 0.9  # share of the limit at which perturbations are tried if the present gain is not below the limit
_MAX_RTTS = 40  # different RTTs up to which perturbed runs are tried: 20 take 1 s, 60 take 9 s


@dataclass(frozen=True)
class OtherClocking:
    """The verdict of the linear model with the other clocking.

    Attributes
    ----------
    clocking : str
        "ack" or "rate".
    verdict : str
        "stable", "unstable" or "undecided"; "none" if there is no such model.
    system : DelaySystem, SampledSystem or None
        The model.
    """

    clocking: str
    verdict: str
    system: DelaySystem | SampledSystem | None = field(repr=False)

    def growth_text(self) -> str:
        """Return the growth rate of the rightmost root in words; empty if the search for it does not converge."""
        assert self.system is not None
        sampled = isinstance(self.system, SampledSystem)
        try:
            root = complex(self.system.roots(1)[0])
        except ConvergenceError:  # the verdict does not depend on the positions of the roots
            return ""
        return f"rightmost root {log(abs(root)) if sampled else root.real:.3g} {'1/step' if sampled else '1/s'}"


def other_clocking(
    protocol: Protocol | ProtocolAssignment, network: Network, time: str, clocking: str, options: Mapping[str, Any]
) -> OtherClocking | None:
    """Return the verdict of the other clocking's linear model; None if the protocol has only one clocking.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    network : Network
    time : str
        "continuous", "discrete" or "hybrid".
    clocking : str
        Clocking to compare with, "ack" or "rate".
    options : mapping
        Other arguments of `linearize`.
    """
    if has_granted_windows(protocol):
        return OtherClocking("ack", "none", None)
    if not has_clockings(protocol):
        return None
    other = "rate" if clocking == "ack" else "ack"
    try:
        system = closed_loop.linearize(protocol, network, time, **options, clocking=other)
    except (ValueError, EccError):
        return OtherClocking(other, "none", None)
    return OtherClocking(other, system.verdict, system)


def perturbation_text(
    protocol: Protocol | ProtocolAssignment, network: Network, clocking: str, options: Mapping[str, Any]
) -> str:
    """Return, in words, which perturbations die out in the fluid model.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    network : Network
    clocking : str
        "ack" or "rate".
    options : mapping
        Other arguments of `linearize`; fluid runs use the assignment.
    """
    n_rtts = len(np.unique(network.rtts))
    if n_rtts > _MAX_RTTS:
        return f"no perturbation was tried, as runs are made for at most {_MAX_RTTS} different RTTs, not {n_rtts}"
    assigned = {name: value for name, value in options.items() if name == "assignment"}
    try:
        return safe_perturbation(protocol, network, clocking=clocking, **assigned).text()
    except (ValueError, EccError) as error:
        return f"perturbations of the fluid were not tried: {error}"


def _disagreement(
    system: DelaySystem | SampledSystem,
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    time: str,
    options: Mapping[str, Any],
) -> tuple[str, ...]:
    """Return a note if the paced model's verdict differs from that of the ACK-clocked system."""
    other = other_clocking(protocol, network, time, "ack", options)
    if other is None or other.verdict in ("none", "undecided") or other.verdict == system.verdict:
        return ()
    root = other.growth_text()
    paced_verdict = f"{other.verdict} ({root})" if root else other.verdict
    both = f"the paced model (clocking='rate') is {paced_verdict}, this ACK-clocked model is {system.verdict}"
    stable = "ack" if system.verdict == "stable" else "rate"
    return (f"{both}; in the {CLOCKED[stable]} fluid, {perturbation_text(protocol, network, stable, options)}",)


@check_arguments
def linearize(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    time: str = "continuous",
    options: LinearOptions | Sequence[int] | NDArray[np.int64] | None = None,
    **keywords: Unpack[LinearKeywords],
) -> DelaySystem | SampledSystem:
    """Return the exact linear model of a protocol around its equilibrium on a network.

    Continuous QI-RCP is THESIS (4.20), continuous PIQI-RCP (4.60) with its router, and the discrete models are (4.42)
    and (4.85), unreduced. RCP with its queue term, and XCP, have the queue as an unconstrained integrator: the verdict
    holds for that model, not for the protocol, since its queue cannot be negative. JetMax, EMKC and similar protocols
    are recurrences over RTTs, which are available in discrete time only.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
        One protocol for all, or hosts and queue disciplines, {"flows": ..., "links": ...}, as for `Scenario`.
    network : Network
    time : str, optional
        "continuous" (DelaySystem, s), "discrete" (SampledSystem; one step per interval, delays rounded up) or "hybrid"
        (SampledSystem; sampled routers on a continuous path, as in packet runs). For hosts over queue disciplines:
        "continuous", or "hybrid" if disciplines step at ticks (`ecc.linear.sample_and_hold`). For
        window protocols, "discrete" is one response of each host per RTT, or `updates_per_rtt`
        (`ecc.loops.rounds_of_windows`), and "hybrid" is available if routers measure over an interval.
    options : LinearOptions, sequence of int or ndarray of int, optional
        Bottleneck assignment, approximation, mean RTT, phases, intervals and clocking of the model; or only the
        assignment, the index of a link for each flow.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    DelaySystem or SampledSystem
        Linear model. Its states are the fair rates of the modeled links (if their routers have memory), then aggregates
        y, then queues; or the states and announced values of routers, then the rates of heterogeneous flows, then (in
        continuous time) queues and differences between equal flows; or windows.

    Raises
    ------
    ValueError
        The time or approximation is unknown, or the protocol does not have this model or variant.
    LinearizationError
        The network has no equilibrium (because of a rate cap, or a link that is not saturated or overloaded), or a law
        switches there.

    Notes
    -----
    Differences between flows that decay are not in the model: roots, decay rates and counts right of another line are
    those of the other modes. If a law reads a queue that is empty at the equilibrium, the model lets it be negative.
    The `notes` of the result report it, and `switched` has the loop that switches there.

    Examples
    --------
    >>> linearize(QIRCP(alpha=1.5), Network.dumbbell("1 Gb/s", [0.1])).is_stable
    True
    """
    arguments = read_options(options, keywords).given()
    system = closed_loop.linearize(protocol, network, time, **arguments)
    clocking = arguments.pop("clocking", None)
    halves = read_protocol(protocol)
    if clocking is None and has_granted_windows(halves) and np.ptp(network.rtts) > 0.0:
        return system.with_late_notes(
            lambda: (f"in the ACK-clocked fluid, {perturbation_text(halves, network, 'ack', arguments)}",)
        )
    if clocking is not None or not has_clockings(halves):
        return system
    return system.with_late_notes(partial(_disagreement, system, halves, network, time, arguments))


@dataclass(frozen=True)
class _Question:
    """The arguments for which a limit was computed."""

    protocol: Protocol | ProtocolAssignment
    network: Network
    parameter: str
    time: str
    maximum: float
    options: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class CriticalGain(StabilityLimit):
    """The stability limit of a protocol's parameter, with checks beyond the linear model.

    Attributes
    ----------
    notes : tuple of str
        Notes of the limit, then those of the check: the paced model's limit if it differs by more than 1 %, and a
        subcritical bifurcation with the perturbations that die out in the fluid model.
    """

    question: _Question | None = field(default=None, repr=False, compare=False)

    @property  # type: ignore[misc]
    def notes(self) -> tuple[str, ...]:
        return (*self.__dict__["_own_notes"], *self._late_notes)

    @notes.setter
    def notes(self, value: tuple[str, ...]) -> None:
        self.__dict__["_own_notes"] = value

    @cached_property
    def other(self) -> StabilityLimit | None:
        """The limit of the paced model; None if the protocol has only one clocking, or no such model."""
        asked = self.question
        if asked is None or "clocking" in asked.options or not has_clockings(asked.protocol):
            return None
        options = {**asked.options, "clocking": "rate"}
        try:
            return gains.critical_gain(
                asked.protocol, asked.network, asked.parameter, asked.time, maximum=asked.maximum, **options
            )
        except (ValueError, EccError):
            return None

    @cached_property
    def bifurcation(self) -> Bifurcation | None:
        """The kind of bifurcation at the limit; None without a limit, or if no method applies."""
        asked = self.question
        if asked is None:
            return None
        return bifurcation_at(asked.protocol, asked.network, asked.parameter, self, asked.time, asked.options)

    @cached_property
    def safe_perturbation(self) -> tuple[float, SafePerturbation] | None:
        """A gain below the limit, if possible the present one, and the fluid's perturbations that die out there."""
        asked = self.question
        if asked is None or not 0.0 < self.value < inf:
            return None
        present = parameter_value(asked.protocol, asked.parameter)
        gain = present if present is not None and 0.0 < present < self.value else _BELOW * self.value
        named = {name: value for name, value in asked.options.items() if name in ("assignment", "clocking")}
        try:
            changed = with_parameter(asked.protocol, asked.parameter, gain)
            return gain, safe_perturbation(changed, asked.network, **named)
        except (ValueError, EccError):
            return None

    @cached_property
    def _late_notes(self) -> tuple[str, ...]:
        asked, notes = self.question, list[str]()
        if asked is None or "clocking" in asked.options:
            return ()
        other = self.other
        if other is not None and abs(_capped(other, asked) - _capped(self, asked)) > _SHARE * _capped(self, asked):
            value = "not lost" if other.value == inf else f"lost at {asked.parameter} = {other.value:.6g}"
            if 0.0 < other.value < inf:
                value += f", with {frequency_text(other.frequency, other.sampled, other.dt)}"
            notes.append(f"in the paced model (clocking='rate') stability is {value}")
        if self.bifurcation is not None and self.bifurcation.kind == "subcritical":
            notes.append(
                f"the bifurcation at the limit is subcritical ({self.bifurcation.source}): perturbations may grow into "
                "a lasting oscillation below the limit, too"
            )
        if notes and self.safe_perturbation is not None:
            gain, safe = self.safe_perturbation
            notes.append(f"at {asked.parameter} = {gain:.6g}, {safe.text()}")
        return tuple(notes)


def _capped(loss: StabilityLimit, asked: _Question) -> float:
    return min(loss.value, asked.maximum, 1e300)


@check_arguments
def critical_gain(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    parameter: str | None = None,
    time: str = "continuous",
    certify: bool = False,
    maximum: float = inf,
    *,
    options: LinearOptions | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Unpack[LinearKeywords],
) -> CriticalGain:
    chosen = read_options(options, keywords)
    loss = gains.critical_gain(protocol, network, parameter, time, certify, maximum, options=chosen, progress=progress)
    halves = read_protocol(protocol)
    name = gains.parameter_of(halves, parameter)
    asked = _Question(halves, network, name, time, maximum, chosen.given())
    return CriticalGain(**{item.name: getattr(loss, item.name) for item in fields(StabilityLimit)}, question=asked)


critical_gain.__doc__ = gains.critical_gain.__doc__
