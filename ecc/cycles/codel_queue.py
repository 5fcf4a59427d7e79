"""Windows of flows that share a queue with CoDel or COBALT: a random motion, since each signal hits one of the flows.

    d = q/C    sojourn time of the data that arrives now and leaves at t + d; the discipline acts at these times
    signals    at the times of the discipline's own control law, while d is above its target
    flow       drawn at random for each signal, with the shares of the flows in the arrivals; its window is reduced an
               RTT without queues later, and further signals to data sent before that have no effect

Windows grow by the laws of their hosts, as in `loss_motion`. Unresponsive flows with the rate U leave the capacity
C - U to the windows, and take the share U/C of the signals without any effect.

A flow over FQ-CoDel has a separate queue, its share of the capacity, and all signals of this queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.cycles.loss_motion import Continuous, Group, Motion
from ecc.errors import ConvergenceError
from ecc.models.shared.clock import has_come
from ecc.queues import cobalt, codel
from ecc.queues.cobalt import COBALT
from ecc.queues.codel import CoDel

__all__ = ["QueueMotion", "queue_motion"]

_STEP = 0.125  # step of the integration, in shortest RTTs
_SETTLING, _PHASES = 10, 80  # phases with signals before those that are measured, and the number of these
_MIN_PHASES = 10
_MAX_STEPS = 300_000  # steps of single flows


class CodelClock:
    """The times of CoDel's signals."""

    def __init__(self, discipline: CoDel, capacity: float, packet: float) -> None:
        self.interval = float(discipline.interval)
        self.p: Any = SimpleNamespace(interval=self.interval)
        # A packet is not chosen unless more than one packet is behind it
        self.target = max(float(discipline.target), 2.0 * packet / capacity)
        self.bad_until = inf
        self.choosing = False
        self.count = self.last_count = 0
        self.next = 0.0

    def signals(self, end: float, over_since: float | None) -> list[float]:
        """Return the times of signals up to `end`; `over_since`: begin of the time above the target, None: below."""
        if over_since is None:
            self.bad_until, self.choosing = inf, False
            return []
        times = []
        if self.bad_until == inf:
            self.bad_until = over_since + self.p.interval
        if not self.choosing and has_come(end, self.bad_until):
            now = self.bad_until
            self.choosing = True
            self.count = self.last_count = codel.first_count(self.count, self.last_count, now - self.next, self.p)
            self.next = codel.next_time(now, self.count, self.p)
            times.append(now)
        while self.choosing and has_come(end, self.next):
            times.append(self.next)
            self.count += 1
            self.next = codel.next_time(self.next, self.count, self.p)
        return times


class CobaltClock:
    """The times of COBALT's signals, without BLUE."""

    def __init__(self, discipline: COBALT, capacity: float, packet: float) -> None:
        mtu_time, target = packet / capacity, float(discipline.target)
        self.interval = cobalt.interval_at(mtu_time, target, float(discipline.interval))
        self.target = max(cobalt.target_at(mtu_time, target), 4.0 * mtu_time)
        self.choosing = False
        self.state: Any = SimpleNamespace(count=[0], scale=[0.0], next=[0.0])

    def signals(self, end: float, over_since: float | None) -> list[float]:
        """Return the times of signals up to `end`, as for `CodelClock`."""
        link = self.state
        if not self.choosing:
            self._forget(end if over_since is None else over_since)
        if over_since is None:
            self.choosing = False
            return []
        if not self.choosing:
            self.choosing = True
            link.next[0] = over_since + self.interval * link.scale[0]
            link.count[0] = max(link.count[0], 1)
        times = []
        while has_come(end, link.next[0]):
            times.append(link.next[0])
            cobalt.count_on(link, 0, 1, self.interval)
        return times

    def _forget(self, now: float) -> None:
        """Decrease the count at each signal that would be due below the target."""
        while self.state.count[0] > 0 and has_come(now, self.state.next[0]):
            cobalt.count_on(self.state, 0, -1, self.interval)


Clock = CodelClock | CobaltClock


def clock_of(discipline: CoDel | COBALT, capacity: float, groups: Sequence[Group]) -> Clock:
    """Return the clock of a discipline at a link of a capacity [bit/s]."""
    packet = max(group.host.constants["s"] for group in groups)
    if isinstance(discipline, COBALT):
        return CobaltClock(discipline, capacity, packet)
    return CodelClock(discipline, capacity, packet)


@dataclass(frozen=True)
class QueueMotion:
    """A part of the motion: `queue` is that of all flows [bit], `used` the share of the capacity that is used."""

    time: NDArray[np.float64]
    queue: NDArray[np.float64]
    windows: NDArray[np.float64]  # (n_flows, n_times) [bit]
    used: NDArray[np.float64]
    starts: NDArray[np.int64]  # samples at which phases with signals begin

    @property
    def period(self) -> float:
        """Mean time between the begins of two phases with signals [s]."""
        first, last = self.time[self.starts[0]], self.time[self.starts[-1]]
        return float(last - first) / (len(self.starts) - 1)

    @property
    def amplitude(self) -> float:
        """Mean over the phases of half of the queue's range [bit]."""
        pairs = zip(self.starts[:-1], self.starts[1:], strict=True)
        return 0.5 * float(np.mean([np.ptp(self.queue[first : last + 1]) for first, last in pairs]))


