"""Slowdowns of flows against their size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ecc._support.arguments import check_arguments, shown
from ecc.plot.look import axis, colors, figure, lean

__all__ = ["slowdown_figure"]

_DASHES = ("solid", "dash", "dot")


@check_arguments
def slowdown_figure(tables: Mapping[str, Any], title: str = "") -> go.Figure:
    """Return quantiles of the slowdown over flow size on logarithmic axes; colors are runs, dashes are quantiles.

    Parameters
    ----------
    tables : mapping
        Name of a run -> table with a column "size" [bytes] and columns "p50", "p95", ... of the slowdown, one row for
        each bin of sizes, for example the result of `Trajectory.slowdowns`. A column "p95_interval" has the half-widths
        of the confidence intervals of "p95", for example over seeds, and is drawn as bars.
    title : str, optional

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If no table is passed, or if a table lacks such columns.

    Examples
    --------
    >>> figure = slowdown_figure({"packets": {"size": [1e3, 1e6], "p50": [1.0, 2.0]}})
    >>> len(figure.data)
    1
    """
    fig = figure(title=title)
    fig.update_layout(hovermode="x unified")
    values: list[Any] = []
    sizes: list[Any] = []
    if not tables:
        raise ValueError("tables must be at least one table, got none")
    for (name, table), color in zip(tables.items(), colors(len(tables)), strict=True):
        columns = [key for key in map(str, table) if key[:1] == "p" and key[1:].replace(".", "", 1).isdigit()]
        if "size" not in table or not columns:
            raise ValueError(f"tables must have columns 'size' and 'p50' or so, got {shown(list(table))} ({name})")
        x = np.asarray(table["size"], dtype=float)
        sizes.append(x)
        for index, key in enumerate(columns):
            y = np.asarray(table[key], dtype=float)
            values.append(y)
            spread = table[f"{key}_interval"] if f"{key}_interval" in table else None
            label = "median" if key == "p50" else f"{key[1:]} %"
            fig.add_scatter(
                x=lean(x),
                y=lean(y),
                error_y=None if spread is None else {"type": "data", "array": lean(spread)},
                name=f"{name}, {label}" if name else label,
                mode="lines+markers",
                line={"color": color, "dash": _DASHES[index % len(_DASHES)], "width": 1.8},
                marker={"size": 5},
                hovertemplate=f"{name}, {label}: %{{y:.3g}}<extra></extra>",
            )
    fig.update_xaxes(**axis("flow size [bytes]", log=True, values=np.concatenate(sizes)), hoverformat=".4g")
    fig.update_yaxes(**axis("slowdown (completion / ideal time)", log=True, values=np.concatenate(values)))
    return fig
