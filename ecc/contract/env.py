"""Arguments of hooks: parameters, records, and the environment of the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["FlowEnv", "FluidEnv", "Hook", "LinkEnv", "NoRecord", "Params"]


Hook = Callable[[Any, Any, Any, Any], None]


@dataclass
class NoRecord:
    """An empty record, for protocols without this state."""


if TYPE_CHECKING:

    class Parameter(float):
        """A number, or an array of numbers."""

        def __getitem__(self, place: int) -> float: ...
        def __len__(self) -> int: ...

    class Params:
        """The parameters in laws and hooks: numbers and arrays of numbers, by attribute."""

        def __init__(self, **values: Any) -> None: ...
        def __getattr__(self, name: str) -> Parameter: ...
        def __setattr__(self, name: str, value: float) -> None: ...

else:
    Params = SimpleNamespace


class LinkEnv:
    """The environment of the hooks of a link (`ecc/native/core/env.h`).

    They may write `queue_index`, `drop`, `mark`, `trim`, `next_interval`, `wait`, `filter`.
    """

    now: float
    capacity: float
    buffer: int
    queue: int
    backlog: int
    queue_index: int
    queue_low: int
    packet_size: int
    kind: int
    flow: int
    link: int
    flow_queue: int
    sojourn: float
    random: float
    ecn: int
    drop: int
    mark: int
    trim: int
    next_interval: float
    wait: float
    filter: int


class FlowEnv:
    """The environment of the hooks of a flow (`ecc/native/core/env.h`).

    They may write `rate`, `window`, `timer`, `counter`, and further timers up to `n_timers`. `on_receive` and
    `on_report` may write only `control_size`, `control_kind` and, if there is an `on_report`, `timer`.
    """

    now: float
    packet_size: int
    rtt: float
    srtt: float
    min_rtt: float
    in_flight: int
    delivered: int
    lost: int
    rate: float
    window: float
    timer: float
    kind: int
    flow: int
    random: float
    size: int
    unsent: int
    header_bytes: int
    acked: int
    recovering: int
    recovered: int
    undone: int
    marked: int
    ece: int
    timer_1: float
    timer_2: float
    timer_3: float
    counter: int
    control_size: int
    control_kind: int
    limited_by: int
    idle: float
    rto: float
    transport: int


class FluidEnv:
    """The environment of `StateMachine.on_step` in bits, bit/s and s; it may write the last two fields."""

    now: float
    step: float
    rtt: float
    """RTT of the data acknowledged now; 0 before the first ACK."""
    delivery_rate: float
    """Mean rate of acknowledgments since that data was sent."""
    acked: float
    """Data acknowledged in this step."""
    lost: float
    """Data found lost in this step."""
    loss: float
    """Lost share of lost and acknowledged data."""
    marked: float
    """Marked share of the data acknowledged now."""
    delivered: float
    in_flight: float
    packet_size: float
    flow: float
    """Index of the flow in the network."""
    flows: float
    """Number of flows."""
    rate: float
    window: float
