"""Hosts over disciplines that step at ticks: against equations integrated here, and an exact characteristic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import newton

import ecc
from ecc.contract.assignment import read_protocol, with_parameter
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import CUBIC, DCTCP, NewReno, Prague
from ecc.network.network import Flow, Link, Network
from ecc.queues import AVQ, PI, PI2, PIE, RED, REM
from ecc.results.transients import decay
from ecc.stability import analyze, critical_gain, stability_map, stable_interval

S = 8000.0  # bit, a packet
N, C, D, Q = 60, 3750.0, 0.25, 187.5  # flows, packets/s, s with the queue, packets in it
NET = Network.dumbbell(C * S, rtts=[D - Q / C] * N, packet_size=1000)
DISCIPLINES = {  # of a scale k of all gains
    "PI": lambda k: PI(mark=True, a=8e-5 * k, b=7e-5 * k, reference=Q, interval=0.1),
    "PI2": lambda k: PI2(mark=True, alpha=0.05 * k, beta=0.5 * k, target=Q / C, interval=0.125),
    "PIE": lambda k: PIE(mark=True, alpha=0.05 * k, beta=0.5 * k, target=Q / C, interval=0.125),
    "REM": lambda k: REM(mark=True, gamma=0.05 * k, reference=Q, interval=0.1, weight=0.4),
}


def over(discipline, host=None):
    return {"flows": host or NewReno(ecn=True), "links": discipline}


def hybrid(discipline, clocking="rate", network=NET):
    return linearize(over(discipline), network, "hybrid", clocking=clocking)


def exponent(system):
    return np.log(system.roots(1)[0]) / system.dt


def root_near(system, guess):
    """A characteristic exponent near a guess: a Newton iteration costs less than the proof that none is missing."""
    return newton(lambda s: system.characteristic(np.exp(s * system.dt)), guess * (1.0 + 1e-3), tol=1e-12)


def ticks(name, k):
    """What a discipline does at a tick, written here: state and queue now and before, packets that came -> state, p."""
    T = 0.1 if name in ("PI", "REM") else 0.125

    def pi(z, q, q_prev, came):
        z = z + 8e-5 * k * (q - Q) - 7e-5 * k * (q_prev - Q)
        return z, z

    def by_delay(z, q, q_prev):
        return k * (0.05 * (q - Q) / C + 0.5 * (q - q_prev) / C)

    def pi2(z, q, q_prev, came):
        z = z + by_delay(z, q, q_prev)
        return z, z * z

    def pie(z, q, q_prev, came):
        z = z + by_delay(z, q, q_prev) / 8.0
        return z, z

    def rem(z, q, q_prev, came):
        average, price = z
        average = 0.6 * average + 0.4 * came
        price = price + 0.05 * k * (0.1 * (q - Q) + average - C * T)
        return (average, price), 1.0 - 1.001**-price

    return T, {"PI": pi, "PI2": pi2, "PIE": pie, "REM": rem}[name]


def growth(name, k, end, push, dt=2.5e-3):
    """The rate of decay of the queue: Heun's method on the nonlinear equations, in packets, probabilities held."""
    at_rest = equilibrium_of_marks(read_protocol(over(DISCIPLINES[name](k))).deploy(NET), NET)
    w0, p0, states = at_rest.windows[0] / S, at_rest.probabilities[0], tuple(at_rest.states[0].values())
    T, tick = ticks(name, k)
    lag, every, steps = round(D / dt), round(T / dt), round(end / dt)
    start = 2 * lag
    w, q, p = np.full(start + steps + 1, w0), np.full(start + steps + 1, Q), np.full(start + steps + 1, p0)
    w[start] *= 1.0 + push
    base, came, seen = D - Q / C, 0.0, Q
    z = states if len(states) > 1 else states[0]

    def moves(i, w_now, marked):
        y = N * w_now / (base + q[i - lag] / C)
        sent = w[i - lag] / (base + q[i - 2 * lag] / C)
        acked = sent * (1.0 - (N * sent - C) / C)
        return 1.0 / (base + q[i - lag] / C) - acked * marked * 0.5 * w_now, y

    for i in range(start, start + steps):
        if (i - start) % every == 0 and i > start:
            z, p[i] = tick(z, q[i], seen, came)
            came, seen = 0.0, q[i]
        else:
            p[i] = p[i - 1]
        slope, y = moves(i, w[i], p[i - lag])
        guess = w[i] + dt * slope
        later, y_later = moves(i + 1, guess, p[i - lag])
        w[i + 1] = w[i] + 0.5 * dt * (slope + later)
        q[i + 1] = q[i] + dt * (0.5 * (y + y_later) - C)
        came += 0.5 * dt * (y + y_later)
    late = slice(start + steps // 4, None)
    return decay(dt * np.arange(len(q))[late], q[late] / Q - 1.0).rate


STABLE = {"PI": 0.8, "PI2": 1.6, "PIE": 3.2, "REM": 0.8}  # scales


@pytest.mark.slow
@pytest.mark.parametrize("name", DISCIPLINES)
def test_growth_on_both_sides_of_the_boundary_is_that_of_equations_with_held_probabilities(name):
    boundary = STABLE[name] * hybrid(DISCIPLINES[name](STABLE[name])).margins().gain_margin  # a scale is a gain
    for k, push in ((0.85 * boundary, 1e-4), (1.2 * boundary, 1e-8)):
        rate = exponent(hybrid(DISCIPLINES[name](k))).real
        assert rate * (k - boundary) > 0.0
        assert growth(name, k, 10.0 / abs(rate), push) == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize("k", [1.1, 1.6])
def test_the_fluid_steps_disciplines_at_their_ticks(k):
    pair = over(DISCIPLINES["REM"](k))
    run = ecc.fluid.simulate(
        ecc.Scenario(NET, pair, 18.0), sample=0.01, start="equilibrium", perturbation=1e-5, clocking="rate"
    )
    late = run.queue.sel(time=slice(4.0, None))
    found = decay(late.time.values, late.values[:, 0] / (1000.0 * Q) - 1.0)
    spread = linearize(pair, NET, clocking="rate").roots(1)[0]
    held = root_near(linearize(pair, NET, "hybrid", clocking="rate"), spread)
    assert found.rate == pytest.approx(held.real, rel=0.01) and found.rate != pytest.approx(spread.real, rel=0.05)


def exact_characteristic(s, discipline, T):
    """Of NewReno clocked by ACKs over PI2: the sampled transfer function, by its series over aliases.

    w' = [1/w - w P(t - D)/2] C/N, with q(t) = N w(t) - C D_0, in packets
    """
    w = C * D / N
    p = 2.0 * (N / (C * D)) ** 2
    aliases = s + 2j * np.pi / T * np.arange(-(10**5), 10**5 + 1)
    to_w = -0.5 * w * C / N * np.exp(-aliases * D) / (aliases + 2.0 / (D * w))
    z = np.exp(s * T)
    held = (1.0 - 1.0 / z) / aliases
    q = N * np.sum(to_w * held) / T * 2.0 * np.sqrt(p)
    return 1.0 - 1.0 / z - (discipline.alpha + discipline.beta * (1.0 - 1.0 / z)) * q / C


@pytest.mark.parametrize("interval", [0.02, 0.125, 0.6])
@pytest.mark.parametrize("scale", [0.2, 2.0])
def test_roots_are_those_of_the_exact_characteristic(interval, scale):
    discipline = PI2(mark=True, alpha=0.4 * scale * interval, beta=0.5 * scale, target=Q / C, interval=interval)
    system = hybrid(discipline, "ack")
    spread = linearize(over(discipline), NET).roots(1)[0]
    found = exponent(system) if interval > D else root_near(system, spread)  # too far from the continuous one
    exact = newton(exact_characteristic, found * (1.0 + 1e-4), args=(discipline, interval), tol=1e-10)
    assert abs(found - exact) < 1e-5 * abs(exact)


@pytest.mark.parametrize("mark", [True, False])
def test_short_intervals_are_the_continuous_model_to_second_order(mark):
    def apart(T):
        discipline = PI2(mark=mark, alpha=0.4 * T, beta=0.5, target=Q / C, interval=T)
        continuous = linearize(over(discipline), NET, clocking="rate").roots(1)[0]
        return abs(root_near(hybrid(discipline), continuous) - continuous)

    coarse, fine = apart(0.125), apart(0.0625)
    assert fine < 1e-3 and 3.0 < coarse / fine < 20.0


STATEFUL = {  # hosts with states, and disciplines of an interval T
    "DCTCP over PI": (DCTCP(), lambda T: PI(mark=True, a=1e-4 + 5e-4 * T, b=1e-4 - 5e-4 * T, reference=Q, interval=T)),
    "CUBIC over PI2": (CUBIC(ecn=True), lambda T: PI2(mark=True, alpha=0.4 * T, beta=0.5, target=Q / C, interval=T)),
    "Prague over PIE": (Prague(), lambda T: PIE(mark=True, alpha=0.4 * T, beta=0.5, target=Q / C, interval=T)),
    "Prague over REM": (
        Prague(),
        lambda T: REM(mark=True, gamma=0.05, alpha=T, reference=Q, interval=T, weight=4.0 * T),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("clocking", ["ack", "rate"])
@pytest.mark.parametrize("name", STATEFUL)
def test_hosts_with_states_over_short_intervals_are_the_continuous_model(name, clocking):
    """To first order over REM, which averages arrivals over an interval, and otherwise to second order."""
    host, discipline = STATEFUL[name]

    def apart(T):
        pair = over(discipline(T), host)
        continuous = linearize(pair, NET, clocking=clocking).roots(1)[0]
        return abs(root_near(linearize(pair, NET, "hybrid", clocking=clocking), continuous) - continuous)

    assert apart(0.02) < 1e-3 and apart(0.08) > 3.5 * apart(0.02)


@pytest.mark.slow
def test_boundaries_are_found_and_certified():
    pair = over(PI2(mark=True, alpha=0.01, target=Q / C))
    loss = critical_gain(pair, NET, "links.beta", "hybrid", certify=True)
    assert loss.certified[0] <= loss.value <= loss.certified[1]
    inside, outside = (with_parameter(read_protocol(pair), "links.beta", f * loss.value) for f in (0.999, 1.001))
    assert linearize(inside, NET, "hybrid").is_stable and not linearize(outside, NET, "hybrid").is_stable
    grid = {"links.beta": [0.99 * loss.value, 1.01 * loss.value], "links.target": [Q / C]}
    assert (stability_map(pair, NET, grid, "hybrid") < 1.0).values.ravel().tolist() == [True, False]


@pytest.mark.slow
def test_the_stable_interval_ends_at_the_critical_gain():
    pair = over(PI2(mark=True, alpha=0.01, target=Q / C))
    found = stable_interval(pair, NET, "links.beta", "hybrid", certify=False)
    assert found.upper == pytest.approx(critical_gain(pair, NET, "links.beta", "hybrid").value)
    spread = critical_gain(pair, NET, "links.beta").value
    assert found.upper != pytest.approx(spread, rel=1e-6) and found.upper == pytest.approx(spread, rel=0.05)


@pytest.mark.slow
def test_an_analysis_has_all_models():
    said = analyze(over(DISCIPLINES["PI2"](1.0)), NET, certify=False)
    assert [model.time for model in said.models] == ["continuous", "discrete", "hybrid"]
    spread, _, held = (model.margins.gain_margin for model in said.models)
    assert held != spread and held == pytest.approx(spread, rel=0.05)
    assert not any("spread evenly" in note for note in said.models[2].notes)
    times = [model.time for model in analyze(over(AVQ(mark=True)), NET, clocking="rate").models]
    assert times == ["continuous", "discrete"]


def two_queues(phases, *disciplines):
    """Two bottlenecks, each with flows of its own, and flows that cross both."""
    links = [Link(C * S, delay=0.02), Link(0.8 * C * S, delay=0.03)]
    flows = [Flow(route, access_delay=0.02) for route in ([0, 1], [0], [1]) for _ in range(20)]
    pair = {"flows": NewReno(ecn=True), "links": dict(enumerate(disciplines))}
    return pair, Network(links, flows), {"clocking": "rate", "phases": phases}


def assert_continuous(system, continuous):
    """A root is near one of the continuous model."""
    near = newton(continuous.characteristic, 0.5 + 5.0j, tol=1e-12)
    found = root_near(system, near)
    assert abs(found - near) < 5e-3 * abs(near) and abs(found - near) > 1e-9 * abs(near)


def test_disciplines_of_several_links_tick_by_their_own_clocks():
    pair, network, options = two_queues(None, PI2(mark=True, beta=1.0), PI2(mark=True, beta=1.0, interval=0.02))
    system = linearize(pair, network, "hybrid", **options)
    assert system.dt == pytest.approx(0.06)
    assert_continuous(system, linearize(pair, network, clocking="rate"))


def test_what_does_not_step_at_ticks_moves_all_the_time_beside_what_does():
    pair, network, options = two_queues(
        None, RED(mark=True, max_threshold=200.0, weight=2e-4), PI2(mark=True, beta=1.0)
    )
    assert_continuous(linearize(pair, network, "hybrid", **options), linearize(pair, network, clocking="rate"))


@pytest.mark.parametrize(
    ("discipline", "options", "message"),
    [
        (RED(mark=True, max_threshold=300.0), {}, "RED has no control interval: time must be 'continuous'"),
        (AVQ(mark=True), {"clocking": "rate"}, "AVQ has no control interval: time must be 'continuous'"),
        (
            PI(mark=True),
            {"intervals": [0.1]},
            "approximation, assignment, mean_rtt and intervals must be None for hosts",
        ),
        (PI(mark=True), {"phases": [1.0]}, r"phases must be 1 numbers in \[0, 1\), got \[1.0\]"),
        (
            PI(mark=True),
            {"phases": [0.0], "time": "continuous"},
            "phases belong to time='hybrid', got time='continuous'",
        ),
        (PI(mark=True), {"updates_per_rtt": 2}, "updates_per_rtt belongs to time='discrete', got time='hybrid'"),
    ],
)
def test_what_has_no_hybrid_model_is_refused_in_one_line(discipline, options, message):
    with pytest.raises(ValueError, match=message) as error:
        linearize(over(discipline), NET, **{"time": "hybrid", **options})
    assert "\n" not in str(error.value)
