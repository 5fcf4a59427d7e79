"""docs/models.md and the columns of tables of protocols: the verdicts on the page are those that the models have now.

`python docs/models_page.py` writes them. Roots and margins have rounding errors, and are not compared.
"""

import json
import runpy
from pathlib import Path

import pandas as pd
import pytest

from ecc.models import all_protocols
from ecc.stability import all_verdicts

ROOT = Path(__file__).parents[1]
PAGE = runpy.run_path(str(ROOT / "docs" / "models_page.py"))
TEXT = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
ROWS = PAGE["verdicts_of_rows"](PAGE["rows_of_page"](TEXT))
COLUMNS = PAGE["VERDICT_COLUMNS"]
ALONE = [name for name, kind in all_protocols().items() if not kind().reference_loop.discipline]
OVER = [name for name in all_protocols() if name not in ALONE]


def stale(names, rows=ROWS):
    """Return the rows in which the page and the models differ."""
    now = PAGE["verdicts_of_rows"](PAGE["table_rows"](all_verdicts(names)))
    return set(now) ^ {row for row in rows if row[0] in names}


@pytest.mark.slow
def test_verdicts_of_three_protocols_are_those_of_the_page():
    assert stale(["QIRCP", "JetMax", "FAST"]) == set()


@pytest.mark.slow
def test_verdicts_of_protocols_without_a_discipline_are_those_of_the_page():
    assert stale(ALONE) == set()


@pytest.mark.slow
def test_verdicts_of_hosts_over_disciplines_are_those_of_the_page():
    assert stale(OVER) == set()


def test_a_changed_verdict_is_found():
    at = next(index for index, row in enumerate(ROWS) if row[0] == "QIRCP")
    column = COLUMNS.index("stable")
    changed = [*ROWS[:at], (*ROWS[at][:column], "no", *ROWS[at][column + 1 :]), *ROWS[at + 1 :]]
    assert stale(["QIRCP"], changed) == {ROWS[at], changed[at]}
    assert stale(["QIRCP"], ROWS[:at] + ROWS[at + 1 :]) == {ROWS[at]}


def test_the_page_lists_every_protocol_with_its_reference_network():
    assert {row[0] for row in ROWS} == set(all_protocols())
    section = TEXT.split("## Reference networks")[1]
    assert all(f"| `{name}` | " in section for name in all_protocols())


def test_disagreements_are_those_that_were_measured():
    measured = PAGE["MEASURED"]
    content = json.loads(measured.read_text(encoding="utf-8")) if measured.exists() else None
    assert "\n".join(PAGE["_against_runs"](content)) in TEXT


def test_cycles_against_packets_are_those_that_were_measured():
    rows = json.loads(PAGE["CYCLES_MEASURED"].read_text(encoding="utf-8"))
    assert "\n".join(PAGE["_cycles_against_packets"](rows)) in TEXT
    of_two = {row["protocol"]: row for row in rows if row["time"] == "discrete"}["NewReno"]
    assert of_two["agrees"] == [True, True, True]
    assert of_two["multiplier"][0] == pytest.approx(0.5, abs=0.01)


def test_a_cycle_that_was_not_found_has_a_row_with_the_reason():
    row = {"protocol": "EDN", "time": "discrete", "agrees": None, "reason": "packets: no periodic motion was found"}
    tried = {"change": "with larger windows", "deviation": [1.0, 2.0, 0.05]}
    lines = PAGE["_cycles_against_packets"]([{**row, "cause": "period: windows", "experiments": [tried]}])
    start = "| `EDN` | discrete |  |  |  |  |  |  | packets: no periodic motion was found; period: windows; "
    assert start + "deviations with larger windows are +1.0 %, +2.0 %, +0.05 |" in lines
    assert any("Of 1 rows, 0 agree" in line for line in lines)


def test_a_cycle_that_differs_from_packets_has_the_causes_and_the_experiments():
    row = {
        "protocol": "EDN",
        "time": "discrete",
        "period": [0.2, 0.6],
        "amplitude": [3000.0, 6000.0],
        "multiplier": [None, 0.1, None],
        "deviation": [-66.7, -50.0],
        "agrees": [False, False, None],
        "reason": "",
        "note": "hosts wait",
        "experiments": [
            {"change": "with packets four times smaller", "deviation": "the queue is constant"},
            {"change": "from the fluid run", "deviation": [-0.2, 0.04, None]},
        ],
        "cause": "period: not found",
    }
    (cells,) = [line for line in PAGE["_cycles_against_packets"]([row]) if line.startswith("| `EDN`")]
    assert cells.endswith(
        "| no, no, - | period: not found; deviations from the fluid run are -0.2 %, +0.0 %, -; hosts wait |"
    )
    assert any("1 rows have a difference without a cause" in line for line in PAGE["_cycles_against_packets"]([row]))


def test_disagreements_have_a_row_with_their_measured_cause():
    row = {
        "protocol": "FAST",
        "clocking": "ack",
        "time": "continuous",
        "engine": "packet",
        "parameter": "gamma",
        "limit": 1.5,
        "present": 0.5,
        "measured": "inf",
        "runs": "packets stay stable",
        "cause": "windows of whole packets",
    }
    undecided = [{**row, "reason": "the deviation is noise"}]
    content = {"comparisons": {"agree": 3, "disagree": 1}, "disagreements": [row], "undecided": undecided}
    lines = PAGE["_against_runs"](content)
    cells = (
        "| `FAST` | continuous, ack | packet | `gamma` | 1.5 | inf | packets stay stable | windows of whole packets |"
    )
    assert cells in lines
    assert "| `FAST` | continuous, ack | packet | the deviation is noise |" in lines
    assert any("Of 4 comparisons" in line and "3 agree" in line for line in lines)


@pytest.mark.parametrize("page", ["README.md", "docs/protocols.md"])
def test_tables_of_protocols_have_the_engines_of_the_verdicts(page):
    table = pd.DataFrame(ROWS, columns=list(COLUMNS))
    table["time"] = table.time.replace("-", "")
    text = (ROOT / page).read_text(encoding="utf-8")
    assert PAGE["with_engines"](text, table) == text
    assert "| `RCP` | " in text and " | all |" in text
