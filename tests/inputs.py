"""Bad and extreme inputs for every public callable, and counts of what becomes of them.

    python tests/inputs.py [--examples N] [--seconds S] [--share K/N] [NAME ...]

The callables are found by walking the public modules: functions, constructors, and the public methods of what these
make. Each is called with good arguments of which Hypothesis replaces one to three. A call is

    a result     it returned;
    refused      ValueError, TypeError, EccError, or OSError of a file, raised by a `raise` of ours, in one line;
    long         it was still at work after S seconds of CPU time, and ended when it was interrupted: it asks for much;
    bad          all else: any other exception, one from inside Python or a dependency, an empty message, a warning
                 (but that a run ended as the `memory_limit` it was given was reached).

Left out: laws (`*_law`), which Numba compiles and nothing checks on their way; hooks and records, which engines call;
and constructors of results, which hold what they are given.
"""

from __future__ import annotations

import argparse
import inspect
import linecache
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import ecc
import ecc.fluid.compiled  # here: an import must not be interrupted

ROOT = str(Path(ecc.__file__).parent)
LOG = Path(__file__).parents[1] / "examples" / "cubic.sqlog"
RESULTS = """Allocation Analysis Bifurcation Bound Case Certificate CharacteristicRoots Comparison Conformance
ConvergenceError Crossing
CriticalGain DdeResult DdeSolution Decay Design Deviation Divergence EccError Event EmptyQueueCycle Equilibrium Formats
FrequencyResponse GainCell Growth OrbitCover OrbitProof
Hopf Interval JointSpectralRadius LeastDecay LimitCycle IsolatedLink LinearizationError Loci Margins
MeasuredBoundary NativeError
Oscillation OutputBounds Partition PathCover PeriodicOrbit PerturbedRun PolicyLoop PolicyProperty PolicyRegion
PIDRegion PIDTuning
FloquetMultipliers MarkingCycle PolicyCycle PolicyLimit RelayCycle TargetCycle RttMargin RttRatio
ModelAnalysis SafePerturbation StabilityClassification Search StabilityChart StabilityLimit StableInterval Stats
Switched SwitchedLoop Finding NotApplicable PropertyError ProtocolReport
Team Theorem Trace UndecidedError WireFields WorstRttDistribution ecc.results.metrics.Frames""".split()
"""Classes that hold what the library has found."""
CALLED = (
    "streams",
    "blocks",
    "layout",
    "link_at",
    "flow_at",
    "opening_rate",
    "params",
    "rate_range",
    "with_late_notes",
    "with_switched",
    "first_ticks",
    "draw_vectors",
    "build",
    "header",
    "pause_for",
    "wire_fields",
    "wire_header",
)
"""Methods that engines and analyses call on what they have made, with what they have made."""


# ---- good arguments ---------------------------------------------------------------------------------------


def _decaying(t, y, z, *more):
    return -y


def _varied(t, y, z, k):
    return -k * y


def _wright(t, y, z):
    return -1.7 * z[0] * (1.0 + y)


def _loop(s):
    return np.exp(-np.asarray(s)) / np.asarray(s)


def _point(x):
    return 2.0 * x


def _family(gain):
    return ecc.DelaySystem([-gain], [1.0])


def a_plant() -> ecc.linear.DelayModel:
    """A lag with a dead time, of one input and one output."""
    return ecc.linear.transfer_function([1.0], [1.0, 1.0], 0.5)


