"""Every queue discipline under every host that answers what it gives, in both packet engines; pairs that do not fit."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ecc.contract.states import State
from ecc.contract.values import states_of
from ecc.models import BIC, CUBIC, FAST, XCP, Compound, ConstantRate, NewReno, Protocol, Vegas
from ecc.models.shared.windows import EndToEndProtocol
from ecc.network.network import Network
from ecc.packet import simulate
from ecc.queues import (
    AVQ,
    CAKE,
    DRR,
    PI,
    PI2,
    PIE,
    RED,
    REM,
    CoDel,
    DropTail,
    DualPI2,
    FQCoDel,
    Policer,
    QueueDiscipline,
    RampMarking,
    StepMarking,
    StrictPriority,
    Trimming,
    all_disciplines,
    pie,
    red,
)
from ecc.scenario import Scenario

MARKING = [cls for cls in all_disciplines().values() if issubclass(cls, QueueDiscipline)]
HOSTS = [cls(ecn=ecn) for cls in (NewReno, CUBIC, Compound, BIC, Vegas, FAST) for ecn in (False, True)]


def network(n_flows: int = 4, capacity: str = "10 Mb/s", packets: int = 200, **options: Any) -> Network:
    return Network.dumbbell(capacity, rtts=[0.05] * n_flows, packet_size=1000, buffer=1000 * packets, **options)


def run(hosts: Any, discipline: Protocol, duration: float = 4.0, **options: Any) -> Any:
    protocol = {"flows": hosts if isinstance(hosts, dict) else {"default": hosts}, "links": {"default": discipline}}
    given = Scenario(options.pop("network", network()), protocol, duration, seed=3)
    return simulate(given, sample=0.1, **options)


def pairs() -> list[Any]:
    """Every discipline with every host; CI runs each of them with a third of the others."""
    return [
        pytest.param(cls, host, id=f"{cls.__name__}-{host}", marks=pytest.mark.extensive if (row + column) % 3 else ())
        for row, cls in enumerate(all_disciplines().values())
        for column, host in enumerate([NewReno(transport="sack", ecn=True), *HOSTS])
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "host"), pairs())
def test_every_host_over_every_discipline(cls, host):
    """The engines agree event by event, all flows deliver, and only hosts with ECN are marked."""
    discipline = cls(mark=True) if cls in MARKING else cls()
    given = network(2, "4 Mb/s", 60)
    # A policer drops trains of packets, whose retransmissions wait for timers: rates need longer to average out.
    seconds = 12.0 if cls is Policer else 2.0
    found, twin = (run(host, discipline, seconds, network=given, engine=engine) for engine in ("c", "python"))
    assert found.stats["digest"] == twin.stats["digest"]
    assert found.marks.equals(twin.marks) and found.drops.equals(twin.drops)
    assert (float(found.marks.sum()) > 0) <= host.ecn
    assert (found.flows["delivered"] > (2_500 if cls is StrictPriority else 25_000) * seconds).all()


@pytest.mark.parametrize("cls", MARKING, ids=lambda cls: cls.__name__)
def test_marks_replace_drops_of_packets_that_can_be_marked(cls):
    options = {"mark_limit": 1.0} if cls is PIE else {}  # beyond it PIE drops all
    hosts = NewReno(ecn=True, transport="sack")
    marked, dropped = (run(hosts, cls(mark=mark, **options), 8.0) for mark in (True, False))
    assert float(marked.marks.sum()) > 0 and float(dropped.marks.sum()) == 0 and float(dropped.drops.sum()) > 0
    late = slice(40, None)  # what slow start has lost is sent again by then; such packets cannot be marked
    assert float(marked.drops[late].sum()) == 0
    assert marked.flows["retransmitted"].sum() < dropped.flows["retransmitted"].sum()
    assert (marked.flows["marked"] > 0).all()


@pytest.mark.parametrize("discipline", [PI(), PI(mark=True)], ids=str)
def test_pi_brings_the_queue_to_its_reference(discipline):
    """The integrator leaves no other mean at equilibrium; 60 flows are what the authors' gains were made for."""
    given = Network.dumbbell("30 Mb/s", rtts=[0.2] * 60, packet_size=1000, buffer=800_000)
    found = run(NewReno(ecn=True, initial=2), discipline, 200.0, network=given)
    assert float(found.queue_mean[1000:].mean()) / 1000 == pytest.approx(discipline.reference, rel=0.1)


