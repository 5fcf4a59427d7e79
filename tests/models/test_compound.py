"""Compound by hand, in packets, as fluid, and over disciplines that mark."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import read_protocol
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import Compound, compound
from ecc.network.impairments import RandomLoss
from ecc.queues import PI
from ecc.scenario import Scenario

S = 1000.0  # bytes


def env(**fields):
    defaults = {
        "window": 100 * S,
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


def flow(**fields):
    return Compound.FlowState(**{"ssthresh": 1.0, "gamma": 30.0, **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Compound(alpha=0.0), "alpha must be > 0, got 0.0"),
        (lambda: Compound(beta=1.0), "beta must be < 1, got 1"),
        (lambda: Compound(k=1.0), "k must be < 1, got 1"),
        (lambda: Compound(k=0.0), "k must be > 0, got 0.0"),
        (lambda: Compound(gamma=-1.0), "gamma must be > 0, got -1.0"),
        (lambda: Compound(zeta=0.0), "zeta must be > 0, got 0.0"),
        (lambda: Compound(low_window=-1.0), "low_window must be >= 0, got -1.0"),
        (lambda: Compound(adaptive="yes"), "adaptive must be one of False, True, got 'yes'"),
        (
            lambda: Compound(adaptive=True, gamma=4.0),
            "gamma must be >= 5 packets, the minimum of an adaptive gamma, got 4",
        ),
        (
            lambda: Compound(slow_start="hybrid"),
            "slow_start must be one of 'standard', 'hystart', .*, got 'hybrid'",
        ),
        (lambda: Compound().mean_window(0.0), "loss must be > 0, got 0.0"),
        (lambda: Compound().mean_window(1.0), "loss must be < 1, got 1.0"),
    ],
)
def test_bad_parameters_get_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_no_law_allows_is_refused_in_one_line():
    network = ecc.Network.dumbbell("10 Mb/s", [0.1])
    with pytest.raises(ValueError, match="Compound has no equilibrium to linearize at: its windows grow until a queue"):
        ecc.linearize(Compound(), network)
    with pytest.raises(
        ValueError, match=r"Compound\(adaptive=True\) has no fluid model: its laws need a constant gamma"
    ):
        ecc.fluid.simulate(Scenario(network, Compound(adaptive=True), 1.0))


# ---- by hand -----------------------------------------------------------------------------------------------


def test_both_parts_together_gain_alpha_w_to_the_k_where_queues_are_short():
    """Of 256 packets 256^0.75/8 = 8 an RTT: one is Reno's. None of 40, which is below low_window."""
    p = Compound().namespace()
    assert compound.gained(256 * S, S, p) == pytest.approx(7 * S)
    assert compound.gained(40 * S, S, p) == 0.0
    assert compound.gained(16 * S, S, Compound(low_window=0.0).namespace()) == pytest.approx(0.0, abs=1e-9)
    assert compound.delay_part(256 * S, 5 * S, 29.9 * S, 30.0, S, p) == pytest.approx(12 * S)


def test_from_gamma_packets_on_the_delay_part_falls_by_what_is_queued():
    p = Compound(zeta=0.5).namespace()
    assert compound.delay_part(256 * S, 50 * S, 30 * S, 30.0, S, p) == 35 * S
    assert compound.delay_part(256 * S, 10 * S, 30 * S, 30.0, S, p) == 0.0


def test_an_rtt_of_acks_adds_what_both_parts_gain():
    hooks, p, state, at = Compound().flow_hooks(), Compound().namespace(), flow(), env(window=256 * S)
    for _ in range(257):
        hooks["on_ack"](state, None, p, at)
    assert at.window / S == pytest.approx(264, abs=0.1) and state.delay / S == pytest.approx(7, abs=0.1)


@pytest.mark.parametrize(("beta", "left"), [(0.5, 20.0), (0.3, 40.0), (0.7, 0.0)])
def test_a_loss_halves_the_loss_part_and_leaves_the_rest_to_the_delay_part(beta, left):
    """Of 100 packets 40 are the delay part's: of 100 (1 - beta) 30 are the loss part's, if there are as many."""
    made = Compound(beta=beta)
    state, at = flow(delay=40 * S), env(acked=0)
    made.flow_hooks()["on_loss"](state, None, made.namespace(), at)
    assert at.window == pytest.approx(100 * S * (1 - beta)) and state.delay == pytest.approx(left * S, abs=1e-6)


