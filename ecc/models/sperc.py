"""s-PERC: exact max-min fair rates, by routers that keep sums and no flows (Jose, Ibanez, Alizadeh, McKeown 2019).

A flow has one control packet on its way. It carries for each link l of the path what the link gave it last; at l

    E -> B: SumE <- SumE - x_l, NumB <- NumB + 1                    if s_l = E
    b_l = (gamma C - SumE)/NumB                                     bottleneck rate
    e   = min of b_j over other links j with i_j = 0                limit rate, infinite if there are none
    x_l = min(b_l, e)                                               allocation
    i_l = 1 if b_l < MaxE, else 0                                   ignore bit
    B -> E: SumE <- SumE + x_l, NumB <- NumB - 1,
            MaxE <- max(MaxE, x_l), MaxE' <- max(MaxE', x_l)        if e < b_l

and once a round MaxE <- MaxE', MaxE' <- 0. A flow sends at min_l x_l. Flows begin with s = E, x = 0, i = 1.

    s     E: limited elsewhere, B: bottlenecked here    SumE   of the x of flows in E [bit/s]
    C     capacity [bit/s]                              NumB   how many flows are in B
    gamma share of it that flows may have               MaxE   largest x of a flow in E, since the last round began

A link whose b is below what a flow limited elsewhere has says so by i: that b is too low, and will rise. Theorem: in
6 N rounds rates are max-min fair. N counts the iterations of 2-water-filling, each of which takes out all links whose
share is no larger than that of links that share a flow with them, and of links that share one with these.

Here the control packet is a packet of data, the next one after the ACK of the one before: a trip takes an RTT and the
time until that packet. As in the authors' programs (sperc_robust) a link counts in each round anew which flows it has
seen, and goes on with these sums: flows that have not been seen in a whole round are forgotten, and so are errors by
rounding, and control packets that were lost. The packet carries the number of the round in which it was seen, so that a
flow which was forgotten comes as a new one. A host that waits for its control packet for more than `patience` trips
sends a new one.

A round lasts `margin` times the longest trip that control packets report. A flow that ends says so in its last control
packet, which takes its shares back; one that is stopped does not know it, and is forgotten within two rounds.
Comparisons have a tolerance, 1e-7 Gb/s in the programs, as b and e of one bottleneck differ by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import TIME, QuantityField, as_count, as_delay, default
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.records import per_hop
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.network.network import Network

NONE, STAYS, LEAVES = 0, 1, 2  # kinds of headers: no control packet, one, and the last one
E, B = 0, 1
ANY_RATE = 1e300  # bit/s


@dataclass
class Header:
    """What travels with a control packet and returns with its ACK; arrays have an entry for each link of the path."""

    kind: int = NONE
    sequence: int = 0
    trip: float = 0.0  # how long trips of the flow take; 0.0: not known [s]
    hops: int = 0  # links passed
    links: int = 0  # that have an entry
    link: tuple[int, ...] = per_hop()  # its index
    round: tuple[int, ...] = per_hop()  # of the link, when it saw the flow last; 0: never
    b: tuple[float, ...] = per_hop()
    x: tuple[float, ...] = per_hop()
    s: tuple[int, ...] = per_hop()
    counts: tuple[int, ...] = per_hop()  # 1 - i


@dataclass
class LinkState:
    """A router's state; `seen_` are sums over flows that it has seen in this round."""

    sum_e: float = 0.0
    num_b: float = 0.0
    max_e: float = 0.0
    seen_sum_e: float = 0.0
    seen_num_b: float = 0.0
    seen_max_e: float = 0.0
    trip: float = 0.0  # longest [s]
    seen_trip: float = 0.0
    round: int = 1
    opened: float = -1.0  # when the round began [s]; before 0: no packet has come
    late: int = 0  # control packets of flows that had been forgotten


@dataclass
class FlowState:
    """A host's state for one flow: what its control packet brought back."""

    x: float = 0.0  # allocation [bit/s]
    sent: float = 0.0  # when the control packet was [s]
    waits: int = 0  # for it
    sequence: int = 0
    rtt: float = 0.0  # last one; 0.0: none [s]
    trip: float = 0.0
    links: int = 0
    link: tuple[int, ...] = per_hop()
    round: tuple[int, ...] = per_hop()
    b: tuple[float, ...] = per_hop()
    allocation: tuple[float, ...] = per_hop()
    s: tuple[int, ...] = per_hop()
    counts: tuple[int, ...] = per_hop()


