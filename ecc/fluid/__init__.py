"""The fluid engine: a solver of delay differential equations, and the papers' recurrences and fluids made from laws."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOME = {
    "DdeResult": "dde",
    "DdeSolution": "dde",
    "PeriodicOrbit": "periodic",
    "ensemble": "ensembles",
    "periodic_orbit": "periodic",
    "simulate": "run",
    "solve_dde": "dde",
    "solve_ensemble": "ensembles",
}


def __getattr__(name: str) -> Any:  # on use: `ecc.fluid.ahead` compiles the kernels where the rest is not installed
    if name in _HOME:
        value = getattr(import_module(f"ecc.fluid.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ecc.fluid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
