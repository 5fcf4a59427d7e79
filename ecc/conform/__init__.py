"""Conformance laboratory: does a controller implement its specification?

`run` runs the cases of specifications. `compare` finds the first deviations of a controller from a reference that sees
the same ACKs, and `replay` those of a trace in qlog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy

if TYPE_CHECKING:
    from ecc.conform.deviation import Deviation, Divergence, compare
    from ecc.conform.replay import replay
    from ecc.conform.runs import Conformance, cases, run

__all__ = ["Conformance", "Deviation", "Divergence", "cases", "compare", "replay", "run"]

__getattr__, __dir__ = lazy(
    __name__,
    {"Deviation": "deviation", "Divergence": "deviation", "compare": "deviation", "replay": "replay"}
    | dict.fromkeys(("Conformance", "cases", "run"), "runs"),
)
