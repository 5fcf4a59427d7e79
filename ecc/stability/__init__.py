"""Questions about protocols: where stability is lost in theory and in runs, and what a run says."""

from ecc.stability.assignment import BottleneckAssignment, bottleneck_assignment, water_filled
from ecc.stability.cycles import RelayCycle, relay_cycle
from ecc.stability.design import Design, LeastDecay, decay_rate, design, least_decay
from ecc.stability.empty_queue import empty_queue_bound, empty_queue_boundary, empty_queue_growth
from ecc.stability.estimates import RttMargin, rtt_margin
from ecc.stability.gains import critical_gain
from ecc.stability.hopf import Hopf, hopf
from ecc.stability.maps import stability_map
from ecc.stability.mixes import WorstMix, bears_all_mixes, worst_mix
from ecc.stability.networks import LinkAlone, links_alone, mean_rtts
from ecc.stability.runs import MeasuredBoundary, PushedRun, measured_boundary, pushed_run
from ecc.stability.theorems import THEOREMS, Theorem, search
from ecc.stability.varying import absolute_radius, bears_delays, growth_of_rates, growth_under_delays, worst_sequence
from ecc.stability.verdict import RunVerdict, judge

__all__ = [
    "THEOREMS",
    "BottleneckAssignment",
    "Design",
    "Hopf",
    "LeastDecay",
    "LinkAlone",
    "MeasuredBoundary",
    "PushedRun",
    "RelayCycle",
    "RttMargin",
    "RunVerdict",
    "Theorem",
    "WorstMix",
    "absolute_radius",
    "bears_all_mixes",
    "bears_delays",
    "bottleneck_assignment",
    "critical_gain",
    "decay_rate",
    "design",
    "empty_queue_bound",
    "empty_queue_boundary",
    "empty_queue_growth",
    "growth_of_rates",
    "growth_under_delays",
    "hopf",
    "judge",
    "least_decay",
    "links_alone",
    "mean_rtts",
    "measured_boundary",
    "pushed_run",
    "relay_cycle",
    "rtt_margin",
    "search",
    "stability_map",
    "water_filled",
    "worst_mix",
    "worst_sequence",
]