@cache
def good() -> dict[str, Any]:
    """Arguments by name, and by `callable.name` where a name means different things, or its default will not do."""
    network = ecc.Network.dumbbell("10 Mb/s", rtts=["100 ms", "200 ms"])
    protocol = ecc.models.PIQIRCP()
    scenario = ecc.Scenario(network, protocol, duration=1.0)
    seconds = np.arange(0.0, 20.0, 0.05)
    wave = np.exp(-0.3 * seconds) * np.cos(9.0 * seconds)
    x, y = np.arange(1.0, 6.0), np.arange(1.0, 4.0)
    vectors = [ecc.tmix.ConnectionVector(0.0, 0.1, [ecc.tmix.Unit(0, 500)])]
    alike = ecc.Network.dumbbell("10 Mb/s", rtts=["100 ms"])
    opened = ecc.linearize(protocol, network, "discrete")
    cycle = ecc.fluid.solve_dde(_wright, (0.0, 100.0), [0.5], [1.0], dense_output=True).sol
    pair = {"flows": ecc.models.NewReno(ecn=True), "links": ecc.queues.PI2(mark=True)}
    stepped = {"flows": ecc.models.DCTCP(), "links": ecc.queues.StepMarking()}
    links, flows = ecc.native.new_links(1), ecc.native.new_flows(1)
    links["capacity"], flows["n_forward"], flows["rate"] = 1e6, 1, 1e5
    folder = Path(tempfile.mkdtemp())
    a_run().save(folder / "run.nc")
    ecc.packet.Run(scenario).save(folder / "run.ckpt")
    (folder / "trace.up").write_text("1\n5\n")
    values = {
        "network": network,
        "networks": network,
        "protocol": protocol,
        "scenario": scenario,
        "crossings": b"",
        "part": 0,
        "vectors": vectors,
        "xoff": "10 kB",
        "system": ecc.DelaySystem([-1.0], [0.5]),
        "flow": network.flows[0],
        "flows": network.flows,
        "links": network.links,
        "route": [0],
        "reverse": [1],
        "capacity": "10 Mb/s",
        "rtts": ["100 ms"],
        "name": "a",
        "capacities": ["10 Mb/s", "20 Mb/s"],
        "mean_interarrival": "10 ms",
        "mean_size": "10 kB",
        "mean_interval": "100 ms",
        "mean_on": 1.0,
        "mean_off": 1.0,
        "duration": 1.0,
        "load": 0.5,
        "matrices": [-1.0],
        "delays": [0.5],
        "s": [1j],
        "z": [1j],
        "k": 2,
        "period": 0.7,
        "near": "100 ms",
        "is_scalable": True,
        "seed": 1,
        "rate": "1 Mb/s",
        "data": b"\0" * 64,
        "link": 0,
        "times": [0.0, 1.0],
        "delay": (0.01, 0.02),
        "probability": 0.1,
        "impairments": [],
        "where": "here",
        "time": seconds,
        "deviation": wave,
        "signal": wave,
        "final": 1.0,
        "f": _decaying,
        "t_span": (0.0, 1.0),
        "history": 1.0,
        "function": _point,
        "grid": {"x": [1.0, 2.0]},
        "family": _family,
        "loop": _loop,
        "frequencies": x,
        "assignment": [0, 0],
        "parameter": "alpha",
        "parameters": {"alpha": (0.1, 0.5)},
        "alpha": 0.4,
        "beta": 0.2,
        "mean_rtt": 0.1,
        "least": 1,
        "longest": 4,
        "least_rtt": 0.05,
        "largest_rtt": 0.2,
        "low": 0.1,
        "high": 0.5,
        "ratio": 2.0,
        "n": 2,
        "until": 0.5,
        "theorem": next(iter(ecc.stability.THEOREMS.values())),
        "units": vectors[0].units,
        "sender": 0,
        "size": 500,
        "start": 0.0,
        "rtt": 0.1,
        "share": 0.5,
        "path": "out.nc",
        "directory": "report",
        "reference": protocol,
        "jacobian": -np.eye(2),
        "forward": [[0.0, 0.1], [0.1, 0.0]],
        "backward": [[0.1, 0.1], [0.1, 0.1]],
        "x": x,
        "cycle.flows": 3,
        "cycle.delay": 1,
        "synchronized.rates": [0.5, 0.2],
        "synchronized.count": 5,
        "synchronized.delay": 1,
        "credit_size": 84,
        "curves": {"a": x},
        "rates": np.ones((5, 2)),
        "queues": np.ones((5, 1)),
        "series": "rate",
        "certify": False,
        "omega": x,
        "quantiles": [0.5],
        "other_rates": np.ones((5, 2)),
        "other_queues": np.ones((5, 1)),
        "discrepant_rates": np.zeros(5, bool),
        "discrepant_queues": np.zeros(5, bool),
        "seconds": 1.0,
        "gain": 0.3,
        "records": ecc.native.new_links(1),
        "until ": 1.0,
        "args": {"k": [1.0]},
        "t_eval": [0.0, 0.5, 1.0],
        "Scenario.workload": None,
        "ConstantRate.rate": "1 Mb/s",
        "impairment": ecc.impairments.RandomLoss(0.1, link=0),
        "table": {"name": "RandomLoss", "probability": 0.1, "link": 0},
        "longest ": 4,
        "decay.deviation": wave,
        "y": y,
        "roots": {"a": np.array([-1.0 + 1j])},
        "runs": {"a": (x, x)},
        "vectors ": 1,
        "Tmix.vectors": vectors,
        "Network.from_dict.data": network.to_dict(),
        "guess": lambda t: np.array([np.sin(t)]),
        "Scenario.from_dict.data": scenario.to_dict(),
        "source": scenario.to_toml(),
        "from_control.system": ecc.SampledSystem([0.5], [1], dt=0.1).to_control(),
        "model": a_plant(),
        "DelayModel.a": [[-1.0]],
        "DelayModel.b": [[1.0, 0.0]],
        "DelayModel.c": [[1.0], [0.0]],
        "DelayModel.d": [[0.0, 1.0], [1.0, 0.0]],
        "lft.other": a_plant(),
        "block.rows": [[a_plant(), 1.0]],
        "delay.system": a_plant(),
        "delay.tau": 0.1,
        "descriptor.lead": [[2.0]],
        "distributed_delay.length": 1.0,
        "floquet_multipliers.a": lambda t: -1.0,
        "floquet_multipliers.b": [lambda t: 0.5],
        "floquet_multipliers.delays": [1.0],
        "floquet_multipliers.period": 1.0,
        "pid_region.plant": a_plant(),
        "pid_region.kp": (-1.0, 3.0),
        "pid_region.ki": (-0.5, 4.0),
        "PIDRegion.controller.kp": 0.5,
        "PIDRegion.controller.ki": 0.4,
        "PIDRegion.loop.kp": 0.5,
        "PIDRegion.loop.ki": 0.4,
        "PIDRegion.certify.kp": 0.5,
        "PIDRegion.certify.ki": 0.4,
        "PIDRegion.is_stable_in.kp": 0.5,
        "PIDRegion.is_stable_in.ki": 0.4,
        "tune_pid.plant": a_plant(),
        "pid.kp": 1.0,
        "pid.ki": 1.0,
        "quasi_polynomial.coefficients": {0.0: [1.0, 0.0], 1.0: [1.0]},
        "roots_within.center": -1.0,
        "roots_within.radius": 3.0,
        "stability_chart.family": lambda a, b: ecc.DelaySystem([-a, -b], [0.0, 1.0]),
        "stability_chart.ranges": {"a": (0.5, 1.0), "b": (0.5, 2.0)},
        "stability_chart.resolution": 0.25,
        "stability_chart.effort": 100,
        "transfer_function.num": [1.0],
        "transfer_function.den": [1.0, 2.0],
        "transfer_function.delay": 0.5,
        "step_response.t": y,
        "impulse_response.t": y,
        "initial_response.t": y,
        "initial_response.history": [1.0],
        "forced_response.t": y,
        "forced_response.u": y,
        "linearize_dde.equilibrium": [0.0],
        "critical_rtt_ratio.protocol": ecc.models.XCP(),
        "is_stable_up_to_ratio.protocol": ecc.models.XCP(),
        "relay_cycle.protocol": ecc.models.EDN(),
        "cover_cycles.protocol": ecc.models.NewReno(),
        "cover_cycles.capacity": "1 Mb/s",
        "marking_threshold.capacity": 1e7,
        "limit_cycle.protocol": ecc.models.EDN(),
        "cover_cycles.rtt": ("40 ms", "42 ms"),
        "cover_cycles.buffer": "8 kB",
        "cover_cycles.flows": 1,
        "prove_cycle.protocol": ecc.models.SPERC(),
        "relay_orbit.protocol": ecc.models.EDN(),
        "absolute_radius.protocol": ecc.models.JetMax(),
        "absolute_radius.assignment": ecc.stability.bottleneck_assignment(network, [0, 0]),
        "jacobian.protocol": ecc.models.JetMax(),
        "spectral_radius.protocol": ecc.models.JetMax(),
        "all_verdicts.protocols": ["QIRCP"],
        "stability_map.grid": {"alpha": [0.1, 0.5]},
        "ensemble.over": {"alpha": [0.1, 0.5]},
        "ensemble.vary": {"alpha": [0.1, 0.5]},
        "ensemble.seeds": 2,
        "values.name": "rate",
        "column.name": "start",
        "has.name": "rate",
        "ensemble.metrics": ["utilization"],
        "ensemble.arguments": {"between": (0.1, 0.2)},
        "ensemble.series": ["rate"],
        "critical.protocol": protocol,
        "stability_map_figure.values": np.ones((3, 5)),
        "states_figure.panels": {"p": {"a": seconds}},
        "states_figure.states": (),
        "states_figure.marks": (),
        "sweep_figure.axes": {"a": x},
        "sweep_figure.panels": {"p [s]": x},
        "sweep_figure.half_widths": {"p [s]": x},
        "zipped": None,
        "sweep_means.dataset": ecc.sweep(lambda a, seed: a + seed, {"a": [1.0, 2.0], "seed": [1, 2, 3]}),
        "sweep_means.axis": "seed",
        "bode_figure.curves": {"a": (x, x + 1j)},
        "nyquist_figure.curves": {"a": (x, x + 1j)},
        "slider_figure.figures": {"a": ecc.plot.root_figure({"a": [1j]})},
        "small_multiples_figure.figures": {"a": ecc.plot.root_figure({"a": [1j]})},
        "perturbed_run.time": None,
        "check_boundary.times": ["continuous"],
        "check_boundary.engines": ["fluid"],
        "flow_count": 2,
        "Unit.size": 500,
        "SampledSystem.delays": [1],
        "SampledSystem.matrices": [0.5],
        "growth_under_delays.delays": [1, 2],
        "growth_of_rates.forward": [[1], [1]],
        "growth_of_rates.backward": [[1], [1]],
        "is_stable_under_varying_delays.protocol": ecc.models.QIRCP(),
        "growth_under_delays.protocol": ecc.models.QIRCP(),
        "worst_sequence.protocol": ecc.models.QIRCP(),
        "growth_of_rates.jacobian": [[-0.5]],
        "solve_ensemble.f": _varied,
        "solve_ensemble.history": [1.0],
        "solve_ensemble.delays": [0.5],
        "flows ": 2,
        "batched_delays.flows": 2,
        "worst_delays.flows": 2,
        "Engine.links": links,
        "Engine.flows": flows,
        "sampled_queues.links": links,
        "Engine.routes": [0],
        "transfers": ecc.native.new_transfers(1),
        "more": False,
        "response.run": None,
        "run": None,
        "trajectory_figure.time": x,
        "comparison_figure.time": x,
        "Synthetic.rate": 10.0,
        "saved": {},
        "thread": 1,
        "loss": 0.01,
        "marked": 0.01,
        "packet_size": 1000,
        "timeout": 1.0,
        "size ": 1,
        "random": True,
        "Engine.load.saved": an_engine().save(),
        "Engine.restart.first_intervals": np.array([0]),
        "Engine.act.actions": no_action(),
        "Engine.step.actions": None,
        "observations": np.zeros(0, ecc.native.OBSERVATION),
        "rows": [(0, 0, 0)],
        "engines": [an_engine()],
        "Crew.actions": np.zeros((1, 1), ecc.native.ACTION),
        "Crew.replace.engine": an_engine(),
        "Crew.replace.k": 0,
        "Crew.stop_of.k": 0,
        "Crew.threads": 1,
        "max_events": 100,
        "scenarios": [scenario],
        "control": "reno",
        "machine": 0,
        "node.links": {},
        "node.token": "0123456789abcdef",
        "TCP.flows": [0],
        "local": bytes(6),
        "peer": bytes(6),
        "token": bytes(16),
        "port": ecc.native.Port(bytes(6), bytes(6)),
        "Frames.engine": framed()[0],
        "Frames.layouts": framed()[1],
        "crossing": framed()[2],
        "frame": b"",
        "of_controller.gain": 1e-5,
        "zero": 0.5,
        "NetworkRange.flows": (10, 12),
        "at.capacity": 1e7,
        "at.flows": 2.0,
        "cover_range.networks": ecc.stability.NetworkRange("10 Mb/s", (10, 11), 0.1),
        "cover_range.protocol": pair,
        "marking_cycle.protocol": stepped,
        "Aurora.network": "aurora",
        "Orca.network": "orca",
        "Policy.network": "aurora",
        "marking_cycle.network": alike,
        "Task.observe": ecc.rl.aurora.observe,
        "Task.reward": ecc.rl.aurora.reward,
        "Task.act": ecc.rl.aurora.ACTION,
        "Task.interval": "20 ms",
        "word": "rate",
        "apply": ecc.rl.aurora.change_rate,
        "Action.low": -1.0,
        "Action.high": 1.0,
        "num_envs": 2,
        "make.name": "aurora",
        "agent": "flow_0",
        "numerator": 1.0,
        "denominator": 2.0,
        "Environment.step.action": [0.0],
        "VectorEnvironment.step.actions": [[0.0], [0.0]],
        "ParallelEnvironment.flows": (0, 1),
        "ParallelEnvironment.step.actions": {"flow_0": [0.0], "flow_1": [0.0]},
        "title": "a title",
        "kind": "s",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 2,
        "n_hosts": 4,
        "sources": [2, 3],
        "destination": 1,
        "Demand.source": 0,
        "paths.source": 0,
        "demands": [(0, 1)],
        "tables": {"a": {"size": x, "p50": x}},
        "sizes": "hadoop",
        "shares": 0.5,
        "poisson.duration": "1 us",
        "poisson.capacity": "1 Gb/s",
        "leaf_spine.flows": [(0, 3)],
        "fat_tree.flows": [(0, 1)],
        "Network.n_hosts": 0,
        "at_load.mean_size": "10 kB",
        "resting.x": 1e7,
        "resting.R": 0.01,
        "resting.s": 8000.0,
        "resting_rate.R": 0.01,
        "resting_rate.s": 8000.0,
        "Arrivals.mean_size": "10 kB",
        "RandomLoss.link": 0,
        "DelaySpikes.link": 0,
        "Jitter.link": 0,
        "BurstLoss.link": 0,
        "BurstLoss.begins": 0.01,
        "BurstLoss.ends": 0.3,
        "Aggregation.link": 0,
        "wait": (0.001, 0.002),
        "burst": "10 kB",
        "write_mahimahi.trace": ecc.impairments.DeliveryTrace(0, [0.001]),
        "DelaySchedule.delays": [0.02, 0.03],
        "DeliveryTrace.times": [0.001, 0.005],
        "simulate": ecc.fluid.simulate,
        "relabel_flows.order": [1, 0],
        "relabeled.flows": [0, 1],
        "permute_links.order": [0],
        "factor": 2.0,
        "start_later.delay": 0.01,
        "Transformed.flows": (0, 1),
        "Transformed.links": (0,),
        "read_mahimahi.path": folder / "trace.up",
        "read.path": LOG,
        "replay.trace": LOG,
        "replay.reference": "CUBIC",
        "characteristic_loci.system": opened,
        "return_ratio.system": opened,
        "to_control.system": opened,
        "Trajectory.load.path": folder / "run.nc",
        "LimitCycle.queue_percentile.percent": 99.0,
        "Frames.between.begin": 0.0,
        "Frames.between.end": 0.5,
        "frames.run": a_run_with_frames(),
        "resume.path": folder / "run.ckpt",
        "RunBatch.restart.k": 0,
        "RunBatch.run.k": 0,
        "periodic_orbit.f": _wright,
        "periodic_orbit.delays": [1.0],
        "periodic_orbit.guess": cycle,
        "Theorem.evaluate.protocol": ecc.models.QIRCP(),
        "Theorem.evaluate.network": alike,
        "relay_loop.network": alike,
        "SCReAM.cycle_orbit.network": ecc.Network.dumbbell("1 Mb/s", ["100 ms"], packet_size=500),
        "SCReAM.marked_window.probability": 0.05,
        "SCReAM.marked_window.packet_size": 1360,
        "SCReAM.marked_window.rtt": "50 ms",
        "SCReAM.rate_loop.rtt": "50 ms",
        "GCC.cycle_orbit.network": ecc.Network.dumbbell("1 Mb/s", ["100 ms"], packet_size=500),
        "relay_orbit.network": alike,
        "relay_orbit.delays": ecc.contract.forms.RelayDelays(0.5, 0.0, 1.0),
        "poles.k": 2,
        "empty_queue_cycle.alpha": 1.0,
        "relay_oscillation.frequencies": np.linspace(0.5, 3.0, 20),
        **_policies(),
        "read_vectors.source": ecc.tmix.write_vectors(vectors),
    }
    values["run"] = values["response.run"] = a_run()
    values |= {f"{kind.__name__}.decode.data": kind().encode() for kind in _headers()}
    browsing = ecc.Scenario(
        alike.with_flows([ecc.Flow([0], 0.05)]), protocol, 2.0, ecc.Workload(tmix=[ecc.Tmix(vectors, [0], [0])])
    )
    values["response_times.flows"] = ecc.packet.simulate(browsing).flows
    return values


