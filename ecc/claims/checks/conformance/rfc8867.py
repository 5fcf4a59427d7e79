"""The basic test cases of RFC 8867 for controllers of real-time media, whose receivers send reports.

Paths, media and competing traffic are those of secs. 4 and 5 of the RFC, with models of RFC 8868. It has no limits but
one: rates of flows with similar RTTs have a ratio from 1/3 to 3 (RFC 8868, sec. 3). The others are ours, and each
measurement states its limit.

A controller with the parameters of `ecc.models.shared.encoder` sends frames: 30 a second, whose sizes deviate by 10 %;
the mean of a second then deviates by about 2 %, and the RFC asks for 5 %. Other controllers send evenly spaced packets.
Audio is a flow of constant rate. The backward path is a link, whose load is that of the reports. The RFC gives the
queue as a time; it is that at the reference capacity, in bytes. Its jitter is at most 30 ms: normal with mean 15 ms and
deviation 5 ms (RFC 8868, sec. 4.5.3), in order. TCP is NewReno with SACK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.claims.checks.conformance.laboratory import Laboratory, NotReached, Trace, case
from ecc.claims.ledger import Picture
from ecc.contract.protocol import Protocol
from ecc.models import ConstantRate, NewReno
from ecc.network.applications import Application
from ecc.network.impairments import CapacitySchedule, Impairment, Jitter
from ecc.network.network import Flow, Link, Network
from ecc.plot.states import states_figure
from ecc.results import metrics
from ecc.results.frames import FRAME_FIELDS

__all__ = ["Call", "Session", "capacity_at", "oscillations", "session", "source"]

FloatArray = NDArray[np.float64]
Steps = Sequence[tuple[float, float]]
"""Times [s] and capacities from then on [bit/s]; the first at 0."""

DELAY, QUEUE = 0.05, 0.3
"""One-way propagation delay and bottleneck queue of sec. 4.2 [s]."""
JITTER = ("15 ms", "5 ms")
MIN_RATE, MAX_RATE, AUDIO = 150e3, 1.5e6, 20e3
"""Rates of sec. 4.3 [bit/s]."""
SOURCE = {"frames": 30.0, "noise": 0.1, "min_rate": MIN_RATE, "max_rate": MAX_RATE}
UNLIMITED = 1e8
"""Capacity of a backward path without restriction [bit/s]."""
VIDEO_PACKET, AUDIO_PACKET, TCP_PACKET = 500, 50, 1500
SAMPLE, SECOND = 0.02, 50
"""Sampling period [s], in which fewer than 16 frames arrive, and samples in a second."""
LATE = 10.0
"""Last part of a phase, in which rates should have converged [s]."""
NEEDS = ("reports",)


@dataclass(frozen=True)
class Call:
    """Video and audio of one pair of hosts.

    `start`, `stop` [s]; `delay`: one-way propagation [s]; `backward`: whether the media take the backward path;
    `pauses`: begin and end of pauses of the video [s].
    """

    stop: float
    start: float = 0.0
    delay: float = DELAY
    backward: bool = False
    pauses: tuple[float, ...] = (0.0, 0.0)


@dataclass(frozen=True)
class Downloads(Application):
    """Files of 30 to 50 kB, with idle periods of exponential lengths, 10 s on average (RFC 8868, sec. 5.1)."""

    is_on: bool = False

    def writes(self, duration: float, seed: Any) -> tuple[FloatArray, NDArray[np.int64]]:
        random = np.random.default_rng(np.random.SeedSequence(seed))
        idle = random.exponential(10.0, 10 + int(duration))
        times = np.cumsum(idle) - (idle[0] if self.is_on else 0.0)
        sizes = random.integers(30_000, 50_000, len(times), endpoint=True)
        return times[times < duration], sizes[times < duration]


def capacity_at(time: FloatArray, steps: Steps) -> FloatArray:
    """Return the capacity in each sample [bit/s]: that before its end.

    Parameters
    ----------
    time : ndarray, s
        Ends of samples.
    steps : Steps
    """
    places = np.searchsorted([begin for begin, _ in steps], time - 1e-9, side="right") - 1
    return np.array([capacity for _, capacity in steps])[places]


def oscillations(values: FloatArray, low: float, high: float) -> int:
    """Return how often values move from a low watermark or less to a high one or more, or back (RFC 8868, sec. 3).

    Parameters
    ----------
    values : ndarray
    low, high : float
        Watermarks.
    """
    sides = np.where(values >= high, 1, np.where(values <= low, -1, 0))
    visited = sides[sides != 0]
    return int((np.diff(visited) != 0).sum())


@dataclass(frozen=True)
class Session:
    """A run of calls: flows are the videos of all calls, then their audio, then competing TCP flows."""

    trace: Trace
    calls: Sequence[Call]
    steps: Steps

    def inside(self, begin: float, end: float) -> NDArray[np.bool_]:
        """Return the samples that end in a span."""
        return (self.trace.time > begin + 1e-9) & (self.trace.time <= end + 1e-9)

    def goodput(self, begin: float, end: float) -> FloatArray:
        """Return the mean goodput of each flow in a span [bit/s]."""
        values = self.trace.run.data["goodput"].to_numpy()[self.inside(begin, end)]
        return np.asarray(values.mean(axis=0))

    def room(self, begin: float, end: float, n_videos: int = 1) -> float:
        """Return the rate that fits into the forward path for videos, at most their maximum [bit/s]."""
        capacity = capacity_at(self.trace.time[self.inside(begin, end)], self.steps).mean()
        return min(float(capacity) - n_videos * AUDIO, n_videos * MAX_RATE)

    def queueing_delay(self, begin: float, end: float) -> FloatArray:
        """Return the queue of the forward path at the capacity of the time, in each sample of a span [s]."""
        queue = self.trace.run.data["queue"].to_numpy()[:, 0]
        delay: FloatArray = 8.0 * queue / capacity_at(self.trace.time, self.steps)
        return delay[self.inside(begin, end)]

    def lost_share(self, flow: int) -> float:
        """Return the share of a flow's bytes that are lost."""
        lost, delivered = (self.trace.run.data[f"env.{name}"].to_numpy()[-1, flow] for name in ("lost", "delivered"))
        return float(lost / max(lost + delivered, 1.0))

    def overhead(self) -> float:
        """Return the bytes of reports over those of the media that they report; an ACK of the engine has one byte."""
        n = len(self.calls)
        media = self.trace.run.data["goodput"].to_numpy()[:, : 2 * n].sum(axis=0)
        acks = media[:n].sum() / VIDEO_PACKET + media[n:].sum() / AUDIO_PACKET
        return float((self.trace.run.data["arrival"].to_numpy()[:, 1].sum() - acks) / media[:n].sum())

    def convergence(self, flow: int, begin: float, end: float) -> float | str:
        """Return the time until the rate of a second stays within 25 % of the last rates of a span [s]."""
        run, scenario = self.trace.run, self.trace.scenario
        value = metrics.settling_time(run, scenario, flow, after=begin, close=0.25, until=end, over=SECOND)
        return value if np.isfinite(value) else "not reached"

    def swings(self, flow: int, begin: float, end: float) -> int:
        """Return the oscillations of the rate of a second by a quarter of its mean up and down."""
        rates = self.trace.run.data["rate"].to_numpy()[self.inside(begin, end), flow]
        smooth = np.convolve(rates, np.full(SECOND, 1.0 / SECOND), mode="valid")
        return oscillations(smooth, 0.75 * float(smooth.mean()), 1.25 * float(smooth.mean()))


