"""MaxNet: laws and counters by hand, its equilibrium and linear model, and the figures of MAXNET."""

from dataclasses import replace
from math import exp, log
from types import SimpleNamespace

import numpy as np
import pytest

from ecc.loops.closed_loop import linearize
from ecc.models import MaxNet, maxnet
from ecc.network.impairments import RandomLoss
from ecc.network.network import Network
from ecc.packet import simulate
from ecc.scenario import Scenario
from ecc.stability import critical_gain

PAYLOAD = 1448 / 1514  # what netperf counts of a full Ethernet frame
FORMS = pytest.mark.parametrize("form", ["maxnet", "thesis"])


def bottleneck(*rtts):
    """MAXNET's: 10 Mb/s and a buffer of 30 KB."""
    return Network.dumbbell("10 Mb/s", rtts=rtts, buffer=30_000, packet_size=1500)


def run_of(*rtts, duration=60.0, protocol=None):
    return simulate(Scenario(bottleneck(*rtts), protocol or MaxNet(), duration), sample=0.025)


def after(run, start):
    return run.data.sel(time=slice(start, None))


def over_base(run, start):
    """Mean RTT after `start` beyond that over idle links, of which 1.2 ms are a transmission; by Little's law [s]."""
    late = after(run, start)
    return 8.0 * late.queue.mean().item() / late.goodput.sum("flow").mean().item() - 1500 * 8 / 10e6


def throughput(run, start):
    return PAYLOAD * after(run, start).goodput.mean("time").to_numpy() / 1e6


@pytest.mark.claim
def test_mx_f5_round_trips_stay_near_those_over_idle_links():
    """About 29 ms, with 28 ms of propagation and 1.2 of transmission. No packet is lost."""
    run = run_of(0.028)
    assert over_base(run, 0.0) == pytest.approx(0.63e-3, rel=0.03)
    assert over_base(run, 10.0) == pytest.approx(0.45e-3, rel=0.03)
    assert run.drops.sum() == 0
    assert after(run, 10.0).goodput.mean() == pytest.approx(9.6e6, rel=1e-3)


@pytest.mark.claim
def test_mx_f7_equal_flows():
    """2.27 to 2.31 Mb/s, about 29 ms."""
    run = run_of(*[0.028] * 4)
    rates = throughput(run, 0.0)
    assert rates.min() > 2.27 and rates.max() < 2.31
    assert over_base(run, 0.0) < 1.2e-3 and over_base(run, 10.0) < 0.2e-3
    assert run.drops.sum() == 0


@pytest.mark.claim
def test_mx_f7_flows_of_unlike_rtts():
    """4.40 and 4.68 Mb/s over links of 28 and 14 ms, whose RTTs MAXNET gives as 57 and 29 ms: with a transmission.

    So it is over a minute from the start, when the short RTT is ahead; later the long one is, by 5 %.
    """
    run = run_of(0.056, 0.028)
    assert throughput(run, 0.0) == pytest.approx([4.40, 4.68], rel=0.01)
    assert over_base(run, 0.0) < 2e-3
    long, short = throughput(run, 10.0)
    assert 1.04 < long / short < 1.06
    assert over_base(run, 10.0) == pytest.approx(1.44e-3, rel=0.03)
    lost = run.data.drops.sum("link")
    assert lost.sum() == 3 and lost.sel(time=slice(3.0, None)).sum() == 0


@pytest.mark.claim
@pytest.mark.parametrize("rtts", [(0.028,), (0.028,) * 4, (0.057, 0.029)])
def test_units_of_seconds_make_the_printed_gains_unstable(rtts):
    """By a factor of six to eight in the sampled model; packets fill a third of the link at best."""
    value = critical_gain(MaxNet(price_scale=0.05), bottleneck(*rtts), "price_scale", time="discrete").value
    assert 0.128 < value < 0.164
    assert not linearize(MaxNet(price_scale=1.0), bottleneck(*rtts), "discrete").is_stable
    run = run_of(*rtts, protocol=MaxNet(price_scale=1.0))
    assert after(run, 10.0).goodput.sum("flow").mean() < 0.33 * 10e6
    assert after(run, 10.0).drops.sum() > 1000


@pytest.mark.claim
@pytest.mark.parametrize(
    ("loss", "reported", "ours"), [(0.0, 8.89, 8.48), (0.01, 8.58, 8.37), (0.03, 7.83, 8.17), (0.05, 6.85, 7.98)]
)
def test_mx_t1_losses_cost_little(loss, reported, ours):
    """Table I, 10 s of one flow [Mb/s]: within 5 % up to 3 %; beyond it the paper's two SACK blocks fall behind."""
    impairments = [RandomLoss(loss, link=0)]
    rates = []
    for seed in range(3):
        run = simulate(Scenario(bottleneck(0.028), MaxNet(), 10.0, seed=seed, impairments=impairments), sample=0.1)
        rates.append(throughput(run, 0.0).item())
    assert np.mean(rates) == pytest.approx(ours, abs=0.03)
    assert (abs(ours / reported - 1.0) < 0.05) == (loss <= 0.03)


