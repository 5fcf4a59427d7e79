"""ExpressPass: receivers send credits, links drop excess credits, and each credit releases a packet (Cho et al. 2017).

    once an RTT, for the credits with a known outcome since the last update:  L share lost, y rate delivered

    T = (1 - x/X) target                            the loss that a flow accepts
    x <- min(y (1 + T), x),   w <- max(w/2, w_min)  if L > T
    x <- w X + (1 - w) x                            if L <= T; before that, if the last RTT also had L <= T,
    w <- min(w + 0.05, 0.5)

    x  rate of credits, from 84/8 bytes per RTT to X [bit/s]      X  84/(84 + 1538) of the line rate: a full packet of
    w  aggressiveness                                                1538 bytes for each credit of 84 fills the line

On one link, flows that change together have a sum S of x/X that cycles between low and high (`cycle`). If losses are
known at once, the cycle has two RTTs, with w = w_min:

    low = 1 + target (1 - high/N),   high = (1 - w) low + w N

If losses are known an RTT later, as in a network, it has four: two increases, by w = 1/60 and 1/15, and two decreases,
of which the second finds x at its correct value. Both are stable for all N > 1, for S and for differences between
flows. On several links losses add up, and a flow over many links gets little (docs/expresspass.md).

`round_map` is this map on a network in which all RTTs are equal: credits that links pass, in their order, and losses
that are known an RTT later. With two flows or more it has no fixed point. An increase leaves x unchanged at x = X only,
where a flow accepts no loss, and several flows at X lose some. A decrease leaves it unchanged if (1 - L)(1 + T) >= 1,
and L > T excludes that. The linear model in discrete time is the derivative over the cycle.

In continuous time, flows on one link slide where L = T (Filippov): above it rates fall, below it they rise. With
L = 1 - C/S and equal flows, xi = x/X solves 1 - C/(n xi X) = target (1 - xi). This is the only point where all flows
slide, because L = T for each flow requires equal x. It is reached in finite time: with sigma_k = L - T(x_k),
sigma' = M x', where M = L' 1 1^T + target/X I is positive definite, and x_k' has the opposite sign of sigma_k. Hence
V = sum of |x_k'| |sigma_k| has V' = -x'^T M x' < 0 as long as the speeds |x_k'| are those of the point. A share s of
RTTs has few losses, and keeps the rate constant:

    s (w + 0.05 s) (1 - xi) = (1 - s) T^2 xi             y (1 + T) = (1 - T^2) x at L = T
    w <- s (w + 0.05 s) + (1 - s) max(w/2, w_min)        the RTT before had few losses, too, with probability s

A flow of this model is a flow of credits, from the receiver of data to their sender, with the data as its ACKs.
`ExpressPass.on` converts a network of data flows. Each link becomes two: one with 1538/1622 of the capacity for data,
and one for credits, which cross it in the other direction, with 84/1622 and a buffer of a few credits. Gaps between
credits vary by `jitter`, at random; otherwise credits of several flows would be dropped in a fixed order.

Laws and constants are those of the authors' program, kaist-ina/ns2-xpass; the paper itself was not available. Lost data
is not retransmitted: links do not drop data if their buffers match the queues of credits. Credits after the last packet
are not counted as waste, as receivers know the size. A request for credits takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import RATE, TIME, QuantityField, as_count, as_delay, as_number, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import OperatingRange, RoundMap
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.errors import LinearizationError
from ecc.laws.elementary import sqrt
from ecc.models.shared.cycles import cycle_of
from ecc.network.network import Flow, Link, Network

CREDIT, DATA, PAYLOAD = 84, 1538, 1460  # bytes: a credit and a full packet with all overhead of a wire; its payload
W_STEP, W_MAX = 0.05, 0.5
STEP = Fraction(1, 20)  # W_STEP, exactly
FEW = 40.0  # packets: flows with less to send begin with a lower rate
RTT_WEIGHT = 0.2  # weight of a sample in the smoothed RTT
SETTLING, MAX_CYCLE, SAME = 4000, 1000, 1e-10  # RTTs before a cycle is sought, its maximum length, relative difference
ROUNDING = 1e-12  # relative excess of arrivals that causes no loss


def accepted(x: float, p: Params) -> float:
    """T: the share of lost credits that a flow accepts."""
    return (1.0 - x / p.max_rate) * p.target


def decreased(y: float, x: float, p: Params) -> float:
    """Return the rate after too many losses, with y of x delivered [bit/s]."""
    return min(y * (1.0 + accepted(x, p)), x)


def increased(x: float, w: float, p: Params) -> float:
    """Return the rate after few losses."""
    return w * p.max_rate + (1.0 - w) * x


@dataclass
class FlowState:
    """A flow's state at the host that sends its credits."""

    x: float = 0.0  # rate of credits [bit/s]
    w: float = 0.0  # aggressiveness
    was_low: int = 0  # 1 if losses were accepted in the last RTT
    rtt: float = 0.0  # smoothed RTT [s]
    updated: float = 0.0  # time of the last update [s]
    delivered: int = 0  # credits delivered by then [bytes]
    lost: int = 0  # credits lost by then [bytes]


