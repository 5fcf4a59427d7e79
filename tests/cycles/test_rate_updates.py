"""Cycles of hosts that update rates by delays, against fluid runs and packets."""

import numpy as np
import pytest

import ecc
from ecc.cycles.rate_updates import rate_update_cycle
from ecc.errors import LinearizationError
from ecc.models import DCQCN, TIMELY, PatchedTIMELY
from ecc.stability import limit_cycle

C, RTT = 10e9, 10e-6


def network(n, size=1000, **options):
    return ecc.Network.dumbbell(C, [RTT] * n, packet_size=size, **options)


def period_and_peak(run, interval, level=25e-6 * C / 8.0):
    """Return the mean time between rises of the queue through a level [s], and the mean peak [bytes]."""
    queue = run.queue[len(run.queue) // 3 :, 0].to_numpy()
    rises = np.flatnonzero((queue[:-1] <= level) & (queue[1:] > level))
    rises = rises[np.diff(rises, prepend=-(10**6)) * interval > 2e-4]
    peaks = [queue[a:b].max() for a, b in zip(rises[:-1], rises[1:], strict=True)]
    return float(np.diff(rises).mean()) * interval, float(np.mean(peaks)), float(queue[rises[0] : rises[-1]].mean())


@pytest.mark.slow
@pytest.mark.parametrize(("n", "difference"), [(2, 0.859), (10, 0.446)])
def test_continuous_cycle_is_that_of_the_fluid(n, difference):
    cycle = rate_update_cycle(TIMELY(), network(n), "continuous")
    run = ecc.fluid.simulate(ecc.Scenario(network(n), TIMELY(), 0.03), sample=1e-6)
    period, peak, mean = period_and_peak(run, 1e-6)
    assert cycle.period == pytest.approx(period, rel=0.003)
    assert 2.0 * cycle.amplitude == pytest.approx(peak, rel=0.003)
    assert cycle.mean == pytest.approx(mean, rel=0.03)
    assert cycle.dominant.real == pytest.approx(difference, abs=0.003)
    assert cycle.stable
    assert np.sum(cycle.multipliers != 0.0) == n - 1


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 10])
def test_cycle_in_ticks_is_that_of_packets(n):
    cycle = rate_update_cycle(TIMELY(), network(n), "discrete")
    run = ecc.packet.simulate(ecc.Scenario(network(n, 100), TIMELY(), 0.04), sample=2e-6)
    period, peak, mean = period_and_peak(run, 2e-6)
    assert cycle.period == pytest.approx(period, rel=0.03)
    assert 2.0 * cycle.amplitude == pytest.approx(peak, rel=0.03)
    assert cycle.mean == pytest.approx(mean, rel=0.03)


@pytest.mark.slow
def test_difference_of_two_flows_decays_in_packets_as_the_multiplier():
    cycle = rate_update_cycle(TIMELY(), network(2), "discrete")
    steps = round(cycle.period / 5e-6)
    differences = []
    for offset in (0.0, 0.25, 0.5, 0.75):
        start = 0.02 + offset * cycle.period
        scenario = ecc.Scenario(network(2, 200, starts=[0.0, start]), TIMELY(), start + 5.0 * cycle.period)
        run = ecc.packet.simulate(scenario, sample=5e-6, record=["flow.x"])
        rates = run.data["flow.x"].to_numpy()[int(start / 5e-6) :]
        means = [rates[k * steps : (k + 1) * steps].mean(0) for k in range(4)]
        differences.append([float(first - second) for first, second in means])
    mean = np.mean(differences, axis=0)
    ratios = mean[1:] / mean[:-1]
    np.testing.assert_allclose(ratios, cycle.multipliers[1].real, atol=0.05)


def test_sum_of_rates_is_chaotic_within_an_update(monkeypatch):
    monkeypatch.setattr("ecc.cycles.rate_updates._SETTLING", 2)
    monkeypatch.setattr("ecc.cycles.rate_updates._AVERAGED", 3)
    cycle = limit_cycle(TIMELY, time="discrete")
    assert cycle.multipliers[0].real > 1.0 > cycle.multipliers[1].real > 0.6
    assert not cycle.stable
    assert "chaotic" in cycle.notes[0]
    assert cycle.period == pytest.approx(2.788e-3, rel=0.02)
    assert cycle.orbit["rates"].shape == (2, len(cycle.orbit["time"]))


def test_loops_of_another_form_are_declined():
    with pytest.raises(LinearizationError, match="do not set rates"):
        rate_update_cycle(ecc.models.Swift(), network(2), "discrete")
    with pytest.raises(LinearizationError, match="have an equilibrium"):
        rate_update_cycle(PatchedTIMELY(), network(2), "discrete")
    with pytest.raises(LinearizationError, match="have an equilibrium"):
        rate_update_cycle(DCQCN(), network(2), "discrete")
    with pytest.raises(LinearizationError, match="updates wait for ACKs"):
        rate_update_cycle(TIMELY(), network(2, 16_000), "discrete")
    spread = ecc.Network.dumbbell(C, [RTT, 2.0 * RTT], packet_size=1000)
    with pytest.raises(LinearizationError, match="equal RTTs"):
        rate_update_cycle(TIMELY(), spread, "discrete")
