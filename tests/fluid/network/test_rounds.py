"""Windows in discrete time: maps per round, equilibria, sawtooths, disciplines, and the limit of many updates."""

import numpy as np
import pytest

import ecc
from ecc import Network, Scenario
from ecc.fluid import simulate
from ecc.models import (
    BIC,
    CUBIC,
    DCTCP,
    FAST,
    HPCC,
    VCP,
    Compound,
    NewReno,
    PowerTCP,
    Swift,
    ThetaPowerTCP,
    Vegas,
)
from ecc.queues import PI2, PIE, RED, REM, CoDel, RampMarking, StepMarking

RTT, C, PACKET = 0.1, 100e6, 8000.0
PIPE = C * RTT


def steps_of(windows):
    """Return the successive values of a window that is constant between ticks."""
    values = np.asarray(windows)
    return values[np.concatenate([[True], np.abs(np.diff(values)) > 1e-9 * values[1:]])]


def windows_of(scenario, sample=0.001, **options):
    run = simulate(scenario, sample, time="discrete", record=["env.window"], **options)
    assert run.stats["stopped"] == "completed"
    return run, 8.0 * run.data["env.window"].values


# ---- one kind of flow: the map of textbooks ---------------------------------------------------------------------


class AnyGain(FAST):
    def __post_init__(self):
        """Accept gains above 1, for which FAST is unstable from 2 on."""


def fast_map(w, N, gamma, queued, rounds):
    """Return windows of N equal FAST flows round by round: w[n + 1] = law(w[n], q[n]), q[n] = sum w[n] - C d."""
    windows = [w]
    for _ in range(rounds):
        q = max(0.0, N * w - PIPE)
        w = min(2.0 * w, (1.0 - gamma) * w + gamma * (RTT / (RTT + q / C) * w + queued))
        windows.append(w)
    return np.array(windows)


@pytest.mark.parametrize(("flows", "gamma", "offset"), [(1, 0.5, 0.3), (3, 0.9, 0.2), (2, 1.5, 0.05), (4, 2.05, 1e-3)])
def test_equal_flows_follow_the_map_of_windows_and_queue(flows, gamma, offset):
    """FAST with alpha packets in the queue: the factor per round is 1 - gamma, which is unstable above gamma = 2."""
    protocol = AnyGain(alpha=60, gamma=gamma)
    network = Network.dumbbell("100 Mb/s", [RTT] * flows)
    run, windows = windows_of(Scenario(network, protocol, 3.0), start="equilibrium", perturbation=offset)
    measured = steps_of(windows[:, 0])
    begin = (1.0 + offset) * (PIPE / flows + 60 * PACKET)
    expected = steps_of(fast_map(begin, flows, gamma, 60 * PACKET, 40))
    n = min(len(measured), len(expected), 20)
    assert n >= 9
    np.testing.assert_allclose(measured[:n], expected[:n], rtol=1e-8)
    factors = np.diff(measured[:4] - (PIPE / flows + 60 * PACKET)) / (measured[:3] - (PIPE / flows + 60 * PACKET))
    assert factors[-1] == pytest.approx(-gamma, rel=1e-2)
    assert run.queue.values[-1, 0] * 8.0 == pytest.approx(flows * windows[-1, 0] - PIPE, abs=1.0)


def sawtooth(w, limit, rounds):
    """Return NewReno's windows over a full queue: half a packet beyond the limit is a loss; then a round of rest."""
    windows, rests, beyond = [w], False, 0.0
    for _ in range(rounds):
        beyond += max(0.0, w - limit - beyond)
        if rests:  # the recovery
            rests, beyond = False, 0.0
        elif beyond >= 0.5 * PACKET:
            w, rests, beyond = w / 2.0, True, 0.0
        else:
            w += PACKET
        windows.append(w)
    return np.array(windows)