def _policies() -> dict[str, Any]:
    """A small policy with frames of seven features, and sets of its inputs."""
    from ecc.laws.dense_network import DenseNetwork, Layer

    weight = [[-0.5, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0]]
    network = DenseNetwork([Layer(weight, [0.9]), Layer([[1.0]], [0.0], "tanh")])
    sign = Layer([[-200.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], [180.0], "tanh")
    relay = DenseNetwork([sign, Layer([[0.01]], [0.0], "linear")])  # its loop has a cycle
    on_a_path = ("policy_loop", "policy_run", "policy_region", "policy_limit", "policy_cycle")
    loops = (*on_a_path, "cover_paths", "paced_policy")
    names = ("interval_outputs", "bound_outputs", "bound_derivatives", "check_range", "check_noise", "check_monotone")
    sets = {f"{name}.center": np.ones(7) for name in names} | {f"{name}.directions": np.eye(7) for name in names}
    return {
        **sets,
        "interval_outputs.layers": network.layers,
        "bound_outputs.layers": network.layers,
        "bound_outputs.steps": 2,
        "bound_derivatives.layers": network.layers,
        "bound_derivatives.along": np.eye(7),
        "IntervalRecurrence.low": [0.4, -0.3],
        "IntervalRecurrence.high": [0.6, -0.2],
        "joint_spectral_radius.matrices": [[[0.5]], [[0.2]]],
        **{f"{name}.network": network for name in loops},
        **{f"{name}.network": network for name in names[3:]},
        **{f"{name}.path": ecc.stability.PolicyPath(0.05) for name in on_a_path},
        "policy_cycle.network": relay,
        "policy_limit.maximum": 0.06,
        "policy_limit.step": 0.005,
        "PolicyPath.rtt": 0.05,
        "paced_policy.initial_rate": 1e7,
        "policy_run.ratios": [0.8],
        "cover_paths.rtts": (0.05, 0.051),
        "check_range.low": -1.0,
        "check_noise.noise": np.full(7, 0.01),
        "check_noise.bound": 0.1,
        "check_monotone.along": np.ones(7),
        "check_monotone.increasing": False,
    }


def _headers() -> list[Any]:
    """Those of the package, which is imported by now; not those that another test has declared."""
    return [kind for kind in ecc.headers.CongestionHeader.__subclasses__() if kind.__module__.startswith("ecc.")]


def a_run() -> ecc.Trajectory:
    """What an engine would return, without a run."""
    time = np.arange(0.1, 2.01, 0.1)
    rates, queue = 5e6 * (1.0 - np.exp(-np.outer(time, [3.0, 4.0]))), np.zeros((len(time), 1))
    series = {"rate": rates, "goodput": rates, "bottleneck": np.zeros((len(time), 2), int), "queue": queue}
    series |= {"queue_max": queue, "arrival": rates.sum(axis=1, keepdims=True), "drops": queue.astype(int)}
    flows = {name: np.array([0.0, 0.0]) for name in ("start", "finish", "size", "completion_time")}
    return ecc.Trajectory.build(time, series, flows, {"stop": "completed", "notes": ()}, {"engine": "none"})


def a_run_that_completes() -> ecc.Trajectory:
    """A packet run with a flow of finite size."""
    network = ecc.Network.dumbbell("10 Mb/s", rtts=["10 ms"], sizes=["10 kB"])
    return ecc.packet.simulate(ecc.Scenario(network, ecc.models.NewReno(), 1.0))


@cache
def a_run_with_frames() -> ecc.Trajectory:
    """A packet run with frames of media."""
    network = ecc.Network.dumbbell("2 Mb/s", rtts=["40 ms"], packet_size=500)
    scenario = ecc.Scenario(network, ecc.models.NADA(frames=20.0), 1.0)
    return ecc.packet.simulate(scenario, sample=0.25, record=[*ecc.metrics.FRAME_FIELDS])


def an_engine(**options: Any) -> ecc.native.Engine:
    """A new engine that takes transfers."""
    links, flows = ecc.native.new_links(1), ecc.native.new_flows(1)
    links["capacity"], flows["n_forward"], flows["rate"] = 1e6, 1, 1e5
    return ecc.native.Engine(links, flows, [0, 0], templates=flows, **options)


@cache
def framed() -> tuple[ecc.native.Engine, ecc.native.Formats, bytes]:
    """A sender whose packets leave as frames, what these look like, and one of them."""
    links, flows = ecc.native.new_links(1), ecc.native.new_flows(1)
    links["capacity"], links["delay"], flows["n_forward"], flows["rate"] = 1e6, 1, 1, 1e5
    flows["access_delay"] = flows["ack_delay"] = ecc.native.picoseconds(0.01)
    flows["transport"] = 1
    engine = ecc.native.Engine(links, flows, [0], partition=ecc.native.Partition(0, *np.array([[1], [0], [0]])))
    engine.advance(0.1)
    formats = ecc.native.Formats(
        np.zeros(1, ecc.native.FRAME_FORMAT), np.zeros(0, ecc.native.FRAME_FIELD), np.zeros(1, np.int64)
    )
    size = ecc.native.Frames(engine, formats, bytes(16)).crossing_size
    return engine, formats, engine.take_leaving(1)[:size]


def no_action() -> ecc.native.Actions:
    """An action that changes nothing, as its value is nan: flows of new engines have not started."""
    actions = ecc.native.Actions([(0, ecc.native.ACTIONS["rate"], 0)])
    actions.values[0] = np.nan
    return actions


def a_part() -> ecc.native.Engine:
    """The link of a network whose only sender is in another part."""
    links, flows = ecc.native.new_links(1), ecc.native.new_flows(1)
    links["capacity"], flows["n_forward"], flows["rate"], flows["transport"] = 1e6, 1, 1e5, 1
    flows["access_delay"] = flows["ack_delay"] = ecc.native.picoseconds(0.01)
    return ecc.native.Engine(links, flows, [0], partition=ecc.native.Partition(1, *np.array([[1], [0], [1]])))


def begun(environment: Any) -> Any:
    """An environment in its first episode."""
    environment.reset(seed=1)
    return environment


@cache
def makers() -> dict[str, Callable[[], Any]]:
    """For classes that good arguments do not make by themselves, or methods: what makes one that is called."""
    from ecc.stability import THEOREMS

    network, protocol = good()["network"], good()["protocol"]
    return {
        "Trajectory": lambda: ecc.packet.simulate(good()["scenario"], histogram_from=0.0),
        "DelaySystem": lambda: ecc.linearize(protocol, network, "continuous"),
        "DelayModel": a_plant,
        "DelayModel.lft": lambda: ecc.linear.block([[a_plant(), 1.0], [1.0, 0.0]]),
        "PIDRegion": lambda: ecc.linear.pid_region(a_plant()),
        "SampledSystem": lambda: ecc.linearize(protocol, network, "discrete"),
        "Vegas": lambda: ecc.models.Vegas(alpha=3.0, beta=3.0),
        "Comparison": lambda: ecc.compare(good()["scenario"]),
        "Conformance": lambda: ecc.conform.run(ecc.models.NewReno(), ["bbr-drain-inflight"]),
        "Theorem": lambda: next(iter(THEOREMS.values())),
        "BottleneckAssignment": lambda: ecc.stability.bottleneck_assignment(network, [0, 0]),
        "IsolatedLink": lambda: ecc.stability.isolated_links(protocol, network)[0],
        "Hopf": lambda: ecc.stability.hopf(ecc.models.RCP(queue_term=False), network),
        "Tmix": lambda: ecc.Tmix(good()["vectors"], [0], [1]),
        "Trajectory.slowdowns": a_run_that_completes,
        "Trajectory.plot_slowdowns": a_run_that_completes,
        "Network.paths": lambda: ecc.Network.fat_tree(2, [(0, 1)]),
        "Network.with_demands": lambda: ecc.Network.fat_tree(2, [(0, 1)]),
        "Run": lambda: ecc.packet.Run(good()["scenario"]),
        "Engine": an_engine,
        "Engine.enter": a_part,
        "LimitCycle.queue_percentile": lambda: ecc.stability.limit_cycle("NewReno"),
        "Frames.between": lambda: ecc.metrics.frames(a_run_with_frames()),
        "Frames": lambda: ecc.native.Frames(*framed()[:2], bytes(16)),
        "Environment": lambda: begun(ecc.rl.Environment(good()["scenario"])),
        "VectorEnvironment": lambda: begun(ecc.rl.VectorEnvironment(good()["scenario"], 2)),
        "ParallelEnvironment": lambda: begun(ecc.rl.ParallelEnvironment(good()["scenario"])),
    }


# ---- what is called ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A public callable: what to call, under what name, with which parameters, on what object."""

    name: str
    module: str
    call: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]
    owner: type | None = None

    def keys(self, name: str) -> tuple[str, str]:
        return f"{self.name.removeprefix(self.module + '.')}.{name}", f"{self.name.split('.')[-1]}.{name}"

    def maker(self) -> str:
        """Key of `makers` of what a method is called on: its own, or that of its class."""
        own = ".".join(self.name.split(".")[-2:])
        return own if own in makers() else own.split(".")[0]

    def good_value(self, name: str) -> Any:
        values = good()
        for key in (*self.keys(name), name):
            if key in values:
                return values[key]
        raise KeyError(f"tests/inputs.py has no good value for {name} of {self.name}")


