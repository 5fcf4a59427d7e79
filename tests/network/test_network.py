import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from ecc.network.allocation import max_min, proportional, water_filling
from ecc.network.network import Flow, Link, Network


def test_rtt_is_twice_the_one_way_delays():
    net = Network([Link(1e6, 0.01), Link(1e6, "20 ms")], [Flow([0, 1], access_delay=0.005), Flow([1])])
    assert net.rtts == pytest.approx([0.07, 0.04])
    assert net.forward_delays[0] == pytest.approx([0.005, 0.015])
    assert math.isnan(net.forward_delays[1, 0])
    assert net.backward_delays[0] == pytest.approx([0.065, 0.055])
    assert net.ack_delays == pytest.approx([0.035, 0.02])


def test_acks_over_reverse_links_add_those_delays():
    net = Network.T4(delay=0.05)
    assert net.rtts == pytest.approx([0.2, 0.1, 0.2, 0.1])
    assert net.ack_delays == pytest.approx([0.0, 0.05, 0.0, 0.05])


def test_dumbbell_splits_rtts_into_bottleneck_and_access():
    net = Network.dumbbell("100 Mb/s", rtts=[0.12, 0.12, 0.3], buffer="1.25 MB")
    assert net.links[0] == Link(100e6, 0.06, 1_250_000)
    assert [f.access_delay for f in net.flows] == pytest.approx([0.0, 0.0, 0.09])
    assert net.rtts.tolist() == [0.12, 0.12, 0.3]
    given = Network.dumbbell(1e8, rtts=["120 ms"], delay="50 ms", starts=[1], stops=["2 s"], sizes=["1 MB"])
    flow = given.flows[0]
    assert (flow.start, flow.stop, flow.size) == (1.0, 2.0, 1_000_000)
    assert flow.access_delay == pytest.approx(0.01)


def test_topologies_of_the_papers():
    assert [flow.start for flow in Network.T2(starts=np.arange(100.0)).flows] == list(range(100))
    unstable = Network.T_u()
    assert unstable.rtts == pytest.approx([0.202] + [0.004] * 9)
    assert Network.T_u(scale=10).rtts == pytest.approx([2.02] + [0.04] * 9)
    assert Network.T1().rtts.tolist() == [0.22, 2.02]
    assert Network.T2().n_flows == 100 and Network.T2().rtts.mean() == pytest.approx(0.238)
    assert Network.T3().rtts.tolist() == Network.T1().rtts.tolist()
    assert max_min(Network.T4()) == pytest.approx([10e6] * 4)
    assert max_min(Network.T4().with_flows(Network.T4().flows[:1])) == pytest.approx([17e6])
    assert Network.T5().links[0].buffer == 1_250_000 and Network.T5().n_flows == 51
    unfair = Network.xcp_unfair(3)
    assert max_min(unfair) == pytest.approx([155e6 / 3] + [155e6 / 12] * 8)
    assert Network.xcp_unfair(3, long_link_first=True).flows[1].route == (1, 0)


def test_max_min_of_the_parking_lot_and_its_bottlenecks():
    filled = water_filling(Network.parking_lot(["970 Mb/s", "800 Mb/s"]))
    assert filled.rates == pytest.approx([400e6, 570e6, 400e6])
    assert filled.bottleneck.tolist() == [1, 0, 1]


def test_max_min_is_max_min_on_random_networks():
    rng = np.random.default_rng(3)
    for _ in range(50):
        links = [Link(float(c)) for c in rng.uniform(1e6, 1e8, rng.integers(1, 6))]
        flows = [
            Flow(rng.permutation(len(links))[: rng.integers(1, len(links) + 1)].tolist())
            for _ in range(rng.integers(1, 12))
        ]
        net = Network(links, flows)
        filled = water_filling(net)
        load = net.incidence.T.astype(float) @ filled.rates
        assert np.all(load <= net.capacities * (1 + 1e-12))
        for flow, link in enumerate(filled.bottleneck):  # saturated, and nobody there has more
            assert load[link] == pytest.approx(net.capacities[link])
            assert filled.rates[flow] >= filled.rates[net.incidence[:, link]].max() * (1 - 1e-9)


