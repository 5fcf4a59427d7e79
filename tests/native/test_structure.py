"""The include graph of the C engine: no circles, and folders in one order."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "ecc" / "native"
FOLDERS = ("core", "link", "host", "parts", "store", "run", "wire")
"""Each folder includes headers of itself and of the folders before it."""

pytestmark = pytest.mark.skipif(not (NATIVE / "core").exists(), reason="no sources")


def included(path: Path) -> list[str]:
    """Return the project's headers that a file includes, relative to `ecc/native`."""
    return re.findall(r'^#include "(.*)"$', path.read_text(encoding="utf-8"), re.MULTILINE)


def sources() -> dict[str, list[str]]:
    """Return the headers that each file includes."""
    return {path.relative_to(NATIVE).as_posix(): included(path) for path in sorted(NATIVE.rglob("*.[ch]"))}


def test_every_include_names_a_file_by_its_path():
    files = sources()
    assert len(files) > 90
    assert {header for headers in files.values() for header in headers} <= set(files)
    assert {name.split("/")[0] for name in files} == set(FOLDERS)


def test_folders_include_only_folders_before_them():
    place = {folder: number for number, folder in enumerate(FOLDERS)}
    upward = [
        (name, header)
        for name, headers in sources().items()
        for header in headers
        if place[header.split("/")[0]] > place[name.split("/")[0]]
    ]
    assert upward == []


def test_the_include_graph_has_no_circle():
    """A header and the source file of the same path are one node."""
    graph: dict[str, set[str]] = {}
    for name, headers in sources().items():
        node = name.rpartition(".")[0]
        graph.setdefault(node, set()).update({header.rpartition(".")[0] for header in headers} - {node})
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph) > 50


def test_exported_functions_begin_with_the_name_of_their_file():
    declared = re.compile(r"^(?:[A-Za-z][\w *]*[ *])(ecc_\w+)\(|^(ecc_\w+)\(", re.MULTILINE)
    wrong = []
    for path in sorted(NATIVE.rglob("*.h")):
        names = ["".join(match) for match in declared.findall(path.read_text(encoding="utf-8"))]
        stems = ("ecc_engine", "ecc_team") if path.stem == "engine" else (f"ecc_{path.stem}",)
        wrong += [(path.name, name) for name in names if not name.startswith(stems)]
    assert wrong == []


def test_no_file_has_more_than_500_lines():
    lengths = {name: len((NATIVE / name).read_text(encoding="utf-8").splitlines()) for name in sources()}
    assert [name for name, length in lengths.items() if length > 500] == []


def test_every_comment_stands_on_its_own():
    """No comment continues another one, opens with a conjunction, or consists of a clause number."""
    fragment = re.compile(
        r"\.\.\.|(?:of|that|which|whose|once|until)\b|S-[\d.]+(?:(?:,| to| and) S-[\d.]+)*\.?$", re.IGNORECASE
    )
    wrong = []
    for name in sources():
        for comment in re.findall(r"/\*(.*?)\*/", (NATIVE / name).read_text(encoding="utf-8"), re.DOTALL):
            text = re.sub(r"\s*\n \*? ?", " ", comment).strip()
            if fragment.match(text) or text.endswith("..."):
                wrong.append((name, text))
    assert wrong == []
