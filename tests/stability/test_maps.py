"""Maps: exact values and certified verdicts at points drawn at random, for every protocol and kind of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ecc import Network
from ecc.linear import root_grid
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP
from ecc.stability import critical_gain, maps, stability_map

TWO = Network.dumbbell("1 Gb/s", [0.05, 0.12])
CASES = {
    "gain and filter": (PIQIRCP(), TWO, {"alpha": np.linspace(0.02, 4.0, 15), "tau1": np.linspace(0.005, 1.6, 13)}),
    "two gains": (RCP(), TWO, {"alpha": np.linspace(0.02, 2.0, 11), "beta": np.linspace(0.0, 1.0, 12)}),
    "delays that change": (
        QIRCP(),
        TWO,
        {"interval": np.linspace(0.004, 0.06, 10), "alpha": np.linspace(0.1, 4.0, 11)},
    ),
    "two links": (
        PIQIRCP(),
        Network.parking_lot(["10 Mb/s", "8 Mb/s"], delay="20 ms"),
        {"alpha": np.linspace(0.05, 3.0, 9), "tau2": np.linspace(0.0, 0.9, 8)},
    ),
}


def agrees(protocol, network, map_, time, points, seed=0):
    """Compare values with the root search and verdicts with the certificate; return the unstable share of points."""
    rng = np.random.default_rng(seed)
    unstable = 0
    for _ in range(points):
        at = {name: int(rng.integers(size)) for name, size in map_.sizes.items()}
        here = map_.isel(at)
        system = linearize(replace(protocol, **{name: float(here[name]) for name in map_.dims}), network, time)
        value, boundary = float(here), 0.0 if time == "continuous" else 1.0
        proof = system.certify()
        if proof.stable is None:  # a root on the boundary up to the last bits, such as z = -1
            assert value == pytest.approx(boundary, abs=1e-12)
        else:
            assert (value < boundary) == proof.stable, at
        truth = system.spectral_abscissa if time == "continuous" else system.spectral_radius
        assert value == pytest.approx(truth, rel=1e-9, abs=1e-9), at
        unstable += proof.stable is False
    return unstable / points


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete", "hybrid"])
@pytest.mark.parametrize("name", CASES)
def test_every_point_has_the_certified_verdict(name, time):
    protocol, network, grid = CASES[name]
    map_ = stability_map(protocol, network, grid, time=time)
    assert map_.dims == tuple(grid)
    assert np.isfinite(map_).all()
    assert 0.0 < agrees(protocol, network, map_, time, 10) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete", "hybrid"])
@pytest.mark.parametrize("name", CASES)
def test_many_points_of_fine_maps(name, time):
    protocol, network, grid = CASES[name]
    fine = {key: np.linspace(values[0], values[-1], 300 if key != "interval" else 40) for key, values in grid.items()}
    agrees(protocol, network, stability_map(protocol, network, fine, time=time), time, 120, seed=1)


def test_closed_form_along_a_row():
    """QI-RCP with one RTT of D steps: stable below 2 D sin(pi/(2 (2 D - 1)))."""
    edge = 20.0 * np.sin(np.pi / 38.0)
    alpha = edge * np.array([0.5, 0.999, 1.0 - 1e-9, 1.0 + 1e-9, 1.001])
    map_ = stability_map(QIRCP(), Network.dumbbell("1 Gb/s", [0.1]), {"alpha": alpha}, time="discrete")
    assert (map_ < 1.0).values.tolist() == [True, True, True, False, False]
    assert map_.name == "spectral_radius"
    assert map_.sizes == {"alpha": 5}


@pytest.mark.slow
def test_the_boundary_is_that_of_critical_gain():
    tau1 = np.linspace(0.01, 1.2, 4)
    edges = [critical_gain(PIQIRCP(tau1=value), TWO, "alpha", "discrete").value for value in tau1]
    alpha = np.sort(np.outer(edges, [0.999, 1.001]).ravel())
    map_ = stability_map(PIQIRCP(), TWO, {"alpha": alpha, "tau1": tau1}, time="discrete")
    for value, edge in zip(tau1, edges, strict=True):
        assert (map_.sel(tau1=value) < 1.0).values.tolist() == (alpha < edge).tolist()


def test_a_double_root_inside_the_map():
    """x' = -k x(t - 1): two real roots meet at k = 1/e and leave as a pair."""
    k = np.linspace(0.9, 1.1, 101) * np.exp(-1.0)
    map_ = stability_map(QIRCP(), Network.dumbbell("1 Gb/s", [1.0]), {"alpha": k}, time="continuous")
    assert float(map_.min()) == pytest.approx(-1.0, abs=1e-6)
    assert int(np.argmin(map_.values)) == 50
    agrees(QIRCP(), Network.dumbbell("1 Gb/s", [1.0]), map_[::7], "continuous", 15)


