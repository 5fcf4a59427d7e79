import importlib
import pickle
import signal
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc import Flow, Link, Network, Scenario, Tmix
from ecc._support.store import Store
from ecc.batch import sweeps
from ecc.batch.sweeps import ScenarioRuns, SweepError, SweepInterrupted, sweep, sweep_means
from ecc.errors import EccError
from ecc.loops.closed_loop import steps_of
from ecc.results import metrics
from ecc.traffic.workload import Arrivals, Workload

GRID = {"alpha": np.array([0.5, 1.0, 1.5]), "rtt": [0.1, 0.2]}


LOSSY = Scenario(
    Network.dumbbell("5 Mb/s", rtts=[0.05, 0.08], buffer=20_000),
    ecc.models.CUBIC(),
    2.0,
    impairments=[ecc.impairments.RandomLoss(0.02, link=0)],
)
FIVE = ["utilization", "fairness", "mean_queue", "peak_queue", "loss"]


def both(alpha, rtt):
    return {"product": alpha * rtt, "ratio": alpha / rtt}


def failing(alpha, rtt):
    if alpha > 1.0:
        raise RuntimeError("too much")
    return alpha


def test_two_results_in_the_order_of_the_grid():
    seen = []
    found = sweep(both, GRID, progress=seen.append)
    assert found["product"].dims == ("alpha", "rtt")
    assert found["ratio"].sel(alpha=1.5, rtt=0.2).item() == pytest.approx(7.5)
    assert len(seen) == 6 and seen[-1] == 1.0


def test_lists_that_vary_together_are_one_axis():
    found = sweep(lambda a, b, c: a + 10 * b + 100 * c, {"a": [1, 2]}, zipped={"b": [3, 4, 5], "c": [6, 7, 8]})
    assert dict(found.sizes) == {"a": 2, "b": 3}
    assert found["c"].dims == ("b",) and list(found["c"].values) == [6, 7, 8]
    assert found["value"].sel(a=2, b=4).item() == 742
    alone = sweep(lambda b, c: b * c, {}, zipped={"b": [3, 4], "c": [6, 7]}, part=(2, 2))
    assert np.array_equal(alone["value"], [np.nan, 28.0], equal_nan=True)


@pytest.mark.parametrize(
    ("grid", "zipped", "message"),
    [
        ({}, {}, "grid must have at least one axis and a value on each"),
        ({}, {"a": [1, 2], "b": [1]}, "zipped must be lists of one length, at least 1, got 2 of a, 1 of b"),
        ({}, {"a": []}, "zipped must be lists of one length, at least 1, got 0 of a"),
        ({"a": [1]}, {"a": [1]}, "zipped must not repeat an axis of the grid, got a"),
    ],
)
def test_lists_that_cannot_vary_together_are_refused(grid, zipped, message):
    with pytest.raises(ValueError, match=message):
        sweep(lambda **point: 1.0, grid, zipped=zipped)


