"""NewReno: additive increase and multiplicative decrease (RFC 5681) with the recovery of RFC 6582 or RFC 6675.

    W <- W + min(a, L s)       an ACK of a, while W < ssthresh (slow start)                   RFC 5681 (2)
    W <- W + s a/W             an ACK of a, else (congestion avoidance)                       RFC 5681 (3)
    W <- ssthresh = F/2        a loss, once a window                                          RFC 5681 (4)
    W <- s, ssthresh = F/2     a timeout                                                      RFC 5681 sec. 3.1
    W <- F' + min(a, IW), ssthresh <- max(F, ssthresh)   a spurious loss (`transport` "rack")     RFC 4015

    W  window [bytes in hooks, bit in laws]   s  packet   F  data in flight at the loss, F' now
    a  data that an ACK acknowledges (RFC 3465, appropriate byte counting)   L  2; 1 after a timeout   p  loss on path

With delayed ACKs, one for b packets, a = b s: per RTT windows grow by s for any b, and double in slow start if b <= L.
With L = 0 ACKs count, not bytes: an ACK adds s in slow start, and s s/W later, which is s/b per RTT.

As fluid W' = s/D (s/(b D) if L = 0), with D the RTT including queues. A loss is the same jump (`ecc.fluid.network`), as
in Misra, Gong, Towsley 2000, eq. (2), but without their mean over losses. That mean, W' = [s - p W W/(2 s)]/D, has its
equilibrium at W = s sqrt(2/p), 8 % above the mean of windows that jump at random. After an overflow it reduces the
window to W exp(-1/2), not W/2.

Windows grow until a queue overflows or a packet is lost: no equilibrium exists to linearize at. With evenly spaced
losses, one packet in 1/p, windows oscillate between W/2 and W with mean s sqrt(3/(2 p)), or s sqrt(3/(2 b p)) if L = 0
(Mathis et al. 1997, eq. (3)); timeouts lower the mean if p is large (Padhye et al. 1998, eq. (30)).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import Quantity, as_count, as_number, as_time
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.reference import ReferenceLoop
from ecc.models.shared import start_up, windows


@dataclass(frozen=True)
class NewReno(start_up.StartUpProtocol):
    """NewReno; with `transport="sack"` also known as SACK TCP.

    Parameters
    ----------
    slow_start, search_threshold, search_drain, application_limited, saved_window, saved_rtt
        See `StartUpProtocol`.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, pacing, restart, ecn
        See `StartUpProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    no_equilibrium = windows.GROW_UNTIL_LOST
    reference_loop = ReferenceLoop(
        30e6,
        (0.1927,) * 60,
        "HOLLOT, the example of ns-2's PI: 3750 packets/s, RTTs up to 246 ms",
        1000,
        "PI",
        {"reference": 200.0},
    )
    cycle_loop = ReferenceLoop(40e6, (0.05,) * 2, "ours; a buffer of a bandwidth-delay product", buffer=250_000)

    @classmethod
    def linux(cls, **parameters: Any) -> Self:
        """Return the configuration of Reno in Linux 6.

        Loss recovery by RACK-TLP with proportional rate reduction, an initial window of 10 packets, retransmission
        timeouts of 0.2 s or more, and Linux's rules for unused windows and idle periods.

        Parameters
        ----------
        **parameters : object
            Parameters that differ from Linux's values, for example `L=0`.

        Examples
        --------
        >>> NewReno.linux().transport
        'rack'
        """
        return cls(**{"application_limited": "linux", **windows.LINUX, **parameters})

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(loss: float) -> float:
        """The loss rate of a link; hosts learn of a loss only from the gap in the ACKs."""
        return loss

    @staticmethod
    def source_law(w: float, s: float, a: float, p: Params) -> float:
        """RFC 5681 (3), for the w/a ACKs of an RTT."""
        return windows.grown(w, s, w * (windows.counted(a, s, p) / a))

    def params(self) -> dict[str, float]:
        return {"deflates": float(self.transport == "newreno"), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    # ---- published results -------------------------------------------------------------------------------

    @check_arguments
    def mean_rate(
        self, loss: float, rtt: Quantity, packet_size: int = 1000, timeout: Quantity = 1.0, b: int = 1
    ) -> float:
        """Return the sending rate of a long flow that loses packets at random.

        Implements Padhye et al. 1998, eq. (30), with no limit by the receiver; without timeouts it is Mathis et al.
        1997, eq. (3).

        Parameters
        ----------
        loss : float, in (0, 1)
            Share of packets lost.
        rtt : float, s, > 0
            Round-trip time, for example "100 ms".
        packet_size : int, bytes, optional
        timeout : float, s, >= 0, optional
            First retransmission timeout.
        b : int, packets, >= 1, optional
            Packets that an ACK acknowledges. It matters only if ACKs count, L = 0.

        Returns
        -------
        float, bit/s

        Raises
        ------
        ValueError
            A value out of range.

        Notes
        -----
        Padhye et al. assume that a loss takes the rest of its window with it. If packets are lost independently, the
        rate lies between the two formulas.

        Examples
        --------
        >>> round(NewReno().mean_rate(0.01, "100 ms", timeout=0.0) / 1e3)
        980
        """
        p = as_number(loss, "loss", positive=True)
        if not p < 1.0:
            raise ValueError(f"loss must be < 1, got {shown(p)}")
        D, T0 = as_time(rtt, "rtt", positive=True), as_time(timeout, "timeout")
        b = as_count(b, "b", minimum=1)
        bp = b / windows.counted(b, 1.0, self.namespace()) * p
        expires = T0 * min(1.0, 3.0 * sqrt(3.0 * bp / 8.0)) * p * (1.0 + 32.0 * p * p)
        return 8.0 * packet_size / (D * sqrt(2.0 * bp / 3.0) + expires)


def flow_on_ack(flow: windows.FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Open the window; end a recovery without a burst (RFC 6582 sec. 3.2, step 3, option 1)."""
    s = 1.0 * env.packet_size
    if env.undone > 0:
        windows.undo(flow, env)
    if env.recovered > 0 and p.deflates > 0.0:
        env.window = min(flow.ssthresh, max(1.0 * env.in_flight, s) + s)
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            env.window = windows.grown(env.window, s, windows.counted(env.acked, s, p))


def flow_on_loss(flow: windows.FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """RFC 5681 (4): halve the window, or restart from one packet after a timeout."""
    windows.remember(flow, env)
    window = windows.after_a_loss(windows.on_the_way(env), 1.0 * env.packet_size)
    if env.kind == 0:
        windows.cut(flow, window, env)
    else:
        windows.time_out(flow, window, env)
