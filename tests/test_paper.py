"""The paper has the numbers that its command computes, and cites what its bibliography has."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PAPER = Path(__file__).parents[1] / "paper"
TEXT = (PAPER / "paper.md").read_text(encoding="utf-8")
_SPEC = spec_from_file_location("paper_values", PAPER / "values.py")
paper = module_from_spec(_SPEC)
_SPEC.loader.exec_module(paper)


def test_the_counts_of_the_paper_are_those_of_the_package():
    for what, count in paper.counts().items():
        assert f"more than {count} {what.partition(',')[0]}" in " ".join(TEXT.split())


@pytest.mark.slow
def test_every_number_of_the_paper_is_computed_and_every_computed_one_is_there():
    assert paper.stated(TEXT) == set(paper.numbers().values())
    assert "python paper/values.py" in TEXT


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("At 12.5 Mb/s, or 1,000 flows (30 of them).", {"12.5", "1,000", "30"}),
        ("ns-3, BBRv2, C17 and T1 [@fuller2021] (https://a.b/c2)", set()),
        ("a rise of 5 %, 5% of 0.938628204.", {"5", "0.938628204"}),
    ],
)
def test_numbers_are_told_from_names(sentence, found):
    assert paper.stated(f"---\ndate: 23\n---\n{sentence}") == found


def test_references_are_those_that_are_cited():
    bibliography = (PAPER / "paper.bib").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^@\w+\{(.+),$", bibliography, re.MULTILINE)) == sorted(
        set(re.findall(r"@([a-z]\w+)", TEXT))
    )


def test_the_paper_has_the_parts_and_the_length_that_the_journal_asks_for():
    parts = re.findall(r"^# (.+)$", TEXT, re.MULTILINE)
    assert parts == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "Quality control",
        "Acknowledgements",
        "References",
    ]
    assert 750 <= len(TEXT.split("---\n", 2)[2].split()) <= 1750
