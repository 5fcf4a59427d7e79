"""Cases of senders: our protocols pass them, and each fault that was shipped is refuted by one."""

from functools import cache

import pytest
from shipped_faults import FAULTS, FullWindows, Paced

from ecc import conform
from ecc.models import CUBIC, NewReno


@cache
def findings(protocol):
    return conform.run(protocol, ["sender", "cubic-reduction", "cubic-epoch", "cubic-aggregation"])


REFERENCES = [CUBIC(), NewReno(), NewReno(transport="quic"), CUBIC(transport="quic")]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", REFERENCES, ids=lambda p: f"{type(p).__name__} {p.transport}")
def test_references_pass_all_cases(protocol):
    result = findings(protocol)
    assert not result.failures
    refuted = {f.claim.id: f.reason for f in result.findings if str(f.verdict) == "refuted"}
    assert refuted == {}
    assert sum(str(f.verdict) == "confirmed" for f in result.findings) >= 26


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.place}: {fault.case}")
def test_a_fault_is_refuted(fault):
    correct = conform.run(CUBIC(), [fault.case])[fault.case]
    found = conform.run(fault.protocol, [fault.case])[fault.case]
    assert str(correct.verdict) == "confirmed", correct.reason
    assert str(found.verdict) == "refuted", found.reason
    assert "required" in found.reason and found.reason.endswith(f"({found.claim.source}).")
    assert found.claim.source.startswith(("RFC", "SEARCH-DRAFT", "RATE-LIMITED-DRAFT"))


@pytest.mark.slow
def test_one_rule_passes_the_two_cases_that_contradict_each_other():
    cases = ["sender-application-paced", "sender-idle-three-packets"]
    variants = {
        "always": Paced(application_limited="none"),
        "full windows": FullWindows(application_limited="none"),
        "RFC 9002": Paced(application_limited="rfc9002"),
    }
    verdicts = {}
    for name, protocol in variants.items():
        result = conform.run(protocol, cases)
        verdicts[name] = [str(result[case].verdict) for case in cases]
    assert verdicts == {
        "always": ["confirmed", "refuted"],
        "full windows": ["refuted", "confirmed"],
        "RFC 9002": ["confirmed", "confirmed"],
    }
