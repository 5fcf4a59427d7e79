"""Window hosts over queue disciplines as fluid: every pair, what theory says of one probability, and packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.contract.forms import Queues
from ecc.contract.states import State
from ecc.fluid import simulate
from ecc.models import BIC, FAST, XCP, NewReno, Protocol, Vegas
from ecc.network.network import Flow, Link, Network
from ecc.queues import AVQ, PI, PI2, PIE, RED, REM, DropTail, Policer, StepMarking, all_disciplines
from ecc.queues.discipline import QueueDiscipline, congested_at_random
from ecc.scenario import Scenario

PACKETS_ONLY = {
    "COBALT": "BLUE counts single packets",
    "GSP": "it chooses a single packet",
    "CAKE": "its shaper, turns and ACK filter act on single packets",
}
"""Disciplines without a fluid, and the reasons that they declare."""
CHOOSING = [
    cls for name, cls in all_disciplines().items() if "mark" in cls.__dataclass_fields__ and name not in PACKETS_ONLY
]
HOSTS = [cls(ecn=ecn) for cls in (NewReno, BIC, Vegas, FAST) for ecn in (False, True)]


def network(n_flows: int = 4, capacity: str = "10 Mb/s", rtt: float = 0.05) -> Network:
    starts = list(0.02 * np.arange(n_flows))
    return Network.dumbbell(capacity, rtts=[rtt] * n_flows, packet_size=1000, buffer=300_000, starts=starts)


def scenario(host: Protocol, discipline: Protocol, duration: float, given: Network | None = None) -> Scenario:
    protocol = {"flows": {"default": host}, "links": {"default": discipline}}
    return Scenario(network() if given is None else given, protocol, duration, seed=3)


@pytest.mark.parametrize("signals", ["rate", "random"])
@pytest.mark.parametrize(
    "host",
    [NewReno(ecn=True), *(pytest.param(host, marks=pytest.mark.slow) for host in HOSTS)],
    ids=str,
)
@pytest.mark.parametrize("cls", CHOOSING, ids=lambda cls: cls.__name__)
def test_every_host_over_every_discipline(cls, host, signals):
    """As in packets (tests/models/test_queue_disciplines.py): all flows deliver, and only hosts with ECN are marked.

    Tokens of a policer are 128 kB a flow, and trains that come after others find few of them."""
    found = simulate(scenario(host, cls(mark=True), 4.0), sample=0.1, signals=signals)
    assert found.is_complete
    policed = cls is Policer and not host.ecn
    assert (found.flows["delivered"] > (40_000 if policed else 100_000)).all()
    if policed:
        assert 0.95 < float(found.flows["delivered"].sum()) / (cls().burst + cls().rate / 8.0 * 4.0) <= 1.0
    assert (float(found.marks.sum()) > 0) <= host.ecn
    chosen = float(found.marks.sum() + found.drops.sum())
    assert 0.0 <= chosen < float(found.arrival.sum()) * 0.1 / 8000
    assert chosen > 0.0 or isinstance(host, Vegas)  # a few packets in the queue may be none too many
    assert float(found.queue_max.max()) <= 300_000


@pytest.mark.parametrize("name", PACKETS_ONLY)
def test_disciplines_of_packets_alone_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} has no fluid model: {PACKETS_ONLY[name]}"):
        simulate(scenario(NewReno(ecn=True), all_disciplines()[name](mark=True), 4.0))


@dataclass(frozen=True)
class Constant(QueueDiscipline):
    """A discipline of a user's: one probability."""

    probability: float = 0.01
    required_env = frozenset({"random"})

    @staticmethod
    def probability_law(p: Any) -> float:
        return p.probability

    def link_hooks(self) -> dict[str, Any]:
        return {"on_arrival": chosen_at_random}


def chosen_at_random(link: Any, header: Any, p: Any, env: Any) -> None:
    congested_at_random(p.probability, p, env)


@pytest.mark.parametrize(
    ("probabilities", "mark", "factor"), [((0.01,), True, 1.0), ((0.01,), False, 0.99), ((0.006, 0.01), True, 1.0)]
)
def test_a_window_at_a_mean_rate_is_that_of_the_probability(probabilities, mark, factor):
    """Misra, Gong, Towsley 2000: w = s sqrt(2/p), of several links p = 1 - prod(1 - p); of drops ACKs are fewer."""
    links = [Link("1 Gb/s", "20 ms", buffer="10 MB") for _ in probabilities]
    flows = [Flow(list(range(len(links))), access_delay=0.01, packet_size=1000)]
    protocol = {
        "flows": {"default": NewReno(ecn=mark)},
        "links": {k: Constant(probability=p, mark=mark) for k, p in enumerate(probabilities)},
    }
    found = simulate(Scenario(Network(links, flows), protocol, 60.0), sample=0.5, record=["env.window"])
    p = 1.0 - float(np.prod([1.0 - one for one in probabilities]))
    assert float(found.data["env.window"][-20:].mean()) == pytest.approx(1000 * sqrt(2.0 * factor / p), rel=0.005)
    signals = found.marks if mark else found.drops
    packets = found.arrival.sum(axis=0) * 0.5 / 8000
    assert (signals.sum(axis=0) / packets).to_numpy() == pytest.approx(list(probabilities), rel=0.01)


