"""Transformations of scenarios: what they change, how results map back, and the dimensions that they rely on."""

import re
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
import pytest

from ecc import Arrivals, Flow, Link, Network, Scenario, Workload, fluid, models, packet, queues, testing
from ecc._support.quantity import PER_TIME, RATE, SIZE, TIME, Dimension
from ecc.contract.parameters import dimensions_of
from ecc.models.shared.windows import EndToEndProtocol
from ecc.network.impairments import CapacitySchedule, Jitter, RandomLoss

LINKS = [Link("10 Mb/s", "5 ms", buffer="60 kB"), Link("16 Mb/s", "8 ms", buffer="80 kB")]
FLOWS = [
    Flow([0, 1], access_delay=0.010, packet_size=500, delayed_acks=(2, 0.04)),
    Flow([0], access_delay=0.023, packet_size=500, writes=(3000, 0.02), reverse=[1]),
    Flow([1], start=0.1, size=30_000, access_delay=0.0137, packet_size=500, writes="2 Mb/s"),
]
RICH = Scenario(
    Network(LINKS, FLOWS, ends=[(3, 4), (4, 5)]),
    {
        "flows": {0: models.NewReno(ecn=True), "default": models.CUBIC()},
        "links": {1: queues.DRR(classes=(0, 1, 0)), "default": [queues.PIE()]},
    },
    1.0,
    workload=Workload(
        transfers=[Flow([1], 0.2, size=20_000, packet_size=500)],
        arrivals=[Arrivals([0], "0.2 s", "30 kB", packet_size=500)],
    ),
    phases=[0.25, 0.5],
    intervals=[0.01, 0.02],
    impairments=[RandomLoss(0.01, link=0), Jitter((0.0, 0.001), acks_of=[0]), CapacitySchedule(1, [0.5], ["8 Mb/s"])],
)
"""A scenario in which most fields differ from their defaults."""

KINDS = {
    name: getattr(module, name)
    for module in (models, queues)
    for name in module.__all__
    if isinstance(getattr(module, name), type)
    and issubclass(getattr(module, name), models.Protocol)
    and name not in ("Protocol", "QueueDiscipline")
}
DOCUMENTED = {
    "s": TIME,
    "bytes": SIZE,
    "bit/s": RATE,
    "1/s": PER_TIME,
    "1/ms": PER_TIME,
    "packets/s": PER_TIME,
    "packets/s^3": Dimension(time=-3),
}


def protocol(name):
    return KINDS[name](1e6) if name == "ConstantRate" else KINDS[name]()


@pytest.mark.parametrize("name", KINDS)
def test_parameters_that_take_a_unit_declare_their_dimension(name):
    protocol_, units = protocol(name), {"s": TIME, "B": SIZE, "b/s": RATE}
    dimensions = dimensions_of(protocol_)
    for field in fields(protocol_):
        value = getattr(protocol_, field.name)
        for unit, dimension in units.items():
            try:
                number = value if type(value) in (int, float) else 1
                taken = getattr(replace(protocol_, **{field.name: f"{number} {unit}"}), field.name)
            except (TypeError, ValueError):
                continue
            if not isinstance(taken, str):
                assert dimensions.get(field.name) == dimension, field.name


@pytest.mark.parametrize("name", KINDS)
def test_documented_units_are_the_declared_dimensions(name):
    dimensions, checked = dimensions_of(protocol(name)), set()
    for kind in KINDS[name].__mro__:
        for names, type_ in re.findall(r"^    (\w+(?:, \w+)*) : (\w.*)$", kind.__doc__ or "", re.MULTILINE):
            units = [part for part in type_.split(", ") if part in DOCUMENTED]
            for parameter in set(names.split(", ")) & {f.name for f in fields(KINDS[name])} - checked:
                checked.add(parameter)
                assert dimensions.get(parameter, Dimension()) == (DOCUMENTED[units[0]] if units else Dimension())


