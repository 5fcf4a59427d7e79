"""Hosts with hooks over one queue, in parcels of fluid: an exact map of finite dimension.

K times per RTT, a host gets an ACK. The data that it sends between two ACKs are a parcel, sent at a constant rate. S_i
are the data of flow i sent by time t, d_i its RTT without queue, q the queue, C the capacity and B the buffer:

    q'    = sum of S_i' - C, in [0, B]               a full buffer drops the excess, in proportion to the rates S_i'
    sigma + d_i + q(sigma)/C = t                     the ACKs that arrive at t are those of the data sent at sigma
    S_i'  = min(x_i, [W_i - S_i(t) + S_i(sigma(t + h))]/h)    for the rate x and the window W, until t + h
    S_i'  = min(x_i, W_i/D_i)                                 for a round of length D_i = d_i + q(t)/C, if hosts hold

All curves are linear between events, and the queue is first in, first out. Hence the hooks of the packet engine get
exact volumes, RTTs and delivery rates, once per parcel as by one ACK. Either rate and window take effect at every ACK:
this is the fluid of the hooks for large K. Or they take effect once per RTT (`holds`): this is the map from round to
round, in which hosts measure at all ACKs, act once per RTT, and hold.

There are no packets: volumes are whole bytes, and hosts see a loss once it has the size of a packet. Retransmissions
are not modeled, and a recovery ends one RTT after the loss that begins it. Hosts draw the next random number at each
call of a hook that reads it. The generator of a flow begins with its index, and a copy of a run continues with the same
numbers, also if its ACKs arrive at other times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from math import ceil, inf
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from ecc.contract.env import FlowEnv
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.network.network import Network

__all__ = ["Host", "Parcels"]

_SRTT_GAIN = 0.125  # RFC 6298
_UNSENT = 1 << 62  # bytes that applications still have
_DIGITS = 12  # an RTT is measured in whole ps, as by the packet engine: equal RTTs do not renew a minimum
_KEPT = 256  # points of a curve that are kept before old ones are removed
_Record = TypeVar("_Record")


def _copied(record: _Record) -> _Record:
    """Return a copy of an object with copies of its lists and generators."""
    other = copy(record)
    for name, value in vars(record).items():
        if isinstance(value, list | Random):
            setattr(other, name, copy(value))
    return other


@dataclass
class _Curve:
    """A curve that is linear between points, in order of time."""

    time: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, time: float, value: float) -> None:
        self.time.append(time)
        self.value.append(value)

    def at(self, t: float) -> float:
        """Return the value at a time; before the first point and after the last one, that of the point."""
        k = bisect_right(self.time, t)
        if k == 0 or k == len(self.time):
            return self.value[min(k, len(self.time) - 1)]
        before, after = self.time[k - 1], self.time[k]
        return self.value[k - 1] + (self.value[k] - self.value[k - 1]) * (t - before) / (after - before)

    def forget(self, until: float) -> None:
        """Remove points that are older than a time, once there are many."""
        if len(self.time) > _KEPT:
            k = max(bisect_right(self.time, until) - 1, 0)
            del self.time[:k], self.value[:k]


class _Env(SimpleNamespace):
    """The environment of hooks, which draws a random number at the first read of a call."""

    drawn: float | None
    draws: Random

    @property
    def random(self) -> float:
        if self.drawn is None:
            self.drawn = self.draws.random()
        return self.drawn


@dataclass
class Host:
    """A host with its record `flow` and environment `env`, its curves of sent and lost bytes, and its headers."""

    protocol: Protocol
    hooks: dict[str, Any]
    p: Any
    flow: Any
    env: Any
    d: float
    acks: int
    holds: bool
    sent: _Curve = field(default_factory=_Curve)
    lost: _Curve = field(default_factory=_Curve)
    begun: list[float] = field(default_factory=list)  # times of headers
    headers: list[Any] = field(default_factory=list)
    due: float = 0.0  # time of the next ACK
    step: float = 0.0  # distance of ACKs in this round [s]
    remaining: int = 0  # ACKs until the round ends
    volume: float = 0.0  # bytes sent
    dropped: float = 0.0  # bytes lost
    rate: float = 0.0  # bytes/s
    known: tuple[int, int] = (0, 0)  # bytes known to be delivered, and lost
    recovers_until: float = inf  # time of sending of the data whose ACK ends the recovery
    spread: float = 0.0
    spaces: Random = field(default_factory=Random)

    def copy(self) -> Host:
        """Return a copy, which continues independently."""
        other = _copied(self)
        other.flow, other.env = _copied(self.flow), _copied(self.env)
        other.sent, other.lost = _copied(self.sent), _copied(self.lost)
        other.headers = [_copied(header) for header in self.headers]
        return other

    def call(self, name: str, header: Any) -> None:
        """Call a hook, if there is one."""
        if name in self.hooks:
            self.env.drawn = None
            self.hooks[name](self.flow, header, self.p, self.env)

    def act(self, now: float, link: Parcels) -> None:
        """Process the ACK that arrives now, and send the next parcel."""
        self.env.now = now
        self.sent.add(now, self.volume)
        self.lost.add(now, self.dropped)
        sigma = link.sent_at(now, self.d)
        if self.begun and sigma > self.begun[0]:
            self._acknowledge(now, sigma, link)
        self._send(now, sigma, link)
        if len(self.begun) > _KEPT:
            k = bisect_right(self.begun, sigma) - 1
            del self.begun[:k], self.headers[:k]
        self.sent.forget(sigma)
        self.lost.forget(sigma)

    def _acknowledge(self, now: float, sigma: float, link: Parcels) -> None:
        """Call the hooks of an ACK of the data sent until sigma."""
        env, packet = self.env, link.packet
        lost = int(self.lost.at(sigma) / packet + 1e-9) * packet
        arrived = round(self.sent.at(sigma)) - lost
        acked, newly_lost = arrived - self.known[0], lost - self.known[1]
        if acked <= 0:
            return
        self.known = arrived, lost
        env.in_flight = round(self.volume) - arrived - lost
        env.rtt = round(now - sigma, _DIGITS)
        env.srtt = env.rtt if env.srtt == 0.0 else env.srtt + _SRTT_GAIN * (env.rtt - env.srtt)
        env.min_rtt = min(env.min_rtt, env.rtt)
        env.delivered, env.acked, env.packet_size, env.recovered = arrived, acked, packet, 0
        header = self.headers[bisect_right(self.begun, sigma) - 1]
        if env.recovering and sigma >= self.recovers_until:
            env.recovering, env.recovered = 0, 1
        if newly_lost > 0 and not env.recovering:
            env.recovering, env.kind, self.recovers_until = 1, 0, now
            self.call("on_loss", header)
        self.flow.sent = round(self.volume)
        header.received = arrived
        self.call("on_ack", header)

    def _send(self, now: float, sigma: float, link: Parcels) -> None:
        """Send a parcel at the rate of the host, within its window; `sigma`: data sent until then are known."""
        env = self.env
        rtt = self.d + link.queue / link.capacity
        begins = self.remaining == 0
        if begins:
            self.step, self.remaining = rtt / self.acks, self.acks
        self.remaining -= 1
        if self.spread > 0.0:
            self.step = rtt / self.acks * (1.0 + self.spread * (2.0 * self.spaces.random() - 1.0))
        self.due = now + self.step
        in_flight = max(self.volume - self.sent.at(sigma), 0.0)
        if not self.holds:
            allowed = max(env.window - self.volume + self.sent.at(link.sent_at(self.due, self.d)), 0.0) / self.step
            self.rate = min(env.rate / 8.0, allowed)
            is_full = env.rate / 8.0 >= allowed
        else:
            if begins:
                self.rate = min(env.rate / 8.0, env.window / rtt)
            is_full = env.rate / 8.0 >= env.window / rtt
        env.in_flight, env.packet_size, env.kind = round(in_flight), link.packet, 0
        header = self.protocol.Header()
        self.call("on_send", header)
        self.begun.append(now)
        self.headers.append(header)
        if is_full:
            self.flow.window_filled = 1


class Parcels:
    """A run of hosts with hooks over one queue, which can be copied and continued.

    Parameters
    ----------
    protocols : sequence of Protocol
        Protocol of each flow, with the state of delivery-rate samples (`ecc.models.shared.delivery_rate`).
    network : Network
        Network of one link.
    acks : int
        ACKs of a flow per RTT.
    holds : bool
        Whether hosts act once per RTT; False: at each ACK.
    spread : float, in [0, 1), optional
        Largest deviation of the distance of two ACKs from its mean, as a share of it. Deviations are uniformly
        distributed, and drawn with a fixed seed per flow. 0: ACKs are equally spaced.

    Raises
    ------
    LinearizationError
        Flows cross several links, or hosts have no delivery-rate samples.
    """

    def __init__(
        self, protocols: Sequence[Protocol], network: Network, acks: int, holds: bool, spread: float = 0.0
    ) -> None:
        if len(network.links) != 1:
            raise LinearizationError(f"parcels need a network of one link, got {len(network.links)}")
        link = network.links[0]
        self.capacity, self.packet = float(network.capacities[0]) / 8.0, ceil(np.max(network.flows[0].packet_size))
        self.buffer = inf if link.buffer is None else float(link.buffer)
        self.queue = self.now = 0.0
        self.queues = _Curve([0.0], [0.0])
        self.hosts = [
            _begun(protocol, float(rtt), (acks, holds), flow)
            for flow, (protocol, rtt) in enumerate(zip(protocols, network.rtts, strict=True))
        ]
        for index, (host, flow) in enumerate(zip(self.hosts, network.flows, strict=True)):
            host.spread, host.spaces = spread, Random(index)
            host.env.packet_size, host.due = self.packet, float(flow.start)
            host.env.now = host.due
            host.call("on_start", host.protocol.Header())

    def copy(self) -> Parcels:
        """Return a copy, which continues independently."""
        other = copy(self)
        other.queues, other.hosts = _copied(self.queues), [host.copy() for host in self.hosts]
        return other

    def sent_at(self, t: float, d: float) -> float:
        """Return the time at which data were sent whose ACKs arrive at t, for an RTT d without queue [s]."""
        time, value = self.queues.time, self.queues.value
        low, high = 0, len(time)
        while low < high:  # the first point whose ACKs arrive after t
            middle = (low + high) // 2
            if time[middle] + d + value[middle] / self.capacity > t:
                high = middle
            else:
                low = middle + 1
        if low == 0 or low == len(time):
            return t - d - value[min(low, len(time) - 1)] / self.capacity
        early, late = (time[k] + d + value[k] / self.capacity for k in (low - 1, low))
        return time[low - 1] + (time[low] - time[low - 1]) * (t - early) / (late - early)

    def step(self) -> Host:
        """Advance to the next ACK of a host; return that host."""
        host = min(self.hosts, key=lambda each: each.due)
        self._advance(host.due)
        host.act(self.now, self)
        return host

    def _advance(self, until: float) -> None:
        """Advance the queue at constant rates, and drop the excess of a full buffer."""
        length = until - self.now
        if length <= 0.0:
            return
        arrivals = sum(host.rate for host in self.hosts)
        slope = arrivals - self.capacity
        reached = self.queue + slope * length
        limit = min(max(reached, 0.0), self.buffer)
        corner = self.now + (limit - self.queue) / slope if reached != limit else until
        if self.now < corner < until:
            self.queues.add(corner, limit)
        for host in self.hosts:
            host.volume += host.rate * length
            if reached > self.buffer:
                host.dropped += (reached - self.buffer) * host.rate / arrivals
        self.queue, self.now = limit, until
        self.queues.add(until, limit)
        self.queues.forget(until - 2.0 * max(host.d + limit / self.capacity for host in self.hosts))


def _begun(protocol: Protocol, rtt: float, clock: tuple[int, bool], index: int) -> Host:
    """Return a host before its first action."""
    hooks = protocol._completed_flow_hooks(protocol.flow_hooks())
    flow = protocol.flow_record()
    if "on_ack" not in hooks or not hasattr(flow, "window_filled"):
        raise LinearizationError("parcels need hosts with delivery-rate samples of ACKs")
    for name, value in vars(flow).items():
        if isinstance(value, tuple):
            setattr(flow, name, list(value))
    values: dict[str, Any] = {name: 0 for name in FlowEnv.__annotations__ if name != "random"}
    values |= {"min_rtt": inf, "flow": index, "size": _UNSENT}
    env = _Env(**values, draws=Random(index), drawn=None)
    env.unsent, env.rate, env.window, env.srtt = _UNSENT, 0.0, 0.0, 0.0
    return Host(protocol, hooks, protocol.namespace(), flow, env, rtt, *clock)