def test_one_point_and_descending_grids():
    grid = {"alpha": [1.0, 0.5], "tau1": [0.3]}
    down = stability_map(PIQIRCP(), TWO, grid, time="hybrid")
    up = stability_map(PIQIRCP(), TWO, {"alpha": [0.5, 1.0], "tau1": [0.3]}, time="hybrid")
    np.testing.assert_allclose(down.values[::-1], up.values, rtol=1e-12)
    assert down.coords["alpha"].values.tolist() == [1.0, 0.5]


def test_neutral_reductions_are_solved_point_by_point():
    grid = {"alpha": [0.2, 3.0], "tau1": [0.3, 0.6]}
    map_ = stability_map(PIQIRCP(), TWO, grid, time="continuous", approximation="4.64")
    system = linearize(PIQIRCP(alpha=3.0, tau1=0.3), TWO, "continuous", approximation="4.64")
    assert float(map_[1, 0]) == pytest.approx(system.spectral_abscissa)


def test_what_does_not_separate_is_tabulated_with_the_same_result(monkeypatch):
    grid = {"alpha": np.linspace(0.1, 3.0, 12), "tau1": np.linspace(0.1, 1.0, 8)}
    separated = stability_map(PIQIRCP(), TWO, grid, time="discrete")
    monkeypatch.setattr(maps, "_MAX_FUNCTIONS", 1)
    np.testing.assert_allclose(stability_map(PIQIRCP(), TWO, grid, time="discrete"), separated, rtol=1e-11)


def test_attributes_name_what_was_asked():
    map_ = stability_map(PIQIRCP(tau2=0.2), TWO, {"alpha": [0.5]}, time="discrete")
    assert map_.attrs["protocol"] == "PIQIRCP"
    assert map_.attrs["parameters"] == {"tau2": 0.2}
    assert map_.attrs["time"] == "discrete"
    np.testing.assert_allclose(Network.from_dict(map_.attrs["network"]).rtts, TWO.rtts)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"kappa": [1.0]}, "parameter must be one of alpha, .*, got 'kappa'"),
        ({}, "grid must have one or two parameters, got 0"),
        ({"alpha": [1.0], "tau1": [0.1], "tau2": [0.1]}, "grid must have one or two parameters, got 3"),
        ({"alpha": []}, r"grid of alpha must be a nonempty list of numbers, got \[\]"),
        ({"alpha": [[1.0]]}, "grid of alpha must be a nonempty list of numbers"),
        ({"alpha": ["a"]}, "grid of alpha must be a nonempty list of numbers"),
        ({"alpha": [1.0, np.nan]}, "grid of alpha must be finite, got nan"),
        ({"tau1": [0.5, 2.5]}, "tau1 must be > 0 and < 2, got 2.5"),
    ],
)
def test_bad_grids_are_refused_in_one_line(grid, message):
    with pytest.raises(ValueError, match=message):
        stability_map(PIQIRCP(), TWO, grid, time="discrete")


def test_threads_must_be_some_and_do_not_change_the_result():
    grid = {"alpha": np.linspace(0.1, 3.0, 16), "tau1": np.linspace(0.1, 1.0, 12)}
    with pytest.raises(ValueError, match="executor must be >= 1, got 0"):
        stability_map(PIQIRCP(), TWO, grid, executor=0)
    one, three = (stability_map(PIQIRCP(), TWO, grid, time="discrete", executor=n) for n in (1, 3))
    assert np.array_equal(one, three)


@pytest.mark.slow
def test_a_root_that_overtakes_between_the_seeds_is_not_missed(monkeypatch):
    """With no more than one pair of starts carried, the count must still ask for what is missing."""
    monkeypatch.setattr(root_grid, "_CARRIED", 2)
    grid = {"alpha": np.linspace(0.05, 4.0, 7), "tau1": np.linspace(0.005, 1.6, 7)}
    map_ = stability_map(PIQIRCP(), TWO, grid, time="discrete")
    agrees(PIQIRCP(), TWO, map_, "discrete", 10)
