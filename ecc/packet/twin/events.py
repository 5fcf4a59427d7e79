"""The packet engine in plain Python: the same events, numbers and order as the C engine, written to be read.

Read `Twin.advance` first, then the methods in the order of a packet's path: `try_send`, `emit`, `arrive`, `leave`,
`hop`, `receive`, `ack`. The state of a run is defined in `ecc.packet.twin.state`.
docs/engine_specification.md specifies it in numbered clauses (S-1, ...).

- Time is integer picoseconds, sizes are integer bytes, rates are bit/s.
- Events are ordered by (time, kind, entity): at equal times the smaller `Kind` is processed first, then the smaller
  index of the link or flow. LEAVE and RECEIVE are internal, neither counted nor traced: steps that no hook observes
  are processed before all other events of their instant.
- A packet has one entry in the heap, for its next event. A timer of a link or flow is due at the time in
  `timers`; setting it again or cancelling it leaves an old entry in the heap, which is ignored.
- Hooks act on plain objects with the fields of their records. A field holds the value that a compiled hook would read;
  writing a field that does not exist, or a float to an integer field, is an error.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc.errors import NativeError
from ecc.native import EVENT, FLOW, FLOW_ENV, FLOW_RESULT, LINK_ENV, LINK_RESULT, TRANSFER_RESULT, bin_edges, new_flows
from ecc.packet.actions import Target
from ecc.packet.recorded_fields import Word
from ecc.packet.setup import Setup
from ecc.packet.twin.monitors import Monitor
from ecc.packet.twin.quic import QUIC, Quic, QuicIncoming
from ecc.packet.twin.rack import Awaits, Rack
from ecc.packet.twin.state import (
    AGGRESSIVE,
    BY_DATA,
    BY_PACER,
    BY_WINDOW,
    CE,
    CLASSIC,
    DRR,
    ECT_0,
    ECT_1,
    MAX_BURST,
    MAX_ZERO_WAITS,
    NEVER,
    NO_END,
    NOT_ECT,
    OLD,
    REPORT_TIMER,
    SCALABLE,
    SELECT,
    STEP,
    WORD,
    Agent,
    Channel,
    Packet,
    Phase,
    Random,
    Receiver,
    Record,
    Server,
    Template,
    TwinFlow,
    TwinLink,
    TwinQueue,
    TwinRouter,
    is_reordered,
    scaled,
    to_ps,
    to_seconds,
    transmission,
)
from ecc.packet.twin.transport import RACK, Incoming, Outgoing, Rule, Segment
from ecc.scenario import MAX_SAMPLED_QUEUES

__all__ = ["Kind", "Twin", "build_twin"]


NOTHING_WRITTEN: Any = Record(LINK_ENV)


class Kind(IntEnum):
    """Kinds of events, in the order in which they are processed at one instant."""

    LEAVE = -2  # the last bit of a packet leaves a queue, and the link has no on_departure
    RECEIVE = -1  # a packet reaches its receiver, and nothing observes it (S-32)
    DEPARTURE = 0  # the last bit of a packet leaves a queue
    HOP = 1  # a packet reaches the end of a link's wire
    ACCESS = 2  # a packet reaches its first link
    ACK = 3  # an ACK reaches the sender
    SEND = 4  # the pacer releases a packet
    INTERVAL = 5  # a tick of a router's clock
    START = 6
    STOP = 7
    TIMER = 8
    TIMEOUT = 9  # the retransmission timer is examined
    FLUSH = 10  # a receiver sends its delayed ACK
    DROP = 11  # at a link; in traces only, like all kinds below
    LOSS = 12  # on the wire of a link
    ACK_LOSS = 13  # on the pure delay of a flow's ACKs
    MARK = 14  # at a link
    TRIM = 15  # at a link
    PAUSE = 16  # a PAUSE frame is sent to a link
    RESUME = 17  # a RESUME frame is sent to a link


class Twin:
    """One run of the packet engine, in plain Python.

    Parameters
    ----------
    links, flows, routes, seed, sample, n_samples, n_sampled, n_additional, templates, changes, impairments,
    delay_changes, writes, servers, opportunities, quanta, begun, under_way, monitors
        As for ecc.native.Engine; addresses in these tables are ignored.
    routers, ends : sequence of Agent
        One `Agent` for each router and each flow.
    headers : mapping
        Offset of a region of the header -> dtype of this region.
    trace : int, optional
        Number of events to keep, starting with the first, for example 1000; None: all events.
    template_ends : sequence of Agent, optional
        One `Agent` for each template.
    recorded : sequence of Word, optional
        Fields of state or `env` to add to each sample, as `words`.

    Raises
    ------
    NativeError
        From `advance`, if a hook fails or leaves a bad value, as in the C engine.

    Notes
    -----
    About 100,000 events per second.
    """

    def __init__(
        self,
        links: NDArray[np.void],
        flows: NDArray[np.void],
        routes: ArrayLike,
        routers: Sequence[Agent],
        ends: Sequence[Agent],
        headers: Mapping[int, np.dtype[np.void]],
        *,
        n_additional: int = 0,
        seed: int = 0,
        sample: float = 0.0,
        n_samples: int = 0,
        n_sampled: int | None = None,
        trace: int | None = None,
        recorded: Sequence[Word] = (),
        templates: NDArray[np.void] | None = None,
        template_ends: Sequence[Agent] = (),
        changes: NDArray[np.void] | None = None,
        impairments: NDArray[np.void] | None = None,
        delay_changes: NDArray[np.void] | None = None,
        writes: NDArray[np.void] | None = None,
        servers: NDArray[np.void] | None = None,
        opportunities: NDArray[np.int64] | None = None,
        quanta: NDArray[np.int64] | None = None,
        begun: NDArray[np.void] | None = None,
        under_way: NDArray[np.void] | None = None,
        monitors: Sequence[int] = (),
    ) -> None:
        self.seed = seed
        self.begun_rtts = [] if begun is None else begun["rtt"].tolist()
        self.under_way = [] if under_way is None else [Record.of(row) for row in under_way]
        self.impairments = [] if impairments is None else [Record.of(row) for row in impairments]
        self.writes = [] if writes is None else writes.tolist()
        self.delay_changes = [] if delay_changes is None else delay_changes.tolist()
        self.now = self.serial = self.events = self.data_packets = self.in_flight = self.digest = 0
        self.begun = self.must_stop = False
        self.heap: list[tuple[int, Kind, int, int, Packet | None]] = []
        self.timers: dict[tuple[Kind, int], int] = {}
        self.traced: list[tuple[int, int, int, int]] = []
        self.n_traced, self.max_traced = 0, trace
        self.period, self.n_samples = to_ps(sample), n_samples
        self.rows: list[dict[str, Any]] = []
        self.recorded = recorded
        self.layouts = headers
        change = iter([] if changes is None else changes.tolist())
        times = iter([] if opportunities is None else opportunities.tolist())
        served = [] if servers is None else [Record.of(row) for row in servers]
        traces = [[next(times) for _ in range(row.n_opportunities)] for row in served]
        quantum = iter([] if quanta is None else quanta.tolist())
        self.links: list[TwinLink] = []
        for k, row in enumerate(links[: len(links) - n_additional]):
            config = Record.of(row)
            changing = [next(change) for _ in range(config.n_changes)]
            queues = [TwinQueue(next(quantum)) for _ in range(config.n_queues)]
            channel = self.new_channel(config.impairment, 2**34 + k)
            server = None
            if config.server > 0:
                server = Server(served[config.server - 1], traces[config.server - 1], Random(seed, 2**37 + k))
            phase = Phase(Random(seed, 2**39 + k)) if config.phase_jitter else None
            self.links.append(
                TwinLink(k, config, changing, channel, server, queues=queues or [TwinQueue()], phase=phase)
            )
        self.is_lossless = any(link.config.xoff > 0 for link in self.links)
        for link in self.links:
            link.in_lossless = self.is_lossless
        self.n_priorities = 1 + max(
            (int(table["priority"].max(initial=0)) for table in (flows, templates) if table is not None), default=0
        )
        self.routers: list[TwinRouter] = []
        for k, (row, agent) in enumerate(zip(links, routers, strict=True)):
            config = Record.of(row)
            link = self.links[k if k < len(self.links) else config.at]
            link.routers.append(TwinRouter(k, link, config, *agent.records, agent.hooks, Random(seed, k)))
            link.routers[-1].begun_state = None if agent.begun_state is None else Record.of(agent.begun_state)
            self.routers.append(link.routers[-1])
        self.flows: dict[int, TwinFlow] = {}  # by number; transfers are removed when they finish
        route = iter(np.asarray(routes).tolist())
        for k, (row, agent) in enumerate(zip(flows, ends, strict=True)):
            config = Record.of(row)
            forward = [self.links[next(route)] for _ in range(config.n_forward)]
            reverse = [self.links[next(route)] for _ in range(config.n_reverse)]
            lengths = [next(route) for _ in range(config.n_alternatives)]
            alternatives = [[self.links[next(route)] for _ in range(length)] for length in lengths]
            flow = self.flows[k] = self.new_flow(k, config, agent, [forward, *alternatives], reverse)
            flow.begun_state = None if agent.begun_state is None else Record.of(agent.begun_state)
            self.set_timer(Kind.START, k, config.start)
        self.n_flows = len(flows)  # larger numbers are transfers
        self.monitors = [Monitor(self.flows[k]) for k in monitors]
        for monitor in self.monitors:
            monitor.flow.monitor = monitor
        self.templates: list[Template] = []
        for row, agent in zip(new_flows(0) if templates is None else templates, template_ends, strict=True):
            fields = {name: row[name].item() for name in row.dtype.names or ()}
            directions = [[self.links[next(route)] for _ in range(fields[n])] for n in ("n_forward", "n_reverse")]
            self.templates.append(Template(fields, agent, directions[0], directions[1]))
        self.pending: list[list[dict[str, int]]] = []  # chains of transfers that have not started
        self.more = bool(self.templates)
        self.added = self.started = 0  # counts of transfers
        self.finished: list[TwinFlow] = []
        self.bottlenecks = [agent.field_at(row["bottleneck"]) for row, agent in zip(flows, ends, strict=True)][
            :n_sampled
        ]

    def new_channel(self, number: int, stream: int) -> Channel | None:
        if number == 0:
            return None
        config = self.impairments[number - 1]
        delays = self.delay_changes[config.first_delay : config.first_delay + config.n_delays]
        return Channel(config, Random(self.seed, stream), delays)

    def new_flow(
        self,
        number: int,
        config: Any,
        agent: Agent,
        routes: Sequence[Sequence[TwinLink]],
        reverse: Sequence[TwinLink],
    ) -> TwinFlow:
        random, sizes = Random(self.seed, 2**32 + number), Random(self.seed, 2**33 + number)
        channel = self.new_channel(config.impairment, 2**35 + number)
        receiver = Receiver(config.reordering_threshold or (3 if is_reordered(routes) else 1))
        sender = {RACK: Rack, QUIC: Quic}.get(config.transport, Outgoing)
        outgoing = sender(config) if config.transport else None
        flow = TwinFlow(
            number,
            config,
            *agent.records,
            agent.hooks,
            random,
            routes,
            reverse,
            config.rate,
            config.window,
            sizes,
            channel,
            Random(self.seed, 2**36 + number),
            receiver,
            outgoing,
            QuicIncoming() if config.transport == QUIC else Incoming(reports_duplicates=config.transport == RACK),
        )
        flow.writes = self.writes[config.first_write : config.first_write + config.n_writes]
        flow.pacing_credit = float(config.pacing_burst)
        flow.draw_size()
        if config.phase_jitter:
            flow.phase = Phase(Random(self.seed, 2**38 + number))
            flow.phase.begin()
        if config.stop >= 0:
            self.set_timer(Kind.STOP, number, config.stop)
        return flow

    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and including a time; splitting a run into calls never changes the result.

        Parameters
        ----------
        until : float, s
        max_events : int or None
            Maximum number of events to run.

        Returns
        -------
        str
            "until", "max_events", "idle" or "transfers", as for ecc.native.Engine.

        Raises
        ------
        NativeError
            A hook failed or left a bad value.
        """
        end = max(to_ps(until), self.now)
        self.must_stop = False
        if not self.begun:
            self.begun = True
            for router in self.routers:
                self.start_router(router)
            self.place_all()
            for monitor in self.monitors:
                monitor.begin(self.now)
        while not self.needs_input and self.heap and self.heap[0][0] <= end:
            time, kind, entity, _, packet = self.heap[0]
            if packet is None and self.timers.get((kind, entity)) != time:
                heapq.heappop(self.heap)  # set again or cancelled
                continue
            if kind >= 0 and max_events is not None:
                if max_events == 0 or self.must_stop:
                    return "max_events"
                max_events -= 1
            heapq.heappop(self.heap)
            self.take_samples(time - 1)
            self.now = time
            if packet is None:
                del self.timers[kind, entity]
            self.happen(kind, entity, packet)
        if self.needs_input:
            return "transfers"
        self.take_samples(end)
        self.now = end
        pending = any(packet is not None or self.timers.get((k, e)) == t for t, k, e, _, packet in self.heap)
        return "until" if pending else "idle"

    def act(self, actions: Sequence[Target], values: Sequence[float]) -> None:
        """Perform actions on flows now: all of them, or none if one is refused (S-223).

        Parameters
        ----------
        actions : sequence of Target
        values : sequence of float
            Rates [bit/s], windows [bytes] or values of words; nan: no action.
        """
        performed = [(target, value) for target, value in zip(actions, values, strict=True) if not math.isnan(value)]
        for target, value in performed:
            if not self.flows[target.flow].active:
                text = "an action must be for a flow that has started and not ended, and set its rate, window or a word"
                raise NativeError(f"{text}, got {value:.12g} (flow {target.flow})")
        for target, value in performed:
            flow = self.flows[target.flow]
            if target.name == "rate":
                flow.rate = value
            elif target.name == "window":
                flow.window = value
                if value == 0.0 and flow.limited_by == BY_WINDOW:
                    flow.limited_by = BY_PACER
            else:
                setattr(flow.state, target.name, value)
                continue
            self.try_send(flow)

    def observe(self) -> list[tuple[float, ...]]:
        """Return the monitor intervals until now in the order of OBSERVATION, and begin the next ones (S-225)."""
        rows = [monitor.read(self.now, self.env_of(monitor.flow)) for monitor in self.monitors]
        for monitor in self.monitors:
            monitor.begin(self.now)
        return rows

    def add(self, transfers: NDArray[np.void], more: bool) -> None:
        """Add the next transfers.

        Parameters
        ----------
        transfers : NDArray[void], shape (n,)
            Dtype TRANSFER.
        more : bool
            Whether further transfers will be added later.
        """
        for row in transfers:
            fields = {name: row[name].item() for name in row.dtype.names or ()}
            fields |= {"number": self.n_flows + self.added}
            self.added += 1
            if fields.pop("is_subsequent"):
                self.pending[-1].append(fields)
            else:
                self.pending.append([fields])
        self.more = more
        self.schedule_next_transfer()

    @property
    def needs_input(self) -> bool:
        """True if the next transfers must be added before time advances."""
        return self.more and not self.pending

    def schedule_next_transfer(self) -> None:
        self.set_timer(Kind.START, self.n_flows, self.pending[0][0]["start"] if self.pending else None)

    def start_next(self) -> int:
        """Turn the next transfer into a flow and return its number."""
        number = self.activate(self.pending.pop(0))
        self.schedule_next_transfer()
        return number

    def start_subsequent(self, other: TwinFlow) -> int:
        """Turn the transfer that follows another one into a flow and return its number."""
        first, *rest = other.subsequent
        other.subsequent = ()
        return self.activate([{**first, "start": self.now}, *rest])

    def activate(self, chain: Sequence[dict[str, int]]) -> int:
        transfer = dict(chain[0])
        template_index, number = transfer.pop("template_index"), transfer.pop("number")
        if transfer["receiver_window"] == 0:
            del transfer["receiver_window"]
        template = self.templates[template_index]
        config: Any = Record(FLOW, {**template.config, **transfer})
        flow = self.flows[number] = self.new_flow(number, config, template.agent, [template.forward], template.reverse)
        flow.template_index, flow.subsequent = template_index, chain[1:]
        self.started += 1
        return number

    def subsequent_is_due(self, flow: TwinFlow) -> bool:
        """Return whether the delay before the transfer that follows this one has begun."""
        return flow.number >= self.n_flows and (Kind.START, flow.number + 1) in self.timers

    def finish_if_done(self, flow: TwinFlow) -> None:
        """Finish a transfer if it has stopped, has no packets in the network and starts no other one soon (S-59)."""
        if flow.number >= self.n_flows and not flow.active and flow.packets == 0 and not self.subsequent_is_due(flow):
            flow.lost += flow.in_flight
            flow.expected = flow.sent
            flow.end = self.now
            self.finished.append(flow)
            del self.flows[flow.number]

    def happen(self, kind: Kind, entity: int, packet: Packet | None) -> None:
        """Count, hash and trace an event, and apply it to its packet, link or flow."""
        before = self.flows[entity - 1] if kind == Kind.START and entity > self.n_flows else None
        if before:
            entity = self.start_subsequent(before)
        elif kind == Kind.START and entity == self.n_flows:
            entity = self.start_next()
        entities: Any = {Kind.INTERVAL: self.routers, Kind.DEPARTURE: self.links}.get(kind, self.flows)
        subject: Any = packet or entities[entity]
        if kind >= 0:
            self.events += 1
            word = self.now * 16 + kind + entity * 0xD1B54A32D192ED03
            word = (word * STEP) & WORD
            self.digest = (self.digest + (word ^ (word >> 29))) & WORD
            value = {Kind.INTERVAL: "queue", Kind.SEND: "sent"}.get(
                kind, "offset" if packet or kind == Kind.FLUSH else "in_flight"
            )
            if kind == Kind.DEPARTURE and packet is None:  # a frame has arrived
                self.trace(kind, entity, -1)
                self.serve(subject)
                return
            self.trace(kind, entity, getattr(subject.receiver.delayed if kind == Kind.FLUSH else subject, value))
        actions: dict[Kind, Callable[[Any], None]] = {
            Kind.LEAVE: self.leave,
            Kind.RECEIVE: self.receive,
            Kind.DEPARTURE: self.leave,
            Kind.HOP: self.hop,
            Kind.ACCESS: self.enter,
            Kind.ACK: self.ack,
            Kind.SEND: self.send,
            Kind.INTERVAL: self.interval,
            Kind.START: self.start,
            Kind.STOP: self.stop,
            Kind.TIMER: self.timer,
            Kind.TIMEOUT: self.check_timeout,
            Kind.FLUSH: self.send_ack,
        }
        actions[kind](subject)
        if before:
            self.finish_if_done(before)

    def trace(self, kind: Kind, entity: int, value: int) -> None:
        self.n_traced += 1
        if self.max_traced is None or self.n_traced <= self.max_traced:
            self.traced.append((self.now, kind, entity, value))

    def put(self, wait: int, kind: Kind, entity: int, packet: Packet) -> None:
        """Schedule an event of a packet `wait` ps from now."""
        if self.now + wait < NEVER:
            self.serial += 1
            heapq.heappush(self.heap, (self.now + wait, kind, entity, self.serial, packet))

    def set_timer(self, kind: Kind, entity: int, time: int | None) -> None:
        """Set a timer to a new time; None or NEVER cancels it."""
        self.timers.pop((kind, entity), None)
        if time is not None and time < NEVER:
            self.timers[kind, entity] = time
            self.serial += 1
            heapq.heappush(self.heap, (time, kind, entity, self.serial, None))

    # ---- links -----------------------------------------------------------------------------------------------

    def start_router(self, router: TwinRouter) -> None:
        self.call_router(router, "on_start")
        if router.config.first_interval >= 0:
            self.set_timer(Kind.INTERVAL, router.index, router.config.first_interval)
        else:
            self.set_clock(router)

    def set_clock(self, router: TwinRouter) -> None:
        wait = to_ps(router.next_interval) if router.next_interval > 0.0 else NEVER
        router.n_zero_waits = router.n_zero_waits + 1 if wait < 1 else 0
        if router.n_zero_waits == MAX_ZERO_WAITS:
            text = "next interval must be >= 5e-13 s, or 0 for none, after 100 consecutive smaller ones"
            raise self.error(router, "on_interval", text, router.next_interval)
        if wait < NEVER:
            self.set_timer(Kind.INTERVAL, router.index, self.now + max(1, wait))

    def interval(self, router: TwinRouter) -> None:
        waits = [self.now - queue.waiting[0][0] for queue in router.link.queues if queue.waiting]
        self.call_router(router, "on_interval", sojourn=max(waits, default=0))
        router.queue_low = router.queue
        self.set_clock(router)

    def arrive(self, packet: Packet) -> None:
        """A packet arrives at its link: it is dropped, or joins the queue."""
        link, size = packet.link, packet.wire_size
        packet.queue_index = 0
        link.arrived += size
        link.measure(self.now)
        link.arrivals_in_bin[link.bin] += 1
        if link.schedules:
            self.classify(link, packet)
        dropped, marked, trim, filtering = self.call_arrival(link, packet)
        if trim and not dropped:
            cut = size - packet.flow.config.trimmed_size
            if packet.is_ack or packet.is_trimmed or packet.flow.config.trimmed_size == 0:
                self.drop(link, packet)
                return
            if marked:
                self.count_mark(link, packet)
            if cut > 0:
                self.trace(Kind.TRIM, link.index, packet.offset)
                packet.is_trimmed, size = True, size - cut
                link.dropped_bytes += cut
            packet.passes_whole = cut <= 0
            packet.queue_index = 0
            if link.schedules:
                self.classify(link, packet)
            dropped, marked, _, filtering = self.call_arrival(link, packet)
        bytes_full = 0 <= link.config.buffer < link.queue + size
        is_full = bytes_full or 0 < link.config.buffer_packets <= link.n_queued
        if dropped or (is_full and not link.drops_longest) or not self.has_headroom(packet):
            self.drop(link, packet)
            return
        packet.passes_whole = False
        if marked:
            self.count_mark(link, packet)
        link.grow(packet)
        if link.schedules:
            link.join(packet, self.now)
            self.count_held(packet, packet.wire_size)
            self.filter_acks(link, packet, filtering)
            while link.is_too_full and any(queue.waiting for queue in link.queues):
                self.drop_taken(link, *link.longest.waiting.popleft())
            self.serve(link)
        else:
            self.transmit(link, packet, self.now)

    def drop(self, link: TwinLink, packet: Packet, sojourn: int = 0) -> None:
        """Drop a packet that is not in the queue."""
        link.dropped += 1
        link.dropped_bytes += packet.wire_size
        link.queues[packet.queue_index].dropped += 1
        self.trace(Kind.DROP, link.index, packet.offset)
        self.call_link(link, "on_drop", packet, sojourn)
        self.discard(packet)

    def filter_acks(self, link: TwinLink, packet: Packet, filtering: int) -> None:
        """Drop an ACK that a packet which has just joined its queue supersedes (S-227)."""
        place = link.superseded(packet, filtering == AGGRESSIVE) if filtering else None
        if place is not None:
            waiting = link.queues[packet.queue_index].waiting
            arrived, superseded = waiting[place]
            del waiting[place]
            link.filters = True
            self.drop_taken(link, self.now, superseded)
            link.filters = False

    def drop_taken(self, link: TwinLink, arrived: int, packet: Packet) -> None:
        """Drop a packet that has waited in the queue since `arrived`."""
        link.shrink(packet, self.now)
        self.count_held(packet, -packet.wire_size)
        self.drop(link, packet, self.now - arrived)

    def select(self, link: TwinLink) -> TwinQueue | None:
        """Ask on_select for the queue of the next packet; None if the server waits (S-226)."""
        env = NOTHING_WRITTEN
        for router in link.routers:
            if "on_select" in router.hooks:
                env = self.call_router(router, "on_select")
        if env.wait > 0.0:
            self.set_timer(Kind.DEPARTURE, link.index, self.now + max(1, to_ps(env.wait)))
            return None
        index = int(env.queue_index)
        if not 0 <= index < len(link.queues) or not link.queues[index].waiting:
            text = "queue index must be that of a queue with a waiting packet"
            raise self.error(link.routers[0], "on_select", text, index)
        return link.queues[index]

    def classify(self, link: TwinLink, packet: Packet) -> None:
        """Choose the queue of a link that a packet joins."""
        index = 0
        for router in link.routers:
            if "on_classify" in router.hooks:
                index = self.call_router(router, "on_classify", packet).queue_index
        if not 0 <= index < len(link.queues):
            raise self.error(link.routers[0], "on_classify", "queue index must be that of a queue of the link", index)
        packet.queue_index = index

    def transmit(self, link: TwinLink, packet: Packet, arrived: int) -> None:
        """Serve a packet that arrived at time `arrived`, after the packet before it has left."""
        link.free_at = link.serve(max(self.now, link.free_at), arrived, packet.wire_size)
        is_observed = link.schedules or any("on_departure" in router.hooks for router in link.routers)
        kind = Kind.DEPARTURE if is_observed or link.channel else Kind.LEAVE
        self.put(link.free_at - self.now, kind, link.index, packet)

    def serve(self, link: TwinLink) -> None:
        """If the server of a link that schedules is free, serve the next packet that on_dequeue does not drop."""
        link.read_frames(self.now)
        while link.in_service is None and any(queue.waiting for queue in link.queues):
            queue = self.select(link) if link.scheduler == SELECT else link.next_queue()
            if queue is None:
                self.await_frame(link)
                return
            arrived, packet = queue.waiting.popleft()
            dropped, marked = self.call_link(link, "on_dequeue", packet, self.now - arrived)
            if dropped:
                self.drop_taken(link, arrived, packet)
            else:
                if marked:
                    self.count_mark(link, packet)
                link.in_service = packet
                self.set_timer(Kind.DEPARTURE, link.index, None)
                queue.deficit -= packet.wire_size
                self.transmit(link, packet, arrived)
            if link.scheduler == DRR and not queue.waiting:
                link.rounds[OLD].remove(queue)

    def has_headroom(self, packet: Packet) -> bool:
        """Return whether the link over which a packet arrived has headroom for it at this link (S-139)."""
        link = packet.upstream
        if link is None:
            return True
        held: int = link.classes[packet.flow.config.priority].held
        return bool(held + packet.wire_size <= link.config.xoff + link.config.headroom)

    def count_held(self, packet: Packet, change: int) -> None:
        """A packet joins or leaves a queue: pause or resume the link over which it arrived, if needed (S-140)."""
        link, priority = packet.upstream, packet.flow.config.priority
        if link is None:
            return
        state = link.classes[priority]
        state.held += change
        pauses = change > 0
        if pauses != state.has_paused and (state.held > link.config.xoff if pauses else state.held <= link.config.xon):
            state.has_paused = pauses
            state.count += pauses
            self.trace(Kind.PAUSE if pauses else Kind.RESUME, link.index, priority)
            link.frames.append((min(NEVER, self.now + link.config.delay), priority, pauses))
            self.await_frame(link)

    def await_frame(self, link: TwinLink) -> None:
        """If packets wait and the server is idle, try to serve again when the next frame arrives (S-142)."""
        waits = link.in_service is None and any(queue.waiting for queue in link.queues)
        if waits and link.frames and (Kind.DEPARTURE, link.index) not in self.timers:
            self.set_timer(Kind.DEPARTURE, link.index, max(self.now, link.frames[0][0]))

    def find_deadlock(self, time: int) -> None:
        """Fail if links wait for each other at a time (S-143)."""
        moving = [link for link in self.links if not link.is_blocked]
        for link in moving:  # the list grows inside the loop
            for packet in link.packets:
                if packet.upstream is not None and packet.upstream not in moving:
                    moving.append(packet.upstream)
        stuck = [link.index for link in self.links if link not in moving]
        if stuck:
            self.now = time
            raise NativeError(
                "links must not be paused forever, each with packets that wait for another of them (PFC deadlock), "
                f"got {len(stuck)} (link {stuck[0]})"
            )

    def leave(self, packet: Packet) -> None:
        """The last bit of a packet leaves the queue; a link that schedules serves the next packet."""
        link = packet.link
        self.depart(link, packet)
        if link.schedules:
            self.serve(link)

    def depart(self, link: TwinLink, packet: Packet) -> None:
        """The packet in service leaves the queue for the wire."""
        flow, size = packet.flow, packet.wire_size
        link.shrink(packet, self.now)
        link.in_service = None
        self.count_held(packet, -size)
        link.departed += size
        _, marked = self.call_link(link, "on_departure", packet)
        if marked:
            self.count_mark(link, packet)
        wait = link.config.delay
        if link.channel:
            if link.channel.loses(packet.is_ack):
                link.lost += 1
                link.lost_bytes += size
                self.trace(Kind.LOSS, link.index, packet.offset)
                self.discard(packet)
                return
            wait = link.channel.out(self.now, wait, size) - self.now
        if not packet.is_at_last_link:
            self.put(wait, Kind.HOP, link.index, packet)
        elif packet.is_ack:
            if flow.channel or link.reorders:
                self.put(wait, Kind.HOP, link.index, packet)
            else:
                self.put(wait + flow.config.ack_delay, Kind.ACK, flow.number, packet)
        elif flow.is_watched:
            self.put(wait, Kind.HOP, link.index, packet)
        else:
            self.put(wait, Kind.RECEIVE, flow.number, packet)

    def count_mark(self, link: TwinLink, packet: Packet) -> None:
        link.marked += 1
        link.queues[packet.queue_index].marked += 1
        self.trace(Kind.MARK, link.index, packet.offset)

    def hop(self, packet: Packet) -> None:
        """A packet reaches the end of a wire: its next link, its receiver, or, if it is an ACK, its pure delay."""
        if not packet.is_at_last_link:
            packet.hop += 1
            self.arrive(packet)
        elif packet.is_ack:
            self.return_ack(packet)
        else:
            self.receive(packet)

    def discard(self, packet: Packet) -> None:
        """Remove a packet from the network."""
        self.in_flight -= 1
        packet.flow.packets -= 1
        self.finish_if_done(packet.flow)

    # ---- flows -----------------------------------------------------------------------------------------------

    def start(self, flow: TwinFlow) -> None:
        if not flow.active:  # otherwise it began before time 0
            flow.started = flow.active = True
            if flow.phase:
                flow.phase.packet_time = flow.slowest_transmission(self.now)
            self.call_flow(flow, "on_start")
        self.try_send(flow)

    def place_all(self) -> None:
        """Begin a run at an equilibrium: flows have begun, and their packets are in the network (S-206)."""
        for number, rtt in enumerate(self.begun_rtts):
            self.begin(self.flows[number], rtt)
        packets = []
        for entry in self.under_way:
            self.now, flow = entry.sent, self.flows[entry.flow]
            segment, written = flow.next(self.now)
            sends = segment.size > 0 and written == self.now
            packets.append((self.leave_sender(flow, segment) if sends else None, entry))
        placed = [(packet, entry) for packet, entry in (packets[row.placed] for row in self.under_way) if packet]
        for router in self.routers if placed else ():
            router.state, router.begun_state = router.begun_state, router.state
            router.link.queue = router.link.config.begun_queue
        for packet, entry in placed:
            self.show_to_links(packet, entry)
        for router in self.routers if placed else ():
            router.state, router.begun_state = router.begun_state, router.state
            router.link.queue = 0
        for packet, entry in placed:
            self.now = 0
            self.place(packet, entry)
        self.now = 0
        for router in self.routers if self.begun_rtts else ():
            router.queue_low = router.queue
        for number in range(len(self.begun_rtts)):
            self.flows[number].timer_start = 0

    def begin(self, flow: TwinFlow, rtt: int) -> None:
        """Begin a flow that has been sending for a long time; its on_start only sets timers."""
        flow.started = flow.active = True
        flow.min_rtt = to_seconds(flow.first_rtt(0))
        flow.rtt = flow.srtt = to_seconds(rtt)
        if flow.phase:
            flow.phase.packet_time = flow.slowest_transmission(0)
        if "on_start" not in flow.hooks:
            return
        flow.rate = flow.window = 0.0
        state, flow.state = flow.state, flow.begun_state
        self.call_flow(flow, "on_start")
        flow.state = state
        if flow.window > 0.0:
            flow.window = flow.config.window  # a rate set too is a limit, or follows from the window at the next ACK
        elif flow.rate > 0.0:
            flow.rate = flow.config.rate

    def show_to_links(self, packet: Packet, entry: Any) -> None:
        """Call the hooks of the links that a packet reached before time 0 (S-208)."""
        flow, time = packet.flow, entry.sent + packet.flow.config.access_delay
        packet.route = flow.forward
        for packet.hop, link in enumerate(flow.forward):
            if time > 0:
                return
            self.now = time
            self.call_link(link, "on_arrival", packet)
            time += transmission(link.config.begun_queue, link.config.capacity)
            time += transmission(packet.wire_size, link.config.capacity)
            if time <= 0:
                self.now = time
                self.call_link(link, "on_departure", packet)
            time += link.config.delay

    def place(self, packet: Packet, entry: Any) -> None:
        """Place a packet that was sent before time 0 at its position at time 0 (S-209)."""
        flow, is_past, packet.hop = packet.flow, entry.at <= 0, 0
        if entry.hop == 0 and not is_past:
            self.put(entry.at, Kind.ACCESS, flow.number, packet)
            return
        packet.route = flow.next_route()
        if is_past and entry.hop < len(flow.forward):
            packet.hop = entry.hop
            packet.link.arrived += packet.wire_size
            packet.link.grow(packet)
            self.transmit(packet.link, packet, 0)
            return
        packet.hop = entry.hop - 1
        if not is_past:
            is_received = entry.hop == len(flow.forward)
            kind = Kind.HOP if not is_received or flow.is_watched else Kind.RECEIVE
            self.put(entry.at, kind, flow.number if kind == Kind.RECEIVE else packet.link.index, packet)
        else:
            self.now = entry.at
            self.receive(packet)

    def send(self, flow: TwinFlow) -> None:
        segment, due = flow.next(self.now)
        if not flow.has_writes or (due == self.now and flow.may_leave(segment)):  # else it has grown (S-162)
            self.emit(flow, segment)
        self.try_send(flow, released=True)

    def timer(self, flow: TwinFlow) -> None:
        number = min(k for k, time in flow.timers.items() if time == self.now)
        self.set_flow_timer(flow, number, NEVER)
        if number == REPORT_TIMER:
            self.report(flow)
            return
        self.check_wait(flow, "on_timer", self.call_flow(flow, "on_timer", kind=number))
        self.try_send(flow)

    def check_wait(self, flow: TwinFlow, name: str, wait: float) -> None:
        """Stop the run if a hook sets its timer again and again without a wait (S-49)."""
        flow.n_zero_waits = flow.n_zero_waits + 1 if wait >= 0.0 and to_ps(wait) < 1 else 0
        if flow.n_zero_waits == MAX_ZERO_WAITS:
            text = "timer must be >= 5e-13 s, or negative for none, after 100 smaller ones in calls of its hook"
            raise self.error(flow, name, text, wait)

    def report(self, flow: TwinFlow) -> None:
        """The report timer of a receiver expires (S-210)."""
        headers = self.blank_headers()
        env = self.call_at_receiver(flow, "on_report", None, headers)
        if env.control_size >= 1 and "on_control" in flow.hooks:
            self.send_control(flow, "on_report", headers, env)
        self.check_wait(flow, "on_report", env.timer)

    def set_flow_timer(self, flow: TwinFlow, number: int, time: int) -> None:
        """Set a timer of a flow; its TIMER event is due at the earliest of them (S-49)."""
        flow.timers[number] = time
        self.set_timer(Kind.TIMER, flow.number, min(flow.timers.values()))

    def has_phase(self, flow: TwinFlow, phase: Phase, segment: Segment) -> bool:
        """Return whether the phase of the flow delays the next segment (S-187)."""
        size = segment.size + flow.config.header_bytes
        return flow.waits_for_phase or (flow.rate > 0.0 and transmission(size, flow.rate) <= phase.packet_time)

    def due(self, flow: TwinFlow, phase: Phase, segment: Segment, ready: int) -> int:
        """Return the time at which a flow with a phase may send its next segment, available from `ready` on (S-187)."""
        spread = phase.packet_time
        if flow.rate > 0.0 and flow.last_size > 0:
            gap = transmission(flow.last_size, flow.rate)
            due = min(NEVER, flow.last_time + scaled(gap, phase.stretch))
            if due >= ready:
                return due
        elif flow.rate > 0.0:
            spread = max(spread, transmission(segment.size + flow.config.header_bytes, flow.rate))
        due = min(NEVER, ready + scaled(spread, phase.offset)) if flow.waits_for_phase else ready
        pending = self.timers.get((Kind.SEND, flow.number), NEVER)
        return min(due, pending) if pending >= ready else due

    def try_send(self, flow: TwinFlow, released: bool = False) -> None:
        """TRY-SEND (S-52): send the packets that the window allows, or schedule the pacer, or wait for ACKs.

        `released` is true if a SEND event calls it (S-188).
        """
        n_sent = 0
        while flow.active:
            segment, written = flow.next(self.now)
            if not flow.may_leave(segment):
                flow.limited_by = flow.limit(segment)
                self.set_timer(Kind.SEND, flow.number, None)
                return
            wait = flow.pacing_wait(segment.size, self.now) if written == self.now else 0
            if wait > 0:
                flow.limited_by = BY_WINDOW if flow.fills_window(segment, self.now) else BY_DATA
                self.set_timer(Kind.SEND, flow.number, min(NEVER, self.now + wait))
                return
            limited_by = BY_DATA if written > self.now else BY_PACER
            waits = flow.rate > 0.0 or not released or written > self.now
            if flow.phase and waits and self.has_phase(flow, flow.phase, segment):
                flow.limited_by = limited_by
                self.set_timer(Kind.SEND, flow.number, self.due(flow, flow.phase, segment, written))
                return
            if flow.rate > 0.0:
                due = flow.last_time + transmission(flow.last_size, flow.rate) if flow.last_size > 0 else self.now
                flow.limited_by = limited_by
                self.set_timer(Kind.SEND, flow.number, max(written, due))
                return
            if written > self.now or n_sent == MAX_BURST:  # S-53: limit of packets in one event
                flow.limited_by = limited_by
                self.set_timer(Kind.SEND, flow.number, written)
                return
            self.emit(flow, segment)
            n_sent += 1

    def emit(self, flow: TwinFlow, segment: Segment) -> None:
        """EMIT (S-54, S-79): one packet leaves the sender for its first link."""
        packet = self.leave_sender(flow, segment)
        if flow.config.access_delay > 0:
            self.put(flow.config.access_delay, Kind.ACCESS, flow.number, packet)
        else:
            self.enter(packet)

    def leave_sender(self, flow: TwinFlow, segment: Segment) -> Packet:
        """The part of EMIT that precedes the path of the packet."""
        if not segment.is_retransmitted and flow.last_size > 0 and flow.n_timeouts == 0 and flow.in_flight == 0:
            self.call_flow(flow, "on_restart")
        packet = Packet(flow, segment.size, segment.begin, self.now, self.new_headers(), flow.forward, flow.sender_base)
        if flow.config.ecn:
            if not flow.echoes_marks or not segment.is_retransmitted:
                packet.codepoint = ECT_1 if flow.config.ecn == SCALABLE else ECT_0
            if flow.echo.owes_answer and not segment.is_retransmitted:
                packet.ecn, flow.echo.owes_answer, flow.echo.answered = 1, False, packet.offset
        self.in_flight += 1
        flow.packets += 1
        flow.last_time, flow.last_size = self.now, packet.wire_size
        if flow.phase:
            flow.phase.sent()
        self.call_flow(flow, "on_send", packet, int(segment.is_retransmitted))
        stream = flow.outgoing
        if isinstance(stream, Quic):
            packet.number, flow.timer_start = stream.next_number, self.now
        elif stream and (flow.in_flight == 0 or stream.restarts_with(segment)):
            self.start_timer(flow)
        elif flow.in_flight == 0:
            flow.timer_start = self.now
        flow.sent += packet.size
        if flow.config.pacing_gain > 0.0:
            flow.pacing_credit -= packet.size
        if stream:
            self.inform(flow)
            stream.count_prr(packet.size)
            stream.sent(segment)
        if segment.is_retransmitted:
            flow.lost += packet.size
            flow.expected += packet.size
        if segment.rule == Rule.NEW:
            self.await_probe(flow)
        self.await_packets(flow)
        flow.draw_size()
        if (Kind.TIMEOUT, flow.number) not in self.timers:
            self.set_timer(Kind.TIMEOUT, flow.number, self.now + flow.timeout(self.now))
        if flow.sent >= flow.count:
            flow.count = math.inf
            self.call_flow(flow, "on_count")
        return packet

    def enter(self, packet: Packet) -> None:
        """A packet arrives at the first link of its route."""
        packet.route = packet.flow.next_route()
        self.arrive(packet)

    def receive(self, packet: Packet) -> None:
        """A receiver turns a packet into its ACK."""
        flow = packet.flow
        if packet.is_trimmed:
            self.receive_trimmed(packet)
            return
        if flow.config.ecn:
            if (
                flow.config.ecn != CLASSIC
                and not isinstance(flow.outgoing, Quic)
                and flow.echo.was_marked != (packet.codepoint == CE)
                and flow.receiver.delayed
            ):
                self.set_timer(Kind.FLUSH, flow.number, None)
                self.send_ack(flow)
            flow.echo.receive(packet)
        delivered, may_delay = packet.size, True
        if flow.outgoing:
            delivered, may_delay = flow.incoming.receive_data(packet.offset, packet.offset + packet.size)
        if isinstance(flow.incoming, QuicIncoming):
            may_delay = flow.incoming.receive_number(packet.number, self.now) and packet.codepoint != CE
        flow.received += delivered
        self.data_packets += 1
        if flow.subsequent and flow.received >= flow.config.size and not self.subsequent_is_due(flow):
            self.set_timer(Kind.START, flow.number + 1, self.now + flow.subsequent[0]["start"])
        if "on_receive" in flow.hooks:
            env = self.call_at_receiver(flow, "on_receive", packet, packet.headers)
            if env.control_size >= 1 and "on_control" in flow.hooks:
                self.send_control(flow, "on_receive", packet.headers, env)
        packet.is_ack, packet.route, packet.hop = True, flow.reverse, 0
        receiver = flow.receiver
        if not flow.outgoing:
            receiver.account(packet.offset, packet.size, packet.base)
        if receiver.delayed:
            self.discard(receiver.delayed)
        elif flow.config.ack_every > 1:
            self.set_timer(Kind.FLUSH, flow.number, self.now + flow.config.ack_wait)
        receiver.delayed = packet
        receiver.n_delayed += 1
        if receiver.n_delayed >= flow.config.ack_every or not may_delay:
            self.set_timer(Kind.FLUSH, flow.number, None)
            self.send_ack(flow)

    def send_control(self, flow: TwinFlow, name: str, headers: Mapping[int, Record], env: Any) -> None:
        """A receiver sends a control packet with a copy of a header (S-129, S-210)."""
        size, kind = env.control_size, env.control_kind
        for value, lo, hi in ((size, 1, 2**30), (kind, 0, 2**31 - 1)):
            if not lo <= value <= hi:
                text = "a control packet must have at most 2^30 bytes and a kind from 0 to 2^31 - 1"
                raise self.error(flow, name, text, value)
        copies = {offset: copy.deepcopy(record) for offset, record in headers.items()}
        packet = Packet(flow, 0, kind, self.now, copies, flow.reverse, 0, is_ack=True, control_size=size)
        self.in_flight += 1
        flow.packets += 1
        if flow.reverse:
            self.arrive(packet)
        else:
            self.return_ack(packet)

    def receive_trimmed(self, packet: Packet) -> None:
        """A packet arrives without its data: its ACK reports these as missing at once (S-136)."""
        flow, receiver = packet.flow, packet.flow.receiver
        if receiver.delayed:
            self.set_timer(Kind.FLUSH, flow.number, None)
            self.send_ack(flow)
        packet.is_ack, packet.route, packet.hop = True, flow.reverse, 0
        receiver.account(packet.offset, packet.size, packet.base, is_trimmed=True)
        receiver.delayed = packet
        self.send_ack(flow)

    def send_ack(self, flow: TwinFlow) -> None:
        """Turn the delayed packet into an ACK, which reports the missing data."""
        receiver = flow.receiver
        packet, receiver.delayed, receiver.n_delayed = receiver.delayed, None, 0
        assert packet is not None
        packet.front, packet.missing = receiver.front, receiver.missing
        if flow.outgoing:
            packet.front, packet.sacks = flow.incoming.rcv_nxt, flow.incoming.sacks
        if isinstance(flow.incoming, QuicIncoming):
            packet.sacks, packet.ack_delay = flow.incoming.reported, flow.incoming.ack_delay(self.now)
        if flow.config.ecn:
            if flow.echoes_marks:
                packet.codepoint, packet.ecn = NOT_ECT, int(flow.echo.has_marks)
            else:
                packet.codepoint = ECT_1 if flow.config.ecn == SCALABLE else ECT_0
                packet.ecn = flow.echo.marked
        if flow.reverse:
            self.arrive(packet)
        else:
            self.return_ack(packet)

    def return_ack(self, packet: Packet) -> None:
        """An ACK enters its pure delay."""
        flow = packet.flow
        wait = flow.config.ack_delay
        if flow.channel:
            if flow.channel.loses(is_ack=True):
                flow.receiver.acks_lost += 1
                self.trace(Kind.ACK_LOSS, flow.number, packet.offset)
                self.discard(packet)
                return
            wait = flow.channel.out(self.now, wait, packet.wire_size) - self.now
        self.put(wait, Kind.ACK, flow.number, packet)

    def ack(self, packet: Packet) -> None:
        """An ACK reaches the sender, which measures the RTT, detects gaps and can send again."""
        flow = packet.flow
        self.in_flight -= 1
        flow.packets -= 1
        if packet.control_size > 0:
            if flow.active:
                self.call_flow(flow, "on_control", packet, packet.offset)
            self.finish_if_done(flow)
            self.try_send(flow)
            return
        if not packet.is_trimmed and not isinstance(flow.outgoing, Quic):
            self.measure(flow, self.now - packet.sent)
        (self.acknowledge_reliable if flow.outgoing else self.acknowledge)(flow, packet)
        if flow.active:
            if flow.config.ecn and not packet.is_trimmed:
                front = flow.delivered if flow.outgoing else flow.expected
                flow.newly_marked, flow.ece = flow.echo.read(packet, flow.acked, front)
            if not packet.is_trimmed:  # S-137: no on_ack for a trimmed packet
                window, marked = flow.window, flow.newly_marked
                self.call_flow(flow, "on_ack", packet)
                stream = flow.outgoing
                if stream and flow.config.uses_prr == 2 and marked > 0 and flow.window < window:
                    stream.reduce_for_marks(flow.window, flow.acked, stream.newly_delivered, stream.finds_loss)
                if isinstance(stream, Quic) and flow.ece:
                    stream.begin_recovery()
            if 0 <= flow.config.size <= flow.delivered:
                flow.completed = True
                self.stop(flow)
            self.try_send(flow)
        else:
            self.finish_if_done(flow)

    def measure(self, flow: TwinFlow, time: int, ack_delay: int = 0) -> None:
        """Update the estimates with a measured RTT (S-47, S-81, S-216)."""
        first = flow.srtt == 0.0
        flow.rtt = to_seconds(time)
        is_plausible = time >= to_ps(min(flow.min_rtt, flow.rtt)) + ack_delay
        sample = flow.rtt - to_seconds(ack_delay) if is_plausible else flow.rtt
        if flow.outgoing:
            var = flow.outgoing.rttvar
            flow.outgoing.rttvar = flow.rtt / 2.0 if first else var + (abs(flow.srtt - sample) - var) / 4.0
        flow.srtt = flow.rtt if first else flow.srtt + (sample - flow.srtt) / 8.0
        flow.min_rtt = flow.rtt if first else min(flow.min_rtt, flow.rtt)
        if flow.monitor:
            flow.monitor.rtts.append(flow.rtt)
        flow.rtt_sum += flow.rtt
        flow.rtt_peak = max(flow.rtt_peak, flow.rtt)
        flow.n_rtts += 1

    def acknowledge(self, flow: TwinFlow, packet: Packet) -> None:
        """Account for the data that an ACK acknowledges (S-48)."""
        flow.timer_start = self.now
        flow.n_timeouts = flow.acked = 0
        if packet.front > flow.expected:  # otherwise everything it reports is known or was abandoned
            lost, flow.sender_missing = packet.missing - flow.sender_missing, packet.missing
            if lost > 0:
                flow.lost += lost
                flow.expected += lost
                if flow.active:
                    self.call_flow(flow, "on_loss")
            flow.acked, flow.expected = packet.front - flow.expected, packet.front

    def acknowledge_reliable(self, flow: TwinFlow, packet: Packet) -> None:
        """Account for the data that an ACK of a reliable flow acknowledges (S-82 to S-86)."""
        assert flow.outgoing is not None
        if isinstance(flow.outgoing, Quic):
            self.acknowledge_packets(flow, flow.outgoing, packet)
            return
        self.inform(flow, packet.sent)
        flow.acked, begins_recovery, starts = flow.outgoing.receive_ack(packet.front, packet.sacks, packet.size)
        flow.expected += flow.acked
        if flow.acked > 0:
            flow.n_timeouts = 0
        if starts and (flow.active or flow.number < self.n_flows):
            self.start_timer(flow)
        if flow.active:
            self.await_probe(flow)
        stream = flow.outgoing
        self.respond(flow, begins_recovery, flow.acked, stream.newly_delivered, stream.finds_loss)

    def acknowledge_packets(self, flow: TwinFlow, stream: Quic, ack: Packet) -> None:
        """Account for the packets that an ACK of a sender of type 4 acknowledges (S-216, S-217)."""
        numbers, largest = stream.newly_acked(ack.sacks), ack.sacks[0][1] - 1
        begins = False
        flow.acked = 0
        stream.recovered = stream.is_persistent = False
        if numbers:
            if numbers[-1] == largest:
                stream.first_sample = min(stream.first_sample, self.now)
                delay = min(ack.ack_delay, flow.config.ack_wait)
                self.measure(flow, self.now - stream.packets[largest].sent, delay)
            self.inform(flow)
            growth, begins = stream.acknowledge(numbers, largest)
            flow.expected += growth
            flow.acked, flow.n_timeouts = stream.reported, 0
        if flow.active or flow.number < self.n_flows:
            self.await_packets(flow)
        self.respond_to_losses(flow, stream, begins)

    def respond_to_losses(self, flow: TwinFlow, stream: Quic, begins: bool) -> None:
        """Call the hook if a recovery begins or congestion is persistent (S-218, S-220)."""
        if not stream.is_persistent:
            self.respond(flow, begins)
            return
        stream.recovering = not begins
        flow.min_rtt = flow.rtt
        if flow.active:
            self.call_flow(flow, "on_loss", kind=1)
        stream.recovering = False

    def deadline(self, flow: TwinFlow, stream: Quic) -> int:
        """Return the time of the next TIMEOUT of a sender of type 4 (S-219)."""
        if stream.loss_time < NEVER or not stream.packets:
            return stream.loss_time
        return min(NEVER, flow.timer_start + flow.timeout(self.now))

    def await_packets(self, flow: TwinFlow) -> None:
        """TIMEOUT of a sender of type 4 is pending at its deadline or earlier (S-219)."""
        if isinstance(flow.outgoing, Quic):
            deadline = self.deadline(flow, flow.outgoing)
            if self.timers.get((Kind.TIMEOUT, flow.number), NEVER) > deadline:
                self.set_timer(Kind.TIMEOUT, flow.number, max(self.now, deadline))

    def time_out_packets(self, flow: TwinFlow, stream: Quic) -> None:
        """TIMEOUT of a sender of type 4 (S-219)."""
        deadline, begins = self.deadline(flow, stream), False
        if not flow.active or deadline >= NEVER:
            return
        if deadline > self.now:
            self.set_timer(Kind.TIMEOUT, flow.number, deadline)
            return
        self.inform(flow)
        stream.is_persistent = False
        if stream.loss_time < NEVER:
            begins = stream.find_losses()
        else:
            flow.n_timeouts += 1
            stream.request_probes()
        self.await_packets(flow)
        self.respond_to_losses(flow, stream, begins)
        self.try_send(flow)

    def respond(
        self, flow: TwinFlow, begins: bool, acked: int = 0, delivered: int = 0, finds_loss: bool = False
    ) -> None:
        """Respond to an ACK, or to the end of a wait, that detects losses: call the hook, update the rate reduction."""
        assert flow.outgoing is not None
        if begins and flow.outgoing.reduces_proportionally:
            flow.outgoing.begin_prr(delivered)
        if begins and flow.active:
            self.call_flow(flow, "on_loss")
        if flow.outgoing.reduces_proportionally:
            flow.outgoing.update_prr(flow.window, acked, delivered, finds_loss)

    def inform(self, flow: TwinFlow, sent: int = 0) -> None:
        """Pass the clock, RTTs and timeouts to a sender; `sent`: when the acknowledged packet was sent (type 3)."""
        if isinstance(flow.outgoing, Quic):
            quic = flow.outgoing
            quic.now, quic.rtt, quic.srtt = self.now, flow.rtt, flow.srtt
        if isinstance(flow.outgoing, Rack):
            stream = flow.outgoing
            stream.now, stream.echo, stream.srtt, stream.min_rtt = self.now, sent, flow.srtt, flow.min_rtt
            stream.n_timeouts = flow.n_timeouts

    def await_probe(self, flow: TwinFlow) -> None:
        """S-153, unless the sender waits for something else; TIMEOUT is pending at the end of the wait or earlier."""
        if isinstance(flow.outgoing, Rack):
            flow.outgoing.await_probe(min(NEVER, flow.timer_start + flow.timeout(self.now)))
            self.await_end(flow.outgoing, flow.number)

    def await_end(self, stream: Rack, number: int) -> None:
        if stream.awaits != Awaits.NOTHING and self.timers.get((Kind.TIMEOUT, number), NEVER) > stream.wait_until:
            self.set_timer(Kind.TIMEOUT, number, stream.wait_until)

    def end_wait(self, flow: TwinFlow, stream: Rack) -> None:
        """S-154: the wait for reordered ACKs or for a probe ends."""
        self.inform(flow)
        begins_recovery, starts = stream.end_wait()
        if starts:
            self.start_timer(flow)
        else:
            self.set_timer(Kind.TIMEOUT, flow.number, max(self.now, flow.timer_start + flow.timeout(self.now)))
        self.await_end(stream, flow.number)
        self.respond(flow, begins_recovery)
        self.try_send(flow)

    def start_timer(self, flow: TwinFlow) -> None:
        """Start the retransmission timer of a reliable flow (S-87)."""
        flow.timer_start, deadline = self.now, self.now + flow.timeout(self.now)
        if self.timers.get((Kind.TIMEOUT, flow.number), NEVER) > deadline:
            self.set_timer(Kind.TIMEOUT, flow.number, deadline)

    def stop(self, flow: TwinFlow) -> None:
        """Stop a flow; ACKs, and timeouts unless it is a transfer, still account for data in flight (S-51)."""
        if flow.active:
            flow.active = False
            flow.finish = self.now
            flow.timers, flow.count = {}, math.inf
            for kind in (Kind.SEND, Kind.TIMER, Kind.STOP, *[Kind.TIMEOUT] * (flow.number >= self.n_flows)):
                self.set_timer(kind, flow.number, None)
            self.call_flow(flow, "on_stop")
            self.finish_if_done(flow)

    def check_timeout(self, flow: TwinFlow) -> None:
        if isinstance(flow.outgoing, Quic):
            self.time_out_packets(flow, flow.outgoing)
            return
        deadline = flow.timer_start + flow.timeout(self.now)
        if flow.in_flight == 0 or (flow.outgoing and not flow.active):
            return
        if isinstance(flow.outgoing, Rack) and flow.outgoing.awaits != Awaits.NOTHING:
            if flow.outgoing.wait_until <= self.now:
                self.end_wait(flow, flow.outgoing)
                return
            deadline = min(deadline, flow.outgoing.wait_until)
        if deadline > self.now:
            self.set_timer(Kind.TIMEOUT, flow.number, deadline)
            return
        flow.n_timeouts += 1
        if flow.outgoing:
            self.inform(flow)
            flow.outgoing.time_out()
            self.start_timer(flow)
        else:
            flow.lost += flow.in_flight
            flow.sender_base = flow.expected = flow.sent
            flow.sender_missing = 0
            flow.timer_start = self.now
        if flow.active:
            self.call_flow(flow, "on_loss", kind=1)
        self.try_send(flow)

    # ---- hooks -----------------------------------------------------------------------------------------------

    def new_headers(self) -> dict[int, Record]:
        """The headers of a new packet."""
        return self.blank_headers()

    def blank_headers(self) -> dict[int, Record]:
        return {offset: Record(layout) for offset, layout in self.layouts.items()}

    def call_link(self, link: TwinLink, name: str, packet: Packet, sojourn: int = 0) -> tuple[bool, bool]:
        """Call a hook of all routers of a link; return whether any drops the packet, and whether any marked it."""
        envs = [self.call_router(router, name, packet, sojourn) for router in link.routers]
        return any(env.drop for env in envs), any(env.mark for env in envs)

    def call_arrival(self, link: TwinLink, packet: Packet) -> tuple[bool, bool, bool, int]:
        """Call on_arrival of all routers; return whether any drops, marked and trims the packet, and the ACK filter."""
        envs = [self.call_router(router, "on_arrival", packet) for router in link.routers]
        drop, mark, trim = (any(getattr(env, name) for env in envs) for name in ("drop", "mark", "trim"))
        return drop, mark, trim, max((int(env.filter) for env in envs), default=0)

    def call_router(self, router: TwinRouter, name: str, packet: Packet | None = None, sojourn: int = 0) -> Any:
        """Call a hook of a router, if it has it, and apply the fields it wrote (S-103, S-107); return its `env`."""
        link, config = router.link, router.config
        if name not in router.hooks:
            return NOTHING_WRITTEN
        queue = link.queues[packet.queue_index].bytes if packet and link.schedules else link.queue
        env: Any = Record(
            LINK_ENV,
            {
                "now": to_seconds(self.now),
                "capacity": link.advertised_capacity(self.now),
                "buffer": link.config.buffer,
                "queue": queue,
                "backlog": link.queue,
                "queue_index": packet.queue_index if packet else 0,
                "queue_low": router.queue_low,
                "link": link.index,
                "packet_size": packet.wire_size if packet else 0,
                "kind": packet.kind if packet else 0,
                "flow": packet.flow.number if packet else -1,
                "flow_queue": link.flow_queue_of(packet) if packet and config.wants_flow_queue else 0,
                "sojourn": to_seconds(sojourn),
                "random": router.random.next() if config.wants_random else 0.0,
                "ecn": packet.codepoint if packet else NOT_ECT,
                "drop": 0,
                "mark": 0,
                "trim": 0,
                "next_interval": router.next_interval,
                "wait": 0.0,
                "filter": int(link.filters),
            },
        )
        self.invoke(router, name, packet, env)
        if math.isnan(env.next_interval):
            raise self.error(router, name, "next interval must not be NaN s", env.next_interval)
        router.next_interval = env.next_interval
        marked = packet is not None and env.mark != 0 and packet.codepoint in (ECT_0, ECT_1)
        env.mark = int(marked)
        if packet and marked:
            packet.codepoint = CE
        return env

    def call_flow(self, flow: TwinFlow, name: str, packet: Packet | None = None, kind: int = 0) -> float:
        """Call a hook of a flow, if it has it, and apply the fields it wrote (S-104); return its earliest timer [s]."""
        if name not in flow.hooks:
            return -1.0
        env = self.env_of(flow, name, packet, kind)
        if flow.config.wants_random:
            env.random = flow.random.next()
        self.invoke(flow, name, packet, env)
        if name == "on_stop":
            return -1.0
        for quantity, unit in (("rate", "bit/s"), ("window", "bytes")):
            value = getattr(env, quantity)
            if not (math.isfinite(value) and value >= 0.0):
                raise self.error(flow, name, f"{quantity} must be finite and >= 0 {unit}", value)
            setattr(flow, quantity, value)
        if flow.window == 0.0 and flow.limited_by == BY_WINDOW:
            flow.limited_by = BY_PACER
        timers = [env.timer, env.timer_1, env.timer_2, env.timer_3][: max(1, flow.config.n_timers)]
        for number, wait in enumerate(timers):
            if math.isnan(wait):
                raise self.error(flow, name, "timer must not be NaN s", wait)
            if wait >= 0.0 and "on_timer" in flow.hooks:
                self.set_flow_timer(flow, number, min(NEVER, self.now + max(1, to_ps(wait))))
        if env.counter >= 1 and "on_count" in flow.hooks:
            flow.count = flow.sent + env.counter
        return float(min((wait for wait in timers if wait >= 0.0), default=-1.0))

    def call_at_receiver(self, flow: TwinFlow, name: str, packet: Packet | None, headers: Mapping[int, Record]) -> Any:
        """Call a hook of the receiver; return its `env`, of which control packet and timer are used (S-129, S-210)."""
        env = self.env_of(flow, name, packet)
        if flow.config.wants_random:
            env.random = flow.random.next()
        self.invoke(flow, name, packet, env, headers)
        if "on_report" in flow.hooks and flow.active:
            if math.isnan(env.timer):
                raise self.error(flow, name, "timer must not be NaN s", env.timer)
            if env.timer >= 0.0:
                self.set_flow_timer(flow, REPORT_TIMER, min(NEVER, self.now + max(1, to_ps(env.timer))))
        return env

    def env_of(self, flow: TwinFlow, name: str = "", packet: Packet | None = None, kind: int = 0) -> Any:
        """Return the `env` of a hook of a flow, without random numbers; no name: that of a hook without a packet."""
        stream, in_flight = flow.outgoing, flow.outstanding
        size = (packet.control_size or packet.size) if packet else flow.largest_size
        marked = flow.newly_marked if name == "on_ack" else 0
        if packet and name == "on_receive" and packet.codepoint == CE:
            marked = packet.size
        if stream and name == "on_loss" and not isinstance(stream, Quic):
            in_flight = (stream.snd_nxt if kind == 1 else stream.flight_end) - stream.snd_una
        return Record(
            FLOW_ENV,
            {
                "now": to_seconds(self.now),
                "packet_size": size,
                "rtt": flow.rtt,
                "srtt": flow.srtt,
                "min_rtt": flow.min_rtt,
                "in_flight": in_flight,
                "delivered": flow.delivered,
                "lost": flow.lost,
                "rate": flow.rate,
                "window": flow.window,
                "timer": -1.0,
                "kind": kind,
                "flow": flow.number,
                "random": 0.0,
                "size": flow.config.size,
                "unsent": self.unsent(flow),
                "header_bytes": flow.config.header_bytes,
                "acked": flow.acked if name == "on_ack" else 0,
                "recovering": int(stream is not None and stream.recovering),
                "recovered": int(stream is not None and name == "on_ack" and stream.recovered),
                "undone": int(stream is not None and name == "on_ack" and stream.undone),
                "marked": marked,
                "ece": flow.ece if name == "on_ack" else 0,
                "timer_1": -1.0,
                "timer_2": -1.0,
                "timer_3": -1.0,
                "counter": 0,
                "control_size": 0,
                "control_kind": 0,
                "limited_by": flow.limited_by,
                "idle": to_seconds(self.now - flow.last_time) if name == "on_restart" else 0.0,
                "rto": to_seconds(flow.timeout(self.now)) if name == "on_restart" else 0.0,
                "transport": flow.config.transport,
            },
        )

    def unsent(self, flow: TwinFlow) -> int:
        has_end = flow.config.size >= 0 or flow.has_writes
        return flow.written(self.now) - flow.taken if has_end else NO_END

    def invoke(
        self,
        entity: TwinRouter | TwinFlow,
        name: str,
        packet: Packet | None,
        env: Record,
        headers: Mapping[int, Record] | None = None,
    ) -> None:
        if headers is None:
            headers = packet.headers if packet else self.blank_headers()
        try:
            entity.hooks[name](entity.state, headers[entity.config.header_offset], entity.params, env)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise self.error(entity, name, f"a hook failed: {reason}") from error

    def error(self, entity: TwinRouter | TwinFlow, name: str, text: str, value: float | None = None) -> NativeError:
        if isinstance(entity, TwinFlow):
            place = f"{'flow' if entity.number < self.n_flows else 'transfer'} {entity.number}"
        else:
            link = f"link {entity.link.index}"
            place = link if entity is entity.link.routers[0] else f"router {entity.index} at {link}"
        got = "" if value is None else f", got {value:.12g}"
        return NativeError(f"{text}{got} ({place}, {name}, t = {to_seconds(self.now):.12g} s)")

    # ---- results -----------------------------------------------------------------------------------------------

    def take_samples(self, until: int) -> None:
        """Take the samples that are due up to and including a time [ps]."""
        while len(self.rows) < self.n_samples and (len(self.rows) + 1) * self.period <= until:
            time = (len(self.rows) + 1) * self.period
            for link in self.links:
                link.measure(time)
                link.read_frames(time)
            self.rows.append(self.sample(time))
            for link in self.links:
                link.queue_peak = link.queue
                link.area = 0
            for flow in self.flows.values():
                flow.rtt_sum = flow.rtt_peak = 0.0
                flow.n_rtts = 0
            if self.is_lossless:
                self.find_deadlock(time)

    def sample(self, time: int = 0) -> dict[str, Any]:
        """Return the values of a sample taken at a time [ps] before the next event."""
        flows = [self.flows[k] for k in range(len(self.bottlenecks))]
        names = [name if flow.started else None for name, flow in zip(self.bottlenecks, flows, strict=True)]
        return {
            "sent": [flow.sent for flow in flows],
            "received": [flow.received for flow in flows],
            "bottleneck": [getattr(flow.state, n) if n else -1 for n, flow in zip(names, flows, strict=True)],
            "rtt": [flow.rtt_sum / flow.n_rtts if flow.n_rtts else 0.0 for flow in flows],
            "rtt_peak": [flow.rtt_peak for flow in flows],
            "queue": [link.queue for link in self.links],
            "queue_peak": [link.queue_peak for link in self.links],
            "arrived": [link.arrived for link in self.links],
            "dropped": [link.dropped for link in self.links],
            "dropped_bytes": [link.dropped_bytes for link in self.links],
            "marked": [link.marked for link in self.links],
            "queue_mean": [float(link.area) / float(self.period) for link in self.links],
            **self.sampled_queues,
            **(self.sampled_pauses(time) if self.is_lossless else {}),
            **({"words": [self.word(recorded) for recorded in self.recorded]} if self.recorded else {}),
        }

    def sampled_pauses(self, time: int) -> dict[str, list[int]]:
        """Return the time for which each link has been paused for each class [ps], and the number of PAUSE frames."""
        classes = [state for link in self.links for state in link.classes[: self.n_priorities]]
        paused = [state.time + (time - state.since if state.is_paused else 0) for state in classes]
        return {"paused": paused, "pauses": [state.count for state in classes]}

    @property
    def sampled_queues(self) -> dict[str, list[int]]:
        """Return bytes, drops and marks of each queue of links that have 2 to 64 queues; {} if no link has."""
        queues = [queue for link in self.links if 1 < len(link.queues) <= MAX_SAMPLED_QUEUES for queue in link.queues]
        fields = {"queues": "bytes", "queue_dropped": "dropped", "queue_marked": "marked"}
        return {name: [getattr(queue, field) for queue in queues] for name, field in fields.items()} if queues else {}

    def word(self, recorded: Word) -> int:
        """Return the bits of a recorded field as an integer."""
        if recorded.side == "env":
            record = self.env_of(self.flows[recorded.number])
        else:
            record = (self.routers if recorded.side == "links" else self.flows)[recorded.number].state
        value = getattr(record, recorded.field)
        value = value[recorded.element] if isinstance(value, list | np.ndarray) else value
        return int(np.array(value, recorded.dtype).view(np.int64))

    @property
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples, time first: totals since the start, except for the queues and `bottleneck`."""
        shown = {name: len(values) for name, values in self.sample().items()}
        return {
            name: np.array([row[name] for row in self.rows]).reshape(len(self.rows), n) for name, n in shown.items()
        }

    @property
    def histogram(self) -> NDArray[np.int64]:
        """Histograms of the queues, shape (n_links, 2, n_bins), as for ecc.native.Engine."""
        out = np.zeros((len(self.links), 2, len(bin_edges()) - 1), np.int64)
        for link in self.links:
            link.measure(self.now)
            for row, counts in zip(out[link.index], (link.time_in_bin, link.arrivals_in_bin), strict=True):
                row[list(counts)] = list(counts.values())
        return out

    @property
    def events_traced(self) -> NDArray[np.void]:
        """The first events, dtype EVENT."""
        return np.array(self.traced, EVENT)

    @property
    def states(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The records of the routers and of the flows."""
        flows = [self.flows[k] for k in range(self.n_flows)]
        return [router.state.values() for router in self.routers], [flow.state.values() for flow in flows]

    @property
    def link_results(self) -> NDArray[np.void]:
        """Totals of the links, shape (n_links,), dtype LINK_RESULT."""
        rows = [
            (k.arrived, k.departed, k.dropped, k.dropped_bytes, k.marked, k.queue, k.lost, k.lost_bytes)
            for k in self.links
        ]
        return np.array(rows, LINK_RESULT)

    @property
    def flow_results(self) -> NDArray[np.void]:
        """Results of the flows, shape (n_flows,), dtype FLOW_RESULT."""
        return np.array([self.flow_result(self.flows[k]) for k in range(self.n_flows)], FLOW_RESULT)

    def flow_result(self, f: TwinFlow) -> tuple[float, ...]:
        retransmitted = max(0, f.sent - f.config.size) if f.config.size >= 0 else 0
        retransmitted = f.sent - f.outgoing.snd_nxt if f.outgoing else retransmitted
        counts = (f.sent, f.received, f.delivered, f.lost, retransmitted, f.receiver.acks_lost, f.echo.marked)
        links = [*f.forward, *f.reverse]
        idle = f.config.access_delay + f.config.ack_delay + sum(link.config.delay for link in links)
        idle += sum(link.channel.additional(0) for link in links if link.channel)
        return (f.finish, f.completed, *counts, f.rate, f.window, f.srtt, f.min_rtt, idle)

    @property
    def transfers_finished(self) -> NDArray[np.void]:
        """Results of the finished transfers, sorted by end and number, dtype TRANSFER_RESULT."""
        return self.transfer_results(self.finished)

    @property
    def transfers_alive(self) -> NDArray[np.void]:
        """Results so far of the transfers under way, sorted by number, dtype TRANSFER_RESULT."""
        return self.transfer_results([flow for number, flow in self.flows.items() if number >= self.n_flows])

    def transfer_results(self, flows: list[TwinFlow]) -> NDArray[np.void]:
        rows = [
            (f.number, f.template_index, f.config.start, f.config.size, f.end, self.flow_result(f))
            for f in sorted(flows, key=lambda flow: (flow.end, flow.number))
        ]
        return np.array(rows, TRANSFER_RESULT)


