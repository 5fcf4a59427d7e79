"""GCC against its equations, played by hand; its cycle in the model and in packets; losses and capacities."""

from __future__ import annotations

from copy import deepcopy
from math import sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from media_runs import assert_same_on_frames, run_everywhere

import ecc
from ecc.errors import LinearizationError
from ecc.models import GCC, NewReno
from ecc.models import gcc as gradient
from ecc.models.shared.reported_media import queue_of_packets
from ecc.network.impairments import CapacitySchedule, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

C = 1e6


def link(rtt: float = 0.1, capacity: float = C, **options: Any) -> Network:
    return Network.dumbbell(capacity, rtts=[rtt], packet_size=500, **options)


def state(protocol: GCC, **given: Any) -> Any:
    values = {**vars(gradient.FlowState()), "threshold": 1e3 * protocol.threshold, **given}
    return SimpleNamespace(
        **{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    )


def test_packets_of_a_burst_are_a_group() -> None:
    """Two packets 4 ms apart are one group; a packet that arrives right behind its group belongs to it."""
    protocol = GCC()
    p, flow = protocol.namespace(), state(protocol)
    for sent, arrival in ((0.0, 0.1), (0.004, 0.104), (0.01, 0.11), (0.02, 0.112)):
        gradient.note_packet(flow, sent, arrival, p)
    assert flow.groups == 0 and flow.before_in == 0.104 and (flow.last_sent_at, flow.last_in) == (0.02, 0.112)
    gradient.note_packet(flow, 0.03, 0.13, p)
    assert flow.groups == 1
    d = 1e3 * ((0.112 - 0.104) - (0.02 - 0.004))
    alpha = 0.99 ** (30.0 * 0.016)
    variance = alpha + (1.0 - alpha) * d * d
    assert flow.m == pytest.approx(d * 0.101 / (variance + 0.101))  # e(0) + q = 0.101


def test_the_kalman_filter_is_that_of_the_draft() -> None:
    protocol = GCC(chi=0.1)
    p, flow = protocol.namespace(), state(protocol, groups=0, m=0.5, error=0.02, variance=4.0)
    gradient.filter_gradient(flow, 20.5, 1.0 / 30.0, p)
    variance = 0.9 * 4.0 + 0.1 * (3.0 * sqrt(4.0)) ** 2  # z = 20 ms counts as three deviations
    k = 0.021 / (variance + 0.021)
    assert flow.variance == pytest.approx(variance) and flow.m == pytest.approx(0.5 + k * 20.0)
    assert flow.error == pytest.approx((1.0 - k) * 0.021)


def test_the_slope_is_that_of_smoothed_delays() -> None:
    """A delay that grows by 1 ms each 10 ms: the smoothed delay has this slope after its transient."""
    protocol = GCC("libwebrtc")
    flow = state(protocol, groups=0)
    for k in range(200):
        gradient.fit_slope(flow, 1.0, 0.01 * k)
        flow.groups += 1
    assert flow.m == pytest.approx(0.1, rel=1e-6)


def test_the_threshold_follows_the_signal_but_not_its_spikes() -> None:
    protocol = GCC()
    p = protocol.namespace()
    for signal, expected in ((20.0, 12.5 + 0.01 * 7.5 * 10.0), (4.0, 12.5 - 0.00018 * 8.5 * 10.0), (30.0, 12.5)):
        flow = state(protocol, signal=signal, updated=1.0)
        gradient.adapt_threshold(flow, 1.01, p)
        assert flow.threshold == pytest.approx(expected)
    flow = state(protocol, signal=0.0, threshold=6.1, updated=1.0)
    gradient.adapt_threshold(flow, 2.0, GCC("libwebrtc").namespace())
    assert flow.threshold == 6.0


@pytest.mark.parametrize(("form", "usages"), [("draft", [0, 1, 1, 0]), ("libwebrtc", [0, 1, 1, 1])])
def test_over_use_needs_two_groups_and_a_gradient_that_does_not_fall(form: str, usages: list[int]) -> None:
    protocol = GCC(form, groups=1.0)
    p, flow, found = protocol.namespace(), state(protocol, groups=5), []
    for m in (13.0, 13.5, 14.0, 13.0):
        flow.m = m
        if form == "draft":
            flow.usage = 0
        gradient.detect(flow, 8.0, 1.0, p)
        found.append(flow.usage)
    assert found == usages
    flow.m = -30.0
    flow.usage = 0
    gradient.detect(flow, 8.0, 1.0, p)
    assert flow.usage == -1


def test_rates_grow_by_half_a_packet_and_by_8_percent_per_second() -> None:
    env: Any = SimpleNamespace(now=10.0, rtt=0.1)
    assert gradient.packet_bits(C) == pytest.approx(1e6 / 30.0 / 4.0)
    assert gradient.packet_bits(0.2e6) == pytest.approx(0.2e6 / 30.0)
    for form in gradient.FORMS:
        p = GCC(form).namespace()
        flow = state(GCC(form), estimate=0.95e6, received_rate=0.95e6, mean=C)
        gradient.increase(flow, 0.1, p, env)
        assert flow.estimate == pytest.approx(0.95e6 + 0.25 * gradient.packet_bits(0.95e6))
        flow = state(GCC(form), estimate=0.5e6, received_rate=0.5e6)
        gradient.increase(flow, 0.1, p, env)
        assert flow.estimate == pytest.approx(0.5e6 * 1.08**0.1)
        flow = state(GCC(form), estimate=0.8e6, received_rate=0.5e6)  # 1.5 R bounds increases only
        gradient.increase(flow, 0.1, p, env)
        assert flow.estimate == 0.8e6
    flow = state(GCC(), estimate=C, received_rate=C)
    gradient.decrease(flow, GCC().namespace())
    assert (flow.estimate, flow.mean) == (0.85e6, C)
    flow = state(GCC(), estimate=C, received_rate=C)
    gradient.decrease(flow, GCC("libwebrtc").namespace())
    assert flow.estimate == 0.845e6


def test_states_change_as_in_the_draft() -> None:
    """Over-use: decrease; a normal group afterwards: hold, then increase; under-use: hold."""
    p = GCC().namespace()
    env: Any = SimpleNamespace(now=1.0, rtt=0.1)
    flow = state(GCC(), estimate=C, received_rate=C)
    names = []
    for usage in (0, 1, 1, 0, 0, -1, -1, 0):
        flow.usage = usage
        gradient.update_estimate(flow, p, env)
        names.append(gradient.STATES[flow.state])
    assert names == ["Increase", "Decrease", "Decrease", "Hold", "Increase", "Hold", "Hold", "Increase"]


@pytest.mark.parametrize(("lost", "factor"), [(0, 1.05), (5, 1.0), (20, 0.9)])
def test_losses_change_the_rate_as_in_the_draft(lost: int, factor: float) -> None:
    env: Any = SimpleNamespace(now=1.0, rtt=0.1)
    flow = state(GCC(), estimate=1.4e6, loss_estimate=0.5e6, received=100 - lost, lost=lost)
    gradient.update_loss_estimate(flow, GCC().namespace(), env)
    assert flow.loss_estimate == pytest.approx(0.5e6 * factor)


def run_of_packets(protocol: GCC, network: Network, duration: float, **options: Any) -> tuple[Any, Any]:
    """Return a packet run, and the samples before the first over-use of each cycle."""
    scenario = Scenario(network, protocol, duration, **options)
    run = ecc.packet.simulate(scenario, sample=0.004, record=["flow.x", "flow.decreases", "flow.mean"])
    rate, decreases = run["flow.x"].to_numpy()[:, 0], run["flow.decreases"].to_numpy()[:, 0]
    return run, np.flatnonzero((np.diff(decreases) > 0) & (rate[:-1] > network.capacities[0]))


def cycle_of_packets(protocol: GCC, network: Network, duration: float) -> tuple[float, float, float]:
    """Return the mean period [s], and half of the range of the queue and its mean [bytes], in the last two thirds."""
    run, ends = run_of_packets(protocol, network, duration)
    time, queue, peaks = run.data["time"].to_numpy(), run.queue.to_numpy()[:, 0], run.queue_max.to_numpy()[:, 0]
    ends = ends[time[ends] > duration / 3.0]
    swings = [0.5 * float(peaks[a:b].max() - queue[a:b].min()) for a, b in zip(ends, ends[1:], strict=False)]
    return float(np.diff(time[ends]).mean()), float(np.mean(swings)), float(queue[ends[0] : ends[-1]].mean())


@pytest.mark.slow
@pytest.mark.parametrize("form", gradient.FORMS)
@pytest.mark.parametrize(
    ("capacity", "rtt", "interval"), [(C, 0.05, 0.1), (C, 0.1, 0.05), (C, 0.3, 0.1), (2.0 * C, 0.1, 0.1)]
)
def test_packets_have_the_cycle_of_the_model(form: str, capacity: float, rtt: float, interval: float) -> None:
    protocol = GCC(form, min_rate=0.3 * capacity, max_rate=2.0 * capacity, report_interval=interval)
    network = link(rtt, capacity)
    cycle = ecc.stability.limit_cycle(protocol, network)
    period, amplitude, mean = cycle_of_packets(protocol, network, 200.0)
    assert period == pytest.approx(cycle.period, rel=0.02)
    assert amplitude == pytest.approx(cycle.amplitude, rel=0.08) and mean == pytest.approx(cycle.mean, rel=0.08)
    assert cycle.stable is True


@pytest.mark.parametrize(("min_rate", "duration"), [(0.3 * C, 60.0), (0.4 * C, 45.0)])
def test_the_model_has_the_over_uses_of_packets(min_rate: float, duration: float) -> None:
    """From the start on: two cycles exist, of 4.77 and of 4.9 s, and the minimum rate decides between them."""
    protocol = GCC(min_rate=min_rate)
    run, ends = run_of_packets(protocol, link(), duration)
    packets = gradient._started(protocol, gradient._Path(C, 0.05, 4000.0))
    model, _, _ = gradient._over_uses(packets)
    times = run.data["time"].to_numpy()[ends + 1]
    assert len(times) > 6 and np.allclose(times, model[: len(times)], rtol=0.0, atol=0.005)


@pytest.mark.slow
def test_the_slowest_deviation_is_that_of_the_mean_of_received_rates() -> None:
    """Each over-use leaves 95 % of a deviation of the mean, which is too small to move an over-use here."""
    protocol = GCC(min_rate=0.4 * C)
    packets = gradient._started(protocol, gradient._Path(C, 0.05, 4000.0))
    gradient._over_uses(packets)
    changed, before = deepcopy(packets), packets.flow.mean
    changed.flow.mean *= 1.0001
    assert gradient._over_uses(packets)[0] == gradient._over_uses(changed)[0]
    left = (changed.flow.mean - packets.flow.mean) / (1e-4 * before)
    multiplier = protocol.cycle_orbit(link()).multipliers[0]
    assert multiplier < 0.9 and left == pytest.approx(multiplier**16, rel=0.1)


def test_a_queue_counts_the_packet_in_service() -> None:
    """A packet that finds 1.2 packets finds two in the queue; one that finds none is the only one."""
    counts = queue_of_packets(np.array([0.0, 600.0, 1000.0]), 500.0)
    assert counts.tolist() == [[0.0, 500.0], [1000.0, 1500.0], [1000.0, 1500.0]]


def test_a_full_report_does_not_wait_for_its_time() -> None:
    """64 packets of 500 bytes at 4 Mb/s are 64 ms."""
    protocol = GCC(min_rate=0.3 * 4e6, max_rate=8e6)
    network = link(capacity=4e6)
    cycle = ecc.stability.limit_cycle(protocol, network)
    period, _, _ = cycle_of_packets(protocol, network, 60.0)
    assert period == pytest.approx(cycle.period, rel=0.01)


@pytest.mark.slow
def test_rounded_arrivals_hide_over_uses_of_the_slope_at_4_mbps() -> None:
    protocol = GCC("libwebrtc", min_rate=0.3 * 4e6, max_rate=8e6)
    with pytest.raises(LinearizationError, match="over-uses within 500,000 packets"):
        ecc.stability.limit_cycle(protocol, link(capacity=4e6))


def test_the_cycle_refuses_other_networks() -> None:
    for protocol, network, text in (
        (GCC(), Network.dumbbell(C, rtts=[0.1] * 2), "the cycle of GCC is that of one flow on one link"),
        (GCC(frames=30.0), link(), "that of evenly spaced packets, got frames = 30"),
        (GCC(), link(capacity=2e6), "the rate does not pass the capacity of 2e"),
    ):
        with pytest.raises(LinearizationError, match=text):
            protocol.cycle_orbit(network)


@pytest.mark.slow
@pytest.mark.parametrize("form", gradient.FORMS)
def test_without_the_factor_of_the_programs_the_queue_overflows(form: str) -> None:
    """The draft compares m with 12.5 ms; only the programs multiply it by up to 60 groups."""
    network = link(buffer="37500 B")
    runs = [
        ecc.packet.simulate(Scenario(network, GCC(form, groups=groups), 60.0), sample=0.05) for groups in (1.0, 60.0)
    ]
    lost = [int(run.flows["lost"].sum()) for run in runs]
    late = [float(run.queue[-600:].max()) for run in runs]
    assert lost[0] > 0 == lost[1] and late[0] > 37000.0 > 5.0 * late[1]


@pytest.mark.slow
@pytest.mark.parametrize("form", gradient.FORMS)
def test_a_capacity_that_drops_is_found_again(form: str) -> None:
    drop = CapacitySchedule(link=0, times=[30.0], capacities=[0.5e6])
    run = ecc.packet.simulate(
        Scenario(link(buffer="37500 B"), GCC(form, min_rate=0.3 * C), 60.0, impairments=[drop]),
        record=["flow.x"],
        sample=0.1,
    )
    rate = run["flow.x"].to_numpy()[:, 0]
    assert rate[290:300].max() > 0.8e6 and rate[330:].max() < 0.6e6 and 0.35e6 < rate[450:].mean() < 0.5e6


@pytest.mark.slow
def test_the_draft_adapts_its_threshold_to_tcp() -> None:
    """Sec. 5.4: a fixed threshold leaves less to a flow next to TCP; docs/media.md has the table."""
    flows = [Flow([0], access_delay=0.05, packet_size=500), Flow([0], access_delay=0.05, start=20.0)]
    network, rates = Network([Link(2e6, buffer=75_000)], flows), list[float]()
    fixed: dict[str, Any] = {"gain_up": 0.0, "gain_down": 0.0}
    for gains in ({}, fixed):
        hosts = {"flows": {0: GCC(max_rate=2.5e6, **gains), 1: NewReno(transport="sack")}}
        run = ecc.packet.simulate(Scenario(network, hosts, 140.0), sample=1.0)
        rates.append(float(run.goodput[40:, 0].mean()))
    assert rates[0] > 1.3 * rates[1] and rates[0] < 0.5e6


NAMES = ["flow.x", "flow.threshold", "flow.complete", "flow.loss_estimate", "flow.decreases"]


@pytest.mark.slow
@pytest.mark.parametrize("form", gradient.FORMS)
def test_engines_checkpoints_and_threads_agree_with_losses_and_frames(form: str, tmp_path: Path) -> None:
    network = Network.dumbbell(C, rtts=[0.05, 0.09], packet_size=500, buffer="15 kB")
    hosts = GCC(form, frames=25.0, noise=0.2, key_every=20, key_factor=3.0, pauses=(0.8, 1.2), min_rate=0.4 * C)
    scenario = Scenario(network, hosts, 3.0, impairments=[RandomLoss(0.05, link=0)], seed=3)
    run = run_everywhere(scenario, NAMES, tmp_path)
    assert int(run["flow.decreases"].max()) > 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"form": "kalman"}, "^form must be one of 'draft', 'libwebrtc', got 'kalman'"),
        ({"min_rate": 2e6}, r"^min_rate must be <= 1.5e\+06, got 2000000.0"),
        ({"beta": 1.0}, "^beta must be < 1, got 1.0"),
        ({"groups": 0.5}, "^groups must be"),
        ({"noise": 0.5}, "^noise must be < 0.5, got 0.5"),
        ({"gain_up": -1.0}, "^gain_up must be"),
        ({"pauses": (2.0, 1.0)}, "^pauses must be times >= 0 s that increase, got 1.0 after 2"),
    ],
)
def test_parameters_out_of_range_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        GCC(**given)


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_gcc_on_real_frames() -> None:
    assert_same_on_frames(Scenario(link(0.05), GCC("libwebrtc"), 4.0), ["flow.x"])
