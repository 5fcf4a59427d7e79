"""s-PERC: exact max-min fair rates, by routers with sums but no per-flow state (Jose, Ibanez, Alizadeh, McKeown 2019).

A flow has one control packet in flight. It carries, for each link l of the path, the link's last allocation; at l

    E -> B: SumE <- SumE - x_l, NumB <- NumB + 1                    if s_l = E
    b_l = (gamma C - SumE)/NumB                                     bottleneck rate
    e   = min of b_j over other links j with i_j = 0                limit rate, infinite without such links
    x_l = min(b_l, e)                                               allocation
    i_l = 1 if b_l < MaxE, else 0                                   ignore bit
    B -> E: SumE <- SumE + x_l, NumB <- NumB - 1,
            MaxE <- max(MaxE, x_l), MaxE' <- max(MaxE', x_l)        if e < b_l

and once a round MaxE <- MaxE', MaxE' <- 0. A flow sends at min_l x_l. Flows begin with s = E, x = 0, i = 1.

    s     E: limited elsewhere, B: bottlenecked here    SumE   sum of the x of flows in E [bit/s]
    C     capacity [bit/s]                              NumB   number of flows in B
    gamma share of C available to flows                 MaxE   maximum x of flows in E, since the last round began

A link with b below the rate of a flow limited elsewhere sets i: that b is too low, and will rise. Theorem: within 6 N
rounds rates are max-min fair. N is the number of iterations of 2-water-filling. Each iteration removes all links with a
share no larger than those of links that share a flow with them, and of links that share a flow with these.

Here the control packet is a packet of data, the next one after the ACK of the last one: a trip takes an RTT plus the
time to that packet. As in the authors' programs (sperc_robust), a link counts in each round anew the flows that it has
seen, and continues with these sums. So flows that are not seen in a whole round are discarded, as are rounding errors
and lost control packets. The packet carries the number of the round in which it was seen, so that a discarded flow is
treated as a new one. A host that waits for its control packet for more than `patience` trips sends a new one.

A round lasts `margin` times the longest trip that control packets report. A flow that ends says so in its last control
packet, which removes its allocations. A flow that is stopped from outside cannot, and is discarded within two rounds.
Comparisons have a tolerance, 1e-7 Gb/s in the programs, as b and e of one bottleneck differ by rounding.

Small deviations (`round_map`): if one trip of each flow in turn is a round, b of a link depends on the x that its flows
in E were allocated, and these on b of links with lower fair rates. So states can be ordered by the fair rates of their
links such that each depends on earlier ones only. All eigenvalues of the map are 0, for any order of trips, and small
deviations are exactly 0 after some rounds. If flows cross several links with one fair rate, this holds for all
one-sided derivatives within `tolerance`, because such flows are in B on each of them; beyond it, a flow changes from B
to E on one of them, and only the theorem above applies.
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
from ecc.contract.forms import OperatingRange, RoundMap
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.records import per_hop
from ecc.contract.reference import ReferenceLoop
from ecc.errors import LinearizationError
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.network.network import Network

NONE, STAYS, LEAVES = 0, 1, 2  # kinds of headers: no control packet, a control packet, the last one of a flow
E, B = 0, 1
ANY_RATE = 1e300  # bit/s, above any allocation


@dataclass
class Header:
    """Header fields of a control packet, which return with its ACK; arrays have an entry for each link of the path."""

    kind: int = NONE
    sequence: int = 0
    trip: float = 0.0  # duration of the flow's trips [s]; 0.0: not known
    hops: int = 0  # links passed
    links: int = 0  # number of links with an entry
    link: tuple[int, ...] = per_hop()  # index of the link
    round: tuple[int, ...] = per_hop()  # the link's round when it last saw the flow; 0: never
    b: tuple[float, ...] = per_hop()
    x: tuple[float, ...] = per_hop()
    s: tuple[int, ...] = per_hop()
    counts: tuple[int, ...] = per_hop()  # 1 - i


@dataclass
class LinkState:
    """A router's state; names with `seen_` are for the flows seen in this round."""

    sum_e: float = 0.0
    num_b: float = 0.0
    max_e: float = 0.0
    seen_sum_e: float = 0.0
    seen_num_b: float = 0.0
    seen_max_e: float = 0.0
    trip: float = 0.0  # longest trip [s]
    seen_trip: float = 0.0
    round: int = 1
    opened: float = -1.0  # start of the round [s]; < 0: no packet yet
    late: int = 0  # number of control packets of discarded flows


