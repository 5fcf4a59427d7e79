"""How results show themselves in notebooks."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import Any

import numpy as np

__all__ = ["Displayed"]

_MOST = 6  # items of a list that are written out


class Displayed:
    """A dataclass whose fields are shown as a table; its plain repr stays."""

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(f.name.replace('_', ' '))}</th><td>{escape(_text(getattr(self, f.name)))}</td></tr>"
            for f in fields(self)  # type: ignore[arg-type]
        )
        return f"<table><caption>{escape(type(self).__name__)}</caption>{rows}</table>"


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if isinstance(value, tuple):
        between = "; " if any(isinstance(v, str) for v in value) else ", "
        inside = between.join(f"({_text(v)})" if isinstance(v, tuple) else _text(v) for v in value[:_MOST])
        return (inside or "none") + (f", ... ({len(value)} in all)" if len(value) > _MOST else "")
    return str(value)
