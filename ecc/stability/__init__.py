"""Stability of protocols: limits of stability in theory and in runs, and the classification of runs by stability.

By topic:

    All at once: `analyze`, which computes the output of `ecc stability`: verdicts, stable intervals and margins of all
        linear models of a protocol.
    Verdicts: `verdicts`, a table of all linear models of a protocol on its reference network, `all_verdicts` of several
        protocols; `reference_case`, the loop and network that they take.
    Boundaries: `stable_interval`, around the present value of a parameter; `critical_gain`; `stability_map` (over two
        parameters); `hopf` (the kind of bifurcation at the boundary: a small stable cycle, or a jump to a large cycle);
        `safe_perturbation` (the size of perturbations that die out).
    Limit cycles: `limit_cycle` (of any loop, with the multipliers of deviations); `measured_cycle` (the same in runs);
        `prove_cycle` (a proof of the cycle in rounds, by interval arithmetic), `cover_cycles` (the same for ranges of
        networks); `relay_cycle` (of a source that switches like a relay); `marking_cycle` (of hosts with step marking,
        and with RED beyond its stability limit); `target_cycle` (of hosts that keep a delay at a target).
    RTT distributions: `worst_rtt_distribution`, which loses stability first among all with the same mean, and
        `is_stable_for_all_rtts`; `local_margin`, the change of the stability limit by a small spread of equal RTTs;
        `critical_rtt_ratio`, `is_stable_up_to_ratio`: for XCP, if the ratio of the largest to the mean RTT is bounded.
    RTT estimates: `rtt_margin`: the tolerated error of a router's estimate of the RTT.
    Varying delays: `absolute_radius`, `is_stable_under_varying_delays` prove stability for all sequences of delays;
        `worst_sequence`, `growth_under_delays`, `growth_of_rates` find sequences under which rates grow, such as
        `batched_delays`, `held_delays`, `worst_delays`.
    Empty queues: `empty_queue_bound`, `empty_queue_growth`, `empty_queue_boundary`, `empty_queue_cycle`: RCP and
        XCP if they switch at an empty queue.
    Networks: `bottleneck_assignment`, `water_filled`: the bottleneck link of each flow; `isolated_links`, `mean_rtts`:
        the loop of each isolated link.
    Choosing gains: `design`, `decay_rate`, `least_decay`: the gains that decay fastest, for RTTs or a range of them;
        `NetworkRange`, `cover_range`: a proof for all networks within limits.
    Theorems: `THEOREMS`, `search`: published conditions as data, and a search for counterexamples.
    Trained policies: `policy_loop`, `policy_run`, `paced_policy`; `policy_limit`, `policy_cycle`: the limit of
        stability along a parameter of the path, and the limit cycle; `policy_region`, `cover_paths` prove stability in
        a box of windows and over a family of paths; `check_range`, `check_noise`, `check_monotone` prove properties of
        the policy.
    Runs: `perturbed_run`, `measured_boundary`, `classify_stability`: growth or decay of a perturbation, and the gain
        from which it grows; `check_boundary`: limits of all linear models against runs on both sides of each.
"""

