"""Fluid runs beside what ignores routers: constant rates and random losses."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc.fluid import simulate
from ecc.fluid.network.groups import FluidNetwork
from ecc.models import EMKC, FAST, PIQIRCP, RCP, XCP, ConstantRate, JetMax, NewReno
from ecc.network.impairments import CapacitySchedule, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

BESIDE = Network.dumbbell("100 Mb/s", rtts=[0.1, 0.1, 0.05], starts=[0.0, 0.0, 5.0])


@pytest.mark.parametrize("protocol", [RCP(), PIQIRCP()], ids=["RCP", "PIQI-RCP"])
def test_constant_rates_leave_the_rest_as_in_packets(protocol):
    scenario = Scenario(BESIDE, {"flows": {"0-1": protocol, 2: ConstantRate("30 Mb/s")}}, 15.0)
    found = ecc.compare(scenario)
    assert found.agrees
    share = (protocol.params().get("gamma", 1.0) * 100e6 - 30e6) / 2.0
    assert found.fluid.rate.to_numpy()[-1] == pytest.approx([share, share, 30e6], rel=1e-2)


def test_random_losses_as_JETMAX_26_and_27_have_them():
    links = [Link("10 Mb/s", "20 ms"), Link("100 Mb/s", "10 ms"), Link("100 Mb/s", "10 ms")]
    network = Network(links, [Flow([1, 0], start=60.0), Flow([2, 0], access_delay=0.9)])
    losses = [RandomLoss(0.1, link=1), RandomLoss(0.2, link=2)]
    run = simulate(Scenario(network, JetMax(), 150.0, impairments=losses), sample=1.0)
    rates = run.rate.to_numpy()
    assert rates[30:60, 1] == pytest.approx(10e6 / 0.8, rel=1e-3)
    assert rates[120:] == pytest.approx(5e6 / 0.85, rel=1e-3)
    # what is sent is delivered or lost, except what is in flight
    sent = rates.sum(axis=0) / 8.0
    arrived = run.flows["delivered"].to_numpy() + run.flows["lost"].to_numpy()
    assert arrived == pytest.approx(sent, rel=2e-2)
    assert run.flows["lost"].to_numpy() == pytest.approx([0.1, 0.2] * sent, rel=2e-2)


def test_proposals_keep_queues_short():
    # newcomers are there at once, and the first flow sends on for half a second
    network = Network.dumbbell("1 Gb/s", rtts=[0.5] + [0.05] * 3, starts=[0.0] + [10.0] * 3)
    proposed, taken = (simulate(Scenario(network, JetMax(proposed_rate=p), 30.0)) for p in (True, False))
    assert float(proposed.queue_max.max()) < 0.02 * float(taken.queue_max.max())
    assert proposed.rate.to_numpy()[-1] == pytest.approx(250e6, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"impairments": [Jitter((0.0, 0.01), link=0)]},
            "impairments must be RandomLoss or CapacitySchedule for a fluid",
        ),
        ({"impairments": [RandomLoss(0.1, link=0, kind="ack")]}, "kind must be 'data' or 'all' for a fluid run"),
        (
            {"protocol": {"flows": {"0-1": RCP(), 2: XCP()}}},
            "protocol must be one Protocol, optionally with unresponsive flows",
        ),
        ({"protocol": ConstantRate("1 Mb/s")}, "protocol must be one Protocol, optionally with unresponsive flows"),
        (
            {"protocol": {"flows": {"0-1": RCP(), 2: ConstantRate("1 Mb/s")}, "links": {0: XCP()}}},
            "link 0 must have the routers of RCP for a fluid run",
        ),
    ],
)
def test_what_no_fluid_has_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        simulate(Scenario(BESIDE, RCP(), 10.0).with_(**change))


def test_what_only_equations_have_is_refused_elsewhere():
    beside = Scenario(BESIDE, {"flows": {"0-1": RCP(), 2: ConstantRate("1 Mb/s")}}, 10.0)
    with pytest.raises(ValueError, match="time must be 'continuous' or 'averaged' for a fluid run with unresponsive"):
        simulate(beside, time="discrete")
    with pytest.raises(
        ValueError, match="a fluid run with window protocols cannot have unresponsive flows: use a packet"
    ):
        simulate(beside.with_(protocol={"flows": {"0-1": NewReno(), 2: ConstantRate("1 Mb/s")}}))
    with pytest.raises(ValueError, match="start must be 'empty' for a fluid run with unresponsive flows"):
        simulate(beside, start="equilibrium")


def test_capacities_change_as_they_do_for_packets():
    network = Network.dumbbell("100 Mb/s", rtts=[0.12, 0.05])
    changes = CapacitySchedule(0, [6.0, 10.0], ["40 Mb/s", "150 Mb/s"])
    outage = CapacitySchedule(0, [8.0, 8.2], [0.0, "100 Mb/s"])
    for protocol in (RCP(), PIQIRCP()):
        for plan, until in ((changes, 16.0), (outage, 9.5)):
            found = ecc.compare(Scenario(network, protocol, until, impairments=[plan]), sample=0.05, window=0.5)
            peaks = [float(run.queue_max.max()) for run in (found.fluid, found.packet)]
            assert peaks[0] == pytest.approx(peaks[1], rel=0.05) and peaks[0] > 5e5
            assert found.agrees or plan is outage


def test_capacities_change_on_grids():
    network = Network.dumbbell("100 Mb/s", rtts=[0.12])
    plan = CapacitySchedule(0, [6.0, 9.0, 9.15], ["40 Mb/s", 0.0, "100 Mb/s"])
    for protocol, first, last in ((XCP(paced=True), 120, 180), (FAST(alpha=20.0), 180, 240)):  # a fall, and an outage
        found = ecc.compare(Scenario(network, protocol, 12.0, impairments=[plan]), sample=0.05)
        peaks = [float(run.queue_max.to_numpy()[first:last].max()) for run in (found.fluid, found.packet)]
        assert peaks[0] == pytest.approx(peaks[1], rel=0.03) and peaks[0] > 5e5


def test_bits_that_a_link_serves_are_those_of_its_schedule():
    plan = CapacitySchedule(0, [1.0, 2.0, 3.0], ["40 Mb/s", 0.0, "10 Mb/s"])
    fluid = FluidNetwork.of(Scenario(Network.dumbbell("100 Mb/s", rtts=[0.1]), RCP(), 5.0, impairments=[plan]))
    served, known = fluid.service([-1.0, 0.5, 1.5, 2.5, 4.0])
    assert served.tolist() == [[-100e6, 50e6, 120e6, 140e6, 150e6]]
    assert known.tolist() == [[100e6, 100e6, 40e6, 40e6, 10e6]]
    with pytest.raises(
        ValueError, match="schedules of capacities need time='continuous' or 'averaged', got 'discrete'"
    ):
        simulate(Scenario(BESIDE, RCP(), 5.0, impairments=[plan]), time="discrete")


def test_EMKC_under_a_full_buffer_rests():
    """A price is read as a packet comes to the queue, and is as old as the rate it is for (THESIS (2.13))."""
    network = Network([Link("10 Mb/s", "110 ms", 10**6)], [Flow([0]), Flow([0], access_delay=0.9, start=5.0)])
    run = simulate(Scenario(network, EMKC(), 300.0), sample=1.0)
    late = run.rate.to_numpy()[250:]
    assert np.all(run.queue.to_numpy()[250:] == 1e6) and np.all(np.ptp(late, axis=0) < 0.1e6)
    assert late.sum(axis=1) == pytest.approx(10.8e6, rel=2e-3)


@pytest.mark.parametrize("mice", ["unresponsive", "desired_rate"])
def test_mice_of_JetMax(mice):
    network = Network.dumbbell("100 Mb/s", rtts=[0.1] * 3, starts=[0.0, 5.0, 5.5], sizes=[None, 3 * 10**6, 10**5])
    found = ecc.compare(Scenario(network, JetMax(mice=mice), 10.0))
    times = [run.flows["completion_time"].to_numpy()[1:] for run in (found.fluid, found.packet)]
    assert times[0] == pytest.approx(times[1], abs=0.2)  # a packet's steps may be an interval of the router late
    assert (times[0][1] < 0.3) == (mice == "unresponsive")
    late = [run.rate.to_numpy()[55:60, 2].max() for run in (found.fluid, found.packet)]
    assert np.all(np.array(late) < 12e6)  # what the last one requests, or begins with
