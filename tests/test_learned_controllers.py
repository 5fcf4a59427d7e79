"""The study of learned controllers: its short form against known behavior, and its page against its stored results."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

_SPEC = spec_from_file_location(
    "learned_controllers", Path(__file__).parents[1] / "benchmarks" / "learned_controllers.py"
)
suite = module_from_spec(_SPEC)
_SPEC.loader.exec_module(suite)

STORED = json.loads(suite.RESULTS.read_text(encoding="utf-8"))
PAGE = suite.PAGE.read_text(encoding="utf-8")


def rows_of(results, part, **chosen):
    return [row for row in results[part] if all(row[key] == value for key, value in chosen.items())]


def test_tables_of_the_page_are_those_of_the_stored_results():
    tables = suite.tables(STORED)
    assert set(re.findall(r"^<!-- (.+) -->$", PAGE, re.MULTILINE)) == set(tables)
    assert suite.with_tables(PAGE, tables) == PAGE


def test_fractions_in_sentences_are_those_of_tables():
    """Other fractions belong to the paths and to the rules of the study."""
    setup = {"0.1", "2.4", "3.6", "7.2"}
    lines = PAGE.splitlines()
    known = set(re.findall(r"\d+\.\d+", " ".join(suite.tables(STORED).values()))) | setup
    prose = "\n".join(line for line in lines if not line.startswith("|"))
    prose = re.sub(r"```.*?```|`[^`]*`|arXiv:\S+|\]\([^)]*\)", "", prose, flags=re.DOTALL)
    assert set(re.findall(r"\d+\.\d+", prose)) <= known


def test_stored_results_are_complete_and_within_bounds():
    assert {row["family"] for row in STORED["paths"]} == {"Aurora", "Orca"}
    for row in STORED["paths"]:
        assert all(0.0 <= value <= 1.001 for value in row["utilization"]), row
        assert all(0.0 <= value <= 1.0 for value in row["loss"]) and min(row["delay"]) >= 0.0
    for family, cells in suite.CELLS.items():
        for cell in cells:
            assert {row["protocol"] for row in rows_of(STORED, "paths", family=family, cell=cell)} == {
                family,
                "CUBIC",
                "BBR",
            }
    for row in STORED["fairness"]:
        n = {"2": 2, "5": 5, "1": 10}.get(row["case"][0], 2)
        assert all(1.0 / n - 1e-3 <= value <= 1.0 for value in row["jain"]), row


def test_a_table_with_another_number_is_noticed():
    changed = json.loads(json.dumps(STORED))
    changed["losses"][0]["utilization"][0] -= 0.2
    assert suite.with_tables(PAGE, suite.tables(changed)) != PAGE


@pytest.mark.slow
def test_the_short_form_agrees_with_known_behavior():
    found = suite.study(is_short=True)
    assert {*suite.tables(found)} == {*suite.tables(STORED)}
    for row in found["paths"]:
        assert all(0.0 <= value <= 1.001 for value in row["utilization"]), row
    # CUBIC fills a path without random losses, and with p = 0.01 its window is near that of RFC 9438, sec. 5.2:
    # 1.054 (RTT/p)^(3/4) packets, or Reno's window sqrt(3/(2 p)) if this is larger
    for row in rows_of(found, "losses", protocol="CUBIC"):
        middle = suite.MIDDLES[row["family"]]
        p = row["losses"][1]
        window = max(1.054 * (middle.rtt / p) ** 0.75, np.sqrt(1.5 / p))
        expected = window * 8.0 * suite.PACKET / middle.rtt / middle.capacity
        assert row["utilization"][0] > 0.99
        assert 0.6 * expected < row["utilization"][1] < 1.4 * expected, (row, expected)
    # Aurora loses nearly all of its rate at 10 %, twice the losses of its training: the minimum of 40 packets/s is left
    (aurora,) = rows_of(found, "losses", protocol="Aurora")
    minimum = 40.0 * 8.0 * suite.PACKET / suite.MIDDLES["Aurora"].capacity
    assert aurora["utilization"][:2] == pytest.approx([1.0, 1.0], abs=0.02)
    assert 0.99 * minimum < aurora["utilization"][2] < 1.5 * minimum
    # two flows of CUBIC share, two of Aurora keep the ratio of their rates
    (fair,) = rows_of(found, "fairness", family="Aurora", protocol="CUBIC")
    assert fair["jain"][0] > 0.9
    for row in found["causes"]["ratios"]:
        assert row["shares"] == pytest.approx([row["initial"]] * 2, abs=0.04)
    # the runs agree with the certified verdict: swings end below 80 ms, and last at 80 ms
    below, above = found["stability"]["orca"]
    assert below["stable"] is True and below["model"] < 1e-6
    assert above["stable"] is False and above["model"] > 0.01
    assert below["packets"] < 0.005 < above["packets"] and abs(above["packets"] - above["model"]) < 0.01
    whole, halved = found["causes"]["buffers"]
    assert halved["loss"] < 0.1 * whole["loss"] and halved["actions"] < 0.2 * whole["actions"]
