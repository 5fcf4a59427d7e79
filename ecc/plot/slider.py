"""Several figures of one kind in one figure, selected by a slider or side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ecc._support.arguments import check_arguments
from ecc.plot.look import RATE, SIZE, Units, decoded, figure, lean, unit_for

__all__ = ["slider_figure", "small_multiples_figure"]

_HEADROOM = 1.05  # end of an axis, relative to the largest value of all figures


@check_arguments(gaps=True)
def slider_figure(figures: Mapping[str, go.Figure], name: str = "", first: int = 0) -> go.Figure:
    """Return a figure that shows one of several, selected by a slider, which works without a kernel and in saved pages.

    Each position has the title, axes, shapes and annotations of its figure. Rates and sizes are drawn in one unit at
    all positions, panels stay at their places, and axes keep their range, so that positions can be compared.

    Parameters
    ----------
    figures : mapping
        Label -> plotly Figure, all with the same panels; a panel that a figure lacks is hidden at its position.
    name : str, optional
        Text before the label, for example "alpha = ".
    first : int, optional
        Index of the figure that is shown first, from 0 to len(figures) - 1.

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If figures are missing, or if `first` is out of range.

    Examples
    --------
    >>> figures = {f"alpha = {a}": ecc.plot.root_figure({"roots": [-a + 1j, -a - 1j]}) for a in (0.5, 1.0)}
    >>> len(slider_figure(figures).layout.sliders[0].steps)
    2
    """
    if not figures:
        raise ValueError("figures must have at least one figure, got {}")
    if not 0 <= first < len(figures):
        raise ValueError(f"first must be 0 to {len(figures) - 1} for {len(figures)} figures, got {first}")
    parts = [go.Figure(part) for part in figures.values()]  # copies
    for units in (RATE, SIZE):
        _use_one_unit(parts, units)
    _give_all_axes(parts)
    _keep_ranges(parts)
    owners = [k for k, part in enumerate(parts) for _ in part.data]
    fig = go.Figure([trace for part in parts for trace in part.data], parts[first].layout)
    for trace, owner in zip(fig.data, owners, strict=True):
        trace.visible = owner == first
    steps = [
        {"method": "update", "label": label, "args": [{"visible": [owner == k for owner in owners]}, layout]}
        for k, (label, layout) in enumerate(zip(figures, _differences(parts), strict=True))
    ]
    pad = {"t": 60, "r": 4 * len(list(figures)[-1])}  # half of the last label extends beyond the end of the slider
    fig.update_layout(
        sliders=[{"steps": steps, "active": first, "currentvalue": {"prefix": name}, "pad": pad}],
        height=max(part.layout.height or 450 for part in parts) + 90,
    )
    return fig


def _use_one_unit(parts: Sequence[go.Figure], units: Units) -> None:
    """Redraw y axes if their traces name one of these units: all in the unit of the geometric mean of the peaks."""
    for axis in sorted({trace.yaxis or "y" for part in parts for trace in part.data}):
        drawn = [
            (part, trace, decoded(trace.y))
            for part in parts
            for trace in part.data
            if (trace.yaxis or "y") == axis and tuple(trace.meta or ()) in units
        ]
        peaks = [
            max(
                trace.meta[0] * np.abs(y[np.isfinite(y)]).max(initial=0.0) for owner, trace, y in drawn if owner is part
            )
            for part in parts
            if any(owner is part for owner, *_ in drawn)
        ]
        middle = np.exp(np.mean(np.log([peak for peak in peaks if peak > 0.0] or [1.0])))
        factor, unit = unit_for([middle], units)
        for part, trace, y in drawn:
            title = part.layout[axis.replace("y", "yaxis")].title
            title.text = (title.text or "").replace(f"[{trace.meta[1]}]", f"[{unit}]")
            trace.y, trace.meta = lean(y * (trace.meta[0] / factor)), [factor, unit]


def _give_all_axes(parts: Sequence[go.Figure]) -> None:
    """Give each figure the axes of all at one place; those that it lacks are invisible: Plotly cannot remove an axis.

    The places are those of the figure with the most axes, so that its panels do not move when the slider does.
    """
    layouts = [_axes_of(part) for part in parts]
    largest = max(layouts, key=len)
    settings = {key: axis for layout in [*layouts, largest] for key, axis in layout.items()}
    for axis, of_another in settings.items():
        domain = of_another.get("domain", [0.0, 1.0])
        for part, layout in zip(parts, layouts, strict=True):
            part.layout[axis] = layout.get(axis, of_another) | {"domain": domain, "visible": axis in layout}


def _axes_of(part: go.Figure) -> dict[str, dict[str, Any]]:
    return {key: axis for key, axis in part.layout.to_plotly_json().items() if re.fullmatch(r"[xy]axis\d*", key)}


def _keep_ranges(parts: Sequence[go.Figure]) -> None:
    """Give an axis one range in all figures, if it has a range in each, or shows numbers from 0 in one unit in each."""
    layouts = [_axes_of(part) for part in parts]
    for axis in layouts[0]:
        settings = [layout[axis] for layout in layouts]
        ranges = [setting["range"] for setting in settings if setting.get("range") is not None]
        from_zero = all(setting.get("rangemode") == "tozero" and setting.get("type") != "log" for setting in settings)
        alike = len({setting.get("title", {}).get("text") for setting in settings}) == 1
        if axis.startswith("y") and not ranges and from_zero and alike:
            drawn = [decoded(t.y) for part in parts for t in part.data if (t.yaxis or "y") == axis.replace("axis", "")]
            values = np.concatenate([np.zeros(1), *drawn])
            values = values[np.isfinite(values)]
            ranges = [[float(values.min()), float(values.max()) * _HEADROOM or 1.0]]
        elif len(ranges) < len(parts):
            continue
        widest = [min(low for low, _ in ranges), max(high for _, high in ranges)]
        for part in parts:
            part.layout[axis].range = widest


def _differences(parts: Sequence[go.Figure]) -> list[dict[str, Any]]:
    """Return, for each figure, the settings of its layout in which the figures differ: dotted path -> value."""
    layouts = [dict(_settings(part.layout.to_plotly_json())) for part in parts]
    ranges = {path for layout in layouts for path in layout if re.fullmatch(r"[xy]axis\d*\.range", path)}
    for layout in layouts:
        for path in ranges:  # without a range, Plotly fits the axis to the visible data
            layout.setdefault(path.replace("range", "autorange"), path not in layout)
    paths = [
        path
        for path in dict.fromkeys(path for layout in layouts for path in layout)
        if path not in ("height", "template") and any(layout.get(path) != layouts[0].get(path) for layout in layouts)
    ]
    return [{path: layout.get(path) for path in paths} for layout in layouts]


def _settings(layout: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested settings by dotted path; a list, such as the shapes, is one setting."""
    for key, value in layout.items():
        if isinstance(value, Mapping) and key != "template":
            yield from _settings(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


@check_arguments(gaps=True)
def small_multiples_figure(figures: Mapping[str, go.Figure], columns: int = 2, title: str = "") -> go.Figure:
    """Return a figure that shows several side by side, row by row, for comparison at a glance.

    Rates and sizes are drawn in one unit in all of them. Axes of the same panel have one range, unless their peaks
    differ by more than a factor of 10: then the ranges are separate. Curves of one name share an entry of the legend.

    Parameters
    ----------
    figures : mapping
        Label -> plotly Figure, all with the same panels; the label is drawn above the figure.
    columns : int, >= 1, optional
        Number of figures in a row.
    title : str, optional

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If figures or columns are missing, or if figures have different panels.

    Examples
    --------
    >>> figures = {f"alpha = {a}": ecc.plot.root_figure({"roots": [-a + 1j, -a - 1j]}) for a in (0.5, 1.0)}
    >>> len(small_multiples_figure(figures).data)
    4
    """
    if columns < 1 or not figures:
        raise ValueError(f"columns and figures must be 1 or more, got {columns} and {len(figures)}")
    parts = [go.Figure(part) for part in figures.values()]  # copies
    panels = [_axes(part, "y") for part in parts]
    if any(axes != panels[0] for axes in panels):
        counts = " and ".join(str(len(axes)) for axes in panels)
        raise ValueError(f"figures must have the same panels, got {counts} panels")
    for units in (RATE, SIZE):
        _use_one_unit(parts, units)
    columns = min(columns, len(parts))
    rows = -(-len(parts) // columns)
    labels = {label: wrap(label, 112 // columns, break_long_words=False) or [""] for label in figures}
    above = 10 + 16 * max(map(len, labels.values()))  # pixels: height of the labels, and of the ticks below
    cell = 0.72 * max(part.layout.height or 420 for part in parts)
    fig = figure(title=title, height=round(cell * rows) + 90)
    one_range = {axis: _alike(parts, axis) for letter in "xy" for axis in _axes(parts[0], letter)}
    named: set[tuple[str, str]] = set()
    for k, (lines, part) in enumerate(zip(labels.values(), parts, strict=True)):
        row, column = divmod(k, columns)
        domain = {
            "x": ((column + 0.08 * (column > 0)) / columns, (column + 1.0 - 0.08 * (column < columns - 1)) / columns),
            "y": (1.0 - (row + 1.0 - 46.0 / cell) / rows, 1.0 - (row + above / cell) / rows),
        }
        number = {axis: str(k * len(panels[0]) + int(axis[1:] or 1)) if k or axis[1:] else "" for axis in one_range}
        for axis, shared in one_range.items():
            (low, high), settings = domain[axis[0]], part.layout[_long(axis)].to_plotly_json()
            begin, end = settings.get("domain", (0.0, 1.0))
            settings |= {
                "domain": [low + (high - low) * begin, low + (high - low) * end],
                "anchor": ("y" if axis[0] == "x" else "x") + number[axis],
                "matches": axis if shared and k else None,
            }
            if shared and len({each.layout[_long(axis)].dtick for each in parts}) > 1:
                settings["dtick"] = None  # ticks at each whole number of a short range would crowd a longer one
            if "scaleanchor" in settings:
                settings["scaleanchor"] = _moved(settings["scaleanchor"], number)
            if (
                column if axis[0] == "y" else k + columns < len(parts)
            ):  # another figure of this row or column has the title
                settings["title"] = None
            fig.layout[_long(axis[0] + number[axis])] = settings
        for trace in part.data:
            entry = (str(trace.legendgroup or trace.name), str(getattr(getattr(trace, "line", None), "color", "")))
            trace.update(
                xaxis="x" + number[trace.xaxis or "x"],
                yaxis="y" + number[trace.yaxis or "y"],
                legendgroup=" ".join(entry),
                showlegend=trace.showlegend is not False and entry not in named,
            )
            if trace.showlegend:
                named.add(entry)
            fig.add_trace(trace)
        for shape in part.layout.shapes:
            fig.add_shape(shape, xref=_moved(shape.xref, number), yref=_moved(shape.yref, number))
        fig.add_annotation(
            text="<br>".join(lines),
            x=domain["x"][0],
            y=domain["y"][1],
            xref="paper",
            yref="paper",
            align="left",
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
        )
    fig.update_layout(hovermode=parts[0].layout.hovermode)
    return fig


def _axes(part: go.Figure, letter: str) -> list[str]:
    """Return the axes of a figure as its traces name them: "y", "y2", ..."""
    laid_out = [key for key in part.layout.to_plotly_json() if re.fullmatch(rf"{letter}axis\d*", key)]
    drawn_on = [trace[f"{letter}axis"] or letter for trace in part.data]
    return sorted({key.replace("axis", "") for key in (*laid_out, *drawn_on)})


def _long(axis: str) -> str:
    """Return the name of an axis in a layout: "yaxis2" for "y2"."""
    return f"{axis[0]}axis{axis[1:]}"


def _moved(reference: str | None, number: Mapping[str, str]) -> str | None:
    """Return the reference of a shape, for example "y2 domain", with the axis numbers of another figure."""
    axis, _, rest = (reference or "").partition(" ")
    return f"{axis[0]}{number[axis]} {rest}".strip() if axis in number else reference


def _alike(parts: Sequence[go.Figure], axis: str) -> bool:
    """Return whether the data of the figures along an axis have one magnitude, and their ranges do not differ."""
    if len({part.layout[_long(axis)].range for part in parts}) > 1:
        return False
    peaks = []
    for part in parts:
        drawn = [decoded(trace[axis[0]]) for trace in part.data if (trace[f"{axis[0]}axis"] or axis[0]) == axis]
        values = np.abs(np.concatenate(drawn)) if drawn else np.zeros(0)
        peaks.append(float(values[np.isfinite(values)].max(initial=0.0)))
    return max(peaks) <= 10.0 * min(peaks)
