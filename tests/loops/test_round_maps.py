"""Linear models of maps per round: a custom map, s-PERC in fractions, ExpressPass' exact cycle, Vivace's own steps."""

from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ecc
from ecc.contract.forms import RoundMap
from ecc.contract.kinds import Kind
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.models import SPERC, ExpressPass, Protocol, Vivace, sperc
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Flow, Link, Network

NET = Network.dumbbell("100 Mb/s", ["30 ms"] * 2, packet_size=1500)


def shares(state, p):
    """Two rates that move towards a weighted mean, and a flag that counts rounds with a rate above 1."""
    a, b, flag = state
    return [a + p.gain * (1.0 - 0.5 * (a + b)), b + p.gain * (1.0 - max(b, 0.5)), flag if a < 2.0 else 1 - flag]


@dataclass(frozen=True)
class Custom(Protocol):
    gain: float = 0.5
    start: float = 1.0
    law: Any = staticmethod(shares)
    form: Any = None

    def round_map(self, network: Network) -> RoundMap:
        return self.form or RoundMap(self.law, (self.start, self.start, 0), self.namespace(), duration=0.02)


def test_a_custom_map_has_the_models_of_its_derivative():
    loop = Custom().loop
    assert loop.kind is Kind.ROUND_MAP and loop.linear is None
    assert loop.fluid == "it does not define router_law and source_law"
    system = ecc.linearize(Custom(), NET, time="discrete")
    assert isinstance(system, SampledSystem) and system.dt == 0.02
    assert np.array_equal(system.matrices[0], [[0.75, -0.25], [0.0, 0.5]]) and not system.delays.any()
    assert system.spectral_radius == 0.75 and system.verdict == "stable" and system.deadbeat_steps is None
    assert system.margins().gain_margin == pytest.approx(4 / 3)
    assert system.certify().unstable == 0
    averaged = ecc.linearize(Custom(), NET)
    expected = [DelaySystem([-50.0, 50.0 * a], [0.0, 0.02]).spectral_abscissa for a in (0.75, 0.5)]
    assert isinstance(averaged, DelaySystem) and averaged.spectral_abscissa == pytest.approx(max(expected))
    assert averaged.verdict == "stable" and ecc.linearize(Custom(-0.5), NET).verdict == "unstable"


def test_lengths_of_rounds_may_differ_between_states_in_continuous_time():
    form = Custom().round_map(NET)._replace(delays=(0.02, 0.05, 0.02))
    system = ecc.linearize(Custom(form=form), NET)
    roots = [DelaySystem([-1 / d, a / d], [0.0, d]).spectral_abscissa for a, d in ((0.75, 0.02), (0.5, 0.05))]
    assert system.spectral_abscissa == pytest.approx(max(roots))


def swing(state, p):
    """A cycle of two rounds: the flag decides which factor applies."""
    x, flag = state
    return [1.0 + 0.5 * (x - 2.0), 1] if flag < 1 else [2.0 - 0.8 * (x - 1.0), 0]


def test_a_cycle_has_the_product_of_its_derivatives():
    custom = Custom(form=RoundMap(swing, (2.0, 0), None, duration=0.1, rounds=2))
    system = ecc.linearize(custom, NET, time="discrete")
    assert system.matrices.tolist() == [[[-0.4]]] and system.dt == 0.2 and system.notes == ("cycle of 2 rounds",)
    with pytest.raises(
        LinearizationError, match="Custom has no continuous model: its map has a cycle of 2 rounds and n"
    ):
        ecc.linearize(custom, NET)
    analysis = ecc.stability.analyze(custom, NET)
    assert analysis.models[0].margins is None and any("no margins: " in note for note in analysis.models[0].notes)


def kinked(state, p):
    return [min(0.5 * state[0], 0.25 * state[0])]


