"""The fluid engine: a solver of delay differential equations, and recurrences and fluid models built from laws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy

if TYPE_CHECKING:
    from ecc.fluid.dde.linear_responses import (
        forced_response,
        impulse_response,
        initial_response,
        linearize_dde,
        step_response,
    )
    from ecc.fluid.dde.periodic import PeriodicOrbit, periodic_orbit
    from ecc.fluid.dde.solver import DdeResult, DdeSolution, solve_dde
    from ecc.fluid.ensembles import ensemble, solve_ensemble
    from ecc.fluid.network.simulation import simulate

__all__ = [
    "DdeResult",
    "DdeSolution",
    "PeriodicOrbit",
    "ensemble",
    "forced_response",
    "impulse_response",
    "initial_response",
    "linearize_dde",
    "periodic_orbit",
    "simulate",
    "solve_dde",
    "solve_ensemble",
    "step_response",
]

_HOME = {
    "DdeResult": "dde.solver",
    "DdeSolution": "dde.solver",
    "PeriodicOrbit": "dde.periodic",
    "ensemble": "ensembles",
    "forced_response": "dde.linear_responses",
    "impulse_response": "dde.linear_responses",
    "initial_response": "dde.linear_responses",
    "linearize_dde": "dde.linear_responses",
    "periodic_orbit": "dde.periodic",
    "simulate": "network.simulation",
    "solve_dde": "dde.solver",
    "solve_ensemble": "ensembles",
    "step_response": "dde.linear_responses",
}


# lazy, because `ecc.fluid.ahead` compiles the kernels before the package is installed
__getattr__, __dir__ = lazy(__name__, _HOME)
