"""Systems with a border: counts, crossings and bounds compared with the full matrices."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import with_parameter
from ecc.errors import LinearizationError, UndecidedError
from ecc.linear import DelaySystem, stability_limit
from ecc.linear.affine_family import Affine
from ecc.linear.bordered import Bordered, Entries, dense, partition, unstable_roots
from ecc.linear.bordered_family import BorderedAffine
from ecc.linear.certificate import unstable
from ecc.models import XCP
from ecc.stability import gains


def star(rng: np.random.Generator, blocks: int, block: int, gain: float = 1.0) -> Entries:
    """Return random blocks of states that act on each other through a signal and a queue."""
    n = blocks * block + 1
    queue, signal = n - 1, n
    rows: list[tuple[int, int, float, float]] = []
    share = gain / blocks
    for g in range(blocks):
        first = g * block
        delay = float(rng.uniform(0.1, 1.0))
        for i in range(first, first + block):
            rows.append((i, i, float(rng.uniform(0.0, 0.3)), -float(rng.uniform(0.5, 2.0))))
            if i > first:
                rows.append((i, i - 1, 0.0, float(rng.uniform(-1.0, 1.0))))
                rows.append((i - 1, i, delay, float(rng.uniform(-0.5, 0.5))))
        rows.append((first, signal, delay, -share * float(rng.uniform(0.0, 4.0))))
        rows.append((first, queue, delay, -share * float(rng.uniform(0.0, 2.0))))
        rows.append((signal, first + block - 1, float(rng.uniform(0.0, 0.5)), 1.0))
    rows.append((queue, signal, 0.0, 1.0))
    row, column, lags, value = (np.array(part) for part in zip(*rows, strict=True))
    return Entries(row, column, lags, value, n, 1)


def bordered(entries: Entries) -> Bordered:
    parts = partition(entries)
    assert parts is not None
    return Bordered(entries, parts)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_determinants_are_those_of_the_full_matrices(block: int) -> None:
    entries = star(np.random.default_rng(block), 4, block)
    system, full = bordered(entries), DelaySystem(*dense(entries))
    omega = np.array([0.0, 0.3, 2.0, 11.0])
    nodes = system.at(omega)
    product = np.linalg.det(nodes.value) * nodes.blocks.prod(axis=1)
    expected = full.characteristic(1j * omega)
    np.testing.assert_allclose(product, expected, rtol=1e-11)
    h = 1e-6
    difference = (system.at(omega + h).value - system.at(omega + h * 0.0 - h).value) / (2j * h)
    np.testing.assert_allclose(nodes.slope, difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("block", [1, 2, 3])
def test_counts_are_those_of_the_full_matrices(seed: int, block: int) -> None:
    entries = star(np.random.default_rng(100 * block + seed), 5, block, gain=0.5 * 2.0**seed)
    full = DelaySystem(*dense(entries))
    expected = sum(number * unstable(part.characteristic_matrix) for part, number in full.blocks)
    assert unstable_roots(bordered(entries)) == expected


def test_counts_include_unstable_blocks() -> None:
    entries = star(np.random.default_rng(5), 6, 1)
    grows = (entries.row == 2) & (entries.column == 2)
    entries = entries._replace(value=np.where(grows, 0.4, entries.value))
    full = DelaySystem(*dense(entries))
    expected = sum(number * unstable(part.characteristic_matrix) for part, number in full.blocks)
    assert unstable_roots(bordered(entries)) == expected > 0


def test_bounds_hold_for_all_derivatives_on_a_piece() -> None:
    system = bordered(star(np.random.default_rng(2), 5, 2))
    low, length = 0.7, 0.02
    ends = system.at(np.array([low])), system.at(np.array([low + length]))
    bound = system.derivatives(*ends, np.array([low + length]), np.array([length]))[:, 0]
    points = np.linspace(low, low + length, 9)
    fit = np.polynomial.chebyshev.Chebyshev.fit
    values = system.at(points).value
    for i, j in np.ndindex(*values.shape[1:]):
        for part in (values[:, i, j].real, values[:, i, j].imag):
            curve = fit(points, part, 6)
            for order in range(3):
                largest = np.abs(curve.deriv(order)(points) if order else curve(points)).max()
                assert largest <= bound[order, i, j] + 1e-7  # of the numerical derivative


def test_a_root_on_the_boundary_is_undecided() -> None:
    entries = star(np.random.default_rng(0), 5, 1)
    stays = (entries.row == 1) & (entries.column == 1)
    with pytest.raises(UndecidedError, match=r"too close to the stability boundary, near (0|\S+e-1\d) rad"):
        unstable_roots(bordered(entries._replace(value=np.where(stays, 0.0, entries.value))))


def test_a_count_ends_within_its_effort() -> None:
    with pytest.raises(UndecidedError, match="allowed number of evaluations"):
        unstable_roots(bordered(star(np.random.default_rng(0), 5, 1)), work=100.0)


def test_dense_couplings_have_no_border() -> None:
    row, column = np.indices((20, 20)).reshape(2, -1)
    value = np.random.default_rng(0).normal(size=400)
    assert partition(Entries(row, column, np.zeros(400), value, 20, 0)) is None


@pytest.mark.parametrize("seed", range(4))
def test_crossings_are_those_of_the_full_matrices(seed: int) -> None:
    rng = np.random.default_rng(40 + seed)
    entries = star(rng, 10, 1)
    through = entries.column == entries.n_states  # the column of the signal

    def member(gain: float) -> Entries:
        return entries._replace(value=np.where(through, gain * entries.value, entries.value))

    limit = stability_limit(lambda g: DelaySystem._of_entries(member(g), opened=None), maximum=60.0)
    full = stability_limit(lambda g: _plain(member(g)), maximum=limit.searched_to)
    assert len(limit.crossings) > 0
    assert limit.complete_to == limit.searched_to
    known = [c for c in full.crossings if c.gain <= limit.searched_to]
    assert len(known) == len(limit.crossings)
    for ours, theirs in zip(limit.crossings, known, strict=True):
        assert ours.gain == pytest.approx(theirs.gain, rel=1e-9)
        assert ours.frequency == pytest.approx(theirs.frequency, rel=1e-9)
        assert ours.change == theirs.change


def _plain(entries: Entries) -> DelaySystem:
    """Return a system that has a neutral term of a size that matters to no root, and thus no border."""
    matrices, delays = dense(entries)
    system = DelaySystem(matrices, delays)
    system.__dict__["_bordered"] = system.__dict__["_entries"] = None
    return system


def test_a_gain_in_two_columns_is_not_affine() -> None:
    entries = star(np.random.default_rng(1), 10, 1)
    through = entries.column >= entries.n_states - 1
    members = [entries._replace(value=np.where(through, g * entries.value, entries.value)) for g in (0.25, 0.5, 1.0)]
    assert BorderedAffine.detect(members, 1.0) is None


def test_xcp_with_ten_rtts_agrees_with_the_full_matrices() -> None:
    network = ecc.Network.dumbbell("1 Gb/s", np.linspace(0.02, 0.2, 10).tolist())
    limit = gains.critical_gain(XCP(), network, "alpha", maximum=4.0)
    members = [ecc.linearize(with_parameter(XCP(), "alpha", g), network).terms() for g in (0.25, 0.5, 1.0)]
    affine = Affine.detect(members, 1.0)
    assert affine is not None
    expected = affine.up_to(limit.searched_to)
    assert [c.gain for c in limit.crossings] == pytest.approx([c.gain for c in expected], rel=1e-10)
    assert limit.complete_to == limit.searched_to > limit.crossings[0].gain


def test_a_thousand_rtts_need_no_full_matrices() -> None:
    network = ecc.Network.dumbbell("1 Gb/s", np.linspace(0.02, 0.2, 1000).tolist())
    system = ecc.linearize(XCP(), network)
    assert system.size == 1001
    assert system.verdict == "stable"
    assert "matrices" not in system.__dict__
    with pytest.raises(LinearizationError, match="matrices of 1001 states, one for each delay, would take .* GB"):
        system.roots(1)
    assert repr(system).startswith("<DelaySystem states: 1001, signals: 1, delays of entries: 0 s to 200 ms>")
    analysis = ecc.stability.analyze(XCP(), network, times=["continuous"])
    (model,) = analysis.models
    assert model.verdict == "stable" and model.interval is not None and model.margins is None
    assert any(note.startswith("no margins: the matrices of 1001 states") for note in model.notes)
    limit = gains.critical_gain(XCP(), network, "alpha")
    assert limit.complete_to == limit.searched_to
    (crossing,) = limit.crossings
    assert crossing.gain == pytest.approx(0.2537, rel=1e-3)
    below, above = (ecc.linearize(with_parameter(XCP(), "alpha", g), network).verdict for g in (0.2536, 0.2538))
    assert (below, above) == ("unstable", "stable")
