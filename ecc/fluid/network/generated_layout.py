"""What a generated kernel is made for, and the columns and arrays in which it finds the quantities of members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ecc.fluid.network.vectors import LANES
from ecc.laws.arguments import takes

__all__ = ["MAX_CROSSINGS", "POINTERS", "Layout", "Structure"]

MAX_CROSSINGS = 12
"""Maximum number of pairs of a flow and a link; the time to compile grows with it."""

POINTERS = (
    "floats",  # (n_members, layout.n_floats): parameters and initial conditions
    "samples",  # ends of samples, in steps
    "scratch",  # quantities and histories of the members that run at once, lane by lane
    "out_links",  # (n_members, n_samples, 4, n_links), as in `recurrence.Fields`
    "out_groups",  # (n_members, n_samples, 4, n_groups)
    "finals",  # (n_members, 4, n_groups): total, delivered, lost, finished
    "rates",  # (n_members, n_samples, n_groups), if states are recorded
    "states",  # (n_members, n_samples, n_links), if states are recorded
    "integers",  # (n_members, layout.n_integers)
    "int_scratch",
    "outcome",  # (n_members, 2): status and number of steps
    "counter",  # (1,): first of the members that run
)

_KEPT_OF_LINKS = (
    *("y", "y_prev", "mean", "bottlenecked", "crossing", "other", "loss"),
    *("arrived", "dropped", "peak", "queue", "remaining", "state"),
)
_KEPT_OF_GROUPS = ("total", "delivered", "lost", "finished", "R", "R_prev", "past", "rtt_now", "x")


class Structure(NamedTuple):
    """All of a network and of its laws that is fixed in the source of a kernel.

    `router`, `source`, `announce`, `priority`: laws, or None. `parameters`: names in `params()`.
    """

    routes: tuple[tuple[int, ...], ...]
    responds: tuple[tuple[bool, ...], ...]
    n_links: int
    combine: str
    longest: bool
    router: Callable[..., Any] | None
    source: Callable[..., Any]
    announce: Callable[..., Any] | None
    priority: Callable[..., Any] | None
    parameters: tuple[str, ...]
    records: bool

    @property
    def n_groups(self) -> int:
        """Number of groups of flows."""
        return len(self.routes)

    @property
    def crossings(self) -> list[tuple[int, int]]:
        """Group and link of each crossing."""
        return [(g, link) for g, route in enumerate(self.routes) for link in route]

    @property
    def remembers(self) -> bool:
        """Whether routers have a state."""
        return takes(self.router, "R")

    @property
    def by_flow(self) -> bool:
        """Whether each flow has a separate signal at a link."""
        return takes(self.announce or self.router, "x")

    @property
    def looks_back(self) -> bool:
        """Whether the source law takes the rate of one RTT ago."""
        return takes(self.source, "x_rtt")

    @property
    def lanes(self) -> int:
        """Number of members that a kernel runs at once."""
        return LANES if self.priority is None and all(len(route) == 1 for route in self.routes) else 1

    @property
    def n_signals(self) -> int:
        """Number of signals."""
        return len(self.crossings) if self.by_flow else self.n_links


@dataclass(frozen=True)
class Layout:
    """Names of the columns that each member has, of numbers and of integers.

    `kept`, `kept_integers`: names of the quantities of a member that a kernel keeps between steps.
    """

    floats: tuple[str, ...]
    integers: tuple[str, ...]
    kept: tuple[str, ...]
    kept_integers: tuple[str, ...]

    @classmethod
    def of(cls, structure: Structure) -> Layout:
        """Return the columns of a structure.

        Parameters
        ----------
        structure : Structure
        """
        links, groups = range(structure.n_links), range(structure.n_groups)
        crossings, signals = range(len(structure.crossings)), range(structure.n_signals)
        floats = ["T", *(f"p_{name}" for name in structure.parameters)]
        for name in ("C", "buffer", "low", "high", "state", "queue", "remaining", "wait_at_start", "y"):
            floats += [f"{name}{link}" for link in links]
        floats += [f"urgency_at_start{link}" for link in links if structure.priority]
        floats += [f"advertised_at_start{s}" for s in signals]
        for name in ("rtt", "members", "floor", "floor_rate", "size", "x", "sent_at_start", "carried_at_start"):
            floats += [f"{name}{g}" for g in groups]
        integers = ["last", "n_samples", "mask", "memory", "waited"]
        for name in ("head", "advertises_from"):
            integers += [f"{name}{link}" for link in links]
        for name in ("opens", "stops", "responds_after", "bottleneck_at_start"):
            integers += [f"{name}{g}" for g in groups]
        for name in ("ahead", "back"):
            integers += [f"{name}{p}" for p in crossings]
        quantities = [f"{name}{link}" for name in _KEPT_OF_LINKS for link in links]
        quantities += [f"{name}{g}" for name in _KEPT_OF_GROUPS for g in groups]
        quantities += [f"reaching{p}" for p in crossings]
        if structure.lanes > 1:
            quantities += [f"p_{name}" for name in structure.parameters]
            quantities += [f"{name}{link}" for name in ("low", "high") for link in links]
            quantities += [f"{name}{g}" for name in ("floor", "floor_rate") for g in groups]
        kept_integers = ["n", "sample", "status", "waited", "uneven", "next_stop"]
        kept_integers += [f"{name}{link}" for name in ("head", "advertises_from") for link in links]
        kept_integers += [f"{name}{g}" for name in ("selected", "stops") for g in groups]
        return cls(tuple(floats), tuple(integers), tuple(quantities), tuple(kept_integers))

    def scratch(self, structure: Structure, size: int, memory: int) -> tuple[int, int]:
        """Return the lengths of the scratch arrays of numbers and of integers.

        Parameters
        ----------
        structure : Structure
        size : int
            Number of steps in a history, a power of two.
        memory : int
            Number of steps with arrivals that a queue keeps.
        """
        L, G = structure.n_links, structure.n_groups
        sample = 4 * (L + G) + (L + G) * structure.records
        histories = size * (structure.n_signals + 2 * L + 3 * G) + L * memory
        return structure.lanes * (len(self.kept) + sample + histories), structure.lanes * (
            len(self.kept_integers) + size * G
        )
