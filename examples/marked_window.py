"""A window protocol in one file: routers mark packets that find a long queue; a sender's window follows their share."""

from dataclasses import dataclass, make_dataclass

from ecc.models import Protocol
from ecc.models.base import check_number
from ecc.quantity import as_size


@dataclass(frozen=True)
class MarkedWindow(Protocol):
    threshold: float = 30_000.0  # queue above which packets are marked [bytes]
    gain: float = 0.0625  # of the average of the share that is marked
    segment: float = 1000.0  # what the window grows by in an RTT [bytes]
    transport = "sack"  # the engine sends lost data again
    Header = make_dataclass("Header", [("marked", int, 0)])
    FlowState = make_dataclass(
        "FlowState", [("acks", int, 0), ("marks", int, 0), ("until", int, 0), ("share", float, 0.0)]
    )

    def __post_init__(self):
        check_number(self, threshold=as_size, gain=None, segment=as_size)  # "30 kB" is understood; all are > 0

    def link_hooks(self):
        return {"on_arrival": mark}

    def flow_hooks(self):
        return {"on_start": begin, "on_ack": adjust_window, "on_loss": back_off}


def mark(link, header, p, env):
    if env.queue > p.threshold:
        header.marked = 1


def begin(flow, header, p, env):
    env.window = 10.0 * p.segment  # bytes, not packets


def adjust_window(flow, header, p, env):
    flow.acks += 1
    flow.marks += header.marked
    if env.delivered >= flow.until:  # an RTT is over
        flow.share += p.gain * (flow.marks / flow.acks - flow.share)
        env.window += p.segment if flow.marks == 0 else -0.5 * flow.share * env.window
        env.window = max(env.window, 2.0 * p.segment)
        flow.acks, flow.marks, flow.until = 0, 0, env.delivered + env.in_flight


def back_off(flow, header, p, env):
    env.window = max(0.5 * env.window, 2.0 * p.segment)