def test_each_seed_draws_the_traffic_of_a_generated_fabric():
    demands = [{"pattern": "poisson", "load": 0.4, "sizes": "web-search", "duration": "1 ms"}]
    fabric = {"topology": "leaf_spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4, "demands": demands}
    tables = {"duration": "2 ms", "protocol": {"name": "Swift"}, "fabric": fabric | {"capacity": "10 Gb/s"}}
    runs = ScenarioRuns(tables, ["utilization"])
    first, second = (runs.at(seed=seed).network.flows for seed in (1, 2))
    assert first != second and runs.at(seed=1).network.flows == first
    assert len(runs.at(**{"fabric.demands.0.load": 0.9}).network.flows) > len(first)


def test_means_over_seeds_have_the_intervals_of_students_t():
    """The 97.5 % quantile of t is 4.3027 with two degrees of freedom (printed in any table of the distribution)."""
    runs = sweep(
        lambda gain, seed: {"rate": gain + seed if gain < 3 or seed < 2 else np.nan},
        {"gain": [1.0, 3.0], "seed": [1, 2, 3]},
    )
    means = sweep_means(runs.assign(error=("seed", ["", "", ""])))
    assert list(means.data_vars) == ["rate", "rate_interval"] and list(means["rate"].values) == [3.0, 4.0]
    assert means["rate_interval"].values[0] == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert np.isnan(means["rate_interval"].values[1])  # one run
    wide, narrow = (sweep_means(runs, "seed", c)["rate_interval"].values[0] for c in (0.99, 0.5))
    assert wide > means["rate_interval"].values[0] > narrow
    with pytest.raises(ValueError, match="axis must be one of gain, seed, got 'links'"):
        sweep_means(runs, "links")
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 1.0"):
        sweep_means(runs, confidence=1.0)


def test_means_over_an_ensemble_are_those_of_its_completed_members():
    runs = ecc.packet.ensemble(LOSSY, {"beta": [0.5, 0.7]}, seeds=4, metrics=["utilization"], series=["goodput"])
    runs["stopped"][1, 2:] = "interrupted"
    means = sweep_means(runs)
    assert list(means) == ["goodput", "utilization", "goodput_interval", "utilization_interval", "runs"]
    assert means.runs.to_numpy().tolist() == [4, 2] and means.goodput_interval.dims == ("beta", "time", "flow")
    for beta, n, quantile in ((0, 4, 3.182446), (1, 2, 12.706205)):  # 97.5 % of t with 3 degrees of freedom, and with 1
        for name in ("utilization", "goodput"):
            values = runs[name].to_numpy()[beta, :n]
            np.testing.assert_allclose(means[name][beta], values.mean(axis=0), rtol=1e-12)
            half_width = quantile * values.std(axis=0, ddof=1) / n**0.5
            np.testing.assert_allclose(means[f"{name}_interval"][beta], half_width, rtol=1e-6)
    assert means.goodput.attrs["units"] == means.goodput_interval.attrs["units"] == "bit/s"
    assert means.utilization.attrs["long_name"] == "utilization"


def test_intervals_of_normal_runs_contain_the_mean_as_often_as_they_promise():
    numbers = np.random.default_rng(1).normal(5.0, 2.0, (4000, 5))
    runs = sweep(lambda case, seed: numbers[case, seed], {"case": range(4000), "seed": range(5)})
    means = sweep_means(runs, confidence=0.9)
    contained = np.abs(means["value"] - 5.0) < means["value_interval"]
    assert contained.mean().item() == pytest.approx(0.9, abs=0.02)  # four standard errors of the share


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, lambda n: ProcessPoolExecutor(n, get_context("spawn"))])
def test_same_result_on_any_executor(pool):
    grid = {"delay": [0.1, 0.205, 0.3], "interval": [0.01, 0.02]}
    with pool(2) as executor:
        assert sweep(steps_of, grid, executor=executor).identical(sweep(steps_of, grid))


def test_an_only_entry_of_a_list_need_not_be_named():
    network = ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms"] * 2)
    protocol = {"flows": ecc.models.NewReno(), "links": ecc.queues.DropTail()}
    runs = ScenarioRuns(ecc.Scenario(network, protocol, 1.0).to_dict(), ["utilization"])
    for path in ("protocol.links.default.name", "protocol.links.default.0.name", "protocol.links.default.*.name"):
        assert runs.at(**{path: "CoDel"}).protocol.links["default"] == (ecc.queues.CoDel(),)
    assert runs.at(**{"links.capacity": "5 Mb/s"}).network.links[0].capacity == 5e6
    with pytest.raises(ValueError, match=r"path must end in a key of a table, got 'flows\.start'"):
        runs.at(**{"flows.start": "1 s"})


def test_one_failing_point_does_not_discard_the_rest():
    with pytest.raises(
        EccError, match=r"the function failed at 2 of 6 points, first at .*1\.5.*RuntimeError: too much"
    ) as caught:
        sweep(failing, GRID)
    found = caught.value.dataset
    assert np.isnan(found["value"].to_numpy()).tolist() == [[False, False], [False, False], [True, True]]
    assert found["error"].to_numpy().tolist() == [["", ""], ["", ""], ["RuntimeError: too much"] * 2]


