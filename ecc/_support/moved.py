"""Modules that have moved into rooms keep their former import paths.

`from ecc.quantity import TIME` and `import ecc.transients` import the module from its room. Both paths lead to the same
module object, so that classes and module state exist once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

__all__ = ["HOMES", "install"]

_ROOMS = {
    "_support": (
        "arguments", "cache", "digests", "display", "files", "lazy", "memory", "quantity", "reports", "store",
        "workers",
    ),
    "batch": ("cluster", "snakefile", "sweeps"),
    "comparison": ("agreement",),
    "formats": ("headers", "hpcc", "qlog"),
    "loops": ("closed_loop",),
    "network": ("allocation", "applications", "demands", "fabric", "flow_sizes", "impairments"),
    "packet": ("dissector",),
    "results": ("metrics", "trajectory", "transients"),
    "traffic": ("tmix", "workload"),
}  # fmt: skip
HOMES: Mapping[str, str] = {
    **{f"ecc.{name}": f"ecc.{room}.{name}" for room, names in _ROOMS.items() for name in names},
    **{f"ecc.models.{name}": f"ecc.contract.{name}" for name in ("packet_hooks", "records")},
    "ecc.models.declared": "ecc.contract.entries",
    "ecc.models.protocol_assignment": "ecc.contract.assignment",
    "ecc.marking_loop": "ecc.loops.marked_hosts",
    "ecc.paced_loop": "ecc.loops.paced_windows",
    "ecc.rate_loop": "ecc.loops.host_rates",
    "ecc.stability.target_cycles": "ecc.cycles.target_cycles",
    "ecc.window_loop": "ecc.loops.ack_clocked_windows",
}
"""Former name of a module -> its name now."""


class _Moved:
    """Finds and loads modules under their former names.

    It has no base class: `importlib.abc` imports `importlib.resources`, a fifth of the time of `import ecc`.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, cast("Loader", self)) if fullname in HOMES else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns the module that `sys.modules` has when this returns.
        name = module.__name__
        sys.modules[name] = import_module(HOMES[name])


def install() -> None:
    """Let the former names be imported."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
