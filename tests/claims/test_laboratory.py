"""What the ledger makes of a case that several protocols run."""

from ecc.claims.checks.conformance import laboratory
from ecc.claims.ledger import Finding, Verdict, claims


def test_a_verdict_on_several_protocols_begins_with_which_conform():
    claim = claims()["bbr-policer"]

    def finding(verdict):
        return Finding(claim, verdict, "So.")

    said = laboratory._who_conforms
    one, other, third = Verdict.CONFIRMED, Verdict.REFUTED, Verdict.CONDITIONAL
    assert said({"A": finding(one), "B": finding(one)}) == ""
    assert said({"BBR": finding(one), "BBRv1": finding(other)}) == "BBR conforms, BBRv1 does not."
    assert said({"A": finding(one), "B": finding(one), "C": finding(other), "D": finding(third)}) == (
        "A and B conform, D conforms under a condition, C does not."
    )
    assert said({"A": finding(other), "B": finding(Verdict.NOT_COMPARABLE)}) == ""
