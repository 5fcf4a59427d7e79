"""Checkpoints that were damaged, or made up by somebody: refused in one line, or a run that ends."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import ecc
from ecc.models import RCP, XCP, NewReno
from ecc.network.impairments import CapacitySchedule, Jitter, RandomLoss
from ecc.network.network import Flow, Network
from ecc.packet import Run, checkpoint, resume
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

NETWORK = Network.dumbbell("20 Mb/s", rtts=[0.04, 0.1], buffer="60 kB")
MICE = Workload(
    [Flow([0], start=1.0, size=30_000)],
    [Arrivals([0], 0.02, 5_000, shape=1.4, access_delay=(0.0, 0.02)), Arrivals([0], 0.5, mean_duration=0.3)],
)
LOSSY = [RandomLoss(0.01, link=0, kind="data"), Jitter((0.0, 0.01), link=0, in_order=False)]
CHANGING = [CapacitySchedule(0, [0.5, 1.0], ["10 Mb/s", "30 Mb/s"]), Jitter((0.0, 0.01), acks_of=[0])]
SCENARIOS = {
    "mice": Scenario(NETWORK, RCP(), 2.0, workload=MICE, seed=3),
    "stream": Scenario(NETWORK, NewReno(), 2.0, workload=MICE, seed=4, impairments=LOSSY),
    "changing": Scenario(Network.parking_lot(["20 Mb/s", "15 Mb/s"]), XCP(), 2.0, seed=5, impairments=CHANGING),
}
WHOLE = np.array([0, 1, -1, 2, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)], np.int64)
REAL = np.array([np.nan, np.inf, -np.inf, -1.0, 1e300, 5e-324, 0.0])


def test_rows_after_a_checkpoint_stay_beside_it(tmp_path):
    """Whatever a checkpoint says: no path outside of its folder, and no file that is there already."""
    path, elsewhere = tmp_path / "run.ckpt", tmp_path / "elsewhere"
    elsewhere.mkdir()
    Run(SCENARIOS["mice"], flows_to=elsewhere / "flows.parquet").advance(1.0).save(path)
    link = tmp_path / "flows-1.parquet"
    link.symlink_to(elsewhere / "made.txt")  # dangling
    run = resume(path).advance(1.1)
    assert run.flows_to == tmp_path / "flows-2.parquet" and not (elsewhere / "made.txt").exists()
    run.close()
    for name in (str(elsewhere / "flows.parquet"), "../up.parquet", "..", "", 3):
        forge(path, lambda about, _, name=name: about.update(file=name))
        with pytest.raises(ValueError, match=r"^'.*\.ckpt' is not a checkpoint, or is incomplete$"):
            resume(path)


def forge(path: Path, change) -> None:
    """Alter a checkpoint, and give it the checksum that fits."""
    with np.load(path) as file:
        arrays = {name: array.copy() for name, array in file.items()}
    about = json.loads(str(arrays.pop("about")))
    change(about, arrays)
    version, form = about.pop("version"), about.pop("format")
    assert (version, form) == (ecc.__version__, checkpoint.FORMAT)
    checkpoint.write_checkpoint(path, about, arrays)


def saved(scenario: Scenario, path: Path) -> bytes:
    options = {"sample": 0.1, "trace": 100, "histogram_from": 0.2, "memory_limit": "30 MB"}
    Run(scenario, flows_to=path.with_suffix(".parquet"), **options).advance(0.7).save(path)
    return path.read_bytes()


def ended(path: Path) -> str:
    """Why a checkpoint was refused, or "" if it was not; then its run has ended."""
    try:
        run = resume(path)
    except ValueError as error:
        assert "\n" not in str(error) and len(str(error)) < 500
        return str(error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may end with an error
        run.advance()
    assert run.stopped != "paused"
    run.close()
    run.trajectory()
    return ""


def altered(rng: np.random.Generator, about: dict[str, object], arrays: dict[str, np.ndarray]) -> None:
    """Change one place, of the state of the engine in half of the cases."""
    others = [name for name, array in arrays.items() if array.nbytes]
    name = "engine_state" if rng.random() < 0.5 else rng.choice([*others, "about"])
    if name == "about":
        key = rng.choice(sorted({*about} - {"version", "format"}))
        values = [None, -1, "", "x", [], {}, 1e300, 10**30, True, {**SAFE, "sample": -1}, {**SAFE, "trace": "a"}]
        about[key] = values[rng.integers(len(values))]
        return
    raw = np.frombuffer(arrays[name].tobytes(), np.uint8).copy()
    width = int(rng.choice([1, 4, 8]))
    at = int(rng.integers(0, max(1, len(raw) - width + 1)))
    if width == 8 and rng.random() < 0.7:
        value = rng.choice(REAL) if rng.random() < 0.3 else rng.choice(WHOLE)
        raw[at : at + 8] = np.frombuffer(value.tobytes(), np.uint8)
    elif width > 1 and rng.random() < 0.5:  # a little more or less
        part = raw[at : at + width].view(f"u{width}")
        part += np.array(int(rng.integers(-3, 4)) % 2 ** (8 * width), part.dtype)
    else:
        raw[at : at + width] = rng.integers(0, 256, len(raw[at : at + width]))
    arrays[name] = raw.view(arrays[name].dtype).reshape(arrays[name].shape)


SAFE = {"sample": 0.1, "start": "empty", "perturbation": 0.0, "trace": 0, "histogram_from": None, "memory_limit": 10**7}


HOW_MANY = pytest.mark.parametrize(
    ("name", "count"), [("stream", 60), *(pytest.param(name, 250, marks=pytest.mark.slow) for name in SCENARIOS)]
)


@pytest.mark.slow
@HOW_MANY
def test_an_altered_checkpoint_is_refused_or_its_run_ends(tmp_path, name, count):
    path = tmp_path / "run.ckpt"
    whole = saved(SCENARIOS[name], path)
    assert ended(path) == ""
    rng, reasons = np.random.default_rng(count), []
    for _ in range(count):
        path.write_bytes(whole)
        forge(path, lambda about, arrays: altered(rng, about, arrays))
        reasons.append(ended(path))
    assert 0.1 * count <= sum(map(bool, reasons)) <= 0.9 * count


@HOW_MANY
def test_a_damaged_checkpoint_is_refused(tmp_path, name, count):
    path = tmp_path / "run.ckpt"
    whole = saved(SCENARIOS[name], path)
    rng = np.random.default_rng(count + 1)
    for _ in range(count):
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        assert ended(path) == f"{str(path)!r} is not a checkpoint, or is incomplete"
    for length in (0, 10, 32, 5000, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert ended(path) == f"{str(path)!r} is not a checkpoint, or is incomplete"
    path.write_bytes(whole)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["rows"] = arrays["rows"][:-1]
    np.savez(path.with_suffix(".npz"), **arrays)  # a whole archive, without the checksum
    path.with_suffix(".npz").replace(path)
    assert ended(path) == f"{str(path)!r} is not a checkpoint, or is incomplete"
