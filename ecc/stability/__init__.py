"""Questions about protocols: where stability is lost in theory and in runs, and what a run says."""

from ecc.stability.assignment import BottleneckAssignment, bottleneck_assignment, water_filled
from ecc.stability.cycles import RelayCycle, relay_cycle
from ecc.stability.gains import critical_gain
from ecc.stability.maps import stability_map
from ecc.stability.runs import MeasuredBoundary, PushedRun, measured_boundary, pushed_run
from ecc.stability.verdict import RunVerdict, judge

__all__ = [
    "BottleneckAssignment",
    "MeasuredBoundary",
    "PushedRun",
    "RelayCycle",
    "RunVerdict",
    "bottleneck_assignment",
    "critical_gain",
    "judge",
    "measured_boundary",
    "pushed_run",
    "relay_cycle",
    "stability_map",
    "water_filled",
]