def queue_motion(
    discipline: CoDel | COBALT, capacity: float, groups: Sequence[Group], load: float = 0.0, seed: int = 0
) -> QueueMotion:
    """Return the motion of flows with windows over a queue with CoDel or COBALT.

    Parameters
    ----------
    discipline : CoDel or COBALT
        Its target and interval are used.
    capacity : float, bit/s, > 0
    groups : sequence of Group
        A group for each flow.
    load : float, bit/s, >= 0
        Rate of unresponsive flows, less than the capacity.
    seed : int, optional
        Seed of the draws.

    Raises
    ------
    ConvergenceError
        Phases with signals are so long that fewer than ten begin in the computed time.
    """
    rest = capacity - load
    link = Continuous(rest, 0.0, tuple(groups), True)
    clock = clock_of(discipline, capacity, groups)
    late = any(group.host.is_late for group in groups)
    now = _begin(link, clock.target)
    rng = np.random.default_rng(seed)
    step = _STEP * min(group.rtt for group in groups)
    samples: list[tuple[float, float, list[float], float]] = []
    starts: list[int] = []
    link.remember(now, late)
    delay, over, signaled = link.queue(link.in_flight(now, now.t, now.y)) / rest, False, False
    for _ in range(_MAX_STEPS // len(groups)):
        begin = now.t + delay
        later = [time for time in (*now.due, *now.until) if now.t < time < inf]
        h = min(step, min(later, default=inf) - now.t)
        now.y = link.moved(now, h, late)
        now.t = min(later) if later and now.t + h >= min(later) - 1e-12 else now.t + h
        for g in range(len(groups)):
            if now.due[g] <= now.t:
                link.respond(now, g, rest * delay)
        link.remember(now, late)
        in_flight = link.in_flight(now, now.t, now.y)
        before, delay = delay, link.queue(in_flight) / rest
        end, since = now.t + delay, None
        if delay >= clock.target:
            share = 0.0 if over else (clock.target - before) / (delay - before)
            since = begin + share * (end - begin)
        over = since is not None
        times = clock.signals(end, since)
        for time in times:
            _signal(now, link, in_flight, time, delay, load / capacity, rng)
        if times and not signaled:
            starts.append(len(samples))
        signaled = over and (signaled or bool(times))
        samples.append((now.t, delay, [y[0] for y in now.y], link.used(in_flight)))
        if len(starts) > _SETTLING + _PHASES:
            break
    starts = starts[min(_SETTLING, len(starts) // 3) :]
    if len(starts) < _MIN_PHASES:
        raise ConvergenceError(f"fewer than {_MIN_PHASES} phases with signals begin within {now.t:.3g} s", None)
    moments, delays, windows, used = zip(*samples[starts[0] : starts[-1] + 1], strict=True)
    return QueueMotion(
        np.array(moments) - moments[0],
        capacity * np.array(delays),
        np.array(windows).T,
        (load + rest * np.array(used)) / capacity,
        np.array(starts) - starts[0],
    )


def _begin(link: Continuous, target: float) -> Motion:
    """Return a motion right after a reduction of all windows, which filled the path and the queue up to the target."""
    n, windows, memory = len(link.groups), [], []
    for index, group in enumerate(link.groups):
        D = group.rtt + target
        share = link.capacity * D / n * (1.0 + 0.1 * index / n)
        y = [share, *(0.0 if callable(state.initial) else state.initial for state in group.host.states.values())]
        feedback = group.host.feedback(link.capacity * target, link.capacity)
        y, remembered = group.host.reduced(y, 0.0, feedback, D)
        windows.append(y)
        memory.append(remembered)
    return Motion.of(windows, memory)


def _signal(
    now: Motion,
    link: Continuous,
    in_flight: list[float],
    time: float,
    delay: float,
    unresponsive: float,
    rng: np.random.Generator,
) -> None:
    """Give a signal at a time to a flow or to unresponsive data, which is drawn at random."""
    rates = [data / (group.rtt + delay) for data, group in zip(in_flight, link.groups, strict=True)]
    drawn = (rng.random() - unresponsive) / (1.0 - unresponsive) * sum(rates)
    if drawn < 0.0:
        return
    g = min(int(np.searchsorted(np.cumsum(rates), drawn, side="right")), len(rates) - 1)
    is_new = time - delay >= now.flight[g][1] - 1e-12  # Data sent after the last reduction
    if now.due[g] == inf and is_new:
        now.due[g] = max(time + link.groups[g].rtt, now.t)
