"""Faults in BBR and CUBIC that the laboratory is to find (benchmarks/mutants.py prints all cases that find each)."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ecc import conform

FILE = Path(__file__).parents[2] / "benchmarks" / "mutants.py"
spec = importlib.util.spec_from_file_location("mutants", FILE)
mutants = sys.modules.setdefault("mutants", importlib.util.module_from_spec(spec))  # dataclasses look for theirs
spec.loader.exec_module(mutants)


ALL = (*mutants.MUTANTS, *mutants.MORE)


def test_twenty_faults_of_which_two_at_most_escape_and_twelve_more():
    assert (len(mutants.MUTANTS), len(mutants.MORE)) == (20, 12)
    assert sum(bool(one.case) for one in mutants.MUTANTS) >= 18
    assert sum(bool(one.case) for one in mutants.MORE) == 11
    assert len({one.name for one in ALL}) == len(ALL)


def test_all_faults_are_in_the_text_as_it_is_today():
    for mutant in ALL:
        text = mutants.mutated(mutant)
        assert mutant.instead in text
        compile(text, mutant.name, "exec")


def test_a_fault_whose_text_has_moved_stops_all_before_anything_is_run(monkeypatch, capsys):
    moved = replace(mutants.MUTANTS[0], text="no such text")
    with pytest.raises(ValueError, match="Drain paces at 0.75: text must be once in bbr.py, is 0 times"):
        mutants.mutated(moved)
    monkeypatch.setattr(mutants, "MUTANTS", (moved, *mutants.MUTANTS[1:]))
    with pytest.raises(SystemExit, match="Drain paces at 0.75"):
        mutants.main([])
    assert capsys.readouterr().out == ""


def test_a_name_of_no_fault_is_refused():
    with pytest.raises(SystemExit, match="NAME must be a part of the name of a mutant, got 'gain 3'"):
        mutants.main(["gain 3"])


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in ALL if one.case], ids=lambda one: one.name)
def test_a_fault_is_found_by_a_case_that_the_protocol_passes(mutant, tmp_path):
    verdicts = [
        str(conform.run(protocol, [mutant.case])[mutant.case].verdict)
        for protocol in (mutant.kind(), mutants.made(mutant, tmp_path))
    ]
    assert verdicts[0] in ("confirmed", "conditional")
    assert verdicts[1] == "refuted"
