"""Delays of calls and load times of pages under several queue disciplines."""

from __future__ import annotations

from textwrap import wrap

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ecc._support.arguments import check_arguments
from ecc.plot.look import PALETTE

__all__ = ["access_link_figure"]

OF_CALLS = (("delay_50", "median"), ("delay_95", "95 %"), ("delay_99", "99 %"))
OF_PAGES = (("web_50", "median"), ("web_99", "99 %"))


@check_arguments
def access_link_figure(table: pd.DataFrame, title: str | None = None) -> go.Figure:
    """Return a figure of the delays of calls and the load times of pages, with one row per discipline.

    Parameters
    ----------
    table : DataFrame
        Result of `ecc.comparison.access_link.summary`.
    title : str, optional
        Title, for example the scenario.

    Returns
    -------
    plotly Figure
        A panel for each application and one for pages, one below the other so that they fit a phone, with logarithmic
        axes. Bars are 95 % confidence intervals; a bar that reaches below a tenth of its mean is cut there, because a
        logarithmic axis has no zero.
    """
    groups: dict[str, tuple[tuple[tuple[str, str], ...], pd.DataFrame]] = {
        f"added delay of {name} [ms]": (OF_CALLS, rows)
        for name, rows in table.groupby("application", sort=False)
        if rows["delay_50"].notna().any()
    }
    pages = table[~table.index.duplicated()]
    if pages["web_50"].notna().any() or not groups:
        groups["load time of pages [ms]"] = (OF_PAGES, pages)
    panel, gap = 40 + 44 * len(pages), 80
    height = len(groups) * panel + (len(groups) - 1) * gap
    out = make_subplots(rows=len(groups), cols=1, vertical_spacing=gap / height if len(groups) > 1 else 0.0)
    symbols = {"median": "circle", "95 %": "diamond", "99 %": "square"}
    color_of = dict(zip(symbols, PALETTE, strict=False))
    for place, (axis, (columns, rows)) in enumerate(groups.items(), start=1):
        for column, name in columns:
            error = rows[f"{column} ±"].fillna(0.0)
            out.add_trace(
                go.Scatter(
                    x=rows[column],
                    y=rows.index.str.replace(":", "<br>"),
                    error_x={
                        "type": "data",
                        "symmetric": False,
                        "array": error,
                        "arrayminus": error.clip(upper=0.9 * rows[column].abs()),
                        "thickness": 1,
                    },
                    mode="markers",
                    name=name,
                    legendgroup=name,
                    showlegend=place == 1,
                    marker={"symbol": symbols[name], "size": 9, "color": color_of[name]},
                ),
                row=place,
                col=1,
            )
        # 1, 2 and 5 of each decade; without a format, 200 is labeled by its first digit
        out.update_xaxes(title_text=axis, type="log", dtick="D2", tickformat="~g", row=place, col=1)
    lines = wrap(title or "", 48)
    out.update_yaxes(autorange="reversed", automargin=True)
    top = 50 + 18 * len(lines)
    out.update_layout(
        template="simple_white",
        height=height + top + 60,
        margin={"l": 20, "r": 20, "t": top, "b": 60},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0.0},
    )
    if lines:
        out.update_layout(
            title={
                "text": "<br>".join(lines),
                "font": {"size": 13},
                "x": 0.02,
                "y": 1.0,
                "yanchor": "top",
                "pad": {"t": 12},
            }
        )
    return out
