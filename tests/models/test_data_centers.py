"""Transports of data centers on a dumbbell, a parking lot and a fat tree: what holds for packets of each of them."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import ecc
from ecc.models import ABC, DCQCN, DCTCP, HPCC, NSCC, SPERC, TIMELY, PatchedTIMELY, PowerTCP, Swift, ThetaPowerTCP
from ecc.network.demands import permutation
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Network
from ecc.queues import RampMarking, StepMarking
from ecc.scenario import Scenario

C = 10e9
STARTS = [0.0, 31.7e-6, 57.41e-6, 101.93e-6]
"""No two packets are at one place at one moment: which of them is first goes by the numbers of flows and links."""


@dataclass(frozen=True)
class Case:
    """A protocol at 10 Gb/s with RTTs of some 40 us, and what it promises there on one link.

    `busy`: least share of the capacity that flows get. `even`: least Jain's index of equal flows. `longest`: the
    longest queue once flows have shared the link [bytes]. `settles`: time until then [s]. `used`: least share of a
    capacity that each flow meets somewhere on its path on a fat tree; of hosts that go by delays (`by_delay`), on that
    of its ACKs, too. `marks`: whether links mark; `is_random`: by chance, by random numbers that a link has by its
    number.
    """

    protocol: object
    busy: float
    even: float
    longest: float
    settles: float
    used: float
    by_delay: bool = False
    marks: bool = False
    is_random: bool = False


CASES = {
    "ABC": Case(ABC(delta="60 us", target_delay="10 us", measured_over="40 us"), 0.97, 0.95, 40e3, 4e-3, 0.75),
    "DCTCP": Case(
        {"flows": DCTCP(initial=10.0), "links": StepMarking(threshold=40.0)}, 0.99, 0.95, 60e3, 4e-3, 0.75, marks=True
    ),
    "DCQCN": Case(DCQCN(line_rate=C), 0.93, 0.98, 400e3, 10e-3, 0.75, marks=True, is_random=True),
    "TIMELY": Case(TIMELY(delta="50 Mb/s", floor=1.0), 0.9, 0.95, 200e3, 10e-3, 0.85, by_delay=True),
    "PatchedTIMELY": Case(PatchedTIMELY(delta="50 Mb/s", floor=1.0), 0.99, 0.99, 200e3, 10e-3, 0.85, by_delay=True),
    "Swift": Case(
        Swift(base_target="60 us", hop_scaling="2 us", fs_range="50 us"), 0.99, 0.99, 60e3, 4e-3, 0.9, by_delay=True
    ),
    "HPCC": Case(HPCC(base_rtt="40 us", line_rate=C, w_ai=300), 0.94, 0.95, 15e3, 4e-3, 0.85),
    "HPCC, rates": Case(
        HPCC(base_rtt="40 us", line_rate=C, w_ai=300, form="rate", max_stage=0), 0.94, 0.95, 15e3, 4e-3, 0.85
    ),
    "PowerTCP": Case(PowerTCP(base_rtt="40 us", line_rate=C), 0.99, 0.95, 30e3, 4e-3, 0.75),
    "ThetaPowerTCP": Case(ThetaPowerTCP(base_rtt="40 us", line_rate=C), 0.99, 0.95, 200e3, 4e-3, 0.25, by_delay=True),
    "SPERC": Case(SPERC(), 0.935, 0.999, 10e3, 4e-3, 0.93),
    "NSCC": Case(
        {
            # Not of the link's rate: packets of two flows would come at one time, and then in the order of their names.
            "flows": NSCC(1.01 * C, "40 us", trimming=False),
            "links": RampMarking(packet_size=1000, min_threshold=10.0, max_threshold=40.0),
        },
        0.99,
        0.95,
        150e3,
        4e-3,
        0.7,
        by_delay=True,
        marks=True,
        is_random=True,
    ),
}
SLOW = {"ABC"}
"""Whose links have the same hooks for RTTs of the Internet, in tests of its own."""
every_case = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, case in CASES.items()],
)
DUMBBELL = Network.dumbbell(C, ["40 us"] * 4, packet_size=1000, buffer="1 MB", starts=STARTS)
PARKING_LOT = Network.parking_lot([C, C], delay="5 us", starts=STARTS[:3])
FAT_TREE = Network.fat_tree(
    4,
    [replace(one, start=49.137e-9 * k, packet_size=1000) for k, one in enumerate(permutation(16, seed=3))],
    C,
    "3 us",
    buffer="1 MB",
    host_buffer="8 MB",
)
FAT_TREE = replace(
    FAT_TREE, links=tuple(replace(link, delay=link.delay + 1.37e-8 * k**0.5) for k, link in enumerate(FAT_TREE.links))
)
NETWORKS = {"dumbbell": DUMBBELL, "parking lot": PARKING_LOT, "fat tree": FAT_TREE}
every_network = pytest.mark.parametrize(
    "network", [DUMBBELL, PARKING_LOT, pytest.param(FAT_TREE, marks=pytest.mark.slow)], ids=NETWORKS.keys()
)


def simulate(case, network, duration=None, phase_jitter=None, **options):
    scenario = Scenario(network, case.protocol, duration or 2.0 * case.settles, phase_jitter=phase_jitter)
    return ecc.packet.simulate(scenario, **options)


def check_conservation(run, network):
    """What was sent has come, was lost, or is on its way: in queues, on wires, and as ACKs that have not returned."""
    sample = float(run.rate["time"][0])
    sent = run.rate.sum("time").to_numpy() * sample / 8.0
    outstanding = sent - run.flows["delivered"].to_numpy() - run.flows["lost"].to_numpy()
    queued = run.queue[-1].to_numpy()
    on_wires = (network.rtts * C / 8.0).max() + 2.0 * 1000
    assert (outstanding >= -1e-6).all()
    assert outstanding.max() <= queued.sum() + 2.0 * on_wires


@every_case
def test_equal_flows_share_a_link(case):
    """From staggered starts: the link is used, evenly, with a short queue, and nothing is lost."""
    run = simulate(case, DUMBBELL, sample=1e-4)
    late = slice(len(run.rate) // 2, None)
    rates = run.goodput[late].mean("time").to_numpy()
    assert case.busy * C <= rates.sum() <= 1.001 * C
    assert rates.sum() ** 2 / (4 * (rates**2).sum()) >= case.even
    assert run.queue_max[late].max() <= case.longest
    assert run.drops.sum() == 0 and (run.flows[["lost", "retransmitted"]] == 0).all(axis=None)
    check_conservation(run, DUMBBELL)


@pytest.mark.slow
@every_case
@pytest.mark.parametrize("name", ["parking lot", "fat tree"])
def test_each_flow_has_a_link_that_is_used(case, name):
    """A flow that could send more, with no link of its path in use, would not be controlled but stuck."""
    network = NETWORKS[name]
    run = simulate(case, network, sample=1e-4)
    rates = run.goodput[len(run.goodput) // 2 :].mean("time").to_numpy()
    loads = rates @ network.incidence / network.capacities
    assert loads.max() <= 1.002  # what a queue had taken in before
    for flow in network.flows:
        links = [*flow.route, *(flow.reverse or () if case.by_delay else ())]
        assert loads[links].max() >= case.used
    assert rates.min() > 0.0
    assert run.drops.sum() == 0 and (run.flows["lost"] == 0).all()
    check_conservation(run, network)


@every_case
@every_network
def test_the_names_of_flows_change_nothing(case, network):
    order = np.random.default_rng(7).permutation(network.n_flows)
    other = replace(network, flows=tuple(network.flows[i] for i in order))
    one, two = (simulate(case, each, 1e-3, phase_jitter=False, sample=1e-4) for each in (network, other))
    assert (two.rate.to_numpy() == one.rate.to_numpy()[:, order]).all()
    assert (two.queue.to_numpy() == one.queue.to_numpy()).all()
    assert one.stats["events"] == two.stats["events"] and one.rate.sum() > 0


@pytest.mark.parametrize("case", [case for case in CASES.values() if not case.is_random], ids=lambda case: "")
@every_network
def test_the_names_of_links_change_nothing(case, network):
    order = np.random.default_rng(8).permutation(network.n_links)  # new link k is the old order[k]
    name = np.argsort(order)
    flows = [
        replace(
            flow,
            route=tuple(int(name[link]) for link in flow.route),
            reverse=None if flow.reverse is None else tuple(int(name[link]) for link in flow.reverse),
        )
        for flow in network.flows
    ]
    other = Network([network.links[int(i)] for i in order], flows)
    one, two = (simulate(case, each, 1e-3, phase_jitter=False, sample=1e-4) for each in (network, other))
    assert (two.rate.to_numpy() == one.rate.to_numpy()).all()
    assert (two.queue.to_numpy() == one.queue.to_numpy()[:, order]).all()


@pytest.mark.slow
@every_case
@every_network
def test_the_twin_runs_the_same_events(case, network):
    duration = 1e-4 if network is FAT_TREE else 1e-3
    c, python = (simulate(case, network, duration, engine=engine) for engine in ("c", "python"))
    assert c.stats["digest"] == python.stats["digest"]
    assert c.stats["events"] == python.stats["events"] > 100


@every_case
@every_network
def test_threads_and_parts_change_nothing(case, network):
    if network is DUMBBELL:
        network = Network.dumbbell(C, ["40 us"] * 4, delay="5 us", packet_size=1000, buffer="1 MB", starts=STARTS)
    one, two = (simulate(case, network, 1e-3, sample=1e-4, threads=threads) for threads in (1, 2))
    assert one.stats["digest"] == two.stats["digest"]
    assert (one.rate.to_numpy() == two.rate.to_numpy()).all()


@every_case
@every_network
def test_an_outage_of_a_link_is_survived(case, network):
    """Where a link stands still for a while, flows over it stop, and come back; all that is sent comes or is lost."""
    link = network.flows[0].route[-2] if network is FAT_TREE else network.flows[0].route[0]
    begin, end = case.settles, 1.2 * case.settles
    outage = CapacitySchedule(link=link, times=[begin, end], capacities=[0.0, C])
    scenario = Scenario(network, case.protocol, 4.0 * case.settles, impairments=[outage])
    run = ecc.packet.simulate(scenario, sample=0.1 * case.settles)
    crosses = network.incidence[:, link]
    got = run.goodput.to_numpy()[:, crosses].sum(axis=1)
    assert run.is_complete
    assert got[11] < 0.02 * C
    before, after = got[6:10].mean(), got[-10:].mean()
    assert after > 0.75 * before
    check_conservation(run, network)


@pytest.mark.parametrize("name", ["DCTCP", "DCQCN", "NSCC"])
@every_network
def test_links_mark_and_hosts_answer(name, network):
    """All that is marked is counted at a link and at its host, ACKs at links alone; no host that is late is dropped."""
    case = CASES[name]
    assert case.marks
    run = simulate(case, network, sample=1e-4)
    at_links, at_hosts = int(run.marks.sum()), run.flows["marked"].sum() / 1000
    assert 0 < at_hosts <= at_links and run.drops.sum() == 0
    if not any(flow.reverse for flow in network.flows):
        assert at_links - at_hosts <= 150  # on their way: windows are up to 75 packets


@pytest.mark.parametrize(
    ("name", "within"), [("PatchedTIMELY", 0.02), ("Swift", 0.05), ("HPCC", 0.05), ("HPCC, rates", 0.05), ("ABC", 0.05)]
)
def test_packets_come_to_the_equilibrium_of_their_laws(name, within):
    """From staggered starts, on one link: rates of all flows together, and the mean queue of those that have one."""
    case = CASES[name]
    point = case.protocol.equilibrium(DUMBBELL)
    run = simulate(case, DUMBBELL, sample=1e-4)
    late = slice(len(run.rate) // 2, None)
    rates = run.goodput[late].mean("time").to_numpy()
    assert rates.sum() == pytest.approx(point.rates.sum(), rel=0.02)
    wait, rest = run.queue[late].mean().item() * 8.0 / C, point.queue[0] / C
    assert 40e-6 + wait == pytest.approx(40e-6 + rest, rel=within)
