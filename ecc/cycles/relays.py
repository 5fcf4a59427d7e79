"""Cycles of windows that rise and fall like relays: the exact orbit of the fluid, and the map from round to round.

N equal flows share one link of capacity C, with the RTT D_0 without queues. ACKs clock them, and the queue does not
empty for long. The law adds a step g = law(w, R, D) - w per RTT, which takes a few values only: for example s below a
threshold and -s above it. Let theta count RTTs, and let data be sent at time u and acknowledged at time t:

    dt = max(D_0, W/C) dtheta            W = sum of windows; the queue is W - C D_0 if that is > 0
    w' = g                               per RTT, so windows are piecewise linear in theta
    t = u + max(D_0, W(u)/C)             exact delay
    g(t) = law(w(t), R(u), D(u)) - w(t)  R by the router law, from the queue and its part w/W of the flow at time u

Between two switches W is linear in theta, and t is a quadratic function of theta. The orbit is therefore computed from
switching time to switching time, each to machine precision. In terms of time W^2 is linear while the queue is not
empty.

Multipliers. A switch that follows the last one by more than an RTT depends on data of the same straight piece, and
forgets the rest: the sum of the windows returns dead beat, with the multiplier 0. For differences, one window w_i
deviates and the sum does not. If g depends on w_i, the flow switches earlier or later by d_t, which changes its window
by the jump of g times d_t/D. This is the saltation term of the derivative. Two switches per period with the share
rho = q/W of a flow's data in the queue give (1 - 2 rho)^2. If g does not depend on w_i, the N - 1 differences are
constant: there are cycles for any shares. Rates are taken in proportion to windows: ACK clocking also repeats any
pattern of bursts from RTT to RTT, which neither decays nor grows.

In rounds (hosts act once per RTT) the window becomes law(w, R, D) with R of the round before. A relay has slope 0, so
the derivative of the map is the identity: cycles of two rounds exist for any position between the levels, and for any
shares.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import RelayDelays
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import AtRest, LimitCycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.arguments import call_law
from ecc.network.network import Network

__all__ = ["relay_limit_cycle", "relay_orbit"]

_SCAN = 64  # steps per RTT in which a change of the law's step is searched
_LONGEST = 200.0  # RTTs within which a further switch follows
_ROUNDS = 8  # maximum number of rounds of a cycle
_SWITCHES = 48  # maximum number of switches until the orbit repeats
_REPEATS = 1e-9  # relative difference of two periods that count as equal
_AFTER = 1e-9  # RTTs: a law may have a third value exactly at its threshold
_APART = 0.01  # RTTs: more than switches move by a deviation
_DEVIATION = 1e-6  # relative deviation of a window, for derivatives
_NO_DELAYS = RelayDelays()


@dataclass(frozen=True)
class _Loop:
    """N equal flows on a link: capacity [bit/s], RTT without queues [s], packet [bit]."""

    protocol: Protocol
    n_flows: int
    capacity: float
    rtt: float
    packet: float

    @cached_property
    def params(self) -> Any:
        """Parameters as laws take them."""
        return self.protocol.namespace()

    @property
    def pipe(self) -> float:
        """Data in flight without a queue [bit]."""
        return self.capacity * self.rtt

    def delay(self, total: float) -> float:
        """RTT of data sent when the sum of the windows is `total` [s]."""
        return max(self.rtt, total / self.capacity)

    def step(self, window: float, sent_window: float, sent_total: float) -> float:
        """Change of a window per RTT [bit], by the report on data sent when windows were `sent_*`."""
        queue, p = max(sent_total - self.pipe, 0.0), self.params
        at_router = {"q": queue, "C": self.capacity, "s": self.packet, "p": p}
        at_router["q_flow"] = queue * sent_window / sent_total
        R = call_law(self.protocol.router_law, at_router)
        at_host = {"w": window, "R": R, "D": self.delay(sent_total), "s": self.packet, "p": p}
        return float(call_law(self.protocol.source_law, at_host)) - window


def _loop_of(protocol: Protocol | ProtocolAssignment, network: Network) -> _Loop:
    """Return the loop of a protocol with a relay on one link with equal RTTs."""
    if not isinstance(protocol, Protocol) or not protocol.has_relay():
        raise LinearizationError("it declares no relay")
    if network.n_links != 1 or np.ptp(network.rtts) > 1e-9 * network.rtts.max():
        raise LinearizationError("relays switch together on one link with equal RTTs only, got another network")
    sizes = {float(flow.mean_packet) for flow in network.flows}
    if len(sizes) > 1:
        raise LinearizationError(f"relays switch together with packets of one size only, got {sorted(sizes)} bytes")
    return _Loop(
        protocol, network.n_flows, float(network.capacities[0]), float(network.rtts[0]), 8.0 * float(sizes.pop())
    )


@dataclass
class _Track:
    """The window of a flow, or the sum of all: linear in theta between points."""

    theta: list[float] = field(default_factory=list)  # RTTs
    window: list[float] = field(default_factory=list)  # bit
    step: list[float] = field(default_factory=list)  # change after this point [bit per RTT]

    def add(self, theta: float, window: float, step: float) -> None:
        """Begin a piece."""
        self.theta.append(theta)
        self.window.append(window)
        self.step.append(step)

    def at(self, theta: float) -> float:
        """Return the window."""
        k = max(bisect_right(self.theta, theta) - 1, 0)
        return self.window[k] + self.step[k] * (theta - self.theta[k])


@dataclass
class _Curve(_Track):
    """The sum of windows, with the time at each point. A queue begins or ends at points only."""

    loop: _Loop = field(kw_only=True)
    t: list[float] = field(default_factory=list, kw_only=True)  # s

    def turn(self, theta: float, total: float, step: float) -> None:
        """Begin a piece, and a further one at the point at which the queue begins or ends."""
        self.t.append(self.time(theta) if self.t else 0.0)
        self.add(theta, total, step)
        to_edge = self.loop.pipe - total
        if to_edge * step > 0.0 and abs(to_edge) > 1e-12 * total:
            edge = theta + to_edge / step
            self.t.append(self.time(edge))
            self.add(edge, self.loop.pipe, step)

    def cut(self, theta: float) -> None:
        """Remove the points after theta."""
        while len(self.theta) > 1 and self.theta[-1] > theta:
            for values in (self.t, self.theta, self.window, self.step):
                values.pop()

    def time(self, theta: float) -> float:
        """Return the time at theta: the integral of max(D_0, W/C)."""
        k = max(bisect_right(self.theta, theta) - 1, 0)
        rtts = theta - self.theta[k]
        mean = self.window[k] + 0.5 * self.step[k] * rtts
        return self.t[k] + rtts * self.loop.delay(mean)

    def sent(self, theta: float) -> float:
        """Return theta at the time at which the data that are acknowledged now were sent."""
        t = self.time(theta)
        low, high, trial = -inf, theta, theta - 1.0
        for _ in range(100):
            delay = self.loop.delay(self.at(trial))
            late = self.time(trial) + delay - t
            low, high = (low, trial) if late > 0.0 else (trial, high)
            following = trial - late / delay  # slopes are close to the delay; each error is a small share of the last
            if not low < following < high:
                break
            trial = following
        return trial

    def queue_integral(self, begin: int, end: int) -> float:
        """Return the integral of the queue over time between two points [bit s]."""
        area, pipe = 0.0, self.loop.pipe
        for k in range(begin, end):
            first, last, rtts = self.window[k], self.window[k + 1], self.theta[k + 1] - self.theta[k]
            if first + last > 2.0 * pipe:  # integral of (W - pipe) W/C over theta, with W linear
                squares = (first * first + first * last + last * last) / 3.0
                area += rtts * (squares - 0.5 * pipe * (first + last)) / self.loop.capacity
        return area


@dataclass
class _Flow:
    """A flow with its window, and its response to the sum of windows.

    `leads`: all flows are equal, and the sum follows this one. Otherwise the sum is given.
    """

    curve: _Curve
    track: _Track
    delays: RelayDelays
    leads: bool
    step: float  # step of the law, after the switches so far [bit per RTT]

    def _step_at(self, theta: float) -> float:
        sent = self.curve.sent(theta)
        return self.curve.loop.step(self.track.at(theta), self.track.at(sent), self.curve.at(sent))

    def next_switch(self, theta: float, until: float) -> float | None:
        """Let the law's step change next, and return theta when the window follows; None: not before `until`."""
        late = early = theta + 2.0 * _AFTER
        while not self._changes(late):
            if late >= until:
                return None
            early, late = late, min(late + 1.0 / _SCAN, until)
        while early < (middle := 0.5 * (early + late)) < late:
            early, late = (early, middle) if self._changes(middle) else (middle, late)
        step = self._step_at(late + _AFTER)
        begins = late + (self.delays.above if step < self.step else self.delays.below)
        if self.delays.hold > 0.0:
            self._turn(begins, 0.0)
            begins += self.delays.hold
        self._turn(begins, step)
        self.step = step
        return begins

    def _changes(self, theta: float) -> bool:
        return abs(self._step_at(theta) - self.step) > 1e-6 * self.curve.loop.packet

    def _turn(self, theta: float, step: float) -> None:
        self.track.add(theta, self.track.at(theta), step)
        if self.leads:
            n = self.curve.loop.n_flows
            self.curve.cut(theta)
            self.curve.turn(theta, n * self.track.window[-1], n * step)


