"""Several protocols in one network: the protocol of each flow, and the routers deployed at each link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from ecc._support.arguments import shown
from ecc.contract.choices import ARRAY_TYPES
from ecc.contract.equilibrium import Bound
from ecc.contract.protocol import Protocol
from ecc.network.network import Flow, Network

__all__ = [
    "Deployment",
    "ProtocolAssignment",
    "parameter_names",
    "parameter_value",
    "read_protocol",
    "with_parameter",
    "with_parameters",
]

OTHERS = "default"
EVERY_LINK = ("delay", "loss")
"""Signals that every link gives."""


@dataclass(frozen=True)
class Deployment:
    """Protocols of all flows and links of one network (`Scenario.deployment`).

    Attributes
    ----------
    flows : tuple of Protocol
        Protocol of each flow of the network.
    templates : tuple of Protocol
        Protocol of each template of the workload's transfers.
    links : tuple of tuple of Protocol
        Protocols with routers at each link.
    """

    flows: tuple[Protocol, ...]
    templates: tuple[Protocol, ...]
    links: tuple[tuple[Protocol, ...], ...]

    @cached_property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols in use, without duplicates, those of flows first."""
        return tuple(
            _distinct([*self.flows, *self.templates, *(protocol for routers in self.links for protocol in routers)])
        )

    def without_routers(self, network: Network) -> dict[Protocol, list[int]]:
        """Return the flows that meet no router of their protocol, by protocol.

        Parameters
        ----------
        network : Network
        """
        signals = [frozenset().union(*(router.gives for router in routers)) for routers in self.links]
        flows_without: dict[Protocol, list[int]] = {}
        for index, (flow, protocol) in enumerate(zip(network.flows, self.flows, strict=True)):
            links = {link for route in flow.routes for link in route}
            if protocol.gives and not any(protocol.gives & signals[link] for link in links):
                flows_without.setdefault(protocol, []).append(index)
        return flows_without

    def __str__(self) -> str:
        return _hosts_over_links([*self.flows, *self.templates], self.protocols)


