"""What both packet engines start from: tables of links and flows, routes, records, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecc.models.base import Hook, Protocol
from ecc.native import BEGUN, UNDER_WAY, new_transfers, picoseconds
from ecc.packet.ideal_times import IdealTimes

__all__ = ["Part", "Setup"]


@dataclass(frozen=True)
class Part:
    """What runs one protocol: routers and flows by number, their records and hooks, and their region of the header.

    `link_states`, `link_params`: shape (len(routers),); `flow_states`: shape (len(flows),); `flow_params`: shape (1,).
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
    """Records for `on_start` of flows that have begun before time 0, shape (len(flows),); None likewise."""

    def sides(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.void], NDArray[np.void], Mapping[str, Hook]]]:
        """Yield "links" and "flows" with the numbers, the states, the parameters and the hooks of either."""
        yield "links", self.routers, self.link_states, self.link_params, self.link_hooks
        yield "flows", self.flows, self.flow_states, self.flow_params, self.flow_hooks

    def begun_sides(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.void]]]:
        """Yield "links" and "flows" with the numbers and the records for hooks before time 0, if there are any."""
        if self.begun_links is not None and self.begun_flows is not None:
            yield "links", self.routers, self.begun_links
            yield "flows", self.flows, self.begun_flows


@dataclass(frozen=True)
class Setup:
    """What both packet engines start from; hooks and addresses are not in it yet.

    `links` (additional routers after `n_links` links), `flows` (templates of transfers after `n_flows` flows):
    dtypes LINK and FLOW of ecc.native; `routes`: as the engine reads them; `parts`: the protocols; `header_size`
    [bytes] of all of them together; `record_size` [bytes] of a transfer; `warmup_end` [s]: when the routers' clocks
    begin; `ack_delays` [s]: of each template, beside the access delay of a transfer; `changes`, `impairments`: dtypes
    CHANGE and IMPAIRMENT, what links and flows refer to; `servers`: dtype SERVER, what links refer to, with
    `opportunities` [ps]; `quanta` [bytes]: of each queue of links that have several;
    `ideal_times`: of `flows`; `begun`: round-trip times of flows that have begun before time 0, dtype BEGUN;
    `under_way`: packets in the network at time 0, dtype UNDER_WAY; `counted`: bytes that
    counters of samples have counted before time 0, name -> shape (n_flows,) or (n_links,).
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
    servers: NDArray[np.void]
    opportunities: NDArray[np.int64]
    quanta: NDArray[np.int64]
    ideal_times: IdealTimes
    begun: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, BEGUN))
    under_way: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, UNDER_WAY))
    counted: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def n_additional(self) -> int:
        """Number of additional routers."""
        return len(self.links) - self.n_links

    def transfers(self, drawn: NDArray[np.void]) -> NDArray[np.void]:
        """Return drawn transfers as the engines read them.

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
