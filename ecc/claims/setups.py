"""Simulated networks and traffic of the papers by name, without the protocol.

A setup is a function of plain options that returns the parts of a `Scenario`: network and duration, and if it needs
them workload, impairments, header_bytes and phases. A setup with random parts takes a `seed`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ecc.network.impairments import DelaySpikes, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.traffic.tmix import Synthetic
from ecc.traffic.workload import Arrivals, Tmix, Workload

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
    ----------
    name : str
        Name of a function of this module, for example "flash_crowd".

    Raises
    ------
    ValueError
        No setup has this name.
    """
    if name not in SETUPS:
        raise ValueError(f"setup must be one of {', '.join(SETUPS)}, got {name!r}")
    return SETUPS[name]


def build(name: str, options: Mapping[str, Any], seed: int) -> Parts:
    """Return the parts of a scenario.

    Parameters
    ----------
    name : str
        Name of the setup.
    options : mapping
        Arguments of the setup.
    seed : int
        Seed; used only by setups with random parts.
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
    """Flows join one bottleneck one after another (EVAL sec. 4.1, 4.2; THESIS figs. 20, 21)."""
    network = Network.dumbbell(
        capacity,
        rtts=list(rtts),
        starts=list(starts),
        stops=None if stops is None else list(stops),
        packet_size=packet_size,
        buffer=buffer,
        delay=delay,
    )
    return {"network": network, "duration": duration}


@setup
def flash_crowd(
    joining: int = 50,
    join_at: float = 15.0,
    spread: float = 0.0,
    leave_at: float | None = None,
    capacity: str = "100 Mb/s",
    rtt: float = 0.12,
    delay: float = 0.05,
    duration: float = 40.0,
    packet_size: int = 1000,
) -> Parts:
    """Many flows join a single flow within `spread` seconds (THESIS figs. 11, 23, 24; EVAL sec. 4.6)."""
    joins = [join_at + spread * k / joining for k in range(joining)]
    network = Network.dumbbell(
        capacity,
        rtts=[rtt] * (joining + 1),
        delay=delay,
        starts=[0.0, *joins],
        stops=[duration] + [duration if leave_at is None else leave_at] * joining,
        packet_size=packet_size,
    )
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
    """One long flow, later joined by short flows: Poisson arrivals of Pareto sizes (EVAL sec. 4.4)."""
    network = Network.dumbbell(capacity, rtts=[rtt], packet_size=packet_size)
    mice = Arrivals(
        [0],
        between,
        round(mean_packets * packet_size),
        shape=shape,
        start=mice_from,
        packet_size=packet_size,
    )
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

    If `delayed_acks` is given, the receiver waits that long [s] for a second packet before it sends an ACK.
    """
    starts = np.random.default_rng(seed).uniform(0.0, 0.05, len(rtts)).tolist()
    network = Network.dumbbell("10 Mb/s", rtts=list(rtts), starts=starts, buffer=buffer, packet_size=1500)
    if delayed_acks:
        network = network.with_flows([replace(flow, delayed_acks=(2, delayed_acks)) for flow in network.flows])
    places: dict[str, dict[str, Any]] = {"data": {"link": 0}, "ack": {"acks_of": "all"}}
    impairments = [RandomLoss(loss, **places[kind]) for kind in lost] if loss else []
    return {"network": network, "duration": duration, "impairments": impairments}


@setup
def transfers(
    capacity: str = "2.4 Gb/s",
    load: float = 0.9,
    rtt: float = 0.1,
    mean_packets: float = 30.0,
    shape: float = 1.4,
    duration: float = 20.0,
    packet_size: int = 1000,
    buffer: str | None = None,
) -> Parts:
    """Poisson arrivals of Pareto sizes over one link, without other traffic.

    The network needs a flow; it starts only when the run ends.
    """
    network = Network.dumbbell(capacity, rtts=[rtt], starts=[duration], packet_size=packet_size, buffer=buffer)
    sent = Arrivals.at_load(
        [0], load, capacity, round(mean_packets * packet_size), shape=shape, packet_size=packet_size
    )
    return {"network": network, "duration": duration, "workload": Workload(arrivals=[sent])}


