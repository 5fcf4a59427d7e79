"""Delivery-rate samples, one an ACK, and packet-timed rounds (draft-ietf-ccwg-bbr, Delivery Rate Samples).

    interval = max(P.send_time - P.first_send_time, now - P.delivered_time)     the longer of sending and ACKs
    rate     = 8 (delivered - P.delivered)/interval                             [bit/s]
    lost     = sent + revived - delivered - in_flight                           a packet is one of the three
    a round begins once P.delivered >= next_round_delivered, which is `delivered` then

P is the packet whose arrival an ACK reports: what the sender knew when it sent P travels in P's header, which the ACK
brings back. So nothing is kept for packets in flight; a copy has a header of its own, no sample is ambiguous, and none
has an interval below the RTT of P, which the draft discards. `delivered` is what the receiver has counted, copies too,
and each ACK carries that: it is right where ACKs are lost or stand for several packets. `in_flight` is the engine's
pipe, therefore `lost` is what the transport considers lost, so far. Of that, `revived` is what it no longer does
(`env.undone`): `lost` only grows.

A protocol's `Header` and `FlowState` derive from those here, and its hooks call `on_send`, `on_receive` and `on_ack`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.models.base import FlowEnv, Params

__all__ = ["FlowState", "Header", "mark_app_limited", "on_ack", "on_receive", "on_send", "start_round"]


@dataclass
class Header:
    """What the sender knew when it sent the packet; and what the receiver has counted, with it."""

    delivered: int = 0  # bytes
    delivered_time: float = 0.0  # s
    first_send_time: float = 0.0  # s
    send_time: float = 0.0  # s
    lost: int = 0  # bytes
    tx_in_flight: int = 0  # with this packet [bytes]
    app_limited: int = 0  # whether the application limited what was sent
    received: int = 0  # by the receiver [bytes]


@dataclass
class FlowState:
    """Of a connection, of the sample of the last ACK, and of rounds. Volumes are in bytes."""

    sent: int = 0  # copies too
    snd_nxt: int = 0  # sequence number of the next new packet
    received: int = 0  # the receiver's
    delivered: int = 0
    lost: int = 0
    revived: int = 0
    delivered_time: float = 0.0  # when `delivered` grew last [s]
    first_send_time: float = 0.0  # of the packet that was delivered last [s]
    app_limited: int = 0  # until so much is delivered, samples are the application's; 0: they are not
    newly_acked: int = 0  # by this ACK
    newly_lost: int = 0
    rate: float = 0.0  # sample [bit/s]
    interval: float = 0.0  # of it [s]
    sample_delivered: int = 0  # in it
    prior_delivered: int = 0  # P.delivered
    sample_lost: int = 0  # since P was sent
    tx_in_flight: int = 0  # when P was sent, with it
    sample_app_limited: int = 0
    round_count: int = 0
    round_start: int = 0  # whether this ACK begins a round
    next_round_delivered: int = 0
    window_filled: int = 0  # in this round no packet more would have fitted into the window, at some point
    window_filled_before: int = 0  # in the round before


def on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Write into a packet what the sender knows."""
    if env.in_flight == 0:
        flow.first_send_time = env.now
        flow.delivered_time = env.now
    flow.sent += env.packet_size
    if env.kind == 0:
        flow.snd_nxt += env.packet_size
    if env.in_flight + 2 * env.packet_size > env.window:
        flow.window_filled = 1
    header.delivered = flow.delivered
    header.delivered_time = flow.delivered_time
    header.first_send_time = flow.first_send_time
    header.send_time = env.now
    header.lost = flow.lost
    header.tx_in_flight = env.in_flight + env.packet_size
    header.app_limited = 1 if flow.app_limited > 0 else 0


def on_receive(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Count what comes."""
    flow.received += env.packet_size
    header.received = flow.received


def on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Take the sample of an ACK; `newly_acked` is 0 if it reports nothing new, and then there is none."""
    flow.newly_acked = max(header.received - flow.delivered, 0)
    if flow.newly_acked > 0:
        flow.delivered = header.received
        flow.delivered_time = env.now
        flow.first_send_time = header.send_time
    if env.undone > 0:
        flow.revived += max(flow.lost + flow.delivered + env.in_flight - flow.sent - flow.revived, 0)
    count_losses(flow, env.in_flight)
    if env.unsent <= 0 and env.in_flight < env.window and env.recovering == 0:
        mark_app_limited(flow, env)
    elif flow.app_limited > 0 and flow.delivered > flow.app_limited:
        flow.app_limited = 0
    flow.round_start = 0
    flow.tx_in_flight = header.tx_in_flight
    flow.sample_lost = flow.lost - header.lost
    flow.sample_app_limited = header.app_limited
    flow.prior_delivered = header.delivered
    if flow.newly_acked > 0:
        flow.sample_delivered = flow.delivered - header.delivered
        flow.interval = max(header.send_time - header.first_send_time, env.now - header.delivered_time)
        flow.rate = 8.0 * flow.sample_delivered / flow.interval
        if header.delivered >= flow.next_round_delivered:
            start_round(flow)
            flow.round_count += 1
            flow.round_start = 1
            flow.window_filled_before = flow.window_filled
            flow.window_filled = 0


def count_losses(flow: Any, in_flight: int) -> None:
    """What was sent and is neither delivered nor in flight."""
    flow.newly_lost = max(flow.sent + flow.revived - flow.delivered - in_flight - flow.lost, 0)
    flow.lost += flow.newly_lost


def start_round(flow: Any) -> None:
    """Let the round end with a packet that is sent from now on."""
    flow.next_round_delivered = flow.delivered


def is_window_limited(flow: Any) -> bool:
    """Whether the window was full at some point of the last round."""
    full: bool = flow.window_filled + flow.window_filled_before > 0
    return full


def mark_app_limited(flow: Any, env: FlowEnv) -> None:
    """Let all that is sent until what is in flight now is delivered count as limited by the application."""
    flow.app_limited = max(flow.delivered + env.in_flight, 1)