@dataclass
class FlowState:
    """A host's state for one flow: the content of its last control packet."""

    x: float = 0.0  # allocation [bit/s]
    sent: float = 0.0  # time at which the control packet was sent [s]
    waits: int = 0  # 1 while it is in flight
    sequence: int = 0
    rtt: float = 0.0  # last RTT sample [s]; 0.0: none yet
    trip: float = 0.0  # duration of a trip [s]
    links: int = 0
    link: tuple[int, ...] = per_hop()
    round: tuple[int, ...] = per_hop()
    b: tuple[float, ...] = per_hop()
    allocation: tuple[float, ...] = per_hop()
    s: tuple[int, ...] = per_hop()
    counts: tuple[int, ...] = per_hop()


class Rounds(NamedTuple):
    """Exact results of rounds.

    Attributes
    ----------
    rates : tuple of tuple of Fraction
        Rate of each flow after each round [bit/s].
    fair : tuple of Fraction
        Max-min fair rates of the flows that stay; 0 for others.
    iterations : int
        N, the iterations of 2-water-filling.
    converged : int or None
        Rounds from the last arrival or departure of a flow until rates stay fair; None: never.
    period : int or None
        Period, in rounds, of the state of all links and control packets; 1: constant, None: not periodic.
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
        Share of the capacity available to flows. The rest drains queues (the programs' headroom of 2 %) and carries
        ACKs (the programs use 4 % for control packets; here 40 of 1000 bytes).
    margin : float, >= 1
        Length of a round, in longest trips.
    floor : float, > 0
        Minimum sending rate, in packets per RTT, so that control packets continue.
    patience : float, >= 1
        Trips after which a control packet counts as lost.
    ignore : bool
        Whether links set ignore bits; False: they keep no MaxE.
    tolerance : float, in [0, 0.1]
        Relative difference up to which two rates are equal.
    min_rto : float, s, > 0
        Minimum time without an ACK after which the whole flight counts as lost.
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

    times = ("continuous", "discrete")
    equilibrium_is_static = False  # packet runs start without flows, since links cannot know allocations in advance
    fluid_refusal = "SPERC has no fluid model: its rates change with control packets only, once an RTT"

    operating_range = OperatingRange((10e9, 40e9), (20e-6, 40e-6))
    reference_loop = ReferenceLoop(10e9, (40e-6,) * 3, "ours")

    def __post_init__(self) -> None:
        check_number(self, gamma=None, margin=1.0, floor=None, patience=1.0, tolerance=0.0, min_rto=as_delay)
        check_choice(self, "ignore", (True, False))
        check_choice(self, "transport", TRANSPORTS)
        for name, limit in (("gamma", 1.0), ("tolerance", 0.1)):
            if getattr(self, name) > limit:
                raise ValueError(f"{name} must be <= {limit:g}, got {shown(getattr(self, name))}")

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
        """Return the results of the links' hooks for control packets, round by round, in exact fractions.

        Parameters
        ----------
        network : Network
            Network; its capacities and routes are used.
        seed : int, optional
            Seed for the order within a round: each flow makes one to three trips, with hops at random times that are
            the same in each round, as are the times at which links begin their rounds. None: flows make one trip each,
            in their order, then links begin their rounds.
        joins : sequence of int, shape (n_flows,), optional
            Round in which each flow begins, 0 or later; default: 0.
        leaves : sequence of int or None, shape (n_flows,), optional
            Round from which each flow makes its last trip; None: it stays.
        most : int, optional
            Maximum number of rounds, if the state does not repeat earlier.

        Returns
        -------
        Rounds

        Raises
        ------
        ValueError
            A flow with several routes; `joins` or `leaves` of a wrong length.
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
        history: list[tuple[Fraction, ...]] = []
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
            history.append(tuple(rates))
            if count >= last and all(is_gone == (end is not None) for is_gone, end in zip(gone, ends, strict=True)):
                state = _state(links, headers, gone)
                if state in seen:
                    period = count - seen[state]
                    break
                seen[state] = count
        stays = [k for k, end in enumerate(ends) if end is None]
        iterations, filled = two_water_filling(
            [network.flows[k].route for k in stays], [p.gamma * capacity for capacity in capacities]
        )
        fair = dict(zip(stays, filled, strict=True))
        expected = tuple(fair.get(k, Fraction(0)) for k in range(network.n_flows))
        first = len(history)
        while first > 0 and history[first - 1] == expected:
            first -= 1
        is_fair = period is not None and first < len(history)
        return Rounds(tuple(history), expected, iterations, max(first + 1 - last, 0) if is_fair else None, period)

    # ---- hooks -------------------------------------------------------------------------------------------

    opening_size = 64  # bytes of the control packet that precedes all data, as in the programs
    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": on_send, "on_ack": on_ack, "on_loss": on_loss}

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return max-min fair rates for capacities gamma C; `fair_rate` is b."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of SPERC converge to max-min fair rates only")
        return shared_fair_rate(network, self.gamma * network.capacities)

    # ---- the map per round -------------------------------------------------------------------------------

    def round_map(self, network: Network) -> RoundMap:
        """Return the links' hooks for one trip of each flow, in their order, at max-min fair rates.

        States are the sum over E and the number in B of each link, then b, x, s and the valid bit of each flow at each
        link of its path. MaxE is that of the flows in E. A round is the longest trip: an RTT and the time to the next
        packet.

        Parameters
        ----------
        network : Network

        Raises
        ------
        LinearizationError
            Rates do not repeat within 6 N + 100 rounds, which is possible without ignore bits only.
        ValueError
            A flow with several routes.

        Examples
        --------
        >>> net = ecc.Network.parking_lot(["10 Gb/s", "6 Gb/s"], delay="5 us")
        >>> ecc.linearize(ecc.models.SPERC(), net, time="discrete").deadbeat_steps
        4
        """
        for index, flow in enumerate(network.flows):
            if flow.alternatives:
                raise ValueError(f"alternatives must be empty in rounds, got {len(flow.alternatives)} (flow {index})")
        routes = [list(flow.route) for flow in network.flows]
        exact: Any = SimpleNamespace(
            **self.params() | {"gamma": Fraction(self.gamma), "tolerance": Fraction(self.tolerance)},
            routes=routes,
            capacities=[Fraction(link.capacity) for link in network.links],
        )
        users = [sum(link in route for route in routes) for link in range(network.n_links)]
        state: list[Any] = [value for n in users for value in (Fraction(0), n)]
        state += [value for route in routes for _ in route for value in (Fraction(0), Fraction(0), B, 1)]
        iterations = two_water_filling(routes, [exact.gamma * capacity for capacity in exact.capacities])[0]
        seen: dict[tuple[Any, ...], int] = {}
        while tuple(state) not in seen:
            if len(seen) > 6 * iterations + 100:
                raise LinearizationError(
                    f"SPERC has no fixed point here: rates did not repeat within {len(seen)} rounds"
                )
            seen[tuple(state)] = len(seen)
            state = round_of_trips(state, exact)
        counts = set(counts_in(len(users), len(state)))
        orbit = [int(value) if k in counts else float(value) for k, value in enumerate(state)]
        p = SimpleNamespace(**self.params(), routes=routes, capacities=[float(link.capacity) for link in network.links])
        size = 8.0 * np.array([flow.mean_packet for flow in network.flows])
        trips = network.rtts + size / np.maximum(rates_of(orbit, p), self.floor * size / network.rtts)
        longest = float(trips.max())
        at_links = [
            max((trips[k] for k, route in enumerate(routes) if link in route), default=longest)
            for link in range(network.n_links)
        ]
        delays = [float(trip) for trip in at_links for _ in range(2)]
        delays += [float(trips[k]) for k, route in enumerate(routes) for _ in range(4 * len(route))]
        return RoundMap(
            round_of_trips,
            tuple(orbit),
            p,
            duration=longest,
            rounds=len(seen) - seen[tuple(state)],
            delays=tuple(delays),
            one_sided="links share a fair rate: all one-sided derivatives have the eigenvalue 0 only",
        )


