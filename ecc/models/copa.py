"""Copa (Arun, Balakrishnan 2018): each flow keeps about 1/delta of its packets in queues.

    d = D_s - B
    W <- W + v s a/(delta W)   an ACK of a, if W/D_s <= s/(delta d); else W - v s a/(delta W)              sec. 2.1
    v <- 2 v   each RTT, once W has moved in one direction for three RTTs; 1 if the direction changes      sec. 2.1
    rate = 2 W/D_s                                                                                         sec. 2.1

    W  window [bytes in hooks, bit in laws]   D_s  minimum RTT over half a smoothed RTT   B  minimum RTT over 10 s
    s  packet   v  velocity   delta  1/2

Slow start doubles the window per RTT until the first decrease. The paper does not define the limits of a sender. Here a
window that does not limit its flow grows up to twice the bytes in flight, since it is paced at 2 W/D_s, and v is 1
meanwhile. A smaller window after an idle period opens in slow start. Losses do not change the window, except that a
timeout reduces it to one packet. A change of direction within an RTT resets v at once, as in mvfst; v is limited to
delta W/s, as in genericCC.

With mode="auto" flows detect others that fill buffers by a queue that is not nearly empty within five RTTs, with
d < (D_max - B)/10 as nearly empty and D_max the largest RTT of four RTTs. Then 1/delta grows by 1 per RTT, and a loss
halves it, but not below its configured value (sec. 2.2). "competitive" always behaves so.

At equilibrium W d/D = s/delta, so rates are s/(delta d): proportionally fair, with 1/delta packets of each flow in
queues, as those of Vegas with alpha = beta. Queues oscillate about it. Hosts detect a rise 1.5 RTTs later, as D_s is
the minimum over half an RTT, and a fall one RTT later: queues go from 0 to 2.5/delta packets per flow, in 5 RTTs (sec.
3). As fluid v is 1, D_s the current RTT, and the law a relay, W' = +-s/(delta D): on one link with equal RTTs the
period is 4 D, and the queue goes from 0 to 2/delta packets per flow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import TIME, QuantityField, as_delay, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium, RelayLoop
from ecc.contract.forms import RelayDelays
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models.fast import FAST
from ecc.models.shared import filters, windows
from ecc.network.network import Network

DOUBLING_AFTER = 3  # RTTs in one direction before the velocity doubles
NEARLY_EMPTY = 0.1  # share of the range of RTTs below which a queue counts as nearly empty
MAX_WINDOW, EMPTY_WINDOW = 4.0, 5.0  # RTTs over which the maximum is taken, and within which a queue has to empty
MODES = ("default", "auto", "competitive")


def is_to_grow(w: float, wait: float, D: float, inverse: float, s: float) -> bool:
    """Sec. 2.1: return whether the rate is below its target, which keeps `inverse` = 1/delta packets in queues."""
    return w * wait <= inverse * s * D


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    slow_start: int = 1  # 1 until the first decrease
    inverse: float = 0.0  # current 1/delta [packets]
    velocity: float = 1.0
    direction: int = 0  # 1: up, -1: down
    same: int = 0  # RTTs in this direction
    rtt_began: float = 0.0  # start of this RTT [s]
    window_then: float = 0.0  # window at that time [bytes]
    base_value: tuple[float, ...] = (0.0,) * 3
    base_time: tuple[float, ...] = (0.0,) * 3
    standing_value: tuple[float, ...] = (0.0,) * 3
    standing_time: tuple[float, ...] = (0.0,) * 3
    largest_value: tuple[float, ...] = (0.0,) * 3
    largest_time: tuple[float, ...] = (0.0,) * 3
    raised: float = 0.0  # time of the last change of 1/delta [s]
    emptied: float = 0.0  # last time at which the queue was nearly empty [s]
    lost: float = -windows.NEVER_LEFT  # time of the last halving of 1/delta after a loss [s]


@dataclass(frozen=True)
class Copa(windows.WindowProtocol):
    """Copa.

    Parameters
    ----------
    delta : float, 1/packets, > 0
        Inverse of the packets that a flow keeps in queues (Arun and Balakrishnan: 0.5).
    mode : str
        "default", "auto" (competitive if other flows fill buffers) or "competitive".
    min_rtt_window : float, s, > 0
        Time over which the minimum RTT B is taken (10 s).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
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
    sets_rate = True
    loss_response_law = None
    relay_delays = RelayDelays(above=0.25)  # the minimum over half an RTT, by a filter of three samples
    reference_loop = ReferenceLoop(48e6, (0.1,) * 2, "ours")

    def __post_init__(self) -> None:
        check_number(self, delta=None, min_rtt_window=as_delay)
        check_choice(self, "mode", MODES)
        super().__post_init__()

    @property
    def linear_refusal(self) -> str | None:
        return windows.relay_refusal("Copa")

    @property
    def fluid_refusal(self) -> str | None:
        needs = "its laws need a constant delta, which losses and other flows change in this mode"
        return None if self.mode == "default" else f"Copa(mode={self.mode!r}) has no fluid model: {needs}"

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(FAST.router_law)

    @staticmethod
    def slow_start_law(w: float, R: float, D: float, s: float, a: float, p: Params) -> float:
        """Slow start doubles the window per RTT until the first decrease."""
        return windows.doubled(w, s, a, p) if is_to_grow(w, R, D, 1.0 / p.delta, s) else w

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, p: Params) -> float:
        """Sec. 2.1 with v = 1 and a known RTT without queues."""
        return w + s / p.delta if is_to_grow(w, R, D, 1.0 / p.delta, s) else w - s / p.delta

    def params(self) -> dict[str, float]:
        mode = float(MODES.index(self.mode))
        values = {"delta": self.delta, "mode": mode, "min_rtt_window": float(self.min_rtt_window)}
        return {**values, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_restart": flow_on_restart,
            "on_ack": flow_on_ack,
            "on_loss": flow_on_loss,
        }

    def flow_at(
        self,
        x: float,
        R: float,
        link: int,
        window: float = 0.0,
        rtt: float = 0.0,
        min_rtt: float = 0.0,
        **values: float,
    ) -> Any:
        """Return the state of a flow after many RTTs of length `rtt`, with the minimum RTT `min_rtt`."""
        base, standing = (-min_rtt,) * 3, (-rtt,) * 3
        flow = super().flow_at(x, R, link, window)
        flow.slow_start, flow.inverse, flow.window_then = 0, 1.0 / self.delta, window
        flow.base_value, flow.standing_value = base, standing
        return flow

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point with 1/delta packets of each flow in queues; `fair_rate` is a link's queueing delay [s]."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Copa receive the feedback of all links of their route")
        return windows.equilibrium_with_own(network, 1.0 / self.delta)

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop gain from relay to reported packets, and the queue [bit] per reported packet.

        Parameters
        ----------
        network : Network
            Network of one link; its flows have equal RTTs.
        """
        loop, queue = windows.relay_with_own(self.equilibrium(network), network, 1.0 / self.delta)
        return lambda s: loop(s) / self.delta, queue


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start with the initial window and the configured delta."""
    windows.flow_on_start(flow, header, p, env)
    flow.inverse = 1.0 / p.delta
    flow.emptied = env.now


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window; a smaller window opens in slow start."""
    before = env.window
    windows.flow_on_restart(flow, header, p, env)
    if env.window < before:
        flow.slow_start = 1
        begin_rtt(flow, 1, 1.0, 0, env)


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Compare the rate with its target, and move the window towards it."""
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
            begin_rtt(flow, 1, 1.0, 0, env)  # the window is unchanged; RTTs without growth must not raise the velocity
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