def modules() -> list[Any]:
    """The public modules: `ecc` and those that it names, or has by a short name."""
    named = [getattr(ecc, name) for name in (*ecc.__all__, *ecc._PARTS)]
    return [ecc, *(one for one in named if inspect.ismodule(one))]


def entries() -> Iterator[Entry]:
    """Every public callable once."""
    seen = set()
    for module in modules():
        for name in module.__all__:
            given = getattr(module, name)
            if inspect.ismodule(given) or not callable(given) or id(given) in seen:
                continue
            seen.add(id(given))
            full = f"{module.__name__}.{name}"
            if not inspect.isclass(given):
                yield Entry(full, module.__name__, given, _parameters(given))
                continue
            if name not in (*RESULTS, "CongestionHeader") and full not in RESULTS and not inspect.isabstract(given):
                yield Entry(full, module.__name__, given, _parameters(given))
            yield from _methods(full, module.__name__, given)
    for kind in _headers():
        yield Entry(f"ecc.headers.{kind.__name__}", "ecc.headers", kind, _parameters(kind))
        yield from _methods(f"ecc.headers.{kind.__name__}", "ecc.headers", kind)


def _methods(full: str, module: str, owner: type) -> Iterator[Entry]:
    for name in dir(owner):
        if (
            owner is ecc.headers.CongestionHeader
            or name.startswith("_")
            or name.endswith("_law")
            or name in CALLED
            or issubclass(owner, BaseException)
        ):
            continue
        static = inspect.getattr_static(owner, name)
        bound = isinstance(static, classmethod | staticmethod)
        if isinstance(static, staticmethod) and issubclass(owner, ecc.models.Protocol):
            continue  # laws under other names
        if not (bound or inspect.isfunction(static)) or inspect.isabstract(owner):
            continue
        call = getattr(owner, name)
        if getattr(call, "__module__", "").startswith("ecc."):
            parameters = _parameters(call)
            parameters = parameters if bound else parameters[1:]
            if parameters:
                yield Entry(f"{full}.{name}", module, call, parameters, None if bound else owner)


