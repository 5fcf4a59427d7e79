"""GCC, Google Congestion Control: rates of real-time media follow the gradient of delays (draft-ietf-rmcat-gcc-02).

The receiver reports each packet (RFC 8888). Packets that are sent within `burst_time`, or arrive in a burst, form a
group. Of two groups, with t, T the times of arrival and departure of the last packet [ms], the sender computes

    d = t_i - t_(i-1) - (T_i - T_(i-1))                                                                sec. 5.1
    m <- m + k (d - m),   k = (e + q)/(var_v + e + q),   e <- (1 - k)(e + q)                           sec. 5.3
    var_v <- max(alpha var_v + (1 - alpha) min(z, 3 sqrt(var_v))^2, 1),   alpha = (1 - chi)^(30/(1000 f_max))
    M = min(n, `groups`) m                                                                             n groups so far
    over-use: M > gamma for `overuse_time`, and m does not decrease;   under-use: M < -gamma           sec. 5.4
    gamma <- gamma + (t_i - t_(i-1)) K (|M| - gamma) within [6, 600] ms, unless |M| > gamma + 15 ms
    K = `gain_down` if |M| < gamma, otherwise `gain_up` [1/ms]

At each report, with R the rate received within `window`, A is (sec. 5.5)

    increased after normal groups    by min(1.08^dt - 1, 8 %) A, or, if R is near the mean of R at over-uses, by
                                     max(1000 bit/s, min(dt/(rtt + 100 ms), 1)/2 packets);   to 1.5 R at most
    set to beta R                    after an over-use
    held                             after an under-use, and at the first normal group after an over-use

    near: within three standard deviations, estimated as in libwebrtc (the draft does not say how)
    packets: A/30 bits, divided into equal packets of 1200 bytes or less

and As <- 1.05 As if a share p < 2 % of packets was lost, As (1 - p/2) if p > 10 % (sec. 6). The rate is min(A, As).

form="libwebrtc" is the delay-based controller of the program (modules/congestion_controller/goog_cc):

    m           slope of the smoothed delay, s <- 0.9 s + 0.1 sum(d), over the arrivals of the last 20 groups
    M           4 min(n, 60) m;   K: 0.0087 up, 0.039 down
    over-use    begins a new count of `overuse_time`, and lasts until a group is below gamma
    increase    additive from the first over-use until R exceeds the mean by three deviations; at a rate of 1/2 packet
                per rtt + 100 ms, and 4 kb/s or more;   to 1.5 R + 10 kb/s at most
    decrease    to beta R - 5 kb/s, once per RTT (10 to 200 ms), then held
    losses      p over 20 packets or more; reductions 300 ms + rtt apart

Different here: the factor `groups` is in the programs only (libwebrtc, and pion/interceptor for the draft's filter);
with groups=1, as in the text, nothing but losses ends an increase. The draft bounds A by 1.5 R, the programs its
increases, as here. libwebrtc's mean R by a Bayesian filter, its probes of capacity, its second loss-based controller,
its time-outs and the pacer (groups of 5 ms) are not modeled; `ecc.models.shared.encoder` paces frames.

There is no equilibrium: A rises until delays do. `cycle_orbit` has the cycle of one flow.

Filters, detector and rate control are in `ecc.models.shared.delay_gradient`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import PER_TIME, RATE, TIME, QuantityField, as_delay, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import CycleOrbit, OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.models.shared import encoder, feedback
from ecc.models.shared.delay_gradient import (
    DRAFT,
    FORMS,
    GAINS,
    FlowState,
    note_packet,
    received_rate,
    update_estimate,
    update_loss_estimate,
)
from ecc.models.shared.over_use_cycle import over_use_cycle
from ecc.network.network import Network


@dataclass
class Header(encoder.FrameHeader, feedback.FeedbackHeader):
    """Header fields of data, and of reports."""


@dataclass(frozen=True)
class GCC(Protocol):
    """Google Congestion Control.

    Parameters
    ----------
    form : str
        "draft" (the Kalman filter of draft-ietf-rmcat-gcc-02), or "libwebrtc" (the slope of delays).
    min_rate, max_rate : float, bit/s, > 0
        Range of the rate, for example 150 kb/s and 1.5 Mb/s; `min_rate` is the initial rate.
    beta : float, in (0, 1)
        Rate after an over-use, relative to the received rate.
    threshold : float, s, > 0
        Initial threshold, del_var_th(0).
    gain_up, gain_down : float, 1/ms, >= 0
        K_u and K_d, gains of the threshold. None: those of the form.
    groups : float, >= 1
        Maximum number of groups by which the gradient is multiplied: 60 in the programs, 1 in the draft.
    overuse_time : float, s, > 0
        Time for which the gradient exceeds the threshold before over-use is signaled.
    burst_time : float, s, > 0
        Maximum time between the departures of the first and the last packet of a group.
    q : float, ms^2, > 0
        Variance of the gradient's change from group to group.
    chi : float, in (0, 1)
        Weight of a group in the variance of the measurement, at 30 groups per second: 0.001 to 0.1.
    window : float, s, > 0
        Time over which the received rate is measured, T: 0.5 to 1 s.
    report_interval : float, s, > 0
        Time between two reports, for example 0.1.
    report_repeat : float, packets, >= 0
        Packets of earlier reports that a report repeats.
    frames : float, 1/s, >= 0
        Frames per second of the encoder; 0: packets are evenly spaced.
    key_every : float, frames, >= 0
        Distance of key frames; 0: no key frames.
    key_factor : float, > 0
        Size of a key frame over that of other frames.
    noise : float, >= 0, < 0.5
        Standard deviation of the size of a frame, relative to its mean.
    headroom : float, > 0
        Rate at which frames are sent, relative to the target.
    pauses : tuple of float, s
        Begin and end of each pause of the encoder, after the start of the flow, for example (40.0, 60.0). (0, 0): none.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    form: str = "draft"
    min_rate: QuantityField = default(150e3)
    max_rate: QuantityField = default(1.5e6)
    beta: float = 0.85
    threshold: QuantityField = default(0.0125)
    gain_up: float | None = None
    gain_down: float | None = None
    groups: float = 60.0
    overuse_time: QuantityField = default(0.01)
    burst_time: QuantityField = default(0.005)
    q: float = 1e-3
    chi: float = 0.01
    window: QuantityField = default(0.5)
    report_interval: QuantityField = default(0.1)
    report_repeat: float = 0.0
    frames: float = 0.0
    key_every: float = 0.0
    key_factor: float = 1.0
    noise: float = 0.0
    headroom: float = 1.5
    pauses: tuple[float, ...] = (0.0, 0.0)

    dimensions = {
        **dict.fromkeys(("min_rate", "max_rate"), RATE),
        **dict.fromkeys(("threshold", "overuse_time", "burst_time", "window", "report_interval", "pauses"), TIME),
        **dict.fromkeys(("gain_up", "gain_down", "frames"), PER_TIME),
    }

    required_env = frozenset({"random"})
    equilibrium_is_static = False
    no_equilibrium = "its rate rises until delays grow, and is reduced then"
    linear_refusal = "GCC has no linear model: an over-use of the path switches its rate from increase to decrease"
    operating_range = OperatingRange((1e6, 3e6), (0.04, 0.2), packet_size=500, convergence=500.0)
    reference_loop = ReferenceLoop(1e6, (0.1,), "ours", 500)

    def __post_init__(self) -> None:
        for name in ("min_rate", "max_rate"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        times = {name: as_delay for name, dimension in self.dimensions.items() if dimension is TIME}
        check_number(self, **{name: read for name, read in times.items() if name != "pauses"})
        check_number(self, beta=None, groups=1.0, q=None, chi=None, report_repeat=0.0)
        check_number(self, frames=0.0, key_every=0.0, key_factor=None, noise=0.0, headroom=None)
        check_number(self, **{name: 0.0 for name in ("gain_up", "gain_down") if getattr(self, name) is not None})
        check_choice(self, "form", FORMS)
        if self.min_rate > self.max_rate:
            raise ValueError(f"min_rate must be <= {self.max_rate:g}, got {shown(self.min_rate)}")
        for name, limit in {"beta": 1.0, "chi": 1.0, "noise": 0.5}.items():
            if not getattr(self, name) < limit:
                raise ValueError(f"{name} must be < {limit:g}, got {shown(getattr(self, name))}")
        Protocol.__post_init__(self)
        encoder.check_pauses(self.pauses)

    def params(self) -> dict[str, Any]:
        """Return the parameters, with gains of the form and its index, and with `ecn` off."""
        up, down = GAINS[FORMS.index(self.form)]
        gains = {"gain_up": up, "gain_down": down, "form": float(FORMS.index(self.form)), "ecn": 0.0}
        return {**gains, **super().params()}

    # ---- cycle -------------------------------------------------------------------------------------------

    def cycle_orbit(self, network: Network) -> CycleOrbit:
        """Return the cycle of one flow on one link from over-use to over-use (`ecc.models.shared.over_use_cycle`)."""
        return over_use_cycle(self, network)

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_receive": flow_on_receive,
            "on_report": flow_on_report,
            "on_control": flow_on_control,
            "on_timer": flow_on_timer,
        }


