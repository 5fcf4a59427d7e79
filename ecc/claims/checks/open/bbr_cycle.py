"""Whether BBR's probes return two flows with different shares to equal ones: packet runs, fluid, and return maps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecc import fluid, packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.cycles.closed_loop import limit_cycle
from ecc.models import BBR, BBRv2, Protocol
from ecc.network.network import Network
from ecc.scenario import Scenario

__all__ = ["decay_per_cycle", "differences", "pair"]

WIDTH, DURATION, SEEDS = 20.0, 120.0, 4  # s, s, packet runs
SETTLED, EVEN = 0.1, 0.5  # difference of shares that counts as equal; ratio of differences that counts as lasting


def pair(buffer: int) -> Network:
    """Return a link of 100 Mb/s with two flows of 30 ms, of which the second starts a second later.

    Parameters
    ----------
    buffer : int, bytes
    """
    return Network.dumbbell("100 Mb/s", rtts=[0.03] * 2, buffer=buffer, starts=[0.0, 1.0])


def differences(protocol: Protocol, buffer: int, engine: str) -> NDArray[np.float64]:
    """Return the difference of both shares of goodput in windows of 20 s, a mean over seeds.

    Parameters
    ----------
    protocol : Protocol
    buffer : int, bytes
    engine : str
        "packet" or "fluid".
    """
    simulate = packet.simulate if engine == "packet" else fluid.simulate
    rows = []
    for seed in range(SEEDS if engine == "packet" else 1):
        run = simulate(Scenario(pair(buffer), protocol, DURATION, seed=seed), 0.1)
        goodput = run.goodput.to_numpy().reshape(round(DURATION / WIDTH), -1, 2).mean(axis=1)
        rows.append((goodput[:, 0] - goodput[:, 1]) / goodput.sum(axis=1))
    return np.asarray(np.mean(rows, axis=0))


def decay_per_cycle(values: NDArray[np.float64], period: float) -> float:
    """Return the factor per cycle by which differences decay between the first and the fourth window.

    Parameters
    ----------
    values : ndarray, shape (n_windows,)
    period : float, s
    """
    return float(max(values[3] / values[0], 0.0) ** (period / (3.0 * WIDTH)))


@check("open-bbr-cycle", cost=60, main=False)
def open_bbr_cycle(claim: Claim) -> Finding:
    """Compare the differences of shares over time, and the multiplier of version 3."""
    cycle = limit_cycle(BBR(), pair(1_000_000))
    cases = [(BBR(), 1_000_000), (BBRv2(), 1_000_000), (BBRv2(), 200_000)]
    labels = [f"{type(protocol).__name__}, {buffer / 1e6:g} MB" for protocol, buffer in cases]
    runs = {engine: [differences(*case, engine) for case in cases] for engine in ("packet", "fluid")}
    fair = runs["packet"][0][-1] < SETTLED
    lasting = all(values[-1] > EVEN * values[0] for values in runs["packet"][1:])
    middles = WIDTH * (np.arange(len(runs["fluid"][0])) + 0.5)
    picture = Picture.of(
        plot.boundary_figure(
            middles,
            {f"{label}, fluid": values for label, values in zip(labels, runs["fluid"], strict=True)},
            {},
            {f"{label}, packets": (middles, y, None) for label, y in zip(labels, runs["packet"], strict=True)},
            x_title="time [s]",
            y_title="difference of both shares",
            log_x=False,
            title="Differences of the shares of two BBR flows",
        ),
        "Differences of the shares of two BBR flows",
        "100 Mb/s, RTTs of 30 ms; the second flow starts a second later; means of windows of 20 s.",
    )
    decays = {engine: decay_per_cycle(values[0], cycle.period) for engine, values in runs.items()}
    return Finding(
        claim,
        Verdict.CONDITIONAL if fair and lasting else Verdict.NOT_COMPARABLE,
        f"Those of version 3 do in a deep buffer: differences decay by a factor {decays['packet']:.2f} per cycle of "
        f"{cycle.period:.2f} s in packet runs and {decays['fluid']:.2f} in the fluid, whose return map has the "
        f"multiplier {abs(cycle.dominant):.2f} at its orbit. Those of version 2 do not: the difference of shares stays "
        f"at {runs['packet'][1][-1]:.2f} in 1 MB and {runs['packet'][2][-1]:.2f} in 200 kB.",
        [
            Measurement(
                f"{label}: difference of shares from {DURATION - WIDTH:g} s, packets",
                float(values[-1]),
                reported=float(model[-1]),
                note="reported: fluid",
            )
            for label, values, model in zip(labels, runs["packet"], runs["fluid"], strict=True)
        ],
        [picture],
        ["Packet runs are means of four seeds."],
    )
