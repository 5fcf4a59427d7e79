"""Published delay systems: each row of docs/gallery_of_delay_systems.md, and the page itself."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "gallery_of_delay_systems.py"
GALLERY = runpy.run_path(str(SCRIPT))
CASES = GALLERY["cases"]() if SCRIPT.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[f"{case.name}, {case.quantity}" for case in CASES])
def test_known_values(case):
    assert abs(case.value() - case.published) <= case.tolerance


def test_the_page_has_a_row_for_each_case():
    page = SCRIPT.with_suffix(".md").read_text(encoding="utf-8")
    rows = page.split(GALLERY["START"])[1].split(GALLERY["END"])[0].strip().splitlines()[2:]
    assert len(rows) == len(CASES) >= 40
    for row, case in zip(rows, CASES, strict=True):
        cells = row.split(" | ")
        assert cells[0] == f"| {case.name}" and cells[4] == GALLERY["shown"](complex(case.published))
        assert cells[6].startswith("yes")