def test_proportional_fairness_on_random_networks():
    """x is the maximum of sum log x_i if sum (z_i - x_i)/x_i <= 0 for all z that fit, which is a linear program."""
    assert proportional(Network.parking_lot(["90 Mb/s"] * 3)) == pytest.approx([22.5e6] + [67.5e6] * 3, rel=1e-11)
    rng = np.random.default_rng(3)
    networks = []
    for _ in range(30):
        n = int(rng.integers(1, 7))
        links = [Link(float(10.0 ** rng.uniform(3, 9))) for _ in range(n)]
        ways = [rng.permutation(n)[: rng.integers(1, n + 1)].tolist() for _ in range(rng.integers(1, 15))]
        networks.append(Network(links, [Flow(way) for way in ways]))
    pairs = [tuple(rng.permutation(128)[:2].tolist()) for _ in range(200)]
    networks.append(Network.fat_tree(8, flows=pairs))  # the prices of several links on a path are not unique
    for net in networks:
        x = proportional(net)
        shares = csr_array(net.incidence.T * x / net.capacities[:, None])
        assert shares.sum(axis=1).max() <= 1.0 + 1e-12
        assert -linprog(-np.ones(len(x)), shares, np.ones(net.n_links)).fun == pytest.approx(len(x), rel=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Link(-1.0), r"capacity must be > 0 bit/s, got -1\.0"),
        (lambda: Link(float("nan")), "capacity must be > 0 bit/s, got nan"),
        (lambda: Link("100 mb/s"), r"capacity must be >= 1 bit/s when given as text, got '100 mb/s'"),
        (lambda: Link("10 parsec"), "capacity must have one of the units"),
        (lambda: Link("fast"), "capacity must be a number with a unit such as bit/s, got 'fast'"),
        (lambda: Link(1e6, "-1 ms"), "delay must be >= 0 s, got '-1 ms'"),
        (
            lambda: Network.dumbbell("1 Mb/s", ["40 ms"], buffer="20 packets"),
            "buffer must be in bytes, for example 20 [*] 1500, got '20 packets'; buffer_packets of a link limits",
        ),
        (lambda: Link(1e6, 0.0, 0), "buffer must be >= 1 bytes, got 0"),
        (lambda: Link(1e6, 0.0, None, 0), "buffer_packets must be >= 1, got 0"),
        (
            lambda: Flow([0], packet_size=(1500, 40)),
            r"packet_size must be one size or \(lowest, highest\), got \(1500, 40\)",
        ),
        (lambda: Flow([0], packet_size=(40,)), r"packet_size must be one size or \(lowest, highest\), got \(40,\)"),
        (
            lambda: Network([Link(1e6, 0, 999)], [Flow([0], packet_size=(40, 1000))]),
            r"buffer must be >= a packet .*got 999",
        ),
        (lambda: Flow([]), "route must name at least one link"),
        (lambda: Flow([0, 0]), "route must cross a link at most once"),
        (lambda: Flow([0], alternatives=[[]]), "alternatives must name at least one link"),
        (lambda: Flow([0], alternatives=[[1, 1]]), r"alternatives must cross a link at most once, got \[1, 1\]"),
        (lambda: Flow([0], spraying="even"), "spraying must be one of 'round robin', 'random', got 'even'"),
        (lambda: Flow([0], trimmed_size=0), "trimmed_size must be >= 1 bytes, got 0"),
        (
            lambda: Flow([0], trimmed_size=2000),
            r"trimmed_size must be <= a packet \(1000 bytes\), got 2000 bytes",
        ),
        (lambda: Flow([0], reordering_threshold=0), "reordering_threshold must be >= 1, got 0"),
        (lambda: Flow([0], reordering_threshold=256), "reordering_threshold must be <= 255 packets, got 256"),
        (
            lambda: Network([Link(1e6)], [Flow([0], alternatives=[[1]])]),
            r"alternatives must use links 0 to 0, got 1 \(flow 0\)",
        ),
        (lambda: Flow([-1]), "route must be >= 0, got -1"),
        (lambda: Flow([0], start=5.0, stop=5.0), r"stop must be > start \(5 s\), got 5 s"),
        (lambda: Flow([0], packet_size=0), "packet_size must be >= 1 bytes"),
        (lambda: Flow([0], packet_size=(0.4, 1000)), "packet_size must be >= 1 bytes, got 0.4"),
        (lambda: Flow([0], size=0.4), "size must be >= 1 bytes, got 0.4"),
        (lambda: Flow([0], size="4 bits"), "size must be >= 1 bytes, got '4 bits'"),
        (lambda: Flow([0], size=1e19), r"size must be <= 2\^62 bytes, got 1e\+19"),
        (lambda: Flow([0], start=5e6), r"start must be < 4e\+06 s, which the clock holds, got 5000000\.0"),
        (lambda: Flow([0], stop="2000 h"), r"stop must be < 4e\+06 s, which the clock holds, got '2000 h'"),
        (
            lambda: Flow([0], access_delay=1e6),
            r"access_delay must be < 1e\+06 s, which the clock holds, got 1000000\.0",
        ),
        (
            lambda: Flow([0], delayed_acks=(2, 2e6)),
            r"delayed_acks must be < 1e\+06 s, which the clock holds, got 2000000\.0",
        ),
        (lambda: Network.dumbbell(1e6, [3e6]), r"rtts must be < 1e\+06 s, which the clock holds, got 3000000\.0"),
        (
            lambda: Network([Link(1e6, 6e5)] * 2, [Flow([0, 1])]),
            r"delays of flow 0 must add up to < 1e\+06 s one way, got 1\.2e\+06 s",
        ),
        (lambda: Network([Link(1e6)], [Flow([1])]), r"route must use links 0 to 0, got 1 \(flow 0\)"),
        (
            lambda: Network([Link(1e6, 0, 500)], [Flow([0])]),
            r"buffer must be >= a packet of flow 0 \(1000 bytes\), got 500",
        ),
        (lambda: Network([], [Flow([0])]), "links must be at least one Link, got none"),
        (lambda: Network([Link(1e6)], []), "flows must be at least one Flow, got none"),
        (lambda: Network.dumbbell(1e8, rtts=[]), "rtts must name at least one flow"),
        (
            lambda: Network.dumbbell(1e8, rtts=[0.1], delay=0.06),
            r"rtts must be >= twice the delay \(0\.12 s\), got 0\.1 s",
        ),
        (
            lambda: Network.dumbbell(1e8, rtts=[0.1], starts=[0, 1]),
            "starts must have one entry for each of 1 flows, got 2",
        ),
        (lambda: Network.xcp_unfair(1), "n must be >= 2, got 1"),
        (lambda: max_min(Network.dumbbell(1e8, [0.1]), [0.0]), "capacities must be 1 finite rates > 0"),
        (lambda: proportional(Network.dumbbell(1e8, [0.1]), [1.0, 1.0]), "capacities must be 1 finite rates > 0"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Link(None), "capacity must be a number or a string with a unit, got None"),
        (lambda: Flow(3), "route must be a sequence of link indices, got 3"),
        (lambda: Flow([0.5]), "route must be a whole number, got 0.5"),
        (lambda: Network([1], [Flow([0])]), "links must be a sequence of Link"),
        (lambda: Network.dumbbell(1e8, rtts=0.1), "rtts must be a sequence, got 0.1"),
    ],
)
def test_wrong_kinds_get_one_line(build, message):
    with pytest.raises(TypeError, match=message):
        build()


