"""Limits of linear models against runs on both sides: agreement, contradiction with the measured limit, refusals."""

from dataclasses import dataclass
from math import inf, isnan, pi

import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.loops.options import LinearOptions
from ecc.models import EMKCAVQ, FAST, PIQIRCP, QIRCP, RCP, XCP, JetMax
from ecc.network.network import Network
from ecc.stability import check_boundary
from ecc.stability.boundary_checks import RunSettings, rows_of_model

FINE = Network.dumbbell("100 Mb/s", rtts=[0.04, 0.04], packet_size=250)
ROOMY = QIRCP(gamma=0.8)


def row(table, time, engine):
    """Return the row of a model and an engine."""
    return table[(table["time"] == time) & (table["engine"] == engine)].iloc[0]


def test_the_fluid_of_each_time_loses_stability_at_the_limit_of_its_linear_model():
    table = check_boundary(ROOMY, FINE, times=["continuous", "discrete"], engines=["fluid"])
    assert table["agrees"].tolist() == [True, True] and table["fluid"].tolist()[1] == "discrete"
    assert table["limit"][0] == pytest.approx(pi / 2, rel=1e-6)
    assert table["status_below"].tolist() == ["stable"] * 2 and table["status_above"].tolist() == ["unstable"] * 2
    assert table["measured_below"].to_numpy() == pytest.approx(table["growth_below"].to_numpy(), rel=0.02)
    assert table["measured_limit"].isna().all() and (table["reason"] == "").all()


def test_granted_windows_run_paced_and_averaged_for_the_continuous_model():
    """Without a buffer: queues, which the model leaves out, would lengthen RTTs."""
    network = Network.dumbbell("10 Gb/s", rtts=[0.1, 0.1], buffer=1000)
    table = check_boundary(XCP(beta=0.0), network, times=["continuous"], engines=["fluid"])
    assert table["fluid"][0] == "averaged" and table["agrees"][0]
    assert table["limit"][0] == pytest.approx(pi / 2, rel=1e-6)


@pytest.mark.slow
def test_packets_that_contradict_a_model_have_the_limit_of_the_hybrid_model():
    """Routers act at ticks: delays that the discrete model rounds up, and holds that the continuous one leaves out."""
    table = check_boundary(ROOMY, FINE, engines=["packet"])
    hybrid = row(table, "hybrid", "packet")
    assert hybrid["agrees"] and hybrid["status_above"] == "unstable" and isnan(hybrid["measured_limit"])
    for time in ("continuous", "discrete"):
        measured = row(table, time, "packet")
        assert not measured["agrees"]
        assert measured["measured_limit"] == pytest.approx(hybrid["limit"], rel=0.02)


@pytest.mark.slow
def test_runs_that_stay_stable_far_above_a_limit_have_an_infinite_one():
    """With proposed rates, JetMax steps before its packets arrive, and does not overshoot as its recurrence does."""
    table = check_boundary(JetMax(), FINE, times=["discrete"], engines=["packet"])
    assert not table["agrees"][0] and table["measured_limit"][0] == inf
    assert table["reason"][0].startswith("runs are stable up to 3.7 times the limit")
    naive = check_boundary(JetMax(proposed_rate=False), FINE, times=["discrete"], engines=["packet"])
    assert naive["agrees"][0] and naive["limit"][0] == pytest.approx(2.0)


def test_without_a_limit_the_present_gain_is_run():
    table = check_boundary(FAST(alpha=200.0), FINE, times=["continuous"])
    assert (table["limit"] == inf).all() and table["agrees"].all()
    assert table["status_below"].tolist() == ["stable"] * 2 and (table["status_above"] == "").all()


def test_a_model_or_run_that_is_refused_does_not_lose_the_other_rows():
    table = check_boundary(ROOMY, FINE, times=["hybrid", "continuous"], engines=["fluid"])
    assert table["reason"][0] == "no fluid has the clocks of the hybrid model of QIRCP"
    assert table["agrees"].isna().tolist() == [True, False] and table["agrees"][1]

    @dataclass(frozen=True)
    class Half(QIRCP):
        """QI-RCP with only a discrete equilibrium."""

        def equilibrium(self, network, assignment=None):
            raise LinearizationError("Half has no equilibrium here")

    refused = check_boundary(Half(), FINE, engines=["fluid"])
    assert len(refused) == 3 and refused["agrees"].isna().all()
    assert refused["reason"][0] == "no limit of the continuous model: Half has no equilibrium here"


def test_a_gain_that_must_be_large_has_no_limit_from_below():
    """RCP's alpha at a fixed beta: its queue term needs damping."""
    table = check_boundary(RCP(), FINE, "alpha", times=["continuous"], engines=["fluid"])
    assert table["reason"][0].endswith("it is unstable as alpha tends to 0, so alpha has no limit from below")


def test_progress_names_model_engine_and_gain():
    steps = []
    check_boundary(PIQIRCP(gamma=0.8), FINE, times=["continuous"], engines=["fluid"], progress=steps.append)
    assert steps[0] == "continuous model: critical alpha" and steps[1].startswith(
        "continuous model, fluid: alpha = 4.0"
    )


@pytest.mark.slow
def test_a_custom_protocol_and_the_assignment_of_flows():
    @dataclass(frozen=True)
    class Slower(EMKCAVQ):
        """EMKC-AVQ under another name."""

    table = ecc.stability.check_boundary(Slower(), FINE, times=["discrete"], engines=["fluid"], assignment=[0, 0])
    assert table["protocol"][0] == "Slower" and table["agrees"][0]


def test_bad_input():
    with pytest.raises(ValueError, match=r"times must be among continuous, discrete, hybrid, got \['sampled'\]"):
        check_boundary(ROOMY, FINE, times=["sampled"])
    with pytest.raises(ValueError, match=r"engines must be among fluid, packet, got \['live'\]"):
        check_boundary(ROOMY, FINE, engines=["live"])
    with pytest.raises(ValueError, match=r"engines must be among fluid, packet, got \[\]"):
        check_boundary(ROOMY, FINE, engines=[])
    with pytest.raises(ValueError, match="margin must be > 0 and < 1, got 1"):
        check_boundary(ROOMY, FINE, margin=1.0)
    with pytest.raises(ValueError, match="parameter must be one of alpha, interval"):
        check_boundary(ROOMY, FINE, "beta")


def test_packet_runs_above_the_maximum_number_of_packets_are_refused():
    settings = RunSettings(max_packets=1e4)
    model = (ROOMY, FINE, "alpha", "hybrid", ("fluid", "packet"), settings, LinearOptions(), lambda step: None)
    fluid, packet = rows_of_model(*model)
    assert "packets, and" not in fluid["reason"]  # the maximum is one of packets
    assert packet["agrees"] is None and packet["status_below"] == ""
    assert packet["reason"].endswith("packets, and the maximum is 1e+04")
