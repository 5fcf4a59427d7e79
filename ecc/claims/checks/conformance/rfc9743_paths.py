"""Cases on the networks in which RFC 9743 wants a controller evaluated (secs. 6 and 7), for window-based protocols.

RFC 9743 has no numbers; the limits in this module are ours, and each measurement states its limit.
"""

from __future__ import annotations

from itertools import product

from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, Trace, case
from ecc.claims.checks.conformance.paths import CAPACITY, RTT, path
from ecc.claims.checks.conformance.rfc9743 import goodputs, lost_share
from ecc.models import CUBIC
from ecc.network.impairments import CapacitySchedule, DelaySchedule, Impairment, Jitter, RandomLoss
from ecc.network.network import Network
from ecc.queues.codel import CoDel
from ecc.queues.dual_pi2 import DualPI2
from ecc.queues.fq_codel import FQCoDel
from ecc.queues.pie import PIE

RATES, RTTS, BUFFERS = (1e6, 10e6, 100e6), (0.01, 0.1), (0.5, 2.0)
"""Capacities [bit/s], RTTs [s] and buffers [bandwidth-delay products] that the range of paths consists of."""
DISCIPLINES = (CoDel(), PIE(), FQCoDel(), DualPI2())


def used(trace: Trace, begin: float, capacity: float = CAPACITY) -> float:
    """Return the goodput of all flows after a time over the capacity.

    Parameters
    ----------
    trace : Trace
    begin : float, s
    capacity : float, bit/s, optional
    """
    return float(goodputs(trace, begin).sum()) / capacity


@case("rfc9743-range", "windows", cost=2)
def paths(lab: Laboratory) -> str:
    lowest = 1.0
    for capacity, rtt, buffer in product(RATES, RTTS, BUFFERS):
        trace = lab.run(path(capacity, rtt, buffer), 40.0, sample=0.02)
        share = used(trace, 20.0, capacity)
        where = f"{capacity / 1e6:g} Mb/s, {1e3 * rtt:g} ms, buffer of {buffer:g} BDP"
        lab.expect(f"goodput over the capacity, 20 to 40 s: {where}", share, at_least=0.7)
        lowest = min(lowest, share)
    lab.draw(trace, "The largest path", "100 Mb/s, 100 ms, a buffer of two bandwidth-delay products.", rates=())
    return f"On {len(RATES) * len(RTTS) * len(BUFFERS)} paths it uses {lowest:.0%} of the capacity or more"


@case("rfc9743-wireless", "windows", cost=0.2)
def wireless(lab: Laboratory) -> str:
    times = [float(k) for k in range(1, 40)]
    varying: list[Impairment] = [
        RandomLoss(0.001, link=0),
        Jitter((0.0, 0.01), link=0),
        CapacitySchedule(0, times, [CAPACITY / 2.0 if k % 2 else CAPACITY for k in range(1, 40)]),
    ]
    network = path(buffer=1.0)
    trace = lab.run(network, 40.0, impairments=varying, sample=0.01)
    standard = Laboratory(CUBIC(transport="sack")).run(network, 40.0, impairments=varying, sample=0.01)
    ratio = used(trace, 10.0) / used(standard, 10.0)
    lab.expect("goodput over CUBIC's on the same path", ratio, at_least=0.8)
    lab.draw(trace, "A wireless path", "0.1 % random loss, 10 ms jitter, and 20 and 10 Mb/s in turn.", rates=())
    return f"With random losses, jitter and a capacity that varies it has {ratio:.2f} of CUBIC's goodput"


@case("rfc9743-aqm", "windows", cost=0.4)
def disciplines(lab: Laboratory) -> str:
    delays = []
    for discipline in DISCIPLINES:
        name = type(discipline).__name__
        trace = lab.run(path(buffer=10.0, flows=4), 30.0, links={0: discipline}, sample=0.01)
        late = trace.time > 10.0
        delay = 8e3 * float(trace.run.data["queue"].to_numpy()[late, 0].mean()) / CAPACITY
        lab.expect(f"{name}: goodput of four flows over the capacity", used(trace, 10.0), at_least=0.85)
        lab.expect(f"{name}: mean queueing delay", delay, at_most=30.0, unit="ms", note="twice the largest target")
        delays.append(f"{delay:.1f} ms with {name}")
    lab.draw(trace, "DualPI2", "The first of four flows.", rates=())
    return f"The mean queueing delay is {', '.join(delays)}"


