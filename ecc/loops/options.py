"""Options of the linear models, which `ecc.linearize` and the functions of `ecc.stability` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Vector, check_arguments, given, shown
from ecc.network.network import Network

__all__ = ["LinearKeywords", "LinearOptions", "ModelChoice", "read_options", "read_phases"]


@check_arguments(constructor=True)
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LinearOptions:
    """Options that select one of the linear models of a protocol on a network.

    `ecc.linearize` and the functions of `ecc.stability` that analyze linear models take them as `options=`. Each field
    can also be passed to them as a separate keyword: `linearize(protocol, network, mean_rtt="packets")` is
    `linearize(protocol, network, options=LinearOptions(mean_rtt="packets"))`.

    Parameters
    ----------
    assignment : sequence of int or ndarray of int, shape (n_flows,), optional
        Index of the link at which each flow is bottlenecked. None: the bottleneck at the equilibrium.
    approximation : str, optional
        Continuous models only: a published reduction of the protocol, for example "4.64" or "4.75" of PIQI-RCP. None:
        the exact model.
    mean_rtt : Vector, shape (n_links,), s, or str, optional
        Mean RTT d that each router uses: numbers > 0; "flows", the mean over the flows of the link; or "packets", the
        mean over its packets, which routers of most protocols measure. None: "flows". The words change nothing for
        protocols that use the maximum RTT.
    phases : array_like, shape (n_links,), optional
        Hybrid models only, in [0, 1): when each router acts, as a share of its control interval. None: all 0.
    intervals : array_like, shape (n_links,), s, optional
        Hybrid models only, > 0: control interval of each router. Their ratios must be rational; a step of the model is
        their least common multiple. None: the interval of the protocol.
    clocking : str, optional
        Window protocols only. "ack": ACKs clock the packets out. "rate": windows are paced, and queues integrate their
        rates. None: "ack", and the notes of the result report a paced model with another verdict, with the
        perturbations that die out in fluid runs. This check needs a second model, and takes seconds if the verdicts
        differ; it is made when the notes are first read or printed. XCP, whose routers grant changes of windows, has
        the paced model only; its notes report which perturbations die out in the ACK-clocked fluid.
    updates_per_rtt : int, optional
        Discrete models of hosts that respond once per RTT only, >= 1: number m of times per RTT at which each host
        acts, each time by 1/m of the distance to the value of its law. The model tends to the continuous one as m
        grows. None: 1, as in textbook maps.

    Raises
    ------
    TypeError, ValueError
        If a value has a wrong type or a number is not finite. The function that takes the options checks if a value
        suits the protocol and the network.

    Examples
    --------
    >>> options = LinearOptions(mean_rtt="packets")
    >>> options
    LinearOptions(mean_rtt='packets')
    >>> ecc.linearize(ecc.models.QIRCP(alpha=1.5), ecc.Network.dumbbell("1 Gb/s", [0.1]), options=options).is_stable
    True
    """

    assignment: Sequence[int] | NDArray[np.int64] | None = None
    approximation: str | None = None
    mean_rtt: Vector | str | None = None
    phases: ArrayLike | None = None
    intervals: ArrayLike | None = None
    clocking: str | None = None
    updates_per_rtt: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that are not None, by name."""
        return given(**{field.name: getattr(self, field.name) for field in fields(self)})

    def __repr__(self) -> str:
        return f"LinearOptions({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, LinearOptions) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[str, str], ...]:
        """Return names and values; an array equals a sequence of the same numbers."""
        return tuple((name, repr(np.asarray(value).tolist())) for name, value in self.given().items())


class LinearKeywords(TypedDict, total=False):
    """Fields of `LinearOptions` as keywords of a function."""

    assignment: Sequence[int] | NDArray[np.int64] | None
    approximation: str | None
    mean_rtt: Vector | str | None
    phases: ArrayLike | None
    intervals: ArrayLike | None
    clocking: str | None
    updates_per_rtt: int | None


NAMES = tuple(field.name for field in fields(LinearOptions))


def read_options(
    options: LinearOptions | Sequence[int] | NDArray[np.int64] | None,
    keywords: Mapping[str, Any],
    supported: Sequence[str] = NAMES,
    function: str = "",
) -> LinearOptions:
    """Return the options that a function was called with, as an object or as keywords.

    Parameters
    ----------
    options : LinearOptions, sequence of int or ndarray of int, or None
        A sequence is an assignment.
    keywords : mapping
        Keywords of the call.
    supported : sequence of str, optional
        Fields that the function supports.
    function : str, optional
        Name of the function, for the message; needed if it does not support all fields.

    Raises
    ------
    TypeError
        If a keyword is unknown, or both `options` and keywords are passed.
    ValueError
        If the function does not support a field.
    """
    for name in keywords:
        if name not in NAMES:
            raise TypeError(f"options must be among {', '.join(NAMES)}, got {shown(name)}")
    if options is not None and keywords:
        first = next(iter(keywords))
        raise TypeError(f"options and {first} cannot be combined: make {first} a field of options")
    if options is not None and not isinstance(options, LinearOptions):
        options = LinearOptions(assignment=options)
    chosen = LinearOptions(**keywords) if options is None else options
    for name in chosen.given():
        if name not in supported:
            raise ValueError(f"options of {function} must be among {', '.join(supported)}, got {name}")
    return chosen


class ModelChoice(NamedTuple):
    """The time and the options of one linear model, which the functions of all kinds of loops take.

    Attributes
    ----------
    time : str
        "continuous", "discrete" or "hybrid".
    assignment : object
        Assignment that `Protocol.equilibrium` takes.
    approximation, mean_rtt, phases, intervals, clocking, updates_per_rtt
        Fields of `LinearOptions`.
    """

    time: str
    assignment: Any = None
    approximation: str | None = None
    mean_rtt: Vector | str | None = None
    phases: ArrayLike | None = None
    intervals: ArrayLike | None = None
    clocking: str | None = None
    updates_per_rtt: int | None = None


def read_phases(phases: ArrayLike | None, network: Network) -> NDArray[np.float64]:
    """Return when each router acts, as a share of its control interval.

    Parameters
    ----------
    phases : array_like, shape (n_links,), or None
        Numbers in [0, 1), for example [0.0, 0.5]. None: all 0.
    network : Network

    Raises
    ------
    ValueError
        If the shape or a number differs.
    """
    offsets = np.zeros(network.n_links) if phases is None else np.asarray(phases, dtype=float)
    if offsets.shape != (network.n_links,) or not np.all((offsets >= 0.0) & (offsets < 1.0)):
        raise ValueError(f"phases must be {network.n_links} numbers in [0, 1), got {shown(phases)}")
    return offsets
