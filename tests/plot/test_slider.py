"""Several figures in one: each position of a slider, or each cell of a grid, shows one of them, whole."""

import re

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from ecc.plot import (
    bode_figure,
    comparison_figure,
    envelope_figure,
    nyquist_figure,
    root_figure,
    slider_figure,
    small_multiples_figure,
    stability_map_figure,
    trajectory_figure,
)
from ecc.plot.look import RATE, SIZE


def run(level, flows):
    return trajectory_figure([0.0, 1.0], [[level] * flows] * 2, [[0.0], [1.0]], levels=[("share", level)])


def test_each_position_shows_one_figure():
    figures = {"one": run(1e6, 1), "three": run(2e6, 3)}
    made = slider_figure(figures, "flows: ", first=1)
    sizes = [len(figure.data) for figure in figures.values()]
    assert len(made.data) == sum(sizes)
    assert [trace.visible for trace in made.data] == [False] * sizes[0] + [True] * sizes[1]
    (slider,) = made.layout.sliders
    assert slider.active == 1 and slider.currentvalue.prefix == "flows: "
    for k, (step, label) in enumerate(zip(slider.steps, figures, strict=True)):
        assert step.label == label
        shown = [trace for trace, visible in zip(made.data, step.args[0]["visible"], strict=True) if visible]
        assert [t.name for t in shown] == [t.name for t in list(figures.values())[k].data]


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="first must be 0 to 0 for 1 figures, got 1"):
        slider_figure({"one": run(1.0, 1)}, first=1)
    with pytest.raises(ValueError, match="figures must have at least one figure, got {}"):
        slider_figure({})


def positions(made):
    """What each position shows: its traces, and its layout as Plotly's "update" makes it."""
    for step in made.layout.sliders[0].steps:
        visible, changes = step.args
        whole = go.Figure(layout=made.layout)
        for path, value in changes.items():
            whole.layout[path] = value
        yield [t for t, seen in zip(made.data, visible["visible"], strict=True) if seen], whole.layout


def shown_peak(traces, layout, axis, units):
    """The largest value on a y axis in bit/s or bytes, as its title says."""
    unit = re.search(r"\[(.*)\]", layout[axis.replace("y", "yaxis")].title.text)[1]
    factor = {name: factor for factor, name in units}[unit]
    on_it = [trace for trace in traces if (trace.yaxis or "y") == axis]
    assert all(tuple(trace.meta) == (factor, unit) and "%{meta[1]}" in trace.hovertemplate for trace in on_it)
    return factor * max(float(np.max(trace.y)) for trace in on_it), unit


def test_the_axes_of_each_position_tell_its_numbers_in_one_unit():
    peaks = {"10 Mb/s": (1e7, 0.0), "100 Mb/s": (1e8, 800.0), "1 Gb/s": (1e9, 1.2e6)}

    def made(rate, queue):
        return trajectory_figure([0.0, 1.0], [[0.0], [rate]], [[0.0], [queue]], title=f"{rate:g}", levels=[("C", rate)])

    def compared(rate, queue):
        pair = ([[0.0], [rate]], [[0.0], [rate / 2]], [[0.0], [queue]], [[0.0], [queue]])
        return comparison_figure([0.0, 1.0], *pair, [False, True], [False, False], title=f"{rate:g}")

    for of in (made, compared):
        frames = {name: of(*both) for name, both in peaks.items()}
        frames["1 Gb/s"] = pio.from_json(frames["1 Gb/s"].to_json())  # as from a file
        figure = slider_figure(frames, first=1)
        units = set()
        for (rate, queue), (traces, layout) in zip(peaks.values(), positions(figure), strict=True):
            found = [shown_peak(traces, layout, *axis) for axis in (("y", RATE), ("y2", SIZE))]
            assert [value for value, _ in found] == pytest.approx([rate, queue], rel=1e-6)
            units.add(tuple(unit for _, unit in found))
            assert layout.title.text == f"{rate:g}"
        assert units == {("Mb/s", "kB")}
        assert figure.layout.title.text == "1e+08"  # of the first that is shown


