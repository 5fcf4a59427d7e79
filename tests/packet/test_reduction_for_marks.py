"""Proportional rate reduction after marks (S-166): a host sends through a cut, as Linux does, instead of stopping."""

import numpy as np
import pytest

import ecc
from ecc.models import CUBIC, DCTCP, NewReno
from ecc.network.network import Network
from ecc.queues import PI2, StepMarking
from ecc.scenario import Scenario

NET = Network.dumbbell("20 Mb/s", rtts=["100 ms"], packet_size=1000)


def silences(prr):
    """The longest time without a data packet, after slow start [RTTs]."""
    marks = StepMarking(threshold=150, packet_size=1000)
    hosts = {"flows": NewReno(ecn=True, transport="rack", prr=prr), "links": marks}
    run = ecc.packet.simulate(Scenario(NET, hosts, 30.0), sample=0.005)
    assert run.drops.sum() == 0
    sent = run.rate[1000:, 0].to_numpy() > 0.0
    edges = np.flatnonzero(np.diff(np.concatenate([[True], sent, [True]]).astype(int)))
    return float((edges[1::2] - edges[::2]).max()) * 0.05 if len(edges) else 0.0


def test_a_host_that_reduces_over_an_rtt_does_not_fall_silent_at_a_mark():
    assert silences(True) > 0.3
    assert silences("marks") < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("host", [NewReno, CUBIC, DCTCP])
def test_the_twin_has_the_same_reductions(host):
    own = {} if host is DCTCP else {"ecn": True}
    hosts = {"flows": host(transport="rack", prr="marks", **own), "links": PI2(mark=True)}
    scenario = Scenario(Network.dumbbell("5 Mb/s", ["40 ms", "60 ms"], packet_size=1000, buffer="40 kB"), hosts, 3.0)
    engine, twin = (ecc.packet.simulate(scenario, sample=0.05, engine=one) for one in ("c", "python"))
    assert engine.data.equals(twin.data)
    assert engine.stats["digest"] == twin.stats["digest"]
    without = Scenario(scenario.network, {**hosts, "flows": host(transport="rack", prr=True, **own)}, 3.0)
    assert ecc.packet.simulate(without).stats["digest"] != engine.stats["digest"]


def test_reductions_for_marks_need_marks():
    with pytest.raises(ValueError, match="prr must not be 'marks' for NewReno without ECN"):
        NewReno(transport="sack", prr="marks")
    with pytest.raises(ValueError, match="prr must be False or None with the transport 'newreno', got 'marks'"):
        NewReno(ecn=True, transport="newreno", prr="marks")
