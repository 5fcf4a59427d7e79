"""Runs on disk: what is saved comes back to the last bit."""

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
