"""Cases on BBR's model of the path: bandwidth, RTT, aggregation, policers (draft-ietf-ccwg-bbr)."""

from __future__ import annotations

from math import log

import numpy as np

from ecc.claims.checks.conformance.bbr_states import BOUNDS, DEEP, MODEL, gain, is_version_3
from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, NotReached, Trace, case
from ecc.claims.checks.conformance.paths import CAPACITY, RTT, LossesBetween, bdp, path
from ecc.claims.ledger import Measurement
from ecc.network.impairments import Aggregation, CapacitySchedule, Jitter
from ecc.network.network import Network
from ecc.queues import Policer

SHORTEST, LONGEST, FRAMES = 0.005, 0.02, 64
"""Bursts of ACKs as over Wi-Fi: range of waits for the channel [s], and maximum number of A-MPDUs in a burst
(64 in the block ACKs of IEEE 802.11n)."""
BURSTS = Aggregation((SHORTEST, LONGEST), acks_of=[0], max_packets=FRAMES)
COLLECTED = LONGEST * CAPACITY / 8.0
"""Bytes delivered during the longest wait: the largest burst."""
CAPTION = f"ACKs come in bursts of up to {FRAMES}, {1e3 * SHORTEST:g} to {1e3 * LONGEST:g} ms apart."
MAX_LOSS = 0.2
"""Maximum loss share behind a policer; above it, version 1 of Linux infers that its traffic is policed."""


@case("bbr-aggregation-startup", "state", "max_bw", "min_rtt", "extra_acked", cost=2)
def aggregation_startup(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=8.0), 4.0, *MODEL, "extra_acked", impairments=[BURSTS])
    a, b, following = trace.span("Startup")
    product = float(trace["max_bw"][b] * trace["min_rtt"][b] / 8.0)
    lab.expect(
        "extra_acked at the end of Startup over the largest burst",
        trace["extra_acked"][b] / COLLECTED,
        at_least=0.5,
        at_most=2.0,
    )
    window = float(trace["window"][a:b].max())
    lab.expect(
        "largest window, over the bandwidth-delay product", window / product, at_least=2.0 if is_version_3(lab) else 1.8
    )
    lab.expect(
        "max_bw then, over the capacity",
        trace["max_bw"][b] / CAPACITY,
        at_least=0.98,
        at_most=1.0 + LONGEST / RTT,
        note="a sample over an RTT may contain one burst more",
    )
    doubling = np.log2(max(trace["rate"][b - 1], 1.0) / trace["rate"][trace.at(0.5 * RTT + 0.1)])
    lab.expect("doublings of the pacing rate in Startup", float(doubling), at_least=1.0)
    lab.expect_that("state that follows", following, "Drain")
    lab.draw(
        trace,
        "Startup under ACK aggregation",
        CAPTION,
        volumes=("in_flight", "window", "extra_acked"),
        marks=[trace.time[b]],
        span=(0.0, trace.time[b] + 0.5),
    )
    return (
        f"Startup ends with max_bw = {trace['max_bw'][b] / 1e6:.1f} Mb/s and {trace['extra_acked'][b] / 1e3:.0f} kB "
        f"of extra_acked"
    )


@case("bbr-aggregation-cruise", "state", "max_bw", "min_rtt", "extra_acked", cost=2)
def aggregation_cruise(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=8.0), 8.0, *MODEL, "extra_acked", impairments=[BURSTS])
    a, b, _ = trace.span("ProbeBW_CRUISE")
    begin = float(trace.time[a]) + 4.0 * RTT
    inside = (trace.states == "ProbeBW_CRUISE") & (trace.time > begin)
    product = trace["max_bw"][inside] * trace["min_rtt"][inside] / 8.0
    lab.expect(
        "median extra_acked over the largest burst",
        float(np.median(trace["extra_acked"][inside])) / COLLECTED,
        at_least=0.5,
        at_most=2.0,
    )
    over = np.median((trace["window"][inside] - 2.0 * product) / np.maximum(trace["extra_acked"][inside], 1.0))
    lab.expect(
        "window above two bandwidth-delay products, over extra_acked",
        float(over),
        at_least=0.9,
        note="the window is augmented by it",
    )
    used = float(trace.goodput[inside].mean()) / CAPACITY
    lab.expect("goodput over the capacity", used, at_least=0.95)
    lab.draw(
        trace,
        "CRUISE under ACK aggregation",
        CAPTION,
        volumes=("in_flight", "window", "extra_acked"),
        span=(trace.time[a] - 0.1, min(trace.time[a] + 1.5, trace.time[b])),
    )
    return f"CRUISE uses {used:.1%} of the capacity with a window that has room for bursts of {COLLECTED / 1e3:.0f} kB"


