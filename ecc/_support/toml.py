"""Reading of TOML whose long lists are read as JSON, ten times faster than by tomllib.

A scenario of many flows is a long run of `[[flows]]`, and a long list `rtts`. Such stretches, in the format of
`Scenario.to_toml`, are replaced by marks before tomllib reads the text. A mark that tomllib does not find as a
value, for example because it is inside a string, or any error, makes tomllib read the whole text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

__all__ = ["loads"]

_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_ITEM = rf'(?:{_NUMBER}|true|false|"[^"\\\x00-\x1f\x7f]*+")'
_LIST = rf"\[\n(?:    {_ITEM},\n)++\]"
_ENTRY = rf"[\w-]++ = (?:{_ITEM}|\[(?:{_ITEM}(?:, {_ITEM})*+)?\]|{_LIST})\n"
_BODY = rf"\]\]\n(?:{_ENTRY})*+\n*+(?=\[|\Z)"
_STRETCH = re.compile(
    rf"^(?:\[\[(?P<tables>[\w.-]++){_BODY}(?:\[\[(?P=tables){_BODY})++"
    rf"|(?P<key>[\w-]++) = (?P<list>\[\n(?:    {_NUMBER},\n){{9,}}+\])\n)",
    re.ASCII | re.MULTILINE,
)
_KEY = re.compile(r"^([\w-]+) = ", re.ASCII | re.MULTILINE)


def loads(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text, like `tomllib.loads`.

    Parameters
    ----------
    text : str

    Raises
    ------
    tomllib.TOMLDecodeError
        The text is not TOML.
    """
    try:
        return _loads(text.replace("\r\n", "\n"))
    except ValueError:
        return tomllib.loads(text)


def _loads(text: str) -> dict[str, Any]:
    """Return the tables of a text; ValueError if it must be read by tomllib alone."""
    mark = "stretch"
    while mark in text:
        mark += "-"
    values: list[Any] = []

    def marked(stretch: re.Match[str]) -> str:
        name = stretch["tables"]
        values.append(_tables(stretch[0], f"[[{name}]]\n") if name else json.loads(_as_json(stretch["list"])))
        return f"[[{name}]]\n{mark} = {len(values)}\n" if name else f'{stretch["key"]} = "{mark}{len(values)}"\n'

    tables = tomllib.loads(_STRETCH.sub(marked, text))
    places = iter(range(len(values)))
    filled = _filled(tables, mark, values, places)
    if next(places, None) is not None:
        raise ValueError("a mark is not a value")
    return dict(filled)


def _as_json(text: str) -> str:
    return text.replace(",\n]", "\n]")


def _tables(text: str, header: str) -> list[dict[str, Any]]:
    """Return a run of tables with the same header."""
    entries, n_entries = _KEY.subn(r',"\1": ', text)
    body = _as_json(entries.replace(f"{header},", "},{").replace(header, "},{")).removeprefix("},")
    tables: list[dict[str, Any]] = json.loads(f"[{body}}}]")
    if sum(map(len, tables)) != n_entries:
        raise ValueError("a key is repeated")
    return tables


def _filled(value: Any, mark: str, values: list[Any], places: Iterator[int]) -> Any:
    """Return a value with stretches instead of marks; takes one of `places` for each."""
    if isinstance(value, dict):
        return {key: _filled(item, mark, values, places) for key, item in value.items()}
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            if isinstance(item, dict) and item.keys() == {mark}:
                next(places)
                items += values[item[mark] - 1]
            else:
                items.append(_filled(item, mark, values, places))
        return items
    if isinstance(value, str) and value.startswith(mark):
        next(places)
        return values[int(value.removeprefix(mark)) - 1]
    return value
