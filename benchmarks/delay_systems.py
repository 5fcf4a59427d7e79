"""Roots, verdicts and time responses of linear delay systems: ecc, tdcpy, QPmR, jitcdde and diffrax in one run.

    python benchmarks/delay_systems.py [docs/delay_systems_speed.svg]

A peer that is not installed is left out with one line (`pip install tdcpy qpmr jitcdde diffrax`). Times are CPU time
of one process, the best of some runs. Compilation, and the conversion of a system to the form of a peer, are not
counted. Errors are those against references of 50 digits: roots by Newton's method, their number by a certificate,
responses by power series on each interval of the delay (method of steps). QPmR gets a rectangle around the known roots,
and for verdicts uses its own. diffrax has no delays; it solves one interval
after another, with the dense solution of the last one as the delayed term. With a path, the work-precision figure is
drawn there, with its numbers in a JSON file of the same name.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

from ecc.fluid import solve_dde
from ecc.linear import DelaySystem
from ecc.linear.quasipolynomial import QuasiPolynomial

BITS = 200
LIMIT = 20  # seconds
HAS = {name: importlib.util.find_spec(name) is not None for name in ("tdcpy", "qpmr", "jitcdde", "diffrax")}
COLORS = {"ecc": "#1f77b4", "tdcpy": "#2ca02c", "QPmR": "#9467bd", "jitcdde": "#d62728", "diffrax": "#ff7f0e"}


def random_system(states: int) -> DelaySystem:
    """Return a system with three delays."""
    a = np.random.default_rng(4).normal(size=(4, states, states)) / np.sqrt(states)
    return DelaySystem([a[0] - 2.0 * np.eye(states), *(0.5 * a[1:])], [0.0, 0.4, 1.0, 1.7])


SYSTEMS = {
    "one state, one delay": (DelaySystem([-0.5, -2.0], [0.0, 1.0]), -3.0),
    "two states, two delays": (
        DelaySystem([[[0, 1], [-4.0, -0.4]], [[0, 0], [0.5, 0.1]], [[0, 0], [1.0, 0.3]]], [0.0, 0.3, 1.0]),
        -3.0,
    ),
    "five states, three delays": (random_system(5), -2.0),
}


class TooLongError(Exception):
    """A run took more than `LIMIT` seconds."""


def _stop(number: int, frame: Any) -> None:
    raise TooLongError


def timed(run: Callable[[], Any], runs: int = 5) -> tuple[Any, float]:
    """Return the result, and the CPU seconds of the fastest run; None and infinity if it takes longer than `LIMIT`."""
    best, result = np.inf, None
    signal.signal(signal.SIGALRM, _stop)
    try:
        for _ in range(runs):
            signal.alarm(LIMIT)
            begun = process_time()
            result = run()
            best = min(best, process_time() - begun)
    except TooLongError:
        return None, np.inf
    finally:
        signal.alarm(0)
    return result, best


# ---- roots and verdicts -----------------------------------------------------------------------------------


def ours(system: DelaySystem, line: float) -> Any:
    """Return all roots right of a line, with the proof of their number."""
    fresh = DelaySystem(system.matrices, system.delays)
    number = fresh.certify(line).unstable
    return fresh.roots(number) if number else np.zeros(0, complex)


def reference(system: DelaySystem, line: float) -> Any:
    """Return the roots right of a line in the upper half plane, from 60 digits."""
    from flint import acb, arb, ctx

    roots = ours(system, line)
    exact = QuasiPolynomial.of(system.characteristic_matrix)
    before, ctx.prec = ctx.prec, BITS
    out = []
    for start in roots[roots.imag >= 0.0].tolist():
        s = acb(start)
        for _ in range(6):
            value, slope = exact._taylor(s, arb(0), np.inf, 2)[0][:2]
            s = (s - value / slope).mid()
        out.append(complex(s))
    ctx.prec = before
    return np.array(out)


def by_tdcpy(system: DelaySystem, line: float, discretization: int | None = None) -> Callable[[], Any]:
    from tdcpy.rdde import RDDE
    from tdcpy.roots import roots

    options = {} if discretization is None else {"discretization": discretization}
    peer = RDDE(np.moveaxis(system.matrices, 0, -1).copy(), system.delays.copy())
    return lambda: np.atleast_1d(roots(peer, r=line, **options)[0])


def by_qpmr(system: DelaySystem, region: tuple[float, ...] | None, accuracy: float = 1e-6) -> Callable[[], Any]:
    from qpmr import qpmr

    exact = QuasiPolynomial.of(system.characteristic_matrix)
    coefficients = np.zeros((len(exact.terms), system.size + 1))
    for row, p in zip(coefficients, exact.terms.values(), strict=True):
        row[: len(p.coeffs())] = [float(c.p) / float(c.q) for c in p.coeffs()]
    delays = np.array([float(theta.p) / float(theta.q) for theta in exact.terms])
    if region is None:
        return lambda: np.asarray(qpmr(coefficients, delays, e=accuracy)[0])
    return lambda: np.asarray(qpmr(coefficients, delays, region=region, e=accuracy, grid_nbytes_max=2e9)[0])


def around(roots: Any, line: float) -> tuple[float, ...]:
    """Return a rectangle around known roots, which QPmR needs."""
    return line, float(roots.real.max()) + 0.5, 0.0, 1.1 * float(roots.imag.max()) + 1.0


def difference(found: Any, exact: Any, line: float) -> tuple[float, int, int]:
    """Return the largest relative error of roots in the upper half plane, and how many are missing or surplus."""
    found = np.asarray(found, complex) if found is not None else np.zeros(0, complex)
    found = found[(found.imag >= -1e-9) & (found.real > line)]
    if not len(found):
        return np.nan, len(exact), 0
    distance = np.abs(found[:, None] - exact) / np.abs(exact)
    near = distance.min(axis=0) < 1e-2
    surplus = int((distance.min(axis=1) > 1e-2).sum())
    return float(distance.min(axis=0)[near].max(initial=np.nan if not near.any() else 0.0)), int((~near).sum()), surplus


def roots() -> list[dict[str, Any]]:
    """Print all roots right of a line; return the points of the work-precision figure."""
    print(f"\n{'roots right of a line':28s} {'':8s} {'CPU [ms]':>9} {'ratio':>6} {'error':>8} missing surplus")
    points = []
    for name, (system, line) in SYSTEMS.items():
        exact = reference(system, line)
        runs: dict[str, Callable[[], Any]] = {"ecc": lambda s=system, at=line: ours(s, at)}
        if HAS["tdcpy"]:
            runs["tdcpy"] = by_tdcpy(system, line)
        if HAS["qpmr"]:
            runs["QPmR"] = by_qpmr(system, around(exact, line))
        base = None
        for tool, run in runs.items():
            found, seconds = timed(run, 5 if tool != "QPmR" else 2)
            base = base or seconds
            error, missing, surplus = difference(found, exact, line)
            title = f"{name} ({len(exact)})" if tool == "ecc" else ""
            times = f"{1e3 * seconds:9.2f} {seconds / base:6.1f}"
            print(f"{title:28s} {tool:8s} {times} {error:8.1e} {missing:7d} {surplus:7d}")
    system, line = SYSTEMS["five states, three delays"]
    exact = reference(system, line)
    sweeps = {"ecc": [lambda: ours(system, line)]}
    if HAS["tdcpy"]:
        sweeps["tdcpy"] = [by_tdcpy(system, line, n) for n in (6, 10, 15, 20, 30, 45)]
    if HAS["qpmr"]:
        sweeps["QPmR"] = [by_qpmr(system, around(exact, line), 10.0**-k) for k in (1, 6, 12)]
    for tool, several in sweeps.items():
        for run in several:
            found, seconds = timed(run, 3 if tool != "QPmR" else 1)
            error, missing, _ = difference(found, exact, line)
            print(f"{tool:8s} {1e3 * seconds:9.2f} ms, error {error:.1e}, {missing} missing")
            points.append({"tool": tool, "error": max(error, 1e-17), "seconds": seconds, "missing": missing})
    return points


def without_roots(run: Callable[[], Any]) -> bool:
    """Return whether a search finds no root right of the axis."""
    found = run()
    return found.shape == () or not (found.real > 0.0).any()


def verdicts() -> None:
    """Print times of verdicts: proven by ecc, by the roots right of the axis for the others."""
    print(f"\n{'verdict':28s} {'':8s} {'CPU [ms]':>9} {'ratio':>6}")
    for name, (system, _) in SYSTEMS.items():
        runs: dict[str, Callable[[], Any]] = {
            "ecc": lambda s=system: DelaySystem(s.matrices, s.delays).is_stable,
            "proof": lambda s=system: DelaySystem(s.matrices, s.delays).certify().stable,
        }
        if HAS["tdcpy"]:
            runs["tdcpy"] = partial(without_roots, by_tdcpy(system, 0.0))
        if HAS["qpmr"]:
            runs["QPmR"] = partial(without_roots, by_qpmr(system, None))
        base = None
        for tool, run in runs.items():
            answer, seconds = timed(run, 5 if tool != "QPmR" else 2)
            base = base or seconds
            print(f"{name if tool == 'ecc' else '':28s} {tool:8s} {1e3 * seconds:9.2f} {seconds / base:6.1f}  {answer}")


# ---- time responses ---------------------------------------------------------------------------------------

RESPONSES: dict[str, tuple[Any, Any, float, list[float], float]] = {
    "x' = -x(t - 1), to t = 30": ([[0.0]], [[-1.0]], 1.0, [1.0], 30.0),
    "oscillator with delayed feedback, to t = 60": (
        [[0.0, 1.0], [-1.0, -0.1]],
        [[0.0, 0.0], [0.3, 0.0]],
        2.0,
        [1.0, 0.0],
        60.0,
    ),
}
TOLERANCES = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)


def exact_response(a: Any, b: Any, delay: float, start: list[float], end: float) -> Any:
    """Return x at multiples of the delay, x' = a x + b x(t - delay) with a constant history, from 50 digits."""
    from flint import arb, ctx

    n, terms = len(start), 80
    before, ctx.prec = ctx.prec, BITS
    last = [[arb(x)] + [arb(0)] * (terms - 1) for x in start]
    out = [list(start)]
    for _ in range(round(end / delay)):
        series = [[_at(last[i], delay)] for i in range(n)]
        for k in range(terms - 1):
            step = [
                sum((arb(a[i][m]) * series[m][k] + arb(b[i][m]) * last[m][k] for m in range(n)), arb(0)) / (k + 1)
                for i in range(n)
            ]
            for i in range(n):
                series[i].append(step[i])
        last = series
        out.append([float(_at(row, delay).mid()) for row in last])
    ctx.prec = before
    return np.array(out)


