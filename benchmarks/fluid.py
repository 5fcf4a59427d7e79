"""Fluid engine beside jitcdde at equal error: ours, the peer's and the ratio in one run (`python benchmarks/fluid.py`).

Mackey-Glass (tau = 17) is chaotic, so errors are compared on [0, 300], before they grow beyond all bounds, and the time
is that to t = 10,000. The system of 50 delays is an RCP-like router, R' = -(alpha/d) mean R(t - D_i), at 0.98 and 1.02
of its stability boundary, to t = 100, errors on [0, 10]. Compilations are not counted.

With a path (`python benchmarks/fluid.py work_precision.svg`) it draws the work-precision figure, numbers beside it.
"""

from __future__ import annotations

import json
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from ecc.fluid import solve_dde
from ecc.linear import DelaySystem
from ecc.linear.stability_limits import stability_limit

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


TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def compare(title: str, ours: Ours, peer: Peer, check: Any, grid: Any) -> dict[str, Any]:
    """Print both at each of the peer's tolerances, ours at one that errs no more; runs of both alternate."""
    reference, _ = ours.run(1e-13, check)
    scale = np.sqrt(np.mean(reference**2))

    def error(solver: Any, tolerance: float) -> float:
        values, _ = solver.run(tolerance, check)
        return float(np.sqrt(np.nanmean((values - reference) ** 2)) / scale)

    print(f"\n{title}\n{'error':>10} {'ecc [s]':>10} {'jitcdde [s]':>12} {'ratio':>7}")
    rows = []
    for tolerance in TOLERANCES:
        target = error(peer, tolerance)
        mine = 1e-1
        while error(ours, mine) > target and mine > 1e-13:
            mine /= 2.0**0.5
        seconds = [np.inf, np.inf]
        for _ in range(5):
            for which, (solver, at) in enumerate(((ours, mine), (peer, tolerance))):
                seconds[which] = min(seconds[which], solver.run(at, grid)[1])
        print(f"{target:10.1e} {seconds[0]:10.4f} {seconds[1]:12.4f} {seconds[1] / seconds[0]:7.1f}")
        rows.append({"ecc": [error(ours, mine), seconds[0]], "jitcdde": [target, seconds[1]]})
    return {"title": title, "points": rows}


def draw(panels: list[dict[str, Any]], path: Path) -> None:
    """Write the work-precision figure, and its numbers beside it."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(panels), subplot_titles=[panel["title"] for panel in panels])
    for column, panel in enumerate(panels, start=1):
        for name, color, symbol in (("ecc", "#1f77b4", "circle"), ("jitcdde", "#d62728", "square")):
            error, seconds = zip(*(point[name] for point in panel["points"]), strict=True)
            figure.add_scatter(
                x=error,
                y=seconds,
                name=name,
                mode="lines+markers",
                line_color=color,
                marker_symbol=symbol,
                showlegend=column == 1,
                row=1,
                col=column,
            )
    figure.update_xaxes(type="log", title="relative error", exponentformat="power", dtick=1)
    figure.update_yaxes(type="log", exponentformat="power", dtick=1, range=[-3.1, -0.5], showgrid=True)
    figure.update_yaxes(title="CPU time [s]", col=1)
    figure.update_annotations(font_size=13)
    figure.update_layout(width=1150, height=400, template="simple_white", margin={"t": 40, "r": 20})
    figure.write_image(path)
    path.with_suffix(".json").write_text(json.dumps(panels, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run all problems; with a path, draw the figure there."""
    from jitcdde import t, y

    expression = [0.2 * y(0, t - TAU) / (1 + y(0, t - TAU) ** 10) - 0.1 * y(0)]
    panels = [
        compare(
            "Mackey-Glass, tau = 17, to t = 10,000",
            Ours(mackey_glass, [TAU], 0.5),
            Peer(expression, 0.5),
            np.arange(1.0, 301.0),
            np.arange(10.0, 10_001.0, 10.0),
        )
    ]
    mean = float(DELAYS.mean())

    def family(gain: float) -> DelaySystem:
        return DelaySystem([[[-gain / mean / len(DELAYS)]]] * len(DELAYS), list(DELAYS))

    boundary = stability_limit(family).value
    for share in (0.98, 1.02):
        gain = share * boundary / mean / len(DELAYS)

        def router(t: float, y: Any, ylag: Any, gain: float = gain) -> Any:
            total = 0.0
            for k in range(50):
                total += ylag[k, 0]
            return [-gain * total]

        expression = [-gain * sum(y(0, t - float(delay)) for delay in DELAYS)]
        panels.append(
            compare(
                f"50 delays at {share} of the boundary, to t = 100",
                Ours(router, DELAYS, 1.0),
                Peer(expression, 1.0),
                np.arange(1.0, 11.0),
                np.arange(1.0, 101.0),
            )
        )
    if len(sys.argv) > 1:
        draw(panels, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
