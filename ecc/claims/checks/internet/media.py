"""Checks of claims on controllers of real-time media: marks per RTT of SCReAM, and over-use and competition of GCC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from ecc import packet
from ecc.claims.checks.internet.prague import OneIn5, OneIn20, OneIn100
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import GCC, NewReno, SCReAM
from ecc.network.network import Flow, Link, Network
from ecc.queues import RampMarking
from ecc.scenario import Scenario

PACKET = 1360
"""Packets of the figure in SCReAM's README [bytes]."""
AVERAGE_OF_2023: dict[str, Any] = {"gain_up": 1.0 / 16.0, "gain_down": 1.0 / 16.0, "alpha_interval": 0.03}
"""The average of the share of marks in the program when the figure was made."""
RATES = {OneIn5: 4.3e6, OneIn20: 18e6, OneIn100: 93e6}
"""Rates in the figure at shares of marks of 1/5, 1/20 and 1/100, read from its curve [bit/s]."""
DURATION, SKIPPED = 200.0, 50
CAPACITY = 10e6
MIN_RATE = 150e3


def l4s_host(**given: Any) -> SCReAM:
    """Return a host of L4S that ignores delays."""
    return SCReAM(max_rate=1e9, ecn="l4s", queue_target=1.0, max_queue_target=1.0, **given)


def marked_packets(hosts: SCReAM, marks: type[OneIn20], rtt: float) -> float:
    """Return the mean number of marked packets in a window at a fixed share of marks, without a queue."""
    network = Network.dumbbell("1 Gb/s", [rtt], packet_size=PACKET)
    scenario = Scenario(network, {"flows": hosts, "links": marks(mark=True)}, DURATION)
    run = packet.simulate(scenario, sample=1.0, record=["flow.window"])
    return marks.share * float(run["flow.window"][SKIPPED:].mean()) / PACKET


@check("scream-figure", cost=3)
def scream_figure(claim: Claim) -> Finding:
    """Run flows with a fixed random share of marked packets, with the average of marks of 2023 and of today."""
    measured, before, now = [], list[float](), list[float]()
    for marks, rate in RATES.items():
        then = marked_packets(l4s_host(report_interval=0.005, **AVERAGE_OF_2023), marks, 0.025)
        today = marked_packets(l4s_host(report_interval=0.005), marks, 0.025)
        drawn = marks.share * rate * 0.025 / (8.0 * PACKET)
        for values, value, name in ((before, then, "average of 2023"), (now, today, "present average")):
            values.append(value)
            measured.append(
                Measurement(
                    f"marked packets per window, p = {marks.share:g}, {name}",
                    value,
                    reported=2.0,
                    note=f"figure: {drawn:.2f}",
                    met=1.6 < value < 2.4,
                )
            )
    met = [bool(each.met) for each in measured]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(met) else Verdict.CONDITIONAL if any(met) else Verdict.REFUTED,
        f"A window has {min(before):.2f} to {max(before):.2f} marked packets with the average that the program had "
        f"when the figure was made, and {min(now):.2f} to {max(now):.2f} with the present one. It rises by 1/8 and "
        "falls by 1/128 of the difference, and is then 2 to 3 times the share of independent marks. The draft notes "
        "that there can be fewer than two.",
        measured,
        (),
        [
            f"1 Gb/s, RTT 25 ms, packets of {PACKET} bytes, reports every 5 ms; marks at random with a fixed p; "
            f"{SKIPPED} to {DURATION:g} s. Met: within 20 %."
        ],
    )


def ramp(rtt: float, divided: bool) -> tuple[float, float]:
    """Return marked packets per RTT, and deviation over mean of the window, of one flow marked by a ramp."""
    network = Network.dumbbell(CAPACITY, [rtt], packet_size=PACKET)
    marking = RampMarking(min_threshold=1.8, max_threshold=9.2, packet_size=float(PACKET))  # 2 and 10 ms
    hosts = replace(l4s_host(report_interval=0.0125), max_rate=2.0 * CAPACITY, divided=divided)
    scenario = Scenario(network, {"flows": hosts, "links": marking}, DURATION)
    run = packet.simulate(scenario, sample=0.05, record=["flow.window"])
    late = int(SKIPPED / 0.05)
    window = run["flow.window"].to_numpy()[late:, 0]
    marks = float(run.marks[late:].sum()) / (DURATION - SKIPPED)
    return marks * float(run.rtt[late:].mean()), float(window.std() / window.mean())


