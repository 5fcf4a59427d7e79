"""Vivace and its monitor intervals by hand; its equilibrium; packets on one link, and over one with random losses."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import Vivace, monitor_intervals, vivace
from ecc.network.impairments import RandomLoss
from ecc.network.network import Network
from ecc.scenario import Scenario

P = Vivace().namespace()
ONE = Network.dumbbell("50 Mb/s", [0.05], packet_size=1500)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vivace(t=1.0), "t must be > 0 and < 1, got 1.0"),
        (lambda: Vivace(b=-1.0), "b must be >= 0, got -1.0"),
        (lambda: Vivace(epsilon=2.0), "epsilon must be > 0 and < 1, got 2.0"),
        (lambda: Vivace(theta=0.0), "theta must be > 0, got 0.0"),
        (lambda: Vivace(min_rate=0.0), "min_rate must be > 0 bit/s, got 0"),
        (lambda: Vivace(form="linux"), "form must be one of 'paper', 'pcc-uspace', got 'linux'"),
        (lambda: Vivace().equilibrium(ONE, np.array([0])), "assignment must be None: flows of Vivace"),
        (lambda: ecc.fluid.simulate(Scenario(ONE, Vivace(), 1.0)), "Vivace has no fluid model: the slope of its ut"),
        (
            lambda: ecc.linearize(Vivace(), Network.dumbbell("50 Mb/s", ["30 ms", "60 ms"])),
            "Vivace has no map per round for different RTTs, got 0.03 to 0.06 s: a round is an experiment of all flows",
        ),
        (
            lambda: ecc.linearize(Vivace(), Network.dumbbell("10 Mb/s", ["30 ms"] * 2), time="discrete"),
            "Vivace has no discrete model here: its map per round does not return after 1000 rounds, state 0 is ",
        ),
        (
            lambda: Vivace().equilibrium(Network.parking_lot(["9 Mb/s", "9 Mb/s"], delay="9 ms")),
            "the equilibrium of Vivace is known on one link, got 2 links",
        ),
        (
            lambda: Vivace(b=0.1).equilibrium(ONE),
            r"Vivace has no equilibrium here: b must be >= 0\.60\d+ for 1 flows at 5e\+07 bit/s, got 0\.1, and no buff",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, ecc.errors.EccError), match=f"^{message}"):
        make()


def played(losses=(), slope=0.1, until=1.0, packet=1000, rtt=0.2, completed=None):
    """Intervals of a second each, a packet each 0.1 s, with RTTs of 0.2 s that rise with the time of sending.

    `completed` gets loss and gradient of each interval when it is complete.
    """
    flow = vivace.FlowState(
        **{name: list(value) if isinstance(value, tuple) else value for name, value in vars(vivace.FlowState()).items()}
    )
    env = SimpleNamespace(
        transport=0, packet_size=packet, in_flight=0, window=1e9, kind=0, min_rtt=0.2, undone=0, recovering=0
    )
    env.unsent, events, received = 2**62, [], 0
    for k in range(round((until + 1.0) / 0.1)):
        now = 0.1 * k
        events.append((now, 0, k, None))
    headers = {}
    while events:
        events.sort(key=lambda event: event[:2])
        now, kind, k, header = events.pop(0)
        env.now = now
        if kind == 0:
            if k % 10 == 0:
                monitor_intervals.begin(flow, 1e5, env)
            headers[k] = monitor_intervals.Header()
            monitor_intervals.on_send(flow, headers[k], P, env)
            env.in_flight += packet
            if k not in losses:
                events.append((now + rtt + slope * (now % 1.0), 1, k, headers[k]))
        else:
            received += packet
            header.received = received
            env.in_flight -= packet
            before = flow.oldest
            monitor_intervals.on_ack(flow, header, P, env)
            for one in range(before, flow.oldest) if completed is not None else ():
                completed[one] = monitor_intervals.loss(flow, one), monitor_intervals.gradient(flow, one)
    return flow


@pytest.mark.slow
@pytest.mark.parametrize("rtt", [0.2, 9.0, 20.0, 45.0, 130.0])
def test_intervals_are_measured_over_any_round_trip_time(rtt):
    completed = {}
    flow = played(until=2.0 * rtt + 2.0, rtt=rtt, completed=completed)
    losses, slopes = np.array(list(completed.values())).T
    assert len(completed) == flow.oldest - 1 >= 2
    assert losses == pytest.approx(0.0, abs=1e-12)
    if rtt < monitor_intervals.SLOTS:  # otherwise some intervals last for several seconds, and the RTT is a sawtooth
        assert slopes == pytest.approx(0.1, rel=1e-6)
    else:
        assert list(slopes[: monitor_intervals.SLOTS - 1]) == pytest.approx([0.1] * (monitor_intervals.SLOTS - 1))


def test_losses_are_found_over_long_round_trip_times():
    completed = {}
    played(losses=(3, 4, 9, 12), until=60.0, rtt=20.0, completed=completed)
    assert [completed[k][0] for k in (1, 2, 3)] == pytest.approx([0.3, 0.1, 0.0], abs=1e-12)


def test_results_of_old_intervals_are_not_those_of_new_ones():
    flow = played(until=50.0)
    old, new = flow.number - monitor_intervals.SLOTS, flow.number
    assert monitor_intervals.is_complete(flow, old) and not monitor_intervals.is_kept(flow, old)
    for result in ("rate", "loss", "gradient", "deviation", "mean_rtt"):
        assert np.isnan(getattr(monitor_intervals, result)(flow, old))
        assert np.isfinite(getattr(monitor_intervals, result)(flow, old + 1))
    assert np.isnan(monitor_intervals.rate(flow, new))  # it has not ended


def test_an_interval_has_the_rate_the_losses_and_the_slope_of_its_own_packets():
    flow = played(losses=(3, 4, 9, 12))
    assert monitor_intervals.is_complete(flow, 1) and not monitor_intervals.is_complete(flow, 2)
    assert monitor_intervals.rate(flow, 1) == pytest.approx(8.0 * 1000 * 10)
    assert monitor_intervals.loss(flow, 1) == pytest.approx(0.3)
    assert monitor_intervals.gradient(flow, 1) == pytest.approx(0.1)
    assert monitor_intervals.deviation(flow, 1) == pytest.approx(0.0, abs=1e-9)
    assert monitor_intervals.mean_rtt(flow, 1) == pytest.approx(0.2 + 0.1 * np.mean([0, 0.1, 0.2, 0.5, 0.6, 0.7, 0.8]))


def test_utility_by_hand():
    assert vivace.utility(50.0, 0.02, 0.01, P) == pytest.approx(50.0**0.9 - 900 * 50 * 0.02 - 11.35 * 50 * 0.01)
    lossless = played()
    assert vivace.utility_of(lossless, 1, P) == pytest.approx(0.08**0.9 - 900 * 0.08 * 0.1)
    low = played(slope=0.005)  # below the paper's threshold
    assert vivace.utility_of(low, 1, P) == pytest.approx(0.08**0.9)
    clipped, falling = Vivace(form="pcc-uspace").namespace(), played(slope=-0.1)
    assert vivace.utility_of(falling, 1, P) == pytest.approx(0.08**0.9 + 900 * 0.08 * 0.1)
    assert vivace.utility_of(falling, 1, clipped) == pytest.approx(0.08**0.9)


@pytest.mark.parametrize(
    ("slopes", "steps"),
    [
        ([0.05] * 5, [0.05, 0.1, 0.15, 0.25, 0.35]),  # m = 1, 2, 3, 5, 7
        ([9.0] * 3, [0.5, 1.5 * 1.05, 2.5 * 1.05 * 1.15]),  # 5, 15 and 25 % of 10 Mb/s and what it has become
        ([0.1, 0.1, -0.1], [0.1, 0.2, -0.1]),
    ],
)
def test_steps_are_amplified_in_a_row_and_bounded(slopes, steps, monkeypatch):
    flow = vivace.FlowState(x=10e6)
    for slope, expected in zip(slopes, steps, strict=True):
        monkeypatch.setattr(vivace, "slope_of_pair", lambda flow, first, p, slope=slope: slope)
        before = flow.x
        vivace.step(flow, P)
        assert 1e-6 * (flow.x - before) == pytest.approx(expected)


def test_the_bound_on_b_is_where_no_flow_gains_by_a_queue():
    least = vivace.minimum_weight(5, 40e6, 0.9)
    for b, gains in ((0.999 * least, True), (1.001 * least, False)):
        p = Vivace(b=b).namespace()
        more = vivace.utility(8.0 * (1 + 1e-6), 8e-6 / 40.0, 0.0, p) - vivace.utility(8.0, 0.0, 0.0, p)
        assert (more > 0.0) is gains
    five = Network.dumbbell("40 Mb/s", [0.05] * 5, buffer="100 kB")
    point = Vivace(b=1.001 * least).equilibrium(five)
    assert point.rates == pytest.approx(8e6) and point.queue[0] == 0.0
    full = Vivace(b=0.999 * least, c=0.5 * least).equilibrium(five)
    assert full.queue[0] == 8e5 and full.rates.sum() > 40e6
    x, S = 1e-6 * full.rates[0], 1e-6 * full.rates.sum()
    assert 0.9 * x**-0.1 == pytest.approx(0.5 * least * (1.0 - 40.0 / S + x * 40.0 / S**2))


@pytest.mark.parametrize("form", vivace.FORMS)
def test_one_flow_uses_its_link_and_keeps_its_queue_short(form):
    run = ecc.packet.simulate(Scenario(ONE, Vivace(form=form), 30.0), sample=0.1)
    assert 0.85 * 50e6 < run.goodput[100:, 0].mean() < 50e6
    assert float(run.queue[100:, 0].mean()) < 0.1 * 50e6 * 0.05 / 8.0


@pytest.mark.slow
def test_random_losses_stop_a_flow_where_they_outweigh_its_rate():
    """At 20 Mb/s that is beyond t x^(t-1)/c = 5.9 %; intervals of 80 packets know shares of losses to some percent."""
    network, found = Network.dumbbell("20 Mb/s", [0.05], packet_size=1500), {}
    for share in (0.02, 0.1):
        scenario = Scenario(network, Vivace(), 20.0, impairments=[RandomLoss(share, link=0)], seed=1)
        found[share] = float(ecc.packet.simulate(scenario, sample=0.5).rate[20:, 0].mean()) / 20e6
    assert found[0.02] > 0.5 > 0.4 > found[0.1]