@pytest.mark.slow
def test_newreno_has_the_sawtooth_of_its_law():
    capacity, buffer = 20e6, 100_000
    network = Network.dumbbell(capacity, [RTT], buffer=buffer)
    run, windows = windows_of(Scenario(network, NewReno(), 200.0), sample=0.02)
    limit = capacity * RTT + 8.0 * buffer
    measured = steps_of(windows[:, 0])
    falls = np.flatnonzero(measured[1:] < 0.6 * measured[:-1])
    assert len(falls) >= 4
    for a, b in zip(falls[1:-1], falls[2:], strict=True):
        cycle = measured[a + 1 : b + 1]
        expected = steps_of(sawtooth(cycle[0], limit, 10_000))[: len(cycle)]
        np.testing.assert_allclose(cycle, expected, rtol=1e-9)
        assert limit < cycle[-1] <= limit + 1.5 * PACKET
        assert cycle[0] == pytest.approx(measured[a] / 2.0, rel=1e-9)
    # windows from W/2 to W at the full queue, a packet a round: the same mean as in continuous time
    continuous = simulate(Scenario(network, NewReno(), 200.0), 0.02, record=["env.window"])
    mean = [run.data["env.window"].values[2000:, 0].mean() for run in (run, continuous)]
    assert mean[0] == pytest.approx(mean[1], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.4, 0.5, 0.6])
def test_an_integrating_queue_has_the_roots_of_the_linear_model_on_both_sides_of_its_limit(gamma):
    network, protocol = Network.dumbbell("100 Mb/s", [RTT]), FAST(alpha=100, gamma=gamma)
    model = ecc.linearize(protocol, network, "discrete", clocking="rate")
    expected = next(root for root in model.roots(6) if root.imag > 1e-3)
    assert (abs(expected) > 1.0) == (gamma > 0.55)
    runs = []
    for offset in (1e-4, -1e-4):
        scenario, options = Scenario(network, protocol, 3.5), {"clocking": "rate", "start": "equilibrium"}
        _, windows = windows_of(scenario, model.dt / 200, perturbation=offset, **options)
        runs.append(steps_of(windows[:, 0]))
    n = min(map(len, runs))
    y = (runs[0][:n] - runs[1][:n])[6:]
    a, b = np.linalg.lstsq(np.array([y[1:-1], y[:-2]]).T, y[2:], rcond=None)[0]
    assert np.abs(np.roots([1.0, -a, -b]) - expected).min() < 0.04


# ---- equilibria ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "network", "duration", "clocking"),
    [
        (FAST(alpha=50), Network.dumbbell("100 Mb/s", [0.04, 0.1]), 20.0, "ack"),
        (FAST(alpha=50, gamma=0.2), Network.dumbbell("100 Mb/s", [0.04, 0.1]), 20.0, "rate"),
        (ThetaPowerTCP(), Network.dumbbell("10 Gb/s", [13e-6] * 3), 2e-3, "ack"),
        (HPCC(), Network.dumbbell("10 Gb/s", [13e-6] * 3), 2e-3, "ack"),
        (FAST(alpha=10, gamma=0.2), Network.parking_lot(["100 Mb/s", "100 Mb/s"], delay="10 ms"), 30.0, "ack"),
    ],
    ids=str,
)
def test_runs_from_the_equilibrium_stay_at_it(protocol, network, duration, clocking):
    point = protocol.equilibrium(network)
    run = simulate(Scenario(network, protocol, duration), start="equilibrium", time="discrete", clocking=clocking)
    np.testing.assert_allclose(run.rate.values[-10:].mean(axis=0), point.rates, rtol=2e-3)
    queue = np.zeros(network.n_links) if point.queue is None else point.queue / 8.0
    np.testing.assert_allclose(run.queue.values[-1], queue, atol=0.02 * max(queue.max(), 1000.0))


