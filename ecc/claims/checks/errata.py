"""Errata of the papers: printed values, and computations that contradict them."""

from __future__ import annotations

from cmath import exp
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from math import acos, cos, pi, sin

import numpy as np

from ecc import packet
from ecc.claims import setups
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.models import BIC, RCP, MaxNet
from ecc.models.maxnet import MaxNetOption
from ecc.network.allocation import max_min
from ecc.network.network import Network
from ecc.results import metrics
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario


@dataclass(frozen=True)
class Erratum:
    """A printed number and the computed one; they differ if the relative difference exceeds `rounding`."""

    name: str
    computed: float
    printed: float
    unit: str = ""
    rounding: float = 1e-6
    note: str = ""

    @property
    def differs(self) -> bool:
        """True if the printed number differs from the computed one."""
        return not abs(self.computed - self.printed) <= self.rounding * abs(self.computed)


def erratum(
    claim_id: str, cost: float = 0.1
) -> Callable[[Callable[[], Sequence[Erratum]]], Callable[[Claim], Finding]]:
    """Register a function without arguments that returns errata as the check of a claim.

    Parameters
    ----------
    claim_id : str
        Id in the ledger.
    cost : float, optional
        Approximate duration, s.
    """

    def register(function: Callable[[], Sequence[Erratum]]) -> Callable[[Claim], Finding]:
        @check(claim_id, cost, main=False)
        @wraps(function)
        def checked(claim: Claim) -> Finding:
            rows = function()
            wrong = [row for row in rows if row.differs]
            verdict = (
                Verdict.CONFIRMED if not wrong else Verdict.REFUTED if len(wrong) == len(rows) else Verdict.CONDITIONAL
            )
            text = "; ".join(
                f"{r.name} is {r.computed:.6g}{f' {r.unit}' if r.unit else ''}, not {r.printed:.6g}" for r in wrong
            )
            table = [Measurement(r.name, float(f"{r.computed:.6g}"), r.unit, r.printed, r.note) for r in rows]
            return Finding(claim, verdict, f"{text}." if text else "All values are as printed.", table)

        return checked

    return register


