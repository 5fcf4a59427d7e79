"""Several queues behind a link of a fluid, and disciplines that choose packets as they leave: shares, and packets."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ecc
from ecc.contract.forms import Queues
from ecc.fluid import simulate
from ecc.fluid.network.queues import serve_several
from ecc.models import NewReno, Protocol
from ecc.network.network import Flow, Link, Network
from ecc.queues import DRR, CoDel, DropTail, DualPI2, FQCoDel, StrictPriority
from ecc.queues.discipline import QueueDiscipline
from ecc.scenario import Scenario


def over(discipline: Protocol, network: Network, duration: float = 60.0, host: Protocol | None = None) -> Scenario:
    protocol = {"flows": {"default": host or NewReno()}, "links": {network.n_links - 1: discipline}}
    return Scenario(network, protocol, duration)


def goodput(run: Any) -> np.ndarray:
    """Mean of the last half."""
    return run.goodput.values[run.goodput.sizes["time"] // 2 :].mean(axis=0)


def utilization(run: Any, network: Network) -> float:
    return float(goodput(run).sum() / network.capacities[-1])


def mean_queue(run: Any) -> float:
    """Of the last link, in bytes."""
    return float(run.queue.values[run.queue.sizes["time"] // 2 :, -1].mean())


# ---- how queues share a link ---------------------------------------------------------------------------------------


def served(waits, incoming, quanta, capacity, buffer, by_priority=False, longest=True):
    """What a step serves and drops of each queue."""
    n = len(waits)
    shape = (n, 2)
    into, out, drops, total = (np.zeros(shape) for _ in range(4))
    into[:, 0], total[:, 1] = waits, capacity
    paths = SimpleNamespace(served=total, buffer=np.full(n, buffer))
    curves = SimpleNamespace(into=into, out=out, link_drops=drops, incoming=np.array(incoming, dtype=float))
    service = SimpleNamespace(
        first=np.array([0, n]),
        by_priority=np.array([int(by_priority)]),
        drops_longest=np.array([int(longest)]),
        quantum=np.array(quanta, dtype=float),
    )
    serve_several.py_func(paths, curves, service, 0, 1)
    return out[:, 1], drops[:, 1], into[:, 1] - out[:, 1]


AMOUNT = st.floats(0.0, 100.0)
QUEUES = st.lists(st.tuples(AMOUNT, AMOUNT, st.floats(0.1, 10.0)), min_size=1, max_size=6)


@given(QUEUES, AMOUNT, st.floats(0.0, 300.0), st.booleans(), st.booleans())
def test_a_link_serves_what_it_can_and_drops_what_it_has_no_room_for(queues, capacity, buffer, by_priority, longest):
    waits, incoming, quanta = map(np.array, zip(*queues, strict=True))
    out, drops, left = served(waits, incoming, quanta, capacity, buffer, by_priority, longest)
    demand = waits + incoming
    assert out.sum() == pytest.approx(min(capacity, demand.sum()), abs=1e-9)
    assert (out >= 0.0).all() and (out <= demand + 1e-9).all()
    assert (drops >= 0.0).all() and (drops <= incoming + 1e-9).all()
    excess = max(0.0, demand.sum() - out.sum() - buffer)
    if longest or excess == 0.0:  # what waits is not dropped
        room = np.minimum(incoming, demand - out)
        assert drops.sum() == pytest.approx(min(excess, room.sum()), abs=1e-9)
    assert left == pytest.approx(demand - out - drops, abs=1e-9)


@given(QUEUES, AMOUNT)
def test_queues_that_are_not_emptied_have_the_share_of_their_quanta(queues, capacity):
    waits, incoming, quanta = map(np.array, zip(*queues, strict=True))
    out, _, left = served(waits, incoming, quanta, capacity, np.inf)
    busy = left > 1e-9
    per_quantum = out / quanta
    for k in np.flatnonzero(busy):
        assert (per_quantum <= per_quantum[k] + 1e-9).all()  # nobody has more for its quantum


@given(QUEUES, AMOUNT)
def test_with_priority_one_is_served_when_those_before_it_are_empty(queues, capacity):
    waits, incoming, quanta = map(np.array, zip(*queues, strict=True))
    out, _, left = served(waits, incoming, quanta, capacity, np.inf, by_priority=True)
    for k in range(1, len(out)):
        assert out[k] <= 1e-9 or (left[:k] <= 1e-9).all()


# ---- hosts over them -----------------------------------------------------------------------------------------------


def test_one_class_is_a_queue_like_any_other():
    net = Network.dumbbell("10 Mb/s", rtts=[0.03, 0.07], buffer="80 kB")
    plain, one = simulate(over(DropTail(), net, 10.0)), simulate(over(DRR(weights=(2.0,)), net, 10.0))
    for name in ("queue", "queue_max", "goodput", "drops", "arrival"):
        assert plain[name].equals(one[name])


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0)])
def test_classes_have_the_share_of_their_weights_as_in_packets(weights):
    net = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05], buffer="100 kB")
    scenario = over(DRR(weights=weights), net)
    runs = [simulate(scenario), ecc.packet.simulate(scenario)]
    for run in runs:
        assert goodput(run) == pytest.approx(1e7 * np.array(weights) / sum(weights), rel=0.002)
    assert mean_queue(runs[0]) == pytest.approx(mean_queue(runs[1]), rel=0.05)
    assert runs[0].queue_max.max() <= 100_000
    by_class = [run.class_queue.values[300:].mean(axis=0) for run in runs]
    assert by_class[0] == pytest.approx(by_class[1], rel=0.1)
    for name in ("queue", "drops", "marks"):
        assert runs[0][f"class_{name}"].sum("class").values == pytest.approx(runs[0][name].values[:, 0], abs=1e-6)
    for name in ("class_link", "class_index"):
        assert runs[0].data[name].equals(runs[1].data[name])


@pytest.mark.slow
def test_the_first_class_takes_what_it_can_use():
    net = Network(
        [Link("4 Mb/s", "5 ms", buffer="50 kB"), Link("10 Mb/s", "5 ms", buffer="100 kB")], [Flow([0, 1]), Flow([1])]
    )
    scenario = over(StrictPriority(classes=(0, 1)), net)
    runs = [simulate(scenario), ecc.packet.simulate(scenario)]
    for run in runs:
        assert goodput(run) == pytest.approx([4e6, 6e6], rel=0.002)
    assert mean_queue(runs[0]) == pytest.approx(mean_queue(runs[1]), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("signals", ["rate", "random"])
@pytest.mark.parametrize(
    ("discipline", "ecn", "queue", "share"),
    [(CoDel(), False, 0.25, 0.015), (CoDel(mark=True), True, 0.25, 0.02), (DualPI2(), True, 0.15, 0.005)],
    ids=["CoDel", "CoDel, marks", "DualPI2"],
)
def test_disciplines_that_choose_what_leaves_are_as_in_packets(discipline, ecn, queue, share, signals):
    net = Network.dumbbell("50 Mb/s", rtts=[0.1] * 10, buffer="900 kB")
    scenario = over(discipline, net, host=NewReno(ecn=ecn))
    fluid, packet = simulate(scenario, signals=signals), ecc.packet.simulate(scenario)
    assert mean_queue(fluid) == pytest.approx(mean_queue(packet), rel=queue)
    assert utilization(fluid, net) == pytest.approx(utilization(packet, net), abs=share)
    chosen = "marks" if ecn else "drops"
    half = fluid[chosen].sizes["time"] // 2
    found = [float(run[chosen].values[half:].sum()) for run in (fluid, packet)]
    assert found[0] == pytest.approx(found[1], rel=0.2)


@pytest.mark.slow
def test_flows_with_queues_of_their_own_are_as_in_packets():
    """They start apart: fluid flows that are equal in all would lose at the same moments for ever."""
    net = Network.dumbbell("50 Mb/s", rtts=[0.1] * 10, buffer="900 kB", starts=list(1.3 * np.arange(10)))
    scenario = over(FQCoDel(), net)
    fluid, packet = simulate(scenario, signals="random"), ecc.packet.simulate(scenario)
    assert utilization(fluid, net) == pytest.approx(utilization(packet, net), abs=0.01)
    assert goodput(fluid) == pytest.approx(np.full(10, goodput(fluid).mean()), rel=0.03)
    assert mean_queue(fluid) + 10 * 500 == pytest.approx(mean_queue(packet), rel=0.3)  # half a packet in each queue


@dataclass(frozen=True)
class DropOld(QueueDiscipline):
    """A discipline of a user's: what has waited too long is dropped."""

    limit: float = 0.02

    def link_hooks(self) -> dict[str, Any]:
        return {"on_dequeue": drop_old}


