"""Random cycles against closed forms, differences of the map, and packet and fluid runs."""

from math import log as ln

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.closed_loop import limit_cycle
from ecc.cycles.lyapunov import paired_distances
from ecc.cycles.random_cycles import random_cycle
from ecc.cycles.random_windows import random_step, random_windows
from ecc.errors import LinearizationError
from ecc.laws.jets import directional
from ecc.models import BBR, CUBIC, Compound, NewReno, Prague, Vivace
from ecc.models.vivace import round_of_drawn_probes, round_of_probes
from ecc.queues import PI, PI2, RED
from ecc.stability.verdicts import reference_case

NETWORK = ecc.Network.dumbbell("20 Mb/s", rtts=["100 ms"] * 3, packet_size=1000)
DISCIPLINES = {
    "PI": PI(packet_size=1000),
    "PI2": PI2(packet_size=1000),
    "RED": RED(packet_size=1000, min_threshold=20.0, max_threshold=120.0, p_max=0.05),
}


def over(name, hosts=None):
    return ProtocolAssignment(hosts or NewReno(), DISCIPLINES[name])


@pytest.mark.parametrize("time", ["continuous", "discrete"])
@pytest.mark.parametrize("name", list(DISCIPLINES))
def test_the_equilibrium_is_a_fixed_point_of_the_mean_and_draws_act_as_declared(name, time):
    windows = random_windows(over(name), NETWORK, time)
    none = random_step(windows.state, [1.0] * windows.draws, windows.p)
    every = random_step(windows.state, [0.0] * windows.draws, windows.p)
    w, step, s = windows.state[0], 1.0 / windows.steps_per_rtt, 8000.0
    assert none[0] == pytest.approx(w + step * s, rel=1e-9) and none[-1] == 0
    assert every[0] == pytest.approx(0.5 * w, rel=1e-9) and every[-1] == 3 and every[1] == windows.steps_per_rtt
    held = random_step(every, [0.0] * windows.draws, windows.p)
    assert held[0] == every[0] and held[1] == windows.steps_per_rtt - 1 and held[-1] == 3
    flows, D = sum(none[:6:2]), NETWORK.rtts[0]
    assert none[6] == pytest.approx(flows / s - 20e6 / s * D, rel=1e-9)  # the queue that windows fill


@pytest.mark.parametrize("name", list(DISCIPLINES))
def test_derivatives_of_the_random_map_are_its_differences(name):
    windows = random_windows(over(name, CUBIC()), NETWORK, "continuous")
    rng, state = np.random.default_rng(2), list(windows.state)
    for _ in range(30):
        state = random_step(state, rng.random(3).tolist(), windows.p)
    u = rng.random(3).tolist()
    line = [0.0 if isinstance(value, int) else (1.0 + 0.3 * k) * abs(value) for k, value in enumerate(state)]
    _, slopes = directional(random_step, state, line, u, windows.p)
    sides = [
        random_step([v if isinstance(v, int) else v + h * d for v, d in zip(state, line, strict=True)], u, windows.p)
        for h in (1e-7, -1e-7)
    ]
    differences = [(a - b) / 2e-7 for a, b in zip(*sides, strict=True)]
    scale = [max(abs(d), 1e-6 * abs(x), 1e-12) for d, x in zip(line, state, strict=True)]
    assert np.allclose(np.array(slopes) / scale, np.array(differences) / scale, atol=1e-5)


@pytest.mark.slow
def test_newreno_forgets_by_a_factor_of_two_per_loss():
    cycle = limit_cycle(over("PI2"), NETWORK, "discrete")
    low, high = cycle.interval
    assert cycle.object == "random cycle" and cycle.stable
    assert low < ln(0.5) < high and high - low < 0.6
    assert cycle.exponent == random_cycle(over("PI2"), NETWORK, "discrete").exponent
    assert "random cycle" in str(cycle).lower()
    assert cycle.orbit["windows"].shape == (3, len(cycle.orbit["time"]))
    system = ecc.linearize(over("PI2"), NETWORK, "discrete")
    expected = np.abs(system.dominant_root) ** (cycle.period / system.sampling[1])
    assert abs(cycle.dominant) == pytest.approx(expected, rel=1e-6)


def test_hosts_respond_to_the_feedback_of_routers_on_the_queue():
    loop, network = reference_case(Compound())
    windows = random_windows(loop, network, "discrete")
    place = windows.draws * (len(windows.p.flows[0].states) + 2)  # of the queue
    growth = []
    for factor in (0.0, 1.0):
        state = list(windows.state)
        state[place] *= factor
        growth.append(random_step(state, [1.0] * windows.draws, windows.p)[0] - state[0])
    assert growth[0] > growth[1] > 0.0


@pytest.mark.slow
def test_most_small_deviations_over_red_vanish_in_runs_with_the_same_draws():
    windows = random_windows(over("RED"), NETWORK, "discrete")
    other = [value if isinstance(value, int) else (1.0 + 1e-4) * value for value in windows.state]
    final = [
        paired_distances(random_step, windows.state, other, windows.p, 3, steps=700, seed=seed)[-1, :6:2].max()
        for seed in range(10)
    ]
    assert windows.state[0] * 1e-4 > 10.0
    assert sum(distance < 0.1 for distance in final) >= 8  # bit


