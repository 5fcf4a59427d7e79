"""Plotly figures from arrays. The functions compute no results and do not display the figures."""

from ecc.plot.boundary import boundary_figure, envelope_figure, stability_map_figure
from ecc.plot.frequency import bode_figure, nyquist_figure, root_figure
from ecc.plot.slider import slider_figure, small_multiples_figure
from ecc.plot.slowdown import slowdown_figure
from ecc.plot.states import states_figure
from ecc.plot.sweep import sweep_figure
from ecc.plot.trajectory import comparison_figure, trajectory_figure

__all__ = [
    "bode_figure",
    "boundary_figure",
    "comparison_figure",
    "envelope_figure",
    "nyquist_figure",
    "root_figure",
    "slider_figure",
    "slowdown_figure",
    "small_multiples_figure",
    "stability_map_figure",
    "states_figure",
    "sweep_figure",
    "trajectory_figure",
]