def test_custom_protocols_declare_dimensions_of_their_own_parameters():
    @dataclass(frozen=True, kw_only=True)
    class Custom(EndToEndProtocol):
        step: float = 3000.0

        source_law = staticmethod(lambda w: w)
        dimensions = {"step": SIZE}

    scenario = Scenario(Network(LINKS, [Flow([0])]), Custom(), 1.0)
    scaled = testing.scale_sizes(testing.scale_times(scenario, 4.0).scenario, 2.0).scenario
    assert (scaled.protocol.step, scaled.protocol.min_rto) == (6000.0, 4.0)
    Custom.dimensions = {"stride": SIZE}
    with pytest.raises(ValueError, match=r"dimensions of Custom must name parameters \(.*step\), got 'stride'"):
        testing.scale_sizes(scenario, 2.0)
    Custom.dimensions = {"step": "bytes"}
    with pytest.raises(TypeError, match="dimensions of Custom must be a Dimension, got 'bytes' for step"):
        testing.scale_sizes(scenario, 2.0)


def test_inverse_transformations_give_the_original_scenario():
    flows, links = [2, 0, 1], [1, 0]
    back = testing.relabel_flows(testing.relabel_flows(RICH, flows).scenario, np.argsort(flows).tolist()).scenario
    assert back.network == RICH.network and back.deployment.flows == RICH.deployment.flows
    assert back.impairments == RICH.impairments
    back = testing.permute_links(testing.permute_links(RICH, links).scenario, links).scenario
    assert back.network == RICH.network and back.workload == RICH.workload and back.phases == RICH.phases
    assert back.deployment.links == RICH.deployment.links and back.impairments == RICH.impairments
    for scale in (testing.scale_sizes, testing.scale_times):
        assert scale(scale(RICH, 4.0).scenario, 0.25).scenario == RICH


def test_relabeled_flows_keep_their_protocols_and_classes():
    relabeled = testing.relabel_flows(RICH, [2, 0, 1]).scenario
    assert relabeled.deployment.flows == tuple(RICH.deployment.flows[flow] for flow in (2, 0, 1))
    assert relabeled.deployment.links[1][0].classes == (0, 0, 1)  # of flows 2, 0 and 1
    assert relabeled.impairments[1].acks_of == (1,)


def test_permuted_links_keep_their_flows_and_routers():
    permuted = testing.permute_links(RICH, [1, 0]).scenario
    assert [flow.route for flow in permuted.network.flows] == [(1, 0), (1,), (0,)]
    assert permuted.network.flows[1].reverse == (0,) and permuted.network.ends == ((4, 5), (3, 4))
    assert isinstance(permuted.deployment.links[0][0], queues.DRR)
    assert (permuted.phases, permuted.intervals) == ((0.5, 0.25), (0.02, 0.01))
    assert [impairment.link for impairment in permuted.impairments] == [1, None, 0]
    assert permuted.workload.arrivals[0].route == (1,)


def test_scaling_changes_every_quantity_by_its_dimension():
    scaled = testing.scale_times(testing.scale_sizes(RICH, 2.0).scenario, 4.0).scenario
    first, second, third = scaled.network.flows
    assert scaled.network.links[0] == Link("5 Mb/s", "20 ms", buffer="120 kB")
    assert first.delayed_acks == (2, 0.16) and first.packet_size == 1000
    assert (first.ack_size, second.ack_size) == (40, 80)  # ACKs of the first flow cross no link
    assert second.writes == (6000, 0.08) and third.writes == 1e6 and third.size == 60_000
    assert (scaled.duration, scaled.intervals, scaled.phases) == (4.0, (0.04, 0.08), RICH.phases)
    assert scaled.workload.arrivals[0].offered_rate == 0.5 * RICH.workload.arrivals[0].offered_rate
    assert scaled.impairments[1].delay == (0.0, 0.004) and scaled.impairments[2].capacities == (4e6,)
    marking = scaled.deployment.links[0][0]
    assert (marking.target, marking.alpha, marking.packet_size) == (0.06, 0.03125, 2000.0)


