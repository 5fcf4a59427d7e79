"""BBR version 2: rate and volume follow a model of the path, limited by its losses (Google's tcp_bbr2.c, v2alpha).

    bw       = min(max_bw, bw_lo)                                max_bw: of this cycle and the previous one
    rate     = 0.99 pacing_gain bw
    W        = cwnd_gain bw min_rtt + extra_acked, limited to inflight_hi and inflight_lo, but >= 4 packets

    state       pacing_gain  cwnd_gain  ends                                                       inflight_hi
    Startup     2.89         2.89       max_bw not 5/4 higher for 3 rounds, or 2 % lost in 8 events --
    Drain       0.34         2.89       in flight <= bdp                                            all
    DOWN        0.75         2          in flight <= bdp, and with headroom                         all
    CRUISE      1            2          2 to 3 s or min(bdp, 63) rounds after UP                    less 15 %
    REFILL      1            2          after a round                                               all
    UP          1.25         2          after min_rtt at 5/4 bdp, or at the level too high before   all, grows
    ProbeRTT    1            0.5        200 ms and a round; begins after 5 s without a lower RTT    less 15 %

It differs from version 3 (`ecc.models.bbr`) in the gains above and in the ends of Startup and UP: version 3 continues
UP as long as the rate grows, with a window of 9/4. inflight_hi, inflight_lo and bw_lo are inflight_longterm,
inflight_shortterm and bw_shortterm there. Gains are whole numbers of 1/256. Not modeled: responses to marks, which that
code has behind a switch.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.reference import ReferenceLoop
from ecc.models.bbr import STATES, BoundedInflight, Form
from ecc.models.shared import bbr_fluid

__all__ = ["STATES", "BBRv2"]

VERSION_2 = Form(
    startup_gain=739 / 256,
    drain_gain=88 / 256,
    down_gain=0.75,
    startup_cwnd_gain=739 / 256,
    up_cwnd_gain=2.0,
    full_losses=8.0,
    extra_acked_rounds=5.0,
    drain_rounds=1e9,
    clears_signals=1.0,
    bounds_cruise=1.0,
    startup_cwnds=2.0,
    compares_max_bw=1.0,
    ends_up_by_queue=1.0,
    recalls_inflight=0.0,
)


@dataclass(frozen=True)
class BBRv2(BoundedInflight):
    """BBR version 2.

    Parameters
    ----------
    loss_threshold, beta, headroom, min_rtt_window, probe_rtt_interval, probe_rtt_duration, quanta
        See `BoundedInflight`.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, L, restart, pacing
        See `WindowProtocol`; `initial` and `min_rto` default to Linux's values, L has no effect. `restart` is
        "none": the model of the path stays valid after an idle period.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    fluid_form = bbr_fluid.VERSION_2

    property_exceptions = bbr_fluid.EXCEPTIONS
    reference_loop = ReferenceLoop(100e6, (0.03,) * 10, "SCHERRER, the program: 100 Mb/s, 10 flows; the RTTs are ours")
    cycle_loop = ReferenceLoop(100e6, (0.03, 0.03), "ours", buffer=200_000)

    @property
    def _form(self) -> Form:
        return VERSION_2
