"""Shares of ranges on which orbits are proven, against maps whose orbits are known for all parameters."""

from types import SimpleNamespace

import numpy as np
import pytest

from ecc.contract.forms import RoundMap
from ecc.cycles.orbit_ranges import cover_orbits
from ecc.errors import ConvergenceError
from ecc.linear.box_cover import Axis
from ecc.models.shared.cycles import cycle_of


def logistic(x, p):
    return [p.r * x[0] * (1.0 - x[0])]


def of_logistic(r):
    return RoundMap(logistic, (1.0 - 1.0 / r,), SimpleNamespace(r=r), 1.0)


def rounds_of_flow(w, p):
    """Additive increase in rounds: one packet more, or half if the flight exceeds pipe and buffer."""
    return [0.5 * w[0] if w[0] > p.pipe + p.buffer else w[0] + 1.0]


def of_rounds(pipe, buffer):
    p = SimpleNamespace(pipe=pipe, buffer=buffer)
    states, closed = cycle_of(lambda w: rounds_of_flow(w, p), [pipe], 600, 300, 1e-12)
    if not closed:
        raise ConvergenceError("windows do not repeat")
    return RoundMap(rounds_of_flow, tuple(states[0]), p, 1.0, len(states))


def test_the_range_of_the_logistic_map_ends_at_its_bifurcation():
    cover = cover_orbits(of_logistic, [Axis("r", 2.0, 4.0)], 60)
    edge = np.log(3.0 / 2.0) / np.log(2.0)
    assert cover.stable == pytest.approx(edge, abs=1e-3) and cover.unstable == pytest.approx(1.0 - edge, abs=1e-3)
    assert cover.stable < edge + 1e-12 and cover.unstable < 1.0 - edge + 1e-12
    assert 0.99 < cover.max_multiplier <= 1.0 + 1e-12
    assert cover.at(r=2.9).multipliers_inside is True and cover.at(r=3.1).multipliers_inside is False
    assert all(abs(low - 3.0) < 1e-2 for low, _ in (box["r"] for box in cover.undecided))
    assert "proven stable" in repr(cover)


def test_networks_of_additive_increase_are_proven_up_to_the_edges_of_their_rounds():
    """Windows return after one loss if 2 k - 1 <= pipe + buffer < 2 k, else after several."""
    axes = [Axis("pipe", 6.0, 9.0), Axis("buffer", 4.0, 6.0)]
    cover = cover_orbits(of_rounds, axes, 400)
    assert 0.3 < cover.stable < 1.0 and cover.unstable == 0.0
    assert cover.max_multiplier <= 0.5 + 1e-9
    rng = np.random.default_rng(1)
    hits = 0
    for pipe, buffer in zip(rng.uniform(6.0, 9.0, 200), rng.uniform(4.0, 6.0, 200), strict=True):
        proof = cover.at(pipe=pipe, buffer=buffer)
        if proof is not None:
            hits += 1
            state = [float(pipe)]
            for _ in range(500):
                state = rounds_of_flow(state, SimpleNamespace(pipe=pipe, buffer=buffer))
            visited = set()
            for _ in range(300):
                state = rounds_of_flow(state, SimpleNamespace(pipe=pipe, buffer=buffer))
                visited.add(round(state[0], 9))
            low, high = proof.orbit[0]
            assert any(low - 1e-8 <= w <= high + 1e-8 for w in visited)
    assert hits > 40


def test_axes_must_be_parameters_of_the_law():
    with pytest.raises(ValueError, match="axes must be attributes of the parameters p, got gain"):
        cover_orbits(lambda gain: of_logistic(2.5), [Axis("gain", 1.0, 2.0)])


def test_reasons_are_counted_where_orbits_are_not_found():
    def form(r):
        raise ConvergenceError("no cycle: at 3")

    cover = cover_orbits(form, [Axis("r", 1.0, 2.0)], 3)
    assert cover.stable == 0.0 and cover.reasons == {"no cycle": 3} and len(cover.undecided) == 4
