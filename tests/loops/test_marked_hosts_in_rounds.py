"""Hosts over disciplines in rounds: against maps and simulations written here, and the continuous model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import newton

from ecc.contract.assignment import read_protocol
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import equilibrium_of_marks, linearize_marks
from ecc.models import CUBIC, DCTCP, NewReno
from ecc.models.shared.windows import EndToEndProtocol
from ecc.network.network import Flow, Link, Network
from ecc.queues import AVQ, PI, PI2, RED, REM, RampMarking
from ecc.queues.discipline import QueueDiscipline
from ecc.results.transients import decay
from ecc.stability import analyze, critical_gain

S = 8000.0  # bit, a packet
N, C, D, Q = 60, 3750.0, 0.25, 187.5  # flows, packets/s, s with the queue, packets in it
BASE, DT = D - Q / C, 2.5e-3  # s: RTT without the queue, step of simulations
NET = Network.dumbbell(C * S, rtts=[BASE] * N, packet_size=1000)


def over(discipline, host=None):
    return {"flows": host or NewReno(ecn=True), "links": discipline}


def rounds(discipline, host=None, network=NET, **options):
    return linearize(over(discipline, host), network, "discrete", **options)


def at_rest(discipline, host=None, network=NET):
    return equilibrium_of_marks(read_protocol(over(discipline, host)).deploy(network), network)


def exponent(system):
    return np.log(system.roots(1)[0]) / system.dt


def moduli(jacobian):
    return np.sort(np.abs(np.linalg.eigvals(jacobian)))[::-1]


def jacobian_of(step, z):
    """Central differences."""
    columns = []
    for h in np.diag(1e-5 * np.maximum(np.abs(z), 1e-3)):
        columns.append((np.array(step(z + h)) - np.array(step(z - h))) / (2.0 * h.sum()))
    return np.array(columns).T


# ---- maps without states of disciplines, written here --------------------------------------------------------


def newreno_map(z, m, low, high):
    """Packets: windows after the last m ticks, the newest first; the queue of the round that ended is m - 1 ticks old.

    The ramp is 0 at `low` and 1 at `high`.
    """
    P = (N * z[m - 1] - C * BASE - low) / (high - low)
    return [z[0] + (1.0 - z[0] * P * z[0] / 2.0) / m, *z[:-1]]


@pytest.mark.parametrize("m", [1, 2, 5])
def test_newreno_over_a_ramp_is_the_map_per_round(m):
    low, high = 20.0, 4000.0
    system = rounds(RampMarking(mark=True, min_threshold=low, max_threshold=high), updates_per_rtt=m)
    rest = at_rest(RampMarking(mark=True, min_threshold=low, max_threshold=high))
    z = np.full(m, rest.windows[0] / S)
    assert newreno_map(z, m, low, high) == pytest.approx(z)
    assert system.dt == pytest.approx(rest.rtts[0] / m)
    assert np.abs(system.roots(m)) == pytest.approx(moduli(jacobian_of(lambda z: newreno_map(z, m, low, high), z)))


def test_a_round_of_newreno_over_a_ramp_by_hand():
    """w <- w + 1 - P w^2/2 with P' = N/(high - low): a multiplier of 1 - P w - P' w^2/2."""
    low, high = 20.0, 4000.0
    rest = at_rest(RampMarking(mark=True, min_threshold=low, max_threshold=high))
    w, P = rest.windows[0] / S, rest.probabilities[0]
    multiplier = 1.0 - P * w - 0.5 * N / (high - low) * w**2
    system = rounds(RampMarking(mark=True, min_threshold=low, max_threshold=high))
    assert system.size == 1 and system.roots(1)[0] == pytest.approx(multiplier, rel=1e-9)
    assert system.certify().stable is bool(abs(multiplier) < 1.0)


def dctcp_map(z, low, high, g):
    """A round: alpha from the share of marks, then growth; responses use alpha before it."""
    w, alpha = z
    P = (N * w - C * BASE - low) / (high - low)
    return [w + 1.0 - w * P * 0.5 * alpha * w, (1.0 - g) * alpha + g * P]


@pytest.mark.parametrize("high", [400.0, 4000.0])
def test_dctcp_over_a_ramp_is_the_map_of_window_and_alpha(high):
    discipline, host = RampMarking(mark=True, min_threshold=20.0, max_threshold=high), DCTCP()
    rest = at_rest(discipline, host)
    z = np.array([rest.windows[0] / S, rest.host_states[0]["alpha"]])
    assert dctcp_map(z, 20.0, high, host.g) == pytest.approx(z, rel=1e-6)
    expected = moduli(jacobian_of(lambda z: dctcp_map(z, 20.0, high, host.g), z))
    system = rounds(discipline, host)
    assert np.abs(system.roots(2)) == pytest.approx(expected, rel=1e-6)
    assert system.certify().stable is bool(expected[0] < 1.0)


# ---- a custom host with states over a custom discipline ------------------------------------------------------


def seen_law(seen, marked, p):
    return seen + p.gain * (marked - seen)


def twice_law(twice, seen, p):
    return twice + p.gain * (seen - twice)


@dataclass(frozen=True)
class Averaging(EndToEndProtocol):
    """A host that averages the share of its marked packets twice, and reduces its window by the second average."""

    gain: float = 0.4
    ecn: bool = True
    no_equilibrium = "it needs marks"

    @staticmethod
    def source_law(w, twice, s):
        return w + s - 0.5 * twice * w

    @staticmethod
    def mark_response_law(w):
        return w

    @property
    def states(self):
        return {
            "seen": State(seen_law, "rtt", lowest=0.0, highest=1.0),
            "twice": State(twice_law, "rtt", lowest=0.0, highest=1.0),
        }

    def params(self):
        return {"gain": self.gain, **super().params()}


def arrivals_law(arrivals, y, T, p):
    return arrivals + p.weight * (y * T - arrivals)


@dataclass(frozen=True)
class Excess(QueueDiscipline):
    """Marks by the queue and by an average of arrivals per interval, which a burst raises at once."""

    slope: float = 2e-4
    weight: float = 0.3
    interval: float = 0.1
    required_env = frozenset({"random"})

    def __post_init__(self):
        super().__post_init__()
        check_number(self, slope=None, weight=None, interval=None)

    @staticmethod
    def probability_law(q, arrivals, C, T, p):
        return min(max(p.slope * (q + arrivals - C * T), 0.0), 1.0)

    @property
    def states(self):
        return {"arrivals": State(arrivals_law, "interval", lowest=0.0)}


def simulate_excess(slope, weight, T, gain, rtt, n_rounds, push):
    """Windows at the ticks, in packets. Between ticks arrivals' = weight (C T - arrivals)/T; a burst adds its share."""
    w = w_rest = window_at_rest(slope)
    seen = twice = slope * (N * w - C * BASE)
    excess, windows = 0.0, [w]  # average arrivals less C T, right after a tick
    for number in range(n_rounds):
        probability = slope * (N * w - C * BASE + excess)
        seen = seen + gain * (probability - seen)
        twice = twice + gain * (seen - twice)
        w_next = w + 1.0 - 0.5 * twice * w if number else w_rest * (1.0 + push)
        excess = excess * np.exp(-weight * rtt / T) + weight * N * (w_next - w)
        w = w_next
        windows.append(w)
    return np.array(windows)