def test_a_timeout_leaves_reno_with_the_rtt_as_it_is():
    state, at = flow(delay=40 * S, base=0.05, gamma=12.0), env(kind=1, acked=0, srtt=0.08)
    Compound(adaptive=True).flow_hooks()["on_loss"](state, None, Compound(adaptive=True).namespace(), at)
    assert (at.window, state.ssthresh, state.delay, state.base, state.gamma) == (S, 50 * S, 0.0, 0.08, 30.0)


def test_gamma_follows_what_reno_would_have_queued():
    """60 of 100 packets are Reno's, half of an RTT is queueing: 30 packets, 3/4 of which weigh 0.8 in gamma."""
    made = Compound(adaptive=True)
    hooks, p, state, at = made.flow_hooks(), made.namespace(), flow(delay=40 * S, base=0.05), env()
    hooks["on_ack"](state, None, p, at)
    assert state.reno == pytest.approx(30 * S)
    at.acked = 0
    hooks["on_loss"](state, None, p, at)
    assert state.gamma == pytest.approx(0.2 * 30 + 0.8 * 22.5) and state.reno < 0.0
    hooks["on_loss"](state, None, p, at)  # nothing new is known
    assert state.gamma == pytest.approx(24.0)


def test_a_loss_that_was_none_gives_the_delay_part_back():
    made = Compound(transport="rack")
    hooks, p, state = made.flow_hooks(), made.namespace(), flow(delay=40 * S)
    at = env(acked=0, in_flight=90_000)
    hooks["on_loss"](state, None, p, at)
    assert (at.window, state.delay) == (45 * S, 20 * S)
    at.acked, at.undone, at.in_flight = 1000, 1, 60_000
    hooks["on_ack"](state, None, p, at)
    assert (at.window, state.delay, state.ssthresh) == (62 * S, 40 * S, 90 * S)  # slow start up to what it was


# ---- mean windows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [Compound(), Compound(alpha=0.3, beta=0.3, k=0.6)], ids=["default", "other"])
def test_the_mean_window_is_that_of_a_cycle(made):
    """From (1 - beta) M to M by alpha W^k an RTT: the packets sent are 1/loss."""
    loss, r = 1e-5, 2.0 - made.k
    M = (made.alpha * r / (loss * (1.0 - (1.0 - made.beta) ** r))) ** (1.0 / r)
    W = np.geomspace((1.0 - made.beta) * M, M, 20_001)
    rtts = np.trapezoid(1.0 / (made.alpha * W**made.k), W)
    assert np.trapezoid(W / (made.alpha * W**made.k), W) == pytest.approx(1.0 / loss, rel=1e-6)
    assert made.mean_window(loss) == pytest.approx(1.0 / (loss * rtts), rel=1e-6)


@pytest.mark.parametrize("made", [Compound(), Compound(alpha=0.3, beta=0.1, k=0.6)], ids=["default", "other"])
def test_the_mean_window_under_random_losses_is_that_of_many_cycles(made):
    """Packets between losses are exponential in number; 1e5 losses."""
    loss, r, n = 1e-5, 2.0 - made.k, 100_000
    sent = np.random.default_rng(1).exponential(1.0 / loss, n)
    kept, y, rtts = (1.0 - made.beta) ** r, 0.0, 0.0
    for packets in sent:
        then, y = y, y + made.alpha * r * packets
        rtts += (y ** (1.0 - 1.0 / r) - then ** (1.0 - 1.0 / r)) / (made.alpha * (r - 1.0))
        y *= kept
    assert made.mean_window(loss, random=True) == pytest.approx(sent.sum() / rtts, rel=0.01)