@case("bbr-small-bdp", "state", "max_bw", cost=1)
def small_bdp(lab: Laboratory) -> str:
    capacity = 100e3
    network = Network.dumbbell(capacity, rtts=[RTT], buffer=40 * PACKET, packet_size=PACKET)
    trace = lab.run(network, 60.0, *MODEL, *BOUNDS, sample=0.01)
    if not any(name.startswith("ProbeBW") for name, *_ in trace.spans):
        raise NotReached("ProbeBW does not begin within 60 s")
    begin = next(float(trace.time[a]) for name, a, _ in trace.spans if name.startswith("ProbeBW"))
    late = trace.time > begin
    lab.expect("bandwidth-delay product", bdp(capacity) / PACKET, at_most=1.0, unit="packets")
    lab.expect("minimum window in ProbeBW", trace["window"][late].min() / PACKET, at_least=4.0, unit="packets")
    cruise = np.array([name == "ProbeBW_CRUISE" for name in trace.states]) & late
    rate = float(np.median(trace["rate"][cruise])) if cruise.any() else 0.0
    lab.expect("pacing rate in CRUISE over the capacity", rate / capacity, near=0.99, band=0.03)
    used = trace.mean(trace.goodput, begin) / capacity
    lab.expect("goodput over the capacity", used, at_least=0.95)
    lab.expect("packets dropped", trace.drops[late].sum(), at_most=0)
    lab.draw(
        trace,
        "Bandwidth-delay product below one packet",
        f"{capacity / 1e3:g} kb/s, RTT {1e3 * RTT:g} ms: 0.4 packets.",
    )
    return f"The window stays at 4 packets or more, and goodput is {used:.1%} of 100 kb/s"


@case("bbr-bandwidth-up", "state", "max_bw", "round_count", cost=3)
def bandwidth_up(lab: Laboratory) -> str:
    low, high = 10e6, 100e6
    plain = lab.run(path(low, buffer=0.8), 12.0, *MODEL, *BOUNDS)
    after = next((float(plain.time[a]) for name, a, _ in plain.spans if name == "ProbeBW_CRUISE" and a > 3000), 3.0)
    change = after + 0.01
    more = [CapacitySchedule(0, [change], [high])]
    trace = lab.run(path(low, buffer=0.8), change + 8.0, *MODEL, *BOUNDS, "bw_probe_up_rounds", impairments=more)
    reached = np.flatnonzero((trace["max_bw"] >= 0.98 * high) & (trace.time > change))
    if not len(reached):
        best = float(trace["max_bw"].max())
        lab.expect("largest max_bw in 8 s", best / 1e6, at_least=0.98 * high / 1e6, unit="Mb/s")
        return ""
    k = int(reached[0])
    if is_version_3(lab):
        a = max(i for name, i, _ in trace.spans if name == "ProbeBW_UP" and i <= k)
        grown = np.diff(trace["round_count"][[a, k]])[0]
        steps = _steps(trace, a, k)
        ratios = [late / early for early, late in zip(steps, steps[1:], strict=False)]
        lab.expect(
            "growth of inflight_longterm over that in the preceding round, median of the first rounds",
            float(np.median(ratios)) if ratios else 0.0,
            near=2.0,
            within=0.3,
            note=f"packets: {', '.join(f'{step:.0f}' for step in steps)}",
        )
        min_rounds = log(high / low) / log(1.25)
        lab.expect(
            "rounds since the beginning of UP",
            grown,
            at_most=3.0 * min_rounds,
            note=f"at a gain of 1.25, the minimum is {min_rounds:.0f}",
        )
        lab.expect(
            "largest inflight_longterm over the new bandwidth-delay product",
            min(float(trace["inflight_longterm"][k:].max()) / bdp(high), 99.0),
            at_least=1.0,
        )
    else:
        rounds = float(trace["round_count"][k] - trace["round_count"][trace.at(change)])
        cycles = log(high / low) / log(1.25)
        lab.expect("rounds since the change", rounds, at_most=8.0 * (cycles + 2.0), note="8 rounds a cycle of 5/4")
    took = float(trace.time[k]) - change
    lab.expect("time until max_bw equals the new bandwidth", took, at_most=8.0, unit="s")
    lab.draw(
        trace,
        "Ten times the bandwidth",
        "From 10 to 100 Mb/s at the first line; max_bw follows at the second.",
        volumes=("in_flight", "window", "inflight_longterm"),
        marks=[change, float(trace.time[k])],
    )
    return f"max_bw reaches the new bandwidth {took:.1f} s after the change"