@FORMS
def test_the_forms_are_one_loop(form):
    """THESIS (2.10) counts intervals where MAXNET (1) counts seconds."""
    one, other = MaxNet(), MaxNet(form=form)
    assert run_of(0.028, 0.057, duration=10.0, protocol=other).rate.to_numpy() == pytest.approx(
        run_of(0.028, 0.057, duration=10.0).rate.to_numpy()
    )
    network = bottleneck(0.028, 0.057)
    points = [protocol.equilibrium(network) for protocol in (one, other)]
    assert points[1].rates == pytest.approx(points[0].rates)
    ratio = points[1].fair_rate / points[0].fair_rate
    assert ratio == pytest.approx(1.0 if form == "maxnet" else 1.0 / (0.96 * 0.01))


def test_laws_by_hand():
    p = MaxNet(price_scale=1.0).namespace()
    assert MaxNet.router_law(R=0.1, y=12e6, C=10e6, T=0.02, p=p) == pytest.approx(0.1 + 0.02 * (12 - 9.6) / 10)
    assert MaxNet.router_law(R=0.001, y=0.0, C=10e6, T=0.02, p=p) == 0.0
    thesis = MaxNet(form="thesis").namespace()
    assert MaxNet.router_law(R=5.0, y=12e6, C=10e6, T=0.02, p=thesis) == pytest.approx(5 + (12 - 9.6) / 9.6)
    assert maxnet.integral_law(3.0, 20.0, 0.01, 0.05, 0.01, p) == pytest.approx(3 + (6 / 20 - 0.01 / 0.05) * 0.01)
    assert maxnet.window_law(3.0, 0.01, 0.05, p) == pytest.approx(2 * exp(3 - 15 * 0.01 / 0.05))
    assert maxnet.integral_of(7.0, 0.01, 0.05, p) == pytest.approx(log(7 / 2) + 3)
    x, T, D = 20 * 12000 / 0.05, 0.01, 0.05
    step = T * T * 20 / D * (6 / 20 - 0.01 / D) - 15 * (0.01 - 0.012) / D
    assert MaxNet.source_law(x, R=0.01, R_prev=0.012, D=D, T=T, p=p) == pytest.approx(x * exp(step))


@FORMS
def test_the_price_at_rest_is_the_demand_function(form):
    protocol = MaxNet(form=form, mu=0.9)
    point, p = protocol.equilibrium(Network.parking_lot(["97 Mb/s", "80 Mb/s"])), protocol.namespace()
    assert point.rates == pytest.approx([36e6, 87.3e6 - 36e6, 36e6])
    shares = 12000 * p.p1 / (p.p2 * p.scale * point.fair_rate)
    assert shares == pytest.approx([87.3e6 - 36e6, 36e6])


@FORMS
def test_paganini_bound(form):
    """pi/2 without integral and with short intervals; a little of both is left in the model."""
    network = Network.dumbbell("10 Mb/s", rtts=[1.0])
    protocol = MaxNet(form=form, p1=0.006, p2=0.001, interval=0.002)
    (bound,) = protocol.published_bounds(network)
    assert bound.kind == "sufficient"
    for factor in (0.98, 1.02):
        tried = replace(protocol, p4=factor * bound.value)
        assert linearize(tried, network, "discrete").is_stable == (factor < 1.0)


def test_a_router_integrates_over_the_time_that_passed():
    protocol = MaxNet()
    p, hooks, link = protocol.namespace(), protocol.link_hooks(), maxnet.LinkState()
    env = SimpleNamespace(now=0.004, capacity=1e6, packet_size=1500, kind=0, link=2, next_interval=0.0)
    hooks["on_start"](link, None, p, env)
    assert env.next_interval == 0.01
    hooks["on_arrival"](link, None, p, env)
    hooks["on_interval"](link, None, p, env)  # opens the counters
    assert link.price == 0.0
    for _ in range(3):
        hooks["on_arrival"](link, None, p, env)
    env.now = 0.034
    hooks["on_interval"](link, None, p, env)
    assert link.price == pytest.approx(3 * 12000 / 1e6 - 0.96 * 0.03)  # MAXNET (2)
    header = maxnet.Header()
    hooks["on_departure"](link, header, p, SimpleNamespace(kind=1, link=2))
    assert header.link == -1
    hooks["on_departure"](link, header, p, env)
    assert (header.price, header.link) == (link.price, 2)
    other = maxnet.LinkState(price=0.5 * link.price)
    hooks["on_departure"](other, header, p, SimpleNamespace(kind=0, link=3))
    assert header.link == 2
    env.now = 9.0
    hooks["on_interval"](link, None, p, env)
    assert link.price == 0.0


