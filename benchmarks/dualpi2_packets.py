"""Gain margins of DualPI2's classic queue in packets: at how many decibels above its gains many flows begin to swing.

    python benchmarks/dualpi2_packets.py [WINDOW...]

prints the column "packets" of the table of margins in docs/queue_disciplines.md. The RTT is 100 ms with a queue of
15 ms. Two runs of a seed are equal until one of them multiplies the controller's state by 1 + KICK and the other by
1 - KICK; half the difference of their queues is fitted by a growing or decaying oscillation.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import ecc
from ecc.contract.assignment import read_protocol
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import NewReno
from ecc.models.shared import windows
from ecc.network.network import Network
from ecc.queues import PI2, pi2
from ecc.scenario import Scenario

ALPHA, BETA, TARGET, TICK = 41.0 / 256.0, 819.0 / 256.0, 15e-3, 16e-3
"""The defaults of Linux' sch_dualpi2, for whose classic queue PI2 stands."""
RTT = 0.1  # with the queue [s]
CALM = 4.0  # with a third of the gains, before the kick [s]
KICK = 0.05
PERIODS = 3.0  # that are fitted
SEEDS = 4
HOSTS = {
    False: "stops until half of its packets are acknowledged",
    "marks": "reduces over an RTT (PRR, as Linux)",
}


@dataclass(frozen=True, kw_only=True)
class Grown(NewReno):
    """A host that begins in congestion avoidance."""

    @dataclass
    class FlowState(windows.FlowState):
        """Without slow start."""

        ssthresh: float = 0.0


@dataclass(frozen=True)
class Kicked(PI2):
    """Begins at a state, with a third of the gains until `since`; then `kick` multiplies the state once."""

    first: float = 0.0
    since: float = 0.0
    kick: float = 1.0

    @dataclass
    class LinkState(PI2.LinkState):
        """Whether the kick is over."""

        kicked: int = 0

    def link_record(self) -> Any:
        """The state at the equilibrium."""
        return self.LinkState(root=self.first, d_prev=self.target)

    def link_hooks(self) -> dict[str, Any]:
        """Those of PI2, with the kick."""
        return {**super().link_hooks(), "on_interval": on_tick}


def on_tick(link: Any, header: Any, p: Any, env: Any) -> None:
    """Step of the controller, then the kick.

    Parameters
    ----------
    link, header, p, env : object
        As of every hook.
    """
    before = link.root
    pi2.on_interval(link, header, p, env)
    if env.now < p.since:
        link.root = before + (link.root - before) / 3.0
    elif link.kicked == 0:
        link.kicked = 1
        link.root *= p.kick


def network(window: float, flows: int) -> Network:
    """Return one link on which windows have so many packets at an RTT of 100 ms.

    Parameters
    ----------
    window : float, packets
    flows : int
    """
    return Network.dumbbell(8e3 * flows * window / RTT, rtts=[RTT - TARGET] * flows, packet_size=1000)


def margin(window: float, clocking: str) -> tuple[float, float]:
    """Return the gain margin of the linear model [dB], -inf if it is unstable, and its frequency [rad/s].

    Parameters
    ----------
    window : float, packets
    clocking : str
    """
    pair = {"flows": NewReno(ecn=True), "links": PI2(alpha=ALPHA, beta=BETA, target=TARGET, interval=TICK, mark=True)}
    found = ecc.linearize(pair, network(window, 10), clocking=clocking).margins()
    return 20.0 * float(np.log10(found.gain_margin)) if found.stable else -np.inf, float(found.gain_frequency)