def _rcp_alone(sign: float, duration: float = 20.0, T: float = 0.01, D: float = 0.1, C: float = 1e7) -> float:
    """Return the maximum rate over capacity in the second half of a run of RCP's law with one flow."""
    p = RCP(alpha=0.4, beta=0.2).namespace()
    p.beta *= sign
    lag, rates, q = round(D / T), [0.05 * C], 0.0
    for n in range(round(duration / T)):
        y = rates[max(n - lag, 0)]
        q = max(q + T * (y - C), 0.0)
        rates.append(min(RCP.router_law(rates[-1], y, q, C, D, T, p), 1e6 * C))
    return max(rates[len(rates) // 2 :]) / C


@erratum("erratum-rcp-sign", 1.0)
def rcp_sign() -> Sequence[Erratum]:
    """Show that a queue raises the fair rate in the printed law."""
    right, printed = _rcp_alone(1.0), _rcp_alone(-1.0)
    note = (
        "alpha = 0.4, beta = 0.2, RTT 100 ms: second half of 20 s; the printed law grows to the limit of the "
        "computation"
    )
    return [Erratum("maximum rate over capacity", right, printed, note=note, rounding=0.5)]


@erratum("erratum-jetmax-18")
def jetmax_18() -> Sequence[Erratum]:
    """Show that the flow's rate tends to zero in the printed law, for any share."""
    tau, share = 0.6, 1.0
    printed = right = 0.3
    for _ in range(60):
        printed = (1.0 - tau) * printed - tau * printed
        right = (1.0 - tau) * right + tau * share
    return [
        Erratum(
            "equilibrium rate over the fair share", right, printed, note="tau = 0.6, from 0.3 of the share, 60 steps"
        )
    ]


@erratum("erratum-pi")
def rounded_pi() -> Sequence[Erratum]:
    """Compute bounds with pi instead of the paper's 22/7."""
    return [
        Erratum("pi/4 (Theorem 9)", pi / 4, 0.78571, rounding=1e-5),
        Erratum("pi/12 (Theorem 10, d = 100 ms, D = 300 ms)", pi / 12, 0.261905, rounding=1e-6),
        Erratum("20 sin(pi/38) (Theorem 7, D = 10)", 20.0 * sin(pi / 38.0), 1.6523, rounding=1e-5),
    ]


@erratum("erratum-piqi-algebra")
def piqi_algebra() -> Sequence[Erratum]:
    """Check constants of (4.79) and (4.87), the crossing of (4.88), and a missing factor in (4.28)."""
    alpha, tau1, tau2, fair = 0.5, 0.5, 1.0, 1.0

    def fixed_point(constant: float) -> float:
        R = before = y = 0.0
        for _ in range(4000):
            R, before, y = (
                (1.0 - 0.1 * (0.05)) * R - (0.1 * 0.98 + 0.1) * y + 0.1 * 0.03 * before + constant,
                R,
                0.98 * y + 0.05 * R - 0.03 * before,
            )
        return R

    def filtered(w: float) -> complex:
        z = exp(-1j * w)
        return (tau1 + tau2 + tau1 * z - tau2 * z * z) / (1.0 - (1.0 - tau1) * z)

    grid = np.linspace(0.05, 3.0, 4001)
    signs = np.sign([filtered(w).imag for w in grid])
    crossing = float(grid[np.flatnonzero(signs[1:] != signs[:-1])[0]])
    printed = ((tau1**2 - 2 * tau1 + 2 * tau1 * tau2) / (tau2 * (1 - tau1))) ** 0.5
    exact = acos(1.0 + tau1 * (2.0 - tau1 - 2.0 * tau2) / (2.0 * tau2))
    delays, w = (1.0, 2.0), 0.5
    plant = sum(exp(-1j * w * D) / (1j * w) for D in delays) / (len(delays) * np.mean(delays))
    return [
        Erratum(
            "(4.79): equilibrium fair rate, of gamma C/N",
            fixed_point(2 * 0.1 * fair),
            fixed_point(0.1 * fair),
            rounding=1e-3,
            note="with the constant 2 gamma alpha C/N, and as printed; alpha = 0.1, tau1 = 0.02, tau2 = 0.03",
        ),
        Erratum("(4.87): T(1)", filtered(0.0).real, 2.0 * alpha, note="alpha = 0.5, which T_D already contains"),
        Erratum(
            "(4.88): frequency with Im T = 0 [rad/step]",
            crossing,
            printed,
            rounding=0.01,
            note=f"tau1 = 0.5, tau2 = 1; 1 + tau1 (2 - tau1 - 2 tau2)/(2 tau2) = cos {exact:.4f}",
        ),
        Erratum(
            "(4.28): Im G/alpha",
            float(plant.imag),
            sum(cos(w * D) for D in delays) / 3.0,
            rounding=1e-3,
            note="D = {1, 2}, omega = 0.5: the factor -1/omega is missing",
        ),
    ]


@erratum("erratum-jetmax-numbers")
def jetmax_numbers() -> Sequence[Erratum]:
    """Check shares and times of JETMAX secs. 3.4 and 7."""
    shares = max_min(Network.dumbbell("400 Mb/s", rtts=[0.1] * 51))
    return [
        Erratum("mean RTT in T2 (sec. 3.4)", (99 * 220.0 + 2020.0) / 100.0, 200.0, "ms", 0.05),
        Erratum("three RTTs of 220 ms (sec. 7.1)", 3 * 0.22, 2.6, "s", 0.05, "and of 2.02 s: 6.06 s"),
        Erratum("share of one long and 50 short flows of 400 Mb/s (sec. 7.2)", shares[0] / 1e6, 7.7, "Mb/s", 0.005),
        Erratum(
            "share with losses of 20 and 10 % (sec. 7.3)",
            5.0 / 0.85,
            5.82,
            "Mb/s",
            0.005,
            "two flows send x each and 10 Mb/s arrive: x (0.8 + 0.9) = 10",
        ),
    ]


def _run(protocol: Protocol, duration: float) -> tuple[Trajectory, Scenario]:
    scenario = Scenario(protocol=protocol, seed=1, **setups.build("wan_in_lab", {"duration": duration}, 1))
    return packet.simulate(scenario, sample=0.1), scenario


@erratum("erratum-buffer", 1.0)
def small_buffer() -> Sequence[Erratum]:
    """Check RTTs of more than 70, 200 and 250 ms with one buffer of 30 kB at 10 Mb/s."""
    run, scenario = _run(BIC(transport="sack", form="linux"), 20.0)
    longest = 1e3 * metrics.peak_round_trip(run, scenario)
    return [
        Erratum(
            f"maximum RTT of BIC, {name}", longest, reported, "ms", 0.05, "28 ms of propagation and 24 ms of buffer"
        )
        for name, reported in (("one flow", 70.0), ("as FAST with four flows", 200.0), ("four flows", 250.0))
    ]


@erratum("erratum-frequency", 1.0)
def frequency() -> Sequence[Erratum]:
    """Compare prices every 10 ms and every 10,000 ms."""
    means = {}
    for interval in (0.01, 10.0):
        run, scenario = _run(MaxNet(interval=interval), 30.0)
        means[interval] = 1e3 * metrics.round_trip(run, scenario)
    return [Erratum("mean RTT with prices every 10 ms, and every 10,000 ms", means[0.01], means[10.0], "ms", 0.1)]


@erratum("erratum-fields")
def fields() -> Sequence[Erratum]:
    """Check bits of the IP header, and the length of a TCP option (RFC 9293: it includes kind and length)."""
    return [
        Erratum("EDN: bits of the fragment offset, with three flags in 16 bits", 16 - 3, 14),
        Erratum(
            "MAXNET fig. 3: length of the option by the TCP rule", len(MaxNetOption(echo=0.0, price=0.0).encode()), 6
        ),
    ]
