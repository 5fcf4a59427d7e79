"""PEDN, per-flow EDN (Kumar, Kaur; EDN sec. 5.2): the feedback is the flow's share of the queue, not the whole queue.

    D_f <- D_f + k                                    k  packets of the flow in the queue, before this one
    A, B = 2, 3 packets                               all else as in EDN (ecc/models/edn.py)

At equilibrium a flow has A packets in the queues of its path. In a FIFO queue a flow's share is that of its rate. So on
one link q* = N A s, and N flows have equal rates for any RTTs; in networks rates are proportionally fair, as with
Vegas, which estimates the k that is counted here.

A router counts in a table of `slots`. The flow and the direction of its packets select a slot by multiplicative
hashing. Flows in the same slot receive the sum of their packets, and slow down together. The table has no chains and
refuses no flow, so it never overflows. The paper sizes it by the queue: its buffer holds 867 packets of 1500 bytes, and
the default is the next power of 2. A dropped packet is not counted.

The fields have 7 bits, as EDN's, in packets: 127 and more are sent as 127. The relay acts on each flow's own k: on one
link with N flows of RTT D, k oscillates about A with amplitude 1 and period 4 D, or 8/pi^2 by its describing function.
Packet runs agree less well with this than the fluid: ACKs keep a window together in trains, and their packets find more
of their own flow than its share of the queue. 10 flows of 100 ms at 100 Mb/s have 4.6 kB queued on average, not 10 A s
= 30 kB, and unequal rates (`benchmarks/edn_cycles.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import as_count
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium, RelayLoop
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models import edn
from ecc.models.shared import windows
from ecc.network.network import Network

MULTIPLIER = 2654435761  # 2^32 over the golden ratio (Knuth, vol. 3, sec. 6.4)
WORD = 4294967296  # 2^32


@dataclass
class LinkState:
    """A router's state at one link."""

    counts: tuple[int, ...] = ()  # packets in the queue by slot


@dataclass(frozen=True)
class PEDN(windows.WindowProtocol):
    """PEDN.

    Parameters
    ----------
    A : float, > 0
        Packets in queues below which the window grows (sec. 5.2: 2).
    B : float, >= A
        Packets in queues above which slow start ends (sec. 5.2: 3).
    quantized : bool
        Whether counts have 7 bits each, as in the prototype, or are exact.
    slots : int, in [1, 2^20]
        Size of the table at each router, for example 1024.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    A: float = 2.0
    B: float = 3.0
    quantized: bool = True
    slots: int = 1024
    relay_delays = edn.EDN.relay_delays
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "EDN sec. 3: 100 Mb/s, median RTT 100 ms; four flows are ours")

    def __post_init__(self) -> None:
        check_number(self, A=None, B=None)
        object.__setattr__(self, "slots", as_count(self.slots, "slots"))
        if not 1 <= self.slots <= 2**20:
            raise ValueError(f"slots must be from 1 to 2^20, got {self.slots}")
        edn.check_limits(self, " packets")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q_flow: float, s: float, p: Params) -> float:
        """Sec. 5.2: the flow's packets in the queue."""
        return edn.counted(q_flow / s, p)

    slow_start_law = staticmethod(edn.EDN.slow_start_law)
    source_law = staticmethod(edn.EDN.source_law)

    def params(self) -> dict[str, float]:
        return {"slots": float(self.slots), **edn.shared_params(self, 1.0), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = edn.Header
    LinkState = LinkState
    FlowState = edn.FlowState

    def link_record(self) -> Any:
        return LinkState((0,) * self.slots)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": link_on_arrival, "on_departure": leave, "on_drop": leave}

    def flow_hooks(self) -> dict[str, Hook]:
        return edn.FLOW_HOOKS

    wire_fields = staticmethod(edn.EDN.wire_fields)

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return A packets of each flow in queues: rates x maximize sum log x, and A s = x sum q/C of a path."""
        point = windows.equilibrium_with_own(network, self.A)
        announced = np.where(point.fair_rate > 1e-9 * point.fair_rate.max(), self.A, inf)
        return replace(point, fair_rate=announced)

    @property
    def linear_refusal(self) -> str | None:
        return windows.relay_refusal("PEDN")

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop gain from relay to reported packets, and the queue [bit] per reported packet.

        Parameters
        ----------
        network : Network
            Network of one link; its flows have equal RTTs.
        """
        return windows.relay_with_own(self.equilibrium(network), network, self.A)


def slot(p: Params, env: LinkEnv) -> int:
    """Return the slot that counts the packets of a flow in this direction."""
    return int((2 * env.flow + env.kind) * MULTIPLIER % WORD * int(p.slots) // WORD)


def link_on_arrival(link: LinkState, header: edn.Header, p: Params, env: LinkEnv) -> None:
    """Report to a packet the number of its flow's packets before it, and count it."""
    k = slot(p, env)
    header.forward = edn.collected(header.forward, 1.0 * link.counts[k], p)
    link.counts[k] += 1


def leave(link: LinkState, header: edn.Header, p: Params, env: LinkEnv) -> None:
    """Uncount a packet that was sent or dropped."""
    link.counts[slot(p, env)] -= 1
