"""Cycles over CoDel, FQ-CoDel and COBALT, against packet runs."""

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.codel import codel_cycle
from ecc.cycles.codel_queue import CobaltClock, CodelClock
from ecc.errors import LinearizationError
from ecc.models import BIC, CUBIC, ConstantRate, NewReno
from ecc.queues import CAKE, COBALT, CoDel, FQCoDel
from ecc.stability import limit_cycle


def over_codel(host):
    return ProtocolAssignment(host, CoDel(packet_size=1000))


@pytest.mark.slow
def test_the_window_grows_for_an_interval_and_an_rtt_above_the_target():
    net = ecc.Network.dumbbell("40 Mb/s", [0.1])
    cycle = limit_cycle(over_codel(NewReno()), net)
    # 500 packets in the path and 25 at the target of 5 ms, then a packet per RTT for 0.1 s and an RTT
    assert cycle.orbit["windows"].max() / 1000.0 == pytest.approx(525.0 + 0.2 / 0.105, abs=0.1)
    assert cycle.is_dead_beat


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "capacity", "rtt"),
    [
        (NewReno(transport="sack"), "40 Mb/s", 0.1),
        (NewReno(transport="sack"), "40 Mb/s", 0.05),
        (CUBIC(), "40 Mb/s", 0.05),
        (CUBIC(), "10 Mb/s", 0.05),
    ],
)
def test_its_period_is_that_of_packets(host, capacity, rtt):
    net = ecc.Network.dumbbell(capacity, [rtt])
    cycle = codel_cycle(over_codel(host), net, "continuous")
    scenario = ecc.Scenario(net, {"flows": host, "links": CoDel(packet_size=1000)}, duration=300.0)
    run = ecc.packet.simulate(scenario, sample=0.01)
    time = run.queue["time"].values
    at = time[(run.drops.values[:, 0] > 0) & (time > 100.0)]
    overflows = int(cycle.method.split(" overflow")[0].split()[-1])
    assert np.diff(at).mean() * overflows == pytest.approx(cycle.period, rel=0.03)


def test_codel_signals_at_the_times_of_its_control_law():
    clock = CodelClock(CoDel(target=0.005, interval=0.1, packet_size=1000), 8e6, 8000.0)
    assert clock.target == 0.005 and clock.signals(0.02, None) == []
    assert clock.signals(0.3, 0.03) == pytest.approx([0.13, 0.23])
    assert clock.signals(0.4, 0.03) == pytest.approx([0.23 + 0.1 / 2**0.5, 0.23 + 0.1 / 2**0.5 + 0.1 / 3**0.5])
    clock.signals(0.41, None)
    # The count was 4 and began at 1: the next phase begins with a count of 3
    first, second = clock.signals(0.62, 0.45)
    assert (first, second) == pytest.approx((0.55, 0.55 + 0.1 / 3**0.5)) and clock.count == 4
    assert CodelClock(CoDel(target=0.005), 1e6, 8000.0).target == 0.016  # Two packets of 8 ms


def test_cobalt_decreases_its_count_below_the_target():
    clock = CobaltClock(COBALT(target=0.005, interval=0.1, packet_size=1000), 1e8, 8000.0)
    first, *later = clock.signals(0.5, 0.2)
    steps = 0.1 / np.sqrt([2.0, 3.0, 4.0, 5.0, 6.0])
    assert first == 0.2 and later == pytest.approx(0.2 + np.cumsum(steps))  # The first does not wait
    count, due = clock.state.count[0], clock.state.next[0]
    assert clock.signals(0.501, None) == [] and clock.state.count[0] == count
    clock.signals(due, None)
    assert clock.state.count[0] == count - 1
    clock.signals(10.0, None)
    assert clock.state.count[0] == 0
    assert clock.signals(10.2, 10.05) == pytest.approx([10.15])  # An interval after the queue went over


def test_several_flows_have_a_random_cycle_that_keeps_the_queue_from_emptying():
    net = ecc.Network.dumbbell("10 Mb/s", [0.02] * 2)
    cycle = limit_cycle(over_codel(NewReno()), net)
    assert cycle.object == "random cycle" and cycle.stable is None and "phases with signals" in cycle.method
    alone = limit_cycle(over_codel(NewReno()), ecc.Network.dumbbell("10 Mb/s", [0.02]))
    assert cycle.utilization > 0.98 > alone.utilization
    delays = [8e-7 * cycle.queue_percentile(percent) for percent in (1, 50, 99)]
    assert delays == sorted(delays) and 0.004 < delays[1] < 0.02
    assert "utilization" in str(cycle) and "Lyapunov" not in str(cycle)


def test_flows_over_fq_codel_have_the_cycle_of_one_flow_with_its_share():
    three = ecc.Network.dumbbell("40 Mb/s", [0.05] * 3)
    flows = {0: ConstantRate("10 Mb/s"), "default": NewReno()}
    fair = codel_cycle(ProtocolAssignment(flows, FQCoDel(packet_size=1000)), three, "continuous")
    alone = codel_cycle(over_codel(NewReno()), ecc.Network.dumbbell("15 Mb/s", [0.05]), "continuous")
    assert fair.period == alone.period and fair.utilization == alone.utilization and fair.is_dead_beat
    assert "the queue of one flow, with a capacity of 1.5e+07 bit/s" in fair.notes