@pytest.mark.parametrize(
    ("changes", "options", "error", "message"),
    [
        (
            {},
            {"time": "hybrid"},
            ValueError,
            "Custom has no hybrid model: time must be 'discrete' or 'continuous' for a",
        ),
        ({}, {"assignment": [0, 0]}, ValueError, "assignment must be None for a map per round, got"),
        ({}, {"mean_rtt": "flows"}, ValueError, "mean_rtt must be None for a map per round, got 'flows'"),
        (
            {"start": 0.9},
            {},
            LinearizationError,
            "Custom has no linear model here: its map per round does not return afte",
        ),
        ({"form": 3}, {}, TypeError, "round_map of Custom must return a RoundMap, got 3"),
        ({"form": {"state": ("a",)}}, {}, TypeError, "state of the round_map of Custom must have finite numbers, got "),
        (
            {"form": {"state": (1, 2)}},
            {},
            ValueError,
            r"state of the round_map of Custom must have a float, got \(1, 2\)",
        ),
        ({"form": {"rounds": 0}}, {}, ValueError, "rounds of the round_map of Custom must be an int >= 1, got 0"),
        ({"form": {"duration": 0.0}}, {}, ValueError, "duration of the round_map of Custom must be > 0 s, got 0.0"),
        ({"form": {"delays": (1.0,)}}, {}, ValueError, "delays of the round_map of Custom must have 3 entries, got 1"),
        (
            {"form": {"law": swing, "state": (1.0, 2.0, 0)}},
            {},
            LinearizationError,
            r"swing \(test_round_maps.py:\d+\) fails on the orbit: too many values to unpack",
        ),
        (
            {"form": {"law": kinked, "state": (0.0,)}},
            {},
            LinearizationError,
            "Custom has no linear model: its map per round has a kink at the orbit, in state 0",
        ),
        (
            {"form": {"law": kinked, "state": (0.0, 1.0)}},
            {},
            ValueError,
            "the law of the round_map of Custom must return 2 states, got 1",
        ),
    ],
)
def test_refusals(changes, options, error, message):
    changes = dict(changes)
    if isinstance(changes.get("form"), dict):
        changes["form"] = Custom().round_map(NET)._replace(**changes["form"])
    with pytest.raises(error, match=f"^{message}"):
        ecc.linearize(Custom(**changes), NET, **options)


def test_a_kink_with_a_result_for_all_sides_is_a_note():
    form = RoundMap(kinked, (0.0,), None, duration=1.0, one_sided="both sides contract")
    system = ecc.linearize(Custom(form=form), NET, time="discrete")
    assert system.notes == ("both sides contract",) and system.matrices.tolist() == [[[0.25]]]


def test_without_a_map_the_method_says_so():
    with pytest.raises(ValueError, match="^RCP has no map per round: it does not define round_map$"):
        ecc.models.RCP().round_map(NET)


# ---- s-PERC ----------------------------------------------------------------------------------------------------------

CHAIN = Network.parking_lot(["10 Gb/s", "6 Gb/s", "13 Gb/s"], delay="5 us", buffer="200 kB")


def random_network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    capacity = (lambda: int(rng.integers(2, 9))) if seed % 2 else (lambda: rng.uniform(2, 9))
    links = [Link(1e9 * capacity(), "5 us") for _ in range(rng.integers(2, 9))]
    routes = [rng.permutation(len(links))[: rng.integers(1, 5)].tolist() for _ in range(rng.integers(2, 16))]
    return Network(links, [Flow(route) for route in routes])


@pytest.mark.parametrize("seed", range(12))
def test_sperc_is_nilpotent_and_small_deviations_end_in_as_many_rounds(seed):
    """The hooks in exact fractions, with deviations of parts in 10^12, reach the fixed point exactly."""
    network, protocol = random_network(seed), SPERC()
    system = ecc.linearize(protocol, network, time="discrete")
    steps = system.deadbeat_steps
    assert steps is not None and steps <= 6 * protocol.exact_rounds(network).iterations
    assert system.spectral_radius == 0.0 and system.verdict == "stable" and system.certify().unstable == 0
    form = protocol.round_map(network)
    p = SimpleNamespace(
        **vars(form.p)
        | {"gamma": Fraction(form.p.gamma), "tolerance": Fraction(form.p.tolerance)}
        | {"capacities": [Fraction(capacity) for capacity in form.p.capacities]}
    )
    exact: list[Any] = [value if isinstance(value, int) else Fraction(value) for value in form.state]
    for _ in range(6 * len(network.links) + 6):
        exact = sperc.round_of_trips(exact, p)
    assert sperc.round_of_trips(exact, p) == exact
    rng = np.random.default_rng(seed + 100)
    size = Fraction(min(network.capacities)) / 10**12
    state = [value if isinstance(value, int) else value + size * int(rng.integers(-99, 99)) / 100 for value in exact]
    varied = [k for k, value in enumerate(form.state) if isinstance(value, float)]
    deviations = np.array([float(state[k] - exact[k]) for k in varied])
    for count in range(1, steps + 1):
        state, deviations = sperc.round_of_trips(state, p), system.matrices[0] @ deviations
        if not any("one-sided" in note for note in system.notes):
            assert [float(state[k] - exact[k]) for k in varied] == pytest.approx(deviations, rel=1e-6, abs=1e-9)
            assert (state == exact) is (count == steps) or count < steps
    assert state == exact


