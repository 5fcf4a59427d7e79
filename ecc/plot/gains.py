"""Figures of D-partitions: boundary curves in the plane of two gains, and the number of unstable roots of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ecc.plot.look import GREY, INK, PALETTE, axis, colors, faded, figure, lean

__all__ = ["gain_region_figure"]


def gain_region_figure(
    boundary: Any,
    cells: Sequence[Any],
    polygons: Sequence[Any],
    window: tuple[tuple[float, float], tuple[float, float]],
    points: Mapping[str, tuple[float, float]] | None = None,
    title: str = "",
) -> go.Figure:
    """Return the boundary curves of a D-partition of kp and ki, with stable cells filled and counts of unstable roots.

    Parameters
    ----------
    boundary : tuple of array_like, shape (n,)
        kp and ki [1/s] of the boundary curve.
    cells : sequence of tuple
        (kp, ki, unstable): a point of each cell, and its number of unstable roots or None.
    polygons : sequence of tuple of array_like
        kp and ki of the corners of parts of the stable cells.
    window : tuple
        ((low, high) of kp, (low, high) of ki).
    points : mapping, optional
        Name -> (kp, ki) of controllers.
    title : str, optional

    Returns
    -------
    plotly Figure

    Examples
    --------
    >>> figure = gain_region_figure(([0, 1], [0, 1]), [(0.5, 0.2, 0)], [], ((0.0, 1.0), (0.0, 1.0)))
    >>> figure.layout.xaxis.title.text
    'proportional gain kp'
    """
    fig = figure(title=title, height=460)
    for kp, ki in polygons:
        area = {"fill": "toself", "fillcolor": faded(PALETTE[0], 0.25), "mode": "lines", "line": {"width": 0}}
        corners = {"x": lean(np.asarray(kp, float)), "y": lean(np.asarray(ki, float))}
        fig.add_scatter(**corners, **area, hoverinfo="skip", showlegend=False)
    x, y = (np.asarray(part, float) for part in boundary)
    curve = {"mode": "lines", "line": {"color": INK, "width": 1.5}}
    fig.add_scatter(x=lean(x), y=lean(y), name="roots at ± jω", **curve)
    zero = {"mode": "lines", "line": {"color": INK, "width": 1.5, "dash": "dash"}}
    fig.add_scatter(x=list(window[0]), y=[0.0, 0.0], name="root at 0", **zero)
    for kp, ki, unstable in cells:
        text = "?" if unstable is None else f"{unstable}"
        fig.add_annotation(x=kp, y=ki, text=text, showarrow=False, font={"color": GREY, "size": 14})
    places = points or {}
    for (name, (kp, ki)), color in zip(places.items(), colors(len(places) + 1)[1:], strict=True):
        fig.add_scatter(x=[kp], y=[ki], mode="markers", name=name, marker={"size": 9, "color": color})
    fig.update_xaxes(**axis("proportional gain kp"), range=list(window[0]))
    fig.update_yaxes(**axis("integral gain ki [1/s]"), range=list(window[1]))
    return fig
