"""Proofs of periodic orbits: maps with known orbits and multipliers, maps of protocols, and cases without a proof."""

from math import cbrt, inf
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ecc
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.orbit_proofs import prove_orbit, prove_rounds, with_proof
from ecc.laws.elementary import exp, log

# ---- maps ------------------------------------------------------------------------------------------------------------


def logistic(x, r):
    return [r * x[0] * (1.0 - x[0])]


def tent(x, slope):
    return [slope * min(x[0], 1.0 - x[0])]


def crossing_flows(w, p):
    """Windows after flows have grown alike until they fill pipe and buffer, and have all halved."""
    grown = (p.limit - sum(w)) / len(w)
    return [0.5 * (x + grown) for x in w]


def rounds_of_flows(w, p):
    """Windows after a round: one packet more, or half if the flight exceeds pipe and buffer."""
    return [0.5 * x for x in w] if sum(w) > p.limit else [x + 1.0 for x in w]


def cubic_flow(state, p):
    """CUBIC in rounds: the window at the last loss, and the rounds since then."""
    w_max, n = state
    origin = exp(log(w_max * (1.0 - p.beta) / p.C) / 3.0)
    offset = (n + 1) * p.rtt - origin
    w = p.C * offset * offset * offset + w_max
    return [w, 0] if w > p.limit else [w_max, n + 1]


def near_one(x, p):
    """A map with the fixed point 1 and the multiplier 1 + distance there."""
    d = x[0] - 1.0
    return [1.0 + d + p.distance * d + p.bend * d * d * d]


def turned(x, p):
    """A map of several numbers with a fixed point, and the eigenvalues of a matrix there, next to terms of degree 2."""
    d = [a - c for a, c in zip(x, p.center, strict=True)]
    return [
        c + sum(slope * b for slope, b in zip(row, d, strict=True)) + p.bend * d[0] * d[-1]
        for c, row in zip(p.center, p.rows, strict=True)
    ]


def contains(box, point):
    return all(low <= x <= high for (low, high), x in zip(box, point, strict=True))


# ---- known answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("r", "start", "rounds", "multiplier"),
    [
        (2.5, 0.61, 1, -0.5),
        (3.2, 0.68, 1, -1.2),
        (3.2, 0.513, 2, 0.16),
        (3.5, 0.5009, 4, -0.0299),
        (4.0, 0.188, 3, 8.0),
    ],
)
def test_cycles_of_the_logistic_map(r, start, rounds, multiplier):
    proof = prove_orbit(logistic, [start], r, rounds)
    assert proof.exists and proof.multipliers_inside is (abs(multiplier) < 1.0)
    assert proof.multipliers[0] == pytest.approx(multiplier, abs=1e-3) and proof.errors[0] < 1e-12
    (low, high), (inner_low, inner_high) = proof.box[0], proof.orbit[0]
    assert low < inner_low < inner_high < high and inner_high - inner_low < 1e-12
    assert 0.0 < proof.lower < abs(proof.multipliers[0]) < proof.upper < proof.lower + 1e-12
    if rounds == 1:
        assert inner_low <= 1.0 - 1.0 / r <= inner_high
    if rounds == 2:
        expected = (r + 1.0 - np.sqrt((r - 3.0) * (r + 1.0))) / (2.0 * r)
        assert abs(expected - inner_low) < 1e-12
        assert proof.contraction < 1.0


def test_a_cycle_of_the_tent_map():
    assert prove_orbit(tent, [0.6], 1.5).multipliers_inside is False
    stable = prove_orbit(tent, [0.01], 0.8)
    assert stable.multipliers_inside is True and contains(stable.box, [0.0])
    steep = prove_orbit(tent, [0.3], 1.8, rounds=2)
    assert steep.multipliers[0] == pytest.approx(-3.24) and not steep.corners


