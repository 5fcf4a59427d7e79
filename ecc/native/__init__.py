"""The native packet engine, its binding, and the compilation of hooks; imports nothing of `ecc` but its errors."""

from __future__ import annotations

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
    TRANSFER,
    TRANSFER_RESULT,
    Engine,
    Stats,
    addresses,
    bin_edges,
    new_flows,
    new_links,
    new_transfers,
    picoseconds,
)

__all__ = [
    "CHANGE", "EVENT", "FLOW", "FLOW_ENV", "FLOW_HOOKS", "FLOW_RESULT", "IMPAIRMENT", "LINK", "LINK_ENV", "LINK_HOOKS",
    "LINK_RESULT", "TRANSFER", "TRANSFER_RESULT", "Engine", "Stats", "addresses", "bin_edges", "new_flows", "new_links",
    "new_transfers", "picoseconds",
]  # fmt: skip