def _parameters(call: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        found = inspect.signature(call).parameters.values()
    except ValueError:
        return ()
    return tuple(one for one in found if one.kind not in kinds and not one.name.startswith("_"))


@cache
def instance(owner: type, maker: str) -> Any:
    """Something to call methods of a class on, by one of the makers if there is such a one."""
    made = makers().get(maker)
    return (
        made()
        if made
        else owner(
            **required(Entry(f"{owner.__module__}.{owner.__name__}", owner.__module__, owner, _parameters(owner)))
        )
    )


def required(entry: Entry) -> dict[str, Any]:
    """Good values for the parameters without defaults, and for those whose defaults will not do."""
    return {
        one.name: entry.good_value(one.name)
        for one in entry.parameters
        if one.default is inspect.Parameter.empty or any(key in good() for key in entry.keys(one.name))
    }


# ---- bad arguments ----------------------------------------------------------------------------------------


class Odd:
    """An object of no use, for any call."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass


@cache
def pool() -> list[Any]:
    """What is put where it does not belong."""
    loop: list[Any] = []
    loop.append(loop)
    numbers = [
        True,
        False,
        0,
        -1,
        1,
        2,
        7,
        2**31,
        2**63,
        2**64,
        10**400,
        -(10**400),
        10**5000,
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        5e-324,
        1e-300,
        1e300,
        -1e300,
        1.7976931348623157e308,
        float("nan"),
        float("inf"),
        float("-inf"),
        1j,
        complex("nan"),
        Fraction(1, 3),
        Fraction(10**400),
        Decimal("NaN"),
        Decimal("1e400"),
        np.int64(-(2**63)),
        np.float32("nan"),
        np.float64("inf"),
        np.datetime64("NaT"),
        np.bool_(True),
    ]
    texts = [
        "",
        "x",
        "x" * 100_000,
        "10 ms",
        "-1 s",
        "nan s",
        "inf",
        "1e400 s",
        "10 parsecs",
        "10 Mb/s",
        "\0",
        "\ud800",
        "alpha",
        "discrete",
        b"",
        b"\xff" * 10,
    ]
    arrays = [
        np.zeros(0),
        np.zeros((0, 3)),
        np.zeros((2, 2, 2)),
        np.array(float("nan")),
        np.full(400, np.nan),
        np.array([1.0, np.inf]),
        np.array(["a"]),
        np.array([None, 1]),
        np.arange(3),
        np.ones((3, 2)),
        -np.ones(2),
        np.array([1e308, -1e308]),
        np.array([10**400], dtype=object),
        np.zeros(2, dtype=[("a", "f8")]),
    ]
    others = [
        None,
        Ellipsis,
        object(),
        Odd(),
        Odd,
        lambda *a, **b: None,
        lambda *a, **b: float("nan"),
        [],
        {},
        (),
        set(),
        [None],
        [[]],
        [[1], [2, 3]],
        [-1],
        [0],
        [0, 0],
        [1, 2],
        (1, 2),
        (2, 1),
        [float("nan")],
        [10**400],
        ["a"],
        {"a": 1},
        {"alpha": None},
        {None: None},
        {"alpha": []},
        {"x": [1.0]},
        loop,
        range(3),
        (i for i in ()),
        Path("nowhere"),
        Path("."),
        Path("/dev/null"),
        Path("/"),
        sys,
    ]
    ours = [good()[name] for name in ("network", "protocol", "scenario", "system", "flow", "run", "vectors")]
    return [*numbers, *texts, *arrays, *others, *ours]


@cache
def anything() -> st.SearchStrategy[Any]:
    """Mostly from the pool; else numbers, texts, and lists and tables of what is in the pool."""
    one = st.sampled_from(range(len(pool()))).map(lambda k: pool()[k])
    drawn = st.one_of(st.integers(), st.floats(), st.text(max_size=20))
    nested = st.lists(st.one_of(one, drawn), max_size=3)
    tables = st.dictionaries(st.text(max_size=5), one, max_size=2)
    found = st.one_of(one, one, one, drawn, nested, nested.map(tuple), tables)

    @settings(max_examples=1, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(found)
    def draw(value: Any) -> None:
        pass

    draw()  # what Hypothesis does once, a collection of all garbage among it: here, not in every process
    return found


# ---- what becomes of a call -------------------------------------------------------------------------------


class Interrupted(BaseException):
    """The time for a call is over."""


@dataclass
class Tally:
    """How many calls ended how, and the bad ones."""

    counts: Counter[str] = field(default_factory=Counter)
    bad: dict[str, str] = field(default_factory=dict)
    unnamed: dict[str, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        self.counts += other.counts
        self.bad |= other.bad
        self.unnamed |= other.unnamed


def shown(value: Any) -> str:
    """A short form of any value."""
    try:
        text = repr(value)
    except Exception as error:  # an integer of too many digits, for one
        text = f"<{type(value).__name__}: {error}>"
    return text if len(text) <= 60 else text[:57] + "..."


def ours(error: BaseException) -> bool:
    """Whether an exception was raised by a `raise` in the package."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0)
    return frame.filename.startswith(ROOT) and "raise" in line


def judge(call: Callable[[], Any], seconds: float) -> tuple[str, str]:
    """Make a call and say how it ended: "result", "refused", "long" or "bad", with the message."""

    running = True

    def ring(number: int, frame: Any) -> None:
        if running:
            raise Interrupted

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)  # of work: on a busy machine a call takes as long as it takes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("ignore", "the run ended at .* s: out of memory", RuntimeWarning)
            try:
                call()
            finally:
                running = False
        return "result", ""
    except Interrupted:
        return "long", ""
    except (ValueError, TypeError, ecc.EccError) as error:
        message = str(error)
        if traceback.extract_tb(error.__traceback__)[-1].filename == __file__:  # of a function of the caller's: its own
            return "result", ""
        if not message or "\n" in message:
            return "bad", f"{type(error).__name__} whose message has not one line: {message[:200]!r}"
        if not ours(error):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return "bad", f"{type(error).__name__} from {frame.filename}:{frame.lineno}: {message[:200]}"
        return "refused", message
    except OSError as error:
        return (
            ("refused", str(error))
            if error.filename is not None or ours(error)
            else ("bad", f"OSError of no file: {error}")
        )
    except BaseException as error:
        if traceback.extract_tb(error.__traceback__)[-1].filename == __file__:
            return "result", ""
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if f.filename.startswith(ROOT)), frames[-1])
        return "bad", f"{type(error).__name__} at {place.filename}:{place.lineno}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def attempt(entry: Entry, changes: dict[str, Any], seconds: float, tally: Tally) -> None:
    """Call with some arguments replaced, and count."""
    arguments = required(entry) | changes

    def call() -> Any:
        on = () if entry.owner is None else (instance(entry.owner, entry.maker()),)
        plain = [arguments.pop(p.name) for p in entry.parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY]
        return entry.call(*on, *plain, **arguments)

    verdict, message = judge(call, seconds)
    tally.counts[verdict] += 1
    said = f"{entry.name}({', '.join(f'{k}={shown(v)}' for k, v in changes.items())})"
    if verdict == "bad":
        tally.bad[said] = message
    elif verdict == "refused" and len(changes) == 1 and next(iter(changes)) not in message:
        tally.unnamed[said] = message


