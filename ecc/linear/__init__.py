"""Exact analysis of linear systems with delays: roots, Nyquist curves, margins, crossings, certificates."""

from __future__ import annotations

from ecc.linear.certificate import Certificate
from ecc.linear.continuous import DelaySystem
from ecc.linear.describing_function import Oscillation, relay_oscillation
from ecc.linear.frequency_response import FrequencyResponse
from ecc.linear.interop import to_control
from ecc.linear.loci import Loci, characteristic_loci, return_ratio
from ecc.linear.margins import Margins
from ecc.linear.sampled import SampledSystem, from_control
from ecc.linear.stability_limits import Crossing, StabilityLimit, crossings, stability_limit
from ecc.linear.switched import Switched, SwitchedLoop
from ecc.linear.systems import LinearSystem, certify

__all__ = [
    "Certificate", "Crossing", "DelaySystem", "FrequencyResponse", "LinearSystem", "Loci", "StabilityLimit", "Margins",
    "Oscillation", "SampledSystem", "Switched", "SwitchedLoop", "certify", "characteristic_loci", "crossings",
    "stability_limit", "from_control", "relay_oscillation", "return_ratio", "to_control",
]  # fmt: skip
