"""Several protocols in one network: which flow runs what, and whose routers are deployed at a link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from ecc._support.arguments import shown
from ecc.models.base import Bound, Protocol
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
"""The signals that every link gives."""


@dataclass(frozen=True)
class Deployment:
    """Which protocol runs where, worked out for one network (`Scenario.deployment`).

    Attributes
    ----------
    flows : tuple of Protocol
        Of each flow of the network.
    templates : tuple of Protocol
        Of each template of the workload's transfers.
    links : tuple of tuple of Protocol
        Those whose routers are deployed at each link.
    """

    flows: tuple[Protocol, ...]
    templates: tuple[Protocol, ...]
    links: tuple[tuple[Protocol, ...], ...]

    @cached_property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols that run, each once, those of flows first."""
        return tuple(_each_once([*self.flows, *self.templates, *(one for some in self.links for one in some)]))

    def without_routers(self, network: Network) -> dict[Protocol, list[int]]:
        """Return protocols whose routers are at no link of flows that run them, with those flows.

        Parameters
        ----------
        network : Network
        """
        given = [frozenset().union(*(router.gives for router in some)) for some in self.links]
        found: dict[Protocol, list[int]] = {}
        for index, (flow, protocol) in enumerate(zip(network.flows, self.flows, strict=True)):
            links = {link for route in flow.routes for link in route}
            if protocol.gives and not any(protocol.gives & given[link] for link in links):
                found.setdefault(protocol, []).append(index)
        return found

    def __str__(self) -> str:
        return _hosts_over_links([*self.flows, *self.templates], self.protocols)


