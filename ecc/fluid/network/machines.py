"""Hosts that are machines of states, in a fluid of windows: a hook moves the state of a flow in each step of the grid.

The hook reads the state of the path as measured by ACKs at that moment (`MACHINE_ENV`; rates bit/s, volumes bits,
times s), and sets a rate and a window:

    sent(t + h) = min(sent(t) + h rate, acknowledged + lost + window)          never decreasing

rtt, loss and marked are measured for the data acknowledged now; delivery_rate is the mean rate of ACKs since these data
were sent. They are 0 before the first ACK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ecc._support.arguments import shown
from ecc.contract.forms import StateMachine
from ecc.contract.kinds import Kind, kind_of
from ecc.contract.protocol import Protocol
from ecc.contract.records import param_record, record_dtype
from ecc.contract.records import records as records_of
from ecc.contract.states import RESERVED_NAMES
from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, inlined, unpacker
from ecc.fluid.network.curves import at
from ecc.fluid.network.grid import NO_RATE
from ecc.jit import CompiledHooks, compile_hooks

__all__ = ["MACHINE_ENV", "Machines", "is_machine", "machine_fields", "machines_of", "move_machine"]

MACHINE_ENV = (
    "now",
    "step",
    "rtt",
    "delivery_rate",
    "acked",
    "lost",
    "loss",
    "marked",
    "delivered",
    "in_flight",
    "packet_size",
    "flow",
    "flows",
    "rate",
    "window",
)
"""Fields of `env`, all of them floats; `on_step` may write the last two."""

(
    _NOW,
    _STEP,
    _RTT,
    _DELIVERY_RATE,
    _ACKED,
    _LOST,
    _LOSS,
    _MARKED,
    _DELIVERED,
    _IN_FLIGHT,
    _PACKET,
    _FLOW,
    _FLOWS,
    _RATE,
    _WINDOW,
) = range(len(MACHINE_ENV))
_MIN_LOST = 1e-9  # packets lost in a step: a smaller amount is rounding
_NOTHING = np.dtype([])
_pointers = unpacker("ffff")


class Machines(NamedTuple):
    """Data of the machines' hooks; if there are machines, each group has one flow."""

    hook: Integers  # (n_groups,): address, 0 for groups without one
    records: IntegerRows  # (n_groups, 4): addresses of state, memory, parameters and env
    env: Floats
    flow: Floats  # (n_groups,): index in the network
    flows: float
    pace: Floats  # (n_groups,) [bit/s]
    acknowledged: FloatRows  # (n_groups, n_times), or (n_groups, 0) without machines
    lost: Floats  # (n_groups,): bits known to be lost


def is_machine(protocol: Protocol) -> bool:
    """Return whether the fluid form of a protocol is a machine of states.

    Parameters
    ----------
    protocol : Protocol
    """
    return kind_of(protocol) is Kind.STATE_MACHINE


def machine_fields(protocol: Protocol) -> Mapping[str, float]:
    """Return the fields of a machine's state and their initial values.

    Parameters
    ----------
    protocol : Protocol
        Protocol of the host; the result is empty if it is not a machine.

    Raises
    ------
    TypeError, ValueError
        If a field is not float, or if laws use its name for another quantity.
    """
    form = protocol.fluid_form
    if not isinstance(form, StateMachine):
        return {}
    kind = f"{type(protocol).__name__}'s {form.state.__name__}"
    for item in fields(form.state):
        if item.type not in (float, "float"):
            raise TypeError(f"{kind}.{item.name} must be float for a fluid run, got {shown(item.type)}")
        if item.name in RESERVED_NAMES:
            raise ValueError(f"{kind} must not have fields with names that laws reserve, got {item.name}")
    begun = form.state()
    return {item.name: float(getattr(begun, item.name)) for item in fields(form.state)}


