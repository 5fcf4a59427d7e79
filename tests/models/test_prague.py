"""Prague by hand, against its fixed point, and over DualPI2: RTTs, and beside NewReno and CUBIC."""

from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import CUBIC, NewReno, Prague, prague
from ecc.queues import PI2, DualPI2
from ecc.queues.discipline import QueueDiscipline
from ecc.scenario import Scenario

S = 1000.0  # bytes
P = Prague().namespace()
HOOKS = Prague().flow_hooks()


def env(**fields):
    defaults = {
        "window": 20 * S,
        "rate": 0.0,
        "packet_size": 1000,
        "acked": 1000,
        "marked": 0,
        "recovering": 0,
        "recovered": 0,
        "in_flight": 10_000,
        "kind": 0,
        "delivered": 10**6,
        "srtt": 0.005,
        "now": 1.0,
        "limited_by": 2,
    }
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def avoiding(**fields):
    """A flow that has seen a mark."""
    return Prague.FlowState(**{"W": 10 * S, "ssthresh": 1.0, "saw_mark": 1, "updated": 1.0, **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prague(g=1.5), "g must be <= 1, got 1.5"),
        (lambda: Prague(g=0.0), "g must be > 0, got 0"),
        (lambda: Prague(reference_rtt=-1.0), "reference_rtt must be >= 0 s, got -1"),
        (lambda: Prague(min_rate=0.0), "min_rate must be > 0 bit/s, got 0"),
        (lambda: Prague(growth=2), "growth must be one of False, True, got 2"),
        (lambda: Prague().mean_rate(1.0, 0.1), "marked must be < 1, got 1.0"),
    ],
)
def test_bad_parameters_get_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_window_of_acks_adds_the_square_of_the_share_of_the_virtual_rtt():
    """Of 25 ms an RTT of 5 ms is a fifth; one of 50 ms is its own."""
    for srtt, share in ((0.005, 0.2), (0.025, 1.0), (0.05, 1.0)):
        flow, at = avoiding(), env(srtt=srtt)
        HOOKS["on_ack"](flow, None, P, at)
        assert flow.W == pytest.approx(10 * S + S * 0.1 * share * share)
        assert at.rate == pytest.approx(8.0 * flow.W / srtt)
        assert at.window == pytest.approx(1.03 * flow.W + S)
    flow, at = avoiding(reduced_at=1.0), env(marked=400)
    HOOKS["on_ack"](flow, None, P, at)
    assert flow.W == pytest.approx(10 * S + 600 * 0.1 * 0.04)  # of bytes without marks


def test_alpha_takes_in_what_was_marked_once_a_virtual_rtt():
    flow, at, seen = avoiding(reduced_at=1.0), env(in_flight=5000, marked=200), []
    for _ in range(60):  # an ACK each ms
        at.now += 1e-3
        at.delivered += 1000
        HOOKS["on_ack"](flow, None, P, at)
        seen.append(flow.alpha)
    assert sorted(set(seen)) == pytest.approx([0.0, 0.2 / 16, 0.2 * (1.0 - (15 / 16) ** 2)])
    assert 24 <= seen.index(max(seen)) - seen.count(0.0) <= 26
    fresh = Prague.FlowState(W=10 * S, ssthresh=1.0, updated=0.0)
    HOOKS["on_ack"](fresh, None, P, env())
    assert fresh.alpha == 0.0 and fresh.updated == 1.0  # no mark yet


def test_a_mark_is_answered_once_in_a_virtual_rtt_and_an_rtt():
    flow, at = avoiding(alpha=0.5), env(marked=1000)
    HOOKS["on_ack"](flow, None, P, at)
    assert flow.W == flow.ssthresh == 7.5 * S
    for now, delivered in ((1.02, 10**6 + 20_000), (1.03, 10**6 + 9000)):
        at.now, at.delivered = now, delivered
        HOOKS["on_ack"](flow, None, P, at)
        assert flow.W == 7.5 * S
    at.now, at.delivered, flow.alpha = 1.03, 10**6 + 11_000, 0.4
    HOOKS["on_ack"](flow, None, P, at)
    assert flow.W == pytest.approx(0.8 * 7.5 * S)