@dataclass(frozen=True)
class ProtocolAssignment:
    """Protocols by flow and by link; `Scenario(protocol={"flows": ..., "links": ...})` makes one of a mapping.

    Parameters
    ----------
    flows : mapping or Protocol
        Which flows -> Protocol; one for all.
    links : mapping, Protocol, or list of Protocol
        Which links -> Protocol, or sequence of Protocols whose routers are all deployed there; one or several for all.
        A link that is not named runs the routers of the protocols of all flows that cross it.

    Raises
    ------
    TypeError, ValueError
        What is no Protocol, or no flow or link; one named twice.

    Notes
    -----
    Which flows or links: an index, a `range`, a tuple of indices, "2-5" (both ends count), or "default": all that are
    not named otherwise, the transfers of a workload among them.

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
        """The kinds of linear models: hybrid ones where queue disciplines step at ticks of their own."""
        disciplines = (one for half, one in self.halves if half == "links" and not one.has_hosts())
        ticking = any(state.clock == "interval" for one in disciplines for state in one.states.values())
        return ("continuous", "hybrid") if ticking else ("continuous",)

    def published_bounds(self, network: Network) -> list[Bound]:
        """Return the stability bounds that papers prove; none of hosts over queue disciplines.

        Parameters
        ----------
        network : Network
        """
        return []

    def __post_init__(self) -> None:
        for name in ("flows", "links"):
            given = getattr(self, name)
            several = name == "links" and isinstance(given, list | tuple)
            if isinstance(given, Protocol) or several:
                given = {OTHERS: given}
            if not isinstance(given, Mapping):
                raise TypeError(f"protocol {name} must be a mapping of {name} to protocols, got {shown(given)}")
            table: dict[str, Any] = {}
            for key, value in given.items():
                several = name == "links" and not isinstance(value, Protocol) and isinstance(value, Iterable)
                single = tuple(value) if several else (value,)
                for protocol in single:
                    if not isinstance(protocol, Protocol):
                        raise TypeError(f"protocol of {name} {key!r} must be a Protocol, got {shown(protocol)}")
                    if name == "flows" and not protocol.has_hosts():
                        kind = type(protocol).__name__
                        raise ValueError(f"protocol of flows {key!r} must have hosts, got {kind}, which is for links")
                for part in _parts(key, name):
                    if part in table:
                        raise ValueError(f"protocol {name} must name each once, got {shown(part)} twice")
                    table[part] = value if name == "flows" else single
            object.__setattr__(self, name, table)
        if not self.flows:
            raise ValueError("protocol flows must name at least one protocol, got none")

    @classmethod
    def of(cls, protocol: Protocol | ProtocolAssignment) -> ProtocolAssignment:
        """Return an assignment as it is, and one protocol as the assignment in which all flows and links run it."""
        return protocol if isinstance(protocol, ProtocolAssignment) else cls({OTHERS: protocol}, {OTHERS: protocol})

    def with_flow(self, index: int, protocol: Protocol, n_flows: int) -> ProtocolAssignment:
        """Return the assignment in which one flow runs another protocol, and all else is as it was.

        Parameters
        ----------
        index : int
        protocol : Protocol
        n_flows : int
            Of the network.
        """
        others = {k: one for k, one in enumerate(_spread(self.flows, n_flows, "flow")) if one is not None}
        rest = {OTHERS: self.flows[OTHERS]} if OTHERS in self.flows else {}
        return ProtocolAssignment({**others, index: protocol, **rest}, self.links)

    def with_link(self, index: int, routers: Sequence[Protocol], n_links: int) -> ProtocolAssignment:
        """Return the assignment in which one link has other routers, and all else is as it was.

        Parameters
        ----------
        index : int
        routers : sequence of Protocol
        n_links : int
            Of the network.
        """
        others = {k: some for k, some in enumerate(_spread(self.links, n_links, "link")) if some is not None}
        rest = {OTHERS: self.links[OTHERS]} if OTHERS in self.links else {}
        return ProtocolAssignment(self.flows, {**others, index: tuple(routers), **rest})

    def relabeled(self, flows: Sequence[int], links: Sequence[int], network: Network) -> ProtocolAssignment:
        """Return the assignment for a network with relabeled flows and links.

        Parameters
        ----------
        flows : sequence of int
            For each flow of the new network, the flow of the old one of which it is a copy.
        links : sequence of int
            The same for links.
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
            {key: one.relabeled(flows) for key, one in of_flows.items()},
            {key: tuple(one.relabeled(flows) for one in some) for key, some in of_links.items()},
        )

    @property
    def protocols(self) -> list[Protocol]:
        """All protocols, each once, those of flows first."""
        return _each_once([*self.flows.values(), *(one for some in self.links.values() for one in some)])

    @property
    def halves(self) -> list[tuple[str, Protocol]]:
        """The protocols of flows, then those of links, each with the name of its half."""
        hosts = [("flows", one) for one in self.flows.values()]
        return hosts + [("links", one) for some in self.links.values() for one in some]

    def deploy(self, network: Network, templates: Sequence[Flow] = ()) -> Deployment:
        """Return which protocol each flow, each template of transfers and each link of a network runs.

        Parameters
        ----------
        network : Network
        templates : sequence of Flow, optional
            Those of the transfers of a workload.

        Raises
        ------
        ValueError
            A flow or link that does not exist; a flow without a protocol; a link whose flows run a protocol with
            different parameters, which must be resolved by name; hosts that answer no signal of the links that they
            cross.
        """
        n = network.n_flows
        runs = _spread(self.flows, n, "flow") + [self.flows.get(OTHERS)] * len(templates)
        for index, protocol in enumerate(runs):
            if protocol is None:
                which = f"flow {index}" if index < n else "the transfers of the workload"
                raise ValueError(f"protocol flows must name {which} or {OTHERS!r}, got {', '.join(self.flows)}")
        links = self._of_links(network, zip([*network.flows, *templates], runs, strict=True))
        checked = set()
        for index, (flow, protocol) in enumerate(zip([*network.flows, *templates], runs, strict=True)):
            key = (id(protocol), tuple(map(tuple, flow.routes)))
            if key in checked:
                continue
            checked.add(key)
            _check_signals(f"flow {index}" if index < n else "the transfers of the workload", flow, protocol, links)
        return Deployment(tuple(runs[:n]), tuple(runs[n:]), tuple(map(tuple, links)))

    def _of_links(self, network: Network, flows: Iterable[tuple[Flow, Protocol]]) -> list[list[Protocol]]:
        """The protocols whose routers are deployed at each link, given all that crosses the network."""
        named = _spread(self.links, network.n_links, "link")
        crossing: list[list[Protocol]] = [[] for _ in range(network.n_links)]
        for protocol, routes in _routes_by_protocol(flows).items():
            for link in routes:
                crossing[link].append(protocol)
        found = []
        for link, (given, through) in enumerate(zip(named, crossing, strict=True)):
            protocols = through if given is None else list(given)
            kinds = [type(one) for one in protocols if not one.has_packet_hooks() or one.link_hooks()]
            if len(set(kinds)) < len(kinds):
                twice = next(kind for kind in kinds if kinds.count(kind) > 1).__name__
                raise ValueError(
                    f"protocol links must name one router of each protocol for link {link}, got "
                    f"{', '.join(map(repr, protocols))}: {{'links': {{{link}: {twice}(...)}}}} selects one"
                )
            found.append(protocols)
        return found

    def __str__(self) -> str:
        return _hosts_over_links(self.flows.values(), self.protocols)


def _hosts_over_links(hosts: Iterable[Protocol], protocols: Iterable[Protocol]) -> str:
    """Names of protocols of hosts, "over" those that links alone have."""
    ours = dict.fromkeys(type(one).__name__ for one in hosts)
    theirs = dict.fromkeys(name for one in protocols if (name := type(one).__name__) not in ours)
    return f"{', '.join(ours)} over {', '.join(theirs)}" if theirs else ", ".join(ours)


