"""Checks of claims on BBR: its share against loss-based flows, and the program of its published fluid model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc import fluid, packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.env import FluidEnv, Params
from ecc.contract.forms import StateMachine
from ecc.models import CUBIC, BBRv1, BBRv2, NewReno, Protocol
from ecc.models.shared import bbr_fluid
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

CAPACITY, RTT, PACKET = 10e6, 0.04, 1500
PRODUCT = CAPACITY * RTT / (8 * PACKET)  # packets
DURATION, BAND = 400.0, 0.1
PROBE_EVERY, PROBE = 10.0, 0.2  # s
C, BETA = 0.4, 0.7  # constants of RFC 9438; C in packets/s^3
SHIFT = 2.0  # s
GRID, GRID_PACKET, FAIR = 100e6, 1514, 10e6  # the grid of the published model: ten flows
EARLIER = 2.0  # s


def stated_share(flows: int, buffer: float) -> float:
    """Return the stated share of BBR flows with a buffer in bandwidth-delay products."""
    q, c = buffer * PRODUCT, CAPACITY / (8 * PACKET)
    p = 0.5 - 0.5 / buffer - 4.0 * flows / q
    return (1.0 - p) * (1.0 - (q / c + PROBE + RTT) / PROBE_EVERY)


def share(flows: int, rivals: int, buffer: float, other: Protocol) -> float:
    """Return BBR's share of the goodput in a packet run."""
    count = flows + rivals
    network = Network(
        [Link(CAPACITY, RTT / 4, buffer=round(buffer * PRODUCT) * PACKET)],
        [Flow(route=[0], access_delay=RTT / 4, packet_size=PACKET)] * count,
    )
    hosts = {"flows": {range(flows): BBRv1(), range(flows, count): other}}
    goodput = packet.simulate(Scenario(network, hosts, DURATION), sample=1.0).goodput.mean("time").to_numpy()
    return float(goodput[:flows].sum() / goodput.sum())


@check("bbr-share", cost=15, main=False)
def bbr_share(claim: Claim) -> Finding:
    """Run one to four flows against as many or more loss-based flows, with buffers of 2 to 32 products."""
    measured, off = [], {}
    spread: dict[tuple[str, int, float], list[float]] = {}
    for other in (CUBIC(transport="rack"), NewReno(transport="rack")):
        name = type(other).__name__
        for flows, rivals in ((1, 1), (1, 4), (1, 16), (2, 2), (4, 4)):
            for buffer in (2, 4, 8, 16, 32):
                stated, measured_share = stated_share(flows, buffer), share(flows, rivals, buffer, other)
                off[name, flows, rivals, buffer] = measured_share - stated
                spread.setdefault((name, flows, buffer), []).append(measured_share)
                measured.append(
                    Measurement(
                        f"share of {flows} against {rivals} of {name}, {buffer} products",
                        measured_share,
                        reported=stated,
                        met=abs(measured_share - stated) < BAND,
                    )
                )
    near = [key for key, value in off.items() if abs(value) < BAND]
    max_spread = max(max(values) - min(values) for values in spread.values() if len(values) > 1)
    below = sum(value < 0.0 for value in off.values())
    verdict = Verdict.CONFIRMED if len(near) == len(off) else Verdict.CONDITIONAL if near else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"The share is within {BAND:g} of the stated one in {len(near)} of {len(off)} cases. It is lower in {below} "
        f"cases, by up to {max(-value for value in off.values()):.2f}. The shares of one flow against 1 to 16 others "
        f"differ by up to {max_spread:.2f} with the same buffer.",
        measured,
        (),
        [
            "10 Mb/s, RTT 40 ms, packets of 1500 bytes, drop-tail; all flows start together; the whole of "
            f"{DURATION:g} "
            "s. "
            "Hosts use RACK-TLP."
        ],
    )