def _at(series: list[Any], x: float) -> Any:
    """Return a power series at a point."""
    from flint import arb

    total = arb(0)
    for c in reversed(series):
        total = total * arb(x) + c
    return total


def response_by_ecc(a: Any, b: Any, delay: float, start: list[float], grid: Any) -> Callable[[float], Any]:
    if len(start) == 1:
        now, late = a[0][0], b[0][0]

        def f(t: float, y: Any, ylag: Any) -> Any:
            return (now * y[0] + late * ylag[0, 0],)
    else:
        (a00, a01), (a10, a11) = a
        (b00, b01), (b10, b11) = b

        def f(t: float, y: Any, ylag: Any) -> Any:
            return (
                a00 * y[0] + a01 * y[1] + b00 * ylag[0, 0] + b01 * ylag[0, 1],
                a10 * y[0] + a11 * y[1] + b10 * ylag[0, 0] + b11 * ylag[0, 1],
            )

    def run(tolerance: float) -> Any:
        return solve_dde(f, (0.0, grid[-1]), start, [delay], rtol=tolerance, atol=tolerance, t_eval=grid).y.T

    return run


def response_by_jitcdde(a: Any, b: Any, delay: float, start: list[float], grid: Any) -> Callable[[float], Any]:
    from jitcdde import jitcdde, t, y

    n = len(start)
    system = jitcdde(
        [sum(a[i][m] * y(m) + b[i][m] * y(m, t - delay) for m in range(n)) for i in range(n)], verbose=False
    )
    with TemporaryDirectory() as folder, chdir(folder):  # its build reads the pyproject.toml it finds
        system.compile_C(verbose=False)

    def run(tolerance: float) -> Any:
        system.purge_past()
        system.constant_past(start, time=0.0)
        system.reset_integrator()
        system.set_integration_parameters(rtol=tolerance, atol=tolerance, first_step=1e-3, min_step=1e-14)
        system.step_on_discontinuities()
        begun = system.t
        return np.array([system.integrate(at) if at > begun else [np.nan] * n for at in grid])

    return run


