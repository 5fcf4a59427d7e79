"""The ideal completion time is the one of a flow that is alone and sends all that it has at once: to the picosecond."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ecc
from ecc.network.network import Flow, Link, Network
from ecc.traffic.workload import Workload

EAGER = ecc.models.NewReno(initial=10_000)
"""Sends whatever a flow has at once."""


def alone(network, duration=1.0, **fields):
    """The completion time and the ideal one of each flow, in a run."""
    run = ecc.packet.simulate(ecc.Scenario(network, EAGER, duration, **fields))
    return run.flows["completion_time"].to_numpy(), run.flows["ideal_time"].to_numpy()


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([1e9, 2e9, 2.5e9, 10e9]), min_size=1, max_size=5),
    st.integers(1, 40_000),
    st.integers(100, 1500),
    st.booleans(),
    st.integers(0, 3),
)
def test_a_flow_alone_takes_its_ideal_time(capacities, size, packet, ack_links, n_back):
    n = len(capacities)
    links = [Link(capacity, 1e-6 * (k + 1)) for k, capacity in enumerate(capacities)] + [Link(3e9, 2e-6)] * n_back
    reverse = list(range(n, n + n_back)) if ack_links and n_back else None
    flow = Flow(range(n), size=size, packet_size=packet, reverse=reverse, access_delay="3 us")
    taken, ideal = alone(Network(links, [flow]), 0.01)
    assert taken[0] == ideal[0]


def test_headers_and_transfers_count():
    """Transfers have their templates' routes, and packets and ACKs the headers of their protocol."""
    links = [Link("1 Gb/s", "1 us"), Link("3 Gb/s", "1 us"), Link("1 Gb/s", "2 us")]
    rows = [
        Flow([0, 1], 1e-3 * k, size=size, access_delay=d * 1e-6, reverse=[2] if k % 2 else None)
        for k, (size, d) in enumerate([(500, 0), (1000, 3), (1001, 5), (25_999, 1), (64_000, 0)])
    ]
    net = Network(links, [Flow([1], start=0.5)])
    run = ecc.packet.simulate(ecc.Scenario(net, EAGER, 0.1, Workload(transfers=rows)))
    taken, ideal = (run.flows[name].to_numpy() for name in ("completion_time", "ideal_time"))
    assert (taken[1:] == ideal[1:]).all()
    assert np.isnan(run.flows["ideal_time"][0])  # endless
    ideal = [
        ecc.packet.simulate(ecc.Scenario(Network(links, [rows[3]]), ecc.models.XCP(), 1.0, header_bytes=counted)).flows[
            "ideal_time"
        ][0]
        for counted in (False, True)
    ]
    data, ack = ecc.models.XCP().header_bytes
    assert ideal[1] - ideal[0] == pytest.approx(8e-9 * (26 * data + ack) + 8 / 3e9 * data, rel=1e-6)


def test_fat_tree_flows_that_meet_no_other_have_slowdown_one():
    net = Network.fat_tree(4, ecc.demands.shift(16, 8, size="30 kB", path=0), "10 Gb/s", oversubscription=2)
    for flow in net.flows[:3]:
        taken, ideal = alone(net.with_flows([flow]), 0.01)
        assert taken == ideal
    taken, ideal = alone(net, 0.01)
    assert (taken >= ideal).all() and taken.max() > 1.5 * ideal.max()  # two of them share each path


def test_no_slowdown_is_below_one_by_rounding():
    """Starts of all kinds, links on which a packet takes no whole number of picoseconds: 7 Gb/s, 1.1 us."""
    links = [Link("7 Gb/s", "1.1 us"), Link("11 Gb/s", "0.7 us")]
    flows = [Flow([0, 1], start=1e-3 / 7 * k, size=100 + 997 * k, access_delay="0.3 us") for k in range(100)]
    taken, ideal = alone(Network(links, flows), 0.02)
    assert (taken == ideal).all()