class Cycle(NamedTuple):
    """The exact cycle of equal flows that change together.

    Attributes
    ----------
    rtts : int
        Length of the cycle in RTTs.
    low, high : Fraction
        Minimum and maximum of the credits of all flows, over those that their link can pass.
    w : Fraction
        Mean of w.
    sum_multiplier, difference_multiplier : Fraction
        Factor of a small deviation per cycle: a common one of all flows, and one between flows.
    holds : bool
        Whether flows increase and decrease as the cycle assumes.
    """

    rtts: int
    low: Fraction
    high: Fraction
    w: Fraction
    sum_multiplier: Fraction
    difference_multiplier: Fraction
    holds: bool


@dataclass(frozen=True)
class ExpressPass(Protocol):
    """ExpressPass.

    Parameters
    ----------
    line_rate : float, bit/s, > 0
        Rate of the hosts' links.
    target : float, in (0, 1)
        Share of credits that may be lost at a rate of 0 (Cho et al.'s program: 1/8).
    w_init : float, in (0, 0.5]
        Initial aggressiveness.
    w_min : float, in (0, 0.5]
        Minimum aggressiveness.
    alpha : float, in (0, 1]
        Initial rate of flows with 40 packets or more, as a share of the maximum rate.
    jitter : float, in [0, 1)
        Maximum relative variation of the gaps between credits.
    min_rto : float, s, > 0
        Minimum time without data after which outstanding credits count as lost, so that flows with lost last credits
        end.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    line_rate: QuantityField = default(10e9)
    target: float = 0.125
    w_init: float = 0.5
    w_min: float = 0.01
    alpha: float = 0.5
    jitter: float = 0.1
    min_rto: QuantityField = default(1e-3)

    dimensions = {"line_rate": RATE, "min_rto": TIME}

    times = ("continuous", "discrete")
    equilibrium_is_static = False
    answers = frozenset({"loss"})
    required_env = frozenset({"random"})
    header_bytes = (0, 0)
    no_equilibrium = "rates of credits alternate between increase and decrease"
    fluid_refusal = "ExpressPass has no fluid model: its rates jump once an RTT, by the credits lost in it"

    @property
    def operating_range(self) -> OperatingRange:
        """Capacities equal to the hosts' line rate, and RTTs of a data center."""
        return OperatingRange((self.line_rate, self.line_rate), (20e-6, 40e-6), 1538)

    @property
    def reference_loop(self) -> ReferenceLoop:
        """Two flows of credits over a link of the hosts' line rate."""
        return ReferenceLoop(self.max_rate, (40e-6,) * 2, "ours", CREDIT)

    @property
    def cycle_loop(self) -> ReferenceLoop:
        """The reference loop with a buffer of ten credits, in which excess credits are lost."""
        return ReferenceLoop(self.max_rate, (40e-6,) * 2, "ours; a buffer of ten credits", CREDIT, buffer=10 * CREDIT)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line_rate", as_rate(self.line_rate, "line_rate"))
        check_number(self, target=None, w_init=None, w_min=None, alpha=None, jitter=0.0, min_rto=as_delay)
        for name in ("target", "jitter"):
            if getattr(self, name) >= 1.0:
                raise ValueError(f"{name} must be < 1, got {shown(getattr(self, name))}")
        for name, limit in (("w_init", W_MAX), ("w_min", W_MAX), ("alpha", 1.0)):
            if getattr(self, name) > limit:
                raise ValueError(f"{name} must be <= {limit:g}, got {shown(getattr(self, name))}")

    @property
    def max_rate(self) -> float:
        """X, the maximum rate of credits [bit/s]."""
        return float(self.line_rate) * CREDIT / (CREDIT + DATA)

    def params(self) -> dict[str, float]:
        return {**super().params(), "max_rate": self.max_rate}

    # ---- networks ----------------------------------------------------------------------------------------

    @staticmethod
    @check_arguments
    def on(network: Network, buffer_packets: int = 10, credit_size: int | tuple[int, int] = CREDIT) -> Network:
        """Return the network of credits for a network of data flows: each flow sends credits, its ACKs are the data.

        Parameters
        ----------
        network : Network
            Network of data flows; links that only their ACKs would cross are not used.
        buffer_packets : int, packets, > 0, optional
            Buffer of a link in credits.
        credit_size : int, bytes, or (int, int), optional
            Size, or (lowest, highest) size with a mean of 84, from which each credit's size is drawn.

        Returns
        -------
        Network
            Network with twice the links: link k for data, with its buffer, and n_links + k for the credits of the data
            that crosses it. Sizes of flows are those of their credits, 84 bytes for 1460 of data.

        Raises
        ------
        ValueError
            A flow with several routes, as data follows the route of its credits; an application that writes over time.
        """
        places, share = as_count(buffer_packets, "buffer_packets", minimum=1), CREDIT / (CREDIT + DATA)
        flows = []
        for index, flow in enumerate(network.flows):
            if flow.alternatives:
                raise ValueError(
                    f"alternatives must be empty with credits, got {len(flow.alternatives)} (flow {index})"
                )
            if flow.writes is not None:
                raise ValueError(f"writes must be None with credits, got {shown(flow.writes)} (flow {index})")
            flows.append(
                Flow(
                    [network.n_links + link for link in reversed(flow.route)],
                    flow.start,
                    flow.stop,
                    None if flow.size is None else CREDIT * -(-flow.size // PAYLOAD),
                    flow.access_delay,
                    credit_size,
                    flow.route,
                    priority=flow.priority,
                    ack_size=DATA,
                )
            )
        data = [replace(link, capacity=link.capacity * (1.0 - share)) for link in network.links]
        credits = [Link(link.capacity * share, link.delay, buffer_packets=places) for link in network.links]
        return Network([*data, *credits], flows)

    # ---- one link, flows that move together --------------------------------------------------------------

    @check_arguments
    def cycle(self, flows: int, delay: int = 1) -> Cycle:
        """Return the cycle of equal flows on one link of their line's rate, in exact fractions.

        Parameters
        ----------
        flows : int, >= 2
            Number of flows, for example 10.
        delay : int, 0 or 1, optional
            RTTs until the losses of an RTT are known.
        """
        n, late = as_count(flows, "flows", minimum=2), _delay(delay)
        target, w_min = Fraction(self.target), Fraction(self.w_min)
        aggressive = [w_min, w_min]
        if late:
            first = max(w_min, STEP / 3)
            second = min(first + STEP, Fraction(W_MAX))
            aggressive = [first, second, max(second / 2, w_min), first]
        ups = aggressive[: len(aggressive) // 2]
        keep = 1 - ups[0] if not late else (1 - ups[0]) * (1 - ups[1])
        sums = [
            (1 + target * keep) / (1 + target * keep / n)
        ]  # low = 1 + target (1 - high/n), n - high = keep (n - low)
        for w in ups:
            sums.append((1 - w) * sums[-1] + w * n)
        low, high = sums[0], sums[-1]

        def is_accepted(known: Fraction, now: Fraction) -> bool:
            return 1 - 1 / known <= target * (1 - now / n)

        rises = all(is_accepted(low, now) for now in sums[:-1])
        falls = not is_accepted(sums[1], high) and not (late and is_accepted(high, low))
        # the delivered rate is that of the RTT with known losses, the accepted loss that of the current RTT
        difference = (1 - ups[0]) * (1 + target * (1 - high / n)) / sums[1] - target * keep / n
        mean = sum(aggressive, Fraction(0)) / len(aggressive)
        return Cycle(len(aggressive), low, high, mean, -target * keep / n, difference, rises and falls and high <= n)

    @check_arguments
    def synchronized(
        self, rates: ArrayLike, count: int, capacity: float = 1.0, delay: int = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return rates and w of flows on one link with common RTTs, in which each flow observes the loss of all.

        Parameters
        ----------
        rates : array, shape (n_flows,)
            Initial rates, over the maximum rate; > 0 and <= 1.
        count : int
            Number of RTTs.
        capacity : float, > 0, optional
            Credits that the link can pass, over the maximum rate.
        delay : int, 0 or 1, optional
            RTTs until the losses of an RTT are known.

        Returns
        -------
        tuple of ndarray, shape (count + 1, n_flows)
            Rates, over the maximum rate, and w.
        """
        p = self.namespace()
        p.max_rate = 1.0
        C, n = as_number(capacity, "capacity", positive=True), as_count(count, "count", minimum=1, bits=20)
        late, x = _delay(delay), np.array(rates, dtype=float)
        if x.ndim != 1 or not len(x) or not ((x > 0.0) & (x <= 1.0)).all():
            raise ValueError(f"rates must be numbers > 0 and <= 1, one for each flow, got {shown(rates)}")
        states = [(float(rate), self.w_init, 0) for rate in x]
        known: list[tuple[float, list[float]]] = [(0.0, x.tolist())]
        history = [states]
        for _ in range(n):
            total = sum(rate for rate, _, _ in states)
            loss = max(1.0 - C / total, 0.0)
            known = [*known, (loss, [(1.0 - loss) * rate for rate, _, _ in states])][-1 - late :]
            states = [moved(*state, known[0][0], y, p) for state, y in zip(states, known[0][1], strict=True)]
            history.append(states)
        table = np.array(history)
        return table[:, :, 0], table[:, :, 1]

    def round_map(self, network: Network) -> RoundMap:
        """Return the map per RTT of the cycle that flows reach from equal rates; losses are known an RTT later.

        States of each flow are X - x, w, whether the last RTT had few losses, and loss and delivered rate of the last
        RTT.
        Links lose the excess of their arrivals, the same share of each flow, in the order in which credits pass them.

        Parameters
        ----------
        network : Network
            Network of credits (`on`); flows follow their routes.

        Raises
        ------
        LinearizationError
            RTTs differ; links of routes have no common order; or rates do not repeat within 1,000 RTTs after 4,000.
        ValueError
            A flow with several routes.

        Examples
        --------
        >>> net = ExpressPass.on(Network.dumbbell("10 Gb/s", ["40 us"] * 4))
        >>> print(ecc.linearize(ExpressPass("10 Gb/s"), net, time="discrete").notes[0])
        cycle of 4 rounds
        """
        for index, flow in enumerate(network.flows):
            if flow.alternatives:
                raise ValueError(f"alternatives must be empty in rounds, got {len(flow.alternatives)} (flow {index})")
        rtts = network.rtts
        if np.ptp(rtts) > 1e-9 * rtts.max():
            raise LinearizationError(
                f"ExpressPass has no map per round for different RTTs, got {rtts.min():g} to {rtts.max():g} s: a round "
                "is an RTT of all flows"
            )
        routes = [list(flow.route) for flow in network.flows]
        p = SimpleNamespace(
            **self.params(),
            order=_order_of_links(routes),
            users=[[k for k, route in enumerate(routes) if link in route] for link in range(network.n_links)],
            capacities=[float(link.capacity) for link in network.links],
        )
        x = self.alpha * self.max_rate
        start = [value for _ in routes for value in (self.max_rate - x, self.w_init, 0, 0.0, x)]
        states, closed = cycle_of(lambda state: rtt_of_credits(state, p), start, SETTLING, MAX_CYCLE, SAME)
        if not closed:
            raise LinearizationError(
                f"ExpressPass has no cycle here: rates do not repeat within {MAX_CYCLE} RTTs, after {SETTLING} RTTs"
            )
        return RoundMap(
            rtt_of_credits,
            tuple(states[0]),
            p,
            duration=float(rtts.max()),
            rounds=len(states),
            notes=("flows update together, and jitter and single credits are omitted",),
            averaged=self._sliding(p, float(rtts.max())),
            one_sided="a flow at its maximum rate can only decrease: derivatives are those for decreases",
        )

    def _sliding(self, p: Any, rtt: float) -> RoundMap | None:
        """Return the averaged map of flows on one link, which slide at the loss that they accept; None elsewhere."""
        n = len(p.users[p.order[0]])
        capacity = p.capacities[p.order[0]] / self.max_rate
        if len(p.order) > 1 or n <= max(capacity, 1.0):
            return None
        a = self.target
        xi = (np.sqrt((1.0 - a) ** 2 + 4.0 * a * capacity / n) - (1.0 - a)) / (2.0 * a)
        p.sliding = SimpleNamespace(rate=float(xi) * self.max_rate, falls=(a * (1.0 - xi)) ** 2 * xi, room=1.0 - xi)
        low, high = self.w_min, W_MAX
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if sliding_w(middle, p) > middle else (low, middle)
        return RoundMap(
            sliding_credits,
            (p.sliding.rate, low) * n,
            p,
            duration=rtt,
            notes=("rates slide where losses are those that flows accept (Filippov)", "single credits are omitted"),
        )

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """The initial share of the maximum rate."""
        return self.alpha * self.max_rate

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": flow_on_send, "on_ack": flow_on_ack}


def _delay(delay: int) -> int:
    if as_count(delay, "delay") > 1:
        raise ValueError(f"delay must be 0 or 1, got {delay}")
    return int(delay)


def moved(x: float, w: float, was_low: int, loss: float, y: float, p: Params) -> tuple[float, float, int]:
    """Return the rate, w, and whether losses were accepted, after an RTT with these losses and a delivery of y."""
    if loss > accepted(x, p):
        return decreased(y, x, p), max(0.5 * w, p.w_min), 0
    if was_low > 0:
        w = min(w + W_STEP, W_MAX)
    return increased(x, w, p), w, 1


def rtt_of_credits(state: Sequence[Any], p: Any) -> list[Any]:
    """Return the states of `ExpressPass.round_map` after an RTT."""
    sent = [p.max_rate - state[k] for k in range(0, len(state), 5)]
    passed = list(sent)
    for link in p.order:
        arrivals = sum(passed[flow] for flow in p.users[link])
        if arrivals > (1.0 + ROUNDING) * p.capacities[link]:
            share = p.capacities[link] / arrivals
            for flow in p.users[link]:
                passed[flow] = share * passed[flow]
    after: list[Any] = []
    for flow, x in enumerate(sent):
        _, w, was_low, loss, y = state[5 * flow : 5 * flow + 5]
        x_next, w_next, is_low = moved(x, w, was_low, loss, y, p)
        after += [max(p.max_rate - x_next, 0.0), w_next, is_low, 1.0 - passed[flow] / x, passed[flow]]
    return after


def sliding_w(w: Any, p: Any) -> Any:
    """Return w after an RTT of flows that slide: with few losses with the probability that keeps their rates."""
    fall, gain = p.sliding.falls, p.sliding.room
    known = w * gain + fall
    share = (sqrt(known * known + 4.0 * W_STEP * gain * fall) - known) / (2.0 * W_STEP * gain)
    return share * min(w + W_STEP * share, W_MAX) + (1.0 - share) * max(0.5 * w, p.w_min)


def sliding_credits(state: Sequence[Any], p: Any) -> list[Any]:
    """Return the rates and w of flows that slide, after an RTT."""
    after: list[Any] = []
    for w in state[1::2]:
        after += [p.sliding.rate, sliding_w(w, p)]
    return after


def _order_of_links(routes: Sequence[Sequence[int]]) -> list[int]:
    """Return the links of routes in an order in which all flows pass them."""
    before: dict[int, set[int]] = {link: set() for route in routes for link in route}
    for route in routes:
        for first, second in zip(route, route[1:], strict=False):
            before[second].add(first)
    order: list[int] = []
    while len(order) < len(before):
        ready = sorted(link for link in before if link not in order and before[link] <= set(order))
        if not ready:
            raise LinearizationError(
                f"ExpressPass has no map per round here: routes must pass links in one order, and links "
                f"{', '.join(str(link) for link in sorted(before) if link not in order)} have none"
            )
        order += ready
    return order


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start credits at a share of the maximum rate; short flows at a lower one, to waste fewer credits."""
    packets = env.size / env.packet_size if env.size >= 0 else FEW
    flow.x = p.alpha * p.max_rate * min(packets / FEW, 1.0)
    flow.w = p.w_init
    flow.updated = env.now
    env.rate = flow.x


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Measure the RTT from data; the engine infers lost credits from missing data."""
    flow.rtt = env.rtt if flow.rtt == 0.0 else (1.0 - RTT_WEIGHT) * flow.rtt + RTT_WEIGHT * env.rtt


def flow_on_send(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Update the rate once an RTT, and draw the gap to the next credit."""
    came = env.delivered - flow.delivered
    gone = env.lost - flow.lost
    elapsed = env.now - flow.updated
    if flow.rtt > 0.0 and elapsed >= flow.rtt and came + gone > 0:
        flow.x, flow.w, flow.was_low = moved(
            flow.x, flow.w, flow.was_low, gone / (came + gone), 8.0 * came / elapsed, p
        )
        flow.x = max(min(flow.x, p.max_rate), 8.0 * env.packet_size / flow.rtt)
        flow.updated = env.now
        flow.delivered = env.delivered
        flow.lost = env.lost
    env.rate = flow.x / (1.0 + p.jitter * (2.0 * env.random - 1.0))
