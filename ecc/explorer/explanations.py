"""Units and one-line explanations of parameters, from the docstrings of protocols."""

from __future__ import annotations

import re
from functools import lru_cache
from inspect import cleandoc

from ecc.contract.protocol import Protocol

__all__ = ["Explanation", "explanations"]

Explanation = tuple[str, str]
"""Unit and one sentence."""

_ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: : (.*))?$")
_UNIT = re.compile(r"(?:packets|bytes|bit|frames|s|ms\^2|1(?=/))(?:/\w+(?:\^\d)?)?")


def explanations(kind: type[Protocol]) -> dict[str, Explanation]:
    """Return the unit and explanation of each parameter that the docstring of a class, or of its bases, describes.

    Parameters
    ----------
    kind : type
        Class of a protocol.

    Examples
    --------
    >>> from ecc.models import CUBIC
    >>> explanations(CUBIC)["C"]
    ('packets/s^3', 'Scale of the cubic (RFC 9438: 0.4).')
    """
    result: dict[str, Explanation] = {}
    for base in reversed(kind.__mro__):
        result |= _explained(vars(base).get("__doc__") or "")
    return result


@lru_cache(maxsize=256)
def _explained(docstring: str) -> dict[str, Explanation]:
    _, _, section = cleandoc(docstring).partition("Parameters\n----------\n")
    result: dict[str, Explanation] = {}
    for names, kinds, words in _entries(re.split(r"\n\n\w+\n-{3,}\n", section)[0]):
        if not words.startswith(("See ", "As for ")):
            result |= dict.fromkeys(names, (_unit(kinds), words.replace("`", "")))
    return result


def _entries(section: str) -> list[tuple[list[str], str, str]]:
    """Return names, type and text of each entry of a section."""
    entries: list[tuple[list[str], str, list[str]]] = []
    for line in section.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            entries.append((entry[1].split(", "), entry[2] or "", []))
        elif entries and line.startswith("    "):
            entries[-1][2].append(line.strip())
    return [(names, kinds, " ".join(lines)) for names, kinds, lines in entries]


def _unit(kinds: str) -> str:
    parts = [part.strip() for part in kinds.split(",")[1:]]
    return next((part for part in parts if _UNIT.fullmatch(part)), "")