@pytest.mark.parametrize("first", [0, 1])
def test_a_panel_that_only_some_have_keeps_its_place_and_is_not_shown_at_the_others(first):
    """With settings taken away from its axes, Plotly draws nothing at all; without their place, the main plot jumps."""
    w = np.linspace(0.1, 20.0, 400)
    near, far = (nyquist_figure({"L": (w, gain * np.exp(-1j * w) / (1j * w))}) for gain in (1.57, 0.3))
    made = slider_figure({"near": near, "far": far}, first=first)
    with_inset, without = (layout for _, layout in positions(made))
    for key in ("xaxis2", "yaxis2"):
        assert with_inset[key].visible and not without[key].visible
        assert with_inset[key].domain == without[key].domain == near.layout[key].domain
        assert with_inset[key].range == without[key].range == near.layout[key].range
    assert with_inset.xaxis.domain == without.xaxis.domain == near.layout.xaxis.domain
    assert made.layout.xaxis2.visible is (first == 0)


def test_axes_keep_their_range_over_all_positions():
    w = np.linspace(0.1, 20.0, 4000)
    gains = (1.57, 1.5, 1.45)
    loops = {f"{g}": nyquist_figure({"L": (w, g * np.exp(-1j * w) / (1j * w))}) for g in gains}
    ranges = {layout.xaxis2.range for _, layout in positions(slider_figure(loops))}
    assert len(ranges) == 1 and ranges == {loops["1.45"].layout.xaxis2.range}  # the widest
    runs = {f"{peak}": trajectory_figure([0.0, 1.0], [[0.0], [peak]], [[0.0], [peak]]) for peak in (1e6, 6e6)}
    for _, layout in positions(slider_figure(runs)):
        assert layout.yaxis.range == layout.yaxis2.range == pytest.approx((0.0, 1.05 * 6.0))


def test_titles_and_ranges_belong_to_their_position():
    packets = trajectory_figure([0.0, 1.0], [[1e6], [1e6]], [[0.0], [4e3]], packet_size=1000, title="XCP, paced")
    sizes = trajectory_figure([0.0, 1.0], [[1e6], [1e6]], [[0.0], [4e3]])
    packets.update_yaxes(range=[0.0, 7.0], row=2)
    packets.add_vrect(x0=0.2, x1=0.4, row=1, col=1)
    made = slider_figure({"packets": packets, "bytes": sizes}, first=1)
    (_, first), (_, second) = positions(made)
    assert (first.title.text, second.title.text) == ("XCP, paced", None)
    assert (first.yaxis2.title.text, second.yaxis2.title.text) == ("queue [packets]", "queue [kB]")
    assert (first.yaxis2.range, first.yaxis2.autorange) == ((0.0, 7.0), False)
    assert (second.yaxis2.range, second.yaxis2.autorange) == (None, True)
    assert (len(first.shapes), len(second.shapes)) == (1, 0)
    assert packets.layout.yaxis.title.text == sizes.layout.yaxis.title.text == "sending rate [Mb/s]"  # not touched


# ---- side by side ----------------------------------------------------------------------------------------


def cells(made, panels):
    """What each cell shows: its traces, and the axes of its panels by the names that they had in their own figure."""
    count = len(made.layout.annotations)
    for k in range(count):
        axes = {f"y{j or ''}": f"y{k * panels + j or ''}" for j in (1, 2)[:panels]}
        axes = {"y" if own == "y1" else own: "y" if here == "y1" else here for own, here in axes.items()}
        yield [t for t in made.data if (t.yaxis or "y") in axes.values()], axes


