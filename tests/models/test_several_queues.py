"""Several queues behind a link: what each scheduler guarantees, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.contract.forms import Queues
from ecc.models import ConstantRate, NewReno, Protocol
from ecc.network.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.queues import CAKE, DRR, CoDel, DualPI2, FQCoDel, StrictPriority
from ecc.scenario import Scenario


def run(discipline: Any, rates: list[str], duration: float = 2.0, sizes: Any = 1000, **options: Any) -> Any:
    """Flows of constant rate over 10 Mb/s with a buffer of 100 kB."""
    network = Network.dumbbell("10 Mb/s", rtts=[0.02] * len(rates), packet_size=sizes, buffer=100_000)
    hosts = {k: ConstantRate(rate) for k, rate in enumerate(rates)}
    return simulate(Scenario(network, {"flows": hosts, "links": {0: discipline}}, duration), sample=0.1, **options)


def test_strict_priority_gives_the_first_class_all_that_it_wants():
    found = run(StrictPriority(classes=(0, 1, 2)), ["3 Mb/s", "5 Mb/s", "9 Mb/s"])
    assert found.goodput[2:].mean("time").values == pytest.approx([3e6, 5e6, 2e6], rel=0.02)
    assert found.class_queue[2:, 0].max() <= 2000
    assert found.class_queue.sum("class").values == pytest.approx(found.queue[:, 0].values)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["c", "python"])
@pytest.mark.parametrize(
    "discipline",
    [
        StrictPriority(classes=(0, 1, 2, 0)),
        DRR(weights=(1, 2)),
        FQCoDel(n_queues=8, mark=True),
        CAKE(n_queues=8, tins="besteffort"),
        DualPI2(mark=True),
    ],
    ids=lambda discipline: type(discipline).__name__,
)
def test_drops_and_marks_of_queues_add_up_to_those_of_their_link(engine, discipline):
    """What a full buffer, on_arrival, on_dequeue and the longest queue drop, of two links; on the first with marks."""
    links = [Link("10 Mb/s", "2 ms", buffer=30_000), Link("20 Mb/s", "2 ms"), Link("4 Mb/s", "2 ms", buffer=20_000)]
    flows = [Flow([0, 1]), Flow([0]), Flow([0, 2]), Flow([1, 2])]
    dual = isinstance(discipline, DualPI2)
    second = Scalable() if dual else NewReno(ecn=True)
    hosts = {0: NewReno(ecn=True), 1: ConstantRate("9 Mb/s"), 2: second, 3: ConstantRate("5 Mb/s")}
    assignment = {"flows": hosts, "links": {0: discipline, 2: StrictPriority(classes=(1, 1, 0, 0))}}
    found = simulate(Scenario(Network(links, flows), assignment, 1.0), sample=0.25, engine=engine)
    of_link = found.class_queue.class_link
    assert sorted(set(of_link.values.tolist())) == [0, 2]
    assert found.class_drops.class_index.values[-2:].tolist() == [0, 1]
    assert found.class_drops.dims == found.class_marks.dims == ("time", "class")
    for link in (0, 2):
        here = of_link == link
        for by_class, whole in (
            (found.class_drops, found.drops),
            (found.class_marks, found.marks),
            (found.class_queue, found.queue),
        ):
            assert by_class[:, here].sum("class").values.tolist() == whole[:, link].values.tolist()
        assert found.drops[:, link].sum() > 0
    if dual:  # low latency, beyond the step
        assert found.class_marks[:, 0].sum() > 0


@pytest.mark.slow
def test_results_name_the_links_with_too_many_queues_for_series():
    links = [Link("10 Mb/s", "5 ms", buffer=40_000)] * 3
    network = Network(links, [Flow([0, 1, 2]), Flow([0, 2])])
    many, few = FQCoDel(), FQCoDel(n_queues=64)
    note = (
        "class_queue, class_drops and class_marks leave out link 0 (1024 queues) and 1 other: "
        "they have the queues of links with 2 to 64"
    )
    for engine in (simulate, ecc.fluid.simulate):
        scenario = Scenario(network, {"flows": NewReno(), "links": {0: many, 1: many, 2: few}}, 0.5)
        run = engine(scenario, sample=0.25)
        assert [text for text in run.notes if "class_queue" in text] == [note]
        assert set(run.class_queue.class_link.values.tolist()) == {2}
        run = engine(scenario.with_(protocol={"flows": NewReno(), "links": {0: many}}), sample=0.25)
        assert not [text for text in run.notes if "class_queue" in text]
        with pytest.raises(AttributeError, match=r"no series 'class_queue' \(links with 2 to 64 queues have one\);"):
            run.class_queue  # noqa: B018


def test_strict_priority_drops_what_comes_last():
    """Two classes of 8 Mb/s over 10 Mb/s: 6 of each 16 packets are lost, all of the second class but for the start."""
    found = run(StrictPriority(classes=(0, 1)), ["8 Mb/s", "8 Mb/s"], 4.0)
    dropped = found.class_drops[5:].sum("time").values
    assert dropped.sum() == pytest.approx(6e6 * 3.5 / 8000.0, rel=0.02)
    assert found.class_marks.sum() == 0 and not found.class_drops[:, 0].equals(found.class_drops[:, 1])


@pytest.mark.parametrize("engine", ["c", "python"])
def test_drr_shares_bytes_within_a_quantum_and_a_packet(engine):
    """Backlogged classes, whatever their packets: after any time bytes are as weights, but for what one turn is."""
    network = Network.dumbbell("10 Mb/s", rtts=[0.02] * 3, buffer=10_000_000)
    flows = [replace(flow, packet_size=size) for flow, size in zip(network.flows, (300, 1000, 1500), strict=True)]
    network = network.with_flows(flows)
    hosts = {"default": ConstantRate("10 Mb/s")}
    scenario = Scenario(network, {"flows": hosts, "links": {0: DRR(weights=(1, 2, 1))}}, 1.0)
    found = simulate(scenario, sample=0.05, engine=engine)
    sent = found.goodput.cumsum("time").values * 0.05 / 8.0 / [1.0, 2.0, 1.0]
    assert (np.ptp(sent, axis=1) <= 1500 + 1500).all() and sent[-1].min() > 290_000


def jain(rates: Any) -> float:
    return float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))


def test_fair_queueing_makes_unequal_senders_equal():
    """Eight flows that send from 1 to 8 Mb/s share 10 Mb/s: 1 Mb/s has what it wants, the rest has equal parts."""
    rates = [f"{k} Mb/s" for k in range(1, 9)]
    fair, plain = (run(discipline, rates, 4.0).goodput[20:].mean("time").values for discipline in (FQCoDel(), CoDel()))
    assert fair == pytest.approx([1e6, *[9e6 / 7] * 7], rel=0.02)
    assert jain(plain) < 0.9 < jain(fair)


def test_fair_queueing_is_fair_to_windows_of_unequal_rtts():
    network = Network.dumbbell("10 Mb/s", rtts=[0.01, 0.02, 0.05, 0.1], packet_size=1000, buffer=200_000)
    hosts = {"default": NewReno(ecn=True, transport="sack")}
    discipline = FQCoDel(mark=True)
    found = simulate(Scenario(network, {"flows": hosts, "links": {0: discipline}}, 30.0), sample=0.5)
    assert jain(found.goodput[20:].mean("time").values) > 0.97


def test_dual_queue_keeps_low_latency_low():
    """Scalable packets wait for about the step, classic ones for the target; neither starves."""
    network = Network.dumbbell("20 Mb/s", rtts=[0.02] * 4, packet_size=1000, buffer=250_000)
    hosts = {"0-1": Scalable(), "2-3": NewReno(ecn=True, transport="sack")}
    found = simulate(Scenario(network, {"flows": hosts, "links": {0: DualPI2()}}, 20.0, seed=1), sample=0.05)
    low, classic = (found.class_queue[200:].mean("time").values * 8 / 2e7).tolist()
    assert low < 0.002 and 0.003 < classic < 0.03
    rates = found.goodput[200:].mean("time").values
    assert rates.sum() > 0.9 * 2e7 and 0.3 < rates[:2].sum() / rates[2:].sum() < 3.0


@pytest.mark.parametrize(("ecn", "waits"), [(False, True), (True, True), ("scalable", False)])
def test_an_unresponsive_call_chooses_its_queue_by_its_codepoint(ecn, waits):
    network = Network.dumbbell("20 Mb/s", rtts=[0.02] * 2, packet_size=1000, buffer=250_000)
    hosts = {0: NewReno(ecn=True, transport="sack"), 1: ConstantRate("200 kb/s", ecn=ecn)}
    found = simulate(Scenario(network, {"flows": hosts, "links": {0: DualPI2()}}, 10.0), sample=0.05)
    delay = float(found.rtt[100:, 1].mean() - 0.02)
    assert delay > 0.005 if waits else delay < 0.002
    assert found.goodput[100:, 1].mean() == pytest.approx(200e3, rel=0.05)


def test_packets_of_a_constant_rate_are_marked_or_dropped():
    for ecn, echo in ((False, None), (True, "classic"), ("scalable", "scalable")):
        host = ConstantRate("12 Mb/s", ecn=ecn)
        found = run(CoDel(mark=True), ["12 Mb/s"]) if not ecn else _marked(host)
        assert host.ecn_echo == echo and (float(found.marks.sum()) > 0.0) is (echo is not None)
    with pytest.raises(ValueError, match=r"ecn must be one of False, True, 'scalable', got 'yes'"):
        ConstantRate("1 Mb/s", ecn="yes")


def _marked(host: ConstantRate) -> Any:
    network = Network.dumbbell("10 Mb/s", rtts=[0.02], packet_size=1000, buffer=1_000_000)
    return simulate(Scenario(network, {"flows": host, "links": {0: CoDel(mark=True)}}, 1.0), sample=0.1)


@dataclass(frozen=True)
class Scalable(Protocol):
    """A window that falls by half a packet a marked packet, and grows by one in an RTT."""

    ecn_echo = "scalable"
    transport = "sack"
    answers = frozenset({"ecn"})

    def link_hooks(self) -> dict[str, Any]:
        return {}

    def flow_hooks(self) -> dict[str, Any]:
        return {"on_start": start, "on_ack": on_ack}


def start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = 10.0 * env.packet_size


def on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    grown = env.window - 0.5 * env.marked + env.packet_size * env.acked / env.window
    env.window = max(grown, 2.0 * env.packet_size)


@dataclass(frozen=True)
class Own(Protocol):
    """A discipline of a user: two queues, and a packet that is to join another one."""

    scheduler: Any = "priority"
    quanta: tuple[Any, ...] = (1000, 1000)
    index: int = 0

    times = ()
    gives = frozenset()

    @property
    def queues(self) -> Queues:
        return Queues(self.scheduler, self.quanta)

    def link_hooks(self) -> dict[str, Any]:
        return {"on_classify": join}


def join(link: Any, header: Any, p: Any, env: Any) -> None:
    env.queue_index = int(p.index)


@pytest.mark.parametrize("engine", ["c", "python"])
@pytest.mark.parametrize("index", [2, -1])
def test_a_queue_that_does_not_exist_stops_the_run(engine, index):
    message = rf"queue index must be that of a queue of the link, got {index} \(link 0, on_classify, t = "
    with pytest.warns(RuntimeWarning, match=message):
        found = run(Own(index=index), ["1 Mb/s"], engine=engine)
    assert found.stopped != "completed" and len(found.queue) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scheduler": "wfq"}, "scheduler of Own must be one of 'priority', 'drr', 'fq', 'select', got 'wfq'"),
        ({"quanta": (1000, 0)}, r"quanta of Own must be whole numbers > 0 bytes, got \(1000, 0\)"),
        ({"quanta": ()}, "quanta of Own must have one entry per queue, got none"),
    ],
)
def test_queues_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        run(Own(**given), ["1 Mb/s"])


def test_two_disciplines_with_queues_at_one_link_are_refused():
    with pytest.raises(ValueError, match="link 0 must have one discipline with queues, got DRR and StrictPriority"):
        run((DRR(), StrictPriority()), ["1 Mb/s"])


def test_classes_and_weights_survive_toml():
    network = Network.dumbbell("10 Mb/s", rtts=[0.02], packet_size=1000)
    for discipline in (DRR(weights=(3, 1), classes=(0, 1, 1)), StrictPriority(classes=(2, 0, 1)), FQCoDel(n_queues=16)):
        given = Scenario(network, {"flows": {"default": NewReno()}, "links": {0: discipline}}, 1.0)
        assert Scenario.from_toml(given.to_toml()).protocol == given.protocol
