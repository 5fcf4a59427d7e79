"""`ecc`: explicit congestion control, analyzed exactly, run as fluid and run as packets, from one definition.

The public names are here; everything is imported on first use, which keeps `import ecc` light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc.lazy import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ecc import (
        allocation,
        conform,
        demands,
        fluid,
        headers,
        linear,
        live,
        models,
        native,
        packet,
        plot,
        qlog,
        queues,
        stability,
        testing,
        tmix,
        transients,
    )
    from ecc.comparison import Comparison, compare
    from ecc.demands import Demand
    from ecc.errors import ConvergenceError, EccError, LinearizationError, NativeError, UndecidedError
    from ecc.linear import DelaySystem, SampledSystem
    from ecc.network import Flow, Link, Network, Pause
    from ecc.scenario import Scenario
    from ecc.stability.checked import linearize
    from ecc.sweeps import sweep
    from ecc.trajectory import Trajectory
    from ecc.workload import Arrivals, OnOff, Tmix, Workload

_HOME: dict[str, str | None] = {
    "Arrivals": "workload",
    "Comparison": "comparison",
    "ConvergenceError": "errors",
    "DelaySystem": "linear",
    "Demand": "demands",
    "EccError": "errors",
    "Flow": "network",
    "LinearizationError": "errors",
    "Link": "network",
    "NativeError": "errors",
    "Network": "network",
    "OnOff": "workload",
    "Pause": "network",
    "SampledSystem": "linear",
    "Scenario": "scenario",
    "Tmix": "workload",
    "Trajectory": "trajectory",
    "UndecidedError": "errors",
    "Workload": "workload",
    "compare": "comparison",
    "linearize": "stability.checked",
    "sweep": "sweeps",
}
_PACKAGES = (
    "allocation", "conform", "demands", "fluid", "headers", "impairments", "linear", "live", "models", "native",
    "packet", "plot", "qlog", "queues", "stability", "testing", "tmix", "transients",
)  # fmt: skip

__all__ = [
    "Arrivals", "Comparison", "ConvergenceError", "DelaySystem", "Demand", "EccError", "Flow", "LinearizationError",
    "Link", "NativeError", "Network", "OnOff", "Pause", "SampledSystem", "Scenario", "Tmix", "Trajectory",
    "UndecidedError", "Workload", "allocation", "compare", "conform", "demands", "fluid", "headers", "impairments",
    "linear", "linearize", "live", "models", "native", "packet", "plot", "qlog", "queues", "stability", "sweep",
    "testing", "tmix", "transients",
]  # fmt: skip


__getattr__, __dir__ = lazy(__name__, _HOME | dict.fromkeys(_PACKAGES))
