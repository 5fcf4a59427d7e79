"""Queues, losses and timers of the packet engine against closed forms, without hooks unless a test brings one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ecc.jit import compile_hooks
from ecc.models import RCP
from ecc.native import CHANGE, FLOW_ENV, IMPAIRMENT, Engine, addresses, new_flows, new_links
from ecc.network.impairments import DelaySpikes
from ecc.network.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import Kind
from ecc.scenario import Scenario

SECOND, MS = 10**12, 10**9  # ps


def table(new: Any, *rows: dict[str, Any]) -> np.ndarray:
    """Links or flows with these fields."""
    out = new(len(rows))
    for row, fields in zip(out, rows, strict=True):
        for name, value in fields.items():
            row[name] = value
    return out


def run(links: list[dict[str, Any]], flows: list[dict[str, Any]], until: float, **options: Any) -> Engine:
    """An engine that has run; each flow crosses all links unless it says n_forward."""
    flows = [{"n_forward": len(links)} | flow for flow in flows]
    routes = [k for flow in flows for k in range(flow["n_forward"] + flow.get("n_reverse", 0))]
    engine = Engine(table(new_links, *links), table(new_flows, *flows), routes, trace=200_000, **options)
    engine.advance(until)
    engine.verify()
    assert engine.stats.trace <= 200_000, "room in the trace"
    return engine


def times_of(engine: Engine, kind: Kind, entity: int = 0) -> np.ndarray:
    """When events of a kind happened, ps."""
    trace = engine.trace
    return trace["time"][(trace["kind"] == kind) & (trace["entity"] == entity)]


# ---- what a queue holds ----------------------------------------------------------------------------------------------


def test_a_buffer_counts_packets_whatever_their_size():
    small, large = {"window": 4000.0, "packet_size": 100}, {"window": 90_000.0, "packet_size": 1500}
    engine = run([{"capacity": 8e6, "buffer_packets": 25}], [small, large], 0.0)
    # 40 small ones come first: 25 stay, and none of the 60 large ones finds room
    assert engine.link_results["queue"] == 2500 and engine.link_results["dropped"] == 75
    both = run([{"capacity": 8e6, "buffer_packets": 25, "buffer": 1000}], [small, large], 0.0)
    assert both.link_results["queue"] == 1000


def test_packet_sizes_are_uniform_over_their_range():
    lo, hi = 800, 1300
    engine = run([{"capacity": 1e9}], [{"rate": 8e6, "packet_size": lo, "packet_size_max": hi}], 21.0)
    trace = engine.trace
    sizes = np.diff(trace["value"][trace["kind"] == Kind.SEND])
    values, n = hi - lo + 1, len(sizes)
    assert (sizes.min(), sizes.max()) == (lo, hi) and n > 19_000
    assert sizes.mean() == pytest.approx((lo + hi) / 2, abs=4.0 * np.sqrt((values**2 - 1) / 12 / n))
    expected = n / values
    chi2 = ((np.bincount(sizes - lo, minlength=values) - expected) ** 2 / expected).sum()
    assert abs(chi2 - (values - 1)) < 4.0 * np.sqrt(2 * (values - 1))
    # the pacer keeps the rate with any of them
    assert (np.diff(times_of(engine, Kind.SEND)) == sizes * 10**6).all()


def test_a_range_of_sizes_is_one_of_its_ends_and_a_mean():
    flow = Flow([0], packet_size=("0.8 kB", 1300))
    assert (flow.packet_size, flow.largest_packet, flow.mean_packet) == ((800, 1300), 1300, 1050.0)
    assert Network([Link(1e6, buffer=1300)], [flow]).flows[0].mean_packet == 1050.0


# ---- timers ----------------------------------------------------------------------------------------------------------


def test_timeouts_back_off_to_64_seconds():
    engine = run([{"capacity": 8e6, "buffer": 0}], [{"window": 1000.0}], 400.0)
    # sent again at each expiry, RFC 6298 (5.5): 1, 2, 4, ... s later, never more than 64
    waits = np.diff(times_of(engine, Kind.TIMEOUT), prepend=0) // SECOND
    assert waits.tolist() == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64]


@pytest.mark.parametrize("rtt", [20, 30])  # 3 times it is within or beyond the 64 s of doubling
def test_a_long_path_is_never_given_up(rtt):
    engine = run([{"capacity": 8e6}], [{"window": 1000.0, "ack_delay": rtt * SECOND - MS}], 900.0)
    # looks at the timer; what it waits for was heard one RTT before each
    assert times_of(engine, Kind.TIMEOUT)[:2].tolist() == [3 * rtt * SECOND, 6 * rtt * SECOND]
    assert engine.flow_results["srtt"] == pytest.approx(rtt)
    assert engine.flow_results["lost"] == 0
    assert engine.flow_results["delivered"] == 1000 * (900 // rtt)


def test_what_waits_in_a_queue_is_given_up_until_the_first_ack():
    long = {"window": 20e6, "size": 20_000_000, "ack_delay": MS}  # 20 s of queue
    engine = run([{"capacity": 8e6}], [long, {"start": 1, "window": 1000.0, "ack_delay": 9 * MS}], 21.0)
    events = engine.trace[(engine.trace["kind"] == Kind.TIMEOUT) & (engine.trace["entity"] == 1)]
    assert ((events["time"] - 1) / SECOND).tolist() == [1.0, 3.0, 7.0, 15.0]
    assert engine.flow_results["lost"].tolist() == [0, 4000]


# ---- exact times --------------------------------------------------------------------------------------------------


def service(size: int, rate: float) -> int:
    """What a packet takes, ps."""
    return int(Fraction(8 * size) / Fraction(rate) * SECOND + Fraction(1, 2))


@pytest.mark.parametrize("rate", [2e6, 7e6, 30e6])  # below all capacities, between them, above all
def test_a_tandem_of_three_is_exact_to_the_picosecond(rate):
    capacities, delays = [8.1e6, 5.3e6, 11.7e6], [3 * MS, 7 * MS + 1, 11]
    links = [{"capacity": c, "delay": d} for c, d in zip(capacities, delays, strict=True)]
    engine = run(links, [{"rate": rate, "access_delay": 5 * MS, "ack_delay": 2 * MS, "size": 300_000}], 2.0)
    gap, takes = service(1000, rate), [service(1000, c) for c in capacities]
    sends, acks = times_of(engine, Kind.SEND), times_of(engine, Kind.ACK)
    assert (sends == np.arange(300) * gap).all()
    # D/D/1 after D/D/1: the first packet meets no queue, and packets leave as the slowest stage lets them go
    assert (acks == 7 * MS + sum(takes) + sum(delays) + np.arange(300) * max(gap, *takes)).all()


CHANGES = [(SECOND, 2e6), (2 * SECOND + 123_456_789, 5e6), (3 * SECOND, 0.0), (3 * SECOND + 70 * MS, 8e6)]


def inverse_of_capacity(bits: int) -> Fraction:
    """When a link of 8 Mb/s that changes as CHANGES says has served so many bits, without a pause, ps."""
    at, capacity, left = Fraction(0), Fraction(8_000_000), Fraction(bits)
    for time, changed in CHANGES:
        could = capacity * (time - at) / SECOND
        if could >= left:
            break
        at, capacity, left = Fraction(time), Fraction(int(changed)), left - could
    return at + left / capacity * SECOND


def test_a_changing_capacity_is_inverted_exactly():
    changes = np.array(CHANGES, CHANGE)
    link, flow = {"capacity": 8e6, "n_changes": len(CHANGES)}, {"rate": 9e6, "size": 2_500_000}
    engine = run([link], [flow], 6.0, changes=changes)
    acks = times_of(engine, Kind.ACK)
    expected = [inverse_of_capacity(8000 * (k + 1)) for k in range(2500)]  # it always has something to send
    assert len(acks) == 2500
    assert max(abs(Fraction(int(t)) - e) for t, e in zip(acks, expected, strict=True)) < len(CHANGES) + 1
    assert not ((acks > 3 * SECOND) & (acks < 3 * SECOND + 70 * MS)).any()  # the outage
    # without rounding there is no error: 8000 bits take whole picoseconds until the first odd change
    assert (acks[:1000] == np.arange(1, 1001) * MS).all()


def test_queue_and_rtt_of_a_constant_rate_through_a_dip():
    changes = np.array([(SECOND, 2e6), (2 * SECOND, 8e6)], CHANGE)
    link = {"capacity": 8e6, "n_changes": 2, "delay": 5 * MS}
    engine = run([link], [{"rate": 4e6, "ack_delay": 5 * MS}], 4.0, changes=changes, sample=0.1, n_samples=40)
    time, queue = engine.samples["time"], engine.samples["queue"][:, 0]
    fluid = np.interp(time, [1.0, 2.0, 2.5], [0.0, 250_000.0, 0.0])  # (4 - 2) and (8 - 4) Mb/s for 1 and 0.5 s
    assert np.abs(queue - fluid).max() <= 1500
    sends, acks = times_of(engine, Kind.SEND), times_of(engine, Kind.ACK)
    rtts = acks - sends[: len(acks)]
    assert rtts.min() == 11 * MS
    # who comes last at 2 s waits for all that is there: 250 kB at 8 Mb/s
    last = np.searchsorted(sends, 2 * SECOND) - 1
    assert rtts[last] == pytest.approx(11 * MS + 250 * MS, abs=2 * MS)


def test_a_link_that_never_comes_back_serves_no_more():
    engine = run([{"capacity": 8e6, "n_changes": 1}], [{"rate": 4e6}], 3.0, changes=np.array([(SECOND, 0.0)], CHANGE))
    assert times_of(engine, Kind.ACK).max() <= SECOND
    assert engine.link_results["departed"] == 500_000


def poisson_on_send(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.rate = 8.0 * env.packet_size * p.arrivals / max(-math.log(1.0 - env.random), 1e-12)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_poisson_packets_wait_as_pollaczek_and_khinchine_say(load):
    n, takes = 90_000, 1e-3
    params = np.array([(load / takes,)], [("arrivals", "f8")])
    state, empty = np.zeros(1, [("nothing", "f8")]), np.dtype([("nothing", "f8")])
    hooks = compile_hooks({"on_send": poisson_on_send}, state.dtype, empty, params.dtype, FLOW_ENV)
    flow = {
        "rate": 1e6,
        "wants_random": 1,
        "state": addresses(state)[0],
        "params": addresses(params)[0],
        "on_send": hooks["on_send"],
        "size": 1000 * n,
    }
    keep = (state, params, hooks)
    engine = run([{"capacity": 8e6}], [flow], 2.0 * n * takes / load, header_size=8, seed=7, keep=keep)
    sends, acks = times_of(engine, Kind.SEND), times_of(engine, Kind.ACK)
    assert len(sends) == len(acks) == n
    waits = (acks - sends) * 1e-12 - takes
    assert waits.min() == pytest.approx(0.0, abs=1e-12)
    means = waits.reshape(30, -1).mean(axis=1)  # batches far longer than the queue's memory
    error = means.std(ddof=1) / np.sqrt(len(means))
    expected = load * takes / (2.0 * (1.0 - load))  # M/D/1
    assert error < 0.04 * expected
    assert abs(waits.mean() - expected) < 3.66 * error  # Student's t with 29 degrees of freedom, 99.9 %


# ---- losses -------------------------------------------------------------------------------------------------------


def ways(*rows: dict[str, float]) -> np.ndarray:
    return table(lambda n: np.zeros(n, IMPAIRMENT), *rows)


@pytest.mark.parametrize("ack_loss", [0.0, 0.9])
def test_lost_packets_are_counted_whether_acks_are_lost_or_not(ack_loss):
    links = [{"capacity": 16e6, "delay": 3 * MS, "impairment": 1}]
    flow = {"rate": 8e6, "ack_delay": 4 * MS, "impairment": 2}
    engine = run(links, [flow], 20.0, impairments=ways({"data_loss": 0.1}, {"ack_loss": ack_loss}), seed=3)
    trace, result, link = engine.trace, engine.flow_results[0], engine.link_results[0]
    gone = trace["value"][trace["kind"] == Kind.LOSS]
    assert len(gone) == link["lost"] == link["lost_bytes"] // 1000
    n = result["sent"] // 1000
    assert abs(len(gone) - 0.1 * n) < 4.0 * np.sqrt(0.09 * n)
    # what is lost has used the link: it is part of what departed
    assert link["departed"] == result["received"] + link["lost_bytes"] + 1000 * 3  # 3 ms of packets on the wire
    acks = trace["kind"] == Kind.ACK
    assert abs(acks.sum() - 0.9 * n * (1.0 - ack_loss)) < 4.0 * np.sqrt(0.09 * n) + 10
    assert result["acks_lost"] == (trace["kind"] == Kind.ACK_LOSS).sum()
    # exactly those below the last offset that an ACK settled
    settled = trace["value"][acks].max() + 1000
    assert result["lost"] == 1000 * (gone < settled).sum()
    assert result["delivered"] == settled - result["lost"]


def test_losses_spare_the_other_kind():
    links = [{"capacity": 8e6, "impairment": 1}, {"capacity": 8e6, "impairment": 2}]
    flow = {"rate": 1e6, "n_forward": 1, "n_reverse": 1, "size": 100_000}
    fine = run(links, [flow], 9.0, impairments=ways({"ack_loss": 1.0}, {"data_loss": 1.0}))
    assert fine.flow_results["completed"] == 1 and fine.flow_results["lost"] == 0
    both = run(links, [flow], 9.0, impairments=ways({"ack_loss": 1.0}, {"ack_loss": 1.0}))
    assert both.link_results["lost"][1] > 0 == both.flow_results["delivered"]


# ---- delays -------------------------------------------------------------------------------------------------------


def test_spikes_hold_up_those_behind_them():
    between, spike, every = MS // 10, 35 * MS, 5
    way = {"spike_every_lo": every, "spike_every_hi": every, "spike_lo": spike, "spike_hi": spike}
    flow = {"rate": 8e5, "size": 100_000, "ack_delay": 20 * MS, "impairment": 1}  # every 10 ms
    engine = run([{"capacity": 8e6}], [flow], 3.0, impairments=ways({**way, "spike_between": between}))
    rtts = times_of(engine, Kind.ACK) - times_of(engine, Kind.SEND)
    # the fifth waits 35 ms; those 10, 20 and 30 ms behind it for its end, and then for each other
    extra = [between + max(0, late) for late in (0, 25 * MS, 15 * MS + between, 5 * MS + 2 * between)]
    expected = np.array([extra[k] for k in (1, 2, 3, 0)] + [spike])
    rtts -= 21 * MS
    assert (rtts[:4] == between).all()
    assert (rtts[4:99].reshape(-1, 5) == np.roll(expected, 1)).all()


def test_jitter_of_sparse_packets_has_its_mean_and_range():
    way = {"jitter_lo": 2 * MS, "jitter_hi": 8 * MS}
    engine = run([{"capacity": 8e6, "impairment": 1}], [{"rate": 8e5}], 300.0, impairments=ways(way))
    acks = times_of(engine, Kind.ACK)
    extra = (acks - times_of(engine, Kind.SEND)[: len(acks)] - MS) / MS
    assert 2.0 <= extra.min() < 2.01 and 7.99 < extra.max() <= 8.0
    assert abs(extra.mean() - 5.0) < 4.0 * 6.0 / np.sqrt(12 * len(extra))


@pytest.mark.parametrize("where", ["link", "acks"])
@pytest.mark.parametrize("reorders", [0, 1])
def test_overtaking_is_no_loss_while_fewer_than_three_overtake(where, reorders):
    # 1 ms from packet to packet, 2.5 ms of jitter: at most two overtake
    way = ways({"jitter_hi": 5 * MS // 2, "reorders": reorders})
    place = {"impairment": 1}
    link, flow = {"capacity": 80e6, **(place if where == "link" else {})}, {"rate": 8e6, "stop": 2 * SECOND - 1}
    engine = run([link], [{**flow, **(place if where == "acks" else {})}], 9.0, impairments=way)
    trace, result = engine.trace, engine.flow_results[0]
    steps = np.diff(trace["value"][trace["kind"] == Kind.ACK])
    assert (steps < 0).any() == bool(reorders)
    assert result["lost"] == 0 and result["delivered"] == result["received"] == result["sent"] == 2_000_000


def test_more_overtaking_is_taken_for_loss_and_nothing_is_counted_twice():
    link = {"capacity": 80e6, "impairment": 1}
    way = ways({"jitter_hi": 20 * MS, "reorders": 1})
    engine = run([link], [{"rate": 8e6, "stop": 2 * SECOND - 1}], 9.0, impairments=way)
    result = engine.flow_results[0]
    assert result["received"] == result["sent"] == result["delivered"] + result["lost"] == 2_000_000
    assert 0 < result["lost"] < 1_500_000


def test_delayed_acks_come_for_so_many_packets_or_after_so_long():
    def acks_of(rate: float) -> np.ndarray:
        flow = {"rate": rate, "ack_delay": 9 * MS, "ack_every": 3, "ack_wait": 40 * MS, "size": 300_000}
        engine = run([{"capacity": 80e6}], [flow], 60.0)
        assert engine.flow_results["completed"] == 1 and engine.flow_results["lost"] == 0
        trace = engine.trace
        return trace[trace["kind"] == Kind.ACK]

    way = MS // 10 + 9 * MS
    dense = acks_of(8e6)  # one packet a ms: each third is acknowledged as it comes
    assert (dense["value"] == 1000 * np.arange(2, 300, 3)).all()
    assert (dense["time"] == np.arange(2, 300, 3) * MS + way).all()
    sparse = acks_of(8e4)  # one in 100 ms: each for itself, 40 ms later
    assert (sparse["time"] == np.arange(300) * 100 * MS + way + 40 * MS).all()
    middle = acks_of(8e6 / 30)  # one in 30 ms: two are there after 40 ms, and the header of the second returns
    assert (middle["value"] == 1000 * np.arange(1, 300, 2)).all()
    assert (middle["time"] == np.arange(0, 300, 2) * 30 * MS + way + 40 * MS).all()


# ---- JETMAX's topologies ------------------------------------------------------------------------------------------


def test_t3_delays_its_acks_as_the_paper_says():
    scenario = Scenario(Network.T3(), RCP(), 60.0, impairments=[DelaySpikes(acks_of="all")])
    engine = build_engine(prepare(scenario), scenario, trace=600_000)
    engine.advance(scenario.duration)
    assert engine.stats.trace <= 600_000
    for flow in (0, 1):
        acks = times_of(engine, Kind.ACK, flow) * 1e-12
        gaps = np.diff(acks)
        spikes = np.flatnonzero(gaps > 0.4)[1 if gaps[0] > 0.4 else 0 :]
        spikes = spikes[acks[spikes] > 10.0]  # past the start, with its long RTT
        assert ((gaps[spikes] > 0.49) & (gaps[spikes] < 1.01)).all() and len(spikes) >= 1
        assert ((np.diff(spikes) >= 5000) & (np.diff(spikes) <= 10000)).all()
        after = gaps[spikes[0] + 1 : spikes[0] + 100]
        assert np.allclose(after, 1e-5, atol=1e-12)  # those that waited


def test_t4_has_its_clockwise_acks_on_the_links_of_the_other_half():
    run = simulate(Scenario(Network.T4(), RCP(), 160.0), sample=1.0)
    assert run.is_complete
    alone = run.rate[28, 0].item(), run.arrival[28].to_numpy()
    assert alone[0] == pytest.approx(17e6, rel=0.01)
    assert alone[1][2:] == pytest.approx(0.04 * alone[0], rel=0.02)  # 40 bytes back for 1000
    late = run.rate[-20:].mean("time").to_numpy()
    # links 0 and 2 carry two flows and the ACKs of one: x + x + 0.04 x = 20 Mb/s
    assert late == pytest.approx([20e6 / 2.04] * 4, rel=0.02)