def test_cells_tell_their_numbers_in_one_unit_on_axes_of_one_range():
    peaks = {"XCP": (1e7, 800.0), "RCP": (9e7, 2e3), "EMKC at\ntwice": (5e7, 5e6)}

    def compared(rate, queue):
        pair = ([[0.0], [rate]], [[0.0], [rate / 2]], [[0.0], [queue]], [[0.0], [queue]])
        return comparison_figure([0.0, 1.0], *pair, [False, True], [True, False])

    made = small_multiples_figure({name: compared(*both) for name, both in peaks.items()}, title="all")
    titles = [made.layout[key].title.text for key in ("yaxis", "yaxis2", "yaxis5", "yaxis6")]
    assert titles == ["sending rate [Mb/s]", "queue [kB]"] * 2
    for (rate, queue), (traces, axes) in zip(peaks.values(), cells(made, 2), strict=True):
        for of, own, (factor, unit) in ((rate, "y", (1e6, "Mb/s")), (queue, "y2", (1e3, "kB"))):
            on_it = [trace for trace in traces if (trace.yaxis or "y") == axes[own]]
            assert len(on_it) == 2 and all(tuple(trace.meta) == (factor, unit) for trace in on_it)
            assert factor * max(float(np.max(trace.y)) for trace in on_it) == pytest.approx(of)
    assert [made.layout[key].matches for key in ("yaxis3", "yaxis5", "xaxis3")] == ["y", "y", "x"]
    assert made.layout.yaxis4.matches is None  # queues differ by more than a factor of 10
    assert [note.text for note in made.layout.annotations] == ["XCP", "RCP", "EMKC at twice"]
    assert sum(trace.showlegend for trace in made.data) == 4  # two runs of a flow and of a link, said once
    assert [(s.xref, s.yref) for s in made.layout.shapes[2:4]] == [("x3", "y3 domain"), ("x4", "y4 domain")]
    assert [made.layout[key].title.text for key in ("xaxis2", "xaxis4", "xaxis6")] == [None, "time [s]", "time [s]"]
    low, high = made.layout.yaxis.domain
    assert (
        0.0 <= made.layout.yaxis6.domain[0] < made.layout.yaxis5.domain[1] < made.layout.yaxis2.domain[0] < low < high
    )
    assert made.layout.xaxis.domain[1] < made.layout.xaxis3.domain[0]


def test_curves_of_one_name_and_two_colors_have_two_entries_in_the_legend():
    made = small_multiples_figure({"one": run(1e6, 1), "nine": run(1e6, 9)}, columns=1)
    assert [trace.line.color for trace in made.data if trace.name == "flow 0" and trace.showlegend] == [
        run(1e6, 1).data[0].line.color,
        run(1e6, 9).data[0].line.color,
    ]


def test_figures_of_any_kind_stand_side_by_side():
    w = np.linspace(0.1, 20.0, 400)
    loop = {"L": (w, 1.5 * np.exp(-1j * w) / (1j * w))}
    time = np.array([0.0, 1.0])
    kinds = [
        (nyquist_figure(loop), 2),
        (bode_figure(loop), 2),
        (root_figure({"a": [-1.0]}, sampled=True), 1),
        (stability_map_figure([1.0, 2.0], [1.0, 2.0], [[0.5, 1.5], [0.6, 1.2]]), 1),
    ]
    for one, panels in kinds:
        made = small_multiples_figure({"a": one, "b": one})
        assert len(made.data) == 2 * len(one.data)
        for key in ("yaxis", "yaxis2")[:panels]:
            own, other = one.layout[key].scaleanchor, made.layout[f"yaxis{int(key[5:] or 1) + panels}"].scaleanchor
            assert (own is None) == (other is None)
            assert own is None or other == f"x{int(own[1:] or 1) + panels}"
    grows, dies = (envelope_figure({"a": (time, [1.0, end])}) for end in (9.0, 1e-3))
    assert small_multiples_figure({"a": grows, "b": dies}).layout.yaxis2.matches is None  # each has its own range
    assert small_multiples_figure({"a": grows, "b": grows}).layout.yaxis2.matches == "y"


