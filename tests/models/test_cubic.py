"""CUBIC against RFC 9438's equations, by hand and in packets."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import CUBIC, cubic
from ecc.scenario import Scenario

S = 1000.0  # bytes


def env(**fields):
    defaults = {
        "window": 70 * S,
        "packet_size": 1000,
        "acked": 1000,
        "recovering": 0,
        "recovered": 0,
        "undone": 0,
        "ece": 0,
        "limited_by": 1,
        "in_flight": 100_000,
        "kind": 0,
        "rtt": 0.1,
        "srtt": 0.1,
        "now": 10.0,
        "delivered": 0,
    }
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CUBIC(C=0.0), "C must be > 0, got 0.0"),
        (lambda: CUBIC(beta=1.0), "beta must be < 1, got 1"),
        (lambda: CUBIC(beta=0.0), "beta must be > 0, got 0.0"),
        (
            lambda: CUBIC(slow_start="hybrid"),
            "slow_start must be one of 'standard', 'hystart', .*, got 'hybrid'",
        ),
        (lambda: CUBIC(version="linux 6"), "version must be one of 'rfc9438', 'linux', got 'linux 6'"),
        (lambda: CUBIC(fast_convergence="no"), "fast_convergence must be one of False, True, got 'no'"),
        (lambda: CUBIC().mean_window(1.0, 0.1), "loss must be < 1, got 1.0"),
    ],
)
def test_bad_parameters_get_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_cubic_is_flat_where_the_last_loss_was():
    """From 70 to 100 packets: K = cbrt(30/0.4) = 4.2172 s; C (t - K)^3 of packets off."""
    p = CUBIC().namespace()
    K = cubic.time_to(100 * S, 70 * S, S, p)
    assert pytest.approx(75.0 ** (1 / 3)) == K
    found = [cubic.cubic(t, K, 100 * S, S, p) / S for t in (0.0, K - 1.0, K, K + 2.0)]
    assert found == pytest.approx([70.0, 99.6, 100.0, 103.2])
    assert cubic.time_to(100 * S, 120 * S, S, p) == 0.0  # where a cubic is not to grow up to M first


def test_linux_grows_by_a_twentieth_until_the_first_loss_and_by_its_own_reno():
    """tcp_cubic.c: cnt <= 20 without a maximum; D the minimum RTT; Reno's window grows by 9/17 packets an RTT."""
    given = CUBIC(version="linux")
    hooks, p, flow = given.flow_hooks(), given.namespace(), CUBIC.FlowState(ssthresh=1.0)
    at = env(window=100 * S, min_rtt=0.05, srtt=0.1)
    hooks["on_ack"](flow, None, p, at)
    assert at.window == 100 * S + 0.05 * 1000  # a hundredth of an RTT's growth of 5 packets
    at.window, at.in_flight = 100 * S, 80_000
    hooks["on_loss"](flow, None, p, at)
    assert flow.M == 100 * S and flow.has_lost == 1 and flow.ssthresh == 70 * S  # of the window, not of 80 in flight
    at.window, at.now = 70 * S, 20.0
    hooks["on_ack"](flow, None, p, at)
    assert cubic.cubic(0.05, flow.K, 100 * S, S, p) == pytest.approx(71.06 * S, abs=10)  # 28.94 below, of which Linux
    assert at.window / S == pytest.approx(70 + (100 - 28 - 70) / 70)  # ... has whole packets
    assert cubic.reno_step(2.0, 1.0, p) == pytest.approx(9 / 17) and cubic.reno_step(2.0, 1.0, CUBIC().namespace()) == 1
    at.kind = 1
    hooks["on_loss"](flow, None, p, at)
    assert flow.has_lost == 0


def test_no_window_grows_by_more_than_half_in_an_rtt():
    p = CUBIC().namespace()
    assert cubic.goal(10 * S, 30.0, 0.0, 10 * S, 0.1, S, p) == 15 * S
    assert cubic.goal(10 * S, 0.0, 4.0, 12 * S, 0.1, S, p) == 10 * S  # and none shrinks


