"""What the papers simulate: networks and traffic by name, without the protocol.

A setup is a function of plain options that returns the parts of a `Scenario`: network and duration, and where there are
any workload, impairments, header_bytes, phases. One that takes `seed` draws from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ecc.impairments import RandomLoss
from ecc.network import Network
from ecc.workload import Arrivals, Workload

__all__ = ["SETUPS", "build", "get", "setup"]

Parts = dict[str, Any]
SETUPS: dict[str, Callable[..., Parts]] = {}


def setup(function: Callable[..., Parts]) -> Callable[..., Parts]:
    """Register a setup under its name."""
    SETUPS[function.__name__] = function
    return function


def get(name: str) -> Callable[..., Parts]:
    """Return a setup.

    Parameters
        name : of a function of this module.
    Raises
        ValueError: there is none of that name.
    """
    if name not in SETUPS:
        raise ValueError(f"setup must be one of {', '.join(SETUPS)}, got {name!r}")
    return SETUPS[name]


def build(name: str, options: Mapping[str, Any], seed: int) -> Parts:
    """Return the parts of a scenario.

    Parameters
        name : of the setup. options : its arguments. seed : of a setup that draws.
    """
    function = get(name)
    more = {"seed": seed} if "seed" in inspect.signature(function).parameters else {}
    return function(**options, **more)


# ---- one link --------------------------------------------------------------------------------------------


@setup
def joins(
    capacity: str = "970 Mb/s",
    rtts: Sequence[float] = (0.05, 0.05, 0.05),
    starts: Sequence[float] = (0.0, 30.0, 60.0),
    stops: Sequence[float] | None = None,
    duration: float = 90.0,
    packet_size: int = 1500,
    buffer: str | None = None,
    delay: float | None = None,
) -> Parts:
    """Flows that join one bottleneck one after another (EVAL sec. 4.1, 4.2; THESIS figs. 20, 21)."""
    network = Network.dumbbell(
        capacity, rtts=list(rtts), starts=list(starts), stops=None if stops is None else list(stops),
        packet_size=packet_size, buffer=buffer, delay=delay,
    )  # fmt: skip
    return {"network": network, "duration": duration}


@setup
def flash_crowd(
    joining: int = 50,
    join_at: float = 15.0,
    leave_at: float | None = None,
    capacity: str = "100 Mb/s",
    rtt: float = 0.12,
    delay: float = 0.05,
    duration: float = 40.0,
    packet_size: int = 1000,
) -> Parts:
    """One flow, and many that join it at once (THESIS figs. 11, 23, 24; EVAL sec. 4.5)."""
    network = Network.dumbbell(
        capacity, rtts=[rtt] * (joining + 1), delay=delay, starts=[0.0] + [join_at] * joining,
        stops=[duration] + [duration if leave_at is None else leave_at] * joining, packet_size=packet_size,
    )  # fmt: skip
    return {"network": network, "duration": duration}


@setup
def long_flow_with_mice(
    capacity: str = "970 Mb/s",
    rtt: float = 0.05,
    mice_from: float = 30.0,
    between: float = 0.2,
    mean_packets: float = 100.0,
    shape: float = 1.4,
    duration: float = 90.0,
    packet_size: int = 1500,
) -> Parts:
    """One long flow, and from some time on short ones: Poisson arrivals of Pareto sizes (EVAL sec. 4.4)."""
    network = Network.dumbbell(capacity, rtts=[rtt], packet_size=packet_size)
    mice = Arrivals(
        [0], between, round(mean_packets * packet_size), shape=shape, start=mice_from, packet_size=packet_size,
    )  # fmt: skip
    return {"network": network, "duration": duration, "workload": Workload(arrivals=[mice])}


@setup
def wan_in_lab(
    seed: int,
    rtts: Sequence[float] = (0.028,),
    buffer: str = "30 kB",
    loss: float = 0.0,
    lost: Sequence[str] = ("data", "ack"),
    delayed_acks: float | None = None,
    duration: float = 60.0,
) -> Parts:
    """MAXNET sec. IV: 10 Mb/s behind a small buffer, flows that start within 50 ms, random losses of data and ACKs.

    With `delayed_acks` the receiver waits that long [s] for a second packet before it sends an ACK.
    """
    starts = np.random.default_rng(seed).uniform(0.0, 0.05, len(rtts)).tolist()
    network = Network.dumbbell("10 Mb/s", rtts=list(rtts), starts=starts, buffer=buffer, packet_size=1500)
    if delayed_acks:
        network = network.with_flows([replace(flow, delayed_acks=(2, delayed_acks)) for flow in network.flows])
    places: dict[str, dict[str, Any]] = {"data": {"link": 0}, "ack": {"acks_of": "all"}}
    impairments = [RandomLoss(loss, **places[kind]) for kind in lost] if loss else []
    return {"network": network, "duration": duration, "impairments": impairments}


# ---- several links ---------------------------------------------------------------------------------------


@setup
def parking_lot(
    capacities: Sequence[str] = ("970 Mb/s", "800 Mb/s"),
    delay: float = 0.05,
    starts: Sequence[float] = (0.0, 15.0, 30.0),
    duration: float = 45.0,
    packet_size: int = 1000,
) -> Parts:
    """A flow over all links, then one on each (THESIS fig. 22; EVAL sec. 4.6)."""
    network = Network.parking_lot(list(capacities), delay=delay, starts=list(starts), packet_size=packet_size)
    return {"network": network, "duration": duration}


@setup
def topology(name: str, duration: float, **options: Any) -> Parts:
    """A topology of `Network` by name (T1 to T5, T_u, xcp_unfair), with its options."""
    return {"network": getattr(Network, name)(**options), "duration": duration}
