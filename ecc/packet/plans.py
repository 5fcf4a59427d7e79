"""Runs that differ only in their seed, prepared once.

To prepare a short packet run takes longer than to run it: protocols are checked, hooks looked up, tables filled in. The
last few plans are therefore kept, for networks of moderate size. A plan serves another run if the scenarios have the
same network object and workload object, and equal protocols and options, and if neither the protocols' classes nor the
functions and constants that their hooks reach have changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter, is_
from types import FunctionType
from typing import Any

from ecc.contract.class_entries import ClassEntries
from ecc.jit.reach import snapshot_of
from ecc.packet.prepare import prepare, with_seed
from ecc.packet.setup import Setup
from ecc.scenario import Scenario

__all__ = ["idle_runs", "prepared", "setup_of_plan"]

_MAX_PLANS, _MAX_SIZE = 8, 1_000
"""Number of plans kept, and the maximum number of links and flows of a network whose plan is kept."""
_OPTIONS = attrgetter(
    *(field.name for field in fields(Scenario) if field.name not in ("network", "workload", "seed", "duration"))
)
"""Fields of scenarios that are compared by value; setups do not depend on the duration."""


class _Plan:
    """The setup of a scenario, and all that it depends on."""

    def __init__(self, scenario: Scenario) -> None:
        protocols = scenario.deployment.protocols
        scenario.check_writable()
        self._scenario, self._setup = scenario, prepare(scenario)
        object.__setattr__(self._setup, "compiled", {"setup": self._setup, "idle": {}})
        self._entries = ClassEntries(protocols)
        self._draws_writes = len(self._setup.writes) > 0
        hooks = [hook for part in self._setup.parts for *_, hooks in part.sides() for hook in hooks.values()]
        self._sides = [
            (part.protocol, f"{side[:-1]}_hooks") for part in self._setup.parts for side, *_, its in part.sides() if its
        ]
        self._hooks = list(self._hooks_now())
        methods = [getattr(type(protocol), side) for protocol in protocols for side in ("link_hooks", "flow_hooks")]
        self._snapshot = snapshot_of(item for item in (*hooks, *methods) if isinstance(item, FunctionType))

    def _hooks_now(self) -> Iterator[object]:
        """Yield the hooks that protocols return now: a method may return other functions in each call."""
        for protocol, name in self._sides:
            yield from getattr(protocol, name)().values()

    def serves(self, scenario: Scenario) -> bool:
        """Return whether a run of another scenario has the same setup, except for its seed."""
        mine = self._scenario
        return (
            mine.network is scenario.network
            and mine.workload is scenario.workload
            and not self._draws_writes
            and _OPTIONS(mine) == _OPTIONS(scenario)
            and self._entries.are_current()
            and all(map(is_, self._hooks, self._hooks_now()))
            and self._snapshot.is_current()
        )

    @property
    def idle(self) -> dict[Any, Any]:
        """Finished runs by what they have in common with a run that may use them."""
        assert self._setup.compiled is not None
        runs: dict[Any, Any] = self._setup.compiled["idle"]
        return runs

    def setup(self, scenario: Scenario) -> Setup:
        """Return the setup of a run, with records of its own."""
        return with_seed(self._setup, scenario)


_plans: list[_Plan] = []
_lock = threading.Lock()


def prepared(scenario: Scenario, start: str = "empty", perturbation: float = 0.0) -> Setup:
    """Return the arrays and records of a run, like `prepare`, from a kept plan if there is one.

    Parameters
    ----------
    scenario, start, perturbation
        See `prepare`.

    Raises
    ------
    TypeError
        If the scenario cannot be saved with the result of the run.
    """
    if start != "empty" or perturbation != 0.0 or scenario.network.n_flows + scenario.network.n_links > _MAX_SIZE:
        scenario.check_writable()
        return prepare(scenario, start, perturbation)
    return (_kept(scenario) or _keep(_Plan(scenario))).setup(scenario)


def idle_runs(scenario: Scenario) -> dict[Any, Any] | None:
    """Return the finished runs of the plan that serves a scenario, which another run may use; None without a plan.

    Parameters
    ----------
    scenario : Scenario
    """
    plan = _kept(scenario)
    return None if plan is None else plan.idle


def setup_of_plan(scenario: Scenario) -> Setup | None:
    """Return the first setup of the plan that serves a scenario; None without a plan.

    Parameters
    ----------
    scenario : Scenario
    """
    plan = _kept(scenario)
    return None if plan is None else plan._setup


def _kept(scenario: Scenario) -> _Plan | None:
    """Return the kept plan that serves a scenario, which is then the last one to be forgotten."""
    with _lock:
        plan = next((plan for plan in _plans if plan.serves(scenario)), None)
    return None if plan is None else _keep(plan)


def _keep(plan: _Plan) -> _Plan:
    with _lock:
        if _plans and _plans[0] is plan:
            return plan
        _plans[:] = [plan, *(other for other in _plans if other is not plan)][:_MAX_PLANS]
    return plan
