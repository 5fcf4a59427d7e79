"""Fluid runs beside what heeds no router: constant rates and random losses."""

from __future__ import annotations

import pytest

import ecc
from ecc.fluid import simulate
from ecc.impairments import CapacitySchedule, RandomLoss
from ecc.models import PIQIRCP, RCP, XCP, ConstantRate, JetMax
from ecc.network import Flow, Link, Network
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
    # what is sent is delivered or lost, but for what is under way
    sent = rates.sum(axis=0) / 8.0
    arrived = run.flows["delivered"].to_numpy() + run.flows["lost"].to_numpy()
    assert arrived == pytest.approx(sent, rel=2e-2)
    assert run.flows["lost"].to_numpy() == pytest.approx([0.1, 0.2] * sent, rel=2e-2)


def test_proposals_keep_queues_short():
    # newcomers are there at once, and the first flow sends on for half a second
    network = Network.dumbbell("1 Gb/s", rtts=[0.5] + [0.05] * 3, starts=[0.0] + [10.0] * 3)
    asked, taken = (simulate(Scenario(network, JetMax(proposed_rate=p), 30.0)) for p in (True, False))
    assert float(asked.queue_max.max()) < 0.02 * float(taken.queue_max.max())
    assert asked.rate.to_numpy()[-1] == pytest.approx(250e6, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"impairments": [CapacitySchedule(0, [1.0], ["5 Mb/s"])]}, "impairments must be RandomLoss for a fluid run"),
        ({"impairments": [RandomLoss(0.1, link=0, kind="ack")]}, "kind must be 'data' or 'all' for a fluid run"),
        ({"protocol": {"flows": {"0-1": RCP(), 2: XCP()}}}, "protocol must be one Protocol, maybe beside ConstantRate"),
        ({"protocol": ConstantRate("1 Mb/s")}, "protocol must be one Protocol, maybe beside ConstantRate"),
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
    with pytest.raises(ValueError, match="flows of ConstantRate belong to rates and time='continuous'"):
        simulate(beside, time="discrete")
    with pytest.raises(ValueError, match="start must be 'empty' for a fluid run beside flows of ConstantRate"):
        simulate(beside, start="equilibrium")
