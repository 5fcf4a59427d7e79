"""Packets, fluids and linear models of every protocol on one network of three bottlenecks."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import ecc
from ecc._support.display import first_notes
from ecc.comparison.agreement import growth_rate
from ecc.models import EMKC, EMKCAVQ, MKC, Kelly, MaxNet, all_protocols
from ecc.network.network import Network
from ecc.scenario import Scenario

_SPEC = spec_from_file_location("engines_agree", Path(__file__).parents[2] / "benchmarks" / "engines_agree.py")
suite = module_from_spec(_SPEC)
_SPEC.loader.exec_module(suite)

PHASE = 120.0
QUICK = {"RCP", "RCP-1", "QI-RCP", "MKC"}
AGREEING = {"RCP", "RCP-1", "RCP-2", "RCP, stamped on arrival", "QI-RCP", "PIQI-RCP", "PIQI-RCP, by ACK", "MKC"}
"""Rates of packets, fluid, recurrence (where there is one) and equilibrium at the end of every phase within 5 %."""
every_protocol = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in suite.PROTOCOLS]
)
ALIKE = {"Compound", "BIC", "FAST", "ABC", "UTIL"}
"""Windows like those of CUBIC, of Vegas, of VCP and of EDN."""
FIRST = set({type(protocol): name for name, protocol in reversed(suite.PROTOCOLS.items())}.values()) - ALIKE
"""One variant of each other class: CI runs the rest from a perturbed equilibrium, in a fraction of the time."""


def test_every_protocol_is_in_the_suite():
    elsewhere = {
        "TIMELY",
        "PatchedTIMELY",
        "DCQCN",
        "HPCC",
        "ExpressPass",
        "SPERC",
    }  # tests/models/test_timely.py, test_dcqcn.py
    elsewhere |= {"PowerTCP", "ThetaPowerTCP", "NSCC", "BBR", "BBRv1", "BBRv2", "Prague", "Vivace", "C4", "NADA", "GCC"}
    elsewhere |= {"SCReAM"}  # tests/models/test_scream.py
    elsewhere |= {"Aurora", "Orca"}  # tests/models/test_policies.py
    assert {type(protocol).__name__ for protocol in suite.PROTOCOLS.values()} == set(all_protocols()) - elsewhere


def late_rates(run, begin, end):
    time = run.data["time"].to_numpy()
    return run.rate.to_numpy()[(time > end - 0.25 * (end - begin)) & (time <= end)]


UNEXPLAINED = {"PEDN"}
"""Those that differ from their equilibrium for a reason that is not known (docs/fluid_against_packets.md)."""


def check_reports(found, phases, unexplained=False):
    """What differs in the series is a row of the comparison, and a line of its notes: with a cause, or without."""
    rows = found.disagreements
    for begin, end, active in phases:
        of_phase = rows[rows["begin"] == begin]
        packets, fluid = (late_rates(run, begin, end).mean(axis=0) for run in (found.packet, found.fluid))
        for flow in active:
            a, b = packets[flow], fluid[flow]
            if abs(a - b) > 0.05 * max(a, b) + 8000.0 / (0.25 * (end - begin)):
                told = of_phase[(of_phase["quantity"] == "rate") & (of_phase["index"] == flow)]
                assert "fluid" in set(told["second"])
                assert any(f"{begin:g} to {end:g} s, rate of flow" in note for note in found.notes)
    for phase, models in zip(found.phases, found.linear, strict=True):
        rates = late_rates(found.packet, phase.begin, phase.end)[:, phase.active]
        smooth = np.array([np.convolve(x, np.full(4, 0.25), "valid") for x in rates.T])
        moves = float((np.ptp(smooth, axis=1) / smooth.mean(axis=1)).max())
        of_phase = rows[(rows["begin"] == phase.begin) & (rows["quantity"] == "stability")]
        for time, model in models.items():
            if isinstance(model, str) or model.verdict == "undecided":
                continue
            if abs(growth_rate(model)) * (phase.end - phase.begin) < 3.0:
                continue
            told = set(of_phase.loc[of_phase["first"] == time, "second"])
            if (model.is_stable and moves > 0.3) or (not model.is_stable and moves < 0.04):
                assert "packets" in told
            elif not model.is_stable and moves > 0.3:
                assert "packets" not in told
    assert unexplained == any("no cause found" in note for note in found.notes)
    assert repr(found).splitlines()[1:] == [f"note: {note}" for note in first_notes(found.notes)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.extensive) for name in suite.PROTOCOLS]
)
def test_disagreements_on_three_bottlenecks_are_reported(name):
    found = suite.compared(name)
    assert [phase.begin for phase in found.phases] == [0.0, PHASE, 2 * PHASE, 3 * PHASE]
    active = [(0, 2), (0, 1, 2, 4), (0, 1, 2, 3, 4, 5), (0, 2, 3, 5)]
    assert [tuple(phase.active) for phase in found.phases] == active
    check_reports(found, [(k * PHASE, (k + 1) * PHASE, flows) for k, flows in enumerate(active)], name in UNEXPLAINED)
    rates = found.disagreements[found.disagreements["quantity"] == "rate"]
    if name in AGREEING:
        assert rates.empty
        for phase in found.phases:
            assert phase.rate["packets"] == pytest.approx(phase.equilibrium.rates, rel=0.02)
            assert phase.rate["fluid"] == pytest.approx(phase.equilibrium.rates, rel=2e-3)


@pytest.mark.slow
@every_protocol
def test_disagreements_about_a_perturbation_are_reported(name):
    try:
        found = suite.compared(name, perturbed=True)
    except (ecc.errors.EccError, ValueError) as error:
        assert any(
            reason in str(error)
            for reason in ("no equilibrium", "equilibrium is known", "no packet runs from the equilibrium")
        )
        return
    check_reports(found, [(0.0, 120.0, range(6))])
    if name in AGREEING:
        assert not (found.disagreements["quantity"] == "rate").any()


@pytest.mark.parametrize(
    "protocol", [MKC(), EMKC(), EMKCAVQ(), Kelly(omega=1e6), MaxNet()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("packet_size", [500, 1500])
def test_flows_open_alike_in_fluid_and_packets(protocol, packet_size):
    network = Network.dumbbell("100 Mb/s", rtts=[0.5], packet_size=packet_size)
    scenario = Scenario(network, protocol, 0.5)
    sent = [float(engine.simulate(scenario, sample=0.5).rate[0, 0]) for engine in (ecc.packet, ecc.fluid)]
    least = 8.0 * packet_size / 0.5
    assert sent[1] == pytest.approx(max(least, protocol.opening_rate(0.5, 8.0 * packet_size)), rel=1e-3)
    assert sent[0] == pytest.approx(sent[1], abs=least)  # a packet


@pytest.mark.slow
def test_a_clock_of_their_own_does_not_wait_for_acks():
    """Kelly's hosts step every interval, however few packets they send."""
    network = Network.parking_lot(["6 Mb/s", "9 Mb/s"], access_delay=0.4)
    for kappa, is_stable in ((0.01, True), (0.03, False)):
        protocol = Kelly(kappa=kappa, omega=0.3e6)  # of the long flow less than a packet an interval
        assert ecc.linearize(protocol, network, "discrete").is_stable is is_stable
        rates = protocol.equilibrium(network).rates
        assert rates[0] * protocol.interval < 8000.0
        for engine in (ecc.packet, ecc.fluid):
            scenario = Scenario(network, protocol, 80.0)
            run = engine.simulate(scenario, sample=4.0, start="equilibrium", perturbation=0.1)
            off = np.abs(run.rate.to_numpy() / rates - 1.0).max(axis=1)
            assert bool(off[-5:].max() < 0.07) == is_stable, engine


def test_windows_of_segments_count_segments():
    """MaxNet's integral goes by what ACKs acknowledge, so that runs hardly depend on the size of packets."""
    found = []
    for packet_size in (500, 1000, 1500):
        network = Network.dumbbell("8 Mb/s", rtts=[1.0], packet_size=packet_size)
        scenario = Scenario(network, MaxNet(), 30.0)
        found.append([float(engine.simulate(scenario, sample=1.0).rate[-1, 0]) for engine in (ecc.packet, ecc.fluid)])
    packets, fluid = np.transpose(found)
    assert fluid == pytest.approx(fluid[0], rel=1e-6)
    assert (packets > 0.7 * fluid).all() and (packets < fluid).all()  # of a window, whole packets are sent
