"""Stability boundaries with measured points, envelopes of perturbations, and maps of stability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from ecc._support.arguments import Matrix, Vector, check_arguments, shown
from ecc.plot.look import INK, PALETTE, axis, buckets_for, colors, faded, figure, lean, line_mode, marker, thinned

__all__ = ["boundary_figure", "envelope_figure", "stability_map_figure"]

_MAX_LINE = 40  # characters of a line of the y title: a longer one would exceed the axis
_BEYOND = 2.5  # largest gain that is shown at first, as a multiple of the last end of a stable range
_EN_SPACE = "\u2002"
_BELOW_ABOVE = ((0.0, PALETTE[0]), (0.5, "#d9eaf3"), (0.5, "#fae7d9"), (1.0, PALETTE[1]))
"""Colors of a map: even next to the threshold, both sides differ from each other and from white, a missing value."""


@check_arguments(gaps=True)
def boundary_figure(
    x: Vector,
    curves: Mapping[str, ArrayLike],
    published: Mapping[str, ArrayLike] | None = None,
    points: Mapping[str, tuple[ArrayLike, ArrayLike, Any]] | None = None,
    x_title: str = "RTT [s]",
    y_title: str = "critical gain",
    log_x: bool = True,
    log_y: bool = False,
    title: str = "",
    errors: Mapping[str, ArrayLike] | None = None,
) -> go.Figure:
    """Return stability boundaries as lines, published bounds dashed, measured boundaries as markers.

    Parameters
    ----------
    x : Vector, shape (n,)
        Abscissa of the curves, in the unit that `x_title` names.
    curves : mapping
        Name -> shape (n,), computed boundaries; infinite and NaN values leave gaps, few values get markers.
    published : mapping, optional
        Name -> shape (n,) or one number, bounds of the papers.
    points : mapping, optional
        Name -> (x, y, error), each of shape (m,); error: half-width, a pair (below, above), or None.
    x_title, y_title : str, optional
        Titles of the axes with units, for example "RTT [s]".
    log_x, log_y : bool, optional
        Whether axes are logarithmic.
    title : str, optional
    errors : mapping, optional
        Name of a curve -> shape (n,), half-widths of intervals, drawn as bars.

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If errors have a name that no curve has, or if a curve has another shape.

    Examples
    --------
    >>> figure = boundary_figure([0.1, 0.2], {"QI-RCP": [1.57, 1.57]}, published={"bound": [1.0, 1.0]})
    >>> len(figure.data)
    2
    """
    at = np.asarray(x, dtype=float)
    fig = figure(title=title, height=440)
    published, points, errors = published or {}, points or {}, errors or {}
    for name in errors:
        if name not in curves and name not in published:
            raise ValueError(f"errors must have the names of curves ({', '.join(curves)}), got {shown(name)}")
    drawn: list[np.ndarray] = [np.zeros(0)]
    palette = colors(len(curves) + len(published) + len(points))
    lines = [(name, y, "solid") for name, y in curves.items()] + [(name, y, "dash") for name, y in published.items()]
    for (name, y, dash), color in zip(lines, palette, strict=False):
        if np.shape(y) not in (at.shape, ()):
            raise ValueError(f"curves must have the shape {at.shape} of x, got {np.shape(y)} ({name!r})")
        values = np.broadcast_to(np.asarray(y, dtype=float), at.shape)
        values = np.where(np.isfinite(values), values, np.nan)
        drawn.append(values)
        fig.add_scatter(
            **dict(zip("xy", thinned(at, values, len(at) if name in errors else buckets_for(len(lines))), strict=True)),
            name=name,
            mode=line_mode(values),
            line={"color": color, "width": 2, "dash": dash},
            error_y=_bars(errors.get(name)),
            hovertemplate=f"{name}: %{{y:.6g}}<extra></extra>",
        )
    markers = zip(points.items(), palette[len(lines) :], strict=True)
    for k, ((name, (px, py, error)), color) in enumerate(markers):
        fig.add_scatter(
            x=np.asarray(px, dtype=float),
            y=np.asarray(py, dtype=float),
            error_y=_bars(error),
            name=name,
            mode="markers",
            marker=marker(color, k, hollow=True, count=np.size(px)),
            hovertemplate=f"{name}: %{{y:.6g}}<extra></extra>",
        )
        at = np.append(at, np.asarray(px, dtype=float))
        drawn.append(np.atleast_1d(np.asarray(py, dtype=float)))
    fig.update_layout(hovermode="x unified")
    fig.update_xaxes(**axis(x_title, log_x, at), hoverformat=".4g")
    fig.update_yaxes(**axis("<br>".join(wrap(y_title, _MAX_LINE)), log_y, np.concatenate(drawn)))
    return fig


def limit_figure(
    gains: ArrayLike,
    counts: ArrayLike,
    stable: Sequence[tuple[float, float]],
    limit: tuple[float, str],
    x_title: str,
    title: str = "",
) -> go.Figure:
    """Return the number of unstable roots over a gain, with the stable ranges shaded and the limit labelled.

    Parameters
    ----------
    gains, counts : array_like, shape (n,)
        Corners of the staircase.
    stable : sequence of tuple of two float
        Stable ranges of the gain.
    limit : tuple of float and str
        The limit, and its label; an empty label draws no limit.
    x_title, title : str

    Returns
    -------
    plotly Figure
    """
    at, number = np.asarray(gains, dtype=float), np.asarray(counts, dtype=float)
    value, label = limit
    ends = [end for _, end in stable if end < at[-1]]
    right = min(at[-1], _BEYOND * max([*ends, value if label else 0.0])) or at[-1]
    log = len(stable) > 1
    left = 0.0 if not log else 0.4 * min(end for pair in stable for end in pair if end > 0.0)
    fig = boundary_figure(
        np.maximum(at, left),
        {"unstable roots": number},
        log_x=log,
        x_title=x_title,
        y_title="unstable roots",
        title=title,
    )
    for k, (low, high) in enumerate(stable):
        edges = {"x0": max(low, left), "x1": min(high, at[-1]), "line_width": 0, "layer": "below"}
        fig.add_vrect(fillcolor=PALETTE[0], opacity=0.14, name="stable", showlegend=k == 0, **edges)
    if label:
        fig.add_vline(x=value, line={"color": INK, "width": 1.5, "dash": "dash"})
        fig.add_annotation(
            x=np.log10(value) if log else value,
            y=1.0,
            yref="paper",
            text=label,
            align="left",
            xanchor="left",
            yanchor="top",
            xshift=6,
            showarrow=False,
            bgcolor="rgba(255,255,255,0.8)",
        )
    visible = number[(at <= right) & (at >= left)]
    top = max(2.0, float(visible.max(initial=0.0)))
    fig.update_xaxes(range=[np.log10(left), np.log10(right)] if log else [0.0, right])
    fig.update_yaxes(range=[-0.05 * top, 1.15 * top], dtick=None if top > 12.0 else 1 if top <= 6.0 else 2)
    return fig


def _bars(error: Any) -> dict[str, Any] | None:
    if error is None:
        return None
    bars: dict[str, Any] = {"type": "data", "thickness": 1.5, "width": 5}
    if isinstance(error, tuple):
        below, above = (np.atleast_1d(np.asarray(side, dtype=float)) for side in error)
        return bars | {"symmetric": False, "array": above, "arrayminus": below}
    return bars | {"array": np.atleast_1d(np.asarray(error, dtype=float))}


@check_arguments(gaps=True)
def envelope_figure(
    runs: Mapping[str, tuple[ArrayLike, ArrayLike]],
    fits: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    y_title: str = "deviation from the equilibrium",
    title: str = "",
    decades: float = 6.0,
    x_title: str = "time [s]",
) -> go.Figure:
    """Return the growth or decay of perturbations: |deviation| on a logarithmic axis, with fitted envelopes.

    Parameters
    ----------
    runs : mapping
        Name -> (time [s], deviation), each of shape (n,); for example, a run on either side of a boundary.
    fits : mapping, optional
        Name in `runs` -> (time [s], amplitude), each of shape (m,): the fitted envelope, dashed, which replaces the run
        in the legend.
    y_title : str, optional
        Title with unit.
    title : str, optional
    decades : float, > 0, optional
        Maximum span of the amplitude axis below the largest value.
    x_title : str, optional
        Title with unit.

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If a fit has a name that no run has.

    Examples
    --------
    >>> time = np.linspace(0.0, 10.0, 101)
    >>> figure = envelope_figure({"decaying": (time, np.exp(-time) * np.cos(5.0 * time))})
    >>> len(figure.data)
    1
    """
    fits = fits or {}
    for name in fits:
        if name not in runs:
            raise ValueError(f"fits must have the names of runs ({', '.join(runs)}), got {shown(name)}")
    fits = {name: fit for name, fit in fits.items() if np.size(fit[0]) > 1}  # one value has no slope to draw
    fig = figure(title=title, height=420)
    drawn: list[np.ndarray] = []
    for k, ((name, (time, deviation)), color) in enumerate(zip(runs.items(), colors(len(runs)), strict=True)):
        size = np.abs(np.asarray(deviation, dtype=float))
        size = np.where(size > 0.0, size, np.nan)  # a logarithmic axis has no zero
        drawn.append(size)
        raw = faded(color, 0.45) if name in fits and color.startswith("#") else color
        fig.add_scatter(
            **dict(zip("xy", thinned(time, size, buckets_for(len(runs))), strict=True)),
            name=name,
            legendgroup=name,
            mode=line_mode(size),
            line={"color": raw, "width": 1.4},
            marker=marker(raw, k, hollow=True),
            showlegend=name not in fits,
            hovertemplate=f"{name}: %{{y:.3g}}<extra></extra>",
        )
        if name in fits:
            fig.add_scatter(
                x=lean(fits[name][0]),
                y=lean(fits[name][1]),
                name=name,
                legendgroup=name,
                mode="lines",
                line={"color": color, "width": 2.5, "dash": "dash"},
                hovertemplate=f"{name}, fitted: %{{y:.3g}}<extra></extra>",
            )
    fig.update_layout(hovermode="x unified")
    fig.update_xaxes(title_text=x_title, hoverformat=".4g")
    span = _log_range(drawn, decades)
    fig.update_yaxes(**axis(y_title, log=True, values=() if span is None else 10.0 ** np.array(span)), range=span)
    return fig


def _log_range(drawn: list[np.ndarray], decades: float) -> list[float] | None:
    values = np.concatenate([np.ravel(size) for size in drawn]) if drawn else np.array([])
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    top = float(np.log10(values.max()))
    return [max(top - decades, float(np.log10(values.min()))) - 0.1, top + 0.2]


@check_arguments(gaps=True)
def stability_map_figure(
    x: Vector,
    y: Vector,
    values: Matrix,
    threshold: float = 1.0,
    x_title: str = "",
    y_title: str = "",
    value_title: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
    span: float | None = None,
    title: str = "",
) -> go.Figure:
    """Return a map of stability: blue is stable, orange is unstable, and the boundary is a line.

    Parameters
    ----------
    x : Vector, shape (n,)
    y : Vector, shape (m,)
    values : Matrix, shape (m, n)
        Spectral radius or abscissa; NaN is white.
    threshold : float, optional
        Values below it are stable: 1 for a radius, 0 for an abscissa.
    x_title, y_title : str, optional
        Titles with units.
    value_title : str, or None
        Title with unit; None: "growth rate [1/s]" if the threshold is 0, else "spectral radius".
    log_x, log_y : bool, optional
        Whether axes are logarithmic.
    span : float, > 0, or None
        Distance from the threshold at which colors saturate; None: the largest distance.
    title : str, optional

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If values do not have the shape (len(y), len(x)).

    Examples
    --------
    >>> figure = stability_map_figure([0.1, 1.0], [0.5, 1.0], [[0.8, 1.1], [0.9, 1.2]], x_title="alpha")
    >>> figure.layout.xaxis.title.text
    'alpha'
    """
    xs, ys, z = (np.asarray(array, dtype=float) for array in (x, y, values))
    if z.shape != (len(ys), len(xs)):
        raise ValueError(f"values must have the shape {(len(ys), len(xs))}, got {z.shape}")
    finite = z[np.isfinite(z)]
    widest = float(np.abs(finite - threshold).max()) if finite.size else 0.0
    reach = span if span is not None else (widest or 1.0)
    if value_title is None:
        value_title = "spectral radius" if threshold else "growth rate [1/s]"
    fig = figure(title=title, height=460)
    fig.add_heatmap(
        x=lean(xs),
        y=lean(ys),
        z=lean(z),
        zmin=threshold - reach,
        zmax=threshold + reach,
        colorscale=[list(stop) for stop in _BELOW_ABOVE],
        colorbar={
            "title": {"text": value_title, "side": "right"},
            "outlinewidth": 0,
            "thickness": 14,
            "ticksuffix": _EN_SPACE,  # otherwise the title touches the ticks
        },
        hovertemplate=f"{x_title or 'x'}: %{{x:.4g}}<br>{y_title or 'y'}: %{{y:.4g}}<br>"
        f"{value_title}: %{{z:.5g}}<extra></extra>",
    )
    fig.add_contour(
        x=lean(xs),
        y=lean(ys),
        z=lean(z),
        showscale=False,
        hoverinfo="skip",
        name="boundary",
        showlegend=True,
        contours={"start": threshold, "end": threshold, "size": 1.0, "coloring": "none"},
        line={"color": INK, "width": 2, "smoothing": 0},
    )
    fig.update_layout(margin_t=56)  # "unstable" has its place below the buttons
    for text, side in (("unstable", "top"), ("stable", "bottom")):
        fig.add_annotation(
            text=text,
            x=1.0,
            y=float(side == "top"),
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="bottom" if side == "top" else "top",
            xshift=10,
            yshift=-6 if side == "top" else 6,  # the color bar ends 10 pixels inside the plot
            showarrow=False,
            font={"size": 12},
        )
    fig.update_xaxes(**axis(x_title, log_x, xs), showgrid=False)
    fig.update_yaxes(**axis(y_title, log_y, ys), showgrid=False)
    return fig
