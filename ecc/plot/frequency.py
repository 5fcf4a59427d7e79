"""Nyquist curves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from ecc.plot.look import GREY, INK, colors, figure, lean

__all__ = ["nyquist_figure"]


def nyquist_figure(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    title: str = "",
    frequency_unit: str = "rad/s",
    window: float = 2.5,
) -> go.Figure:
    """Return Nyquist curves of loop gains, with the critical point -1 and the unit circle.

    Parameters
        curves : name -> (frequency, L): shape (n,), frequencies > 0 in order and the complex loop gain there, whose
            mirror image (negative frequencies) is dotted.
        title : str.
        frequency_unit : str, "rad/s" or "rad/step".
        window : float, > 0. The real axis is shown from -window to 0.6 window; what lies outside is not drawn.
    Returns
        plotly Figure; hovering shows the frequency.
    Raises
        ValueError: frequencies and loop gain of different lengths.
    """
    made = figure(title=title, height=480)
    turn = np.linspace(0.0, 2.0 * np.pi, 181)
    made.add_scatter(
        x=lean(np.cos(turn)), y=lean(np.sin(turn)), mode="lines", name="unit circle", hoverinfo="skip",
        line={"color": GREY, "width": 1, "dash": "dash"},
    )  # fmt: skip
    for (name, (frequency, gain)), color in zip(curves.items(), colors(len(curves)), strict=True):
        w, value = _shown(name, frequency, gain, window)
        if not w.size:
            continue
        line = {"color": color, "width": 2}
        made.add_scatter(
            x=lean(value.real), y=lean(value.imag), customdata=lean(w), mode="lines", name=name, legendgroup=name,
            line=line,
            hovertemplate=f"{name}<br>ω = %{{customdata:.4g}} {frequency_unit}<br>"
            "L = %{x:.4f} %{y:+.4f} j<extra></extra>",
        )  # fmt: skip
        made.add_scatter(
            x=lean(value.real), y=lean(-value.imag), mode="lines", legendgroup=name, showlegend=False,
            hoverinfo="skip", line={"color": color, "width": 1, "dash": "dot"},
        )  # fmt: skip
        made.add_scatter(**_arrow(value), mode="markers", legendgroup=name, showlegend=False, hoverinfo="skip",
                         marker={"color": color, "symbol": "arrow", "size": [0, 11], "angleref": "previous",
                                 "opacity": 1})  # fmt: skip
    made.add_scatter(
        x=[-1], y=[0], mode="markers", name="critical point −1", hovertemplate="critical point −1<extra></extra>",
        marker={"symbol": "x-thin", "size": 11, "line": {"width": 2.5, "color": INK}},
    )  # fmt: skip
    axis_line = {"zeroline": True, "zerolinecolor": "#bbbbbb", "zerolinewidth": 1}
    made.update_xaxes(title_text="Re L", range=[-window, 0.6 * window], constrain="domain", **axis_line)
    made.update_yaxes(title_text="Im L", range=[-0.8 * window, 0.8 * window], scaleanchor="x", **axis_line)
    return made


def _shown(
    name: str, frequency: ArrayLike, gain: ArrayLike, window: float
) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    """The points to draw: NaN where the curve leaves the surroundings of the window, no steps below a pixel."""
    w, value = np.asarray(frequency, dtype=float), np.asarray(gain, dtype=complex)
    if w.shape != value.shape or w.ndim != 1:
        raise ValueError(f"curve must be two arrays of one length, got {w.shape} and {value.shape} ({name})")
    near = (np.abs(value.real) < 2.0 * window) & (np.abs(value.imag) < 2.0 * window)
    value = np.where(near, value, complex(np.nan, np.nan))
    keep: list[int] = []
    last = complex(np.nan, np.nan)
    for k, point in enumerate(value.tolist()):
        if not abs(point - last) < window / 800.0:  # NaN, too, is kept once it follows a point
            if point == point or last == last:
                keep.append(k)
            last = point
    return w[keep], value[keep]


def _arrow(value: NDArray[np.complex128]) -> dict[str, NDArray[np.float32]]:
    """Two neighboring points, the second of which carries the head of an arrow."""
    steps = np.abs(np.abs(value[1:]) - 1.5)  # outside the unit circle: -1 stays free
    steps = np.where(np.isfinite(value[:-1]), steps, np.nan)
    k = int(np.nanargmin(steps)) if np.isfinite(steps).any() else len(value)
    pair = value[k : k + 2]
    return {"x": lean(pair.real), "y": lean(pair.imag)}
