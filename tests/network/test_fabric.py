"""Fabrics: counts of hosts, links and paths, bisection bandwidth, shortest paths against a search, ECMP."""

import re
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from scipy.stats import chi2, kstest

import ecc
from ecc.network import demands
from ecc.network.demands import Demand
from ecc.network.fabric import Graph, ecmp_index
from ecc.network.flow_sizes import FLOW_SIZES
from ecc.network.network import Flow, Link, Network


def bisection(net, left):
    """Capacity [bit/s] that leads from the hosts of one half to those of the other: a maximum flow."""
    n = max(map(max, net.ends)) + 3
    unit, unlimited = net.links[0].capacity / 1000, 10**8
    rows = [(tail, head, round(link.capacity / unit)) for (tail, head), link in zip(net.ends, net.links, strict=True)]
    rows += [(n - 2, host, unlimited) if host in left else (host, n - 1, unlimited) for host in range(net.n_hosts)]
    tails, heads, capacities = map(np.array, zip(*rows, strict=True))
    graph = coo_array((capacities.astype(np.int32), (tails, heads)), shape=(n, n)).tocsr()
    return maximum_flow(graph, n - 2, n - 1).flow_value * unit


def joins(net, path, source, destination):
    """Whether a path is one: each link begins where the one before it ends."""
    nodes = [net.ends[path[0]][0], *(net.ends[link][1] for link in path)]
    return (
        nodes[0] == source
        and nodes[-1] == destination
        and all(net.ends[b][0] == net.ends[a][1] for a, b in pairwise(path))
    )


@pytest.mark.parametrize("k", [2, 4, 8])
def test_counts_of_a_fat_tree(k):
    net = Network.fat_tree(k, [(0, 1)])
    half, n = k // 2, k**3 // 4
    switches = {node for ends in net.ends for node in ends if node >= n}
    assert net.n_hosts == n and net.n_links == 6 * n and len(switches) == 5 * k * k // 4
    degree = np.bincount([tail for tail, _ in net.ends])
    assert (degree[:n] == 1).all() and (degree[n:] == k).all()
    assert net.ends[:n] == tuple((host, net.ends[host][1]) for host in range(n))
    assert net.ends[n : 2 * n] == tuple(ends[::-1] for ends in net.ends[:n])
    assert {ends[::-1] for ends in net.ends} == set(net.ends)
    for other in range(1, n):
        paths = net.paths(0, other)
        count, hops = (1, 2) if other < half else (half, 4) if other < half**2 else (half**2, 6)
        assert len(set(paths)) == len(paths) == count and {len(path) for path in paths} == {hops}
        assert all(joins(net, path, 0, other) for path in paths) and list(paths) == sorted(paths)
    assert bisection(net, range(n // 2)) == pytest.approx(n / 2 * 100e9)


def test_counts_of_a_leaf_spine_fabric():
    net = Network.leaf_spine(4, 3, 5, [(0, 19)], "10 Gb/s", fabric_capacity="40 Gb/s")
    assert net.n_hosts == 20 and net.n_links == 2 * (20 + 12)
    assert [len(net.paths(0, host)) for host in (4, 5, 19)] == [1, 3, 3]
    assert all(joins(net, path, 7, 19) and len(path) == 4 for path in net.paths(7, 19))
    assert net.capacities.tolist() == [10e9] * 40 + [40e9] * 24
    assert bisection(net, range(10)) == pytest.approx(100e9)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0, 4.0])
def test_oversubscription_is_what_the_bisection_lacks(ratio):
    """Hosts of one half can send n/2 C; the links between the halves carry 1/ratio of it, where that is less."""
    for net in (
        Network.fat_tree(4, [(0, 1)], oversubscription=ratio),
        Network.leaf_spine(4, 2, 8, [(0, 1)], oversubscription=ratio),
    ):
        half = net.n_hosts // 2
        assert bisection(net, range(half)) == pytest.approx(half * 100e9 / max(ratio, 1.0), rel=1e-3)