@dataclass(frozen=True, repr=False)
class RelayOrbit(Displayed):
    """The orbit of equal flows with relays.

    Attributes
    ----------
    period : float
        Period [s].
    mean, amplitude : float
        Mean of the queue, and half of its peak-to-peak range [bytes].
    difference : float
        Multiplier over a period of a window that deviates while the sum does not.
    empty : float
        Share of the period without a queue.
    time, queue, window : ndarray, shape (n_points,)
        Ends of the pieces over a period [s], queue and window of a flow there [bytes]. Windows and queues are linear
        in RTTs between them.
    """

    period: float
    mean: float
    amplitude: float
    difference: float
    empty: float
    time: NDArray[np.float64]
    queue: NDArray[np.float64]
    window: NDArray[np.float64]
    _units = {"period": "s", "mean": "bytes", "amplitude": "bytes"}

    def _title(self) -> str:
        return "Orbit of relays"


def _switching_totals(loop: _Loop) -> tuple[float, float]:
    """Return the constant sums of windows at which the law stops to increase, and begins to decrease them [bit]."""
    totals = []
    for level in (0.5, -0.5):  # share of the smaller step
        low, high = 1e-3 * loop.pipe, 1e4 * loop.pipe
        steps = [loop.step(total / loop.n_flows, total / loop.n_flows, total) for total in (low, high)]
        if not steps[0] > 0.0 > steps[1]:
            raise LinearizationError("its law has no queue at which windows stop to grow")
        bound = level * min(steps[0], -steps[1])
        while low < (middle := 0.5 * (low + high)) < high:
            window = middle / loop.n_flows
            low, high = (middle, high) if loop.step(window, window, middle) > bound else (low, middle)
        totals.append(low)
    return totals[0], totals[1]


