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


def test_hosts_draw_at_each_call_that_reads_and_a_copy_draws_the_same_numbers():
    run = a_run(ecc.models.BBR(), flows=2, until=0.3)
    copy = run.copy()
    for _ in range(5):
        copy.step()  # calls that read no number draw none
    drawn = []
    for each in (run, copy):
        env = each.hosts[0].env
        numbers = []
        for _ in range(20):
            env.drawn = None
            numbers.append(env.random)
            assert env.random == numbers[-1]
        assert len(set(numbers)) == 20
        drawn.append(numbers)
    assert drawn[0] == drawn[1]


def test_irregular_acks_keep_their_mean_distance():
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.03])
    run = Parcels([ecc.models.C4()], network, 16, False, spread=0.5)
    while run.now < 2.0:
        run.step()
    times = []
    while run.now < 4.0:
        run.step()
        times.append((run.now, run.queue))
    distances = np.diff([now for now, _ in times])
    mean = (0.03 + np.mean([queue for _, queue in times]) / run.capacity) / 16
    assert distances.mean() == pytest.approx(mean, rel=0.03)
    assert distances.min() < 0.6 * mean
    assert distances.max() > 1.4 * mean


def test_other_hosts_and_networks_are_refused():
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.03])
    with pytest.raises(LinearizationError, match="parcels need hosts with delivery-rate samples of ACKs"):
        Parcels([ecc.models.NewReno()], network, 16, True)
    lot = ecc.Network.parking_lot(["10 Mb/s", "10 Mb/s"], rtts=[0.03] * 3)
    with pytest.raises(LinearizationError, match="parcels need a network of one link, got 2"):
        Parcels([ecc.models.BBR()] * 3, lot, 16, True)
