"""What both packet engines start from: tables of links and flows, routes, records, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc.models.base import Hook, Protocol
from ecc.native import new_transfers, picoseconds
from ecc.packet.ideal_times import IdealTimes

__all__ = ["Part", "Setup"]


@dataclass(frozen=True)
class Part:
    """What runs one protocol: routers and flows by number, their records, and their region of the header.

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

    def sides(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.void], NDArray[np.void], Mapping[str, Hook]]]:
        """Yield "links" and "flows" with the numbers, the states, the parameters and the hooks of either."""
        yield "links", self.routers, self.link_states, self.link_params, self.protocol.link_hooks()
        hosts = self.protocol.flow_hooks() if len(self.flows) else {}  # a queue discipline has none
        yield "flows", self.flows, self.flow_states, self.flow_params, hosts


@dataclass(frozen=True)
class Setup:
    """What both packet engines start from; hooks and addresses are not in it yet.

    `links` (additional routers after `n_links` links), `flows` (templates of transfers after `n_flows` flows):
    dtypes LINK and FLOW of ecc.native; `routes`: as the engine reads them; `parts`: the protocols; `header_size`
    [bytes] of all of them together; `record_size` [bytes] of a transfer; `warmup_end` [s]: when the routers' clocks
    begin; `ack_delays` [s]: of each template, beside the access delay of a transfer; `changes`, `impairments`: dtypes
    CHANGE and IMPAIRMENT, what links and flows refer to; `servers`: dtype SERVER, what links refer to, with
    `opportunities` [ps]; `quanta` [bytes]: of each queue of links that have several;
    `ideal_times`: of `flows`.
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

    @property
    def n_additional(self) -> int:
        """Number of additional routers."""
        return len(self.links) - self.n_links

    def transfers(self, drawn: NDArray[np.void]) -> NDArray[np.void]:
        """Return drawn transfers as the engines read them.

        Parameters
        ----------
        drawn : NDArray[void], shape (n,)
            Dtype ecc.workload.DRAWN.
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
