"""Several protocols in one network, unresponsive traffic, the clocks of routers and header bytes."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc.models import PIQIRCP, QIRCP, RCP, XCP, ConstantRate, JetMax
from ecc.network.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import Kind
from ecc.queues import StepMarking
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

TWO = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05])
LOT = Network.parking_lot(["10 Mb/s", "20 Mb/s"], delay="10 ms")


def late_rates(network, protocol, duration=30.0, **options):
    run = simulate(Scenario(network, protocol, duration, **options), sample=0.5)
    return run.rate.sel(time=slice(2 * duration / 3, None)).mean("time").to_numpy()


@pytest.mark.parametrize("protocol", [QIRCP(), PIQIRCP(), RCP(), JetMax(), XCP()], ids=lambda p: type(p).__name__)
def test_routers_leave_unresponsive_traffic_its_rate_and_share_the_rest(protocol):
    network = Network.dumbbell("100 Mb/s", rtts=[0.05] * 3)
    rates = late_rates(network, {"flows": {0: ConstantRate("40 Mb/s"), "default": protocol}}, 15.0)
    target = 1e8 * (protocol.gamma if type(protocol) in (QIRCP, PIQIRCP, JetMax) else 1.0)
    assert rates[0] == pytest.approx(4e7, rel=0.01)
    assert rates[1:] == pytest.approx([(target - 4e7) / 2] * 2, rel=0.03)


def test_constant_rates_alone_make_a_queue_that_grows_by_the_excess():
    network = Network.dumbbell("10 Mb/s", rtts=[0.02], delay=0.0)
    run = simulate(Scenario(network, ConstantRate("12 Mb/s"), 2.0), sample=0.5)
    assert run.rate[-1, 0] == pytest.approx(12e6, rel=1e-3)
    assert run.queue[:, 0].to_numpy() == pytest.approx(np.array([0.5, 1.0, 1.5, 2.0]) * 2e6 / 8, abs=2000)
    calm = simulate(Scenario(network, ConstantRate(5e6), 2.0), sample=1.0, start="equilibrium")
    assert calm.goodput[-1, 0] == pytest.approx(5e6, rel=0.01)


def test_each_protocol_shows_the_other_zeros_in_its_own_region():
    mix = {"flows": {0: RCP(), 1: JetMax()}}
    setup = prepare(Scenario(TWO, mix, 1.0))
    assert [type(part.protocol) for part in setup.parts] == [RCP, JetMax]
    assert setup.n_links == 1 and setup.n_additional == 1
    assert setup.header_size == sum(part.header.itemsize for part in setup.parts)
    assert {part.header_offset for part in setup.parts} == {0, setup.parts[0].header.itemsize}
    run = simulate(Scenario(TWO, mix, 20.0), sample=0.5)
    assert (run.bottleneck[-1] == 0).all() and (run.rate[-1] > 0.0).all()
    assert run.flows["protocol"].tolist() == ["RCP", "JetMax"]
    assert run.data.attrs["protocol"] == "RCP, JetMax"


def test_a_protocol_beside_one_that_sends_nothing_runs_as_if_alone():
    silent = Network(TWO.links, [TWO.flows[0], Flow([0], start=9.0)], None)
    alone = simulate(Scenario(Network(TWO.links, [TWO.flows[0]]), QIRCP(), 5.0, phases="equal"), sample=0.5)
    beside = simulate(Scenario(silent, {"flows": {0: QIRCP(), 1: RCP()}}, 5.0, phases="equal"), sample=0.5)
    np.testing.assert_array_equal(alone.rate[:, 0], beside.rate[:, 0])
    np.testing.assert_array_equal(alone.queue, beside.queue)


def test_links_run_the_routers_of_their_flows_unless_they_are_named():
    flows = {0: RCP(), 1: QIRCP(), 2: RCP()}
    by_flows = prepare(Scenario(LOT, {"flows": flows}, 1.0))
    assert [part.routers.tolist() for part in by_flows.parts] == [[0, 1], [2]]
    assert by_flows.links["at"].tolist() == [0, 1, 0]
    named = prepare(Scenario(LOT, {"flows": flows, "links": {0: [QIRCP(gamma=0.8), RCP()], 1: []}}, 1.0))
    assert named.links["at"].tolist() == [0, 1, 0]
    routers = {part.protocol: part.routers.tolist() for part in named.parts}
    assert routers == {QIRCP(gamma=0.8): [0], RCP(): [2], QIRCP(): []}
    offsets = {part.protocol: part.header_offset for part in named.parts}
    assert offsets[QIRCP()] == offsets[QIRCP(gamma=0.8)] != offsets[RCP()]


def test_a_list_of_routers_is_for_all_links():
    listed = {"flows": RCP(), "links": [RCP(), StepMarking(20.0)]}
    table = {"flows": RCP(), "links": {"default": [RCP(), StepMarking(20.0)]}}
    assert Scenario(LOT, listed, 1.0) == Scenario(LOT, table, 1.0)


class Either(RCP):
    """Answers the rate of its routers, and marks."""

    answers = frozenset({"Either", "ecn"})


def test_that_headers_stay_empty_is_noted():
    """A discipline in the place of a protocol's routers leaves it one of the signals that it answers."""
    marking = StepMarking(20.0, mark=True)
    alone = simulate(Scenario(TWO, {"flows": Either(), "links": marking}, 0.5))
    assert [one for one in alone.notes if "headers" in one] == [
        "no router writes into the headers of flow 0 and 1 other: no link on these routes runs Either; "
        "{'links': [Either(), ...]} adds such routers"
    ]
    both = simulate(Scenario(TWO, {"flows": Either(), "links": [Either(), marking]}, 0.5))
    assert not [one for one in both.notes if "headers" in one]


