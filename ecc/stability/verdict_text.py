"""Tables of verdicts as text, as cells of a page, and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from ecc._support.display import quantity_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HEADINGS", "cells", "records", "table_text"]

HEADINGS = ("model", "time", "object", "dominant root", "stable", "proven", "gain margin")
"""Headings of the columns of `cells`."""


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a row of a table of verdicts as texts, one for each of `HEADINGS`; "" if a value is not known.

    Parameters
    ----------
    row : mapping
        Column of `ecc.stability.verdicts` -> value.
    """
    return (
        str(row["model"]),
        str(row["time"]) or "-",
        str(row["object"]),
        _root_text(
            complex(row["dominant"]),
            float(row["step"]),
            not isnan(float(row["step"])) or row["time"] in ("discrete", "hybrid"),
        ),
        {"True": "yes", "False": "no"}.get(str(row["stable"]), ""),
        "yes" if row["proven"] else "",
        _margin_text(float(row["margin"])),
    )


def _root_text(root: complex, step: float, is_multiplier: bool) -> str:
    """Return a root with its unit: "-1.02 ± 4.61j 1/s", or "z = 0.988 ± 0.045j per 10 ms"."""
    if isnan(root.real):
        return ""
    text = f"{root.real:.4g}"
    if abs(root.imag) > 1e-9 * abs(root):
        text += f" ± {abs(root.imag):.4g}j"
    if not is_multiplier:
        return f"{text} 1/s"
    return f"z = {text}" + (f" per {quantity_text(step, 's')}" if not isnan(step) else " per step")


def _margin_text(margin: float) -> str:
    if isnan(margin):
        return ""
    return "infinite" if isinf(margin) else f"{margin:.4g}"


def records(table: pd.DataFrame) -> dict[str, Any]:
    """Return a table of verdicts as plain data, as `ecc stability --json` prints it.

    Parameters
    ----------
    table : pandas.DataFrame
        Table from `ecc.stability.verdicts`.

    Returns
    -------
    dict
        The attributes of the table, and "models", a list of rows: column -> value, with `dominant` as [real, imaginary]
        and None for a value that is not known.
    """
    models = []
    for row in table.to_dict("records"):
        root = complex(row["dominant"])
        stable = {"True": True, "False": False}.get(str(row["stable"]))
        dominant = None if isnan(root.real) else [root.real, root.imag]
        plain = {str(name): value for name, value in row.items()}
        models.append(plain | {"dominant": dominant, "stable": stable, "proven": bool(row["proven"])})
    return {**table.attrs, "models": models}


def table_text(table: pd.DataFrame) -> str:
    """Return a table of verdicts as lines of text: the network, the models, what they omit, and refused models.

    Parameters
    ----------
    table : pandas.DataFrame
        Table from `ecc.stability.verdicts`.
    """
    attrs = table.attrs
    source = f" ({attrs['source']})" if attrs["source"] else ""
    rows = table.to_dict("records")
    return "\n".join(
        [
            f"{attrs['protocol']} on its reference loop: {attrs['network']}{source}",
            *aligned([HEADINGS, *(cells(row) for row in rows)]),
            *([f"cycles: on {attrs['cycle_network']}"] if attrs.get("cycle_network") else []),
            *([f"set: {attrs['set']}"] if attrs["set"] else []),
            *_omitted(rows),
            *(f"no model: {name}: {reason}" for name, reason in attrs["refused"].items()),
        ]
    )


def _omitted(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Return the effects that models leave out, and methods of cycles, one line for all models with the same ones."""
    by_text: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        head = "cycle" if str(row["object"]).endswith("cycle") else "omitted"
        by_text.setdefault((head, str(row["omits"])), []).append(str(row["time"]))
    lines = []
    for (head, text), times in by_text.items():
        which = ", ".join(dict.fromkeys(filter(None, times)))
        lines.append(f"{head} in {which} time: {text}" if which else text)
    return lines


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines with aligned columns.

    Parameters
    ----------
    table : sequence of sequences of str
        Rows with the same number of cells, for example [("model", "time"), ("explicit feedback", "hybrid")].
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  " + "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
