"""Conformance laboratory: does a controller do what its specification says? `ecc.conform.run` runs the cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc.lazy import lazy

if TYPE_CHECKING:
    from ecc.conform.runs import Conformance, cases, run

__all__ = ["Conformance", "cases", "run"]

__getattr__, __dir__ = lazy(__name__, dict.fromkeys(__all__, "runs"))