def source(protocol: Protocol, pauses: tuple[float, ...] = (0.0, 0.0)) -> Protocol:
    """Return a controller with the media source of RFC 8867, sec. 4.3, as far as it has the parameters.

    Parameters
    ----------
    protocol : Protocol
    pauses : tuple of float, s, optional
    """
    names = {item.name for item in fields(protocol)}
    return replace(protocol, **{name: value for name, value in {**SOURCE, "pauses": pauses}.items() if name in names})


def session(
    lab: Laboratory,
    duration: float,
    reference: float,
    calls: Sequence[Call],
    steps: Steps = (),
    backward: Steps = (),
    queue: float = QUEUE,
    tcp: Sequence[Flow] = (),
    longer: float = 0.0,
) -> Session:
    """Return a run of calls on the testbed of RFC 8867.

    Parameters
    ----------
    lab : Laboratory
    duration : float, s
    reference : float, bit/s
        Reference capacity of the bottleneck.
    calls : sequence of Call
    steps, backward : Steps, optional
        Capacities of the forward path and of the backward path, relative to the reference. None: constant.
    queue : float, s, optional
        Queue of the bottleneck.
    tcp : sequence of Flow, optional
        Competing TCP flows.
    longer : float, s, optional
        Propagation delay of the forward path in addition to the delays of the calls.
    """
    forward = [(time, ratio * reference) for time, ratio in steps or [(0.0, 1.0)]]
    back = [(time, ratio * reference) for time, ratio in backward or [(0.0, UNLIMITED / reference)]]
    buffer = int(queue * reference / 8.0)
    impairments: list[Impairment] = []
    for link, path in enumerate((forward, back)):
        impairments.append(Jitter(JITTER, link=link, law="normal"))
        if path[1:]:
            impairments.append(CapacitySchedule(link, *map(list, zip(*path[1:], strict=True))))
    flows: list[Flow] = []
    protocols: dict[int, Protocol] = {}
    for size in (VIDEO_PACKET, AUDIO_PACKET):
        for call in calls:
            is_video = size == VIDEO_PACKET
            protocols[len(flows)] = source(lab.protocol, call.pauses) if is_video else ConstantRate(AUDIO)
            there, returning = ([1], [0]) if call.backward else ([0], [1])
            options: dict[str, Any] = {"start": call.start, "stop": call.stop, "access_delay": call.delay}
            flows.append(Flow(there, reverse=returning, packet_size=size, ack_size=1, **options))
    protocols |= dict.fromkeys(range(len(flows), len(flows) + len(tcp)), NewReno(transport="sack"))
    links = [Link(forward[0][1], delay=longer, buffer=buffer), Link(back[0][1], buffer=buffer if backward else None)]
    network = Network(links, [*flows, *tcp])
    names = [name.removeprefix("flow.") for name in FRAME_FIELDS]
    trace = lab.run(network, duration, *names, impairments=impairments, others=protocols, sample=SAMPLE)
    return Session(trace, calls, forward)


