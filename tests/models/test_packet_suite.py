"""What holds for every protocol with packet hooks: equilibria, fairness, outages, and what a packet costs a router."""

import numpy as np
import pytest

import ecc
from ecc.models import (
    DCQCN,
    EMKC,
    EMKCAVQ,
    FAST,
    GCC,
    HPCC,
    MKC,
    NADA,
    NSCC,
    PIQIRCP,
    QIRCP,
    RCP,
    TIMELY,
    XCP,
    ExpressPass,
    JetMax,
    Kelly,
    MaxNet,
    PatchedTIMELY,
    PowerTCP,
    SCReAM,
    Swift,
    ThetaPowerTCP,
    Vegas,
    all_protocols,
)
from ecc.network.allocation import max_min, proportional
from ecc.network.demands import incast, permutation
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Flow, Link, Network
from ecc.packet.operations import Operations, count_operations
from ecc.scenario import Scenario

PROTOCOLS = [cls() for cls in all_protocols().values() if cls.has_packet_hooks() and cls.equilibrium_is_static]
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: type(protocol).__name__)
every_protocol_with_bottlenecks = pytest.mark.parametrize(
    "protocol", [one for one in PROTOCOLS if one.combine != "sum"], ids=lambda protocol: type(protocol).__name__
)
SMALL = {
    FAST: FAST(alpha=50.0),  # two flows of its default keep 400 packets in the queue, more than the buffer below
    Swift: Swift(base_target="0.1 s", fs_range="0.1 s", fs_max_cwnd=1000.0),  # its default is for RTTs of a data center
    NSCC: NSCC("20 Mb/s", "0.12 s", fair=0.5, eta=0.015, alpha=0.4),  # its increases go with bandwidth times delay
    HPCC: HPCC(base_rtt="0.12 s", line_rate="20 Mb/s", min_rate="0.1 Mb/s", w_ai=1000, form="rate"),
    PowerTCP: PowerTCP(base_rtt="0.12 s", line_rate="20 Mb/s", beta=4000),
    ThetaPowerTCP: ThetaPowerTCP(base_rtt="0.12 s", line_rate="20 Mb/s", beta=4000),
    TIMELY: TIMELY(delta=1e5, low=0.11, high=0.13, interval=0.05),  # ... and so are theirs
    DCQCN: DCQCN(
        "20 Mb/s",
        interval=0.1,  # two notifications in one RTT leave the queue empty
        alpha_interval=0.055,
        increase_interval=0.055,
        byte_counter=200_000,
        rate_ai=1e5,
        rate_hai=5e5,
        min_threshold=10_000,
        max_threshold=200_000,
        p_max=0.1,
    ),
    ExpressPass: ExpressPass("1 Gb/s"),  # credits of 52 Mb/s
    NADA: NADA(max_rate="20 Mb/s"),
    GCC: GCC(min_rate="6 Mb/s", max_rate="20 Mb/s"),
    SCReAM: SCReAM(min_rate="6 Mb/s", max_rate="20 Mb/s"),
    PatchedTIMELY: PatchedTIMELY(beta=0.08, delta=1e5, low=0.12, high=0.5, interval=0.05),
}
WINDOWS = [
    SMALL.get(cls) or cls()
    for cls in all_protocols().values()
    if not cls.equilibrium_is_static and cls.has_packet_hooks()
]
every_window_protocol = pytest.mark.parametrize("protocol", WINDOWS, ids=lambda protocol: type(protocol).__name__)
NETWORKS = {
    "dumbbell": Network.dumbbell("50 Mb/s", rtts=[0.05, 0.12, 0.08]),
    "parking_lot": Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="13 ms"),
}
every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())
FAT_TREE = Network.fat_tree(
    4,
    [*incast(range(4, 9), 0), *incast(range(9, 12), 1), *incast((12, 13), 14)],
    "20 Mb/s",
    "10 ms",
    fabric_capacity="100 Mb/s",
    ack_links=False,
)
"""Flows are bottlenecked at the links into their hosts, the last of their paths: all others are no bottlenecks."""
FABRIC = Network.fat_tree(4, permutation(16, seed=3), "20 Mb/s", "1 ms", buffer="100 kB", host_buffer="1 MB")
HOOKED = [SMALL.get(cls) or cls() for cls in all_protocols().values() if cls.has_packet_hooks()]


