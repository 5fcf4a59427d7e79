"""Transformations of a scenario that have a known effect on its results: the basis of metamorphic tests.

A run must not depend on the labels of flows and links, on flows that never send, on links that no flow crosses, or on
the units of size and time. Each function here returns the transformed scenario and the way back: `Transformed.restored`
returns the results in the labels and units of the original scenario, to be compared with the original results.

Random phases of routers, and random numbers of impairments and workloads, are drawn in the order of links and flows:
set `Scenario.phases` if runs must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import RATE, SIZE, TIME, Dimension, Quantity, as_count, as_number, as_time
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.parameters import dimensions_of
from ecc.contract.protocol import Protocol
from ecc.network import impairments
from ecc.network.applications import Application
from ecc.network.network import Flow, Link, Pause
from ecc.queues import DropTail
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.traffic.workload import KINDS as PARTS
from ecc.traffic.workload import Arrivals, OnOff, Tmix, Workload

__all__ = [
    "Transformed",
    "add_idle_flow",
    "add_unused_link",
    "permute_links",
    "relabel_flows",
    "scale_sizes",
    "scale_times",
    "split_link",
    "start_later",
]

ADDED = -1
"""Origin of a flow or link that the original scenario does not have."""

DIMENSIONS: Mapping[type, Mapping[str, Any]] = {
    Pause: {"xoff": SIZE, "xon": SIZE, "headroom": SIZE},
    Link: {"capacity": RATE, "delay": TIME, "buffer": SIZE},
    Flow: {
        "start": TIME,
        "stop": TIME,
        "size": SIZE,
        "access_delay": TIME,
        "packet_size": SIZE,
        "delayed_acks": (None, TIME),
        "trimmed_size": SIZE,
        "ack_size": SIZE,
        "writes": (SIZE, TIME),
    },
    Arrivals: {
        "mean_interarrival": TIME,
        "mean_size": SIZE,
        "start": TIME,
        "stop": TIME,
        "access_delay": TIME,
        "packet_size": SIZE,
        "mean_duration": TIME,
        "duration": TIME,
    },
    OnOff: {
        "mean_on": TIME,
        "mean_off": TIME,
        "start": TIME,
        "stop": TIME,
        "access_delay": TIME,
        "packet_size": SIZE,
    },
    impairments.RandomLoss: {},
    impairments.BurstLoss: {},
    impairments.DelaySpikes: {"delay": TIME, "between": TIME},
    impairments.Jitter: {"delay": TIME},
    impairments.CapacitySchedule: {"times": TIME, "capacities": RATE},
    impairments.DelaySchedule: {"times": TIME, "delays": TIME},
    impairments.Shaper: {"rate": RATE, "burst": SIZE},
    impairments.DeliveryTrace: {"times": TIME, "opportunity": SIZE},
    impairments.Aggregation: {"wait": TIME, "max_size": SIZE},
}
"""Dimension of the fields of a scenario's parts; for a pair, of each item. Protocols declare theirs themselves."""

UNITS: Mapping[str, Dimension] = {"bit/s": RATE, "bytes": SIZE, "bit": SIZE, "s": TIME}
"""Dimensions of the units of series; all other series are pure numbers."""

COLUMNS: Mapping[str, Dimension] = {
    **dict.fromkeys(("start", "finish", "completion_time", "min_rtt", "idle_rtt", "ideal_time"), TIME),
    **dict.fromkeys(("size", "delivered", "lost", "retransmitted"), SIZE),
}
"""Dimensions of the columns of the table of transfers."""


