"""Workloads: transfers that come and go beside the flows of a network.

The flows of the network have columns in the results; transfers have rows in `Trajectory.flows` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ecc.network import Flow
from ecc.quantity import Quantity, as_number, as_rate, as_size, as_time

__all__ = ["Arrivals", "Workload"]


@dataclass(frozen=True)
class Arrivals:
    """Poisson arrivals of transfers over one route, of fixed or Pareto-distributed size.

    Parameters
        route : sequence of link indices.
        mean_interarrival : float, s, > 0.
        mean_size : int, bytes, > 0.
        shape : float, > 1, of the Pareto distribution of sizes, or None: all of mean_size.
        start, stop : float, s. When arrivals begin and end (None: with the run).
        access_delay : float, s. packet_size : int, bytes. As in Flow.
    Raises
        ValueError, TypeError: a value out of range.
    """

    route: Sequence[int]
    mean_interarrival: Quantity
    mean_size: Quantity
    shape: float | None = None
    start: Quantity = 0.0
    stop: Quantity = None
    access_delay: Quantity = 0.0
    packet_size: Quantity = 1000

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("mean_interarrival", as_time(self.mean_interarrival, "mean_interarrival", positive=True))
        put("mean_size", as_size(self.mean_size, "mean_size"))
        if self.shape is not None:
            put("shape", as_number(self.shape, "shape", minimum=0.0))
            if self.shape <= 1.0:
                raise ValueError(f"shape must be > 1 (or the mean is infinite), got {self.shape!r}")
        put("start", as_time(self.start, "start"))
        if self.stop is not None:
            put("stop", as_time(self.stop, "stop"))
        template = Flow(self.route, access_delay=self.access_delay, packet_size=self.packet_size)
        for name in ("route", "access_delay", "packet_size"):
            put(name, getattr(template, name))

    def draw(self, rng: np.random.Generator, duration: float) -> list[Flow]:
        """Return the transfers that arrive before `duration`.

        Parameters
            rng : NumPy generator. duration : float, s, of the run.
        """
        end = duration if self.stop is None else min(duration, self.stop)
        flows = []
        now = self.start + rng.exponential(self.mean_interarrival)
        while now < end:
            size = float(self.mean_size)
            if self.shape is not None:
                size *= (self.shape - 1.0) / self.shape * (1.0 + rng.pareto(self.shape))
            flows.append(
                Flow(self.route, start=now, size=max(1, round(size)), access_delay=self.access_delay,
                     packet_size=self.packet_size)
            )  # fmt: skip
            now += rng.exponential(self.mean_interarrival)
        return flows

    @property
    def offered_rate(self) -> float:
        """Mean offered load, bit/s."""
        return as_rate(8.0 * self.mean_size / self.mean_interarrival, "offered_rate")


@dataclass(frozen=True)
class Workload:
    """Transfers given one by one, and streams of random arrivals.

    Parameters
        transfers : sequence of Flow. arrivals : sequence of Arrivals.
    Raises
        TypeError: something else in either.
    """

    transfers: Sequence[Flow] = ()
    arrivals: Sequence[Arrivals] = ()

    def __post_init__(self) -> None:
        for name, kind in (("transfers", Flow), ("arrivals", Arrivals)):
            items = tuple(getattr(self, name))
            if any(not isinstance(item, kind) for item in items):
                raise TypeError(f"{name} must be a sequence of {kind.__name__}, got {items!r}")
            object.__setattr__(self, name, items)

    def draw(self, seed: int, duration: float) -> list[Flow]:
        """Return all transfers of a run, ordered by start.

        Parameters
            seed : int. duration : float, s.
        """
        flows = list(self.transfers)
        for stream, rng in zip(self.arrivals, np.random.default_rng(seed).spawn(len(self.arrivals)), strict=True):
            flows += stream.draw(rng, duration)
        return sorted(flows, key=lambda flow: float(flow.start))