def test_delays_of_pie_and_pi2_are_those_wanted():
    for discipline in (PIE(), PI2(), PI2(mark=True)):
        found = run(NewReno(ecn=True), discipline, 60.0, network=network(10))
        assert float(found.queue_mean[200:].mean()) * 8 / 1e7 == pytest.approx(discipline.target, rel=0.25)


def test_flows_with_and_without_ecn_share_a_queue():
    """Both get the same signal, so that neither starves; the unresponsive flow keeps its rate but for its drops."""
    hosts = {"0-1": NewReno(ecn=True), "2-3": NewReno(), 4: ConstantRate("1 Mb/s")}
    found = run(hosts, PIE(mark=True), 60.0, network=network(5))
    rates = found.goodput[200:].mean(axis=0).values
    assert 0.4 < rates[:2].sum() / rates[2:4].sum() < 2.5
    assert rates[4] == pytest.approx(1e6, rel=0.1)
    assert (found.flows["marked"][:2] > 0).all() and (found.flows["marked"][2:] == 0).all()


@dataclass(frozen=True)
class OnlyMarks(Protocol):
    """A host that answers marks and nothing else."""

    ecn_echo = "accurate"
    answers = frozenset({"ecn"})

    def link_hooks(self) -> dict[str, Any]:
        return {}

    def flow_hooks(self) -> dict[str, Any]:
        return {"on_start": start, "on_ack": slow_down}


def start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = 200.0 * env.packet_size


def slow_down(flow: Any, header: Any, p: Any, env: Any) -> None:
    if env.marked > 0:
        env.window = max(env.window - 0.5 * env.marked, 2.0 * env.packet_size)
    else:
        env.window += env.packet_size * env.acked / env.window


def test_accurate_echo_tells_of_every_marked_byte_though_acks_are_delayed():
    given = network(2)
    given = given.with_flows([replace(flow, delayed_acks=(2, "40 ms")) for flow in given.flows])
    found = run(OnlyMarks(), StepMarking(), 5.0, network=given)
    assert found.flows["marked"].sum() == 1000 * float(found.marks.sum()) > 0
    assert float(found.queue_mean[20:].mean()) < 60_000


def test_pairs_without_a_common_signal_are_refused():
    for links in ({"default": DropTail()}, {"default": RED()}):
        with pytest.raises(
            ValueError, match=r"flow 0 must answer a signal of its links \(delay, loss\), got OnlyMarks"
        ):
            Scenario(network(), {"flows": {"default": OnlyMarks()}, "links": links}, 1.0)
    with pytest.raises(ValueError, match=r"got XCP, which answers XCP"):
        Scenario(network(), {"flows": {"default": XCP()}, "links": {"default": RED()}}, 1.0)
    for links in ((XCP(), RED()), ()):  # routers beside a discipline; links without any, as there are
        Scenario(network(), {"flows": {"default": XCP()}, "links": {"default": links}}, 1.0)
    with pytest.raises(ValueError, match="got OnlyMarks"):
        Scenario(network(), OnlyMarks(), 1.0)


