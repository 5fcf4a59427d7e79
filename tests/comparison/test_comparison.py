"""Fluid and packets side by side."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc.models import PIQIRCP, QIRCP, RCP, ConstantRate, NewReno
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Network
from ecc.traffic.workload import Workload


def test_runs_that_agree_do_not_part():
    network = Network.dumbbell("100 Mb/s", rtts=[0.12, 0.05], starts=[0.0, 5.0])
    done = []
    found = ecc.compare(ecc.Scenario(network, RCP(), 15.0), progress=done.append)
    assert found.agrees and found.table["first_discrepancy"].isna().all()
    assert found.table["series"].tolist() == ["rate", "rate", "queue"]
    rates = found.table.iloc[:2]
    assert rates["packet"].to_numpy() == pytest.approx(found.packet.rate.to_numpy().mean(axis=0), rel=1e-12)
    assert rates["fluid"].to_numpy() == pytest.approx(found.fluid.rate.to_numpy().mean(axis=0), rel=1e-12)
    assert done == sorted(done) and done[-1] == 1.0


def test_where_they_part_is_found():
    # packets so long that a newcomer sends few of them in an RTT: one more or less counts, which no fluid knows
    network = Network.dumbbell("100 Mb/s", rtts=[0.12] * 51, starts=[0.0] + [5.0] * 50, packet_size=4000)
    scenario = ecc.Scenario(network, PIQIRCP(), 15.0)
    found = ecc.compare(scenario)
    row = found.table.iloc[-1]
    assert not found.agrees and row["series"] == "queue"
    assert 5.0 < row["first_discrepancy"] <= row["at"] < 12.0
    a, b = (run.queue.to_numpy()[:, 0] for run in (found.packet, found.fluid))
    time = found.packet.data["time"].to_numpy()
    last = np.flatnonzero(np.isclose(time, row["at"]))[0]
    assert (a - b)[last - 9 : last + 1].mean() == pytest.approx(row["largest"], rel=1e-9)
    assert 0.0 < row["discrepancy"] < 1.0
    figure = found.plot()
    names = [trace.name for trace in figure.data]
    assert names[:3] == [f"51 flows, packets: {of}" for of in ("all", "10 to 90 %", "median")]
    assert names[6:] == ["link 0, packets", "link 0, fluid"] and len(figure.layout.shapes) >= 2
    assert "packets and fluid" in figure.layout.title.text
    assert "<table" in found._repr_html_()
    # with a tolerance that nothing exceeds they agree
    wide = ecc.compare(scenario, tolerance=10.0)
    assert wide.agrees and not wide.plot().layout.shapes


def test_slow_sources_update_when_their_acks_come():
    # newcomers of long RTTs begin with a packet an RTT: updates come with its ACKs, the first with the probe's
    network = Network.dumbbell("100 Mb/s", rtts=[0.12, 0.3], starts=[0.0, 5.0])
    for update in ("interval", "ack", "rtt"):
        table = ecc.compare(ecc.Scenario(network, PIQIRCP(update=update), 12.0)).table
        assert table.loc[table["series"] == "rate", "first_discrepancy"].isna().all()


def test_equilibrium_recurrence_and_linear_models_are_compared_by_phase():
    network = Network.dumbbell("20 Mb/s", rtts=[0.05, 0.2], starts=[0.0, 15.0])
    found = ecc.compare(ecc.Scenario(network, QIRCP(), 30.0))
    assert [tuple(phase.active) for phase in found.phases] == [(0,), (0, 1)]
    for phase, models in zip(found.phases, found.linear, strict=True):
        assert set(phase.rate) == {"packets", "fluid", "recurrence"}
        for rates in phase.rate.values():
            assert rates == pytest.approx(phase.equilibrium.rates, rel=0.02)
        assert set(models) == {"continuous", "discrete", "hybrid"} and all(one.is_stable for one in models.values())
    assert found.disagreements.empty and not found.refused
    assert repr(found).startswith("<Comparison of QIRCP: packets and fluid ")
    # what is wrong beside a verdict is told: RCP's unconstrained queue
    told = ecc.compare(ecc.Scenario(network, RCP(), 30.0))
    assert set(told.disagreements["quantity"]) == {"stability"}
    assert any("linear model unstable, but converged in packets, fluid, recurrence" in note for note in told.notes)
    assert "linear model unstable" in told._repr_html_()


def test_a_start_at_the_equilibrium_is_one_phase():
    network = Network.dumbbell("20 Mb/s", rtts=[0.05, 0.2], starts=[0.0, 15.0])
    found = ecc.compare(ecc.Scenario(network, QIRCP(alpha=2.5), 30.0), start="equilibrium", perturbation=0.05)
    (phase,) = found.phases
    assert tuple(phase.active) == (0, 1)
    assert found.recurrence.data.attrs["time"] == "discrete"


def test_what_a_scenario_does_not_have_is_refused_by_name():
    network = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1])
    sized = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1], sizes=[10_000_000, None])
    beside = {"flows": {0: RCP(), 1: ConstantRate("1 Mb/s")}}
    lossy = [RandomLoss(0.001, link=0)]
    for scenario, why in (
        (ecc.Scenario(sized, RCP(), 20.0), "the scenario has flows that end when they have sent their size"),
        (ecc.Scenario(network, beside, 20.0), "the scenario has several protocols"),
        (ecc.Scenario(network, RCP(), 20.0, impairments=lossy), "the scenario has impairments"),
        (ecc.Scenario(network, NewReno(), 20.0), "NewReno has no equilibrium"),
    ):
        found = ecc.compare(scenario)
        assert found.refused["equilibrium"].startswith(why) and found.refused["linear"].startswith(why)
        assert ("recurrence" in found.refused) == (found.recurrence is None)
        assert all(phase.equilibrium is None for phase in found.phases)


def test_bad_input():
    scenario = ecc.Scenario(Network.dumbbell("10 Mb/s", rtts=[0.1]), RCP(), 2.0)
    with pytest.raises(ValueError, match=r"window must be >= the sample \(0.1 s\), got 0.01 s"):
        ecc.compare(scenario, window=0.01)
    with pytest.raises(ValueError, match="tolerance must be > 0"):
        ecc.compare(scenario, tolerance=0.0)
    with pytest.raises(ValueError, match="workload must be None for a fluid run"):
        ecc.compare(scenario.with_(workload=Workload([Flow([0], size=1000)])))
