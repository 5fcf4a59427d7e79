"""The counters of benchmarks/history.py: what counts as a rise, and that the stored ones are what it reads."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

_SPEC = spec_from_file_location("history", Path(__file__).parents[1] / "benchmarks" / "history.py")
history = module_from_spec(_SPEC)
_SPEC.loader.exec_module(history)


def row(**changes):
    return {
        "case": "S1 RCP",
        "compilers": "gcc 12",
        "packets": 100,
        "events": 300,
        "allocations": 0,
        "instructions": 10_000,
    } | changes


@pytest.mark.parametrize(
    ("changes", "rose"),
    [
        ({}, []),
        ({"events": 315}, []),
        ({"events": 316}, ["events"]),
        ({"events": 600, "packets": 200, "instructions": 20_000}, []),
        ({"packets": 90}, ["events", "instructions"]),
        ({"allocations": 1}, ["allocations"]),
        ({"instructions": 10_501}, ["instructions"]),
        ({"instructions": 10_501, "compilers": "gcc 13"}, []),
        ({"events": 400, "compilers": "gcc 13"}, ["events"]),
    ],
)
def test_a_rise_is_more_than_five_percent_a_packet_and_of_instructions_under_the_same_compilers(changes, rose):
    found = history.compared([row(**changes), row(case="new")], [row()])
    assert [name for case, name, *_, is_rise in found if is_rise and case == "S1 RCP"] == rose
    assert {case for case, *_ in found} == {"S1 RCP"}


def test_a_file_of_callgrind_gives_instructions_and_allocations(tmp_path):
    lines = [
        "fn=ecc_memory_resize",
        "3 4",
        "cfn=realloc",
        "calls=7 12",
        "3 90",
        "cfn=memset",
        "calls=9 1",
        "summary: 77",
    ]
    (tmp_path / "out.2").write_text("\n".join(lines))
    assert history.collected(tmp_path / "out.2") == {"instructions": 77, "allocations": 7}


def test_the_stored_history_has_every_case_of_its_last_commit():
    rows = history.stored()
    assert rows == sorted(rows, key=lambda row: row["date"])
    last = {row["case"]: row for row in history.last(rows)}
    assert set(last) == {*history.PACKETS, "verdict", "critical gain", "fluid RCP", "fluid PIQI-RCP"}
    assert all("instructions" in last[case] for case in history.PACKETS if case not in history.UNTRACED)