# ---- laws ------------------------------------------------------------------------------------------------------------


def bottleneck_rate(sum_e: float, num_b: float, C: float, p: Params) -> float:
    """Return the rate b that a flow in B shares with all others in B."""
    return max((p.gamma * C - sum_e) / num_b, 0)


def is_below(rate: float, other: float, p: Params) -> bool:
    """Return whether a rate is less than another by more than the tolerance."""
    return rate < (1 - p.tolerance) * other


# ---- hooks of links --------------------------------------------------------------------------------------------------


def close_round(link: LinkState) -> None:
    """Continue with the sums over the flows that were seen in this round."""
    link.sum_e = link.seen_sum_e
    link.num_b = link.seen_num_b
    link.max_e = link.seen_max_e
    link.trip = link.seen_trip
    link.seen_sum_e = 0
    link.seen_num_b = 0
    link.seen_max_e = 0
    link.seen_trip = 0
    link.round += 1


def keep_rounds(link: LinkState, trip: float, p: Params, now: float) -> None:
    """Begin a new round if this one has lasted long enough, and two if no flow has appeared for as long again."""
    if link.opened < 0:
        link.opened = now
    link.trip = max(link.trip, trip)
    link.seen_trip = max(link.seen_trip, trip)
    length = p.margin * link.trip
    elapsed = now - link.opened
    if length > 0 and elapsed >= length:
        close_round(link)
        if elapsed >= 2 * length:
            close_round(link)
        link.trip = max(link.trip, trip)
        link.seen_trip = trip
        link.opened = now


