"""BBR: delivery-rate samples and filters by hand, states and bounds of its draft in runs, and versions 1 and 2."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ecc
from ecc.models import BBR, BBRv1, BBRv2, bbr, bbr1
from ecc.models.shared import delivery_rate, filters
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Network
from ecc.scenario import Scenario

C, RTT = 20e6, 0.05  # bit/s, s
BDP = C * RTT / 8.0  # bytes
STEADY = ("flow.state", "flow.max_bw", "flow.min_rtt", "flow.inflight_longterm", "env.in_flight", "env.window")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BBR(form="v3"), "form must be one of 'draft', 'google', got 'v3'"),
        (lambda: BBR(loss_threshold=1.0), "^loss_threshold must be > 0 and < 1, got 1.0"),
        (lambda: BBR(beta=0.0), "beta must be > 0, got 0.0"),
        (lambda: BBR(headroom=-0.1), "headroom must be >= 0, got -0.1"),
        (lambda: BBR(ecn="no"), "ecn must be one of False, True, got 'no'"),
        (lambda: BBR(probe_rtt_interval=0.0), "probe_rtt_interval must be > 0 s, got 0.0"),
        (lambda: BBRv1(quanta=-1.0), "quanta must be >= 0, got -1.0"),
        (
            lambda: ecc.linearize(BBR(), Network.dumbbell(C, [RTT])),
            "BBR has no linear model: its hosts are state machines",
        ),
        (lambda: BBRv2(headroom=1.0), "^headroom must be >= 0 and < 1, got 1.0"),
        (lambda: ecc.fluid.simulate(Scenario(Network.dumbbell(C, [RTT]), BBR(ecn=True), 1.0)), "BBR has no fluid"),
        (lambda: BBR(gain=2.0), "^BBR must have arguments among form, ecn, ecn_max_rtt, .*, got 'gain'"),
        (lambda: BBRv1(gain=2.0), "^BBRv1 must have arguments among min_rtt_window, .*, got 'gain'"),
        (lambda: BBRv2(1.0), "^BBRv2 must have at most 0 arguments without a name, got 1"),
        (lambda: BBR("draft", True, 0.0, 1), r"^BBR must have at most 3 arguments without a name \(form, ecn, ecn_"),
        (lambda: BBR(beta="1/2"), "^beta must be a number, got '1/2'"),
    ],
)
def test_bad_parameters_and_other_engines_get_one_line(make, message):
    with pytest.raises((ValueError, TypeError), match=message) as found:
        make()
    assert "\n" not in str(found.value)


# ---- filters ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), min_size=1, max_size=80), st.integers(1, 12))
def test_windowed_maxima_are_of_samples_in_the_window_and_never_below_the_latest(steps, window):
    value, time, seen, t = [0.0] * 3, [0.0] * 3, [], 0.0
    least, when = [0.0] * 3, [0.0] * 3
    for k, (wait, x) in enumerate(steps):
        t += wait
        if k == 0:
            filters.reset(value, time, t, float(x))
            filters.reset(least, when, t, -float(x))
        seen.append((t, float(x)))
        inside = [v for at, v in seen if t - at <= window]
        best = filters.windowed_max(value, time, float(window), t, float(x))
        assert x <= best <= max(inside) and best in inside
        lowest = filters.windowed_min(least, when, float(window), t, float(x))
        assert x >= lowest >= min(inside) and lowest in inside


def test_a_falling_stream_has_a_recent_maximum_once_the_old_one_expires():
    value, time = [0.0] * 3, [0.0] * 3
    found = [filters.windowed_max(value, time, 10.0, float(t), 100.0 - t) for t in range(12)]
    assert found[:11] == [100.0] * 11  # of the first sample, for as long as the window is
    assert found[11] == 97.0  # then of the first after a quarter of it


# ---- samples ---------------------------------------------------------------------------------------------------------


def env(**fields):
    defaults = {
        "now": 0.0,
        "in_flight": 0,
        "packet_size": 1000,
        "kind": 0,
        "window": 1e9,
        "size": -1,
        "recovering": 0,
        "undone": 0,
        "unsent": 1 << 62,
    }
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def test_the_interval_of_a_sample_is_the_longer_of_sending_and_acks():
    """Two packets sent at 0 and 1 s; ACKs at 2 and 2.5 s: 1000 bytes in 2 s, then 2000 bytes in max(1, 2.5) s."""
    flow, headers = delivery_rate.FlowState(), [delivery_rate.Header(), delivery_rate.Header()]
    for k in range(2):
        delivery_rate.on_send(flow, headers[k], None, env(now=1.0 * k, in_flight=1000 * k))
    for header in headers:
        delivery_rate.on_receive(flow, header, None, env())
    delivery_rate.on_ack(flow, headers[0], None, env(now=2.0, in_flight=1000))
    assert (flow.rate, flow.interval, flow.newly_acked, flow.lost, flow.round_count) == (4000.0, 2.0, 1000, 0, 1)
    delivery_rate.on_ack(flow, headers[1], None, env(now=2.5))
    assert (flow.rate, flow.interval, flow.sample_delivered) == (6400.0, 2.5, 2000)
    assert flow.round_count == 1  # it was sent before anything was acknowledged
    delivery_rate.on_ack(flow, headers[0], None, env(now=3.0))
    assert (flow.newly_acked, flow.rate) == (0, 6400.0)  # an ACK that was overtaken


def test_a_packet_that_is_neither_delivered_nor_in_flight_is_lost():
    flow, headers = delivery_rate.FlowState(), [delivery_rate.Header() for _ in range(5)]
    for k, header in enumerate(headers):
        delivery_rate.on_send(flow, header, None, env(now=0.1 * k, in_flight=1000 * k))
    assert [header.tx_in_flight for header in headers] == [1000, 2000, 3000, 4000, 5000]
    for header in headers[1:4]:
        delivery_rate.on_receive(flow, header, None, env())
    delivery_rate.on_ack(flow, headers[3], None, env(now=1.0, in_flight=1000))
    assert (flow.delivered, flow.newly_lost, flow.lost, flow.sample_lost) == (3000, 1000, 1000, 1000)


def test_samples_are_the_applications_while_a_flow_has_nothing_more_to_send():
    flow, headers = delivery_rate.FlowState(), [delivery_rate.Header() for _ in range(3)]
    for k, header in enumerate(headers[:2]):
        delivery_rate.on_send(flow, header, None, env(now=0.1 * k, in_flight=1000 * k))
        delivery_rate.on_receive(flow, header, None, env())
    delivery_rate.on_ack(flow, headers[0], None, env(now=1.0, in_flight=1000, size=2000, unsent=0))
    assert (headers[0].app_limited, flow.app_limited) == (0, 2000)
    delivery_rate.on_send(flow, headers[2], None, env(now=1.1, in_flight=1000, kind=1))
    assert headers[2].app_limited == 1


# ---- version 3 -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone():
    """One flow, a buffer of four bandwidth-delay products, 14 s."""
    network = Network.dumbbell(C, rtts=[RTT], buffer=int(4 * BDP))
    return ecc.packet.simulate(Scenario(network, BBR(), 14.0), sample=0.005, record=STEADY)


def episodes(run, names=bbr.STATES):
    """The states in their order, with when each began and ended."""
    states, times = run.data["flow.state"].to_numpy()[:, 0].astype(int), run.data["time"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(states)) + 1), len(states)]
    return [(names[states[a]], times[a], times[b - 1]) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def test_states_follow_each_other_as_in_the_draft(alone):
    found = episodes(alone)
    names = [name for name, *_ in found]
    assert names[:3] == ["Startup", "Drain", "ProbeBW_CRUISE"]  # DOWN ends with the ACK that begins it
    follows = set(zip(names, names[1:], strict=False))
    assert {("ProbeBW_REFILL", "ProbeBW_UP"), ("ProbeBW_UP", "ProbeBW_DOWN"), ("ProbeRTT", "ProbeBW_CRUISE")} <= follows
    ups = [begin for name, begin, _ in found if name == "ProbeBW_UP"]
    assert all(2.0 < gap < 5.5 for gap in np.diff(ups)) and len(ups) >= 3  # 2 to 3 s, more where ProbeRTT comes between
    assert all(0.8 * RTT < end - begin < 2.2 * RTT for name, begin, end in found if name == "ProbeBW_REFILL")


def test_the_model_is_that_of_the_path(alone):
    late = alone.data.sel(time=slice(2.0, None))
    assert late["flow.max_bw"].to_numpy() == pytest.approx(C, rel=0.02)
    assert float(late["flow.min_rtt"].max()) == pytest.approx(RTT + 1000 * 8 / C, rel=1e-9)
    assert float(late["goodput"].mean()) > 0.95 * C
    assert int(alone.drops.sum()) == 0 and float(late["flow.inflight_longterm"].min()) == bbr.INFINITE


def test_probe_rtt_comes_every_five_seconds_with_half_of_what_fits(alone):
    probes = [(begin, end) for name, begin, end in episodes(alone) if name == "ProbeRTT"]
    assert [round(begin, 1) for begin, _ in probes] == [5.1, 10.3]
    for begin, end in probes:
        assert 0.2 <= end - begin < 0.2 + 2 * RTT
        held = alone.data["env.in_flight"].sel(time=slice(end - 0.1, end)).to_numpy()
        assert held == pytest.approx(0.5 * BDP, abs=2000)


def test_startup_ends_where_the_rate_no_longer_grows_or_much_is_lost():
    """Startup leaves two bandwidth-delay products in flight; with a buffer of a fifth of one, losses end it."""
    runs = [
        ecc.packet.simulate(
            Scenario(Network.dumbbell(C, rtts=[RTT], buffer=int(k * BDP)), BBR(), 1.0),
            sample=0.005,
            record=(*STEADY, "flow.full_bw_count"),
        )
        for k in (4.0, 0.2)
    ]
    ends = [episodes(run)[0][2] for run in runs]
    assert ends[1] < ends[0] < 13 * RTT
    left = [run.data.sel(time=slice(end + 0.006, None)).isel(time=0) for run, end in zip(runs, ends, strict=True)]
    assert left[0]["flow.full_bw_count"].item() == 3 > left[1]["flow.full_bw_count"].item()
    assert left[0]["flow.inflight_longterm"].item() == bbr.INFINITE
    assert BDP <= left[1]["flow.inflight_longterm"].item() < 1.3 * BDP


def test_one_percent_lost_at_random_leaves_most_of_the_rate():
    """Below the threshold of 2 % in flight; the draft's claim of loss tolerance."""
    network = Network.dumbbell(C, rtts=[RTT], buffer=int(2 * BDP))
    bbr3, sack = (
        ecc.packet.simulate(
            Scenario(network, one, 12.0, impairments=[RandomLoss(link=0, probability=0.01)]), sample=1.0
        )
        for one in (BBR(), ecc.models.NewReno(transport="sack"))
    )
    assert float(bbr3.goodput[2:].mean()) > 0.75 * C > 4.0 * float(sack.goodput[2:].mean())