@check("scream-marks", cost=1)
def scream_marks(claim: Claim) -> Finding:
    """Count the marked packets per RTT at random marks, and at those of a ramp over the queue of a flow."""
    measured = []
    for marks, rtt in product((OneIn5, OneIn20), (0.025, 0.1)):
        value = marked_packets(l4s_host(), marks, rtt)
        measured.append(
            Measurement(
                f"random marks, p = {marks.share:g}, RTT {1e3 * rtt:g} ms",
                value,
                reported="2 or fewer",
                met=0.0 < value < 2.1,
            )
        )
    for rtt in (0.025, 0.05, 0.1):
        value = ramp(rtt, divided=True)[0]
        measured.append(Measurement(f"ramp, RTT {1e3 * rtt:g} ms", value, reported="2 or fewer", met=0.0 < value < 2.1))
    values = [float(each.value) for each in measured]
    met = all(each.met for each in measured)
    return Finding(
        claim,
        Verdict.CONFIRMED if met else Verdict.REFUTED,
        f"There are {min(values):.2f} to {max(values):.2f} marked packets per RTT.",
        measured,
        (),
        [
            f"Packets of {PACKET} bytes, {SKIPPED} to {DURATION:g} s. Random marks: 1 Gb/s, reports every 20 ms. Ramp: "
            "10 Mb/s, from 2 to 10 ms of queue, reports every 12.5 ms. Met: below 2.1."
        ],
    )


@check("scream-division", cost=1)
def scream_division(claim: Claim) -> Finding:
    """Compare the deviations of windows with and without the division, at RTTs above VIRTUAL_RTT."""
    measured = []
    for rtt in (0.05, 0.1, 0.2):
        (_, divided), (_, plain) = ramp(rtt, True), ramp(rtt, False)
        measured.append(
            Measurement(
                f"deviation of the window over its mean, RTT {1e3 * rtt:g} ms",
                divided,
                note=f"{plain:.4f} without the division",
                met=divided < plain,
            )
        )
    met = [bool(each.met) for each in measured]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(met) else Verdict.CONDITIONAL if any(met) else Verdict.REFUTED,
        f"Variations of the window are smaller with the division at {sum(met)} of {len(met)} RTTs.",
        measured,
        (),
        [
            f"10 Mb/s, one flow, packets of {PACKET} bytes, marks from 2 to 10 ms of queue, reports every 12.5 ms; "
            f"{SKIPPED} to {DURATION:g} s."
        ],
    )


SOURCES: Mapping[str, dict[str, Any]] = {
    "evenly spaced packets": {},
    "paced frames": {"frames": 30.0},
    "whole frames": {"frames": 30.0, "headroom": 20.0},
}
"""Sources -> parameters: 30 frames per second, sent at 1.5 or 20 times the rate."""


