"""Delivery-rate samples, one per ACK, and packet-timed rounds (draft-ietf-ccwg-bbr, Delivery Rate Samples).

    interval = max(P.send_time - P.first_send_time, now - P.delivered_time)     the longer of sending and ACKs
    rate     = 8 (delivered - P.delivered)/interval                             [bit/s]
    lost     = sent + revived - delivered - in_flight                           every packet is in one of the three
    a round begins when P.delivered >= next_round_delivered, which is then set to `delivered`

P is the packet acknowledged by an ACK. The sender's counters at its transmission travel in P's header, which the ACK
returns. So no state is kept for packets in flight. A retransmission has its own header, so no sample is ambiguous and
no interval is shorter than the RTT of P (the draft discards those). `delivered` is the receiver's count, copies
included, and each ACK carries it: it is correct if ACKs are lost or stand for several packets. `in_flight` is the
engine's pipe, so `lost` is the volume that the transport has considered lost so far. `revived` is the part of it that
proved to be spurious (`env.undone`): `lost` only grows.

A protocol's `Header` and `FlowState` derive from those here, and its hooks call `on_send`, `on_receive` and `on_ack`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import FlowEnv, Params

__all__ = ["FlowState", "Header", "mark_app_limited", "on_ack", "on_receive", "on_send", "start_round"]


@dataclass
class Header:
    """The sender's counters when it sent the packet, and the receiver's count on its arrival."""

    delivered: int = 0  # bytes
    delivered_time: float = 0.0  # s
    first_send_time: float = 0.0  # s
    send_time: float = 0.0  # s
    lost: int = 0  # bytes
    tx_in_flight: int = 0  # bytes in flight, including this packet
    app_limited: int = 0  # 1 if the application limited the sending rate
    received: int = 0  # bytes that the receiver has counted


@dataclass
class FlowState:
    """State of a connection, of the last ACK's sample, and of rounds. Volumes are in bytes."""

    sent: int = 0  # volume sent, copies included
    snd_nxt: int = 0  # sequence number of the next new packet
    received: int = 0  # the receiver's count
    delivered: int = 0
    lost: int = 0
    revived: int = 0
    delivered_time: float = 0.0  # time of the last increase of `delivered` [s]
    first_send_time: float = 0.0  # transmission time of the packet delivered last [s]
    app_limited: int = 0  # samples are application-limited until this volume is delivered; 0: they are not
    newly_acked: int = 0  # by this ACK
    newly_lost: int = 0
    rate: float = 0.0  # sample [bit/s]
    interval: float = 0.0  # length of the sample [s]
    sample_delivered: int = 0  # delivered in the sample's interval
    prior_delivered: int = 0  # P.delivered
    sample_lost: int = 0  # lost since P was sent
    tx_in_flight: int = 0  # in flight when P was sent, including P
    sample_app_limited: int = 0
    round_count: int = 0
    round_start: int = 0  # 1 if this ACK begins a round
    next_round_delivered: int = 0
    window_filled: int = 0  # 1 if the window had no room for a further packet at some point of this round
    window_filled_before: int = 0  # the same for the round before


def on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Write the sender's counters into a packet."""
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


def on_receive(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Count arriving data, copies included."""
    flow.received += env.packet_size
    header.received = flow.received


def on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Take the sample of an ACK; an ACK that reports nothing new gives none and sets `newly_acked` to 0."""
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


def count_losses(flow: FlowState, in_flight: int) -> None:
    """Count as lost all sent data that is neither delivered nor in flight."""
    flow.newly_lost = max(flow.sent + flow.revived - flow.delivered - in_flight - flow.lost, 0)
    flow.lost += flow.newly_lost


def start_round(flow: FlowState) -> None:
    """Let the current round end with the first packet sent from now on."""
    flow.next_round_delivered = flow.delivered


def is_window_limited(flow: FlowState) -> bool:
    """Return whether the window was full at some point of the last round."""
    full: bool = flow.window_filled + flow.window_filled_before > 0
    return full


def mark_app_limited(flow: FlowState, env: FlowEnv) -> None:
    """Mark samples as application-limited until the data in flight now is delivered."""
    flow.app_limited = max(flow.delivered + env.in_flight, 1)
