"""The errata of the papers: each differs from what is computed, and a number printed right is no erratum."""

import pytest

from ecc.claims import catalog
from ecc.claims.checks import errata
from ecc.claims.ledger import CHECKS, Claim, Verdict, claims

LEDGER = [claim for claim in claims().values() if claim.section == "errata"]


@pytest.mark.claim
@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: claim.id)
def test_what_is_printed_is_refuted(claim):
    found = catalog.checks()[claim.id](claim)
    assert found.verdict is Verdict.REFUTED
    assert all(row.value != row.reported for row in found.measurements)


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [([3.0, 4.0], Verdict.CONFIRMED), ([3.0, 5.0], Verdict.CONDITIONAL), ([2.0, 5.0], Verdict.REFUTED)],
)
def test_verdicts_come_from_the_numbers(printed, verdict, monkeypatch):
    claim = Claim(LEDGER[0].id, "a paper", ("RCP",), "a number", "it", "errata")
    monkeypatch.setitem(CHECKS, claim.id, CHECKS[claim.id])
    check = errata.erratum(claim.id)(
        lambda: [errata.Erratum("three", 3.0, printed[0]), errata.Erratum("four", 4.0, printed[1])]
    )
    assert check(claim).verdict is verdict