def test_two_links_in_series_have_the_delay_of_one():
    split = testing.split_link(RICH, 0, 4.0)
    assert split.links == (0, 1, 0)
    assert [flow.route for flow in split.scenario.network.flows] == [(0, 2, 1), (0, 2), (1,)]
    assert split.scenario.network.rtts.tolist() == RICH.network.rtts.tolist()
    assert split.scenario.network.links[2] == Link("40 Mb/s", "2.5 ms")
    assert split.scenario.network.ends == ((3, 6), (4, 5), (6, 4))
    assert split.scenario.workload.arrivals[0].route == (0, 2)


def test_results_return_to_the_original_labels_and_units():
    scenario = Scenario(Network(LINKS, [Flow([0, 1]), Flow([0], access_delay=0.01)]), models.NewReno(), 1.0)
    moved = testing.Transformed(scenario, flows=[1, 0], links=(1, 0), size=2.0, time=4.0)
    run = fluid.simulate(scenario, sample=0.1)
    restored = moved.restored(run)
    assert restored.data["time"].to_numpy()[0] == 0.025
    np.testing.assert_array_equal(restored.rate, 2.0 * run.rate[:, [1, 0]])
    np.testing.assert_array_equal(restored.queue, 0.5 * run.queue[:, [1, 0]])
    np.testing.assert_array_equal(restored.drops, run.drops[:, [1, 0]])
    assert restored.flows["delivered"].tolist() == (0.5 * run.flows["delivered"][::-1]).tolist()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: testing.relabel_flows(s, [0, 1]), r"order must be a permutation of the 3 flows, got \[0, 1\]"),
        (lambda s: testing.permute_links(s, [0, 0]), r"order must be a permutation of the 2 links, got \[0, 0\]"),
        (lambda s: testing.add_idle_flow(s, like=3), "like must be from 0 to 2, got 3"),
        (lambda s: testing.add_unused_link(s, index=3), "index must be from 0 to 2, got 3"),
        (lambda s: testing.scale_sizes(s, 0.0), "factor must be > 0, got 0.0"),
        (lambda s: testing.scale_sizes(s, 1.00001), r"factor must keep buffer \(60000\) a whole number, got 1.00001"),
        (lambda s: testing.split_link(s, 0, 0.5), "capacity_factor must be >= 1, got 0.5"),
    ],
)
def test_impossible_transformations_are_refused_in_one_line(change, message):
    with pytest.raises(ValueError, match=message):
        change(RICH)


def test_headers_of_fixed_size_are_not_scaled():
    scenario = Scenario(Network(LINKS, [Flow([0])]), models.XCP(), 1.0, header_bytes=True)
    with pytest.raises(ValueError, match="header_bytes must be False to scale sizes, got True"):
        testing.scale_sizes(scenario, 2.0)
    assert testing.scale_times(scenario, 2.0).scenario.header_bytes


def test_a_packet_run_of_a_transformed_scenario_has_the_same_table_of_transfers():
    scenario = RICH.with_(intervals=None)
    run = packet.simulate(scenario, sample=0.1)
    moved = testing.scale_sizes(scenario, 2.0)
    scaled = moved.restored(packet.simulate(moved.scenario, sample=0.1))
    pd.testing.assert_frame_equal(scaled.flows, run.flows, check_dtype=False)


def test_everything_starts_later():
    later = testing.start_later(RICH, "2 s")
    assert [flow.start for flow in later.scenario.network.flows] == [2.0, 2.0, 2.1]
    assert later.scenario.duration == 3.0 and later.scenario.workload.transfers[0].start == 2.2
    assert later.scenario.impairments[2].times == (2.5,)
    scenario = Scenario(Network(LINKS, [Flow([0], 0.01)]), models.NewReno(), 1.0)
    moved = testing.start_later(scenario, 2.0)
    restored = moved.restored(packet.simulate(moved.scenario, sample=0.1))
    np.testing.assert_allclose(restored.data["time"], 0.1 * np.arange(1, 11))
    assert restored.flows["start"].tolist() == pytest.approx([0.01])
