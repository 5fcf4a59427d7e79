"""The reference loop of a protocol: the network on which its verdicts are compared with those of other protocols."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ecc.network.network import Network

__all__ = ["ReferenceLoop"]


class ReferenceLoop(NamedTuple):
    """The network of a protocol's published analysis or experiment: one link, with a queue discipline if it needs one.

    Attributes
    ----------
    capacity : float, bit/s
        Capacity of the link, for example 1e9.
    rtts : tuple of float, s
        Propagation RTT of each flow, for example (0.05, 0.05).
    source : str
        Place of these numbers in a text that was read. "ours": no text gives them.
    packet_size : int, bytes
    discipline : str
        Class in `ecc.queues` of the queue discipline at the link, for example "PI". "": the routers of the protocol, or
        a drop-tail queue.
    settings : mapping
        Parameters of the discipline that differ from its defaults: name -> value.
    buffer : int or None, bytes
        Buffer of the link, for example 250_000. None: unlimited. Cycles that are driven by losses need a finite one.
    """

    capacity: float
    rtts: tuple[float, ...]
    source: str
    packet_size: int = 1500
    discipline: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})
    buffer: int | None = None

    def network(self) -> Network:
        """Return the network: a link with the buffer of the loop, and flows that last.

        Examples
        --------
        >>> ReferenceLoop(1e9, (0.05, 0.05), "ours").network().n_flows
        2
        """
        return Network.dumbbell(self.capacity, list(self.rtts), self.buffer, packet_size=self.packet_size)
