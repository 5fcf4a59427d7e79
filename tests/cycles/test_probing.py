"""Cycles of hosts that probe, and their multipliers."""

import numpy as np
import pytest

import ecc
from ecc.cycles.probing import probing_cycle
from ecc.errors import LinearizationError
from ecc.models import BBR, C4, BBRv1, BBRv2, NewReno
from ecc.stability import limit_cycle


def a_network(buffer, flows=2, rtts=None):
    return ecc.Network.dumbbell("100 Mb/s", rtts=rtts or [0.03] * flows, buffer=buffer)


def test_hosts_that_do_not_probe_are_declined():
    with pytest.raises(LinearizationError, match="its hosts declare no probing cycle"):
        probing_cycle(NewReno(), a_network(200_000), "continuous")


def test_a_single_flow_forgets_in_a_cycle():
    cycle = probing_cycle(BBRv1(), a_network(200_000, flows=1), "discrete")
    assert cycle.stable
    assert cycle.is_dead_beat
    assert cycle.period == pytest.approx(10.2, rel=0.02)  # ProbeRTT, after 10 s


@pytest.mark.slow
def test_bandwidth_probes_of_version_1_even_out_in_a_small_buffer():
    without_rtt_probes = BBRv1(min_rtt_window=1e4)
    cycle = probing_cycle(without_rtt_probes, a_network(100_000), "continuous")
    assert cycle.period == pytest.approx(0.24, rel=0.01)  # eight minimum RTTs
    assert cycle.along == 2  # the minimum RTTs stay
    assert 0.75 < cycle.dominant.real < 1.0
    assert cycle.stable


@pytest.mark.slow
def test_version_3_evens_out_in_a_deep_buffer_and_version_2_does_not():
    fair = limit_cycle(BBR(), a_network(1_000_000))
    assert fair.stable
    assert 0.4 < abs(fair.dominant) < 0.7
    kept = limit_cycle(BBRv2(), a_network(200_000))
    assert kept.along == 2
    drifts = limit_cycle(BBRv2(), a_network(1_000_000))
    assert drifts.object == "random cycle"
    assert drifts.interval[0] < 0.0 < drifts.interval[1]
    shares = np.mean(drifts.orbit["rates"], axis=1) / 1e8
    assert shares.max() == pytest.approx(0.76, abs=0.03)  # packet runs: 0.76


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_the_reference_case_of_hosts_without_a_fluid_has_a_cycle(time):
    cycle = limit_cycle(C4, time=time)
    assert cycle.period > 0.0
    assert np.all(np.isfinite(cycle.orbit["queue"]))
    assert cycle.object == "cycle" or np.isfinite(cycle.exponent)
