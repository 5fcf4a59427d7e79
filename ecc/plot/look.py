"""The look that all figures share: colors, template, units, and the thinning of long series."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io
from numpy.typing import ArrayLike, NDArray
from plotly.colors import sample_colorscale

__all__ = [
    "GREY",
    "INK",
    "PALETTE",
    "RATE",
    "SIZE",
    "TIME",
    "as_html",
    "averaged",
    "axis",
    "buckets_for",
    "colors",
    "decoded",
    "faded",
    "figure",
    "lean",
    "line_mode",
    "marker",
    "thinned",
    "unit_for",
]

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's colors without the yellow: distinguished by color-blind readers and in print."""
INK = "#222222"
GREY = "#767676"

Units = Sequence[tuple[float, str]]
RATE: Units = ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "bit/s"))
SIZE: Units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
TIME: Units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")
_FEW = 20  # maximum number of values in a series that is drawn with markers
_CROWD = 100  # markers of a series: more are drawn smaller, because they overlap
_POINTS = 9_000  # maximum number of points in a figure, over all of its series: about 100 kB of JSON
_AXIS = {
    "showline": True,
    "linecolor": INK,
    "linewidth": 1,
    "ticks": "outside",
    "ticklen": 5,
    "tickcolor": INK,
    "gridcolor": "#e9e9e9",
    "zeroline": False,
    "automargin": True,
    "title": {"standoff": 8},
    "exponentformat": "none",
    "separatethousands": True,
}
_DECADES = 3.0  # maximum span of a logarithmic axis that has room for plain numbers at 1, 2, 5
_PLAIN: dict[str, Any] = {"dtick": "D2", "tickformat": "~g"}
_POWERS: dict[str, Any] = {"dtick": 1, "exponentformat": "power"}
_TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif", "size": 13, "color": INK},
        "title": {"x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 15}},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "colorway": PALETTE,
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"},
        "hoverlabel": {"bgcolor": "white", "font": {"color": INK, "size": 12}},
        "margin": {"l": 64, "r": 16, "t": 28, "b": 52},
        "sliderdefaults": {"bgcolor": "#d0d0d0", "bordercolor": GREY, "tickcolor": INK},
        "modebar": {"remove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"]},  # nothing leaves the page
    }
)

plotly.io.templates["ecc"] = _TEMPLATE
"""Figures of users have the same look with `template="ecc"`."""


def figure(base: go.Figure | None = None, *, title: str = "", height: int = 420) -> go.Figure:
    """Return a figure (`base`, or an empty one) in the shared look.

    Parameters
    ----------
    base : Figure, or None
    title : str, optional
    height : int, optional
        Height in pixels.
    """
    fig = go.Figure() if base is None else base
    fig.update_layout(template=_TEMPLATE, height=height)
    if title:
        fig.update_layout(title_text=title, margin_t=56)
    return fig


def colors(count: int) -> list[str]:
    """Return `count` colors: the palette, or steps of a color-blind-safe scale if the palette is too short.

    Parameters
    ----------
    count : int
    """
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    return [str(color) for color in sample_colorscale("Cividis", np.linspace(0.0, 0.85, count).tolist())]