def trial(entry: Entry, examples: int, seconds: float) -> Tally:
    """Call one callable so many times, always the same times."""
    tally = Tally()
    parameters = [one.name for one in entry.parameters]
    some = st.lists(st.sampled_from(parameters), min_size=1, max_size=3, unique=True)
    attempt(entry, {}, 60.0, Tally())  # Numba, which compiles what the first call needs, must not be interrupted
    for one in parameters:  # None everywhere, whatever Hypothesis draws
        attempt(entry, {one: None}, seconds, tally)

    @seed(crc32(entry.name.encode()))
    @settings(
        max_examples=examples * max(1, len(parameters)),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        chosen = data.draw(some)
        chosen = chosen[:1] if data.draw(st.booleans()) else chosen
        attempt(entry, {name: data.draw(anything()) for name in chosen}, seconds, tally)

    if parameters:
        draw()
    return tally


def isolated(entry: Entry, examples: int, seconds: float, limit: float) -> Tally:
    """The same in a process of its own, so that a crash or a hang is counted too."""
    import pickle

    anything()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            tally = trial(entry, examples, seconds)
            with os.fdopen(writer, "wb") as out:
                pickle.dump(tally, out)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    done = b""
    import select

    until = time.monotonic() + limit
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        chunk = os.read(reader, 1 << 20) if ready else None
        if not chunk:
            break
        done += chunk
    os.close(reader)
    if chunk is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if status or chunk is None:
        how = "hang" if chunk is None else f"crash, status {status}"
        return Tally(Counter({"bad": 1}), {entry.name: how})
    tally = pickle.loads(done)
    assert isinstance(tally, Tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=12, help="calls for each parameter")
    parser.add_argument("--seconds", type=float, default=3.0, help="of CPU time for a call")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a callable")
    parser.add_argument(
        "--share", default="1/1", help="every Nth callable from the Kth on: several processes share them"
    )
    parser.add_argument("names", nargs="*", help="parts of names; all if none")
    chosen = parser.parse_args()
    total = Tally()
    callables = 0
    os.chdir(tempfile.mkdtemp())
    good()
    which, shares = map(int, chosen.share.split("/"))
    for entry in list(entries())[which - 1 :: shares]:
        if chosen.names and not any(part in entry.name for part in chosen.names):
            continue
        begun = time.monotonic()
        tally = isolated(entry, chosen.examples, chosen.seconds, chosen.limit)
        total.add(tally)
        callables += 1
        counts = ", ".join(f"{n} {kind}" for kind, n in sorted(tally.counts.items()))
        print(f"{entry.name}: {counts} ({time.monotonic() - begun:.1f} s)", flush=True)
        for said, why in tally.bad.items():
            print(f"    BAD {said}\n        {why}", flush=True)
    print(f"\n{sum(total.counts.values())} calls of {callables} callables: {dict(total.counts)}")
    print(f"{len(total.unnamed)} refusals do not name the only argument that was changed:")
    for said, why in total.unnamed.items():
        print(f"    {said}: {why}")
    return 1 if total.bad else 0


if __name__ == "__main__":
    sys.exit(main())
