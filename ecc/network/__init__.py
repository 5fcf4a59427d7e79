"""Networks and what is fixed before a run: topologies, fabrics, demands, flow sizes, impairments, fair allocations."""

from ecc.network.network import Flow, Link, Network, Pause

__all__ = ["Flow", "Link", "Network", "Pause"]