@pytest.mark.parametrize("distance", [1e-9, -1e-9])
def test_multipliers_next_to_1_are_decided(distance):
    proof = prove_orbit(near_one, [1.0 + 1e-7], SimpleNamespace(distance=distance, bend=0.0))
    assert proof.exists and proof.multipliers_inside is (distance < 0.0)
    assert contains(proof.box, [1.0])
    bent = prove_orbit(near_one, [1.0 + 1e-7], SimpleNamespace(distance=distance, bend=0.25))
    assert bent.exists and bent.multipliers_inside is not None


def test_multipliers_on_the_unit_circle_are_undecided():
    for bend in (1.0, -1.0):
        proof = prove_orbit(near_one, [1.0], SimpleNamespace(distance=0.0, bend=bend))
        assert not proof.is_proven and "multiplier" in proof.reason
    flip = prove_orbit(logistic, [2.0 / 3.0], 3.0)
    assert flip.exists and flip.multipliers_inside is None and "unit circle" in flip.reason
    circle = SimpleNamespace(center=[0.5, 0.25], rows=[[0.6, -0.8], [0.8, 0.6]], bend=0.1)
    assert prove_orbit(turned, [0.5, 0.25], circle).multipliers_inside is not True  # 0.6^2 + 0.8^2 is not 1 in doubles


def test_a_state_that_is_unchanged_only_up_to_first_order_is_not_a_parameter():
    for bend in (1e-9, -1e-9, 1.0):
        proof = prove_orbit(lambda x, p: [x[0] + p * x[0] * x[0]], [0.0], bend)
        assert not proof.is_proven and proof.along == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6), st.floats(-0.5, 0.5))
def test_verdicts_on_maps_with_known_multipliers(n, seed, bend):
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1.3, 1.3, n)
    basis = rng.normal(size=(n, n)) + 2.0 * np.eye(n)
    rows = basis @ np.diag(values) @ np.linalg.inv(basis)
    center = rng.uniform(-2.0, 2.0, n)
    p = SimpleNamespace(center=center.tolist(), rows=rows.tolist(), bend=bend)
    proof = prove_orbit(turned, (center + 1e-9).tolist(), p)
    known = np.abs(np.linalg.eigvals(rows)).max()
    if abs(known - 1.0) > 1e-9 and proof.multipliers_inside is not None:
        assert proof.multipliers_inside is bool(known < 1.0)
    if np.linalg.cond(basis) < 1e4 and np.abs(np.abs(values) - 1.0).min() > 1e-6:
        assert proof.is_proven and contains(proof.box, center)


# ---- flows that share a link -----------------------------------------------------------------------------------------


def test_additive_increase_over_a_full_buffer():
    """One flow returns to the same window: dead beat. Differences of two flows halve."""
    p = SimpleNamespace(limit=100.0)
    alone = prove_orbit(crossing_flows, [49.0], p)
    assert alone.dead_beat or alone.multipliers[0] == pytest.approx(0.0)
    assert alone.multipliers_inside is True and contains(alone.orbit, [50.0])
    two = prove_orbit(crossing_flows, [20.0, 30.0], p)
    assert two.multipliers == pytest.approx([0.5, 0.0]) and two.multipliers_inside is True
    assert contains(two.orbit, [25.0, 25.0])


@pytest.mark.parametrize(("limit", "increases"), [(19.5, 10), (99.5, 50), (499.25, 250)])
def test_additive_increase_in_rounds(limit, increases):
    """With k increases from k to 2 k the window returns, if limit is between 2 k - 1 and 2 k: multiplier 1/2."""
    proof = prove_orbit(rounds_of_flows, [float(increases)], SimpleNamespace(limit=limit), increases + 1)
    assert proof.multipliers_inside is True and proof.multipliers[0] == 0.5 and contains(proof.orbit, [increases])
    assert proof.box[0][1] - proof.box[0][0] > 1e-3
    tied = prove_orbit(rounds_of_flows, [float(increases)], SimpleNamespace(limit=2.0 * increases - 1.0), increases + 1)
    assert not tied.exists and "comparison in rounds_of_flows" in tied.reason


