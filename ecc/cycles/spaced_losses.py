"""Cycles of a flow that loses one packet in 1/p, evenly spaced, on a path without a queue.

Deterministic losses are the assumption of the response functions of CUBIC (RFC 9438 sec. 5.1) and Compound. Between two
losses of a flow with the window w and the RTT D, the integral of w/D is s/p. The host responds an RTT after the
loss, and holds its window for the RTT of the recovery, as in `loss_motion`. The response functions leave out these two
RTTs; as p decreases, the cycles tend to them.

For windows that gain a constant amount per RTT and keep the share b at a loss, the square of the window at the loss is
b^2 times the last one, plus a constant, so that the multiplier is b^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

from ecc._support.arguments import shown
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.loss_motion import Continuous, Group, Host, Motion, Watch
from ecc.cycles.losses import cycle_of_map
from ecc.errors import ConvergenceError

__all__ = ["spaced_loss_cycle"]

_STEP = 0.125  # step of the integration, in RTTs
_MAX_STEPS = 400_000
_MAX_IN_RECOVERY = 50  # losses in recoveries, one after the other
_HALVINGS = 60


@dataclass(frozen=True)
class SpacedLosses(Continuous):
    """Windows of which one packet in `room`/s is lost; `Motion.dropped` counts the data sent since the last loss."""

    def until_overflow(self, motion: Motion, watch: Watch | None = None) -> Motion:
        """Return the state at the next loss after flows have responded to this one and recovered."""
        now = motion.copy()
        start = list(now.losses)
        (group,) = self.groups
        in_recovery = 0
        for _ in range(_MAX_STEPS):
            if watch is not None:
                watch(now.t, 0.0, [now.y[0][0]], nan)
            if now.dropped[0] >= self.room * (1.0 - 1e-14):
                if now.losses != start and now.is_quiet:
                    return now
                in_recovery += now.losses != start
                if in_recovery > _MAX_IN_RECOVERY:
                    raise ConvergenceError("losses are so frequent that they fall into recoveries", None)
                now.due[0], now.dropped[0] = min(now.due[0], now.t + group.rtt), now.dropped[0] - self.room
            self._advance(now)
        raise ConvergenceError(f"the flow did not lose a packet within {_MAX_STEPS} steps of its window", None)

    def _advance(self, now: Motion) -> None:
        (group,) = self.groups
        h = _STEP * group.rtt
        events = [time for time in (*now.due, *now.until) if now.t < time < inf]
        h = min([h, *(time - now.t for time in events)])
        y = self.moved(now, h, False)
        sent = self._sent(now, h)
        if now.dropped[0] + sent > self.room:
            low, high = 0.0, h
            for _ in range(_HALVINGS):
                h = 0.5 * (low + high)
                sent = self._sent(now, h)
                low, high = (low, h) if now.dropped[0] + sent > self.room else (h, high)
            y, sent = self.moved(now, h, False), self.room - now.dropped[0]
        ends = min(events, default=inf)
        now.t, now.y = ends if now.t + h >= ends - 1e-12 * max(1.0, now.t) else now.t + h, y
        now.dropped[0] += sent
        if now.due[0] <= now.t:
            count = now.dropped[0]
            self.respond(now, 0, 0.0)
            now.dropped[0] = count
            now.flight[0] = (0.0, -inf, 1.0, 0.0)

    def _sent(self, now: Motion, h: float) -> float:
        """Return the data sent in a step, by Simpson's rule."""
        middle, end = self.moved(now, 0.5 * h, False)[0][0], self.moved(now, h, False)[0][0]
        return h * (now.y[0][0] + 4.0 * middle + end) / (6.0 * self.groups[0].rtt)


def spaced_loss_cycle(protocol: Protocol, rtt: float, loss: float, packet_size: float = 1000.0) -> LimitCycle:
    """Return the cycle of a flow that loses one packet in 1/loss, evenly spaced.

    Parameters
    ----------
    protocol : Protocol
        Protocol with ACK-clocked windows and a `loss_response_law`.
    rtt : float, s
        RTT, without queues.
    loss : float, in (0, 1)
        Share of packets lost, for example 1e-4.
    packet_size : float, bytes, optional

    Returns
    -------
    LimitCycle
        Its queue is empty; `orbit` has the window.

    Raises
    ------
    ValueError
        A loss outside (0, 1).
    LinearizationError
        Laws that take other arguments than windows, states and delays.
    ConvergenceError
        Losses so frequent that they fall into recoveries.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> round(spaced_loss_cycle(NewReno(), 0.1, 1e-5).dominant.real, 2)
    0.25
    """
    if not 0.0 < loss < 1.0:
        raise ValueError(f"loss must be in (0, 1), got {shown(loss)}")
    packet = 8.0 * packet_size
    group = Group(Host(protocol, packet, packet), 1.0, rtt)
    motions = SpacedLosses(inf, packet / loss, (group,))
    return cycle_of_map(motions, "continuous")
