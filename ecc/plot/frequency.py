"""Figures of frequency responses and roots: Nyquist and Bode curves, the plane of the roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from plotly.subplots import make_subplots

from ecc._support.arguments import check_arguments, shown
from ecc.plot.look import GREY, INK, axis, buckets_for, colors, figure, lean, marker, thinned

__all__ = ["bode_figure", "nyquist_figure", "root_figure"]

Marks = Mapping[str, tuple[float, complex]]


class Response(Protocol):
    """Samples of an open loop that know their unit, such as `ecc.linear.FrequencyResponse`."""

    @property
    def frequency(self) -> NDArray[np.float64]:
        """Frequencies, shape (n,)."""

    @property
    def response(self) -> NDArray[np.complex128]:
        """Complex loop gain, shape (n,)."""

    @property
    def unit(self) -> str:
        """Unit of the frequency."""


Curves: TypeAlias = Mapping[str, tuple[ArrayLike, ArrayLike] | Response]


@check_arguments(gaps=True)
def nyquist_figure(
    curves: Curves,
    title: str = "",
    frequency_unit: str = "",
    window: float = 2.5,
    marks: Marks | None = None,
    encirclements: int | None = None,
    inset: float | None = None,
) -> go.Figure:
    """Return Nyquist curves of loop gains, with the critical point -1 and the unit circle.

    Parameters
    ----------
    curves : Curves
        Name -> result of `system.nyquist()`, or (frequency, L): shape (n,), ascending frequencies > 0 and the complex
        loop gain there. Mirror images (negative frequencies) are dotted. Each characteristic locus is a curve.
    title : str, optional
    frequency_unit : str, optional
        Unit of pairs (frequency, L): "rad/s" or "rad/step"; "": rad/s.
    window : float, > 0, optional
        The real axis is shown from -window to 0.6 window; points outside are not drawn.
    marks : Marks, optional
        Name -> (frequency, L there): points to mark, for example those of the margins.
    encirclements : int or None
        Net clockwise encirclements of -1, shown in the label of the critical point.
    inset : float, >= 0, or None
        Half-width of the surroundings of -1 that an inset enlarges; 0: no inset; None: an inset if a curve passes -1
        closer than a tenth of the window. A fixed value keeps the figures of a slider comparable.

    Returns
    -------
    plotly Figure
        Hovering shows the frequency.

    Raises
    ------
    ValueError
        If frequencies and loop gain differ in length, if curves have different units, or if a size is out of range.

    Examples
    --------
    >>> w = np.logspace(-1, 1, 50)
    >>> figure = nyquist_figure({"integrator with delay": (w, np.exp(-1j * w) / (1j * w))})
    >>> len(figure.data)
    5
    """
    frequency_unit, pairs = _in_one_unit(curves, frequency_unit)
    if not 0.0 < window < np.inf:
        raise ValueError(f"window must be > 0 and finite, got {window}")
    if inset is not None and not 0.0 <= inset < np.inf:
        raise ValueError(f"inset must be >= 0 and finite, or None, got {inset}")
    fig = figure(title=title, height=480)
    critical = "critical point −1"
    if encirclements is not None:
        critical += f", encircled {_times(encirclements)}"
    shown = {name: _shown(name, *pair, 0.0, window) for name, pair in pairs.items()}
    _draw_plane(fig, shown, frequency_unit, marks or {}, critical)
    axis_line = {"zeroline": True, "zerolinecolor": "#bbbbbb", "zerolinewidth": 1}
    fig.update_xaxes(title_text="Re L", range=[-window, 0.6 * window], constrain="domain", **axis_line)
    fig.update_yaxes(title_text="Im L", range=[-0.8 * window, 0.8 * window], scaleanchor="x", **axis_line)
    passing = [float(np.nanmin(np.abs(value + 1.0))) for _, value in shown.values() if np.isfinite(value).any()]
    if inset is None:
        close = [distance for distance in passing if distance < window / 10.0]
        inset = max(3.0 * max(close), window / 50.0) if close else 0.0
    if inset:
        _enlarge(fig, pairs, frequency_unit, marks or {}, critical, inset)
    return fig


def _draw_plane(
    fig: go.Figure,
    shown: Mapping[str, tuple[NDArray[np.float64], NDArray[np.complex128]]],
    unit: str,
    marks: Marks,
    critical: str,
    inset: bool = False,
) -> None:
    """Draw the unit circle, the curves, the marks and -1, in the main axes or in the inset, which has no legend."""
    axes = {"xaxis": "x2", "yaxis": "y2"} if inset else {}
    suffix = " (enlarged)" if inset else ""
    turn = np.linspace(0.0, 2.0 * np.pi, 3601 if inset else 181)
    fig.add_scatter(
        x=lean(np.cos(turn)),
        y=lean(np.sin(turn)),
        mode="lines",
        name=f"unit circle{suffix}",
        hoverinfo="skip",
        line={"color": GREY, "width": 1, "dash": "dash"},
        showlegend=not inset,
        **axes,
    )
    for (name, (w, value)), color in zip(shown.items(), colors(len(shown)), strict=True):
        if not w.size:
            continue
        fig.add_scatter(
            x=lean(value.real),
            y=lean(value.imag),
            customdata=lean(w),
            mode="lines",
            name=name + suffix,
            legendgroup=name,
            line={"color": color, "width": 2},
            showlegend=not inset,
            **axes,
            hovertemplate=f"{name}<br>ω = %{{customdata:.4g}} {unit}<br>L = %{{x:.4f}} %{{y:+.4f}} j<extra></extra>",
        )
        fig.add_scatter(
            x=lean(value.real),
            y=lean(-value.imag),
            mode="lines",
            legendgroup=name,
            showlegend=False,
            hoverinfo="skip",
            line={"color": color, "width": 1, "dash": "dot"},
            **axes,
        )
        if not inset:
            fig.add_scatter(
                **_arrow(value),
                mode="markers",
                legendgroup=name,
                showlegend=False,
                hoverinfo="skip",
                marker={"color": color, "symbol": "arrow", "size": [0, 11], "angleref": "previous", "opacity": 1},
            )
    for k, (name, (at, point)) in enumerate(marks.items()):
        fig.add_scatter(
            x=[point.real],
            y=[point.imag],
            name=name + suffix,
            mode="markers",
            showlegend=not inset,
            **axes,
            marker=marker(INK, k, hollow=True),
            hovertemplate=f"{name}<br>ω = {at:.6g} {unit}<br>L = %{{x:.4f}} %{{y:+.4f}} j<extra></extra>",
        )
    fig.add_scatter(
        x=[-1],
        y=[0],
        mode="markers",
        name=critical + suffix,
        hovertemplate=f"{critical}<extra></extra>",
        marker={"symbol": "x-thin", "size": 11, "line": {"width": 2.5, "color": INK}},
        showlegend=not inset,
        **axes,
    )


def _enlarge(
    fig: go.Figure,
    pairs: Mapping[str, tuple[ArrayLike, ArrayLike]],
    unit: str,
    marks: Marks,
    critical: str,
    reach: float,
) -> None:
    """Draw the surroundings of -1 enlarged at the right: they decide stability, and may be too small to see."""
    shown = {name: _shown(name, *pair, -1.0, reach) for name, pair in pairs.items()}
    near = {name: mark for name, mark in marks.items() if abs(mark[1] + 1.0) < reach}
    _draw_plane(fig, shown, unit, near, critical, inset=True)
    fig.update_layout(xaxis_domain=[0.0, 0.66])
    frame = {"mirror": True, "nticks": 5, "tickfont": {"size": 11}, "constrain": "domain"}
    fig.update_layout(
        xaxis2={**frame, "domain": [0.74, 1.0], "anchor": "y2", "range": [-1.0 - reach, -1.0 + reach]},
        yaxis2={**frame, "domain": [0.5, 1.0], "anchor": "x2", "range": [-reach, reach], "scaleanchor": "x2"},
    )


def _times(number: int) -> str:
    if number == 0:
        return "0 times"
    return f"{abs(number)} time{'s' if abs(number) > 1 else ''} {'clockwise' if number > 0 else 'counterclockwise'}"


def _shown(
    name: str, frequency: ArrayLike, gain: ArrayLike, center: float, reach: float
) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    """Return the points to draw: NaN outside the surroundings of the center, without steps below a pixel."""
    w, value = _curve(name, frequency, gain)
    near = (np.abs(value.real - center) < 2.0 * reach) & (np.abs(value.imag) < 2.0 * reach)
    value = np.where(near, value, complex(np.nan, np.nan))
    keep: list[int] = []
    last = complex(np.nan, np.nan)
    for k, point in enumerate(value.tolist()):
        if not abs(point - last) < reach / 800.0:  # NaN, too, is kept once it follows a point
            if point == point or last == last:
                keep.append(k)
            last = point
    return w[keep], value[keep]


def _in_one_unit(curves: Curves, default: str) -> tuple[str, dict[str, tuple[ArrayLike, ArrayLike]]]:
    """Return the unit of all frequencies, and curves as pairs."""
    for name, curve in curves.items():
        if not (isinstance(curve, tuple | list) and len(curve) == 2 or hasattr(curve, "response")):
            raise TypeError(f"curves must be pairs or frequency responses, got {shown(curve)} ({name!r})")
    pairs = {
        name: curve if isinstance(curve, tuple | list) else (curve.frequency, curve.response)
        for name, curve in curves.items()
    }
    units = {default or "rad/s" if isinstance(curve, tuple | list) else curve.unit for curve in curves.values()} or {
        default or "rad/s"
    }
    if len(units) > 1:
        raise ValueError(f"curves must have one unit of frequency, got {' and '.join(sorted(units))}")
    return units.pop(), pairs


def _curve(name: str, frequency: ArrayLike, gain: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    w, value = np.asarray(frequency, dtype=float), np.asarray(gain, dtype=complex)
    if w.shape != value.shape or w.ndim != 1:
        raise ValueError(f"curve must be two arrays of one length, got {w.shape} and {value.shape} ({name})")
    return w, value


def _arrow(value: NDArray[np.complex128]) -> dict[str, NDArray[np.float32]]:
    """Return two neighboring points; the second one carries the head of an arrow."""
    steps = np.abs(np.abs(value[1:]) - 1.5)  # outside the unit circle, to keep -1 visible
    steps = np.where(np.isfinite(value[:-1]), steps, np.nan)
    k = int(np.nanargmin(steps)) if np.isfinite(steps).any() else len(value)
    pair = value[k : k + 2]
    return {"x": lean(pair.real), "y": lean(pair.imag)}


@check_arguments(gaps=True)
def bode_figure(
    curves: Curves,
    title: str = "",
    frequency_unit: str = "",
    marks: Marks | None = None,
) -> go.Figure:
    """Return Bode curves: |L| over a logarithmic frequency above, the phase of L below, never wrapped.

    Parameters
    ----------
    curves : Curves
        Name -> result of `system.nyquist()` (in rad/s if the length of a step is known), or (frequency, L): shape (n,),
        ascending frequencies > 0 and the complex loop gain there, dense enough that the phase moves by less than 180
        degrees from point to point.
    title : str, optional
    frequency_unit : str, optional
        Unit of pairs (frequency, L): "rad/s" or "rad/step"; "": rad/s.
    marks : Marks, optional
        Name -> (frequency, L there), drawn on both curves: for example, the points of the margins.

    Returns
    -------
    plotly Figure
        Figure with lines at |L| = 1 and at -180 degrees; it opens on 1e-3 < |L| < 1e3, phases above -720.

    Raises
    ------
    ValueError
        If frequencies and loop gain differ in length, or if curves have different units.

    Examples
    --------
    >>> w = np.logspace(-1, 1, 50)
    >>> figure = bode_figure({"integrator with delay": (w, np.exp(-1j * w) / (1j * w))})
    >>> len(figure.data)
    2
    """
    frequency_unit, pairs = _in_one_unit(curves, frequency_unit)
    fig = figure(
        make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07, row_heights=[0.5, 0.5]),
        title=title,
        height=520,
    )
    phases, seen = [], [(1.0, -180.0, np.nan)]
    buckets = buckets_for(2 * len(curves))
    for (name, (frequency, gain)), color in zip(pairs.items(), colors(len(pairs)), strict=True):
        w, value = _curve(name, frequency, gain)
        fine = np.isfinite(value) & (value != 0.0) & (w > 0.0)
        w, value = w[fine], value[fine]
        phase = np.degrees(np.unwrap(np.angle(value)))
        if phase.size:
            phase -= 360.0 * round((phase[0] + 90.0) / 360.0)  # begins nearest to an integrator's -90
        shown = (np.abs(value) > 1e-3) & (np.abs(value) < 1e3)
        seen += list(zip(np.abs(value[shown]), phase[shown], w[shown], strict=True))
        phases.append((w, phase))
        line = {"color": color, "width": 2}
        for row, y, reading in ((1, np.abs(value), "|L| = %{y:.4g}"), (2, phase, "phase %{y:.4g}°")):
            fig.add_scatter(
                **dict(zip("xy", thinned(w, y, buckets), strict=True)),
                name=name,
                legendgroup=name,
                mode="lines",
                line=line,
                showlegend=row == 1,
                row=row,
                col=1,
                hovertemplate=f"{name}: {reading}<extra></extra>",
            )
    for k, (name, (at, point)) in enumerate((marks or {}).items()):
        degrees = _nearest_phase(at, point, phases)
        for row, level in ((1, abs(point)), (2, degrees)):
            fig.add_scatter(
                x=[at],
                y=[level],
                name=name,
                legendgroup=name,
                mode="markers",
                marker=marker(INK, k, hollow=True),
                showlegend=row == 1,
                hovertemplate=f"{name}, ω = {at:.6g} {frequency_unit}: %{{y:.4g}}<extra></extra>",
                row=row,
                col=1,
            )
    dashed = {"color": GREY, "width": 1.2, "dash": "dash"}
    fig.add_hline(y=1.0, row=1, col=1, line=dashed)
    fig.add_hline(y=-180.0, row=2, col=1, line=dashed)
    size, phase, w = np.array(seen).T
    low, high = max(-720.0, float(phase.min())) - 20.0, max(0.0, float(phase.max())) + 20.0
    fig.update_yaxes(**axis("|L|", log=True), range=np.log10([size.min() / 1.5, size.max() * 1.5]).tolist(), row=1)
    fig.update_yaxes(title_text="phase [degrees]", range=[low, high], dtick=90, row=2)
    fig.update_layout(hovermode="x unified")
    fig.update_yaxes(dtick=1, tickformat=None, exponentformat="power", row=1)
    fig.update_xaxes(type="log", dtick=1, exponentformat="power", hoverformat=".4g")
    if len(seen) > 1:
        fig.update_xaxes(range=np.log10([np.nanmin(w), np.nanmax(w)]).tolist())
    fig.update_xaxes(title_text=f"frequency [{frequency_unit}]", row=2)
    return fig


def _nearest_phase(
    w: float, point: complex, phases: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> float:
    """Return the phase of a point, plus the full turns that bring it closest to a curve."""
    degrees = float(np.degrees(np.angle(point)))
    best = degrees
    for frequency, phase in phases:
        if frequency.size:
            phase_of_curve = float(np.interp(w, frequency, phase))
            turned = degrees + 360.0 * round((phase_of_curve - degrees) / 360.0)
            if abs(turned - phase_of_curve) < abs(best - phase_of_curve) or best == degrees:
                best = turned
    return best


@check_arguments(gaps=True)
def root_figure(
    roots: Mapping[str, ArrayLike],
    sampled: bool | None = None,
    title: str = "",
    approximate: Mapping[str, ArrayLike] | None = None,
) -> go.Figure:
    """Return characteristic roots in the plane, with the boundary of stability.

    Parameters
    ----------
    roots : mapping
        Name -> shape (k,), complex: s [rad/s], or z of a sampled system, for example `system.roots(10)`.
    sampled : bool, optional
        Whether the boundary is the unit circle instead of the imaginary axis. None: the plane of the roots, if they
        are `ecc.linear.CharacteristicRoots`, else the s plane.
    title : str, optional
    approximate : mapping, optional
        Name -> shape (k,), complex, drawn as open markers: roots of an approximation, to compare with.

    Returns
    -------
    plotly Figure
        The unstable side is shaded, hovering shows the root.

    Raises
    ------
    ValueError
        Roots in different planes, without `sampled`.

    Examples
    --------
    >>> figure = root_figure({"loop": [-1.0 + 2.0j, -1.0 - 2.0j]})
    >>> len(figure.data)
    2
    """
    planes = {getattr(r, "plane", "") for r in (*roots.values(), *(approximate or {}).values())} - {""}
    if sampled is None:
        if len(planes) > 1:
            raise ValueError("roots must lie in one plane, got those of continuous-time (s) and sampled (z) systems")
        sampled = planes == {"z"}
    fig = figure(title=title, height=480)
    every = [np.atleast_1d(np.asarray(r, dtype=complex)) for r in (*roots.values(), *(approximate or {}).values())]
    points = np.concatenate(every) if every else np.zeros(0, complex)
    if sampled:
        _circle(fig, float(np.abs(points).max()) if points.size else 1.0)
    else:
        _half_plane(fig, points)
    sets = [(name, r, False) for name, r in roots.items()]
    sets += [(name, r, True) for name, r in (approximate or {}).items()]
    letter = "z" if sampled else "s"
    for k, ((name, values, open_), color) in enumerate(zip(sets, colors(len(sets)), strict=True)):
        at = np.atleast_1d(np.asarray(values, dtype=complex))
        extra = "|z| = %{customdata:.8f}<br>" if sampled else ""
        fig.add_scatter(
            x=lean(at.real),
            y=lean(at.imag),
            customdata=lean(np.abs(at)),
            name=name,
            mode="markers",
            marker=marker(color, k, hollow=open_),
            hovertemplate=f"{name}<br>{extra}{letter} = %{{x:.6g}} %{{y:+.6g}} j<extra></extra>",
        )
    unit = "" if sampled else " [rad/s]"
    fig.update_xaxes(title_text=f"Re {letter}{unit}")
    fig.update_yaxes(title_text=f"Im {letter}{unit}")
    return fig


_SHADE = {"fillcolor": "#fbe9de", "line": {"width": 0}, "layer": "below"}


def _circle(fig: go.Figure, largest: float) -> None:
    """Draw the unit circle, with its outside shaded."""
    reach = max(1.15, 1.1 * largest)
    fig.update_layout(
        shapes=[
            {"type": "rect", "x0": -reach, "x1": reach, "y0": -reach, "y1": reach, **_SHADE},
            {
                "type": "circle",
                "x0": -1,
                "x1": 1,
                "y0": -1,
                "y1": 1,
                "layer": "below",
                "fillcolor": "white",
                "line": {"width": 0},
            },
        ]
    )
    turn = np.linspace(0.0, 2.0 * np.pi, 361)
    fig.add_scatter(
        x=lean(np.cos(turn)),
        y=lean(np.sin(turn)),
        mode="lines",
        name="boundary of stability",
        hoverinfo="skip",
        line={"color": INK, "width": 1.5},
    )
    fig.update_xaxes(range=[-reach, reach], constrain="domain", showgrid=False)
    fig.update_yaxes(range=[-reach, reach], scaleanchor="x", showgrid=False)


def _half_plane(fig: go.Figure, points: NDArray[np.complex128]) -> None:
    """Draw the imaginary axis, with its right side shaded."""
    real, imag = points.real, np.abs(points.imag)
    low, high = (float(real.min()), float(real.max())) if points.size else (-1.0, 1.0)
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.12 * ((high - low) or 1.0)
    reach = 1.1 * (float(imag.max()) if points.size and imag.max() > 0.0 else 1.0)
    fig.update_layout(shapes=[{"type": "rect", "x0": 0, "x1": high + room, "y0": -reach, "y1": reach, **_SHADE}])
    fig.add_scatter(
        x=[0, 0],
        y=lean([-reach, reach]),
        mode="lines",
        name="boundary of stability",
        hoverinfo="skip",
        line={"color": INK, "width": 1.5},
    )
    fig.update_xaxes(range=[low - room, high + room])
    fig.update_yaxes(range=[-reach, reach])