def test_orbits_are_proven_over_a_box_of_parameters():
    box = {"limit": (19.1, 19.9)}
    proof = prove_orbit(rounds_of_flows, [10.0], SimpleNamespace(limit=19.5), 11, box=box)
    assert proof.multipliers_inside is True
    across = prove_orbit(rounds_of_flows, [10.0], SimpleNamespace(limit=19.5), 11, box={"limit": (18.9, 19.5)})
    assert not across.exists and "comparison" in across.reason
    wide = prove_orbit(crossing_flows, [25.0, 25.0], SimpleNamespace(limit=100.0), box={"limit": (60.0, 140.0)})
    assert wide.multipliers_inside is True
    assert all(low <= 15.0 and high >= 35.0 for low, high in wide.orbit)


@settings(max_examples=25, deadline=None)
@given(st.floats(2.2, 2.9), st.floats(1e-6, 5e-3))
def test_proofs_over_boxes_hold_for_each_parameter(r, width):
    def law(x, p):
        return [p.r * x[0] * (1.0 - x[0])]

    proof = prove_orbit(law, [1.0 - 1.0 / r], SimpleNamespace(r=r), box={"r": (r - width, r + width)})
    assert proof.multipliers_inside is True
    for value in (r - width, r, r + width):
        assert contains(proof.orbit, [1.0 - 1.0 / value])
        assert abs(2.0 - value - proof.multipliers[0].real) <= proof.errors[0] + 1e-12


def test_a_cubic_window_in_rounds_has_a_multiplier_that_is_exactly_1():
    """The window returns if its plateau K is a whole number of rounds; there its slope with respect to K is 0."""
    p = SimpleNamespace(C=0.4, beta=0.7, rtt=0.5, limit=121.5)
    rounds = 9
    w_max = p.C * (rounds * p.rtt) ** 3 / (1.0 - p.beta)
    assert cubic_flow([w_max, rounds - 1], SimpleNamespace(**vars(p) | {"limit": w_max - 1e-3}))[1] == 0
    proof = prove_orbit(cubic_flow, [w_max, 0], SimpleNamespace(**vars(p) | {"limit": w_max - 1e-3}), rounds)
    assert not proof.is_proven and "multiplier" in proof.reason


def test_a_cubic_window_with_a_marginal_decrease_of_its_target():
    """W' = shrink [C (n D - K)^3 + W], K = (W (1 - beta)/C)^(1/3): with n fixed, the slope is known."""

    def law(x, p):
        offset = p.n * p.rtt - exp(log(x[0] * (1.0 - p.beta) / p.C) / 3.0)
        return [p.shrink * (p.C * offset * offset * offset + x[0])]

    p = SimpleNamespace(C=0.4, beta=0.7, rtt=0.5, n=11, shrink=0.95)
    w = 120.0
    for _ in range(3000):
        w = law([w], p)[0]
    K = cbrt(w * (1.0 - p.beta) / p.C)
    proof = prove_orbit(law, [w], p)
    assert proof.multipliers_inside is True
    expected = p.shrink * (1.0 - p.C * (p.n * p.rtt - K) ** 2 * K / w)
    assert proof.multipliers[0].real == pytest.approx(expected, abs=1e-9)


# ---- corners, jumps and discrete states ------------------------------------------------------------------------------


def test_an_orbit_on_a_corner_is_proven_only_if_both_sides_contract():
    def corner(x, p):
        return [max(1.0 + p.up * (x[0] - 1.0), 1.0 - p.down * (x[0] - 1.0))]

    proof = prove_orbit(corner, [1.0], SimpleNamespace(up=0.5, down=0.7))
    assert proof.multipliers_inside is True and len(proof.corners) == 1 and proof.contraction >= 0.7
    steep = prove_orbit(corner, [1.0], SimpleNamespace(up=0.5, down=1.7))
    assert steep.multipliers_inside is None and "corner of corner (test_orbit_proofs.py" in steep.reason


def test_an_orbit_on_a_jump_is_undecided():
    def jump(x, p):
        return [0.5 * x[0] + (0.5 if x[0] < 1.0 else 0.5)]

    proof = prove_orbit(jump, [1.0])
    assert not proof.exists and "comparison in jump" in proof.reason
    assert "not proven: the comparison" in with_proof(_cycle(), proof).notes[0]


