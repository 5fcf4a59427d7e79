"""Cases on the begin and end of BBR's states (draft-ietf-ccwg-bbr, BBR Example Test Cases).

If a case applies to version 1, its numbers for version 1 are those of Linux (`ecc.models.bbr1`).
"""

from __future__ import annotations

import numpy as np

from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, Trace, case
from ecc.claims.checks.conformance.paths import CAPACITY, RTT, LossesBetween, bdp, path
from ecc.network.impairments import CapacitySchedule

MARGIN = 0.99
"""Share of the bandwidth used by pacing; the pacing margin is 1 %."""
MODEL = ("state", "max_bw", "min_rtt", "round_count", "cycle_index")
FULL = ("full_bw", "full_bw_count", "full_bw_now", "full_bw_reached")
BOUNDS = ("inflight_longterm", "inflight_shortterm", "bw_shortterm")
DEEP = 4.0
"""Buffer, in bandwidth-delay products, in which a single BBR flow has no losses."""


def is_version_3(lab: Laboratory) -> bool:
    """Return whether the protocol has the bounds of version 3, which version 1 lacks.

    Parameters
    ----------
    lab : Laboratory
    """
    return lab.has("inflight_longterm")


def gain(trace: Trace, a: int, b: int) -> float:
    """Return the pacing gain of a stay: the median pacing rate over the modeled bandwidth, corrected for the margin.

    Parameters
    ----------
    trace : Trace
    a, b : int
        First sample of the stay, and first sample after it.
    """
    bw = np.minimum(trace["max_bw"], trace["bw_shortterm"]) if "bw_shortterm" in trace else trace["max_bw"]
    return float(np.median(trace["rate"][a:b] / np.maximum(bw[a:b], 1.0))) / MARGIN


def packets_above(trace: Trace, k: int, headroom: float = 0.0) -> float:
    """Return the packets in flight above the model's bandwidth-delay product, or above a lower bound.

    Parameters
    ----------
    trace : Trace
    k : int
        Index of the sample.
    headroom : float, optional
        Share of `inflight_longterm` that is left free.
    """
    target = trace["max_bw"][k] * trace["min_rtt"][k] / 8.0
    if headroom:
        target = min(target, (1.0 - headroom) * trace["inflight_longterm"][k])
    return float(trace["in_flight"][k] - target) / PACKET


@case("bbr-startup-plateau", "state", "max_bw", "full_bw", "full_bw_reached", "round_count")
def startup_plateau(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=DEEP), 3.0, *MODEL, *FULL)
    a, b, following = trace.span("Startup")
    bw = float(trace["max_bw"][b])
    changes = np.flatnonzero(np.diff(trace["full_bw"][a:b])) + a + 1
    grown = int(trace["round_count"][changes[-1]]) if len(changes) else 0
    lab.expect("pacing gain of Startup", gain(trace, trace.at(3 * RTT), b), near=2.77 if is_version_3(lab) else 2.89)
    lab.expect("max_bw at the end of Startup over the capacity", bw / CAPACITY, near=1.0)
    lab.expect("rounds since the rate last grew by a quarter", trace["round_count"][b] - grown, near=3, within=0)
    lab.expect_that("full_bw_reached before", bool(trace["full_bw_reached"][b - 1] > 0), False)
    lab.expect_that("full_bw_reached then", bool(trace["full_bw_reached"][b] > 0))
    if lab.has("full_bw_now"):
        lab.expect_that("full_bw_now then", bool(trace["full_bw_now"][b] > 0))
    lab.expect("packets dropped", trace.drops[:b].sum(), at_most=0, note="the plateau ends Startup, not a loss")
    lab.expect_that("state that follows", following, "Drain")
    lab.draw(
        trace,
        "Startup",
        "Pacing rate, bandwidth estimate and bytes in flight; Startup ends at the line.",
        marks=[trace.time[b]],
        span=(0.0, trace.time[b] + 0.4),
    )
    return f"Startup ends after {trace.time[b]:.2f} s, three rounds without growth, with max_bw = {bw / 1e6:.2f} Mb/s"


