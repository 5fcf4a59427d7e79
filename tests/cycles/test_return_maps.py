"""Multipliers of maps that are known by runs only."""

import numpy as np
import pytest

from ecc.cycles.return_maps import period_of, return_map

SLOW, FAST = 0.8, 0.1


def responds(matrix, hidden=None, delay=2):
    """Return the response of a linear map around (1, 1), with a memory that a run shows only in part."""
    size = len(matrix)

    def respond(entry, e):
        state = np.zeros(size if hidden is None else hidden)
        state[entry] = e
        rows = []
        for _ in range(delay + 1):
            state = matrix @ state
            rows.append(1.0 + state)
        return np.array(rows[delay - 1 :])

    return respond


def test_a_linear_map_has_its_eigenvalues():
    basis = np.array([[1.0, 1.0], [0.5, -1.0]])
    matrix = basis @ np.diag([SLOW, -0.6]) @ np.linalg.inv(basis)
    found = return_map(responds(matrix), np.ones(2))
    assert found.multipliers == pytest.approx([SLOW, -0.6], abs=1e-9)
    assert (found.along, found.jumps) == (0, ())
    assert found.error < 1e-9


def test_forgotten_directions_are_zero_and_neutral_ones_are_counted():
    found = return_map(responds(np.diag([1.0, SLOW, FAST])), np.ones(3))
    assert found.along == 1
    assert found.multipliers == pytest.approx([SLOW, 0.0], abs=1e-9)  # 0.1^2 of a change is left, less than 5 %


def test_a_jump_in_one_direction_is_named():
    def respond(entry, e):
        memory = np.array([1.0 + 0.5 * e, 1.0]) if entry == 0 else np.array([1.0, 1.0 + 0.5 * e])
        return np.array([memory + (0.7 if entry == 1 and e > 0.0 else 0.0)] * 2)

    found = return_map(respond, np.ones(2))
    assert found.jumps == (1,)


def test_a_bound_that_is_not_set_has_no_multiplier():
    found = return_map(responds(np.diag([SLOW, SLOW])), np.array([1.0, 1e300]))
    assert found.multipliers == pytest.approx([SLOW, 0.0], abs=1e-9)


@pytest.mark.parametrize(("cycle", "period"), [([3.0], 1), ([1.0, 2.0], 2), ([1.0, 2.0, 4.0], 3)])
def test_the_period_is_the_shortest_one_in_which_memories_return(cycle, period):
    memories = np.array([[value, 1e300] for value in cycle * 4])
    assert period_of(memories, 1e-6) == period


def test_memories_that_drift_do_not_return():
    assert period_of(np.arange(1.0, 13.0)[:, None], 1e-3) == 0