def read_protocol(given: Any) -> Protocol | ProtocolAssignment:
    """Return a Protocol or an assignment as it is, and a mapping of flows and links as the assignment it stands for.

    Parameters
    ----------
    given : object

    Raises
    ------
    TypeError, ValueError
        It is none of these.
    """
    if isinstance(given, Mapping):
        if not {"flows"} <= set(given) <= {"flows", "links"}:
            raise ValueError(f"protocol must be a mapping with 'flows' and maybe 'links', got {shown(list(given))}")
        given = ProtocolAssignment(**given)
    if not isinstance(given, Protocol | ProtocolAssignment):
        raise TypeError(f"protocol must be a Protocol, or a mapping of flows and links to them, got {shown(given)}")
    return given


def parameter_names(protocol: Protocol | ProtocolAssignment) -> list[str]:
    """Return the names of numeric parameters: of one protocol "alpha", of halves "flows.beta", "links.alpha".

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    """
    if isinstance(protocol, Protocol):
        return [f.name for f in fields(protocol) if "float" in str(f.type) or "Quantity" in str(f.type)]
    found = [f"{half}.{name}" for half, one in protocol.halves for name in parameter_names(one)]
    return list(dict.fromkeys(found))


def parameter_value(protocol: Protocol | ProtocolAssignment, name: str) -> Any:
    """Return the value of a parameter; of halves that of the first protocol which has it.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    name : str
        One of `parameter_names`.
    """
    if isinstance(protocol, Protocol):
        return getattr(protocol, name)
    half, _, own = name.partition(".")
    return next(getattr(one, own) for part, one in protocol.halves if part == half and hasattr(one, own))


def with_parameter(protocol: Any, name: str, value: Any) -> Any:
    """Return a protocol, or halves, with another value of a parameter, in all protocols of the half that have it.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    name : str
        One of `parameter_names`.
    value : object
    """
    return with_parameters(protocol, {name: value})


def with_parameters(protocol: Any, values: Mapping[str, Any]) -> Any:
    """Return a protocol, or halves, with other values of parameters, all at once.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    values : mapping
        Names of `parameter_names` -> values.
    """
    if isinstance(protocol, Protocol):
        return replace(protocol, **values)

    def moved(one: Protocol, half: str) -> Protocol:
        names = parameter_names(one)
        own = {name.removeprefix(half): value for name, value in values.items() if name.startswith(half)}
        return replace(one, **{name: value for name, value in own.items() if name in names})

    return ProtocolAssignment(
        {key: moved(one, "flows.") for key, one in protocol.flows.items()},
        {key: tuple(moved(one, "links.") for one in some) for key, some in protocol.links.items()},
    )


def _check_signals(which: str, flow: Flow, protocol: Protocol, links: Sequence[Sequence[Protocol]]) -> None:
    """Refuse hosts that answer no signal of their links; those that answer none at all need none.

    Links may be without the routers of a protocol, as they may be in the world, but for a discipline in their place.
    """
    answers = protocol.answers
    if not isinstance(answers, Set) or not all(isinstance(one, str) for one in answers):
        kind = type(protocol).__name__
        raise TypeError(f"answers of {kind} must be a set of signals, such as {{'loss', 'ecn'}}, got {shown(answers)}")
    routers = [router for route in flow.routes for link in route for router in links[link]]
    given = frozenset(EVERY_LINK).union(*(router.gives for router in routers))
    has_discipline = not all(router.has_hosts() for router in routers)
    if answers and not answers & given and (has_discipline or answers != protocol.gives):
        own = "".join(f"; its own routers give {one!r}: add that to answers" for one in sorted(protocol.gives & given))
        raise ValueError(
            f"protocol of {which} must answer a signal of its links ({', '.join(sorted(given))}), got "
            f"{type(protocol).__name__}, which answers {' and '.join(sorted(answers))}{own}"
        )


def _each_once(protocols: Iterable[Protocol]) -> list[Protocol]:
    found: list[Protocol] = []
    for protocol in protocols:
        if protocol not in found:
            found.append(protocol)
    return found


def _routes_by_protocol(flows: Iterable[tuple[Flow, Protocol]]) -> dict[Protocol, set[int]]:
    """The links that flows of a protocol cross."""
    found: dict[Protocol, set[int]] = {}
    for flow, protocol in flows:
        found.setdefault(protocol, set()).update(*flow.routes, flow.reverse or ())
    return found


def _parts(key: Any, name: str) -> list[str]:
    """A key as it is written in TOML: "default", "3" or "2-5"; several where it is a tuple or a range with gaps."""
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
    """What a table holds for each of `count` flows or links; None where it names nothing."""
    found: list[Any] = [table.get(OTHERS)] * count
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
                found[index] = value
    return found
