"""Monitor intervals: rate, losses and RTTs of the packets sent in each of consecutive intervals.

    x = 8 sent/(end - begin)                   rate [bit/s]; intervals begin with a packet, and end with the next's
    L = 1 - acked/sent                         share lost
    g = sum (t - t') (D - D')/sum (t - t')^2   dRTT/dt: slope of RTTs D over sending times t; ' marks their means

A packet carries the number of its interval, and its ACK returns it: the bytes that an ACK newly reports count for the
interval of the packet that it acknowledges. An interval is complete when everything sent in it has been acknowledged,
or when an acknowledged packet was sent more than a quarter of the minimum RTT after its end, the reordering allowance
of RFC 8985; the rest is lost.

The state has room for SLOTS incomplete intervals. If the RTT is longer than these, `begin` begins no interval until the
oldest is complete, and the last one continues: its results are correct, over a longer time. The results of an interval
are available until SLOTS more intervals have begun; afterwards they are NaN.

A protocol's `Header` and `FlowState` derive from those here, which include delivery-rate samples. Its hooks call
`on_send`, `delivery_rate.on_receive` and `on_ack`, and `begin` to begin an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt

from ecc.contract.env import FlowEnv, Params
from ecc.models.shared import delivery_rate

__all__ = [
    "SLOTS",
    "FlowState",
    "Header",
    "begin",
    "deviation",
    "gradient",
    "is_complete",
    "is_kept",
    "loss",
    "mean_rtt",
    "on_ack",
    "on_send",
    "rate",
]

SLOTS = 32
REORDERING = 0.25  # share of the minimum RTT


@dataclass
class Header(delivery_rate.Header):
    """Header fields that travel with a packet and return with its ACK."""

    interval: int = 0  # number of the interval in which the packet was sent


@dataclass
class FlowState(delivery_rate.FlowState):
    """State of the last intervals, indexed by their number modulo SLOTS; D and t are relative to their first value."""

    number: int = 0  # number of the last interval; 0: none has begun
    began: tuple[float, ...] = (0.0,) * SLOTS  # [s]
    target: tuple[float, ...] = (0.0,) * SLOTS  # target rate [bit/s]
    sent_in: tuple[float, ...] = (0.0,) * SLOTS  # [bytes]
    acked_in: tuple[float, ...] = (0.0,) * SLOTS
    first_rtt: tuple[float, ...] = (0.0,) * SLOTS  # [s]
    samples: tuple[float, ...] = (0.0,) * SLOTS
    sum_t: tuple[float, ...] = (0.0,) * SLOTS
    sum_d: tuple[float, ...] = (0.0,) * SLOTS
    sum_tt: tuple[float, ...] = (0.0,) * SLOTS
    sum_td: tuple[float, ...] = (0.0,) * SLOTS
    sum_dd: tuple[float, ...] = (0.0,) * SLOTS
    oldest: int = 1  # number of the first interval that may be incomplete


def begin(flow: FlowState, target: float, env: FlowEnv) -> bool:
    """Begin an interval with the packet that is sent now, and end the last interval.

    Returns False, and begins no interval, if SLOTS intervals are incomplete.
    """
    if flow.number - flow.oldest + 1 >= SLOTS:
        return False
    flow.number += 1
    k = flow.number % SLOTS
    flow.began[k] = env.now
    flow.target[k] = target
    flow.sent_in[k] = 0.0
    flow.acked_in[k] = 0.0
    flow.samples[k] = 0.0
    flow.sum_t[k] = 0.0
    flow.sum_d[k] = 0.0
    flow.sum_tt[k] = 0.0
    flow.sum_td[k] = 0.0
    flow.sum_dd[k] = 0.0
    return True


def on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Count a packet for the last interval; call `begin` before, if the packet is the first of an interval."""
    delivery_rate.on_send(flow, header, p, env)
    header.interval = flow.number
    flow.sent_in[flow.number % SLOTS] += env.packet_size


def on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Count the data that an ACK newly reports, and determine which intervals are complete."""
    delivery_rate.on_ack(flow, header, p, env)
    if header.interval >= flow.oldest and flow.newly_acked > 0:
        k = header.interval % SLOTS
        t = header.send_time - flow.began[k]
        D = env.now - header.send_time
        if flow.samples[k] == 0.0:
            flow.first_rtt[k] = D
        d = D - flow.first_rtt[k]
        flow.acked_in[k] += flow.newly_acked
        flow.samples[k] += 1.0
        flow.sum_t[k] += t
        flow.sum_d[k] += d
        flow.sum_tt[k] += t * t
        flow.sum_td[k] += t * d
        flow.sum_dd[k] += d * d
    for _ in range(SLOTS):
        if flow.oldest >= flow.number:
            break
        k = flow.oldest % SLOTS
        late = header.send_time - flow.began[(flow.oldest + 1) % SLOTS]
        if flow.acked_in[k] < flow.sent_in[k] and late < REORDERING * env.min_rtt:
            break
        flow.oldest += 1


def is_complete(flow: FlowState, interval: int) -> bool:
    """Return whether an interval is complete; intervals become complete in their order."""
    complete: bool = interval < flow.oldest
    return complete


def is_kept(flow: FlowState, interval: int) -> bool:
    """Return whether the state still has the results of an interval."""
    available: bool = flow.number - SLOTS < interval <= flow.number
    return available


def rate(flow: FlowState, interval: int) -> float:
    """Return x of an interval that has ended; NaN if it has not, or if its results are gone."""
    if not is_kept(flow, interval) or interval == flow.number:
        return nan
    k = interval % SLOTS
    x: float = 8.0 * flow.sent_in[k] / (flow.began[(interval + 1) % SLOTS] - flow.began[k])
    return x


def loss(flow: FlowState, interval: int) -> float:
    """Return L of a complete interval; NaN if its results are gone."""
    if not is_kept(flow, interval):
        return nan
    k = interval % SLOTS
    lost: float = max(1.0 - flow.acked_in[k] / flow.sent_in[k], 0.0)
    return lost


def gradient(flow: FlowState, interval: int) -> float:
    """Return g of a complete interval; 0 with fewer than two RTTs, NaN if its results are gone."""
    if not is_kept(flow, interval):
        return nan
    k = interval % SLOTS
    n = flow.samples[k]
    spread = n * flow.sum_tt[k] - flow.sum_t[k] * flow.sum_t[k]
    if n < 2.0 or spread <= 0.0:
        return 0.0
    slope: float = (n * flow.sum_td[k] - flow.sum_t[k] * flow.sum_d[k]) / spread
    return slope


def deviation(flow: FlowState, interval: int) -> float:
    """Return the RMS deviation [s] of the RTTs of a complete interval from their line; NaN if its results are gone."""
    if not is_kept(flow, interval):
        return nan
    k = interval % SLOTS
    n = flow.samples[k]
    if n < 2.0:
        return 0.0
    d, t = flow.sum_d[k] / n, flow.sum_t[k] / n
    covariance = flow.sum_td[k] / n - t * d
    square = flow.sum_dd[k] / n - d * d - gradient(flow, interval) * covariance
    off: float = sqrt(max(square, 0.0))
    return off


def mean_rtt(flow: FlowState, interval: int) -> float:
    """Return the mean RTT [s] of an interval with samples; NaN if its results are gone."""
    if not is_kept(flow, interval):
        return nan
    k = interval % SLOTS
    mean: float = flow.first_rtt[k] + flow.sum_d[k] / flow.samples[k]
    return mean