def test_slow_start_ends_at_the_first_mark_with_half_the_window():
    flow, at = Prague.FlowState(W=10 * S), env(srtt=0.1)
    HOOKS["on_ack"](flow, None, P, at)
    assert flow.W == 11 * S and at.rate == pytest.approx(2 * 8.0 * 11 * S / 0.1)
    HOOKS["on_ack"](flow, None, P, env(marked=1000, srtt=0.1))
    assert flow.W == flow.ssthresh == 5.5 * S and flow.saw_mark == 1


def test_losses_halve_the_window_which_then_stays_for_a_virtual_rtt():
    flow, at = avoiding(alpha=0.5), env()
    HOOKS["on_loss"](flow, None, P, at)
    HOOKS["on_loss"](flow, None, P, at)
    assert flow.W == flow.ssthresh == 5 * S
    HOOKS["on_ack"](flow, None, P, env(now=1.02, delivered=2 * 10**6, marked=500))
    assert flow.W == 5 * S
    HOOKS["on_ack"](flow, None, P, env(now=1.03, delivered=2 * 10**6))
    assert flow.W > 5 * S
    at = env(kind=1)
    HOOKS["on_loss"](flow, None, P, at)
    assert (flow.W, at.window) == (S, pytest.approx(2.03 * S)) and flow.ssthresh == pytest.approx(2.5 * S, rel=0.01)


def test_without_marks_windows_grow_by_what_the_rate_sends_in_a_millisecond():
    flow = avoiding(W=1e6, wait=0.0)
    HOOKS["on_ack"](flow, None, P, env())
    step = 1e6 / 0.005 * 1e-3
    assert flow.W == pytest.approx(1e6 + step * 1000 / 1e6 * 0.04)
    flow = avoiding(W=1e6, wait=0.0)
    HOOKS["on_ack"](flow, None, Prague(growth=False).namespace(), env())
    assert flow.W == pytest.approx(1e6 + S * 1000 / 1e6 * 0.04)
    flow = avoiding(W=1e6, wait=0.0)
    HOOKS["on_ack"](flow, None, P, env(marked=1000))
    assert flow.wait == 7 + 8e6 / 0.005 // 15.36e6


def test_a_window_below_two_packets_is_paced_down_to_the_least_rate():
    flow, at = avoiding(W=100.0, reduced_at=1.0), env(marked=1000)
    HOOKS["on_ack"](flow, None, P, at)
    assert flow.W == 100.0 and at.window == 2 * S and at.rate == 8.0 * 100.0 / 0.005
    flow.W = 1.0
    HOOKS["on_ack"](flow, None, P, at)
    assert at.rate == 1e5


def test_laws_are_what_the_hooks_call():
    law = Prague.source_law(10.0, 0.25, 0.005, 1.0, P)
    assert law == prague.grown(10.0, 7.5, 0.005, 1.0, 1.0, P) == pytest.approx(10.0 + 0.75 * 0.04)
    assert Prague().states["alpha"].law(0.5, 0.1, 0.005, P) == pytest.approx(0.5 + 0.2 / 16 * (0.1 - 0.5))
    half = Prague.mark_response_law(20.0, 0.5, 0.05, 1.0, P)  # ten marks in V: one in eleven is answered
    assert half == pytest.approx(20.0 - 5.0 / 11.0)
    assert Prague.loss_response_law(10.0) == 5.0


class Fixed(QueueDiscipline):
    """Marks a share of packets at random."""

    required_env = frozenset({"random"})
    gives = frozenset({"ecn"})

    def link_hooks(self):
        return {"on_departure": on_departure}


def on_departure(link, header, p, env):
    if env.kind == 0 and env.random < 0.05:
        env.mark = 1