@pytest.mark.parametrize(
    "wrong", [lambda a: "text", lambda a: {"x": None}, lambda a: sys.exit("no"), lambda a: 10**400]
)
def test_a_result_that_is_no_number_is_a_failure_of_its_point(wrong):
    with pytest.raises(SweepError) as caught:
        sweep(lambda a: wrong(a) if a == 2 else a, {"a": [1, 2, 3]})
    assert caught.value.dataset["value"].to_numpy()[[0, 2]].tolist() == [1.0, 3.0]
    assert caught.value.dataset["error"].to_numpy()[1] != ""


def test_a_store_goes_on_where_it_ended(tmp_path):
    store, calls, broken = tmp_path / "sweep.sqlite", [], {"is": True}

    def rest(alpha, rtt):
        if broken["is"] and alpha > 1.0:
            raise RuntimeError("too much")
        calls.append((alpha, rtt))
        return alpha

    with pytest.raises(SweepError):
        sweep(rest, GRID, store=store)
    assert len(calls) == 4
    told = []
    with pytest.raises(SweepError):  # a list of its calls makes it no other function
        sweep(rest, GRID, store=store, resumed=lambda *counts: told.append(counts))
    assert len(calls) == 4 and told == [(4, 6)]


def test_a_function_that_has_changed_begins_anew(tmp_path):
    store = tmp_path / "sweep.sqlite"
    grid = {"alpha": [1.0, 2.0]}
    assert sweep(lambda alpha: alpha, grid, store=store)["value"].to_numpy().tolist() == [1.0, 2.0]
    assert sweep(lambda alpha: -alpha, grid, store=store)["value"].to_numpy().tolist() == [-1.0, -2.0]

    def times(k):
        return lambda alpha: k * alpha

    for k in (3.0, 4.0):
        assert sweep(times(k), grid, store=store)["value"].to_numpy().tolist() == [k, 2 * k]
    for _ in range(2):
        assert sweep(partial(both, rtt=2.0), grid, store=store)["product"].to_numpy().tolist() == [2.0, 4.0]


def test_a_store_that_cannot_be_written_costs_nothing_but_itself(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match=r"results are not kept: .*file/store cannot be written"):
        found = sweep(both, GRID, store=tmp_path / "file" / "store")
    assert found.identical(sweep(both, GRID))


def test_interrupted_it_has_what_was_done():
    def interrupted(alpha, rtt):
        if alpha == 1.0:
            raise KeyboardInterrupt
        return alpha

    with pytest.raises(KeyboardInterrupt, match="interrupted after 2 of 6 points") as caught:
        sweep(interrupted, GRID)
    assert isinstance(caught.value, SweepInterrupted)
    assert caught.value.dataset["value"].to_numpy()[0].tolist() == [0.5, 0.5]
    assert set(caught.value.dataset["error"].to_numpy()[1:].ravel()) == {"not run"}


@pytest.mark.parametrize("engine", ["packet", "fluid"])
def test_ctrl_c_within_a_run_of_the_function_ends_the_sweep_the_same_way(engine):
    def shares(rtt):
        duration = 0.5
        if rtt == 0.2:
            duration = 1e5  # minutes
            threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        network = ecc.Network.dumbbell("10 Mb/s", rtts=[rtt])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the run that ends early
            run = ecc.simulate(ecc.Scenario(network, ecc.models.RCP(), duration=duration), engine)
        return float(run.rate.mean())

    with pytest.raises(SweepInterrupted, match="interrupted after 1 of 3 points") as caught:
        sweep(shares, {"rtt": [0.1, 0.2, 0.3]})
    assert np.isfinite(caught.value.dataset["value"].to_numpy()).tolist() == [True, False, False]
    assert caught.value.dataset["error"].to_numpy().tolist()[1:] == ["not run"] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_the_first_point_is_of_the_same_kind(tmp_path, monkeypatch):
    def interrupted(self, points):
        raise KeyboardInterrupt

    monkeypatch.setattr("ecc.batch.sweeps._PointStore.get_all", interrupted)
    with pytest.raises(SweepInterrupted, match="interrupted after 0 of 6 points") as caught:
        sweep(both, GRID, store=tmp_path)
    assert set(caught.value.dataset["error"].to_numpy().ravel()) == {"not run"}