def report(lab: Laboratory, run: Session, where: str, spans: Mapping[str, tuple[float, float]]) -> None:
    """Record the metrics of RFC 8867, sec. 4.1, and require few losses and a short queue.

    Parameters
    ----------
    lab : Laboratory
    run : Session
    where : str
        End of the names of measurements.
    spans : mapping
        Name of a phase -> its begin and end [s].
    """
    begin, end = run.calls[0].start, run.calls[0].stop
    if lab.has("complete"):
        if len(metrics.frames(run.trace.run).delay) == 0:
            raise NotReached(f"no frame of the first video is complete within {end:g} s")
        for name, metric in (("mean", metrics.frame_delay), ("95th percentile", metrics.p95_frame_delay)):
            lab.note(f"frame delay, {name}{where}", 1e3 * metric(run.trace.run, run.trace.scenario), "ms")
    delay = 1e3 * float(np.quantile(run.queueing_delay(begin, end), 0.95))
    lab.note(f"queueing delay, 95th percentile{where}", delay, "ms")
    lab.expect(
        f"share of video packets that are lost{where}",
        run.lost_share(0),
        at_most=0.05,
        note="it spoils a fifth of the frames of 4 packets",
    )
    if not any(call.backward for call in run.calls):
        lab.note(f"bytes of reports over those of video{where}", run.overhead())
    for name, span in spans.items():
        lab.note(f"convergence time, {name}{where}", run.convergence(0, *span), "s")
        lab.note(f"oscillations by 25 %, {name}{where}", run.swings(0, *span))