def _steps(trace: Trace, a: int, b: int) -> list[float]:
    """Return the growth of inflight_longterm [packets] in the first six consecutive rounds with growth from a to b."""
    rounds, bound = trace["round_count"], trace["inflight_longterm"]
    steps: list[float] = []
    for count in range(int(rounds[a]), int(rounds[b])):
        first = int(np.searchsorted(rounds, count))
        step = float(bound[int(np.searchsorted(rounds, count + 1))] - bound[first]) / PACKET
        if step < 0.5 and steps:
            break
        steps += [step] if step >= 0.5 else []
    return steps[:6]


@case("bbr-bandwidth-down", "state", "max_bw", "round_count", cost=3)
def bandwidth_down(lab: Laboratory) -> str:
    high, low = 100e6, 10e6
    plain = lab.run(path(high, buffer=1.0), 9.0, *MODEL, *BOUNDS)
    after = next((float(plain.time[a]) for name, a, _ in plain.spans if name == "ProbeBW_CRUISE" and a > 3000), 3.0)
    change = after + 0.01
    less = [CapacitySchedule(0, [change], [low])]
    trace = lab.run(path(high, buffer=1.0), change + 16.0, *MODEL, *BOUNDS, "cycle_count", impairments=less)
    later = trace.time > change
    if is_version_3(lab):
        min_bw = float(trace["bw_shortterm"][later & (trace.time < change + 3.0)].min())
        lab.expect("minimum bw_shortterm within 3 s of the change over the old bandwidth", min_bw / high, at_most=0.7)
    down = np.flatnonzero(later & (trace["max_bw"] <= 1.1 * low))
    seconds = float(trace.time[down[0]]) - change if len(down) else 16.0
    if is_version_3(lab):
        begun = [a for name, a, _ in trace.spans if name == "ProbeBW_UP" and change < trace.time[a] < change + seconds]
        lab.expect(
            "cycles with a probe until max_bw <= 1.1 times the new bandwidth",
            len(begun),
            at_most=3,
            note="the cycle of the change is incomplete",
        )
    else:
        rounds = trace["round_count"][trace.at(change + seconds)] - trace["round_count"][trace.at(change)]
        lab.expect(
            "rounds until max_bw <= 1.1 times the new bandwidth",
            rounds,
            at_most=14.0,
            note="10 of the filter, and those with ACKs at the old bandwidth",
        )
    lab.expect("time until then", seconds, at_most=15.0, unit="s")
    used = trace.mean(trace.goodput, change + 8.0) / low
    lab.expect("goodput over the new bandwidth, 8 s later", used, at_least=0.8)
    lab.draw(
        trace,
        "A tenth of the bandwidth",
        "From 100 to 10 Mb/s at the line, with a buffer of 0.625 MB.",
        rates=("rate", "max_bw", "bw_shortterm"),
        marks=[change],
        span=(change - 1.0, change + 12.0),
    )
    if is_version_3(lab):
        _in_a_deep_buffer(lab)
    return f"max_bw reaches the new bandwidth {seconds:.1f} s after the change."


