"""Input of both packet engines: tables of links and flows, routes, records, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol
from ecc.native import BEGUN, UNDER_WAY, new_transfers, picoseconds
from ecc.packet.ideal_times import IdealTimes

__all__ = ["Part", "Setup"]


@dataclass(frozen=True)
class Part:
    """Part of a run with one protocol: its routers and flows by number, their records, hooks and header region.

    The shape of `link_states` and `link_params` is (len(routers),), that of `flow_states` (len(flows),), and that of
    `flow_params` (1,).
    """

    protocol: Protocol
    header: np.dtype[np.void]
    header_offset: int
    routers: NDArray[np.int64]
    flows: NDArray[np.int64]
    link_states: NDArray[np.void]
    flow_states: NDArray[np.void]
    link_params: NDArray[np.void]
    flow_params: NDArray[np.void]
    link_hooks: Mapping[str, Hook]
    flow_hooks: Mapping[str, Hook]
    begun_links: NDArray[np.void] | None = None
    """Records for hooks of links before time 0, shape (len(routers),); None: the run begins with an empty network."""
    begun_flows: NDArray[np.void] | None = None
    """Records for `on_start` of flows that have begun before time 0, shape (len(flows),), or None."""

    def sides(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.void], NDArray[np.void], Mapping[str, Hook]]]:
        """Yield "links" and "flows", each with numbers, states, parameters and hooks."""
        yield "links", self.routers, self.link_states, self.link_params, self.link_hooks
        yield "flows", self.flows, self.flow_states, self.flow_params, self.flow_hooks

    def begun_sides(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.void]]]:
        """Yield "links" and "flows", each with numbers and records for hooks before time 0, if the part has these."""
        if self.begun_links is not None and self.begun_flows is not None:
            yield "links", self.routers, self.begun_links
            yield "flows", self.flows, self.begun_flows


@dataclass(frozen=True)
class Setup:
    """Input of both packet engines, without addresses of hooks and records.

    `links` has the `n_links` links followed by additional routers, and `flows` the `n_flows` flows followed by
    templates of transfers, with the dtypes LINK and FLOW of ecc.native. `routes` is in the format of the engine.
    `parts` are the protocols; `header_size` [bytes] is the total size of their headers, and `record_size` [bytes] that
    of the record of a transfer. The routers' clocks begin at `warmup_end` [s]. `ack_delays` [s] is the ACK delay of
    each template, to which the access delay of a transfer is added. Links and flows refer to `changes` and
    `impairments` (dtypes CHANGE and IMPAIRMENT), impairments to `delay_changes` (dtype DELAY_CHANGE), flows to
    `writes` (dtype WRITE), and links to `servers` (dtype SERVER) with `opportunities` [ps].
    `quanta` [bytes] has a value for each queue of links with several. `ideal_times` are for `flows`. `begun` has the
    round-trip times of flows that have begun before time 0 (dtype BEGUN), `under_way` the packets in the network at
    time 0 (dtype UNDER_WAY), and `counted` the bytes that counters of samples have counted before time 0: name -> shape
    (n_flows,) or (n_links,).
    """

    links: NDArray[np.void]
    flows: NDArray[np.void]
    routes: NDArray[np.int64]
    parts: list[Part]
    n_links: int
    n_flows: int
    header_size: int
    record_size: int
    warmup_end: float
    ack_delays: NDArray[np.float64]
    changes: NDArray[np.void]
    impairments: NDArray[np.void]
    delay_changes: NDArray[np.void]
    writes: NDArray[np.void]
    servers: NDArray[np.void]
    opportunities: NDArray[np.int64]
    quanta: NDArray[np.int64]
    ideal_times: IdealTimes
    begun: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, BEGUN))
    under_way: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, UNDER_WAY))
    counted: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    compiled: dict[str, Any] | None = field(default=None, init=False, compare=False)
    """What the setups of a plan share: the first one, and tables with addresses of hooks; None: not of a plan."""

    @property
    def n_additional(self) -> int:
        """Number of additional routers."""
        return len(self.links) - self.n_links

    def transfers(self, drawn: NDArray[np.void]) -> NDArray[np.void]:
        """Return drawn transfers in the format of the engines.

        Parameters
        ----------
        drawn : NDArray[void], shape (n,)
            Dtype ecc.traffic.workload.DRAWN.
        """
        out = new_transfers(len(drawn))
        waits = drawn["label"]["wait"]
        out["is_subsequent"] = waits >= 0.0
        out["start"] = picoseconds(np.where(out["is_subsequent"], waits, drawn["start"]))
        ends = np.isfinite(drawn["stop"])
        out["stop"][ends] = np.maximum(picoseconds(drawn["stop"][ends]), out["start"][ends] + 1)
        out["size"], out["template_index"], out["receiver_window"] = (
            drawn["size"],
            drawn["template_index"],
            drawn["window"],
        )
        out["access_delay"] = picoseconds(drawn["access_delay"])
        out["ack_delay"] = picoseconds(drawn["access_delay"] + self.ack_delays[drawn["template_index"]])
        return out