@check_arguments
@dataclass(frozen=True)
class Transformed:
    """A transformed scenario, and the mapping of its results back to the original one.

    Attributes
    ----------
    scenario : Scenario
        The transformed scenario.
    flows : tuple of int
        For each flow of the transformed scenario, its index in the original one; -1 for an additional flow.
    links : tuple of int
        For each link of the transformed scenario, its index in the original one; -1 for an additional link.
    size : float
        Factor by which all sizes are larger.
    time : float
        Factor by which all times are longer; rates are larger by size / time.
    later : float, s
        Time by which all flows and changes begin later, in the transformed scenario.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02, 0.05]), models.NewReno(), 2.0)
    >>> relabel_flows(original, [1, 0]).scenario.network.rtts.tolist()
    [0.05, 0.02]
    """

    scenario: Scenario
    flows: tuple[int, ...]
    links: tuple[int, ...]
    size: float = 1.0
    time: float = 1.0
    later: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.scenario, Scenario):
            raise TypeError(f"scenario must be a Scenario, got {shown(self.scenario)}")
        network = self.scenario.network
        for name, count in (("flows", network.n_flows), ("links", network.n_links)):
            value = getattr(self, name)
            origins = tuple(value) if isinstance(value, Iterable) else ()
            if len(origins) != count or not all(type(origin) is int and origin >= ADDED for origin in origins):
                raise ValueError(f"{name} must be {count} indices, or -1 for additional ones, got {shown(value)}")
            object.__setattr__(self, name, origins)
        for name in ("size", "time"):
            object.__setattr__(self, name, as_number(getattr(self, name), name, positive=True))
        object.__setattr__(self, "later", as_time(self.later, "later"))

    def restored(self, run: Trajectory) -> Trajectory:
        """Return a run of the transformed scenario in the labels and units of the original one.

        Parameters
        ----------
        run : Trajectory
            Run of any engine. Its sampling period must be longer by the factor `time`, and `later` must be a multiple
            of it.

        Returns
        -------
        Trajectory
            Series, table of transfers, and counts; without queue histograms and trace. Additional flows and links are
            left out.

        Notes
        -----
        A recorded state is scaled according to its unit, which its `State` declares; without a unit it is not scaled.
        """
        flows, links = _places(self.flows), _places(self.links)
        ends = run.data["time"].to_numpy()
        begun = run.data.isel(time=ends > self.later * (1.0 + 1e-9))
        data = begun.assign_coords(time=(begun["time"] - self.later) / self.time)
        for name, series in begun.items():
            dimension = UNITS.get(series.attrs.get("units", ""), Dimension())
            data[name] = (series.dims, series.to_numpy() / dimension.factor(self.size, self.time), series.attrs)
        if "bottleneck" in data:
            original = np.array([*self.links, -1])  # index -1 means no link yet
            data["bottleneck"].values = original[begun["bottleneck"].to_numpy()]
        if "flow" in data.sizes:
            data = data.isel(flow=flows).assign_coords(flow=np.arange(len(flows)))
        if "link" in data.sizes:
            data = data.isel(link=links).assign_coords(link=np.arange(len(links)))
        if "class" in data.sizes:
            of_link = data["class_link"].to_numpy()
            order = [k for link in links for k in np.flatnonzero(of_link == link)]
            data = data.isel({"class": order})
            data = data.assign_coords(class_link=("class", np.array(self.links)[of_link[order]]))
        table = run.flows.copy()
        for name in {"start", "finish"} & set(table):
            table[name] = table[name] - self.later
        for name, dimension in COLUMNS.items():
            if name in table:
                table[name] = table[name] / dimension.factor(self.size, self.time)
        n = len(self.flows)
        rows = [*flows, *range(n, len(table))]  # transfers of a workload follow those of the network
        table = table.iloc[rows].reset_index(drop=True) if len(table) >= n else table
        table.index.name = run.flows.index.name
        return Trajectory(data, table, run.stats)


def _places(origins: Sequence[int]) -> list[int]:
    """Return, for each original index, the first new index with that origin."""
    return [origins.index(original) for original in range(max(origins) + 1)]


@check_arguments
def relabel_flows(scenario: Scenario, order: Sequence[int]) -> Transformed:
    """Return a scenario with the flows in another order.

    Parameters
    ----------
    scenario : Scenario
    order : sequence of int
        A permutation: for each flow of the new scenario, its index in the old one.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Raises
    ------
    ValueError
        If `order` is not a permutation of the flows.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02, 0.05]), models.NewReno(), 2.0)
    >>> relabel_flows(original, [1, 0]).flows
    (1, 0)
    """
    flows = _permutation(order, scenario.network.n_flows, "flows")
    return Transformed(_relabeled(scenario, flows, range(scenario.network.n_links)), flows, _links(scenario))