def window_at_rest(slope):
    """The window at which 1 = slope (N w - C D_0) w/2."""
    return newton(lambda w: slope * (N * w - C * BASE) * w / 2.0 - 1.0, C * D / N)


@pytest.mark.parametrize("slope", [2e-5, 3e-3])
def test_a_custom_host_over_a_custom_discipline_decays_or_grows_as_its_simulation(slope):
    discipline, host = Excess(mark=True, slope=slope), Averaging()
    rest = at_rest(discipline, host)
    w = window_at_rest(slope)
    assert rest.windows[0] / S == pytest.approx(w)
    windows = simulate_excess(slope, discipline.weight, discipline.interval, host.gain, rest.rtts[0], 200, 1e-7)
    system = rounds(discipline, host)
    mode = decay(np.arange(150.0), windows[-150:] / w - 1.0)
    dominant = system.roots(1)[0]
    assert mode.rate == pytest.approx(np.log(abs(dominant)), rel=1e-4)
    assert mode.frequency == pytest.approx(abs(np.angle(dominant)), rel=1e-4)
    assert system.is_stable is bool(mode.rate < 0.0) and system.certify().is_proven


# ---- disciplines with states: simulations of the nonlinear equations -----------------------------------------


def disciplines(name, k, mark):
    """A discipline of a scale k of its gains, with the queue Q at the equilibrium."""
    P = 2.0 * (N / (C * D)) ** 2
    p_max = P / (2.0 - P) * 350.0 / (Q - 50.0)  # chosen packets are spread out: P = 2 p/(1 + p)
    return {
        "PI": lambda: PI(mark=mark, a=8e-5 * k, b=7e-5 * k, reference=Q, interval=0.1),
        "PI2": lambda: PI2(mark=mark, alpha=0.05 * k, beta=0.5 * k, target=Q / C, interval=0.125),
        "REM": lambda: REM(mark=mark, gamma=0.05 * k, reference=Q, interval=0.1, weight=0.4),
        "RED": lambda: RED(mark=mark, min_threshold=50.0, max_threshold=400.0, p_max=p_max, weight=1e-3 * k),
    }[name]()