def mode(time: NDArray[np.float64], signal: NDArray[np.float64], frequency: float) -> complex:
    """Return the root of an oscillation with a slowly decaying mean.

    Parameters
    ----------
    time : ndarray, s
    signal : ndarray
    frequency : float, rad/s
        About that of the oscillation.
    """

    def shapes(s: complex) -> NDArray[np.float64]:
        turned = np.exp(s * time)
        return np.column_stack([turned.real, turned.imag, np.exp(-0.2 * frequency * time)])

    def left(x: NDArray[np.float64]) -> NDArray[np.float64]:
        basis = shapes(complex(*x))
        return signal - basis @ np.linalg.lstsq(basis, signal, rcond=None)[0]

    return complex(*least_squares(left, [0.0, frequency]).x)


def growth(window: float, prr: bool | str, gain: float, flows: int, frequency: float) -> list[complex]:
    """Return the roots that packets show at so many times the gains: of all seeds, and without each of them.

    Parameters
    ----------
    window : float, packets
    prr : bool or str
        Of the host.
    gain : float
    flows : int
    frequency : float, rad/s
        About that of the oscillation.
    """
    pair = {"flows": NewReno(ecn=True), "links": PI2(alpha=ALPHA, beta=BETA, target=TARGET, interval=TICK, mark=True)}
    few = network(window, 10)
    point = equilibrium_of_marks(read_protocol(pair).deploy(few), few)  # type: ignore[union-attr]
    p = float(point.probabilities[0])
    period = 2.0 * np.pi / frequency
    differences = []
    for seed in range(SEEDS):
        queues = []
        for sign in (1.0, -1.0):
            link = Kicked(
                alpha=ALPHA * gain,
                beta=BETA * gain,
                target=TARGET,
                interval=TICK,
                mark=True,
                first=float(np.sqrt(p)),
                since=CALM,
                kick=1.0 + sign * KICK,
            )
            host = Grown(ecn=True, transport="rack", prr=prr, initial=round(0.95 * window))
            scenario = Scenario(
                network(window, flows), {"flows": host, "links": link}, CALM + (PERIODS + 0.5) * period + RTT, seed=seed
            )
            run = ecc.packet.simulate(scenario, sample=period / 32.0)
            queues.append(run.queue[:, 0].to_numpy())
        differences.append(0.5 * (queues[0] - queues[1]))
    time = run.queue["time"].to_numpy() - CALM
    late = (time > RTT + 0.25 * period) & (time < RTT + (0.25 + PERIODS) * period)
    found = np.array(differences)[:, late]
    means = [found.mean(axis=0), *(np.delete(found, k, axis=0).mean(axis=0) for k in range(SEEDS))]
    return [mode(time[late], one, frequency) for one in means]


def limit(window: float, prr: bool | str, flows: int) -> tuple[float, float, float]:
    """Return where growth is 0 [dB], its standard error, and the frequency there [rad/s].

    Parameters
    ----------
    window : float, packets
    prr : bool or str
        Of the host.
    flows : int
    """
    decibels, frequency = margin(window, "ack")
    levels = np.array([-4.0, -2.5, -1.0, 0.5]) + decibels
    roots = np.array([growth(window, prr, 10.0 ** (level / 20.0), flows, 0.8 * frequency) for level in levels])
    zeros = []
    for column in roots.T:
        slope, offset = np.polyfit(levels, column.real, 1)
        zeros.append(-offset / slope)
    error = float(np.sqrt((SEEDS - 1.0) * np.var(zeros[1:])))
    at = float(np.interp(zeros[0], levels, roots[:, 0].imag))
    print(window, prr, np.round(roots[:, 0], 2), file=sys.stderr)
    return float(zeros[0]), error, at


if __name__ == "__main__":
    print("| window | model, ack | model, rate | host | packets | frequency [rad/s] |")
    for word in sys.argv[1:] or ("10", "20"):
        window = float(word)
        flows = int(60_000 / window)
        for prr, what in HOSTS.items():
            found, error, at = limit(window, prr, flows)
            models = " | ".join(f"{margin(window, clocking)[0]:.1f}" for clocking in ("ack", "rate"))
            print(f"| {word} | {models} | {what} | {found:.1f} ± {error:.1f} | {at:.1f} |", flush=True)
