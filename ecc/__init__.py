"""`ecc`: explicit congestion control, analyzed exactly, run as fluid and run as packets, from one definition.

`dir(ecc)` lists the main classes, functions and rooms. Each is imported on first use, which keeps `import ecc` light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy
from ecc._support.moved import install

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ecc import conform, fluid, linear, live, models, packet, plot, queues, rl, stability, testing
    from ecc import native as native
    from ecc.batch.sweeps import sweep, sweep_means
    from ecc.comparison import Comparison, compare
    from ecc.engines import simulate
    from ecc.errors import ConvergenceError, EccError, LinearizationError, NativeError, UndecidedError
    from ecc.explorer.widget import explore
    from ecc.formats import headers as headers
    from ecc.formats import qlog as qlog
    from ecc.linear import DelaySystem, SampledSystem
    from ecc.loops.options import LinearOptions
    from ecc.network import Flow, Link, Network, Pause, allocation
    from ecc.network import applications as applications
    from ecc.network import demands as demands
    from ecc.network import impairments as impairments
    from ecc.network.demands import Demand
    from ecc.results import metrics
    from ecc.results import transients as transients
    from ecc.results.trajectory import Trajectory
    from ecc.scenario import Scenario
    from ecc.stability.checked import critical_gain, linearize
    from ecc.traffic import tmix as tmix
    from ecc.traffic.workload import Arrivals, OnOff, Tmix, Workload

_HOMES: dict[str, str | None] = {
    "Arrivals": "traffic.workload",
    "Comparison": "comparison",
    "ConvergenceError": "errors",
    "DelaySystem": "linear",
    "Demand": "network.demands",
    "EccError": "errors",
    "Flow": "network",
    "LinearizationError": "errors",
    "LinearOptions": "loops.options",
    "Link": "network",
    "NativeError": "errors",
    "Network": "network",
    "OnOff": "traffic.workload",
    "Pause": "network",
    "SampledSystem": "linear",
    "Scenario": "scenario",
    "Tmix": "traffic.workload",
    "Trajectory": "results.trajectory",
    "UndecidedError": "errors",
    "Workload": "traffic.workload",
    "compare": "comparison",
    "critical_gain": "stability.checked",
    "explore": "explorer.widget",
    "linearize": "stability.checked",
    "simulate": "engines",
    "sweep": "batch.sweeps",
    "sweep_means": "batch.sweeps",
}
_ROOMS = (
    "allocation",
    "conform",
    "fluid",
    "linear",
    "live",
    "metrics",
    "models",
    "packet",
    "plot",
    "queues",
    "rl",
    "stability",
    "testing",
)
_PARTS = ("applications", "demands", "headers", "impairments", "native", "qlog", "tmix", "transients")
"""Modules of other rooms, which also have a name of their own here. `dir(ecc)` does not list them."""

__all__ = [
    "Arrivals", "Comparison", "ConvergenceError", "DelaySystem", "Demand", "EccError", "Flow", "LinearOptions",
    "LinearizationError", "Link", "NativeError", "Network", "OnOff", "Pause", "SampledSystem", "Scenario", "Tmix",
    "Trajectory", "UndecidedError", "Workload", "allocation", "compare", "conform", "critical_gain", "explore",
    "fluid", "linear", "linearize", "live", "metrics", "models", "packet", "plot", "queues", "rl", "simulate",
    "stability", "sweep", "sweep_means", "testing",
]  # fmt: skip


install()
__getattr__, __dir__ = lazy(__name__, _HOMES | dict.fromkeys((*_ROOMS, *_PARTS)), hidden=_PARTS)
