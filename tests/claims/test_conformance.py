"""The verdicts of the conformance cases on our own protocols."""

import pickle

import pytest

from ecc import conform
from ecc.claims.catalog import checks
from ecc.claims.checks.conformance.laboratory import CASES, identity
from ecc.claims.ledger import Verdict, claims
from ecc.models import BBR, CUBIC, BBRv1, cubic
from ecc.models.shared import windows
from ecc.scenario import protocol_class

pytestmark = pytest.mark.claim


def test_a_worker_process_that_checks_a_case_imports_its_module():
    functions = checks()  # imports the modules that register cases
    for case_id, one in CASES.items():
        assert one.function.__module__.encode() in pickle.dumps(functions[case_id])


OTHERS = {
    ("BBR", "bbr-drain-time"): Verdict.CONDITIONAL,  # 10 % less bandwidth do not keep the queue from draining
    ("BBR", "bbr-bandwidth-down"): Verdict.CONDITIONAL,  # not where ProbeRTT ends every cycle
    ("BBR", "bbr-up-loss"): Verdict.CONDITIONAL,  # the draft's pseudocode leaves inflight_longterm
    ("BBRv1", "bbr-policer"): Verdict.REFUTED,  # it loses packets in most RTTs
}
"""What is neither confirmed nor, for lack of what a case needs, not comparable."""
APPLY_TO_VERSION_1 = {
    "bbr-startup-plateau",
    "bbr-drain-inflight",
    "bbr-probe-rtt",
    "bbr-probe-rtt-startup",
    "bbr-aggregation-startup",
    "bbr-aggregation-cruise",
    "bbr-small-bdp",
    "bbr-bandwidth-up",
    "bbr-bandwidth-down",
    "bbr-policer",
    "bbr-min-rtt-filter",
    "bbr-spurious-recovery",
    "bbr-spurious-timeout",
    "bbr-application-limited",
    "bbr-probe-rtt-idle",
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["BBR", "BBRv1"])
def test_bbr(protocol):
    found = conform.run(protocol, ["bbr"])
    assert found.findings
    for one in found.findings:
        applies = protocol == "BBR" or one.claim.id in APPLY_TO_VERSION_1
        usual = Verdict.CONFIRMED if applies else Verdict.NOT_COMPARABLE
        assert one.verdict is OTHERS.get((protocol, one.claim.id), usual), (one.claim.id, one.reason)
        assert bool(one.pictures) is applies


CRITERIA = {
    "BBR": set(),
    "BBRv1": {"collapse", "loss", "cubic", "reno", "bbr", "aqm"},
    "CUBIC": {"bufferbloat", "reno"},
    "NewReno": {"bufferbloat", "range", "reordering"},  # the window grows slowly; duplicate ACKs end it
    "Compound": {"bufferbloat"},
    "BIC": {"bufferbloat", "rtt", "cubic", "reno", "bbr"},
}
"""Criteria that a protocol does not meet; it does all others."""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", CRITERIA)
def test_criteria_for_any_controller(protocol):
    found = conform.run(protocol, ["rfc9743"])
    refuted = {one.claim.id.removeprefix("rfc9743-") for one in found.findings if one.verdict is Verdict.REFUTED}
    assert refuted == CRITERIA[protocol]
    assert {one.verdict for one in found.findings} <= {Verdict.REFUTED, Verdict.CONFIRMED}


@pytest.mark.slow
def test_cubic():
    found = conform.run("CUBIC", ["cubic"])
    assert {one.verdict for one in found.findings} == {Verdict.CONFIRMED}, [one.reason for one in found.findings]
    over_quic = conform.run(CUBIC(transport="quic"), ["cubic"])
    assert {str(one.verdict) for one in over_quic.findings} == {"confirmed", "not comparable"}
    without = conform.run(CUBIC(fast_convergence=False), ["cubic-fast-convergence", "cubic-reno"])
    assert [str(one.verdict) for one in without.findings] == ["refuted", "confirmed"]


class Forgets(CUBIC):
    """It does not know what it did."""

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": forgets}


class Counts(CUBIC):
    """Its time does not stand still."""

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": counts, "on_restart": windows.flow_on_restart}


def forgets(flow, header, p, env):
    flow.pipe_prev = 0.0
    cubic.flow_on_ack(flow, header, p, env)


def counts(flow, header, p, env):
    cubic.flow_on_ack(flow, header, p, env)
    flow.limited = -1.0


@pytest.mark.slow
def test_what_is_not_undone_and_time_that_runs_on_are_found():
    cases = ["cubic-spurious-loss", "cubic-spurious-timeout", "cubic-application"]
    verdicts = [[str(one.verdict) for one in conform.run(cls(), cases).findings] for cls in (Forgets, Counts)]
    assert verdicts == [["refuted", "refuted", "confirmed"], ["confirmed", "confirmed", "refuted"]]


# ---- what is kept ----------------------------------------------------------------------------------------------------

MINE = """
from dataclasses import dataclass
from ecc.models import BBR

STATES = ["Startup", "Drain", "Up"]
GAIN = 0.5

@dataclass(frozen=True)
class Mine(BBR):
    def params(self):
        return super().params() | {"drain_gain": GAIN}
"""


def test_a_finding_is_kept_by_all_that_the_protocol_is(tmp_path):
    changed = (("0.5", "0.75"), ('"Up"', '"UP"'), ("super().params()", "super().params().copy()"))
    kinds = []
    for k, text in enumerate([MINE, MINE, *(MINE.replace(*one) for one in changed)]):
        (tmp_path / f"kept_{k}.py").write_text(text, encoding="utf-8")
        kinds.append(protocol_class(f"{tmp_path}/kept_{k}.py:Mine"))
    digests = [identity(kind()) for kind in kinds] + [identity(kinds[0](headroom=0.2)), identity(BBR())]
    assert digests[0] == digests[1] and len(set(digests)) == len(digests) - 1


def test_the_ledger_keeps_a_case_by_its_protocols(monkeypatch):
    claim = claims()["bbr-drain-inflight"]
    assert claim.protocols == ("BBR", "BBRv1")
    before = [checks()[key].identity(claims()[key]) for key in ("bbr-drain-inflight", "cubic-window")]
    monkeypatch.setattr(BBRv1, "params", lambda self: {"drain_gain": 1.0})
    after = [checks()[key].identity(claims()[key]) for key in ("bbr-drain-inflight", "cubic-window")]
    assert before[0] != after[0] and before[1] == after[1]