def test_the_level_at_which_losses_are_too_many_is_inside_the_burst():
    """100 packets in flight before a burst of 10 with nothing lost: 2 % are reached after 2.04 of them."""
    flow = BBR.FlowState(tx_in_flight=110_000, sample_lost=10_000, newly_lost=10_000)
    assert bbr.inflight_at_loss(flow, BBR().namespace()) == pytest.approx(102_041, abs=1)


def test_losses_while_it_does_not_probe_take_three_tenths_at_most():
    p, at = BBR().namespace(), env(window=100_000.0)
    flow = BBR.FlowState(
        state=bbr.CRUISE,
        max_bw=10e6,
        rate=1e6,
        loss_round_start=1,
        is_loss_in_round=1,
        bw_latest=6e6,
        inflight_latest=80_000.0,
        sample_app_limited=1,
    )
    bbr.update_congestion_signals(flow, p, at)
    assert (flow.bw_shortterm, flow.inflight_shortterm, flow.is_loss_in_round) == pytest.approx((7e6, 80_000, 0))
    flow.state, flow.is_loss_in_round = bbr.UP, 1
    bbr.update_congestion_signals(flow, p, at)
    assert flow.bw_shortterm == pytest.approx(7e6)  # probing has its own answer


def test_the_long_term_bound_grows_by_one_two_four_packets_a_round():
    flow, at = BBR.FlowState(inflight_longterm=100_000.0, window_filled=1, newly_acked=1000), env(window=100_000.0)
    bbr.raise_inflight_longterm_slope(flow, at)
    grown = []
    for _ in range(3):
        before = flow.inflight_longterm
        packets = round(flow.inflight_longterm / 1000)
        for k in range(packets):
            flow.round_start = 1 if k == packets - 1 else 0
            at.window = flow.inflight_longterm
            bbr.probe_inflight_longterm_upward(flow, at)
        grown.append(round((flow.inflight_longterm - before) / 1000))
    assert grown == [1, 2, 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol",
    [
        BBR(),
        BBR(form="google", quanta=3.0, ecn=True),
        BBR(transport="newreno"),
        BBRv1(),
        BBRv1(transport="newreno"),
        BBRv2(),
    ],
    ids=["draft", "google", "newreno", "v1", "v1-newreno", "v2"],
)
def test_the_twin_has_the_same_states_and_windows(protocol):
    flows = [
        Flow(route=(0,), access_delay=0.004, delayed_acks=(2, 0.04)),
        Flow(route=(0,), access_delay=0.009, size=60_000),
    ]
    network = Network([ecc.Link("6 Mb/s", "2 ms", buffer=8000)], flows)
    record = ["flow.state", "flow.lost", "flow.delivered", "flow.rate", "env.window", "env.rate"]
    c, python = (
        ecc.packet.simulate(Scenario(network, protocol, 0.8), sample=0.05, record=record, engine=engine)
        for engine in ("c", "python")
    )
    assert c.stats["digest"] == python.stats["digest"] and int(c.drops.sum()) > 0
    for name in record:
        np.testing.assert_array_equal(c.data[name], python.data[name])