def test_a_source_moves_by_bounded_steps():
    protocol = MaxNet(price_scale=1.0)
    p, hooks, flow = protocol.namespace(), protocol.flow_hooks(), maxnet.FlowState()
    env = SimpleNamespace(min_rtt=0.05, packet_size=1500, rate=0.0, window=0.0, kind=1, acked=1500)
    hooks["on_start"](flow, None, p, env)
    assert (env.window, env.rate) == (3000.0, 0.0)
    hooks["on_ack"](flow, maxnet.Header(), p, env)
    assert flow.eta == pytest.approx(6 / 2 * 0.01)
    assert flow.W == pytest.approx(2 * exp(0.03)) and env.window == pytest.approx(1500 * flow.W)
    flow.eta = 9.0
    before = flow.W
    hooks["on_ack"](flow, maxnet.Header(), p, env)
    assert flow.W == pytest.approx(before + 2.0)
    flow.W = 50.0
    hooks["on_ack"](flow, maxnet.Header(price=1.0, link=4), p, env)
    assert (flow.W, flow.bottleneck) == (pytest.approx(30.0), 4)
    hooks["on_loss"](flow, None, p, SimpleNamespace(kind=0))
    assert flow.W == pytest.approx(30.0)
    hooks["on_loss"](flow, None, p, env)
    assert (flow.W, env.window) == (1.0, 1500.0)
    flow.eta = 1e6
    hooks["on_ack"](flow, maxnet.Header(), p, env)  # no overflow
    assert flow.W == 3.0
    flow.eta, flow.W, env.acked = 0.0, 2.0, 500  # a third of a segment
    hooks["on_ack"](flow, maxnet.Header(), p, env)
    assert flow.eta == pytest.approx(6 / 2 * 0.01 / 3)


def test_a_flow_placed_at_rest_goes_from_its_rate_to_its_window():
    protocol = MaxNet()
    p, hooks, flow = protocol.namespace(), protocol.flow_hooks(), protocol.flow_at(4.8e6, 0.3, 0)
    env = SimpleNamespace(min_rtt=0.05, packet_size=1500, rate=0.0, window=0.0, acked=1500)
    hooks["on_start"](flow, None, p, env)
    assert (env.rate, env.window) == (4.8e6, 0.0)
    price = 6 * 12000 / (0.05 * 4.8e6)
    hooks["on_ack"](flow, maxnet.Header(price=price, link=0), p, env)
    assert env.rate == 0.0 and flow.W == pytest.approx(20.0)


def test_bursts_may_lock_to_the_ticks():
    """An RTT of two intervals, entered at equilibrium: windows in step with the prices, queues four times as long."""
    found = {}
    for delay in (0.010, 0.013):
        network = Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay=delay)
        run = simulate(Scenario(network, MaxNet(), 20.0), sample=0.5, start="equilibrium")
        rates = after(run, 5.0).rate.mean("time").to_numpy()
        off = np.abs(rates / MaxNet().equilibrium(network).rates - 1.0).max()
        found[delay] = off, after(run, 5.0).queue_max.mean().item()
    assert 0.02 < found[0.010][0] < 0.04 and found[0.013][0] < 0.003
    assert found[0.010][1] > 4.0 * found[0.013][1]


def test_transfers_complete_in_spite_of_losses():
    """Through a buffer of two packets, which takes whole windows at times."""
    network = Network.dumbbell("10 Mb/s", rtts=[0.05] * 6, buffer=3000, sizes=["1 MB"] * 6, packet_size=1500)
    run = simulate(Scenario(network, MaxNet(), 60.0), sample=0.5)
    assert (run.flows["lost"] > 0).all()
    assert (run.flows["delivered"] == 1e6).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MaxNet(p4=0.0), "p4 must be > 0, got 0.0"),
        (lambda: MaxNet(form="linux"), "form must be one of 'maxnet', 'thesis', got 'linux'"),
        (lambda: MaxNet(price_scale=-1.0), "price_scale must be > 0, got -1.0"),
        (lambda: MaxNet(segment=0), "segment must be >= 1 bytes, got 0"),
        (
            lambda: MaxNet(transport="tcp"),
            "transport must be one of None, 'newreno', 'sack', 'rack', 'quic', got 'tcp'",
        ),
        (lambda: MaxNet(min_rto=0.0), "min_rto must be > 0 s, got 0.0"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_prices_meet_at_one_rate_whatever_the_rtt():
    """mx-1: three RTTs, one rate, mu C at either bottleneck."""
    network = Network.parking_lot(["30 Mb/s", "20 Mb/s"], delay="10 ms", packet_size=1500)
    run = simulate(Scenario(network, MaxNet(), 60.0), sample=0.5)
    rates = run.rate.sel(time=slice(30.0, None)).mean("time").to_numpy()
    assert rates == pytest.approx(MaxNet().equilibrium(network).rates, rel=0.02)
    assert np.array_equal(run.bottleneck[-1], [1, 0, 1])
