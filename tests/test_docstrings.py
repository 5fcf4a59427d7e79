"""Docstrings of the public interface are numpydoc, and name every parameter."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = (
    "ecc",
    "ecc.models",
    "ecc.stability",
    "ecc.linear",
    "ecc.fluid",
    "ecc.packet",
    "ecc.transients",
    "ecc.allocation",
    "ecc.conform",
    "ecc.qlog",
    "ecc.impairments",
    "ecc.demands",
    "ecc.tmix",
    "ecc.headers",
    "ecc.metrics",
    "ecc.plot",
)
ORDER = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Notes", "Examples")


def public(module: str) -> Iterator[tuple[str, Any]]:
    """Each public function and class of a module, and the methods that a class has of its own."""
    room = importlib.import_module(module)
    for name in room.__all__:
        thing = getattr(room, name)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            yield f"{module}.{name}", thing
        if inspect.isclass(thing):
            for key, value in vars(thing).items():
                method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if inspect.isfunction(method) and not key.startswith("_"):
                    yield f"{module}.{name}.{key}", method


def sections(text: str) -> dict[str, list[str]]:
    """The lines of each section of a docstring."""
    found: dict[str, list[str]] = {}
    lines = text.splitlines()
    for k, line in enumerate(lines):
        if k + 1 < len(lines) and re.fullmatch("-{3,}", lines[k + 1]) and len(lines[k + 1]) == len(line):
            found[line] = []
        elif found and not re.fullmatch("-{3,}", line):
            found[list(found)[-1]].append(line)
    return found


def named(lines: list[str]) -> list[str]:
    """The names that a section describes."""
    heads = [line.partition(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return [name.lstrip("*") for head in heads for name in head.split(", ")]


@pytest.mark.parametrize("module", MODULES)
def test_sections_are_known_in_order_and_not_empty(module: str) -> None:
    for name, thing in public(module):
        text = inspect.getdoc(thing) or ""
        found = sections(text)
        assert list(found) == sorted(found, key=ORDER.index), name
        assert all(any(lines) for lines in found.values()), name
        assert not re.search(rf"^({'|'.join(ORDER)}|Example|Fields):?( .*)?$(?!\n-)", text, re.M), name


@pytest.mark.parametrize("module", MODULES)
def test_parameters_are_those_of_the_signature(module: str) -> None:
    """A law or a hook takes what the contract of a protocol lists; its docstring need not repeat that."""
    looked_at = 0
    for name, thing in public(module):
        if inspect.isclass(thing):
            continue
        found = sections(inspect.getdoc(thing) or "")
        takes = [key for key in inspect.signature(thing).parameters if key not in ("self", "cls")]
        if "Parameters" in found or (takes and name.count(".") <= 2 and module != "ecc.models"):
            assert named(found.get("Parameters", [])) == takes, name
            looked_at += 1
    assert looked_at > 0


def _passed_on() -> list[Any]:
    from ecc import fluid, packet
    from ecc.comparison import comparison

    return [
        (comparison.compare, fluid.simulate, ("progress",)),
        (comparison.compare, packet.simulate, ("progress",)),
        (fluid.ensemble, fluid.simulate, ("progress",)),
        (fluid.solve_ensemble, fluid.solve_dde, ("args", "t_eval")),
    ]


def test_keywords_that_are_passed_on_have_the_defaults_of_the_function_that_takes_them() -> None:
    for call, inner, own in _passed_on():
        outer, there = inspect.signature(call).parameters, inspect.signature(inner).parameters
        assert not any(p.kind is p.VAR_KEYWORD for p in outer.values()), call.__name__
        shared = [
            name for name in outer if name in there and name not in own and outer[name].default is not outer[name].empty
        ]
        assert shared and all(outer[name].default == there[name].default for name in shared), (call.__name__, shared)
