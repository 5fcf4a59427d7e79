"""Several figures in one: each position of the slider shows one of them, whole."""

import re

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from ecc.plot import comparison_figure, slider_figure, trajectory_figure
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


def positions(made):
    """What each position shows: its traces, and its layout as Plotly's "update" makes it."""
    for step in made.layout.sliders[0].steps:
        visible, changes = step.args
        layout = go.Figure(layout=made.layout).layout
        for path, value in changes.items():
            layout[path] = value
        yield [t for t, seen in zip(made.data, visible["visible"], strict=True) if seen], layout


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
