"""The structure of functions: none is too long to be read at once. Ruff's C901 (pyproject.toml) limits branches."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import parsed

PACKAGE = Path(__file__).parents[1] / "ecc"
MAX_LINES = 80
"""Maximum number of lines of code of a function, without its signature and docstring."""
EXCEPTIONS = {
    "fluid/network/right_hand_side.py.network_rates": "one compiled call per evaluation, with shared arrays",
}
"""File and name of a function that may be longer -> the reason why it is not split."""

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="no sources")


def n_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines from the first statement to the last, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def lengths() -> dict[str, int]:
    """Return the length of each function of the package by its file and qualified name."""
    by_name: dict[str, int] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                qualified = f"{name}.{child.name}"
                if not isinstance(child, ast.ClassDef):
                    # Overloads and setters share a name.
                    by_name[qualified] = max(by_name.get(qualified, 0), n_lines(child))
                visit(child, qualified)
            else:
                visit(child, name)

    for path in sorted(PACKAGE.rglob("*.py")):
        visit(parsed(path)[1], path.relative_to(PACKAGE).as_posix())
    return by_name


def test_no_function_is_longer_than_the_limit() -> None:
    functions = lengths()
    assert len(functions) > 3000
    too_long = {name: length for name, length in functions.items() if length > MAX_LINES}
    assert set(too_long) <= set(EXCEPTIONS), too_long


def test_only_tables_of_data_are_formatted_by_hand() -> None:
    """`# fmt: skip` is for literal tables of 20 values and more, which one value per line makes hard to read."""
    found = 0
    for path in sorted(PACKAGE.parent.joinpath(room) for room in ("ecc", "tests", "benchmarks", "docs", "examples")):
        for file in path.rglob("*.py"):
            source = file.read_text(encoding="utf-8")
            lines = {number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# fmt: skip")}
            if not lines:
                continue
            tables = {
                node.end_lineno
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Assign | ast.AnnAssign)
                and sum(isinstance(part, ast.Constant) for part in ast.walk(node)) >= 20
            }
            assert lines <= tables, f"{file}: lines {sorted(lines - tables)}"
            found += len(lines)
    assert found < 40