def test_a_loss_notes_the_maximum_and_leaves_beta_of_what_is_in_flight():
    hooks, p, flow = CUBIC().flow_hooks(), CUBIC().namespace(), CUBIC.FlowState(ssthresh=1.0, M=90 * S, began=3.0)
    at = env(window=100 * S, acked=0)
    hooks["on_loss"](flow, None, p, at)
    assert (at.window, flow.ssthresh, flow.M, flow.W_prior) == pytest.approx((70 * S, 70 * S, 100 * S, 100 * S))
    at = env(window=80 * S, in_flight=80_000, acked=0)  # below the last maximum: fast convergence
    hooks["on_loss"](flow, None, p, at)
    assert (at.window, flow.M, flow.W_prior) == pytest.approx((56 * S, 68 * S, 80 * S))
    hooks = CUBIC(fast_convergence=False).flow_hooks()
    at = env(window=50 * S, in_flight=50_000, acked=0)
    hooks["on_loss"](flow, None, CUBIC(fast_convergence=False).namespace(), at)
    assert pytest.approx(50 * S) == flow.M


def test_after_a_timeout_the_cubic_begins_flat():
    hooks, p, flow = CUBIC().flow_hooks(), CUBIC().namespace(), CUBIC.FlowState(ssthresh=1.0, M=90 * S)
    at = env(window=40 * S, in_flight=40_000, kind=1, acked=0)
    hooks["on_loss"](flow, None, p, at)
    assert (at.window, flow.ssthresh, flow.M) == pytest.approx((S, 28 * S, 0.0))
    at = env(window=28 * S, now=20.0)
    hooks["on_ack"](flow, None, p, at)
    assert (flow.began, flow.K, flow.M) == (20.0, 0.0, 28 * S)


def test_renos_window_is_the_least():
    """30 RTTs behind a loss at 10 packets: 7 + 3 (0.3/1.7) t/D up to 10, then a packet an RTT; the cubic is below."""
    hooks, p, flow = CUBIC().flow_hooks(), CUBIC().namespace(), CUBIC.FlowState(ssthresh=1.0)
    hooks["on_loss"](flow, None, p, env(window=10 * S, in_flight=10_000, acked=0))
    at = env(window=7 * S, rtt=0.01, srtt=0.01)
    seen = {}
    for rtt in range(1, 31):
        at.acked = at.window
        at.now += 0.01
        hooks["on_ack"](flow, None, p, at)
        seen[rtt] = at.window / S
    slope = 0.9 / 1.7
    assert [seen[k] for k in (1, 5)] == pytest.approx([7.0 + slope * k for k in (1, 5)])
    there = next(k for k in seen if seen[k] >= 10.0)
    assert there == 6 and seen[30] == pytest.approx(seen[there] + 24.0)


@pytest.mark.slow
def test_the_mean_window_is_that_of_a_cycle():
    """From beta M to M in K: the packets sent are 1/loss, and their mean window M (3 + beta)/4."""
    made, loss, D = CUBIC(C=0.3, beta=0.6), 1e-5, 0.07
    M = made.mean_window(loss, D) / (0.25 * (3.0 + 0.6))
    K = cubic.time_to(M, 0.6 * M, 1.0, made.namespace())
    t = np.linspace(0.0, K, 100_001)
    sent = np.trapezoid([cubic.cubic(x, K, M, 1.0, made.namespace()) for x in t], t) / D
    assert sent == pytest.approx(1.0 / loss, rel=1e-6)


def test_between_losses_packets_follow_the_cubic():
    """From the end of each recovery on, the window in packets is that of sec. 4.2."""
    network = ecc.Network.dumbbell("100 Mb/s", [0.05], packet_size=1500, buffer=625_000)
    fields = ["env.window", "flow.began", "flow.K", "flow.M", "flow.E"]
    run = ecc.packet.simulate(Scenario(network, CUBIC(), 60.0), sample=0.05, record=fields)
    window, began, K, M, E = (
        run.data[name][:, 0].to_numpy() / scale
        for name, scale in zip(fields, (1500.0, 1.0, 1.0, 1500.0, 1500.0), strict=True)
    )
    now = run.rate.time.to_numpy()
    t = now - began
    after_recovery = (began > 0.0) & (t > 0.2) & (now > 10.0)
    assert after_recovery.sum() > 700
    # a step of an ACK goes 1/W of the way to where the cubic will be an RTT later: a fraction of a packet behind it
    assert np.abs(window - np.maximum(0.4 * (t - K) ** 3 + M, E))[after_recovery].max() < 0.2
