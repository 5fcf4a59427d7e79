"""Live runs: the hosts and routers of a scenario as nodes joined by real links, on real frames and a real clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy

if TYPE_CHECKING:
    from ecc.live.machines import node
    from ecc.live.simulation import simulate
    from ecc.live.tcp import TCP

__all__ = ["TCP", "node", "simulate"]

__getattr__, __dir__ = lazy(__name__, {"TCP": "tcp", "node": "machines", "simulate": "simulation"})