@case("bbr-drain-inflight", "state", "max_bw", "min_rtt", "round_count")
def drain_inflight(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=DEEP), 3.0, *MODEL)
    a, b, following = trace.span("Drain")
    version_3 = is_version_3(lab)
    lab.expect("pacing gain of Drain", gain(trace, a + 1, b), near=0.5 if version_3 else 88 / 256)
    lab.expect(
        "in flight above the bandwidth-delay product before the end",
        packets_above(trace, b - 1),
        at_least=0.0,
        unit="packets",
    )
    lab.expect(
        "in flight above the bandwidth-delay product at the end",
        packets_above(trace, b),
        at_least=-4.0,
        at_most=3.0 if version_3 else 10.0,
        unit="packets",
        note="" if version_3 else "version 1 adds room for offload",
    )
    lab.expect("rounds in Drain", trace["round_count"][b] - trace["round_count"][a], at_most=3)
    lab.expect_that("state that follows", following[:7], "ProbeBW")
    lab.draw(
        trace,
        "Drain",
        "It ends when the bytes in flight are down to the bandwidth-delay product, 125 kB.",
        marks=[trace.time[a], trace.time[b]],
        span=(trace.time[a] - 0.2, trace.time[b] + 0.3),
    )
    return f"Drain ends after {1e3 * (trace.time[b] - trace.time[a]):.0f} ms, when the queue is empty"


@case("bbr-drain-time", "state", "max_bw", "min_rtt", "round_count", "drain_start_round", cost=2)
def drain_time(lab: Laboratory) -> str:
    plain = lab.run(path(buffer=DEEP), 3.0, *MODEL)
    begin = float(plain.time[plain.span("Drain")[0]])
    results = {}
    for share in (0.9, 0.4):
        less = [CapacitySchedule(0, [begin], [share * CAPACITY])]
        trace = lab.run(path(buffer=DEEP), 5.0, *MODEL, "drain_start_round", impairments=less)
        a, b, following = trace.span("Drain")
        rounds = float(trace["round_count"][b] - trace["drain_start_round"][b])
        results[share] = rounds, packets_above(trace, b), float(trace.time[b] - trace.time[a])
    lab.expect("rounds in Drain, 60 % less bandwidth", results[0.4][0], at_least=3, at_most=4)
    lab.expect("in flight then above the bandwidth-delay product", results[0.4][1], at_least=1.0, unit="packets")
    lab.expect_that("state that follows", following[:7], "ProbeBW")
    rounds, above, took = results[0.9]
    lab.expect("rounds in Drain, 10 % less bandwidth", rounds, at_most=4, note=f"{above:.1f} packets above")
    lab.draw(
        trace,
        "Drain that cannot drain",
        "The capacity falls to 40 % when Drain begins.",
        marks=[begin, trace.time[b]],
        span=(begin - 0.3, trace.time[b] + 0.3),
    )
    if rounds < 3:
        lab.conditions.append(
            f"With the case's decrease by 10 %, Drain ends earlier than expected: pacing at half the bandwidth empties "
            f"the queue within {rounds:.0f} rounds, {1e3 * took:.0f} ms. The bandwidth must fall to less than half."
        )
    return f"With 60 % less bandwidth Drain ends after {results[0.4][0]:.0f} rounds, with a remaining queue."


