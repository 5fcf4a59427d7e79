"""NADA: delay margins, boundaries, filter of delays, cycle of the ramp-up, frames. GCC: cycle, drops, TCP. SCReAM.

    python benchmarks/media.py [margins | limits | boundary | filter | cycles | frames | cases]
    python benchmarks/media.py [gcc_cycles | gcc_drop | gcc_tcp]
    python benchmarks/media.py [scream_marks | scream_rtts | scream_loop | scream_frames]
    python benchmarks/media.py [scream_cycles | scream_queue]

prints the tables of docs/media.md.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

import ecc
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem
from ecc.models import GCC, NADA, NewReno, SCReAM
from ecc.models import scream as media_window
from ecc.models.shared import feedback
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Flow, Link, Network
from ecc.queues import RampMarking
from ecc.queues.discipline import QueueDiscipline, congested_at_random
from ecc.scenario import Scenario

C = 1e6
"""Capacity [bit/s]."""
FORMS = ("draft", "libwebrtc")
GCCS = {f"GCC({form!r})": GCC(form) for form in FORMS}
SCREAMS = {"SCReAM()": SCReAM(), "SCReAM(min_calm=1)": SCReAM(min_calm=1.0)}
CONTROLLERS: dict[str, Any] = {**GCCS, "GCC(groups=1)": GCC(groups=1.0), **SCREAMS}
GCC_CASES = (
    (1e6, 0.05, 0.1),
    (1e6, 0.1, 0.1),
    (1e6, 0.2, 0.1),
    (1e6, 0.3, 0.1),
    (1e6, 0.1, 0.05),
    (2e6, 0.1, 0.1),
    (4e6, 0.1, 0.1),
)
"""Capacity [bit/s], RTT [s] and report interval [s]."""


def row(*cells: object) -> None:
    """Print a row of a Markdown table.

    Parameters
    ----------
    *cells : object
    """
    print("|", " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells), "|", flush=True)


def link(rtt: float, flows: int = 1, size: int = 50) -> Network:
    """Return a link of 1 Mb/s with an unlimited buffer."""
    return Network.dumbbell(C, rtts=[rtt] * flows, packet_size=size)


def limit(protocol: NADA, flows: int, time: str) -> float:
    """Return the RTT at which a linear model loses its stability, to 0.1 ms."""
    low, high = 0.005, 1.5
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        is_stable = ecc.linearize(protocol, link(middle, flows), time=time).is_stable
        low, high = (middle, high) if is_stable else (low, middle)
    return low


def margins() -> None:
    """Print the delay margin of the law without report clock, with its crossover frequency and phase margin."""
    p = NADA()
    row("RMAX/C", "delay margin [s]", "frequency [rad/s]", "phase margin [deg]", "proven 0.1 % inside and outside")
    for ratio in (1.0, 1.5, 3.0, 10.0):

        def law(delay: float, ratio: float = ratio) -> DelaySystem:
            now = [[-p.kappa * p.reference * ratio / p.tau**2, 0.0], [1.0, 0.0]]
            return DelaySystem([now, [[-p.kappa * p.eta / p.tau, -p.kappa / p.tau**2], [0.0, 0.0]]], [0.0, delay])

        margin = brentq(lambda delay: law(delay).spectral_abscissa, 0.1, 1.0)
        frequency = abs(complex(law(margin).roots(1)[0]).imag)
        proven = law(0.999 * margin).certify().stable is True and law(1.001 * margin).certify().stable is False
        row(ratio, f"{margin:.4f}", f"{frequency:.3f}", float(np.degrees(frequency * margin)), proven)


def limits() -> None:
    """Print the longest stable RTT of the linear models over report interval, RMAX and flows."""
    row("RMAX/C", "flows", "delta [ms]", "queue [ms]", "continuous [ms]", "discrete [ms]", "hybrid [ms]", "proven")
    for ratio, flows in ((1.5, 1), (3.0, 1), (10.0, 1), (1.5, 2), (1.5, 5)):
        for delta in (0.02, 0.05, 0.1):
            protocol = NADA(interval=delta, max_rate=ratio * C)
            queue = 8e3 * float(protocol.equilibrium(link(0.1, flows)).queue[0] / 8.0) / C
            longest = [limit(protocol, flows, time) for time in ("continuous", "discrete", "hybrid")]
            inside, outside = (
                ecc.linearize(protocol, link(share * longest[-1], flows), time="hybrid").certify().stable
                for share in (0.995, 1.005)
            )
            row(ratio, flows, 1e3 * delta, queue, *(f"{1e3 * rtt:.0f}" for rtt in longest), inside and outside is False)


def growth(protocol: NADA, rtt: float, engine: str, size: int = 20) -> float:
    """Return the growth of a small deviation of the rate from the equilibrium [1/s]."""
    scenario = Scenario(link(rtt, size=size), protocol, 40.0)
    if engine == "packets":
        run = ecc.packet.simulate(scenario, sample=0.05, start="equilibrium", perturbation=2e-4, record=["flow.x"])
        rate = run["flow.x"].to_numpy()[:, 0] - C
    else:
        run = ecc.fluid.simulate(scenario, sample=0.05, start="equilibrium", perturbation=2e-4, time="discrete")
        rate = run.rate.to_numpy()[:, 0] - C
    early, late = (np.sqrt(np.mean(part**2)) for part in (rate[160:400], rate[480:720]))
    return float(np.log(late / early) / 16.0)


def crossing(protocol: NADA, near: float, engine: str, size: int = 20) -> float:
    """Return the RTT at which small deviations neither grow nor decay, by secants from both sides of `near`."""
    return float(brentq(lambda rtt: growth(protocol, rtt, engine, size), 0.93 * near, 1.06 * near, xtol=5e-4))


def boundary() -> None:
    """Print the boundary in RTTs of the hybrid model, fluid and packets, without the filter of delays."""
    row("RMAX/C", "delta [ms]", "hybrid [ms]", "fluid/hybrid - 1 [%]", "packets/hybrid - 1 [%]")
    for ratio in (1.5, 10.0):
        for delta in (0.02, 0.05, 0.1):
            protocol = NADA(interval=delta, max_rate=ratio * C, taps=1)
            rtt = limit(protocol, 1, "hybrid")
            errors = [100.0 * (crossing(protocol, rtt, engine) / rtt - 1.0) for engine in ("fluid", "packets")]
            row(ratio, 1e3 * delta, f"{1e3 * rtt:.0f}", *(f"{error:+.2f}" for error in errors))


def swing(protocol: NADA, rtt: float, size: int, start: str = "empty", perturbation: float = 0.0) -> float:
    """Return the largest late deviation of the rate from its equilibrium, as a share of it."""
    scenario = Scenario(link(rtt, size=size), protocol, 120.0)
    run = ecc.packet.simulate(scenario, sample=0.1, start=start, perturbation=perturbation, record=["flow.x"])
    return float(np.abs(run["flow.x"].to_numpy()[800:, 0] / C - 1.0).max())


def delay_filter() -> None:
    """Print late swings of the rate over RTT, packets of the filter, and packet size, from a small deviation."""
    row("packet [bytes]", "packets of the filter", *(f"RTT {1e3 * rtt:.0f} ms" for rtt in RTTS))
    for size in (50, 200, 1000):
        for taps in (1, 15):
            protocol = NADA(taps=taps)
            found = [swing(protocol, rtt, size, "equilibrium", 1e-3) for rtt in RTTS]
            row(size, taps, *(f"{100.0 * value:.1f} %" for value in found))


def cycles() -> None:
    """Print late swings of the rate of flows that ramp up, over RTT and report interval."""
    row("delta [ms]", "packets of the filter", *(f"RTT {1e3 * rtt:.0f} ms" for rtt in RTTS))
    for delta in (0.02, 0.05, 0.1):
        for taps in (1, 15):
            found = [swing(NADA(interval=delta, taps=taps), rtt, 200) for rtt in RTTS]
            row(1e3 * delta, taps, *(f"{100.0 * value:.1f} %" for value in found))


RTTS = (0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.44, 0.48)
"""RTTs of the tables of swings [s]."""


def frames() -> None:
    """Print metrics of frames over the variation of their size."""
    row("noise", "key frames", "rate/C", "mean delay [ms]", "95th percentile [ms]", "freezes", "frames/s")
    for noise, every, factor in ((0.0, 0, 1.0), (0.1, 0, 1.0), (0.2, 0, 1.0), (0.1, 300, 4.0), (0.1, 30, 4.0)):
        hosts = NADA(frames=30.0, noise=noise, key_every=every, key_factor=factor)
        scenario = Scenario(link(0.1, size=1000), hosts, 120.0)
        run = ecc.packet.simulate(scenario, sample=0.1, record=[*ecc.metrics.FRAME_FIELDS])
        span = (20.0, 120.0)
        metrics = ecc.metrics
        row(
            noise,
            f"every {every}, {factor:g} times" if every else "no",
            metrics.goodput(run, scenario, 0, between=span) / C,
            1e3 * metrics.frame_delay(run, scenario, between=span),
            1e3 * metrics.p95_frame_delay(run, scenario, between=span),
            metrics.freezes(run, scenario, between=span),
            metrics.frame_rate(run, scenario, between=(20.0, 119.0)),
        )


def cases() -> None:
    """Print the numbers outside their bands in the cases of RFC 8867."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    custom = importlib.import_module("delay_target").DelayTarget()
    row("controller", "case", "measurement", "value", "required")
    for name, hosts in {
        "NADA()": NADA(),
        "NADA, QEPS 30 ms": NADA(empty=0.03),
        "DelayTarget()": custom,
        **CONTROLLERS,
    }.items():
        for finding in ecc.conform.run(hosts, cases=["rfc8867"]).findings:
            row(name, finding.claim.id, str(finding.verdict), "", "")
            for measurement in finding.measurements:
                if measurement.met is False:
                    row(name, finding.claim.id, measurement.name, measurement.value, measurement.reported)


