"""Check on the sawtooth of TCP over drop-tail: multipliers of its return map, and flows that lose together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.cycles.losses import loss_cycle
from ecc.models import BIC, CUBIC, Compound, NewReno
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

RATIOS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Ratios of the RTT of the second flow to that of the first."""
SHORT = 0.05  # s, the shorter RTT
SIZES = (900, 1100)
"""Packets drawn from this range [bytes], for which no phase between packets and departures lasts."""
REDUCTION = 0.93
"""A window below this share of the last sample has been reduced: RFC 5681 halves it."""
TOGETHER = 0.6
"""Seconds between two reductions at the same overflow: a few RTTs with a full queue."""

Real = NDArray[np.float64]


def shared(n: int, buffer: int, starts: tuple[float, ...] | None = None, packet_size: int = 1000) -> Network:
    """Return a link of 10 Mb/s with flows of 100 ms.

    Parameters
    ----------
    n : int
        Number of flows.
    buffer : int, bytes
    starts : tuple of float, s, optional
    packet_size : int, bytes, optional
    """
    return Network.dumbbell("10 Mb/s", [0.1] * n, buffer, starts=starts, packet_size=packet_size)


def overflows(run: Trajectory, apart: float = 0.4) -> Real:
    """Return the times of the first drops of the overflows of a run, which are at least `apart` seconds apart.

    Parameters
    ----------
    run : Trajectory
    apart : float, s, optional
    """
    time = run.queue["time"].values
    at = time[run.drops.values[:, 0] > 0]
    return np.asarray(at[np.concatenate([[True], np.diff(at) > apart])])


def reductions(run: Trajectory, flow: int, after: float) -> Real:
    """Return the times at which a flow reduced its window.

    Parameters
    ----------
    run : Trajectory
        Run with the record "env.window".
    flow : int
    after : float, s
        Begin of the times that count.
    """
    time, w = run.queue["time"].values[1:], run["env.window"].values[:, flow]
    falls = w[1:] < REDUCTION * w[:-1]
    first = falls & ~np.concatenate([[False], falls[:-1]])
    return np.asarray(time[first & (time > after)])


def differences(protocol: Protocol, size: int = 1000, duration: float = 120.0) -> Real:
    """Return the differences of two windows [packets of 1000 bytes] at overflows, after the second flow has started.

    Parameters
    ----------
    protocol : Protocol
    size : int, bytes, optional
        Packets of the flows.
    duration : float, s, optional
    """
    net = shared(2, 100_000, (0.0, 45.0), size)
    run = packet.simulate(Scenario(net, protocol, duration=duration), sample=0.005, record=["env.window"])
    time = run.queue["time"].values
    at = overflows(run)
    rows = np.searchsorted(time, at[at > 46.0])
    windows = run["env.window"].values[rows] / 1000.0
    return np.asarray(windows[:, 0] - windows[:, 1])


def decay(values: Real, period: int, low: float, high: float) -> float:
    """Return the mean ratio of two differences a period apart, of those between two limits.

    Parameters
    ----------
    values : ndarray
        Differences at overflows.
    period : int
        Overflows per period.
    low, high : float
        Limits of the first of the two differences.
    """
    first, then = np.abs(values[:-period]), np.abs(values[period:])
    chosen = (first > low) & (first < high)
    return float(np.exp(np.mean(np.log(then[chosen] / first[chosen]))))


def loss_ratio(ratio: float, sizes: Any) -> tuple[float, float]:
    """Return the losses of the flow with the longer RTT per loss of the other, and the share that coincide.

    Parameters
    ----------
    ratio : float
        Ratio of the RTTs.
    sizes : int, tuple of int, or None
        Packets [bytes] of a packet run; None: the return map.
    """
    rtts = [SHORT, SHORT * ratio]
    if sizes is None:
        losses = loss_cycle(NewReno(), Network.dumbbell("10 Mb/s", rtts, 60_000), "continuous").orbit["losses"]
        return (1.0, 1.0) if len(losses) == 1 else (float(losses[1] / losses[0]), float(min(losses) / max(losses)))
    net = Network.dumbbell("10 Mb/s", rtts, 60_000, packet_size=sizes)
    scenario = Scenario(net, NewReno(transport="sack"), duration=900.0)
    run = packet.simulate(scenario, sample=0.02, record=["env.window"])
    first, second = (reductions(run, flow, 100.0) for flow in range(2))
    both = [bool(np.any(np.abs(second - t) < TOGETHER)) for t in first]
    return len(second) / len(first), float(np.mean(both))


