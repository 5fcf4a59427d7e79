"""Results of sweeps over one or two settings: curves with confidence intervals, and maps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc.plot.look import RATE, SIZE, TIME, axis, colors, faded, figure, lean, unit_for

__all__ = ["MAX_CURVES", "sweep_figure"]

MAX_CURVES = 5
"""Maximum number of values of the second axis that are drawn as curves; more values make a map."""

_LOGARITHMIC = 30.0  # ratio of the ends of an axis from which it is logarithmic
_MAX_BARS = 30  # maximum number of values of a curve that have markers and bars; a longer curve has a band
_TICKS = 20  # maximum number of values of an axis of a map that each have a tick, at equal distances
_UNITS = {"bytes": SIZE, "bit/s": RATE, "s": TIME}
_PANEL = {False: 240, True: 300}  # height of a panel in pixels, of curves and of a map
_MIN_HEIGHT = 480  # pixels
_TITLE, _NOTE, _Y_TITLE = 40, 54, 24  # maximum characters of a line: of the title and note on a phone, of a y title
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_QUANTITY = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?( ?[A-Za-zµ%/]+)?")


@check_arguments(gaps=True)
def sweep_figure(
    axes: Mapping[str, Sequence[Any]],
    panels: Mapping[str, ArrayLike],
    half_widths: Mapping[str, ArrayLike] | None = None,
    title: str = "",
    note: str = "",
) -> go.Figure:
    """Return a figure of a sweep over one or two settings, with one panel for each metric.

    With one axis, a panel has one curve. With two, it has a curve for each value of the shorter axis if this axis has
    at most 5 values, and is a map of colors otherwise. An axis of texts, for example "10 Mb/s", has equal distances
    between its values. An axis of names, for example of protocols, has bars instead of curves. An axis of positive
    numbers is logarithmic if its ends differ by a factor of 30 or more.

    Parameters
    ----------
    axes : mapping
        Name of a setting -> its values, numbers or texts, for example {"protocol.alpha": [0.1, 0.5]}; one or two.
    panels : mapping
        Title of a metric with its unit in brackets, for example "mean queue [bytes]" -> values, shape (n,) or (n, m) as
        the axes; NaN for missing values.
    half_widths : mapping, optional
        Title of a metric -> half-width of the confidence interval of each value, in the same shape. Curves have them as
        bars, or as a band if they have more than 30 values, such as the samples of a series. Maps have them in the
        texts under the pointer.
    title : str, optional
    note : str, optional
        Remark below the title, for example the number of runs in a mean.

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        Without panels, or with other than one or two axes, if values have another shape than the axes, or if
        `half_widths` have a title that no panel has.

    Examples
    --------
    >>> axes = {"protocol.alpha": [0.1, 0.3, 0.5]}
    >>> figure = sweep_figure(axes, {"mean queue [bytes]": [0.0, 2e4, 5e4]}, {"mean queue [bytes]": [0.0, 1e3, 4e3]})
    >>> figure.layout.yaxis.title.text
    'mean queue [kB]'
    """
    shape = tuple(len(values) for values in axes.values())
    if not 1 <= len(axes) <= 2 or not panels or 0 in shape:
        raise ValueError(
            f"axes must be one or two with values, and panels at least one, got {shown(list(axes))} and {len(panels)}"
        )
    half_widths = half_widths or {}
    for name, values in [*panels.items(), *half_widths.items()]:
        if name not in panels:
            raise ValueError(f"half_widths must have the titles of panels ({', '.join(panels)}), got {shown(name)}")
        if np.shape(values) != shape:
            raise ValueError(f"values of {shown(name)} must have the shape {shape} of the axes, got {np.shape(values)}")
    is_map = len(axes) == 2 and min(shape) > MAX_CURVES
    fig = figure(height=max(_MIN_HEIGHT, 90 + _PANEL[is_map] * len(panels)))
    fig.update_layout(hovermode="closest" if is_map else "x unified", barmode="group", bargap=0.3)
    _add_heading(fig, title, note)
    for row, (name, values) in enumerate(panels.items()):
        data = np.asarray(values, dtype=float)
        spread = np.asarray(half_widths[name], dtype=float) if name in half_widths else None
        factor, label = _unit(name, data)
        scaled = data / factor, None if spread is None else spread / factor
        top = 1.0 - row / len(panels)
        domain = (top - 0.86 / len(panels), top)
        (_map if is_map else _curves)(fig, (row, len(panels)), axes, scaled, label, domain)
    return fig


def _add_heading(fig: go.Figure, title: str, note: str) -> None:
    """Draw the title and the note in lines that fit a phone."""
    titles, notes = wrap(title, _TITLE), wrap(note, _NOTE)
    if titles or notes:
        text = "<br>".join([*titles, *(f'<span style="font-size:12px">{line}</span>' for line in notes)])
        fig.update_layout(title={"text": text, "yref": "container", "y": 1.0, "yanchor": "top", "pad": {"t": 18}})
        fig.update_layout(margin_t=34 + 19 * len(titles) + 16 * len(notes))


def _unit(name: str, values: NDArray[np.float64]) -> tuple[float, str]:
    """Return the factor and the title of a metric with the unit that suits its values."""
    match = re.fullmatch(r"(.*) \[(.*)\]", name)
    if match is None or match[2] not in _UNITS or not np.isfinite(values).any():
        return 1.0, name
    factor, unit = unit_for(values, _UNITS[match[2]])
    return factor, f"{match[1]} [{unit}]"


def _texts(values: Sequence[Any]) -> list[str]:
    """Return the values of an axis of texts; large numbers have a prefix, for example 300M."""
    return [value if isinstance(value, str) else _number_text(value) for value in values]


def _number_text(value: float) -> str:
    factor, prefix = next((pair for pair in _PREFIXES if abs(value) >= pair[0]), (1.0, ""))
    return f"{value / factor:.6g}{prefix}"


def _setting_axis(name: str, values: Sequence[Any], has_texts: bool) -> dict[str, Any]:
    """Return the settings of the axis of a swept setting."""
    if has_texts:
        return axis(name) | {"type": "category", "categoryorder": "array", "categoryarray": _texts(values)}
    numbers = np.asarray(values, dtype=float)
    is_log = bool(numbers.min() > 0.0 and numbers.max() / numbers.min() >= _LOGARITHMIC)
    large = {"tickformat": "~s"} if numbers.max() >= _PREFIXES[-1][0] and not is_log else {}
    return axis(name, log=is_log, values=numbers) | large


def _has_texts(values: Sequence[Any], is_map: bool) -> bool:
    """Return True if an axis has its values as texts: some are texts, or the axis of a map has few values."""
    return any(isinstance(value, str) for value in values) or (is_map and len(values) <= _TICKS)


def _are_names(values: Sequence[Any]) -> bool:
    """Return True if an axis has texts other than quantities, between which no line has a meaning."""
    texts = [part for value in values if isinstance(value, str) for part in value.split(", ")]
    return not all(_QUANTITY.fullmatch(text.strip()) for text in texts)


def _places(values: Sequence[Any], has_texts: bool) -> list[Any]:
    """Return the places of values on their axis."""
    return _texts(values) if has_texts else [float(value) for value in values]


def _add_axes(
    fig: go.Figure, row: int, rows: int, x: dict[str, Any], y: dict[str, Any], domain: tuple[float, float]
) -> dict[str, str]:
    """Add the two axes of a panel and return the references of its traces. Only the last x axis has texts."""
    number = "" if row == 0 else str(row + 1)
    shared = {"matches": "x"} if row else {}
    bare = {} if row == rows - 1 else {"showticklabels": False, "title": None}
    fig.layout[f"xaxis{number}"] = x | {"anchor": f"y{number}"} | shared | bare
    fig.layout[f"yaxis{number}"] = y | {"anchor": f"x{number}", "domain": [max(0.0, domain[0]), domain[1]]}
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def _curves(
    fig: go.Figure,
    place: tuple[int, int],
    axes: Mapping[str, Sequence[Any]],
    data: tuple[NDArray[np.float64], NDArray[np.float64] | None],
    label: str,
    domain: tuple[float, float],
) -> None:
    """Draw a metric as one curve, or as one for each value of the shorter of two axes."""
    (x_name, x), *levels_axis = axes.items()
    values, spread = (None if part is None else np.reshape(part, (len(x), -1)) for part in data)
    assert values is not None
    names = [""]
    if levels_axis:
        (name, levels) = levels_axis[0]
        if len(x) < len(levels):
            (x_name, x), (name, levels) = (name, levels), (x_name, x)
            values, spread = values.T, None if spread is None else spread.T
        names = [f"{name} = {text}" for text in _texts(levels)]
    numbers = values + (0.0 if spread is None else np.nan_to_num(spread))
    has_texts = _has_texts(x, is_map=False)
    y_axis = axis("<br>".join(wrap(label, _Y_TITLE, break_long_words=False)), values=numbers)
    anchors = _add_axes(fig, *place, _setting_axis(x_name, x, has_texts), y_axis, domain)
    has_band = len(x) > _MAX_BARS and not has_texts
    for k, (name, color) in enumerate(zip(names, colors(len(names)), strict=True)):
        half_widths = None if spread is None else np.nan_to_num(spread[:, k])
        if has_band and half_widths is not None:
            _add_band(fig, anchors, x, values[:, k], half_widths, color, name)
        bars = None if half_widths is None or has_band else {"type": "data", "array": lean(half_widths)}
        shared: dict[str, Any] = {
            **anchors,
            "x": _places(x, has_texts),
            "y": lean(values[:, k]),
            "error_y": bars,
            "name": name or label,
            "legendgroup": name,
            "showlegend": bool(name) and place[0] == 0,
            "hovertemplate": f"{name}{': ' if name else ''}{label} %{{y:.5g}}<extra></extra>",
        }
        if _are_names(x):
            fig.add_bar(**shared, marker={"color": color}, offsetgroup=name)
            fig.layout[anchors["yaxis"].replace("y", "yaxis")].rangemode = "tozero"
        else:
            line = {"line": {"color": color, "width": 1.8}, "marker": {"size": 6}}
            fig.add_scatter(**shared, mode="lines" if has_band else "lines+markers", **line)
    if len(names) > 1 and place[0] == 0:  # the legend is below the title of the x axis
        fig.update_layout(margin_b=72 + 20 * len(names), height=fig.layout.height + 20 * len(names))


def _add_band(
    fig: go.Figure,
    anchors: Mapping[str, str],
    x: Sequence[Any],
    values: NDArray[np.float64],
    half_widths: NDArray[np.float64],
    color: str,
    group: str,
) -> None:
    """Draw the area of the intervals of a curve."""
    known = np.isfinite(values)
    at, low, high = np.asarray(x, float)[known], (values - half_widths)[known], (values + half_widths)[known]
    fig.add_scatter(
        **anchors,
        x=lean(np.r_[at, at[::-1]]),
        y=lean(np.r_[high, low[::-1]]),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=faded(color, 0.25),
        hoverinfo="skip",
        legendgroup=group,
        showlegend=False,
    )


def _map(
    fig: go.Figure,
    place: tuple[int, int],
    axes: Mapping[str, Sequence[Any]],
    data: tuple[NDArray[np.float64], NDArray[np.float64] | None],
    label: str,
    domain: tuple[float, float],
) -> None:
    """Draw a metric over two axes as colors."""
    (x_name, x), (y_name, y) = axes.items()
    values, spread = data
    has_texts = [_has_texts(part, is_map=True) for part in (x, y)]
    settings = [_setting_axis(name, part, texts) for (name, part), texts in zip(axes.items(), has_texts, strict=True)]
    anchors = _add_axes(fig, *place, settings[0], settings[1], domain)
    half_widths = np.zeros(values.shape) if spread is None else spread
    texts = np.full(values.shape, "", dtype=object)
    for k, m in product(*map(range, values.shape)):
        texts[k, m] = "" if spread is None else f" ± {half_widths[k, m]:.2g}"
    fig.add_heatmap(
        **anchors,
        x=_places(x, has_texts[0]),
        y=_places(y, has_texts[1]),
        z=lean(values.T),
        text=texts.T.tolist(),
        colorscale="Cividis",
        name=label,
        colorbar={
            "title": {"text": label, "side": "right"},
            "outlinewidth": 0,
            "thickness": 14,
            "len": max(0.05, domain[1] - domain[0]),
            "y": 0.5 * (domain[0] + domain[1]),
        },
        hovertemplate=f"{x_name} = %{{x}}<br>{y_name} = %{{y}}<br>{label}: %{{z:.5g}}%{{text}}<extra></extra>",
    )
