"""What a protocol is to `ecc`, and how to write one.

A protocol is a frozen dataclass of parameters, derived from `Protocol`, in a file of its own:

1. `router_law` and `source_law`: plain scalar functions. The names of their arguments say what they need; every
   engine supplies them by name, in bits, bit/s and seconds:

   ========  ==========================================================  ======  ==========
   name      meaning                                                     law     unit
   ========  ==========================================================  ======  ==========
   R         the fair rate announced before (router), heard now (source)  both   bit/s
   R_prev    the fair rate heard one update before                        source bit/s
   x         the flow's own rate before this update                       source bit/s
   y         arrival rate, averaged over the interval that just ended     router bit/s
   y_prev    the same, one interval before                                router bit/s
   q         queue                                                        router bit
   C         capacity                                                     router bit/s
   d         RTT by which the router scales its step (mean or maximum)    router s
   T         control interval                                             router s
   p         the parameters, by attribute                                 both   --
   ========  ==========================================================  ======  ==========

   `router_law` returns the next fair rate, `source_law` the next rate. A law uses + - * /, comparisons, min, max, abs
   and `ecc.models.elementary`; no power with a constant exponent, no arrays.
2. `Header`, `LinkState`, `FlowState`: dataclasses of float and int fields, and the hooks that keep a real router's and
   host's books in them and call the laws (`ecc.models.books` has what rate-feedback protocols share).
3. `equilibrium` and `published_bounds`.

Then: its class in `ecc.models.__init__`, its tests, its row in README. Nothing else has to know it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc.network import Network
from ecc.quantity import as_number

__all__ = ["Bound", "Equilibrium", "Protocol", "check_number"]

Hook = Callable[[Any, Any, Any, Any], None]


@dataclass(frozen=True)
class Equilibrium:
    """A stationary point: `rates` (n_flows,), `fair_rate` (n_links,) [bit/s], `bottleneck` (n_flows,).

    `fair_rate` is infinite at links that no flow follows.
    """

    rates: NDArray[np.float64]
    fair_rate: NDArray[np.float64]
    bottleneck: NDArray[np.int64]


@dataclass(frozen=True)
class Bound:
    """A published stability bound: stable for 0 < `parameter` < `value` under `hypotheses`.

    `kind` is "necessary and sufficient" or "sufficient"; `time` the model it was proven for.
    """

    theorem: str
    parameter: str
    value: float
    kind: str
    time: str
    hypotheses: str


@dataclass(frozen=True)
class Protocol(ABC):
    """Base of all protocols; see the module's text for how to write one."""

    combine: ClassVar[str] = "min"
    """How the feedback of the links of a path is combined: "min", "max" or "sum"."""
    Header: ClassVar[type]
    LinkState: ClassVar[type]
    FlowState: ClassVar[type]
    router_law: ClassVar[Callable[..., float]]
    source_law: ClassVar[Callable[..., float]]
    asks: ClassVar[frozenset[str]] = frozenset()
    """What hooks want in `env` beside the rest: "random" (uniform, each call), "flow_queue" (a flow's bytes queued)."""
    opening_size: ClassVar[int] = 0
    """Size of the packets that a flow sends until its first ACK [bytes]; 0: that of all others."""
    reductions: ClassVar[Mapping[str, str]] = {}
    """Published approximations of the continuous model: equation -> "taylor" (e^-sT = 1 - sT) or "static" (sT = 0)."""

    @property
    def scaling_rtt(self) -> str:
        """Which RTT the router law gets as `d`: "mean" or "max"."""
        return "mean"

    @abstractmethod
    def params(self) -> dict[str, float]:
        """Return the parameters as the laws and hooks see them (`p`): name -> float."""

    def namespace(self) -> SimpleNamespace:
        """Return `params()` with attribute access, for calling a law by hand."""
        return SimpleNamespace(**self.params())

    @abstractmethod
    def link_hooks(self) -> dict[str, Hook]:
        """Return the hooks of a link, by name."""

    @abstractmethod
    def flow_hooks(self) -> dict[str, Hook]:
        """Return the hooks of a flow, by name."""

    @abstractmethod
    def rate_range(self, capacity: float) -> tuple[float, float]:
        """Return the least and the largest fair rate a router of this capacity announces [bit/s]."""

    @abstractmethod
    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the stationary point of the laws on a network, for a fixed bottleneck assignment if given."""

    @abstractmethod
    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        """Return the `LinkState` of a router that has long announced R [bit/s], with arrivals y and these RTTs [s]."""

    @abstractmethod
    def flow_at(self, x: float, R: float, link: int) -> Any:
        """Return the `FlowState` of a flow that has sent at x [bit/s] for long, hearing R from `link`."""

    def published_bounds(self, network: Network) -> list[Bound]:
        """Return the stability bounds that the papers prove, evaluated on a network; none by default."""
        return []

    @property
    def linear_refusal(self) -> str | None:
        """Why this variant has no linear model, in one line; None if it has one."""
        return None


def check_number(protocol: Any, **allowed: float | None) -> None:
    """Check parameters on construction: a lower limit means >= it, None means > 0; floats are stored back.

    Parameters
        protocol : frozen dataclass instance. allowed : parameter name -> minimum, or None for > 0.
    Raises
        ValueError, TypeError: one line naming the parameter, the value and what is allowed.
    """
    for name, minimum in allowed.items():
        value = getattr(protocol, name)
        number = as_number(value, name, positive=minimum is None, minimum=minimum)
        object.__setattr__(protocol, name, number)


def check_choice(protocol: Any, name: str, choices: tuple[object, ...]) -> None:
    """Check that a parameter is one of the named variants.

    Parameters
        protocol : dataclass instance. name : parameter. choices : allowed values.
    """
    value = getattr(protocol, name)
    if value not in choices:
        shown = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {shown}, got {value!r}")


def settings(protocol: Protocol) -> dict[str, Any]:
    """Return the constructor arguments that differ from their defaults (for TOML and labels).

    Parameters
        protocol : Protocol.
    """
    return {f.name: getattr(protocol, f.name) for f in fields(protocol) if getattr(protocol, f.name) != f.default}