@dataclass(frozen=True)
class ProtocolAssignment:
    """Protocols by flow and by link; `Scenario(protocol={"flows": ..., "links": ...})` creates one from a mapping.

    Parameters
    ----------
    flows : mapping or Protocol
        Flows -> Protocol; a single Protocol is for all flows.
    links : mapping, Protocol, or list of Protocol
        Links -> Protocol, or a sequence of Protocols with routers at the same link; without a mapping, for all links.
        A link that is not named runs the routers of the protocols of all flows that cross it.

    Raises
    ------
    TypeError, ValueError
        A value that is not a Protocol; a key that is not a flow or link; a flow or link named twice.

    Notes
    -----
    A key for flows or links is an index, a `range`, a tuple of indices, "2-5" (both ends included), or "default": all
    that are not named otherwise, including the transfers of a workload.

    Examples
    --------
    >>> from ecc.models import RCP, XCP
    >>> ProtocolAssignment({0: XCP(), "default": RCP()}).deploy(Network.dumbbell("1 Mb/s", [0.1, 0.1])).flows
    (XCP(...), RCP(...))
    """

    flows: Any
    links: Any = field(default_factory=dict)

    main_parameter = ""
    run_findings = ""

    @property
    def times(self) -> tuple[str, ...]:
        """The kinds of linear models: hybrid ones only if a queue discipline updates at the ticks of a clock."""
        disciplines = (protocol for half, protocol in self.halves if half == "links" and not protocol.has_hosts())
        ticking = any(state.clock == "interval" for queue in disciplines for state in queue.states.values())
        return ("continuous", "discrete", "hybrid") if ticking else ("continuous", "discrete")

    def published_bounds(self, network: Network) -> list[Bound]:
        """Return published stability bounds: an empty list, as no paper proves one for hosts over queue disciplines.

        Parameters
        ----------
        network : Network
        """
        return []

    def __post_init__(self) -> None:
        for name in ("flows", "links"):
            table = getattr(self, name)
            several = name == "links" and isinstance(table, list | tuple)
            if isinstance(table, Protocol) or several:
                table = {OTHERS: table}
            if not isinstance(table, Mapping):
                raise TypeError(f"protocol {name} must be a mapping of {name} to protocols, got {shown(table)}")
            by_part: dict[str, Any] = {}
            for key, value in table.items():
                several = name == "links" and not isinstance(value, Protocol) and isinstance(value, Iterable)
                single = tuple(value) if several else (value,)
                for protocol in single:
                    if not isinstance(protocol, Protocol):
                        raise TypeError(f"protocol of {name} {key!r} must be a Protocol, got {shown(protocol)}")
                    if name == "flows" and not protocol.has_hosts():
                        kind = type(protocol).__name__
                        raise ValueError(f"protocol of flows {key!r} must have hosts, got {kind}, which is for links")
                for part in _parts(key, name):
                    if part in by_part:
                        raise ValueError(f"protocol {name} must name each once, got {shown(part)} twice")
                    by_part[part] = value if name == "flows" else single
            object.__setattr__(self, name, by_part)
        if not self.flows:
            raise ValueError("protocol flows must name at least one protocol, got none")

    @classmethod
    def of(cls, protocol: Protocol | ProtocolAssignment) -> ProtocolAssignment:
        """Return an assignment unchanged, and a protocol as the assignment in which all flows and links run it."""
        return protocol if isinstance(protocol, ProtocolAssignment) else cls({OTHERS: protocol}, {OTHERS: protocol})

    def with_flow(self, index: int, protocol: Protocol, n_flows: int) -> ProtocolAssignment:
        """Return the assignment in which one flow runs another protocol and everything else is unchanged.

        Parameters
        ----------
        index : int
        protocol : Protocol
        n_flows : int
            Number of flows of the network.
        """
        by_flow = {k: runs for k, runs in enumerate(_spread(self.flows, n_flows, "flow")) if runs is not None}
        rest = {OTHERS: self.flows[OTHERS]} if OTHERS in self.flows else {}
        return ProtocolAssignment({**by_flow, index: protocol, **rest}, self.links)

    def with_link(self, index: int, routers: Sequence[Protocol], n_links: int) -> ProtocolAssignment:
        """Return the assignment in which one link has other routers and everything else is unchanged.

        Parameters
        ----------
        index : int
        routers : sequence of Protocol
        n_links : int
            Number of links of the network.
        """
        by_link = {k: runs for k, runs in enumerate(_spread(self.links, n_links, "link")) if runs is not None}
        rest = {OTHERS: self.links[OTHERS]} if OTHERS in self.links else {}
        return ProtocolAssignment(self.flows, {**by_link, index: tuple(routers), **rest})

    def relabeled(self, flows: Sequence[int], links: Sequence[int], network: Network) -> ProtocolAssignment:
        """Return the assignment for a network with relabeled flows and links.

        Parameters
        ----------
        flows : sequence of int
            For each flow of the new network, its index in the old one.
        links : sequence of int
            For each link of the new network, its index in the old one.
        network : Network
            The old network.
        """

        def moved(table: Mapping[str, Any], origins: Sequence[int], count: int, kind: str) -> dict[str, Any]:
            spread, rest = _spread(table, count, kind), table.get(OTHERS)
            named = {str(new): spread[old] for new, old in enumerate(origins) if spread[old] is not rest}
            return named if rest is None else {**named, OTHERS: rest}

        of_flows = moved(self.flows, flows, network.n_flows, "flow")
        of_links = moved(self.links, links, network.n_links, "link")
        return ProtocolAssignment(
            {key: protocol.relabeled(flows) for key, protocol in of_flows.items()},
            {key: tuple(protocol.relabeled(flows) for protocol in routers) for key, routers in of_links.items()},
        )

    @property
    def protocols(self) -> list[Protocol]:
        """All protocols, without duplicates, those of flows first."""
        return _distinct([*self.flows.values(), *(protocol for routers in self.links.values() for protocol in routers)])

    @property
    def halves(self) -> list[tuple[str, Protocol]]:
        """The protocols of flows, then those of links, each with the name of its half."""
        hosts = [("flows", protocol) for protocol in self.flows.values()]
        return hosts + [("links", protocol) for routers in self.links.values() for protocol in routers]

    def deploy(self, network: Network, templates: Sequence[Flow] = ()) -> Deployment:
        """Return the protocol of each flow, of each template of transfers and of each link of a network.

        Parameters
        ----------
        network : Network
        templates : sequence of Flow, optional
            Templates of the transfers of a workload.

        Raises
        ------
        ValueError
            A flow or link that does not exist; a flow without a protocol; a link crossed by flows with different
            parameters of the same protocol, to be resolved by name; hosts that respond to no signal of the links that
            they cross.
        """
        n = network.n_flows
        runs = _spread(self.flows, n, "flow") + [self.flows.get(OTHERS)] * len(templates)
        for index, protocol in enumerate(runs):
            if protocol is None:
                which = f"flow {index}" if index < n else "the transfers of the workload"
                raise ValueError(f"protocol flows must name {which} or {OTHERS!r}, got {', '.join(self.flows)}")
        firsts: dict[Any, tuple[int, Flow, Protocol]] = {}  # flows that differ in protocol or links, with their indices
        for index, (flow, protocol) in enumerate(zip([*network.flows, *templates], runs, strict=True)):
            key = (id(protocol), flow.route, flow.reverse, flow.alternatives)
            if key not in firsts:
                firsts[key] = index, flow, protocol
        links = self._of_links(network, [(flow, protocol) for _, flow, protocol in firsts.values()])
        for index, flow, protocol in firsts.values():
            _check_signals(f"flow {index}" if index < n else "the transfers of the workload", flow, protocol, links)
        return Deployment(tuple(runs[:n]), tuple(runs[n:]), tuple(map(tuple, links)))

    def _of_links(self, network: Network, flows: Iterable[tuple[Flow, Protocol]]) -> list[list[Protocol]]:
        """Return the protocols with routers at each link, for all flows that cross the network."""
        named = _spread(self.links, network.n_links, "link")
        crossing: list[list[Protocol]] = [[] for _ in range(network.n_links)]
        for protocol, routes in _routes_by_protocol(flows).items():
            for link in routes:
                crossing[link].append(protocol)
        deployed = []
        for link, (routers, through) in enumerate(zip(named, crossing, strict=True)):
            protocols = through if routers is None else list(routers)
            kinds = [type(router) for router in protocols if not router.has_packet_hooks() or router.link_hooks()]
            if len(set(kinds)) < len(kinds):
                twice = next(kind for kind in kinds if kinds.count(kind) > 1).__name__
                raise ValueError(
                    f"protocol links must name one router of each protocol for link {link}, got "
                    f"{', '.join(map(repr, protocols))}: {{'links': {{{link}: {twice}(...)}}}} selects one"
                )
            deployed.append(protocols)
        return deployed

    def __str__(self) -> str:
        return _hosts_over_links(self.flows.values(), self.protocols)


