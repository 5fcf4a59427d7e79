"""Systems with a border: counts, crossings and bounds compared with the full matrices."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import with_parameter
from ecc.errors import LinearizationError, UndecidedError
from ecc.linear import DelaySystem, stability_limit
from ecc.linear.affine_family import Affine
from ecc.linear.bordered import Bordered, Entries, dense, partition, unstable_roots
from ecc.linear.bordered_family import BorderedAffine
from ecc.linear.bordered_loop import bordered_loop
from ecc.linear.certificate import unstable
from ecc.linear.frequency_response import settled_beyond
from ecc.linear.loci import return_ratio
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


def test_couplings_that_are_in_no_cycle_take_no_effort() -> None:
    """In block 0, state 1 acts on state 0 alone, and nothing acts on state 1: det P does not depend on this action."""
    entries = star(np.random.default_rng(1), 5, 2)
    is_cut = (entries.column == 1) & (entries.row != 0) & (entries.row != 1)
    is_cut |= (entries.row == 1) & (entries.column != 1)
    tops, counts = [], []
    for coupling in (0.0, 1.0, 1e9):
        value = np.where(is_cut, 0.0, entries.value)
        value[(entries.row == 0) & (entries.column == 1)] = coupling
        system = bordered(entries._replace(value=value))
        tops.append(system.top)
        counts.append(unstable_roots(system))
    assert tops[1:] == [tops[0]] * 2 and counts[1:] == [counts[0]] * 2


@pytest.mark.parametrize("block", [1, 2])
def test_couplings_that_are_in_no_cycle_are_left_out(block: int) -> None:
    """The signal acts on state 0, but no other state reads it."""
    entries = star(np.random.default_rng(3), 5, block)
    is_read = (entries.column == 0) & (entries.row != 0)
    driven = (entries.row == 0) & (entries.column == entries.n_states)
    entries = entries._replace(value=np.where(is_read, 0.0, np.where(driven, 1e9, entries.value)))
    kept = bordered(entries).entries.value
    assert driven.any() and not kept[driven].any()
    inside = (entries.row > 0) & (entries.column > 0) & (entries.value != 0.0)
    assert kept[inside].any()


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


@pytest.mark.slow
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
    assert model.verdict == "stable" and model.interval is not None and model.margins is not None
    coarse = ecc.linearize(XCP(), ecc.Network.dumbbell("1 Gb/s", np.linspace(0.02, 0.2, 500).tolist())).margins()
    assert model.margins.gain_margin == pytest.approx(coarse.gain_margin, rel=1e-3)
    assert model.margins.phase_margin == pytest.approx(coarse.phase_margin, rel=1e-3)
    limit = gains.critical_gain(XCP(), network, "alpha")
    assert limit.complete_to == limit.searched_to
    (crossing,) = limit.crossings
    assert crossing.gain == pytest.approx(0.2537, rel=1e-3)
    below, above = (ecc.linearize(with_parameter(XCP(), "alpha", g), network).verdict for g in (0.2536, 0.2538))
    assert (below, above) == ("unstable", "stable")


def _opened_at_routers(entries: Entries) -> Entries:
    """Return a star whose blocks do not receive the queue, and half of the signal."""
    n = entries.n_states
    to_flows = entries.row < n - 1
    share = np.where(entries.column == n, 0.5, np.where(entries.column == n - 1, 0.0, 1.0))
    return entries._replace(value=entries.value * np.where(to_flows, share, 1.0))


def _with_full_matrices(closed: Entries, opened: Entries) -> DelaySystem:
    system = DelaySystem(*dense(closed), opened=DelaySystem(*dense(opened)))
    system.__dict__["_entries"] = None
    return system


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block", [1, 2])
def test_margins_are_those_of_the_full_matrices(seed: int, block: int) -> None:
    """Flows with different delays respond to one sum of signal and queue: a single loop in two columns."""
    entries = star(np.random.default_rng(70 * block + seed), 10 // block, block, gain=0.7)
    n = entries.n_states
    for row in np.unique(entries.row[entries.column == n]).tolist():
        to_queue = (entries.row == row) & (entries.column == n - 1)
        to_signal = (entries.row == row) & (entries.column == n)
        entries.value[to_queue] = 0.3 * entries.value[to_signal]
    opened = _opened_at_routers(entries)
    opened.value[(opened.row < n - 1) & (opened.column == n)] = 0.0
    system = DelaySystem._of_entries(entries, opened=DelaySystem._of_entries(opened, opened=None))
    ours, full = system.margins(), _with_full_matrices(entries, opened).margins()
    assert isfinite(full.gain_margin)
    for name in ("gain_margin", "gain_reduction", "phase_margin", "delay_margin", "modulus_margin", "gain_frequency"):
        assert getattr(ours, name) == pytest.approx(getattr(full, name), rel=1e-8), name
    pair = bordered_loop(opened, entries)
    assert pair is not None
    omega = np.array([0.2, 1.7, 9.0])
    f0, _, f1, _ = pair.at(omega)
    np.testing.assert_allclose(f1 / f0, system.open_loop(1j * omega), rtol=1e-9)


@pytest.mark.parametrize("level", [1.0, 0.05])
def test_no_loop_gain_exceeds_its_bound(level: float) -> None:
    entries = star(np.random.default_rng(3), 9, 1)
    opened = _opened_at_routers(entries)
    pair = bordered_loop(opened, entries)
    assert pair is not None
    top = settled_beyond(pair, level)
    f0, _, f1, _ = pair.at(top * np.geomspace(1.0, 1e3, 4000))
    assert np.abs(f1 / f0).max() < level
    assert not pair.is_below(level, 1e-3 * top)


def test_loops_that_act_on_each_other_are_counted() -> None:
    """Two stars, the flows of each of which pass the link of the other."""
    stars = [star(np.random.default_rng(seed), 5, 1, gain=0.4) for seed in (8, 9)]
    n = stars[0].n_states
    parts = []
    for number, part in enumerate(stars):
        place = np.append(np.arange(n) + number * n, 2 * n + number)
        parts.append((place[part.row], place[part.column], part.delay, part.value))
        parts.append((np.array([2 * n + 1 - number]), np.array([number * n]), np.array([0.2]), np.array([0.5])))
    row, column, delay, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    closed = Entries(row, column, delay, value, 2 * n, 2)
    opened = closed._replace(value=np.where(column >= 2 * n, 0.0, value))
    pair = bordered_loop(opened, closed)
    assert pair is not None
    assert pair.number == 2
    system = DelaySystem._of_entries(closed, opened=DelaySystem._of_entries(opened, opened=None))
    eigenvalues = np.sort_complex(np.linalg.eigvals(pair.ratio(np.array([1.3])))[0])
    expected = np.linalg.eigvals(return_ratio(system, 1.3j))
    largest = expected[np.argsort(-np.abs(expected))[:2]]
    np.testing.assert_allclose(eigenvalues, np.sort_complex(largest), rtol=1e-9)


def test_margins_of_many_rtts_are_where_gains_end() -> None:
    network = ecc.Network.dumbbell("1 Gb/s", np.linspace(0.02, 0.2, 12).tolist())
    system = ecc.linearize(XCP(), network)
    margins = system.margins()
    assert margins.gain_reduction == 0.0
    for share, stable in ((0.999, True), (1.001, False)):
        moved = system.with_gain(share * margins.gain_margin)
        assert moved.is_stable is stable


@pytest.mark.slow
def test_margins_of_a_chain_of_two_links_are_the_worst_of_each() -> None:
    """Flows of the first link pass the second, which limits others: one group of states acts on the other."""
    links = [ecc.Link("1 Gb/s", "5 ms"), ecc.Link("0.8 Gb/s", "5 ms")]
    flows = [ecc.Flow(route, access_delay=0.01 + 0.01 * i) for i in range(4) for route in ([0], [1], [0, 1])]
    system = ecc.linearize(XCP(), ecc.Network(links, flows))
    ours = system.margins()
    plain = DelaySystem(system.matrices, system.delays, opened=DelaySystem(*_matrices(system.opened)))
    plain.__dict__["_entries"] = None
    full = plain.margins()
    assert len(ours.loops) == len(full.loops) == 2
    for a, b in zip(ours.loops, full.loops, strict=True):
        assert a.gain_margin == pytest.approx(b.gain_margin, rel=1e-9)
        assert a.delay_margin == pytest.approx(b.delay_margin, rel=1e-9)


def _matrices(system: DelaySystem | None) -> tuple[np.ndarray, np.ndarray]:
    assert system is not None
    return system.matrices, system.delays
