"""Checks of claims on starvation: hosts that converge in delay, where packets wait for other reasons than queues, too.

The path of the theorem's proof, in packets. Two flows share a link of C1 + C2; behind it each has an element of its
own, from which its packets leave when they would have left a link of C1, or of C2, that it has alone: the
`DeliveryTrace` of its run there. Each then sends as it did alone, at C1 and C2, for any host. What an element has to
hold back is the difference of the delay alone, d_i, and that of the shared queue,

    d = (C1 d_1 + C2 d_2)/(C1 + C2) - x        the mean of both, less a constant that is chosen

so at most 2 max |d_1 - d_2| <= 2 (delta + epsilon), where each d_i stays within delta, and the largest of d_1 and d_2
differ by epsilon. As the largest delays are bounded for all capacities, some with the ratio C2/C1 have a small epsilon.
Where d would be less than nothing, the shared path is shorter, and elements hold packets back by that, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.models import FAST, BBRv1, Copa, Protocol, Swift, Vegas
from ecc.network.impairments import CapacitySchedule, DeliveryTrace, Impairment, Jitter
from ecc.network.network import Flow, Link, Network
from ecc.plot.states import states_figure
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]
PACKET, RATIO = 1500, 8.0
BITS = 8.0 * PACKET
ROOM = 4_000_000
"""Events of a run that are kept."""
MOST_PACKETS = 5.0
"""Range of delays in packets of a link: Copa's queue of one flow is 0 to 2.5/delta."""


class Setting(NamedTuple):
    """A host, the smaller capacity [bit/s] and the RTT [s]; when delays have converged, and the end of the run [s]."""

    host: Protocol
    capacity: float
    rtt: float
    settled: float
    end: float


SETTINGS: dict[str, Setting] = {
    "FAST": Setting(FAST(alpha=10.0), 6e6, 0.04, 10.0, 12.0),
    "Vegas": Setting(Vegas(), 6e6, 0.04, 10.0, 12.0),
    "Copa": Setting(Copa(), 6e6, 0.04, 8.0, 12.0),
    "Swift": Setting(Swift(), 6e9, 1e-5, 0.02, 0.022),
    "BBRv1": Setting(BBRv1(), 6e6, 0.04, 11.0, 19.9),
}
"""BBR between its probes for the RTT, at 10 and 20 s."""


class Paths(NamedTuple):
    """Packets of a flow, in order: when they come to the link it shares, leave that, and leave the element [s]."""

    come: FloatArray
    shared: FloatArray
    left: FloatArray


@dataclass(frozen=True)
class Starved:
    """Two flows on the proof's path.

    `ranges` are least and largest delays of each alone [s], `delta` and `epsilon` as above, `waits` the most that
    elements hold back [s], `rates` those of the flows, and `free` without elements [bit/s]; `paths` of both flows.
    """

    ranges: tuple[tuple[float, float], tuple[float, float]]
    delta: float
    epsilon: float
    wait: float
    rates: FloatArray
    free: FloatArray
    exact: bool
    paths: tuple[Paths, Paths]


def shared_link(capacity: float, fast: float, rtt: float, starts: tuple[float, float]) -> Network:
    """Return a link of two flows, each of which passes an element after it.

    Parameters
    ----------
    capacity, fast : float, bit/s
        Of the link, and of the elements.
    rtt : float, s
    starts : tuple of two float, s
        Of the flows.
    """
    flows = [Flow([0, 1 + k], access_delay=rtt / 2.0, packet_size=PACKET, start=starts[k]) for k in (0, 1)]
    return Network([Link(capacity, 0.0), Link(fast, 0.0), Link(fast, 0.0)], flows)


def paths_of(run: Any) -> tuple[Paths, Paths]:
    """Return the packets of both flows, by the events of a run."""
    kind, entity, time = (run.trace[name].to_numpy() for name in ("event", "entity", "time"))
    enters, hops = kind == "access", kind == "hop"
    flow, out = entity[enters], time[hops & (entity == 0)]
    found = []
    for k in (0, 1):
        left = time[hops & (entity == 1 + k)]
        shared = out[flow[: len(out)] == k][: len(left)]
        found.append(Paths(time[enters][flow == k][: len(left)], shared, left))
    return found[0], found[1]