def test_one_range_has_one_distance_between_ticks():
    few, many = (
        trajectory_figure([0.0, 1.0], [[1e6]] * 2, [[0.0], [top * 1500.0]], packet_size=1500.0) for top in (6.0, 17.0)
    )
    assert few.layout.yaxis2.dtick == 1 and many.layout.yaxis2.dtick is None
    made = small_multiples_figure({"few": few, "many": many})
    assert made.layout.yaxis4.matches == "y2" and made.layout.yaxis2.dtick is made.layout.yaxis4.dtick is None
    assert small_multiples_figure({"few": few, "again": few}).layout.yaxis4.dtick == 1


def test_figures_that_cannot_stand_side_by_side_are_refused():
    with pytest.raises(ValueError, match="columns and figures must be 1 or more, got 2 and 0"):
        small_multiples_figure({})
    with pytest.raises(ValueError, match="figures must have the same panels, got 2 and 1 panels"):
        small_multiples_figure({"run": run(1.0, 1), "roots": root_figure({"a": [-1.0]})})


# ---- every figure that there is --------------------------------------------------------------------------

UNITS = {name: factor for units in (RATE, SIZE) for factor, name in units}


def misnamed(figure):
    """Axes whose title names another unit than what is drawn on them, at any position of a slider."""
    frames = positions(figure) if figure.layout.sliders else [(figure.data, go.Figure(figure).layout)]
    wrong = []
    for k, (traces, layout) in enumerate(frames):
        axes = [layout[key] for key in layout if re.fullmatch(r"yaxis\d*", key)]
        for trace in traces:
            axis = layout[(trace.yaxis or "y").replace("y", "yaxis")]
            if axis.title.text is None:  # the one at the left of its row says it
                axis = next((a for a in axes if a.domain == axis.domain and a.title.text), axis)
            title = axis.title.text or ""
            unit = next(iter(re.findall(r"\[(.+)\]", title)), "")
            drawn = tuple(trace.meta or (1.0, ""))
            if (unit in UNITS or drawn[1] in UNITS) and drawn != (UNITS.get(unit), unit):
                wrong.append((k, trace.name, title, drawn))
    return wrong


def test_the_check_of_units_finds_a_wrong_one():
    made = slider_figure({"a": run(1e6, 1), "b": run(1e9, 1)})
    assert misnamed(made) == []
    made.layout.sliders[0].steps[1].args[1]["yaxis.title.text"] = "sending rate [Gb/s]"
    assert {frame for frame, *_ in misnamed(made)} == {1}
    alone = run(1e6, 1)
    alone.update_yaxes(title_text="queue [MB]", row=2)
    assert [(name, drawn[1]) for _, name, _, drawn in misnamed(alone)] == [("queue, link 0", "bytes")]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 3.0, 7e3, 2e6, 5e9])
@pytest.mark.parametrize("queue", [0.0, 12.0, 4e3, 6e6, 8e9])
def test_axes_name_the_unit_in_which_runs_of_any_size_are_drawn(rate, queue):
    figure = trajectory_figure([0.0, 1.0], [[0.0], [rate]], [[0.0], [queue]])
    other = trajectory_figure([0.0, 1.0], [[0.0], [2e6]], [[0.0], [4e3]])
    for made in (figure, slider_figure({"a": figure, "b": other}), small_multiples_figure({"a": figure, "b": other})):
        assert misnamed(made) == []
    for axis, value in (("yaxis", rate), ("yaxis2", queue)):
        unit = re.search(r"\[(.*)\]", figure.layout[axis].title.text)[1]
        drawn = max(max(trace.y) for trace in figure.data if (trace.yaxis or "y") == axis.replace("axis", ""))
        assert UNITS[unit] * drawn == pytest.approx(value)
        assert value == 0.0 or 1.0 <= drawn < 1000.0
