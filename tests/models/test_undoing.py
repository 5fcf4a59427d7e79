"""Losses that were none, and applications that pause: RFC 4015, RFC 9438 secs. 4.9 and 5.8."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import ecc
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.models import BIC, CUBIC, NewReno
from ecc.models.shared import windows
from ecc.network.impairments import CapacitySchedule, Jitter

S = 1000.0  # bytes
HOSTS = [host(transport="rack", min_rto=0.2) for host in (NewReno, CUBIC, BIC)]
KEPT = {"NewReno": 50.0, "CUBIC": 70.0, "BIC": 87.5}  # of 100 packets, at a loss


def env(**fields):
    defaults = {
        "window": 100 * S,
        "packet_size": 1000,
        "acked": 0,
        "recovering": 0,
        "recovered": 0,
        "undone": 0,
        "ece": 0,
        "marked": 0,
        "limited_by": 1,
        "in_flight": 100_000,
        "kind": 0,
        "rtt": 0.1,
        "srtt": 0.1,
        "now": 10.0,
        "delivered": 0,
    }
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def after(host, flow, kind, **shown):
    """Window and threshold after a loss that an ACK shows to have been none."""
    hooks, p, at = host.flow_hooks(), host.namespace(), env(kind=kind)
    hooks["on_loss"](flow, None, p, at)
    assert at.window < 100 * S
    at = env(window=at.window, undone=1, recovered=1, now=10.2, **shown)
    hooks["on_ack"](flow, None, p, at)
    return at.window / S, flow.ssthresh / S


@pytest.mark.parametrize("kind", [0, 1])
def test_newreno_has_what_was_in_flight_as_its_threshold_and_sends_no_burst(kind):
    """cwnd = FlightSize + min(bytes_acked, IW), which is four packets; ssthresh = pipe_prev."""
    host = HOSTS[0]
    found = after(host, NewReno.FlowState(ssthresh=60 * S), kind, in_flight=30_000, acked=10_000)
    assert found == ((50.0, 100.0) if kind == 0 else (34.0, 100.0))  # half of what was is more than 34
    assert after(host, NewReno.FlowState(ssthresh=60 * S), kind, in_flight=97_000, acked=2000) == (99.0, 100.0)


def test_cubic_is_what_it_was():
    """All of sec. 4.9.2 after a loss found by ACKs; after a timeout the window is that of RFC 4015."""
    begun = {"ssthresh": 60 * S, "M": 90 * S, "W_prior": 95 * S, "K": 3.0, "began": 5.0, "E": 80 * S}
    for kind, window, threshold in ((0, 100.0, 60.0), (1, 32.0, 100.0)):
        flow = CUBIC.FlowState(**begun)
        assert after(CUBIC(), flow, kind, in_flight=30_000, acked=2000) == (window, threshold)
        assert [flow.M, flow.W_prior, flow.K, flow.began, flow.E] == [90 * S, 95 * S, 3.0, 5.0, 80 * S]


def test_bic_searches_where_it_did():
    """After a timeout the window is that of RFC 4015."""
    for kind, window, threshold in ((0, 100.0, 60.0), (1, 32.0, 100.0)):
        flow = BIC.FlowState(ssthresh=60 * S, top=120 * S)
        assert after(BIC(), flow, kind, in_flight=30_000, acked=2000) == (window, threshold)
        assert flow.top == 120 * S


def test_bic_of_linux_returns_to_the_end_of_its_next_search():
    """819/1024 of a window is left; M = (1 + 819/1024)/2 of it, in whole packets."""
    host, flow, at = BIC(form="linux"), BIC.FlowState(ssthresh=60 * S, top=120 * S), env()
    hooks, p = host.flow_hooks(), host.namespace()
    hooks["on_loss"](flow, None, p, at)
    assert (flow.ssthresh, flow.top) == (79 * S, 89 * S)
    at = env(window=79 * S, undone=1, recovered=1, in_flight=70_000)
    hooks["on_ack"](flow, None, p, at)
    assert (at.window, flow.ssthresh, flow.top) == (89 * S, 60 * S, 89 * S)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: type(host).__name__)
def test_congestion_is_not_undone(host):
    """Neither where the ACK reports it, nor later, nor what a mark has cut."""
    flow = host.FlowState(ssthresh=60 * S)
    cut = after(host, flow, 0, in_flight=97_000, acked=2000, ece=1)
    assert cut[0] == KEPT[type(host).__name__]
    at = env(window=cut[0] * S, undone=1, recovered=1)
    host.flow_hooks()["on_ack"](flow, None, host.namespace(), at)
    assert at.window == cut[0] * S
    marks = type(host)(ecn=True)
    flow, at = marks.FlowState(ssthresh=60 * S), env(marked=1000, acked=1000)
    flow_hooks_of(marks)["on_ack"](flow, None, marks.namespace(), at)
    assert at.window < (KEPT[type(host).__name__] + 1.0) * S and flow.pipe_prev == 0.0


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: type(host).__name__)
def test_reordering_costs_no_rate(host):
    """Packets overtake each other by up to 20 ms, and none is lost."""
    network = ecc.Network.dumbbell("20 Mb/s", [0.05], packet_size=1000, buffer="10 MB")
    jitter = [Jitter((0.0, "20 ms"), link=0, in_order=False)]
    run = ecc.packet.simulate(ecc.Scenario(network, host, 10.0, impairments=jitter), record=["flow.ssthresh"])
    assert float(run.drops.sum()) == 0.0
    assert float(run.goodput[10:].mean()) > 0.95 * 20e6
    assert float(run.data["flow.ssthresh"][-1, 0]) == windows.NEVER_LEFT
    assert run.flows["retransmitted"][0] > 0


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: type(host).__name__)
def test_a_pause_of_the_link_costs_no_window(host):
    """The timer expires for nothing: with the first ACK the window is again what it was."""
    network = ecc.Network.dumbbell("20 Mb/s", [0.05], packet_size=1000, buffer="250 kB")
    begin, pause = 8.0, 0.6
    gap = [CapacitySchedule(0, [begin, begin + pause], [0.0, 20e6])]
    run = ecc.packet.simulate(
        ecc.Scenario(network, host, 12.0, impairments=gap), sample=0.01, record=["env.window", "flow.ssthresh"]
    )
    window = run.data["env.window"][:, 0].to_numpy()
    before = window[799]
    assert window[800:865].min() == 1000.0  # the timer has expired
    assert window[866] >= before


@dataclass
class CountedState(CUBIC.FlowState):
    undone: int = 0


class Counted(CUBIC):
    """CUBIC that counts what it undoes."""

    FlowState = CountedState

    def flow_hooks(self):
        hooks = super().flow_hooks()
        cubic = hooks["on_ack"]

        def on_ack(flow, header, p, env):
            flow.undone += env.undone
            cubic(flow, header, p, env)

        return {**hooks, "on_ack": on_ack}


@pytest.mark.slow
def test_where_packets_stay_in_order_losses_are_losses():
    """One recovery follows another while what the first sent again is on its way, and comes during the second."""
    link, routes = ecc.Link("50 Mb/s", "10 ms", buffer="1 MB"), ("5 ms", "0 ms")
    network = ecc.Network([link], [ecc.Flow([0], start=float(k), access_delay=d) for k, d in enumerate(routes)])
    run = ecc.packet.simulate(ecc.Scenario(network, Counted(transport="rack"), 8.0), record=["flow.undone"])
    assert run.flows["retransmitted"].max() > 1e6
    assert run.data["flow.undone"][-1].to_numpy().tolist() == [0, 0]


def test_the_cubic_stands_still_while_the_application_pauses():
    host = CUBIC()
    on_ack, p = host.flow_hooks()["on_ack"], host.namespace()
    flow = CUBIC.FlowState(ssthresh=1.0, began=5.0, M=120 * S, K=3.0, E=S)
    on_ack(flow, None, p, env(now=6.0, acked=1000))
    on_ack(flow, None, p, env(now=6.1, acked=1000, in_flight=20_000, limited_by=0))
    on_ack(flow, None, p, env(now=6.2, acked=1000, in_flight=10_000, limited_by=0))
    assert flow.began == 5.0 and flow.limited == 6.1
    at = env(now=16.1, acked=1000)
    on_ack(flow, None, p, at)
    assert flow.began == pytest.approx(15.0) and flow.limited < 0.0
    plain, same = CUBIC.FlowState(ssthresh=1.0, began=5.0, M=120 * S, K=3.0, E=S), env(now=6.1, acked=1000)
    on_ack(plain, None, p, same)
    assert at.window == pytest.approx(same.window)