def fair(protocol, network, rates, followed):
    """What the rates should be by their kind of fairness, from the loads that they put on links that flows follow."""
    loads = np.where(np.isin(np.arange(network.n_links), followed), rates @ network.incidence, 1e15)
    if protocol.combine == "sum":
        return proportional(network, rates @ network.incidence)
    return max_min(network, loads)


@every_protocol
@every_network
def test_the_equilibrium_is_a_fixed_point_of_packet_runs(protocol, network):
    run = ecc.packet.simulate(Scenario(network, protocol, 20.0), sample=0.5, start="equilibrium")
    point = protocol.equilibrium(network)
    rates = run.rate.sel(time=slice(5.0, None)).mean("time").to_numpy()
    assert rates == pytest.approx(point.rates, rel=0.02)
    if not isinstance(protocol, XCP):  # constrained max-min, which only its own equilibrium says
        assert rates == pytest.approx(fair(protocol, network, rates, point.bottleneck), rel=0.02)


@pytest.mark.slow
@every_protocol_with_bottlenecks
def test_the_equilibrium_is_a_fixed_point_of_packet_runs_on_a_fat_tree(protocol):
    test_the_equilibrium_is_a_fixed_point_of_packet_runs(protocol, FAT_TREE)


@every_protocol_with_bottlenecks
def test_a_link_that_is_no_bottleneck_announces_at_equilibrium_what_binds_no_flow(protocol):
    """Where prices are announced that is none, and not the largest number that there is for a rate."""
    network = Network([Link("20 Mb/s", "10 ms"), Link("30 Mb/s", "10 ms"), Link("40 Mb/s", "5 ms")], [Flow([1, 0, 2])])
    run = ecc.packet.simulate(Scenario(network, protocol, 2.0), sample=0.5, start="equilibrium")
    assert run.rate[1:].mean() == pytest.approx(protocol.equilibrium(network).rates[0], rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", HOOKED, ids=lambda protocol: type(protocol).__name__)
def test_every_protocol_runs_on_a_fat_tree(protocol):
    """ACKs cross links too; bytes are conserved, no link carries more than it can, and parts change nothing."""
    scenario = Scenario(FABRIC, protocol, 0.3)
    run = ecc.packet.simulate(scenario, sample=0.1)
    assert run.is_complete and (run.flows["delivered"] > 0).all()
    assert run.flows["min_rtt"].min() > 4e-3  # 4 links of 1 ms, or 12
    sent = run.rate.sum("time").to_numpy() * 0.1 / 8.0
    outstanding = sent - run.flows["delivered"] - run.flows["lost"]
    assert (outstanding >= -1e-6).all() and outstanding.max() <= 1e6 + 6 * 1e5 + 20e6 * 0.012 / 8
    carried = run.goodput.mean("time").to_numpy() @ FABRIC.incidence
    assert (carried <= FABRIC.capacities).all()
    assert ecc.packet.simulate(scenario, sample=0.1, threads=2).stats["digest"] == run.stats["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", HOOKED, ids=lambda protocol: type(protocol).__name__)
def test_the_twin_of_every_protocol_on_a_fabric(protocol):
    network = Network.leaf_spine(2, 2, 2, [(0, 2), (1, 3), (3, 0)], "20 Mb/s", "1 ms", buffer="15 kB")
    c, python = (ecc.packet.simulate(Scenario(network, protocol, 0.2), engine=engine) for engine in ("c", "python"))
    assert c.stats["digest"] == python.stats["digest"] and c.stats["events"] == python.stats["events"] > 50


@pytest.mark.slow
@every_protocol
@every_network
@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_the_equilibrium_is_a_fixed_point_of_fluid_runs(protocol, network, time):
    scenario = Scenario(network, protocol, 12.0)
    run = ecc.fluid.simulate(scenario, sample=0.5, start="equilibrium", time=time, rtol=1e-7)
    off = np.abs(run.rate.to_numpy() / protocol.equilibrium(network).rates - 1.0).max()
    if isinstance(protocol, EMKC) and network.n_links > 1 and time == "continuous":
        assert 0.001 < off < 0.005  # what the first link is beyond its capacity does not come to the second
    else:
        assert off < 1e-6


@every_protocol
def test_an_outage_is_survived(protocol):
    """Routers know the capacity before it; what the queue took in comes out, and rates come back."""
    network = Network.dumbbell("20 Mb/s", rtts=[0.05, 0.1])
    outage = CapacitySchedule(link=0, times=[10.0, 11.0], capacities=[0.0, 20e6])
    run = ecc.packet.simulate(Scenario(network, protocol, 40.0, impairments=[outage]), sample=1.0)
    goodput = run.goodput.sum("flow").to_numpy()
    assert run.is_complete
    assert goodput[10] < 0.05 * 20e6  # what was on the wire
    assert goodput[-5:].mean() == pytest.approx(goodput[5:10].mean(), rel=0.02)


@pytest.mark.slow
@every_window_protocol
def test_windows_survive_an_outage(protocol):
    """What is lost is sent again, none of it twice, and windows fill the link once more."""
    capacity, buffer = 20e6, 250_000
    network = Network.dumbbell(capacity, rtts=[0.05, 0.1], buffer=buffer)
    outage = CapacitySchedule(link=0, times=[10.0, 11.0], capacities=[0.0, capacity])
    run = ecc.packet.simulate(Scenario(network, protocol, 40.0, impairments=[outage]), sample=1.0)
    goodput, transfers = run.goodput.sum("flow").to_numpy(), run.flows
    assert run.is_complete
    assert goodput[10] < 0.05 * capacity  # what was on the wire
    assert goodput[-5:].mean() > 0.8 * capacity  # UTIL's target is from 0.8 on
    assert (transfers["retransmitted"] <= transfers["lost"]).all()
    sent = float(run.rate.sum()) / 8.0
    outstanding = sent - transfers["delivered"].sum() - transfers["lost"].sum()
    assert 0 <= outstanding <= 2 * (buffer + 0.1 * capacity / 8.0)  # of each flow: a queue and what is in flight


@every_network
@pytest.mark.parametrize("protocol", [FAST(alpha=20.0), Vegas(alpha=3.0, beta=3.0)], ids=lambda p: type(p).__name__)
def test_windows_with_an_equilibrium_come_to_it_from_empty_queues(protocol, network):
    run = ecc.packet.simulate(Scenario(network, protocol, 60.0), sample=1.0)
    point = protocol.equilibrium(network)
    rates = run.rate.sel(time=slice(40.0, None)).mean("time").to_numpy()
    assert rates == pytest.approx(point.rates, rel=0.05)
    assert rates == pytest.approx(proportional(network), rel=0.05)


SPENT = {
    XCP: (6, 3),
    RCP: (2, 2),
    QIRCP: (2, 2),
    PIQIRCP: (2, 2),
    JetMax: (3, 0),  # EVAL sec. 4.8
    MKC: (1, 0),
    EMKC: (1, 0),
    EMKCAVQ: (1, 0),
    MaxNet: (1, 0),
    Kelly: (3, 0),
}


@pytest.mark.slow
@pytest.mark.claim
@every_protocol
def test_ops_additions_and_multiplications_of_a_packet(protocol):
    network = Network.dumbbell("4 Mb/s", rtts=[0.05, 0.08])
    spent = count_operations(Scenario(network, protocol, 4.0), since=2.0)
    ((operations, packets),) = spent.items()
    assert operations == Operations(*SPENT[type(protocol)])
    assert packets > 300


@pytest.mark.slow
@pytest.mark.claim
def test_ops_jetmax_spends_less_on_unresponsive_packets():
    """JETMAX 6.6: two additions for them, three for the others."""
    network = Network.parking_lot(["15 Mb/s", "10 Mb/s"], delay="10 ms")
    spent = count_operations(Scenario(network, JetMax(), 5.0), since=4.0)
    shares = {operations.additions: packets / spent.total() for operations, packets in spent.items()}
    rates = JetMax().equilibrium(network).rates
    assert shares == pytest.approx({2: rates[0] / 15e6, 3: rates[1] / 15e6}, abs=0.01)
    assert {operations.multiplications for operations in spent} == {0}


def test_operations_by_kind():
    """A router that does a little of all, on data only; unary minus, comparisons and constants are free."""

    class Busy(QIRCP):
        def link_hooks(self):
            return {"on_arrival": spend, "on_start": super().link_hooks()["on_start"]}

    scenario = Scenario(Network.dumbbell("1 Mb/s", rtts=[0.05]), Busy(), 2.0)
    assert set(count_operations(scenario)) == {Operations(additions=3, multiplications=1, divisions=3)}
    assert not count_operations(scenario, since=5.0)


def spend(link, header, p, env):
    x = 1.0 - link.R + 2.0
    y = 3.0 * abs(-x) / 2.0
    if not link.ticks and 1.0 < max(y, 1.0) != 0.5 and float(y) >= int(y):
        link.arrived = y // 2.0
        link.ticks = link.ticks % 5
    link.y = link.arrived - 1.0
