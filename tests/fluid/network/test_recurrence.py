"""Recurrences: delays given step by step, against a recursion by hand; blocks of flows; capacities of any size."""

from math import ceil, log

import numpy as np
import pytest

from ecc.fluid import simulate
from ecc.models import EMKC, QIRCP, JetMax
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario


def test_a_constant_table_is_the_network_with_these_delays():
    network = Network.dumbbell("100 Mb/s", [0.1, 0.17, 0.23], delay=0.02)
    protocol = QIRCP(alpha=0.8)
    ahead = np.ceil(network.forward_delays[:, 0] / protocol.interval - 1e-9).astype(int)
    back = np.array([10, 17, 23]) - ahead
    scenario = Scenario(network, protocol, 5.0)
    plain = simulate(scenario, sample=0.05, time="discrete", start="equilibrium", perturbation=0.01)
    delays = (ahead[:, None], back[:, None])
    table = simulate(scenario, sample=0.05, time="discrete", start="equilibrium", perturbation=0.01, delays=delays)
    assert np.array_equal(plain.rate, table.rate) and np.array_equal(plain.arrival, table.arrival)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_delays_over_two_links_by_hand(seed):
    rng = np.random.default_rng(seed)
    capacities, routes, steps, period = (20e6, 30e6), ([0, 1], [1, 0], [0], [1]), 60, 17
    ahead, back = rng.integers(0, 4, (period, 4, 2)), rng.integers(1, 5, (period, 4, 2))
    start = rng.uniform(1e6, 9e6, 4)
    network = Network([Link(C) for C in capacities], [Flow(route, packet_size=1) for route in routes])
    protocol = EMKC(alpha=1e6)
    T, p = protocol.interval, protocol.namespace()
    run = simulate(Scenario(network, protocol, steps * T), sample=T, time="discrete", start=start, delays=(ahead, back))
    past = 10
    x = [start] * past

    def loss(n, link):
        through = [i for i in range(4) if link in routes[i]]
        return protocol.router_law(
            sum(x[n - ahead[(n - past + 1) % period, i, link]][i] for i in through), capacities[link]
        )

    before = [sum(start[i] for i in range(4) if k in routes[i]) for k in range(2)]
    advertised = [[protocol.router_law(y, C) for y, C in zip(before, capacities, strict=True)]] * past
    bottlenecks = []
    for n in range(past, past + steps):
        row, links = [], []
        for i in range(4):
            steps = {k: n - back[(n - past + 1) % period, i, k] for k in routes[i]}
            link = max(routes[i], key=lambda k: advertised[steps[k]][k])
            sent = steps[link] - ahead[(steps[link] - past + 1) % period, i, link]
            row.append(max(0.0, protocol.source_law(x[sent][i], advertised[steps[link]][link], p)))
            links.append(link)
        x.append(np.array(row))
        bottlenecks.append(links)
        advertised.append([loss(n, 0), loss(n, 1)])
    assert run.rate.to_numpy() == pytest.approx(np.array(x[past:]), rel=1e-9)
    assert run.bottleneck.to_numpy().tolist() == bottlenecks


@pytest.mark.parametrize("capacity", [1e6, 1e9, 1e20, 1e50, 1e100])
def test_jetmax_takes_as_many_steps_at_any_capacity(capacity):
    """JETMAX Theorem 4: ceil(log 0.01/log 0.4) = 6, and the rates of the map."""
    scenario = Scenario(Network.dumbbell(capacity, [0.1] * 2, packet_size=1), JetMax(), 3.0)
    start = np.array([1e-3, 2e-3]) * capacity
    run = simulate(scenario, sample=0.1, time="discrete", start=start, delays=(0, 1))
    load = run.arrival.to_numpy()[:, 0] / capacity
    assert int(np.argmax(load >= 0.99)) + 1 == ceil(log(0.01) / log(0.4))
    assert load[-1] == pytest.approx(1.0, rel=1e-9)
    assert run.rate.to_numpy()[5] / capacity == pytest.approx(0.5 - (0.5 - start / capacity) * 0.4**6, rel=1e-12)


def test_units_of_rate_change_no_bit():
    scale = 2.0**300
    runs = [
        simulate(
            Scenario(Network.dumbbell(C, [0.1] * 3, packet_size=1), JetMax(floor=1e-6), 5.0),
            sample=0.1,
            time="discrete",
            start=C * np.array([1e-3, 2e-3, 0.5]),
            delays=(2, 3),
        )
        for C in (1e6, 1e6 * scale)
    ]
    assert np.array_equal(runs[0].rate.to_numpy() * scale, runs[1].rate.to_numpy())


@pytest.mark.parametrize("flows", [1, 7, 8, 9, 21])
def test_blocks_of_flows_end_anywhere(flows):
    rtts = np.linspace(0.05, 0.3, flows)
    run = simulate(Scenario(Network.dumbbell("1 Gb/s", rtts.tolist()), QIRCP(alpha=0.4), 30.0), time="discrete")
    assert run.rate.to_numpy()[-1] == pytest.approx(np.full(flows, 0.95e9 / flows), rel=1e-3)


class Delicate(JetMax):
    """JetMax whose source fails at a feedback of zero."""

    @staticmethod
    def source_law(x_rtt, R, p):
        return (1.0 - p.tau) * x_rtt + p.tau * R * (R / R)


def test_a_law_is_answered_for_those_only_who_ask():
    network = Network.dumbbell("100 Mb/s", [0.1] * 10, starts=[0.0] * 5 + [3.0 + 0.1 * k for k in range(5)])
    runs = [simulate(Scenario(network, kind(), 10.0), time="discrete") for kind in (JetMax, Delicate)]
    assert runs[1].stopped == "completed"
    assert np.allclose(runs[0].rate, runs[1].rate, rtol=1e-12)


class Failing(JetMax):
    """JetMax whose source divides by zero once its rate is right."""

    @staticmethod
    def source_law(x_rtt, R, p):
        return (1.0 - p.tau) * x_rtt + p.tau * R * (1.0 / (x_rtt < 0.99 * R))


def test_a_law_that_fails_ends_the_run():
    run = simulate(Scenario(Network.dumbbell("100 Mb/s", [0.1] * 3), Failing(), 10.0), time="discrete")
    assert run.stopped.startswith("a law failed at t = ") and run.rate.sizes["time"] > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delays": (0, 0)}, "backward delays must be integers >= 1, got 0"),
        ({"delays": (-1, 1)}, "forward delays must be integers >= 0, got -1"),
        ({"delays": (0.5, 1)}, "forward delays must be integers >= 0, got 0.5"),
        ({"delays": [0, 1]}, r"delays must be \(forward, backward\)"),
        ({"delays": (np.zeros((2, 3), int), 1)}, r"forward delays must broadcast to \(period, 2, 1\), got \(2, 3\)"),
        ({"delays": (0, 1), "time": "continuous"}, "delays belong to time='discrete'"),
        ({"start": [1e6]}, "start must be 'empty', 'equilibrium' or 2 rates > 0 bit/s"),
        ({"start": [1e6, 0.0]}, "start must be 'empty', 'equilibrium' or 2 rates > 0 bit/s"),
        ({"start": [1e6, 1e6], "perturbation": 0.1}, "perturbation belongs to start='equilibrium'"),
    ],
)
def test_bad_input(options, message):
    scenario = Scenario(Network.dumbbell("10 Mb/s", [0.1, 0.1]), QIRCP(), 1.0)
    with pytest.raises(ValueError, match=message):
        simulate(scenario, **{"time": "discrete", **options})