def drop_old(link: Any, header: Any, p: Any, env: Any) -> None:
    if env.sojourn > p.limit:
        env.drop = 1


def test_a_discipline_of_a_users_runs_by_its_hook_and_all_that_is_sent_is_somewhere():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.08], buffer="900 kB")
    run = simulate(over(DropOld(), net, 20.0), record=["env.window"])
    assert run.queue_max.values[50:].max() < 1e7 / 8 * 0.02 * 1.2 + 1500  # after slow start, which brings more at once
    delivered, lost = run.flows["delivered"].sum(), run.flows["lost"].sum()
    assert lost == pytest.approx(float(run.drops.sum()) * 1000, rel=1e-6)
    sent = float(run.rate.sum()) * 0.1 / 8
    assert 0.0 <= sent - delivered - lost < 1e7 / 8 * (0.08 + 0.03)


class AsksForTheQueue(DRR):
    def link_hooks(self) -> dict[str, Any]:
        return {"on_classify": by_queue}


def by_queue(link: Any, header: Any, p: Any, env: Any) -> None:
    env.queue_index = 0 if env.queue < 1000 else 1


class Beyond(DRR):
    def link_hooks(self) -> dict[str, Any]:
        return {"on_classify": beyond}


def beyond(link: Any, header: Any, p: Any, env: Any) -> None:
    env.queue_index = 2


class WatchesArrivals(DropOld):
    queues = Queues("priority", (1, 1))

    def link_hooks(self) -> dict[str, Any]:
        return {"on_dequeue": drop_old, "on_arrival": drop_old}


@pytest.mark.parametrize(
    ("discipline", "message"),
    [
        (
            AsksForTheQueue(),
            "AsksForTheQueue has no fluid model: its on_classify may read env.flow, env.kind and env.ecn",
        ),
        (Beyond(), "queue_index of Beyond must be from 0 to 1, got 2 for flow 0"),
        (
            WatchesArrivals(),
            "WatchesArrivals has no fluid model: fluid runs support the hooks on_classify, on_dequeue, on_interval, "
            "got on_arrival",
        ),
    ],
)
def test_what_a_fluid_does_not_have_is_refused_in_one_line(discipline, message):
    with pytest.raises(ValueError, match=message):
        simulate(over(discipline, Network.dumbbell("10 Mb/s", rtts=[0.05])))
