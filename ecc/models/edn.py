"""EDN, Explicit Delay Notification (Kumar, Kaur, *Towards a queue sensitive transport protocol*, sec. 5; EDN).

Each packet sums the queueing delays of its path in D_f. The receiver returns the sum with the ACK in D_r, and the ACK
sums those of its own path. A host compares the total with two limits at every ACK of new data:

    D_f <- D_f + q/C                                  at each router, from the queue before the packet      EDN sec. 5
    R = D_f + D_r                                     in an ACK, both directions
    W <= ssthresh:  slow start, left at R > B
    else:           n <- n + 1 if R < A, else n - 1
                    W <- W + s, n <- 0 at n >= W/s;   W <- W - s, n <- 0 at n <= -W/s

    q  queue [bit]   C  capacity [bit/s]   A, B  2 ms, 3 ms   W  window   s  packet   n  Cwin_count of the paper

W/s ACKs per RTT change n: averaged over an RTT, the law is a relay followed by an integrator:

    W' = s sign(A - R)/D                D  RTT, with queues [s]
    R* = A                              determines the sum of windows, q* + C D_0, but not its division among flows

The relay switches one RTT after R has passed A. On one link with N flows of RTT D, the queue oscillates about A C as a
triangle of amplitude N s and period 4 D. The describing function 4/(pi a) of a relay, which considers the fundamental
only, gives 8/pi^2 N s (`ecc.stability.relay_cycle`). The queue stays near A C only if N s < A C; beyond that it
empties, and peaks at N s + A C. The averaged law omits that n must be unwound after R passes A, on average by a whole
W/s. So windows stay constant for an RTT at each turn, and the cycle of packet runs has the same amplitude but period 6
D (its half is h = D + (h - D)/2 + D).

The prototype has 7 bits for each of D_f, D_r: `quantized`, whole multiples of `unit` that every router rounds down, up
to 127. The paper states no unit; with 1 ms the field can hold A, B and the 104 ms of its buffer. Rounding down does not
change R < A on one link, but R > 3 ms becomes R >= 4 ms. (The 14 bits are not those of the fragment offset, which has
13.)

The paper leaves some choices open. When slow start ends, the threshold becomes W, and it decreases with W; otherwise a
window that falls below it would return to slow start and stay at B. W = ssthresh is congestion avoidance. The minimum
window is one packet. n is 0 after a loss, which acts as in NewReno; ACKs in a recovery do not count. A delayed ACK
changes n by the number of packets that it acknowledges (by 1 if L = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import TIME, as_time
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium, RelayLoop
from ecc.contract.forms import RelayDelays
from ecc.contract.parameters import check_choice
from ecc.contract.reference import ReferenceLoop
from ecc.errors import LinearizationError
from ecc.formats.headers import REVERSE, CongestionHeader, WireFields, bits_field, constant_field
from ecc.models.newreno import flow_on_loss
from ecc.models.shared import windows
from ecc.network.network import Network

LEVELS = 127.0  # maximum of 7 bits


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    forward: float = 0.0  # D_f, sum over the links passed so far [units]
    reverse: float = 0.0  # D_r, the last D_f that the other side received [units]


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    count: float = 0.0  # n: packets acknowledged with a delay below A, minus the others
    received: float = 0.0  # D_f of the last ACK, to be returned [units]


@dataclass(frozen=True)
class EDN(windows.WindowProtocol):
    """EDN.

    Parameters
    ----------
    A : float, s, > 0
        Delay below which the window grows (sec. 5: 2 ms).
    B : float, s, >= A
        Delay above which slow start ends (sec. 5: 3 ms).
    quantized : bool
        Whether delays have 7 bits each, as in the prototype, or are exact.
    unit : float, s, > 0
        Unit of quantized delays, for example 0.001.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    A: Any = 0.002
    B: Any = 0.003
    quantized: bool = True
    unit: Any = 0.001

    dimensions = {"A": TIME, "B": TIME, "unit": TIME}
    relay_delays = RelayDelays(hold=1.0)  # the count of ACKs is first unwound
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "EDN sec. 3: 100 Mb/s, median RTT 100 ms; four flows are ours")

    def __post_init__(self) -> None:
        for name in ("A", "B", "unit"):
            object.__setattr__(self, name, as_time(getattr(self, name), name, positive=True))
        check_limits(self, " s")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float, p: Params) -> float:
        """Sec. 5: the queueing delay of a packet."""
        return counted(q / C / p.unit, p)

    @staticmethod
    def slow_start_law(w: float, R: float, s: float, a: float, p: Params) -> float:
        """Sec. 5: slow start up to a delay of B."""
        return w if R > p.B else windows.doubled(w, s, a, p)

    @staticmethod
    def source_law(w: float, R: float, s: float, p: Params) -> float:
        """Sec. 5: the window after an RTT."""
        return max(w + s * direction(R, p), s)

    def params(self) -> dict[str, float]:
        unit = self.unit if self.quantized else 1.0
        return {"unit": unit, **shared_params(self, unit), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": link_on_arrival}

    def flow_hooks(self) -> dict[str, Hook]:
        return FLOW_HOOKS

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        return WireFields(EDNField, {"forward": "forward", "reverse": "reverse"})

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point with equal windows among those at which the queue of one link delays by A: rates as 1/D."""
        if network.n_links != 1:
            raise LinearizationError(f"EDN's equilibrium is known for one link, got {network.n_links}")
        inverse = 1.0 / (network.rtts + self.A)
        rates = network.capacities[0] * inverse / inverse.sum()
        unit = self.params()["unit"]
        return Equilibrium(rates, np.array([self.A / unit]), np.full(network.n_flows, -1), self.A * network.capacities)

    @property
    def linear_refusal(self) -> str | None:
        return windows.relay_refusal("EDN")

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop gain from relay to reported delay, and the queue [bit] per second of delay.

        Parameters
        ----------
        network : Network
            Network of one link.
        """
        self.equilibrium(network)
        C = float(network.capacities[0])
        D = network.rtts + self.A
        steps = 8.0 * np.array([flow.mean_packet for flow in network.flows]) / (C * D)

        def loop(s: float) -> NDArray[np.complex128]:
            return np.asarray((steps * np.exp(-np.multiply.outer(s, D))).sum(axis=-1) / s)

        return loop, C


def check_limits(protocol: Any, unit: str) -> None:
    """Check the parameters that EDN and PEDN share."""
    if protocol.B < protocol.A:
        raise ValueError(f"B must be >= A ({protocol.A:g}{unit}), got {protocol.B:g}{unit}")
    check_choice(protocol, "quantized", (True, False))


def shared_params(protocol: Any, unit: float) -> dict[str, float]:
    """Return the parameters that EDN and PEDN share, with limits in units."""
    return {
        "A": protocol.A / unit,
        "B": protocol.B / unit,
        "levels": LEVELS if protocol.quantized else 0.0,
    }


def direction(R: float, p: Params) -> float:
    """The relay: 1 below A, else -1."""
    return 1.0 if R < p.A else -1.0


def counted(delay: float, p: Params) -> float:
    """Return the delay that a router adds: in whole units, or exactly."""
    return delay // 1.0 if p.levels > 0.0 else delay


def collected(before: float, delay: float, p: Params) -> float:
    """Return the value of a field downstream of a link: limited to 7 bits, or exact."""
    return min(before + delay, p.levels) if p.levels > 0.0 else before + delay


router_law, slow_start_law, source_law = EDN.router_law, EDN.slow_start_law, EDN.source_law


def link_on_arrival(link: Any, header: Header, p: Params, env: LinkEnv) -> None:
    """Add the queueing delay that the packet is about to experience."""
    header.forward = collected(header.forward, router_law(8.0 * env.queue, env.capacity, p), p)


def on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Return the delay of the reverse path in the flow's own data, for the other side."""
    header.reverse = flow.received


def on_receive(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Return the delay of the forward path."""
    header.reverse = header.forward
    header.forward = 0.0


def on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Open with slow start up to B, then count; a window's worth of counts changes the window by a packet."""
    s = 1.0 * env.packet_size
    flow.received = header.forward
    R = header.forward + header.reverse
    if windows.moves(flow, env):
        is_limited = windows.is_window_limited(flow, env)
        if windows.in_slow_start(flow, env):
            if slow_start_law(env.window, R, s, s, p) <= env.window:
                flow.ssthresh = env.window
            elif is_limited:
                windows.slow_start(flow, p, env)
        elif is_limited or direction(R, p) < 0.0:
            flow.count += direction(R, p) * windows.counted(env.acked, s, p) / s
            if abs(flow.count) * s >= env.window:
                env.window = source_law(env.window, R, s, p)
                flow.ssthresh = min(flow.ssthresh, env.window)
                flow.count = 0.0


def on_loss(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Respond as NewReno, and restart the count."""
    flow.count = 0.0
    flow_on_loss(flow, header, p, env)


FLOW_HOOKS: dict[str, Hook] = {
    **windows.STARTS,
    "on_send": on_send,
    "on_receive": on_receive,
    "on_ack": on_ack,
    "on_loss": on_loss,
}


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class EDNField(CongestionHeader):
    """Header field of EDN and PEDN: the two bytes of flags and fragment offset in the IP header.

    `reverse`: D_r; `forward`: D_f, in units or packets. EDN sec. 5 has 14 bits for the two, D_f in the lower 7, but the
    offset has 13 bits: the highest bit of D_r is the flag for more fragments. Packets must not be fragmented.
    """

    title = "an EDN field"
    place = "fragment"
    reserved: int = constant_field(0, width=1)
    unfragmented: int = constant_field(1, width=1)
    reverse: int = bits_field(7, direction=REVERSE)
    forward: int = bits_field(7)