def _hosts_over_links(hosts: Iterable[Protocol], protocols: Iterable[Protocol]) -> str:
    """Return the names of the hosts' protocols, followed by "over" and the names of those that only links run."""
    of_hosts = dict.fromkeys(type(protocol).__name__ for protocol in hosts)
    of_links = dict.fromkeys(name for protocol in protocols if (name := type(protocol).__name__) not in of_hosts)
    return f"{', '.join(of_hosts)} over {', '.join(of_links)}" if of_links else ", ".join(of_hosts)


def read_protocol(protocol: Any) -> Protocol | ProtocolAssignment:
    """Return a Protocol or an assignment unchanged, and a mapping of flows and links as an assignment.

    Parameters
    ----------
    protocol : object
        Protocol, assignment, or mapping such as {"flows": CUBIC(), "links": RED()}.

    Raises
    ------
    TypeError, ValueError
        A value of another kind.
    """
    if isinstance(protocol, Mapping):
        if not {"flows"} <= set(protocol) <= {"flows", "links"}:
            raise ValueError(
                f"protocol must be a mapping with 'flows' and optionally 'links', got {shown(list(protocol))}"
            )
        protocol = ProtocolAssignment(**protocol)
    if not isinstance(protocol, Protocol | ProtocolAssignment):
        raise TypeError(f"protocol must be a Protocol, or a mapping of flows and links to them, got {shown(protocol)}")
    return protocol


def parameter_names(protocol: Protocol | ProtocolAssignment) -> list[str]:
    """Return the names of numeric parameters: "alpha" for a protocol, "flows.beta" or "links.alpha" for an assignment.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    """
    if isinstance(protocol, Protocol):
        numbers = [f for f in fields(protocol) if f.type not in ARRAY_TYPES]
        return [f.name for f in numbers if "float" in str(f.type) or "Quantity" in str(f.type)]
    names = [f"{half}.{name}" for half, part in protocol.halves for name in parameter_names(part)]
    return list(dict.fromkeys(names))


def parameter_value(protocol: Protocol | ProtocolAssignment, name: str) -> Any:
    """Return the value of a parameter; for an assignment, that of the first protocol which has it.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    name : str
        Name from `parameter_names`.
    """
    if isinstance(protocol, Protocol):
        return getattr(protocol, name)
    half, _, field_name = name.partition(".")
    return next(getattr(run, field_name) for part, run in protocol.halves if part == half and hasattr(run, field_name))


