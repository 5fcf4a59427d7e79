"""Networks that a table of a scenario file generates."""

from __future__ import annotations

import pytest

from ecc.demands import incast, permutation, poisson
from ecc.network import Network
from ecc.network.generated import generated_network
from ecc.scenario import Scenario

POISSON = {"pattern": "poisson", "load": 0.5, "sizes": "web-search", "duration": "1 ms"}
INCAST = {"pattern": "incast", "sources": [1, 2, 3], "destination": 0, "spread": "10 us", "size": "64 kB"}
TREE = {"topology": "fat_tree", "k": 4, "capacity": "10 Gb/s", "ack_links": False, "demands": [POISSON, INCAST]}


def test_the_first_pattern_has_the_seed_of_the_scenario_and_the_capacity_of_the_fabric():
    flows = poisson(16, 0.5, "10 Gb/s", "web-search", "1 ms", seed=7)
    expected = Network.fat_tree(4, flows, "10 Gb/s", seed=7, ack_links=False)
    assert generated_network(TREE | {"demands": [POISSON]}, seed=7) == expected


def test_further_patterns_have_other_draws_than_those_of_other_seeds():
    twice = TREE | {"demands": [POISSON, POISSON]}
    first, second = (generated_network(twice, seed).flows for seed in (1, 2))
    starts = [{flow.start for flow in flows} for flows in (first, second)]
    assert len(starts[0]) == len(first) and not starts[0] & starts[1]


def test_a_leaf_spine_fabric_with_single_flows_and_pauses():
    table = {
        "topology": "leaf_spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 3,
        "pause": {"xoff": "100 kB"},
        "demands": [{"pattern": "single", "source": 0, "destination": 5}, {"pattern": "permutation", "size": 1000}],
    }
    network = generated_network(table, seed=1)
    assert network.n_flows == 7 and network.n_hosts == 6 and network.flows[0].size is None
    assert network.links[-1].pause.xoff == 100e3
    assert incast([1], 0) and permutation(6)  # patterns are functions of `ecc.demands`


def test_a_scenario_generates_its_network_and_writes_it_out():
    tables = {"duration": "2 ms", "seed": 3, "protocol": {"name": "Swift"}, "fabric": TREE}
    scenario = Scenario.from_dict(tables)
    assert scenario.network == generated_network(TREE, seed=3)
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    for key in ("links", "flows", "rtts", "ends", "n_hosts"):
        with pytest.raises(ValueError, match=f"scenario must have '{key}' or 'fabric', which generates them, got both"):
            Scenario.from_dict(tables | {key: []})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"topology": "ring"}, "fabric.topology must be one of fat_tree, leaf_spine, got 'ring'"),
        ({"topology": "leafspine"}, "got 'leafspine': did you mean leaf_spine"),
        ({"k": None}, "fabric lacks the key 'k'"),
        ({"ports": 4}, "fabric has no key 'ports'; allowed are topology, k, capacity"),
        ({"k": 5}, r"k must be even, got 5 \(in fabric\)"),
        ({"demands": []}, "fabric.demands must be a list of tables, at least one, got"),
        ({"demands": [3]}, r"fabric.demands\[0\] must be a table, got 3"),
        ({"demands": [{"pattern": "burst"}]}, r"fabric.demands\[0\].pattern must be one of poisson, incast"),
        ({"demands": [POISSON | {"seed": 3}]}, r"fabric.demands\[0\] has no key 'seed'; allowed are pattern, load"),
        ({"demands": [POISSON | {"load": -1}]}, r"load must be > 0, got -1 \(in fabric.demands\[0\]\)"),
        ({"demands": [POISSON, {"pattern": "incast"}]}, r"fabric.demands\[1\] lacks the key 'sources'"),
    ],
)
def test_tables_that_generate_nothing_are_refused_in_one_line(table, message):
    given = {key: value for key, value in (TREE | table).items() if value is not None}
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        generated_network(given)
    assert "\n" not in str(caught.value)