@case("bbr-up-plateau", "state", "max_bw", "full_bw", "full_bw_now", "round_count", "inflight_longterm", cost=2)
def up_plateau(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=DEEP), 6.0, *MODEL, *FULL, *BOUNDS)
    a, b, following = trace.span("ProbeBW_UP")
    lab.expect("pacing gain of UP", gain(trace, a + 1, b), near=1.25)
    lab.expect(
        "maximum in flight over the bandwidth-delay product",
        trace["in_flight"][a:b].max() / bdp(),
        at_least=1.5,
        note="the window is used",
    )
    changes = np.flatnonzero(np.diff(trace["full_bw"][a - 1 : b])) + a
    since = int(changes[-1]) if len(changes) else a
    lab.expect(
        "rounds since the rate last grew by a quarter",
        trace["round_count"][b] - trace["round_count"][since],
        near=3,
        within=0,
    )
    lab.expect_that("full_bw_now", bool(trace["full_bw_now"][b] > 0))
    lab.expect("packets dropped", trace.drops[:b].sum(), at_most=0)
    lab.expect_that("state that follows", following, "ProbeBW_DOWN")
    lab.draw(
        trace,
        "ProbeBW_UP",
        "UP and the next state, with a buffer of four bandwidth-delay products.",
        marks=[trace.time[a], trace.time[b]],
        span=(trace.time[a] - 0.2, trace.time[b] + 0.5),
    )
    return f"UP ends after {1e3 * (trace.time[b] - trace.time[a]):.0f} ms, three rounds without growth"


@case("bbr-down-inflight", "state", "max_bw", "min_rtt", "inflight_longterm", cost=2)
def down_inflight(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=DEEP), 7.0, *MODEL, *BOUNDS)
    up = trace.span("ProbeBW_UP")
    a, b, following = trace.span("ProbeBW_DOWN", after=float(trace.time[up[0]]))
    lab.expect("pacing gain of DOWN", gain(trace, a + 1, b), near=0.9)
    lab.expect(
        "in flight above its bounds before the end", packets_above(trace, b - 1, 0.15), at_least=0.0, unit="packets"
    )
    lab.expect(
        "in flight above its bounds at the end",
        packets_above(trace, b, 0.15),
        at_least=-4.0,
        at_most=2.0,
        unit="packets",
    )
    lab.expect_that("state that follows", following, "ProbeBW_CRUISE")
    lab.draw(
        trace,
        "ProbeBW_DOWN",
        "DOWN ends when the bytes in flight are down to the bandwidth-delay product.",
        marks=[trace.time[a], trace.time[b]],
        span=(trace.time[a] - 0.3, trace.time[b] + 0.3),
    )
    shallow = lab.run(path(buffer=0.5), 12.0, *MODEL, *BOUNDS)
    bound = shallow["inflight_longterm"]
    bounded = (shallow.states == "ProbeBW_CRUISE") & (bound < 1e290)
    if bounded.any():
        share = float((shallow["window"][bounded] / np.maximum(bound[bounded], 4.0 * PACKET / 0.85)).max())
        lab.expect(
            "maximum window in CRUISE over inflight_longterm",
            share,
            at_most=0.86,
            note="a buffer of half a bandwidth-delay product; headroom 15 %",
        )
    else:
        lab.expect_that("losses set inflight_longterm", False)
    return f"DOWN ends after {1e3 * (trace.time[b] - trace.time[a]):.0f} ms, when the queue is empty"


