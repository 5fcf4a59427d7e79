"""The cycle of GCC: one flow on a link, as a fluid of groups of packets, with the clock of reports.

The flow sends at x. A packet has the service time s/C. A group has n packets, n = int(burst_time x/s) + 1, so that with
w the queueing delay of its last packet

    departures are n s/x apart,   w <- max(w + n s/C - n s/x, 0),   arrivals are delayed by D/2 + w (D without a queue)

At the times of reports, `report_interval` apart, functions of `ecc.models.shared.delay_gradient` take the groups that
have arrived. R is the data that arrived within `window`, over the window. The new rate is in force D/2 later. Data is a
fluid except in groups: R has no steps, and arrivals are exact.

The rate is forgotten in each cycle: if the link has been busy for `window` before an over-use, R = C, and A = beta C
whatever it was. What remains from one over-use to the next is the mean of R, with the weight 0.95, and the threshold,
with the product of 1 - K (t_i - t_(i-1)) over the groups that change it (at fixed times of over-uses).

    a = max(s_a/(2 (0.1 + D)), a_0)        growth of A near the mean [bit/s per s]; s_a: A/30 bits in equal packets
    period ~ [(1 - beta) C + e]/a          e: excess of A over C at the over-use

e follows from the ramp of the delay, w' = a t/C: the gradient exceeds the threshold later by the delay of its filter.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.forms import CycleOrbit
from ecc.errors import ConvergenceError, LinearizationError
from ecc.models.shared import delay_gradient as gradient
from ecc.network.network import Network

_SETTLING, _CYCLES = 3, 6  # over-uses before those that are examined, and the number of these
_MAX_TIME = 1500.0  # s


@dataclass
class _Path:
    """The link: capacity [bit/s], delays without a queue of data and reports [s], packet [bit]."""

    capacity: float
    delay: float
    packet: float


@dataclass
class _Groups:
    """Groups on their way, and the history of a run."""

    path: _Path
    p: Any
    flow: Any
    sent: float = 0.0  # departure of the last group [s]
    wait: float = 0.0  # its queueing delay [s]
    arriving: deque[tuple[float, float]] = field(default_factory=deque)  # departure and arrival of each [s]
    received: deque[tuple[float, float]] = field(default_factory=deque)  # arrival [s], and sum of the data then [bit]
    total: float = 0.0  # data sent [bit]
    weight: float = 1.0  # derivative of the threshold with respect to that at the last over-use
    rows: list[tuple[float, float, float]] = field(default_factory=list)  # time [s], queue [bit], rate [bit/s]

    def send(self, until: float) -> None:
        """Send the groups that depart before a time."""
        while True:
            n = int(self.p.burst_time * self.flow.x / self.path.packet) + 1
            gap = n * self.path.packet / self.flow.x
            if self.sent + gap > until:
                return
            self.sent += gap
            self.wait = max(self.wait + n * self.path.packet / self.path.capacity - gap, 0.0)
            self.total += n * self.path.packet
            arrival = self.sent + self.path.delay + self.wait
            self.arriving.append((self.sent, arrival))
            self.received.append((arrival, self.total))
            self.rows.append((self.sent, self.wait * self.path.capacity, self.flow.x))

    def read(self, until: float) -> float:
        """Let the hooks take the groups that have arrived; return R [bit/s]."""
        last = -1.0
        while self.arriving and self.arriving[0][1] <= until:
            sent, last = self.arriving.popleft()
            before, updated = self.flow.threshold, self.flow.updated
            gradient.note_packet(self.flow, sent, last, self.p)
            if self.flow.threshold != before and gradient.MIN_THRESHOLD < self.flow.threshold:
                gain = self.p.gain_down if abs(self.flow.signal) < before else self.p.gain_up
                self.weight *= 1.0 - gain * min(1e3 * (self.flow.updated - updated), gradient.MAX_STEP)
            elif self.flow.threshold == gradient.MIN_THRESHOLD:
                self.weight = 0.0
        if last < 0.0:
            return -1.0
        begin = last - self.p.window
        while len(self.received) > 2 and self.received[1][0] <= begin:
            self.received.popleft()
        times, sums = np.array([entry for entry in self.received if entry[0] <= last]).T
        span: float = min(self.p.window, max(last - times[0], self.p.report_interval))
        return float(sums[-1] - np.interp(begin, times, sums)) / span


def over_use_cycle(protocol: Any, network: Network) -> CycleOrbit:
    """Return the cycle of one flow from over-use to over-use.

    Parameters
    ----------
    protocol : GCC
    network : Network
        Network of one link and one flow.

    Raises
    ------
    LinearizationError
        Another network, an encoder of frames, or a capacity that the rate does not exceed.
    ConvergenceError
        There are no over-uses within 1500 s.
    """
    if network.n_links != 1 or network.n_flows != 1:
        raise LinearizationError("the cycle of GCC is that of one flow on one link, got another network")
    capacity = float(network.capacities[0])
    if protocol.frames > 0.0:
        raise LinearizationError(f"the cycle of GCC is that of evenly spaced packets, got frames = {protocol.frames:g}")
    if not protocol.beta * capacity > protocol.min_rate or not protocol.max_rate > capacity:
        raise LinearizationError(
            f"the rate does not pass the capacity of {capacity:g} bit/s between min_rate = {protocol.min_rate:g} and "
            f"max_rate = {protocol.max_rate:g}"
        )
    packet = 8.0 * float(network.flows[0].mean_packet)
    path = _Path(capacity, 0.5 * float(network.rtts[0]), packet)
    groups = _Groups(path, protocol.namespace(), _started(protocol, capacity))
    ends, weights = _over_uses(groups)
    return _orbit(groups, ends, weights)


def _started(protocol: Any, capacity: float) -> Any:
    """Return the state of a flow that has just reduced its rate."""
    flow = SimpleNamespace(
        **{
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(gradient.FlowState()).items()
        }
    )
    flow.x = flow.estimate = flow.loss_estimate = protocol.beta * capacity
    flow.mean = capacity
    return flow


def _over_uses(groups: _Groups) -> tuple[list[float], list[float]]:
    """Run up to the last over-use that is examined; return times, and the weights of the threshold since the last."""
    flow, p, delay = groups.flow, groups.p, groups.path.delay
    ends, weights, tick = list[float](), list[float](), 0.0
    while len(ends) <= _SETTLING + _CYCLES:
        tick += p.report_interval
        if tick > _MAX_TIME:
            raise ConvergenceError(f"GCC signals {len(ends)} over-uses within {_MAX_TIME:g} s")
        now = tick + delay
        groups.send(now)
        if p.form == gradient.DRAFT:
            flow.usage = 0
        flow.received_rate = groups.read(tick)
        if flow.received_rate < 0.0:
            continue
        before, since = flow.decreases, flow.estimate
        env: Any = SimpleNamespace(now=now, rtt=2.0 * delay + groups.wait)
        gradient.update_estimate(flow, p, env)
        flow.x = flow.estimate
        if flow.decreases > before and since > groups.path.capacity:
            ends.append(now)
            weights.append(groups.weight)
            groups.weight = 1.0
    return ends, weights


def _orbit(groups: _Groups, ends: list[float], weights: list[float]) -> CycleOrbit:
    """Return the mean of the last cycles, and the last one as the orbit."""
    time, queue, rate = (np.array(column) for column in zip(*groups.rows, strict=True))
    lengths = np.diff(ends[_SETTLING:])
    spans = [(time >= a) & (time < b) for a, b in zip(ends[_SETTLING:], ends[_SETTLING + 1 :], strict=False)]
    swings = [0.5 * float(np.ptp(queue[span])) / 8.0 for span in spans]
    whole = (time >= ends[_SETTLING]) & (time < ends[-1])
    last: NDArray[np.bool_] = spans[-1]
    multipliers = (
        1.0 - gradient.MEAN_WEIGHT,
        float(np.abs(np.prod(weights[_SETTLING + 1 :])) ** (1.0 / len(lengths))),
        0.0,
    )
    return CycleOrbit(
        float(lengths.mean()),
        float(np.trapezoid(queue[whole], time[whole]) / np.ptp(time[whole])) / 8.0,
        float(np.mean(swings)),
        multipliers,
        time[last] - time[last][0],
        queue[last] / 8.0,
        rate[last][None],
        f"groups of packets on a fluid link with the clock of reports, mean of {len(lengths)} cycles",
        (
            "multipliers are those of the threshold and of the mean of received rates, at fixed times of over-uses",
            "the rate after an over-use does not depend on that before it",
        ),
    )
