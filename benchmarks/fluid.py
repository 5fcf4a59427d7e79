"""Fluid engine beside jitcdde at equal error: ours, the peer's and the ratio in one run (`python benchmarks/fluid.py`).

Mackey-Glass (tau = 17) is chaotic, so errors are compared on [0, 300], before they grow beyond all bounds, and the time
is that to t = 10,000. The system of 50 delays is an RCP-like router, R' = -(alpha/d) mean R(t - D_i), at 0.98 and 1.02
of its stability boundary, to t = 1000. Compilations are not counted.
"""

from __future__ import annotations

from contextlib import chdir
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from ecc.fluid import solve_dde
from ecc.linear import DelaySystem
from ecc.linear.crossings import first_loss

TAU = 17.0
DELAYS = np.linspace(0.02, 0.22, 50)


def mackey_glass(t: float, y: Any, ylag: Any) -> Any:
    return 0.2 * ylag[0] / (1.0 + ylag[0] ** 10) - 0.1 * y


class Ours:
    """`solve_dde` at a tolerance: (values on a grid, CPU seconds to the end)."""

    name = "ecc"

    def __init__(self, f: Any, delays: Any, level: float) -> None:
        self.f, self.delays, self.level = f, delays, level
        self.run(1e-3, np.array([1.0]))  # compiles

    def run(self, tolerance: float, grid: Any) -> tuple[Any, float]:
        begun = process_time()
        result = solve_dde(
            self.f, (0.0, grid[-1]), [self.level], self.delays, t_eval=grid, rtol=tolerance, atol=tolerance
        )
        return result.y[0], process_time() - begun


class Peer:
    """jitcdde at a tolerance, its C module compiled."""

    name = "jitcdde"

    def __init__(self, expression: Any, level: float) -> None:
        from jitcdde import jitcdde

        self.system = jitcdde(expression, verbose=False)
        self.level = level
        with TemporaryDirectory() as folder, chdir(folder):  # its build reads the pyproject.toml it finds
            self.system.compile_C(verbose=False)

    def run(self, tolerance: float, grid: Any) -> tuple[Any, float]:
        system = self.system
        system.purge_past()
        system.constant_past([self.level], time=0.0)
        system.reset_integrator()
        system.set_integration_parameters(rtol=tolerance, atol=tolerance, first_step=1e-3, min_step=1e-14)
        begun = process_time()
        system.adjust_diff()
        start = system.t
        values = [system.integrate(t)[0] if t > start else np.nan for t in grid]
        return np.array(values), process_time() - begun


def compare(title: str, ours: Ours, peer: Peer, check: Any, grid: Any, tolerances: Any) -> None:
    """Print both at each of the peer's tolerances, ours at one that errs no more."""
    reference, _ = ours.run(1e-13, check)
    scale = np.sqrt(np.mean(reference**2))

    def error(solver: Any, tolerance: float) -> float:
        values, _ = solver.run(tolerance, check)
        return float(np.sqrt(np.nanmean((values - reference) ** 2)) / scale)

    print(f"\n{title}\n{'error':>10} {'ecc [s]':>10} {'jitcdde [s]':>12} {'ratio':>7}")
    for tolerance in tolerances:
        target = error(peer, tolerance)
        mine = 1e-1
        while error(ours, mine) > target and mine > 1e-13:
            mine /= 2.0
        seconds = [min(solver.run(at, grid)[1] for _ in range(times)) for solver, at, times in
                   ((ours, mine, 3), (peer, tolerance, 1))]  # fmt: skip
        print(f"{target:10.1e} {seconds[0]:10.4f} {seconds[1]:12.4f} {seconds[1] / seconds[0]:7.1f}")


def main() -> None:
    """Run both problems."""
    from jitcdde import t, y

    expression = [0.2 * y(0, t - TAU) / (1 + y(0, t - TAU) ** 10) - 0.1 * y(0)]
    compare(
        "Mackey-Glass, tau = 17, to t = 10,000", Ours(mackey_glass, [TAU], 0.5), Peer(expression, 0.5),
        np.arange(1.0, 301.0), np.arange(10.0, 10_001.0, 10.0), (1e-3, 1e-5, 1e-7),
    )  # fmt: skip
    mean = float(DELAYS.mean())

    def family(gain: float) -> DelaySystem:
        return DelaySystem([[[-gain / mean / len(DELAYS)]]] * len(DELAYS), list(DELAYS))

    boundary = first_loss(family).value
    for share in (0.98, 1.02):
        gain = share * boundary / mean / len(DELAYS)

        def router(t: float, y: Any, ylag: Any, gain: float = gain) -> Any:
            total = 0.0
            for k in range(50):
                total += ylag[k, 0]
            return [-gain * total]

        expression = [-gain * sum(y(0, t - float(delay)) for delay in DELAYS)]
        compare(
            f"50 delays at {share} of the stability boundary, to t = 100", Ours(router, DELAYS, 1.0),
            Peer(expression, 1.0), np.arange(1.0, 11.0), np.arange(1.0, 101.0), (1e-4, 1e-7),
        )  # fmt: skip


if __name__ == "__main__":
    main()