@check_arguments
def permute_links(scenario: Scenario, order: Sequence[int]) -> Transformed:
    """Return a scenario with the links in another order.

    Parameters
    ----------
    scenario : Scenario
    order : sequence of int
        A permutation: for each link of the new scenario, its index in the old one.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Raises
    ------
    ValueError
        If `order` is not a permutation of the links.

    Examples
    --------
    >>> from ecc import Flow, Link, Network, Scenario, models
    >>> network = Network([Link("10 Mb/s"), Link("20 Mb/s")], [Flow([0, 1])])
    >>> permute_links(Scenario(network, models.NewReno(), 2.0), [1, 0]).scenario.network.flows[0].route
    (1, 0)
    """
    links = _permutation(order, scenario.network.n_links, "links")
    return Transformed(_relabeled(scenario, range(scenario.network.n_flows), links), _flows(scenario), links)


@check_arguments
def add_idle_flow(scenario: Scenario, like: int = 0, index: int | None = None) -> Transformed:
    """Return a scenario with one more flow, which starts after the end of the run.

    Parameters
    ----------
    scenario : Scenario
    like : int, optional
        Index of the flow that is copied, except for its start.
    index : int, optional
        Index of the new flow; None: after all others.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02, 0.05]), models.NewReno(), 2.0)
    >>> idle = add_idle_flow(original, index=0)
    >>> idle.flows, idle.scenario.network.flows[0].start
    ((-1, 0, 1), 4.0)
    """
    n = scenario.network.n_flows
    copied = _index(like, "like", n)
    at = n if index is None else _index(index, "index", n + 1)
    sources = [*range(at), copied, *range(at, n)]
    added = _relabeled(scenario, sources, range(scenario.network.n_links))
    flows = list(added.network.flows)
    flows[at] = replace(flows[at], start=2.0 * float(scenario.duration), stop=None)
    return Transformed(
        added.with_(network=replace(added.network, flows=flows)),
        tuple([*range(at), ADDED, *range(at, n)]),
        _links(scenario),
    )


@check_arguments
def add_unused_link(scenario: Scenario, like: int = 0, index: int | None = None) -> Transformed:
    """Return a scenario with one more link, which no flow crosses.

    Parameters
    ----------
    scenario : Scenario
    like : int, optional
        Index of the link that is copied.
    index : int, optional
        Index of the new link; None: after all others.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02, 0.05]), models.NewReno(), 2.0)
    >>> add_unused_link(original).scenario.network.n_links
    2
    """
    n = scenario.network.n_links
    copied = _index(like, "like", n)
    at = n if index is None else _index(index, "index", n + 1)
    sources = [*range(at), copied, *range(at, n)]
    links = tuple([*range(at), ADDED, *range(at, n)])
    return Transformed(_relabeled(scenario, range(scenario.network.n_flows), sources, links), _flows(scenario), links)


@check_arguments
def scale_sizes(scenario: Scenario, factor: float) -> Transformed:
    """Return a scenario in which all sizes and rates are larger by a factor.

    The factor applies to packets, ACKs that cross links, buffers, transfers, capacities, and the sizes and rates among
    the parameters of protocols (`Protocol.dimensions`). Times and numbers of packets do not change.

    Parameters
    ----------
    scenario : Scenario
    factor : float, > 0
        Factor, for example 2.0; a power of two keeps all digits of rates.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Raises
    ------
    ValueError
        If a size is no longer an integer number of bytes, if headers count on links (`header_bytes`), or if the
        workload has vectors of Tmix, which have fixed sizes.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02], buffer="30 kB"), models.NewReno(), 2.0)
    >>> scale_sizes(original, 2.0).scenario.network.links[0].buffer
    60000
    """
    if scenario.header_bytes:
        raise ValueError("header_bytes must be False to scale sizes, got True: headers have fixed sizes")
    return _scaled_scenario(scenario, as_number(factor, "factor", positive=True), 1.0)