def law_of(name, k):
    """Derivatives of a discipline's states, its probability, and the jump of its states by a burst, written here."""
    P = 2.0 * (N / (C * D)) ** 2
    rise = P / (2.0 - P) / (Q - 50.0)

    def red_probability(z):
        p = rise * (z[0] - 50.0)
        return 2.0 * p / (1.0 + p)

    def pi(z, q, before, y):
        return np.array([8e-5 * k * (q - Q) - 7e-5 * k * (before - Q)]) / 0.1

    def pi2(z, q, before, y):
        return np.array([k * (0.05 * (q - Q) + 0.5 * (q - before)) / C]) / 0.125

    def rem(z, q, before, y):
        return np.array([0.4 * (0.1 * y - z[0]), 0.05 * k * (0.1 * (q - Q) + z[0] - 0.1 * C)]) / 0.1

    def red(z, q, before, y):
        return np.array([y * 1e-3 * k * (q - z[0])])

    return {
        "PI": (pi, lambda z: z[0], np.zeros(1), 0.1),
        "PI2": (pi2, lambda z: z[0] ** 2, np.zeros(1), 0.125),
        "REM": (rem, lambda z: 1.0 - 1.001 ** -z[1], np.array([0.4, 0.0]), 0.1),
        "RED": (red, red_probability, np.zeros(1), 0.0),
    }[name]


def simulate(name, k, clocking, mark, m, n_ticks, push):
    """Windows of NewReno at its ticks, in packets: Heun's method between ticks, from a pushed window."""
    rest = at_rest(disciplines(name, k, mark))
    slope, probability, burst, T = law_of(name, k)
    lag, every, before = round(D / DT), round(D / DT / m), round(T / DT)
    start, steps = 2 * lag, n_ticks * every
    w = np.full(start + steps + 1, rest.windows[0] / S)
    q, q_end = np.full(len(w), Q), np.full(len(w), Q)  # after, and before a jump at that time
    z = np.tile(list(rest.states[0].values()), (len(w), 1))
    for i in range(start, start + steps):
        w[i] = w[i - 1]
        if (i - start) % every == 0:
            P = probability(z[i - lag])
            now, ago = BASE + q[i - lag] / C, BASE + q[i - 2 * lag] / C
            grown = m * (q[i - lag] - q[i - lag - every]) / C / D
            n = w[i - 1] * P if clocking == "ack" else w[i - lag] * (1.0 - grown) * P * now / ago
            w[i] = w[i - 1] * (1.0 + push) if i == start else w[i - 1] + (1.0 - n * w[i - 1] / 2.0) / m
            if clocking == "ack":
                q[i] = N * w[i] - C * BASE
                z[i] += burst * (q[i] - q_end[i])
        arriving = [C if clocking == "ack" else N * w[i] / (BASE + q[j - lag] / C) for j in (i, i + 1)]

        def moves(j, z, q, previous, i=i, arriving=arriving):
            kept = 1.0 if mark else 1.0 - probability(z)
            grows = 0.0 if clocking == "ack" else kept * arriving[j - i] - C
            return grows, slope(z, q, previous, arriving[j - i])

        q_slope, z_slope = moves(i, z[i], q[i], q[i - before])
        q_guess, z_guess = q[i] + DT * q_slope, z[i] + DT * z_slope
        q_later, z_later = moves(i + 1, z_guess, q_guess, q_end[i + 1 - before] if before else q_guess)
        q[i + 1] = q_end[i + 1] = q[i] + 0.5 * DT * (q_slope + q_later)
        z[i + 1] = z[i] + 0.5 * DT * (z_slope + z_later)
    return w[start : start + steps : every] / w[0] - 1.0


CASES = [
    ("PI", "ack", True, 1, 1.0, 2.0),
    ("PI", "rate", False, 2, 0.5, 2.0),
    ("PI2", "ack", True, 2, 1.0, None),
    ("PI2", "rate", True, 1, 2.0, 4.0),
    ("REM", "ack", True, 1, 1.0, 2.0),
    ("REM", "rate", True, 5, 1.0, 2.0),
    ("RED", "ack", True, 1, 0.3, None),
    ("RED", "rate", True, 1, 0.3, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "clocking", "mark", "m", "stable", "unstable"), CASES)