@pytest.mark.slow
def test_period_queue_and_its_variation_are_those_of_packet_and_fluid_runs():
    network = ecc.Network.dumbbell("30 Mb/s", rtts=["190 ms"] * 60, packet_size=1000)
    loop = ProtocolAssignment(NewReno(), PI(packet_size=1000, reference=200.0))
    windows = random_windows(loop, network, "continuous")
    rng, state, queue = np.random.default_rng(5), list(windows.state), []
    for _ in range(2400):
        state = random_step(state, rng.random(60).tolist(), windows.p)
        queue.append(1000.0 * state[120])
    scenario = ecc.Scenario(network, loop, duration=120.0, seed=3)
    fluid = ecc.fluid.simulate(scenario, sample=0.05, signals="random", start="equilibrium")
    packets = ecc.packet.simulate(scenario, sample=0.05)
    for run in (fluid, packets):
        series = run.queue[800:, 0].to_numpy()
        assert np.mean(queue[200:]) == pytest.approx(series.mean(), rel=0.03)
        assert np.std(queue[200:]) == pytest.approx(series.std(), rel=0.12)


def test_vivace_draws_the_order_of_its_probes_and_forgets():
    form = Vivace().round_map(ecc.Network.dumbbell("100 Mb/s", rtts=["30 ms"] * 2))
    assert form.draws == 2
    state = list(form.state)
    assert round_of_drawn_probes(state, [0.0, 0.4], form.p) == round_of_probes(state, form.p)
    assert round_of_drawn_probes(state, [0.9, 0.0], form.p) != round_of_probes(state, form.p)
    uspace = Vivace(form="pcc-uspace").round_map(ecc.Network.dumbbell("100 Mb/s", rtts=["30 ms"] * 2))
    assert uspace.draws == 6


@pytest.mark.slow
def test_the_random_cycle_of_vivace_has_a_negative_exponent():
    cycle = random_cycle(Vivace(), ecc.Network.dumbbell("100 Mb/s", rtts=["30 ms"] * 2), "discrete")
    assert cycle.stable and cycle.interval[1] < 0.0
    assert 0.1 < cycle.period < 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random_cycle(BBR(), NETWORK, "discrete"), "it declares neither a queue discipline nor a map per rou"),
        (lambda: random_cycle(Vivace(), NETWORK, "continuous"), "its random map per round is in discrete time"),
        (lambda: random_cycle(ecc.models.SPERC(), NETWORK, "discrete"), "its map per round makes no random choices"),
        (lambda: random_windows(*reference_case(Prague()), "discrete"), "its flows expect .* signals in an RTT"),
        (lambda: random_windows(over("PI2", ecc.models.BIC()), NETWORK, "discrete"), "BIC has no linear model over"),
    ],
)
def test_loops_without_a_random_map_are_declined_with_a_reason(make, message):
    with pytest.raises(LinearizationError, match=f"^{message}"):
        make()


def windows_at_losses(initial, seed):
    """Windows [packets] at the reductions of a flow without a queue, whose packets are lost by their numbers."""
    network = ecc.Network.dumbbell("10 Gb/s", rtts=["50 ms"], packet_size=1000)
    losses = [ecc.impairments.RandomLoss(1e-4, link=0)]
    scenario = ecc.Scenario(network, NewReno(initial=initial), duration=40.0, seed=seed, impairments=losses)
    w = ecc.packet.simulate(scenario, sample=0.025, record=["env.window"])["env.window"][:, 0].to_numpy() / 1000
    falls = np.flatnonzero(w[1:] < 0.75 * w[:-1])
    return w[falls[np.diff(falls, prepend=-100) > 8]]


def aligned(one, other):
    """Two sequences, shifted by the number of losses that agrees best after the transient."""

    def shifted(shift):
        a, b = one[max(0, -shift) :], other[max(0, shift) :]
        size = min(len(a), len(b))
        return a[:size], b[:size]

    return min((shifted(shift) for shift in range(-4, 5)), key=lambda pair: np.abs(pair[0] - pair[1])[5:].sum())


@pytest.mark.slow
def test_packet_runs_that_lose_the_same_packets_converge_as_the_map_from_loss_to_loss():
    """With K packets between losses w'^2 = w^2/4 + 2 K, so that a deviation is multiplied by w/(4 w')."""
    excess = []
    for seed in range(12):
        one, other = aligned(windows_at_losses(300.0, seed), windows_at_losses(3000.0, seed))
        deviation, mean = np.abs(one - other), 0.5 * (one + other)
        for k in range(len(one) - 1):
            if 6.0 < deviation[k] < 0.3 * mean[k]:  # above the grain of packets, and small
                expected = ln(mean[k] / (4.0 * mean[k + 1]))
                excess.append(ln(max(deviation[k + 1], 1e-3) / deviation[k]) - expected)
    assert len(excess) > 20
    assert abs(np.median(excess)) < 0.1
