"""Checks that the tests of all hosts of media share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import ecc
from ecc.packet import Run, resume
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario


def run_everywhere(scenario: Scenario, names: Sequence[str], folder: Path) -> Trajectory:
    """Return the run of the C engine; assert that those of the twin, of threads and of a checkpoint are the same."""
    runs = [ecc.packet.simulate(scenario, sample=0.1, record=names, engine=engine) for engine in ("c", "python")]
    runs.append(ecc.packet.simulate(scenario, sample=0.1, record=names, threads=2))
    path = folder / "state.npz"
    Run(scenario, sample=0.1, record=names).advance(1.03).save(path)
    runs.append(resume(path).advance().trajectory())
    for run in runs[1:]:
        assert run.stats["digest"] == runs[0].stats["digest"]
        for name in names:
            np.testing.assert_array_equal(run[name], runs[0][name])
    return runs[0]


def assert_same_on_frames(scenario: Scenario, names: Sequence[str], also: Sequence[str] = ()) -> Trajectory:
    """Return a packet run; assert that values at the end of a live run with real frames are the same within 10 %.

    `also`: fields that the packet run records in addition.
    """
    import ecc.live

    run = ecc.live.simulate(scenario, attempts=5, lateness="5 ms", exact=True, record=names)
    if run.stats["void"]:
        pytest.skip(f"five runs in a row were void, the last because {run.stats['void']}")
    packets = ecc.packet.simulate(scenario, record=[*names, *also])
    for name in names:
        assert run[name][-1, 0].item() == pytest.approx(packets[name][-1, 0].item(), rel=0.1)
    return packets
