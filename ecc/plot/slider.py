"""Several figures of one kind as one, with a slider to go from one to the next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ecc.arguments import check_arguments
from ecc.plot.look import RATE, SIZE, Units, decoded, lean, unit_for

__all__ = ["slider_figure"]


@check_arguments(gaps=True)
def slider_figure(figures: Mapping[str, go.Figure], name: str = "", first: int = 0) -> go.Figure:
    """Return one figure that shows one of several, as a slider says; it moves without a kernel, in a saved page too.

    Each position has the title, axes, shapes and annotations of its own figure. Rates and sizes are drawn in one unit
    at all positions, so that numbers can be compared across them.

    Parameters
        figures : label -> plotly Figure, all with the same panels.
        name : str, shown before the label, such as "alpha = ".
        first : int, 0 to len(figures) - 1: the figure that is shown to begin with.
    Returns
        plotly Figure.
    Raises
        ValueError: no figures, or no figure of that number.
    """
    if not 0 <= first < len(figures):
        raise ValueError(f"first must be 0 to {len(figures) - 1} for {len(figures)} figures, got {first}")
    parts = [go.Figure(part) for part in figures.values()]  # copies
    for units in (RATE, SIZE):
        _use_one_unit(parts, units)
    owners = [k for k, part in enumerate(parts) for _ in part.data]
    made = go.Figure([trace for part in parts for trace in part.data], parts[first].layout)
    for trace, owner in zip(made.data, owners, strict=True):
        trace.visible = owner == first
    steps = [
        {"method": "update", "label": label, "args": [{"visible": [owner == k for owner in owners]}, layout]}
        for k, (label, layout) in enumerate(zip(figures, _differences(parts), strict=True))
    ]
    pad = {"t": 60, "r": 4 * len(list(figures)[-1])}  # half of the last label stands beyond the end of the slider
    made.update_layout(
        sliders=[{"steps": steps, "active": first, "currentvalue": {"prefix": name}, "pad": pad}],
        height=max(part.layout.height or 450 for part in parts) + 90,
    )
    return made


def _use_one_unit(parts: Sequence[go.Figure], units: Units) -> None:
    """Redraw y axes whose traces name one of these units: all in the unit of the geometric mean of the peaks."""
    for axis in sorted({trace.yaxis or "y" for part in parts for trace in part.data}):
        drawn = [
            (part, trace, decoded(trace.y))
            for part in parts
            for trace in part.data
            if (trace.yaxis or "y") == axis and tuple(trace.meta or ()) in units
        ]
        peaks = [
            max(trace.meta[0] * np.abs(y[np.isfinite(y)]).max(initial=0.0) for of, trace, y in drawn if of is part)
            for part in parts
            if any(of is part for of, *_ in drawn)
        ]
        middle = np.exp(np.mean(np.log([peak for peak in peaks if peak > 0.0] or [1.0])))
        factor, unit = unit_for([middle], units)
        for part, trace, y in drawn:
            title = part.layout[axis.replace("y", "yaxis")].title
            title.text = (title.text or "").replace(f"[{trace.meta[1]}]", f"[{unit}]")
            trace.y, trace.meta = lean(y * (trace.meta[0] / factor)), [factor, unit]


def _differences(parts: Sequence[go.Figure]) -> list[dict[str, Any]]:
    """For each figure, the settings of its layout in which the figures differ: dotted path -> value."""
    layouts = [dict(_settings(part.layout.to_plotly_json())) for part in parts]
    ranges = {path for layout in layouts for path in layout if re.fullmatch(r"[xy]axis\d*\.range", path)}
    for layout in layouts:
        for path in ranges:  # an axis without a range is one that Plotly fits to what is shown
            layout.setdefault(path.replace("range", "autorange"), path not in layout)
    paths = [
        path
        for path in dict.fromkeys(path for layout in layouts for path in layout)
        if path not in ("height", "template") and any(layout.get(path) != layouts[0].get(path) for layout in layouts)
    ]
    return [{path: layout.get(path) for path in paths} for layout in layouts]


def _settings(layout: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested settings by dotted path; a list, such as the shapes, is one setting."""
    for key, value in layout.items():
        if isinstance(value, Mapping) and key != "template":
            yield from _settings(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
