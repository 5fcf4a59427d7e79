"""Cycles of hosts that probe, and their multipliers."""

import numpy as np
import pytest

import ecc
from ecc.cycles.probing import Hooks, probing_cycle, staggered
from ecc.cycles.reference_cases import cycle_case
from ecc.errors import LinearizationError
from ecc.models import BBR, C4, BBRv1, BBRv2, NewReno
from ecc.stability import limit_cycle


def a_network(buffer, flows=2, rtts=None):
    return ecc.Network.dumbbell("100 Mb/s", rtts=rtts or [0.03] * flows, buffer=buffer)


def test_hosts_that_do_not_probe_are_declined():
    with pytest.raises(LinearizationError, match="its hosts declare no probing cycle"):
        probing_cycle(NewReno(), a_network(200_000), "continuous")


@pytest.mark.slow
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
@pytest.mark.parametrize(
    ("time", "deviation"), [pytest.param("continuous", 0.05, marks=pytest.mark.extensive), ("discrete", 0.25)]
)
def test_the_random_cycle_of_c4_is_that_of_packets(time, deviation):
    """In continuous time, ACKs at irregular times keep flows from falling into step; rounds last a quarter longer."""
    cycle = limit_cycle(C4, time=time)
    assert cycle.object == "random cycle"
    assert cycle.period == pytest.approx(0.305, rel=deviation)  # packet runs: 0.305 s
    assert abs(cycle.dominant) == pytest.approx(0.75, abs=0.15)  # packet runs: 0.75 +- 0.02
    assert (cycle.interval[0] > 0.0) == (time == "discrete")  # two runs part in discrete time
    assert cycle.stable is (False if time == "discrete" else None)


@pytest.mark.slow
def test_equally_spaced_acks_let_flows_of_c4_fall_into_step():
    network = staggered(cycle_case(C4())[1])
    periods = []
    for spread in (0.0, 0.5):
        hooks = Hooks([C4(), C4()], network, "continuous", spread=spread)
        starts = hooks.starts(hooks.begins())
        while hooks.next_start(hooks.run, starts, 80.0):
            pass
        periods.append(np.diff(starts.times[-20:]).mean())
    assert periods[0] == pytest.approx(0.123, rel=0.01)  # four RTTs, and no push
    assert periods[1] > 0.2


@pytest.mark.slow
@pytest.mark.extensive  # CI computes the random cycle of C4 in discrete time, in half of the time
def test_bounds_of_version_2_last_in_rounds_as_in_packets():
    cycle = limit_cycle(BBRv2, time="discrete")
    assert cycle.object == "random cycle"
    assert abs(cycle.dominant) == pytest.approx(0.94, abs=0.08)  # packet runs: 0.94 +- 0.03
    assert any("mean map of the bound of inflight, differences of flows: 0.9" in note for note in cycle.notes)
    assert cycle.interval[0] > 0.0
