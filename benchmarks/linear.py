"""Speed and trust of `ecc.linear`, with the peer's figure and the ratio from the same run.

    python benchmarks/linear.py [--systems 300]

Peers: numpy.roots, python-control, and tdcpy where it is installed (`pip install tdcpy`). Times are wall time on one
thread, the best of a few runs. A dash: the peer cannot do it.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable
from math import pi
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread for everybody

import control
import numpy as np

from ecc.linear import DelaySystem, SampledSystem, stability_limit

try:
    from tdcpy.rdde import RDDE
    from tdcpy.roots import roots as tdcpy_roots
except ImportError:
    RDDE = None


def best(function: Callable[[], Any], runs: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def row(what: str, ours: float, peer: str = "-", theirs: float | None = None) -> None:
    """One line of the table, in milliseconds."""
    if theirs is None:
        print(f"{what:58s} {1e3 * ours:10.2f} ms   {peer}")
    else:
        print(f"{what:58s} {1e3 * ours:10.2f} ms   {peer} {1e3 * theirs:.2f} ms   ratio {theirs / ours:.1f}")


def polynomial(steps: int, gain: float) -> np.ndarray:
    """z^steps - z^(steps - 1) + gain."""
    out = np.zeros(steps + 1)
    out[[0, 1, -1]] = 1.0, -1.0, gain
    return out


def sampled() -> None:
    """Radius of one long delay, and of many."""
    for steps in (100, 400, 10_000):
        gain = 1.5 / steps
        ours = best(lambda g=gain, s=steps: SampledSystem([1.0, -g], [0, s - 1]).spectral_radius)
        if steps <= 400:
            peer = best(lambda s=steps, g=gain: np.abs(np.roots(polynomial(s, g))).max(), 2)
            row(f"spectral radius, degree {steps}", ours, "numpy.roots", peer)
        else:
            row(f"spectral radius, degree {steps}", ours, "numpy.roots: - (companion matrix of 800 MB)")
    delays = np.sort(np.random.default_rng(1).choice(np.arange(10, 10_000), 1000, replace=False))
    weights = np.r_[1.0, np.full(1000, -1.2e-3 / delays.mean())]
    many = SampledSystem(weights, np.r_[0, delays])
    row("spectral radius, degree 10000, 1000 delays", best(lambda: many.spectral_radius, 2))
    system = SampledSystem([1.0, -0.01], [0, 99], dt=1.0, opened=SampledSystem([1.0], [0]))
    loop = control.tf([0.01], np.r_[1.0, -1.0, np.zeros(99)], 1.0)
    row("margins, degree 100", best(system.margins), "python-control", best(lambda: control.stability_margins(loop), 3))


def gains() -> None:
    """Critical gains."""
    for low, high in ((0.02, 0.4), (0.01, 3.0)):
        tau = np.random.default_rng(2).uniform(low, high, 1000)
        family = lambda a, tau=tau: DelaySystem(np.full(1000, -a / 1000.0), tau)  # noqa: E731
        loss = stability_limit(family)
        s = 1j * loss.frequency
        error = abs(s + loss.value * np.exp(-s * tau).mean()) / loss.frequency
        name = f"critical gain, 1000 delays in {low} to {high} s (residual {error:.0e})"
        row(name, best(lambda f=family: stability_limit(f)))
    steps = 10_000
    loss = stability_limit(lambda a: SampledSystem([1.0, -a / steps], [0, steps - 1]))
    error = abs(loss.value / (2 * steps * np.sin(pi / (2 * (2 * steps - 1)))) - 1)
    row(
        f"critical gain, degree 10000, {len(loss.crossings)} crossings (error {error:.0e})",
        best(lambda: stability_limit(lambda a: SampledSystem([1.0, -a / steps], [0, steps - 1]))),
    )
    family = lambda a: SampledSystem([1.0, -a / 10], [0, 9])  # noqa: E731
    row("critical gain with proof, D = 10", best(lambda: stability_limit(family, certify=True)))


def tdcpy_unstable(system: DelaySystem) -> int:
    """Number of roots in the right half plane that tdcpy finds."""
    matrices, delays = np.moveaxis(system.matrices, 0, -1), system.delays
    if delays[0] > 0.0:  # tdcpy asks for a term without delay, and drops those below 1e-8
        matrices, delays = np.insert(matrices, 0, -1e-7 * np.eye(system.size), axis=-1), np.insert(delays, 0, 0.0)
    tds = RDDE(matrices, delays)
    found = np.atleast_1d(tdcpy_roots(tds, r=0.0)[0])
    found = found[found.real > 0.0]
    return int(np.where(np.abs(found.imag) > 1e-9, 2, 1)[found.imag >= 0.0].sum())


def counts() -> None:
    """Certified counts at the size of the papers' systems."""
    systems = {
        "one delay": DelaySystem([-1.0], [1.0]),
        "one state, four delays": DelaySystem([-1.0, 0.4, -0.5, 0.2], [1.0, 1.1, 0.3, 0.4]),
        "two states, queue term": DelaySystem([[[0, 1], [0, 0]], [[0, 0], [-0.3, -0.4]]], [0.0, 1.0]),
    }
    for name, system in systems.items():

        def fresh(s: DelaySystem = system) -> DelaySystem:
            return DelaySystem(s.matrices, s.delays)

        row(f"verdict, {name}", best(lambda f=fresh: f().is_stable, 50))
        ours = best(lambda f=fresh: f().certify(), 50)
        if RDDE:
            row(f"certified count, {name}", ours, "tdcpy (no proof)", best(lambda f=fresh: tdcpy_unstable(f()), 5))
        else:
            row(f"certified count, {name}", ours)
    row("certified count, D = {10, 20}", best(lambda: SampledSystem([1.0, -0.06, -0.06], [0, 9, 19]).certify(), 50))


