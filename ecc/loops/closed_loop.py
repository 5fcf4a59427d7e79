"""`linearize`, which checks the options of a linear model and calls the module of its kind of loop.

Each module has its equations in its docstring: `explicit_feedback`, `ack_clocked_windows`, `paced_windows`,
`host_rates`, `round_maps`, and `marked_hosts` for hosts over queue disciplines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Vector, check_arguments, shown
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.kinds import Kind, kind_of_laws, sets_windows
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.ack_clocked_windows import linearize_windows
from ecc.loops.explicit_derivatives import Linearization, linearize_laws, steps_of
from ecc.loops.explicit_feedback import grants_windows, linearize_explicit
from ecc.loops.host_rates import linearize_rates
from ecc.loops.marked_hosts import linearize_marks
from ecc.loops.options import ModelChoice, read_phases
from ecc.loops.paced_windows import linearize_paced
from ecc.loops.round_maps import linearize_rounds
from ecc.network.network import Network

__all__ = [
    "Linearization",
    "has_clockings",
    "has_granted_windows",
    "linearize",
    "linearize_laws",
    "steps_of",
]

_TIMES = ("continuous", "discrete", "hybrid")
_MODELS: Mapping[Kind, Callable[[Protocol, Network, ModelChoice], DelaySystem | SampledSystem]] = {
    Kind.ACK_CLOCKED_WINDOWS: linearize_windows,
    Kind.WINDOWS_WITH_STATES: linearize_paced,
    Kind.PACED_WINDOWS: linearize_paced,
    Kind.HOST_RATES: linearize_rates,
    Kind.ROUND_MAP: linearize_rounds,
}
"""Kind of loop -> its linear model; all other kinds have that of explicit feedback."""
_WINDOWS = (Kind.ACK_CLOCKED_WINDOWS, Kind.WINDOWS_WITH_STATES, Kind.PACED_WINDOWS)
_UPDATED_PER_RTT = (*_WINDOWS, Kind.HOST_RATES)
"""Kinds of loops whose hosts respond once per RTT in the discrete model."""


def has_clockings(protocol: Protocol | ProtocolAssignment) -> bool:
    """Return whether hosts have windows, so that linear models with two clocks exist.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    """
    if not isinstance(protocol, Protocol):
        return len(protocol.protocols) > 1 or has_clockings(protocol.protocols[0])
    return sets_windows(protocol)


def has_granted_windows(protocol: Protocol | ProtocolAssignment) -> bool:
    """Return whether routers grant changes of windows that ACKs clock, for which only a paced linear model exists.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    """
    if not isinstance(protocol, Protocol):
        return len(protocol.protocols) == 1 and has_granted_windows(protocol.protocols[0])
    return grants_windows(protocol)


@check_arguments
def linearize(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    time: str = "continuous",
    assignment: Sequence[int] | NDArray[np.int64] | None = None,
    approximation: str | None = None,
    mean_rtt: Vector | str | None = None,
    phases: ArrayLike | None = None,
    intervals: ArrayLike | None = None,
    clocking: str | None = None,
    updates_per_rtt: int | None = None,
) -> DelaySystem | SampledSystem:
    """Return the exact linear model of a protocol around its equilibrium, without the check of `ecc.linearize`.

    Parameters
    ----------
    protocol, network, time
        Arguments of `ecc.linearize`.
    assignment, approximation, mean_rtt, phases, intervals, clocking, updates_per_rtt
        Fields of `ecc.loops.options.LinearOptions`.

    Returns
    -------
    DelaySystem or SampledSystem

    Raises
    ------
    ValueError, LinearizationError
        Cases that `ecc.linearize` lists.
    """
    if time not in _TIMES:
        raise ValueError(f"time must be one of {', '.join(map(repr, _TIMES))}, got {shown(time)}")
    protocol = read_protocol(protocol)
    if not isinstance(protocol, Protocol) and len(protocol.protocols) == 1:
        protocol = protocol.protocols[0]
    choice = ModelChoice(time, assignment, approximation, mean_rtt, phases, intervals, clocking, updates_per_rtt)
    if not isinstance(protocol, Protocol):
        return _linearize_halves(protocol, network, choice)
    _check_model(protocol, choice)
    kind = kind_of_laws(protocol)
    _check_clocking(protocol, kind, clocking)
    if kind in _WINDOWS and mean_rtt is not None:
        raise ValueError("mean_rtt must be None for windows: no router scales by it")
    _check_time_options(choice)
    if updates_per_rtt is not None and kind not in _UPDATED_PER_RTT:
        raise ValueError(f"updates_per_rtt applies to hosts that set windows or update rates, got {updates_per_rtt}")
    return _MODELS.get(kind, linearize_explicit)(protocol, network, choice)


def _linearize_halves(halves: ProtocolAssignment, network: Network, choice: ModelChoice) -> DelaySystem | SampledSystem:
    """Return the model of hosts over queue disciplines."""
    if all(protocol.has_hosts() for protocol in halves.protocols):
        raise TypeError(
            f"a linear model needs one protocol, or hosts over queue disciplines that mark or drop, got {halves}"
        )
    unsupported = (choice.approximation, choice.assignment, choice.mean_rtt, choice.intervals)
    if any(option is not None for option in unsupported):
        raise ValueError(
            "approximation, assignment, mean_rtt and intervals must be None for hosts over queue disciplines"
        )
    if choice.clocking not in (None, "ack", "rate"):
        raise ValueError(f"clocking must be 'ack' or 'rate', got {shown(choice.clocking)}")
    _check_time_options(choice)
    ticks = read_phases(choice.phases, network) if choice.time == "hybrid" else None
    updates = (choice.updates_per_rtt or 1) if choice.time == "discrete" else None
    return linearize_marks(halves.deploy(network), network, choice.clocking or "ack", phases=ticks, updates=updates)


_NO_TIMES = (
    "its class has times = (); a class with a model declares its times, for example times = ('continuous', 'discrete')"
)


def _check_model(protocol: Protocol, choice: ModelChoice) -> None:
    """Refuse a protocol without linear models, a time that it does not have, and an unknown approximation."""
    if protocol.linear_refusal is not None:
        raise ValueError(f"{protocol.linear_refusal}; see the result of ecc.stability.analyze for alternatives")
    if choice.time not in protocol.times:
        fix = f"time must be {' or '.join(map(repr, protocol.times))}" if protocol.times else _NO_TIMES
        raise ValueError(f"{type(protocol).__name__} has no {choice.time} model: {fix}")
    reduced = choice.approximation
    if reduced is not None and (choice.time != "continuous" or reduced not in protocol.reductions):
        names = ", ".join(map(repr, protocol.reductions)) or "none"
        raise ValueError(f"approximation must be None or one of {names} (continuous time), got {shown(reduced)}")


def _check_clocking(protocol: Protocol, kind: Kind, clocking: str | None) -> None:
    """Refuse a clocking that is unknown, or that the windows of a protocol do not have."""
    if clocking not in (None, "ack", "rate"):
        raise ValueError(f"clocking must be 'ack' or 'rate', got {shown(clocking)}")
    if clocking == "ack" and grants_windows(protocol):
        raise LinearizationError(
            f"{type(protocol).__name__} has no ACK-clocked linear model: departures repeat in patterns that grow or "
            "decay, depending on when routers act and when the queue is empty; use clocking='rate'"
        )
    if clocking == "rate" and not (kind in _WINDOWS or protocol.windowed):
        raise ValueError(f"clocking applies to window protocols only, got {shown(clocking)}")


def _check_time_options(choice: ModelChoice) -> None:
    """Refuse options of hybrid and discrete models for other times."""
    for name, value in (("phases", choice.phases), ("intervals", choice.intervals)):
        if value is not None and choice.time != "hybrid":
            raise ValueError(f"{name} belong to time='hybrid', got time={choice.time!r}")
    updates = choice.updates_per_rtt
    if updates is not None and choice.time != "discrete":
        raise ValueError(f"updates_per_rtt belongs to time='discrete', got time={choice.time!r}")
    if updates is not None and updates < 1:
        raise ValueError(f"updates_per_rtt must be >= 1, got {updates}")