def test_windows_decay_and_grow_as_in_simulations_of_the_nonlinear_equations(name, clocking, mark, m, stable, unstable):
    for k, push, verdict in ((stable, 1e-5, "stable"), (unstable, 1e-8, "unstable")):
        if k is None:
            continue
        system = rounds(disciplines(name, k, mark), NewReno(ecn=mark), clocking=clocking, updates_per_rtt=m)
        expected = exponent(system)
        deviation = simulate(name, k, clocking, mark, m, 10 + round(8.0 * m / D / abs(expected.real)), push)
        late = deviation[len(deviation) // 4 :]
        mode = decay(D / m * np.arange(len(late)), late)
        assert system.verdict == verdict and system.certify().stable is (verdict == "stable")
        assert mode.rate == pytest.approx(expected.real, rel=2e-3)
        assert mode.frequency == pytest.approx(abs(expected.imag), rel=2e-3)


# ---- heterogeneous RTTs, several queues ----------------------------------------------------------------------

FAR = Network.dumbbell(C * S, rtts=[0.1] * 20 + [0.2] * 20, packet_size=1000)


def simulate_two_rtts(k, end, push):
    """Windows of NewReno with RTTs of 0.15 and 0.25 s (with the queue of PI), after each least common multiple."""
    pi = PI(mark=True, a=8e-5 * k, b=7e-5 * k, reference=Q, interval=0.1)
    rest = at_rest(pi, network=FAR)
    start, steps, T = 500, round(end / DT), round(0.1 / DT)
    w = np.array([np.full(start + steps + 1, rest.windows[i] / S) for i in (0, 20)])
    q, p = np.full(start + steps + 1, Q), np.full(start + steps + 1, rest.probabilities[0])
    bases, lags = (0.1, 0.2), (round(0.15 / DT), round(0.25 / DT))

    def arriving(i, now):
        return sum(20 * w[g, now] / (bases[g] + q[i - lags[g]] / C) for g in (0, 1))

    for i in range(start, start + steps):
        for g, lag in enumerate(lags):
            w[g, i] = w[g, i - 1] * (1.0 + push * (i == start and g == 0))
            if (i - start) % lag == 0 and i > start:
                now, ago = bases[g] + q[i - lag] / C, bases[g] + q[i - 2 * lag] / C
                n = w[g, i - lag] * (1.0 - (now - ago) / (lag * DT)) * p[i - lag] * now / ago
                w[g, i] = w[g, i - 1] + 1.0 - n * w[g, i - 1] / 2.0
        q[i + 1] = q[i] + DT * (0.5 * (arriving(i, i) + arriving(i + 1, i)) - C)
        rises = [8e-5 * k * (q[j] - Q) - 7e-5 * k * (q[j - T] - Q) for j in (i, i + 1)]
        p[i + 1] = p[i] + DT * 0.5 * sum(rises) / 0.1
    return w[1, start : start + steps : round(0.75 / DT)] / w[1, 0] - 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("k", "verdict"), [(1.2, "stable"), (1.5, "unstable")])
def test_flows_of_different_rtts_act_each_at_its_ticks(k, verdict):
    pi = PI(mark=True, a=8e-5 * k, b=7e-5 * k, reference=Q, interval=0.1)
    system = rounds(pi, network=FAR, clocking="rate")
    assert system.dt == pytest.approx(0.75) and system.verdict == verdict
    expected = exponent(system)
    window = simulate_two_rtts(k, 2.0 + 12.0 / abs(expected.real), 1e-5 if verdict == "stable" else 1e-9)
    mode = decay(0.75 * np.arange(len(window))[3:], window[3:], modes=3)
    assert mode.rate == pytest.approx(expected.real, rel=0.01)


def test_rtts_without_a_common_multiple_are_refused_with_their_values():
    network = Network.dumbbell(C * S, rtts=[0.1] * 20 + [0.2 * 2.0**0.5] * 20, packet_size=1000)
    message = "repeat together within 1000 of them, got 150 and 332.843 ms: use time='continuous'"
    with pytest.raises(LinearizationError, match=message):
        rounds(PI(mark=True, reference=Q), network=network, clocking="rate")