@pytest.mark.slow
def test_windows_that_jump_at_random_have_the_mean_of_packets():
    """The fluid lacks what its mean over jumps adds (w^2 = 2 s^2/p, not 1.5 s^2/p), and waits an RTT as packets do."""
    given = Network.dumbbell("1 Gb/s", rtts=[0.1] * 40, packet_size=1000, buffer="10 MB")
    case = scenario(NewReno(ecn=True, transport="sack"), Constant(probability=0.002, mark=True), 60.0, given)
    packets = ecc.packet.simulate(case, sample=1.0)
    at_random, at_rate = (simulate(case, sample=1.0, signals=signals) for signals in ("random", "rate"))
    sent, random, rate = (float(one.rate[20:].sum(axis=1).mean()) for one in (packets, at_random, at_rate))
    assert random == pytest.approx(sent, rel=0.04)
    assert 1.06 < rate / sent < 1.25


WIDE = RED(min_threshold=20, max_threshold=200, p_max=0.02, weight=0.0005)


@pytest.mark.parametrize("mark", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "discipline", [PIE(), WIDE, *(pytest.param(one, marks=pytest.mark.slow) for one in (PI(), PI2(), REM()))], ids=str
)
def test_queue_and_utilization_are_those_of_packets(discipline, mark):
    """Packets leave windows that are whole packets: half a packet a flow, of 70, is 0.7 % of a window, 1.4 % of p."""
    case = scenario(
        NewReno(ecn=mark, transport="sack"), replace(discipline, mark=mark), 90.0, network(10, "50 Mb/s", 0.1)
    )
    packets, found = ecc.packet.simulate(case, sample=1.0), simulate(case, sample=1.0, signals="random")
    late = slice(40, None)
    assert float(found.queue[late].mean()) == pytest.approx(float(packets.queue_mean[late].mean()), rel=0.15)
    used, usual = (float(one.goodput[late].sum(axis=1).mean()) / 5e7 for one in (found, packets))
    assert used == pytest.approx(usual, abs=0.02)
    share, expected = (
        float((one.marks + one.drops)[late].sum() / (one.arrival[late].sum() / 8000)) for one in (found, packets)
    )
    events = expected * float(packets.arrival[late].sum() / 8000)
    assert share == pytest.approx(expected, rel=0.05 + 3.0 * sqrt(2.0 / events))  # both are counted, 100 to 150


@pytest.mark.slow
def test_avq_has_the_utilization_that_is_wanted_without_its_virtual_buffer():
    """The law takes the virtual queue for full: what it lets pass in packets is missing in the queue."""
    case = scenario(NewReno(ecn=True), AVQ(mark=True, gamma=0.9), 60.0, network(30, rtt=0.1))
    found = simulate(case, sample=1.0)
    assert float(found.arrival[30:].mean()) / 1e7 == pytest.approx(0.9, rel=0.03)


def test_red_averages_the_queue_and_marks_by_the_average():
    discipline = RED(min_threshold=10, max_threshold=100, mark=True)
    case = scenario(NewReno(ecn=True), discipline, 60.0, network(20, rtt=0.1))
    found = simulate(case, sample=1.0, record=["link.average"])
    average, queue = found.data["link.average"][30:, 0].to_numpy(), found.queue[30:, 0].to_numpy() / 1000
    assert average.mean() == pytest.approx(queue.mean(), rel=0.02)
    p_b = 0.1 * (average - 10.0) / 90.0
    shares = found.marks[30:, 0].to_numpy() / (found.arrival[30:, 0].to_numpy() / 8000)
    assert shares.mean() == pytest.approx((2.0 * p_b / (1.0 + p_b)).mean(), rel=0.02)