def _in_a_deep_buffer(lab: Laboratory) -> None:
    """Repeat the case with a queue that takes seconds to drain, so that ProbeRTT ends every cycle."""
    high, change = 4e6, 3.0
    network = Network.dumbbell(high, rtts=[RTT], buffer=100 * PACKET, packet_size=PACKET)
    trace = lab.run(
        network, 34.0, *MODEL, *BOUNDS, impairments=[CapacitySchedule(0, [change], [high / 10])], sample=0.005
    )
    remaining = float(trace["max_bw"][-1]) / high
    lab.measurements.append(
        Measurement(
            "max_bw 31 s after the change over a buffer of 3 s, over the old bandwidth",
            remaining,
            note="from 4 Mb/s to 0.4 Mb/s, 100 packets",
        )
    )
    if remaining > 0.15:
        lab.draw(
            trace,
            "A tenth of the bandwidth, and a buffer of 3 s",
            "From 4 to 0.4 Mb/s at the line; ProbeRTT ends each cycle before the filter of max_bw moves on.",
            marks=[change],
        )
        lab.conditions.append(
            f"With a buffer that takes 3 s to drain it does not adapt: after 31 s max_bw is still {remaining:.0%} of "
            "the old bandwidth. ProbeRTT, due every 5 s, then ends each cycle, and the filter advances only in rounds "
            "of ProbeBW that are not application-limited."
        )


@case("bbr-policer", "state", "max_bw", cost=2)
def policer(lab: Laboratory) -> str:
    tokens = 5e6
    trace = lab.run(path(buffer=DEEP), 20.0, *MODEL, *BOUNDS, links={0: Policer(rate=tokens, burst="100 kB")})
    begin = next((float(trace.time[a]) for name, a, _ in trace.spans if name.startswith("ProbeBW")), np.inf)
    if begin > 15.0:
        raise NotReached("ProbeBW does not begin within 15 s")
    late = trace.time > begin
    if is_version_3(lab):
        lab.expect(
            "minimum bw_shortterm over the maximum max_bw",
            trace["bw_shortterm"][late].min() / trace["max_bw"].max(),
            at_most=0.8,
        )
        low = trace["inflight_shortterm"][late].min()
        lab.expect("minimum inflight_shortterm", float(low) / 1e3, at_most=bdp() / 1e3, unit="kB")
    used = trace.mean(trace.goodput, 10.0) / tokens
    lab.expect("goodput over the rate of tokens, 10 to 20 s", used, at_least=0.8)
    sent = trace.mean(trace.goodput, 10.0) * 10.0 / 8.0 / PACKET
    dropped = float(trace.drops[trace.time > 10.0].sum())
    lab.expect(
        "share lost, 10 to 20 s",
        dropped / (dropped + sent),
        at_most=MAX_LOSS,
        note="threshold lt_loss_thresh of Linux, 50/256; the draft has no number",
    )
    rtts = trace.drops[trace.time > 10.0].reshape(-1, round(RTT / 0.001)).sum(axis=1)
    lab.expect("share of RTTs with losses", float((rtts > 0.0).mean()), at_most=0.5, note="losses are not continuous")
    lab.draw(
        trace,
        "Behind a policer",
        "A token bucket of 5 Mb/s and 100 kB drops excess packets.",
        rates=("rate", "max_bw", "bw_shortterm"),
        span=(0.0, 8.0),
    )
    return f"Goodput is {used:.0%} of the policed rate, and {dropped / (dropped + sent):.1%} of the packets are lost"


