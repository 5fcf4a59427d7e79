"""Compute published delay systems with `ecc` and write the table of docs/gallery_of_delay_systems.md.

Usage: python docs/gallery_of_delay_systems.py
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import acos, atan, cos, exp, log, pi, sin, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import lambertw, mathieu_a

from ecc.fluid import linearize_dde
from ecc.linear import (
    DelayModel,
    DelaySystem,
    delay,
    descriptor,
    distributed_delay,
    floquet_multipliers,
    quasi_polynomial,
    stability_limit,
    transfer_function,
)

PAGE = Path(__file__).parent / "gallery_of_delay_systems.md"
START, END = "<!-- table: start -->", "<!-- table: end -->"
INTEGRATOR = transfer_function([1.0], [1.0, 0.0])
EXACT = 1e-9  # relative error allowed against a closed form


@dataclass(frozen=True)
class Case:
    """A system, one number that is known of it, and its computation by `ecc`.

    `tolerance`: largest difference; for printed values half a unit of their last digit. `source`: where the number was
    read, or the derivation of a closed form.
    """

    name: str
    system: str
    source: str
    quantity: str
    published: complex
    compute: Callable[[], complex]
    tolerance: float
    note: str = ""

    def value(self) -> complex:
        """Return the number as computed by `ecc`."""
        return complex(self.compute())

    def agrees(self) -> bool:
        """Return whether the computed number is the known one."""
        return abs(self.value() - self.published) <= self.tolerance


def closed(
    name: str,
    system: str,
    source: str,
    quantity: str,
    expected: complex,
    compute: Callable[[], complex],
    note: str = "",
) -> Case:
    """Return a case whose number is known in closed form."""
    return Case(name, system, source, quantity, expected, compute, EXACT * max(1.0, abs(expected)), note)


def delay_limit(system: Callable[[float], DelaySystem], stable: float, unstable: float) -> float:
    """Return the delay, or gain, at which stability is lost between two, by bisection with proven verdicts."""
    assert system(stable).is_stable and not system(unstable).is_stable
    while abs(unstable - stable) > 1e-10 * max(stable, unstable):
        middle = 0.5 * (stable + unstable)
        stable, unstable = (middle, unstable) if system(middle).is_stable else (stable, middle)
    return 0.5 * (stable + unstable)


def scalar(a: float, b: float) -> Callable[[float], DelaySystem]:
    """Return x' = a x - b x(t - tau) as a function of tau."""
    return lambda tau: DelaySystem([a, -b], [0.0, tau])


def first_order(a: float, b: float) -> float:
    """Return the delay margin of x' = a x - b x(t - tau): j w - a + b exp(-j w tau) = 0 with w^2 = b^2 - a^2."""
    return acos(a / b) / sqrt(b * b - a * a)