def take_back(link: LinkState, header: Header, k: int, index: int) -> None:
    """Remove the flow from all sums that contain it; a discarded flow, or one with a new route, counts as new."""
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


def add(link: LinkState, header: Header, k: int, b: float, e: float, p: Params) -> None:
    """Allocate a rate, and count the flow as limited elsewhere or here."""
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


def limit_rate(header: Header, k: int) -> float:
    """Return the minimum of the other links' valid b."""
    minimum = ANY_RATE
    for j in range(header.links):
        if j != k and header.counts[j] > 0:
            minimum = min(minimum, header.b[j])
    return minimum


def link_on_departure(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Update a control packet with the flow's allocation at this link."""
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


# ---- the map per round -----------------------------------------------------------------------------------------------


def round_of_trips(state: Sequence[Any], p: Any) -> list[Any]:
    """Return the states of `SPERC.round_map` after one trip of each flow, in their order, and a new round of links."""
    n = len(p.capacities)
    headers: list[Any] = []
    place = 2 * n
    for route in p.routes:
        b, x, s, valid = ([state[place + 4 * k + j] for k in range(len(route))] for j in range(4))
        place += 4 * len(route)
        header: Any = Header(STAYS, links=len(route))
        header.link, header.round, header.b, header.x, header.s, header.counts = route, [1] * len(route), b, x, s, valid
        headers.append(header)
    links = [LinkState(state[2 * k], state[2 * k + 1], 0, 0, 0, 0, 0, 0, 2, 0) for k in range(n)]
    for header in headers:
        for k in range(header.links):
            if header.s[k] == E:
                links[header.link[k]].max_e = max(links[header.link[k]].max_e, header.x[k])
    for header in headers:
        for index in header.link:
            env: Any = SimpleNamespace(now=0, kind=0, link=index, capacity=p.capacities[index])
            link_on_departure(links[index], header, p, env)
    for link in links:
        close_round(link)
    after = [value for link in links for value in (link.sum_e, link.num_b)]
    for header in headers:
        for k in range(header.links):
            after += [header.b[k], header.x[k], header.s[k], header.counts[k]]
    return after


def counts_in(n_links: int, size: int) -> Iterator[int]:
    """Yield the positions of discrete states among those of `round_of_trips`."""
    yield from range(1, 2 * n_links, 2)
    for place in range(2 * n_links, size, 4):
        yield from (place + 2, place + 3)


def rates_of(state: Sequence[Any], p: Any) -> NDArray[np.float64]:
    """Return the rates of flows in a state of `round_of_trips`."""
    rates, place = [], 2 * len(p.capacities)
    for route in p.routes:
        rates.append(min(state[place + 4 * k + 1] for k in range(len(route))))
        place += 4 * len(route)
    return np.array(rates, dtype=float)


# ---- hooks of hosts --------------------------------------------------------------------------------------------------


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Send a control packet, and no data until it returns."""
    env.window = 1.0 * env.packet_size


def forget(flow: FlowState) -> None:
    """Present the flow as new to all links."""
    flow.waits = 0
    flow.links = 0
    for k in range(len(flow.round)):
        flow.round[k] = 0
        flow.allocation[k] = 0.0
        flow.s[k] = E
        flow.counts[k] = 0


def pace(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Send at the allocation, or the minimum rate; a trip ends with the packet after the ACK."""
    env.window = 0.0
    env.rate = max(flow.x, p.floor * 8.0 * env.packet_size / flow.rtt)
    flow.trip = flow.rtt + 8.0 * env.packet_size / env.rate


def on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Send a control packet, unless one is in flight; mark it as the last one if all data leaves within a trip."""
    if flow.rtt > 0.0:
        pace(flow, p, env)
    if flow.waits > 0 and flow.rtt > 0.0 and env.now - flow.sent > p.patience * flow.trip:
        forget(flow)
    remaining = 8.0 * (env.size - env.delivered - env.in_flight)
    ends = flow.rtt > 0.0 and env.size >= 0 and remaining < flow.x * flow.trip
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


def on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Adopt the rate in a control packet; any packet gives an RTT sample."""
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


def on_loss(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Restart as a new flow after a timeout: the control packet is lost too."""
    if env.kind == 1:
        forget(flow)


# ---- exact rounds ----------------------------------------------------------------------------------------------------


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
        share = {link: room[link] / len(flows) for link, flows in users.items()}
        near = {link: {other for flow in flows for other in routes[flow]} for link, flows in users.items()}
        lowest = {link: min(share[other] for other in near[link]) for link in users}
        fixed: dict[int, Fraction] = {}
        for link, flows in users.items():
            if share[link] <= min(lowest[other] for other in near[link]):
                fixed |= dict.fromkeys(flows, share[link])
        for flow, rate in fixed.items():
            for link in routes[flow]:
                room[link] -= rate
        rates |= fixed
    return iterations, tuple(rates[flow] for flow in range(len(routes)))


def _order(network: Network, seed: int | None) -> Iterator[int]:
    """Yield the order of actors in a round: a flow, or ~k for link k that begins its round."""
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


def _rounds_of(name: str, rounds: Sequence[int | None] | None, network: Network, missing: int | None) -> list[Any]:
    """Return the round of each flow in an argument, or the default `missing`."""
    values = [missing] * network.n_flows if rounds is None else list(rounds)
    if len(values) != network.n_flows:
        raise ValueError(f"{name} must have {network.n_flows} entries, one for each flow, got {len(values)}")
    return [None if value is None and missing is None else as_count(value, name, bits=20) for value in values]


def _exact(record: Any, hops: int = 0) -> Any:
    """Return a record with integers for floats, and lists for arrays."""
    values = {name: [0] * hops if value == () else value for name, value in vars(record).items()}
    return SimpleNamespace(
        **{name: int(value) if isinstance(value, float) else value for name, value in values.items()}
    )


def _state(links: Sequence[Any], headers: Sequence[Any], gone: Sequence[bool]) -> Any:
    """Return everything that determines later rounds; round numbers are relative to the current round."""
    sums = [(link.sum_e, link.num_b, link.max_e, link.seen_sum_e, link.seen_num_b, link.seen_max_e) for link in links]
    carried = [
        None
        if is_gone
        else (
            header.hops,
            *header.b,
            *header.x,
            *header.s,
            *header.counts,
            *(min(links[link].round - r, 2) for link, r in zip(header.link, header.round, strict=True)),
        )
        for header, is_gone in zip(headers, gone, strict=True)
    ]
    return tuple(sums), tuple(carried)
