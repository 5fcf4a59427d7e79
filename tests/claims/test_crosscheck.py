"""The runner of checks: parallel, in the ledger's order, and nothing that was found is lost."""

from __future__ import annotations

import importlib
import re
import time

import pytest
from waiting import HANG

from ecc._support.store import Store
from ecc.claims import catalog, ledger
from ecc.claims import crosscheck as runner

CHECKS = '''
"""Checks that worker processes can import."""
import os
import time

from ecc.claims.ledger import Finding, Verdict


def confirm(claim):
    time.sleep(0.01)
    return Finding(claim, Verdict.CONFIRMED, f"{claim.id} holds")


def refute(claim):
    return Finding(claim, Verdict.REFUTED, f"{claim.id} does not hold")


refute.cost = 5.0


def fail(claim):
    raise ZeroDivisionError("no capacity\\n  at all")


def die(claim):
    os._exit(3)


def sleep(claim):
    time.sleep(3600.0)
'''


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checks")
    (folder / "some_checks.py").write_text(CHECKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("some_checks")


@pytest.fixture
def use(checks, monkeypatch):
    def register(**table):
        named = {key.replace("_", "-"): getattr(checks, name) for key, name in table.items()}
        ordered = {key: named[key] for key in ledger.claims() if key in named}
        monkeypatch.setattr(catalog, "checks", lambda: ordered)

    return register


@pytest.mark.slow
def test_findings_come_in_the_ledgers_order_with_their_seconds(use):
    use(qi_7="refute", qi_3="confirm", piqi_9="confirm")
    seen = []
    findings = runner.crosscheck(executor=2, progress=lambda claim, finding: seen.append((claim.id, finding.verdict)))
    assert [finding.claim.id for finding in findings] == ["qi-3", "qi-7", "piqi-9"]
    assert [str(finding.verdict) for finding in findings] == ["confirmed", "refuted", "confirmed"]
    assert findings[0].seconds >= 0.01 and findings[1].seconds >= 0.0
    assert sorted(seen) == sorted((finding.claim.id, finding.verdict) for finding in findings)


@pytest.mark.slow
def test_names_select_claims_and_the_slowest_begins(use):
    use(qi_3="confirm", qi_7="refute", piqi_9="confirm")
    seen = []
    assert len(runner.crosscheck(["QI-RCP"], executor=1, progress=lambda claim, _: seen.append(claim.id))) == 2
    assert seen == ["qi-7", "qi-3"]
    steps = []
    runner.crosscheck(["QI-RCP"], executor=1, progress=steps.append)
    assert [(step.text, step.share) for step in steps] == [("qi-7: refuted", 0.5), ("qi-3: confirmed", 1.0)]


def test_progress_weighs_jobs_by_what_they_cost(use):
    use(qi_3="confirm", qi_7="refute", piqi_9="confirm")
    seen = []
    runner.examine(catalog.select([]), 1, steps=lambda done, count, costs: seen.append((done, count, costs)))
    assert [(done, count) for done, count, _ in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [costs for _, _, costs in seen] == [runner.Costs(0.0, 5.0, 5.0)] + 3 * [runner.Costs(5.0, 0.0, 5.0)]


def test_the_bar_moves_within_a_job_and_waits_for_its_end():
    pace = runner.Pace(2)
    assert pace.share(0.0) == 0.0
    pace.step(runner.Costs(20.0, 30.0, 100.0), 50.0)  # the store had 20
    assert [pace.share(t) for t in (50.0, 55.0, 1e6)] == [0.2, 0.3, 0.2 + 0.95 * 0.3]
    pace.step(runner.Costs(40.0, 10.0, 100.0), 90.0)  # half a second of cost in a second
    assert [pace.share(t) for t in (90.0, 100.0, 1e6)] == [0.4, 0.45, 0.4 + 0.95 * 0.1]
    pace.step(runner.Costs(100.0, 0.0, 100.0), 200.0)
    assert pace.share(1e6) == 1.0
    nothing = runner.Pace(1)
    nothing.step(runner.Costs(0.0, 0.0, 0.0), 1.0)
    assert nothing.share(2.0) == 1.0


@pytest.mark.slow
def test_a_failing_check_is_named_and_the_others_are_kept(use):
    use(qi_3="confirm", qi_5="fail", qi_7="refute")
    error = "ZeroDivisionError: no capacity at all (some_checks.py, line 22)"
    with pytest.raises(runner.CrosscheckError, match=f"^check of claim qi-5 failed: {re.escape(error)}$") as caught:
        runner.crosscheck(executor=2)
    assert [finding.claim.id for finding in caught.value.outcome.findings] == ["qi-3", "qi-7"]
    assert caught.value.outcome.failures == {"qi-5": error}


@pytest.mark.slow
def test_a_check_that_kills_its_worker_is_reported(use):
    use(qi_5="die")
    outcome = runner.examine(catalog.select())
    assert outcome.findings == []
    assert list(outcome.failures) == ["qi-5"]
    assert outcome.failures["qi-5"].startswith("its process ended, 2 times: ")


def test_an_interrupt_keeps_what_has_come_from_the_store(use, tmp_path):
    use(qi_3="confirm", qi_7="refute")
    store = Store(tmp_path / "results.sqlite")
    runner.examine(catalog.select(), jobs=1, store=store)

    def interrupt(claim, finding):
        raise KeyboardInterrupt

    outcome = runner.examine(catalog.select(), jobs=1, store=store, progress=interrupt)
    assert outcome.interrupted and [finding.claim.id for finding in outcome.findings] == ["qi-3"]


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished_and_ends_the_rest(use):
    use(qi_3="confirm", qi_5="sleep", qi_7="sleep")

    def interrupt(claim, finding):
        raise KeyboardInterrupt

    begin = time.monotonic()
    outcome = runner.examine(catalog.select(), jobs=2, progress=interrupt)
    assert time.monotonic() - begin < HANG
    assert outcome.interrupted
    assert [finding.claim.id for finding in outcome.findings] == ["qi-3"]
    assert outcome.failures == {}
    with pytest.raises(runner.CrosscheckError, match="crosscheck was interrupted after 1 claims") as caught:
        runner.crosscheck(progress=interrupt)
    assert caught.value.outcome.interrupted


def test_bad_input_is_refused_before_anything_runs(use):
    use(qi_3="confirm")
    with pytest.raises(ValueError, match=r"executor must be >= 1, got 0"):
        runner.crosscheck(executor=0)
    with pytest.raises(ValueError, match=r"executor must be >= 1, got 0"):
        runner.crosscheck(jobs=0)  # its former name
    with pytest.raises(ValueError, match="got 'nonsense'"):
        runner.crosscheck(["nonsense"])
    assert runner.examine([]) == runner.Outcome([], {})