@check_arguments
def scale_times(scenario: Scenario, factor: float) -> Transformed:
    """Return a scenario in which all times are longer and all rates lower by a factor.

    The factor applies to delays, starts, the duration, control intervals, and the times and rates among the parameters
    of protocols (`Protocol.dimensions`). Sizes do not change.

    Parameters
    ----------
    scenario : Scenario
    factor : float, > 0
        Factor, for example 2.0; a power of two keeps all digits of rates and times.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Raises
    ------
    ValueError
        If a time exceeds the range of the clock, or if the workload has vectors of Tmix, which have fixed times.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02]), models.NewReno(), 2.0)
    >>> slower = scale_times(original, 2.0).scenario
    >>> slower.duration, slower.network.links[0].capacity, slower.protocol.min_rto
    (4.0, 5000000.0, 2.0)
    """
    return _scaled_scenario(scenario, 1.0, as_number(factor, "factor", positive=True))


@check_arguments
def split_link(scenario: Scenario, link: int = 0, capacity_factor: float = 2.0) -> Transformed:
    """Return a scenario with a link replaced by two links in series; the second never has a queue.

    The first has the capacity, the buffer and the impairments of the original link; the second, with an unlimited
    buffer, follows directly. Each has half of the delay. Protocols have their routers at both links, queue disciplines
    only at the first. The second link adds the transmission time of a packet, which is shorter by `capacity_factor`
    than that of the first.

    Parameters
    ----------
    scenario : Scenario
    link : int, optional
        Index of the link.
    capacity_factor : float, >= 1, optional
        Capacity of the second link, divided by that of the first.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02], delay="4 ms"), models.NewReno(), 2.0)
    >>> network = split_link(original).scenario.network
    >>> network.flows[0].route, network.links[1]
    ((0, 1), Link(capacity='20 Mb/s', delay='2 ms'))
    """
    network = scenario.network
    k, n = _index(link, "link", network.n_links), network.n_links
    factor = as_number(capacity_factor, "capacity_factor", minimum=1.0)
    links = (*range(n), k)
    added = _relabeled(scenario, range(network.n_flows), links, (*range(n), ADDED))

    def through(route: Sequence[int]) -> tuple[int, ...]:
        return tuple(hop for crossed in route for hop in ((crossed, n) if crossed == k else (crossed,)))

    def rerouted(item: Any) -> Any:
        changes: dict[str, Any] = {
            "route": through(item.route),
            "reverse": item.reverse and through(item.reverse),
        }
        if isinstance(item, Flow):
            changes["alternatives"] = [through(route) for route in item.alternatives]
        return replace(item, **changes)

    old = network.links[k]
    halves = {k: replace(old, delay=0.5 * old.delay), n: Link(old.capacity * factor, 0.5 * old.delay)}
    ends = list(added.network.ends)
    if ends:
        middle = 1 + max(node for pair in ends for node in pair)
        ends[k], ends[n] = (ends[k][0], middle), (middle, ends[k][1])
    split = replace(
        added.network,
        links=[halves.get(index, original) for index, original in enumerate(added.network.links)],
        flows=[rerouted(flow) for flow in added.network.flows],
        ends=ends,
    )
    protocol = added.protocol
    if isinstance(protocol, ProtocolAssignment):
        routers = [router for router in scenario.deployment.links[k] if router.has_hosts()]
        protocol = protocol.with_link(n, routers or [DropTail()], n + 1)
    workload = _each_of(added.workload, rerouted)
    return Transformed(added.with_(network=split, protocol=protocol, workload=workload), _flows(scenario), links)


