"""The native packet engine, its binding, and the compilation of hooks; imports nothing of `ecc` but its errors."""

from __future__ import annotations

from ecc.native.engine import FLOW_ENV, LINK_ENV

__all__ = ["FLOW_ENV", "LINK_ENV"]
