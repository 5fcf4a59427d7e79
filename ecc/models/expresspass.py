"""ExpressPass: receivers send credits, links drop what is too much, and each credit lets a packet go (Cho et al. 2017).

    each RTT of a flow, of the credits whose fate it has learned since the last:  L the share lost, y the rate delivered

    T = (1 - x/X) target                            the loss that a flow accepts
    x <- min(y (1 + T), x),   w <- max(w/2, w_min)  if L > T
    x <- w X + (1 - w) x                            if L <= T; if the RTT before was so too, first
    w <- min(w + 0.05, 0.5)

    x  rate of credits, from 84/8 bytes in an RTT to X [bit/s]    X  84/(84 + 1538) of the line's rate: a full packet
    w  aggressiveness                                                of 1538 bytes for each credit of 84 fills the line

On one link flows that move together have a sum S of x/X that goes round between low and high (`cycle`). Where losses
are known at once, in two RTTs, with w = w_min:

    low = 1 + target (1 - high/N),   high = (1 - w) low + w N

and where they are known an RTT later, as they are, in four: two increases, by w = 1/60 and 1/15, and two decreases, of
which the second finds x where it should be. Both are stable for all N > 1, for S as for differences between flows. On
several links losses add up, and a flow over many has little (docs/expresspass.md).

A flow here is one of credits, from the receiver of data to their sender, whose ACKs are the data: `ExpressPass.on`
makes such a network of one of data. Each of its links is there twice, with 1538/1622 of the capacity for data, and for
credits, which cross it in the other direction, with 84/1622 and a buffer of a few. Gaps between credits vary by
`jitter`, at random, as credits of several flows would otherwise be dropped in a fixed order.

Laws and constants are those of the authors' program, kaist-ina/ns2-xpass; the paper's text was not at hand. Data that
are lost are not sent again (no link drops any that has room for what its credits' queues allow), credits that come when
all is sent are none, as receivers know the size, and a request for credits takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import RATE, TIME, QuantityField, as_count, as_delay, as_number, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.network.network import Flow, Link, Network

CREDIT, DATA, PAYLOAD = 84, 1538, 1460  # bytes: of a credit and a full packet with all that a wire adds; of its data
W_STEP, W_MAX = 0.05, 0.5
STEP = Fraction(1, 20)  # W_STEP
FEW = 40.0  # packets: flows with less to send begin with less
RTT_WEIGHT = 0.2


def accepted(x: float, p: Params) -> float:
    """T: the share of its credits that a flow lets be lost."""
    return (1.0 - x / p.max_rate) * p.target


def decreased(y: float, x: float, p: Params) -> float:
    """The rate after too many losses, with y of x delivered [bit/s]."""
    return min(y * (1.0 + accepted(x, p)), x)


def increased(x: float, w: float, p: Params) -> float:
    """The rate after few losses."""
    return w * p.max_rate + (1.0 - w) * x


@dataclass
class FlowState:
    """A flow's state at the host that sends its credits."""

    x: float = 0.0  # rate of credits [bit/s]
    w: float = 0.0
    was_low: int = 0  # losses were accepted in the last RTT
    rtt: float = 0.0  # smoothed [s]
    updated: float = 0.0  # when [s]
    delivered: int = 0  # until then [bytes]
    lost: int = 0


