"""Points a second of `stability_map`, beside numpy.roots at every point, from one run.

    python benchmarks/maps.py [--side 1000]

The peer solves the dense eigenproblem of the characteristic polynomial, whose coefficients are handed to it ready made;
it says nothing about continuous time. Times are wall time; the map uses as many threads as there are cores.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ecc import Network
from ecc.linear import SampledSystem
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP
from ecc.stability import stability_map

_SAMPLE = 300


def cases(side: int) -> dict[str, tuple]:
    """Protocol, network and grid of each map."""
    two = Network.dumbbell("1 Gb/s", [0.1, 0.2])
    return {
        "PIQI-RCP, alpha x tau1": (
            PIQIRCP(),
            two,
            {"alpha": np.linspace(0.02, 4.0, side), "tau1": np.linspace(0.005, 1.5, side)},
        ),
        "PIQI-RCP, tau1 x tau2": (
            PIQIRCP(),
            two,
            {"tau1": np.linspace(0.01, 1.5, side), "tau2": np.linspace(0.0, 1.0, side)},
        ),
        "RCP, alpha x beta": (RCP(), two, {"alpha": np.linspace(0.02, 2.0, side), "beta": np.linspace(0.0, 1.0, side)}),
        "QI-RCP, alpha, RTT of 100 and 200 intervals": (
            QIRCP(),
            Network.dumbbell("1 Gb/s", [1.0, 2.0]),
            {"alpha": np.linspace(0.02, 4.0, side)},
        ),
    }


def polynomial(system: SampledSystem) -> np.ndarray:
    """Coefficients of det(z - sum A_k z^-m_k), highest power first, by evaluation on the circle."""
    degree = system.size * (int(system.delays[-1]) + 1)
    z = np.exp(2j * np.pi * np.arange(degree + 1) / (degree + 1))
    values = system.characteristic(z) * z ** (degree - system.size)
    return np.fft.fft(values).real[::-1] / (degree + 1)


def peer(protocol: object, network: Network, grid: dict, kind: str, map_: object) -> tuple[float, float]:
    """Points a second of numpy.roots on a sample, and its largest difference from the map."""
    rng = np.random.default_rng(0)
    spent = off = 0.0
    for _ in range(_SAMPLE):
        at = {name: int(rng.integers(len(values))) for name, values in grid.items()}
        here = replace(protocol, **{name: float(grid[name][k]) for name, k in at.items()})
        coefficients = polynomial(linearize(here, network, kind))
        start = time.perf_counter()
        radius = float(np.abs(np.roots(coefficients)).max())
        spent += time.perf_counter() - start
        off = max(off, abs(radius - float(map_.isel(at))))
    return _SAMPLE / spent, off


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1000, help="points along each parameter")
    side = parser.parse_args().side
    for name, (protocol, network, grid) in cases(side).items():
        for kind in ("discrete", "continuous", "hybrid"):
            start = time.perf_counter()
            map_ = stability_map(protocol, network, grid, time=kind)
            spent = time.perf_counter() - start
            line = f"{name:44s} {kind:10s} {map_.size:8d} points {spent:6.2f} s {map_.size / spent:9.0f} points/s"
            if kind == "continuous":
                print(f"{line}   numpy.roots: -", flush=True)
                continue
            rate, off = peer(protocol, network, grid, kind, map_)
            ratio = map_.size / spent / rate
            print(f"{line}   numpy.roots {rate:.0f} points/s   ratio {ratio:.0f}   differ by {off:.0e}", flush=True)


if __name__ == "__main__":
    main()