class Listed(RCP):
    answers = ["ecn"]  # noqa: RUF012


class Forgotten(RCP):
    answers = frozenset({"ecn"})


def test_what_a_class_answers_is_a_set_that_has_its_own_signal():
    with pytest.raises(TypeError, match=r"answers of Listed must be a set of signals, .* got \['ecn'\]"):
        Scenario(TWO, Listed(), 1.0)
    with pytest.raises(ValueError, match="which answers ecn; its own routers give 'Forgotten': add that to answers"):
        Scenario(TWO, Forgotten(), 1.0)


def test_transfers_run_the_default():
    load = Workload([Flow([1], start=0.1, size=20_000)], [Arrivals([0], 0.5, 20_000, stop=4.0)])
    mix = {"flows": {(0, 1): RCP(), 2: QIRCP(), "default": RCP()}}
    run = simulate(Scenario(LOT, mix, 10.0, workload=load), sample=1.0)
    assert run.flows["protocol"].tolist()[:3] == ["RCP", "RCP", "QIRCP"]
    assert set(run.flows["protocol"][3:]) == {"RCP"} and run.flows["completion_time"][3:].notna().all()


@pytest.mark.parametrize(
    ("flows", "expected"),
    [
        ({"default": RCP()}, [RCP()] * 4),
        ({range(0, 3): RCP(), 3: QIRCP()}, [RCP()] * 3 + [QIRCP()]),
        ({"0-1": RCP(), (2, 3): QIRCP()}, [RCP()] * 2 + [QIRCP()] * 2),
        ({range(0, 4, 2): RCP(), "default": QIRCP()}, [RCP(), QIRCP()] * 2),
    ],
)
def test_flows_are_named_by_index_range_or_default(flows, expected):
    apart = Network([Link("10 Mb/s")] * 4, [Flow([k]) for k in range(4)])
    assert Scenario(apart, {"flows": flows}, 1.0).deployment.flows == tuple(expected)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"flows": {0: RCP()}}, "protocol flows must name flow 1 or 'default', got 0"),
        ({"flows": {"default": RCP(), 7: RCP()}}, "protocol flows must be from 0 to 1, got 7"),
        ({"flows": {"0-1": RCP(), 1: QIRCP()}}, "protocol flows must name each once, got flow 1 twice"),
        ({"flows": {0: RCP(), "0": RCP()}}, "protocol flows must name each once, got '0' twice"),
        ({"flows": {"first": RCP()}}, "protocol flows must be named by index, range, '2-5' or 'default', got 'first'"),
        ({"flows": {True: RCP()}}, "protocol flows must be named by index, range, '2-5' or 'default', got True"),
        ({"flows": {}}, "protocol flows must name at least one protocol, got none"),
        ({"flows": [RCP()]}, r"protocol flows must be a mapping of flows to protocols, got \[RCP"),
        ({"flows": {0: "RCP", 1: RCP()}}, "protocol of flows 0 must be a Protocol, got 'RCP'"),
        ({"flows": {"default": RCP()}, "links": {0: [RCP(), 3]}}, "protocol of links 0 must be a Protocol, got 3"),
        ({"flows": {"default": RCP()}, "links": {0: 3}}, "protocol of links 0 must be a Protocol, got 3"),
        ({"flows": {"default": RCP()}, "links": {5: RCP()}}, "protocol links must be from 0 to 0, got 5"),
        ({"links": {0: RCP()}}, "protocol must be a mapping with 'flows' and optionally 'links', got"),
        ({0: RCP()}, "protocol must be a mapping with 'flows' and optionally 'links', got"),
        (
            {"flows": {0: RCP(), 1: RCP(alpha=0.1)}},
            r"protocol links must name one router of each protocol for link 0, got RCP\(.*RCP\(alpha=0.1",
        ),
    ],
)
def test_mappings_that_make_no_sense_are_refused_in_one_line(mapping, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Scenario(TWO, mapping, 1.0)


def test_only_packets_run_several_protocols():
    scenario = Scenario(TWO, {"flows": {0: RCP(), 1: QIRCP()}}, 5.0)
    with pytest.raises(
        ValueError, match="one Protocol, optionally with unresponsive flows, for a fluid run, got RCP, QIRCP"
    ):
        ecc.fluid.simulate(scenario)
    with pytest.raises(
        TypeError,
        match="a linear model needs one protocol, or hosts over queue disciplines that mark or drop, got RCP, QIRCP",
    ):
        ecc.linearize(scenario.protocol, TWO)
    with pytest.raises(
        ValueError, match="start must be 'empty' for several protocols, got 'equilibrium' for RCP, QIRCP"
    ):
        simulate(scenario, start="equilibrium")
    with pytest.raises(ValueError, match="ConstantRate responds to no feedback: it has no linear model"):
        ecc.linearize(ConstantRate("1 Mb/s"), TWO)
    with pytest.raises(
        ValueError, match="must be one Protocol, optionally with unresponsive flows, .* got ConstantRate"
    ):
        ecc.fluid.simulate(scenario.with_(protocol=ConstantRate("1 Mb/s")))
    with pytest.raises(ValueError, match="rate must be > 0 bit/s, got 0"):
        ConstantRate(0)
    load = Workload([Flow([0], size=1000)])
    with pytest.raises(
        ValueError, match="protocol flows must name the transfers of the workload or 'default', got 0, 1"
    ):
        scenario.with_(workload=load)
    with pytest.raises(
        ValueError, match="protocol links must name one router of each protocol for link 0, got RCP.*selects one"
    ):
        scenario.with_(protocol={"flows": {"0-1": RCP(), "default": RCP(alpha=0.1)}}, workload=load)


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": {"flows": {0: RCP(alpha=0.2), "default": ConstantRate("1 Mb/s")}, "links": {0: [RCP(alpha=0.2)]}}},
        {"protocol": {"flows": {"0-1": PIQIRCP(tau1=0.02)}}},
        {"protocol": ConstantRate("1 Mb/s"), "phases": "equal", "header_bytes": True},
        {"phases": [0.25], "intervals": ["20 ms"]},
    ],
)
def test_toml_round_trip(changes):
    before = Scenario(TWO, QIRCP(), 5.0).with_(**changes)
    after = Scenario.from_toml(before.to_toml())
    assert after.protocol == before.protocol
    for name in ("phases", "intervals", "header_bytes"):
        assert getattr(after, name) == getattr(before, name)


