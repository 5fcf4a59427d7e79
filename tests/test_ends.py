"""Runs and linear models say when the bottlenecks that a verdict rests on are not those that runs come to."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
import ecc.fluid
import ecc.packet
from ecc.loops.closed_loop import linearize
from ecc.models import QIRCP, RCP, JetMax
from ecc.scenario import notes_at_end

CAVEAT = "a run may not reach this assignment"


def three_bottlenecks(starts=(6.0, 4.0, 10.0, 8.0, 0.0, 2.0)):
    links = [ecc.Link("100 Mb/s", "10 ms"), ecc.Link("80 Mb/s", "30 ms"), ecc.Link("60 Mb/s", "100 ms")]
    routes = [[0, 1, 2], [0], [1], [2], [0, 1], [1, 2]]
    return ecc.Network(links, [ecc.Flow(route, start=s) for route, s in zip(routes, starts, strict=True)])


def test_jetmax_may_starve_a_flow_and_the_run_says_so():
    """Its linear model is stable, with a rate of 20 Mb/s; by virtual loss flow 0 is left with 0.08 Mb/s."""
    net = three_bottlenecks()
    run = ecc.packet.simulate(ecc.Scenario(net, JetMax(), 60.0), sample=0.5)
    assert run.rate[-20:, 0].mean() < 0.1e6 and JetMax().equilibrium(net).rates[0] == pytest.approx(20e6)
    assert len(run.notes) == 1 and run.notes[0] in repr(run)
    assert run.notes[0].startswith(
        "flow 0 was steady at 0.08 Mb/s over the last 12 s, away from its equilibrium rate of 20"
    )
    calm = ecc.packet.simulate(ecc.Scenario(net, JetMax(bottleneck="rate"), 60.0), sample=0.5)
    assert calm.rate[-20:].mean("time").to_numpy() == pytest.approx(JetMax().equilibrium(net).rates, rel=0.01)
    assert calm.notes == ()


def test_the_linear_model_of_jetmax_says_that_runs_need_not_come_to_its_assignment():
    system = linearize(JetMax(), three_bottlenecks(), "discrete")
    assert system.is_stable and any(CAVEAT in note for note in system.notes)
    assert any(
        CAVEAT in note for note in ecc.stability.critical_gain(JetMax(), three_bottlenecks(), "tau", "discrete").notes
    )
    for protocol in (JetMax(bottleneck="rate"), JetMax(proposed_rate=False)):
        assert not any(CAVEAT in note for note in linearize(protocol, three_bottlenecks(), "discrete").notes)
    one = linearize(JetMax(), ecc.Network.dumbbell("100 Mb/s", [0.1, 0.2]), "discrete")
    assert not any(CAVEAT in note for note in one.notes), "no path has two bottlenecks"


@pytest.mark.parametrize("protocol", [QIRCP(), RCP(queue_term=False), JetMax(bottleneck="rate")])
def test_assignments_that_flows_would_leave_are_named(protocol):
    net = ecc.Network.parking_lot(["97 Mb/s", "80 Mb/s"])
    rtts = [0.1, 0.1]
    options = {"time": "discrete"} if isinstance(protocol, JetMax) else {"mean_rtt": rtts}
    usual = linearize(protocol, net, **options).notes
    notes = linearize(protocol, net, assignment=[0, 0, 1], **options).notes
    said = [note for note in notes if note not in usual]
    assert len(said) == 1 and len(notes) == len(usual) + 1
    assert said[0].startswith("flow 0 would choose link 1 instead of link 0 at this equilibrium")


def test_equal_bottlenecks_on_a_path_are_named():
    net = ecc.Network.parking_lot(["80 Mb/s", "80 Mb/s"])
    notes = linearize(QIRCP(), net, mean_rtt=[0.1, 0.1]).notes
    assert notes == (
        "flow 0 meets equal feedback at links 0 and 1, between which the loop switches: the verdict applies to flows "
        "with one of them fixed",
    )


def test_runs_at_their_equilibrium_have_no_note():
    net = ecc.Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="10 ms")
    run = ecc.fluid.simulate(ecc.Scenario(net, QIRCP(), 20.0), sample=0.1)
    assert run.notes == ()
    time, rate = run.data["time"].to_numpy(), run.rate.to_numpy()
    said = notes_at_end(ecc.Scenario(net, QIRCP(), 20.0), time, rate * np.array([0.5, 1.0, 1.4]))
    assert (
        len(said) == 1
        and said[0].startswith("flow 0 was steady at 19 Mb/s")
        and said[0].endswith("; so is 1 other by more than a quarter")
    )


def test_runs_that_cannot_be_compared_have_no_note():
    net = ecc.Network.dumbbell("10 Mb/s", [0.1, 0.1])
    time, rate = np.arange(0.1, 20.0, 0.1), np.full((199, 2), 1e6)
    assert len(notes_at_end(ecc.Scenario(net, QIRCP(), 20.0), time, rate)) == 1
    swinging = rate * (1.0 + 0.5 * (np.arange(199) > 180))[:, None]
    assert notes_at_end(ecc.Scenario(net, QIRCP(), 20.0), time, swinging) == ()
    assert notes_at_end(ecc.Scenario(net, QIRCP(), 20.0), time[:40], rate[:40]) == (), "too few samples"
    assert notes_at_end(ecc.Scenario(net, ecc.models.NewReno(), 20.0), time, rate) == (), "no equilibrium"
    late = ecc.Network.dumbbell("10 Mb/s", [0.1, 0.1], starts=[0.0, 18.0])
    assert notes_at_end(ecc.Scenario(late, QIRCP(), 20.0), time, rate) == (), "a flow has just begun"
    lossy = ecc.Scenario(net, QIRCP(), 20.0, impairments=[ecc.impairments.RandomLoss(0.1, link=0)])
    assert notes_at_end(lossy, time, rate) == ()