def test_a_discipline_is_for_links():
    for protocol in (RED(), {"flows": {"default": RED()}}):
        with pytest.raises(ValueError, match="must have hosts, got RED, which is for links"):
            Scenario(network(), protocol, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RED(min_threshold=15, max_threshold=5),
            r"max_threshold must be > min_threshold \(15 packets\), got 5",
        ),
        (lambda: RED(weight=0.0), "weight must be > 0, got 0"),
        (lambda: RED(weight=2.0), "weight must be <= 1, got 2"),
        (lambda: RED(p_max=1.5), "p_max must be <= 1, got 1.5"),
        (lambda: REM(weight=0.0), "weight must be > 0, got 0"),
        (lambda: REM(phi=1.0), "phi must be > 1, got 1"),
        (lambda: PI(a=1e-5), r"a must be > b \(1.816e-05\), or the probability forgets the queue, got 1e-05"),
        (lambda: AVQ(gamma=1.1), "gamma must be <= 1, got 1.1"),
        (lambda: PIE(mark_limit=2.0), "mark_limit must be <= 1, got 2"),
        (lambda: PIE(target=0.0), "target must be > 0"),
        (lambda: CoDel(interval="5 ms"), r"interval must be > target \(0.005 s\), got 0.005 s"),
        (lambda: CoDel(target=0.0), "target must be > 0"),
        (lambda: DRR(weights=(1.0, 0.0)), "weights must be > 0, got 0"),
        (lambda: Trimming(limit=0.0), "limit must be > 0, got 0"),
        (lambda: Trimming(min_threshold=10.0), "min_threshold and max_threshold must both be None or both be sizes"),
        (lambda: Trimming(1e5, 10.0, 10.0), r"max_threshold must be > min_threshold \(10 bytes\), got 10"),
        (lambda: RampMarking(max_threshold=5.0), r"max_threshold must be > min_threshold \(7 packets\), got 5"),
        (lambda: DRR(classes=(0, 1, 2)), r"classes must be from 0 to 1 \(one class per weight\), got 2"),
        (lambda: StrictPriority(classes=(0, -1)), "classes must be whole numbers >= 0, got -1"),
        (lambda: FQCoDel(n_queues=0), "n_queues must be > 0, got 0"),
        (lambda: FQCoDel(n_queues=70000), "n_queues must be <= 65536, got 70000"),
        (lambda: FQCoDel(quantum=1.5), "quantum must be a whole number, got 1.5"),
        (lambda: DualPI2(classic_share=1.0), "classic_share must be < 1, got 1"),
        (lambda: StepMarking(threshold=-1.0), "threshold must be >= 0, got -1"),
        (lambda: RED(packet_size=0.0), "packet_size must be > 0, got 0"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(ValueError, match="mark must be one of True, False, got 1"):
        RED(mark=1)
    with pytest.raises(ValueError, match="ecn must be one of False, True, got 'yes'"):
        NewReno(ecn="yes")


@pytest.mark.parametrize("cls", all_disciplines().values(), ids=lambda cls: cls.__name__)
def test_disciplines_survive_toml(cls):
    given = Scenario(network(), {"flows": {"default": NewReno(ecn=True)}, "links": {"default": cls()}}, 1.0)
    assert Scenario.from_toml(given.to_toml()).protocol == given.protocol


def test_laws_have_the_values_of_their_papers():
    p = SimpleNamespace(min_threshold=5.0, max_threshold=15.0, gentle=1.0)
    assert [red.probability(avg, 0.1, p) for avg in (4.9, 10.0, 15.0, 22.5, 30.0)] == pytest.approx(
        [0, 0.05, 0.1, 0.55, 1]
    )
    p.gentle = 0.0
    assert red.probability(15.0, 0.1, p) == 1.0
    assert [red.spread(0.1, n) for n in (0, 5, 9, 10)] == pytest.approx([0.1, 0.2, 1.0, 1.0])
    assert red.average_after_idle(8.0, math.log(0.5) / math.log(0.998), 0.002) == pytest.approx(4.0)
    p = SimpleNamespace(alpha=0.125, beta=1.25, target=0.015)
    assert pie.next_probability(0.05, 0.025, 0.015, p) == pytest.approx(0.05 + 0.5 * (0.125 * 0.01 + 1.25 * 0.01))
    assert pie.next_probability(0.2, 1.0, 0.0, p) == pytest.approx(0.22)
    assert pie.next_probability(0.5, 0.0, 0.0, p) == pytest.approx((0.5 - 0.125 * 0.015) * 0.98)
    assert np.all([issubclass(type(host), EndToEndProtocol) for host in HOSTS])


@pytest.mark.parametrize("cls", all_disciplines().values())
def test_states_of_laws_are_those_of_hooks(cls):
    discipline = cls()
    fields = {field.name for field in dataclasses.fields(discipline.LinkState)}
    for name, state in states_of(discipline).items():
        assert name in fields and callable(state.law)


@pytest.mark.parametrize("p_b", [0.5, 0.1, 0.01])
def test_red_chooses_twice_as_many_as_its_probability_says(p_b):
    """The expected number of packets up to the next that is chosen, by the law of the hook."""
    expected, reached = 0.0, 1.0
    for n in range(int(1.0 / p_b) + 2):
        expected += reached
        reached *= 1.0 - red.spread(p_b, n)
    assert red.share_chosen(p_b) == pytest.approx(1.0 / expected, rel=1e-9)


def test_a_step_of_a_law_is_that_of_the_hook():
    one, pi2, rem, avq = (cls() for cls in (PIE, PI2, REM, AVQ))
    p = one.namespace()
    assert states_of(one)["prob"].law(0.05, 30.0, 20.0, 1000.0, p) == pie.next_probability(0.05, 0.03, 0.02, p)
    assert one.probability_law(0.05, 30.0, 20.0, 1000.0, p) == 0.05
    assert one.probability_law(0.05, 2.0, 20.0, 1000.0, p) == 0.0
    p = pi2.namespace()
    assert pi2.probability_law(0.1, 0.0, p) == pytest.approx(0.01) and pi2.probability_law(0.1, 1.0, p) == 0.2
    p = rem.namespace()
    assert states_of(rem)["arrivals"].law(2.0, 1000.0, 0.002, p) == pytest.approx(2.0)
    assert states_of(rem)["price"].law(5.0, 20.0, 2.0, 1000.0, 0.002, p) == pytest.approx(5.0)
    p = avq.namespace()
    V = states_of(avq)["V"]
    assert V.law(900.0, 1000.0, 980.0, p) == pytest.approx(900.0) and V.initial(1000.0) == 1000.0
    assert avq.probability_law(900.0, 1000.0) == pytest.approx(0.1) and avq.probability_law(1000.0, 900.0) == 0.0


def held(share):
    return share


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"w": State(held, "rtt")}, r"states of Keeps must have names that laws have for nothing else, got 'w'"),
        ({"share": State(held, "ack")}, r"clock of state share of Keeps must be one of 'interval', .*, got 'ack'"),
        ({"share": State(held, "rtt", jumps={"ecn": held})}, r"jumps of state share of Keeps must be at .*, got 'ecn'"),
        ({"share": State(held, "rtt", 2.0, highest=1.0)}, r"initial of state share of Keeps must be from .* to 1"),
        ({"share": held}, r"states of Keeps must be State, got .* for share"),
    ],
)
def test_states_are_refused_in_one_line(states, message):
    with pytest.raises((ValueError, TypeError), match=message):
        states_of(type("Keeps", (NewReno,), {"states": states})())


