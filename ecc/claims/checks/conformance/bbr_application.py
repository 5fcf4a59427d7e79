"""Cases of application-limited BBR (draft-ietf-ccwg-bbr, BBR Example Test Cases)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ecc.claims.checks.conformance.bbr_states import BOUNDS, DEEP, FULL, MODEL, is_version_3
from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, NotReached, Trace, case
from ecc.claims.checks.conformance.paths import CAPACITY, RTT, LossesBetween, bdp, path
from ecc.network.network import Network

WRITTEN = 8e6
"""Write rate of an application that limits its flow [bit/s]."""
EVERY = 4.0
"""Ratio of packets to losses in cases with losses: more than 2 % and six losses per round."""


def written(writes: Any) -> Network:
    """Return the usual path with an application that writes at given times or a given rate.

    Parameters
    ----------
    writes : object
        Writes of the flow, for example 8e6 for a rate in bit/s, or (bytes, period).
    """
    network = path(buffer=DEEP)
    return network.with_flows([replace(network.flows[0], writes=writes)])


def _limited(lab: Laboratory, trace: Trace) -> None:
    """Record the share of samples that are application-limited."""
    if lab.has("sample_app_limited"):
        share = float(trace["sample_app_limited"][trace.time > 4.0 * RTT].mean())
        lab.expect("share of application-limited samples", share, at_least=0.5)


@case("bbr-startup-loss", "state", "max_bw", "full_bw_reached", "inflight_longterm", cost=2)
def startup_loss(lab: Laboratory) -> str:
    begin = 1.0
    lossy = LossesBetween(begin=begin, end=begin + 3.0 * RTT, every=EVERY)
    trace = lab.run(written(WRITTEN), 4.0, *MODEL, *FULL, *BOUNDS, "sample_app_limited", links={0: lossy})
    a, b, following = trace.span("Startup")
    _limited(lab, trace)
    known = float(trace["max_bw"][trace.at(begin)]) / CAPACITY
    lab.expect("max_bw over the capacity, before the losses", known, at_most=0.95, note="the pipe is not full")
    lab.expect(
        "time from the first loss to the end of Startup",
        float(trace.time[b]) - begin,
        at_least=0.0,
        at_most=5.0 * RTT,
        unit="s",
    )
    lab.expect_that("full_bw_reached then", bool(trace["full_bw_reached"][b] > 0))
    lab.expect_that("inflight_longterm then has a bound", bool(trace["inflight_longterm"][b] < 1e290))
    lab.expect_that(
        "state that follows",
        following in ("Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE"),
        note=f"{following}: an application-limited flow has no queue to drain",
    )
    lab.draw(
        trace,
        "Losses in Startup",
        "The application writes 8 Mb/s; one packet in 4 is lost for three RTTs.",
        marks=[begin, float(trace.time[b])],
        span=(0.0, 2.0),
    )
    return f"Startup ends {1e3 * (trace.time[b] - begin):.0f} ms after the first loss, although application-limited"


@case("bbr-up-loss", "state", "max_bw", "full_bw_reached", "inflight_longterm", cost=2)
def up_loss(lab: Laboratory) -> str:
    first = LossesBetween(begin=1.0, end=1.0 + 3.0 * RTT, every=EVERY)
    plain = lab.run(written(WRITTEN), 8.0, *MODEL, *BOUNDS, links={0: first})
    ups = [float(plain.time[a]) for name, a, _ in plain.spans if name == "ProbeBW_UP"]
    if not ups:
        raise NotReached("no ProbeBW_UP begins within 8 s")
    up = ups[0]
    begin = up + 2.0 * RTT
    lossy = replace(first, again=begin, until=begin + 2.0 * RTT)
    trace = lab.run(written(WRITTEN), begin + 2.0, *MODEL, *BOUNDS, "sample_app_limited", links={0: lossy})
    a, b, following = trace.span("ProbeBW_UP", after=up - 0.01)
    _limited(lab, trace)
    lab.expect(
        "time from the first loss to the end of UP",
        float(trace.time[b]) - begin,
        at_least=0.0,
        at_most=3.0 * RTT,
        unit="s",
    )
    lab.expect_that("state that follows", following in ("ProbeBW_DOWN", "ProbeBW_CRUISE"), note=following)
    before, after = (float(trace["inflight_longterm"][k]) for k in (a, b))
    lab.expect("inflight_longterm after over before", after / before, at_most=1.02)
    if after / before > 0.98:
        lab.conditions.append(
            "inflight_longterm does not change: the case expects an update for any application, but the draft's "
            "HandleInflightTooHigh makes none if the sample is application-limited."
        )
    lab.draw(
        trace,
        "Losses in UP",
        "The application writes 8 Mb/s; one packet in 4 is lost after the first line.",
        marks=[begin, float(trace.time[b])],
        span=(up - 0.3, begin + 0.6),
    )
    return f"UP ends {1e3 * (trace.time[b] - begin):.0f} ms after the first loss, although application-limited."


@case("bbr-application-limited", "state", "max_bw", "full_bw_reached", cost=2)
def application_limited(lab: Laboratory) -> str:
    trace = lab.run(written(WRITTEN), 20.0, *MODEL, *FULL, "sample_app_limited", sample=0.005)
    _limited(lab, trace)
    lab.expect_that("full_bw_reached within 20 s", bool(trace["full_bw_reached"].max() > 0), False)
    lab.expect_that(
        "states",
        ", ".join(sorted({str(name) for name in trace.states} - {"ProbeRTT"})),
        "Startup",
        note="apart from ProbeRTT",
    )
    used = trace.mean(trace.goodput, 5.0) / WRITTEN
    lab.expect("goodput over the write rate of the application", used, at_least=0.9)
    lab.draw(trace, "An application that limits its flow", "It writes 8 Mb/s; the path has 20.")
    return "The flow stays in Startup for 20 s if the application writes 8 of 20 Mb/s"


@case("bbr-probe-rtt-idle", "state", "max_bw", "idle_restart", cost=2)
def probe_rtt_idle(lab: Laboratory) -> str:
    period = 8.0 if is_version_3(lab) else 14.0
    trace = lab.run(written((4_000_000, period)), 2.0 * period - 1.0, *MODEL, "idle_restart")
    busy = np.flatnonzero((trace["in_flight"] > 0) & (trace.time > period - 1.0))
    again = float(trace.time[busy[0]]) if len(busy) else period
    idle = again - float(trace.time[np.flatnonzero((trace["in_flight"] > 0) & (trace.time < again - 0.1))[-1]])
    lab.expect("time with nothing in flight", idle, at_least=5.0 if is_version_3(lab) else 10.0, unit="s")
    after = [str(name) for name in trace.states[trace.at(again) : trace.at(again + 1.0)]]
    lab.expect_that("ProbeRTT in the second after the restart", "ProbeRTT" in after, False)
    lab.expect(
        "goodput then over the capacity",
        trace.mean(trace.goodput, again + 2.0 * RTT, again + 1.0) / CAPACITY,
        at_least=0.9,
    )
    lab.draw(trace, "A restart after silence", f"4 MB at once, and again after {period:g} s.", marks=[again])
    return f"After {idle:.1f} s of silence it continues without ProbeRTT"


@case("bbr-refill-application", "state", "max_bw", "inflight_longterm", cost=3)
def refill_application(lab: Laboratory) -> str:
    plain = lab.run(path(buffer=DEEP), 8.0, *MODEL)
    refill = plain.span("ProbeBW_REFILL")[0]
    begin = float(plain.time[refill])
    chunk = int(plain["delivered"][refill] + plain["in_flight"][refill])
    chunk -= chunk % PACKET
    silence = 1.4 * RTT
    trace = lab.run(written((chunk, begin + silence)), begin + 4.0, *MODEL, *BOUNDS, "sample_app_limited")
    a, b, following = trace.span("ProbeBW_REFILL", after=begin - 0.05)
    low = float(trace["in_flight"][trace.at(begin) : trace.at(begin + 2.0 * RTT)].min())
    lab.expect(
        "minimum in flight over the bandwidth-delay product", low / bdp(), at_most=0.9, note="the application pauses"
    )
    until = trace.at(begin + 6.0 * RTT)
    lower = float(trace["max_bw"][a:until].min() / trace["max_bw"][a - 1])
    lab.expect("minimum max_bw since then over the value before", lower, at_least=0.999)
    lab.expect_that("state that follows", following, "ProbeBW_UP")
    used = trace.mean(trace.goodput, begin + 0.5, begin + 2.0) / CAPACITY
    lab.expect("goodput later over the capacity", used, at_least=0.85)
    lab.draw(
        trace,
        "A pause in REFILL",
        f"No data for {1e3 * silence:.0f} ms after the line.",
        marks=[begin],
        span=(begin - 0.3, begin + 1.0),
    )
    return "The samples of the pause do not lower max_bw, and UP follows"
