"""Figures: what is drawn, in which unit, and that long series stay small without losing their extremes."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import plotly.io as pio
import pytest

from ecc import plot
from ecc.linear import SampledSystem
from ecc.plot import (
    bode_figure,
    boundary_figure,
    comparison_figure,
    envelope_figure,
    nyquist_figure,
    root_figure,
    slider_figure,
    small_multiples_figure,
    stability_map_figure,
    states_figure,
    sweep_figure,
    trajectory_figure,
)
from ecc.plot.look import PALETTE, RATE, SIZE, as_html, buckets_for, colors, line_mode, thinned, unit_for


def named(figure, name):
    found = [trace for trace in figure.data if trace.name == name]
    assert len(found) == 1, f"{len(found)} traces named {name!r}"
    return found[0]


# ---- look ------------------------------------------------------------------------------------------------


def test_thinning_keeps_the_ends_and_every_extreme():
    rng = np.random.default_rng(3)
    x, y = np.arange(100_000.0), rng.standard_normal(100_000)
    y[77_777], y[12_345] = 40.0, -40.0
    tx, ty = thinned(x, y, 500)
    assert len(tx) <= 1002
    assert (tx[0], tx[-1]) == (0.0, 99_999.0)
    assert (ty.max(), ty.min()) == (40.0, -40.0)
    assert tx[ty.argmax()] == 77_777
    assert np.all(np.diff(tx) > 0)


def test_short_series_are_drawn_whole_and_gaps_stay():
    y = np.array([1.0, np.nan, 3.0])
    assert np.array_equal(thinned(np.arange(3.0), y, 10)[1], y, equal_nan=True)
    long = np.r_[np.full(5000, np.nan), np.ones(5000)]
    x, y = thinned(np.arange(10_000.0), long, 50)
    assert np.isnan(y[x < 5000]).all() and (y[x >= 5000] == 1.0).all() and (x < 5000).sum() == 25


@pytest.mark.parametrize(
    ("values", "units", "unit"),
    [([5e6, 2e9], RATE, "Gb/s"), ([9.99e8], RATE, "Mb/s"), ([0.0], RATE, "bit/s"), ([np.nan, 1.5e3], SIZE, "kB")],
)
def test_unit_fits_the_largest_value(values, units, unit):
    assert unit_for(values, units)[1] == unit


def test_colors_are_distinct_for_few_and_many():
    assert colors(3) == list(PALETTE[:3])
    assert len(set(colors(40))) == 40


LOOP = {"loop": ([0.5, 1.0, 2.0], [-2j, -1.0 - 1j, -0.5 + 0j])}
FIGURES = {
    "bode_figure": lambda: bode_figure(LOOP),
    "boundary_figure": lambda: boundary_figure([0.1, 1.0], {"a": [1.0, 2.0]}),
    "comparison_figure": lambda: comparison_figure(
        [1.0, 2.0], [[1.0], [1.0]], [[2.0], [1.0]], [[0.0], [0.0]], [[1.0], [0.0]], [True, False], [False, False]
    ),
    "envelope_figure": lambda: envelope_figure({"a": ([0.0, 1.0], [1.0, 0.5])}),
    "nyquist_figure": lambda: nyquist_figure(LOOP),
    "root_figure": lambda: root_figure({"a": [-1.0 + 1j]}),
    "slider_figure": lambda: slider_figure({"1": root_figure({"a": [-1.0]}), "2": root_figure({"a": [-2.0]})}),
    "small_multiples_figure": lambda: small_multiples_figure({"1": root_figure({"a": [-1.0]})}),
    "stability_map_figure": lambda: stability_map_figure([1.0, 2.0], [1.0, 2.0], [[0.5, 1.5], [0.6, 1.2]]),
    "slowdown_figure": lambda: plot.slowdown_figure({"a": {"size": [1e3, 1e6], "p50": [1.0, 2.0]}}),
    "states_figure": lambda: states_figure([0.0, 1.0], {"rate [Mb/s]": {"rate": [1.0, 2.0]}}, ["Startup", "Drain"]),
    "sweep_figure": lambda: sweep_figure({"a": [1.0, 2.0]}, {"loss": [0.0, 0.1]}),
    "trajectory_figure": lambda: trajectory_figure([1.0, 2.0], [[1e6], [1e6]]),
}


def test_no_figure_has_a_button_that_uploads_it():
    assert set(FIGURES) == set(plot.__all__)
    for name, drawn in FIGURES.items():
        removed = drawn().layout.template.layout.modebar.remove
        assert "sendChartToCloud" in removed, name


def test_a_page_of_a_figure_has_a_title_and_a_dark_mode():
    drawn = trajectory_figure([1.0, 2.0], [[1e6], [2e6]], title="a <b>")
    head = as_html(drawn).split("</head>")[0]
    assert "<title>a &lt;b&gt;</title>" in head and 'name="viewport"' in head and "prefers-color-scheme: dark" in head
    assert "<title>Figure</title>" in as_html(trajectory_figure([1.0, 2.0], [[1e6], [2e6]])).split("</head>")[0]
    assert "<title>" not in as_html(drawn, page=False)


def test_figures_as_pages_have_an_alternative_text_and_no_link_of_plotly():
    drawn = trajectory_figure([1.0, 2.0], [[1e6], [2e6]], [[0.0], [5e3]], title="a <b>", levels=[("share", 2e6)])
    for page in (True, False):
        text = as_html(drawn, page)
        assert ("</html>" in text, "plotly.js v" in text) == (page, page)
        (said,) = re.findall(r'class="plotly-graph-div" role="img" aria-label="([^"]*)"', text)
        assert said == ("a &lt;b&gt;: time [s], sending rate [Mb/s], queue [kB]. Curves: flow 0, share, queue, link 0.")
        assert '"displaylogo": false' in text
    assert 'aria-label="Figure: ' in as_html(root_figure({"a": [-1.0]}), False)


def test_few_values_are_marked_and_many_are_a_line():
    assert line_mode([2.0]) == line_mode([np.nan, 2.0, np.nan]) == line_mode([1.0, 3.0, 2.0]) == "lines+markers"
    assert line_mode(np.arange(100.0)) == line_mode([3.0, 3.0, 3.0]) == line_mode([np.nan]) == "lines"
    few, many = np.array([1.0, 2.0, 4.0]), np.linspace(1.0, 4.0, 99)
    figure = boundary_figure(few, {"few": few}, {"bound": 2.0})
    assert [trace.mode for trace in figure.data] == ["lines+markers", "lines"]
    assert boundary_figure(many, {"many": many}).data[0].mode == "lines"
    runs = envelope_figure({"one window": ([1.0], [0.1]), "many": (many, many)})
    assert [trace.mode for trace in runs.data] == ["lines+markers", "lines"]
    one = ([1.0], [0.1])
    trace = named(envelope_figure({"a": one}, {"a": one}), "a")  # a fit through one value draws nothing
    assert trace.mode == "lines+markers" and trace.showlegend and trace.marker.color == PALETTE[0]
    run = trajectory_figure([0.1], [[1e6]], [[1e3]])
    assert [trace.mode for trace in run.data] == ["lines+markers"] * 2


def test_no_marker_hides_another():
    where = ([1.0], [2.0], None)
    points = boundary_figure([1.0, 2.0], {}, points={"a": where, "b": where}).data
    assert [trace.marker.symbol for trace in points] == ["circle-open", "square-open"]
    for trace in (*points, *root_figure({"a": [-1.0], "b": [-1.0]}).data):
        assert trace.marker.line.color != "white" and trace.marker.color != "white"
    below, above = (trace.marker.size for trace in root_figure({"a": [-1.0], "b": [-1.0]}).data[1:])
    assert below > above


def test_a_few_whole_numbers_get_no_ticks_between():
    figure = boundary_figure([1, 2, 4], {"loss": [0.1, 0.25, 0.3]}, x_title="bottlenecks", log_x=False)
    assert figure.layout.xaxis.dtick == 1 and figure.layout.yaxis.dtick is None
    assert boundary_figure([0, 500], {"loss": [0.1, 0.2]}, log_x=False).layout.xaxis.dtick is None


def test_logarithmic_axes_of_many_decades_have_powers_and_others_plain_numbers():
    def ticks(values):
        return boundary_figure(values, {"loss": values}, log_y=True).layout.yaxis

    assert (ticks([1.0, 500.0]).dtick, ticks([1.0, 500.0]).tickformat) == ("D2", "~g")
    assert (ticks([1e-6, 1.0]).dtick, ticks([1e-6, 1.0]).exponentformat) == (1, "power")
    assert ticks([2e8, 9e8]).exponentformat == ticks([2e-5, 9e-5]).exponentformat == "power"
    assert ticks([0.0, np.nan]).dtick == "D2"


def test_a_crowd_of_markers_is_drawn_small():
    few, many = (np.arange(float(count)) for count in (100, 101))
    sizes = [boundary_figure([], {}, points={"a": (at, at, None)}).data[0].marker.size for at in (few, many)]
    assert sizes == [9, 5]


def test_hovering_tells_all_curves_at_one_place():
    """Where curves share an axis; in planes, and where many curves stand behind one name, each point by itself."""
    flat = {"nyquist_figure", "root_figure", "slider_figure", "small_multiples_figure", "stability_map_figure"}
    for name, drawn in FIGURES.items():
        figure = drawn()
        assert figure.layout.hovermode == (None if name in flat else "x unified"), name
        if name not in flat:
            assert not any("%{x" in (trace.hovertemplate or "") for trace in figure.data), name  # it stands above them
    time = [1.0, 2.0]
    many = trajectory_figure(time, np.ones((2, 13)), np.ones((2, 1)))
    assert many.layout.hovermode == "closest"
    assert all(" at %{x:.4g} s" in trace.hovertemplate for trace in many.data)
    assert small_multiples_figure({"a": many}).layout.hovermode == "closest"


def test_intervals_of_curves_are_bars():
    figure = boundary_figure([1.0, 2.0], {"a": [3.0, 4.0], "b": [1.0, 2.0]}, errors={"a": [0.5, 0.25]})
    assert named(figure, "a").error_y.array.tolist() == [0.5, 0.25] and named(figure, "b").error_y.array is None
    with pytest.raises(ValueError, match=r"errors must have the names of curves \(a\), got 'c'"):
        boundary_figure([1.0], {"a": [1.0]}, errors={"c": [1.0]})


# ---- trajectories ----------------------------------------------------------------------------------------


def test_rates_are_drawn_in_megabits_and_queues_in_packets():
    time = np.array([0.1, 0.2, 0.3])
    figure = trajectory_figure(time, np.array([[1e6], [2e6], [3e6]]), np.array([[0.0], [5e3], [1e4]]), packet_size=1000)
    assert named(figure, "flow 0").y.tolist() == [1.0, 2.0, 3.0]
    assert named(figure, "queue, link 0").y.tolist() == [0.0, 5.0, 10.0]
    assert figure.layout.yaxis.title.text == "sending rate [Mb/s]"
    assert figure.layout.yaxis2.title.text == "queue [packets]"
    assert figure.layout.xaxis2.title.text == "time [s]"


def test_no_queues_no_second_panel():
    figure = trajectory_figure([1.0], [[2e9]], title="RCP")
    assert "yaxis2" not in figure.layout.to_plotly_json()
    assert figure.layout.title.text == "RCP"


def test_many_flows_share_a_legend_entry_and_stay_small():
    time = np.linspace(0.0, 100.0, 20_000)
    rates = 1e6 * np.random.default_rng(0).random((len(time), 30))
    figure = trajectory_figure(time, rates, rates[:, :1])
    assert sum(trace.showlegend is not False and trace.name == "30 flows" for trace in figure.data) == 1
    assert len(figure.to_json()) < 500_000


def test_a_long_series_is_the_mean_of_buckets_in_a_band_to_their_extremes():
    time = np.linspace(0.0, 100.0, 20_000)
    rate = np.where(np.arange(20_000) % 2, 1.5e6, 0.5e6)
    rate[12_345] = 9e6
    band, line = trajectory_figure(time, rate[:, None]).data
    assert (band.fill, band.legendgroup, band.showlegend) == ("toself", "flow 0", False)
    assert (min(band.y), max(band.y)) == (0.5, 9.0)  # no extreme is lost
    assert np.quantile(line.y, [0.05, 0.95]) == pytest.approx([1.0, 1.0], rel=0.05) and line.showlegend
    gap = np.where(time < 50.0, np.nan, rate)
    _, line = trajectory_figure(time, gap[:, None]).data
    assert np.isnan(line.y[line.x < 49.0]).all() and np.isfinite(line.y[line.x > 51.0]).all()
    flat = trajectory_figure(time, np.full((20_000, 1), 1e6)).data
    assert len(flat) == 1  # without variation there is no band


def test_more_flows_than_thirty_are_their_median_and_bands():
    time = np.linspace(0.0, 1.0, 50)
    rates = 1e6 * np.tile(np.arange(1.0, 102.0), (50, 1))
    figure = trajectory_figure(time, rates)
    assert [trace.name for trace in figure.data] == [f"101 flows: {of}" for of in ("all", "10 to 90 %", "median")]
    for trace, low, high in zip(figure.data, (1.0, 11.0, 51.0), (101.0, 91.0, 51.0), strict=True):
        assert (min(trace.y), max(trace.y)) == pytest.approx((low, high))


def test_thirteen_to_thirty_flows_are_colored_by_their_rtt():
    time, rtts = np.linspace(0.0, 1.0, 5), np.linspace(0.02, 0.1, 20)
    figure = trajectory_figure(time, np.ones((5, 20)), rtts=rtts)
    bar = figure.data[-1].marker
    assert (bar.colorbar.title.text, bar.cmin, bar.cmax) == ("RTT [ms]", pytest.approx(20.0), pytest.approx(100.0))
    assert figure.data[3].hovertemplate.startswith("flow 3 (RTT 32.63 ms): ")
    assert len({trace.line.color for trace in figure.data[:-1]}) == 20
    same = trajectory_figure(time, np.ones((5, 20)), rtts=np.full(20, 0.1))
    assert not any(trace.marker.showscale for trace in same.data)


def test_many_flows_of_several_protocols_have_the_colors_of_these():
    groups = ["BBR", *["CUBIC"] * 10]
    figure = trajectory_figure([1.0, 2.0], np.ones((2, 11)), groups=groups, rtts=np.linspace(0.02, 0.1, 11))
    assert [trace.line.color for trace in figure.data] == [PALETTE[0], *[PALETTE[1]] * 10]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["BBR", "CUBIC"]
    assert figure.data[7].hovertemplate.startswith("flow 7: ")
    few = trajectory_figure([1.0, 2.0], np.ones((2, 2)), groups=["BBR", "CUBIC"])
    assert [trace.name for trace in few.data] == ["flow 0", "flow 1"]
    with pytest.raises(ValueError, match="groups must have a name for each of 2 flows, got 1"):
        trajectory_figure([1.0, 2.0], np.ones((2, 2)), groups=["BBR"])


def test_bands_of_several_long_series_do_not_hide_their_lines():
    time, noise = np.arange(60_000.0), np.random.default_rng(1).random((60_000, 4))
    figure = trajectory_figure(time, noise)
    bands = [trace for trace in figure.data if trace.fill]
    assert len(bands) == 4 and {trace.fillcolor[-6:-1] for trace in bands} == {"0.075"}
    assert all(trace.zorder == 1 for trace in figure.data if not trace.fill)


def test_axes_of_time_have_the_unit_of_their_span_and_start_at_zero():
    for span, unit in ((20.0, "s"), (0.3, "s"), (0.02, "ms"), (3e-6, "µs"), (2e-8, "ns")):
        figure = trajectory_figure(np.linspace(0.1, 1.0, 10) * span, np.ones((10, 1)), levels=[("share", 1.0)])
        assert figure.layout.xaxis.title.text == f"time [{unit}]"
        assert figure.layout.xaxis.rangemode == "tozero"
        assert figure.layout.xaxis.unifiedhovertitle.text == f"t = %{{x:.4g}} {unit}"
        assert figure.data[0].x[-1] == pytest.approx(figure.data[1].x[-1])
    assert trajectory_figure([8.0, 9.0], np.ones((2, 1))).layout.xaxis.rangemode is None


def test_small_variations_and_equal_curves_are_visible():
    time = np.linspace(0.1, 1.0, 10)
    small = 1e6 * (1.0 + 0.02 * np.sin(time))[:, None]
    assert trajectory_figure(time, small).layout.yaxis.rangemode == "normal"
    assert trajectory_figure(time, np.linspace(0.0, 1e6, 10)[:, None]).layout.yaxis.rangemode == "tozero"
    assert trajectory_figure(time, np.full((10, 1), 1e6)).layout.yaxis.rangemode == "tozero"
    equal = trajectory_figure(time, np.hstack([small, small]))
    assert [trace.line.dash for trace in equal.data] == ["solid", "dash"]


def test_shaded_stretches_have_one_entry_in_the_legend():
    zeros = np.zeros((4, 1))
    figure = comparison_figure(
        [1.0, 2.0, 3.0, 4.0], zeros, zeros, zeros, zeros, [True, False, True, False], [False, False, True, True]
    )
    assert [shape.showlegend for shape in figure.layout.shapes] == [True, False, False]
    assert figure.layout.shapes[0].name == "packets and fluid differ"


def test_the_template_is_registered_for_figures_of_users():
    assert pio.templates["ecc"].layout.colorway == PALETTE


def test_levels_are_drawn_across():
    figure = trajectory_figure([1.0, 2.0], [[1e6], [1e6]], levels=[("fair share", 2e6)])
    assert list(named(figure, "fair share").y) == [2.0, 2.0]


def test_shapes_and_names_must_agree():
    with pytest.raises(ValueError, match=r"rates must have the shape \(2, n\), one row a time, got \(3, 1\)"):
        trajectory_figure([0.0, 1.0], np.zeros((3, 1)))
    with pytest.raises(ValueError, match="flows must have 1 names, got 2"):
        trajectory_figure([0.0], [[1.0]], flows=["a", "b"])


# ---- Nyquist ---------------------------------------------------------------------------------------------


def test_nyquist_marks_the_critical_point_and_clips_the_integrator():
    w = np.logspace(-6, 2, 5000)
    figure = nyquist_figure({"loop": (w, np.exp(-1j * w) / (1j * w))})
    point = named(figure, "critical point −1")
    assert (list(point.x), list(point.y)) == ([-1], [0])
    curve = next(trace for trace in figure.data if trace.name == "loop")
    assert np.nanmax(np.abs(np.asarray(curve.y))) < 5.0
    assert len(curve.x) < 3000
    near = np.nanargmin(np.abs(np.asarray(curve.x) + 1j * np.asarray(curve.y) + 2 / np.pi))
    assert curve.customdata[near] == pytest.approx(np.pi / 2, rel=1e-2)  # hover shows the frequency there


def test_nyquist_refuses_unequal_lengths_and_draws_nothing_outside():
    with pytest.raises(ValueError, match=r"two arrays of one length, got \(2,\) and \(3,\) \(a\)"):
        nyquist_figure({"a": ([1.0, 2.0], [1.0, 1.0, 1.0])})
    assert [trace.name for trace in nyquist_figure({"far": ([1.0], [1e9 + 0j])}).data] == [
        "unit circle",
        "critical point −1",
    ]


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 times"), (1, "1 time clockwise"), (2, "2 times clockwise"), (-1, "1 time counterclockwise")],
)
def test_nyquist_marks_margins_and_says_encirclements(number, said):
    w = np.logspace(-2, 2, 500)
    loop = {"loop": (w, np.exp(-1j * w) / (1j * w))}
    figure = nyquist_figure(loop, marks={"gain margin": (np.pi / 2, -2 / np.pi + 0j)}, encirclements=number)
    point = named(figure, "gain margin")
    assert (list(point.x), list(point.y)) == ([-2 / np.pi], [0.0])
    assert "1.5708 rad/s" in point.hovertemplate
    assert named(figure, f"critical point −1, encircled {said}").x == (-1,)


def test_nyquist_enlarges_the_surroundings_of_a_curve_that_passes_close():
    w = np.logspace(-2, 2, 5000)

    def loop(gain):
        return {"loop": (w, gain * np.exp(-1j * w) / (1j * w))}

    figure = nyquist_figure(loop(0.98 * np.pi / 2), marks={"margin": (np.pi / 2, -0.98 + 0j)})
    low, high = figure.layout.xaxis2.range
    assert low < -1.0 < high and 0.04 < high - low < 0.25 and figure.layout.yaxis2.scaleanchor == "x2"
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]  # beside the plot, not on it
    near = named(figure, "loop (enlarged)")
    inside = np.abs(np.asarray(near.x) + 1.0) < 0.05
    assert near.xaxis == "x2" and inside.sum() > 5 and not near.showlegend
    assert named(figure, "margin (enlarged)").x == (-0.98,)
    assert "xaxis2" not in nyquist_figure(loop(0.5)).layout.to_plotly_json()


# ---- Bode and roots --------------------------------------------------------------------------------------


def test_bode_phase_of_a_delay_is_not_wrapped():
    w = np.linspace(0.01, 20.0, 4000)
    figure = bode_figure({"loop": (w, np.exp(-1j * w) / (1j * w))}, marks={"delay margin": (1.0, -1j * np.exp(-1j))})
    size, phase = (trace for trace in figure.data if trace.name == "loop")
    assert phase.y[0] == pytest.approx(-90.0, abs=1.0)
    assert phase.y[-1] == pytest.approx(-90.0 - np.degrees(20.0), rel=1e-5)
    assert size.y[0] == pytest.approx(100.0)
    above, below = (trace for trace in figure.data if trace.name == "delay margin")
    assert above.y[0] == pytest.approx(1.0)
    assert below.y[0] == pytest.approx(-90.0 - np.degrees(1.0))
    assert figure.layout.xaxis2.type == "log"
    assert [shape.y0 for shape in figure.layout.shapes] == [1.0, -180.0]


def test_bode_marks_lie_on_the_turn_of_their_curve():
    w = np.linspace(0.01, 20.0, 4000)
    figure = bode_figure({"loop": (w, np.exp(-1j * w) / (1j * w))}, marks={"far": (10.0, -0.1j * np.exp(-10j))})
    assert [t for t in figure.data if t.name == "far"][1].y[0] == pytest.approx(-90.0 - np.degrees(10.0))


def test_bode_opens_on_what_matters():
    w = np.logspace(-9, 9, 4000)
    figure = bode_figure({"integrator": (w, 1 / (1j * w))})
    np.testing.assert_allclose(figure.layout.xaxis2.range, [-3, 3], atol=0.02)
    with pytest.raises(ValueError, match=r"two arrays of one length, got \(1,\) and \(2,\) \(a\)"):
        bode_figure({"a": ([1.0], [1.0, 2.0])})


def test_roots_stand_before_the_boundary_of_their_kind():
    s = np.array([-1.0 + 2.0j, -1.0 - 2.0j, 0.5])
    figure = root_figure({"exact": s}, approximate={"Padé": s[:2]})
    assert list(named(figure, "boundary of stability").x) == [0, 0]
    assert named(figure, "exact").y.tolist() == [2.0, -2.0, 0.0]
    assert named(figure, "Padé").marker.symbol.endswith("-open")
    assert figure.layout.xaxis.range[1] > 0.5
    shade = figure.layout.shapes[0]
    assert (shade.x0, shade.x1) == (0, figure.layout.xaxis.range[1])


def test_roots_of_sampled_systems_have_the_unit_circle():
    figure = root_figure({"exact": [0.5j, -0.5j, 1.2]}, sampled=True)
    circle = named(figure, "boundary of stability")
    np.testing.assert_allclose(np.hypot(circle.x, circle.y), 1.0, rtol=1e-6)
    assert figure.layout.xaxis.range[1] > 1.2
    assert figure.layout.yaxis.scaleanchor == "x"
    assert [trace.name for trace in root_figure({}).data] == ["boundary of stability"]


# ---- boundaries ------------------------------------------------------------------------------------------


def test_published_bounds_are_dashed_and_measurements_have_bars():
    figure = boundary_figure(
        [0.1, 1.0],
        {"exact": [1.6, np.inf]},
        published={"Theorem 3": 1.5},
        points={"packets": ([0.1], [1.55], ([0.02], [0.01])), "bare": ([1.0], [1.5], None)},
    )
    assert named(figure, "exact").line.dash == "solid"
    assert np.isnan(named(figure, "exact").y[1])
    assert named(figure, "Theorem 3").line.dash == "dash"
    assert list(named(figure, "Theorem 3").y) == [1.5, 1.5]
    bars = named(figure, "packets").error_y
    assert (bars.symmetric, list(bars.array), list(bars.arrayminus)) == (False, [0.01], [0.02])
    assert figure.layout.xaxis.type == "log"


def test_envelope_draws_the_amplitude_on_a_logarithmic_axis():
    time = np.linspace(0.0, 10.0, 101)
    runs = {"inside": (time, -np.exp(-time)), "outside": (time, np.exp(time))}
    figure = envelope_figure(runs, {"inside": (time[[0, -1]], np.exp(-time[[0, -1]]))}, decades=3.0)
    run, fit, other = figure.data
    assert run.y[0] == pytest.approx(1.0)
    assert (fit.name, fit.line.dash, fit.y[-1]) == ("inside", "dash", pytest.approx(np.exp(-10.0)))
    assert (run.showlegend, fit.showlegend, other.showlegend) == (False, None, True)
    low, high = figure.layout.yaxis.range
    assert high == pytest.approx(10.0 / np.log(10.0) + 0.2)
    assert high - low == pytest.approx(3.3)
    with pytest.raises(ValueError, match="fits must have the names of runs"):
        envelope_figure(runs, {"other": (time, time)})


def test_envelope_of_a_run_at_rest_is_empty_not_an_error():
    figure = envelope_figure({"rest": ([0.0, 1.0], [0.0, 0.0])})
    assert np.isnan(named(figure, "rest").y).all()


def test_map_is_centered_on_the_threshold():
    figure = stability_map_figure([1.0, 2.0], [1.0, 2.0, 3.0], np.array([[0.5, 1.0], [1.0, 1.5], [1.2, 3.0]]))
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-1.0, 3.0)
    assert figure.data[1].contours.start == 1.0
    with pytest.raises(ValueError, match=r"values must have the shape \(3, 2\), got \(2, 3\)"):
        stability_map_figure([1.0, 2.0], [1.0, 2.0, 3.0], np.zeros((2, 3)))


def test_map_names_its_values_and_the_stable_side():
    over = ([1.0, 2.0], [1.0, 2.0], [[-0.5, 0.1], [-0.6, 0.2]])
    growth, radius = stability_map_figure(*over, threshold=0.0), stability_map_figure(*over)
    assert growth.data[0].colorbar.title.text == "growth rate [1/s]"
    assert "growth rate [1/s]: %{z:.5g}" in growth.data[0].hovertemplate
    assert radius.data[0].colorbar.title.text == "spectral radius"
    assert stability_map_figure(*over, value_title="decay").data[0].colorbar.title.text == "decay"
    places = {note.text: note.y for note in growth.layout.annotations}
    assert places == {"unstable": 1.0, "stable": 0.0}


def test_inset_of_a_nyquist_figure_can_be_fixed():
    w = np.logspace(-1, 1, 200)
    far = {"far from -1": (w, 5.0 / (1j * w))}
    near = {"near -1": (w, 1.02 * np.exp(-1j * np.pi / 2.0 * w) / (1j * w))}
    assert "xaxis2" not in nyquist_figure(far).layout and "xaxis2" in nyquist_figure(near).layout
    assert nyquist_figure(far, inset=0.75).layout.xaxis2.range == (-1.75, -0.25)
    assert nyquist_figure(near, inset=0.75).layout.yaxis2.range == (-0.75, 0.75)
    assert "xaxis2" not in nyquist_figure(near, inset=0.0).layout
    with pytest.raises(ValueError, match=r"inset must be >= 0 and finite, or None, got -1.0"):
        nyquist_figure(far, inset=-1.0)
    with pytest.raises(ValueError, match=r"window must be > 0 and finite, got 0.0"):
        nyquist_figure(far, window=0.0)


def test_arrow_keys_move_the_slider_of_a_page():
    root = root_figure({"roots": [-1.0 + 1j]})
    assert "ArrowRight" not in as_html(root, page=False) and 'role="img"' in as_html(root, page=False)
    text = as_html(slider_figure({"1": root, "2": root}), page=False)
    assert "ArrowRight" in text and 'role="application" tabindex="0"' in text and "{plot_id}" not in text


def test_figures_go_to_json_as_single_precision_arrays():
    data = json.loads(trajectory_figure([1.0, 2.0], [[1e6], [3e6]]).to_json())["data"][0]["y"]
    assert data["dtype"] == "f4"
    assert np.frombuffer(base64.b64decode(data["bdata"]), "f4").tolist() == [1.0, 3.0]


def test_budget_is_shared():
    assert buckets_for(1) == 800
    assert buckets_for(9) == 500
    assert buckets_for(10_000) == 40


def test_frequency_responses_are_drawn_in_their_own_unit():
    loop = SampledSystem([1.0, -0.1], [0, 9], dt=0.01, opened=SampledSystem([1.0], [0], dt=0.01))
    for make in (bode_figure, nyquist_figure):
        figure = make({"loop": loop.nyquist(), "pair": (np.array([1.0, 2.0]), np.array([0.5j, 0.4j]))})
        curve = next(trace for trace in figure.data if trace.name == "loop")
        drawn = curve.x if make is bode_figure else curve.customdata
        assert max(drawn) == pytest.approx(100 * np.pi, rel=1e-6)  # pi rad/step, a step being 10 ms
        said = figure.layout.xaxis2.title.text + " " if make is bode_figure else curve.hovertemplate
        assert re.search(r"rad/s\b(?!tep)", said)
    assert bode_figure({"loop": loop.nyquist()}).layout.xaxis2.title.text == "frequency [rad/s]"
    steps = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0])).nyquist()
    assert bode_figure({"loop": steps}).layout.xaxis2.title.text == "frequency [rad/step]"
    with pytest.raises(ValueError, match="curves must have one unit of frequency, got rad/s and rad/step"):
        bode_figure({"a": loop.nyquist(), "b": steps})


def test_a_short_queue_of_packets_has_ticks_at_whole_packets_only():
    time, rates = [1.0, 2.0, 3.0], [[1e6], [1e6], [1e6]]
    assert trajectory_figure(time, rates, [[0.0], [1e3], [2e3]], packet_size=1000).layout.yaxis2.dtick == 1
    assert trajectory_figure(time, rates, [[0.0], [1e3], [1.5e3]], packet_size=1000).layout.yaxis2.dtick is None
    assert trajectory_figure(time, rates, [[0.0], [1e4], [5e4]], packet_size=1000).layout.yaxis2.dtick is None


def test_a_long_title_of_the_y_axis_has_two_lines_and_one_in_the_alternative_text():
    title = "mean response time of connections over 100 kB [s]"
    drawn = boundary_figure([1.0, 2.0], {"a": [1.0, 2.0]}, y_title=title)
    assert drawn.layout.yaxis.title.text == "mean response time of connections over<br>100 kB [s]"
    assert title in as_html(drawn, page=False)


def test_a_sweep_over_one_axis_is_a_curve_with_intervals_in_each_panel():
    panels = {"mean queue [bytes]": [2e4, 5e4, np.nan], "utilization": [0.9, 1.0, 1.0]}
    drawn = sweep_figure({"protocol.alpha": [0.1, 0.2, 0.3]}, panels, {"mean queue [bytes]": [1e3, 4e3, np.nan]})
    queue, utilization = drawn.data
    assert drawn.layout.yaxis.title.text == "mean queue [kB]" and drawn.layout.yaxis2.title.text == "utilization"
    assert list(queue.y[:2]) == [20.0, 50.0] and list(queue.error_y.array) == [1.0, 4.0, 0.0]
    assert utilization.error_y.array is None and drawn.layout.xaxis2.matches == "x"
    assert drawn.layout.xaxis.title.text is None and drawn.layout.xaxis2.title.text == "protocol.alpha"


def test_a_series_of_an_ensemble_is_a_curve_in_a_band_of_its_intervals():
    time, means = np.arange(1, 51) / 10, np.array([2e6 + np.arange(50.0), np.full(50, 1e6)]).T
    means[0, 1] = np.nan
    halves = np.full((50, 2), 1e5)
    axes = {"time [s]": time, "beta": [0.5, 0.7]}
    first, curve, second, other = sweep_figure(axes, {"goodput [bit/s]": means}, {"goodput [bit/s]": halves}).data
    assert [trace.fill for trace in (first, curve, second, other)] == ["toself", None, "toself", None]
    assert curve.name == "beta = 0.5" and curve.mode == "lines" and curve.error_y.array is None
    assert len(first.x) == 100 and len(second.x) == 98
    np.testing.assert_allclose([first.y[0], first.y[-1]], [2.1, 1.9], rtol=1e-6)  # Mb/s
    assert first.legendgroup == curve.legendgroup and not first.showlegend


def test_a_sweep_over_two_axes_has_curves_for_few_values_and_a_map_for_many():
    few, many = [10, 20], [10, 20, 50, 100, 200, 400]
    curves = sweep_figure({"links.0.capacity": ["1 Mb/s", "2 Mb/s"], "buffer": many}, {"loss": np.ones((2, 6))})
    assert [trace.name for trace in curves.data] == ["links.0.capacity = 1 Mb/s", "links.0.capacity = 2 Mb/s"]
    assert curves.layout.xaxis.title.text == "buffer" and curves.layout.xaxis.type == "log"
    values = np.arange(36.0).reshape(6, 6)
    (heat,) = sweep_figure({"a": many, "b": many}, {"loss": values}, {"loss": 0.1 * values}).data
    assert (
        heat.type == "heatmap"
        and np.array_equal(heat.z, values.T)
        and heat.y == ("10", "20", "50", "100", "200", "400")
    )
    assert heat.text[0][1] == " ± 0.6"
    assert sweep_figure({"a": few}, {"loss": [0.0, 1.0]}).layout.xaxis.type is None


def test_a_sweep_over_names_has_bars_and_a_sweep_over_quantities_has_lines():
    two = {"protocol": ["DCTCP", "HPCC"], "seed": [1, 2]}
    bars = sweep_figure(two, {"loss": [[0.1, 0.2], [0.0, 0.0]]}, {"loss": np.full((2, 2), 0.01)}, note="a note " * 20)
    assert [trace.type for trace in bars.data] == ["bar", "bar"] and bars.data[0].error_y.array is not None
    assert bars.layout.yaxis.rangemode == "tozero" and bars.layout.barmode == "group"
    assert max(map(len, re.sub("<(?!br).*?>", "", bars.layout.title.text).split("<br>"))) <= 54
    for values in (["10 Mb/s", "1.5 Gb/s"], ["0.2, 65", "0.4, 90"], [1e6, 2e6]):
        assert sweep_figure({"x": values}, {"loss": [0.1, 0.2]}).data[0].type == "scatter"
    drawn = sweep_figure({"x": [1, 2]}, {"loss": [0.1, 0.2]}, title="Incast " * 9, note="mean of 3 seeds")
    assert f"<title>{'Incast ' * 9}mean of 3 seeds</title>" in as_html(drawn)
    large = [1e6, 1.5e6, 2e6, 3e8, 4e9, 5e9]
    (heat,) = sweep_figure({"a": large, "b": large}, {"loss": np.ones((6, 6))}).data
    assert heat.y == ("1M", "1.5M", "2M", "300M", "4G", "5G")
    assert sweep_figure({"a": [1e6, 2e6]}, {"loss": [0.1, 0.2]}).layout.xaxis.tickformat == "~s"
    title = "99th percentile of the completion time [s]"
    drawn = sweep_figure({"x": [1, 2]}, {title: [1e-3, 2e-3]})
    assert drawn.layout.yaxis.title.text == "99th percentile of the<br>completion time [ms]"
    assert sweep_figure({"x": [1, 2]}, {title: [0.0, 0.0]}).layout.yaxis.title.text.endswith(" [s]")


def test_states_are_a_panel_above_the_series():
    drawn = states_figure(
        [0.0, 1.0, 2.0], {"rate [Mb/s]": {"rate": [1.0, 2.0, 3.0]}}, ["Startup", "Drain", "Drain"], [1.5]
    )
    state, rate = drawn.data
    assert list(state.y) == ["Startup", "Drain", "Drain"] and list(rate.y) == [1.0, 2.0, 3.0]
    assert drawn.layout.yaxis.type == "category" and drawn.layout.yaxis2.title.text == "rate [Mb/s]"
    assert len(states_figure([0.0, 1.0], {"rate": {"rate": [1.0, 2.0]}}).data) == 1
    with pytest.raises(ValueError, match="panels must be at least one, got none"):
        states_figure([0.0], {})
    with pytest.raises(ValueError, match=r"series 'a' must have the shape \(2,\) of time, got \(3,\)"):
        states_figure([0.0, 1.0], {"rate": {"a": [1.0, 2.0, 3.0]}})
    with pytest.raises(ValueError, match="states must have one entry for each of 2 times, got 1"):
        states_figure([0.0, 1.0], {"rate": {"a": [1.0, 2.0]}}, ["Startup"])


def test_sweeps_without_a_figure_are_refused():
    with pytest.raises(ValueError, match="^axes must be one or two with values, and panels at least one, got"):
        sweep_figure({"a": [1], "b": [1], "c": [1]}, {"loss": [[[1.0]]]})
    with pytest.raises(ValueError, match="^axes must be one or two with values, and panels at least one, got"):
        sweep_figure({"a": [1]}, {})
    with pytest.raises(ValueError, match=r"values of 'loss' must have the shape \(2,\) of the axes, got \(3,\)"):
        sweep_figure({"a": [1, 2]}, {"loss": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"half_widths must have the titles of panels \(loss\), got 'rate'"):
        sweep_figure({"a": [1, 2]}, {"loss": [1.0, 2.0]}, {"rate": [1.0, 2.0]})
