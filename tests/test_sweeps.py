from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from ecc.closed_loop import steps_of
from ecc.errors import EccError
from ecc.sweeps import sweep

GRID = {"alpha": np.array([0.5, 1.0, 1.5]), "rtt": [0.1, 0.2]}


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


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, lambda n: ProcessPoolExecutor(n, get_context("spawn"))])
def test_same_result_on_any_executor(pool):
    grid = {"delay": [0.1, 0.205, 0.3], "interval": [0.01, 0.02]}
    with pool(2) as executor:
        assert sweep(steps_of, grid, executor=executor).identical(sweep(steps_of, grid))


def test_a_store_goes_on_where_it_ended(tmp_path):
    store = tmp_path / "sweep.jsonl"
    with pytest.raises(
        EccError, match=r"the function failed at 2 of 6 points, first at .*1\.5.*RuntimeError: too much"
    ):
        sweep(failing, GRID, store=store)
    with store.open("a") as file:
        file.write('[{"alpha": 1.5, "rt')  # cut short by a crash
    calls = []

    def rest(alpha, rtt):
        calls.append((alpha, rtt))
        return alpha

    with store.open("a") as file:
        file.write("\n")
    found = sweep(rest, GRID, store=store)
    assert sorted(calls) == [(1.5, 0.1), (1.5, 0.2)]
    assert found["value"].to_numpy().tolist() == [[0.5, 0.5], [1.0, 1.0], [1.5, 1.5]]
    assert sweep(rest, GRID, store=store).identical(found) and len(calls) == 2


@pytest.mark.parametrize("grid", [{}, {"alpha": []}])
def test_empty_grids_are_refused(grid):
    with pytest.raises(ValueError, match="grid must have at least one axis and a value on each"):
        sweep(both, grid)