def through(come: FloatArray, capacity: float, opens: float) -> FloatArray:
    """Return when packets leave a link that serves nothing before it opens [s].

    Parameters
    ----------
    come : ndarray, shape (packets,)
        When they come, in order [s].
    capacity : float, bit/s
    opens : float, s
    """
    done = np.arange(1, len(come) + 1) * (BITS / capacity)
    return np.asarray(done + np.maximum.accumulate(np.maximum(come, opens) - done + BITS / capacity), np.float64)


def least_waits(alone: tuple[Paths, Paths], capacity: float, settled: float) -> tuple[float, float]:
    """Return for how long the shared link is shut before it has its capacity, and by how much its path is shorter [s].

    Those with which elements hold back least.
    """
    come, left = (np.concatenate(both) for both in zip(*((one.come, one.left) for one in alone), strict=True))
    order = np.argsort(come, kind="stable")
    come, left = come[order], left[order]
    longest = min(float((one.left - one.come)[one.come > settled].max()) for one in alone)
    found = []
    for shut in np.linspace(longest / 40.0, longest, 40):
        late = come >= settled - shut
        waits = left[late] - through(come[late], capacity, settled)
        shorter = max(0.0, -float(waits.min()))
        found.append((float(waits.max()) + shorter, float(shut), shorter))
    _, shut, shorter = min(found)
    return shut, 2e-9 * ceil((shorter + 2.0 * BITS / capacity) / 2e-9)


@lru_cache
def starved(name: str, scale: float = 1.0) -> Starved:
    """Return what becomes of two flows of a host on the proof's path.

    Parameters
    ----------
    name : str
        Of `SETTINGS`.
    scale : float
        Of its capacities.
    """
    host, small, rtt, settled, end = SETTINGS[name]
    capacities = (scale * small, RATIO * scale * small)
    capacity = sum(capacities)
    fast, sample = 20.0 * capacity, end / 200.0

    def run(network: Network, elements: list[Impairment]) -> Any:
        return packet.simulate(Scenario(network, host, end, impairments=elements), trace=ROOM, sample=sample)

    both = []
    for k, own in enumerate(capacities):  # the other flow begins after the end: random numbers are those of the index
        starts = (0.0, 2.0 * end) if k == 0 else (2.0 * end, 0.0)
        both.append(paths_of(run(shared_link(own, fast, rtt, starts), []))[k])
    alone = (both[0], both[1])
    delays = [(one.left - one.come)[one.come > settled] for one in alone]
    (low, high), (low2, high2) = ranges = tuple((float(d.min()), float(d.max())) for d in delays)
    shut, shorter = least_waits(alone, capacity, settled)
    served: list[Impairment] = [CapacitySchedule(0, [0.0, settled - shut, settled], [fast, 0.0, capacity])]
    traces: list[Impairment] = [DeliveryTrace(1 + k, list(one.left), PACKET) for k, one in enumerate(alone)]
    lines: list[Impairment] = [Jitter((shorter, shorter), acks_of=[0, 1])]
    together = run(shared_link(capacity, fast, rtt - 2.0 * shorter, (0.0, 0.0)), served + traces + lines)
    paths = paths_of(together)
    late = slice(round(settled / sample) + 1, None)
    free = run(shared_link(capacity, fast, rtt, (0.0, 0.0)), [])
    return Starved(
        (ranges[0], ranges[1]), max(high - low, high2 - low2), abs(high - high2),
        max(float((one.left - one.shared)[one.come > settled].max()) for one in paths),
        together.goodput[late].mean("time").to_numpy(), free.goodput[late].mean("time").to_numpy(),
        all(np.array_equal(one.left, then.left) for one, then in zip(paths, alone, strict=True)), paths,
    )  # fmt: skip