def gcc_cycle_of_model(hosts: GCC, network: Network) -> tuple[float, float]:
    """Return period [s] and range of the queue [ms]; NaN if there is no cycle."""
    try:
        cycle = ecc.stability.limit_cycle(hosts, network)
    except LinearizationError:
        return np.nan, np.nan
    return cycle.period, 16e3 * cycle.amplitude / float(network.capacities[0])


def gcc_cycle_of_packets(hosts: GCC, network: Network, units: float) -> tuple[float, float]:
    """Return period [s] and range of the queue [ms] from 100 to 400 s; reports round arrivals to 1/`units` s.

    Without two over-uses the period is NaN, and the range is that of the whole time.
    """
    feedback.ATO_UNITS = units
    run = ecc.packet.simulate(Scenario(network, hosts, 400.0), sample=0.01, record=["flow.x", "flow.decreases"])
    time, queue, peaks = run.data["time"].to_numpy(), run.queue.to_numpy()[:, 0], run.queue_max.to_numpy()[:, 0]
    rate, decreases = run["flow.x"].to_numpy()[:, 0], run["flow.decreases"].to_numpy()[:, 0]
    capacity = float(network.capacities[0])
    ends = np.flatnonzero((np.diff(decreases) > 0) & (rate[:-1] > capacity) & (time[:-1] > 100.0))
    if len(ends) < 2:
        return np.nan, 8e3 * float(np.ptp(queue[time > 100.0])) / capacity
    swing = float(np.mean([peaks[a:b].max() - queue[a:b].min() for a, b in pairwise(ends)]))
    return float(np.diff(time[ends]).mean()), 8e3 * swing / capacity


