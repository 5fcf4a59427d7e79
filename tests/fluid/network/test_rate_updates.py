"""Hosts that update rates at their times: an independent computation, linear models, equilibria and conservation."""

import numpy as np
import pytest

import ecc
from ecc import Network, Scenario
from ecc.fluid import simulate
from ecc.models import DCQCN, TIMELY, PatchedTIMELY

TIMELY_NETWORK = Network.dumbbell("10 Gb/s", [20e-6] * 2, packet_size=16_000)
DCQCN_NETWORK = Network.dumbbell("40 Gb/s", [40e-6] * 2)


def replayed(protocol, N, C, rtt, forward, packet, duration, offset):
    """Return times and rates of N equal flows over one queue, in plain Python: queues are exact between updates."""
    p = protocol.namespace()
    network = Network.dumbbell(C, [rtt] * N, packet_size=packet)
    point = protocol.equilibrium(network)
    x, q, g = (1.0 + offset) * point.rates[0], float(point.queue[0]), 0.0
    changes = [(-1.0, x)]  # times after which the rate holds
    corners = [(-1.0, q), (0.0, q)]  # of the queue
    log, R_prev, due = [(0.0, x)], None, p.interval

    def rate(t):
        return [value for since, value in changes if since <= t][-1]

    def extend(until):
        t, level = corners[-1]
        for corner in [*sorted(c + forward for c, _ in changes if t < c + forward < until), until]:
            arriving = N * rate(0.5 * (t + corner) - forward)
            level = max(0.0, level + (arriving - C) * (corner - t))
            t = corner
            corners.append((t, level))

    def queue(t):
        times, levels = zip(*corners, strict=True)
        return float(np.interp(t, times, levels))

    while due < duration:
        extend(due)
        low, high = due - rtt - 1e-3, due - (rtt - forward)  # arrival of the data acknowledged now
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if middle + queue(middle) / C + rtt - forward < due else (low, middle)
        R, D = queue(low) / C, due - low + forward
        at = {"x": x, "R": R, "R_prev": R if R_prev is None else R_prev, "D": D, "gradient": g, "T": p.interval, "p": p}
        law = protocol.states["gradient"].law
        g = law(**{name: at[name] for name in law.__code__.co_varnames[: law.__code__.co_argcount]})
        acked = rate(due - D - 1e-9)
        x = max(protocol.source_law(x=x, D=D, gradient=g, p=p), protocol.floor * 8 * packet / D)
        changes.append((due, x))
        log.append((due, x))
        R_prev = R
        due += max(p.interval, 8 * packet / acked)
    return np.array(log).T


def test_updates_follow_an_independent_computation():
    protocol = PatchedTIMELY()
    times, rates = replayed(protocol, 2, 10e9, 20e-6, TIMELY_NETWORK.forward_delays[0, 0], 16_000, 4e-4, 0.05)
    run = simulate(
        Scenario(TIMELY_NETWORK, protocol, 4e-4),
        2e-7,
        time="discrete",
        start="equilibrium",
        perturbation=0.05,
        record=["flow.x"],
    )
    measured = run.data["flow.x"].values[:, 0]
    at = run.data["time"].values
    expected = rates[np.searchsorted(times, at - 1e-6, side="right") - 1]
    between = np.min(np.abs(at[:, None] - times), axis=1) > 1e-6  # updates are on the grid
    assert len(times) >= 12 and between.mean() > 0.8
    swing = np.abs(rates - 5e9).max()
    np.testing.assert_allclose(measured[between], expected[between], atol=0.01 * swing)


@pytest.mark.parametrize(
    ("protocol", "network"), [(PatchedTIMELY(), TIMELY_NETWORK), (DCQCN(), DCQCN_NETWORK)], ids=["TIMELY", "DCQCN"]
)
def test_runs_converge_to_the_equilibrium_as_in_continuous_time(protocol, network):
    point = protocol.equilibrium(network)
    runs = [
        simulate(Scenario(network, protocol, 0.02), 1e-4, start="equilibrium", perturbation=0.01, time=time)
        for time in ("discrete", "continuous")
    ]
    queues = [run.queue.values[:, 0] * 8.0 for run in runs]
    deviation = np.abs(queues[1] - point.queue[0])
    assert np.abs(queues[0] - queues[1]).max() < 0.15 * deviation.max()
    np.testing.assert_allclose(runs[0].rate.values[-1], point.rates, rtol=2e-3)
    if point.states:
        names = [f"flow.{name}" for name in point.states]
        run = simulate(Scenario(network, protocol, 0.01), start="equilibrium", time="discrete", record=names)
        for name in names:
            expected = point.states[name.removeprefix("flow.")]
            np.testing.assert_allclose(run.data[name].values[-1], expected, rtol=1e-3)


