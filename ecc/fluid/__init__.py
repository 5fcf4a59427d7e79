"""The fluid engine: a solver of delay differential equations, and the papers' recurrences and fluids made from laws."""

from __future__ import annotations

from ecc.fluid.dde import DdeResult, DdeSolution, solve_dde
from ecc.fluid.ensembles import ensemble, solve_ensemble
from ecc.fluid.periodic import PeriodicOrbit, periodic_orbit
from ecc.fluid.run import simulate

__all__ = [
    "DdeResult",
    "DdeSolution",
    "PeriodicOrbit",
    "ensemble",
    "periodic_orbit",
    "simulate",
    "solve_dde",
    "solve_ensemble",
]