def test_tables_that_differ_in_access_delays_give_the_flows_of_the_constructor() -> None:
    shared = [{"route": [1, 0], "packet_size": 1500}, {"route": [0], "start": 2.0, "delayed_acks": [2, 0.1]}]
    delays = [0.0, 0.25, 1e-3]
    tables = [{**table, "access_delay": delay} for delay in delays for table in shared] + [{"route": [1]}]
    network = Network.from_dict({"links": [{"capacity": 1e6}] * 2, "flows": tables})
    assert network.flows == tuple(Flow(**table) for table in tables)
    assert network.flows[2].access_delay == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"priority": True}, r"priority .*True \(in flows\[2\]\)"),
        ({"access_delay": -0.5}, r"access_delay must be >= 0 s, got -0.5 \(in flows\[2\]\)"),
        ({"access_delay": math.nan}, r"access_delay .*nan \(in flows\[2\]\)"),
        ({"access_delay": 2e6}, r"access_delay must be < 1e\+06 s.*\(in flows\[2\]\)"),
        ({"route": [-1]}, r"route must be >= 0, got -1 \(in flows\[2\]\)"),
    ],
)
def test_a_bad_table_like_others_is_refused_with_its_index(change: dict[str, Any], message: str) -> None:
    flow = {"route": [0], "access_delay": 0.5, "priority": 1}
    with pytest.raises((ValueError, TypeError), match=message):
        Network.from_dict({"links": [{"capacity": 1e6}], "flows": [flow, flow, {**flow, **change}]})
