"""Windows over a full buffer, or over step marking, as a map per round: the form in which their cycle is proven.

The map is that of `ecc.cycles.loss_motion.PerRound`: all flows act once per RTT. States of each flow are its window,
the states of its host, the remembered value (if the host has a memory law), the dropped data and the last growth of the
window, and whether it responds to a loss in the next round. Each flow is a group, so that deviations include those
between flows. Capacity, RTT and buffer of the link are parameters of the map, which is proven for boxes of networks.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from math import inf
from types import SimpleNamespace
from typing import Any

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import RoundMap
from ecc.contract.protocol import Protocol
from ecc.cycles.loss_motion import Group, Host, Law, Motion, PerRound
from ecc.cycles.losses import windows_in_rounds
from ecc.errors import ConvergenceError
from ecc.laws.balls import Ball, on_balls, with_balls
from ecc.models.shared.cycles import cycle_of
from ecc.network.network import Network

__all__ = ["loss_rounds"]

_SETTLINGS = (1000, 8000)  # rounds before a cycle is sought
_LONGEST, _SAME = 4000, 1e-11  # maximum length of a cycle, and the relative difference of its ends


def loss_rounds(
    loop: Protocol | ProtocolAssignment, network: Network, losers: str = "arrivals", buffer: float | None = None
) -> RoundMap:
    """Return the map per round of windows over a full buffer, with a state of the cycle that it reaches.

    Parameters
    ----------
    loop, network, losers
        As for `ecc.cycles.losses.loss_cycle` in discrete time.
    buffer : float, bytes, optional
        Buffer instead of that of the network, which is a whole number of bytes.

    Returns
    -------
    RoundMap
        Its `p` has the attributes `capacity` [bit/s], `rtt` [s] and `buffer` [bytes], or the threshold of marks.

    Raises
    ------
    LinearizationError
        The loop is of another kind, or RTTs differ.
    ConvergenceError
        The motion does not repeat within 4,000 rounds, after 8,000 rounds.
    """
    link, begin = windows_in_rounds(loop, network, losers)
    on_floats = tuple(group.host for group in link.groups)
    enclosed = tuple(_host_on_balls(host) for host in on_floats)

    def motions(p: Any) -> PerRound:
        hosts = enclosed if isinstance(p.capacity, Ball) else on_floats
        groups = tuple(Group(host, 1.0, p.rtt) for host in hosts)
        return PerRound(p.capacity, 8.0 * p.buffer, groups, link.marks, losers)

    room = link.room / 8.0 if buffer is None else buffer
    p = SimpleNamespace(capacity=link.capacity, rtt=float(network.rtts[0]), buffer=room, motions=motions)
    start = _state(begin, motions(p))
    for settling in _SETTLINGS:
        longest = min(settling, _LONGEST)
        states, closed = cycle_of(lambda state: round_of_windows(state, p), start, settling, longest, _SAME)
        if closed:
            break
    else:
        raise ConvergenceError(f"windows do not repeat within {longest} rounds, after {settling} rounds")
    return RoundMap(round_of_windows, tuple(states[0]), p, duration=p.rtt + 8.0 * room / p.capacity, rounds=len(states))


def round_of_windows(state: Sequence[Any], p: Any) -> list[Any]:
    """Return the states of `loss_rounds` after a round."""
    motions = p.motions(p)
    now, k = (
        Motion.of([[0.0] * (1 + len(group.host.states)) for group in motions.groups], [0.0] * len(motions.groups)),
        0,
    )
    for g, group in enumerate(motions.groups):
        size = 1 + len(group.host.states)
        now.y[g] = list(state[k : k + size])
        k += size
        if group.host.memory is not None:
            now.memory[g] = state[k]
            k += 1
        now.dropped[g], growth, responds = state[k : k + 3]
        now.flight[g] = (growth, 0.0, 1.0, 0.0)
        now.due[g] = 0.0 if responds else inf
        k += 3
    motions.advance(now)
    return _state(now, motions)


def _state(now: Motion, motions: PerRound) -> list[Any]:
    """Return the states between two rounds."""
    state: list[Any] = []
    for g, group in enumerate(motions.groups):
        responds = 0 if now.due[g] == inf else 1
        remembered = [] if group.host.memory is None else [now.memory[g]]
        # a flow that responds begins to count again
        state += [*now.y[g], *remembered, 0.0 if responds else now.dropped[g], now.flight[g][0], responds]
    return state


def _host_on_balls(host: Host) -> Host:
    """Return a host with its laws and numbers on balls."""
    enclosed = copy.copy(host)
    enclosed.constants = with_balls(host.constants)

    def on(law: Law | None) -> Any:
        return None if law is None else Law(on_balls(law.law), law.names)

    enclosed.source, enclosed.response, enclosed.memory = on(host.source), on(host.response), on(host.memory)
    enclosed.moves = {name: on(law) for name, law in host.moves.items()}
    enclosed.jumps = {name: on(law) for name, law in host.jumps.items()}
    if host._feedback is not None:
        enclosed._feedback = on_balls(host._feedback)
    return enclosed
