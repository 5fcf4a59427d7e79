"""Bottlenecks with a queue that is empty at the equilibrium: the loop that a model with signed queues does not have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from ecc._support.display import Displayed, quantity_text
from ecc.linear.empty_queue import empty_queue_bound, empty_queue_growth

__all__ = ["Switched", "SwitchedLoop"]

_HISTORIES = 8
_GROWS = 1e-3  # per mean RTT: a numerical growth rate below this does not decide


@dataclass(frozen=True, repr=False)
class SwitchedLoop(Displayed):
    """One bottleneck: r' = -alpha mean r(t - D_i) - beta q, q' = mean r(t - D_i), with q >= 0.

    Attributes
    ----------
    link : int
        Index of the link.
    alpha, beta : float
        Gains in units of the mean RTT.
    rtts : tuple of float, shape (n_flows,), s
        RTTs of its flows.
    """

    link: int
    alpha: float
    beta: float
    rtts: tuple[float, ...]

    @cached_property
    def bound(self) -> float:
        """The beta below which the loop is proven stable; 0 if it is unstable without its queue, or not proven."""
        return empty_queue_bound(self.alpha, self.rtts)

    @cached_property
    def growth(self) -> float:
        """The fastest growth of motions from random histories, per mean RTT; nan if RTTs differ."""
        if len(set(self.rtts)) > 1:
            return float("nan")
        return float(empty_queue_growth(np.full(_HISTORIES, self.alpha), np.full(_HISTORIES, self.beta)).max())

    @property
    def proven(self) -> bool:
        """True if the theorem of the empty queue proves the loop stable."""
        return 0.0 < self.beta < self.bound

    @property
    def is_stable(self) -> bool | None:
        """True if small deviations die out: proven, or by the growth of motions; None if neither decides."""
        if self.proven:
            return True
        return None if not abs(self.growth) > _GROWS else self.growth < 0.0

    def __str__(self) -> str:
        mean = quantity_text(sum(self.rtts) / len(self.rtts), "s")
        gains = f"link {self.link}: alpha {self.alpha:.4g}, beta {self.beta:.4g} (per {mean}, its flows' mean RTT)"
        if self.proven:
            limit = "for every beta > 0" if self.bound == inf else f"below beta = {self.bound:.4g}"
            return f"{gains}: stable, proven {limit}"
        if self.is_stable is None:
            return f"{gains}: undecided (proven stable below beta = {self.bound:.4g})"
        verdict = "stable" if self.is_stable else "unstable"
        return f"{gains}: {verdict}, numerically: motions grow by {self.growth:.3g} per RTT"


@dataclass(frozen=True, repr=False)
class Switched(Displayed):
    """The bottlenecks of a network that switch at an empty queue, each as one loop, in continuous time.

    For routers that act continuously (control interval -> 0) and small deviations from the equilibrium.

    Attributes
    ----------
    loops : tuple of SwitchedLoop
        The loops.
    caveat : str
        Why this limit is not a verdict on the protocol, stable or not; empty if it may be used as one.
    """

    loops: tuple[SwitchedLoop, ...]
    caveat: str = ""

    @property
    def is_stable(self) -> bool | None:
        """True if every bottleneck is stable, False if one is unstable, else None."""
        verdicts = [loop.is_stable for loop in self.loops]
        return False if False in verdicts else None if None in verdicts else True

    def __str__(self) -> str:
        return "; ".join([*map(str, self.loops), *([self.caveat] if self.caveat else [])])