def scalar_cases() -> list[Case]:
    """Return equations of first order."""
    derived = "cos(wτ) = a/b, w² = b² - a² for x' = a x - b x(t-τ)"
    rows = [
        closed(
            "integrator with dead time", "x' = -x(t-τ)", "DDE-BIFTOOL, demos/linear_stability: Hopf at τ = π/2",
            "delay margin [s]", pi / 2, lambda: delay_limit(scalar(0.0, 1.0), 1.0, 2.0),
        ),
        closed(
            "nested lags", "x' = -x(t+θ₃), θ₀ = 0, θⱼ₊₁ = -p₁ - x(t+θⱼ) - p₂x(t+θⱼ)², at x = 0",
            "DDE-BIFTOOL, demos/nested: Hopf at p₁ = π/2", "p₁ at the Hopf bifurcation", pi / 2,
            lambda: delay_limit(scalar(0.0, 1.0), 1.0, 2.0), "all lags are p₁ at x = 0",
        ),
        Case(
            "rightmost root", "x' = -x(t-1)", "QPmR, notes/05_vyhlidal2014/example01: s + exp(-s); W₀(-1)",
            "rightmost root [1/s]", complex(lambertw(-1.0)), lambda: quasi_polynomial({0: [1, 0], 1: [1]}).roots(1)[0],
            1e-12,
        ),
        closed(
            "logistic equation with delay", "x' = r x (1 - x(t-1)) at x = 1",
            "linearization x' = -r x(t-1) (Hutchinson 1948): r = π/2", "r at the Hopf bifurcation", pi / 2,
            lambda: stability_limit(
                lambda r: linearize_dde(lambda t, y, ylag, r: [r * y[0] * (1.0 - ylag[0, 0])], [1.0], [1.0], args=[r])
            ).value,
        ),
        closed(
            "Mackey-Glass", "x' = 2 x(t-τ)/(1+x(t-τ)¹⁰) - x at x = 1",
            "parameters of DDE-BIFTOOL, demos/Mackey-Glass; x' = -x - 4x(t-τ), " + derived, "delay at the Hopf [s]",
            first_order(-1.0, 4.0), lambda: delay_limit(scalar(-1.0, 4.0), 0.1, 1.0),
        ),
        closed(
            "blowflies", "x' = e⁴ x(t-τ) exp(-x(t-τ)) - x at x = 4", "x' = -x - 3x(t-τ), " + derived,
            "delay at the Hopf [s]", first_order(-1.0, 3.0), lambda: delay_limit(scalar(-1.0, 3.0), 0.1, 1.0),
        ),
        closed(
            "unstable plant, proportional control", "x' = x - 2x(t-τ)", derived, "delay margin [s]",
            first_order(1.0, 2.0), lambda: delay_limit(scalar(1.0, 2.0), 0.1, 1.0),
        ),
        closed(
            "Hayes' equation", "x' = -x - b x(t-1)", "Hayes 1950: 1 = -w cot w, b = w/sin w", "largest stable b",
            (w := brentq(lambda w: w * cos(w) + sin(w), 1.6, 3.1, xtol=1e-14)) / sin(w),
            lambda: stability_limit(lambda b: DelaySystem([-1.0, -b], [0.0, 1.0])).value,
        ),
        closed(
            "double dominant root", "x' = -exp(-1) x(t-1)", "Mazanti, Boussaada, Niculescu 2021: multiplicity 2 at -1",
            "spectral abscissa, rounded to 1e-6 [1/s]", -1.0,
            lambda: round(DelaySystem([-exp(-1.0)], [1.0]).spectral_abscissa, 6),
            "the root splits by 1e-8 when exp(-1) is rounded",
        ),
    ]  # fmt: skip
    return rows


