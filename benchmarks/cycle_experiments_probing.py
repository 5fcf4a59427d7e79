"""Experiments of `cycle_experiments.py` on hosts that probe: BBR and C4."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from cycle_experiments import Case, Experiment

from ecc import packet
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.env import FluidEnv, Params
from ecc.contract.forms import StateMachine
from ecc.cycles.probing import CycleStarts, Hooks, staggered
from ecc.cycles.signals import memory_maps, multipliers_of
from ecc.models import BBR
from ecc.models.shared import bbr_fluid
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.stability import LimitCycle, limit_cycle

LENGTH, LONGER, SHORTER, SETTLING = 400.0, 500.0, 200.0, 0.25  # s, s; share of a run before the cycles that count
SPREAD, ACKS = 0.8, 64  # largest deviation of the distance of irregular ACKs, as a share of its mean; ACKs per RTT
BEGUN, KEPT = 6, 2  # cycles before hosts get the bounds of packets, and cycles in which they hardly change
SOON = 0.1  # s; flows that start so soon after each other have the same shares in the model and in packets


def _one_flow(loop: Any, network: Network) -> Case:
    return loop, network.with_flows(network.flows[:1])


def _hooks(loop: Any, network: Network, time: str = "continuous", **options: Any) -> Hooks:
    """Return a run of hosts that act at each ACK, or in discrete time once per RTT."""
    network = staggered(network)
    return Hooks(ProtocolAssignment.of(loop).deploy(network).flows, network, time, **options)


def _means(hooks: Hooks, starts: CycleStarts, traces: list[list[tuple[float, ...]]], time: str) -> LimitCycle:
    """Return the means of the last cycles of a run, from traces of time and queue, as those of packet runs."""
    swings = [0.5 * float(np.ptp([queue for _, queue, *_ in trace])) for trace in traces]
    mean = float(np.mean([queue for trace in traces for _, queue, *_ in trace]))
    period = float(np.diff(starts.times[-len(traces) - 1 :]).mean())
    table = np.array(starts.memories[-len(traces) :]).reshape(len(traces), len(hooks.run.hosts), -1)
    maps = memory_maps({str(k): table[:, :, k] for k in range(table.shape[2])})
    return LimitCycle("random cycle", time, period, mean, float(np.mean(swings)), multipliers_of(maps))


def _at_each_ack(loop: Any, network: Network, time: str, length: float = LENGTH, **options: Any) -> LimitCycle:
    """Return the means of cycles of hosts that act at each ACK."""
    hooks = _hooks(loop, network, **options)
    starts, traces = hooks.starts(hooks.begins()), []
    while hooks.next_start(hooks.run, starts, length):
        traces.append(hooks.trace)
    first = int(np.searchsorted(starts.times, SETTLING * length))
    return _means(hooks, starts, traces[first + 1 :], time)


def _soon(loop: Any, network: Network) -> Case:
    """Return the loop with a second flow that starts SOON after the first one."""
    flows = [replace(flow, start=SOON * index) for index, flow in enumerate(network.flows)]
    return loop, network.with_flows(flows)


def _with_bounds(loop: Any, network: Network, time: str) -> LimitCycle:
    """Return the means of cycles of hosts that act at each ACK, and begin with bandwidths and bounds of packets."""
    scenario = Scenario(staggered(network), loop, LENGTH, seed=1)
    run = packet.simulate(scenario, float(network.rtts[0]), record=["flow.bw", "flow.inflight_longterm"])
    late = slice(int(SETTLING * len(run.queue)), None)
    rates, bounds = (run[f"flow.{name}"].to_numpy()[late].mean(axis=0) for name in ("bw", "inflight_longterm"))
    hooks = _hooks(loop, network)
    starts, traces = hooks.starts(hooks.begins()), []
    while len(starts.times) < BEGUN + KEPT and hooks.next_start(hooks.run, starts, LENGTH):
        traces.append(hooks.trace)
        if len(starts.times) == BEGUN:
            for host, rate, bound in zip(hooks.run.hosts, rates, bounds, strict=True):
                flow = host.flow
                flow.inflight_longterm = float(bound)
                flow.bw = flow.max_bw = float(rate)
                flow.max_bw_filter[:] = [flow.bw, flow.bw]
    return _means(hooks, starts, traces[-KEPT:], time)


def _step_after_drain(flow: bbr_fluid.ByRounds, header: Any, p: Params, env: FluidEnv) -> None:
    """Step version 3, with a ProbeRTT whose 200 ms begin when the volume in flight has fallen to its level."""
    level = 0.5 * flow.bw * flow.min_rtt + env.packet_size
    if flow.state == bbr_fluid.PROBE_RTT and env.in_flight > level:
        flow.began = env.now
    bbr_fluid.step_3(flow, header, p, env)


class DrainedBBR(BBR):
    """Version 3 with the fluid of `_step_after_drain`."""

    @property
    def fluid_form(self) -> StateMachine:
        return bbr_fluid.VERSION_3._replace(on_step=_step_after_drain)


def _after_drain(_: Any, network: Network, time: str) -> LimitCycle:
    """Return the cycle of the fluid with `_step_after_drain`."""
    return limit_cycle(DrainedBBR(), network, time)


def _hooks_at_each_ack(cause: str, time: str) -> Experiment:
    return Experiment("of the hooks that act at each ACK", cause, computed=_at_each_ack, times=(time,))


START = (
    "bounds of the bytes in flight last for many cycles, so that shares depend on the start, after which those of the "
    "model and of packets differ"
)

EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {
    "BBR": (
        Experiment(
            "of the fluid in which the 200 ms of ProbeRTT begin when the volume in flight has fallen to its level",
            "flows of the fluid leave ProbeRTT 200 ms after they enter it, at different times, and a flow that is "
            "alone on the link overestimates its bandwidth",
            computed=_after_drain,
            times=("continuous",),
        ),
        _hooks_at_each_ack("hosts draw the waits between probes, which are constant in the fluid", "continuous"),
        Experiment(
            "with one flow",
            "the sum of the bandwidths of two flows exceeds the capacity, by a share that depends on the order of "
            "their probes; with one flow the model agrees",
            _one_flow,
            times=("discrete",),
        ),
    ),
    "BBRv1": (
        _hooks_at_each_ack(
            "hosts draw the phase of probes after ProbeRTT, which is constant in the fluid", "continuous"
        ),
    ),
    "BBRv2": (
        Experiment(f"with a second flow that starts {SOON} s after the first one", START, _soon, times=("discrete",)),
        Experiment(
            "of the hooks that act at each ACK",
            "hosts act at each ACK, with the filters of the hooks",
            computed=partial(_at_each_ack, length=SHORTER),
            times=("continuous",),
        ),
        Experiment(
            "of the hooks that act at each ACK, with the bandwidths and bounds of packets at the start",
            f"hosts act at each ACK, with the filters of the hooks; and {START}",
            computed=_with_bounds,
        ),
    ),
    "C4": (
        *(
            Experiment(
                "of the hooks that act at each of 64 ACKs per RTT, at irregular times",
                cause,
                computed=partial(_at_each_ack, length=LONGER, spread=SPREAD, acks=ACKS),
                times=(time,),
            )
            for time, cause in (
                ("discrete", "hosts act at each ACK, at irregular times, and not once per RTT"),
                (
                    "continuous",
                    "the model has 32 ACKs of a flow per RTT, and packets have 125; and the mean swing of its run has "
                    "a standard error of several percent",
                ),
            )
        ),
        Experiment(
            "of the hooks that act at each of 128 ACKs per RTT, at irregular times",
            "the model has 32 ACKs of a flow per RTT, and packets have 125",
            computed=partial(_at_each_ack, length=300.0, spread=0.95, acks=128),
            times=("continuous",),
        ),
        Experiment(
            "with one flow",
            "probes of two flows raise each other's queue, at times that depend on the order of single packets; with "
            "one flow the model agrees",
            _one_flow,
        ),
    ),
}
