"""Monitor intervals of flows in the twin: counters, and the RTTs that a sender measures, between two observations."""

from __future__ import annotations

from typing import Any

from ecc.packet.twin.state import TwinFlow, to_seconds

__all__ = ["Monitor"]


class Monitor:
    """The monitor interval of a flow (S-224, S-225).

    Parameters
    ----------
    flow : TwinFlow
    """

    def __init__(self, flow: TwinFlow) -> None:
        self.flow = flow
        self.begin(0)

    def begin(self, now: int) -> None:
        """Begin an interval.

        Parameters
        ----------
        now : int, ps
        """
        flow = self.flow
        self.since, self.counts = now, (flow.sent, flow.delivered, flow.lost)
        self.rtts: list[float] = []  # s

    def read(self, now: int, env: Any) -> tuple[float, ...]:
        """Return the interval until now, in the order of the fields of OBSERVATION.

        Parameters
        ----------
        now : int, ps
        env : Record
            The `env` of the flow.
        """
        flow, n, half = self.flow, len(self.rtts), len(self.rtts) // 2
        counts = (flow.sent, flow.delivered, flow.lost)
        mean = first = last = minimum = 0.0
        if n:
            sum_first, sum_last = _sum(self.rtts[:half]), _sum(self.rtts[half:])
            mean = (sum_first + sum_last) / n
            first = sum_first / half if half else mean
            last = sum_last / (n - half)
            minimum = min(self.rtts)
        return (
            to_seconds(now),
            to_seconds(now - self.since),
            *(float(count - before) for count, before in zip(counts, self.counts, strict=True)),
            float(n),
            mean,
            first,
            last,
            minimum,
            env.min_rtt,
            env.srtt,
            env.rate,
            env.window,
            float(env.in_flight),
            float(flow.active),
        )


def _sum(values: list[float]) -> float:
    """Return the sum, added in order; `sum` compensates rounding errors in some versions of Python."""
    total = 0.0
    for value in values:
        total += value
    return total