@setup
def tmix_load(
    load: float = 90.0, duration: float = 60.0, buffer: str = "1.3 MB", response_spread: float = 2.0
) -> Parts:
    """EDN sec. 3: connections over 100 Mb/s each way; link 1 carries their responses, which offer `load` [Mb/s].

    Connections are drawn with the seed as in `Synthetic.edn`; their start times are then stretched so that the offered
    load is exact for any seed. If `response_spread` (of the logarithm) changes, the number of connections is
    scaled to keep the load of the responses, and the size of requests by the inverse factor.
    """
    plain = Synthetic.edn(load * 1e6)
    more = load * 1e6 / replace(plain, response_spread=response_spread).loads[1]
    request = round(float(plain.request_median or 0) / more)
    vectors = replace(
        plain, rate=more * plain.rate, response_spread=response_spread, request_median=request, exact=True
    )
    links = [Link("100 Mb/s", 0.0, buffer=buffer)] * 2
    network = Network(links, [Flow([0], size=1, reverse=[1], packet_size=1500)])  # a network needs a flow
    workload = Workload(tmix=[Tmix(vectors, route=[0], reverse=[1], packet_size=1500)])
    return {"network": network, "duration": duration, "workload": workload}


# ---- several links ---------------------------------------------------------------------------------------


@setup
def parking_lot(
    capacities: Sequence[str] = ("970 Mb/s", "800 Mb/s"),
    delay: float = 0.05,
    starts: Sequence[float] = (0.0, 15.0, 30.0),
    duration: float = 45.0,
    packet_size: int = 1000,
) -> Parts:
    """One flow over all links, later joined by one flow on each link (THESIS fig. 22; EVAL sec. 4.6)."""
    network = Network.parking_lot(list(capacities), delay=delay, starts=list(starts), packet_size=packet_size)
    return {"network": network, "duration": duration}


@setup
def topology(name: str, duration: float, **options: Any) -> Parts:
    """A topology of `Network` by name (T1 to T5, T_u, xcp_unfair), with its options."""
    return {"network": getattr(Network, name)(**options), "duration": duration}


# ---- JETMAX ----------------------------------------------------------------------------------------------

DURATIONS = {"T1": 150.0, "T2": 150.0, "T3": 150.0, "T4": 240.0, "T5": 60.0}
"""Default durations of runs in JETMAX's topologies, s."""


@setup
def jetmax_topology(
    name: str,
    seed: int,
    duration: float | None = None,
    spread: float = 0.05,
    buffer: str | None = None,
    packet_size: int = 1000,
    phase: float | None = None,
    access_delays: Sequence[float] | None = None,
    last_first: bool = False,
    spikes: bool | None = None,
    **options: Any,
) -> Parts:
    """T1 to T5, T3 with its delay spikes; flows start up to `spread` seconds late, drawn with the seed.

    T2 has 100 Mb/s: at 10 Mb/s the difference of two rates of EMKC-AVQ, stable in T2, would only change sign each RTT.

    `last_first` reverses the order of the starts; `spikes` adds or removes the delay spikes of T3 for ACKs.
    """
    bare = getattr(Network, name)(**({"capacity": "100 Mb/s"} if name == "T2" else {}) | options)
    starts = np.array([flow.start for flow in bare.flows])
    starts = starts.max() - starts if last_first else starts
    starts += np.random.default_rng(seed).uniform(0.0, spread, bare.n_flows)
    flows = [
        replace(flow, start=float(start), packet_size=packet_size)
        for flow, start in zip(bare.flows, starts, strict=True)
    ]
    if access_delays is not None:
        flows = [replace(flow, access_delay=delay) for flow, delay in zip(flows, access_delays, strict=True)]
    links = [link if buffer is None else replace(link, buffer=buffer) for link in bare.links]
    return {
        "network": Network(links, flows, bare._rtts if access_delays is None else None),
        "duration": DURATIONS[name] if duration is None else duration,
        "impairments": [DelaySpikes(acks_of="all")] if (name == "T3" if spikes is None else spikes) else [],
        "phases": "random" if phase is None else [phase] * bare.n_links,
    }


