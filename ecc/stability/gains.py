"""Critical gains: the first value of a growing parameter at which a protocol loses stability."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import fields, replace
from math import inf, log
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.reports import ProgressCallback
from ecc.contract.assignment import (
    ProtocolAssignment,
    parameter_names,
    parameter_value,
    read_protocol,
    with_parameter,
)
from ecc.contract.protocol import Protocol
from ecc.linear import DelaySystem, SampledSystem, StabilityLimit, stability_limit
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_equilibrium import equilibria_of_a_family
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network

__all__ = ["critical_gain", "parameter_of"]

_FAR = 1e3  # a parameter beyond it, or below its reciprocal, sets the scale of the search: bit/s, bytes
_RANGES = 100  # number of ranges of an interval, between jumps of delays in steps, that are searched separately


def parameter_of(protocol: Protocol | ProtocolAssignment, parameter: str | None) -> str:
    """Return the parameter that is varied: the named one, or the main parameter that the protocol declares.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    parameter : str or None
        None or "": the protocol's `main_parameter`.

    Raises
    ------
    ValueError
        The protocol does not have the parameter, it is an array, or none is named and none declared.
    """
    names, name = parameter_names(protocol), parameter or protocol.main_parameter
    if not name:
        kind = type(protocol).__name__ if isinstance(protocol, Protocol) else str(protocol)
        raise ValueError(f"parameter must be one of {', '.join(names)}: {kind} declares no main_parameter")
    size = _size_of_array(protocol, name)
    if size is not None:
        numbers = ", ".join(key for key in names if _size_of_array(protocol, key) is None)
        raise ValueError(f"parameter must be a number ({numbers}), got {name}, an array of {size} numbers")
    if name not in names:
        raise ValueError(f"parameter must be one of {', '.join(names)}, got {shown(name)}")
    return name


def _size_of_array(protocol: Protocol | ProtocolAssignment, name: str) -> int | None:
    """Return the number of values of a parameter that is an array; None for all others, and for unknown names."""
    half, _, field_name = name.rpartition(".")
    if isinstance(protocol, Protocol):
        runs = [] if half else [protocol]
    else:
        runs = [run for part, run in protocol.halves if part == half]
    values = [getattr(run, f.name) for run in runs for f in fields(run) if f.name == field_name]
    return next((len(value) for value in values if isinstance(value, list | tuple | np.ndarray)), None)


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
) -> StabilityLimit:
    """Return the stability limit of a parameter that grows from 0, all others fixed.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
    network : Network
    parameter : str, optional
        Name of a numeric parameter, of hosts and queue disciplines "flows.NAME" or "links.NAME"; "alpha" of
        PIQI-RCP sets alpha1 and alpha2 unless these have values. None: the protocol's `main_parameter`.
    time : str, optional
        "continuous", "discrete" or "hybrid", as for linearize.
    certify : bool, optional
        Also prove stability just below the value and instability just above it, in ball arithmetic.
        `StabilityLimit.certified` says for which values below the limit stability is shown: from 0 on if the models are
        affine in the parameter, else from the first value tried, which a note names.
    maximum : float, optional
        Largest gain to be searched.
    options : LinearOptions, optional
        Options of the linear models.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the value that is analyzed, as `text`.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    StabilityLimit
        Value (0: unstable already as the gain -> 0; inf: not lost up to searched_to, frequency nan), frequency [rad/s,
        or rad/step of a sampled system], certified (lo, hi) or None, crossings, notes (of the model at the value, or at
        the first gain tried if the value is 0 or inf).

    Raises
    ------
    ValueError
        The protocol does not have the parameter, or has no linear models; the message has the reason.
    LinearizationError
        The protocol has no linear model on the network.

    Notes
    -----
    `ecc.stability.critical_gain` without `clocking` checks more than the linear model, when notes are first read or
    printed: the limit of the paced model, if that differs by more than 1 %, and whether the bifurcation is
    subcritical, with the perturbations that die out in fluid runs. This takes a second search and, for windows, up to a
    minute of fluid runs.

    Guarantee: as for `ecc.linear.stability_limit`, no crossing with a value up to `complete_to` is missing, however
    narrow a window is, if the models keep their form between the values tried. Models that are affine in the parameter
    (gains of the integral and explicit-rate routers), or in which only the delays depend on it, are solved exactly;
    others (intervals, filters, exponential laws) are counted and covered. The form is inferred from the models and
    checked on about a hundred of them.

    A parameter is searched from the first value with a linear model (begins) up to the last one that the protocol
    allows (searched_to), at values from 1e-6 to 1e6 (times its present value, if that is beyond 1000 or below 0.001).
    Over the `interval` of discrete models, delays jump by a step at each RTT of a whole number of intervals. Between
    any two jumps stability may be lost without a root that crosses, and is not certified; complete_to ends at the first
    jump that covers meet, and a note has the interval down to which all ranges were checked. Cost: these linear models,
    0.6 ms each, and counts; if the models are not affine, up to two thousand of both, which takes seconds.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> round(critical_gain(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), "alpha", time="discrete").value, 6)
    1.651587
    """
    protocol = read_protocol(protocol)
    chosen = read_options(options, keywords).given()
    if isinstance(protocol, Protocol) and protocol.linear_refusal is not None:
        linearize(protocol, network, time, **chosen)  # refuses the protocol with its reason, whatever the parameter
    parameter = parameter_of(protocol, parameter)
    notes: dict[float, tuple[str, ...]] = {}
    equilibria: dict[float, dict[Any, NDArray[np.float64]]] = {}
    taken: list[float] = []  # gains of these equilibria, increasing

    def family(gain: float) -> DelaySystem | SampledSystem:
        member, place = with_parameter(protocol, parameter, gain), bisect(taken, gain)
        nearest = min(taken[max(place - 1, 0) : place + 1], key=lambda other: abs(log(other / gain)), default=gain)
        start = dict(equilibria.get(nearest, {}))
        with equilibria_of_a_family(start):
            system = linearize(member, network, time, **chosen)
        if gain not in equilibria:
            taken.insert(place, gain)
        equilibria[gain], notes[gain] = start, system.notes
        return system

    jumps, interior = inf, list[float]()
    if parameter == "interval" and time == "discrete":
        jumps, interior = _between_jumps(network)
    near = parameter_value(protocol, parameter)
    if not isinstance(near, float | int) or not 0.0 < near < inf or 1.0 / _FAR <= near <= _FAR:
        near = 1.0
    loss = stability_limit(
        family, maximum=maximum, certify=certify, also=interior, near=near, name=parameter, progress=progress
    )
    first = next(iter(notes))
    model = family(loss.value).notes if 0.0 < loss.value < inf else notes[first]
    jump_note = f"delays in steps jump with the interval: every range between jumps from {jumps:.4g} s on was searched"
    return replace(loss, notes=(*model, *loss.notes, *([jump_note] if jumps < loss.searched_to else [])))


def _between_jumps(network: Network) -> tuple[float, list[float]]:
    """Return the smallest interval considered, and one interval between each two jumps of the delays above it."""
    rtts = np.unique(network.rtts)
    smallest = rtts.sum() / _RANGES
    jumps = np.unique(np.concatenate([[smallest], *(rtt / np.arange(1.0, 1.0 + rtt // smallest) for rtt in rtts)]))
    ends = np.append(jumps[1:], 2.0 * jumps[-1])
    return float(smallest), np.sqrt(jumps * ends).tolist()