@case("bbr-down-time", "state", "max_bw", "min_rtt", "cycle_stamp", "bw_probe_wait", "rounds_since_probe_up", cost=2)
def down_time(lab: Laboratory) -> str:
    rtt = 0.02
    plain = lab.run(path(rtt=rtt, buffer=DEEP), 5.0, *MODEL)
    up = plain.span("ProbeBW_UP")
    begin = float(plain.time[plain.span("ProbeBW_DOWN", after=float(plain.time[up[0]]))[0]])
    less = [CapacitySchedule(0, [begin], [0.9 * CAPACITY])]
    wait = ("cycle_stamp", "bw_probe_wait", "rounds_since_probe_up")
    trace = lab.run(path(rtt=rtt, buffer=DEEP), 7.0, *MODEL, *wait, impairments=less)
    a, b, following = trace.span("ProbeBW_DOWN", after=begin - 0.002)
    lab.expect(
        "minimum in flight in DOWN above the bandwidth-delay product",
        min(packets_above(trace, k) for k in range(a, b)),
        at_least=0.0,
        unit="packets",
    )
    rounds = min(bdp(CAPACITY, rtt) / PACKET, 63.0)
    waited = float(trace.time[b] - trace["cycle_stamp"][b - 1])
    by_time = waited >= trace["bw_probe_wait"][b - 1] - 0.002
    by_rounds = trace["rounds_since_probe_up"][b] >= np.floor(rounds)
    lab.expect_that("the waiting time or Reno's number of rounds has passed", bool(by_time or by_rounds))
    lab.expect("bw_probe_wait", trace["bw_probe_wait"][b - 1], at_least=2.0, at_most=3.0, unit="s")
    lab.expect("time in DOWN", waited, at_most=3.0 + 2.0 * rtt, unit="s")
    lab.expect_that("state that follows", following, "ProbeBW_REFILL")
    lab.draw(
        trace,
        "DOWN that cannot drain",
        "The capacity falls by 10 % when DOWN begins.",
        marks=[begin, trace.time[b]],
        span=(begin - 0.3, trace.time[b] + 0.3),
    )
    duration = f"{trace['rounds_since_probe_up'][b]:.0f} rounds" if by_rounds else f"{waited:.2f} s"
    return f"DOWN ends in REFILL after {duration}, with a remaining queue"


@case("bbr-probe-rtt", "state", "max_bw", "min_rtt", "round_count", cost=2)
def probe_rtt(lab: Laboratory) -> str:
    version_3 = is_version_3(lab)
    interval, stamp = (5.0, "probe_rtt_min_stamp") if version_3 else (10.0, "min_rtt_stamp")
    trace = lab.run(path(buffer=DEEP), 2.0 * interval + 3.0, *MODEL, stamp)
    a, b, following = trace.span("ProbeRTT")
    since = float(trace.time[a] - trace[stamp][a - 1]) if stamp in trace else float(trace.time[a]) - 2.0 * RTT
    lab.expect("time without a lower RTT before ProbeRTT", since, near=interval, within=0.1, unit="s")
    low = trace["window"][a + 1 : b].min()
    half = 0.5 * trace["max_bw"][a] * trace["min_rtt"][a] / 8.0
    lab.expect(
        "window in ProbeRTT",
        low / PACKET,
        near=(half / PACKET if version_3 else 4.0),
        within=2.0,
        unit="packets",
        note="half a bandwidth-delay product" if version_3 else "4 packets",
    )
    small = np.flatnonzero(trace["in_flight"][a:b] <= low + 1.0)
    reached = a + int(small[0]) if len(small) else a
    held = float(trace.time[b] - trace.time[reached])
    lab.expect("time with this little in flight", held, at_least=0.2 - 0.002, at_most=0.2 + 2.5 * RTT, unit="s")
    lab.expect("rounds in this time", trace["round_count"][b] - trace["round_count"][reached], at_least=1)
    lab.expect_that("state that follows", following[:7], "ProbeBW")
    lab.expect(
        "window just after over window before",
        trace["window"][b + 1] / trace["window"][a - 1],
        at_least=0.9,
        note="it is restored",
    )
    after = trace.at(float(trace.time[b]) + 3.0 * RTT)
    lab.expect(
        "window three RTTs later over window before", trace["window"][after] / trace["window"][a - 1], at_least=0.9
    )
    lab.expect(
        "min_rtt then", 1e3 * trace["min_rtt"][b], near=1e3 * (RTT + 8.0 * PACKET / CAPACITY), band=0.01, unit="ms"
    )
    again = trace.time[trace.span("ProbeRTT", after=float(trace.time[b]))[0]] if version_3 else None
    if again is not None:
        lab.expect("time until the next ProbeRTT", float(again - trace.time[b]), near=interval, within=0.15, unit="s")
    lab.draw(
        trace,
        "ProbeRTT",
        "ProbeRTT, and the window after it.",
        marks=[trace.time[a], trace.time[b]],
        span=(trace.time[a] - 0.3, trace.time[b] + 0.4),
    )
    return (
        f"ProbeRTT begins {since:.2f} s after the last lower RTT and holds {low / PACKET:.0f} packets for {held:.2f} s"
    )


