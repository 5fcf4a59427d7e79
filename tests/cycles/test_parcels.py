"""Hosts with hooks in parcels of fluid."""

import numpy as np
import pytest

import ecc
from ecc.cycles.parcels import Parcels
from ecc.errors import LinearizationError


def a_run(protocol, flows=1, holds=True, buffer=None, until=3.0):
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.03] * flows, buffer=buffer)
    run = Parcels([protocol] * flows, network, 16, holds)
    while run.now < until:
        run.step()
    return run


@pytest.mark.parametrize("holds", [True, False])
def test_a_flow_finds_capacity_and_rtt(holds):
    flow = a_run(ecc.models.BBR(), holds=holds).hosts[0].flow
    assert flow.bw == pytest.approx(1e8, rel=1e-3)
    assert flow.min_rtt == pytest.approx(0.03, abs=1e-9)


def test_data_are_in_flight_delivered_or_lost():
    run = a_run(ecc.models.BBRv1(), flows=2, buffer=200_000)
    sent = sum(host.volume for host in run.hosts)
    lost = sum(host.dropped for host in run.hosts)
    served = sent - lost - run.queue
    assert served <= run.capacity * run.now
    assert lost > 0.0
    for host in run.hosts:
        delivered, known = host.known
        assert 0 < delivered <= host.volume - host.dropped
        assert known <= host.dropped + 1e-6


def test_acks_return_after_the_queue_that_their_data_met():
    run = a_run(ecc.models.BBRv1(), until=0.3)
    now, d = run.now, run.hosts[0].d
    sigma = run.sent_at(now, d)
    assert sigma + d + run.queues.at(sigma) / run.capacity == pytest.approx(now, abs=1e-12)


def test_a_copy_continues_as_the_run_does():
    run = a_run(ecc.models.BBRv1(), flows=2)
    copy = run.copy()
    for each in (run, copy):
        while each.now < 4.0:
            each.step()
    assert copy.queue == run.queue
    assert [host.flow for host in copy.hosts] == [host.flow for host in run.hosts]
    assert np.all([a.flow is not b.flow for a, b in zip(run.hosts, copy.hosts, strict=True)])


def test_other_hosts_and_networks_are_refused():
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.03])
    with pytest.raises(LinearizationError, match="parcels need hosts with delivery-rate samples of ACKs"):
        Parcels([ecc.models.NewReno()], network, 16, True)
    lot = ecc.Network.parking_lot(["10 Mb/s", "10 Mb/s"], rtts=[0.03] * 3)
    with pytest.raises(LinearizationError, match="parcels need a network of one link, got 2"):
        Parcels([ecc.models.BBR()] * 3, lot, 16, True)