def gcc_cycles() -> None:
    """Print the cycle of GCC, one flow: the model, packets as in RFC 8888, packets with fine reports."""
    row(
        "form",
        "C [Mb/s]",
        "RTT [ms]",
        "delta [ms]",
        "period [s]: model",
        "packets",
        "fine reports",
        "queue [ms]: model",
        "...",
    )
    spawn = get_context("spawn")
    with spawn.Pool(2, maxtasksperchild=1) as pool:  # compiled hooks keep the constants of the process
        for form in FORMS:
            for capacity, rtt, delta in GCC_CASES:
                network = Network.dumbbell(capacity, rtts=[rtt], packet_size=500)
                hosts = GCC(form, min_rate=0.3 * capacity, max_rate=2.0 * capacity, report_interval=delta)
                period, swing = gcc_cycle_of_model(hosts, network)
                cases = [(hosts, network, units) for units in (1024.0, 65536.0)]
                periods, swings = zip(*pool.starmap(gcc_cycle_of_packets, cases, chunksize=1), strict=True)
                row(form, capacity / 1e6, 1e3 * rtt, 1e3 * delta, period, *periods, swing, *swings)


def gcc_drop() -> None:
    """Print the response of GCC to a capacity that falls from 1 to 0.5 Mb/s at 60 s, with a queue of 300 ms."""
    row("controller", "reduced below 0.5 Mb/s after [s]", "largest queue [ms]", "lost", "rate/C, last 30 s")
    network = Network.dumbbell(C, rtts=[0.1], packet_size=500, buffer=37_500)
    drop = CapacitySchedule(link=0, times=[60.0], capacities=[0.5e6])
    for name, hosts in {**CONTROLLERS, "NADA()": NADA()}.items():
        run = ecc.packet.simulate(Scenario(network, hosts, 120.0, impairments=[drop]), sample=0.05, record=["flow.x"])
        rate, queue = run["flow.x"].to_numpy()[:, 0], run.queue.to_numpy()[:, 0]
        below = 0.05 * float(np.flatnonzero(rate[1200:] <= 0.5e6)[0])
        late = float(run.goodput[-600:].mean()) / 0.5e6
        row(name, below, 8e3 * queue[1200:].max() / 0.5e6, int(run.flows["lost"].sum()) // 500, late)


def gcc_tcp() -> None:
    """Print the shares of GCC and of one NewReno flow that starts at 20 s, 2 Mb/s, RTT 100 ms, until 140 s."""
    row("controller", "queue [ms]", "media [Mb/s]", "NewReno [Mb/s]", "mean queue [ms]")
    fixed: dict[str, Any] = {
        f"{name}, fixed threshold": replace(each, gain_up=0.0, gain_down=0.0) for name, each in GCCS.items()
    }
    for name, hosts in {**CONTROLLERS, **fixed, "NADA()": NADA()}.items():
        for buffer in (0.1, 0.3, 1.0):
            flows = [Flow([0], access_delay=0.05, packet_size=500), Flow([0], access_delay=0.05, start=20.0)]
            network = Network([Link(2e6, buffer=int(buffer * 2e6 / 8.0))], flows)
            protocols = {"flows": {0: replace(hosts, max_rate=2.5e6), 1: NewReno(transport="sack")}}
            run = ecc.packet.simulate(Scenario(network, protocols, 140.0), sample=1.0)
            rates = run.goodput[40:].mean("time").to_numpy() / 1e6
            row(name, 1e3 * buffer, *rates.tolist(), 8e3 * float(run.queue[40:].mean()) / 2e6)


FIGURE = {0.3: 2.8, 0.2: 4.3, 0.1: 9.0, 0.05: 18.0, 0.02: 46.0, 0.01: 93.0}
"""Rates in Mb/s at probabilities of marks, read from Figure 1 of the README of SCReAM (of September 2023)."""
SPLIT = {"gain_up": 1.0 / 16.0, "gain_down": 1.0 / 16.0, "alpha_interval": 0.03}
"""The average of marks of the program in that month: 1/16 up and down, every 30 ms or RTT."""
SIZE = 1360
"""Packets of that figure [bytes]."""


@dataclass(frozen=True)
class RandomMarks(QueueDiscipline):
    """Marking with a constant probability."""

    mark: bool = field(default=True, kw_only=True)
    share: float = 0.1
    required_env = frozenset({"random"})

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": mark_at_random}


def mark_at_random(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Mark the packet or not."""
    congested_at_random(p.share, p, env)


def marked_host(**given: Any) -> SCReAM:
    """Return a host of L4S whose delays play no role."""
    return SCReAM(max_rate=1e9, ecn="l4s", queue_target=1.0, max_queue_target=1.0, **given)


def window_of_packets(hosts: SCReAM, probability: float, rtt: float) -> float:
    """Return the mean window from 50 to 400 s with random marks [packets]."""
    network = Network.dumbbell("1 Gb/s", rtts=[rtt], packet_size=SIZE)
    protocols = {"flows": hosts, "links": RandomMarks(share=probability)}
    run = ecc.packet.simulate(Scenario(network, protocols, 400.0), sample=0.1, record=["flow.window"])
    return float(run["flow.window"][500:].mean()) / SIZE


def scream_marks() -> None:
    """Print window times probability of marks over packet size: model, packets, and the figure of the README."""
    row("p", "figure", "5 ms, gains 1/16", "5 ms", "20 ms", "model, 20 ms", "model/packets - 1 [%]", "window [packets]")
    for probability, rate in FIGURE.items():
        packets = probability * window_of_packets(marked_host(), probability, 0.025)
        before, often = (
            probability * window_of_packets(marked_host(report_interval=0.005, **gains), probability, 0.025)
            for gains in (SPLIT, {})
        )
        figure = probability * rate * 1e6 * 0.025 / (8.0 * SIZE)
        if probability >= 0.02:
            model = probability * marked_host().marked_window(probability, 0.025, SIZE) / SIZE
            row(
                probability,
                figure,
                before,
                often,
                packets,
                model,
                100.0 * (model / packets - 1.0),
                packets / probability,
            )
        else:
            row(probability, figure, before, often, packets, "", "", packets / probability)


def scream_rtts() -> None:
    """Print the effect of the division by s_rtt/VIRTUAL_RTT: random marks of 5 %, and a ramp of marks at 10 Mb/s."""
    row("RTT [ms]", "divided", "model: W p/MSS", "packets", "ramp: rate/C", "deviation of the rate/C", "queue [ms]")
    for rtt in (0.0125, 0.025, 0.05, 0.1, 0.2):
        for divided in (True, False):
            hosts = marked_host(divided=divided, report_interval=0.0125)
            model, packets = (
                0.05 * window
                for window in (hosts.marked_window(0.05, rtt, SIZE) / SIZE, window_of_packets(hosts, 0.05, rtt))
            )
            network = Network.dumbbell("10 Mb/s", rtts=[rtt], packet_size=SIZE)
            marking = RampMarking(min_threshold=1.8, max_threshold=9.2, packet_size=float(SIZE))  # 2 and 10 ms
            protocols = {"flows": replace(hosts, max_rate=2e7), "links": marking}
            run = ecc.packet.simulate(Scenario(network, protocols, 300.0), sample=0.05, record=["flow.x"])
            rate = run["flow.x"].to_numpy()[2000:, 0] / 1e7
            queue = 8e3 * float(run.queue[2000:].mean()) / 1e7
            row(1e3 * rtt, divided, model, packets, float(run.goodput[2000:].mean()) / 1e7, float(rate.std()), queue)


def deviations(rtt: float, interval: float, size: int, frames: float = 0.0, units: float = 1048576.0) -> np.ndarray:
    """Return the deviation of the rate from 10 Mb/s in each 10 s of 400 s, with a window that does not move.

    `rtt` includes a queue of 40 %. Reports round arrivals to 1/`units` s.
    """
    feedback.ATO_UNITS = units
    capacity = 1e7
    p = SCReAM().namespace()
    window = brentq(lambda w: 8.0 * w * media_window.media_share(w, size, 0.0, p) / rtt - capacity, size, 1e9)
    hosts = SCReAM(
        min_window=round(window),
        min_rate=0.05 * capacity,
        max_rate=10.0 * capacity,
        report_interval=interval,
        queue_target=5.0,
        max_queue_target=5.0,
        window_headroom=1e-9,
        min_overhead=3.0,
        competing=False,
        frames=frames,
    )
    network = Network.dumbbell(capacity, rtts=[0.6 * rtt], packet_size=size)
    run = ecc.packet.simulate(Scenario(network, hosts, 400.0), sample=interval, record=["flow.x"])
    rate = run["flow.x"].to_numpy()[:, 0] / capacity - 1.0
    return np.array([float(np.sqrt(np.mean(part**2))) for part in np.array_split(rate, 40)])


def scream_loop() -> None:
    """Print growth of small deviations of the rate over the RTT: hybrid model, and packets of 1/60 report interval."""
    row("delta [ms]", "RTT/delta", "hybrid [1/s]", "packets [1/s]")
    for interval, size in ((0.02, 409), (0.05, 1021)):
        for ratio in (0.85, 0.9, 1.06, 1.12, 1.17, 1.27):
            system = SCReAM(report_interval=interval).rate_loop(ratio * interval)
            parts = deviations(ratio * interval, interval, size)
            small = np.flatnonzero((parts < 0.02) & (parts > 5e-4)) if ratio > 1.0 else np.arange(30, 40)
            slope = np.polyfit(10.0 * small, np.log(parts[small]), 1)[0]
            row(1e3 * interval, ratio, f"{np.log(system.spectral_radius) / interval:+.4f}", f"{slope:+.4f}")


def scream_frames() -> None:
    """Print the limit in RTTs of the rate loop with an encoder, and late deviations of the rate on both sides."""
    around = (0.8, 0.9, 0.95, 1.05, 1.1)
    row("frames/s", "hybrid limit [ms]", *(f"packets at {share:g} times [%]" for share in around))
    for frames in (25.0, 30.0, 50.0):
        hosts = SCReAM(frames=frames)
        limit = float(brentq(lambda rtt, hosts=hosts: hosts.rate_loop(rtt).spectral_radius - 1.0, 0.03, 1.2))
        late = [deviations(share * limit, 0.02, 709, frames)[-1] for share in around]
        row(frames, 1e3 * limit, *(100.0 * float(value) for value in late))


def scream_fluid() -> None:
    """Print mean rates and queues of SCReAM in fluid and packet runs, 10 Mb/s, from 60 to 120 s."""
    row("RTTs [ms]", "signal", "rates [Mb/s]: fluid", "packets", "queue [ms]: fluid", "packets")
    ramp = RampMarking(min_threshold=2.0, max_threshold=20.0, packet_size=500.0)
    for rtts, ecn, buffer in (
        ([0.1], "none", None),
        ([0.05, 0.15], "none", None),
        ([0.1], "classic", None),
        ([0.04], "l4s", None),
        ([0.1], "l4s", None),
        ([0.1], "none", 20_000),
    ):
        network = Network.dumbbell("10 Mb/s", rtts=rtts, packet_size=500, buffer=buffer)
        hosts: Any = SCReAM(max_rate="20 Mb/s", ecn=ecn)
        scenario = Scenario(network, hosts if ecn == "none" else {"flows": hosts, "links": ramp}, 120.0)
        runs = [engine.simulate(scenario, sample=0.05) for engine in (ecc.fluid, ecc.packet)]
        rates = [" and ".join(f"{rate / 1e6:.3g}" for rate in run.rate[1200:].mean("time").to_numpy()) for run in runs]
        queues = [8e3 * float(run.queue[1200:].mean()) / 1e7 for run in runs]
        row([round(1e3 * rtt) for rtt in rtts], f"{ecn}, buffer {buffer}", *rates, *queues)


def scream_cycles() -> None:
    """Print the cycle of SCReAM without marks: root of the rate loop, model, and packets from 100 to 200 s."""
    row("C [Mb/s]", "RTT [ms]", "period [s]: root", "model", "packets", "queue [ms]: model", "packets", "multiplier")
    for capacity in (1e6, 1e7):
        for rtt in (0.02, 0.05, 0.1, 0.2):
            hosts, network = SCReAM(max_rate=3.0 * capacity), Network.dumbbell(capacity, rtts=[rtt], packet_size=500)
            root = complex(hosts.rate_loop(rtt + 0.03).roots(1)[0])
            cycle = ecc.stability.limit_cycle(hosts, network)
            step = 2000.0 / capacity  # half of the service time of a packet
            run = ecc.packet.simulate(Scenario(network, hosts, 200.0), sample=step, record=["flow.reactions"])
            first = round(100.0 / step)
            queue, reactions = run.queue.to_numpy()[first:, 0], run["flow.reactions"].to_numpy()[first:, 0]
            events = np.flatnonzero(np.diff(reactions) > 0)
            begins = events[1:][np.diff(events) * step > 0.075]
            swing = float(np.mean([np.ptp(queue[a:b]) for a, b in pairwise(begins)]))
            row(
                capacity / 1e6,
                1e3 * rtt,
                float(2.0 * np.pi * 0.02 / abs(np.angle(root))),
                cycle.period,
                step * float(np.diff(begins).mean()),
                16e3 * cycle.amplitude / capacity,
                8e3 * swing / capacity,
                float(abs(cycle.multipliers[0])),
            )


def scream_queue() -> None:
    """Print queue and rate of SCReAM over RTT and report interval, at 1 Mb/s, with and without an encoder."""
    row("RTT [ms]", "frames", "delta [ms]", "rate/C", "deviation of the rate [%]", "mean queue [ms]", "largest [ms]")
    for rtt in (0.05, 0.1, 0.2):
        for frames, interval in ((0.0, 0.02), (0.0, 0.1), (30.0, 0.02)):
            hosts = SCReAM(max_rate=2.0 * C, frames=frames, report_interval=interval)
            network = Network.dumbbell(C, rtts=[rtt], packet_size=500)
            run = ecc.packet.simulate(Scenario(network, hosts, 200.0), sample=0.05, record=["flow.x"])
            rate, queue = run["flow.x"].to_numpy()[1000:, 0] / C, 8e3 * run.queue.to_numpy()[1000:, 0] / C
            late = float(run.goodput[1000:].mean()) / C
            row(1e3 * rtt, frames, 1e3 * interval, late, 100.0 * float(rate.std()), queue.mean(), queue.max())


TABLES = {
    "margins": margins,
    "limits": limits,
    "boundary": boundary,
    "filter": delay_filter,
    "cycles": cycles,
    "frames": frames,
    "cases": cases,
    "gcc_cycles": gcc_cycles,
    "gcc_drop": gcc_drop,
    "gcc_tcp": gcc_tcp,
    "scream_marks": scream_marks,
    "scream_rtts": scream_rtts,
    "scream_loop": scream_loop,
    "scream_frames": scream_frames,
    "scream_fluid": scream_fluid,
    "scream_cycles": scream_cycles,
    "scream_queue": scream_queue,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n", flush=True)
        TABLES[name]()
