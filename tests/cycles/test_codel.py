"""Cycles of one flow over CoDel."""

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.codel import codel_cycle
from ecc.errors import LinearizationError
from ecc.models import BIC, CUBIC, NewReno
from ecc.queues import CoDel
from ecc.stability import limit_cycle


def over_codel(host):
    return ProtocolAssignment(host, CoDel(packet_size=1000))


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
    overflows = int(cycle.method.split(" overflows")[0].split()[-1])
    assert np.diff(at).mean() * overflows == pytest.approx(cycle.period, rel=0.03)


def test_hosts_that_need_several_reductions_and_several_flows_are_declined():
    with pytest.raises(LinearizationError, match="a single reduction does not bring the queue below"):
        codel_cycle(over_codel(BIC()), ecc.Network.dumbbell("40 Mb/s", [0.05]), "continuous")
    with pytest.raises(LinearizationError, match="computed for one flow in continuous time"):
        codel_cycle(over_codel(NewReno()), ecc.Network.dumbbell("40 Mb/s", [0.05] * 2), "continuous")
    with pytest.raises(LinearizationError, match="it is not over CoDel"):
        codel_cycle(NewReno(), ecc.Network.dumbbell("40 Mb/s", [0.05]), "continuous")
