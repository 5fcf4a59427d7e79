"""The flows and queues of a loop of hosts over queue disciplines, with the checks of their laws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ecc.contract.assignment import Deployment
from ecc.contract.env import Params
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.contract.values import states_of
from ecc.laws.arguments import arguments_except, takes
from ecc.network.network import Network

__all__ = ["FlowKind", "HostKind", "MarkingQueue", "kinds_of", "loads_of", "queues_of", "takes_feedback"]

_OF_HOSTS = ("w", "w_rtt", "R", "D", "s", "a", "marked", "p")
_OF_ROUTERS = ("q", "C", "s", "p")
_OF_QUEUES = ("q", "q_prev", "y", "C", "T", "p")


@dataclass(frozen=True)
class FlowKind:
    """Equal flows: indices, protocol, route; delays without queues and packets [bit]; rate of unresponsive flows."""

    flows: tuple[int, ...]
    protocol: Protocol
    route: tuple[int, ...]
    forward: tuple[float, ...]
    rtt: float
    s: float
    scalable: float
    rate: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True)
class HostKind(FlowKind):
    """Equal flows with windows: also bits per ACK, parameters and states."""

    a: float
    p: Params
    states: Mapping[str, State]

    def jumps(self, signal: str) -> Callable[..., float] | None:
        """Return the law of the window right after a signal."""
        law = self.protocol.mark_response_law if signal == "mark" else None
        return law or self.protocol.loss_response_law


@dataclass(frozen=True)
class MarkingQueue:
    """A link with a discipline; capacity [packets/s], packets [bit]."""

    link: int
    protocol: Protocol
    capacity: float
    packet: float
    p: Params
    states: Mapping[str, State]
    marks: bool
    interval: float

    @property
    def law(self) -> Callable[..., float]:
        law = self.protocol.probability_law
        assert law is not None
        return law


def queues_of(deployed: Deployment, network: Network) -> list[MarkingQueue]:
    """Return the links with a discipline that chooses packets by a law."""
    queues = []
    for link, routers in enumerate(deployed.links):
        disciplines = [router for router in routers if not router.has_hosts()]
        laws = [router for router in disciplines if router.probability_law is not None]
        for router in disciplines:
            if router.probability_law is None and (router.states or router.link_hooks()):
                name = type(router).__name__
                raise ValueError(f"{name} has no linear model: hooks choose its packets, and it has no probability_law")
        if len(laws) > 1:
            names = " and ".join(type(router).__name__ for router in laws)
            raise ValueError(f"link {link} must have one discipline for a linear model, got {names}")
        for router in laws:
            states, name = states_of(router), type(router).__name__
            if router.queues is not None:
                raise ValueError(f"{name} has no linear model: it has several queues at a link")
            p = router.namespace()
            packet = 8.0 * float(router.params()["packet_size"])
            clocked = "interval" in router.params()
            for law_name, law in [
                ("probability_law", router.probability_law),
                *((n, s.law) for n, s in states.items() if s.law),
            ]:
                available = (*states, *_OF_QUEUES, *(("scalable",) if law_name == "probability_law" else ()))
                available = tuple(name for name in available if clocked or name not in ("q_prev", "T"))
                _check(law, available, f"{name} has no linear model: its {law_name}")
            for state_name, state in states.items():
                if state.clock == "rtt" or (state.clock == "interval" and not clocked):
                    raise ValueError(
                        f"{name} has no linear model: its state {state_name} has the clock {state.clock!r}, "
                        "but its queue has no such clock"
                    )
            interval = interval_of(router) if clocked else 0.0
            capacity = float(network.capacities[link]) / packet
            queues.append(MarkingQueue(link, router, capacity, packet, p, states, "ecn" in router.gives, interval))
    return queues


def _equal_flows(deployed: Deployment, network: Network, responsive: bool) -> dict[Any, list[int]]:
    """Return the responsive or the other flows, grouped by protocol, route, delays, RTT, packets and bytes per ACK."""
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, (flow, protocol) in enumerate(zip(network.flows, deployed.flows, strict=True)):
        if protocol.is_responsive is responsive:
            delays, rtt = tuple(network.forward_delays[i, list(flow.route)].tolist()), float(network.rtts[i])
            equal[protocol, flow.route, delays, rtt, flow.mean_packet, flow.mean_acknowledged].append(i)
    return equal


def loads_of(deployed: Deployment, network: Network) -> list[FlowKind]:
    """Return the kinds of unresponsive flows, which send at a constant rate."""
    loads = []
    for (protocol, route, delays, rtt, packet, _), flows in _equal_flows(deployed, network, False).items():
        s, scalable = 8.0 * packet, float(protocol.ecn_echo == "scalable")
        rate = float(protocol.opening_rate(rtt, s))
        loads.append(FlowKind(tuple(flows), protocol, route, delays, rtt, s, scalable, rate=rate))
    return loads


def kinds_of(deployed: Deployment, network: Network) -> list[HostKind]:
    """Return the kinds of flows with windows, with checks of their laws."""
    kinds = []
    for (protocol, route, delays, rtt, packet, acknowledged), flows in _equal_flows(deployed, network, True).items():
        name, states = type(protocol).__name__, states_of(protocol)
        law = getattr(protocol, "source_law", None)
        if not takes(law, "w") or (protocol.loss_response_law is None and not takes(law, "marked")):
            raise ValueError(
                f"{name} has no linear model over queue disciplines: it has no source_law of a window w with a "
                "loss_response_law"
            )
        if protocol.memory_law is not None:
            raise ValueError(
                f"{name} has no linear model over queue disciplines: its law needs the window at the last loss "
                "(memory_law), and averaged equations have a mean of such windows, which is the present window"
            )
        if protocol.decrease_law is not None:
            raise ValueError(f"{name} has no linear model over queue disciplines: its decrease_law jumps at once")
        available = (*states, *_OF_HOSTS)
        responses = [protocol.loss_response_law, protocol.mark_response_law]
        jumps = [(f"state {n}", jump) for n, state in states.items() for jump in state.jumps.values()]
        laws = [("source_law", law), *(("response", law) for law in responses if law), *jumps]
        for law_name, function in [*laws, *((f"state {n}", its.law) for n, its in states.items() if its.law)]:
            _check(function, available, f"{name} has no linear model over queue disciplines: its {law_name}")
        for state_name, state in states.items():
            if state.clock not in ("rtt", "continuous"):
                raise ValueError(
                    f"{name} has no linear model over queue disciplines: its state {state_name} has the clock "
                    f"{state.clock!r}"
                )
        if takes_feedback(protocol, states):
            _check(
                protocol.router_law, _OF_ROUTERS, f"{name} has no linear model over queue disciplines: its router_law"
            )
            if protocol.combine != "sum":
                raise ValueError(
                    f"{name} has no linear model over queue disciplines: feedback must be summed over links, "
                    f"got combine = {protocol.combine!r}"
                )
        scalable = float(protocol.ecn_echo == "scalable")
        p = protocol.namespace()
        s, a = 8.0 * packet, 8.0 * acknowledged
        kinds.append(HostKind(tuple(flows), protocol, route, delays, rtt, s, scalable, a, p, states))
    return kinds


def takes_feedback(protocol: Protocol, states: Mapping[str, State]) -> bool:
    """Return whether a law of a host, or a jump of its window or states, takes feedback of the protocol's routers."""
    laws = [protocol.source_law, protocol.loss_response_law, protocol.mark_response_law]
    for state in states.values():
        laws += [state.law, *state.jumps.values()]
    return any(takes(law, "R") for law in laws)


def _check(law: Any, available: Sequence[str], subject: str) -> None:
    if unknown := arguments_except(law, available):
        raise ValueError(f"{subject} takes {', '.join(unknown)}; available arguments: {', '.join(available)}")
