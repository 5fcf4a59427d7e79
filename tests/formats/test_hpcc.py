"""Topology and flow files of HPCC's simulator: what is read, how it runs, and what is refused."""

import pytest

import ecc
from ecc.formats.hpcc import read_flows, read_network, read_topology

TOPOLOGY = """6 2 5
1 4
0 1 100Gbps 1000ns 0
2 1 100Gbps 1000ns 0
3 4 25Gbps 0.002ms 0
5 4 25Gbps 2us 0.001
1 4 400Gbps 1000ns 0.000000

First line: total node #, switch node #, link #
"""
FLOWS = """2
0 3 3 100 20000 0.001
5 2 3 100 5000 0
2 0 3 100 1 9

First line: # of flows
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "topology.txt").write_text(TOPOLOGY)
    (tmp_path / "flow.txt").write_text(FLOWS)
    return tmp_path / "topology.txt", tmp_path / "flow.txt"


def test_nodes_and_links_are_those_of_the_file(files):
    found = read_topology(files[0], buffer="16 MB")
    assert (found.n_hosts, found.nodes) == (4, (0, 2, 3, 5, 1, 4))  # hosts come first
    assert found.ends[:5] == ((0, 4), (1, 4), (2, 5), (3, 5), (4, 5)) and found.ends[5:7] == ((4, 0), (4, 1))
    assert [link.capacity for link in found.links[:5]] == [1e11, 1e11, 2.5e10, 2.5e10, 4e11]
    assert [link.delay for link in found.links[5:]] == pytest.approx([1e-6, 1e-6, 2e-6, 2e-6, 1e-6])
    assert {link.buffer for link in found.links} == {16_000_000}
    assert [(one.link, one.probability, one.kind) for one in found.losses] == [(3, 0.001, "all"), (8, 0.001, "all")]


def test_flows_run_over_the_shortest_paths_between_their_hosts(files):
    net = read_network(*files)
    assert [(flow.route, flow.reverse) for flow in net.flows] == [((0, 4, 7), (2, 9, 5)), ((3, 9, 6), (1, 4, 8))]
    assert [(flow.size, flow.start) for flow in net.flows] == [(20_000, 0.001), (5000, 0.0)]  # as many as it says
    assert net.rtts.tolist() == pytest.approx([8e-6, 8e-6])
    run = ecc.packet.simulate(ecc.Scenario(net, ecc.models.ConstantRate("10 Gb/s"), 0.01))
    assert (run.flows["finish"] > 0).all()
    others = ecc.Scenario(
        net.with_flows(net.flows[:1]), ecc.models.ConstantRate("10 Gb/s"), 0.01, workload=ecc.Workload(net.flows[1:])
    )
    rows = ecc.packet.simulate(others).flows["completion_time"]
    assert rows.tolist() == pytest.approx(run.flows["completion_time"].tolist())


def test_the_port_may_be_left_out(files):
    files[1].write_text("1\n0 3 3 20000 0.001\n")
    (demand,) = read_flows(files[1], read_topology(files[0]))
    assert (demand.source, demand.destination, demand.size, demand.start) == (0, 2, 20_000, 0.001)


@pytest.mark.parametrize(
    ("which", "old", "new", "message"),
    [
        (0, "6 2 5", "6 2", r"the first line must be the numbers of nodes, switches, links, got '6 2' \(line 1 of"),
        (0, "1 4\n0", "1 9\n0", r"a node must be from 0 to 5, got '9' \(line 2 of"),
        (0, "1 4\n0", "1 1\n0", r"switches must be 2 different nodes, got \[1, 1\]"),
        (0, "25Gbps", "fast", r"capacity must be a number with a unit .*, got 'fast' \(line 5 of"),
        (0, "2us 0.001", "2us 0.001 7", r"a link must have two nodes, rate, delay and loss, got .* \(line 6 of"),
        (0, "6 2 5", "6 2 9", r"a link must have two nodes, rate, delay and loss, got 'First line"),
        (1, "2\n0", "9\n0", r"a node must be from 0 to 5, got 'First' \(line 6 of"),
        (1, "0 3 3", "0 1 3", r"destination must be a host, got 1, a switch \(line 2 of"),
        (1, "0 3 3", "0 0 3", r"destination .* \(line 2 of"),
        (1, "100 20000 0.001", "100", r"a flow must have source, destination, .*, got '0 3 3 100' \(line 2 of"),
        (1, "0.001", "soon", r"start must be a number >= 0, got 'soon' \(line 2 of"),
        (1, "20000", "-1", r"bytes must be a number >= 0, got '-1' \(line 2 of"),
        (1, FLOWS, "", "file must have numbers of flows, got its end"),
        (1, FLOWS, "0", "flows must be at least one, got 0"),
    ],
)
def test_what_is_wrong_is_a_line_with_its_place(files, which, old, new, message):
    files[which].write_text((TOPOLOGY, FLOWS)[which].replace(old, new))
    with pytest.raises(ValueError, match=message) as refused:
        read_network(*files)
    assert "\n" not in str(refused.value)