@check("bbr-fluid-cubic", cost=0.1)
def bbr_fluid_cubic(claim: Claim) -> Finding:
    """Compute the window after a loss and the time to recover it by both formulas."""
    measured, off = [], []
    for window in (20.0, 33.0, 100.0, 307.0, 1000.0, 10_000.0):
        back = (BETA * window / C) ** (1.0 / 3.0)
        remaining = (C * (SHIFT - back) ** 3 + window) / window
        rfc = ((1.0 - BETA) * window / C) ** (1.0 / 3.0)
        off.append(abs(remaining - BETA))
        measured.append(
            Measurement(f"share of {window:g} packets after a loss", remaining, reported=BETA, met=off[-1] < 0.01)
        )
        measured.append(
            Measurement(f"time until the window is {window:g} packets again", back - SHIFT, "s", reported=rfc)
        )
    # both agree if cbrt(0.7 W/0.4) - 2 = cbrt(0.3 W/0.4)
    same = (SHIFT / ((BETA / C) ** (1.0 / 3.0) - ((1.0 - BETA) / C) ** (1.0 / 3.0))) ** 3
    wrong = max(off) > 0.01
    return Finding(
        claim,
        Verdict.REFUTED if wrong else Verdict.CONFIRMED,
        f"The formula agrees with RFC 9438 only for windows of {same:.0f} packets. Smaller windows fall by less than "
        "30 %, for example windows of 33 packets, a tenth of 100 Mb/s in the model's grid, by 8 %; larger windows fall "
        "by up to 70 %.",
        measured,
        (),
        ["Evaluated formulas; no run."],
    )


def probe_times(first: float, rtt: float, until: float, h: float = 1e-4) -> list[float]:
    """Return the times at which the program's timer begins probes if the minimum RTT never falls [s].

    timer' = [timer(t - d) <= 0] (10 - 9.8 (1 - m(t - d)) - timer)/ms - 1
    m'     = [timer(t - d) <= 0] (1 - m(t - d) - m)/ms
    """
    timer, probing, begun, late = [first], [0.0], [], round(rtt / h)
    for i in range(round(until / h)):
        before = max(i - late, 0)
        expired = timer[before] <= 0.0
        due = 10.0 - 9.8 * (1.0 - probing[before])
        m = probing[-1] + (h / 1e-3 * (1.0 - probing[before] - probing[-1]) if expired else 0.0)
        timer.append(timer[-1] + (h / 1e-3 * (due - timer[-1]) if expired else 0.0) - h)
        if m >= 0.5 > probing[-1]:
            begun.append(i * h)
        probing.append(m)
    return begun


@check("bbr-fluid-timer", cost=1)
def bbr_fluid_timer(claim: Claim) -> Finding:
    """Evaluate the program's equations of the timer from both of its initial values."""
    second, first = probe_times(5.0, 0.035, 40.0), probe_times(10.0, 0.035, 40.0)
    between = [later - sooner for sooner, later in zip(second, second[1:], strict=False)]
    measured = [
        Measurement("first probe of version 2", second[0], "s", reported=5.0, met=abs(second[0] - 5.0) < 0.5),
        *(
            Measurement(
                f"time from probe {k + 1} to {k + 2} of version 2", gap, "s", reported=5.0, met=abs(gap - 5.0) < 0.5
            )
            for k, gap in enumerate(between)
        ),
        Measurement("first probe of version 1", first[0], "s", reported=10.0, met=abs(first[0] - 10.0) < 0.5),
    ]
    holds = all(measurement.met for measurement in measured)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The first probe is after {second[0]:.2f} s, and the next ones follow at intervals of {min(between):.2f} s, "
        "because the program resets the timer to version 1's 10 s. Its runs of 9 s have one probe of version 2, and "
        "none of version 1.",
        measured,
        (),
        ["The program's equations, in steps of 0.1 ms, with a minimum RTT of 35 ms that never falls."],
    )


def begin_at_a_rate(flow: Any, header: Any, p: Params, env: FluidEnv) -> None:
    """Start version 2 in CRUISE with a given rate, without Startup, as the program does."""
    if flow.state < bbr_fluid.PROBE_BW:
        env.rate = p.rate
        env.window = bbr_fluid.INFINITE
        if env.rtt == 0.0:
            return
        flow.state = bbr_fluid.PROBE_BW
        flow.began = env.now - 10.0 * env.rtt - env.flow / env.flows
        flow.bw = p.rate
        flow.max_bw = p.rate
        flow.last_max_bw = p.rate
        flow.inflight_hi = 1.25 * p.rate * env.rtt
        flow.inflight_lo = p.rate * env.rtt
    bbr_fluid.step_2(flow, header, p, env)