def test_all_is_marked_above_a_threshold_and_windows_halve_once():
    """One flow over a step: between W and W/2, as in packets; the queue goes little beyond the threshold."""
    given = Network.dumbbell("10 Mb/s", rtts=[0.05], packet_size=1000, buffer=300_000)
    case = scenario(NewReno(ecn=True), StepMarking(threshold=20.0), 40.0, given)
    found, packets = simulate(case, sample=0.05, record=["env.window"]), ecc.packet.simulate(case, sample=0.05)
    window = found.data["env.window"][200:, 0].to_numpy()
    assert window.min() == pytest.approx(0.5 * window.max(), rel=0.05)
    assert window.max() == pytest.approx(1000 * (62.5 + 20.0), rel=0.03)
    late = slice(200, None)
    assert float(found.queue[late].mean()) == pytest.approx(float(packets.queue_mean[late].mean()), rel=0.15)


@dataclass(frozen=True)
class AllClocks(QueueDiscipline):
    """States of all clocks that a queue may have, in closed form."""

    interval: float = 0.01

    @staticmethod
    def probability_law(level: float) -> float:
        return 1e-3 * level

    @property
    def states(self) -> Mapping[str, State]:
        return {
            "ticks": State(one_more, "interval", highest=1e6),
            "packets": State(one_more_packet, "arrival", highest=1e9),
            "level": State(relaxing, "continuous", start_of, lowest=0.0, highest=1.0),
        }

    def link_hooks(self) -> dict[str, Any]:
        return {"on_arrival": chosen_at_random}


def one_more(ticks: float) -> float:
    return ticks + 1.0


def one_more_packet(packets: float) -> float:
    return packets + 1.0


def relaxing(level: float) -> float:
    return 0.5 - level


def start_of(C: float) -> float:
    return 1.0 if C == 1250.0 else 0.0


def test_states_move_by_their_clocks():
    case = scenario(NewReno(ecn=True), AllClocks(mark=True), 3.0)
    found = simulate(case, sample=0.5, record=["link.ticks", "link.packets", "link.level"])
    assert float(found.data["link.ticks"][-1, 0]) == pytest.approx(300, abs=2)
    arrived = float(found.arrival.sum()) * 0.5 / 8000
    assert float(found.data["link.packets"][-1, 0]) == pytest.approx(arrived, rel=1e-3)  # and a trickle
    assert float(found.data["link.level"][-1, 0]) == pytest.approx(0.5 + 0.5 * exp(-3.0), abs=2e-4)


@dataclass(frozen=True)
class AsksForMore(QueueDiscipline):
    @staticmethod
    def probability_law(q: float, d: float) -> float:
        return q / d

    def link_hooks(self) -> dict[str, Any]:
        return {"on_arrival": chosen_at_random}


class WithoutLaw(Constant):
    probability_law = None


class SeveralQueues(Constant):
    queues = Queues("priority", (1, 1))


class PacketsAlone(NewReno):
    router_law = source_law = None


class Unanswering(NewReno):
    loss_response_law = None


@pytest.mark.parametrize(
    ("host", "discipline", "options", "message"),
    [
        (NewReno(), WithoutLaw(), {}, "WithoutLaw has no fluid model: it has no probability_law"),
        (NewReno(), SeveralQueues(), {}, "SeveralQueues has no fluid model: it has a probability_law, and sev"),
        (NewReno(), AsksForMore(), {}, "AsksForMore has no fluid model: its probability law takes d; available"),
        (PacketsAlone(), Policer(), {}, "PacketsAlone has no fluid model: it has no router_law and no source_law"),
        (Unanswering(), PI(), {}, "Unanswering has no fluid model over PI: it has no loss_response_law"),
        (NewReno(), (PI(), RED()), {}, "link 0 must have the routers of NewReno for a fluid run"),
        (NewReno(), PI(), {"start": "middle"}, "start must be one of 'empty', 'equilibrium', got 'middle'"),
        (NewReno(), PI(), {"signals": "always"}, "signals must be one of 'rate', 'random', got 'always'"),
        (NewReno(), DropTail(), {"signals": "random"}, "signals must be 'rate' if no link has a queue discipline"),
        (XCP(), (XCP(), PI()), {}, "link 0 must have the routers of XCP for a fluid run"),
        (NewReno(), PI(), {"record": ["link.average"]}, r"states of this fluid \(env.window, link.prob\)"),
    ],
)
def test_what_a_fluid_does_not_have_is_refused_in_one_line(host, discipline, options, message):
    with pytest.raises(ValueError, match=message):
        simulate(scenario(host, discipline, 1.0), **options)


def test_compare_takes_hosts_over_disciplines():
    found = ecc.compare(scenario(NewReno(ecn=True), PIE(mark=True), 20.0, network(10, rtt=0.1)))
    assert found.fluid.is_complete and found.packet.is_complete
    assert float(found.fluid.marks.sum()) > 0


def test_drop_tail_changes_nothing():
    plain, named = Scenario(network(), NewReno(), 5.0), scenario(NewReno(), DropTail(), 5.0)
    assert simulate(plain).queue.equals(simulate(named).queue)
