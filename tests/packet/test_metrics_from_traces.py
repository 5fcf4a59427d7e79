"""Metrics of packet runs against a second computation: from every packet that the plain-Python engine handles."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any
from unittest import mock

import numpy as np
import pytest
from drawn_networks import scenarios
from hypothesis import HealthCheck, given, settings

import ecc
from ecc.packet.twin.events import Twin
from ecc.packet.twin.state import Packet, TwinFlow, TwinLink
from ecc.results import metrics
from ecc.scenario import Scenario

PERIOD = 0.05
CASES = int(os.environ.get("ECC_TWIN_CASES", "80"))
Log = dict[str, dict[int, list[tuple[int, int]]]]


class LoggingTwin(Twin):
    """A twin that logs (time [ps], bytes or ps) for each packet sent, at links, and for each RTT."""

    log: Log

    def note(self, what: str, number: int, value: int) -> None:
        LoggingTwin.log[what][number].append((self.now, value))

    def emit(self, flow: TwinFlow, segment: Any) -> None:
        self.note("sent", flow.number, segment.size)
        super().emit(flow, segment)

    def arrive(self, packet: Packet) -> None:
        self.note("arrived", packet.link.index, packet.wire_size)
        super().arrive(packet)

    def drop(self, link: TwinLink, packet: Packet, sojourn: int = 0) -> None:
        self.note("dropped", link.index, packet.wire_size)
        super().drop(link, packet, sojourn)

    def depart(self, link: TwinLink, packet: Packet) -> None:
        self.note("departed", link.index, packet.wire_size)
        super().depart(link, packet)

    def ack(self, packet: Packet) -> None:
        if not packet.is_trimmed and not packet.control_size:
            self.note("rtt", packet.flow.number, self.now - packet.sent)
        super().ack(packet)


def logged_run(scenario: Scenario) -> tuple[ecc.Trajectory, Log]:
    """The run of the plain-Python engine, and what it logged."""
    LoggingTwin.log = defaultdict(lambda: defaultdict(list))
    with mock.patch("ecc.packet.twin.engine.Twin", LoggingTwin):
        run = ecc.packet.simulate(scenario, sample=PERIOD, engine="python")
    return run, LoggingTwin.log


def by_sample(entries: list[tuple[int, int]], n: int) -> list[list[int]]:
    """The values of each sample, which has what happens up to and at its end."""
    found: list[list[int]] = [[] for _ in range(n)]
    for time, value in entries:
        k = (time - 1) // round(PERIOD * 1e12)
        if 0 <= k < n or time == 0:
            found[max(k, 0)].append(value)
    return found


def queue_of(log: Log, link: int, n: int) -> tuple[float, float]:
    """Mean and peak of a queue [bytes] over n samples, from arrivals, drops and departures in their order."""
    changes = [(time, 0, size) for time, size in log["arrived"][link]]
    changes += [(time, 1, -size) for time, size in log["dropped"][link]]
    end, area, queue, before = round(n * PERIOD * 1e12), 0, 0, 0
    levels = []
    for time, _, change in sorted([*changes, *((time, 2, -size) for time, size in log["departed"][link])]):
        if time > end:
            break
        area += queue * (time - before)
        if time > before:
            levels.append(queue)
        queue, before = queue + change, time
    return (area + queue * (end - before)) / end, max([*levels, queue])


def active_time(scenario: Scenario, run: ecc.Trajectory, flow: int, end: float) -> float:
    """Seconds in which a flow is active, up to an end."""
    finish = run.flows["finish"].iloc[flow]
    return max(0.0, (end if np.isnan(finish) else min(end, finish)) - scenario.network.flows[flow].start)


def check(scenario: Scenario) -> None:
    """Compare every metric of a run with the same number from the log."""
    run, log = logged_run(scenario)
    n = run.data.sizes["time"]
    end = n * PERIOD

    def value(name: str, **arguments: Any) -> float:
        return float(metrics.get(name).function(run, scenario, **arguments))

    def total(what: str, number: int) -> int:
        return sum(sum(values) for values in by_sample(log[what][number], n))

    lost = 0
    for link, spec in enumerate(scenario.network.links):
        offered, dropped = total("arrived", link), total("dropped", link)
        lost += dropped
        shares = [
            min(1.0, sum(d) / sum(a)) if sum(a) else float(sum(d) > 0)
            for a, d in zip(by_sample(log["arrived"][link], n), by_sample(log["dropped"][link], n), strict=True)
        ]
        mean, peak = queue_of(log, link, n)
        expected = {
            "utilization": 8.0 * total("departed", link) / (spec.capacity * end),
            "arrival": 8.0 * offered / end,
            "load": 8.0 * offered / end / spec.capacity,
            "dropped": dropped,
            "loss": dropped / max(offered, 1),
            "peak_loss": max(shares),
            "mean_queue": mean,
            "lossy_time": PERIOD * sum(bool(d) for d in by_sample(log["dropped"][link], n)),
        }
        for name, number in expected.items():
            assert value(name, link=link) == pytest.approx(number, rel=1e-9, abs=1e-9), name
        assert value("peak_queue", link=link) >= peak
    assert value("dropped_anywhere") == lost
    rates, every_rtt = [], []
    for flow in range(scenario.network.n_flows):
        sent, active = total("sent", flow), active_time(scenario, run, flow, end)
        assert value("rate", flow=flow) == pytest.approx(8.0 * sent / end, rel=1e-9)
        if active > 1e-9:
            rates.append(8.0 * sent / active)
        rtts = [[1e-12 * rtt for rtt in values] for values in by_sample(log["rtt"][flow], n) if values]
        every_rtt += [np.mean(values) for values in rtts]
        if rtts:
            assert value("round_trip", flow=flow) == pytest.approx(np.mean([np.mean(v) for v in rtts]), rel=1e-9)
            assert value("peak_round_trip", flow=flow) == pytest.approx(max(map(max, rtts)), rel=1e-9)
        else:
            with pytest.raises(ValueError, match="the flow must measure an RTT in the time between"):
                value("round_trip", flow=flow)
    measured = [k for k in range(scenario.network.n_flows) if any(by_sample(log["rtt"][k], n))]
    if measured:
        assert value("p95_round_trip", flows=measured) == pytest.approx(np.quantile(every_rtt, 0.95), rel=1e-9)
    if any(rates):
        assert value("fairness") == pytest.approx(sum(rates) ** 2 / (len(rates) * sum(x * x for x in rates)), rel=1e-9)
        assert value("least_share") == pytest.approx(min(rates) / np.mean(rates), rel=1e-9)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(scenario=scenarios())
def test_metrics_are_those_of_the_packets(scenario: Scenario) -> None:
    check(scenario)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(scenario=scenarios())
def test_metrics_are_those_of_the_packets_in_many_networks(scenario: Scenario) -> None:
    check(scenario)


@pytest.mark.parametrize("discipline", [ecc.queues.FQCoDel(), ecc.queues.StrictPriority(), ecc.queues.DualPI2()])
def test_metrics_are_those_of_the_packets_with_several_queues(discipline: Any) -> None:
    link = ecc.Link("5 Mb/s", "5 ms", buffer="20 kB")
    flows = [
        ecc.Flow([0], packet_size=200, priority=1),
        ecc.Flow([0], start=0.3),
        ecc.Flow([0], start=1.7, packet_size=1500),
    ]
    hosts = {0: ecc.models.ConstantRate("0.5 Mb/s"), "default": ecc.models.CUBIC()}
    check(Scenario(ecc.Network([link], flows), {"flows": hosts, "links": discipline}, 2.0))
