"""States of a host in addition to its window, in the fluid of windows: their change in a step, and at a loss or a mark.

v <- v + n/w [law(v, ...) - v]      "rtt": n of a window w is acknowledged in a step h
v <- v + h/T [law(v, ...) - v]      "interval"
v <- v + h law(v, ...)              "continuous"
v <- v + k [jump(v, ...) - v]       k losses or marks: 1 if a single one is met, a fraction if they arrive at a rate
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ecc.contract.choices import JUMPS
from ecc.contract.protocol import Protocol
from ecc.contract.records import param_record
from ecc.contract.states import State
from ecc.contract.values import clock_of_states, states_of
from ecc.fluid.network.laws import BEFORE, compile_lines, finite, hook_arguments

__all__ = ["STEP_FIELDS", "compiled_moves", "states_of_rates"]

STEP_FIELDS = ("acked_share", "time_step", "jumps", "window_moves")
"""Fields of the laws' record that describe a step: n/w, h and k above, and 0 if the window is held, else 1."""

_MOVED = {
    "rtt": "{now} + record.acked_share * ({by_law} - {now})",
    "interval": "{now} + record.time_step / record.T * ({by_law} - {now})",
    "continuous": "{now} + record.time_step * {by_law}",
}


def compiled_moves(protocol: Protocol, fields: tuple[str, ...]) -> Mapping[str, int]:
    """Return addresses of C functions that move the states of a host: "move", "after_loss", "after_mark".

    Parameters
    ----------
    protocol : Protocol
        Protocol of the host. A function that would move no state is left out.
    fields : tuple of str
        Fields of the record, which include the states.

    Raises
    ------
    ValueError
        If a state has a clock that hosts do not support.
    """
    states = states_of(protocol)
    scope: dict[str, Any] = {"finite": finite}
    lines: dict[str, list[str]] = {"move": [], "after_loss": [], "after_mark": []}

    for name, state in states.items():
        if state.clock not in _MOVED:
            owner = "hosts that set rates" if state.clock == "update" else "queues"
            raise ValueError(
                f"{type(protocol).__name__} has no fluid model: its state {name} has the clock {state.clock!r}, which "
                f"is of {owner}"
            )
        if state.law is None:
            continue
        scope |= {f"law_{name}": state.law, f"lowest_{name}": state.lowest, f"highest_{name}": state.highest}
        if state.simultaneous:
            lines["move"].append(f"record.{BEFORE}{name} = record.{name}")
        moved = _MOVED[state.clock].format(now=f"record.{name}", by_law=f"law_{name}({hook_arguments(state.law)})")
        if state.simultaneous:
            moved = moved.replace("record.acked_share", "record.window_moves * record.acked_share")
        lines["move"].append(f"record.{name} = min(max(finite({moved}), lowest_{name}), highest_{name})")
    for signal in JUMPS:
        jumps = {name: state.jumps[signal] for name, state in states.items() if signal in state.jumps}
        scope |= {f"{signal}_{name}": jump for name, jump in jumps.items()}
        lines[f"after_{signal}"] = [
            *(
                f"new_{name} = finite({signal}_{name}({hook_arguments(jump)}))" for name, jump in jumps.items()
            ),  # every jump reads the values before the jumps
            *(f"record.{name} += record.jumps * (new_{name} - record.{name})" for name in jumps),
        ]
    laws = {f"law_{name}": f"the law of state {name}" for name in states}
    laws |= {f"{signal}_{name}": f"the jump of state {name} at a {signal}" for signal in JUMPS for name in states}
    layout = np.dtype([(name, "f8") for name in fields])
    params = param_record(protocol).dtype
    return compile_lines(type(protocol).__name__, lines, scope, laws, layout, params) if any(lines.values()) else {}


def states_of_rates(protocol: Protocol) -> Mapping[str, State]:
    """Return the states of hosts that set rates; the states move when the rates are updated.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    ValueError
        If a state has no law, another clock, or jumps.
    """
    states = states_of(protocol)
    for name, state in states.items():
        clock = clock_of_states(protocol)
        if state.clock != clock or state.law is None or state.jumps:
            raise ValueError(
                f"{type(protocol).__name__} has no fluid model: its state {name} must have a law, the clock {clock!r}, "
                "and no jumps, because hosts set rates"
            )
    return states
