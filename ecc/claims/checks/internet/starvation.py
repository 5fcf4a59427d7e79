"""Checks of claims on starvation: delay-convergent hosts on paths with delays other than queueing.

The path of the theorem's proof, in packet runs. Two flows share a link of capacity C1 + C2. Behind it each flow passes
a separate element, which releases its packets at the times at which they would leave a link of C1, or of C2, without
other traffic: the `DeliveryTrace` of that run. Each flow then sends as it does alone, at C1 and C2, for any host. An
element delays packets by the difference between the delay alone, d_i, and the delay of the shared queue,

    d = (C1 d_1 + C2 d_2)/(C1 + C2) - x        weighted mean of both, minus a free constant

which is at most 2 max |d_1 - d_2| <= 2 (delta + epsilon), where each d_i varies by at most delta, and the maxima of d_1
and d_2 differ by epsilon. Because the maximum delays are bounded for all capacities, some capacities with the ratio
C2/C1 have a small epsilon. If d would be negative, the shared path is made shorter, and elements add this delay.
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
MAX_EVENTS = 4_000_000
"""Maximum number of recorded events of a run."""
MAX_RANGE = 5.0
"""Maximum range of delays, in packet transmission times: Copa's queue of one flow is 0 to 2.5/delta packets."""


class Setting(NamedTuple):
    """A host, its smaller capacity [bit/s], its RTT [s], the time at which delays have converged, and the end [s]."""

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
"""Settings by host; the run of BBR ends between its probes for the RTT, which are at 10 and 20 s."""


class Paths(NamedTuple):
    """Packets of a flow in order: arrival at the shared link, departure from it, and departure from the element [s]."""

    arrival: FloatArray
    shared: FloatArray
    departure: FloatArray


