"""Experiments that look for the causes of differences between computed cycles and those of packet runs.

`benchmarks/cycles_against_packets.py` runs the experiments of a protocol if a row of it disagrees. An experiment
changes one condition: of the computed cycle, of the packet runs, or of both. If a quantity then agrees within its
limits, the changed condition is the cause of its difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import data_center_cycles
import numpy as np

from ecc import packet
from ecc.claims.checks.data_centers.dctcp import _Variant
from ecc.contract.assignment import parameter_names, read_protocol, with_parameter
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.cycles import rate_updates, step_marking
from ecc.cycles.marked_links import marked_windows, starting_windows
from ecc.cycles.relays import relay_orbit
from ecc.errors import EccError
from ecc.models import NSCC, PEDN, TIMELY, Copa, Prague, Swift, copa, dctcp, edn, nscc, prague, swift, timely
from ecc.network.network import Network
from ecc.queues import StepMarking
from ecc.scenario import Scenario
from ecc.stability import LimitCycle, limit_cycle, measured_cycle

TIMES = ("continuous", "discrete")
SMALLER = 4
Case = tuple[Any, Network]  # a loop, and its network
Change = Callable[[Any, Network], Case]
Computation = Callable[[Any, Network, str], LimitCycle]


def measured(loop: Any, network: Network, computed: LimitCycle, **engine: str) -> LimitCycle:
    """Return the motion of runs whose period is nearest to the computed one, or the shortest that repeats."""
    try:
        return measured_cycle(loop, network, near=computed.period, **engine)
    except EccError:
        return measured_cycle(loop, network, **engine)


def _same(loop: Any, network: Network) -> Case:
    return loop, network


@dataclass(frozen=True)
class Experiment:
    """A change of one condition, and the effect that explains the differences which vanish with it.

    Attributes
    ----------
    change : str
        What the experiment changes, after "deviations", for example "with packets four times smaller".
    cause : str
        The effect, as a clause after the quantity that it changes.
    changed : callable
        Change of the loop and the network, of the computed cycle and of the packet runs.
    computed : callable
        Computation of the cycle, if it is another than `limit_cycle`.
    packets : callable
        A further change of the loop and the network of the packet runs, to hosts that compute the same law otherwise.
    measure : callable
        Measurement of the cycle of the runs, if it is another than `measured`.
    times : tuple of str
        Times of the computed cycles that it concerns.
    """

    change: str
    cause: str
    changed: Change = _same
    computed: Computation = limit_cycle
    packets: Change = _same
    measure: Callable[[Any, Network, LimitCycle], LimitCycle] = measured
    times: tuple[str, ...] = TIMES

    def run(self, loop: Any, network: Network, time: str) -> tuple[LimitCycle, LimitCycle]:
        """Return the computed cycle and that of runs, both with the changes."""
        case = self.changed(loop, network)
        computed = self.computed(*case, time)
        return computed, self.measure(*self.packets(*case), computed)


def with_packets(size: Callable[[float], float]) -> Change:
    """Return a change of the packets of all flows to a size [bytes], a function of the present size."""

    def changed(loop: Any, network: Network) -> Case:
        flows = [replace(flow, packet_size=max(40, int(size(flow.mean_packet)))) for flow in network.flows]
        return loop, network.with_flows(flows)

    return changed


GRANULARITY = Experiment(
    "with packets four times smaller", "granularity of packets", with_packets(lambda size: size // SMALLER)
)


# ---- relays: EDN, PEDN, Copa -------------------------------------------------------------------------------

STEP = 40.0
"""Packets by which windows of `_steps` change."""


def _with_delays(loop: Any, network: Network, time: str) -> LimitCycle:
    """Return the cycle of relays with the delays of hosts in packet runs."""
    orbit = relay_orbit(loop, network, loop.relay_delays)
    neutral = abs(orbit.difference - 1.0) < 1e-6
    values = [0.0] if neutral else [*[orbit.difference] * (network.n_flows - 1), 0.0]
    multipliers = np.array(sorted(values, reverse=True), dtype=complex)
    fluid = limit_cycle(loop, network, time)
    return replace(fluid, period=orbit.period, amplitude=orbit.amplitude, multipliers=multipliers)


def _stepped(w: float, R: float, s: float, p: Params) -> float:
    """EDN's law with steps of STEP packets."""
    return max(w + STEP * s * edn.direction(R, p), s)