@setup
def T1_crowd(
    flows: int,
    rtts: Sequence[float] = (0.22, 2.02),
    starts: Sequence[float] = (0.0, 5.0),
    duration: float = 150.0,
    buffer: str | None = None,
) -> Parts:
    """T1, or more flows on its link, half of them with each RTT and start (JETMAX fig. 5)."""
    if flows == 2:
        rtts, starts = (0.22, 2.02), (0.0, 5.0)
    halves = [2 * k // flows for k in range(flows)]
    network = Network.dumbbell(
        "10 Mb/s", rtts=[rtts[k] for k in halves], starts=[starts[k] for k in halves], buffer=buffer
    )
    return {"network": network, "duration": duration}


@setup
def T5_crowds(crowd: str, seed: int, duration: float = 60.0, packet_size: int = 1000) -> Parts:
    """JETMAX fig. 6: on the link of T5 fifty flows join one and stay, or ten join every 10 s for 1 to 15 s."""
    bare = Network.T5()
    parts: Parts = {"duration": duration}
    flows = [replace(flow, packet_size=packet_size) for flow in bare.flows]
    if crowd == "ten every 10 s":
        lives = np.random.default_rng(seed).uniform(1.0, 15.0, 10)
        flows = [replace(flows[0], stop=float(life)) for life in lives]
        later = Arrivals(
            [0],
            10.0,
            spacing="regular",
            batch=10,
            duration=(1.0, 15.0),
            start=10.0,
            packet_size=packet_size,
        )
        parts["workload"] = Workload(arrivals=[later])
    return parts | {"network": Network(bare.links, flows, bare._rtts and bare._rtts[: len(flows)])}


@setup
def dumbbell_with_mice(
    duration: float = 150.0, rtt: float = 0.1, sigma: float = 0.5, spacing: str = "poisson"
) -> Parts:
    """JETMAX fig. 14: two long flows that start 5 s apart, and 500 short flows after 15 s."""
    network = Network.dumbbell("100 Mb/s", rtts=[rtt, rtt], delay=0.02, starts=[0.0, 5.0])
    mice = Arrivals.lifetimes([0], start=15.0, sigma=sigma, spacing=spacing)
    return {"network": network, "duration": duration, "workload": Workload(arrivals=[mice])}


@setup
def parking_lot_with_mice(
    seed: int,
    count: int = 500,
    loss: float = 0.0,
    ack_loss: float = 0.0,
    starts: Sequence[float] = (15.0, 80.0),
    delay: float = 0.02,
    duration: float = 250.0,
    intervals: tuple[float, float] = (0.1, 0.3),
    sigma: float = 0.5,
) -> Parts:
    """JETMAX figs. 15, 16b: one long flow over 400 and 100 Mb/s; short flows on the first link, later on the second."""
    links = [Link("400 Mb/s", delay), Link("100 Mb/s", delay)]
    mice = [
        Arrivals.lifetimes([link], start=start, count=count, delay=delay, sigma=sigma)
        for link, start in enumerate(starts)
    ]
    lossy = [RandomLoss(loss, link=link) for link in (0, 1)] if loss else []
    lossy += [RandomLoss(ack_loss, acks_of="all")] if ack_loss else []
    drawn = np.random.default_rng(seed).uniform(*intervals, 2)
    return {
        "network": Network(links, [Flow([0, 1], access_delay=0.01)]),
        "duration": duration,
        "workload": Workload(arrivals=mice),
        "intervals": drawn.tolist(),
        "impairments": lossy,
    }


@setup
def two_way(
    seed: int,
    capacity: float = 1024e6,
    rtt: float | None = None,
    flows: int = 50,
    duration: float = 30.0,
    packet_sizes: Sequence[int] = (1000, 1500, 9000),
) -> Parts:
    """JETMAX fig. 17: flows in both directions over two links of 20 ms, with RTTs of 40 to 220 ms or all equal.

    Packets are larger above 1 Gb/s and again above 2 Gb/s; otherwise runs would take minutes.
    """
    rng = np.random.default_rng(seed)
    delay = 0.02 if rtt is None else rtt / 4.0
    size = packet_sizes[int(capacity >= 1e9) + int(capacity >= 2e9)]
    made = []
    for way in (0, 1):
        for _ in range(flows):
            wanted = rng.uniform(0.02, 0.22) if rtt is None else rtt
            made.append(
                Flow(
                    [way],
                    reverse=[1 - way],
                    access_delay=max(0.0, wanted / 2.0 - delay),
                    start=float(rng.uniform(0.0, 1.0)),
                    packet_size=size,
                )
            )
    return {"network": Network([Link(capacity, delay), Link(capacity, delay)], made), "duration": duration}


@setup
def two_routers(figure: str, packet_size: int = 1500, delay: float = 0.01, duration: float | None = None) -> Parts:
    """JETMAX figs. 20b, 21a and 21b: flows over R1 (600 Mb/s) and R2 (940 Mb/s) of the Linux testbed."""
    links = [Link("600 Mb/s", delay), Link("940 Mb/s", delay)]
    flows = {
        "20b": [Flow([1], start=15.0 * k, stop=75.0 + 15.0 * k) for k in range(5)],
        "21a": [Flow([0, 1], stop=40.0), Flow([1], start=20.0)],
        "21b": [Flow([0, 1], stop=60.0), Flow([1], start=20.0), Flow([0], start=40.0)],
    }[figure]
    ends = {"20b": 135.0, "21a": 60.0, "21b": 80.0}
    return {
        "network": Network(links, [replace(flow, packet_size=packet_size) for flow in flows]),
        "duration": ends[figure] if duration is None else duration,
    }
