"""The verdicts of the ledger, each from its own check; those that need many packet runs are marked slow."""

import pytest

from ecc.claims.catalog import checks, select
from ecc.claims.ledger import Verdict, claims

pytestmark = pytest.mark.claim

QUICK = {
    "pi-1": Verdict.CONFIRMED,
    "src-2": Verdict.CONFIRMED,
    "qi-6": Verdict.CONFIRMED,
    "dis-con": Verdict.CONFIRMED,
    "piqi-w": Verdict.CONFIRMED,
    "piqi-11": Verdict.CONFIRMED,
    "xcp-3": Verdict.CONFIRMED,
    "emkc-2": Verdict.CONFIRMED,
    "jm-mono": Verdict.CONFIRMED,
    "jm-n": Verdict.CONFIRMED,
    "jm-loss": Verdict.CONFIRMED,
    "mm-1": Verdict.CONFIRMED,
    "mx-1": Verdict.CONDITIONAL,
}
LONG = {
    "qi-3": Verdict.CONFIRMED,
    "qi-4": Verdict.CONFIRMED,
    "qi-5": Verdict.CONFIRMED,
    "qi-7": Verdict.CONFIRMED,
    "qi-8": Verdict.CONFIRMED,
    "piqi-9": Verdict.REFUTED,
    "piqi-10": Verdict.REFUTED,
    "piqi-D": Verdict.CONDITIONAL,
    "piqi-12": Verdict.CONDITIONAL,
    "piqi-13": Verdict.CONDITIONAL,
    "xcp-1": Verdict.CONFIRMED,
    "xcp-2": Verdict.CONDITIONAL,
    "emkc-1": Verdict.CONDITIONAL,
    "emkc-3": Verdict.CONFIRMED,
    "avq-1": Verdict.CONFIRMED,
    "mm-2": Verdict.CONFIRMED,
    "jm-3": Verdict.CONFIRMED,
    "jm-th2": Verdict.CONFIRMED,
    "jm-th3": Verdict.CONFIRMED,
    "jm-th4": Verdict.CONDITIONAL,
    "th-f4": Verdict.CONDITIONAL,
    "th-f9": Verdict.CONFIRMED,
    "th-f11": Verdict.CONFIRMED,
    "th-f16": Verdict.CONDITIONAL,
}


def test_every_claim_of_the_ledger_has_a_check_and_a_test():
    assert set(checks()) == set(claims()) == QUICK.keys() | LONG.keys()


@pytest.mark.parametrize("claim_id", QUICK)
def test_quick(claim_id):
    finding = checks()[claim_id](claims()[claim_id])
    assert finding.verdict is QUICK[claim_id], finding.reason


@pytest.mark.slow
@pytest.mark.parametrize("claim_id", LONG)
def test_long(claim_id):
    finding = checks()[claim_id](claims()[claim_id])
    assert finding.verdict is LONG[claim_id], finding.reason


def test_select_by_protocol_and_by_claim():
    assert [c.id for c in select(["qi-7", "rcp"])] == ["qi-7", "xcp-2", "th-f4", "th-f9", "th-f11"]
    assert select() == [claims()[key] for key in checks()]
    with pytest.raises(ValueError, match="crosscheck covers the protocols EMKC, .*, RCP, XCP and claims such as"):
        select(["tcp"])