def test_sperc_in_continuous_time_has_the_roots_of_its_trips_alone():
    system = ecc.linearize(SPERC(), CHAIN)
    trips = set(SPERC().round_map(CHAIN).delays)
    s = 1e4 * np.array([1.0, 2.0 + 3.0j])
    delays = [
        d
        for d, x in zip(SPERC().round_map(CHAIN).delays, SPERC().round_map(CHAIN).state, strict=True)
        if isinstance(x, float)
    ]
    expected = np.prod([s + 1.0 / d for d in delays], axis=0)
    assert system.characteristic(s) == pytest.approx(expected, rel=1e-9)
    assert system.spectral_abscissa == pytest.approx(-1.0 / max(trips)) and system.verdict == "stable"


@pytest.mark.parametrize("link", range(3))
def test_sperc_packets_are_exact_within_the_rounds_of_the_map(link):
    """Capacities fall by 0.1 %: deviations that change no decision."""
    change = CapacitySchedule(link, [1e-3], [0.999 * CHAIN.capacities[link]])
    scenario = ecc.Scenario(CHAIN, SPERC(), 1.6e-3, impairments=[change])
    rates = ecc.packet.simulate(scenario, sample=1e-6, record=["flow.x"]).data["flow.x"].to_numpy()
    links = [
        replace(each, capacity=each.capacity * (0.999 if k == link else 1.0)) for k, each in enumerate(CHAIN.links)
    ]
    fair = SPERC().equilibrium(Network(links, CHAIN.flows)).rates
    system = ecc.linearize(SPERC(), CHAIN, time="discrete")
    off = np.abs(rates / fair - 1.0).max(axis=1) > 1e-9
    assert off[999] and not off[-1]
    assert np.flatnonzero(off)[-1] * 1e-6 - 1e-3 < system.deadbeat_steps * system.dt


@pytest.mark.slow
def test_sperc_without_ignore_bits_may_never_repeat():
    routes = [[3, 0], [2, 1, 0], [0, 1, 3, 2], [1, 2, 0, 3], [3, 1, 2]]
    equal = Network([Link(4e9, "5 us")] * 4, [Flow(route) for route in routes])
    assert ecc.linearize(SPERC(), equal, time="discrete").deadbeat_steps is not None
    naive = SPERC(ignore=False, tolerance=0.0)
    with pytest.raises(
        LinearizationError, match=r"^SPERC has no fixed point here: rates did not repeat within \d+ rou"
    ):
        naive.round_map(equal)


# ---- ExpressPass -----------------------------------------------------------------------------------------------------


def credits(flows: int) -> Network:
    return ExpressPass.on(Network.dumbbell("10 Gb/s", ["40 us"] * flows, buffer="100 kB"))