@pytest.mark.parametrize("rtt", [0.005, 0.02, 0.06])
def test_the_rate_at_a_share_marked_is_that_of_random_marks(rtt):
    """Not 2 (1 - p) marks in a virtual RTT, but 1 + sqrt(3)."""
    network = ecc.Network.dumbbell("1 Gb/s", [rtt], packet_size=1500)
    run = ecc.packet.simulate(Scenario(network, {"flows": Prague(), "links": Fixed(mark=True)}, 120.0), sample=1.0)
    rate = float(run.rate[20:].mean())
    assert rate == pytest.approx(Prague().mean_rate(0.05, rtt, random=True), rel=0.04)
    assert Prague().mean_rate(1e-6, rtt, random=True) / Prague().mean_rate(1e-6, rtt) == pytest.approx(
        0.5 + 0.5 * sqrt(3.0), rel=1e-5
    )


@pytest.mark.parametrize("rtts", [[0.005, 0.025], [0.001, 0.01], [0.01, 0.01]], ids=str)
def test_rates_do_not_depend_on_rtts_below_the_reference(rtts):
    network = ecc.Network.dumbbell("40 Mb/s", rtts, packet_size=1500, buffer="5 MB")
    scenario = Scenario(network, {"flows": Prague(), "links": DualPI2()}, 60.0)
    goodput = ecc.packet.simulate(scenario, sample=1.0).goodput[20:].mean("time").to_numpy()
    assert goodput[0] / goodput[1] == pytest.approx(1.0, abs=0.15)
    assert goodput.sum() > 0.98 * 40e6
    own = Scenario(network, {"flows": Prague(reference_rtt=0.0), "links": DualPI2()}, 60.0)
    if rtts[0] < rtts[1]:
        goodput = ecc.packet.simulate(own, sample=1.0).goodput[20:].mean("time").to_numpy()
        assert goodput[0] > 2.0 * goodput[1]


@pytest.mark.slow
@pytest.mark.parametrize("classic", [NewReno(transport="sack"), CUBIC(ecn=True)], ids=["NewReno", "CUBIC"])
def test_beside_classic_flows_under_dualpi2_shares_are_equal(classic):
    """With RTTs of 10 ms, 25 ms with the classic queue's target."""
    network = ecc.Network.dumbbell("40 Mb/s", [0.01] * 4, packet_size=1500, buffer="5 MB")
    hosts = {"0-1": Prague(), "default": classic}
    run = ecc.packet.simulate(Scenario(network, {"flows": hosts, "links": DualPI2()}, 60.0), sample=1.0)
    goodput = run.goodput[20:].mean("time").to_numpy()
    assert goodput[:2].sum() / goodput[2:].sum() == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("rtts", [[0.005] * 2 + [0.025] * 2, [0.05] * 4], ids=["short", "long"])
def test_the_fluid_is_that_of_packets_over_pi2(rtts):
    network = ecc.Network.dumbbell("40 Mb/s", rtts, packet_size=1500, buffer="5 MB")
    scenario = Scenario(network, {"flows": Prague(), "links": PI2(mark=True, packet_size=1500)}, 40.0)
    packets, fluid = ecc.packet.simulate(scenario, sample=1.0), ecc.fluid.simulate(scenario, sample=1.0)
    rates, expected = (run.rate[20:].mean("time").to_numpy() for run in (fluid, packets))
    pair = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]) / 2.0
    assert pair @ rates == pytest.approx(pair @ expected, rel=0.05)
    assert float(fluid.queue[20:].mean()) == pytest.approx(float(packets.queue[20:].mean()), rel=0.03)
    assert float(fluid.marks[20:].mean()) == pytest.approx(float(packets.marks[20:].mean()), rel=0.06)


def test_the_linear_model_over_pi2_begins_where_the_fluid_ends():
    network = ecc.Network.dumbbell("40 Mb/s", [0.02] * 4, packet_size=1500)
    protocol = {"flows": Prague(), "links": PI2(mark=True, packet_size=1500)}
    loop = ecc.linearize(protocol, network)
    assert loop.is_stable
    gained = {"flows": Prague(), "links": PI2(mark=True, packet_size=1500, alpha=41 / 8, beta=819 / 8)}
    assert not ecc.linearize(gained, network).is_stable