def choose_velocity(flow: FlowState, direction: int, env: FlowEnv) -> None:
    """Sec. 2.1: update the velocity once an RTT; reset it at once if a fast window reverses."""
    if flow.velocity > 1.0 and direction != flow.direction:
        begin_rtt(flow, direction, 1.0, 0, env)
    elif env.now - flow.rtt_began >= env.srtt:
        went = 1 if env.window > flow.window_then else -1
        same = flow.same + 1 if went == flow.direction else 0
        doubled = 2.0 * flow.velocity if same >= DOUBLING_AFTER else flow.velocity
        begin_rtt(flow, went, doubled if same > 0 else 1.0, same, env)


def begin_rtt(flow: FlowState, direction: int, velocity: float, same: int, env: FlowEnv) -> None:
    """Begin to observe an RTT."""
    flow.direction = direction
    flow.velocity = velocity
    flow.same = same
    flow.rtt_began = env.now
    flow.window_then = env.window


def choose_delta(flow: FlowState, base: float, wait: float, p: Params, env: FlowEnv) -> None:
    """Sec. 2.2: raise 1/delta once an RTT while the flow competes with flows that fill buffers."""
    largest = filters.windowed_max(flow.largest_value, flow.largest_time, MAX_WINDOW * env.srtt, env.now, env.rtt)
    if wait < NEARLY_EMPTY * (largest - base):
        flow.emptied = env.now
    competes = p.mode > 1.0 or env.now - flow.emptied > EMPTY_WINDOW * env.srtt
    if not competes:
        flow.inverse = 1.0 / p.delta
    elif env.now - flow.raised >= env.srtt:
        flow.raised = env.now
        flow.inverse += 1.0


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Halve 1/delta in the competitive modes; restart with one packet after a timeout."""
    if p.mode > 0.0 and env.now - flow.lost >= env.srtt:
        flow.lost = env.now
        flow.raised = env.now
        flow.inverse = max(0.5 * flow.inverse, 1.0 / p.delta)
    if env.kind == 1:
        windows.time_out(flow, windows.halved(windows.on_the_way(env)), env)
        flow.slow_start = 1
