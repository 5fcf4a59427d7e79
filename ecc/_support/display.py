"""Results as text, HTML and JSON: a title, rows of a name and a value with its unit, and notes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from html import escape
from math import inf, isfinite, isnan, pi
from typing import Any, ClassVar

import numpy as np

from ecc._support.quantity import as_rate, as_size, as_time

__all__ = [
    "Displayed",
    "Rows",
    "changed_text",
    "first_notes",
    "frequency_text",
    "grid_html",
    "html_table",
    "json_text",
    "number_text",
    "others_text",
    "quantity_text",
    "text_table",
    "value_text",
]

Rows = Sequence[tuple[str, str]]

_MAX_ITEMS = 6  # maximum number of items of a list, or of notes, in a text
_PREFIXES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "bit/s": ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
}

_READERS: Mapping[str, Callable[[Any, str], float]] = {"s": as_time, "bit/s": as_rate, "bytes": as_size}


class Displayed:
    """A dataclass (with repr=False) whose repr is a few lines with units, and a table in notebooks.

    A class declares the units of its fields in `_units`, and may override `_title` and `_rows`.
    """

    _units: ClassVar[Mapping[str, str]] = {}
    """Field -> unit of its numbers; fields without an entry have pure numbers."""

    def _title(self) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", type(self).__name__).capitalize()

    def _rows(self) -> Rows:
        """Return names and values of the rows."""
        return [
            (f.name.replace("_", " "), value_text(getattr(self, f.name), self._units.get(f.name, "")))
            for f in fields(self)  # type: ignore[arg-type]
            if f.repr and f.name != "notes"
        ]

    def __repr__(self) -> str:
        return text_table(self._title(), self._rows(), getattr(self, "notes", ()))

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._rows(), getattr(self, "notes", ()))


def changed_text(value: Any, units: Mapping[str, str] = {}) -> str:
    """Return a dataclass as a call with the fields that differ from their defaults.

    Parameters
    ----------
    value : dataclass
    units : mapping, optional
        Field -> unit of its number, for example "bit/s"; the number is then shown as '8 Mb/s' if this is exact.
    """
    shown = []
    for item in fields(value):
        content = getattr(value, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if not item.init or content == default:
            continue
        text = repr(content)
        if item.name in units and isinstance(content, int | float):
            quantity = quantity_text(content, units[item.name], 12)
            text = repr(quantity) if _READERS[units[item.name]](quantity, item.name) == content else text
        shown.append(f"{item.name}={text}")
    return f"{type(value).__name__}({', '.join(shown)})"


def text_table(title: str, rows: Rows, notes: Sequence[str] = ()) -> str:
    """Return a title, rows in two columns, and notes, as lines of text.

    Parameters
    ----------
    title : str
    rows : Rows
        Pairs of name and value.
    notes : sequence of str, optional
        Strings of one line.
    """
    notes = first_notes(notes)
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"  {name:<{width}}  {value}".rstrip() for name, value in rows]
    return "\n".join([title, *lines, *(f"note: {note}" for note in notes)])


def first_notes(notes: Sequence[str]) -> Sequence[str]:
    """Return the first notes, and a last one with the number of others if there are many.

    Parameters
    ----------
    notes : sequence of str
        Strings of one line.
    """
    more = len(notes) - _MAX_ITEMS
    return notes if more <= 1 else [*notes[:_MAX_ITEMS], f"{more} more notes are in .notes"]


def html_table(title: str, rows: Rows, notes: Sequence[str] = ()) -> str:
    """Return an HTML table of a title, rows in two columns, and notes; see `text_table`.

    Parameters
    ----------
    title : str
    rows : Rows
        Pairs of name and value.
    notes : sequence of str, optional
        Strings of one line.
    """
    cells = [(name, value) for name, value in (*rows, *(("note", note) for note in first_notes(notes)))]
    return grid_html(title, [(f"<th>{escape(name)}</th>", f"<td>{escape(value)}</td>") for name, value in cells])


_LEFT = "<style>table.ecc :is(td,th){text-align:left!important}</style>"  # notebooks align cells to the right


def grid_html(title: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a left-aligned table of HTML cells under a title.

    Parameters
    ----------
    title : str
        Title, or "".
    rows : Iterable[iterable of str]
        Rows of cells, for example "<td>1</td>".
    """
    caption = f'<caption style="text-align:left;white-space:nowrap">{escape(title)}</caption>' if title else ""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table class="ecc" style="text-align:left">{_LEFT}{caption}{body}</table>'


