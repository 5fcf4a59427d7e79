"""Media over reports of each packet (RFC 8888): the hooks of receivers, and a flow alone on a link."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.env import FlowEnv, Params
from ecc.errors import LinearizationError
from ecc.models.shared import encoder, feedback
from ecc.network.network import Network

__all__ = ["flow_on_receive", "flow_on_report", "initial_flow", "of_flow_alone", "queue_of_packets"]


def flow_on_receive(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Keep the arrival of a packet, and count frames."""
    feedback.packet_received(flow, header, p, env)
    encoder.frame_received(flow, header, env)


def flow_on_report(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Report the packets since the last report."""
    feedback.write_report(flow, header, p, env)


def initial_flow(state: type[Any]) -> Any:
    """Return the state of a new flow with lists in place of tuples, for functions of hooks outside an engine."""
    return SimpleNamespace(
        **{name: list(value) if isinstance(value, tuple) else value for name, value in vars(state()).items()}
    )


def of_flow_alone(protocol: encoder.EncodedMedia, network: Network) -> tuple[float, float, float]:
    """Return capacity [bit/s], RTT [s] and packet size [bytes] of one flow on one link, for its cycle.

    Raises
    ------
    LinearizationError
        Another network, or an encoder of frames.
    """
    name = type(protocol).__name__
    if network.n_links != 1 or network.n_flows != 1:
        raise LinearizationError(f"the cycle of {name} is that of one flow on one link, got another network")
    if protocol.frames > 0.0:
        raise LinearizationError(
            f"the cycle of {name} is that of evenly spaced packets, got frames = {protocol.frames:g}"
        )
    return float(network.capacities[0]), float(network.rtts[0]), float(network.flows[0].mean_packet)


def queue_of_packets(backlog: NDArray[np.float64], packet: float) -> NDArray[np.float64]:
    """Return the data in a queue before and after the arrival of a packet, as an array of two columns.

    A queue counts the packet in service until its end, so that it has whole packets. Its range over a cycle exceeds
    that of the backlog by up to two packets.

    Parameters
    ----------
    backlog : ndarray, shape (n,)
        Data not yet sent when the packet arrives, in the unit of `packet`.
    packet : float
        Size of packets.
    """
    before = packet * np.ceil(backlog / packet - 1e-9)
    return np.column_stack([before, before + packet])