def expect_late(lab: Laboratory, run: Session, name: str, end: float, videos: Sequence[int] = (0,)) -> float:
    """Require a utilization and a queueing delay in the last part of a phase; return the utilization.

    Parameters
    ----------
    lab : Laboratory
    run : Session
    name : str
        Name of the phase.
    end : float, s
        End of the phase.
    videos : sequence of int, optional
        Flows of the videos that are active.
    """
    span = (end - LATE, end)
    share = float(run.goodput(*span)[list(videos)].sum()) / run.room(*span, n_videos=len(videos))
    lab.expect(
        f"video over what fits, last {LATE:g} s of {name}", share, at_least=0.7, note="of capacity or maximum rate"
    )
    delay = 1e3 * float(np.quantile(run.queueing_delay(*span), 0.95))
    lab.expect(
        f"queueing delay, 95th percentile, last {LATE:g} s of {name}", delay, at_most=150.0, unit="ms", note="half full"
    )
    return share


def expect_shares(lab: Laboratory, run: Session, begin: float, end: float, note: str = "RFC 8868, sec. 3") -> float:
    """Require that rates of videos have a ratio of at most 3; return it."""
    rates = run.goodput(begin, end)[: len(run.calls)]
    ratio = float(rates.max() / max(rates.min(), 1.0))
    lab.expect(f"largest over smallest rate of a video, {begin:g} to {end:g} s", ratio, at_most=3.0, note=note)
    return ratio


def draw(lab: Laboratory, run: Session, title: str, caption: str, marks: Sequence[float] = ()) -> None:
    """Draw the rates of videos and TCP and the queueing delay."""
    n, data = len(run.calls), run.trace.run.data
    mean = np.full(SECOND, 1.0 / SECOND)
    rates = {"capacity": capacity_at(run.trace.time, run.steps) / 1e6}
    for flow in range(n):
        rates[f"video {flow + 1}"] = np.convolve(data["rate"].to_numpy()[:, flow], mean, mode="same") / 1e6
    if data["rate"].shape[1] > 2 * n:
        tcp = data["rate"].to_numpy()[:, 2 * n :].sum(axis=1)
        rates["TCP"] = np.convolve(tcp, mean, mode="same") / 1e6
    delay = 1e3 * run.queueing_delay(0.0, float(run.trace.time[-1]))
    panels = {"rate [Mb/s]": rates, "queueing delay [ms]": {"queueing delay": delay}}
    lab.pictures.append(Picture.of(states_figure(run.trace.time, panels, [], marks, title), title, caption))


def phases(steps: Steps, end: float) -> dict[str, tuple[float, float]]:
    """Return the phases of a path, by their capacities and times."""
    ends = [*(time for time, _ in steps[1:]), end]
    return {f"{begin:g} to {until:g} s": (begin, until) for (begin, _), until in zip(steps, ends, strict=True)}


# ---- the cases ---------------------------------------------------------------------------------------------


ONE_FLOW = ((0.0, 1.0), (40.0, 2.5), (60.0, 0.6), (80.0, 1.0))
"""Table 1."""
TWO_FLOWS = ((0.0, 2.0), (25.0, 1.0), (50.0, 1.75), (75.0, 0.5), (100.0, 1.0))
"""Table 2."""
FORWARD = ((0.0, 2.0), (20.0, 1.0), (40.0, 0.5), (60.0, 2.0))
"""Table 3."""
BACKWARD = ((0.0, 2.0), (35.0, 0.8), (70.0, 2.0))
"""Table 4."""


@case("rfc8867-capacity", *NEEDS, cost=0.5)
def variable_capacity(lab: Laboratory) -> str:
    lowest = 1.0
    for delay in (0.05, 0.1):
        run = session(lab, 100.0, 1e6, [Call(99.0)], ONE_FLOW, longer=delay - DELAY)
        spans, where = phases(ONE_FLOW, 99.0), f" ({1e3 * delay:g} ms)"
        report(lab, run, where, spans)
        shares = [expect_late(lab, run, name + where, end) for name, (_, end) in spans.items()]
        lowest = min(lowest, *shares)
        marks = [time for time, _ in ONE_FLOW[1:]]
        draw(lab, run, f"Variable capacity{where}", "One call over 1, 2.5, 0.6 and 1 Mb/s.", marks)
    return f"In each phase the video uses {lowest:.0%} or more of what fits"


