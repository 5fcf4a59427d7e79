"""The verdicts of the ledger, each from its own check; those that need many packet runs are marked slow."""

import json
import os
from functools import cache
from pathlib import Path

import pytest

from ecc.claims.catalog import checks, of_crosscheck, select, to_reproduce
from ecc.claims.checks.theorems.convergence import WINDOW, pace_of
from ecc.claims.checks.theorems.stationary_rates import BAND, UNFAIR_DELAY, late_means, packet_run
from ecc.claims.ledger import ANSWERS, Verdict, claims
from ecc.models import XCP
from ecc.network.allocation import max_min
from ecc.network.network import Network

pytestmark = pytest.mark.claim

QUICK = {
    "starvation-copa": Verdict.CONFIRMED,
    "copa-equilibrium": Verdict.CONDITIONAL,
    "pi-1": Verdict.CONFIRMED,
    "src-2": Verdict.CONFIRMED,
    "qi-6": Verdict.CONFIRMED,
    "piqi-w": Verdict.CONFIRMED,
    "piqi-11": Verdict.CONFIRMED,
    "jm-mono": Verdict.CONFIRMED,
    "jm-loss": Verdict.CONFIRMED,
    "mm-1": Verdict.CONFIRMED,
    "hdr": Verdict.CONFIRMED,
    "codel-law": Verdict.CONFIRMED,
    "scream-marks": Verdict.CONFIRMED,
    "scream-division": Verdict.CONFIRMED,
    "gcc-overuse": Verdict.CONDITIONAL,
    "gcc-starvation": Verdict.CONDITIONAL,
    "bbr-fluid-cubic": Verdict.REFUTED,
    "bbr-fluid-timer": Verdict.REFUTED,
    "timely-none": Verdict.CONFIRMED,
    "timely-swings": Verdict.CONFIRMED,
    "timely-bursts": Verdict.CONDITIONAL,
    "patched-delays": Verdict.REFUTED,
    "fair-or-fixed": Verdict.CONFIRMED,
    "timely-many": Verdict.CONFIRMED,
    "patched-fixed": Verdict.CONDITIONAL,
    "dcqcn-marks": Verdict.REFUTED,
    "dcqcn-pace": Verdict.CONDITIONAL,
    "dcqcn-times": Verdict.CONFIRMED,
    "dctcp-threshold": Verdict.CONFIRMED,
    "dctcp-period": Verdict.CONDITIONAL,
    "dctcp-share": Verdict.CONDITIONAL,
    "dctcp-gain": Verdict.CONDITIONAL,
    "dctcp-sawtooth": Verdict.CONDITIONAL,
    "power-fixed": Verdict.CONDITIONAL,
    "power-stable": Verdict.IN_MODEL,
    "power-eigenvalues": Verdict.CONDITIONAL,
    "power-pace": Verdict.IN_MODEL,
    "power-simulator": Verdict.REFUTED,
    "theta-stable": Verdict.CONDITIONAL,
    "hpcc-utilization": Verdict.CONFIRMED,
    "hpcc-empty": Verdict.CONFIRMED,
    "hpcc-stable": Verdict.CONDITIONAL,
    "codel-target": Verdict.CONDITIONAL,
    "fq-fair": Verdict.CONFIRMED,
}
LONG = {
    "cubic-stable": Verdict.CONFIRMED,
    "cubic-decay": Verdict.NOT_COMPARABLE,
    "starvation": Verdict.CONFIRMED,
    "starvation-ranges": Verdict.CONDITIONAL,
    "starvation-bias": Verdict.CONFIRMED,
    "starvation-bbr": Verdict.CONDITIONAL,
    "starvation-vivace": Verdict.CONDITIONAL,
    "reno-rtt": Verdict.CONFIRMED,
    "cubic-rtt": Verdict.CONFIRMED,
    "compound-window": Verdict.CONFIRMED,
    "compound-hopf": Verdict.CONFIRMED,
    "abc-stable": Verdict.CONDITIONAL,
    "abc-varying": Verdict.CONDITIONAL,
    "abc-leaves": Verdict.CONFIRMED,
    "compound-reno": Verdict.CONDITIONAL,
    "copa-cycle": Verdict.CONDITIONAL,
    "copa-base": Verdict.CONDITIONAL,
    "copa-competitive": Verdict.CONDITIONAL,
    "bbr-share": Verdict.CONDITIONAL,
    "bbr-fluid-start": Verdict.REFUTED,
    "bbr-cubic-oscillation": Verdict.CONDITIONAL,
    "bbr-cubic-half": Verdict.CONDITIONAL,
    "bbr-deep-split": Verdict.CONDITIONAL,
    "bbr-deep-rtt": Verdict.CONDITIONAL,
    "bbr-small-fair": Verdict.CONDITIONAL,
    "vivace-fair": Verdict.CONDITIONAL,
    "vivace-latency": Verdict.CONDITIONAL,
    "prague-rate": Verdict.CONDITIONAL,
    "scream-figure": Verdict.CONDITIONAL,
    "prague-rtt": Verdict.CONFIRMED,
    "prague-coexistence": Verdict.CONDITIONAL,
    "dcqcn-fixed": Verdict.CONDITIONAL,
    "dcqcn-margin": Verdict.REFUTED,
    "dcqcn-nonmonotone": Verdict.CONFIRMED,
    "dcqcn-delay": Verdict.CONDITIONAL,
    "dcqcn-tuning": Verdict.CONDITIONAL,
    "dctcp-cycle": Verdict.CONDITIONAL,
    "dctcp-converge": Verdict.CONFIRMED,
    "dctcp-used": Verdict.CONFIRMED,
    "dcqcn-short": Verdict.REFUTED,
    "dcqcn-steps": Verdict.REFUTED,
    "dcqcn-100g": Verdict.REFUTED,
    "dcqcn-long": Verdict.CONDITIONAL,
    "dcqcn-join": Verdict.CONFIRMED,
    "dcqcn-egress": Verdict.CONFIRMED,
    "dcqcn-pi": Verdict.CONDITIONAL,
    "timely-pi": Verdict.CONFIRMED,
    "timely-starts": Verdict.REFUTED,
    "marks-jitter": Verdict.CONFIRMED,
    "patched-pace": Verdict.CONFIRMED,
    "patched-stable": Verdict.REFUTED,
    "hpcc-path": Verdict.CONDITIONAL,
    "hpcc-forms": Verdict.CONFIRMED,
    "hpcc-htsim": Verdict.CONDITIONAL,
    "dctcp-rtt": Verdict.CONDITIONAL,
    "dctcp-three": Verdict.REFUTED,
    "xcp-models": Verdict.REFUTED,
    "swift-median": Verdict.CONDITIONAL,
    "swift-region": Verdict.CONDITIONAL,
    "nscc-target": Verdict.CONDITIONAL,
    "nscc-equal": Verdict.CONDITIONAL,
    "nscc-stable": Verdict.CONDITIONAL,
    "nscc-few": Verdict.REFUTED,
    "nscc-large": Verdict.REFUTED,
    "nscc-trim": Verdict.CONFIRMED,
    "nscc-noise": Verdict.CONDITIONAL,
    "nscc-sprayed": Verdict.CONDITIONAL,
    "sperc-bound": Verdict.CONFIRMED,
    "sperc-ignore": Verdict.CONFIRMED,
    "sperc-robust": Verdict.CONFIRMED,
    "sperc-faster": Verdict.CONDITIONAL,
    "swift-cut": Verdict.CONDITIONAL,
    "swift-fair": Verdict.CONDITIONAL,
    "swift-integer": Verdict.REFUTED,
    "swift-scaling": Verdict.CONDITIONAL,
    "swift-target": Verdict.CONDITIONAL,
    "pie-gains": Verdict.CONDITIONAL,
    "pi2-gains": Verdict.CONDITIONAL,
    "hollot-red": Verdict.CONFIRMED,
    "hollot-pi": Verdict.CONFIRMED,
    "rem-target": Verdict.CONFIRMED,
    "red-doubling": Verdict.CONDITIONAL,
    "avq-rule": Verdict.CONDITIONAL,
    "dualpi2-margin": Verdict.CONDITIONAL,
    "dualpi2-stable": Verdict.CONDITIONAL,
    "dualpi2-cubic": Verdict.CONFIRMED,
    "dis-con": Verdict.CONFIRMED,
    "xcp-3": Verdict.CONFIRMED,
    "emkc-2": Verdict.CONFIRMED,
    "jm-n": Verdict.CONFIRMED,
    "mx-1": Verdict.CONDITIONAL,
    "qi-3": Verdict.CONFIRMED,
    "qi-4": Verdict.CONFIRMED,
    "qi-5": Verdict.CONFIRMED,
    "qi-7": Verdict.CONFIRMED,
    "qi-8": Verdict.CONFIRMED,
    "piqi-9": Verdict.CONDITIONAL,
    "piqi-10": Verdict.CONDITIONAL,
    "piqi-D": Verdict.CONDITIONAL,
    "piqi-12": Verdict.CONDITIONAL,
    "piqi-13": Verdict.CONDITIONAL,
    "xcp-1": Verdict.CONFIRMED,
    "xcp-2": Verdict.CONDITIONAL,
    "emkc-1": Verdict.CONDITIONAL,
    "emkc-3": Verdict.CONFIRMED,
    "avq-1": Verdict.CONDITIONAL,
    "mm-2": Verdict.CONFIRMED,
    "jm-3": Verdict.CONFIRMED,
    "jm-th2": Verdict.CONFIRMED,
    "jm-th3": Verdict.CONFIRMED,
    "jm-th4": Verdict.CONDITIONAL,
    "th-f4": Verdict.CONDITIONAL,
    "th-f9": Verdict.CONFIRMED,
    "th-f11": Verdict.CONFIRMED,
    "th-f16": Verdict.CONDITIONAL,
    "cpu": Verdict.NOT_COMPARABLE,
    "ops": Verdict.CONFIRMED,
}