def _multipliers() -> list[Measurement]:
    measurements = []
    for protocol in (NewReno(), CUBIC(), BIC(), Compound()):
        cycle = loss_cycle(protocol, shared(2, 100_000), "continuous")
        measurements.append(
            Measurement(
                f"{type(protocol).__name__}, two flows: dominant multiplier",
                abs(cycle.dominant),
                note=f"{cycle.method}; period {cycle.period:.2f} s",
                met=bool(cycle.stable),
            )
        )
    return measurements


def _decays() -> tuple[list[Measurement], bool]:
    cases = [
        ("NewReno", NewReno(transport="sack"), NewReno(), 1000, 1, 5.0, 90.0),
        ("Compound", Compound(), Compound(), 1000, 1, 5.0, 90.0),
        ("CUBIC, packets of 200 bytes", CUBIC(C=2.0), CUBIC(), 200, 2, 5.0, 60.0),
    ]
    measurements = []
    for name, protocol, modeled, size, period, low, high in cases:
        value = decay(differences(protocol, size, 150.0), period, low, high)
        expected = abs(loss_cycle(modeled, shared(2, 100_000), "continuous").dominant)
        measurements.append(
            Measurement(
                f"{name}: decay of differences per period in packets",
                value,
                reported=expected,
                met=abs(value - expected) < 0.1,
            )
        )
    return measurements, all(bool(measured.met) for measured in measurements)


def _distance(measured: list[float], expected: list[float]) -> float:
    return float(np.max(np.abs(np.subtract(measured, expected))))


@check("open-sawtooth", cost=60, main=False)
def open_sawtooth(claim: Claim) -> Finding:
    """Compute multipliers of return maps, and count losses of two flows over the ratio of their RTTs."""
    of_map, (of_packets, agree) = _multipliers(), _decays()
    modeled = [loss_ratio(ratio, None)[0] for ratio in RATIOS]
    drawn = [loss_ratio(ratio, SIZES)[0] for ratio in RATIOS]
    equal = [loss_ratio(ratio, 1000)[0] for ratio in RATIOS]
    together = max(ratio for ratio, losses in zip(RATIOS, modeled, strict=True) if losses == 1.0)
    picture = Picture.of(
        plot.boundary_figure(
            np.array(RATIOS),
            {"return map": modeled},
            {},
            {
                "packets of 900 to 1100 bytes": (np.array(RATIOS), drawn, None),
                "packets of 1000 bytes": (np.array(RATIOS), equal, None),
            },
            x_title="RTT of the second flow / RTT of the first",
            y_title="losses of the second flow per loss of the first",
            title="Losses of two flows of NewReno over the ratio of their RTTs",
        ),
        "Losses of two flows of NewReno over the ratio of their RTTs",
        "10 Mb/s, 60 kB, RTT of the first flow 50 ms.",
    )
    by_name = {measured.name.split(",")[0]: measured.value for measured in of_map}
    return Finding(
        claim,
        Verdict.CONDITIONAL if agree else Verdict.NOT_COMPARABLE,
        "Differences of equal flows that lose together die out: per period the multiplier is "
        + ", ".join(f"{value:.2f} ({name})" for name, value in by_name.items())
        + f". Flows lose at the same overflows for RTTs up to {together:g} times the shortest; beyond, the longer one "
        f"skips overflows, {modeled[-1]:.2g} losses per loss at {RATIOS[-1]:g} times. Losses of packets of drawn sizes "
        f"differ from this by up to {_distance(drawn, modeled):.2f} per loss, and those of packets of equal size by "
        f"up to {_distance(equal, modeled):.1f}: the phase of arrivals decides which flow finds the queue full.",
        [
            *of_map,
            *of_packets,
            *(
                Measurement(f"losses per loss, RTT ratio {ratio:g}", value, reported=expected)
                for ratio, value, expected in zip(RATIOS, drawn, modeled, strict=True)
            ),
            *(
                Measurement(f"losses per loss, RTT ratio {ratio:g}, packets of equal size", value, reported=expected)
                for ratio, value, expected in zip(RATIOS, equal, modeled, strict=True)
            ),
        ],
        [picture],
        ["Slow start of the second flow sets the first difference; CUBIC's C is scaled to packets of 200 bytes."],
    )