# Hooks ----------------------------------------------------------------------------------------------------------------


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Start at the minimum rate."""
    if flow.x == 0.0:
        flow.x = p.min_rate
    flow.estimate, flow.loss_estimate, flow.changed = flow.x, flow.x, env.now
    encoder.open_media(flow, flow.x, p, env)


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Number a packet, name its frame, and keep its departure."""
    flow.size = env.packet_size
    encoder.packet_sent(flow, header, p, env)
    feedback.packet_sent(flow, header, env)


def flow_on_receive(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Keep the arrival of a packet, and count frames."""
    feedback.packet_received(flow, header, p, env)
    encoder.frame_received(flow, header, env)


def flow_on_report(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Report the packets since the last report."""
    feedback.write_report(flow, header, p, env)


def flow_on_control(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Update gradient and rates by a report."""
    feedback.read_report(flow, header, env)
    if p.form == DRAFT:
        flow.usage = 0
    for k in range(flow.received):
        if flow.received_arrival[k] >= 0.0:
            note_packet(flow, flow.received_sent[k], flow.received_arrival[k], p)
    if flow.arrivals > 0 and flow.received > 0:
        flow.received_rate = received_rate(flow, p)
        update_estimate(flow, p, env)
    update_loss_estimate(flow, p, env)
    flow.x = min(flow.estimate, flow.loss_estimate)
    if p.frames == 0.0:
        env.rate = flow.x


def flow_on_timer(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Capture the next frame."""
    encoder.next_frame(flow, flow.x, p, env)