@pytest.mark.slow
@pytest.mark.parametrize("flows", [2, 3, 4, 10])
def test_expresspass_has_the_exact_multipliers_of_its_cycle(flows):
    system = ecc.linearize(ExpressPass(), credits(flows), time="discrete")
    cycle = ExpressPass().cycle(flows)
    assert system.notes[0] == f"cycle of {cycle.rtts} rounds" and system.dt == pytest.approx(cycle.rtts * 40e-6)
    roots = np.array([root for root in system.roots(3 * flows) if abs(root) > 1e-6])
    quarter = 0.25  # of w, per cycle
    expected = [float(cycle.difference_multiplier)] * (flows - 1) + [float(cycle.sum_multiplier)] + [quarter] * flows
    assert np.sort(roots.real) == pytest.approx(np.sort(expected), rel=1e-7)
    assert system.verdict == "stable" and system.certify().unstable == 0


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=15)
@given(flows=st.integers(2, 6), target=st.floats(0.02, 0.4), w_min=st.floats(0.005, 0.05))
def test_expresspass_is_stable_where_the_exact_multipliers_are_below_1(flows, target, w_min):
    protocol = ExpressPass(target=target, w_min=w_min)
    cycle = protocol.cycle(flows)
    assume(cycle.holds)
    system = ecc.linearize(protocol, credits(flows), time="discrete")
    assume(system.notes[0] == f"cycle of {cycle.rtts} rounds")
    roots = np.linalg.eigvals(system.matrices[0])
    for multiplier in (float(cycle.sum_multiplier), float(cycle.difference_multiplier)):
        assert np.abs(roots - multiplier).min() < 1e-6
    assert (system.verdict == "stable") is (max(abs(cycle.sum_multiplier), abs(cycle.difference_multiplier)) < 1)


def test_expresspass_differences_decay_as_in_another_program():
    x, _ = ExpressPass().synchronized([0.51, 0.5, 0.49], 400)
    differences = x[:, 0] - x[:, 2]
    measured = differences[240] / differences[200]
    radius = ecc.linearize(ExpressPass(), credits(3), time="discrete").spectral_radius
    assert measured == pytest.approx(radius**10, rel=1e-4)


def test_a_single_credit_flow_stays_at_its_maximum():
    system = ecc.linearize(ExpressPass(), credits(1), time="discrete")
    assert system.spectral_radius == 0.5 and any("can only decrease" in note for note in system.notes)


def test_credits_over_several_links_have_long_cycles_that_favor_short_flows():
    flows = [Flow([0, 1, 2]), *(Flow([k], access_delay="10 us") for k in range(3))]
    network = ExpressPass.on(Network([Link("10 Gb/s", "5 us", "100 kB")] * 3, flows))
    form = ExpressPass().round_map(network)
    state, total = list(form.state), np.zeros(4)
    for _ in range(form.rounds):
        total += np.array(state[4::5]) / ExpressPass().max_rate / form.rounds
        state = form.law(state, form.p)
    assert form.rounds == 47 and ecc.linearize(ExpressPass(), network, time="discrete").verdict == "stable"
    assert 0.2 < total[0] < 0.4 and total[1:].min() > 0.55


# ---- Vivace ----------------------------------------------------------------------------------------------------------


def played_by_hand(x, rounds, C=100.0, b=900.0, t=0.9):
    """Rates of flows in Mb/s that probe together, high first, by the steps of Dong et al. in plain numbers."""
    k, j, q, history = [0] * len(x), [0] * len(x), 0.0, [list(x)]
    x = list(x)
    for _ in range(rounds):
        growths = []
        for probe in (1.05, 0.95, 1.0):
            S = probe * sum(x)
            after = max(q + (S - C) * 0.03, 0.0)
            growths.append((after - q) / C / 0.03)
            q = after
        g = [0.0 if abs(each) < 0.01 else each for each in growths]
        for i, rate in enumerate(x):
            high, low = 1.05 * rate, 0.95 * rate
            gamma = (high**t - b * high * g[0] - low**t + b * low * g[1]) / (high - low)
            sign = 1 if gamma > 0 else -1
            k[i], j[i] = (sign, 0) if sign * k[i] < 0 else (k[i] + sign, j[i])
            count = abs(k[i])
            change = abs(gamma) * (count if count <= 3 else 2 * count - 3)
            bound = (0.05 + 0.1 * j[i]) * rate
            if change > bound:
                change, j[i] = bound, j[i] + 1
            else:
                j[i] = max(int(np.ceil((change / rate - 0.05) / 0.1)), 0)
            x[i] = rate + sign * change
        history.append(list(x))
    return np.array(history)


def test_vivace_cycles_and_differences_decay_as_played_by_hand():
    system = ecc.linearize(Vivace(), NET, time="discrete")
    assert system.notes[0] == "cycle of 10 rounds" and system.dt == pytest.approx(10 * 3 * 0.03)
    x = played_by_hand([50.0 + 1e-4, 50.0 - 1e-4], 3000)
    assert x[-1] == pytest.approx(x[-11], rel=1e-9) and abs(x[-1] - x[-2]).max() > 0.5
    differences = x[:, 0] - x[:, 1]
    assert differences[340] / differences[300] == pytest.approx(system.spectral_radius**4, rel=1e-3)
    assert system.verdict == "stable" and system.certify().unstable == 0


