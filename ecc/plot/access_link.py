"""Delays of calls and load times of pages under several queue disciplines."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ecc._support.arguments import check_arguments
from ecc.plot.look import PALETTE

__all__ = ["access_link_figure"]

PANELS = (
    ("added delay of the call [ms]", (("delay_50", "median"), ("delay_95", "95 %"), ("delay_99", "99 %"))),
    ("load time of pages [ms]", (("web_50", "median"), ("web_99", "99 %"))),
)


@check_arguments
def access_link_figure(table: pd.DataFrame) -> go.Figure:
    """Return a figure of the delays of calls and the load times of pages, with one row per discipline.

    Parameters
    ----------
    table : DataFrame
        Result of `ecc.comparison.access_link.summary`.

    Returns
    -------
    plotly Figure
        Two panels with logarithmic axes; bars are 95 % confidence intervals.
    """
    out = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.06)
    symbols = {"median": "circle", "95 %": "diamond", "99 %": "square"}
    color_of = dict(zip(symbols, PALETTE, strict=False))
    for place, (title, columns) in enumerate(PANELS, start=1):
        for column, name in columns:
            out.add_trace(
                go.Scatter(
                    x=table[column],
                    y=table.index,
                    error_x={"type": "data", "array": table[f"{column} ±"].fillna(0.0), "thickness": 1},
                    mode="markers",
                    name=name,
                    legendgroup=name,
                    showlegend=place == 1,
                    marker={"symbol": symbols[name], "size": 9, "color": color_of[name]},
                ),
                row=1,
                col=place,
            )
        out.update_xaxes(title_text=title, type="log", dtick="D2", row=1, col=place)
    out.update_yaxes(autorange="reversed")
    out.update_layout(
        template="simple_white",
        height=140 + 44 * len(table),
        margin={"l": 110, "r": 20, "t": 40, "b": 60},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0.0},
    )
    return out