# Clocks of routers ---------------------------------------------------------------------------------------------------


def ticks(**options):
    """Times [s] of the first two ticks of each router of a parking lot."""
    scenario = Scenario(LOT, QIRCP(interval=0.01), 1.0, **options)
    engine = build_engine(prepare(scenario), scenario, trace=100_000)
    engine.advance(0.2)
    seen = engine.trace[engine.trace["kind"] == Kind.INTERVAL]
    return [(seen["time"][seen["entity"] == link][:2] * 1e-12).tolist() for link in (0, 1)]


def test_phases_and_intervals_are_those_asked_for():
    assert ticks(phases="equal") == [[0.01, 0.02]] * 2
    assert ticks(phases=[0.0, 0.25]) == [pytest.approx([0.01, 0.02]), pytest.approx([0.0025, 0.0125])]
    assert ticks(phases="equal", intervals=["20 ms", 0.05]) == [pytest.approx([0.02, 0.04]), pytest.approx([0.05, 0.1])]
    random = ticks()
    assert random == ticks() != ticks(seed=2)
    assert all(0.0 < first < 0.01 and second == pytest.approx(first + 0.01) for first, second in random)
    assert random[0] != random[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phases": "none"}, "phases must be 'random', 'equal' or one number for each link, got 'none'"),
        ({"phases": [0.5]}, "phases must be 'random', 'equal' or one number for each of 2 links, got 1"),
        ({"phases": [0.5, 1.0]}, r"phases must be in \[0, 1\), got \[0.5, 1.0\]"),
        ({"intervals": 0.01}, "intervals must be None or one number for each link, got 0.01"),
        ({"intervals": [0.01, 0.0]}, r"intervals must be > 0 s, got \[0.01, 0.0\]"),
        ({"header_bytes": 20}, "header_bytes must be True or False, got 20"),
    ],
)
def test_bad_clocks_and_headers_are_refused_in_one_line(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Scenario(LOT, QIRCP(), 1.0, **options)


def test_what_a_run_cannot_honor_is_refused():
    with pytest.raises(ValueError, match="intervals must be None for a fluid run"):
        ecc.fluid.simulate(Scenario(TWO, QIRCP(), 5.0, intervals=[0.02]))
    with pytest.raises(ValueError, match="header_bytes must be False for a fluid run"):
        ecc.fluid.simulate(Scenario(TWO, QIRCP(), 5.0, header_bytes=True))
    with pytest.raises(ValueError, match="intervals must be None: routers of ConstantRate have no interval"):
        prepare(Scenario(TWO, ConstantRate(1e6), 5.0, intervals=[0.02]))


def test_links_may_have_intervals_beside_unresponsive_traffic():
    mix = {"flows": {0: ConstantRate(1e6), 1: QIRCP()}}
    parts = prepare(Scenario(TWO, mix, 5.0, phases="equal", intervals=[0.02])).parts
    assert [part.link_params["interval"].tolist() for part in parts if part.protocol == QIRCP()] == [[0.02]]


def test_an_equilibrium_wants_routers_wherever_flows_are():
    aside = Network([Link("10 Mb/s", 0.01), *LOT.links], [Flow([1, 2])])
    run = simulate(Scenario(aside, {"flows": {0: QIRCP()}}, 3.0), start="equilibrium", sample=0.5)
    assert run.rate[:, 0].to_numpy() == pytest.approx(9.5e6, rel=0.01)
    with pytest.raises(ValueError, match=r"start must be 'empty' if a link has no router of RCP, .* \(link 0\)"):
        prepare(Scenario(LOT, {"flows": {"default": RCP()}, "links": {0: []}}, 3.0), "equilibrium")


# Header bytes --------------------------------------------------------------------------------------------------------


def test_headers_lengthen_packets_on_links_and_no_counts_of_data():
    network = Network([Link("10 Mb/s", 0.01), Link("10 Mb/s", 0.01)], [Flow([0], packet_size=500, reverse=[1])])
    run = {on: simulate(Scenario(network, PIQIRCP(), 20.0, header_bytes=on), sample=1.0) for on in (False, True)}
    for on, wire, ack in ((False, 500, 40), (True, 524, 64)):
        late = {name: values[-5:].mean("time").to_numpy() for name, values in run[on].data.data_vars.items()}
        assert late["arrival"][0] == pytest.approx(9.5e6, rel=0.01)
        assert late["rate"][0] == pytest.approx(9.5e6 * 500 / wire, rel=0.01)
        assert late["goodput"][0] == pytest.approx(late["rate"][0], rel=0.01)
        assert late["arrival"][1] / late["goodput"][0] == pytest.approx(ack / 500, rel=0.01)


def test_protocols_that_do_not_declare_a_header_say_so():
    class Silent(QIRCP):
        header_bytes = None

    with pytest.raises(ValueError, match="header_bytes must be False: Silent does not declare its size"):
        prepare(Scenario(TWO, Silent(), 1.0, header_bytes=True))