@dataclass(frozen=True)
class Begun(BBRv2):
    """Fluid model of version 2 with a given initial rate [bit/s]."""

    rate: float = FAIR

    fluid_form = StateMachine(begin_at_a_rate, bbr_fluid.Bounded)

    def params(self) -> dict[str, float]:
        return {**super().params(), "rate": self.rate}


@dataclass(frozen=True)
class WithoutSlowStart(NewReno):
    """NewReno without slow start, which has its share immediately."""

    slow_start_law = None


def share_of_second_version(
    engine: Any, host: Protocol, other: Protocol, products: float, starts: tuple[float, float] = (0.0, 0.0)
) -> float:
    """Return the goodput share of five of ten flows from 4 to 9 s after the last start."""
    late = max(starts)
    flows = [
        Flow(route=[0], access_delay=0.005 + 0.005 * (i % 5) / 4, packet_size=GRID_PACKET, start=starts[i // 5])
        for i in range(10)
    ]
    network = Network([Link(GRID, 0.01, buffer=int(products * GRID * 0.01 / 8))], flows)
    run = engine.simulate(Scenario(network, {"flows": {"0-4": host, "5-9": other}}, late + 9.0), sample=0.1)
    goodput = run.goodput.to_numpy()[round((late + 4.0) / 0.1) :]
    return float(goodput[:, :5].sum() / goodput.sum())


@check("bbr-fluid-start", cost=6, main=False)
def bbr_fluid_start(claim: Claim) -> Finding:
    """Run version 2 against Reno: the fluid from several initial rates, packets with several start times."""
    measured, spread = [], {}
    reno, at_once = NewReno(transport="rack", initial=10.0), WithoutSlowStart(transport="rack", initial=28.9)
    for products, program in ((1.0, 0.51), (4.0, 0.36), (7.0, 0.35)):
        of_fluid = {
            f"from {rate:g} times the fair rate": share_of_second_version(
                fluid, Begun(rate=rate * FAIR), at_once, products
            )
            for rate in (0.5, 1.0, 2.0, 3.0)
        }
        of_packets = {
            name: share_of_second_version(packet, BBRv2(), reno, products, starts)
            for name, starts in (
                ("all together", (0.0, 0.0)),
                ("Reno 2 s first", (EARLIER, 0.0)),
                ("version 2 first", (0.0, EARLIER)),
            )
        }
        for engine, shares in (("fluid", of_fluid), ("packets", of_packets)):
            spread[engine, products] = max(shares.values()) - min(shares.values())
            for name, value in shares.items():
                measured.append(
                    Measurement(
                        f"{products:g} products, {engine}, {name}",
                        value,
                        reported=program if engine == "fluid" else None,
                        met=abs(value - program) < BAND if engine == "fluid" else None,
                    )
                )
    min_spread = min(spread["fluid", products] for products in (1.0, 4.0, 7.0))
    return Finding(
        claim,
        Verdict.REFUTED if min_spread > 2.0 * BAND else Verdict.CONFIRMED,
        "If the initial rate is between half and three times the fair rate, the fluid's share varies by "
        + ", ".join(f"{spread['fluid', products]:.2f}" for products in (1.0, 4.0, 7.0))
        + " with buffers of 1, 4 and 7 products. In packet runs in which one protocol starts 2 s earlier it varies by "
        + ", ".join(f"{spread['packets', products]:.2f}" for products in (1.0, 4.0, 7.0))
        + ".",
        measured,
        (),
        [
            "Ten flows over 100 Mb/s, RTTs from 30 to 40 ms, drop-tail; shares of five flows of version 2 from 4 "
            "to 9 s. "
            "The fluid is the published law with delivery rates averaged over an RTT; the program's number is "
            "its result "
            "from fair initial shares."
        ],
    )
