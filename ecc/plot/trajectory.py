"""Rates and queues over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from ecc._support.arguments import Matrix, Vector, check_arguments
from ecc.plot.look import (
    GREY,
    INK,
    PALETTE,
    RATE,
    SIZE,
    TIME,
    averaged,
    axis,
    buckets_for,
    colors,
    faded,
    figure,
    lean,
    line_mode,
    unit_for,
)

__all__ = ["comparison_figure", "trajectory_figure"]

Level: TypeAlias = tuple[str, float] | tuple[str, float, tuple[float, float]]
_NAMED = 12  # more flows than this share one entry of the legend
_LINES = 30  # more flows than this are drawn as their median and bands
_FAN_POINTS = 400  # points of each of these curves
_VISIBLE = 1e-3  # share of the largest value: smaller differences are thinner than a line
_FLAT = 0.2  # share of the mean: rates that vary less are drawn on an axis that does not start at 0
_NEAR_ZERO = 0.2  # share of the last time: a run that starts earlier is drawn from 0


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
    rtts: Vector | None = None,
    groups: Sequence[str] | None = None,
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
    rtts : Vector, shape (n_flows,), s, optional
        RTTs, by which 13 to 30 flows are colored.
    groups : sequence of str, optional
        Group of each flow, for example its protocol. Eight to 30 flows of two to seven groups have the colors of their
        groups, and the legend has an entry for each group.

    Returns
    -------
    plotly Figure

    Raises
    ------
    ValueError
        If the lengths of arrays or names differ.

    Notes
    -----
    A series of more samples than the figure has room for is the mean of each bucket of samples, in a band from their
    minimum to their maximum. More than 30 series are their median, with bands of 10 to 90 % of them and of all. If the
    rates vary by less than 20 % of their mean, the axis does not start at 0.

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
    clock = _Clock.of(fig, t, max(series.shape[1] for series in (x, *([] if q is None else [q]), *states.values())))

    factor, unit = unit_for(np.append(x, [level[1] for level in levels]), RATE)
    members = _groups(groups, x.shape[1])
    tones = [PALETTE[list(dict.fromkeys(members)).index(group)] for group in members] or colors(x.shape[1])
    rate_panel = _Panel(fig, clock, 1, tones, 1.8, [factor, unit])
    rate_panel.draw(x / factor, flow_names, "flows", None if members else rtts, members)
    _draw_levels(fig, levels, clock, factor, unit, row=1)
    rate_panel.set_axis({"title": {"text": f"sending rate [{unit}]"}}, x / factor, [v[1] / factor for v in levels])

    if q is not None:
        highest = np.append(q, [level[1] for level in queue_levels])
        q_factor, q_unit = unit_for(highest, SIZE) if packet_size is None else (packet_size, "packets")
        q_colors = [INK] if q.shape[1] == 1 else colors(q.shape[1])
        link_names = [f"queue, {name}" for name in _names(links, q.shape[1], "link")]
        queue_panel = _Panel(fig, clock, 2, q_colors, 1.3, [q_factor, q_unit])
        queue_panel.draw(q / q_factor, link_names, "" if q.shape[1] > _NAMED else "links")
        _draw_levels(fig, queue_levels, clock, q_factor, q_unit, row=2)
        fig.update_yaxes(**axis(f"queue [{q_unit}]", values=highest / q_factor), rangemode="tozero", row=2, col=1)
    for row, (state, values) in enumerate(states.items(), start=panels - len(states) + 1):
        count, owner = values.shape[1], state.partition(".")[0]
        tones = [INK] if owner == "link" and count == 1 else colors(count)
        of = "link" if owner == "link" else "flow"
        panel = _Panel(fig, clock, row, tones, 1.3)
        panel.draw(values, [f"{state}, {of} {k}" for k in range(count)], "")
        unit = (units or {}).get(state, "")
        fig.update_yaxes(title_text=f"{state} [{unit}]" if unit else state, row=row, col=1)
    fig.update_xaxes(title_text=f"time [{clock.unit}]", row=panels, col=1)
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
    clock = _Clock.of(fig, t, max(2 * np.shape(rates)[-1], 2 * np.shape(queues)[-1]))
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
        for run, (name, values) in enumerate(zip(names, pair, strict=True)):
            panel = _Panel(
                fig, clock, row, tones, 1.2 if run == 0 else 2.0, [factor, unit], 4, "dash" if run else "solid"
            )
            panel.draw(values / factor, [f"{kind} {k}, {name}" for k in range(count)], f"{kind}s, {name}")
        for begin, end in _stretches(t, np.asarray(discrepant, dtype=bool)):
            _shade(fig, begin / clock.factor, end / clock.factor, row, f"{names[0]} and {names[1]} differ")
        fig.update_yaxes(title_text=f"{axis_name} [{unit}]", rangemode="tozero", row=row, col=1)
    fig.update_xaxes(title_text=f"time [{clock.unit}]", row=2, col=1)
    return fig


def _shade(fig: go.Figure, begin: float, end: float, row: int, name: str) -> None:
    """Shade a stretch of time; the first one has an entry in the legend."""
    fig.add_vrect(
        x0=begin,
        x1=end,
        fillcolor=GREY,
        opacity=0.13,
        line_width=0,
        name=name,
        showlegend=not fig.layout.shapes,
        row=row,
        col=1,
    )


@dataclass(frozen=True)
class _Clock:
    """The time axis of all panels: times in its unit, and the suffix of hover texts."""

    time: NDArray[np.float64]
    factor: float
    unit: str
    when: str

    @classmethod
    def of(cls, fig: go.Figure, time: NDArray[np.float64], series: int) -> _Clock:
        """Return the clock, after setting the hover mode and the range of the time axes.

        Hovering shows all values at one time if there are few series; if there are many, only the nearest, with its
        time. A figure of a run that starts near 0 starts at 0. Runs of 0.1 s and more have an axis in seconds.
        """
        factor, unit = unit_for(10.0 * time, TIME) if len(time) else TIME[0]
        few = series <= _NAMED
        fig.update_layout(hovermode="x unified" if few else "closest")
        fig.update_xaxes(hoverformat=".4g", unifiedhovertitle_text=f"t = %{{x:.4g}} {unit}")
        if len(time) > 1 and 0.0 < time[0] <= _NEAR_ZERO * time[-1]:
            fig.update_xaxes(rangemode="tozero")
        return cls(time / factor, factor, unit, "" if few else f" at %{{x:.4g}} {unit}")


@dataclass(frozen=True)
class _Panel:
    """A panel with the series of flows or links.

    `meta`: factor and unit of its values; `shares`: number of parts in which the points of a figure are divided.
    """

    fig: go.Figure
    clock: _Clock
    row: int
    tones: Sequence[str]
    width: float
    meta: Sequence[Any] | None = None
    shares: int = 2
    dash: str = "solid"

    def draw(
        self,
        values: NDArray[np.float64],
        names: Sequence[str],
        group: str,
        rtts: ArrayLike | None = None,
        members: Sequence[str] = (),
    ) -> None:
        """Draw series: a line each; if there are many, the median and bands of the others.

        `group`: name that many series share in the legend; empty: the series have no entry. `members`: name of the
        entry that each series shares with others.
        """
        count = values.shape[1]
        if count > _LINES:
            self._draw_fan(values, f"{count} {group}" if group else names[0].partition(",")[0])
            return
        few = count <= _NAMED
        copies = self._copies(values) if few else set()
        buckets = buckets_for(self.shares * count)
        entries = members or (names if few or not group else [f"{count} {group}"] * count)
        for k, (name, color) in enumerate(zip(names, self.tones, strict=True)):
            shared = {} if few and not members else {"legendgroup": entries[k]}
            entry = {
                "name": entries[k],
                "showlegend": bool(group) and entries.index(entries[k]) == k,
                "hovertemplate": f"{name}: {self._value}{self.clock.when}<extra></extra>",
            }
            line = {"color": color, "width": self.width if few else 0.8, "dash": "dash" if k in copies else self.dash}
            self._draw_line(values[:, k], buckets, entry | shared, line)
        if not few and rtts is not None:
            self._color_by_rtt(np.asarray(rtts, dtype=float))

    @property
    def _value(self) -> str:
        return "%{y:.4g} %{meta[1]}" if self.meta else "%{y:.4g}"

    def _draw_line(self, y: NDArray[np.float64], buckets: int, entry: dict[str, Any], line: dict[str, Any]) -> None:
        """Draw a series; a long one as the mean of each bucket, in a band from its minimum to its maximum."""
        t = self.clock.time
        options = {"mode": line_mode(y), "line": line, "meta": self.meta, "row": self.row, "col": 1, **entry}
        if len(t) <= 2 * buckets:
            self.fig.add_scatter(x=lean(t), y=lean(y), **options)
            return
        x, mean, low, high = averaged(t, y, buckets)
        if np.nanmax(high - low, initial=0.0) > _VISIBLE * max(np.nanmax(np.abs(high), initial=0.0), 1e-300):
            group = entry.setdefault("legendgroup", entry["name"])
            options["legendgroup"] = group
            # Bands of several flows lie on one another, and below all lines: together they must not hide these.
            self._draw_band(x, low, high, line["color"], min(0.25, 0.3 / len(self.tones)), legendgroup=group)
            options["zorder"] = 1
        self.fig.add_scatter(x=x, y=mean, **options)

    def _draw_band(self, x: Any, low: Any, high: Any, color: str, opacity: float, **options: Any) -> None:
        """Draw the area between two curves."""
        known = np.isfinite(low) & np.isfinite(high)
        hidden = {
            "mode": "lines",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "meta": self.meta,
            "row": self.row,
            "col": 1,
        }
        outline = np.r_[x[known], x[known][::-1]], np.r_[high[known], low[known][::-1]]
        fill = {"fill": "toself", "fillcolor": faded(_hex(color), opacity)}
        self.fig.add_scatter(
            x=lean(outline[0]), y=lean(outline[1]), **hidden, **fill, **({"showlegend": False} | options)
        )

    def _draw_fan(self, values: NDArray[np.float64], name: str) -> None:
        """Draw the median of many series, and bands of 10 to 90 % of them and of all."""
        t, buckets = self.clock.time, min(_FAN_POINTS, len(values))
        columns = [averaged(t, values[:, k], buckets) for k in range(values.shape[1])]
        x, means = columns[0][0], np.stack([column[1] for column in columns])
        low, high = (np.nanmin([c[2] for c in columns], axis=0), np.nanmax([c[3] for c in columns], axis=0))
        tenth, median, ninetieth = np.nanquantile(means, (0.1, 0.5, 0.9), axis=0)
        color = PALETTE[0]
        for label, below, above, opacity in (("all", low, high, 0.12), ("10 to 90 %", tenth, ninetieth, 0.3)):
            self._draw_band(x, below, above, color, opacity, name=f"{name}: {label}", showlegend=self.row == 1)
        self.fig.add_scatter(
            x=x,
            y=lean(median),
            name=f"{name}: median",
            mode="lines",
            line={"color": color, "width": self.width, "dash": self.dash},
            meta=self.meta,
            hovertemplate=f"median: {self._value}{self.clock.when}<extra></extra>",
            row=self.row,
            col=1,
        )

    def _copies(self, values: NDArray[np.float64]) -> set[int]:
        """Return the series that would hide an earlier one, because they are equal up to the width of a line."""
        scale = np.nanmax(np.abs(values), initial=0.0)
        close = [np.nanmax(np.abs(values[:, k] - values[:, k - 1]), initial=0.0) for k in range(1, values.shape[1])]
        return {k for k, gap in enumerate(close, start=1) if gap <= _VISIBLE * scale and k % 2 and self.dash == "solid"}

    def _color_by_rtt(self, rtts: NDArray[np.float64]) -> None:
        """Color the lines of flows by their RTT, with a scale next to the panel."""
        low, high = float(rtts.min()), float(rtts.max())
        if high <= low:
            return
        factor, unit = unit_for([high], TIME)
        scale = sample_colorscale("Cividis", (0.85 * (rtts - low) / (high - low)).tolist())
        lines = [trace for trace in self.fig.data if trace.hovertemplate and trace.yaxis in (None, "y")]
        for trace, color, rtt in zip(lines, scale, rtts, strict=True):
            trace.line.color = color
            trace.hovertemplate = trace.hovertemplate.replace(": ", f" (RTT {rtt / factor:.4g} {unit}): ", 1)
        steps = [
            [place, sample_colorscale("Cividis", [0.85 * place])[0]] for place in np.linspace(0.0, 1.0, 9).tolist()
        ]
        self.fig.add_scatter(
            x=[None],
            y=[None],
            mode="markers",
            showlegend=False,
            hoverinfo="skip",
            marker={
                "color": [low / factor],
                "cmin": low / factor,
                "cmax": high / factor,
                "colorscale": steps,
                "showscale": True,
                "colorbar": {
                    "title": {"text": f"RTT [{unit}]", "side": "right"},
                    "thickness": 12,
                    "len": 0.6,
                    "y": 1.0,
                    "yanchor": "top",
                },
            },
            row=self.row,
            col=1,
        )

    def set_axis(self, settings: dict[str, Any], values: NDArray[np.float64], levels: Sequence[float]) -> None:
        """Set the y axis: from 0, unless the values vary so little that their variation would be a straight line."""
        drawn = np.append(values, levels)
        drawn = drawn[np.isfinite(drawn)]
        flat = drawn.size > 0 and 0.0 < np.ptp(drawn) < _FLAT * abs(float(np.mean(drawn)))
        self.fig.update_yaxes(**settings, rangemode="normal" if flat else "tozero", row=self.row, col=1)


def _hex(color: str) -> str:
    """Return a color as "#rrggbb"; colors of scales are "rgb(r, g, b)"."""
    if color.startswith("#"):
        return color
    return "#" + "".join(f"{round(float(part)):02x}" for part in color[4:-1].split(","))


def _draw_levels(fig: go.Figure, levels: Sequence[Level], clock: _Clock, factor: float, unit: str, row: int) -> None:
    named: set[str] = set()
    time = clock.time
    for name, level, *span in levels:
        begin, end = (time[0], time[-1]) if len(time) else (0.0, 0.0)
        if span:
            begin, end = (moment / clock.factor for moment in span[0])
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


def _groups(groups: Sequence[str] | None, count: int) -> list[str]:
    """Return the groups that color and name the flows; empty if flows have colors of their own."""
    if groups is None:
        return []
    if len(groups) != count:
        raise ValueError(f"groups must have a name for each of {count} flows, got {len(groups)}")
    is_used = len(PALETTE) < count <= _LINES and 1 < len(set(groups)) <= len(PALETTE)
    return list(groups) if is_used else []


def _names(names: Sequence[str] | None, count: int, kind: str) -> list[str]:
    if names is None:
        return [f"{kind} {k}" for k in range(count)]
    if len(names) != count:
        raise ValueError(f"{kind}s must have {count} names, got {len(names)}")
    return list(names)
