"""Packets that lose their data where the queue is full: their headers overtake, and senders know at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import ecc
from ecc import Flow, Link, Network, Scenario
from ecc.live.nodes import prepared_for_links
from ecc.models import TIMELY, ConstantRate, NewReno
from ecc.packet import Run, resume, simulate
from ecc.packet.prepare import prepare
from ecc.packet.twin.state import Receiver
from ecc.queues import DropTail, Trimming

ENGINES = pytest.mark.parametrize("engine", ["c", "python"])


def incast(
    protocol: object, n: int = 5, discipline: object = None, trimmed: int | None = 64, **given: object
) -> Scenario:
    """Flows of 100 kB over a link of 10 Mb/s, where 8 kB of data are held."""
    links = [Link("100 Mb/s", "10 us"), Link("10 Mb/s", "20 us", None if discipline is None else 8000)]
    links.append(Link("10 Mb/s", "1 ms"))
    flows = [Flow([0, 1], size="100 kB", trimmed_size=trimmed, access_delay="5 us", **given) for _ in range(n)]  # type: ignore[arg-type]
    at = {1: Trimming(limit=8000) if discipline is None else discipline}
    return Scenario(
        Network(links, flows), {"flows": {"default": protocol}, "links": at}, 2.0, seed=3, phase_jitter=False
    )


@ENGINES
def test_what_is_trimmed_is_sent_again_and_nothing_is_dropped(engine):
    run = simulate(incast(ConstantRate("8 Mb/s")), sample=0.05, engine=engine, record=["link.trimmed"])
    n_trimmed = int(run["link.trimmed"][-1, 1])
    assert n_trimmed > 100 and run.drops.sum() == 0
    assert run.flows["lost"].sum() == 1000 * n_trimmed == run.flows["retransmitted"].sum()
    assert (run.flows["delivered"] == 100_000).all() and run.flows["completion_time"].notna().all()
    assert run.queue_max.max() < 8000 + 64 * n_trimmed


def test_a_trimmed_packet_is_reported_after_an_rtt_without_queues():
    """The third packet of two is trimmed: its sender knows 3 ms before a timeout, or three packets, could tell."""
    link = Link("1 Mb/s", "1 ms")  # a packet takes 8 ms, a header of 64 bytes 0.512 ms
    flow = Flow([0], size="3 kB", trimmed_size=64)
    protocol = {"flows": {"default": ConstantRate("8 Mb/s")}, "links": {0: Trimming(limit=2000)}}
    run = simulate(
        Scenario(Network([link], [flow]), protocol, 0.1, phase_jitter=False), sample=0.001, record=["env.lost"]
    )
    lost = run["env.lost"].to_numpy()[:, 0]
    # sent at 2 ms; served behind the first packet at 8 ms, before the second; 8.512 ms + 1 ms + 1 ms
    assert lost[9] == 0 and lost[10] == 1000
    # sent again at once; that finds one packet in the queue, and leaves at 8.512 + 16 ms
    assert run.flows["finish"][0] == pytest.approx(0.024512 + 0.002, abs=1e-9)


def test_links_of_a_fabric_trim_what_demands_allow():
    demands = [ecc.Demand(host, 3, "20 kB", trimmed_size=64) for host in range(3)]
    net = Network.leaf_spine(2, 1, 2, demands, "1 Gb/s", "1 us")
    disciplines = {"default": Trimming(limit=4000)}
    scenario = Scenario(net, {"flows": ConstantRate("900 Mb/s"), "links": disciplines}, 0.1)
    run = simulate(scenario, record=["link.trimmed"])
    assert run["link.trimmed"][-1].sum() > 10 and run.drops.sum() == 0
    assert run.flows["completion_time"].notna().all()


def test_without_trimmed_size_packets_are_dropped_instead():
    run = simulate(incast(ConstantRate("8 Mb/s"), trimmed=None), sample=0.05)
    assert run.drops.sum() > 100


def test_trimming_ends_an_incast_sooner_than_a_full_buffer_does():
    """Gaps at the end of a flow show only by a timeout; headers show all."""
    ends = [
        simulate(incast(ConstantRate("8 Mb/s"), discipline=one), sample=0.05).flows["completion_time"].max()
        for one in (None, DropTail())
    ]
    assert ends[0] < 0.8 < 1.0 < ends[1]


@pytest.mark.slow
@ENGINES
def test_a_packet_no_larger_than_a_header_goes_whole_among_the_headers(engine):
    """Not dropped, which only a timeout of 1 s would show: these flows end with one packet of 40 or of 64 bytes."""
    flows = [Flow([0], size="100 kB", trimmed_size=64) for _ in range(4)]
    flows += [
        Flow([0], size=size, start=0.02 + 0.001 * k, trimmed_size=64) for k in range(8) for size in (40, 64, 2064)
    ]
    protocol = {"flows": ConstantRate("8 Mb/s"), "links": Trimming(limit=4000)}
    scenario = Scenario(Network([Link("10 Mb/s", "20 us")], flows), protocol, 2.0, phase_jitter=False)
    run = simulate(scenario, sample=0.1, engine=engine)
    small = run.flows[run.flows["size"] < 100]
    assert run.drops.sum() == 0 and (run.flows["delivered"] == run.flows["size"]).all()
    assert small["completion_time"].max() < 0.0015 and (small["lost"] == 0).all()


@dataclass
class Kinds:
    """How many packets a link saw as headers."""

    arriving: int = 0
    leaving: int = 0


class Watching(Trimming):
    """Trimming that counts, too."""

    LinkState = Kinds

    def link_hooks(self):  # type: ignore[no-untyped-def]
        return {**super().link_hooks(), "on_arrival": trim_and_count, "on_departure": count}


def trim_and_count(link, header, p, env):  # type: ignore[no-untyped-def]
    link.arriving += int(env.kind == 2)
    if env.kind == 0 and env.queue + env.packet_size > p.limit:
        env.trim = 1


def count(link, header, p, env):  # type: ignore[no-untyped-def]
    link.leaving += int(env.kind == 2)


@ENGINES
def test_what_goes_whole_is_a_header_for_hooks_of_its_arrival_only(engine):
    flows = [Flow([0], size="5 kB", trimmed_size=64), Flow([0], size=64, start=0.0005, trimmed_size=64)]
    protocol = {"flows": ConstantRate("80 Mb/s"), "links": Watching(limit=4000)}
    scenario = Scenario(Network([Link("10 Mb/s", "20 us")], flows), protocol, 0.1, phase_jitter=False)
    run = simulate(scenario, sample=0.01, engine=engine, record=["link.arriving", "link.leaving"])
    n_trimmed = int(run.flows["lost"][0]) // 1000
    assert n_trimmed > 0 and run.flows["completion_time"][1] < 0.002
    assert run["link.leaving"][-1, 0] == n_trimmed == run["link.arriving"][-1, 0] - 1


def test_the_receiver_counts_what_was_trimmed_as_missing():
    receiver, reported = Receiver(reordering_threshold=4), []
    for offset, trimmed in ((0, False), (2000, True), (3000, False), (1000, True), (1000, True)):
        receiver.account(offset, 1000, 0, trimmed)
        reported.append((receiver.front, receiver.missing))
    assert reported == [(1000, 0), (2000, 1000), (3000, 1000), (4000, 2000), (4000, 2000)]


@pytest.mark.parametrize("protocol", [ConstantRate("8 Mb/s"), TIMELY()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("given", [{}, {"delayed_acks": (3, "1 ms")}, {"reverse": [2]}], ids=str)
def test_engines_threads_and_checkpoints_agree(protocol, given, tmp_path):
    scenario = incast(protocol, **given)
    plain = simulate(scenario, sample=0.05)
    assert plain.flows["lost"].sum() > 0
    assert simulate(scenario, sample=0.05, engine="python").stats["digest"] == plain.stats["digest"]
    assert simulate(scenario, sample=0.05, threads=2).stats["digest"] == plain.stats["digest"]
    first = Run(scenario, sample=0.05)
    first.advance(0.0423)
    first.save(tmp_path / "some")
    second = resume(tmp_path / "some")
    second.advance()
    assert second.trajectory().stats["digest"] == plain.stats["digest"]


def test_captures_show_headers(tmp_path):
    scenario = incast(ConstantRate("8 Mb/s"))
    with_capture = simulate(scenario, sample=0.05, capture={1: tmp_path / "link.pcapng"})
    assert (with_capture.goodput == simulate(scenario, sample=0.05).goodput).all()
    assert (tmp_path / "link.pcapng").stat().st_size > 0


def test_what_knows_no_trimming_refuses_it():
    with pytest.raises(
        ValueError, match=r"trimmed_size must be None with the transport of NewReno, got 64 bytes \(flow 0\)"
    ):
        simulate(incast(NewReno()))
    with pytest.raises(ValueError, match=r"trimmed_size must be None in live runs, got 64 bytes \(flow 0\)"):
        prepared_for_links(prepare(incast(ConstantRate("8 Mb/s"))))
    with pytest.raises(ValueError, match="Trimming"):
        ecc.fluid.simulate(incast(NewReno(), trimmed=None))
    assert np.isfinite(simulate(incast(NewReno(), trimmed=None), sample=0.1).queue.max())


def test_links_that_would_trim_every_packet_are_refused():
    net = Network([Link("1 Mb/s"), Link("1 Mb/s")], [Flow([0], trimmed_size=64), Flow([0, 1], trimmed_size=64)])
    protocol = {"flows": ConstantRate("1 Mb/s"), "links": {1: Trimming(limit=500)}}
    refusal = r"limit of Trimming must be >= a packet of flow 1 \(1000 bytes\), got 500 bytes \(link 1\)"
    with pytest.raises(ValueError, match=refusal):
        Scenario(net, protocol, 1.0)
    work = ecc.Workload(transfers=[Flow([1], packet_size=1500, size=3000)])
    protocol["links"] = {1: Trimming(limit=1000)}
    with pytest.raises(ValueError, match=r"a packet of the workload \(1500 bytes\), got 1000 bytes \(link 1\)"):
        Scenario(net, protocol, 1.0, workload=work)
    small = Network(net.links, [Flow([1], packet_size=64, trimmed_size=64)])
    assert Scenario(small, {**protocol, "links": {1: Trimming(limit=50)}}, 1.0).duration == 1.0