def _cycle(loop: _Loop, delays: RelayDelays) -> tuple[_Curve, float, float]:
    """Return the sum of equal windows up to its second equal period, and theta at the ends of that period."""
    n, (total, _) = loop.n_flows, _switching_totals(loop)
    window = total / n
    step = loop.step(0.9 * window, 0.9 * window, 0.9 * total)
    begin = total - 3.0 * n * step
    if begin <= 0.0:
        raise LinearizationError(f"windows of {window / loop.packet:.3g} packets are too small for their steps")
    curve = _Curve(loop=loop)
    curve.turn(0.0, begin, n * step)
    flow = _Flow(curve, _Track([0.0], [begin / n], [step]), delays, True, step)
    theta, ups = 0.0, list[float]()
    for _ in range(_SWITCHES):
        before = flow.step
        switch = flow.next_switch(theta, theta + _LONGEST)
        if switch is None:
            raise AtRest("windows come to rest between the levels of its law")
        theta = switch
        if flow.step > 0.0 and before <= 0.0:
            ups.append(theta)
        if len(ups) > 2:
            last, previous = (flow.track.at(theta) for theta in (ups[-1], ups[-2]))
            rtts = ups[-1] - ups[-2], ups[-2] - ups[-3]
            if abs(last - previous) < _REPEATS * last and abs(rtts[0] - rtts[1]) < _REPEATS * rtts[0]:
                return curve, ups[-2], ups[-1]
    raise ConvergenceError(f"windows do not repeat within {_SWITCHES} switches")