@pytest.mark.parametrize("form", ["google", "draft"])
def test_marks_of_short_paths_bound_what_is_in_flight(form):
    """Over a step of 30 packets, with RTTs of 2 ms; where min_rtt is above the limit, marks are not answered."""
    network = Network.dumbbell("100 Mb/s", rtts=[0.002, 0.002], buffer=1_000_000)
    step = ecc.queues.StepMarking(threshold=30)
    found = {}
    for limit in (0.005, 0.001):
        protocol = {"flows": BBR(form=form, ecn=True, ecn_max_rtt=limit), "links": step}
        run = ecc.packet.simulate(Scenario(network, protocol, 3.0), sample=0.01, record=["flow.alpha", "flow.bw"])
        found[limit] = run
    answered, not_answered = found[0.005].data, found[0.001].data
    assert float(not_answered["flow.alpha"].min()) == 1.0 > float(answered["flow.alpha"][-1].min()) > 0.0
    late = slice(1.0, None)
    assert answered["marks"].sel(time=late).sum() < not_answered["marks"].sel(time=late).sum()
    assert float(found[0.005].goodput.sum("flow").sel(time=late).mean()) > 0.85 * 100e6


# ---- version 1 -------------------------------------------------------------------------------------------------------


def test_version_1_probes_in_eight_phases_and_for_its_rtt_every_ten_seconds():
    network = Network.dumbbell(C, rtts=[RTT], buffer=int(4 * BDP))
    record = ("flow.state", "flow.bw", "flow.min_rtt", "flow.cycle_index", "env.in_flight", "env.rate")
    run = ecc.packet.simulate(Scenario(network, BBRv1(), 12.0), sample=0.005, record=record)
    found = episodes(run, bbr1.STATES)
    assert [name for name, *_ in found] == ["Startup", "Drain", "ProbeBW", "ProbeRTT", "ProbeBW"]
    _, begin, end = found[3]
    assert 10.0 < begin < 10.6 and 0.2 <= end - begin < 0.2 + 3 * RTT
    held = run.data["env.in_flight"].sel(time=slice(end - 0.1, end - 0.02)).to_numpy()
    assert np.all(held == 4000)
    steady = run.data.sel(time=slice(2.0, 9.0))
    phase, rate = steady["flow.cycle_index"].to_numpy()[:, 0], steady["env.rate"].to_numpy()[:, 0]
    steps = np.diff(phase) % 8
    assert set(steps) == {0, 1}  # each phase after the one before
    gains = [np.median(rate[phase == k]) / (bbr1.PACING * C) for k in range(8)]
    assert gains == pytest.approx([1.25, 0.75, 1, 1, 1, 1, 1, 1], rel=0.01)
    assert steady["flow.bw"].to_numpy() == pytest.approx(C, rel=0.01)
    assert float(steady["goodput"].mean()) > 0.97 * C