def test_vegas_keeps_its_packets_in_the_queue():
    network = Network.dumbbell("100 Mb/s", [0.05] * 3)
    run = simulate(Scenario(network, Vegas(), 60.0), time="discrete")
    queued = run.queue.values[-20:, 0].mean() / 1000.0
    assert 3 * Vegas().alpha - 1.0 <= queued <= 3 * Vegas().beta + 1.0


@pytest.mark.parametrize("discipline", [RED(), PI2()], ids=str)
def test_marks_and_drops_have_the_equilibrium_of_the_linear_model(discipline):
    from ecc.loops.marked_hosts import equilibrium_of_marks

    network = Network.dumbbell("10 Mb/s", [0.1] * 10, buffer="500 kB")
    deployed = {"flows": NewReno(), "links": discipline}
    scenario = Scenario(network, deployed, 30.0)
    point = equilibrium_of_marks(scenario.deployment, network)
    _, windows = windows_of(scenario, sample=0.1, start="equilibrium")
    expected = point.rates[0] * (0.1 + point.queues[0] / 10e6)
    np.testing.assert_allclose(windows[:3, 0], expected, rtol=0.01)


# ---- marks: the map of windows and probabilities, and linear models in rounds ---------------------------------------


def perturbed_windows(deployed, network, duration, D, perturbation=1e-3):
    """Return half the difference of the windows of two runs that start on both sides of the equilibrium."""
    runs = []
    for offset in (perturbation, -perturbation):
        scenario = Scenario(network, deployed, duration)
        _, windows = windows_of(scenario, sample=D / 200, start="equilibrium", perturbation=offset)
        runs.append(steps_of(windows[:, 0]))
    n = min(map(len, runs))
    return 0.5 * (runs[0][:n] - runs[1][:n])


@pytest.mark.parametrize("highest", [900.0, 1050.0, 1300.0, 3000.0])
def test_a_ramp_of_marks_has_the_multiplier_of_the_linear_model_on_both_sides_of_minus_one(highest):
    network = Network.dumbbell("10 Mb/s", [0.1] * 4, buffer="2 MB")
    deployed = {"flows": NewReno(ecn=True), "links": RampMarking(min_threshold=5.0, max_threshold=highest)}
    model = ecc.linearize(deployed, network, "discrete")
    multiplier = model.roots(1)[0].real
    assert (multiplier < -1.0) == (highest < 1100.0)
    y = perturbed_windows(deployed, network, 1.5, model.dt, 1e-4)
    np.testing.assert_allclose(y[2:8] / y[1:7], multiplier, rtol=1e-3)


def test_a_ramp_of_marks_follows_the_map_of_windows_and_probability():
    network = Network.dumbbell("10 Mb/s", [0.1] * 4, buffer="2 MB")
    deployed = {"flows": NewReno(ecn=True), "links": RampMarking(min_threshold=5.0, max_threshold=2000.0)}
    _, windows = windows_of(Scenario(network, deployed, 3.0), start="equilibrium", perturbation=0.05)
    measured = steps_of(windows[:, 0])
    w, expected = measured[0], []
    for _ in range(12):
        expected.append(w)
        P = (max(0.0, 4 * w - 1e6) / PACKET - 5.0) / 1995.0
        w += PACKET - min(1.0, min(max(P, 0.0), 1.0) * w / PACKET) * w / 2.0
    np.testing.assert_allclose(measured[:12], expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("discipline", "tolerance"),
    [(REM(), 0.003), (PI2(), 0.03), (PIE(), 0.03), (RED(min_threshold=5, max_threshold=400), 0.03)],
    ids=["REM", "PI2", "PIE", "RED"],
)
def test_disciplines_have_the_roots_of_the_linear_model_in_rounds(discipline, tolerance):
    """Disciplines step at their ticks here, and evenly in the linear model; RED drops, which delays the ACKs."""
    network = Network.dumbbell("10 Mb/s", [0.1] * 4, buffer="2 MB")
    deployed = {"flows": NewReno(ecn="ecn" in discipline.gives), "links": discipline}
    model = ecc.linearize(deployed, network, "discrete")
    expected = next(root for root in model.roots(4) if root.imag > 1e-3)
    y = perturbed_windows(deployed, network, 4.0, model.dt)[1:25]
    fitted = np.linalg.lstsq(np.array([y[k : k - 3] for k in range(3)]).T, y[3:], rcond=None)[0]
    roots = np.roots([1.0, *(-fitted[::-1])])
    assert np.abs(roots - expected).min() < tolerance