def chain(disciplines, mark):
    """Flows over the first of two links, over the second, and over both."""
    links = [Link(C * S, delay=0.02), Link(0.8 * C * S, delay=0.03)]
    flows = [Flow(route, access_delay=0.02) for route in ([0, 1], [0], [1]) for _ in range(20)]
    return {"flows": NewReno(ecn=mark), "links": dict(enumerate(disciplines))}, Network(links, flows)


@pytest.mark.parametrize("mark", [True, False])
def test_several_queues_tend_to_the_continuous_model(mark):
    """Arrivals downstream depend on q' upstream, which jumps at ticks."""
    targets = [PI(mark=mark, a=4e-5, b=3e-5, reference=reference) for reference in (150.0, 60.0)]
    pair, network = chain(targets, mark)
    continuous = linearize(pair, network, clocking="rate").roots(1)[0]

    def apart(m):
        system = linearize(pair, network, "discrete", clocking="rate", updates_per_rtt=m)
        return abs(near(system, continuous) - continuous)

    assert apart(4) / apart(8) == pytest.approx(2.0, rel=0.2)


def near(system, guess):
    """The exponent near a guess; the proof that none is missing costs more."""
    return newton(lambda s: system.characteristic(np.exp(s * system.dt)), guess * (1.0 + 1e-3), tol=1e-12)


# ---- many updates per RTT, other hosts, other questions ------------------------------------------------------

PAIRS = {
    "NewReno over RED": over(RED(mark=True, max_threshold=300.0, p_max=0.05)),
    "NewReno over REM": over(REM(mark=True)),
    "NewReno over dropping PI2": over(PI2(), NewReno()),
    "CUBIC over PI": over(PI(mark=True, reference=Q), CUBIC(ecn=True)),
    "DCTCP over PI2": over(PI2(mark=True), DCTCP()),
    "Averaging over Excess": over(Excess(mark=True), Averaging()),
}


@pytest.mark.slow
@pytest.mark.parametrize("clocking", ["ack", "rate"])
@pytest.mark.parametrize("name", PAIRS)
def test_many_updates_per_rtt_are_the_continuous_model_to_first_order(name, clocking):
    pair = PAIRS[name]
    continuous = linearize(pair, NET, clocking=clocking).roots(1)[0]

    def apart(m):
        system = linearize(pair, NET, "discrete", clocking=clocking, updates_per_rtt=m)
        return abs(near(system, continuous) - continuous) / abs(continuous)

    assert apart(64) < 0.02
    assert apart(64) / apart(128) == pytest.approx(2.0, rel=0.1)


def test_a_step_is_crossed_once_per_round():
    """Hosts that respond once per RTT: w <- w + 1 - P w/2 with P = (N w - C D_0 - low)/width."""
    low, width = 20.0, 400.0
    ramp = RampMarking(mark=True, min_threshold=low, max_threshold=low + width)
    deployed = read_protocol(over(ramp)).deploy(NET)
    rest = equilibrium_of_marks(deployed, NET, once=True)
    w, P = rest.windows[0] / S, rest.probabilities[0]
    assert P * w == pytest.approx(2.0)
    system = linearize_marks(deployed, NET, "ack", once=True, updates=1)
    assert system.roots(1)[0] == pytest.approx(1.0 - P / 2.0 - N * w / (2.0 * width))


@pytest.mark.slow
def test_a_critical_gain_of_rounds_is_certified_on_both_sides():
    pair = over(PI2(mark=True, alpha=0.05, target=Q / C, interval=0.125))
    loss = critical_gain(pair, NET, "links.beta", "discrete", certify=True, clocking="rate")
    assert loss.certified[0] <= loss.value <= loss.certified[1]


def test_an_analysis_has_the_discrete_model():
    models = analyze(over(RED(mark=True, max_threshold=300.0, p_max=0.05)), NET, certify=False).models
    assert [model.time for model in models] == ["continuous", "discrete"]
    assert all(np.isfinite(abs(model.system.roots(1)[0])) for model in models)


@pytest.mark.parametrize(
    ("discipline", "options", "message"),
    [
        (PI(mark=True), {"updates_per_rtt": 0}, "updates_per_rtt must be >= 1, got 0"),
        (PI(mark=True), {"phases": [0.0]}, "phases belong to time='hybrid', got time='discrete'"),
        (
            AVQ(mark=True),
            {},
            "windows have a self-clocked linear model over queue disciplines only if one kind of flow",
        ),
    ],
)
def test_options_and_networks_that_rounds_do_not_have_are_refused_in_one_line(discipline, options, message):
    with pytest.raises((ValueError, LinearizationError), match=message) as error:
        rounds(discipline, **options)
    assert "\n" not in str(error.value)