def _count(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Count ACKs as EDN does, and change the window by STEP packets."""
    s, R = 1.0 * env.packet_size, header.forward + header.reverse
    if env.window < flow.ssthresh:
        edn.on_ack(flow, header, p, env)
    else:
        flow.count += edn.direction(R, p) * env.acked / s
        if abs(flow.count) * s >= env.window:
            env.window = _stepped(env.window, R, s, p)
            flow.ssthresh = min(flow.ssthresh, env.window)
            flow.count = 0.0


def _once_per_rtt(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Change the window by STEP packets per RTT, by the ACK of the second packet sent after the last change."""
    s, R = 1.0 * env.packet_size, header.forward + header.reverse
    if env.window < flow.ssthresh:
        edn.on_ack(flow, header, p, env)
    elif env.delivered >= flow.count:
        env.window = _stepped(env.window, R, s, p)
        flow.ssthresh = min(flow.ssthresh, env.window)
        flow.count = max(1.0 * env.in_flight, env.window) + env.delivered + 2.0 * s


_law_of_copa = Copa.source_law


def _copa_once_per_rtt(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Change the window once per RTT by Copa's law, by the ACK of a packet that saw the last change."""
    s = 1.0 * env.packet_size
    if flow.slow_start > 0:
        copa.flow_on_ack(flow, header, p, env)
        flow.rtt_began = 1.0 * env.delivered
    elif env.delivered >= flow.rtt_began:
        env.window = max(_law_of_copa(env.window, env.rtt - env.min_rtt, env.rtt, s, p), 2.0 * s)
        flow.rtt_began = max(1.0 * env.in_flight, env.window) + env.delivered + 2.0 * s / p.delta
        env.rate = 16.0 * env.window / env.srtt


def _steps(host: type, on_ack: Any) -> type:
    """Return a class of hosts of EDN or PEDN with large steps and another hook."""

    class Stepped(host):  # type: ignore[misc]
        source_law = staticmethod(_stepped)

        def flow_hooks(self) -> dict[str, Hook]:
            return {**super().flow_hooks(), "on_ack": on_ack}

    return Stepped


class _CopaOncePerRTT(Copa):
    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": _copa_once_per_rtt}


def _relays(host: type, cause: str, **limits: float) -> tuple[Experiment, ...]:
    """Return the experiments on EDN or PEDN; `cause`: what one flow with large steps does not have."""

    def one_flow(on_ack: Any) -> Change:
        network = Network.dumbbell("1 Gb/s", [0.1], packet_size=1500)
        return lambda *_: (_steps(host, on_ack)(quantized=False, **limits), network)

    return (
        Experiment(
            "of the cycle with the delays of hosts",
            "windows are constant for an RTT at each turn, as a host first undoes its count of ACKs, which the law per "
            "RTT leaves out",
            computed=_with_delays,
            times=("continuous",),
        ),
        Experiment(
            "of the cycle with the delays of hosts, for one flow with steps of 40 packets",
            cause,
            one_flow(_count),
            _with_delays,
            times=("continuous",),
        ),
        Experiment(
            "with hosts that change windows once per RTT, one flow and steps of 40 packets",
            "hosts change windows after a count of ACKs, and not once per RTT by the queue of one RTT ago as in "
            "discrete time; and whole packets",
            one_flow(_once_per_rtt),
            times=("discrete",),
        ),
    )


def _copa(flows: int, capacity: str) -> Change:
    """Return a change to hosts that keep 50 packets in queues, with windows of thousands of packets."""
    return lambda *_: (Copa(delta=0.02), Network.dumbbell(capacity, [0.1] * flows, packet_size=1500))


# ---- updates of rates: TIMELY ------------------------------------------------------------------------------

SLOTS = 16
"""Past values that `_follow` keeps in an interval."""


@dataclass
class _PastRates(timely.FlowState):
    slot: int = 0  # number of the last slot
    rates: tuple[float, ...] = (0.0,) * (2 * SLOTS)
    rtts: tuple[float, ...] = (0.0,) * (2 * SLOTS)


_law_of_timely = TIMELY.source_law


def _follow(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Let rates and states follow the law of an interval ago at each ACK, as the fluid does."""
    slot = int(env.now * SLOTS / p.interval)
    for k in range(max(flow.slot + 1, slot - 2 * SLOTS + 1), slot + 1):
        flow.rates[k % (2 * SLOTS)] = flow.x
        flow.rtts[k % (2 * SLOTS)] = env.rtt
    flow.slot = slot
    if flow.rtt > 0.0:
        lowest = timely.minimum_rate(p, env)
        share = min((env.now - flow.updated) / p.interval, 1.0)
        late, rtt_then = flow.rates[(slot - SLOTS) % (2 * SLOTS)], flow.rtts[(slot - SLOTS) % (2 * SLOTS)]
        rate = max(_law_of_timely(late, env.rtt, flow.gradient, flow.increases, p), lowest)
        gradient = timely.averaged(flow.gradient, env.rtt, rtt_then, p.interval, p)
        increases = timely.counted(flow.increases, flow.gradient, env.rtt, p)
        flow.x = max(flow.x + share * (rate - late), lowest)
        flow.gradient += share * (gradient - flow.gradient)
        flow.increases += share * (increases - flow.increases)
        env.rate = flow.x
    flow.rtt = env.rtt
    flow.updated = env.now


class _Following(TIMELY):
    FlowState = _PastRates

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": _follow}


DEVIATION = 0.03
"""Relative deviation of rates in `_finite_map`."""


def _finite_map(loop: Any, network: Network, time: str) -> LimitCycle:
    """Return the cycle in ticks with the mean slopes of its map for a finite deviation instead of its derivative."""
    cycle, parts = limit_cycle(loop, network, time), rate_updates._loop_of(loop, network)
    y, slopes = rate_updates._start(parts), []
    for k in range(rate_updates._SETTLING + rate_updates._AVERAGED):
        if k >= rate_updates._SETTLING:
            end = partial(rate_updates._tick_end, parts, y)
            slopes.append(rate_updates._slopes(parts, float(y[0, 0]), DEVIATION, end)[0])
        y = rate_updates._tick_cycle(parts, y).end
    moduli = np.exp(np.mean(np.log(np.maximum(np.abs(slopes), 1e-300)), axis=0))
    return replace(cycle, multipliers=np.sort(moduli)[::-1].astype(complex))


# ---- marks above a threshold: DCTCP, Prague ----------------------------------------------------------------

PARTS = 10
"""Small packets in a packet of 1500 bytes."""


def _per_response(loop: Any, network: Network, time: str) -> LimitCycle:
    """Return the cycle of rounds with period, amplitude and moduli as means per response to marks."""
    cycle = limit_cycle(loop, network, time)
    windows = cycle.orbit["windows"].sum(axis=0)
    responses = np.flatnonzero(np.diff(windows) < -1e-6 * windows.max()) + 1
    queue = np.split(np.roll(cycle.orbit["queue"], -responses[0]), responses[1:] - responses[0])
    moduli = np.abs(cycle.multipliers) ** (1.0 / len(responses))
    return replace(
        cycle,
        period=cycle.period / len(responses),
        amplitude=0.5 * float(np.mean([np.ptp(part) for part in queue])),
        multipliers=moduli.astype(complex),
    )


@dataclass
class _Held(dctcp.FlowState):
    held: int = 0  # 1 in the round after a response


def _dctcp_once_per_rtt(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Move alpha and the window once per RTT, by a mark on a packet that saw the last change."""
    step = p.packets * env.packet_size
    if flow.window_end == 0.0 and env.marked == 0:
        env.window += env.acked  # slow start
    elif env.delivered >= flow.window_end:
        marked = 1.0 if env.marked > 0 else 0.0
        flow.alpha = dctcp.averaged(flow.alpha, marked, p)
        if flow.held > 0:
            flow.held = 0
        elif marked > 0.0:
            env.window = dctcp.window_after_mark(env.window, flow.alpha, step)
            flow.held = 1
        else:
            env.window += step
        flow.ssthresh = env.window
        flow.window_end = max(1.0 * env.in_flight, env.window) + env.delivered + 2.0 * step


class _DCTCPOncePerRTT(_Variant):
    FlowState = _Held

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": _dctcp_once_per_rtt}


def _over_step(host: Any, network: Network, size: int, threshold: float) -> Case:
    """Return hosts over a threshold [packets of 1500 bytes], and the network with packets of a size."""
    marks = StepMarking(threshold=threshold * 1500.0 / size, packet_size=size)
    return read_protocol({"flows": host, "links": marks}), with_packets(lambda _: size)(host, network)[1]


@dataclass
class _HeldPrague(prague.FlowState):
    held: int = 0  # 1 in the round after a response
    round_end: float = 0.0  # the round ends when more than this is delivered [bytes]


@dataclass(frozen=True)
class _SmallPrague(Prague):
    """Prague with windows that grow by PARTS packets.

    `per_byte` is the time that the link takes for a byte of all flows [s]: hosts pace at the present RTT and average
    marks at each ACK. 0: they act once per RTT, without pacing.
    """

    per_byte: float = 0.0

    FlowState = _HeldPrague

    def params(self) -> dict[str, float]:
        return {"per_byte": self.per_byte, **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": _prague_on_ack}


def _prague_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open in slow start as Prague does, and then act at each ACK or once per RTT."""
    if flow.W < flow.ssthresh:
        prague.flow_on_ack(flow, header, p, env)
    elif p.per_byte > 0.0:
        _prague_at_present(flow, header, p, env)
    else:
        _prague_once_per_rtt(flow, header, p, env)


def _prague_at_present(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Average marks at each ACK, and pace at the RTT that follows from the bytes in flight."""
    before = flow.W
    if env.acked > 0:
        share = env.acked / flow.W * env.srtt / prague.virtual_rtt(env.srtt, p)
        flow.alpha += p.g * share * (min(1.0 * env.marked / env.acked, 1.0) - flow.alpha)
        flow.updated = env.now
    prague.flow_on_ack(flow, header, p, env)
    if flow.W > before:
        flow.W = before + PARTS * (flow.W - before)
    env.rate = 8.0 * flow.W / max(p.per_byte * env.in_flight, env.min_rtt)
    env.window = 2.0 * flow.W


def _prague_once_per_rtt(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Move alpha and the window once per RTT, by a mark on a packet that saw the last change."""
    step = PARTS * env.packet_size
    if env.delivered >= flow.round_end:
        marked = 1.0 if env.marked > 0 else 0.0
        flow.alpha = prague.averaged(flow.alpha, marked, env.rtt, p)
        if flow.held > 0:
            flow.held = 0
        elif marked > 0.0:
            flow.W = prague.reduced(flow.W, flow.alpha)
            flow.held = 1
        else:
            flow.W = prague.grown(flow.W, flow.W, env.rtt, step, step, p)
        flow.ssthresh = flow.W
        flow.round_end = max(1.0 * env.in_flight, flow.W) + env.delivered + step
    env.window = flow.W
    env.rate = 0.0


def _prague(is_present: bool) -> Change:
    """Return a change to `_SmallPrague` with small packets."""

    def changed(_: Any, network: Network) -> Case:
        per_byte = 8.0 * network.n_flows / float(network.capacities[0])
        return _over_step(_SmallPrague(per_byte=per_byte * is_present), network, 1500 // PARTS, 14.0)

    return changed


def _three_responses(loop: Any, network: Network, time: str) -> LimitCycle:
    """Return the cycle of Prague with three responses to marks, which a start with a small alpha reaches."""
    parts = marked_windows(loop, network)
    start = starting_windows(parts)
    start[:, 1] = 0.1
    return step_marking._paced_from(parts, start)


def _dctcp(parts: int, host: type = _Variant) -> Change:
    """Return a change to packets of 1500/parts bytes, with windows that grow by as many packets."""
    hosts = host(transport="sack", initial=10.0 * parts, packets=1.0 * parts)
    return lambda _, network: _over_step(hosts, network, 1500 // parts, 40.0)


def _first_flows(count: int) -> Change:
    """Return a change to the first flows of the network."""
    return lambda loop, network: (loop, network.with_flows(network.flows[:count]))


# ---- delays around a target: Swift, NSCC -------------------------------------------------------------------

ROUNDS, KICK, DECAY = 700, 600, 4
"""Ticks of a run of `_at_rest`, the tick at which a window deviates, and ticks after which the rest is compared."""


@dataclass
class _SwiftState(swift.FlowState):
    tick: int = 0


@dataclass
class _NSCCState(nscc.FlowState):
    tick: int = 0


_law_of_nscc, _increase_of_swift, _decrease_of_swift = NSCC.source_law, Swift.source_law, Swift.decrease_law


def _begins_tick(flow: Any, p: Params, env: FlowEnv) -> bool:
    """Return whether the tick of all hosts has passed since the last ACK; the first flow deviates at tick KICK."""
    tick = int(env.now / p.tick)
    begins = tick > flow.tick
    flow.tick = tick
    if begins and tick == KICK and env.flow == 0:
        env.window *= 1.02
    return begins


def _nscc_follows(flow: Any, p: Params, env: FlowEnv, share: float) -> None:
    """Move the window and the averaged delay by a share of an RTT."""
    flow.base = min(flow.base, env.min_rtt)
    delay, s, marked = max(env.rtt - flow.base, 0.0), p.parts * env.packet_size, 1.0 if env.marked > 0 else 0.0
    average = nscc.average_law(env.window, delay, env.rtt, s, marked, flow.average, p)
    flow.average = max(flow.average + share * (average - flow.average), 0.0)
    target = _law_of_nscc(env.window, delay, env.rtt, s, marked, flow.average, p)
    nscc.send_with(env.window + share * (target - env.window), flow, p, env)


def _nscc_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Follow the law at each ACK, or once per tick."""
    if p.tick == 0.0:
        _nscc_follows(flow, p, env, (env.delivered - flow.delivered) / env.window)
        flow.delivered = 1.0 * env.delivered
    elif _begins_tick(flow, p, env):
        _nscc_follows(flow, p, env, 1.0)


def _swift_at_ticks(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Change the window once per tick."""
    if _begins_tick(flow, p, env):
        R, s = p.hop_scaling * header.links, 1.0 * env.packet_size
        if env.rtt >= swift.target(env.window, R, s, p):
            swift.send_with(_decrease_of_swift(env.window, R, env.rtt, 1e300, s, p), p, env)
        else:
            swift.send_with(_increase_of_swift(env.window, R, env.rtt, s, p), p, env)


@dataclass(frozen=True)
class _SwiftAtTicks(Swift):
    tick: float = 0.0

    FlowState = _SwiftState

    def params(self) -> dict[str, float]:
        return {"tick": self.tick, **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": _swift_at_ticks}


@dataclass(frozen=True)
class _FollowingNSCC(NSCC):
    parts: float = 1.0  # packets for which laws have one
    tick: float = 0.0

    FlowState = _NSCCState

    def params(self) -> dict[str, float]:
        return {"parts": self.parts, "tick": self.tick, **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": _nscc_on_ack}


def _at_rest(loop: Any, network: Network, computed: LimitCycle) -> LimitCycle:
    """Return the point of rest of runs with hosts that act at ticks 2 % more than an RTT apart.

    The multiplier is that of a deviation of the first window by 2 %, as the mean decay over DECAY ticks.
    """
    tick = 1.02 * computed.period
    (name,) = (name for name in parameter_names(loop) if name.split(".")[-1] == "tick")
    loop = with_parameter(loop, name, tick)
    run = packet.simulate(Scenario(network, loop, ROUNDS * tick), tick, record=["env.window"])
    queue = run.queue.to_numpy()[KICK - 100 : KICK - 10, 0]
    windows = run.data["env.window"].to_numpy()[KICK + 1 :]
    difference = windows[:, 0] - windows[:, 1]
    decay = abs(float(difference[DECAY] / difference[0])) ** (1.0 / DECAY)
    mean = float(queue.mean())
    return replace(
        computed,
        period=float(network.rtts[0]) + 8.0 * mean / float(network.capacities[0]),
        mean=mean,
        amplitude=0.5 * float(np.ptp(queue)),
        multipliers=np.array([decay], dtype=complex),
    )


def _swift(host: type, parts: int, share: float, **values: Any) -> Change:
    """Return a change to packets of 4000/parts bytes, with an increase per RTT of a share of 4000 bytes."""

    def changed(loop: Any, network: Network) -> Case:
        known = {name: getattr(loop, name) for name in ("base_target", "hop_scaling", "fs_range")} | values
        scaled = {"ai": share * parts, "fs_min_cwnd": 0.1 * parts, "fs_max_cwnd": 100.0 * parts}
        hosts = host(**known, **scaled, min_cwnd=0.01 * parts)
        return hosts, with_packets(lambda _: 4000 // parts)(hosts, network)[1]

    return changed


def _twenty_flows(loop: Any, network: Network) -> Case:
    """Return Swift with small increases and a target that hardly depends on windows, on a link with twenty flows."""
    network = Network.dumbbell("200 Gb/s", [10e-6] * 20, packet_size=4000)
    return _swift(Swift, 1, 0.1, base_target="30 us", hop_scaling=0.0, fs_range="5 us")(loop, network)


def _late_flow(case: data_center_cycles.Case) -> Callable[[Any, Network, LimitCycle], LimitCycle]:
    """Return a measurement of packet runs of a case, in which one flow starts late."""

    def measure(loop: Any, network: Network, computed: LimitCycle) -> LimitCycle:
        period, queue, ratio = data_center_cycles.measured(case, computed.period)
        swing = 0.5 * float(np.ptp(queue))
        return replace(computed, period=period, amplitude=swing, multipliers=np.array([ratio], dtype=complex))

    return measure


TEN_FLOWS = data_center_cycles.swift(10)


def _small_nscc(loop: Any, network: Network) -> Case:
    """Return hosts that follow the law of NSCC for packets of 4096 bytes, with packets of 64 bytes."""
    marks = StepMarking(threshold=0.2 * 150e3 / 64, packet_size=64)
    hosts = _FollowingNSCC(parts=64.0)
    return read_protocol({"flows": hosts, "links": marks}), with_packets(lambda _: 64)(hosts, network)[1]


EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {
    "TIMELY": (
        Experiment(
            "with hosts whose rates follow the law gradually",
            "hosts change rates in steps of 20 us by the present law, which the fluid spreads over the next 20 us",
            packets=lambda _, network: (_Following(), network),
            times=("continuous",),
        ),
        Experiment(
            "of the map for deviations of 3 % of the rates",
            "the sum of rates is chaotic within the step of an update only; the runs show the decay of larger "
            "deviations",
            computed=_finite_map,
            times=("discrete",),
        ),
    ),
    "DCTCP": (
        Experiment(
            "with packets ten times smaller",
            "granularity of packets",
            packets=_dctcp(PARTS),
            times=("continuous",),
        ),
        Experiment(
            "with two flows, and packets ten times smaller",
            "flows send in trains, so that the ten hosts see marks at different times of an RTT and respond in turns",
            _first_flows(2),
            packets=_dctcp(PARTS),
            times=("continuous",),
        ),
        Experiment(
            "per response to marks, with two flows that act once per RTT, and packets ten times smaller",
            "hosts act at each ACK, with flows in turns, and not once per RTT at the same time as in discrete time, "
            "where a period also has several responses",
            _first_flows(2),
            _per_response,
            _dctcp(PARTS, _DCTCPOncePerRTT),
            times=("discrete",),
        ),
    ),
    "EDN": _relays(
        edn.EDN,
        "packets are whole, and their queue has half a packet more in amplitude than the fluid",
        A=0.002,
        B=0.003,
    ),
    "PEDN": _relays(
        PEDN,
        "with several flows, packets of a flow arrive in trains, as ACKs keep them together, and find more packets of "
        "their own in the queue than its mean share",
        A=167.0,
        B=250.0,
    ),
    "Copa": (
        Experiment(
            "of the cycle with the delays of hosts",
            "hosts see a rise of the queue later, as they use the minimum RTT over half an RTT",
            computed=_with_delays,
            times=("continuous",),
        ),
        Experiment(
            "of the cycle with the delays of hosts, with 50 packets of each flow in queues and 480 Mb/s",
            "hosts see a rise of the queue later, as they use the minimum RTT over half an RTT; and queues of two "
            "packets of each flow",
            _copa(2, "480 Mb/s"),
            _with_delays,
            times=("continuous",),
        ),
        Experiment(
            "with hosts that change windows once per RTT, one flow with 50 packets in the queue and 960 Mb/s",
            "hosts change windows at each ACK by the minimum RTT over half an RTT, and not once per RTT as in "
            "discrete time",
            _copa(1, "960 Mb/s"),
            packets=lambda _, network: (_CopaOncePerRTT(delta=0.02), network),
            times=("discrete",),
        ),
    ),
    "Prague": (
        Experiment(
            "of the cycle with three responses, with hosts that pace at the present RTT and average marks at each ACK, "
            "and packets ten times smaller",
            "hosts pace at the smoothed RTT, with a window that limits them after a response, and average marks once "
            "per virtual RTT; and cycles with two and three responses coexist",
            computed=_three_responses,
            packets=_prague(True),
            times=("continuous",),
        ),
        *(
            Experiment(
                f"per response to marks, with {name} once per RTT, and packets ten times smaller",
                "hosts are paced and act at each ACK, and not once per RTT at the same time as in discrete time, where "
                "a period also has several responses",
                flows,
                _per_response,
                _prague(False),
                times=("discrete",),
            )
            for name, flows in (("one flow that acts", _first_flows(1)), ("two flows that act", _first_flows(2)))
        ),
    ),
    "Swift": (
        Experiment(
            "with ten flows, one of which starts late, and packets ten times smaller",
            "differences of flows in these runs are below the noise of windows of one or two packets",
            lambda *_: (TEN_FLOWS.loop, TEN_FLOWS.network(TEN_FLOWS.size)),
            measure=_late_flow(TEN_FLOWS),
            times=("continuous",),
        ),
        Experiment(
            "with 20 flows, increases of a tenth of a packet and a target that hardly depends on windows",
            "windows of one or two packets grow by a packet per RTT, and hosts with other windows have other targets; "
            "the solution is that of many hosts with small increases and equal targets",
            _twenty_flows,
            packets=_swift(Swift, 40, 0.1, base_target="30 us"),
            times=("continuous",),
        ),
        Experiment(
            "of the point of rest with hosts that act at the same ticks, and increases and packets that are small",
            "hosts reduce windows at different times of an RTT, and not at the same time as in discrete time, where "
            "they come to rest",
            _swift(Swift, 1, 0.02),
            packets=_swift(_SwiftAtTicks, 40, 0.02),
            measure=_at_rest,
            times=("discrete",),
        ),
    ),
    "NSCC": (
        Experiment(
            "with hosts that follow the law at each ACK, and packets 64 times smaller",
            "hosts add increases after eight packets and reduce windows once per RTT, which the fluid averages over "
            "the RTT; and windows of 16 packets",
            packets=_small_nscc,
            times=("continuous",),
        ),
        Experiment(
            "with a flow that starts late, and packets 16 times smaller",
            "differences of flows are below the noise of windows of 16 packets",
            measure=_late_flow(data_center_cycles.nscc(4)),
            times=("continuous",),
        ),
        Experiment(
            "of the point of rest with hosts that act at the same ticks, and packets 64 times smaller",
            "hosts change windows at different times of an RTT, and not at the same time as in discrete time, where "
            "they come to rest",
            packets=_small_nscc,
            measure=_at_rest,
            times=("discrete",),
        ),
    ),
}
