"""Stability of PowerTCP and HPCC, by their linear models, and packets on both sides.

    python benchmarks/telemetry.py [paced | clocked | hpcc | packets]

prints the tables of docs/telemetry.md that are not those of claims.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from data_centers import critical, row

import ecc
from ecc.linear import DelaySystem
from ecc.models import HPCC, PowerTCP, Protocol
from ecc.network.network import Network
from ecc.scenario import Scenario

C, T = 100e9, 10e-6
PIPE = C * T / 8.0


def link(flows: int, rtt: float) -> Network:
    """Return one link; flows start 137 ns apart.

    Parameters
    ----------
    flows : int
    rtt : float, s
    """
    return Network.dumbbell(C, [rtt] * flows, packet_size=1000, starts=[1.37e-7 * k for k in range(flows)])


def limit(model: Callable[[float], DelaySystem], low: float, high: float) -> str:
    """Return where a model loses stability, in percent of T, proven on both sides, or that it does not.

    Parameters
    ----------
    model : callable
    low, high : float
        Of the RTT over T.
    """
    if not model(low).is_stable:
        return f"< {100 * low:.0f}"
    if model(high).is_stable:
        return f"> {100 * high:.0f}"
    value, proven = critical(model, low, high)
    return f"{100 * value:.1f}" if proven else f"{100 * value:.1f} (not proven)"


def paced() -> None:
    """The longest RTT, of those shorter than T, with which PowerTCP is stable, for both readings of W_old."""
    for old_window in ("packet", "rtt"):
        paced_with(old_window)


def paced_with(old_window: str) -> None:
    """The longest stable RTT for one reading of W_old.

    Parameters
    ----------
    old_window : str
    """
    row(f"old_window = {old_window}, flows", *(f"beta = {beta} bytes" for beta in (500, 1000, 2500, 5000)))
    for flows in (1, 2, 4, 8, 16):
        cells = []
        for beta in (500, 1000, 2500, 5000):
            protocol = PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=beta, old_window=old_window)
            wait = T / (1.0 - flows * beta / PIPE) - T

            def model(share: float, protocol: Protocol = protocol, flows: int = flows) -> DelaySystem:
                return ecc.linearize(protocol, link(flows, share * T))  # type: ignore[return-value]

            cells.append(limit(model, 0.03, 0.999 - wait / T) if wait < 0.9 * T else "clocked")
        row(flows, *cells)


def clocked() -> None:
    """The largest gain gamma with which PowerTCP is stable where RTTs are T, for both readings of W_old."""
    for old_window in ("packet", "rtt"):
        clocked_with(old_window)


def clocked_with(old_window: str) -> None:
    """The largest stable gain for one reading of W_old.

    Parameters
    ----------
    old_window : str
    """
    row(f"old_window = {old_window}, flows", *(f"beta = {beta} bytes" for beta in (1000, 2500, 5000, 10_000)))
    for flows in (1, 2, 4, 8, 16):
        cells = []
        for beta in (1000, 2500, 5000, 10_000):

            def model(gamma: float, flows: int = flows, beta: float = beta) -> DelaySystem:
                return ecc.linearize(  # type: ignore[return-value]
                    PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=beta, gamma=gamma, old_window=old_window),
                    link(flows, T),
                )

            if model(1.0).is_stable:
                cells.append("1")
            else:
                value, proven = critical(model, 0.01, 1.0)
                cells.append(f"{value:.2f}" if proven else f"{value:.2f} (not proven)")
        row(flows, *cells)


def hpcc() -> None:
    """HPCC within its rule for W_AI and beyond: the slowest mode, the least damped one, and whether both are proven."""
    row("W_AI over the rule", "flows", "RTT/T", "stable, proven", "slowest [us]", "swing: frequency [1/s]", "damping")
    for share in (0.5, 2.0):
        for flows in (2, 16):
            for part in (0.25, 0.5, 1.0):
                protocol = HPCC(base_rtt=T, line_rate=4.0 * C, w_ai=share * 0.05 * PIPE / flows)
                system = ecc.linearize(protocol, link(flows, part * T))
                roots = system.roots(6)
                swings = roots[roots.imag > 0.0]
                swing = swings[np.argmax(swings.real / np.abs(swings))]
                row(
                    share,
                    flows,
                    part,
                    str(system.certify().stable),
                    -1e6 / float(roots[0].real),
                    float(swing.imag),
                    float(-swing.real / abs(swing)),
                )
    stairs, smooth = multipliers()
    print(f"multiplier in an RTT of T, reports at once, W_AI -> 0: {smooth:.4f}; W_c renewed in steps: {stairs:.4f}")


def multipliers() -> tuple[float, float]:
    """Return what is left of HPCC's swing after an RTT of T, W_c being renewed in steps, or all the time.

    With W = W_c/U between steps and T U' = W(t - T) - U, modes z^n have z^3 = (z^2 + z - 1) e^(-1 - 1/z); all the time,
    s + e^(-s) = 0. Deviations are relative, and W_AI -> 0.
    """

    def newton(f: Callable[[complex], complex], z: complex) -> complex:
        for _ in range(50):
            z -= f(z) * 2e-7 / (f(z + 1e-7) - f(z - 1e-7))
        return z

    stairs = newton(lambda z: z**3 - (z * z + z - 1.0) * complex(np.exp(-1.0 - 1.0 / z)), 0.2 + 0.7j)
    smooth = newton(lambda s: s + complex(np.exp(-s)), -0.3 + 1.3j)
    return abs(stairs), abs(complex(np.exp(smooth)))


def packets() -> None:
    """Packets and fluid on both sides: queue, and use of the link."""
    row(
        "protocol",
        "old window",
        "flows",
        "RTT/T",
        "stable, proven",
        "root [1/s]",
        "queue at rest [us]",
        "packets: mean",
        "deviation",
        "use",
        "fluid: mean",
        "deviation",
        "use",
    )
    for protocol, flows, part in (
        (PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=2500), 1, 0.5),
        (PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=2500), 4, 0.05),
        (PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=2500), 4, 0.5),
        (PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=2500), 4, 1.0),
        *(
            (PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=2500, old_window="rtt"), 4, part)
            for part in (0.05, 0.5, 0.7, 0.8, 0.9, 1.0)
        ),
        (PowerTCP(base_rtt=T, line_rate=4.0 * C, beta=2500, gamma=0.2, old_window="rtt"), 4, 1.0),
        (PowerTCP(base_rtt=T, line_rate=C, beta=10_000), 2, 1.0),
        (PowerTCP(base_rtt=T, line_rate=C, beta=10_000, gamma=0.2), 2, 1.0),
        (HPCC(base_rtt=T, line_rate=C, w_ai=0.5 * 0.05 * PIPE / 4), 4, 0.5),
        (HPCC(base_rtt=T, line_rate=C, w_ai=2.0 * 0.05 * PIPE / 4), 4, 0.5),
        (HPCC(base_rtt=T, line_rate=C, w_ai=2.0 * 0.05 * PIPE / 4), 4, 1.0),
    ):
        network = link(flows, part * T)
        system, point = ecc.linearize(protocol, network), protocol.equilibrium(network)
        cells = []
        for engine in (ecc.packet, ecc.fluid):
            run = engine.simulate(Scenario(network, protocol, 2e-3), sample=2e-7)
            half = len(run.queue) // 2
            queue = run.queue[half:, 0].to_numpy() * 8e6 / C
            cells += [float(queue.mean()), float(queue.std()), float(run.goodput[half:].sum("flow").mean()) / C]
        root = complex(system.roots(1)[0])
        assert point.queue is not None
        row(
            type(protocol).__name__,
            getattr(protocol, "old_window", "-"),
            flows,
            part,
            str(system.certify().stable),
            f"{root:.3g}",
            float(point.queue[0]) * 1e6 / C,
            *cells,
        )


TABLES = {"paced": paced, "clocked": clocked, "hpcc": hpcc, "packets": packets}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
