"""One run in several threads: one advances it, the others are refused or get what is true; the result never changes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest
from waiting import HANG

from ecc.errors import EccError
from ecc.models import RCP
from ecc.network.network import Network
from ecc.packet import Run, simulate, simulation
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

SCENARIO = Scenario(
    Network.dumbbell("100 Mb/s", rtts=[0.04, 0.1] * 10, buffer="300 kB"),
    RCP(),
    20.0,
    workload=Workload([], [Arrivals([0], 0.02, 5_000, shape=1.4)]),
    seed=3,
)
REFUSED = r"^this run is being advanced by another thread; until it pauses only now and stopped can be read$"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads take turns often, in Python and between slices."""
    monkeypatch.setattr(simulation, "SLICE", 20_000)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(*works: Callable[[], object]) -> list[object]:
    """What each returns or raises, all begun at the same moment."""
    found: list[object] = [None] * len(works)
    gate = threading.Barrier(len(works))

    def work(k: int) -> None:
        gate.wait()
        try:
            found[k] = works[k]()
        except Exception as error:
            found[k] = error

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(scope="module")
def digest() -> int:
    return int(simulate(SCENARIO, histogram_from=0.5).stats["digest"])


def test_four_threads_that_advance_one_run_take_turns_or_are_refused(digest: int) -> None:
    for _ in range(8):
        run = Run(SCENARIO)
        found = in_threads(*[run.advance] * 4)
        errors = [error for error in found if error is not run]
        assert all(isinstance(error, EccError) for error in errors)
        for error in errors:
            with pytest.raises(EccError, match=REFUSED):
                raise error
        assert run.stopped == "completed" and run.trajectory().stats["digest"] == digest


def test_reading_while_another_thread_advances_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "SLICE", 1_000_000)
    small = Network.dumbbell("1 Gb/s", rtts=[0.04, 0.1], packet_size=100)  # a queue in which much happens
    scenario = Scenario(small, RCP(), 0.3)
    digest = simulate(scenario, histogram_from=0.0).stats["digest"]
    for _ in range(6):
        run = Run(scenario, histogram_from=0.0)
        seen: list[float] = []

        def look(run: Run = run, seen: list[float] = seen) -> None:
            seen.append(run.now)
            while run.stopped == "paused":
                seen.append(run.now)

        def ask(run: Run = run) -> None:
            while run.stopped == "paused":
                with suppress(EccError):
                    run.trajectory()

        in_threads(run.advance, look, look, ask)
        assert run.stopped == "completed" and run.trajectory().stats["digest"] == digest
        assert min(seen) >= 0.0 and max(seen) <= 0.3


def test_whoever_comes_while_a_run_is_advanced_is_refused(digest: int, tmp_path) -> None:
    run = Run(SCENARIO, histogram_from=0.5, flows_to=tmp_path / "rows.parquet")
    begun, go_on = threading.Event(), threading.Event()

    def wait(share: float) -> None:
        begun.set()
        assert go_on.wait(HANG)
        assert run.trajectory().stats["now"] == run.now  # the thread that advances may look

    thread = threading.Thread(target=run.advance, kwargs={"progress": wait})
    thread.start()
    assert begun.wait(HANG)
    engine = run._engine
    for access in (
        run.advance,
        run.trajectory,
        run.close,
        lambda: run.save(tmp_path / "run.ckpt"),
        engine.save,
        engine.take_finished,
        lambda: engine.stats,
        lambda: engine.histogram,
        lambda: engine.advance(1.0),
    ):
        with pytest.raises(EccError, match=REFUSED):
            access()
    assert 0.0 < run.now < 20.0 and run.stopped == "paused"
    go_on.set()
    thread.join()
    assert run.stopped == "completed" and run.trajectory().stats["digest"] == digest
    assert not (tmp_path / "run.ckpt").exists()


def test_any_number_of_threads_may_look_at_a_run_that_pauses() -> None:
    run = Run(SCENARIO, histogram_from=0.5).advance(2.0)
    expected = run.trajectory()
    for _ in range(4):
        for found in in_threads(*[run.trajectory] * 4):
            assert not isinstance(found, Exception)
            np.testing.assert_array_equal(found.goodput, expected.goodput)
            assert found.stats["data_packets"] == expected.stats["data_packets"]