def test_version_1_probes_for_its_rtt_where_rtts_without_queue_are_exactly_equal():
    """Each cycle of ProbeBW drains the queue; an RTT equal to the minimum must not postpone ProbeRTT (Linux 5.10)."""
    network = Network.dumbbell(C, rtts=[0.1], buffer=int(4 * 0.1 * C / 8))
    run = ecc.packet.simulate(Scenario(network, BBRv1(), 24.0), sample=0.02, record=["flow.state", "env.rtt"])
    began = [begin for name, begin, _ in episodes(run, bbr1.STATES) if name == "ProbeRTT"]
    assert len(began) == 2 and all(10.0 < gap < 11.0 for gap in np.diff([0.0, *began]))
    rtt = run.data["env.rtt"].sel(time=slice(1.0, 10.0)).to_numpy()
    assert np.count_nonzero(rtt == rtt.min()) > 10  # the tie that the test is about


# ---- version 2 -------------------------------------------------------------------------------------------------------


def test_version_2_probes_up_to_five_quarters_of_what_fits_and_drains_at_three_quarters():
    """One flow, a buffer of four bandwidth-delay products, 9 s."""
    network = Network.dumbbell(C, rtts=[RTT], buffer=int(4 * BDP))
    run = ecc.packet.simulate(Scenario(network, BBRv2(), 9.0), sample=0.005, record=(*STEADY, "env.rate"))
    found = episodes(run)
    follows = {(a, b) for (a, *_), (b, *_) in zip(found, found[1:], strict=False)}
    assert {
        ("ProbeBW_REFILL", "ProbeBW_UP"),
        ("ProbeBW_UP", "ProbeBW_DOWN"),
        ("ProbeBW_DOWN", "ProbeBW_CRUISE"),
    } <= follows
    data = run.data
    for name, begin, end in found:
        inside = data.sel(time=slice(begin, end))
        gain = float(inside["env.rate"].median()) / (0.99 * C)
        if name == "ProbeBW_UP":
            assert RTT - 0.006 < end - begin < 4 * RTT and gain == pytest.approx(1.25, rel=0.02)
            assert float(inside["env.in_flight"].max()) == pytest.approx(1.25 * BDP, rel=0.05)
        if name == "ProbeBW_DOWN" and end - begin > 0.5 * RTT:
            assert gain == pytest.approx(0.75, rel=0.02)
        if name == "Startup":
            assert float(inside["env.rate"][-1, 0]) == pytest.approx(0.99 * 739 / 256 * C, rel=0.02)
    assert {name for name, *_ in found} == set(bbr.STATES)
    assert float(data["goodput"].sel(time=slice(1.0, 5.0)).mean()) > 0.96 * C