@check_arguments
def start_later(scenario: Scenario, delay: Quantity) -> Transformed:
    """Return a scenario in which all flows, transfers and changes of capacities begin later.

    Parameters
    ----------
    scenario : Scenario
    delay : float, s, >= 0
        Delay, for example "3 s". If it is not a multiple of all control intervals, routers tick in other phases.

    Returns
    -------
    Transformed
        The changed scenario, and the transformation that its result should show.

    Raises
    ------
    ValueError
        If there are delivery traces, which begin with the run, or vectors of Tmix.

    Notes
    -----
    During the delay, routers measure idle links. Results differ if routers of a protocol then announce other values
    than at the start of a run.

    Examples
    --------
    >>> from ecc import Network, Scenario, models
    >>> original = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.02]), models.NewReno(), 2.0)
    >>> later = start_later(original, "3 s").scenario
    >>> later.duration, later.network.flows[0].start
    (5.0, 3.0)
    """
    wait = as_time(delay, "delay")

    def moved(item: Any) -> Any:
        if isinstance(item, Tmix):
            raise ValueError("workload must have no Tmix to start later, got one: its vectors have times")
        return replace(item, start=item.start + wait, stop=None if item.stop is None else item.stop + wait)

    def postponed(impairment: Any) -> Any:
        if isinstance(impairment, impairments.DeliveryTrace):
            raise ValueError("impairments must have no DeliveryTrace to start later, got one: it begins with the run")
        if isinstance(impairment, impairments.CapacitySchedule | impairments.DelaySchedule):
            return replace(impairment, times=[time + wait for time in impairment.times])
        return impairment

    network = scenario.network
    later = scenario.with_(
        network=replace(network, flows=[moved(flow) for flow in network.flows]),
        duration=scenario.duration + wait,
        workload=_each_of(scenario.workload, moved),
        impairments=[postponed(impairment) for impairment in scenario.impairments],
    )
    return Transformed(later, _flows(scenario), _links(scenario), later=wait)


# ---- parts ---------------------------------------------------------------------------------------------------


def _flows(scenario: Scenario) -> tuple[int, ...]:
    return tuple(range(scenario.network.n_flows))


def _links(scenario: Scenario) -> tuple[int, ...]:
    return tuple(range(scenario.network.n_links))


def _index(value: Any, name: str, n: int) -> int:
    if as_count(value, name) >= n:
        raise ValueError(f"{name} must be from 0 to {n - 1}, got {value}")
    return int(value)


def _permutation(order: Any, n: int, name: str) -> tuple[int, ...]:
    permutation = tuple(as_count(index, "order") for index in order)
    if sorted(permutation) != list(range(n)):
        raise ValueError(f"order must be a permutation of the {n} {name}, got {shown(list(permutation))}")
    return permutation


def _each_of(workload: Workload | None, changed: Any) -> Workload | None:
    """Return a workload with every transfer, stream or source changed by a function."""
    if workload is None:
        return None
    parts = {name: [changed(item) for item in getattr(workload, name)] for name in PARTS}
    return Workload(**parts)


def _relabeled(
    scenario: Scenario, flows: Sequence[int], links: Sequence[int], link_origins: Sequence[int] | None = None
) -> Scenario:
    """Return a scenario with a copy of the old flow flows[j] as flow j, and likewise for links.

    `link_origins` has -1 for additional copies, which no flow crosses and which have no impairments.
    """
    new_links = _places(tuple(links) if link_origins is None else tuple(link_origins))
    first_flows = _places(tuple(flows))
    network = scenario.network

    def led(route: Sequence[int] | None) -> tuple[int, ...] | None:
        return None if route is None else tuple(new_links[link] for link in route)

    def rerouted(item: Any) -> Any:
        changes: dict[str, Any] = {"route": led(item.route), "reverse": led(item.reverse)}
        if isinstance(item, Flow):
            changes["alternatives"] = tuple(led(route) for route in item.alternatives)
        return replace(item, **changes)

    def replaced(impairment: Any) -> Any:
        if impairment.link is not None:
            return replace(impairment, link=new_links[impairment.link])
        if impairment.acks_of == "all":
            return impairment
        return replace(impairment, acks_of=[first_flows[flow] for flow in impairment.acks_of])

    def of_links(values: Any) -> Any:
        return values if values is None or isinstance(values, str) else [values[link] for link in links]

    rtts, protocol = network._rtts, scenario.protocol
    if isinstance(protocol, ProtocolAssignment):
        protocol = protocol.relabeled(flows, links, network)
    else:
        protocol = protocol.relabeled(flows)
    assigned = scenario.assignment
    return scenario.with_(
        network=replace(
            network,
            links=[network.links[link] for link in links],
            flows=[rerouted(network.flows[flow]) for flow in flows],
            _rtts=None if rtts is None else tuple(rtts[flow] for flow in flows),
            ends=[network.ends[link] for link in links] if network.ends else (),
        ),
        protocol=protocol,
        workload=_each_of(scenario.workload, rerouted),
        assignment=None if assigned is None else [new_links[assigned[flow]] for flow in flows],
        phases=of_links(scenario.phases),
        intervals=of_links(scenario.intervals),
        impairments=[replaced(impairment) for impairment in scenario.impairments],
    )


