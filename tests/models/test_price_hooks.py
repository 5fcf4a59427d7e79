"""MKC, EMKC, EMKC-AVQ and Kelly in packets: the numbers of JETMAX sec. 3, and the counters by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, EMKCAVQ, MKC, Kelly
from ecc.models.shared import price_feedback
from ecc.network.allocation import max_min, proportional
from ecc.network.network import Network
from ecc.packet import simulate
from ecc.scenario import Scenario

T1 = Network.dumbbell("10 Mb/s", [0.22, 2.02], starts=[0.0, 5.0], buffer="2.525 MB")  # C times the longer RTT


def settled(run, since):
    return run.rate.sel(time=slice(since, None)).mean("time").to_numpy()


def fair_after(run, share):
    """When the rates of both flows come within `share` of each other for good [s]."""
    rates = run.rate.to_numpy()
    apart = np.abs(rates[:, 0] - rates[:, 1]) > share * rates.mean(axis=1)
    return float(run.rate["time"][np.flatnonzero(apart)[-1]])


@pytest.mark.claim
def test_jx_f1_emkc_is_slow_and_overloads():
    """Over 250 s to fairness, and 8 % above the capacity for good; the buffer overflows."""
    run = simulate(Scenario(T1, EMKC(), 450.0), sample=1.0)
    assert 250.0 < fair_after(run, 0.1) < 290.0
    assert settled(run, 400.0).sum() == pytest.approx(10.8e6, rel=1e-3)
    lost = 8000 * run.drops.sel(time=slice(400.0, None)).mean().item()  # bits a second
    assert lost == pytest.approx(0.8e6, rel=0.01)


@pytest.mark.claim
def test_jx_f1_emkc_avq_is_fair_and_loses_nothing():
    """5 Mb/s each; the rates are within 2 % of each other after about 200 s."""
    run = simulate(Scenario(T1, EMKCAVQ(), 400.0), sample=1.0)
    assert settled(run, 300.0) == pytest.approx([5e6, 5e6], rel=2e-3)
    assert 190.0 < fair_after(run, 0.02) < 230.0
    assert run.drops.sum() == 0


@pytest.mark.claim
def test_jx_f5_emkc_avq_overshoots_with_a_larger_alpha():
    """13 Mb/s at an instant and over 50 s above capacity with two flows, 400 % above it with twenty."""
    run = simulate(Scenario(T1, EMKCAVQ(alpha="2 Mb/s"), 150.0), sample=0.1)
    load = run.arrival[:, 0]
    assert load.max() == pytest.approx(13e6, rel=0.02)
    assert 50.0 < float(load["time"][load > 10.1e6][-1]) < 80.0
    rtts, starts = [0.22] * 10 + [2.02] * 10, [0.0] * 10 + [5.0] * 10
    crowd = Network.dumbbell("10 Mb/s", rtts, buffer="2.525 MB", starts=starts)
    run = simulate(Scenario(crowd, EMKCAVQ(alpha="2 Mb/s"), 20.0), sample=1.0)
    assert run.arrival.max() == pytest.approx(53.6e6, rel=0.01)


@pytest.mark.claim
@pytest.mark.parametrize("count", [1, 4, 20])
def test_emkc_2_in_packets(count):
    """C + N alpha/beta."""
    network = Network.dumbbell("10 Mb/s", rtts=np.linspace(0.05, 0.2, count), buffer="250 kB")
    run = simulate(Scenario(network, EMKC(), 60.0), sample=1.0)
    assert settled(run, 40.0).sum() == pytest.approx(10e6 + count * 0.4e6, rel=0.005)


@pytest.mark.claim
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_avq_1_in_packets(gamma):
    """gamma C on every bottleneck, max-min fair, without stationary loss."""
    network = Network.parking_lot(["10 Mb/s", "8 Mb/s"], delay="20 ms", buffer="100 kB")
    run = simulate(Scenario(network, EMKCAVQ(gamma=gamma), 150.0), sample=1.0)
    assert settled(run, 100.0) == pytest.approx(max_min(network, gamma * network.capacities), rel=0.01)
    assert run.drops.sel(time=slice(100.0, None)).sum() == 0


@pytest.mark.parametrize("rtts", [(0.22, 2.02), (0.67, 2.47), (0.7, 2.5)])
def test_avq_stays_calm_at_any_phase_of_the_rtt(rtts):
    """Rates that are paired with the wrong packets oscillate at the second of these: 16 to 25 % of the mean."""
    network = Network.dumbbell("10 Mb/s", rtts=rtts)
    run = simulate(Scenario(network, EMKCAVQ(gamma=0.95), 250.0), sample=0.1, start="equilibrium", perturbation=0.02)
    assert run.rate.sel(time=slice(200.0, None)).std("time").max() < 0.02 * 4.75e6


@pytest.mark.parametrize("share", [0.45, 0.55])
def test_avq_needs_a_fair_share_above_half_of_alpha(share):
    """Differences between flows go as (1 - alpha/x)^n, a mode of the linear model of heterogeneous RTTs."""
    protocol = EMKCAVQ(alpha="1 Mb/s", gamma=0.95)
    network = Network.dumbbell(10e6 * share / 0.95, rtts=[0.1, 0.15, 0.2, 0.22, 0.25] * 2)
    assert linearize(protocol, network, "discrete").is_stable == (share > 0.5)
    run = simulate(Scenario(network, protocol, 100.0), sample=0.1, start="equilibrium")
    late = run.rate.sel(time=slice(60.0, None))
    apart = float((late - late.mean("flow")).std() / late.mean())
    assert apart < 0.08 if share > 0.5 else apart > 0.2


@pytest.mark.parametrize("steepness", [1.0, 4.0])
@pytest.mark.parametrize(
    "network",
    [
        Network.dumbbell("50 Mb/s", rtts=[0.05, 0.12, 0.08]),
        Network.parking_lot(["97 Mb/s", "80 Mb/s", "60 Mb/s"], delay="10 ms"),
    ],
    ids=["dumbbell", "parking_lot"],
)
def test_kelly_reaches_the_proportionally_fair_rates(network, steepness):
    """Of the loads that it puts on the links, which a soft price leaves open."""
    protocol = Kelly(omega="15 Mb/s", steepness=steepness)
    point = protocol.equilibrium(network)
    assert proportional(network, point.rates @ network.incidence) == pytest.approx(point.rates, rel=1e-9)
    rates = settled(simulate(Scenario(network, protocol, 30.0), sample=0.5), 20.0)
    assert rates == pytest.approx(point.rates, rel=0.01)
    assert rates == pytest.approx(proportional(network, rates @ network.incidence), rel=0.01)


def test_mkc_from_nothing():
    network = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.3])
    protocol = MKC(alpha="1 Mb/s", steepness=2.0)
    run = simulate(Scenario(network, protocol, 30.0), sample=0.5)
    assert run.rate[0, 0] < 2.5e6  # alpha at first
    assert settled(run, 20.0) == pytest.approx(protocol.equilibrium(network).rates, rel=0.01)


def test_a_fixed_assignment_is_listened_to():
    network = Network.parking_lot(["9.7 Mb/s", "8 Mb/s"], delay="10 ms")
    assignment = np.array([0, 0, 1])
    run = simulate(Scenario(network, EMKCAVQ(gamma=0.9), 120.0, assignment=assignment), sample=1.0)
    assert (run.bottleneck[-1].to_numpy() == assignment).all()
    expected = EMKCAVQ(gamma=0.9).equilibrium(network, assignment).rates
    assert settled(run, 90.0) == pytest.approx(expected, rel=0.02)


def packet(kind=0, now=0.0, size=1000, link=3, capacity=1e6):
    return SimpleNamespace(kind=kind, now=now, packet_size=size, link=link, capacity=capacity, next_interval=0.0)


def test_a_router_is_silent_until_it_has_measured_and_keeps_its_price_without_arrivals():
    p, hooks, link = EMKC().namespace(), EMKC().link_hooks(), price_feedback.LinkState()
    header = price_feedback.Header()
    hooks["on_arrival"](link, header, p, packet())
    hooks["on_interval"](link, None, p, packet(now=0.03))  # opens the counters
    hooks["on_arrival"](link, header, p, packet())
    assert header.link == -1
    for _ in range(15):
        hooks["on_arrival"](link, header, p, packet())
    hooks["on_interval"](link, None, p, packet(now=0.13))
    assert link.price == pytest.approx((1.28e6 - 1e6) / 1.28e6)  # 16 kB in 100 ms
    hooks["on_interval"](link, None, p, packet(now=0.23))
    assert link.price == pytest.approx(0.28 / 1.28)
    hooks["on_arrival"](link, header, p, packet(kind=1))  # an ACK is counted, not marked
    assert (header.link, link.arrived) == (-1, 1000.0)
    hooks["on_arrival"](link, header, p, packet())
    assert (header.link, header.stamp, header.price) == (3, 3, link.price)


def test_a_source_answers_each_price_once_from_the_rate_that_made_it():
    protocol = EMKC()
    p, on_ack, flow = protocol.namespace(), protocol.flow_hooks()["on_ack"], price_feedback.FlowState(x=9e6, prices=2)
    env = SimpleNamespace(packet_size=1000, rtt=0.1, rate=9e6)

    def ack(price, x, link, stamp):
        on_ack(flow, price_feedback.Header(price=price, x=x, link=link, stamp=stamp), p, env)
        return flow.x

    assert ack(0.1, 4e6, 2, 7) == env.rate == pytest.approx(4e6 + 0.2e6 - 0.5 * 0.1 * 4e6)
    before = flow.x
    assert ack(0.1, 6e6, 2, 7) == before  # the same price
    assert ack(price_feedback.SILENT, 6e6, -1, 0) == before  # none
    assert ack(0.2, 99e6, 2, 8) == pytest.approx(0.2e6 + (1 - 0.5 * 0.2) * (4e6 + 6e6 + 6e6) / 3)
    assert ack(0.2, 99e6, 2, 7) == flow.x  # an older one, overtaken on its way
    assert ack(0.3, 99e6, 1, 4) == pytest.approx(0.2e6 + (1 - 0.5 * 0.3) * 99e6)  # of another router
    assert ack(1.0, 99e6, 1, 5) == pytest.approx(0.2e6 + 0.5 * 99e6)
    harsh = EMKC(beta=50.0).namespace()
    on_ack(flow, price_feedback.Header(price=1.0, x=1e6, link=1, stamp=6), harsh, env)
    assert flow.x == pytest.approx(8000 / 0.1)  # one packet an RTT at least


def test_a_flow_does_not_answer_prices_of_intervals_that_it_joined_midway():
    """Wherever in an interval it begins: at most C + alpha/beta, where answering the first would send 12 C."""
    for start in np.linspace(1.0, 1.1, 25, endpoint=False):
        network = Network.dumbbell("10 Mb/s", rtts=[0.22], starts=[start])
        run = simulate(Scenario(network, EMKC(alpha="2 Mb/s"), 4.0, phases="equal"), sample=0.05)
        assert run.arrival.max() < 1.01 * 14e6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EMKC(floor=-1.0), "floor must be >= 0, got -1.0"),
        (lambda: EMKCAVQ(rtt_gain=0.0), "rtt_gain must be > 0, got 0.0"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message):
        build()