@case("rfc8867-two", *NEEDS, cost=0.5)
def variable_capacity_for_two(lab: Laboratory) -> str:
    run = session(lab, 125.0, 2e6, [Call(124.0)] * 2, TWO_FLOWS)
    spans = phases(TWO_FLOWS, 124.0)
    report(lab, run, "", spans)
    lowest = min(expect_late(lab, run, name, end, (0, 1)) for name, (_, end) in spans.items())
    ratio = expect_shares(lab, run, 0.0, 124.0)
    draw(lab, run, "Two calls", "Capacities of 4, 2, 3.5, 1 and 2 Mb/s.", [time for time, _ in TWO_FLOWS[1:]])
    return f"In each phase two videos use {lowest:.0%} or more of what fits, with a ratio of their rates of {ratio:.2f}"


@case("rfc8867-feedback", *NEEDS, cost=0.5)
def congested_feedback(lab: Laboratory) -> str:
    calls = [Call(99.0), Call(99.0, backward=True)]
    run = session(lab, 100.0, 1e6, calls, FORWARD, BACKWARD)
    usual = session(lab, 100.0, 1e6, calls, FORWARD, BACKWARD[:1])
    spans = phases(FORWARD, 99.0)
    report(lab, run, "", spans)
    rates = [float(each.goodput(35.0, 70.0)[0]) for each in (run, usual)]
    ratio = rates[0] / max(rates[1], 1.0)
    lab.expect(
        "goodput of the forward video over that without congestion of its reports, 35 to 70 s", ratio, at_least=0.7
    )
    draw(
        lab, run, "Congested feedback", "The forward path; its reports share 0.8 Mb/s between the lines.", [35.0, 70.0]
    )
    return f"While its reports cross a congested path, the video has {ratio:.0%} of its usual rate"


@case("rfc8867-fairness", *NEEDS, cost=0.5)
def competing_media(lab: Laboratory) -> str:
    starts = (0.0, 20.0, 40.0)
    run = session(lab, 120.0, 3.5e6, [Call(119.0, start=start) for start in starts])
    report(lab, run, "", {"0 to 20 s": (0.0, 20.0), "20 to 40 s": (20.0, 40.0), "40 to 119 s": (40.0, 119.0)})
    lab.note("convergence time of the third video", run.convergence(2, 40.0, 119.0), "s")
    share = expect_late(lab, run, "40 to 119 s", 119.0, (0, 1, 2))
    ratio = expect_shares(lab, run, 79.0, 119.0)
    draw(lab, run, "Three calls", "Calls begin at 0, 20 and 40 s over 3.5 Mb/s.", starts[1:])
    return f"Three videos use {share:.0%} of what fits, and the ratio of their rates is {ratio:.2f}"


@case("rfc8867-rtt", *NEEDS, cost=1)
def round_trip_fairness(lab: Laboratory) -> str:
    delays = (0.01, 0.025, 0.05, 0.1, 0.15)
    calls = [Call(299.0, start=10.0 * k, delay=delay) for k, delay in enumerate(delays)]
    run = session(lab, 300.0, 4e6, calls)
    report(lab, run, "", {"40 to 299 s": (40.0, 299.0)})
    share = expect_late(lab, run, "40 to 299 s", 299.0, range(5))
    ratio = expect_shares(lab, run, 100.0, 299.0, "the limit of RFC 8868 for similar RTTs")
    caption = "Five calls with one-way delays of 10, 25, 50, 100 and 150 ms begin every 10 s over 4 Mb/s."
    draw(lab, run, "Different round-trip times", caption)
    return f"Five videos use {share:.0%} of what fits, and the ratio of their rates is {ratio:.2f}"


def expect_floor(lab: Laboratory, run: Session, begin: float, end: float, where: str = "") -> float:
    """Require that the mean rates of 10 s are the minimum rate of media or more; return the lowest [bit/s]."""
    edges = np.arange(begin, end - LATE + 1e-9, LATE)
    lowest = min(float(run.goodput(edge, edge + LATE)[: len(run.calls)].min()) for edge in edges)
    lab.expect(
        f"lowest rate of a video in 10 s over the minimum rate{where}",
        lowest / MIN_RATE,
        at_least=0.9,
        note="a tenth less for losses",
    )
    return lowest