def _scaled_scenario(scenario: Scenario, size: float, time: float) -> Transformed:
    def value(unscaled: Any, dimension: Any, name: str) -> Any:
        if unscaled is None or dimension is None or isinstance(unscaled, str):  # a law by its name
            return unscaled
        if isinstance(dimension, tuple):
            return tuple(value(item, of_item, name) for item, of_item in zip(unscaled, dimension, strict=True))
        if isinstance(unscaled, list | tuple):
            return tuple(value(item, dimension, name) for item in unscaled)
        result = unscaled * dimension.factor(size, time)
        if isinstance(unscaled, int):
            if result != round(result):
                raise ValueError(f"factor must keep {name} ({unscaled}) a whole number, got {size * time:g}")
            return round(result)
        return result

    def scaled(item: Any) -> Any:
        if isinstance(item, Tmix):
            raise ValueError("workload must have no Tmix to be scaled, got one: its vectors have sizes and times")
        if isinstance(item, Flow) and isinstance(item.writes, Application):
            kind = type(item.writes).__name__
            raise ValueError(f"writes must be periodic to be scaled, got {kind}: it draws whole bytes")
        dimensions = dict(DIMENSIONS[type(item)])
        if isinstance(item, Flow) and not isinstance(item.writes, tuple):
            dimensions["writes"] = RATE
        if isinstance(item, Flow) and item.reverse is None:
            dimensions["ack_size"] = None
        changes = {name: value(getattr(item, name), dimension, name) for name, dimension in dimensions.items()}
        if isinstance(item, Link) and item.pause is not None:
            changes["pause"] = scaled(item.pause)
        return replace(item, **changes)

    def of_protocol(protocol: Protocol) -> Protocol:
        kind = type(protocol).__name__
        changes = {
            name: value(getattr(protocol, name), dimension, f"{name} of {kind}")
            for name, dimension in dimensions_of(protocol).items()
        }
        result: Protocol = replace(protocol, **changes)
        for name, wanted in changes.items():
            if getattr(result, name) != wanted:
                raise ValueError(f"factor must keep {name} of {kind} a whole number, got {size * time:g}")
        return result

    network, protocol = scenario.network, scenario.protocol
    if isinstance(protocol, ProtocolAssignment):
        protocol = ProtocolAssignment(
            {key: of_protocol(host) for key, host in protocol.flows.items()},
            {key: tuple(map(of_protocol, routers)) for key, routers in protocol.links.items()},
        )
    else:
        protocol = of_protocol(protocol)
    result = scenario.with_(
        network=replace(
            network,
            links=[scaled(link) for link in network.links],
            flows=[scaled(flow) for flow in network.flows],
            _rtts=value(network._rtts, TIME, "rtts"),
        ),
        protocol=protocol,
        duration=value(scenario.duration, TIME, "duration"),
        workload=_each_of(scenario.workload, scaled),
        intervals=value(scenario.intervals, TIME, "intervals"),
        impairments=[scaled(impairment) for impairment in scenario.impairments],
    )
    return Transformed(result, _flows(scenario), _links(scenario), size, time)
