"""Faults in BBR and CUBIC that the laboratory is to find (benchmarks/mutants.py prints all cases that find each)."""

import importlib.util
import sys
from pathlib import Path

import pytest

from ecc import conform

FILE = Path(__file__).parents[2] / "benchmarks" / "mutants.py"
spec = importlib.util.spec_from_file_location("mutants", FILE)
mutants = sys.modules.setdefault("mutants", importlib.util.module_from_spec(spec))  # dataclasses look for theirs
spec.loader.exec_module(mutants)


def test_twenty_faults_of_which_two_at_most_escape():
    assert len(mutants.MUTANTS) == 20
    assert sum(bool(one.case) for one in mutants.MUTANTS) >= 18
    assert len({one.name for one in mutants.MUTANTS}) == 20


@pytest.mark.slow
@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda one: one.name)
def test_a_fault_is_found_by_a_case_that_the_protocol_passes(mutant, tmp_path):
    verdicts = [
        str(conform.run(protocol, [mutant.case])[mutant.case].verdict)
        for protocol in (mutant.kind(), mutants.made(mutant, tmp_path))
    ]
    assert verdicts[0] in ("confirmed", "conditional")
    assert verdicts[1] == "refuted"
