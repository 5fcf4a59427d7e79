"""Bottleneck assignments: dependency graphs, consistency, Jacobians, and JETMAX fig. 9."""

import networkx as nx
import numpy as np
import pytest

import ecc
from ecc.models import EMKC, EMKCAVQ, MKC, RCP, XCP, JetMax, Kelly
from ecc.network.network import Flow, Link, Network
from ecc.stability import bottleneck_assignment, water_filled

CHAIN = Network([Link("10 Mb/s"), Link("20 Mb/s"), Link("30 Mb/s")], [Flow([0, 1]), Flow([1]), Flow([1, 2]), Flow([2])])
RING = Network([Link("10 Mb/s"), Link("10 Mb/s")], [Flow([0, 1]), Flow([1, 0])])


def drawn(rng, n_links=10, n_flows=50, hops=4):
    links = [Link(float(c) * 1e6) for c in rng.uniform(1, 100, n_links)]
    flows = [Flow(rng.permutation(n_links)[: rng.integers(1, hops + 1)].tolist()) for _ in range(n_flows)]
    return Network(links, flows)


def test_dependency_graph_of_fig_7():
    """x_1 held at link 1, x_2 and x_3 at link 2, x_4 at link 3, with x_1 also on link 2 and x_3 on link 3."""
    found = bottleneck_assignment(CHAIN, [0, 1, 1, 2])
    assert set(found.dependency_graph.edges) == {(0, 1), (0, 2), (2, 3)}
    assert found.is_consistent
    assert found.cycle is None


def test_a_circle_is_named():
    found = bottleneck_assignment(RING, [0, 1])
    assert set(found.dependency_graph.edges) == {(0, 1), (1, 0)}
    assert not found.is_consistent
    assert sorted(found.cycle) == [0, 1]


def test_consistency_is_that_of_networkx():
    rng = np.random.default_rng(3)
    verdicts = []
    for _ in range(300):
        net = drawn(rng, n_links=6, n_flows=int(rng.integers(2, 9)), hops=3)
        found = bottleneck_assignment(net, [int(rng.choice(flow.route)) for flow in net.flows])
        verdicts.append(found.is_consistent)
        assert found.is_consistent == nx.is_directed_acyclic_graph(found.dependency_graph)
        if found.cycle is not None:
            for b, link in zip(found.cycle, found.cycle[1:] + found.cycle[:1], strict=True):
                assert any(link in net.flows[i].route for i in np.flatnonzero(found.links == b))
    assert 50 < sum(verdicts) < 250


def test_water_filling_is_consistent_and_leaves_a_router_without_unresponsive_flows():
    """JETMAX Lemmas 1 and 2."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        net = drawn(rng)
        found = water_filled(net, rng.uniform(1, 100, net.n_links))
        assert nx.is_directed_acyclic_graph(found.dependency_graph)
        assert any(np.all(found.links[net.incidence[:, b]] == b) for b in np.unique(found.links))
    assert water_filled(net).links.tolist() == JetMax().equilibrium(net).bottleneck.tolist()


def test_jacobian_of_jetmax_by_hand():
    tau, n, m = 0.6, 2.0, 1.0
    protocol = JetMax(tau=tau)
    a, b, c = 1 - tau, -tau / n, -tau / m
    expected = np.array([[a, 0, 0, 0], [b, a, 0, 0], [b, 0, a, 0], [0, 0, c, a]])
    assert bottleneck_assignment(CHAIN, [0, 1, 1, 2]).jacobian(protocol) == pytest.approx(expected)
    circle = bottleneck_assignment(RING, [0, 1]).jacobian(protocol)
    assert circle == pytest.approx(np.array([[1 - tau, -tau], [-tau, 1 - tau]]))


@pytest.mark.slow
@pytest.mark.claim
def test_jm_th2_spectral_radius_of_random_assignments():
    """JETMAX fig. 9: tau = 0.6, 10 routers, 50 flows; every consistent assignment 0.4, others may pass 1."""
    rng = np.random.default_rng(5)
    protocol = JetMax(tau=0.6)
    consistent, inconsistent = [], []
    for _ in range(250):
        net = drawn(rng, hops=int(rng.integers(2, 11)))
        consistent.append(water_filled(net, rng.uniform(1, 100, 10)).spectral_radius(protocol))
        other = bottleneck_assignment(net, [int(rng.choice(flow.route)) for flow in net.flows])
        if not other.is_consistent:
            inconsistent.append(other.spectral_radius(protocol))
    assert consistent == pytest.approx([0.4] * 250, abs=1e-12)
    assert len(inconsistent) > 200
    assert min(inconsistent) < 0.6 and max(inconsistent) > 2.0


@pytest.mark.parametrize("protocol", [JetMax(tau=0.7), MKC(), EMKC()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("net", [CHAIN, Network.parking_lot(["970 Mb/s", "800 Mb/s"])])
def test_jacobian_is_the_undelayed_loop(protocol, net):
    links = water_filled(net).links
    found = bottleneck_assignment(net, links)
    still = Network([Link(link.capacity) for link in net.links], net.flows)
    assert np.all(still.rtts == 0.0)
    loop = ecc.linearize(protocol, still, time="discrete", assignment=links)
    z = np.array([0.3 + 0.9j, -1.2 + 0.1j, 0.7 + 0.0j])
    own = [np.linalg.det(one * np.eye(net.n_flows) - found.jacobian(protocol)) for one in z]
    silent = loop.size - net.n_flows  # what links announce is no state: a root at 0 each
    assert loop.characteristic(z) == pytest.approx(z**silent * own, rel=1e-9)
    assert loop.is_stable == (found.spectral_radius(protocol) < 1.0)


def test_jacobian_of_emkc_on_one_link():
    """Eigenvalues 1 - beta of the sum and 1 - beta p of the differences."""
    net = Network.dumbbell("10 Mb/s", rtts=[0.1] * 4)
    protocol = EMKC(alpha="0.2 Mb/s", beta=0.5)
    loss = 1.6 / 11.6
    values = np.sort(np.linalg.eigvals(bottleneck_assignment(net, [0] * 4).jacobian(protocol)).real)
    assert values == pytest.approx([0.5, *[1 - 0.5 * loss] * 3])


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (RCP(), "protocol must have routers without memory, got RCP; linearize"),
        (EMKCAVQ(), "protocol must have routers without memory, got EMKCAVQ"),
        (XCP(), "protocol must have laws without RTTs, got XCP"),
        (Kelly(), "protocol must have one bottleneck a flow, got Kelly"),
    ],
)
def test_protocols_without_a_jacobian_are_refused(protocol, message):
    with pytest.raises(ValueError, match=message):
        bottleneck_assignment(CHAIN, [0, 1, 1, 2]).jacobian(protocol)


def test_bad_assignments_are_refused():
    with pytest.raises(ValueError, match="assignment must have 4 link indices, got"):
        bottleneck_assignment(CHAIN, [0, 1])
    with pytest.raises(ValueError, match=r"assignment must use links of the flow's route, got 2 \(flow 0\)"):
        bottleneck_assignment(CHAIN, [2, 1, 1, 2])