@check("starvation", cost=4, group="starvation")
def starvation(claim: Claim) -> Finding:
    """Five hosts on the path of the proof, and on the same link without elements."""
    measured, holds = [], []
    for name in SETTINGS:
        found = starved(name)
        ratio, fair = (float(rates[1] / rates[0]) for rates in (found.rates, found.free))
        bound = 2.0 * (found.delta + found.epsilon)
        holds.append(found.exact and found.wait < bound and abs(ratio / RATIO - 1.0) < 0.1 and 0.5 < fair < 2.0)
        measured.append(
            Measurement(f"{name}: ratio of rates on the proof's path", ratio, reported=RATIO, met=holds[-1],
                        note=f"{fair:.2f} without waits")
        )  # fmt: skip
        measured.append(
            Measurement(f"{name}: longest wait", 1e3 * found.wait, "ms", reported=f"< {1e3 * bound:.4g}",
                        note=f"delta {1e3 * found.delta:.3g} ms, epsilon {1e3 * found.epsilon:.3g} ms")
        )  # fmt: skip
    verdict = Verdict.CONFIRMED if all(holds) else Verdict.CONDITIONAL if any(holds) else Verdict.REFUTED
    return Finding(
        claim, verdict,
        f"Waits below 2 (delta + epsilon) give one of two flows {RATIO:g} times the rate of the other in "
        f"{sum(holds)} of {len(holds)} hosts, and each packet leaves as if its flow were alone; without them ratios "
        "are below 2."
        if any(holds) else "On the path of the proof the flows do not send as they do alone.",
        measured, [picture()],
        ["Capacities of 6 and 48 Mb/s and an RTT of 40 ms, Swift's of 6 and 48 Gb/s and 10 us; 1500-byte packets, no "
         "loss. Delays are from the access to the end of the element, once they have converged."],
    )  # fmt: skip


def picture() -> Picture:
    """Return the delays that two flows see, and that of the link they share, over half a second."""
    found, begins = starved("Copa"), SETTINGS["Copa"].settled + 1.0
    times = np.linspace(begins, begins + 0.5, 1001)
    series = {
        f"seen by flow {k + 1}": np.interp(times, one.come, 1e3 * (one.left - one.come))
        for k, one in enumerate(found.paths)
    }
    come, left = (np.concatenate(both) for both in zip(*((one.come, one.shared) for one in found.paths), strict=True))
    order = np.argsort(come)
    series["of the link that both share"] = np.interp(times, come[order], 1e3 * (left - come)[order])
    return Picture.of(
        states_figure(times, {"delay [ms]": series}), "Delays of two flows of Copa that starve",
        "Each flow sees the delays of a link that it has alone; what they share is below both, and elements hold back "
        "the rest.",
    )  # fmt: skip


@check("starvation-ranges", cost=6, main=False, group="starvation")
def starvation_ranges(claim: Claim) -> Finding:
    """Ranges of delays alone, and the wait that starves, from two capacities on."""
    measured, packets, of_bbr = [], [], []
    for name, (_, small, rtt, _, _) in SETTINGS.items():
        for scale in (0.5, 1.0):
            found, own = starved(name, scale), scale * small
            if name == "BBRv1":
                of_bbr.append(found.delta / rtt)
                met = abs(of_bbr[-1] - 0.25) < 0.05
            else:
                packets.append(found.delta * own / BITS)
                met = packets[-1] < MOST_PACKETS
            measured.append(
                Measurement(f"{name}: range of delays, {own / 1e6:g} Mb/s and more", 1e3 * found.delta, "ms",
                            reported=250.0 * rtt if name == "BBRv1" else None, met=met,
                            note=f"{found.delta * own / BITS:.1f} packets, {found.delta / rtt:.2f} RTT; a wait of "
                            f"{1e3 * found.wait:.3g} ms starves")
            )  # fmt: skip
    shrink, kept = max(packets) < MOST_PACKETS, max(of_bbr) < 1.1 * min(of_bbr)
    near = all(abs(one - 0.25) < 0.05 for one in of_bbr)
    verdict = Verdict.REFUTED if not (shrink and kept) else Verdict.CONFIRMED if near else Verdict.CONDITIONAL
    return Finding(
        claim, verdict,
        f"Ranges are at most {max(packets):.1f} packets of the smaller capacity, at all tried; BBR's is "
        f"{min(of_bbr):.2f} to {max(of_bbr):.2f} RTT: it probes until what is in flight has grown by a quarter, which "
        "takes more than an RTT.",
        measured, (),
        [f"The larger of the ranges of two capacities, {RATIO:g} times apart, once delays have converged; BBR's "
         "between two probes for the RTT."],
    )  # fmt: skip