@check("gcc-overuse", cost=1)
def gcc_overuse(claim: Claim) -> Finding:
    """Run one flow without a limit of the queue: with the gradient of the text, and times the number of groups."""
    measured: dict[float, list[Measurement]] = {1.0: [], 60.0: []}
    queues = []
    for groups, (name, source) in product(measured, SOURCES.items()):
        network = Network.dumbbell("1 Mb/s", ["100 ms"], packet_size=500)
        scenario = Scenario(network, GCC(groups=groups, **source), 120.0)
        run = packet.simulate(scenario, sample=0.1, record=["flow.x", "flow.decreases"])
        decreases, queue = int(run["flow.decreases"][-1, 0]), 8.0 * float(run.queue[600:].mean()) / 1e6
        rate = float(run["flow.x"][600:, 0].mean()) / 1e6
        queues += [queue] if groups == 1.0 and decreases else []
        measured[groups].append(
            Measurement(
                f"over-uses in 120 s, {name}, {'gradient of the text' if groups == 1.0 else 'times groups'}",
                decreases,
                note=f"last 60 s: {rate:.2f} of the capacity, mean queue {1e3 * queue:.0f} ms",
                met=decreases > 0,
            )
        )
    text, program = ([bool(each.met) for each in values] for values in measured.values())
    undetected = [name for name, met in zip(SOURCES, text, strict=True) if not met]
    detected = [name for name in SOURCES if name not in undetected]
    where = f" It is detected for {' and '.join(detected)}, at a mean queue of {max(queues):.1f} s." if detected else ""
    met = [*text, *program]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(met) else Verdict.CONDITIONAL if any(met) else Verdict.REFUTED,
        f"With the factor of the programs, the number of groups up to 60, over-use is detected for {sum(program)} of "
        f"{len(program)} sources. With the gradient alone, as in the text, it is not detected for "
        f"{' and '.join(undetected) or 'no source'}, where only the bound of 1.5 times the received rate holds.{where}",
        [each for values in measured.values() for each in values],
        (),
        ["1 Mb/s, RTT 100 ms, packets of 500 bytes, maximum rate 1.5 Mb/s, no limit of the queue, no losses."],
    )


def share_against_reno(hosts: GCC, buffer: float) -> float:
    """Return the mean rate of a flow next to NewReno [bit/s], which starts at 20 s; `buffer` [s]."""
    flows = [Flow([0], access_delay=0.05, packet_size=500), Flow([0], access_delay=0.05, start=20.0)]
    network = Network([Link(2e6, buffer=int(buffer * 2e6 / 8.0))], flows)
    pair = {0: replace(hosts, min_rate=MIN_RATE, max_rate=2.5e6), 1: NewReno(transport="sack")}
    return float(packet.simulate(Scenario(network, {"flows": pair}, 140.0), sample=1.0).goodput[40:, 0].mean())


@check("gcc-starvation", cost=1)
def gcc_starvation(claim: Claim) -> Finding:
    """Measure the rate of GCC next to NewReno with a fixed and with the adaptive threshold."""
    measured, ratios, starved = [], [], []
    for (name, source), buffer in product(SOURCES.items(), (0.1, 0.3, 1.0)):
        hosts = GCC(**source)
        fixed, adaptive = (
            share_against_reno(each, buffer) for each in (replace(hosts, gain_up=0.0, gain_down=0.0), hosts)
        )
        ratios.append(adaptive / fixed)
        starved.append(fixed < 2.0 * MIN_RATE)
        measured.append(
            Measurement(
                f"rate with the adaptive threshold, {name}, queue of {1e3 * buffer:g} ms",
                adaptive / 1e6,
                "Mb/s",
                note=f"fixed threshold: {fixed / 1e6:.2f} Mb/s",
                met=adaptive > 2.0 * MIN_RATE,
            )
        )
    met = [bool(each.met) for each in measured]
    whole = [float(each.value) for each in measured if "whole" in each.name]
    return Finding(
        claim,
        Verdict.REFUTED if not any(met) else Verdict.CONFIRMED if all(met) and any(starved) else Verdict.CONDITIONAL,
        f"With the fixed threshold the flow is starved in {sum(starved)} of {len(starved)} cases; with the adaptive "
        f"one in {len(met) - sum(met)}. The rate rises by a factor of {min(ratios):.2f} to {max(ratios):.2f}. Whole "
        f"frames have {min(whole):.2f} to {max(whole):.2f} Mb/s of a fair share of 1 Mb/s.",
        measured,
        (),
        [
            "2 Mb/s, RTT 100 ms, one flow of each from 40 to 140 s; packets of 500 bytes; gradient times the number of "
            "groups, as in the programs. Starved: below 0.3 Mb/s, twice the minimum rate."
        ],
    )
