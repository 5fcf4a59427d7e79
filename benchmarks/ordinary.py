"""Equations without delay: solve_dde against diffrax's Dopri5 at equal error (`python benchmarks/ordinary.py`).

Van der Pol's oscillator to t = 1000. CPU time of the fastest of seven runs, compilation not counted; each solver's
tolerances are those of the table. f returns a tuple, or a new array of numbers, which is not allocated.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from ecc.fluid import solve_dde

END = 1000.0
START = [2.0, 0.0]
TOLERANCES = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


def returning_array(t: float, y: Any, ylag: Any) -> Any:
    return np.array([y[1], (1.0 - y[0] * y[0]) * y[1] - y[0]])


def returning_tuple(t: float, y: Any, ylag: Any) -> Any:
    return y[1], (1.0 - y[0] * y[0]) * y[1] - y[0]


def ours(f: Any, tolerance: float) -> Any:
    return solve_dde(f, (0.0, END), START, [], rtol=tolerance, atol=tolerance, t_eval=[END]).y[:, -1]


def peer(tolerance: float) -> Callable[[], Any]:
    """Return a compiled run of diffrax."""
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def f(t: Any, y: Any, args: Any) -> Any:
        return jnp.array([y[1], (1.0 - y[0] * y[0]) * y[1] - y[0]])

    controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)

    @jax.jit
    def solve(y: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(f), diffrax.Dopri5(), 0.0, END, None, y, stepsize_controller=controller, max_steps=10**6
        ).ys

    return lambda: np.asarray(jax.block_until_ready(solve(jnp.array(START)))[0])


def report(name: str, tolerance: float, run: Callable[[], Any], reference: Any) -> None:
    """Print the error and the CPU time of a run."""
    error = np.abs(run() - reference).max()
    times = []
    for _ in range(7):
        begun = process_time()
        run()
        times.append(process_time() - begun)
    print(f"{name:16s} {tolerance:6.0e} {error:8.1e} {1e3 * min(times):7.2f} ms", flush=True)


def main() -> None:
    reference = ours(returning_array, 1e-13)
    for tolerance in TOLERANCES:
        report("ecc, array", tolerance, lambda tol=tolerance: ours(returning_array, tol), reference)
        report("ecc, tuple", tolerance, lambda tol=tolerance: ours(returning_tuple, tol), reference)
        report("diffrax", tolerance, peer(tolerance), reference)


if __name__ == "__main__":
    main()