def test_version_2_ends_up_where_the_queue_has_grown_and_version_3_where_the_rate_no_longer_does():
    """With 1.3 bandwidth-delay products in flight after an RTT in UP."""
    for protocol, ends in ((BBRv2(), True), (BBR(), False)):
        p, at = protocol.namespace(), env(now=2.0, in_flight=int(1.3 * BDP), window=2.0 * BDP, rate=C)
        flow = protocol.FlowState(state=bbr.UP, cycle_stamp=2.0 - 1.1 * RTT, min_rtt=RTT, max_bw=C, bw=C)
        assert bbr.is_time_to_go_down(flow, p, at) is ends
        flow.cycle_stamp = 2.0 - 0.9 * RTT
        assert not bbr.is_time_to_go_down(flow, p, at)


@pytest.mark.parametrize("kind, interval", [(BBR, "probe_rtt_interval"), (BBRv1, "min_rtt_window")])
def test_fluids_hold_probe_rtt_for_its_duration_and_an_rtt(kind, interval):
    protocol = kind(probe_rtt_duration=0.1, **{interval: 1.0})
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.04]), protocol, 1.5)
    states = ecc.fluid.simulate(scenario, sample=0.01, record=["flow.state"])["flow.state"].to_numpy()[:, 0]
    assert np.count_nonzero(states == 3) == pytest.approx(14, abs=1)  # samples of 10 ms