def haag_cases() -> list[Case]:
    """Return the systems of Haag, Muenz and Allgoewer 2009 with equal delays."""
    source = "Haag, Münz, Allgöwer 2009, matrices in a public MATLAB file of its nine examples; derived: "
    second = ([[0.0, 1.0], [-1.0, -1.0]], [[0.0, 0.0], [0.0, -1.0]])
    triangular = ([[-2.0, 0.0], [0.0, -0.9]], [[-1.0, 0.0], [-1.0, -1.0]])
    sixth = ([[0.0, 1.0], [-(1 + 49 / 256), -7 / 8]], [[0.0, 0.0], [0.2 - 0.8, 0.0]])
    third = (
        np.array([[-1, 13.5, -1], [-3, -1, -2], [-2, -1, -4]]),
        np.array([[-5.9, 7.1, -70.3], [2, -1, 5], [2, 0, 6]]),
    )

    def pair(matrices: tuple[object, object]) -> Callable[[float], DelaySystem]:
        return lambda tau: DelaySystem([np.asarray(x, float) for x in matrices], [0.0, tau])

    critical = critical_delays(*third)
    rows = [
        closed("Haag 1", "s² + s + 1 + s exp(-sτ)", source + "w = 1, exp(-jτ) = -1: a root touches the axis at τ = π",
               "value at s = j, τ = π", 0.0, lambda: pair(second)(pi).characteristic(1j)),
        closed("Haag 2", "A = diag(-2, -0.9), B = [[-1, 0], [-1, -1]]", source + "x' = -0.9x - x(t-τ)",
               "delay margin [s]", first_order(-0.9, 1.0), lambda: delay_limit(pair(triangular), 1.0, 10.0)),
        closed("Haag 3 (Olgac and Sipahi 2002)", "3 states, one delay", source + "Kronecker eigenproblem",
               "end of the first stable interval [s]", critical[0], lambda: delay_limit(pair(third), 0.05, 0.17)),
        closed("Haag 3 (Olgac and Sipahi 2002)", "the same", source + "Kronecker eigenproblem",
               "start of the second stable interval [s]", critical[1], lambda: delay_limit(pair(third), 0.2, 0.17)),
        closed("Haag 3 (Olgac and Sipahi 2002)", "the same", source + "Kronecker eigenproblem",
               "end of the second stable interval [s]", critical[2], lambda: delay_limit(pair(third), 0.2, 0.24)),
        closed("Haag 4", "x' = 0.5x - 0.9x(t-τ) - 1.5x(t-τ)", source + "x' = 0.5x - 2.4x(t-τ)", "delay margin [s]",
               first_order(0.5, 2.4), lambda: delay_limit(scalar(0.5, 2.4), 0.1, 1.0)),
        closed("Haag 5", "x' = -x(t-τ) - 2x(t-τ)", source + "π/6", "delay margin [s]", pi / 6,
               lambda: delay_limit(scalar(0.0, 3.0), 0.1, 1.0)),
        closed("Haag 6", "s² + 7/8 s + 305/256 + 0.6 exp(-sτ)",
               source + "|jw-polynomial|² > 0.36 for all w: stable for every τ", "unstable roots at τ = 1, 10, 100",
               0.0, lambda: sum(pair(sixth)(tau).certify().unstable or 0 for tau in (1.0, 10.0, 100.0))),
        closed("Haag 9", "x' = -2x - 4x(t-τ) - 3x(t-τ) - x(t-τ)", source + "x' = -2x - 8x(t-τ)", "delay margin [s]",
               first_order(-2.0, 8.0), lambda: delay_limit(scalar(-2.0, 8.0), 0.1, 1.0)),
    ]  # fmt: skip
    return rows


def critical_delays(a: NDArray[np.float64], b: NDArray[np.float64]) -> list[float]:
    """Return the delays at which x' = a x + b x(t - tau) has imaginary roots, by a quadratic eigenproblem.

    If j w v = (a + b z) v with |z| = 1, the Kronecker sum of a + b z and its conjugate a + b/z is singular.
    """
    n = len(a)
    unit = np.eye(n)
    m2, m1, m0 = np.kron(unit, b), np.kron(unit, a) + np.kron(a, unit), np.kron(b, unit)
    size = n * n
    left = np.block([[np.zeros((size, size)), np.eye(size)], [-m0, -m1]])
    right = np.block([[np.eye(size), np.zeros((size, size))], [np.zeros((size, size)), m2]])
    from scipy.linalg import eigvals

    delays = []
    for z in eigvals(left, right):
        if not np.isfinite(z) or abs(abs(z) - 1.0) > 1e-8:
            continue
        for root in np.linalg.eigvals(a + b * z):
            if abs(root.real) < 1e-8 and root.imag > 1e-6:
                delays.append(float(np.remainder(-np.angle(z), 2.0 * pi) / root.imag))
    return sorted(delays)