def response_by_diffrax(a: Any, b: Any, delay: float, start: list[float], grid: Any) -> Callable[[float], Any]:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    now, late = jnp.array(a), jnp.array(b)

    def interval(f: Any, args: Any, y: Any, tolerance: Any) -> Any:
        controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)
        return diffrax.diffeqsolve(
            diffrax.ODETerm(f),
            diffrax.Dopri8(),
            0.0,
            delay,
            None,
            y,
            args=args,
            max_steps=256,
            saveat=diffrax.SaveAt(t1=True, dense=True),
            stepsize_controller=controller,
        )

    first = jax.jit(lambda y, tol: interval(lambda t, x, h: now @ x + late @ h, y, y, tol))
    later = jax.jit(lambda past, y, tol: interval(lambda t, x, h: now @ x + late @ h.evaluate(t), past, y, tol))

    def run(tolerance: float) -> Any:
        y = jnp.array(start)
        out, solution = [y], first(y, tolerance)
        for _ in grid[1:]:
            y = solution.ys[0]
            out.append(y)
            if len(out) < len(grid):
                solution = later(solution.interpolation, y, tolerance)
        return np.array(out)

    return run


def responses() -> dict[str, list[dict[str, Any]]]:
    """Print errors and times of responses, and return them by problem."""
    makers = {"ecc": response_by_ecc}
    makers |= {"jitcdde": response_by_jitcdde} if HAS["jitcdde"] else {}
    makers |= {"diffrax": response_by_diffrax} if HAS["diffrax"] else {}
    panels: dict[str, list[dict[str, Any]]] = {}
    for title, (a, b, delay, start, end) in RESPONSES.items():
        grid = delay * np.arange(round(end / delay) + 1)
        exact = exact_response(a, b, delay, start, end)
        print(f"\n{title}\n{'':8s} {'tolerance':>9} {'error':>8} {'CPU [ms]':>9}")
        panels[title] = []
        for tool, make in makers.items():
            run = make(a, b, delay, start, grid)
            for tolerance in TOLERANCES:
                run(tolerance)  # compiles
                found, seconds = timed(lambda r=run, tol=tolerance: r(tol))
                error = float(np.nanmax(np.abs(found - exact)) / np.abs(exact).max())
                print(f"{tool:8s} {tolerance:9.0e} {error:8.1e} {1e3 * seconds:9.3f}", flush=True)
                panels[title].append({"tool": tool, "tolerance": tolerance, "error": error, "seconds": seconds})
    return panels


