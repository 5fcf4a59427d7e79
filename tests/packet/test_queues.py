"""Queues, losses and timers of the packet engine against closed forms, without hooks unless a test brings one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ecc.native import Engine, new_flows, new_links
from ecc.network import Flow, Link, Network
from ecc.packet.twin import Kind

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
def test_a_long_path_is_given_up_until_its_first_ack_and_never_after(rtt):
    engine = run([{"capacity": 8e6}], [{"window": 1000.0, "ack_delay": rtt * SECOND - MS}], 900.0)
    assert times_of(engine, Kind.TIMEOUT)[:4].tolist() == [1 * SECOND, 3 * SECOND, 7 * SECOND, 15 * SECOND]
    assert engine.flow_results["srtt"] == pytest.approx(rtt)
    assert engine.flow_results["lost"] == 4000
    assert engine.flow_results["delivered"] == 1000 * ((900 - 15) // rtt)