@pytest.mark.parametrize("pool", [lambda: nullcontext(2), lambda: ProcessPoolExecutor(2, get_context("spawn"))])
def test_a_point_that_kills_its_worker_fails_alone(pool, tmp_path, monkeypatch):
    source = "import os\ndef dying(alpha, rtt):\n    return os._exit(9) if alpha == 1.0 and rtt == 0.1 else alpha\n"
    (tmp_path / "dying_points.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    dying = importlib.import_module("dying_points").dying
    with pool() as executor, pytest.raises(SweepError, match="1 of 6 points, .*its process ended, 2 times") as caught:
        sweep(dying, GRID, executor)
    assert int(caught.value.dataset["value"].notnull().sum()) == 5


def alone(point):
    """The metrics of a point by a separate run."""
    beta, seed = point["protocol.beta"], point["seed"]
    scenario = LOSSY.with_(protocol=ecc.models.CUBIC(beta=beta), seed=seed)
    run = ecc.packet.simulate(scenario)
    return {name: ecc.metrics.METRICS[name].function(run, scenario, between=(1.0, 2.0)) for name in FIVE}


@pytest.mark.parametrize("executor", [None, 1, 3])
@pytest.mark.parametrize("names", [("protocol.beta", "seed"), ("seed", "protocol.beta")])
def test_short_runs_share_engines_and_are_single_runs(executor, names, monkeypatch):
    monkeypatch.setattr(sweeps, "in_workers", None)  # threads of this process make these runs
    values = {"protocol.beta": [0.5, 0.7], "seed": [5, 2, 9]}
    found = sweep(ScenarioRuns(LOSSY.to_dict(), FIVE), {name: values[name] for name in names}, executor)
    for beta in values["protocol.beta"]:
        for seed in values["seed"]:
            expected = alone({"protocol.beta": beta, "seed": seed})
            member = found.sel({"protocol.beta": beta, "seed": seed})
            assert {name: float(member[name]) for name in FIVE} == expected
    assert len(set(found["utilization"].to_numpy().ravel().tolist())) == 6


@pytest.mark.slow
def test_long_runs_and_runs_of_custom_protocols_are_in_worker_processes(tmp_path, monkeypatch):
    source = "from ecc.models import CUBIC\nclass Mine(CUBIC):\n    pass\n"
    (tmp_path / "protocol_of_mine.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    custom = LOSSY.to_dict() | {"protocol": {"name": "protocol_of_mine:Mine"}}
    grid = {"protocol.beta": [0.5, 0.7], "seed": [5, 2, 9]}
    runs, expected = ScenarioRuns(custom, FIVE), sweep(ScenarioRuns(LOSSY.to_dict(), FIVE), grid)
    for function in (runs, ScenarioRuns(LOSSY.to_dict() | {"duration": 2000.0}, FIVE)):
        assert not sweeps._are_short(function, [{"seed": 1}])
    monkeypatch.setattr(sweeps, "_in_threads", None)
    assert sweep(runs, grid, 2).identical(expected)


@pytest.mark.slow
def test_a_short_run_that_fails_fails_alone_in_a_thread():
    runs = ScenarioRuns(LOSSY.to_dict(), ["utilization", "mean_completion_time"])
    with pytest.raises(SweepError, match="some metrics failed at 3 of 3 points, first at .*mean_completion_time") as of:
        sweep(runs, {"seed": [1, 2, 3]}, 2)
    assert of.value.dataset["utilization"].notnull().all()
    with pytest.raises(SweepError, match="the function failed at 1 of 3 points, .*seed must be >= 0, got -1") as of:
        sweep(ScenarioRuns(LOSSY.to_dict(), FIVE), {"seed": [1, -1, 3]}, 2)
    assert of.value.dataset["utilization"].notnull().to_numpy().tolist() == [True, False, True]


@pytest.mark.slow
def test_ctrl_c_ends_short_runs_and_the_store_has_those_that_ended(tmp_path):
    runs, sent, told = ScenarioRuns(LOSSY.to_dict(), FIVE), [], []

    def interrupts(share):
        if share > 0.1 and not sent:
            sent.append(1)
            signal.raise_signal(signal.SIGINT)

    grid, store = {"seed": range(400)}, tmp_path / "runs.sqlite"
    with pytest.raises(SweepInterrupted, match=r"interrupted after \d+ of 400 points") as caught:
        sweep(runs, grid, 2, store, interrupts)
    done = caught.value.dataset["utilization"].notnull().to_numpy()
    assert 40 <= done.sum() < 400 and threading.active_count() < 10
    assert set(caught.value.dataset["error"].to_numpy()[~done]) == {"not run"}
    again = sweep(runs, grid, 2, store, resumed=lambda *counts: told.append(counts))
    assert told == [(int(done.sum()), 400)]
    assert again.identical(sweep(runs, grid, 2)) and len(Store(store)) == 400 * len(FIVE)


def test_parts_of_a_grid_merge_to_the_whole(tmp_path):
    stores = [tmp_path / f"{part}.sqlite" for part in (1, 2, 3, 4)]
    seen = []
    for part, store in enumerate(stores, 1):
        found = sweep(both, GRID, store=store, progress=seen.append, part=(part, 4))["product"].to_numpy().ravel()
        assert [k % 4 + 1 for k in np.flatnonzero(~np.isnan(found))] == [part] * len(range(part - 1, 6, 4))
    assert seen == [0.5, 1.0, 0.5, 1.0, 1.0, 1.0]
    whole, told = Store(tmp_path / "whole.sqlite"), []
    for store in stores:
        whole.merge(store)
    assert sweep(both, GRID, store=whole.path, resumed=lambda *counts: told.append(counts)).identical(sweep(both, GRID))
    assert told == [(6, 6)]
    with pytest.raises(ValueError, match="store to merge must be a file that is there, got .*no.sqlite"):
        whole.merge(tmp_path / "no.sqlite")
    for part in ((0, 2), (3, 2)):
        with pytest.raises(ValueError, match="part must be .k, n. with k from 1 to n"):
            sweep(both, GRID, part=part)


@pytest.mark.parametrize("grid", [{}, {"alpha": []}])
def test_empty_grids_are_refused(grid):
    with pytest.raises(ValueError, match="grid must have at least one axis and a value on each"):
        sweep(both, grid)


def test_slowdown_is_the_completion_time_over_that_of_the_flow_alone():
    network = ecc.Network([ecc.Link("10 Mb/s", "5 ms")], [ecc.Flow([0], start=1e3)])
    arrivals = [
        Arrivals([0], 1.0, size, start=at, spacing="regular", count=2)
        for at, size in ((0.0, "100 kB"), (0.05, "20 kB"))
    ]
    scenario = ecc.Scenario(network, ecc.models.NewReno(), duration=3.0, workload=Workload(arrivals=arrivals))
    run = ecc.packet.simulate(scenario)
    rows = run.flows.iloc[1:]
    found = rows["completion_time"] / (0.010 + 8.0 * rows["size"] / 10e6)
    assert len(found) == 4 and (found > 1.0).all()
    assert metrics.get("mean_slowdown").function(run, scenario) == pytest.approx(found.mean(), rel=1e-12)
    assert metrics.get("p99_slowdown").function(run, scenario) == pytest.approx(found.quantile(0.99), rel=1e-12)
    small = metrics.get("mean_slowdown").function(run, scenario, sizes=(0.0, 50e3))
    assert small == pytest.approx(found[rows["size"] < 50e3].mean(), rel=1e-12)
    fluid = SimpleNamespace(flows=run.flows.drop(columns="ideal_time"))
    with pytest.raises(ValueError, match="run must be a packet run for slowdowns"):
        metrics.get("mean_slowdown").function(fluid, scenario)


def vectors(path, size):
    """A file of Tmix vectors: a request of `size` bytes each 100 ms."""
    path.write_text("".join(f"SEQ {100_000 * k} 1 {k} {k}\nr 20000\n> {size}\n" for k in range(20)))
    return str(path)


def runs_of(file):
    net = Network([Link("10 Mb/s", "1 ms"), Link("10 Mb/s", "1 ms")], [Flow([0], size="1 kB")])
    scenario = Scenario(net, ecc.models.RCP(), 2.0, workload=Tmix(file, [0], [1]))
    return ScenarioRuns(scenario.to_dict(), ["utilization"])


def test_a_store_does_not_answer_for_a_data_file_that_has_changed(tmp_path):
    file, grid, store = vectors(tmp_path / "a.tmix", 1000), {"seed": [1]}, tmp_path / "runs.sqlite"
    few = float(sweep(runs_of(file), grid, store=store)["utilization"][0])
    vectors(tmp_path / "a.tmix", 80_000)
    many = float(sweep(runs_of(file), grid, store=store)["utilization"][0])
    assert few < 0.05 and many > 0.3
    vectors(tmp_path / "a.tmix", 1000)
    counted = []
    sweep(runs_of(file), grid, store=store, resumed=lambda done, of: counted.append(done))
    assert counted == [1]  # the content is the key, not the time of writing


def test_a_data_file_can_be_an_axis_and_enters_the_key_by_content(tmp_path):
    files = [vectors(tmp_path / "a.tmix", 1000), vectors(tmp_path / "b.tmix", 80_000)]
    grid = {"workload.tmix.0.vectors": files}
    first = sweep(runs_of(files[1]), grid, store=tmp_path / "runs.sqlite")["utilization"].values
    vectors(tmp_path / "a.tmix", 80_000)
    again = sweep(runs_of(files[1]), grid, store=tmp_path / "runs.sqlite")["utilization"].values
    assert first[0] < 0.05 < 0.3 < first[1] and again[0] == again[1] == first[1]


@pytest.mark.parametrize("settings", [{}, {"workload.tmix.0.vectors": "a.tmix"}])
def test_another_machine_whose_data_file_differs_refuses_the_call(tmp_path, monkeypatch, settings):
    for folder, size in (("here", 1000), ("there", 80_000)):
        (tmp_path / folder).mkdir()
        vectors(tmp_path / folder / "a.tmix", size)
    monkeypatch.chdir(tmp_path / "here")
    call = pickle.dumps((runs_of("a.tmix"), runs_of("a.tmix").pinned(**settings)))
    monkeypatch.chdir(tmp_path / "there")
    runs, pinned = pickle.loads(call)
    with pytest.raises(ValueError, match=r"vectors must be the file 'a.tmix' with the SHA-256 .*, got other content"):
        runs(**pinned)


@pytest.mark.slow
def test_a_file_of_a_delivery_trace_can_be_an_axis(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.up").write_text("".join(f"{k}\n" for k in range(10, 101, 10)))
    (tmp_path / "fast.up").write_text("".join(f"{k}\n" for k in range(1, 101)))
    net = Network.dumbbell("12 Mb/s", rtts=["20 ms"], packet_size=1504)
    trace = {"name": "DeliveryTrace", "link": 0, "file": "slow.up"}
    tables = Scenario(net, ecc.models.ConstantRate(rate="20 Mb/s"), 1.0).to_dict() | {"impairments": [trace]}
    grid = {"impairments.0.file": ["slow.up", "fast.up"]}
    for given in (tables, Scenario.from_dict(tables).to_dict()):  # with the name of a file, and with its times
        rates = sweep(ScenarioRuns(given, ["utilization"]), grid, executor=1)["utilization"].values
        assert rates[1] == pytest.approx(10.0 * rates[0], rel=0.2)
    call = ScenarioRuns(tables, ["utilization"])
    (tmp_path / "slow.up").write_text("5\n")
    with pytest.raises(ValueError, match=r"file must be the file 'slow.up' with the SHA-256 .*, got other content"):
        call()