class Rounds(NamedTuple):
    """What happens in rounds, exactly.

    Attributes
    ----------
    rates : tuple of tuple of Fraction
        Rate of each flow after each round [bit/s].
    fair : tuple of Fraction
        Max-min fair rates of the flows that stay; 0 of others.
    iterations : int
        N, of 2-water-filling.
    converged : int or None
        Rounds after the last flow came or left from whose end on rates are fair; None: never.
    period : int or None
        After how many rounds the state of all links and control packets is as it was, again and again; 1: at rest,
        None: it never was.
    """

    rates: tuple[tuple[Fraction, ...], ...]
    fair: tuple[Fraction, ...]
    iterations: int
    converged: int | None
    period: int | None


@dataclass(frozen=True)
class SPERC(Protocol):
    """s-PERC.

    Parameters
    ----------
    gamma : float, in (0, 1]
        Share of the capacity that flows may have. What is left drains queues (the programs' headroom of 2 %) and
        carries ACKs (their 4 % for control packets; 40 of 1000 bytes).
    margin : float, >= 1
        Length of a round in longest trips.
    floor : float, > 0
        Least sending rate, in packets an RTT, that control packets go on.
    patience : float, >= 1
        Trips after which a control packet counts as lost.
    ignore : bool
        Whether links set ignore bits; if not, no MaxE is kept.
    tolerance : float, in [0, 0.1]
        Relative difference up to which two rates are equal.
    min_rto : float, s, > 0
        Least time without an ACK after which all that is in flight counts as lost.
    transport : str or None
        "newreno", "sack" or None: recovery of lost data; None: no retransmission, but its bytes are owed.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    gamma: float = 0.94
    margin: float = 2.0
    floor: float = 1.0
    patience: float = 2.0
    ignore: bool = True
    tolerance: float = 1e-9
    min_rto: QuantityField = default(1e-3)
    transport: str | None = None

    dimensions = {"min_rto": TIME}

    times = ()
    equilibrium_is_static = False  # packet runs begin without flows: links do not know what each has
    linear_refusal = "SPERC has no linear model: its rates are exact after some rounds: no law moves them by degrees"
    fluid_refusal = "SPERC has no fluid model: its rates are those that control packets bring, one in an RTT"

    operating_range = OperatingRange((10e9, 40e9), (20e-6, 40e-6))

    def __post_init__(self) -> None:
        check_number(self, gamma=None, margin=1.0, floor=None, patience=1.0, tolerance=0.0, min_rto=as_delay)
        check_choice(self, "ignore", (True, False))
        check_choice(self, "transport", TRANSPORTS)
        for name, most in (("gamma", 1.0), ("tolerance", 0.1)):
            if getattr(self, name) > most:
                raise ValueError(f"{name} must be <= {most:g}, got {shown(getattr(self, name))}")

    def params(self) -> dict[str, float]:
        names = ("gamma", "margin", "floor", "patience", "tolerance")
        return {**{name: float(getattr(self, name)) for name in names}, "ignore": float(self.ignore)}

    # ---- rounds, in fractions ----------------------------------------------------------------------------

    @check_arguments
    def exact_rounds(
        self,
        network: Network,
        seed: int | None = None,
        joins: Sequence[int] | None = None,
        leaves: Sequence[int | None] | None = None,
        most: int = 1000,
    ) -> Rounds:
        """Return what the hooks of links do with control packets, round by round, in exact fractions.

        Parameters
        ----------
        network : Network
            Network of which capacities and routes count.
        seed : int, optional
            For the order within a round: one to three trips of each flow, whose hops are at times drawn at random, at
            the same ones in each round, as is when each link begins its round. None: flows make a trip one after the
            other, then links begin theirs.
        joins : sequence of int, shape (n_flows,), optional
            Round in which each flow begins, from 0 on; default: 0.
        leaves : sequence of int or None, shape (n_flows,), optional
            Round from which on it makes its last trip; None: it stays.
        most : int, optional
            Rounds, unless the state repeats before.

        Returns
        -------
        Rounds

        Raises
        ------
        ValueError
            A flow with several routes, or joins and leaves of another length.
        """
        for index, flow in enumerate(network.flows):
            if flow.alternatives:
                raise ValueError(f"alternatives must be empty in rounds, got {len(flow.alternatives)} (flow {index})")
        begins = _rounds_of("joins", joins, network, 0)
        ends = _rounds_of("leaves", leaves, network, None)
        p: Any = SimpleNamespace(**self.params() | {"gamma": Fraction(self.gamma), "tolerance": Fraction(0)})
        capacities = [Fraction(link.capacity) for link in network.links]
        links = [_exact(LinkState(trip=0, seen_trip=0, opened=0)) for _ in network.links]
        headers = [_exact(Header(kind=STAYS, trip=0), len(flow.route)) for flow in network.flows]
        rates = [Fraction(0)] * network.n_flows
        gone = [False] * network.n_flows
        order = list(_order(network, seed))
        last = max([*begins, *(end + 1 for end in ends if end is not None)])
        seen: dict[Any, int] = {}
        found: list[tuple[Fraction, ...]] = []
        period = None
        for count in range(as_count(most, "most", minimum=1, bits=20)):
            for actor in order:
                if actor < 0:
                    close_round(links[~actor])
                elif count >= begins[actor] and not gone[actor]:
                    header, route, end = headers[actor], network.flows[actor].route, ends[actor]
                    if header.hops == 0 and end is not None and count >= end:
                        header.kind = LEAVES
                    index = route[header.hops]
                    env: Any = SimpleNamespace(now=0, kind=0, link=index, capacity=capacities[index])
                    link_on_departure(links[index], header, p, env)
                    if header.hops == len(route):
                        gone[actor] = header.kind == LEAVES
                        rates[actor] = Fraction(0) if gone[actor] else min(header.x)
                        header.hops = 0
            found.append(tuple(rates))
            if count >= last and all(was == (end is not None) for was, end in zip(gone, ends, strict=True)):
                state = _state(links, headers, gone)
                if state in seen:
                    period = count - seen[state]
                    break
                seen[state] = count
        stays = [k for k, end in enumerate(ends) if end is None]
        iterations, filled = two_water_filling(
            [network.flows[k].route for k in stays], [p.gamma * one for one in capacities]
        )
        fair = dict(zip(stays, filled, strict=True))
        expected = tuple(fair.get(k, Fraction(0)) for k in range(network.n_flows))
        first = len(found)
        while first > 0 and found[first - 1] == expected:
            first -= 1
        is_fair = period is not None and first < len(found)
        return Rounds(tuple(found), expected, iterations, max(first + 1 - last, 0) if is_fair else None, period)

    # ---- hooks -------------------------------------------------------------------------------------------

    opening_size = 64  # of the control packet that goes ahead of all data, as in the programs
    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": on_send, "on_ack": on_ack, "on_loss": on_loss}

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Max-min fair rates over capacities gamma C; `fair_rate` is b."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of SPERC come to max-min fair rates alone")
        return shared_fair_rate(network, self.gamma * network.capacities)


# ---- laws ------------------------------------------------------------------------------------------------------------


def bottleneck_rate(sum_e: float, num_b: float, C: float, p: Params) -> float:
    """The rate b of a flow that is in B, with all others that are."""
    return max((p.gamma * C - sum_e) / num_b, 0)


def is_below(rate: float, other: float, p: Params) -> bool:
    """Whether a rate is less than another."""
    return rate < (1 - p.tolerance) * other


# ---- hooks of links --------------------------------------------------------------------------------------------------


def close_round(link: Any) -> None:
    """Go on with the flows that were seen in this round."""
    link.sum_e = link.seen_sum_e
    link.num_b = link.seen_num_b
    link.max_e = link.seen_max_e
    link.trip = link.seen_trip
    link.seen_sum_e = 0
    link.seen_num_b = 0
    link.seen_max_e = 0
    link.seen_trip = 0
    link.round += 1


def keep_rounds(link: Any, trip: float, p: Params, now: float) -> None:
    """Begin a new round if this one has lasted long enough, and two if no flow has come for as long again."""
    if link.opened < 0:
        link.opened = now
    link.trip = max(link.trip, trip)
    link.seen_trip = max(link.seen_trip, trip)
    length = p.margin * link.trip
    passed = now - link.opened
    if length > 0 and passed >= length:
        close_round(link)
        if passed >= 2 * length:
            close_round(link)
        link.trip = max(link.trip, trip)
        link.seen_trip = trip
        link.opened = now


def take_back(link: Any, header: Any, k: int, index: int) -> None:
    """Leave the flow out of all sums that it is in; one that was forgotten, or has another route now, is new."""
    if header.link[k] != index or header.round[k] < link.round - 1:
        if header.round[k] > 0:
            link.late += 1
        header.link[k] = index
        header.round[k] = 0
    elif header.s[k] == E:
        link.sum_e -= header.x[k]
    elif header.round[k] > 0:
        link.num_b -= 1
    if header.round[k] == link.round:
        if header.s[k] == E:
            link.seen_sum_e -= header.x[k]
        else:
            link.seen_num_b -= 1


def add(link: Any, header: Any, k: int, b: float, e: float, p: Params) -> None:
    """Count the flow as limited elsewhere or here."""
    header.x[k] = min(b, e)
    header.round[k] = link.round
    if is_below(e, b, p):
        header.s[k] = E
        link.sum_e += header.x[k]
        link.seen_sum_e += header.x[k]
        link.max_e = max(link.max_e, header.x[k])
        link.seen_max_e = max(link.seen_max_e, header.x[k])
    else:
        header.s[k] = B
        link.num_b += 1
        link.seen_num_b += 1


def limit_rate(header: Any, k: int) -> float:
    """The least b of other links that counts."""
    least = ANY_RATE
    for j in range(header.links):
        if j != k and header.counts[j] > 0:
            least = min(least, header.b[j])
    return least


def link_on_departure(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Give a control packet the rate of its flow."""
    if env.kind == 0 and header.kind != NONE:
        keep_rounds(link, header.trip, p, env.now)
        k = header.hops
        header.hops = k + 1
        header.links = max(header.links, header.hops)
        take_back(link, header, k, env.link)
        if header.kind == STAYS:
            b = bottleneck_rate(link.sum_e, link.num_b + 1, env.capacity, p)
            header.b[k] = b
            header.counts[k] = 0 if p.ignore > 0 and is_below(b, link.max_e, p) else 1
            add(link, header, k, b, limit_rate(header, k), p)


