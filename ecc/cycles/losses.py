"""Limit cycles of windows that grow until a queue overflows or packets are marked, with their multipliers.

The state at an overflow, the windows and memories of all flows, determines the state at the next one (`loss_motion`).
The map F from one to the next has a cycle of k overflows at F^k(z) = z, and deviations from it are multiplied over a
period by the eigenvalues of the derivative of F^k. Equal flows have two kinds of modes: all of them deviate in the same
way (sum), or some up and others down, so that the sum remains (difference). Modes of differences decide whether shares
become equal.

For a single flow that gains a packet per RTT and keeps the share b of its window, the multiplier of the sum is 0: it
loses at the same window every time, so that an overflow forgets the deviation. With N such flows that all lose,
differences are multiplied by b from one overflow to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle, time_mean
from ecc.cycles.loss_motion import LOSERS, Continuous, Group, Host, Motion, PerRound
from ecc.errors import LinearizationError
from ecc.network.network import Network
from ecc.queues.drop_tail import DropTail
from ecc.queues.step_marking import StepMarking

__all__ = ["cycle_of_map", "loss_cycle", "windows_in_rounds"]

_KINDS = (Kind.ACK_CLOCKED_WINDOWS, Kind.WINDOWS_WITH_STATES)
_MAX_OVERFLOWS = 120  # overflows until the motion must repeat, and those of a mean if it does not
_TANGENT = 1e-6  # packets: default deviation that is followed along a motion that does not repeat
_NEAR = 0.5  # part of the largest distance of two states below which the motion nearly returns
_MAX_PERIOD = 12  # overflows of a cycle
_REPEATS = 1e-7  # relative difference of two states that count as equal
_DEVIATION = 1e-3  # packets, or the same share of another state
_FORGOTTEN = 1e-4  # part of a deviation that counts as none
_KINK = 0.02  # difference of derivatives with two deviations that is reported
_JUMP = 1.0  # such a difference from which the map jumps at the cycle

Real = NDArray[np.float64]
Map = Continuous | PerRound


def loss_cycle(
    loop: Protocol | ProtocolAssignment,
    network: Network,
    time: str,
    losers: str = "arrivals",
    deviation: float = _TANGENT,
) -> LimitCycle:
    """Return the cycle of windows that grow until a buffer overflows, or until a threshold of marks is passed.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts with ACK-clocked windows and a `loss_response_law`; of an assignment, over drop-tail or `StepMarking`.
    network : Network
        One link with a finite buffer, or with `StepMarking`.
    time : str
        "continuous": windows grow at each ACK. "discrete": once per RTT, all at the same time, for equal RTTs.
    losers : str, optional
        Flows that the drops of a full buffer fall on: "growth" (all, in proportion to the growth of their windows),
        "arrivals" (all, in proportion to their rates, as in `ecc.fluid`), or "largest" (the flow with the largest
        window).
    deviation : float, packets, > 0, optional
        Size of the deviation that is followed along a motion that does not repeat. The default is infinitesimal. Larger
        ones, for example 10, show whether deviations of some packets decay where smaller ones grow.

    Returns
    -------
    LimitCycle
        Its `orbit` also has "losses", the number of losses per period of a flow of each group of equal flows, in the
        order of the flows; "windows" has a row for each group.

    Raises
    ------
    LinearizationError
        The loop is of another kind, the network has several links or an unlimited buffer, or RTTs differ in discrete
        time.
    ConvergenceError
        The queue does not fill again.

    Notes
    -----
    If the motion does not repeat after 12 overflows or fewer, for example because hosts act once per RTT and the number
    of rounds between overflows changes, its period is the mean time of the number of overflows after which it nearly
    returns: the smallest number of 12 or fewer at which the mean distance of two states is less than half of the
    largest. Amplitude and multipliers are means, too. The latter are, for each kind of mode, the factor by which a
    small deviation grows in a period, the exponential of the Lyapunov exponent.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=["100 ms"] * 2, buffer="125 kB")
    >>> cycle = loss_cycle(NewReno(), net, "continuous")
    >>> round(cycle.period, 1), cycle.multipliers.real.round(2).tolist()
    (9.9, [0.5, 0.0])
    """
    if not deviation > 0.0:
        raise ValueError(f"deviation must be > 0 packets, got {deviation!r}")
    hosts, link, marks = _hosts(loop, network, losers)
    if time == "discrete" and np.ptp(network.rtts) > 0.0:
        raise LinearizationError("hosts with unequal RTTs act at times without a common period")
    kind: type[Map] = PerRound if time == "discrete" else Continuous
    apart = losers == "largest"
    groups = _groups(hosts, network, marks, apart)
    capacity = float(network.capacities[0])
    return cycle_of_map(kind(capacity, link, groups, marks, losers), time, deviation)


def cycle_of_map(motions: Map, time: str, deviation: float = _TANGENT) -> LimitCycle:
    """Return the cycle of the return map of some motions, with its multipliers.

    Parameters
    ----------
    motions : Continuous or PerRound
    time : str
        "continuous" or "discrete".
    deviation : float, packets, optional
        As for `loss_cycle`.
    """
    orbit = _orbit(motions, _begin(motions))
    return _result(orbit, _modes(motions, orbit, deviation), time)


# ---- the loop ------------------------------------------------------------------------------------------------


def _hosts(
    loop: Protocol | ProtocolAssignment, network: Network, losers: str
) -> tuple[tuple[Protocol, ...], float, bool]:
    """Return the protocol of each flow, the room in the queue [bit], and whether hosts respond to marks."""
    if losers not in LOSERS:
        raise ValueError(f"losers must be one of {', '.join(LOSERS)}, got {losers!r}")
    if network.n_links != 1:
        raise LinearizationError(f"the return map from loss to loss has one link, not {network.n_links}")
    if isinstance(loop, Protocol):
        hosts, disciplines = (loop,) * network.n_flows, []
    else:
        deployment = loop.deploy(network)
        hosts = deployment.flows
        disciplines = [part for part in deployment.links[0] if not part.has_hosts() and not isinstance(part, DropTail)]
    for host in hosts:
        if kind_of_laws(host) not in _KINDS or host.loss_response_law is None:
            raise LinearizationError("its hosts have no ACK-clocked windows that respond to losses")
    if len(disciplines) > 1 or not all(isinstance(part, StepMarking) for part in disciplines):
        names = " and ".join(type(part).__name__ for part in disciplines)
        raise LinearizationError(f"the return map from loss to loss is over drop-tail or StepMarking, not {names}")
    if disciplines:
        (step,) = disciplines
        assert isinstance(step, StepMarking)
        return hosts, 8.0 * step.packet_size * step.threshold, step.mark and all(host.ecn_echo for host in hosts)
    buffer = network.links[0].buffer
    if buffer is None:
        raise LinearizationError("the buffer is unlimited, and no discipline limits the queue")
    return hosts, 8.0 * float(buffer), False


class _Kind(NamedTuple):
    """Flows that are equal."""

    host: Protocol
    rtt: float
    packet: float
    acknowledged: float
    number: int


def _groups(hosts: Sequence[Protocol], network: Network, marks: bool, apart: bool) -> tuple[Group, ...]:
    """Return the groups of equal flows; `apart`: each flow is a group."""
    members: dict[_Kind, int] = {}
    for i, (flow, host) in enumerate(zip(network.flows, hosts, strict=True)):
        kind = _Kind(host, float(network.rtts[i]), flow.mean_packet, flow.mean_acknowledged, i if apart else 0)
        members[kind] = members.get(kind, 0) + 1
    return tuple(
        Group(Host(kind.host, 8.0 * kind.packet, 8.0 * kind.acknowledged, marks), float(n), kind.rtt)
        for kind, n in members.items()
    )


def _begin(motions: Map) -> Motion:
    """Return a motion below overflow: the state right after a loss at windows that fill 3/4 of path and buffer."""
    n = sum(group.members for group in motions.groups)
    windows, memory = [], []
    for index, group in enumerate(motions.groups):
        share = (
            0.75 * (motions.capacity * group.rtt + motions.room) / n if motions.capacity < inf else motions.room**0.5
        )
        share *= 1.0 + 0.1 * index / len(motions.groups)
        y = [share, *(0.0 if callable(state.initial) else state.initial for state in group.host.states.values())]
        D = group.rtt + motions.room / motions.capacity
        y, remembered = group.host.reduced(y, 0.0, group.host.feedback(motions.room, motions.capacity), D)
        windows.append(y)
        memory.append(remembered)
    return Motion.of(windows, memory)


# ---- the orbit -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Orbit:
    """A cycle, or a motion that does not repeat: its state at an overflow, its overflows and its samples.

    `per_period` is the number of overflows in a period, and `overflows` that in the samples, which are one period of a
    cycle. `period`, `amplitude` [bit] and `losses` are means over periods.
    """

    start: Motion
    overflows: int
    per_period: int
    repeats: bool
    period: float
    amplitude: float
    times: Real
    queues: Real
    windows: Real  # (n_groups, n_times)
    used: float  # mean share of the capacity
    losses: Real


def _vector(motion: Motion) -> Real:
    """Return the windows, states, memories and dropped data of all groups."""
    return np.array(
        [
            value
            for y, memory, dropped in zip(motion.y, motion.memory, motion.dropped, strict=True)
            for value in (*y, memory, dropped)
        ]
    )


def _varying(motions: Map) -> NDArray[np.bool_]:
    """Return which entries of a vector a deviation may change: memories only if hosts have them."""
    return np.array(
        [
            varies
            for group in motions.groups
            for varies in (*[True] * (1 + len(group.host.states)), group.host.memory is not None, True)
        ]
    )


def _scales(motions: Map) -> Real:
    """Return the size of a deviation of each entry of a vector: a packet, or an RTT for times."""
    scales = []
    for group in motions.groups:
        packet = group.host.constants["s"]
        of_states = [
            packet if state.unit == "bit" else group.rtt if state.unit == "s" else 1.0
            for state in group.host.states.values()
        ]
        scales += [packet, *of_states, packet, packet]
    return np.array(scales)


def _orbit(motions: Map, start: Motion) -> _Orbit:
    """Return the cycle that the motion tends to, or a long part of the motion if it does not repeat."""
    motion, seen = start, []
    scales = _scales(motions)
    for _ in range(_MAX_OVERFLOWS):
        motion = motions.until_overflow(motion)
        seen.append(_vector(motion))
        for k in range(1, min(_MAX_PERIOD, len(seen) // 2) + 1):
            distance = np.abs(seen[-1] - seen[-1 - k]) / scales
            if np.all(distance <= _REPEATS * np.maximum(1.0, np.abs(seen[-1]) / scales)):
                return _sampled(motions, motion, k, k)
    return _sampled(motions, motion, _MAX_OVERFLOWS, _near_return(np.array(seen) / scales))


def _near_return(states: Real) -> int:
    """Return the number of overflows after which a motion that does not repeat nearly returns."""
    late = states[len(states) // 2 :]
    distances = [float(np.abs(late[k:] - late[:-k]).max(axis=1).mean()) for k in range(1, _MAX_PERIOD + 1)]
    near = [k for k, distance in enumerate(distances, 1) if distance < _NEAR * max(distances)]
    return near[0] if near else 1


def _sampled(motions: Map, motion: Motion, overflows: int, per_period: int) -> _Orbit:
    samples: list[tuple[float, float, list[float], float]] = []
    end, begins = motion, [0]
    for _ in range(overflows):
        end = motions.until_overflow(end, lambda *sample: samples.append(sample))
        begins.append(len(samples))
    columns = zip(*samples, strict=True)
    times, queues, windows, used = (np.array(column) for column in columns)
    times -= motion.t
    periods = overflows / per_period
    edges = begins[::per_period]
    swings = [float(np.ptp(queues[first:last])) for first, last in zip(edges, edges[1:], strict=False)]
    return _Orbit(
        motion,
        overflows,
        per_period,
        overflows == per_period,
        (end.t - motion.t) / periods,
        0.5 * float(np.mean(swings)),
        times,
        queues,
        windows.T,
        time_mean(used, times),
        (np.array(end.losses, dtype=float) - np.array(motion.losses)) / periods,
    )


# ---- its multipliers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Modes:
    """Multipliers of the modes: of all flows, and of differences within each group of equal flows."""

    common: NDArray[np.complex128]
    differences: tuple[NDArray[np.complex128], ...]
    error: float


def _modes(motions: Map, orbit: _Orbit, deviation: float) -> _Modes:
    if not orbit.repeats:
        divided = [g for g, group in enumerate(motions.groups) if group.members > 1.0]
        growth = [np.array([_mean_growth(motions, orbit, g, deviation)], complex) for g in (None, *divided)]
        return _Modes(growth[0], tuple(growth[1:]), 0.0)
    common, error = _eigenvalues(*_derivatives(motions, orbit, None))
    differences = []
    for g, group in enumerate(motions.groups):
        if group.members > 1.0:
            values, more = _eigenvalues(*_derivatives(motions, orbit, g))
            differences.append(values)
            error = max(error, more)
    return _Modes(common, tuple(differences), error)


def _derivatives(motions: Map, orbit: _Orbit, divided: int | None) -> tuple[Real, Real]:
    """Return the derivative of the map over a period, with a deviation and with a quarter of it.

    `divided` names a group of equal flows, of which one half deviates up and the other down; None: all groups deviate
    separately.
    """
    halves = motions if divided is None else _halved(motions, divided)
    start = orbit.start if divided is None else _with_halves(orbit.start, divided)
    scales = _scales(halves)
    size = len(scales) // len(halves.groups) if divided is None else 0
    columns, first = range(len(scales)), 0
    if divided is not None:
        first = sum(3 + len(group.host.states) for group in halves.groups[:divided])
        size = 3 + len(halves.groups[divided].host.states)
        columns = range(first, first + size)

    def image(column: int, amount: float) -> Real:
        vector = _vector(start)
        vector[column] += amount * scales[column]
        if divided is not None:
            vector[column + size] -= amount * scales[column]
        motion = _moved_to(start, vector)
        for _ in range(orbit.overflows):
            motion = halves.until_overflow(motion)
        after = _vector(motion) / scales
        if divided is not None:
            after = 0.5 * (after[first : first + size] - after[first + size : first + 2 * size])
        return after

    varying = _varying(halves)
    used = np.array([varying[column] for column in columns])

    def derivative(amount: float) -> Real:
        slopes = [(image(j, amount) - image(j, -amount)) / (2.0 * amount) for j in columns if varying[j]]
        return np.asarray(np.array(slopes).T[used])

    return derivative(_DEVIATION), derivative(0.25 * _DEVIATION)


def _mean_growth(motions: Map, orbit: _Orbit, divided: int | None, small: float) -> float:
    """Return the factor by which a small deviation [packets] grows in a period, as a geometric mean."""
    halves = motions if divided is None else _halved(motions, divided)
    motion = orbit.start if divided is None else _with_halves(orbit.start, divided)
    scales, varying = _scales(halves), _varying(halves)
    deviation = np.where(varying, 1.0, 0.0)
    if divided is not None:
        first = sum(3 + len(group.host.states) for group in halves.groups[:divided])
        size = 3 + len(halves.groups[divided].host.states)
        deviation[:first] = deviation[first + 2 * size :] = 0.0
        deviation[first + size : first + 2 * size] *= -1.0
    logarithms = []
    for _ in range(orbit.overflows):
        deviation *= small / float(np.max(np.abs(deviation)))
        near = halves.until_overflow(_moved_to(motion, _vector(motion) + scales * deviation))
        motion = halves.until_overflow(motion)
        deviation = (_vector(near) - _vector(motion)) / scales
        grown = float(np.max(np.abs(deviation)))
        if grown <= _FORGOTTEN * small:
            return 0.0
        logarithms.append(float(np.log(grown / small)))
    return float(np.exp(orbit.per_period * np.mean(logarithms[len(logarithms) // 4 :])))


def _halved(motions: Map, divided: int) -> Map:
    groups = list(motions.groups)
    half = groups[divided]._replace(members=0.5 * groups[divided].members)
    groups[divided : divided + 1] = [half, half]
    return replace(motions, groups=tuple(groups))


def _with_halves(motion: Motion, divided: int) -> Motion:
    doubled = motion.copy()
    for name in ("y", "memory", "dropped", "due", "until", "flight", "losses"):
        values = getattr(doubled, name)
        values.insert(divided, list(values[divided]) if name == "y" else values[divided])
    return doubled


def _moved_to(motion: Motion, vector: Real) -> Motion:
    """Return a motion with the windows, states, memories and dropped data of a vector."""
    moved, k = motion.copy(), 0
    for g, y in enumerate(moved.y):
        n = len(y)
        moved.y[g] = [float(value) for value in vector[k : k + n]]
        moved.memory[g], moved.dropped[g] = float(vector[k + n]), float(vector[k + n + 1])
        k += n + 2
    return moved


def _eigenvalues(matrix: Real, other: Real) -> tuple[NDArray[np.complex128], float]:
    """Return the eigenvalues and an error estimate; one 0 stands for all deviations that are forgotten."""
    error = float(np.max(np.abs(matrix - other), initial=0.0))
    kept = np.arange(len(other))
    forgotten = False
    while len(kept):
        part = other[np.ix_(kept, kept)]
        used = (np.max(np.abs(part), axis=0) > _FORGOTTEN) & (np.max(np.abs(part), axis=1) > _FORGOTTEN)
        if used.all():
            break
        forgotten, kept = True, kept[used]
    values = np.linalg.eigvals(other[np.ix_(kept, kept)]).astype(complex)
    values[np.abs(values) < 10.0 * _FORGOTTEN] = 0.0
    if forgotten and not np.any(values == 0.0):
        values = np.append(values, 0.0)
    return values[np.argsort(-np.abs(values), kind="stable")], error


# ---- the result ----------------------------------------------------------------------------------------------


def _result(orbit: _Orbit, modes: _Modes, time: str) -> LimitCycle:
    values = np.concatenate([modes.common, *modes.differences])
    values = values[np.argsort(-np.abs(values), kind="stable")]
    queue = orbit.queues / 8.0
    mean = time_mean(queue, orbit.times)
    notes = []
    jumps = modes.error > _JUMP
    if jumps:
        values = np.zeros(0, complex)
        notes.append(
            "the return map jumps within a thousandth of a packet of the cycle: such a deviation decides which flows "
            "lose, or whether a law takes a window to be above the last one"
        )
    elif modes.error > _KINK:
        notes.append(
            f"the return map has a kink near the cycle: derivatives with two deviations differ by {modes.error:.2g}"
        )
    overflows = f"{orbit.overflows} overflow{'s' if orbit.overflows > 1 else ''}"
    if orbit.repeats:
        method = f"return map over {overflows}, central differences with an error of {modes.error:.1g}"
    else:
        method = f"Lyapunov exponents of the return map over {overflows}"
        notes.append(
            f"the motion does not repeat: the period is the mean time of {orbit.per_period} overflows, after which it "
            "nearly returns, and amplitude and multipliers are means"
        )
    return LimitCycle(
        "cycle",
        time,
        orbit.period,
        mean,
        orbit.amplitude / 8.0,
        values,
        utilization=orbit.used,
        stable=None if jumps else bool(np.all(np.abs(values) < 1.0)),
        method=method,
        orbit={
            "time": orbit.times,
            "queue": queue,
            "windows": orbit.windows / 8.0,
            "losses": orbit.losses,
        },
        notes=tuple(notes),
    )


def windows_in_rounds(
    loop: Protocol | ProtocolAssignment, network: Network, losers: str = "arrivals"
) -> tuple[PerRound, Motion]:
    """Return the windows of all flows in rounds, each flow in a group, and a state below overflow.

    Parameters
    ----------
    loop, network, losers
        As for `loss_cycle` in discrete time.

    Raises
    ------
    LinearizationError
        The loop is of another kind, or RTTs differ.
    """
    hosts, room, marks = _hosts(loop, network, losers)
    if np.ptp(network.rtts) > 0.0:
        raise LinearizationError("hosts with unequal RTTs act at times without a common period")
    motions = PerRound(float(network.capacities[0]), room, _groups(hosts, network, marks, True), marks, losers)
    return motions, _begin(motions)
