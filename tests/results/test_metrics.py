"""Metrics with packets of different sizes, several queues, late flows and transfers; and what sweeps make of them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.batch.sweeps import MetricError, ScenarioRuns, SweepError, swept, unused_seed
from ecc.cli import main
from ecc.models import CUBIC, ConstantRate, NewReno
from ecc.queues import DropTail, DualPI2, FQCoDel, StrictPriority
from ecc.results import metrics
from ecc.traffic.workload import Arrivals, Workload


def value(name: str, run: ecc.Trajectory, scenario: ecc.Scenario, **arguments: Any) -> float:
    return float(metrics.get(name).function(run, scenario, **arguments))


def two_sizes(first: str = "1 Mb/s", buffer: str = "20 kB") -> ecc.Scenario:
    """Packets of 100 bytes, and 14 Mb/s of 1500 bytes, on 10 Mb/s."""
    flows = [ecc.Flow([0], packet_size=100), ecc.Flow([0], packet_size=1500)]
    network = ecc.Network([ecc.Link("10 Mb/s", "5 ms", buffer=buffer)], flows)
    hosts = {0: ConstantRate(first), 1: ConstantRate("14 Mb/s")}
    return ecc.Scenario(network, {"flows": hosts, "links": DropTail()}, 4.0)


def test_losses_and_utilization_count_the_bytes_of_each_packet():
    scenario = two_sizes()
    run = ecc.packet.simulate(scenario, sample=0.1)
    assert value("utilization", run, scenario) == pytest.approx(1.0, abs=1e-3)
    assert value("loss", run, scenario) == pytest.approx(1.0 / 3.0, abs=5e-3)
    assert value("dropped", run, scenario) == value("dropped_anywhere", run, scenario) == run.dropped_bytes.sum()
    assert run.dropped_bytes.sum() > 1000 * run.drops.sum()  # most are of 1500 bytes
    with pytest.raises(
        ValueError, match="a unit of packets needs flows with packets of one size, got from 100 to 1500"
    ):
        metrics.scale(metrics.get("dropped"), "packets", scenario)
    assert metrics.scale(metrics.get("dropped"), "kB", scenario) == 1e3
    assert metrics.series(run, scenario, 10)["packet_size"] is None


def test_the_command_prints_the_utilization_of_packets_of_different_sizes(tmp_path, capsys):
    path = tmp_path / "sizes.toml"
    path.write_text(two_sizes().to_toml())
    assert main(["simulate", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["links"][0]["utilization"] == pytest.approx(1.0, abs=1e-3)


def test_trimmed_bytes_are_lost_bytes():
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.001] * 4, buffer="20 kB", packet_size=1500)
    scenario = ecc.Scenario(network, ecc.models.NSCC(), 0.05)
    run = ecc.packet.simulate(scenario, sample=0.005)
    assert value("utilization", run, scenario) <= 1.0 + 1e-9


def test_a_link_without_arrivals_loses_nothing():
    network = ecc.Network([ecc.Link("10 Mb/s", "5 ms"), ecc.Link("10 Mb/s", "5 ms")], [ecc.Flow([0])])
    scenario = ecc.Scenario(network, NewReno(), 1.0)
    run = ecc.packet.simulate(scenario)
    assert value("loss", run, scenario, link=1) == value("peak_loss", run, scenario, link=1) == 0.0


@pytest.mark.parametrize("discipline", [FQCoDel(), StrictPriority(), DualPI2()], ids=lambda one: type(one).__name__)
def test_the_round_trip_time_is_that_of_the_queue_of_the_flow(discipline):
    link = ecc.Link("20 Mb/s", "10 ms", buffer="500 kB")
    network = ecc.Network([link], [ecc.Flow([0], access_delay="5 ms"), ecc.Flow([0], start=1.0)])
    hosts = {0: ConstantRate("1 Mb/s"), "default": CUBIC()}
    scenario = ecc.Scenario(network, {"flows": hosts, "links": discipline}, 5.0)
    run = ecc.packet.simulate(scenario, sample=0.02, record=["env.rtt"])
    recorded = run["env.rtt"].sel(time=slice(2.01, None)).to_numpy()[:, 0]
    between = (2.0, 5.0)
    assert value("round_trip", run, scenario, between=between) == pytest.approx(recorded.mean(), rel=0.02)
    peak = value("peak_round_trip", run, scenario, between=between)
    assert recorded.max() <= peak <= recorded.max() + 0.01
    assert value("p99_round_trip", run, scenario, flows=[0], between=between) <= peak + 1e-12


def test_round_trip_times_of_fluids_come_from_the_queues_of_the_route():
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05], buffer="100 kB")
    scenario = ecc.Scenario(network, ecc.models.RCP(beta=0.2), 5.0)
    run = ecc.fluid.simulate(scenario)
    expected = 0.05 + 8.0 * float(run.queue[:, 0].mean()) / 10e6
    assert value("round_trip", run, scenario) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match=r"link must be on the route of flow 0 \(0\), got 1"):
        value("round_trip", run, scenario, link=1)


def test_round_trip_times_are_missing_before_a_flow_starts():
    network = ecc.Network([ecc.Link("10 Mb/s", "10 ms", "30 kB")], [ecc.Flow([0]), ecc.Flow([0], start=0.5)])
    scenario = ecc.Scenario(network, NewReno(), 1.0)
    run = ecc.packet.simulate(scenario, record=["env.rtt", "env.srtt", "env.min_rtt", "env.window"])
    for name in ("rtt", "rtt_max", "env.rtt", "env.srtt", "env.min_rtt"):
        assert np.isnan(run[name].to_numpy()[:5, 1]).all() and run[name].attrs["units"] == "s"
        assert (run[name].to_numpy()[6:, 1] >= 0.02).all()
    assert run["env.window"].attrs["units"] == "bytes"
    figure = run.plot()
    titles = {axis.title.text for axis in figure.select_yaxes()}
    assert {"env.rtt [s]", "env.window [bytes]"} <= titles
    drawn = [trace for trace in figure.data if trace.name == "env.rtt, flow 1"]
    assert min(y for y in drawn[0].y if y == y) >= 0.02
    assert value("round_trip", run, scenario, flow=1) == pytest.approx(np.nanmean(run.rtt.to_numpy()[:, 1]))
    with pytest.raises(ValueError, match="the flow must measure an RTT in the time between, got flow 1"):
        value("round_trip", run, scenario, flow=1, between=(0.0, 0.5))


def test_round_trip_times_of_fluids_are_missing_before_a_flow_starts():
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1], starts=[0.0, 0.55], buffer="60 kB")
    recorded = ecc.fluid.simulate(ecc.Scenario(network, ecc.models.XCP(), 1.0), record=["env.srtt"])["env.srtt"]
    assert np.isnan(recorded.to_numpy()[:5, 1]).all() and (recorded.to_numpy()[5:, 1] >= 0.1).all()
    assert recorded.attrs["units"] == "s"


def late(flows: int = 2) -> tuple[ecc.Scenario, ecc.Trajectory]:
    """Flows of 2 Mb/s each, of which the last starts at 1.5 s of 2 s."""
    starts = [0.0] * (flows - 1) + [1.5]
    network = ecc.Network([ecc.Link("10 Mb/s", "1 ms")], [ecc.Flow([0], start=start) for start in starts])
    scenario = ecc.Scenario(network, {"flows": ConstantRate("2 Mb/s"), "links": DropTail()}, 2.0)
    return scenario, ecc.packet.simulate(scenario, sample=0.1)


def test_flows_that_start_late_are_compared_while_they_are_active():
    scenario, run = late()
    assert value("fairness", run, scenario) == pytest.approx(1.0, abs=1e-3)
    assert value("least_share", run, scenario) == pytest.approx(1.0, abs=0.02)
    assert value("rate", run, scenario, flow=1) == pytest.approx(0.5e6, rel=0.02)  # over the whole run
    assert value("lowest_rate", run, scenario, flow=1) == pytest.approx(2e6, rel=0.05)
    assert value("rate_variation", run, scenario, flow=1) < 0.05
    assert value("convergence_time", run, scenario, after=0.0) == 0.0
    assert value("fairness", run, scenario, between=(0.0, 1.0)) == pytest.approx(1.0)  # of flow 0 alone
    with pytest.raises(ValueError, match="the flow must be active for a sample of the time between, got flow 1"):
        value("lowest_rate", run, scenario, flow=1, between=(0.0, 1.0))


def test_fairness_of_chosen_flows():
    network = ecc.Network([ecc.Link("100 Mb/s", "1 ms")], [ecc.Flow([0])] * 3)
    hosts = {0: ConstantRate("1 Mb/s"), 1: ConstantRate("1 Mb/s"), 2: ConstantRate("4 Mb/s")}
    scenario = ecc.Scenario(network, {"flows": hosts, "links": DropTail()}, 2.0)
    run = ecc.packet.simulate(scenario)
    assert value("fairness", run, scenario) == pytest.approx(36.0 / (3.0 * 18.0), rel=1e-2)
    assert value("fairness", run, scenario, flows=[0, 1]) == pytest.approx(1.0, rel=1e-3)
    assert value("fairness", run, scenario, flows=[0, 2]) == pytest.approx(25.0 / (2.0 * 17.0), rel=1e-2)
    with pytest.raises(ValueError, match=r"flows must be from 0 to 2, got \[3\]"):
        value("fairness", run, scenario, flows=[3])


@pytest.fixture(scope="module")
def transfers() -> tuple[ecc.Scenario, ecc.Trajectory]:
    """A long flow, and 8 transfers that start in the first second of 4 s."""
    network = ecc.Network([ecc.Link("10 Mb/s", "5 ms", "30 kB")], [ecc.Flow([0], packet_size=500)])
    arrivals = [Arrivals([0], 0.125, "20 kB", spacing="regular", count=8)]
    scenario = ecc.Scenario(network, NewReno(), 4.0, workload=Workload(arrivals=arrivals))
    return scenario, ecc.packet.simulate(scenario)


def test_percentiles_of_classes_of_flows(transfers):
    scenario, run = transfers
    classes = {"long": [0], "early": [1, 2, 3, 4], "all transfers": list(range(1, 9))}
    times = run.flows["completion_time"].to_numpy()
    table = metrics.percentiles(run, classes=classes, quantiles=[0.5, 0.9])
    assert table.index.tolist() == list(classes) and table["count"].tolist() == [0, 4, 8]
    assert table.loc["early", "p50"] == pytest.approx(np.quantile(times[1:5], 0.5))
    assert table.loc["all transfers", "p90"] == pytest.approx(np.quantile(times[1:], 0.9))
    assert np.isnan(table.loc["long", "p50"])
    delays = metrics.percentiles(run, "rtt", {"long": [0]}, between=(1.0, 2.0))
    assert delays.loc["long", "count"] == 10
    assert delays.loc["long", "p95"] == pytest.approx(np.quantile(run.rtt.to_numpy()[10:20, 0], 0.95))
    assert metrics.percentiles(run, "slowdown").loc["all", "mean"] == pytest.approx(
        value("mean_slowdown", run, scenario)
    )
    assert value("p95_completion_time", run, scenario) == pytest.approx(np.quantile(times[1:], 0.95))
    assert value("median_completion_time", run, scenario, flows=[1, 2]) == pytest.approx(np.median(times[1:3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "loss"}, "of must be one of completion_time, slowdown, rtt, got 'loss'"),
        ({"classes": "color"}, "classes must be a column of run.flows .*got 'color'"),
        ({"classes": {"a": [99]}}, "classes must have numbers of flows of the run, got 99 in 'a'"),
        ({"quantiles": [2.0]}, "quantiles must be from 0 to 1"),
    ],
)
def test_percentiles_that_cannot_be(transfers, arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.percentiles(transfers[1], **arguments)


def test_a_class_is_a_protocol():
    network = ecc.Network([ecc.Link("10 Mb/s", "5 ms")], [ecc.Flow([0], size="20 kB"), ecc.Flow([0], size="50 kB")])
    hosts = {0: NewReno(), "default": CUBIC()}
    run = ecc.packet.simulate(ecc.Scenario(network, {"flows": hosts, "links": DropTail()}, 2.0))
    assert metrics.percentiles(run, classes="protocol")["count"].to_dict() == {"CUBIC": 1, "NewReno": 1}


def test_transfers_are_counted_once(transfers, tmp_path, capsys):
    scenario, run = transfers
    assert len(run.transfers) == 8 and "Transfers:  8, 8 completed" in repr(run)
    path = tmp_path / "transfers.toml"
    path.write_text(scenario.to_toml())
    assert main(["simulate", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["transfers"]
    assert (found["rows"], found["completed"]) == (8, 8)


# ---- sweeps ----------------------------------------------------------------------------------------------


def test_a_metric_that_cannot_be_computed_fails_alone(tmp_path, capsys):
    path = tmp_path / "sizes.toml"
    path.write_text(two_sizes().to_toml())
    options = ["--metric", "utilization", "--metric", "p99_slowdown", "--jobs", "1"]
    assert main(["sweep", str(path), "--vary", "links.0.buffer=20 kB,40 kB", *options]) == 1
    found = capsys.readouterr()
    assert "some metrics failed at 2 of 2 points" in found.err and "p99_slowdown: completion times need" in found.err
    rows = [line.split() for line in found.out.splitlines() if line.strip().startswith(("20 kB", "40"))]
    assert [float(row[2]) for row in rows] == pytest.approx([1.0, 1.0], abs=1e-3)
    runs = ScenarioRuns(two_sizes().to_dict(), ["utilization", "p99_slowdown", "counted_flows"])
    with pytest.raises(MetricError) as caught:
        runs(duration=2.0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert list(again.values) == ["utilization"] and set(again.reasons) == {"p99_slowdown", "counted_flows"}
    assert str(again) == str(caught.value)


def test_a_store_keeps_the_metrics_that_could_be_computed(tmp_path):
    store, grid = tmp_path / "metrics.sqlite", {"duration": [1.0, 2.0]}
    with pytest.raises(SweepError) as caught:
        ecc.sweep(ScenarioRuns(two_sizes().to_dict(), ["utilization", "p99_slowdown"]), grid, store=store)
    assert np.isfinite(caught.value.dataset["utilization"].to_numpy()).all()
    told = []
    ecc.sweep(
        ScenarioRuns(two_sizes().to_dict(), ["utilization"]), grid, store=store, resumed=lambda *n: told.append(n)
    )
    assert told == [(2, 2)]


def test_sweeps_count_the_queues_that_packets_find():
    found = ScenarioRuns(two_sizes().to_dict(), ["queue_found", "peak_queue"], arguments={"between": (1.0, 2.0)})()
    assert 0.5 * found["peak_queue"] < found["queue_found"] <= found["peak_queue"]
    with pytest.raises(MetricError, match="queue_found: queue_found needs a packet run that counts queues"):
        fluid = ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.RCP(), 2.0)
        ScenarioRuns(fluid.to_dict(), ["queue_found"], "fluid")()


def test_slowdowns_count_flows_that_start_before_the_last_half(transfers):
    scenario, run = transfers
    found = ScenarioRuns(scenario.to_dict(), ["p99_slowdown", "mean_slowdown", "mean_completion_time"])()
    assert found["p99_slowdown"] == pytest.approx(value("p99_slowdown", run, scenario))
    assert found["mean_completion_time"] == pytest.approx(value("mean_completion_time", run, scenario))
    runs = ScenarioRuns(scenario.to_dict(), ["p99_slowdown"], arguments={"between": (2.0, 4.0)})
    with pytest.raises(
        MetricError, match="need a transfer with a start between 2 and 4 s that completed, got none of 0"
    ):
        runs()


def test_the_command_takes_units_and_chosen_flows(tmp_path, capsys):
    path = tmp_path / "sizes.toml"
    path.write_text(two_sizes().to_toml())
    options = ["--metric", "fairness", "--metric", "rate", "--flows", "1-1", "--jobs", "1", "--json"]
    assert main(["sweep", str(path), "--vary", "duration=2", *options, "--between", "0:900ms"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    scenario = two_sizes().with_(duration=2.0)
    run = ecc.packet.simulate(scenario)
    assert row["fairness"] == pytest.approx(1.0)
    assert row["rate"] == pytest.approx(value("rate", run, scenario, flow=0, between=(0.0, 0.9)))


@pytest.mark.slow
def test_a_sweep_over_seeds_without_random_numbers_is_noted(tmp_path, capsys):
    scenario, noted = tmp_path / "scenario.toml", "note: runs with different seeds have the same metrics"
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.02, 0.02])
    scenario.write_text(ecc.Scenario(network, NewReno(), 1.0).to_toml())
    assert main(["sweep", str(scenario), "--vary", "seed=1:4:4", "--jobs", "1"]) == 0
    assert noted in capsys.readouterr().err
    mice = ecc.Scenario(network, NewReno(), 1.0, workload=Workload(arrivals=[Arrivals([0], 0.05, "20 kB")]))
    assert not unused_seed(swept(ScenarioRuns(mice.to_dict(), ["mean_queue"]), {"seed": [1, 2]})[0])
    grid = {"seed": [1, 2], "a": [1.0, 2.0]}
    assert unused_seed(swept(lambda seed, a: a, grid)[0])
    assert not unused_seed(swept(lambda seed, a: a * seed, grid)[0])
    assert not unused_seed(swept(lambda a: a, {"a": [1.0, 2.0]})[0])
    nan = float("nan")
    assert not unused_seed(swept(lambda seed, a: a if seed == 1 else nan, grid)[0])


def test_unfinished_flows_are_counted_and_noted_by_both_engines():
    sizes = ["20 kB", "30 kB", "90 MB", None]
    flows = [ecc.Flow([0], size=size, start=0.1 * k) for k, size in enumerate(sizes)] + [ecc.Flow([0], 5.0, size=9)]
    scenario = ecc.Scenario(ecc.Network([ecc.Link("10 Mb/s", "1 ms", "30 kB")], flows), NewReno(), 2.0)
    for simulate in (ecc.packet.simulate, ecc.fluid.simulate):
        run = simulate(scenario)
        assert value("unfinished", run, scenario) == value("unfinished", run, scenario, flows=[2]) == 1.0
        assert value("unfinished", run, scenario, sizes=(0, 1e6)) == 0.0
        assert value("unfinished", run, scenario, between=(0.0, 0.15)) == 0.0
        assert "1 of 3 flows of finite size did not finish in the run" in "; ".join(run.notes)
        mean = run.flows["completion_time"].iloc[:2].mean()
        assert value("mean_completion_time", run, scenario) == pytest.approx(mean)
    alone = ecc.Scenario(ecc.Network(scenario.network.links, flows[:2]), NewReno(), 2.0)
    run = ecc.packet.simulate(alone)
    assert run.notes == () and value("active_share", run, alone, between=(1.0, 2.0)) == 0.0
    assert value("active_share", run, alone, between=(0.0, 0.1)) == 1.0
    coarse = ecc.packet.simulate(alone, sample=0.5)  # all flows end within the first sample
    assert value("active_share", coarse, alone) == 0.25


def test_delays_goodputs_and_swings_of_one_queue_agree():
    flows = [ecc.Flow([0], packet_size=1500, access_delay="1 ms"), ecc.Flow([0], packet_size=1500)]
    network = ecc.Network([ecc.Link("10 Mb/s", "5 ms", buffer="30 kB")], flows)
    scenario = ecc.Scenario(network, {"flows": NewReno(), "links": DropTail()}, 5.0)
    run, late = ecc.packet.simulate(scenario, sample=0.01), (2.0, 5.0)
    both = value("total_goodput", run, scenario, between=late)
    assert both == pytest.approx(10e6, rel=0.01)
    shares = [value("goodput", run, scenario, flow=k, between=late) for k in (0, 1)]
    assert value("total_goodput", run, scenario, flows=[1], between=late) == pytest.approx(shares[1])
    assert both == pytest.approx(sum(shares))
    delay = value("queueing_delay", run, scenario, between=late)
    assert value("link_delay", run, scenario, between=late) == pytest.approx(delay, rel=0.1)
    assert delay < value("p99_queueing_delay", run, scenario, between=late) < 1.1 * 8.0 * 30e3 / 10e6
    inside = slice(2.001, None)
    swing = float(run.queue_max.sel(time=inside).max() - run.queue.sel(time=inside).min())
    assert value("queue_swing", run, scenario, between=late) == swing > 5e3
    assert value("least_share", run, scenario, flows=[1], between=late) == 1.0