def quantity_text(value: float, unit: str, digits: int = 4) -> str:
    """Return a number with its unit, scaled to a prefix for seconds, bit/s and bytes.

    Parameters
    ----------
    value : float
    unit : str
        "s", "bit/s", "bytes", "bit" (shown in bytes), or any other; "" for pure numbers.
    digits : int, optional
        Significant digits.
    """
    if unit == "bit":
        value, unit = value / 8.0, "bytes"
    if not isfinite(value):
        return "infinite" if value == inf else "none" if isnan(value) else "-infinite"
    if unit in _PREFIXES:
        scales = _PREFIXES[unit]
        smallest = scales[-1] if unit != "s" else scales[0]
        factor, unit = next((scale for scale in scales if abs(value) >= scale[0] * (1.0 - 1e-12)), smallest)
        value /= factor
    return f"{value:.{digits}g} {unit}".strip()


def frequency_text(value: float, sampled: bool, dt: float | None) -> str:
    """Return a frequency of a linear model as text: rad/s if the length of a step is known, and rad/step if sampled.

    Parameters
    ----------
    value : float, rad/s
        Frequency, in rad/step for a sampled model.
    sampled : bool
        True for a sampled model.
    dt : float or None
        Length of a step, s, or None if it is unknown.
    """
    if isnan(value):
        return "none"
    if not sampled:
        return f"{value:.4g} rad/s (period {quantity_text(2 * pi / value, 's')})" if value else "0 rad/s"
    if dt is None:
        return f"{value:.4g} rad/step"
    return f"{value / dt:.4g} rad/s ({value:.4g} rad/step)"


def others_text(count: int) -> str:
    """Return "1 other" or, for example, "3 others".

    Parameters
    ----------
    count : int
    """
    return f"{count} other{'' if count == 1 else 's'}"


def value_text(value: Any, unit: str = "") -> str:
    """Return any value as short text; long lists are cut and show the number of their items.

    Parameters
    ----------
    value : object
        Value of a field.
    unit : str, optional
        Unit of its numbers.
    """
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value} {unit}".strip()
    if isinstance(value, float | np.floating):
        return quantity_text(float(value), unit, 12 if not unit else 6)
    if isinstance(value, complex):
        return f"{value:.5g}" if value.imag else f"{value.real:.5g}"
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            return f"array of shape {value.shape}"
        value = tuple(value.tolist())
    if isinstance(value, tuple | list):
        between = "; " if any(isinstance(item, str) for item in value) else ", "
        shown = (
            f"({value_text(item, unit)})" if isinstance(item, tuple) else value_text(item, unit)
            for item in value[:_MAX_ITEMS]
        )
        return (between.join(shown) or "none") + (f", ... ({len(value)} in all)" if len(value) > _MAX_ITEMS else "")
    if isinstance(value, Displayed):
        return value._title()
    return str(value).partition("\n")[0]


def number_text(value: float | str | None, digits: int = 7) -> str:
    """Return a value as text: whole numbers in full, other numbers rounded, strings unchanged, "" for None.

    Parameters
    ----------
    value : float, str or None
    digits : int, optional
        Significant digits of numbers that are not whole. Numbers below ten million have at least their integer part.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not isfinite(value):
        return "–" if isnan(value) else "∞" if value > 0.0 else "-∞"
    if value == int(value) and 1e4 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    whole = len(str(int(abs(value)))) if abs(value) < 1e7 else 0
    return f"{value:.{max(digits, whole)}g}"


def json_text(value: Any) -> str:
    """Return plain data as JSON text, with NumPy's numbers as numbers, NaN as null and infinities as "inf" and "-inf".

    Parameters
    ----------
    value : mapping, list, tuple, str, number, bool or None
        Data, nested to any depth.
    """
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    return value
