"""RCP, QI-RCP, PIQI-RCP: laws, equilibria, published bounds."""

from math import pi, sin
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.models import PIQIRCP, QIRCP, RCP, ConstantRate
from ecc.models.shared import rate_feedback
from ecc.network.network import Flow, Link, Network


def test_laws_by_hand():
    rcp = RCP(alpha=0.5, beta=1.0).namespace()
    grown = RCP.router_law(R=10.0, y=90.0, q=2.0, C=100.0, d=0.1, T=0.01, p=rcp)
    assert grown == pytest.approx(10.0 * (1 + 0.01 * (0.5 * 10.0 - 2.0 / 0.1) / (0.1 * 100.0)))
    assert RCP(queue_term=False).namespace().beta == 0.0
    piqi = PIQIRCP(alpha=0.5, alpha1=0.25).namespace()
    assert (piqi.alpha1, piqi.alpha2) == (0.25, 0.5)
    assert PIQIRCP.source_law(x=1.0, R=3.0, R_prev=2.0, p=piqi) == pytest.approx(1.0 + 0.01 * 2.0 + 0.1)


def test_a_capped_source_never_sends_more_than_it_heard():
    for capped, sent in ((False, 3.295), (True, 3.0)):
        p = PIQIRCP(capped=capped).namespace()
        assert PIQIRCP.source_law(x=3.5, R=3.0, R_prev=5.0, p=p) == pytest.approx(sent)
        assert PIQIRCP.source_law(x=1.0, R=3.0, R_prev=3.0, p=p) == pytest.approx(1.02)
    with pytest.raises(LinearizationError, match="slope in x is 0.99 or 0"):
        ecc.linearize(PIQIRCP(capped=True), Network.dumbbell("10 Mb/s", rtts=[0.1, 0.2]), time="discrete")


def test_rtts_averaged_by_interval_follow_longer_ones_sooner():
    """By T/d of the way up, and down by (R/C) (seen/d) of that."""
    hooks, p = PIQIRCP(rtt_average="interval").link_hooks(), PIQIRCP().namespace()
    for rtts, mean in (((0.3, 0.3), 0.1 + 0.1 * 0.2), ((0.04, 0.06), 0.1 - 0.1 * 0.5 * 0.5 * 0.05)):
        link = rate_feedback.link_at(R=5e6, y=1e7, mean_rtt=0.1, max_rtt=0.1)
        env = SimpleNamespace(now=0.01, kind=0, packet_size=1000, capacity=1e7)
        for rtt in rtts:
            hooks["on_arrival"](link, rate_feedback.Header(rtt=rtt), p, env)
        hooks["on_interval"](link, None, p, env)
        assert link.mean_rtt == pytest.approx(mean)
        assert (link.rtt_bytes, link.with_rtt, link.max_rtt) == (0.0, 0.0, max(rtts))
    fresh = rate_feedback.LinkState(R=5e6)
    hooks["on_arrival"](fresh, rate_feedback.Header(rtt=0.2), p, env)
    hooks["on_interval"](fresh, None, p, env)
    assert fresh.mean_rtt == 0.2


def test_a_flash_crowd_finds_a_shorter_queue_where_sources_are_capped():
    network = Network.dumbbell("20 Mb/s", rtts=[0.1] * 6, starts=[0.0] + [5.0] * 5)
    peaks = [
        ecc.packet.simulate(ecc.Scenario(network, protocol, 10.0)).queue_max.to_numpy().max()
        for protocol in (PIQIRCP(), PIQIRCP(capped=True), PIQIRCP(capped=True, rtt_average="interval"))
    ]
    assert peaks[0] > 1.3 * peaks[1] > 1.3 * peaks[2]


def test_fixed_assignment_moves_the_equilibrium():
    net = Network.parking_lot(["970 Mb/s", "800 Mb/s"])
    point = QIRCP(gamma=1.0).equilibrium(net, np.array([0, 0, 1]))
    assert point.rates == pytest.approx([485e6, 485e6, 315e6])
    with pytest.raises(LinearizationError, match="needs negative rates"):
        QIRCP().equilibrium(Network.xcp_unfair(3, long_link_first=False), np.array([0] * 3 + [1] * 6))


