"""CAKE and COBALT in packet runs: what they promise, what they refuse, and that runs with them can be resumed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.models import ConstantRate, NewReno
from ecc.queues import CAKE, COBALT, cake_hooks, cobalt


def network(n: int = 3, **options: Any) -> Any:
    return ecc.Network.dumbbell("20 Mb/s", rtts=[0.03] * n, packet_size=1000, buffer=200_000, **options)


def scenario(discipline: Any, hosts: Any = None, duration: float = 4.0, n: int = 3, **options: Any) -> Any:
    hosts = hosts or NewReno(transport="sack", ecn=True)
    return ecc.Scenario(network(n, **options), {"flows": hosts, "links": {0: discipline}}, duration)


def test_windows_fill_a_shaped_link_and_no_sample_exceeds_its_rate():
    run = ecc.packet.simulate(scenario(CAKE(rate="18 Mb/s"), duration=10.0), sample=0.1)
    total = run.goodput[30:].sum("flow")
    assert float(total.mean()) > 0.96 * 18e6 and float(total.max()) < 18e6 + 2 * 8000 / 0.1
    assert float(run.drops[30:].sum()) == 0 and float(run.marks.sum()) > 0


def test_an_unshaped_link_serves_tins_in_proportion():
    """Without a rate the bytes of the turns are 16 : 1 : 4."""
    rates = {k: ConstantRate("19 Mb/s", ecn=True) for k in range(3)}
    run = ecc.packet.simulate(scenario(CAKE(dscp=(0, 8, 46)), rates), sample=0.1)
    shares = run.goodput[10:].mean("time").values / 20e6
    assert shares == pytest.approx(np.array([16.0, 1.0, 4.0]) / 21.0, rel=0.05)


def test_a_call_does_not_wait_for_downloads():
    hosts = {0: ConstantRate("300 kb/s"), "1-2": NewReno(transport="sack", ecn=True)}
    run = ecc.packet.simulate(scenario(CAKE(rate="18 Mb/s"), hosts, 6.0), sample=0.05)
    assert float(run.rtt[20:, 0].max()) < 0.03 + 3 * 8000 / 18e6


@pytest.mark.slow
@pytest.mark.parametrize("discipline", [CAKE(rate="18 Mb/s", n_queues=8, dscp=(0, 8, 46)), COBALT(mark=True)], ids=str)
def test_a_run_continues_from_a_checkpoint(discipline, tmp_path):
    """Also while the shaper lets the link wait: it is at the limit of its rate for most of the time."""
    given = scenario(discipline, {0: ConstantRate("9 Mb/s"), "default": NewReno(transport="sack", ecn=True)}, 2.0)
    whole = ecc.packet.simulate(given, sample=0.1)
    run = ecc.packet.Run(given, sample=0.1)
    for time in (0.7321, 1.30007):
        run.advance(time)
        run.save(tmp_path / "state.ecc")
        run = ecc.packet.resume(tmp_path / "state.ecc", given)
    run.advance(2.0)
    assert run.trajectory().stats["digest"] == whole.stats["digest"]


def test_flows_whose_set_is_full_share_a_queue():
    """Twelve flows and eight queues: each flow has a queue, and no queue is free."""
    discipline = CAKE(tins="besteffort", n_queues=8)
    p = SimpleNamespace(**discipline.params())
    link = record(discipline)
    taken = []
    for flow in range(12):
        env = SimpleNamespace(flow=flow, kind=0, queue_index=0, now=0.0, filter=0)
        cake_hooks.on_classify(link, None, p, env)
        cake_hooks.on_arrival(link, None, p, env)
        taken.append(env.queue_index)
    assert sorted(taken[:8]) == list(range(8)) and set(taken[8:]) <= set(range(8))
    assert link.total == 12 and sum(link.packets) == 12 and link.sparse == [8]


def test_the_hosts_of_a_shared_queue_are_those_of_its_last_flow():
    discipline = CAKE(tins="besteffort", n_queues=8, sources=(5,) * 8 + (6,), isolation="dual-srchost")
    p = SimpleNamespace(**discipline.params())
    link = record(discipline)
    for flow in range(9):
        env = SimpleNamespace(flow=flow, kind=0, queue_index=0, now=0.0, filter=0)
        cake_hooks.on_classify(link, None, p, env)
        cake_hooks.on_arrival(link, None, p, env)
        k = env.queue_index
        if flow < 8:
            link.kind[k] = cake_hooks.BULK
            cake_hooks.count_bulk(link, k, 1, p)
    counts = dict(zip(link.host_tag, link.host_bulk, strict=True))
    assert counts[6] == 7 and counts[7] == 1
    assert cake_hooks.quantum_of(link, k, p) == 1514.0


def record(discipline: CAKE) -> Any:
    """Return the state of a link, with lists in place of arrays."""
    values = vars(discipline.link_record())
    return SimpleNamespace(**{name: list(x) if isinstance(x, tuple) else x for name, x in values.items()})


def test_the_count_of_cobalt_falls_by_one_for_each_time_that_has_passed():
    """Twenty signals 100 ms / sqrt(count) apart, and then a queue that is short for half a second."""
    link = SimpleNamespace(**{name: list(x) for name, x in vars(cobalt.CobaltState()).items()})
    p = SimpleNamespace(mark=1.0)
    signals = []
    for k in range(4000):
        env = SimpleNamespace(now=1e-3 * k, sojourn=0.02, ecn=2, drop=0, mark=0, random=0.5)
        cobalt.examine(link, 0, 0.005, 0.1, 0.0, p, env)
        signals += [env.now] * env.mark
        if len(signals) == 20:
            break
    gaps = np.diff(signals)
    assert gaps == pytest.approx(0.1 / np.sqrt(np.arange(2, 21)), abs=1.1e-3)
    before = link.count[0]
    env = SimpleNamespace(now=env.now + 0.5, sojourn=0.0, ecn=2, drop=0, mark=0, random=0.5)
    cobalt.examine(link, 0, 0.005, 0.1, 0.0, p, env)
    passed = np.cumsum(0.1 / np.sqrt(np.arange(before - 1, 0, -1.0)))
    expected = before - 1 - int((passed <= 0.5 - 0.1 / np.sqrt(before)).sum())
    assert env.mark == 0 and link.count[0] == expected < before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CAKE(rate=0.0), "rate must be > 0"),
        (lambda: CAKE(interval="5 ms"), r"interval must be > target \(0.005 s\), got 0.005 s"),
        (lambda: COBALT(interval="5 ms"), r"interval must be > target \(0.005 s\), got 0.005 s"),
        (
            lambda: CAKE(tins="diffserv5"),
            "tins must be one of 'besteffort', 'diffserv3', .*'precedence', got 'diffserv5'",
        ),
        (lambda: CAKE(ingress=2), "ingress must be one of False, True, got 2"),
        (lambda: CAKE(isolation="hosts"), "isolation must be one of 'triple'"),
        (lambda: CAKE(framing="docsis"), "framing must be one of 'none', 'ptm', 'atm', got 'docsis'"),
        (lambda: CAKE(ack_filter=True), "ack_filter must be one of 'off', 'conservative', 'aggressive', got True"),
        (lambda: CAKE(dscp=(0, 64)), "dscp must be whole numbers from 0 to 63, got 64"),
        (lambda: CAKE(dscp=()), "dscp must be a nonempty sequence of numbers"),
        (lambda: CAKE(sources=(-1,)), "sources must be whole numbers from 0 to 2147483647, got -1"),
        (lambda: CAKE(n_queues=12), "n_queues must be a multiple of 8, got 12"),
        (lambda: CAKE(n_queues=4), "n_queues must be whole numbers from 8 to 16384, got 4"),
        (lambda: CAKE(overhead=300), "overhead must be whole numbers from -64 to 256, got 300"),
        (lambda: CAKE(mpu=1.5), "mpu must be whole numbers from 0 to 256, got 1.5"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_links_with_pause_and_fluid_runs_are_refused():
    links = [ecc.Link("10 Mb/s", "1 ms"), ecc.Link("10 Mb/s", "1 ms", pause=ecc.Pause("50 kB", "20 kB"))]
    paused = ecc.Network(links, [ecc.Flow([0, 1])])
    given = ecc.Scenario(paused, {"flows": NewReno(), "links": {0: CAKE()}}, 1.0)
    with pytest.raises(ValueError, match=r"must have no CAKE, which selects packets \(link 0\)"):
        ecc.packet.simulate(given)
    for discipline, reason in (
        (CAKE(), "its shaper, turns and ACK filter act"),
        (COBALT(), "BLUE counts single packets"),
    ):
        with pytest.raises(ValueError, match=f"has no fluid model: {reason}"):
            ecc.fluid.simulate(scenario(discipline))


def test_relabeled_flows_keep_their_hosts_and_codepoints():
    cake = CAKE(dscp=(0, 46), sources=(1, 2, 3)).relabeled([2, 0, 1, 1])
    assert cake.dscp == (0, 0, 46, 46) and cake.sources == (3, 1, 2, 2) and cake.destinations == ()


@pytest.mark.slow
def test_parts_and_the_twin_run_the_same_events():
    """CAKE at a bottleneck and, with its ACK filter, in front of a slow uplink, in one part, in two, and in Python."""
    rates = ("20 Mb/s", "15 Mb/s", "600 kb/s")
    links = [ecc.Link(rate, "5 ms", buffer=200_000) for rate in rates]
    flows = [ecc.Flow([0, 1], reverse=[2], ack_size=60) for _ in range(4)]
    uplink = CAKE(rate="500 kb/s", tins="diffserv4", framing="ptm", overhead=22, ack_filter="aggressive", n_queues=64)
    protocol = {"flows": NewReno(transport="rack", ecn=True), "links": {1: CAKE(rate="12 Mb/s"), 2: uplink}}
    given = ecc.Scenario(ecc.Network(links, flows), protocol, 2.0, seed=2)
    runs = [ecc.packet.simulate(given, **options) for options in ({}, {"threads": 2}, {"engine": "python"})]
    assert len({run.stats["digest"] for run in runs}) == 1
    assert float(runs[0].drops[:, 2].sum()) > 100 and float(runs[0].marks[:, 1].sum()) > 0
