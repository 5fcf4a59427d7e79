"""Actions on the flows of a run between two steps: what they set, checked once, and their values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ecc._support.arguments import shown
from ecc._support.quantity import Quantity, as_number, as_rate, as_size
from ecc.native import ACTIONS, addresses
from ecc.packet.setup import Setup

__all__ = ["Target", "observed_flows", "target_of", "value_of"]


class Target(NamedTuple):
    """Target of an action: "rate", "window" or a field of the state of a flow."""

    flow: int
    name: str
    address: int
    """Address of the field; 0 for rate and window."""

    @property
    def row(self) -> tuple[int, int, int]:
        """The action in the format of `ecc.native.Actions`."""
        return self.flow, ACTIONS.get(self.name, ACTIONS["word"]), self.address


def observed_flows(observe: Sequence[int], n_flows: int) -> list[int]:
    """Return the indices of observed flows, checked.

    Parameters
    ----------
    observe : sequence of int
        Indices of flows, in increasing order, for example [0, 2].
    n_flows : int
        Number of flows of the network.

    Raises
    ------
    ValueError
        If there is no such flow, or the order is another.
    """
    flows = [int(flow) for flow in observe]
    if flows and not (0 <= min(flows) and max(flows) < n_flows):
        raise ValueError(f"observe must name flows from 0 to {n_flows - 1}, got {shown(flows)}")
    if any(a >= b for a, b in zip(flows[:-1], flows[1:], strict=True)):
        raise ValueError(f"observe must name flows in increasing order, got {shown(flows)}")
    return flows


def target_of(setup: Setup, flow: object, name: object) -> Target:
    """Return what an action sets.

    Parameters
    ----------
    setup : Setup
        Setup with the records of the engine.
    flow : object
        Index of the flow.
    name : object
        "rate", "window", or the name of a field of the flow's state that holds a float, for example "factor".

    Raises
    ------
    ValueError
        If there is no such flow, or it has no such field.
    TypeError
        If the index is not an int or the name not a str.
    """
    if isinstance(flow, bool) or not isinstance(flow, int | np.integer):
        raise TypeError(f"actions must name flows by their index, got {shown(flow)}")
    if not isinstance(name, str):
        raise TypeError(f"actions must name what they set by a str, got {shown(name)}")
    if not 0 <= flow < setup.n_flows:
        raise ValueError(f"actions must name flows from 0 to {setup.n_flows - 1}, got {flow}")
    if name in ("rate", "window"):
        return Target(int(flow), name, 0)
    for part in setup.parts:
        rows = np.flatnonzero(part.flows == flow)
        fields: Mapping[str, Any] = part.flow_states.dtype.fields or {}
        if len(rows) == 0 or name not in fields:
            continue
        dtype, offset, *_ = fields[name]
        if dtype == np.float64:
            return Target(int(flow), name, int(addresses(part.flow_states)[rows[0]]) + offset)
    have = ", ".join(["rate", "window", *_float_fields(setup, int(flow))])
    raise ValueError(f"actions on flow {flow} must be among {have}, got {name!r}")


def _float_fields(setup: Setup, flow: int) -> list[str]:
    return [
        name
        for part in setup.parts
        if flow in part.flows
        for name, (dtype, *_) in (part.flow_states.dtype.fields or {}).items()
        if dtype == np.float64
    ]


def value_of(target: Target, value: Quantity) -> float:
    """Return the checked value of an action: a rate [bit/s], a window [bytes], or the value of a field.

    Parameters
    ----------
    target : Target
    value : Quantity
        For example "5 Mb/s" for a rate.

    Raises
    ------
    ValueError, TypeError
        If the value is not a finite number, or is a negative rate or window.
    """
    if type(value) is float and (0.0 <= value < math.inf or (target.address and math.isfinite(value))):
        return value
    field = f"{target.name} of flow {target.flow}"
    if target.name == "rate":
        return as_rate(value, field, positive=False)
    if target.name == "window":
        return float(as_size(value, field)) if isinstance(value, str) else as_number(value, field, "bytes", minimum=0.0)
    return as_number(value, field)
