"""Windows over a marking threshold as a map per round: the form in which their cycle is proven.

The map is that of `ecc.cycles.step_marking` in discrete time. The states of a flow are its window, the states of its
host, and whether its window is held in the next round. Equal flows are two groups, one flow and all others, so that the
multipliers of the sum and of a difference are those of the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import RoundMap
from ecc.contract.protocol import Protocol
from ecc.cycles.marked_links import MarkedWindows, marked_windows, starting_windows
from ecc.errors import ConvergenceError
from ecc.laws.arguments import arguments_from
from ecc.laws.balls import Ball, on_balls, with_balls
from ecc.models.shared.cycles import cycle_of
from ecc.network.network import Network

__all__ = ["LONGEST", "cycle_of_rounds", "marking_rounds", "round_over_threshold", "rounds_over_threshold"]

LONGEST = 4000
"""Maximum number of rounds of a cycle."""
_SETTLING, _SAME = 4000, 1e-11  # rounds before a cycle is sought, relative rounding


def marking_rounds(loop: Protocol | ProtocolAssignment, network: Network) -> RoundMap:
    """Return the map per round of windows over a marking threshold, with a state of the cycle that it reaches.

    Parameters
    ----------
    loop, network
        As for `ecc.cycles.step_marking.step_marking_cycle` in discrete time.

    Returns
    -------
    RoundMap
        Its `p` has the attributes `capacity` [bit/s], `rtt` [s] and `threshold` [bit].

    Raises
    ------
    LinearizationError
        The loop or the network has another form.
    ConvergenceError
        Windows do not repeat within 4,000 rounds, after 4,000 rounds.
    """
    parts = marked_windows(loop, network)
    p = rounds_over_threshold(parts)
    states, closed = cycle_of_rounds(parts, p)
    if not closed:
        raise ConvergenceError(f"windows do not repeat within {LONGEST} rounds, after {_SETTLING} rounds")
    return RoundMap(round_over_threshold, tuple(states[0]), p, duration=parts.rtt, rounds=len(states))


def cycle_of_rounds(parts: MarkedWindows, p: SimpleNamespace) -> tuple[list[list[Any]], bool]:
    """Return the states of the cycle that the map per round reaches, and whether it returns to the first of them.

    Parameters
    ----------
    parts : MarkedWindows
    p : SimpleNamespace
        Result of `rounds_over_threshold`.
    """
    start = [*starting_windows(parts).ravel().tolist(), 0]
    return cycle_of(lambda state: round_over_threshold(state, p), start, _SETTLING, LONGEST, _SAME)


def rounds_over_threshold(parts: MarkedWindows) -> SimpleNamespace:
    """Return the parameters of `round_over_threshold`: the link, and laws for numbers, jets and balls.

    Parameters
    ----------
    parts : MarkedWindows
    """
    host = parts.protocol
    laws = {name: state.law for name, state in host.states.items()}
    enclosed = {law: on_balls(law) for law in (*laws.values(), host.source_law, parts.response)}
    constants = {"s": parts.packet, "a": parts.packet, "p": parts.params}
    in_balls = with_balls(constants)

    def law_of(name: str, known: dict[str, Any], jumps: bool) -> Any:
        law = laws.get(name) or (parts.response if jumps else host.source_law)
        on = isinstance(known["D"], Ball)
        return (enclosed[law] if on else law)(**arguments_from(law, {**known, **(in_balls if on else constants)}))

    return SimpleNamespace(
        capacity=parts.capacity,
        rtt=parts.rtt,
        threshold=parts.threshold,
        counts=[int(count) for count in parts.counts],
        names=list(parts.names),
        moved=[*laws, "w"],
        law_of=law_of,
    )


def round_over_threshold(state: Sequence[Any], p: Any) -> list[Any]:
    """Return the states of `marking_rounds` after a round."""
    size, held = len(p.names), state[-1]
    flows = [state[size * k : size * (k + 1)] for k in range(len(p.counts))]
    bits = sum(count * flow[0] for count, flow in zip(p.counts, flows, strict=True))
    is_marked = bits - p.capacity * p.rtt > p.threshold
    D = max(bits / p.capacity, p.rtt)
    jumps = is_marked and not held
    after: list[Any] = []
    for flow in flows:
        known = {**dict(zip(p.names, flow, strict=True)), "D": D, "marked": 1.0 if is_marked else 0.0}
        for name in p.moved:
            if name != "w" or not held:
                known[name] = p.law_of(name, known, jumps)
        after += [known[name] for name in p.names]
    return [*after, 1 if jumps else 0]