@pytest.mark.parametrize("protocol", [TIMELY(), PatchedTIMELY(), DCQCN()], ids=str)
def test_bytes_are_delivered_lost_or_in_flight(protocol):
    flows = [
        ecc.Flow(route=[0], access_delay=1e-6),
        ecc.Flow(route=[0], access_delay=5e-6, start=2e-3, stop=6e-3),
        ecc.Flow(route=[0], access_delay=2e-6, start=1e-3, size=1_000_000),
    ]
    network = Network([ecc.Link("10 Gb/s", 10e-6, buffer=100_000)], flows)
    run = simulate(Scenario(network, protocol, 0.02), 1e-4, time="discrete")
    assert run.stats["stopped"] == "completed"
    sent = run.rate.values.sum(axis=0) * 1e-4 / 8.0
    remaining = sent - run.flows["delivered"].values - run.flows["lost"].values
    assert np.all(remaining >= -1e-6 * sent) and np.all(sent > 0.0)
    assert remaining[1:] == pytest.approx(0.0, abs=1e-3)
    assert sent[2] == pytest.approx(1_000_000) and 1e-3 < run.flows["finish"].values[2] < 0.02
    assert np.all(run.queue.values <= 100_000 * (1 + 1e-9))


def test_rates_at_the_start():
    run = simulate(Scenario(TIMELY_NETWORK, TIMELY(), 1e-3), 1e-5, time="discrete", start=[2e9, 3e9], record=["flow.x"])
    assert run.rate.values[0] == pytest.approx([2e9, 3e9], rel=0.01)


class Largest(PatchedTIMELY):
    combine = "max"


class Failing(PatchedTIMELY):
    @staticmethod
    def source_law(x, D, gradient, p):
        return x / (D - D)


def test_refusals_and_failures():
    with pytest.raises(ValueError, match="^combine must be 'sum' for a fluid of rate updates of Largest, got 'max'$"):
        simulate(Scenario(TIMELY_NETWORK, Largest(), 1e-3), time="discrete")
    with pytest.raises(ValueError, match="^updates_per_rtt applies to windows in discrete time only, got 2"):
        simulate(Scenario(TIMELY_NETWORK, TIMELY(), 1e-3), time="discrete", updates_per_rtt=2)
    run = simulate(Scenario(TIMELY_NETWORK, Failing(), 1e-3), 1e-5, time="discrete")
    assert run.stats["stopped"].startswith("the source law of flow 0 failed at t = ")


def root_of(run, equilibrium, begin, end):
    """Return the complex root [1/s] of the oscillation of a queue: y[n + 2 k] = a y[n + k] + b y[n]."""
    k, time = 5, run.data["time"].values
    y = run.queue.values[(time >= begin) & (time < end), 0] - equilibrium
    a, b = np.linalg.lstsq(np.array([y[k:-k], y[: -2 * k]]).T, y[2 * k :], rcond=None)[0]
    return np.log(np.roots([1.0, -a, -b])[0].astype(complex)) / (k * (time[1] - time[0]))


@pytest.mark.parametrize("beta", [0.008, 0.019, 0.021, 0.1])
def test_perturbations_have_the_roots_of_the_hybrid_model_on_both_sides_of_its_limit(beta):
    protocol = PatchedTIMELY(beta=beta)
    model = ecc.linearize(protocol, TIMELY_NETWORK, "hybrid")
    z = next(root for root in model.roots(6) if root.imag > 1e-3)
    expected = np.log(z) / max(protocol.interval, 16_000 * 8 / 5e9)
    run = simulate(
        Scenario(TIMELY_NETWORK, protocol, 4e-3), 5e-6, time="discrete", start="equilibrium", perturbation=1e-6
    )
    measured = root_of(run, protocol.equilibrium(TIMELY_NETWORK).queue[0] / 8.0, 4e-4, 2e-3)
    assert measured.real == pytest.approx(expected.real, abs=1e-3 * abs(expected))
    assert abs(measured.imag) == pytest.approx(expected.imag, rel=1e-3)
    assert (expected.real < 0.0) == (beta < 0.02)
