"""Rates and queues over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from plotly.subplots import make_subplots

from ecc._support.arguments import Matrix, Vector, check_arguments
from ecc.plot.look import GREY, INK, RATE, SIZE, axis, buckets_for, colors, figure, line_mode, thinned, unit_for

__all__ = ["comparison_figure", "trajectory_figure"]

Level: TypeAlias = tuple[str, float] | tuple[str, float, tuple[float, float]]
_NAMED = 12  # more flows than this share one entry of the legend


@check_arguments(gaps=True)
def trajectory_figure(
    time: Vector,
    rates: Matrix,
    queues: Matrix | None = None,
    title: str = "",
    flows: Sequence[str] | None = None,
    links: Sequence[str] | None = None,
    packet_size: float | None = None,
    levels: Sequence[Level] = (),
    queue_levels: Sequence[Level] = (),
    recorded: Mapping[str, Matrix] | None = None,
    units: Mapping[str, str] | None = None,
) -> go.Figure:
    """Return the rates of the flows and, below them on the same time axis, the queues of the links and other states.

    Parameters
    ----------
    time : Vector, shape (n_times,), s
    rates : Matrix, shape (n_times, n_flows), bit/s
        Sending rates, drawn in the unit that fits; lines are thin if there are many flows.
    queues : Matrix, shape (n_times, n_links), bytes, optional
        Queues; None: no lower panel.
    title : str, optional
    flows, links : sequence of str, optional
        Names; default "flow 0", "link 0", ...
    packet_size : float, bytes, optional
        Packet size > 0 for queues in packets; None: queues in bytes, kB or MB.
    levels : sequence of Level, optional
        (name, rate [bit/s]) of dashed lines, for example a fair share; (name, rate, (begin, end)) for a line between
        two times [s]. Levels with the same name share an entry of the legend.
    queue_levels : sequence of Level, optional
        (name, queue [bytes]) of dashed lines for queues, as `levels` for rates.
    recorded : mapping, optional
        Name, for example "flow.x" or "link.y" -> states of the flows, or of the links, of shape (n_times, n); a panel
        for each, in the colors of rates and queues.
    units : mapping, optional
        Name of a recorded state -> its unit, which the axis shows.

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If the lengths of arrays or names differ.

    Examples
    --------
    >>> figure = trajectory_figure([0.1, 0.2], np.full((2, 1), 1e7), queues=np.zeros((2, 1)))
    >>> len(figure.data)
    2
    """
    t = np.asarray(time, dtype=float)
    x = _matching(rates, t, "rates")
    q = None if queues is None else _matching(queues, t, "queues")
    flow_names = _names(flows, x.shape[1], "flow")
    states = {name: _matching(values, t, name) for name, values in (recorded or {}).items()}
    panels = 1 + (q is not None) + len(states)
    fig = figure(_panels(panels), title=title, height=_height(panels))
    when = _hover(fig, max(series.shape[1] for series in (x, *([] if q is None else [q]), *states.values())))
    buckets = buckets_for(x.shape[1])

    factor, unit = unit_for(np.append(x, [level[1] for level in levels]), RATE)
    few = x.shape[1] <= _NAMED
    for k, (name, color) in enumerate(zip(flow_names, colors(x.shape[1]), strict=True)):
        fig.add_scatter(
            **dict(zip("xy", thinned(t, x[:, k] / factor, buckets), strict=True)),
            name=name if few else f"{x.shape[1]} flows",
            legendgroup=name if few else "flows",
            showlegend=few or k == 0,
            mode=line_mode(x[:, k]),
            line={"color": color, "width": 1.8 if few else 0.8},
            meta=[factor, unit],
            row=1,
            col=1,
            hovertemplate=f"{name}: %{{y:.4g}} %{{meta[1]}}{when}<extra></extra>",
        )
    _draw_levels(fig, levels, t, factor, unit, row=1)
    fig.update_yaxes(title_text=f"sending rate [{unit}]", rangemode="tozero", row=1, col=1)

    if q is not None:
        highest = np.append(q, [level[1] for level in queue_levels])
        q_factor, q_unit = unit_for(highest, SIZE) if packet_size is None else (packet_size, "packets")
        q_colors = [INK] if q.shape[1] == 1 else colors(q.shape[1])
        link_names = _names(links, q.shape[1], "link")
        for k, (name, color) in enumerate(zip(link_names, q_colors, strict=True)):
            fig.add_scatter(
                **dict(zip("xy", thinned(t, q[:, k] / q_factor, buckets_for(2 * q.shape[1])), strict=True)),
                name=f"queue, {name}",
                mode=line_mode(q[:, k]),
                line={"color": color, "width": 1.3},
                showlegend=q.shape[1] <= _NAMED,
                meta=[q_factor, q_unit],
                row=2,
                col=1,
                hovertemplate=f"{name}: %{{y:.4g}} %{{meta[1]}}{when}<extra></extra>",
            )
        _draw_levels(fig, queue_levels, t, q_factor, q_unit, row=2)
        fig.update_yaxes(**axis(f"queue [{q_unit}]", values=highest / q_factor), rangemode="tozero", row=2, col=1)
    for row, (state, values) in enumerate(states.items(), start=panels - len(states) + 1):
        count, owner = values.shape[1], state.partition(".")[0]
        tones = [INK] if owner == "link" and count == 1 else colors(count)
        width = 1.3 if count <= _NAMED else 0.8
        for k, color in enumerate(tones):
            name = f"{state}, {'link' if owner == 'link' else 'flow'} {k}"
            fig.add_scatter(
                **dict(zip("xy", thinned(t, values[:, k], buckets_for(count * panels)), strict=True)),
                name=name,
                mode=line_mode(values[:, k]),
                line={"color": color, "width": width},
                showlegend=False,
                row=row,
                col=1,
                hovertemplate=f"{name}: %{{y:.4g}}{when}<extra></extra>",
            )
        unit = (units or {}).get(state, "")
        fig.update_yaxes(title_text=f"{state} [{unit}]" if unit else state, row=row, col=1)
    fig.update_xaxes(title_text="time [s]", row=panels, col=1)
    return fig


@check_arguments(gaps=True)
def comparison_figure(
    time: Vector,
    rates: Matrix,
    other_rates: Matrix,
    queues: Matrix,
    other_queues: Matrix,
    discrepant_rates: Vector,
    discrepant_queues: Vector,
    names: tuple[str, str] = ("packets", "fluid"),
    title: str = "",
) -> go.Figure:
    """Return two runs of the same flows and links in one figure, as lines and dashes, with differences shaded.

    Parameters
    ----------
    time : Vector, shape (n_times,), s
    rates, other_rates : Matrix, shape (n_times, n_flows), bit/s
    queues, other_queues : Matrix, shape (n_times, n_links), bytes
    discrepant_rates, discrepant_queues : Vector, shape (n_times,)
        Whether a panel is shaded at each time, bool.
    names : tuple of two str, optional
        Names of the two runs.
    title : str, optional

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If the lengths of arrays differ.

    Examples
    --------
    >>> time, rates, queues = [0.1, 0.2], np.full((2, 1), 1e7), np.zeros((2, 1))
    >>> agree = [False, False]
    >>> figure = comparison_figure(time, rates, rates, queues, queues, agree, agree)
    >>> len(figure.data)
    4
    """
    t = np.asarray(time, dtype=float)
    fig = figure(_panels(2), title=title, height=_height(2))
    panels = (
        ("flow", "sending rate", RATE, (rates, other_rates), discrepant_rates),
        ("link", "queue", SIZE, (queues, other_queues), discrepant_queues),
    )
    when = _hover(fig, max(2 * np.shape(rates)[-1], 2 * np.shape(queues)[-1]))
    for row, (kind, axis_name, units, (first, second), discrepant) in enumerate(panels, start=1):
        names_of = (f"{axis_name.split()[-1]}s", f"other_{axis_name.split()[-1]}s")
        pair = [_matching(values, t, name) for values, name in zip((first, second), names_of, strict=True)]
        if pair[0].shape != pair[1].shape:
            raise ValueError(f"{names_of[1]} must have the shape {pair[0].shape} of {names_of[0]}, got {pair[1].shape}")
        if np.shape(discrepant) != t.shape:
            raise ValueError(
                f"discrepant_{names_of[0]} must have the shape {t.shape}, one a time, got {np.shape(discrepant)}"
            )
        factor, unit = unit_for(np.concatenate(pair), units)
        count = pair[0].shape[1]
        tones = [INK] if kind == "link" and count == 1 else colors(count)
        few = count <= _NAMED
        for k, color in enumerate(tones):
            for run, (name, values) in enumerate(zip(names, pair, strict=True)):
                fig.add_scatter(
                    **dict(zip("xy", thinned(t, values[:, k] / factor, buckets_for(4 * count)), strict=True)),
                    name=f"{kind} {k}, {name}" if few else f"{count} {kind}s, {name}",
                    mode=line_mode(values[:, k]),
                    showlegend=few or k == 0,
                    legendgroup=None if few else f"{kind}s, {name}",
                    line={"color": color, "width": 1.2 if run == 0 else 2.0, "dash": "solid" if run == 0 else "dash"},
                    opacity=0.75 if run == 0 else 1.0,
                    meta=[factor, unit],
                    row=row,
                    col=1,
                    hovertemplate=f"{kind} {k}, {name}: %{{y:.4g}} %{{meta[1]}}{when}<extra></extra>",
                )
        for begin, end in _stretches(t, np.asarray(discrepant, dtype=bool)):
            fig.add_vrect(x0=begin, x1=end, fillcolor=GREY, opacity=0.13, line_width=0, row=row, col=1)
        fig.update_yaxes(title_text=f"{axis_name} [{unit}]", rangemode="tozero", row=row, col=1)
    fig.update_xaxes(title_text="time [s]", row=2, col=1)
    return fig


def _hover(fig: go.Figure, series: int) -> str:
    """Set the hover mode, and return the suffix of hover texts.

    Hovering shows all values at one time if there are few series; if there are many, only the nearest, with its time.
    """
    few = series <= _NAMED
    fig.update_layout(hovermode="x unified" if few else "closest")
    fig.update_xaxes(hoverformat=".4g")
    return "" if few else " at %{x:.4g} s"


def _draw_levels(
    fig: go.Figure, levels: Sequence[Level], time: NDArray[np.float64], factor: float, unit: str, row: int
) -> None:
    named: set[str] = set()
    for name, level, *span in levels:
        begin, end = span[0] if span else (time[0], time[-1]) if len(time) else (0.0, 0.0)
        fig.add_scatter(
            x=[begin, end],
            y=[level / factor] * 2,
            name=name,
            legendgroup=name,
            showlegend=name not in named,
            mode="lines",
            line={"color": GREY, "width": 1.2 if not span else 2.5, "dash": "dash"},
            meta=[factor, unit],
            hovertemplate=f"{name}: %{{y:.4g}} %{{meta[1]}}<extra></extra>",
            row=row,
            col=1,
        )
        named.add(name)


def _stretches(time: np.ndarray, marked: np.ndarray) -> list[tuple[float, float]]:
    """Return the begin and end of each stretch of marked samples; a sample ends at its time."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(int)))
    before = np.concatenate([[0.0], time])
    return [(float(before[a]), float(time[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _panels(count: int) -> go.Figure:
    """Return `count` panels in a column; the first is the highest."""
    if count == 1:
        return make_subplots(rows=1, cols=1)
    spacing, heights = 0.07 * _height(2) / _height(count), [0.62, *[0.38] * (count - 1)]
    return make_subplots(rows=count, cols=1, shared_xaxes=True, vertical_spacing=spacing, row_heights=heights)


def _height(panels: int) -> int:
    return 280 + 140 * panels


def _matching(values: ArrayLike, time: np.ndarray, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 2 or len(array) != len(time):
        raise ValueError(f"{name} must have the shape ({len(time)}, n), one row a time, got {array.shape}")
    return array


def _names(names: Sequence[str] | None, count: int, kind: str) -> list[str]:
    if names is None:
        return [f"{kind} {k}" for k in range(count)]
    if len(names) != count:
        raise ValueError(f"{kind}s must have {count} names, got {len(names)}")
    return list(names)
