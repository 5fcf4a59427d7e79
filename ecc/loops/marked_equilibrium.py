"""The equilibrium of hosts over queue disciplines, from their laws (`ecc.loops.marked_hosts`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import Deployment
from ecc.errors import LinearizationError
from ecc.loops.marked_equations import MarkedLoop
from ecc.loops.marked_parts import HostKind
from ecc.loops.marked_signals import evaluate
from ecc.network.network import Network

__all__ = ["ROUNDING", "MarkingEquilibrium", "equilibria_of_a_family", "equilibrium_of_marks", "settled"]

ROUNDING = 1e-10
"""Relative accuracy of an equilibrium."""
_SAME = 1e-12  # relative change by a Newton step below which it is due to rounding
_STEPS, _NEWTON = 500, 20  # steps on the path to the equilibrium; Newton steps from a point of it
_NEAR_STEPS = 31  # steps on the path from the equilibrium of a similar loop, before a search from the beginning
_FAR = 1e3  # relative change from that equilibrium above which Newton's method has diverged
_SWEEPS, _HALVINGS, _MAX_VALUE = 3, 60, 1e9  # limits of the search for a start
_NEWTON_STEPS, _EULER_STEPS, _COARSE = 4, 12, 1e-6  # steps that settle host states; relative width of a bracket then

_PREVIOUS: ContextVar[dict[Any, NDArray[np.float64]] | None] = ContextVar("_PREVIOUS", default=None)
"""Names of states -> their last equilibrium; None outside `equilibria_of_a_family`."""


@contextmanager
def equilibria_of_a_family(known: dict[Any, NDArray[np.float64]] | None = None) -> Iterator[None]:
    """Start the search for each equilibrium at that of the previous member of a family, as long as this converges.

    A search from the beginning takes a hundred times as many evaluations of the laws.

    Parameters
    ----------
    known : dict, optional
        Equilibria of earlier members, to which those found are added; for example, one dict for all uses of a family.
    """
    before = _PREVIOUS.set({} if known is None else known)
    try:
        yield
    finally:
        _PREVIOUS.reset(before)


@dataclass(frozen=True)
class MarkingEquilibrium:
    """The equilibrium of hosts over queue disciplines: see `equilibrium_of_marks`.

    `windows` [bit] and `rates` [bit/s] by flow; `queues` [bit] and `probabilities`, the maximum over flows, by link;
    `chosen`, shape (n_flows, n_links), the probability for packets of each flow; `states` of links and `host_states` of
    flows, by name.
    """

    windows: NDArray[np.float64]
    rates: NDArray[np.float64]
    rtts: NDArray[np.float64]
    queues: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    chosen: NDArray[np.float64]
    states: tuple[Mapping[str, float], ...]
    host_states: tuple[Mapping[str, float], ...]


def _limits(
    loop: MarkedLoop,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the minimum, maximum, scale and first guess of all states."""
    low, high, size, start = (np.zeros(len(loop.names)) for _ in range(4))
    flows, available = np.zeros(loop.network.n_links), loop.network.capacities - loop.loads
    for kind in loop.kinds:
        flows[list(kind.route)] += len(kind.flows)
    for place, (part, number, name) in enumerate(loop.names):
        if name == "w":
            kind = loop.kinds[number]
            share = min(available[link] / flows[link] for link in kind.route)
            w = max(share * kind.rtt, 2.0 * kind.s)
            low[place], high[place], size[place], start[place] = 1e-6 * kind.s, 1e6 * (w + kind.s), kind.s, w
            continue
        if name == "q":
            queue = loop.queues[number]
            rtts = [kind.rtt for kind in loop.kinds if queue.link in kind.route]
            size[place] = max(queue.capacity * min(rtts, default=0.0), 1.0)
            high[place], start[place] = 1e9, 0.05 * size[place]
            continue
        state = (loop.kinds if part == "host" else loop.queues)[number].states[name]
        first = state.initial
        if callable(first):
            queue = loop.queues[number]
            first = evaluate(first, {"C": queue.capacity, "T": queue.interval, "p": queue.p})
        low[place], high[place], start[place] = state.lowest, state.highest, first
        size[place] = max(abs(first), state.highest if np.isfinite(state.highest) else 1.0, 1e-9)
    return low, high, size, start