@case("bbr-probe-rtt-startup", "state", "max_bw", "full_bw_reached", cost=2)
def probe_rtt_startup(lab: Laboratory) -> str:
    rtt = 1.0 if is_version_3(lab) else 2.0
    slower = [CapacitySchedule(0, [0.5 * rtt], [0.5 * CAPACITY])]  # every later packet is slower than the first
    trace = lab.run(path(rtt=rtt, buffer=2.0), 16.0 * rtt, *MODEL, *FULL, impairments=slower, sample=0.005)
    a, b, following = trace.span("ProbeRTT")
    lab.expect_that("full_bw_reached at the begin of ProbeRTT", bool(trace["full_bw_reached"][a] > 0), False)
    lab.expect_that("state before", str(trace.states[a - 1]), "Startup")
    lab.expect_that("state that follows", following, "Startup")
    best = float(trace["max_bw"][b:].max() / trace["max_bw"][b])
    lab.expect("maximum max_bw later over max_bw then", best, at_least=2.0, note="the search for bandwidth continues")
    lab.draw(
        trace,
        "ProbeRTT in Startup",
        f"RTT {rtt:g} s: Startup lasts longer than the interval of ProbeRTT.",
        marks=[trace.time[a], trace.time[b]],
    )
    return f"At an RTT of {rtt:g} s ProbeRTT begins in Startup, at {trace.time[a]:.1f} s, and ends in Startup"


@case("bbr-up-loss-longterm", "state", "max_bw", "min_rtt", "inflight_longterm", cost=3)
def up_loss_longterm(lab: Laboratory) -> str:
    deep, every, length = path(buffer=DEEP), 8.0, 1.0 * RTT
    plain = lab.run(deep, 6.0, *MODEL, *BOUNDS)
    first = float(plain.time[plain.span("ProbeBW_UP")[0]]) + 0.5 * RTT
    lossy = LossesBetween(begin=first, end=first + length, every=every)
    once = lab.run(deep, 16.0, *MODEL, *BOUNDS, links={0: lossy})
    second = float(once.time[once.span("ProbeBW_UP", after=first + 4.0 * RTT)[0]]) + 0.5 * RTT
    lossy = LossesBetween(begin=first, end=first + length, again=second, until=second + length, every=every)
    trace = lab.run(deep, second + 3.0, *MODEL, *BOUNDS, links={0: lossy})
    a, b, following = trace.span("ProbeBW_UP", after=second - RTT)
    before, after = float(trace["inflight_longterm"][a]), float(trace["inflight_longterm"][b])
    lab.expect("inflight_longterm before the losses", before / bdp(), at_most=4.0, unit="BDP", note="losses set it")
    lab.expect("time from the first loss to the end of UP", float(trace.time[b]) - second, at_most=1.6 * RTT, unit="s")
    floor = 0.7 * min(trace["max_bw"][b] * trace["min_rtt"][b] / 8.0, trace["window"][b - 1])
    lab.expect(
        "inflight_longterm then over its lower limit",
        after / floor,
        at_least=0.98,
        note="0.7 of the minimum of bandwidth-delay product and window",
    )
    peak = float(trace["in_flight"][a:b].max())
    lab.expect(
        "inflight_longterm then over the maximum in flight",
        after / peak,
        at_most=1.02,
        note="below the level at which losses began",
    )
    lab.expect_that("state that follows", following, "ProbeBW_DOWN")
    lab.draw(
        trace,
        "Losses in UP",
        f"One packet in {every:g} is lost for an RTT after the first line.",
        volumes=("in_flight", "window", "inflight_longterm"),
        marks=[second, trace.time[b]],
        span=(trace.time[a] - 0.2, trace.time[b] + 0.5),
    )
    return (
        f"UP ends {1e3 * (trace.time[b] - second):.0f} ms after the first loss; inflight_longterm changes from "
        f"{before / 1e3:.0f} to {after / 1e3:.0f} kB"
    )