# ---- the limit of many updates -------------------------------------------------------------------------------------


def test_more_updates_per_rtt_come_closer_to_continuous_time():
    network = Network.dumbbell("100 Mb/s", [0.05, 0.1])
    scenario = Scenario(network, FAST(alpha=80, gamma=0.3), 1.5)
    options = {"start": "equilibrium", "perturbation": 0.1, "clocking": "rate", "record": ["env.window"]}
    continuous = simulate(scenario, 0.01, **options).data["env.window"].values
    errors = []
    for m in (1, 2, 4, 8):
        windows = simulate(scenario, 0.01, time="discrete", updates_per_rtt=m, **options).data["env.window"].values
        errors.append(np.abs(windows - continuous).mean())
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.5 * errors[0]


@pytest.mark.parametrize("protocol", [CUBIC(), BIC(), Compound(), VCP()], ids=str)
def test_many_updates_have_the_cycles_of_continuous_time(protocol):
    scenario = Scenario(Network.dumbbell("50 Mb/s", [0.08], buffer="500 kB"), protocol, 120.0)
    continuous = simulate(scenario, 0.5, record=["env.window"]).data["env.window"].values[60:, 0].mean()
    run = simulate(scenario, 0.5, time="discrete", updates_per_rtt=50, record=["env.window"])
    assert run.data["env.window"].values[60:, 0].mean() == pytest.approx(continuous, rel=0.1)


# ---- conservation, starts, stops and sizes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "protocol",
    [
        NewReno(),
        {"flows": NewReno(), "links": RED()},
        {"flows": NewReno(), "links": CoDel()},
        {"flows": DCTCP(), "links": StepMarking()},
    ],
    ids=["drop-tail", "RED", "CoDel", "step"],
)
@pytest.mark.parametrize("clocking", ["ack", "rate"])
def test_bytes_are_delivered_lost_or_in_flight(protocol, clocking):
    flows = [
        ecc.Flow(route=[0], access_delay=0.01),
        ecc.Flow(route=[0], access_delay=0.02, start=1.0, stop=4.0),
        ecc.Flow(route=[0], access_delay=0.015, start=2.0, size=1_000_000),
    ]
    network = Network([ecc.Link("20 Mb/s", 0.01, buffer=150_000)], flows)
    run = simulate(Scenario(network, protocol, 8.0), 0.1, time="discrete", clocking=clocking)
    assert run.stats["stopped"] == "completed"
    sent = run.rate.values.sum(axis=0) * 0.1 / 8.0
    remaining = sent - run.flows["delivered"].values - run.flows["lost"].values
    assert np.all(remaining >= -1e-6 * sent)
    assert remaining[1] == pytest.approx(0.0, abs=1e-3) == pytest.approx(remaining[2], abs=1e-3)
    assert sent[2] == pytest.approx(1_000_000)
    assert 2.0 < run.flows["finish"].values[2] < 8.0
    assert np.all(run.rate.values[42:, 1] == 0.0) and np.all(run.rate.values[:9, 1] == 0.0)
    assert np.all(run.queue.values <= 150_000 * (1 + 1e-9))


def test_random_losses_and_random_signals_are_drawn_from_the_seed():
    network = Network.dumbbell("10 Mb/s", [0.05] * 2, buffer="200 kB")
    losses = [ecc.impairments.RandomLoss(1e-3, link=0)]
    scenario = Scenario(network, NewReno(), 60.0, impairments=losses, seed=1)
    first, again = (simulate(scenario, time="discrete") for _ in range(2))
    other = simulate(Scenario(network, NewReno(), 60.0, impairments=losses, seed=2), time="discrete")
    assert np.array_equal(first.rate.values, again.rate.values)
    assert not np.array_equal(first.rate.values, other.rate.values)