def test_discrete_states_must_return():
    def alternates(x, p):
        return [0.5 * x[0] + x[1], 1 - x[1]]

    none = prove_orbit(alternates, [0.5, 0])
    assert "state 1 is 1 instead of 0" in none.reason and (none.lower, none.upper) == (0.0, inf)
    proof = prove_orbit(alternates, [0.6, 0], rounds=2)
    assert proof.multipliers == pytest.approx([0.25]) and proof.box[1] == (0.0, 0.0)


def test_constant_states_are_parameters_of_a_family():
    def law(x, p):
        return [0.5 * x[0] + x[1], x[1]]

    proof = prove_orbit(law, [1.9, 1.0])
    assert proof.multipliers_inside is True and proof.along == 1 and proof.multipliers == pytest.approx([0.5])
    assert contains(proof.orbit, [2.0, 1.0])


def test_dead_beat_returns_are_exact():
    def law(x, p):
        return [3.0, 2.0 * x[0], x[0] * x[1]]

    proof = prove_orbit(law, [3.0, 6.0, 18.0])
    assert proof.dead_beat and proof.multipliers_inside is True and not proof.multipliers.any()
    assert "dead beat" in repr(proof)


def test_what_is_refused():
    with pytest.raises(ValueError, match="rounds must be an int >= 1, got 0"):
        prove_orbit(logistic, [0.5], 2.0, 0)
    with pytest.raises(ValueError, match=r"box must have pairs \(lowest, highest\), got .* for r"):
        prove_orbit(logistic, [0.5], 2.0, box={"r": (2.0, 1.0)})
    with pytest.raises(TypeError, match="state must have finite numbers, got inf"):
        prove_orbit(logistic, [inf], 2.0)
    with pytest.raises(TypeError, match="cannot be evaluated on balls: .*; laws have"):
        prove_orbit(lambda x, p: [float(x[0])], [0.5])
    with pytest.raises(ValueError, match="the law must return 1 states, got 2"):
        prove_orbit(lambda x, p: [x[0], 1.0], [0.5])


# ---- maps of protocols -----------------------------------------------------------------------------------------------


def _cycle(multipliers=(0j,)):
    return LimitCycle("cycle", "discrete", 1.0, 0.0, 0.0, np.array(multipliers))


def test_the_cycle_of_expresspass():
    net = ecc.models.ExpressPass.on(ecc.Network.dumbbell("10 Gb/s", ["40 us"] * 2))
    model = ecc.models.ExpressPass("10 Gb/s")
    proof = prove_rounds(model.round_map(net))
    cycle = model.cycle(2)
    assert proof.multipliers_inside is True and not proof.corners and proof.contraction < 1.0
    for factor in (cycle.sum_multiplier, cycle.difference_multiplier):
        assert np.abs(proof.multipliers - float(factor)).min() < 1e-9
    assert with_proof(_cycle(proof.multipliers), proof).proven
    assert "has the multiplier 0.9115 instead of 0" in with_proof(_cycle(), proof).notes[0]


def test_the_cycle_of_vivace():
    form = ecc.models.Vivace().round_map(ecc.Network.dumbbell("100 Mb/s", rtts=["30 ms"] * 2))
    proof = prove_rounds(form)
    assert form.rounds == 10 and proof.multipliers_inside is True
    assert proof.multipliers[0].real == pytest.approx(0.8441, abs=1e-4)


@pytest.mark.parametrize(
    "network",
    [
        ecc.Network.dumbbell("10 Gb/s", rtts=["30 us"] * 3),
        ecc.Network.parking_lot(["10 Gb/s", "6 Gb/s"], delay="5 us"),
    ],
)
def test_the_fixed_point_of_s_perc_is_dead_beat(network):
    proof = prove_rounds(ecc.models.SPERC().round_map(network))
    assert proof.dead_beat and proof.is_proven