@pytest.mark.parametrize("form", ["paper", "pcc-uspace"])
def test_vivace_in_continuous_time_stays_at_the_kink_and_equalizes_rates(form):
    system = ecc.linearize(Vivace(form=form), NET)
    x, gain = 50.0, 1.0 if form == "paper" else 2.0**40 * 1e-12
    gamma = gain * ((1.05 * x) ** 0.9 - (0.95 * x) ** 0.9) / (0.1 * x)
    ratio = (1.0 - 0.1 * gamma / x) / (1.0 + gamma / x)  # of a small difference, per increase
    D = 0.03 * (3 if form == "paper" else 2)
    assert system.spectral_abscissa == pytest.approx(
        DelaySystem([-1 / D, ratio / D], [0.0, D]).spectral_abscissa, rel=1e-6
    )
    assert any("set of equilibria" in note for note in system.notes) and system.verdict == "stable"


def test_increases_at_their_bound_change_no_ratio_of_rates():
    slow = Network.dumbbell("10 Mb/s", ["30 ms"] * 2, packet_size=1500)
    system = ecc.linearize(Vivace(), slow)
    assert abs(system.spectral_abscissa) < 1e-9 and any("at its bound" in note for note in system.notes)
    x = played_by_hand([6.0, 4.0], 200, C=10.0)
    assert x[:, 0] / x[:, 1] == pytest.approx(1.5, rel=1e-9)


@pytest.mark.parametrize(("flows", "changes"), [(2, {}), (2, {"b": 0.0}), (20, {"b": 0.0})])
def test_gradient_steps_have_one_derivative_on_each_side(flows, changes):
    network = Network.dumbbell("100 Mb/s", ["30 ms"] * flows, buffer="150 kB")
    protocol = Vivace(**changes)
    x = 1e-6 * protocol.equilibrium(network).rates

    def slopes(rates, above):
        S, t = rates.sum(), 0.9
        if flows == 2 and not above:
            return t * rates ** (t - 1.0)
        if protocol.b > 0.0:
            return t * rates ** (t - 1.0) - 900.0 * ((S - 100.0) / 100.0 + rates / 100.0)
        return t * rates ** (t - 1.0) - 11.35 * (1.0 - 100.0 / S + 100.0 * rates / S**2)

    h = 1e-5 * x[0]
    for above, found in zip((False, True), protocol.gradient_jacobians(network), strict=True):
        columns = [(slopes(x + h * e, above) - slopes(x - h * e, above)) / (2.0 * h) for e in np.eye(flows)]
        assert found == pytest.approx(np.eye(flows) + np.array(columns).T, rel=1e-6, abs=1e-9)


def test_losses_at_the_equilibrium_give_an_ordinary_derivative():
    network = Network.dumbbell("100 Mb/s", ["30 ms"] * 3, buffer="150 kB")
    protocol = Vivace(b=0.0, c=0.8)
    system, (below, above) = ecc.linearize(protocol, network), protocol.gradient_jacobians(network)
    D = 3.0 * (0.03 + 8 * 150e3 / 100e6)  # with a full buffer
    exact = max(
        DelaySystem([-1 / D, float(a) / D], [0.0, D]).spectral_abscissa
        for a in np.unique(np.linalg.eigvals(above).real)
    )
    assert np.array_equal(below, above) and "the equilibrium has losses" in system.notes
    assert system.spectral_abscissa == pytest.approx(exact, rel=0.05)  # probes have a width of 10 %


def test_the_largest_ratio_of_rates_never_grows():
    """The common norm: no order of decisions that flows share makes the largest ratio of rates grow."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        x = rng.uniform(15.0, 90.0, 4)
        for _ in range(60):
            before = np.ptp(np.log(x))
            if rng.random() < 0.5:
                x = x * rng.uniform(0.85, 1.15)
                assert np.ptp(np.log(x)) == pytest.approx(before, rel=1e-12)
            else:
                x = x + int(rng.integers(1, 4)) * 0.9 * x**-0.1
                assert np.ptp(np.log(x)) < before
