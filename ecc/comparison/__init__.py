"""Engines compared with each other on one scenario."""

from ecc.comparison.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