def draw(panels: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Write the work-precision figure, and its numbers beside it."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(panels), subplot_titles=list(panels))
    shown = set()
    for column, points in enumerate(panels.values(), start=1):
        for tool in dict.fromkeys(point["tool"] for point in points):
            mine = [point for point in points if point["tool"] == tool and not point.get("missing")]
            figure.add_scatter(
                x=[point["error"] for point in mine],
                y=[1e3 * point["seconds"] for point in mine],
                name=tool,
                mode="lines+markers" if len(mine) > 1 else "markers",
                line_color=COLORS[tool],
                showlegend=tool not in shown,
                row=1,
                col=column,
            )
            shown.add(tool)
    figure.update_xaxes(type="log", title="relative error", exponentformat="power", dtick=3)
    figure.update_yaxes(type="log", exponentformat="power", dtick=1, showgrid=True)
    figure.update_xaxes(dtick=1, col=1)
    figure.update_yaxes(title="CPU time [ms]", col=1)
    figure.update_annotations(font_size=13)
    figure.update_layout(width=1150, height=400, template="simple_white", margin={"t": 40, "r": 20})
    figure.write_image(path)
    path.with_suffix(".json").write_text(json.dumps(panels, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", type=Path, help="figure to be written, with a JSON file of its numbers")
    path = parser.parse_args().path
    warnings.simplefilter("ignore")
    for name, installed in HAS.items():
        if not installed:
            print(f"{name} is not installed: left out")
    print(f"load of the machine (1 min): {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    panels = {"15 roots, five states and three delays": roots()}
    verdicts()
    panels |= responses()
    print(f"\nload of the machine (1 min): {os.getloadavg()[0]:.1f}")
    if path:
        draw(panels, path)


if __name__ == "__main__":
    main()