@dataclass(frozen=True)
class Starved:
    """Two flows on the proof's path.

    `ranges` are the minimum and maximum delays of each flow alone [s]; `delta` and `epsilon` are defined above; `wait`
    is the maximum delay added by an element [s]. `rates` are the flows' rates on the path, and `free` their rates
    without elements [bit/s]. `exact` is true if each packet leaves at its time without other traffic.
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
    """Return a link of two flows, each followed by a separate element.

    Parameters
    ----------
    capacity, fast : float, bit/s
        Capacities of the link and of the elements.
    rtt : float, s
    starts : tuple of two float, s
        Start times of the flows.
    """
    flows = [Flow([0, 1 + k], access_delay=rtt / 2.0, packet_size=PACKET, start=starts[k]) for k in (0, 1)]
    return Network([Link(capacity, 0.0), Link(fast, 0.0), Link(fast, 0.0)], flows)


def paths_of(run: Any) -> tuple[Paths, Paths]:
    """Return the packets of both flows from the events of a run."""
    kind, entity, time = (run.trace[name].to_numpy() for name in ("event", "entity", "time"))
    enters, hops = kind == "access", kind == "hop"
    flow, out = entity[enters], time[hops & (entity == 0)]
    paths = []
    for k in (0, 1):
        departure = time[hops & (entity == 1 + k)]
        shared = out[flow[: len(out)] == k][: len(departure)]
        paths.append(Paths(time[enters][flow == k][: len(departure)], shared, departure))
    return paths[0], paths[1]


def through(arrival: FloatArray, capacity: float, opens: float) -> FloatArray:
    """Return the times at which packets leave a link that is closed until a given time [s].

    Parameters
    ----------
    arrival : ndarray, shape (packets,)
        Arrival times in order [s].
    capacity : float, bit/s
    opens : float, s
        Time at which the link opens.
    """
    done = np.arange(1, len(arrival) + 1) * (BITS / capacity)
    return np.asarray(done + np.maximum.accumulate(np.maximum(arrival, opens) - done + BITS / capacity), np.float64)


def min_waits(alone: tuple[Paths, Paths], capacity: float, settled: float) -> tuple[float, float]:
    """Return the time for which the shared link is closed before it opens, and the reduction of its path delay [s].

    They minimize the delay added by elements.
    """
    arrival, departure = (
        np.concatenate(both) for both in zip(*((path.arrival, path.departure) for path in alone), strict=True)
    )
    order = np.argsort(arrival, kind="stable")
    arrival, departure = arrival[order], departure[order]
    longest = min(float((path.departure - path.arrival)[path.arrival > settled].max()) for path in alone)
    candidates = []
    for shut in np.linspace(longest / 40.0, longest, 40):
        late = arrival >= settled - shut
        waits = departure[late] - through(arrival[late], capacity, settled)
        shorter = max(0.0, -float(waits.min()))
        candidates.append((float(waits.max()) + shorter, float(shut), shorter))
    _, shut, shorter = min(candidates)
    return shut, 2e-9 * ceil((shorter + 2.0 * BITS / capacity) / 2e-9)


@lru_cache
def starved(name: str, scale: float = 1.0) -> Starved:
    """Return the results of two flows of a host on the proof's path.

    Parameters
    ----------
    name : str
        Key of `SETTINGS`, for example "Copa".
    scale : float
        Factor of its capacities.
    """
    host, small, rtt, settled, end = SETTINGS[name]
    capacities = (scale * small, RATIO * scale * small)
    capacity = sum(capacities)
    fast, sample = 20.0 * capacity, end / 200.0

    def run(network: Network, elements: list[Impairment]) -> Any:
        return packet.simulate(Scenario(network, host, end, impairments=elements), trace=MAX_EVENTS, sample=sample)

    both = []
    for k, share in enumerate(
        capacities
    ):  # the other flow starts after the end, so that random numbers match the index
        starts = (0.0, 2.0 * end) if k == 0 else (2.0 * end, 0.0)
        both.append(paths_of(run(shared_link(share, fast, rtt, starts), []))[k])
    alone = (both[0], both[1])
    delays = [(path.departure - path.arrival)[path.arrival > settled] for path in alone]
    (low, high), (low2, high2) = ranges = tuple((float(d.min()), float(d.max())) for d in delays)
    shut, shorter = min_waits(alone, capacity, settled)
    served: list[Impairment] = [CapacitySchedule(0, [0.0, settled - shut, settled], [fast, 0.0, capacity])]
    traces: list[Impairment] = [DeliveryTrace(1 + k, list(path.departure), PACKET) for k, path in enumerate(alone)]
    lines: list[Impairment] = [Jitter((shorter, shorter), acks_of=[0, 1])]
    together = run(shared_link(capacity, fast, rtt - 2.0 * shorter, (0.0, 0.0)), served + traces + lines)
    paths = paths_of(together)
    late = slice(round(settled / sample) + 1, None)
    free = run(shared_link(capacity, fast, rtt, (0.0, 0.0)), [])
    return Starved(
        (ranges[0], ranges[1]),
        max(high - low, high2 - low2),
        abs(high - high2),
        max(float((path.departure - path.shared)[path.arrival > settled].max()) for path in paths),
        together.goodput[late].mean("time").to_numpy(),
        free.goodput[late].mean("time").to_numpy(),
        all(np.array_equal(path.departure, then.departure) for path, then in zip(paths, alone, strict=True)),
        paths,
    )


@check("starvation", cost=4, group="starvation")
def starvation(claim: Claim) -> Finding:
    """Run five hosts on the path of the proof, and on the same link without elements."""
    measured, holds = [], []
    for name in SETTINGS:
        result = starved(name)
        ratio, fair = (float(rates[1] / rates[0]) for rates in (result.rates, result.free))
        bound = 2.0 * (result.delta + result.epsilon)
        holds.append(result.exact and result.wait < bound and abs(ratio / RATIO - 1.0) < 0.1 and 0.5 < fair < 2.0)
        measured.append(
            Measurement(
                f"{name}: ratio of rates on the proof's path",
                ratio,
                reported=RATIO,
                met=holds[-1],
                note=f"{fair:.2f} without elements",
            )
        )
        measured.append(
            Measurement(
                f"{name}: maximum added delay",
                1e3 * result.wait,
                "ms",
                reported=f"< {1e3 * bound:.4g}",
                note=f"delta {1e3 * result.delta:.3g} ms, epsilon {1e3 * result.epsilon:.3g} ms",
            )
        )
    verdict = Verdict.CONFIRMED if all(holds) else Verdict.CONDITIONAL if any(holds) else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"Added delays below 2 (delta + epsilon) give one of two flows {RATIO:g} times the rate of the other for "
        f"{sum(holds)} of {len(holds)} hosts, and each packet leaves as if its flow were alone; without them the "
        "ratios are below 2."
        if any(holds)
        else "On the path of the proof the flows do not send as they do alone.",
        measured,
        [picture()],
        [
            "Capacities of 6 and 48 Mb/s and an RTT of 40 ms, Swift's of 6 and 48 Gb/s and 10 us; 1500-byte "
            "packets, no "
            "loss. Delays are from the access to the end of the element, once they have converged."
        ],
    )


def picture() -> Picture:
    """Return the delays seen by two flows, and the delay of their shared link, over half a second."""
    result, begins = starved("Copa"), SETTINGS["Copa"].settled + 1.0
    times = np.linspace(begins, begins + 0.5, 1001)
    series = {
        f"seen by flow {k + 1}": np.interp(times, path.arrival, 1e3 * (path.departure - path.arrival))
        for k, path in enumerate(result.paths)
    }
    arrival, departure = (
        np.concatenate(both) for both in zip(*((path.arrival, path.shared) for path in result.paths), strict=True)
    )
    order = np.argsort(arrival)
    series["of the shared link"] = np.interp(times, arrival[order], 1e3 * (departure - arrival)[order])
    return Picture.of(
        states_figure(times, {"delay [ms]": series}),
        "Delays of two flows of Copa that starve",
        "Each flow sees the delays of a link without other traffic. The delay of the shared link is lower, and the "
        "elements add the rest.",
    )


@check("starvation-ranges", cost=6, main=False, group="starvation")
def starvation_ranges(claim: Claim) -> Finding:
    """Compute ranges of delays alone, and the added delay that causes starvation, for two minimum capacities."""
    measured, packets, of_bbr = [], [], []
    for name, (_, small, rtt, _, _) in SETTINGS.items():
        for scale in (0.5, 1.0):
            result, small_capacity = starved(name, scale), scale * small
            if name == "BBRv1":
                of_bbr.append(result.delta / rtt)
                met = abs(of_bbr[-1] - 0.25) < 0.05
            else:
                packets.append(result.delta * small_capacity / BITS)
                met = packets[-1] < MAX_RANGE
            measured.append(
                Measurement(
                    f"{name}: range of delays, {small_capacity / 1e6:g} Mb/s and more",
                    1e3 * result.delta,
                    "ms",
                    reported=250.0 * rtt if name == "BBRv1" else None,
                    met=met,
                    note=f"{result.delta * small_capacity / BITS:.1f} packets, {result.delta / rtt:.2f} RTT; "
                    "an added delay of "
                    f"{1e3 * result.wait:.3g} ms causes starvation",
                )
            )
    shrink, constant = max(packets) < MAX_RANGE, max(of_bbr) < 1.1 * min(of_bbr)
    near = all(abs(share - 0.25) < 0.05 for share in of_bbr)
    verdict = Verdict.REFUTED if not (shrink and constant) else Verdict.CONFIRMED if near else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        f"Ranges are at most {max(packets):.1f} packet times at the smaller capacity, for all capacities tried. BBR's "
        f"range is {min(of_bbr):.2f} to {max(of_bbr):.2f} RTT: it probes until its bytes in flight have grown by a "
        "quarter, which takes more than an RTT.",
        measured,
        (),
        [
            f"The larger of the ranges at two capacities, {RATIO:g} times apart, after delays have converged; for BBR "
            "between two probes for the RTT."
        ],
    )
