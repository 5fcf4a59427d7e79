"""States of a controller over time, above its rates and volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from ecc._support.arguments import Vector, check_arguments, shown
from ecc.plot.look import GREY, axis, buckets_for, colors, figure, thinned

__all__ = ["states_figure"]


@check_arguments(gaps=True)
def states_figure(
    time: Vector,
    panels: Mapping[str, Mapping[str, ArrayLike]],
    states: Sequence[str] = (),
    marks: Sequence[float] = (),
    title: str = "",
) -> go.Figure:
    """Return series in panels on one time axis, below the states of a controller.

    Parameters
    ----------
    time : Vector, shape (n_times,), s
    panels : mapping
        Title of an axis, with its unit -> name of a series -> values of shape (n_times,); a panel for each title.
    states : sequence of str, optional
        State at each time; if empty, the panel of states is left out.
    marks : sequence of float, s, optional
        Times of events, drawn as dotted lines through all panels.
    title : str, optional

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        Without panels, or if states or a series have another length than the times.

    Examples
    --------
    >>> panels = {"rate [Mb/s]": {"pacing rate": [10.0, 5.0, 8.0]}}
    >>> figure = states_figure([0.0, 1.0, 2.0], panels, ["Startup", "Drain", "ProbeBW"])
    >>> len(figure.data)
    2
    """
    if not panels:
        raise ValueError("panels must be at least one, got none")
    lengths = {name: np.shape(values) for curves in panels.values() for name, values in curves.items()}
    for name, shape in lengths.items():
        if shape != np.shape(time):
            raise ValueError(f"series {shown(name)} must have the shape {np.shape(time)} of time, got {shape}")
    if len(states) not in (0, np.size(time)):
        raise ValueError(f"states must have one entry for each of {np.size(time)} times, got {len(states)}")
    series = [(name, values) for curves in panels.values() for name, values in curves.items()]
    first = 1 if len(states) else 0
    rows = first + len(panels)
    fig = figure(
        make_subplots(rows=rows, cols=1, shared_xaxes=True, vertical_spacing=0.05), title=title, height=140 + 150 * rows
    )
    fig.update_layout(hovermode="x unified")
    at = np.asarray(time, dtype=float)
    if first:
        names = list(dict.fromkeys(states))
        edges = [k for k in range(len(states)) if k == 0 or states[k] != states[k - 1]]
        ends = [*edges, len(states) - 1]
        fig.add_scatter(
            x=at[ends],
            y=[states[k] for k in ends],
            name="state",
            mode="lines",
            line={"color": GREY, "shape": "hv"},
            showlegend=False,
            row=1,
            col=1,
        )
        fig.update_yaxes(categoryorder="array", categoryarray=names, type="category", row=1, col=1)
    shades = dict(zip(dict.fromkeys(name for name, _ in series), colors(len(series)), strict=False))
    for row, (label, curves) in enumerate(panels.items(), 1 + first):
        for name, values in curves.items():
            x, y = thinned(at, values, buckets_for(len(series)))
            fig.add_scatter(
                x=x, y=y, name=name, mode="lines", line={"color": shades[name], "width": 1.6}, row=row, col=1
            )
        fig.update_yaxes(**axis(label), rangemode="tozero", row=row, col=1)
    for mark in marks:
        fig.add_vline(x=mark, line={"dash": "dot", "color": GREY, "width": 1})
    fig.update_xaxes(**axis("time [s]"), row=rows, col=1)
    return fig
