"""Slowdowns over flow size: bins, quantiles, what has not completed, and their figure."""

import re

import numpy as np
import pandas as pd
import pytest

import ecc
from ecc.plot import slowdown_figure


@pytest.fixture(scope="module")
def run():
    """A run with 40 flows of known sizes and times, two of them unfinished, and an endless one."""
    sizes = np.append(np.repeat([1e3, 2e3, 5e3, 1e6], 10), np.nan)
    ideal = np.append(sizes[:40] / 1e6, np.nan)
    taken = ideal * np.append(np.tile(np.arange(1.0, 11.0), 4), np.nan)
    taken[[9, 39]] = np.nan
    flows = {"start": np.zeros(41), "size": sizes, "completion_time": taken, "ideal_time": ideal}
    return ecc.Trajectory.build([1.0], {"rate": np.zeros((1, 1))}, flows, {}, {"protocol": "Some"})


def test_bins_by_edges(run):
    table = run.slowdowns(["1 kB", "2 kB", "1 MB", "2 MB", "3 MB"])
    assert table["smallest"].tolist() == [1e3, 2e3, 1e6] and table["largest"].tolist() == [1e3, 5e3, 1e6]
    assert table["completed"].tolist() == [9, 20, 9] and table["unfinished"].tolist() == [1, 0, 1]
    assert table["size"].tolist() == [1e3, 3500.0, 1e6]
    assert table["mean"].to_numpy() == pytest.approx([5.0, 5.5, 5.0])
    assert table["p50"].to_numpy() == pytest.approx([5.0, 5.5, 5.0])
    assert table["p99"].to_numpy() == pytest.approx([8.92, 10.0, 8.92])
    assert list(run.slowdowns(quantiles=[0.25, 0.999])) == [*table.columns[:6], "p25", "p99.9"]


def test_bins_of_as_many_flows(run):
    table = run.slowdowns(4)
    assert table["completed"].sum() == 38 and table["unfinished"].sum() == 2
    assert table["smallest"].is_monotonic_increasing and len(run.slowdowns(1)) == 1
    same = ecc.Trajectory(run.data, run.flows[run.flows["size"] == 1e3], {})
    assert same.slowdowns(10)["completed"].tolist() == [9]


def test_bins_have_as_many_flows_where_sizes_differ():
    rng = np.random.default_rng(1)
    flows = {
        "size": np.floor(1e6 * rng.random(1000)) + 1,
        "completion_time": np.ones(1000),
        "ideal_time": np.ones(1000),
    }
    table = ecc.Trajectory.build([1.0], {"rate": np.zeros((1, 1))}, flows, {}, {}).slowdowns(10)
    assert table["completed"].sum() == 1000 and table["completed"].between(95, 105).all()
    assert (table["largest"][:-1].to_numpy() < table["smallest"][1:].to_numpy()).all()


REFUSED = {
    "quantiles must be from 0 to 1, got [2.0]": lambda run: run.slowdowns(quantiles=[2.0]),
    "bins must be a number, or two or more edges that ascend, got [5, 3]": lambda run: run.slowdowns([5, 3]),
    "bins must be >= 1": lambda run: run.slowdowns(0),
    "run must be a packet run for slowdowns, whose flows have an ideal_time": lambda run: ecc.Trajectory(
        run.data, run.flows.drop(columns="ideal_time"), {}
    ).slowdowns(),
    "run must have a flow of finite size that completed for slowdowns, got 1 without": lambda run: ecc.Trajectory(
        run.data, run.flows.iloc[[9]], {}
    ).slowdowns(),
    "tables must be at least one table, got none": lambda run: slowdown_figure({}),
    "tables must have columns 'size' and 'p50' or so, got ['size', 'path'] (a)": lambda run: slowdown_figure(
        {"a": {"size": [1.0], "path": [1.0]}}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_wrong_is_named_in_a_line(message, run):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](run)


def test_the_figure_has_a_curve_for_each_quantile(run):
    figure = run.plot_slowdowns(4)
    assert [trace.name for trace in figure.data] == ["Some, median", "Some, 95 %", "Some, 99 %"]
    table = run.slowdowns(4)
    assert np.allclose(figure.data[1].x, table["size"]) and np.allclose(figure.data[1].y, table["p95"])
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.layout.xaxis.title.text == "flow size [bytes]"
    assert figure.layout.yaxis.title.text == "slowdown (completion / ideal time)"
    both = slowdown_figure({"a": table, "b": table}, title="two")
    assert both.data[0].error_y.array is None
    (bars,) = slowdown_figure({"a": {"size": [1e3, 1e6], "p50": [1.5, 2.0], "p50_interval": [0.2, 0.1]}}).data
    assert list(bars.error_y.array) == pytest.approx([0.2, 0.1])
    assert len(both.data) == 6 and len({trace.line.color for trace in both.data}) == 2


def test_slowdowns_of_a_real_run_are_those_of_its_rows():
    net = ecc.Network.fat_tree(4, ecc.demands.incast(15, size="50 kB"), "10 Gb/s")
    run = ecc.packet.simulate(ecc.Scenario(net, ecc.models.NewReno(), "10 ms"))
    (row,) = run.slowdowns().to_dict("records")
    found = pd.Series(run.flows["completion_time"] / run.flows["ideal_time"])
    assert row["completed"] == 15 and row["unfinished"] == 0
    assert (row["mean"], row["p50"]) == pytest.approx((found.mean(), found.median()))
    # the last of 15 flows that share a link finishes no sooner than the link has sent all
    assert run.flows["completion_time"].max() > 15 * 50e3 * 8 / 10e9
