"""Faults that implementations of CUBIC, HyStart++ and window limits have shipped, as variants of our protocols.

Each has the case that finds it, and the place of the fault. tests/conform/test_senders.py runs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from ecc.models import CUBIC, Protocol, cubic
from ecc.models.shared import search, windows


@dataclass(frozen=True)
class Fault:
    """A fault: the protocol with it, the case that finds it, and the implementation in which it was found."""

    kind: type[Protocol]
    case: str
    place: str
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def protocol(self) -> Protocol:
        return self.kind(**self.values)


class Changed(CUBIC):
    """CUBIC with hooks of its own for ACKs or losses."""

    hooks: ClassVar[dict[str, Any]] = {}

    def flow_hooks(self) -> dict[str, Any]:
        return super().flow_hooks() | self.hooks


def cut_from_the_maximum(flow, header, p, env):
    """The window is beta times W_max after fast convergence has reduced it: 0.595 W instead of 0.7 W."""
    cubic.flow_on_loss(flow, header, p, env)
    if env.kind == 0 and flow.M < flow.W_prior:
        windows.cut(flow, p.beta * flow.M, env)


def plateau_from_beta(flow, header, p, env):
    """K is that of a window of beta W_max, which it is not after fast convergence."""
    had_begun = flow.began >= 0.0
    cubic.flow_on_ack(flow, header, p, env)
    if not had_begun and flow.began >= 0.0:
        flow.K = cubic.time_to(flow.M, p.beta * flow.M, 1.0 * env.packet_size, p)


def cut_twice_at_a_timeout(flow, header, p, env):
    """A timeout reduces the threshold, and the loss that it declares reduces it again: 0.49 W instead of 0.7 W."""
    first = flow.backed_off == 0
    cubic.flow_on_loss(flow, header, p, env)
    if env.kind == 1 and first:
        flow.ssthresh = p.beta * flow.ssthresh


def no_fast_convergence(flow, header, p, env):
    """W_max is the window at every loss."""
    cubic.flow_on_loss(flow, header, p, env)
    if env.kind == 0:
        flow.M = flow.W_prior


def epoch_at_the_detection(flow, header, p, env):
    """W_cubic and W_est begin when a loss is detected, and not when it is recovered."""
    cubic.flow_on_loss(flow, header, p, env)
    if env.kind == 0:
        flow.began = env.now
        flow.K = cubic.time_to(flow.M, env.window, 1.0 * env.packet_size, p)
        flow.E = env.window


def time_in_recovery(flow, header, p, env):
    """The time of a recovery counts like other time of the epoch that has begun."""
    cubic.flow_on_ack(flow, header, p, env)
    if env.recovering > 0 or env.recovered > 0:
        flow.limited = -1.0


def one_packet_an_ack(flow, header, p, env):
    """An ACK grows the window by at most one packet in congestion avoidance."""
    before, avoids = env.window, env.window >= flow.ssthresh
    cubic.flow_on_ack(flow, header, p, env)
    if avoids:
        env.window = min(env.window, before + env.packet_size)


class CutFromTheMaximum(Changed):
    hooks = {"on_loss": cut_from_the_maximum}


class PlateauFromBeta(Changed):
    hooks = {"on_ack": plateau_from_beta}


class CutTwiceAtATimeout(Changed):
    hooks = {"on_loss": cut_twice_at_a_timeout}


class NoFastConvergence(Changed):
    hooks = {"on_loss": no_fast_convergence}


class EpochAtTheDetection(Changed):
    hooks = {"on_loss": epoch_at_the_detection, "on_ack": time_in_recovery}


class OnePacketAnAck(Changed):
    hooks = {"on_ack": one_packet_an_ack}


class OtherHyStart(CUBIC):
    """CUBIC with a change of HyStart++ by `around`, which takes and returns a hook for ACKs."""

    around: ClassVar[Any] = None

    def _completed_flow_hooks(self, hooks):
        done = super()._completed_flow_hooks(hooks)
        if self.slow_start == "hystart++":
            done["on_ack"] = type(self).around(done["on_ack"])
        return done


def without_new_rounds(on_ack):
    """In conservative slow start no round ends, so that the fifth is never reached."""

    def on_ack_without_new_rounds(flow, header, p, env):
        on_ack(flow, header, p, env)
        if flow.css_rounds >= 0:
            flow.round_end = 1e300

    return on_ack_without_new_rounds


def with_old_samples(on_ack):
    """In conservative slow start the number of samples is not reset, so that one sample resumes slow start."""

    def on_ack_with_old_samples(flow, header, p, env):
        samples = flow.samples
        on_ack(flow, header, p, env)
        if flow.css_rounds >= 0 and flow.samples < samples:
            flow.samples = samples + 1

    return on_ack_with_old_samples


class WithoutNewRounds(OtherHyStart):
    around = staticmethod(without_new_rounds)


class WithOldSamples(OtherHyStart):
    around = staticmethod(with_old_samples)


def forward(flow, bins):
    """Draft -09 of SEARCH interpolates with the volume until the next bin, not until the one before."""
    p = flow.search_index - int(bins)
    f = bins - int(bins)
    return (1.0 - f) * search.sent_until(flow, p) + f * search.sent_until(flow, p + 1)


def has_fallen_behind(flow, threshold, env):
    if not search.ends_bin(flow, env):
        return False
    i = flow.search_index
    bins = env.rtt / flow.search_bin
    if bins >= search.MAX_LOOKBACK or i - int(bins) <= search.WINDOW:
        return False
    last, first = flow.search_acked[i % search.ACKED_BINS], flow.search_acked[(i - search.WINDOW) % search.ACKED_BINS]
    expected = forward(flow, bins)
    return expected > 0.0 and expected - (last - first) >= threshold * expected


class SearchForward(CUBIC):
    """SEARCH with the interpolation of draft -09."""

    def _completed_flow_hooks(self, hooks):
        on_ack = hooks["on_ack"]

        def on_ack_by_delivery(flow, header, p, env):
            if flow.ssthresh >= windows.NEVER_LEFT and env.acked > 0 and env.recovering == 0:
                if has_fallen_behind(flow, p.search_threshold, env):
                    flow.ssthresh = env.window
            on_ack(flow, header, p, env)

        done = super()._completed_flow_hooks(hooks)
        return done | {"on_ack": on_ack_by_delivery} if self.slow_start == "search" else done


def paced(on_ack):
    """Pace the window over an RTT (RFC 9002 sec. 7.7, N = 1)."""

    def on_ack_paced(flow, header, p, env):
        on_ack(flow, header, p, env)
        env.rate = 8.0 * env.window / env.srtt

    return on_ack_paced


class Paced(CUBIC):
    """CUBIC that paces its window."""

    def _completed_flow_hooks(self, hooks):
        done = super()._completed_flow_hooks(hooks)
        return done | {"on_ack": paced(done["on_ack"])}


def with_full_windows(on_ack):
    """The window grows only if the bytes in flight have reached it, which a pacer prevents (slow start: half of it)."""

    def on_ack_with_full_windows(flow, header, p, env):
        before, flight = env.window, 1.0 * (env.in_flight + env.acked)
        factor = 2.0 if before < flow.ssthresh else 1.0
        on_ack(flow, header, p, env)
        if factor * flight < before:
            env.window = min(env.window, before)

    return on_ack_with_full_windows


class FullWindows(CUBIC):
    """CUBIC that paces its window, and takes a flow that its pacer limits for one that its application limits."""

    def _completed_flow_hooks(self, hooks):
        done = super()._completed_flow_hooks(hooks)
        return done | {"on_ack": paced(with_full_windows(done["on_ack"]))}


def cut_twice_at_persistent_congestion(flow, header, p, env):
    """Persistent congestion reduces the threshold once more after the loss that it follows from: 0.49."""
    cubic.flow_on_loss(flow, header, p, env)
    if env.kind == 1:
        flow.ssthresh = p.beta * flow.ssthresh


class CutTwiceAtPersistentCongestion(Changed):
    hooks = {"on_loss": cut_twice_at_persistent_congestion}


FAULTS = (
    Fault(CutFromTheMaximum, "cubic-reduction", "quinn #2640"),
    Fault(PlateauFromBeta, "cubic-fast-convergence", "quicly #679, s2n-quic #543"),
    Fault(CutTwiceAtATimeout, "sender-timeout-threshold", "msquic #2231"),
    Fault(NoFastConvergence, "cubic-fast-convergence", "quiche #891"),
    Fault(EpochAtTheDetection, "cubic-epoch", "quicly #678"),
    Fault(OnePacketAnAck, "cubic-aggregation", "neqo #3648"),
    Fault(WithoutNewRounds, "sender-start-hystart-css", "neqo #3506"),
    Fault(WithOldSamples, "sender-start-hystart-resume", "neqo #3505"),
    Fault(CutTwiceAtPersistentCongestion, "sender-persistent-threshold", "msquic #2231", {"transport": "quic"}),
    Fault(SearchForward, "sender-start-search", "draft-chung-ccwg-search-09"),
    Fault(FullWindows, "sender-application-paced", "neqo #3640", {"application_limited": "none"}),
    Fault(Paced, "sender-idle-three-packets", "neqo #3760", {"application_limited": "none"}),
    Fault(CUBIC, "sender-idle-three-packets", "neqo #3760, without pacing", {"application_limited": "none"}),
    Fault(CUBIC, "sender-application-burst", "ns-2", {"application_limited": "none"}),
)
