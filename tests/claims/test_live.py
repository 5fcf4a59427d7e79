"""The ledger's live runs: what is run again, and what is said where none can be made."""

from dataclasses import replace

import pytest

import ecc.live
from ecc.claims import experiments
from ecc.claims.catalog import checks
from ecc.claims.checks.open import live
from ecc.claims.ledger import Verdict, claims
from ecc.claims.schema import Expectation
from ecc.errors import EccError


@pytest.fixture
def short():
    """Of EVAL's flash crowd, two runs at 2 Mb/s for 2 s."""
    claim = experiments.of_one_seed(claims()["ev-f8"], ["RCP", "PIQI-RCP"])
    expect = (Expectation("utilization", arguments={"between": [1.0, 2.0]}, run="PIQI-RCP", at_least=0.5),)
    options = {"joining": 1, "join_at": 0.5, "duration": 2.0, "capacity": "2 Mb/s"}
    return replace(claim, experiment=replace(claim.experiment, options=options, expect=expect))


@pytest.fixture
def forbidden(monkeypatch):
    def refuse(*_, **__):
        raise EccError("live runs need network namespaces, as root or in user namespaces: forbidden")

    monkeypatch.setattr(ecc.live, "simulate", refuse, raising=False)


def test_a_claim_of_one_seed_has_the_expectations_on_its_runs_alone():
    whole = claims()["ev-f8"].experiment
    one = experiments.of_one_seed(claims()["ev-f8"], ["RCP", "PIQI-RCP"]).experiment
    assert set(one.runs) == {"RCP", "PIQI-RCP"} and one.seeds == 1 and not one.vary
    assert one.expect and {e.run for e in one.expect} == set(one.runs) and len(one.expect) < len(whole.expect)


@pytest.mark.slow
def test_each_expectation_is_measured_on_real_frames_beside_packets(short):
    rows = live.repeated(short)
    if rows[-1].value == live.NOT_RUN:
        pytest.skip(rows[-1].note)
    assert len(rows) == 1 and rows[0].met and rows[0].note.startswith("live; packets ")
    assert "1 s of real time a second, load " in rows[0].note and rows[0].value > 0.5


def test_where_no_live_run_can_be_made_packets_speak(short, forbidden):
    rows = live.repeated(short)
    assert [row.value for row in rows[1:]] == [live.NOT_RUN] and "forbidden" in rows[1].note
    assert rows[0].value > 0.5 and rows[0].note == "packets"


@pytest.mark.slow
def test_the_finding_says_that_it_was_not_run_live(forbidden, monkeypatch):
    monkeypatch.setattr(live, "LOOPS", live.LOOPS[:1])
    finding = checks()["open-live"](claims()["open-live"])
    assert (
        finding.verdict is Verdict.CONDITIONAL and "Not run live: live runs need network namespaces" in finding.reason
    )
    assert any(row.met for row in finding.measurements)
