"""Several figures in one: each position of the slider shows one of them, whole."""

import pytest

from ecc.plot import slider_figure, trajectory_figure


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