def machines_of(
    protocols: Sequence[Protocol], names: Sequence[str], states: Any, flows: Any, count: int, rows: int
) -> tuple[Machines, list[Any]]:
    """Return the machines of a run, and the objects that own the code and parameters at their addresses.

    Parameters
    ----------
    protocols : sequence of Protocol
        Protocol of each group.
    names : sequence of str
        Names of the columns of `states`.
    states : ndarray, shape (n_groups, n_states)
    flows : ndarray, shape (n_groups,)
        Index of the first flow of each group.
    count : int
        Number of flows in the network.
    rows : int
        Number of times of the grid.
    """
    G, env = len(protocols), np.zeros(len(MACHINE_ENV))
    hook, records = np.zeros(G, np.int64), np.zeros((G, 4), np.int64)
    owners: list[Any] = [env]
    code: dict[Protocol, tuple[CompiledHooks, Any]] = {}
    layout, seen = (np.dtype([(name, "f8") for name in columns]) for columns in (names, MACHINE_ENV))
    for g, protocol in enumerate(protocols):
        form = protocol.fluid_form
        if not isinstance(form, StateMachine):
            continue
        if protocol not in code:
            params = param_record(protocol)
            hooks, writes = {"on_step": form.on_step}, {"on_step": ("rate", "window")}
            remembered = _NOTHING if form.memory is None else record_dtype(form.memory)
            code[protocol] = compile_hooks(hooks, layout, remembered, params.dtype, seen, writes), params
        compiled, params = code[protocol]
        hook[g] = compiled["on_step"]
        memory = states[g] if form.memory is None else records_of(form.memory, 1)
        owners.append(memory)
        records[g] = states[g].ctypes.data, memory.ctypes.data, params.ctypes.data, env.ctypes.data
    owners += list(code.values())
    history = np.zeros((G, rows if code else 0))
    return Machines(
        hook, records, env, np.asarray(flows, float), float(count), np.zeros(G), history, np.zeros(G)
    ), owners


@inlined
def move_machine(
    machines: Any,
    paths: Any,
    sources: Any,
    sent: Any,
    g: int,
    i: int,
    t: float,
    h: float,
    sigma: float,
    answered: bool,
    acknowledged: float,
    lost: float,
    marked: float,
    limit: float,
) -> int:
    """Move a machine by a step, and send; return 0, or the hook's status. `answered`: ACKs have arrived."""
    env, status = machines.env, 0
    machines.acknowledged[g, i] = acknowledged
    if t > paths.start[g] + 1e-6 * h:
        newly, gone = max(0.0, acknowledged - sources.acked[g]), max(0.0, lost - machines.lost[g])
        env[_NOW], env[_STEP], env[_FLOW], env[_FLOWS] = t, h, machines.flow[g], machines.flows
        env[_ACKED], env[_LOST], env[_DELIVERED] = newly, gone, acknowledged
        env[_IN_FLIGHT], env[_PACKET] = sent[g, i - 1] - acknowledged - lost, paths.packet[g]
        env[_RTT], env[_DELIVERY_RATE], env[_LOSS], env[_MARKED] = 0.0, 0.0, 0.0, 0.0
        if answered:
            env[_RTT], env[_MARKED] = (i - sigma) * h, marked
            env[_DELIVERY_RATE] = (acknowledged - at(machines.acknowledged[g], sigma)) / env[_RTT]
            if gone > _MIN_LOST * paths.packet[g]:
                env[_LOSS] = gone / (newly + gone)
        env[_RATE], env[_WINDOW] = machines.pace[g], sources.window[g]
        status = call(machines.hook[g], _pointers(machines.records[g]))
        if status == 0 and not (env[_RATE] >= 0.0 and env[_WINDOW] >= 0.0):
            status = NO_RATE
        machines.pace[g], sources.window[g] = env[_RATE], env[_WINDOW]
        machines.lost[g] = max(lost, machines.lost[g])
        sources.acked[g] = max(acknowledged, sources.acked[g])
        allowed = min(sent[g, i - 1] + h * env[_RATE], acknowledged + lost + min(env[_WINDOW], limit))
        sent[g, i] = min(max(sent[g, i - 1], allowed), paths.size[g])
    else:
        sent[g, i] = sent[g, i - 1]
    return status