def with_parameter(protocol: Any, name: str, value: Any) -> Any:
    """Return a protocol with another value of a parameter; for an assignment, in all protocols of the half with it.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    name : str
        Name from `parameter_names`.
    value : object
    """
    return with_parameters(protocol, {name: value})


def with_parameters(protocol: Any, values: Mapping[str, Any]) -> Any:
    """Return a protocol or an assignment with other values of several parameters, set together.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    values : mapping
        Names from `parameter_names` -> values.

    Raises
    ------
    ValueError, TypeError
        A value out of range; the message names the parameter as `values` does, for example "links.alpha".
    """
    if isinstance(protocol, Protocol):
        return replace(protocol, **values)

    def moved(part: Protocol, half: str) -> Protocol:
        names = parameter_names(part)
        of_half = {name.removeprefix(half): value for name, value in values.items() if name.startswith(half)}
        changed = {name: value for name, value in of_half.items() if name in names}
        try:
            return replace(part, **changed)
        except (ValueError, TypeError) as error:  # its message names the parameter without the half
            named = next((name for name in changed if re.match(rf"{name}\b", str(error))), None)
            if named is None:
                raise
            raise type(error)(f"{half}{error}") from None

    return ProtocolAssignment(
        {key: moved(part, "flows.") for key, part in protocol.flows.items()},
        {key: tuple(moved(part, "links.") for part in routers) for key, routers in protocol.links.items()},
    )


def _check_signals(which: str, flow: Flow, protocol: Protocol, links: Sequence[Sequence[Protocol]]) -> None:
    """Refuse hosts that respond to no signal of their links; hosts that respond to no signal at all are accepted.

    Links may lack the routers of a protocol, as in real networks, unless a queue discipline takes their place.
    """
    answers = protocol.answers
    if not isinstance(answers, Set) or not all(isinstance(signal, str) for signal in answers):
        kind = type(protocol).__name__
        raise TypeError(f"answers of {kind} must be a set of signals, such as {{'loss', 'ecn'}}, got {shown(answers)}")
    routers = [router for route in flow.routes for link in route for router in links[link]]
    signals = frozenset(EVERY_LINK).union(*(router.gives for router in routers))
    has_discipline = not all(router.has_hosts() for router in routers)
    if answers and not answers & signals and (has_discipline or answers != protocol.gives):
        hint = "".join(
            f"; its own routers give {signal!r}: add that to answers" for signal in sorted(protocol.gives & signals)
        )
        raise ValueError(
            f"protocol of {which} must answer a signal of its links ({', '.join(sorted(signals))}), got "
            f"{type(protocol).__name__}, which answers {' and '.join(sorted(answers))}{hint}"
        )


def _distinct(protocols: Iterable[Protocol]) -> list[Protocol]:
    distinct: list[Protocol] = []
    for protocol in protocols:
        if protocol not in distinct:
            distinct.append(protocol)
    return distinct


def _routes_by_protocol(flows: Iterable[tuple[Flow, Protocol]]) -> dict[Protocol, set[int]]:
    """Return the links that the flows of each protocol cross."""
    crossed: dict[Protocol, set[int]] = {}
    for flow, protocol in flows:
        crossed.setdefault(protocol, set()).update(*flow.routes, flow.reverse or ())
    return crossed


def _parts(key: Any, name: str) -> list[str]:
    """Return a key as written in TOML, "default", "3" or "2-5"; several for a tuple or a range with gaps."""
    if isinstance(key, range) and key.step == 1 and len(key) > 1:
        return [f"{key.start}-{key.stop - 1}"]
    if isinstance(key, range | tuple):
        return [part for item in key for part in _parts(item, name)]
    text = str(key)
    limits = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if isinstance(key, bool) or not (text == OTHERS or (limits and int(limits[1]) <= int(limits[2] or limits[1]))):
        raise ValueError(f"protocol {name} must be named by index, range, '2-5' or {OTHERS!r}, got {shown(key)}")
    return [text]


def _spread(table: Mapping[str, Any], count: int, kind: str) -> list[Any]:
    """Return the entry of a table for each of `count` flows or links; None for those that it does not name."""
    entries: list[Any] = [table.get(OTHERS)] * count
    named: set[int] = set()
    for key, value in table.items():
        if key != OTHERS:
            first, _, last = key.partition("-")
            for index in range(int(first), int(last or first) + 1):
                if index >= count:
                    raise ValueError(f"protocol {kind}s must be from 0 to {count - 1}, got {key}")
                if index in named:
                    raise ValueError(f"protocol {kind}s must name each once, got {kind} {index} twice")
                named.add(index)
                entries[index] = value
    return entries