def _difference(curve: _Curve, delays: RelayDelays, begin: float, end: float) -> float:
    """Return the multiplier of a window that deviates at theta = `begin` from those of the cycle up to `end`."""
    n, points = curve.loop.n_flows, range(len(curve.theta))
    ends = []
    for deviation in (_DEVIATION, -_DEVIATION):
        deviation *= curve.at(begin) / n
        past = [k for k in points if curve.theta[k] <= begin + 1e-9]
        track = _Track(
            [curve.theta[k] for k in past],
            [curve.window[k] / n + deviation for k in past],
            [curve.step[k] / n for k in past],
        )
        flow = _Flow(curve, track, delays, False, curve.step[past[-1]] / n)
        theta: float | None = begin + _APART
        while theta is not None and theta < end - _APART:
            theta = flow.next_switch(theta, end + _APART)
        ends.append((track.at(end + _APART), deviation))
    return (ends[0][0] - ends[1][0]) / (ends[0][1] - ends[1][1])


@check_arguments
def relay_orbit(protocol: Protocol, network: Network, delays: RelayDelays | None = None) -> RelayOrbit:
    """Return the exact orbit of equal window flows whose law is a relay, on one link.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a relay: for example EDN, PEDN, Copa, or Vegas with alpha = beta.
    network : Network
        Network of one link; its flows have equal RTTs.
    delays : RelayDelays, optional
        Delays of hosts in addition to the RTT. None: none, as in the fluid. `protocol.relay_delays` has those of packet
        runs.

    Returns
    -------
    RelayOrbit

    Raises
    ------
    LinearizationError
        The protocol has no relay, the network is another one, or windows are too small for their steps.
    AtRest
        Windows come to rest.
    ConvergenceError
        Windows do not repeat.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", rtts=[0.1] * 10, packet_size=1500)
    >>> orbit = relay_orbit(EDN(), net)
    >>> round(orbit.amplitude), round(orbit.period, 3)
    (15000, 0.408)
    """
    loop = _loop_of(protocol, network)
    delays = _NO_DELAYS if delays is None else delays
    curve, begin, end = _cycle(loop, delays)
    first, last = (min(range(len(curve.theta)), key=lambda k: abs(curve.theta[k] - theta)) for theta in (begin, end))
    period = curve.t[last] - curve.t[first]
    queue = np.maximum(np.array(curve.window[first : last + 1]) - loop.pipe, 0.0)
    time = np.array(curve.t[first : last + 1]) - curve.t[first]
    idle = (queue[1:] == 0.0) & (queue[:-1] == 0.0)
    return RelayOrbit(
        period,
        curve.queue_integral(first, last) / period / 8.0,
        0.5 * float(np.ptp(queue)) / 8.0,
        _difference(curve, delays, begin, end),
        float(np.diff(time)[idle].sum()) / period,
        time,
        queue / 8.0,
        np.array(curve.window[first : last + 1]) / (8.0 * loop.n_flows),
    )