@pytest.mark.slow
@pytest.mark.parametrize("updates", [1, 20])
@pytest.mark.parametrize("signals", ["rate", "random"])
@pytest.mark.parametrize("discipline", [RED(), PI2(), PIE(), StepMarking()], ids=str)
def test_disciplines_have_the_throughput_of_continuous_time(discipline, signals, updates):
    network = Network.dumbbell("10 Mb/s", [0.05] * 2, buffer="200 kB")
    scenario = Scenario(network, {"flows": NewReno(ecn="ecn" in discipline.gives), "links": discipline}, 60.0)
    discrete = simulate(scenario, time="discrete", signals=signals, updates_per_rtt=updates)
    continuous = simulate(scenario, signals=signals)
    throughput = [run.rate.values[20:].sum(axis=1).mean() for run in (discrete, continuous)]
    assert throughput[0] == pytest.approx(throughput[1], rel=0.1)


def test_several_protocols_and_the_receiver_window():
    network = Network.dumbbell("20 Mb/s", [0.05] * 2, buffer="200 kB")
    mixed = simulate(Scenario(network, {"flows": {0: NewReno(), 1: CUBIC()}}, 60.0), time="discrete")
    assert mixed.rate.values[20:].mean(axis=0).sum() == pytest.approx(20e6, rel=0.05)
    limited = NewReno(receiver_window=20_000)
    run = simulate(Scenario(Network.dumbbell("20 Mb/s", [0.05]), limited, 20.0), time="discrete")
    assert run.rate.values[50:, 0].mean() == pytest.approx(20_000 * 8 / 0.05, rel=0.02)


def test_swift_acts_once_per_rtt():
    network = Network.dumbbell("10 Gb/s", [20e-6] * 2, buffer="1 MB")
    run, windows = windows_of(Scenario(network, Swift(), 2e-3), sample=1e-6)
    assert len(steps_of(windows[:, 0])) <= 2e-3 / 20e-6 + 2
    assert run.rate.values[-500:].mean(axis=0).sum() == pytest.approx(10e9, rel=0.05)


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        (NewReno(), {"updates_per_rtt": 0}, r"^updates_per_rtt must be from 1 to 50, got 0$"),
        (NewReno(), {"updates_per_rtt": 51}, r"^updates_per_rtt must be from 1 to 50, got 51$"),
        (NewReno(), {"time": "continuous", "updates_per_rtt": 2}, "^updates_per_rtt applies to windows in discrete"),
        (
            ecc.models.QIRCP(),
            {"updates_per_rtt": 2},
            "^updates_per_rtt applies to windows in discrete time only, got 2",
        ),
        (NewReno(), {"delays": (0, 1)}, "^delays must be None for NewReno: windows have the delays of the network$"),
        (NewReno(), {"start": [1e6]}, "^start must be 'empty' or 'equilibrium' for NewReno, a window protocol"),
        (ecc.models.BBR(), {}, "^time must be 'continuous' for hosts that are machines of states, got 'discrete'$"),
    ],
)
def test_refusals(protocol, options, message):
    with pytest.raises(ValueError, match=message):
        simulate(Scenario(Network.dumbbell("10 Mb/s", [RTT]), protocol, 1.0), **{"time": "discrete", **options})


def test_windows_that_step_at_each_ack_are_refused_in_one_line():
    scenario = ecc.Scenario(Network.dumbbell("10 Gb/s", [13e-6] * 3), PowerTCP(), 1e-3)
    with pytest.raises(ValueError, match="^time must be 'continuous' or 'averaged' for windows of PowerTCP, whose .*"):
        ecc.simulate(scenario, "fluid", time="discrete")
