"""The native packet engine, its binding, and the compilation of hooks; imports nothing of `ecc` but its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecc.native.engine import (
        CHANGE,
        EVENT,
        FLOW,
        FLOW_ENV,
        FLOW_HOOKS,
        FLOW_RESULT,
        IMPAIRMENT,
        LINK,
        LINK_ENV,
        LINK_HOOKS,
        LINK_RESULT,
        RECORDED,
        TRANSFER,
        TRANSFER_RESULT,
        Engine,
        Stats,
        addresses,
        bin_edges,
        inside,
        new_flows,
        new_links,
        new_transfers,
        picoseconds,
    )

__all__ = [
    "CHANGE", "EVENT", "FLOW", "FLOW_ENV", "FLOW_HOOKS", "FLOW_RESULT", "IMPAIRMENT", "LINK", "LINK_ENV", "LINK_HOOKS",
    "LINK_RESULT", "RECORDED", "TRANSFER", "TRANSFER_RESULT", "Engine", "Stats", "addresses", "bin_edges", "new_flows",
    "new_links", "new_transfers", "picoseconds", "inside",
]  # fmt: skip


def __getattr__(name: str) -> Any:  # on use: `compile` is needed where the engine is not built yet
    if name in __all__:
        from ecc.native import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'ecc.native' has no attribute {name!r}")
