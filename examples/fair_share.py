"""A protocol in one file: a router moves one rate R until arrivals y are gamma C."""

from dataclasses import dataclass, make_dataclass

from ecc.models import Protocol
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.quantity import TIME


def router_law(R, y, C, d, T, p):  # C: capacity, d: mean RTT, T: interval
    return min(max(R * (1.0 + p.alpha * T * (p.gamma * C - y) / (C * d)), 1e-4 * C), C)


@dataclass(frozen=True)
class FairShare(Protocol):
    alpha: float = 0.4  # gain
    gamma: float = 0.95  # target utilization
    interval: float = 0.01  # of a router [s]
    main_parameter = "alpha"  # what `ecc stability` varies
    dimensions = {"interval": TIME}  # parameters that have a unit
    router_law = staticmethod(router_law)
    source_law = staticmethod(lambda R: R)  # a flow sends at the least R of its path
    Header = make_dataclass("Header", [("rate", float, 0.0), ("rtt", float, 0.0)])  # least R, and RTT of the sender
    LinkState = make_dataclass("LinkState", [("R", float, 0.0), ("arrived", int, 0), ("rtt", float, 0.1)])

    def rate_range(self, capacity):
        return 1e-4 * capacity, capacity

    def equilibrium(self, network, assignment=None):
        return shared_fair_rate(network, self.gamma * network.capacities, assignment)

    def link_hooks(self):
        return {"on_start": tick, "on_arrival": count_and_stamp, "on_interval": tick}

    def flow_hooks(self):
        return {"on_start": probe, "on_send": fill_header, "on_ack": adopt_rate}


def tick(link, header, p, env):
    y, C, T = 8.0 * link.arrived / p.interval, env.capacity, p.interval
    link.R = router_law(link.R, y, C, link.rtt, T, p) if env.now > 0.0 else 0.05 * C
    link.arrived, env.next_interval = 0, T


def count_and_stamp(link, header, p, env):
    link.arrived += env.packet_size
    link.rtt += 0.02 * (header.rtt - link.rtt) if header.rtt > 0.0 else 0.0
    header.rate = min(header.rate, link.R)


def probe(flow, header, p, env):
    env.rate = 8.0 * env.packet_size  # a packet a second until the first answer


def fill_header(flow, header, p, env):
    header.rate, header.rtt = 1e300, env.rtt


def adopt_rate(flow, header, p, env):
    env.rate = header.rate
