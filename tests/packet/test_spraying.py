"""Packets of one flow over several routes: which one each takes, and receivers that stand overtaking."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc import Flow, Link, Network, Scenario
from ecc.live.nodes import prepared_for_links
from ecc.models import DCTCP, RCP, ConstantRate, NewReno
from ecc.packet import Run, resume, simulate
from ecc.packet.prepare import prepare
from ecc.packet.twin.state import Receiver
from ecc.traffic.workload import Workload

FAST, SLOW = Link("10 Mb/s", "2 ms"), Link("10 Mb/s", "8.5 ms")
ENGINES = pytest.mark.parametrize("engine", ["c", "python"])


def two_routes(first: Link = FAST, second: Link = FAST, **given: object) -> Network:
    return Network([first, second], [Flow([0], alternatives=[[1]], access_delay="1 ms", **given)])  # type: ignore[arg-type]


def run(network: Network, rate: str = "8 Mb/s", engine: str = "c", **options: object) -> ecc.Trajectory:
    return simulate(
        Scenario(network, ConstantRate(rate), 1.0, seed=7, phase_jitter=False), sample=0.1, engine=engine, **options
    )  # type: ignore[arg-type]


@ENGINES
def test_routes_take_turns(engine):
    found = run(two_routes(), engine=engine)
    late = found.arrival.to_numpy()[1:]
    assert late == pytest.approx(np.full_like(late, 4e6), rel=0.03)
    assert found.flows["lost"][0] == 0


@ENGINES
def test_routes_are_drawn_with_equal_probability(engine):
    found = run(two_routes(spraying="random", reordering_threshold=50), engine=engine)
    sent = found.arrival.sum("time").to_numpy() * 0.1 / 8e3  # packets
    assert sent.sum() == pytest.approx(1000, abs=8)
    assert abs(sent[0] - sent[1]) < 4.0 * np.sqrt(sent.sum())  # of a fair coin: four standard deviations
    assert 0 < abs(sent[0] - sent[1])


def test_two_routes_carry_what_neither_could():
    assert run(two_routes(), "16 Mb/s").goodput[-1, 0] == pytest.approx(16e6, rel=0.01)


@ENGINES
@pytest.mark.parametrize(("threshold", "loses"), [(1, True), (3, True), (4, False), (200, False)])
def test_what_overtakes_by_less_than_the_threshold_is_not_lost(engine, threshold, loses):
    """A packet a millisecond, 6.5 ms longer on the slow route: those sent 1, 3 and 5 ms later come before it."""
    found = run(two_routes(FAST, SLOW, reordering_threshold=threshold), engine=engine)
    assert (found.flows["lost"][0] > 0) == loses
    assert found.goodput[5, 0] == pytest.approx(8e6)  # all of it arrives, whatever the sender believes


def test_the_default_threshold_is_that_of_three_packets():
    found = [run(two_routes(FAST, SLOW, reordering_threshold=n)).flows["lost"][0] for n in (None, 3, 4)]
    assert found[0] == found[1] > found[2] == 0


def test_acks_report_bytes_that_are_beyond_what_is_missing():
    """What was received is no longer in flight, though something before it is missing."""
    receiver, reported = Receiver(reordering_threshold=5), []
    for offset in (0, 2000, 3000, 1000, 5000):
        receiver.account(offset, 1000, 0)
        reported.append((receiver.front, receiver.missing))
    assert reported == [(1000, 0), (2000, 0), (3000, 0), (4000, 0), (5000, 0)]
    for offset in (6000, 7000, 8000, 9000):
        receiver.account(offset, 1000, 0)
    assert (receiver.front, receiver.missing) == (10000, 1000)  # passed five times


def test_duplicate_acks_of_overtaken_packets_halve_windows_in_vain():
    """At three duplicates NewReno takes overtaking for loss; at 30 neither NewReno nor SACK retransmit anything."""
    found = {}
    for transport in ("newreno", "sack"):
        for threshold in (3, 30):
            network = two_routes(FAST, SLOW, reordering_threshold=threshold)
            protocol = NewReno(transport=transport, receiver_window=20_000)
            one = simulate(Scenario(network, protocol, 3.0), sample=0.1)
            found[transport, threshold] = one.flows["retransmitted"][0], float(one.goodput[-5:, 0].mean())
    assert found["newreno", 30] == found["sack", 30] and found["sack", 30][0] == 0
    for transport in ("newreno", "sack"):
        assert found[transport, 3][0] > 0
        assert found[transport, 3][1] < 0.7 * found[transport, 30][1]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [RCP(), DCTCP(), NewReno(transport="sack")], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("spraying", ["round robin", "random"])
def test_engines_threads_and_checkpoints_agree(protocol, spraying, tmp_path):
    links = [Link("10 Mb/s", "2 ms", 20_000), Link("10 Mb/s", "5 ms", 20_000), Link("20 Mb/s", "3 ms"), Link("40 Mb/s")]
    sprayed = {"alternatives": [[1, 2], [1]], "spraying": spraying, "reordering_threshold": 6}
    flows = [Flow([0, 2], access_delay="1 ms", **sprayed), Flow([0], reverse=[3], **sprayed), Flow([2], start=0.1)]
    scenario = Scenario(Network(links, flows), protocol, 0.6, seed=5)
    plain = simulate(scenario, sample=0.1)
    assert plain.stats["events"] > 3000
    assert simulate(scenario, sample=0.1, engine="python").stats["digest"] == plain.stats["digest"]
    assert simulate(scenario, sample=0.1, threads=2).stats["digest"] == plain.stats["digest"]
    first = Run(scenario, sample=0.1)
    first.advance(0.31)
    first.save(tmp_path / "half")
    second = resume(tmp_path / "half")
    second.advance()
    assert second.trajectory().stats["digest"] == plain.stats["digest"]


@ENGINES
def test_a_demand_is_spread_over_all_paths_of_a_fabric(engine):
    demands = [ecc.Demand(0, 15, path="all", reordering_threshold=20), ecc.Demand(4, 15)]
    fabric = Network.fat_tree(4, demands, "100 Mb/s", "10 us")
    paths = fabric.paths(0, 15)
    assert fabric.flows[0].routes == tuple(paths) and len(paths) == 4 and not fabric.flows[1].alternatives
    found = simulate(Scenario(fabric, ConstantRate("40 Mb/s"), 0.1, seed=2), sample=0.01, engine=engine)
    sent = found.arrival.to_numpy()[2:].mean(axis=0)
    cores = [path[2] for path in paths]  # from aggregation to the four core switches
    own = sent[cores] - 4e7 * np.isin(cores, fabric.flows[1].route)
    assert own == pytest.approx(np.full(4, 1e7), rel=0.1)
    assert found.flows["lost"].tolist() == [0, 0]


def test_a_path_is_an_index_or_all():
    with pytest.raises(ValueError, match="path must be an index, 'all' or None, got 'both'"):
        ecc.Demand(0, 1, path="both")


def test_captures_have_the_packets_of_their_route(tmp_path):
    network = two_routes()
    found = run(network, capture={1: tmp_path / "one.pcapng"})
    assert (found.goodput == run(network).goodput).all()
    assert 480 * 40 < (tmp_path / "one.pcapng").stat().st_size < 520 * 400


def test_models_of_one_route_refuse_several(monkeypatch):
    network = two_routes()
    scenario = Scenario(network, RCP(), 1.0)
    text = r"alternatives must be empty except in packet runs, got 1 \(flow 0\)"
    for ask in (
        lambda: ecc.linearize(RCP(), network, time="continuous"),
        lambda: ecc.fluid.simulate(scenario),
        lambda: ecc.allocation.max_min(network),
        lambda: simulate(scenario, start="equilibrium"),
    ):
        with pytest.raises(ValueError, match=text):
            ask()
    with pytest.raises(ValueError, match=r"alternatives must be empty in live runs, got 1 \(flow 0\)"):
        prepared_for_links(prepare(scenario))
    with pytest.raises(ValueError, match=r"alternatives must be empty in transfers, got 1 \(transfer 0\)"):
        Workload(transfers=network.flows)
    monkeypatch.setattr(RCP, "required_env", frozenset({"flow_queue"}))
    with pytest.raises(
        ValueError, match=r"alternatives must be empty if routers of RCP count queues by flow \(flow 0\)"
    ):
        simulate(scenario)