def test_flows_over_cake_have_the_cycle_of_cobalt_at_their_share_of_the_shaper():
    two = ecc.Network.dumbbell("40 Mb/s", [0.05] * 2)
    cake = CAKE(rate="30 Mb/s", packet_size=1000)
    fair = codel_cycle(ProtocolAssignment(NewReno(), cake), two, "continuous")
    one = ecc.Network.dumbbell("15 Mb/s", [0.05])
    alone = codel_cycle(ProtocolAssignment(NewReno(), COBALT(packet_size=1000)), one, "continuous")
    assert fair.object == alone.object == "cycle" and fair.period == alone.period
    assert fair.utilization == alone.utilization < 1.0
    for changed in ({"dscp": (0, 46)}, {"sources": (1,)}, {"overhead": 18}, {"ingress": True}):
        loop = ProtocolAssignment(NewReno(), CAKE(rate="30 Mb/s", **changed))
        with pytest.raises(LinearizationError, match="over CAKE must have one tin and hosts of their own"):
            codel_cycle(loop, two, "continuous")


@pytest.mark.slow
@pytest.mark.parametrize(("rtt", "is_noted"), [(0.09, False), (0.11, True)])
def test_an_interval_shorter_than_an_rtt_has_a_note(rtt, is_noted):
    cycle = codel_cycle(over_codel(NewReno()), ecc.Network.dumbbell("40 Mb/s", [rtt]), "continuous")
    said = [note for note in cycle.notes if "the interval, 100 ms, is shorter than an RTT, 110 ms: gaps" in note]
    assert bool(said) == is_noted


@pytest.mark.slow
def test_four_flows_over_cake_have_its_delay_and_utilization_in_packets():
    net = ecc.Network.dumbbell("50 Mb/s", [0.2] * 4, packet_size=1500)
    loop = {
        "flows": CUBIC(transport="sack"),
        "links": CAKE(rate="47.5 Mb/s", target=0.06, interval=0.3, packet_size=1500),
    }
    cycle = limit_cycle(loop, net)
    run = ecc.packet.simulate(ecc.Scenario(net, loop, duration=240.0), sample=0.005)
    late = run.queue["time"].values > 40.0
    used = float(run.goodput.values[late].sum(axis=1).mean()) / 47.5e6
    assert cycle.utilization == pytest.approx(used, abs=0.02)
    delays = 8.0 * run.queue.values[late, 0] / 47.5e6  # All queues over the whole rate
    assert 8.0 * cycle.queue_percentile(99) / (47.5e6 / 4) == pytest.approx(np.percentile(delays, 99), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("discipline", "rtt", "unresponsive"),
    [
        (CoDel(packet_size=1500), 0.02, 0.0),
        (CoDel(packet_size=1500), 0.02, 0.5),
        (CoDel(packet_size=1500), 0.2, 0.0),
        (CoDel(packet_size=1500), 0.2, 0.5),
        (CoDel(packet_size=1500, target=0.03, interval=0.3), 0.2, 0.0),
        (COBALT(packet_size=1500), 0.02, 0.0),
        (COBALT(packet_size=1500), 0.2, 0.0),
    ],
)
def test_four_flows_of_packets_have_its_delays_and_its_utilization(discipline, rtt, unresponsive):
    """The queue empties at an RTT of 200 ms with the defaults, and not at 20 ms or with larger targets."""
    C = 50e6
    net = ecc.Network.dumbbell(C, [rtt] * (5 if unresponsive else 4), packet_size=1500)
    hosts = {"default": CUBIC(transport="sack")} | ({4: ConstantRate(unresponsive * C)} if unresponsive else {})
    loop = {"flows": hosts, "links": discipline}
    cycle = limit_cycle(loop, net)
    run = ecc.packet.simulate(ecc.Scenario(net, loop, duration=1000.0 * rtt + 40.0), sample=0.005)
    late = run.queue["time"].values > 20.0
    queue = run.queue.values[late, 0]
    used = float(run.goodput.sel(time=slice(20.0, None)).mean("time").sum()) / C
    allowed = 0.004 * C / 8.0
    assert cycle.utilization == pytest.approx(used, abs=0.03)
    assert cycle.queue_percentile(99) == pytest.approx(np.percentile(queue, 99), rel=0.1, abs=allowed)
    assert cycle.mean == pytest.approx(queue.mean(), rel=0.08, abs=0.25 * allowed)
    empties = rtt == 0.2 and discipline.target == 0.005
    assert (cycle.utilization < 0.99) == (used < 0.99) == empties


def test_other_loops_are_declined():
    one, two = (ecc.Network.dumbbell("40 Mb/s", [0.05] * n) for n in (1, 2))
    several = limit_cycle(over_codel(BIC()), one)  # Several reductions per phase
    assert several.object == "cycle" and "phases with signals" in several.method
    with pytest.raises(LinearizationError, match="computed for one link in continuous time"):
        codel_cycle(over_codel(NewReno()), one, "discrete")
    with pytest.raises(LinearizationError, match="it is not over CoDel"):
        codel_cycle(NewReno(), one, "continuous")
    with pytest.raises(LinearizationError, match="send 4e.07 bit/s, and the link has 4e.07 bit/s"):
        full = ProtocolAssignment({0: ConstantRate("40 Mb/s"), "default": NewReno()}, CoDel(packet_size=1000))
        codel_cycle(full, two, "continuous")
    with pytest.raises(LinearizationError, match="must be equal, and unresponsive flows within their share"):
        mixed = ProtocolAssignment({0: CUBIC(), "default": NewReno()}, FQCoDel(packet_size=1000))
        codel_cycle(mixed, two, "continuous")


@pytest.mark.slow
def test_percentiles_need_a_share_and_a_queue():
    cycle = limit_cycle(over_codel(NewReno()), ecc.Network.dumbbell("40 Mb/s", [0.1]))
    assert cycle.queue_percentile(100) == cycle.orbit["queue"].max()
    with pytest.raises(ValueError, match="percent must be between 0 and 100, got 101"):
        cycle.queue_percentile(101)
    with pytest.raises(ValueError, match="has no queue"):
        limit_cycle("Vivace", time="discrete").queue_percentile(50)
