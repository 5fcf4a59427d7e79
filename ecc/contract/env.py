"""What hooks get: parameters, records, and the engine's environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["FlowEnv", "FluidEnv", "Hook", "LinkEnv", "NoRecord", "Params"]


Hook = Callable[[Any, Any, Any, Any], None]


@dataclass
class NoRecord:
    """The record of a protocol that keeps none."""


if TYPE_CHECKING:

    class Params:
        """The parameters as laws and hooks see them: numbers, by attribute."""

        def __init__(self, **values: float) -> None: ...
        def __getattr__(self, name: str) -> float: ...
        def __setattr__(self, name: str, value: float) -> None: ...

else:
    Params = SimpleNamespace


class LinkEnv:
    """What the hooks of a link see of the engine (`ecc/native/core/engine.h`).

    They may write `queue_index`, `drop`, `mark`, `trim`, `next_interval`.
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


class FlowEnv:
    """What the hooks of a flow see of the engine (`ecc/native/core/engine.h`).

    They may write `rate`, `window`, `timer`, `counter`, and further timers where `n_timers` says so; `on_receive` may
    write `control_size` and `control_kind`, and nothing else.
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


class FluidEnv:
    """What `StateMachine.on_step` sees (`ecc.fluid.network.machines`): bits, bit/s, s; it may write the last two."""

    now: float
    step: float
    rtt: float
    """Of what is acknowledged now; 0 before the first ACK."""
    delivery_rate: float
    """Mean of what was acknowledged since that was sent."""
    acked: float
    """Acknowledged in this step."""
    lost: float
    """Found lost in this step."""
    loss: float
    """Share lost of both."""
    marked: float
    """Share marked of what is acknowledged now."""
    delivered: float
    in_flight: float
    packet_size: float
    flow: float
    """Index in the network."""
    flows: float
    """How many there are."""
    rate: float
    window: float
