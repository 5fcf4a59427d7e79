"""Networks and other data that a run starts from: topologies, fabrics, demands, flow sizes, impairments."""

from ecc.network.network import Flow, Link, Network, Pause

__all__ = ["Flow", "Link", "Network", "Pause"]