def test_delays_and_buffers_of_hosts_and_switches():
    net = Network.leaf_spine(
        2, 1, 2, [(0, 3), (0, 1)], delay="2 us", buffer="1 MB", host_delay="500 ns", host_buffer="9 MB"
    )
    assert net.rtts == pytest.approx([10e-6, 2e-6])
    assert [link.buffer for link in net.links] == [9_000_000] * 4 + [1_000_000] * 8
    assert Network.fat_tree(2, [(0, 1)]).links[0].buffer is None
    assert [(flow.route, flow.reverse) for flow in net.flows] == [((0, 8, 11, 7), (3, 9, 10, 4)), ((0, 5), (1, 4))]


@st.composite
def graphs(draw):
    """Hosts with one or two links each way to a few switches, which links join at random, some twice."""
    n_hosts, n_switches = draw(st.integers(2, 4)), draw(st.integers(1, 5))
    switch = st.integers(n_hosts, n_hosts + n_switches - 1)
    ends = []
    for host in range(n_hosts):
        for _ in range(draw(st.integers(1, 2))):
            at = draw(switch)
            ends += [(host, at), (at, host)]
    ends += draw(st.lists(st.tuples(switch, switch).filter(lambda pair: pair[0] != pair[1]), max_size=12))
    if draw(st.booleans()):
        ends.append((0, 1))
    return tuple(draw(st.permutations(ends))), n_hosts


def searched(ends, n_hosts, source, destination):
    """All shortest paths, by extending all paths from the source by a link at a time."""
    paths = [((), source)]
    for _ in range(12):
        paths = [
            ((*links, link), head)
            for links, at in paths
            if at == source or at >= n_hosts
            for link, (tail, head) in enumerate(ends)
            if tail == at and head not in {ends[one][0] for one in links}
        ]
        if found := [links for links, at in paths if at == destination]:
            return sorted(found)
    return []


@settings(max_examples=60)
@given(graphs())
def test_shortest_paths_are_those_that_a_search_finds(drawn):
    ends, n_hosts = drawn
    graph = Graph(ends, n_hosts)
    for source in range(n_hosts):
        for destination in range(n_hosts):
            if source == destination:
                continue
            expected = searched(ends, n_hosts, source, destination)
            if not expected:
                with pytest.raises(ValueError, match=f"links lead to from host {source}, got {destination}"):
                    graph.n_paths(source, destination)
                continue
            count = graph.n_paths(source, destination)
            assert [graph.path(source, destination, index) for index in range(count)] == expected


def test_ecmp_is_a_hash_of_the_flow_alone():
    pairs = [(0, 15), (3, 12), (0, 15), (5, 9)]
    net = Network.fat_tree(4, pairs)
    alone = Network.fat_tree(4, [(5, 9)]).flows[0]
    assert net.flows[3] == alone  # other flows do not change it
    assert net.with_demands(pairs).flows == net.flows
    assert all(flow.route in net.paths(*pair) for flow, pair in zip(net.flows, pairs, strict=True))
    assert all(flow.reverse in net.paths(*pair[::-1]) for flow, pair in zip(net.flows, pairs, strict=True))
    assert net.with_demands(pairs, ack_links=False).flows[0].reverse is None
    assert len({net.with_demands(pairs, seed=seed).flows[0].route for seed in range(20)}) == 4
    assert ecmp_index(1 << 62, 3, 14, 0, 1) == ecmp_index(1 << 62, 3, 14, 0, 1) != ecmp_index(1 << 62, 14, 3, 0, 1)
    assert [ecmp_index(4, 0, 15, number, 1) for number in range(8)] == [2, 1, 3, 2, 3, 1, 3, 3]


def test_ecmp_is_uniform_over_paths():
    """Chi-squared of 4,000 flows over 16 paths, and of the pairs of paths that data and ACKs take."""
    taken = np.array(
        [(ecmp_index(16, 3, 100, number, 7), ecmp_index(16, 3, 100, number, 7, is_ack=True)) for number in range(8000)]
    )
    for counts in (np.bincount(taken[:, 0], minlength=16), np.bincount(taken @ [16, 1], minlength=256)):
        expected = len(taken) / len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, len(counts) - 1)


