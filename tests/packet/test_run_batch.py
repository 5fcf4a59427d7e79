"""Batches of runs that step together: equal to single runs for any number of threads, and failures kept apart."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.models import CUBIC, ConstantRate
from ecc.packet import Run, RunBatch

RATE = 2e6


def scenario(rtt: float = 0.05, seed: int = 1, duration: float = 2.0, **changes: Any) -> ecc.Scenario:
    network = ecc.Network.dumbbell("4 Mb/s", rtts=[rtt, 0.06], buffer="30 kB")
    return ecc.Scenario(network, {"flows": {0: ConstantRate(RATE), "default": CUBIC()}}, duration, seed=seed, **changes)


def rates(k: int) -> list[float]:
    return [RATE * (0.5 + 0.1 * ((3 * k + i) % 7)) for i in range(5)]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_equals_its_runs(threads: int) -> None:
    chosen = [scenario(0.03 + 0.01 * i, seed=i) for i in range(5)]
    batch = RunBatch(chosen, observe=[0, 1], threads=threads)
    runs = [Run(one, one.duration, observe=[0, 1]) for one in chosen]
    for run in runs:
        run.step(0.0)
    for k in range(10):
        batch.actions[:, 0] = rates(k)
        batch.step(0.1 * (k + 1) + 0.01 * np.arange(5))
        assert np.isnan(batch.actions).all()
        for i, run in enumerate(runs):
            expected = run.step(0.1 * (k + 1) + 0.01 * i, {0: {"rate": rates(k)[i]}})
            if k > 0:  # the first interval of the batch begins at time 0, that of the run after its first packets
                assert np.array_equal(batch.observations[i], expected)
    assert [batch.run(i)._engine.stats.digest for i in range(5)] == [run._engine.stats.digest for run in runs]
    batch.step(9.0)
    assert (batch.now == batch.duration).all() and batch.run(3).stopped == "completed"
    assert len(batch.run(0).trajectory().rate) == 1


def test_a_restarted_run_repeats() -> None:
    batch = RunBatch([scenario(seed=1), scenario(seed=2)], threads=2)

    def episode(k: int) -> list[Any]:
        seen = []
        for step in range(5):
            batch.actions[k] = rates(step)[0]
            batch.step(np.where(np.arange(2) == k, batch.now + 0.1, 0.0))
            seen.append(batch.observations[k].tolist())
        return seen

    first, other = episode(0), episode(1)
    batch.restart(0)
    assert episode(0) == first
    batch.restart(0, seed=2)
    assert episode(0) == other != first
    batch.restart(0, scenario(0.2, seed=2, duration=3.0))
    assert batch.observations["sent"][0, 0] == 0.0 and batch.duration[0] == 3.0
    assert episode(0) != other
    batch.restart(0, scenario(seed=1))
    assert episode(0) == first


def test_transfers_and_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = ecc.Workload(arrivals=[ecc.Arrivals([0], "50 ms", "20 kB")])
    chosen = [scenario(seed=i, workload=workload) for i in range(3)]
    whole = RunBatch(chosen, threads=2)
    whole.step(1.0)
    monkeypatch.setattr("ecc.packet.run_batch.SLICE", 37)
    sliced = RunBatch(chosen, threads=2)
    sliced.step(1.0)
    assert np.array_equal(whole.observations, sliced.observations) and whole.failures == {}
    assert [whole.run(k)._engine.stats for k in range(3)][0].transfers > 10
    digests = [[batch.run(k)._engine.stats.digest for k in range(3)] for batch in (whole, sliced)]
    assert digests[0] == digests[1]


def failing(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Fail when the rate is 3 Mb/s."""
    if env.rate == 3e6:
        env.window = -1.0


class Fragile(ConstantRate):
    """A host with a hook that fails."""

    def flow_hooks(self) -> Any:
        return super().flow_hooks() | {"on_ack": failing}


def test_a_failure_is_that_of_one_run() -> None:
    network = ecc.Network.dumbbell("4 Mb/s", rtts=[0.05], buffer="30 kB")
    batch = RunBatch([ecc.Scenario(network, Fragile(RATE), 2.0)] * 3, threads=2)
    batch.step(0.5)
    batch.actions[:, 0] = [2e6, 3e6, -1.0]
    batch.step(1.0)
    assert batch.now[[0, 2]].tolist() == [1.0, 0.5] and 0.5 <= batch.now[1] < 1.0
    assert sorted(batch.failures) == [1, 2]
    assert "window must be finite and >= 0 bytes, got -1 (flow 0, on_ack" in batch.failures[1]
    assert batch.failures[2] == "rate must be finite and >= 0 bit/s, got -1 (flow 0)"
    batch.step(1.5)
    assert batch.now[[0, 2]].tolist() == [1.5, 1.5] and sorted(batch.failures) == [1]
    assert "window must be" in batch.run(1).stopped
    batch.restart(1)
    batch.step(1.0)
    assert batch.failures == {} and batch.now.tolist() == [1.5, 1.0, 1.5]


def test_bad_arguments_are_refused() -> None:
    for arguments, options, message in [
        (([],), {}, "scenarios must have one or more entries, got none"),
        (([scenario()], (5,)), {}, "observe must name flows from 0 to 1, got"),
        (([scenario()], (0,), "speed"), {}, "actions on flow 0 must be among rate, window, got 'speed'"),
        (([scenario()],), {"threads": 0}, "threads must be >= 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            RunBatch(*arguments, **options)
    batch = RunBatch([scenario()])
    for call, message in [
        (lambda: batch.step([1.0, 2.0]), r"until must have one time, or one for each of 1 runs, got shape \(2,\)"),
        (lambda: batch.step(-1.0), "until must be >= 0 s, got -1.0"),
        (lambda: batch.restart(1), "k must be from 0 to 0, got 1"),
        (lambda: batch.run(-1), "k must be from 0 to 0, got -1"),
        (lambda: batch.restart(0, seed=-1), "seed must"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_steps_on() -> None:
    batch = RunBatch([scenario(seed=i) for i in range(4)], threads=3)
    batch.step(0.5)
    process = os.fork()
    if process == 0:
        batch.step(1.0)
        os._exit(0 if (batch.now == 1.0).all() else 1)
    assert os.waitpid(process, 0)[1] == 0
    batch.step(1.0)
    assert (batch.now == 1.0).all()


@pytest.mark.slow
def test_memory_is_flat_over_restarts() -> None:
    """50,000 restarts, of which each hundredth has another network; a leak of 100 bytes each would be 4 MB."""
    psutil = pytest.importorskip("psutil")
    batch = RunBatch([scenario(duration=0.1)] * 4, threads=2)
    others = [scenario(0.03 + 0.001 * k, duration=0.1) for k in range(20)]

    def restart(n: int) -> int:
        for k in range(n):
            batch.restart(k % 4, others[k // 100 % 20] if k % 100 == 0 else None, seed=k)
            if k % 4 == 3:
                batch.step(0.02)
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    before = restart(10_000)
    assert restart(40_000) < before + 2_500_000
