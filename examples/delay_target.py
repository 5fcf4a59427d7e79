"""A controller of real-time media in one file: its rate follows the delays of all packets, reported as in RFC 8888."""

from dataclasses import dataclass

from ecc.models import Protocol
from ecc.models.shared import encoder, feedback


@dataclass
class Header(encoder.FrameHeader, feedback.FeedbackHeader):
    pass


@dataclass
class FlowState(encoder.FrameState, feedback.FeedbackState):
    x: float = 0.0  # rate [bit/s]
    base: float = 1e9  # shortest one-way delay so far [s]
    delay: float = 0.0  # queueing delay of the last report [s]
    reduced: float = 0.0  # time of the last decrease without reports [s]


@dataclass(frozen=True)
class DelayTarget(Protocol):
    target: float = 0.05  # queueing delay [s]
    gain: float = 0.03  # maximum growth of the rate by a report
    damping: float = 0.3  # weight of the growth of the delay
    min_rate: float = 150e3  # [bit/s], also the first rate
    max_rate: float = 1.5e6  # [bit/s]
    report_interval: float = 0.1  # [s]
    report_repeat: float = 0.0  # packets that a report repeats
    ecn: bool = False
    frames: float = 30.0  # frames per second of the encoder, 0: evenly spaced packets
    key_every: float = 0.0
    key_factor: float = 1.0
    noise: float = 0.0
    headroom: float = 1.5
    pauses: tuple[float, ...] = (0.0, 0.0)

    required_env = frozenset({"random"})  # the noise of the encoder
    Header = Header
    FlowState = FlowState

    @property
    def ecn_echo(self):
        return "accurate" if self.ecn else None

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {
            "on_start": begin,
            "on_send": send,
            "on_receive": receive,
            "on_report": feedback.write_report,
            "on_control": adapt,
            "on_timer": capture,
        }


def begin(flow, header, p, env):
    flow.x = p.min_rate
    encoder.open_media(flow, flow.x, p, env)


def send(flow, header, p, env):
    encoder.packet_sent(flow, header, p, env)
    feedback.packet_sent(flow, header, env)


def receive(flow, header, p, env):
    feedback.packet_received(flow, header, p, env)
    encoder.frame_received(flow, header, env)


def adapt(flow, header, p, env):
    feedback.read_report(flow, header, env)
    if flow.received > 0:
        shortest = 1e9
        for k in range(flow.received):
            shortest = min(shortest, flow.received_arrival[k] - flow.received_sent[k])
        flow.base = min(flow.base, shortest)
        delay = shortest - flow.base
        growth = (delay - flow.delay) / p.report_interval
        change = p.gain * (1.0 - min(delay / p.target, 2.0)) - p.damping * growth
        flow.x *= 1.0 + min(max(change, -0.3), p.gain) - 0.5 * flow.lost / (flow.lost + flow.received)
        flow.delay = delay
        if flow.marked > 0:
            flow.x *= 0.95
        set_rate(flow, p, env)


def capture(flow, header, p, env):
    silent = feedback.missed_reports(flow, p, env)
    if silent > 3.0 and env.now > flow.reduced + p.report_interval:  # several reports are missing: RFC 8888, sec. 5
        flow.x, flow.reduced = 0.7 * flow.x, env.now
        set_rate(flow, p, env)
    encoder.next_frame(flow, flow.x, p, env)


def set_rate(flow, p, env):
    flow.x = min(max(flow.x, p.min_rate), p.max_rate)
    if p.frames == 0.0:
        env.rate = flow.x