def build_twin(setup: Setup, kind: type[Twin] = Twin, **options: Any) -> Twin:
    """Return the twin of a prepared run.

    Parameters
    ----------
    setup : Setup
    kind : type, optional
        Class of the twin.
    **options : object
        Further arguments of this class: seed, sample, n_samples, n_sampled, trace, recorded.
    """
    idle = Agent(np.zeros(1, np.dtype([]))[0], np.zeros(1, np.dtype([]))[0], {})
    agents = {"links": [idle] * len(setup.links), "flows": [idle] * len(setup.flows)}
    for part in setup.parts:
        for side, numbers, states, params, hooks in part.sides():
            for number, state, values in zip(numbers, states, np.broadcast_to(params, len(numbers)), strict=True):
                agents[side][number] = Agent(state, values, hooks)
        for side, numbers, states in part.begun_sides():
            for number, state in zip(numbers, states, strict=True):
                agents[side][number] = replace(agents[side][number], begun_state=state)
    n = setup.n_flows
    by_size = sorted(setup.parts, key=lambda part: part.header.itemsize)  # empty regions take no space
    headers = {part.header_offset: part.header for part in by_size}
    return kind(
        setup.links,
        setup.flows[:n],
        setup.routes,
        agents["links"],
        agents["flows"][:n],
        headers,
        n_additional=setup.n_additional,
        templates=setup.flows[n:],
        template_ends=agents["flows"][n:],
        changes=setup.changes,
        impairments=setup.impairments,
        delay_changes=setup.delay_changes,
        writes=setup.writes,
        servers=setup.servers,
        opportunities=setup.opportunities,
        quanta=setup.quanta,
        begun=setup.begun,
        under_way=setup.under_way,
        **options,
    )
