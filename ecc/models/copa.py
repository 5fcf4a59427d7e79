"""Copa (Arun, Balakrishnan 2018): windows move towards 1/delta packets of their own in queues.

    d = D_s - B
    W <- W + v s a/(delta W)   if W/D_s <= s/(delta d), an ACK of a; else W - v s a/(delta W)              sec. 2.1
    v <- 2 v   each RTT, once W has moved in one direction for three; 1 where the direction changes        sec. 2.1
    rate = 2 W/D_s                                                                                         sec. 2.1

    W  window [bytes in hooks, bit in laws]   D_s  least RTT of half a smoothed RTT   B  least RTT of 10 s
    s  packet   v  velocity   delta  1/2

Slow start doubles the window in an RTT until it is to fall. The paper leaves open what limits a sender: here a window
that does not limit its flow grows up to twice the bytes in flight, since it is paced at 2 W/D_s, and v is 1 meanwhile.
A smaller window after an idle period opens in slow start. No loss moves the window but a timeout, which leaves a
packet. A change of direction within an RTT resets v at once, as in mvfst; v is at most delta W/s, as in genericCC.

With mode="auto" flows look for others that fill buffers: a queue that is never nearly empty in five RTTs,
d < (D_max - B)/10 with the largest RTT of four. Then 1/delta grows by 1 in an RTT, and is halved by a loss, but not
below its own value (sec. 2.2). "competitive" does so always.

At equilibrium W d/D = s/delta, so rates are s/(delta d): proportionally fair, with 1/delta packets of each flow in
queues, as those of Vegas with alpha = beta. Around it queues swing. Hosts know of a rise 1.5 RTTs later, as D_s is the
least of half an RTT, and of a fall one RTT later: queues go from 0 to 2.5/delta packets a flow, in 5 RTTs (sec. 3). As
fluid v is 1, D_s the RTT of the moment, and the law a relay, W' = +-s/(delta D): on one link with equal RTTs the cycle
takes 4 D, the swing is 2/delta packets a flow, from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import TIME, QuantityField, as_delay, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium, RelayLoop
from ecc.contract.parameters import check_choice, check_number
from ecc.models.fast import FAST
from ecc.models.shared import filters, windows
from ecc.network.network import Network

SAME = 3  # RTTs in one direction before velocity grows
NEARLY_EMPTY, OF_MAX, OF_EMPTY = 0.1, 4.0, 5.0  # share of the swing of RTTs; RTTs
MODES = ("default", "auto", "competitive")


def is_to_grow(w: float, wait: float, D: float, inverse: float, s: float) -> bool:
    """Sec. 2.1: whether the rate is below its target, with so many packets of its own as the inverse of delta."""
    return w * wait <= inverse * s * D


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    slow_start: int = 1
    inverse: float = 0.0  # 1/delta now [packets]
    velocity: float = 1.0
    direction: int = 0  # 1: up, -1: down
    same: int = 0  # RTTs that it has stayed
    rtt_began: float = 0.0  # [s]
    window_then: float = 0.0  # [bytes]
    base_value: tuple[float, ...] = (0.0,) * 3
    base_time: tuple[float, ...] = (0.0,) * 3
    standing_value: tuple[float, ...] = (0.0,) * 3
    standing_time: tuple[float, ...] = (0.0,) * 3
    largest_value: tuple[float, ...] = (0.0,) * 3
    largest_time: tuple[float, ...] = (0.0,) * 3
    raised: float = 0.0  # when 1/delta has changed last [s]
    emptied: float = 0.0  # when the queue was nearly empty last [s]
    lost: float = -windows.NEVER_LEFT  # when a loss has halved 1/delta last [s]


@dataclass(frozen=True)
class Copa(windows.WindowProtocol):
    """Copa.

    Parameters
    ----------
    delta : float, 1/packets, > 0
        Inverse of the packets that a flow keeps in queues.
    mode : str
        "default", "auto" (competitive where others fill buffers) or "competitive".
    min_rtt_window : float, s, > 0
        For how long a least RTT counts.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        See `WindowProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    delta: float = 0.5
    mode: str = "default"
    min_rtt_window: QuantityField = default(10.0)
    transport: str = field(default="sack", kw_only=True)

    dimensions = {"min_rtt_window": TIME}

    may_use_prr = False
    loss_response_law = None

    def __post_init__(self) -> None:
        check_number(self, delta=None, min_rtt_window=as_delay)
        check_choice(self, "mode", MODES)
        super().__post_init__()

    @property
    def linear_refusal(self) -> str | None:
        return windows.relay_refusal("Copa")

    @property
    def fluid_refusal(self) -> str | None:
        needs = "its laws keep delta, which losses and other flows move in this mode"
        return None if self.mode == "default" else f"Copa(mode={self.mode!r}) has no fluid model: {needs}"

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(FAST.router_law)

    @staticmethod
    def slow_start_law(w: float, R: float, D: float, s: float, a: float, p: Params) -> float:
        """Doubled in an RTT, until it is to fall."""
        return windows.doubled(w, s, a, p) if is_to_grow(w, R, D, 1.0 / p.delta, s) else w

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, p: Params) -> float:
        """Sec. 2.1 with v = 1, with the RTT of empty queues known."""
        return w + s / p.delta if is_to_grow(w, R, D, 1.0 / p.delta, s) else w - s / p.delta

    def params(self) -> dict[str, float]:
        own = {"delta": self.delta, "mode": float(MODES.index(self.mode)), "min_rtt_window": float(self.min_rtt_window)}
        return {**own, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start, "on_restart": flow_on_restart, "on_ack": flow_on_ack, "on_loss": flow_on_loss
        }  # fmt: skip

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, rtt: float = 0.0, min_rtt: float = 0.0,
                **values: float) -> Any:  # fmt: skip
        """Return the state of a flow whose RTTs have long been `rtt`, with an empty queue once `min_rtt`."""
        base, standing = (-min_rtt,) * 3, (-rtt,) * 3
        flow = super().flow_at(x, R, link, window)
        flow.slow_start, flow.inverse, flow.window_then = 0, 1.0 / self.delta, window
        flow.base_value, flow.standing_value = base, standing
        return flow

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """1/delta packets of each flow in queues; `fair_rate` is the wait in one [s]."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Copa receive the feedback of all links of their route")
        return windows.equilibrium_with_own(network, 1.0 / self.delta)

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop from the relays to the packets reported to them, and how much queue [bit] one of these is.

        Parameters
        ----------
        network : Network
            Network of one link; its flows have equal RTTs.
        """
        loop, queue = windows.relay_with_own(self.equilibrium(network), network, 1.0 / self.delta)
        return lambda s: loop(s) / self.delta, queue


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open with the initial window."""
    windows.flow_on_start(flow, header, p, env)
    flow.inverse = 1.0 / p.delta
    flow.emptied = env.now


def flow_on_restart(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Go on with the restart window; a smaller one opens in slow start."""
    before = env.window
    windows.flow_on_restart(flow, header, p, env)
    if env.window < before:
        flow.slow_start = 1
        begin_rtt(flow, 1, 1.0, 0, env)


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Compare the rate with its target, and move the window."""
    s, now = 1.0 * env.packet_size, env.now
    if flow.base_time[0] == 0.0:
        filters.reset(flow.base_value, flow.base_time, now, -env.rtt)
        filters.reset(flow.standing_value, flow.standing_time, now, -env.rtt)
    base = filters.windowed_min(flow.base_value, flow.base_time, p.min_rtt_window, now, env.rtt)
    standing = filters.windowed_min(flow.standing_value, flow.standing_time, 0.5 * env.srtt, now, env.rtt)
    wait = standing - base
    if p.mode > 0.0:
        choose_delta(flow, base, wait, p, env)
    if env.acked > 0:
        flow.backed_off = 0
        grows = is_to_grow(env.window, wait, standing, flow.inverse, s)
        if grows and not windows.is_paced_window_limited(env.window, True, env):
            begin_rtt(flow, 1, 1.0, 0, env)  # the window stays, and a velocity does not count RTTs without growth
        elif flow.slow_start > 0 and grows:
            env.window += windows.counted_in_slow_start(env.acked, s, p.L)
            flow.rtt_began = now
            flow.window_then = env.window
        else:
            flow.slow_start = 0
            choose_velocity(flow, 1 if grows else -1, env)
            flow.velocity = min(flow.velocity, max(env.window / (s * flow.inverse), 1.0))
            step = flow.velocity * flow.inverse * s * env.acked / env.window
            env.window = max(env.window + step if grows else env.window - step, 2.0 * s)
    env.rate = 16.0 * env.window / standing


def choose_velocity(flow: Any, direction: int, env: FlowEnv) -> None:
    """Sec. 2.1, once an RTT; reset where a fast window turns round."""
    if flow.velocity > 1.0 and direction != flow.direction:
        begin_rtt(flow, direction, 1.0, 0, env)
    elif env.now - flow.rtt_began >= env.srtt:
        went = 1 if env.window > flow.window_then else -1
        same = flow.same + 1 if went == flow.direction else 0
        begin_rtt(flow, went, (2.0 * flow.velocity if same >= SAME else flow.velocity) if same > 0 else 1.0, same, env)


def begin_rtt(flow: Any, direction: int, velocity: float, same: int, env: FlowEnv) -> None:
    """Count from here."""
    flow.direction = direction
    flow.velocity = velocity
    flow.same = same
    flow.rtt_began = env.now
    flow.window_then = env.window


def choose_delta(flow: Any, base: float, wait: float, p: Params, env: FlowEnv) -> None:
    """Sec. 2.2."""
    largest = filters.windowed_max(flow.largest_value, flow.largest_time, OF_MAX * env.srtt, env.now, env.rtt)
    if wait < NEARLY_EMPTY * (largest - base):
        flow.emptied = env.now
    competes = p.mode > 1.0 or env.now - flow.emptied > OF_EMPTY * env.srtt
    if not competes:
        flow.inverse = 1.0 / p.delta
    elif env.now - flow.raised >= env.srtt:
        flow.raised = env.now
        flow.inverse += 1.0


def flow_on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Fewer packets in queues, in competition; one packet after a timeout."""
    if p.mode > 0.0 and env.now - flow.lost >= env.srtt:
        flow.lost = env.now
        flow.raised = env.now
        flow.inverse = max(0.5 * flow.inverse, 1.0 / p.delta)
    if env.kind == 1:
        windows.time_out(flow, windows.halved(windows.on_the_way(env)), env)
        flow.slow_start = 1