def test_mean_windows_go_with_the_power_of_the_loss_rate_that_k_says():
    for k, power in ((0.75, 0.8), (0.8, 1.0 / 1.2), (0.5, 1.0 / 1.5)):
        for random in (False, True):
            few, many = (Compound(k=k).mean_window(loss, random=random) for loss in (1e-6, 1e-4))
            assert np.log(few / many) / np.log(100.0) == pytest.approx(power)
    small = Compound(beta=1e-7)  # hardly any swing: random or not, the same
    assert small.mean_window(1e-3, random=True) == pytest.approx(small.mean_window(1e-3), rel=1e-4)


@pytest.mark.slow
def test_packets_have_the_mean_window_of_random_losses():
    network = ecc.Network.dumbbell("10 Gb/s", [0.1], packet_size=1500)
    sc = Scenario(network, Compound(), 1000.0, impairments=[RandomLoss(1e-4, link=0)])
    run = ecc.packet.simulate(sc, sample=0.1, record=["env.window"])
    window = run.data["env.window"].to_numpy()[1000:, 0].mean() / 1500.0
    assert window == pytest.approx(Compound().mean_window(1e-4, random=True), rel=0.1)


# ---- engines -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_engines_agree_to_the_last_event():
    network = ecc.Network.dumbbell("20 Mb/s", [0.05, 0.08], buffer=125_000, packet_size=1500)
    for made in (Compound(), Compound(adaptive=True, transport="rack", slow_start="hystart++")):
        given = Scenario(network, made, 1.0, impairments=[RandomLoss(1e-3, link=0)])
        found, twin = (ecc.packet.simulate(given, engine=engine) for engine in ("c", "python"))
        assert found.stats["digest"] == twin.stats["digest"]


@pytest.mark.slow
def test_fluid_and_packets_agree_on_a_queue_that_fills():
    """Two flows, half a bandwidth-delay product of buffer: utilization and queue, and the delay part's mean."""
    network = ecc.Network.dumbbell("100 Mb/s", [0.1, 0.1], packet_size=1500, buffer=625_000)
    runs = [engine.simulate(Scenario(network, Compound(), 200.0), sample=0.1) for engine in (ecc.fluid, ecc.packet)]
    fluid, packets = ((float(run.goodput[500:].sum("flow").mean()), float(run.queue[500:].mean())) for run in runs)
    assert fluid == pytest.approx(packets, rel=0.03)


@pytest.mark.parametrize("k", [0.75, pytest.param(0.5, marks=pytest.mark.slow)])
def test_over_marks_the_equilibrium_is_in_closed_form_and_fixed_for_packets(k):
    """W = (alpha/(beta p))^(1/(2-k)) packets; each loss part holds (1/2) c r = 1 packet an RTT with r = W p."""
    network = ecc.Network.dumbbell("200 Mb/s", [0.1] * 4, packet_size=1000)
    host = Compound(ecn=True, k=k)
    assigned = read_protocol({"flows": host, "links": PI(mark=True, reference=20.0)}).deploy(network)
    found = equilibrium_of_marks(assigned, network)
    W, p = found.windows[0] / (8.0 * S), found.probabilities[0]
    assert pytest.approx((0.125 / (0.5 * p)) ** (1.0 / (2.0 - k))) == W
    loss_part = W - found.host_states[0]["delay"] / (8.0 * S)
    assert loss_part == pytest.approx(min(2.0 / (W * p), W), rel=1e-6)


@pytest.mark.parametrize("packets", [12.0, pytest.param(39.0, marks=pytest.mark.slow)])
def test_below_low_window_the_linear_model_is_renos(packets):
    """Where its delay part is nothing: the same roots, and one of its own at which it falls."""
    network = ecc.Network.dumbbell(10 * packets * 8.0 * S / 0.1, [0.1] * 10, packet_size=1000)
    links = PI(mark=True, reference=20.0)
    both = [
        ecc.linearize({"flows": host, "links": links}, network)
        for host in (Compound(ecn=True), ecc.models.NewReno(ecn=True))
    ]
    ours, renos = (system.roots(6) for system in both)
    for root in renos[:3]:
        assert np.abs(ours - root).min() < 1e-6 * max(abs(root), 1.0)
    assert both[0].is_stable is both[1].is_stable
