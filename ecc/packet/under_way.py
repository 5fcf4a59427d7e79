"""Positions of packets in a network that has been at its equilibrium for a long time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc.native import UNDER_WAY
from ecc.network.network import Flow

__all__ = ["Stationary", "counted_before", "queued_at_links", "routes_of", "under_way"]


@dataclass(frozen=True)
class Stationary:
    """Rates, queues and states of links and flows at an equilibrium.

    Attributes
    ----------
    rates : ndarray, shape (n_flows,)
        Rate of the data of each flow [bit/s], > 0.
    queues : ndarray, shape (n_links,)
        Queue of each link [bit].
    feedback : ndarray, shape (n_links,)
        State R of the router of each link, or its probability.
    received : ndarray, shape (n_flows,)
        Feedback that each flow receives.
    bottleneck : ndarray of int, shape (n_flows,)
        Link from which each flow receives its feedback, -1: the whole path.
    link_states, flow_states : sequence of mapping
        Name of a state -> value, of each link and each flow.
    """

    rates: NDArray[np.float64]
    queues: NDArray[np.float64]
    feedback: NDArray[np.float64]
    received: NDArray[np.float64]
    bottleneck: NDArray[np.int64]
    link_states: Sequence[Mapping[str, float]]
    flow_states: Sequence[Mapping[str, float]]


def routes_of(flows: Sequence[Flow]) -> list[tuple[int, ...]]:
    """Return the links of each flow's route.

    Parameters
    ----------
    flows : sequence of Flow
    """
    return [tuple(flow.route) for flow in flows]


def under_way(
    rates: NDArray[np.float64],
    flows: Sequence[Flow],
    flow_table: NDArray[np.void],
    link_table: NDArray[np.void],
    phases: NDArray[np.float64],
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the packets that are in the network at time 0 (S-207), and the round-trip time of each flow.

    Each flow has sent packets at equal intervals. A packet waits at each link for the duration of the queue, and then
    crosses the wire. Each queue therefore holds packets of all flows of the link, in proportion to their rates.

    Parameters
    ----------
    rates : ndarray, shape (n_flows,)
        Rate of the data of each flow [bit/s], > 0.
    flows : sequence of Flow
    flow_table, link_table : NDArray[void]
        Dtypes FLOW, of these flows, and LINK, of all links.
    phases : ndarray, shape (n_flows,)
        Time from the last packet of each flow to time 0, as a share of the interval between packets, > 0 and <= 1.

    Returns
    -------
    packets : NDArray[void]
        Dtype UNDER_WAY.
    rtts : NDArray[int64], shape (n_flows,)
        Round-trip times, including queues [ps].
    """
    capacity, delay = link_table["capacity"], link_table["delay"]
    waits = np.floor(8.0 * link_table["begun_queue"] / capacity * 1e12 + 0.5)
    rtts = np.zeros(len(flows), np.int64)
    entries: list[NDArray[np.void]] = []
    for index, (flow, row) in enumerate(zip(flows, flow_table, strict=True)):
        route, size = list(flow.route), flow.mean_packet
        sending = np.floor(8e12 * (size + row["header_bytes"]) / capacity[route] + 0.5)
        stays = np.stack([waits[route] + sending, delay[route]], axis=1).ravel()
        places = np.cumsum(
            [row["access_delay"], *stays, row["ack_delay"]]
        )  # ages at which a packet moves to the next place
        rtts[index] = int(places[-1])
        distance = 8e12 * size / rates[index]
        ages = np.floor((phases[index] + np.arange(int(places[-1] / distance) + 1)) * distance)
        ages = ages[ages < places[-1]]
        passed = np.searchsorted(places, ages, side="right")
        rows = np.zeros(len(ages), UNDER_WAY)
        rows["flow"], rows["sent"], rows["hop"] = index, -ages.astype(np.int64), passed // 2
        rows["at"] = (places[2 * rows["hop"]] - ages).astype(np.int64)
        entries.append(rows)
    packets = np.concatenate([np.zeros(0, UNDER_WAY), *entries])
    packets = packets[np.argsort(packets["sent"], kind="stable")]
    packets["placed"] = np.lexsort((packets["sent"], packets["at"], _is_queued(packets, flow_table)))
    return packets, rtts


def queued_at_links(
    packets: NDArray[np.void], flow_table: NDArray[np.void], routes: Sequence[tuple[int, ...]], n_links: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the maximum number of bytes, and the number of packets, in the queue of each link.

    Parameters
    ----------
    packets, flow_table : NDArray[void]
        Dtypes UNDER_WAY and FLOW.
    routes : sequence of tuple of int
    n_links : int
    """
    queued = packets[_is_queued(packets, flow_table)]
    links = np.array([routes[flow][hop] for flow, hop in zip(queued["flow"], queued["hop"], strict=True)], np.int64)
    size = np.maximum(flow_table["packet_size"], flow_table["packet_size_max"]) + flow_table["header_bytes"]
    in_bytes = np.bincount(links, size[queued["flow"]], minlength=n_links)
    return in_bytes.astype(np.int64), np.bincount(links, minlength=n_links)


def counted_before(
    packets: NDArray[np.void], flow_table: NDArray[np.void], routes: Sequence[tuple[int, ...]], n_links: int
) -> dict[str, NDArray[np.int64]]:
    """Return the bytes that the counters of samples have counted at time 0, by name.

    Parameters
    ----------
    packets, flow_table : NDArray[void]
        Dtypes UNDER_WAY and FLOW.
    routes : sequence of tuple of int
    n_links : int
    """
    n = len(flow_table)
    is_received = (packets["at"] <= 0) & (packets["hop"] == flow_table["n_forward"][packets["flow"]])
    return {
        "sent": np.bincount(packets["flow"], minlength=n) * flow_table["packet_size"],
        "received": np.bincount(packets["flow"][is_received], minlength=n) * flow_table["packet_size"],
        "arrived": queued_at_links(packets, flow_table, routes, n_links)[0],
    }


def _is_queued(packets: NDArray[np.void], flow_table: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return whether each packet is in the queue of a link."""
    queued: NDArray[np.bool_] = (packets["at"] <= 0) & (packets["hop"] < flow_table["n_forward"][packets["flow"]])
    return queued