def test_every_claim_of_the_ledger_has_a_check_or_an_experiment():
    tested_elsewhere = {c.id for c in claims().values() if c.section in ("errata", "open", "live", "conformance")}
    assert set(checks()) - tested_elsewhere == QUICK.keys() | LONG.keys()
    assert {c.id for c in claims().values() if not c.experiment} == set(checks())


def expected(claim_id, verdict):
    """The verdict of a claim; for a question, the answer that the same measurements give."""
    return (Verdict.ANSWERED, ANSWERS[verdict]) if claims()[claim_id].is_question else (verdict, "")


def test_verdicts_that_disagree_with_a_source_name_the_difference_between_assumptions():
    disagreeing = (Verdict.REFUTED, Verdict.CONDITIONAL, Verdict.IN_MODEL)
    named = {key for key, verdict in (QUICK | LONG).items() if verdict in disagreeing}
    unfair = {key for key in named if not (claims()[key].is_question or claims()[key].provenance.difference)}
    assert not unfair


@pytest.mark.parametrize("claim_id", QUICK)
def test_quick(claim_id):
    finding = checks()[claim_id](claims()[claim_id])
    assert (finding.verdict, finding.answer) == expected(claim_id, QUICK[claim_id]), finding.reason


@cache
def reported():
    """What `ecc crosscheck` has found already: ECC_REPORT names the results.json of a whole report of this code."""
    if not (path := os.environ.get("ECC_REPORT")):
        return {}
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    assert not report["partial"] and not report["quick"]
    return {one["claim"]["id"]: one for one in report["findings"]}


