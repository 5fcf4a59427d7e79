"""Ideal completion times of flows, the reference of slowdowns.

The ideal completion time of a flow is the time from its start to its last ACK if all its packets leave its host at the
start, back to back, and no other flow is in the network. It consists of propagation to the receiver and back, and of
the transmission of all packets, store and forward, and of their ACKs on reverse links, with the headers that the run
counts. Of n packets, all but the last have full size. Let S_i be the transmission time of a full packet, or of its ACK,
on the i-th link of the path there and back, and R_i that of the last packet. From the departures of a series of
first-in, first-out queues,

    ideal = idle RTT + R_1 + R_2 + ...                                                                       n = 1
    ideal = idle RTT + max over j of [sum_{i<=j} S_i + (n - 2) max_{i<=j} S_i + sum_{i>=j} R_i]              n > 1

The rate, window and handshake of the protocol and the wait of delayed ACKs are not included. If packet sizes are
random, all packets have the mean size; a flow with several routes uses the first. Times are integer picoseconds, as in
the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecc.network.network import Flow, Network

__all__ = ["IdealTimes"]


class IdealTimes:
    """Ideal completion times of the flows of a network and of transfers, by template.

    Parameters
    ----------
    network : Network
        Network with the initial capacities.
    flows : sequence of Flow
        Flows of the network, then templates of transfers.
    table : ndarray of record, shape (n,)
        The same flows, dtype FLOW, for the sizes of headers and ACKs.
    """

    def __init__(self, network: Network, flows: Sequence[Flow], table: NDArray[np.void]) -> None:
        paths: dict[tuple[Sequence[int], Sequence[int]], int] = {}
        self._path = np.array([paths.setdefault((flow.route, flow.reverse or ()), len(paths)) for flow in flows])
        shape = len(paths), max(len(route) + len(back) for route, back in paths)
        self._data, self._acks = (
            np.full(shape, np.inf),
            np.full(shape, np.inf),
        )  # capacities of the stages of each path, bit/s
        for row, (route, back) in enumerate(paths):
            self._data[row, : len(route)] = network.capacities[[*route]]
            self._acks[row, len(route) : len(route) + len(back)] = network.capacities[[*back]]
        self._packet = np.array([flow.mean_packet for flow in flows])
        self._header, self._ack = (table[name].astype(float) for name in ("header_bytes", "ack_size"))

    def __call__(
        self, index: NDArray[np.int64], size: NDArray[np.float64], idle_rtt: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return ideal completion times [s].

        Parameters
        ----------
        index : ndarray of int, shape (n,)
            Index in `flows` of each flow or transfer.
        size : ndarray, shape (n,), bytes
            Size of each; NaN: without end.
        idle_rtt : ndarray, shape (n,), s
            Round-trip propagation delay of each.
        """
        if np.isnan(size).all():
            return np.full(len(size), np.nan)
        packet, header, path = self._packet[index], self._header[index], self._path[index]
        count = np.ceil(size / packet)
        rest = size - (count - 1.0) * packet
        acks = _transmission(self._ack[index], self._acks[path])
        full = _transmission(packet + header, self._data[path]) + acks
        last = _transmission(rest + header, self._data[path]) + acks
        from_here = np.cumsum(last[:, ::-1], axis=1)[:, ::-1]
        waits = np.cumsum(full, axis=1) + (count - 2.0)[:, None] * np.maximum.accumulate(full, axis=1)
        transmission = np.where(count > 1.0, np.max(waits + from_here, axis=1), from_here[:, 0])
        return np.where(np.isnan(size), np.nan, (np.rint(idle_rtt * 1e12) + transmission) * 1e-12)


def _transmission(size: NDArray[np.float64], capacity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return transmission times [ps] by stage, rounded like those of the engine (S-5).

    Otherwise a flow that is faster by a fraction of a picosecond would appear faster than a flow alone.
    """
    rounded = np.floor(size[:, None] * 8.0 / capacity * 1e12 + 0.5)
    return np.where(np.isfinite(capacity), np.maximum(rounded, 1.0), 0.0)