@case("rfc9743-delay", "windows", cost=0.2)
def delay(lab: Laboratory) -> str:
    longer, back = 15.0, 35.0
    steps = [DelaySchedule(0, [longer, back], [RTT / 2.0 + 0.1, RTT / 2.0])]
    trace = lab.run(path(buffer=1.0), 55.0, impairments=steps, sample=0.01)
    high = trace.mean(trace.goodput, longer + 5.0, back) / CAPACITY
    low = trace.mean(trace.goodput, back + 5.0) / CAPACITY
    lab.expect("goodput over the capacity, 5 to 20 s after the RTT grows from 50 to 150 ms", high, at_least=0.7)
    lab.expect("goodput over the capacity, 5 to 20 s after it is 50 ms again", low, at_least=0.7)
    lab.draw(trace, "A delay that changes", "From 50 to 150 ms and back, at the lines.", rates=(), marks=[longer, back])
    return f"After the RTT grows from 50 to 150 ms it uses {high:.0%} of the capacity, and {low:.0%} after its return"


@case("rfc9743-slow", "windows", cost=0.1)
def slow_link(lab: Laboratory) -> str:
    capacity, rtt = 50e3, 0.5
    network = Network.dumbbell(capacity, rtts=[rtt], buffer=4 * PACKET, packet_size=PACKET)
    trace = lab.run(network, 120.0, sample=0.05)
    share, lost = used(trace, 30.0, capacity), lost_share(trace, 30.0)
    lab.expect("goodput over the capacity of 50 kb/s", share, at_least=0.8)
    lab.expect("share of packets that are dropped", lost, at_most=0.25, note="a packet takes 0.24 s, the buffer has 4")
    lab.draw(trace, "A slow link", "50 kb/s, 500 ms, a buffer of four packets.", rates=())
    return f"It uses {share:.0%} of 50 kb/s and loses {lost:.1%}"


@case("rfc9743-high-delay", "windows", cost=0.2)
def high_delay(lab: Laboratory) -> str:
    trace = lab.run(path(rtt=0.6, buffer=0.5), 90.0, sample=0.02)
    share = used(trace, 30.0)
    lab.expect("goodput over the capacity, 30 to 90 s, with 600 ms", share, at_least=0.7)
    lab.draw(trace, "A satellite path", "20 Mb/s, 600 ms, half a bandwidth-delay product of buffer.", rates=())
    return f"With an RTT of 600 ms it uses {share:.0%} of the capacity"


@case("rfc9743-reordering", "windows", cost=0.2)
def reordering(lab: Laboratory) -> str:
    reordered = [Jitter((0.0, 0.02), link=0, in_order=False)]
    trace = lab.run(path(buffer=2.0), 30.0, impairments=reordered, sample=0.01)
    share = used(trace, 10.0)
    lab.expect("goodput over the capacity", share, at_least=0.5, note="packets are delayed by 0 to 20 ms each")
    lab.draw(trace, "Reordering", "Each packet is delayed by 0 to 20 ms, and may overtake others.", rates=())
    return f"With packets that overtake each other by up to 20 ms it uses {share:.0%} of the capacity"


@case("rfc9743-outage", "windows", cost=0.1)
def outage(lab: Laboratory) -> str:
    begin, end = 10.0, 13.0
    trace = lab.run(
        path(buffer=1.0), 30.0, impairments=[CapacitySchedule(0, [begin, end], [0.0, CAPACITY])], sample=0.01
    )
    share = trace.mean(trace.goodput, end + 5.0, end + 15.0) / CAPACITY
    lab.expect("goodput over the capacity, 5 to 15 s after an outage of 3 s", share, at_least=0.85)
    lab.draw(trace, "An outage", "The link serves nothing between the lines.", marks=[begin, end])
    return f"5 s after an outage of 3 s it uses {share:.0%} of the capacity"