# ---- hooks of hosts --------------------------------------------------------------------------------------------------


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Send a control packet, and nothing before it is back."""
    env.window = 1.0 * env.packet_size


def forget(flow: Any) -> None:
    """Come to all links as a new flow."""
    flow.waits = 0
    flow.links = 0
    for k in range(len(flow.round)):
        flow.round[k] = 0
        flow.allocation[k] = 0.0
        flow.s[k] = E
        flow.counts[k] = 0


def pace(flow: Any, p: Params, env: FlowEnv) -> None:
    """Send at the allocation, or the least rate; a trip ends with the packet after the ACK."""
    env.window = 0.0
    env.rate = max(flow.x, p.floor * 8.0 * env.packet_size / flow.rtt)
    flow.trip = flow.rtt + 8.0 * env.packet_size / env.rate


def on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Make a control packet of this one, unless one is on its way; the last one, if all is sent in less than a trip."""
    if flow.rtt > 0.0:
        pace(flow, p, env)
    if flow.waits > 0 and flow.rtt > 0.0 and env.now - flow.sent > p.patience * flow.trip:
        forget(flow)
    left = 8.0 * (env.size - env.delivered - env.in_flight)
    ends = flow.rtt > 0.0 and env.size >= 0 and left < flow.x * flow.trip
    if flow.waits == 0 and (flow.links > 0 or not ends):
        flow.waits = 1
        flow.sent = env.now
        flow.sequence += 1
        header.kind = LEAVES if ends else STAYS
        header.sequence = flow.sequence
        header.trip = flow.trip
        header.links = flow.links
        for k in range(flow.links):
            header.link[k] = flow.link[k]
            header.round[k] = flow.round[k]
            header.b[k] = flow.b[k]
            header.x[k] = flow.allocation[k]
            header.s[k] = flow.s[k]
            header.counts[k] = flow.counts[k]