def _start(
    loop: MarkedLoop, z: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a start for the search: fair windows, and states and queues at which these windows are constant.

    The state of a queue is set so that windows are constant, with host states settled, and the queue so that its
    state is constant. Newton's method cannot start below the threshold of a law: its slope is 0 there.
    """
    z = z.copy()
    shares = [z[loop.at["host", g, "w"]] / kind.rtt for g, kind in enumerate(loop.kinds)]
    for _ in range(_SWEEPS):
        for g, D in enumerate(loop.host_rtts(z.tolist())):
            z[loop.at["host", g, "w"]] = shares[g] * D
        for k, queue in enumerate(loop.queues):
            host = next((g for g, kind in enumerate(loop.kinds) if queue.link in kind.route), None)
            if host is None:
                continue
            w, q = loop.at["host", host, "w"], loop.at["queue", k, "q"]
            states = [loop.at["host", host, name] for name in loop.kinds[host].states]
            for place in [*(loop.at["queue", k, name] for name in queue.states), q]:
                if _balance(loop, z, place, w, low, high, states):
                    if place != q:
                        _balance(loop, z, q, place, low, high)
                    break
    return z


def _at_limits(
    loop: MarkedLoop, z: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> list[int]:
    """Return the windows, and states of queues that choose packets, that are at a limit: not an equilibrium."""
    chosen = loop.moves(z.tolist())[1]
    choosing = [
        loop.at["queue", k, name]
        for k, queue in enumerate(loop.queues)
        for name in queue.states
        if max(map(float, chosen[k])) > 0.0
    ]
    places = [*(loop.at["host", g, "w"] for g in range(len(loop.kinds))), *choosing]
    return [place for place in places if not low[place] < z[place] < high[place]]


def _settle_states(loop: MarkedLoop, z: NDArray[np.float64], rows: Sequence[int], low: Any, high: Any) -> None:
    """Move some states to values at which they are constant, with all other states held.

    Newton's method is tried first, then implicit Euler steps of growing length.
    """
    places = list(rows)
    initial = z[places]
    shortest = min(kind.rtt for kind in loop.kinds)
    for steps in (
        (np.full(_NEWTON_STEPS, 1e9 * shortest), shortest * np.logspace(-2.0, 9.0, _EULER_STEPS)) if places else ()
    ):
        z[places] = initial
        for dt in steps:
            G = np.array(loop.moves(z.tolist())[0], float)[places]
            J = np.empty((len(places), len(places)))
            for column, place in enumerate(places):
                shifted, h = z.copy(), 1e-7 * max(abs(z[place]), 1e-6)
                shifted[place] += h if z[place] + h <= high[place] else -h
                moved = np.array(loop.moves(shifted.tolist())[0], float)[places]
                J[:, column] = (moved - G) / (shifted[place] - z[place])
            before = z[places]
            z[places] = _step(before, G, J, float(dt), low[places], high[places])
            if dt >= 1e6 * shortest and np.all(np.abs(z[places] - before) <= 1e-9 * np.abs(z[places])):
                return


def _balance(
    loop: MarkedLoop,
    z: NDArray[np.float64],
    place: int,
    row: int,
    lowest: NDArray[np.float64],
    highest: NDArray[np.float64],
    resting: Sequence[int] = (),
) -> bool:
    """Set a state by bisection to a value at which another state is constant; return whether there is such a value.

    States in `resting` are settled for each value.
    """

    def moved(value: float) -> float:
        z[place] = value
        _settle_states(loop, z, resting, lowest, highest)
        return float(loop.moves(z.tolist())[0][row])

    initial, low, high = z.copy(), float(lowest[place]), float(highest[place])
    upper = min(high, low + 1.0)
    first, last = moved(low), moved(upper)
    while first * last >= 0.0 and upper < min(high, _MAX_VALUE):
        upper = min(high, 2.0 * upper)
        last = moved(upper)
    if first * last >= 0.0:
        z[:] = initial
        return False
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + upper)
        if resting and upper - low <= _COARSE * upper:
            break
        low, upper = (middle, upper) if moved(middle) * first > 0.0 else (low, middle)
    moved(upper)
    return True


def _settle(loop: MarkedLoop) -> NDArray[np.float64]:
    """Return the equilibrium, by Newton's method from points on a trajectory of the loop without delays."""
    low, high, size, start = _limits(loop)

    def moving(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([float(moved) for moved in loop.moves(z.tolist())[0]])

    def slopes(z: NDArray[np.float64], G: NDArray[np.float64]) -> NDArray[np.float64]:
        steps = np.where(z + 1e-7 * size > high, -1e-7, 1e-7) * np.maximum(np.abs(z), 1e-3 * size)
        return np.array([(moving(z + h) - G) / h.sum() for h in np.diag(steps)]).T

    def change(new: NDArray[np.float64], z: NDArray[np.float64]) -> float:
        return float(np.max(np.abs(new - z) / np.maximum(np.abs(z), 0.01 * size)))

    def newton_step(z: NDArray[np.float64]) -> NDArray[np.float64]:
        G = moving(z)
        return _step(z, G, slopes(z, G), 1e12, low, high)

    def converged(z: NDArray[np.float64], first: NDArray[np.float64] | None = None) -> NDArray[np.float64] | None:
        """Return the limit of Newton's method from z, of which the first step may be known; None without a limit."""
        last = np.inf
        for k in range(_NEWTON):
            new = first if first is not None and k == 0 else newton_step(z)
            moved, z = change(new, z), new
            if max(moved, last) < ROUNDING:
                off = np.where(z <= low, moving(z), np.where(z >= high, -moving(z), 0.0))  # back from a limit
                return z if np.all(off * shortest < 1e-6 * size) else None
            last = moved
        return None

    def accepted(z: NDArray[np.float64]) -> bool:
        return bool(np.all(z < high)) and not _at_limits(loop, z, low, high)

    def followed(z: NDArray[np.float64], steps: range) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the equilibrium on a trajectory from z, or None, and a point with a state at its limit, or None."""
        dt, stuck, far = 0.02 * shortest, None, np.inf  # far: change of the last step
        for k in steps:
            if k % 10 == 0 and (candidate := converged(z)) is not None:
                if accepted(candidate):
                    return candidate, None
                stuck = candidate
                if far < _SAME:  # all further steps end here
                    break
            G = moving(z)
            new = _step(z, G, slopes(z, G), dt, low, high)
            far = change(new, z)
            dt = min(dt * min(max(0.3 / max(far, 1e-12), 0.3), 3.0), 1e9)
            z = z if far > 1.0 and dt > 1e-9 else new
        return None, stuck

    shortest = min(kind.rtt for kind in loop.kinds)
    previous = _PREVIOUS.get()
    known = {} if previous is None else previous
    family = (*loop.names, loop.once)
    if family in known:
        z = np.clip(known[family], low, high)
        first = newton_step(z)
        # Newton's method would add rounding errors to the same equilibrium: models would not be affine in the gain.
        same = change(first, z) < _SAME
        candidate = z if same else converged(z, first)
        if candidate is None or not accepted(candidate):
            candidate = followed(z, range(1, _NEAR_STEPS))[0]
        if candidate is not None and change(candidate, z) < _FAR:
            known[family] = candidate
            return candidate
    candidate, stuck = followed(_start(loop, start, low, high), range(_STEPS))
    if candidate is not None:
        known[family] = candidate
        return candidate
    if stuck is not None:
        return stuck
    raise LinearizationError(
        "no equilibrium was found: even without delays, windows and queues of these laws do not settle"
    )


def _step(
    z: NDArray[np.float64],
    G: NDArray[np.float64],
    J: NDArray[np.float64],
    dt: float,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return z after an implicit Euler step of z' = G; states that would pass their limits are held there."""
    held = ((z <= low) & (G < 0.0)) | ((z >= high) & (G > 0.0))
    new = z
    for _ in z:
        matrix = np.eye(len(z)) / dt - J
        matrix[held] = np.eye(len(z))[held]
        try:
            limit = np.clip(new, low, high)
            new = np.where(held, limit, z + np.linalg.solve(matrix, np.where(held, limit - z, G)))
        except np.linalg.LinAlgError:
            return np.clip(z + 0.5 * dt * G, low, high)
        outside = ((new < low) | (new > high)) & ~held
        if not outside.any():
            break
        held |= outside
    return np.clip(new, low, high)


def settled(
    deployed: Deployment, network: Network, once: bool = False
) -> tuple[MarkedLoop, NDArray[np.float64], list[int]]:
    """Return the loop, its equilibrium, and the queues that choose packets there."""
    loop = MarkedLoop(deployed, network, once)
    if not loop.queues:
        raise ValueError("windows over links without a queue discipline have no linear model: their queues overflow")
    for link, rate in enumerate(loop.loads):
        if rate >= network.capacities[link]:
            raise LinearizationError(
                f"no equilibrium: unresponsive flows send {rate:g} bit/s through link {link}, whose capacity is "
                f"{network.capacities[link]:g} bit/s"
            )
    z = _settle(loop)
    low, high, _, _ = _limits(loop)
    _, chosen, _ = loop.moves(z.tolist())
    loads = loop.loads.copy()
    rates = [z[loop.at["host", g, "w"]] / D for g, D in enumerate(loop.host_rtts(z.tolist()))]
    for g, (kind, x) in enumerate(zip(loop.kinds, rates, strict=True)):
        w, limit = z[loop.at["host", g, "w"]] / 8.0, kind.protocol.receiver_window
        if limit and w > limit:
            raise LinearizationError(
                f"no equilibrium: windows of {type(kind.protocol).__name__} would be {w:.6g} bytes, more than its "
                f"receiver_window of {limit:g} bytes"
            )
        loads[list(kind.route)] += x * len(kind.flows)
    for link, rate in enumerate(loads):
        if link not in loop.number and rate > network.capacities[link] * (1.0 + 1e-9):
            raise LinearizationError(f"no equilibrium: link {link} has no queue discipline and would overflow")
    active = []
    for k, queue in enumerate(loop.queues):
        P = max(chosen[k])
        if P > 0.0:
            active.append(k)
        held = z[loop.at["queue", k, "q"]] * queue.packet / 8.0
        buffer = network.links[queue.link].buffer
        if buffer is not None and held > buffer:
            raise LinearizationError(
                f"no equilibrium: the queue of link {queue.link} would be {held:.6g} bytes, more than its buffer"
            )
    for place in _at_limits(loop, z, low, high):
        part, number, name = loop.names[place]
        at_link = f" at link {loop.queues[number].link}" if part == "queue" else ""
        owner = (loop.kinds if part == "host" else loop.queues)[number].protocol
        raise LinearizationError(
            f"no equilibrium: {name} of {type(owner).__name__}{at_link} stays at its limit {z[place]:g}, with windows "
            f"of {min(z[loop.at['host', g, 'w']] / kind.s for g, kind in enumerate(loop.kinds)):.3g} packets"
        )
    if not active:
        raise LinearizationError("no equilibrium: no link would mark or drop, so windows grow without end")
    return loop, z, active


def equilibrium_of_marks(deployed: Deployment, network: Network, once: bool = False) -> MarkingEquilibrium:
    """Return the equilibrium of hosts over queue disciplines, from their laws.

    Parameters
    ----------
    deployed : Deployment
        Protocols of flows and links (`ProtocolAssignment.deploy`).
    network : Network
    once : bool, optional
        Hosts respond once per RTT, in which either all packets or no packets are chosen (step marking), instead of to
        each chosen packet.

    Raises
    ------
    LinearizationError
        If no equilibrium exists.
    ValueError
        If a law takes arguments that are not available, or a protocol has no linear model.
    """
    loop, z, _ = settled(deployed, network, once)
    _, chosen, _ = loop.moves(z.tolist())
    windows, rates, rtts = (np.zeros(network.n_flows) for _ in range(3))
    queues, probabilities = np.zeros(network.n_links), np.zeros(network.n_links)
    by_flow = np.zeros((network.n_flows, network.n_links))
    states: list[dict[str, float]] = [{} for _ in range(network.n_links)]
    host_states: list[dict[str, float]] = [{} for _ in range(network.n_flows)]
    for g, (kind, (D, _)) in enumerate(zip(loop.traffic, loop.delays(z.tolist()), strict=True)):
        w = float(z[loop.at["host", g, "w"]]) if isinstance(kind, HostKind) else kind.rate * D
        windows[list(kind.flows)], rates[list(kind.flows)], rtts[list(kind.flows)] = w, w / D, D
        if isinstance(kind, HostKind):
            for flow in kind.flows:
                host_states[flow] = {name: float(z[loop.at["host", g, name]]) for name in kind.states}
    for k, queue in enumerate(loop.queues):
        queues[queue.link] = z[loop.at["queue", k, "q"]] * queue.packet
        probabilities[queue.link] = max(map(float, chosen[k]))
        for kind, P in zip(loop.traffic, chosen[k], strict=True):
            by_flow[list(kind.flows), queue.link] = P
        states[queue.link] = {name: float(z[loop.at["queue", k, name]]) for name in queue.states}
    return MarkingEquilibrium(windows, rates, rtts, queues, probabilities, by_flow, tuple(states), tuple(host_states))
