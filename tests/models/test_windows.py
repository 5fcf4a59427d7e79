"""The window protocols: NewReno, Vegas, FAST and BIC."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.contract.parameters import settings
from ecc.errors import LinearizationError
from ecc.models import BIC, CUBIC, DCTCP, FAST, Compound, Copa, NewReno, Prague, Vegas, bic, fast, vegas
from ecc.models.shared import windows
from ecc.network.impairments import CapacitySchedule, RandomLoss
from ecc.network.network import Flow, Network
from ecc.queues.discipline import QueueDiscipline
from ecc.scenario import Scenario
from ecc.traffic.workload import Workload

WINDOWS = [
    NewReno(),
    NewReno(transport="sack"),
    CUBIC(),
    Compound(),
    DCTCP(),
    Prague(),
    Vegas(),
    FAST(alpha=5.0),
    Copa(),
    BIC(),
    BIC(form="linux"),
]
every_window = pytest.mark.parametrize("protocol", WINDOWS, ids=lambda p: f"{type(p).__name__}-{'-'.join(settings(p))}")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NewReno(transport="reno"), "transport must be one of 'newreno', 'sack', 'rack', 'quic', got 'reno'"),
        (lambda: NewReno(initial=0.0), "initial must be > 0, got 0.0"),
        (lambda: NewReno(min_rto=1e7), r"min_rto must be < 1e\+06 s, which the clock holds, got 10000000\.0"),
        (lambda: NewReno(lost_retransmission="no"), "lost_retransmission must be one of 'reduce', 'linux', got 'no'"),
        (lambda: NewReno(prr=1), "prr must be one of None, False, True, 'marks', got 1"),
        (lambda: NewReno(prr=True), "prr must be False or None with the transport 'newreno', got True"),
        (lambda: Copa(prr=True), "prr must be False or None for Copa, which follows a model, got True"),
        (lambda: BIC(form="linux", prr=True), "prr must be False or None with the form 'linux', .* got True"),
        (lambda: NewReno(min_rto=-1.0), "min_rto must be > 0 s, got -1.0"),
        (lambda: NewReno(L=0.5), r"L must be >= 1 packet, or 0 to count ACKs, got 0\.5"),
        (lambda: NewReno(L=-1.0), "L must be >= 0, got -1"),
        (lambda: NewReno().mean_rate(0.01, 0.1, b=0), "b must be >= 1, got 0"),
        (lambda: NewReno(receiver_window=-1), "receiver_window must be >= 0, got -1"),
        (lambda: NewReno().mean_rate(1.0, 0.1), "loss must be < 1, got 1.0"),
        (lambda: Vegas(alpha=3.0, beta=2.0), r"beta must be >= alpha \(3 packets\), got 2"),
        (lambda: FAST(gamma=1.5), "gamma must be <= 1, got 1.5"),
        (lambda: FAST().equilibrium(Network.dumbbell("1 Mb/s", [0.1]), np.array([0])), "assignment must be None"),
        (lambda: BIC(form="cubic"), "form must be one of 'paper', 'linux', got 'cubic'"),
        (
            lambda: Scenario(Network.dumbbell("1 Mb/s", [0.1]), NewReno(receiver_window=999), 1.0),
            r"receiver_window must be 0 or >= 1000 bytes, a packet, got 999 \(flow 0\)",
        ),
        (
            lambda: Scenario(
                Network.dumbbell("1 Mb/s", [0.1]),
                NewReno(receiver_window=1000),
                1.0,
                workload=Workload(transfers=[Flow((0,), packet_size=1500, size=3000)]),
            ),
            r"receiver_window must be 0 or >= 1500 bytes, a packet, got 1000 \(the workload\)",
        ),
    ],
)
def test_bad_parameters_get_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("protocol", [NewReno(), Vegas(), BIC()], ids=lambda p: type(p).__name__)
def test_protocols_that_swing_have_no_equilibrium(protocol):
    network = Network.dumbbell("10 Mb/s", [0.1])
    with pytest.raises(LinearizationError, match=f"{type(protocol).__name__} has no"):
        protocol.equilibrium(network)
    with pytest.raises(ValueError, match=f"{type(protocol).__name__} has no equilibrium to linearize at"):
        ecc.linearize(protocol, network)


def test_the_first_window_is_that_of_rfc_5681():
    assert [windows.initial_window(s) / s for s in (536.0, 1095.0, 1460.0, 2190.0, 4312.0)] == [4, 4, 3, 3, 2]


def test_vegas_counts_what_it_has_in_queues():
    assert vegas.queued(10_000.0, 0.1, 0.125) == pytest.approx(2000.0)


def test_fast_steps_towards_alpha_packets_in_queues():
    """Half of what is missing; at most twice the window; at equilibrium where the flow has alpha packets queued."""
    assert fast.stepped(100.0, 0.1, 0.1, 20.0, 0.5) == 110.0
    assert fast.stepped(10.0, 0.1, 0.1, 200.0, 0.5) == 20.0
    assert fast.stepped(100.0, 0.1, 0.125, 20.0, 0.5) == 100.0


def test_bic_searches_between_windows_and_beyond():
    found = [bic.increment(w, 100.0, 1.0) for w in (10.0, 20.0, 60.0, 99.0, 99.999, 100.0, 101.0, 103.0, 107.0, 200.0)]
    assert found == [1.0, 32.0, 20.0, 0.5, 0.01, 1.0, 2.0, 4.0, 8.0, 32.0]


def test_bic_of_linux_counts_acks():
    """tcp_bic.c: cnt for windows at, below and beyond the last maximum of 100 packets, then times 16, by 31."""
    cnt = {14.0: 14, 20.0: 20 // 16, 60.0: 60 // 10, 93.0: 93 * 5, 100.0: 500, 110.0: 110 * 3 // 10, 200.0: 200 // 16}
    for window, expected in cnt.items():
        assert bic.linux_acks(window, 100.0) == (expected if window <= 14.0 else max(expected * 16 // 31, 1))
    assert bic.linux_acks(1000.0, 0.0) == 20 * 16 // 31


def env(**fields):
    defaults = {
        "window": 20_000.0, "packet_size": 1000, "acked": 1000, "recovering": 0, "recovered": 0, "undone": 0, "ece": 0,
        "limited_by": 1,
        "in_flight": 20_000, "kind": 0, "rtt": 0.1, "min_rtt": 0.1,
    }  # fmt: skip
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def test_newreno_halves_once_and_leaves_recovery_without_a_burst():
    protocol = NewReno()
    p, hooks, flow = protocol.namespace(), protocol.flow_hooks(), windows.FlowState()
    at = env()
    hooks["on_ack"](flow, None, p, at)
    assert at.window == 21_000.0  # slow start
    at.in_flight = 21_000
    hooks["on_loss"](flow, None, p, at)
    assert at.window == flow.ssthresh == 10_500.0
    at.recovering = 1
    hooks["on_ack"](flow, None, p, at)
    assert at.window == 10_500.0
    at.recovering, at.recovered, at.in_flight = 0, 1, 4000
    hooks["on_ack"](flow, None, p, at)
    assert at.window == 5000.0
    sack = env(window=10_500.0, recovered=1, in_flight=4000)
    hooks["on_ack"](flow, None, NewReno(transport="sack").namespace(), sack)
    assert sack.window == 10_500.0
    at = env(window=10_500.0)
    hooks["on_ack"](flow, None, p, at)
    assert at.window == pytest.approx(10_500.0 + 1e6 / 10_500.0)  # congestion avoidance


@pytest.mark.parametrize("protocol", [NewReno(ecn=True), BIC(ecn=True), Vegas(ecn=True), FAST(ecn=True)], ids=str)
def test_windows_do_not_grow_at_acks_with_ece(protocol):
    """RFC 3168 sec. 6.1.2: normal increase at ACKs without it; a timer that had expired is reset all the same."""
    p, on_ack = protocol.namespace(), protocol.flow_hooks()["on_ack"]
    for ssthresh in (windows.NEVER_LEFT, 1000.0):
        flow = protocol.FlowState()
        flow.ssthresh, flow.backed_off = ssthresh, 1
        at = env(marked=0, ece=1, now=1.0, srtt=0.1)
        for _ in range(100):
            on_ack(flow, None, p, at)
        assert at.window == 20_000.0 and flow.backed_off == 0


def test_the_threshold_stays_when_the_timer_expires_again():
    flow, at = windows.FlowState(), env(kind=1)
    for _ in range(2):
        NewReno().flow_hooks()["on_loss"](flow, None, NewReno().namespace(), at)
        assert (at.window, flow.ssthresh) == (1000.0, 10_000.0)
        at.in_flight = 1000
    at = env(acked=1000, window=1000.0)
    NewReno().flow_hooks()["on_ack"](flow, None, NewReno().namespace(), at)
    assert flow.backed_off == 0


@pytest.mark.parametrize(
    ("L", "slow", "avoiding"),
    [
        (2.0, [500.0, 1000.0, 2000.0, 2000.0], [25.0, 50.0, 100.0, 200.0]),
        (8.0, [500.0, 1000.0, 2000.0, 4000.0], [25.0, 50.0, 100.0, 200.0]),
        (1.0, [500.0, 1000.0, 1000.0, 1000.0], [25.0, 50.0, 100.0, 200.0]),
        (0.0, [500.0, 1000.0, 1000.0, 1000.0], [50.0, 50.0, 50.0, 50.0]),
    ],
)
def test_newreno_counts_bytes_and_not_acks(L, slow, avoiding):
    """RFC 3465: what an ACK is for; in slow start L packets at most, one after a timeout. RFC 5681 with L = 0."""
    protocol = NewReno(L=L)
    hooks, p = protocol.flow_hooks(), protocol.namespace()

    def behind_an_ack(acked, **flow):
        at = env(acked=acked)
        hooks["on_ack"](windows.FlowState(**flow), None, p, at)
        return at.window - 20_000.0

    given = (500, 1000, 2000, 4000)
    after_a_timeout, at = windows.FlowState(), env(kind=1, in_flight=60_000, window=60_000.0)
    hooks["on_loss"](after_a_timeout, None, p, at)
    assert (at.window, after_a_timeout.ssthresh) == (1000.0, 30_000.0)
    once_more = vars(after_a_timeout)
    assert [behind_an_ack(acked) for acked in given] == slow
    assert [behind_an_ack(acked, **once_more) for acked in given] == [500.0, 1000.0, 1000.0, 1000.0]
    assert [behind_an_ack(acked, ssthresh=10_000.0) for acked in given] == pytest.approx(avoiding)


@dataclass
class Left(windows.FlowState):
    """A host that has left slow start."""

    ssthresh: float = 20_000.0


@dataclass(frozen=True)
class InAvoidance(NewReno):
    FlowState = Left
    slow_start_law = None


def windows_by_rtt(protocol, delayed_acks, engine, rtts):
    """The window at the end of each RTT of 100 ms, without queues, in packets."""
    network = Network([ecc.Link("10 Gb/s")], [Flow([0], access_delay="50 ms", delayed_acks=delayed_acks)])
    run = engine.simulate(Scenario(network, protocol, 0.1 * rtts), sample=0.1, record=["env.window"])
    return run["env.window"].to_numpy()[:, 0] / 1000.0


@pytest.mark.parametrize("engine", [ecc.packet, ecc.fluid], ids=lambda engine: engine.__name__)
@pytest.mark.parametrize(
    ("L", "b", "gain"), [(2.0, 1, 1.0), (2.0, 2, 1.0), (1.0, 4, 1.0), (0.0, 1, 1.0), (0.0, 2, 0.5)]
)
def test_a_packet_an_rtt_whatever_acks_are_for(engine, L, b, gain):
    """In congestion avoidance by bytes; one in b where ACKs count. Divided among ACKs it is a little less."""
    delayed = None if b == 1 else (b, "50 ms")
    found = windows_by_rtt(InAvoidance(transport="sack", initial=100, L=L), delayed, engine, 40)
    assert (found[-1] - found[9]) / 30.0 == pytest.approx(gain, rel=0.02)


@pytest.mark.parametrize("engine", [ecc.packet, ecc.fluid], ids=lambda engine: engine.__name__)
@pytest.mark.parametrize(
    ("L", "b", "factor"), [(2.0, 1, 2.0), (2.0, 2, 2.0), (2.0, 4, 1.5), (1.0, 2, 1.5), (0.0, 1, 2.0), (0.0, 2, 1.5)]
)
def test_slow_start_multiplies_by_what_acks_count(engine, L, b, factor):
    """By 1 + min(b, L)/b, in whole packets."""
    delayed = None if b == 1 else (b, "50 ms")
    found = windows_by_rtt(NewReno(transport="sack", initial=64, L=L), delayed, engine, 6)
    assert found == pytest.approx(64.0 * factor ** np.arange(6), rel=0.01)


@dataclass(frozen=True)
class Blackout(QueueDiscipline):
    """Drops all that comes from 0.75 to 0.95 s."""

    def link_hooks(self):
        return {"on_arrival": drop_in_the_blackout}


def drop_in_the_blackout(link, header, p, env):
    if 0.75 < env.now < 0.95:
        env.drop = 1


def test_slow_start_after_a_timeout_counts_a_packet_an_ack():
    """RFC 3465 sec. 2.3: two packets an ACK double the window before any loss, and then it grows by half."""
    network = Network([ecc.Link("1 Gb/s")], [Flow([0], access_delay="50 ms", delayed_acks=(2, "10 ms"))])
    hosts = NewReno(transport="sack", initial=8)
    scenario = Scenario(network, {"flows": hosts, "links": Blackout()}, 4.0)
    window = ecc.packet.simulate(scenario, sample=0.1, record=["env.window"])["env.window"].to_numpy()[:, 0] / 1000.0
    assert window[:7].tolist() == [8.0 * 2**k for k in range(7)]
    again = window[np.flatnonzero(window == 1.0)[-1] :]
    grows = again[(again >= 20.0) & (again <= 200.0)]
    assert len(grows) > 4 and np.allclose(grows[1:] / grows[:-1], 1.5, rtol=0.05)


@dataclass(frozen=True)
class EveryNth(QueueDiscipline):
    """Drops one arrival in n."""

    n: float = 200.0

    @dataclass
    class LinkState:
        arrivals: int = 0

    def link_hooks(self):
        return {"on_arrival": drop_the_nth}


def drop_the_nth(link, header, p, env):
    link.arrivals += 1
    if link.arrivals >= p.n:
        link.arrivals = 0
        env.drop = 1


@pytest.mark.parametrize(("L", "b"), [(2.0, 1), (2.0, 2), (0.0, 1), (0.0, 2)])
def test_windows_that_lose_evenly_have_the_mean_of_mathis(L, b):
    """W = s sqrt(3/(2 p)) with and without delayed ACKs; sqrt(3/(2 b p)) where ACKs count."""
    p, protocol = 1.0 / 20_000.0, NewReno(transport="sack", initial=40, L=L)
    flow = Flow([0], access_delay="50 ms", delayed_acks=None if b == 1 else (b, "50 ms"))
    scenario = Scenario(Network([ecc.Link("1 Gb/s")], [flow]), {"flows": protocol, "links": EveryNth(n=1.0 / p)}, 400.0)
    goodput = float(ecc.packet.simulate(scenario, sample=10.0).goodput[10:].mean())
    closed = 8000.0 / 0.1 * np.sqrt(3.0 / (2.0 * p * (1 if L > 0.0 else b)))
    assert protocol.mean_rate(p, "100 ms", timeout=0.0, b=b) == pytest.approx(closed)
    assert goodput == pytest.approx(closed, rel=0.02)


def test_delayed_acks_do_not_halve_the_growth():
    """Losses of Reno in Linux, which delays ACKs, behind such a queue: 0.3, 7.2, 13.8, 20.3, 26.8, 33.3 s."""
    times = []
    for delayed_acks in (None, (2, "40 ms")):
        flow = Flow([0], access_delay="25 ms", packet_size=1500, delayed_acks=delayed_acks)
        network = Network([ecc.Link("20 Mb/s", 0.0, 125_000)], [flow])
        run = ecc.packet.simulate(Scenario(network, NewReno(transport="sack", initial=10), 40.0), sample=0.05)
        dropped = run.drops.time[run.drops[:, 0] > 0].to_numpy()
        times.append(dropped[np.diff(dropped, prepend=-2.0) > 1.0])
    assert times[0] == pytest.approx([0.3, 7.25, 13.7, 20.2, 26.65, 33.15, 39.65])
    assert times[1] == pytest.approx(times[0], abs=0.2)
    assert times[1][:6] == pytest.approx([0.3, 7.2, 13.8, 20.3, 26.8, 33.3], abs=0.35)


def test_bic_halves_the_distance_in_an_rtt():
    hooks, p, flow = BIC().flow_hooks(), BIC().namespace(), BIC.FlowState(ssthresh=2000.0, top=60_000.0)
    at = env(window=40_000.0, acked=500)
    for left in (10_000.0, 5000.0, 2500.0, 1250.0):
        for _ in range(round(at.window / at.acked + 0.4)):  # its ACKs
            hooks["on_ack"](flow, None, p, at)
        assert flow.top - at.window == pytest.approx(left, rel=1e-3)


def test_bic_of_linux_is_in_whole_packets():
    """tcp_bic.c: integer division, half at 14 packets too, and snd_cwnd <= snd_ssthresh is slow start."""
    p = BIC(form="linux").namespace()
    assert [bic.window_after_loss(w * 1e3, 1e3, p) / 1e3 for w in (9.0, 14.0, 15.0, 100.0)] == [4.0, 7.0, 11.0, 79.0]
    assert [bic.next_maximum(w * 1e3, 50e3, 1e3, p) / 1e3 for w in (19.0, 20.0, 49.0, 50.0, 60.0)] == [
        17,
        17,
        44,
        50,
        60,
    ]
    hooks, flow = BIC(form="linux").flow_hooks(), BIC.FlowState(ssthresh=20_000.0, top=100_000.0)
    at = env()
    for _ in range(2):
        hooks["on_ack"](flow, None, p, at)
    assert (at.window, flow.acks) == (21_000.0, 1.0)


@every_window
def test_an_outage_is_survived_and_all_is_delivered(protocol):
    network = Network.dumbbell("20 Mb/s", rtts=[0.05, 0.1], buffer=60_000, sizes=["40 MB", "40 MB"])
    outage = CapacitySchedule(link=0, times=[5.0, 6.0], capacities=[0.0, 20e6])
    run = ecc.packet.simulate(Scenario(network, protocol, 80.0, impairments=[outage]), sample=1.0)
    assert run.is_complete
    assert run.flows["delivered"].tolist() == [40_000_000, 40_000_000]
    assert run.goodput[12:24].sum("flow").mean() > 0.8 * 20e6


def test_linux_comes_down_smoothly():
    """In a small buffer, what slow start lost is sent again without losing that too; by RFC 6675 it takes a timeout."""
    network = Network.dumbbell("10 Mb/s", rtts=["28 ms"], buffer=30_000, packet_size=1500)
    rates = {
        form: float(
            ecc.packet.simulate(
                Scenario(network, BIC(form=form, initial=2, transport="sack"), 10.0), sample=1.0
            ).goodput.mean()
        )
        for form in ("linux", "paper")
    }
    assert rates["linux"] > 9.8e6
    assert rates["paper"] < 9e6


def test_a_sawtooth_between_half_the_pipe_and_the_full_buffer():
    """One NewReno flow with a buffer of one bandwidth-delay product: full use, windows from one to two of them."""
    network = Network.dumbbell("10 Mb/s", rtts=[0.1], buffer=125_000, packet_size=1000)
    run = ecc.packet.simulate(Scenario(network, NewReno(), 150.0), sample=0.05)
    queue = run.queue.sel(time=slice(60.0, None)).to_numpy()[:, 0]
    assert run.goodput.sel(time=slice(60.0, None)).mean() == pytest.approx(10e6, rel=0.001)
    assert queue.max() >= 124_000
    assert queue.min() <= 5000


@pytest.mark.parametrize("loss", [0.003, 0.01, 0.03])
def test_throughput_with_random_loss_is_between_padhye_and_mathis(loss):
    """The one takes all that follows a loss in a window for lost too, the other knows no timeouts."""
    network = Network.dumbbell("100 Mb/s", rtts=[0.05], packet_size=1000)
    scenario = Scenario(network, NewReno(), 400.0, impairments=[RandomLoss(loss, link=0)], seed=3)
    goodput = float(ecc.packet.simulate(scenario, sample=10.0).goodput[1:].mean())
    most = NewReno().mean_rate(loss, "50 ms", 1000, timeout=0.0)
    assert NewReno().mean_rate(loss, "50 ms", 1000) < goodput < most
    assert goodput > 0.7 * most


def test_a_receiver_window_limits_the_rate():
    network = Network.dumbbell("100 Mb/s", rtts=[0.1])
    run = ecc.packet.simulate(Scenario(network, NewReno(receiver_window=50_000), 10.0), sample=1.0)
    assert float(run.rate[5:].mean()) == pytest.approx(8.0 * 50_000 / 0.1, rel=0.01)


def test_vegas_keeps_alpha_to_beta_packets_a_flow_queued():
    network = Network.dumbbell("10 Mb/s", rtts=[0.04] * 4, starts=[0.0, 3.0, 6.0, 9.0])
    run = ecc.packet.simulate(Scenario(network, Vegas(alpha=2.0, beta=4.0), 60.0), sample=0.1)
    assert not run.drops.any()
    assert 4 * 2000 < run.queue.sel(time=slice(40.0, None)).mean() < 4 * 4000 + 6 * 4000  # each takes others' for delay
    alone = ecc.packet.simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.04]), Vegas(2.0, 4.0), 60.0), sample=0.1)
    assert 2000 <= alone.queue.sel(time=slice(40.0, None)).mean() <= 5000


def test_fast_rests_at_its_equilibrium():
    network = Network.parking_lot(["20 Mb/s", "20 Mb/s"], delay="10 ms")
    run = ecc.packet.simulate(Scenario(network, FAST(alpha=10.0), 60.0), sample=0.5)
    point = FAST(alpha=10.0).equilibrium(network)
    assert point.rates == pytest.approx([20e6 / 3, 40e6 / 3, 40e6 / 3])
    assert point.queue / 8.0 == pytest.approx([15_000.0, 15_000.0])
    late = slice(40.0, None)
    assert run.rate.sel(time=late).mean("time").to_numpy() == pytest.approx(point.rates, rel=0.03)
    assert run.queue.sel(time=late).mean("time").to_numpy() == pytest.approx(point.queue / 8.0, rel=0.1)


def test_fast_is_at_rest_as_fluid_and_gets_there():
    network = Network.parking_lot(["20 Mb/s", "20 Mb/s"], delay="10 ms")
    point = FAST(alpha=10.0).equilibrium(network)
    held = ecc.fluid.simulate(Scenario(network, FAST(alpha=10.0), 5.0), sample=0.5, start="equilibrium")
    assert np.abs(held.rate.to_numpy() / point.rates - 1.0).max() < 1e-9
    assert held.queue.to_numpy() == pytest.approx(np.tile(point.queue / 8.0, (10, 1)), rel=1e-9)
    found = ecc.fluid.simulate(Scenario(network, FAST(alpha=10.0), 40.0), sample=1.0)
    assert found.rate[-1].to_numpy() == pytest.approx(point.rates, rel=0.002)
    assert found.queue[-1].to_numpy() == pytest.approx(point.queue / 8.0, rel=0.002)


def test_vegas_stops_at_alpha_packets_as_fluid():
    """From below, a packet an RTT: at the first window with alpha packets queued, or within the next RTT."""
    network = Network.dumbbell("10 Mb/s", rtts=[0.04])
    run = ecc.fluid.simulate(Scenario(network, Vegas(2.0, 4.0), 20.0), sample=0.5)
    assert 2000.0 <= float(run.queue[-1, 0]) <= 3000.0


def test_newreno_as_fluid_fills_the_buffer_and_halves():
    """A packet more an RTT, each flow, until they lose it: from two bandwidth-delay products to one and a bit."""
    network = Network.dumbbell("10 Mb/s", rtts=[0.1] * 4, buffer=125_000)
    run = ecc.fluid.simulate(Scenario(network, NewReno(), 60.0), sample=0.01)
    queue = run.queue[3000:, 0].to_numpy()
    assert queue.max() == pytest.approx(125_000.0, rel=1e-6)
    assert queue.min() < 8000.0  # half of eight packets at most, which are sent until the loss is known
    cycle = ecc.transients.limit_cycle(0.01 * np.arange(len(queue)), queue)
    packets = ecc.packet.simulate(Scenario(network, NewReno(transport="sack"), 60.0), sample=0.01)
    losses = np.flatnonzero(packets.drops[3000:, 0].to_numpy())
    periods = 0.01 * np.diff(losses[np.concatenate([[True], np.diff(losses) > 100])])  # one in five is a packet short
    early = 1.0 - 0.5 / (250_000 / 8000)  # of the packets by which a window grows, half a one is missing at the loss
    assert cycle.period == pytest.approx(early * float(np.median(periods)), rel=0.02)
    goodput = run.goodput[3000:].sum("flow").to_numpy()  # half of the windows is the pipe, but for a packet
    assert goodput.mean() == pytest.approx(10e6, rel=1e-3) and (goodput > 0.999 * 10e6).mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "ratio"),
    [(NewReno(transport="sack"), 1.08), (BIC(transport="sack"), 1.0), (BIC(form="linux", transport="sack"), 0.98)],
    ids=["Sack", "BIC", "Linux"],
)
def test_windows_as_fluid_lose_at_random_like_packets(protocol, ratio):
    network = Network.dumbbell("1 Gb/s", rtts=[0.1], packet_size=1500)
    goodput = {ecc.fluid.simulate: 0.0, ecc.packet.simulate: 0.0}
    for seed in range(3):
        scenario = Scenario(network, protocol, 1000.0, impairments=[RandomLoss(0.003, link=0)], seed=seed)
        for simulate in goodput:
            run = simulate(scenario, sample=10.0)
            goodput[simulate] += float(run.goodput[5:].mean())
            assert float(run.flows["lost"][0] * 8.0 / run.rate.sum() / 10.0) == pytest.approx(0.003, rel=0.2)
    assert goodput[ecc.fluid.simulate] / goodput[ecc.packet.simulate] == pytest.approx(ratio, abs=0.05)


@pytest.mark.parametrize("protocol", [BIC(transport="sack"), BIC(form="linux", transport="sack")], ids=lambda p: p.form)
def test_bic_as_fluid_fills_a_buffer_like_packets(protocol):
    """One bandwidth-delay product of buffer, two flows: what searching and probing leave of it."""
    starts = [0.0, 0.7]
    network = Network.dumbbell("100 Mb/s", rtts=[0.1] * 2, packet_size=1500, buffer=1_250_000, starts=starts)
    scenario = Scenario(network, protocol, 160.0)
    fluid, packets = (simulate(scenario, sample=0.1) for simulate in (ecc.fluid.simulate, ecc.packet.simulate))
    late = slice(60.0, None)
    assert float(fluid.goodput.sel(time=late).sum("flow").mean()) == pytest.approx(100e6, rel=0.001)
    for statistic in (np.mean, np.min):
        queues = [statistic(run.queue.sel(time=late).to_numpy()) for run in (fluid, packets)]
        assert queues[0] == pytest.approx(queues[1], rel=0.02)
    drops = [float(run.drops.sel(time=late).sum()) for run in (fluid, packets)]
    # some forty episodes of forty-odd packets each (of the paper's form 37 of 44.1 as fluid, 38 of 47.0 in packets):
    # one episode more or less, and what a window is rounded to, are a tenth
    assert drops[0] == pytest.approx(drops[1], rel=0.1)


def test_flows_of_a_full_buffer_lose_alike_as_fluid():
    """A packet each in the RTT in which the buffer is full, trains or not: half of it refused is a packet."""
    starts = np.linspace(0.0, 1.0, 10).tolist()
    network = Network.dumbbell("20 Mb/s", rtts=[0.1] * 10, packet_size=1500, buffer=250_000, starts=starts)
    scenario = Scenario(network, NewReno(transport="sack"), 80.0)
    fluid, packets = (
        simulate(scenario).queue[300:].to_numpy().mean() for simulate in (ecc.fluid.simulate, ecc.packet.simulate)
    )
    assert fluid == pytest.approx(packets, rel=0.03)


def test_losses_that_windows_have_not_as_fluid():
    network = Network.dumbbell("10 Mb/s", rtts=[0.1])
    scenario = Scenario(network, BIC(), 1.0, impairments=[RandomLoss(0.1, acks_of="all")])
    with pytest.raises(
        ValueError, match="^acks_of must be None for windows as fluid: the next ACK also reports the data of a lost"
    ):
        ecc.fluid.simulate(scenario)


def test_a_flow_takes_less_than_a_kibibyte():
    network = Network.dumbbell("1 Gb/s", rtts=[0.1] * 5000, starts=[1.0] * 5000)
    run = ecc.packet.simulate(Scenario(network, NewReno(), 0.1), sample=0.1)
    assert run.stats["peak_bytes"] / 5000 < 1024