class Cycle(NamedTuple):
    """The cycle of equal flows that move together, exactly.

    Attributes
    ----------
    rtts : int
        Its length.
    low, high : Fraction
        Credits of all flows over what their link lets pass, the least and the most.
    w : Fraction
        Mean of w.
    sum_multiplier, difference_multiplier : Fraction
        What is left after a cycle of a small deviation of all flows, and of one between flows.
    holds : bool
        Whether flows do increase and decrease where the cycle says.
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
        Of the hosts' links.
    target : float, in (0, 1)
        Share of credits that may be lost at a rate of 0.
    w_init : float, in (0, 0.5]
        Aggressiveness with which flows begin.
    w_min : float, in (0, 0.5]
        The least.
    alpha : float, in (0, 1]
        Share of the largest rate with which flows begin, of 40 packets or more.
    jitter : float, in [0, 1)
        By which share gaps between credits are shorter or longer, at most.
    min_rto : float, s, > 0
        Least time without data after which credits that are out count as lost: it ends flows whose last credits were.

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

    times = ()
    equilibrium_is_static = False
    answers = frozenset({"loss"})
    required_env = frozenset({"random"})
    header_bytes = (0, 0)
    no_equilibrium = "rates of credits rise and fall in turns"
    linear_refusal = "ExpressPass has no linear model: rates of credits rise and fall in turns, by a map of two RTTs"
    fluid_refusal = "ExpressPass has no fluid model: its rates jump once an RTT, by the credits lost in it"

    @property
    def operating_range(self) -> OperatingRange:
        """The capacity of hosts, and RTTs of a data center."""
        return OperatingRange((self.line_rate, self.line_rate), (20e-6, 40e-6), 1538)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line_rate", as_rate(self.line_rate, "line_rate"))
        check_number(self, target=None, w_init=None, w_min=None, alpha=None, jitter=0.0, min_rto=as_delay)
        for name in ("target", "jitter"):
            if getattr(self, name) >= 1.0:
                raise ValueError(f"{name} must be < 1, got {shown(getattr(self, name))}")
        for name, most in (("w_init", W_MAX), ("w_min", W_MAX), ("alpha", 1.0)):
            if getattr(self, name) > most:
                raise ValueError(f"{name} must be <= {most:g}, got {shown(getattr(self, name))}")

    @property
    def max_rate(self) -> float:
        """X, the largest rate of credits [bit/s]."""
        return float(self.line_rate) * CREDIT / (CREDIT + DATA)

    def params(self) -> dict[str, float]:
        return {**super().params(), "max_rate": self.max_rate}

    # ---- networks ----------------------------------------------------------------------------------------

    @staticmethod
    @check_arguments
    def on(network: Network, buffer_packets: int = 10, credit_size: int | tuple[int, int] = CREDIT) -> Network:
        """Return the network of credits of one of data: each flow is that of its credits, and its ACKs are the data.

        Parameters
        ----------
        network : Network
            Network whose flows send data; links that their ACKs would cross are not used.
        buffer_packets : int, packets, > 0, optional
            How many credits a link holds.
        credit_size : int, bytes, or (int, int), optional
            (lowest, highest): drawn for each credit, with a mean of 84.

        Returns
        -------
        Network
            Network with twice the links: link k for data, with its buffer, and n_links + k for the credits of what
            crosses it. Sizes of flows are those of their credits, 84 bytes for 1460 of data.

        Raises
        ------
        ValueError
            A flow has several routes, as data take that of their credits, or its application writes in time.
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
                    [network.n_links + link for link in reversed(flow.route)], flow.start, flow.stop,
                    None if flow.size is None else CREDIT * -(-flow.size // PAYLOAD), flow.access_delay, credit_size,
                    flow.route, priority=flow.priority, ack_size=DATA,
                )
            )  # fmt: skip
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
        delay : int, 0 or 1, optional
            RTTs until the losses of an RTT are known.
        """
        n, late = as_count(flows, "flows", minimum=2), _delay(delay)
        target, least = Fraction(self.target), Fraction(self.w_min)
        aggressive = [least, least]
        if late:
            first = max(least, STEP / 3)
            second = min(first + STEP, Fraction(W_MAX))
            aggressive = [first, second, max(second / 2, least), first]
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
        # the rate delivered is of the RTT whose losses are known, the loss accepted is of now
        difference = (1 - ups[0]) * (1 + target * (1 - high / n)) / sums[1] - target * keep / n
        mean = sum(aggressive, Fraction(0)) / len(aggressive)
        return Cycle(len(aggressive), low, high, mean, -target * keep / n, difference, rises and falls and high <= n)

    @check_arguments
    def synchronized(
        self, rates: ArrayLike, count: int, capacity: float = 1.0, delay: int = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what flows on one link do in RTTs that are those of all, where each learns the loss of all.

        Parameters
        ----------
        rates : array, shape (n_flows,)
            With which they begin, over the largest; > 0 and <= 1.
        count : int
            RTTs.
        capacity : float, > 0, optional
            What the link lets pass, over the largest rate.
        delay : int, 0 or 1, optional
            RTTs until the losses of an RTT are known.

        Returns
        -------
        tuple of ndarray, shape (count + 1, n_flows)
            Rates, over the largest, and w.
        """
        p = self.namespace()
        p.max_rate = 1.0
        C, n = as_number(capacity, "capacity", positive=True), as_count(count, "count", minimum=1, bits=20)
        late, x = _delay(delay), np.array(rates, dtype=float)
        if x.ndim != 1 or not len(x) or not ((x > 0.0) & (x <= 1.0)).all():
            raise ValueError(f"rates must be numbers > 0 and <= 1, one for each flow, got {shown(rates)}")
        states = [(float(one), self.w_init, 0) for one in x]
        known: list[tuple[float, list[float]]] = [(0.0, x.tolist())]
        found = [states]
        for _ in range(n):
            total = sum(one for one, _, _ in states)
            loss = max(1.0 - C / total, 0.0)
            known = [*known, (loss, [(1.0 - loss) * one for one, _, _ in states])][-1 - late :]
            states = [moved(*one, known[0][0], y, p) for one, y in zip(states, known[0][1], strict=True)]
            found.append(states)
        table = np.array(found)
        return table[:, :, 0], table[:, :, 1]

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """A share of the largest."""
        return self.alpha * self.max_rate

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": flow_on_send, "on_ack": flow_on_ack}


def _delay(given: int) -> int:
    if as_count(given, "delay") > 1:
        raise ValueError(f"delay must be 0 or 1, got {given}")
    return int(given)


def moved(x: float, w: float, was_low: int, loss: float, y: float, p: Params) -> tuple[float, float, int]:
    """The rate, w, and whether losses were accepted, after an RTT with these losses, of which y was delivered."""
    if loss > accepted(x, p):
        return decreased(y, x, p), max(0.5 * w, p.w_min), 0
    if was_low > 0:
        w = min(w + W_STEP, W_MAX)
    return increased(x, w, p), w, 1


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Credits at a share of the largest rate."""
    packets = env.size / env.packet_size if env.size >= 0 else FEW
    flow.x = p.alpha * p.max_rate * min(packets / FEW, 1.0)
    flow.w = p.w_init
    flow.updated = env.now
    env.rate = flow.x


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Data: they tell the RTT, and by what is missing which credits were lost."""
    flow.rtt = env.rtt if flow.rtt == 0.0 else (1.0 - RTT_WEIGHT) * flow.rtt + RTT_WEIGHT * env.rtt


def flow_on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """A credit: if an RTT is over, the next rate; and the gap to the next credit."""
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