def on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Take the rate that a control packet brings; any packet tells the RTT."""
    flow.rtt = env.rtt
    if header.kind == NONE or header.sequence != flow.sequence or flow.waits == 0:
        return
    flow.waits = 0
    if header.kind == LEAVES:
        forget(flow)
    elif header.hops > 0:
        flow.links = header.hops
        flow.x = ANY_RATE
        for k in range(header.hops):
            flow.link[k] = header.link[k]
            flow.round[k] = header.round[k]
            flow.b[k] = header.b[k]
            flow.allocation[k] = header.x[k]
            flow.s[k] = header.s[k]
            flow.counts[k] = header.counts[k]
            flow.x = min(flow.x, header.x[k])
    pace(flow, p, env)


def on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """After a timeout the control packet is lost too."""
    if env.kind == 1:
        forget(flow)


# ---- what rounds need ------------------------------------------------------------------------------------------------


def two_water_filling(
    routes: Sequence[Sequence[int]], capacities: Sequence[Fraction]
) -> tuple[int, tuple[Fraction, ...]]:
    """Return the iterations of 2-water-filling, and the max-min fair rates, in fractions.

    Parameters
    ----------
    routes : sequence of sequence of int
        Links of each flow.
    capacities : sequence of Fraction
    """
    room = list(capacities)
    rates: dict[int, Fraction] = {}
    iterations = 0
    while len(rates) < len(routes):
        iterations += 1
        users: dict[int, list[int]] = {}
        for flow, route in enumerate(routes):
            if flow not in rates:
                for link in route:
                    users.setdefault(link, []).append(flow)
        share = {link: room[link] / len(those) for link, those in users.items()}
        near = {link: {one for flow in those for one in routes[flow]} for link, those in users.items()}
        least = {link: min(share[one] for one in near[link]) for link in users}
        found: dict[int, Fraction] = {}
        for link, those in users.items():
            if share[link] <= min(least[one] for one in near[link]):
                found |= dict.fromkeys(those, share[link])
        for flow, rate in found.items():
            for link in routes[flow]:
                room[link] -= rate
        rates |= found
    return iterations, tuple(rates[flow] for flow in range(len(routes)))


def _order(network: Network, seed: int | None) -> Iterator[int]:
    """Whose turn it is in a round: a flow, or ~k for link k that begins its round."""
    if seed is None:
        for index, flow in enumerate(network.flows):
            yield from [index] * len(flow.route)
        yield from (~link for link in range(network.n_links))
        return
    rng = np.random.default_rng(seed)
    times = [(time, ~link) for link, time in enumerate(rng.random(network.n_links).tolist())]
    for index, flow in enumerate(network.flows):
        times += [(time, index) for time in rng.random(int(rng.integers(1, 4)) * len(flow.route)).tolist()]
    for _, actor in sorted(times):
        yield actor


def _rounds_of(name: str, given: Sequence[int | None] | None, network: Network, missing: int | None) -> list[Any]:
    """Arguments that are a round of each flow."""
    values = [missing] * network.n_flows if given is None else list(given)
    if len(values) != network.n_flows:
        raise ValueError(f"{name} must have {network.n_flows} entries, one for each flow, got {len(values)}")
    return [None if one is None and missing is None else as_count(one, name, bits=20) for one in values]


def _exact(record: Any, hops: int = 0) -> Any:
    """A record whose numbers are whole, and whose arrays are lists."""
    values = {name: [0] * hops if value == () else value for name, value in vars(record).items()}
    return SimpleNamespace(**{name: int(one) if isinstance(one, float) else one for name, one in values.items()})


def _state(links: Sequence[Any], headers: Sequence[Any], gone: Sequence[bool]) -> Any:
    """All that decides what comes; rounds by how long ago they were."""
    kept = [(one.sum_e, one.num_b, one.max_e, one.seen_sum_e, one.seen_num_b, one.seen_max_e) for one in links]
    carried = [
        None if is_gone else (
            one.hops, *one.b, *one.x, *one.s, *one.counts,
            *(min(links[link].round - r, 2) for link, r in zip(one.link, one.round, strict=True)),
        )
        for one, is_gone in zip(headers, gone, strict=True)
    ]  # fmt: skip
    return tuple(kept), tuple(carried)