def test_the_first_argument_of_a_discipline_is_its_own():
    assert StepMarking(65) == StepMarking(threshold=65.0)
    with pytest.raises(
        TypeError, match=r"^StepMarking must have at most 1 argument without a name \(threshold\), got 2"
    ):
        StepMarking(65, True)


@pytest.mark.parametrize(
    ("discipline", "note"),
    [
        (Policer(), "the rate of 1 Mb/s is 2 % of the capacity, 50 Mb/s"),
        (Policer(rate="5 Mb/s"), None),
        (Policer(rate="50 Mb/s"), "the rate of 50 Mb/s is not below the capacity, 50 Mb/s: it limits bursts only"),
        (CAKE(rate="50 Mb/s"), None),
        (CAKE(rate="60 Mb/s"), "the rate of the shaper, 60 Mb/s, exceeds the capacity, 50 Mb/s: it has no effect"),
        (REM(), "of 20 packets is a delay of 3.2 ms, short for RTTs of 100 ms and more"),
        (REM(reference=188.0), None),  # 30.1 ms
        (REM(reference=1250.0), None),
        (REM(reference=1260.0), "of 1260 packets is a delay of 201.6 ms, longer than all RTTs, which are up to 200 ms"),
    ],
    ids=str,
)
def test_parameters_that_do_not_fit_a_link_have_a_note(discipline, note):
    """In runs, with the links that have such a discipline; flow 0 has an RTT of 200 ms, and flow 1 of 100 ms."""
    notes = discipline.network_notes(Network.dumbbell(50e6, rtts=[0.2, 0.1]))
    assert len(notes) == (note is not None) and all(note in found for found in notes)
    net = Network.parking_lot(["50 Mb/s"] * 2, delay="50 ms", packet_size=1000)
    links = {k: discipline for k in range(2)}
    run = simulate(Scenario(net, {"flows": NewReno(), "links": links}, 0.1))
    found = [line for line in run.notes if line.startswith(type(discipline).__name__)]
    assert found == [f"{type(discipline).__name__}: {text} (link 0 and 1 other)" for text in notes]
