"""Runs on disk: what is saved comes back to the last bit."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ecc
from ecc._support.files import WriteError

NET = ecc.Network.parking_lot(["10 Mb/s", "5 Mb/s"])


@pytest.mark.parametrize("engine", ["packet", "fluid"])
def test_a_saved_run_comes_back(engine, tmp_path):
    options = {"histogram_from": 0.0, "trace": 50} if engine == "packet" else {}
    workload = ecc.Workload([ecc.Flow([0], 0.1, size="3 GB")]) if options else None
    case = ecc.Scenario(NET, ecc.models.RCP(), 2.0, workload=workload, seed=2**64 - 1)
    run = getattr(ecc, engine).simulate(case, sample=0.05, **options)
    run.save(tmp_path / "run.nc")
    again = ecc.Trajectory.load(tmp_path / "run.nc")
    xr.testing.assert_identical(again.data, run.data)
    pd.testing.assert_frame_equal(again.flows, run.flows)
    assert dict(again.stats) == dict(run.stats) and again.is_complete
    assert ecc.Scenario.from_toml(again.data.attrs["scenario"]) == case
    if options:
        xr.testing.assert_identical(again.queues, run.queues)
        pd.testing.assert_frame_equal(again.trace, run.trace)
        assert again.queue_quantiles(0.9).equals(run.queue_quantiles(0.9))
    else:
        assert again.queues is None and again.trace is None
    assert xr.load_dataset(tmp_path / "run.nc")["rate"].dims == ("time", "flow")  # any reader understands it


def test_several_protocols_and_connections_come_back(tmp_path):
    protocols = {"flows": {0: ecc.models.RCP(), "default": ecc.models.NewReno()}}
    run = ecc.packet.simulate(ecc.Scenario(NET, protocols, 1.0), sample=0.1)
    run.save(tmp_path / "run.nc")
    again = ecc.Trajectory.load(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(again.flows, run.flows, check_dtype=False)
    assert again.flows["protocol"].tolist() == run.flows["protocol"].tolist()


def test_what_is_no_run_is_refused(tmp_path):
    run = ecc.fluid.simulate(ecc.Scenario(NET, ecc.models.RCP(), 1.0))
    run.save(tmp_path / "run.nc")
    whole = (tmp_path / "run.nc").read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.nc").write_text("run")
    xr.Dataset({"a": 1.0}).to_netcdf(tmp_path / "other.nc")
    for name in ("cut", "text", "other"):
        with pytest.raises(ValueError, match=rf"path must be a run that Trajectory.save wrote, got '.*{name}.nc'"):
            ecc.Trajectory.load(tmp_path / f"{name}.nc")
    with pytest.raises(FileNotFoundError):
        ecc.Trajectory.load(tmp_path / "none.nc")


def test_a_run_that_cannot_be_written_leaves_what_was_there(tmp_path):
    run = ecc.fluid.simulate(ecc.Scenario(NET, ecc.models.RCP(), 1.0))
    with pytest.raises(WriteError, match=r"none/run.nc cannot be written: No such file or directory"):
        run.save(tmp_path / "none" / "run.nc")
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(WriteError, match=r"folder.nc cannot be written"):
        run.save(tmp_path / "folder.nc")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.nc"]


def test_series_before_the_dataset_are_those_of_the_dataset():
    disciplines = {"flows": ecc.models.NewReno(), "links": {0: ecc.queues.DRR(), 1: ecc.queues.DropTail()}}
    run = ecc.packet.simulate(ecc.Scenario(NET, disciplines, 1.0), record=["env.srtt"])
    alone = {name: run[name] for name in ("rate", "queue", "class_queue", "env.srtt")}
    for name, series in alone.items():
        xr.testing.assert_identical(series, run.data[name])
    alone["rate"][-1, 0] = 7.0  # the same memory
    assert run.rate[-1, 0] == 7.0 and run.data["rate"][-1, 0] == 7.0


def test_copies_of_a_run_have_its_contents():
    scenario = ecc.Scenario(NET, ecc.models.NewReno(), 1.0)
    runs = [ecc.packet.simulate(scenario) for _ in range(4)]
    copies = [copy.copy(runs[0]), copy.deepcopy(runs[1]), pickle.loads(pickle.dumps(runs[2]))]
    for other in [*copies, replace(runs[3], stats={})]:
        xr.testing.assert_identical(other.data, runs[0].data)
        pd.testing.assert_frame_equal(other.flows, runs[0].flows)
    assert copies[2].stats["digest"] == runs[0].stats["digest"]


def test_changed_labels_of_a_run_are_not_those_of_the_next_run():
    scenario = ecc.Scenario(ecc.Network.dumbbell("1 Mb/s", [0.1]), ecc.models.NewReno(), 2.0)
    run, other = (ecc.packet.simulate(scenario.with_(seed=seed)) for seed in (1, 2))
    run.rate["time"].attrs["units"] = "h"
    run.rate["flow"] = ["mine"]
    assert other.rate["time"].attrs["units"] == "s" and other.data["flow"].to_numpy().tolist() == [0]


def test_a_result_does_not_change_when_its_run_continues():
    run = ecc.packet.Run(ecc.Scenario(NET, ecc.models.NewReno(), 2.0))
    half = run.advance(1.0).trajectory()
    run.advance()
    alone = ecc.packet.Run(ecc.Scenario(NET, ecc.models.NewReno(), 2.0)).advance(1.0).trajectory()
    xr.testing.assert_identical(half.data, alone.data)
    pd.testing.assert_frame_equal(half.flows, alone.flows)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ({"rate": np.zeros((2, 1)), "queue": np.zeros((3, 1))}, "series queue must have 2 along time, got 3"),
        ({"rate": np.zeros((2, 1)), "goodput": np.zeros((2, 2))}, "series goodput must have 1 along flow, got 2"),
        ({"rate": np.zeros(2)}, r"series rate must have the dimensions time, flow, got shape \(2,\)"),
    ],
)
def test_series_of_different_sizes_are_refused(series, message):
    with pytest.raises(ValueError, match=message):
        ecc.Trajectory.build([0.1, 0.2], series, {}, {}, {})


def test_values_and_columns_are_those_of_the_dataset_and_the_table():
    scenario = ecc.Scenario(NET, ecc.models.NewReno(), 1.0)
    made, unmade = ecc.packet.simulate(scenario), ecc.packet.simulate(scenario)
    for name in ("time", "rate", "queue_mean"):
        np.testing.assert_array_equal(unmade.values(name), made.data[name])
        np.testing.assert_array_equal(made.values(name), made.data[name])
    for name in ("finish", "delivered"):
        np.testing.assert_array_equal(unmade.column(name), made.flows[name])
        np.testing.assert_array_equal(made.column(name), made.flows[name])
    for run in (made, unmade):
        assert run.has("rate") and not run.has("time") and not run.has("flow.x")
        assert run.column("protocol") is None
        with pytest.raises(ValueError, match="name must be a series of this run, rate, goodput, .*, got 'flow.x'"):
            run.values("flow.x")