@case("bbr-spurious-recovery", "state", "max_bw", cost=3)
def spurious_recovery(lab: Laboratory) -> str:
    reordering = Jitter((0.0, RTT), link=0, in_order=False)
    saved = ("undo_bw_shortterm", "undo_inflight_shortterm", "undo_inflight_longterm")
    trace = lab.run(path(buffer=2.0 * DEEP), 6.0, *MODEL, *BOUNDS, *saved, impairments=[reordering])
    a, b, following = trace.span("Startup")
    starts = np.flatnonzero(np.diff(trace["recovering"]) > 0.0)
    lab.expect("recoveries", len(starts), at_least=3)
    lab.expect("packets dropped", trace.drops.sum(), at_most=0, note="so each recovery is spurious")
    lab.expect(
        "max_bw at the end of Startup over the capacity",
        trace["max_bw"][b] / CAPACITY,
        at_least=0.98,
        note="spurious losses do not end Startup",
    )
    late = [k for k in starts if trace.time[k] > trace.time[b] and trace.time[k] < 5.5]
    ratios = [trace["window"][trace.at(float(trace.time[k]) + 4.0 * RTT)] / trace["window"][k - 1] for k in late]
    if ratios:
        lab.expect(
            "window 4 RTTs after recovery starts over window before, median", float(np.median(ratios)), at_least=0.95
        )
    if is_version_3(lab):
        lab.expect_that(
            "inflight_longterm unbounded at the end, as at first", bool(trace["inflight_longterm"][-1] >= 1e290)
        )
        _resumes_startup(lab)
    used = trace.mean(trace.goodput, 2.0) / CAPACITY
    lab.expect("goodput over the capacity", used, at_least=0.9)
    lab.draw(
        trace,
        "Spurious recoveries",
        f"Every packet takes up to {1e3 * RTT:g} ms longer and may overtake.",
        span=(0.0, 3.0),
    )
    return f"The window survives {len(starts)} spurious recoveries, and goodput is {used:.0%} of the capacity"


def _resumes_startup(lab: Laboratory) -> None:
    """Check that Startup resumes if reordering ends it by spurious losses before max_bw reaches the capacity."""
    wild = Jitter((0.0, 10.0 * RTT), link=0, in_order=False)
    trace = lab.run(path(buffer=2.0 * DEEP), 3.0, *MODEL, *BOUNDS, impairments=[wild])
    ends = [b for name, _, b in trace.spans if name == "Startup"]
    if ends and ends[0] < len(trace.time) and trace["max_bw"][ends[0]] < 0.5 * CAPACITY:
        note = f"packets take up to {10.0 * RTT:g} s longer; it ended at {trace['max_bw'][ends[0]] / 1e6:.1f} Mb/s"
        lab.expect_that("Startup resumes after its end by spurious losses", len(ends) > 1, note=note)


@case("bbr-spurious-timeout", "state", "max_bw", cost=3)
def spurious_timeout(lab: Laboratory) -> str:
    outage = 0.6
    plain = lab.run(path(buffer=2.0 * DEEP), 6.0, *MODEL)
    state = "ProbeBW_UP" if is_version_3(lab) else "ProbeBW_CRUISE"
    begin = float(plain.time[plain.span(state, after=1.0)[0]]) + 0.08
    gap = [CapacitySchedule(0, [begin, begin + outage], [0.0, CAPACITY])]
    trace = lab.run(path(buffer=2.0 * DEEP), begin + 3.0, *MODEL, *BOUNDS, impairments=gap)
    end = begin + outage
    inside = (trace.time > begin) & (trace.time < end + RTT)
    lab.expect(
        "minimum window in the outage",
        float(trace["window"][inside].min()) / PACKET,
        at_most=1.01,
        unit="packets",
        note="the timer has expired",
    )
    lab.expect("packets dropped", trace.drops.sum(), at_most=0, note="so the timeout is spurious")
    before, after = trace.at(begin - 0.002), trace.at(end + 3.0 * RTT)
    lab.expect(
        "window three RTTs after the outage over the window before",
        trace["window"][after] / trace["window"][before],
        at_least=0.95,
    )
    if is_version_3(lab):
        for name in ("bw_shortterm", "inflight_longterm"):
            lab.expect_that(f"{name} unbounded then, as before", bool(trace[name][after] >= 1e290))
        states = {str(trace.states[k]) for k in range(after, trace.at(end + 6.0 * RTT))}
        lab.expect_that("UP is resumed", state in states)
    used = trace.mean(trace.goodput, end + 3.0 * RTT, end + 1.0) / CAPACITY
    lab.expect("goodput over the capacity, in the second after the outage", used, at_least=0.75)
    lab.draw(
        trace,
        "A spurious timeout",
        f"The link stops for {outage:g} s, between the lines; no packet is lost.",
        marks=[begin, end],
        span=(begin - 0.3, end + 0.7),
    )
    return f"The window is restored within three RTTs of an outage of {outage:g} s with a spurious timeout"


