"""Exact analysis of linear systems with delays: roots, Nyquist curves, margins, crossings, certificates."""

from __future__ import annotations

from ecc.linear.certificate import Certificate, certify
from ecc.linear.continuous import DelaySystem
from ecc.linear.sampled import SampledSystem
from ecc.linear.systems import LinearSystem

__all__ = ["Certificate", "DelaySystem", "LinearSystem", "SampledSystem", "certify"]