def faded(color: str, opacity: float) -> str:
    """Return a "#rrggbb" color with an opacity.

    Parameters
    ----------
    color : str
    opacity : float, in [0, 1]
    """
    red, green, blue = (int(color[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def axis(title: str, log: bool = False, values: ArrayLike = ()) -> dict[str, Any]:
    """Return the settings of an axis, linear or logarithmic.

    Ticks of a logarithmic axis are plain numbers at 1, 2, 5, or powers of ten if it has many decades or numbers of many
    digits. If the values on a linear axis are a few integers, only these have ticks.

    Parameters
    ----------
    title : str
        Title with unit, for example "time [s]".
    log : bool, optional
        Whether the axis is logarithmic.
    values : array, optional
        Values drawn along the axis.
    """
    settings: dict[str, Any] = {"title": {"text": title}}
    drawn = np.asarray(values, dtype=float)
    drawn = drawn[np.isfinite(drawn) & ((drawn > 0.0) | (not log))]
    if log:
        few = drawn.size == 0 or np.log10(drawn.max() / drawn.min()) <= _DECADES
        short = drawn.size == 0 or (drawn.min() >= 1e-4 and drawn.max() < 1e6)
        return settings | {"type": "log"} | (_PLAIN if few and short else _POWERS)
    counts = drawn.size > 1 and bool(np.all(drawn == np.round(drawn))) and 0.0 < np.ptp(drawn) <= 12.0
    return settings | ({"dtick": 1} if counts else {})


def line_mode(values: ArrayLike) -> str:
    """Return the mode of a line: with markers if there are few values, which a line alone does not show.

    A line through one value is invisible, and one through five looks like a curve with corners; a level needs no
    markers.

    Parameters
    ----------
    values : array_like, shape (n,)
        Values of the line; NaN for gaps.
    """
    finite = np.isfinite(np.asarray(values, dtype=float))
    drawn = np.asarray(values, dtype=float)[finite]
    if not 0 < drawn.size <= _FEW:
        return "lines"
    padded = np.concatenate([[False], finite, [False]])
    isolated = bool(np.any(finite & ~padded[:-2] & ~padded[2:]))
    return "lines+markers" if isolated or np.ptp(drawn) > 0.0 else "lines"


def marker(color: str, index: int, hollow: bool = False, count: int = 1) -> dict[str, Any]:
    """Return the marker of one of several series; markers are hollow or decrease in size, to leave others visible.

    Parameters
    ----------
    color : str
    index : int
        Index of the series.
    hollow : bool, optional
    count : int, optional
        Number of markers of a hollow series.
    """
    symbol = _SYMBOLS[index % len(_SYMBOLS)]
    if hollow:
        size, width = (9, 2) if count <= _CROWD else (5, 1)
        return {"color": color, "size": size, "symbol": f"{symbol}-open", "line": {"width": width, "color": color}}
    return {"color": color, "size": max(6, 12 - 2 * index), "symbol": symbol}


def unit_for(values: ArrayLike, units: Units) -> tuple[float, str]:
    """Return (factor, name) of the largest unit in which the largest value is >= 1; the base unit if all are 0.

    Parameters
    ----------
    values : array_like
        Array in the base unit.
    units : Units
        (factor, name), largest first.
    """
    finite = np.abs(np.asarray(values, dtype=float))
    finite = finite[np.isfinite(finite)]
    top = float(finite.max()) if finite.size else 0.0
    if top == 0.0:
        return next((unit for unit in units if unit[0] == 1.0), units[-1])
    return next((unit for unit in units if top >= unit[0]), units[-1])


def buckets_for(series: int) -> int:
    """Return the number of buckets for thinning each of several series, which keeps a figure small.

    Parameters
    ----------
    series : int
        Number of series in the figure.
    """
    return max(40, min(800, _POINTS // (2 * max(1, series))))


def thinned(x: ArrayLike, y: ArrayLike, buckets: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return a series thinned to the extremes of each bucket, which draws the same line.

    Parameters
    ----------
    x, y : array_like, shape (n,)
    buckets : int
        Number of buckets, about one for each pixel of width; a series of up to 2 * buckets points is not thinned.

    Returns
    -------
    x, y : NDArray[float32], shape (m,)
        Thinned series with m <= 2 * buckets + 2, including the first and the last point.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(xs) <= 2 * buckets:
        return lean(xs), lean(ys)
    edges = np.linspace(0, len(xs), buckets + 1).astype(int)
    low, high = np.where(np.isnan(ys), np.inf, ys), np.where(np.isnan(ys), -np.inf, ys)
    keep = {0, len(xs) - 1}
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        keep |= {begin + int(low[begin:end].argmin()), begin + int(high[begin:end].argmax())}
    chosen = sorted(keep)
    return lean(xs[chosen]), lean(ys[chosen])


def averaged(x: ArrayLike, y: ArrayLike, buckets: int) -> tuple[NDArray[np.float32], ...]:
    """Return the mean, the minimum and the maximum of a series in each bucket, for a line and a band around it.

    The extremes of buckets alone would fill the whole band with the color of the line, for example if a rate is
    measured over times of few packets. A bucket without finite values is a gap.

    Parameters
    ----------
    x, y : array_like, shape (n,)
    buckets : int
        Number of buckets, at most n.

    Returns
    -------
    x, mean, low, high : NDArray[float32], shape (buckets + 1,)
        The first point is that of the series; the others stand at the end of their bucket.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    edges = np.linspace(0, len(xs), buckets + 1).astype(int)
    finite = np.isfinite(ys)
    counts = np.add.reduceat(finite, edges[:-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.add.reduceat(np.where(finite, ys, 0.0), edges[:-1]) / counts
    low = np.minimum.reduceat(np.where(finite, ys, np.inf), edges[:-1])
    high = np.maximum.reduceat(np.where(finite, ys, -np.inf), edges[:-1])
    low, high = (np.where(counts > 0, bound, np.nan) for bound in (low, high))
    ends = np.r_[xs[0], xs[edges[1:] - 1]]
    return lean(ends), *(lean(np.r_[ys[0], values]) for values in (mean, low, high))


def lean(values: Any) -> NDArray[np.float32]:
    """Return an array in single precision, which takes half the bytes of double and looks the same on a screen.

    Parameters
    ----------
    values : array
    """
    return np.asarray(values, dtype=np.float32)


def decoded(values: Any) -> NDArray[np.float64]:
    """Return a series of a trace as an array, decoded if Plotly stores it in base 64, as after reading JSON.

    Parameters
    ----------
    values : array
        Array, or {"bdata": ..., "dtype": ...}.
    """
    if isinstance(values, Mapping):
        values = np.frombuffer(b64decode(values["bdata"]), values["dtype"])
    return np.asarray(values, dtype=float)


_PAGE_HEAD = (
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>'
    "@media screen and (prefers-color-scheme: dark) { html { color-scheme: dark; background: #141414; } "
    ".plotly-graph-div { filter: invert(0.9216) hue-rotate(180deg); } } "
    "@media (max-width: 600px) { .modebar-container { display: none; } }</style>"
)
"""Width of phones, on which buttons would cover the title, and the colors of dark mode.

White becomes the color of the page, and hues remain.
"""


_ARROW_KEYS = """
const plot = document.getElementById("{plot_id}");
plot.addEventListener("keydown", async event => {
  const step = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1}[event.key];
  const {active = 0, steps} = plot.layout.sliders[0];
  if (!step || !steps[active + step]) return;
  event.preventDefault();
  plot.layout.sliders[0].active = active + step;
  await Plotly.update(plot, ...steps[active + step].args);
});
"""
"""Arrow keys move the slider of a figure that has the focus; Plotly's own answers to pointers alone."""


def as_html(drawn: go.Figure, page: bool = True) -> str:
    """Return a figure as HTML with an alternative text: its title, the titles of its axes, and the names of its curves.

    The slider of a figure follows the arrow keys.

    Parameters
    ----------
    drawn : Figure
    page : bool, optional
        Whether to return a complete page that works without a network; if not, a part of a page with Plotly's script.
    """
    layout = drawn.layout
    titles = [layout[key].title.text for key in sorted(layout) if re.fullmatch(r"[xy]axis\d*", key)]
    names = [trace.name for trace in drawn.data if trace.name and trace.showlegend is not False]
    texts = [
        layout.title.text or "Figure",
        ", ".join(dict.fromkeys(filter(None, titles))),
        ", ".join(dict.fromkeys(names)),
    ]
    texts = [" ".join(re.sub(r"</?(br|span)\b[^>]*>", " ", text).split()) for text in texts]
    text = ": ".join(filter(None, texts[:2])) + (f". Curves: {texts[2]}." if texts[2] else ".")
    keys = _ARROW_KEYS if layout.sliders else None
    html = str(drawn.to_html(include_plotlyjs=page, full_html=page, config={"displaylogo": False}, post_script=keys))
    if page:
        html = html.replace("<head>", f"<head><title>{escape(texts[0])}</title>{_PAGE_HEAD}", 1)
    before, place, rest = html.rpartition('class="plotly-graph-div"')
    role = 'role="application" tabindex="0"' if keys else 'role="img"'
    return f'{before}{place} {role} aria-label="{escape(text)}"{rest}'