@pytest.mark.slow
@pytest.mark.parametrize("claim_id", LONG)
def test_long(claim_id):
    finding = reported().get(claim_id) or checks()[claim_id](claims()[claim_id]).to_dict()
    assert (finding["verdict"], finding["answer"]) == expected(claim_id, LONG[claim_id]), finding["reason"]


def test_select_by_protocol_and_by_claim():
    assert [c.id for c in select(["qi-7", "rcp"])] == ["qi-7", "xcp-2", "th-f4", "th-f9", "th-f11"]
    assert select() == of_crosscheck()
    sections = {"theorems", "disciplines", "data_centers", "internet", "simulations", "questions"}
    assert {c.section for c in of_crosscheck()} == sections
    with pytest.raises(ValueError, match="crosscheck covers protocols, sections and claims such as .*: did you"):
        select(["tcp"])
    with pytest.raises(ValueError, match="crosscheck covers the protocols .*EMKC, .*RCP, .*XCP, sections and claims"):
        select(["nothing-like-it"])
    with pytest.raises(ValueError, match=r"got 'th-f44': did you mean .*th-f4\b.*\?$"):
        select(["th-f44"])
    with pytest.raises(ValueError, match=r"the ledger covers .*, got 'bbr-polcer': did you mean bbr-policer"):
        to_reproduce(["bbr-polcer"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "capacities", [[1e6, 4e6, 16e6, 64e6, 256e6], pytest.param([1e9, 4e9, 16e9], marks=pytest.mark.extensive)]
)
def test_jm_th4_at_every_capacity_and_number_of_flows(capacities):
    """JETMAX figs. 18 and 19: six steps in 1.92 to 2.52 s from 1 Mb/s to 16 Gb/s and with 1 to 1024 flows."""
    for (capacity, flows), pace in pace_of(capacities, [2**k for k in range(1, 11)]).items():
        assert pace.steps == 6, (capacity, flows)
        assert WINDOW[0] <= pace.seconds <= WINDOW[1], (capacity, flows)
        assert pace.peak < 1.01, (capacity, flows)


@pytest.mark.slow
def test_xcp_2_for_larger_n():
    """The equilibrium continues to fall, and packets with l1 first go with it."""
    ratios = []
    for n in (8, 10):
        network = Network.xcp_unfair(n, UNFAIR_DELAY)
        rates = late_means(packet_run(network, XCP(), 60.0))
        assert rates[0] == pytest.approx(XCP().equilibrium(network).rates[0], rel=BAND)
        ratios.append(rates[0] / max_min(network)[0])
    assert 0.25 > ratios[0] > ratios[1]