def test_a_flow_has_all_that_its_demand_says():
    said = {
        "size": 5000, "start": 0.5, "stop": 2.0, "packet_size": (100, 900), "delayed_acks": (2, 0.1),
        "spraying": "random", "reordering_threshold": 9, "priority": 3, "trimmed_size": 64,
        "writes": (1000, 0.01), "ack_size": 84,
    }  # fmt: skip
    own = {"source", "destination", "path"}
    assert set(said) | own == {f.name for f in fields(Demand)}
    (flow,) = Network.leaf_spine(2, 2, 2, [Demand(0, 3, path="all", **said)], "10 Gb/s").flows
    assert {name: getattr(flow, name) for name in said} == said
    assert len(flow.alternatives) == 1 and len(flow.reverse) == 4


def test_a_path_can_be_chosen():
    net = Network.fat_tree(4, [Demand(0, 15, path=index) for index in range(4)])
    assert tuple(flow.route for flow in net.flows) == net.paths(0, 15)


def test_fabrics_in_scenarios_and_toml():
    flows = [Demand(0, 3, "100 kB", "1 us", "1 ms", packet_size=(500, 1500), delayed_acks=(2, "1 ms")), (1, 2)]
    net = Network.leaf_spine(2, 2, 2, flows, "1 Gb/s")
    flow = net.flows[0]
    assert (flow.size, flow.start, flow.stop, flow.packet_size) == (100_000, 1e-6, 1e-3, (500, 1500))
    assert flow.delayed_acks == (2, 1e-3) and flow.access_delay == 0.0
    scenario = ecc.Scenario(net, ecc.models.NewReno(), 0.01)
    again = ecc.Scenario.from_toml(scenario.to_toml())
    assert again == scenario and again.network.paths(0, 3) == net.paths(0, 3)
    assert "ends" not in ecc.Scenario(Network.T1(), ecc.models.RCP(), 1.0).to_dict()


