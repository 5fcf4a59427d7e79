"""Exact analysis of linear systems with delays: roots, Nyquist curves, margins, crossings, certificates."""

from __future__ import annotations

from ecc.linear.certificate import Certificate
from ecc.linear.characteristic_roots import CharacteristicRoots
from ecc.linear.charts import StabilityChart, stability_chart
from ecc.linear.constructors import block, delay, descriptor, distributed_delay, quasi_polynomial, transfer_function
from ecc.linear.continuous import DelaySystem
from ecc.linear.delay_model import DelayModel
from ecc.linear.describing_function import Oscillation, relay_oscillation
from ecc.linear.floquet import FloquetMultipliers, floquet_multipliers
from ecc.linear.frequency_response import FrequencyResponse
from ecc.linear.interop import to_control
from ecc.linear.loci import Loci, characteristic_loci, return_ratio
from ecc.linear.margins import Margins
from ecc.linear.network_bounds import OutputBounds, bound_derivatives, bound_outputs, interval_outputs
from ecc.linear.pid_region import GainCell, PIDRegion, pid, pid_region
from ecc.linear.pid_tuning import PIDTuning, tune_pid
from ecc.linear.sampled import SampledSystem, from_control
from ecc.linear.stability_limits import Crossing, StabilityLimit, crossings, stability_limit
from ecc.linear.switched import Switched, SwitchedLoop
from ecc.linear.switching import IntervalRecurrence, JointSpectralRadius, joint_spectral_radius
from ecc.linear.systems import LinearSystem, certify

__all__ = [
    "Certificate", "CharacteristicRoots", "Crossing", "DelayModel", "DelaySystem", "FloquetMultipliers",
    "FrequencyResponse", "GainCell", "IntervalRecurrence", "JointSpectralRadius", "LinearSystem", "Loci", "Margins",
    "Oscillation", "OutputBounds", "PIDRegion", "PIDTuning", "SampledSystem", "StabilityChart", "StabilityLimit",
    "Switched", "SwitchedLoop", "block", "bound_derivatives", "bound_outputs", "certify", "characteristic_loci",
    "crossings", "delay", "descriptor", "distributed_delay", "floquet_multipliers", "from_control",
    "interval_outputs", "joint_spectral_radius", "pid", "pid_region", "quasi_polynomial", "relay_oscillation",
    "return_ratio", "stability_chart", "stability_limit", "to_control", "transfer_function", "tune_pid",
]  # fmt: skip
