"""Compiled code of the fluid engine: kept between processes, given up when any source changes, free of the lock."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ecc.fluid import compiled, simulate, solve_dde
from ecc.models import RCP
from ecc.network import Network
from ecc.scenario import Scenario

SCENARIO = Scenario(Network.dumbbell("10 Mb/s", [0.1]), RCP(), 5.0)


def test_another_process_does_not_compile(tmp_path):
    simulate(SCENARIO)
    code = (
        "from ecc import Network, Scenario, fluid, models\n"
        "fluid.simulate(Scenario(Network.dumbbell('10 Mb/s', [0.1]), models.RCP(), 5.0))\n"
        "from ecc.fluid import rates, stepping\n"
        "print(sum(stepping.advance.stats.cache_hits.values()), rates.network_rates.cache_hits)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["1", "1"]


def test_a_changed_source_is_compiled_anew(monkeypatch):
    def double(x):
        return 2.0 * x

    for sources, hits in (("a", 0), ("a", 1), ("b", 0)):
        monkeypatch.setattr(compiled, "_sources", lambda sources=sources: f"test {sources}")
        made = compiled.entry(double)
        if not hits:
            made._cache.flush()
        assert made(1.5) == 3.0
        assert sum(made.stats.cache_hits.values()) == hits


def test_runs_in_threads_are_the_same_runs():
    alone = simulate(SCENARIO).rate.to_numpy()
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(simulate, [SCENARIO] * 4))
        called_back = list(
            threads.map(
                lambda _: solve_dde(lambda t, y, ylag: [-ylag[0, 0]], (0.0, 3.0), [1.0], [1.0], jit=False).y, range(4)
            )
        )
    assert all(np.array_equal(run.rate.to_numpy(), alone) for run in runs)
    assert all(np.array_equal(y, called_back[0]) for y in called_back)