REFUSED = {
    "k must be even, got 5": lambda: Network.fat_tree(5, [(0, 1)]),
    "k must be >= 2": lambda: Network.fat_tree(0, [(0, 1)]),
    "spines must be >= 1": lambda: Network.leaf_spine(2, 0, 2, [(0, 1)]),
    "flows must be at least one Flow, got none": lambda: Network.fat_tree(4, []),
    "oversubscription must be None if fabric_capacity is given, got 2": lambda: Network.fat_tree(
        4, [(0, 1)], fabric_capacity="1 Gb/s", oversubscription=2
    ),
    "oversubscription must be > 0, got 0": lambda: Network.fat_tree(4, [(0, 1)], oversubscription=0),
    "destination must be a host, 0 to 15, got 16 (flows[1])": lambda: Network.fat_tree(4, [(0, 1), (0, 16)]),
    "destination must be another host than the source, got 3 for both (flows[0])": lambda: Network.fat_tree(
        4, [(3, 3)]
    ),
    "a flow must be a Demand, or (source, destination), got 'ab' (flows[0])": lambda: Network.fat_tree(4, ["ab"]),
    "a flow must be a Demand, or (source, destination), got (1, 2, 3) (flows[0])": lambda: Network.fat_tree(
        4, [(1, 2, 3)]
    ),
    "path must be one of 4, 0 to 3, got 4 (flows[0])": lambda: Network.fat_tree(4, [Demand(0, 15, path=4)]),
    "size must be >= 1 bytes, got -1 (flows[0])": lambda: Network.fat_tree(4, [Demand(0, 15, size=-1)]),
    "n_hosts must be > 0 for paths between hosts, got 0": lambda: Network.T1().paths(0, 1),
    "n_hosts must be 0 if links have no ends, got 2": lambda: Network([Link(1e6)], [Flow([0])], n_hosts=2),
    "ends must be of all 2 links, or (), got 1": lambda: Network([Link(1e6)] * 2, [Flow([0])], ends=[(0, 1)]),
    "ends must be (tail, head), two nodes, got (1, 1) (link 0)": lambda: Network(
        [Link(1e6)], [Flow([0])], ends=[(1, 1)]
    ),
    "buffer must be >= a packet of flow 0 (1000 bytes), got 500 bytes (link 4)": lambda: Network.fat_tree(
        2, [(0, 1)], buffer=500, oversubscription=1
    ),
    "by must not be a multiple of n_hosts (4), got -4": lambda: demands.shift(4, by=-4),
    "sources must be at least one host, got ()": lambda: demands.incast(()),
    "duration must be < ": lambda: demands.poisson(128, 1.0, "1 Tb/s", "1 kB", "1 s"),
    "load must be at most 10": lambda: demands.poisson(128, 60, "1 Tb/s", "1 kB", "1 ns"),
    "load must be > 0": lambda: demands.poisson(128, 0.0, "1 Tb/s", "1 kB", "1 s"),
    "sizes must be one of 'web-search', 'data-mining', 'hadoop', or a table, got 'x'": lambda: demands.poisson(
        4, 1.0, "1 Gb/s", "x", 1.0
    ),
    "n_hosts must be >= 2": lambda: demands.permutation(1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_wrong_is_named_in_a_line(message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)) as caught:
        REFUSED[message]()
    assert "\n" not in str(caught.value)


# ---- patterns --------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(0, 2**64 - 1))
def test_a_permutation_sends_and_receives_once_everywhere(n, seed):
    found = demands.permutation(n, seed, size="1 kB")
    assert [one.source for one in found] == list(range(n)) == sorted(one.destination for one in found)
    assert found == demands.permutation(n, seed, size="1 kB") and {one.size for one in found} == {"1 kB"}


def test_all_permutations_without_fixed_points_are_equally_likely():
    drawn = [tuple(one.destination for one in demands.permutation(4, seed)) for seed in range(3600)]
    kinds, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(kinds) == 9 and ((counts - 400) ** 2 / 400).sum() < chi2.ppf(0.999, 8)


def test_an_incast_has_a_flow_from_each_source():
    found = demands.incast(127, 5, size="64 kB", start="1 ms")
    assert sorted(one.source for one in found) == [host for host in range(128) if host != 5]
    assert {(one.destination, one.start) for one in found} == {(5, 1e-3)}
    spread = demands.incast([3, 9, 4], 5, spread="10 us", seed=3, start="1 ms")
    assert [one.source for one in spread] == [3, 9, 4] and len({one.start for one in spread}) == 3
    assert all(1e-3 <= one.start <= 1.01e-3 for one in spread)


@settings(max_examples=20)
@given(st.integers(2, 12))
def test_all_to_all_has_every_pair_once(n):
    found = demands.all_to_all(n, gap="1 ms", start=0.5)
    assert len({(one.source, one.destination) for one in found}) == len(found) == n * (n - 1)
    assert all(one.start == 0.5 + ((one.destination - one.source) % n - 1) * 1e-3 for one in found)
    assert found[:n] == demands.shift(n, 1, start=0.5)


def test_random_flows_have_the_load_that_is_asked_for():
    n, duration = 64, 0.005
    found = demands.poisson(n, 0.5, "100 Gb/s", "hadoop", duration, seed=4, start="1 ms", packet_size=1500)
    sizes, starts = np.array([one.size for one in found]), np.array([one.start for one in found])
    expected = n * 0.5 * 100e9 / 8 / FLOW_SIZES["hadoop"].mean * duration
    assert abs(len(found) - expected) < 4 * np.sqrt(expected)
    assert (np.diff(starts) >= 0).all() and starts.min() >= 1e-3 and starts.max() < duration + 1e-3
    spread = np.sqrt(len(found) * np.mean(sizes.astype(float) ** 2))  # of a sum of a random number of random sizes
    assert abs(sizes.sum() - 64 * 0.5 * 100e9 / 8 * duration) < 4 * spread
    pairs = np.array([(one.source, one.destination) for one in found])
    assert (pairs[:, 0] != pairs[:, 1]).all()
    for column in pairs.T:
        counts = np.bincount(column, minlength=n)
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < chi2.ppf(0.999, n - 1)
    gaps = np.diff(starts)
    assert kstest(gaps / gaps.mean(), "expon").pvalue > 0.001
    assert found == demands.poisson(n, 0.5, "100 Gb/s", "hadoop", duration, seed=4, start="1 ms", packet_size=1500)
    assert {one.size for one in demands.poisson(4, 1.0, "1 Gb/s", "10 kB", "10 ms")} == {10_000}
