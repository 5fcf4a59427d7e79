"""GSP by hand: when it drops by the pseudocode that its sources give, in both engines, and what it is for."""

from __future__ import annotations

import pytest

import ecc
from ecc.models import ConstantRate, NewReno
from ecc.queues import GSP, DropTail

TX = 10_000  # us in which the link sends a packet
ENGINES = pytest.mark.parametrize("engine", ["c", "python"])


def drops(discipline, streams, duration, engine, buffer=None, record=()):
    """Return the times of all drops [s] of constant rates (rate, start, stop), and the run."""
    rates, starts, stops = zip(*streams, strict=True)
    network = ecc.Network.dumbbell(
        "0.8 Mb/s", [0.1] * len(rates), packet_size=1000, starts=list(starts), stops=list(stops), buffer=buffer
    )
    hosts = {k: ConstantRate(rate) for k, rate in enumerate(rates)}
    given = ecc.Scenario(network, {"flows": hosts, "links": {0: discipline}}, duration, phase_jitter=False)
    run = ecc.packet.simulate(given, trace=10**5, engine=engine, record=list(record), sample=duration)
    return run.trace["time"][run.trace["event"] == "drop"].to_numpy(), run


@ENGINES
def test_basic_gsp_drops_one_packet_per_interval(engine):
    """A packet every 5 ms, 10 ms to send each: packet n, at 5 n ms, finds ceil(n/2) packets.

    Packet 4 finds 2 packets, 20 ms, which is not above the threshold, and packet 5 finds 3. At 225 ms the interval has
    ended, but is not over. A packet at 230 ms is the next.
    """
    found, _ = drops(GSP(adaptive=False), [(1.6e6, 0.0, None)], 1.0, engine)
    assert found == pytest.approx([0.025, 0.23, 0.435, 0.64, 0.845])


def by_the_pseudocode(arrivals, packets, threshold, interval, alpha, tau, max_time):
    """Return the times of all drops and the last cumulated time, from arrivals and parameters in us."""
    waiting, dropped, state = [], [], "clear"
    cumulated, expiry, last = 0.0, 0.0, 0
    for now in arrivals:
        above = below = 0
        for time in [*(time for time in waiting if time <= now), None]:
            passed, last = (now if time is None else time) - last, now if time is None else time
            if len(waiting) * TX > threshold:
                above += passed
            elif state == "clear":
                below += passed
            if time is not None:
                del waiting[0]
                state = "empty" if state == "overflow" and not waiting else state
        cumulated = min(max_time, max(0.0, cumulated + alpha * above - below))
        if len(waiting) * TX > threshold and now > expiry:
            expiry = now + interval / (1.0 + cumulated / tau)
            dropped.append(now)
        elif len(waiting) == packets:
            state = "overflow"
            dropped.append(now)
        else:
            waiting.append(max([now, *waiting[-1:]]) + TX)
            state = "clear" if state == "empty" and len(waiting) * TX > threshold else state
    return dropped, cumulated


@ENGINES
@pytest.mark.parametrize("packets", [6, 1000])
def test_adaptive_gsp_drops_when_the_pseudocode_says(packets, engine):
    """A load of 0.63 all the time, and up to 4.6 for a while, with overflows if the buffer has 6 packets."""
    streams = [(0.5e6, 0.0, None), (1.6e6, 0.3, 1.1), (1.6e6, 0.5, 0.8), (0.4e6, 1.5, 2.5), (3.2e6, 3.0, 3.2)]
    arrivals = []
    for rate, start, stop in streams:
        gap, first, last = round(8e9 / rate), round(1e6 * start), round(1e6 * (stop or 4.0))
        arrivals += range(first, last + 1, gap)
    gsp = GSP(threshold="25 ms", interval="50 ms", tau="250 ms", max_time="1 s")
    found, run = drops(gsp, streams, 4.0, engine, 1000 * packets, ["link.cumulated"])
    expected, cumulated = by_the_pseudocode(sorted(arrivals), packets, 25_000, 50_000, 2.0, 250_000, 1_000_000)
    assert 1e6 * found == pytest.approx(expected) and len(expected) > 30
    assert float(run["link.cumulated"][-1, 0]) == pytest.approx(1e-6 * cumulated) and cumulated > 0.0


def test_flows_lose_one_by_one_where_a_full_buffer_stops_many_at_once():
    """Twenty flows over a queue of 20 ms, with an RTT of 100 ms: a full buffer leaves a tenth of the link unused."""
    used, delay = {}, {}
    for discipline, buffer in ((DropTail(), 50_000), (GSP(), 500_000)):
        network = ecc.Network.dumbbell("20 Mb/s", [0.1] * 20, packet_size=1000, buffer=buffer)
        scenario = ecc.Scenario(network, {"flows": NewReno(transport="sack"), "links": {0: discipline}}, 20.0)
        run = ecc.packet.simulate(scenario, sample=0.1)
        name = type(discipline).__name__
        used[name] = float(run.goodput[100:].sum("flow").mean()) / 20e6
        delay[name] = 8.0 * float(run.queue[100:].quantile(0.95)) / 20e6
    assert used["DropTail"] < 0.92 < 0.99 < used["GSP"], used
    assert delay["GSP"] < 0.03, delay


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GSP(threshold=0.0), "threshold must be > 0 s, got 0"),
        (lambda: GSP(interval="-1 ms"), "interval must be > 0 s, got '-1 ms'"),
        (lambda: GSP(adaptive=1), "adaptive must be one of True, False, got 1"),
        (lambda: GSP(alpha=0.0), "alpha must be > 0, got 0"),
        (lambda: GSP(tau=0.0), "tau must be > 0 s, got 0"),
        (lambda: GSP(max_time=-1.0), "max_time must be >= 0 s, got -1"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