from ecc.cycles.closed_loop import limit_cycle
from ecc.cycles.cycle_proofs import cover_cycles, prove_cycle
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.observed import measured_cycle
from ecc.cycles.orbit_proofs import OrbitProof
from ecc.cycles.orbit_ranges import OrbitCover
from ecc.cycles.target_cycles import TargetCycle, target_cycle
from ecc.linear.empty_queue import empty_queue_bound, empty_queue_boundary, empty_queue_growth
from ecc.stability.analysis import Analysis, ModelAnalysis, StableInterval, analyze, stable_interval
from ecc.stability.assignment import BottleneckAssignment, bottleneck_assignment, water_filled
from ecc.stability.bifurcations import Bifurcation
from ecc.stability.boundary_checks import check_boundary
from ecc.stability.checked import CriticalGain, critical_gain
from ecc.stability.empty_queue import EmptyQueueCycle, empty_queue_cycle
from ecc.stability.gain_design import Design, LeastDecay, decay_rate, design, least_decay
from ecc.stability.hopf_bifurcation import Hopf, hopf
from ecc.stability.maps import stability_map
from ecc.stability.marking_cycles import MarkingCycle, marking_cycle
from ecc.stability.network_ranges import NetworkRange, cover_range
from ecc.stability.networks import IsolatedLink, isolated_links, mean_rtts
from ecc.stability.policies import (
    PathCover,
    PolicyLoop,
    PolicyPath,
    PolicyRegion,
    cover_paths,
    paced_policy,
    policy_loop,
    policy_region,
    policy_run,
)
from ecc.stability.policy_limits import PolicyCycle, PolicyLimit, policy_cycle, policy_limit
from ecc.stability.policy_properties import PolicyProperty, check_monotone, check_noise, check_range
from ecc.stability.relay_cycles import RelayCycle, relay_cycle
from ecc.stability.rtt_distributions import (
    WorstRttDistribution,
    is_stable_for_all_rtts,
    local_margin,
    worst_rtt_distribution,
)
from ecc.stability.rtt_estimates import RttMargin, rtt_margin
from ecc.stability.rtt_ratio import RttRatio, critical_rtt_ratio, is_stable_up_to_ratio
from ecc.stability.run_classification import StabilityClassification, classify_stability
from ecc.stability.runs import MeasuredBoundary, PerturbedRun, measured_boundary, perturbed_run
from ecc.stability.safe_perturbations import SafePerturbation, safe_perturbation
from ecc.stability.theorem_registry import THEOREMS, Theorem, search
from ecc.stability.varying_delays import (
    Growth,
    absolute_radius,
    batched_delays,
    growth_of_rates,
    growth_under_delays,
    held_delays,
    is_stable_under_varying_delays,
    worst_delays,
    worst_sequence,
)
from ecc.stability.verdicts import all_verdicts, reference_case, verdicts

__all__ = [
    "THEOREMS",
    "Analysis",
    "Bifurcation",
    "BottleneckAssignment",
    "CriticalGain",
    "Design",
    "EmptyQueueCycle",
    "Growth",
    "Hopf",
    "LeastDecay",
    "IsolatedLink",
    "LimitCycle",
    "MarkingCycle",
    "MeasuredBoundary",
    "NetworkRange",
    "OrbitCover",
    "OrbitProof",
    "ModelAnalysis",
    "PathCover",
    "PerturbedRun",
    "PolicyCycle",
    "PolicyLimit",
    "PolicyLoop",
    "PolicyPath",
    "PolicyProperty",
    "PolicyRegion",
    "RelayCycle",
    "RttMargin",
    "RttRatio",
    "SafePerturbation",
    "StabilityClassification",
    "StableInterval",
    "TargetCycle",
    "Theorem",
    "WorstRttDistribution",
    "absolute_radius",
    "all_verdicts",
    "analyze",
    "batched_delays",
    "is_stable_for_all_rtts",
    "is_stable_under_varying_delays",
    "bottleneck_assignment",
    "check_boundary",
    "check_monotone",
    "check_noise",
    "check_range",
    "cover_cycles",
    "cover_paths",
    "cover_range",
    "critical_gain",
    "critical_rtt_ratio",
    "decay_rate",
    "design",
    "empty_queue_bound",
    "empty_queue_boundary",
    "empty_queue_cycle",
    "empty_queue_growth",
    "growth_of_rates",
    "growth_under_delays",
    "held_delays",
    "hopf",
    "is_stable_up_to_ratio",
    "classify_stability",
    "least_decay",
    "limit_cycle",
    "isolated_links",
    "local_margin",
    "marking_cycle",
    "mean_rtts",
    "measured_cycle",
    "measured_boundary",
    "paced_policy",
    "perturbed_run",
    "policy_cycle",
    "policy_limit",
    "policy_loop",
    "policy_region",
    "policy_run",
    "prove_cycle",
    "reference_case",
    "relay_cycle",
    "rtt_margin",
    "safe_perturbation",
    "search",
    "stability_map",
    "stable_interval",
    "target_cycle",
    "verdicts",
    "water_filled",
    "worst_delays",
    "worst_rtt_distribution",
    "worst_sequence",
]