def relay_limit_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of equal window flows whose law is a relay, on one link.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Protocol with a relay.
    network : Network
        Network of one link; its flows have equal RTTs.
    time : str
        "continuous": `relay_orbit` without delays of hosts. "discrete": the map from round to round.

    Raises
    ------
    LinearizationError
        The protocol has no relay, or the network is another one.
    AtRest
        Windows come to rest.
    ConvergenceError
        Windows do not repeat.
    """
    relays = _loop_of(loop, network)
    assert isinstance(loop, Protocol)
    return _continuous(relays, loop, network) if time == "continuous" else _discrete(relays)


def _continuous(relays: _Loop, protocol: Protocol, network: Network) -> LimitCycle:
    """Return the cycle of the fluid, with the multipliers of the sum and of the differences."""
    orbit = relay_orbit(protocol, network)
    neutral = abs(orbit.difference - 1.0) < 1e-6
    differences = 0 if neutral else relays.n_flows - 1
    multipliers = np.array([orbit.difference] * differences + [0.0], dtype=complex)
    notes = ["rates are in proportion to windows: bursts, which ACK clocking repeats from RTT to RTT, are left out"]
    if orbit.empty > 0.0:
        notes.append(f"the queue is empty for {100.0 * orbit.empty:.3g} % of the period; rates then are W/D_0")
    if protocol.relay_delays != _NO_DELAYS:
        packets = relay_orbit(protocol, network, protocol.relay_delays)
        notes.append(
            f"with the delays of hosts in packet runs the amplitude is {packets.amplitude:.4g} bytes and the period "
            f"{packets.period:.4g} s (docs/relay_cycles.md compares it with packet runs)"
        )
    return LimitCycle(
        "cycle",
        "continuous",
        orbit.period,
        orbit.mean,
        orbit.amplitude,
        multipliers[np.argsort(-np.abs(multipliers), kind="stable")],
        along=relays.n_flows - 1 - differences,
        stable=bool(np.all(np.abs(multipliers) < 1.0)),
        method="exact orbit from switch to switch; the sum of windows returns dead beat, and differences by the shift "
        "of a flow's switches",
        orbit={
            "time": orbit.time,
            "queue": orbit.queue,
            "windows": np.repeat(orbit.window[None], relays.n_flows, axis=0),
        },
        notes=tuple(notes),
    )


def _discrete(relays: _Loop) -> LimitCycle:
    """Return the cycle of the map from round to round that is centered on the switching level."""
    n, (grows, shrinks) = relays.n_flows, _switching_totals(relays)
    step, total = n * relays.step(0.5 * grows / n, 0.5 * grows / n, 0.5 * grows), 0.5 * (grows + shrinks)
    window, windows = (total - 0.5 * step) / n, list[float]()
    for _ in range(_ROUNDS):
        if windows and abs(window - windows[0]) < _REPEATS * window:
            break
        windows.append(window)
        window += relays.step(window, window, n * window)
    else:
        raise ConvergenceError(f"windows do not repeat within {_ROUNDS} rounds")
    if len(windows) < 2:
        raise AtRest("windows come to rest between the levels of its law")
    slope = _slope(relays, windows)
    multipliers = np.empty(0, dtype=complex) if abs(slope - 1.0) < 1e-6 else np.full(n, slope, dtype=complex)
    totals = n * np.array([*windows, windows[0]])
    queue = np.maximum(totals - relays.pipe, 0.0)
    durations = np.array([relays.delay(each) for each in totals[:-1]])
    return LimitCycle(
        "cycle",
        "discrete",
        float(durations.sum()),
        float(queue[:-1] @ durations / durations.sum()) / 8.0,
        0.5 * float(np.ptp(queue)) / 8.0,
        multipliers,
        along=0 if len(multipliers) else n,
        stable=bool(np.all(np.abs(multipliers) < 1.0)),
        method=f"map over {len(windows)} rounds, whose derivative is the product of the slopes of the law",
        orbit={
            "time": np.concatenate([[0.0], np.cumsum(durations)]),
            "queue": queue / 8.0,
            "windows": np.repeat((totals / (8.0 * n))[None], n, axis=0),
        },
        notes=(
            "the cycle is centered on the switching level: others of the same amplitude exist at any distance from it "
            "below half a step, and for any shares of the flows",
            "windows reach a cycle after a finite number of rounds",
        ),
    )


def _slope(relays: _Loop, windows: list[float]) -> float:
    """Return the derivative of a cycle of rounds with respect to the window of one flow."""
    slope, n = 1.0, relays.n_flows
    for window in windows:
        ends = []
        for sign in (1.0, -1.0):
            moved = window * (1.0 + sign * _DEVIATION)
            ends.append(moved + relays.step(moved, moved, n * window))
        slope *= (ends[0] - ends[1]) / (2.0 * _DEVIATION * window)
    return slope