def test_published_bounds():
    equal = Network.dumbbell("100 Mb/s", rtts=[0.1, 0.1])
    mixed = Network.dumbbell("100 Mb/s", rtts=[0.1, 0.2])
    values = {b.theorem: b for b in QIRCP().published_bounds(equal) + QIRCP().published_bounds(mixed)}
    assert values["THESIS Theorem 3"].value == pytest.approx(pi / 2)
    assert values["THESIS Theorem 4"].value == pytest.approx(pi * 0.15 / (2 * 0.2))
    assert values["THESIS Theorem 7"].value == pytest.approx(20 * sin(pi / 38))
    assert values["THESIS Theorem 8"].value == pytest.approx(1.2080, abs=5e-5)
    values = {b.theorem: b for b in PIQIRCP().published_bounds(equal) + PIQIRCP().published_bounds(mixed)}
    assert values["THESIS Theorem 9"].value == pytest.approx(pi / 4)
    assert values["THESIS Theorem 10"].value == pytest.approx(pi * 0.15 / (4 * 0.2))
    assert values["THESIS Theorem 12"].value == pytest.approx(10 * sin(pi / 38))
    assert values["THESIS Theorem 13"].kind == "sufficient"
    assert QIRCP().published_bounds(Network.T_u()) == []


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RCP(alpha=0.0), "alpha must be > 0, got 0.0"),
        (lambda: RCP(beta=-1.0), "beta must be >= 0, got -1.0"),
        (lambda: RCP(rtt="median"), "rtt must be one of 'mean', 'max', got 'median'"),
        (lambda: RCP(stamping="late"), "stamping must be one of 'departure', 'arrival', got 'late'"),
        (lambda: QIRCP(interval=float("inf")), "interval must be > 0 s and finite, got inf"),
        (lambda: PIQIRCP(tau1=2.0), "tau1 must be > 0 and < 2, got 2.0"),
        (lambda: PIQIRCP(alpha2=-0.1), "alpha2 must be > 0, got -0.1"),
        (lambda: PIQIRCP(rtt_average="mean"), "rtt_average must be one of 'packet', 'interval', got 'mean'"),
        (lambda: PIQIRCP(capped=2), "capped must be one of True, False, got 2"),
        (lambda: PIQIRCP(update="packet"), "update must be one of 'interval', 'ack', 'rtt', got 'packet'"),
    ],
)
def test_bad_parameters_get_one_line(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_wrong_kinds_get_one_line():
    with pytest.raises(TypeError, match="alpha must be a number, got '0.4'"):
        RCP(alpha="0.4")


@pytest.mark.parametrize("protocol", [RCP(loss="halve"), QIRCP(loss="halve"), PIQIRCP(loss="halve")])
def test_a_loss_halves_the_rate_for_an_rtt(protocol):
    hooks, p = protocol.flow_hooks(), protocol.namespace()
    flow, header = rate_feedback.FlowState(x=8e6, R=8e6, bottleneck=0), rate_feedback.Header(rate=8e6, link=0, stamp=1)
    env = SimpleNamespace(now=1.0, rtt=0.1, srtt=0.1, packet_size=1000, rate=8e6, kind=0)
    hooks["on_loss"](flow, header, p, env)
    assert (env.rate, flow.x) == (4e6, 4e6)
    env.now = 1.05
    hooks["on_loss"](flow, header, p, env)
    hooks["on_ack"](flow, header, p, env)
    assert (env.rate, flow.x) == (4e6, 4e6)  # the same RTT: halved once, and routers are not heard
    env.now = 1.1
    hooks["on_ack"](flow, header, p, env)
    assert env.rate == flow.x > 4e6
    flow.x, env.now = 9e4, 2.0
    hooks["on_loss"](flow, header, p, env)
    assert env.rate == 8e4  # a packet an RTT is the least
    probing = rate_feedback.FlowState()
    hooks["on_loss"](probing, header, p, env)
    assert probing == rate_feedback.FlowState()


@pytest.mark.parametrize("protocol", [RCP, QIRCP, PIQIRCP])
def test_in_packets_too_the_rate_is_halved_for_an_rtt(protocol):
    burst = Flow([0], start=3.0, stop=3.01)
    network = Network([Link("10 Mb/s", "25 ms", "20 kB")], [Flow([0], access_delay=0.025), burst])
    after = {}
    for loss in ("keep", "halve"):
        mix = {"flows": {0: protocol(loss=loss), 1: ConstantRate("40 Mb/s")}}
        run = ecc.packet.simulate(ecc.Scenario(network, mix, 4.0, phases="equal"), sample=0.01, record=["flow.x"])
        assert run.flows["lost"][0] > 0
        after[loss] = run["flow.x"].sel(time=slice(3.0, 3.35), flow=0).to_numpy()
    falls = {loss: x[1:] / x[:-1] for loss, x in after.items()}
    assert falls["keep"].min() > 0.75  # what routers take back of it
    k = int(falls["halve"].argmin())
    assert falls["halve"][k] == pytest.approx(0.5, rel=0.03)  # and what they take back within the sample
    assert np.ptp(after["halve"][k + 1 : k + 10]) == 0.0  # no feedback counts for an RTT
    with pytest.raises(ValueError, match="loss must be one of 'keep', 'halve', got 'quarter'"):
        protocol(loss="quarter")


@pytest.mark.slow
def test_rates_stamped_before_the_queue_arrive_later():
    """A flow that joins one of RCP meets a full link: the news of it waits in the queue that it makes, or passes it."""
    network = Network.dumbbell("970 Mb/s", rtts=[0.05] * 2, starts=[0.0, 10.0], packet_size=1500)
    peaks = {}
    for stamping in ("departure", "arrival"):
        scenario = ecc.Scenario(network, RCP(alpha=0.1, stamping=stamping), 14.0)
        packets, fluid = ecc.packet.simulate(scenario), ecc.fluid.simulate(scenario)
        peaks[stamping] = packets.queue_max.to_numpy().max() / 1500
        assert fluid.queue_max.to_numpy().max() / 1500 == pytest.approx(peaks[stamping], rel=0.02)
    assert peaks["arrival"] > 1.3 * peaks["departure"] > 6000
    with pytest.raises(ValueError, match="time must be 'continuous' for stamping='arrival', got 'discrete'"):
        ecc.fluid.simulate(scenario, time="discrete")
