"""The specification of the packet engine against the code that cites it: clauses, symbols, kinds and fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ecc.native import FLOW_ENV, LINK_ENV
from ecc.native._engine import lib
from ecc.packet.twin import Kind
from ecc.packet.twin.transport import NEWRENO, RACK, SACK

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "engine_specification.md"
SOURCES = sorted(
    [
        *(ROOT / "ecc" / "native").rglob("*.[ch]"),
        *(ROOT / "ecc" / "native").glob("*.py"),
        *(ROOT / "ecc" / "packet").glob("*.py"),
        *(ROOT / "ecc" / "models").glob("*.py"),
        ROOT / "ecc" / "network" / "impairments.py",
        *(ROOT / "tests" / "native").glob("*.[ch]"),
    ]
)

pytestmark = pytest.mark.skipif(not (ROOT / "ecc" / "native" / "run" / "engine.c").exists(), reason="no sources")


def clauses() -> dict[int, str]:
    """Number of a clause -> its text."""
    parts = re.split(r"^\*\*S-(\d+)\.\*\*", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        int(number): re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for number, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def cited(text: str) -> set[int]:
    """Clauses that a text cites: S-7, or S-7 to S-9."""
    found = set()
    for first, last in re.findall(r"\bS-(\d+)(?: to[ \n*#]+S-(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def table(heading: str) -> list[list[str]]:
    """The rows of the first table after a text."""
    page = PAGE.read_text(encoding="utf-8")
    rows = re.search(r"(?:^\|.*\n)+", page[page.index(heading) :], re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[0].splitlines()[2:]]


def test_clauses_are_numbered_in_their_order():
    numbers = [int(n) for n in re.findall(r"^\*\*S-(\d+)\.\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]
    assert numbers == sorted(set(numbers))


def test_every_clause_that_is_cited_exists():
    known = set(clauses())
    strange = {path.name: cited(path.read_text(encoding="utf-8")) - known for path in [*SOURCES, PAGE]}
    assert {name: numbers for name, numbers in strange.items() if numbers} == {}


def test_every_clause_is_cited_by_the_engine():
    found = set().union(
        *(cited(path.read_text(encoding="utf-8")) for path in (ROOT / "ecc" / "native").rglob("*.[ch]"))
    )
    assert sorted(set(clauses()) - found) == []


def test_every_symbol_is_in_the_clauses_that_its_row_names():
    texts = clauses()
    for names, _, _, where in table("## Symbols"):
        text = "".join(texts[number] for number in sorted(cited(where)))
        for name in re.findall(r"`(\w+)[^`]*`", names) or [names]:
            assert re.search(rf"\b{name}\b", text), f"{name} is not in {where}"


def test_kinds_of_events_are_those_of_both_engines():
    rows = table("**S-10.**")
    traced = re.findall(r"(\d+) \(`(\w+)`\)", clauses()[13])
    written = {name.strip("`"): int(number) for number, name, *_ in [*rows, *traced]}
    assert sorted(written.values()) == list(range(len(rows) + len(traced)))
    assert written == {kind.name: kind.value for kind in Kind if kind >= 0}
    assert written == {name: getattr(lib, f"ECC_EVENT_{name}") for name in written}
    assert (lib.ECC_TRANSPORT_CUMULATIVE, lib.ECC_TRANSPORT_SACK, lib.ECC_TRANSPORT_RACK) == (NEWRENO, SACK, RACK)
    assert (lib.ECC_PACKET_DATA, lib.ECC_PACKET_ACK, lib.ECC_LOSS_GAP, lib.ECC_LOSS_TIMEOUT) == (0, 1, 0, 1)
    assert (lib.ECC_SEGMENT_NEW, lib.ECC_SEGMENT_RETRANSMITTED) == (0, 1)


def test_fields_of_env_that_the_text_names_exist():
    fields = {*(LINK_ENV.names or ()), *(FLOW_ENV.names or ())}
    named = set(re.findall(r"`env\.(\w+)`", PAGE.read_text(encoding="utf-8")))
    assert named <= fields and {"drop", "queue", "capacity", "random"} <= named