def spread(rng: np.random.Generator, size: int) -> DelaySystem:
    """A random system whose delays spread over a factor 300, its gain on both sides of the boundary."""
    count = int(rng.integers(1, 25))
    tau = np.exp(rng.uniform(np.log(0.01), np.log(3.0), count))
    gain = rng.uniform(0.1, 15.0) / tau.mean() / count
    matrices = -gain * rng.uniform(0.2, 1.8, (count, 1, 1)) * np.eye(size)
    if size > 1:
        matrices = matrices + 0.4 * gain * rng.normal(size=(count, size, size))
    return DelaySystem(matrices, tau)


def trust(number: int) -> None:
    """Verdicts and counts on random systems of one and two states, and who was right by certificate."""
    rng = np.random.default_rng(3)
    tally: Counter[str] = Counter()
    spent = dict(verdict=0.0, proof=0.0, tdcpy=0.0)
    for i in range(number):
        system = spread(rng, 1 + i % 2)
        start = time.perf_counter()
        verdict = system.is_stable
        middle = time.perf_counter()
        proof = system.certify()
        spent["verdict"] += middle - start
        spent["proof"] += time.perf_counter() - middle
        if proof.unstable is None:
            tally["undecided"] += 1
            continue
        tally["unstable"] += not proof.stable
        tally["ours"] += verdict is not proof.stable
        roots = system.roots(proof.unstable + 1)
        tally["our roots"] += int((roots.real > 0.0).sum()) != proof.unstable
        if not RDDE:
            continue
        start = time.perf_counter()
        try:
            theirs = tdcpy_unstable(system)
        except Exception as error:  # a peer's failure of any kind is counted, not hidden
            tally["failed"] += 1
            tally[f"failure: {type(error).__name__}: {str(error)[:70]}"] += 1
        else:
            tally["their count"] += theirs != proof.unstable
            tally["too few"] += theirs < proof.unstable
            tally["their verdict"] += (theirs == 0) is not proof.stable
            tally["they right, we wrong"] += (theirs == 0) is proof.stable and verdict is not proof.stable
            tally["we right, they wrong"] += (theirs == 0) is not proof.stable and verdict is proof.stable
        spent["tdcpy"] += time.perf_counter() - start
    each = {name: 1e3 * seconds / number for name, seconds in spent.items()}
    print(
        f"\n{number} random systems, one and two states, delays over a factor 300: {tally['unstable']} proven unstable"
    )
    print(f"  not decided by proof: {tally['undecided']}; proof: {each['proof']:.2f} ms a system")
    print(f"  is_stable against the proof: {tally['ours']} disagreements, {each['verdict']:.2f} ms a system")
    print(f"  unstable roots listed by roots() against the proof: {tally['our roots']} disagreements")
    if RDDE:
        print(
            f"  tdcpy: {tally['their count']} counts differ from the proof ({tally['too few']} too few), "
            f"{tally['their verdict']} verdicts, {tally['failed']} failures, {each['tdcpy']:.2f} ms a system, "
            f"ratio {each['tdcpy'] / each['proof']:.1f}"
        )
        print(
            f"  right by certificate where the verdicts differ: we {tally['we right, they wrong']}, "
            f"tdcpy {tally['they right, we wrong']}"
        )
        for name, times in sorted(tally.items()):
            if name.startswith("failure: "):
                print(f"    {times} x {name[9:]}")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", type=int, default=300, help="random systems for the comparison of verdicts")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if RDDE is None:
        print("tdcpy is not installed: its figures are left out")
    sampled()
    gains()
    counts()
    trust(options.systems)


if __name__ == "__main__":
    main()
