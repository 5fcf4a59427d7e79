"""The equations of hosts over queue disciplines, on numbers or on signals (`ecc.loops.marked_hosts`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import Deployment
from ecc.contract.values import simultaneous_states
from ecc.loops.marked_parts import FlowKind, HostKind, MarkingQueue, kinds_of, loads_of, queues_of, takes_feedback
from ecc.loops.marked_signals import Signal, delayed, derivative, evaluate, mean, nominal
from ecc.network.network import Network

__all__ = ["MarkedLoop"]


def held_from_tick(held: Any, interval: float) -> Any:
    """Return the held value after this tick, which a negative delay marks (`ecc.linear.sample_and_hold`)."""
    return delayed(held, -0.5 * interval)


class MarkedLoop:
    """The equations of the loop, on numbers or signals; states: w and h of each kind of flow, q and z of queues.

    `kinds` are the flows with windows, and `traffic` these and the unresponsive flows, in this order. `loads` are the
    rates of the unresponsive flows through each link [bit/s].
    """

    def __init__(self, deployed: Deployment, network: Network, once: bool = False) -> None:
        self.network = network
        self.once = once
        self.queues = queues_of(deployed, network)
        self.kinds = kinds_of(deployed, network)
        self.takes_feedback = [takes_feedback(kind.protocol, kind.states) for kind in self.kinds]
        unresponsive = loads_of(deployed, network)
        self.traffic: list[FlowKind] = [*self.kinds, *unresponsive]
        self.loads = np.zeros(network.n_links)
        for kind in unresponsive:
            self.loads[list(kind.route)] += kind.rate * len(kind.flows)
        self.names: list[tuple[str, int, str]] = []
        for g, kind in enumerate(self.kinds):
            self.names += [("host", g, name) for name in ("w", *kind.states)]
        for k, queue in enumerate(self.queues):
            self.names += [("queue", k, name) for name in ("q", *queue.states)]
        self.at = {name: place for place, name in enumerate(self.names)}
        self.number = {queue.link: k for k, queue in enumerate(self.queues)}
        dropping = [
            [self.signal(self.queues[self.number[link]], kind) == "loss" for link in kind.route if link in self.number]
            for kind in self.traffic
        ]
        self.max_upstream_drops = max((sum(some[:-1]) for some in dropping), default=0)

    # ---- the equations -----------------------------------------------------------------------------------

    def delays(self, z: Sequence[Any]) -> list[tuple[float, dict[int, float]]]:
        """Return D and F of each kind of traffic, queues included."""
        delays = []
        for kind in self.traffic:
            waited, late = 0.0, {}
            for link, delay in zip(kind.route, kind.forward, strict=True):
                late[link] = delay + waited
                if link in self.number:
                    k = self.number[link]
                    waited += nominal(z[self.at["queue", k, "q"]]) / self.queues[k].capacity
            delays.append((kind.rtt + waited, late))
        return delays

    def host_rtts(self, z: Sequence[Any]) -> list[float]:
        """Return D of each kind of flow with windows."""
        return [D for D, _ in self.delays(z)[: len(self.kinds)]]

    def moves(
        self,
        z: Sequence[Any],
        clocking: str = "rate",
        open_loop: bool = False,
        seen: Mapping[int, Mapping[str, Any]] | None = None,
        steps: Sequence[float] | None = None,
    ) -> tuple[list[Any], list[list[Any]], list[dict[str, Any]]]:
        """Return derivatives of all states, probabilities of queues by kind of traffic, and sampled q and y.

        `open_loop`: hosts receive constant probabilities. `seen`: q and y that disciplines sampled at their last ticks;
        if given, the result has the next value of a state with the clock "interval" instead of a derivative. `steps`:
        time between two actions of each kind of host [s]; if given, the result has the next values of the states of
        hosts instead of derivatives.
        """
        delays = self.delays(z)
        q = [z[self.at["queue", k, "q"]] for k in range(len(self.queues))]
        waits = {queue.link: q[k] / queue.capacity for k, queue in enumerate(self.queues)}
        rtts, rates = [], []
        for g, (kind, (D, late)) in enumerate(zip(self.kinds, delays, strict=False)):
            rtt: Any = kind.rtt
            for link in kind.route:
                if link in waits:
                    rtt = rtt + delayed(waits[link], D - late[link])
            rtts.append(rtt)
            rates.append(z[self.at["host", g, "w"]] / rtt)
        rates += [load.rate for load in self.traffic[len(self.kinds) :]]
        arrivals = [self._arrivals(k, rates, waits, delays) for k in range(len(self.queues))]
        if clocking == "ack":
            arrivals = [[queue.capacity + derivative(q[k])] for k, queue in enumerate(self.queues)]
        chosen = [self._chosen(k, z, sum(arrivals[k]), seen) for k in range(len(self.queues))]
        for _ in range(self.max_upstream_drops):  # drops reduce the arrivals downstream
            arrivals = [self._arrivals(k, rates, waits, delays, chosen) for k in range(len(self.queues))]
            chosen = [self._chosen(k, z, sum(arrivals[k]), seen) for k in range(len(self.queues))]
        out: list[Any] = [0.0] * len(self.names)
        for k in range(len(self.queues)):
            self._queue(k, z, out, arrivals[k], chosen[k], seen)
        for g, kind in enumerate(self.kinds):
            D, late = delays[g]
            acked = delayed(rates[g], D)
            for link in kind.route:  # growing queues spread ACKs out; ACKs that clock windows have a constant rate
                k = self.number.get(link, -1)
                if k >= 0 and isinstance(q[k], Signal):
                    grows = out[self.at["queue", k, "q"]] / self.queues[k].capacity
                    grows = grows - nominal(grows)
                    if steps is not None:  # mean over a step of the host
                        grows = mean(derivative(q[k]), steps[g]) / self.queues[k].capacity
                    acked = acked * (1.0 - delayed(grows, D - late[link]))
            acked = nominal(rates[g]) if clocking == "ack" else acked
            received = [[nominal(P) for P in some] for some in chosen] if open_loop else chosen
            w = z[self.at["host", g, "w"]]
            turns = nominal(rates[g]) / w if clocking == "ack" else 1.0 / rtts[g]  # windows acknowledged per second
            acked = self.kinds[g].s * turns if self.once else acked
            self._host(g, z, out, rtts[g], turns, acked, received, delays[g], None if steps is None else steps[g])
        saw = [{"q": q[k], "y": mean(sum(arrivals[k]), queue.interval)} for k, queue in enumerate(self.queues)]
        return out, chosen, saw

    def _queue(
        self,
        k: int,
        z: Sequence[Any],
        out: list[Any],
        arrivals: Sequence[Any],
        chosen: Sequence[Any],
        seen: Mapping[int, Mapping[str, Any]] | None,
    ) -> None:
        """Write the derivatives of a queue and its states, or their values after a tick, into `out`."""
        queue = self.queues[k]
        accepted = [
            y * (1.0 - P) if self.signal(queue, kind) == "loss" else y
            for y, P, kind in zip(arrivals, chosen, self.traffic, strict=True)
        ]
        out[self.at["queue", k, "q"]] = sum(accepted) - queue.capacity
        known = self._known(k, z, sum(arrivals), seen)
        ticking = known | {
            name: held_from_tick(signal, queue.interval) for name, signal in (seen or {}).get(k, {}).items()
        }
        for name, state in queue.states.items():
            if state.law is None:
                continue
            if seen is not None and state.clock == "interval":  # earlier states have stepped already
                place = self.at["queue", k, name]
                out[place], ticking[name] = evaluate(state.law, ticking), held_from_tick(z[place], queue.interval)
                continue
            current, after = known[name], evaluate(state.law, known)
            rate = known["y"] if state.clock == "arrival" else 1.0 / queue.interval if queue.interval else 1.0
            moved = after if state.clock == "continuous" else (after - current) * rate
            out[self.at["queue", k, name]] = moved

    def _arrivals(
        self, k: int, rates: Sequence[Any], waits: Mapping[int, Any], delays: Any, chosen: Any = ()
    ) -> list[Any]:
        """Return the arrivals of each kind of traffic at a queue, less drops upstream, delayed by upstream waits."""
        queue, arrivals = self.queues[k], []
        for g, (kind, x, (_, late)) in enumerate(zip(self.traffic, rates, delays, strict=True)):
            if queue.link not in late:
                arrivals.append(0.0)
                continue
            y = delayed(x, late[queue.link]) * (len(kind.flows) / queue.packet)
            for link in kind.route[: kind.route.index(queue.link)]:
                if link in waits:
                    ago, upstream = late[queue.link] - late[link], self.number[link]
                    y = y * (1.0 - derivative(delayed(waits[link], ago)))
                    if chosen and self.signal(self.queues[upstream], kind) == "loss":
                        y = y * (1.0 - delayed(chosen[upstream][g], ago))
            arrivals.append(y)
        return arrivals

    def _known(self, k: int, z: Sequence[Any], y: Any, seen: Mapping[int, Mapping[str, Any]] | None) -> dict[str, Any]:
        queue = self.queues[k]
        q = z[self.at["queue", k, "q"]]
        before = delayed(q, queue.interval) if seen is None else seen.get(k, {}).get("q", q)
        return {
            **{name: z[self.at["queue", k, name]] for name in queue.states},
            "q": q,
            "q_prev": before,
            "y": y,
            "C": queue.capacity,
            "T": queue.interval,
            "p": queue.p,
        }

    def _chosen(self, k: int, z: Sequence[Any], y: Any, seen: Mapping[int, Mapping[str, Any]] | None) -> list[Any]:
        """Return the probability at a queue for each kind of traffic; 0 for flows on other routes."""
        queue, known = self.queues[k], self._known(k, z, y, seen)
        probabilities: dict[float, Any] = {}
        for kind in self.traffic:
            if kind.scalable not in probabilities:
                probabilities[kind.scalable] = evaluate(queue.law, known | {"scalable": kind.scalable})
        return [probabilities[kind.scalable] if queue.link in kind.route else 0.0 for kind in self.traffic]

    def signal(self, queue: MarkingQueue, kind: FlowKind) -> str:
        return "mark" if queue.marks and kind.protocol.ecn_echo is not None else "loss"

    def _host(
        self,
        g: int,
        z: Sequence[Any],
        out: list[Any],
        rtt: Any,
        turns: Any,
        acked: Any,
        chosen: Sequence[Any],
        delays: Any,
        step: float | None,
    ) -> None:
        """Write the derivatives of the states and the window of a kind of flow, or their next values, into `out`."""
        kind, (D, late) = self.kinds[g], delays
        spared: dict[str, Any] = {"mark": 1.0, "loss": 1.0}
        for k, queue in enumerate(self.queues):
            if queue.link in late:
                signal = self.signal(queue, kind)
                spared[signal] = spared[signal] * (1.0 - delayed(chosen[k][g], D - late[queue.link]))
        known = self._known_by_host(g, z, rtt, 1.0 - spared["mark"], delays)
        ticking = dict(known)
        for name in (*kind.states, "w"):
            current = known[name]
            state = kind.states.get(name)
            law = kind.protocol.source_law if state is None else state.law
            if state is None:
                ticking |= {other: known[other] for other in simultaneous_states(kind.protocol)}
            after = current if law is None else evaluate(law, ticking)
            moved = after if state is not None and state.clock == "continuous" else (after - current) * turns
            for signal, unsignaled in spared.items():
                jump = kind.jumps(signal) if state is None else state.jumps.get(signal)
                if jump is not None and not (isinstance(unsignaled, float) and unsignaled == 1.0):
                    moved = moved + acked * (1.0 - unsignaled) / kind.s * (evaluate(jump, known) - current)
            place = self.at["host", g, name]
            out[place] = moved if step is None else current + step * moved
            if step is not None:  # laws of the next states and of the window take this one after the step
                ticking[name] = held_from_tick(z[place], step)

    def _known_by_host(
        self, g: int, z: Sequence[Any], rtt: Any, marked: Any, delays: tuple[float, dict[int, float]]
    ) -> dict[str, Any]:
        """Return the arguments of the laws of a kind of flow."""
        kind = self.kinds[g]
        values = {name: z[self.at["host", g, name]] for name in ("w", *kind.states)}
        feedback = self._feedback(kind, z, delays) if self.takes_feedback[g] else 0.0
        return {
            **values,
            "w_rtt": delayed(values["w"], delays[0]),
            "R": feedback,
            "D": rtt,
            "s": kind.s,
            "a": kind.a,
            "marked": marked,
            "p": kind.p,
        }

    def largest_cut(self, z: NDArray[np.float64], active: Sequence[int]) -> tuple[float, float, str]:
        """Return the largest window reduction by one signal relative to a queue: reduction, queue [packets], host.

        Both count packets of the host.
        """
        largest = (0.0, 1.0, "")
        delays = self.delays(z.tolist())
        for g, kind in enumerate(self.kinds):
            known = self._known_by_host(g, z.tolist(), delays[g][0], 0.0, delays[g])
            for k in active:
                queue, jump = self.queues[k], kind.jumps(self.signal(self.queues[k], kind))
                if queue.link in kind.route and jump is not None:
                    cut = (known["w"] - float(evaluate(jump, known))) / kind.s
                    holds = float(z[self.at["queue", k, "q"]]) * queue.packet / kind.s
                    if cut * largest[1] > largest[0] * max(holds, 1.0):
                        largest = cut, max(holds, 1.0), type(kind.protocol).__name__
        return largest

    def _feedback(self, kind: HostKind, z: Sequence[Any], delays: tuple[float, dict[int, float]]) -> Any:
        """Return the feedback of the protocol's routers on the queues that its packets meet, summed over the path."""
        total: Any = 0.0
        for link in kind.route:
            q: Any = 0.0
            if link in self.number:
                k = self.number[link]
                q = delayed(z[self.at["queue", k, "q"]] * self.queues[k].packet, delays[0] - delays[1][link])
            known = {"q": q, "C": float(self.network.capacities[link]), "s": kind.s, "p": kind.p}
            total = total + evaluate(kind.protocol.router_law, known)
        return total