@case("bbr-cruise-losses", "state", "max_bw", "bw_shortterm", "inflight_shortterm", cost=2)
def cruise_losses(lab: Laboratory) -> str:
    plain = lab.run(path(buffer=DEEP), 4.0, *MODEL, *BOUNDS)
    a, b, _ = plain.span("ProbeBW_CRUISE")
    begin = 0.5 * float(plain.time[a] + plain.time[b])
    every = 4.0
    lossy = LossesBetween(begin=begin, end=begin + 4.0 * RTT, every=every)
    trace = lab.run(path(buffer=DEEP), float(plain.time[b]) + 2.0, *MODEL, *BOUNDS, links={0: lossy})
    after = (trace.time > begin + 1.2 * RTT) & (trace.time < begin + 8.0 * RTT)
    bounded = after & (trace["bw_shortterm"] < 1e290)
    if not bounded.any():
        lab.expect_that("losses set bw_shortterm", False)
        return ""
    bw, volume = float(trace["bw_shortterm"][bounded].min()), float(trace["inflight_shortterm"][bounded].min())
    lab.expect(
        "minimum bw_shortterm over max_bw",
        bw / CAPACITY,
        at_least=0.69,
        at_most=1.0 - 0.5 / every,
        note="one packet in four is lost for four RTTs; the delivery rate is a lower bound",
    )
    lab.expect(
        "minimum inflight_shortterm over the bandwidth-delay product", volume / bdp(), at_least=0.7, at_most=2.0 * 0.75
    )
    halved = LossesBetween(begin=begin, end=begin + 2.0 * RTT, every=2.0)
    heavy = lab.run(path(buffer=DEEP), begin + 8.0 * RTT, *MODEL, *BOUNDS, links={0: halved})["bw_shortterm"]
    bounds = heavy[heavy < 1e290]
    if len(bounds):
        lab.expect(
            "minimum bw_shortterm over its first value, half of all lost for 2 RTTs",
            bounds.min() / bounds[0],
            near=0.7,
            within=0.02,
            note="Beta; the delivery rate is lower",
        )
    refill, _, _ = trace.span("ProbeBW_REFILL", after=begin)
    lab.expect_that("REFILL resets bw_shortterm", bool(trace["bw_shortterm"][refill + 1] >= 1e290))
    lab.expect(
        "pacing rate in between over bw_shortterm",
        gain(trace, trace.at(begin + 5.0 * RTT), refill),
        near=1.0,
        within=0.005,
    )
    lab.draw(
        trace,
        "Losses in CRUISE",
        f"One packet in {every:g} is lost for four RTTs after the line.",
        rates=("rate", "max_bw", "bw_shortterm"),
        volumes=("in_flight", "window", "inflight_shortterm"),
        marks=[begin],
        span=(begin - 0.3, float(trace.time[refill]) + 0.3),
    )
    return f"bw_shortterm falls to {bw / 1e6:.1f} Mb/s, inflight_shortterm to {volume / 1e3:.0f} kB, until REFILL"


@case("bbr-min-rtt-filter", "state", "max_bw", "min_rtt", cost=2)
def min_rtt_filter(lab: Laboratory) -> str:
    fast, slow, change = 4e6, 0.4e6, 3.0
    less = [CapacitySchedule(0, [change], [slow])]
    network = Network.dumbbell(fast, rtts=[RTT], buffer=100 * PACKET, packet_size=PACKET)
    trace = lab.run(network, 34.0, *MODEL, impairments=less, sample=0.005)
    before, after = (1e3 * (RTT + 8.0 * PACKET / capacity) for capacity in (fast, slow))
    lab.expect("min_rtt before", 1e3 * trace["min_rtt"][trace.at(change)], near=before, band=0.01, unit="ms")
    late = 1e3 * trace["min_rtt"][trace.time > change + 16.0]
    lab.expect(
        "minimum min_rtt more than 16 s after the change",
        float(late.min()),
        at_least=0.99 * after,
        unit="ms",
        note="after 10 s of the filter and the next ProbeRTT",
    )
    lab.draw(
        trace, "An increased RTT", f"At the line a packet begins to take {8e3 * PACKET / slow:.0f} ms.", marks=[change]
    )
    return f"min_rtt grows from {before:.0f} to {late.min():.0f} ms; the RTT of a packet is now {after:.0f} ms"