def matrix_cases() -> list[Case]:
    """Return systems of several states from public programs."""
    verheyden = (
        np.array([[-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -10, -4], [0, 0, 4, -10.0]]),
        np.array([[3, 3, 3, 3], [0, -1.5, 0, 0], [0, 0, 3, -5], [0, 5, 5, 5.0]]),
    )

    def neurons(a21: float, long: float = 1.5) -> DelaySystem:
        return DelaySystem(
            [-0.5 * np.eye(2), -np.eye(2), [[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [a21, 0.0]]], [0.0, long, 0.2, 0.2]
        )

    lead = 8.0 + 5.0 * pi
    a = [2 / 5 * (65 * pi + 32), 9 * pi**2 * (13 + 5 * pi), 324 / 5 * pi**2 * (5 * pi + 4)]
    b = [(260 * pi + 128 + 225 * pi**2) / 10, 45 * pi**2, 81 * pi**2 * (40 * pi + 32 + 25 * pi**2) / 10]
    double = quasi_polynomial({0.0: [1.0, *(x / lead for x in a)], 1.0: [x / lead for x in b]})
    now = np.array([[1, 2, 3], [4, 5, 6], [1, -1, 3.0]])
    later = (np.array([[1, 0, 3], [0, 0, -1], [0, 0, 10.0]]) - now) * np.e
    neuron = "DDE-BIFTOOL, demos/neuron/html/demo1_hopf"
    shift = np.array([[0.0, 1.0], [0.0, 0.0]])
    rows = [
        Case("four states", "Verheyden, Luzyanina, Roose 2008; TDS-CONTROL manual, example 2.1",
             "tdcpy, tests/stability/test_rightmost_root", "rightmost root [1/s]", 0.6176424667764324,
             lambda: DelaySystem(verheyden, [0.0, 1.0]).roots(1)[0], 1e-12),
        Case("coupled neurons", "x₁' = -x₁/2 - x₁(t-1.5) + x₂(t-0.2), x₂' = -x₂/2 - x₂(t-1.5) + a₂₁x₁(t-0.2)", neuron,
             "a₂₁ at the first Hopf", 0.80712, lambda: stability_limit(neurons).value, 5e-6),
        Case("coupled neurons", "the same", neuron, "frequency there [rad/s]", 0.78197,
             lambda: stability_limit(neurons).frequency, 5e-6),
        Case("coupled neurons", "the same, a₂₁ = 2.34", "DDE-BIFTOOL, demos/neuron/html/demo1_stst: one real mode",
             "unstable roots", 1.0, lambda: neurons(2.34).certify().unstable or 0, 0.0),
        Case("coupled neurons", "the same, a₂₁ = 0.207, delay 8.6341", neuron + " (second Hopf)",
             "imaginary root nearest 0.9j [rad/s]", 0.91575j,
             lambda: min(neurons(0.207, 8.6341).roots(8), key=lambda s: abs(s - 0.9j)), 5e-5,
             "parameters are printed with five digits"),
        Case("triangular, long delay", "x' = -x + y(t-50), y' = -y",
             "DDE-BIFTOOL, demos/linear_stability: double -1, spurious roots in three discretizations",
             "sum of the roots [1/s]", -2.0,
             lambda: DelaySystem([-np.eye(2), shift], [0.0, 50.0]).roots(4).sum(), 0.0,
             "exactly two roots, also for long delays"),
        Case("known eigenvalue", "3 states, matrices of dep1", "NEP-PACK, gallery dep1: eigenvalue 1",
             "distance of a root from 1", 0.0,
             lambda: np.abs(DelaySystem([now, later], [0.0, 1.0]).roots(12) - 1.0).min(), 1e-9),
        Case("double imaginary root", "s³ + a₁s² + a₂s + a₃ + (b₁s² + b₂s + b₃) exp(-s)",
             "NEP-PACK, gallery dep_double: double eigenvalue 3πj", "root nearest 3πj [rad/s]", 3j * pi,
             lambda: min(double.roots(6), key=lambda s: abs(s - 3j * pi)), 1e-6,
             "rounding of the coefficients splits the root by 1e-7"),
    ]  # fmt: skip
    return rows


def neutral_cases() -> list[Case]:
    """Return neutral, descriptor and difference systems."""
    strong = quasi_polynomial({0.0: [1.0, -0.25], 1.0: [-0.75, 1 / 3], 2.0: [0.5, 0.0]})
    chain = quasi_polynomial({0.0: [1.0, 0.0], 1.0: [1.0, 1.0], 2.0: [1.0]})
    smith = quasi_polynomial({0.0: [1.5, 3.0]})
    a0 = np.array([[-0.08, -0.03, 0.2], [0.2, -0.04, -0.005], [-0.06, 0.2, -0.07]])
    bu, d1, d2 = np.array([-0.1, -0.2, 0.1]), np.array([3.0, 4.0, 1.0]), np.array([0.4, -0.4, -0.4])

    def feedback(gains: list[float]) -> DelaySystem:
        k = np.array(gains)
        now = np.block([[a0, np.zeros((3, 1))], [k[None] * 1.0, -np.ones((1, 1))]])
        late, later = np.zeros((4, 4)), np.zeros((4, 4))
        late[3, 3], later[3, 3], later[:3, 3] = k @ d1, k @ d2, bu
        return descriptor(np.diag([1.0, 1.0, 1.0, 0.0]), [now, late, later], [0.0, 2.5, 5.0])

    rows = [
        closed("neutral equation", "x' - 0.75x'(t-1) + 0.5x'(t-2) = x/4 - x(t-1)/3",
               "TDS-CONTROL manual, example 2.6 (tdcpy, tests/examples); 0.75 exp(-c) + 0.5 exp(-2c) = 1",
               "essential abscissa under small changes of the delays [1/s]", -log(sqrt(0.75**2 + 2.0) - 0.75),
               lambda: strong.essential_abscissa),
        closed("two chains of roots", "s + (1+s) exp(-s) + exp(-2s)", "QPmR, examples/01_journal2026/example01: "
               "product of s + exp(-s) and 1 + exp(-s)", "value at W₀(-1)", 0.0,
               lambda: chain.characteristic(complex(lambertw(-1.0)))),
        closed("two chains of roots", "the same", "the same: 1 + exp(-s)", "essential abscissa [1/s]", 0.0,
               lambda: chain.essential_abscissa),
        closed("Smith predictor without mismatch", "1.5s + 3 + (s/2+2)(exp(-s) - exp(-s))",
               "TDS-CONTROL manual, example 2.12 (tdcpy): δ = 0", "rightmost root [1/s]", -2.0,
               lambda: smith.roots(1)[0]),
        Case("feedback through delays (descriptor)", "3 states, y = x + D₁u(t-2.5) + D₂u(t-5), u = K y",
             "tdcpy, examples/03_stabopt/example_strong_sa_02: -0.0308894", "essential abscissa [1/s]", -0.0308894,
             lambda: feedback([0.0409, 0.0612, 0.3837]).essential_abscissa, 1.7e-4,
             "K is printed with four digits; with these digits a pair of roots is at -0.02525 ± 0.00936j, right of the "
             "file's spectral abscissa of -0.0309"),
        Case("feedback through delays (descriptor)", "the same with another K",
             "tdcpy, tests/stability/test_rightmost_root, problem_20260220", "rightmost root [1/s]",
             -0.001118911788916191 + 0.0011739231139356607j,
             lambda: feedback([0.235365617136169, -0.485057279586679, 1.146471826538495]).roots(1)[0], 1e-6),
        closed("echo", "x = -0.9 x(t-1)", "exp(-s) = -1/0.9", "essential abscissa [1/s]", log(0.9),
               lambda: delay(1.0, 1.0).feedback(0.9).system.essential_abscissa),
        closed("difference equation", "x + 0.5x(t-1) + 0.6x(t-2) = 0",
               "0.5 + 0.6 > 1: not strongly stable (Hale and Verduyn Lunel), roots at these delays are stable",
               "essential abscissa [1/s]", -log((sqrt(0.25 + 2.4) - 0.5) / 1.2),
               lambda: quasi_polynomial({0.0: [1.0], 1.0: [0.5], 2.0: [0.6]}).essential_abscissa),
    ]  # fmt: skip
    return rows


def oscillator_cases() -> list[Case]:
    """Return mechanical systems."""
    zeta = 0.05
    omega = sqrt(1.0 + 2.0 * zeta)
    turn = 2.0 * (pi - atan(1.0 / omega)) / omega

    def turning(w: float) -> DelaySystem:
        return quasi_polynomial({0.0: [1.0, 2.0 * zeta, 1.0 + w], turn: [-w]})

    def pyragas(gain: float) -> DelaySystem:
        now = np.array([[0.1 - gain, -1.0], [1.0, 0.1 - gain]])
        return DelaySystem([now, gain * np.eye(2)], [0.0, pi])

    def mathieu(delta: float, epsilon: float, b: float) -> float:
        return floquet_multipliers(
            lambda t: [[0.0, 1.0], [-delta - epsilon * cos(t), 0.0]],
            [lambda t: [[0.0, 0.0], [b, 0.0]]],
            [2.0 * pi],
            2.0 * pi,
        ).spectral_radius

    edge = mathieu_a(1, 2.0) / 4.0 - 0.75
    rows = [
        closed("turning", "x'' + 0.1x' + x = -w (x - x(t-τ)) at the worst speed",
               "Tobias; Stépán 1989: w = 2ζ(1+ζ)", "stable depth w", 2.0 * zeta * (1.0 + zeta),
               lambda: stability_limit(turning).value),
        closed("unstable focus with delayed feedback", "z' = (0.1 + j)z - K (z - z(t-π))",
               "Hövel and Schöll 2005: K = λ/2 at half the period", "smallest stable K", 0.05,
               lambda: delay_limit(pyragas, 0.2, 0.01)),
        closed("delayed oscillator", "x'' + 0.2x = b x(t-2π)", "Hsu and Bhatt 1966: b = 1/4 - δ, root j/2",
               "value at s = j/2, b = 0.05", 0.0,
               lambda: quasi_polynomial({0.0: [1.0, 0.0, 0.2], 2.0 * pi: [-0.05]}).characteristic(0.5j)),
        closed("delayed Mathieu equation", "x'' + (0.75 + cos t)x = b x(t-2π)",
               "Insperger and Stépán 2002: multiplier -1, so 4(δ+b) = a₁(2ε) of Mathieu's equation",
               "spectral radius at b = a₁(2)/4 - 0.75", 1.0, lambda: mathieu(0.75, 1.0, edge)),
        closed("delayed Mathieu equation without modulation", "x'' + 0.2x = 0.05 x(t-2π)",
               "Hsu and Bhatt 1966: multiplier exp(jπ)", "spectral radius", 1.0, lambda: mathieu(0.2, 0.0, 0.05)),
    ]  # fmt: skip
    return rows


def distributed_cases() -> list[Case]:
    """Return systems with distributed delays."""

    def limit(kernel: DelayModel) -> float:
        return stability_limit(lambda k: (INTEGRATOR * kernel).feedback(k).system).value

    prediction = distributed_delay(1.0, [1.0], rate=-1.0)
    law = delay(1.0, 0.0).feedback(3.0 * prediction) * (3.0 * np.e)
    assigned = (transfer_function([1.0], [1.0, -1.0], 1.0) * law).feedback()
    ramp = distributed_delay(1.0, [0.0, 1.0])
    w = brentq(lambda w: w * sin(w) + cos(w) - 1.0, 1.0, 3.0, xtol=1e-14)  # Re of the transform of θ on [0, 1]
    gain = w**3 / (sin(w) - w * cos(w))

    def crossing(k: float) -> complex:
        return min((INTEGRATOR * ramp).feedback(k).system.roots(2), key=lambda s: abs(s - 1j * w))

    rows = [
        closed("moving average", "x'(t) = -k/2 ∫₀² x(t-θ) dθ", "s = jπ/h: k = π²/(2h)", "largest stable k", pi**2 / 4,
               lambda: (INTEGRATOR * distributed_delay(2.0, [0.5])).loop().margins().gain_margin),
        closed("ramp kernel", "x'(t) = -k ∫₀¹ θ x(t-θ) dθ", "Re K(jw) = 0: w sin w + cos w = 1, k = -w/Im K(jw)",
               "rightmost root at this k [rad/s]", 1j * w, lambda: crossing(gain)),
        closed("gamma kernel of shape 2", "x' = -k x∗(9θ exp(-3θ))", "s(s+3)² + 9k, Routh: k = 2b", "largest stable k",
               6.0, lambda: limit(distributed_delay(None, [0.0, 9.0], 3.0))),
        closed("gamma kernel of shape 3", "x' = -k x∗(27/2 θ² exp(-3θ))", "phase: w = b/√3, k = 8b/9",
               "largest stable k", 8.0 / 3.0, lambda: limit(distributed_delay(None, [0.0, 0.0, 13.5], 3.0))),
        closed("finite spectrum assignment", "x' = x + u(t-1), u = -3(e x + ∫₀¹ exp(θ) u(t-θ) dθ)",
               "Manitius and Olbrot 1979: single pole 1 - k", "rightmost pole [1/s]", -2.0,
               lambda: assigned.poles(1)[0]),
    ]  # fmt: skip
    return rows


def loop_cases() -> list[Case]:
    """Return control loops with dead time."""
    process = delay(transfer_function([1.0], [10.0, 1.0]), 5.0)
    simc = transfer_function([3.0], [10.0, 1.0], 2.0) * transfer_function([25 / 3, 5 / 6], [10.0, 0.0])
    lag = transfer_function([5.6], [40.2, 1.0])
    pi_law = transfer_function([20.0, 0.5], [40.0, 0.0])
    smith = (delay(lag, 93.9) * pi_law.feedback(lag - delay(lag, 93.9))).feedback()
    book = "Bequette, Process Control, module 6.3"
    rules = "Skogestad 2003, τc = θ: L = exp(-sθ)/(2θs)"
    rows = [
        Case("lag with dead time", "exp(-5s)/(10s+1)", book, "largest stable gain", 3.8,
             lambda: stability_limit(lambda k: (k * process).loop()).value, 0.05),
        Case("lag with dead time", "the same", book, "phase crossover [rad/min]", 0.36,
             lambda: stability_limit(lambda k: (k * process).loop()).frequency, 0.01, "printed as around 0.36"),
        closed("SIMC tuning", "3 exp(-2s)/(10s+1), PI", rules, "gain margin", pi,
               lambda: simc.loop().margins().gain_margin),
        closed("SIMC tuning", "the same", rules, "phase margin [rad]", pi / 2 - 0.5,
               lambda: simc.loop().margins().phase_margin),
        closed("SIMC tuning", "the same", rules, "delay margin [s]", 2.0 * pi - 2.0,
               lambda: simc.loop().margins().delay_margin),
        closed("Smith predictor", "5.6 exp(-93.9s)/(40.2s+1), PI", "poles of the loop without dead time: "
               "40·40.2 s² + 152 s + 2.8", "fastest pole [1/s]",
               complex(np.roots([40.0 * 40.2, 152.0, 2.8])[0]), lambda: min(smith.poles(10), key=lambda s: s.real)),
    ]  # fmt: skip
    return rows


def cases() -> list[Case]:
    """Return all cases."""
    groups = (scalar_cases, haag_cases, matrix_cases, neutral_cases, oscillator_cases, distributed_cases, loop_cases)
    return [case for group in groups for case in group()]


def shown(value: complex) -> str:
    """Return a number with seven digits; values below 1e-9 are 0."""
    real, imag = (0.0 if abs(x) < 1e-9 else x for x in (value.real, value.imag))
    if imag == 0.0:
        return f"{real:.7g}"
    return f"{imag:.7g}j" if real == 0.0 else f"{real:.7g}{imag:+.7g}j"


def in_code(text: str) -> str:
    """Return text with functions such as exp(-s) set as code."""
    return re.sub(r"\b(?:exp|cos|sin)\([^()]*\)", r"`\g<0>`", text)


def table() -> str:
    """Return the rows of the page."""
    lines = [
        "| system | equation | source of the value | quantity | known | `ecc` | agrees |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases():
        verdict = "yes" if case.agrees() else "**no**"
        note = f"; {in_code(case.note)}" if case.note else ""
        numbers = shown(complex(case.published)), shown(case.value())
        cells = (case.name, f"`{case.system}`", in_code(case.source), in_code(case.quantity), *numbers)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + f" | {verdict}{note} |")
    return "\n".join(lines)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{table()}\n\n{END}{after}", encoding="utf-8")
