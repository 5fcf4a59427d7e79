"""DCTCP against RFC 8257's rules, by hand and in packets, and against the closed forms of Alizadeh et al. 2010."""

from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import DCTCP, NewReno, dctcp
from ecc.queues import StepMarking
from ecc.scenario import Scenario

S = 1000.0  # bytes
MARKING = {"flows": {"default": DCTCP()}, "links": {0: StepMarking(threshold=40, packet_size=1500)}}


def env(**fields):
    defaults = {
        "window": 10 * S,
        "packet_size": 1000,
        "acked": 1000,
        "marked": 0,
        "recovering": 0,
        "recovered": 0,
        "undone": 0,
        "ece": 0,
        "limited_by": 1,
        "in_flight": 10_000,
        "kind": 0,
        "delivered": 0,
    }
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def test_bad_parameters_get_one_line():
    with pytest.raises(ValueError, match="g must be <= 1, got 1.5"):
        DCTCP(g=1.5)
    with pytest.raises(ValueError, match="g must be > 0, got 0"):
        DCTCP(g=0.0)


def test_alpha_averages_the_share_of_marks_window_by_window():
    """Ten packets a window of data: 3 marked, then 10, then none; the next one's first ACK ends each."""
    hooks, p, flow = DCTCP().flow_hooks(), DCTCP().namespace(), DCTCP.FlowState(ssthresh=1.0, window_end=9000.0)
    expected, at = 1.0, env(in_flight=9000)
    for marked in (3, 10, 0):
        for k in range(10):
            at.delivered += 1000
            at.marked = 1000 if k < marked else 0
            hooks["on_ack"](flow, None, p, at)
        expected = 15 / 16 * expected + marked / 10 / 16
        assert flow.alpha == pytest.approx(expected)


def test_a_window_of_data_answers_one_mark():
    hooks, p = DCTCP().flow_hooks(), DCTCP().namespace()
    flow, at = DCTCP.FlowState(alpha=0.5, ssthresh=1.0, window_end=1e9), env(marked=1000, delivered=1000)
    hooks["on_ack"](flow, None, p, at)
    assert at.window == flow.ssthresh == 7.5 * S
    for _ in range(10):  # what was in flight then
        at.delivered += 1000
        hooks["on_ack"](flow, None, p, at)
    assert at.window == 7.5 * S
    at.delivered += 1000
    hooks["on_ack"](flow, None, p, at)
    assert at.window == 0.75 * 7.5 * S
    at.marked = 0
    at.delivered += 1000
    hooks["on_ack"](flow, None, p, at)
    assert at.window == pytest.approx(5.625 * S + S / 5.625)


def test_losses_and_timeouts_are_those_of_newreno():
    for kind in (0, 1):
        after = []
        for protocol in (DCTCP(), NewReno(transport="sack")):
            flow, at = type(protocol).FlowState(ssthresh=1.0), env(kind=kind, acked=0)
            protocol.flow_hooks()["on_loss"](flow, None, protocol.namespace(), at)
            after.append((at.window, flow.ssthresh))
        assert after[0] == after[1]


@pytest.mark.parametrize("flows", [1, 2, 10])
def test_the_sawtooth_over_step_marking(flows):
    """Alizadeh et al. 2010, sec. 3.3: queues reach K + N, and swing by A = sqrt(2 N (C D + K))/2 where flows agree."""
    network = ecc.Network.dumbbell("10 Gb/s", [1e-4] * flows, packet_size=1500, starts=list(np.arange(flows) * 1e-4))
    run = ecc.packet.simulate(Scenario(network, MARKING, 0.06), sample=1e-5)
    queue = run.queue[3000:, 0].to_numpy() / 1500
    product = 1e10 * 1e-4 / 12_000
    assert abs(queue.max() - (40 + flows)) <= 1.0  # the packet in service counts here
    assert run.goodput[3000:].sum("flow").mean() == pytest.approx(1e10, rel=1e-3) and run.drops.sum() == 0
    swing = 0.5 * sqrt(2.0 * flows * (product + 40))
    if flows < 10:  # whole packets
        assert abs(np.ptp(queue) - swing) <= 1.5
    else:  # of flows that are not cut all at once
        assert swing < np.ptp(queue) < 1.5 * swing


def test_over_a_queue_that_only_drops_it_is_newreno():
    network = ecc.Network.dumbbell("10 Mb/s", [0.05], buffer=62_500)
    runs = [
        ecc.packet.simulate(Scenario(network, protocol, 30.0), sample=1.0)
        for protocol in (DCTCP(), NewReno(transport="rack"))
    ]
    assert np.array_equal(runs[0].goodput, runs[1].goodput) and np.array_equal(runs[0].drops, runs[1].drops)


def test_the_law_of_the_state_is_what_the_hook_calls():
    assert DCTCP().states["alpha"].law is dctcp.averaged
    assert DCTCP.mark_response_law(100.0, 0.5, 1.0) == dctcp.reduced(100.0, 0.5) == 75.0
    assert DCTCP.mark_response_law(2.0, 1.0, 1.0) == 2.0
