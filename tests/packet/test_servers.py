"""Shapers, traces and bursts against closed forms and a trace played by hand; in parts, saved, and read."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.errors import NativeError
from ecc.models import ConstantRate, NewReno
from ecc.native import SERVER, Engine, new_flows, new_links
from ecc.network.impairments import (
    Aggregation,
    CapacitySchedule,
    DeliveryTrace,
    Jitter,
    RandomLoss,
    Shaper,
    read_mahimahi,
    write_mahimahi,
)
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, resume, simulate
from ecc.queues import CoDel, DropTail
from ecc.scenario import Scenario

SIZE = 1000


def one_link(*impairments: Any, rate: str = "8 Mb/s", capacity: str = "80 Mb/s", **options: Any) -> Scenario:
    network = Network([Link(capacity, 0.0, options.pop("buffer", None))], [Flow([0], packet_size=SIZE)])
    protocol = options.pop("protocol", {"flows": ConstantRate(rate), "links": DropTail()})
    return Scenario(
        network, protocol, options.pop("duration", 1.0), impairments=impairments, phase_jitter=False, **options
    )


def waits(scenario: Scenario, kind: str = "ack") -> tuple[np.ndarray, np.ndarray]:
    """When packets were sent, and how long after that they had left the link [s]; its delay is 0."""
    trace = simulate(scenario, trace=100_000).trace
    sent = trace[trace["event"] == "send"]
    out = trace[trace["event"] == kind]
    n = len(out)
    assert n > 20 and out["value"].to_numpy().tolist() == sent["value"].to_numpy()[:n].tolist()
    times = sent["time"].to_numpy()[:n]
    return times, out["time"].to_numpy() - times


# ---- shapers --------------------------------------------------------------------------------------------------------


def test_a_shaper_lets_pass_a_burst_beyond_its_rate_and_not_a_byte_more():
    """Greedy: what has left by t is burst + r t, to within a packet; in no interval is it more."""
    rate, burst = 4e6, 20_000
    sent, waited = waits(one_link(Shaper(0, rate, burst)))
    left = sent + waited
    transmission = 8.0 * SIZE / 80e6
    begins = left - transmission
    assert waited[:39] == pytest.approx(transmission, abs=1e-9)  # the bucket lasts as long as 20 packets + 0.5 t = t
    k = np.arange(len(left))
    late = k >= 40
    assert begins[late] == pytest.approx(8.0 * ((k[late] + 1) * SIZE - burst) / rate, abs=1e-9)
    for first in range(0, len(left), 5):
        passed = (k[first:] - first + 1) * SIZE
        assert (passed <= burst + rate / 8.0 * (begins[first:] - begins[first]) + 1e-3).all()


def test_a_packet_larger_than_the_bucket_waits_until_it_is_full_and_is_owed():
    sent, waited = waits(one_link(Shaper(0, "4 Mb/s", SIZE // 2)))
    assert np.diff(sent + waited) == pytest.approx(8.0 * SIZE / 4e6, abs=1e-9)


def test_what_a_shaper_holds_back_waits_in_the_buffer_and_is_dropped_there():
    run = simulate(one_link(Shaper(0, "4 Mb/s", 5000), buffer=30_000))
    assert float(run.queue_max.max()) == 30_000 and float(run.drops.sum()) > 100
    assert float(run.goodput[-1, 0]) == pytest.approx(4e6, rel=0.02)


# ---- traces ---------------------------------------------------------------------------------------------------------


def played_by_mm_link(arrivals: list[tuple[float, int]], times: list[int], until: float) -> list[float]:
    """When each packet leaves, by the loop of mm-link: opportunities up to now are used before a packet is queued."""
    queue: deque[list[int]] = deque()
    out: list[float] = []
    base, k = 0, 0

    def play(now: float) -> None:
        nonlocal base, k
        while base + times[k] <= now:
            at, left = base + times[k], 1504
            k += 1
            if k == len(times):
                base, k = base + times[-1], 0
            while left > 0 and queue:
                used = min(left, queue[0][0])
                queue[0][0] -= used
                left -= used
                if queue[0][0] == 0:
                    queue.popleft()
                    out.append(at)

    for when, size in arrivals:
        play(when)
        queue.append([size])
    play(until)
    return out


@pytest.mark.parametrize("size", [40, 400, 1000, 1504, 1460])
@pytest.mark.parametrize("discipline", [DropTail(), CoDel(target="1 s", interval="2 s")], ids=["plain", "schedules"])
def test_a_trace_is_played_as_by_mm_link(size, discipline):
    """On links that schedule too, where the next packet is taken only when the one before it has left."""
    rng = np.random.default_rng(size)
    times = sorted(rng.integers(0, 60, 12).tolist()) + [60]
    network = Network([Link("8 Mb/s")], [Flow([0], packet_size=size)])
    protocol = {"flows": ConstantRate(8.0 * size / 0.0037), "links": discipline}
    scenario = Scenario(
        network, protocol, 1.5, phase_jitter=False, impairments=[DeliveryTrace(0, [time / 1000.0 for time in times])]
    )
    trace = simulate(scenario, trace=100_000).trace
    sent = trace[trace["event"] == "send"]["time"].to_numpy()
    expected = played_by_mm_link([(round(1000.0 * time, 9), size) for time in sent], times, 1500.0)
    found = trace[trace["event"] == "ack"]["time"].to_numpy()
    assert len(found) > 50
    assert 1000.0 * found == pytest.approx(expected[: len(found)], abs=1e-9)
    assert len(expected) == len(found)


def test_packets_of_different_sizes_share_opportunities():
    network = Network([Link("8 Mb/s")], [Flow([0], packet_size=(40, 1500))])
    times = [3, 3, 5, 9, 14]
    scenario = Scenario(
        network,
        {"flows": ConstantRate("1.5 Mb/s"), "links": DropTail()},
        2.0,
        seed=4,
        impairments=[DeliveryTrace(0, [time / 1000.0 for time in times])],
    )
    trace = simulate(scenario, trace=100_000).trace
    sends = trace[trace["event"] == "send"]
    offsets = sends["value"].to_numpy()
    arrivals = list(zip((1000.0 * sends["time"].to_numpy()[:-1]).tolist(), np.diff(offsets).tolist(), strict=True))
    found = 1000.0 * trace[trace["event"] == "ack"]["time"].to_numpy()
    expected = played_by_mm_link(arrivals, times, 2000.0)
    n = min(len(found), len(expected))
    assert n > 300 and found[:n] == pytest.approx(expected[:n], abs=1e-9)


def test_a_saturated_trace_carries_its_capacity_and_an_idle_one_loses_its_opportunities():
    trace = DeliveryTrace(0, [0.001, 0.004, 0.004, 0.010])
    assert trace.capacity == pytest.approx(8 * 1504 * 4 / 0.01)
    full = simulate(one_link(trace, rate="8 Mb/s", duration=10.0), sample=1.0)
    assert float(full.goodput[1:].mean()) == pytest.approx(trace.capacity, rel=1e-3)
    idle = simulate(one_link(trace, rate="0.1 Mb/s", duration=10.0), sample=1.0)
    assert float(idle.queue_max.max()) == SIZE  # nothing of what was not used is left


def test_files_of_mahimahi_are_read_and_written(tmp_path):
    path = tmp_path / "trace.up"
    path.write_text("0\n1\n1\n7\n12\n")
    trace = read_mahimahi(path, link=0)
    assert trace.times == (0.0, 0.001, 0.001, 0.007, 0.012) and trace.opportunity == 1504 and trace.link == 0
    again = tmp_path / "again"
    write_mahimahi(trace, again)
    assert again.read_text() == path.read_text()
    scenario = one_link(trace)
    assert Scenario.from_toml(scenario.to_toml()).impairments == (trace,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "times must end above 0 ms, got none"),
        ("0\n0\n", "times must end above 0 ms, got 0"),
        ("5\n4\n", r"times must not decrease, got 4 ms after 5 \(line 2\)"),
        ("1\n\n2\n", r"a line must be a time in whole milliseconds, got '' \(line 2\)"),
        ("1.5\n", r"a line must be a time in whole milliseconds, got '1\.5' \(line 1\)"),
        ("-1\n", "a line must be a time in whole milliseconds"),
        ("9999999999\n", "a line must be a time in whole milliseconds"),
    ],
)
def test_what_mm_link_refuses_is_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_mahimahi(path)


def test_what_a_file_cannot_say_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="opportunity must be 1504 bytes in a file of Mahimahi, got 1500"):
        write_mahimahi(DeliveryTrace(0, [0.001], 1500), tmp_path / "trace")
    with pytest.raises(ValueError, match="times must be whole milliseconds in a file of Mahimahi, got 0.0015 s"):
        write_mahimahi(DeliveryTrace(0, [0.0015]), tmp_path / "trace")


# ---- bursts ---------------------------------------------------------------------------------------------------------


def test_bursts_of_a_fixed_wait_have_the_mean_delay_of_their_closed_form():
    """A packet a millisecond, bursts 10 ms after their first packet: 11 packets, which wait 10, 9, ..., 0 ms."""
    sent, waited = waits(one_link(Aggregation(("9.9 ms", "9.9 ms"), link=0)))
    n = 10
    bursts = np.unique(np.round(sent + waited, 9), return_counts=True)[1][:-1]
    assert (bursts == n).all()
    whole = waited[: len(bursts) * n]
    assert whole.mean() == pytest.approx(0.0001 + 0.0099 - 0.001 * (n - 1) / 2.0, abs=1e-9)
    assert whole.max() == pytest.approx(0.01, abs=1e-9)  # and the transmission


def test_random_waits_have_their_mean_and_their_range():
    sent, waited = waits(one_link(Aggregation(("2 ms", "6 ms"), link=0), duration=20.0, rate="0.8 Mb/s"))
    assert waited.min() >= 0.002 and waited.max() <= 0.0061  # 10 ms apart: each is a burst of its own
    assert waited.mean() == pytest.approx(0.0041, rel=0.02)


@pytest.mark.parametrize("limit", [{"max_packets": 4}, {"max_size": 4 * SIZE + 999}])
def test_a_limit_of_bursts_bounds_what_the_link_carries(limit):
    run = simulate(one_link(Aggregation(("8 ms", "8 ms"), link=0, **limit), duration=4.0, buffer=50_000), sample=0.5)
    assert float(run.goodput[1:].mean()) == pytest.approx(4 * 8.0 * SIZE / 0.008, rel=0.01)
    assert float(run.queue_max.max()) == 50_000 and float(run.drops.sum()) > 0
    trace = simulate(one_link(Aggregation(("8 ms", "8 ms"), link=0, **limit)), trace=10_000).trace
    acks = trace[trace["event"] == "ack"]["time"].to_numpy()
    assert set(np.unique(np.round(acks, 9), return_counts=True)[1][:-1].tolist()) == {4}


def test_a_link_that_schedules_sends_bursts_too():
    scenario = one_link(Aggregation(("9.9 ms", "9.9 ms"), link=0))
    same = scenario.with_(protocol={"flows": ConstantRate("8 Mb/s"), "links": CoDel(target="1 s", interval="2 s")})
    plain, scheduled = (waits(one)[1] for one in (scenario, same))
    n = min(len(plain), len(scheduled))
    assert scheduled[:n] == pytest.approx(plain[:n], abs=1e-9)


def test_acks_come_in_bursts_where_they_have_no_link():
    given = Scenario(
        Network.dumbbell("10 Mb/s", rtts=[0.04], packet_size=SIZE),
        NewReno(transport="sack"),
        10.0,
        impairments=[Aggregation(("20 ms", "20 ms"), acks_of="all")],
    )
    run = simulate(given, trace=50_000)
    trace = run.trace
    acks = np.unique(np.round(trace[trace["event"] == "ack"]["time"].to_numpy(), 9), return_counts=True)
    assert np.diff(acks[0]).min() >= 0.02 - 1e-9 and np.median(acks[1][5:]) > 10
    assert float(run.goodput[50:].mean()) == pytest.approx(1e7, rel=0.1)


# ---- all of them ----------------------------------------------------------------------------------------------------

ALL = (
    Shaper(0, "6 Mb/s", 8000),
    Aggregation(("1 ms", "5 ms"), link=0, max_packets=8),
    DeliveryTrace(1, [0.001, 0.001, 0.002, 0.004]),
    Aggregation(("0 ms", "8 ms"), acks_of=0, max_size=200),
    CapacitySchedule(0, [0.5, 1.0], ["4 Mb/s", "8 Mb/s"]),
    Jitter((0.0, "3 ms"), link=1),
    RandomLoss(0.01, link=1),
)


def crossing(**options: Any) -> Scenario:
    links = [Link("10 Mb/s", "4 ms", 30_000), Link("6 Mb/s", "4 ms", 30_000)]
    flows = [Flow([0, 1], access_delay=0.002), Flow([0, 1], reverse=[1, 0], access_delay=0.003)]
    return Scenario(Network(links, flows), NewReno(transport="sack"), 2.0, impairments=ALL, **options)


def test_both_engines_parts_and_resumed_runs_agree(tmp_path):
    scenario = crossing()
    whole = simulate(scenario, sample=0.1)
    assert simulate(scenario, sample=0.1, engine="python").stats["digest"] == whole.stats["digest"]
    assert simulate(scenario, sample=0.1, threads=2).stats["digest"] == whole.stats["digest"]
    run = Run(scenario, 0.1).advance(0.731)
    run.save(tmp_path / "state")
    later = resume(tmp_path / "state").advance()
    assert later.trajectory().stats["digest"] == whole.stats["digest"]
    assert later.trajectory().goodput.equals(whole.goodput)
    assert Scenario.from_toml(scenario.to_toml()).impairments == ALL


@pytest.mark.parametrize("one", ALL[:4], ids=lambda one: type(one).__name__)
def test_a_fluid_refuses_them_in_one_line(one):
    given = Scenario(crossing().network, NewReno(), 1.0, impairments=[one])
    name = type(one).__name__
    with pytest.raises(ValueError, match=f"impairments must be .* for a fluid run, got {name}") as caught:
        ecc.fluid.simulate(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Shaper(0, 0.0, 1000), r"rate must be > 0 bit/s, got 0\.0"),
        (lambda: Shaper(0, 1e6, 0), "burst must be"),
        (lambda: Shaper(-1, 1e6, 1000), "link must be >= 0, got -1"),
        (lambda: DeliveryTrace(0, []), r"times must end above 0 s, got \[\]"),
        (lambda: DeliveryTrace(0, [0.0]), r"times must end above 0 s, got \[0\.0\]"),
        (lambda: DeliveryTrace(0, [0.2, 0.1]), r"times must not decrease, got \[0\.2, 0\.1\]"),
        (lambda: DeliveryTrace(0, [0.1], 0), "opportunity must be"),
        (lambda: DeliveryTrace(0, [0.1], 2**31), r"opportunity must be <= 2\^30 bytes, got 2147483648"),
        (lambda: Aggregation((0.0, 0.0), link=0), r"wait must end above 0 s, got \(0\.0, 0\.0\)"),
        (lambda: Aggregation((0.2, 0.1), link=0), r"wait must be a range \(lowest, highest\), got \(0\.2, 0\.1\)"),
        (lambda: Aggregation((0.0, 0.1), link=0, max_packets=0), "max_packets must be >= 1, got 0"),
        (lambda: Aggregation((0.0, 0.1), link=0, max_size=0), "max_size must be"),
        (lambda: Aggregation((0.0, 0.1)), "one of link and acks_of must be given"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate", -1.0),
        ("rate", np.nan),
        ("burst", 0),
        ("burst", 2**51),
        ("n_opportunities", 3),
        ("n_opportunities", -1),
        ("opportunity", 0),
        ("slot_hi", -1),
        ("slot_lo", 5),
        ("slot_packets", -1),
        ("slot_bytes", -1),
    ],
)
def test_bad_servers_are_refused(field, value):
    links, flows = new_links(1), new_flows(1)
    links["capacity"], links["server"], flows["n_forward"] = 1e6, 1, 1
    servers = np.zeros(1, SERVER)
    servers["rate"], servers["burst"], servers["n_opportunities"], servers["opportunity"] = 1e6, 1000, 2, 1504
    Engine(links, flows, [0], servers=servers, opportunities=np.array([0, 5]))
    servers[field] = value
    with pytest.raises(NativeError, match="^servers must be numbered from 1, with .*, got 1$"):
        Engine(links, flows, [0], servers=servers, opportunities=np.array([0, 5]))


@pytest.mark.parametrize("times", [[0, 0], [5, 4], [-1, 4], [1, 4 * 10**18]])
def test_bad_opportunities_are_refused(times):
    links, flows = new_links(1), new_flows(1)
    links["capacity"], links["server"], flows["n_forward"] = 1e6, 1, 1
    servers = np.zeros(1, SERVER)
    servers["n_opportunities"], servers["opportunity"] = 2, 1504
    with pytest.raises(NativeError, match="^servers must be numbered from 1"):
        Engine(links, flows, [0], servers=servers, opportunities=np.array(times))
    links["server"] = 2
    with pytest.raises(NativeError, match=r"^servers must be numbered from 1, .* got 2 \(link 0\)$"):
        Engine(links, flows, [0], servers=servers, opportunities=np.array([1, 2]))
