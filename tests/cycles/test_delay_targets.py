"""Cycles around a delay target, against packets."""

import numpy as np
import pytest

import ecc
from ecc.cycles.delay_targets import delay_target_cycle
from ecc.errors import LinearizationError
from ecc.models import FAST, VCP, Swift

PER_PACKET = 10  # packets of 400 bytes with the windows and increases of packets of 4000 bytes


def swift(**parameters):
    return Swift(base_target="20 us", hop_scaling=0.0, fs_range="50 us", **parameters)


def network(n, size=4000, rtt="10 us", **options):
    return ecc.Network.dumbbell("100 Gb/s", [rtt] * n, packet_size=size, **options)


def test_many_hosts_have_the_cycle_of_spread_reductions():
    cycle = delay_target_cycle(swift(), network(10), "continuous")
    kappa = float(swift().steepness(network(10))[0])
    shape = ecc.stability.target_cycle(0.8, kappa)
    unit = 10 * 4000  # increase of all hosts per RTT [bytes]
    assert 2.0 * cycle.amplitude == pytest.approx((shape.largest - shape.least) * unit, rel=1e-3)
    assert cycle.period == pytest.approx(92.98e-6, rel=1e-3)
    assert cycle.multipliers[-1] == 0.0
    assert cycle.dominant.real == pytest.approx(0.463, abs=0.002)
    assert len(cycle.multipliers) == 10
    assert shape.excess_rate < 0.0


def test_hosts_that_act_at_once_rest_at_the_target():
    cycle = delay_target_cycle(swift(), network(10), "discrete")
    kappa = float(swift().steepness(network(10))[0])
    assert cycle.amplitude == 0.0
    assert cycle.dominant.real == pytest.approx(1.0 - 0.8 * kappa, abs=1e-6)
    assert cycle.multipliers[-1].real == pytest.approx(1.0 - 0.8 * (1.0 + kappa), abs=1e-6)
    assert cycle.stable
    alone = delay_target_cycle(swift(), network(1), "continuous")
    assert alone.time == "continuous"
    assert alone.amplitude == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 20])
def test_differences_of_windows_decay_in_packets_as_the_multiplier(n):
    scaled = {"fs_min_cwnd": 0.1, "fs_max_cwnd": 100.0, "min_cwnd": 0.01}
    hosts = swift(ai=float(PER_PACKET), **{name: PER_PACKET * value for name, value in scaled.items()})
    cycle = delay_target_cycle(hosts, network(n, 4000 // PER_PACKET), "continuous")
    steps, differences = round(cycle.period / 1e-6), []
    for offset in range(6):
        start = (15.0 + offset / 6.0) * cycle.period
        starts = [1e-6 * k for k in range(n - 1)] + [start]
        scenario = ecc.Scenario(network(n, 400, starts=starts), hosts, start + 6.0 * cycle.period)
        run = ecc.packet.simulate(scenario, sample=1e-6, record=["env.window"])
        windows = run.data["env.window"].to_numpy()[int(start * 1e6) :]
        means = [windows[k * steps : (k + 1) * steps].mean(0) for k in range(3)]
        differences.append([float(mean[:-1].mean() - mean[-1]) for mean in means])
    decay = np.mean(differences, axis=0)
    assert (decay[2] / decay[0]) ** 0.5 == pytest.approx(cycle.dominant.real, abs=0.1)
    queue = run.queue[8 * steps : 15 * steps, 0].to_numpy()
    assert cycle.mean == pytest.approx(float(queue.mean()), rel=0.04)


def test_loops_of_another_form_are_declined():
    with pytest.raises(LinearizationError, match="no law for reductions"):
        delay_target_cycle(FAST(), network(2), "continuous")
    with pytest.raises(LinearizationError, match="other than delays"):
        delay_target_cycle(VCP(), network(2), "continuous")
    with pytest.raises(LinearizationError, match="equal RTTs"):
        spread = ecc.Network.dumbbell("100 Gb/s", ["10 us", "12 us"], packet_size=4000)
        delay_target_cycle(swift(), spread, "continuous")
    with pytest.raises(LinearizationError, match="swings around the delay target decay"):
        delay_target_cycle(swift(beta=0.3), network(10), "continuous")


def test_limit_cycle_of_swift():
    cycle = ecc.stability.limit_cycle("Swift")
    assert "reductions spread over the RTT" in cycle.method
    assert cycle.stable