@case("rfc8867-tcp", *NEEDS, cost=0.5)
def beside_long_tcp(lab: Laboratory) -> str:
    results = []
    for queue in (0.3, 1.0):
        tcp = Flow([0], stop=119.0, access_delay=DELAY, packet_size=TCP_PACKET)
        run = session(lab, 120.0, 2e6, [Call(119.0, start=5.0)], queue=queue, tcp=[tcp])
        where = f" ({1e3 * queue:g} ms)"
        report(lab, run, where, {"5 to 119 s": (5.0, 119.0)})
        expect_floor(lab, run, 15.0, 119.0, where)
        rates = run.goodput(15.0, 119.0)
        lab.note(f"goodput of TCP{where}", float(rates[2]) / 1e6, "Mb/s")
        lab.note(f"share of TCP packets that are lost{where}", run.lost_share(2))
        draw(lab, run, f"A long TCP flow{where}", "A call begins at 5 s beside TCP over 2 Mb/s.", [5.0])
        results.append(f"{float(rates[0]) / 1e6:.2f} Mb/s with a queue of {1e3 * queue:g} ms")
    return f"Beside a long TCP flow over 2 Mb/s the video has {' and '.join(results)}"


@case("rfc8867-short", *NEEDS, cost=1)
def beside_short_tcp(lab: Laboratory) -> str:
    tcp = [
        Flow([0], stop=299.0, access_delay=DELAY, packet_size=TCP_PACKET, writes=Downloads(is_on=k < 2))
        for k in range(10)
    ]
    run = session(lab, 300.0, 2e6, [Call(299.0, start=5.0)] * 2, tcp=tcp)
    report(lab, run, "", {"5 to 299 s": (5.0, 299.0)})
    lowest = expect_floor(lab, run, 15.0, 299.0)
    rates = run.goodput(15.0, 299.0)
    used = float(rates.sum()) / 2e6
    lab.expect("goodput of all flows over the capacity, 15 to 299 s", used, at_least=0.7)
    lab.note("goodput of the ten TCP flows", float(rates[4:].sum()) / 1e6, "Mb/s")
    total = run.trace.run.data["rate"].to_numpy()[run.inside(15.0, 299.0), 4:].sum(axis=1)
    lab.note("rate of the TCP flows, deviation over mean", float(total.std() / max(total.mean(), 1.0)))
    draw(lab, run, "Short TCP flows", "Two calls beside ten flows that download 30 to 50 kB at a time over 2 Mb/s.")
    return f"Beside short TCP flows a video has {lowest / 1e6:.2f} Mb/s or more in each 10 s"


@case("rfc8867-pause", *NEEDS, "parameter pauses", cost=0.5)
def pause_and_resume(lab: Laboratory) -> str:
    calls = [Call(119.0), Call(119.0, pauses=(40.0, 60.0)), Call(119.0)]
    run = session(lab, 120.0, 3.5e6, calls)
    report(lab, run, "", {"0 to 40 s": (0.0, 40.0), "40 to 60 s": (40.0, 60.0), "60 to 119 s": (60.0, 119.0)})
    lab.note("convergence time of the video that resumes", run.convergence(1, 60.0, 119.0), "s")
    during = float(run.goodput(50.0, 60.0)[[0, 2]].min()) / MAX_RATE
    lab.expect("lowest rate of the other videos over the maximum, 50 to 60 s", during, at_least=0.8)
    before, after = run.goodput(20.0, 40.0)[:3], run.goodput(99.0, 119.0)[:3]
    change = float(np.abs(after / np.maximum(before, 1.0) - 1.0).max())
    lab.expect("largest relative change of a rate, 99 to 119 s against 20 to 40 s", change, at_most=0.25)
    expect_shares(lab, run, 99.0, 119.0)
    draw(lab, run, "Pause and resume", "The second of three videos pauses between the lines.", [40.0, 60.0])
    return f"During the pause the others have {during:.0%} of their maximum; afterwards rates differ by {change:.0%}"
