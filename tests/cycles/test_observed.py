"""Cycles observed in runs, with multipliers that are known: a flow of AIMD forgets, two synchronized ones halve."""

from time import process_time

import pytest

import ecc
from ecc.errors import ConvergenceError, LinearizationError
from ecc.stability import limit_cycle, measured_cycle

ENGINES = [("fluid", "continuous"), ("fluid", "discrete"), ("packet", "continuous")]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "time"), ENGINES)
def test_one_flow_of_newreno_returns_after_one_period(engine, time):
    network = ecc.Network.dumbbell("20 Mb/s", [0.05], 125_000, packet_size=1500)
    cycle = measured_cycle("NewReno", network, engine, time)
    # From half of pipe and buffer to all of it: 83 rounds of a packet, with up to 50 ms in the queue.
    assert cycle.period == pytest.approx(83.3 * 0.077, rel=0.04)
    assert cycle.amplitude == pytest.approx(62_500, rel=0.04)
    assert cycle.is_dead_beat
    assert cycle.stable


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "time"), ENGINES)
def test_the_difference_of_two_synchronized_flows_halves(engine, time):
    cycle = measured_cycle("NewReno", engine=engine, time=time)
    assert cycle.dominant == pytest.approx(0.5, abs=0.05)
    assert cycle.stable
    assert cycle.period == pytest.approx(6.47, rel=0.02)
    assert cycle.orbit["rates"].shape == (2, len(cycle.orbit["time"]))


@pytest.mark.slow
def test_rates_show_a_cycle_below_the_capacity():
    """VCP's queue holds packets in service only; rates fall by an eighth when the load passes 98 %."""
    cycle = measured_cycle("VCP", near=10.45)
    assert cycle.period == pytest.approx(10.45, rel=0.01)
    assert cycle.dominant == pytest.approx(0.875, abs=0.02)


@pytest.mark.slow
def test_declared_cycles_of_hosts_that_probe_are_counted():
    """Motions of the queue that repeat earlier, for example bandwidth probes, are not the declared cycle."""
    network = ecc.Network.dumbbell("100 Mb/s", [0.03], 200_000, packet_size=1500)
    cycle = measured_cycle("BBRv2", network)
    assert cycle.object == "random cycle"
    assert "from a change of state to the next" in cycle.method
    # ProbeRTT of 200 ms, and of the last round, begins 5 s after the end of the last one
    assert cycle.period == pytest.approx(5.23, abs=0.01)
    # from an empty queue to the end of UP, with 5/4 of the bandwidth-delay product and two packets in flight; the
    # minimum RTT contains the transmission of a packet
    assert cycle.amplitude == pytest.approx(0.5 * (1.25 * 12.5e6 * 0.03012 + 3000 - 375_000), rel=0.01)


def test_a_loop_at_rest_has_no_cycle():
    at_rest = "no periodic motion was found: after 0.7812 s the fluid is at rest, with a queue of 0 bytes and rates of"
    with pytest.raises(ConvergenceError, match=at_rest):
        measured_cycle("QIRCP", ecc.Network.dumbbell("10 Mb/s", [0.00625]), engine="fluid")


@pytest.mark.slow
def test_long_delays_are_refused_within_seconds():
    """Rates of TIMELY fall to their minimum, those of PatchedTIMELY fall for ever, and the queue of EMKC grows."""
    network = ecc.Network.dumbbell("100 Mb/s", [0.1])
    began = process_time()
    with pytest.raises(LinearizationError, match="after 12.5 s the fluid is at rest, with a queue of 0 bytes"):
        limit_cycle("TIMELY", network)
    intervals = "from 0 to 0 bytes, and a run of 100 s has more than 2e\\+06 intervals of 2e-05 s"
    with pytest.raises(LinearizationError, match=intervals):
        limit_cycle("PatchedTIMELY", network)
    with pytest.raises(LinearizationError, match="the queue grows without bound, to .* bytes within 100 s"):
        limit_cycle("EMKC", network)
    assert process_time() - began < 60.0


def test_engines_that_do_not_run_a_loop_are_named():
    with pytest.raises(LinearizationError, match="Vivace has no fluid model"):
        measured_cycle("Vivace", engine="fluid")
    with pytest.raises(LinearizationError, match="C4 has no fluid model"):
        measured_cycle("C4", engine="fluid", time="discrete")
    with pytest.raises(ValueError, match="engine must be one of fluid, packet, got 'live'"):
        measured_cycle("NewReno", engine="live")
    with pytest.raises(ValueError, match="time must be one of continuous, discrete, got 'hybrid'"):
        measured_cycle("NewReno", time="hybrid")
