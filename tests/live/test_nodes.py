"""Which node has what: hosts of senders, a router for each link, hosts of receivers."""

import numpy as np
import pytest

from ecc.live.nodes import links_between, nodes, prepared_for_links
from ecc.models import EDN, QIRCP
from ecc.network.network import Flow, Link, Network
from ecc.packet.c_engine import joints_of
from ecc.packet.prepare import prepare
from ecc.scenario import Scenario


def cut(network, protocol=None):
    """The nodes of links, senders and receivers, and the links between."""
    setup = prepared_for_links(prepare(Scenario(network, protocol or QIRCP(), duration=1.0), "empty", 0.0))
    of = joints_of(setup)
    parts = nodes(of, setup)
    return *np.split(parts, [of.n_links, of.n_links + of.n_flows]), links_between(of, parts)


def test_a_dumbbell_has_three_nodes_though_nothing_delays_the_access():
    links, senders, receivers, between = cut(Network.dumbbell("1 Mb/s", rtts=[0.05, 0.05]))
    assert len({*links, *senders, *receivers}) == 3 and len(set(senders)) == len(set(receivers)) == 1
    assert between == [(0, 1), (0, 2), (1, 2)]


def test_each_link_of_a_route_is_a_router():
    links, senders, receivers, between = cut(Network([Link("1 Mb/s")] * 3, [Flow([0, 1, 2])]))
    assert len({*links, *senders, *receivers}) == 5 and len(between) == 5


def test_receivers_with_a_hook_are_with_their_senders():
    links, senders, receivers, between = cut(Network.dumbbell("1 Mb/s", rtts=[0.05], buffer=10_000), EDN())
    assert senders.tolist() == receivers.tolist() and len(between) == 1 and links[0] != senders[0]


def test_receivers_are_at_the_first_link_of_their_acks():
    network = Network([Link("1 Mb/s"), Link("1 Mb/s"), Link("1 Mb/s")], [Flow([0], reverse=[1, 2]), Flow([0])])
    links, senders, receivers, between = cut(network)
    assert receivers[0] == links[1] == receivers[1] and links[2] not in (links[0], senders[0], receivers[0])
    assert len(between) == 5


def test_a_link_for_data_and_acks_is_a_router_with_hosts():
    network = Network([Link("1 Mb/s"), Link("1 Mb/s")], [Flow([0], reverse=[1]), Flow([1], reverse=[0])])
    links, senders, receivers, _ = cut(network)
    assert receivers.tolist() == [links[1], links[0]] and len({*links, *senders}) == 3


def test_links_without_packets_are_no_nodes():
    links, senders, _, _ = cut(Network([Link("1 Mb/s"), Link("1 Mb/s")], [Flow([0])]))
    assert links[1] == senders[0]


@pytest.mark.parametrize("ack_delay", [0.0, 0.01])
def test_only_delays_of_zero_change(ack_delay):
    setup = prepare(Scenario(Network([Link("1 Mb/s", ack_delay)], [Flow([0])]), QIRCP(), duration=1.0), "empty", 0.0)
    changed = prepared_for_links(setup)
    assert changed.links["delay"][0] == max(1, setup.links["delay"][0])
    assert changed.flows["impairment"].tolist() == [1] and not any(changed.impairments[0].tolist())
    assert setup.flows["impairment"].tolist() == [0]
